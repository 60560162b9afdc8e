//! Shares, slices and order on one CPU.

use super::host::{Host, Program, at_ms, ms};
use zerolag_core::call::{Call, Refused};
use zerolag_core::{Clock, GroupError, Idleness, Weight};
use zerolag_model::{CpuId, FairPolicy, GroupId, KernelVersion, Nice, SchedAttr, Settings, Topology, UtilClamp};

fn host(version: KernelVersion) -> Host {
    host_with(version.settings())
}

fn host_with(settings: Settings) -> Host {
    Host::new(Topology::flat(1).expect("one CPU"), settings)
}

fn nice(value: i64) -> SchedAttr {
    SchedAttr::nice(Nice::new(value).expect("-20..=19"))
}

fn policy(policy: FairPolicy) -> SchedAttr {
    SchedAttr::Fair { policy, nice: Nice::ZERO, slice: None }
}

const BOTH: [KernelVersion; 2] = [KernelVersion::V6_12, KernelVersion::V6_1];

#[track_caller]
fn close(what: &str, share: f64, expected: f64, tolerance: f64) {
    assert!((share - expected).abs() <= tolerance, "{what}: {share:.4}, expected {expected:.4}");
}

#[test]
fn two_hogs_switch_at_every_tick() {
    for version in BOTH {
        let mut host = host(version);
        for _ in 0..2 {
            host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        }
        host.run(at_ms(1000));
        for (task, stretch) in host.stretches(CpuId(0)).into_iter().skip(1) {
            assert_eq!(stretch, ms(4), "{version}: task {task}");
        }
    }
}

#[test]
fn nice_levels_share_by_weight() {
    for version in BOTH {
        let mut host = host(version);
        let levels = [0, 5, -5, 19];
        let tasks = levels.map(|level| host.spawn(nice(level), GroupId::ROOT, None, Program::Hog));
        host.run(at_ms(30_000));
        let weights = levels.map(|level| f64::from(Weight::from_nice(Nice::new(level).expect("nice")).value()));
        let sum: f64 = weights.iter().sum();
        for (task, weight) in tasks.iter().zip(weights) {
            close(&format!("{version} task {task}"), host.share(*task), weight / sum, 0.004);
        }
    }
}

#[test]
fn idle_policy_gets_what_its_weight_says() {
    for version in BOTH {
        let mut host = host(version);
        let others = [0; 2].map(|_| host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog));
        let idle = host.spawn(policy(FairPolicy::Idle), GroupId::ROOT, None, Program::Hog);
        host.run(at_ms(20_000));
        for task in others {
            close("other", host.share(task), 0.499, 0.003);
        }
        close("idle", host.share(idle), 0.0015, 0.0015);
    }
}

#[test]
fn a_sleeper_within_its_share_gets_all_it_asks_for() {
    for version in BOTH {
        let mut host = host(version);
        let hog = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        let sleeper = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Periodic(ms(2), ms(10)));
        host.run(at_ms(5000));
        close(&format!("{version} sleeper"), host.share(sleeper), 0.2, 0.003);
        close(&format!("{version} hog"), host.share(hog), 0.8, 0.003);
    }
}

#[test]
fn a_sleeper_above_its_share_gets_half() {
    for version in BOTH {
        let mut host = host(version);
        let hog = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        let sleeper = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Periodic(ms(8), ms(10)));
        host.run(at_ms(5000));
        close(&format!("{version} sleeper"), host.share(sleeper), 0.5, 0.01);
        close(&format!("{version} hog"), host.share(hog), 0.5, 0.01);
    }
}

#[test]
fn groups_share_by_weight_at_every_depth() {
    for version in BOTH {
        let mut host = host(version);
        let group = |host: &mut Host, parent, weight| {
            host.create_group(parent, Weight::from_cpu_weight(weight).expect("1..=10000"))
        };
        let a = group(&mut host, GroupId::ROOT, 100);
        let b = group(&mut host, GroupId::ROOT, 100);
        let p = group(&mut host, a, 100);
        let q = group(&mut host, a, 200);
        let x = group(&mut host, q, 300);
        let y = group(&mut host, q, 100);
        let expected = [(p, 1.0 / 6.0), (x, 0.25), (y, 1.0 / 12.0), (b, 0.5)];
        let tasks = expected.map(|(group, _)| host.spawn(SchedAttr::NORMAL, group, None, Program::Hog));
        host.run(at_ms(10_000));
        for (task, (group, share)) in tasks.into_iter().zip(expected) {
            close(&format!("{version} group {group}"), host.share(task), share, 0.003);
        }
    }
}

/// A removed group is named by each call that needs it, and nothing is changed.
#[test]
fn a_group_that_is_gone_is_refused() {
    let mut host = host(KernelVersion::V6_12);
    let group = host.create_group(GroupId::ROOT, Weight::NICE_0);
    let task = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
    let now = Clock::at(host.now);
    let Host { sched, rqs, io, .. } = &mut host;
    assert_eq!(sched.follow_group_weight(&mut rqs[0], now, group, io), Ok(()));
    sched.remove_group(group).expect("it is empty");
    let gone = GroupError::NoSuchGroup(group);
    assert_eq!(sched.remove_group(group), Err(gone));
    assert_eq!(sched.create_group(group, Weight::NICE_0), Err(gone));
    assert_eq!(sched.set_group_weight(group, Weight::NICE_0), Err(gone));
    assert_eq!(sched.set_group_clamp(group, UtilClamp::NONE), Err(gone));
    assert_eq!(sched.follow_group_weight(&mut rqs[0], now, group, io), Err(gone));
    assert_eq!(sched.set_group(&mut rqs[0], now, task, group, io).map(|_| ()), Err(gone));
}

#[test]
fn a_group_of_sleepers_keeps_its_share() {
    for version in BOTH {
        let mut host = host(version);
        let group = host.create_group(GroupId::ROOT, Weight::NICE_0);
        let hog = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        let sleepers = [3, 5].map(|run| host.spawn(SchedAttr::NORMAL, group, None, Program::Periodic(ms(run), ms(10))));
        host.run(at_ms(5000));
        let together = sleepers.iter().map(|task| host.share(*task)).sum();
        close(&format!("{version} sleepers"), together, 0.5, 0.02);
        close(&format!("{version} hog"), host.share(hog), 0.5, 0.02);
    }
}

#[test]
fn exact_enforcement_ends_slices_between_ticks() {
    for version in BOTH {
        let mut settings = version.settings();
        settings.set("enforce.fair", "exact").expect("a setting");
        let slice = match version {
            KernelVersion::V6_12 => 700_000,
            _ => 2_999_999,
        };
        let mut host = host_with(settings);
        for _ in 0..2 {
            host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        }
        host.run(at_ms(500));
        let stretches = host.stretches(CpuId(0));
        let exact = stretches.iter().filter(|(_, stretch)| stretch.as_nanos() == slice).count();
        assert!(exact * 10 >= stretches.len() * 8, "{version}: {exact} of {}: {:?}", stretches.len(), &stretches[..9]);
    }
}

#[test]
fn a_task_alone_has_no_timer() {
    let exact = zerolag_model::settings::TimerGrain::Exact;
    let mut host = host_with(Settings { enforce_fair: exact, ..KernelVersion::V6_12.settings() });
    host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
    host.run(at_ms(10));
    assert_eq!(host.slice_timer(CpuId(0)), None);
    host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
    host.run(at_ms(11));
    assert!(host.slice_timer(CpuId(0)).is_some());
}

#[test]
fn an_idle_group_gives_way() {
    for version in BOTH {
        let mut host = host(version);
        let idle = host.create_group(GroupId::ROOT, Weight::MAX_SHARES);
        host.call(&Call::SetGroupIdle { group: idle, idleness: Idleness::Idle }).expect("a group");
        let refused = host.call(&Call::SetGroupWeight { group: idle, weight: Weight::NICE_0 });
        assert_eq!(refused, Err(Refused::Group(GroupError::IsIdle(idle))));
        let background = host.spawn(SchedAttr::NORMAL, idle, None, Program::Hog);
        let nap = Program::RunSleep(ms(1), ms(9));
        let sleeper = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, nap);
        host.run(at_ms(5000));
        close("sleeper", host.share(sleeper), 0.1, 0.001);
        close("background", host.share(background), 0.9, 0.001);
        let hog = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog);
        let before = host.tasks[hog.index()].exec;
        host.run(at_ms(15_000));
        let share = (host.tasks[hog.index()].exec - before).as_nanos() as f64 / 1e10;
        close("hog", share, 0.9, 0.01);
        // It has the weight of a new group, not its earlier one.
        host.call(&Call::SetGroupIdle { group: idle, idleness: Idleness::Normal }).expect("a group");
        // While it was idle its virtual time ran far ahead; the others catch up first.
        host.run(at_ms(20_000));
        let before = host.tasks[hog.index()].exec;
        host.run(at_ms(30_000));
        let share = (host.tasks[hog.index()].exec - before).as_nanos() as f64 / 1e10;
        close("hog beside a group of weight 100", share, 0.45, 0.01);
    }
}
