//! What moves between CPUs: a CPU that is about to go idle takes a waiting task; at ticks, CPUs compare themselves with
//! the others of their domains and take what is too much there.
//!
//! A *domain* is a level of the machine around a CPU ([`Distance`]): its core, its cache, its socket, the machine; its
//! *groups* are the domains of the level below. A CPU balances for its group if it is the first idle one there, or the
//! first one if none is idle.
//!
//! | group is | when | taken from it |
//! |---|---|---|
//! | overloaded | more tasks than CPUs, and they fill them | load, up to the average of both, or tasks, if the taker has spare CPUs |
//! | busy | as many, and they fill them | nothing |
//! | spare | fewer, or they leave room | tasks, by an idle CPU, if they sit two on a CPU |
//!
//! Capacity is what deadline and real-time tasks and interrupts leave of a CPU ([`capacity`]). Tasks fill CPUs whose util
//! is above 100/117 of it, or on which more than one wants to run most of the time. Where load is not tracked, counts
//! alone decide.
//!
//! A CPU of which no task may come here counts as if it were not there, and the others are compared again (`LBF_ALL_PINNED`).
//!
//! Every level has its interval: as many milliseconds as it has CPUs, twice that while balanced, 16 times that for a
//! busy CPU. A task that ran less than `migration_cost_ns` ago is cache hot and stays, until balancing has failed more
//! than a few times; so does one whose load is more than what is to be moved, with each failure at half the load. At
//! most `nr_migrate` tasks are looked at; the stalest go first.
//!
//! An idle CPU whose tick has stopped cannot look: a busy CPU with a waiting task sends it an interrupt
//! ([`Work::IdleBalance`]), and it passes that on to the next idle CPU while there are waiting tasks.
//!
//! With `rt_balance` passive, waiting RT tasks are moved too, in the order of their queue, before fair ones; each weighs
//! twice the heaviest nice level. What runs on the taking CPU does not matter to them, which is what was wrong with it.
//!
//! Work: about to go idle, O(CPUs with waiting tasks); at a tick, O(1), when an interval is over O(CPUs of the domain); both
//! again for each CPU of which no task may come here.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_balance_newidle`, `sched_balance_domains`, `should_we_balance`,
//! `sched_balance_find_src_group`, `calculate_imbalance`, `detach_tasks`, `can_migrate_task`, `nohz_balancer_kick`;
//! Linux v2.6.23 `kernel/sched.c`, `balance_tasks` (RT tasks). differs: a CPU about to go idle takes from the CPU with the
//! most load that has a waiting task, nearest domain first, whatever its group; the running task is never moved; one idle CPU does not balance on behalf of another, it tells it to.

use super::bandwidth;
use super::capacity;
use super::load::{self, CpuAverages};
use super::select::{self, IMBALANCE_PCT};
use super::task_load;
use super::weight::RT_LOAD;
use crate::class;
use crate::proxy::Engaged;
use crate::rq::{Cx, Rq};
use crate::slab::Slot;
use crate::step::{Balance, BalanceKind, Imbalance, Op, PairCont, Step, Work};
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Distance, Duration, Instant, MigrateReason, TraceEvent};

/// The levels of domains, near to far, each with the level of its groups.
const LEVELS: [(Distance, Distance); 4] = [
    (Distance::Smt, Distance::Same),
    (Distance::Llc, Distance::Smt),
    (Distance::Socket, Distance::Llc),
    (Distance::Remote, Distance::Socket),
];
/// The capacity of the fastest CPU when nothing else takes of it (`SCHED_CAPACITY_SCALE`).
const FULL_CAPACITY: u64 = 1024;
/// How much rarer a busy CPU balances (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// What a CPU remembers of its balancing.
#[derive(Debug, Default)]
pub(crate) struct BalanceState {
    levels: [LevelState; LEVELS.len()],
    /// No level is due before.
    next: Instant,
    /// No idle CPU is woken before.
    next_kick: Instant,
    /// CPUs of which no task may come here, found so in the present round at one level.
    pinned: Vec<CpuId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct LevelState {
    last: Instant,
    /// Twice the level's least interval: it was found balanced.
    is_calm: bool,
    /// Rounds in which nothing could be moved (`nr_balance_failed`).
    failed: u8,
}

/// A CPU is about to go idle: asks for the pair of run queues to take a task from another.
pub(crate) fn new_idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.phantoms(&cx.config.settings) > 0 {
        return Step::Done;
    }
    cx.io.costs.fair_balance += u32::from(cx.view().next_waiting(CpuId(0)).is_some());
    rq.fair.balance.pinned.clear();
    search_new_idle(rq, cx, 0)
}

/// Looks in the domains from a level upwards.
fn search_new_idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: usize) -> Step {
    if cx.view().next_waiting(CpuId(0)).is_none() {
        return Step::Done;
    }
    for (level, (distance, groups)) in LEVELS.into_iter().enumerate().skip(from) {
        let span = cx.config.topology.span(rq.cpu, distance);
        let inner = cx.config.topology.span(rq.cpu, groups);
        if span != inner
            && let Some(other) = busiest_waiting(rq, cx, span, inner)
        {
            let failed = rq.fair.balance.levels[level].failed;
            let imbalance = Imbalance::Tasks(1);
            let work = Balance { kind: BalanceKind::NewIdle, level: level as u8, failed, imbalance };
            return Step::Pair { own: rq.cpu, other, then: PairCont::Balance(work) };
        }
    }
    Step::Done
}

/// Finds the CPU with the most load among those of `span`, without `inner`, that have a waiting task.
fn busiest_waiting<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, span: Range<u32>, inner: Range<u32>) -> Option<CpuId> {
    let mut best: Option<(u64, CpuId)> = None;
    let mut from = CpuId(span.start);
    while let Some(cpu) = cx.view().next_waiting(from).filter(|cpu| cpu.0 < span.end) {
        from = CpuId(cpu.0 + 1);
        if inner.contains(&cpu.0) || !cx.view().is_in_domain_of(rq.cpu, cpu) || rq.fair.balance.pinned.contains(&cpu) {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        let load = load::of_cpu(cx, cpu).load;
        if best.is_none_or(|(most, _)| load > most) {
            best = Some((load, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// The tick: balances the levels whose interval is over, at most one with a partner, and wakes an idle CPU if this one
/// has a waiting task.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if cx.shared.nr_cpus() == 1 || !rq.is_online {
        return Step::Done;
    }
    if rq.has_waiting(cx.config.settings.rt_balance.is_passive())
        && cx.config.settings.nohz
        && cx.now.wall >= rq.fair.balance.next_kick
    {
        kick_idle(rq, cx);
    }
    if cx.now.wall < rq.fair.balance.next {
        return Step::Done;
    }
    let kind = if rq.nr_running == 0 { BalanceKind::Idle } else { BalanceKind::Periodic };
    balance_due(rq, cx, kind)
}

/// An idle CPU was asked to look for work.
pub(crate) fn idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.nr_running > 0 || !rq.is_online {
        pass_on(rq, cx);
        return Step::Done;
    }
    let step = balance_due(rq, cx, BalanceKind::Idle);
    if step == Step::Done {
        pass_on(rq, cx);
    }
    step
}

/// Wakes the lowest idle CPU to balance.
fn kick_idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if !cx.view().has_idle() {
        return;
    }
    if let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu, CpuId(0)) {
        rq.fair.balance.next_kick = cx.now.wall + rq.fair.tune.tick;
        send(rq, cx, cpu);
    }
}

/// Lets the next idle CPU look too, while there are waiting tasks.
fn pass_on<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    if cx.view().next_waiting(CpuId(0)).is_none() {
        return;
    }
    if let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu, CpuId(rq.cpu.0 + 1)) {
        send(rq, cx, cpu);
    }
}

fn send<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, to: CpuId) {
    let work = Work::IdleBalance;
    cx.io.op(Op::Ipi { cpu: to, work });
    cx.io.event(cx.now, rq.cpu, || TraceEvent::IpiSend { to, reason: work.reason() });
}

/// Balances the levels whose interval is over, near to far, until one needs a partner.
fn balance_due<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: BalanceKind) -> Step {
    capacity::publish(rq, cx);
    let now = cx.now.wall;
    let mut next = Instant::FAR_FUTURE;
    let mut inner = rq.cpu.0..rq.cpu.0 + 1;
    for (level, (distance, groups)) in LEVELS.into_iter().enumerate() {
        let span = cx.config.topology.span(rq.cpu, distance);
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
        let found = find_imbalance(rq, cx, span.clone(), groups, kind);
        rq.fair.balance.levels[level].is_calm = found.is_none();
        match found {
            Some((other, imbalance)) => {
                // The levels above come at the next tick.
                rq.fair.balance.next = now;
                let failed = rq.fair.balance.levels[level].failed;
                let work = Balance { kind, level: level as u8, failed, imbalance };
                return Step::Pair { own: rq.cpu, other, then: PairCont::Balance(work) };
            }
            None => {
                rq.fair.balance.levels[level].failed = 0;
                next = next.min(now + interval(rq, cx, level, kind, span.len() as u64));
            }
        }
    }
    rq.fair.balance.next = next;
    Step::Done
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

/// What a group of CPUs has, as published.
#[derive(Clone, Copy, Default)]
struct GroupLoad {
    load: u64,
    util: u64,
    runnable: u64,
    capacity: u64,
    nr_running: u64,
    nr_idle: u64,
    nr_cpus: u64,
    kind: GroupType,
    /// The CPU with the most load for its capacity, of those with a waiting task.
    busiest: Option<(u64, u32, CpuId)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum GroupType {
    #[default]
    Spare,
    Busy,
    Overloaded,
}

impl GroupLoad {
    /// `group_classify`: by counts, and where load is tracked by whether tasks that share CPUs also fill them.
    fn classify(&self, tracks_load: bool) -> GroupType {
        let is_full = self.capacity * 100 < self.util * IMBALANCE_PCT;
        let is_crowded = self.capacity * IMBALANCE_PCT < self.runnable * 100;
        match self.nr_running.cmp(&self.nr_cpus) {
            Ordering::Less => GroupType::Spare,
            Ordering::Greater if !tracks_load || is_full || is_crowded => GroupType::Overloaded,
            Ordering::Equal | Ordering::Greater if tracks_load && !is_full => GroupType::Spare,
            Ordering::Equal | Ordering::Greater => GroupType::Busy,
        }
    }

    /// Returns the load per CPU of full capacity.
    fn average(&self) -> u64 {
        per_cpu(self.load, self.capacity)
    }

    /// Returns whether this group is to be relieved before `other`. `update_sd_pick_busiest`.
    fn is_busier_than(&self, other: &Self) -> bool {
        match (self.kind, other.kind) {
            (GroupType::Overloaded, GroupType::Overloaded) => self.average() > other.average(),
            (GroupType::Spare, GroupType::Spare) if self.nr_idle != other.nr_idle => self.nr_idle < other.nr_idle,
            (GroupType::Spare, GroupType::Spare) => self.nr_running > other.nr_running,
            (GroupType::Busy, GroupType::Busy) => self.average() > other.average(),
            (one, other) => one > other,
        }
    }
}

fn per_cpu(load: u64, capacity: u64) -> u64 {
    load * FULL_CAPACITY / capacity.max(1)
}

/// Compares the groups of a domain; returns the CPU to take from and how much. O(CPUs of the domain).
fn find_imbalance<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    span: Range<u32>,
    groups: Distance,
    kind: BalanceKind,
) -> Option<(CpuId, Imbalance)> {
    cx.io.costs.fair_balance += 1;
    let own_group = cx.config.topology.span(rq.cpu, groups);
    if !is_balancer(rq, cx, own_group.clone(), kind) {
        return None;
    }
    let mut local = GroupLoad::default();
    let mut busiest: Option<GroupLoad> = None;
    let (mut load, mut capacity, mut util) = (0, 0, 0);
    let mut start = span.start;
    while start < span.end {
        let part = cx.config.topology.span(CpuId(start), groups);
        start = part.end;
        let is_local = part == own_group;
        let group = measure(rq, cx, part);
        load += group.load;
        capacity += group.capacity;
        util += group.util;
        if is_local {
            local = group;
        } else if busiest.is_none_or(|so_far| group.is_busier_than(&so_far)) {
            busiest = Some(group);
        }
    }
    if cx.config.settings.sis_util && rq.fair.tune.tracks_load && kind != BalanceKind::NewIdle {
        select::publish_scan(rq.cpu, cx, &span, util);
    }
    let busiest = busiest?;
    let takes_rt = cx.config.settings.rt_balance.is_passive();
    let evens_out = rq.fair.tune.tracks_load && matches!(groups, Distance::Smt | Distance::Llc);
    let imbalance = imbalance(&local, &busiest, per_cpu(load, capacity), kind, takes_rt, evens_out)?;
    let (_, _, cpu) = busiest.busiest?;
    Some((cpu, imbalance))
}

/// Returns whether this CPU balances for its group: the first idle one, or the first if none is. `should_we_balance`.
fn is_balancer<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, group: Range<u32>, kind: BalanceKind) -> bool {
    if group.len() == 1 {
        return true;
    }
    let first_idle = cx.view().next_idle(None, CpuId(group.start)).filter(|cpu| cpu.0 < group.end);
    match (first_idle, kind) {
        (Some(cpu), _) => cpu == rq.cpu,
        (None, BalanceKind::Idle | BalanceKind::NewIdle) => true,
        (None, BalanceKind::Periodic) => group.start == rq.cpu.0,
    }
}

fn measure<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, part: Range<u32>) -> GroupLoad {
    let mut group = GroupLoad::default();
    let takes_rt = cx.config.settings.rt_balance.is_passive();
    for cpu in part.map(CpuId) {
        if !cx.view().is_in_domain_of(rq.cpu, cpu) || !cx.view().is_online(cpu) || rq.fair.balance.pinned.contains(&cpu)
        {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        group.nr_cpus += 1;
        let (averages, counts) = (load::of_cpu(cx, cpu), cx.view().counts(cpu));
        let (load, capacity) = (averages.load, capacity::of_cpu(cx, cpu));
        let nr = if takes_rt { counts.running } else { counts.fair };
        group.load += load;
        group.util += averages.util;
        group.runnable += averages.runnable;
        group.capacity += capacity;
        // Real-time tasks need CPUs too.
        group.nr_running += u64::from(if rq.fair.tune.tracks_load { counts.running } else { nr });
        group.nr_idle += u64::from(counts.running == 0);
        let pressed = per_cpu(load, capacity);
        if counts.running > 1
            && nr > 0
            && group.busiest.is_none_or(|(most, most_nr, _)| (pressed, nr) > (most, most_nr))
        {
            group.busiest = Some((pressed, nr, cpu));
        }
    }
    group.kind = group.classify(rq.fair.tune.tracks_load);
    group
}

/// Returns how much is to be moved between two groups, if anything. `sched_balance_find_src_group`,
/// `calculate_imbalance`.
fn imbalance(
    local: &GroupLoad,
    busiest: &GroupLoad,
    average: u64,
    kind: BalanceKind,
    takes_rt: bool,
    evens_out: bool,
) -> Option<Imbalance> {
    let tasks = |nr: u64| (nr > 0).then(|| Imbalance::Tasks(u32::try_from(nr).unwrap_or(u32::MAX)));
    if local.kind > busiest.kind {
        return None;
    }
    match (busiest.kind, local.kind) {
        (GroupType::Overloaded, GroupType::Spare) => {
            let half = busiest.nr_running.saturating_sub(local.nr_running) / 2;
            // Single CPUs are evened out; a larger group that is too full gives at least one.
            tasks(if busiest.nr_cpus == 1 { half } else { half.max(1) })
        }
        (GroupType::Overloaded, GroupType::Busy | GroupType::Overloaded) => {
            let (mine, theirs) = (local.average(), busiest.average());
            let is_balanced = mine >= theirs || mine >= average || theirs * 100 <= mine * IMBALANCE_PCT;
            let over = (theirs - average.min(theirs)) * busiest.capacity;
            let under = (average - mine.min(average)) * local.capacity;
            let load = over.min(under) / FULL_CAPACITY;
            let load = if takes_rt { at_least_a_task(local, busiest, load) } else { load };
            (!is_balanced && load > 0).then_some(Imbalance::Load(load))
        }
        (GroupType::Busy | GroupType::Spare, _) => {
            // `SD_PREFER_SIBLING`: cores and caches are filled evenly, whether they have room or not.
            let excess = busiest.nr_running.saturating_sub(local.nr_running);
            if evens_out && local.kind == GroupType::Spare && excess > 1 {
                return tasks(excess / 2);
            }
            // Two on one CPU beside an idle one; a busy CPU leaves that to the idle ones.
            if kind == BalanceKind::Periodic || local.nr_idle <= busiest.nr_idle + u64::from(busiest.nr_cpus > 1) {
                return None;
            }
            tasks(local.nr_idle.saturating_sub(busiest.nr_idle).div_ceil(2))
        }
    }
}

/// Linux v2.6.23 `find_busiest_group`: less than a task's load is worth a whole task only if moving one makes more load
/// fit, or nothing; so two tasks on one CPU beside one on each other stay where they are.
fn at_least_a_task(local: &GroupLoad, busiest: &GroupLoad, load: u64) -> u64 {
    let per_task = |group: &GroupLoad| group.load / group.nr_running.max(1);
    let (theirs, mine) = (per_task(busiest), per_task(local));
    if load >= theirs {
        return load;
    }
    let times = if local.nr_running > 0 && theirs > mine { 1 } else { 2 };
    if busiest.average().saturating_sub(local.average()) >= theirs * times {
        return theirs;
    }
    let now = theirs.min(busiest.average()) + mine.min(local.average());
    let moved = theirs.min(busiest.average().saturating_sub(theirs)) + mine.min(local.average() + theirs);
    if moved > now { theirs } else { 0 }
}

/// Moves tasks from `other` to `own`, as many as were found too many.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) -> Step {
    let taken = if own.is_online && (work.kind != BalanceKind::NewIdle || own.nr_running == 0) {
        take(own, other, cx, work)
    } else {
        Taken::Tasks(0)
    };
    let moved = match taken {
        Taken::Tasks(moved) => moved,
        Taken::AllPinned => {
            own.fair.balance.pinned.push(other.cpu);
            0
        }
    };
    match work.kind {
        BalanceKind::NewIdle if moved == 0 && own.is_online && own.nr_running == 0 => {
            return search_new_idle(own, cx, usize::from(work.level) + usize::from(taken != Taken::AllPinned));
        }
        BalanceKind::NewIdle => {}
        BalanceKind::Periodic | BalanceKind::Idle if taken == Taken::AllPinned => {
            if let Some(step) = look_elsewhere(own, cx, work) {
                return step;
            }
        }
        BalanceKind::Periodic | BalanceKind::Idle => {
            let level = &mut own.fair.balance.levels[usize::from(work.level)];
            level.failed = if moved > 0 { 0 } else { level.failed.saturating_add(1) };
        }
    }
    if work.kind == BalanceKind::Idle {
        own.publish(cx);
        other.publish(cx);
        pass_on(own, cx);
    }
    Step::Done
}

/// Compares the groups of a level again, without the CPUs of which no task may come here.
fn look_elsewhere<L: RawMutex>(own: &Rq, cx: &mut Cx<'_, L>, work: Balance) -> Option<Step> {
    let (distance, groups) = LEVELS[usize::from(work.level)];
    let span = cx.config.topology.span(own.cpu, distance);
    let (other, imbalance) = find_imbalance(own, cx, span, groups, work.kind)?;
    Some(Step::Pair { own: own.cpu, other, then: PairCont::Balance(Balance { imbalance, ..work }) })
}

/// What came of a try to move tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// So many were moved.
    Tasks(u32),
    /// None of those looked at may run here.
    AllPinned,
}

/// Moves waiting tasks. Looks at `nr_migrate` at most.
fn take<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, work: Balance) -> Taken {
    let mut left = work.imbalance;
    let mut moved = 0;
    let mut are_pinned = false;
    let mut looks = cx.config.settings.nr_migrate;
    if cx.config.settings.rt_balance.is_passive() {
        while let Some(slot) = next_rt(own, other, cx, left, &mut looks) {
            class::migrate(other, own, cx, slot, work.reason());
            moved += 1;
            if !left.take(RT_LOAD) || work.kind == BalanceKind::NewIdle {
                return Taken::Tasks(moved);
            }
        }
    }
    // Each is looked at once; what is passed over counts as the newest from then on, so that the next round begins with others.
    looks = looks.min(other.fair.recency.len());
    let mut pinned = 0;
    let most = looks;
    while let Some(slot) = other.fair.recency.oldest() {
        // Whoever is idle does not take the last: it would be treated likewise.
        if looks == 0 || other.nr_running <= 1 {
            break;
        }
        looks -= 1;
        cx.io.costs.tasks_scanned += 1;
        pinned += u32::from(!other.tasks[slot].may_run_on(own.cpu));
        are_pinned = pinned == most - looks;
        if !may_take(own, other, cx, slot, work) {
            other.fair.recency.touch(slot);
            continue;
        }
        let load = task_load(other, slot);
        if let Imbalance::Load(most) = left
            && load.checked_shr(u32::from(work.failed)).unwrap_or(0) > most
        {
            other.fair.recency.touch(slot);
            continue;
        }
        class::migrate(other, own, cx, slot, work.reason());
        moved += 1;
        if !left.take(load) || work.kind == BalanceKind::NewIdle {
            break;
        }
    }
    if moved == 0 && are_pinned { Taken::AllPinned } else { Taken::Tasks(moved) }
}

/// Finds the first waiting RT task in queue order that may be moved. Linux v2.6.23 `balance_tasks`: load does not
/// matter for one that would be the most urgent where it goes.
fn next_rt<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, left: Imbalance, looks: &mut u32) -> Option<Slot> {
    if other.nr_running <= 1 {
        return None;
    }
    let best_here = own.top_prio();
    other.rt.waiting(&other.tasks).take(*looks as usize).find(|slot| {
        cx.io.costs.tasks_scanned += 1;
        *looks -= 1;
        let task = &other.tasks[*slot];
        let fits = match left {
            Imbalance::Tasks(_) => true,
            Imbalance::Load(load) => RT_LOAD / 2 <= load + 1024,
        };
        other.current != Some(*slot) && task.may_run_on(own.cpu) && (fits || task.prio.beats(best_here))
    })
}

/// Returns whether a waiting task may go to `own`: affinity, and not cache hot unless balancing failed often.
fn may_take<L: RawMutex>(own: &Rq, other: &Rq, cx: &Cx<'_, L>, slot: Slot, work: Balance) -> bool {
    let task = &other.tasks[slot];
    if other.current == Some(slot) || task.engaged != Engaged::No || task.fair.is_delayed() || !task.may_run_on(own.cpu)
    {
        return false;
    }
    let settings = &cx.config.settings;
    if bandwidth::is_barred(other, slot)
        || settings.hierarchical_running && bandwidth::is_throttled_for(own, cx, task.group)
    {
        return false; // `throttled_lb_pair`.
    }
    debug_assert!(task.prio.class() == ClassId::Fair, "only fair tasks are listed");
    let (_, groups) = LEVELS[usize::from(work.level)];
    // Threads of a core share the cache: nothing is hot there. A cache's own level counts failures less than a far one.
    let patience = match groups {
        Distance::Same => return true,
        Distance::Smt | Distance::Llc => 1,
        Distance::Socket | Distance::Remote => 2,
    };
    let cost = settings.migration_cost;
    let is_hot = task.last_ran != Instant::ZERO && other.clock.wall.since(task.last_ran) < cost;
    !is_hot || work.failed > patience
}

impl Imbalance {
    /// Counts a moved task; returns whether more is to be moved.
    fn take(&mut self, load: u64) -> bool {
        match self {
            Self::Tasks(tasks) => {
                *tasks = tasks.saturating_sub(1);
                *tasks > 0
            }
            Self::Load(most) => {
                *most = most.saturating_sub(load);
                *most > 0
            }
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

impl Rq {
    /// Returns what this CPU publishes as its load.
    pub(crate) fn published_averages(&self, counts_rt: bool) -> CpuAverages {
        if self.fair.tune.tracks_load {
            return self.averages();
        }
        let rt = if counts_rt { RT_LOAD * u64::from(self.rt.nr_running()) } else { 0 };
        CpuAverages { load: self.fair.load() + rt, ..CpuAverages::default() }
    }
}
