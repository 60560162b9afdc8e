//! [`Tree`]: queues of tasks and groups, level by level, in virtual time (EEVDF).
//!
//! The rules are those of [`Linux`](super::Linux).

use crate::policies::budgets::Budgets;
use crate::scx::Scx;
use crate::storage::{PerGroup, PerTask};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use zerolag_model::{CpuId, Duration, GroupId, TaskId};

/// The tree of entities.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) slice: u64,
    pub(super) queues: PerGroup<Queue>,
    pub(super) tasks: PerTask<Entity>,
    pub(super) groups: PerGroup<Entity>,
}

/// A task or a group in the queue of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Id {
    Task(TaskId),
    Group(GroupId),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entity {
    /// It is in the queue: it, or a task of it, is runnable.
    is_queued: bool,
    /// It, or a task of it, waits.
    waits: bool,
    pub(super) is_throttled: bool,
    has_been_queued: bool,
    /// The group in whose queue it is, or was last; the root is in none.
    above: Option<GroupId>,
    weight: u32,
    vtime: i64,
    deadline: i64,
    /// While it is not in the queue.
    lag: i64,
}

/// The entities of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    /// Those that wait, by deadline.
    pub(super) waiting: BTreeSet<(i64, Id)>,
    pub(super) weight: u64,
    /// The sum of weight * virtual time.
    pub(super) sum: i128,
    /// `V` when the last entity left.
    pub(super) last: i64,
}

impl Queue {
    /// Returns `V`.
    fn average(&self) -> i64 {
        if self.weight == 0 { self.last } else { (self.sum / i128::from(self.weight)) as i64 }
    }

    fn add(&mut self, entity: &Entity) {
        self.weight += u64::from(entity.weight);
        self.sum += i128::from(entity.weight) * i128::from(entity.vtime);
    }

    fn take(&mut self, entity: &Entity) {
        self.last = self.average();
        // A group can go before its tasks do, when the policy is unloaded.
        self.weight = self.weight.saturating_sub(u64::from(entity.weight));
        self.sum -= i128::from(entity.weight) * i128::from(entity.vtime);
        if self.weight == 0 {
            self.sum = 0;
        }
    }
}

/// The tree.
impl Tree {
    pub(super) fn entity(&mut self, id: Id) -> &mut Entity {
        match id {
            Id::Task(p) => &mut self.tasks[p],
            Id::Group(group) => &mut self.groups[group],
        }
    }

    /// Returns a time of an entity as virtual time.
    pub(super) fn virtual_of(time: Duration, weight: u32) -> i64 {
        i64::try_from(time.mul_div_floor(100, u64::from(weight.max(1))).as_nanos()).unwrap_or(i64::MAX >> 8)
    }

    pub(super) fn slice(&self) -> Duration {
        Duration::from_nanos(self.slice)
    }

    /// Returns the most lag of an entity, in both directions (`update_entity_lag`).
    pub(super) fn lag_max(&self, weight: u32) -> i64 {
        Self::virtual_of(self.slice().saturating_mul(2), weight)
    }

    /// An entity joins the queue above, and that group the queue above it, if it is new there.
    pub(super) fn join(&mut self, scx: &Scx, id: Id) {
        let (mut next, slice) = (Some(id), self.slice());
        while let Some(id) = next {
            let (above, weight) = match id {
                Id::Task(p) => (Some(scx.task_cgroup(p)), scx.weight(p)),
                Id::Group(group) => (scx.cgroup_parent(group), scx.cgroup_weight(group)),
            };
            let Some(above) = above.filter(|_| !self.entity(id).is_queued) else { return };
            let (average, load) = (self.queues[above].average(), i128::from(self.queues[above].weight));
            let most = self.lag_max(weight);
            let entity = self.entity(id);
            (entity.weight, entity.above) = (weight.max(1), Some(above));
            // The average moves towards it as it comes (`place_entity`).
            let inflated = match load {
                0 => 0,
                load => i128::from(entity.lag) * (load + i128::from(entity.weight)) / load,
            };
            entity.vtime = average - (inflated as i64).clamp(-most, most);
            let request = Self::virtual_of(slice, entity.weight);
            let is_first = !core::mem::replace(&mut entity.has_been_queued, true);
            entity.deadline = entity.vtime + if is_first { request / 2 } else { request };
            entity.is_queued = true;
            let entity = *entity;
            self.queues[above].add(&entity);
            next = Some(Id::Group(above)).filter(|_| !self.groups[above].is_throttled);
        }
    }

    /// An entity leaves the queue above, and that group the one above it, if it was the last there.
    pub(super) fn leave(&mut self, id: Id) {
        let mut next = Some(id);
        while let Some(id) = next {
            self.rest(id);
            let entity = *self.entity(id);
            let Some(above) = entity.above.filter(|_| entity.is_queued) else { return };
            let average = self.queues[above].average();
            let most = self.lag_max(entity.weight);
            let entity = self.entity(id);
            entity.lag = (average - entity.vtime).clamp(-most, most);
            entity.is_queued = false;
            let entity = *entity;
            self.queues[above].take(&entity);
            next = Some(Id::Group(above)).filter(|_| self.queues[above].weight == 0);
        }
    }

    /// An entity waits, so the groups above do.
    pub(super) fn wait(&mut self, id: Id) {
        let mut next = Some(id);
        while let Some(id) = next {
            let entity = self.entity(id);
            let Some(above) = entity.above.filter(|_| entity.is_queued && !entity.waits) else { return };
            entity.waits = true;
            let deadline = entity.deadline;
            self.queues[above].waiting.insert((deadline, id));
            next = Some(Id::Group(above));
        }
    }

    /// An entity does not wait any more, nor do groups in which no other one waits.
    pub(super) fn rest(&mut self, id: Id) {
        let mut next = Some(id);
        while let Some(id) = next {
            let entity = self.entity(id);
            let waited = core::mem::take(&mut entity.waits);
            let Some(above) = entity.above.filter(|_| waited) else { return };
            let deadline = entity.deadline;
            self.queues[above].waiting.remove(&(deadline, id));
            next = Some(Id::Group(above)).filter(|_| self.queues[above].waiting.is_empty());
        }
    }

    /// A task has run: its virtual time passes, and that of the groups above.
    pub(super) fn advance(&mut self, p: TaskId, ran: Duration) {
        let (mut next, slice) = (Some(Id::Task(p)), self.slice());
        while let Some(id) = next {
            let had = *self.entity(id);
            let Some(above) = had.above else { return };
            let most = self.lag_max(had.weight);
            let passed = Self::virtual_of(ran, had.weight);
            let mut entity = had;
            entity.vtime += passed;
            if had.is_queued {
                let queue = &mut self.queues[above];
                queue.take(&had);
                queue.add(&entity);
                // One that cannot use its share does not save it up.
                let behind = queue.average() - entity.vtime - most;
                if behind > 0 {
                    queue.take(&entity);
                    entity.vtime += behind;
                    queue.add(&entity);
                }
                if entity.vtime >= entity.deadline {
                    entity.deadline = entity.vtime + Self::virtual_of(slice, entity.weight);
                }
                if had.waits && queue.waiting.remove(&(had.deadline, id)) {
                    queue.waiting.insert((entity.deadline, id));
                }
            } else {
                entity.lag = (entity.lag - passed).max(-most);
            }
            *self.entity(id) = entity;
            next = Some(Id::Group(above));
        }
    }

    /// The weight of an entity changes: the rest of its request is another time (`reweight_entity`).
    pub(super) fn weigh(&mut self, id: Id, weight: u32) {
        let had = *self.entity(id);
        let mut entity = had;
        entity.weight = weight.max(1);
        if let Some(above) = had.above.filter(|_| had.is_queued) {
            let rest = i128::from(had.deadline - had.vtime) * i128::from(had.weight) / i128::from(entity.weight);
            entity.deadline = entity.vtime + rest as i64;
            let queue = &mut self.queues[above];
            queue.take(&had);
            queue.add(&entity);
            if queue.waiting.remove(&(had.deadline, id)) {
                queue.waiting.insert((entity.deadline, id));
            }
        }
        *self.entity(id) = entity;
    }

    /// Returns the task that comes next on a CPU; notes groups that are found to be throttled.
    ///
    /// It calls itself once for each level of groups.
    pub(super) fn pick(
        &self,
        scx: &Scx,
        cpu: CpuId,
        group: GroupId,
        budgets: &Budgets,
        empty: &mut Vec<GroupId>,
    ) -> Option<TaskId> {
        let queue = &self.queues[group];
        let is_eligible = |id: Id| {
            let entity = match id {
                Id::Task(p) => self.tasks[p],
                Id::Group(group) => self.groups[group],
            };
            i128::from(entity.vtime) * i128::from(queue.weight) <= queue.sum
        };
        for eligible in [true, false] {
            for (_, id) in queue.waiting.iter().filter(|(_, id)| is_eligible(*id) == eligible) {
                let found = match *id {
                    Id::Task(p) => Some(p).filter(|p| scx.allowed(*p, cpu)),
                    Id::Group(below) if budgets.is_empty(below) => {
                        empty.push(below);
                        None
                    }
                    Id::Group(below) => self.pick(scx, cpu, below, budgets, empty),
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}
