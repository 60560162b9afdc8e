//! [`judge`](fn@judge): runs a scenario, and finds what must not be.

use super::draft::Draft;
use super::pressure::watched;
use super::trip::{Trip, travel};
use super::twin::{Twin, compare};
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zerolag_check::{Checker, Options};
use zerolag_model::{Instant, Record};
use zerolag_sim::{End, NoTrace, Sink, Stats, Tracing};
use zerolag_trace::TraceWriter;

/// Events after which a run is ended and judged as far as it came.
const EVENTS_MAX: u64 = 150_000;

/// What is wrong with a run.
#[derive(Clone, PartialEq, Debug)]
pub enum Finding {
    /// It panicked, with this message.
    Panic(String),
    /// It broke a rule: the monitor's name, and the first violation.
    Broken(&'static str, String),
    /// A second run gave another trace. It was stopped at some time, and went on in a copy of the
    /// machine.
    NotTheSame,
    /// A run without a trace did something else; both counts.
    TraceMatters(String),
    /// A twin that must do the same did not; the difference.
    TwinDiffers(Twin, String),
    /// A trace that was written and read, or imported, is not what it was; the difference.
    TripDiffers(Trip, String),
    /// It ended before its time, in a way that no valid scenario does.
    Ended(End),
}

impl Finding {
    /// Returns whether a smaller scenario shows the same: the same kind, and the same monitor.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Broken(one, _), Self::Broken(other, _)) => one == other,
            (Self::TwinDiffers(one, _), Self::TwinDiffers(other, _)) => one == other,
            (Self::TripDiffers(one, _), Self::TripDiffers(other, _)) => one == other,
            (Self::Ended(one), Self::Ended(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(message) => write!(f, "panic: {message}"),
            Self::Broken(monitor, violation) => write!(f, "{monitor}: {violation}"),
            Self::NotTheSame => {
                f.write_str("a second run, which goes on in a copy of the machine, gives another trace")
            }
            Self::TwinDiffers(twin, how) => {
                let what = match twin {
                    Twin::Names => "other names of tasks change the run",
                    Twin::Cpus => "CPUs that no task may use change the run",
                    Twin::Costs => "costs change what happens at set times",
                    Twin::Idle => "an empty group and a task that never begins change the run",
                    Twin::Quota => "a group gets less time with a larger limit",
                    Twin::Scaled => "times that are twice as long change the schedule",
                };
                write!(f, "{what}: {how}")
            }
            Self::TripDiffers(trip, how) => {
                let what = match trip {
                    Trip::Own => "its .zlt is not the same trace",
                    Trip::Text => "its text says something else",
                    Trip::Perfetto => "its Perfetto file says something else",
                    Trip::Import => "its import is another run",
                };
                write!(f, "{what}: {}", how.trim())
            }
            Self::Ended(end) => write!(f, "the run ended early: {end}"),
            Self::TraceMatters(counts) => write!(f, "a run without a trace does something else: {counts}"),
        }
    }
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug)]
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
    judged(|| run(&Draft::of_text(text)))
}

/// As [`judge`](fn@judge), compares the scenario with its twin, and sends its trace on its trip.
#[must_use]
pub fn judge_draft(draft: &Draft) -> Judged {
    judged(|| match run(draft)? {
        Judged::Fine(events) => {
            let of_pressure = || watched(&draft.plan().ok()?);
            Ok(compare(draft)
                .or_else(|| travel(draft))
                .or_else(of_pressure)
                .map_or(Judged::Fine(events), Judged::Wrong))
        }
        other => Ok(other),
    })
}

/// Calls `run`; its panic is no panic of this thread, and the hook can tell that
/// ([`is_judging`]).
fn caught<T>(run: impl FnOnce() -> T) -> std::thread::Result<T> {
    JUDGES.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    JUDGES.set(false);
    result
}

/// Calls `run`; `None` also if it panics.
pub(super) fn guarded<T>(run: impl FnOnce() -> Option<T>) -> Option<T> {
    caught(run).ok().flatten()
}

fn judged(run: impl FnOnce() -> Result<Judged, Judged>) -> Judged {
    match caught(run) {
        Ok(Ok(judged) | Err(judged)) => judged,
        Err(with) => {
            let said = with.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let said = said.or_else(|| with.downcast_ref::<String>().cloned());
            Judged::Wrong(Finding::Panic(said.unwrap_or_else(|| "without a message".to_owned())))
        }
    }
}

fn refused(why: impl fmt::Display) -> Judged {
    Judged::Refused(why.to_string())
}

/// An error is a judgement too: that of a run that did not come to its end.
fn run(draft: &Draft) -> Result<Judged, Judged> {
    let plan = draft.plan().map_err(refused)?;
    let traced = |checks, split: Option<Instant>| {
        let meta = plan.meta();
        let checker = matches!(checks, MonitorsOn::On).then(|| Checker::new(&meta, &Options::default()));
        let writer = TraceWriter::new(Hash::default(), &meta).map_err(refused)?;
        let mut watch = RunWatch { writer, checker };
        let mut machine = plan.build(Tracing::On).map_err(refused)?;
        if let Some(at) = split {
            machine.run_until(at, &mut watch);
            machine = machine.clone();
        }
        // A run that came to its end does so again. The split moves the instants at which events
        // are counted, so only a copy that runs away is stopped.
        let outcome = match split {
            Some(_) => machine.run_with(&mut watch, |_, stats| below(2 * EVENTS_MAX, stats)),
            None => machine.run_with(&mut watch, enough),
        };
        match &outcome.why {
            End::Duration | End::Finished | End::Interrupted => {}
            // A change that the kernel refuses.
            End::Failed(_) => return Err(refused(&outcome.why)),
            // A drawn program takes no two locks in different orders and waits for nothing that
            // does not come, so these are faults of the core or of the simulator.
            early => return Err(Judged::Wrong(Finding::Ended(early.clone()))),
        }
        let Hash(hash) = watch.writer.finish(outcome.end, 0).map_err(refused)?;
        let report = watch.checker.map(|checker| checker.finish(outcome.end));
        let is_whole = outcome.why.is_ok();
        Ok::<_, Judged>((hash, report, outcome, is_whole))
    };
    let (first, report, outcome, is_whole) = traced(MonitorsOn::On, None)?;
    let stats = outcome.stats;
    let report = report.expect("it was asked for");
    if report.faults().is_none()
        && let Some((monitor, violation)) = report.violations().find(|(_, violation)| violation.fault.is_none())
    {
        return Ok(Judged::Wrong(Finding::Broken(monitor, violation.to_string())));
    }
    // Any time is as good as any other; this one is another in each scenario.
    let split = is_whole.then(|| Instant::from_nanos(first % outcome.end.as_nanos().max(1)));
    if traced(MonitorsOn::Off, split)?.0 != first {
        return Ok(Judged::Wrong(Finding::NotTheSame));
    }
    if !is_whole {
        return Ok(Judged::Fine(stats.events)); // It was ended between two events: no event says which.
    }
    let mut machine = plan.build(Tracing::Off).map_err(refused)?;
    // A completion that is superseded is an event more; without a trace there are fewer of them.
    let silent = Stats { events: stats.events, ..machine.run_with(&mut NoTrace, enough).stats };
    if silent != stats {
        return Ok(Judged::Wrong(Finding::TraceMatters(format!("{stats:?} and {silent:?}"))));
    }
    Ok(Judged::Fine(stats.events))
}

pub(super) fn enough(_: Instant, stats: &Stats) -> ControlFlow<()> {
    below(EVENTS_MAX, stats)
}

fn below(most: u64, stats: &Stats) -> ControlFlow<()> {
    if stats.events < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Whether the monitors see a run.
enum MonitorsOn {
    On,
    Off,
}

/// Writes a trace into a hash, and shows it to the monitors.
struct RunWatch {
    writer: TraceWriter<Hash>,
    checker: Option<Checker>,
}

impl Sink for RunWatch {
    fn record(&mut self, record: &Record) {
        self.writer.push(record).expect("invariant: a hash takes every byte");
        if let Some(checker) = &mut self.checker {
            checker.observe(record);
        }
    }
}

/// FNV-1a of the bytes that are written, by which runs are compared. `DefaultHasher` is not the
/// same in each version of the standard library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash(u64);

impl Hash {
    /// Returns the hash of the bytes so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        self.0
    }
}

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
