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
//! Threads that a text names (`rules`) come before all that: by real-time priority, or by the
//! deadline of a reservation (`urgent`). Limits of groups do not count for them, as in a kernel.
//!
//! Sources: Linux v7.3 `kernel/sched/fair.c` (`place_entity`, `update_deadline`,
//! `entity_eligible`, `pick_eevdf`, `update_entity_lag`, `throttle_cfs_rq`). differs: the kernel has
//! a queue per CPU, and balances load between them; here all CPUs share one, so shares hold for the
//! machine and no task is bound to a CPU by chance. An entity that is entitled to more than it can
//! use (one task on several CPUs) keeps two slices of lag at most. If no waiting entity is
//! eligible, the others run on other CPUs, and the earliest deadline comes next. A task that sleeps
//! with negative lag leaves at once (`DELAY_DEQUEUE` is not here), nor are slices of tasks,
//! SCHED_IDLE, buddies.
//!
//! O(depth of groups * log n) per event; a decision passes over tasks that must not run on its CPU
//! and over those that are not eligible.

mod rules;
mod tree;
mod urgent;

use self::rules::Rules;
use self::tree::{Entity, Id, Tree};
use self::urgent::Urgent;
use super::budgets::Budgets;
use crate::ops::{Mistake, Ops, Param, Policy, TextParam};
use crate::scx::Scx;
use crate::storage::{PerGroup, PerTask};
use crate::words::{DeqFlags, DsqId, EnqFlags, KickFlags, OpsFlags, WakeFlags};
use alloc::boxed::Box;
use alloc::vec::Vec;
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, TaskId};

/// The fair class on one tree.
#[derive(Clone, Debug)]
pub struct Linux {
    tree: Tree,
    turns: PerTask<Option<Turn>>,
    budgets: Budgets,
    rules: Rules,
    urgent: Urgent,
    /// The name for which a rule was looked for.
    names: PerTask<Option<Box<str>>>,
}

const PARAMS: &[Param] =
    &[Param::time("slice", 2_800_000, 100_000..=100_000_000, "The length of a turn (base_slice_ns)")];

const TEXTS: &[TextParam] = &[TextParam::new(
    "rules",
    "Which threads are of real time or have a reservation, as in `comm audio-* fifo 80; cgroup /rt/* deadline 2ms 10ms`",
)];

/// A turn of a fair task.
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
            tree: Tree {
                slice: PARAMS[0].default,
                queues: PerGroup::default(),
                tasks: PerTask::default(),
                groups: PerGroup::default(),
            },
            turns: PerTask::default(),
            budgets: Budgets::default(),
            rules: Rules::default(),
            urgent: Urgent::default(),
            names: PerTask::default(),
        }
    }
}

/// Limits and turns.
impl Linux {
    fn throttle(&mut self, groups: Vec<GroupId>) {
        for group in groups {
            if !self.tree.groups[group].is_throttled {
                self.tree.leave(Id::Group(group));
                self.tree.groups[group].is_throttled = true;
                self.budgets.hold(group);
            }
        }
    }

    /// Groups whose pools have time again take part.
    fn unthrottle(&mut self, scx: &mut Scx) {
        let again = self.budgets.release(Budgets::is_empty);
        for group in &again {
            self.tree.groups[*group].is_throttled = false;
            if self.tree.queues[*group].weight > 0 {
                self.tree.join(scx, Id::Group(*group));
            }
            if !self.tree.queues[*group].waiting.is_empty() {
                self.tree.wait(Id::Group(*group));
            }
        }
        if !again.is_empty() {
            for cpu in scx.idle_cpumask().clone().iter() {
                scx.kick_cpu(cpu, KickFlags::IDLE);
            }
        }
    }

    fn turn(&self, scx: &Scx, group: GroupId) -> Duration {
        self.budgets.turn(scx, group).min(self.tree.slice())
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
        if self.urgent.has(p) {
            return self.urgent.end(scx, p);
        }
        let Some(Turn { group, time, since }) = self.turns[p].take() else { return };
        let ran = since.map_or(Duration::ZERO, |since| scx.now().since(since));
        self.tree.advance(p, ran);
        self.budgets.settle(scx, group, time, ran);
        if ran < time {
            self.unthrottle(scx);
        }
    }
}

/// Threads that rules name.
impl Linux {
    /// Looks for the rule of a thread, which is not runnable yet, if its name or its group is new.
    fn classify(&mut self, scx: &mut Scx, p: TaskId) {
        let comm = scx.comm(p);
        if self.rules.is_empty() || self.names[p].as_deref() == Some(comm) {
            return;
        }
        let class = self.rules.class(comm, scx.cgroup_path(scx.task_cgroup(p)));
        self.names[p] = Some(comm.into());
        if class != self.urgent.class(p)
            && let Err(why) = self.urgent.set_class(scx, p, class)
        {
            scx.error(&why);
        }
    }

    /// A CPU does not follow its kick.
    fn lose(&mut self, scx: &mut Scx, cpu: CpuId) {
        if !self.rules.is_empty() {
            self.urgent.reset(cpu);
            self.urgent.push(scx);
        }
    }

    /// Lets a CPU take an urgent thread, if there is one; returns whether it does.
    fn dispatch_urgent(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        self.urgent.reset(cpu);
        if let Some(prev) = prev {
            self.end(scx, prev);
        }
        let first = self.urgent.first(scx, cpu);
        match (prev.filter(|prev| self.urgent.goes_on(*prev, first)), first) {
            (Some(prev), _) => self.running(scx, prev),
            (None, Some(first)) => {
                let slice = self.urgent.begin(first);
                self.urgent.decided(cpu, first);
                scx.dsq_insert(first, DsqId::LOCAL, slice, EnqFlags::NONE);
                self.urgent.push(scx);
            }
            (None, None) => return false,
        }
        true
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
        self.tree.slice = value;
    }

    fn texts(&self) -> &[TextParam] {
        TEXTS
    }

    fn set_text(&mut self, _index: usize, text: &str) -> Result<(), Vec<Mistake>> {
        self.rules = Rules::read(text)?;
        Ok(())
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, flags: WakeFlags) -> CpuId {
        // Urgent threads pass through their queue, so that the first one gets a CPU that is idle.
        if self.urgent.has(p) {
            return prev_cpu;
        }
        let (cpu, is_idle) = scx.select_cpu_dfl(p, prev_cpu, flags);
        if is_idle && !self.budgets.is_throttled(scx, scx.task_cgroup(p)) {
            scx.dsq_insert(p, DsqId::LOCAL, self.tree.slice(), EnqFlags::NONE);
        }
        cpu
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        if self.urgent.has(p) {
            return self.urgent.enqueue(scx, p);
        }
        self.tree.join(scx, Id::Task(p));
        self.tree.wait(Id::Task(p)); // It is kept: `dispatch` inserts it.
        if !self.budgets.is_throttled(scx, scx.task_cgroup(p))
            && let Some(cpu) = scx.pick_idle_cpu(p, false)
        {
            scx.kick_cpu(cpu, KickFlags::IDLE);
        }
    }

    fn dequeue(&mut self, _scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.urgent.take(p);
        self.tree.rest(Id::Task(p));
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        if self.dispatch_urgent(scx, cpu, prev) {
            return;
        }
        // The task whose turn ends takes part, although it is not enqueued yet.
        let prev = prev.filter(|prev| !self.urgent.has(*prev));
        if let Some(prev) = prev {
            self.end(scx, prev);
            self.tree.wait(Id::Task(prev));
        }
        let mut empty = Vec::new();
        let next = self.tree.pick(scx, cpu, GroupId::ROOT, &self.budgets, &mut empty);
        self.throttle(empty);
        if let Some(prev) = prev {
            self.tree.rest(Id::Task(prev));
        }
        let Some(next) = next else { return };
        self.tree.rest(Id::Task(next));
        let time = self.begin(scx, next);
        if prev == Some(next) {
            scx.set_slice(next, time);
            self.running(scx, next);
        } else {
            if !self.rules.is_empty() {
                self.urgent.decided(cpu, next);
            }
            scx.dsq_insert(next, DsqId::LOCAL, time, EnqFlags::NONE);
        }
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        self.classify(scx, p);
        if self.urgent.has(p) {
            return self.urgent.runnable(scx, p);
        }
        self.tree.join(scx, Id::Task(p));
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        if self.urgent.has(p) {
            let turn = self.urgent.begin(p);
            scx.set_slice(p, turn);
        } else if self.turns[p].is_none() {
            let time = self.begin(scx, p);
            scx.set_slice(p, time);
        }
        let now = scx.now();
        if let Some(turn) = &mut self.turns[p] {
            turn.since = Some(now);
        }
        if !self.rules.is_empty() {
            self.urgent.running(scx, p);
        }
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, _runnable: bool) {
        self.end(scx, p);
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.end(scx, p); // One that was about to run.
        self.urgent.take(p);
        self.tree.leave(Id::Task(p));
    }

    fn yield_(&mut self, scx: &mut Scx, from: TaskId, _to: Option<TaskId>) -> bool {
        if self.urgent.has(from) {
            self.urgent.give_way(from);
        }
        scx.set_slice(from, Duration::ZERO);
        false
    }

    /// A class above has a CPU that was kicked.
    fn cpu_release(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.lose(scx, cpu);
    }

    fn cpu_offline(&mut self, scx: &mut Scx, cpu: CpuId) {
        self.lose(scx, cpu);
    }

    fn set_weight(&mut self, _scx: &mut Scx, p: TaskId, weight: u32) {
        self.tree.weigh(Id::Task(p), weight);
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        self.tree.tasks[p] = Entity::default();
        self.classify(scx, p);
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        self.end(scx, p);
        self.tree.leave(Id::Task(p));
        if !self.rules.is_empty() {
            self.urgent.forget(p);
            self.names[p] = None;
        }
    }

    /// Its rule can be another one: that is looked for when it becomes runnable.
    fn cgroup_move(&mut self, _scx: &mut Scx, p: TaskId, _from: GroupId, _to: GroupId) {
        if !self.rules.is_empty() {
            self.names[p] = None;
        }
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        self.tree.leave(Id::Group(group));
        self.budgets.forget(scx, group);
        (self.tree.groups[group], self.tree.queues[group]) = Default::default();
    }

    fn cgroup_set_weight(&mut self, _scx: &mut Scx, group: GroupId, weight: u32) {
        self.tree.weigh(Id::Group(group), weight);
    }

    fn cgroup_set_bandwidth(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        self.budgets.set(scx, group, limit);
        self.unthrottle(scx);
    }

    fn timer(&mut self, scx: &mut Scx, group: u32) {
        if self.urgent.timer(scx, group) {
            return;
        }
        self.budgets.refill(scx, GroupId(group));
        self.unthrottle(scx);
    }
}
