//! EEVDF's guarantees: lag stays within a slice and a tick, is kept over sleep, and delayed tasks
//! return or are dequeued.

use super::host::{Host, Program, at_ms, ms};
use proptest::prelude::*;
use zerolag_core::{Home, Weight};
use zerolag_model::{CpuId, Duration, FairPolicy, GroupId, KernelVersion, Nice, SchedAttr, Settings, TaskId, Topology};

fn host(settings: Settings) -> Host {
    Host::new(Topology::flat(1).expect("one CPU"), settings)
}

fn nice(value: i64) -> SchedAttr {
    SchedAttr::nice(Nice::new(value).expect("-20..=19"))
}

proptest! {
    #![proptest_config(super::cases(40))]

    /// Compares hogs with the fluid model: the distance of each from its weighted share at any
    /// tick.
    ///
    /// With slices ended exactly the bound is that of EEVDF, one request (Stoica & Abdel-Wahab
    /// 1995, theorem 1); a new task starts half way through its first request, hence two. With
    /// ticks as the grain, a request takes a tick whatever its size, and each of the others can
    /// take one before.
    #[test]
    fn service_follows_the_fluid_model(
        levels in proptest::collection::vec(-10_i64..10, 2..8),
        custom in 0_u64..3,
        exact in any::<bool>(),
    ) {
        let mut settings = KernelVersion::V6_12.settings();
        settings.set("enforce.fair", if exact { "exact" } else { "tick" }).expect("a setting");
        let mut host = host(settings);
        let slice = (custom > 0).then(|| ms(2 * custom));
        let attr = |level| SchedAttr::Fair {
            policy: FairPolicy::Other,
            nice: Nice::new(level).expect("in range"),
            slice,
        };
        let tasks: Vec<TaskId> =
            levels.iter().map(|level| host.spawn(attr(*level), GroupId::ROOT, None, Program::Hog)).collect();
        let weight = |level: &i64| f64::from(Weight::from_nice(Nice::new(*level).expect("in range")).value());
        let sum: f64 = levels.iter().map(weight).sum();
        let slice = slice.unwrap_or(Duration::from_micros(700));
        let bound = if exact { slice * 2 } else { slice + ms(4) * levels.len() as u64 }.as_nanos() as f64;
        for tick in 1..300 {
            host.run(at_ms(4 * tick));
            for (task, level) in tasks.iter().zip(&levels) {
                let fluid = host.now.as_nanos() as f64 * weight(level) / sum;
                let lag = fluid - host.tasks[task.index()].exec.as_nanos() as f64;
                prop_assert!(lag.abs() <= bound, "task {task} at {:?}: lag {lag}, bound {bound}", host.now);
            }
        }
    }
}

/// A task that has run ahead of its share cannot lose that by a short sleep.
#[test]
fn lag_is_kept_over_a_sleep() {
    for version in [KernelVersion::V6_6, KernelVersion::V6_12] {
        let mut host = host(version.settings());
        let hog = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        let napper =
            host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::RunSleep(ms(6), Duration::from_nanos(10)));
        host.run(at_ms(4000));
        let (hog, napper) = (host.share(hog), host.share(napper));
        assert!((hog - 0.5).abs() < 0.02 && (napper - 0.5).abs() < 0.02, "{version}: {hog:.3} and {napper:.3}");
    }
}

#[test]
fn a_task_with_negative_lag_stays_queued_until_it_is_repaid() {
    let mut host = host(KernelVersion::V6_12.settings());
    let sleeper = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::RunSleep(ms(3), ms(60)));
    let hog = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
    // It runs its 3 ms in one piece and is then ahead of its share.
    while host.sched.home(sleeper) != Home::Parcel && !host.rqs[0].inspect().is_delayed(sleeper) {
        let step = host.now + Duration::from_micros(100);
        host.run(step);
    }
    assert!(host.rqs[0].inspect().is_delayed(sleeper), "it owes service");
    assert_eq!(host.rqs[0].current(), Some(hog));
    host.check();
    let later = host.now + ms(20);
    host.run(later);
    assert_eq!(host.sched.home(sleeper), Home::Parcel, "it has paid");
    host.check();
    host.wake(sleeper, CpuId(0));
    assert!(matches!(host.sched.home(sleeper), Home::Rq(_)));
}

/// SCHED_BATCH does not preempt by waking, SCHED_OTHER does, and both preempt SCHED_IDLE.
#[test]
fn policies_decide_about_preemption_on_wakeup() {
    let fair = |policy| SchedAttr::Fair { policy, nice: Nice::ZERO, slice: None };
    let latency = |version: KernelVersion, running, waking| {
        let mut host = host(version.settings());
        let hog = host.spawn(fair(running), GroupId::ROOT, None, Program::Hog);
        let nap = Program::RunSleep(Duration::from_micros(50), ms(1000));
        let sleeper = host.spawn(fair(waking), GroupId::ROOT, None, nap);
        host.run(at_ms(441));
        assert_eq!(host.sched.home(sleeper), Home::Parcel, "it sleeps");
        host.wake(sleeper, CpuId(0));
        assert!(host.rqs[0].current() == Some(hog) || host.rqs[0].current() == Some(sleeper));
        host.rqs[0].current() == Some(sleeper)
    };
    let cases = [
        (FairPolicy::Idle, FairPolicy::Other, true),
        (FairPolicy::Idle, FairPolicy::Batch, true),
        (FairPolicy::Other, FairPolicy::Idle, false),
        (FairPolicy::Other, FairPolicy::Batch, false),
    ];
    for version in [KernelVersion::V6_12, KernelVersion::V6_1] {
        for (running, waking, preempts) in cases {
            assert_eq!(latency(version, running, waking), preempts, "{version}: {waking:?} wakes, {running:?} runs");
        }
    }
    assert!(latency(KernelVersion::V6_1, FairPolicy::Other, FairPolicy::Other), "CFS: a sleeper has credit");
}

/// A shorter slice gets the CPU sooner, not more of it.
#[test]
fn a_short_slice_buys_latency_not_share() {
    let mut host = host(KernelVersion::V6_12.settings());
    let slice =
        |us| SchedAttr::Fair { policy: FairPolicy::Other, nice: Nice::ZERO, slice: Some(Duration::from_micros(us)) };
    let long = host.spawn(slice(20_000), GroupId::ROOT, None, Program::Hog);
    let short = host.spawn(slice(100), GroupId::ROOT, None, Program::Hog);
    host.run(at_ms(10_000));
    assert!((host.share(long) - 0.5).abs() < 0.005 && (host.share(short) - 0.5).abs() < 0.005);
}

#[test]
fn a_change_of_nice_keeps_the_lag() {
    let mut host = host(KernelVersion::V6_12.settings());
    let tasks = [0; 2].map(|level| host.spawn(nice(level), GroupId::ROOT, None, Program::Hog));
    host.run(at_ms(1000));
    host.set_attr(tasks[0], nice(-5));
    let before = tasks.map(|task| host.tasks[task.index()].exec);
    host.run(at_ms(11_000));
    let gained = (host.tasks[0].exec - before[0]).as_nanos() as f64 / 1e10;
    assert!((gained - 3121.0 / 4145.0).abs() < 0.005, "{gained}");
}
