//! [`Sharing`]: how well any scheduler shares the machine, by two figures that need no knowledge
//! of it: the time that CPUs idle beside waiting tasks ([`Unused`]), and how far a task falls
//! behind an ideal sharing by weight ([`Ideal`]).
//!
//! Both change only where a task begins or ends to wait or to run, so this module turns records
//! into those changes. A recording of a kernel has neither: it does not say which tasks are
//! throttled, nor where tasks are allowed, so what looks unused need not be.
//!
//! Complexity: O(1) per record for tasks of the root, O(depth x log groups) for tasks of groups;
//! while tasks with several allowed CPUs wait beside idle CPUs, O(masks) more.

mod ideal;
mod unused;

use ideal::{Ideal, Want};
use std::sync::Arc;
use unused::{Place, Unused};
use zerolag_model::{ClassId, CpuId, Duration, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{Replay, TaskState, TaskView};
use zerolag_trace::{IdTable, Meta};

/// Follows a run for the figures of sharing.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    /// The figures are wanted, and the trace says all that they need.
    is_known: bool,
    nr_cpus: usize,
    groups: Groups,
    has_groups: bool,
    tasks: IdTable<TaskId, Member>,
    cpus: IdTable<CpuId, Taken>,
    unused: Unused,
    ideal: Ideal,
}

#[derive(Clone, Debug, Default)]
struct Member {
    /// How it counts as waiting, while it does.
    place: Option<Place>,
    /// Its CPU in [`Taken::grouped`].
    grouped_on: Option<CpuId>,
    /// Its deadline budget is exhausted.
    is_exhausted: bool,
    /// It waits for a lock: with proxy execution it is on a run queue all the same.
    is_blocked: bool,
}

#[derive(Clone, Debug, Default)]
struct Taken {
    /// Its task is not among those that share.
    is_outside: bool,
    is_offline: bool,
    /// The waiting tasks of groups on its run queue: throttling concerns them all.
    grouped: Vec<TaskId>,
}

impl Sharing {
    /// Starts before the first record; `is_wanted` says whether there is anything to do.
    pub(crate) fn new(meta: &Meta, is_wanted: bool) -> Self {
        let nr_cpus = meta.machine.nr_cpus();
        Self {
            is_known: is_wanted && meta.source.is_complete(),
            nr_cpus,
            groups: Groups::new(meta.setting("throttle")),
            has_groups: false,
            tasks: IdTable::default(),
            cpus: IdTable::default(),
            unused: Unused::new(nr_cpus, meta.start),
            ideal: Ideal::new(nr_cpus, meta.start),
        }
    }

    /// Follows a record that the replay has followed.
    pub(crate) fn follow(&mut self, record: &Record, replay: &Replay) {
        if !self.is_known {
            return;
        }
        let (at, cpu) = (record.at, record.cpu);
        match &record.event {
            TraceEvent::Waking { task, .. } | TraceEvent::Wakeup { task, .. } => {
                self.tasks.entry(*task).is_blocked = false;
                self.sync(*task, replay, at);
            }
            TraceEvent::Switch { prev, next, .. } => {
                self.unused.set_idle(cpu, next.is_none() && !self.cpus.entry(cpu).is_offline, at);
                if next.is_none() {
                    self.set_outside(cpu, false, at);
                }
                for task in [prev, next].into_iter().flatten() {
                    self.sync(*task, replay, at);
                }
            }
            TraceEvent::Migrate { task, .. }
            | TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::Affinity { task, .. } => self.sync(*task, replay, at),
            TraceEvent::DlThrottle { task, .. } => {
                self.tasks.entry(*task).is_exhausted = true;
                self.sync(*task, replay, at);
            }
            TraceEvent::DlReplenish { task, .. } => {
                self.tasks.entry(*task).is_exhausted = false;
                self.sync(*task, replay, at);
            }
            TraceEvent::WaitLock { task, .. } => self.tasks.entry(*task).is_blocked = true,
            TraceEvent::TakeLock { task, .. } => {
                self.tasks.entry(*task).is_blocked = false;
                self.sync(*task, replay, at);
            }
            TraceEvent::Hotplug { online } => {
                self.cpus.entry(cpu).is_offline = !online;
                self.unused.set_idle(cpu, *online && replay.cpu(cpu).current.task().is_none(), at);
                self.ideal.set_capacity(if *online { 1 } else { -1 }, at);
            }
            TraceEvent::RtThrottle { .. } => {
                let here = |view: &TaskView| view.waits_since().is_some() && view.rq == Some(cpu);
                let waiting: Vec<TaskId> = replay.tasks().filter(|(_, view)| here(view)).map(|(id, _)| id).collect();
                waiting.into_iter().for_each(|task| self.sync(task, replay, at));
            }
            _ => self.follow_groups(record, replay),
        }
    }

    fn follow_groups(&mut self, record: &Record, replay: &Replay) {
        let at = record.at;
        match &record.event {
            TraceEvent::TaskNew { .. } | TraceEvent::GroupNew { .. } => {
                self.has_groups |= matches!(record.event, TraceEvent::GroupNew { .. });
                self.groups.apply(record);
            }
            TraceEvent::GroupGone { group } => {
                self.groups.apply(record);
                self.ideal.forget(*group);
            }
            TraceEvent::GroupChange { task, .. } => {
                self.ideal.update(*task, None, &self.groups, at);
                self.groups.apply(record);
                self.sync(*task, replay, at);
            }
            TraceEvent::GroupMax { .. } | TraceEvent::GroupWeight { .. } => {
                // Shares are others from here on.
                let sharing: Vec<TaskId> = replay.tasks().map(|(task, _)| task).collect();
                sharing.iter().for_each(|task| self.ideal.update(*task, None, &self.groups, at));
                self.groups.apply(record);
                sharing.into_iter().for_each(|task| self.sync(task, replay, at));
            }
            TraceEvent::Throttle { .. } | TraceEvent::Unthrottle { .. } => {
                self.groups.apply(record);
                let waiting = std::mem::take(&mut self.cpus.entry(record.cpu).grouped);
                self.cpus.entry(record.cpu).grouped.clone_from(&waiting);
                waiting.into_iter().for_each(|task| self.sync(task, replay, at));
            }
            TraceEvent::Boost { task, .. } | TraceEvent::TaskThrottle { task, .. } | TraceEvent::Proxy { task, .. } => {
                self.groups.apply(record);
                self.sync(*task, replay, at);
            }
            _ => {}
        }
    }

    /// Takes over the state of a task.
    fn sync(&mut self, id: TaskId, replay: &Replay, at: Instant) {
        let Some(view) = replay.task(id) else { return };
        let running_on = if let TaskState::Running { on, .. } = view.state { Some(on) } else { None };
        let is_waiting = view.waits_since().is_some();
        if self.has_groups {
            self.index(id, view.rq.filter(|_| is_waiting));
        }
        let place = if is_waiting && self.may_run(id, view, replay) { Some(self.place(view)) } else { None };
        let before = &mut self.tasks.entry(id).place;
        if *before != place {
            self.unused.change(before.as_ref(), place.as_ref(), at);
            *before = place;
        }
        let want = if is_waiting || running_on.is_some() { self.wanted(id, view) } else { None };
        let want = want.map(|weight| Want { weight, runs: running_on.is_some() });
        if let Some(cpu) = running_on {
            self.set_outside(cpu, want.is_none(), at);
        }
        self.ideal.update(id, want, &self.groups, at);
    }

    /// Notes the run queue on which a task of a group waits.
    fn index(&mut self, id: TaskId, on: Option<CpuId>) {
        let on = on.filter(|_| self.groups.path(id).next().is_some());
        let before = std::mem::replace(&mut self.tasks.entry(id).grouped_on, on);
        if before == on {
            return;
        }
        if let Some(cpu) = before {
            self.cpus.entry(cpu).grouped.retain(|task| *task != id);
        }
        if let Some(cpu) = on {
            self.cpus.entry(cpu).grouped.push(id);
        }
    }

    fn set_outside(&mut self, cpu: CpuId, is_outside: bool, at: Instant) {
        let taken = self.cpus.entry(cpu);
        if std::mem::replace(&mut taken.is_outside, is_outside) != is_outside {
            self.ideal.set_capacity(if is_outside { -1 } else { 1 }, at);
        }
    }

    /// Returns whether nothing but a CPU is missing for a waiting task to run.
    fn may_run(&self, id: TaskId, view: &TaskView, replay: &Replay) -> bool {
        let is_held = self.tasks.get(id).is_some_and(|member| member.is_exhausted || member.is_blocked);
        let is_rt_throttled = |cpu| view.prio.class() == ClassId::Rt && replay.cpu(cpu).is_rt_throttled;
        let is_throttled = |cpu| self.has_groups && self.groups.throttled_on(id, cpu).is_some();
        !is_held && !view.rq.is_some_and(|cpu| is_rt_throttled(cpu) || is_throttled(cpu))
    }

    fn place(&self, view: &TaskView) -> Place {
        match &view.affinity {
            Some(cpus) => match cpus.count() {
                1 => cpus.first().map_or(Place::Anywhere, Place::Only),
                count if count < self.nr_cpus => Place::Among(Arc::clone(cpus)),
                _ => Place::Anywhere,
            },
            None => Place::Anywhere,
        }
    }

    /// Returns the weight by which a runnable task shares, if it does: it is a fair task, or one
    /// of a loaded scheduler, that may run on every CPU and has no limit.
    fn wanted(&self, id: TaskId, view: &TaskView) -> Option<u32> {
        let shares = match view.prio.class() {
            ClassId::Fair | ClassId::Ext => matches!(self.place(view), Place::Anywhere),
            _ => false,
        };
        let is_limited = || self.groups.path(id).any(|group| self.groups.limit(group).quota.is_some());
        view.attr.weight().filter(|_| shares && !(self.has_groups && is_limited()))
    }

    /// Counts until the end.
    pub(crate) fn close(&mut self, end: Instant) {
        self.unused.advance(end);
        self.ideal.close(end);
    }

    /// Returns the time that CPUs were idle beside tasks that waited, added up.
    pub(crate) fn unused(&self) -> Option<Duration> {
        self.is_known.then(|| self.unused.total())
    }

    /// Returns the most CPU time by which a task was behind its ideal share; `None` if it never
    /// shared.
    pub(crate) fn lag(&self, task: TaskId) -> Option<Duration> {
        self.ideal.worst(task)
    }
}
