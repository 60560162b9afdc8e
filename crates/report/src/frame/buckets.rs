//! The distributions behind the quantiles of a [`Summary`](crate::Summary), bucket by bucket.
//!
//! Quantiles of several runs cannot be averaged; histograms can be added. A bucket is as wide as
//! the accuracy of its histogram: 1 % for wakeup latencies, 0.1 % for requests.

use super::columns::{Frame, Of};
use hdrhistogram::{Counter, Histogram};
use std::sync::Arc;
use zerolag_model::{Duration, TaskId};

/// Values of a figure that one bucket counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bucket {
    /// The figure: `wakeup_latency`, `request_latency` or `queued`.
    pub figure: &'static str,
    /// The name of the task or service.
    pub owner: Arc<str>,
    /// The task, if it is one.
    pub task: Option<TaskId>,
    /// The smallest value that the bucket counts.
    pub from: Duration,
    /// The largest value that it counts.
    pub to: Duration,
    /// How many.
    pub count: u64,
}

/// Returns the buckets of a histogram that are not empty.
pub(crate) fn of<C: Counter>(
    figure: &'static str,
    owner: &Arc<str>,
    task: Option<TaskId>,
    histogram: &Histogram<C>,
) -> Vec<Bucket> {
    let bucket = |value: u64, count: u64| Bucket {
        figure,
        owner: Arc::clone(owner),
        task,
        from: Duration::from_nanos(histogram.lowest_equivalent(value)),
        to: Duration::from_nanos(histogram.highest_equivalent(value)),
        count,
    };
    histogram.iter_recorded().map(|step| bucket(step.value_iterated_to(), step.count_since_last_iteration())).collect()
}

/// Returns the buckets as a frame: `figure`, `owner`, `task`, `from_ns`, `to_ns`, `count`.
#[must_use]
pub fn frame(buckets: &[Bucket]) -> Frame {
    Of::new("histograms", buckets)
        .word("figure", |bucket| bucket.figure)
        .text("owner", |bucket| Arc::clone(&bucket.owner))
        .some_u64("task", |bucket| bucket.task.map(|task| task.0.into()))
        .u64("from_ns", |bucket| bucket.from.as_nanos())
        .u64("to_ns", |bucket| bucket.to.as_nanos())
        .u64("count", |bucket| bucket.count)
        .done()
}
