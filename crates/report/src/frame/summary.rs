//! The figures of a [`Summary`] as frames.

use super::columns::{Frame, Of};
use crate::figure::{Figure, Number, Owner, Subject, Unit, in_path};
use crate::summary::{Relation, Summary, WaitEnd, policy_text};
use std::sync::Arc;
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
    let frame = Of::new("tasks", &summary.tasks)
        .u64("id", |task| task.task.0.into())
        .text("name", |task| Arc::clone(&task.name))
        .text("policy", |task| policy_text(task.attr).into())
        .u64("migrations", |task| task.migrations.total())
        .done();
    let frame = figures(frame, Owner::Task, &summary.task_subjects().map(|(_, subject)| subject));
    // Last, since only recordings have them.
    Of::onto(frame, &summary.tasks)
        .some_u64("recorded.tid", |task| task.thread.as_ref().map(|thread| thread.tid.into()))
        .some_u64("recorded.pid", |task| task.thread.as_ref()?.pid.map(u64::from))
        .some_text("recorded.process", |task| task.thread.as_ref()?.process.as_deref().map(Into::into))
        .some_u64("recorded.charged_ns", |task| task.charged().map(Duration::as_nanos))
        .some_u64("recorded.run_ns_in_gaps", |task| task.thread.as_ref().map(|_| task.run_unsure.as_nanos()))
        .some_u64("recorded.wait_ns_in_gaps", |task| task.thread.as_ref().map(|_| task.wait_unsure.as_nanos()))
        .done()
}

/// Returns a row per CPU; the layers exist only where a simulation counted them.
#[must_use]
pub fn cpus(summary: &Summary) -> Frame {
    let frame = Of::new("cpus", &summary.cpus).u64("id", |cpu| cpu.cpu.0.into()).done();
    let frame = figures(frame, Owner::Cpu, &summary.cpus.iter().map(Subject::Cpu));
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
    let frame = Of::new("groups", &summary.groups)
        .text("path", |group| Arc::clone(&group.path))
        .text("cpu.max", |group| CpuMax { burst: Duration::ZERO, slice: None, ..group.max }.to_string().into())
        .u64("cpu.max.burst", |group| group.max.burst.as_micros_floor())
        .done();
    figures(frame, Owner::Group, &summary.group_subjects().map(|(_, subject)| subject))
}

/// Returns a row per service.
#[must_use]
pub fn services(summary: &Summary) -> Frame {
    let frame = Of::new("services", &summary.services)
        .text("name", |service| Arc::clone(&service.name))
        .some_text("group", |service| service.group.clone())
        .done();
    figures(frame, Owner::Service, &summary.service_subjects().map(|(_, subject)| subject))
}

/// Adds a column per figure of the table that has a path in JSON.
fn figures<'a>(frame: Frame, owner: Owner, subjects: &(impl Iterator<Item = Subject<'a>> + Clone)) -> Frame {
    let with_paths = Figure::of(owner).filter_map(|figure| Some((figure, figure.path()?)));
    with_paths.fold(frame, |frame, (figure, path)| {
        let values: Vec<Option<u64>> = subjects.clone().map(|subject| subject.value(figure)).collect();
        let numbers = values.iter().map(|value| in_path(value.unwrap_or_default(), figure.unit(), &path));
        let values_of_column = match figure.unit() {
            Unit::Time | Unit::Count => super::Values::U64(numbers.map(Number::whole).collect()),
            Unit::Share | Unit::Rate => super::Values::F64(numbers.map(Number::real).collect()),
        };
        frame.with_some(path.replace('/', "."), values_of_column, values.iter().map(Option::is_some).collect())
    })
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
                        Values::F64(values) => {
                            let exists = column.known().is_none_or(|known| known[row]);
                            found.as_f64() == exists.then_some(values[row])
                        }
                        Values::Bool(_) => false,
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
