//! [`Program`]: what tasks do, after every format has been read.
//!
//! rt-app JSON, scenario TOML, built-in tools and generators all lower to this; a host interprets nothing else. It is
//! plain data, resolved: names have become indices, sticky properties have been carried into the phases they reach,
//! defaults are filled in. What remains to a host is to execute [`Action`]s in order.
//!
//! A task is a loop over phases, a phase a loop over actions. Instances of one definition share everything but their
//! random streams and their `unique` timers.

use crate::arrivals::ArrivalSource;
use crate::change::TimedChange;
use crate::random::Dist;
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, Duration, SchedAttr};

pub use crate::group::{CpusetDef, GroupDef, GroupWeight};
pub use crate::resource::{Disk, File, Resource, ResourceId, ResourceKind};

/// A workload: tasks and what they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Task definitions; [`Action::Fork`] names them by index.
    pub tasks: Vec<TaskDef>,
    /// Mutexes, conditions, barriers, semaphores, timers, queues: named by [`ResourceId`].
    pub resources: Vec<Resource>,
    /// Where requests come from; at most one source per queue.
    pub sources: Vec<ArrivalSource>,
    /// Task groups, parents before children. The root is not listed.
    pub groups: Vec<GroupDef>,
    /// What is changed later, in order of time.
    pub changes: Vec<TimedChange>,
    /// Cpusets that tasks are confined to; they also scope RT overload (`overload_scope`).
    pub cpusets: Vec<CpusetDef>,
}

impl Program {
    /// Returns whether some task never ends by itself. Who works on requests that end is done when they are.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.tasks.iter().any(|task| task.turns.is_none() && !self.takes_finite_requests(task))
    }

    /// Returns the source of a queue.
    #[must_use]
    pub fn source_of(&self, queue: ResourceId) -> Option<&ArrivalSource> {
        self.sources.iter().find(|source| source.queue == queue)
    }

    /// Returns the queues that a task sends requests to, each once.
    #[must_use]
    pub fn queues_called(&self, task: usize) -> Vec<ResourceId> {
        let actions = self.tasks[task].phases.iter().flat_map(|phase| &phase.actions);
        let mut queues: Vec<ResourceId> = actions
            .filter_map(|action| match action {
                Action::Call(queue) | Action::Send(queue) => Some(*queue),
                _ => None,
            })
            .collect();
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    fn takes_finite_requests(&self, task: &TaskDef) -> bool {
        let first = task.phases.first().and_then(|phase| phase.actions.first());
        matches!(first, Some(Action::Take(queue)) if self.source_of(*queue).is_none_or(ArrivalSource::is_finite))
    }
}

/// A task definition.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDef {
    /// Its name; an instance's thread is `name-index`.
    pub name: Arc<str>,
    /// Threads started at the beginning; 0 if only [`Action::Fork`] makes them.
    pub instances: u32,
    /// Time from the start of the run to the first action.
    pub delay: Duration,
    /// Attributes at the start.
    pub attr: SchedAttr,
    /// Where it may run at the start; `None` is every CPU of its cpuset.
    pub affinity: Option<Arc<CpuMask>>,
    /// Its group: index into [`Program::groups`]; `None` is the root.
    pub group: Option<usize>,
    /// Its cpuset: index into [`Program::cpusets`]; `None` is the whole machine.
    pub cpuset: Option<usize>,
    /// How often the phases are gone through; `None` is for ever.
    pub turns: Option<u64>,
    /// The phases in order. At least one.
    pub phases: Vec<Phase>,
}

impl TaskDef {
    /// Returns one thread that goes through `actions` again and again, from the start of the run, on any CPU, in the root
    /// group. Whatever is to be different is said by struct update, and by [`on`](Self::on).
    #[must_use]
    pub fn looping(name: impl Into<Arc<str>>, attr: SchedAttr, actions: Vec<Action>) -> Self {
        let name = name.into();
        Self {
            phases: vec![Phase::new(Arc::clone(&name), 1, actions)],
            name,
            instances: 1,
            delay: Duration::ZERO,
            attr,
            affinity: None,
            group: None,
            cpuset: None,
            turns: None,
        }
    }

    /// Returns the name of an instance's thread.
    #[must_use]
    pub fn name_of(&self, instance: u32) -> String {
        format!("{}-{instance}", self.name)
    }

    /// Returns it, confined to a CPU.
    #[must_use]
    pub fn on(self, cpu: CpuId) -> Self {
        Self { affinity: Some(Arc::new(CpuMask::single(cpu))), ..self }
    }
}

/// A phase: actions, repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name, for reports.
    pub name: Arc<str>,
    /// How often the actions are gone through per turn; 0 skips the phase.
    pub loops: u64,
    /// Attributes that take effect on entry; `None` keeps what is in force.
    pub attr: Option<SchedAttr>,
    /// Where it may run from entry on.
    pub affinity: AffinityChange,
    /// The group that it moves to on entry; `None` stays.
    pub group: Option<usize>,
    /// What it does.
    pub actions: Vec<Action>,
}

impl Phase {
    /// Returns a phase that leaves the task as it is.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, loops: u64, actions: Vec<Action>) -> Self {
        Self { name: name.into(), loops, attr: None, affinity: AffinityChange::Keep, group: None, actions }
    }

    /// Returns whether entering the phase leaves the task as it is.
    #[must_use]
    pub const fn changes_nothing(&self) -> bool {
        self.attr.is_none() && matches!(self.affinity, AffinityChange::Keep) && self.group.is_none()
    }
}

/// What entering a phase does to a task's affinity.
#[derive(Clone, Debug, PartialEq)]
pub enum AffinityChange {
    /// Nothing.
    Keep,
    /// It may use every CPU of its cpuset.
    Reset,
    /// It may use these.
    Set(Arc<CpuMask>),
}

/// What [`Action::Read`] does.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadAction {
    /// Which file.
    pub file: ResourceId,
    /// How many windows, from where the task left off; no more than the file has.
    pub windows: u32,
    /// Kernel-mode work to have a window read: finding pages, making the request.
    pub setup: Dist,
    /// Kernel-mode work to copy a window that is in memory to user space.
    pub copy: Dist,
}

/// How a [`ResourceKind::RwSemaphore`] is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// With others that read (`down_read`).
    Read,
    /// Alone (`down_write`).
    Write,
}

/// One thing that a task does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Computes in user mode: CPU time on a CPU of capacity 1024.
    Run(Dist),
    /// Computes in kernel mode: preempted as the preemption model allows.
    Kernel(Dist),
    /// Spins until this much wall time has passed since the action began, preempted or not; looks at the clock every
    /// `chunk` of CPU time (`runtime` of rt-app; the busy loop of rt-migrate-test).
    Spin {
        /// Wall time.
        wall: Dist,
        /// CPU time between two looks at the clock.
        chunk: Duration,
    },
    /// Sleeps for a time.
    Sleep(Dist),
    /// Waits for the next expiry of a periodic timer: `next += period`; if that is past, it goes on at once and, in
    /// relative mode, `next` becomes now.
    Timer {
        /// A shared timer, or `None` for one of this thread's own (named by its place in `unique_timers` order).
        timer: TimerRef,
        /// Distance of expiries.
        period: Dist,
        /// What being late does.
        mode: TimerMode,
    },
    /// Takes a mutex; waits while another holds it.
    Lock(ResourceId),
    /// Gives a mutex back.
    Unlock(ResourceId),
    /// Waits on a condition, the mutex released meanwhile.
    Wait {
        /// The condition.
        condition: ResourceId,
        /// The mutex, held by the caller.
        mutex: ResourceId,
    },
    /// Signals a condition, then waits on it.
    Sync {
        /// The condition.
        condition: ResourceId,
        /// The mutex, held by the caller.
        mutex: ResourceId,
    },
    /// Wakes one waiter of a condition.
    Signal(ResourceId),
    /// Wakes all waiters of a condition.
    Broadcast(ResourceId),
    /// Waits until all parties of a barrier have arrived.
    Barrier(ResourceId),
    /// Raises a semaphore.
    SemPost(ResourceId),
    /// Lowers a semaphore, waiting while it is zero.
    SemWait(ResourceId),
    /// Waits at its suspend point until resumed.
    Suspend(ResourceId),
    /// Resumes all that wait at a suspend point; lost if nobody does.
    Resume(ResourceId),
    /// Takes the request that has waited longest in a queue; waits while there is none. Until the request is completed the
    /// task draws from the request's stream.
    Take(ResourceId),
    /// The request that it took from this queue is done.
    Complete(ResourceId),
    /// Sends a request to a queue and waits until it is done; goes on at once if the queue is full, or when the task that works on
    /// it ends.
    Call(ResourceId),
    /// Sends a request to a queue and goes on.
    Send(ResourceId),
    /// Gives the CPU to its equals.
    Yield,
    /// Starts one more task of a definition.
    Fork(usize),
    /// Leaves a time stamp in the trace ([`zerolag_model::Mark::Stamp`]).
    Stamp(u32),
    /// A system call begins: the task is in kernel mode up to the next [`Action::SyscallExit`].
    SyscallEnter,
    /// The system call is over: the task goes back to user mode.
    SyscallExit,
    /// A place of kernel mode where the CPU is given up if that was asked for (`cond_resched`).
    CondResched,
    /// Takes a read-write semaphore; waits while it cannot be had so, or others came before.
    Down {
        /// Which.
        semaphore: ResourceId,
        /// How.
        access: Access,
    },
    /// Gives a read-write semaphore back.
    Up {
        /// Which.
        semaphore: ResourceId,
        /// How it was taken.
        access: Access,
    },
    /// Takes a spinning lock; nothing preempts this CPU from here until it is given back.
    SpinLock(ResourceId),
    /// Gives a spinning lock back.
    SpinUnlock(ResourceId),
    /// Writes so many bytes to a pipe; waits while it is full, until all are in it.
    PipeWrite {
        /// Which.
        pipe: ResourceId,
        /// How many, at least 1.
        bytes: u32,
    },
    /// Reads up to so many bytes from a pipe; waits while it is empty.
    PipeRead {
        /// Which.
        pipe: ResourceId,
        /// How many, at least 1.
        bytes: u32,
    },
    /// Reads on in a file, through the page cache.
    Read(ReadAction),
    /// Has a disk read or write so many bytes, and waits for it.
    Io {
        /// Which.
        disk: ResourceId,
        /// How many.
        bytes: u64,
    },
}

/// Which timer an [`Action::Timer`] uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRef {
    /// One that tasks share.
    Shared(ResourceId),
    /// One of the thread's own, numbered from 0 within the definition.
    Own(u32),
}

/// What being late does to a periodic timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// Expiries are counted from now.
    Relative,
    /// Expiries keep their grid.
    Absolute,
    /// Expiries keep their grid; those that are over when the task comes to wait are left out, so it always waits.
    Skip,
}
