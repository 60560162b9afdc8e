//! [`Follower`]: a row per event of a run.
//!
//! A summary says how long tasks waited, and not when. These rows do; they need memory for each
//! event, so a caller names those that it wants ([`Kept`]). [`Replay`] decides what a wait is, so
//! the rows add up to the figures of [`crate::Metrics`].
//!
//! Complexity: O(1) per record, O(log open requests) for requests.

use super::columns::{Frame, Of};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::event::RequestStep;
use zerolag_model::{CpuId, Duration, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::replay::{Replay, TaskState, WaitCause};
use zerolag_trace::{Meta, Trace};

/// The kinds of rows that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// A row per switch.
    pub switches: bool,
    /// A row per wait.
    pub waits: bool,
    /// A row per request of a service.
    pub requests: bool,
}

impl Kept {
    /// All kinds.
    pub const ALL: Self = Self { switches: true, waits: true, requests: true };

    /// Returns whether any kind is kept.
    #[must_use]
    pub const fn any(self) -> bool {
        self.switches || self.waits || self.requests
    }
}

/// A switch of a CPU from one task to another; `None` is idle.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// When.
    pub at: Instant,
    /// The CPU.
    pub cpu: CpuId,
    /// The task that ran.
    pub prev: Option<TaskId>,
    /// Why it left the CPU; `None` if the CPU was idle.
    pub why: Option<PrevState>,
    /// The task that runs now.
    pub next: Option<TaskId>,
}

/// A time in which a task was runnable and did not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitRow {
    /// The task.
    pub task: TaskId,
    /// Start of the wait.
    pub from: Instant,
    /// End of the wait.
    pub to: Instant,
    /// The CPU that then ran it; `None` if the trace ended first.
    pub cpu: Option<CpuId>,
    /// The reason for which it began to wait.
    pub cause: WaitCause,
}

/// A request of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The service.
    pub service: Arc<str>,
    /// Its number, from 0 in the order of arrival.
    pub number: u64,
    /// The intended arrival.
    pub due: Instant,
    /// When a worker took it.
    pub started: Option<Instant>,
    /// When it was done.
    pub ended: Option<Instant>,
    /// The worker.
    pub worker: Option<TaskId>,
    /// Whether it found the queue full.
    pub dropped: bool,
}

/// The rows of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    /// In order of time; empty if they were not kept.
    pub switches: Vec<Switch>,
    /// In the order in which they ended; empty if they were not kept.
    pub waits: Vec<WaitRow>,
    /// In order of arrival; empty if they were not kept.
    pub requests: Vec<Request>,
    /// The names of tasks, by id.
    names: BTreeMap<TaskId, Arc<str>>,
}

/// Follows records and keeps rows.
#[derive(Debug)]
pub struct Follower {
    kept: Kept,
    replay: Replay,
    rows: Rows,
    queues: BTreeMap<u32, Arc<str>>,
    /// The rows of requests that are not done.
    open: BTreeMap<(u32, u64), usize>,
    last: Instant,
}

impl Follower {
    /// Starts before the first record.
    #[must_use]
    pub fn new(meta: &Meta, kept: Kept) -> Self {
        Self {
            kept,
            replay: Replay::new(meta),
            rows: Rows::default(),
            queues: BTreeMap::new(),
            open: BTreeMap::new(),
            last: meta.start,
        }
    }

    /// Follows a whole trace.
    #[must_use]
    pub fn of(trace: &Trace, kept: Kept) -> Rows {
        let mut follower = Self::new(&trace.meta, kept);
        trace.records.iter().for_each(|record| follower.observe(record));
        follower.finish(trace.meta.end)
    }

    /// Follows a record.
    pub fn observe(&mut self, record: &Record) {
        self.last = self.last.max(record.at);
        match &record.event {
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if self.kept.switches {
                    let why = prev.map(|_| *prev_state);
                    self.rows.switches.push(Switch { at: record.at, cpu: record.cpu, prev: *prev, why, next: *next });
                }
                if let Some(next) = next.filter(|_| self.kept.waits) {
                    self.end_wait(next, record.at, Some(record.cpu));
                }
            }
            TraceEvent::QueueNew { queue, name } => {
                self.queues.insert(*queue, Arc::clone(name));
            }
            TraceEvent::Request { queue, request, step } if self.kept.requests => {
                self.request(*queue, *request, *step, record.at);
            }
            _ => {}
        }
        self.replay.apply(record);
    }

    fn end_wait(&mut self, task: TaskId, to: Instant, cpu: Option<CpuId>) {
        let Some(view) = self.replay.task(task) else { return };
        let Some(from) = view.waits_since() else { return };
        let cause = match view.state {
            TaskState::Queued { cause, .. } => cause,
            TaskState::Unknown
            | TaskState::Blocked
            | TaskState::Waking { .. }
            | TaskState::Running { .. }
            | TaskState::Dead => WaitCause::Woken,
        };
        self.rows.waits.push(WaitRow { task, from, to, cpu, cause });
    }

    fn request(&mut self, queue: u32, number: u64, step: RequestStep, at: Instant) {
        if let RequestStep::Arrive { due } = step {
            let service = self.queues.entry(queue).or_insert_with(|| format!("queue {queue}").into());
            self.open.insert((queue, number), self.rows.requests.len());
            let service = Arc::clone(service);
            let row = Request { service, number, due, started: None, ended: None, worker: None, dropped: false };
            self.rows.requests.push(row);
            return;
        }
        // The beginning of a recording can lack the arrival.
        let Some(place) = self.open.get(&(queue, number)).copied() else { return };
        let row = &mut self.rows.requests[place];
        match step {
            RequestStep::Arrive { .. } => {}
            RequestStep::Start { task } => (row.started, row.worker) = (Some(at), Some(task)),
            RequestStep::End { .. } => row.ended = Some(at),
            RequestStep::Drop => row.dropped = true,
        }
        if row.ended.is_some() || row.dropped {
            self.open.remove(&(queue, number));
        }
    }

    /// Ends at `end`, or at the last record if that is later. Tasks that still wait get a row.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Rows {
        let end = end.max(self.last);
        if self.kept.waits {
            let waiting = self.replay.tasks().filter(|(_, task)| task.waits_since().is_some());
            let waiting: Vec<TaskId> = waiting.map(|(task, _)| task).collect();
            waiting.into_iter().for_each(|task| self.end_wait(task, end, None));
        }
        self.rows.names = self.replay.tasks().map(|(task, view)| (task, Arc::clone(&view.name))).collect();
        self.rows
    }
}

impl Rows {
    fn name(&self, task: Option<TaskId>) -> Option<Arc<str>> {
        self.names.get(&task?).filter(|name| !name.is_empty()).cloned()
    }

    /// Returns the switches as a frame: `at_ns`, `cpu`, `prev`, `prev_name`, `why`, `next`,
    /// `next_name`; tasks are missing where the CPU was idle.
    #[must_use]
    pub fn switches_frame(&self) -> Frame {
        let preempted: Arc<str> = "preempted".into();
        let blocked: Arc<str> = "blocked".into();
        let ended: Arc<str> = "ended".into();
        Of::new("switches", &self.switches)
            .u64("at_ns", |row| row.at.as_nanos())
            .u64("cpu", |row| row.cpu.0.into())
            .some_u64("prev", |row| row.prev.map(|task| task.0.into()))
            .some_text("prev_name", |row| self.name(row.prev))
            .some_text("why", |row| {
                Some(Arc::clone(match row.why? {
                    PrevState::Runnable => &preempted,
                    PrevState::Blocked => &blocked,
                    PrevState::Dead => &ended,
                    PrevState::Idle => return None,
                }))
            })
            .some_u64("next", |row| row.next.map(|task| task.0.into()))
            .some_text("next_name", |row| self.name(row.next))
            .done()
    }

    /// Returns the waits as a frame: `task`, `task_name`, `from_ns`, `to_ns`, `wait_ns`, `cpu`,
    /// `cause`; the CPU is missing if the trace ended first.
    #[must_use]
    pub fn waits_frame(&self) -> Frame {
        Of::new("waits", &self.waits)
            .u64("task", |row| row.task.0.into())
            .some_text("task_name", |row| self.name(Some(row.task)))
            .u64("from_ns", |row| row.from.as_nanos())
            .u64("to_ns", |row| row.to.as_nanos())
            .u64("wait_ns", |row| row.to.since(row.from).as_nanos())
            .some_u64("cpu", |row| row.cpu.map(|cpu| cpu.0.into()))
            .word("cause", |row| row.cause.name())
            .done()
    }

    /// Returns the requests as a frame: `service`, `request`, `due_ns`, `started_ns`, `ended_ns`,
    /// `queued_ns`, `latency_ns`, `worker`, `worker_name`, `dropped`. Times that the run did not
    /// reach are missing.
    #[must_use]
    pub fn requests_frame(&self) -> Frame {
        let since = |to: Option<Instant>, row: &Request| to.map(|to| to.since(row.due).as_nanos());
        Of::new("requests", &self.requests)
            .text("service", |row| Arc::clone(&row.service))
            .u64("request", |row| row.number)
            .u64("due_ns", |row| row.due.as_nanos())
            .some_u64("started_ns", |row| row.started.map(Instant::as_nanos))
            .some_u64("ended_ns", |row| row.ended.map(Instant::as_nanos))
            .some_u64("queued_ns", |row| since(row.started, row))
            .some_u64("latency_ns", |row| since(row.ended, row))
            .some_u64("worker", |row| row.worker.map(|task| task.0.into()))
            .some_text("worker_name", |row| self.name(row.worker))
            .bool("dropped", |row| row.dropped)
            .done()
    }

    /// Returns the sum of the waits of a task.
    #[must_use]
    pub fn waited(&self, task: TaskId) -> Duration {
        self.waits.iter().filter(|row| row.task == task).map(|row| row.to.since(row.from)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::sample::two_hogs_and_a_fifo;

    #[test]
    fn rows_add_up_to_the_figures() {
        let trace = two_hogs_and_a_fifo();
        let (summary, rows) = (Metrics::of(&trace), Follower::of(&trace, Kept::ALL));
        assert_eq!(rows.switches.len() as u64, summary.switches);
        for task in &summary.tasks {
            assert_eq!(rows.waited(task.task), task.wait, "{}", task.name);
        }
        let longest = rows.waits.iter().map(|row| row.to.since(row.from)).max();
        assert_eq!(longest, summary.worst_waits.first().map(crate::Wait::length));
        let frame = rows.switches_frame();
        assert_eq!(frame.rows(), rows.switches.len());
        assert!(rows.waits_frame().column("task_name").is_some_and(|names| names.text(0).is_some()));
    }

    #[test]
    fn what_is_not_wanted_is_not_kept() {
        let rows = Follower::of(&two_hogs_and_a_fifo(), Kept::default());
        assert!(rows.switches.is_empty() && rows.waits.is_empty() && rows.requests.is_empty());
        assert!(!Kept::default().any() && Kept::ALL.any());
    }

    #[test]
    fn requests_have_their_times_and_workers() {
        use zerolag_model::event::RequestStep::{Arrive, Drop, End, Start};
        use zerolag_trace::script::Script;
        let mut trace = Script::new(1).end(1000);
        let at = |micros| Instant::ZERO.saturating_add(Duration::from_micros(micros));
        let record = |micros, event| Record { at: at(micros), cpu: CpuId(0), event };
        let step = |request, step| TraceEvent::Request { queue: 0, request, step };
        trace.records.extend([
            record(0, TraceEvent::QueueNew { queue: 0, name: "web".into() }),
            record(10, step(0, Arrive { due: at(9) })),
            record(11, step(1, Arrive { due: at(11) })),
            record(12, step(1, Drop)),
            record(15, step(0, Start { task: TaskId(7) })),
            record(40, step(0, End { task: TaskId(7) })),
            record(50, step(9, End { task: TaskId(7) })),
        ]);
        let rows = Follower::of(&trace, Kept { requests: true, ..Kept::default() });
        assert_eq!(rows.requests.len(), 2, "the end of a request that never arrived has no row");
        let frame = rows.requests_frame();
        let value = |column: &str, row| frame.column(column).and_then(|column| column.u64(row));
        assert_eq!((value("queued_ns", 0), value("latency_ns", 0)), (Some(6_000), Some(31_000)));
        assert_eq!((value("worker", 0), value("latency_ns", 1)), (Some(7), None));
        assert!(rows.requests[1].dropped && !rows.requests[0].dropped);
    }
}
