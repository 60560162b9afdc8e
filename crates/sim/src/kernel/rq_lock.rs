//! [`RqLock`]: the lock of a run queue: which CPU has it, until when, and which CPUs spin for it.
//!
//! One thread runs the machine, so these locks protect nothing: they cost time. An operation that
//! takes a lock decides at once, and so knows when it will have ended. Most locks are therefore
//! never seen as taken: an operation gives its lock back at once, together with the time at which
//! it will be free. Only the first lock of a pair is kept from one call to another, while its CPU
//! spins for the second.
//!
//! ```text
//!         [1] an operation: free again when it ends
//!         +----+
//!         v    |      [2] first lock of a pair
//!       Nobody-+ ----------------------------------> Kept(cpu)
//!        ^ ^ |                                          |
//!        | | +-------- [3] both are given back <--------+
//!        | |
//!        | +---------- [5] the CPU takes it, or no longer wants it <--+
//!        +------------ [4] it is free and CPUs spin: the first ---> Granted(cpu)
//! ```
//!
//! While a lock is `Nobody`'s and CPUs spin for it, one [`Event::LockFree`] is queued.
//!
//! Locks are taken in order of CPU number, and granted in order of arrival.
//!
//! [`Event::LockFree`]: crate::kernel::words::Event::LockFree

use std::collections::VecDeque;
use zerolag_model::{CpuId, Instant};

/// Whether a lock was obtained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lock {
    Taken,
    /// The CPU spins until it is driven on.
    Busy,
}

/// Which CPU has a lock between two calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holder {
    /// None, but the last operation under it may not have ended.
    Nobody,
    /// This CPU, until it has the second one.
    Kept(CpuId),
    /// This CPU, which spun for it and is about to take it.
    Granted(CpuId),
}

/// The lock of a run queue.
#[derive(Clone, Debug)]
pub(super) struct RqLock {
    pub(super) holder: Holder,
    /// When the last operation under it ends.
    pub(super) free_at: Instant,
    /// The CPU that had it last: its cache line is there.
    pub(super) last: CpuId,
    /// The CPUs that spin for it, in order of arrival.
    pub(super) waiters: VecDeque<CpuId>,
}

impl RqLock {
    /// Returns the free lock of a CPU's run queue.
    pub(super) const fn new(cpu: CpuId) -> Self {
        Self { holder: Holder::Nobody, free_at: Instant::ZERO, last: cpu, waiters: VecDeque::new() }
    }

    /// Returns whether a CPU that arrives at this moment gets it at once.
    #[inline(always)]
    pub(super) fn is_free(&self, at: Instant) -> bool {
        self.free_at <= at && self.holder == Holder::Nobody && self.waiters.is_empty()
    }
}
