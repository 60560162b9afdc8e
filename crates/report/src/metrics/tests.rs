use super::*;
use crate::sample::two_hogs_and_a_fifo;
use crate::summary::{Blocker, Relation};
use zerolag_model::{GroupId, SignedDuration};
use zerolag_trace::script::Script;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn run_time_goes_to_the_running_task() {
    let summary = Metrics::of(&two_hogs_and_a_fifo());
    let of = |name: &str| summary.task_by_name(name).unwrap().clone();
    // 10 ms: a 0-4, f 4-6, a 6-8, b 8-10.
    assert_eq!((of("a").run, of("b").run, of("f").run), (ms(6), ms(2), ms(2)));
    assert_eq!((of("a").preemptions, of("b").preemptions, of("f").preemptions), (2, 0, 0));
    assert_eq!((of("a").wait, of("a").wait_max), (ms(4), ms(2)));
    assert_eq!((of("b").wait, of("f").wait), (ms(8), Duration::ZERO));
    assert_eq!(of("b").latency.unwrap().max, ms(8));
    assert_eq!(of("f").activations, 1);
    assert_eq!((summary.cpus[0].busy, summary.cpus[0].idle), (ms(10), Duration::ZERO));
    assert_eq!((summary.cpus[1].busy, summary.cpus[1].idle), (Duration::ZERO, ms(10)));
    assert_eq!(summary.switches, 4);
    assert_eq!(summary.elapsed, ms(10));
}

#[test]
fn a_wait_names_the_tasks_that_ran_meanwhile() {
    let summary = Metrics::of(&two_hogs_and_a_fifo());
    let worst = &summary.worst_waits[0];
    let (a, b, f) = (TaskId(0), TaskId(1), TaskId(2));
    assert_eq!((worst.task, worst.length(), worst.cause, worst.end), (b, ms(8), WaitCause::New, WaitEnd::Ran));
    let by = |task, time| (Some(task), time);
    let blockers: Vec<_> = worst.blocked_by.iter().map(|by| (by.task, by.time)).collect();
    assert_eq!(blockers, [by(a, ms(6)), by(f, ms(2))]);
    let relations: Vec<_> = worst.blocked_by.iter().map(|by| by.relation(worst.prio)).collect();
    assert_eq!(relations, [Relation::Fair, Relation::Beats]);
    assert_eq!(worst.unexplained(), Duration::ZERO);
    let open = summary.worst_waits.iter().find(|wait| wait.end == WaitEnd::TraceEnded).unwrap();
    assert_eq!((open.task, open.length(), open.from), (a, ms(2), Instant::from_nanos(8_000_000)));
    assert_eq!(open.blocked_by, [Blocker { task: Some(b), throttled: None, prio: worst.prio, time: ms(2) }]);
}

#[test]
fn a_limit_is_named_whatever_runs_meanwhile() {
    let mut script = Script::new(1);
    let (group, below) = (GroupId(1), GroupId(2));
    let new = |group, parent, path: &str| TraceEvent::GroupNew { group, parent, path: path.into() };
    script.event(0, 0, new(group, GroupId::ROOT, "/web")).event(0, 0, new(below, group, "/web/api"));
    let [a, other] = ["a", "other"].map(|name| script.fair(name));
    script.event(0, 0, TraceEvent::GroupChange { task: a, group: below });
    // Behind `other` for 1 ms, throttled for 5 ms of which `other` runs 3, then behind it again.
    script.wake(0, 0, other).run(0, 0, None, Some(other)).wake(0, 0, a);
    script.event(1_000, 0, TraceEvent::Throttle { group }).switch(4_000, 0, Some(other), PrevState::Blocked, None);
    script.wake(5_500, 0, other).run(5_500, 0, None, Some(other));
    script.event(6_000, 0, TraceEvent::Unthrottle { group }).preempt(7_000, 0, other, a);
    let summary = Metrics::of(&script.end(7_000));
    let wait = summary.worst_waits.iter().find(|wait| wait.task == a).expect("it waited");
    let blockers: Vec<_> = wait.blocked_by.iter().map(|by| (by.throttled, by.task, by.time)).collect();
    assert_eq!(blockers, [(Some(group), None, ms(5)), (None, Some(other), ms(2))]);
    assert_eq!((wait.length(), wait.unexplained()), (ms(7), Duration::ZERO));
    let text = crate::text::render(&summary, crate::text::Limits::default());
    assert!(text.contains("throttled: /web has used up its limit"), "{text}");
}

#[test]
fn a_wait_on_two_queues_is_explained_on_both() {
    let mut script = Script::new(2);
    let [a, b, w] = ["a", "b", "w"].map(|name| script.fair(name));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 1, b).run(0, 1, None, Some(b));
    script.wake(1000, 0, w).migrate(3000, w, 0, 1, MigrateReason::Periodic).run(8000, 1, Some(b), Some(w));
    let summary = Metrics::of(&script.end(10_000));
    let wait = &summary.worst_waits[0];
    assert_eq!((wait.task, wait.length(), wait.cpu), (w, ms(7), CpuId(1)));
    let blockers: Vec<_> = wait.blocked_by.iter().map(|by| (by.task, by.time)).collect();
    assert_eq!(blockers, [(Some(b), ms(5)), (Some(a), ms(2))]);
    assert_eq!(summary.migrations.of(MigrateReason::Periodic), 1);
    assert_eq!(summary.task(w).unwrap().migrations.total(), 1);
}

#[test]
fn timers_locks_and_interrupts_are_counted() {
    let mut script = Script::new(2);
    let a = script.fair("a");
    script.wake(0, 0, a).run(0, 0, None, Some(a));
    for (at, slack) in [(1000, 5), (2000, -7), (3000, -9)] {
        let mark = Mark::TimerDue { due: Instant::from_nanos(at), slack: SignedDuration::from_nanos(slack) };
        script.event(at, 0, TraceEvent::Mark { task: a, mark });
    }
    script.event(4000, 1, TraceEvent::LockAcquired { rq: CpuId(0), waited: ms(3) });
    script.event(4000, 0, TraceEvent::IpiSend { to: CpuId(1), reason: zerolag_model::event::IpiReason::RtPush });
    script.event(5000, 1, TraceEvent::IrqEnter { irq: Irq::Ipi });
    script.event(5100, 1, TraceEvent::IrqEnter { irq: Irq::Softirq });
    script.event(5200, 1, TraceEvent::IrqExit { irq: Irq::Softirq });
    script.event(6000, 1, TraceEvent::IrqExit { irq: Irq::Ipi });
    let summary = Metrics::of(&script.end(10_000));
    let task = summary.task(a).unwrap();
    assert_eq!((task.timers, task.missed, task.lateness_max), (3, 2, Duration::from_nanos(9)));
    assert_eq!((summary.cpus[1].lock_wait, summary.cpus[1].ipis_received, summary.cpus[0].ipis_sent), (ms(3), 1, 1));
    assert_eq!(summary.cpus[1].irq(Irq::Ipi), IrqSummary { count: 1, time: ms(1), max: ms(1) });
}

#[test]
fn a_history_that_is_too_short_says_so() {
    let mut script = Script::new(1024);
    let [a, b, w] = ["a", "b", "w"].map(|name| script.fair(name));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).wake(0, 0, w);
    for turn in 0..500 {
        let (out, into) = if turn % 2 == 0 { (a, b) } else { (b, a) };
        script.preempt(1000 * (turn + 1), 0, out, into);
    }
    script.preempt(501_000, 0, a, w);
    let summary = Metrics::of(&script.end(501_000));
    let wait = &summary.worst_waits[0];
    assert_eq!((wait.task, wait.length()), (w, ms(501)));
    assert_eq!(wait.unexplained(), ms(501 - 64));
}

#[test]
fn impossible_times_are_survived() {
    let mut script = Script::new(1);
    let a = script.fair("a");
    script.wake(5, 0, a).run(5, 0, None, Some(a));
    let mut trace = script.end(9);
    trace.records.push(Record {
        at: Instant::FAR_FUTURE,
        cpu: CpuId(u32::MAX),
        event: TraceEvent::Switch {
            prev: Some(TaskId(u32::MAX)),
            prev_state: PrevState::Runnable,
            next: Some(a),
            next_prio: Prio::IDLE,
        },
    });
    trace.records.push(Record { at: Instant::ZERO, cpu: CpuId(0), event: TraceEvent::IrqExit { irq: Irq::Tick } });
    let again = trace.records.clone();
    trace.records.extend(again);
    let summary = Metrics::of(&trace);
    assert_eq!(summary.records, trace.records.len() as u64);
}

#[test]
fn overruns_are_counted_for_tasks_that_ask_for_them() {
    let params = zerolag_model::DlParams::new(ms(2), ms(10), ms(10));
    let mut script = Script::new(1);
    let told = script.task("told", SchedAttr::Deadline(params.with_flags(DlFlags::DL_OVERRUN)));
    let other = script.task("other", SchedAttr::Deadline(params));
    script.wake(0, 0, told).run(0, 0, None, Some(told));
    for at in [4_000, 14_000] {
        script.event(at, 0, TraceEvent::DlOverrun { task: told });
    }
    let summary = Metrics::of(&script.end(20_000));
    let overruns = |task| summary.task(task).unwrap().dl_overruns;
    assert_eq!((overruns(told), overruns(other)), (Some(2), None));
}
