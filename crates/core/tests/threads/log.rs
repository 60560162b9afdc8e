//! The record of a call, and the construction of the scheduler that the threads and the replay use.

use parking_lot::RawMutex;
use std::sync::Arc;
use zerolag_core::{
    Clock, Config, CpusetId, Leave, Left, Lent, Next, Op, PairCont, Parcel, Placement, Rq, Scheduler, Step, TaskError,
    TaskSpec, Work,
};
use zerolag_model::{CpuId, CpuMask, GroupId, Instant, SchedAttr, Settings, TaskId, Topology};

pub(crate) const CPUS: u32 = 4;
pub(crate) const TASKS: u32 = 12;

/// A call of the core: its arguments.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Create { task: TaskId, attr: SchedAttr },
    Select { task: TaskId, by: CpuId, why: Placement },
    Wake { cpu: CpuId, task: TaskId, by: CpuId, why: Placement },
    WakeQueued { cpu: CpuId, task: TaskId, by: CpuId },
    Leave { cpu: CpuId, why: Leave },
    Pick { cpu: CpuId },
    Switched { cpu: CpuId },
    Tick { cpu: CpuId },
    Timer { cpu: CpuId },
    Remote { cpu: CpuId, work: Work },
    Resume { cpu: CpuId, then: zerolag_core::Cont },
    Pair { own: CpuId, other: CpuId, then: PairCont },
    SetAttr { cpu: CpuId, task: TaskId, attr: SchedAttr },
    SetAttrParked { task: TaskId, attr: SchedAttr, by: CpuId },
    SetAffinity { cpu: CpuId, task: TaskId, affinity: Option<Arc<CpuMask>> },
    SetAffinityParked { task: TaskId, affinity: Option<Arc<CpuMask>>, by: CpuId },
    Inherit { cpu: CpuId, task: TaskId, from: Option<Lent> },
}

/// Its result, and its output in [`Io`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Nothing,
    Cpu(CpuId),
    Step(Step),
    Next(Next),
    Left(&'static str, Option<TaskId>),
    Changed(Result<(Option<TaskId>, Step), TaskError>),
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) ticket: u64,
    pub(crate) call: Call,
    pub(crate) reads: Vec<u64>,
    pub(crate) answer: Answer,
    pub(crate) ops: Vec<Op>,
    pub(crate) parked: Vec<TaskId>,
}

pub(crate) fn clock(ticket: u64) -> Clock {
    Clock::at(Instant::from_nanos(ticket * 5_000))
}

pub(crate) fn create(scheduler: &Scheduler<RawMutex>, id: TaskId, attr: SchedAttr) -> Parcel {
    let spec = TaskSpec {
        id,
        attr,
        affinity: None,
        group: GroupId::ROOT,
        cpuset: CpusetId::default(),
        born_on: CpuId(id.0 % CPUS),
    };
    scheduler.create_task(Clock::at(Instant::ZERO), spec).expect("a reserved task")
}

pub(crate) fn name_of(left: &Left) -> &'static str {
    match left {
        Left::Queued => "queued",
        Left::Parked(_) => "parked",
        Left::Delayed => "delayed",
        Left::Displaced(_) => "displaced",
        Left::Dead(_) => "dead",
    }
}

fn config(settings: &Settings) -> Config {
    Config::new(Topology::flat(CPUS).expect("CPUs"), settings.clone())
}

pub(crate) fn build(settings: &Settings) -> (Scheduler<RawMutex>, Vec<Rq>) {
    let mut scheduler = Scheduler::new(config(settings));
    scheduler.reserve_tasks(TASKS as usize);
    let rqs = (0..CPUS).map(|cpu| scheduler.new_rq(CpuId(cpu))).collect();
    (scheduler, rqs)
}
