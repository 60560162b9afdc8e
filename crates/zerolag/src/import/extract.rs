//! From records to what each task did.

use super::answers;
use super::charged;
use super::loopback::{self, Pairs};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag_model::attr::SchedAttr;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Duration, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::{IdTable, Means, Trace};

/// What a task does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Computes for so much CPU time.
    Run(Duration),
    /// Wakes a task.
    Wake(TaskId),
    /// Sleeps until this task wakes it, which took so long.
    Wait(TaskId, Duration),
    /// Sleeps for so long, until something outside of all tasks wakes it.
    Sleep(Duration),
    /// Sleeps until this time from the start of the trace, at which something outside of all tasks
    /// wakes it: a request that arrives, however late the task is.
    Arrival { at: Duration, slept: Duration },
    /// Waits for the next expiry of its timer.
    Timer(Duration),
    /// Is done with what this task woke it for.
    Done(TaskId),
    /// Waits until this task is done with what it was woken for.
    After(TaskId),
}

/// The work of a task between two sleeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecordedJob {
    /// When it was woken; the start of the trace for the first one of a task that ran then.
    pub(super) at: Instant,
    /// The task that woke it; `None` for a timer, a device, or if the trace does not show it.
    pub(super) by: Option<TaskId>,
    pub(super) demand: Duration,
    /// When it was done: the task slept or ended. `None` if the trace ends before.
    pub(super) done: Option<Instant>,
}

/// A task of the trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ImportedTask {
    pub(super) id: TaskId,
    pub(super) name: Arc<str>,
    pub(super) attr: SchedAttr,
    /// The task that forked it, if the trace shows that.
    pub(super) parent: Option<TaskId>,
    /// From the start of the trace until its first step.
    pub(super) delay: Duration,
    pub(super) steps: Vec<Step>,
    pub(super) jobs: Vec<RecordedJob>,
    /// The times at which something outside of all tasks woke it.
    pub(super) expiries: Vec<Instant>,
    /// It runs or waits for a CPU when the trace ends: the rest of its demand is not known.
    pub(super) is_unfinished: bool,
}

impl ImportedTask {
    /// Returns whether it does anything. The stopper of a CPU is a part of the scheduler.
    pub(super) fn is_used(&self) -> bool {
        let computes = self.steps.iter().any(|step| matches!(step, Step::Run(_)));
        computes && !self.is_stopper()
    }

    /// Returns whether it does anything, or competes for a CPU without ever getting it.
    pub(super) fn competes(&self) -> bool {
        self.is_used() || self.is_unfinished && !self.is_stopper()
    }

    fn is_stopper(&self) -> bool {
        self.name.starts_with("migration/")
    }
}

/// Returns what the tasks of a trace did, in order of task. O(records).
pub(super) fn extract(trace: &Trace) -> Vec<ImportedTask> {
    let mut senders = loopback::senders(trace);
    // A stack or a system call tells it for certain.
    let sent = trace.meta.recorded.wakings.iter().filter(|waking| waking.means == Means::Socket);
    senders.extend(sent.filter_map(|waking| Some((waking.waker?, waking.woken))));
    let is_complete = trace.meta.source.is_complete();
    let mut extractor = Extractor { start: trace.meta.start, is_complete, senders, ..Extractor::default() };
    for record in &trace.records {
        extractor.take(record);
    }
    let mut tasks = extractor.finish(trace.meta.end);
    wait_for_used(&mut tasks);
    answers::await_answers(trace, &mut tasks);
    charged::correct(trace, &mut tasks);
    tasks
}

/// Makes sleeps of waits for tasks that are left out: nothing would ever end them.
fn wait_for_used(tasks: &mut [ImportedTask]) {
    let used: BTreeSet<TaskId> = tasks.iter().filter(|task| task.is_used()).map(|task| task.id).collect();
    for task in tasks {
        for step in &mut task.steps {
            if let Step::Wait(waker, slept) = step
                && !used.contains(waker)
            {
                *step = Step::Sleep(*slept);
            }
        }
    }
}

#[derive(Default)]
struct Extractor {
    start: Instant,
    /// The trace shows the parent of each task that has one.
    is_complete: bool,
    /// The tasks that wake others in softirqs.
    senders: Pairs,
    tasks: IdTable<TaskId, Doing>,
    cpus: BTreeMap<CpuId, TracedCpu>,
}

#[derive(Default)]
struct TracedCpu {
    /// `None` if unknown; the inner `None` is the idle task.
    runs: Option<Option<TaskId>>,
    /// The kinds of the interrupt handlers that it is in.
    handlers: Vec<Irq>,
}

/// What a task is doing.
#[derive(Default)]
struct Doing {
    name: Arc<str>,
    attr: Option<SchedAttr>,
    parent: Option<TaskId>,
    state: TracedState,
    /// From the start of the trace until its first event.
    appeared: Duration,
    /// CPU time since the last step.
    ran: Duration,
    delay: Duration,
    steps: Vec<Step>,
    jobs: Vec<RecordedJob>,
    expiries: Vec<Instant>,
    /// A waking while it runs: the waker and the place of its step. It counts if the task then
    /// blocks.
    early: Option<Option<(TaskId, usize)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum TracedState {
    /// The trace has not shown it yet.
    #[default]
    Unknown,
    Runs {
        since: Instant,
    },
    Waits,
    Sleeps {
        since: Instant,
    },
    /// It has exited.
    Ended,
}

impl Doing {
    /// Ends a computation.
    fn compute(&mut self, at: Instant) {
        if let TracedState::Runs { since } = &mut self.state {
            self.ran = self.ran.saturating_add(at.since(*since));
            *since = at;
        }
        let ran = core::mem::take(&mut self.ran);
        if !ran.is_zero() {
            self.steps.push(Step::Run(ran));
            if self.jobs.is_empty() {
                let at = Instant::from_nanos(at.as_nanos().saturating_sub(ran.as_nanos()));
                self.jobs.push(RecordedJob { at, by: None, demand: Duration::ZERO, done: None });
            }
            if let Some(job) = self.jobs.last_mut() {
                job.demand = job.demand.saturating_add(ran);
            }
        }
    }

    /// Ends a computation and the work for what it was woken by.
    fn end_job(&mut self, at: Instant) {
        self.compute(at);
        if let Some(job) = self.jobs.last_mut() {
            job.done = Some(at);
        }
    }
}

impl Extractor {
    fn take(&mut self, record: &Record) {
        let at = record.at;
        match &record.event {
            TraceEvent::TaskNew { task, name, attr, parent, .. } => {
                let doing = self.tasks.entry(*task);
                (doing.name, doing.attr, doing.parent) = (Arc::clone(name), Some(*attr), *parent);
                doing.appeared = at.since(self.start);
                if parent.is_some() {
                    // It waits for its first wakeup.
                    doing.state = TracedState::Sleeps { since: self.start };
                }
            }
            // The attributes that it ends with: most tasks have the same all the time.
            TraceEvent::AttrChange { task, attr } => self.tasks.entry(*task).attr = Some(*attr),
            TraceEvent::Waking { task, new, .. } => {
                // A task of a simulation begins by itself, whatever runs on its CPU.
                let begins = *new && self.is_complete && self.tasks.entry(*task).parent.is_none();
                let waker = if begins { None } else { self.waker(record.cpu, *task) };
                self.waking(*task, waker, at);
            }
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if let Some(prev) = prev {
                    self.switch_out(*prev, *prev_state, at);
                }
                if let Some(next) = next {
                    self.switch_in(*next, at);
                }
                self.cpus.entry(record.cpu).or_default().runs = Some(*next);
            }
            TraceEvent::IrqEnter { irq } => self.cpus.entry(record.cpu).or_default().handlers.push(*irq),
            TraceEvent::IrqExit { .. } => drop(self.cpus.entry(record.cpu).or_default().handlers.pop()),
            // Nothing else starts or ends a computation.
            _ => {}
        }
    }

    /// Returns the task that wakes another on this CPU; `None` in an interrupt and on an idle CPU.
    fn waker(&self, cpu: CpuId, woken: TaskId) -> Option<TaskId> {
        let cpu = self.cpus.get(&cpu)?;
        let running = cpu.runs.flatten().filter(|waker| *waker != woken)?;
        let is_waker = match cpu.handlers.last() {
            None => true,
            Some(Irq::Softirq) => self.senders.contains(&(running, woken)),
            Some(_) => false,
        };
        is_waker.then_some(running)
    }

    /// Adds the step by which a task wakes another; returns its place.
    fn wakes(&mut self, waker: TaskId, woken: TaskId, at: Instant) -> usize {
        let doing = self.tasks.entry(waker);
        doing.compute(at);
        doing.steps.push(Step::Wake(woken));
        doing.steps.len() - 1
    }

    fn waking(&mut self, task: TaskId, waker: Option<TaskId>, at: Instant) {
        match self.tasks.entry(task).state {
            TracedState::Unknown => {
                self.woken(task, self.start, waker, at);
            }
            TracedState::Sleeps { since } => self.woken(task, since, waker, at),
            TracedState::Runs { .. } => {
                self.cancel(task);
                let place = waker.map(|waker| (waker, self.wakes(waker, task, at)));
                self.tasks.entry(task).early = Some(place);
            }
            TracedState::Waits | TracedState::Ended => {}
        }
    }

    /// A task that slept is woken.
    fn woken(&mut self, task: TaskId, since: Instant, waker: Option<TaskId>, at: Instant) {
        if let Some(waker) = waker {
            self.wakes(waker, task, at);
        }
        let doing = self.tasks.entry(task);
        doing.jobs.push(RecordedJob { at, by: waker, demand: Duration::ZERO, done: None });
        let is_first = doing.steps.is_empty();
        match waker {
            Some(waker) => doing.steps.push(Step::Wait(waker, at.since(since))),
            None => {
                let slept = at.since(since);
                doing.expiries.push(at);
                if is_first {
                    doing.delay = at.since(self.start);
                } else if !slept.is_zero() {
                    doing.steps.push(Step::Arrival { at: at.since(self.start), slept });
                }
            }
        }
        doing.state = TracedState::Waits;
    }

    /// Takes back an early waking: the task did not block after it.
    fn cancel(&mut self, task: TaskId) {
        if let Some(Some((waker, place))) = self.tasks.entry(task).early.take() {
            // A computation of no time in place of the step, so that no other place changes.
            self.tasks.entry(waker).steps[place] = Step::Run(Duration::ZERO);
        }
    }

    fn switch_out(&mut self, task: TaskId, state: PrevState, at: Instant) {
        let start = self.start;
        let doing = self.tasks.entry(task);
        if doing.state == TracedState::Unknown {
            doing.state = TracedState::Runs { since: start };
        }
        match state {
            PrevState::Runnable | PrevState::Idle => {
                if let TracedState::Runs { since } = doing.state {
                    doing.ran = doing.ran.saturating_add(at.since(since));
                }
                doing.state = TracedState::Waits;
                self.cancel(task);
            }
            PrevState::Blocked => {
                doing.end_job(at);
                doing.state = TracedState::Sleeps { since: at };
                match doing.early.take() {
                    None => {}
                    Some(waker) => {
                        doing.jobs.push(RecordedJob {
                            at,
                            by: waker.map(|(waker, _)| waker),
                            demand: Duration::ZERO,
                            done: None,
                        });
                        if let Some((waker, _)) = waker {
                            doing.steps.push(Step::Wait(waker, Duration::ZERO));
                        }
                        doing.state = TracedState::Waits;
                    }
                }
            }
            PrevState::Dead => {
                doing.end_job(at);
                doing.state = TracedState::Ended;
                self.cancel(task);
            }
        }
    }

    fn switch_in(&mut self, task: TaskId, at: Instant) {
        // A waking that the trace does not show.
        if let TracedState::Sleeps { since } = self.tasks.entry(task).state {
            self.woken(task, since, None, at);
        }
        let doing = self.tasks.entry(task);
        // Nothing says that it was there before: a recording need not have the wakeups of new
        // tasks.
        if doing.state == TracedState::Unknown {
            doing.delay = doing.appeared;
        }
        doing.state = TracedState::Runs { since: at };
    }

    fn finish(mut self, end: Instant) -> Vec<ImportedTask> {
        let running: Vec<TaskId> = self
            .tasks
            .iter()
            .filter(|(_, doing)| matches!(doing.state, TracedState::Runs { .. }))
            .map(|(task, _)| task)
            .collect();
        for task in running {
            self.cancel(task);
            self.tasks.entry(task).compute(end);
        }
        for (_, doing) in self.tasks.iter_mut() {
            // Preempted at the end: what it had computed.
            doing.compute(end);
        }
        let used = |(id, doing): (TaskId, &Doing)| {
            let attr = doing.attr.unwrap_or(SchedAttr::NORMAL);
            let steps: Vec<Step> =
                doing.steps.iter().copied().filter(|step| *step != Step::Run(Duration::ZERO)).collect();
            let (jobs, expiries) = (doing.jobs.clone(), doing.expiries.clone());
            let parent = doing.parent;
            let is_unfinished = matches!(doing.state, TracedState::Waits | TracedState::Runs { .. });
            let mut task = ImportedTask {
                id,
                name: Arc::clone(&doing.name),
                attr,
                parent,
                delay: doing.delay,
                steps,
                jobs,
                expiries,
                is_unfinished,
            };
            task.recognise_sleeps();
            task
        };
        self.tasks.iter().map(used).collect()
    }
}

impl ImportedTask {
    /// Decides what the sleeps are that something outside of all tasks ends: expiries of a timer if
    /// they end at even distances; sleeps if there are few, or if they are equally long, for then
    /// each begins when the task is done; else arrivals.
    fn recognise_sleeps(&mut self) {
        let is_mixed = self.steps.iter().any(|step| matches!(step, Step::Wait(..)));
        let distances = self.expiries.windows(2).map(|pair| pair[1].since(pair[0]).as_nanos()).collect();
        let is_timer = !is_mixed && self.expiries.len() >= TIMER_MIN;
        let period = typical(distances, |median| median / 50).filter(|_| is_timer);
        let sleeps = self.steps.iter().filter_map(|step| match step {
            Step::Arrival { slept, .. } => Some(slept.as_nanos()),
            _ => None,
        });
        let sleeps: Vec<u64> = sleeps.collect();
        let are_sleeps = sleeps.len() < TIMER_MIN
            || typical(sleeps, |median| (median / 50).max(SLACK)).is_some_and(|median| median >= POLLING);
        for step in &mut self.steps {
            if let Step::Arrival { slept, .. } = *step {
                if let Some(period) = period {
                    *step = Step::Timer(Duration::from_nanos(period));
                } else if are_sleeps {
                    *step = Step::Sleep(slept);
                }
            }
        }
    }
}

/// Returns the median of times if nine of ten are as far from it as is tolerated.
fn typical(mut times: Vec<u64>, tolerance: impl Fn(u64) -> u64) -> Option<u64> {
    times.sort_unstable();
    let median = *times.get(times.len() / 2)?;
    let even = times.iter().filter(|time| time.abs_diff(median) <= tolerance(median)).count();
    (even * 10 >= times.len() * 9).then_some(median)
}

/// So many wakings are needed to tell a timer from a chance.
pub(super) const TIMER_MIN: usize = 8;
/// By so many nanoseconds sleeps of one length differ: the slack of timers (Linux v6.12
/// `include/linux/init_task.h`, `timer_slack_ns`).
const SLACK: u64 = 50_000;
/// Shorter sleeps are those of a task that polls, as the monitor thread of Go programs does: what
/// it finds arrives when it arrives.
const POLLING: u64 = 1_000_000;
