//! `rcu`: grace periods of RCU wait for their readers, and tasks for their grace periods.
//!
//! 1. A grace period ends after every section that had begun before it.
//! 2. A task returns at the end of a grace period that began after the task came, and of the first
//!    such one.
//! 3. A task is boosted in its section, in a grace period that is older than `rcu.boost_delay`,
//!    and only where readers are boosted.
//! 4. The thread of grace periods does not sleep through one, so none lasts because it was
//!    forgotten. One whose reader gets no CPU lasts, or whose thread gets none.
//!
//! A grace period counts ticks, so it can be a tick younger than it should be.
//!
//! Complexity: O(readers and waiters) per step of RCU.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::event::RcuStep;
use zerolag_model::settings::Preempt;
use zerolag_model::{CpuId, Duration, Instant, Record, Settings, TaskId, TraceEvent};
use zerolag_trace::Replay;
use zerolag_trace::replay::TaskState;

struct RcuMonitor {
    /// The least age of a grace period whose readers are boosted; `None` if none is.
    boost_age: Option<Duration>,
    /// How long the thread may sleep in a grace period; `None` if a thread that expires its timers
    /// can be kept from that for any time.
    sleep_max: Option<Duration>,
    readers: BTreeSet<TaskId>,
    /// The grace period.
    period: Option<OpenPeriod>,
    /// How many grace periods have begun.
    begun: u64,
    /// The tasks that wait, each with the number of grace periods that had begun before.
    waiters: BTreeMap<TaskId, u64>,
    has_judged: bool,
}

struct OpenPeriod {
    thread: TaskId,
    since: Instant,
    /// Since when its thread sleeps.
    asleep: Option<Instant>,
    /// The readers whose sections had begun before.
    readers: BTreeSet<TaskId>,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not have the steps of RCU".to_owned());
    }
    let settings = context.settings();
    let boosts = settings.preempt == Preempt::Rt && settings.rcu_boost;
    let tick = Duration::from_nanos(Duration::from_secs(1).as_nanos() / u64::from(settings.hz));
    Ok(Box::new(RcuMonitor {
        boost_age: boosts.then(|| settings.rcu_boost_delay.saturating_sub(tick)),
        sleep_max: sleep_max(settings, boosts, tick),
        readers: BTreeSet::new(),
        period: None,
        begun: 0,
        waiters: BTreeMap::new(),
        has_judged: false,
    }))
}

/// Returns how long the thread may sleep in a grace period: a look is after a few ticks, and what
/// keeps a CPU from a timer is shorter than this.
fn sleep_max(settings: &Settings, boosts: bool, tick: Duration) -> Option<Duration> {
    let is_fair = settings.rcu_kthread_prio == 0 && !boosts;
    (settings.preempt != Preempt::Rt || !is_fair).then(|| Duration::from_millis(200) + tick * 20)
}

impl Monitor for RcuMonitor {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match record.event {
            TraceEvent::Rcu { task, step } => self.step(before, record, task, step, found),
            TraceEvent::Waking { task, .. } => self.wakes(before, task, record.at, found),
            TraceEvent::Switch { prev: Some(task), .. } => {
                if let Some(period) = self.period.as_mut().filter(|period| period.thread == task) {
                    period.asleep = Some(record.at);
                }
            }
            _ => {}
        }
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        self.find_forgotten(last, end, found);
        let sleeps = |period: &&OpenPeriod| {
            let state = last.task(period.thread).map(|view| view.state);
            state == Some(TaskState::Blocked)
        };
        if let Some(thread) = self.period.as_ref().filter(sleeps).map(|period| period.thread) {
            self.wakes(last, thread, end, found);
        }
        if self.has_judged { Outcome::Judged } else { Outcome::NothingToJudge("no task waits for RCU") }
    }
}

impl RcuMonitor {
    fn step(&mut self, before: &Replay, record: &Record, task: TaskId, step: RcuStep, found: &mut Findings) {
        let (at, cpu) = (record.at, Some(record.cpu));
        match step {
            RcuStep::ReadBegins => {
                self.readers.insert(task);
            }
            RcuStep::ReadEnds => {
                self.readers.remove(&task);
                if let Some(period) = &mut self.period {
                    period.readers.remove(&task);
                }
            }
            RcuStep::WaitBegins => {
                self.has_judged = true;
                self.waiters.insert(task, self.begun);
            }
            RcuStep::WaitEnds => {
                let waited = self.waiters.remove(&task);
                if self.period.is_some() || waited.is_none_or(|had_begun| had_begun == self.begun) {
                    found.push(at, cpu, &[task], || {
                        format!("{} returns without a grace period that began after it came", label(before, task))
                    });
                }
            }
            RcuStep::PeriodBegins => {
                self.find_forgotten(before, at, found);
                self.begun += 1;
                let readers = self.readers.clone();
                self.period = Some(OpenPeriod { thread: task, since: at, asleep: None, readers });
            }
            RcuStep::PeriodEnds => {
                let left = self.period.take().and_then(|period| period.readers.first().copied());
                if let Some(reader) = left {
                    found.push(at, cpu, &[reader], || {
                        format!("a grace period ends in a section of {} that began before it", label(before, reader))
                    });
                }
            }
            RcuStep::Boosted => self.boosted(before, at, record.cpu, task, found),
        }
    }

    fn boosted(&self, before: &Replay, at: Instant, cpu: CpuId, task: TaskId, found: &mut Findings) {
        let age = self.period.as_ref().map(|period| at.since(period.since));
        let is_old = age.is_some_and(|age| self.boost_age.is_some_and(|least| age >= least));
        if !is_old || !self.readers.contains(&task) {
            found.push(at, Some(cpu), &[task], || {
                format!("{} is boosted, and its section delays no old grace period", label(before, task))
            });
        }
    }

    /// Finds tasks that wait although a grace period has begun since and ended.
    fn find_forgotten(&mut self, before: &Replay, at: Instant, found: &mut Findings) {
        let ended = self.begun - u64::from(self.period.is_some());
        for (task, _) in self.waiters.extract_if(.., |_, had_begun| *had_begun < ended) {
            found.push(at, None, &[task], || format!("{} waits for a grace period that is over", label(before, task)));
        }
    }

    /// A task wakes.
    fn wakes(&mut self, before: &Replay, task: TaskId, at: Instant, found: &mut Findings) {
        let Some(period) = self.period.as_mut().filter(|period| period.thread == task) else { return };
        let Some(since) = period.asleep.take() else { return };
        if self.sleep_max.is_some_and(|most| at.since(since) > most) {
            found.push(at, None, &[task], || {
                format!("{} has slept through a grace period since {since}", label(before, task))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::event::RcuStep::{self, *};
    use zerolag_model::{TaskId, TraceEvent};
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    /// A reader, a task that waits, and the thread, with these steps at these milliseconds.
    fn steps(steps: &[(u64, usize, RcuStep)]) -> Trace {
        let mut script = Script::new(3);
        let tasks = [script.fair("reader"), script.fair("writer"), script.fifo("thread", 1)];
        for (cpu, task) in tasks.into_iter().enumerate() {
            script.wake(0, cpu as u32, task).run(0, cpu as u32, None, Some(task));
        }
        for (ms, task, step) in steps {
            script.event(ms * 1_000, *task as u32, TraceEvent::Rcu { task: tasks[*task], step: *step });
        }
        let mut trace = script.end(2_000_000);
        trace.meta.settings.push(("preempt".to_owned(), "rt".to_owned()));
        trace
    }

    const READER: usize = 0;
    const WRITER: usize = 1;
    const THREAD: usize = 2;

    #[test]
    fn a_grace_period_ends_after_its_readers() {
        holds(
            "rcu",
            &steps(&[
                (0, READER, ReadBegins),
                (1, WRITER, WaitBegins),
                (2, THREAD, PeriodBegins),
                (499, READER, Boosted),
                (500, READER, ReadEnds),
                (500, READER, ReadBegins),
                (501, THREAD, PeriodEnds),
                (501, WRITER, WaitEnds),
            ]),
        );
        let early = [
            (0, READER, ReadBegins),
            (1, WRITER, WaitBegins),
            (2, THREAD, PeriodBegins),
            (3, THREAD, PeriodEnds),
            (3, WRITER, WaitEnds),
        ];
        breaks("rcu", &steps(&early), "a grace period ends in a section of reader (task 0) that began before it");
    }

    #[test]
    fn a_task_waits_for_the_next_grace_period() {
        let late = [(1, THREAD, PeriodBegins), (2, WRITER, WaitBegins), (3, THREAD, PeriodEnds), (3, WRITER, WaitEnds)];
        let sentence = "writer (task 1) returns without a grace period that began after it came";
        breaks("rcu", &steps(&late), sentence);
        let forgotten = [(1, WRITER, WaitBegins), (2, THREAD, PeriodBegins), (3, THREAD, PeriodEnds)];
        breaks("rcu", &steps(&forgotten), "writer (task 1) waits for a grace period that is over");
    }

    #[test]
    fn a_boost_needs_an_old_grace_period_and_a_section() {
        let sentence = "reader (task 0) is boosted, and its section delays no old grace period";
        let young =
            [(0, READER, ReadBegins), (1, WRITER, WaitBegins), (2, THREAD, PeriodBegins), (400, READER, Boosted)];
        breaks("rcu", &steps(&young), sentence);
        let outside = [(1, WRITER, WaitBegins), (2, THREAD, PeriodBegins), (600, READER, Boosted)];
        breaks("rcu", &steps(&outside), sentence);
    }

    #[test]
    fn the_thread_does_not_sleep_through_a_grace_period() {
        let asleep = |until: u64| {
            let mut script = Script::new(1);
            let (writer, thread): (TaskId, TaskId) = (script.fair("writer"), script.fifo("thread", 1));
            script.wake(0, 0, thread).run(0, 0, None, Some(thread));
            script.event(1_000, 0, TraceEvent::Rcu { task: writer, step: WaitBegins });
            script.event(1_000, 0, TraceEvent::Rcu { task: thread, step: PeriodBegins });
            script.run(1_000, 0, Some(thread), None);
            script.wake(until * 1_000, 0, thread).run(until * 1_000, 0, None, Some(thread));
            let mut trace = script.end(900_000);
            trace.meta.settings.push(("preempt".to_owned(), "rt".to_owned()));
            trace
        };
        holds("rcu", &asleep(100));
        breaks("rcu", &asleep(800), "thread (task 1) has slept through a grace period since 0.001000000");
    }
}
