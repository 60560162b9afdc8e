//! Events as text: one line each, exact to the nanosecond, for people and for diffs.
//!
//! ```text
//! 0.004000000 cpu0 waking f-0 -> cpu0
//! 0.004000000 cpu0 switch a-0 -> f-0 (preempted)
//! 0.004000000 cpu0 migrate a-0 cpu0 -> cpu1 (push)
//! ```
//!
//! The word after the CPU is the event's *kind*; [`KINDS`] lists them. Tasks are called by their
//! names. The totals at the end of a run are not listed.

use crate::summary::{policy_text, prio_text};
use core::fmt::Write;
use zerolag_model::event::{IpiReason, Irq};
use zerolag_model::{CpuId, Instant, Mark, PrevState, Record, RequestStep, ServerParams, TaskId, TraceEvent};
use zerolag_trace::{IdTable, Trace};

/// All kinds of event, by the names that lists and filters use.
pub const KINDS: &[&str] = &[
    "new",
    "exit",
    "waking",
    "wakeup",
    "switch",
    "migrate",
    "attr",
    "inherit",
    "affinity",
    "overload",
    "resched",
    "ipi",
    "irq",
    "spin",
    "wait",
    "take",
    "drop",
    "mark",
    "request",
    "dl",
    "server",
    "domain",
    "hotplug",
    "rt-throttle",
    "syscall",
    "boost",
    "throttle-task",
    "proxy",
    "group",
    "limit",
    "weight",
    "refresh",
    "throttle",
    "unthrottle",
];

/// Lists the events of a trace whose time and kind `wanted` accepts. O(records).
#[must_use]
pub fn events(trace: &Trace, wanted: impl Fn(Instant, &str) -> bool) -> String {
    let mut names = Names::default();
    let mut out = String::new();
    for record in &trace.records {
        names.learn(&record.event);
        let Some((kind, says)) = line(record, &names) else { continue };
        if wanted(record.at, kind) {
            writeln!(out, "{} cpu{} {kind} {says}", record.at, record.cpu)
                .expect("invariant: writing to a String cannot fail");
        }
    }
    out
}

/// The names of tasks that the trace has given so far.
#[derive(Debug, Default)]
pub(crate) struct Names(IdTable<TaskId, Option<String>>);

impl Names {
    /// Stores the name of a new task.
    pub(crate) fn learn(&mut self, event: &TraceEvent) {
        if let TraceEvent::TaskNew { task, name, .. } = event {
            *self.0.entry(*task) = Some(name.to_string());
        }
    }

    /// Returns a task's name.
    pub(crate) fn of(&self, task: TaskId) -> String {
        self.0.get(task).cloned().flatten().unwrap_or_else(|| format!("task {task}"))
    }

    /// Returns the name of a CPU's current task; `idle` if there is none.
    pub(crate) fn of_current(&self, task: Option<TaskId>) -> String {
        task.map_or_else(|| "idle".to_owned(), |task| self.of(task))
    }
}

/// Returns why a CPU leaves a task, in the words of the lists.
pub(crate) const fn why_left(state: PrevState) -> &'static str {
    match state {
        PrevState::Runnable => " (preempted)",
        PrevState::Blocked => " (blocked)",
        PrevState::Dead => " (ended)",
        PrevState::Idle => "",
    }
}

/// Returns an event's kind and description; `None` for totals.
fn line(record: &Record, names: &Names) -> Option<(&'static str, String)> {
    let name = |task: &TaskId| names.of(*task);
    Some(match &record.event {
        TraceEvent::TaskNew { task, attr, .. } => ("new", format!("{} {}", name(task), policy_text(*attr))),
        TraceEvent::TaskExit { task } => ("exit", name(task)),
        TraceEvent::Waking { task, target, .. } => ("waking", format!("{} -> cpu{target}", name(task))),
        TraceEvent::Wakeup { task, .. } => ("wakeup", name(task)),
        TraceEvent::Switch { prev, prev_state, next, .. } => {
            let (prev, next) = (names.of_current(*prev), names.of_current(*next));
            ("switch", format!("{prev} -> {next}{}", why_left(*prev_state)))
        }
        TraceEvent::Migrate { task, from, to, reason, .. } => {
            ("migrate", format!("{} cpu{from} -> cpu{to} ({})", name(task), reason.name()))
        }
        TraceEvent::AttrChange { task, attr } => ("attr", format!("{} {}", name(task), policy_text(*attr))),
        TraceEvent::PrioInherit { task, from, to } => {
            ("inherit", format!("{} {} -> {}", name(task), prio_text(*from), prio_text(*to)))
        }
        TraceEvent::Affinity { task, cpus } => ("affinity", format!("{} {cpus}", name(task))),
        TraceEvent::RtOverload { overloaded } => ("overload", if *overloaded { "set" } else { "cleared" }.to_owned()),
        TraceEvent::DlThrottle { task, until, left } => {
            ("dl", format!("{} throttled until {until}, {left} left", name(task)))
        }
        TraceEvent::DlReplenish { task, deadline, budget } => {
            ("dl", format!("{} has {budget} until {deadline}", name(task)))
        }
        TraceEvent::DlOverrun { task } => ("dl", format!("{} is told of an overrun (SIGXCPU)", name(task))),
        TraceEvent::Server { kind, state } => ("server", format!("{} {state}", kind.name())),
        TraceEvent::ServerParams { kind, params } => {
            let (name, ServerParams { runtime, period, .. }) = (kind.name(), params);
            ("server", format!("{name} set to {runtime} in {period}"))
        }
        TraceEvent::Hotplug { online } => ("hotplug", if *online { "online" } else { "offline" }.to_owned()),
        TraceEvent::RootDomain { domain } => ("domain", domain.to_string()),
        TraceEvent::RtThrottle { throttled: true } => ("rt-throttle", "begins".to_owned()),
        TraceEvent::RtThrottle { throttled: false } => ("rt-throttle", "ends".to_owned()),
        TraceEvent::NeedResched { by } => ("resched", format!("asked by cpu{by}")),
        TraceEvent::IpiSend { to, reason } => ("ipi", ipi(*to, *reason)),
        TraceEvent::IrqEnter { irq } => ("irq", format!("{} begins", irq_name(*irq))),
        TraceEvent::IrqExit { irq } => ("irq", format!("{} ends", irq_name(*irq))),
        TraceEvent::LockContended { rq } => ("spin", format!("for the run queue of cpu{rq}")),
        TraceEvent::LockAcquired { rq, waited } => {
            ("spin", format!("ends after {waited}: has the run queue of cpu{rq}"))
        }
        TraceEvent::WaitLock { task, lock, holder } => {
            let holder = holder.map_or_else(String::new, |holder| format!(", held by {}", names.of(holder)));
            ("wait", format!("{} for lock {lock}{holder}", name(task)))
        }
        TraceEvent::TakeLock { task, lock } => ("take", format!("{} lock {lock}", name(task))),
        TraceEvent::DropLock { task, lock } => ("drop", format!("{} lock {lock}", name(task))),
        TraceEvent::Syscall { task, enters: true } => ("syscall", format!("{} enters", name(task))),
        TraceEvent::Syscall { task, enters: false } => ("syscall", format!("{} leaves", name(task))),
        TraceEvent::Boost { task, boosted: true } => ("boost", format!("{} begins", name(task))),
        TraceEvent::Boost { task, boosted: false } => ("boost", format!("{} ends", name(task))),
        TraceEvent::Proxy { task, donor: Some(donor), .. } => {
            ("proxy", format!("{} runs for {}", name(task), name(donor)))
        }
        TraceEvent::Proxy { task, donor: None, .. } => ("proxy", format!("{} runs for itself", name(task))),
        TraceEvent::TaskThrottle { task, throttled: true } => ("throttle-task", format!("{} off", name(task))),
        TraceEvent::TaskThrottle { task, throttled: false } => ("throttle-task", format!("{} back", name(task))),
        TraceEvent::Mark { task, mark } => ("mark", format!("{} {}", name(task), mark_text(mark))),
        TraceEvent::QueueNew { queue, name } => ("request", format!("queue {queue} is of {name}")),
        TraceEvent::Request { queue, request, step } => {
            let says = match step {
                RequestStep::Arrive { due } if *due == record.at => "arrives".to_owned(),
                RequestStep::Arrive { due } => format!("arrives, due at {due}"),
                RequestStep::Start { task } => format!("is taken by {}", name(task)),
                RequestStep::End { task } => format!("is done by {}", name(task)),
                RequestStep::Drop => "is dropped".to_owned(),
            };
            ("request", format!("{request} of queue {queue} {says}"))
        }
        TraceEvent::GroupNew { group, path, .. } => ("group", format!("{group} {path}")),
        TraceEvent::GroupGone { group } => ("group", format!("{group} is removed")),
        TraceEvent::GroupChange { task, group } => ("group", format!("{} moves to {group}", name(task))),
        TraceEvent::GroupWeight { group, weight } => ("weight", format!("group {group} weighs {weight}")),
        TraceEvent::GroupMax { group, max } => ("limit", format!("group {group} cpu.max {max}")),
        TraceEvent::BandwidthRefresh { group, runtime, throttled } => {
            let throttled = if *throttled { ", was throttled" } else { "" };
            ("refresh", format!("group {group} has {runtime}{throttled}"))
        }
        TraceEvent::Throttle { group } => ("throttle", format!("group {group}")),
        TraceEvent::Unthrottle { group } => ("unthrottle", format!("group {group}")),
        TraceEvent::CpuTotals { .. } | TraceEvent::TaskTotals { .. } | TraceEvent::GroupTotals { .. } => return None,
    })
}

fn ipi(to: CpuId, reason: IpiReason) -> String {
    let reason = match reason {
        IpiReason::Resched => "resched",
        IpiReason::RtPush => "rt push",
        IpiReason::IdleBalance => "idle balance",
        IpiReason::ActiveBalance => "active balance",
    };
    format!("-> cpu{to} ({reason})")
}

const fn irq_name(irq: Irq) -> &'static str {
    match irq {
        Irq::Tick => "tick",
        Irq::Timer => "timer",
        Irq::Ipi => "ipi",
        Irq::Device => "device",
        Irq::Softirq => "softirq",
        Irq::Hardware => "hardware",
        Irq::Nmi => "nmi",
    }
}

fn mark_text(mark: &Mark) -> String {
    match mark {
        Mark::Phase { phase, turn } => format!("phase {phase} of turn {turn}"),
        Mark::TimerDue { due, slack } => format!("timer due at {due}, slack {slack}"),
        Mark::Stamp { label, exec } => format!("stamp {label} after {exec} of CPU time"),
        Mark::TurnEnd { turn } => format!("turn {turn} ends"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::two_hogs_and_a_fifo;

    #[test]
    fn lines_are_exact_and_filtered_by_kind() {
        assert_eq!(
            events(&two_hogs_and_a_fifo(), |_, kind| kind == "switch"),
            "\
0.000000000 cpu0 switch idle -> a
0.004000000 cpu0 switch a -> f (preempted)
0.006000000 cpu0 switch f -> a (blocked)
0.008000000 cpu0 switch a -> b (preempted)
"
        );
    }

    #[test]
    fn every_line_has_a_kind_of_the_list() {
        let all = events(&two_hogs_and_a_fifo(), |_, kind| {
            assert!(KINDS.contains(&kind), "{kind}");
            true
        });
        assert!(all.starts_with("0.000000000 cpu0 new a OTHER 0\n"), "{all}");
    }
}
