//! Load tracking: which averages ([`Average`]) change when, which of them a CPU publishes, and how
//! other CPUs read them.
//!
//! Every fair entity and every queue has averages. An entity's averages are also counted in those
//! of its queue: the entity is *attached*. It stays attached while it sleeps, and its part decays
//! there (blocked load). A task that wakes elsewhere leaves a note for the CPU it slept on, which
//! removes that part at its next update
//! ([`Shared::leave_note`](crate::shared::state::Shared::leave_note)).
//!
//! A change of a group's queue propagates at once to all queues above: the group's entity takes
//! over its queue's util and runnable average, and the load that corresponds to them at its weight
//! (`propagate_entity_load_avg`). In between a group's entity is averaged as a task is.
//!
//! Averages are updated where a signal changes: when an entity joins or leaves, begins or ends to
//! run, or changes its weight. The root queue is also updated at ticks and when its CPU balances. A
//! CPU without events does nothing; another CPU that reads its published load applies the decay.
//!
//! With `load_tracking = weights` (kernels before 3.8) the load of a CPU is the sum of the weights
//! queued there, and none of this is done. On a machine with one CPU none of it is done either,
//! because no CPU reads it.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `update_load_avg`, `attach_entity_load_avg`,
//! `remove_entity_load_avg`, `task_h_load`, `post_init_entity_util_avg`. differs: a note is left
//! for tasks of the root group only, so the load of a task that leaves a group while it sleeps
//! decays there. The clock is task time, slowed down on weak CPUs ([`super::misfit`]).

use crate::entity::fair::{EntityRef, QueueIx};
use crate::entity::pelt::{Average, Removed, Signals};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::Duration;

/// Returns the load of a queued task on this CPU, scaled by its groups: its part of the root
/// queue's, rounded down at each level as `h_load` is, so that a task of a light group can count
/// as 0. O(depth). Linux `task_h_load`.
pub(crate) fn task_load(rq: &mut Rq, slot: Slot) -> u64 {
    let q = rq.tasks[slot].fair.queue;
    let of_queue = queue_load(rq, q);
    part_of(rq, q, EntityRef::Task(slot), of_queue)
}

/// Returns the load of a queue: the root's own, or its entity's part of the load above it.
fn queue_load(rq: &mut Rq, q: QueueIx) -> u64 {
    rq.age_queue(q);
    let queue = rq.queue(q);
    match queue.parent {
        Some(parent) => {
            let above = queue_load(rq, parent);
            part_of(rq, parent, EntityRef::Group(q), above)
        }
        None if rq.fair.tune.tracks_load => queue.average.load,
        None => queue.load.whole().max(1),
    }
}

/// Returns an entity's part of `load`, that of its queue, which is up to date.
fn part_of(rq: &mut Rq, q: QueueIx, entity: EntityRef, load: u64) -> u64 {
    let tracks_load = rq.fair.tune.tracks_load;
    rq.age_entity(q, entity);
    let (queue, part) = (rq.queue(q), rq.entity(entity));
    let (whole, part) = if tracks_load {
        (queue.average.load + 1, part.average.load)
    } else {
        (queue.load.whole().max(1), part.load.value())
    };
    (u128::from(load) * u128::from(part) / u128::from(whole)) as u64
}

/// Attaches a task that is about to join a queue here. It can have slept on another CPU, or in
/// another group.
pub(crate) fn attach_task<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, slot: Slot, slept: Duration) {
    if !rq.fair.tune.tracks_load {
        return;
    }
    take_notes(rq, cx);
    if rq.fair.asymmetric.is_some() && !slept.is_zero() {
        let task = &mut rq.tasks[slot].fair;
        task.estimate = task.estimate.after(task.average.util, task.average.runnable);
    }
    let here = rq.fair.here(q);
    let task = &mut rq.tasks[slot].fair;
    match task.attached {
        Some(there) if there != here => {
            task.attached = None;
            // No queue aged it while it slept.
            let last = task.average.last;
            task.average.age(last + slept, Signals::default, task.load.value());
            if there.queue == QueueIx::ROOT {
                let average = &task.average;
                let note = Removed { load: average.load, runnable: average.runnable, util: average.util };
                cx.shared.leave_note(there.cpu, note);
            }
        }
        Some(_) => {}
        None if task.average == Average::default() => start(rq, slot),
        None => {}
    }
    rq.attach(q, EntityRef::Task(slot));
}

/// Initialises the averages of a new task. Its load is its weight; its util is the util per weight
/// of the tasks here, at most half of the remaining capacity.
fn start(rq: &mut Rq, slot: Slot) {
    let weight = rq.tasks[slot].fair.load.value();
    let root = &rq.queue(QueueIx::ROOT).average;
    let most = rq.fair.full_capacity().saturating_sub(root.util) / 2;
    let util = if root.util == 0 { most } else { (root.util * weight / (root.load + 1)).min(most) };
    let mut average = Average::new_task(weight);
    (average.util, average.runnable) = (util, util);
    rq.tasks[slot].fair.average = average;
}

/// Removes the load of tasks that slept here and woke elsewhere.
#[inline(always)]
pub(crate) fn take_notes<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let cpu = rq.cpu();
    let removed = cx.view().take_notes(cpu);
    rq.age_queue(QueueIx::ROOT);
    if let Some(removed) = removed {
        rq.queue_mut(QueueIx::ROOT).average.remove(removed);
        rq.note(Unpublished::AVERAGES);
    } else if rq.queue(QueueIx::ROOT).nr_queued == 0 {
        // Beside an empty queue (its last task finishes its time in the kernel) the period is
        // published too, even when the averages round to what they were.
        rq.note(Unpublished::AVERAGES);
    }
}

/// Updates the averages of the root queue, at ticks with a fair task and when the CPU balances.
/// O(1).
#[inline(always)]
pub(crate) fn follow<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.tune.tracks_load {
        take_notes(rq, cx);
    }
}
