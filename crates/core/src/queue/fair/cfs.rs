//! CFS: runs the entity that has received the least service, measured by vruntime.
//!
//! * **Wakeup**: the entity starts at most half a latency period before `min_vruntime`, and never
//!   before its own vruntime (`place_entity`, `GENTLE_FAIR_SLEEPERS`).
//! * **Fork**: the new entity starts one slice after `min_vruntime` (`START_DEBIT`).
//! * **Migration**: the entity keeps its distance to `min_vruntime` (`enqueue_entity`,
//!   `migrate_task_rq_fair`).
//! * **Slice**: an entity runs for its share of the latency period, by weight, but at least for the
//!   minimum granularity (`sched_slice`).
//! * **Tick**: the current entity is preempted when its slice is over, or when another entity is a
//!   whole slice behind it (`check_preempt_tick`).
//! * **Wakeup preemption**: a woken entity preempts if it is behind the current one by more than
//!   the wakeup granularity (`wakeup_preempt_entity`).
//! * **Pick**: the entity that woke last and preempted, or the one that it preempted, is preferred;
//!   the one that yielded is passed over. Neither happens if it would be unfair (buddies). The
//!   preempted one counts on a crowded queue only (`LAST_BUDDY`); there any woken one can be
//!   preferred (`NEXT_BUDDY`, off).
//!
//! Each rule is O(log n); the slice is O(depth).
//!
//! Sources: Linux v6.1 and v5.15 `kernel/sched/fair.c`, functions as listed. differs: when a task
//! wakes on another CPU than the one it slept on, the kernel measures it by the old queue's
//! `min_vruntime` at that moment. Only the old CPU knows that value exactly. Here the old queue is
//! assumed to have advanced by the time slept.

use crate::entity::fair::{EntityRef, QueueIx};
use crate::entity::vtime::{Vlag, Vtime};
use crate::entity::weight::share_of;
use crate::queue::fair::rq::FairRq;
use crate::queue::fair::rq::Join;
use crate::task::slab::TaskSlab;
use crate::words::resched::Resched;
use zerolag_model::Duration;

/// Returns the entity of a queue that should run. The queue must not be empty. O(log n).
pub(crate) fn pick(fair: &FairRq, tasks: &TaskSlab, q: QueueIx) -> EntityRef {
    let queue = &fair.queues[q.index()];
    let first = fair.timeline.first(queue.waiting);
    let Some(first) = first else {
        return queue.current.expect("invariant: a queue that is not empty has an entity");
    };
    let left = match queue.current {
        Some(current) if fair.entity(tasks, current).vruntime.is_before(fair.timeline.vruntime(first)) => current,
        Some(_) | None => fair.timeline.entity(first),
    };
    let mut best = left;
    if queue.buddies.skip == Some(left) {
        let next = if queue.current == Some(left) { Some(first) } else { fair.timeline.after(queue.waiting, first) };
        let next = match (next.map(|node| fair.timeline.entity(node)), queue.current) {
            (Some(next), Some(current))
                if current != left
                    && fair.entity(tasks, current).vruntime.is_before(fair.entity(tasks, next).vruntime) =>
            {
                Some(current)
            }
            (None, Some(current)) if current != left => Some(current),
            (next, _) => next,
        };
        best = next.filter(|next| !is_unfair(fair, tasks, left, *next)).unwrap_or(left);
    }
    [queue.buddies.next, queue.buddies.last]
        .into_iter()
        .flatten()
        .find(|buddy| !is_unfair(fair, tasks, left, *buddy))
        .unwrap_or(best)
}

/// Returns whether picking `buddy` would set the leftmost entity back by more than the wakeup
/// granularity.
fn is_unfair(fair: &FairRq, tasks: &TaskSlab, left: EntityRef, buddy: EntityRef) -> bool {
    ahead(fair, tasks, buddy, left) == Ahead::Far
}

/// How far the vruntime of one entity is ahead of another's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    Not,
    Near,
    /// By more than the wakeup granularity, in the other's virtual time.
    Far,
}

fn ahead(fair: &FairRq, tasks: &TaskSlab, entity: EntityRef, other: EntityRef) -> Ahead {
    let other = fair.entity(tasks, other);
    let by = fair.entity(tasks, entity).vruntime.since(other.vruntime);
    if by <= Vlag::ZERO {
        Ahead::Not
    } else if by > other.load.to_virtual(fair.tune.wakeup_granularity) {
        Ahead::Far
    } else {
        Ahead::Near
    }
}

/// Sets the vruntime of an entity that joins a queue. `slept` is how long it was away.
pub(crate) fn place(
    fair: &mut FairRq,
    tasks: &mut TaskSlab,
    q: QueueIx,
    entity: EntityRef,
    why: Join,
    slept: Duration,
) {
    let queue = &fair.queues[q.index()];
    let (least, frame, current) = (queue.zero_vruntime, queue.frame, queue.current);
    let tune = fair.tune;
    let joining = fair.entity(tasks, entity);
    let same_frame = joining.frame == Some(frame);
    let own = if same_frame {
        joining.vruntime
    } else {
        let away = if joining.frame.is_some() { Vlag::from_duration(slept) } else { Vlag::ZERO };
        least.plus(joining.vruntime.since(joining.virtual_deadline)).minus(away)
    };
    let vruntime = match why {
        Join::Wakeup => {
            let credit = if joining.is_idle { tune.min_granularity } else { tune.latency };
            own.later_of(least.minus(Vlag::from_duration(credit / 2)))
        }
        Join::New => {
            let debit = joining.load.to_virtual(slice(fair, tasks, q, entity));
            let parent = current.map_or(least, |current| fair.entity(tasks, current).vruntime);
            least.plus(debit).later_of(parent)
        }
        Join::Back => own,
    };
    fair.entity_mut(tasks, entity).vruntime = vruntime;
}

/// Saves the state that is needed to place an entity again.
pub(crate) fn keep_place(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, sleeps: bool) {
    let queue = &fair.queues[q.index()];
    let (least, frame) = (queue.zero_vruntime, queue.frame);
    let leaving = fair.entity_mut(tasks, entity);
    leaving.virtual_deadline = least;
    leaving.frame = sleeps.then_some(frame);
}

/// Returns how long an entity runs before it is preempted: its share of the latency period at each
/// level, but at least the minimum granularity. O(depth).
pub(crate) fn slice(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, entity: EntityRef) -> Duration {
    let tune = &fair.tune;
    let joins = !fair.entity(tasks, entity).is_queued();
    let nr = u64::from(fair.queues[QueueIx::ROOT.index()].tally.runnable) + u64::from(joins);
    let mut slice = if nr > tune.nr_latency { tune.min_granularity * nr } else { tune.latency };
    let (mut at, mut q) = (entity, q);
    // Bounded by the depth.
    loop {
        let queue = &fair.queues[q.index()];
        let weight = fair.entity(tasks, at).load.value();
        let mut total = queue.load.whole();
        if !fair.entity(tasks, at).is_queued() {
            total += weight;
        }
        slice = share_of(slice, weight, total);
        let Some(parent) = queue.parent else { break };
        at = EntityRef::Group(q);
        q = parent;
    }
    slice.max(tune.min_granularity)
}

/// Returns whether the current entity's turn is over.
pub(crate) fn tick(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, current: EntityRef) -> Resched {
    if fair.queues[q.index()].nr_queued <= 1 {
        return Resched::No;
    }
    let ideal = slice(fair, tasks, q, current).min(fair.tune.latency);
    let running = fair.entity(tasks, current);
    let (ran, vruntime) = (running.ran, running.vruntime);
    if ran > ideal {
        fair.queues[q.index()].buddies.clear(current);
        return Resched::Now;
    }
    if ran < fair.tune.min_granularity {
        return Resched::No;
    }
    let first = fair.timeline.least(fair.queues[q.index()].waiting);
    match first {
        Some(first) if vruntime.since(first) > Vlag::from_duration(ideal) => Resched::Now,
        Some(_) | None => Resched::No,
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
    if ahead(fair, tasks, current, woken) != Ahead::Far {
        return Resched::No;
    }
    let keeps_last = is_crowded(fair, q) && fair.tune.last_buddy;
    let queue = &mut fair.queues[q.index()];
    queue.buddies.next = Some(woken);
    if keeps_last && matches!(current, EntityRef::Task(_)) {
        queue.buddies.last = Some(current);
    }
    Resched::Now
}

/// Returns whether so many entities are queued that each has only the minimum granularity
/// (`sched_nr_latency`).
fn is_crowded(fair: &FairRq, q: QueueIx) -> bool {
    u64::from(fair.queues[q.index()].nr_queued) >= fair.tune.nr_latency
}

/// Makes a woken task the next buddy of its queue, and its groups those of theirs, if the queue of
/// the current task is crowded (`NEXT_BUDDY`). O(depth).
pub(crate) fn prefer(fair: &mut FairRq, tasks: &TaskSlab, current: EntityRef, woken: EntityRef) {
    if !is_crowded(fair, fair.entity(tasks, current).queue) {
        return;
    }
    let (mut at, mut q) = (woken, fair.entity(tasks, woken).queue);
    // Bounded by the depth.
    loop {
        let queue = &mut fair.queues[q.index()];
        queue.buddies.next = Some(at);
        let Some(parent) = queue.parent else { return };
        at = EntityRef::Group(q);
        q = parent;
    }
}

/// Yields the current entity once: the next pick passes it over unless that is unfair.
pub(crate) fn yield_current(fair: &mut FairRq, q: QueueIx, current: EntityRef) {
    let queue = &mut fair.queues[q.index()];
    queue.buddies.clear(current);
    queue.buddies.skip = Some(current);
}

/// Returns the least vruntime of a queue, including that of the current entity.
pub(crate) fn least(fair: &FairRq, tasks: &TaskSlab, q: QueueIx) -> Option<Vtime> {
    let queue = &fair.queues[q.index()];
    let waiting = fair.timeline.least(queue.waiting);
    let current = queue.current.map(|current| fair.entity(tasks, current).vruntime);
    match (waiting, current) {
        (Some(waiting), Some(current)) => Some(waiting.earlier_of(current)),
        (one, other) => one.or(other),
    }
}
