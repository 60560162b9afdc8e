//! Periodic load balancing: at ticks, every CPU compares itself with the other CPUs of its domains
//! and pulls tasks from those that have too many. A CPU that is about to go idle does the same at
//! once ([`newidle`]).
//!
//! A *domain* is a level of the machine around a CPU ([`Distance`]): its core, its cache, its
//! socket, the machine. The *groups* of a domain are the domains of the level below. The first idle
//! CPU of a group balances for it, or its first CPU if none is idle.
//!
//! [`imbalance`](super::imbalance) decides which CPU has too many tasks, and how many. This module
//! moves them:
//!
//! * **Interval.** A level is balanced every n milliseconds, where n is its number of CPUs; at half
//!   that rate while it is balanced, and at 1/16 of the rate by a busy CPU. Since 5.6 one that runs
//!   only SCHED_IDLE tasks is not busy (`sched_idle_balance`), and balances at the first tick after
//!   the last other fair task has left.
//! * **Cache-hot tasks.** A task that ran less than `migration_cost_ns` ago stays, until balancing
//!   has failed more than a few times.
//! * **Eligible tasks.** Since 6.14 a task that has had more than its share stays, if others are
//!   queued on the taking CPU and the level has not failed (`balance_eligible`).
//! * **Heavy tasks.** A task with more load than the imbalance stays. Every failure halves the load
//!   that is compared. Before 5.5 (`fair_balance`) half of it was compared, always.
//! * **Order.** At most `nr_migrate` tasks are examined, and at most as many as are running there;
//!   the stalest first. Throttled tasks are examined too and do not run, so where a group's queue
//!   is throttled whole they can hide a task that waits.
//! * **Failures.** A round at a tick that moves no task counts as a failure. A round that moves a
//!   task or finds the level balanced resets the count, also the round of a CPU that goes idle.
//!
//! **Active balance.** Two tasks on the threads of one core next to an idle core are an imbalance,
//! but neither of them waits, so there is no waiting task to move. If an imbalance is counted in
//! tasks (before 5.5: in load) and more than `cache_nice_tries` + 2 rounds could not move a waiting
//! task, the running task is moved: its CPU is asked to schedule, leaves the task as one that is
//! not allowed to stay ([`Left::Displaced`](crate::Left)), and the task is placed on the CPU that
//! asked.
//!
//! ```text
//!   taker: round fails again ----- both run queues held: [`ActivePush`] noted, kick ---> giver
//!   giver: leave, same stay of the same task -> Displaced, bound for the taker ---> wake there [1]
//!          leave, anything else              -> the note is dropped
//!   [1] the failures of the level are reset
//! ```
//!
//! **Affinity.** A task that is not allowed on the balancing CPU can be allowed on another CPU of
//! its group; then the round continues there. If that does not help, the domain is marked *uneven*
//! for the domain above, which then moves tasks whatever the sums are.
//!
//! **Idle CPUs.** An idle CPU with a stopped tick cannot balance by itself. A busy CPU sends it an
//! interrupt ([`Work::IdleBalance`]) if a task waits on the busy CPU, or if several CPUs of its
//! core or cache are busy. The idle CPU passes the interrupt on to the next idle CPU while tasks
//! wait anywhere.
//!
//! An isolated CPU (`isolcpus`) is in no domain: it neither pulls tasks nor are tasks pulled from
//! it.
//!
//! With passive `rt_balance` waiting RT tasks are moved too, before the fair ones and in the order
//! of their queue; each weighs twice the heaviest nice level. This ignores the task that runs on
//! the taking CPU, which was the flaw of passive balancing. Active balance moves running RT tasks
//! too, below priority 99: that is the `migration` thread's own.
//!
//! Work: O(1) at a tick; when an interval is over, O(CPUs of the domain), and the same again for
//! every CPU that has no task that is allowed here.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_balance_domains`, `sched_balance_rq`,
//! `sched_balance_update_blocked_averages`, `detach_tasks` (`loop_max` since v3.4; v3.2 passed over
//! throttled queues without a count, its preset does not), `can_migrate_task` (v6.14:
//! `task_is_ineligible_on_dst_cpu`),
//! `need_active_balance`, `active_load_balance_cpu_stop`, `nohz_balancer_kick`; Linux v2.6.23
//! `kernel/sched.c`, `balance_tasks`, `move_one_task` (RT tasks). differs: active balance moves the
//! running task; the kernel's stopper preempts that task and then moves the stalest task that is
//! allowed to go. One idle CPU does not balance on behalf of another; it sends it an interrupt.

use crate::balance::fair::imbalance::find_imbalance;
use crate::balance::fair::{cache_aware, capacity_search, idle_cpu, newidle, uneven};
use crate::class::fair::load::task_load;
use crate::class::fair::{capacity, groups, load, misfit, throttle};
use crate::entity::fair::{EntityRef, QueueIx};
use crate::entity::weight::RT_LOAD;
use crate::lifecycle;
use crate::queue::fair::balance::ActivePush;
use crate::queue::fair::eevdf;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::ids::Slot;
use crate::words::level::{LEVELS, nice_tries};
use crate::words::life::{Bound, Engaged, Leave};
use crate::words::op::{Op, Work};
use crate::words::resched::Resched;
use crate::words::step::{Balance, BalanceKind, Imbalance, PairCont, Step};
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::{FairAlgorithm, FairHierarchy};
use zerolag_model::{
    ClassId, CpuId, Distance, Duration, Instant, MigrateReason, Prio, RtPriority, Settings, TraceEvent,
};

/// How much less often a busy CPU balances (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// Handles a tick: balances the levels that are due, at most one of them with a partner, and wakes
/// an idle CPU if a task waits here.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if cx.shared.nr_cpus() == 1 || !rq.is_online() || rq.is_isolated() {
        return Step::Done;
    }
    // Computed once: as separate questions these are a tenth of a tick.
    let fair = rq.fair.nr_running();
    let has_waiting = fair > 1 || rq.has_waiting(cx.config.settings.rt_balance.is_passive());
    let has_running = fair > 0 || rq.has_running();
    let alone_matters = rq.fair.balance.has_parts | rq.fair.balance.is_pressed;
    if (has_waiting || alone_matters) && cx.config.settings.nohz {
        if rq.fair.asymmetric.is_some() {
            misfit::update(rq, cx);
        }
        if cx.now.wall >= rq.fair.balance.next_kick {
            kick_idle(rq, cx, has_waiting, has_running);
        }
    }
    // A CPU that has become idle does not wait for the end of an interval of a busy one
    // (`sched_balance_newidle`, `next_balance`).
    let keeps_to_next = has_running || !rq.fair.balance.next_is_busy || cx.config.settings.idle_busy_interval;
    if cx.now.wall < rq.fair.balance.next && keeps_to_next {
        return Step::Done;
    }
    let kind = if has_running { BalanceKind::Periodic } else { BalanceKind::Idle };
    balance_due(rq, cx, kind)
}

/// Handles a request to an idle CPU to look for work.
pub(crate) fn idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.has_running() || !rq.is_online() {
        pass_on(rq, cx);
        return Step::Done;
    }
    let step = balance_due(rq, cx, BalanceKind::Idle);
    if step == Step::Done {
        pass_on(rq, cx);
    }
    step
}

/// Kicks one idle CPU to balance: the lowest-numbered if a task waits here or the classes above
/// take much of this CPU; the lowest with more capacity if a misfit runs here; otherwise one on a
/// less busy core or cache.
fn kick_idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, has_waiting: bool, has_running: bool) {
    if !has_running || !cx.view().has_idle() {
        return;
    }
    let is_pressed = rq.fair.balance.is_pressed && rq.fair.nr_running() > 0;
    let any = has_waiting || is_pressed;
    let to = if any { first_idle(rq, cx) } else { capacity_search::find_stronger(rq, cx) };
    match to {
        Some(cpu) => {
            rq.fair.balance.next_kick = cx.jiffies(rq.fair.tune.tick) + rq.fair.tune.tick;
            if asks_cores_first(cx) {
                cx.shared.publish_asked_first(if any { cpu } else { CpuId(0) });
            }
            send(rq, cx, cpu);
            kick_wanted(rq, cx, Some(cpu));
        }
        None if rq.fair.balance.has_parts && rq.fair.asymmetric.is_none() => kick_apart(rq, cx),
        None => {}
    }
}

/// Returns the lowest idle CPU of the domain; with `nohz_idle_core` the lowest on an idle core, if
/// there is one (`find_new_ilb`). O(1), or O(idle CPUs).
fn first_idle<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Option<CpuId> {
    let first = cx.view().next_idle_in_domain(rq.cpu(), CpuId(0))?;
    if !asks_cores_first(cx) {
        return Some(first);
    }
    let mut from = first;
    while let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu(), from) {
        cx.io.costs.cpus_scanned += 1;
        if idle_cpu::is_on_idle_core(cx, cpu) {
            return Some(cpu);
        }
        from = CpuId(cx.config.topology.span(cpu, Distance::Smt).end);
    }
    Some(first)
}

/// Kicks an idle CPU although no task waits here. If several CPUs of the core are busy, it is the
/// lowest CPU of an idle core. If several CPUs of the cache are busy and there are other caches, it
/// is the lowest idle CPU there; with `smt_balance`, preferably one on an idle core. At most once
/// in n milliseconds, where n is the number of CPUs of the cache. O(idle CPUs + CPUs of the cache).
///
/// differs: the kernel wakes the first idle CPU, which balances for all the others, even where no
/// core is shared.
fn kick_apart<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let [core, cache] = [Distance::Smt, Distance::Llc].map(|distance| cx.config.topology.span(rq.cpu(), distance));
    let nr_cpus = cx.view().nr_in_domain(rq.cpu(), cache.clone());
    rq.fair.balance.next_kick = cx.jiffies(rq.fair.tune.tick) + Duration::from_millis(u64::from(nr_cpus));
    if asks_cores_first(cx) {
        cx.shared.publish_asked_first(CpuId(0));
    }
    // CPUs that are offline or in other partitions are in no domain of this CPU.
    let mut is_busy = |cpu: &CpuId| cx.view().takes_part(rq.cpu(), *cpu) && !cx.view().is_idle(*cpu);
    let [core_busy, cache_busy] = [&core, &cache].map(|span| span.clone().map(CpuId).filter(&mut is_busy).count());
    if core_busy > 1 || cache_busy > 1 {
        kick_wanted(rq, cx, None);
    }
    let (mut from, mut thread) = (CpuId(0), None);
    while let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu(), from).filter(|_| core_busy > 1 || cache_busy > 1) {
        cx.io.costs.cpus_scanned += 1;
        let is_idle_core = idle_cpu::is_on_idle_core(cx, cpu);
        let is_elsewhere = cache_busy > 1 && !cache.contains(&cpu.0);
        if is_idle_core && (core_busy > 1 || is_elsewhere) || is_elsewhere && !cx.config.settings.smt_balance {
            send(rq, cx, cpu);
            return;
        }
        thread = thread.or(Some(cpu).filter(|_| is_elsewhere));
        from = CpuId(cpu.0 + 1);
    }
    if let Some(cpu) = thread {
        send(rq, cx, cpu);
    }
}

/// Kicks an idle CPU under every cache that strayed tasks prefer, but for the one that is kicked
/// already. O(caches).
#[inline]
fn kick_wanted<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, but: Option<CpuId>) {
    let mut cache = 0;
    while rq.fair.tune.gathers
        && let Some((cpu, next)) = cache_aware::next_wanted(rq, cx, cache)
    {
        if Some(cpu) != but {
            send(rq, cx, cpu);
        }
        cache = next;
    }
}

/// Passes the request on to the next idle CPU, upwards and around to the CPU that was asked first,
/// while tasks wait anywhere.
fn pass_on<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    if cx.view().next_waiting(CpuId(0)).is_none() {
        return;
    }
    let (own, first) = (rq.cpu(), if asks_cores_first(cx) { cx.view().asked_first() } else { CpuId(0) });
    let above = cx.view().next_idle_in_domain(own, CpuId(own.0 + 1));
    let next = match above {
        Some(cpu) if own >= first || cpu < first => Some(cpu),
        Some(_) => None,
        None if own >= first => cx.view().next_idle_in_domain(own, CpuId(0)).filter(|cpu| *cpu < first),
        None => None,
    };
    if let Some(cpu) = next {
        send(rq, cx, cpu);
    }
}

/// Returns whether idle CPUs on idle cores are asked to balance before the others.
fn asks_cores_first<L: RawMutex>(cx: &Cx<'_, L>) -> bool {
    let [.., smt] = cx.config.topology.shape();
    smt > 1 && cx.config.settings.nohz_idle_core
}

fn send<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, to: CpuId) {
    let work = Work::IdleBalance;
    cx.io.op(Op::Ipi { cpu: to, work });
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::IpiSend { to, reason: work.reason() });
}

/// Balances the levels that are due, near to far, until one needs a partner. The round after that
/// begins with the levels above it: otherwise an imbalance that stays, such as a task that may not
/// move, would keep the levels above from their turn for as long as its own interval is not longer
/// than a tick. The kernel balances all of them in one softirq.
fn balance_due<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: BalanceKind) -> Step {
    rq.fair.balance.is_pressed = capacity::publish(rq, cx);
    // While real-time tasks run, nothing else updates the averages of the fair ones.
    load::follow(rq, cx);
    rq.note(Unpublished::AVERAGES);
    rq.publish(cx);
    // Intervals are counted from the last tick, so that neither a late tick nor a round between
    // ticks delays the next round by one more tick.
    let now = cx.jiffies(rq.fair.tune.tick);
    let mut next = Instant::FAR_FUTURE;
    let is_busy = kind == BalanceKind::Periodic && !(cx.config.settings.sched_idle_balance && rq.runs_only_idle());
    rq.fair.balance.next_is_busy = is_busy;
    let spans = LEVELS.map(|(distance, _)| cx.config.topology.span(rq.cpu(), distance));
    let first = usize::from(core::mem::take(&mut rq.fair.balance.begins_at));
    for level in (first..LEVELS.len()).chain(0..first) {
        let span = spans[level].clone();
        let is_inner = |inner: usize| spans[inner] == span;
        if span.len() == 1 || level.checked_sub(1).is_some_and(is_inner) {
            continue;
        }
        let span_of_level = span.clone();
        let nr_cpus = u64::from(cx.view().nr_in_domain(rq.cpu(), span));
        let due = rq.fair.balance.levels[level].last + interval(rq, cx, level, is_busy, nr_cpus);
        if now < due {
            next = next.min(due);
            continue;
        }
        rq.fair.balance.levels[level].last = now;
        rq.fair.balance.pinned.clear();
        groups::divide_shares(cx, rq.cpu(), &span_of_level);
        let found = find_imbalance(rq, cx, level, kind);
        rq.fair.balance.levels[level].is_calm = found.is_none();
        match found {
            Some((other, imbalance)) => {
                // The levels above are balanced at the next tick.
                rq.fair.balance.next = now;
                rq.fair.balance.begins_at = (level + 1) as u8;
                let failed = rq.fair.balance.levels[level].failed;
                let work = Balance { kind, level: level as u8, failed, asker: rq.cpu(), imbalance };
                return Step::Pair { own: rq.cpu(), other, then: PairCont::Balance(work) };
            }
            None => {
                uneven::found_even(rq, cx, level);
                next = next.min(now + interval(rq, cx, level, is_busy, nr_cpus));
            }
        }
    }
    rq.fair.balance.next = next;
    Step::Done
}

/// Returns the time between two rounds of a level: `get_sd_balance_interval`, in whole ticks.
fn interval<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, level: usize, is_busy: bool, cpus: u64) -> Duration {
    let tick = rq.fair.tune.tick;
    let mut wait = Duration::from_millis(cpus * if rq.fair.balance.levels[level].is_calm { 2 } else { 1 });
    let mut less = 0;
    if is_busy {
        wait = wait * BUSY_FACTOR;
        // One tick less, so that levels do not fall due together.
        less = 1;
    }
    let most = (u64::from(cx.config.settings.hz) * cx.shared.nr_cpus() as u64 / 10).max(1);
    let ticks = wait.as_nanos().div_ceil(tick.as_nanos().max(1)).saturating_sub(less).clamp(1, most);
    tick * ticks
}

/// Moves tasks from `other` to `own`, until the imbalance is gone.
///
/// A task that is not allowed here can be allowed on another CPU of the own group: the round
/// continues there (`LBF_DST_PINNED`), with increasing CPU numbers, so at most once per CPU of the
/// group. An imbalance that then remains makes the whole domain uneven for the domain above
/// (`LBF_SOME_PINNED`).
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) -> Step {
    let may_take = own.is_online() && (work.kind != BalanceKind::NewIdle || !own.has_running());
    let taken = if may_take { take(own, other, cx, work) } else { MoveAttempt::nothing(work.imbalance) };
    let is_asker = work.asker == own.cpu();
    let all_pinned = is_asker && taken.moved == 0 && taken.all_pinned;
    let level = usize::from(work.level);
    if let (Some(cpu), Some(imbalance)) = (taken.elsewhere, taken.left) {
        if is_asker {
            count_round(own, work, &taken);
        }
        return Step::Pair { own: cpu, other: other.cpu(), then: PairCont::Balance(Balance { imbalance, ..work }) };
    }
    if taken.has_pinned && taken.left.is_some() {
        uneven::say_uneven(own, cx, level, true);
    }
    if all_pinned {
        own.fair.balance.pinned.push(other.cpu());
    }
    let failed = work.failed.saturating_add(u8::from(work.kind != BalanceKind::NewIdle));
    let failed = if taken.has_kept { work.failed } else { failed };
    let asks = taken.moved == 0 && !all_pinned && own.is_online() && needs_active(own, other, cx, work, failed);
    if asks {
        ask_for_current(own, other, cx, work);
    }
    match work.kind {
        BalanceKind::NewIdle if taken.moved == 0 && own.is_online() && !own.has_running() => {
            return newidle::continued(own, cx, level, all_pinned);
        }
        BalanceKind::NewIdle => {
            count_round(own, work, &taken);
            newidle::found(own, cx, level, taken.moved > 0);
        }
        BalanceKind::Periodic | BalanceKind::Idle if all_pinned => {
            if let Some(step) = look_elsewhere(own, cx, work) {
                return step;
            }
            own.fair.balance.levels[level].failed = 0; // The movable tasks are balanced.
        }
        BalanceKind::Periodic | BalanceKind::Idle if is_asker => count_round(own, work, &taken),
        BalanceKind::Periodic | BalanceKind::Idle => {}
    }
    if asks && cx.config.settings.fair_balance.is_by_load() {
        own.fair.balance.levels[level].failed = nice_tries(work.level) + 1;
    }
    if work.kind == BalanceKind::Idle {
        own.publish(cx);
        other.publish(cx);
        pass_on(own, cx);
    }
    Step::Done
}

/// Ends the round of a level, or a part of it that continues for another CPU: counts a failure if
/// nothing was moved, unless the CPU is going idle, the imbalance is a misfit, or tasks were passed
/// over for the sake of their cache.
fn count_round(own: &mut Rq, work: Balance, taken: &MoveAttempt) {
    let level = &mut own.fair.balance.levels[usize::from(work.level)];
    level.failed = match work.imbalance {
        _ if taken.moved > 0 => 0,
        _ if work.kind == BalanceKind::NewIdle || taken.has_kept => level.failed,
        Imbalance::Misfit => level.failed,
        Imbalance::Tasks(_) | Imbalance::Load(_) | Imbalance::Util(_) | Imbalance::Strayed => {
            level.failed.saturating_add(1)
        }
    };
}

/// Returns whether the running task has to be moved (`need_active_balance`): the level has failed
/// too often, the task does not fit its CPU, or the classes above take much of its CPU and less of
/// the idle CPU that would get it.
fn needs_active<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, work: Balance, failed: u8) -> bool {
    if work.imbalance != Imbalance::Misfit && own.fair.tune.gathers && cache_aware::bars_active(own, other, cx, work) {
        return false;
    }
    match work.imbalance {
        Imbalance::Misfit | Imbalance::Strayed => return true,
        Imbalance::Tasks(_) if failed > nice_tries(work.level) + 2 => return true,
        Imbalance::Load(_) if cx.config.settings.fair_balance.is_by_load() => {
            return work.kind != BalanceKind::NewIdle && failed > nice_tries(work.level) + 2;
        }
        Imbalance::Tasks(_) | Imbalance::Load(_) | Imbalance::Util(_) => {}
    }
    if work.kind == BalanceKind::Periodic || other.fair.nr_running() != 1 {
        return false;
    }
    let full = u64::from(cx.config.topology.capacity(other.cpu()));
    let [there, here] = [other.cpu(), own.cpu()].map(|cpu| cx.capacity_of(cpu));
    capacity::is_reduced(there, full) && capacity::is_reduced(there, here)
}

/// Asks a CPU to give away its running task, if that task can be moved ([`is_movable`]), is allowed
/// here, and no other CPU has asked.
fn ask_for_current<L: RawMutex>(own: &Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) {
    let Some(slot) = other.current_slot().filter(|_| other.phase() == Phase::Running) else { return };
    let task = &other.tasks[slot];
    if !is_movable(&cx.config.settings, other.current_class(), task.prio)
        || other.fair.balance.push.is_some()
        || task.engaged != Engaged::No
        || throttle::is_barred(other, slot)
        || !task.may_run_on(own.cpu())
        || cache_aware::is_for_another(own, cx, task, work)
    {
        return;
    }
    let bound = Bound { to: own.cpu(), level: work.level };
    other.fair.balance.push = Some(ActivePush { task: other.stay(slot), bound });
    other.resched(cx, Resched::Now);
}

/// Returns whether active balance moves a running task of this class and priority.
fn is_movable(settings: &Settings, class: ClassId, prio: Prio) -> bool {
    match class {
        ClassId::Fair => true,
        ClassId::Rt => settings.rt_balance.is_passive() && prio != Prio::from_rt(RtPriority::MAX),
        ClassId::Stop | ClassId::Deadline | ClassId::Ext | ClassId::Idle => false,
    }
}

/// Returns whether a CPU that leaves a task was asked to give that task away; the task must stay
/// runnable. O(1).
#[inline]
pub(crate) fn is_asked_for<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot, why: Leave) -> bool {
    match rq.fair.balance.push.take() {
        None => false,
        Some(push) => gives_away(rq, &cx.config.settings, slot, why, push),
    }
}

#[cold]
fn gives_away(rq: &mut Rq, settings: &Settings, slot: Slot, why: Leave, push: ActivePush) -> bool {
    let task = &rq.tasks[slot];
    let may_go = matches!(why, Leave::Preempted | Leave::Yield)
        && rq.find_stay(push.task) == Some(slot)
        && task.engaged == Engaged::No
        && is_movable(settings, task.prio.class(), task.prio);
    if may_go {
        rq.tasks[slot].bound = Some(push.bound);
    }
    may_go
}

/// Resets the failures of a level: a task that this CPU asked for has arrived.
pub(crate) fn arrived(rq: &mut Rq, bound: Bound) {
    if bound.to == rq.cpu() {
        rq.fair.balance.levels[usize::from(bound.level)].failed = 0;
    }
}

/// Compares the groups of a level again, without the CPUs that have no task that is allowed here.
fn look_elsewhere<L: RawMutex>(own: &Rq, cx: &mut Cx<'_, L>, work: Balance) -> Option<Step> {
    let (other, imbalance) = find_imbalance(own, cx, usize::from(work.level), work.kind)?;
    Some(Step::Pair { own: own.cpu(), other, then: PairCont::Balance(Balance { imbalance, ..work }) })
}

/// The result of an attempt to move tasks.
struct MoveAttempt {
    moved: u32,
    /// Whether one of the examined tasks is not allowed to run here (`LBF_SOME_PINNED`).
    has_pinned: bool,
    /// Whether no examined task is allowed to run here, apart from those that are passed over
    /// (`LBF_ALL_PINNED`).
    all_pinned: bool,
    /// Whether a task was passed over for the sake of its cache (`LBF_LLC_PINNED`).
    has_kept: bool,
    /// Another CPU of the own group, where the first of these tasks is allowed.
    elsewhere: Option<CpuId>,
    /// The remaining imbalance.
    left: Option<Imbalance>,
}

impl MoveAttempt {
    const fn nothing(left: Imbalance) -> Self {
        Self { moved: 0, has_pinned: false, all_pinned: false, has_kept: false, elsewhere: None, left: Some(left) }
    }
}

/// How many tasks of a CPU were examined, and how many of them are not allowed on the taker.
#[derive(Clone, Copy, Default)]
struct Examined {
    all: u32,
    pinned: u32,
}

/// Moves waiting tasks. Examines at most `nr_migrate` of them, and no more than run there.
fn take<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) -> MoveAttempt {
    let mut taken = MoveAttempt::nothing(work.imbalance);
    let mut left = work.imbalance;
    let mut looks = cx.config.settings.nr_migrate;
    let mut seen = Examined::default();
    let is_one_enough = work.kind == BalanceKind::NewIdle;
    if cx.config.settings.rt_balance.is_passive() {
        let mut passed = 0;
        while let Some(slot) = next_rt(own, other, cx, left, &mut looks, &mut passed, &mut seen) {
            lifecycle::migrate(other, own, cx, slot, work.reason());
            taken.moved += 1;
            if !left.take(RT_LOAD) || is_one_enough {
                taken.left = None;
                return taken;
            }
        }
    }
    // A task that is passed over counts as the newest from then on, so that the next round starts
    // with other tasks. `loop_max`: with tasks of the classes above the round begins again with the
    // first.
    looks = looks.min(other.nr_running());
    let mut looked = 0;
    while let Some(slot) = other.fair.recency.oldest() {
        // Leave the last task: without it the other CPU would be idle and could pull it back.
        if looked == looks || other.nr_running() <= 1 {
            break;
        }
        looked += 1;
        cx.io.costs.tasks_scanned += 1;
        if is_passed_over(own, other, cx, slot, work) {
            other.fair.recency.touch(slot);
            continue;
        }
        seen.all += 1;
        if !other.tasks[slot].may_run_on(own.cpu()) {
            seen.pinned += 1;
            if work.kind != BalanceKind::NewIdle && taken.elsewhere.is_none() {
                taken.elsewhere = find_elsewhere(own, other, cx, slot, work);
            }
        }
        if cache_aware::keeps(own, other, cx, slot, work) {
            taken.has_kept |= work.imbalance != Imbalance::Strayed;
            other.fair.recency.touch(slot);
            continue;
        }
        if !may_take(own, other, cx, slot, work) {
            other.fair.recency.touch(slot);
            continue;
        }
        let amount = left.counts(other, slot);
        let by_load = cx.config.settings.fair_balance.is_by_load();
        // Before 5.5 at most half of a task could be too much, however often rounds had failed.
        let halved = if by_load { 1 } else { u32::from(work.failed) };
        let is_too_much = left.most().is_some_and(|most| amount.checked_shr(halved).unwrap_or(0) > most);
        if is_too_much || work.imbalance == Imbalance::Misfit && misfit::fits_here(other, cx, slot) {
            other.fair.recency.touch(slot);
            continue;
        }
        lifecycle::migrate(other, own, cx, slot, work.reason());
        taken.moved += 1;
        if !left.take(amount) || is_one_enough {
            break;
        }
    }
    taken.has_pinned = seen.pinned > 0;
    taken.all_pinned = (looked > 0 || seen.all > 0) && seen.pinned == seen.all;
    taken.left = Some(left).filter(|left| left.is_some());
    taken
}

/// Finds another CPU of the own group for a task that is not allowed here. In a round that has
/// already moved on, it is a CPU above this one. O(CPUs of the group).
fn find_elsewhere<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, slot: Slot, work: Balance) -> Option<CpuId> {
    let mut group = cx.config.topology.span(own.cpu(), LEVELS[usize::from(work.level)].1);
    if own.cpu() != work.asker {
        group.start = own.cpu().0 + 1;
    }
    let task = &other.tasks[slot];
    group.map(CpuId).find(|cpu| *cpu != work.asker && task.may_run_on(*cpu) && cx.view().takes_part(own.cpu(), *cpu))
}

/// Finds the next RT task in queue order that can be moved, behind those that were passed over. All
/// that are queued are looked at, also the running one and those that are bound to their CPU, and
/// only the latter count as such. Linux v2.6.23 `balance_tasks`, `can_migrate_task`: load does not
/// matter for a task that would be the most urgent on its new CPU.
fn next_rt<L: RawMutex>(
    own: &Rq,
    other: &Rq,
    cx: &mut Cx<'_, L>,
    left: Imbalance,
    looks: &mut u32,
    passed: &mut usize,
    seen: &mut Examined,
) -> Option<Slot> {
    if other.nr_running() <= 1 {
        return None;
    }
    let best_here = own.top_prio();
    other.rt.in_order(&other.tasks).skip(*passed).take(*looks as usize).find(|slot| {
        cx.io.costs.tasks_scanned += 1;
        *looks -= 1;
        // It leaves the queue if it is moved.
        *passed += 1;
        let task = &other.tasks[*slot];
        seen.all += 1;
        if !task.may_run_on(own.cpu()) {
            seen.pinned += 1;
            return false;
        }
        let fits = match left {
            Imbalance::Tasks(_) | Imbalance::Util(_) | Imbalance::Misfit | Imbalance::Strayed => true,
            Imbalance::Load(load) => RT_LOAD / 2 <= load + 1024,
        };
        // One that lends its turn is queued, and blocked.
        let can_move = !other.is_on_cpu(*slot) && task.engaged == Engaged::No;
        let is_moved = can_move && (fits || task.prio.beats(best_here));
        *passed -= usize::from(is_moved);
        is_moved
    })
}

/// Returns whether a task is passed over before its affinity is looked at (`can_migrate_task`): it
/// is blocked and still queued, it lends its turn, its group is throttled here or there
/// (`throttled_lb_pair`), or it would not be eligible here.
fn is_passed_over<L: RawMutex>(own: &Rq, other: &Rq, cx: &Cx<'_, L>, slot: Slot, work: Balance) -> bool {
    let task = &other.tasks[slot];
    let settings = &cx.config.settings;
    matches!(task.engaged, Engaged::Lends { .. })
        || task.fair.is_delayed()
        || throttle::is_barred(other, slot)
        || settings.hierarchical_running && throttle::is_throttled_for(own, cx, task.group)
        || settings.balance_eligible && work.failed == 0 && is_ineligible(own, other, cx, slot)
}

/// Returns whether a task that keeps its lag would have to wait for it on `own` too, since others
/// are queued there (`task_is_ineligible_on_dst_cpu`). O(1).
fn is_ineligible<L: RawMutex>(own: &Rq, other: &Rq, cx: &Cx<'_, L>, slot: Slot) -> bool {
    let settings = &cx.config.settings;
    if !settings.place_lag || settings.fair != FairAlgorithm::Eevdf {
        return false;
    }
    let here = match settings.fair_hierarchy {
        FairHierarchy::Flat => Some(QueueIx::ROOT),
        FairHierarchy::Nested => own.fair.live_queue(&cx.shared.groups, other.tasks[slot].group),
    };
    let entity = EntityRef::Task(slot);
    here.is_some_and(|q| own.queue(q).nr_queued > 0)
        && !eevdf::is_eligible(&other.fair, &other.tasks, other.entity(entity).queue, entity)
}

/// Returns whether a waiting task that is not passed over can move to `own`: its affinity allows
/// it, and it is not cache hot unless balancing has failed often.
fn may_take<L: RawMutex>(own: &Rq, other: &Rq, cx: &Cx<'_, L>, slot: Slot, work: Balance) -> bool {
    let task = &other.tasks[slot];
    if other.is_on_cpu(slot) || task.engaged == Engaged::Executes || !task.may_run_on(own.cpu()) {
        return false;
    }
    let settings = &cx.config.settings;
    debug_assert!(task.prio.class() == ClassId::Fair, "only fair tasks are listed");
    // Threads of a core share their caches: no task is hot there.
    if LEVELS[usize::from(work.level)].1 == Distance::Same {
        return true;
    }
    let cost = settings.migration_cost;
    let is_hot = task.last_ran != Instant::ZERO && cx.now.wall.since(task.last_ran) < cost;
    !is_hot || work.failed > nice_tries(work.level)
}

impl Imbalance {
    /// Returns the amount by which a waiting task counts.
    fn counts(self, rq: &mut Rq, slot: Slot) -> u64 {
        match self {
            Self::Tasks(_) | Self::Misfit | Self::Strayed => 1,
            // At least 1, so that a round ends though the tasks of a light group count as 0
            // (01cfcde9c26d: v5.8, and the stable kernels since 4.4.231).
            Self::Load(_) => task_load(rq, slot).max(1),
            Self::Util(_) => misfit::util_of(&rq.tasks[slot]),
        }
    }

    /// Returns the largest amount that one task can count; `None` if any task will do.
    const fn most(self) -> Option<u64> {
        match self {
            Self::Load(most) | Self::Util(most) => Some(most),
            Self::Tasks(_) | Self::Misfit | Self::Strayed => None,
        }
    }

    /// Subtracts a moved task; returns whether an imbalance remains.
    fn take(&mut self, amount: u64) -> bool {
        match self {
            Self::Tasks(tasks) => *tasks = tasks.saturating_sub(1),
            Self::Load(most) | Self::Util(most) => *most = most.saturating_sub(amount),
            Self::Misfit => return false,
            Self::Strayed => *self = Self::Tasks(0),
        }
        self.is_some()
    }

    /// Returns whether there is an imbalance.
    const fn is_some(self) -> bool {
        match self {
            Self::Tasks(tasks) => tasks > 0,
            Self::Load(most) | Self::Util(most) => most > 0,
            Self::Misfit | Self::Strayed => true,
        }
    }
}

impl Balance {
    const fn reason(self) -> MigrateReason {
        match self.kind {
            BalanceKind::NewIdle => MigrateReason::NewIdle,
            BalanceKind::Periodic | BalanceKind::Idle => MigrateReason::Periodic,
        }
    }
}
