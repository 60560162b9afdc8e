//! Selection of the CPU of a waking fair task.

use super::host::{Host, Program, at_ms, ms};
use zerolag_core::call::Call;
use zerolag_model::settings::RecentUsedCpu;
use zerolag_model::{CpuId, GroupId, KernelVersion, SchedAttr, TaskId, Topology};

/// A task sleeps on CPU 2 and remembers CPU 0, that of its parent. CPU 0's hog is moved to CPU 2;
/// CPU 1 has a hog too. The task is woken on CPU 2.
fn wakes_on(topology: Topology, remembers: RecentUsedCpu) -> Option<CpuId> {
    let settings = zerolag_model::Settings { recent_used_cpu: remembers, ..KernelVersion::V6_12.settings() };
    let mut host = Host::new(topology, settings);
    let [hog, _] = ["0", "1"].map(|cpus| host.spawn(SchedAttr::NORMAL, GroupId::ROOT, Some(cpus), Program::Hog));
    let task = host.spawn(SchedAttr::NORMAL, GroupId::ROOT, None, Program::RunSleep(ms(1), ms(100)));
    host.run(at_ms(3));
    assert_eq!(place_of(&host, task), Some(CpuId(2)));
    send(&mut host, hog, "2");
    host.run(at_ms(5));
    host.wake(task, CpuId(2));
    host.run(at_ms(6));
    place_of(&host, task)
}

/// Returns the CPU that last ran a task.
fn place_of(host: &Host, task: TaskId) -> Option<CpuId> {
    host.switches.iter().rev().find(|(_, _, went_to)| *went_to == Some(task)).map(|(_, cpu, _)| *cpu)
}

fn send(host: &mut Host, task: TaskId, cpus: &str) {
    let affinity = Some(std::sync::Arc::new(cpus.parse().expect("a list")));
    let cpu = host.rqs.iter().find(|rq| rq.current() == Some(task)).expect("it runs").cpu();
    let step = host.step(&Call::SetAffinity { cpu, task, affinity });
    assert!(host.hand.is_none(), "it runs, and goes when it is left");
    host.carry_out(step);
    host.settle();
}

#[test]
fn a_task_wakes_where_it_remembers_if_that_shares_the_cache() {
    use RecentUsedCpu::{Off, Prev, PrevUnchecked, Waker};
    let one_cache = || Topology::flat(4).expect("a machine");
    let two_caches = || Topology::new(1, 2, 2, 1).expect("a machine");
    assert_eq!(wakes_on(one_cache(), Off), Some(CpuId(3)));
    for remembers in [Waker, PrevUnchecked, Prev] {
        assert_eq!(wakes_on(one_cache(), remembers), Some(CpuId(0)), "{remembers}");
        assert_eq!(wakes_on(two_caches(), remembers), Some(CpuId(3)), "{remembers}");
    }
}
