//! The CPU for a waking or displaced real-time task.

use crate::balance::fair::select;
use crate::class::rt_lowest;
use crate::rq::cx::Cx;
use crate::task::body::Task;
use crate::words::life::Placement;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, GroupId, Prio};

/// Chooses a CPU for an RT task: Linux v6.12 `rt.c`, `select_task_rq_rt`.
///
/// The task stays where it ran unless an RT task runs there that is at least as urgent or cannot
/// move. Then it goes to the CPU of lowest priority, if it beats the tasks that are queued there.
/// A deadline task counts as an RT task with `rt_select_beside_dl` only (`rt_task` until v6.12).
/// Without `rt_select_on_wake` it stays and is pushed later. A task that the passive balancer has
/// asked for goes there. A task that the servers of a group run stays (HCBS v6, patch 21).
pub(crate) fn select<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, why: Placement) -> CpuId {
    let allowed = task.allowed.as_deref();
    let settings = &cx.config.settings;
    let is_served = cx.shared.served.is_on() && is_served(cx, task.group);
    if !is_served && settings.rt_balance.is_passive() && (!settings.rt_balance.is_active() || task.bound.is_some()) {
        return select::select(cx, task, why);
    }
    let stay = if task.may_run_on(task.last_cpu) {
        task.last_cpu
    } else {
        allowed.and_then(CpuMask::first).expect("invariant: an allowed mask is not empty")
    };
    if is_served || !settings.rt_select_on_wake && why.is_wakeup() {
        return stay;
    }
    let there = cx.view().prios(stay);
    let is_rt =
        there.current.beats(Prio::FIRST_FAIR) && (there.current != Prio::DEADLINE || settings.rt_select_beside_dl);
    let crowded = is_rt && (!there.current_movable || !task.prio.beats(there.current));
    if !crowded && stay == task.last_cpu {
        return stay;
    }
    match rt_lowest::find_lowest_for(cx, task.prio, allowed, stay) {
        Some(cpu) if task.prio.beats(cx.view().prios(cpu).highest) => cpu,
        _ => stay,
    }
}

/// Returns whether servers run the real-time tasks of a group.
#[cold]
fn is_served<L: RawMutex>(cx: &mut Cx<'_, L>, group: GroupId) -> bool {
    let shared = cx.shared;
    cx.io.observer.u64(|| u64::from(shared.served.context(group).0)) != u64::from(GroupId::ROOT.0)
}
