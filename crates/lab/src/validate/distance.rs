//! [`Distribution`]: how turns or delays are distributed, and how far two distributions are apart.
//!
//! Two runs of a kernel can differ in each turn and be the same schedule: after microseconds in
//! which they differ, an edit distance of their sequences says nothing. The lengths of turns, and
//! the delays of wakeups, have distributions that repeat. A recording keeps one as its quantiles.
//!
//! The distance is the Wasserstein-1 distance, the mean way from a value of one distribution to the
//! value of the other with the same rank, in percent of the recorded mean. It is zero for equal
//! distributions, and small for turns that are all a little longer, for which a distance of
//! cumulative shares (Kolmogorov-Smirnov) is one.

use zerolag_model::Duration;

/// The number of quantiles: of the middles of as many equal parts.
const QUANTILES: usize = 25;

/// The values that a distribution is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The lengths of turns.
    Turns,
    /// The lengths of turns on CPU 0, adjoining turns of a task as one ([`super::Sequence`]).
    Sequence,
    /// The times from waking to running.
    Delays,
}

impl Of {
    /// Returns the values of which a figure of this name is the distance.
    pub(super) fn named(figure: &str) -> Option<Self> {
        match figure.split_once('.')?.0 {
            super::case::TURN_DISTANCE => Some(Self::Turns),
            "delay_distance" => Some(Self::Delays),
            _ => None,
        }
    }
}

/// A distribution of times.
#[derive(Clone, PartialEq, Debug)]
pub struct Distribution {
    /// What it is of.
    pub of: Of,
    /// Quantiles in microseconds.
    quantiles: Vec<f64>,
}

impl Distribution {
    /// Returns that of values, of which there is one at least.
    pub(super) fn of(of: Of, mut values: Vec<Duration>) -> Self {
        values.sort_unstable();
        let at = |part: usize| values[(2 * part + 1) * values.len() / (2 * QUANTILES)];
        Self { of, quantiles: (0..QUANTILES).map(|part| at(part).as_nanos() as f64 / 1e3).collect() }
    }

    /// Returns that of quantiles in a file.
    ///
    /// # Errors
    /// They are not as many as they should be, or not sorted.
    pub(super) fn read(of: Of, quantiles: Vec<f64>) -> Result<Self, String> {
        if quantiles.len() != QUANTILES {
            return Err(format!("{} quantiles, not {QUANTILES}", quantiles.len()));
        }
        if !quantiles.is_sorted() {
            return Err("the quantiles are not sorted".to_owned());
        }
        Ok(Self { of, quantiles })
    }

    /// Returns the distance of values from it, in percent of its mean. It is 100 for no values.
    #[must_use]
    pub(super) fn distance(&self, values: Vec<Duration>) -> f64 {
        if values.is_empty() {
            return 100.0;
        }
        let other = Self::of(self.of, values);
        let apart: f64 = self.quantiles.iter().zip(&other.quantiles).map(|(one, other)| (one - other).abs()).sum();
        // A mean below the resolution of a recording is that resolution.
        let sum = self.quantiles.iter().sum::<f64>().max(QUANTILES as f64);
        apart / sum * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: impl IntoIterator<Item = u64>) -> Vec<Duration> {
        micros.into_iter().map(Duration::from_micros).collect()
    }

    #[test]
    fn the_distance_is_the_mean_way_in_percent_of_the_recorded_mean() {
        let recorded = Distribution::of(Of::Turns, times([1000; 40]));
        assert_eq!(recorded.distance(times([1000; 7])), 0.0);
        assert!((recorded.distance(times([1010; 40])) - 1.0).abs() < 1e-9, "a constant shift");
        // Half of the turns are longer by a mean.
        let halves = times([1000, 2000].repeat(50));
        assert!((recorded.distance(halves) - 52.0).abs() < 1e-9, "13 of 25 quantiles");
        assert_eq!(recorded.distance(Vec::new()), 100.0);
        // The order of values does not count, so neither do sequences that diverge.
        let recorded = Distribution::of(Of::Turns, times([700, 4000].repeat(50)));
        assert_eq!(recorded.distance(times([4000, 4000, 700, 700].repeat(25))), 0.0);
    }

    #[test]
    fn quantiles_of_a_file_are_counted_and_sorted() {
        let read = |quantiles: Vec<f64>| Distribution::read(Of::Delays, quantiles);
        assert_eq!(read(vec![1.0; 3]), Err("3 quantiles, not 25".to_owned()));
        let mut unsorted = vec![1.0; QUANTILES];
        unsorted[0] = 2.0;
        assert_eq!(read(unsorted), Err("the quantiles are not sorted".to_owned()));
        let same = Distribution::of(Of::Delays, times([3; 30]));
        assert_eq!(read(vec![3.0; QUANTILES]), Ok(same));
        assert_eq!(Of::named("turns.a"), None);
    }
}
