//! A trace that is written and read again says what it said: the same figures, as far as its format
//! has them, and the same verdicts.
//!
//! `docs/reference/formats.md` has the table of what each format loses; [`FORMATS`] is that table
//! as code. The tests of this crate send every scenario of the repository through it, and
//! [`fuzz`](crate::fuzz) a share of those that it draws.
//!
//! Rejected: a hand-written trace per kind of event. The events were right; what was misread were
//! those of one nanosecond, in an order that only real runs have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use zerolag_check::{Options, Verdict, check};
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{Duration, TaskId, TraceEvent};
use zerolag_report::{Metrics, Summary};
use zerolag_trace::{Trace, ftrace, perfetto};

/// The most of a run that is compared.
pub const LENGTH: Duration = Duration::from_millis(40);

/// The process id of the first task in text and in Perfetto's files.
const FIRST_PID: u32 = 1000;

/// A format that is written, and what of the figures it keeps.
#[derive(Debug)]
pub struct WrittenFormat {
    /// Its name.
    pub name: &'static str,
    write: fn(&mut Vec<u8>, &Trace) -> std::io::Result<()>,
    /// It has interprocessor interrupts.
    has_ipis: bool,
    /// It says when the run ended.
    has_end: bool,
}

/// The formats of other programs that are written.
pub const FORMATS: [WrittenFormat; 2] = [
    WrittenFormat {
        name: "text",
        write: |out, trace| ftrace::write(out, trace, ftrace::TimeDigits::Nanos),
        has_ipis: true,
        has_end: false,
    },
    WrittenFormat { name: "Perfetto", write: |out, trace| perfetto::write(out, trace), has_ipis: false, has_end: true },
];

/// Returns the broken rules of a trace.
fn broken(trace: &Trace) -> BTreeSet<&'static str> {
    let report = check(trace, &Options::default());
    let is_broken = |(name, verdict): (&'static str, Verdict)| matches!(verdict, Verdict::Broken(_)).then_some(name);
    report.verdicts.into_iter().filter_map(is_broken).collect()
}

/// Returns the figures that a format keeps, each with its name.
fn figures(summary: &Summary, written: &WrittenFormat, id: impl Fn(TaskId) -> u32) -> BTreeMap<String, String> {
    let mut figures = BTreeMap::new();
    let mut put = |of: &str, name: &str, value: String| figures.insert(format!("{of} {name}"), value);
    for task in summary.tasks.iter().filter(|task| task.switches_in > 0) {
        let of = format!("task {}", id(task.task));
        put(&of, "run", task.run.to_string());
        put(&of, "switches_in", task.switches_in.to_string());
        put(&of, "preemptions", task.preemptions.to_string());
        put(&of, "migrations", task.migrations.total().to_string());
        put(&of, "wakeups", task.activations.to_string());
        put(&of, "wait", format!("{} {}", task.wait, task.wait_max));
        put(&of, "sleep", task.sleep.to_string());
        put(&of, "latency", format!("{:?}", task.latency));
    }
    for cpu in &summary.cpus {
        let of = format!("cpu {}", cpu.cpu);
        put(&of, "busy", cpu.busy.to_string());
        put(&of, "idle", cpu.idle.saturating_add(cpu.unseen).to_string());
        put(&of, "switches", cpu.switches.to_string());
        if written.has_ipis {
            put(&of, "ipis", format!("{} {}", cpu.ipis_sent, cpu.ipis_received));
        }
    }
    put("run", "length", summary.elapsed.to_string());
    put("run", "switches", summary.switches.to_string());
    put("run", "migrations", summary.migrations.total().to_string());
    figures
}

/// Returns what differs after a trace was written in a format and read, a line each; empty if
/// nothing does.
///
/// # Panics
/// Never: memory takes what is written.
#[must_use]
pub fn differences(trace: &Trace, written: &WrittenFormat) -> String {
    let mut bytes = Vec::new();
    (written.write)(&mut bytes, trace).expect("memory takes it");
    let again = match Trace::from_bytes(&bytes) {
        Ok(again) => again,
        // Without an event a text is empty, and says nothing.
        Err(_) if trace.records.iter().all(|record| !is_written(&record.event)) && !written.has_end => {
            return String::new();
        }
        Err(error) => return format!("    it is refused: {error}\n"),
    };
    let mut said = String::new();
    // A text ends at its last event, so the run that it is compared with does too.
    let mut original = trace.clone();
    if !written.has_end {
        (original.meta.start, original.meta.end) = (again.meta.start, again.meta.end);
    }
    original.records.retain(|record| record.at <= original.meta.end);
    let threads = &again.meta.recorded.threads;
    let old = figures(&Metrics::of(&original), written, |task| task.0);
    let new = figures(&Metrics::of(&again), written, |task| threads[task.index()].tid - FIRST_PID);
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (old, new) = (old.get(name), new.get(name));
        if old != new {
            writeln!(said, "    {name}: {old:?} is read as {new:?}").expect("a string takes everything");
        }
    }
    if !again.meta.recorded.gaps.is_empty() {
        writeln!(said, "    {} gaps are seen", again.meta.recorded.gaps.len()).expect("a string takes everything");
    }
    let (old, new) = (broken(trace), broken(&again));
    // No format but our own has groups with a real-time runtime, which keep an urgent task waiting.
    let may_break = |rule: &&&str| **rule == "rt-order" && trace.meta.settings().rt_group_sched != RtGroupSched::Off;
    for rule in new.difference(&old).filter(|rule| !may_break(rule)) {
        writeln!(said, "    {rule} is broken in what is read only").expect("a string takes everything");
    }
    said
}

/// Returns whether an event has a line in a text.
#[must_use]
pub const fn is_written(event: &TraceEvent) -> bool {
    use TraceEvent as E;
    matches!(event, E::TaskNew { .. } | E::Switch { .. } | E::Waking { .. } | E::Wakeup { .. })
}

/// Returns how a trace is not the same after it was written in our own format, which loses nothing.
///
/// # Panics
/// Never: memory takes what is written.
#[must_use]
pub fn own_difference(trace: &Trace) -> Option<String> {
    let write = |trace: &Trace| {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).expect("memory takes it");
        bytes
    };
    let bytes = write(trace);
    match Trace::from_bytes(&bytes) {
        Err(error) => Some(format!("it is refused: {error}")),
        Ok(again) if again != *trace => Some("another trace is read".to_owned()),
        Ok(again) if write(&again) != bytes => Some("other bytes are written".to_owned()),
        Ok(_) => None,
    }
}
