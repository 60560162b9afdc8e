//! The schedule of every scenario in the repository is the one on record, to the byte.
//!
//! Specs say which event must come; this test says that nothing else changed, and finds a change
//! that no rule is written for yet. The files of `data/schedules` have a line per scenario: how
//! many records it has, a hash of them, and a hash of the counters. A change that is meant is
//! marked **schedule** in the changelog, and `ZEROLAG_BLESS=1 cargo test -p zerolag --test
//! schedules` writes the record anew.
//!
//! Rejected: scenarios that the generator draws here. A new setting draws all of them anew, and the
//! record would say that every schedule changed.

#[path = "support/scenarios.rs"]
mod scenarios;

use scenarios::{drawn, files, folder, read, specs};
use std::fmt::Write as _;
use std::io::Write;
use zerolag::Plan;
use zerolag::model::{Duration, Record};
use zerolag::sim::{Machine, Stats, Tracing};
use zerolag::trace::script::Script;
use zerolag::trace::zlt::TraceWriter;
use zerolag::workload::{LoadOptions, load};
use zerolag_lab::fuzz::Hash;

/// The most of a run that is compared.
const LENGTH: Duration = Duration::from_millis(400);

/// Returns the machine of a scenario, or why there is none.
fn machine(text: &str) -> Result<Machine, String> {
    let scenario =
        load("scenario.toml", text.as_bytes(), &LoadOptions::default()).map_err(|error| error.to_string())?;
    let length = scenario.duration.map_or(LENGTH, |duration| duration.min(LENGTH));
    let plan = Plan::new(scenario).map_err(|error| error.to_string())?;
    plan.for_duration(length).build(Tracing::On).map_err(|error| error.to_string())
}

/// Returns the line of a scenario: its name, records, and two hashes.
fn line(name: &str, text: &str) -> String {
    let Ok(mut machine) = machine(text) else { return format!("{name} refused") };
    let mut records: Vec<Record> = Vec::new();
    let outcome = machine.run(&mut records);
    let meta = Script::new(1).end(0).meta; // Settings are no part of a schedule.
    let mut writer = TraceWriter::new(Hash::default(), &meta).expect("a hash takes everything");
    for record in &records {
        writer.push(record).expect("an event of the simulator has a number");
    }
    let hash = writer.finish(outcome.end, 0).expect("a hash takes everything").value();
    // How many events the simulator needed for it is no part of a schedule either.
    let stats = Stats { events: 0, completions: 0, ..outcome.stats };
    let mut counters = Hash::default();
    write!(counters, "{stats:?}").expect("a hash takes everything");
    format!("{name} {} {hash:016x} {:016x}", records.len(), counters.value())
}

/// Compares a part of the scenarios with the record, or writes their part of it.
fn compare(part: &str, scenarios: &[(String, String)], least: usize) {
    let now: Vec<String> = scenarios.iter().map(|(name, text)| line(name, text)).collect();
    let ran = now.iter().filter(|line| !line.ends_with(" refused")).count();
    assert!(ran >= least, "{part}: only {ran} scenarios ran");
    let path = folder().join(format!("{part}.txt"));
    if std::env::var_os("ZEROLAG_BLESS").is_some() {
        std::fs::write(&path, now.join("\n") + "\n").unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let record = read(&path);
    let record: Vec<&str> = record.lines().collect();
    let mut said = String::new();
    for line in &now {
        if !record.contains(&line.as_str()) {
            let name = line.split(' ').next().unwrap_or_default();
            let was = record.iter().find(|line| line.split(' ').next() == Some(name));
            writeln!(said, "  now {line}\n  was {}", was.unwrap_or(&"not there")).expect("a string takes everything");
        }
    }
    assert!(
        said.is_empty() && record.len() == now.len(),
        "schedules differ from the record ({} lines, now {}):\n{said}if that is meant, mark the change **schedule** in CHANGELOG.md and run\n  \
         ZEROLAG_BLESS=1 cargo test -p zerolag --test schedules",
        record.len(),
        now.len()
    );
}

#[test]
fn generated_scenarios_run_as_on_record() {
    compare("generated", &drawn(), 150);
}

#[test]
fn findings_run_as_on_record() {
    compare("findings", &files("crates/lab/tests/data/findings", &["toml"]), 100);
}

#[test]
fn recorded_cases_run_as_on_record() {
    let workloads = files("conformance", &["toml"]).into_iter().filter(|(name, _)| name.contains("/workloads/"));
    compare("cases", &workloads.collect::<Vec<_>>(), 80);
}

#[test]
fn specs_run_as_on_record() {
    compare("specs", &specs(), 200);
}
