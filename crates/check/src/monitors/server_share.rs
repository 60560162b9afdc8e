//! `server-share`: a fair class that wants to run gets its server's runtime in every two periods,
//! whatever real-time tasks do.
//!
//! One period is not enough: a server whose class got part of its share without it begins its next
//! period late. At most the runtime is then owed for a period less the runtime. The rule is judged
//! per CPU over windows in which fair tasks are queued there without a break and no deadline task
//! runs. Run time counts, less a part of the runtime for interrupts. Tasks of a group that is
//! throttled there do not want to run. A server can overrun until the tick, and repay that with
//! periods, which are added to the window: an immediate one if the overrun is more than the part
//! for interrupts, a deferred one if it is more than a runtime and its task blocks. A CPU that is
//! offline runs nothing: tasks that a kernel leaves there are `no-task-lost`'s concern. A CPU that
//! was asked to reschedule in a section without preemption, or with interrupts disabled, answers at
//! its end: that time is no part of the window. On an idle CPU a task that was moved out of a
//! throttled group can wait on: `fault.group_move_unnoticed`.
//!
//! Only complete traces. Complexity: O(1) per record, O(tasks) when a group is throttled or
//! unthrottled, or a boost begins or ends.

use crate::monitor::{Context, Monitor};
use crate::report::Findings;
use crate::servers::Servers;
use zerolag_model::settings::{RtGroupSched, ServerStop, TimerGrain};
use zerolag_model::{Activation, ClassId, CpuId, Duration, Instant, Record, ServerParams, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{Current, TaskState};
use zerolag_trace::{IdTable, Replay};

struct ServerShare {
    servers: Servers,
    /// The longest overrun of a server.
    grain: Duration,
    moves_unnoticed: bool,
    cpus: IdTable<CpuId, FairTime>,
    /// Where each fair task waits or runs.
    places: IdTable<TaskId, Option<CpuId>>,
    groups: Groups,
}

/// The CPU time of a CPU's fair class.
#[derive(Clone, Copy, Default)]
struct FairTime {
    /// The number of fair tasks that wait or run there.
    wanting: u32,
    /// Start of the current window; `None` while no fair task wants to run.
    since: Option<Instant>,
    ran: Duration,
    /// The time of the window in which the CPU was asked to reschedule in a section of its task.
    held: Duration,
    /// The end of the period that continues with the parameters before the last change.
    old_until: Instant,
}

impl FairTime {
    /// Begins a new window, at the earliest when the old parameters end; `None` without one.
    fn begin(&mut self, at: Option<Instant>) {
        self.since = at.map(|at| at.max(self.old_until));
        (self.ran, self.held) = (Duration::ZERO, Duration::ZERO);
    }
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let settings = context.settings();
    let grain = match settings.enforce_dl {
        TimerGrain::Exact => Duration::ZERO,
        TimerGrain::Tick | TimerGrain::Hrtick => settings.tick_period(),
    };
    let servers = Servers::new(settings.clone(), context.meta);
    let is_on = (0..context.meta.machine.nr_cpus() as u32).any(|cpu| servers.of(CpuId(cpu)).is_on());
    if !is_on || !context.meta.source.is_complete() {
        return Err("there is no fair server".to_owned());
    }
    if settings.fair_server_stop == ServerStop::Unneeded {
        return Err(
            "`fair_server.stop` stops servers whenever real-time tasks sleep, and then defers them anew".to_owned()
        );
    }
    if settings.rt_group_sched == RtGroupSched::Hcbs {
        return Err("the servers of groups compete with it, as deadline tasks do".to_owned());
    }
    let groups = Groups::new(context.meta.setting("throttle"));
    let (cpus, places) = (IdTable::default(), IdTable::default());
    Ok(Box::new(ServerShare { servers, grain, moves_unnoticed: settings.group_move_unnoticed, cpus, places, groups }))
}

impl Monitor for ServerShare {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::Switch { .. } => {
                self.account(before, record.cpu, record.at);
                self.hold(before, record.cpu, record.at);
                self.deadline_turn_ends(before, record.cpu, record.at);
                self.judge(before, record.cpu, record.at, found);
            }
            TraceEvent::NoPreempt { disables: None, .. } => self.hold(before, record.cpu, record.at),
            // The switch that ends its turn sees it in its new class.
            TraceEvent::AttrChange { task, attr } => {
                self.changes_class(before, *task, attr.prio().class(), record.at);
            }
            TraceEvent::PrioInherit { task, to, .. } => self.changes_class(before, *task, to.class(), record.at),
            // No other event ends a turn of the class.
            _ => {}
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.groups.apply(record);
        let old = self.servers.of(record.cpu);
        self.servers.apply(record);
        match &record.event {
            // A boost can suspend the throttling of a whole group.
            TraceEvent::Throttle { .. } | TraceEvent::Unthrottle { .. } | TraceEvent::Boost { .. } => {
                let tasks: Vec<TaskId> = after.tasks().map(|(task, _)| task).collect();
                for task in tasks {
                    self.follow(after, task, record.at);
                }
            }
            TraceEvent::TaskThrottle { task, .. } | TraceEvent::GroupChange { task, .. } => {
                self.follow(after, *task, record.at);
            }
            TraceEvent::Wakeup { task, .. }
            | TraceEvent::Migrate { task, .. }
            | TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. } => self.follow(after, *task, record.at),
            TraceEvent::Switch { prev, next, next_prio, .. } => {
                for task in [prev, next].into_iter().flatten() {
                    self.follow(after, *task, record.at);
                }
                let view = self.cpus.entry(record.cpu);
                if next.is_some() && next_prio.class() == ClassId::Deadline && view.since.is_some() {
                    view.begin(Some(record.at));
                }
            }
            TraceEvent::ServerParams { .. } => {
                // The current period continues, and so can one from before an earlier change.
                let view = self.cpus.entry(record.cpu);
                view.old_until = view.old_until.max(record.at.saturating_add(old.period));
                view.begin(view.since.map(|_| view.old_until));
            }
            TraceEvent::Hotplug { online } => {
                let view = self.cpus.entry(record.cpu);
                view.begin((*online && view.wanting > 0).then_some(record.at));
            }
            // No other event moves a task or begins a turn.
            _ => {}
        }
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> crate::Outcome {
        let cpus: Vec<CpuId> = last.cpus().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.account(last, cpu, end);
            self.hold(last, cpu, end);
            self.deadline_turn_ends(last, cpu, end);
            self.judge(last, cpu, end, found);
        }
        crate::Outcome::Judged
    }
}

impl ServerShare {
    /// Adds the turn of a CPU that ends now, if a fair task had it.
    fn account(&mut self, before: &Replay, cpu: CpuId, at: Instant) {
        let place = before.cpu(cpu);
        let Current::Task(task) = place.current else { return };
        let is_fair = before.task(task).is_some_and(|task| task.prio.class() == ClassId::Fair);
        let view = self.cpus.entry(cpu);
        if let Some(since) = view.since.filter(|_| is_fair) {
            view.ran += at.since(place.since.max(since));
        }
    }

    /// Adds the part of a section that ends now in which the CPU was asked to reschedule.
    fn hold(&mut self, before: &Replay, cpu: CpuId, at: Instant) {
        let place = before.cpu(cpu);
        let (Some(section), Some(asked)) = (place.no_preempt_since, place.need_resched_since) else { return };
        let view = self.cpus.entry(cpu);
        if let Some(since) = view.since {
            view.held += at.since(section.max(asked).max(since));
        }
    }

    /// A CPU ran until now. If it ran a deadline task, the window begins anew: the turn can have
    /// been longer than a window, if the task reclaims what others leave.
    fn deadline_turn_ends(&mut self, before: &Replay, cpu: CpuId, at: Instant) {
        let view = self.cpus.entry(cpu);
        if view.since.is_some() && before.running_prio(cpu).is_some_and(|prio| prio.class() == ClassId::Deadline) {
            view.begin(Some(at));
        }
    }

    /// A task that runs leaves its class: as a fair task its turn counts until now.
    fn changes_class(&mut self, before: &Replay, task: TaskId, to: ClassId, at: Instant) {
        if let Some(TaskState::Running { on, .. }) = before.task(task).map(|view| view.state) {
            if to != ClassId::Fair {
                self.account(before, on, at);
            }
            if to != ClassId::Deadline {
                self.deadline_turn_ends(before, on, at);
            }
        }
    }

    fn judge(&mut self, before: &Replay, cpu: CpuId, at: Instant, found: &mut Findings) {
        let ServerParams { runtime, period, activation } = self.servers.of(cpu);
        let view = self.cpus.entry(cpu);
        // On a slow CPU the scaled runtime can be longer than the period: no CPU has more time.
        let runtime = runtime.min(period);
        let Some(since) = view.since.filter(|_| !runtime.is_zero()) else { return };
        let slack = runtime / 10;
        let least = runtime - slack;
        let (overrun, runtime_ns) = (self.grain.as_nanos(), runtime.as_nanos());
        let repaid = match activation {
            Activation::Immediate if self.grain > slack => overrun.div_ceil(runtime_ns),
            Activation::Immediate => 0,
            Activation::Deferred => overrun / runtime_ns,
        };
        let window = period.saturating_mul(2 + repaid).saturating_add(view.held);
        if view.ran >= least {
            view.begin(Some(at));
        } else if at.since(since) > window {
            let ran = view.ran;
            view.begin(Some(at));
            let is_unnoticed = self.moves_unnoticed && before.cpu(cpu).current == Current::Idle;
            let fault = is_unnoticed.then_some("fault.group_move_unnoticed");
            found.push_by(fault, at, Some(cpu), &[], || {
                format!("fair tasks want to run on cpu {cpu} for {}, and run for {ran}", at.since(since))
            });
        }
    }

    fn follow(&mut self, after: &Replay, task: TaskId, at: Instant) {
        let place = after.task(task).and_then(|view| view.runnable_on(ClassId::Fair));
        let place = place.filter(|cpu| self.groups.throttled_on(task, *cpu).is_none());
        let known = self.places.entry(task);
        let before = core::mem::replace(known, place);
        if before == place {
            return;
        }
        if let Some(cpu) = before {
            let view = self.cpus.entry(cpu);
            view.wanting -= 1;
            if view.wanting == 0 {
                *view = FairTime { old_until: view.old_until, ..FairTime::default() };
            }
        }
        if let Some(cpu) = place {
            let view = self.cpus.entry(cpu);
            view.wanting += 1;
            if view.since.is_none() && after.cpu(cpu).online_since().is_some() {
                view.begin(Some(at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::event::Disables;
    use zerolag_model::{CpuId, GroupId, TaskId, TraceEvent};
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    /// As `starved(0)`, but the group of `fair` is throttled from 0.5 s until `ms`.
    fn throttled_until(ms: u64) -> Trace {
        let (mut script, fair, fifo) = beginning();
        let (group, parent) = (GroupId(1), GroupId::ROOT);
        script.event(0, 0, TraceEvent::GroupNew { group, parent, path: "/g".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: fair, group });
        script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).wake(10, 0, fair);
        script.event(500_000, 0, TraceEvent::Throttle { group });
        script.event(ms * 1_000, 0, TraceEvent::Unthrottle { group });
        script.end(4_500_000)
    }

    #[test]
    fn a_throttled_task_is_not_starved() {
        holds("server-share", &throttled_until(3_000));
        breaks("server-share", &throttled_until(600), "fair tasks want to run on cpu 0 for 3.9s, and run for 0ns");
    }

    /// With `boost_groups` the boost of one task lets its whole group run, until it ends.
    #[test]
    fn a_task_whose_group_was_only_boosted_is_not_starved() {
        let boosted = |until_ms: Option<u64>| {
            let (mut script, fair, fifo) = beginning();
            let (group, parent) = (GroupId(1), GroupId::ROOT);
            script.event(0, 0, TraceEvent::GroupNew { group, parent, path: "/g".into() });
            let second = script.fair("second");
            for task in [fair, second] {
                script.event(0, 0, TraceEvent::GroupChange { task, group });
            }
            script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).event(5, 0, TraceEvent::Throttle { group });
            script.wake(10, 0, fair).event(20, 0, TraceEvent::Boost { task: second, boosted: true });
            script.wake(20, 0, second);
            if let Some(ms) = until_ms {
                script.event(ms * 1000, 0, TraceEvent::Boost { task: second, boosted: false });
            }
            let mut trace = script.end(4_500_000);
            trace.meta.settings.push(("throttle".to_owned(), "boost_groups".to_owned()));
            trace
        };
        holds("server-share", &boosted(Some(500)));
        let says = "fair tasks want to run on cpu 0 for 4499.98ms, and run for 0ns";
        breaks("server-share", &boosted(None), says);
    }

    /// A deadline task runs for `ms`, and then, if it changes, as a real-time task.
    #[test]
    fn the_turn_of_a_deadline_task_is_in_no_window() {
        let after = |ms: u64, becomes_rt: bool| {
            let mut script = Script::new(1);
            let (second, params) = (zerolag_model::Duration::from_secs(1), zerolag_model::DlParams::new);
            let d = script.task("d", zerolag_model::SchedAttr::Deadline(params(second, second, second)));
            let (fair, fifo) = (script.fair("fair"), script.fifo("f", 9));
            script.wake(0, 0, d).run(0, 0, None, Some(d)).wake(10, 0, fair);
            if becomes_rt {
                let attr = zerolag_model::SchedAttr::fifo(zerolag_model::RtPriority::new(9).expect("in range"));
                script.event(ms * 1000, 0, TraceEvent::AttrChange { task: d, attr });
            } else {
                script.wake(ms * 1000, 0, fifo).preempt(ms * 1000, 0, d, fifo);
            }
            script.end(6_000_000)
        };
        for becomes_rt in [false, true] {
            holds("server-share", &after(4_500, becomes_rt));
            let says = "fair tasks want to run on cpu 0 for 5s, and run for 0ns";
            breaks("server-share", &after(1_000, becomes_rt), says);
        }
    }

    /// `a` runs for 2.5 s, becomes a real-time task, and the CPU switches to another one.
    #[test]
    fn a_turn_counts_until_the_task_leaves_the_class() {
        let changed = |a_runs: bool| {
            let mut script = Script::new(1);
            let (a, b, fifo) = (script.fair("a"), script.fair("b"), script.fifo("f", 9));
            let first = if a_runs { a } else { fifo };
            script.wake(0, 0, a).wake(0, 0, b).wake(0, 0, fifo).run(0, 0, None, Some(first));
            let attr = zerolag_model::SchedAttr::fifo_at(3);
            script.event(2_500_000, 0, TraceEvent::AttrChange { task: a, attr });
            script.preempt(2_500_001, 0, first, if a_runs { fifo } else { a }).end(2_600_000)
        };
        holds("server-share", &changed(true));
        breaks("server-share", &changed(false), "fair tasks want to run on cpu 0 for 2500.001ms, and run for 0ns");
    }

    /// Its server is set twice while the first period of 1 s continues.
    #[test]
    fn a_period_outlives_every_change_of_the_parameters() {
        let ms = zerolag_model::Duration::from_millis;
        let (mut script, fair, fifo) = beginning();
        script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).wake(10, 0, fair);
        for (at, runtime, period) in [(27_000, 5, 50), (136_000, 20, 100)] {
            let (kind, activation) = (zerolag_model::ServerKind::Fair, zerolag_model::Activation::Deferred);
            let params = zerolag_model::ServerParams { runtime: ms(runtime), period: ms(period), activation };
            script.event(at, 0, TraceEvent::ServerParams { kind, params });
        }
        holds("server-share", &script.clone().preempt(1_100_000, 0, fifo, fair).end(1_150_000));
        breaks("server-share", &script.end(1_228_000), "fair tasks want to run on cpu 0 for 201ms, and run for 0ns");
    }

    #[test]
    fn a_cpu_that_is_offline_owes_nothing() {
        let offline_until = |ms: u64| {
            let (mut script, fair, fifo) = beginning();
            script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).wake(10, 0, fair);
            script.event(500_000, 0, TraceEvent::Hotplug { online: false });
            script.event(ms * 1_000, 0, TraceEvent::Hotplug { online: true }).end(4_500_000)
        };
        holds("server-share", &offline_until(3_000));
        breaks("server-share", &offline_until(600), "fair tasks want to run on cpu 0 for 3.9s, and run for 0ns");
    }

    /// `fifo` is in a section when the server wants to run `fair`.
    #[test]
    fn a_section_that_no_task_preempts_delays_the_server() {
        let held = |disables: bool, asked: bool, until: u64| {
            let (mut script, fair, fifo) = beginning();
            script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).wake(10, 0, fair);
            let no_preempt = |disables| TraceEvent::NoPreempt { task: fifo, disables };
            if disables {
                script.event(900_000, 0, no_preempt(Some(Disables::Preemption)));
            }
            if asked {
                script.event(950_000, 0, TraceEvent::NeedResched { by: CpuId(0) });
            }
            script.event(1_450_000, 0, no_preempt(None));
            script.event(1_450_000, 0, TraceEvent::NeedResched { by: CpuId(0) }).end(until)
        };
        holds("server-share", &held(true, true, 2_500_010));
        let says = "fair tasks want to run on cpu 0 for 2500.001ms, and run for 0ns";
        breaks("server-share", &held(true, true, 2_500_011), says);
        breaks(
            "server-share",
            &held(true, false, 2_500_010),
            "fair tasks want to run on cpu 0 for 2.5s, and run for 0ns",
        );
        breaks(
            "server-share",
            &held(false, true, 2_500_010),
            "fair tasks want to run on cpu 0 for 2.5s, and run for 0ns",
        );
    }

    fn beginning() -> (Script, TaskId, TaskId) {
        let mut script = Script::new(1);
        let (fair, fifo) = (script.fair("fair"), script.fifo("fifo", 3));
        let settings = [("fair_server", "deferred"), ("fair_server.runtime", "50ms"), ("fair_server.period", "1s")];
        script.meta.settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        (script, fair, fifo)
    }

    /// `fifo` runs for three seconds; `fair` waits and gets `turns` turns of 50 ms, one per second.
    fn starved(turns: u64) -> Trace {
        let (mut script, fair, fifo) = beginning();
        script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).wake(10, 0, fair);
        for turn in 0..turns {
            let at = turn * 1_000_000 + 950_000;
            script.preempt(at, 0, fifo, fair).preempt(at + 50_000, 0, fair, fifo);
        }
        script.end(3_000_000)
    }

    /// A server of 1 ms can overrun by a tick of 10 ms, and repay that with ten periods.
    #[test]
    fn an_overrun_of_many_runtimes_is_repaid() {
        let starved = |activation: &str, ms: u64| {
            let (mut script, fair, fifo) = beginning();
            let settings =
                [("fair_server", activation), ("fair_server.runtime", "1ms"), ("fair_server.period", "50ms")];
            let settings = settings.into_iter().chain([("hz", "100"), ("enforce.dl", "tick")]);
            script.meta.settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
            script.wake(0, 0, fifo).run(0, 0, None, Some(fifo)).wake(10, 0, fair);
            script.end(ms * 1_000)
        };
        for activation in ["deferred", "immediate"] {
            holds("server-share", &starved(activation, 600));
            let says = "fair tasks want to run on cpu 0 for 600.99ms, and run for 0ns";
            breaks("server-share", &starved(activation, 601), says);
        }
    }

    #[test]
    fn fair_tasks_get_their_runtime_or_the_rule_breaks() {
        holds("server-share", &starved(3));
        breaks("server-share", &starved(0), "fair tasks want to run on cpu 0 for 2999.99ms, and run for 0ns");
    }
}
