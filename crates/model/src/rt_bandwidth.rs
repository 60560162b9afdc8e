//! [`RtBandwidth`]: the two files that limit real-time tasks, and with them deadline tasks.

use crate::settings::{RtGroupSched, Settings};
use crate::time::Duration;

/// How long real-time tasks of a CPU may run (`sched_rt_runtime_us`) in each period
/// (`sched_rt_period_us`). The quotient limits the admission of deadline tasks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RtBandwidth {
    /// `None` is no limit (-1).
    pub runtime: Option<Duration>,
    /// The period.
    pub period: Duration,
}

impl RtBandwidth {
    /// Returns whether the kernel accepts it: Linux v6.6 `kernel/sched/rt.c`,
    /// `sched_rt_global_validate`.
    #[must_use]
    pub fn is_valid(self) -> bool {
        !self.period.is_zero() && self.runtime.is_none_or(|runtime| runtime <= self.period)
    }
}

impl Settings {
    /// Returns whether real-time tasks of a CPU are throttled. With groups they are in every
    /// kernel: Linux v6.12 `kernel/sched/rt.c`, `update_curr_rt` (`CONFIG_RT_GROUP_SCHED`).
    #[must_use]
    pub const fn throttles_rt(&self) -> bool {
        self.rt_throttling || matches!(self.rt_group_sched, RtGroupSched::V1)
    }

    /// Returns the initial limit; a runtime above the period is no limit.
    #[must_use]
    pub fn rt_bandwidth(&self) -> RtBandwidth {
        let runtime = (self.rt_runtime <= self.rt_period).then_some(self.rt_runtime);
        RtBandwidth { runtime, period: self.rt_period }
    }
}
