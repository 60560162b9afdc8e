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

    /// Returns whose parcel it is given.
    pub(crate) const fn handed(&self) -> Option<TaskId> {
        match self {
            Self::CreateTask { spec } => Some(spec.id),
            Self::Select { task, .. } | Self::Wake { task, .. } | Self::InheritParked { task, .. } => Some(*task),
            Self::CreateGroup { .. }
            | Self::RemoveGroup { .. }
            | Self::SetWeight { .. }
            | Self::SetMax { .. }
            | Self::GroupTimer { .. }
            | Self::WakeQueued { .. }
            | Self::Leave { .. }
            | Self::Pick { .. }
            | Self::Switched { .. }
            | Self::SetMode { .. }
            | Self::Tick { .. }
            | Self::Timer { .. }
            | Self::Remote { .. }
            | Self::Resume { .. }
            | Self::Pair { .. }
            | Self::Lends { .. }
            | Self::Inherit { .. } => None,
        }
    }
}

/// Where a task is after it has left its CPU; its body, if it has been handed out, is in the
/// caller's hand.
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

const AS_NEEDED: &str = "invariant: made under the locks that `Call::under` names";
const IN_HAND: &str = "invariant: the caller has the task in hand";

impl<'a> Rqs<'a> {
    fn none(self) -> Clock {
        let Self::None(now) = self else { unreachable!("{AS_NEEDED}") };
        now
    }

    fn one(self) -> (&'a mut Rq, Clock) {
        let Self::One(rq, now) = self else { unreachable!("{AS_NEEDED}") };
        (rq, now)
    }

    fn two(self) -> ([&'a mut Rq; 2], PairClock) {
        let Self::Two(rqs, now) = self else { unreachable!("{AS_NEEDED}") };
        (rqs, now)
    }
}

/// Makes a call. `hand` is the parcel that it is given, or leaves.
///
/// # Panics
/// If the run queues or the parcel are not those that the call needs ([`Call::under`],
/// [`Call::handed`]).
pub(crate) fn apply(
    scheduler: &Scheduler<RawMutex>,
    rqs: Rqs<'_>,
    call: &Call,
    hand: &mut Option<Parcel>,
    io: &mut Io,
) -> Result<Answer, Refused> {
    Ok(match *call {
        Call::CreateGroup { parent, weight } => Answer::Group(scheduler.create_group(parent, weight)?),
        Call::RemoveGroup { group } => scheduler.remove_group(group).map(|()| done())?,
        Call::SetWeight { group, weight } => scheduler.set_group_weight(group, weight).map(|()| done())?,
        Call::SetMax { group, max, by } => Answer::Step(scheduler.set_group_max(group, max, rqs.none(), by, io)?),
        Call::GroupTimer { group, timer, by } => Answer::Step(scheduler.group_timer(group, timer, rqs.none(), by, io)),
        Call::CreateTask { ref spec } => {
            match hand {
                Some(ended) => scheduler.recreate_task(rqs.none(), ended, spec.clone())?,
                None => *hand = Some(scheduler.create_task(rqs.none(), spec.clone())?),
            }
            done()
        }
        Call::Select { by, why, .. } => {
            Answer::Cpu(scheduler.select_cpu(rqs.none(), hand.as_ref().expect(IN_HAND), by, why, io))
        }
        Call::InheritParked { from, by, .. } => {
            scheduler.inherit_parked(rqs.none(), hand.as_mut().expect(IN_HAND), from, by, io);
            done()
        }
        Call::Wake { by, why, .. } => {
            let (rq, now) = rqs.one();
            Answer::Step(scheduler.wake(rq, now, hand.take().expect(IN_HAND), by, why, io))
        }
        Call::WakeQueued { task, by, .. } => {
            let (rq, now) = rqs.one();
            scheduler.wake_queued(rq, now, task, by, io).map_or(Answer::NotHere, Answer::Step)
        }
        Call::Leave { why, .. } => {
            let (rq, now) = rqs.one();
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
        Call::Pick { .. } => {
            let (rq, now) = rqs.one();
            Answer::Next(scheduler.pick(rq, now, io))
        }
        Call::Switched { .. } => {
            let (rq, now) = rqs.one();
            Answer::Step(scheduler.switched(rq, now, io))
        }
        Call::SetMode { mode, .. } => {
            let (rq, now) = rqs.one();
            match mode {
                TaskMode::Kernel => scheduler.enter_kernel(rq),
                TaskMode::User => scheduler.return_to_user(rq, now, io),
            }
            Answer::Resched(rq.need_resched())
        }
        Call::Tick { .. } => {
            let (rq, now) = rqs.one();
            Answer::Step(scheduler.tick(rq, now, io))
        }
        Call::Timer { timer, .. } => {
            let (rq, now) = rqs.one();
            Answer::Step(scheduler.timer(rq, now, timer, io))
        }
        Call::Remote { work, .. } => {
            let (rq, now) = rqs.one();
            Answer::Step(scheduler.remote(rq, now, work, io))
        }
        Call::Resume { then, .. } => {
            let (rq, now) = rqs.one();
            Answer::Step(scheduler.resume(rq, now, then, io))
        }
        Call::Lends { task, .. } => scheduler.lends(rqs.one().0, task).map_or(Answer::NotHere, Answer::Lent),
        Call::Inherit { task, from, .. } => {
            let (rq, now) = rqs.one();
            scheduler.inherit(rq, now, task, from, io).map_or(Answer::NotHere, Answer::Step)
        }
        Call::Pair { then, .. } => {
            let ([own, other], now) = rqs.two();
            Answer::Step(scheduler.resume_pair(own, other, now, then, io))
        }
    })
}

const fn done() -> Answer {
    Answer::Step(Step::Done)
}
