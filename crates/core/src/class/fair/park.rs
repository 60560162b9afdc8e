//! Throttling task by task (`throttle = at_user_return`).
//!
//! Throttling a whole group also stops tasks inside the kernel, with the locks that they hold. Here
//! a throttled queue stays where it is, and each task below it is *parked* when it is about to
//! return to user mode. So no task is stopped inside the kernel.
//!
//! ```text
//!              about to return to user mode, below a throttled queue [1]
//!   queued --------------------------------------------------------------> parked
//!          <--------------------------------------------------------------
//!              that queue can run again [2]; or the task is moved, or changed [3]
//! ```
//!
//! A task that is picked in user mode is switched to and left again at once. The kernel does the
//! same: there the task passes through the return to user mode. A request to schedule comes first
//! there, so a task whose turn is over when the quota is used up stays queued, and is parked once
//! it has been picked again: its lag shrinks meanwhile. Parked at once, it would come back with a
//! debt of several requests. A parked task is on no timeline and does not count as running. It
//! waits at the nearest throttled queue above it; the task that was parked last is taken back
//! first, because the kernel adds to the head of its list (`throttled_limbo_list`). Exec time in
//! kernel mode is charged meanwhile, and repaid from the next quota.
//!
//! Work: O(depth x log n) to park a task and to take it back. A queue that can run again takes back
//! at most [`BATCH`] tasks under one hold of the lock.
//!
//! Sources: Linux v6.18 `kernel/sched/fair.c`, `throttle_cfs_rq_work`, `task_throttle_setup_work`,
//! `tg_unthrottle_up`, `enqueue_throttled_task`. differs: the kernel takes back all tasks at once.

use crate::class::fair::enqueue::{count, dequeue_entity, dequeue_groups_above_throttled, enqueue};
use crate::class::fair::throttle::{nearest_throttled, release_if_empty};
use crate::class::fair::{flat, groups, preferred_cache};
use crate::entity::fair::{EntityRef, FairState, QueueIx};
use crate::entity::vtime::{Vlag, Vtime};
use crate::queue::fair::local::Throttled;
use crate::queue::fair::tally::Tally;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::ids::Slot;
use crate::words::life::Enqueue;
use crate::words::mode::TaskMode;
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::Throttle;
use zerolag_model::{ClassId, TraceEvent};

/// The most tasks that a queue takes back under one hold of the lock.
const BATCH: usize = 32;

/// Returns whether a task must be parked before it continues: it is in user mode, and its group is
/// throttled.
#[inline(always)]
pub(crate) fn is_due(rq: &Rq, slot: Slot) -> bool {
    rq.fair.nr_throttled > 0 && rq.fair.tune.throttle == Throttle::AtUserReturn && {
        let task = &rq.tasks[slot];
        task.mode == TaskMode::User
            && task.prio.class() == ClassId::Fair
            && nearest_throttled(rq, rq.group_queue(slot)).is_some()
    }
}

/// Parks a queued task. \[1\]
pub(crate) fn park<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let leaf = rq.group_queue(slot);
    let at = nearest_throttled(rq, leaf).expect("invariant: only what may not run is parked");
    let runnable = Tally::runnable(&rq.tasks, slot);
    count(rq, leaf, Tally::PARKED, runnable);
    rq.fair.recency.remove(slot);
    preferred_cache::unqueued(rq, cx, slot);
    let q = rq.tasks[slot].fair.queue;
    dequeue_entity(rq, cx, q, EntityRef::Task(slot), true);
    if rq.fair.tune.is_flat {
        flat::count_out(rq, cx, slot);
    }
    dequeue_groups_above_throttled(rq, cx, leaf);
    rest(rq, slot, at);
    let mut above = Some(leaf);
    while let Some(q) = above {
        let queue = rq.queue_mut(q);
        if queue.bandwidth.throttled == Throttled::Unnoticed {
            queue.bandwidth.throttled = Throttled::Stays(cx.now.wall);
        }
        above = queue.parent;
    }
    cx.io.costs.throttles += 1;
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    cx.io.event(cx.now, cpu, || TraceEvent::TaskThrottle { task: id, throttled: true });
}

/// Adds a dequeued task to those that are parked at a throttled queue.
fn rest(rq: &mut Rq, slot: Slot, at: QueueIx) {
    let fair = &mut rq.fair;
    fair.nr_parks += 1;
    let order = Vtime::ZERO.plus(Vlag::from_nanos(-fair.nr_parks));
    let node = fair.timeline.insert(&mut fair.queues[at.index()].parked, order, order, EntityRef::Task(slot));
    let entity = &mut rq.tasks[slot].fair;
    entity.node = Some(node);
    entity.state = FairState::Parked { at };
}

/// Takes a task out of the parked ones; returns whether it was parked. It is then on no queue.
pub(crate) fn take<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let FairState::Parked { at } = rq.tasks[slot].fair.state else { return false };
    lift(rq, slot, at);
    let leaf = rq.group_queue(slot);
    count(rq, leaf, Tally::default(), Tally::PARKED);
    rq.note(Unpublished::ALL);
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    cx.io.event(cx.now, cpu, || TraceEvent::TaskThrottle { task: id, throttled: false });
    true
}

/// As [`take`], for a task that leaves. Queues that were kept only for it are released. \[3\]
pub(crate) fn take_away<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let leaf = rq.group_queue(slot);
    let was_parked = take(rq, cx, slot);
    if was_parked {
        release_if_empty(rq, cx, leaf);
        rest_empty(rq, cx, leaf);
    }
    was_parked
}

fn lift(rq: &mut Rq, slot: Slot, at: QueueIx) {
    let entity = &mut rq.tasks[slot].fair;
    entity.state = FairState::Off;
    let node = entity.node.take().expect("invariant: it is parked");
    let fair = &mut rq.fair;
    fair.timeline.remove(&mut fair.queues[at.index()].parked, node);
}

/// Whether more tasks are to be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum More {
    No,
    Yes,
}

/// Returns whether tasks are parked at a queue.
pub(crate) fn has_parked(rq: &Rq, q: QueueIx) -> bool {
    rq.fair.timeline.first(rq.queue(q).parked).is_some()
}

/// Takes back the first tasks that are parked at a queue, if it can run. \[2\] An idle CPU that
/// gets a runnable task is asked to schedule (`unthrottle_cfs_rq`).
pub(crate) fn take_back<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> More {
    let more = take_batch(rq, cx, q);
    if rq.current_slot().is_none() && rq.phase() == Phase::Running && rq.fair.nr_running() > 0 {
        rq.resched(cx, Resched::Now);
    }
    more
}

fn take_batch<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) -> More {
    for _ in 0..BATCH {
        if rq.queue(q).bandwidth.is_throttled() {
            return More::No; // They wait for the next quota.
        }
        let Some(node) = rq.fair.timeline.first(rq.queue(q).parked) else { return More::No };
        let EntityRef::Task(slot) = rq.fair.timeline.entity(node) else { unreachable!("tasks are parked") };
        match nearest_throttled(rq, rq.group_queue(slot)) {
            Some(at) => {
                lift(rq, slot, q);
                rest(rq, slot, at);
            }
            None => {
                take(rq, cx, slot);
                cx.io.costs.throttles += 1;
                enqueue(rq, cx, slot, Enqueue::Wakeup);
            }
        }
    }
    if has_parked(rq, q) && !rq.queue(q).bandwidth.is_throttled() { More::Yes } else { More::No }
}

/// Puts a queue and those above it to rest where nothing needs them any more.
pub(crate) fn rest_empty<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut at = Some(from);
    while let Some(q) = at {
        let queue = rq.queue(q);
        at = queue.parent;
        if at.is_some() && queue.nr_queued == 0 && !queue.entity.is_queued() && queue.rests.is_none() {
            groups::rest_queue(rq, &cx.shared.groups, q);
        }
    }
}
