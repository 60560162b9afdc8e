//! [`RtQueues`]: which real-time tasks wait on which CPU, and which priority each CPU runs, kept
//! for the real-time rules.
//!
//! Only [`Queued`](TaskState::Queued) tasks are included: a task whose wakeup is under way is not
//! on a queue yet, and a task whose group has used its real-time runtime there does not wait for
//! the CPU. O(log n) per record about a real-time task, O(tasks) when a group is throttled or
//! unthrottled, O(1) for all others.

use std::collections::BTreeSet;
use zerolag_model::attr::Prio;
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{CpuId, GroupId, Instant, Record, Settings, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::TaskState;
use zerolag_trace::{IdTable, Replay};

/// The waiting real-time tasks, by CPU and over the machine.
#[derive(Debug, Default)]
pub(crate) struct RtQueues {
    /// The waiting real-time tasks of each CPU, the most urgent first.
    queues: IdTable<CpuId, BTreeSet<(i16, TaskId)>>,
    /// The waiting real-time tasks of the machine, the most urgent first.
    waiting: BTreeSet<(i16, TaskId)>,
    /// Those of them that are allowed on more than one CPU.
    movable: BTreeSet<(i16, TaskId)>,
    /// The position of each task in the sets above, and whether it is in the last.
    places: IdTable<TaskId, Option<(CpuId, i16, bool)>>,
    /// The number of CPUs that run a task of each priority, and the priority counted for each CPU.
    running: RunningPrios,
    groups: Groups,
    /// When real-time tasks of a group were last throttled or unthrottled on each CPU.
    throttled: IdTable<CpuId, Option<Instant>>,
}

/// The number of CPUs that run at each priority.
#[derive(Debug, Default)]
struct RunningPrios {
    counts: Vec<u32>,
    of_cpu: IdTable<CpuId, Option<i16>>,
}

impl RtQueues {
    pub(crate) fn new(settings: &Settings) -> Self {
        let has_servers = settings.rt_group_sched == RtGroupSched::Hcbs;
        Self { groups: Groups::default().with_servers(has_servers), ..Self::default() }
    }

    /// Returns the group whose servers run a task, if there is one.
    pub(crate) fn server_of(&self, task: TaskId) -> Option<GroupId> {
        self.groups.server_of(task)
    }

    /// Returns whether the servers of a group have a runtime.
    pub(crate) fn has_runtime(&self, group: GroupId) -> bool {
        self.groups.server_runtime(group).is_some_and(|(runtime, _)| !runtime.is_zero())
    }

    /// Counts the priority of every CPU's task before the first record.
    pub(crate) fn start(&mut self, replay: &Replay) {
        let cpus: Vec<CpuId> = replay.cpus().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.running.set(cpu, replay.running_prio(cpu));
        }
    }

    /// Follows a record; `after` is the state after it.
    pub(crate) fn follow(&mut self, after: &Replay, record: &Record) {
        self.groups.apply(record);
        match &record.event {
            TraceEvent::Switch { prev, next, .. } => {
                for task in [prev, next].into_iter().flatten() {
                    self.update(after, *task);
                }
                self.running.set(record.cpu, after.running_prio(record.cpu));
            }
            TraceEvent::Waking { task, .. }
            | TraceEvent::Wakeup { task, .. }
            | TraceEvent::Migrate { task, .. }
            | TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::Affinity { task, .. }
            | TraceEvent::TaskNew { task, .. } => {
                self.update(after, *task);
                if let Some(TaskState::Running { on, .. }) = after.task(*task).map(|task| task.state) {
                    self.running.set(on, after.running_prio(on));
                }
            }
            TraceEvent::GroupChange { task, .. } => self.update(after, *task),
            TraceEvent::RtGroupThrottle { .. } => {
                *self.throttled.entry(record.cpu) = Some(record.at);
                let here: Vec<TaskId> =
                    after.tasks().filter(|(_, view)| view.rq == Some(record.cpu)).map(|(task, _)| task).collect();
                for task in here {
                    self.update(after, task);
                }
            }
            // No other event moves a task or changes its priority.
            _ => {}
        }
    }

    fn update(&mut self, after: &Replay, task: TaskId) {
        let place = after.task(task).and_then(|view| match view.state {
            TaskState::Queued { .. } if view.prio.is_rt() && !view.rq.is_some_and(|rq| self.is_stopped(task, rq)) => {
                let is_movable = view.affinity.as_ref().is_none_or(|cpus| cpus.first() != cpus.last());
                Some((view.rq?, view.prio.raw(), is_movable))
            }
            TaskState::Queued { .. }
            | TaskState::Unknown
            | TaskState::Blocked
            | TaskState::Waking { .. }
            | TaskState::Running { .. }
            | TaskState::Dead => None,
        });
        if place.is_none() && self.places.get(task).is_none_or(Option::is_none) {
            return;
        }
        let known = self.places.entry(task);
        if *known == place {
            return;
        }
        if let Some((cpu, prio, is_movable)) = core::mem::replace(known, place) {
            self.queues.entry(cpu).remove(&(prio, task));
            self.waiting.remove(&(prio, task));
            if is_movable {
                self.movable.remove(&(prio, task));
            }
        }
        if let Some((cpu, prio, is_movable)) = place {
            self.queues.entry(cpu).insert((prio, task));
            self.waiting.insert((prio, task));
            if is_movable {
                self.movable.insert((prio, task));
            }
        }
    }

    /// Returns whether the group of a task has used its real-time runtime on a CPU.
    pub(crate) fn is_stopped(&self, task: TaskId, cpu: CpuId) -> bool {
        self.groups.rt_throttled_on(task, cpu).is_some()
    }

    /// Returns whether the tasks of a CPU have waited for its own runtime of a group since some
    /// time or do now. No other CPU pulls a task from behind one of these, and none is told when
    /// they may run again.
    pub(crate) fn has_stopped_since(&self, cpu: CpuId, since: Instant) -> bool {
        self.throttled_at(cpu).is_some_and(|at| at >= since) || self.groups.has_rt_throttled(cpu)
    }

    /// Returns when a group was last throttled or unthrottled on a CPU.
    pub(crate) fn throttled_at(&self, cpu: CpuId) -> Option<Instant> {
        self.throttled.get(cpu).copied().flatten()
    }

    /// Returns the waiting real-time tasks of the machine, the most urgent first.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiting.iter().map(|(_, task)| *task)
    }

    /// Returns those that are allowed on more than one CPU, the most urgent first.
    pub(crate) fn movable(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.movable.iter().map(|(_, task)| *task)
    }

    /// Returns whether a waiting task is one of these.
    pub(crate) fn is_movable(&self, task: TaskId) -> bool {
        self.places.get(task).is_some_and(|place| matches!(place, Some((.., true))))
    }

    /// Returns the CPUs on which real-time tasks wait.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = CpuId> + '_ {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(cpu, _)| cpu)
    }

    /// Returns the waiting real-time tasks of a CPU, the most urgent first.
    pub(crate) fn on(&self, cpu: CpuId) -> impl Iterator<Item = TaskId> + '_ {
        self.queues.get(cpu).into_iter().flatten().map(|(_, task)| *task)
    }

    /// Returns whether the most urgent waiting task would preempt the task of the least urgent CPU.
    /// If not, no rule about waiting tasks can be broken. O(1) except for the search among 183
    /// priorities.
    pub(crate) fn may_preempt_somewhere(&self) -> bool {
        let Some((top, _)) = self.waiting.first() else { return false };
        self.running.lowest().is_some_and(|lowest| *top < lowest)
    }
}

impl RunningPrios {
    fn set(&mut self, cpu: CpuId, prio: Option<Prio>) {
        let prio = prio.map(Prio::raw);
        let before = core::mem::replace(self.of_cpu.entry(cpu), prio);
        if let Some(count) = before.and_then(|before| self.counts.get_mut(index(before))) {
            *count = count.saturating_sub(1);
        }
        if let Some(prio) = prio {
            if self.counts.is_empty() {
                self.counts.resize(index(Prio::RAW_MAX) + 1, 0);
            }
            self.counts[index(prio)] += 1;
        }
    }

    fn lowest(&self) -> Option<i16> {
        let index = self.counts.iter().rposition(|count| *count > 0)?;
        i16::try_from(index).ok().map(|index| index + Prio::STOP.raw())
    }
}

/// The index of a raw priority, -2..=180, in a table.
fn index(raw: i16) -> usize {
    usize::try_from(raw - Prio::STOP.raw()).unwrap_or(0)
}
