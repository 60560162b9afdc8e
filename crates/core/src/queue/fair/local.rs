//! [`Local`]: the bandwidth state of a group's queue on one CPU. [`crate::class::fair::bandwidth`]
//! has the rules.

use zerolag_model::{CpuMax, Duration, Instant, SignedDuration};

/// The quota that an empty queue keeps.
pub(crate) const KEPT: SignedDuration = CpuMax::KEPT_BY_A_CPU;

/// The bandwidth state of a group's queue on one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    /// The limit that this queue knows; 0 means none.
    pub(crate) limit: u32,
    /// The remaining quota on this CPU; a debt if negative (`runtime_remaining`).
    pub(crate) remaining: SignedDuration,
    /// The number of the refresh after which this queue last took quota.
    pub(crate) issued: u32,
    /// The number of requests for quota since the queue was last empty, at most `STEPS` of
    /// [`bandwidth`](crate::class::fair::bandwidth).
    pub(crate) requests: u8,
    pub(crate) throttled: Throttled,
    /// Whether the limit is new: tasks that were preempted in kernel mode before it are not
    /// boosted.
    pub(crate) is_new: bool,
    /// The number of throttled queues below this one. It is kept while there are any, even if
    /// empty.
    pub(crate) throttled_below: u32,
}

/// Whether a group's queue is out of quota, since when, and how its tasks are stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Throttled {
    /// It is not throttled.
    No,
    /// It stays in the hierarchy, and no task has been parked yet: the time does not count, as in
    /// the kernel (Linux v6.18 `record_throttle_clock`).
    Unnoticed,
    /// It is detached: out of the hierarchy, with everything in it except boosted tasks
    /// ([`boost`](crate::class::fair::boost)).
    Detached(Instant),
    /// It stays in the hierarchy: its tasks are dequeued one by one
    /// ([`park`](crate::class::fair::park)), or run as long as one of them is spared
    /// ([`boost`](crate::class::fair::boost)).
    Stays(Instant),
}

impl Default for Local {
    fn default() -> Self {
        Self {
            limit: 0,
            remaining: SignedDuration::from_nanos(0),
            issued: 0,
            requests: 0,
            throttled: Throttled::No,
            is_new: false,
            throttled_below: 0,
        }
    }
}

impl Local {
    /// Returns for how long the queue has been throttled, as `cpu.stat` counts it; `None` if it is
    /// not throttled.
    pub(crate) fn throttled_for(&self, now: Instant) -> Option<Duration> {
        match self.throttled {
            Throttled::No => None,
            Throttled::Unnoticed => Some(Duration::ZERO),
            Throttled::Detached(since) | Throttled::Stays(since) => Some(now.since(since)),
        }
    }

    /// Returns whether the queue is throttled.
    pub(crate) const fn is_throttled(&self) -> bool {
        !matches!(self.throttled, Throttled::No)
    }

    /// Returns whether the queue knows of a limit.
    pub(crate) const fn is_limited(&self) -> bool {
        self.limit != 0
    }

    /// Returns whether the queue is detached: its tasks do not run and do not count above it,
    /// except boosted ones.
    pub(crate) const fn is_detached(&self) -> bool {
        matches!(self.throttled, Throttled::Detached(_))
    }

    /// Returns whether the queue must be kept although it is empty.
    pub(crate) const fn is_needed(&self) -> bool {
        self.is_throttled() || self.throttled_below > 0
    }

    pub(crate) const fn throttled_below(&self) -> u32 {
        self.throttled_below
    }

    pub(crate) const fn is_out_of_quota(&self) -> bool {
        self.limit != 0 && self.remaining.as_nanos() <= 0
    }

    /// Returns the quota that can be used before more must be requested. Returns `None` without a
    /// limit, or while the queue is throttled.
    pub(crate) const fn left(&self) -> Option<Duration> {
        if self.limit == 0 || self.is_throttled() { None } else { Some(self.remaining.max_zero()) }
    }
}
