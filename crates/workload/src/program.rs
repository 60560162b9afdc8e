//! [`Program`]: the tasks of a workload, after any format has been read.
//!
//! rt-app JSON, scenario TOML, built-in tools and generators all lower to this; a host interprets
//! nothing else. It is plain, resolved data: names have become indices, sticky properties are
//! copied into the phases that they reach, defaults are filled in. A host only executes [`Action`]s
//! in order.
//!
//! A task is a loop over phases, a phase a loop over actions. Instances of one definition share
//! everything except their random streams and their `unique` timers.

use crate::arrivals::ArrivalSource;
use crate::change::TimedChange;
use crate::origin::Origin;
use crate::random::Dist;
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, Duration, SchedAttr, UtilClamp};

pub use crate::group::{CpusetDef, GroupDef, GroupWeight, InCpus, RootDef, is_below};
pub use crate::interrupt::{InterruptDef, KernelWork, Line, RcuBoost, Threading};
pub use crate::kernel_action::{Access, KernelAction, ReadAction};
pub use crate::resource::{Disk, File, Resource, ResourceId, ResourceKind};

/// A workload: tasks and the objects that they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Task definitions; [`Action::Fork`] names them by index.
    pub tasks: Vec<TaskDef>,
    /// Mutexes, conditions, barriers, semaphores, timers, queues: named by [`ResourceId`].
    pub resources: Vec<Resource>,
    /// The sources of requests; at most one per queue.
    pub sources: Vec<ArrivalSource>,
    /// Task groups, parents before children. The root is not listed.
    pub groups: Vec<GroupDef>,
    /// The root group.
    pub root: RootDef,
    /// Later changes, in order of time.
    pub changes: Vec<TimedChange>,
    /// Cpusets that tasks are confined to; they also scope RT overload (`overload_scope`).
    pub cpusets: Vec<CpusetDef>,
    /// The names of processes whose threads share a memory.
    pub processes: Vec<Arc<str>>,
    /// Interrupt lines of devices.
    pub interrupts: Vec<InterruptDef>,
    /// What these become under the settings of a run; empty until then.
    pub kernel_work: KernelWork,
    /// The recording that the workload was imported from, if it was.
    pub origin: Option<Origin>,
    /// What follows when the kernel refuses what a task or the administration asks for.
    pub on_refused: OnRefused,
}

/// What follows when the kernel answers a call with an error: a policy, a limit, a move to a group
/// or a fork is refused (EPERM, EBUSY, EINVAL, EAGAIN).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum OnRefused {
    /// The run ends: nothing in a scenario is meant to fail, unless it says so.
    #[default]
    Stop,
    /// The task keeps what it has and goes on, as after `chrt` in a script without `set -e`.
    Continue,
}

impl OnRefused {
    /// The names, as scenarios write them.
    pub const NAMES: [&str; 2] = ["stop", "continue"];

    /// Returns the one of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "stop" => Some(Self::Stop),
            "continue" => Some(Self::Continue),
            _ => None,
        }
    }
}

impl Program {
    /// Returns whether some task never ends by itself. A worker of a finite source ends after the
    /// last request.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        let of_workload = self.kernel_work.first_task.unwrap_or(self.tasks.len());
        let mut tasks = self.tasks[..of_workload].iter();
        tasks.any(|task| task.turns.is_none() && !self.takes_finite_requests(task))
    }

    /// Returns what a seed makes of an imported workload: it draws what the recording leaves open
    /// ([`crate::origin::Unknown`]). `None` if that is nothing. O(actions).
    #[must_use]
    pub fn drawn(&self, seed: u64) -> Option<Self> {
        let unknown = &self.origin.as_ref()?.unknown;
        (!unknown.is_nothing()).then(|| unknown.drawn(self, seed))
    }

    /// Returns the source of a queue.
    #[must_use]
    pub fn source_of(&self, queue: ResourceId) -> Option<&ArrivalSource> {
        self.sources.iter().find(|source| source.queue == queue)
    }

    /// Returns the names of the services: those with a source of requests, then those that only
    /// tasks and other services call.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        let is_called = |index: usize| self.sources.iter().all(|source| source.queue.index() != index);
        let queues = self.resources.iter().enumerate();
        let called =
            queues.filter(move |(index, of)| matches!(of.kind, ResourceKind::Queue { .. }) && is_called(*index));
        self.sources.iter().map(|source| &*source.name).chain(called.map(|(_, of)| &*of.name))
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

    /// Returns whether all tasks are threads of one process.
    #[must_use]
    pub fn is_one_process(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.next().is_some_and(|first| first.process.is_some() && tasks.all(|task| task.process == first.process))
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
    /// Threads started at the beginning; 0 if only [`Action::Fork`] creates them.
    pub instances: u32,
    /// Time from the start of the run to the first action.
    pub delay: Duration,
    /// The CPU on which the threads that exist from the start are created, as if their parent ran
    /// there: the search for the first CPU begins at it. `None`: the CPUs in turn.
    pub created_on: Option<CpuId>,
    /// Attributes at the start.
    pub attr: SchedAttr,
    /// The CPUs that it may use at the start; `None` is every CPU of its cpuset.
    pub affinity: Option<Arc<CpuMask>>,
    /// Its group: index into [`Program::groups`]; `None` is the root.
    pub group: Option<usize>,
    /// Its cpuset: index into [`Program::cpusets`]; `None` is the whole machine.
    pub cpuset: Option<usize>,
    /// The process of its threads: index into [`Program::processes`]. `None`: each thread is a
    /// process by itself.
    pub process: Option<usize>,
    /// Its utilisation clamps.
    pub clamp: UtilClamp,
    /// How often it runs through its phases; `None` is forever.
    pub turns: Option<u64>,
    /// The phases in order. At least one.
    pub phases: Vec<Phase>,
}

impl TaskDef {
    /// Returns the period of its timers, the shortest of several at its least; `None` without one.
    #[must_use]
    pub fn period(&self) -> Option<Duration> {
        let actions = self.phases.iter().flat_map(|phase| &phase.actions);
        let period = |action: &Action| match action {
            Action::Timer { period, .. } => Some(period.bounds().low),
            _ => None,
        };
        actions.filter_map(period).filter(|period| !period.is_zero()).min()
    }

    /// Returns one thread that loops over `actions` forever, from the start of the run, on any
    /// CPU, in the root group. Other fields are set by struct update, and by [`on`](Self::on).
    #[must_use]
    pub fn looping(name: impl Into<Arc<str>>, attr: SchedAttr, actions: Vec<Action>) -> Self {
        let name = name.into();
        Self {
            phases: vec![Phase::new(Arc::clone(&name), 1, actions)],
            name,
            instances: 1,
            delay: Duration::ZERO,
            created_on: None,
            attr,
            affinity: None,
            group: None,
            cpuset: None,
            process: None,
            clamp: UtilClamp::NONE,
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
    /// How often the actions are executed per turn; 0 skips the phase.
    pub loops: u64,
    /// Attributes that take effect on entry; `None` keeps the current ones.
    pub attr: Option<SchedAttr>,
    /// The change of affinity on entry.
    pub affinity: AffinityChange,
    /// The group that it moves to on entry; `None` keeps the group.
    pub group: Option<usize>,
    /// Its actions.
    pub actions: Vec<Action>,
}

impl Phase {
    /// Returns a phase without changes on entry.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, loops: u64, actions: Vec<Action>) -> Self {
        Self { name: name.into(), loops, attr: None, affinity: AffinityChange::Keep, group: None, actions }
    }

    /// Returns whether entering the phase changes nothing.
    #[must_use]
    pub const fn changes_nothing(&self) -> bool {
        self.attr.is_none() && matches!(self.affinity, AffinityChange::Keep) && self.group.is_none()
    }
}

/// The effect of entering a phase on a task's affinity.
#[derive(Clone, Debug, PartialEq)]
pub enum AffinityChange {
    /// Nothing.
    Keep,
    /// It may use every CPU of its cpuset.
    Reset,
    /// It may use these CPUs.
    Set(Arc<CpuMask>),
}

/// One action of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Computes in user mode: CPU time on a CPU of capacity 1024.
    Run(Dist),
    /// Computes in kernel mode: preempted as the preemption model allows.
    Kernel(Dist),
    /// Spins until this much wall time has passed since the action began, preempted or not; reads
    /// the clock every `chunk` of CPU time (`runtime` of rt-app; the busy loop of rt-migrate-test).
    Spin {
        /// Wall time.
        wall: Dist,
        /// CPU time between two reads of the clock.
        chunk: Duration,
    },
    /// Sleeps for a time.
    Sleep(Dist),
    /// Waits for the next expiry of a periodic timer: `next += period`; if that is past, the task
    /// continues at once and, in relative mode, `next` becomes now.
    Timer {
        /// A shared timer, or one of this thread's own (numbered in the order of `unique_timers`).
        timer: TimerRef,
        /// Time between expiries.
        period: Dist,
        /// The effect of being late.
        mode: TimerMode,
    },
    /// Takes a mutex; waits while another holds it.
    Lock(ResourceId),
    /// Releases a mutex.
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
    /// Resumes all tasks that wait at a suspend point; lost if there is none.
    Resume(ResourceId),
    /// Takes the request that has waited longest in a queue; waits while there is none. Until the
    /// request is completed the task draws from the request's stream.
    Take(ResourceId),
    /// Completes the request that it took from this queue.
    Complete(ResourceId),
    /// Sends a request to a queue and waits for its completion; continues at once if the queue is
    /// full, or when the worker of the request ends.
    Call(ResourceId),
    /// Sends a request to a queue and continues.
    Send(ResourceId),
    /// Yields the CPU to tasks of equal priority.
    Yield,
    /// Starts one more task of a definition.
    Fork(usize),
    /// Leaves a time stamp in the trace ([`zerolag_model::Mark::Stamp`]).
    Stamp(u32),
    /// Writes bytes to a pipe; waits while it is full, until all are written.
    PipeWrite {
        /// The pipe.
        pipe: ResourceId,
        /// The number of bytes, at least 1.
        bytes: u32,
    },
    /// Reads at most this many bytes from a pipe; waits while it is empty.
    PipeRead {
        /// The pipe.
        pipe: ResourceId,
        /// The number of bytes, at least 1.
        bytes: u32,
    },
    /// Does something that only a simulated kernel does on request.
    InKernel(KernelAction),
}

/// The timer of an [`Action::Timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRef {
    /// One that tasks share.
    Shared(ResourceId),
    /// One of the thread's own, numbered from 0 within the definition.
    Own(u32),
}

/// The effect of being late for a periodic timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// Expiries are counted from now.
    Relative,
    /// Expiries keep their grid.
    Absolute,
    /// Expiries keep their grid; those that have passed when the task starts to wait are skipped,
    /// so it always waits.
    Skip,
}
