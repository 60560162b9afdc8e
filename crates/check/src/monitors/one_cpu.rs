//! `one-cpu`: a task runs on at most one CPU at a time.
//!
//! At every switch, the CPU leaves the task that it ran. The next task runs nowhere else, has not
//! ended, and was woken since it blocked.
//!
//! A recorded trace begins in the middle: the state of a task or CPU before its first event is
//! unknown and accepted. A `sched_waking` alone is enough to run, because `perf sched record` does
//! not record `sched_wakeup`. Recorders stop CPU by CPU, so the last task of a CPU counts as still
//! running only once a later switch shows that the CPU was still recorded.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use std::collections::BTreeMap;
use zerolag_model::{CpuId, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::Replay;
use zerolag_trace::replay::{Current, TaskState};

struct OneCpu {
    is_complete: bool,
    wakings: u64,
    /// In a recorded trace, per CPU the first time that its task was seen running elsewhere;
    /// confirmed by the CPU's next switch.
    suspected: BTreeMap<CpuId, Suspicion>,
}

/// A switch to a task while another CPU ran it.
struct Suspicion {
    at: Instant,
    cpu: CpuId,
    task: TaskId,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    Ok(Box::new(OneCpu { is_complete: context.meta.source.is_complete(), wakings: 0, suspected: BTreeMap::new() }))
}

impl Monitor for OneCpu {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::Waking { .. } | TraceEvent::Wakeup { .. } => self.wakings += 1,
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if let Some(Suspicion { at, cpu, task }) = self.suspected.remove(&record.cpu) {
                    two_cpus(before, found, at, (cpu, record.cpu), task);
                }
                judge_leaving(before, record, *prev, *prev_state, found);
                if let Some(next) = next {
                    self.judge_entering(before, record, *prev, *next, found);
                }
            }
            // Only switches change the running task.
            _ => {}
        }
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.wakings == 0 && !self.is_complete {
            return Outcome::NothingToJudge("no wakeup was recorded");
        }
        Outcome::Judged
    }
}

fn judge_leaving(before: &Replay, record: &Record, prev: Option<TaskId>, state: PrevState, found: &mut Findings) {
    let cpu = record.cpu;
    let ran = before.cpu(cpu).current;
    if ran != Current::Unknown && ran.task() != prev {
        let tasks: Vec<TaskId> = prev.into_iter().chain(ran.task()).collect();
        found.push(record.at, Some(cpu), &tasks, || {
            format!(
                "the switch leaves {}, but cpu {cpu} ran {}",
                label_or_idle(before, prev),
                label_or_idle(before, ran.task())
            )
        });
    }
    if (state == PrevState::Idle) != prev.is_none() {
        found.push(record.at, Some(cpu), prev.as_slice(), || {
            format!("the switch leaves {} in state {state:?}", label_or_idle(before, prev))
        });
    }
}

fn two_cpus(before: &Replay, found: &mut Findings, at: Instant, (cpu, on): (CpuId, CpuId), task: TaskId) {
    found.push(at, Some(cpu), &[task], || {
        format!("{} runs on cpu {cpu} while it runs on cpu {on}", label(before, task))
    });
}

fn label_or_idle(replay: &Replay, task: Option<TaskId>) -> String {
    task.map_or_else(|| "the idle task".to_owned(), |task| label(replay, task))
}

impl OneCpu {
    fn judge_entering(
        &mut self,
        before: &Replay,
        record: &Record,
        prev: Option<TaskId>,
        next: TaskId,
        found: &mut Findings,
    ) {
        let cpu = record.cpu;
        let broken: Option<fn(CpuId) -> String> = match before.task(next).map(|task| task.state) {
            Some(TaskState::Running { on, .. }) if on != cpu => {
                if self.is_complete {
                    two_cpus(before, found, record.at, (cpu, on), next);
                } else {
                    self.suspected.entry(on).or_insert(Suspicion { at: record.at, cpu, task: next });
                }
                None
            }
            // The CPU leaves the task and picks it again: legal if it did not block in between.
            Some(TaskState::Running { .. }) if prev == Some(next) => None,
            Some(TaskState::Running { .. }) => Some(|cpu| format!("runs on cpu {cpu}, which was running it already")),
            Some(TaskState::Blocked) => Some(|cpu| format!("runs on cpu {cpu} without a wakeup since it blocked")),
            Some(TaskState::Waking { .. }) if self.is_complete => {
                Some(|cpu| format!("runs on cpu {cpu} before its wakeup put it on a run queue"))
            }
            Some(TaskState::Dead) => Some(|cpu| format!("runs on cpu {cpu} after it ended")),
            None | Some(TaskState::Unknown) if self.is_complete => {
                Some(|cpu| format!("runs on cpu {cpu} but was never made"))
            }
            None | Some(TaskState::Unknown | TaskState::Waking { .. } | TaskState::Queued { .. }) => None,
        };
        if let Some(sentence) = broken {
            found.push(record.at, Some(cpu), &[next], || format!("{} {}", label(before, next), sentence(cpu)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{PrevState, TaskId};
    use zerolag_trace::script::Script;

    fn two_on_one() -> (Script, TaskId, TaskId) {
        let mut script = Script::new(2);
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(1, 0, b);
        (script, a, b)
    }

    #[test]
    fn an_orderly_life_holds() {
        let (mut script, a, b) = two_on_one();
        script.preempt(2, 0, a, b).run(3, 0, Some(b), Some(a)).wake(4, 1, b).run(4, 1, None, Some(b));
        script.exit(5, 1, b, None).switch(6, 0, Some(a), PrevState::Runnable, Some(a));
        holds("one-cpu", &script.end(10));
    }

    #[test]
    fn every_disorder_is_named() {
        type Break = fn(&mut Script, TaskId, TaskId);
        let cases: [(Break, &str); 7] = [
            (
                |s, a, _| {
                    s.run(2, 1, None, Some(a));
                },
                "a (task 0) runs on cpu 1 while it runs on cpu 0",
            ),
            (
                |s, _, b| {
                    s.run(2, 0, Some(b), None);
                },
                "the switch leaves b (task 1), but cpu 0 ran a (task 0)",
            ),
            (
                |s, _, b| {
                    s.run(2, 0, None, Some(b));
                },
                "the switch leaves the idle task, but cpu 0 ran a (task 0)",
            ),
            (
                |s, a, b| {
                    s.run(2, 0, Some(a), Some(b)).preempt(3, 0, b, a);
                },
                "a (task 0) runs on cpu 0 without a wakeup since it blocked",
            ),
            (
                |s, a, b| {
                    s.exit(2, 0, a, Some(b)).preempt(3, 0, b, a);
                },
                "a (task 0) runs on cpu 0 after it ended",
            ),
            (
                |s, a, _| {
                    s.switch(2, 0, Some(a), PrevState::Idle, None);
                },
                "the switch leaves a (task 0) in state Idle",
            ),
            (
                |s, a, _| {
                    s.run(2, 0, None, Some(a));
                },
                "a (task 0) runs on cpu 0, which was running it already",
            ),
        ];
        for (break_it, sentence) in cases {
            let (mut script, a, b) = two_on_one();
            break_it(&mut script, a, b);
            breaks("one-cpu", &script.end(10), sentence);
        }
    }
}
