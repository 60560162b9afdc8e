//! A recorded trace and random changes to it, for tests of code that must accept any trace.

use proptest::prelude::*;
use zerolag_model::{
    Activation, CpuId, CpuMax, DlFlags, DlParams, Duration, GroupId, Instant, SchedAttr, ServerKind, ServerParams,
    ServerState, SignedDuration, TaskId, TraceEvent,
};
use zerolag_trace::Trace;

pub(crate) fn recorded() -> Trace {
    Trace::from_bytes(include_bytes!("../data/rt-migrate-2cpu.txt")).expect("a recorded trace")
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Swap(usize, usize),
    Remove(usize),
    Time(usize, u64),
    Cpu(usize, u32),
    Task(usize, u32),
    /// Parameters of any size, of which no kernel accepts most.
    Says(usize, u8, [u64; 3]),
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let at = 0..300_usize;
    prop_oneof![
        (at.clone(), at.clone()).prop_map(|(a, b)| Change::Swap(a, b)),
        at.clone().prop_map(Change::Remove),
        (at.clone(), any::<u64>()).prop_map(|(at, ns)| Change::Time(at, ns)),
        // Readers refuse CPUs beyond.
        (at.clone(), 0..4096_u32).prop_map(|(at, cpu)| Change::Cpu(at, cpu)),
        (at.clone(), any::<u32>()).prop_map(|(at, task)| Change::Task(at, task)),
        (at, 0..8_u8, [value(), value(), value()]).prop_map(|(at, what, values)| Change::Says(at, what, values)),
    ]
}

/// Numbers of every length.
fn value() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift)
}

/// An event with parameters, of one of the first tasks or groups.
fn says(what: u8, [a, b, c]: [u64; 3]) -> TraceEvent {
    let time = Duration::from_nanos;
    let (task, group) = (TaskId((a % 4) as u32), GroupId(1 + (b % 2) as u32));
    let (kind, deadline) = (ServerKind::Fair, Instant::from_nanos(c));
    match what {
        0 | 1 => {
            let activation = if what == 0 { Activation::Immediate } else { Activation::Deferred };
            TraceEvent::ServerParams { kind, params: ServerParams { activation, runtime: time(a), period: time(b) } }
        }
        2 => TraceEvent::Server { kind, state: ServerState::Queued { deadline } },
        3 => TraceEvent::GroupNew { group, parent: GroupId::ROOT, path: "/g".into() },
        4 => {
            let max = CpuMax { quota: Some(time(a)), period: time(b), burst: time(c), slice: None };
            TraceEvent::GroupMax { group, max }
        }
        5 => TraceEvent::GroupChange { task, group },
        6 => {
            let flags = if c % 2 == 0 { DlFlags::default() } else { DlFlags::RECLAIM };
            let params = DlParams { runtime: time(a), deadline: time(b), period: time(c), flags };
            TraceEvent::AttrChange { task, attr: SchedAttr::Deadline(params) }
        }
        _ => TraceEvent::DlReplenish { task, deadline, budget: SignedDuration::from_nanos(b.cast_signed()) },
    }
}

pub(crate) fn mutate(trace: &mut Trace, changes: &[Change]) {
    for change in changes {
        let records = &mut trace.records;
        match *change {
            Change::Swap(a, b) => records.swap(a, b),
            Change::Remove(at) => drop(records.remove(at)),
            Change::Time(at, ns) => records[at].at = Instant::from_nanos(ns),
            Change::Cpu(at, cpu) => records[at].cpu = CpuId(cpu),
            Change::Says(at, what, values) => records[at].event = says(what, values),
            Change::Task(at, other) => match &mut records[at].event {
                TraceEvent::Waking { task, .. }
                | TraceEvent::Wakeup { task, .. }
                | TraceEvent::Migrate { task, .. }
                | TraceEvent::TaskNew { task, .. } => *task = TaskId(other),
                TraceEvent::Switch { prev, next, .. } => {
                    *prev = Some(TaskId(other));
                    *next = Some(TaskId(other / 2));
                }
                _ => {}
            },
        }
    }
}
