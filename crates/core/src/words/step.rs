//! The results of entry points: [`Step`] and [`Next`].
//!
//! An entry point often needs a second run queue. It cannot lock one itself: the host owns the
//! locks, and both must be taken in CPU order. So an entry point commits the part that it can do
//! with the given run queue, and returns the remaining work as a [`Step`]. It never restarts after
//! it has changed something.
//!
//! The host carries the step out and calls [`Scheduler::resume_pair`] or [`Scheduler::resume`].
//! Between the two calls it holds no lock, and anything can happen. Therefore a continuation names
//! its task by id *and* stay (the number of times the task has been enqueued), and checks both when
//! it resumes.
//!
//! ```text
//!           +--------- Done
//!  event -> Step
//!           +--------- Pair{own, other, then}: lock both in CPU order -> resume_pair -> Step
//!           +--------- Again(cont):  let others have the lock, take it again -> resume -> Step
//! ```
//!
//! Operations are data in [`Io::ops`], costs are counts in [`Io::costs`], and trace events are in
//! [`Io::trace`]: the core never calls back. One call appends at most [`MAX_OPS`] operations.
//!
//! [`Scheduler::resume_pair`]: crate::Scheduler::resume_pair
//! [`Scheduler::resume`]: crate::Scheduler::resume
//! [`Io::ops`]: crate::Io::ops
//! [`Io::costs`]: crate::Io::costs
//! [`Io::trace`]: crate::Io::trace
//! [`MAX_OPS`]: crate::MAX_OPS

use crate::words::ids::{CpusetId, DomainId, LocalIx};
use zerolag_model::{CpuId, GroupId, Prio, TaskId};

/// The work that remains after an entry point.
#[must_use = "a step that is dropped leaves a task where it should not be"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// No work remains.
    Done,
    /// Lock `own` and `other` in CPU order and call `resume_pair`.
    Pair {
        /// The run queue that the work belongs to: the first argument of `resume_pair`.
        own: CpuId,
        /// The other run queue.
        other: CpuId,
        /// The continuation to resume.
        then: PairCont,
    },
    /// The remaining work is long: release the run queue `own`, take it again and call `resume`.
    Again {
        /// The run queue that the work belongs to.
        own: CpuId,
        /// The continuation to resume.
        then: Cont,
    },
}

/// Work that continues with two run queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairCont {
    /// Push a waiting RT task from `own` to `other`.
    RtPush(RtPush),
    /// Pull waiting RT tasks from `other` to `own`.
    RtPull {
        /// The scope of the overload mask that is searched.
        scope: CpusetId,
    },
    /// Pull a waiting RT task from `other`, which `own` has claimed, to `own`.
    RtPullClaimed(ClaimedPull),
    /// Push a waiting deadline task from `own` to `other`.
    DlPush(DlPush),
    /// Pull a waiting deadline task from `other` to `own`.
    DlPull,
    /// Push a waiting task of a group with servers from `own` to `other`.
    ServedPush(ServedPush),
    /// Pull a waiting task of a group with servers from `other` to `own`.
    ServedPull(ServedPull),
    /// Move fair tasks from `other` to `own`.
    Balance(Balance),
    /// Take this task of the loaded scheduler, which waits on `other`, to `own`.
    ExtTake(TaskId),
}

/// Work that continues with one run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cont {
    /// Continue to push RT tasks.
    RtPush(AfterPush),
    /// Serve one throttled queue of a limited group, then the next.
    Bandwidth(Distribution),
}

/// A task during one stay on a run queue. It identifies the stay, because the task can have left
/// and come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stay {
    /// The task.
    pub task: TaskId,
    pub(crate) slot: u32,
    pub(crate) stay: u32,
}

/// An RT push that has chosen its task and its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtPush {
    pub(crate) task: Stay,
    pub(crate) tries: u8,
    pub(crate) after: AfterPush,
}

/// A pull from a CPU that the puller has claimed (`pull_claimed`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClaimedPull {
    /// The priority that made the puller choose that CPU: the search goes on behind it.
    pub(crate) prio: Prio,
    pub(crate) why: ClaimedFor,
}

/// The reason for a claimed pull.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimedFor {
    /// The puller has lowered its priority.
    Itself,
    /// The puller before it was asked for more.
    Relay,
}

/// A deadline push that has chosen its task and its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DlPush {
    pub(crate) task: Stay,
    pub(crate) tries: u8,
}

/// A push of a group's task that has chosen its task and its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedPush {
    pub(crate) task: Stay,
    pub(crate) queue: LocalIx,
    pub(crate) tries: u8,
    pub(crate) after: AfterServed,
}

/// A pull to a group's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServedPull {
    pub(crate) queue: LocalIx,
}

/// The work that follows when no more tasks of a group can be pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterServed {
    /// No work follows.
    Nothing,
    /// Push what a switch has left waiting beside.
    LeftBehind,
}

/// The work that follows when no more tasks can be pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterPush {
    /// No work follows.
    Nothing,
    /// Pass on the IPI of that root domain (`ipi_root_domain`).
    PassOn(DomainId),
    /// Pass on the chain that this CPU started (`ipi_per_cpu`).
    PassOnChain(CpuId),
}

/// A round of fair balancing: `own` takes tasks from `other`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balance {
    /// The reason for the round.
    pub(crate) kind: BalanceKind,
    /// The level of the domain, counted from the core.
    pub(crate) level: u8,
    /// The number of failed rounds at this level before.
    pub(crate) failed: u8,
    /// The CPU that asked for the round: `own`, or a CPU of the same group on which the affected
    /// tasks are not allowed.
    pub(crate) asker: CpuId,
    /// The amount to move.
    pub(crate) imbalance: Imbalance,
}

/// A round that distributes quota to the CPUs on which a group is throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// The group.
    pub(crate) group: GroupId,
    /// The effect on each throttled queue.
    pub(crate) what: Distribute,
    /// The number of CPUs that are still to be served.
    pub(crate) left: u32,
}

/// The effect of a distribution on throttled queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Distribute {
    /// They receive quota, in order, while there is some.
    Quota,
    /// They are unthrottled: the limit under which they were throttled is gone.
    NewLimit,
}

/// The amount that one round of balancing moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Imbalance {
    /// This number of tasks.
    Tasks(u32),
    /// Tasks with this load in total.
    Load(u64),
    /// Tasks with this utilisation in total.
    Util(u64),
    /// One task that needs more capacity than its CPU has.
    Misfit,
    /// One task that prefers the taker's cache.
    Strayed,
}

/// Why a round of balancing runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BalanceKind {
    /// The CPU is about to go idle.
    NewIdle,
    /// The tick found that the interval of the domain is over.
    Periodic,
    /// An idle CPU was asked to balance.
    Idle,
}

/// The next action of a CPU after [`Scheduler::pick`].
///
/// [`Scheduler::pick`]: crate::Scheduler::pick
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Next {
    /// Run this task, then call `switched`.
    Run(TaskId),
    /// Run the idle task.
    Idle,
    /// First look for better work on other CPUs: carry out the step, then pick again.
    Balance(Step),
}
