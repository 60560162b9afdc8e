//! [`Unconfirmed`]: violations about priorities and CPUs that a recording may not have shown.
//!
//! The kernel has no trace point for `sched_setattr`, so a recorded trace shows the new priority of
//! a task at its next event only. A rule that compares priorities before that compares with the old
//! one. So a violation waits until each of its tasks has had an event: if one of them has another
//! priority then, nothing is known of the time before.
//!
//! Neither has it one for `sched_setaffinity`. A rule that says where a task must run can meet one
//! that may no longer run there. Its next event is then its migration, at once: so a violation that
//! the migration of its first task from that CPU follows within a bound is not judged either.
//!
//! At the end of a recording, or of a part of it, nothing is known of what still waits.

use crate::report::Findings;
use zerolag_model::{CpuId, Duration, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::{IdTable, Source};

const UNTOLD_CPUS: &str = "a recording does not show that a task may no longer run on a CPU";
const UNTOLD: &str = "a recording shows the priority of a task at its next event only";

/// Violations that wait for the next events of their tasks.
#[derive(Default)]
pub(crate) struct Unconfirmed {
    is_recorded: bool,
    /// How long after a violation the migration of its first task explains it.
    moves_within: Option<Duration>,
    pending: Vec<Pending>,
    /// In how many of these each task has had no event.
    open: IdTable<TaskId, usize>,
}

struct Pending {
    fault: Option<&'static str>,
    at: Instant,
    cpu: CpuId,
    tasks: Vec<TaskId>,
    /// The tasks without an event since.
    open: Vec<TaskId>,
    says: String,
}

impl Pending {
    fn found(self, found: &mut Findings) {
        found.push_by(self.fault, self.at, Some(self.cpu), &self.tasks, || self.says);
    }
}

impl Unconfirmed {
    /// Starts; only what recorders of a kernel wrote lacks changes of priorities.
    pub(crate) fn new(source: Source) -> Self {
        Self { is_recorded: source == Source::Text, ..Self::default() }
    }

    /// As [`new`](Self::new), for a rule about the CPUs of tasks.
    pub(crate) fn of_cpus(source: Source, moves_within: Duration) -> Self {
        Self { moves_within: Some(moves_within), ..Self::new(source) }
    }

    /// Adds a violation.
    pub(crate) fn push(
        &mut self,
        found: &mut Findings,
        fault: Option<&'static str>,
        (at, cpu): (Instant, CpuId),
        tasks: &[TaskId],
        says: impl FnOnce() -> String,
    ) {
        if !self.is_recorded {
            return found.push_by(fault, at, Some(cpu), tasks, says);
        }
        for task in tasks {
            *self.open.entry(*task) += 1;
        }
        self.pending.push(Pending { fault, at, cpu, tasks: tasks.to_vec(), open: tasks.to_vec(), says: says() });
    }

    /// Follows a record, before a rule is judged by it. O(1) unless a violation waits for its
    /// tasks.
    pub(crate) fn follow(&mut self, record: &Record, found: &mut Findings) {
        if self.pending.is_empty() {
            return;
        }
        match record.event {
            // It comes right before the event that shows it.
            TraceEvent::AttrChange { task, .. } if self.is_open(task) => {
                for _ in self.take(|pending| pending.open.contains(&task)) {
                    found.skip(UNTOLD);
                }
            }
            TraceEvent::Switch { prev, next, .. } => {
                [prev, next].into_iter().flatten().for_each(|task| self.shows(task, found));
            }
            TraceEvent::Migrate { task, from, .. } => {
                self.moves(task, from, record.at, found);
                self.shows(task, found);
            }
            TraceEvent::Waking { task, .. } | TraceEvent::Wakeup { task, .. } => self.shows(task, found),
            // No other event shows a priority.
            _ => {}
        }
    }

    /// Ends the trace.
    pub(crate) fn finish(&mut self, found: &mut Findings) {
        for _ in core::mem::take(&mut self.pending) {
            found.skip(UNTOLD);
        }
    }

    fn is_open(&self, task: TaskId) -> bool {
        self.open.get(task).is_some_and(|open| *open > 0)
    }

    /// A task is migrated from a CPU: violations about it there are not judged.
    fn moves(&mut self, task: TaskId, from: CpuId, at: Instant, found: &mut Findings) {
        let Some(within) = self.moves_within.filter(|_| self.is_open(task)) else { return };
        let is_explained = |pending: &Pending| {
            pending.open.first() == Some(&task) && pending.cpu == from && at.since(pending.at) <= within
        };
        for _ in self.take(is_explained) {
            found.skip(UNTOLD_CPUS);
        }
    }

    /// An event shows that a task has its known priority.
    fn shows(&mut self, task: TaskId, found: &mut Findings) {
        if !self.is_open(task) {
            return;
        }
        for pending in &mut self.pending {
            pending.open.retain(|open| *open != task);
        }
        *self.open.entry(task) = 0;
        self.take(|pending| pending.open.is_empty()).into_iter().for_each(|pending| pending.found(found));
    }

    fn take(&mut self, is_over: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        let over: Vec<Pending> = self.pending.extract_if(.., |pending| is_over(pending)).collect();
        for task in over.iter().flat_map(|pending| &pending.open) {
            let open = self.open.entry(*task);
            *open = open.saturating_sub(1);
        }
        over
    }
}
