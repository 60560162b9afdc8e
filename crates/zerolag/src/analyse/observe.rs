//! Longest responses of a run, record by record.
//!
//! A job is released when its timer expires or its task is woken, and ends when the task blocks,
//! exits, or asks for an expiry that is already past. A job that has not ended at the end of the
//! run has responded no earlier, so it counts with the time until then.

use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{Duration, Instant, Mark, PrevState, Record, SignedDuration, TaskId, TraceEvent};
use zerolag_sim::Sink;

/// Follows the jobs of tasks.
#[derive(Debug, Default)]
pub(crate) struct Responses {
    tasks: BTreeMap<TaskId, Jobs>,
}

#[derive(Debug)]
struct Jobs {
    name: Arc<str>,
    /// The release of the present job.
    release: Option<Instant>,
    jobs: u64,
    longest: Duration,
    at: Instant,
}

/// What was seen of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(super) name: Arc<str>,
    pub(super) jobs: u64,
    pub(crate) longest: Duration,
    /// The release of the job with the longest response.
    pub(super) at: Instant,
}

impl Jobs {
    fn end(&mut self, at: Instant) {
        let Some(release) = self.release.take() else { return };
        let response = at.since(release);
        if response.is_zero() {
            return;
        }
        self.jobs += 1;
        if response > self.longest {
            (self.longest, self.at) = (response, release);
        }
    }
}

impl Responses {
    /// Returns what was seen until the end.
    pub(crate) fn finish(mut self, end: Instant) -> Vec<Seen> {
        let close = |jobs: &mut Jobs| {
            jobs.end(end);
            Seen { name: Arc::clone(&jobs.name), jobs: jobs.jobs, longest: jobs.longest, at: jobs.at }
        };
        self.tasks.values_mut().map(close).collect()
    }
}

impl Sink for Responses {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                let jobs =
                    Jobs { name: Arc::clone(name), release: None, jobs: 0, longest: Duration::ZERO, at: Instant::ZERO };
                self.tasks.insert(*task, jobs);
            }
            TraceEvent::Waking { task, .. } => {
                if let Some(jobs) = self.tasks.get_mut(task)
                    && jobs.release.is_none()
                {
                    jobs.release = Some(record.at);
                }
            }
            TraceEvent::Switch { prev: Some(task), prev_state: PrevState::Blocked, .. }
            | TraceEvent::TaskExit { task } => {
                if let Some(jobs) = self.tasks.get_mut(task) {
                    jobs.end(record.at);
                }
            }
            TraceEvent::Mark { task, mark: Mark::TimerDue { due, slack } } => {
                let Some(jobs) = self.tasks.get_mut(task) else { return };
                if *slack <= SignedDuration::ZERO {
                    // It did not wait: the job before ended when it asked for the expiry.
                    jobs.end(due.saturating_offset(-*slack));
                }
                jobs.release = Some(*due);
            }
            _ => {}
        }
    }
}
