//! One queue for the tasks of all groups (`fair_hierarchy = flat`, Linux 7.3).
//!
//! All tasks are on the root's queue and compete there by EEVDF. The queues of groups only count:
//! the weights of the tasks and groups in them, their tasks, and their quota. A task's weight on
//! the root's queue is its part of the group's, times the group's part of the one above, and so on.
//! It is computed when the task is enqueued, when it is switched to, and at each tick while it
//! runs; that of a waiting task is out of date meanwhile.
//!
//! So a group is no entity: it has no lag, no slice, no delayed dequeue, and which task runs does
//! not depend on the group that ran before. A task with a short slice preempts those of other
//! groups.
//!
//! Work: O(depth) to enqueue, to dequeue, to switch and at a tick; O(log n) on the root's queue.
//!
//! Sources: Linux v7.3 `kernel/sched/fair.c`, `enqueue_hierarchy`, `dequeue_hierarchy`,
//! `__calc_prop_weight`, `reweight_eevdf`, `set_next_task_fair`, `task_tick_fair`, and
//! v7.1 `__calc_delta`, `avg_vruntime_weight`: weights count with their fractions. differs: the
//! load averages of a task follow its weight on the root's queue, in whole numbers.

use crate::class::fair::{bandwidth, groups};
use crate::entity::fair::{EntityRef, FairState, QueueIx, own_weight};
use crate::entity::weight::{FINE_NICE_0, LoadWeight, Weight, mul_div, scaled_up};
use crate::queue::fair::join;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use lock_api::RawMutex;

/// Counts a task in the queue of its group.
pub(crate) fn count_in(rq: &mut Rq, slot: Slot) {
    let (q, own) = (rq.group_queue(slot), own_weight(rq.tasks[slot].attr));
    add(rq, q, scaled_up(own));
}

/// Counts a task that leaves no more.
pub(crate) fn count_out<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let (q, own) = (rq.group_queue(slot), own_weight(rq.tasks[slot].attr));
    take_off(rq, cx, q, scaled_up(own));
}

/// Counts a task or a group of this weight. The root's queue counts what is queued on it.
fn add(rq: &mut Rq, q: QueueIx, weight: u64) {
    if q != QueueIx::ROOT {
        // Else the time in which nothing was queued would count as load.
        rq.age_queue(q);
        let queue = rq.queue_mut(q);
        queue.load.change(0, weight);
        queue.nr_queued += 1;
    }
}

/// Counts a task or a group of this weight no more. An empty group gives its quota back.
fn take_off<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, weight: u64) {
    if q != QueueIx::ROOT {
        rq.age_queue(q);
        let queue = rq.queue_mut(q);
        queue.load.change(weight, 0);
        queue.nr_queued -= 1;
        if queue.nr_queued == 0 {
            bandwidth::give_back(rq, cx, q);
        }
    }
}

/// Counts a group in the one above, or updates its weight there. Returns whether it is new there.
pub(crate) fn count_group_in<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, parent: QueueIx) -> bool {
    let is_new = !rq.queue(q).entity.is_queued();
    if is_new {
        rq.fair.wake_queue(q);
        if parent != QueueIx::ROOT {
            rq.attach(parent, EntityRef::Group(q));
        }
        let entity = &mut rq.queue_mut(q).entity;
        entity.state = FairState::Runnable;
        entity.queue = parent;
        let weight = entity.load.fine();
        add(rq, parent, weight);
    }
    follow_weight(rq, cx, q, parent);
    is_new
}

/// Counts a group that is empty in the one above no more, or updates its weight there.
pub(crate) fn count_group_out<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, parent: QueueIx) {
    if !rq.queue(q).entity.is_queued() {
        return;
    }
    follow_weight(rq, cx, q, parent);
    if rq.queue(q).nr_queued > 0 {
        return;
    }
    let entity = &mut rq.queue_mut(q).entity;
    entity.state = FairState::Off;
    let weight = entity.load.fine();
    take_off(rq, cx, parent, weight);
    groups::rest_queue(rq, &cx.shared.groups, q);
}

/// Updates the weight of a group in the one above.
fn follow_weight<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, parent: QueueIx) {
    rq.age_queue(q);
    // On the root's queue it is the tasks whose averages count.
    if parent != QueueIx::ROOT {
        rq.age_queue(parent);
        rq.age_entity(parent, EntityRef::Group(q));
    }
    let now = rq.averages_clock();
    let weight = groups::entity_weight(rq.queue_mut(q), cx, now);
    let entity = &mut rq.queue_mut(q).entity;
    let before = entity.load;
    entity.load = weight;
    if parent != QueueIx::ROOT {
        rq.fair.reweigh_average(&mut rq.tasks, parent, EntityRef::Group(q), before.value());
        rq.queue_mut(parent).load.change(before.fine(), weight.fine());
    }
}

/// Updates the weights of a queue's group, and of those above it.
pub(crate) fn follow_weights<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        if rq.queue(q).entity.is_queued() {
            follow_weight(rq, cx, q, parent);
        }
        q = parent;
    }
}

/// The least part of a weight, in 1024ths.
const LEAST: u64 = Weight::MIN_SHARES.value() as u64;

/// Returns what a task weighs on the root's queue. It is counted in its group.
pub(crate) fn weight_of(rq: &Rq, slot: Slot) -> LoadWeight {
    let (own, mut q) = (scaled_up(own_weight(rq.tasks[slot].attr)), rq.group_queue(slot));
    let (mut weight, mut part) = (FINE_NICE_0, own);
    while let Some(parent) = rq.queue(q).parent {
        let queue = rq.queue(q);
        weight = mul_div(weight, part, queue.load.fine().max(1)).max(LEAST);
        (part, q) = (queue.entity.load.fine(), parent);
    }
    LoadWeight::exact(mul_div(weight, part, FINE_NICE_0))
}

/// Gives a task on the root's queue its present weight there.
pub(crate) fn reweigh(rq: &mut Rq, slot: Slot) {
    let weight = weight_of(rq, slot);
    if weight != rq.tasks[slot].fair.load {
        let now = rq.averages_clock();
        join::reweigh_in_place(&mut rq.fair, &mut rq.tasks, EntityRef::Task(slot), weight, now);
    }
}
