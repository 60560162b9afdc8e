//! The traces of all scenarios of the repository say what they said after they were written and
//! read ([`round_trip`](zerolag_lab::round_trip)); a workload that is written for rt-app is the
//! same run.

#[path = "support/scenarios.rs"]
mod scenarios;

use scenarios::{drawn, files, specs};
use std::fmt::Write as _;
use zerolag::Plan;
use zerolag::sim::Tracing;
use zerolag::trace::{Meta, Trace};
use zerolag::workload::program::{AffinityChange, Phase, TaskDef};
use zerolag::workload::{LoadOptions, Scenario, load, rtapp};
use zerolag_lab::round_trip::{FORMATS, LENGTH, differences, is_written, own_difference};

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

fn check_all(scenarios: &[(String, String)], least: usize) {
    let (mut said, mut ran) = (String::new(), 0);
    for (name, text) in scenarios {
        let Some(trace) = scenario(name, text).and_then(traced) else { continue };
        ran += 1;
        if let Some(difference) = own_difference(&trace) {
            writeln!(said, "  {name}, .zlt: {difference}").expect("a string takes everything");
        }
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
