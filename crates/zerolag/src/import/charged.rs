//! The demands of tasks as the kernel has charged them.
//!
//! A limit counts what is charged, and that is not the time between switches. When a task is woken
//! and preempts another, the kernel saves an update of the clock for the switch that follows at
//! once (`rq_clock_skip_update`): the time from the waking to the switch, in which the interrupt
//! ends and the scheduler runs, is charged to the woken task, although the other one was still on
//! the CPU. Redis in a virtual machine is charged for 25 us before it runs, thirty thousand times:
//! a quarter more than lies between its switches.
//!
//! A recording has the charges (`sched_stat_runtime`), and each task's sum of them is right, so its
//! demands are corrected to have this sum: what a task is charged beyond its run time is divided
//! among its wakeups, since that is where it comes from; what it is charged less is taken off all
//! its demands alike, since any of them can have been preempted. The sum over all tasks stays.
//!
//! Where events of a task are missing its charges are too, so it is left as it is; so is one whose
//! charges are less than half or more than twice its run time, which begins or ends within it.
//!
//! Source: Linux v6.12 `kernel/sched/core.c, wakeup_preempt`; `kernel/sched/sched.h`.

use super::extract::{ImportedTask, Step};
use std::collections::BTreeSet;
use zerolag_model::{Duration, TaskId};
use zerolag_report::Metrics;
use zerolag_trace::Trace;

/// Corrects the demands of tasks.
pub(super) fn correct(trace: &Trace, tasks: &mut [ImportedTask]) {
    let unsure = unsure(trace);
    for task in tasks.iter_mut().filter(|task| !unsure.contains(&task.id)) {
        let charged = trace.meta.recorded.thread(task.id).and_then(|thread| thread.charged);
        let ran = task.steps.iter().fold(Duration::ZERO, |sum, step| match step {
            Step::Run(demand) => sum.saturating_add(*demand),
            _ => sum,
        });
        let Some(charged) = charged else { continue };
        let (charged, ran) = (charged.as_nanos(), ran.as_nanos());
        if ran / 2 > charged || charged / 2 > ran || ran == 0 {
            continue;
        }
        match charged.checked_sub(ran) {
            Some(more) => lengthen(task, more),
            None => shorten(task, charged, ran),
        }
    }
}

/// Returns the tasks of whose run time a part lies in gaps.
fn unsure(trace: &Trace) -> BTreeSet<TaskId> {
    if trace.meta.recorded.gaps.is_empty() {
        return BTreeSet::new();
    }
    let is_unsure = |run: Duration, unsure: Duration| unsure.as_nanos() > run.as_nanos() / 100;
    let summary = Metrics::of(trace);
    summary.tasks.iter().filter(|task| is_unsure(task.run, task.run_unsure)).map(|task| task.task).collect()
}

/// Divides a time among the computations after wakeups.
fn lengthen(task: &mut ImportedTask, more: u64) {
    let mut after_wakeup = true;
    let mut places = Vec::new();
    for (place, step) in task.steps.iter().enumerate() {
        match step {
            Step::Run(_) if after_wakeup => {
                places.push(place);
                after_wakeup = false;
            }
            Step::Run(_) | Step::Wake(_) | Step::Done(_) | Step::After(_) => {}
            Step::Wait(..) | Step::Sleep(_) | Step::Arrival { .. } | Step::Timer(_) => after_wakeup = true,
        }
    }
    let each = Duration::from_nanos(more / (places.len() as u64).max(1));
    for place in places {
        if let Step::Run(demand) = &mut task.steps[place] {
            *demand = demand.saturating_add(each);
        }
    }
    for job in task.jobs.iter_mut().filter(|job| !job.demand.is_zero()) {
        job.demand = job.demand.saturating_add(each);
    }
}

fn shorten(task: &mut ImportedTask, charged: u64, ran: u64) {
    let part = |demand: Duration| {
        let nanos = u128::from(demand.as_nanos()) * u128::from(charged) / u128::from(ran);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(demand.as_nanos()))
    };
    for step in &mut task.steps {
        if let Step::Run(demand) = step {
            *demand = part(*demand);
        }
    }
    for job in &mut task.jobs {
        job.demand = part(job.demand);
    }
}

#[cfg(test)]
mod tests {
    use super::super::extract::extract;
    use super::*;
    use zerolag_trace::script::Script;
    use zerolag_trace::{Source, Thread};

    /// `a` runs for 100 us after each of four wakeups, `b` for the rest of each millisecond.
    fn demands(charged: [u64; 2]) -> (Vec<u64>, Vec<u64>) {
        let mut script = Script::new(1);
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.meta.source = Source::Text;
        script.run(0, 0, None, Some(b));
        for turn in 1..5 {
            script.preempt(turn * 1000, 0, b, a).run(turn * 1000 + 100, 0, Some(a), Some(b));
        }
        script.run(5000, 0, Some(b), None);
        let mut trace = script.end(5000);
        let thread = |tid, us| Thread {
            tid,
            pid: None,
            process: None,
            group: None,
            groups_v1: Vec::new(),
            charged: Some(Duration::from_micros(us)),
        };
        trace.meta.recorded.threads = vec![thread(1, charged[0]), thread(2, charged[1])];
        let tasks = extract(&trace);
        let demands = |at: usize| {
            let runs = tasks[at].steps.iter().filter_map(|step| match step {
                Step::Run(demand) => Some(demand.as_nanos() / 1000),
                _ => None,
            });
            runs.collect()
        };
        (demands(0), demands(1))
    }

    #[test]
    fn demands_have_the_sum_of_the_charges() {
        assert_eq!(demands([400, 4600]), (vec![100; 4], vec![4600]));
        // 20 us before each switch belong to the woken task.
        assert_eq!(demands([480, 4520]), (vec![120; 4], vec![4520]));
    }

    #[test]
    fn charges_that_cannot_be_of_this_time_are_left_out() {
        assert_eq!(demands([4000, 100]), (vec![100; 4], vec![4600]));
    }
}
