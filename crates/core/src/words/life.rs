//! The life of a task on run queues: the reasons for which it is enqueued, dequeued and placed.
//!
//! Sources: Linux v6.12 `kernel/sched/sched.h` (`ENQUEUE_*`, `DEQUEUE_*`).

use crate::words::ids::LockId;
use zerolag_model::CpuId;

/// Why a task is enqueued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Enqueue {
    /// It woke.
    Wakeup,
    /// It is new.
    New,
    /// It came from another run queue while runnable.
    Migrated,
    /// It was dequeued to change an attribute.
    Changed,
    /// It woke, and its waker, which is about to wait here, leaves it the CPU (`sched_ext`).
    Sync,
    /// It came from another run queue to be the next one here (`sched_ext`).
    Dispatched,
}

/// Why a task is dequeued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dequeue {
    /// It blocks.
    Sleep,
    /// It moves to another run queue.
    Migrate,
    /// It exits.
    Exit,
    /// An attribute changes; it will be enqueued again.
    Change,
}

/// Whether a dequeued task has left the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Dequeued {
    /// It has left.
    Gone,
    /// It stays queued until its negative lag is repaid.
    Delayed,
}

/// Whether a queued task lends its turn or runs on another task's turn (proxy execution).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Engaged {
    /// Neither.
    #[default]
    No,
    /// It waits for a lock and lends its turn.
    Lends {
        /// The lock that it waits for.
        lock: LockId,
        /// The CPU on which it ran.
        from: CpuId,
    },
    /// It runs on the turn of the current task.
    Executes,
}

/// Why a CPU leaves its current task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// `need_resched` was seen where preemption is allowed.
    Preempted,
    /// The task yields to its equals (`sched_yield`).
    Yield,
    /// The task waits for something.
    Block,
    /// The task waits in the kernel for a lock that another task holds. With `proxy_exec` it can
    /// lend its turn; it is then [`Left::Delayed`](crate::Left::Delayed).
    BlockOn(LockId),
    /// The task exited.
    Exit,
}

/// Why a task is placed on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// It woke from waiting.
    Wakeup,
    /// It woke from waiting, and its waker is about to wait, as the writer of a pipe is
    /// (`WF_SYNC`).
    SyncWakeup,
    /// It is new.
    Fork,
    /// It is not allowed to stay where it was ([`Left::Displaced`](crate::Left::Displaced),
    /// hotplug).
    Displaced,
}

impl Placement {
    /// Returns whether the task woke from waiting.
    pub(crate) const fn is_wakeup(self) -> bool {
        matches!(self, Self::Wakeup | Self::SyncWakeup)
    }
}

/// The mode of a CPU when it is asked to schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuMode {
    /// The idle task.
    Idle,
    /// User mode, or on the way back to it.
    User,
    /// Kernel mode that can be preempted.
    Kernel,
    /// At a voluntary preemption point: a place in kernel mode that is allowed to sleep
    /// (`might_sleep`).
    KernelPoint,
    /// In a long section of kernel mode, at a point that offers to reschedule (`cond_resched`).
    CondResched,
    /// Kernel mode with a spinning lock held.
    KernelLocked,
}

/// The destination of a task that active balance moves, and the level at which the destination
/// requested it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    pub(crate) to: CpuId,
    pub(crate) level: u8,
}
