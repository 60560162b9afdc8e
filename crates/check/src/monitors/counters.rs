//! `counters`: the counters of a task equal the trace.
//!
//! Switches, migrations and wakeups are exact. CPU time is only bounded: interrupts are not charged
//! to the task, so its CPU time is at most the time between the switch to it and the switch from
//! it.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use zerolag_model::{Duration, Instant, Record, TaskCounters, TaskId, TraceEvent};
use zerolag_trace::replay::TaskState;
use zerolag_trace::{IdTable, Replay};

#[derive(Default)]
struct CountersMonitor {
    tasks: IdTable<TaskId, TaskCounters>,
    totals: u64,
    /// How much later than a switch its event can come: the task that comes is charged before it.
    late_switch: Duration,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not show the whole life of its tasks".to_owned());
    }
    Ok(Box::new(CountersMonitor { late_switch: context.late_switch(), ..CountersMonitor::default() }))
}

impl Monitor for CountersMonitor {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::Wakeup { task, .. } => self.tasks.entry(*task).wakeups += 1,
            TraceEvent::Migrate { task, .. } => self.tasks.entry(*task).migrations += 1,
            TraceEvent::Switch { prev, next, .. } => {
                if let Some(prev) = prev {
                    let time = ran_since(before, *prev, record.at);
                    let counters = self.tasks.entry(*prev);
                    counters.exec = counters.exec.saturating_add(time);
                }
                if let Some(next) = next {
                    self.tasks.entry(*next).switches_in += 1;
                }
            }
            TraceEvent::TaskTotals { task, counters } => {
                self.totals += 1;
                self.judge(before, record, *task, counters, found);
            }
            // No other event is counted.
            _ => {}
        }
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.totals == 0 { Outcome::NothingToJudge("the trace has no counters") } else { Outcome::Judged }
    }
}

impl CountersMonitor {
    fn judge(&mut self, before: &Replay, record: &Record, task: TaskId, said: &TaskCounters, found: &mut Findings) {
        let mut seen = *self.tasks.entry(task);
        seen.exec = seen.exec.saturating_add(ran_since(before, task, record.at));
        for (what, said, seen) in [
            ("switches_in", said.switches_in, seen.switches_in),
            ("migrations", said.migrations, seen.migrations),
            ("wakeups", said.wakeups, seen.wakeups),
        ] {
            if said != seen {
                found.push(record.at, None, &[task], || {
                    format!("{} counts {what} = {said}, but the trace shows {seen}", label(before, task))
                });
            }
        }
        let late = self.late_switch * seen.switches_in;
        if said.exec > seen.exec.saturating_add(late) {
            found.push(record.at, None, &[task], || {
                let (said, seen) = (said.exec, seen.exec);
                format!("{} was charged {said}, but it had a CPU for {seen} only", label(before, task))
            });
        }
    }
}

/// Returns how long a task has been running at `at`; 0 if it does not run.
fn ran_since(replay: &Replay, task: TaskId, at: Instant) -> Duration {
    match replay.task(task).map(|task| task.state) {
        Some(TaskState::Running { since, .. }) => at.since(since),
        None
        | Some(
            TaskState::Unknown
            | TaskState::Blocked
            | TaskState::Waking { .. }
            | TaskState::Queued { .. }
            | TaskState::Dead,
        ) => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::{Duration, MigrateReason, TaskCounters, TraceEvent};
    use zerolag_trace::script::Script;
    use zerolag_trace::{Source, Trace};

    fn claims(exec_us: u64, switches_in: u64, migrations: u64, wakeups: u64) -> Trace {
        let mut script = Script::new(2);
        let a = script.fair("a");
        script.wake(0, 0, a).run(0, 0, None, Some(a)).run(4, 0, Some(a), None);
        script.wake(5, 0, a).migrate(6, a, 0, 1, MigrateReason::Pull).run(7, 1, None, Some(a));
        let exec = Duration::from_micros(exec_us);
        let counters = TaskCounters { exec, switches_in, migrations, wakeups };
        script.event(10, 0, TraceEvent::TaskTotals { task: a, counters }).end(10)
    }

    #[test]
    fn right_counters_hold() {
        holds("counters", &claims(7, 2, 1, 2));
        holds("counters", &claims(6, 2, 1, 2));
    }

    #[test]
    fn each_wrong_counter_is_named() {
        breaks("counters", &claims(8, 2, 1, 2), "a (task 0) was charged 8us, but it had a CPU for 7us only");
        breaks("counters", &claims(7, 3, 1, 2), "a (task 0) counts switches_in = 3, but the trace shows 2");
        breaks("counters", &claims(7, 2, 0, 2), "a (task 0) counts migrations = 0, but the trace shows 1");
        breaks("counters", &claims(7, 2, 1, 1), "a (task 0) counts wakeups = 1, but the trace shows 2");
    }

    #[test]
    fn recorded_traces_are_not_judged() {
        let mut trace = claims(8, 2, 1, 2);
        trace.meta.source = Source::Text;
        not_applicable("counters", &trace, "a recorded trace does not show the whole life of its tasks");
    }
}
