//! What an entry point answers: [`Step`], [`Next`], [`Left`], and the operations that a host
//! carries out ([`Io`]).
//!
//! An entry point commits what it can do with the run queue it was given and then says what it
//! still needs. Nothing is restarted after it changed something. The host does as told and comes
//! back with [`Scheduler::resume_pair`] or [`Scheduler::resume`]; between the two calls it holds no
//! lock and anything may happen, so a continuation names its task by id *and* stay (how often the
//! task has been put on a run queue) and is checked again when it resumes.
//!
//! ```text
//!           +--------- Done
//!  event -> Step
//!           +--------- Pair{own, other, then}: lock both in CPU order -> resume_pair -> Step
//!           +--------- Again(cont):  let others have the lock, take it again -> resume -> Step
//! ```
//!
//! Operations are data in [`Io::ops`], costs are counts in [`Io::costs`], trace events are in
//! [`Io::trace`]: the core calls nobody. One call appends at most [`MAX_OPS`] operations.
//!
//! [`Scheduler::resume_pair`]: crate::Scheduler::resume_pair
//! [`Scheduler::resume`]: crate::Scheduler::resume

use crate::words::ids::{CpusetId, DomainId};
use zerolag_model::{CpuId, GroupId, TaskId};

/// What remains to be done after an entry point.
#[must_use = "a step that is dropped leaves a task where it should not be"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing.
    Done,
    /// Lock `own` and `other` in CPU order and call `resume_pair`.
    Pair {
        /// The run queue that the work belongs to: the first argument of `resume_pair`.
        own: CpuId,
        /// The other one.
        other: CpuId,
        /// What to resume.
        then: PairCont,
    },
    /// The piece is long: release the run queue `own`, take it again and call `resume`.
    Again {
        /// The run queue that the work belongs to.
        own: CpuId,
        /// What to resume.
        then: Cont,
    },
}

/// Work that goes on with two run queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairCont {
    /// Push a waiting RT task from `own` to `other`.
    RtPush(RtPush),
    /// Pull waiting RT tasks from `other` to `own`.
    RtPull {
        /// The scope of the overload mask that is walked.
        scope: CpusetId,
    },
    /// Push a waiting deadline task from `own` to `other`.
    DlPush(DlPush),
    /// Pull a waiting deadline task from `other` to `own`.
    DlPull,
    /// Move fair tasks from `other` to `own`.
    Balance(Balance),
}

/// Work that goes on with one run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cont {
    /// Go on pushing RT tasks.
    RtPush(AfterPush),
    /// Serve a throttled queue of a limited group, then the next.
    Bandwidth(Distribution),
}

/// A task during one stay on a run queue: the task may have left and come back since.
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

/// A deadline push that has chosen its task and its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DlPush {
    pub(crate) task: Stay,
    pub(crate) tries: u8,
}

/// What follows when nothing more can be pushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterPush {
    /// Nothing.
    Nothing,
    /// The IPI of that root domain travels on (`ipi_root_domain`).
    PassOn(DomainId),
    /// The chain that this CPU started travels on (`ipi_per_cpu`).
    PassOnChain(CpuId),
}

/// A round of fair balancing: `own` takes from `other`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Balance {
    /// Which kind of round.
    pub(crate) kind: BalanceKind,
    /// The level of the domain, from the core.
    pub(crate) level: u8,
    /// How often the level has failed before.
    pub(crate) failed: u8,
    /// Whose round it is: `own`, or a CPU of its group to which the tasks concerned may not go.
    pub(crate) asker: CpuId,
    /// How much to move.
    pub(crate) imbalance: Imbalance,
}

/// A round over the CPUs on which a group is throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// Whose queues.
    pub(crate) group: GroupId,
    /// What they get.
    pub(crate) what: Distribute,
    /// CPUs that are still to be served.
    pub(crate) left: u32,
}

/// What throttled queues get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Distribute {
    /// Quota, in order, while there is some.
    Quota,
    /// Freedom: the limit under which they were throttled is gone.
    NewLimit,
}

/// How much one round of balancing is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Imbalance {
    /// So many tasks.
    Tasks(u32),
    /// Tasks of this load in all.
    Load(u64),
    /// Tasks of this util in all.
    Util(u64),
    /// One task that needs more than the CPU has that runs it.
    Misfit,
}

/// Why a round of balancing is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BalanceKind {
    /// The CPU is about to go idle.
    NewIdle,
    /// The tick found the domain's interval over.
    Periodic,
    /// An idle CPU was asked to look.
    Idle,
}

/// What a CPU is to do after [`Scheduler::pick`].
///
/// [`Scheduler::pick`]: crate::Scheduler::pick
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Next {
    /// Run this task, then call `switched`.
    Run(TaskId),
    /// Nothing is to be run.
    Idle,
    /// First look for better work elsewhere: carry the step out, then pick again.
    Balance(Step),
}
