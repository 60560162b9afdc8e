//! [`Throttle`]: the runtime of a CPU's real-time tasks in this period. The rules are those of
//! [`crate::class::rt_throttle`].

use crate::words::bandwidth::RtLimit;
use zerolag_model::{Duration, Instant, Settings};

/// What real-time tasks have run here, and whether they may go on.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Run in the present period, or owed from earlier ones (`rt_time`).
    pub(crate) time: Duration,
    /// What they may run per period, but for loans; no limit without `rt_throttling`.
    pub(crate) limit: RtLimit,
    /// When the timer fires; `None` if it is not started.
    pub(crate) period_ends: Option<Instant>,
    pub(crate) state: State,
}

/// See the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Idle,
    Counting,
    Throttled,
}

impl Throttle {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut bandwidth = settings.rt_bandwidth();
        bandwidth.runtime = bandwidth.runtime.filter(|_| settings.rt_throttling);
        Self { time: Duration::ZERO, limit: RtLimit { bandwidth, round: 0 }, period_ends: None, state: State::Idle }
    }

    /// Returns whether the real-time tasks of this CPU may not run.
    pub(crate) const fn is_throttled(&self) -> bool {
        matches!(self.state, State::Throttled)
    }
}
