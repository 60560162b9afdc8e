//! No path allocates once everything that is ever queued has been queued.

use crate::machine::{Machine, crowded, fifo, turn};
use zerolag_core::Leave;
use zerolag_model::settings::RtBalance;
use zerolag_model::{KernelVersion, Nice, SchedAttr, Settings, TaskId};

fn settings(rt_balance: RtBalance) -> Settings {
    Settings { rt_balance, rt_push_skip_stuck: true, ..KernelVersion::V6_12.settings() }
}

/// Wakes, switches, yields, ticks and blocks on one CPU with 64 tasks queued.
fn stir(machine: &mut Machine, tasks: u32) {
    let current = machine.rqs[0].current().expect("64 tasks are queued");
    machine.schedule(0, Leave::Block);
    machine.settle();
    machine.tick(0);
    machine.schedule(0, Leave::Yield);
    machine.settle();
    assert!(current.0 < tasks);
    machine.wake(current.0, 0);
    machine.settle();
    machine.tick(0);
}

#[test]
fn one_queue_with_64_tasks() {
    type Mix = (&'static str, fn(u32) -> SchedAttr);
    let mixes: [Mix; 3] = [
        ("real time", |task| fifo(1 + i64::from(task % 20))),
        ("fair", |task| SchedAttr::nice(Nice::new(i64::from(task % 5)).expect("-20..=19"))),
        ("both", |task| if task % 2 == 0 { fifo(1 + i64::from(task % 20)) } else { SchedAttr::NORMAL }),
    ];
    for (name, attr) in mixes {
        let mut machine = Machine::new(1, 64, settings(RtBalance::IpiRootDomain));
        for task in 0..64 {
            machine.spawn(task, attr(task), None, 0);
        }
        (0..2_000).for_each(|_| stir(&mut machine, 64));
        let before = machine.calls;
        let measured = allocation_counter::measure(|| (0..10_000).for_each(|_| stir(&mut machine, 64)));
        assert_eq!(measured.count_total, 0, "{name}");
        assert!(machine.calls - before > 50_000, "{name}: something happened");
    }
}

#[test]
fn push_and_pull() {
    for rt_balance in [RtBalance::PullLocked, RtBalance::IpiPerCpu, RtBalance::IpiRootDomain, RtBalance::PullClaimed] {
        let mut machine = crowded(8, settings(rt_balance));
        (0..100).for_each(|_| turn(&mut machine));
        let measured = allocation_counter::measure(|| (0..10_000).for_each(|_| turn(&mut machine)));
        assert_eq!(measured.count_total, 0, "{rt_balance}");
        assert_eq!(machine.select(3, 0), zerolag_model::CpuId(7));
        assert_eq!(machine.rqs[0].current(), Some(TaskId(0)));
        assert!(machine.io.costs.tasks_moved >= 10_000, "{rt_balance}: tasks were pushed");
        assert!(machine.io.costs.rt_balance >= 20_000, "{rt_balance}: CPUs looked for tasks to pull");
    }
}
