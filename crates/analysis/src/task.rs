//! [`Sporadic`]: a task as analysis sees it.
//!
//! A job is released at most once per period, computes no longer than its cost, and is to end
//! before its deadline. Everything else that a program can do (locks, suspension, changes) is no
//! part of this model: whoever makes a `Sporadic` of a program says what it leaves out.
//!
//! Sources: Mok 1983 (sporadic tasks); Tindell, Burns & Wellings 1994 (release jitter).

use core::fmt;
use zerolag_model::Duration;

/// A sporadic task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sporadic {
    cost: Duration,
    period: Duration,
    deadline: Duration,
    jitter: Duration,
    blocking: Duration,
}

/// Why a task is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TaskError {
    /// The cost is zero.
    NoCost,
    /// The period is zero.
    NoPeriod,
    /// A time is above [`Sporadic::LONGEST`].
    TooLong(Duration),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCost => f.write_str("the cost is zero"),
            Self::NoPeriod => f.write_str("the period is zero"),
            Self::TooLong(time) => write!(f, "{time} is longer than {}", Sporadic::LONGEST),
        }
    }
}

impl core::error::Error for TaskError {}

impl Sporadic {
    /// The longest time of a task: 10 years of 365.25 days. Sums over a million such tasks fit into
    /// 128 bits, and no analysis looks beyond it.
    pub const LONGEST: Duration = Duration::from_secs(315_576_000);

    /// Returns a task that computes up to `cost` per job, with `period` or more between releases,
    /// and with the deadline at the end of the period.
    ///
    /// # Errors
    /// The cost or the period is zero, or a time is too long.
    pub const fn new(cost: Duration, period: Duration) -> Result<Self, TaskError> {
        if cost.is_zero() {
            return Err(TaskError::NoCost);
        }
        if period.is_zero() {
            return Err(TaskError::NoPeriod);
        }
        if cost.as_nanos() > Self::LONGEST.as_nanos() {
            return Err(TaskError::TooLong(cost));
        }
        if period.as_nanos() > Self::LONGEST.as_nanos() {
            return Err(TaskError::TooLong(period));
        }
        Ok(Self { cost, period, deadline: period, jitter: Duration::ZERO, blocking: Duration::ZERO })
    }

    /// Returns it with a relative deadline, cut to [`LONGEST`](Self::LONGEST).
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline: deadline.min(Self::LONGEST), ..self }
    }

    /// Returns it with release jitter, cut to [`LONGEST`](Self::LONGEST): the time by which a
    /// release can be later than its arrival.
    #[must_use]
    pub fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter: jitter.min(Self::LONGEST), ..self }
    }

    /// Returns it with a blocking time, cut to [`LONGEST`](Self::LONGEST): the time for which less
    /// urgent tasks can delay one of its busy periods.
    #[must_use]
    pub fn with_blocking(self, blocking: Duration) -> Self {
        Self { blocking: blocking.min(Self::LONGEST), ..self }
    }

    /// Returns the longest computation of a job.
    #[must_use]
    pub const fn cost(&self) -> Duration {
        self.cost
    }

    /// Returns the shortest time between arrivals.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Returns the relative deadline.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns the release jitter.
    #[must_use]
    pub const fn jitter(&self) -> Duration {
        self.jitter
    }

    /// Returns the blocking time.
    #[must_use]
    pub const fn blocking(&self) -> Duration {
        self.blocking
    }

    /// Returns the share of a CPU that it can use.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        self.cost.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    /// Returns the cost over the shorter of deadline and period.
    #[must_use]
    pub fn density(&self) -> f64 {
        self.cost.as_nanos() as f64 / self.period.min(self.deadline).as_nanos().max(1) as f64
    }

    /// Returns the computation of all jobs that can be released in a window of this length, the
    /// request bound: one per period that has begun.
    #[must_use]
    pub fn requests(&self, window: Duration) -> Duration {
        if window.is_zero() {
            return Duration::ZERO;
        }
        times(jobs_in(window.saturating_add(self.jitter), self.period), self.cost)
    }

    /// Returns the computation of all jobs with release and deadline in a window of this length,
    /// the demand bound (Baruah, Rosier & Howell 1990).
    #[must_use]
    pub fn demand(&self, window: Duration) -> Duration {
        match (window.saturating_add(self.jitter)).as_nanos().checked_sub(self.deadline.as_nanos()) {
            Some(rest) => times(rest / self.period.as_nanos() + 1, self.cost),
            None => Duration::ZERO,
        }
    }
}

/// Returns the number of periods that begin in a window, rounded up.
pub(crate) const fn jobs_in(window: Duration, period: Duration) -> u64 {
    window.as_nanos().div_ceil(period.as_nanos())
}

/// Returns a multiple of a time, saturating.
pub(crate) const fn times(count: u64, time: Duration) -> Duration {
    Duration::from_nanos(time.as_nanos().saturating_mul(count))
}

/// Returns the sum of times, saturating.
pub(crate) fn sum(all: impl Iterator<Item = Duration>) -> Duration {
    all.fold(Duration::ZERO, Duration::saturating_add)
}

/// Returns the first length from this one on that is no less than the work which arrives in it, the
/// end of a busy period; none beyond [`Sporadic::LONGEST`], or after so many iterations. The work
/// must not decrease with the length.
pub(crate) fn fixed_point(
    mut length: Duration,
    rounds: usize,
    work: impl Fn(Duration) -> Duration,
) -> Option<Duration> {
    for _ in 0..rounds {
        let next = work(length);
        if next <= length {
            return Some(length);
        }
        if next > Sporadic::LONGEST {
            return None;
        }
        length = next;
    }
    None
}

/// Returns whether the shares of tasks add up to no more than one CPU, exactly.
///
/// Fractions are summed as integer parts and 128-bit remainders, rounded up: a sum above one by
/// less than the number of tasks times 2^-64 is called above one, never the other way.
#[must_use]
pub fn fits_one_cpu(tasks: &[Sporadic]) -> bool {
    // Periods of real sets are few, so equal ones are added exactly first.
    let mut shares: Vec<(u64, u128)> = Vec::new();
    for task in tasks {
        let (period, cost) = (task.period.as_nanos(), u128::from(task.cost.as_nanos()));
        match shares.iter_mut().find(|(known, _)| *known == period) {
            Some((_, sum)) => *sum += cost,
            None => shares.push((period, cost)),
        }
    }
    // The exact sum over a common denominator, as long as that fits.
    let exact = shares.iter().try_fold((0_u128, 1_u128), |(num, den), (period, cost)| {
        let period = u128::from(*period);
        let common = gcd(den, period);
        let (left, right) = (period / common, den / common);
        let num = num.checked_mul(left)?.checked_add(cost.checked_mul(right)?)?;
        Some((num, den.checked_mul(left)?))
    });
    match exact {
        Some((num, den)) => num <= den,
        None => {
            let one = 1_u128 << 64;
            let parts = shares.iter().map(|(period, cost)| (cost << 64).div_ceil(u128::from(*period)));
            parts.fold(0_u128, u128::saturating_add) <= one
        }
    }
}

const fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(cost: u64, period: u64) -> Sporadic {
        Sporadic::new(Duration::from_millis(cost), Duration::from_millis(period)).expect("a task")
    }

    #[test]
    fn requests_and_demand_count_jobs() {
        let task = ms(2, 10).with_deadline(Duration::from_millis(7));
        let at = |window| (task.requests(Duration::from_millis(window)), task.demand(Duration::from_millis(window)));
        let both = |requests, demand| (Duration::from_millis(requests), Duration::from_millis(demand));
        assert_eq!(
            [0, 1, 7, 10, 11, 17].map(at),
            [both(0, 0), both(2, 0), both(2, 2), both(2, 2), both(4, 2), both(4, 4)]
        );
        let late = ms(2, 10).with_jitter(Duration::from_millis(1));
        assert_eq!(late.requests(Duration::from_millis(10)), Duration::from_millis(4));
    }

    #[test]
    fn a_sum_of_shares_is_exact() {
        let thirds = [ms(1, 3); 3];
        assert!(fits_one_cpu(&thirds));
        assert!(!fits_one_cpu(&[ms(1, 3), ms(1, 3), ms(1, 3), ms(1, 1_000_000)]));
        assert!(fits_one_cpu(&[ms(1, 2), ms(1, 3), ms(1, 6)]));
        // Periods whose common multiple is beyond 128 bits.
        let primes = [1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099, 1_000_117];
        let share = |of: u64| primes.map(|period| ms(period / of, period));
        assert!(fits_one_cpu(&share(7)) && !fits_one_cpu(&share(6)));
    }

    #[test]
    fn impossible_tasks_are_refused() {
        let new = |cost, period| Sporadic::new(Duration::from_secs(cost), Duration::from_secs(period));
        assert_eq!(new(0, 1), Err(TaskError::NoCost));
        assert_eq!(new(1, 0), Err(TaskError::NoPeriod));
        assert!(matches!(new(1, 400_000_000), Err(TaskError::TooLong(_))));
    }
}
