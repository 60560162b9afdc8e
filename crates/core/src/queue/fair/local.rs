//! [`Local`]: the bandwidth state of a group's queue on one CPU. The rules are those of
//! [`crate::class::fair::bandwidth`].

use zerolag_model::{CpuMax, Duration, Instant, SignedDuration};

/// What an empty queue keeps.
pub(crate) const KEPT: SignedDuration = CpuMax::KEPT_BY_A_CPU;

/// The bandwidth state of a group's queue on one CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    /// The limit that it knows of; 0 is none.
    pub(crate) limit: u32,
    /// What is left of what it took; a debt if negative (`runtime_remaining`).
    pub(crate) remaining: SignedDuration,
    /// The refresh after which it took some last.
    pub(crate) issued: u32,
    /// How often it has asked for quota since it was empty, up to [`STEPS`].
    pub(crate) requests: u8,
    pub(crate) throttled: Throttled,
    /// Throttled queues below it: it stays, even if it is empty.
    pub(crate) throttled_below: u32,
}

/// Whether a group's queue is out of quota, since when, and what that stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Throttled {
    /// It may run.
    No,
    /// It is cut: out of the hierarchy, with all that is in it but what is boosted ([`boost`]).
    Cut(Instant),
    /// It stays; its tasks are taken off one by one ([`park`]).
    ByTask(Instant),
}

impl Default for Local {
    fn default() -> Self {
        Self {
            limit: 0,
            remaining: SignedDuration::from_nanos(0),
            issued: 0,
            requests: 0,
            throttled: Throttled::No,
            throttled_below: 0,
        }
    }
}

impl Local {
    /// Returns since when it has no quota; `None` while it may run.
    pub(crate) const fn throttled_since(&self) -> Option<Instant> {
        match self.throttled {
            Throttled::No => None,
            Throttled::Cut(since) | Throttled::ByTask(since) => Some(since),
        }
    }

    /// Returns whether it has no quota.
    pub(crate) const fn is_throttled(&self) -> bool {
        self.throttled_since().is_some()
    }

    /// Returns whether it knows of a limit.
    pub(crate) const fn is_limited(&self) -> bool {
        self.limit != 0
    }

    /// Returns whether what is in it may not run and counts for nothing above it, what is boosted
    /// apart.
    pub(crate) const fn is_cut(&self) -> bool {
        matches!(self.throttled, Throttled::Cut(_))
    }

    /// Returns whether the queue is needed although nothing is in it.
    pub(crate) const fn is_needed(&self) -> bool {
        self.is_throttled() || self.throttled_below > 0
    }

    pub(crate) const fn throttled_below(&self) -> u32 {
        self.throttled_below
    }

    pub(crate) const fn is_out_of_quota(&self) -> bool {
        self.limit != 0 && self.remaining.as_nanos() <= 0
    }

    /// Returns what may be used before more must be taken; `None` without a limit, and while
    /// nothing can be taken.
    pub(crate) const fn left(&self) -> Option<Duration> {
        if self.limit == 0 || self.is_throttled() { None } else { Some(self.remaining.max_zero()) }
    }
}
