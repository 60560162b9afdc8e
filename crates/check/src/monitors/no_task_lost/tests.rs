//! Tests of `no-task-lost`: traces with and without lost tasks.

use super::LENT;
use crate::monitors::tests::{breaks, holds};
use zerolag_model::{
    FairPolicy, GroupId, Instant, MigrateReason, Nice, SchedAttr, ServerKind, ServerState, TaskId, TraceEvent,
};
use zerolag_trace::script::Script;

#[test]
fn a_task_waits_for_cpus_of_its_root_domain() {
    let mut script = Script::new(2);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).run(0, 1, None, None);
    let mut apart = script.clone();
    apart.event(50_000, 1, TraceEvent::RootDomain { domain: 1 });
    holds("no-task-lost", &apart.clone().end(500_000));
    apart.event(300_000, 1, TraceEvent::RootDomain { domain: 0 });
    holds("no-task-lost", &apart.clone().end(350_000));
    let says =
        |length| format!("cpu 1 is idle for {length} while b (task 1) waits on the queue of cpu 0 and may run here");
    breaks("no-task-lost", &apart.end(500_000), &says("200ms"));
    breaks("no-task-lost", &script.end(500_000), &says("500ms"));
}

/// A deadline task that waits for its budget is not lost; once it is fair, it can be.
#[test]
fn a_task_of_another_class_waits_from_then_on() {
    let ms = zerolag_model::Duration::from_millis;
    let mut script = Script::new(2);
    let params = zerolag_model::DlParams::new(ms(1), ms(900), ms(900));
    let (a, b) = (script.fair("a"), script.task("b", SchedAttr::Deadline(params)));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).run(0, 1, None, None);
    let attr = SchedAttr::NORMAL;
    script.event(400_000, 0, TraceEvent::AttrChange { task: b, attr });
    holds("no-task-lost", &script.clone().end(450_000));
    let says = "cpu 1 is idle for 200ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &script.end(600_000), says);
}

/// `b` is of a loaded scheduler: CPU 1 leaves it where it waits, CPU 0 may not.
#[test]
fn a_loaded_scheduler_must_run_a_task_on_its_own_cpu_only() {
    let ext = SchedAttr::Ext { policy: FairPolicy::Ext, nice: Nice::ZERO, slice: None };
    let waits_on = |cpu: u32| {
        let mut script = Script::new(2);
        let (a, b) = (script.fair("a"), script.task("b", ext));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None).wake(1_000, cpu, b);
        script.end(500_000)
    };
    holds("no-task-lost", &waits_on(0));
    let says = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 1 and may run here";
    breaks("no-task-lost", &waits_on(1), says);
}

/// `a` runs and `b` waits on CPU 0; CPU 1 is idle.
fn waiting() -> (Script, TaskId, TaskId) {
    let mut script = Script::new(2);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
    (script, a, b)
}

/// `c` waits for a lock until 450 ms, or until 200 ms.
#[test]
fn the_time_in_which_a_task_lends_its_turn_is_not_judged() {
    let lent = |until: u64, proxy_exec: &str| {
        let (mut script, a, _) = waiting();
        let c = script.fair("c");
        script.event(2_000, 1, TraceEvent::WaitLock { task: c, lock: 0, holder: Some(a) });
        script.event(until * 1_000, 1, TraceEvent::TakeLock { task: c, lock: 0 });
        let mut trace = script.end(500_000);
        trace.meta.settings.push(("proxy_exec".to_owned(), proxy_exec.to_owned()));
        trace
    };
    holds("no-task-lost", &lent(450, "on"));
    let report = crate::check(&lent(450, "on"), &crate::Options::default());
    assert!(report.not_judged_by("no-task-lost").any(|part| part.reason == LENT), "and it says so");
    let lost = "cpu 1 is idle for 300ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &lent(200, "on"), lost);
    let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &lent(450, "off"), lost);
}

#[test]
fn a_task_on_one_queue_that_is_served_holds() {
    let (mut script, _, b) = waiting();
    script.migrate(90_000, b, 0, 1, MigrateReason::Periodic).run(90_000, 1, None, Some(b));
    holds("no-task-lost", &script.end(500_000));
    // A task that is pinned to a busy CPU may wait forever.
    let (mut script, _, b) = waiting();
    script.affinity(1000, b, "0");
    holds("no-task-lost", &script.end(500_000));
    // No task comes to an isolated CPU by itself, and none leaves it.
    let isolated = |cpus: &str| {
        let mut trace = waiting().0.end(500_000);
        trace.meta.settings.push(("isolcpus".to_owned(), cpus.to_owned()));
        trace
    };
    holds("no-task-lost", &isolated("1"));
    holds("no-task-lost", &isolated("0"));
    // A real-time task on a CPU without a tick hides the tasks that wait there, but not an idle
    // CPU.
    let nohz_full = |cpus: &str| {
        let mut script = Script::new(2);
        let (a, b) = (script.fifo("a", 50), script.fair("b"));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
        let mut trace = script.end(500_000);
        trace.meta.settings.push(("nohz_full".to_owned(), cpus.to_owned()));
        trace
    };
    holds("no-task-lost", &nohz_full("0"));
    let lost = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &nohz_full("1"), lost);
    // A CPU counts from the time at which the task may use it.
    let (mut script, _, b) = waiting();
    script.affinity(0, b, "0").affinity(450_000, b, "0-1");
    holds("no-task-lost", &script.end(500_000));
}

/// A busy CPU says how little a real-time task leaves once per round of its domain: 64 ms with
/// two CPUs.
#[test]
fn a_fair_task_behind_a_real_time_task_waits_for_a_round() {
    let mut script = Script::new(2);
    let (a, b) = (script.fifo("a", 50), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
    holds("no-task-lost", &script.end(160_000));
    let says = |length, cpu| {
        format!("cpu 1 is idle for {length} while b (task 1) waits on the queue of cpu {cpu} and may run here")
    };
    breaks("no-task-lost", &script.clone().end(170_000), &says("169ms", 0));
    // It is granted too if the task is moved away from there in the end, but once.
    let mut moved = Script::new(3);
    let (a, b, c) = (moved.fifo("a", 50), moved.fair("b"), moved.fair("c"));
    moved.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 2, c).run(0, 2, None, Some(c)).wake(1000, 0, b);
    moved.migrate(150_000, b, 0, 2, MigrateReason::Periodic);
    holds("no-task-lost", &moved.end(190_000));
    breaks("no-task-lost", &moved.end(200_000), &says("199ms", 2));
}

/// The group of `b` is throttled on a CPU from the start.
#[test]
fn no_cpu_takes_a_task_of_a_group_that_is_throttled_there() {
    let group = GroupId(1);
    let throttled_on = |cpu: u32| {
        let mut script = Script::new(3);
        let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
        script.event(0, 0, TraceEvent::GroupNew { group, parent: GroupId::ROOT, path: "/g".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: b, group });
        script.event(0, cpu, TraceEvent::Throttle { group }).wake(0, 2, c).run(0, 2, None, Some(c));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None).wake(1000, 0, b);
        script
    };
    holds("no-task-lost", &throttled_on(1).end(500_000));
    let lost =
        |length| format!("cpu 1 is idle for {length} while b (task 1) waits on the queue of cpu 0 and may run here");
    breaks("no-task-lost", &throttled_on(2).end(500_000), &lost("499ms"));
    let mut freed = throttled_on(1);
    freed.event(300_000, 1, TraceEvent::Unthrottle { group });
    holds("no-task-lost", &freed.clone().end(390_000));
    breaks("no-task-lost", &freed.end(500_000), &lost("200ms"));
}

/// `a` becomes fair: until then its CPU had not reported how little it leaves to `b`.
#[test]
fn a_task_that_was_behind_a_real_time_task_waits_for_a_round() {
    let fair_from = |us: u64, end: u64| {
        let mut script = Script::new(2);
        let (a, b) = (script.fifo("a", 50), script.fair("b"));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1000, 0, b);
        script.event(us, 0, TraceEvent::AttrChange { task: a, attr: SchedAttr::NORMAL });
        script.end(end)
    };
    holds("no-task-lost", &fair_from(140_000, 150_000));
    let lost = "cpu 1 is idle for 199ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &fair_from(140_000, 200_000), lost);
}

/// No CPU sees the tasks on one without a tick that runs a real-time task, nor takes throttled
/// ones. The wait for other CPUs begins when the task leaves.
#[test]
fn a_wait_begins_where_the_task_can_be_taken() {
    let moved = |above: u32, at: u64, event: TraceEvent| {
        let mut script = Script::new(3);
        let (a, c) = (script.fifo("a", 50), script.fair("c"));
        let b = if above == 0 { script.fair("b") } else { script.fifo("b", i64::from(above)) };
        script.wake(0, 0, a).run(0, 0, None, Some(a)).event(0, 0, event).wake(0, 2, c).run(0, 2, None, Some(c));
        script.wake(1000, 0, b).migrate(at, b, 0, 2, MigrateReason::Periodic);
        script.end(500_000)
    };
    let throttled = |at| moved(3, at, TraceEvent::RtThrottle { throttled: true });
    holds("no-task-lost", &throttled(410_000));
    let lost =
        |length| format!("cpu 1 is idle for {length} while b (task 2) waits on the queue of cpu 2 and may run here");
    breaks("no-task-lost", &throttled(300_000), &lost("200ms"));
    let nohz_full = |at| {
        let mut trace = moved(0, at, TraceEvent::RtThrottle { throttled: false });
        trace.meta.settings.push(("nohz_full".to_owned(), "0".to_owned()));
        trace
    };
    holds("no-task-lost", &nohz_full(410_000));
    breaks("no-task-lost", &nohz_full(300_000), &lost("200ms"));
}

/// `b` (FIFO 3) waits on CPU 0; CPU 1 is idle.
fn rt_waiting(above: TraceEvent) -> Script {
    let mut script = Script::new(2);
    let (a, b) = (script.fair("a"), script.fifo("b", 3));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).event(0, 0, above).wake(1000, 0, b);
    script
}

#[test]
fn a_real_time_task_waits_for_the_end_of_a_server() {
    let deadline = Instant::from_nanos(1_000_000_000);
    let server = |state| TraceEvent::Server { kind: ServerKind::Fair, state };
    let mut script = rt_waiting(server(ServerState::Queued { deadline }));
    holds("no-task-lost", &script.end(500_000));
    script.event(300_000, 0, server(ServerState::Throttled { until: deadline }));
    holds("no-task-lost", &script.end(390_000));
    let says = "cpu 1 is idle for 100ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &script.end(400_000), says);
}

#[test]
fn no_cpu_takes_a_task_that_it_cannot_run_or_that_is_behind_a_stuck_one() {
    let says = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
    let script = rt_waiting(TraceEvent::RtThrottle { throttled: false });
    breaks("no-task-lost", &script.end(500_000), says);
    let mut throttled = script.clone();
    throttled.event(1000, 1, TraceEvent::RtThrottle { throttled: true });
    holds("no-task-lost", &throttled.end(500_000));
    let mut stuck = script;
    let c = stuck.fifo("c", 3);
    stuck.affinity(1000, c, "0").wake(1000, 0, c);
    holds("no-task-lost", &stuck.end(500_000));
    // The wait begins once the stuck one has changed, or has been queued anew.
    let changed_at = |us: u64| {
        let mut changed = stuck.clone();
        changed.event(us, 0, TraceEvent::AttrChange { task: c, attr: SchedAttr::NORMAL });
        changed.end(500_000)
    };
    holds("no-task-lost", &changed_at(410_000));
    let mut requeued = stuck.clone();
    requeued.event(410_000, 0, TraceEvent::GroupChange { task: c, group: GroupId(1) });
    let b = TaskId(1);
    requeued.migrate(410_000, b, 0, 1, MigrateReason::Push).run(410_000, 1, None, Some(b));
    holds("no-task-lost", &requeued.end(500_000));
    let later = "cpu 1 is idle for 200ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &changed_at(300_000), later);
    let mut skipped = stuck.end(500_000);
    skipped.meta.settings.push(("rt_push_skip_stuck".to_owned(), "on".to_owned()));
    breaks("no-task-lost", &skipped, says);
}

/// The fault loses the tasks of throttled groups with their CPU. It is named, and nothing else
/// is.
#[test]
fn a_task_that_is_lost_with_its_cpu_names_the_fault() {
    let (mut script, ..) = waiting();
    script.event(1000, 0, TraceEvent::Hotplug { online: false });
    let report = |known: &str| {
        let mut trace = script.end(500_000);
        trace.meta.settings.push(("fault.cfs_bandwidth_offline_loss".to_owned(), known.to_owned()));
        crate::check(&trace, &crate::Options::default())
    };
    assert_eq!(report("on").faults().map(|faults| faults.len()), Some(1));
    assert!(report("off").faults().is_none());
}

/// The fault delays a round by an interval of a busy CPU: 64 ms with two CPUs.
#[test]
fn a_task_that_waits_for_a_busy_interval_names_the_fault() {
    let named = |ms: u64, nohz: &str| {
        let mut trace = waiting().0.end(ms * 1000);
        let settings = [("fault.idle_busy_interval", "on"), ("nohz", nohz)];
        trace.meta.settings.extend(settings.map(|(key, value)| (key.to_owned(), value.to_owned())));
        crate::check(&trace, &crate::Options::default()).faults().is_some_and(|faults| faults.len() == 1)
    };
    assert!(named(160, "off"));
    assert!(!named(160, "on"), "another CPU asks it to balance");
    assert!(!named(170, "off"), "the interval is over");
}

#[test]
fn every_way_to_lose_a_task_is_named() {
    let (mut script, _, b) = waiting();
    breaks(
        "no-task-lost",
        &script.end(101_000),
        "cpu 1 is idle for 100ms while b (task 1) waits on the queue of cpu 0 and may run here",
    );
    breaks(
        "no-task-lost",
        &script.wake(2000, 1, b).end(5000),
        "b (task 1) is put on the queue of cpu 1 while it is on the queue of cpu 0",
    );

    let (mut script, _, b) = waiting();
    breaks(
        "no-task-lost",
        &script.run(2000, 1, None, Some(b)).end(5000),
        "b (task 1) runs on cpu 1 while it is on the queue of cpu 0",
    );

    let (mut script, _, b) = waiting();
    script.migrate(2000, b, 1, 0, MigrateReason::Pull);
    breaks("no-task-lost", &script.end(5000), "b (task 1) is moved from cpu 1 while it is on the queue of cpu 0");

    let (mut script, a, b) = waiting();
    script.preempt(200_000, 0, a, b);
    breaks(
        "no-task-lost",
        &script.end(200_000),
        "cpu 1 is idle for 199ms while b (task 1) waits on the queue of cpu 0 and may run here",
    );
}

/// `b` waits on CPU 0, which was asked to reschedule and is in the kernel; CPU 1 is idle.
#[test]
fn a_real_time_task_that_runs_next_is_not_taken_from_a_cpu_in_the_kernel() {
    let behind = |preempt: &str, is_asked: bool| {
        let mut script = Script::new(2);
        script.meta.settings.push(("preempt".to_owned(), preempt.to_owned()));
        let (a, b) = (script.fair("a"), script.fifo("b", 10));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).run(0, 1, None, None).wake(1000, 0, b);
        if is_asked {
            script.event(1000, 0, TraceEvent::NeedResched { by: zerolag_model::CpuId(0) });
        }
        script.end(500_000)
    };
    holds("no-task-lost", &behind("voluntary", true));
    let says = "cpu 1 is idle for 499ms while b (task 1) waits on the queue of cpu 0 and may run here";
    breaks("no-task-lost", &behind("voluntary", false), says);
    breaks("no-task-lost", &behind("full", true), says);
}
