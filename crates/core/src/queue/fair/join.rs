//! Joining and leaving one fair queue: the placement of an entity, its weight in the sums, its
//! delayed dequeue. The callers update the groups above and everything that another CPU can see
//! ([`enqueue`](mod@crate::class::fair::enqueue), [`delay`](crate::class::fair::delay)).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `enqueue_entity`, `reweight_entity`,
//! `requeue_delayed_entity` (features `DELAY_DEQUEUE`, `DELAY_ZERO`).

use crate::entity::fair::{Claim, EntityRef, FairState, QueueIx};
use crate::entity::vtime::Vlag;
use crate::entity::weight::LoadWeight;
use crate::queue::fair::rq::FairRq;
use crate::queue::fair::rq::Join;
use crate::queue::fair::{cfs, eevdf, slice};
use crate::task::slab::TaskSlab;
use crate::words::unpublished::Unpublished;
use zerolag_model::Duration;
use zerolag_model::Instant;
use zerolag_model::settings::FairAlgorithm;

/// The published fields that change when an entity joins or leaves.
pub(crate) const CHANGED: Unpublished = Unpublished::AVERAGES.and(Unpublished::COUNTS);

/// Places an entity on a queue and puts it on the timeline.
pub(crate) fn enqueue_entity(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    q: QueueIx,
    entity: EntityRef,
    why: Join,
    slept: Duration,
) {
    debug_assert!(!fair.entity(tasks, entity).is_queued(), "an entity is queued once");
    fair.changed.add(CHANGED);
    advance_zero(fair, tasks, q);
    match fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::place(fair, tasks, q, entity, why),
        FairAlgorithm::Cfs => cfs::place(fair, tasks, q, entity, why, slept),
    }
    let joining = fair.entity_mut(tasks, entity);
    joining.state = FairState::Runnable; // [1]
    joining.queue = q;
    let weight = joining.load.fine();
    let queue = fair.queue_mut(q);
    queue.nr_queued += 1;
    queue.load.change(0, weight);
    slice::add(fair, tasks, q, entity);
    wait(fair, tasks, q, entity);
}

/// Puts a queued entity on the timeline.
pub(crate) fn wait(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef) {
    fair.member(tasks, q, entity).wait();
}

/// Takes a queued entity off the timeline.
pub(crate) fn unwait(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef) {
    fair.member(tasks, q, entity).unwait();
}

/// Advances the reference of a queue's virtual times to the least of them.
#[inline]
pub(crate) fn advance_zero(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx) {
    if fair.queue(q).nr_queued == 0 {
        return; // Often: the queue of a group that its first entity joins.
    }
    if let Some(least) = cfs::least(fair, tasks, q) {
        fair.queue_mut(q).advance_zero(least);
    }
}

/// Changes the weight of a queued group entity.
///
/// Under EEVDF the entity leaves and joins again with the same lag. The new weight changes how much
/// virtual time that lag is (`reweight_entity`).
#[inline]
pub(crate) fn reweigh(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    q: QueueIx,
    entity: EntityRef,
    weight: LoadWeight,
    now: Instant,
) {
    if fair.entity(tasks, entity).load != weight {
        change_weight(fair, tasks, q, entity, weight, now);
    }
}

fn change_weight(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    q: QueueIx,
    entity: EntityRef,
    load: LoadWeight,
    now: Instant,
) {
    fair.changed.add(Unpublished::AVERAGES);
    fair.age_queue(q, now);
    fair.age_entity(tasks, q, entity, now);
    let before = fair.entity(tasks, entity).load;
    let is_current = fair.queue(q).current == Some(entity);
    let state = fair.entity(tasks, entity).state;
    match fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            eevdf::keep_lag(fair, tasks, q, entity);
            let moving = fair.entity_mut(tasks, entity);
            moving.claim = eevdf::rest_of_request(moving);
            if is_current {
                fair.queue_mut(q).current = None;
            } else {
                unwait(fair, tasks, q, entity);
            }
            fair.queue_mut(q).load.change(before.fine(), 0);
            fair.queue_mut(q).nr_queued -= 1;
            fair.entity_mut(tasks, entity).reweigh(load);
            eevdf::place(fair, tasks, q, entity, Join::Back);
            fair.queue_mut(q).load.change(0, load.fine());
            fair.queue_mut(q).nr_queued += 1;
            if is_current {
                fair.queue_mut(q).current = Some(entity);
                fair.entity_mut(tasks, entity).claim = Claim::None;
            } else {
                wait(fair, tasks, q, entity);
            }
        }
        FairAlgorithm::Cfs => {
            if !is_current {
                unwait(fair, tasks, q, entity);
            }
            fair.entity_mut(tasks, entity).load = load;
            fair.queue_mut(q).load.change(before.fine(), load.fine());
            if !is_current {
                wait(fair, tasks, q, entity);
            }
        }
    }
    fair.reweigh_average(tasks, q, entity, before.value());
    debug_assert!(fair.entity(tasks, entity).state == state, "a change of weight changes no state");
}

/// Changes the weight of a queued entity under EEVDF. Its lag, the rest of its request and of its
/// protection keep their length in real time: Linux v7.3 `fair.c`, `reweight_eevdf`,
/// `rescale_entity`.
pub(crate) fn reweigh_in_place(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    entity: EntityRef,
    load: LoadWeight,
    now: Instant,
) {
    let q = fair.entity(tasks, entity).queue;
    fair.changed.add(Unpublished::AVERAGES);
    fair.age_queue(q, now);
    fair.age_entity(tasks, q, entity, now);
    let (average, lag) = (eevdf::average(fair, tasks, q), eevdf::lag_of(fair, tasks, q, entity));
    let is_current = fair.queue(q).current == Some(entity);
    if !is_current {
        unwait(fair, tasks, q, entity);
    }
    let changed = fair.entity_mut(tasks, entity);
    let (before, old, new) = (changed.load.value(), changed.load.fine(), load.fine());
    changed.load = load;
    changed.vruntime = average.minus(lag.mul_div(old, new));
    changed.virtual_deadline = average.plus(changed.virtual_deadline.since(average).mul_div(old, new));
    if let Claim::Protected(until) = &mut changed.claim {
        *until = average.plus(until.since(average).mul_div(old, new));
    }
    let queue = fair.queue_mut(q);
    queue.load.change(old, new);
    if !is_current {
        wait(fair, tasks, q, entity);
    }
    fair.reweigh_average(tasks, q, entity, before);
}

/// Returns whether an entity that blocks must first repay negative lag (`DELAY_DEQUEUE`).
pub(crate) fn owes(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, entity: EntityRef) -> bool {
    fair.tune.delay_dequeue
        && fair.tune.algorithm == FairAlgorithm::Eevdf
        && !eevdf::is_eligible(fair, tasks, q, entity)
}

/// Makes a delayed entity runnable again. It keeps its vruntime unless its lag has become positive.
/// Positive lag from its sleep is dropped, and it is placed anew. With `delayed_debt_shrinks` so is
/// one that owes more than when it blocked.
///
/// Linux v6.12 `fair.c`, `requeue_delayed_entity` (`DELAY_ZERO`); v7.2, `update_entity_lag`.
pub(crate) fn requeue_delayed(fair: &mut FairRq, tasks: &mut TaskSlab, entity: EntityRef) {
    let q = fair.entity(tasks, entity).queue;
    fair.entity_mut(tasks, entity).state = FairState::Runnable; // [4]
    let lag = eevdf::average(fair, tasks, q).since(fair.entity(tasks, entity).vruntime);
    let kept = if fair.tune.delayed_debt_shrinks {
        eevdf::lag_of(fair, tasks, q, entity).max(fair.entity(tasks, entity).vlag).min(Vlag::ZERO)
    } else {
        lag.min(Vlag::ZERO)
    };
    if kept == lag {
        return;
    }
    let is_current = fair.queue(q).current == Some(entity);
    if is_current {
        fair.queue_mut(q).current = None;
    } else {
        unwait(fair, tasks, q, entity);
    }
    fair.queue_mut(q).nr_queued -= 1;
    fair.entity_mut(tasks, entity).vlag = kept;
    eevdf::place(fair, tasks, q, entity, Join::Wakeup);
    fair.queue_mut(q).nr_queued += 1;
    if is_current {
        fair.queue_mut(q).current = Some(entity);
    } else {
        wait(fair, tasks, q, entity);
    }
}
