//! Checks of a single CPU or core in the searches for an idle CPU.

use crate::entity::fair;
use crate::rq::cx::Cx;
use crate::task::body::Task;
use crate::words::level::IMBALANCE_PCT;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, Distance};

/// Publishes how many CPUs of a range are worth a search, after a balancing round over the whole
/// range: a cache or, with `asym_sis_util`, the domain that spans all capacities
/// (`update_idle_cpu_scan`).
pub(crate) fn publish_scan<L: RawMutex>(cpu: CpuId, cx: &mut Cx<'_, L>, span: &Range<u32>, util: u64) {
    let is_cache = *span == cx.config.topology.span(cpu, Distance::Llc);
    if !is_cache && capacity_span(cx, cpu).as_ref() != Some(span) {
        return;
    }
    let cpus = u64::from(cx.view().nr_in_domain(cpu, span.clone()).max(1));
    let busy = util / cpus * IMBALANCE_PCT;
    let crowd = (busy * busy / (10_000 * 1024)).min(1024);
    cx.shared.publish_idle_scan(scan_at(cx, span), (1024 - crowd) * cpus / 1024);
}

/// Returns the domain that spans all capacities, if searches in it are limited. Between sockets
/// they are not (`claim_asym_sched_domain_shared`, `SD_NUMA`).
pub(crate) fn capacity_span<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId) -> Option<Range<u32>> {
    let settings = &cx.config.settings;
    let level = cx.config.topology.asymmetry().filter(|_| settings.sis_util && settings.asym_sis_util)?;
    (level != Distance::Remote).then(|| cx.config.topology.span(cpu, level))
}

/// Returns the CPU that holds the number of a range: the first of a cache, otherwise the last,
/// which is not the first of a cache that has several CPUs.
pub(crate) fn scan_at<L: RawMutex>(cx: &Cx<'_, L>, span: &Range<u32>) -> CpuId {
    let first = CpuId(span.start);
    if cx.config.topology.span(first, Distance::Llc) == *span { first } else { CpuId(span.end - 1) }
}

/// Returns whether a CPU is online and in the task's affinity and root domain.
pub(crate) fn may_use<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, cpu: CpuId) -> bool {
    task.may_run_on(cpu) && cx.view().is_online(cpu)
}

/// Returns the lowest CPU that a task can use, in the node of `near` if there is one
/// (`select_fallback_rq`).
pub(crate) fn any_near<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, near: CpuId) -> CpuId {
    let mut node = cx.config.topology.span(near, Distance::Socket).map(CpuId);
    node.find(|cpu| may_use(cx, task, *cpu)).unwrap_or_else(|| any_allowed(cx, task))
}

/// Returns the lowest CPU that a task can use; if all of them are offline, the lowest CPU of its
/// affinity.
pub(crate) fn any_allowed<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task) -> CpuId {
    let nr_cpus = u32::try_from(cx.shared.nr_cpus()).expect("invariant: at most 4096");
    let found = (0..nr_cpus).map(CpuId).find(|cpu| may_use(cx, task, *cpu));
    found.unwrap_or_else(|| task.allowed.as_deref().and_then(CpuMask::first).unwrap_or(task.last_cpu))
}

/// Returns whether a CPU counts as idle for a task.
pub(crate) fn is_idle_for<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, cpu: CpuId) -> bool {
    cx.io.costs.cpus_scanned += 1;
    cx.view().is_idle(cpu) || !fair::is_idle_policy(task.attr) && cx.view().counts(cpu).only_idle_policy
}

/// Returns whether all online threads of an idle CPU's core are idle (`is_core_idle`). O(threads).
pub(crate) fn is_on_idle_core<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> bool {
    let core = cx.config.topology.span(cpu, Distance::Smt);
    let nr_threads = core.len() as u32;
    let is_idle = cx.view().nr_idle(None, core.clone()) == nr_threads;
    is_idle || core.map(CpuId).all(|thread| cx.view().is_idle(thread) || !cx.view().is_online(thread))
}

/// Returns whether the other online threads of a CPU's core are idle, whatever the CPU does
/// (`is_core_idle` of a CPU that is about to idle). O(threads).
pub(crate) fn has_core_alone<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> bool {
    let mut threads = cx.config.topology.span(cpu, Distance::Smt).map(CpuId).filter(|thread| *thread != cpu);
    threads.all(|thread| cx.view().is_idle(thread) || !cx.view().is_online(thread))
}

/// Returns whether a range has an idle core. O(idle CPUs of the range).
pub(crate) fn has_idle_core<L: RawMutex>(cx: &mut Cx<'_, L>, range: &Range<u32>) -> bool {
    let mut from = CpuId(range.start);
    while let Some(cpu) = cx.view().next_idle(None, from).filter(|cpu| cpu.0 < range.end) {
        if is_on_idle_core(cx, cpu) {
            return true;
        }
        from = CpuId(cx.config.topology.span(cpu, Distance::Smt).end);
    }
    false
}
