//! A trace that is written and read again says what it said: the same figures, as far as its format
//! has them, and the same verdicts.
//!
//! Every scenario of the repository is run, its trace goes through each format that is written, and
//! the reports and checks of both are compared. `docs/reference/formats.md` has the table of what
//! each format loses; [`FORMATS`] is that table as code.
//!
//! Rejected: a hand-written trace per kind of event. The events were right; what was misread were
//! those of one nanosecond, in an order that only real runs have.

#[path = "support/scenarios.rs"]
mod scenarios;

use scenarios::{drawn, files, specs};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use zerolag::Plan;
use zerolag::check::{Options, Verdict, check};
use zerolag::model::{Duration, TaskId};
use zerolag::report::{Metrics, Summary};
use zerolag::sim::Tracing;
use zerolag::trace::{Meta, Trace, ftrace, perfetto};
use zerolag::workload::program::{AffinityChange, Phase, TaskDef};
use zerolag::workload::{LoadOptions, Scenario, load, rtapp};

/// The most of a run that is compared.
const LENGTH: Duration = Duration::from_millis(40);

/// The process id of the first task in text and in Perfetto's files.
const FIRST_PID: u32 = 1000;

/// A format that is written, and what of the figures it keeps.
struct Written {
    name: &'static str,
    write: fn(&mut Vec<u8>, &Trace) -> std::io::Result<()>,
    /// It has interprocessor interrupts.
    has_ipis: bool,
    /// It says when the run ended.
    has_end: bool,
}

const FORMATS: [Written; 2] = [
    Written {
        name: "text",
        write: |out, trace| ftrace::write(out, trace, ftrace::TimeDigits::Nanos),
        has_ipis: true,
        has_end: false,
    },
    Written { name: "Perfetto", write: |out, trace| perfetto::write(out, trace), has_ipis: false, has_end: true },
];

fn scenario(name: &str, text: &str) -> Option<Scenario> {
    let name = if name.ends_with(".json") { "scenario.json" } else { "scenario.toml" };
    load(name, text.as_bytes(), &LoadOptions::default()).ok()
}

/// Returns the trace of the beginning of a scenario; `None` if it is refused.
fn traced(scenario: Scenario) -> Option<Trace> {
    let length = scenario.duration.map_or(LENGTH, |duration| duration.min(LENGTH));
    let plan = Plan::new(scenario).ok()?.for_duration(length);
    let mut records = Vec::new();
    let outcome = plan.build(Tracing::On).ok()?.run(&mut records);
    outcome.why.is_ok().then(|| Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records })
}

/// Returns the broken rules of a trace.
fn broken(trace: &Trace) -> BTreeSet<&'static str> {
    let report = check(trace, &Options::default());
    let is_broken = |(name, verdict): (&'static str, Verdict)| matches!(verdict, Verdict::Broken(_)).then_some(name);
    report.verdicts.into_iter().filter_map(is_broken).collect()
}

/// Returns the figures that a format keeps, each with its name.
fn figures(summary: &Summary, written: &Written, id: impl Fn(TaskId) -> u32) -> BTreeMap<String, String> {
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

/// Returns what differs after a trace was written in a format and read.
fn differences(trace: &Trace, written: &Written) -> String {
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
    for rule in new.difference(&old) {
        writeln!(said, "    {rule} is broken in what is read only").expect("a string takes everything");
    }
    said
}

/// Whether an event has a line in a text.
const fn is_written(event: &zerolag::model::TraceEvent) -> bool {
    use zerolag::model::TraceEvent as E;
    matches!(event, E::TaskNew { .. } | E::Switch { .. } | E::Waking { .. } | E::Wakeup { .. })
}

/// Our own format loses nothing.
fn check_own(name: &str, trace: &Trace) {
    let write = |trace: &Trace| {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).expect("memory takes it");
        bytes
    };
    let bytes = write(trace);
    let again = Trace::from_bytes(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(again == *trace, "{name}: another trace is read");
    assert!(write(&again) == bytes, "{name}: other bytes are written");
}

fn check_all(scenarios: &[(String, String)], least: usize) {
    let (mut said, mut ran) = (String::new(), 0);
    for (name, text) in scenarios {
        let Some(trace) = scenario(name, text).and_then(traced) else { continue };
        ran += 1;
        check_own(name, &trace);
        for written in &FORMATS {
            let differences = differences(&trace, written);
            if !differences.is_empty() {
                writeln!(said, "  {name}, {}:\n{differences}", written.name).expect("a string takes everything");
            }
        }
    }
    assert!(ran >= least, "only {ran} scenarios ran");
    assert!(said.is_empty(), "{said}");
}

#[test]
fn specs_are_read_as_they_were_written() {
    check_all(&specs(), 200);
}

#[test]
fn generated_scenarios_are_read_as_they_were_written() {
    check_all(&drawn(), 140);
}

#[test]
fn findings_and_examples_are_read_as_they_were_written() {
    let mut all = files("crates/lab/tests/data/findings", &["toml"]);
    all.extend(files("examples", &["toml", "json"]));
    check_all(&all, 130);
}

/// What rt-app can express is the same run from its file.
#[test]
fn a_workload_that_was_exported_to_rt_app_runs_the_same() {
    let mut all = specs();
    all.extend(files("examples", &["toml", "json"]));
    let (mut exported, mut said) = (0, String::new());
    for (name, text) in &all {
        let Some(first) = scenario(name, text) else { continue };
        // rt-app gives a phase without CPUs those of its task again; here it keeps what it has.
        let is_kept = |phase: &Phase| phase.affinity == AffinityChange::Keep;
        let is_mixed = |task: &TaskDef| task.phases.iter().any(is_kept) && !task.phases.iter().all(is_kept);
        if first.program.tasks.iter().any(is_mixed) {
            continue;
        }
        // Machine and kernel are options, not in the file.
        let Ok(written) = rtapp::export(&first.program, first.duration) else { continue };
        let options = LoadOptions { machine_override: first.machine.clone(), ..LoadOptions::default() };
        let second = load("exported.json", written.as_bytes(), &options);
        let second = second.unwrap_or_else(|error| panic!("{name}: {error}\n{written}"));
        let second = Scenario { program: second.program, duration: second.duration, ..first.clone() };
        let (Some(before), Some(after)) = (traced(first), traced(second)) else { continue };
        exported += 1;
        // Locks have the numbers of the order in which a file names them.
        let scheduling = |trace: Trace| trace.records.into_iter().filter(|record| is_written(&record.event));
        let (before, after): (Vec<_>, Vec<_>) = (scheduling(before).collect(), scheduling(after).collect());
        if before != after {
            let at = before.iter().zip(&after).find(|(before, after)| before != after);
            writeln!(said, "  {name}: {at:?}").expect("a string takes everything");
        }
    }
    assert!(exported > 40, "only {exported} were exported");
    assert!(said.is_empty(), "{said}");
}
