//! The figures of a [`Summary`] as frames.

use super::columns::{Frame, Of};
use crate::summary::{Relation, Summary, WaitEnd, policy_text};
use std::sync::Arc;
use zerolag_model::event::Irq;
use zerolag_model::{CpuLayer, CpuMax, Duration, TaskId};

/// Returns the tables of a summary that have rows.
#[must_use]
pub fn all(summary: &Summary) -> Vec<Frame> {
    let frames =
        [tasks(summary), cpus(summary), groups(summary), services(summary), worst_waits(summary), gaps(summary)];
    frames.into_iter().filter(|frame| frame.rows() > 0).collect()
}

/// Returns a row per gap of a recording.
#[must_use]
pub fn gaps(summary: &Summary) -> Frame {
    Of::new("gaps", &summary.meta.recorded.gaps)
        .u64("cpu", |gap| gap.cpu.0.into())
        .u64("from_ns", |gap| gap.from.as_nanos())
        .u64("until_ns", |gap| gap.until.as_nanos())
        .some_u64("events", |gap| Some(gap.events).filter(|events| *events > 0))
        .done()
}

/// Returns a row per task.
#[must_use]
pub fn tasks(summary: &Summary) -> Frame {
    let latency = |task: &crate::TaskSummary, of: fn(crate::Latency) -> u64| task.latency.map(of);
    Of::new("tasks", &summary.tasks)
        .u64("id", |task| task.task.0.into())
        .text("name", |task| Arc::clone(&task.name))
        .some_u64("recorded.tid", |task| task.thread.as_ref().map(|thread| thread.tid.into()))
        .some_u64("recorded.pid", |task| task.thread.as_ref()?.pid.map(u64::from))
        .some_text("recorded.process", |task| task.thread.as_ref()?.process.as_deref().map(Into::into))
        .some_u64("recorded.charged_ns", |task| task.charged().map(Duration::as_nanos))
        .some_u64("recorded.run_ns_in_gaps", |task| task.thread.as_ref().map(|_| task.run_unsure.as_nanos()))
        .some_u64("recorded.wait_ns_in_gaps", |task| task.thread.as_ref().map(|_| task.wait_unsure.as_nanos()))
        .text("policy", |task| policy_text(task.attr).into())
        .u64("run_ns", |task| task.run.as_nanos())
        .some_u64("exec_ns", |task| task.exec.map(Duration::as_nanos))
        .u64("wakeups", |task| task.activations)
        .u64("switches_in", |task| task.switches_in)
        .u64("preemptions", |task| task.preemptions)
        .u64("migrations", |task| task.migrations.total())
        .u64("wait_ns", |task| task.wait.as_nanos())
        .u64("wait_ns_max", |task| task.wait_max.as_nanos())
        .u64("sleep_ns", |task| task.sleep.as_nanos())
        .some_u64("wakeup_latency.count", |task| latency(task, |latency| latency.count))
        .some_u64("wakeup_latency.p50_ns", |task| latency(task, |latency| latency.p50.as_nanos()))
        .some_u64("wakeup_latency.p99_ns", |task| latency(task, |latency| latency.p99.as_nanos()))
        .some_u64("wakeup_latency.max_ns", |task| latency(task, |latency| latency.max.as_nanos()))
        .u64("timers", |task| task.timers)
        .u64("timers_missed", |task| task.missed)
        .u64("lateness_ns_max", |task| task.lateness_max.as_nanos())
        .some_u64("dl_overruns", |task| task.dl_overruns)
        .done()
}

/// Returns a row per CPU; the layers exist only where a simulation counted them.
#[must_use]
pub fn cpus(summary: &Summary) -> Frame {
    let frame = Of::new("cpus", &summary.cpus)
        .u64("id", |cpu| cpu.cpu.0.into())
        .u64("busy_ns", |cpu| cpu.busy.as_nanos())
        .u64("idle_ns", |cpu| cpu.idle.as_nanos())
        .u64("unseen_ns", |cpu| cpu.unseen.as_nanos())
        .u64("switches", |cpu| cpu.switches)
        .u64("lock_wait_ns", |cpu| cpu.lock_wait.as_nanos())
        .u64("lock_wait_ns_max", |cpu| cpu.lock_wait_max.as_nanos())
        .u64("ipis_sent", |cpu| cpu.ipis_sent)
        .u64("ipis_received", |cpu| cpu.ipis_received)
        .u64("ipi_work_ns", |cpu| cpu.irq(Irq::Ipi).time.as_nanos())
        .u64("ipi_work_ns_max", |cpu| cpu.irq(Irq::Ipi).max.as_nanos())
        .done();
    let known: Vec<bool> = summary.cpus.iter().map(|cpu| cpu.layers.is_some()).collect();
    CpuLayer::ALL.into_iter().fold(frame, |frame, layer| {
        let times = summary.cpus.iter().map(|cpu| cpu.layers.map_or(0, |times| times.of(layer).as_nanos()));
        let name = format!("layers_ns.{}", layer.name());
        frame.with_some(name, super::Values::U64(times.collect()), known.clone())
    })
}

/// Returns a row per task group, under the kernel's names.
#[must_use]
pub fn groups(summary: &Summary) -> Frame {
    Of::new("groups", &summary.groups)
        .text("path", |group| Arc::clone(&group.path))
        .text("cpu.max", |group| CpuMax { burst: Duration::ZERO, slice: None, ..group.max }.to_string().into())
        .u64("cpu.max.burst", |group| group.max.burst.as_micros_floor())
        .u64("cpu.stat.usage_usec", |group| group.usage.as_micros_floor())
        .u64("cpu.stat.nr_periods", |group| group.stat.nr_periods)
        .u64("cpu.stat.nr_throttled", |group| group.stat.nr_throttled)
        .u64("cpu.stat.throttled_usec", |group| group.stat.throttled.as_micros_floor())
        .u64("cpu.stat.nr_bursts", |group| group.stat.nr_bursts)
        .u64("cpu.stat.burst_usec", |group| group.stat.burst.as_micros_floor())
        .u64("cpu.stat.local.throttled_usec", |group| group.local_throttled.as_micros_floor())
        .done()
}

/// Returns a row per service.
#[must_use]
pub fn services(summary: &Summary) -> Frame {
    let latency = |service: &crate::ServiceSummary, of: fn(crate::RequestTimes) -> u64| service.latency.map(of);
    let queued = |service: &crate::ServiceSummary, of: fn(crate::RequestTimes) -> u64| service.queued.map(of);
    Of::new("services", &summary.services)
        .text("name", |service| Arc::clone(&service.name))
        .some_text("group", |service| service.group.clone())
        .u64("arrived", |service| service.arrived)
        .u64("completed", |service| service.completed)
        .u64("unfinished", |service| service.unfinished)
        .u64("dropped", |service| service.dropped)
        .some_u64("request_latency.count", |service| latency(service, |times| times.count))
        .some_u64("request_latency.mean_ns", |service| latency(service, |times| times.mean.as_nanos()))
        .some_u64("request_latency.p50_ns", |service| latency(service, |times| times.p50.as_nanos()))
        .some_u64("request_latency.p90_ns", |service| latency(service, |times| times.p90.as_nanos()))
        .some_u64("request_latency.p99_ns", |service| latency(service, |times| times.p99.as_nanos()))
        .some_u64("request_latency.p999_ns", |service| latency(service, |times| times.p999.as_nanos()))
        .some_u64("request_latency.max_ns", |service| latency(service, |times| times.max.as_nanos()))
        .some_u64("queued.count", |service| queued(service, |times| times.count))
        .some_u64("queued.mean_ns", |service| queued(service, |times| times.mean.as_nanos()))
        .some_u64("queued.p50_ns", |service| queued(service, |times| times.p50.as_nanos()))
        .some_u64("queued.p90_ns", |service| queued(service, |times| times.p90.as_nanos()))
        .some_u64("queued.p99_ns", |service| queued(service, |times| times.p99.as_nanos()))
        .some_u64("queued.p999_ns", |service| queued(service, |times| times.p999.as_nanos()))
        .some_u64("queued.max_ns", |service| queued(service, |times| times.max.as_nanos()))
        .done()
}

/// Returns a row per wait of [`Summary::worst_waits`], with the task that ran longest meanwhile.
#[must_use]
pub fn worst_waits(summary: &Summary) -> Frame {
    let name = |id: TaskId| summary.task(id).map(|task| Arc::clone(&task.name));
    let blocker = |wait: &crate::Wait| wait.blocked_by.first().copied();
    Of::new("worst_waits", &summary.worst_waits)
        .u64("task", |wait| wait.task.0.into())
        .some_text("task_name", |wait| name(wait.task))
        .i64("prio", |wait| wait.prio.raw().into())
        .u64("from_ns", |wait| wait.from.as_nanos())
        .u64("to_ns", |wait| wait.to.as_nanos())
        .u64("wait_ns", |wait| wait.length().as_nanos())
        .u64("cpu", |wait| wait.cpu.0.into())
        .word("cause", |wait| wait.cause.name())
        .word("ended_by", |wait| match wait.end {
            WaitEnd::Ran => "ran",
            WaitEnd::TraceEnded => "trace_ended",
        })
        .some_u64("blocked_by.task", |wait| blocker(wait)?.task.map(|task| task.0.into()))
        .some_text("blocked_by.task_name", |wait| name(blocker(wait)?.task?))
        .some_text("blocked_by.relation", |wait| Some(blocker(wait)?.relation(wait.prio).key().into()))
        .some_u64("blocked_by.time_ns", |wait| Some(blocker(wait)?.time.as_nanos()))
        .u64("unexplained_ns", |wait| wait.unexplained().as_nanos())
        .u64("in_gaps_ns", |wait| wait.unsure.as_nanos())
        .done()
}

impl Relation {
    /// Returns the word in JSON and in frames.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Beats => "higher",
            Self::Equal => "equal",
            Self::Fair => "shares",
            Self::Loses => "lower",
            Self::Idle => "idle",
            Self::Throttled => "throttled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::frame::Values;
    use crate::sample::two_hogs_and_a_fifo;
    use serde_json::Value;

    /// Returns the value of a path in an object: keys can contain points themselves.
    fn at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
        let object = value.as_object()?;
        if let Some(found) = object.get(path) {
            return Some(found);
        }
        let mut cuts = path.match_indices('.');
        cuts.find_map(|(cut, _)| object.get(&path[..cut]).and_then(|inner| at(inner, &path[cut + 1..])))
    }

    /// Every column is the value of the same name in the JSON of the same run.
    #[test]
    fn columns_are_what_the_json_says() {
        let summary = Metrics::of(&two_hogs_and_a_fifo());
        let json: Value = serde_json::from_str(&crate::json::render(&summary).unwrap()).unwrap();
        let mut compared = 0;
        for frame in [tasks(&summary), cpus(&summary), groups(&summary), services(&summary), worst_waits(&summary)] {
            let list = json[frame.name()].as_array().unwrap();
            assert_eq!(list.len(), frame.rows(), "{}", frame.name());
            for column in frame.columns() {
                for (row, entry) in list.iter().enumerate() {
                    let Some(found) = at(entry, column.name()).filter(|found| !found.is_object()) else { continue };
                    let is_equal = match column.values() {
                        Values::U64(_) => found.as_u64() == column.u64(row),
                        Values::I64(values) => found.as_i64() == Some(values[row]),
                        Values::Text(_) => found.as_str() == column.text(row),
                        Values::F64(_) | Values::Bool(_) => false,
                    };
                    assert!(is_equal, "{}.{} of row {row}: {found}", frame.name(), column.name());
                    compared += 1;
                }
            }
        }
        assert!(compared > 50, "only {compared} values have the same name in both");
        let waits = worst_waits(&summary);
        assert_eq!(waits.column("task_name").and_then(|names| names.text(0)), Some("b"), "{waits:?}");
    }
}
