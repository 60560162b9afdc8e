//! `linux`: the fair class of this project behind the trait: EEVDF with weights, nested groups, and
//! limits with burst, on one tree for all CPUs.
//!
//! A kernel that runs a loaded scheduler has neither the weights of groups nor `cpu.max` any more.
//! This policy gives both back. Each group is a *queue* of entities: its tasks, and the groups below
//! it that have runnable tasks. In a queue virtual time passes for a running entity at the inverse
//! of its weight, and `V` is the average of all, by weight:
//!
//! * an entity is *eligible* if it has had no more than its share: its virtual time is at most `V`;
//! * each has a *deadline*, one slice of virtual time ahead, which is set anew when it is reached;
//! * the eligible entity with the earliest deadline is the next; if it is a group, its queue is
//!   asked in the same way (Stoica and Abdel-Wahab, *Earliest Eligible Virtual Deadline First*,
//!   1996).
//!
//! An entity that leaves takes its *lag* along, the distance of its virtual time to `V`, and has it
//! when it comes back. A turn is one slice: a task that wakes on a busy machine waits for the end of
//! a turn, as with `RUN_TO_PARITY`.
//!
//! A group whose limit is used up ([`Budgets`]) leaves the queue above until its period ends.
//!
//! Sources: Linux v7.3 `kernel/sched/fair.c` (`place_entity`, `update_deadline`,
//! `entity_eligible`, `pick_eevdf`, `update_entity_lag`, `throttle_cfs_rq`). differs: the kernel has
//! a queue per CPU, and balances load between them; here all CPUs share one, so shares hold for the
//! machine and no task is bound to a CPU by chance. An entity that is entitled to more than it can
//! use (one task on several CPUs) keeps two slices of lag at most. If no waiting entity is
//! eligible, the others run on other CPUs, and the earliest deadline comes next. A task that sleeps
//! with negative lag leaves at once (`DELAY_DEQUEUE` is not here), nor are slices of tasks,
//! SCHED_IDLE, buddies, real-time tasks, reservations.
//!
//! O(depth of groups * log n) per event; a decision passes over tasks that must not run on its CPU
//! and over those that are not eligible.

use super::budgets::Budgets;
use crate::ops::{Ops, Param, Policy};
use crate::scx::Scx;
use crate::storage::{PerGroup, PerTask};
use crate::words::{DeqFlags, DsqId, EnqFlags, KickFlags, OpsFlags, WakeFlags};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, TaskId};

/// The fair class on one tree.
#[derive(Clone, Debug)]
pub struct Linux {
    slice: u64,
    queues: PerGroup<Queue>,
    tasks: PerTask<Entity>,
    groups: PerGroup<Entity>,
    turns: PerTask<Option<Turn>>,
    throttled: Vec<GroupId>,
    budgets: Budgets,
}

const PARAMS: &[Param] =
    &[Param::time("slice", 2_800_000, 100_000..=100_000_000, "The length of a turn (base_slice_ns)")];

/// A task or a group in the queue of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Id {
    Task(TaskId),
    Group(GroupId),
}

#[derive(Clone, Copy, Debug, Default)]
struct Entity {
    /// It is in the queue: it, or a task of it, is runnable.
    is_queued: bool,
    /// It, or a task of it, waits.
    waits: bool,
    is_throttled: bool,
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
struct Queue {
    /// Those that wait, by deadline.
    waiting: BTreeSet<(i64, Id)>,
    weight: u64,
    /// The sum of weight * virtual time.
    sum: i128,
    /// `V` when the last entity left.
    last: i64,
}

/// A turn of a task.
#[derive(Clone, Copy, Debug)]
struct Turn {
    group: GroupId,
    time: Duration,
    /// It is charged up to then; `None` before it runs.
    since: Option<Instant>,
}

impl Default for Linux {
    fn default() -> Self {
        Self {
            slice: PARAMS[0].default,
            queues: PerGroup::default(),
            tasks: PerTask::default(),
            groups: PerGroup::default(),
            turns: PerTask::default(),
            throttled: Vec::new(),
            budgets: Budgets::default(),
        }
    }
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
impl Linux {
    fn entity(&mut self, id: Id) -> &mut Entity {
        match id {
            Id::Task(p) => &mut self.tasks[p],
            Id::Group(group) => &mut self.groups[group],
        }
    }

    /// Returns a time of an entity as virtual time.
    fn virtual_of(time: Duration, weight: u32) -> i64 {
        i64::try_from(time.mul_div_floor(100, u64::from(weight.max(1))).as_nanos()).unwrap_or(i64::MAX >> 8)
    }

    fn slice(&self) -> Duration {
        Duration::from_nanos(self.slice)
    }

    /// Returns the most lag of an entity, in both directions (`update_entity_lag`).
    fn lag_max(&self, weight: u32) -> i64 {
        Self::virtual_of(self.slice().saturating_mul(2), weight)
    }

    /// An entity joins the queue above, and that group the queue above it, if it is new there.
    fn join(&mut self, scx: &Scx, id: Id) {
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
    fn leave(&mut self, id: Id) {
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
    fn wait(&mut self, id: Id) {
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
    fn rest(&mut self, id: Id) {
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
    fn advance(&mut self, p: TaskId, ran: Duration) {
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
    fn weigh(&mut self, id: Id, weight: u32) {
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
    fn pick(&self, scx: &Scx, cpu: CpuId, group: GroupId, empty: &mut Vec<GroupId>) -> Option<TaskId> {
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
                    Id::Group(below) if self.budgets.is_empty(below) => {
                        empty.push(below);
                        None
                    }
                    Id::Group(below) => self.pick(scx, cpu, below, empty),
                };
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}

/// Limits and turns.
impl Linux {
    fn throttle(&mut self, groups: Vec<GroupId>) {
        for group in groups {
            if !self.groups[group].is_throttled {
                self.leave(Id::Group(group));
                self.groups[group].is_throttled = true;
                self.throttled.push(group);
            }
        }
    }

    /// Groups whose pools have time again take part.
    fn unthrottle(&mut self, scx: &mut Scx) {
        let (still, again): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.throttled).into_iter().partition(|group| self.budgets.is_empty(*group));
        self.throttled = still;
        for group in &again {
            self.groups[*group].is_throttled = false;
            if self.queues[*group].weight > 0 {
                self.join(scx, Id::Group(*group));
            }
            if !self.queues[*group].waiting.is_empty() {
                self.wait(Id::Group(*group));
            }
        }
        if !again.is_empty() {
            for cpu in scx.idle_cpumask().clone().iter() {
                scx.kick_cpu(cpu, KickFlags::IDLE);
            }
        }
    }

    fn turn(&self, scx: &Scx, group: GroupId) -> Duration {
        self.budgets.turn(scx, group).min(self.slice())
    }

    /// A task is about to run: returns its turn, which the pools have been charged for.
    fn begin(&mut self, scx: &mut Scx, p: TaskId) -> Duration {
        let group = scx.task_cgroup(p);
        // One that a CPU takes although its group is throttled meanwhile runs to the next tick.
        let time = self.turn(scx, group).max(Duration::from_nanos(1));
        self.budgets.take(scx, group, time);
        self.turns[p] = Some(Turn { group, time, since: None });
        time
    }

    fn end(&mut self, scx: &mut Scx, p: TaskId) {
        let Some(Turn { group, time, since }) = self.turns[p].take() else { return };
        let ran = since.map_or(Duration::ZERO, |since| scx.now().since(since));
        self.advance(p, ran);
        self.budgets.settle(scx, group, time, ran);
        if ran < time {
            self.unthrottle(scx);
        }
    }
}

impl Policy for Linux {
    fn ops(&self) -> Ops {
        // A task whose group is throttled must not go on because it is alone.
        Ops { flags: OpsFlags::ENQ_LAST, ..Ops::named("linux") }
    }

    fn params(&self) -> &[Param] {
        PARAMS
    }

    fn set_param(&mut self, _index: usize, value: u64) {
        self.slice = value;
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, flags: WakeFlags) -> CpuId {
        let (cpu, is_idle) = scx.select_cpu_dfl(p, prev_cpu, flags);
        if is_idle && !self.budgets.is_throttled(scx, scx.task_cgroup(p)) {
            scx.dsq_insert(p, DsqId::LOCAL, self.slice(), EnqFlags::NONE);
        }
        cpu
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        self.join(scx, Id::Task(p));
        self.wait(Id::Task(p)); // It is kept: `dispatch` inserts it.
        if !self.budgets.is_throttled(scx, scx.task_cgroup(p))
            && let Some(cpu) = scx.pick_idle_cpu(p, false)
        {
            scx.kick_cpu(cpu, KickFlags::IDLE);
        }
    }

    fn dequeue(&mut self, _scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.rest(Id::Task(p));
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        // The task whose turn ends takes part, although it is not enqueued yet.
        if let Some(prev) = prev {
            self.end(scx, prev);
            self.wait(Id::Task(prev));
        }
        let mut empty = Vec::new();
        let next = self.pick(scx, cpu, GroupId::ROOT, &mut empty);
        self.throttle(empty);
        if let Some(prev) = prev {
            self.rest(Id::Task(prev));
        }
        let Some(next) = next else { return };
        self.rest(Id::Task(next));
        let time = self.begin(scx, next);
        if prev == Some(next) {
            scx.set_slice(next, time);
            self.running(scx, next);
        } else {
            scx.dsq_insert(next, DsqId::LOCAL, time, EnqFlags::NONE);
        }
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        self.join(scx, Id::Task(p));
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        if self.turns[p].is_none() {
            let time = self.begin(scx, p);
            scx.set_slice(p, time);
        }
        let now = scx.now();
        if let Some(turn) = &mut self.turns[p] {
            turn.since = Some(now);
        }
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, _runnable: bool) {
        self.end(scx, p);
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.end(scx, p); // One that was about to run.
        self.leave(Id::Task(p));
    }

    fn set_weight(&mut self, _scx: &mut Scx, p: TaskId, weight: u32) {
        self.weigh(Id::Task(p), weight);
    }

    fn enable(&mut self, _scx: &mut Scx, p: TaskId) {
        self.tasks[p] = Entity::default();
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        self.end(scx, p);
        self.leave(Id::Task(p));
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        self.leave(Id::Group(group));
        self.throttled.retain(|other| *other != group);
        self.budgets.forget(scx, group);
        (self.groups[group], self.queues[group]) = Default::default();
    }

    fn cgroup_set_weight(&mut self, _scx: &mut Scx, group: GroupId, weight: u32) {
        self.weigh(Id::Group(group), weight);
    }

    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        self.budgets.set(scx, group, limit);
        self.unthrottle(scx);
    }

    fn timer(&mut self, scx: &mut Scx, group: u32) {
        self.budgets.refill(scx, GroupId(group));
        self.unthrottle(scx);
    }
}
