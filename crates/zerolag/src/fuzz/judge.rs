//! [`judge`](fn@judge): runs a scenario, and finds what must not be.

use crate::simulation::Plan;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerolag_check::{Checker, Options};
use zerolag_model::{Instant, Record};
use zerolag_sim::{NoTrace, Sink, Stats, Tracing};
use zerolag_trace::TraceWriter;
use zerolag_workload::{LoadOptions, load};

/// Events after which a run is ended and judged as far as it came.
const EVENTS_MAX: u64 = 150_000;

/// What is wrong with a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// It panicked, with this message.
    Panic(String),
    /// It broke a rule: the monitor's name, and the first violation.
    Broken(&'static str, String),
    /// A second run gave another trace.
    NotTheSame,
    /// A run without a trace did something else; both counts.
    TraceMatters(String),
}

impl Finding {
    /// Returns whether a smaller scenario shows the same: the same kind, and the same monitor.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Broken(one, _), Self::Broken(other, _)) => one == other,
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(message) => write!(f, "panic: {message}"),
            Self::Broken(monitor, violation) => write!(f, "{monitor}: {violation}"),
            Self::NotTheSame => f.write_str("a second run gives another trace"),
            Self::TraceMatters(counts) => write!(f, "a run without a trace does something else: {counts}"),
        }
    }
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judged {
    /// The scenario is not valid, for this reason: it was not run, or the kernel refused a change.
    Refused(String),
    /// Nothing is wrong. The number of events.
    Fine(u64),
    /// Something is.
    Wrong(Finding),
}

thread_local! {
    static JUDGES: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread is in [`judge`](fn@judge), so that a panic is a finding.
#[must_use]
pub fn is_judging() -> bool {
    JUDGES.get()
}

/// Runs a scenario three times: twice with a trace, which all monitors check, and once without.
///
/// A panic is caught; its message goes to the panic hook as well.
#[must_use]
pub fn judge(text: &str) -> Judged {
    JUDGES.set(true);
    let judged = catch_unwind(AssertUnwindSafe(|| run(text)));
    JUDGES.set(false);
    match judged {
        Ok(Ok(judged)) => judged,
        Ok(Err(refused)) => Judged::Refused(refused),
        Err(with) => {
            let said = with.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let said = said.or_else(|| with.downcast_ref::<String>().cloned());
            Judged::Wrong(Finding::Panic(said.unwrap_or_else(|| "without a message".to_owned())))
        }
    }
}

fn run(text: &str) -> Result<Judged, String> {
    let scenario = load("fuzz.toml", text.as_bytes(), &LoadOptions::default()).map_err(|error| error.to_string())?;
    let plan = Plan::new(scenario).map_err(|error| error.to_string())?;
    let traced = |checks| {
        let meta = plan.meta();
        let checker = matches!(checks, Checks::On).then(|| Checker::new(&meta, &Options::default()));
        let writer = TraceWriter::new(Hash::default(), &meta).map_err(|error| error.to_string())?;
        let mut watch = Watch { writer, checker };
        let mut machine = plan.build(Tracing::On).map_err(|error| error.to_string())?;
        let outcome = machine.run_with(&mut watch, enough);
        if !outcome.why.is_ok() && !matches!(outcome.why, zerolag_sim::End::Interrupted) {
            return Err(outcome.why.to_string());
        }
        let Hash(hash) = watch.writer.finish(outcome.end, 0).map_err(|error| error.to_string())?;
        let report = watch.checker.map(|checker| checker.finish(outcome.end));
        let is_whole = outcome.why.is_ok();
        Ok::<_, String>((hash, report, outcome.stats, is_whole))
    };
    let (first, report, stats, is_whole) = traced(Checks::On)?;
    let report = report.expect("it was asked for");
    if report.faults().is_none()
        && let Some((monitor, violation)) = report.violations().find(|(_, violation)| violation.fault.is_none())
    {
        return Ok(Judged::Wrong(Finding::Broken(monitor, violation.to_string())));
    }
    if traced(Checks::Off)?.0 != first {
        return Ok(Judged::Wrong(Finding::NotTheSame));
    }
    if !is_whole {
        return Ok(Judged::Fine(stats.events)); // It was ended between two events: no event says which.
    }
    let mut machine = plan.build(Tracing::Off).map_err(|error| error.to_string())?;
    // A completion that is superseded is an event more; without a trace there are fewer of them.
    let silent = Stats { events: stats.events, ..machine.run_with(&mut NoTrace, enough).stats };
    if silent != stats {
        return Ok(Judged::Wrong(Finding::TraceMatters(format!("{stats:?} and {silent:?}"))));
    }
    Ok(Judged::Fine(stats.events))
}

fn enough(_: Instant, stats: &Stats) -> ControlFlow<()> {
    if stats.events < EVENTS_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Whether the monitors see a run.
enum Checks {
    On,
    Off,
}

/// Writes a trace into a hash, and shows it to the monitors.
struct Watch {
    writer: TraceWriter<Hash>,
    checker: Option<Checker>,
}

impl Sink for Watch {
    fn record(&mut self, record: &Record) {
        self.writer.push(record).expect("invariant: a hash takes every byte");
        if let Some(checker) = &mut self.checker {
            checker.observe(record);
        }
    }
}

/// FNV-1a of the bytes that are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl io::Write for Hash {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
