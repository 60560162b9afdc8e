//! The rules on traces recorded from Linux.

use zerolag_check::{Options, Report, Verdict, check};
use zerolag_trace::Trace;

/// Rules about data that Linux does not record.
const NO_RECORDS_OF: [&str; 15] = [
    "time-conserved",
    "affinity",
    "rt-groups",
    "rt-supply",
    "bandwidth",
    "dl-bandwidth",
    "dl-tardiness",
    "server-laxity",
    "server-share",
    "group-starved",
    "kernel-mode",
    "locks",
    "rcu",
    "watchdog",
    "counters",
];

fn judge(text: &str) -> Report {
    check(&Trace::from_bytes(text.as_bytes()).expect("a recorded trace"), &Options::default())
}

fn assert_verdicts(report: &Report, held: &[&str], not_applicable: &[&str]) {
    for name in held {
        assert_eq!(report.verdict(name), Some(&Verdict::Held), "{report}");
    }
    for name in not_applicable {
        assert!(matches!(report.verdict(name), Some(Verdict::NotApplicable(_))), "{report}");
    }
    assert_eq!(held.len() + not_applicable.len(), report.verdicts.len(), "every rule is accounted for");
}

#[test]
fn linux_on_one_cpu_keeps_the_rules() {
    assert_verdicts(
        &judge(include_str!("../../trace/tests/data/rr-fifo-fair-1cpu.txt")),
        &["one-cpu", "no-task-lost", "rt-order", "rt-quiescence"],
        &NO_RECORDS_OF,
    );
}

#[test]
fn linux_on_two_cpus_keeps_the_rules() {
    assert_verdicts(
        &judge(include_str!("../../trace/tests/data/rt-migrate-2cpu.txt")),
        &["one-cpu", "no-task-lost", "rt-order", "rt-quiescence"],
        &NO_RECORDS_OF,
    );
}

#[test]
fn perf_stops_its_recording_cpu_by_cpu() {
    let packed: &[u8] = include_bytes!("../../trace/tests/data/mixed-2cpu.perf.txt.gz");
    let trace = Trace::from_bytes(packed).expect("a recorded trace");
    assert_verdicts(
        &check(&trace, &Options::default()),
        &["one-cpu", "no-task-lost", "rt-order", "rt-quiescence"],
        &NO_RECORDS_OF,
    );
}

#[test]
fn a_recording_with_a_line_missing_has_a_gap_and_no_violation() {
    let text = include_str!("../../trace/tests/data/rr-fifo-fair-1cpu.txt");
    let switches = text.lines().enumerate().filter(|(_, line)| line.contains("sched_switch")).map(|(at, _)| at);
    for missing in switches.skip(10).step_by(17) {
        let rest: Vec<&str> = text.lines().enumerate().filter(|(at, _)| *at != missing).map(|(_, line)| line).collect();
        let trace = Trace::from_bytes(rest.join("\n").as_bytes()).expect("a recorded trace");
        assert_eq!(trace.meta.recorded.gaps.len(), 1, "line {missing} was not missed");
        let report = check(&trace, &Options::default());
        assert!(report.is_clean() && report.unseen.is_some(), "{report}");
    }
}

/// `perf sched record` with buffers of 32 KiB under `hackbench`: a quarter of the events is lost.
#[test]
fn lost_events_are_no_violations() {
    let packed: &[u8] = include_bytes!("../../trace/tests/data/lost-2cpu.perf.data.gz");
    let mut trace = Trace::from_bytes(packed).expect("a recorded trace");
    assert!(trace.meta.lost_events > 1000 && trace.meta.recorded.gaps.len() > 10);
    let report = check(&trace, &Options::default());
    assert!(report.is_clean() && report.unseen.is_some(), "{report}");
    assert_eq!(report.verdict("one-cpu"), Some(&Verdict::Held));
    // Judged as if it were whole, it has violations.
    (trace.meta.recorded.gaps, trace.meta.lost_events) = (Vec::new(), 0);
    assert!(!check(&trace, &Options::default()).is_clean());
}
