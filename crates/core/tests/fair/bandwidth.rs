//! CPU bandwidth control: the CPU time of a limited group, and the recorded kernels.

use super::host::{Host, Program, at_ms, ms};
use std::fmt::Write;
use zerolag_core::{Config, Weight};
use zerolag_model::settings::BandwidthControl;
use zerolag_model::{CpuMax, CpuStat, Duration, GroupId, KernelVersion, SchedAttr, Settings, TaskId, Topology};

fn host(settings: Settings, cpus: u32) -> Host {
    let config = Config::new(Topology::flat(cpus).expect("a machine"), settings);
    Host::with_config(config.with_group_reserve(8).with_queue_reserve(64))
}

fn limited(host: &mut Host, parent: GroupId, quota: Duration, period: Duration, burst: Duration) -> GroupId {
    let weight = Weight::from_cpu_weight(100).expect("in range");
    let group = host.create_group(parent, weight);
    host.set_max(group, CpuMax { quota: Some(quota), period, burst, slice: None });
    group
}

fn hogs(host: &mut Host, group: GroupId, count: u32) -> Vec<TaskId> {
    (0..count).map(|_| host.spawn(SchedAttr::NORMAL, group, None, Program::Hog)).collect()
}

fn used(host: &Host, tasks: &[TaskId]) -> Duration {
    tasks.iter().map(|task| host.tasks[task.index()].exec).sum()
}

/// Returns the number of CPUs that tasks have kept busy since the start.
fn cpus_used(host: &Host, tasks: &[TaskId]) -> f64 {
    used(host, tasks).as_nanos() as f64 / host.now.as_nanos() as f64
}

/// With exact enforcement a group gets its quota to the nanosecond, plus one per share that a
/// refresh hands out separately.
#[test]
fn exact_enforcement_gives_the_quota_and_no_more() {
    let settings =
        Settings { enforce_fair: zerolag_model::settings::TimerGrain::Exact, ..KernelVersion::V6_12.settings() };
    let mut host = host(settings, 2);
    let group = limited(&mut host, GroupId::ROOT, ms(30), ms(100), Duration::ZERO);
    let tasks = hogs(&mut host, group, 3);
    host.run(at_ms(1_000));
    assert_eq!(used(&host, &tasks), ms(300));
}

/// Quota is absolute: 150 ms of 100 ms are one and a half CPUs.
#[test]
fn more_than_one_cpu_may_be_used() {
    let mut host = host(KernelVersion::V6_12.settings(), 4);
    let group = limited(&mut host, GroupId::ROOT, ms(150), ms(100), Duration::ZERO);
    let tasks = hogs(&mut host, group, 4);
    host.run(at_ms(2_000));
    let share = cpus_used(&host, &tasks);
    assert!((1.49..1.52).contains(&share), "{share}");
}

/// A CPU keeps 1 ms of the quota of a group that has nothing to run there, however many other
/// groups run there meanwhile: the tasks of the group on other CPUs do not get it.
///
/// Linux v6.12 `kernel/sched/fair.c`, `return_cfs_rq_runtime` (`min_cfs_rq_runtime`): the queue of
/// a group on a CPU is as old as the group.
#[test]
fn a_cpu_keeps_quota_while_a_hundred_other_groups_run_there() {
    let settings =
        Settings { enforce_fair: zerolag_model::settings::TimerGrain::Exact, ..KernelVersion::V6_12.settings() };
    let config = Config::new(Topology::flat(2).expect("a machine"), settings);
    let mut host = Host::with_config(config.with_group_reserve(101).with_queue_reserve(64));
    let group = limited(&mut host, GroupId::ROOT, ms(3), ms(1_000), Duration::ZERO);
    let once = |micros| Program::RunSleep(Duration::from_micros(micros), Duration::from_secs(1_000));
    let first = host.spawn(SchedAttr::NORMAL, group, Some("0"), once(200));
    host.run(at_ms(1));
    for _ in 0..100 {
        let other = host.create_group(GroupId::ROOT, Weight::NICE_0);
        host.spawn(SchedAttr::NORMAL, other, Some("0"), once(50));
        host.run(host.now + ms(1));
    }
    let hog = host.spawn(SchedAttr::NORMAL, group, Some("1"), Program::Hog);
    host.run(at_ms(900));
    assert_eq!(used(&host, &[first]), Duration::from_micros(200));
    assert_eq!(used(&host, &[hog]), Duration::from_micros(1_800), "3 ms without 200 us and 1 ms");
}

/// A group within a limited group gets no more than that group, whatever its own limit.
#[test]
fn the_limit_above_counts() {
    let mut host = host(KernelVersion::V6_12.settings(), 2);
    let outer = limited(&mut host, GroupId::ROOT, ms(20), ms(100), Duration::ZERO);
    let inner = limited(&mut host, outer, ms(150), ms(100), Duration::ZERO);
    let tasks = hogs(&mut host, inner, 2);
    host.run(at_ms(2_000));
    let share = cpus_used(&host, &tasks);
    assert!((0.19..0.22).contains(&share), "{share}");
}

/// Unused quota is saved up to the burst, and used later.
#[test]
fn a_burst_is_used_after_an_idle_time() {
    for (burst, first) in [(0, 20), (20, 40)] {
        let mut host = host(KernelVersion::V6_12.settings(), 1);
        let group = limited(&mut host, GroupId::ROOT, ms(20), ms(100), ms(burst));
        host.run(at_ms(150));
        let tasks = hogs(&mut host, group, 1);
        host.run(at_ms(199));
        let got = used(&host, &tasks);
        assert!(got >= ms(first) && got < ms(first + 4), "{got} with a burst of {burst} ms");
    }
}

/// Throttled tasks do not count: the other CPU does not pull them, the group next to them gets the
/// CPU.
#[test]
fn throttled_tasks_do_not_count() {
    let mut host = host(KernelVersion::V6_12.settings(), 1);
    let group = limited(&mut host, GroupId::ROOT, ms(10), ms(100), Duration::ZERO);
    hogs(&mut host, group, 3);
    let free = hogs(&mut host, GroupId::ROOT, 1)[0];
    host.run(at_ms(1_000));
    assert!(host.share(free) > 0.85, "{}", host.share(free));
    host.run(at_ms(1_090));
    assert_eq!(host.rqs[0].nr_running(), 1);
}

/// A limit that is removed stops no task anywhere, also where more tasks are parked than are taken
/// back at a time.
#[test]
fn without_a_limit_all_parked_tasks_run_again() {
    let mut host = host(KernelVersion::V6_18.settings(), 3);
    let group = limited(&mut host, GroupId::ROOT, ms(10), ms(1_000), Duration::ZERO);
    for cpu in ["0", "1", "2"] {
        for _ in 0..40 {
            host.spawn(SchedAttr::NORMAL, group, Some(cpu), Program::Hog);
        }
    }
    host.run(at_ms(500));
    assert!(host.rqs.iter().all(|rq| rq.nr_running() == 0), "all are parked");
    host.set_max(group, CpuMax::UNLIMITED);
    let running: Vec<_> = host.rqs.iter().map(|rq| rq.nr_running()).collect();
    assert_eq!(running, [40; 3]);
}

/// Before 5.4, quota that a CPU had taken expired with the period: a group whose threads each run a
/// little on every CPU was throttled although it never used its quota. Linux `de53fd7aedb1` (5.4)
/// removed that.
#[test]
fn expiry_throttles_a_group_that_does_not_use_its_quota() {
    let throttled = |version: KernelVersion| {
        let mut host = host(version.settings(), 8);
        let group = limited(&mut host, GroupId::ROOT, ms(16), ms(20), Duration::ZERO);
        for cpu in 0..8 {
            let pinned = cpu.to_string();
            let program = Program::RunSleep(Duration::from_micros(1_100), Duration::from_micros(10_000 + 300 * cpu));
            host.spawn(SchedAttr::NORMAL, group, Some(&pinned), program);
        }
        host.run(at_ms(4_000));
        let stat = host.sched.group_stat(group).expect("it is there");
        let used: Duration = host.tasks.iter().map(|task| task.exec).sum();
        (stat, used)
    };
    let (old, _) = throttled(KernelVersion::V4_15);
    let (new, used) = throttled(KernelVersion::V5_4);
    assert!(old.nr_throttled > 2 * new.nr_throttled, "{old:?} {new:?} {used}");
}

/// Stepped slices strand less quota: eight threads that each run for 1.1 ms and need less than the
/// quota are throttled more rarely.
#[test]
fn stepped_slices_leave_quota_to_others() {
    let throttled = |bandwidth_slice_steps| {
        let settings = Settings { bandwidth_slice_steps, bandwidth_slack: false, ..KernelVersion::V5_4.settings() };
        let mut host = host(settings, 8);
        let group = limited(&mut host, GroupId::ROOT, ms(16), ms(20), Duration::ZERO);
        for cpu in 0..8 {
            let pinned = cpu.to_string();
            let program = Program::RunSleep(Duration::from_micros(1_100), Duration::from_micros(10_000 + 300 * cpu));
            host.spawn(SchedAttr::NORMAL, group, Some(&pinned), program);
        }
        host.run(at_ms(4_000));
        host.sched.group_stat(group).expect("it is there").throttled
    };
    let (stepped, fixed) = (throttled(true), throttled(false));
    assert!(stepped * 2 < fixed, "{stepped} and {fixed}");
}

fn under_hard_limits(hierarchical_running: bool) -> Settings {
    let bandwidth = BandwidthControl::HardLimits;
    Settings { bandwidth, hierarchical_running, ..KernelVersion::V6_1.settings() }
}

/// Divided quota is used completely if the tasks are on the CPUs that have the parts.
#[test]
fn hard_limits_give_the_quota_to_a_task_on_each_cpu() {
    let mut host = host(under_hard_limits(true), 4);
    let group = limited(&mut host, GroupId::ROOT, ms(200), ms(100), Duration::ZERO);
    let tasks = hogs(&mut host, group, 4);
    host.run(at_ms(4_000));
    let share = cpus_used(&host, &tasks);
    assert!((1.97..2.02).contains(&share), "{share}");
}

/// One task gets its CPU's part and the quota that this CPU borrows: less than the quota at first,
/// nearly all of it in the end, because borrowed quota is kept. From a pool it would have got 40 ms
/// of every 100 ms from the start.
#[test]
fn under_hard_limits_parts_follow_a_task_slowly() {
    let mut host = host(under_hard_limits(true), 4);
    let group = limited(&mut host, GroupId::ROOT, ms(40), ms(100), Duration::ZERO);
    let task = host.spawn(SchedAttr::NORMAL, group, Some("2"), Program::Hog);
    let mut before = Duration::ZERO;
    let mut periods = Vec::new();
    for period in 1..=30 {
        host.run(at_ms(period * 100));
        let now = used(&host, &[task]);
        periods.push((now - before).as_nanos() / 1_000_000);
        before = now;
    }
    assert!((14..=36).contains(&periods[0]), "{periods:?}");
    assert!(periods[0] < periods[29] && (36..=41).contains(&periods[29]), "{periods:?}");
}

/// Which tasks a throttled CPU pulls: without hierarchical running counts, a task that then waits
/// there for the period's end.
#[test]
fn a_task_goes_to_a_throttled_cpu_only_without_hierarchical_running() {
    let idle_quota = |hierarchical| {
        let mut host = host(under_hard_limits(hierarchical), 4);
        let group = limited(&mut host, GroupId::ROOT, ms(320), ms(100), Duration::ZERO);
        let tasks = hogs(&mut host, group, 4);
        host.run(at_ms(10_000));
        used(&host, &tasks).as_nanos() as f64 / 1e10
    };
    let (with, without) = (idle_quota(true), idle_quota(false));
    assert!(with > 3.1 && without <= with, "{with} and {without}");
}

/// The measurements of one recorded case.
#[derive(Debug)]
struct Case {
    kernel: KernelVersion,
    cpus: u32,
    hogs: u32,
    max: CpuMax,
    window: Duration,
    used: Duration,
    stat: CpuStat,
}

fn cases() -> Vec<Case> {
    let us = |text: &str| Duration::from_micros(text.parse().expect("microseconds"));
    let text = include_str!("../data/linux-bandwidth.csv");
    let case = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Case {
            kernel: KernelVersion::from_name(fields[0]).expect("a kernel"),
            cpus: fields[1].parse().expect("CPUs"),
            hogs: fields[2].parse().expect("hogs"),
            max: CpuMax { quota: Some(us(fields[3])), period: us(fields[4]), ..CpuMax::UNLIMITED },
            window: us(fields[5]),
            used: us(fields[6]),
            stat: CpuStat {
                nr_periods: fields[7].parse().expect("a count"),
                nr_throttled: fields[8].parse().expect("a count"),
                throttled: us(fields[9]),
                ..CpuStat::default()
            },
        }
    };
    text.lines().skip(1).map(case).collect()
}

/// Runs a case; the grid of periods is offset by `phase` relative to the ticks.
fn run(case: &Case, phase: Duration) -> (Duration, CpuStat) {
    let mut host = host(case.kernel.settings(), case.cpus);
    host.shift_ticks(phase);
    let weight = Weight::from_cpu_weight(100).expect("in range");
    let group = host.create_group(GroupId::ROOT, weight);
    host.set_max(group, case.max);
    let tasks = hogs(&mut host, group, case.hogs);
    let start = at_ms(1_000) + phase;
    host.run(start);
    let (used_before, before) = (used(&host, &tasks), host.sched.group_stat(group).expect("it is there"));
    host.run(start + case.window);
    let (used_after, after) = (used(&host, &tasks), host.sched.group_stat(group).expect("it is there"));
    let stat = CpuStat {
        nr_periods: after.nr_periods - before.nr_periods,
        nr_throttled: after.nr_throttled - before.nr_throttled,
        throttled: after.throttled - before.throttled,
        ..CpuStat::default()
    };
    (used_after - used_before, stat)
}

/// Returns how a run misses its case: utilisation by more than a percentage point of a CPU,
/// `nr_throttled` by more than 2 and 2 %, time throttled by more than 3 %, and by more than half a
/// percent of the window where throttling was rare.
fn missed(case: &Case, phase: Duration) -> Option<String> {
    let (used, stat) = run(case, phase);
    let window = case.window.as_nanos() as f64;
    let points = (used.as_nanos() as f64 - case.used.as_nanos() as f64) / window * 100.0;
    let throttles = stat.nr_throttled.abs_diff(case.stat.nr_throttled);
    let throttled = stat.throttled.as_nanos() as f64 - case.stat.throttled.as_nanos() as f64;
    let allowed = (case.stat.throttled.as_nanos() as f64 * 0.03).max(window * 0.005);
    let misses = points.abs() > 1.0 || throttles > (case.stat.nr_throttled / 50).max(2) || throttled.abs() > allowed;
    misses.then(|| {
        format!(
            "{points:+.2} points, {} of {} throttled, {} against {}",
            stat.nr_throttled, case.stat.nr_throttled, stat.throttled, case.stat.throttled
        )
    })
}

/// The possible positions of period ends between two ticks: a kernel before 6.4 counts both from
/// its start, later ones draw an offset for each group (`41abdba9374734`), which the records do not
/// contain.
fn phases(case: &Case) -> impl Iterator<Item = Duration> + use<> {
    let steps = match (case.kernel, is_whole_machine(case)) {
        (KernelVersion::V6_1, _) => 1,
        (_, false) => 8,
        (_, true) => 80,
    };
    (0..steps).map(move |step| Duration::from_micros(50 + 4_000 / steps * step))
}

/// A limit that equals the whole machine depends on the phase: quota that a CPU has taken and not
/// used by the end of a period is missing in the next, because the pool never holds more than the
/// quota. One CPU with periods of 10 ms is throttled at the end of every second period, for 2 ms
/// less the phase. The record must be reproduced at some phase.
fn is_whole_machine(case: &Case) -> bool {
    case.max.quota == Some(case.max.period * u64::from(case.cpus))
}

#[test]
fn recorded_kernels_come_out() {
    let mut found = String::new();
    for case in cases() {
        let results: Vec<Option<String>> = phases(&case).map(|phase| missed(&case, phase)).collect();
        let misses = results.iter().flatten().count();
        let is_met = if is_whole_machine(&case) { misses < results.len() } else { misses == 0 };
        if !is_met {
            let (kernel, cpus, hogs, max) = (case.kernel, case.cpus, case.hogs, case.max);
            let first = results.iter().flatten().next().expect("a miss");
            writeln!(found, "{kernel} {cpus} CPUs {hogs} hogs cpu.max {max}: {first}").expect("a string");
        }
    }
    assert_eq!(found, "");
}
