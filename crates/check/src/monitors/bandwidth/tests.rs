//! Each rule of `bandwidth` with a trace that keeps it and one that breaks it.

use crate::monitors::tests::{breaks, holds};
use zerolag_model::event::{Disables, Irq};
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, GroupId, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::script::Script;

pub(in crate::monitors::bandwidth) const GROUP: GroupId = GroupId(1);

/// A task in a group that may use 10 ms of 100 ms runs.
pub(in crate::monitors::bandwidth) fn limited() -> (Script, TaskId) {
    limited_on(1)
}

pub(in crate::monitors::bandwidth) fn limited_on(cpus: u32) -> (Script, TaskId) {
    let mut script = Script::new(cpus);
    let a = script.fair("a");
    script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
    script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
    let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
    script.event(0, 0, TraceEvent::GroupMax { group: GROUP, max });
    script.wake(0, 0, a).run(0, 0, None, Some(a));
    (script, a)
}

/// A limit, or a task in mid-run, comes to a group: the time before that is not the group's.
#[test]
fn a_group_uses_what_its_tasks_run_in_it_under_its_limit() {
    let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
    let script = |events: [TraceEvent; 2]| {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        let [first, second] = events;
        script.event(0, 0, first).wake(0, 0, a).run(0, 0, None, Some(a)).event(900_000, 0, second);
        (script, a)
    };
    let (limit, comes) =
        (TraceEvent::GroupMax { group: GROUP, max }, TraceEvent::GroupChange { task: TaskId(0), group: GROUP });
    for events in [[comes.clone(), limit.clone()], [limit, comes]] {
        let (script, a) = script(events);
        let until = |us| script.clone().switch(us, 0, Some(a), PrevState::Blocked, None).end(us);
        holds("bandwidth", &until(915_000));
        let says =
            "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &until(930_000), says);
    }
}

/// CPUs forget their debts when another one goes offline, with the fault of 6.12.
#[test]
fn a_hotplug_begins_the_sum_anew_where_the_kernel_has_the_fault() {
    let (mut script, a) = limited();
    script.event(18_000, 0, TraceEvent::Hotplug { online: false });
    script.switch(33_000, 0, Some(a), PrevState::Blocked, None);
    let mut faulty = script.clone();
    let key = "fault.cfs_bandwidth_hotplug_bypass".to_owned();
    faulty.meta.settings.push((key.clone(), "on".to_owned()));
    script.meta.settings.push((key, "off".to_owned()));
    holds("bandwidth", &faulty.end(33_000));
    let says = "group 1 has used 33ms in 0 periods and 33ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &script.end(33_000), says);
}

/// What is throttled on a CPU that goes offline stays so until it is back, with the fault of 3.17.
#[test]
fn a_cpu_that_is_offline_is_served_when_it_is_back() {
    let (mut script, a) = limited();
    script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
    script.switch(12_000, 0, Some(a), PrevState::Runnable, None);
    script.event(13_000, 0, TraceEvent::Hotplug { online: false });
    refreshed(&mut script, &[10; 5]);
    let mut back = script.clone();
    let fault = |script: &mut Script, value: &str| {
        script.meta.settings.push(("fault.cfs_bandwidth_hotplug_bypass".to_owned(), "off".to_owned()));
        script.meta.settings.push(("fault.cfs_bandwidth_offline_loss".to_owned(), value.to_owned()));
    };
    let mut right = script.clone();
    fault(&mut script, "on");
    holds("bandwidth", &script.end(501_000));
    fault(&mut right, "off");
    let says = "group 1 is throttled on cpu 0 for 388ms, while it got 10ms in each of 3 periods";
    breaks("bandwidth", &right.end(501_000), says);
    // It is back after the fifth refresh; three later ones are enough.
    fault(&mut back, "on");
    back.event(510_000, 0, TraceEvent::Hotplug { online: true });
    for nth in 6..=9 {
        let refresh =
            TraceEvent::BandwidthRefresh { group: GROUP, runtime: Duration::from_millis(10), throttled: false };
        back.event(100_000 * nth, 0, refresh);
    }
    let says = "group 1 is throttled on cpu 0 for 888ms, while it got 10ms in each of 3 periods";
    breaks("bandwidth", &back.end(901_000), says);
}

/// The group runs for 30 ms, of 10 ms and a slack of 9 ms.
#[test]
fn interrupts_are_not_the_groups_time_and_sections_with_interrupts_disabled_meet_no_tick() {
    let runs = |from: TraceEvent, to: TraceEvent, us: u64| {
        let (mut script, a) = limited();
        script.event(1_000, 0, from).event(1_000 + us, 0, to);
        script.switch(30_000, 0, Some(a), PrevState::Blocked, None).end(30_000)
    };
    let irq = |us| runs(TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device }, us);
    holds("bandwidth", &irq(12_000));
    // Without accounting it is charged to the task.
    // Its tick waits for the end of the handler.
    let charged = |us| {
        let mut script = irq(us);
        script.meta.settings.push(("irq_time_accounting".to_owned(), "off".to_owned()));
        script
    };
    holds("bandwidth", &charged(12_000));
    let says = "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 11ms allow less";
    breaks("bandwidth", &charged(2_000), says);
    let says = "group 1 has used 28ms in 0 periods and 28ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &irq(2_000), says);
    let section = |what, us| {
        let event = |disables| TraceEvent::NoPreempt { task: TaskId(0), disables };
        runs(event(Some(what)), event(None), us)
    };
    holds("bandwidth", &section(Disables::Interrupts, 12_000));
    let says = "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 11ms allow less";
    breaks("bandwidth", &section(Disables::Interrupts, 2_000), says);
    let says = "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &section(Disables::Preemption, 12_000), says);
}

#[test]
fn a_group_within_its_limit_holds() {
    let (mut script, a) = limited();
    script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
    script.switch(12_000, 0, Some(a), PrevState::Runnable, None);
    script.event(
        100_000,
        0,
        TraceEvent::BandwidthRefresh { group: GROUP, runtime: Duration::from_millis(10), throttled: true },
    );
    script.event(100_000, 0, TraceEvent::Unthrottle { group: GROUP });
    script.run(100_000, 0, None, Some(a));
    let stat = CpuStat { nr_periods: 1, nr_throttled: 1, throttled: Duration::from_millis(88), ..CpuStat::default() };
    script.event(101_000, 0, TraceEvent::GroupTotals { group: GROUP, stat });
    holds("bandwidth", &script.end(101_000));
}

/// Adds refreshes every 100 ms that leave the given amounts in the pool; the first has 10 ms.
fn refreshed(script: &mut Script, left: &[u64]) {
    for (nth, left) in left.iter().enumerate() {
        let runtime = Duration::from_millis(*left);
        let refresh = TraceEvent::BandwidthRefresh { group: GROUP, runtime, throttled: false };
        script.event(100_000 * (nth as u64 + 1), 0, refresh);
    }
}

#[test]
fn counters_that_the_trace_does_not_show_are_found() {
    let ms = Duration::from_millis;
    let right = CpuStat { nr_periods: 3, nr_bursts: 1, burst: ms(5), ..CpuStat::default() };
    let judged = |stat: CpuStat| {
        let (mut script, a) = limited();
        script.switch(1_000, 0, Some(a), PrevState::Blocked, None);
        refreshed(&mut script, &[12, 15, 10]);
        script.event(301_000, 0, TraceEvent::GroupTotals { group: GROUP, stat });
        script.end(301_000)
    };
    holds("bandwidth", &judged(right));
    for (stat, says) in [
        (CpuStat { nr_periods: 2, ..right }, "group 1 counts nr_periods = 2, but the trace shows 3"),
        (CpuStat { nr_throttled: 1, ..right }, "group 1 counts nr_throttled = 1, but the trace shows 0"),
        (CpuStat { throttled: ms(1), ..right }, "group 1 counts throttled_usec = 1ms, but the trace shows 0ns"),
        (CpuStat { nr_bursts: 2, ..right }, "group 1 counts nr_bursts = 2, but the trace shows 1"),
        (CpuStat { burst: ms(4), ..right }, "group 1 counts burst_usec = 4ms, but the trace shows 5ms"),
    ] {
        breaks("bandwidth", &judged(stat), says);
    }
}

#[test]
fn a_cpu_that_is_never_served_is_found() {
    let (mut script, a) = limited();
    script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
    script.switch(12_000, 0, Some(a), PrevState::Runnable, None);
    refreshed(&mut script, &[10; 5]);
    // At most 13 ms of debt, and 10 ms more: three periods are enough.
    let says = "group 1 is throttled on cpu 0 for 388ms, while it got 10ms in each of 3 periods";
    breaks("bandwidth", &script.end(501_000), says);
}

/// A throttled task goes on for 30 ms in the kernel: the group repays that with three periods
/// more.
#[test]
fn a_group_repays_what_it_ran_while_it_was_throttled() {
    let (mut script, a) = limited();
    script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
    script.switch(42_000, 0, Some(a), PrevState::Runnable, None);
    let mut forgotten = script.clone();
    refreshed(&mut script, &[10; 6]);
    holds("bandwidth", &script.end(601_000));
    refreshed(&mut forgotten, &[10; 7]);
    let says = "group 1 is throttled on cpu 0 for 688ms, while it got 10ms in each of 6 periods";
    breaks("bandwidth", &forgotten.end(701_000), says);
}

/// The task leaves the class: its CPU is unthrottled, and the group still owes the 20 ms.
#[test]
fn an_empty_cpu_that_is_unthrottled_has_not_repaid() {
    let unthrottled_at = |us: u64| {
        let (mut script, a) = limited();
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        let attr = zerolag_model::SchedAttr::fifo(zerolag_model::RtPriority::MIN);
        script.event(32_000, 0, TraceEvent::AttrChange { task: a, attr });
        script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
        script.event(33_000, 0, TraceEvent::AttrChange { task: a, attr: zerolag_model::SchedAttr::NORMAL });
        script.switch(34_000, 0, Some(a), PrevState::Blocked, None);
        script.end(35_000)
    };
    holds("bandwidth", &unthrottled_at(32_000));
    let says = "group 1 has used 32ms in 0 periods and 32ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &unthrottled_at(32_500), says);
}

/// The task blocks in the kernel: its CPU is unthrottled, and the group still owes the 20 ms.
#[test]
fn a_cpu_whose_last_task_blocks_has_not_repaid() {
    let unthrottled_at = |us: u64| {
        let (mut script, a) = limited();
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
        script.switch(32_000, 0, Some(a), PrevState::Blocked, None);
        script.wake(33_000, 0, a).run(33_000, 0, None, Some(a));
        script.switch(34_000, 0, Some(a), PrevState::Blocked, None);
        script.end(35_000)
    };
    holds("bandwidth", &unthrottled_at(32_000));
    let says = "group 1 has used 32ms in 0 periods and 32ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &unthrottled_at(31_900), says);
}

/// The task runs on boosted, below a group that is throttled too: the end of its boost empties
/// the queue of the group above, whose CPU is unthrottled and still owes the 20 ms.
#[test]
fn a_cpu_whose_last_boost_ends_has_not_repaid() {
    let below = GroupId(2);
    let ends = |us: u64, is_throttled: bool| {
        let (mut script, a) = limited();
        script.event(0, 0, TraceEvent::GroupNew { group: below, parent: GROUP, path: "/a/b".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: below });
        if is_throttled {
            script.event(11_000, 0, TraceEvent::Throttle { group: below });
        }
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        script.event(12_000, 0, TraceEvent::Boost { task: a, boosted: true });
        script.event(32_000, 0, TraceEvent::Boost { task: a, boosted: false });
        script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
        script.switch(33_000, 0, Some(a), PrevState::Runnable, None).end(35_000)
    };
    holds("bandwidth", &ends(32_000, true));
    let says = "group 1 has used 33ms in 0 periods and 33ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &ends(32_001, true), says);
    breaks("bandwidth", &ends(32_000, false), says);
}

/// CPU 0 has no tick and charges the 60 ms before the limit when it is throttled.
#[test]
fn a_turn_without_a_tick_is_charged_as_a_whole() {
    let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
    let limited_after = |ms: u64| {
        let mut script = Script::new(2);
        let a = script.fair("a");
        script.meta.settings.push(("nohz_full".to_owned(), "0".to_owned()));
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        script.wake(60_000 - ms * 1000, 0, a).run(60_000 - ms * 1000, 0, None, Some(a));
        script.event(60_000, 0, TraceEvent::GroupMax { group: GROUP, max });
        script.event(61_000, 0, TraceEvent::Throttle { group: GROUP });
        script.switch(61_000, 0, Some(a), PrevState::Runnable, None);
        refreshed(&mut script, &[10; 8]);
        script.end(801_000)
    };
    holds("bandwidth", &limited_after(60));
    let says = "group 1 is throttled on cpu 0 for 739ms, while it got 10ms in each of 7 periods";
    breaks("bandwidth", &limited_after(40), says);
}

/// Tasks that wait on other CPUs have a slice each, which comes back when they are moved to CPU 0.
#[test]
fn a_slice_of_a_cpu_on_which_the_group_waited_can_be_used_elsewhere() {
    let waits = |is_of_the_group: bool| {
        let (mut script, a) = limited_on(2);
        let (rt, b) = (script.fifo("rt", 5), script.fair("b"));
        if is_of_the_group {
            script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
        }
        script.wake(0, 1, rt).run(0, 1, None, Some(rt)).wake(0, 1, b);
        script.switch(1_000, 0, Some(a), PrevState::Blocked, None);
        refreshed(&mut script, &[10]);
        script.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
        script.switch(123_000, 0, Some(a), PrevState::Runnable, None).end(123_000)
    };
    holds("bandwidth", &waits(true));
    let says = "group 1 has used 24ms in 1 periods and 23ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &waits(false), says);
}

/// With hard limits a CPU can have borrowed a whole quota at the end of a period.
#[test]
fn a_divided_quota_can_be_kept_for_a_period() {
    let used = |us: u64, settings: &[(&str, &str)]| {
        let (mut script, a) = limited();
        refreshed(&mut script, &[10]);
        script.switch(100_000, 0, Some(a), PrevState::Blocked, None);
        script.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
        script.switch(100_000 + us, 0, Some(a), PrevState::Blocked, None);
        let mut trace = script.end(130_000);
        // What it ran before the refresh was not under the limit.
        trace.records.retain(|record| !matches!(record.event, TraceEvent::GroupMax { .. }));
        let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
        let limit = Record {
            at: Instant::from_nanos(99_999_000),
            cpu: CpuId(0),
            event: TraceEvent::GroupMax { group: GROUP, max },
        };
        let place = trace.records.partition_point(|record| record.at <= limit.at);
        trace.records.insert(place, limit);
        trace.meta.settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        trace
    };
    let divided = [("bandwidth", "hard_limits")];
    holds("bandwidth", &used(20_000, &divided));
    let says =
        "group 1 has used 20.001ms in 1 periods and 20ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &used(20_000, &[]), says);
    let says =
        "group 1 has used 26.001ms in 1 periods and 26ms since; cpu.max 10000 100000 and a slack of 4ms allow less";
    breaks("bandwidth", &used(26_000, &divided), says);
    // Grants that cost time hide the use.
    let exact = [("bandwidth", "hard_limits"), ("enforce.fair", "exact")];
    breaks("bandwidth", &used(26_000, &exact), says);
    let mut costly = used(26_000, &exact);
    "default".clone_into(&mut costly.meta.costs);
    holds("bandwidth", &costly);
}

#[test]
fn more_than_the_quota_in_the_long_run_is_found() {
    let (mut script, a) = limited();
    script.switch(18_000, 0, Some(a), PrevState::Blocked, None);
    refreshed(&mut script, &[10]);
    script.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
    script.switch(118_000, 0, Some(a), PrevState::Blocked, None);
    let says = "group 1 has used 36ms in 1 periods and 18ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &script.end(118_000), says);
}

#[test]
fn a_throttled_task_does_not_run() {
    let (mut script, a) = limited();
    script.event(5_000, 0, TraceEvent::Throttle { group: GROUP });
    script.switch(5_000, 0, Some(a), PrevState::Runnable, None).run(6_000, 0, None, Some(a));
    breaks("bandwidth", &script.end(7_000), "a (task 0) runs while group 1 is throttled there");
}

#[test]
fn more_than_quota_and_slack_is_found() {
    let (mut script, a) = limited();
    script.switch(20_000, 0, Some(a), PrevState::Runnable, None);
    let says = "group 1 has used 20ms in 0 periods and 20ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &script.end(20_000), says);
}

/// 20 ms in 2000 turns: where operations cost time, a part of each turn is the scheduler's.
#[test]
fn the_path_of_the_scheduler_is_not_the_groups() {
    let (mut script, a) = limited();
    for turn in 0..2000 {
        let at = turn * 20;
        script.run(at + 10, 0, Some(a), None).wake(at + 20, 0, a).run(at + 20, 0, None, Some(a));
    }
    let mut costly = script.clone();
    "default".clone_into(&mut costly.meta.costs);
    holds("bandwidth", &costly.end(40_000));
    let says =
        "group 1 has used 19.39ms in 0 periods and 19.39ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &script.end(40_000), says);
}

/// A CPU without a tick goes on with its task when the group of the task gets a limit.
#[test]
fn a_cpu_without_a_tick_notices_a_new_limit_late() {
    let mut script = Script::new(2);
    let a = script.fair("a");
    let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
    script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
    script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
    script.wake(0, 0, a).run(0, 0, None, Some(a)).event(10_000, 0, TraceEvent::GroupMax { group: GROUP, max });
    script.switch(90_000, 0, Some(a), PrevState::Blocked, None);
    let (mut until, mut again) = (script.end(90_000), script.clone());
    let says = "group 1 has used 80ms in 0 periods and 80ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
    breaks("bandwidth", &until, says);
    let setting = ("nohz_full".to_owned(), "0".to_owned());
    until.meta.settings.push(setting.clone());
    holds("bandwidth", &until);
    // The next turn begins under the limit.
    again.meta.settings.push(setting);
    again.wake(91_000, 0, a).run(91_000, 0, None, Some(a)).switch(99_999, 0, Some(a), PrevState::Blocked, None);
    refreshed(&mut again, &[10]);
    again.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
    again.switch(150_000, 0, Some(a), PrevState::Blocked, None);
    let says =
        "group 1 has used 138.999ms in 1 periods and 50ms since; cpu.max 10000 100000 and a slack of 89ms allow less";
    breaks("bandwidth", &again.end(150_000), says);
}
