//! The targets of fuzzing.

use core::ops::ControlFlow;
use std::path::Path;
use zerolag::model::{Duration, Record, Topology};
use zerolag::sim::{Sink, Tracing};
use zerolag::simulation::Observe;
use zerolag::trace::{Meta, Trace, ftrace, perfetto};
use zerolag::workload::builtin::PeriodicPolicy;
use zerolag::workload::{DuplicatePolicy, LoadOptions, builtin, load, rtapp};
use zerolag::{Plan, check};

/// A target.
pub(crate) struct Target {
    /// Its name; also the directory of its findings.
    pub(crate) name: &'static str,
    /// The number of inputs per test run.
    pub(crate) inputs: u64,
    /// Valid inputs to start with.
    pub(crate) corpus: fn() -> Vec<Vec<u8>>,
    /// Runs an input; returns a description of a failure that is not a panic.
    pub(crate) run: fn(&[u8]) -> Result<(), String>,
}

/// All targets.
pub(crate) const TABLE: &[Target] = &[
    Target { name: "rtapp", inputs: 4_000, corpus: json_files, run: rtapp_file },
    Target { name: "scenario", inputs: 4_000, corpus: toml_files, run: scenario_file },
    Target { name: "task-set", inputs: 4_000, corpus: tables, run: table },
    Target { name: "zlt", inputs: 1_500, corpus: archives, run: trace },
    Target { name: "ftrace", inputs: 1_500, corpus: texts, run: trace },
    Target { name: "perf-data", inputs: 600, corpus: perf_data, run: trace },
    Target { name: "trace-dat", inputs: 300, corpus: trace_dat, run: trace },
    Target { name: "perfetto", inputs: 600, corpus: packets, run: trace },
    Target { name: "machine", inputs: 600, corpus: workloads, run: machine },
];

/// The target with a planted bug.
pub(crate) const CANARY: Target = Target { name: "canary", inputs: 4_000, corpus: json_files, run: canary };

/// Returns the files of a directory of the repository with this extension.
fn files(directory: &str, extension: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(crate::REPOSITORY).join(directory);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("readable")).collect()
}

fn json_files() -> Vec<Vec<u8>> {
    let mut all = files("examples", "json");
    all.extend(files("crates/workload/tests/fixtures", "json"));
    all
}

fn toml_files() -> Vec<Vec<u8>> {
    let mut all = files("examples", "toml");
    all.extend(files("crates/workload/tests/fixtures", "toml"));
    all
}

fn workloads() -> Vec<Vec<u8>> {
    let mut all = json_files();
    all.extend(toml_files());
    all
}

fn tables() -> Vec<Vec<u8>> {
    vec![
        builtin::W4.into(),
        b"# c\ntask,runtime_ms,period_s,deadline_ns,offset\na,1,2,3000000,4\nb,5,6,7000000,0\n".to_vec(),
    ]
}

fn archives() -> Vec<Vec<u8>> {
    let of = |trace: &Trace| {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).expect("memory takes it");
        bytes
    };
    recorded().iter().map(of).collect()
}

fn texts() -> Vec<Vec<u8>> {
    let of = |trace: &Trace| {
        let mut bytes = Vec::new();
        ftrace::write(&mut bytes, trace, ftrace::TimeDigits::Nanos).expect("memory takes it");
        bytes
    };
    recorded().iter().map(of).collect()
}

/// Recordings of perf, unpacked.
fn perf_data() -> Vec<Vec<u8>> {
    let archives = files("crates/trace/tests/data", "gz");
    let unpack = |bytes: Vec<u8>| Trace::unpack(&bytes).expect("an archive").into_owned();
    archives.into_iter().map(unpack).filter(|bytes| bytes.starts_with(b"PERFILE2") && bytes.len() < 100_000).collect()
}

/// Recordings of trace-cmd, unpacked.
fn trace_dat() -> Vec<Vec<u8>> {
    let archives = files("crates/trace/tests/data", "gz");
    let unpack = |bytes: Vec<u8>| Trace::unpack(&bytes).expect("an archive").into_owned();
    let is_small = |bytes: &Vec<u8>| bytes.starts_with(b"\x17\x08\x44tracing") && bytes.len() < 150_000;
    archives.into_iter().map(unpack).filter(is_small).collect()
}

fn packets() -> Vec<Vec<u8>> {
    let of = |trace: &Trace| {
        let mut bytes = Vec::new();
        perfetto::write(&mut bytes, trace).expect("memory takes it");
        bytes
    };
    recorded().iter().map(of).collect()
}

struct Kept(Vec<Record>);

impl Sink for Kept {
    fn record(&mut self, record: &Record) {
        self.0.push(record.clone());
    }
}

/// Short runs of workloads that leave many kinds of records.
fn recorded() -> Vec<Trace> {
    let name = |bytes: &[u8]| if bytes.first() == Some(&b'{') || bytes.starts_with(b"/") { "w.json" } else { "w.toml" };
    let mut traces = Vec::new();
    for bytes in workloads() {
        let Ok(scenario) = load(name(&bytes), &bytes, &LoadOptions::default()) else { continue };
        let Ok(plan) = Plan::new(scenario) else { continue };
        let plan = plan.for_duration(Duration::from_millis(8));
        let mut kept = Kept(Vec::new());
        let Ok(mut machine) = plan.build(Tracing::On) else { continue };
        let outcome = machine.run(&mut kept);
        traces.push(Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records: kept.0 });
    }
    traces
}

fn rtapp_file(input: &[u8]) -> Result<(), String> {
    for duplicates in DuplicatePolicy::ALL {
        let options = LoadOptions { duplicates, ..LoadOptions::default() };
        match load("f.json", input, &options) {
            Err(errors) => drop(errors.to_string()),
            Ok(scenario) => {
                drop(scenario.warnings.to_string());
                let Ok(text) = rtapp::export(&scenario.program, scenario.duration) else { continue };
                load("g.json", text.as_bytes(), &options)
                    .map_err(|errors| format!("what was exported does not load: {errors}"))?;
            }
        }
    }
    Ok(())
}

fn scenario_file(input: &[u8]) -> Result<(), String> {
    match load("f.toml", input, &LoadOptions::default()) {
        Err(errors) if errors.is_empty() => Err("it is refused without a reason".to_owned()),
        Err(errors) => {
            drop(errors.to_string());
            drop(format!("{:?}", miette::Report::from(errors)));
            Ok(())
        }
        Ok(scenario) => {
            drop(rtapp::export(&scenario.program, scenario.duration));
            Ok(())
        }
    }
}

fn table(input: &[u8]) -> Result<(), String> {
    for task_set in [PeriodicPolicy::Deadline, PeriodicPolicy::RateMonotonicFifo] {
        if let Err(errors) = load("f.csv", input, &LoadOptions { task_set, ..LoadOptions::default() }) {
            drop(errors.to_string());
        }
    }
    Ok(())
}

fn trace(input: &[u8]) -> Result<(), String> {
    let Ok(trace) = Trace::from_bytes(input) else { return Ok(()) };
    drop(check::check(&trace, &check::Options::default()));
    let mut out = Vec::new();
    perfetto::write(&mut out, &trace).map_err(|error| error.to_string())?;
    out.clear();
    ftrace::write(&mut out, &trace, ftrace::TimeDigits::Micros).map_err(|error| error.to_string())?;
    out.clear();
    trace.write(&mut out).map_err(|error| error.to_string())?;
    match Trace::from_bytes(&out) {
        Ok(again) if again == trace => Ok(()),
        Ok(_) => Err("it reads differently after it was written".to_owned()),
        Err(error) => Err(format!("it does not read after it was written: {error}")),
    }
}

/// Runs inputs that still load: no panic may occur, and no rule may be broken.
fn machine(input: &[u8]) -> Result<(), String> {
    let name = if input.first() == Some(&b'{') || input.starts_with(b"/") { "w.json" } else { "w.toml" };
    let Ok(scenario) = load(name, input, &LoadOptions::default()) else { return Ok(()) };
    let threads: u64 = scenario.program.tasks.iter().map(|task| u64::from(task.instances)).sum();
    if threads > 200 || scenario.machine.as_ref().map_or(4, Topology::nr_cpus) > 64 {
        return Ok(());
    }
    let Ok(plan) = Plan::new(scenario) else { return Ok(()) };
    let plan = plan.for_duration(Duration::from_millis(10));
    let mut calls = 0;
    let report = plan.run_into(Observe::default(), &mut Kept(Vec::new()), |_, _| {
        calls += 1;
        if calls > 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match report {
        Ok(report) if report.checks.as_ref().is_some_and(|checks| !checks.is_clean()) => {
            Err(format!("rules are broken: {:?}", report.checks))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Panics on a file that loads and has a task that no file of the corpus has.
fn canary(input: &[u8]) -> Result<(), String> {
    let Ok(scenario) = load("f.json", input, &LoadOptions::default()) else { return Ok(()) };
    let known = scenario
        .program
        .tasks
        .iter()
        .all(|task| task.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
    assert!(known || scenario.program.tasks.len() < 3, "the canary sings");
    Ok(())
}
