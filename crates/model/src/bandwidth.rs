//! [`CpuMax`]: the CPU time that a group may use (`cpu.max`, `cpu.max.burst`), and [`CpuStat`]: the
//! counters of that limit.
//!
//! Quota is absolute: 5 s per second are five CPUs.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `tg_set_cfs_bandwidth`;
//! `Documentation/scheduler/sched-bwc.rst`.

use crate::time::{Duration, SignedDuration};
use core::fmt;

/// The limit of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CpuMax {
    /// CPU time per period (`cpu.max`, first word; `cpu.cfs_quota_us`). `None` is no limit (`max`,
    /// -1).
    pub quota: Option<Duration>,
    /// The period (`cpu.max`, second word; `cpu.cfs_period_us`).
    pub period: Duration,
    /// Unused quota that later periods may use in addition (`cpu.max.burst`, `cpu.cfs_burst_us`).
    pub burst: Duration,
    /// The slice that a CPU takes out of the pool at a time; `None` is the machine-wide
    /// `sched_cfs_bandwidth_slice_us`. An open question of the text of 2010 ("per-tg slice
    /// tunable?"); no kernel has it.
    pub slice: Option<Duration>,
}

/// A second, in nanoseconds.
const SECOND: u128 = 1_000_000_000;

impl CpuMax {
    /// The shortest period and the smallest quota.
    pub const SHORTEST: Duration = Duration::from_millis(1);
    /// The part of its slice that a CPU keeps when no task of the group is left to run there
    /// (`min_cfs_rq_runtime`).
    pub const KEPT_BY_A_CPU: SignedDuration = SignedDuration::from_nanos(1_000_000);
    /// The longest period.
    pub const LONGEST_PERIOD: Duration = Duration::from_secs(1);
    /// The default period.
    pub const DEFAULT_PERIOD: Duration = Duration::from_millis(100);
    /// The largest sum of quota and burst: 2^44 - 1 us (`max_cfs_runtime`).
    pub const LARGEST: Duration = Duration::from_micros((1 << 44) - 1);
    /// The shortest slice (`sched_cfs_bandwidth_slice_us` is at least 1).
    pub const SHORTEST_SLICE: Duration = Duration::from_micros(1);
    /// No limit: the default of a new group.
    pub const UNLIMITED: Self = Self { quota: None, period: Self::DEFAULT_PERIOD, burst: Duration::ZERO, slice: None };

    /// Returns it with the quota of a rate, in CPU time per second: 500 ms are half a CPU. Rounded
    /// down; not checked.
    ///
    /// ```
    /// use zerolag_model::{CpuMax, Duration};
    ///
    /// let half = CpuMax::UNLIMITED.with_rate(Duration::from_millis(500));
    /// assert_eq!(half.quota, Some(Duration::from_millis(50)));
    /// ```
    #[must_use]
    pub fn with_rate(self, rate: Duration) -> Self {
        let wide = u128::from(rate.as_nanos()) * u128::from(self.period.as_nanos()) / SECOND;
        let quota = Duration::from_nanos(u64::try_from(wide).unwrap_or(u64::MAX));
        Self { quota: Some(quota), ..self }
    }

    /// Returns it with a period for a rate: its own, or the shortest one of whole milliseconds in
    /// which that is the smallest quota, if there is one.
    ///
    /// ```
    /// use zerolag_model::{CpuMax, Duration};
    ///
    /// let period = |rate| CpuMax::UNLIMITED.with_period_for(Duration::from_millis(rate)).period;
    /// assert_eq!([period(10), period(3)].map(Duration::as_nanos), [100_000_000, 334_000_000]);
    /// ```
    #[must_use]
    pub fn with_period_for(self, rate: Duration) -> Self {
        let is_enough = |max: Self| max.with_rate(rate).quota >= Some(Self::SHORTEST);
        if is_enough(self) || !is_enough(Self { period: Self::LONGEST_PERIOD, ..self }) {
            return self;
        }
        // The smallest quota is 1 ms, so the period has as many milliseconds as a second has rates.
        let millis = Duration::from_secs(1).as_nanos().div_ceil(rate.as_nanos());
        Self { period: Duration::from_millis(millis), ..self }
    }

    /// Checks the ranges that the kernel enforces.
    ///
    /// # Errors
    /// The first range that is violated; the kernel returns EINVAL for each.
    pub fn check(self) -> Result<(), CpuMaxError> {
        if self.period < Self::SHORTEST || self.period > Self::LONGEST_PERIOD {
            return Err(CpuMaxError::Period(self.period));
        }
        if let Some(slice) = self.slice.filter(|slice| *slice < Self::SHORTEST_SLICE || *slice > Self::LONGEST_PERIOD) {
            return Err(CpuMaxError::Slice(slice));
        }
        let Some(quota) = self.quota else {
            // Without a limit there is nothing to save: the kernel ignores burst and slice.
            return Ok(());
        };
        if quota < Self::SHORTEST {
            return Err(CpuMaxError::QuotaTooSmall(quota));
        }
        if quota > Self::LARGEST {
            return Err(CpuMaxError::QuotaTooLarge(quota));
        }
        if self.burst > quota {
            return Err(CpuMaxError::BurstAboveQuota { burst: self.burst, quota });
        }
        if quota.saturating_add(self.burst) > Self::LARGEST {
            return Err(CpuMaxError::QuotaTooLarge(quota.saturating_add(self.burst)));
        }
        Ok(())
    }
}

impl Default for CpuMax {
    fn default() -> Self {
        Self::UNLIMITED
    }
}

impl fmt::Display for CpuMax {
    /// Writes it in the format of `cpu.max`: microseconds, `max` for no limit; a burst and a slice
    /// follow in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota {
            Some(quota) => write!(f, "{} {}", quota.as_micros_floor(), self.period.as_micros_floor())?,
            None => write!(f, "max {}", self.period.as_micros_floor())?,
        }
        if !self.burst.is_zero() {
            write!(f, " (burst {})", self.burst.as_micros_floor())?;
        }
        self.slice.map_or(Ok(()), |slice| write!(f, " (slice {})", slice.as_micros_floor()))
    }
}

/// Why a limit is refused (EINVAL).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CpuMaxError {
    /// The period is outside 1 ms to 1 s.
    Period(Duration),
    /// The slice of the group is outside 1 us to 1 s.
    Slice(Duration),
    /// The quota is below 1 ms.
    QuotaTooSmall(Duration),
    /// Quota and burst are more than 2^44 - 1 us.
    QuotaTooLarge(Duration),
    /// The burst is larger than the quota.
    BurstAboveQuota {
        /// The burst.
        burst: Duration,
        /// The quota.
        quota: Duration,
    },
}

impl fmt::Display for CpuMaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Period(period) => {
                write!(f, "period {period} is outside {}..={}", CpuMax::SHORTEST, CpuMax::LONGEST_PERIOD)
            }
            Self::Slice(slice) => {
                write!(f, "slice {slice} is outside {}..={}", CpuMax::SHORTEST_SLICE, CpuMax::LONGEST_PERIOD)
            }
            Self::QuotaTooSmall(quota) => write!(f, "quota {quota} is below {}", CpuMax::SHORTEST),
            Self::QuotaTooLarge(total) => {
                write!(f, "quota and burst of {total} in all are above {}", CpuMax::LARGEST)
            }
            Self::BurstAboveQuota { burst, quota } => write!(f, "burst {burst} is above the quota {quota}"),
        }
    }
}

impl core::error::Error for CpuMaxError {}

/// The counters of a group's limit in `cpu.stat`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuStat {
    /// Periods in which a task of the group was running or waiting.
    pub nr_periods: u64,
    /// Of these, periods at whose end a CPU was throttled.
    pub nr_throttled: u64,
    /// Time for which a CPU's part of the group was throttled, added up over CPUs.
    pub throttled: Duration,
    /// Periods that used more than the quota.
    pub nr_bursts: u64,
    /// CPU time above the quota in these periods.
    pub burst: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_ranges_are_the_kernels() {
        let us = Duration::from_micros;
        let max =
            |quota, period, burst| CpuMax { quota: Some(us(quota)), period: us(period), burst: us(burst), slice: None };
        assert_eq!(CpuMax::UNLIMITED.check(), Ok(()));
        assert_eq!(max(1_000, 1_000, 0).check(), Ok(()));
        assert_eq!(max(999, 100_000, 0).check(), Err(CpuMaxError::QuotaTooSmall(us(999))));
        assert_eq!(max(1_000, 999, 0).check(), Err(CpuMaxError::Period(us(999))));
        assert_eq!(max(1_000, 1_000_001, 0).check(), Err(CpuMaxError::Period(us(1_000_001))));
        assert_eq!(max(5_000_000, 1_000_000, 5_000_000).check(), Ok(()));
        let sliced = |slice| CpuMax { slice: Some(us(slice)), ..max(5_000, 10_000, 0) }.check();
        assert_eq!([sliced(1), sliced(1_000_000)], [Ok(()); 2]);
        assert_eq!([0, 1_000_001].map(sliced), [0, 1_000_001].map(|slice| Err(CpuMaxError::Slice(us(slice)))));
        let above = CpuMaxError::BurstAboveQuota { burst: us(2_001), quota: us(2_000) };
        assert_eq!(max(2_000, 10_000, 2_001).check(), Err(above));
        assert_eq!(above.to_string(), "burst 2.001ms is above the quota 2ms");
    }

    #[test]
    fn it_reads_as_the_file_does() {
        let half = CpuMax { quota: Some(Duration::from_millis(50)), ..CpuMax::UNLIMITED };
        assert_eq!(half.to_string(), "50000 100000");
        assert_eq!(CpuMax::UNLIMITED.to_string(), "max 100000");
        assert_eq!(CpuMax { burst: Duration::from_millis(20), ..half }.to_string(), "50000 100000 (burst 20000)");
        assert_eq!(CpuMax { slice: Some(Duration::from_millis(1)), ..half }.to_string(), "50000 100000 (slice 1000)");
    }
}
