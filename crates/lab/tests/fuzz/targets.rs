//! The targets of fuzzing.

use core::ops::ControlFlow;
use std::path::Path;
use zerolag::advise::counters::demand;
use zerolag::advise::samples::{Samples, are_samples};
use zerolag::manifest::Manifest;
use zerolag::model::{CpuMax, Duration, Record, Topology};
use zerolag::report::tool::ToolLatencies;
use zerolag::sim::{Costs, Sink, Tracing};
use zerolag::simulation::Observe;
use zerolag::trace::{Meta, Trace, ftrace, perfetto, tool_output};
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
    Target { name: "packed", inputs: 300, corpus: packed, run: trace },
    Target { name: "page", inputs: 600, corpus: pages, run: trace },
    Target { name: "manifest", inputs: 4_000, corpus: manifests, run: manifest },
    Target { name: "counters", inputs: 4_000, corpus: counters, run: samples },
    Target { name: "costs", inputs: 4_000, corpus: cost_files, run: cost_file },
    Target { name: "tool", inputs: 2_000, corpus: tools, run: tool },
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

/// Task sets of every format: CSV, SimSo, Cheddar, PARTSim.
fn tables() -> Vec<Vec<u8>> {
    let simso = "<?xml version=\"1.0\"?>\n<simulation duration=\"100000000\" cycles_per_ms=\"1000000\" etm=\"wcet\">\n\
        <sched class=\"simso.schedulers.EDF\"/>\n<caches memory_access_time=\"100\"/>\n\
        <processors><processor name=\"CPU 1\" id=\"1\" cl_overhead=\"0\" cs_overhead=\"0\" speed=\"1.0\"/></processors>\n\
        <tasks><task name=\"A\" id=\"1\" task_type=\"Periodic\" period=\"10.0\" activationDate=\"0.0\" deadline=\"10.0\" \
        WCET=\"2.5\" abort_on_miss=\"no\"/></tasks>\n</simulation>\n";
    let cheddar = "<?xml version=\"1.0\"?>\n<!DOCTYPE cheddar [\n<!ELEMENT name (#PCDATA) >\n]>\n<cheddar>\n<processors>\
        <processor><name>cpu</name><scheduler> RATE_MONOTONIC_PROTOCOL </scheduler></processor></processors>\n<tasks>\n\
        <task task_type=\"PERIODIC_TYPE\"><cpu_name>cpu</cpu_name><name>bus</name><capacity> 10</capacity>\
        <deadline> 50</deadline><period>50</period><jitter>1</jitter></task>\n</tasks>\n<resources><resource><name>data</name>\
        <state>1</state><protocol>Priority_Inheritance_Protocol</protocol><resource_used_by>\n\
        <resource_user> bus 1 10 </resource_user>\n</resource_used_by></resource></resources>\n</cheddar>\n";
    let partsim = "taskset:\n  - name: T1\n    iat: 32\n    deadline: 32\n    server_type: grub\n    cbs_runtime: 8\n    startcpu: 1\n\
        \x20   code:\n      - lock(r)\n      - fixed(7,bzip2)\n      - unlock(r);\n  - name: T2\n    iat: 48\n    ph: 5\n    code:\n\
        \x20     - delay(uniform(2,14))\n      - suspend(3)\nresources:\n  - name: r\n    initial_state: unlocked\n";
    let csv = "# c\ntask,runtime_ms,period_s,deadline_ns,offset\na,1,2,3000000,4\nb,5,6,7000000,0\n";
    vec![builtin::W4.into(), csv.into(), simso.into(), cheddar.into(), partsim.into()]
}

/// Small archives of each packer, and those of SchedViz.
fn packed() -> Vec<Vec<u8>> {
    let all = ["gz", "xz", "zst"].into_iter().flat_map(|end| files("crates/trace/tests/data", end));
    all.filter(|bytes| bytes.len() < 60_000).collect()
}

/// Pages of systrace: the text of ftrace in HTML.
fn pages() -> Vec<Vec<u8>> {
    let page = |text: Vec<u8>| {
        let [before, after]: [&[u8]; 2] =
            [b"<!DOCTYPE html>\n<body>\n<script class=\"trace-data\" type=\"x\">\n", b"\n</script>\n</body>\n"];
        [before, &text, after].concat()
    };
    texts().into_iter().map(page).collect()
}

fn manifests() -> Vec<Vec<u8>> {
    let mut all = files("docs/tutorial", "yaml");
    all.extend(files("docs/lab/field-reports", "yaml"));
    let compose = "services:\n  web:\n    image: w\n    cpus: 0.5\n    cpu_shares: 512\n    deploy:\n      replicas: 2\n      resources:\n\
        \x20       limits:\n          cpus: '1.5'\n  db:\n    cpu_quota: 50000\n    cpu_period: 100000\n    cpuset: 0-3\n";
    all.push(compose.into());
    all
}

fn counters() -> Vec<Vec<u8>> {
    let stat = "1700000000\nusage_usec 1000\nnr_periods 10\nnr_throttled 2\nthrottled_usec 500\n\
        1700000010\nusage_usec 9000\nnr_periods 110\nnr_throttled 30\nthrottled_usec 70500\n";
    let answer = "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\
        \"container_cpu_cfs_periods_total\",\"pod\":\"a\"},\"values\":[[1700000000,\"10\"],[1700000010,\"110\"]]}]}}";
    let csv = "time,usage_usec,nr_periods,nr_throttled\n1700000000,1000,10,2\n1700000010,9000,110,30\n";
    vec![stat.into(), answer.into(), csv.into(), "nr_periods 10\nnr_throttled 2\nusage_usec 7\n".into()]
}

fn cost_files() -> Vec<Vec<u8>> {
    let all = "context_switch = \"1us\"\nsmt_speed_percent = 50\nipi_latency = { smt = \"1us\", remote = \"2us\" }\n\
        idle_states = [{ residency = \"0us\", exit = \"1us\", polling = true }, { residency = \"1ms\", exit = \"3ms\" }]\n\
        timer_late = [[0, \"0ns\"], [1000000, \"20us\"]]\nsmi = { gap = [[0, \"1ms\"]], length = [[0, \"1us\"]] }\n";
    let mut found = files("crates/runtime/simulated", "toml");
    found.push(all.into());
    found
}

fn tools() -> Vec<Vec<u8>> {
    let lines = "# /dev/cpu_dma_latency set to 0us\npolicy: fifo: loadavg: 0.30 0.20 0.10 1/200 3000\n\n\
        T: 0 ( 3001) P:80 I:1000 C: 100000 Min:      1 Act:    2 Avg:    2 Max:      15\n\
        T: 1 ( 3002) P:80 I:1500 C:  66666 Min:      1 Act:    2 Avg:    2 Max:      19\n";
    let histogram = "# Histogram\n000000 000000\n000001 000120\n000002 000034\n# Total: 000000154\n# Min Latencies: 00001\n\
        # Avg Latencies: 00001\n# Max Latencies: 00002\n# Histogram Overflows: 00000\n";
    vec![lines.into(), histogram.into()]
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
        // By its extension, and by its contents.
        for name in ["f.csv", "f"] {
            if let Err(errors) = load(name, input, &LoadOptions { task_set, ..LoadOptions::default() }) {
                drop(errors.to_string());
            }
        }
    }
    Ok(())
}

/// A manifest that is read is put upon a workload.
fn manifest(input: &[u8]) -> Result<(), String> {
    match Manifest::text("f.yaml", input) {
        Err(errors) if errors.to_string().is_empty() => Err("it is refused without a reason".to_owned()),
        Err(_) => Ok(()),
        Ok(manifest) => {
            let text = "[group.\"/web\"]\n[task.a]\ngroup = \"/web\"\nsteps = [{ run = \"1ms\" }]\n";
            let mut scenario = load("f.toml", text.as_bytes(), &LoadOptions::default()).expect("a scenario");
            drop(manifest.apply(&mut scenario.program));
            Ok(())
        }
    }
}

/// Counters that are read are in order of time, and give a demand or a reason why not.
fn samples(input: &[u8]) -> Result<(), String> {
    let mut samples = Samples::default();
    if are_samples(input) && samples.read("f", input).is_ok() {
        let all = samples.all();
        if !all.iter().zip(all.iter().skip(1)).all(|(one, next)| one.at < next.at) {
            return Err("the samples are not in order of time".to_owned());
        }
        let max = CpuMax { quota: Some(Duration::from_millis(50)), ..CpuMax::UNLIMITED };
        drop(demand(&all, max, Some(4), 0.01));
        drop(samples.since_creation(60.0));
    }
    Ok(())
}

fn cost_file(input: &[u8]) -> Result<(), String> {
    let Ok(text) = std::str::from_utf8(input) else { return Ok(()) };
    match Costs::from_toml("f", text) {
        Err(error) if error.to_string().is_empty() => Err("it is refused without a reason".to_owned()),
        Err(_) => Ok(()),
        Ok(costs) => {
            let _ = costs.longest_path(64);
            Ok(())
        }
    }
}

fn tool(input: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(input);
    if let Some(tool) = tool_output(&text) {
        drop(format!("{:?}", ToolLatencies::read(&text, tool)));
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
