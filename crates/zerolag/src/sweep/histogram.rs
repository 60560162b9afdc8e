//! [`Distribution`]: a histogram of a run in a form that can be added up.
//!
//! Quantiles of several runs cannot be averaged, and the p99 of ten short runs says little about
//! that of all their samples. The buckets of a histogram depend on its figure only (1 % wide for
//! wakeup latencies, 0.1 % for requests), so those of several runs, or of several machines, are
//! added bucket by bucket, and quantiles are computed of the sum.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zerolag_report::frame::Bucket;

/// The histogram of a figure: three columns with a row per bucket that is not empty.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The figure: `wakeup_latency`, `request_latency` or `queued`.
    pub figure: String,
    /// The service, or the task: its instances together.
    pub owner: String,
    /// The smallest value that each bucket counts, in ascending order.
    pub from_ns: Vec<u64>,
    /// The largest value that each bucket counts.
    pub to_ns: Vec<u64>,
    /// The number of samples in each bucket.
    pub counts: Vec<u64>,
}

/// The samples by figure and owner, and by bucket.
type BucketSums = BTreeMap<(String, String), BTreeMap<(u64, u64), u64>>;

impl Distribution {
    /// Returns the number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the largest value of the bucket in which a quantile lies, in nanoseconds: `990` is
    /// the 99th percentile. None without samples.
    #[must_use]
    pub fn quantile_ns(&self, thousandths: u64) -> Option<u64> {
        let rank = u128::from(self.count()) * u128::from(thousandths);
        let mut below = 0_u128;
        let buckets = self.counts.iter().zip(&self.to_ns);
        let reached = buckets.into_iter().find(|(count, _)| {
            below += u128::from(**count) * 1000;
            below >= rank && **count > 0
        });
        reached.map(|(_, to)| *to)
    }

    /// Returns whether its columns fit each other: for what was read.
    pub(super) fn is_whole(&self) -> bool {
        self.from_ns.len() == self.counts.len() && self.to_ns.len() == self.counts.len()
    }

    /// Returns the distributions of a run, in order of figure and owner.
    pub(super) fn of_run(buckets: &[Bucket]) -> Vec<Self> {
        let mut sums = BucketSums::new();
        for bucket in buckets {
            let owner = if bucket.task.is_some() { task_of(&bucket.owner) } else { &*bucket.owner };
            let range = (bucket.from.as_nanos(), bucket.to.as_nanos());
            *sums.entry((bucket.figure.to_owned(), owner.to_owned())).or_default().entry(range).or_default() +=
                bucket.count;
        }
        listed(sums)
    }

    /// Adds up the distributions of several runs, in order of figure and owner.
    ///
    /// ```
    /// use zerolag::sweep::histogram::Distribution;
    ///
    /// let one = Distribution {
    ///     figure: "wakeup_latency".into(),
    ///     owner: "a".into(),
    ///     from_ns: vec![10, 30],
    ///     to_ns: vec![19, 39],
    ///     counts: vec![1, 1],
    /// };
    /// let other = Distribution { from_ns: vec![30], to_ns: vec![39], counts: vec![98], ..one.clone() };
    /// let all = Distribution::sum([&one, &other]);
    /// assert_eq!((all.len(), &*all[0].counts), (1, &[1, 99][..]));
    /// assert_eq!((one.quantile_ns(500), all[0].quantile_ns(500)), (Some(19), Some(39)));
    /// ```
    #[must_use]
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut sums = BucketSums::new();
        for one in all {
            let sum = sums.entry((one.figure.clone(), one.owner.clone())).or_default();
            for ((from, to), count) in one.from_ns.iter().zip(&one.to_ns).zip(&one.counts) {
                *sum.entry((*from, *to)).or_default() += count;
            }
        }
        listed(sums)
    }
}

fn listed(sums: BucketSums) -> Vec<Distribution> {
    let distribution = |((figure, owner), buckets): ((String, String), BTreeMap<(u64, u64), u64>)| Distribution {
        figure,
        owner,
        from_ns: buckets.keys().map(|(from, _)| *from).collect(),
        to_ns: buckets.keys().map(|(_, to)| *to).collect(),
        counts: buckets.into_values().collect(),
    };
    sums.into_iter().map(distribution).collect()
}

/// Returns the task of an instance: `web` of `web-3`.
fn task_of(instance: &str) -> &str {
    let parts = instance.rsplit_once('-');
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    parts.filter(|(_, end)| is_number(end)).map_or(instance, |(task, _)| task)
}
