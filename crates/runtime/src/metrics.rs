//! [`publish_metrics`](Runtime::publish_metrics): the figures of groups and tasks for the recorder
//! of the `metrics` facade.
//!
//! They are read when they are published, so a runtime that publishes nothing pays nothing. Call it
//! before each scrape, or from a task with an [`interval`](crate::interval).

use crate::{Runtime, TaskState};
use metrics::{counter, gauge};
use std::time::Duration;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
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
