//! [`Counts`]: the distribution of a figure, per owner, out of the buckets of its histograms.

use crate::frame::Bucket;
use std::collections::BTreeMap;

/// How many bars a power of ten has in histograms: a step of a third, which eyes can tell.
pub const PER_DECADE: f64 = 8.0;

/// The values of a figure in ascending order: the middle of a bucket in nanoseconds, and how many.
pub type Counts = Vec<(f64, u64)>;

/// Returns the distributions of a figure by owner; instances of one task are one owner.
#[must_use]
pub fn owners(buckets: &[Bucket], figure: &str) -> BTreeMap<String, Counts> {
    let mut found: BTreeMap<String, BTreeMap<(u64, u64), u64>> = BTreeMap::new();
    for bucket in buckets.iter().filter(|bucket| bucket.figure == figure) {
        let places = found.entry(base(&bucket.owner).to_owned()).or_default();
        *places.entry((bucket.from.as_nanos(), bucket.to.as_nanos())).or_default() += bucket.count;
    }
    let counts = |places: BTreeMap<(u64, u64), u64>| {
        places.into_iter().map(|((from, to), count)| (midpoint(from, to), count)).collect()
    };
    found.into_iter().map(|(owner, places)| (owner, counts(places))).collect()
}

fn midpoint(from: u64, to: u64) -> f64 {
    (from as f64 + to as f64) / 2.0
}

/// Returns the name of a task without the number of its instance.
fn base(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, number)) if !base.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

/// Returns the number of values.
#[must_use]
pub fn total(counts: &Counts) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

/// Returns the value that this share of the values does not exceed; zero without values.
#[must_use]
pub fn quantile(counts: &Counts, share: f64) -> f64 {
    let wanted = total(counts) as f64 * share;
    let mut seen = 0.0;
    for (value, count) in counts {
        seen += *count as f64;
        if seen >= wanted {
            return *value;
        }
    }
    counts.last().map_or(0.0, |(value, _)| *value)
}

/// Returns the shares in percent of the bars of a histogram, by the place of the bar on a
/// logarithmic axis: [`PER_DECADE`] per power of ten, 0 begins at one nanosecond.
#[must_use]
pub fn bars(counts: &Counts) -> BTreeMap<i64, f64> {
    let all = total(counts).max(1) as f64;
    let mut bars: BTreeMap<i64, f64> = BTreeMap::new();
    for (value, count) in counts {
        let place = (value.max(1.0).log10() * PER_DECADE).floor() as i64;
        *bars.entry(place).or_default() += *count as f64 / all * 100.0;
    }
    bars
}
