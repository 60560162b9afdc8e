//! The turn of an entity: which entity is current on each level, the charge for its run time, and
//! the end of its turn. [`crate::class::fair::run`] decides which task is picked.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `set_next_entity`, `put_prev_entity`, `update_curr`,
//! `hrtick_start_fair`.

use crate::entity::fair::{EntityRef, FairEntity, QueueIx};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::{FairRq, Tunables};
use crate::queue::fair::{cfs, eevdf, slice};
use crate::task::slab::TaskSlab;
use crate::words::group::MAX_DEPTH;
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use zerolag_model::settings::FairAlgorithm;
use zerolag_model::{Duration, Instant, Settings};

/// Returns whether a queue is the root's, or belongs to the current group of its parent. In that
/// case all queues above it are current, too.
pub(crate) fn is_current(fair: &FairRq, q: QueueIx) -> bool {
    fair.queue(q).parent.is_none_or(|parent| fair.queue(parent).current == Some(EntityRef::Group(q)))
}

/// Makes the groups above a queue current, from the top down; skips those that are current already.
pub(crate) fn make_groups_current(fair: &mut FairRq, tasks: &mut TaskSlab, leaf: QueueIx, now: Instant) {
    let mut path = [leaf; MAX_DEPTH];
    let mut depth = 0;
    let mut q = leaf;
    while !is_current(fair, q) {
        path[depth] = q;
        depth += 1;
        q = fair.queue(q).entity.queue;
    }
    for q in path[..depth].iter().rev().copied() {
        make_current(fair, tasks, fair.queue(q).entity.queue, EntityRef::Group(q), now);
    }
}

/// Makes an entity the current one of its queue, unless it is already. The previous current entity,
/// and the current entities below it, go back to their timelines.
pub(crate) fn make_current(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, now: Instant) {
    if fair.queue(q).current == Some(entity) {
        return;
    }
    put_down(fair, tasks, q, now);
    let mut picked = fair.aged(tasks, q, entity, now);
    picked.unwait();
    begin_turn(picked.entity, entity, picked.queue, picked.tune);
}

/// Switches from the task `going` to the task `coming` of the same queue. This is the same as
/// putting the first down and picking the second up, but shares the lookups.
#[inline(always)]
pub(crate) fn take_turns(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, going: Slot, coming: Slot, now: Instant) {
    let FairRq { queues, timeline, tune, .. } = fair;
    let queue = &mut queues[q.index()];
    let [left, picked] = tasks.two(going, coming).map(|task| &mut task.fair);
    if tune.tracks_load && queue.age_with(left, picked, now) && q == QueueIx::ROOT {
        fair.changed.add(Unpublished::AVERAGES);
    }
    queue.take_from_sums(picked.vruntime, picked.load.fine());
    queue.add_to_sums(left.vruntime, left.load.fine());
    debug_assert!(left.node.is_none(), "the current entity does not wait");
    let node = picked.node.take().expect("invariant: an entity that is not current waits");
    let (key, waits) = (left.key(tune.algorithm), EntityRef::Task(going));
    if left.standing == picked.standing {
        timeline.replace(queue.waiting_as(left.standing), node, key, left.vruntime, waits);
        left.node = Some(node);
    } else {
        timeline.remove(queue.waiting_as(picked.standing), node);
        left.node = Some(timeline.insert(queue.waiting_as(left.standing), key, left.vruntime, waits));
    }
    begin_turn(picked, EntityRef::Task(coming), queue, tune);
}

/// Makes an entity current that has been taken off the timeline.
#[inline(always)]
fn begin_turn(picked: &mut FairEntity, which: EntityRef, queue: &mut Queue, tune: &Tunables) {
    picked.ran = Duration::ZERO;
    slice::protect(picked, queue, tune);
    queue.current = Some(which);
    if tune.algorithm == FairAlgorithm::Cfs || tune.pick_buddy {
        queue.buddies.clear(which);
    }
}

pub(crate) fn put_down(fair: &mut FairRq, tasks: &mut TaskSlab, from: QueueIx, now: Instant) {
    let mut at = Some(from);
    while let Some(q) = at {
        let Some(current) = fair.queue(q).current else { return };
        let left = fair.aged(tasks, q, current, now);
        left.queue.current = None;
        left.wait();
        at = match current {
            EntityRef::Task(_) => None,
            EntityRef::Group(owned) => Some(owned),
        };
    }
}

/// Records that an entity's turn is over, if it is and its queue has others.
#[inline(always)]
pub(crate) fn note_end(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, ran: Charged) {
    let is_over = match ran {
        // A protected entity keeps the CPU: no other entity need be compared.
        Charged::GoesOn => false,
        Charged::IsUnprotected => fair.queue(q).nr_queued > 1 && eevdf::is_overdue(fair, tasks, q, entity),
        Charged::IsDone => fair.queue(q).nr_queued > 1,
    };
    if is_over {
        fair.due = Resched::Now;
        if fair.tune.pick_buddy {
            fair.queue_mut(q).buddies.clear(entity);
        }
    }
}

/// The state of the current entity's request after a charge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charged {
    /// The entity still works on its request, or the algorithm checks only at ticks.
    GoesOn,
    /// The entity still works on its request, but a more deserving entity can preempt it.
    IsUnprotected,
    /// The request is served, and the next one has begun.
    IsDone,
}

impl FairEntity {
    /// Charges the entity for `delta` of run time.
    #[inline(always)]
    pub(crate) fn charge(&mut self, algorithm: FairAlgorithm, delta: Duration, base_slice: Duration) -> Charged {
        self.vruntime = self.vruntime.plus(self.load.to_virtual(delta));
        self.ran += delta;
        match algorithm {
            FairAlgorithm::Eevdf if eevdf::charge(self, base_slice) == Resched::Now => Charged::IsDone,
            FairAlgorithm::Eevdf if !self.is_protected() => Charged::IsUnprotected,
            FairAlgorithm::Eevdf | FairAlgorithm::Cfs => Charged::GoesOn,
        }
    }
}

/// Returns whether the turn of the task, or of a group above it, is over.
pub(crate) fn tick_cfs(fair: &mut FairRq, tasks: &mut TaskSlab, slot: Slot, leaf: QueueIx) -> Resched {
    let mut due = Resched::No;
    let mut entity = EntityRef::Task(slot);
    let mut at = Some(leaf);
    while let Some(q) = at {
        due = due.max(cfs::tick(fair, tasks, q, entity));
        entity = EntityRef::Group(q);
        at = fair.queue(q).parent;
    }
    due
}

/// Returns how long a task may run until its own request is served.
pub(crate) fn task_left(fair: &FairRq, tasks: &TaskSlab, slot: Slot) -> Duration {
    let entity = EntityRef::Task(slot);
    request_left(fair, tasks, fair.entity(tasks, entity).queue, entity)
}

/// Returns how long the current entity of a queue may run until its request is served.
fn request_left(fair: &FairRq, tasks: &TaskSlab, q: QueueIx, current: EntityRef) -> Duration {
    let running = fair.entity(tasks, current);
    match fair.tune.algorithm {
        FairAlgorithm::Eevdf => running.load.to_real_ceil(running.virtual_deadline.since(running.vruntime)),
        // The turn is over once the entity has run *longer* than its slice.
        FairAlgorithm::Cfs => {
            let slice = cfs::slice(fair, tasks, q, current).min(fair.tune.latency);
            // An exhausted entity continues if no other is more deserving. The next check is then
            // after the shortest hrtick, not immediately.
            let left = slice.saturating_sub(running.ran);
            if left.is_zero() { Settings::SHORTEST_HRTICK } else { left + Duration::from_nanos(1) }
        }
    }
}

/// Returns the earliest instant at which one of the current entities exhausts its slice, or its
/// queue the quota that it has taken.
pub(crate) fn slice_end(fair: &FairRq, tasks: &TaskSlab, now: Instant) -> Option<Instant> {
    let mut left: Option<Duration> = None;
    let mut at = Some(QueueIx::ROOT);
    while let Some(q) = at {
        let queue = fair.queue(q);
        let current = queue.current?;
        if queue.nr_queued > 1 {
            let here = request_left(fair, tasks, q, current);
            left = Some(left.map_or(here, |left| left.min(here)));
        }
        if let Some(quota) = queue.bandwidth.left() {
            left = Some(left.map_or(quota, |left| left.min(quota)));
        }
        at = match current {
            EntityRef::Task(_) => None,
            EntityRef::Group(owned) => Some(owned),
        };
    }
    left.map(|left| now + left.max(Duration::from_nanos(1)))
}
