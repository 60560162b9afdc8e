//! [`ServiceSums`]: requests of services, from their intended arrival to their end.
//!
//! Counting only completed requests would make an overloaded service look fast, because its slow
//! requests never end. So a request that still waits or is in progress at the end counts with its
//! age: its latency is at least that. Dropped requests have no latency and are counted separately.
//!
//! Complexity: O(log open requests) per record of a request; memory: the open requests, and two
//! histograms per service.

use crate::frame::buckets::{self, Bucket};
use crate::quantiles::Quantiles;
use crate::summary::{RequestTimes, ServiceSummary};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::event::RequestStep;
use zerolag_model::{Duration, GroupId, Instant, TaskId};

/// Follows requests and sums their figures.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceSums {
    services: BTreeMap<u32, ServiceTotals>,
}

#[derive(Clone, Debug)]
struct ServiceTotals {
    name: Arc<str>,
    /// The group of the task that first took a request.
    group: Option<GroupId>,
    arrived: u64,
    started: u64,
    completed: u64,
    dropped: u64,
    /// The due times of the requests that are not done.
    open: BTreeMap<u64, Instant>,
    latency: LatencyTimes,
    queued: LatencyTimes,
}

/// A distribution under construction.
#[derive(Clone, Debug)]
struct LatencyTimes {
    histogram: Histogram<u64>,
    sum: u128,
    max: Duration,
}

impl LatencyTimes {
    fn new() -> Self {
        let histogram = Histogram::new(3).expect("invariant: three significant digits are allowed");
        Self { histogram, sum: 0, max: Duration::ZERO }
    }

    fn record(&mut self, time: Duration) {
        self.sum += u128::from(time.as_nanos());
        self.max = self.max.max(time);
        let value = time.as_nanos().min(i64::MAX.unsigned_abs());
        self.histogram.record(value).expect("invariant: the histogram grows to every 63-bit value");
    }

    fn finish(&self) -> Option<RequestTimes> {
        let count = self.histogram.len();
        let quantile = |q| Duration::from_nanos(self.histogram.value_at_quantile(q)).min(self.max);
        (count > 0).then(|| RequestTimes {
            count,
            mean: Duration::from_nanos(u64::try_from(self.sum / u128::from(count)).unwrap_or(u64::MAX)),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.max,
            quantiles: Quantiles::of(&self.histogram),
        })
    }
}

impl ServiceSums {
    /// A queue is created.
    pub(crate) fn name(&mut self, queue: u32, name: &Arc<str>) {
        self.entry(queue).name = Arc::clone(name);
    }

    fn entry(&mut self, queue: u32) -> &mut ServiceTotals {
        self.services.entry(queue).or_insert_with(|| ServiceTotals {
            name: format!("queue {queue}").into(),
            group: None,
            arrived: 0,
            started: 0,
            completed: 0,
            dropped: 0,
            open: BTreeMap::new(),
            latency: LatencyTimes::new(),
            queued: LatencyTimes::new(),
        })
    }

    /// Follows an event of a request; `group_of` returns the group of a task.
    pub(crate) fn observe(
        &mut self,
        queue: u32,
        request: u64,
        step: RequestStep,
        at: Instant,
        group_of: impl Fn(TaskId) -> Option<GroupId>,
    ) {
        let sums = self.entry(queue);
        match step {
            RequestStep::Arrive { due } => {
                sums.arrived += 1;
                sums.open.insert(request, due);
            }
            RequestStep::Start { task } => {
                sums.started += 1;
                sums.group = sums.group.or_else(|| group_of(task));
                if let Some(due) = sums.open.get(&request) {
                    sums.queued.record(at.since(*due));
                }
            }
            RequestStep::End { .. } => {
                if let Some(due) = sums.open.remove(&request) {
                    sums.completed += 1;
                    sums.latency.record(at.since(due));
                }
            }
            RequestStep::Drop => {
                sums.open.remove(&request);
                sums.dropped += 1;
            }
        }
    }

    /// Ends at `end`: requests that are not done count with their age.
    pub(crate) fn close(&mut self, end: Instant) {
        for sums in self.services.values_mut() {
            sums.open.values().for_each(|due| sums.latency.record(end.since(*due)));
        }
    }

    /// Returns the distributions of closed services, in order of the queues.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        let of = |sums: &ServiceTotals| {
            let latency = buckets::of("request_latency", &sums.name, None, &sums.latency.histogram);
            [latency, buckets::of("queued", &sums.name, None, &sums.queued.histogram)].concat()
        };
        self.services.values().flat_map(of).collect()
    }

    /// Returns the figures of closed services, in order of the queues; `path_of` returns the path
    /// of a group.
    pub(crate) fn finish(self, path_of: impl Fn(GroupId) -> Option<Arc<str>>) -> Vec<ServiceSummary> {
        let summary = |sums: ServiceTotals| ServiceSummary {
            name: sums.name,
            group: sums.group.and_then(&path_of),
            arrived: sums.arrived,
            completed: sums.completed,
            unfinished: sums.open.len() as u64,
            dropped: sums.dropped,
            latency: sums.latency.finish(),
            queued: sums.queued.finish(),
        };
        self.services.into_values().map(summary).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::Metrics;
    use zerolag_model::event::RequestStep;
    use zerolag_model::{Duration, Instant, TraceEvent};
    use zerolag_trace::script::Script;

    #[test]
    fn latency_counts_from_when_a_request_was_due_and_goes_on_to_the_end() {
        let mut script = Script::new(1);
        let task = script.fair("web");
        script.event(0, 0, TraceEvent::QueueNew { queue: 3, name: "web".into() });
        let mut request = |us: u64, request, step| {
            script.event(us, 0, TraceEvent::Request { queue: 3, request, step });
        };
        let due = |us: u64| RequestStep::Arrive { due: Instant::from_nanos(us * 1000) };
        request(2_000, 0, due(1_000));
        request(3_000, 1, due(3_000));
        request(3_000, 2, due(3_000));
        request(3_000, 2, RequestStep::Drop);
        request(4_000, 0, RequestStep::Start { task });
        request(6_000, 0, RequestStep::End { task });
        let summary = Metrics::of(&script.end(10_000));
        let web = &summary.services[0];
        assert_eq!((&*web.name, web.arrived, web.completed, web.unfinished, web.dropped), ("web", 3, 1, 1, 1));
        let latency = web.latency.as_ref().expect("two have a latency");
        assert_eq!((latency.count, latency.max), (2, Duration::from_millis(7)), "the unfinished request is 7 ms old");
        assert_eq!(latency.mean, Duration::from_millis(6));
        assert_eq!(web.queued.as_ref().map(|queued| queued.max), Some(Duration::from_millis(3)));
    }
}
