//! Slices of a queue: the shortest slice, the slice of a group, and how long a picked entity is
//! protected.
//!
//! A search over all entities for the shortest slice would be O(n). But most entities use the base
//! slice, so a queue lists only the other lengths, sorted, with a count for each. The shortest is
//! then the head of the list, and a queue without custom slices has no work to do.
//!
//! * A group's slice is the shortest slice in it (`group_min_slice`, 6.12): a task with a short
//!   slice is served as early inside a group as outside.
//! * With `slice_protection = min_slice` (6.17) a picked entity is protected for the shortest slice
//!   on its queue instead of its own. A task with a short slice then does not wait for the whole
//!   request of a task with a long one.
//! * With `zero_lag` (7.3) a shorter slice on the queue ends the protection where the lag of the
//!   picked entity is zero.
//! * Without `RUN_TO_PARITY` the protection lasts for the unscaled base slice.
//!
//! Work: O(different slices on the queue) when an entity with a custom slice joins or leaves;
//! otherwise O(1) per level.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `cfs_rq_min_slice`, `enqueue_task_fair`,
//! `dequeue_entities` (commit aef6987d8954); v6.17, `set_protect_slice`, `update_protect_slice`
//! (commits 052c3d87c82e, 9de74a9850b9, 3a0baa8e6c57, 0b9ca2dcabc3); v7.3, `ineligible_vruntime`.

use crate::entity::fair::{Claim, EntityRef, FairEntity, QueueIx};
use crate::entity::vtime::{Vlag, Vtime};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::FairRq;
use crate::queue::fair::rq::Tunables;
use crate::task::slab::TaskSlab;
use zerolag_model::Duration;
use zerolag_model::settings::SliceProtection;

/// Records the slice of an entity that has joined a queue.
#[inline]
pub(crate) fn add(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef) {
    let joining = fair.entity(tasks, entity);
    if joining.has_custom_slice {
        let slice = joining.slice;
        fair.queue_mut(q).own_slices.add(slice);
    }
}

/// Removes the slice of an entity that leaves a queue.
#[inline]
pub(crate) fn remove(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef) {
    let leaving = fair.entity(tasks, entity);
    if leaving.has_custom_slice {
        let slice = leaving.slice;
        fair.queue_mut(q).own_slices.remove(slice);
    }
}

impl Queue {
    /// Returns the shortest slice on this queue; the base slice if nothing is queued.
    fn shortest_slice(&self, tune: &Tunables) -> Duration {
        let (own, base) = (&self.own_slices, tune.base_slice);
        match own.shortest() {
            None => base,
            Some(shortest) if own.entities < self.nr_queued => shortest.min(base),
            Some(shortest) => shortest,
        }
    }

    /// Returns the longest slice on this queue, which is not empty.
    pub(crate) fn longest_slice(&self, tune: &Tunables) -> Duration {
        let (own, base) = (&self.own_slices, tune.base_slice);
        match own.longest() {
            Some(longest) if own.entities < self.nr_queued => longest.max(base),
            Some(longest) => longest,
            None => base,
        }
    }
}

/// Updates the slice of a group's entity to the shortest slice in its queue. The entity can be
/// queued at its parent.
#[inline]
pub(crate) fn follow(fair: &mut FairRq, tasks: &mut TaskSlab, owned: QueueIx, parent: QueueIx) {
    let queue = fair.queue(owned);
    if fair.tune.group_min_slice && (queue.own_slices.entities > 0 || queue.entity.has_custom_slice) {
        follow_shortest(fair, tasks, owned, parent);
    }
}

fn follow_shortest(fair: &mut FairRq, tasks: &mut TaskSlab, owned: QueueIx, parent: QueueIx) {
    let slice = fair.queue(owned).shortest_slice(&fair.tune);
    if slice == fair.queue(owned).entity.slice && fair.queue(owned).entity.has_custom_slice {
        return;
    }
    let is_queued = fair.queue(owned).entity.is_queued();
    if is_queued {
        remove(fair, tasks, parent, EntityRef::Group(owned));
    }
    let base = fair.tune.base_slice;
    let entity = &mut fair.queue_mut(owned).entity;
    (entity.slice, entity.has_custom_slice) = (slice, slice != base);
    if is_queued {
        add(fair, tasks, parent, EntityRef::Group(owned));
    }
}

/// Protects an entity that was picked.
#[inline]
pub(crate) fn protect(picked: &mut FairEntity, queue: &Queue, tune: &Tunables) {
    let mut until = picked.virtual_deadline;
    if tune.protection != SliceProtection::Request {
        let most = if tune.run_to_parity { queue.shortest_slice(tune) } else { tune.quantum };
        if most < picked.slice {
            until = until.earlier_of(match tune.protection {
                // The average of the others: where the picked entity's own lag is zero.
                SliceProtection::ZeroLag if tune.preempt_short => queue.average(None).plus(Vlag::from_nanos(1)),
                SliceProtection::ZeroLag | SliceProtection::MinSlice | SliceProtection::Request => {
                    picked.vruntime.plus(picked.load.to_virtual(most))
                }
            });
        }
    }
    picked.claim = Claim::Protected(until);
}

/// Limits the current entity's protection to the slice of a shorter entity that has begun to wait,
/// from `from` on.
pub(crate) fn shorten_protection(fair: &mut FairRq, tasks: &mut TaskSlab, q: QueueIx, current: EntityRef, from: Vtime) {
    let slice = fair.queue(q).shortest_slice(&fair.tune);
    let running = fair.entity_mut(tasks, current);
    let until = from.plus(running.load.to_virtual(slice));
    if let Claim::Protected(before) = &mut running.claim {
        *before = before.earlier_of(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fair::own_slices::OwnSlices;

    #[test]
    fn the_shortest_is_known_while_others_come_and_go() {
        let ms = Duration::from_millis;
        let mut slices = OwnSlices::default();
        for length in [5, 2, 9, 2] {
            slices.add(ms(length));
        }
        assert_eq!((slices.shortest(), slices.entities), (Some(ms(2)), 4));
        slices.remove(ms(2));
        assert_eq!(slices.shortest(), Some(ms(2)));
        slices.remove(ms(2));
        slices.remove(ms(9));
        assert_eq!((slices.shortest(), slices.entities), (Some(ms(5)), 1));
    }
}
