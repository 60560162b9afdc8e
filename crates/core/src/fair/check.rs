//! What must hold of a CPU's fair queues, recomputed the slow and obvious way. For tests and debugging hosts.

use super::entity::{EntityRef, FairState};
use super::queue::QueueIx;
use crate::rq::Rq;
use alloc::vec::Vec;
use zerolag_model::ClassId;
use zerolag_model::settings::FairAlgorithm;

impl Rq {
    /// Checks the fair queues: every sum and count equals what the entities say, every queued task is reachable from the
    /// root, someone is eligible. O(n log n).
    ///
    /// # Panics
    /// If something does not hold; the message says what.
    pub fn check_fair(&self) {
        let mut tasks = 0;
        let mut delayed = 0;
        let mut pending: Vec<QueueIx> = alloc::vec![QueueIx::ROOT];
        while let Some(q) = pending.pop() {
            let entities = self.check_queue(q);
            for entity in entities {
                match entity {
                    EntityRef::Group(owned) => {
                        assert_eq!(self.queue(owned).parent, Some(q), "parent of a queue");
                        pending.push(owned);
                    }
                    EntityRef::Task(slot) => {
                        assert_eq!(self.tasks[slot].group, self.queue(q).group, "a task is queued in its group");
                        tasks += 1;
                        delayed += u32::from(self.tasks[slot].fair.is_delayed());
                    }
                }
            }
        }
        assert_eq!(self.fair.nr_delayed, delayed, "delayed tasks");
        let bodies = self.tasks.iter().filter(|(_, task)| task.prio.class() == ClassId::Fair).count();
        assert_eq!(bodies, tasks, "every fair task on the run queue is in exactly one queue");
        let idle = self.tasks.iter().filter(|(_, task)| {
            task.fair.state == FairState::Runnable && task.fair.is_idle && task.prio.class() == ClassId::Fair
        });
        assert_eq!(self.fair.nr_idle_policy as usize, idle.count(), "tasks of policy SCHED_IDLE");
        let mut listed = 0;
        let mut at = self.fair.recency.oldest();
        while let Some(slot) = at {
            listed += 1;
            at = self.fair.recency.newer(slot);
        }
        assert_eq!(listed, tasks, "tasks by recency");
        for queue in &self.fair.resting {
            assert_eq!(self.queue(*queue).nr_queued, 0, "a resting queue is empty");
            assert_eq!(self.queue(*queue).entity.state, FairState::Off, "a resting queue's group is not queued");
        }
    }

    /// Checks one queue and returns its entities.
    fn check_queue(&self, q: QueueIx) -> Vec<EntityRef> {
        let queue = self.queue(q);
        let waiting = self.fair.timeline.check(queue.waiting);
        let (mut weight, mut weighted) = (0, 0);
        for entity in &waiting {
            let waiting = self.entity(*entity);
            let node = waiting.node.expect("a waiting entity has a node");
            assert_eq!(self.fair.timeline.entity(node), *entity, "the node of an entity");
            assert_eq!(self.fair.timeline.vruntime(node), waiting.vruntime, "vruntime in the timeline");
            weight += waiting.load.value();
            let key = waiting.vruntime.since(queue.zero_vruntime).as_nanos();
            weighted += i128::from(key) * i128::from(waiting.load.value());
        }
        assert_eq!(queue.sum_weight, weight, "sum of weights");
        assert_eq!(queue.sum_weighted_vruntime, weighted, "weighted sum of vruntimes");
        let mut all = waiting;
        if let Some(current) = queue.current {
            assert!(self.entity(current).node.is_none(), "the current entity does not wait");
            all.push(current);
        }
        let mut running = 0;
        for entity in &all {
            let entity_here = self.entity(*entity);
            assert!(entity_here.is_queued(), "an entity on a queue knows it");
            assert_eq!(entity_here.queue, q, "an entity knows its queue");
            running += match entity {
                EntityRef::Task(slot) => u32::from(!self.tasks[*slot].fair.is_delayed()),
                EntityRef::Group(owned) => {
                    let owned = self.queue(*owned);
                    assert!(owned.nr_queued > 0 || owned.entity.is_delayed(), "a queued group has entities");
                    owned.nr_in_hierarchy
                }
            };
        }
        assert_eq!(queue.nr_queued as usize, all.len(), "queued entities");
        assert_eq!(queue.nr_in_hierarchy, running, "tasks in the hierarchy");
        assert_eq!(queue.load, all.iter().map(|entity| self.entity(*entity).load.value()).sum::<u64>(), "load");
        if self.fair.tune.algorithm == FairAlgorithm::Eevdf && !all.is_empty() {
            let eligible = all.iter().filter(|entity| super::eevdf::is_eligible(self, q, **entity)).count();
            assert!(eligible > 0, "someone is always eligible");
        }
        all
    }
}
