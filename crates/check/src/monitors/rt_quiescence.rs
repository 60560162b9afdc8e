//! `rt-quiescence`: when nothing has happened for a while, no single move would help a waiting
//! real-time task.
//!
//! The obvious rule, "the n most urgent tasks run on the n CPUs at every instant", does not work:
//! pushes and pulls take time, and between a wakeup and its push the rule is legally broken. It
//! does hold once every push, pull and IPI is over. So the rule is judged only after *a while*: the
//! settle time ([`Context::settle`]) without a scheduling event anywhere on the machine. Then there
//! must be *no single move*: no waiting real-time task T and CPU c of its root domain such that T
//! may use c and c runs a less urgent task. On large busy machines such quiet times are rare; the
//! rule says nothing about the time in between.
//!
//! The exceptions, by name:
//!
//! * **passive modes** (`rt_balance` = `passive`, `active_and_passive`): they do not promise the
//!   rule; not applicable.
//! * **stuck head** (`rt_push_skip_stuck` = off, as in 2007): a push gives up when the first
//!   pushable task has nowhere to go, so a task behind such a one stays where it is. It also stays
//!   after another CPU has pulled that task, or its policy or affinity has changed: its CPU pushes
//!   again at its next switch.
//! * **one at a time** (`rt_balance` = `ipi_per_cpu`): an IPI pushes one task. The tasks behind it
//!   stay until the next IPI, or the next switch of their CPU.
//! * **fair floor**: where RT throttling or a deadline server may run fair tasks, or none, instead
//!   of real-time ones, only CPUs that run a real-time task count.
//! * **about to run**: no CPU takes a task that beats the current task of its own CPU. It waits
//!   there while a deadline server runs a fair task; also if that task becomes more urgent than the
//!   waiting one in this turn (`rt_mutex_setprio` pushes no other task).
//! * **RT throttling**: no CPU takes the throttled tasks of another CPU, and a throttled CPU that
//!   still runs a real-time task runs no other one after it.
//! * **on its way**: a CPU in an interrupt handler, and for the settle time after it, since other
//!   interrupts waited for its end; and one that was asked to reschedule, or spins
//!   for a run-queue lock, within the grace of [`Options::grace`](crate::Options). After it, a CPU
//!   that does not obey counts.
//! * **in the kernel**: under `preempt = none` and `voluntary` a CPU does not preempt a task in
//!   kernel mode, and a trace does not show all of kernel mode. A request is given [`IN_KERNEL`]
//!   there; the time beyond the grace is not judged.
//! * **IPI on its way**: the round of push IPIs (`rt_balance` = `ipi_*`) waits at a CPU in an
//!   interrupt handler, or in a section with interrupts disabled. Not judged until it is served
//!   there.
//! * **sections**: a task that has disabled preemption or interrupts keeps its CPU, and its CPU is
//!   given the settle time after it.
//! * **unknown affinity**: in a recorded trace that does not say where a task may run, it is judged
//!   on its own CPU only.
//!
//! Not excepted: the bug of kernels since 6.12, `fault.fair_server_resched_lost`. A violation that
//! it can explain names it, and does not fail a run.
//!
//! Complexity: O(1) per record while no waiting task is more urgent than the task of the least
//! urgent CPU; otherwise O(waiting x CPUs) once after each quiet time that follows an event.

use crate::monitor::{Context, Monitor};
use crate::report::{Findings, label};
use crate::rt_queues::RtQueues;
use std::collections::BTreeMap;
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::settings::{Preempt, RtBalance};
use zerolag_model::{CpuId, Duration, Instant, MigrateReason, Prio, Record, SchedAttr, TaskId, TraceEvent};
use zerolag_trace::replay::{CpuView, TaskState, TaskView};
use zerolag_trace::{IdTable, Replay};

/// The longest section of kernel mode that is believed, on a CPU of full capacity.
const IN_KERNEL: Duration = Duration::from_millis(100);

/// Returns [`IN_KERNEL`] on the slowest CPU of the machine.
fn in_kernel(context: &Context<'_>) -> Duration {
    let slowest = context.topology().and_then(|topology| topology.cpus().map(|cpu| topology.capacity(cpu)).min());
    IN_KERNEL.mul_div_ceil(1024, u64::from(slowest.unwrap_or(1024).max(1)))
}

struct RtQuiescence {
    queues: RtQueues,
    settle: Duration,
    grace: Duration,
    /// How long a request to reschedule can stay unanswered.
    answer: Duration,
    has_fair_floor: bool,
    is_complete: bool,
    skips_stuck: bool,
    loses_resched: bool,
    last: Instant,
    state: State,
    /// Whether an IPI pushes one task only.
    pushes_one: bool,
    /// The last real-time task that was pulled from each CPU, or pushed by such an IPI: when, and
    /// its priority. Or the last waiting one whose attributes changed there.
    taken: IdTable<CpuId, Option<(Instant, Prio)>>,
    /// When the running task of each CPU, which ran for a server, last changed its priority, and
    /// the one before.
    served: IdTable<CpuId, Option<(Instant, Prio)>>,
    /// When each CPU last left an interrupt handler, or a section without preemption.
    handled: IdTable<CpuId, Option<Instant>>,
    /// The CPUs to which a push IPI was sent and that have not served all interrupts since; and how
    /// many handlers of IPIs must begin there until it is served. That of an earlier IPI can begin,
    /// or end, before it arrives.
    ipis: BTreeMap<CpuId, u32>,
    /// The IPIs that were sent to each CPU and whose handlers have not begun, and when the last one
    /// was sent. Several can have one handler, so after [`IPI_MOST`] none counts.
    under_way: IdTable<CpuId, (u32, Instant)>,
}

/// An IPI that is not held up arrives within this time.
const IPI_MOST: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No record was seen yet.
    Fresh,
    /// A scheduling event happened since the last judgement.
    Stirred,
    /// No event happened since the last judgement, which found a violation.
    Broken,
    /// No event happened since the last judgement, which found none.
    Judged,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let setting = |key| context.meta.setting(key);
    if let Some(balance) = setting("rt_balance").and_then(RtBalance::from_name).filter(|balance| balance.is_passive()) {
        return Err(format!("rt_balance = {balance} does not promise it"));
    }
    Ok(Box::new(RtQuiescence {
        queues: RtQueues::default(),
        settle: context.settle(),
        grace: context.options.grace,
        answer: match context.settings().preempt {
            Preempt::None | Preempt::Voluntary => in_kernel(context).max(context.options.grace),
            Preempt::Full | Preempt::Lazy | Preempt::Rt => context.options.grace,
        },
        has_fair_floor: context.has_fair_floor(),
        is_complete: context.meta.source.is_complete(),
        skips_stuck: matches!(setting("rt_push_skip_stuck"), Some("on")),
        loses_resched: matches!(setting("fair_server.resched_lost"), Some("on")),
        last: context.meta.start,
        state: State::Fresh,
        pushes_one: setting("rt_balance").and_then(RtBalance::from_name) == Some(RtBalance::IpiPerCpu),
        taken: IdTable::default(),
        served: IdTable::default(),
        handled: IdTable::default(),
        ipis: BTreeMap::new(),
        under_way: IdTable::default(),
    }))
}

impl Monitor for RtQuiescence {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if self.state == State::Fresh {
            self.queues.start(before);
        }
        self.judge(before, record.at, found);
        if let TraceEvent::Migrate { prio, from, reason, .. } = record.event
            && match reason {
                MigrateReason::Pull => !self.skips_stuck,
                MigrateReason::Push => self.pushes_one,
                _ => false,
            }
        {
            *self.taken.entry(from) = Some((record.at, prio));
        }
        if let TraceEvent::AttrChange { task, .. }
        | TraceEvent::PrioInherit { task, .. }
        | TraceEvent::Affinity { task, .. } = record.event
            && !self.skips_stuck
            && let Some(view) = before.task(task)
            && let (Some(cpu), true, TaskState::Queued { .. }) = (view.rq, view.prio.is_rt(), view.state)
        {
            *self.taken.entry(cpu) = Some((record.at, view.prio));
        }
        if let TraceEvent::AttrChange { task, .. } | TraceEvent::PrioInherit { task, .. } = record.event
            && let Some(view) = before.task(task)
            && let TaskState::Running { on, .. } = view.state
            && before.cpu(on).has_fair_floor()
            && !view.prio.is_rt()
        {
            *self.served.entry(on) = Some((record.at, view.prio));
        }
        if let TraceEvent::IrqExit { .. } | TraceEvent::NoPreempt { disables: None, .. } = record.event {
            *self.handled.entry(record.cpu) = Some(record.at);
            if self.state == State::Judged {
                self.state = State::Stirred; // The CPU may have been excused by its handler or section.
            }
        }
        match record.event {
            TraceEvent::IpiSend { to, reason } if self.is_complete => {
                let (under_way, last) = self.under_way.get(to).copied().unwrap_or_default();
                let under_way = if record.at.since(last) > IPI_MOST { 1 } else { under_way + 1 };
                *self.under_way.entry(to) = (under_way, record.at);
                if reason == IpiReason::RtPush {
                    self.ipis.insert(to, under_way);
                }
            }
            TraceEvent::IrqEnter { irq: Irq::Ipi } => {
                let (under_way, _) = self.under_way.entry(record.cpu);
                *under_way = under_way.saturating_sub(1);
                if let Some(left) = self.ipis.get_mut(&record.cpu) {
                    *left = left.saturating_sub(1);
                }
            }
            // Interrupts that wait are served one after the other, without a gap.
            TraceEvent::IrqExit { .. }
                if before.cpu(record.cpu).irq_depth <= 1 && self.ipis.get(&record.cpu) == Some(&0) =>
            {
                self.ipis.remove(&record.cpu);
            }
            // No other event is about push IPIs.
            _ => {}
        }
        if is_scheduling(&record.event) {
            self.last = self.last.max(record.at);
            self.state = State::Stirred;
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.queues.follow(after, record);
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> crate::Outcome {
        self.judge(last, end, found);
        crate::Outcome::Judged
    }
}

/// Whether an event is part of the scheduler's work, so that its consequences can still be under
/// way.
fn is_scheduling(event: &TraceEvent) -> bool {
    !matches!(
        event,
        TraceEvent::Mark { .. }
            | TraceEvent::CpuTotals { .. }
            | TraceEvent::TaskTotals { .. }
            | TraceEvent::GroupTotals { .. }
            | TraceEvent::QueueNew { .. }
            | TraceEvent::Request { .. }
            | TraceEvent::IrqEnter { .. }
            | TraceEvent::IrqExit { .. }
            | TraceEvent::WaitLock { .. }
            | TraceEvent::TakeLock { .. }
            | TraceEvent::DropLock { .. }
            | TraceEvent::TaskThrottle { .. }
            | TraceEvent::Boost { .. }
            | TraceEvent::Proxy { .. }
            | TraceEvent::Syscall { .. }
            | TraceEvent::NoPreempt { .. }
    )
}

fn is_in_section(replay: &Replay, cpu: CpuId) -> bool {
    replay.cpu(cpu).no_preempt_since.is_some()
}

/// Returns whether a CPU is online, and in this root domain.
fn is_reachable(there: &CpuView, domain: u32) -> bool {
    there.online_since().is_some() && there.root_domain == domain
}

impl RtQuiescence {
    /// Judges the time since the last scheduling event, which ends at `at`, if it was long enough.
    fn judge(&mut self, before: &Replay, at: Instant, found: &mut Findings) {
        if self.state != State::Stirred || at.since(self.last) <= self.settle {
            return;
        }
        self.state = State::Judged;
        if !self.queues.may_preempt_somewhere() {
            return;
        }
        if self.ipis.keys().any(|cpu| self.is_deaf(before, *cpu, at)) {
            found.skip("a push IPI waits for the end of an interrupt or of a section");
            return;
        }
        for task in self.queues.waiting() {
            if let Some(cpu) = self.find_move(before, task, at) {
                let tasks: Vec<TaskId> = [task].into_iter().chain(before.cpu(cpu).current.task()).collect();
                // It can have inherited a priority since it ran on by the fault: no switch follows.
                let current = before.cpu(cpu).current.task().and_then(|task| before.task(task));
                let is_fair = current.is_some_and(|task| matches!(task.attr, SchedAttr::Fair { .. }));
                let fault = (self.loses_resched && is_fair).then_some("fault.fair_server_resched_lost");
                found.push_by(fault, self.last, Some(cpu), &tasks, || self.sentence(before, task, cpu, at));
                self.state = State::Broken;
            } else if before.task(task).and_then(|view| view.rq).is_some_and(|own| is_in_section(before, own)) {
                found.skip("a task has disabled preemption, and its CPU runs nothing else");
            } else if self.can_be_in_kernel(before, task, at) {
                found.skip("a CPU was asked to reschedule and can be in the kernel, where it is not preempted");
            }
        }
    }

    fn sentence(&self, before: &Replay, task: TaskId, cpu: CpuId, at: Instant) -> String {
        let quiet = at.since(self.last);
        let runs = before.cpu(cpu).current.task().map_or_else(|| "nothing".to_owned(), |task| label(before, task));
        let rq = before.task(task).and_then(|task| task.rq).map_or_else(|| "?".to_owned(), |rq| rq.to_string());
        let name = label(before, task);
        format!("nothing happens for {quiet}, {name} waits on cpu {rq}, and cpu {cpu}, which it may use, runs {runs}")
    }

    /// Returns a CPU on which a waiting task could run at once.
    fn find_move(&self, before: &Replay, task: TaskId, at: Instant) -> Option<CpuId> {
        let view = before.task(task)?;
        let own = view.rq?;
        if before.cpu(own).is_rt_throttled {
            return None;
        }
        let could_run = |cpu: CpuId| self.could_preempt(before, view, cpu, at);
        let has_just_handled = |cpu| self.has_just_handled(cpu, at);
        if could_run(own) && view.may_run_on(own) {
            return Some(own);
        }
        if view.may_run_on(own) && before.running_prio(own).is_some_and(|running| view.prio.beats(running)) {
            return None; // About to run.
        }
        let served = self.served.get(own).copied().flatten().filter(|(at, _)| *at >= before.cpu(own).since);
        if served.is_some_and(|(_, prio)| view.may_run_on(own) && view.prio.beats(prio)) {
            return None; // Was about to run.
        }
        let is_known = self.is_complete || view.affinity.is_some();
        if !is_known
            || self.is_on_its_way(before.cpu(own), at)
            || has_just_handled(own)
            || self.is_behind_stuck(before, task, view, own)
        {
            return None;
        }
        let domain = before.cpu(own).root_domain;
        let reachable = before.cpus().filter(|(_, there)| is_reachable(there, domain)).map(|(cpu, _)| cpu);
        reachable.filter(|cpu| *cpu != own && view.may_run_on(*cpu)).find(|cpu| could_run(*cpu))
    }

    fn could_preempt(&self, before: &Replay, task: &TaskView, cpu: CpuId, at: Instant) -> bool {
        let Some(running) = before.running_prio(cpu) else { return false };
        let has_floor = self.has_fair_floor || before.cpu(cpu).has_fair_floor();
        let counts = running.is_rt() || !has_floor;
        counts
            && !before.cpu(cpu).is_rt_throttled
            && task.prio.beats(running)
            && !self.is_on_its_way(before.cpu(cpu), at)
            && !self.has_just_handled(cpu, at)
    }

    /// Whether a CPU has left an interrupt handler within the settle time: the IPIs that came
    /// meanwhile are handled only now.
    fn has_just_handled(&self, cpu: CpuId, at: Instant) -> bool {
        self.handled.get(cpu).copied().flatten().is_some_and(|exit| at.since(exit) <= self.settle)
    }

    /// Whether a CPU cannot serve an IPI yet.
    fn is_deaf(&self, before: &Replay, cpu: CpuId, at: Instant) -> bool {
        before.cpu(cpu).irq_depth > 0 || is_in_section(before, cpu) || self.has_just_handled(cpu, at)
    }

    /// Whether a CPU is about to act, or cannot act for the moment.
    fn is_on_its_way(&self, cpu: CpuView, at: Instant) -> bool {
        let recent = |since: Option<Instant>, bound| since.is_some_and(|since| at.since(since) <= bound);
        cpu.irq_depth > 0
            || cpu.no_preempt_since.is_some()
            || recent(cpu.need_resched_since, self.answer)
            || recent(cpu.spins_since, self.grace)
    }

    /// Returns whether a task waits on a CPU that has not answered a request within the grace, and
    /// is given more time.
    fn can_be_in_kernel(&self, before: &Replay, task: TaskId, at: Instant) -> bool {
        let Some((view, own)) = before.task(task).and_then(|view| Some((view, view.rq?))) else { return false };
        let beats = before.running_prio(own).is_some_and(|running| view.prio.beats(running));
        let asked = before.cpu(own).need_resched_since.map(|since| at.since(since));
        beats && asked.is_some_and(|length| self.grace < length && length <= self.answer)
    }

    /// Stuck head: a task of the same queue, at least as urgent, is pushable, but no CPU takes it.
    fn is_behind_stuck(&self, before: &Replay, task: TaskId, view: &TaskView, own: CpuId) -> bool {
        let taken = self.taken.get(own).copied().flatten();
        if taken.is_some_and(|(at, prio)| at >= before.cpu(own).since && !view.prio.beats(prio)) {
            return true;
        }
        if self.skips_stuck {
            return false;
        }
        let is_stuck = |other: TaskId| {
            let Some(other) = before.task(other) else { return false };
            let is_pushable = other.affinity.as_ref().is_none_or(|cpus| cpus.first() != cpus.last());
            // A CPU that is about to run a task that waits there counts as running it (`cpupri`).
            let waits_there = |cpu: CpuId| {
                self.queues.on(cpu).next().and_then(|first| before.task(first)).map_or(Prio::IDLE, |first| first.prio)
            };
            let is_lower = |cpu: CpuId| {
                other.prio.beats(waits_there(cpu))
                    && before.running_prio(cpu).is_some_and(|running| other.prio.beats(running))
            };
            // A push avoids a CPU whose server is queued.
            let takes = |cpu: CpuId| !before.cpu(cpu).has_fair_floor() && is_lower(cpu);
            let domain = before.cpu(own).root_domain;
            let has_place = before
                .cpus()
                .any(|(cpu, there)| cpu != own && is_reachable(&there, domain) && other.may_run_on(cpu) && takes(cpu));
            is_pushable && !has_place
        };
        let as_urgent = |other: TaskId| before.task(other).is_some_and(|other| !view.prio.beats(other.prio));
        self.queues.on(own).take_while(|other| as_urgent(*other)).any(|other| other != task && is_stuck(other))
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::event::{Disables, IpiReason, Irq};
    use zerolag_model::{CpuId, MigrateReason, PrevState, Prio, ServerKind, ServerState, TraceEvent};
    use zerolag_trace::Source;
    use zerolag_trace::script::Script;

    /// CPU 0 runs `r` (FIFO 5), CPU 1 runs `a` (fair); `t` (FIFO 3) waits on CPU 0 from 10 on.
    fn overloaded() -> Script {
        let mut script = Script::new(2);
        let (r, a, t) = (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3));
        script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, t);
        script
    }

    const NOT_PUSHED: &str =
        "nothing happens for 990us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)";

    #[test]
    fn a_task_that_is_pushed_holds_and_one_that_is_not_breaks() {
        breaks("rt-quiescence", &overloaded().end(1000), NOT_PUSHED);
        let mut pushed = overloaded();
        let (a, t) = (zerolag_model::TaskId(1), zerolag_model::TaskId(2));
        pushed.migrate(10, t, 0, 1, MigrateReason::Push).preempt(10, 1, a, t);
        holds("rt-quiescence", &pushed.end(1000));
    }

    /// `a` has disabled preemption from 5 to 600: CPU 1 keeps it until then, and not longer.
    #[test]
    fn a_section_keeps_its_cpu_and_its_end_is_the_time_to_switch() {
        let mut script = overloaded();
        let a = zerolag_model::TaskId(1);
        script.event(5, 1, TraceEvent::NoPreempt { task: a, disables: Some(Disables::Preemption) });
        let trace = script.clone().end(1000);
        holds("rt-quiescence", &trace);
        let report = crate::check(&trace, &crate::Options::default());
        let own = "a task has disabled preemption, and its CPU runs nothing else";
        assert!(report.not_judged_by("rt-quiescence").all(|part| part.reason != own), "t waits on CPU 0");
        script.event(600, 1, TraceEvent::NoPreempt { task: a, disables: None });
        script.event(1000, 1, TraceEvent::NeedResched { by: CpuId(1) });
        breaks("rt-quiescence", &script.end(1001), NOT_PUSHED);
    }

    /// A push IPI was sent to CPU 0, which is in a handler. Once it is served, it hides nothing.
    #[test]
    fn a_push_ipi_that_waits_for_a_handler_is_given_time() {
        let mut script = overloaded();
        script.event(8, 0, TraceEvent::IrqEnter { irq: Irq::Device });
        let push = TraceEvent::IpiSend { to: CpuId(0), reason: IpiReason::RtPush };
        script.event(10, 1, push);
        holds("rt-quiescence", &script.clone().end(1000));
        script.event(10, 0, TraceEvent::IrqExit { irq: Irq::Device });
        script.event(10, 0, TraceEvent::IrqEnter { irq: Irq::Ipi }).event(10, 0, TraceEvent::IrqExit { irq: Irq::Ipi });
        breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);
    }

    /// A server runs `a` although `t` waits on that CPU, and `a` inherits a deadline: nothing
    /// pushes `t` in this turn.
    #[test]
    fn a_task_that_was_about_to_run_waits_for_the_turn_of_the_server() {
        let inherits = |has_server: bool| {
            let mut script = Script::new(2);
            let (a, t) = (script.fair("a"), script.fifo("t", 3));
            if has_server {
                let state = ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE };
                script.event(0, 0, TraceEvent::Server { kind: ServerKind::Fair, state });
            }
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(10, 0, t);
            script.event(20, 0, TraceEvent::PrioInherit { task: a, from: Prio::FIRST_FAIR, to: Prio::DEADLINE });
            script
        };
        holds("rt-quiescence", &inherits(true).end(1000));
        let says = "nothing happens for 980us, t (task 1) waits on cpu 0, and cpu 1, which it may use, runs nothing";
        breaks("rt-quiescence", &inherits(false).end(1000), says);
        let mut next = inherits(true);
        let a = zerolag_model::TaskId(0);
        let next_prio = Prio::DEADLINE;
        let again = TraceEvent::Switch { prev: None, prev_state: PrevState::Runnable, next: Some(a), next_prio };
        next.switch(600, 0, Some(a), PrevState::Runnable, None).event(601, 0, again);
        let says = "nothing happens for 399us, t (task 1) waits on cpu 0, and cpu 1, which it may use, runs nothing";
        breaks("rt-quiescence", &next.end(1000), says);
    }

    /// A push IPI is sent while CPU 0 serves another interrupt, and arrives when interrupts are
    /// disabled there.
    #[test]
    fn a_push_ipi_that_has_not_arrived_outlives_the_handler_before() {
        let sent = |is_served: bool| {
            let mut script = overloaded();
            let off = |disables| TraceEvent::NoPreempt { task: zerolag_model::TaskId(0), disables };
            let [enter, exit] = [TraceEvent::IrqEnter { irq: Irq::Ipi }, TraceEvent::IrqExit { irq: Irq::Ipi }];
            script.event(10, 0, enter.clone());
            script.event(10, 1, TraceEvent::IpiSend { to: CpuId(0), reason: IpiReason::RtPush });
            script.event(10, 0, exit.clone());
            if is_served {
                script.event(10, 0, enter).event(10, 0, exit);
            }
            script.event(10, 0, off(Some(Disables::Interrupts))).end(1000)
        };
        let judged = |is_served| {
            let report = crate::check(&sent(is_served), &crate::Options::default());
            let own = "a push IPI waits for the end of an interrupt or of a section";
            report.not_judged_by("rt-quiescence").all(|part| part.reason != own)
        };
        assert!(!judged(false));
        assert!(judged(true));
    }

    /// CPU 0 begins to serve an earlier IPI after a push IPI was sent. That one arrives when
    /// interrupts are disabled there.
    #[test]
    fn a_push_ipi_outlives_the_handler_of_an_earlier_one() {
        let sent = |has_earlier: bool| {
            let mut script = overloaded();
            let off = |disables| TraceEvent::NoPreempt { task: zerolag_model::TaskId(0), disables };
            let ipi = |reason| TraceEvent::IpiSend { to: CpuId(0), reason };
            if has_earlier {
                script.event(9, 1, ipi(IpiReason::Resched));
            }
            script.event(10, 1, ipi(IpiReason::RtPush));
            script.event(10, 0, TraceEvent::IrqEnter { irq: Irq::Ipi });
            script.event(10, 0, TraceEvent::IrqExit { irq: Irq::Ipi });
            script.event(10, 0, off(Some(Disables::Interrupts))).end(1000)
        };
        let judged = |has_earlier| {
            let report = crate::check(&sent(has_earlier), &crate::Options::default());
            let own = "a push IPI waits for the end of an interrupt or of a section";
            report.not_judged_by("rt-quiescence").all(|part| part.reason != own)
        };
        assert!(!judged(true));
        assert!(judged(false));
    }

    #[test]
    fn a_cpu_in_a_handler_holds_until_it_had_time_to_act() {
        let handler = |ends| {
            let mut script = overloaded();
            let (enter, exit) = (TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device });
            script.event(5, 1, enter).event(ends, 1, exit);
            script.end(1000)
        };
        holds("rt-quiescence", &handler(1000));
        breaks("rt-quiescence", &handler(100), NOT_PUSHED);
    }

    /// CPU 1 is throttled, and its task has become real-time since: `t` would wait there too.
    #[test]
    fn a_throttled_cpu_is_no_place_until_its_throttling_ends() {
        let mut script = overloaded();
        let one = zerolag_model::RtPriority::new(1).expect("in range");
        let (task, attr) = (zerolag_model::TaskId(1), zerolag_model::SchedAttr::fifo(one));
        script.event(0, 1, TraceEvent::RtThrottle { throttled: true }).event(
            5,
            1,
            TraceEvent::AttrChange { task, attr },
        );
        holds("rt-quiescence", &script.clone().end(1000));
        script.event(10, 1, TraceEvent::RtThrottle { throttled: false });
        breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);
    }

    #[test]
    fn a_higher_task_behind_a_lower_one_on_its_own_cpu_breaks() {
        let mut script = Script::new(1);
        let (low, high) = (script.fifo("low", 3), script.fifo("high", 5));
        script.wake(0, 0, low).run(0, 0, None, Some(low)).wake(10, 0, high);
        breaks(
            "rt-quiescence",
            &script.end(1000),
            "nothing happens for 990us, high (task 1) waits on cpu 0, and cpu 0, which it may use, runs low (task 0)",
        );
        breaks(
            "rt-quiescence",
            &{
                script.meta.source = Source::Linux;
                script.end(10_000)
            },
            "nothing happens for 9.99ms, high (task 1) waits on cpu 0, and cpu 0, which it may use, runs low (task 0)",
        );
    }

    /// A fair task that runs on by the fault of 6.12 inherits a priority, and no switch follows.
    #[test]
    fn a_lost_request_names_the_fault_also_if_the_task_inherits() {
        let faults = |own: &str| {
            let mut script = Script::new(1);
            let running = if own == "fair" { script.fair("r") } else { script.fifo("r", 2) };
            let t = script.fifo("t", 5);
            script.wake(0, 0, running).run(0, 0, None, Some(running)).wake(10, 0, t);
            let (from, to) = (Prio::from_raw(120), Prio::from_raw(96));
            script.event(10, 0, TraceEvent::PrioInherit { task: running, from, to });
            script.meta.settings.push(("fair_server.resched_lost".to_owned(), "on".to_owned()));
            crate::check(&script.end(1000), &crate::Options::default()).faults()
        };
        assert_eq!(faults("fair"), Some(vec!["fault.fair_server_resched_lost"]));
        assert_eq!(faults("fifo"), None);
    }

    #[test]
    fn affinity_limits_the_moves() {
        let mut script = overloaded();
        script.affinity(10, zerolag_model::TaskId(2), "0");
        holds("rt-quiescence", &script.end(1000));
    }

    #[test]
    fn a_root_domain_limits_the_moves() {
        let mut script = overloaded();
        script.event(0, 1, TraceEvent::RootDomain { domain: 1 });
        holds("rt-quiescence", &script.clone().end(1000));
        script.event(10, 0, TraceEvent::RootDomain { domain: 1 });
        breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);
    }

    #[test]
    fn time_to_settle_is_given_and_no_more() {
        let mut script = overloaded();
        "default".clone_into(&mut script.meta.costs);
        let mut late = script.clone();
        let t = zerolag_model::TaskId(2);
        script.migrate(60, t, 0, 1, MigrateReason::Push).preempt(60, 1, zerolag_model::TaskId(1), t);
        holds("rt-quiescence", &script.end(1000));
        late.migrate(61, t, 0, 1, MigrateReason::Push).preempt(61, 1, zerolag_model::TaskId(1), t);
        breaks(
            "rt-quiescence",
            &late.end(1000),
            "nothing happens for 51us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)",
        );
    }

    #[test]
    fn a_cpu_that_was_asked_has_its_grace() {
        let mut script = overloaded();
        script.event(10, 1, TraceEvent::NeedResched { by: CpuId(0) });
        let says = |quiet| {
            format!(
                "nothing happens for {quiet}, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)"
            )
        };
        // Without preemption in the kernel, `a` can be in a long section of it.
        script.meta.settings.push(("preempt".to_owned(), "voluntary".to_owned()));
        holds("rt-quiescence", &script.clone().end(100_000));
        breaks("rt-quiescence", &script.clone().end(100_011), &says("100.001ms"));
        script.meta.settings.push(("preempt".to_owned(), "full".to_owned()));
        holds("rt-quiescence", &script.clone().end(1000));
        breaks("rt-quiescence", &script.end(1011), &says("1.001ms"));
    }

    #[test]
    fn the_named_holes_are_open_only_where_they_are_named() {
        // `s` (FIFO 4) may use CPUs 0 and 2 only, where equal or more urgent tasks run; `t` is
        // behind it.
        let mut script = Script::new(3);
        let (r, a, t, s, q) =
            (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fifo("q", 9));
        script.affinity(0, s, "0,2").wake(0, 2, q).run(0, 2, None, Some(q));
        script
            .wake(0, 0, r)
            .run(0, 0, None, Some(r))
            .wake(0, 1, a)
            .run(0, 1, None, Some(a))
            .wake(10, 0, s)
            .wake(10, 0, t);
        holds("rt-quiescence", &script.end(1000));
        script.meta.settings.push(("rt_push_skip_stuck".to_owned(), "on".to_owned()));
        breaks("rt-quiescence", &script.end(1000), NOT_PUSHED);

        // `t` waits for the end of the service of `f`; no CPU takes it, and it must run afterwards.
        let mut served = Script::new(2);
        let (f, a, t) = (served.fair("f"), served.fair("a"), served.fifo("t", 3));
        served.wake(0, 0, f).run(0, 0, None, Some(f)).wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, t);
        let state = ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE };
        served.event(10, 0, TraceEvent::Server { kind: ServerKind::Fair, state });
        holds("rt-quiescence", &served.clone().end(1000));
        served.event(10, 0, TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Stopped });
        let late = "nothing happens for 990us, t (task 2) waits on cpu 0, and cpu 0, which it may use, runs f (task 0)";
        breaks("rt-quiescence", &served.end(1000), late);

        // `s` may use CPUs 0 and 2 only, where a server runs `f`: it is stuck, and `t` behind it.
        let mut avoided = Script::new(3);
        let (r, a, t, s, f) =
            (avoided.fifo("r", 5), avoided.fair("a"), avoided.fifo("t", 3), avoided.fifo("s", 4), avoided.fair("f"));
        avoided.affinity(0, s, "0,2").wake(0, 2, f).run(0, 2, None, Some(f)).wake(0, 0, r).run(0, 0, None, Some(r));
        avoided.wake(0, 1, a).run(0, 1, None, Some(a)).wake(10, 0, s).wake(10, 0, t);
        let by_server = |state| {
            let mut script = avoided.clone();
            script.event(10, 2, TraceEvent::Server { kind: ServerKind::Fair, state });
            script.end(1000)
        };
        holds("rt-quiescence", &by_server(ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE }));
        breaks("rt-quiescence", &by_server(ServerState::Stopped), NOT_PUSHED);

        let mut passive = overloaded();
        passive.meta.settings.push(("rt_balance".to_owned(), "passive".to_owned()));
        not_applicable("rt-quiescence", &passive.end(1000), "rt_balance = passive does not promise it");
        let mut server = overloaded();
        let state = ServerState::Queued { deadline: zerolag_model::Instant::FAR_FUTURE };
        server.event(10, 1, TraceEvent::Server { kind: ServerKind::Fair, state });
        holds("rt-quiescence", &server.end(1000));
        server.event(10, 1, TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Stopped });
        breaks("rt-quiescence", &server.end(1000), NOT_PUSHED);
    }

    /// `s` (FIFO 4) may use CPUs 0 and 2 only and hides `t` behind it. CPU 2 pulls `s` when `q`
    /// blocks there; CPU 0 pushes `t` when it switches next, and not before.
    #[test]
    fn a_task_behind_a_stuck_one_that_was_pulled_waits_for_a_switch() {
        let pulled = |reason| {
            let mut script = Script::new(3);
            let (r, a, t, s, q) =
                (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fifo("q", 9));
            let next = script.fifo("next", 9);
            script.affinity(0, s, "0,2").affinity(0, next, "0").wake(0, 2, q).run(0, 2, None, Some(q));
            script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a));
            script.wake(10, 0, s).wake(10, 0, t);
            script.migrate(500, s, 0, 2, reason).run(500, 2, Some(q), Some(s));
            (script, r, next)
        };
        let says = "nothing happens for 500us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)";
        let (mut script, r, next) = pulled(MigrateReason::Pull);
        holds("rt-quiescence", &script.end(1000));
        script.wake(1000, 0, next).preempt(1000, 0, r, next);
        breaks("rt-quiescence", &script.end(1500), says);
        // A push goes on with the next task, except by an IPI that pushes one.
        let (mut script, ..) = pulled(MigrateReason::Push);
        breaks("rt-quiescence", &script.end(1000), says);
        script.meta.settings.push(("rt_balance".to_owned(), "ipi_per_cpu".to_owned()));
        holds("rt-quiescence", &script.end(1000));
    }

    /// CPUs 1 and 2 become idle together. An IPI pushes `s`, and another one is needed for `t`,
    /// also if pushes pass over stuck tasks.
    #[test]
    fn an_ipi_that_pushes_one_task_leaves_the_next() {
        let pushed = |balance: &str| {
            let mut script = Script::new(3);
            let (r, s, t) = (script.fifo("r", 5), script.fifo("s", 4), script.fifo("t", 3));
            let (p, q) = (script.fifo("p", 9), script.fifo("q", 9));
            script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, p).run(0, 1, None, Some(p));
            script.wake(0, 2, q).run(0, 2, None, Some(q)).wake(10, 0, s).wake(10, 0, t);
            script.run(500, 1, Some(p), None).migrate(500, s, 0, 2, MigrateReason::Push).run(500, 2, Some(q), Some(s));
            for (key, value) in [("rt_balance", balance), ("rt_push_skip_stuck", "on")] {
                script.meta.settings.push((key.to_owned(), value.to_owned()));
            }
            script.end(1000)
        };
        holds("rt-quiescence", &pushed("ipi_per_cpu"));
        let says = "nothing happens for 500us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs nothing";
        breaks("rt-quiescence", &pushed("ipi_per_domain"), says);
    }

    /// `s` may use CPUs 0 and 2 only. CPU 2 runs `f`, which is in the kernel, and is about to run
    /// `h`: it is no place for `s`, and `t` is behind that.
    #[test]
    fn a_cpu_that_is_about_to_run_a_more_urgent_task_is_no_place() {
        let beside = |urgent: i64| {
            let mut script = Script::new(3);
            let (r, a, t, s, f) =
                (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fair("f"));
            let h = script.fifo("h", urgent);
            script.affinity(0, s, "0,2").affinity(0, h, "2").wake(0, 2, f).run(0, 2, None, Some(f));
            script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a));
            script.wake(10, 0, s).wake(10, 0, t);
            script.event(10, 2, TraceEvent::NeedResched { by: CpuId(2) }).wake(10, 2, h);
            script.end(1000)
        };
        holds("rt-quiescence", &beside(9));
        breaks("rt-quiescence", &beside(1), NOT_PUSHED);
    }

    /// `s` (FIFO 4) may use CPU 0 and the busy CPU 2 only, and hides `t` behind it. It becomes
    /// fair: no push follows before CPU 0 switches. A change of the running task hides nothing.
    #[test]
    fn a_task_behind_a_stuck_one_that_changes_waits_for_a_switch() {
        let mut script = Script::new(3);
        let (r, a, t, s, q) =
            (script.fifo("r", 5), script.fair("a"), script.fifo("t", 3), script.fifo("s", 4), script.fifo("q", 9));
        let next = script.fifo("next", 9);
        script.affinity(0, s, "0,2").affinity(0, next, "0").wake(0, 2, q).run(0, 2, None, Some(q));
        script.wake(0, 0, r).run(0, 0, None, Some(r)).wake(0, 1, a).run(0, 1, None, Some(a));
        script.wake(10, 0, s).wake(10, 0, t);
        script.event(500, 0, TraceEvent::AttrChange { task: s, attr: zerolag_model::SchedAttr::NORMAL });
        holds("rt-quiescence", &script.end(1000));
        let says = "nothing happens for 500us, t (task 2) waits on cpu 0, and cpu 1, which it may use, runs a (task 1)";
        script.wake(1000, 0, next).preempt(1000, 0, r, next);
        breaks("rt-quiescence", &script.end(1500), says);

        let mut running = overloaded();
        let four = zerolag_model::RtPriority::new(4).expect("in range");
        let (task, attr) = (zerolag_model::TaskId(0), zerolag_model::SchedAttr::fifo(four));
        running.event(500, 0, TraceEvent::AttrChange { task, attr });
        breaks("rt-quiescence", &running.end(1000), says);
    }
}
