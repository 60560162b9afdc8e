//! The invariants of a CPU's fair queues, recomputed the slow and obvious way. For tests and
//! debugging hosts.

use crate::class::fair::capacity;
use crate::entity::fair::{EntityRef, FairState, QueueIx, Standing, own_weight};
use crate::entity::weight::scaled_up;
use crate::queue::fair::tally::Tally;
use crate::queue::fair::{eevdf, turn};
use crate::rq::inspect::Inspect;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use zerolag_model::ClassId;
use zerolag_model::settings::{FairAlgorithm, Throttle};

impl Inspect<'_> {
    /// Checks the fair queues: every sum and count equals what the entities say, every queued task
    /// is reachable from the root or a throttled queue, an entity is eligible. O(n log n).
    ///
    /// # Panics
    /// If something does not hold; the message says what.
    pub fn check_fair(self) {
        self.rq.check_fair();
    }
}

impl Rq {
    fn check_fair(&self) {
        let mut tasks = 0;
        let mut pending: Vec<QueueIx> = alloc::vec![QueueIx::ROOT];
        pending.extend(self.throttled_queues().filter(|q| !self.queue(*q).entity.is_queued()));
        while let Some(q) = pending.pop() {
            let entities = self.check_queue(q);
            for entity in entities {
                match entity {
                    EntityRef::Group(owned) => {
                        assert_eq!(self.queue(owned).parent, Some(q), "parent of a queue");
                        pending.push(owned);
                    }
                    EntityRef::Task(slot) => {
                        let is_home = self.fair.tune.is_flat || self.tasks[slot].group == self.queue(q).group;
                        assert!(is_home, "a task is queued in its group");
                        tasks += 1;
                    }
                }
            }
        }
        if self.fair.tune.is_flat {
            for (_, q) in self.fair.by_group.iter() {
                self.check_counts(q);
            }
        }
        let parked = self.check_parked();
        let queued = tasks;
        tasks += parked;
        let bodies = self.tasks.iter().filter(|(_, task)| task.prio.class() == ClassId::Fair).count();
        assert_eq!(bodies, tasks, "every fair task on the run queue is in exactly one queue");
        self.check_throttled(tasks as u32);
        let is_limited = self.fair.queues.iter().any(|queue| queue.bandwidth.is_limited());
        assert!(self.fair.has_limits || !is_limited && self.fair.nr_throttled == 0, "a limit has been noted");
        let mut listed = 0;
        let mut at = self.fair.recency.oldest();
        while let Some(slot) = at {
            listed += 1;
            at = self.fair.recency.newer(slot);
        }
        assert_eq!(listed, queued, "tasks by recency");
        self.fair.resting.check(&self.fair.queues);
        for queue in self.fair.queues.iter().filter(|queue| queue.rests.is_some()) {
            assert_eq!(queue.nr_queued, 0, "a resting queue is empty");
            assert_eq!(queue.entity.state, FairState::Off, "a resting queue's group is not queued");
        }
    }

    /// Checks that parked tasks are in the lists that they name, and nowhere else; returns their
    /// number.
    fn check_parked(&self) -> usize {
        let mut listed = 0;
        for (index, queue) in self.fair.queues.iter().enumerate() {
            for entity in self.fair.timeline.check(queue.parked) {
                let at = QueueIx(index as u32);
                assert_eq!(self.entity(entity).state, FairState::Parked { at }, "a parked task knows where");
                listed += 1;
            }
        }
        let parked = self.tasks.iter().filter(|(_, task)| task.fair.is_parked()).count();
        assert_eq!(listed, parked, "parked tasks are listed once");
        parked
    }

    fn all_throttled(&self) -> impl Iterator<Item = QueueIx> + '_ {
        let listed = self.fair.by_group.iter().map(|(_, q)| q);
        listed.filter(|q| self.queue(*q).bandwidth.is_throttled())
    }

    fn throttled_queues(&self) -> impl Iterator<Item = QueueIx> + '_ {
        let listed = self.fair.by_group.iter().map(|(_, q)| q);
        listed.filter(|q| self.queue(*q).bandwidth.is_detached())
    }

    /// Checks that throttled queues are out of the hierarchy, and that their ancestors count them.
    fn check_throttled(&self, tasks: u32) {
        let (mut apart, mut below) = (0, alloc::vec![0; self.fair.queues.len()]);
        for q in self.all_throttled() {
            let queue = self.queue(q);
            assert!(queue.tally.tasks() > 0, "what has no task is not throttled");
            if queue.bandwidth.is_detached() {
                let has_boosted = queue.boosted.runnable > 0;
                let may_be_detached = !has_boosted || self.fair.tune.throttle != Throttle::BoostGroups;
                assert!(may_be_detached, "a queue with a spared task is not detached");
                assert_eq!(
                    queue.entity.is_queued(),
                    has_boosted,
                    "a detached group is queued for its boosted tasks only"
                );
                apart += queue.tally.tasks() - queue.boosted.tasks();
            }
            let mut at = queue.parent;
            while let Some(above) = at {
                below[above.index()] += 1;
                at = self.queue(above).parent;
            }
        }
        assert_eq!(self.fair.nr_throttled as usize, self.all_throttled().count(), "throttled queues");
        for (q, below) in below.iter().enumerate() {
            assert_eq!(self.fair.queues[q].bandwidth.throttled_below(), *below, "throttled queues below");
        }
        let root = self.queue(QueueIx::ROOT).tally;
        assert_eq!(self.fair.nr_apart, apart, "throttled tasks");
        assert_eq!(root.tasks() + apart, tasks, "a task is throttled or counts at the root");
        let is_other = |task: &Task| matches!(task.prio.class(), ClassId::Rt | ClassId::Ext);
        let others = self.tasks.iter().filter(|(_, task)| is_other(task)).count();
        if !self.tasks.iter().any(|(_, task)| task.prio.class() == ClassId::Deadline) {
            assert_eq!(
                self.nr_running(),
                root.tasks() - root.parked + others as u32,
                "throttled tasks do not count as running"
            );
        }
    }

    /// Checks what a group's queue counts if all tasks are on the root's queue.
    fn check_counts(&self, q: QueueIx) {
        let queue = self.queue(q);
        let (mut entities, mut load, mut tally) = (0, 0, Tally::default());
        for (slot, task) in self.tasks.iter().filter(|(_, task)| task.group == queue.group) {
            if task.fair.is_queued() {
                entities += 1;
                load += scaled_up(own_weight(task.attr));
                tally = tally.plus(if task.fair.is_delayed() {
                    Tally::DELAYED
                } else {
                    Tally::runnable(&self.tasks, slot)
                });
            }
            tally.parked += u32::from(task.fair.is_parked());
        }
        for (_, below) in self.fair.by_group.iter() {
            let below = self.queue(below);
            if below.parent == Some(q) {
                tally = tally.plus(below.tally);
                if below.entity.is_queued() {
                    entities += 1;
                    load += below.entity.load.fine();
                }
            }
        }
        assert!(self.fair.timeline.check(queue.waiting).is_empty() && queue.current.is_none(), "a group only counts");
        assert_eq!(queue.nr_queued, entities, "entities of a group");
        assert_eq!(queue.entity.is_queued(), entities > 0, "a group counts if something in it does");
        assert_eq!(queue.load.fine(), load, "the weights in a group");
        assert_eq!(queue.tally, tally, "the tasks of a group");
    }

    /// Returns the parked tasks of groups below a queue that are not queued themselves.
    fn parked_below(&self, q: QueueIx) -> u32 {
        let listed = self.fair.by_group.iter().map(|(_, below)| self.queue(below));
        let away = listed.filter(|below| below.parent == Some(q) && !below.entity.is_queued());
        away.map(|below| below.tally.parked).sum()
    }

    /// Checks one queue and returns its entities.
    fn check_queue(&self, q: QueueIx) -> Vec<EntityRef> {
        let queue = self.queue(q);
        let mut waiting = self.fair.timeline.check(queue.waiting);
        assert!(waiting.iter().all(|entity| self.entity(*entity).standing != Standing::Boosted), "ordinary ones wait");
        let ahead = self.fair.timeline.check(queue.ahead);
        assert!(
            ahead.iter().all(|entity| self.entity(*entity).standing == Standing::Boosted),
            "boosted ones wait ahead"
        );
        waiting.extend(ahead);
        let (mut weight, mut weighted) = (0, 0);
        for entity in &waiting {
            let waiting = self.entity(*entity);
            let node = waiting.node.expect("a waiting entity has a node");
            assert_eq!(self.fair.timeline.entity(node), *entity, "the node of an entity");
            assert_eq!(self.fair.timeline.vruntime(node), waiting.vruntime, "vruntime in the timeline");
            weight += waiting.load.fine();
            let key = waiting.vruntime.since(queue.zero_vruntime).as_nanos();
            weighted += i128::from(key) * i128::from(waiting.load.fine());
        }
        assert_eq!(queue.sum_weight, weight, "sum of weights");
        assert_eq!(queue.sum_weighted_vruntime, weighted, "weighted sum of vruntimes");
        let mut all = waiting;
        if let Some(current) = queue.current {
            assert!(self.entity(current).node.is_none(), "the current entity does not wait");
            assert!(turn::is_current(&self.fair, q), "what is above a current entity is current");
            all.push(current);
        }
        let (mut tally, mut boosted) = (Tally::default(), Tally::default());
        tally.parked +=
            self.tasks.iter().filter(|(_, task)| task.fair.is_parked() && task.fair.queue == q).count() as u32;
        for entity in &all {
            let entity_here = self.entity(*entity);
            assert!(entity_here.is_queued(), "an entity on a queue knows it");
            assert_eq!(entity_here.queue, q, "an entity knows its queue");
            let here = match entity {
                EntityRef::Task(slot) if self.tasks[*slot].fair.is_delayed() => Tally::DELAYED,
                EntityRef::Task(slot) => Tally::runnable(&self.tasks, *slot),
                EntityRef::Group(owned) => {
                    let owned = self.queue(*owned);
                    assert!(owned.nr_queued > 0 || owned.entity.is_delayed(), "a queued group has entities");
                    if owned.bandwidth.is_detached() { owned.boosted } else { owned.tally }
                }
            };
            tally = tally.plus(here);
            let is_boosted = entity_here.standing == Standing::Boosted;
            match entity {
                EntityRef::Task(_) if entity_here.standing != Standing::Ordinary => boosted = boosted.plus(here),
                EntityRef::Task(_) => {}
                EntityRef::Group(owned) => {
                    let inside = self.queue(*owned).boosted;
                    boosted = boosted.plus(inside);
                    let precedes = inside.runnable > 0 && self.fair.tune.throttle != Throttle::BoostGroups;
                    assert!(q == QueueIx::ROOT || is_boosted == precedes, "a group is boosted for a task");
                }
            }
        }
        assert_eq!(queue.nr_queued as usize, all.len(), "queued entities");
        if !self.fair.tune.is_flat {
            tally.parked += self.parked_below(q);
        }
        assert_eq!(queue.tally, tally, "tasks in the hierarchy");
        if q != QueueIx::ROOT {
            assert_eq!(queue.boosted, boosted, "boosted tasks in the hierarchy");
        }
        assert_eq!(queue.load.fine(), all.iter().map(|entity| self.entity(*entity).load.fine()).sum::<u64>(), "load");
        if self.fair.tune.algorithm == FairAlgorithm::Eevdf && !all.is_empty() {
            let eligible = all.iter().filter(|entity| eevdf::is_eligible(&self.fair, &self.tasks, q, **entity)).count();
            assert!(eligible > 0, "someone is always eligible");
        }
        all
    }
}

impl Rq {
    /// Checks that the time of the classes above is counted if and only if one of them runs.
    pub(crate) fn check_pressure(&self) -> Result<(), String> {
        let (class, is_counted) = (self.current_class(), self.fair.pressure.is_above);
        if self.fair.tune.tracks_load && is_counted != capacity::is_above(class) {
            let verb = if is_counted { "counts" } else { "does not count" };
            return Err(format!("CPU {} {verb} time of the classes above, but runs {class:?}", self.cpu()));
        }
        Ok(())
    }
}
