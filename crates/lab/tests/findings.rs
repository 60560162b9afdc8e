//! Minimal scenarios of faults that were found: none panics, no rule breaks but by a fault that the
//! kernel has, and the same seed gives the same bytes. `data/findings/README.md` says what each
//! found.

use std::path::{Path, PathBuf};
use zerolag::Plan;
use zerolag::background::Background;
use zerolag::check::{Options, Report, check};
use zerolag::model::event::Irq;
use zerolag::model::{Duration, TraceEvent};
use zerolag::report::{Metrics, Summary};
use zerolag::sim::{Costs, Tracing};
use zerolag::trace::{Meta, Trace};
use zerolag::workload::{LoadOptions, scenario};
use zerolag_lab::fuzz::{Judged, judge};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/findings");
    let entries = std::fs::read_dir(folder).expect("the folder of findings");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

fn run(path: &Path) -> Trace {
    run_with(path, &|plan| plan)
}

fn run_with(path: &Path, change: &dyn Fn(Plan) -> Plan) -> Trace {
    let text = std::fs::read_to_string(path).expect("readable");
    let scenario = scenario::load(&path.to_string_lossy(), &text, &LoadOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let plan = change(Plan::new(scenario).expect("it fits"));
    let mut records = Vec::new();
    let mut machine = plan.build(Tracing::On).expect("it fits");
    let outcome = machine.run(&mut records);
    assert!(outcome.why.is_ok(), "{}: {}", path.display(), outcome.why);
    Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records }
}

/// Findings that need other costs than the usual: `NAME.toml`, and its costs in `NAME.costs`.
#[test]
fn no_finding_with_costs_is_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/findings-with-costs");
    let entries = std::fs::read_dir(folder).expect("the folder of findings");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut found = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "toml")) {
        let text = std::fs::read_to_string(path.with_extension("costs")).expect("its costs");
        let costs = Costs::from_toml("costs", &text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let trace = run_with(&path, &|plan| plan.with_costs(costs.clone()));
        let report = check(&trace, &Options::default());
        assert!(report.faults().is_some(), "{}:\n{report}", path.display());
        found += 1;
    }
    assert!(found >= 4, "{found}");
}

/// The timer of a budget waited for 115 us of pushes with interrupts disabled, which `dl-bandwidth`
/// did not expect. So did the next ones.
#[test]
fn a_timer_waits_for_the_end_of_a_long_path() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/findings-with-costs/timer-behind-path.toml");
    let text = std::fs::read_to_string(path.with_extension("costs")).expect("its costs");
    let costs = Costs::from_toml("costs", &text).expect("a profile");
    let trace = run_with(&path, &|plan| plan.with_costs(costs.clone()).with_background(Background::Idle));
    let report = check(&trace, &Options::default());
    assert!(report.faults().is_some(), "{report}");
}

/// A CPU went offline: its threads ran elsewhere, and that CPU asked itself to reschedule for good.
#[test]
fn threads_of_a_cpu_that_goes_offline_run_elsewhere() {
    let path = files().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == "background-hotplug"));
    let path = path.expect("a finding of that name");
    for background in [Background::Kernel, Background::Idle] {
        let trace = run_with(&path, &|plan| plan.with_costs(Costs::zero()).with_background(background));
        let summary = Metrics::of(&trace);
        // A thread of a loaded machine wakes often enough to be moved.
        let moved = summary.tasks.iter().filter(|task| &*task.name == "kworker/3-0" && task.migrations.total() > 0);
        assert_eq!(moved.count() == 1, background == Background::Kernel, "{background:?}");
        let report = check(&trace, &Options::default());
        assert!(report.faults().is_some(), "{background:?}:\n{report}");
    }
}

fn checked(name: &str) -> Report {
    let path = files().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name));
    check(&run(&path.expect("a finding of that name")), &Options::default())
}

#[test]
fn no_finding_is_back() {
    for path in files() {
        let trace = run(&path);
        let report = check(&trace, &Options::default());
        assert!(report.faults().is_some(), "{}:\n{report}", path.display());
        assert!(trace.records == run(&path).records, "{}: another run differs", path.display());
    }
}

/// A run without a trace does the same, and so does one that goes on in a copy of the machine.
#[test]
fn no_finding_depends_on_its_trace() {
    for path in files() {
        let text = std::fs::read_to_string(&path).expect("readable");
        if let Judged::Wrong(finding) = judge(&text) {
            panic!("{}: {finding}", path.display());
        }
    }
}

#[test]
fn what_cannot_be_judged_is_said() {
    let reasons =
        |name| checked(name).not_judged.into_iter().map(|part| (part.monitor, part.reason)).collect::<Vec<_>>();
    assert_eq!(reasons("ho"), [("rt-order", "the CPU is offline")]);
    let in_kernel = "a CPU was asked to reschedule and can be in the kernel, where it is not preempted";
    assert_eq!(reasons("kq"), [("rt-quiescence", in_kernel)]);
    let bypass = "a CPU went offline or came online (fault.cfs_bandwidth_hotplug_bypass)";
    assert_eq!(reasons("m7371"), [("bandwidth", bypass)]);
    assert_eq!(reasons("lim"), []);
}

/// Returns the trace of a finding and the figures in it.
fn figures(name: &str) -> (Trace, Summary) {
    let path = files().into_iter().find(|path| path.file_stem().is_some_and(|stem| stem == name));
    let trace = run(&path.expect("a finding of that name"));
    let summary = Metrics::of(&trace);
    (trace, summary)
}

/// The symptom that led to each finding is gone; the comment has the figure with the fault.
#[test]
fn no_symptom_is_back() {
    let ms = Duration::from_millis;
    let count = |trace: &Trace, is: &dyn Fn(&TraceEvent) -> bool| {
        trace.records.iter().filter(|record| is(&record.event)).count()
    };
    let of = |summary: &Summary, task: &str| summary.task_by_name(task).expect("a task of that name").clone();

    // A search before idling held the run queue, so that wakers spun: 3863 wakeups.
    let (trace, _) = figures("ni2");
    let wakeups = count(&trace, &|event| matches!(event, TraceEvent::Wakeup { .. }));
    assert!(wakeups > 11_000, "{wakeups} wakeups");

    // A waker waited for 599 ms beside three idle CPUs.
    let waiter = of(&figures("idlepub").1, "w-0");
    assert!(waiter.wait_max < ms(1), "waited for {}", waiter.wait_max);

    // A throttled real-time task in the kernel computes for 1.5 s at 250 Hz: 51 ticks.
    let (trace, _) = figures("rtk");
    let ticks = count(&trace, &|event| matches!(event, TraceEvent::IrqEnter { irq: Irq::Tick }));
    assert!((370..=380).contains(&ticks), "{ticks} ticks");

    // Tasks that were throttled on return to user mode stood still for 0.95 s after a hotplug.
    let (_, summary) = figures("cb1");
    for task in ["a-0", "a-1"] {
        let longest = of(&summary, task).wait_max;
        assert!(longest < ms(100), "{task} waited for {longest}");
    }

    // A server's fair task had the server's priority: the FIFO task was pushed away and got 100 %,
    // and the waking one went to the other CPU.
    let share = of(&figures("served-push").1, "hog-0").run.as_nanos() * 100 / ms(6_000).as_nanos();
    assert!((94..=96).contains(&share), "{share} %");
    assert_eq!(of(&figures("servedsel").1, "s-0").migrations.total(), 1, "the one to its new affinity");

    // The waker's CPU is among the lowest, and is preferred.
    let (trace, summary) = figures("waker");
    let sleeper = of(&summary, "sleeper-0").task;
    let runs = trace
        .records
        .iter()
        .filter(|record| matches!(record.event, TraceEvent::Switch { next: Some(next), .. } if next == sleeper));
    assert_eq!(runs.map(|record| record.cpu.0).collect::<Vec<_>>(), [0, 2]);

    // `cpu.stat` of a group had the time of the interrupts and softirqs that its task met: 1 s.
    let (_, summary) = figures("usage-softirq");
    let task = of(&summary, "a-0");
    let usage = summary.groups[0].usage;
    assert!((ms(480)..ms(495)).contains(&usage), "{usage}");
    assert!(usage.saturating_sub(task.exec.expect("it is counted")) <= ms(4), "a tick later: {usage}");

    // A runtime of 0 throttled for good before 6.12.
    let ran = of(&figures("rt0").1, "rt-0").run;
    assert!(ran > ms(4_900), "ran for {ran}");
}

/// A pause on a CPU that goes offline sent 429,000 wakeups per second to a dead CPU.
#[test]
fn a_pause_on_a_cpu_that_goes_offline_is_refused() {
    let text = "duration = \"1s\"\n[machine]\ncpus = 2\n[task.x]\nsteps = [{ run = \"1ms\" }]\n\
        [pause.gc]\nevery = \"40ms\"\nlength = \"3ms\"\n[[change]]\nat = \"100ms\"\ncpu = 1\nonline = false\n";
    let refused = scenario::load("pz2.toml", text, &LoadOptions::default()).expect_err("it is refused");
    assert!(refused.to_string().contains("pause `gc` is on CPU 1, which goes offline at 100ms"), "{refused}");
}
