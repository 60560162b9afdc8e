//! rt-app's log of a simulated run: its columns and their values.

use core::ops::ControlFlow;
use std::sync::Arc;
use zerolag::Plan;
use zerolag::model::Duration;
use zerolag::sim::{Costs, Tracing};
use zerolag::simulation::Observe;
use zerolag::workload::{LoadOptions, load};
use zerolag_tools::rtapp_log::{HEAD, Log, instrument};

fn rows(text: &str) -> Vec<(String, Vec<String>)> {
    let scenario = load("a.json", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let mut plan = Plan::new(scenario).expect("a plan").with_costs(Costs::named("zero").expect("built in"));
    let mut log = Log::new(Arc::clone(&plan.program));
    plan.program = Arc::new(instrument(&plan.program));
    plan.for_duration(Duration::from_millis(100)).build(Tracing::On).expect("it fits").run(&mut log);
    log.threads().map(|(name, rows)| (name.to_owned(), rows.iter().map(ToString::to_string).collect())).collect()
}

#[test]
fn a_row_says_what_was_asked_for_and_what_came_of_it() {
    let text = r#"{"tasks": {"a": {"cpus": [0], "loop": 3, "run": 2000, "sleep": 100, "runtime1": 500,
                   "timer": {"ref": "unique", "period": 10000}}}}"#;
    let logs = rows(text);
    assert_eq!(logs[0].0, "a-0");
    let expected = [
        "   0    25000     2512    10000               0           10000               0       7388       2500      10000          0",
        "   0    25000     2512    10000           10000           20000           10000       7388       2500      10000          0",
        "   0    25000     2512    10000           20000           30000           20000       7388       2500      10000          0",
    ];
    assert_eq!(logs[0].1, expected);
    let columns = |line: &str| line.split_whitespace().count();
    assert_eq!((columns(HEAD), HEAD.len()), (columns(expected[0]), expected[0].len()));
}

#[test]
fn a_missed_timer_has_negative_slack_and_no_latency() {
    let text = r#"{"tasks": {"a": {"loop": 2, "run": 3000, "timer": {"ref": "unique", "period": 1000}}}}"#;
    let row = &rows(text)[0].1[0];
    let figures: Vec<i64> = row.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    assert_eq!((figures[2], figures[7], figures[10]), (3000, -2000, 0));
}

#[test]
fn each_loop_of_each_phase_has_a_row() {
    let text = r#"{"tasks": {"a": {"instance": 2, "loop": 2, "phases": {"x": {"loop": 3, "run": 10, "sleep": 5},
                   "y": {"run": 20, "sleep": 5}}}}}"#;
    let logs = rows(text);
    assert_eq!(logs.len(), 2);
    for (_, rows) in logs {
        let asked: Vec<&str> = rows.iter().filter_map(|row| row.split_whitespace().nth(8)).collect();
        assert_eq!(asked, ["10", "10", "10", "20", "10", "10", "10", "20"]);
    }
}

/// An effect of a charge (here on the fair server's budget) was once recorded after later events.
#[test]
fn the_stamps_keep_the_order_of_time() {
    let text = r#"{"tasks": {"a": {"instance": 3, "loop": -1, "run": 1000, "sleep": 3000, "run1": 20}}}"#;
    let scenario = load("a.json", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let mut plan = Plan::new(scenario).expect("a plan").for_duration(Duration::from_secs(2));
    let mut log = Log::new(Arc::clone(&plan.program));
    plan.program = Arc::new(instrument(&plan.program));
    let report = plan.run_into(Observe::default(), &mut log, |_, _| ControlFlow::Continue(())).expect("it runs");
    let checks = report.checks.expect("they are on");
    assert!(checks.is_clean(), "{checks:?}");
}
