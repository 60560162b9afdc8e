//! The CPU on which a real-time task would run at once: the search of `cpupri`, with its costs.
//! O(words of a CPU mask).

use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::lines::LineAccess;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Prio};

/// Finds the CPU of lowest priority, other than this one, that a task is allowed on and can
/// preempt.
pub(crate) fn find_lowest<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Option<CpuId> {
    let task = &rq.tasks[slot];
    find_lowest_for(cx, task.prio, task.allowed.as_deref(), rq.cpu())
}

/// As [`find_lowest`], for a task that need not be queued.
pub(crate) fn find_lowest_for<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    prio: Prio,
    allowed: Option<&zerolag_model::CpuMask>,
    near: CpuId,
) -> Option<CpuId> {
    let domain = cx.shared.domain(near);
    cx.io.costs.cpus_scanned += 1;
    let find = || domain.cpupri.find(prio, allowed, [near, cx.by], &cx.config.topology);
    let access = |found| LineAccess::Search { below: domain.cpupri.searched_below(prio, found) };
    let found = cx.io.search(find, access);
    found.filter(|cpu| *cpu != near)
}
