//! Load tracking: which averages ([`Average`]) change when, what a CPU publishes of them and how others read it.
//!
//! Every fair entity and every queue has averages; an entity's are also counted in its queue's, it is *attached*. It stays
//! so while it sleeps: its part decays there (blocked load). A task that wakes elsewhere leaves a note for the CPU it
//! slept on, which takes that part out when it looks next ([`Shared::leave_note`](crate::shared::Shared)).
//!
//! What comes to a group's queue or leaves it is felt in all queues above at once: the group's entity takes its queue's util and runnable
//! average over, and as much load as that is worth at its weight (`propagate_entity_load_avg`). In between a group's entity is averaged
//! as a task is.
//!
//! Averages are brought up to date where a signal changes: an entity joins or leaves, begins or ends to run, changes its
//! weight; nowhere else, but for the root queue at ticks and when its CPU balances. A CPU on which nothing happens does nothing; who reads
//! its published load lets it decay himself.
//!
//! With `load_tracking = weights` (kernels before 3.8) the load of a CPU is the sum of the weights queued there and none
//! of this is done; likewise on one CPU, where nobody asks.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `update_load_avg`, `attach_entity_load_avg`, `remove_entity_load_avg`,
//! `task_h_load`, `post_init_entity_util_avg`. differs: a note is left for tasks of the root group only, so a
//! task that leaves a group while it sleeps decays there. The clock is task time, on weak CPUs slowed down ([`super::misfit`]).

use super::entity::{EntityRef, FairEntity};
use super::member::Member;
use super::pelt::{self, Average, Removed, Signals};
use super::queue::{Queue, QueueIx};
use crate::rq::{Cx, Rq, Unpublished};
use crate::slab::Slot;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration, Instant};

/// Where an entity's averages are counted: a life of a queue on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attached {
    cpu: CpuId,
    queue: QueueIx,
    life: u32,
}

/// What a CPU publishes of its averages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CpuAverages {
    /// Load, util and runnable average of the root queue.
    pub(crate) load: u64,
    pub(crate) util: u64,
    pub(crate) runnable: u64,
    /// Since which period of 2^20 ns nothing is queued and it decays; 0 while something is.
    pub(crate) period: u32,
}

impl CpuAverages {
    /// Returns the two words that are published.
    pub(crate) fn pack(self) -> (u64, u64) {
        let narrow = |value: u64| value.min(u64::from(u32::MAX));
        (narrow(self.load) | u64::from(self.period) << 32, narrow(self.util) | narrow(self.runnable) << 32)
    }

    pub(crate) fn unpack(load: u64, rest: u64) -> Self {
        let low = |word: u64| word & 0xffff_ffff;
        Self { load: low(load), util: low(rest), runnable: rest >> 32, period: (load >> 32) as u32 }
    }

    /// Returns what is left of it now.
    fn decayed(self, now: Instant) -> Self {
        if self.period == 0 {
            return self;
        }
        let periods = u64::from(period_of(now).wrapping_sub(self.period));
        // Clocks of CPUs differ by the time they spend in interrupts.
        if periods > u64::from(u32::MAX / 2) {
            return self;
        }
        let [load, util, runnable] = [self.load, self.util, self.runnable].map(|value| pelt::decay(value, periods));
        Self { load, util, runnable, period: self.period }
    }
}

fn period_of(now: Instant) -> u32 {
    (now.as_nanos() >> 20) as u32
}

impl Queue {
    /// Brings its averages up to date; returns whether they are others now.
    #[inline(always)]
    fn age(&mut self, now: Instant) -> bool {
        let signals = Signals { load: self.load, runnable: self.tally.runnable, runs: self.current.is_some() };
        self.average.age(now, signals, 1)
    }

    /// As [`age`](Self::age), and those of two tasks on it: of the current one and of one that waits.
    #[inline(always)]
    pub(super) fn age_with(&mut self, current: &mut FairEntity, waiting: &mut FairEntity, now: Instant) -> bool {
        let has_changed = self.age(now);
        current.age(now, current.runnable_task(), true);
        waiting.age(now, waiting.runnable_task(), false);
        has_changed
    }
}

impl FairEntity {
    /// Brings its averages up to date. `runnable` is how many tasks want to run by it, `runs` whether it is current.
    #[inline(always)]
    fn age(&mut self, now: Instant, runnable: u32, runs: bool) {
        let signals = Signals { load: u64::from(self.is_queued()), runnable, runs };
        self.average.age(now, signals, self.load.value());
    }
}

impl Member<'_> {
    /// Brings the entity's averages up to date.
    #[inline(always)]
    fn age_entity(&mut self, now: Instant) {
        let runs = self.is_current();
        self.entity.age(now, self.runnable, runs);
    }
}

impl Rq {
    /// Returns where an entity of this queue is attached.
    fn here(&self, q: QueueIx) -> Attached {
        Attached { cpu: self.cpu, queue: q, life: self.queue(q).frame.life }
    }

    /// Brings a queue's averages up to date, before what it holds changes. O(1).
    #[inline]
    pub(super) fn age_queue(&mut self, q: QueueIx) {
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
    pub(super) fn age_entity(&mut self, q: QueueIx, entity: EntityRef) {
        if self.fair.tune.tracks_load {
            let now = self.averages_clock();
            self.member(q, entity).age_entity(now);
        }
    }

    /// Brings the averages of a queue and of the group that it is up to date, before what is in it changes; returns the queue.
    #[inline]
    pub(super) fn aged_level(&mut self, q: QueueIx, now: Instant) -> &mut Queue {
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
    pub(super) fn aged(&mut self, q: QueueIx, entity: EntityRef) -> Member<'_> {
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
    pub(super) fn attach(&mut self, q: QueueIx, entity: EntityRef) {
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
    pub(super) fn unattach(&mut self, q: QueueIx, entity: EntityRef) {
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
    pub(super) fn reweigh_average(&mut self, q: QueueIx, entity: EntityRef, before: u64) {
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
        CpuAverages { load, util, runnable, period: if root.nr_queued == 0 { period_of(last) } else { 0 } }
    }
}

/// A task is about to join a queue here. It may have slept on another CPU, or in another group.
pub(super) fn arrive<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, slot: Slot, slept: Duration) {
    if !rq.fair.tune.tracks_load {
        return;
    }
    take_notes(rq, cx);
    if rq.fair.asymmetric.is_some() && !slept.is_zero() {
        let task = &mut rq.tasks[slot].fair;
        task.estimate = task.estimate.after(task.average.util, task.average.runnable);
    }
    let here = rq.here(q);
    let task = &mut rq.tasks[slot].fair;
    match task.attached {
        Some(there) if there != here => {
            task.attached = None;
            // While it slept it was aged nowhere.
            let last = task.average.last;
            task.average.age(last + slept, Signals::default(), task.load.value());
            if there.queue == QueueIx::ROOT {
                let average = &task.average;
                let note = Removed { load: average.load, runnable: average.runnable, util: average.util };
                cx.shared.leave_note(there.cpu, note);
            }
        }
        Some(_) => {}
        None if task.average == Average::default() => start(rq, slot),
        None => {}
    }
    rq.attach(q, EntityRef::Task(slot));
}

/// A new task: its load is its weight, its util what the others here have per weight, at most half of what is left.
fn start(rq: &mut Rq, slot: Slot) {
    let weight = rq.tasks[slot].fair.load.value();
    let root = &rq.queue(QueueIx::ROOT).average;
    let most = rq.fair.full_capacity().saturating_sub(root.util) / 2;
    let util = if root.util == 0 { most } else { (root.util * weight / (root.load + 1)).min(most) };
    let mut average = Average::new_task(weight);
    (average.util, average.runnable) = (util, util);
    rq.tasks[slot].fair.average = average;
}

/// Takes out what left while it slept here.
pub(super) fn take_notes<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let cpu = rq.cpu;
    let removed = cx.view().take_notes(cpu);
    rq.age_queue(QueueIx::ROOT);
    if removed != Removed::default() {
        rq.queue_mut(QueueIx::ROOT).average.remove(removed);
        rq.unpublished.add(Unpublished::AVERAGES);
    }
}

/// At ticks with a fair task and when the CPU balances the root queue's averages follow. O(1).
pub(super) fn follow<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.tune.tracks_load {
        take_notes(rq, cx);
    }
}

/// Returns the averages of a CPU: what it published, decayed since if nothing is queued there.
pub(crate) fn of_cpu<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> CpuAverages {
    let now = cx.now.task;
    cx.view().averages(cpu).decayed(now)
}
