//! `rt-order`: a CPU never switches to a task while a more urgent real-time task is queued there.
//!
//! The queued task must have been there for longer than the settle time: a wakeup can arrive
//! between the decision and the record of the switch, and then requests the next switch. So can a
//! priority: a task that has become more urgent within the settle time is not judged, and neither
//! is one that was a deadline task, which may have waited for its budget. Also, a CPU never leaves
//! a runnable real-time task for a less urgent one.
//!
//! Where RT throttling or a deadline server may let fair tasks, or none, run instead (see
//! [`Context::has_fair_floor`]), only switches to real-time tasks are judged.
//!
//! Not excepted: the bug of kernels since 6.12, `fault.fair_server_resched_lost`. A server that is
//! used up while it picks runs the picked task all the same. Such a violation names the bug, and
//! does not fail a run.
//!
//! A queued task that may no longer run there is being moved away: another CPU has taken it, and
//! records that at the end of its own path.
//!
//! With passive balancing (`rt_balance`) a CPU also leaves a real-time task that active balance
//! moves to another CPU: the move must follow within the settle time.
//!
//! In a recorded trace a violation waits for the next events of its tasks, which can show that a
//! priority has changed before, or that the task may no longer run there ([`Unconfirmed`]).
//!
//! Neither is a task judged whose group has used its real-time runtime there (`rt_group_sched`), or
//! had until the settle time. A recording does not say that, so a violation in one names it.
//!
//! Where deadline servers run the tasks of groups (`rt_group_sched = hcbs`), tasks of one server
//! are judged among each other, and those without one.
//!
//! Not judged: a CPU that is offline, or was within the settle time. It leaves its runnable tasks,
//! which other CPUs then take.
//!
//! Complexity: O(1) per switch: the most urgent queued task is the first.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use crate::rt_queues::RtQueues;
use crate::unconfirmed::Unconfirmed;
use zerolag_model::attr::Prio;
use zerolag_model::settings::RtBalance;
use zerolag_model::{ClassId, CpuId, Duration, Instant, MigrateReason, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::replay::TaskState;
use zerolag_trace::{IdTable, Replay};

struct RtOrder {
    queues: RtQueues,
    settle: Duration,
    has_fair_floor: bool,
    loses_resched: bool,
    is_recorded: bool,
    /// Whether active balance moves running real-time tasks.
    moves_running: bool,
    /// What was left for a less urgent task, and must be moved.
    left: Vec<LeftBehind>,
    /// When each task last became more urgent while it was runnable.
    risen: IdTable<TaskId, Option<Instant>>,
    /// When each CPU last came online.
    online: IdTable<CpuId, Option<Instant>>,
    unconfirmed: Unconfirmed,
}

/// A real-time task that a CPU has left although it was the most urgent.
struct LeftBehind {
    at: Instant,
    cpu: CpuId,
    /// The task, and the one for which it was left.
    tasks: Vec<TaskId>,
    says: String,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let (settle, has_fair_floor) = (context.settle(), context.has_fair_floor());
    let loses_resched = matches!(context.meta.setting("fair_server.resched_lost"), Some("on"));
    let rt_balance = context.meta.setting("rt_balance").and_then(RtBalance::from_name);
    Ok(Box::new(RtOrder {
        queues: RtQueues::new(context.settings()),
        settle,
        has_fair_floor,
        loses_resched,
        is_recorded: !context.meta.source.is_complete(),
        moves_running: rt_balance.is_some_and(RtBalance::is_passive),
        left: Vec::new(),
        risen: IdTable::default(),
        online: IdTable::default(),
        unconfirmed: Unconfirmed::of_cpus(context.meta.source, settle),
    }))
}

impl Monitor for RtOrder {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        self.judge_left(record, found);
        self.note_rise(before, record);
        self.unconfirmed.follow(record, found);
        if let TraceEvent::Hotplug { online: true } = record.event {
            *self.online.entry(record.cpu) = Some(record.at);
        }
        let TraceEvent::Switch { prev, prev_state, next, next_prio } = &record.event else { return };
        let next_prio = if next.is_some() { *next_prio } else { Prio::IDLE };
        let has_floor = self.has_fair_floor || before.cpu(record.cpu).has_fair_floor();
        if has_floor && !next_prio.is_rt() {
            return;
        }
        let came = self.online.get(record.cpu).copied().flatten();
        let is_settled = came.is_none_or(|came| record.at.since(came) > self.settle);
        if before.cpu(record.cpu).online_since().is_none() || !is_settled {
            return found.skip("the CPU is offline");
        }
        let left = prev.filter(|_| *prev_state == PrevState::Runnable);
        let left = left.filter(|task| stays_and_beats(before, *task, record.cpu, next_prio));
        let left = left.filter(|task| !self.has_just_risen(*task, record.at));
        let left = left.filter(|task| self.compares(*task, *next));
        let left = left.filter(|task| !self.is_freed(*task, record));
        let queued = self.queues.on(record.cpu).find(|task| Some(*task) != *next && self.compares(*task, *next));
        let queued = queued.filter(|task| self.has_waited_and_beats(before, *task, record, next_prio));
        if let Some(task) = left.or(queued) {
            let tasks: Vec<TaskId> = [task].into_iter().chain(*next).collect();
            let is_served = next.is_some() && matches!(next_prio.class(), ClassId::Fair | ClassId::Ext);
            let fault = (self.loses_resched && is_served).then_some("fault.fair_server_resched_lost");
            let sentence = || {
                let runs = next.map_or_else(|| "the idle task".to_owned(), |next| label(before, next));
                let (cpu, prio) = (record.cpu, before.task(task).map_or(Prio::IDLE, |task| task.prio));
                let why = if left.is_some() { "was running there" } else { "is queued there" };
                let unless = if self.is_recorded { " (or its group has used its cpu.rt_runtime_us)" } else { "" };
                format!(
                    "cpu {cpu} switches to {runs} of priority {next_prio}, but {} of priority {prio} {why}{unless}",
                    label(before, task)
                )
            };
            if self.moves_running && left.is_some() {
                self.left.push(LeftBehind { at: record.at, cpu: record.cpu, tasks, says: sentence() });
            } else {
                self.unconfirmed.push(found, fault, (record.at, record.cpu), &tasks, sentence);
            }
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.queues.follow(after, record);
    }

    fn finish(&mut self, _: &Replay, _: Instant, found: &mut Findings) -> Outcome {
        self.unconfirmed.finish(found);
        for left in self.left.drain(..) {
            found.push(left.at, Some(left.cpu), &left.tasks, || left.says);
        }
        Outcome::Judged
    }
}

impl RtOrder {
    /// Finds tasks that were left and not moved. O(tasks that were left within the settle time).
    fn judge_left(&mut self, record: &Record, found: &mut Findings) {
        let settle = self.settle;
        for late in self.left.extract_if(.., |left| record.at.since(left.at) > settle) {
            found.push(late.at, Some(late.cpu), &late.tasks, || late.says);
        }
        if let TraceEvent::Migrate { task, reason: MigrateReason::Active, .. } = &record.event {
            self.left.retain(|left| left.tasks.first() != Some(task));
        }
    }

    /// Returns whether the priority of a waiting task counts against the next task: not if a server
    /// runs one of both and not the other, and not if it waits for a server without runtime.
    fn compares(&self, task: TaskId, next: Option<TaskId>) -> bool {
        let server = self.queues.server_of(task);
        let has_runtime = server.is_none_or(|group| self.queues.has_runtime(group));
        has_runtime && next.is_none_or(|next| server == self.queues.server_of(next))
    }

    fn has_waited_and_beats(&self, before: &Replay, task: TaskId, record: &Record, next_prio: Prio) -> bool {
        let Some(view) = before.task(task) else { return false };
        let TaskState::Queued { here_since, .. } = view.state else { return false };
        view.prio.beats(next_prio)
            && view.may_run_on(record.cpu)
            && record.at.since(here_since) > self.settle
            && !self.has_just_risen(task, record.at)
            && !self.is_freed(task, record)
    }

    /// Whether the group of a task may not run here, or may again since the CPU can have decided.
    fn is_freed(&self, task: TaskId, record: &Record) -> bool {
        let is_recent = |at: Instant| record.at.since(at) <= self.settle;
        self.queues.is_stopped(task, record.cpu) || self.queues.throttled_at(record.cpu).is_some_and(is_recent)
    }

    fn note_rise(&mut self, before: &Replay, record: &Record) {
        let (task, to) = match record.event {
            TraceEvent::PrioInherit { task, to, .. } => (task, to),
            TraceEvent::AttrChange { task, attr } => (task, attr.prio()),
            // No other event changes a priority.
            _ => return,
        };
        // A deadline task without budget waits for it, and no longer in another class.
        let begins_to_wait = |prio: Prio| prio == Prio::DEADLINE || to.beats(prio);
        if before.task(task).is_some_and(|view| begins_to_wait(view.prio)) {
            *self.risen.entry(task) = Some(record.at);
        }
    }

    /// Whether a task has become more urgent since a CPU can have decided on its next task.
    fn has_just_risen(&self, task: TaskId, at: Instant) -> bool {
        self.risen.get(task).copied().flatten().is_some_and(|risen| at.since(risen) <= self.settle)
    }
}

/// Whether a task that the CPU leaves could continue and is more urgent than the next one. A task
/// that is being migrated to another CPU could not.
fn stays_and_beats(before: &Replay, task: TaskId, cpu: CpuId, next_prio: Prio) -> bool {
    let stays = |view: &&zerolag_trace::replay::TaskView| view.rq == Some(cpu) && view.may_run_on(cpu);
    before.task(task).filter(stays).is_some_and(|view| view.prio.is_rt() && view.prio.beats(next_prio))
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{FairPolicy, MigrateReason, Nice, PrevState, Prio, SchedAttr};
    use zerolag_trace::script::Script;
    use zerolag_trace::{Source, Trace};

    /// `low` runs, `high` is queued at 10, `a` blocks at 20, and `next` runs.
    fn after_blocking(next: &str) -> Trace {
        let mut script = Script::new(1);
        let (a, low, high) = (script.fair("a"), script.fifo("low", 3), script.fifo("high", 5));
        let fair = match next {
            "ext" => script.task("ext", SchedAttr::Ext { policy: FairPolicy::Ext, nice: Nice::ZERO, slice: None }),
            _ => script.fair("fair"),
        };
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, fair).wake(10, 0, low).wake(10, 0, high);
        let next = match next {
            "high" => Some(high),
            "low" => Some(low),
            "fair" | "ext" => Some(fair),
            _ => None,
        };
        // Later both run, so a recording shows their priorities.
        let then = if next == Some(high) { low } else { high };
        script.run(20, 0, Some(a), next).run(30, 0, next, Some(then)).end(40)
    }

    #[test]
    fn the_most_urgent_comes_first_or_the_rule_breaks() {
        holds("rt-order", &after_blocking("high"));
        breaks(
            "rt-order",
            &after_blocking("low"),
            "cpu 0 switches to low (task 1) of priority 96, but high (task 2) of priority 94 is queued there",
        );
        breaks(
            "rt-order",
            &after_blocking("idle"),
            "cpu 0 switches to the idle task of priority 140, but high (task 2) of priority 94 is queued there",
        );
    }

    #[test]
    fn a_runnable_task_is_not_left_for_a_lower_one() {
        let mut script = Script::new(2);
        let (low, high) = (script.fifo("low", 3), script.fifo("high", 5));
        script.wake(0, 0, high).run(0, 0, None, Some(high)).wake(10, 0, low);
        let mut moved = script.clone();
        breaks(
            "rt-order",
            &script.preempt(20, 0, high, low).end(20),
            "cpu 0 switches to low (task 0) of priority 96, but high (task 1) of priority 94 was running there",
        );
        moved.migrate(20, high, 0, 1, MigrateReason::Affinity).preempt(20, 0, high, low);
        holds("rt-order", &moved.end(20));
    }

    /// The CPU has decided to idle when a waiter lends its priority to the task that it leaves.
    #[test]
    fn a_priority_that_rises_between_decision_and_switch_holds() {
        let leaves = |lent_at: u64| {
            let mut script = Script::new(2);
            "default".clone_into(&mut script.meta.costs);
            let a = script.fair("a");
            script.wake(0, 0, a).run(0, 0, None, Some(a));
            let (from, to) = (Prio::from_nice(Nice::ZERO), Prio::from_raw(98));
            script.event(lent_at, 1, zerolag_model::TraceEvent::PrioInherit { task: a, from, to });
            script.switch(1000, 0, Some(a), PrevState::Runnable, None).run(1002, 0, None, Some(a));
            script.end(1100)
        };
        holds("rt-order", &leaves(999));
        let says = "cpu 0 switches to the idle task of priority 140, but a (task 0) of priority 98 was running there";
        breaks("rt-order", &leaves(900), says);
    }

    /// The CPU leaves a deadline task without budget, which becomes a real-time task.
    #[test]
    fn a_deadline_task_that_changes_between_decision_and_switch_holds() {
        let leaves = |changed_at: u64| {
            let mut script = Script::new(1);
            "default".clone_into(&mut script.meta.costs);
            let ms = zerolag_model::Duration::from_millis;
            let params = zerolag_model::DlParams::new(ms(1), ms(15), ms(15));
            let a = script.task("a", SchedAttr::Deadline(params));
            script.wake(0, 0, a).run(0, 0, None, Some(a));
            let priority = zerolag_model::RtPriority::new(5).expect("in range");
            let attr = SchedAttr::fifo(priority);
            script.event(changed_at, 0, zerolag_model::TraceEvent::AttrChange { task: a, attr });
            script.switch(1000, 0, Some(a), PrevState::Runnable, None).run(1002, 0, None, Some(a));
            script.end(1100)
        };
        holds("rt-order", &leaves(999));
        let says = "cpu 0 switches to the idle task of priority 140, but a (task 0) of priority 94 was running there";
        breaks("rt-order", &leaves(900), says);
    }

    /// With passive balancing the balancer takes a running task; the move must come at once.
    #[test]
    fn active_balance_takes_a_running_task_where_balancing_is_passive() {
        let left = |balance: &str, moved_at: Option<u64>| {
            let mut script = Script::new(2);
            script.meta.settings.push(("rt_balance".to_owned(), balance.to_owned()));
            let high = script.fifo("high", 5);
            script.wake(0, 0, high).run(0, 0, None, Some(high));
            script.switch(20, 0, Some(high), PrevState::Runnable, None);
            if let Some(us) = moved_at {
                script.migrate(us, high, 0, 1, MigrateReason::Active);
            }
            script.end(30_000)
        };
        holds("rt-order", &left("passive", Some(20)));
        let says =
            "cpu 0 switches to the idle task of priority 140, but high (task 0) of priority 94 was running there";
        breaks("rt-order", &left("passive", Some(25_000)), says);
        breaks("rt-order", &left("passive", None), says);
        breaks("rt-order", &left("pull_locked", Some(20)), says);
    }

    #[test]
    fn a_queued_task_that_is_moved_away_is_not_waited_for() {
        let idles = |cpus: &str| {
            let mut script = Script::new(2);
            let (a, high) = (script.fair("a"), script.fifo("high", 5));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(10, 0, high).affinity(18, high, cpus);
            script.run(20, 0, Some(a), None).migrate(21, high, 0, 1, MigrateReason::Affinity).end(22)
        };
        holds("rt-order", &idles("1"));
        let says = "cpu 0 switches to the idle task of priority 140, but high (task 1) of priority 94 is queued there";
        breaks("rt-order", &idles("0-1"), says);
    }

    /// Text has no event for the CPUs of a task. The migration tells: it follows at once, and is
    /// the next event of the task.
    #[test]
    fn a_recorded_task_that_is_moved_from_its_cpu_at_once_is_not_judged() {
        let left = |source: Source, moved_ms: Option<u64>| {
            let mut script = Script::new(3);
            let (high, low) = (script.fifo("high", 5), script.fifo("low", 3));
            script.wake(0, 0, high).run(0, 0, None, Some(high));
            script.wake(1_000, 0, low).preempt(5_000, 0, high, low);
            if let Some(ms) = moved_ms {
                script.migrate(5_000 + ms * 1_000, high, 0, 1, MigrateReason::Affinity);
                script.run(5_000 + ms * 1_000, 1, None, Some(high));
            }
            // Then each of the two has an event by which a recording knows its priority.
            if moved_ms.is_none() {
                script.preempt(9_000, 0, low, high);
            } else {
                script.run(9_000, 0, Some(low), None).run(9_000, 1, Some(high), None);
            }
            let mut trace = script.end(10_000);
            trace.meta.source = source;
            trace
        };
        holds("rt-order", &left(Source::Text, Some(0)));
        holds("rt-order", &left(Source::Text, Some(1)));
        let says = "cpu 0 switches to low (task 1) of priority 96, but high (task 0) of priority 94 was running there";
        let unless = format!("{says} (or its group has used its cpu.rt_runtime_us)");
        breaks("rt-order", &left(Source::Text, Some(2)), &unless);
        breaks("rt-order", &left(Source::Text, None), &unless);
        // Where the event exists, a migration explains nothing.
        breaks("rt-order", &left(Source::Linux, Some(0)), &unless);
        breaks("rt-order", &left(Source::Simulation, Some(0)), says);
    }

    #[test]
    fn a_cpu_that_is_offline_leaves_its_tasks() {
        let mut script = Script::new(2);
        let high = script.fifo("high", 5);
        script.wake(0, 0, high).run(0, 0, None, Some(high));
        let mut offline = script.clone();
        offline.event(20, 0, zerolag_model::TraceEvent::Hotplug { online: false });
        let idles = |mut script: Script| {
            script.switch(20, 0, Some(high), PrevState::Runnable, None);
            script.end(20)
        };
        holds("rt-order", &idles(offline.clone()));
        // It is back between the decision and the event of the switch.
        let back = |us: u64| {
            let mut script = offline.clone();
            "default".clone_into(&mut script.meta.costs);
            script.event(us, 0, zerolag_model::TraceEvent::Hotplug { online: true });
            script.switch(200, 0, Some(high), PrevState::Runnable, None);
            script.end(200)
        };
        holds("rt-order", &back(190));
        let was = "cpu 0 switches to the idle task of priority 140, but high (task 0) of priority 94 was running there";
        breaks("rt-order", &back(100), was);
        let says =
            "cpu 0 switches to the idle task of priority 140, but high (task 0) of priority 94 was running there";
        breaks("rt-order", &idles(script), says);
    }

    #[test]
    fn a_kernel_that_may_serve_fair_tasks_is_judged_among_real_time_tasks() {
        let recorded = |next| {
            let mut trace = after_blocking(next);
            trace.meta.source = Source::Text;
            for record in &mut trace.records[3..] {
                record.at = record.at + zerolag_model::Duration::from_millis(record.at.as_nanos() / 1000);
            }
            trace
        };
        holds("rt-order", &recorded("idle"));
        breaks(
            "rt-order",
            &recorded("low"),
            "cpu 0 switches to low (task 1) of priority 96, but high (task 2) of priority 94 is queued there (or its group has used \
             its cpu.rt_runtime_us)",
        );
        let mut known = recorded("idle");
        known.meta.settings =
            [("fair_server", "off"), ("rt_throttling", "off")].map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        breaks(
            "rt-order",
            &known,
            "cpu 0 switches to the idle task of priority 140, but high (task 2) of priority 94 is queued there (or its group has \
             used its cpu.rt_runtime_us)",
        );
    }

    #[test]
    fn a_wakeup_that_slips_in_between_decision_and_switch_holds() {
        let mut script = Script::new(1);
        "default".clone_into(&mut script.meta.costs);
        let (a, low, high) = (script.fair("a"), script.fifo("low", 3), script.fifo("high", 5));
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(10, 0, low);
        script.wake(19, 0, high).preempt(20, 0, a, low).preempt(22, 0, low, high);
        holds("rt-order", &script.end(30));
    }

    /// A server that is used up while it picks: the fault of 6.12 lets its task run.
    #[test]
    fn a_lost_request_names_the_fault_for_tasks_of_servers_only() {
        let faults = |next: &str, known: &str| {
            let mut trace = after_blocking(next);
            trace.meta.settings.push(("fair_server.resched_lost".to_owned(), known.to_owned()));
            crate::check(&trace, &crate::Options::default()).faults()
        };
        assert_eq!(faults("fair", "on"), Some(vec!["fault.fair_server_resched_lost"]));
        assert_eq!(faults("ext", "on"), Some(vec!["fault.fair_server_resched_lost"]));
        assert_eq!(faults("fair", "off"), None);
        assert_eq!(faults("low", "on"), None);
    }
}
