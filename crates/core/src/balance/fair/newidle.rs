//! New-idle balancing: a CPU that is about to go idle looks for a task on other CPUs, domain by
//! domain from near to far, if that is worth the time.
//!
//! It is not worth it if the CPU's idle periods are as short as the search: a task that wakes here
//! meanwhile would have to wait for the search. So every CPU tracks the average length of its idle
//! periods and, per domain, the cost of the dearest recent search, which decays by 1 % a second.
//! The search stops at the first domain that, together with those before it, can take longer than
//! the CPU is expected to idle.
//!
//! The cost of a search is the number of examined CPUs times the cost of one on this host
//! ([`Config::with_scan_cost`](crate::Config::with_scan_cost)): the core has no clock of its own.
//!
//! With `NI_RANDOM` a domain is searched as often as searches there succeed: before a search the
//! CPU draws. A domain that was not drawn counts as searched in vain, and a success for as many
//! searches as were not drawn, so the ratio stays that of all.
//!
//! One task is taken, however large the imbalance is: balancing at ticks does the rest.
//!
//! Groups are compared as at ticks ([`imbalance`](super::imbalance)); those without waiting tasks
//! only where it matters which group is the busiest. A domain without waiting tasks is skipped.
//!
//! The exception is a cache of more than 32 CPUs that share no cores: there each CPU is a group of
//! its own. A task is taken from the CPU with the most load among those with a waiting task. This
//! differs from the kernel when no such CPU is overloaded but a single task saturates another CPU
//! of the cache: the kernel pulls nothing. Comparing all CPUs of `mixed256` (docs/lab/speed.md)
//! makes the whole simulation execute five times as many instructions, because three of four
//! searches find no overloaded CPU; stopping at the first CPU that decides the comparison costs 8 %
//! more.
//!
//! Work: O(1) if no task waits anywhere. Otherwise, for every domain, O(CPUs of the groups with
//! waiting tasks) if one of these is overloaded, or O(CPUs) if none is, and the same again for
//! every CPU that has no task that is allowed here. Where groups are compared, a search is charged
//! for all CPUs of the domain, because the kernel examines all of them.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_balance_newidle`, `update_newidle_cost`;
//! `kernel/sched/core.c`, `ttwu_do_activate`, `update_avg`; commits c5b0a7eefc70 (5.16),
//! 155213a2aed4 (6.17), 33cf66d88306 (6.19). differs: caches of more than 32 CPUs that share no
//! cores; the time for locks and for moving tasks is not counted; whether any task waits is known
//! at any time, not remembered until the next round of the machine's domain (`rd->overloaded`).

use crate::balance::fair::imbalance::find_imbalance;
use crate::balance::fair::{sis_prop, uneven};
use crate::class::fair::groups;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::level::LEVELS;
use crate::words::step::{Balance, BalanceKind, Imbalance, PairCont, Step};
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Distance, Duration};

/// Ends the idle period: a task wakes on this CPU. O(1).
#[inline]
pub(crate) fn woken<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if let Some(since) = rq.fair.newidle.since.take() {
        rq.fair.newidle.idled(cx.now.wall.since(since), &cx.config.settings);
        sis_prop::idled(cx, rq.cpu(), rq.fair.newidle.average);
    }
}

/// Begins the search of a CPU that is about to go idle: asks for the pair of run queues to take a
/// task from another CPU.
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.phantoms(&cx.config.settings) > 0 || rq.is_isolated() {
        return Step::Done;
    }
    rq.fair.newidle.since = Some(cx.now.wall);
    rq.fair.newidle.spent = Duration::ZERO;
    rq.fair.balance.pinned.clear();
    let settings = &cx.config.settings;
    if settings.newidle_min_idle && rq.fair.newidle.average < settings.migration_cost {
        return Step::Done;
    }
    search(rq, cx, 0, None)
}

/// Searches the domains from a level upwards. `again` is a level that was drawn before and is
/// searched once more, without a CPU whose tasks may not move here.
fn search<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: usize, again: Option<usize>) -> Step {
    let does_one_wait = cx.view().next_waiting(CpuId(0)).is_some();
    if !does_one_wait && rq.fair.asymmetric.is_none() {
        return Step::Done;
    }
    for (level, (distance, groups)) in LEVELS.into_iter().enumerate().skip(from) {
        let [span, inner] = [distance, groups].map(|distance| cx.config.topology.span(rq.cpu(), distance));
        let waits = does_one_wait && waits_in(cx, &span, &inner);
        let has_misfits = rq.fair.asymmetric.as_ref().is_some_and(|uneven| uneven.level <= distance);
        let settings = &cx.config.settings;
        // The kernel searches all domains if a task waits anywhere.
        let has_strays = rq.fair.tune.gathers && does_one_wait && distance > Distance::Llc;
        let can_find = waits || has_misfits || has_strays;
        if span == inner || !can_find && !settings.ni_random {
            continue;
        }
        if rq.fair.newidle.is_too_dear(level) {
            break;
        }
        if again != Some(level) && !rq.fair.newidle.is_drawn(level, cx.now.wall, settings) {
            continue;
        }
        if !can_find {
            rq.fair.newidle.searched(level, false, cx.now.wall, settings);
            continue;
        }
        let before = cx.io.costs.cpus_searched;
        let are_single = cx.config.topology.span(rq.cpu(), groups).len() == 1;
        let found = if are_single && !has_misfits && span.len() > LARGEST {
            cx.io.costs.fair_balance += 1;
            busiest_waiting(rq, cx, span, inner).map(|cpu| (cpu, Imbalance::Tasks(1)))
        } else {
            groups::divide_shares(cx, rq.cpu(), &span);
            rq.publish(cx); // The comparison reads published state, also of this CPU.
            let found = find_imbalance(rq, cx, level, BalanceKind::NewIdle);
            // Not all CPUs had to be examined, but the kernel examines all.
            cx.io.costs.cpus_searched = before + cx.view().nr_in_domain(rq.cpu(), span);
            found.filter(|(_, imbalance)| waits || matches!(imbalance, Imbalance::Misfit | Imbalance::Strayed))
        };
        let scanned = u64::from(cx.io.costs.cpus_searched - before);
        rq.fair.newidle.took(level, cx.now.wall, cx.config.scan_cost * scanned);
        if let Some((other, imbalance)) = found {
            let (kind, failed) = (BalanceKind::NewIdle, rq.fair.balance.failed(level));
            let work = Balance { kind, level: level as u8, failed, asker: rq.cpu(), imbalance };
            return Step::Pair { own: rq.cpu(), other, then: PairCont::Balance(work) };
        }
        rq.fair.newidle.was_in_vain(level, cx.now.wall, &cx.config.settings);
        rq.fair.newidle.searched(level, false, cx.now.wall, &cx.config.settings);
        uneven::found_even(rq, cx, level);
    }
    Step::Done
}

/// Returns whether a task waits on a CPU of `span` outside `inner`. O(words of the mask).
fn waits_in<L: RawMutex>(cx: &mut Cx<'_, L>, span: &Range<u32>, inner: &Range<u32>) -> bool {
    let mut next = |from| cx.view().next_waiting(CpuId(from)).filter(|cpu| cpu.0 < span.end);
    match next(span.start) {
        Some(cpu) if inner.contains(&cpu.0) => next(inner.end).is_some(),
        first => first.is_some(),
    }
}

/// Finds the CPU with the most load among those of `span` outside `inner` that have a waiting task.
fn busiest_waiting<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, span: Range<u32>, inner: Range<u32>) -> Option<CpuId> {
    let mut best: Option<(u64, CpuId)> = None;
    let mut from = CpuId(span.start);
    while let Some(cpu) = cx.view().next_waiting(from).filter(|cpu| cpu.0 < span.end) {
        from = CpuId(cpu.0 + 1);
        if inner.contains(&cpu.0) || !cx.view().is_in_domain_of(rq.cpu(), cpu) || rq.fair.balance.pinned.contains(&cpu)
        {
            continue;
        }
        cx.io.costs.cpus_searched += 1;
        let load = cx.averages_of(cpu).load;
        if best.is_none_or(|(most, _)| load > most) {
            best = Some((load, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// Notes that a task was taken in a domain, or that one has joined meanwhile: the CPU does not go
/// idle.
pub(crate) fn found<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, level: usize, took: bool) {
    rq.fair.newidle.since = None;
    rq.fair.newidle.searched(level, took, cx.now.wall, &cx.config.settings);
}

/// Continues a search after a CPU from which nothing was taken. If no task there may move here, the
/// domain is searched again without it.
pub(crate) fn continued<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, level: usize, all_pinned: bool) -> Step {
    if all_pinned {
        return search(rq, cx, level, Some(level));
    }
    let (now, settings) = (cx.now.wall, &cx.config.settings);
    rq.fair.newidle.was_in_vain(level, now, settings);
    rq.fair.newidle.searched(level, false, now, settings);
    search(rq, cx, level + 1, None)
}

/// In a larger cache of CPUs that share no cores, groups are not compared.
const LARGEST: usize = 32;
