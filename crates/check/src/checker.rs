//! [`Checker`]: passes the records of a trace to all monitors.

use crate::monitor::{Context, Monitor, Options, Outcome};
use crate::monitors::TABLE;
use crate::report::{Findings, Report, Verdict};
use zerolag_model::{Instant, Record};
use zerolag_trace::{Meta, Replay, Trace};

/// Passes records to all monitors, for a run whose trace is not kept.
pub struct Checker {
    replay: Replay,
    running: Vec<Running>,
    last: Instant,
}

struct Running {
    name: &'static str,
    monitor: Result<Box<dyn Monitor>, String>,
    found: Findings,
}

impl core::fmt::Debug for Checker {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Checker").field("replay", &self.replay).finish_non_exhaustive()
    }
}

impl Checker {
    /// Starts all monitors.
    #[must_use]
    pub fn new(meta: &Meta, options: &Options) -> Self {
        let context = Context { meta, options };
        let running = TABLE.iter().map(|rule| {
            let monitor = match meta.lost_events {
                0 => (rule.begin)(&context),
                lost => Err(format!("{lost} events were lost")),
            };
            Running { name: rule.name, monitor, found: Findings::new(options.keep) }
        });
        Self { replay: Replay::new(meta), running: running.collect(), last: meta.start }
    }

    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        for Running { monitor, found, .. } in &mut self.running {
            if let Ok(monitor) = monitor {
                monitor.before(&self.replay, record, found);
            }
        }
        self.replay.apply(record);
        for Running { monitor, .. } in &mut self.running {
            if let Ok(monitor) = monitor {
                monitor.after(&self.replay, record);
            }
        }
        self.last = self.last.max(record.at);
    }

    /// Ends the trace at `end`, or at the last record if that is later.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Report {
        let end = end.max(self.last);
        let mut verdicts = Vec::new();
        for Running { name, monitor, mut found } in self.running.drain(..) {
            let verdict = match monitor.map(|mut monitor| monitor.finish(&self.replay, end, &mut found)) {
                Err(reason) => Verdict::NotApplicable(reason),
                Ok(Outcome::NothingToJudge(reason)) => Verdict::NotApplicable(reason.to_owned()),
                Ok(Outcome::Judged) if found.total() > 0 => Verdict::Broken(found),
                Ok(Outcome::Judged) => Verdict::Held,
            };
            verdicts.push((name, verdict));
        }
        Report { verdicts }
    }
}

/// Checks a trace against all rules.
#[must_use]
pub fn check(trace: &Trace, options: &Options) -> Report {
    let mut checker = Checker::new(&trace.meta, options);
    for record in &trace.records {
        checker.observe(record);
    }
    checker.finish(trace.meta.end)
}
