//! [`publish_metrics`](Runtime::publish_metrics): the figures of groups for the recorder of the
//! `metrics` facade, under the names of `zerolag-runtime`.

use crate::builder::Runtime;
use metrics::counter;
use std::time::Duration;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Runtime {
    /// Gives the present figures to the recorder of the `metrics` facade that is installed; without
    /// one it does nothing. Call it before each scrape. O(groups).
    ///
    /// | name | labels | |
    /// |---|---|---|
    /// | `zerolag_group_cpu_microseconds_total` | `group` | CPU time, with the groups below |
    /// | `zerolag_group_lost_microseconds_total` | `group` | polls that were in progress and did not run |
    /// | `zerolag_group_throttled_microseconds_total` | `group` | throttled by its own limit |
    /// | `zerolag_group_periods_total` | `group` | periods of its own limit |
    /// | `zerolag_group_throttled_periods_total` | `group` | periods in which it was throttled |
    pub fn publish_metrics(&self) {
        for (group, usage) in self.usage() {
            let count = |name: &'static str, value| counter!(name, "group" => group.clone()).absolute(value);
            count("zerolag_group_cpu_microseconds_total", micros(usage.cpu));
            count("zerolag_group_lost_microseconds_total", micros(usage.lost));
            count("zerolag_group_throttled_microseconds_total", micros(usage.throttled()));
            count("zerolag_group_periods_total", usage.stat.nr_periods);
            count("zerolag_group_throttled_periods_total", usage.stat.nr_throttled);
        }
    }
}
