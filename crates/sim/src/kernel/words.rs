//! The words of the kernel: events of the machine, interrupts, jobs.
//!
//! All three are data. A part of the machine that wants something done later, elsewhere, or by a
//! part above it, queues one of these; the main loop hands it to the part that it concerns. So the
//! kernel carries the interrupt of a disk or a change of a cpuset to the CPU that takes it without
//! knowing either.

use zerolag_core::{GroupTimer, Leave, RqTimer, Step, Work};
use zerolag_model::{CpuId, Duration, GroupId, Instant, SchedAttr, TaskId};
use zerolag_policy::Policy;
use zerolag_workload::program::ResourceId;

/// Something that happens at a given time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A computation ends, unless it is older than this generation.
    Completion {
        cpu: CpuId,
        generation: u32,
    },
    PathEnd {
        cpu: CpuId,
    },
    LockFree {
        rq: CpuId,
    },
    /// A CPU has searched other CPUs without a lock, and goes on.
    SearchEnds {
        cpu: CpuId,
    },
    Interrupt {
        cpu: CpuId,
        what: Interrupt,
    },
    RqTimer {
        cpu: CpuId,
        timer: RqTimer,
        generation: u32,
    },
    /// A timer fires on the CPU that armed it.
    TaskTimer {
        cpu: CpuId,
        task: TaskId,
    },
    /// The latest time of a timer with slack, which may have fired before.
    SlackTimer {
        cpu: CpuId,
    },
    PagesRead {
        cpu: CpuId,
        file: ResourceId,
        window: u32,
    },
    GroupTimer {
        cpu: CpuId,
        group: GroupId,
        timer: GroupTimer,
        generation: u32,
    },
    Change {
        index: u32,
    },
    Source {
        index: u32,
    },
    /// A CPU stands still; without one, all do.
    StandsStill {
        cpu: Option<CpuId>,
    },
    LateTick {
        cpu: CpuId,
    },
    /// A time slice extension is over, if its task has not left its section before.
    ExtensionOver {
        cpu: CpuId,
        nth: u32,
    },
    /// A second is over, for CPUs of `nohz_full`.
    RemoteTicks,
    /// The watchdog of a policy looks.
    PolicyWatch {
        cpu: CpuId,
    },
    /// A timer of a policy is due.
    PolicyTimer {
        cpu: CpuId,
    },
    Arrival {
        source: u32,
    },
}

/// An interrupt that a CPU takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interrupt {
    Tick,
    /// Work that the tick has deferred until its handler is over.
    Softirq,
    TaskTimer(TaskId),
    /// It is the latest time of a timer with slack.
    SlackTimer,
    RqTimer(RqTimer),
    /// The time slice extension of the current task is over.
    ExtensionOver,
    GroupTimer(GroupId, GroupTimer),
    /// Another CPU has gone offline or has come back.
    Rebuild,
    /// Another CPU set `need_resched` here.
    Resched,
    /// Work waits on the CPU's list.
    Works,
    /// No interrupt: an idle CPU that polls its flag sees it set.
    Noticed,
    /// A source of interrupts, by index.
    Source(u32),
    /// A request has arrived, from the source of this index.
    Arrival(u32),
    /// A change is made: a system call on CPU 0, or the part of a change that each CPU makes
    /// itself.
    Change(u32),
    /// This task is to end as soon as it runs.
    Ended(TaskId),
    /// The remote tick of another CPU, which runs a task without a tick of its own.
    RemoteTick(CpuId),
    /// Look for a task that the policy has forgotten.
    PolicyWatch,
    /// Call the timers of the policy that are due.
    PolicyTimer,
    /// A disk has read a window of a file.
    PagesRead {
        file: ResourceId,
        window: u32,
    },
    /// No interrupt: a CPU that spun for a lock stands still.
    StandsStill(Stands),
}

/// Why a CPU stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stands {
    /// Its hypervisor runs something else.
    Stolen,
    /// The firmware has it, and all others.
    Smi,
}

impl Event {
    /// Returns the CPU whose timer it is.
    pub(super) const fn timer_of(&self) -> Option<CpuId> {
        match self {
            Self::RqTimer { cpu, .. }
            | Self::TaskTimer { cpu, .. }
            | Self::SlackTimer { cpu }
            | Self::GroupTimer { cpu, .. } => Some(*cpu),
            // Ticks are not in the queue: an idle CPU has none, or leaves each idle time by one.
            _ => None,
        }
    }
}

impl Interrupt {
    /// Returns whether it is one of the CPU's timers.
    #[inline(always)]
    pub(crate) const fn is_timer(self) -> bool {
        matches!(self, Self::Tick | Self::TaskTimer(_) | Self::SlackTimer | Self::RqTimer(_) | Self::GroupTimer(..))
    }
}

/// A timer that may fire from `soft` on and fires at `hard`, unless another timer of its CPU fires
/// between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SlackTimer {
    pub(super) hard: Instant,
    /// The number of timers that were armed before.
    pub(super) nth: u64,
    pub(super) soft: Instant,
    pub(super) task: TaskId,
}

/// What an interrupt leaves to be done after its handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Left {
    /// The softirq that it raises, with its work.
    pub(crate) softirq: Option<Duration>,
    /// The semaphore at which the thread of its line waits.
    pub(crate) wakes: Option<ResourceId>,
}

/// What a CPU begins at the end of an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    /// Nothing.
    Nothing,
    /// A softirq.
    Softirq,
    /// No softirq: a thread is to be woken that does them.
    Left(Left),
}

/// What a thread does that does softirqs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// A softirq of this work.
    Work(Duration),
    /// Others can run before the softirqs that still wait.
    Pause,
    /// None is left.
    Over,
}

/// A part of loading or unloading a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PolicyJob {
    /// Give a task the class that it has under the policy that is loaded, or without one.
    Govern(TaskId),
    /// All tasks have the class that they have from now on.
    Changed,
    /// Let a CPU follow the policy that is loaded, or no more.
    Follow(CpuId),
}

/// Which policy of `sched_ext` a machine begins with.
#[derive(Debug)]
pub(crate) enum Begins {
    /// That of the caller, or of the settings, or none.
    With(Option<Box<dyn Policy>>),
    /// None, but one will be loaded.
    Without,
}

/// A piece of kernel work that needs run-queue locks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Leave the current task and choose the next one.
    Switch(Leave),
    /// Choose the next task, having left.
    Pick,
    /// Carry a step out; `then_pick` if it came from choosing.
    Carry {
        step: Step,
        then_pick: bool,
    },
    /// Wake a task. Its target is chosen when the job comes up, and again if it may not run there
    /// by the time that the job has the lock.
    Wake {
        task: TaskId,
        why: WakeKind,
        target: Option<CpuId>,
    },
    /// Move a task that waits for a lock to the CPU of the lock's holder.
    Lend {
        task: TaskId,
    },
    /// Change the attributes of the current task.
    SetAttr(SchedAttr),
    /// Confine the current task to its `new_affinity`.
    SetAffinity,
    /// Move the current task to another of the program's groups.
    SetGroup(usize),
    /// Let the current task fork: a new task of this definition.
    Fork(usize),
    /// Recompute the priority that a lock holder inherits.
    Inherit {
        holder: TaskId,
        depth: u32,
    },
    Tick,
    /// Do the remote tick of a CPU.
    RemoteTick(CpuId),
    Timer(RqTimer),
    GroupTimer(GroupId, GroupTimer),
    /// Let a CPU follow the new weight of a group.
    Weigh {
        group: GroupId,
        on: CpuId,
    },
    /// Let the servers of groups on a CPU follow changed budgets.
    FollowBudgets {
        on: CpuId,
    },
    /// Build domains anew.
    Rebuild,
    /// Make a change, or this CPU's part of it.
    Change(u32),
    /// A policy is loaded or unloaded.
    Policy(PolicyJob),
    /// Make a change of one task.
    ChangeTask {
        task: TaskId,
        change: u32,
    },
    Remote(Work),
}

impl Job {
    /// Returns the job that wakes a task which has waited.
    pub(crate) const fn wakeup(task: TaskId) -> Self {
        Self::wake(task, WakeKind::Wakeup)
    }

    /// Returns the job that places a task on a run queue.
    pub(crate) const fn wake(task: TaskId, why: WakeKind) -> Self {
        Self::Wake { task, why, target: None }
    }
}

/// Why a task is placed on a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WakeKind {
    Wakeup,
    /// The waker is about to wait.
    SyncWakeup,
    Fork,
    Displaced,
}

/// Another CPU holds a lock that a job needs. The job is again the first of its CPU, which spins
/// and is driven on when it gets the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spins;

/// Whether a job is done.
pub(crate) type Done = Result<(), Spins>;
