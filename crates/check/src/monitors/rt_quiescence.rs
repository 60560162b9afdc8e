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
//! * **behind a deadline task**: a CPU that switches to a deadline task pushes no real-time task
//!   (`set_next_task_dl`). Those that it preempts, or passes over, stay there while no other CPU
//!   becomes less urgent, which pulls.
//! * **Groups with a real-time runtime** (`rt_group_sched`): where one has used it since the task
//!   was queued. A throttled task at the head of the pushable ones ends pushes and pulls, and no
//!   CPU is told when it may run again.
//! * **RT throttling**: no CPU takes the throttled tasks of another CPU, and a throttled CPU that
//!   still runs a real-time task runs no other one after it.
//! * **on its way**: a CPU in an interrupt handler, and for the settle time after it, since other
//!   interrupts waited for its end; and one that was asked to reschedule, or spins
//!   for a run-queue lock, within the grace of [`Options::grace`](crate::Options). After it, a CPU
//!   that does not obey counts.
//! * **in the kernel**: under `preempt = none` and `voluntary` a CPU does not preempt a task in
//!   kernel mode, and a trace does not show all of kernel mode. A request is given [`IN_KERNEL`]
//!   there; the time beyond the grace is not judged. A simulation says at its end how long each CPU
//!   was in the kernel, in handlers and in softirqs: a request that is older is judged then, and
//!   breaks the rule if all of these of its CPU are longer than that.
//!   A recorded trace shows neither requests nor sections. Unless it says that the kernel is
//!   preempted everywhere, a task that waits behind the task of its own CPU is given [`IN_KERNEL`]
//!   from where both are there.
//! * **IPI on its way**: the round of push IPIs (`rt_balance` = `ipi_*`) waits at a CPU in an
//!   interrupt handler, or in a section with interrupts disabled. Not judged until it is served
//!   there.
//! * **sections**: a task that has disabled preemption or interrupts keeps its CPU, and its CPU is
//!   given the settle time after it.
//! * **standstill**: while a CPU stands still (SMI, hypervisor), what it was about to do is not
//!   over: the while begins at the end.
//! * **untold priority**: a recorded trace shows the new priority of a task at its next event only,
//!   so a violation waits for the next events of its tasks ([`Unconfirmed`]).
//! * **unknown affinity**: in a recorded trace that does not say where a task may run, it is judged
//!   on its own CPU only.
//!
//! Not excepted: the bug of kernels since 6.12, `fault.fair_server_resched_lost`. A violation that
//! it can explain names it, and does not fail a run.
//!
//! Complexity: O(1) per record while no waiting task is more urgent than the task of the least
//! urgent CPU. Otherwise, once after each quiet time that follows an event, O(CPUs with a waiting
//! task); with waiting tasks that may move also O(CPUs + these x words of a mask), and for each CPU
//! where one could, O(its waiting tasks x CPUs).

use crate::monitor::{Context, Monitor};
use crate::report::{Findings, label};
use crate::rt_queues::RtQueues;
use crate::unconfirmed::Unconfirmed;
use std::collections::BTreeMap;
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::settings::{Preempt, RtBalance, RtGroupSched};
use zerolag_model::{
    CpuId, CpuLayer, CpuMask, Duration, Instant, LayerTimes, MAX_CPUS, MigrateReason, Prio, Record, SchedAttr, TaskId,
    TraceEvent,
};
use zerolag_trace::replay::{CpuView, TaskState, TaskView};
use zerolag_trace::{IdTable, Replay, Source};

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
    state: Judgement,
    /// Whether a CPU preempts no task in kernel mode.
    has_kernel_sections: bool,
    /// How long a CPU can be in the kernel in a trace that does not show it.
    hidden: Duration,
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
    /// The number of CPUs that stand still.
    standing: u32,
    /// Requests that CPUs have not answered for longer than is believed: of each CPU, by the time
    /// of the request, what the last judgement of it found.
    unanswered: BTreeMap<CpuId, BTreeMap<Instant, Unanswered>>,
    unconfirmed: Unconfirmed,
    /// The CPUs and tasks that judgements have looked at: what the rule costs.
    #[cfg(test)]
    looks: std::rc::Rc<core::cell::Cell<u64>>,
}

/// A violation if the CPU was not in the kernel.
struct Unanswered {
    until: Instant,
    at: Instant,
    tasks: Vec<TaskId>,
    says: String,
    fault: Option<&'static str>,
}

/// What is looked up once per judgement, if it is asked for.
#[derive(Default)]
struct Places {
    /// The CPUs that could be preempted by the most urgent waiting task.
    open: Option<CpuMask>,
    /// Of CPUs with a task that could move, the tasks of their queues that have nowhere to go, the
    /// most urgent two.
    stuck: BTreeMap<CpuId, Vec<TaskId>>,
}

const KERNEL: &str = "a CPU was asked to reschedule and can be in the kernel, where it is not preempted";

/// An IPI that is not held up arrives within this time.
const IPI_MOST: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Judgement {
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
    if context.settings().rt_group_sched == RtGroupSched::Hcbs {
        return Err(
            "servers run real-time tasks of groups, whose priorities do not compare with those of others".to_owned()
        );
    }
    let has_kernel_sections = matches!(context.settings().preempt, Preempt::None | Preempt::Voluntary);
    Ok(Box::new(RtQuiescence {
        queues: RtQueues::new(context.settings()),
        settle: context.settle(),
        grace: context.grace(),
        answer: if has_kernel_sections { in_kernel(context).max(context.grace()) } else { context.grace() },
        has_kernel_sections,
        hidden: if context.meta.source == Source::Text && setting("preempt").is_none() {
            in_kernel(context)
        } else {
            Duration::ZERO
        },
        has_fair_floor: context.has_fair_floor(),
        is_complete: context.meta.source.is_complete(),
        skips_stuck: matches!(setting("rt_push_skip_stuck"), Some("on")),
        loses_resched: matches!(setting("fair_server.resched_lost"), Some("on")),
        last: context.meta.start,
        state: Judgement::Fresh,
        pushes_one: setting("rt_balance").and_then(RtBalance::from_name) == Some(RtBalance::IpiPerCpu),
        taken: IdTable::default(),
        served: IdTable::default(),
        handled: IdTable::default(),
        ipis: BTreeMap::new(),
        under_way: IdTable::default(),
        standing: 0,
        unanswered: BTreeMap::new(),
        unconfirmed: Unconfirmed::new(context.meta.source),
        #[cfg(test)]
        looks: tests::LOOKS.with(std::rc::Rc::clone),
    }))
}

impl Monitor for RtQuiescence {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if self.state == Judgement::Fresh {
            self.queues.start(before);
        }
        self.judge(before, record.at, found);
        self.unconfirmed.follow(record, found);
        if let TraceEvent::CpuTotals { times } = &record.event {
            self.judge_unanswered(record.cpu, times, found);
        }
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
            if self.state == Judgement::Judged {
                self.state = Judgement::Stirred; // The CPU may have been excused by its handler or section.
            }
        }
        self.follow_interrupts(before, record);
        if is_scheduling(&record.event) {
            self.last = self.last.max(record.at);
            self.state = Judgement::Stirred;
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.queues.follow(after, record);
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> crate::Outcome {
        self.judge(last, end, found);
        self.unconfirmed.finish(found);
        // Without the times of the CPUs nothing says that they were in the kernel.
        let cpus: Vec<CpuId> = self.unanswered.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.judge_unanswered(cpu, &LayerTimes::default(), found));
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
            | TraceEvent::Rcu { .. }
    )
}

fn is_in_section(replay: &Replay, cpu: CpuId) -> bool {
    replay.cpu(cpu).no_preempt_since.is_some()
}

/// Returns whether a CPU is online, and in this root domain.
fn is_reachable(there: &CpuView, domain: u32) -> bool {
    there.online_since().is_some() && there.root_domain == domain
}

/// Whether a task has waited since its CPU switched to a deadline task, and another CPU has been as
/// it is now since then: the one pushes nothing, and the other has had no reason to pull.
fn is_behind_deadline(before: &Replay, waits: &TaskView, own: CpuId, other: CpuId) -> bool {
    let TaskState::Queued { here_since, .. } = waits.state else { return false };
    let since = before.cpu(own).since;
    before.running_prio(own) == Some(Prio::DEADLINE) && here_since <= since && before.cpu(other).since <= since
}

impl RtQuiescence {
    /// Follows standstills, and the IPIs that are under way.
    fn follow_interrupts(&mut self, before: &Replay, record: &Record) {
        match record.event {
            TraceEvent::IrqEnter { irq: Irq::Hardware | Irq::Stolen } => self.standing += 1,
            TraceEvent::IrqExit { irq: Irq::Hardware | Irq::Stolen } => {
                self.standing = self.standing.saturating_sub(1);
                self.last = self.last.max(record.at);
                self.state = Judgement::Stirred;
            }
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
    }

    /// Judges the time since the last scheduling event, which ends at `at`, if it was long enough.
    fn judge(&mut self, before: &Replay, at: Instant, found: &mut Findings) {
        if self.state != Judgement::Stirred || at.since(self.last) <= self.settle || self.standing > 0 {
            return;
        }
        self.state = Judgement::Judged;
        if !self.queues.may_preempt_somewhere() {
            return;
        }
        if self.ipis.keys().any(|cpu| self.is_deaf(before, *cpu, at)) {
            found.skip("a push IPI waits for the end of an interrupt or of a section");
            return;
        }
        let mut broken = Vec::new();
        let mut places = Places::default();
        // Of the tasks that are bound to a CPU only the first can help: another one waits for it.
        let may_stay = |task: &TaskId, cpu| before.task(*task).is_some_and(|view| view.may_run_on(cpu));
        let first = |cpu| self.queues.on(cpu).find(|task| may_stay(task, cpu));
        let bound = self.queues.cpus().filter_map(first).filter(|task| !self.queues.is_movable(*task));
        for task in self.queues.movable().chain(bound) {
            self.look();
            if let Some(cpu) = self.find_move(before, task, at, &mut places) {
                let tasks: Vec<TaskId> = [task].into_iter().chain(before.cpu(cpu).current.task()).collect();
                // It can have inherited a priority since it ran on by the fault: no switch follows.
                let is_served = |cpu| {
                    let current = before.cpu(cpu).current.task().and_then(|task| before.task(task));
                    current.is_some_and(|task| matches!(task.attr, SchedAttr::Fair { .. } | SchedAttr::Ext { .. }))
                };
                // A pull leaves a task alone that its own CPU would run next (v6.12 `rt.c`,
                // `pull_rt_task`): there the request to switch is lost.
                let own = before.task(task).and_then(|view| view.rq);
                let is_lost = self.loses_resched && (is_served(cpu) || own.is_some_and(is_served));
                let fault = is_lost.then_some("fault.fair_server_resched_lost");
                let asked = before.cpu(cpu).need_resched_since.filter(|_| self.is_complete && self.has_kernel_sections);
                if let Some(asked) = asked {
                    let says = self.sentence(before, task, cpu, at);
                    let unanswered = Unanswered { until: at, at: self.last, tasks, says, fault };
                    self.unanswered.entry(cpu).or_default().insert(asked, unanswered);
                    continue;
                }
                broken.push((fault, cpu, tasks, self.sentence(before, task, cpu, at)));
                self.state = Judgement::Broken;
            } else if before.task(task).and_then(|view| view.rq).is_some_and(|own| is_in_section(before, own)) {
                found.skip("a task has disabled preemption, and its CPU runs nothing else");
            } else if self.can_be_in_kernel(before, task, at) {
                found.skip(KERNEL);
            }
        }
        for (fault, cpu, tasks, says) in broken {
            self.unconfirmed.push(found, fault, (self.last, cpu), &tasks, || says);
        }
    }

    fn sentence(&self, before: &Replay, task: TaskId, cpu: CpuId, at: Instant) -> String {
        let quiet = at.since(self.last);
        let runs = before.cpu(cpu).current.task().map_or_else(|| "nothing".to_owned(), |task| label(before, task));
        let rq = before.task(task).and_then(|task| task.rq).map_or_else(|| "?".to_owned(), |rq| rq.to_string());
        let name = label(before, task);
        format!("nothing happens for {quiet}, {name} waits on cpu {rq}, and cpu {cpu}, which it may use, runs {runs}")
    }

    /// Judges the requests that a CPU has not answered, by the time that it was in the kernel.
    fn judge_unanswered(&mut self, cpu: CpuId, times: &LayerTimes, found: &mut Findings) {
        let Some(unanswered) = self.unanswered.remove(&cpu) else { return };
        let sum = |sum: Duration, time: Duration| sum.saturating_add(time);
        let waited = unanswered.iter().map(|(asked, last)| last.until.since(*asked)).fold(Duration::ZERO, sum);
        let layers = CpuLayer::ALL.into_iter().filter(|layer| !matches!(layer, CpuLayer::User | CpuLayer::Idle));
        let in_kernel = layers.map(|layer| times.of(layer)).fold(Duration::ZERO, sum);
        for Unanswered { at, tasks, says, fault, .. } in unanswered.into_values() {
            if waited <= in_kernel {
                found.skip(KERNEL);
            } else {
                found.push_by(fault, at, Some(cpu), &tasks, || says);
            }
        }
    }

    /// Returns a CPU on which a waiting task could run at once.
    fn find_move(&self, before: &Replay, task: TaskId, at: Instant, places: &mut Places) -> Option<CpuId> {
        let view = before.task(task)?;
        let own = view.rq?;
        let there = before.cpu(own);
        let TaskState::Queued { here_since, .. } = view.state else { return None };
        if there.is_rt_throttled || self.queues.has_stopped_since(own, here_since) {
            return None;
        }
        let is_lower = |cpu: CpuId| before.running_prio(cpu).is_some_and(|running| view.prio.beats(running));
        let may_stay = view.may_run_on(own);
        let Places { open, stuck } = places;
        if may_stay && is_lower(own) {
            if self.is_hidden(view, there, at) {
                return None;
            }
            // It can be about to run.
            return open.get_or_insert_with(|| self.open_cpus(before, at)).contains(own).then_some(own);
        }
        if !self.queues.is_movable(task) {
            return None;
        }
        let open = open.get_or_insert_with(|| self.open_cpus(before, at));
        // Most waiting tasks may use no CPU with a less urgent one: the rest is looked at for
        // others.
        let could_run = |cpu: CpuId| {
            cpu != own
                && !self.queues.is_stopped(task, cpu)
                && is_lower(cpu)
                && is_reachable(&before.cpu(cpu), there.root_domain)
                && !is_behind_deadline(before, view, own, cpu)
        };
        let next = |from| match &view.affinity {
            Some(allowed) => open.next_and_from(allowed, from),
            None => open.next_from(from),
        };
        let mut found = next(CpuId(0));
        while let Some(cpu) = found.filter(|cpu| !could_run(*cpu)) {
            self.look();
            found = next(CpuId(cpu.0 + 1));
        }
        let found = found?;
        let served = self.served.get(own).copied().flatten().filter(|(at, _)| *at >= there.since);
        if served.is_some_and(|(_, prio)| may_stay && view.prio.beats(prio)) {
            return None; // Was about to run.
        }
        let is_known = self.is_complete || view.affinity.is_some();
        if !is_known
            || self.is_on_its_way(there, at)
            || self.has_just_handled(own, at)
            || self.is_behind_stuck(before, task, view, own, stuck)
        {
            return None;
        }
        Some(found)
    }

    /// Counts a look at a CPU or a waiting task.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "only tests count"))]
    fn look(&self) {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
    }

    /// Returns the CPUs that could be preempted by the most urgent waiting task.
    fn open_cpus(&self, before: &Replay, at: Instant) -> CpuMask {
        let top = self.queues.waiting().next().and_then(|top| before.task(top)).map_or(Prio::IDLE, |top| top.prio);
        let mut open = CpuMask::new();
        // A damaged trace can name any CPU; a mask has those that a machine can have.
        for (cpu, there) in before.cpus().filter(|(cpu, _)| cpu.index() < MAX_CPUS) {
            self.look();
            let Some(running) = before.running_prio(cpu) else { continue };
            let counts = running.is_rt() || !(self.has_fair_floor || there.has_fair_floor());
            let is_open = counts && top.beats(running) && !there.is_rt_throttled;
            if is_open && !self.is_on_its_way(there, at) && !self.has_just_handled(cpu, at) {
                open.insert(cpu);
            }
        }
        open
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

    /// Whether the CPU of a waiting task can be in the kernel since it was to be preempted, in a
    /// trace that does not show it.
    fn is_hidden(&self, waits: &TaskView, there: CpuView, at: Instant) -> bool {
        let TaskState::Queued { here_since, .. } = waits.state else { return false };
        at.since(here_since.max(there.since)) <= self.hidden
    }

    /// Returns whether a task waits on a CPU that has not answered a request within the grace, and
    /// is given more time.
    fn can_be_in_kernel(&self, before: &Replay, task: TaskId, at: Instant) -> bool {
        let Some((view, own)) = before.task(task).and_then(|view| Some((view, view.rq?))) else { return false };
        let beats = before.running_prio(own).is_some_and(|running| view.prio.beats(running));
        if self.hidden > Duration::ZERO {
            return beats && self.is_hidden(view, before.cpu(own), at);
        }
        let asked = before.cpu(own).need_resched_since.map(|since| at.since(since));
        beats && asked.is_some_and(|length| self.grace < length && length <= self.answer)
    }

    /// Stuck head: a task of the same queue, at least as urgent, is pushable, but no CPU takes it.
    fn is_behind_stuck(
        &self,
        before: &Replay,
        task: TaskId,
        view: &TaskView,
        own: CpuId,
        stuck: &mut BTreeMap<CpuId, Vec<TaskId>>,
    ) -> bool {
        let taken = self.taken.get(own).copied().flatten();
        if taken.is_some_and(|(at, prio)| at >= before.cpu(own).since && !view.prio.beats(prio)) {
            return true;
        }
        if self.skips_stuck {
            return false;
        }
        // The queue is in order of urgency: of two, one is another task than this one.
        let stuck = stuck.entry(own).or_insert_with(|| {
            self.queues.on(own).filter(|other| self.is_stuck(before, *other, own)).take(2).collect()
        });
        let as_urgent = |other: TaskId| before.task(other).is_some_and(|other| !view.prio.beats(other.prio));
        stuck.iter().any(|other| *other != task && as_urgent(*other))
    }

    /// Whether a waiting task is pushable, but no CPU takes it.
    fn is_stuck(&self, before: &Replay, task: TaskId, own: CpuId) -> bool {
        let Some(view) = before.task(task) else { return false };
        if view.affinity.as_ref().is_some_and(|cpus| cpus.first() == cpus.last()) {
            return false;
        }
        // A CPU that is about to run a task that waits there counts as running it (`cpupri`).
        let waits_there = |cpu: CpuId| {
            self.queues.on(cpu).next().and_then(|first| before.task(first)).map_or(Prio::IDLE, |first| first.prio)
        };
        let is_lower = |cpu: CpuId| {
            view.prio.beats(waits_there(cpu))
                && before.running_prio(cpu).is_some_and(|running| view.prio.beats(running))
        };
        // A push avoids a CPU whose server is queued.
        let takes = |cpu: CpuId| {
            self.look();
            !before.cpu(cpu).has_fair_floor() && is_lower(cpu)
        };
        let domain = before.cpu(own).root_domain;
        !before
            .cpus()
            .any(|(cpu, there)| cpu != own && is_reachable(&there, domain) && view.may_run_on(cpu) && takes(cpu))
    }
}

#[cfg(test)]
mod tests;
