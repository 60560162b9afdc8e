//! The CPU on which a deadline task would run at once: the search of `cpudl`, with its costs.

use crate::rq::cx::Cx;
use crate::words::lines::LineAccess;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, Instant};

/// Finds a CPU, other than `near`, on which a task with this deadline would run at once.
pub(crate) fn find_later_for<L: RawMutex>(
    cx: &mut Cx<'_, L>,
    deadline: Instant,
    allowed: Option<&CpuMask>,
    near: CpuId,
) -> Option<CpuId> {
    let (domain, places) = (cx.shared.domain(near), [near, cx.by]);
    let find = || domain.cpudl.find(deadline, allowed, places, &cx.config.topology);
    let access = |_| LineAccess::DeadlineSearch { looks_at_first: !domain.cpudl.has_free(allowed) };
    let found = cx.io.search(find, access);
    cx.io.costs.cpus_scanned += 1;
    found.filter(|cpu| *cpu != near)
}
