//! The turn of an entity: which one is current on each level, what running costs it, when its turn
//! is over. Which task is picked is decided in [`crate::class::fair::run`].
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

/// Returns whether a queue is the root's or that of the current group of its parent; all above are
/// then, too.
pub(crate) fn is_current(fair: &FairRq, q: QueueIx) -> bool {
    fair.queue(q).parent.is_none_or(|parent| fair.queue(parent).current == Some(EntityRef::Group(q)))
}

/// Makes the groups of a queue current from the top down, those that are not.
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

/// Makes an entity the current one of its queue, unless it is already; what was current with all
/// below waits again.
pub(crate) fn make_current(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, now: Instant) {
    if fair.queue(q).current == Some(entity) {
        return;
    }
    put_down(fair, tasks, q, now);
    let mut picked = fair.aged(tasks, q, entity, now);
    picked.unwait();
    begin_turn(picked.entity, entity, picked.queue, picked.tune);
}

/// One task goes on after another of its queue: as if that one were put down and it picked up, with
/// what both need looked up once.
#[inline(always)]
pub(crate) fn take_turns(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, going: Slot, coming: Slot, now: Instant) {
    let FairRq { queues, timeline, tune, .. } = fair;
    let queue = &mut queues[q.index()];
    let [left, picked] = tasks.two(going, coming).map(|task| &mut task.fair);
    if tune.tracks_load && queue.age_with(left, picked, now) && q == QueueIx::ROOT {
        fair.changed.add(Unpublished::AVERAGES);
    }
    queue.take_from_sums(picked.vruntime, picked.load.value());
    queue.add_to_sums(left.vruntime, left.load.value());
    debug_assert!(left.node.is_none(), "the current entity does not wait");
    let node = picked.node.take().expect("invariant: whoever is not current waits");
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

/// An entity that has been taken off the timeline is current from now on.
#[inline(always)]
fn begin_turn(picked: &mut FairEntity, which: EntityRef, queue: &mut Queue, tune: &Tunables) {
    picked.ran = Duration::ZERO;
    slice::protect(picked, queue, tune);
    queue.current = Some(which);
    if tune.algorithm == FairAlgorithm::Cfs {
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

/// Notes that an entity's turn is over if it is, and there are others on its queue.
#[inline(always)]
pub(crate) fn note_end(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, ran: Charged) {
    let is_over = match ran {
        // While it is protected nobody else need be looked at.
        Charged::GoesOn => false,
        Charged::IsUnprotected => fair.queue(q).nr_queued > 1 && eevdf::is_overdue(fair, tasks, q, entity),
        Charged::IsDone => fair.queue(q).nr_queued > 1,
    };
    if is_over {
        fair.due = Resched::Now;
    }
}

/// What an entity that has run is to others of its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charged {
    /// It works on its request, or the algorithm asks at ticks.
    GoesOn,
    /// Likewise, and it gives way to whoever is more deserving.
    IsUnprotected,
    /// Its request is served, and it has the next.
    IsDone,
}

impl FairEntity {
    /// It has run for `delta`.
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

/// Returns whether the turn of the task or of a group that it is in is over.
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

/// Returns when the first of the current entities will have had its slice, or what it took of its
/// group's quota.
pub(crate) fn slice_end(fair: &FairRq, tasks: &TaskSlab, now: Instant) -> Option<Instant> {
    let mut left: Option<Duration> = None;
    let mut at = Some(QueueIx::ROOT);
    while let Some(q) = at {
        let queue = fair.queue(q);
        let current = queue.current?;
        let running = fair.entity(tasks, current);
        if queue.nr_queued > 1 {
            let here = match fair.tune.algorithm {
                FairAlgorithm::Eevdf => running.load.to_real_ceil(running.virtual_deadline.since(running.vruntime)),
                // Its turn is over once it has run *longer* than its slice.
                FairAlgorithm::Cfs => {
                    let slice = cfs::slice(fair, tasks, q, current).min(fair.tune.latency);
                    // If it is over and nobody is more deserving, it goes on: that is looked at
                    // again, not at once.
                    let left = slice.saturating_sub(running.ran);
                    if left.is_zero() { Settings::SHORTEST_HRTICK } else { left + Duration::from_nanos(1) }
                }
            };
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
