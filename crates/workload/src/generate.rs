//! Random task sets, as schedulability studies draw them.
//!
//! A study asks which share of random sets of a given utilization a test or a scheduler accepts.
//! Its answer depends on how sets are drawn: drawing each task's share alone and scaling the sum,
//! or filling up to the sum, favours some sets over others. The usual ways without such a bias are
//! here.
//!
//! | function | draws |
//! |---|---|
//! | [`uunifast`] | shares with a given sum, uniformly; a share can exceed 1 if the sum does |
//! | [`uunifast_discard`] | the same, until no share exceeds 1 |
//! | [`drs`] | shares with a given sum between bounds of each task |
//! | [`log_uniform`] | periods whose logarithm is uniform |
//! | [`TaskSets`] | whole sets |
//!
//! Same seed, same sets on every platform: see [`crate::random`]. Set `seed` of a [`TaskSets`] does
//! not depend on the other sets.
//!
//! Sources: Bini & Buttazzo 2005 (UUniFast); Davis & Burns 2009 (discard, periods as Emberson,
//! Stafford & Davis 2010 recommend); Griffin, Bate & Davis 2020 (Dirichlet-rescale).

use crate::random::Stream;
use core::fmt;
use std::fmt::Write;
use zerolag_model::Duration;

/// Why a set cannot be drawn.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum DrawError {
    /// A number is outside its range.
    Range {
        /// The parameter.
        key: &'static str,
        /// Its value.
        value: f64,
        /// The valid range.
        valid: &'static str,
    },
    /// The bounds leave no room for the sum.
    NoRoom {
        /// The sum.
        sum: f64,
        /// The sum of the lower bounds.
        low: f64,
        /// The sum of the upper bounds.
        high: f64,
    },
    /// Nothing valid was drawn in [`TRIES`] tries.
    Tries(&'static str),
}

impl fmt::Display for DrawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { key, value, valid } => write!(f, "{key}: {value} is outside {valid}"),
            Self::NoRoom { sum, low, high } => {
                write!(f, "utilization: shares between their bounds add up to {low}..={high}, not to {sum}")
            }
            Self::Tries(help) => write!(f, "no valid set in {TRIES} tries; {help}"),
        }
    }
}

impl core::error::Error for DrawError {}

/// The number of tries of methods that draw again.
pub const TRIES: u32 = 100_000;

/// Returns `count` shares whose sum is `sum`; all such points are equally likely.
///
/// One draw per share but the last.
#[must_use]
pub fn uunifast(count: usize, sum: f64, stream: &mut Stream) -> Vec<f64> {
    let mut shares = Vec::with_capacity(count);
    let mut rest = sum;
    for left in (1..count).rev() {
        let next = rest * libm::exp(libm::log(stream.unit()) / left as f64);
        shares.push(rest - next);
        rest = next;
    }
    if count > 0 {
        shares.push(rest);
    }
    shares
}

/// As [`uunifast`], drawn again until no share exceeds 1.
///
/// # Errors
/// No such shares in [`TRIES`] tries: for sums near the number of tasks use [`drs`].
pub fn uunifast_discard(count: usize, sum: f64, stream: &mut Stream) -> Result<Vec<f64>, DrawError> {
    if sum > count as f64 {
        return Err(DrawError::NoRoom { sum, low: 0.0, high: count as f64 });
    }
    for _ in 0..TRIES {
        let shares = uunifast(count, sum, stream);
        if shares.iter().all(|share| *share <= 1.0) {
            return Ok(shares);
        }
    }
    Err(DrawError::Tries("take the method drs, which draws between bounds"))
}

/// Returns shares whose sum is `sum`, each between the bounds of its place, by Dirichlet-rescale.
///
/// A point of the whole simplex is drawn. The points that exceed the bounds of some places, and
/// only of these, are part of a smaller simplex, which is stretched to the whole one; that is
/// repeated until no bound is exceeded. If the bounds leave less room above the point than below
/// it, the distances from the upper bounds are drawn instead.
///
/// # Errors
/// The bounds do not fit each other or the sum.
pub fn drs(sum: f64, bounds: &[(f64, f64)], stream: &mut Stream) -> Result<Vec<f64>, DrawError> {
    for (low, high) in bounds {
        if !(0.0 <= *low && low <= high && high.is_finite()) {
            return Err(DrawError::Range { key: "bounds", value: *low, valid: "0 <= lower bound <= upper bound" });
        }
    }
    let (low, high) = bounds.iter().fold((0.0, 0.0), |(low, high), next| (low + next.0, high + next.1));
    if !(low <= sum && sum <= high) {
        return Err(DrawError::NoRoom { sum, low, high });
    }
    let room: Vec<f64> = bounds.iter().map(|(low, high)| high - low).collect();
    let (above, below) = (sum - low, high - sum);
    let shares = if above <= below {
        let extra = rescale(above, &room, stream)?;
        bounds.iter().zip(extra).map(|((low, _), extra)| low + extra).collect()
    } else {
        let less = rescale(below, &room, stream)?;
        bounds.iter().zip(less).map(|((_, high), less)| high - less).collect()
    };
    Ok(shares)
}

/// Draws values from zero to `room` with a sum of at most half of all room.
fn rescale(sum: f64, room: &[f64], stream: &mut Stream) -> Result<Vec<f64>, DrawError> {
    let exact = 1e-9 * sum.max(1e-9);
    for _ in 0..TRIES {
        let mut values = uunifast(room.len(), sum, stream);
        // Each round stretches by a factor above 1, and with it the rounding of the numbers.
        for _ in 0..RESCALES {
            let exceeded = |(value, room): (&f64, &f64)| if value > room { *room } else { 0.0 };
            let above: f64 = values.iter().zip(room).map(exceeded).sum();
            if above == 0.0 {
                break;
            }
            let factor = sum / (sum - above);
            for (value, room) in values.iter_mut().zip(room) {
                *value = (*value - exceeded((value, room))) * factor;
            }
        }
        let is_within = values.iter().zip(room).all(|(value, room)| *value >= 0.0 && value <= room);
        if is_within && (values.iter().sum::<f64>() - sum).abs() <= exact {
            return Ok(values);
        }
    }
    Err(DrawError::Tries("the bounds leave next to no room"))
}

const RESCALES: u32 = 1_000;

/// Draws a period whose logarithm is uniform, rounded to a multiple of `grain`.
#[must_use]
pub fn log_uniform(shortest: Duration, longest: Duration, grain: Duration, stream: &mut Stream) -> Duration {
    let (low, high) = (libm::log(shortest.as_nanos() as f64), libm::log(longest.as_nanos() as f64));
    let nanos = libm::exp(low + (high - low) * stream.unit());
    let grain = grain.as_nanos().max(1);
    let rounded = (libm::floor(nanos / grain as f64 + 0.5) as u64).saturating_mul(grain);
    Duration::from_nanos(rounded).clamp(shortest, longest)
}

/// How shares are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Shares {
    /// [`uunifast_discard`].
    UUniFast,
    /// [`drs`] with the same bounds for each task.
    Drs {
        /// The smallest share of a task.
        low: f64,
        /// The largest share of a task.
        high: f64,
    },
}

/// How periods are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Periods {
    /// [`log_uniform`].
    LogUniform,
    /// Uniformly.
    Uniform,
}

/// The sets of a study.
///
/// ```
/// use zerolag_workload::generate::TaskSets;
///
/// let sets = TaskSets { utilization: 0.8, ..TaskSets::default() };
/// let set = sets.draw(7)?;
/// assert_eq!(set.len(), 10);
/// let sum: f64 = set.iter().map(|task| task.cost.as_nanos() as f64 / task.period.as_nanos() as f64).sum();
/// assert!((sum - 0.8).abs() < 1e-4);
/// assert_eq!(sets.draw(7)?, set);
/// # Ok::<(), zerolag_workload::generate::DrawError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct TaskSets {
    /// The number of tasks.
    pub tasks: usize,
    /// The sum of cost over period.
    pub utilization: f64,
    /// How it is divided.
    pub shares: Shares,
    /// How periods are drawn.
    pub periods: Periods,
    /// The shortest period.
    pub shortest: Duration,
    /// The longest period.
    pub longest: Duration,
    /// Periods are multiples of it.
    pub grain: Duration,
    /// The deadline lies uniformly between these shares of the time from the cost to the end of the
    /// period: (1, 1) is the end of the period.
    pub deadlines: (f64, f64),
}

impl Default for TaskSets {
    /// 10 tasks of one half CPU together, periods of 1 to 100 ms in whole 100 us, deadlines at the
    /// end of periods.
    fn default() -> Self {
        Self {
            tasks: 10,
            utilization: 0.5,
            shares: Shares::UUniFast,
            periods: Periods::LogUniform,
            shortest: Duration::from_millis(1),
            longest: Duration::from_millis(100),
            grain: Duration::from_micros(100),
            deadlines: (1.0, 1.0),
        }
    }
}

/// A task of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drawn {
    /// Computation per period.
    pub cost: Duration,
    /// The relative deadline.
    pub deadline: Duration,
    /// The period.
    pub period: Duration,
}

impl TaskSets {
    /// Returns the set of a seed. Costs are rounded down to nanoseconds, at least 2 us: such a task
    /// exceeds its share.
    ///
    /// # Errors
    /// A parameter is invalid, or the shares cannot be drawn.
    pub fn draw(&self, seed: u64) -> Result<Vec<Drawn>, DrawError> {
        self.check()?;
        let count = u32::try_from(self.tasks).unwrap_or(u32::MAX);
        let mut stream = Stream::new(seed, "task-set", count, "shares");
        let shares = match self.shares {
            Shares::UUniFast => uunifast_discard(self.tasks, self.utilization, &mut stream)?,
            Shares::Drs { low, high } => drs(self.utilization, &vec![(low, high); self.tasks], &mut stream)?,
        };
        let mut periods = Stream::new(seed, "task-set", count, "periods");
        let mut deadlines = Stream::new(seed, "task-set", count, "deadlines");
        let task = |share: f64| {
            let period = match self.periods {
                Periods::LogUniform => log_uniform(self.shortest, self.longest, self.grain, &mut periods),
                Periods::Uniform => {
                    let grain = self.grain.as_nanos().max(1);
                    let (low, high) = (self.shortest.as_nanos().div_ceil(grain), self.longest.as_nanos() / grain);
                    Duration::from_nanos((low + periods.below(high.saturating_sub(low) + 1)) * grain)
                }
            };
            let cost = Duration::from_nanos((share * period.as_nanos() as f64) as u64);
            let cost = cost.clamp(SHORTEST_COST.min(period), period);
            let (low, high) = self.deadlines;
            let at = low + (high - low) * deadlines.unit();
            let room = period.saturating_sub(cost).as_nanos() as f64;
            let deadline = cost.saturating_add(Duration::from_nanos((room * at) as u64));
            // Floating point numbers end a little before the period.
            let deadline = if low >= 1.0 { period } else { deadline.min(period) };
            Drawn { cost, deadline, period }
        };
        Ok(shares.into_iter().map(task).collect())
    }

    fn check(&self) -> Result<(), DrawError> {
        let range = |key, value: f64, is_valid: bool, valid| {
            if is_valid { Ok(()) } else { Err(DrawError::Range { key, value, valid }) }
        };
        let (shortest, longest) = (self.shortest.as_nanos(), self.longest.as_nanos());
        range("tasks", self.tasks as f64, (1..=10_000).contains(&self.tasks), "1..=10000")?;
        let is_share = self.utilization > 0.0 && self.utilization <= self.tasks as f64;
        range("utilization", self.utilization, is_share, "0 (excluded) to the number of tasks")?;
        range("shortest", shortest as f64, shortest >= 10_000, "10 us or more")?;
        let is_longest = longest >= shortest && self.longest <= crate::random::MAX_TIME;
        range("longest", longest as f64, is_longest, "the shortest period to 10 years")?;
        let grain = self.grain.as_nanos();
        range(
            "grain",
            grain as f64,
            longest / grain.max(1) >= shortest.div_ceil(grain.max(1)),
            "a multiple of it is a period",
        )?;
        let (low, high) = self.deadlines;
        range("deadlines", low, 0.0 <= low && low <= high && high <= 1.0, "0 <= first <= second <= 1")
    }
}

/// More than the kernel's least runtime of a deadline task, 1024 ns.
const SHORTEST_COST: Duration = Duration::from_micros(2);

/// Returns a set as the text of a workload: a [table of periodic tasks](crate::builtin).
#[must_use]
pub fn to_csv(set: &[Drawn]) -> String {
    let mut csv = String::from("task,runtime_ns,deadline_ns,period_ns\n");
    for (index, task) in set.iter().enumerate() {
        let [cost, deadline, period] = [task.cost, task.deadline, task.period].map(Duration::as_nanos);
        writeln!(csv, "t{index},{cost},{deadline},{period}").expect("a string takes everything");
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::{PeriodicPolicy, periodic};

    fn stream(purpose: &str) -> Stream {
        Stream::new(1, "test", 0, purpose)
    }

    #[test]
    fn uunifast_is_uniform_on_the_simplex() {
        // Of three shares with the sum 1 each has the mean 1/3, and exceeds x with probability (1 -
        // x)^2.
        let mut stream = stream("uunifast");
        let drawn: Vec<Vec<f64>> = (0..20_000).map(|_| uunifast(3, 1.0, &mut stream)).collect();
        for place in 0..3 {
            for x in [0.1, 0.3, 0.5, 0.8] {
                let above = drawn.iter().filter(|shares| shares[place] > x).count() as f64 / 20_000.0;
                assert!((above - (1.0 - x) * (1.0 - x)).abs() < 0.012, "{place}: {above} above {x}");
            }
        }
        assert!(drawn.iter().all(|shares| (shares.iter().sum::<f64>() - 1.0).abs() < 1e-12));
    }

    #[test]
    fn drs_draws_what_discarding_draws() {
        let bounds = [(0.05, 0.5), (0.0, 0.9), (0.2, 0.4), (0.1, 0.3)];
        for sum in [0.6, 1.0, 1.6] {
            let mut one = stream("drs");
            let drawn: Vec<Vec<f64>> =
                (0..20_000).map(|_| drs(sum, &bounds, &mut one).expect("there is room")).collect();
            let mut other = stream("discard");
            let is_within =
                |shares: &Vec<f64>| shares.iter().zip(bounds).all(|(share, (low, high))| (low..=high).contains(share));
            let all = std::iter::repeat_with(|| uunifast(4, sum, &mut other)).filter(is_within);
            let kept: Vec<Vec<f64>> = all.take(4_000).collect();
            assert!(drawn.iter().all(|shares| (shares.iter().sum::<f64>() - sum).abs() < 1e-8 && is_within(shares)));
            for place in 0..4 {
                for part in [0.25, 0.5, 0.75] {
                    let x = bounds[place].0 + part * (bounds[place].1 - bounds[place].0);
                    let above = |all: &[Vec<f64>]| {
                        all.iter().filter(|shares| shares[place] > x).count() as f64 / all.len() as f64
                    };
                    let [found, expected] = [above(&drawn), above(&kept)];
                    assert!(
                        (found - expected).abs() < 0.035,
                        "{place} of {sum}: {found} above {x}, expected {expected}"
                    );
                }
            }
        }
        let mut one = stream("no room");
        assert!(matches!(drs(1.7, &[(0.0, 0.8); 2], &mut one), Err(DrawError::NoRoom { .. })));
        assert_eq!(drs(1.6, &[(0.0, 0.8); 2], &mut one), Ok(vec![0.8, 0.8]));
    }

    #[test]
    fn periods_are_as_asked() {
        let mut one = stream("periods");
        let (ms, us) = (Duration::from_millis, Duration::from_micros);
        let all: Vec<Duration> = (0..10_000).map(|_| log_uniform(ms(1), ms(100), us(100), &mut one)).collect();
        assert!(all.iter().all(|period| period.as_micros_floor() % 100 == 0 && (ms(1)..=ms(100)).contains(period)));
        // Half of them below the geometric mean.
        let below = all.iter().filter(|period| **period < ms(10)).count();
        assert!((4_800..5_200).contains(&below), "{below}");
    }

    #[test]
    fn a_set_is_a_workload() {
        let sets = TaskSets { tasks: 20, utilization: 3.2, deadlines: (0.5, 1.0), ..TaskSets::default() };
        let set = sets.draw(3).expect("a set");
        assert_ne!(sets.draw(4).expect("a set"), set);
        assert!(set.iter().all(|task| task.cost <= task.deadline && task.deadline <= task.period));
        let program = periodic(&to_csv(&set), PeriodicPolicy::Deadline).expect("a table");
        assert_eq!(program.tasks.len(), 20);
    }

    #[test]
    fn parameters_are_checked() {
        let says = |sets: TaskSets| sets.draw(1).expect_err("invalid").to_string();
        assert!(says(TaskSets { tasks: 0, ..TaskSets::default() }).starts_with("tasks: 0 is outside"));
        assert!(says(TaskSets { utilization: 11.0, ..TaskSets::default() }).starts_with("utilization: 11 is outside"));
        assert!(says(TaskSets { utilization: f64::NAN, ..TaskSets::default() }).starts_with("utilization"));
        assert!(says(TaskSets { longest: Duration::ZERO, ..TaskSets::default() }).starts_with("longest"));
        assert!(says(TaskSets { deadlines: (0.5, 1.5), ..TaskSets::default() }).starts_with("deadlines"));
        let shares = Shares::Drs { low: 0.125, high: 0.25 };
        assert!(says(TaskSets { shares, ..TaskSets::default() }).contains("add up to 1.25..=2.5, not to 0.5"));
        assert!(says(TaskSets { utilization: 10.0, ..TaskSets::default() }).contains("take the method drs"));
    }
}
