//! A recorded trace and random changes to it, for tests of code that must accept any trace.

use proptest::prelude::*;
use zerolag_model::{CpuId, Instant, TaskId, TraceEvent};
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
}

pub(crate) fn change() -> impl Strategy<Value = Change> {
    let at = 0..300_usize;
    prop_oneof![
        (at.clone(), at.clone()).prop_map(|(a, b)| Change::Swap(a, b)),
        at.clone().prop_map(Change::Remove),
        (at.clone(), any::<u64>()).prop_map(|(at, ns)| Change::Time(at, ns)),
        (at.clone(), any::<u32>()).prop_map(|(at, cpu)| Change::Cpu(at, cpu)),
        (at, any::<u32>()).prop_map(|(at, task)| Change::Task(at, task)),
    ]
}

pub(crate) fn mutate(trace: &mut Trace, changes: &[Change]) {
    for change in changes {
        let records = &mut trace.records;
        match *change {
            Change::Swap(a, b) => records.swap(a, b),
            Change::Remove(at) => drop(records.remove(at)),
            Change::Time(at, ns) => records[at].at = Instant::from_nanos(ns),
            Change::Cpu(at, cpu) => records[at].cpu = CpuId(cpu),
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
