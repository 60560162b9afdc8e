//! The figures of recordings with lost events.

use zerolag_model::Duration;
use zerolag_report::explain::{Options, explain};
use zerolag_report::text::Limits;
use zerolag_report::{Metrics, Summary, json, text};
use zerolag_trace::Trace;
use zerolag_trace::replay::WaitCause;

fn lost() -> Summary {
    let packed: &[u8] = include_bytes!("../../trace/tests/data/lost-2cpu.perf.data.gz");
    Metrics::of(&Trace::from_bytes(packed).expect("a recording"))
}

#[test]
fn threads_and_processes_are_told_apart_in_text_and_json() {
    let summary = lost();
    let text = text::render(&summary, Limits::default());
    let head = text.lines().find(|line| line.starts_with("task ")).expect("a table of tasks");
    assert_eq!(head.split_whitespace().take(3).collect::<Vec<_>>(), ["task", "tid", "pid"]);
    assert!(!text.contains('#'), "a name is followed by nothing that looks like an id\n{text}");
    let value: serde_json::Value = serde_json::from_str(&json::render(&summary).expect("JSON")).expect("JSON");
    let tasks = value["tasks"].as_array().expect("tasks");
    assert!(tasks.iter().all(|task| task["recorded"]["tid"].is_u64()));
    let known = tasks.iter().filter(|task| task["recorded"]["pid"].is_u64()).collect::<Vec<_>>();
    assert!(known.len() > 10 && known.iter().any(|task| task["recorded"]["process"] == "hackbench"));
    assert!(value["gaps"].as_array().is_some_and(|gaps| gaps.len() > 10));
}

#[test]
fn gaps_are_listed_and_mark_figures() {
    let summary = lost();
    let text = text::render(&summary, Limits::default());
    assert!(text.contains(" events were lost: ") && text.contains(" of CPU time unseen"), "{text}");
    assert!(text.contains("run time by switches ") && text.contains(", charged by the kernel "), "{text}");
    assert!(summary.tasks.iter().any(|task| !task.run_unsure.is_zero() && task.run_unsure <= task.run));
    assert!(summary.cpus.iter().any(|cpu| !cpu.unseen.is_zero()));
    for cpu in &summary.cpus {
        let seen = cpu.busy.saturating_add(cpu.idle).saturating_add(cpu.unseen);
        assert!(seen <= summary.elapsed, "a CPU's time is counted once");
    }
}

/// A wait of which a part lies in a gap says so, in text and as data.
#[test]
fn explained_waits_tell_what_lies_in_gaps() {
    let packed: &[u8] = include_bytes!("../../trace/tests/data/lost-2cpu.perf.data.gz");
    let trace = Trace::from_bytes(packed).expect("a recording");
    let found = explain(&trace, Options { worst: 40, ..Options::default() });
    let unsure: Vec<_> = found.waits.iter().filter(|wait| !wait.in_gaps.is_zero()).collect();
    assert!(!unsure.is_empty() && unsure.len() < found.waits.len(), "{} of {}", unsure.len(), found.waits.len());
    assert!(unsure.iter().all(|wait| wait.in_gaps <= wait.length()));
    let said = found.to_string().matches("Events of its CPU are missing for ").count();
    assert_eq!(said, unsure.len());
    let data = serde_json::to_value(found.data()).expect("JSON");
    let marked = data["waits"].as_array().expect("waits").iter().filter(|wait| wait["in_gaps_ns"].is_u64()).count();
    assert_eq!(marked, unsure.len());
    let mut whole = trace;
    whole.meta.recorded.gaps.clear();
    assert!(
        explain(&whole, Options { worst: 40, ..Options::default() }).waits.iter().all(|wait| wait.missing().is_none())
    );
}

/// Tasks whose time was seen completely have the time that the kernel has charged them, within 1 %
/// and the time between charge and switch.
#[test]
fn run_times_outside_of_gaps_are_those_of_the_kernel() {
    let summary = lost();
    let mut compared = 0;
    for task in summary.tasks.iter().filter(|task| task.run_unsure.is_zero() && task.switches_in > 0) {
        let Some(charged) = task.charged() else { continue };
        // A task that runs at the start or end is charged for the time outside of the trace.
        if task.wait_unsure > Duration::ZERO || task.switches_in < 3 {
            continue;
        }
        compared += 1;
        let slack = charged.as_nanos() / 100 + 20_000 + task.switches_in * 4_000;
        let apart = task.run.saturating_sub(charged).max(charged.saturating_sub(task.run));
        assert!(apart.as_nanos() <= slack, "{}: {} by switches, charged {charged}", task.name, task.run);
    }
    assert!(compared >= 2, "only {compared} tasks were compared");
}

/// Wakeups alone: a report that said how long the task waited would be wrong.
#[test]
fn without_switches_nothing_is_known_of_waits() {
    let wakeup = |at: &str| {
        format!(
            "          <idle>-0     [001]  {at}: sched_wakeup: comm=rcu_preempt pid=7 prio=120 success=1 target_cpu=1\n"
        )
    };
    let text = wakeup("6550.100000") + &wakeup("6552.000002");
    let summary = Metrics::of(&Trace::from_bytes(text.as_bytes()).expect("a recording"));
    let task = &summary.tasks[0];
    assert_eq!(task.wait_unsure, task.wait);
    let worst = &summary.worst_waits[0];
    assert!(worst.unsure == worst.length() && worst.blocked_by.is_empty(), "{worst:?}");
    let shown = text::render(&summary, Limits::default());
    assert!(shown.contains("no `sched_switch` is recorded") && shown.contains("~1.90s"), "{shown}");
    assert!(!shown.contains("1.90s  idle") && !shown.contains(" new at "), "{shown}");
}

/// A task that has run before it is first woken is not new, whatever it is first seen by.
#[test]
fn a_woken_task_is_not_new() {
    let line = |at: &str, event: &str| format!("     x-1    [000]    {at}: {event}\n");
    let switch = |prev: &str, state: &str, next: &str| {
        format!("sched_switch: prev_comm={prev} prev_prio=120 prev_state={state} ==> next_comm={next} next_prio=120")
    };
    let (idle, k) = ("swapper/0 prev_pid=0", "k prev_pid=13");
    let text = line("10.000000", &switch(idle, "R", "k next_pid=13"))
        + &line("10.000626", &switch(k, "D", "swapper/0 next_pid=0"))
        + &line("10.000700", "sched_wakeup: comm=k pid=13 prio=120 target_cpu=000")
        + &line("10.000768", &switch(idle, "R", "k next_pid=13"))
        + &line("10.000900", &switch(k, "S", "swapper/0 next_pid=0"));
    let summary = Metrics::of(&Trace::from_bytes(text.as_bytes()).expect("a recording"));
    assert_eq!(summary.worst_waits[0].cause, WaitCause::Woken, "{:?}", summary.worst_waits);
}
