//! The life of a task on run queues, in words: why it comes, why it goes, where it is in between.
//!
//! Sources: Linux v6.12 `kernel/sched/sched.h` (`ENQUEUE_*`, `DEQUEUE_*`).

use crate::words::ids::LockId;
use zerolag_model::CpuId;

/// Why a task is put on a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Enqueue {
    /// It woke.
    Wakeup,
    /// It is new.
    New,
    /// It came from another run queue while runnable.
    Migrated,
    /// It was taken off to change an attribute.
    Changed,
}

/// Why a task is taken off a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dequeue {
    /// It blocks.
    Sleep,
    /// It goes to another run queue.
    Migrate,
    /// It ends.
    Exit,
    /// An attribute changes; it will be put back.
    Change,
}

/// Whether a task is off the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Dequeued {
    /// It is.
    Gone,
    /// It stays until its lag is paid.
    Delayed,
}

/// What a queued task is to others' turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Engaged {
    /// Nothing.
    #[default]
    No,
    /// It waits for a lock and lends its turn.
    Lends {
        /// What it waits for.
        lock: LockId,
        /// The CPU that it ran on.
        from: CpuId,
    },
    /// It runs on the turn of the current task.
    Executes,
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
    /// The task waits, in the kernel, for a lock that another holds: with `proxy_exec` it may lend
    /// its turn, and is [`Left::Delayed`](crate::Left::Delayed) then.
    BlockOn(LockId),
    /// The task ended.
    Exit,
}

/// Why a task is placed on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// It woke from waiting.
    Wakeup,
    /// It is new.
    Fork,
    /// It may not stay where it was ([`Left::Displaced`](crate::Left::Displaced), hotplug).
    Displaced,
}

/// What a CPU was doing when it is asked to schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuMode {
    /// The idle task.
    Idle,
    /// User mode, or on the way back to it.
    User,
    /// Kernel mode that could be preempted.
    Kernel,
    /// At a place of kernel mode that may sleep (`might_sleep`): a voluntary preemption point.
    KernelPoint,
    /// At a place of kernel mode that is long and says so (`cond_resched`).
    CondResched,
    /// Kernel mode under a spinning lock.
    KernelLocked,
}

/// Where active balance sends a task, and which level of the taker asked for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    pub(crate) to: CpuId,
    pub(crate) level: u8,
}
