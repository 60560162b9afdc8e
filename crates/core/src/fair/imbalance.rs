//! What is too much where: the groups of a domain compared, for [`balance`](super::balance).
//!
//! | group is | when | taken from it |
//! |---|---|---|
//! | overloaded | more tasks than CPUs, and they fill them | load, up to the average of both, or tasks, if the taker has spare CPUs |
//! | misfit | as many or fewer, one on a CPU that has too little for it | that one, also while it runs, by a stronger CPU |
//! | busy | as many, and they fill them | nothing |
//! | spare | fewer, or they leave room | tasks, by an idle CPU, if they sit two on a CPU |
//!
//! Capacity is what deadline and real-time tasks and interrupts leave of a CPU ([`capacity`]). Tasks fill CPUs whose util
//! is above 100/117 of it, or on which more than one wants to run most of the time. Where load is not tracked, counts
//! alone decide. A CPU of which no task may come here counts as if it were not there (`LBF_ALL_PINNED`).
//!
//! A fair task that is alone on a CPU of which the classes above take much counts as a misfit for an idle CPU too. Where CPUs differ in
//! capacity, nothing that is alone on its CPU is taken by a weaker one, and groups are not filled evenly.
//!
//! O(CPUs of the domain).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `should_we_balance`, `update_sg_lb_stats`, `group_classify`,
//! `update_sd_pick_busiest`, `sched_balance_find_src_group`, `calculate_imbalance`, `sched_balance_find_src_rq`.

use super::balance::FULL_CAPACITY;
use super::select::{self, IMBALANCE_PCT};
use super::{capacity, load, misfit};
use crate::rq::{Cx, Rq};
use crate::step::{BalanceKind, Imbalance};
use core::cmp::Ordering;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Distance};

/// What a group of CPUs has, as published.
#[derive(Clone, Copy, Default)]
struct GroupLoad {
    load: u64,
    util: u64,
    runnable: u64,
    capacity: u64,
    nr_running: u64,
    nr_fair: u64,
    nr_idle: u64,
    nr_cpus: u64,
    kind: GroupType,
    /// The CPU with the most load for its capacity, of those with a waiting task.
    busiest: Option<(u64, u32, CpuId)>,
    /// The CPU with the most tasks, be it one.
    fullest: Option<(u32, CpuId)>,
    /// The CPU with the heaviest task that needs more than it has there.
    misfit: Option<(u64, CpuId)>,
    /// The least and the most that is left of a CPU of it.
    least: u64,
    most: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum GroupType {
    #[default]
    Spare,
    Busy,
    Misfit,
    Overloaded,
}

impl GroupLoad {
    /// `group_classify`: by counts, and where load is tracked by whether tasks that share CPUs also fill them.
    fn classify(&self, tracks_load: bool) -> GroupType {
        let is_full = self.capacity * 100 < self.util * IMBALANCE_PCT;
        let is_crowded = self.capacity * IMBALANCE_PCT < self.runnable * 100;
        match self.nr_running.cmp(&self.nr_cpus) {
            Ordering::Greater if !tracks_load || is_full || is_crowded => GroupType::Overloaded,
            _ if self.misfit.is_some() => GroupType::Misfit,
            Ordering::Less => GroupType::Spare,
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
            (GroupType::Misfit, GroupType::Misfit) => self.misfit > other.misfit,
            (one, other) => one > other,
        }
    }
}

fn per_cpu(load: u64, capacity: u64) -> u64 {
    load * FULL_CAPACITY / capacity.max(1)
}

/// Returns whether the classes above take much of a CPU. `check_cpu_capacity`.
pub(super) const fn is_reduced(left: u64, full: u64) -> bool {
    left * IMBALANCE_PCT < full * 100
}

/// Compares the groups of a domain; returns the CPU to take from and how much. O(CPUs of the domain).
pub(super) fn find_imbalance<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    (distance, groups): (Distance, Distance),
    kind: BalanceKind,
) -> Option<(CpuId, Imbalance)> {
    let span = cx.config.topology.span(rq.cpu, distance);
    cx.io.costs.fair_balance += 1;
    let own_group = cx.config.topology.span(rq.cpu, groups);
    if !is_balancer(rq, cx, own_group.clone(), kind) {
        return None;
    }
    let taker = Taker {
        left: capacity::of_cpu(cx, rq.cpu),
        may_run_alone: kind != BalanceKind::Periodic,
        is_uneven: rq.fair.asymmetric.as_ref().is_some_and(|uneven| uneven.level <= distance),
    };
    let local = measure(rq, cx, own_group.clone(), None);
    let mut busiest: Option<GroupLoad> = None;
    let (mut load, mut capacity, mut util) = (local.load, local.capacity, local.util);
    let mut start = span.start;
    while start < span.end {
        let part = cx.config.topology.span(CpuId(start), groups);
        start = part.end;
        if part == own_group {
            continue;
        }
        let group = measure(rq, cx, part, Some(taker));
        if group.nr_cpus == 0 {
            continue; // All of it is offline or elsewhere: there is no least capacity to compare.
        }
        load += group.load;
        capacity += group.capacity;
        util += group.util;
        if taker.may_relieve(&group, &local) && busiest.is_none_or(|so_far| group.is_busier_than(&so_far)) {
            busiest = Some(group);
        }
    }
    if cx.config.settings.sis_util && rq.fair.tune.tracks_load && kind != BalanceKind::NewIdle {
        select::publish_scan(rq.cpu, cx, &span, util);
    }
    let busiest = busiest?;
    let takes_rt = cx.config.settings.rt_balance.is_passive();
    let evens_out = rq.fair.tune.tracks_load && matches!(groups, Distance::Smt | Distance::Llc) && !taker.is_uneven;
    if let (GroupType::Misfit, Some((load, cpu))) = (busiest.kind, busiest.misfit) {
        return Some((cpu, if taker.is_uneven { Imbalance::Misfit } else { Imbalance::Load(load) }));
    }
    let imbalance = imbalance(&local, &busiest, per_cpu(load, capacity), kind, takes_rt, evens_out)?;
    let cpu = match imbalance {
        Imbalance::Tasks(_) if !takes_rt => busiest.fullest?.1,
        Imbalance::Tasks(_) | Imbalance::Load(_) | Imbalance::Misfit => busiest.busiest?.2,
    };
    Some((cpu, imbalance))
}

/// Returns whether this CPU balances for its group: the first idle one, or the first if none is. `should_we_balance`.
fn is_balancer<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, group: Range<u32>, kind: BalanceKind) -> bool {
    if group.len() == 1 {
        return true;
    }
    let first_idle = cx.view().next_idle(None, CpuId(group.start)).filter(|cpu| cpu.0 < group.end);
    match (first_idle, kind) {
        (_, BalanceKind::NewIdle) => true,
        (Some(cpu), _) => cpu == rq.cpu,
        (None, BalanceKind::Idle) => true,
        (None, BalanceKind::Periodic) => group.start == rq.cpu.0,
    }
}

/// The CPU that would take.
#[derive(Clone, Copy)]
struct Taker {
    /// What is left of it.
    left: u64,
    /// Whether it may take a task that is alone on its CPU: it idles.
    may_run_alone: bool,
    /// Whether the CPUs of the domain differ.
    is_uneven: bool,
}

impl Taker {
    /// Returns whether it can help a group at all: with a misfit only if it is stronger, and with tasks that have a CPU each only if that
    /// is not the stronger one. `update_sd_pick_busiest`.
    fn may_relieve(&self, group: &GroupLoad, local: &GroupLoad) -> bool {
        match group.kind {
            _ if !self.is_uneven => true,
            GroupType::Overloaded => true,
            GroupType::Misfit => misfit::is_more(self.left, group.most) && local.kind == GroupType::Spare,
            GroupType::Spare | GroupType::Busy => !misfit::is_more(group.least, self.left),
        }
    }
}

/// Adds up what a group's CPUs have; `taker` if it is not the taker's own.
fn measure<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, part: Range<u32>, taker: Option<Taker>) -> GroupLoad {
    let mut group = GroupLoad { least: u64::MAX, ..GroupLoad::default() };
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
        group.nr_fair += u64::from(nr);
        group.nr_idle += u64::from(counts.running == 0);
        (group.least, group.most) = (group.least.min(capacity), group.most.max(capacity));
        let full = u64::from(cx.config.topology.capacity(cpu));
        let misfit = match taker {
            Some(taker) if taker.is_uneven => cx.view().misfit(cpu),
            // `sched_reduced_capacity`.
            Some(taker) if taker.may_run_alone && counts.fair == 1 && is_reduced(capacity, full) => load,
            Some(_) | None => 0,
        };
        if misfit > 0 && group.misfit.is_none_or(|(most, _)| misfit > most) {
            group.misfit = Some((misfit, cpu));
        }
        // Alone on a stronger CPU it is well off.
        if taker.is_some_and(|taker| taker.is_uneven && nr == 1 && !misfit::is_more(taker.left, capacity)) {
            continue;
        }
        if counts.fair > 0 && group.fullest.is_none_or(|(most, _)| counts.fair > most) {
            group.fullest = Some((counts.fair, cpu));
        }
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
        (GroupType::Overloaded, GroupType::Busy | GroupType::Misfit | GroupType::Overloaded) => {
            let (mine, theirs) = (local.average(), busiest.average());
            // Only who is overloaded too is conservative: a CPU with one task takes part in what others share.
            let is_close = local.kind == GroupType::Overloaded && theirs * 100 <= mine * IMBALANCE_PCT;
            let is_balanced = mine >= theirs || mine >= average || is_close;
            let over = (theirs - average.min(theirs)) * busiest.capacity;
            let under = (average - mine.min(average)) * local.capacity;
            let load = over.min(under) / FULL_CAPACITY;
            let load = if takes_rt { at_least_a_task(local, busiest, load) } else { load };
            (!is_balanced && load > 0).then_some(Imbalance::Load(load))
        }
        (GroupType::Misfit, _) => None, // Taken before.
        (GroupType::Busy | GroupType::Spare, _) => {
            // `SD_PREFER_SIBLING`: cores and caches are filled evenly, whether they have room or not.
            let excess = busiest.nr_running.saturating_sub(local.nr_running);
            if evens_out && local.kind == GroupType::Spare && excess > 1 {
                return tasks(excess / 2);
            }
            // Two on one CPU beside an idle one; a busy CPU leaves that to the idle ones.
            // One task has nobody beside it, wherever it is.
            let is_even = local.nr_idle <= busiest.nr_idle + u64::from(busiest.nr_cpus > 1);
            if kind == BalanceKind::Periodic || is_even || busiest.nr_fair == 1 {
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
