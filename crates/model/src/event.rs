//! [`TraceEvent`]: the events of a run, ours or a kernel's.
//!
//! A trace is a sequence of [`Record`]s in order of time; records of the same instant are in the
//! order in which they happened. Checks and reports read nothing else, so they judge recorded
//! kernels as well as simulations. Names follow the kernel's trace points (`sched_waking`,
//! `sched_switch`, ...), to and from which events are converted.

use crate::attr::{Prio, SchedAttr};
use crate::bandwidth::{CpuMax, CpuStat};
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::server::{ServerKind, ServerParams, ServerState};
use crate::time::{Duration, Instant, SignedDuration};
use alloc::sync::Arc;

/// One event, with its time and CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The time.
    pub at: Instant,
    /// The CPU on which it happened (for a wakeup the waker's, not the target).
    pub cpu: CpuId,
    /// The event.
    pub event: TraceEvent,
}

/// The kinds of events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// A task was created (`sched_process_fork`). It is not runnable before its
    /// [`TraceEvent::Wakeup`].
    TaskNew {
        /// The task.
        task: TaskId,
        /// Its name (`comm`).
        name: Arc<str>,
        /// The task that forked it.
        parent: Option<TaskId>,
        /// Its attributes.
        attr: SchedAttr,
        /// Its group.
        group: GroupId,
    },
    /// A task ended (`sched_process_exit`).
    TaskExit {
        /// The task.
        task: TaskId,
    },
    /// A blocked or new task becomes runnable (`sched_waking`, `sched_wakeup_new`): it waits from
    /// here on.
    Waking {
        /// The task.
        task: TaskId,
        /// Its effective priority.
        prio: Prio,
        /// The CPU chosen for it. (A kernel's trace names the CPU that it ran on before; the choice
        /// shows in the wakeup.)
        target: CpuId,
        /// Whether this is its first wakeup.
        new: bool,
    },
    /// A woken task is on its run queue (`sched_wakeup`). The record's CPU is the run queue's.
    Wakeup {
        /// The task.
        task: TaskId,
        /// Its effective priority.
        prio: Prio,
    },
    /// A CPU switches from one task to another (`sched_switch`). `None` is the idle task.
    Switch {
        /// The task that ran.
        prev: Option<TaskId>,
        /// Its state after the switch.
        prev_state: PrevState,
        /// The task that runs now.
        next: Option<TaskId>,
        /// The new task's effective priority.
        next_prio: Prio,
    },
    /// A task is migrated to another run queue (`sched_migrate_task`).
    Migrate {
        /// The task.
        task: TaskId,
        /// Its effective priority.
        prio: Prio,
        /// The old run queue.
        from: CpuId,
        /// The new run queue.
        to: CpuId,
        /// The mechanism that migrated it.
        reason: MigrateReason,
    },
    /// A task's attributes changed (`sched_setattr`).
    AttrChange {
        /// The task.
        task: TaskId,
        /// Its new attributes.
        attr: SchedAttr,
    },
    /// A task's effective priority changed through inheritance (`sched_pi_setprio`).
    PrioInherit {
        /// The task.
        task: TaskId,
        /// Before.
        from: Prio,
        /// After.
        to: Prio,
    },
    /// The CPUs that a task may use changed (`sched_setaffinity`, cpusets). Default: all CPUs.
    Affinity {
        /// The task.
        task: TaskId,
        /// The CPUs.
        cpus: Arc<CpuMask>,
    },
    /// A CPU entered or left the set of CPUs with RT tasks that wait and could run elsewhere
    /// (`rto_mask`).
    RtOverload {
        /// Set or cleared.
        overloaded: bool,
    },
    /// The record's CPU joins this root domain (`rq_attach_root`). Default: 0.
    RootDomain {
        /// Its number: 0 contains the CPUs that are in no partition.
        domain: u32,
    },
    /// The record's CPU goes offline, or online again. Default: online.
    Hotplug {
        /// Whether it is online from now on.
        online: bool,
    },
    /// The budget of a deadline task is exhausted, or the task yields; it waits on the record's
    /// CPU.
    DlThrottle {
        /// The task.
        task: TaskId,
        /// The time of the next replenishment.
        until: Instant,
        /// The remaining budget: negative after an overrun, positive after a yield.
        left: SignedDuration,
    },
    /// A deadline task starts a job, with a new budget and deadline.
    DlReplenish {
        /// The task.
        task: TaskId,
        /// Its absolute deadline.
        deadline: Instant,
        /// The budget until then.
        budget: SignedDuration,
    },
    /// A deadline task got the signal that its budget is exhausted (SIGXCPU,
    /// `SCHED_FLAG_DL_OVERRUN`).
    DlOverrun {
        /// The task.
        task: TaskId,
    },
    /// The deadline server of the record's CPU changed its state.
    Server {
        /// The kind of server.
        kind: ServerKind,
        /// The new state.
        state: ServerState,
    },
    /// The parameters of the deadline server of the record's CPU were set. Default: those of the
    /// settings.
    ServerParams {
        /// The kind of server.
        kind: ServerKind,
        /// The new parameters.
        params: ServerParams,
    },
    /// The real-time tasks of the record's CPU are throttled or unthrottled: their share of the
    /// period is used up, or the next begins.
    RtThrottle {
        /// Whether they are throttled.
        throttled: bool,
    },
    /// A preemption was requested: `need_resched` was set on the record's CPU.
    NeedResched {
        /// The CPU that requested it.
        by: CpuId,
    },
    /// An inter-processor interrupt was sent.
    IpiSend {
        /// The target.
        to: CpuId,
        /// The reason.
        reason: IpiReason,
    },
    /// An interrupt handler started on the record's CPU.
    IrqEnter {
        /// The kind of interrupt.
        irq: Irq,
    },
    /// That handler ended.
    IrqExit {
        /// The kind of interrupt.
        irq: Irq,
    },
    /// The record's CPU waits for a run-queue lock that another CPU holds; it spins with interrupts
    /// off.
    LockContended {
        /// The CPU of the run queue.
        rq: CpuId,
    },
    /// The record's CPU got that lock.
    LockAcquired {
        /// The CPU of the run queue.
        rq: CpuId,
        /// The time for which it spun.
        waited: Duration,
    },
    /// A task waits for a lock of its workload.
    WaitLock {
        /// The task.
        task: TaskId,
        /// The lock.
        lock: u32,
        /// The holder.
        holder: Option<TaskId>,
    },
    /// A task took a lock of its workload.
    TakeLock {
        /// The task.
        task: TaskId,
        /// The lock.
        lock: u32,
    },
    /// A task released a lock of its workload.
    DropLock {
        /// The task.
        task: TaskId,
        /// The lock.
        lock: u32,
    },
    /// A task enters kernel mode by a system call, or leaves it (`raw_syscalls:sys_enter`,
    /// `sys_exit`).
    Syscall {
        /// The task.
        task: TaskId,
        /// Whether it enters.
        enters: bool,
    },
    /// A task of a limited group is boosted: it may run until it leaves the kernel although the
    /// group is throttled. Or the boost ends.
    Boost {
        /// The task.
        task: TaskId,
        /// Whether it is boosted.
        boosted: bool,
    },
    /// A task starts to run on the turn of another that waits for it (`proxy_exec`), or runs on its
    /// own turn again.
    Proxy {
        /// The task.
        task: TaskId,
        /// The task whose turn it uses.
        donor: Option<TaskId>,
        /// The priority at which it runs from now on.
        prio: Prio,
    },
    /// A task was dequeued at the return to user mode because its group has no quota there, or it
    /// is enqueued again.
    TaskThrottle {
        /// The task.
        task: TaskId,
        /// Whether it is dequeued.
        throttled: bool,
    },
    /// A task group was created.
    GroupNew {
        /// The group.
        group: GroupId,
        /// Its parent.
        parent: GroupId,
        /// Its path below the root, as `/pod/a`.
        path: Arc<str>,
    },
    /// A task group was removed. Its id can be reused for another group.
    GroupGone {
        /// The group.
        group: GroupId,
    },
    /// A task moved to another group.
    GroupChange {
        /// The task.
        task: TaskId,
        /// Its new group.
        group: GroupId,
    },
    /// A group's weight was set, or whether it is idle. Default: 1024.
    GroupWeight {
        /// The group.
        group: GroupId,
        /// Its weight relative to its siblings: 1024 is nice 0; 3 for an idle group.
        weight: u32,
    },
    /// A group's limit was set (`cpu.max`).
    GroupMax {
        /// The group.
        group: GroupId,
        /// The limit.
        max: CpuMax,
    },
    /// A period of a limited group ended, and its pool was refilled.
    BandwidthRefresh {
        /// The group.
        group: GroupId,
        /// The new content of the pool.
        runtime: Duration,
        /// Whether a CPU was throttled at that time.
        throttled: bool,
    },
    /// A limited group has no quota left on the record's CPU: its tasks there do not run.
    Throttle {
        /// The group.
        group: GroupId,
    },
    /// The group may run there again.
    Unthrottle {
        /// The group.
        group: GroupId,
    },
    /// A queue of requests, that of a service, was created.
    QueueNew {
        /// The queue.
        queue: u32,
        /// The service's name.
        name: Arc<str>,
    },
    /// A step of a service's request.
    Request {
        /// Its queue.
        queue: u32,
        /// Its number, from 0 in the order of arrival.
        request: u64,
        /// The step.
        step: RequestStep,
    },
    /// A task reports its position in its program.
    Mark {
        /// The task.
        task: TaskId,
        /// The position.
        mark: Mark,
    },
    /// The end of a run, per CPU: its time by layer. The layers add up to the record's `at`.
    CpuTotals {
        /// Time per layer.
        times: LayerTimes,
    },
    /// The end of a run, per limited group: the counters of its limit.
    GroupTotals {
        /// The group.
        group: GroupId,
        /// The counters.
        stat: CpuStat,
    },
    /// The end of a run, per task: the counters that the scheduler kept.
    TaskTotals {
        /// The task.
        task: TaskId,
        /// The counters.
        counters: TaskCounters,
    },
}

/// The state of a task that a CPU leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrevState {
    /// Preempted or yielded: still runnable (`R`).
    Runnable,
    /// Blocked (`S`, `D`).
    Blocked,
    /// Ended (`X`).
    Dead,
    /// It was the idle task.
    Idle,
}

/// The mechanism that migrated a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MigrateReason {
    /// A CPU was chosen for it when it woke.
    Wakeup,
    /// An overloaded CPU pushed it away.
    Push,
    /// A CPU that lowered its priority pulled it.
    Pull,
    /// A CPU about to go idle took it.
    NewIdle,
    /// The periodic balancer moved it.
    Periodic,
    /// The balancer moved it while it was running.
    Active,
    /// Its affinity no longer allows its CPU.
    Affinity,
    /// Its CPU went offline.
    Hotplug,
    /// A recorded trace does not contain the reason.
    Unknown,
}

impl MigrateReason {
    /// Every reason, in the order of the format's numbers.
    pub const ALL: [Self; 9] = [
        Self::Wakeup,
        Self::Push,
        Self::Pull,
        Self::NewIdle,
        Self::Periodic,
        Self::Active,
        Self::Affinity,
        Self::Hotplug,
        Self::Unknown,
    ];

    /// Returns a short name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wakeup => "wakeup",
            Self::Push => "push",
            Self::Pull => "pull",
            Self::NewIdle => "newidle",
            Self::Periodic => "periodic",
            Self::Active => "active",
            Self::Affinity => "affinity",
            Self::Hotplug => "hotplug",
            Self::Unknown => "unknown",
        }
    }
}

/// Why an IPI is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IpiReason {
    /// Reschedule.
    Resched,
    /// Push your waiting RT tasks (`rto_push_work`).
    RtPush,
    /// Balance as an idle CPU.
    IdleBalance,
    /// Hand your running task over (stopper work).
    ActiveBalance,
}

impl IpiReason {
    /// Every reason, in the order of the format's numbers.
    pub const ALL: [Self; 4] = [Self::Resched, Self::RtPush, Self::IdleBalance, Self::ActiveBalance];
}

/// The source of an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Irq {
    /// The periodic tick.
    Tick,
    /// A timer.
    Timer,
    /// An inter-processor interrupt.
    Ipi,
    /// A device.
    Device,
    /// Deferred work of an interrupt.
    Softirq,
    /// The hardware itself (SMI, hypervisor).
    Hardware,
    /// A non-maskable interrupt.
    Nmi,
}

impl Irq {
    /// Every kind, in the order of the format's numbers.
    pub const ALL: [Self; 7] =
        [Self::Tick, Self::Timer, Self::Ipi, Self::Device, Self::Softirq, Self::Hardware, Self::Nmi];
}

/// A step of a request.
///
/// ```text
///  arrives ---> waits in the queue ---[Start]---> is worked on ---[End]--->
///     +---[Drop]: the queue was full
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestStep {
    /// It arrives. Its latency counts from `due`, even if the machine notices it later.
    Arrive {
        /// The intended arrival.
        due: Instant,
    },
    /// A worker takes it.
    Start {
        /// The worker.
        task: TaskId,
    },
    /// Its worker completes it.
    End {
        /// The worker.
        task: TaskId,
    },
    /// The queue is full: the request is never worked on.
    Drop,
}

/// A position of a task in its program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// It enters a phase.
    Phase {
        /// The phase, from 0.
        phase: u32,
        /// The turn of the task's loop, from 0.
        turn: u64,
    },
    /// A timer of its program was due at `due`; the task continues now (at the record's time).
    TimerDue {
        /// When the timer was due.
        due: Instant,
        /// The time that was left when it started to wait: negative if it was late.
        slack: SignedDuration,
    },
    /// It took a time stamp.
    Stamp {
        /// The program's number for this place.
        label: u32,
        /// CPU time used since the task started.
        exec: Duration,
    },
    /// A turn of its loop ended.
    TurnEnd {
        /// The turn, from 0.
        turn: u64,
    },
}

/// The layers of a CPU, top to bottom; each takes time from those below it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CpuLayer {
    /// The hardware itself (SMI, hypervisor).
    Hardware,
    /// Interrupt handlers.
    Irq,
    /// Deferred work of interrupts.
    Softirq,
    /// The scheduler's own path: picking, switching, waking, waiting for run-queue locks.
    Sched,
    /// A task in kernel mode.
    Kernel,
    /// A task in user mode.
    User,
    /// No task.
    Idle,
}

impl CpuLayer {
    /// From top to bottom.
    pub const ALL: [Self; 7] =
        [Self::Hardware, Self::Irq, Self::Softirq, Self::Sched, Self::Kernel, Self::User, Self::Idle];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hardware => "hw",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::Sched => "sched",
            Self::Kernel => "kernel",
            Self::User => "user",
            Self::Idle => "idle",
        }
    }
}

/// Time per layer of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LayerTimes([Duration; CpuLayer::ALL.len()]);

impl LayerTimes {
    /// Returns the time of a layer.
    #[must_use]
    pub const fn of(&self, layer: CpuLayer) -> Duration {
        self.0[layer as usize]
    }

    /// Adds time to a layer.
    pub fn charge(&mut self, layer: CpuLayer, time: Duration) {
        self.0[layer as usize] += time;
    }

    /// Returns time that was charged too early.
    ///
    /// # Panics
    /// If the layer has less.
    pub fn take_back(&mut self, layer: CpuLayer, time: Duration) {
        self.0[layer as usize] -= time;
    }

    /// Returns the sum of all layers.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.0.iter().copied().sum()
    }
}

/// The scheduler's counters of one task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TaskCounters {
    /// CPU time charged (`sum_exec_runtime`).
    pub exec: Duration,
    /// How many times it was switched to.
    pub switches_in: u64,
    /// Migrations between run queues (`nr_migrations`).
    pub migrations: u64,
    /// Wakeups (`nr_wakeups`).
    pub wakeups: u64,
}
