//! What an entry point answers: [`Step`], [`Next`], [`Left`], and the operations that a host carries out ([`Io`]).
//!
//! An entry point commits what it can do with the run queue it was given and then says what it still needs. Nothing is
//! restarted after it changed something. The host does as told and comes back with [`Scheduler::resume_pair`] or
//! [`Scheduler::resume`]; between the two calls it holds no lock and anything may happen, so a continuation names its
//! task by id *and* stay (how often the task has been put on a run queue) and is checked again when it resumes.
//!
//! ```text
//!           +--------- Done
//!  event -> Step
//!           +--------- Pair{own, other, then}: lock both in CPU order -> resume_pair -> Step
//!           +--------- Again(cont):  let others have the lock, take it again -> resume -> Step
//! ```
//!
//! Operations are data in [`Io::ops`], costs are counts in [`Io::costs`], trace events are in [`Io::trace`]: the core
//! calls nobody. One call appends at most [`MAX_OPS`] operations.
//!
//! [`Scheduler::resume_pair`]: crate::Scheduler::resume_pair
//! [`Scheduler::resume`]: crate::Scheduler::resume

use crate::observe::Observer;
use crate::proxy::LockId;
use crate::task::{CpusetId, DomainId, Parcel};
use alloc::vec::Vec;
use zerolag_model::event::IpiReason;
use zerolag_model::{CpuId, GroupId, Instant, Record, ServerKind, TaskId, TraceEvent};

/// The clocks of one run queue at one moment. Monotone per run queue only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Wall time: deadlines and periods.
    pub wall: Instant,
    /// Task time: what tasks are charged. It stands still while interrupts, or whoever preempted the host, run.
    pub task: Instant,
}

impl Clock {
    /// Returns clocks that agree: a host whose tasks lose no time.
    #[must_use]
    pub const fn at(now: Instant) -> Self {
        Self { wall: now, task: now }
    }
}

/// The clocks of the two run queues of a pair at one moment: task time passes differently on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairClock {
    /// Of the run queue that the work belongs to.
    pub own: Clock,
    /// Of the other.
    pub other: Clock,
}

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
    /// Who.
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

/// What an interrupt sent by the core is for; the receiver hands it to [`Scheduler::remote`].
///
/// [`Scheduler::remote`]: crate::Scheduler::remote
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Push your waiting RT tasks, then pass the IPI of that root domain on, which you may have left meanwhile.
    RtPush(DomainId),
    /// Push your waiting RT tasks, then pass this CPU's chain on.
    RtPushFor(CpuId),
    /// You are idle: look for work.
    IdleBalance,
}

impl Work {
    /// Returns the reason as traces name it.
    #[must_use]
    pub const fn reason(self) -> IpiReason {
        match self {
            Self::RtPush(_) | Self::RtPushFor(_) => IpiReason::RtPush,
            Self::IdleBalance => IpiReason::IdleBalance,
        }
    }
}

/// A timer of a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RqTimer {
    /// The current task's slice or budget ends (`enforce = exact`; the kernel's hrtick).
    Slice,
    /// A throttled deadline task gets its next budget. Set to the first of them; fires at once again while more are due.
    Replenish,
    /// A deadline server is due: its zero-laxity instant, its next period, or the end of its runtime (`enforce = exact`).
    Server(ServerKind),
    /// A period of RT throttling ends.
    RtPeriod,
}

impl RqTimer {
    /// Every timer that a run queue has.
    pub const ALL: [Self; 3 + ServerKind::ALL.len()] = {
        let mut all = [Self::RtPeriod; 3 + ServerKind::ALL.len()];
        (all[0], all[1]) = (Self::Slice, Self::Replenish);
        let mut kind = 0;
        while kind < ServerKind::ALL.len() {
            all[2 + kind] = Self::Server(ServerKind::ALL[kind]);
            kind += 1;
        }
        all
    };

    /// Returns its place in [`ALL`](Self::ALL), for hosts that keep one thing per timer.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Slice => 0,
            Self::Replenish => 1,
            Self::Server(kind) => 2 + kind as usize,
            Self::RtPeriod => 2 + ServerKind::ALL.len(),
        }
    }
}

/// A timer of a limited group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupTimer {
    /// Its period ends.
    Period,
    /// Quota that CPUs have given back is handed out.
    Slack,
}

/// An operation for the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// `need_resched` was set on this CPU: see that it schedules soon. Nothing to do if it is the calling CPU.
    Kick {
        /// Whom.
        cpu: CpuId,
    },
    /// Interrupt this CPU and have it call `remote` with the work.
    Ipi {
        /// Whom.
        cpu: CpuId,
        /// What for.
        work: Work,
    },
    /// Call `timer` on this run queue at this wall time; it replaces an earlier one of the same name.
    ArmTimer {
        /// Whose.
        cpu: CpuId,
        /// Which.
        timer: RqTimer,
        /// When.
        at: Instant,
    },
    /// Call `group_timer` at this wall time, on the CPU that made this call or any other; it replaces an earlier one of
    /// the same group and name.
    ArmGroupTimer {
        /// Whose.
        group: GroupId,
        /// Which.
        timer: GroupTimer,
        /// When.
        at: Instant,
    },
    /// That timer is not needed any more.
    CancelTimer {
        /// Whose.
        cpu: CpuId,
        /// Which.
        timer: RqTimer,
    },
}

/// The most operations that one call appends.
pub const MAX_OPS: usize = 8;

/// What a call cost, in counts; what a count takes in time is the host's business.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Costs {
    /// Published states of other CPUs that were looked at.
    pub cpus_scanned: u32,
    /// Queued tasks that were looked at beyond the first.
    pub tasks_scanned: u32,
    /// Tasks moved to another run queue.
    pub tasks_moved: u32,
    /// Locks inside the shared state that were taken, that of a root domain's IPI apart.
    pub inner_locks: u32,
    /// Atomics and locks of the root domain's IPI state that were accessed (`ipi_root_domain`).
    pub rto_accesses: u32,
    /// Rounds of RT balancing begun (a push or pull that looked for a partner). Zero without RT overload.
    pub rt_balance: u32,
    /// Rounds of fair balancing begun.
    pub fair_balance: u32,
    /// Group queues throttled or freed.
    pub throttles: u32,
}

impl Costs {
    /// Returns whether nothing was counted.
    #[must_use]
    #[inline]
    pub const fn is_zero(&self) -> bool {
        let Self {
            cpus_scanned,
            tasks_scanned,
            tasks_moved,
            inner_locks,
            rto_accesses,
            rt_balance,
            fair_balance,
            throttles,
        } = *self;
        cpus_scanned | tasks_scanned | tasks_moved | inner_locks | rto_accesses | rt_balance | fair_balance | throttles
            == 0
    }
}

/// Where a call leaves its operations, costs and trace events. The host keeps one per thread and drains it after each
/// call; its buffers are reserved once.
#[derive(Debug)]
pub struct Io {
    /// Operations in the order in which they must be carried out.
    pub ops: Vec<Op>,
    /// Costs of all calls since the host last cleared them.
    pub costs: Costs,
    /// Trace events, if they are wanted.
    pub trace: Vec<Record>,
    /// Tasks that left a run queue by themselves (a delayed dequeue that came due): the host parks them.
    pub parked: Vec<Parcel>,
    /// What is read of the shared state, recorded or replayed.
    pub observer: Observer,
    tracing: Tracing,
}

/// Whether a host wants trace events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tracing {
    /// No: none is made.
    Off,
    /// Yes.
    On,
}

impl Io {
    /// Returns empty buffers, reserved for one call.
    #[must_use]
    pub fn new(tracing: Tracing) -> Self {
        Self {
            ops: Vec::with_capacity(2 * MAX_OPS),
            costs: Costs::default(),
            trace: Vec::with_capacity(match tracing {
                Tracing::Off => 0,
                Tracing::On => 64,
            }),
            // A pick lets all go whose lag is paid: seldom more than a few.
            parked: Vec::with_capacity(16),
            observer: Observer::Off,
            tracing,
        }
    }

    /// Returns whether trace events are wanted.
    #[must_use]
    pub const fn is_tracing(&self) -> bool {
        matches!(self.tracing, Tracing::On)
    }

    /// Returns whether nothing was left here since the host last drained it.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.ops.is_empty() && self.parked.is_empty() && self.trace.is_empty() && self.costs.is_zero()
    }

    #[inline]
    pub(crate) fn event(&mut self, now: Clock, cpu: CpuId, event: impl FnOnce() -> TraceEvent) {
        if self.is_tracing() {
            self.record(now, cpu, event);
        }
    }

    /// Apart and marked as seldom called, so that no function has the making of its records in the midst of its code.
    #[cold]
    fn record(&mut self, now: Clock, cpu: CpuId, event: impl FnOnce() -> TraceEvent) {
        self.trace.push(Record { at: now.wall, cpu, event: event() });
    }

    pub(crate) fn op(&mut self, op: Op) {
        debug_assert!(self.ops.len() < 4096, "the host must drain operations");
        self.ops.push(op);
    }
}

/// Why a CPU leaves its task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// `need_resched` was seen where preemption is allowed.
    Preempted,
    /// The task gives the CPU to its equals (`sched_yield`).
    Yield,
    /// The task waits for something.
    Block,
    /// The task waits, in the kernel, for a lock that another holds: with `proxy_exec` it may lend its turn, and is
    /// [`Left::Delayed`] then.
    BlockOn(LockId),
    /// The task ended.
    Exit,
}

/// Where a task is after [`Scheduler::leave`].
///
/// [`Scheduler::leave`]: crate::Scheduler::leave
#[derive(Debug)]
#[must_use = "a parcel that is dropped is a task that is lost"]
pub enum Left {
    /// It stays on this run queue (or the CPU was idle).
    Queued,
    /// It is blocked, its body is in the host's hands until its wakeup.
    Parked(Parcel),
    /// It is blocked, but its body stays on this run queue until its lag is paid (`DELAY_DEQUEUE`), or to lend its turn: wake it with
    /// `wake_queued`, or find it in [`Io::parked`] later.
    Delayed,
    /// It wants to run but may not use this CPU any more: choose a CPU for it and place it there at once.
    Displaced(Parcel),
    /// It ended; this was its body.
    Dead(Parcel),
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

/// Whether and how urgently a CPU must schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub enum Resched {
    /// Not at all.
    #[default]
    No,
    /// At the next tick or return to user mode (`preempt = lazy`).
    Lazy,
    /// As soon as the preemption model allows.
    Now,
}

impl Resched {
    const fn urgency(self) -> u8 {
        match self {
            Self::No => 0,
            Self::Lazy => 1,
            Self::Now => 2,
        }
    }

    /// Returns the more urgent of two.
    pub const fn max(self, other: Self) -> Self {
        if self.urgency() >= other.urgency() { self } else { other }
    }
}
