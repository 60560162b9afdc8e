//! rt-app's marks in the text of a simulated run: each line in rt-app's format, at its time, by its
//! thread.

use std::sync::Arc;
use zerolag::Plan;
use zerolag::model::{Duration, Record};
use zerolag::sim::{Costs, Sink, Tracing};
use zerolag::trace::{Meta, Trace, ftrace};
use zerolag::workload::{LoadOptions, load};
use zerolag_tools::rtapp_marks::{Category, Marks, instrument};

struct Kept(Vec<Record>);

impl Sink for Kept {
    fn record(&mut self, record: &Record) {
        self.0.push(record.clone());
    }
}

/// Returns the text of a run of 25 ms, and the one without marks.
fn texts(text: &str, categories: &[Category]) -> (String, String) {
    let scenario = load("a.json", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let plan = Plan::new(scenario).expect("a plan").with_costs(Costs::named("zero").expect("built in"));
    let mut plan = plan.for_duration(Duration::from_millis(25));
    let run = |plan: &Plan| {
        let mut kept = Kept(Vec::new());
        let outcome = plan.build(Tracing::On).expect("it fits").run(&mut kept);
        Trace { meta: Meta { end: outcome.end, ..plan.meta() }, records: kept.0 }
    };
    let plain = run(&plan);
    plan.program = Arc::new(instrument(&plan.program, categories));
    let trace = run(&plan);
    let mut marks = Marks::new(Arc::clone(&plan.program), categories);
    let mut out = [Vec::new(), Vec::new()];
    let lines = |record: Option<&Record>| record.map_or_else(Vec::new, |record| marks.at(record));
    let mut lines = lines;
    ftrace::write_with(&mut out[0], &trace, ftrace::TimeDigits::Micros, &mut lines).expect("memory takes it");
    ftrace::write(&mut out[1], &plain, ftrace::TimeDigits::Micros).expect("memory takes it");
    let [marked, plain] = out.map(|bytes| String::from_utf8(bytes).expect("text"));
    (marked, plain)
}

const TEXT: &str = r#"{"tasks": {"a": {"cpus": [0], "loop": 2, "phases": {
    "x": {"loop": 2, "lock": "m", "run": 2000, "unlock": "m"}, "y": {"sleep": 1000, "timer": {"ref": "unique", "period": 8000}}}}}}"#;

#[test]
fn marks_are_rt_apps_lines() {
    let (marked, plain) = texts(TEXT, &Category::ALL);
    let is_mark = |line: &&str| line.contains("tracing_mark_write");
    let lines: Vec<String> = marked
        .lines()
        .filter(is_mark)
        .map(|line| {
            line.split_whitespace()
                .filter(|word| *word != "....." && *word != "tracing_mark_write:")
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect();
    let first = [
        "<idle>-0 [000] 0.000000: rtapp_main: event=start",
        "a-0-1000 [000] 0.000000: rtapp_main: event=clock_ref data=0",
        "a-0-1000 [000] 0.000000: rtapp_task: event=start",
        "a-0-1000 [000] 0.000000: rtapp_loop: event=start thread_loop=0 phase=0 phase_loop=0",
        "a-0-1000 [000] 0.000000: rtapp_event: id=0 type=8 desc=lock",
        "a-0-1000 [000] 0.000000: rtapp_event: id=1 type=6 desc=run",
        "a-0-1000 [000] 0.002000: rtapp_event: id=2 type=9 desc=unlock",
        "a-0-1000 [000] 0.002000: rtapp_loop: event=end thread_loop=0 phase=0 phase_loop=0",
        "a-0-1000 [000] 0.002000: rtapp_stats: period=2000 run=2000 wu_lat=0 slack=0 c_period=0 c_run=2000",
        "a-0-1000 [000] 0.002000: rtapp_loop: event=start thread_loop=0 phase=0 phase_loop=1",
    ];
    assert_eq!(lines[..first.len()], first);
    let second = lines.iter().position(|line| line.contains("phase=1")).expect("the second phase");
    let of_second = [
        "a-0-1000 [000] 0.004000: rtapp_loop: event=start thread_loop=0 phase=1 phase_loop=0",
        "a-0-1000 [000] 0.004000: rtapp_event: id=0 type=5 desc=sleep",
        "a-0-1000 [000] 0.005000: rtapp_event: id=1 type=11 desc=timer",
        "a-0-1000 [000] 0.008000: rtapp_loop: event=end thread_loop=0 phase=1 phase_loop=0",
        "a-0-1000 [000] 0.008000: rtapp_stats: period=4000 run=0 wu_lat=0 slack=3000 c_period=8000 c_run=0",
    ];
    assert_eq!(lines[second..second + of_second.len()], of_second);
    assert_eq!(lines.last().map(String::as_str), Some("a-0-1000 [000] 0.016000: rtapp_task: event=end"));
    // Except for the marks, the text is that of the run without marks; the head counts lines.
    let rest = |text: &str| {
        text.lines().filter(|line| !is_mark(line) && !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(rest(&marked), rest(&plain));
    // The text is still a readable trace.
    assert!(Trace::from_bytes(marked.as_bytes()).is_ok());
}

#[test]
fn only_what_is_asked_for_is_marked() {
    let (marked, _) = texts(TEXT, &[Category::Stats]);
    let kinds: Vec<&str> =
        marked.lines().filter_map(|line| line.split("tracing_mark_write: ").nth(1)?.split(':').next()).collect();
    assert_eq!(kinds, ["rtapp_stats"; 6]);
}
