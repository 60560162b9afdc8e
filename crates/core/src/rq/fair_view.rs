//! Shorthands of [`Rq`] for the fair class: an entity by its reference, a queue by its number.

use crate::entity::fair::{Attached, EntityRef, FairEntity, QueueIx};
use crate::entity::pelt::Average;
use crate::queue::fair::averages;
use crate::queue::fair::averages::CpuAverages;
use crate::queue::fair::member::Member;
use crate::queue::fair::queue::Queue;
use crate::rq::run_queue::Rq;
use crate::words::unpublished::Unpublished;
use zerolag_model::Instant;

impl Rq {
    /// Returns the clock of averages.
    #[inline]
    pub(crate) fn averages_clock(&self) -> Instant {
        match &self.fair.asymmetric {
            None => self.clock.task,
            Some(uneven) => uneven.averages_clock(self.clock.task),
        }
    }
}

impl Rq {
    pub(crate) fn entity(&self, entity: EntityRef) -> &FairEntity {
        match entity {
            EntityRef::Task(slot) => &self.tasks[slot].fair,
            EntityRef::Group(q) => &self.fair.queues[q.index()].entity,
        }
    }

    pub(crate) fn entity_mut(&mut self, entity: EntityRef) -> &mut FairEntity {
        match entity {
            EntityRef::Task(slot) => &mut self.tasks[slot].fair,
            EntityRef::Group(q) => &mut self.fair.queues[q.index()].entity,
        }
    }

    pub(crate) fn queue(&self, q: QueueIx) -> &Queue {
        &self.fair.queues[q.index()]
    }

    pub(crate) fn queue_mut(&mut self, q: QueueIx) -> &mut Queue {
        &mut self.fair.queues[q.index()]
    }
}

impl Rq {
    /// Returns where an entity of this queue is attached.
    pub(crate) fn here(&self, q: QueueIx) -> Attached {
        Attached { cpu: self.cpu, queue: q, life: self.queue(q).frame.life }
    }

    /// Brings a queue's averages up to date, before what it holds changes. O(1).
    #[inline]
    pub(crate) fn age_queue(&mut self, q: QueueIx) {
        if self.fair.tune.tracks_load {
            let now = self.averages_clock();
            let has_changed = self.queue_mut(q).age(now);
            if q == QueueIx::ROOT && has_changed {
                self.unpublished.add(Unpublished::AVERAGES);
            }
        }
    }

    /// Brings an entity's averages up to date, before its state changes. O(1).
    #[inline]
    pub(crate) fn age_entity(&mut self, q: QueueIx, entity: EntityRef) {
        if self.fair.tune.tracks_load {
            let now = self.averages_clock();
            self.member(q, entity).age_entity(now);
        }
    }

    /// Brings the averages of a queue and of the group that it is up to date, before what is in it changes; returns the queue.
    #[inline]
    pub(crate) fn aged_level(&mut self, q: QueueIx, now: Instant) -> &mut Queue {
        let parent = self.queue(q).parent;
        let runs = parent.is_some_and(|parent| self.queue(parent).current == Some(EntityRef::Group(q)));
        let queue = &mut self.fair.queues[q.index()];
        if self.fair.tune.tracks_load {
            let has_changed = queue.age(now);
            match parent {
                Some(_) => queue.entity.age(now, queue.tally.runnable, runs),
                None if has_changed => self.unpublished.add(Unpublished::AVERAGES),
                None => {}
            }
        }
        queue
    }

    /// Brings the averages of a queue and of an entity on it up to date; returns both.
    #[inline(always)]
    pub(crate) fn aged(&mut self, q: QueueIx, entity: EntityRef) -> Member<'_> {
        let now = self.averages_clock();
        let mut member = Member::of(&mut self.fair, &mut self.tasks, q, entity);
        if member.tune.tracks_load {
            let has_changed = member.queue.age(now);
            member.age_entity(now);
            if q == QueueIx::ROOT && has_changed {
                self.unpublished.add(Unpublished::AVERAGES);
            }
        }
        member
    }

    /// An entity is about to join a queue: its averages are counted there, if they are not yet.
    pub(crate) fn attach(&mut self, q: QueueIx, entity: EntityRef) {
        if !self.fair.tune.tracks_load {
            return;
        }
        let here = self.here(q);
        self.age_queue(q);
        if self.entity(entity).attached == Some(here) {
            self.age_entity(q, entity);
            return;
        }
        let joining = self.entity_mut(entity);
        joining.attached = Some(here);
        let (mut average, weight) = (joining.average, joining.load.value());
        self.queue_mut(q).average.attach(&mut average, weight);
        self.entity_mut(entity).average = average;
        self.unpublished.add(Unpublished::AVERAGES);
        if let EntityRef::Group(owned) = entity {
            self.age_queue(owned);
            self.propagate(owned, 0);
        }
        self.propagate(q, average.load_sum().cast_signed());
    }

    /// Lets the entities of the groups above follow a change in a queue. O(depth).
    fn propagate(&mut self, from: QueueIx, change: i64) {
        let (mut q, mut change) = (from, change);
        while let Some(parent) = self.queue(q).parent {
            if self.queue(q).entity.attached != Some(self.here(parent)) {
                return; // It will be, and follows then.
            }
            self.age_queue(parent);
            self.age_entity(parent, EntityRef::Group(q));
            let queue = self.queue(q);
            let (mut entity, own, own_load) = (queue.entity.average, queue.average, queue.load);
            let weight = queue.entity.load.value();
            change = self.queue_mut(parent).average.propagate(&mut entity, &own, own_load, weight, change);
            self.queue_mut(q).entity.average = entity;
            self.unpublished.add(Unpublished::AVERAGES);
            q = parent;
        }
    }

    /// An entity has left a queue for good: its averages go with it.
    pub(crate) fn unattach(&mut self, q: QueueIx, entity: EntityRef) {
        let here = self.here(q);
        let leaving = self.entity_mut(entity);
        if leaving.attached != Some(here) {
            return;
        }
        leaving.attached = None;
        let (average, weight) = (leaving.average, leaving.load.value());
        self.queue_mut(q).average.detach(&average, weight);
        self.unpublished.add(Unpublished::AVERAGES);
        self.propagate(q, -average.load_sum().cast_signed());
    }

    /// An entity's weight has changed.
    pub(crate) fn reweigh_average(&mut self, q: QueueIx, entity: EntityRef, before: u64) {
        let is_here = self.entity(entity).attached == Some(self.here(q));
        if !self.fair.tune.tracks_load || !is_here {
            return;
        }
        let changed = self.entity(entity);
        let (mut average, after) = (changed.average, changed.load.value());
        self.queue_mut(q).average.reweigh(&mut average, before, after);
        self.entity_mut(entity).average = average;
        self.unpublished.add(Unpublished::AVERAGES);
    }

    /// Returns what others may know of this CPU's averages.
    pub(crate) fn averages(&self) -> CpuAverages {
        let root = self.queue(QueueIx::ROOT);
        let Average { load, util, runnable, last, .. } = root.average;
        CpuAverages { load, util, runnable, period: if root.nr_queued == 0 { averages::period_of(last) } else { 0 } }
    }
}

impl Rq {
    /// Looks up an entity of a queue.
    #[inline(always)]
    pub(crate) fn member(&mut self, q: QueueIx, which: EntityRef) -> Member<'_> {
        Member::of(&mut self.fair, &mut self.tasks, q, which)
    }
}
