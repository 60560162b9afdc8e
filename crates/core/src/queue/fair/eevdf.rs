//! EEVDF: earliest eligible virtual deadline first.
//!
//! Terms. *Lag* is the service that an entity is owed: `w (V - v)`, where `V` is the average
//! vruntime weighted by `w`. [`Vlag`] is lag in virtual time, `V - v`. An entity is *eligible*
//! while its lag is not negative. It asks for a slice at a time; the *virtual deadline* is where
//! its vruntime will be when that request is served. Among the eligible the earliest virtual
//! deadline runs.
//!
//! | when | rule | kernel |
//! |---|---|---|
//! | it leaves | its vlag is kept, within twice its slice | `update_entity_lag` |
//! | it joins | it is placed so that it has the kept vlag *after* it has joined and so moved the average | `place_entity` |
//! | its request is served | it asks for the next slice; the CPU looks for a better one | `update_deadline` |
//! | it was picked | it goes on while eligible until its request, or the shortest one here, is served | `RUN_TO_PARITY`, `set_protect_slice` |
//! | a woken one asks for less | that protection ends | `PREEMPT_SHORT` |
//! | it blocks while it owes service | it stays queued until the average has passed it | `DELAY_DEQUEUE` |
//! | it yields | its deadline moves a slice away | `yield_task_fair` |
//!
//! Each rule is O(log n) per level of the hierarchy.
//!
//! Sources: Stoica & Abdel-Wahab 1995; Linux v6.12 `kernel/sched/fair.c`, functions as in the
//! table, and v6.6 where the features of 6.12 are off. differs: the average is exact (128-bit
//! sums), the kernel's is that of 64-bit sums that may overflow with extreme weights.

use crate::entity::fair::{EntityRef, FairEntity, QueueIx};
use crate::entity::vtime::{Vlag, Vtime};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::FairRq;
use crate::queue::fair::rq::Join;
use crate::queue::fair::slice;
use crate::task::slab::TaskSlab;
use crate::words::resched::Resched;
use zerolag_model::Duration;
use zerolag_model::settings::SliceProtection;

/// Returns the weighted average vruntime of a queue.
pub(crate) fn average(fair: &FairRq, tasks: &TaskSlab, q: QueueIx) -> Vtime {
    let queue = &fair.queues[q.index()];
    queue.average(current_of(fair, tasks, queue))
}

/// Returns whether an entity's lag is not negative.
pub(crate) fn is_eligible(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, entity: EntityRef) -> bool {
    let queue = &fair.queues[q.index()];
    !queue.is_beyond_average(current_of(fair, tasks, queue), fair.entity(tasks, entity).vruntime)
}

/// Returns vruntime and weight of a queue's current entity.
fn current_of(fair: &FairRq, tasks: &TaskSlab, queue: &Queue) -> Option<(Vtime, u64)> {
    queue.current.map(|entity| {
        let entity = fair.entity(tasks, entity);
        (entity.vruntime, entity.load.value())
    })
}

/// Returns the entity of a queue that should run. O(log n). The queue must not be empty.
#[inline]
pub(crate) fn pick(fair: &FairRq, tasks: &TaskSlab, queue: &Queue) -> EntityRef {
    pick_as(fair, tasks, queue, protects(fair))
}

/// Returns whether the current entity's protection counts. Since 6.17 it does without
/// `RUN_TO_PARITY`, too, and is shorter then.
fn protects(fair: &FairRq) -> bool {
    fair.tune.run_to_parity || fair.tune.protection == SliceProtection::MinSlice
}

/// As [`pick`]; `protects` says whether the current entity's protection counts.
#[inline]
fn pick_as(fair: &FairRq, tasks: &TaskSlab, queue: &Queue, protects: bool) -> EntityRef {
    if queue.nr_queued == 1 {
        return queue.current.unwrap_or_else(|| first(fair, queue));
    }
    let Some(current) = queue.current else {
        let limit = queue.average(None);
        let node = fair.timeline.first_eligible(queue.waiting, limit);
        return node.map_or_else(|| first(fair, queue), |node| fair.timeline.entity(node));
    };
    let running = fair.entity(tasks, current);
    let limit = queue.average(Some((running.vruntime, running.load.value())));
    let is_eligible = !limit.is_before(running.vruntime);
    if is_eligible && protects && running.is_protected() {
        return current;
    }
    let best = fair.timeline.first_eligible(queue.waiting, limit);
    match best {
        Some(best) if is_eligible && running.virtual_deadline.is_before(fair.timeline.key(best)) => current,
        Some(best) => fair.timeline.entity(best),
        // The least vruntime is never after the average, so either is eligible.
        None => current,
    }
}

fn first(fair: &FairRq, queue: &Queue) -> EntityRef {
    let first = fair.timeline.first(queue.waiting);
    fair.timeline.entity(first.expect("invariant: a queue without a current entity has waiting ones"))
}

/// Gives an entity that joins a queue its vruntime and virtual deadline.
pub(crate) fn place(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, why: Join) {
    let average = average(fair, tasks, q);
    let queue = &fair.queues[q.index()];
    let tune = fair.tune;
    let others = queue.sum_weight + queue.current.map_or(0, |current| fair.entity(tasks, current).load.value());
    let joins_others = queue.nr_queued > 0;
    let joining = fair.entity_mut(tasks, entity);
    let mut slice = joining.load.to_virtual(joining.slice);
    // Joining moves the average towards the entity; its lag would shrink by that. So it is made
    // larger beforehand.
    let lag = if tune.place_lag && joins_others && others > 0 {
        joining.vlag.mul_div(others + joining.load.value(), others)
    } else {
        Vlag::ZERO
    };
    joining.vruntime = average.minus(lag);
    let left = joining.request_left.take();
    joining.virtual_deadline = match (left, why) {
        (Some(left), _) => joining.vruntime.plus(left),
        (None, Join::New) => {
            // A new one starts half way through its first request, as the others are on average.
            slice = slice.mul_div(1, 2);
            joining.vruntime.plus(slice)
        }
        (None, Join::Wakeup | Join::Back) => joining.vruntime.plus(slice),
    };
}

/// Keeps an entity's lag while it is off the queue; called while it is still on it.
pub(crate) fn keep_lag(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef) {
    let average = average(fair, tasks, q);
    let tick = fair.tune.tick;
    let leaving = fair.entity_mut(tasks, entity);
    let most = leaving.load.to_virtual((leaving.slice * 2).max(tick)).as_nanos();
    let vlag = average.since(leaving.vruntime).as_nanos().clamp(-most, most);
    leaving.vlag = Vlag::from_nanos(vlag);
}

/// Keeps the unserved part of an entity's request: it continues with it on the next queue.
pub(crate) fn keep_request(entity: &mut FairEntity) {
    entity.request_left = Some(entity.virtual_deadline.since(entity.vruntime));
}

/// Moves the current entity of a queue on by the time it ran; returns whether the CPU should look
/// for a better one.
#[inline]
pub(crate) fn charge(entity: &mut FairEntity, base_slice: Duration) -> Resched {
    if entity.vruntime.is_before(entity.virtual_deadline) {
        return Resched::No;
    }
    if !entity.has_custom_slice {
        entity.slice = base_slice;
    }
    entity.virtual_deadline = entity.vruntime.plus(entity.load.to_virtual(entity.slice));
    Resched::Now
}

/// Returns whether the current entity has lost its protection and is ahead of its share
/// (`did_preempt_short`); where the shortest slice protects, whether it has lost it (6.17
/// `update_curr`).
pub(crate) fn is_overdue(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, current: EntityRef) -> bool {
    match fair.tune.protection {
        SliceProtection::Request => {}
        SliceProtection::MinSlice => return !fair.entity(tasks, current).is_protected(),
    }
    fair.tune.preempt_short && !fair.entity(tasks, current).is_protected() && !is_eligible(fair, tasks, q, current)
}

/// Returns whether an entity preempts the current one of the same queue, by the wakeup of a
/// SCHED_OTHER task.
pub(crate) fn preempts(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    q: QueueIx,
    current: EntityRef,
    woken: EntityRef,
) -> Resched {
    match fair.tune.protection {
        SliceProtection::Request => {
            if fair.tune.preempt_short && is_short(fair, tasks, q, current, woken) {
                fair.entity_mut(tasks, current).protected = None;
            }
            if pick(fair, tasks, fair.queue(q)) == woken { Resched::Now } else { Resched::No }
        }
        SliceProtection::MinSlice => {
            let is_short =
                fair.tune.preempt_short && fair.entity(tasks, woken).slice < fair.entity(tasks, current).slice;
            if pick_as(fair, tasks, fair.queue(q), !is_short) == woken {
                if is_short {
                    fair.entity_mut(tasks, current).protected = None;
                }
                return Resched::Now;
            }
            if is_short && fair.tune.run_to_parity {
                slice::shorten_protection(fair, tasks, q, current);
            }
            Resched::No
        }
    }
}

/// Returns whether a woken entity that asks for a shorter slice may end the current one's
/// protection.
fn is_short(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, current: EntityRef, woken: EntityRef) -> bool {
    let (running, waking) = (fair.entity(tasks, current), fair.entity(tasks, woken));
    waking.slice < running.slice
        && is_eligible(fair, tasks, q, woken)
        && (waking.virtual_deadline.is_before(running.virtual_deadline) || !is_eligible(fair, tasks, q, current))
}

/// The current entity gives way: its deadline moves a slice away, and its protection ends.
pub(crate) fn yield_current(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, current: EntityRef) {
    let forfeits = fair.tune.yield_forfeits && is_eligible(fair, tasks, q, current);
    let yielding = fair.entity_mut(tasks, current);
    if forfeits {
        // Left where it was it could be the only eligible one, be picked again and again, and its
        // deadline run away.
        yielding.vruntime = yielding.virtual_deadline;
    }
    yielding.protected = None;
    yielding.virtual_deadline = yielding.virtual_deadline.plus(yielding.load.to_virtual(yielding.slice));
}

impl FairEntity {
    /// Returns whether it still works on what it was picked for.
    pub(crate) fn is_protected(&self) -> bool {
        self.protected.is_some_and(|until| self.vruntime.is_before(until))
    }
}
