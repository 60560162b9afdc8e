//! Queueing: an entity joins a queue and leaves it, and with it the groups above that have or had nothing else.
//!
//! Work: O(depth x log n) for a task; the numbers are those of [`super::entity`].
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `enqueue_task_fair`, `dequeue_entities`, `reweight_entity`.

use super::delay::{owes, undelay};
use super::entity::{EntityRef, FairState};
use super::queue::QueueIx;
use super::run::rearm;
use super::weight::LoadWeight;
use super::{Join, cfs, eevdf, group};
use crate::class::{Dequeue, Dequeued, Enqueue};
use crate::rq::{Cx, Rq};
use crate::slab::Slot;
use lock_api::RawMutex;
use zerolag_model::Duration;
use zerolag_model::settings::FairAlgorithm;

/// Queues a task, and on the way up every group that had nothing here.
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    let base_slice = rq.fair.tune.base_slice;
    let task = &mut rq.tasks[slot];
    task.fair.obey(task.attr, base_slice);
    let (group, hint) = (task.group, task.fair.queue);
    let slept = cx.now.wall.since(task.last_ran);
    let leaf = group::queue_of(rq, cx, group, hint);
    let how = match why {
        Enqueue::Wakeup => Join::Wakeup,
        Enqueue::New => Join::New,
        Enqueue::Migrated | Enqueue::Changed => Join::Back,
    };
    join(rq, leaf, EntityRef::Task(slot), how, slept);
    join_above(rq, cx, leaf);
    count_up(rq, slot, leaf);
    rq.fair.recency.push(slot);
    rearm(rq, cx);
}

/// Takes a task off its queue, and on the way up every group that has nothing left here.
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Dequeued {
    let entity = EntityRef::Task(slot);
    let q = rq.tasks[slot].fair.queue;
    let sleeps = why == Dequeue::Sleep;
    if sleeps && owes(rq, q, entity) {
        rq.entity_mut(entity).state = FairState::DelayedDequeue; // [3]
        rq.fair.nr_delayed += 1;
        count_down(rq, slot, q);
        return Dequeued::Delayed;
    }
    assert!(!rq.tasks[slot].fair.is_delayed(), "a delayed task is finished, not dequeued");
    count_down(rq, slot, q);
    rq.fair.recency.remove(slot);
    part(rq, q, entity, sleeps);
    part_above(rq, cx, q);
    rearm(rq, cx);
    Dequeued::Gone
}

/// Counts one more task that wants to run, from a queue to the root.
pub(super) fn count_up(rq: &mut Rq, slot: Slot, leaf: QueueIx) {
    rq.fair.nr_idle_policy += u32::from(rq.tasks[slot].fair.is_idle);
    let mut at = Some(leaf);
    while let Some(q) = at {
        let queue = rq.queue_mut(q);
        queue.nr_in_hierarchy += 1;
        at = queue.parent;
    }
}

/// Counts one task less.
pub(super) fn count_down(rq: &mut Rq, slot: Slot, leaf: QueueIx) {
    rq.fair.nr_idle_policy -= u32::from(rq.tasks[slot].fair.is_idle);
    let mut at = Some(leaf);
    while let Some(q) = at {
        let queue = rq.queue_mut(q);
        queue.nr_in_hierarchy -= 1;
        at = queue.parent;
    }
}

/// Queues the groups above a queue that has got an entity, and lets their weights follow.
pub(super) fn join_above<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        let group = EntityRef::Group(q);
        let weight = LoadWeight::of_group(group::entity_weight(rq, cx, q));
        match rq.entity(group).state {
            FairState::Off => {
                rq.fair.wake_queue(q);
                rq.entity_mut(group).reweigh(weight);
                join(rq, parent, group, Join::Wakeup, Duration::ZERO);
            }
            FairState::DelayedDequeue => {
                undelay(rq, group);
                reweigh(rq, parent, group, weight);
            }
            FairState::Runnable => reweigh(rq, parent, group, weight),
        }
        q = parent;
    }
}

/// Takes the groups above a queue off theirs as far as they are empty, and lets the weights of the others follow.
pub(super) fn part_above<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        let group = EntityRef::Group(q);
        let weight = LoadWeight::of_group(group::entity_weight(rq, cx, q));
        if rq.queue(q).nr_queued > 0 || !rq.entity(group).is_queued() {
            if rq.entity(group).is_queued() {
                reweigh(rq, parent, group, weight);
            }
        } else if owes(rq, parent, group) {
            rq.entity_mut(group).state = FairState::DelayedDequeue; // [3]
        } else if !rq.entity(group).is_delayed() {
            part(rq, parent, group, true);
            rq.fair.rest_queue(q);
        }
        q = parent;
    }
}

/// Puts an entity on a queue's timeline.
pub(super) fn join(rq: &mut Rq, q: QueueIx, entity: EntityRef, why: Join, slept: Duration) {
    debug_assert!(!rq.entity(entity).is_queued(), "an entity is queued once");
    advance_zero(rq, q);
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::place(rq, q, entity, why),
        FairAlgorithm::Cfs => cfs::place(rq, q, entity, why, slept),
    }
    let joining = rq.entity_mut(entity);
    joining.state = FairState::Runnable; // [1]
    joining.queue = q;
    let weight = joining.load.value();
    let queue = rq.queue_mut(q);
    queue.nr_queued += 1;
    queue.load += weight;
    wait(rq, q, entity);
}

/// Takes an entity off its queue and keeps what it is owed.
pub(super) fn part(rq: &mut Rq, q: QueueIx, entity: EntityRef, sleeps: bool) {
    // Its weight leaves the load; a group may leave by itself, when its lag is paid.
    rq.is_unpublished = true;
    advance_zero(rq, q);
    rq.queue_mut(q).buddies.clear(entity);
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            eevdf::keep_lag(rq, q, entity);
            if rq.fair.tune.keep_requests && !sleeps {
                eevdf::keep_request(rq.entity_mut(entity));
            }
        }
        FairAlgorithm::Cfs => cfs::keep_place(rq, q, entity, sleeps),
    }
    if rq.queue(q).current == Some(entity) {
        rq.queue_mut(q).current = None;
    } else {
        unwait(rq, q, entity);
    }
    let leaving = rq.entity_mut(entity);
    leaving.state = FairState::Off; // [2]
    leaving.protected = None;
    let weight = leaving.load.value();
    let queue = rq.queue_mut(q);
    queue.nr_queued -= 1;
    queue.load -= weight;
    advance_zero(rq, q);
}

/// Puts a queued entity on the timeline.
pub(super) fn wait(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    let waiting = rq.entity(entity);
    debug_assert!(waiting.node.is_none(), "an entity waits once");
    let (vruntime, weight) = (waiting.vruntime, waiting.load.value());
    let key = match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => waiting.virtual_deadline,
        FairAlgorithm::Cfs => vruntime,
    };
    let fair = &mut rq.fair;
    let queue = &mut fair.queues[q.index()];
    queue.add_to_sums(vruntime, weight);
    let node = fair.timeline.insert(&mut queue.waiting, key, vruntime, entity);
    rq.entity_mut(entity).node = Some(node);
}

/// Takes a queued entity off the timeline.
pub(super) fn unwait(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    let waiting = rq.entity_mut(entity);
    let (vruntime, weight) = (waiting.vruntime, waiting.load.value());
    let node = waiting.node.take().expect("invariant: it waits");
    let fair = &mut rq.fair;
    let queue = &mut fair.queues[q.index()];
    fair.timeline.remove(&mut queue.waiting, node);
    queue.take_from_sums(vruntime, weight);
}

pub(super) fn advance_zero(rq: &mut Rq, q: QueueIx) {
    if let Some(least) = cfs::least(rq, q) {
        rq.queue_mut(q).advance_zero(least);
    }
}

/// Changes the weight of a queued group entity.
///
/// Under EEVDF it leaves and joins again at the same lag, which weighs more or less now (`reweight_entity`).
pub(super) fn reweigh(rq: &mut Rq, q: QueueIx, entity: EntityRef, load: LoadWeight) {
    if rq.entity(entity).load == load {
        return;
    }
    rq.is_unpublished = true;
    let is_current = rq.queue(q).current == Some(entity);
    let state = rq.entity(entity).state;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            eevdf::keep_lag(rq, q, entity);
            eevdf::keep_request(rq.entity_mut(entity));
            if is_current {
                rq.queue_mut(q).current = None;
            } else {
                unwait(rq, q, entity);
            }
            let old = rq.entity(entity).load.value();
            rq.queue_mut(q).load -= old;
            rq.queue_mut(q).nr_queued -= 1;
            rq.entity_mut(entity).reweigh(load);
            eevdf::place(rq, q, entity, Join::Back);
            rq.queue_mut(q).load += load.value();
            rq.queue_mut(q).nr_queued += 1;
            if is_current {
                rq.queue_mut(q).current = Some(entity);
                rq.entity_mut(entity).protected = None;
            } else {
                wait(rq, q, entity);
            }
        }
        FairAlgorithm::Cfs => {
            if !is_current {
                unwait(rq, q, entity);
            }
            let old = rq.entity(entity).load.value();
            rq.entity_mut(entity).load = load;
            rq.queue_mut(q).load = rq.queue(q).load - old + load.value();
            if !is_current {
                wait(rq, q, entity);
            }
        }
    }
    debug_assert!(rq.entity(entity).state == state, "a change of weight changes no state");
}
