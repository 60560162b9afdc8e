//! The plain preemption: from a fair task to another one, or on with the same, in one step.
//!
//! A switch asks of the task that it leaves and of the next one which class each is, which tasks
//! become pushable, whether the CPU begins or ends to idle, which servers are concerned. Between
//! two fair tasks, with nothing else on the CPU, each answer is known, so this is the same as
//! leaving and picking with those steps left out. A CPU on which anything can stand between the two
//! takes the other way ([`Rq::is_preempted_plainly`]).

use crate::class::fair::{capacity, park};
use crate::class::{dl_server, fair};
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Prev, Rq};
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::{ClassId, PrevState, TaskId};

/// Leaves the current task, which must be preempted plainly, and makes the next one current.
/// Returns that; `None` if its group has got a limit since it was last charged, which the charge
/// notices. O(log n).
#[inline(always)]
pub(crate) fn preempt<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, going: Slot) -> Option<TaskId> {
    lifecycle::charge_current(rq, cx);
    if rq.fair.has_limits {
        return None;
    }
    dl_server::put_back(rq, cx, ClassId::Fair);
    let coming = fair::pick(rq, cx).expect("invariant: the task that is left can go on");
    let next = if coming == going { rq.tasks[going].id } else { switch(rq, cx, going, coming) };
    rq.end_switch();
    // Requests for the next switch, so after this one in a trace.
    if rq.dl.has_lowered || !lifecycle::may_stay(rq, cx, coming) {
        rq.resched(cx, Resched::Now);
    } else if park::is_due(rq, coming) {
        rq.resched_to_park(cx);
    }
    rq.publish(cx);
    Some(next)
}

/// Makes a waiting fair task current in place of another one, which can go on.
#[inline(always)]
fn switch<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, going: Slot, coming: Slot) -> TaskId {
    let now = rq.clock_task();
    let nr_cpus = cx.shared.nr_cpus();
    let [left, next] = rq.tasks.two(going, coming);
    left.last_ran = cx.now.wall;
    next.exec_start = now;
    next.counters.switches_in += 1;
    let prev = Prev { task: Some(left.id), prio: left.prio, state: PrevState::Runnable, cpuset: left.cpuset };
    let (id, prio, movable) = (next.id, next.prio, next.can_migrate(nr_cpus));
    rq.set_current(Some(coming));
    capacity::switched(rq, cx, ClassId::Fair);
    fair::set_next(rq, cx, coming);
    cx.shared.publish_current(rq.cpu(), Some((id, rq.fair.part_of_root(&rq.tasks[coming].fair))));
    rq.publish_current_only(cx, prio, movable);
    rq.count_switch();
    if cx.io.is_tracing() {
        lifecycle::record_switch(rq, cx, prev, Some(id));
    }
    id
}
