//! `flatcg`: groups share by weight on one level, whatever their depth, within their limits
//! (`scx_flatcg` of the kernel's `tools/sched_ext`, which was read for its facts).
//!
//! A scheduler that respects a tree of groups asks level by level which group comes next. This one
//! *flattens* the tree: the share of a group is the product of its shares at each level, among the
//! groups that have runnable tasks.
//!
//! ```text
//!  root ─┬─ a (100) ─┬─ b (100)     b: 1/2 of a, a: 1/3 of the root: 1/6
//!        │           └─ c (100)     c: 1/6
//!        └─ d (200)                 d: 2/3
//! ```
//!
//! All groups are in one order by virtual time, which passes for a group at the inverse of its
//! share. The first group gives the next task: that of its own queue with the least virtual time,
//! by weight, as in [`Vtime`](super::Vtime). The virtual time of a turn is charged when the turn
//! begins, so that several CPUs do not all choose the same group, and corrected when it ends. A
//! group that wakes, or may run again, is at most as far behind the others as all CPUs get in one
//! slice.
//!
//! The tasks of a group that has groups with runnable tasks below it count as one more group of
//! weight 100.
//!
//! A group whose limit is used up ([`Budgets`]) is out of the order until its period ends.
//!
//! A turn lasts the slice of the machine at most. Nothing is preempted.
//!
//! The price of the flattening is that the shares follow changes late: of many groups that wake
//! below one, each is charged by the share that it had when its turn ended.
//!
//! differs: `scx_flatcg` ignores limits, stays with a group for a slice of 20 ms on each CPU, and
//! lets tasks that are bound to CPUs bypass the order.

use super::budgets::Budgets;
use crate::ops::{Ops, Policy};
use crate::scx::Scx;
use crate::storage::{PerGroup, PerTask};
use crate::words::{DeqFlags, DsqId, EnqFlags, KickFlags, OpsFlags, WakeFlags};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Instant, TaskId};

/// The share of a group that is alone.
const WHOLE: u64 = 1 << 20;
/// The weight of the tasks of a group among the groups below it.
const OWN: u64 = 100;

/// Groups share by weight on one level.
#[derive(Clone, Debug, Default)]
pub struct Flatcg {
    groups: PerGroup<Group>,
    /// The groups with waiting tasks that are not throttled, by virtual time.
    order: BTreeSet<(u64, GroupId)>,
    /// The virtual time of the group whose task began to run last.
    vtime_now: u64,
    turns: PerTask<Option<Turn>>,
    /// The group in which a task counts as runnable.
    counted: PerTask<Option<GroupId>>,
    budgets: Budgets,
}

#[derive(Clone, Debug, Default)]
struct Group {
    has_queue: bool,
    /// It is in the order, or among the throttled ones.
    is_queued: bool,
    vtime: u64,
    /// The virtual time of its task that began to run last.
    tasks_now: u64,
    /// Its runnable tasks.
    runnable: u32,
    /// Its tasks, if any are runnable, and the groups below it that have such.
    active: u32,
    /// The weights of those groups.
    weight_below: u64,
    /// The weight with which the group above counts it.
    counted: u64,
}

/// A turn of a task, from the decision to its end.
#[derive(Clone, Copy, Debug)]
struct Turn {
    group: GroupId,
    /// It runs since then.
    began: Option<Instant>,
    /// Its time, which its group has been charged for.
    time: Duration,
    charged: u64,
}

/// Returns the queue of a group.
const fn queue_of(group: GroupId) -> DsqId {
    DsqId(group.0 as u64)
}

/// Shares.
impl Flatcg {
    /// A task of a group is runnable, the first one or a further one.
    fn count(&mut self, scx: &Scx, p: TaskId) {
        let group = scx.task_cgroup(p);
        if self.counted[p].replace(group).is_some() {
            return;
        }
        self.groups[group].runnable += 1;
        let (mut at, mut is_new) = (group, self.groups[group].runnable == 1);
        while core::mem::take(&mut is_new) {
            self.groups[at].active += 1;
            let Some(parent) = scx.cgroup_parent(at).filter(|_| self.groups[at].active == 1) else { return };
            let weight = u64::from(scx.cgroup_weight(at));
            self.groups[at].counted = weight;
            self.groups[parent].weight_below += weight;
            (at, is_new) = (parent, true);
        }
    }

    /// A task is no longer runnable.
    fn discount(&mut self, scx: &Scx, p: TaskId) {
        let Some(group) = self.counted[p].take() else { return };
        self.groups[group].runnable = self.groups[group].runnable.saturating_sub(1);
        let (mut at, mut is_gone) = (group, self.groups[group].runnable == 0);
        while core::mem::take(&mut is_gone) {
            self.groups[at].active = self.groups[at].active.saturating_sub(1);
            let Some(parent) = scx.cgroup_parent(at).filter(|_| self.groups[at].active == 0) else { return };
            let weight = core::mem::take(&mut self.groups[at].counted);
            self.groups[parent].weight_below = self.groups[parent].weight_below.saturating_sub(weight);
            (at, is_gone) = (parent, true);
        }
    }

    /// Returns the share of the tasks of a group: the product of all levels.
    fn share(&self, scx: &Scx, group: GroupId) -> u64 {
        let mut share = WHOLE * OWN / (OWN + self.groups[group].weight_below);
        let mut at = group;
        while let Some(parent) = scx.cgroup_parent(at) {
            let (weight, above) = (self.groups[at].counted, &self.groups[parent]);
            let of_tasks = if above.runnable > 0 { OWN } else { 0 };
            share = share * weight / (above.weight_below + of_tasks).max(1);
            at = parent;
        }
        share.max(1)
    }

    /// Returns the virtual time that passes for a group while a task of it runs.
    fn vtime_of(&self, scx: &Scx, group: GroupId, time: Duration) -> u64 {
        time.mul_div_floor(WHOLE, self.share(scx, group)).as_nanos()
    }

    fn set_vtime(&mut self, group: GroupId, vtime: u64) {
        let had = core::mem::replace(&mut self.groups[group].vtime, vtime);
        if self.order.remove(&(had, group)) {
            self.order.insert((vtime, group));
        }
    }
}

/// Turns.
impl Flatcg {
    /// A task is about to run: its group is charged for a turn.
    fn begin(&mut self, scx: &mut Scx, p: TaskId) {
        let group = scx.task_cgroup(p);
        // One that a CPU takes although its group is throttled meanwhile runs to the next tick.
        let time = self.budgets.turn(scx, group).max(Duration::from_nanos(1));
        let charged = self.vtime_of(scx, group, time);
        self.budgets.take(scx, group, time);
        self.set_vtime(group, self.groups[group].vtime.saturating_add(charged));
        self.turns[p] = Some(Turn { group, began: None, time, charged });
        scx.set_slice(p, time);
    }

    /// A turn is over: its group is charged for what it has used.
    fn end(&mut self, scx: &mut Scx, p: TaskId) {
        let Some(Turn { group, began, time, charged }) = self.turns[p].take() else { return };
        let used = began.map_or(Duration::ZERO, |began| scx.now().since(began));
        let vtime = self.groups[group].vtime.saturating_sub(charged);
        self.set_vtime(group, vtime.saturating_add(self.vtime_of(scx, group, used)));
        let of_task = used.mul_div_floor(100, u64::from(scx.weight(p).max(1)));
        scx.set_dsq_vtime(p, scx.dsq_vtime(p).saturating_add(of_task.as_nanos()));
        self.budgets.settle(scx, group, time, used);
        if used < time {
            self.unthrottle(scx);
        }
    }

    /// A group takes part from now on: it has saved up one slice of all CPUs at most.
    fn put_in_order(&mut self, scx: &Scx, group: GroupId) {
        let saved = scx.slice_dfl().as_nanos().saturating_mul(scx.nr_cpus() as u64);
        let vtime = self.groups[group].vtime.max(self.vtime_now.saturating_sub(saved));
        self.groups[group].vtime = vtime;
        self.order.insert((vtime, group));
    }

    /// Groups whose pools have time again take part.
    fn unthrottle(&mut self, scx: &mut Scx) {
        for group in self.budgets.release(|budgets, group| budgets.is_throttled(scx, group)) {
            self.put_in_order(scx, group);
            let waiting: Vec<TaskId> = scx.dsq_iter(queue_of(group)).collect();
            for p in waiting {
                let Some(cpu) = scx.pick_idle_cpu(p, false) else { continue };
                scx.kick_cpu(cpu, KickFlags::IDLE);
            }
        }
    }

    /// Returns the group that comes first of those with a task that may run on a CPU, and the task.
    fn first(&mut self, scx: &Scx, cpu: CpuId) -> Option<(GroupId, TaskId)> {
        let (mut out, mut found) = (Vec::new(), None);
        for (vtime, group) in &self.order {
            let (group, queue) = (*group, queue_of(*group));
            if scx.dsq_nr_queued(queue) == 0 || self.budgets.is_throttled(scx, group) {
                out.push((*vtime, group));
            } else if let Some(p) = scx.dsq_iter(queue).find(|p| scx.allowed(*p, cpu)) {
                found = Some((group, p));
                break;
            }
        }
        for (vtime, group) in out {
            self.order.remove(&(vtime, group));
            if scx.dsq_nr_queued(queue_of(group)) == 0 {
                self.groups[group].is_queued = false;
            } else {
                self.budgets.hold(group);
            }
        }
        found
    }
}

impl Policy for Flatcg {
    fn ops(&self) -> Ops {
        // A task whose group is throttled must not go on because it is alone.
        Ops { flags: OpsFlags::ENQ_LAST, ..Ops::named("flatcg") }
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, flags: WakeFlags) -> CpuId {
        let (cpu, is_idle) = scx.select_cpu_dfl(p, prev_cpu, flags);
        if is_idle && !self.budgets.is_throttled(scx, scx.task_cgroup(p)) {
            scx.dsq_insert(p, DsqId::LOCAL, scx.slice_dfl(), EnqFlags::NONE);
        }
        cpu
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        let (group, slice) = (scx.task_cgroup(p), scx.slice_dfl());
        if !core::mem::replace(&mut self.groups[group].has_queue, true)
            && let Err(error) = scx.create_dsq(queue_of(group))
        {
            return scx.error(&alloc::format!("{error}"));
        }
        let vtime = scx.dsq_vtime(p).max(self.groups[group].tasks_now.saturating_sub(slice.as_nanos()));
        scx.dsq_insert_vtime(p, queue_of(group), slice, vtime, flags);
        if !core::mem::replace(&mut self.groups[group].is_queued, true) {
            self.put_in_order(scx, group);
        }
        if !self.budgets.is_throttled(scx, group)
            && let Some(cpu) = scx.pick_idle_cpu(p, false)
        {
            scx.kick_cpu(cpu, KickFlags::IDLE);
        }
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        // The task whose turn ends is not on a queue yet.
        if let Some(prev) = prev {
            self.end(scx, prev);
        }
        let first = self.first(scx, cpu);
        if let Some(prev) = prev {
            let own = scx.task_cgroup(prev);
            let goes_on = match first {
                None => true,
                Some((group, p)) if group == own => scx.dsq_vtime(prev) <= scx.dsq_vtime(p),
                Some((group, _)) => self.groups[own].vtime <= self.groups[group].vtime,
            };
            if goes_on && !self.budgets.is_throttled(scx, own) {
                self.begin(scx, prev);
                return self.running(scx, prev);
            }
        }
        if let Some((_, p)) = first {
            self.begin(scx, p);
            scx.dsq_move(p, DsqId::LOCAL, EnqFlags::NONE);
        }
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        self.count(scx, p);
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        if self.turns[p].is_none() {
            self.begin(scx, p);
        }
        let now = scx.now();
        if let Some(turn) = &mut self.turns[p] {
            turn.began = Some(now);
            let (group, charged) = (turn.group, turn.charged);
            self.vtime_now = self.vtime_now.max(self.groups[group].vtime.saturating_sub(charged));
            let tasks_now = self.groups[group].tasks_now.max(scx.dsq_vtime(p));
            self.groups[group].tasks_now = tasks_now;
        }
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, _runnable: bool) {
        self.end(scx, p);
    }

    fn quiescent(&mut self, scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.end(scx, p); // One that was about to run.
        self.discount(scx, p);
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        scx.set_dsq_vtime(p, self.groups[scx.task_cgroup(p)].tasks_now);
    }

    fn disable(&mut self, scx: &mut Scx, p: TaskId) {
        self.end(scx, p);
        self.discount(scx, p);
    }

    fn cgroup_move(&mut self, scx: &mut Scx, p: TaskId, _from: GroupId, to: GroupId) {
        scx.set_dsq_vtime(p, self.groups[to].tasks_now);
        if self.counted[p].is_some() {
            self.discount(scx, p);
            self.count(scx, p);
        }
    }

    fn cgroup_exit(&mut self, scx: &mut Scx, group: GroupId) {
        let Group { has_queue, vtime, counted, .. } = core::mem::take(&mut self.groups[group]);
        if let Some(parent) = scx.cgroup_parent(group) {
            self.groups[parent].weight_below = self.groups[parent].weight_below.saturating_sub(counted);
        }
        self.order.remove(&(vtime, group));
        self.budgets.forget(scx, group);
        if has_queue {
            scx.destroy_dsq(queue_of(group));
        }
    }

    fn cgroup_set_weight(&mut self, scx: &mut Scx, group: GroupId, weight: u32) {
        let state = &mut self.groups[group];
        if state.active > 0
            && let Some(parent) = scx.cgroup_parent(group)
        {
            let had = core::mem::replace(&mut state.counted, weight.into());
            let below = &mut self.groups[parent].weight_below;
            *below = below.saturating_sub(had) + u64::from(weight);
        }
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
