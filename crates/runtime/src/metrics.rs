//! [`publish_metrics`](Runtime::publish_metrics): the figures of groups and tasks for the recorder
//! of the `metrics` facade.
//!
//! They are read when they are published, so a runtime that publishes nothing pays nothing. Call it
//! before each scrape, or from a task with an [`interval`](crate::interval).

use crate::latency::Histogram;
use crate::runtime::Runtime;
use crate::state::info::TaskState;
use metrics::{counter, gauge};
use std::time::Duration;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The names of a histogram's counters, as Prometheus has them.
struct Names {
    bucket: &'static str,
    sum: &'static str,
    count: &'static str,
}

const QUEUE_WAIT: Names = Names {
    bucket: "zerolag_group_queue_wait_microseconds_bucket",
    sum: "zerolag_group_queue_wait_microseconds_sum",
    count: "zerolag_group_queue_wait_microseconds_count",
};

const POLL: Names = Names {
    bucket: "zerolag_group_poll_microseconds_bucket",
    sum: "zerolag_group_poll_microseconds_sum",
    count: "zerolag_group_poll_microseconds_count",
};

/// Publishes a histogram as counters: the facade takes single values only, and these are counted
/// already.
fn publish(names: &Names, group: &str, of: &Histogram) {
    let mut below = 0;
    for (bound, count) in of.buckets() {
        below += count;
        let le = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.as_micros().to_string());
        counter!(names.bucket, "group" => group.to_owned(), "le" => le).absolute(below);
    }
    counter!(names.sum, "group" => group.to_owned()).absolute(micros(of.sum()));
    counter!(names.count, "group" => group.to_owned()).absolute(of.count());
}

impl Runtime {
    /// Gives the present figures to the recorder of the `metrics` facade that is installed; without
    /// one it does nothing. O(groups + [`Builder::tasks`](crate::Builder::tasks)).
    ///
    /// | name | labels | |
    /// |---|---|---|
    /// | `zerolag_group_cpu_microseconds_total` | `group` | CPU time, with the groups below |
    /// | `zerolag_group_lost_microseconds_total` | `group` | polls that were in progress and did not run |
    /// | `zerolag_group_throttled_microseconds_total` | `group` | throttled by its own limit, summed over CPUs |
    /// | `zerolag_group_periods_total` | `group` | periods of its own limit |
    /// | `zerolag_group_throttled_periods_total` | `group` | periods in which it was throttled |
    /// | `zerolag_group_lock_stalls_total` | `group` | [`Usage::lock_stalls`](crate::Usage::lock_stalls) |
    /// | `zerolag_group_queue_wait_microseconds_bucket`, `_sum`, `_count` | `group`, `le` | waits for a CPU; with [`Builder::latencies`](crate::Builder::latencies) |
    /// | `zerolag_group_poll_microseconds_bucket`, `_sum`, `_count` | `group`, `le` | lengths of polls; likewise |
    /// | `zerolag_tasks` | `state` | tasks that are polled, that wait for a CPU or quota, that sleep |
    /// | `zerolag_stray_panics_total` | | [`Runtime::stray_panics`] |
    pub fn publish_metrics(&self) {
        for (group, usage) in self.usage() {
            let count = |name: &'static str, value| counter!(name, "group" => group.clone()).absolute(value);
            count("zerolag_group_cpu_microseconds_total", micros(usage.cpu));
            count("zerolag_group_lost_microseconds_total", micros(usage.lost));
            count("zerolag_group_throttled_microseconds_total", micros(usage.throttled()));
            count("zerolag_group_periods_total", usage.stat.nr_periods);
            count("zerolag_group_throttled_periods_total", usage.stat.nr_throttled);
            count("zerolag_group_lock_stalls_total", usage.lock_stalls);
        }
        for (group, latencies) in self.latencies() {
            publish(&QUEUE_WAIT, &group, &latencies.queue_wait);
            publish(&POLL, &group, &latencies.poll);
        }
        let tasks = self.tasks();
        for (state, label) in
            [(TaskState::Polled, "polled"), (TaskState::Runnable, "runnable"), (TaskState::Asleep, "asleep")]
        {
            let number = tasks.iter().filter(|task| task.state == state).count();
            gauge!("zerolag_tasks", "state" => label).set(number as f64);
        }
        counter!("zerolag_stray_panics_total").absolute(self.stray_panics());
    }
}
