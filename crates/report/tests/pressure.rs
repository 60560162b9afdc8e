//! The figures of pressure (`cpu.pressure`), with totals added up by hand.

use zerolag_model::{Duration, GroupId, PressureTrigger, PrevState, TraceEvent};
use zerolag_report::summary::{Fired, PressureLine, PressureSummary};
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

fn trigger(text: &str) -> PressureTrigger {
    text.parse().expect("a trigger")
}

/// Returns what triggers on the machine's `some` have done by a time.
fn fired(script: &Script, triggers: &[&str], us: u64) -> Option<Fired> {
    fired_by(script, triggers.iter().map(|text| trigger(text)), us)
}

fn fired_by(script: &Script, triggers: impl Iterator<Item = PressureTrigger>, us: u64) -> Option<Fired> {
    let mut trace = script.clone().end(us);
    trace.records.retain(|record| record.at <= trace.meta.end);
    let triggers = triggers.map(|trigger| ("/".into(), trigger));
    Metrics::new(&trace.meta).with_triggers(triggers.collect()).of_whole(&trace).pressure.expect("asked for").some.fired
}

#[test]
fn a_trigger_fires_once_per_window_and_drops_nothing() {
    let mut script = script(1);
    let (a, b) = (script.fair("a"), script.fair("b"));
    // `b` waits from 0.5 to 1.5 s, and `a` for 10 ms from 3 s on.
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(500_000, 0, b).run(1_500_000, 0, Some(a), Some(b));
    script.wake(3_000_000, 0, a).run(3_010_000, 0, Some(b), Some(a));
    let most = &["some 150000 1000000"];
    // The windows begin a tick of 4 ms after the stall, at 504 ms. An update is due after 100 ms,
    // and comes a tick later than a timer of so many ticks: at 608 ms with a growth of 104 ms, at
    // 712 ms with 208.
    let first = Some(ms(712));
    assert_eq!(fired(&script, most, 711_000), Some(Fired { events: 0, first: None }));
    assert_eq!(fired(&script, most, 713_000), Some(Fired { events: 1, first }));
    // The threshold is reached again at 816 ms. At 1752 ms the window is over, and nothing stalls;
    // polling ends at 2584 ms. The event is told at the first update with a stall, 3004 + 104 ms.
    assert_eq!(fired(&script, most, 3_107_000), Some(Fired { events: 1, first }));
    assert_eq!(fired(&script, most, 5_000_000), Some(Fired { events: 2, first }));
    // Two of them count together; one of a longer window is looked at as often as the other.
    let both = fired(&script, &["some 150000 1000000", "some 100000 10000000"], 713_000);
    assert_eq!(both, Some(Fired { events: 2, first: Some(ms(608)) }));
    // A window of 500 ms is updated every 52 ms and ends at the first update behind it, so all of
    // it is reached. Without a trigger there is no figure.
    assert_eq!(fired(&script, &["some 500000 500000"], 1_400_000), Some(Fired { events: 1, first: Some(ms(1_024)) }));
    assert_eq!(fired(&script, &[], 5_000_000), None);
}

#[test]
fn a_trigger_without_privileges_is_looked_at_with_the_averages() {
    let mut script = script(1);
    let (a, b) = (script.fair("a"), script.fair("b"));
    // `b` waits from 0.5 to 1.5 s and from 5 to 5.4 s: 1 s and 0.4 s.
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(500_000, 0, b).run(1_500_000, 0, Some(a), Some(b));
    script.wake(5_000_000, 0, a).run(5_400_000, 0, Some(b), Some(a));
    let without = |text: &str, us| {
        let all = text.split(", ").map(|text| trigger(text).unprivileged().expect("a multiple of 2 s"));
        fired_by(&script, all, us)
    };
    // The averages are sampled at 2.004, 4.008, 6.012 s. A window of 2 s is over at each.
    let events = |events, first| Some(Fired { events, first });
    assert_eq!(without("some 1000000 2000000", 2_003_000), events(0, None));
    assert_eq!(without("some 1000000 2000000", 2_005_000), events(1, Some(ms(2_004))));
    assert_eq!(without("some 1000001 2000000", 9_000_000), events(0, None));
    assert_eq!(without("some 400000 2000000", 6_011_000), events(1, Some(ms(2_004))));
    assert_eq!(without("some 400000 2000000", 9_000_000), events(2, Some(ms(2_004))));
    // One of 4 s has begun at 0. At 6.012 s it has 1.4 s of stalls, and is over; nothing had
    // stalled at 4.008 s, so nothing was looked at then.
    assert_eq!(without("some 1400000 4000000", 6_011_000), events(0, None));
    assert_eq!(without("some 1400000 4000000", 9_000_000), events(1, Some(ms(6_012))));
    // Beside a trigger that is polled each has its own times.
    let all = ["some 150000 1000000", "some 1000000 2000000"].map(trigger);
    let both = [all[0], all[1].unprivileged().expect("2 s")];
    assert_eq!(fired_by(&script, both.into_iter(), 2_005_000), events(2, Some(ms(712))));
}

#[test]
fn a_window_below_half_a_second_is_looked_at_on_ticks() {
    let mut script = script(1);
    let (a, b) = (script.fair("a"), script.fair("b"));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(500_000, 0, b).run(520_000, 0, Some(a), Some(b));
    // The windows begin at 504 ms; an update is due 1 ms later, and the next tick is 508. A window
    // of 10 ms has 4 ms then.
    assert_eq!(fired(&script, &["some 4000 10000"], 507_000), Some(Fired { events: 0, first: None }));
    assert_eq!(fired(&script, &["some 4000 10000"], 509_000), Some(Fired { events: 1, first: Some(ms(508)) }));
}
