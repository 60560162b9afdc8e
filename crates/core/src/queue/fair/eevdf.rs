//! EEVDF: earliest eligible virtual deadline first.
//!
//! Terms. *Lag* is the service that an entity is owed: `w (V - v)`, where `V` is the average vruntime weighted by `w`.
//! [`Vlag`] is lag in virtual time, `V - v`. An entity is *eligible* while its lag is not negative. It asks for a slice
//! at a time; the *virtual deadline* is where its vruntime will be when that request is served. Among the eligible the
//! earliest virtual deadline runs.
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
//! Sources: Stoica & Abdel-Wahab 1995; Linux v6.12 `kernel/sched/fair.c`, functions as in the table, and v6.6 where the
//! features of 6.12 are off. differs: the average is exact (128-bit sums), the kernel's is that of 64-bit sums that may
//! overflow with extreme weights.

use crate::entity::fair::{EntityRef, FairEntity, QueueIx};
use crate::entity::vtime::{Vlag, Vtime};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::Join;
use crate::queue::fair::slice;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use zerolag_model::settings::SliceProtection;
use zerolag_model::{Duration, FairPolicy, SchedAttr};

/// Returns the weighted average vruntime of a queue.
pub(crate) fn average(rq: &Rq, q: QueueIx) -> Vtime {
    let queue = &rq.fair.queues[q.index()];
    queue.average(current_of(rq, queue))
}

/// Returns whether an entity's lag is not negative.
pub(crate) fn is_eligible(rq: &Rq, q: QueueIx, entity: EntityRef) -> bool {
    let queue = &rq.fair.queues[q.index()];
    !queue.is_beyond_average(current_of(rq, queue), rq.entity(entity).vruntime)
}

/// Returns vruntime and weight of a queue's current entity.
fn current_of(rq: &Rq, queue: &Queue) -> Option<(Vtime, u64)> {
    queue.current.map(|entity| {
        let entity = rq.entity(entity);
        (entity.vruntime, entity.load.value())
    })
}

/// Returns the entity of a queue that should run. O(log n). The queue must not be empty.
#[inline]
pub(crate) fn pick(rq: &Rq, queue: &Queue) -> EntityRef {
    pick_as(rq, queue, protects(rq))
}

/// Returns whether the current entity's protection counts. Since 6.17 it does without `RUN_TO_PARITY`, too, and is shorter then.
fn protects(rq: &Rq) -> bool {
    rq.fair.tune.run_to_parity || rq.fair.tune.protection == SliceProtection::MinSlice
}

/// As [`pick`]; `protects` says whether the current entity's protection counts.
#[inline]
fn pick_as(rq: &Rq, queue: &Queue, protects: bool) -> EntityRef {
    let fair = &rq.fair;
    if queue.nr_queued == 1 {
        return queue.current.unwrap_or_else(|| first(rq, queue));
    }
    let Some(current) = queue.current else {
        let limit = queue.average(None);
        let node = fair.timeline.first_eligible(queue.waiting, limit);
        return node.map_or_else(|| first(rq, queue), |node| fair.timeline.entity(node));
    };
    let running = rq.entity(current);
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

fn first(rq: &Rq, queue: &Queue) -> EntityRef {
    let first = rq.fair.timeline.first(queue.waiting);
    rq.fair.timeline.entity(first.expect("invariant: a queue without a current entity has waiting ones"))
}

/// Gives an entity that joins a queue its vruntime and virtual deadline.
pub(crate) fn place(rq: &mut Rq, q: QueueIx, entity: EntityRef, why: Join) {
    let average = average(rq, q);
    let queue = &rq.fair.queues[q.index()];
    let tune = rq.fair.tune;
    let others = queue.sum_weight + queue.current.map_or(0, |current| rq.entity(current).load.value());
    let joins_others = queue.nr_queued > 0;
    let joining = rq.entity_mut(entity);
    let mut slice = joining.load.to_virtual(joining.slice);
    // Joining moves the average towards the entity; its lag would shrink by that. So it is made larger beforehand.
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
pub(crate) fn keep_lag(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    let average = average(rq, q);
    let tick = rq.fair.tune.tick;
    let leaving = rq.entity_mut(entity);
    let most = leaving.load.to_virtual((leaving.slice * 2).max(tick)).as_nanos();
    let vlag = average.since(leaving.vruntime).as_nanos().clamp(-most, most);
    leaving.vlag = Vlag::from_nanos(vlag);
}

/// Keeps what is left of an entity's request: it goes on with it where it joins next.
pub(crate) fn keep_request(entity: &mut FairEntity) {
    entity.request_left = Some(entity.virtual_deadline.since(entity.vruntime));
}

/// Moves the current entity of a queue on by the time it ran; returns whether the CPU should look for a better one.
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

/// Returns whether the current entity has lost its protection and is ahead of its share (`did_preempt_short`); where the shortest
/// slice protects, whether it has lost it (6.17 `update_curr`).
pub(crate) fn is_overdue(rq: &Rq, q: QueueIx, current: EntityRef) -> bool {
    match rq.fair.tune.protection {
        SliceProtection::Request => {}
        SliceProtection::MinSlice => return !rq.entity(current).is_protected(),
    }
    rq.fair.tune.preempt_short && !rq.entity(current).is_protected() && !is_eligible(rq, q, current)
}

/// Returns whether a woken entity preempts the current one of the same queue.
pub(crate) fn preempts(rq: &mut Rq, q: QueueIx, current: EntityRef, woken: EntityRef, task: Slot) -> Resched {
    match rq.tasks[task].attr {
        SchedAttr::Fair { policy: FairPolicy::Other, .. } => {}
        SchedAttr::Fair { policy: FairPolicy::Batch | FairPolicy::Idle, .. }
        | SchedAttr::Rt { .. }
        | SchedAttr::Deadline(_) => return Resched::No,
    }
    match rq.fair.tune.protection {
        SliceProtection::Request => {
            if rq.fair.tune.preempt_short && is_short(rq, q, current, woken) {
                rq.entity_mut(current).protected = None;
            }
            if pick(rq, rq.queue(q)) == woken { Resched::Now } else { Resched::No }
        }
        SliceProtection::MinSlice => {
            let is_short = rq.fair.tune.preempt_short && rq.entity(woken).slice < rq.entity(current).slice;
            if pick_as(rq, rq.queue(q), !is_short) == woken {
                if is_short {
                    rq.entity_mut(current).protected = None;
                }
                return Resched::Now;
            }
            if is_short && rq.fair.tune.run_to_parity {
                slice::shorten_protection(rq, q, current);
            }
            Resched::No
        }
    }
}

/// Returns whether a woken entity that asks for a shorter slice may end the current one's protection.
fn is_short(rq: &Rq, q: QueueIx, current: EntityRef, woken: EntityRef) -> bool {
    let (running, waking) = (rq.entity(current), rq.entity(woken));
    waking.slice < running.slice
        && is_eligible(rq, q, woken)
        && (waking.virtual_deadline.is_before(running.virtual_deadline) || !is_eligible(rq, q, current))
}

/// The current entity gives way: its deadline moves a slice away, and its protection ends.
pub(crate) fn yield_current(rq: &mut Rq, q: QueueIx, current: EntityRef) {
    let forfeits = rq.fair.tune.yield_forfeits && is_eligible(rq, q, current);
    let yielding = rq.entity_mut(current);
    if forfeits {
        // Left where it was it could be the only eligible one, be picked again and again, and its deadline run away.
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
