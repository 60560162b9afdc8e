//! Taking one waiting real-time task from another CPU, under both locks.
//!
//! Sources: Linux v6.12 `kernel/sched/rt.c`, `pull_rt_task`, `pick_highest_pushable_task`.

use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use lock_api::RawMutex;
use zerolag_model::{CpuId, MigrateReason};

/// Takes the most urgent task that waits on `other` and may use this CPU, if it beats all here.
pub(crate) fn take<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>) {
    let Some(slot) = highest_for(other, own.cpu(), cx) else { return };
    let prio = other.tasks[slot].prio;
    // This holds also where the CPU idles or switches: if the task were taken away, no CPU would
    // notify the tasks that could not come here because of it.
    let about_to_run = prio.beats(other.prio_to_beat());
    if prio.beats(own.top_prio()) && !about_to_run {
        lifecycle::migrate(other, own, cx, slot, MigrateReason::Pull);
    }
}

/// Returns the most urgent task that waits on `src` and is allowed on `cpu`. O(pushable tasks that
/// are not allowed there).
fn highest_for<L: RawMutex>(src: &Rq, cpu: CpuId, cx: &mut Cx<'_, L>) -> Option<Slot> {
    src.rt.pushable.iter(&src.tasks).find(|slot| {
        cx.io.costs.tasks_scanned += 1;
        src.tasks[*slot].may_run_on(cpu) && !src.is_on_cpu(*slot)
    })
}
