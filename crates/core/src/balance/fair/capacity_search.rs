//! Searches for a CPU by capacity, on machines with CPUs of different capacity. The rules are those
//! of [`crate::class::fair::misfit`].

use crate::balance::fair::idle_cpu;
use crate::class::fair::misfit::{self, Fit, Need};
use crate::queue::fair::asymmetric;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Distance};

/// Finds an idle CPU for a waking task, upwards from the target and around in the domain that spans
/// all capacities: the first CPU where the task fits, otherwise the strongest of those
/// that fit but for the lower clamp, otherwise the strongest (`select_idle_capacity`). O(idle CPUs
/// of the domain).
pub(crate) fn select_idle<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, target: CpuId, need: Need) -> CpuId {
    let level = cx.config.topology.asymmetry().unwrap_or(Distance::Llc);
    let span = cx.config.topology.span(target, level);
    let mut best: Option<((Fit, u64), CpuId)> = None;
    for part in [target.0..span.end, span.start..target.0] {
        for cpu in part.map(CpuId) {
            let may_use = task.may_run_on(cpu) && !cx.config.isolates(cpu) && cx.view().is_online(cpu);
            if !may_use || !idle_cpu::is_idle_for(cx, task, cpu) {
                continue;
            }
            // A CPU that is only weaker than the lower clamp counts by what it can have at most.
            let rank = match misfit::fit(cx, need, cpu) {
                Fit::Yes => return cpu,
                Fit::ButForHint => (Fit::ButForHint, u64::from(cx.config.topology.capacity(cpu))),
                Fit::No => (Fit::No, cx.capacity_of(cpu)),
            };
            if best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, cpu));
            }
        }
    }
    best.map_or(target, |(_, cpu)| cpu)
}

/// Returns the lowest idle CPU with more capacity than this one, if a task that does not fit runs
/// here. O(idle CPUs).
pub(crate) fn find_stronger<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Option<CpuId> {
    if rq.fair.asymmetric.as_ref().is_none_or(|uneven| uneven.misfit == 0) {
        return None;
    }
    let own = cx.capacity_of(rq.cpu());
    let mut from = CpuId(0);
    while let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu(), from) {
        cx.io.costs.cpus_scanned += 1;
        if asymmetric::is_more(cx.capacity_of(cpu), own) {
            return Some(cpu);
        }
        from = CpuId(cpu.0 + 1);
    }
    None
}
