//! [`Inspect::state`]: a copy of what a run queue decides by, for those that show it.
//!
//! Nothing here changes anything, and no scheduler calls it. O(tasks · log tasks of the run queue).

use crate::entity::fair::{EntityRef, FairEntity, QueueIx, Standing};
use crate::queue::dl::server::ServedBy;
use crate::queue::fair::eevdf;
use crate::rq::inspect::Inspect;
use crate::task::deadline;
use alloc::vec::Vec;
use zerolag_model::settings::FairAlgorithm;
use zerolag_model::state::{
    Buddy, CpuState, DeadlineState, Entity, FairEntityState, FairOrder, FairQueueState, ServedState, ServerBudget, lag,
};
use zerolag_model::{ClassId, GroupId, Prio, ServerKind, ServerState};

/// Returns a real-time priority as users write it, 1 to 99.
fn user_priority(prio: Prio) -> u8 {
    u8::try_from(Prio::FIRST_FAIR.raw() - 1 - prio.raw()).unwrap_or_default()
}

impl Inspect<'_> {
    /// Returns the state of the CPU: right before and right after
    /// [`Scheduler::pick`](crate::Scheduler::pick) they say together why it picked its task. The
    /// way of a policy's task is that of [`Scheduler::policy_way`](crate::Scheduler::policy_way).
    #[must_use]
    pub fn state(self) -> CpuState {
        let rq = self.rq;
        let of_class = |class: ClassId| rq.tasks.iter().filter(move |(_, task)| task.prio.class() == class);
        let mut deadline: Vec<DeadlineState> = of_class(ClassId::Deadline)
            .map(|(_, task)| DeadlineState {
                task: task.id,
                deadline: task.dl.abs_deadline,
                left: task.dl.runtime_left,
                is_throttled: deadline::is_throttled(task),
            })
            .collect();
        deadline.sort_by_key(|task| (task.is_throttled, task.deadline, task.task));
        let servers = ServerKind::ALL.into_iter().filter(|kind| rq.server(*kind).0.is_on());
        let order = rq.rt.in_order(&rq.tasks).map(|slot| &rq.tasks[slot]);
        CpuState {
            cpu: rq.cpu(),
            picked: rq.current_slot().map(|slot| rq.tasks[slot].id),
            serving: self.serving(),
            class: rq.current_slot().map_or(ClassId::Idle, |slot| rq.tasks[slot].prio.class()),
            deadline,
            servers: servers.map(|kind| self.budget(kind)).collect(),
            real_time: order.map(|task| (task.id, user_priority(task.prio))).collect(),
            served: self.served(),
            is_rt_throttled: rq.rt.nr_allowed() < rq.rt.nr_running(),
            fair: self.queues(),
            loaded: rq.ext.nr_running,
            way: None,
        }
    }

    /// Returns the group whose server runs the current task, with its tasks here.
    fn served(self) -> Option<ServedState> {
        let rq = self.rq;
        let Some(ServedBy::Group(at)) = rq.dl.serving else { return None };
        let local = rq.rt.local.as_deref()?.queue(at);
        let tasks = local.run.iter(&rq.tasks).map(|slot| &rq.tasks[slot]);
        let tasks = tasks.map(|task| (task.id, user_priority(task.prio))).collect();
        Some(ServedState { group: local.group, tasks })
    }

    fn budget(self, kind: ServerKind) -> ServerBudget {
        let (_, state, left) = self.rq.server(kind);
        let is_queued = matches!(state, ServerState::Queued { .. });
        ServerBudget { kind, deadline: self.rq.dl.server(kind).abs_deadline, left, is_queued }
    }

    /// Returns the fair queues that have entities or a limit, the root's first.
    fn queues(self) -> Vec<FairQueueState> {
        let rq = self.rq;
        let mut queues: Vec<(QueueIx, FairQueueState)> = Vec::new();
        for (index, queue) in rq.fair.queues.iter().enumerate() {
            let q = QueueIx(u32::try_from(index).expect("invariant: queues are numbered by 32 bits"));
            // Places of queues that are gone stay behind.
            let is_here = q == QueueIx::ROOT || rq.fair.by_group.get(queue.group) == Some(q);
            if is_here && (queue.nr_queued > 0 || queue.bandwidth.is_limited() || q == QueueIx::ROOT) {
                let order = match rq.fair.tune.algorithm {
                    FairAlgorithm::Eevdf => FairOrder::Eevdf,
                    FairAlgorithm::Cfs => FairOrder::Cfs,
                };
                let quota = queue.bandwidth.is_limited().then_some(queue.bandwidth.remaining);
                let is_throttled = queue.bandwidth.is_throttled();
                let entities = Vec::new();
                queues.push((q, FairQueueState { group: queue.group, order, quota, is_throttled, entities }));
            }
        }
        let tasks = rq.tasks.iter().filter(|(_, task)| task.prio.class() == ClassId::Fair);
        let tasks = tasks.map(|(slot, task)| (EntityRef::Task(slot), Entity::Task(task.id)));
        let groups = queues.iter().filter(|(q, _)| *q != QueueIx::ROOT && !rq.fair.tune.is_flat);
        let groups: Vec<_> = groups.map(|(q, own)| (EntityRef::Group(*q), Entity::Group(own.group))).collect();
        for (place, entity) in tasks.chain(groups) {
            let found = rq.entity(place);
            let home = queues.iter_mut().find(|(q, _)| found.is_queued() && *q == found.queue);
            if let Some((q, home)) = home {
                let order = home.order;
                home.entities.push(self.entity(*q, (place, entity), found, order));
            }
        }
        for (_, queue) in &mut queues {
            queue.entities.sort_by_key(|one| one.entity);
        }
        queues.sort_by_key(|(_, queue)| (queue.group != GroupId::ROOT, queue.group));
        queues.into_iter().map(|(_, queue)| queue).collect()
    }

    fn entity(
        self,
        q: QueueIx,
        (place, entity): (EntityRef, Entity),
        found: &FairEntity,
        order: FairOrder,
    ) -> FairEntityState {
        let queue = self.rq.queue(q);
        let is_current = queue.current == Some(place);
        let (reference, deadline) = match order {
            FairOrder::Eevdf => {
                let average = eevdf::average(&self.rq.fair, &self.rq.tasks, q);
                (average, found.virtual_deadline.since(average).as_nanos())
            }
            FairOrder::Cfs => (queue.zero_vruntime, 0),
        };
        let eligible = found.vruntime.since(reference).as_nanos();
        let weight = found.load.fine();
        let lag = match order {
            FairOrder::Eevdf => lag(eligible, weight),
            FairOrder::Cfs => 0,
        };
        let buddies = queue.buddies;
        let buddy = match Some(place) {
            place if place == buddies.next => Some(Buddy::Next),
            place if place == buddies.last => Some(Buddy::Last),
            place if place == buddies.skip => Some(Buddy::Skip),
            _ => None,
        };
        FairEntityState {
            entity,
            is_current,
            is_delayed: found.is_delayed(),
            is_boosted: found.standing == Standing::Boosted,
            is_protected: found.is_protected(),
            buddy,
            weight,
            lag,
            eligible,
            deadline,
        }
    }
}
