//! Where a fair task is put when it wakes, is new, or may not stay.
use crate::rq::Cx;
use crate::scheduler::Placement;
use crate::task::Task;
use lock_api::RawMutex;
use zerolag_model::CpuId;

pub(crate) fn select<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, _why: Placement) -> CpuId {
    let allowed = task.allowed.as_deref();
    let last = task.last_cpu;
    if let Some(cpu) = cx.view().next_idle(allowed, CpuId(0)) {
        return cpu;
    }
    if task.may_run_on(last) { last } else { allowed.and_then(|mask| mask.first()).unwrap_or(last) }
}
