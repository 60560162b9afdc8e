//! Shorthands of [`Rq`] for the fair class: an entity by its reference, a queue by its number, and
//! averages aged to the run queue's own clock.

use crate::entity::fair::{EntityRef, FairEntity, QueueIx};
use crate::queue::fair::queue::Queue;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use zerolag_model::Instant;

impl Rq {
    /// Returns the clock of averages.
    #[inline]
    pub(crate) fn averages_clock(&self) -> Instant {
        match &self.fair.asymmetric {
            None => self.clock_task(),
            Some(uneven) => uneven.averages_clock(self.clock_task()),
        }
    }

    pub(crate) fn entity(&self, entity: EntityRef) -> &FairEntity {
        self.fair.entity(&self.tasks, entity)
    }

    pub(crate) fn entity_mut(&mut self, entity: EntityRef) -> &mut FairEntity {
        self.fair.entity_mut(&mut self.tasks, entity)
    }

    /// Returns the queue in which a task counts, that of its group. O(1), or O(log queues) with
    /// `fair_hierarchy = flat`.
    #[inline]
    pub(crate) fn group_queue(&self, slot: Slot) -> QueueIx {
        let task = &self.tasks[slot];
        if self.fair.tune.is_flat { self.fair.queue_of_group(task.group) } else { task.fair.queue }
    }

    pub(crate) fn queue(&self, q: QueueIx) -> &Queue {
        self.fair.queue(q)
    }

    pub(crate) fn queue_mut(&mut self, q: QueueIx) -> &mut Queue {
        self.fair.queue_mut(q)
    }

    /// Updates a queue's averages before its entities change. O(1).
    #[inline]
    pub(crate) fn age_queue(&mut self, q: QueueIx) {
        self.fair.age_queue(q, self.averages_clock());
    }

    /// Updates an entity's averages before its state changes. O(1).
    #[inline(always)]
    pub(crate) fn age_entity(&mut self, q: QueueIx, entity: EntityRef) {
        let now = self.averages_clock();
        self.fair.age_entity(&mut self.tasks, q, entity, now);
    }

    /// Counts the averages of an entity that is about to join a queue there, if they do not count
    /// yet.
    pub(crate) fn attach(&mut self, q: QueueIx, entity: EntityRef) {
        let now = self.averages_clock();
        self.fair.attach(&mut self.tasks, q, entity, now);
    }

    /// Removes the averages of an entity that has left a queue for good.
    pub(crate) fn unattach(&mut self, q: QueueIx, entity: EntityRef) {
        let now = self.averages_clock();
        self.fair.unattach(&mut self.tasks, q, entity, now);
    }
}
