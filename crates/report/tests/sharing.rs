//! The figures of sharing: time that CPUs idle beside waiting tasks, and how far tasks are behind.

use zerolag_model::{CpuMax, Duration, GroupId, MigrateReason, TaskId, TraceEvent};
use zerolag_report::Metrics;
use zerolag_trace::script::Script;
use zerolag_trace::{Source, Trace};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn unused(trace: &Trace) -> Option<Duration> {
    Metrics::new(&trace.meta).with_sharing().of_whole(trace).idle_with_work
}

fn behind(trace: &Trace, task: TaskId) -> Option<Duration> {
    let summary = Metrics::new(&trace.meta).with_sharing().of_whole(trace);
    summary.tasks.iter().find(|of| of.task == task).and_then(|of| of.lag_max)
}

#[test]
fn a_cpu_is_unused_while_a_task_waits_that_is_allowed_there() {
    // `a` runs and `b` waits on CPU 0; CPU 1 idles until `b` is moved there after 3 ms.
    let mut script = Script::new(3);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1_000, 0, b);
    script.migrate(4_000, b, 0, 1, MigrateReason::NewIdle).run(4_000, 1, None, Some(b));
    // One task makes one CPU of two unused.
    assert_eq!(unused(&script.end(10_000)), Some(ms(3)));
}

#[test]
fn a_task_counts_on_its_own_cpus_and_once() {
    let mut script = Script::new(4);
    let tasks = ["a", "b", "c", "d", "e"].map(|name| script.fair(name));
    let [a, b, c, d, e] = tasks;
    script.wake(0, 0, a).run(0, 0, None, Some(a));
    // `b` is pinned to the busy CPU, `c` and `d` to CPUs 0-1, `e` to CPU 2.
    script.affinity(0, b, "0").affinity(0, c, "0-1").affinity(0, d, "0-1").affinity(0, e, "2");
    script.wake(1_000, 0, b).wake(2_000, 0, c).wake(3_000, 0, d).wake(4_000, 2, e);
    // From 2 ms on CPU 1, from 4 ms on also CPU 2.
    assert_eq!(unused(&script.end(6_000)), Some(ms(4 + 2)));
    // A task with a choice leaves CPU 1 to those without one.
    let f = script.fair("f");
    script.affinity(6_000, f, "1-3").wake(6_000, 0, f);
    assert_eq!(unused(&script.end(7_000)), Some(ms(6 + 3)));
}

#[test]
fn neither_throttled_tasks_nor_offline_cpus_are_lost_time() {
    let group = GroupId(1);
    let mut script = Script::new(2);
    script.event(0, 0, TraceEvent::GroupNew { group, parent: GroupId::ROOT, path: "/g".into() });
    let a = script.fair("a");
    script.event(0, 0, TraceEvent::GroupChange { task: a, group });
    script.wake(0, 0, a).event(0, 0, TraceEvent::Throttle { group });
    script.event(5_000, 0, TraceEvent::Unthrottle { group });
    assert_eq!(unused(&script.end(7_000)), Some(ms(2)));
    for cpu in 0..2 {
        script.event(7_000, cpu, TraceEvent::Hotplug { online: false });
    }
    assert_eq!(unused(&script.end(9_000)), Some(ms(2)));
    // A recording does not say where tasks are allowed.
    let mut recorded = script.end(9_000);
    recorded.meta.source = Source::Text;
    assert_eq!(unused(&recorded), None);
}

#[test]
fn a_task_is_behind_by_its_share_of_the_time_that_others_run() {
    // On one CPU `a` runs 6 ms, then `b`: of these 6 ms half were those of `b`.
    let mut script = Script::new(1);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).wake(0, 0, b).run(0, 0, None, Some(a)).preempt(6_000, 0, a, b);
    let trace = script.end(20_000);
    assert_eq!((behind(&trace, b), behind(&trace, a)), (Some(ms(3)), Some(ms(4))));
}

#[test]
fn capacity_is_what_other_classes_and_pinned_tasks_leave() {
    let mut script = Script::new(2);
    let (a, f, p) = (script.fair("a"), script.fifo("f", 5), script.fair("p"));
    script.affinity(0, p, "1");
    script.wake(0, 0, f).run(0, 0, None, Some(f)).wake(0, 1, p).run(0, 1, None, Some(p)).wake(0, 0, a);
    // Both CPUs are taken: `a` has a right to nothing. Then to one, and gets it 2 ms later.
    script.switch(5_000, 0, Some(f), zerolag_model::PrevState::Blocked, None).run(7_000, 0, None, Some(a));
    let trace = script.end(9_000);
    assert_eq!((behind(&trace, a), behind(&trace, f), behind(&trace, p)), (Some(ms(2)), None, None));
}

#[test]
fn a_task_gets_one_cpu_at_most_and_others_the_rest() {
    let nice = |nice| zerolag_model::SchedAttr::nice(zerolag_model::Nice::new(nice).expect("-20 to 19"));
    let mut script = Script::new(2);
    let heavy = script.task("heavy", nice(-20));
    let light = ["b", "c"].map(|name| script.fair(name));
    script.wake(0, 0, heavy).run(0, 0, None, Some(heavy));
    for task in light {
        script.wake(0, 1, task);
    }
    // `c` waits for 8 ms of which half are its own, whatever `heavy` weighs.
    script.run(0, 1, None, Some(light[0])).preempt(8_000, 1, light[0], light[1]);
    assert_eq!(behind(&script.end(9_000), light[1]), Some(ms(4)));
}

#[test]
fn groups_share_by_their_weights_and_limits_take_no_part() {
    let (one, two) = (GroupId(1), GroupId(2));
    let mut script = Script::new(1);
    for (group, path) in [(one, "/one"), (two, "/two")] {
        script.event(0, 0, TraceEvent::GroupNew { group, parent: GroupId::ROOT, path: path.into() });
    }
    script.event(0, 0, TraceEvent::GroupWeight { group: two, weight: 3 * 1024 });
    let [a, b, c] = ["a", "b", "c"].map(|name| script.fair(name));
    for (task, group) in [(a, one), (b, one), (c, two)] {
        script.event(0, 0, TraceEvent::GroupChange { task, group });
    }
    script.wake(0, 0, a).wake(0, 0, b).wake(0, 0, c).run(0, 0, None, Some(a)).preempt(8_000, 0, a, c);
    script.preempt(16_000, 0, c, b);
    let trace = script.end(16_000);
    // 3/4 of 8 ms; and a half of 1/4 of 16 ms.
    assert_eq!((behind(&trace, c), behind(&trace, b)), (Some(ms(6)), Some(ms(2))));
    let max = CpuMax { quota: Some(ms(50)), ..CpuMax::UNLIMITED };
    script.event(16_000, 0, TraceEvent::GroupMax { group: two, max });
    let trace = script.preempt(16_000, 0, b, c).preempt(24_000, 0, c, b).end(24_000);
    // While `c` runs, no capacity is left for others.
    assert_eq!(behind(&trace, b), Some(ms(2)));
}
