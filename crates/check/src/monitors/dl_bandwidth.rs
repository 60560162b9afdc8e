//! `dl-bandwidth`: no deadline task and no server runs for more than its bandwidth over any window
//! of time.
//!
//! A constant bandwidth server that gets its budget by its deadline runs for at most runtime x (t /
//! period + 2) in any window of length t: one budget at the end of its period, the next at the
//! beginning of the following one. Three rules of the kernel bear on that bound (Abeni & Buttazzo
//! 1998, lemma 1; Linux v6.12 `kernel/sched/deadline.c`, `update_dl_entity`,
//! `replenish_dl_entity`):
//!
//! * The wakeup rule keeps it: the budget that the rule discards is less than the budget that the
//!   task had to wait for.
//! * A task that is late by less than a period begins its next period at once, which allows one
//!   more runtime. So does one that slept and continues with its budget: it can be late, too. One
//!   that is later has the bandwidth of that time to make up for.
//! * An overrun is noticed late: with `enforce.dl = tick`, by up to a tick. A task repays it in its
//!   next periods, so it counts for each of the two runtimes, or three, of the window. A deferred
//!   server repays it only if its task blocks; else its next period begins later.
//!
//! The rule is kept as a bucket per task and per server: running fills the bucket, time empties it
//! at the rate of the bandwidth, and it never holds more than two runtimes (or three) plus the
//! overrun. A server's run time is the time that fair tasks run while the server is queued. A
//! period that continues after a change of its parameters can have the old budget.
//!
//! Handlers and softirqs are not a task's time ([`TaskTime`]). A task that disables interrupts is
//! stopped when the section ends: its overrun can be as long as its longest one, and that of a
//! server as long as the longest of its CPU. A task that was asked to leave its CPU and is in a
//! section without preemption, or in the kernel, is not charged until it does.
//!
//! Where operations cost time, [`Context::path`] is not counted in each turn, and 5 % of the
//! bandwidth, and at least [`INTERRUPTS`] in a period, is allowed for the rest of the path of an
//! interrupt, which a trace cannot separate from the task. Two kinds of task are not judged: a task
//! that reclaims, because it may run for longer while others sleep; and a task that holds a lock
//! which others wait for, until its next job, because it may run with their parameters and is not
//! throttled.
//!
//! Not excepted: the faults of kernels up to 4.12 with deadlines before the end of the period
//! ([`fault`]). A violation that they explain names the setting.
//!
//! Complexity: O(1) per switch.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use crate::servers::Servers;
use crate::task_time::{Moment, TaskTime};
use std::collections::BTreeSet;
use zerolag_model::settings::TimerGrain;
use zerolag_model::{
    ClassId, CpuId, DlFlags, Duration, Instant, PrevState, Record, SchedAttr, ServerKind, ServerState, Settings,
    TaskId, TraceEvent,
};
use zerolag_trace::replay::TaskState;
use zerolag_trace::{IdTable, Replay};

/// The least time of interrupts in a period: each job has the timer of its budget, and a wakeup.
const INTERRUPTS: Duration = Duration::from_micros(5);

/// Returns the setting of a reproduced fault by which a task whose deadline is before the end of
/// its period runs for more than its bandwidth.
fn fault(settings: &Settings) -> Option<&'static str> {
    match settings {
        Settings { dl_late_wakeup: true, .. } => Some("fault.dl_late_wakeup"),
        Settings { dl_wakeup_refill: true, .. } => Some("fault.dl_wakeup_refill"),
        Settings { dl_replenish_early: true, .. } => Some("fault.dl_replenish_early"),
        _ => None,
    }
}

struct DlBandwidth {
    grain: Duration,
    path: Duration,
    /// The bucket empties at more than the bandwidth, for interrupts.
    is_costly: bool,
    /// The fault that explains violations of tasks with a deadline before the end of their period.
    fault: Option<&'static str>,
    tasks: IdTable<TaskId, TaskBucket>,
    servers: Servers,
    time: TaskTime,
    server_buckets: IdTable<CpuId, BudgetBucket>,
    /// Locks and the tasks that wait for them.
    waiters: BTreeSet<(u32, TaskId)>,
}

#[derive(Clone, Default)]
struct BudgetBucket {
    level: Duration,
    /// The time of the last update.
    at: Moment,
    /// The deadline of the current budget, while a task wants it.
    deadline: Option<Instant>,
    /// The deadline of the budget with which a task sleeps; a wakeup can continue it.
    asleep: Option<Instant>,
    /// When a budget was last completed too late, if the bucket has not been empty since, and by
    /// how much one was at most.
    late: Option<(Instant, Duration)>,
    /// The runtime before the last change of the parameters, and the latest end of the period that
    /// continues with it.
    old: Option<(Duration, Instant)>,
}

#[derive(Clone, Default)]
struct TaskBucket {
    bucket: BudgetBucket,
    lent: Lending,
    /// The time up to which its run time is counted.
    counted: Moment,
}

/// Whether a task may run with the parameters of other tasks.
#[derive(Clone, Default)]
enum Lending {
    /// It runs with its own.
    #[default]
    No,
    /// It holds these locks, which other tasks wait for.
    For(Vec<u32>),
    /// No task waits any more, but its job is still the one that ran with lent parameters.
    Until,
}

impl TaskBucket {
    /// A task waits for this lock, which the bucket's task holds.
    fn lend(&mut self, lock: u32) {
        match &mut self.lent {
            Lending::For(locks) => locks.push(lock),
            Lending::No | Lending::Until => self.lent = Lending::For(vec![lock]),
        }
    }
}

/// The rate that empties a bucket, the overrun of each runtime that it may hold, and what it may
/// hold besides these.
#[derive(Clone, Copy)]
struct Rate {
    runtime: Duration,
    period: Duration,
    overrun: Duration,
    besides: Duration,
}

impl BudgetBucket {
    /// Adds a run that began at `began` and lasted for `ran` up to `now`; returns the excess over
    /// the limit.
    fn fill(
        &mut self,
        (began, ran): (Instant, Duration),
        now: Moment,
        Rate { runtime, period, overrun, besides }: Rate,
        is_costly: bool,
    ) -> Duration {
        let at = now.at;
        let rate = runtime.saturating_add(if is_costly { (runtime / 20).max(INTERRUPTS) } else { Duration::ZERO });
        let drained = |time: Duration| time.mul_div_floor(rate.as_nanos(), period.as_nanos().max(1));
        let slept = at.since(self.at.at).saturating_sub(ran);
        let kept = self.level.saturating_sub(drained(slept));
        self.late = self.late.filter(|(late, _)| !kept.is_zero() || began <= *late);
        (self.level, self.at) = (kept.saturating_add(ran).saturating_sub(drained(ran)), now);
        let owed = self.late.map_or(Duration::ZERO, |(_, by)| drained(by).max(runtime).saturating_add(overrun));
        let most = runtime.saturating_add(overrun).saturating_mul(2).saturating_add(owed).saturating_add(besides);
        let excess = self.level.saturating_sub(most);
        if !excess.is_zero() {
            self.level = Duration::ZERO;
        }
        excess
    }

    /// Notes that a budget is not completed at a time, if its deadline is over then.
    fn note_lateness(&mut self, at: Instant) {
        if let Some(last) = self.deadline.filter(|last| *last < at) {
            let before = self.late.map_or(Duration::ZERO, |(_, by)| by);
            self.late = Some((at, before.max(at.since(last))));
        }
    }

    /// The next budget arrives: an entity that wants to run has used the last one.
    fn renew(&mut self, at: Instant, deadline: Instant) {
        if self.deadline.is_some_and(|last| last < at) {
            // Not `at.since(last)`: it can have run on because it was stopped too late.
            self.late = Some((at, self.late.map_or(Duration::ZERO, |(_, by)| by)));
        }
        (self.deadline, self.asleep) = (Some(deadline), None);
    }
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say what deadline tasks are charged".to_owned());
    }
    let settings = context.settings();
    let is_costly = !matches!(context.meta.costs.as_str(), "zero" | "");
    let micros = |costly| Duration::from_micros(if is_costly { costly } else { 0 });
    let grain = match settings.enforce_dl {
        // A timer waits for the end of its CPU's path.
        TimerGrain::Exact => micros(100).max(context.longest_path()),
        TimerGrain::Tick | TimerGrain::Hrtick => settings.tick_period() + micros(200).max(context.longest_path()),
    };
    Ok(Box::new(DlBandwidth {
        grain,
        path: context.path(),
        is_costly,
        fault: fault(settings),
        tasks: IdTable::default(),
        servers: Servers::new(settings.clone(), context.meta),
        time: TaskTime::new(context),
        server_buckets: IdTable::default(),
        waiters: BTreeSet::new(),
    }))
}

impl Monitor for DlBandwidth {
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::Switch { prev, prev_state, .. } => {
                self.serve(before, record.cpu, record.at, found);
                let Some((task, view)) = prev.and_then(|task| Some((task, before.task(task)?))) else { return };
                if matches!(view.state, TaskState::Running { .. }) && view.prio.class() == ClassId::Deadline {
                    self.run(before, task, record.at, found);
                    if *prev_state == PrevState::Blocked {
                        let bucket = &mut self.tasks.entry(task).bucket;
                        bucket.asleep = bucket.deadline.take();
                    }
                }
            }
            TraceEvent::Wakeup { task, .. } => {
                let bucket = &mut self.tasks.entry(*task).bucket;
                bucket.deadline = bucket.deadline.or(bucket.asleep.take());
            }
            TraceEvent::DlThrottle { task, .. } => self.tasks.entry(*task).bucket.deadline = None,
            TraceEvent::AttrChange { task, .. } => {
                self.change_class(before, *task, record.at, found);
                let counted = self.now_of(before, *task, record);
                *self.tasks.entry(*task) = TaskBucket { counted, ..TaskBucket::default() };
            }
            TraceEvent::PrioInherit { task, .. } | TraceEvent::Proxy { task, .. } => {
                self.change_class(before, *task, record.at, found);
            }
            TraceEvent::WaitLock { task, lock, holder } => {
                self.waiters.insert((*lock, *task));
                if let Some(holder) = holder {
                    self.tasks.entry(*holder).lend(*lock);
                }
            }
            TraceEvent::TakeLock { task, lock } => {
                self.waiters.remove(&(*lock, *task));
                // The other waiters of a lock that is handed over wait for its new holder.
                let all = (*lock, TaskId(0))..=(*lock, TaskId(u32::MAX));
                if self.waiters.range(all).next().is_some() {
                    self.tasks.entry(*task).lend(*lock);
                }
            }
            TraceEvent::DropLock { task, lock } => {
                let bucket = self.tasks.entry(*task);
                if let Lending::For(locks) = &mut bucket.lent {
                    locks.retain(|for_lock| for_lock != lock);
                    if locks.is_empty() {
                        bucket.lent = Lending::Until;
                    }
                }
            }
            TraceEvent::DlReplenish { task, deadline, .. } => {
                // A task that continues with its next budget has obeyed, and no switch shows it.
                self.run(before, *task, record.at, found);
                let now = self.now_of(before, *task, record);
                let bucket = self.tasks.entry(*task);
                if matches!(bucket.lent, Lending::Until) {
                    let fresh = BudgetBucket { at: now, ..BudgetBucket::default() };
                    *bucket = TaskBucket { bucket: fresh, lent: Lending::No, counted: now };
                }
                bucket.bucket.renew(record.at, *deadline);
            }
            TraceEvent::Server { kind: ServerKind::Fair, state } => {
                self.serve(before, record.cpu, record.at, found);
                let bucket = self.server_buckets.entry(record.cpu);
                match *state {
                    ServerState::Queued { deadline } => bucket.renew(record.at, deadline),
                    ServerState::Stopped | ServerState::Deferred { .. } | ServerState::Throttled { .. } => {
                        bucket.deadline = None;
                    }
                }
            }
            TraceEvent::ServerParams { .. } => {
                self.serve(before, record.cpu, record.at, found);
                let params = self.servers.of(record.cpu);
                let bucket = self.server_buckets.entry(record.cpu);
                // A period can outlive several changes.
                let older = bucket.old.filter(|(_, end)| record.at < *end);
                let (runtime, end) = older.unwrap_or_default();
                let old = Some((runtime.max(params.runtime), end.max(record.at.saturating_add(params.period))));
                *bucket = BudgetBucket { at: self.time.now(record.cpu, record.at), old, ..BudgetBucket::default() };
            }
            // No other event ends a turn.
            _ => {}
        }
    }

    fn after(&mut self, _: &Replay, record: &Record) {
        self.servers.apply(record);
        self.time.apply(record);
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let cpus: Vec<CpuId> = last.cpus().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.serve(last, cpu, end, found);
        }
        Outcome::Judged
    }
}

impl DlBandwidth {
    /// Accounts for a task up to now, if it runs.
    fn run(&mut self, before: &Replay, task: TaskId, at: Instant, found: &mut Findings) {
        let Some(view) = before.task(task) else { return };
        let (TaskState::Running { on, .. }, SchedAttr::Deadline(params)) = (view.state, view.attr) else { return };
        if params.flags.has(DlFlags::RECLAIM) {
            return;
        }
        let now = self.time.now(on, at);
        let TaskBucket { bucket, lent, counted } = self.tasks.entry(task);
        let from = later(core::mem::replace(counted, now), self.time.switched(on));
        if !matches!(lent, Lending::No) {
            return;
        }
        let (runtime, period) = (params.runtime, params.period);
        let overrun = self.grain + self.time.deaf(task, on, at);
        let rate = Rate { runtime, period, overrun, besides: Duration::ZERO };
        let ran = asked_at(before, (&self.time, on), (from, from), now, found).since(from).saturating_sub(self.path);
        // Later, it could be late because it was not stopped.
        bucket.note_lateness(from.at);
        let excess = bucket.fill((from.at, ran), now, rate, self.is_costly);
        if !excess.is_zero() {
            let fault = self.fault.filter(|_| params.deadline < params.period);
            found.push_by(fault, at, Some(on), &[task], || {
                format!("{} runs for {excess} more than {runtime} in {period} allow", label(before, task))
            });
        }
    }

    /// Returns this moment of the CPU on which a task runs.
    fn now_of(&self, before: &Replay, task: TaskId, record: &Record) -> Moment {
        let on = match before.task(task).map(|view| view.state) {
            Some(TaskState::Running { on, .. }) => on,
            _ => record.cpu,
        };
        self.time.now(on, record.at)
    }

    /// A task can change its class here: its run time until now counts for the old class.
    fn change_class(&mut self, before: &Replay, task: TaskId, at: Instant, found: &mut Findings) {
        if let Some(TaskState::Running { on, .. }) = before.task(task).map(|view| view.state) {
            self.serve(before, on, at, found);
        }
    }

    /// Accounts for a CPU up to now: if it runs a fair task and its server is queued, the server
    /// has run.
    fn serve(&mut self, before: &Replay, cpu: CpuId, at: Instant, found: &mut Findings) {
        let view = before.cpu(cpu);
        let now = self.time.now(cpu, at);
        if view.fair_server.is_none() {
            self.server_buckets.entry(cpu).at = now;
            return;
        }
        let is_fair = |task: &TaskId| before.task(*task).is_some_and(|task| task.prio.class() == ClassId::Fair);
        let is_queued = matches!(view.fair_server, Some(ServerState::Queued { .. }));
        let served = view.current.task().filter(is_fair).filter(|_| is_queued);
        let (params, grain, path) = (self.servers.of(cpu), self.grain + self.time.deaf_on(cpu, at), self.path);
        let bucket = self.server_buckets.entry(cpu);
        let from = later(bucket.at, self.time.switched(cpu));
        let ran = served.map_or(Duration::ZERO, |_| {
            // A new period of the server answers no request.
            let turn = (self.time.switched(cpu), from);
            asked_at(before, (&self.time, cpu), turn, now, found).since(from).saturating_sub(path)
        });
        // The budget of a period that continues after a change can be the old one.
        bucket.old = bucket.old.filter(|(_, until)| at <= *until);
        let besides = bucket.old.map_or(Duration::ZERO, |(runtime, _)| runtime);
        // An overrun makes its period longer, or is repaid.
        let (runtime, period) = (params.runtime.saturating_add(grain), params.period.saturating_add(grain));
        let rate = Rate { runtime, period, overrun: Duration::ZERO, besides };
        let excess = bucket.fill((from.at, ran), now, rate, self.is_costly);
        if !excess.is_zero() {
            let (runtime, period) = (params.runtime, params.period);
            let tasks: Vec<TaskId> = served.into_iter().collect();
            found.push(at, Some(cpu), &tasks, || {
                format!("the fair server of cpu {cpu} runs for {excess} more than {runtime} in {period} allow")
            });
        }
    }
}

/// Returns the later of two moments of a CPU. The first can be one of another CPU, where the task
/// ran before it was switched to here.
fn later(counted: Moment, switched: Moment) -> Moment {
    if counted.at > switched.at { counted } else { switched }
}

/// Returns the time up to which a CPU's task, which has run since `from`, runs by its own right:
/// now, or when the CPU was asked to reschedule; that is `from` if it was asked before. A request
/// from before `answered` was obeyed.
fn asked_at(
    before: &Replay,
    (time, cpu): (&TaskTime, CpuId),
    (answered, from): (Moment, Moment),
    now: Moment,
    found: &mut Findings,
) -> Moment {
    match before.cpu(cpu).need_resched_since.filter(|asked| answered.at <= *asked && *asked < now.at) {
        None => now,
        Some(_) => {
            found.skip("a CPU was asked to reschedule and did not yet");
            later(from, time.asked(cpu))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::event::{Disables, Irq};
    use zerolag_model::{DlParams, Duration, Instant, SchedAttr, ServerKind, ServerState, TaskId, TraceEvent};
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    const RUNTIME: Duration = Duration::from_millis(2);

    /// Returns a task of 2 ms in 10 ms.
    fn two_in_ten(script: &mut Script) -> TaskId {
        let period = Duration::from_millis(10);
        script.task("d", SchedAttr::Deadline(DlParams::new(RUNTIME, period, period)))
    }

    /// A CPU that was asked to reschedule cannot while its task is in the kernel. Once the task has
    /// continued with its next budget, the request is answered and hides nothing.
    #[test]
    fn a_request_is_given_time_until_it_is_answered() {
        let mut script = Script::new(1);
        let d = two_in_ten(&mut script);
        script.wake(0, 0, d).run(0, 0, None, Some(d));
        script.event(3_000, 0, TraceEvent::NeedResched { by: zerolag_model::CpuId(0) });
        let ends = |script: &Script| script.clone().run(40_000, 0, Some(d), None).end(40_000);
        holds("dl-bandwidth", &ends(&script));
        let (deadline, budget) = (Instant::from_nanos(50_000_000), RUNTIME.to_signed());
        script.event(4_000, 0, TraceEvent::DlReplenish { task: d, deadline, budget });
        breaks("dl-bandwidth", &ends(&script), "d (task 0) runs for 19.2ms more than 2ms in 10ms allow");
    }

    /// A server's period begins while its CPU, in the kernel, has not answered a request.
    #[test]
    fn a_request_from_before_the_period_is_given_time_until_it_is_answered() {
        let asked = |is_asked: bool| {
            let mut script = Script::new(1);
            exact(&mut script, &[("fair_server.runtime", "2ms"), ("fair_server.period", "10ms")]);
            let fair = script.fair("fair");
            script.wake(0, 0, fair).run(0, 0, None, Some(fair));
            if is_asked {
                script.event(1_000, 0, TraceEvent::NeedResched { by: zerolag_model::CpuId(0) });
            }
            let state = ServerState::Queued { deadline: Instant::from_nanos(12_000_000) };
            script.event(2_000, 0, TraceEvent::Server { kind: ServerKind::Fair, state });
            script.run(11_000, 0, Some(fair), None).end(11_000)
        };
        holds("dl-bandwidth", &asked(true));
        breaks("dl-bandwidth", &asked(false), "the fair server of cpu 0 runs for 3.2ms more than 2ms in 10ms allow");
    }

    /// A task that runs from 0 to 24 ms, in which other things happen.
    fn runs_long(events: &[(u64, TraceEvent)]) -> Trace {
        let mut script = Script::new(1);
        let d = two_in_ten(&mut script);
        script.wake(0, 0, d).run(0, 0, None, Some(d));
        for (at, event) in events {
            script.event(*at, 0, event.clone());
        }
        script.run(24_000, 0, Some(d), None).end(24_000)
    }

    #[test]
    fn interrupts_are_not_the_tasks_time() {
        let (enter, exit) = (TraceEvent::IrqEnter { irq: Irq::Softirq }, TraceEvent::IrqExit { irq: Irq::Softirq });
        holds("dl-bandwidth", &runs_long(&[(1_000, enter.clone()), (11_000, exit.clone())]));
        let says = "d (task 0) runs for 6.4ms more than 2ms in 10ms allow";
        breaks("dl-bandwidth", &runs_long(&[(1_000, enter), (2_000, exit)]), says);
    }

    #[test]
    fn a_section_with_interrupts_disabled_makes_the_overrun_longer_and_one_without_preemption_does_not() {
        let section = |what: Disables, ends: u64| {
            let event = |disables| TraceEvent::NoPreempt { task: TaskId(0), disables };
            runs_long(&[(1_000, event(Some(what))), (ends, event(None))])
        };
        holds("dl-bandwidth", &section(Disables::Interrupts, 6_000));
        let says = "d (task 0) runs for 5.2ms more than 2ms in 10ms allow";
        breaks("dl-bandwidth", &section(Disables::Interrupts, 2_000), says);
        let says = "d (task 0) runs for 7.2ms more than 2ms in 10ms allow";
        breaks("dl-bandwidth", &section(Disables::Preemption, 6_000), says);
    }

    /// A task of 2 ms in 10 ms that runs for `ms` in each period.
    fn runs(ms: u64) -> Trace {
        let mut script = Script::new(1);
        let d = two_in_ten(&mut script);
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

    /// A task of 2 ms in 10 ms runs for 18 ms while another waits for its lock, and for `again` in
    /// its next job. The lock is its own from the start, or it takes it over with the waiter.
    fn runs_with_lent(again: u64, takes: bool) -> Trace {
        let mut script = Script::new(1);
        let d = two_in_ten(&mut script);
        let (waiter, former) = (script.fair("waiter"), script.fair("former"));
        let replenish = |deadline| TraceEvent::DlReplenish {
            task: d,
            deadline: Instant::from_nanos(deadline),
            budget: RUNTIME.to_signed(),
        };
        script.wake(0, 0, d).run(0, 0, None, Some(d));
        let holder = Some(if takes { former } else { d });
        script.event(1_000, 0, TraceEvent::WaitLock { task: waiter, lock: 3, holder });
        if takes {
            script.event(1_000, 0, TraceEvent::WaitLock { task: d, lock: 3, holder });
            script.event(1_000, 0, TraceEvent::TakeLock { task: d, lock: 3 });
        }
        script.event(18_000, 0, TraceEvent::DropLock { task: d, lock: 3 });
        script.run(18_000, 0, Some(d), None);
        script.event(20_000, 0, replenish(30_000_000));
        script.wake(20_000, 0, d).run(20_000, 0, None, Some(d)).run(20_000 + again * 1000, 0, Some(d), None);
        script.end(200_000)
    }

    #[test]
    fn the_holder_of_a_contended_lock_is_judged_from_its_next_job_on() {
        for takes in [false, true] {
            holds("dl-bandwidth", &runs_with_lent(2, takes));
            let says = "d (task 0) runs for 2.4ms more than 2ms in 10ms allow";
            breaks("dl-bandwidth", &runs_with_lent(18, takes), says);
        }
    }

    /// A task sleeps with 1 ms of its budget left, and gets the CPU back 11 ms after its deadline,
    /// or before it: then it cannot have two more budgets at once.
    #[test]
    fn a_task_that_slept_can_be_late_with_its_old_budget() {
        let resumes = |deadline: u64| {
            let mut script = Script::new(1);
            let d = two_in_ten(&mut script);
            exact(&mut script, &[]);
            let replenish = |ms: u64| TraceEvent::DlReplenish {
                task: d,
                deadline: Instant::from_nanos(ms * 1_000_000),
                budget: RUNTIME.to_signed(),
            };
            script.event(0, 0, replenish(deadline)).wake(0, 0, d).run(0, 0, None, Some(d)).run(1_000, 0, Some(d), None);
            script.wake(5_000, 0, d).run(21_000, 0, None, Some(d)).event(22_000, 0, replenish(deadline + 10));
            script.event(24_000, 0, replenish(deadline + 20)).run(27_000, 0, Some(d), None);
            script.end(200_000)
        };
        holds("dl-bandwidth", &resumes(10));
        breaks("dl-bandwidth", &resumes(30), "d (task 0) runs for 800us more than 2ms in 10ms allow");
    }

    fn exact(script: &mut Script, settings: &[(&str, &str)]) {
        let settings = [("enforce.dl", "exact")].into_iter().chain(settings.iter().copied());
        script.meta.settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    }

    /// A server of 2 ms in 10 ms that lets a fair task run for `ms` in each period.
    fn serves(ms: u64) -> Trace {
        let mut script = Script::new(1);
        exact(&mut script, &[("fair_server.runtime", "2ms"), ("fair_server.period", "10ms")]);
        let (fair, fifo) = (script.fair("fair"), script.fifo("fifo", 3));
        let state = |state| TraceEvent::Server { kind: ServerKind::Fair, state };
        script.wake(0, 0, fifo).wake(0, 0, fair).run(0, 0, None, Some(fifo));
        for period in 0..20 {
            let begins = period * 10_000 + 1_000;
            let (ends, deadline) = (begins + ms * 1_000, Instant::from_nanos((begins + 10_000) * 1_000));
            script.event(begins, 0, state(ServerState::Queued { deadline })).preempt(begins, 0, fifo, fair);
            script.event(ends, 0, state(ServerState::Throttled { until: deadline })).preempt(ends, 0, fair, fifo);
        }
        script.end(200_000)
    }

    /// A server of 50 ms in 1 s gets 4 ms in 50 ms after 28 ms: the first period has 22 ms left.
    #[test]
    fn a_period_that_continues_has_its_old_budget() {
        let ms = Duration::from_millis;
        let (kind, activation) = (ServerKind::Fair, zerolag_model::Activation::Immediate);
        let changed = |changes: &[(u64, u64)], end: u64| {
            let mut script = Script::new(1);
            let server = [("fair_server", "immediate"), ("fair_server.runtime", "50ms"), ("fair_server.period", "1s")];
            exact(&mut script, &server);
            let f = script.fair("f");
            let state = ServerState::Queued { deadline: Instant::from_nanos(1_000_000_000) };
            script.event(0, 0, TraceEvent::Server { kind, state }).wake(0, 0, f).run(0, 0, None, Some(f));
            for (at, period) in changes {
                let params = zerolag_model::ServerParams { runtime: ms(4), period: ms(*period), activation };
                script.event(*at, 0, TraceEvent::ServerParams { kind, params });
            }
            script.run(end * 1_000, 0, Some(f), None).end(end * 1_000)
        };
        let runs_until = |end| changed(&[(28_000, 50)], end);
        holds("dl-bandwidth", &runs_until(52));
        // It outlives a second change, too.
        let changed_twice = |end| changed(&[(1_000, 100), (2_000, 100)], end);
        holds("dl-bandwidth", &changed_twice(52));
        let twice = "the fair server of cpu 0 runs for 26.48ms more than 4ms in 100ms allow";
        breaks("dl-bandwidth", &changed_twice(90), twice);
        let says = "the fair server of cpu 0 runs for 15.6ms more than 4ms in 50ms allow";
        breaks("dl-bandwidth", &runs_until(108), says);
    }

    #[test]
    fn a_server_keeps_to_its_bandwidth_or_the_rule_breaks() {
        holds("dl-bandwidth", &serves(2));
        breaks("dl-bandwidth", &serves(3), "the fair server of cpu 0 runs for 400us more than 2ms in 10ms allow");
    }

    /// A task of 2 ms in 10 ms waits for 18 ms, then uses `budgets` budgets back to back.
    fn late(budgets: u64) -> Trace {
        let mut script = Script::new(1);
        exact(&mut script, &[]);
        let d = two_in_ten(&mut script);
        script.wake(0, 0, d);
        for budget in 0..budgets {
            let deadline = Instant::from_nanos((budget + 1) * 10_000_000);
            let event = TraceEvent::DlReplenish { task: d, deadline, budget: RUNTIME.to_signed() };
            script.event(if budget == 0 { 0 } else { 18_000 + budget * 2_000 }, 0, event);
            if budget == 0 {
                script.run(18_000, 0, None, Some(d));
            }
        }
        script.run(18_000 + budgets * 2_000, 0, Some(d), None).end(200_000)
    }

    #[test]
    fn a_late_task_gets_one_budget_more_at_once() {
        holds("dl-bandwidth", &late(3));
        breaks("dl-bandwidth", &late(4), "d (task 0) runs for 400us more than 2ms in 10ms allow");
    }

    /// A task that is late by 48 ms may run for 9.6 ms besides its two budgets.
    #[test]
    fn a_task_that_is_very_late_makes_up_for_that_time() {
        let late = |budgets: u64| {
            let mut script = Script::new(1);
            exact(&mut script, &[]);
            let d = two_in_ten(&mut script);
            script.wake(0, 0, d);
            let replenish = |deadline: u64| {
                let deadline = Instant::from_nanos(deadline * 1_000_000);
                TraceEvent::DlReplenish { task: d, deadline, budget: RUNTIME.to_signed() }
            };
            script.event(0, 0, replenish(10)).run(58_000, 0, None, Some(d));
            for budget in 1..budgets {
                script.event(58_000 + budget * 2_000, 0, replenish(10 + budget * 10));
            }
            script.run(58_000 + budgets * 2_000, 0, Some(d), None).end(200_000)
        };
        holds("dl-bandwidth", &late(8));
        breaks("dl-bandwidth", &late(9), "d (task 0) runs for 800us more than 2ms in 10ms allow");
    }

    /// A late task of 2 ms in 10 ms that is enforced at ticks runs on until `end`.
    #[test]
    fn each_of_the_three_budgets_of_a_late_task_can_overrun() {
        let late = |end: u64| {
            let mut script = Script::new(1);
            let d = two_in_ten(&mut script);
            let replenish = |deadline| TraceEvent::DlReplenish {
                task: d,
                deadline: Instant::from_nanos(deadline),
                budget: RUNTIME.to_signed(),
            };
            script.wake(0, 0, d).event(0, 0, replenish(10_000_000)).run(18_000, 0, None, Some(d));
            script.event(24_000, 0, replenish(40_000_000)).run(end * 1000, 0, Some(d), None);
            script.end(200_000)
        };
        holds("dl-bandwidth", &late(40));
        breaks("dl-bandwidth", &late(42), "d (task 0) runs for 1.2ms more than 2ms in 10ms allow");
    }

    /// A server comes to a CPU whose fair task is in the kernel. The request of that moment is not
    /// answered yet.
    #[test]
    fn a_request_of_the_moment_itself_counts() {
        let serves = |asks: bool| {
            let mut script = Script::new(1);
            exact(&mut script, &[("fair_server.runtime", "2ms"), ("fair_server.period", "10ms")]);
            let fair = script.fair("fair");
            let (kind, deadline) = (ServerKind::Fair, Instant::from_nanos(11_000_000));
            script.wake(0, 0, fair).run(0, 0, None, Some(fair));
            script.event(1_000, 0, TraceEvent::Server { kind, state: ServerState::Queued { deadline } });
            if asks {
                script.event(1_000, 0, TraceEvent::NeedResched { by: zerolag_model::CpuId(0) });
            }
            let state = ServerState::Throttled { until: deadline };
            script.event(9_000, 0, TraceEvent::Server { kind, state }).end(10_000)
        };
        holds("dl-bandwidth", &serves(true));
        breaks("dl-bandwidth", &serves(false), "the fair server of cpu 0 runs for 2.4ms more than 2ms in 10ms allow");
    }

    /// A turn of 3 us, of which 1 us is the scheduler's where operations cost time.
    #[test]
    fn the_path_of_the_scheduler_is_not_the_tasks() {
        let turns = |costs: &str| {
            let mut script = Script::new(1);
            exact(&mut script, &[]);
            costs.clone_into(&mut script.meta.costs);
            let d = two_in_ten(&mut script);
            for turn in 0..10_000 {
                let at = turn * 12;
                script.wake(at, 0, d).run(at, 0, None, Some(d)).run(at + 3, 0, Some(d), None);
            }
            script.end(200_000)
        };
        holds("dl-bandwidth", &turns("default"));
        breaks("dl-bandwidth", &turns("zero"), "d (task 0) runs for 200ns more than 2ms in 10ms allow");
    }
}
