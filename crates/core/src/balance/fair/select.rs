//! The CPU for a fair task that wakes, is new, or is not allowed to stay where it is.
//!
//! **Waking.** Three steps:
//!
//! 1. Wake affinity: the target is one of two CPUs, the CPU where the task ran (`prev`) or the CPU
//!    where it is woken (`by`). Idleness decides, then load. If the waker wakes many tasks
//!    ([`wakers`]), the target is `prev`. A waker that is about to wait (`WF_SYNC`) does not count
//!    at `by`, and the load of the woken task does not count at `prev`, where it slept.
//! 2. The first idle CPU of this list: the target, `prev` if it shares the target's cache, the CPU
//!    that the task remembers ([`recent_used`]).
//! 3. A search of the target's cache, upwards from the target and around: first for a core with
//!    only idle threads, then for any idle CPU. If there is none, the task goes to the target.
//!
//! **New or displaced.** From the machine down to the CPU, every level chooses the part with the
//! most idle CPUs, or among parts without idle CPUs the part with the least load. The part where
//! the search began wins ties.
//!
//! The busier a cache is, the fewer of its CPUs are searched (`SIS_UTIL`): of n CPUs that are busy
//! for a part u of the time, n (1 - (1.17 u)^2), and none at all for u above 0.85. Balancing
//! publishes that number now and then, so it can be out of date. Before 6.0 the cost of searches
//! limited them ([`sis_prop`]).
//!
//! A CPU with only SCHED_IDLE tasks counts as idle for all other tasks. An isolated CPU
//! (`isolcpus`) never counts as idle; a task that is allowed there wakes where it ran.
//!
//! All reads are of published state ([`View`](crate::shared::view::View)); the result is a hint.
//! Waking: O(CPUs of one cache / 64), with SMT O(idle CPUs of the cache). New: O(CPUs) when no CPU
//! is idle, otherwise O(parts of each level x words).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `select_task_rq_fair`, `wake_affine_idle`,
//! `wake_affine_weight`, `select_idle_sibling`, `select_idle_core`, `sched_balance_find_dst_group`.
//! differs: the load of a waker is that of its last switch, and the load of a woken task in a group
//! is its part of the root's when it fell asleep.

use crate::balance::fair::{capacity_search, idle_cpu, recent_used, sis_prop, wakers};
use crate::class::fair::misfit;
use crate::entity::weight::{RT_LOAD, Weight};
use crate::rq::cx::Cx;
use crate::task::body::Task;
use crate::words::level::IMBALANCE_PCT;
use crate::words::life::Placement;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::settings::LoadTracking;
use zerolag_model::{CpuId, CpuMask, Distance, SchedAttr};

/// Chooses the CPU for a task.
pub(crate) fn select<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, why: Placement) -> CpuId {
    match why {
        Placement::Wakeup => select_woken(cx, task, false),
        Placement::SyncWakeup => select_woken(cx, task, true),
        Placement::Fork => find_idlest(cx, task, cx.by),
        Placement::Displaced => match task.bound {
            Some(bound) if idle_cpu::may_use(cx, task, bound.to) => bound.to,
            Some(_) | None => find_idlest(cx, task, task.last_cpu),
        },
    }
}

fn select_woken<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, is_sync: bool) -> CpuId {
    let prev = task.last_cpu;
    // `wake_wide`: a wakee that is one of many is not drawn to its waker.
    let is_wide = cx.config.settings.wake_wide && wakers::is_wide(cx, task);
    let by = if is_wide { prev } else { cx.by };
    recent_used::woken(cx, task, is_wide);
    // An isolated CPU is in no domain: no task is drawn to it or from it.
    let apart = [prev, by].map(|cpu| cx.config.isolates(cpu));
    if apart[0] && idle_cpu::may_use(cx, task, prev) {
        return prev;
    }
    let target = if apart == [false, false] {
        affine_target(cx, task, prev, by, is_sync)
    } else {
        Some(prev).filter(|_| !apart[0] && idle_cpu::may_use(cx, task, prev))
    };
    let Some(target) = target else { return find_idlest(cx, task, prev) };
    let need = misfit::need(cx, task);
    if idle_cpu::is_idle_for(cx, task, target) && capacity_search::fits_cpu(cx, need, target) {
        return target;
    }
    let cache = cx.config.topology.span(target, Distance::Llc);
    if prev != target
        && cache.contains(&prev.0)
        && idle_cpu::may_use(cx, task, prev)
        && idle_cpu::is_idle_for(cx, task, prev)
        && capacity_search::fits_cpu(cx, need, prev)
    {
        return prev;
    }
    if let Some(cpu) = recent_used::take(cx, task, target, &cache, need) {
        return if idle_cpu::may_use(cx, task, cpu) { cpu } else { idle_cpu::any_near(cx, task, prev) };
    }
    if let Some(need) = need {
        return capacity_search::select_idle(cx, task, target, need);
    }
    let scan = if cx.config.settings.sis_util { cx.view().idle_scan(CpuId(cache.start)) } else { None };
    if scan == Some(0) {
        return target;
    }
    if cx.config.topology.span(target, Distance::Smt).len() > 1
        && let Some(cpu) = find_idle_core(cx, task, target, cache.clone())
    {
        return cpu;
    }
    let allowed = task.allowed.as_deref();
    let found = find_idle(cx, allowed, target, cache.clone());
    let nr_cpus = u64::from(cx.view().nr_in_domain(target, cache.clone()));
    let Some(most) = scan.or_else(|| sis_prop::limit(cx, nr_cpus)) else { return found.unwrap_or(target) };
    let looks = found.map_or(nr_cpus, |cpu| nth_after(cx, target, cpu, &cache, allowed));
    if looks > most {
        return target;
    }
    sis_prop::spend(cx, looks);
    found.unwrap_or(target)
}

/// Returns the rank of a CPU among the CPUs of a range that a task can use and that are in the
/// domain of `target`, counted from after `target` and around; 1 is the first. O(words of the
/// range), or O(CPUs of the range) for a task with an affinity.
fn nth_after<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    target: CpuId,
    cpu: CpuId,
    range: &Range<u32>,
    allowed: Option<&CpuMask>,
) -> u64 {
    let mut count = |part: Range<u32>| match allowed {
        None => cx.view().nr_in_domain(target, part),
        Some(mask) => {
            part.filter(|at| mask.contains(CpuId(*at)) && cx.view().takes_part(target, CpuId(*at))).count() as u32
        }
    };
    let looks = if target < cpu {
        count(target.0 + 1..cpu.0 + 1)
    } else {
        count(target.0 + 1..range.end) + count(range.start..cpu.0 + 1)
    };
    u64::from(looks)
}

/// Chooses between the CPU where a task ran and the CPU where it is woken; `None` if it can use
/// neither.
fn affine_target<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, prev: CpuId, by: CpuId, is_sync: bool) -> Option<CpuId> {
    let (prev_ok, by_ok) = (idle_cpu::may_use(cx, task, prev), idle_cpu::may_use(cx, task, by));
    if !prev_ok || !by_ok || prev == by {
        return if prev_ok { Some(prev) } else { by_ok.then_some(by) };
    }
    let shares_cache = cx.config.topology.span(by, Distance::Llc).contains(&prev.0);
    let prev_idle = idle_cpu::is_idle_for(cx, task, prev);
    if shares_cache && idle_cpu::is_idle_for(cx, task, by) {
        return Some(if prev_idle { prev } else { by });
    }
    // The waker leaves its CPU to the task.
    if is_sync && cx.view().counts(by).running == 1 {
        return Some(by);
    }
    if prev_idle {
        return Some(prev);
    }
    Some(if is_lighter(cx, task, prev, by, is_sync) { by } else { prev })
}

/// Returns whether a task finds less load where it is woken than where it ran
/// (`wake_affine_weight`).
///
/// There is an advantage only if `prev` is favoured by half of the imbalance percentage. A waker
/// that is about to wait does not count, and the task itself does not count where it slept.
fn is_lighter<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, prev: CpuId, by: CpuId, is_sync: bool) -> bool {
    cx.io.costs.cpus_scanned += 2;
    let tracks_load = cx.config.settings.load_tracking == LoadTracking::Pelt;
    let weight = match task.attr {
        SchedAttr::Fair { .. } if tracks_load => u64::from(task.fair.average.part_of_root),
        SchedAttr::Fair { policy, nice, .. } => u64::from(Weight::of_policy(policy, nice).value()),
        SchedAttr::Rt { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. } => RT_LOAD,
    };
    let (prev_capacity, by_capacity) = (cx.capacity_of(prev), cx.capacity_of(by));
    let (mut here, mut there) = (cx.averages_of(prev).load, cx.averages_of(by).load);
    if is_sync {
        let waker = cx.view().current_load(by);
        if waker > there {
            return true;
        }
        there -= waker;
    }
    // A sum of weights has no part of tasks that sleep.
    if tracks_load {
        here = here.saturating_sub(weight);
    }
    let there = (there + weight) * 100 * prev_capacity;
    let here = here * (100 + (IMBALANCE_PCT - 100) / 2) * by_capacity;
    there < here || is_sync && there == here
}

/// Finds the next idle CPU of a range, upwards from `target` and around.
fn find_idle<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    allowed: Option<&CpuMask>,
    target: CpuId,
    range: Range<u32>,
) -> Option<CpuId> {
    cx.io.costs.cpus_scanned += 1;
    let above = cx.view().next_idle(allowed, CpuId(target.0 + 1)).filter(|cpu| cpu.0 < range.end);
    above.or_else(|| cx.view().next_idle(allowed, CpuId(range.start)).filter(|cpu| cpu.0 < target.0))
}

/// Finds a core with only idle threads. O(idle CPUs of the range).
fn find_idle_core<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, target: CpuId, range: Range<u32>) -> Option<CpuId> {
    let allowed = task.allowed.as_deref();
    for part in [target.0 + 1..range.end, range.start..target.0] {
        let mut from = CpuId(part.start);
        while let Some(cpu) = cx.view().next_idle(allowed, from).filter(|cpu| cpu.0 < part.end) {
            cx.io.costs.cpus_scanned += 1;
            if idle_cpu::is_on_idle_core(cx, cpu) {
                return Some(cpu);
            }
            from = CpuId(cx.config.topology.span(cpu, Distance::Smt).end);
        }
    }
    None
}

/// The room for a new task in a part of the machine.
#[derive(Clone, Copy)]
struct Room {
    nr_idle: u32,
    /// The load per CPU; compared only if no CPU is idle.
    load: u64,
}

/// Finds the idlest CPU that a task can use, from the machine down.
fn find_idlest<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, near: CpuId) -> CpuId {
    if cx.config.isolates(near) && idle_cpu::may_use(cx, task, near) {
        return near;
    }
    let mut at = near;
    let mut span = cx.config.topology.span(near, Distance::Remote);
    for level in [Distance::Socket, Distance::Llc, Distance::Smt, Distance::Same] {
        let mut best: Option<(Room, Range<u32>)> = None;
        let local = cx.config.topology.span(at, level);
        if local == span {
            continue;
        }
        let mut start = span.start;
        // The local part first, so that it wins ties; then the others in order. Bounded by the
        // parts of the span.
        let mut next = Some(local.clone());
        while let Some(part) = next {
            if let Some(room) = room(cx, task, part.clone())
                && best.as_ref().is_none_or(|(so_far, _)| room.is_better_than(*so_far))
            {
                best = Some((room, part));
            }
            next = (start < span.end).then(|| cx.config.topology.span(CpuId(start), level));
            if let Some(part) = &mut next {
                start = part.end;
                if *part == local {
                    next = (start < span.end).then(|| cx.config.topology.span(CpuId(start), level));
                    start = next.as_ref().map_or(start, |part| part.end);
                }
            }
        }
        let Some((_, part)) = best else { break };
        if !part.contains(&at.0) {
            at = CpuId(part.start);
        }
        span = part;
    }
    if idle_cpu::may_use(cx, task, at) { at } else { idle_cpu::any_allowed(cx, task) }
}

/// Returns the room for a task in a part of the machine; `None` if it can use none of its CPUs.
fn room<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, part: Range<u32>) -> Option<Room> {
    if part.clone().all(|cpu| cx.config.isolates(CpuId(cpu))) {
        return None; // It is in no domain: nothing looks at it.
    }
    cx.io.costs.cpus_scanned += 1;
    let nr_idle = cx.view().nr_idle(task.allowed.as_deref(), part.clone());
    if nr_idle > 0 {
        return Some(Room { nr_idle, load: 0 });
    }
    let (mut load, mut cpus) = (0, 0);
    for cpu in part.map(CpuId) {
        if idle_cpu::may_use(cx, task, cpu) && !cx.config.isolates(cpu) {
            cx.io.costs.cpus_scanned += 1;
            load += cx.averages_of(cpu).load;
            cpus += 1;
        }
    }
    (cpus > 0).then(|| Room { nr_idle: 0, load: load / cpus })
}

impl Room {
    const fn is_better_than(self, other: Self) -> bool {
        if self.nr_idle != other.nr_idle { self.nr_idle > other.nr_idle } else { self.load < other.load }
    }
}
