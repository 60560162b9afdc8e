//! EEVDF: earliest eligible virtual deadline first.
//!
//! * *Lag* is the service that an entity is owed: `w (V - v)`, where `V` is the average vruntime
//!   weighted by `w`. [`Vlag`] is lag in virtual time, `V - v`.
//! * An entity is *eligible* while its lag is not negative.
//! * An entity requests one slice at a time. Its *virtual deadline* is its vruntime at the moment
//!   when that request will have been served.
//! * The eligible entity with the earliest virtual deadline runs.
//!
//! | event | rule | kernel |
//! |---|---|---|
//! | it leaves | its vlag is saved, limited to twice its slice | `update_entity_lag` |
//! | it joins | it is placed at its saved vlag (see below) | `place_entity` |
//! | its request is served | it requests the next slice; the CPU reschedules | `update_deadline` |
//! | it was picked | it is protected (see below) | `RUN_TO_PARITY`, `set_protect_slice` |
//! | one with a shorter slice wakes | the protection ends | `PREEMPT_SHORT` |
//! | ... and is eligible (7.3) | it is the next buddy | `set_short_buddy` |
//! | a task of a group blocks, others are queued | the group is the next buddy (6.14 to 7.2) | `dequeue_entities` |
//! | a queue has a next buddy, which is eligible | it runs | `PICK_BUDDY` |
//! | it blocks with negative lag | it stays queued until the average passes it | `DELAY_DEQUEUE` |
//! | it yields | its deadline moves a slice away | `yield_task_fair` |
//!
//! * *Placement*: joining itself moves the average. The entity is placed so that it has the saved
//!   vlag *after* it has joined.
//! * *Protection*: while it is eligible, a picked entity keeps the CPU until its own request, or
//!   the shortest one on the queue, is served.
//!
//! Each rule is O(log n) per level of the hierarchy.
//!
//! Sources: Stoica & Abdel-Wahab 1995; Linux v6.12 `kernel/sched/fair.c`, functions as in the
//! table, and v6.6 where the features of 6.12 are off. differs: the average is exact (128-bit
//! sums); the kernel's 64-bit sums can overflow with extreme weights.

use crate::entity::fair::{Claim, EntityRef, FairEntity, QueueIx};
use crate::entity::vtime::{Vlag, Vtime};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::FairRq;
use crate::queue::fair::rq::Join;
use crate::queue::fair::slice;
use crate::task::slab::TaskSlab;
use crate::words::resched::Resched;
use zerolag_model::Duration;
use zerolag_model::settings::{LagLimit, SliceProtection};

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

/// Returns the vruntime and the weight of a queue's current entity.
fn current_of(fair: &FairRq, tasks: &TaskSlab, queue: &Queue) -> Option<(Vtime, u64)> {
    queue.current.map(|entity| {
        let entity = fair.entity(tasks, entity);
        (entity.vruntime, entity.load.fine())
    })
}

/// Returns the entity of a queue that should run. The queue must not be empty. O(log n).
#[inline]
pub(crate) fn pick(fair: &FairRq, tasks: &TaskSlab, queue: &Queue) -> EntityRef {
    pick_as(fair, tasks, queue, Claims { protects: protects(fair), buddy: fair.tune.pick_buddy })
}

/// What can keep the entity with the earliest deadline from being picked.
#[derive(Clone, Copy)]
struct Claims {
    /// The current entity's protection counts.
    protects: bool,
    /// The next buddy is preferred.
    buddy: bool,
}

/// Returns whether the current entity's protection counts. Since 6.17 it also counts without
/// `RUN_TO_PARITY`, but is shorter then.
fn protects(fair: &FairRq) -> bool {
    fair.tune.run_to_parity || fair.tune.protection != SliceProtection::Request
}

/// Picks as [`pick`] does, with these claims.
#[inline]
fn pick_as(fair: &FairRq, tasks: &TaskSlab, queue: &Queue, claims: Claims) -> EntityRef {
    if queue.nr_queued == 1 {
        return queue.current.unwrap_or_else(|| first(fair, queue));
    }
    if claims.buddy
        && let Some(next) = queue.buddies.next
        && !queue.is_beyond_average(current_of(fair, tasks, queue), fair.entity(tasks, next).vruntime)
    {
        return next;
    }
    let Some(current) = queue.current else {
        let limit = queue.average(None);
        let node = fair.timeline.first_eligible(queue.waiting, limit);
        return node.map_or_else(|| first(fair, queue), |node| fair.timeline.entity(node));
    };
    let running = fair.entity(tasks, current);
    let limit = queue.average(Some((running.vruntime, running.load.fine())));
    let is_eligible = !limit.is_before(running.vruntime);
    if is_eligible && claims.protects && running.is_protected() {
        return current;
    }
    let best = fair.timeline.first_eligible(queue.waiting, limit);
    match best {
        Some(best) if is_eligible && running.virtual_deadline.is_before(fair.timeline.key(best)) => current,
        Some(best) => fair.timeline.entity(best),
        // The least vruntime is never after the average, so an entity of the timeline or the
        // current entity is eligible.
        None => current,
    }
}

fn first(fair: &FairRq, queue: &Queue) -> EntityRef {
    let first = fair.timeline.first(queue.waiting);
    fair.timeline.entity(first.expect("invariant: a queue without a current entity has waiting ones"))
}

/// Sets the vruntime and the virtual deadline of an entity that joins a queue.
pub(crate) fn place(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, why: Join) {
    let average = average(fair, tasks, q);
    let queue = &fair.queues[q.index()];
    let tune = fair.tune;
    let others = queue.sum_weight + queue.current.map_or(0, |current| fair.entity(tasks, current).load.fine());
    let joins_others = queue.nr_queued > 0;
    let joining = fair.entity_mut(tasks, entity);
    let mut slice = joining.load.to_virtual(joining.slice);
    // Joining moves the average towards the entity, which would shrink its lag. So the lag is
    // scaled up beforehand.
    let lag = if tune.place_lag && joins_others && others > 0 {
        joining.vlag.mul_div(others + joining.load.fine(), others)
    } else {
        Vlag::ZERO
    };
    joining.vruntime = average.minus(lag);
    let claim = core::mem::replace(&mut joining.claim, Claim::None);
    joining.virtual_deadline = match (claim, why) {
        (Claim::Left(left), _) => joining.vruntime.plus(left),
        (_, Join::New) => {
            // A new entity starts half way through its first request, as the others are on average.
            slice = slice.mul_div(1, 2);
            joining.vruntime.plus(slice)
        }
        (_, Join::Wakeup | Join::Back) => joining.vruntime.plus(slice),
    };
}

/// Saves an entity's lag before it leaves the queue.
pub(crate) fn keep_lag(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef) {
    let vlag = lag_of(fair, tasks, q, entity);
    fair.entity_mut(tasks, entity).vlag = vlag;
}

/// Returns an entity's lag, as far as it is kept (`entity_lag`).
pub(crate) fn lag_of(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, entity: EntityRef) -> Vlag {
    let tune = &fair.tune;
    let entity = fair.entity(tasks, entity);
    let most = match tune.lag_limit {
        LagLimit::OwnSlice => (entity.slice * 2).max(tune.tick),
        LagLimit::LongestSlice => fair.queue(q).longest_slice(tune) + tune.tick,
    };
    let most = entity.load.to_virtual(most).as_nanos();
    Vlag::from_nanos(average(fair, tasks, q).since(entity.vruntime).as_nanos().clamp(-most, most))
}

/// Returns the unserved part of an entity's request, which continues on the next queue.
pub(crate) fn rest_of_request(entity: &FairEntity) -> Claim {
    Claim::Left(entity.virtual_deadline.since(entity.vruntime))
}

/// Begins the next request of the current entity if its request is served. Returns whether the CPU
/// should look for a better entity.
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

/// Returns whether the current entity should be preempted without a wakeup: it has lost its
/// protection and is not eligible (`did_preempt_short`). With the `min_slice` protection the lost
/// protection suffices (6.17 `update_curr`).
pub(crate) fn is_overdue(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, current: EntityRef) -> bool {
    match fair.tune.protection {
        SliceProtection::Request => {}
        SliceProtection::MinSlice | SliceProtection::ZeroLag => return !fair.entity(tasks, current).is_protected(),
    }
    fair.tune.preempt_short && !fair.entity(tasks, current).is_protected() && !is_eligible(fair, tasks, q, current)
}

/// Returns the entity that would run now that `woken` has joined the current entity's queue.
pub(crate) fn pick_at_wakeup(
    fair: &FairRq,
    tasks: &TaskSlab,
    q: QueueIx,
    current: EntityRef,
    woken: EntityRef,
) -> EntityRef {
    let overrides = overrides(fair, tasks, q, current, woken);
    pick_as(fair, tasks, fair.queue(q), at_wakeup(fair, overrides))
}

/// Returns the claims that count when a task wakes.
fn at_wakeup(fair: &FairRq, overrides: bool) -> Claims {
    Claims {
        protects: protects(fair) && !overrides,
        buddy: fair.tune.wakeup_after_buddy && (!overrides || fair.tune.buddy_before_short),
    }
}

/// Returns whether a woken entity competes as if the current entity were not protected
/// (`PREEMPT_SHORT`).
fn overrides(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, current: EntityRef, woken: EntityRef) -> bool {
    fair.tune.preempt_short
        && match fair.tune.protection {
            SliceProtection::Request => is_short(fair, tasks, q, current, woken),
            SliceProtection::MinSlice | SliceProtection::ZeroLag => {
                fair.entity(tasks, woken).slice < fair.entity(tasks, current).slice
            }
        }
}

/// Returns whether an entity preempts the current entity of the same queue, when a SCHED_OTHER task
/// wakes.
pub(crate) fn preempts(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    q: QueueIx,
    current: EntityRef,
    woken: EntityRef,
) -> Resched {
    let overrides = overrides(fair, tasks, q, current, woken);
    let is_picked = pick_as(fair, tasks, fair.queue(q), at_wakeup(fair, overrides)) == woken;
    let is_first = fair.tune.short_wakeup_first && overrides && is_eligible(fair, tasks, q, woken);
    if is_first {
        note_next(fair, tasks, q, woken);
    }
    let preempts = is_picked || is_first;
    if preempts && overrides && !fair.tune.buddy_before_short {
        // The current entity is a group that was to be picked again.
        fair.queue_mut(q).buddies.clear(current);
    }
    if overrides || fair.tune.wakeup_ends_protection {
        // Before 6.17 it is lost whether or not the woken entity is the next one.
        if preempts || fair.tune.protection == SliceProtection::Request {
            fair.entity_mut(tasks, current).claim = Claim::None;
        } else {
            shorten_protection(fair, tasks, q, current);
        }
    }
    if preempts { Resched::Now } else { Resched::No }
}

/// Limits the current entity's protection to the shortest slice, under `RUN_TO_PARITY`.
pub(crate) fn shorten_protection(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, current: EntityRef) {
    if fair.tune.run_to_parity {
        let at = fair.entity(tasks, current).vruntime;
        let from = match fair.tune.protection {
            SliceProtection::ZeroLag => average(fair, tasks, q).earlier_of(at),
            SliceProtection::MinSlice | SliceProtection::Request => at,
        };
        slice::shorten_protection(fair, tasks, q, current, from);
    }
}

/// Notes that a woken entity is to run next, unless one with a shorter slice is
/// (`set_short_buddy`).
fn note_next(fair: &mut FairRq, tasks: &TaskSlab, q: QueueIx, woken: EntityRef) {
    let before = fair.queue(q).buddies.next.map(|next| fair.entity(tasks, next).slice);
    if before.is_none_or(|before| before >= fair.entity(tasks, woken).slice) && !fair.entity(tasks, woken).is_idle {
        fair.queue_mut(q).buddies.next = Some(woken);
    }
}

/// Returns whether a woken entity with a shorter slice ends the current entity's protection.
fn is_short(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, current: EntityRef, woken: EntityRef) -> bool {
    let (running, waking) = (fair.entity(tasks, current), fair.entity(tasks, woken));
    waking.slice < running.slice
        && is_eligible(fair, tasks, q, woken)
        && (waking.virtual_deadline.is_before(running.virtual_deadline) || !is_eligible(fair, tasks, q, current))
}

/// Yields the current entity: its deadline moves a slice away, and its protection ends. With
/// `yield_forfeits` it gives up the rest of its request instead, if it is eligible; if not, another
/// entity is picked anyway.
pub(crate) fn yield_current(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, current: EntityRef) {
    let moves = !fair.tune.yield_forfeits || is_eligible(fair, tasks, q, current);
    let forfeits = fair.tune.yield_forfeits;
    let yielding = fair.entity_mut(tasks, current);
    yielding.claim = Claim::None;
    if !moves {
        return;
    }
    if forfeits {
        // If its vruntime stayed, it could remain the only eligible entity, be picked again and
        // again, and push its deadline ever further away.
        yielding.vruntime = yielding.virtual_deadline;
    }
    yielding.virtual_deadline = yielding.virtual_deadline.plus(yielding.load.to_virtual(yielding.slice));
}

impl FairEntity {
    /// Returns whether the entity is protected from preemption at its present vruntime.
    pub(crate) fn is_protected(&self) -> bool {
        matches!(self.claim, Claim::Protected(until) if self.vruntime.is_before(until))
    }
}
