//! `dl-bandwidth`: no deadline task runs for more than its bandwidth over any window of time.
//!
//! In any window of length t a constant bandwidth server gives at most runtime x (t / period + 2), and what its task ran too
//! long before that was noticed: a tick, with `enforce.dl = tick`. Kept as a bucket per task: running fills it, time empties
//! it at the task's bandwidth, and it never holds more than two runtimes and that grain. Where operations cost time, a twentieth
//! of the bandwidth is allowed for interrupts that a trace cannot tell from the task. A task that reclaims runs for more, as
//! long as others sleep: it is not judged.
//!
//! Complexity: O(1) per switch.

use crate::checker::{Context, Monitor};
use crate::report::{Findings, label};
use zerolag_model::{ClassId, DlFlags, Duration, Instant, Record, SchedAttr, TaskId, TraceEvent};
use zerolag_trace::replay::TaskState;
use zerolag_trace::{IdTable, Replay};

struct DlBandwidth {
    grain: Duration,
    /// What empties a bucket besides the bandwidth, in parts of it.
    is_costly: bool,
    buckets: IdTable<TaskId, Bucket>,
}

#[derive(Clone, Copy, Default)]
struct Bucket {
    level: Duration,
    /// When it was brought up to date.
    at: Instant,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say what deadline tasks are charged".to_owned());
    }
    let hz = context.meta.setting("hz").and_then(|hz| hz.parse().ok()).unwrap_or(250_u64);
    let tick = Duration::from_nanos(1_000_000_000 / hz.max(1));
    let is_costly = !matches!(context.meta.costs.as_str(), "zero" | "");
    let grain = match context.meta.setting("enforce.dl") {
        Some("exact") => Duration::from_micros(if is_costly { 100 } else { 0 }),
        _ => tick + Duration::from_micros(if is_costly { 200 } else { 0 }),
    };
    Ok(Box::new(DlBandwidth { grain, is_costly, buckets: IdTable::default() }))
}

impl Monitor for DlBandwidth {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::Switch { prev: Some(task), .. } => {
                let Some(view) = before.task(*task) else { return };
                let TaskState::Running { since, .. } = view.state else { return };
                if view.prio.class() == ClassId::Deadline {
                    self.run(before, *task, since, record, found);
                }
            }
            TraceEvent::AttrChange { task, .. } => *self.buckets.entry(*task) = Bucket::default(),
            // Nobody else ends a turn.
            _ => {}
        }
    }

    fn after(&mut self, _: &Replay, _: &Record) {}
}

impl DlBandwidth {
    /// A task has run from `since` until now.
    fn run(&mut self, before: &Replay, task: TaskId, since: Instant, record: &Record, found: &mut Findings) {
        let Some(SchedAttr::Deadline(params)) = before.task(task).map(|view| view.attr) else { return };
        if params.flags.has(DlFlags::RECLAIM) {
            return;
        }
        let bucket = self.buckets.entry(task);
        let rate = params.runtime + if self.is_costly { params.runtime / 20 } else { Duration::ZERO };
        let drained = record.at.since(bucket.at).mul_div_floor(rate.as_nanos(), params.period.as_nanos().max(1));
        bucket.level = (bucket.level + record.at.since(since)).saturating_sub(drained);
        bucket.at = record.at;
        let most = params.runtime * 2 + self.grain;
        if bucket.level > most {
            let excess = bucket.level - most;
            bucket.level = Duration::ZERO;
            found.push(record.at, Some(record.cpu), &[task], || {
                let (runtime, period) = (params.runtime, params.period);
                format!("{} runs for {excess} more than {runtime} in {period} allow", label(before, task))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{DlParams, Duration, SchedAttr};
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    /// A task of 2 ms in 10 ms that runs for so many milliseconds of each period.
    fn runs(ms: u64) -> Trace {
        let mut script = Script::new(1);
        let (runtime, period) = (Duration::from_millis(2), Duration::from_millis(10));
        let d = script.task("d", SchedAttr::Deadline(DlParams::new(runtime, period, period)));
        for period in 0..20 {
            let at = period * 10_000;
            script.wake(at, 0, d).run(at, 0, None, Some(d)).run(at + ms * 1000, 0, Some(d), None);
        }
        script.end(200_000)
    }

    #[test]
    fn a_task_keeps_to_its_bandwidth_or_the_rule_breaks() {
        holds("dl-bandwidth", &runs(2));
        breaks("dl-bandwidth", &runs(3), "d (task 0) runs for 400us more than 2ms in 10ms allow");
    }
}
