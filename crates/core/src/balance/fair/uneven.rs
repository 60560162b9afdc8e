//! The CPUs that represent a group of a domain, and whether tasks that are bound to CPUs keep the
//! group uneven (`sgc->imbalance`).

use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::level::LEVELS;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::CpuId;

/// Returns the first CPU of a range that is online and in the root domain of this CPU: it
/// represents the range (`group_balance_cpu`).
pub(crate) fn first_of<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, cpus: Range<u32>) -> Option<CpuId> {
    cpus.map(CpuId).find(|cpu| cx.view().takes_part(rq.cpu(), *cpu))
}

/// Resets the failures of a level that was found balanced, also by a CPU that goes idle; no tasks
/// keep the level uneven any more.
pub(crate) fn found_even<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, level: usize) {
    rq.fair.balance.levels[level].failed = 0;
    say_uneven(rq, cx, level, false);
}

/// Tells the domain above whether tasks that are bound to CPUs keep this one uneven
/// (`sgc->imbalance`). O(1).
pub(crate) fn say_uneven<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, level: usize, is_uneven: bool) {
    let spans = LEVELS.map(|(distance, _)| cx.config.topology.span(rq.cpu(), distance));
    let Some(parent) = (level + 1..LEVELS.len()).find(|parent| spans[*parent] != spans[level]) else { return };
    if let Some(first) = first_of(rq, cx, spans[level].clone())
        && cx.view().is_uneven(first, parent) != is_uneven
    {
        cx.shared.publish_uneven(first, parent, is_uneven);
    }
}
