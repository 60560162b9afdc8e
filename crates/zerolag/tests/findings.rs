//! Minimal scenarios of faults that were found: none panics, no rule breaks but by a fault that the
//! kernel has, and the same seed gives the same bytes. `data/findings/README.md` says what each
//! found.

use std::path::{Path, PathBuf};
use zerolag::Plan;
use zerolag::check::{Options, Report, check};
use zerolag::sim::Tracing;
use zerolag::trace::{Meta, Trace};
use zerolag::workload::{LoadOptions, scenario};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/findings");
    let entries = std::fs::read_dir(folder).expect("the folder of findings");
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

fn run(path: &Path) -> Trace {
    let text = std::fs::read_to_string(path).expect("readable");
    let scenario = scenario::load(&path.to_string_lossy(), &text, &LoadOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let plan = Plan::new(scenario).expect("it fits");
    let mut records = Vec::new();
    let mut machine = plan.build(Tracing::On).expect("it fits");
    let outcome = machine.run(&mut records);
    assert!(outcome.why.is_ok(), "{}: {}", path.display(), outcome.why);
    Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records }
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
