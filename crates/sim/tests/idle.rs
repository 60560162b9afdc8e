//! Idle CPUs: a waker sends no interrupt to a CPU that polls its `need_resched` flag.

use std::sync::Arc;
use zerolag_model::{CpuId, Duration, KernelVersion, SchedAttr, Topology};
use zerolag_sim::costs::IdleState;
use zerolag_sim::{Costs, Machine, MachineConfig, NoTrace, Outcome, Tracing};
use zerolag_workload::program::{Action, Program, Resource, ResourceId, ResourceKind, TaskDef};
use zerolag_workload::random::Dist;

fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// A machine whose idle CPUs come out of idle at no cost; they watch their flag for so long and
/// then halt.
fn polling_for(time: Duration) -> Costs {
    let state = |residency, polling| IdleState { residency, exit: Duration::ZERO, polling, ipi_latency: None };
    Costs { idle_states: vec![state(Duration::ZERO, true), state(time, false)], ..Costs::server() }
}

/// Two tasks meet at a barrier again and again; the second waits for the first there, its CPU idle
/// for 200 us.
fn run(costs: Costs) -> Outcome {
    let meets = |name, cpu, work| {
        let steps = vec![Action::Run(Dist::Constant(us(work))), Action::Barrier(ResourceId(0))];
        TaskDef::looping(name, SchedAttr::NORMAL, steps).on(CpuId(cpu))
    };
    let barrier = Resource { name: "meet".into(), kind: ResourceKind::Barrier { parties: 2 } };
    let config = MachineConfig {
        topology: Topology::flat(2).expect("two CPUs"),
        settings: KernelVersion::V6_12.settings(),
        costs,
        seed: 1,
        duration: Some(Duration::from_millis(50)),
    };
    let program = Program {
        tasks: vec![meets("late", 0, 300), meets("waits", 1, 100)],
        resources: vec![barrier],
        ..Program::default()
    };
    Machine::new(Arc::new(program), &config, Tracing::Off).expect("it fits the machine").run(&mut NoTrace)
}

#[test]
fn a_cpu_that_watches_its_flag_is_sent_no_interrupt() {
    let halts = run(Costs::server()).stats;
    assert!(halts.ipis > 100, "{halts:?}");
    let polls = run(polling_for(Duration::from_secs(1))).stats;
    assert!(polls.ipis == 0 && polls.wakeups >= halts.wakeups, "{polls:?}");
    // Once it has halted, an interrupt is what brings it.
    let halts_soon = run(polling_for(us(1))).stats;
    assert_eq!(halts_soon.ipis, halts.ipis, "{halts_soon:?}");
}
