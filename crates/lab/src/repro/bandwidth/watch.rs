//! Reads the figures of a cell from the records of its run.

use std::cell::Cell;
use zerolag_model::{Duration, Instant, Mark, Record, TraceEvent};
use zerolag_sim::Sink;

/// The time for which CPUs run tasks, from a time on.
#[derive(Debug)]
pub(super) struct Busy {
    from: Instant,
    /// Since when each CPU runs a task.
    since: Vec<Option<Instant>>,
    total: Duration,
}

impl Busy {
    pub(super) fn new(cpus: usize, from: Instant) -> Self {
        Self { from, since: vec![None; cpus], total: Duration::ZERO }
    }

    fn stop(&mut self, cpu: usize, at: Instant) {
        if let Some(since) = self.since[cpu].take() {
            self.total += at.since(since.max(self.from).min(at));
        }
    }

    /// Returns how much of the machine was busy until the end, in percent.
    pub(super) fn percent(mut self, end: Instant) -> f64 {
        for cpu in 0..self.since.len() {
            self.stop(cpu, end);
        }
        let all = (end.since(self.from) * self.since.len() as u64).as_nanos() as f64;
        self.total.as_nanos() as f64 / all * 100.0
    }
}

impl Sink for Busy {
    fn record(&mut self, record: &Record) {
        if let TraceEvent::Switch { next, .. } = &record.event {
            let cpu = record.cpu.index();
            self.stop(cpu, record.at);
            self.since[cpu] = next.map(|_| record.at);
        }
    }
}

/// The end of the last piece of a computation.
#[derive(Debug)]
pub(super) struct Done<'c> {
    left: u32,
    finished: &'c Cell<Option<Instant>>,
}

impl<'c> Done<'c> {
    pub(super) const fn new(pieces: u32, finished: &'c Cell<Option<Instant>>) -> Self {
        Self { left: pieces, finished }
    }
}

impl Sink for Done<'_> {
    fn record(&mut self, record: &Record) {
        if let TraceEvent::Mark { mark: Mark::Stamp { .. }, .. } = &record.event {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 && self.finished.get().is_none() {
                self.finished.set(Some(record.at));
            }
        }
    }
}
