//! `dl-bandwidth`: no deadline task runs for more than its bandwidth over any window of time.
//!
//! In any window of length t a constant bandwidth server gives at most runtime x (t / period + 2), and what its task ran too
//! long before that was noticed: a tick, with `enforce.dl = tick`. Kept as a bucket per task: running fills it, time empties
//! it at the task's bandwidth, and it never holds more than two runtimes and that grain. Where operations cost time, a twentieth
//! of the bandwidth is allowed for interrupts that a trace cannot tell from the task. A task that reclaims runs for more, as
//! long as others sleep: it is not judged. Neither is one that holds a lock which others wait for, until its next job after that: it may
//! run with their parameters, and is not throttled.
//!
//! Complexity: O(1) per switch.

use crate::monitor::{Context, Monitor};
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

#[derive(Clone, Default)]
struct Bucket {
    level: Duration,
    /// When it was brought up to date.
    at: Instant,
    lent: Lent,
}

/// Whether a task may run with the parameters of others.
#[derive(Clone, Default)]
enum Lent {
    /// It runs with its own.
    #[default]
    No,
    /// Somebody waits for these locks, which it holds.
    For(Vec<u32>),
    /// Nobody does any more, but its job is still the one that was lent.
    Until,
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
            TraceEvent::WaitLock { lock, holder: Some(holder), .. } => {
                let bucket = self.buckets.entry(*holder);
                match &mut bucket.lent {
                    Lent::For(locks) => locks.push(*lock),
                    Lent::No | Lent::Until => bucket.lent = Lent::For(vec![*lock]),
                }
            }
            TraceEvent::DropLock { task, lock } => {
                let bucket = self.buckets.entry(*task);
                if let Lent::For(locks) = &mut bucket.lent {
                    locks.retain(|for_lock| for_lock != lock);
                    if locks.is_empty() {
                        bucket.lent = Lent::Until;
                    }
                }
            }
            TraceEvent::DlReplenish { task, .. } => {
                let bucket = self.buckets.entry(*task);
                if matches!(bucket.lent, Lent::Until) {
                    *bucket = Bucket { at: record.at, ..Bucket::default() };
                }
            }
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
        if !matches!(bucket.lent, Lent::No) {
            return;
        }
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
    use zerolag_model::{DlParams, Duration, Instant, SchedAttr, TraceEvent};
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

    /// A task of 2 ms in 10 ms runs for 18 ms while somebody waits for its lock; and again, in the next period?
    fn runs_with_lent(again: u64) -> Trace {
        let mut script = Script::new(1);
        let (runtime, period) = (Duration::from_millis(2), Duration::from_millis(10));
        let d = script.task("d", SchedAttr::Deadline(DlParams::new(runtime, period, period)));
        let waiter = script.fair("waiter");
        let replenish = |deadline| TraceEvent::DlReplenish {
            task: d,
            deadline: Instant::from_nanos(deadline),
            budget: runtime.to_signed(),
        };
        script.wake(0, 0, d).run(0, 0, None, Some(d));
        script.event(1_000, 0, TraceEvent::WaitLock { task: waiter, lock: 3, holder: Some(d) });
        script.event(18_000, 0, TraceEvent::DropLock { task: d, lock: 3 });
        script.run(18_000, 0, Some(d), None);
        script.event(20_000, 0, replenish(30_000_000));
        script.wake(20_000, 0, d).run(20_000, 0, None, Some(d)).run(20_000 + again * 1000, 0, Some(d), None);
        script.end(200_000)
    }

    #[test]
    fn who_holds_a_lock_that_others_wait_for_is_judged_from_his_next_job_on() {
        holds("dl-bandwidth", &runs_with_lent(2));
        breaks("dl-bandwidth", &runs_with_lent(18), "d (task 0) runs for 6.4ms more than 2ms in 10ms allow");
    }
}
