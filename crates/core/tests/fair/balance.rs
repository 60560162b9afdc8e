//! Fair tasks on several CPUs.

use crate::host::{Host, Program, at_ms, ms};
use zerolag_model::{GroupId, KernelVersion, SchedAttr, TaskId, Topology};

const BOTH: [KernelVersion; 2] = [KernelVersion::V6_12, KernelVersion::V6_1];

fn host(cpus: u32, version: KernelVersion) -> Host {
    Host::new(Topology::flat(cpus).expect("a machine"), version.settings())
}

fn hogs(host: &mut Host, count: usize) -> Vec<TaskId> {
    (0..count).map(|_| host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::Hog)).collect()
}

#[test]
fn as_many_hogs_as_cpus_have_one_each() {
    for version in BOTH {
        let mut host = host(4, version);
        let tasks = hogs(&mut host, 4);
        host.run(at_ms(1000));
        for task in tasks {
            assert!(host.share(task) > 0.999, "{version} task {task}: {}", host.share(task));
        }
        assert_eq!(host.migrations, 0);
    }
}

#[test]
fn three_hogs_on_two_cpus_take_turns() {
    for version in BOTH {
        let mut host = host(2, version);
        let tasks = hogs(&mut host, 3);
        host.run(at_ms(8000));
        for task in &tasks {
            let share = host.share(*task);
            assert!((0.55..0.80).contains(&share), "{version} task {task}: {share}");
        }
        assert!((40..200).contains(&host.migrations), "{version}: {} migrations in 8 s", host.migrations);
    }
}

#[test]
fn tasks_set_free_spread_to_idle_cpus() {
    for version in BOTH {
        let mut host = host(4, version);
        let tasks: Vec<_> =
            (0..4).map(|_| host.spawn(SchedAttr::NORMAL, GroupId::ROOT, Some("0"), Program::Hog)).collect();
        host.run(at_ms(20));
        let clock = host.clock();
        for task in &tasks {
            let changed = host.sched.set_affinity(&mut host.rqs[0], clock, *task, None, &mut host.io);
            let (displaced, step) = changed.expect("it is there");
            assert!(displaced.is_none());
            host.carry_out(step);
        }
        host.run(at_ms(100));
        let on_cpus: Vec<_> = host.rqs.iter().map(zerolag_core::Rq::nr_running).collect();
        assert_eq!(on_cpus, [1; 4], "{version}");
    }
}

#[test]
fn affinity_holds() {
    for version in BOTH {
        let mut host = host(4, version);
        for index in 0..12 {
            let cpus = ["0-1", "2", "1-3"][index % 3];
            host.spawn(SchedAttr::NORMAL, GroupId::ROOT, Some(cpus), Program::RunSleep(ms(3), ms(2)));
        }
        host.run(at_ms(3000));
        let allowed =
            |task: TaskId| -> zerolag_model::CpuMask { ["0-1", "2", "1-3"][task.index() % 3].parse().expect("a list") };
        for (_, cpu, task) in &host.switches {
            assert!(task.is_none_or(|task| allowed(task).contains(*cpu)), "task {task:?} on CPU {cpu}");
        }
        for rq in &host.rqs {
            rq.check_fair();
        }
    }
}

#[test]
fn a_big_machine_spreads_new_tasks() {
    let mut host = Host::new(Topology::new(2, 2, 4, 2).expect("32 CPUs"), KernelVersion::V6_12.settings());
    hogs(&mut host, 16);
    let mut cores: Vec<_> = host.rqs.iter().filter(|rq| rq.nr_running() > 0).map(|rq| rq.cpu().0 / 2).collect();
    assert_eq!(cores.len(), 16, "each on a CPU of its own");
    cores.dedup();
    assert_eq!(cores.len(), 16, "each on a core of its own");
}

#[test]
fn passive_balancing_moves_waiting_rt_tasks() {
    let mut settings = KernelVersion::V6_12.settings();
    settings.set("rt_balance", "passive").expect("a setting");
    let mut host = Host::new(Topology::flat(2).expect("2 CPUs"), settings);
    let fifo = SchedAttr::fifo_at;
    for priority in [10, 20, 30] {
        host.spawn(fifo(priority), GroupId::ROOT, Some("0"), Program::Hog);
    }
    let clock = host.clock();
    for task in [0, 1] {
        let changed = host.sched.set_affinity(&mut host.rqs[0], clock, TaskId(task), None, &mut host.io);
        let (displaced, step) = changed.expect("it is there");
        assert!(displaced.is_none());
        host.carry_out(step);
    }
    host.run(at_ms(100));
    assert_eq!(host.rqs[1].current(), Some(TaskId(1)), "the more urgent of those that wait");
}
