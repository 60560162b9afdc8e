//! `rt-supply`: the real-time tasks of a group that want to run on a CPU get the runtime of the
//! group's server there in every two periods, whatever the tasks of other groups and of the root
//! group do (`rt_group_sched = hcbs`).
//!
//! `rt-groups` is the other half of isolation: no group gets more. One period is not enough: a
//! server that has used its runtime early in one period gets it late in the next.
//!
//! The rule is judged per group and CPU, over windows in which a task that the server runs is
//! queued there without a break and no deadline task runs. Run time counts, less a part of the
//! runtime for interrupts. What servers overrun until the tick delays the others, and is repaid
//! with periods of their own; both are added to the window, and so is the time in which the CPU
//! could not leave a task ([`Stays`]), with the periods that repay the longest overrun of the
//! group's own tasks by that. A window begins anew when budgets change,
//! and when a CPU goes offline or comes back or changes its root domain.
//!
//! Not judged: runs without admission (`sched_rt_runtime_us` = -1), which promises nothing;
//! machines whose CPUs differ in capacity, where slow CPUs are promised as much as others; turns
//! that are lent (`proxy_exec`).
//!
//! Only complete traces. Complexity: O(depth) per record of a real-time task in a group.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::Findings;
use crate::stays::Stays;
use std::collections::BTreeMap;
use zerolag_model::settings::{RtGroupSched, TimerGrain};
use zerolag_model::{ClassId, CpuId, Duration, GroupId, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::Current;
use zerolag_trace::{IdTable, Replay};

struct RtSupply {
    /// The longest overrun of a server.
    grain: Duration,
    settle: Duration,
    groups: Groups,
    /// The groups with budgets.
    nr_budgets: u64,
    /// Where each task waits or runs, and by which group's server.
    places: IdTable<TaskId, Option<(GroupId, CpuId)>>,
    stays: Stays,
    /// The longest stay of a group's task on a CPU.
    overran: BTreeMap<(GroupId, CpuId), Duration>,
    windows: BTreeMap<(GroupId, CpuId), Window>,
    seen: bool,
}

/// The time of a group's server on a CPU.
#[derive(Clone, Copy)]
struct Window {
    /// The number of tasks that wait or run there; at least one.
    wanting: u32,
    since: Instant,
    ran: Duration,
    /// The part in which the CPU could not leave its task.
    held: Duration,
}

impl Window {
    fn begin(&mut self, at: Instant) {
        *self = Self { since: at, ran: Duration::ZERO, held: Duration::ZERO, ..*self };
    }
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let settings = context.settings();
    if !context.meta.source.is_complete() || settings.rt_group_sched != RtGroupSched::Hcbs {
        return Err("no servers run the real-time tasks of groups".to_owned());
    }
    if settings.rt_bandwidth().runtime.is_none() {
        return Err("without admission (`sched_rt_runtime_us` = -1) no server is promised its runtime".to_owned());
    }
    if settings.proxy_exec {
        return Err("tasks lend their turns (`proxy_exec`)".to_owned());
    }
    if context.topology().is_some_and(|topology| topology.cpus().any(|cpu| topology.capacity(cpu) < 1024)) {
        return Err("on slower CPUs a server is promised as much as on others".to_owned());
    }
    let grain = context.longest_path().saturating_add(match settings.enforce_dl {
        TimerGrain::Exact => Duration::ZERO,
        TimerGrain::Tick | TimerGrain::Hrtick => settings.tick_period(),
    });
    Ok(Box::new(RtSupply {
        grain,
        settle: context.settle(),
        groups: Groups::default().with_servers(true),
        nr_budgets: 0,
        places: IdTable::default(),
        stays: Stays::new(settings),
        overran: BTreeMap::new(),
        windows: BTreeMap::new(),
        seen: false,
    }))
}

impl Monitor for RtSupply {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if self.windows.is_empty() {
            return;
        }
        if let Some(since) = self.stays.ended(before, record) {
            let task = before.cpu(record.cpu).current.task();
            if let Some(of) = task.and_then(|task| *self.places.entry(task)) {
                let longest = self.overran.entry(of).or_default();
                *longest = (*longest).max(record.at.since(since));
            }
            self.hold(record.cpu, since, record.at);
        }
        match &record.event {
            TraceEvent::Switch { .. } => {
                self.account(before, record.cpu, record.at);
                self.judge(record.cpu, record.at, found);
            }
            // The turn of a running task counts until it leaves its class or its group.
            TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::GroupChange { task, .. } => {
                if let Some((_, cpu)) = *self.places.entry(*task) {
                    self.account(before, cpu, record.at);
                    self.begin_anew(record.at, |_, at| at == cpu);
                }
            }
            // No other event ends a turn.
            _ => {}
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.groups.apply(record);
        self.stays.apply(record);
        match &record.event {
            TraceEvent::RtGroup { .. } | TraceEvent::GroupGone { .. } => {
                self.seen = true;
                self.follow_budgets(after, record);
            }
            TraceEvent::GroupChange { task, .. }
            | TraceEvent::Wakeup { task, .. }
            | TraceEvent::Migrate { task, .. }
            | TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. } => self.follow(after, *task, record.at),
            TraceEvent::Switch { prev, next, next_prio, .. } => {
                for task in [prev, next].into_iter().flatten() {
                    self.follow(after, *task, record.at);
                }
                if next.is_some() && next_prio.class() == ClassId::Deadline {
                    self.begin_anew(record.at, |_, at| at == record.cpu);
                }
            }
            TraceEvent::Hotplug { .. } | TraceEvent::RootDomain { .. } => self.begin_anew(record.at, |_, _| true),
            // No other event moves a task.
            _ => {}
        }
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> Outcome {
        let cpus: Vec<CpuId> = last.cpus().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.account(last, cpu, end);
            if let Some(since) = self.stays.at(last, cpu, end) {
                self.hold(cpu, since, end);
            }
            self.judge(cpu, end, found);
        }
        if self.seen { Outcome::Judged } else { Outcome::NothingToJudge("no group has a real-time budget") }
    }
}

impl RtSupply {
    fn begin_anew(&mut self, at: Instant, which: impl Fn(GroupId, CpuId) -> bool) {
        for ((group, cpu), window) in &mut self.windows {
            if which(*group, *cpu) {
                window.begin(at);
            }
        }
    }

    /// Adds the turn of a CPU that ends now, if a server's task had it. A deadline task's begins
    /// all windows anew.
    fn account(&mut self, before: &Replay, cpu: CpuId, at: Instant) {
        let place = before.cpu(cpu);
        let Current::Task(task) = place.current else { return };
        if before.running_prio(cpu).is_some_and(|prio| prio.class() == ClassId::Deadline) {
            return self.begin_anew(at, |_, of| of == cpu);
        }
        if let Some(Some(of)) = self.places.get(task)
            && let Some(window) = self.windows.get_mut(of)
        {
            window.ran += at.since(place.since.max(window.since));
        }
    }

    /// Adds a stay that ends now.
    fn hold(&mut self, cpu: CpuId, since: Instant, at: Instant) {
        for (_, window) in self.windows.iter_mut().filter(|((_, of), _)| *of == cpu) {
            window.held += at.since(since.max(window.since));
        }
    }

    fn judge(&mut self, cpu: CpuId, at: Instant, found: &mut Findings) {
        let (grain, others, settle) = (self.grain, self.nr_budgets + 1, self.settle);
        for ((group, _), window) in self.windows.iter_mut().filter(|((_, of), _)| *of == cpu) {
            let Some((runtime, period)) = self.groups.server_runtime(*group).filter(|(runtime, _)| !runtime.is_zero())
            else {
                continue;
            };
            let least = runtime - runtime / 10;
            if window.ran >= least {
                window.begin(at);
                continue;
            }
            // An overrun is repaid with the runtime of later periods.
            let stay = self.overran.get(&(*group, cpu)).copied().unwrap_or_default();
            let repaid = grain.saturating_add(stay).as_nanos().div_ceil(runtime.as_nanos());
            let most = period.saturating_mul(2 + repaid) + grain * others + window.held + settle;
            let waited = at.since(window.since);
            if waited > most {
                let ran = window.ran;
                window.begin(at);
                found.push(at, Some(cpu), &[], || {
                    format!("real-time tasks of group {group} want to run on cpu {cpu} for {waited}, and run for {ran}")
                });
            }
        }
    }

    /// Budgets have changed: other servers can run each task, and all begin anew.
    fn follow_budgets(&mut self, after: &Replay, record: &Record) {
        match record.event {
            TraceEvent::RtGroup { group: GroupId::ROOT, .. } => return,
            TraceEvent::RtGroup { .. } => self.nr_budgets += 1,
            _ => {}
        }
        let tasks: Vec<TaskId> = after.tasks().map(|(task, _)| task).collect();
        for task in tasks {
            self.follow(after, task, record.at);
        }
        self.begin_anew(record.at, |_, _| true);
    }

    fn follow(&mut self, after: &Replay, task: TaskId, at: Instant) {
        let place = after.task(task).and_then(|view| view.runnable_on(ClassId::Rt));
        let place = place.and_then(|cpu| Some((self.groups.server_of(task)?, cpu)));
        let known = self.places.entry(task);
        let before = core::mem::replace(known, place);
        if before == place {
            return;
        }
        if let Some(of) = before
            && let Some(window) = self.windows.get_mut(&of)
        {
            window.wanting -= 1;
            if window.wanting == 0 {
                self.windows.remove(&of);
            }
        }
        if let Some(of) = place {
            let fresh = Window { wanting: 0, since: at, ran: Duration::ZERO, held: Duration::ZERO };
            self.windows.entry(of).or_insert(fresh).wanting += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::RtBandwidth;
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    const GROUP: GroupId = GroupId(1);

    /// A task of a group with 10 ms of 100 ms waits behind one of the root group for so long.
    fn waits_for(ms: u64) -> Trace {
        let mut script = Script::new(1);
        script.meta.settings =
            vec![("rt_group_sched".to_owned(), "hcbs".to_owned()), ("enforce.dl".to_owned(), "exact".to_owned())];
        let (served, other) = (script.fifo("served", 5), script.fifo("other", 9));
        let bandwidth = RtBandwidth { runtime: Some(Duration::from_millis(10)), period: Duration::from_millis(100) };
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/g".into() });
        script.event(0, 0, TraceEvent::RtGroup { group: GROUP, bandwidth });
        script.event(0, 0, TraceEvent::GroupChange { task: served, group: GROUP });
        script.wake(0, 0, other).run(0, 0, None, Some(other)).wake(0, 0, served);
        script.preempt(ms * 1_000, 0, other, served).preempt((ms + 10) * 1_000, 0, served, other);
        script.end(300_000)
    }

    #[test]
    fn a_server_gets_its_runtime_in_two_periods() {
        holds("rt-supply", &waits_for(150));
        breaks(
            "rt-supply",
            &waits_for(220),
            "real-time tasks of group 1 want to run on cpu 0 for 220ms, and run for 0ns",
        );
    }
}
