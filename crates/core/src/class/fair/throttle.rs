//! Throttling and unthrottling: a group's queue on one CPU runs out of quota, and gets some again.
//! A throttled queue is detached from the hierarchy, with everything in it, and reattached later.
//! With `throttle = at_user_return` it stays, and its tasks are stopped one by one. With
//! `boost_groups` it stays until no task of it is spared.
//!
//! ```text
//!            out of quota when its task leaves the CPU, or when its first entity joins [1]
//!   free ----------------------------------------------------------------------------> throttled
//!        <----------------------------------------------------------------------------
//!            quota at a refresh, a new limit [2]; or its last task has left [3]
//! ```
//!
//! Tasks can join and leave a throttled queue. The counts of tasks stop on the way up at a
//! detached queue.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `throttle_cfs_rq`, `unthrottle_cfs_rq`. The document
//! of 2010 throttles when the time is charged (`throttle_at = charge`); from 3.2 to 7.1 the kernel
//! does so when the task is put back.

use crate::class::fair::bandwidth::{receive, with_pool};
use crate::class::fair::enqueue::{
    count, dequeue_entity, dequeue_groups_above_throttled, enqueue_group, propagate_enqueue,
};
use crate::class::fair::{groups, park};
use crate::entity::fair::{EntityRef, QueueIx, Standing};
use crate::queue::fair::local::{Local, Throttled};
use crate::queue::fair::tally::Tally;
use crate::queue::fair::turn::put_down;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::pool::TakenQuota;
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::Throttle;
use zerolag_model::{GroupId, TraceEvent};

/// Returns whether a task is stopped because of its group: it is below a detached queue and is
/// not boosted, or it is parked. O(depth) if this CPU has a throttled queue.
pub(crate) fn is_barred(rq: &Rq, slot: Slot) -> bool {
    let entity = &rq.tasks[slot].fair;
    rq.fair.nr_throttled > 0
        && entity.standing == Standing::Ordinary
        && (entity.is_parked() || above(rq, entity.queue).any(|q| rq.queue(q).bandwidth.is_detached()))
}

/// Returns the first throttled queue from `from` upwards, `from` included. O(depth).
pub(crate) fn nearest_throttled(rq: &Rq, from: QueueIx) -> Option<QueueIx> {
    above(rq, from).find(|q| rq.queue(*q).bandwidth.is_throttled())
}

/// Returns whether a task of this group would be throttled on a CPU. O(depth x log live queues) if
/// the CPU has a throttled queue.
pub(crate) fn is_throttled_for<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, group: GroupId) -> bool {
    let table = &cx.shared.groups;
    let mut at = group;
    while rq.fair.nr_throttled > 0 && at != GroupId::ROOT {
        if rq.fair.live_queue(table, at).is_some_and(|q| rq.queue(q).bandwidth.is_throttled()) {
            return true;
        }
        at = table.parent(at);
    }
    false
}

/// Returns a queue and those above it.
pub(crate) fn above(rq: &Rq, from: QueueIx) -> impl Iterator<Item = QueueIx> + '_ {
    core::iter::successors(Some(from), |q| rq.queue(*q).parent)
}

/// Throttles a queue, unless the pool has quota by now.
pub(crate) fn throttle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    let (group, remaining, cpu) = (rq.queue(q).group, rq.queue(q).bandwidth.remaining, rq.cpu());
    let taken = with_pool(cx, group, |pool, now| pool.throttle(now, cpu, remaining));
    if receive(rq, cx, q, taken) {
        return;
    }
    rq.note(Unpublished::ALL);
    rq.fair.nr_throttled += 1;
    cx.io.costs.throttles += 1;
    cx.io.event(cx.now, cpu, || TraceEvent::Throttle { group });
    let since = cx.now.wall;
    let how = match rq.fair.tune.throttle {
        Throttle::AtUserReturn => Throttled::Unnoticed,
        Throttle::BoostGroups if rq.queue(q).boosted.runnable > 0 => Throttled::Stays(since),
        Throttle::BoostGroups | Throttle::Immediate | Throttle::BoostOnWakeup | Throttle::BoostInKernel => {
            Throttled::Detached(since)
        }
    };
    rq.queue_mut(q).bandwidth.throttled = how; // [1] It is out of quota from now on.
    if rq.queue(q).bandwidth.is_detached() {
        detach_queue(rq, cx, q);
        groups::follow_throttling(rq.queue(q), cx);
    }
    for_each_above(rq, q, |local| local.throttled_below += 1);
    // The queue and those above it could have rested; they are needed now.
    let mut at = Some(q);
    while let Some(q) = at.filter(|q| !rq.queue(*q).entity.is_queued()) {
        rq.fair.wake_queue(q);
        at = rq.queue(q).parent;
    }
}

/// Detaches a queue from the hierarchy, except for its boosted entities.
fn detach_queue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    let queue = rq.queue(q);
    let (tally, boosted) = (queue.tally, queue.boosted);
    let parent = queue.parent.expect("invariant: the root has no limit");
    let now = rq.averages_clock();
    put_down(&mut rq.fair, &mut rq.tasks, q, now);
    if !rq.queue(q).entity.is_queued() {
        return;
    }
    let stays = boosted.runnable > 0;
    if !stays {
        dequeue_entity(rq, cx, parent, EntityRef::Group(q), true);
    }
    let gone = tally.minus(boosted);
    if count(rq, parent, Tally::default(), gone) {
        rq.fair.nr_apart += gone.tasks();
    }
    if !stays {
        dequeue_groups_above_throttled(rq, cx, parent);
    }
}

/// Puts a throttled queue back. The pool has already been updated.
pub(crate) fn unthrottle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    rq.note(Unpublished::ALL);
    rq.fair.nr_throttled -= 1;
    cx.io.costs.throttles += 1;
    let (group, cpu) = (rq.queue(q).group, rq.cpu());
    let was_detached = rq.queue(q).bandwidth.is_detached();
    rq.queue_mut(q).bandwidth.throttled = Throttled::No; // [2] [3]
    groups::follow_throttling(rq.queue(q), cx);
    cx.io.event(cx.now, cpu, || TraceEvent::Unthrottle { group });
    for_each_above(rq, q, |local| local.throttled_below -= 1);
    if rq.queue(q).nr_queued == 0 {
        groups::publish_load(rq, cx, q);
        park::rest_empty(rq, cx, q);
        return notice_moved(rq, cx);
    }
    if !was_detached {
        return notice_moved(rq, cx);
    }
    let tally = rq.queue(q).tally.minus(rq.queue(q).boosted);
    if reattach_queue(rq, cx, q, tally) {
        // The current task continues until its turn is over (`unthrottle_cfs_rq`).
        if rq.current_slot().is_none() && rq.phase() == Phase::Running && tally.runnable > 0 && rq.is_online() {
            rq.resched(cx, Resched::Now);
        }
    }
}

/// An idle CPU sees the tasks that were moved to other groups meanwhile, of which it was not told
/// (`fault.group_move_unnoticed`): an unthrottled group makes it switch, with or without tasks of
/// its own (`unthrottle_cfs_rq`). differs: until 5.10 not without.
fn notice_moved<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let is_idle = rq.current_slot().is_none() && rq.phase() == Phase::Running && rq.is_online();
    if cx.config.settings.group_move_unnoticed && is_idle && rq.fair.nr_running() > 0 {
        rq.resched(cx, Resched::Now);
    }
}

/// Puts a detached queue back into the hierarchy, with those of its tasks that did not count
/// there; returns whether they count at the root now.
fn reattach_queue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, tally: Tally) -> bool {
    let parent = rq.queue(q).parent.expect("invariant: the root has no limit");
    enqueue_group(rq, cx, q, parent);
    let at_root = propagate_enqueue(rq, cx, parent, tally, Tally::default());
    if at_root {
        rq.fair.nr_apart -= tally.tasks();
    }
    at_root
}

/// Puts a detached queue back into the hierarchy, for as long as a task below it is spared. It
/// stays throttled: the group owes the CPU time of its tasks, and repays it from its next quota.
pub(crate) fn reattach_for_spared<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    if let Throttled::Detached(since) = rq.queue(q).bandwidth.throttled {
        let tally = rq.queue(q).tally;
        rq.queue_mut(q).bandwidth.throttled = Throttled::Stays(since);
        reattach_queue(rq, cx, q, tally);
    }
}

/// Detaches a throttled queue again if it stayed for spared tasks and none of them is left.
pub(crate) fn detach_unspared<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    if let Throttled::Stays(since) = rq.queue(q).bandwidth.throttled
        && rq.fair.tune.throttle == Throttle::BoostGroups
        && rq.queue(q).boosted.runnable == 0
    {
        rq.note(Unpublished::ALL);
        rq.queue_mut(q).bandwidth.throttled = Throttled::Detached(since);
        detach_queue(rq, cx, q);
    }
}

/// Releases throttled queues on the way of a task that has left, if they have no other task. So a
/// group without tasks is throttled nowhere.
pub(crate) fn release_if_empty<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut at = Some(from);
    while let Some(q) = at {
        let queue = rq.queue(q);
        at = queue.parent;
        let lasted = queue.bandwidth.throttled_for(cx.now.wall);
        if let Some(lasted) = lasted.filter(|_| queue.tally.tasks() == 0) {
            let (group, cpu) = (queue.group, rq.cpu());
            with_pool(cx, group, |pool, _| {
                pool.release(cpu, lasted);
                TakenQuota::nothing(None)
            });
            unthrottle(rq, cx, q);
        }
    }
}

fn for_each_above(rq: &mut Rq, from: QueueIx, mut change: impl FnMut(&mut Local)) {
    let mut at = rq.queue(from).parent;
    while let Some(q) = at {
        let queue = rq.queue_mut(q);
        change(&mut queue.bandwidth);
        at = queue.parent;
    }
}
