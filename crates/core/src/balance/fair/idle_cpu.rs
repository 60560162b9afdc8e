//! Checks of a single CPU or core in the searches for an idle CPU.

use crate::entity::fair;
use crate::rq::cx::Cx;
use crate::task::body::Task;
use crate::words::level::IMBALANCE_PCT;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Distance};

/// Publishes how many CPUs of a cache are worth a search, after a balancing round over the whole
/// cache (`update_idle_cpu_scan`).
pub(crate) fn publish_scan<L: RawMutex>(cpu: CpuId, cx: &mut Cx<'_, L>, span: &Range<u32>, util: u64) {
    let cache = cx.config.topology.span(cpu, Distance::Llc);
    if *span != cache {
        return;
    }
    let cpus = u64::from(cx.view().nr_in_domain(cpu, cache.clone()).max(1));
    let busy = util / cpus * IMBALANCE_PCT;
    let crowd = (busy * busy / (10_000 * 1024)).min(1024);
    cx.shared.publish_idle_scan(CpuId(cache.start), (1024 - crowd) * cpus / 1024);
}

/// Returns whether a CPU is online and in the task's affinity and root domain.
pub(crate) fn may_use<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, cpu: CpuId) -> bool {
    task.may_run_on(cpu) && cx.view().is_online(cpu)
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
