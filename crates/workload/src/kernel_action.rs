//! [`KernelAction`]: what a task does in a kernel that is simulated, and in no other.
//!
//! A host that runs real threads cannot choose what its kernel does inside of a system call, nor
//! can a format of user space, such as rt-app's. Each of these would have to refuse twenty actions,
//! and each new one again. So they are an enum of their own, and refusing
//! [`Action::InKernel`] refuses them all.
//!
//! [`Action::Kernel`] is none of them: any host can compute for a time.

use crate::program::{Action, ResourceId};
use crate::random::Dist;

/// The parameters of [`KernelAction::Read`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReadAction {
    /// The file.
    pub file: ResourceId,
    /// How many windows to read, from the task's position; at most to the end of the file.
    pub windows: u32,
    /// Kernel-mode work to request a window: finding pages, making the request.
    pub setup: Dist,
    /// Kernel-mode work to copy a window that is in memory to user space.
    pub copy: Dist,
}

/// How a [`ResourceKind::RwSemaphore`](crate::program::ResourceKind::RwSemaphore) is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// With others that read (`down_read`).
    Read,
    /// Alone (`down_write`).
    Write,
}

/// An action of the kernel: a step of a system call, of a section that nothing interrupts, of the
/// kernel's own threads.
#[derive(Clone, Debug, PartialEq)]
pub enum KernelAction {
    /// A system call begins: the task is in kernel mode until the next
    /// [`KernelAction::SyscallExit`].
    SyscallEnter,
    /// The system call ends: the task returns to user mode.
    SyscallExit,
    /// A point in kernel mode where the task yields the CPU if it was asked to (`cond_resched`).
    CondResched,
    /// Takes a read-write semaphore; waits while it is not available in this mode, or others wait
    /// already.
    Down {
        /// The semaphore.
        semaphore: ResourceId,
        /// The mode.
        access: Access,
    },
    /// Releases a read-write semaphore.
    Up {
        /// The semaphore.
        semaphore: ResourceId,
        /// The mode in which it was taken.
        access: Access,
    },
    /// Takes a spinning lock; the task cannot be preempted until it releases the lock.
    SpinLock(ResourceId),
    /// Releases a spinning lock.
    SpinUnlock(ResourceId),
    /// Takes a spinning lock of user space: computes in user mode until it is free. It is no action
    /// of the kernel, but hosts that run real threads refuse it, too.
    UserSpinLock(ResourceId),
    /// Releases a spinning lock of user space.
    UserSpinUnlock(ResourceId),
    /// Nothing preempts the task from now on (`preempt_disable`), under any preemption model.
    PreemptDisable,
    /// It can be preempted again.
    PreemptEnable,
    /// Computes in kernel mode with interrupts disabled, under any preemption model
    /// (`raw_spin_lock_irqsave`).
    IrqsOff(Dist),
    /// No softirq runs on the CPU from now on (`local_bh_disable`).
    BhDisable,
    /// Softirqs can run again, and those that were raised meanwhile do.
    BhEnable,
    /// Does the softirqs that were raised on this CPU, as its `ksoftirqd`.
    Softirqs,
    /// Expires the timers of fair tasks that are due on this CPU, as its `ktimers`.
    SoftTimers,
    /// A read-side section of RCU begins (`rcu_read_lock`); the task can be preempted in it.
    RcuLock,
    /// The section ends.
    RcuUnlock,
    /// Waits until each section that has begun before is over (`synchronize_rcu`).
    SynchronizeRcu,
    /// Begins a grace period, and looks until it is over, as the thread `rcu_preempt`.
    RcuPeriods,
    /// Boosts the readers of an old grace period, one after the other, as the thread `rcub/0`.
    RcuBoost,
    /// Continues reading a file, through the page cache.
    Read(ReadAction),
    /// Makes a disk read or write bytes, and waits for it.
    Io {
        /// The disk.
        disk: ResourceId,
        /// The number of bytes.
        bytes: u64,
    },
}

impl From<KernelAction> for Action {
    fn from(action: KernelAction) -> Self {
        Self::InKernel(action)
    }
}
