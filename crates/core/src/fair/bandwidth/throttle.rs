//! Throttling: a group's queue on one CPU is taken out of the hierarchy, with all that is in it, and put back.
//!
//! ```text
//!            out of quota when its task leaves the CPU, or when its first entity joins [1]
//!   free --------------------------------------------------------------------------------> throttled
//!        <--------------------------------------------------------------------------------
//!            quota at a refresh, a new limit [2]; or its last task has left [3]
//! ```
//!
//! Tasks may join and leave a throttled queue; counts of tasks stop at it on the way up.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `throttle_cfs_rq`, `unthrottle_cfs_rq`. The document of 2010 throttles
//! when the time is charged; since 3.2 the kernel does so when the task is put, as here.

use super::super::enqueue::{Tally, count, join_above, part, part_above_throttled};
use super::super::entity::EntityRef;
use super::super::group::{self, MAX_DEPTH};
use super::super::queue::QueueIx;
use super::super::run::put_down;
use super::{receive, with_pool};
use crate::dl;
use crate::rq::{Cx, Phase, Rq};
use crate::slab::Slot;
use crate::step::Resched;
use lock_api::RawMutex;
use zerolag_model::{GroupId, TraceEvent};

/// Returns whether a task is in a throttled queue, at any depth. O(depth) if this CPU has any.
pub(crate) fn is_throttled(rq: &Rq, slot: Slot) -> bool {
    rq.fair.nr_throttled > 0 && is_below_throttled(rq, rq.tasks[slot].fair.queue)
}

/// Returns whether a queue or one above it is throttled.
pub(crate) fn is_below_throttled(rq: &Rq, from: QueueIx) -> bool {
    let mut at = Some(from);
    while let Some(q) = at {
        let queue = rq.queue(q);
        if queue.bandwidth.is_throttled() {
            return true;
        }
        at = queue.parent;
    }
    false
}

/// Returns whether a task of this group would be throttled on a CPU. O(depth x log live queues) if that has any throttled.
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

/// The CPU leaves its task: the groups on the way to it that are out of quota are throttled, from the task upwards.
pub(crate) fn throttle_exhausted<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let mut path = [QueueIx::ROOT; MAX_DEPTH];
    let mut depth = 0;
    let mut at = rq.queue(QueueIx::ROOT).current;
    while let Some(EntityRef::Group(q)) = at {
        path[depth] = q;
        depth += 1;
        at = rq.queue(q).current;
    }
    for q in path[..depth].iter().rev().copied() {
        let queue = rq.queue(q);
        // A group that has left with its last task, or stays only for its lag, runs nothing.
        let may_run = queue.entity.is_queued() && queue.tally.tasks() > 0;
        if may_run && queue.bandwidth.is_out_of_quota() {
            throttle(rq, cx, q);
            dl::server::update(rq, cx);
        }
    }
}

/// Throttles a queue, unless the pool has quota by now.
pub(super) fn throttle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    let (group, remaining, cpu) = (rq.queue(q).group, rq.queue(q).bandwidth.remaining, rq.cpu);
    let taken = with_pool(cx, group, |pool, now| pool.throttle(now, cpu, remaining));
    if receive(rq, cx, q, taken) {
        return;
    }
    rq.is_unpublished = true;
    rq.fair.nr_throttled += 1;
    cx.io.costs.throttles += 1;
    let queue = rq.queue_mut(q);
    queue.bandwidth.throttled = Some(cx.now.wall); // [1]
    let (tally, parent) = (queue.tally, queue.parent.expect("invariant: the root has no limit"));
    cx.io.event(cx.now, cpu, || TraceEvent::Throttle { group });
    put_down(rq, q);
    if rq.queue(q).entity.is_queued() {
        part(rq, cx, parent, EntityRef::Group(q), true);
        if count(rq, parent, Tally::default(), tally) {
            rq.nr_running -= tally.tasks();
            rq.fair.nr_apart += tally.tasks();
        }
        part_above_throttled(rq, cx, parent);
    }
    for_each_above(rq, q, |local| local.throttled_below += 1);
    // It may have rested, and those above it too: they are needed now.
    let mut at = Some(q);
    while let Some(q) = at.filter(|q| !rq.queue(*q).entity.is_queued()) {
        rq.fair.wake_queue(q);
        at = rq.queue(q).parent;
    }
}

/// Puts a throttled queue back. The pool knows already.
pub(super) fn unthrottle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    rq.is_unpublished = true;
    rq.fair.nr_throttled -= 1;
    cx.io.costs.throttles += 1;
    let (group, cpu) = (rq.queue(q).group, rq.cpu);
    rq.queue_mut(q).bandwidth.throttled = None; // [2] [3]
    cx.io.event(cx.now, cpu, || TraceEvent::Unthrottle { group });
    for_each_above(rq, q, |local| local.throttled_below -= 1);
    if rq.queue(q).nr_queued == 0 {
        let mut at = Some(q);
        while let Some(q) = at {
            let queue = rq.queue(q);
            at = queue.parent;
            if at.is_some() && queue.nr_queued == 0 && !queue.entity.is_queued() {
                group::rest_queue(rq, &cx.shared.groups, q);
            }
        }
        return;
    }
    let (tally, parent) = (rq.queue(q).tally, rq.queue(q).parent.expect("invariant: the root has no limit"));
    join_above(rq, cx, q);
    if count(rq, parent, tally, Tally::default()) {
        rq.nr_running += tally.tasks();
        rq.fair.nr_apart -= tally.tasks();
        // Whoever runs goes on until its turn is over (`unthrottle_cfs_rq`).
        if rq.current.is_none() && rq.phase == Phase::Running && tally.runnable > 0 {
            rq.resched(cx, Resched::Now);
        }
    }
}

/// A task has left: throttled queues on its way that have no other are free, so that a group without tasks is throttled
/// nowhere.
pub(crate) fn release_if_empty<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut at = Some(from);
    while let Some(q) = at {
        let queue = rq.queue(q);
        at = queue.parent;
        if let Some(since) = queue.bandwidth.throttled.filter(|_| queue.tally.tasks() == 0) {
            let (group, cpu) = (queue.group, rq.cpu);
            let lasted = cx.now.wall.since(since);
            with_pool(cx, group, |pool, _| {
                pool.release(cpu, lasted);
                super::Taken::nothing(None)
            });
            unthrottle(rq, cx, q);
        }
    }
}

fn for_each_above(rq: &mut Rq, from: QueueIx, mut change: impl FnMut(&mut super::Local)) {
    let mut at = rq.queue(from).parent;
    while let Some(q) = at {
        let queue = rq.queue_mut(q);
        change(&mut queue.bandwidth);
        at = queue.parent;
    }
}
