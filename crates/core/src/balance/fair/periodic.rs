//! What moves between CPUs: at ticks, CPUs compare themselves with the others of their domains and
//! take what is too much there. A CPU that is about to go idle does so at once ([`newidle`]).
//!
//! A *domain* is a level of the machine around a CPU ([`Distance`]): its core, its cache, its
//! socket, the machine; its *groups* are the domains of the level below. A CPU balances for its
//! group if it is the first idle one there, or the first one if none is idle.
//!
//! What is too much where is decided in [`imbalance`](super::imbalance).
//!
//! Every level has its interval: as many milliseconds as it has CPUs, twice that while balanced, 16
//! times that for a busy CPU. A task that ran less than `migration_cost_ns` ago is cache hot and
//! stays, until balancing has failed more than a few times; so does one whose load is more than
//! what is to be moved, with each failure at half the load. At most `nr_migrate` tasks are looked
//! at; the stalest go first. Rounds at ticks count as failures; one that moves a task or finds the
//! level even forgets them, also that of a CPU that goes idle.
//!
//! **Active balance.** Two tasks on the threads of one core beside a core that idles are too many
//! there, but neither waits. When tasks are to be moved by number and nobody who waits could be,
//! more than `cache_nice_tries` + 2 times, the running one is: the CPU is asked to schedule, leaves
//! its task as one that may not stay ([`Left::Displaced`](crate::Left)), and it goes to who asked.
//!
//! ```text
//!   taker: round fails again ----- both run queues held: [`ActivePush`] noted, kick ---> giver
//!   giver: leave, same stay of the same task -> Displaced, bound for the taker ---> wake there, failures forgotten
//!          leave, anything else              -> the note is dropped
//! ```
//!
//! **Affinity.** A task that may not come to the CPU that balances may go to another one of its
//! group: the round goes on there. Where that does not help, the domain is *uneven*, and says so to
//! the one above, which then moves tasks whatever the sums are.
//!
//! An idle CPU whose tick has stopped cannot look: a busy CPU with a waiting task, or one of whose
//! core or cache several CPUs are busy, sends it an interrupt ([`Work::IdleBalance`]), and it
//! passes that on to the next idle CPU while there are such.
//!
//! An isolated CPU (`isolcpus`) is in no domain: it neither gives nor takes.
//!
//! With `rt_balance` passive, waiting RT tasks are moved too, in the order of their queue, before
//! fair ones; each weighs twice the heaviest nice level. What runs on the taking CPU does not
//! matter to them, which is what was wrong with it.
//!
//! Work: at a tick O(1), when an interval is over O(CPUs of the domain), again for each CPU of
//! which no task may come here.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_balance_domains`, `sched_balance_rq`,
//! `sched_balance_update_blocked_averages`, `detach_tasks`, `can_migrate_task`,
//! `need_active_balance`, `active_load_balance_cpu_stop`, `nohz_balancer_kick`; Linux v2.6.23
//! `kernel/sched.c`, `balance_tasks` (RT tasks). differs: active balance moves the task that runs,
//! the kernel's stopper, before which it waits too, the stalest that may go; one idle CPU does not
//! balance on behalf of another, it tells it to.

use crate::balance::fair::imbalance::find_imbalance;
use crate::balance::fair::{capacity_search, idle_cpu, newidle, uneven};
use crate::class::fair::load::task_load;
use crate::class::fair::{capacity, load, misfit, throttle};
use crate::entity::weight::RT_LOAD;
use crate::lifecycle;
use crate::queue::fair::balance::ActivePush;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::ids::Slot;
use crate::words::level::LEVELS;
use crate::words::life::{Bound, Engaged, Leave};
use crate::words::op::{Op, Work};
use crate::words::resched::Resched;
use crate::words::step::{Balance, BalanceKind, Imbalance, PairCont, Step};
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Distance, Duration, Instant, MigrateReason, TraceEvent};

/// How much rarer a busy CPU balances (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// The tick: balances the levels whose interval is over, at most one with a partner, and wakes an
/// idle CPU if this one has a waiting task.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if cx.shared.nr_cpus() == 1 || !rq.is_online() || rq.is_isolated() {
        return Step::Done;
    }
    let has_waiting = rq.has_waiting(cx.config.settings.rt_balance.is_passive());
    let alone_matters = rq.fair.balance.has_parts | rq.fair.balance.is_pressed;
    if (has_waiting || alone_matters) && cx.config.settings.nohz {
        if rq.fair.asymmetric.is_some() {
            misfit::update(rq, cx);
        }
        if cx.now.wall >= rq.fair.balance.next_kick {
            kick_idle(rq, cx, has_waiting);
        }
    }
    if cx.now.wall < rq.fair.balance.next {
        return Step::Done;
    }
    let kind = if !rq.has_running() { BalanceKind::Idle } else { BalanceKind::Periodic };
    balance_due(rq, cx, kind)
}

/// An idle CPU was asked to look for work.
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

/// Wakes an idle CPU to balance: the lowest if a task waits here or the classes above take much of
/// this CPU, the lowest that is stronger if one runs here that does not fit, else one that is
/// further away from what is busy here.
fn kick_idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, has_waiting: bool) {
    if !rq.has_running() || !cx.view().has_idle() {
        return;
    }
    let is_pressed = rq.fair.balance.is_pressed && rq.fair.nr_running() > 0;
    let any = has_waiting || is_pressed;
    let to =
        if any { cx.view().next_idle_in_domain(rq.cpu(), CpuId(0)) } else { capacity_search::find_stronger(rq, cx) };
    match to {
        Some(cpu) => {
            rq.fair.balance.next_kick = jiffies(rq, cx) + rq.fair.tune.tick;
            send(rq, cx, cpu);
        }
        None if rq.fair.balance.has_parts && rq.fair.asymmetric.is_none() => kick_apart(rq, cx),
        None => {}
    }
}

/// Nobody waits here. If several CPUs of the core are busy, wakes the lowest CPU of an idle core;
/// if several of the cache are and there are other caches, the lowest idle one there, on an idle
/// core if that is who balances. O(idle CPUs + CPUs of the cache), once in as many milliseconds as
/// the cache has CPUs.
///
/// differs: the kernel wakes the first idle CPU, which balances for all the others, even where no
/// core is shared.
fn kick_apart<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let [core, cache] = [Distance::Smt, Distance::Llc].map(|distance| cx.config.topology.span(rq.cpu(), distance));
    rq.fair.balance.next_kick = jiffies(rq, cx) + Duration::from_millis(cache.len() as u64);
    // CPUs that are offline or of other partitions are in no domain of this one.
    let mut is_busy = |cpu: &CpuId| uneven::takes_part(rq, cx, *cpu) && !cx.view().is_idle(*cpu);
    let [core_busy, cache_busy] = [&core, &cache].map(|span| span.clone().map(CpuId).filter(&mut is_busy).count());
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

/// Lets the next idle CPU look too, while there are waiting tasks.
fn pass_on<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    if cx.view().next_waiting(CpuId(0)).is_none() {
        return;
    }
    if let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu(), CpuId(rq.cpu().0 + 1)) {
        send(rq, cx, cpu);
    }
}

fn send<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, to: CpuId) {
    let work = Work::IdleBalance;
    cx.io.op(Op::Ipi { cpu: to, work });
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::IpiSend { to, reason: work.reason() });
}

/// Balances the levels whose interval is over, near to far, until one needs a partner.
fn balance_due<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: BalanceKind) -> Step {
    rq.fair.balance.is_pressed = capacity::publish(rq, cx);
    // Where real-time tasks run nothing else has looked at what the fair ones have become.
    load::follow(rq, cx);
    rq.note(Unpublished::AVERAGES);
    rq.publish(cx);
    let now = jiffies(rq, cx);
    let mut next = Instant::FAR_FUTURE;
    let mut inner = rq.cpu().0..rq.cpu().0 + 1;
    for (level, (distance, _)) in LEVELS.into_iter().enumerate() {
        let span = cx.config.topology.span(rq.cpu(), distance);
        if span == inner {
            continue;
        }
        inner = span.clone();
        let due = rq.fair.balance.levels[level].last + interval(rq, cx, level, kind, span.len() as u64);
        if now < due {
            next = next.min(due);
            continue;
        }
        rq.fair.balance.levels[level].last = now;
        rq.fair.balance.pinned.clear();
        let found = find_imbalance(rq, cx, level, kind);
        rq.fair.balance.levels[level].is_calm = found.is_none();
        match found {
            Some((other, imbalance)) => {
                // The levels above come at the next tick.
                rq.fair.balance.next = now;
                let failed = rq.fair.balance.levels[level].failed;
                let work = Balance { kind, level: level as u8, failed, asker: rq.cpu(), imbalance };
                return Step::Pair { own: rq.cpu(), other, then: PairCont::Balance(work) };
            }
            None => {
                uneven::found_even(rq, cx, level);
                next = next.min(now + interval(rq, cx, level, kind, span.len() as u64));
            }
        }
    }
    rq.fair.balance.next = next;
    Step::Done
}

/// Returns when the last tick was due that has been counted. Intervals are counted from there
/// (`jiffies`), so that neither a tick that came late nor a round between ticks lets the next one
/// wait for a tick more.
fn jiffies<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Instant {
    cx.now.wall.round_down_to(rq.fair.tune.tick).min(cx.shared.counted_tick())
}

/// Returns the time between two rounds of a level: `get_sd_balance_interval`, in whole ticks.
fn interval<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, level: usize, kind: BalanceKind, cpus: u64) -> Duration {
    let tick = rq.fair.tune.tick;
    let mut wait = Duration::from_millis(cpus * if rq.fair.balance.levels[level].is_calm { 2 } else { 1 });
    let mut less = 0;
    match kind {
        BalanceKind::Periodic => {
            wait = wait * BUSY_FACTOR;
            // One tick less, so that levels do not fall due together.
            less = 1;
        }
        BalanceKind::Idle | BalanceKind::NewIdle => {}
    }
    let most = (u64::from(cx.config.settings.hz) * cx.shared.nr_cpus() as u64 / 10).max(1);
    let ticks = wait.as_nanos().div_ceil(tick.as_nanos().max(1)).saturating_sub(less).clamp(1, most);
    tick * ticks
}

/// Moves tasks from `other` to `own`, as many as were found too many.
///
/// Tasks that may not come here may be allowed on another CPU of the own group: the round goes on
/// there (`LBF_DST_PINNED`), upwards, so at most once for each CPU of the group. What then is still
/// too much makes the whole domain uneven for the one above it (`LBF_SOME_PINNED`).
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) -> Step {
    let may_take = own.is_online() && (work.kind != BalanceKind::NewIdle || !own.has_running());
    let taken = if may_take { take(own, other, cx, work) } else { Taken::nothing(work.imbalance) };
    let is_asker = work.asker == own.cpu();
    let all_pinned = is_asker && taken.moved == 0 && taken.pinned == Pinned::All;
    let level = usize::from(work.level);
    if let (Some(cpu), Some(imbalance)) = (taken.elsewhere, taken.left) {
        if is_asker {
            count_round(own, work, taken.moved);
        }
        return Step::Pair { own: cpu, other: other.cpu(), then: PairCont::Balance(Balance { imbalance, ..work }) };
    }
    if taken.pinned != Pinned::None && taken.left.is_some() {
        uneven::say_uneven(own, cx, level, true);
    }
    if all_pinned {
        own.fair.balance.pinned.push(other.cpu());
    }
    let failed = work.failed.saturating_add(u8::from(work.kind != BalanceKind::NewIdle));
    if taken.moved == 0 && !all_pinned && own.is_online() && needs_active(own, other, cx, work, failed) {
        ask_for_current(own, other, cx, work);
    }
    match work.kind {
        BalanceKind::NewIdle if taken.moved == 0 && own.is_online() && !own.has_running() => {
            if !all_pinned {
                own.fair.newidle.was_in_vain(level, cx.now.wall, &cx.config.settings);
            }
            return newidle::search(own, cx, level + usize::from(!all_pinned));
        }
        BalanceKind::NewIdle => {
            count_round(own, work, taken.moved);
            newidle::found(own);
        }
        BalanceKind::Periodic | BalanceKind::Idle if all_pinned => {
            if let Some(step) = look_elsewhere(own, cx, work) {
                return step;
            }
            own.fair.balance.levels[level].failed = 0; // What could be moved is even.
        }
        BalanceKind::Periodic | BalanceKind::Idle if is_asker => count_round(own, work, taken.moved),
        BalanceKind::Periodic | BalanceKind::Idle => {}
    }
    if work.kind == BalanceKind::Idle {
        own.publish(cx);
        other.publish(cx);
        pass_on(own, cx);
    }
    Step::Done
}

/// A round of a level is over, or goes on for another CPU: counts it if it was in vain, but for
/// those of CPUs that go idle.
fn count_round(own: &mut Rq, work: Balance, moved: u32) {
    let level = &mut own.fair.balance.levels[usize::from(work.level)];
    level.failed = match work.imbalance {
        _ if moved > 0 => 0,
        _ if work.kind == BalanceKind::NewIdle => level.failed,
        Imbalance::Misfit => level.failed,
        Imbalance::Tasks(_) | Imbalance::Load(_) | Imbalance::Util(_) => level.failed.saturating_add(1),
    };
}

/// Returns whether the running task is to be moved: the level has failed so often, or the task does
/// not fit, or the classes above take much of its CPU and less of the idle one that would have it.
/// `need_active_balance`.
fn needs_active<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, work: Balance, failed: u8) -> bool {
    match work.imbalance {
        Imbalance::Misfit => return true,
        Imbalance::Tasks(_) if failed > nice_tries(work) + 2 => return true,
        Imbalance::Tasks(_) | Imbalance::Load(_) | Imbalance::Util(_) => {}
    }
    if work.kind == BalanceKind::Periodic || other.fair.nr_running() != 1 {
        return false;
    }
    let full = u64::from(cx.config.topology.capacity(other.cpu()));
    let [there, here] = [other.cpu(), own.cpu()].map(|cpu| cx.capacity_of(cpu));
    capacity::is_reduced(there, full) && capacity::is_reduced(there, here)
}

/// Returns how often a level leaves tasks alone whose cache is hot (`sd->cache_nice_tries`).
const fn nice_tries(work: Balance) -> u8 {
    let (_, groups) = LEVELS[work.level as usize];
    match groups {
        Distance::Same => 0,
        Distance::Smt | Distance::Llc => 1,
        Distance::Socket | Distance::Remote => 2,
    }
}

/// Asks a CPU to give away the fair task that it runs, if that may come here and nobody else has
/// asked.
fn ask_for_current<L: RawMutex>(own: &Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) {
    let Some(slot) =
        other.current_slot().filter(|_| other.phase() == Phase::Running && other.current_class() == ClassId::Fair)
    else {
        return;
    };
    let task = &other.tasks[slot];
    if other.fair.balance.push.is_some()
        || task.engaged != Engaged::No
        || throttle::is_barred(other, slot)
        || !task.may_run_on(own.cpu())
    {
        return;
    }
    let bound = Bound { to: own.cpu(), level: work.level };
    other.fair.balance.push = Some(ActivePush { task: other.stay(slot), bound });
    other.resched(cx, Resched::Now);
}

/// A CPU leaves a task: returns whether it is the one that it was asked to give away, and goes on
/// to want to run. O(1).
#[inline]
pub(crate) fn is_asked_for(rq: &mut Rq, slot: Slot, why: Leave) -> bool {
    match rq.fair.balance.push.take() {
        None => false,
        Some(push) => gives_away(rq, slot, why, push),
    }
}

#[cold]
fn gives_away(rq: &mut Rq, slot: Slot, why: Leave, push: ActivePush) -> bool {
    let task = &rq.tasks[slot];
    let may_go = matches!(why, Leave::Preempted | Leave::Yield)
        && rq.find_stay(push.task) == Some(slot)
        && task.engaged == Engaged::No
        && task.prio.class() == ClassId::Fair;
    if may_go {
        rq.tasks[slot].bound = Some(push.bound);
    }
    may_go
}

/// A task that was asked for has come: the level may be patient again.
pub(crate) fn arrived(rq: &mut Rq, bound: Bound) {
    if bound.to == rq.cpu() {
        rq.fair.balance.levels[usize::from(bound.level)].failed = 0;
    }
}

/// Compares the groups of a level again, without the CPUs of which no task may come here.
fn look_elsewhere<L: RawMutex>(own: &Rq, cx: &mut Cx<'_, L>, work: Balance) -> Option<Step> {
    let (other, imbalance) = find_imbalance(own, cx, usize::from(work.level), work.kind)?;
    Some(Step::Pair { own: own.cpu(), other, then: PairCont::Balance(Balance { imbalance, ..work }) })
}

/// What came of a try to move tasks.
struct Taken {
    moved: u32,
    /// Which of those looked at may not run here.
    pinned: Pinned,
    /// Another CPU of the own group, on which the first of these may run.
    elsewhere: Option<CpuId>,
    /// What is still too much.
    left: Option<Imbalance>,
}

impl Taken {
    const fn nothing(left: Imbalance) -> Self {
        Self { moved: 0, pinned: Pinned::None, elsewhere: None, left: Some(left) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pinned {
    None,
    Some,
    All,
}

/// Moves waiting tasks. Looks at `nr_migrate` at most.
fn take<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) -> Taken {
    let mut taken = Taken::nothing(work.imbalance);
    let mut left = work.imbalance;
    let mut looks = cx.config.settings.nr_migrate;
    let is_one_enough = work.kind == BalanceKind::NewIdle;
    if cx.config.settings.rt_balance.is_passive() {
        while let Some(slot) = next_rt(own, other, cx, left, &mut looks) {
            lifecycle::migrate(other, own, cx, slot, work.reason());
            taken.moved += 1;
            if !left.take(RT_LOAD) || is_one_enough {
                taken.left = None;
                return taken;
            }
        }
    }
    // Each is looked at once; what is passed over counts as the newest from then on, so that the
    // next round begins with others.
    looks = looks.min(other.fair.recency.len());
    let (mut looked, mut pinned) = (0, 0);
    while let Some(slot) = other.fair.recency.oldest() {
        // Whoever is idle does not take the last: it would be treated likewise.
        if looked == looks || other.nr_running() <= 1 {
            break;
        }
        looked += 1;
        cx.io.costs.tasks_scanned += 1;
        if !other.tasks[slot].may_run_on(own.cpu()) {
            pinned += 1;
            if work.kind != BalanceKind::NewIdle && taken.elsewhere.is_none() {
                taken.elsewhere = find_elsewhere(own, other, cx, slot, work);
            }
        }
        if !may_take(own, other, cx, slot, work) {
            other.fair.recency.touch(slot);
            continue;
        }
        let amount = left.counts(other, slot);
        let is_too_much =
            left.most().is_some_and(|most| amount.checked_shr(u32::from(work.failed)).unwrap_or(0) > most);
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
    taken.pinned = match pinned {
        0 => Pinned::None,
        _ if pinned == looked => Pinned::All,
        _ => Pinned::Some,
    };
    taken.left = Some(left).filter(|left| left.is_some());
    taken
}

/// Finds another CPU of the own group for a task that may not come here: any, in a round that has
/// gone on already one above. O(CPUs of the group).
fn find_elsewhere<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, slot: Slot, work: Balance) -> Option<CpuId> {
    let mut group = cx.config.topology.span(own.cpu(), LEVELS[usize::from(work.level)].1);
    if own.cpu() != work.asker {
        group.start = own.cpu().0 + 1;
    }
    let task = &other.tasks[slot];
    group.map(CpuId).find(|cpu| *cpu != work.asker && task.may_run_on(*cpu) && uneven::takes_part(own, cx, *cpu))
}

/// Finds the first waiting RT task in queue order that may be moved. Linux v2.6.23 `balance_tasks`:
/// load does not matter for one that would be the most urgent where it goes.
fn next_rt<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, left: Imbalance, looks: &mut u32) -> Option<Slot> {
    if other.nr_running() <= 1 {
        return None;
    }
    let best_here = own.top_prio();
    other.rt.waiting(&other.tasks).take(*looks as usize).find(|slot| {
        cx.io.costs.tasks_scanned += 1;
        *looks -= 1;
        let task = &other.tasks[*slot];
        let fits = match left {
            Imbalance::Tasks(_) | Imbalance::Util(_) | Imbalance::Misfit => true,
            Imbalance::Load(load) => RT_LOAD / 2 <= load + 1024,
        };
        other.current_slot() != Some(*slot) && task.may_run_on(own.cpu()) && (fits || task.prio.beats(best_here))
    })
}

/// Returns whether a waiting task may go to `own`: affinity, and not cache hot unless balancing
/// failed often.
fn may_take<L: RawMutex>(own: &Rq, other: &Rq, cx: &Cx<'_, L>, slot: Slot, work: Balance) -> bool {
    let task = &other.tasks[slot];
    if other.current_slot() == Some(slot)
        || task.engaged != Engaged::No
        || task.fair.is_delayed()
        || !task.may_run_on(own.cpu())
    {
        return false;
    }
    let settings = &cx.config.settings;
    if throttle::is_barred(other, slot)
        || settings.hierarchical_running && throttle::is_throttled_for(own, cx, task.group)
    {
        return false; // `throttled_lb_pair`.
    }
    debug_assert!(task.prio.class() == ClassId::Fair, "only fair tasks are listed");
    // Threads of a core share the cache: nothing is hot there.
    if LEVELS[usize::from(work.level)].1 == Distance::Same {
        return true;
    }
    let cost = settings.migration_cost;
    let is_hot = task.last_ran != Instant::ZERO && cx.now.wall.since(task.last_ran) < cost;
    !is_hot || work.failed > nice_tries(work)
}

impl Imbalance {
    /// Returns what a waiting task counts for.
    fn counts(self, rq: &mut Rq, slot: Slot) -> u64 {
        match self {
            Self::Tasks(_) | Self::Misfit => 1,
            Self::Load(_) => task_load(rq, slot),
            Self::Util(_) => misfit::util_of(&rq.tasks[slot]),
        }
    }

    /// Returns what one task may count for at most; `None` where each will do.
    const fn most(self) -> Option<u64> {
        match self {
            Self::Load(most) | Self::Util(most) => Some(most),
            Self::Tasks(_) | Self::Misfit => None,
        }
    }

    /// Counts a moved task; returns whether more is to be moved.
    fn take(&mut self, amount: u64) -> bool {
        match self {
            Self::Tasks(tasks) => *tasks = tasks.saturating_sub(1),
            Self::Load(most) | Self::Util(most) => *most = most.saturating_sub(amount),
            Self::Misfit => return false,
        }
        self.is_some()
    }

    /// Returns whether anything is to be moved.
    const fn is_some(self) -> bool {
        match self {
            Self::Tasks(tasks) => tasks > 0,
            Self::Load(most) | Self::Util(most) => most > 0,
            Self::Misfit => true,
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
