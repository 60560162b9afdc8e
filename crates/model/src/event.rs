//! [`TraceEvent`]: what a run leaves behind, ours or a kernel's.
//!
//! A trace is a sequence of [`Record`]s in order of time; records of the same instant are in the order in which they
//! happened. Checks and reports read nothing else, so that they judge recorded kernels as well as simulations. Names
//! follow the kernel's trace points (`sched_waking`, `sched_switch`, ...), which they convert from and to.

use crate::attr::{Prio, SchedAttr};
use crate::bandwidth::{CpuMax, CpuStat};
use crate::cpumask::CpuMask;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::server::{ServerKind, ServerParams, ServerState};
use crate::time::{Duration, Instant, SignedDuration};
use alloc::sync::Arc;

/// One event, when and on which CPU it happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// The CPU that did it (for a wakeup the waker's, not the target).
    pub cpu: CpuId,
    /// What.
    pub event: TraceEvent,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TraceEvent {
    /// A task came to be (`sched_process_fork`). It is not runnable before its [`TraceEvent::Wakeup`].
    TaskNew {
        /// Which.
        task: TaskId,
        /// Its name (`comm`).
        name: Arc<str>,
        /// Who forked it.
        parent: Option<TaskId>,
        /// What it asks for.
        attr: SchedAttr,
        /// Its group.
        group: GroupId,
    },
    /// A task ended (`sched_process_exit`).
    TaskExit {
        /// Which.
        task: TaskId,
    },
    /// A blocked or new task is to run again (`sched_waking`, `sched_wakeup_new`): from here on it waits.
    Waking {
        /// Which.
        task: TaskId,
        /// Its effective priority.
        prio: Prio,
        /// The CPU chosen for it. (A kernel's trace names the CPU that it ran on before; the choice shows in the wakeup.)
        target: CpuId,
        /// Whether this is its first wakeup.
        new: bool,
    },
    /// A woken task is on its run queue (`sched_wakeup`). The record's CPU is the run queue's.
    Wakeup {
        /// Which.
        task: TaskId,
        /// Its effective priority.
        prio: Prio,
    },
    /// A CPU goes from one task to another (`sched_switch`). `None` is the idle task.
    Switch {
        /// Who ran.
        prev: Option<TaskId>,
        /// What becomes of it.
        prev_state: PrevState,
        /// Who runs now.
        next: Option<TaskId>,
        /// The new task's effective priority.
        next_prio: Prio,
    },
    /// A task moves to another run queue (`sched_migrate_task`).
    Migrate {
        /// Which.
        task: TaskId,
        /// Its effective priority.
        prio: Prio,
        /// From where.
        from: CpuId,
        /// To where.
        to: CpuId,
        /// Which mechanism moved it.
        reason: MigrateReason,
    },
    /// A task's attributes changed (`sched_setattr`).
    AttrChange {
        /// Which.
        task: TaskId,
        /// What it asks for now.
        attr: SchedAttr,
    },
    /// A task's effective priority changed without its asking (`sched_pi_setprio`).
    PrioInherit {
        /// Which.
        task: TaskId,
        /// Before.
        from: Prio,
        /// After.
        to: Prio,
    },
    /// The CPUs that a task may use changed (`sched_setaffinity`, cpusets). Unsaid: all CPUs.
    Affinity {
        /// Which.
        task: TaskId,
        /// Where it may run.
        cpus: Arc<CpuMask>,
    },
    /// A CPU got or lost the mark "has RT tasks that wait and could run elsewhere" (`rto_mask`).
    RtOverload {
        /// Set or cleared.
        overloaded: bool,
    },
    /// The record's CPU is in this root domain from now on (`rq_attach_root`). Unsaid: in 0.
    RootDomain {
        /// Its number: 0 are the CPUs in no partition.
        domain: u32,
    },
    /// The record's CPU goes offline, or comes back. Unsaid: it is online.
    Hotplug {
        /// Whether it is online from now on.
        online: bool,
    },
    /// A deadline task has used its budget up, or gives it up, and waits on the record's CPU.
    DlThrottle {
        /// Which.
        task: TaskId,
        /// When it gets the next budget.
        until: Instant,
        /// What was left of the budget: negative if it ran too long, positive if it yielded.
        left: SignedDuration,
    },
    /// A deadline task begins a job, with a new budget and deadline.
    DlReplenish {
        /// Which.
        task: TaskId,
        /// Its absolute deadline.
        deadline: Instant,
        /// What it may run until then.
        budget: SignedDuration,
    },
    /// A deadline task was told that it has used up its budget (SIGXCPU, `SCHED_FLAG_DL_OVERRUN`).
    DlOverrun {
        /// Which.
        task: TaskId,
    },
    /// The deadline server of the record's CPU is in another state.
    Server {
        /// Whom it serves.
        kind: ServerKind,
        /// What it does now.
        state: ServerState,
    },
    /// What the deadline server of the record's CPU promises was set. Unsaid: what the settings say.
    ServerParams {
        /// Whom it serves.
        kind: ServerKind,
        /// From now on.
        params: ServerParams,
    },
    /// The real-time tasks of the record's CPU have used up their share of the period, or get the next.
    RtThrottle {
        /// Whether they may not run.
        throttled: bool,
    },
    /// A preemption was asked for: `need_resched` was set on the record's CPU.
    NeedResched {
        /// The CPU that asked.
        by: CpuId,
    },
    /// An inter-processor interrupt was sent.
    IpiSend {
        /// To whom.
        to: CpuId,
        /// What for.
        reason: IpiReason,
    },
    /// A handler began on the record's CPU.
    IrqEnter {
        /// What kind.
        irq: Irq,
    },
    /// That handler ended.
    IrqExit {
        /// What kind.
        irq: Irq,
    },
    /// The record's CPU wants a run-queue lock that another holds; it spins with interrupts off.
    LockContended {
        /// Whose run queue.
        rq: CpuId,
    },
    /// The record's CPU got that lock.
    LockAcquired {
        /// Whose run queue.
        rq: CpuId,
        /// How long it spun.
        waited: Duration,
    },
    /// A task waits for a lock of its workload.
    WaitLock {
        /// Who.
        task: TaskId,
        /// For which lock.
        lock: u32,
        /// Who holds it.
        holder: Option<TaskId>,
    },
    /// A task took a lock of its workload.
    TakeLock {
        /// Who.
        task: TaskId,
        /// Which.
        lock: u32,
    },
    /// A task gave a lock of its workload back.
    DropLock {
        /// Who.
        task: TaskId,
        /// Which.
        lock: u32,
    },
    /// A task enters kernel mode by a system call, or leaves it (`raw_syscalls:sys_enter`, `sys_exit`).
    Syscall {
        /// Who.
        task: TaskId,
        /// Whether it enters.
        enters: bool,
    },
    /// A task of a limited group is let run until it leaves the kernel whatever its group may, or not any more.
    Boost {
        /// Who.
        task: TaskId,
        /// Whether it is.
        boosted: bool,
    },
    /// A task begins to run on the turn of another that waits for it (`proxy_exec`), or goes on by its own again.
    Proxy {
        /// Who.
        task: TaskId,
        /// On whose turn.
        donor: Option<TaskId>,
        /// The priority by which it runs from now on.
        prio: Prio,
    },
    /// A task was taken off its queue at the return to user mode because its group has no quota there, or is put back.
    TaskThrottle {
        /// Who.
        task: TaskId,
        /// Whether it is off.
        throttled: bool,
    },
    /// A task group came to be.
    GroupNew {
        /// Which.
        group: GroupId,
        /// Its parent.
        parent: GroupId,
        /// Its path below the root, as `/pod/a`.
        path: Arc<str>,
    },
    /// A task group ceased to be. Its id may be another group's later.
    GroupGone {
        /// Which.
        group: GroupId,
    },
    /// A task moved to another group.
    GroupChange {
        /// Who.
        task: TaskId,
        /// Where it is now.
        group: GroupId,
    },
    /// A group's weight was set, or whether it is idle. Unsaid: 1024.
    GroupWeight {
        /// Which.
        group: GroupId,
        /// What it weighs beside its siblings: 1024 is nice 0; 3 for an idle one.
        weight: u32,
    },
    /// A group's limit was set (`cpu.max`).
    GroupMax {
        /// Which.
        group: GroupId,
        /// What it may use.
        max: CpuMax,
    },
    /// A period of a limited group ended, and its pool was filled.
    BandwidthRefresh {
        /// Which.
        group: GroupId,
        /// What is in the pool now.
        runtime: Duration,
        /// Whether a CPU was throttled then.
        throttled: bool,
    },
    /// A limited group has no quota left on the record's CPU: what it has there does not run.
    Throttle {
        /// Which.
        group: GroupId,
    },
    /// It may run there again.
    Unthrottle {
        /// Which.
        group: GroupId,
    },
    /// A queue of requests came to be: that of a service.
    QueueNew {
        /// Which.
        queue: u32,
        /// The service's name.
        name: Arc<str>,
    },
    /// Something happens to a request of a service.
    Request {
        /// Its queue.
        queue: u32,
        /// Which, from 0 in the order of arrival.
        request: u64,
        /// What happens.
        step: RequestStep,
    },
    /// A task says where it is in its program.
    Mark {
        /// Who.
        task: TaskId,
        /// What it says.
        mark: Mark,
    },
    /// The end of a run, per CPU: where its time went. The layers add up to the record's `at`.
    CpuTotals {
        /// Time per layer.
        times: LayerTimes,
    },
    /// The end of a run, per limited group: what its limit counted.
    GroupTotals {
        /// Which.
        group: GroupId,
        /// The counters.
        stat: CpuStat,
    },
    /// The end of a run, per task: the counters that the scheduler kept.
    TaskTotals {
        /// Which.
        task: TaskId,
        /// The counters.
        counters: TaskCounters,
    },
}

/// What becomes of the task that a CPU leaves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PrevState {
    /// Preempted or yielded: it still wants to run (`R`).
    Runnable,
    /// It waits for something (`S`, `D`).
    Blocked,
    /// It ended (`X`).
    Dead,
    /// It was the idle task.
    Idle,
}

/// Which mechanism moved a task.
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
    /// Its affinity no longer allows where it was.
    Affinity,
    /// Its CPU went offline.
    Hotplug,
    /// A recorded trace does not say.
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

/// What interrupted a CPU.
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

/// What happens to a request.
///
/// ```text
///  arrives ---> waits in the queue ---[Start]---> is worked on ---[End]--->
///     +---[Drop]: the queue was full
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestStep {
    /// It arrives. Its latency counts from `due`, however late the machine hears of it.
    Arrive {
        /// When it was meant to arrive.
        due: Instant,
    },
    /// A worker takes it.
    Start {
        /// Who.
        task: TaskId,
    },
    /// Its worker is done with it.
    End {
        /// Who.
        task: TaskId,
    },
    /// The queue is full: nobody will work on it.
    Drop,
}

/// Where a task says it is in its program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mark {
    /// It enters a phase.
    Phase {
        /// Which, from 0.
        phase: u32,
        /// In which turn of the task's loop, from 0.
        turn: u64,
    },
    /// A timer of its program was due at `due`; it goes on now (at the record's time).
    TimerDue {
        /// When the timer was due.
        due: Instant,
        /// Time that was left when it came to wait: negative if it came late.
        slack: SignedDuration,
    },
    /// It took a time stamp: `exec` is the CPU time it has used in all.
    Stamp {
        /// The program's number for this place.
        label: u32,
        /// CPU time used since the task began.
        exec: Duration,
    },
    /// A turn of its loop ended.
    TurnEnd {
        /// Which, from 0.
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
    /// Nothing.
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

    /// Takes time back that was charged too early.
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

/// What the scheduler counted for one task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TaskCounters {
    /// CPU time charged (`sum_exec_runtime`).
    pub exec: Duration,
    /// Times it was switched to.
    pub switches_in: u64,
    /// Moves between run queues (`nr_migrations`).
    pub migrations: u64,
    /// Wakeups (`nr_wakeups`).
    pub wakeups: u64,
}
