//! Random times: distributions ([`Dist`]) and the named streams they draw from ([`Stream`]).
//!
//! With one generator per run, adding a task would change every later draw, and a comparison of two
//! settings would compare two different workloads. So a stream belongs to one task, one instance
//! and one purpose, and is seeded from those names and the run's seed alone. Adding a task, or a
//! random step to a task, changes no other draw. Two runs that differ in one setting see the same
//! arrivals (common random numbers), and their difference is the effect of the setting.
//!
//! Every distribution takes *exactly one* 64-bit number per sample, by inverting its distribution
//! function between its bounds; [`Dist::Constant`] takes none. Rejection sampling was rejected: its
//! number of draws depends on the values, so changing one bound would shift every later sample of
//! the stream.
//!
//! Same inputs, same samples on every platform: the generator is integer arithmetic, logarithm and
//! exponential come from `libm` compiled in (never from the platform), and the other floating point
//! operations (`+ - * / sqrt`) are exact by IEEE 754.
//!
//! Cost: O(1) per sample, O(alternatives) for a choice.
//!
//! Sources: O'Neill 2014, *PCG*, sec. 6.3 (XSL-RR 128/64, the `pcg64` of its author); Steele, Lea &
//! Flood 2014 (SplitMix64 finalizer).

mod normal;

use core::fmt;
use normal::{normal_cdf, normal_quantile};
use std::sync::Arc;
use zerolag_model::Duration;

/// The longest time in a workload: 10 years of 365.25 days.
pub const MAX_TIME: Duration = Duration::from_secs(315_576_000);

/// A stream of random numbers: `pcg64` (PCG XSL-RR 128/64).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    state: u128,
    increment: u128,
    /// The place in a sequence of the next sample from one.
    place: u64,
    /// By how much a sample moves it on.
    step: u64,
}

/// The multiplier of PCG's 128-bit generators.
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

impl Stream {
    /// Returns the stream of one instance of a task for one purpose (`"run"`, `"arrivals"`).
    ///
    /// Streams of different names are independent for all practical purposes: 128 bits of the
    /// generator's state and the choice of its sequence both come from the hashed names.
    #[must_use]
    pub fn new(seed: u64, task_name: &str, instance: u32, purpose: &str) -> Self {
        let lane = |salt: u64| {
            let mut hash = absorb(absorb(salt, seed), u64::from(instance));
            for text in [task_name, purpose] {
                hash = absorb(hash, text.len() as u64);
                for chunk in text.as_bytes().chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    hash = absorb(hash, u64::from_le_bytes(word));
                }
            }
            hash
        };
        let wide = |high, low| u128::from(lane(high)) << 64 | u128::from(lane(low));
        Self { place: Self::first_place(seed), ..Self::from_state(wide(1, 2), wide(3, 4)) }
    }

    /// Returns the place at which sequences of a run with this seed begin: the first with seed 0.
    /// It does not depend on names, so sequences of the same length stay beside each other.
    #[must_use]
    pub const fn first_place(seed: u64) -> u64 {
        if seed == 0 { 0 } else { absorb(0, seed) >> 1 }
    }

    /// Returns the stream with one place in every sequence, in place of the next one each time.
    #[must_use]
    pub const fn at_place(mut self, place: u64) -> Self {
        (self.place, self.step) = (place, 0);
        self
    }

    /// Returns `pcg64` seeded as its author's `pcg64_srandom_r(state, sequence)`.
    fn from_state(state: u128, sequence: u128) -> Self {
        let mut stream = Self { state: 0, increment: sequence << 1 | 1, place: 0, step: 1 };
        stream.step();
        stream.state = stream.state.wrapping_add(state);
        stream.step();
        stream
    }

    const fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    /// Draws the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// Draws a number of 0..n with one draw; the bias is below `n / 2^64`.
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a number below 0 does not exist");
        let wide = u128::from(self.next_u64()) * u128::from(n);
        u64::try_from(wide >> 64).expect("invariant: the upper half of a 128-bit product")
    }

    /// Draws a number of the open interval (0, 1): the midpoint of one of 2^53 equal parts.
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) as f64 + 0.5) * (1.0 / 9_007_199_254_740_992.0)
    }
}

/// Mixes one word into a hash: SplitMix64's finalizer.
const fn absorb(hash: u64, word: u64) -> u64 {
    let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A distribution of times. Samples are whole nanoseconds within its [`Bounds`].
#[derive(Clone, PartialEq, Debug)]
pub enum Dist {
    /// Always the same; draws nothing.
    Constant(Duration),
    /// Drawn, one number per sample. Created by [`Dist::uniform`] and its siblings, which check the
    /// parameters.
    Drawn(Arc<Drawn>),
}

/// A distribution that draws; its parameters have been checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Drawn {
    shape: DistFamily,
    bounds: Bounds,
}

/// The family of a distribution; times in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
enum DistFamily {
    Uniform,
    Normal {
        mean: f64,
        deviation: f64,
        /// The distribution function at the bounds.
        at: [f64; 2],
    },
    Exponential {
        mean: f64,
        at: [f64; 2],
    },
    LogNormal {
        log_median: f64,
        sigma: f64,
        at: [f64; 2],
    },
    Choice {
        /// Running totals of the weights, with the time of each alternative.
        upto: Vec<(u64, Duration)>,
    },
    Sequence {
        times: Vec<Duration>,
    },
}

/// The closed interval of the samples. Distributions are *truncated* to it: the parts outside are
/// cut off and the rest is scaled up, so samples do not accumulate at the bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The smallest sample.
    pub low: Duration,
    /// The largest sample.
    pub high: Duration,
}

impl Default for Bounds {
    /// From zero to [`MAX_TIME`].
    fn default() -> Self {
        Self { low: Duration::ZERO, high: MAX_TIME }
    }
}

/// Why a distribution is invalid.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum DistError {
    /// A time is above [`MAX_TIME`].
    TooLong(Duration),
    /// The lower bound is above the upper one.
    Backwards(Bounds),
    /// A parameter that must be above zero is zero.
    Zero(&'static str),
    /// `sigma` is not a number above 0 and at most 10.
    Sigma(f64),
    /// Less than a millionth of the distribution lies within the bounds.
    NothingWithin(Bounds),
    /// A sequence without times.
    Empty,
    /// A choice without alternatives, with only zero weights, or with weights above 2^32 in all.
    Weights,
}

impl fmt::Display for DistError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(time) => write!(f, "{time} is longer than 10 years"),
            Self::Backwards(bounds) => write!(f, "lower bound {} is above upper bound {}", bounds.low, bounds.high),
            Self::Zero(parameter) => write!(f, "{parameter} must be above zero"),
            Self::Sigma(sigma) => write!(f, "sigma {sigma} is outside 0..=10"),
            Self::NothingWithin(bounds) => {
                write!(f, "less than a millionth of the distribution lies within {}..={}", bounds.low, bounds.high)
            }
            Self::Empty => f.write_str("a sequence needs a time"),
            Self::Weights => f.write_str("a choice needs an alternative of weight above 0, all weights below 2^32"),
        }
    }
}

impl core::error::Error for DistError {}

impl Dist {
    /// Returns the distribution in which all of `low..=high` is equally likely.
    ///
    /// # Errors
    /// `low` above `high`, or a bound above [`MAX_TIME`].
    pub fn uniform(low: Duration, high: Duration) -> Result<Self, DistError> {
        Self::drawn(Bounds { low, high }, |_| Ok(DistFamily::Uniform))
    }

    /// Returns the normal distribution, truncated.
    ///
    /// # Errors
    /// `deviation` zero, bounds in the wrong order or without mass, or a time above [`MAX_TIME`].
    pub fn normal(mean: Duration, deviation: Duration, bounds: Bounds) -> Result<Self, DistError> {
        let [mean, deviation] = [positive_or_zero(mean)?, positive("deviation", deviation)?];
        Self::drawn(bounds, |[low, high]| {
            let at = [low, high].map(|x| normal_cdf((x - mean) / deviation));
            Ok(DistFamily::Normal { mean, deviation, at })
        })
    }

    /// Returns the exponential distribution, truncated. `mean` is that of the distribution before
    /// truncation.
    ///
    /// # Errors
    /// `mean` zero, bounds in the wrong order or without mass, or a time above [`MAX_TIME`].
    pub fn exponential(mean: Duration, bounds: Bounds) -> Result<Self, DistError> {
        let mean = positive("mean", mean)?;
        Self::drawn(bounds, |[low, high]| {
            let at = [low, high].map(|x| 1.0 - libm::exp(-x / mean));
            Ok(DistFamily::Exponential { mean, at })
        })
    }

    /// Returns the lognormal distribution, truncated: its logarithm is normal with deviation
    /// `sigma` around the logarithm of `median`.
    ///
    /// # Errors
    /// `median` zero, `sigma` outside 0..=10, bounds in the wrong order or without mass, or a time
    /// above [`MAX_TIME`].
    pub fn lognormal(median: Duration, sigma: f64, bounds: Bounds) -> Result<Self, DistError> {
        let log_median = libm::log(positive("median", median)?);
        if !(sigma > 0.0 && sigma <= 10.0) {
            return Err(DistError::Sigma(sigma));
        }
        Self::drawn(bounds, |[low, high]| {
            let at = [low, high].map(|x| if x > 0.0 { normal_cdf((libm::log(x) - log_median) / sigma) } else { 0.0 });
            Ok(DistFamily::LogNormal { log_median, sigma, at })
        })
    }

    /// Returns the lognormal distribution with a median and a time that nine tenths do not exceed.
    /// A `p90` not above the median is one just above it.
    ///
    /// # Errors
    /// As [`lognormal`](Self::lognormal).
    pub fn lognormal_through(median: Duration, p90: Duration, bounds: Bounds) -> Result<Self, DistError> {
        // The 90 % point of the standard normal distribution.
        let sigma = libm::log(positive("p90", p90)? / positive("median", median)?) / 1.281_551_565_5;
        Self::lognormal(median, sigma.clamp(0.001, 10.0), bounds)
    }

    /// Returns the distribution that takes one of several times, each with a probability
    /// proportional to its weight.
    ///
    /// # Errors
    /// No alternative of weight above zero, weights of 2^32 or more in all, or a time above
    /// [`MAX_TIME`].
    pub fn choice(alternatives: &[(Duration, u32)]) -> Result<Self, DistError> {
        let mut total = 0_u64;
        let upto: Vec<_> = alternatives
            .iter()
            .filter(|(_, weight)| *weight > 0)
            .map(|(time, weight)| {
                total += u64::from(*weight);
                (total, *time)
            })
            .collect();
        if total == 0 || total > u64::from(u32::MAX) {
            return Err(DistError::Weights);
        }
        let times = || upto.iter().map(|(_, time)| *time);
        let bounds = Bounds { low: times().min().unwrap_or_default(), high: times().max().unwrap_or_default() };
        Self::drawn(bounds, |_| Ok(DistFamily::Choice { upto: upto.clone() }))
    }

    /// Returns the "distribution" of times one after the other, again from the first one after the
    /// last; it draws nothing. A request takes the time at the place of its number, so arrivals and
    /// demands of one recording stay beside each other. A seed other than 0 begins elsewhere.
    ///
    /// # Errors
    /// No time, or one above [`MAX_TIME`].
    pub fn sequence(times: Vec<Duration>) -> Result<Self, DistError> {
        let (Some(low), Some(high)) = (times.iter().min().copied(), times.iter().max().copied()) else {
            return Err(DistError::Empty);
        };
        Self::drawn(Bounds { low, high }, |_| Ok(DistFamily::Sequence { times }))
    }

    /// Checks the bounds and that mass lies within, and collapses an interval of one point to a
    /// constant.
    fn drawn(bounds: Bounds, shape: impl FnOnce([f64; 2]) -> Result<DistFamily, DistError>) -> Result<Self, DistError> {
        if bounds.low > bounds.high {
            return Err(DistError::Backwards(bounds));
        }
        if bounds.high > MAX_TIME {
            return Err(DistError::TooLong(bounds.high));
        }
        let shape = shape([bounds.low, bounds.high].map(|time| time.as_nanos() as f64))?;
        let mass = match &shape {
            DistFamily::Normal { at, .. } | DistFamily::Exponential { at, .. } | DistFamily::LogNormal { at, .. } => {
                at[1] - at[0]
            }
            DistFamily::Uniform | DistFamily::Choice { .. } | DistFamily::Sequence { .. } => 1.0,
        };
        if bounds.low == bounds.high {
            return Ok(Self::Constant(bounds.low));
        }
        if mass.is_nan() || mass < 1e-6 {
            return Err(DistError::NothingWithin(bounds));
        }
        Ok(Self::Drawn(Arc::new(Drawn { shape, bounds })))
    }

    /// Draws a time; a constant leaves the stream untouched.
    #[must_use]
    pub fn sample(&self, stream: &mut Stream) -> Duration {
        match self {
            Self::Constant(time) => *time,
            Self::Drawn(drawn) => drawn.sample(stream),
        }
    }

    /// Returns the interval of the samples.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        match self {
            Self::Constant(time) => Bounds { low: *time, high: *time },
            Self::Drawn(drawn) => drawn.bounds,
        }
    }

    /// Returns whether every sample is zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.bounds().high.is_zero()
    }
}

impl From<Duration> for Dist {
    fn from(time: Duration) -> Self {
        Self::Constant(time)
    }
}

impl Drawn {
    fn sample(&self, stream: &mut Stream) -> Duration {
        let Bounds { low, high } = self.bounds;
        let within = |at: &[f64; 2], stream: &mut Stream| at[0] + (at[1] - at[0]) * stream.unit();
        let nanos = match &self.shape {
            DistFamily::Uniform => {
                return low + Duration::from_nanos(stream.below((high.saturating_sub(low)).as_nanos() + 1));
            }
            DistFamily::Choice { upto } => {
                let total = upto.last().map_or(1, |(total, _)| *total);
                let ticket = stream.below(total);
                let place = upto.partition_point(|(upto, _)| *upto <= ticket);
                return upto.get(place).map_or(low, |(_, time)| *time);
            }
            DistFamily::Sequence { times } => {
                let place = stream.place % times.len() as u64;
                stream.place = stream.place.wrapping_add(stream.step);
                return times[place as usize];
            }
            DistFamily::Normal { mean, deviation, at } => mean + deviation * normal_quantile(within(at, stream)),
            DistFamily::Exponential { mean, at } => -mean * libm::log(1.0 - within(at, stream)),
            DistFamily::LogNormal { log_median, sigma, at } => {
                libm::exp(log_median + sigma * normal_quantile(within(at, stream)))
            }
        };
        // A saturating cast: below zero and NaN give 0, then the bounds hold.
        let nanos = libm::floor(nanos + 0.5) as u64;
        Duration::from_nanos(nanos).clamp(low, high)
    }
}

fn positive_or_zero(time: Duration) -> Result<f64, DistError> {
    if time > MAX_TIME { Err(DistError::TooLong(time)) } else { Ok(time.as_nanos() as f64) }
}

fn positive(parameter: &'static str, time: Duration) -> Result<f64, DistError> {
    if time.is_zero() { Err(DistError::Zero(parameter)) } else { positive_or_zero(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);
    const MS: Duration = Duration::from_millis(1);

    fn mean_us(dist: &Dist) -> f64 {
        let mut stream = Stream::new(7, "mean", 0, "test");
        let samples = 200_000;
        let sum: u64 = (0..samples).map(|_| dist.sample(&mut stream).as_nanos()).sum();
        sum as f64 / samples as f64 / 1e3
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // Round 1 of the check output that comes with the author's C library (`pcg64`, seed 42,
        // sequence 54).
        let mut stream = Stream::from_state(42, 54);
        let published = [
            0x86b1_da1d_7206_2b68,
            0x1304_aa46_c985_3d39,
            0xa367_0e9e_0dd5_0358,
            0xf909_0e52_9a7d_ae00,
            0xc85b_9fd8_3799_6f2c,
            0x6061_21f8_e391_9196,
        ];
        assert_eq!(published.map(|_| stream.next_u64()), published);
    }

    #[test]
    fn a_constant_draws_nothing() {
        let mut stream = Stream::new(1, "a", 0, "run");
        let untouched = stream.clone();
        assert_eq!(Dist::Constant(MS).sample(&mut stream), MS);
        assert_eq!(stream, untouched);
    }

    #[test]
    fn every_distribution_draws_once() {
        let bounds = Bounds::default();
        let dists = [
            Dist::uniform(US, MS),
            Dist::normal(MS, US, bounds),
            Dist::exponential(MS, bounds),
            Dist::lognormal(MS, 1.0, bounds),
            Dist::choice(&[(US, 1), (MS, 2)]),
        ];
        for dist in dists {
            let dist = dist.expect("valid");
            let (mut a, mut b) = (Stream::new(3, "x", 1, "y"), Stream::new(3, "x", 1, "y"));
            let _ = dist.sample(&mut a);
            b.next_u64();
            assert_eq!(a, b, "{dist:?}");
        }
    }

    #[test]
    fn samples_are_the_same_everywhere_and_always() {
        let bounds = Bounds { low: US, high: MS * 100 };
        let drawn = |dist: Result<Dist, DistError>| {
            let dist = dist.expect("valid");
            let mut stream = Stream::new(2026, "golden", 3, "run");
            [0; 4].map(|_: i32| dist.sample(&mut stream).as_nanos())
        };
        assert_eq!(Stream::new(2026, "golden", 3, "run").next_u64(), 0x8772_bc3f_ad85_447f);
        assert_eq!(drawn(Dist::uniform(US, MS)), [529_565, 756_327, 714_882, 566_665]);
        assert_eq!(drawn(Dist::normal(MS, MS, bounds)), [1_263_507, 1_823_332, 1_706_128, 1_345_540]);
        assert_eq!(drawn(Dist::exponential(MS, bounds)), [754_098, 1_411_925, 1_254_849, 836_243]);
        assert_eq!(drawn(Dist::lognormal(MS, 1.5, bounds)), [1_113_335, 2_820_096, 2_332_456, 1_281_298]);
        assert_eq!(drawn(Dist::choice(&[(US, 1), (MS, 1), (MS * 2, 2)])), [2_000_000, 2_000_000, 2_000_000, 2_000_000]);
    }

    #[test]
    fn a_sequence_is_repeated_from_a_place_of_the_seed() {
        let times: Vec<Duration> = (1..=5).map(|us| US * us).collect();
        let dist = Dist::sequence(times).expect("valid");
        let drawn = |stream: &mut Stream, count: usize| {
            (0..count).map(|_| dist.sample(stream).as_nanos() / 1000).collect::<Vec<_>>()
        };
        let of = |seed, name| Stream::new(seed, name, 0, "run");
        assert_eq!(drawn(&mut of(0, "a"), 7), [1, 2, 3, 4, 5, 1, 2]);
        let mut begins: Vec<u64> = (1..40).map(|seed| drawn(&mut of(seed, "a"), 1)[0]).collect();
        let also: Vec<u64> = (1..40).map(|seed| drawn(&mut of(seed, "b"), 1)[0]).collect();
        assert_eq!(begins, also, "the same place of all sequences");
        begins.sort_unstable();
        begins.dedup();
        assert_eq!(begins, [1, 2, 3, 4, 5]);
        assert_eq!(drawn(&mut of(7, "a").at_place(6), 3), [2; 3], "a request has one place");
        assert_eq!(Dist::sequence(Vec::new()), Err(DistError::Empty));
        assert_eq!(Dist::sequence(vec![MS, MS]), Ok(Dist::Constant(MS)));
    }

    #[test]
    fn names_seeds_and_instances_part_streams() {
        let first = |seed, name, instance, purpose| Stream::new(seed, name, instance, purpose).next_u64();
        let mut seen: Vec<u64> = vec![
            first(1, "a", 0, "run"),
            first(2, "a", 0, "run"),
            first(1, "b", 0, "run"),
            first(1, "a", 1, "run"),
            first(1, "a", 0, "sleep"),
            first(1, "ar", 0, "un"),
            first(1, "a\0", 0, "run"),
            first(1, "", 0, "arun"),
        ];
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 8);
    }

    #[test]
    fn means_are_where_they_should_be() {
        let bounds = Bounds::default();
        let near = |dist: Result<Dist, DistError>, expected: f64| {
            let mean = mean_us(&dist.expect("valid"));
            assert!((mean / expected - 1.0).abs() < 0.01, "{mean} is not {expected}");
        };
        near(Dist::uniform(Duration::ZERO, MS), 500.0);
        near(Dist::normal(MS, US * 100, bounds), 1000.0);
        // Cut at zero, half a normal distribution: deviation * sqrt(2 / pi).
        near(Dist::normal(Duration::ZERO, MS, bounds), 797.88);
        near(Dist::exponential(MS, bounds), 1000.0);
        // Cut at its mean: mean * (1 - 1 / (e - 1)).
        near(Dist::exponential(MS, Bounds { low: Duration::ZERO, high: MS }), 418.02);
        near(Dist::lognormal(MS, 0.5, bounds), 1133.15);
        near(Dist::choice(&[(US * 100, 3), (MS, 1), (MS * 50, 0)]), 325.0);
    }

    #[test]
    fn samples_stay_within_their_bounds() {
        let bounds = Bounds { low: MS, high: MS * 2 };
        for dist in [
            Dist::uniform(bounds.low, bounds.high),
            Dist::normal(Duration::ZERO, MS, bounds),
            Dist::exponential(MS, bounds),
            Dist::lognormal(MS, 3.0, bounds),
        ] {
            let dist = dist.expect("valid");
            let mut stream = Stream::new(0, "t", 0, "p");
            for _ in 0..10_000 {
                let sample = dist.sample(&mut stream);
                assert!(sample >= bounds.low && sample <= bounds.high, "{sample} of {dist:?}");
            }
        }
    }

    #[test]
    fn parameters_are_checked() {
        let bounds = Bounds::default();
        let refused = |dist: Result<Dist, DistError>| dist.expect_err("refused").to_string();
        assert_eq!(refused(Dist::uniform(MS, US)), "lower bound 1ms is above upper bound 1us");
        assert_eq!(refused(Dist::exponential(Duration::ZERO, bounds)), "mean must be above zero");
        assert_eq!(refused(Dist::lognormal(MS, f64::NAN, bounds)), "sigma NaN is outside 0..=10");
        assert_eq!(
            refused(Dist::normal(MS, US, Bounds { low: MS * 2, high: MS * 3 })),
            "less than a millionth of the distribution lies within 2ms..=3ms"
        );
        assert_eq!(
            refused(Dist::exponential(Duration::MAX, bounds)),
            format!("{} is longer than 10 years", Duration::MAX)
        );
        assert!(Dist::choice(&[]).is_err());
        assert!(Dist::choice(&[(MS, u32::MAX), (US, 1)]).is_err());
        assert_eq!(Dist::uniform(MS, MS), Ok(Dist::Constant(MS)));
    }
}
