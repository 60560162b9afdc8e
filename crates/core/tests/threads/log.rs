//! The record of a call, and the configuration that the threads and the replay use.

use zerolag_core::call::Made;
use zerolag_core::{Clock, Config, CpusetId, Op, TaskSpec};
use zerolag_model::{CpuId, GroupId, Instant, SchedAttr, Settings, TaskId, Topology};

pub(crate) const CPUS: u32 = 4;
pub(crate) const TASKS: u32 = 12;

/// A call in the order in which it took effect, and its operations.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) ticket: u64,
    pub(crate) made: Made,
    pub(crate) ops: Vec<Op>,
}

pub(crate) fn clock(ticket: u64) -> Clock {
    Clock::at(Instant::from_nanos(ticket * 5_000))
}

pub(crate) fn spec(id: TaskId, attr: SchedAttr) -> TaskSpec {
    let born_on = CpuId(id.0 % CPUS);
    TaskSpec { id, attr, affinity: None, group: GroupId::ROOT, cpuset: CpusetId::default(), born_on, process: None }
}

pub(crate) fn config(settings: &Settings) -> Config {
    Config::new(Topology::flat(CPUS).expect("CPUs"), settings.clone())
}
