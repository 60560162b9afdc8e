//! Delayed dequeue: an entity that blocks with negative lag stays queued until the others have
//! caught up.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `dequeue_entity`, `requeue_delayed_entity`,
//! `finish_delayed_dequeue_entity` (features `DELAY_DEQUEUE`, `DELAY_ZERO`).

use crate::class::fair::enqueue::{
    dequeue_entity, dequeue_groups_above, note_only_idle, prefer_group, propagate_dequeue, propagate_enqueue,
};
use crate::class::fair::run::{pick, rearm_after_enqueue};
use crate::class::fair::{boost, flat, groups, preferred_cache, throttle};
use crate::entity::fair::EntityRef;
use crate::entity::vtime::Vlag;
use crate::queue::fair::join;
use crate::queue::fair::tally::Tally;
use crate::rq::cx::Cx;
use crate::rq::run_queue;
use crate::rq::run_queue::Rq;
use crate::task::body::Parcel;
use crate::words::ids::Slot;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;

/// Wakes a task with a delayed dequeue; `false` if the dequeue is not delayed.
pub(crate) fn wake_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    if !is_delayed(rq, slot) {
        return false;
    }
    let leaf = rq.group_queue(slot);
    join::requeue_delayed(&mut rq.fair, &mut rq.tasks, EntityRef::Task(slot));
    rq.note(Unpublished::ALL);
    let runnable = Tally::runnable(&rq.tasks, slot);
    propagate_enqueue(rq, cx, leaf, runnable, Tally::DELAYED);
    boost::woken(rq, cx, slot);
    rearm_after_enqueue(rq, cx);
    true
}

/// Ends a delayed dequeue. The body of a task goes to the host.
pub(crate) fn finish<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, entity: EntityRef) {
    let (mut home, ran_only_idle) = (rq.entity(entity).queue, rq.runs_only_idle());
    let (q, owed) = (rq.entity(entity).queue, rq.entity(entity).vlag);
    dequeue_entity(rq, cx, q, entity, true);
    let shrinks = rq.fair.tune.delayed_debt_shrinks;
    // `DELAY_ZERO`: a sleeping task gains no credit while it waits to leave.
    let leaving = rq.entity_mut(entity);
    leaving.vlag = if shrinks { leaving.vlag.max(owed) } else { leaving.vlag }.min(Vlag::ZERO);
    match entity {
        EntityRef::Task(slot) => {
            home = rq.group_queue(slot);
            if rq.fair.tune.is_flat {
                flat::count_out(rq, cx, slot);
            }
            if !propagate_dequeue(rq, cx, home, Tally::DELAYED) {
                rq.fair.nr_apart -= 1;
            }
            prefer_group(rq, home);
            rq.fair.recency.remove(slot);
            preferred_cache::unqueued(rq, cx, slot);
            rq.quit_current(slot);
            let body = run_queue::detach(rq, cx, slot);
            cx.io.parked.push(Parcel(body));
        }
        EntityRef::Group(owned) => {
            groups::rest_queue(rq, &cx.shared.groups, owned);
            dequeue_groups_above(rq, cx, q);
            prefer_group(rq, q);
        }
    }
    note_only_idle(rq, cx, ran_only_idle);
    throttle::release_if_empty(rq, cx, home);
}

/// Ends the delayed dequeue of a task; `false` if it is not delayed.
pub(crate) fn finish_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let is_delayed = is_delayed(rq, slot);
    if is_delayed {
        finish(rq, cx, EntityRef::Task(slot));
    }
    is_delayed
}

/// Ends all delayed dequeues if no fair task is runnable: the CPU counts as idle.
pub(crate) fn finish_if_only_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.nr_delayed() > 0 && rq.fair.nr_running() == 0 {
        let none = pick(rq, cx);
        assert!(none.is_none() && rq.fair.nr_delayed() == 0, "what does not want to run is delayed");
    }
}

pub(crate) fn is_delayed(rq: &Rq, slot: Slot) -> bool {
    rq.tasks[slot].fair.is_delayed()
}
