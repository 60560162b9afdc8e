//! A CPU that is about to go idle looks for a task elsewhere, domain by domain from near to far, if
//! that is worth it.
//!
//! It is not if the CPU's idle times are as short as the search is long: a task that wakes here
//! meanwhile would wait for it. So every CPU keeps how long it idles on average, and for each
//! domain how long the dearest search of late took, which is forgotten by 1 % a second. The search
//! ends at the first domain that together with those before it may take longer than the CPU will
//! idle.
//!
//! What a search takes is the number of CPUs looked at times what one look takes on this host
//! ([`Config::with_scan_cost`]): the core has no clock of its own.
//!
//! One task is taken, whatever is too much elsewhere: what follows is for the balancing at ticks.
//!
//! Groups are compared as at ticks ([`imbalance`](super::imbalance)), those without waiting tasks
//! only where it matters which is the busiest. A domain in which nobody waits is left out.
//!
//! A cache of more than 32 CPUs that share no cores is the exception: each CPU is a group of its
//! own there. A task is taken from the CPU with the most load of those on which one waits. The
//! kernel's answer is another where tasks fill none of these but one alone fills some other CPU of
//! the cache: it takes nothing. To compare all CPUs of `mixed256` (docs/lab/speed.md) makes the
//! whole simulation take five times as many instructions, since three searches of four find nobody
//! overloaded; ended at the first CPU that decides it, 8 % more.
//!
//! Complexity: O(1) if nobody waits anywhere; else for each domain O(CPUs of its groups in which
//! somebody waits) if one of those is overloaded, O(its CPUs) if none is; again for each CPU of
//! which no task may come. Where groups are compared a search is charged for all CPUs of the
//! domain, which the kernel looks at.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_balance_newidle`, `update_newidle_cost`;
//! `kernel/sched/core.c`, `ttwu_do_activate`, `update_avg`; commits c5b0a7eefc70 (5.16),
//! 155213a2aed4 (6.17). differs: caches of more than 32 CPUs that share no cores; the time that
//! locks take and tasks that are moved is not counted; whether anybody waits is known and not
//! remembered until the next round of the machine's domain (`rd->overloaded`). 33cf66d88306, by
//! which domains whose searches are seldom of use are left out at random, came after 6.18.

use crate::balance::fair::imbalance::find_imbalance;
use crate::balance::fair::{sis_prop, uneven};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::level::LEVELS;
use crate::words::step::{Balance, BalanceKind, Imbalance, PairCont, Step};
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration};

/// A task wakes on this CPU. O(1).
#[inline]
pub(crate) fn woken<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if let Some(since) = rq.fair.newidle.since.take() {
        rq.fair.newidle.idled(cx.now.wall.since(since), &cx.config.settings);
        sis_prop::idled(cx, rq.cpu(), rq.fair.newidle.average);
    }
}

/// A CPU is about to go idle: asks for the pair of run queues to take a task from another.
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
    search(rq, cx, 0)
}

/// Looks in the domains from a level upwards.
pub(crate) fn search<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: usize) -> Step {
    let does_one_wait = cx.view().next_waiting(CpuId(0)).is_some();
    if !does_one_wait && rq.fair.asymmetric.is_none() {
        return Step::Done;
    }
    for (level, (distance, groups)) in LEVELS.into_iter().enumerate().skip(from) {
        let [span, inner] = [distance, groups].map(|distance| cx.config.topology.span(rq.cpu(), distance));
        let waits = does_one_wait && waits_in(cx, &span, &inner);
        let has_misfits = rq.fair.asymmetric.as_ref().is_some_and(|uneven| uneven.level <= distance);
        if span == inner || !waits && !has_misfits {
            continue;
        }
        if rq.fair.newidle.is_too_dear(level) {
            break;
        }
        let before = cx.io.costs.cpus_scanned;
        let are_single = cx.config.topology.span(rq.cpu(), groups).len() == 1;
        let found = if are_single && !has_misfits && span.len() > LARGEST {
            cx.io.costs.fair_balance += 1;
            busiest_waiting(rq, cx, span, inner).map(|cpu| (cpu, Imbalance::Tasks(1)))
        } else {
            rq.publish(cx); // It compares what is published, of itself too.
            let found = find_imbalance(rq, cx, level, BalanceKind::NewIdle);
            // Not all CPUs had to be looked at, but the kernel looks at all.
            cx.io.costs.cpus_scanned = before + cpus_of_domain(rq, cx, span);
            found.filter(|(_, imbalance)| waits || *imbalance == Imbalance::Misfit)
        };
        let scanned = u64::from(cx.io.costs.cpus_scanned - before);
        rq.fair.newidle.took(level, cx.now.wall, cx.config.scan_cost * scanned);
        if let Some((other, imbalance)) = found {
            let (kind, failed) = (BalanceKind::NewIdle, rq.fair.balance.failed(level));
            let work = Balance { kind, level: level as u8, failed, asker: rq.cpu(), imbalance };
            return Step::Pair { own: rq.cpu(), other, then: PairCont::Balance(work) };
        }
        rq.fair.newidle.was_in_vain(level, cx.now.wall, &cx.config.settings);
        uneven::found_even(rq, cx, level);
    }
    Step::Done
}

/// Returns whether a task waits on a CPU of `span` that is not in `inner`. O(words of the mask).
fn waits_in<L: RawMutex>(cx: &mut Cx<'_, L>, span: &Range<u32>, inner: &Range<u32>) -> bool {
    let mut next = |from| cx.view().next_waiting(CpuId(from)).filter(|cpu| cpu.0 < span.end);
    match next(span.start) {
        Some(cpu) if inner.contains(&cpu.0) => next(inner.end).is_some(),
        first => first.is_some(),
    }
}

/// Returns the number of CPUs of a range that are in the root domain of this one. O(words of the
/// range).
fn cpus_of_domain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, range: Range<u32>) -> u32 {
    let span = &cx.shared.domain(rq.cpu()).span;
    cx.io.observer.u64(|| u64::from(span.count_and(None, range))) as u32
}

/// Finds the CPU with the most load among those of `span`, without `inner`, that have a waiting
/// task.
fn busiest_waiting<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, span: Range<u32>, inner: Range<u32>) -> Option<CpuId> {
    let mut best: Option<(u64, CpuId)> = None;
    let mut from = CpuId(span.start);
    while let Some(cpu) = cx.view().next_waiting(from).filter(|cpu| cpu.0 < span.end) {
        from = CpuId(cpu.0 + 1);
        if inner.contains(&cpu.0) || !cx.view().is_in_domain_of(rq.cpu(), cpu) || rq.fair.balance.pinned.contains(&cpu)
        {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        let load = cx.averages_of(cpu).load;
        if best.is_none_or(|(most, _)| load > most) {
            best = Some((load, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// A task was taken: the CPU does not go idle.
pub(crate) fn found(rq: &mut Rq) {
    rq.fair.newidle.since = None;
}

/// In a cache of more CPUs that share no cores groups are not compared.
const LARGEST: usize = 32;
