//! The two entities that are compared when a fair task wakes on a CPU that runs another.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `find_matching_se`.

use crate::entity::fair::EntityRef;
use crate::queue::fair::rq::FairRq;
use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;

/// Returns the ancestors of two tasks (or the tasks themselves) that are on the same queue.
/// O(depth). Linux `find_matching_se`.
pub(crate) fn siblings(fair: &FairRq, tasks: &TaskSlab, one: Slot, other: Slot) -> (EntityRef, EntityRef) {
    let depth = |slot: Slot| {
        let mut depth = 0;
        let mut q = tasks[slot].fair.queue;
        while let Some(parent) = fair.queue(q).parent {
            depth += 1;
            q = parent;
        }
        depth
    };
    let up = |entity: EntityRef| EntityRef::Group(fair.entity(tasks, entity).queue);
    if tasks[one].fair.queue == tasks[other].fair.queue {
        return (EntityRef::Task(one), EntityRef::Task(other)); // As nearly always.
    }
    let (mut one_depth, mut other_depth) = (depth(one), depth(other));
    let (mut one, mut other) = (EntityRef::Task(one), EntityRef::Task(other));
    while one_depth > other_depth {
        one = up(one);
        one_depth -= 1;
    }
    while other_depth > one_depth {
        other = up(other);
        other_depth -= 1;
    }
    while fair.entity(tasks, one).queue != fair.entity(tasks, other).queue {
        one = up(one);
        other = up(other);
    }
    (one, other)
}
