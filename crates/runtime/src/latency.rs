//! [`Latencies`]: how long the tasks of a group waited for a CPU, and how long their polls were, as
//! histograms.
//!
//! They are counted only with [`Builder::latencies`](crate::Builder::latencies): each poll reads
//! the clock once or twice more for them. A bucket is a power of two of microseconds, so a quantile
//! is exact to a factor of two, and counting is one addition without a lock.
//!
//! * A *queue wait* lasts from a wakeup, or from the end of a poll after which the task can go on,
//!   to the start of the next poll. It contains the time for which a limit throttled the group.
//! * A *poll* is measured on the wall clock, from its start to its end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zerolag_model::Instant;

/// The number of buckets of a [`Histogram`]; the last one has no bound.
pub(crate) const BUCKETS: usize = 26;

/// The counters of a histogram.
pub(crate) struct Counters {
    buckets: [AtomicU64; BUCKETS],
    /// In nanoseconds.
    sum: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: AtomicU64::new(0) }
    }
}

impl Counters {
    fn add(&self, time: zerolag_model::Duration) {
        let nanos = time.as_nanos();
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
    }

    fn read(&self) -> Histogram {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        Histogram { counts, sum: Duration::from_nanos(self.sum.load(Ordering::Relaxed)) }
    }
}

/// Returns the bucket of a time: the first one whose bound is above it.
fn bucket(nanos: u64) -> usize {
    let micros = nanos / 1_000;
    (u64::BITS - micros.leading_zeros()).min(BUCKETS as u32 - 1) as usize
}

/// The histograms of a group.
#[derive(Default)]
pub(crate) struct Latency {
    queue_wait: Counters,
    poll: Counters,
}

impl Latency {
    pub(crate) fn add_wait(&self, from: Instant, to: Instant) {
        self.queue_wait.add(to.since(from.min(to)));
    }

    pub(crate) fn add_poll(&self, from: Instant, to: Instant) {
        self.poll.add(to.since(from.min(to)));
    }
}

/// How often a time was how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl Histogram {
    /// Returns the buckets: the upper bound, exclusive, and the number of times below it and not in
    /// a bucket before. The bounds are powers of two of 1 us; the last bucket has none.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> + '_ {
        let bound = |index: usize| (index + 1 < BUCKETS).then(|| Duration::from_micros(1 << index));
        self.counts.iter().enumerate().map(move |(index, count)| (bound(index), *count))
    }

    /// Returns how many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all times.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns the bound of the bucket in which a quantile is, 0.0 to 1.0: at most twice the
    /// quantile. `None` without any time, and if the quantile is above all bounds (16.8 s).
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut below = 0;
        self.buckets()
            .find(|(_, count)| {
                below += count;
                below >= rank
            })?
            .0
    }
}

/// The histograms of a group's own tasks, without those of the groups below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Latencies {
    /// From a wakeup, or from the end of a poll of a task that can go on, to the start of its next
    /// poll.
    pub queue_wait: Histogram,
    /// From the start of a poll to its end.
    pub poll: Histogram,
}

impl Latency {
    /// Returns the histograms so far.
    pub(crate) fn read(&self) -> Latencies {
        Latencies { queue_wait: self.queue_wait.read(), poll: self.poll.read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_above_it() {
        let counters = Counters::default();
        let us = zerolag_model::Duration::from_micros;
        for time in [us(0), us(1), us(3), us(900), us(900), us(900), us(900), us(900), us(900), us(60_000_000)] {
            counters.add(time);
        }
        let read = counters.read();
        assert_eq!((read.count(), read.sum()), (10, Duration::from_micros(60_005_404)));
        let micros = |quantile| read.quantile(quantile).map(|time| time.as_micros());
        assert_eq!([micros(0.0), micros(0.1), micros(0.2), micros(0.3)], [1, 1, 2, 4].map(Some));
        assert_eq!([micros(0.5), micros(0.9), micros(1.0)], [Some(1_024), Some(1_024), None]);
        assert_eq!(Counters::default().read().quantile(0.5), None);
    }

    #[test]
    fn every_time_is_below_the_bound_of_its_bucket() {
        for nanos in [0, 999, 1_000, 1_999, 2_000, 4_095_999, u64::MAX] {
            let index = bucket(nanos);
            assert!(index + 1 == BUCKETS || nanos < 1_000 << index, "{nanos} in {index}");
            assert!(index == 0 || nanos >= 1_000 << (index - 1), "{nanos} in {index}");
        }
    }
}
