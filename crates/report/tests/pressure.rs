//! The figures of pressure (`cpu.pressure`), with totals added up by hand.

use zerolag_model::{Duration, GroupId, PrevState, TraceEvent};
use zerolag_report::summary::{PressureLine, PressureSummary};
use zerolag_report::{Metrics, Summary};
use zerolag_trace::Trace;
use zerolag_trace::script::Script;

const GROUP: GroupId = GroupId(1);
const BELOW: GroupId = GroupId(2);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn of(trace: &Trace) -> Summary {
    Metrics::new(&trace.meta).with_pressure().of_whole(trace)
}

fn totals(pressure: Option<PressureSummary>) -> [Duration; 2] {
    let pressure = pressure.expect("it was asked for");
    [pressure.some.total, pressure.full.total]
}

/// A machine with a group and one below it.
fn script(cpus: u32) -> Script {
    let mut script = Script::new(cpus);
    for (group, parent, path) in [(GROUP, GroupId::ROOT, "/a"), (BELOW, GROUP, "/a/b")] {
        script.event(0, 0, TraceEvent::GroupNew { group, parent, path: path.into() });
    }
    script
}

#[test]
fn some_is_that_a_task_waits_and_full_that_none_runs() {
    let mut script = script(1);
    let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
    script.event(0, 0, TraceEvent::GroupChange { task: a, group: BELOW });
    script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
    // 0 to 4 ms: `a` runs alone. To 6: `b` waits, too. To 9: `c` of the root runs, both wait. To
    // 12: `b` runs, `a` waits. Then both sleep, and `c` runs alone.
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(4_000, 0, b).wake(6_000, 0, c).preempt(6_000, 0, a, c);
    script.preempt(9_000, 0, c, b).run(12_000, 0, Some(b), Some(a)).run(15_000, 0, Some(a), Some(c));
    let summary = of(&script.end(100_000));
    // /a: some from 4 to 12, full from 6 to 9. /a/b: `a` waits from 6 to 12, and none of it runs.
    assert_eq!(totals(summary.groups[0].pressure), [ms(8), ms(3)]);
    assert_eq!(totals(summary.groups[1].pressure), [ms(6), ms(6)]);
    // The machine: 4 to 15 ms, with `c` from 6 on; it never has `full`.
    assert_eq!(totals(summary.pressure), [ms(11), ms(0)]);
}

#[test]
fn a_throttled_task_is_runnable() {
    let mut script = script(1);
    let a = script.fair("a");
    script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
    script.wake(0, 0, a).run(0, 0, None, Some(a));
    script.event(20_000, 0, TraceEvent::Throttle { group: GROUP }).switch(
        20_000,
        0,
        Some(a),
        PrevState::Runnable,
        None,
    );
    script.event(100_000, 0, TraceEvent::Unthrottle { group: GROUP }).run(100_000, 0, None, Some(a));
    let summary = of(&script.end(120_000));
    assert_eq!(totals(summary.groups[0].pressure), [ms(80), ms(80)]);
    assert_eq!(totals(summary.pressure), [ms(80), ms(0)], "a machine has no full");
}

#[test]
fn cpus_count_by_the_ticks_for_which_they_were_not_idle() {
    let mut script = script(2);
    let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
    // CPU 0 is busy for 100 ms, and for 60 ms of it a task waits. CPU 1 is busy for 20 ms.
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(40_000, 0, b);
    script.wake(0, 1, c).run(0, 1, None, Some(c)).run(20_000, 1, Some(c), None);
    let summary = of(&script.end(100_000));
    // 25 ticks of 4 ms and 5: 60 ms * 25 / 30.
    assert_eq!(totals(summary.pressure)[0], ms(50));
}

#[test]
fn averages_decay_by_the_kernels_constants() {
    let mut script = script(1);
    let (a, b) = (script.fair("a"), script.fair("b"));
    // `b` waits for a second of the first 2.004 s, and for nothing later.
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(500_000, 0, b).run(1_500_000, 0, Some(a), Some(b));
    let line = |us: u64, script: &Script| of(&script.clone().end(us)).pressure.expect("it was asked for").some;
    assert_eq!(line(2_003_000, &script), PressureLine { total: Duration::from_secs(1), ..PressureLine::default() });
    // 49 % of 2048: (49 * 2048 * 371 + 2047) / 2048 = 18179 of 2048 is 8.87 %; it is 1.60 % with
    // 1981, and 0.33 % with 2034.
    let PressureLine { avg10, avg60, avg300, .. } = line(2_004_000, &script);
    assert_eq!([avg10, avg60, avg300], [88_700, 16_000, 3_300]);
    // A sample without pressure: 18179 * 1677 / 2048 = 14885.
    assert_eq!(line(4_008_000, &script).avg10, 72_600);
}

#[test]
fn what_nobody_asks_for_is_not_measured() {
    let summary = Metrics::of(&script(1).end(1_000));
    assert!(summary.pressure.is_none() && summary.groups.iter().all(|group| group.pressure.is_none()));
}
