//! [`Quantiles`]: the values of a distribution, of which any percentile can be read.
//!
//! A summary with four percentiles has none of those that a goal asks for. So it keeps the buckets
//! that are not empty: a few hundred numbers for a service, a few dozen for a task.

use hdrhistogram::{Counter, Histogram};
use std::sync::Arc;
use zerolag_model::Duration;

/// The values of a distribution: the largest of each bucket in nanoseconds, and how many, in
/// ascending order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quantiles(Arc<[(u64, u64)]>);

impl Quantiles {
    /// Returns those of a histogram. O(buckets).
    pub(crate) fn of<C: Counter>(histogram: &Histogram<C>) -> Self {
        let steps = histogram.iter_recorded();
        Self(
            steps
                .map(|step| (histogram.highest_equivalent(step.value_iterated_to()), step.count_since_last_iteration()))
                .collect(),
        )
    }

    /// Returns those of values in ascending order.
    #[must_use]
    pub fn of_sorted(values: impl IntoIterator<Item = u64>) -> Self {
        Self(values.into_iter().map(|value| (value, 1)).collect())
    }

    /// Returns those of a histogram of another tool: values in ascending order, and how many of
    /// each.
    #[must_use]
    pub fn of_counts(counts: impl IntoIterator<Item = (u64, u64)>) -> Self {
        Self(counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// Returns the value that a share of the values, in millionths, does not exceed. `None` without
    /// values. O(buckets).
    #[must_use]
    pub fn at(&self, share: u32) -> Option<Duration> {
        let all: u64 = self.0.iter().map(|(_, count)| count).sum();
        // The first value is of the share zero.
        let rank = (u128::from(all) * u128::from(share)).div_ceil(1_000_000).max(1);
        let mut seen = 0;
        let reached = self.0.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= rank
        });
        reached.map(|(value, _)| Duration::from_nanos(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_histogram() {
        let mut histogram: Histogram<u64> = Histogram::new(3).unwrap();
        for value in 0..7_000_u64 {
            histogram.record(value * value % 65_537 * 1_000).unwrap();
        }
        let quantiles = Quantiles::of(&histogram);
        for share in [1, 10_000, 500_000, 900_000, 950_000, 990_000, 995_000, 999_000, 999_900] {
            let of_histogram = histogram.value_at_quantile(f64::from(share) / 1e6);
            assert_eq!(quantiles.at(share).map(Duration::as_nanos), Some(of_histogram), "{share}");
        }
        assert_eq!(Quantiles::default().at(500_000), None);
        let few = Quantiles::of_sorted([1, 2, 3, 4]);
        assert_eq!(
            [0, 250_000, 250_001, 750_000, 999_999].map(|share| few.at(share).map(Duration::as_nanos)),
            [1, 1, 2, 3, 4].map(Some)
        );
    }
}
