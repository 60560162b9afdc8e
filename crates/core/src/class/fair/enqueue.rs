//! Enqueueing and dequeueing: an entity joins or leaves a queue. The groups above join with their
//! first entity and leave with their last.
//!
//! Work: O(depth x log n) for a task. The numbers in brackets are those of [`crate::entity::fair`].
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `enqueue_task_fair`, `dequeue_entities`,
//! `reweight_entity`.

use crate::class::fair::run::{rearm, rearm_after_enqueue};
use crate::class::fair::{bandwidth, boost, flat, groups, load, park, preferred_cache, throttle};
use crate::entity::fair::{Claim, EntityRef, FairState, QueueIx};
use crate::queue::fair::join::{CHANGED, owes, requeue_delayed};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::Join;
use crate::queue::fair::tally::Tally;
use crate::queue::fair::{cfs, eevdf, join, slice};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::life::{Dequeue, Dequeued, Enqueue};
use crate::words::mode::TaskMode;
use lock_api::RawMutex;
use zerolag_model::settings::FairAlgorithm;
use zerolag_model::{Duration, Instant};

/// Counts arriving and leaving tasks from a queue up to the root; returns whether it reached the
/// root. Tasks below a detached queue do not count above it.
pub(crate) fn count(rq: &mut Rq, from: QueueIx, more: Tally, less: Tally) -> bool {
    climb(rq, from, more, less, |_, _, _| {})
}

/// As [`count`], for tasks that have arrived at a queue. On the way every group without an entity
/// here is enqueued, and the weights of the others follow.
pub(crate) fn propagate_enqueue<L: RawMutex>(
    rq: &mut Rq,
    cx: &mut Cx<'_, L>,
    from: QueueIx,
    more: Tally,
    less: Tally,
) -> bool {
    climb(rq, from, more, less, |rq, q, parent| enqueue_group(rq, cx, q, parent))
}

/// As [`count`], for tasks that have left a queue. On the way every group that is empty here is
/// dequeued, and the weights of the others follow.
pub(crate) fn propagate_dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx, less: Tally) -> bool {
    climb(rq, from, Tally::default(), less, |rq, q, parent| dequeue_group(rq, cx, q, parent, Leaving::Sleeps))
}

/// Walks once from a queue up to the root, or to a detached queue. At each level it updates
/// first the averages, then the count, and then calls `above` with a group's queue and its parent.
#[inline(always)]
fn climb(
    rq: &mut Rq,
    from: QueueIx,
    more: Tally,
    less: Tally,
    mut above: impl FnMut(&mut Rq, QueueIx, QueueIx),
) -> bool {
    let now = rq.averages_clock();
    let mut q = from;
    loop {
        let queue = count_level(rq, q, now, more, less);
        if queue.bandwidth.is_detached() {
            return false;
        }
        let Some(parent) = queue.parent else { return true };
        above(rq, q, parent);
        q = parent;
    }
}

/// Counts arriving and leaving tasks at one queue; returns the queue.
#[inline]
pub(crate) fn count_level(rq: &mut Rq, q: QueueIx, now: Instant, more: Tally, less: Tally) -> &mut Queue {
    let queue = rq.fair.aged_level(q, now);
    queue.tally = queue.tally.plus(more).minus(less);
    queue
}

/// Throttles a queue that got its first entity and has no quota.
fn check_first<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    if rq.queue(q).nr_queued == 1 {
        bandwidth::check_enqueue(rq, cx, q);
    }
}

/// Enqueues a task, and on the way up every group that had nothing here.
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    let (base_slice, is_flat) = (rq.fair.tune.base_slice, rq.fair.tune.is_flat);
    let task = &mut rq.tasks[slot];
    let weight = task.fair.load.value();
    task.fair.obey(task.attr, base_slice, is_flat);
    let is_reweighed = task.fair.load.value() != weight;
    let (group, hint) = (task.group, task.fair.queue);
    let slept = cx.now.wall.since(task.last_ran);
    let leaf = groups::queue_of(rq, cx, group, hint);
    let how = match why {
        Enqueue::Wakeup | Enqueue::Sync => Join::Wakeup,
        Enqueue::New => Join::New,
        Enqueue::Migrated | Enqueue::Changed | Enqueue::Dispatched => Join::Back,
    };
    let q = if is_flat { QueueIx::ROOT } else { leaf };
    load::attach_task(rq, cx, q, slot, if why == Enqueue::Wakeup { slept } else { Duration::ZERO });
    if is_reweighed {
        rq.fair.reweigh_average(&mut rq.tasks, q, EntityRef::Task(slot), weight);
    }
    if is_flat {
        enqueue_flat(rq, cx, slot, how);
    } else {
        join::enqueue_entity(&mut rq.fair, &mut rq.tasks, leaf, EntityRef::Task(slot), how, slept);
        check_first(rq, cx, leaf);
        if !propagate_enqueue(rq, cx, leaf, Tally::RUNNABLE, Tally::default()) {
            rq.fair.nr_apart += 1; // Its group is throttled.
        }
    }
    note_idleness(rq, leaf, slot);
    if rq.tasks[slot].mode == TaskMode::Kernel {
        boost::woken(rq, cx, slot);
    }
    rq.fair.recency.push(slot);
    preferred_cache::queued(rq, cx, slot);
    rearm_after_enqueue(rq, cx);
}

/// Counts a task in its groups, and puts it on the root's queue with its part of their weights.
fn enqueue_flat<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, how: Join) {
    let (entity, home) = (EntityRef::Task(slot), rq.group_queue(slot));
    flat::count_in(rq, slot);
    check_first(rq, cx, home);
    let counts = propagate_enqueue(rq, cx, home, Tally::RUNNABLE, Tally::default());
    debug_assert!(counts, "no queue is detached");
    let (weight, before) = (flat::weight_of(rq, slot), rq.tasks[slot].fair.load);
    if weight != before {
        rq.tasks[slot].fair.reweigh(weight);
        rq.fair.reweigh_average(&mut rq.tasks, QueueIx::ROOT, entity, before.value());
    }
    join::enqueue_entity(&mut rq.fair, &mut rq.tasks, QueueIx::ROOT, entity, how, Duration::ZERO);
}

/// Notes whether an enqueued task counts as idle, and counts it as such. The groups of the task
/// have been examined by then. O(depth). Linux v6.12 `fair.c`, `enqueue_task_fair`
/// (`cfs_rq_is_idle`). differs: the kernel recounts the tasks of a group when `cpu.idle` is
/// written.
fn note_idleness(rq: &mut Rq, leaf: QueueIx, slot: Slot) {
    let mut is_idle = rq.tasks[slot].fair.is_idle;
    let mut q = leaf;
    while let Some(parent) = rq.queue(q).parent {
        is_idle |= rq.queue(q).entity.is_idle;
        q = parent;
    }
    rq.tasks[slot].fair.counts_as_idle = is_idle;
    if is_idle {
        count(rq, leaf, Tally::IDLE_POLICY, Tally::default());
    }
}

/// Makes the next tick a round of balancing if the CPU is left with SCHED_IDLE tasks only, and was
/// not before a fair task left: Linux v5.10 `fair.c`, `dequeue_task_fair`.
pub(crate) fn note_only_idle<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, ran_only_idle: bool) {
    if !ran_only_idle && rq.runs_only_idle() && cx.config.settings.sched_idle_balance {
        rq.fair.balance.next = cx.now.wall;
    }
}

/// Dequeues a task, and on the way up every group that is empty here.
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Dequeued {
    let entity = EntityRef::Task(slot);
    let (q, home) = (rq.tasks[slot].fair.queue, rq.group_queue(slot));
    let (sleeps, ran_only_idle) = (why == Dequeue::Sleep, rq.runs_only_idle());
    rq.age_entity(q, entity);
    boost::end(rq, cx, slot);
    if rq.entity(entity).is_parked() {
        if !sleeps {
            rq.age_queue(q);
            rq.unattach(q, entity);
        }
        let average = &mut rq.tasks[slot].fair.average;
        average.keep_part_of_root(average.load);
        park::take_away(rq, cx, slot);
        return Dequeued::Gone;
    }
    if sleeps && owes(&rq.fair, &rq.tasks, q, entity) {
        if rq.fair.tune.delayed_debt_shrinks {
            eevdf::keep_lag(&mut rq.fair, &mut rq.tasks, q, entity);
        }
        rq.entity_mut(entity).state = FairState::DelayedDequeue; // [3]
        rq.queue_mut(q).buddies.clear(entity);
        let runnable = Tally::runnable(&rq.tasks, slot);
        count(rq, home, Tally::DELAYED, runnable);
        return Dequeued::Delayed;
    }
    assert!(!rq.tasks[slot].fair.is_delayed(), "a delayed task is finished, not dequeued");
    let runnable = Tally::runnable(&rq.tasks, slot);
    rq.fair.recency.remove(slot);
    preferred_cache::unqueued(rq, cx, slot);
    dequeue_entity(rq, cx, q, entity, sleeps);
    if rq.fair.tune.is_flat {
        flat::count_out(rq, cx, slot);
    }
    if !propagate_dequeue(rq, cx, home, runnable) {
        rq.fair.nr_apart -= 1;
    }
    if sleeps {
        prefer_group(rq, home);
    }
    if rq.fair.nr_throttled > 0 {
        throttle::release_if_empty(rq, cx, home);
    }
    note_only_idle(rq, cx, ran_only_idle);
    rearm(rq, cx);
    Dequeued::Gone
}

/// Makes the next buddy of its queue the lowest group that still has others after a task of queue
/// `q`, or the group of `q`, has gone to sleep; and the groups above it.
///
/// Source: Linux v6.12 and v7.2 `kernel/sched/fair.c`, `dequeue_entities`, `set_next_buddy`.
/// differs: CFS kernels since 3.1 do it, too (commit 2f36825b176f); CFS here does not.
#[inline]
pub(crate) fn prefer_group(rq: &mut Rq, q: QueueIx) {
    if q != QueueIx::ROOT && rq.fair.tune.pick_buddy && !rq.fair.tune.is_flat {
        prefer_lowest_group(rq, q);
    }
}

#[inline(never)]
fn prefer_lowest_group(rq: &mut Rq, from: QueueIx) {
    let mut q = from;
    let mut is_found = false;
    while let Some(parent) = rq.queue(q).parent {
        is_found |= rq.queue(q).nr_queued > 0;
        let entity = rq.entity(EntityRef::Group(q));
        if rq.queue(q).bandwidth.is_detached() || (is_found && entity.is_idle) {
            return;
        }
        match entity.state {
            FairState::Runnable if is_found => rq.queue_mut(parent).buddies.next = Some(EntityRef::Group(q)),
            FairState::Off if !is_found => {}
            // A group that stays to repay its lag ends the walk.
            FairState::Runnable | FairState::Off | FairState::DelayedDequeue | FairState::Parked { .. } => return,
        }
        q = parent;
    }
}

/// Enqueues the group of a queue at its parent, or updates its weight.
pub(crate) fn enqueue_group<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, parent: QueueIx) {
    if rq.fair.tune.is_flat {
        if flat::count_group_in(rq, cx, q, parent) {
            check_first(rq, cx, parent);
        }
        return;
    }
    let (group, now) = (EntityRef::Group(q), rq.averages_clock());
    rq.age_queue(q);
    let weight = groups::entity_weight(rq.queue_mut(q), cx, now);
    slice::follow(&mut rq.fair, &mut rq.tasks, q, parent);
    match rq.entity(group).state {
        FairState::Off => {
            rq.fair.wake_queue(q);
            rq.attach(parent, group);
            let before = rq.entity(group).load.value();
            rq.entity_mut(group).reweigh(weight);
            rq.fair.reweigh_average(&mut rq.tasks, parent, group, before);
            join::enqueue_entity(&mut rq.fair, &mut rq.tasks, parent, group, Join::Wakeup, Duration::ZERO);
            check_first(rq, cx, parent);
        }
        FairState::DelayedDequeue => {
            requeue_delayed(&mut rq.fair, &mut rq.tasks, group);
            join::reweigh(&mut rq.fair, &mut rq.tasks, parent, group, weight, now);
        }
        FairState::Runnable => join::reweigh(&mut rq.fair, &mut rq.tasks, parent, group, weight, now),
        FairState::Parked { .. } => unreachable!("a group is not parked"),
    }
}

/// Dequeues the empty groups above a queue, and updates the weights of the others.
pub(crate) fn dequeue_groups_above<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    dequeue_groups_above_as(rq, cx, from, Leaving::Sleeps);
}

/// As [`dequeue_groups_above`], for a queue that has been throttled: no group stays to repay its
/// lag.
pub(crate) fn dequeue_groups_above_throttled<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    dequeue_groups_above_as(rq, cx, from, Leaving::Throttled);
}

/// The reason why groups leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    Sleeps,
    Throttled,
}

fn dequeue_groups_above_as<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx, why: Leaving) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        if rq.queue(q).bandwidth.is_detached() {
            return;
        }
        dequeue_group(rq, cx, q, parent, why);
        q = parent;
    }
}

/// Dequeues the group of a queue from its parent if it is empty, or updates its weight.
fn dequeue_group<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, parent: QueueIx, why: Leaving) {
    if rq.fair.tune.is_flat {
        return flat::count_group_out(rq, cx, q, parent);
    }
    let (group, now) = (EntityRef::Group(q), rq.averages_clock());
    rq.age_queue(q);
    let weight = groups::entity_weight(rq.queue_mut(q), cx, now);
    if rq.queue(q).nr_queued > 0 || !rq.entity(group).is_queued() {
        if rq.entity(group).is_queued() {
            slice::follow(&mut rq.fair, &mut rq.tasks, q, parent);
            join::reweigh(&mut rq.fair, &mut rq.tasks, parent, group, weight, now);
        }
    } else if why == Leaving::Sleeps && owes(&rq.fair, &rq.tasks, parent, group) {
        if rq.fair.tune.delayed_debt_shrinks {
            eevdf::keep_lag(&mut rq.fair, &mut rq.tasks, parent, group);
        }
        rq.queue_mut(parent).buddies.clear(group);
        rq.entity_mut(group).state = FairState::DelayedDequeue; // [3]
    } else if !rq.entity(group).is_delayed() {
        dequeue_entity(rq, cx, parent, group, true);
        groups::rest_queue(rq, &cx.shared.groups, q);
    }
}

/// Dequeues an entity and keeps its lag.
pub(crate) fn dequeue_entity<L: RawMutex>(
    rq: &mut Rq,
    cx: &mut Cx<'_, L>,
    q: QueueIx,
    entity: EntityRef,
    sleeps: bool,
) {
    // The load loses its weight; a group can leave without a task, when its lag is repaid.
    rq.fair.changed.add(CHANGED);
    rq.age_queue(q);
    rq.age_entity(q, entity);
    join::advance_zero(&mut rq.fair, &mut rq.tasks, q);
    rq.queue_mut(q).buddies.clear(entity);
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            eevdf::keep_lag(&mut rq.fair, &mut rq.tasks, q, entity);
            let keeps = rq.fair.tune.keep_requests && !sleeps;
            let leaving = rq.entity_mut(entity);
            leaving.claim = if keeps { eevdf::rest_of_request(leaving) } else { Claim::None };
        }
        FairAlgorithm::Cfs => {
            cfs::keep_place(&mut rq.fair, &mut rq.tasks, q, entity, sleeps);
            rq.entity_mut(entity).claim = Claim::None;
        }
    }
    if rq.queue(q).current == Some(entity) {
        rq.queue_mut(q).current = None;
    } else {
        join::unwait(&mut rq.fair, &mut rq.tasks, q, entity);
    }
    let leaving = rq.entity_mut(entity);
    leaving.state = FairState::Off; // [2]
    // Of a task in a group `run_queue::detach` knows it.
    leaving.average.keep_part_of_root(leaving.average.load);
    let weight = leaving.load.fine();
    let queue = rq.queue_mut(q);
    queue.nr_queued -= 1;
    queue.load.change(weight, 0);
    slice::remove(&mut rq.fair, &mut rq.tasks, q, entity);
    let queue = rq.queue_mut(q);
    let is_empty = queue.nr_queued == 0;
    join::advance_zero(&mut rq.fair, &mut rq.tasks, q);
    if !sleeps {
        rq.unattach(q, entity);
    }
    if is_empty {
        bandwidth::give_back(rq, cx, q);
    }
}
