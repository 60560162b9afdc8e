//! [`Throttle`]: the runtime of a CPU's real-time tasks in the present period.
//! [`crate::class::rt_throttle`] has the rules.

use crate::words::bandwidth::RtLimit;
use zerolag_model::{Duration, Instant, Settings};

/// The runtime that real-time tasks have used on this CPU, and whether they are allowed to
/// continue.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    /// Runtime used in the present period, or owed from earlier ones (`rt_time`).
    pub(crate) time: Duration,
    /// The runtime per period, without loans; unlimited unless real-time tasks
    /// are throttled ([`Settings::throttles_rt`]).
    pub(crate) limit: RtLimit,
    /// When the timer fires; `None` if it is not started.
    pub(crate) period_ends: Option<Instant>,
    pub(crate) state: RtThrottleState,
}

/// The throttling state; [`crate::class::rt_throttle`] has the diagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RtThrottleState {
    Idle,
    Counting,
    Throttled,
}

impl Throttle {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut bandwidth = settings.rt_bandwidth();
        bandwidth.runtime = bandwidth.runtime.filter(|_| settings.throttles_rt());
        Self {
            time: Duration::ZERO,
            limit: RtLimit { bandwidth, round: 0 },
            period_ends: None,
            state: RtThrottleState::Idle,
        }
    }

    /// Returns whether the real-time tasks of this CPU are throttled.
    pub(crate) const fn is_throttled(&self) -> bool {
        matches!(self.state, RtThrottleState::Throttled)
    }
}
