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
use crate::rt_bandwidth::RtBandwidth;
use crate::server::{ServerKind, ServerParams, ServerState};
use crate::time::{Duration, Instant, SignedDuration};
use alloc::sync::Arc;

mod table;

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

/// Makes the enum of the table.
macro_rules! define {
    ($(
        $(#[$doc:meta])*
        $event:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }
        $($number:literal ($($own:ident),* $(; $($part:ident),+)?) $({ $($rest:tt)+ })?
            $(=> $word:literal $text:tt)?),+;
    )+) => {
        /// The kinds of events. `event/table.rs` describes each.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum TraceEvent {
            $($(#[$doc])* $event { $($(#[$field_doc])* $field: $type,)+ },)+
        }
    };
}

crate::trace_events!(define);

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

/// What a section of kernel mode disables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Disables {
    /// Preemption: interrupts are served, and the CPU goes on with the same task.
    Preemption,
    /// Interrupts, and with them preemption: interrupts wait for the end of the section.
    Interrupts,
}

impl Disables {
    /// Every kind, in the order of the format's numbers.
    pub const ALL: [Self; 2] = [Self::Preemption, Self::Interrupts];

    /// Returns the word for lists.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preemption => "preemption",
            Self::Interrupts => "interrupts",
        }
    }
}

/// A step of RCU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RcuStep {
    /// A task begins a read-side section (`rcu_read_lock`).
    ReadBegins,
    /// It ends the section (`rcu_read_unlock`).
    ReadEnds,
    /// A task begins to wait for a grace period that begins later (`synchronize_rcu`).
    WaitBegins,
    /// That grace period is over, and the task is woken.
    WaitEnds,
    /// The thread of grace periods begins one.
    PeriodBegins,
    /// It ends it.
    PeriodEnds,
    /// The boost of a reader begins (`rcu_boost`). It ends with the reader's section.
    Boosted,
}

impl RcuStep {
    /// Every step, in the order of the format's numbers.
    pub const ALL: [Self; 7] = [
        Self::ReadBegins,
        Self::ReadEnds,
        Self::WaitBegins,
        Self::WaitEnds,
        Self::PeriodBegins,
        Self::PeriodEnds,
        Self::Boosted,
    ];

    /// Returns the words for lists, of which the task is the subject.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::ReadBegins => "begins to read",
            Self::ReadEnds => "ends to read",
            Self::WaitBegins => "waits for a grace period",
            Self::WaitEnds => "has waited for a grace period",
            Self::PeriodBegins => "begins a grace period",
            Self::PeriodEnds => "ends a grace period",
            Self::Boosted => "is boosted",
        }
    }
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
    /// The hardware itself (SMI): the CPU stands still, and the kernel does not know it.
    Hardware,
    /// A non-maskable interrupt.
    Nmi,
    /// The hypervisor: the virtual CPU stands still.
    Stolen,
}

impl Irq {
    /// Every kind, in the order of the format's numbers.
    pub const ALL: [Self; 8] =
        [Self::Tick, Self::Timer, Self::Ipi, Self::Device, Self::Softirq, Self::Hardware, Self::Nmi, Self::Stolen];
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
