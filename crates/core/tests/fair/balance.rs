//! Fair tasks on several CPUs.

use super::host::{Host, Program, at_ms, ms};
use zerolag_core::call::Call;
use zerolag_core::{Config, Costs, Partition};
use zerolag_model::{CpuId, CpuMask, GroupId, KernelVersion, SchedAttr, TaskId, Topology};

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
        set_free(&mut host, CpuId(0), &tasks);
        host.run(at_ms(100));
        assert_eq!(counts(&host), [1; 4], "{version}");
    }
}

#[test]
fn affinity_holds() {
    for version in [KernelVersion::V6_12, KernelVersion::V6_1, KernelVersion::V5_4] {
        let mut host = host(4, version);
        for index in 0..12 {
            let cpus = ["0-1", "2", "1-3"][index % 3];
            host.spawn(SchedAttr::NORMAL, GroupId::ROOT, Some(cpus), Program::RunSleep(ms(3), ms(2)));
        }
        host.run(at_ms(3000));
        let allowed = |task: TaskId| -> CpuMask { ["0-1", "2", "1-3"][task.index() % 3].parse().expect("a list") };
        for (_, cpu, task) in &host.switches {
            assert!(task.is_none_or(|task| allowed(task).contains(*cpu)), "task {task:?} on CPU {cpu}");
        }
        for rq in &host.rqs {
            rq.inspect().check_fair();
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
    set_free(&mut host, CpuId(0), &[TaskId(0), TaskId(1)]);
    host.run(at_ms(100));
    assert_eq!(host.rqs[1].current(), Some(TaskId(1)), "the more urgent of those that wait");
}

/// Machines of every shape with a domain level of its own.
const SHAPES: [[u32; 4]; 8] =
    [[1, 1, 2, 1], [1, 1, 4, 1], [1, 1, 1, 2], [1, 1, 2, 2], [1, 2, 2, 1], [2, 1, 2, 1], [1, 2, 2, 2], [2, 2, 2, 1]];

/// Returns the number of tasks per CPU.
fn counts(host: &Host) -> Vec<u32> {
    host.rqs.iter().map(zerolag_core::Rq::nr_running).collect()
}

/// Lets hogs that are crowded on one CPU use all CPUs.
fn set_free(host: &mut Host, cpu: CpuId, tasks: &[TaskId]) {
    for task in tasks {
        let step = host.step(&Call::SetAffinity { cpu, task: *task, affinity: None });
        assert!(host.hand.is_none());
        host.carry_out(step);
    }
}

/// An independent check: whichever path the balancer takes, equal hogs that may use all CPUs end up
/// spread, and stay so.
#[test]
fn equal_hogs_end_up_spread_on_every_machine() {
    for version in [KernelVersion::V5_15, KernelVersion::V6_1, KernelVersion::V6_12, KernelVersion::V6_18] {
        for [sockets, llcs, cores, smt] in SHAPES {
            let topology = Topology::new(sockets, llcs, cores, smt).expect("a machine");
            let nr_cpus = topology.nr_cpus();
            for nr in 1..=2 * nr_cpus + 1 {
                let mut host = Host::new(topology.clone(), version.settings());
                let tasks: Vec<TaskId> =
                    (0..nr).map(|_| host.spawn(SchedAttr::NORMAL, GroupId::ROOT, Some("0"), Program::Hog)).collect();
                host.run(at_ms(20));
                set_free(&mut host, CpuId(0), &tasks);
                host.run(at_ms(4_000));
                let case = format!("{version}, {nr} hogs on {sockets}x{llcs}x{cores}x{smt}");
                let mut uneven = 0;
                for _ in 0..40 {
                    let on_cpus = counts(&host);
                    assert_eq!(on_cpus.iter().sum::<u32>() as usize, nr, "{case}: no task is lost");
                    let least = on_cpus.iter().min().copied().expect("a CPU");
                    let more = on_cpus.iter().max().copied().expect("a CPU") - least;
                    assert!(least > 0 || more == 1, "{case}: an idle CPU beside a waiting task: {on_cpus:?}");
                    // A task that is passed between groups arrives at one CPU of a group first, and
                    // is balanced there a few intervals later.
                    uneven = if more < 2 { 0 } else { uneven + 1 };
                    assert!(more < 3 && uneven <= 10, "{case}: {on_cpus:?} for {uneven} times 37 ms");
                    host.run(host.now + ms(37));
                }
                for rq in &host.rqs {
                    rq.inspect().check_fair();
                }
            }
        }
    }
}

#[test]
fn balancing_looks_at_its_root_domain_only_and_says_what_it_cost() {
    const MOST: u32 = 5;
    for version in BOTH {
        let partition: CpuMask = "0-2".parse().expect("a list");
        let config = Config::new(Topology::flat(8).expect("8 CPUs"), version.settings());
        let mut host = Host::with_config(config.with_cpusets(&[(partition, Partition::Root)]).expect("a partition"));
        for (cpu, list, nr) in [(CpuId(0), "0", 7), (CpuId(7), "7", 6)] {
            let spawn = |host: &mut Host| host.spawn(SchedAttr::NORMAL, GroupId::ROOT, Some(list), Program::Hog);
            let tasks: Vec<TaskId> = (0..nr).map(|_| spawn(&mut host)).collect();
            set_free(&mut host, cpu, &tasks);
        }
        host.io.costs = Costs::default();
        host.run(at_ms(3_000));
        assert_eq!(host.strayed, None, "{version}: no CPU looks across");
        let on_cpus = counts(&host);
        assert_eq!((on_cpus[..3].iter().sum::<u32>(), on_cpus[3..].iter().sum::<u32>()), (7, 6), "{version}");
        assert!(on_cpus[..3].iter().all(|nr| [2, 3].contains(nr)), "{version}: {on_cpus:?}");
        assert!(on_cpus[3..].iter().all(|nr| [1, 2].contains(nr)), "{version}: {on_cpus:?}");
        let Costs { cpus_scanned, cpus_searched, fair_balance, .. } = host.io.costs;
        let cpus_scanned = cpus_scanned + cpus_searched;
        assert!(
            fair_balance > 0 && cpus_scanned > fair_balance,
            "{version}: every round is counted, and what it looks at"
        );
        assert!(cpus_scanned <= fair_balance * MOST, "{version}: {cpus_scanned} looks in {fair_balance} rounds");
    }
}
