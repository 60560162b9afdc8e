//! What real-time balancing costs on the simulated machine, and what it does not: nothing without
//! RT overload.

use std::sync::Arc;
use zerolag_model::settings::{RtBalance, RtOverload};
use zerolag_model::{CpuId, Duration, KernelVersion, SchedAttr, Settings, Topology, TraceEvent};
use zerolag_sim::{Costs, End, Machine, MachineConfig, NoTrace, Outcome, Tracing};
use zerolag_workload::program::{Action, Program, TaskDef};
use zerolag_workload::random::Dist;

const CPUS: u32 = 8;

fn task(name: &str, attr: SchedAttr, cpu: Option<u32>, actions: Vec<Action>) -> TaskDef {
    let anywhere = TaskDef::looping(name, attr, actions);
    match cpu {
        Some(cpu) => anywhere.on(CpuId(cpu)),
        None => anywhere,
    }
}

fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo_at(priority)
}

fn cycle(run: u64, sleep: u64) -> Vec<Action> {
    vec![
        Action::Run(Dist::Constant(Duration::from_micros(run))),
        Action::Sleep(Dist::Constant(Duration::from_micros(sleep))),
    ]
}

fn machine(tasks: Vec<TaskDef>, settings: Settings, costs: Costs, tracing: Tracing) -> Machine {
    let config = MachineConfig {
        topology: Topology::new(2, 1, CPUS / 4, 2).expect("eight CPUs"),
        settings,
        costs,
        seed: 1,
        duration: Some(Duration::from_millis(50)),
    };
    Machine::new(Arc::new(Program { tasks, ..Program::default() }), &config, tracing).expect("it fits the machine")
}

fn settings(rt_balance: RtBalance, rt_overload: RtOverload) -> Settings {
    Settings { rt_balance, rt_overload, ..KernelVersion::V6_12.settings() }
}

/// Fair tasks alone; a pinned real-time task per CPU beside them; one that moves, on a machine with
/// room for it.
fn without_overload() -> Vec<(&'static str, Vec<TaskDef>)> {
    let fair = |count: u64| {
        (0..count).map(|nth| task(&format!("fair{nth}"), SchedAttr::NORMAL, None, cycle(300 + nth * 37, 200)))
    };
    let pinned =
        (0..CPUS).map(|cpu| task(&format!("rt{cpu}"), fifo(50), Some(cpu), cycle(50, 150 + u64::from(cpu) * 11)));
    let moving = [task("moves", fifo(40), None, cycle(80, 333))];
    vec![
        ("fair", fair(20).collect()),
        ("fair and pinned", fair(20).chain(pinned).collect()),
        ("fair and one that moves", fair(5).chain(moving).collect()),
    ]
}

#[test]
fn without_rt_overload_no_rt_balancing_is_charged() {
    for rt_balance in [RtBalance::PullLocked, RtBalance::IpiPerCpu, RtBalance::IpiRootDomain, RtBalance::PullClaimed] {
        for rt_overload in [RtOverload::Queued, RtOverload::Pushable] {
            for (name, tasks) in without_overload() {
                let settings = settings(rt_balance, rt_overload);
                let Outcome { stats, .. } = machine(tasks, settings, Costs::server(), Tracing::Off).run(&mut NoTrace);
                assert!(stats.switches > 500, "{name}: {stats:?}");
                assert_eq!((stats.rt_balance, stats.rt_ipis), (0, 0), "{rt_balance}, {rt_overload}, {name}");
                assert_eq!(stats.rto_accesses, 0, "{rt_balance}, {rt_overload}, {name}");
            }
        }
    }
}

/// CPU 0 has a task waiting that may go nowhere; all others keep lowering their priority.
fn storm() -> Vec<TaskDef> {
    let forever = || vec![Action::Run(Dist::Constant(Duration::from_secs(1)))];
    let mut waits = task("waits", fifo(40), None, forever());
    waits.affinity = Some(Arc::new((0..2).map(CpuId).collect()));
    let mut tasks =
        vec![task("busy0", fifo(90), Some(0), forever()), task("busy1", fifo(90), Some(1), forever()), waits];
    tasks.extend((2..CPUS).map(|cpu| task(&format!("rt{cpu}"), fifo(80), Some(cpu), cycle(20, 20 + u64::from(cpu)))));
    tasks
}

/// IPIs that are much dearer than they are.
fn dear() -> Costs {
    Costs { ipi_handler: Duration::from_micros(100), ..Costs::server() }
}

#[test]
fn every_mode_counts_its_rounds() {
    for rt_balance in [RtBalance::PullLocked, RtBalance::IpiPerCpu, RtBalance::IpiRootDomain, RtBalance::PullClaimed] {
        let settings = settings(rt_balance, RtOverload::Queued);
        let outcome = machine(storm(), settings, Costs::server(), Tracing::Off).run(&mut NoTrace);
        // Six CPUs lower their priority every 45 us or so.
        assert!(outcome.stats.rt_balance > 1000, "{rt_balance}: {:?}", outcome.stats);
    }
}

#[test]
fn a_cpu_that_does_not_leave_ipi_work_ends_the_run() {
    let mut settings = settings(RtBalance::IpiPerCpu, RtOverload::Queued);
    settings.watchdog_thresh = Duration::from_millis(5);
    let outcome = machine(storm(), settings.clone(), dear(), Tracing::Off).run(&mut NoTrace);
    let End::Lockup { cpu, since, stretch } = outcome.why else { panic!("{}", outcome.why) };
    assert!(cpu.0 < 2 && stretch > settings.watchdog_thresh && outcome.end == since + stretch, "{}", outcome.why);
    assert_eq!(outcome.stats.ipi_stretch, stretch);
    assert!(!outcome.why.is_ok() && outcome.why.to_string().starts_with("lockup: cpu"), "{}", outcome.why);
    // Without the watchdog it goes on to its end.
    settings.watchdog_thresh = Duration::ZERO;
    let outcome = machine(storm(), settings, dear(), Tracing::Off).run(&mut NoTrace);
    assert_eq!(outcome.why, End::Duration);
}

#[test]
fn requests_that_wait_share_an_interrupt() {
    let settings = settings(RtBalance::IpiPerCpu, RtOverload::Queued);
    let mut records = Vec::new();
    let outcome = machine(storm(), settings, dear(), Tracing::On).run(&mut records);
    let sent = records.iter().filter(|record| matches!(record.event, TraceEvent::IpiSend { .. })).count() as u64;
    assert!(outcome.stats.rt_ipis > 100 && outcome.stats.ipis < sent, "{:?}, {sent} requests", outcome.stats);
}
