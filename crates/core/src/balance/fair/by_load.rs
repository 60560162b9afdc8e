//! Imbalances before 5.5 (`fair_balance`): groups of CPUs are compared by their load per CPU.
//!
//! A group can be relieved if it has more tasks than it has room for: one per CPU, and one in all
//! if its CPUs share a cache (`SD_PREFER_SIBLING`), so that tasks spread over caches. The one with
//! the most load per CPU is the busiest. It is relieved down to the average of the domain, but not
//! below a floor:
//!
//! | `fair_balance` | the floor |
//! |---|---|
//! | `load_per_task` (until 2.6.33) | the load of one task per CPU |
//! | `load_above_capacity` (2.6.34) | one task of nice 0 per unit of room |
//!
//! The second compares loads with a constant. Tasks of a group weigh less than one of nice 0, since
//! its shares are divided over the CPUs. So a group with one such task on each CPU is far above the
//! floor. An idle CPU tries to relieve it, finds no waiting task, and after some rounds asks for a
//! running one. A CPU is idle too while its tasks are throttled, and then the task that it takes is
//! throttled with them.
//!
//! Throttled tasks have no load. Whether they count as tasks is a matter of
//! `hierarchical_running`; if they do, the load per task is too small. Such a group has less load
//! per CPU than a group without throttled tasks, and more than its load per task.
//!
//! An imbalance below the load of a task is rounded up to one task if that is not worse than
//! before, or if more load would run (`fix_small_imbalance`).
//!
//! O(CPUs of the domain).
//!
//! Sources: Linux v2.6.33 and v2.6.34 `kernel/sched.c` and `kernel/sched_fair.c`,
//! `update_sg_lb_stats`, `update_sd_lb_stats`, `find_busiest_group`, `calculate_imbalance`,
//! `fix_small_imbalance`, `find_busiest_queue`; commit dd5feea14a7d. differs: the load of a CPU is
//! that of the moment; the kernel takes the smaller (others) or the larger (its own) of that and an
//! average of past ticks for CPUs that are busy and between sockets (`cpu_load`). With
//! `load_tracking = pelt` the load of tasks that sleep counts on busy CPUs.

use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::level::{FULL_CAPACITY, LEVELS, SMT_IMBALANCE_PCT};
use crate::words::step::Imbalance;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::settings::FairBalance;
use zerolag_model::{CpuId, Distance};

/// The sums of a group of CPUs (`sg_lb_stats`).
struct GroupSum {
    cpus: Range<u32>,
    load: u64,
    capacity: u64,
    nr_running: u64,
    /// The number of tasks that it has room for.
    room: u64,
    /// Whether its CPUs differ by more than two tasks (`group_imb`).
    is_lopsided: bool,
}

impl GroupSum {
    /// Returns the load per CPU of full capacity.
    const fn average(&self) -> u64 {
        scaled(self.load, self.capacity)
    }

    fn per_task(&self) -> u64 {
        self.load.checked_div(self.nr_running).unwrap_or(0)
    }
}

const fn scaled(load: u64, capacity: u64) -> u64 {
    load * FULL_CAPACITY / if capacity == 0 { 1 } else { capacity }
}

/// Finds the CPU to take from, and how much load. This CPU balances for its group.
pub(crate) fn find<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, level: usize) -> Option<(CpuId, Imbalance)> {
    let (distance, groups) = LEVELS[level];
    let [span, own] = [distance, groups].map(|distance| cx.config.topology.span(rq.cpu(), distance));
    let rules = cx.config.settings.fair_balance;
    let prefers_siblings = matches!(groups, Distance::Llc | Distance::Socket);
    let local = measure(rq, cx, own.clone());
    let (mut load, mut capacity) = (local.load, local.capacity);
    let mut busiest: Option<GroupSum> = None;
    for part in [own.end..span.end, span.start..own.start] {
        let mut start = part.start;
        while start < part.end {
            let cpus = cx.config.topology.span(CpuId(start), groups);
            start = cpus.end;
            let mut group = measure(rq, cx, cpus);
            (load, capacity) = (load + group.load, capacity + group.capacity);
            if prefers_siblings {
                group.room = group.room.min(1);
            }
            let is_crowded = group.nr_running > group.room || group.is_lopsided;
            let most = busiest.as_ref().map_or(0, GroupSum::average);
            if is_crowded && group.average() > most {
                busiest = Some(group);
            }
        }
    }
    let busiest = busiest.filter(|busiest| busiest.nr_running > 0)?;
    let imbalance_pct = if distance == Distance::Smt { SMT_IMBALANCE_PCT } else { IMBALANCE_PCT };
    let (mine, theirs, average) = (local.average(), busiest.average(), scaled(load, capacity));
    if mine >= theirs || mine >= average || theirs * 100 <= mine * imbalance_pct {
        return None;
    }
    let amount = amount(rules, &local, &busiest, average)?;
    let cpu = busiest_cpu(rq, cx, busiest.cpus, amount)?;
    Some((cpu, Imbalance::Load(amount)))
}

/// Sums up the CPUs of a group.
fn measure<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, cpus: Range<u32>) -> GroupSum {
    let mut group = GroupSum { cpus: cpus.clone(), load: 0, capacity: 0, nr_running: 0, room: 0, is_lopsided: false };
    let (mut most, mut least, mut of_cpus) = (0, u64::MAX, 0);
    for cpu in cpus.map(CpuId) {
        if !cx.view().takes_part(rq.cpu(), cpu) {
            continue;
        }
        group.capacity += cx.capacity_of(cpu);
        if rq.fair.balance.pinned.contains(&cpu) {
            continue;
        }
        cx.io.costs.cpus_searched += 1;
        let nr = u64::from(cx.view().counts(cpu).running);
        // The load of tasks that sleep does not count (`runnable_load_avg`).
        let load = if nr == 0 { 0 } else { cx.averages_of(cpu).load };
        group.load += load;
        group.nr_running += nr;
        (most, least) = (most.max(load), least.min(load));
        of_cpus += load.checked_div(nr).unwrap_or(0);
    }
    group.room = (group.capacity + FULL_CAPACITY / 2) / FULL_CAPACITY;
    let per_task = match cx.config.settings.fair_balance {
        FairBalance::LoadAboveCapacity => group.per_task(),
        FairBalance::LoadPerTask | FairBalance::Kinds => scaled(of_cpus, group.capacity),
    };
    group.is_lopsided = most.saturating_sub(least) > 2 * per_task;
    group
}

/// Returns how much load has to be moved (`calculate_imbalance`); `None` if the groups are
/// balanced. With 0 nothing is moved, but the round has failed.
fn amount(rules: FairBalance, local: &GroupSum, busiest: &GroupSum, average: u64) -> Option<u64> {
    let (mine, theirs) = (local.average(), busiest.average());
    let per_task = if busiest.is_lopsided { busiest.per_task().min(average) } else { busiest.per_task() };
    let above = match rules {
        FairBalance::LoadAboveCapacity if busiest.is_lopsided => u64::MAX,
        FairBalance::LoadAboveCapacity => {
            let over = busiest.nr_running.saturating_sub(busiest.room);
            over * FULL_CAPACITY * FULL_CAPACITY / busiest.capacity.max(1)
        }
        FairBalance::LoadPerTask | FairBalance::Kinds if theirs <= per_task => return None,
        FairBalance::LoadPerTask | FairBalance::Kinds => theirs - per_task,
    };
    let over = theirs.saturating_sub(average).min(above) * busiest.capacity;
    let under = (average - mine) * local.capacity;
    let amount = over.min(under) / FULL_CAPACITY;
    let is_small = theirs < average || amount < per_task;
    Some(if is_small { one_task(local, busiest, per_task).unwrap_or(amount) } else { amount })
}

/// Returns the load of a task if moving one does no harm (`fix_small_imbalance`).
fn one_task(local: &GroupSum, busiest: &GroupSum, per_task: u64) -> Option<u64> {
    let (mine, theirs) = (local.average(), busiest.average());
    let own_task = local.per_task();
    let times = if local.nr_running > 0 && per_task > own_task { 1 } else { 2 };
    let of_theirs = scaled(per_task, busiest.capacity);
    if theirs - mine + of_theirs >= of_theirs * times {
        return Some(per_task);
    }
    let runs = |group: &GroupSum, task: u64, load: u64| group.capacity * task.min(load);
    let now = (runs(busiest, per_task, theirs) + runs(local, own_task, mine)) / FULL_CAPACITY;
    let left = if theirs > of_theirs { runs(busiest, per_task, theirs - of_theirs) } else { 0 };
    let most = (theirs * busiest.capacity).min(per_task * FULL_CAPACITY);
    let moved = (left + runs(local, own_task, mine + most / local.capacity.max(1))) / FULL_CAPACITY;
    (moved > now).then_some(per_task)
}

/// Finds the CPU with the most load in a group. A CPU with a single task that is more than has to
/// be moved is passed over (`find_busiest_queue`).
fn busiest_cpu<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, cpus: Range<u32>, amount: u64) -> Option<CpuId> {
    let mut found = (0, None);
    for cpu in cpus.map(CpuId) {
        if !cx.view().takes_part(rq.cpu(), cpu) || rq.fair.balance.pinned.contains(&cpu) {
            continue;
        }
        let (load, nr) = (cx.averages_of(cpu).load, cx.view().counts(cpu).running);
        let pressed = scaled(load, cx.capacity_of(cpu));
        if pressed > found.0 && !(nr == 1 && load > amount) {
            found = (pressed, Some(cpu));
        }
    }
    found.1
}

/// How much busier another group must be, in percent (`sd->imbalance_pct`).
const IMBALANCE_PCT: u64 = 125;
