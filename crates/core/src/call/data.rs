//! The words of calls: [`Call`], [`Under`], [`Answer`], [`Refused`], [`LeftAs`].

use crate::entity::weight::Weight;
use crate::entry::domain::DomainError;

use crate::task::body::{Parcel, TaskSpec};
use crate::task::io::Left;
use crate::words::error::{RtBandwidthError, ServerError, TaskError};
use crate::words::group::{GroupError, Idleness};
use crate::words::ids::CpusetId;
use crate::words::life::{Leave, Placement};
use crate::words::mode::TaskMode;
use crate::words::op::{GroupTimer, RqTimer, Work};
use crate::words::resched::Resched;
use crate::words::step::{Cont, Next, PairCont, Step};
use crate::words::wait::Lent;
use alloc::sync::Arc;
use core::fmt;
use zerolag_model::{CpuId, CpuMask, CpuMax, GroupId, RtBandwidth, SchedAttr, ServerKind, ServerParams, TaskId};

/// A call of the core: what it is given besides run queues, clocks and the body of a task. The
/// variants are the methods of [`Scheduler`](crate::Scheduler), with their arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each field is the argument of the method that the variant names")]
pub enum Call {
    /// [`Scheduler::create_group`](crate::Scheduler::create_group).
    CreateGroup { parent: GroupId, weight: Weight },
    /// [`Scheduler::remove_group`](crate::Scheduler::remove_group).
    RemoveGroup { group: GroupId },
    /// [`Scheduler::set_group_weight`](crate::Scheduler::set_group_weight).
    SetGroupWeight { group: GroupId, weight: Weight },
    /// [`Scheduler::set_group_idle`](crate::Scheduler::set_group_idle).
    SetGroupIdle { group: GroupId, idleness: Idleness },
    /// [`Scheduler::set_group_max`](crate::Scheduler::set_group_max).
    SetGroupMax { group: GroupId, max: CpuMax, by: CpuId },
    /// [`Scheduler::set_group_rt`](crate::Scheduler::set_group_rt).
    SetGroupRt { group: GroupId, bandwidth: RtBandwidth, by: CpuId },
    /// [`Scheduler::group_timer`](crate::Scheduler::group_timer).
    GroupTimer { group: GroupId, timer: GroupTimer, by: CpuId },
    /// [`Scheduler::create_task`](crate::Scheduler::create_task); with the body of an ended task in
    /// hand, [`Scheduler::recreate_task`](crate::Scheduler::recreate_task).
    CreateTask { spec: TaskSpec },
    /// [`Scheduler::select_cpu`](crate::Scheduler::select_cpu) for the task in hand.
    Select { task: TaskId, by: CpuId, why: Placement },
    /// [`Scheduler::wake`](crate::Scheduler::wake) for the task in hand.
    Wake { cpu: CpuId, task: TaskId, by: CpuId, why: Placement },
    /// [`Scheduler::wake_queued`](crate::Scheduler::wake_queued).
    WakeQueued { cpu: CpuId, task: TaskId, by: CpuId },
    /// [`Scheduler::leave`](crate::Scheduler::leave). The body is in hand if it is handed out.
    Leave { cpu: CpuId, why: Leave },
    /// [`Scheduler::pick`](crate::Scheduler::pick).
    Pick { cpu: CpuId },
    /// [`Scheduler::switched`](crate::Scheduler::switched).
    Switched { cpu: CpuId },
    /// [`Scheduler::enter_kernel`](crate::Scheduler::enter_kernel) or
    /// [`Scheduler::return_to_user`](crate::Scheduler::return_to_user).
    SetMode { cpu: CpuId, mode: TaskMode },
    /// [`Scheduler::tick`](crate::Scheduler::tick).
    Tick { cpu: CpuId },
    /// [`Scheduler::timer`](crate::Scheduler::timer).
    Timer { cpu: CpuId, timer: RqTimer },
    /// [`Scheduler::remote`](crate::Scheduler::remote).
    Remote { cpu: CpuId, work: Work },
    /// [`Scheduler::resume`](crate::Scheduler::resume).
    Resume { own: CpuId, then: Cont },
    /// [`Scheduler::resume_pair`](crate::Scheduler::resume_pair).
    Pair { own: CpuId, other: CpuId, then: PairCont },
    /// [`Scheduler::lends`](crate::Scheduler::lends).
    Lends { cpu: CpuId, task: TaskId },
    /// [`Scheduler::inherit`](crate::Scheduler::inherit).
    Inherit { cpu: CpuId, task: TaskId, from: Option<Lent> },
    /// [`Scheduler::inherit_parked`](crate::Scheduler::inherit_parked) for the task in hand.
    InheritParked { task: TaskId, from: Option<Lent>, by: CpuId },
    /// [`Scheduler::set_attr`](crate::Scheduler::set_attr).
    SetAttr { cpu: CpuId, task: TaskId, attr: SchedAttr },
    /// [`Scheduler::set_attr_parked`](crate::Scheduler::set_attr_parked) for the task in hand.
    SetAttrParked { task: TaskId, attr: SchedAttr, by: CpuId },
    /// [`Scheduler::set_affinity`](crate::Scheduler::set_affinity). The body is in hand if the task
    /// is displaced.
    SetAffinity { cpu: CpuId, task: TaskId, affinity: Option<Arc<CpuMask>> },
    /// [`Scheduler::set_affinity_parked`](crate::Scheduler::set_affinity_parked) for the task in
    /// hand.
    SetAffinityParked { task: TaskId, affinity: Option<Arc<CpuMask>>, by: CpuId },
    /// [`Scheduler::set_group`](crate::Scheduler::set_group).
    SetGroup { cpu: CpuId, task: TaskId, group: GroupId },
    /// [`Scheduler::set_group_parked`](crate::Scheduler::set_group_parked) for the task in hand.
    SetGroupParked { task: TaskId, group: GroupId },
    /// [`Scheduler::exit_parked`](crate::Scheduler::exit_parked) for the task in hand, whose body
    /// stays there.
    ExitParked { task: TaskId },
    /// [`Scheduler::set_server`](crate::Scheduler::set_server).
    SetServer { cpu: CpuId, kind: ServerKind, params: ServerParams },
    /// [`Scheduler::set_rt_bandwidth`](crate::Scheduler::set_rt_bandwidth).
    SetRtBandwidth { bandwidth: RtBandwidth },
    /// [`Scheduler::follow_rt_limit`](crate::Scheduler::follow_rt_limit).
    FollowRtLimit { cpu: CpuId },
    /// [`Scheduler::follow_group_weight`](crate::Scheduler::follow_group_weight).
    FollowGroupWeight { cpu: CpuId, group: GroupId },
    /// [`Scheduler::follow_rt_groups`](crate::Scheduler::follow_rt_groups).
    FollowRtGroups { cpu: CpuId },
    /// [`Scheduler::offline`](crate::Scheduler::offline).
    Offline { cpu: CpuId },
    /// [`Scheduler::evict`](crate::Scheduler::evict). The body is in hand if a task was found.
    Evict { cpu: CpuId },
    /// [`Scheduler::online`](crate::Scheduler::online).
    Online { cpu: CpuId },
    /// [`Scheduler::join_domain`](crate::Scheduler::join_domain).
    JoinDomain { cpu: CpuId, partition: CpusetId },
}

/// The run queues whose locks a call is made under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// None.
    None,
    /// That of one CPU.
    One(CpuId),
    /// Those of two CPUs, named in the order of the call; lock them in order of CPU.
    Two(CpuId, CpuId),
}

impl Call {
    /// Returns the run queues that the call needs, locked.
    #[must_use]
    pub const fn under(&self) -> Under {
        match *self {
            Self::CreateGroup { .. }
            | Self::RemoveGroup { .. }
            | Self::SetGroupWeight { .. }
            | Self::SetGroupIdle { .. }
            | Self::SetGroupMax { .. }
            | Self::SetGroupRt { .. }
            | Self::GroupTimer { .. }
            | Self::CreateTask { .. }
            | Self::Select { .. }
            | Self::InheritParked { .. }
            | Self::SetAttrParked { .. }
            | Self::SetAffinityParked { .. }
            | Self::SetGroupParked { .. }
            | Self::ExitParked { .. }
            | Self::SetRtBandwidth { .. } => Under::None,
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
            | Self::Inherit { cpu, .. }
            | Self::SetAttr { cpu, .. }
            | Self::SetAffinity { cpu, .. }
            | Self::SetGroup { cpu, .. }
            | Self::SetServer { cpu, .. }
            | Self::FollowRtLimit { cpu }
            | Self::FollowGroupWeight { cpu, .. }
            | Self::FollowRtGroups { cpu }
            | Self::Offline { cpu }
            | Self::Evict { cpu }
            | Self::Online { cpu }
            | Self::JoinDomain { cpu, .. } => Under::One(cpu),
            Self::Pair { own, other, .. } => Under::Two(own, other),
        }
    }

    /// Returns the task whose body the call needs in hand. [`CreateTask`](Self::CreateTask) takes
    /// the body of an ended task of that id if there is one.
    #[must_use]
    pub const fn handed(&self) -> Option<TaskId> {
        match self {
            Self::CreateTask { spec } => Some(spec.id),
            Self::Select { task, .. }
            | Self::Wake { task, .. }
            | Self::InheritParked { task, .. }
            | Self::SetAttrParked { task, .. }
            | Self::SetAffinityParked { task, .. }
            | Self::SetGroupParked { task, .. }
            | Self::ExitParked { task } => Some(*task),
            Self::CreateGroup { .. }
            | Self::RemoveGroup { .. }
            | Self::SetGroupWeight { .. }
            | Self::SetGroupIdle { .. }
            | Self::SetGroupMax { .. }
            | Self::SetGroupRt { .. }
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
            | Self::Inherit { .. }
            | Self::SetAttr { .. }
            | Self::SetAffinity { .. }
            | Self::SetGroup { .. }
            | Self::SetServer { .. }
            | Self::SetRtBandwidth { .. }
            | Self::FollowRtLimit { .. }
            | Self::FollowGroupWeight { .. }
            | Self::FollowRtGroups { .. }
            | Self::Offline { .. }
            | Self::Evict { .. }
            | Self::Online { .. }
            | Self::JoinDomain { .. } => None,
        }
    }
}

/// What a call returned. A body that it handed out is in the caller's hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// What remains to be done; [`Step::Done`] also for calls that return nothing.
    Step(Step),
    /// The CPU that was chosen.
    Cpu(CpuId),
    /// The group that was created.
    Group(GroupId),
    /// What the CPU runs next.
    Next(Next),
    /// What became of the task that left its CPU.
    Left(LeftAs),
    /// What the task lends.
    Lent(Lent),
    /// Whether the CPU is asked to schedule.
    Resched(Resched),
    /// The task is not on that run queue: look up its home again. It can have been parked by this
    /// very call ([`Io::parked`](crate::Io::parked)).
    NotHere,
}

impl Answer {
    /// Nothing remains to be done.
    pub const DONE: Self = Self::Step(Step::Done);
}

/// Why the core refused a call. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refused {
    /// A task cannot be created or changed.
    Task(TaskError),
    /// A group cannot be created or changed.
    Group(GroupError),
    /// A server cannot be changed.
    Server(ServerError),
    /// The limit of real-time tasks cannot be changed.
    RtBandwidth(RtBandwidthError),
    /// A CPU cannot join a root domain.
    Domain(DomainError),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(error) => error.fmt(f),
            Self::Group(error) => error.fmt(f),
            Self::Server(error) => error.fmt(f),
            Self::RtBandwidth(error) => error.fmt(f),
            Self::Domain(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Refused {}

impl From<TaskError> for Refused {
    fn from(error: TaskError) -> Self {
        Self::Task(error)
    }
}

impl From<GroupError> for Refused {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

impl From<ServerError> for Refused {
    fn from(error: ServerError) -> Self {
        Self::Server(error)
    }
}

impl From<RtBandwidthError> for Refused {
    fn from(error: RtBandwidthError) -> Self {
        Self::RtBandwidth(error)
    }
}

impl From<DomainError> for Refused {
    fn from(error: DomainError) -> Self {
        Self::Domain(error)
    }
}

/// What became of a task that left its CPU: [`Left`] without the body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftAs {
    /// It stays on the run queue.
    Queued,
    /// It is blocked; its body is in hand.
    Parked,
    /// It is blocked; its body stays on the run queue.
    Delayed,
    /// It has to be placed elsewhere; its body is in hand.
    Displaced,
    /// It ended; its body is in hand.
    Dead,
}

impl Left {
    /// Separates the body from what became of the task.
    #[must_use = "a parcel that is dropped is a task that is lost"]
    pub fn split(self) -> (LeftAs, Option<Parcel>) {
        match self {
            Self::Queued => (LeftAs::Queued, None),
            Self::Delayed => (LeftAs::Delayed, None),
            Self::Parked(parcel) => (LeftAs::Parked, Some(parcel)),
            Self::Displaced(parcel) => (LeftAs::Displaced, Some(parcel)),
            Self::Dead(parcel) => (LeftAs::Dead, Some(parcel)),
        }
    }
}
