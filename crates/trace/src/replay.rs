//! [`Replay`]: which task runs on which CPU, and which wait where, at every moment of a trace.
//!
//! Checks, metrics and timelines all need this state. Computed in each of them, it would differ in
//! the corner cases of wakeups. So it is computed once, here. It never refuses a record: one that
//! contradicts earlier records is applied, and reporting the contradiction is the task of the
//! checks.
//!
//! ```text
//!            Waking          Wakeup           Switch to it
//!  Blocked ---[1]--> Waking ---[2]--> Queued -----[3]----> Running
//!     ^                                 ^                    |
//!     |                                 +-----[4] preempted--+
//!     +----------------------[5] blocks----------------------+--[6] ends--> Dead
//! ```
//!
//! * A task *waits* from its waking (not its wakeup), or from the switch that preempted it, until
//!   it runs.
//! * It is *queued* from its wakeup on, on the run queue of the wakeup's CPU; a migration moves it.
//! * A task can be woken while it is about to block. In a kernel's trace, a wakeup that is complete
//!   while the task still runs only cancelled its sleep. A wakeup that is not complete takes effect
//!   when the task has been switched out, and so does every such wakeup in a simulation (which
//!   wakes only tasks that have left).
//! * A trace of a running machine begins in the middle: until its first event a task is
//!   [`TaskState::Unknown`] and a CPU runs [`Current::Unknown`].
//!
//! Complexity: O(1) per record.

use crate::meta::Meta;
use crate::table::IdTable;
use std::sync::Arc;
use zerolag_model::attr::{Prio, SchedAttr};
use zerolag_model::{ClassId, CpuId, CpuMask, Instant, PrevState, Record, ServerKind, ServerState, TaskId, TraceEvent};

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TaskState {
    /// The trace has not shown it yet.
    #[default]
    Unknown,
    /// It sleeps, or is new and was never woken.
    Blocked,
    /// It was woken and is not on a run queue yet.
    Waking {
        /// Start of the wait.
        since: Instant,
    },
    /// It is on a run queue and does not run.
    Queued {
        /// Start of the wait.
        since: Instant,
        /// Start of the time on this queue.
        here_since: Instant,
        /// The reason of the wait.
        cause: WaitCause,
    },
    /// It runs.
    Running {
        /// The CPU.
        on: CpuId,
        /// Start of the run.
        since: Instant,
    },
    /// It ended.
    Dead,
}

/// The reason for which a task started to wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitCause {
    /// It was woken.
    Woken,
    /// It was woken for the first time.
    New,
    /// It was preempted or yielded.
    Preempted,
}

impl WaitCause {
    /// Returns the word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Woken => "woken",
            Self::New => "new",
            Self::Preempted => "preempted",
        }
    }
}

/// The known state of a task.
#[derive(Clone, Debug)]
pub struct TaskView {
    /// Its state.
    pub state: TaskState,
    /// The run queue that it is on or, if it is on none, was on last.
    pub rq: Option<CpuId>,
    /// Its effective priority.
    pub prio: Prio,
    /// Its attributes.
    pub attr: SchedAttr,
    /// The CPUs that it may use; `None` if the trace does not contain them.
    pub affinity: Option<Arc<CpuMask>>,
    /// Its name; empty if the trace does not contain it.
    pub name: Arc<str>,
    /// The priority that waiting tasks lend to it.
    boost: Option<Prio>,
    /// A wakeup that started while it still runs.
    early: Option<Early>,
    /// Its next wakeup is its first.
    is_new: bool,
}

#[derive(Clone, Copy, Debug)]
struct Early {
    since: Instant,
    complete: bool,
}

impl Default for TaskView {
    fn default() -> Self {
        let attr = SchedAttr::NORMAL;
        Self {
            state: TaskState::default(),
            rq: None,
            prio: attr.prio(),
            attr,
            affinity: None,
            name: Arc::default(),
            boost: None,
            early: None,
            is_new: false,
        }
    }
}

impl TaskView {
    /// Returns the start of the task's wait, if it waits.
    #[must_use]
    pub const fn waits_since(&self) -> Option<Instant> {
        match self.state {
            TaskState::Waking { since } | TaskState::Queued { since, .. } => Some(since),
            TaskState::Unknown | TaskState::Blocked | TaskState::Running { .. } | TaskState::Dead => None,
        }
    }

    /// Returns the run queue on which it runs or waits as a task of this class, if it does.
    #[must_use]
    pub fn runnable_on(&self, class: ClassId) -> Option<CpuId> {
        match self.state {
            TaskState::Queued { .. } | TaskState::Running { .. } if self.prio.class() == class => self.rq,
            TaskState::Queued { .. }
            | TaskState::Running { .. }
            | TaskState::Unknown
            | TaskState::Blocked
            | TaskState::Waking { .. }
            | TaskState::Dead => None,
        }
    }

    /// Returns whether it may run on a CPU. A task without a recorded affinity may run everywhere.
    #[must_use]
    pub fn may_run_on(&self, cpu: CpuId) -> bool {
        self.affinity.as_ref().is_none_or(|cpus| cpus.contains(cpu))
    }
}

/// The task of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Current {
    /// The trace has not shown it yet.
    #[default]
    Unknown,
    /// The idle task.
    Idle,
    /// A task.
    Task(TaskId),
}

impl Current {
    /// Returns the task, if it is one.
    #[must_use]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Unknown | Self::Idle => None,
        }
    }
}

/// The known state of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuView {
    /// Its task.
    pub current: Current,
    /// Start of the run.
    pub since: Instant,
    /// The number of nested interrupt handlers that it is in.
    pub irq_depth: u32,
    /// When it was asked to reschedule, if it has not switched since.
    pub need_resched_since: Option<Instant>,
    /// When its task began a section that nothing preempts, if it is in one.
    pub no_preempt_since: Option<Instant>,
    /// When it started to spin for a run-queue lock, if it spins.
    pub spins_since: Option<Instant>,
    /// Whether its real-time tasks are throttled (RT throttling).
    pub is_rt_throttled: bool,
    /// Its root domain.
    pub root_domain: u32,
    /// Whether it is online.
    pub presence: Presence,
    /// The state of its fair server, if the trace contains it.
    pub fair_server: Option<ServerState>,
    /// The state of the server of a loaded scheduler's tasks, if the trace contains it.
    pub ext_server: Option<ServerState>,
}

/// Whether a CPU is online, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Since this time; from the start if the trace does not contain it.
    Online(Instant),
    /// It has gone offline.
    Offline,
}

impl Default for Presence {
    fn default() -> Self {
        Self::Online(Instant::ZERO)
    }
}

impl CpuView {
    /// Returns since when it is online; `None` while it is offline.
    #[must_use]
    pub const fn online_since(&self) -> Option<Instant> {
        match self.presence {
            Presence::Online(since) => Some(since),
            Presence::Offline => None,
        }
    }

    /// Returns the state of one of its deadline servers, if the trace contains it.
    #[must_use]
    pub const fn server(&self, kind: ServerKind) -> Option<ServerState> {
        match kind {
            ServerKind::Fair => self.fair_server,
            ServerKind::Ext => self.ext_server,
        }
    }

    /// Returns whether fair tasks, those of a loaded scheduler, or none, may run here although
    /// real-time tasks wait.
    #[must_use]
    pub const fn has_fair_floor(&self) -> bool {
        self.is_rt_throttled
            || matches!(self.fair_server, Some(ServerState::Queued { .. }))
            || matches!(self.ext_server, Some(ServerState::Queued { .. }))
    }
}

/// The tasks and CPUs at one moment of a trace.
#[derive(Clone, Debug)]
pub struct Replay {
    tasks: IdTable<TaskId, TaskView>,
    cpus: IdTable<CpuId, CpuView>,
    is_complete: bool,
    /// Whether events are missing before this part of the trace.
    has_forgotten: bool,
    /// The thread ids of a kernel's recording, in order of task.
    tids: Arc<[u32]>,
}

impl Replay {
    /// Returns the state before the first record.
    #[must_use]
    pub fn new(meta: &Meta) -> Self {
        let is_complete = meta.source.is_complete();
        let mut cpus = IdTable::with_first(meta.machine.nr_cpus());
        for (_, cpu) in cpus.iter_mut() {
            let current = if is_complete { Current::Idle } else { Current::Unknown };
            *cpu = CpuView { current, since: meta.start, ..CpuView::default() };
        }
        let tids = meta.recorded.threads.iter().map(|thread| thread.tid).collect();
        Self { tasks: IdTable::default(), cpus, is_complete, has_forgotten: false, tids }
    }

    /// Returns the thread id of a task, if it was recorded on a kernel.
    #[must_use]
    pub fn tid(&self, task: TaskId) -> Option<u32> {
        self.tids.get(task.index()).copied()
    }

    /// Returns the known state of a task.
    #[must_use]
    pub fn task(&self, task: TaskId) -> Option<&TaskView> {
        self.tasks.get(task)
    }

    /// Returns the known state of a CPU.
    #[must_use]
    pub fn cpu(&self, cpu: CpuId) -> CpuView {
        self.cpus.get(cpu).copied().unwrap_or_default()
    }

    /// Returns all tasks in order of id.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &TaskView)> {
        self.tasks.iter()
    }

    /// Returns all CPUs in order of id.
    pub fn cpus(&self) -> impl Iterator<Item = (CpuId, CpuView)> {
        self.cpus.iter().map(|(cpu, view)| (cpu, *view))
    }

    /// Returns the effective priority of a CPU's task; [`Prio::IDLE`] if it idles, `None` if
    /// unknown.
    #[must_use]
    pub fn running_prio(&self, cpu: CpuId) -> Option<Prio> {
        match self.cpu(cpu).current {
            Current::Unknown => None,
            Current::Idle => Some(Prio::IDLE),
            Current::Task(task) => self.tasks.get(task).map(|task| task.prio),
        }
    }

    /// Follows a record.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    pub fn apply(&mut self, record: &Record) {
        let at = record.at;
        match &record.event {
            TraceEvent::TaskNew { task, name, parent, attr, .. } => {
                let known = self.is_complete || parent.is_some();
                *self.tasks.entry(*task) = TaskView {
                    state: if known { TaskState::Blocked } else { TaskState::Unknown },
                    prio: attr.prio(),
                    attr: *attr,
                    name: Arc::clone(name),
                    // A task that a recording shows first was created before.
                    is_new: known,
                    ..TaskView::default()
                };
            }
            TraceEvent::Waking { task, prio, new, .. } => self.waking(*task, *prio, *new, at),
            TraceEvent::Wakeup { task, prio } => self.wakeup(*task, *prio, record.cpu, at),
            TraceEvent::Switch { prev, prev_state, next, next_prio } => {
                if let Some(prev) = prev {
                    self.switch_out(*prev, *prev_state, record.cpu, at);
                }
                if let Some(next) = next {
                    let task = self.tasks.entry(*next);
                    // [3] Queued -> Running
                    task.state = TaskState::Running { on: record.cpu, since: at };
                    task.rq = Some(record.cpu);
                    task.early = None;
                    set_prio(task, *next_prio);
                }
                let cpu = self.cpus.entry(record.cpu);
                cpu.current = next.map_or(Current::Idle, Current::Task);
                cpu.since = at;
                cpu.need_resched_since = None;
                cpu.no_preempt_since = None;
            }
            TraceEvent::Migrate { task, prio, to, .. } => {
                let task = self.tasks.entry(*task);
                task.rq = Some(*to);
                set_prio(task, *prio);
                if let TaskState::Queued { here_since, .. } = &mut task.state {
                    *here_since = at;
                }
            }
            TraceEvent::AttrChange { task, attr } => {
                let task = self.tasks.entry(*task);
                task.attr = *attr;
                task.prio = task.boost.filter(|boost| boost.beats(attr.prio())).unwrap_or(attr.prio());
            }
            TraceEvent::PrioInherit { task, to, .. } => set_prio(self.tasks.entry(*task), *to),
            TraceEvent::Proxy { task, prio, .. } => set_prio(self.tasks.entry(*task), *prio),
            TraceEvent::Affinity { task, cpus } => self.tasks.entry(*task).affinity = Some(Arc::clone(cpus)),
            TraceEvent::NeedResched { .. } => {
                // Recorded for new requests only: an earlier one was obeyed by picking the same
                // task, which no switch shows.
                self.cpus.entry(record.cpu).need_resched_since = Some(at);
            }
            TraceEvent::IrqEnter { .. } => {
                let cpu = self.cpus.entry(record.cpu);
                cpu.irq_depth = cpu.irq_depth.saturating_add(1);
            }
            TraceEvent::IrqExit { .. } => {
                let cpu = self.cpus.entry(record.cpu);
                cpu.irq_depth = cpu.irq_depth.saturating_sub(1);
            }
            TraceEvent::Hotplug { online } => {
                self.cpus.entry(record.cpu).presence = if *online { Presence::Online(at) } else { Presence::Offline };
            }
            TraceEvent::RootDomain { domain } => self.cpus.entry(record.cpu).root_domain = *domain,
            TraceEvent::RtThrottle { throttled } => self.cpus.entry(record.cpu).is_rt_throttled = *throttled,
            TraceEvent::Server { kind: ServerKind::Fair, state } => {
                self.cpus.entry(record.cpu).fair_server = Some(*state);
            }
            TraceEvent::Server { kind: ServerKind::Ext, state } => {
                self.cpus.entry(record.cpu).ext_server = Some(*state);
            }
            TraceEvent::NoPreempt { disables, .. } => {
                let since = &mut self.cpus.entry(record.cpu).no_preempt_since;
                *since = disables.map(|_| since.unwrap_or(at));
            }
            TraceEvent::LockContended { .. } => self.cpus.entry(record.cpu).spins_since = Some(at),
            TraceEvent::LockAcquired { .. } => self.cpus.entry(record.cpu).spins_since = None,
            // No task starts or stops to run or wait. A task that exits still runs until its last
            // switch.
            _ => {}
        }
    }

    /// Forgets the state of every task and CPU, because events are missing: at this time they are
    /// as at the start of a recording. Names, attributes and affinities are kept.
    pub fn forget(&mut self, at: Instant) {
        self.has_forgotten = true;
        for (_, task) in self.tasks.iter_mut() {
            task.is_new = false;
            if task.state != TaskState::Dead {
                task.state = TaskState::Unknown;
                task.rq = None;
            }
        }
        for (_, cpu) in self.cpus.iter_mut() {
            let known = *cpu;
            *cpu = CpuView {
                since: at,
                root_domain: known.root_domain,
                presence: known.presence,
                is_rt_throttled: known.is_rt_throttled,
                fair_server: known.fair_server,
                ext_server: known.ext_server,
                ..CpuView::default()
            };
        }
    }

    fn waking(&mut self, task: TaskId, prio: Prio, new: bool, at: Instant) {
        let task = self.tasks.entry(task);
        set_prio(task, prio);
        match task.state {
            TaskState::Unknown | TaskState::Blocked => {
                // [1] Blocked -> Waking
                task.state = TaskState::Waking { since: at };
                task.is_new = new;
            }
            TaskState::Running { .. } => task.early = Some(Early { since: at, complete: false }),
            TaskState::Waking { .. } | TaskState::Queued { .. } | TaskState::Dead => {}
        }
    }

    fn wakeup(&mut self, task: TaskId, prio: Prio, cpu: CpuId, at: Instant) {
        let is_complete = self.is_complete;
        let task = self.tasks.entry(task);
        set_prio(task, prio);
        let cause = if core::mem::take(&mut task.is_new) { WaitCause::New } else { WaitCause::Woken };
        match task.state {
            // [2] Waking -> Queued; some recorders do not show the waking.
            TaskState::Waking { since } => {
                task.rq = Some(cpu);
                task.state = TaskState::Queued { since, here_since: at, cause };
            }
            TaskState::Unknown | TaskState::Blocked => {
                task.rq = Some(cpu);
                task.state = TaskState::Queued { since: at, here_since: at, cause };
            }
            TaskState::Running { .. } if is_complete => {
                task.rq = Some(cpu);
                if let Some(early) = &mut task.early {
                    early.complete = true;
                }
            }
            TaskState::Running { .. } => task.early = None,
            TaskState::Queued { .. } | TaskState::Dead => {}
        }
    }

    fn switch_out(&mut self, task: TaskId, state: PrevState, cpu: CpuId, at: Instant) {
        let has_forgotten = self.has_forgotten;
        let task = self.tasks.entry(task);
        // A waking that overtook this switch can be among the missing events.
        let is_doubtful = has_forgotten && task.state == TaskState::Unknown;
        if !matches!(task.state, TaskState::Running { on, .. } if on == cpu) {
            // It was not known to run here; its former queue does not count any more.
            task.rq = Some(cpu);
        }
        let rq = task.rq.get_or_insert(cpu);
        let cause = WaitCause::Preempted;
        task.state = match (state, task.early.take()) {
            // [4] Running -> Queued
            (PrevState::Runnable | PrevState::Idle, _) => TaskState::Queued { since: at, here_since: at, cause },
            // [5] Running -> Blocked, unless a wakeup came first.
            (PrevState::Blocked, None) => {
                *rq = cpu;
                if is_doubtful { TaskState::Unknown } else { TaskState::Blocked }
            }
            (PrevState::Blocked, Some(Early { since, complete: false })) => TaskState::Waking { since },
            (PrevState::Blocked, Some(Early { since, complete: true })) => {
                TaskState::Queued { since, here_since: at, cause: WaitCause::Woken }
            }
            // [6] Running -> Dead
            (PrevState::Dead, _) => TaskState::Dead,
        };
    }
}

fn set_prio(task: &mut TaskView, prio: Prio) {
    task.prio = prio;
    task.boost = (prio != task.attr.prio()).then_some(prio);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{Machine, Source};

    fn replay(source: Source, events: &[(u64, u32, TraceEvent)]) -> Replay {
        let mut replay = Replay::new(&Meta::new(source, Machine::Cpus(2)));
        for (at, cpu, event) in events {
            replay.apply(&Record { at: Instant::from_nanos(*at), cpu: CpuId(*cpu), event: event.clone() });
        }
        replay
    }

    const T: TaskId = TaskId(0);
    const P: Prio = Prio::from_nice(zerolag_model::Nice::ZERO);

    fn waking() -> TraceEvent {
        TraceEvent::Waking { task: T, prio: P, target: CpuId(1), new: false }
    }
    fn switch(prev: Option<TaskId>, prev_state: PrevState, next: Option<TaskId>) -> TraceEvent {
        TraceEvent::Switch { prev, prev_state, next, next_prio: P }
    }

    #[test]
    fn a_wakeup_that_overtakes_the_switch_is_not_lost() {
        let run = (1, 0, switch(None, PrevState::Idle, Some(T)));
        let out = switch(Some(T), PrevState::Blocked, None);
        let wakeup = TraceEvent::Wakeup { task: T, prio: P };
        // Linux: waking, then the switch, then the wakeup.
        let late = replay(Source::Text, &[run.clone(), (2, 1, waking()), (3, 0, out.clone()), (4, 1, wakeup.clone())]);
        let queued = TaskState::Queued {
            since: Instant::from_nanos(2),
            here_since: Instant::from_nanos(4),
            cause: WaitCause::Woken,
        };
        assert_eq!(late.task(T).unwrap().state, queued);
        // Linux: a wakeup that ended before the task slept again.
        let over = [run, (2, 1, waking()), (2, 1, wakeup), (3, 0, out)];
        assert_eq!(replay(Source::Text, &over).task(T).unwrap().state, TaskState::Blocked);
        // A simulation wakes only tasks that have left: the record of the switch comes late.
        let early = replay(Source::Simulation, &over);
        assert_eq!(early.task(T).unwrap().waits_since(), Some(Instant::from_nanos(2)));
        assert_eq!(early.task(T).unwrap().rq, Some(CpuId(1)));
        assert_eq!(early.cpu(CpuId(0)).current, Current::Idle);
    }

    #[test]
    fn a_boost_outlives_a_change_of_attributes() {
        let rt = |value| zerolag_model::RtPriority::new(value).unwrap();
        let boosted = [
            (0, 0, TraceEvent::PrioInherit { task: T, from: P, to: Prio::from_rt(rt(50)) }),
            (1, 0, TraceEvent::AttrChange { task: T, attr: SchedAttr::fifo(rt(10)) }),
        ];
        let mut after = replay(Source::Simulation, &boosted);
        assert_eq!(after.task(T).unwrap().prio, Prio::from_rt(rt(50)));
        let event = TraceEvent::PrioInherit { task: T, from: Prio::from_rt(rt(50)), to: Prio::from_rt(rt(10)) };
        after.apply(&Record { at: Instant::from_nanos(2), cpu: CpuId(0), event });
        assert_eq!(after.task(T).unwrap().prio, Prio::from_rt(rt(10)));
    }

    #[test]
    fn a_task_moved_while_it_leaves_waits_where_it_was_moved_to() {
        let reason = zerolag_model::MigrateReason::Affinity;
        let moved = replay(
            Source::Simulation,
            &[
                (1, 0, switch(None, PrevState::Idle, Some(T))),
                (2, 0, TraceEvent::Migrate { task: T, prio: P, from: CpuId(0), to: CpuId(1), reason }),
                (2, 0, switch(Some(T), PrevState::Runnable, None)),
            ],
        );
        assert_eq!(moved.task(T).unwrap().rq, Some(CpuId(1)));
    }
}
