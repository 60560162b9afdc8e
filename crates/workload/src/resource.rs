//! [`Resource`]: objects that tasks share and wait for.

use crate::random::Dist;
use std::sync::Arc;
use zerolag_model::{CpuMask, Duration};

/// Index into [`Program::resources`](crate::Program::resources).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub u32);

impl ResourceId {
    /// Returns the index into [`Program::resources`](crate::Program::resources).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// An object that tasks share.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its name.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: ResourceKind,
}

/// The kind of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum ResourceKind {
    /// A lock; with `inherit` its holder runs at the priority of its most urgent waiter
    /// (`PTHREAD_PRIO_INHERIT`).
    Mutex {
        /// Priority inheritance.
        inherit: bool,
    },
    /// A condition variable: a signal without a waiter is lost.
    Condition,
    /// A barrier for this many tasks.
    Barrier {
        /// The number of tasks that must arrive.
        parties: u32,
    },
    /// A counting semaphore: it counts signals without a waiter.
    Semaphore {
        /// Its initial count.
        initial: u32,
    },
    /// A timer that tasks share: they have one next expiry.
    Timer,
    /// A queue of requests, first come first served.
    Queue {
        /// How many requests may wait; more are dropped. `None` is no limit.
        capacity: Option<u32>,
    },
    /// The point where tasks of one name suspend themselves until resumed: a resume without a
    /// waiter is lost.
    SuspendPoint,
    /// A lock that many readers may share, or one writer hold alone (`rw_semaphore`): in order of
    /// arrival.
    RwSemaphore,
    /// A lock of the kernel whose waiters spin, each on its CPU (`spinlock_t`); under
    /// `preempt = rt` they sleep, and its holder inherits their priority.
    SpinLock,
    /// A lock of user space whose waiters spin, each on its CPU. Waiters and holder can be
    /// preempted.
    UserSpinLock {
        /// Whether a task that takes it asks the kernel for a time slice extension (`rseq`) while
        /// it holds it.
        extends_slice: bool,
    },
    /// A buffer of bytes between writers and readers.
    Pipe {
        /// Its capacity in bytes, at least 1.
        capacity: u32,
    },
    /// A disk: requests wait in order of arrival for one of its servers.
    Disk(Disk),
    /// A file that is read through the page cache.
    File(File),
}

impl ResourceKind {
    /// Returns whether tasks wait for it as for a lock, with a holder: the events of locks name it.
    #[must_use]
    pub const fn is_lock(&self) -> bool {
        match self {
            Self::Mutex { .. } | Self::RwSemaphore | Self::SpinLock | Self::UserSpinLock { .. } | Self::File(_) => true,
            Self::Condition
            | Self::Barrier { .. }
            | Self::Semaphore { .. }
            | Self::Timer
            | Self::Queue { .. }
            | Self::SuspendPoint
            | Self::Pipe { .. }
            | Self::Disk(_) => false,
        }
    }
}

/// A file on a disk, as the page cache reads it: in windows of read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// The disk that contains it.
    pub disk: ResourceId,
    /// Its number of windows.
    pub windows: u32,
    /// Bytes per window.
    pub window: u32,
}

/// The speed of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// Requests that it serves at once, at least 1.
    pub depth: u32,
    /// The time of a request independent of its size, drawn for each.
    pub latency: Dist,
    /// Bytes per second of one request's transfer; 0 means no transfer time.
    pub bandwidth: u64,
    /// The CPUs that its interrupts arrive on when it has read a part of a file; `None` is the CPU
    /// that sent the request.
    pub irq_cpus: Option<Arc<CpuMask>>,
    /// How often its interrupt is moved to another of these CPUs, drawn at random (`irqbalance`: 10
    /// s); zero is with every request, in turn.
    pub irq_moves: Duration,
}

impl Disk {
    /// Returns how long a request's transfer takes, rounded up to whole nanoseconds. Its service
    /// takes its latency besides.
    #[must_use]
    pub fn transfer(&self, bytes: u64) -> Duration {
        if self.bandwidth == 0 {
            return Duration::ZERO;
        }
        let transfer = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bandwidth));
        Duration::from_nanos(u64::try_from(transfer).unwrap_or(u64::MAX))
    }

    /// Returns whether a request of this size is certain to take no time.
    #[must_use]
    pub fn is_instant(&self, bytes: u64) -> bool {
        self.latency.is_zero() && self.transfer(bytes).is_zero()
    }
}
