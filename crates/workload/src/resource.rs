//! [`Resource`]: what tasks share and wait for.

use std::sync::Arc;
use zerolag_model::Duration;

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

/// Something that tasks share.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: ResourceKind,
}

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceKind {
    /// A lock; with `inherit` its holder runs at the priority of its most urgent waiter (`PTHREAD_PRIO_INHERIT`).
    Mutex {
        /// Priority inheritance.
        inherit: bool,
    },
    /// A condition variable: no memory.
    Condition,
    /// A barrier for this many tasks.
    Barrier {
        /// How many must arrive.
        parties: u32,
    },
    /// A counting semaphore: has memory.
    Semaphore {
        /// Its count at the start.
        initial: u32,
    },
    /// A timer that tasks share: the next expiry is common to all.
    Timer,
    /// Requests that wait for who takes them, first come first served.
    Queue {
        /// How many may wait; those that come then are dropped. `None` is any number.
        capacity: Option<u32>,
    },
    /// The point where tasks of one name suspend themselves until resumed: no memory.
    SuspendPoint,
    /// A lock that many may share, or one have alone (`rw_semaphore`): in order of arrival.
    RwSemaphore,
    /// A lock of the kernel for which its waiters spin, each on its CPU (`spinlock_t`); under `preempt = rt` they sleep, and its holder
    /// inherits.
    SpinLock,
    /// A buffer of bytes between writers and readers.
    Pipe {
        /// How many bytes it holds, at least 1.
        capacity: u32,
    },
    /// A disk: requests wait in order of arrival for one of its servers.
    Disk(Disk),
    /// A file that is read through the page cache.
    File(File),
}

/// A file on a disk, as the page cache reads it: in windows of read-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub disk: ResourceId,
    /// How many windows it has.
    pub windows: u32,
    /// Bytes of each.
    pub window: u32,
}

/// What a disk does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Requests that it serves at once, at least 1.
    pub depth: u32,
    /// What a request takes whatever its size.
    pub latency: Duration,
    /// Bytes per second of one request's transfer; 0 is at once.
    pub bandwidth: u64,
}

impl Disk {
    /// Returns how long it works on a request, rounded up to whole nanoseconds.
    #[must_use]
    pub fn service(&self, bytes: u64) -> Duration {
        if self.bandwidth == 0 {
            return self.latency;
        }
        let transfer = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.bandwidth));
        self.latency.saturating_add(Duration::from_nanos(u64::try_from(transfer).unwrap_or(u64::MAX)))
    }
}
