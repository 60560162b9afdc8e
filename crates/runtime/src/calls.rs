//! [`Call`]: every call of the core that this host makes, as data; [`apply`] makes it.
//!
//! The threads and the replay go through the same function: what was recorded is what is repeated.

use parking_lot::RawMutex;
use zerolag_core::{
    Clock, Cont, GroupTimer, Io, Leave, Left, Lent, Next, PairClock, PairCont, Parcel, Placement, Resched, Rq, RqTimer,
    Scheduler, Step, TaskMode, TaskSpec, Weight, Work,
};
use zerolag_model::{CpuId, CpuMax, GroupId, TaskId};

/// A call of the core: what it is given besides run queues, clocks and a parcel.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    CreateGroup { parent: GroupId, weight: Weight },
    RemoveGroup { group: GroupId },
    SetWeight { group: GroupId, weight: Weight },
    SetMax { group: GroupId, max: CpuMax, by: CpuId },
    GroupTimer { group: GroupId, timer: GroupTimer, by: CpuId },
    CreateTask { spec: TaskSpec },
    Select { task: TaskId, by: CpuId, why: Placement },
    Wake { cpu: CpuId, task: TaskId, by: CpuId, why: Placement },
    WakeQueued { cpu: CpuId, task: TaskId, by: CpuId },
    Leave { cpu: CpuId, why: Leave },
    Pick { cpu: CpuId },
    Switched { cpu: CpuId },
    SetMode { cpu: CpuId, mode: TaskMode },
    Tick { cpu: CpuId },
    Timer { cpu: CpuId, timer: RqTimer },
    Remote { cpu: CpuId, work: Work },
    Resume { own: CpuId, then: Cont },
    Pair { own: CpuId, other: CpuId, then: PairCont },
    Lends { cpu: CpuId, task: TaskId },
    Inherit { cpu: CpuId, task: TaskId, from: Option<Lent> },
    InheritParked { task: TaskId, from: Option<Lent>, by: CpuId },
}

/// The run queues whose locks a call is made under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Under {
    None,
    One(CpuId),
    /// Locked in order of CPU; named in order of the call.
    Two(CpuId, CpuId),
}

impl Call {
    pub(crate) const fn under(&self) -> Under {
        match *self {
            Self::CreateGroup { .. }
            | Self::RemoveGroup { .. }
            | Self::SetWeight { .. }
            | Self::SetMax { .. }
            | Self::GroupTimer { .. }
            | Self::CreateTask { .. }
            | Self::Select { .. }
            | Self::InheritParked { .. } => Under::None,
            Self::Wake { cpu, .. }
            | Self::WakeQueued { cpu, .. }
            | Self::Leave { cpu, .. }
            | Self::Pick { cpu }
            | Self::Switched { cpu }
            | Self::SetMode { cpu, .. }
            | Self::Tick { cpu }
            | Self::Timer { cpu, .. }
            | Self::Remote { cpu, .. }
            | Self::Resume { own: cpu, .. }
            | Self::Lends { cpu, .. }
            | Self::Inherit { cpu, .. } => Under::One(cpu),
            Self::Pair { own, other, .. } => Under::Two(own, other),
        }
    }
}

/// Where a task is after it has left its CPU; its body, if it has been handed out, is in the caller's hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeftAs {
    Queued,
    Parked,
    Delayed,
    Displaced,
    Dead,
}

/// What a call answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Step(Step),
    Cpu(CpuId),
    Group(GroupId),
    Next(Next),
    Left(LeftAs),
    Lent(Lent),
    /// Whether the CPU is to schedule.
    Resched(Resched),
    /// The task is not, or not any more, where the caller looked for it.
    NotHere,
}

/// What the core refused: a task or a group that cannot be so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    Task(zerolag_core::TaskError),
    Group(zerolag_core::GroupError),
}

impl From<zerolag_core::TaskError> for Refused {
    fn from(error: zerolag_core::TaskError) -> Self {
        Self::Task(error)
    }
}

impl From<zerolag_core::GroupError> for Refused {
    fn from(error: zerolag_core::GroupError) -> Self {
        Self::Group(error)
    }
}

/// The run queues of a call, locked or the replay's own, with their clocks.
pub(crate) enum Rqs<'a> {
    None(Clock),
    One(&'a mut Rq, Clock),
    Two([&'a mut Rq; 2], PairClock),
}

/// Makes a call. `hand` is the parcel that it is given, or leaves.
///
/// # Panics
/// If the run queues or the parcel are not those that the call needs ([`Call::under`]).
pub(crate) fn apply(
    scheduler: &Scheduler<RawMutex>,
    rqs: Rqs<'_>,
    call: &Call,
    hand: &mut Option<Parcel>,
    io: &mut Io,
) -> Result<Answer, Refused> {
    match rqs {
        Rqs::None(now) => unlocked(scheduler, now, call, hand, io),
        Rqs::One(rq, now) => with_one(scheduler, rq, now, call, hand, io),
        Rqs::Two([own, other], now) => {
            let Call::Pair { then, .. } = *call else { unreachable!("invariant: no other call is under two") };
            Ok(Answer::Step(scheduler.resume_pair(own, other, now, then, io)))
        }
    }
}

const IN_HAND: &str = "invariant: the caller has the task in hand";

fn unlocked(
    scheduler: &Scheduler<RawMutex>,
    now: Clock,
    call: &Call,
    hand: &mut Option<Parcel>,
    io: &mut Io,
) -> Result<Answer, Refused> {
    match call {
        Call::CreateGroup { parent, weight } => Ok(Answer::Group(scheduler.create_group(*parent, *weight)?)),
        Call::RemoveGroup { group } => scheduler.remove_group(*group).map(|()| done()).map_err(Refused::from),
        Call::SetWeight { group, weight } => {
            scheduler.set_group_weight(*group, *weight).map(|()| done()).map_err(Refused::from)
        }
        Call::SetMax { group, max, by } => Ok(Answer::Step(scheduler.set_group_max(*group, *max, now, *by, io)?)),
        Call::GroupTimer { group, timer, by } => Ok(Answer::Step(scheduler.group_timer(*group, *timer, now, *by, io))),
        Call::CreateTask { spec } => {
            match hand {
                Some(ended) => scheduler.recreate_task(now, ended, spec.clone())?,
                None => *hand = Some(scheduler.create_task(now, spec.clone())?),
            }
            Ok(done())
        }
        Call::Select { by, why, .. } => {
            Ok(Answer::Cpu(scheduler.select_cpu(now, hand.as_ref().expect(IN_HAND), *by, *why, io)))
        }
        Call::InheritParked { from, by, .. } => {
            scheduler.inherit_parked(now, hand.as_mut().expect(IN_HAND), *from, *by, io);
            Ok(done())
        }
        Call::Wake { .. }
        | Call::WakeQueued { .. }
        | Call::Leave { .. }
        | Call::Pick { .. }
        | Call::Switched { .. }
        | Call::SetMode { .. }
        | Call::Tick { .. }
        | Call::Timer { .. }
        | Call::Remote { .. }
        | Call::Resume { .. }
        | Call::Pair { .. }
        | Call::Lends { .. }
        | Call::Inherit { .. } => unreachable!("invariant: made under a lock"),
    }
}

fn with_one(
    scheduler: &Scheduler<RawMutex>,
    rq: &mut Rq,
    now: Clock,
    call: &Call,
    hand: &mut Option<Parcel>,
    io: &mut Io,
) -> Result<Answer, Refused> {
    Ok(match *call {
        Call::Wake { by, why, .. } => Answer::Step(scheduler.wake(rq, now, hand.take().expect(IN_HAND), by, why, io)),
        Call::WakeQueued { task, by, .. } => {
            scheduler.wake_queued(rq, now, task, by, io).map_or(Answer::NotHere, Answer::Step)
        }
        Call::Leave { why, .. } => {
            let (left, parcel) = match scheduler.leave(rq, now, why, io) {
                Left::Queued => (LeftAs::Queued, None),
                Left::Delayed => (LeftAs::Delayed, None),
                Left::Parked(parcel) => (LeftAs::Parked, Some(parcel)),
                Left::Displaced(parcel) => (LeftAs::Displaced, Some(parcel)),
                Left::Dead(parcel) => (LeftAs::Dead, Some(parcel)),
            };
            *hand = parcel;
            Answer::Left(left)
        }
        Call::Pick { .. } => Answer::Next(scheduler.pick(rq, now, io)),
        Call::Switched { .. } => Answer::Step(scheduler.switched(rq, now, io)),
        Call::SetMode { mode, .. } => {
            match mode {
                TaskMode::Kernel => scheduler.enter_kernel(rq),
                TaskMode::User => scheduler.return_to_user(rq, now, io),
            }
            Answer::Resched(rq.need_resched())
        }
        Call::Tick { .. } => Answer::Step(scheduler.tick(rq, now, io)),
        Call::Timer { timer, .. } => Answer::Step(scheduler.timer(rq, now, timer, io)),
        Call::Remote { work, .. } => Answer::Step(scheduler.remote(rq, now, work, io)),
        Call::Resume { then, .. } => Answer::Step(scheduler.resume(rq, now, then, io)),
        Call::Lends { task, .. } => scheduler.lends(rq, task).map_or(Answer::NotHere, Answer::Lent),
        Call::Inherit { task, from, .. } => {
            scheduler.inherit(rq, now, task, from, io).map_or(Answer::NotHere, Answer::Step)
        }
        Call::CreateGroup { .. }
        | Call::RemoveGroup { .. }
        | Call::SetWeight { .. }
        | Call::SetMax { .. }
        | Call::GroupTimer { .. }
        | Call::CreateTask { .. }
        | Call::Select { .. }
        | Call::InheritParked { .. }
        | Call::Pair { .. } => unreachable!("invariant: not made under one lock"),
    })
}

const fn done() -> Answer {
    Answer::Step(Step::Done)
}
