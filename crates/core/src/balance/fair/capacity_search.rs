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

/// Returns whether a task with this need fits a CPU and, with `asym_idle_core`, no other thread of
/// its core is busy (`asym_fits_cpu`). Every task fits where CPUs are equal.
pub(crate) fn fits_cpu<L: RawMutex>(cx: &mut Cx<'_, L>, need: Option<Need>, cpu: CpuId) -> bool {
    need.is_none_or(|need| {
        misfit::fit(cx, need, cpu) == Fit::Yes && (!prefers_cores(cx) || idle_cpu::has_core_alone(cx, cpu))
    })
}

/// Returns whether a CPU beside a busy thread of its core counts as weaker than its capacity.
pub(crate) fn prefers_cores<L: RawMutex>(cx: &Cx<'_, L>) -> bool {
    let [.., smt] = cx.config.topology.shape();
    smt > 1 && cx.config.settings.asym_idle_core
}

/// Finds an idle CPU for a waking task, upwards from the target and around in the domain that spans
/// all capacities: the first CPU where the task fits, otherwise the strongest of those
/// that fit but for the lower clamp, otherwise the strongest (`select_idle_capacity`).
///
/// With `asym_idle_core`, if a core idles, a CPU on an idle core comes before all others. If none
/// does, `asym_sis_util` limits the number of CPUs that are looked at. O(idle CPUs of the domain).
///
/// differs: the kernel keeps a note that a core idles, which can be out of date.
pub(crate) fn select_idle<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, target: CpuId, need: Need) -> CpuId {
    let level = cx.config.topology.asymmetry().unwrap_or(Distance::Llc);
    let span = cx.config.topology.span(target, level);
    let limit = idle_cpu::capacity_span(cx, target).map(|span| idle_cpu::scan_at(cx, &span));
    let mut looks = limit.and_then(|at| cx.view().idle_scan(at));
    if looks == Some(0) {
        return target;
    }
    let prefers_cores = prefers_cores(cx) && idle_cpu::has_idle_core(cx, &span);
    if prefers_cores {
        looks = None;
    }
    let mut best: Option<((bool, Fit, u64), CpuId)> = None;
    for cpu in (target.0..span.end).chain(span.start..target.0).map(CpuId) {
        if !task.may_run_on(cpu) || cx.config.isolates(cpu) || !cx.view().is_online(cpu) {
            continue;
        }
        match &mut looks {
            Some(0) => break,
            Some(looks) => *looks -= 1,
            None => {}
        }
        if !idle_cpu::is_idle_for(cx, task, cpu) {
            continue;
        }
        let is_core = !prefers_cores || idle_cpu::has_core_alone(cx, cpu);
        // A CPU that is only weaker than the lower clamp counts by what it can have at most.
        let rank = match misfit::fit(cx, need, cpu) {
            Fit::Yes if is_core => return cpu,
            Fit::ButForHint => (is_core, Fit::ButForHint, u64::from(cx.config.topology.capacity(cpu))),
            fit @ (Fit::Yes | Fit::No) => (is_core, fit, cx.capacity_of(cpu)),
        };
        if best.is_none_or(|(most, _)| rank > most) {
            best = Some((rank, cpu));
        }
    }
    best.map_or(target, |(_, cpu)| cpu)
}

/// Returns the lowest idle CPU with more capacity than this one that may take a misfit, if a task
/// that does not fit runs here. O(idle CPUs).
pub(crate) fn find_stronger<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Option<CpuId> {
    if rq.fair.asymmetric.as_ref().is_none_or(|uneven| uneven.misfit == 0) {
        return None;
    }
    let own = cx.capacity_of(rq.cpu());
    let needs_core = prefers_cores(cx);
    let mut from = CpuId(0);
    while let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu(), from) {
        cx.io.costs.cpus_scanned += 1;
        if asymmetric::is_more(cx.capacity_of(cpu), own) && (!needs_core || idle_cpu::has_core_alone(cx, cpu)) {
            return Some(cpu);
        }
        from = CpuId(cpu.0 + 1);
    }
    None
}
