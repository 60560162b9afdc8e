//! Boosting: a task of a throttled hierarchy that is in kernel mode runs until it is back in user
//! mode.
//!
//! A throttled task can hold a lock of the kernel. Without boosting, every task that needs the lock
//! waits until the holder's group gets quota again.
//!
//! ```text
//!             wakes in a limited group, or joins one in kernel mode [1]
//!   ordinary -------------------------------------------------------------> boosted
//!            <-------------------------------------------------------------
//!             is back in user mode and leaves its CPU [3];
//!             waits, ends, moves, or changes its class [4]
//!
//!   boost_in_kernel also: its CPU leaves it in kernel mode, or had left it so before its group got
//!   a limit [2]
//!
//!   boost_groups:                        [1], as `boosted`
//!   ordinary, its groups detached -----------------------------> spared, its groups reattached [5]
//!                            <----------------------------------
//!                             [3] or [4], and no other task below the group is spared [6]
//! ```
//!
//! A task is boosted whether or not its group is throttled at that time: a group is often throttled
//! by the very switch that follows a wakeup, and must find the task boosted.
//!
//! A boosted task marks its entity, and the group entities above it up to the root's queue, as
//! boosted. A queue picks its boosted entities first. A detached queue is enqueued at its parent
//! for them alone. Their exec time is charged as always: the group owes it and repays it first from
//! its next quota. The mark stays until \[3\] or \[4\] if the queue gets quota meanwhile, and gives
//! precedence only within the group.
//!
//! `boost_groups` keeps \[1\], \[3\] and \[4\], but gives no precedence: a *spared* task is ordered
//! as ever. Its groups are put back into the hierarchy although they are throttled \[5\], until no
//! task below them is spared \[6\]. So the busy loops of the group run beside it and delay it, and
//! the group owes their time too.
//!
//! Work: O(depth x log n) to boost and to end it. A task that is not boosted costs one comparison
//! per level and pick.
//!
//! Sources: Davydov 2012, "sched: boost throttled entities on wakeups": "temporarily unthrottling
//! the groups a woken task belongs to in order to let the task finish its execution in kernel
//! space"; `boost_groups` is these words. \[2\] is its open case, fully preemptible kernels
//! ("boosting forcibly preempted tasks thus not allowing to throttle"). differs: with the other two
//! the group runs for the boosted task alone.

use crate::class::fair::enqueue::{count_level, dequeue_entity, dequeue_groups_above_throttled, enqueue_group};
use crate::class::fair::run::rearm;
use crate::class::fair::throttle::{above, detach_unspared, reattach_for_spared, release_if_empty};
use crate::entity::fair::{EntityRef, FairState, QueueIx, Standing};
use crate::queue::fair::join::{unwait, wait};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::tally::Tally;
use crate::queue::fair::turn::put_down;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::ids::Slot;
use crate::words::life::Engaged;
use crate::words::mode::TaskMode;
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::Throttle;
use zerolag_model::{ClassId, TraceEvent};

/// Boosts a task that has been enqueued in kernel mode: it woke, or was moved here. \[1\]
pub(crate) fn woken<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if !rq.fair.tune.throttle.boosts_woken() {
        return;
    }
    let task = &rq.tasks[slot];
    // A task that is enqueued at the holder of a lock does not wake. A task that lent its turn may
    // have kept its boost.
    if task.engaged == Engaged::No && task.fair.standing == Standing::Ordinary && is_limited(rq, slot) {
        boost(rq, cx, slot);
    }
}

/// Boosts a runnable task in kernel mode that the CPU has left, so that it continues even if its
/// group is throttled. \[2\]
pub(crate) fn preempted<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    let is_ordinary_in_kernel = task.mode == TaskMode::Kernel && task.fair.standing == Standing::Ordinary;
    if rq.fair.tune.throttle == Throttle::BoostInKernel && is_ordinary_in_kernel && is_limited(rq, slot) {
        boost(rq, cx, slot);
    }
}

/// Boosts the tasks below a queue that the CPU left in kernel mode when no group above them had a
/// limit yet. Called before the first throttling under a new limit: O(tasks on this CPU x depth).
///
/// Rejected: to boost every task that is preempted in kernel mode, limited or not. A boosted task
/// precedes the others of its group.
pub(crate) fn preempted_before_limit<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    let is_new = core::mem::take(&mut rq.queue_mut(q).bandwidth.is_new);
    if rq.fair.tune.throttle != Throttle::BoostInKernel || !is_new {
        return;
    }
    for slot in rq.tasks.slots() {
        let Some(task) = rq.tasks.get(slot) else { continue };
        if task.fair.state == FairState::Runnable && task.prio.class() == ClassId::Fair && is_below(rq, slot, q) {
            preempted(rq, cx, slot);
        }
    }
}

fn is_below(rq: &Rq, slot: Slot, q: QueueIx) -> bool {
    above(rq, rq.tasks[slot].fair.queue).any(|at| at == q)
}

/// Returns whether a group that a task is in has a limit. O(depth).
pub(crate) fn is_limited(rq: &Rq, slot: Slot) -> bool {
    above(rq, rq.group_queue(slot)).any(|q| rq.queue(q).bandwidth.is_limited())
}

/// Returns the boosted entity of a queue that runs first, if it has one. The current one continues.
#[inline(always)]
pub(crate) fn first(rq: &Rq, queue: &Queue) -> Option<EntityRef> {
    if queue.boosted.runnable == 0 { None } else { first_boosted(rq, queue) }
}

fn first_boosted(rq: &Rq, queue: &Queue) -> Option<EntityRef> {
    let current = queue.current.filter(|current| rq.entity(*current).standing == Standing::Boosted);
    current.or_else(|| rq.fair.timeline.first(queue.ahead).map(|node| rq.fair.timeline.entity(node)))
}

fn boost<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    debug_assert!(rq.tasks[slot].fair.standing == Standing::Ordinary, "a task is boosted once");
    rq.note(Unpublished::ALL);
    if rq.fair.tune.throttle == Throttle::BoostGroups {
        spare(rq, cx, slot);
    } else {
        put_ahead(rq, cx, slot);
    }
    cx.io.costs.throttles += 1;
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    cx.io.event(cx.now, cpu, || TraceEvent::Boost { task: id, boosted: true });
    rearm(rq, cx);
}

/// Puts a task and the groups above it ahead of the others of their queues.
fn put_ahead<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = Tally::runnable(&rq.tasks, slot);
    let now = rq.averages_clock();
    let mut entity = EntityRef::Task(slot);
    let mut at = rq.tasks[slot].fair.queue;
    // The task already counts up to the first detached queue.
    let mut is_beyond = false;
    while let Some(parent) = rq.queue(at).parent {
        mark(rq, at, entity, Standing::Boosted);
        if is_beyond {
            count_level(rq, at, now, task, Tally::default());
        }
        let queue = rq.queue_mut(at);
        queue.boosted = queue.boosted.plus(task);
        is_beyond |= queue.bandwidth.is_detached();
        enqueue_group(rq, cx, at, parent);
        entity = EntityRef::Group(at);
        at = parent;
    }
    if is_beyond {
        count_level(rq, QueueIx::ROOT, now, task, Tally::default());
        rq.fair.nr_apart -= 1;
    }
}

/// Puts the groups above a task back for as long as it is spared. \[5\]
fn spare<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = Tally::runnable(&rq.tasks, slot);
    rq.tasks[slot].fair.standing = Standing::Spared;
    let mut at = rq.tasks[slot].fair.queue;
    while let Some(parent) = rq.queue(at).parent {
        let queue = rq.queue_mut(at);
        queue.boosted = queue.boosted.plus(task);
        reattach_for_spared(rq, cx, at);
        at = parent;
    }
}

/// Detaches the groups above a task that is not spared any more, unless another task needs them. A
/// group of the current task is detached when the CPU leaves that task. \[6\]
fn spare_no_longer<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = Tally::runnable(&rq.tasks, slot);
    rq.tasks[slot].fair.standing = Standing::Ordinary;
    let mut at = rq.tasks[slot].fair.queue;
    while let Some(parent) = rq.queue(at).parent {
        let queue = rq.queue_mut(at);
        queue.boosted = queue.boosted.minus(task);
        if rq.queue(parent).current == Some(EntityRef::Group(at)) && rq.phase() == Phase::Running {
            if rq.queue(at).bandwidth.is_throttled() {
                rq.resched(cx, Resched::Now);
            }
        } else {
            detach_unspared(rq, cx, at);
        }
        at = parent;
    }
}

/// Ends the boost of a task. Below a detached queue it waits again, together with the groups
/// that were queued for it. \[3\] \[4\]
pub(crate) fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.tasks[slot].fair.standing == Standing::Ordinary {
        return;
    }
    rq.note(Unpublished::ALL);
    if rq.tasks[slot].fair.standing == Standing::Spared {
        spare_no_longer(rq, cx, slot);
    } else {
        put_back(rq, cx, slot);
    }
    cx.io.costs.throttles += 1;
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    cx.io.event(cx.now, cpu, || TraceEvent::Boost { task: id, boosted: false });
    // The queues above the first detached one may have no other task.
    release_if_empty(rq, cx, rq.tasks[slot].fair.queue);
}

/// Puts a task, and the groups that were ahead for it alone, back among the others.
fn put_back<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = Tally::runnable(&rq.tasks, slot);
    let now = rq.averages_clock();
    let leaf = rq.tasks[slot].fair.queue;
    let (mut at, mut is_beyond) = (leaf, false);
    while let Some(parent) = rq.queue(at).parent {
        if is_beyond {
            count_level(rq, at, now, Tally::default(), task);
        }
        let queue = rq.queue_mut(at);
        queue.boosted = queue.boosted.minus(task);
        is_beyond |= queue.bandwidth.is_detached();
        at = parent;
    }
    if is_beyond {
        count_level(rq, QueueIx::ROOT, now, Tally::default(), task);
        rq.fair.nr_apart += 1;
    }
    let (mut at, mut entity) = (leaf, EntityRef::Task(slot));
    while let Some(parent) = rq.queue(at).parent {
        mark(rq, at, entity, Standing::Ordinary);
        if rq.queue(at).boosted.runnable > 0 {
            break; // Others need it and all above.
        }
        if rq.queue(at).bandwidth.is_detached() && rq.queue(at).entity.is_queued() {
            put_down(&mut rq.fair, &mut rq.tasks, at, now);
            dequeue_entity(rq, cx, parent, EntityRef::Group(at), true);
            dequeue_groups_above_throttled(rq, cx, parent);
        }
        entity = EntityRef::Group(at);
        at = parent;
    }
}

/// Sets the standing of an entity, which keeps its place in virtual time.
fn mark(rq: &mut Rq, q: QueueIx, entity: EntityRef, standing: Standing) {
    if rq.entity(entity).standing == standing {
        return;
    }
    let waits = rq.entity(entity).node.is_some();
    if waits {
        unwait(&mut rq.fair, &mut rq.tasks, q, entity);
    }
    rq.entity_mut(entity).standing = standing;
    if waits {
        wait(&mut rq.fair, &mut rq.tasks, q, entity);
    }
}
