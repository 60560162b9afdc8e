//! [`Asymmetric`]: the state of a CPU on a machine with CPUs of different capacity.
//! [`crate::class::fair::misfit`] has the rules.

use crate::words::config::Config;
use crate::words::level::FULL_CAPACITY;
use zerolag_model::{CpuId, Distance, Duration, Instant};

/// The state of a CPU on an asymmetric machine.
#[derive(Clone, Debug)]
pub(crate) struct Asymmetric {
    /// The smallest domain that spans all capacities.
    pub(crate) level: Distance,
    /// The capacity of this CPU.
    pub(crate) capacity: u64,
    /// The instant up to which `lag` is counted, on the task clock.
    at: Instant,
    lag: Duration,
    lost: Duration,
    runs: bool,
    /// The load of the running task if it does not fit this CPU; otherwise 0.
    pub(crate) misfit: u64,
}

impl Asymmetric {
    /// Creates the state of a CPU; `None` on a machine with equal CPUs.
    pub(crate) fn new(config: &Config, cpu: CpuId) -> Option<Self> {
        let level = config.topology.asymmetry()?;
        Some(Self {
            level,
            capacity: u64::from(config.topology.capacity(cpu)),
            at: Instant::ZERO,
            lag: Duration::ZERO,
            lost: Duration::ZERO,
            runs: false,
            misfit: 0,
        })
    }

    /// Returns how far the clock of the averages is behind the task clock.
    fn lag(&self, now: Instant) -> Duration {
        if !self.runs {
            return self.lag;
        }
        self.lag + now.since(self.at).mul_div_floor(FULL_CAPACITY - self.capacity, FULL_CAPACITY)
    }

    #[cold]
    pub(crate) fn averages_clock(&self, now: Instant) -> Instant {
        Instant::ZERO + now.since(Instant::ZERO).saturating_sub(self.lag(now))
    }

    /// Records that the CPU has become busy or idle. `is_full` says whether its utilisation shows
    /// that it has not idled.
    pub(crate) fn switched(&mut self, now: Instant, runs: bool, is_full: bool) {
        self.lag = self.lag(now);
        self.at = now;
        if self.runs && !runs {
            if is_full {
                self.lost = self.lag;
            } else {
                self.lag = self.lost;
            }
        }
        self.runs = runs;
    }
}

/// Returns whether a task of this utilisation fits a CPU with the remaining capacity `left`; a
/// fifth is kept in reserve. Linux: `fits_capacity`.
pub(crate) const fn fits(util: u64, left: u64) -> bool {
    util * 1280 < left * 1024
}

/// Returns whether one capacity exceeds another noticeably, by 5 %. Linux: `capacity_greater`.
pub(crate) const fn is_more(one: u64, other: u64) -> bool {
    one * 1024 > other * 1078
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::fair::Estimate;
    use zerolag_model::{Distance, Duration, Instant};

    fn uneven(capacity: u64) -> Asymmetric {
        let (at, lag) = (Instant::ZERO, Duration::ZERO);
        Asymmetric { level: Distance::Llc, capacity, at, lag, lost: lag, runs: false, misfit: 0 }
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_clock_is_slow_while_a_weak_cpu_runs_and_catches_up_when_it_idles() {
        let mut half = uneven(512);
        half.switched(ms(0), true, false);
        assert_eq!(half.lag(ms(10)), Duration::from_millis(5));
        half.switched(ms(10), false, false);
        assert_eq!(half.lag(ms(12)), Duration::ZERO);
    }

    #[test]
    fn what_a_full_cpu_was_behind_is_lost() {
        let mut half = uneven(512);
        half.switched(ms(0), true, false);
        half.switched(ms(10), false, true);
        assert_eq!(half.lag(ms(20)), Duration::from_millis(5));
        half.switched(ms(20), true, false);
        half.switched(ms(30), false, false);
        assert_eq!(half.lag(ms(40)), Duration::from_millis(5), "what was lost stays lost");
    }

    #[test]
    fn a_strong_cpu_is_never_behind() {
        let mut full = uneven(1024);
        full.switched(ms(0), true, false);
        assert_eq!(full.lag(ms(1000)), Duration::ZERO);
    }

    #[test]
    fn an_estimate_goes_up_at_once_and_down_by_quarters() {
        let up = Estimate::default().after(400, 400);
        assert_eq!(up, Estimate(400));
        assert_eq!(up.after(200, 200), Estimate(350));
        assert_eq!(up.after(200, 300), Estimate(400), "it waited: that it ran less says nothing");
        assert_eq!(up.after(395, 395), Estimate(400), "1 % is nothing");
    }

    #[test]
    fn a_fifth_is_kept_in_reserve() {
        assert!(fits(818, 1024));
        assert!(!fits(820, 1024));
        assert!(is_more(1024, 972));
        assert!(!is_more(1024, 973));
    }
}
