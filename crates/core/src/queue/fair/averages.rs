//! The averages of a queue and of its entities, and the form in which a CPU publishes them.
//! [`crate::class::fair::load`] has the rules.

use crate::entity::fair::{Attached, EntityRef, FairEntity, QueueIx, own_weight};
use crate::entity::pelt;
use crate::entity::pelt::{Average, Signals};
use crate::queue::fair::member::Member;
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::FairRq;
use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;
use crate::words::unpublished::Unpublished;
use zerolag_model::Instant;

/// The averages that a CPU publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CpuAverages {
    /// The load, util and runnable averages of the root queue.
    pub(crate) load: u64,
    pub(crate) util: u64,
    pub(crate) runnable: u64,
    /// The period of 2^20 ns since which nothing is queued and the averages decay; 0 while
    /// something is queued.
    pub(crate) period: u32,
}

impl CpuAverages {
    /// Returns the two published words.
    pub(crate) fn pack(self) -> (u64, u64) {
        let narrow = |value: u64| value.min(u64::from(u32::MAX));
        (narrow(self.load) | u64::from(self.period) << 32, narrow(self.util) | narrow(self.runnable) << 32)
    }

    pub(crate) fn unpack(load: u64, rest: u64) -> Self {
        let low = |word: u64| word & 0xffff_ffff;
        Self { load: low(load), util: low(rest), runnable: rest >> 32, period: (load >> 32) as u32 }
    }

    /// Returns the averages after their decay until `now`.
    pub(crate) fn decayed(self, now: Instant) -> Self {
        if self.period == 0 {
            return self;
        }
        let periods = u64::from(period_of(now).wrapping_sub(self.period));
        // The clocks of CPUs differ by the time that each spends in interrupts, so `now` can be
        // earlier.
        if periods > u64::from(u32::MAX / 2) {
            return self;
        }
        let [load, util, runnable] = [self.load, self.util, self.runnable].map(|value| pelt::decay(value, periods));
        Self { load, util, runnable, period: self.period }
    }
}

pub(crate) fn period_of(now: Instant) -> u32 {
    (now.as_nanos() >> 20) as u32
}

impl Queue {
    /// Brings the averages of the queue up to date. Returns whether they have changed.
    #[inline(always)]
    pub(crate) fn age(&mut self, now: Instant) -> bool {
        let (load, runnable, runs) = (self.load, self.tally.runnable, self.current.is_some());
        self.average.age(now, || Signals { load: load.whole(), runnable, runs }, 1)
    }

    /// Brings the averages of the queue up to date as [`age`](Self::age) does, and those of its
    /// current and of one waiting task.
    #[inline(always)]
    pub(crate) fn age_with(&mut self, current: &mut FairEntity, waiting: &mut FairEntity, now: Instant) -> bool {
        let has_changed = self.age(now);
        current.age(now, current.runnable_task(), true);
        waiting.age(now, waiting.runnable_task(), false);
        has_changed
    }
}

impl FairEntity {
    /// Brings the averages of the entity up to date. `runnable` is the number of runnable tasks
    /// that it represents; `runs` says whether it is current.
    #[inline(always)]
    pub(crate) fn age(&mut self, now: Instant, runnable: u32, runs: bool) {
        let is_queued = self.is_queued();
        self.average.age(now, || Signals { load: u64::from(is_queued), runnable, runs }, self.load.value());
    }
}

impl Member<'_> {
    /// Brings the entity's averages up to date.
    #[inline(always)]
    pub(crate) fn age_entity(&mut self, now: Instant) {
        let runs = self.is_current();
        self.entity.age(now, self.runnable, runs);
    }
}

impl FairRq {
    /// Returns the place where the averages of this queue's entities are attached.
    pub(crate) fn here(&self, q: QueueIx) -> Attached {
        Attached { cpu: self.cpu, queue: q, life: self.queue(q).frame.life }
    }

    /// Brings a queue's averages up to date; call it before its entities change. O(1).
    #[inline]
    pub(crate) fn age_queue(&mut self, q: QueueIx, now: Instant) {
        if self.tune.tracks_load {
            let has_changed = self.queue_mut(q).age(now);
            if q == QueueIx::ROOT && has_changed {
                self.changed.add(Unpublished::AVERAGES);
            }
        }
    }

    /// Brings an entity's averages up to date; call it before its state changes. O(1).
    #[inline]
    pub(crate) fn age_entity(&mut self, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, now: Instant) {
        if self.tune.tracks_load {
            self.member(tasks, q, entity).age_entity(now);
        }
    }

    /// Brings the averages of a queue and of its group's entity up to date, and returns the queue.
    /// Call it before the queue's entities change.
    #[inline]
    pub(crate) fn aged_level(&mut self, q: QueueIx, now: Instant) -> &mut Queue {
        let parent = self.queue(q).parent;
        let runs = parent.is_some_and(|parent| self.queue(parent).current == Some(EntityRef::Group(q)));
        let queue = &mut self.queues[q.index()];
        if self.tune.tracks_load {
            let has_changed = queue.age(now);
            match parent {
                Some(_) => queue.entity.age(now, queue.tally.runnable, runs),
                None if has_changed => self.changed.add(Unpublished::AVERAGES),
                None => {}
            }
        }
        queue
    }

    /// Brings the averages of a queue and of an entity on it up to date; returns both.
    #[inline(always)]
    pub(crate) fn aged<'a>(
        &'a mut self,
        tasks: &'a mut TaskSlab,
        q: QueueIx,
        entity: EntityRef,
        now: Instant,
    ) -> Member<'a> {
        let mut member = self.member(tasks, q, entity);
        if member.tune.tracks_load {
            let has_changed = member.queue.age(now);
            member.age_entity(now);
            if q == QueueIx::ROOT && has_changed {
                member.changed.add(Unpublished::AVERAGES);
            }
        }
        member
    }

    /// Attaches the averages of an entity that is about to join a queue, if they are not attached
    /// there.
    pub(crate) fn attach(&mut self, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, now: Instant) {
        if !self.tune.tracks_load {
            return;
        }
        let here = self.here(q);
        self.age_queue(q, now);
        if self.entity(tasks, entity).attached == Some(here) {
            self.age_entity(tasks, q, entity, now);
            return;
        }
        let joining = self.entity_mut(tasks, entity);
        joining.attached = Some(here);
        let (mut average, weight) = (joining.average, joining.load.value());
        self.queue_mut(q).average.attach(&mut average, weight);
        self.entity_mut(tasks, entity).average = average;
        self.changed.add(Unpublished::AVERAGES);
        if let EntityRef::Group(owned) = entity {
            self.age_queue(owned, now);
            self.propagate(tasks, owned, 0, now);
        }
        self.propagate(tasks, q, average.load_sum().cast_signed(), now);
        if let EntityRef::Task(slot) = entity
            && self.tune.is_flat
        {
            self.count_in_group(tasks, slot, true, now);
        }
    }

    /// Attaches the averages of a task on the root's queue to the queue of its group too, or
    /// detaches them from there. They count there with the task's own weight, for the load and the
    /// runnable tasks of the group.
    #[cold]
    fn count_in_group(&mut self, tasks: &mut TaskSlab, slot: Slot, joins: bool, now: Instant) {
        let task = &tasks[slot];
        let (home, own) = (self.queue_of_group(task.group), u64::from(own_weight(task.attr).value()));
        if home == QueueIx::ROOT {
            return;
        }
        let mut average = task.fair.average;
        average.load = average.load * own / task.fair.load.value();
        self.age_queue(home, now);
        let queue = &mut self.queue_mut(home).average;
        let change = if joins {
            queue.attach(&mut average, own);
            average.load_sum().cast_signed()
        } else {
            queue.detach(&average, own);
            -average.load_sum().cast_signed()
        };
        self.propagate(tasks, home, change, now);
    }

    /// Propagates a change in a queue to the entities of the groups above. O(depth).
    fn propagate(&mut self, tasks: &mut TaskSlab, from: QueueIx, change: i64, now: Instant) {
        let (mut q, mut change) = (from, change);
        while let Some(parent) = self.queue(q).parent {
            if self.queue(q).entity.attached != Some(self.here(parent)) {
                return; // The change is propagated when that entity is attached.
            }
            self.age_queue(parent, now);
            self.age_entity(tasks, parent, EntityRef::Group(q), now);
            let queue = self.queue(q);
            let (mut entity, own, own_load) = (queue.entity.average, queue.average, queue.load.whole());
            let weight = queue.entity.load.value();
            change = self.queue_mut(parent).average.propagate(&mut entity, &own, own_load, weight, change);
            self.queue_mut(q).entity.average = entity;
            self.changed.add(Unpublished::AVERAGES);
            q = parent;
        }
    }

    /// Detaches the averages of an entity that has left a queue for good.
    pub(crate) fn unattach(&mut self, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, now: Instant) {
        let here = self.here(q);
        let leaving = self.entity_mut(tasks, entity);
        if leaving.attached != Some(here) {
            return;
        }
        leaving.attached = None;
        let (average, weight) = (leaving.average, leaving.load.value());
        self.queue_mut(q).average.detach(&average, weight);
        self.changed.add(Unpublished::AVERAGES);
        self.propagate(tasks, q, -average.load_sum().cast_signed(), now);
        if let EntityRef::Task(slot) = entity
            && self.tune.is_flat
        {
            self.count_in_group(tasks, slot, false, now);
        }
    }

    /// Updates the averages of an entity after a change of its weight.
    pub(crate) fn reweigh_average(&mut self, tasks: &mut TaskSlab, q: QueueIx, entity: EntityRef, before: u64) {
        let is_here = self.entity(tasks, entity).attached == Some(self.here(q));
        if !self.tune.tracks_load || !is_here {
            return;
        }
        let changed = self.entity(tasks, entity);
        let (mut average, after) = (changed.average, changed.load.value());
        self.queue_mut(q).average.reweigh(&mut average, before, after);
        self.entity_mut(tasks, entity).average = average;
        self.changed.add(Unpublished::AVERAGES);
    }

    /// Returns the load of a task as its part of the root queue's, from averages that are not
    /// brought up to date, for the choice of a CPU. O(depth). Linux `task_h_load`.
    #[inline(always)]
    pub(crate) fn part_of_root(&self, task: &FairEntity) -> u64 {
        if !self.tune.tracks_load {
            return task.load.value();
        }
        let (mut load, mut q) = (task.average.load, task.queue);
        if q == QueueIx::ROOT || !self.is_attached(task) {
            return load; // A task that moves to another group can be off any queue.
        }
        while let Some(parent) = self.queue(q).parent {
            let queue = self.queue(q);
            load = load * queue.entity.average.load / (queue.average.load + 1);
            q = parent;
        }
        load
    }

    /// Returns whether the averages of a task are attached to its queue here.
    fn is_attached(&self, task: &FairEntity) -> bool {
        let here = self.queues.get(task.queue.index()).map(|queue| queue.frame.life);
        task.attached.is_some_and(|at| at.cpu == self.cpu && at.queue == task.queue && here == Some(at.life))
    }

    /// Returns the averages that this CPU publishes.
    pub(crate) fn averages(&self) -> CpuAverages {
        let root = self.queue(QueueIx::ROOT);
        let Average { load, util, runnable, last, .. } = root.average;
        // Zero does not decay; a period would make it look changed at each tick of a task that runs
        // on in the kernel beside an empty queue.
        let decays = root.nr_queued == 0 && load | util | runnable != 0;
        CpuAverages { load, util, runnable, period: if decays { period_of(last) } else { 0 } }
    }
}
