//! Compares the figures of a recorded trace with those of `perf sched timehist` on the same
//! recording.
//!
//! `timehist` starts to count a task at its first complete stretch. Here the time before a CPU's
//! first event counts as well, and so does the time after its last event. So tasks that run at the
//! start, or still run or wait at the end, differ by design. They are recognised by their records,
//! not by their figures.

use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::{Duration, PrevState, TaskId, TraceEvent};
use zerolag_report::{Metrics, TaskSummary};
use zerolag_trace::replay::{Replay, TaskState};
use zerolag_trace::{Trace, ftrace};

/// The figures of one thread in the output of `perf sched timehist -s --state`; times in
/// microseconds.
struct Expected {
    sched_in: u64,
    run: u64,
    sleep: u64,
    iowait: u64,
    preempt: u64,
    delay: u64,
}

fn expected() -> BTreeMap<u32, Expected> {
    let csv = include_str!("../../trace/tests/data/mixed-2cpu.timehist.csv");
    let rows = csv.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let us = |at: usize| cells[at].replace('.', "").parse().expect("milliseconds with three decimals");
        let sched_in = cells[2].parse().expect("a count");
        let row = Expected { sched_in, run: us(3), sleep: us(4), iowait: us(5), preempt: us(6), delay: us(7) };
        (cells[0].parse().expect("a thread id"), row)
    });
    rows.collect()
}

/// Returns the trace, the process ids of its tasks, and two sets of ids. The first set: threads
/// whose stretches perf counts for its task -1 (it no longer knows a thread whose parent has
/// collected it, though the event names it). The second: threads that were switched out in state
/// `R+`.
fn recorded() -> (Trace, Vec<u32>, BTreeSet<u32>, BTreeSet<u32>) {
    let packed: &[u8] = include_bytes!("../../trace/tests/data/mixed-2cpu.perf.txt.gz");
    let text = Trace::unpack(packed).expect("a whole archive");
    let text = std::str::from_utf8(&text).expect("text");
    let (trace, pids) = ftrace::read_with_pids(text).expect("a recorded trace");
    let prev_pid = |line: &str| line.split_once("prev_pid=")?.1.split(' ').next()?.parse().ok();
    let those = |is: fn(&str) -> bool| text.lines().filter(|line| is(line)).filter_map(prev_pid).collect();
    let unknown = those(|line| line.trim_start().starts_with(":-1 "));
    (trace, pids, unknown, those(|line| line.contains("prev_state=R+")))
}

/// Returns whether a task's life is complete within the trace: it starts and ends off its CPU, and
/// does not wait at the end.
fn is_whole(trace: &Trace, id: TaskId) -> bool {
    let mut replay = Replay::new(&trace.meta);
    let mut began_running = None;
    for record in &trace.records {
        if let TraceEvent::Switch { prev, prev_state, next, .. } = &record.event {
            if *prev == Some(id) {
                began_running.get_or_insert(*prev_state != PrevState::Idle);
            }
            if *next == Some(id) {
                began_running.get_or_insert(false);
            }
        }
        replay.apply(record);
    }
    let state = replay.task(id).map(|task| task.state);
    began_running == Some(false) && matches!(state, Some(TaskState::Blocked | TaskState::Dead))
}

#[test]
fn figures_are_those_of_perf_sched_timehist() {
    let (trace, pids, unknown, preempted) = recorded();
    let summary = Metrics::of(&trace);
    let expected = expected();
    let mut compared = 0;
    for task in &summary.tasks {
        let Some(perf) = expected.get(&pids[task.task.index()]) else { continue };
        if unknown.contains(&pids[task.task.index()]) || !is_whole(&trace, task.task) {
            continue;
        }
        compared += 1;
        compare(task, perf, &trace, preempted.contains(&pids[task.task.index()]));
    }
    assert!(compared >= 20, "only {compared} tasks were compared");
}

fn compare(task: &TaskSummary, perf: &Expected, trace: &Trace, preempted_in_kernel: bool) {
    assert_eq!(task.switches_in, perf.sched_in, "{}: switches", task.name);
    // Each stretch is printed rounded to a microsecond.
    let slack = perf.sched_in;
    let us = |time: Duration| time.as_nanos() / 1000;
    let within = |what: &str, ours: u64, least: u64, most: u64| {
        let fits = ours + slack >= least && ours <= most + slack;
        assert!(fits, "{} {}: {what} {ours} us, perf says {least}..={most} us", task.task, task.name);
    };
    within("run", us(task.run), perf.run, perf.run);
    // perf counts a sleep when it ends; here a sleep that lasts until the end of the trace counts
    // as well.
    let sleep = us(task.sleep.saturating_sub(open_sleep(trace, task.task)));
    // perf's sleeps include the delay after the wakeup, until the task runs; the first wakeup
    // follows no sleep.
    let slept = perf.sleep + perf.iowait;
    within("off the CPU", us(task.wait) + sleep, perf.preempt + slept, perf.preempt + slept + perf.delay);
    // perf 6.1 takes the state `R+` for a sleep.
    if !preempted_in_kernel {
        within("wait", us(task.wait), perf.preempt + perf.delay, perf.preempt + perf.delay);
    }
}

/// Returns the length of the sleep that a task is in when the trace ends.
fn open_sleep(trace: &Trace, id: TaskId) -> Duration {
    let out = trace.records.iter().rev().find_map(|record| match &record.event {
        TraceEvent::Switch { prev, prev_state, .. } if *prev == Some(id) => {
            Some((*prev_state == PrevState::Blocked).then_some(record.at))
        }
        _ => None,
    });
    out.flatten().map_or(Duration::ZERO, |at| trace.meta.end.since(at))
}
