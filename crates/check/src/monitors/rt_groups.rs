//! `rt-groups`: no real-time task runs while its group has used its real-time runtime, and no group
//! gets more of it than its periods have (`rt_group_sched`).
//!
//! * A CPU does not switch to a real-time task whose group, or one above it, was throttled there
//!   before that instant.
//! * When a CPU switches to a task of a group, its tasks have run there for no longer than the
//!   group's runtime in each period that has begun. What a group overruns is owed, so this holds
//!   over any length of time.
//!
//! The supply is not judged where CPUs lend runtime (`features.RT_RUNTIME_SHARE`): a loan that is
//! made while the period has ended on one CPU and not yet on the other counts on both, as in the
//! kernel's loop over CPUs. It is not judged from the time on when a task of the group has
//! inherited a priority, which lets the group run on, or when real-time tasks have no limit. It is
//! judged anew when the runtime is set, and when a CPU goes offline or comes back or changes its
//! root domain, where the used time is forgotten.
//!
//! With `rt_group_sched = hcbs` a task uses the runtime of its group's server, or of the nearest
//! group above with a budget, and of no other; locks are no exception. A server that is started can
//! have used a part of its period before, so one runtime more is allowed than periods have begun.
//! The time between the end of the runtime and the switch does not count (`update_curr_dl_se`). A
//! CPU that could not leave the task (the longest [stay](LongestStays) so far) overruns once by
//! that, and repays it. Where a server is stopped at a tick, one that is late at the end of its
//! period begins the next ones at once, and owes their time: an overrun counts for three runtimes,
//! as in `dl-bandwidth`.
//!
//! Without servers only a tick finds that a group has used its runtime, so it overruns by a tick.
//!
//! The run time of an executor (`proxy_exec`) is that of the donor's groups.
//!
//! A recorded kernel has no events of groups' runtimes.
//!
//! Complexity: O(depth x log groups) per switch of a task in a group with a runtime.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use crate::stays::LongestStays;
use crate::task_time::{Moment, TaskTime};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::settings::{RtGroupSched, TimerGrain};
use zerolag_model::{CpuId, Duration, GroupId, Instant, Record, RtBandwidth, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::{IdTable, Replay};

struct RtGroups {
    groups: Groups,
    time: TaskTime,
    settle: Duration,
    stays: LongestStays,
    shares: bool,
    /// Whether deadline servers run the tasks of groups (`rt_group_sched = hcbs`).
    has_servers: bool,
    /// How much longer than its runtime a group can run.
    overrun: Duration,
    /// Real-time tasks have no limit (`sched_rt_runtime_us` = -1).
    is_unlimited: bool,
    limits: BTreeMap<GroupId, Supply>,
    /// The real-time task that each CPU runs, and since when its time is not counted yet.
    running: IdTable<CpuId, Option<(TaskId, Moment)>>,
    seen: bool,
    /// When each group was last throttled on each CPU.
    throttled: BTreeMap<(GroupId, CpuId), Instant>,
}

/// The runtime of a group, and what it has used.
struct Supply {
    bandwidth: RtBandwidth,
    since: Instant,
    used: BTreeMap<CpuId, Duration>,
    /// It can run on for other reasons than its runtime.
    is_excused: bool,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say how much real-time runtime a group has".to_owned());
    }
    Ok(Box::new(RtGroups {
        groups: Groups::default().with_servers(context.settings().rt_group_sched == RtGroupSched::Hcbs),
        has_servers: context.settings().rt_group_sched == RtGroupSched::Hcbs,
        time: TaskTime::new(context),
        settle: context.settle(),
        stays: LongestStays::new(context.settings()),
        overrun: match (context.settings().rt_group_sched, context.settings().enforce_dl) {
            // Only the tick looks at the time of a group (`sched_rt_runtime_exceeded`).
            (RtGroupSched::Off | RtGroupSched::V1, _) => context.settings().tick_period(),
            (RtGroupSched::Hcbs, TimerGrain::Exact) => Duration::ZERO,
            (RtGroupSched::Hcbs, TimerGrain::Tick | TimerGrain::Hrtick) => context.settings().tick_period() * 3,
        },
        is_unlimited: context.settings().rt_bandwidth().runtime.is_none(),
        shares: context.settings().rt_runtime_share && context.settings().rt_group_sched == RtGroupSched::V1,
        limits: BTreeMap::new(),
        running: IdTable::default(),
        seen: false,
        throttled: BTreeMap::new(),
    }))
}

impl Monitor for RtGroups {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        if let TraceEvent::RtGroup { .. } = record.event {
            self.seen = true;
        }
        self.stays.apply(before, record);
        if self.seen {
            self.count(record);
            self.judge(before, record, found);
        }
        self.groups.apply(record);
        self.time.apply(record);
        self.note(before, record);
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.seen { Outcome::Judged } else { Outcome::NothingToJudge("no group has a real-time runtime") }
    }
}

impl RtGroups {
    /// Counts what the task of a CPU, or of all, has run until now, before it changes whose time
    /// that is.
    fn count(&mut self, record: &Record) {
        let changes_all = matches!(
            record.event,
            TraceEvent::GroupChange { .. }
                | TraceEvent::AttrChange { .. }
                | TraceEvent::PrioInherit { .. }
                | TraceEvent::Proxy { .. }
                | TraceEvent::RtGroup { .. }
                | TraceEvent::Hotplug { .. }
                | TraceEvent::RootDomain { .. }
        );
        let cpus: Vec<CpuId> = match record.event {
            TraceEvent::Switch { .. } => vec![record.cpu],
            TraceEvent::RtGroupThrottle { .. } if self.has_servers => vec![record.cpu],
            _ if changes_all => self.running.iter().map(|(cpu, _)| cpu).collect(),
            _ => return,
        };
        for cpu in cpus {
            let now = self.time.now(cpu, record.at);
            let Some((task, since)) = self.running.entry(cpu) else { continue };
            let (task, ran) = (*task, now.since(*since));
            *since = now;
            let path: Vec<GroupId> = self.charged(self.groups.payer(task)).collect();
            // A task runs on after its server is throttled, until its CPU can leave it: that time
            // is charged to no server.
            if self.has_servers && self.groups.rt_throttled_on(self.groups.payer(task), cpu).is_some() {
                continue;
            }
            for group in path {
                if let Some(supply) = self.limits.get_mut(&group) {
                    *supply.used.entry(cpu).or_default() += ran;
                }
            }
        }
    }

    /// Returns the groups whose runtime a task uses: all that it is in, or that of its server.
    fn charged(&self, payer: TaskId) -> impl Iterator<Item = GroupId> + '_ {
        let server = self.groups.server_of(payer);
        self.groups.path(payer).filter(move |group| !self.has_servers || server == Some(*group))
    }

    /// Returns the runtime and the period of a group.
    fn runtime_of(&self, group: GroupId, supply: &Supply) -> Option<(Duration, Duration)> {
        match self.has_servers {
            true => self.groups.server_runtime(group),
            false => Some((supply.bandwidth.runtime?, supply.bandwidth.period)),
        }
    }

    /// Judges a switch to a real-time task.
    fn judge(&self, before: &Replay, record: &Record, found: &mut Findings) {
        let TraceEvent::Switch { prev, next: Some(next), next_prio, .. } = &record.event else { return };
        if !next_prio.is_rt() || *prev == Some(*next) {
            return;
        }
        let (cpu, payer) = (record.cpu, self.groups.payer(*next));
        if let Some(group) = self.groups.rt_throttled_on(payer, cpu) {
            // Another CPU can throttle it between the decision and the record of the switch.
            if self.throttled.get(&(group, cpu)).is_none_or(|since| *since < record.at) {
                found.push(record.at, Some(cpu), &[*next], || {
                    let name = label(before, *next);
                    format!("cpu {cpu} switches to {name}, but its group {group} has used its real-time runtime there")
                });
            }
        }
        if self.shares {
            return;
        }
        for group in self.charged(payer) {
            let Some(supply) = self.limits.get(&group).filter(|supply| !supply.is_excused) else { continue };
            let here = supply.used.get(&cpu).copied().unwrap_or_default();
            let has = self.runtime_of(group, supply).filter(|(runtime, _)| !runtime.is_zero());
            let Some((runtime, period)) = has else { continue };
            let begun = record.at.since(supply.since).as_nanos() / period.as_nanos() + 2;
            let allowed = runtime * begun + self.settle + self.overrun + self.stays.of(cpu);
            if here > allowed {
                found.push(record.at, Some(cpu), &[*next], || {
                    format!("group {group} has run for {here} since {}, more than {allowed}", supply.since)
                });
            }
        }
    }

    /// Notes what a record changes: runtimes, boosts, and which task a CPU runs.
    fn note(&mut self, before: &Replay, record: &Record) {
        let at = record.at;
        match &record.event {
            TraceEvent::RtGroup { group: GroupId::ROOT, bandwidth } => {
                self.is_unlimited = bandwidth.runtime.is_none();
                self.limits.values_mut().for_each(|supply| supply.is_excused = true);
            }
            TraceEvent::RtGroup { group, bandwidth } => {
                // Without a limit of all real-time tasks no server is charged.
                let is_excused = self.has_servers && self.is_unlimited;
                let supply = Supply { bandwidth: *bandwidth, since: at, used: BTreeMap::new(), is_excused };
                self.limits.insert(*group, supply);
                if self.has_servers {
                    self.begin_anew(at); // The servers of the group above have another runtime too.
                }
            }
            TraceEvent::RtGroupThrottle { group, throttled: true } => {
                self.throttled.insert((*group, record.cpu), at);
            }
            TraceEvent::GroupGone { group } => {
                self.limits.remove(group);
                if self.has_servers {
                    self.begin_anew(at);
                }
            }
            TraceEvent::PrioInherit { task, .. } if self.has_servers => self.set_class(before, *task, record),
            TraceEvent::PrioInherit { task, .. } => {
                let path: BTreeSet<GroupId> = self.groups.path(*task).collect();
                for (group, supply) in &mut self.limits {
                    supply.is_excused |= path.contains(group);
                }
                self.set_class(before, *task, record);
            }
            // An executor has the class of its donor.
            TraceEvent::AttrChange { task, .. } | TraceEvent::Proxy { task, .. } => {
                self.set_class(before, *task, record);
            }
            TraceEvent::Hotplug { .. } | TraceEvent::RootDomain { .. } => self.begin_anew(at),
            TraceEvent::Switch { next, next_prio, .. } => {
                let now = self.time.now(record.cpu, at);
                *self.running.entry(record.cpu) = next.filter(|_| next_prio.is_rt()).map(|next| (next, now));
            }
            // Nothing else concerns the time of groups.
            _ => {}
        }
    }

    /// Forgets what groups have used.
    fn begin_anew(&mut self, at: Instant) {
        for supply in self.limits.values_mut() {
            supply.since = at;
            supply.used.clear();
        }
    }

    /// The task of a CPU has another policy or priority: its time counts, or not, from now on.
    fn set_class(&mut self, before: &Replay, task: TaskId, record: &Record) {
        let to = match record.event {
            TraceEvent::PrioInherit { to, .. } => to,
            TraceEvent::Proxy { prio, .. } => prio,
            TraceEvent::AttrChange { attr, .. } => attr.prio(),
            _ => return,
        };
        let here = before.cpus().find(|(_, view)| view.current.task() == Some(task)).map(|(cpu, _)| cpu);
        if let Some(cpu) = here {
            let now = self.time.now(cpu, record.at);
            *self.running.entry(cpu) = to.is_rt().then_some((task, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::event::Disables;
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    const GROUP: GroupId = GroupId(1);

    fn script() -> (Script, TaskId, TaskId) {
        let mut script = Script::new(1);
        script.meta.settings = vec![("features.RT_RUNTIME_SHARE".to_owned(), "off".to_owned())];
        let (a, b) = (script.fifo("a", 5), script.fair("b"));
        let ms = Duration::from_millis;
        let bandwidth = RtBandwidth { runtime: Some(ms(5)), period: ms(10) };
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/g".into() });
        script.event(0, 0, TraceEvent::RtGroup { group: GROUP, bandwidth });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
        (script, a, b)
    }

    fn throttled_from(until: u64) -> Trace {
        let (mut script, a, b) = script();
        script.event(6_000, 0, TraceEvent::RtGroupThrottle { group: GROUP, throttled: true });
        script.preempt(6_000, 0, a, b);
        script.event(until, 0, TraceEvent::RtGroupThrottle { group: GROUP, throttled: false });
        script.preempt(10_000, 0, b, a).end(12_000)
    }

    #[test]
    fn a_throttled_group_runs_nothing() {
        holds("rt-groups", &throttled_from(10_000));
        let says = "cpu 0 switches to a (task 0), but its group 1 has used its real-time runtime there";
        let (mut script, a, b) = script();
        script.event(6_000, 0, TraceEvent::RtGroupThrottle { group: GROUP, throttled: true });
        breaks("rt-groups", &script.preempt(6_000, 0, a, b).preempt(8_000, 0, b, a).end(12_000), says);
    }

    #[test]
    fn a_group_gets_no_more_than_its_periods_have() {
        let (mut script, a, b) = script();
        script.preempt(14_000, 0, a, b).preempt(15_000, 0, b, a);
        holds("rt-groups", &script.clone().end(16_000));
        script.preempt(29_000, 0, a, b).preempt(29_500, 0, b, a);
        breaks("rt-groups", &script.end(31_000), "group 1 has run for 28ms since 0.000000000, more than 24ms");
    }

    /// A CPU leaves a task in the kernel when its section ends: that overrun is no more than once.
    #[test]
    fn a_section_overruns_once() {
        let no_preempt = |task, disables| TraceEvent::NoPreempt { task, disables };
        let section = |until: u64| {
            let (mut script, a, b) = script();
            script.event(1_000, 0, no_preempt(a, Some(Disables::Interrupts)));
            script.event(until, 0, no_preempt(a, None));
            script.preempt(until, 0, a, b).preempt(until + 1_000, 0, b, a);
            script.preempt(until + 2_000, 0, a, b).preempt(until + 2_500, 0, b, a).end(until + 3_000)
        };
        holds("rt-groups", &section(9_000));
        // 25 ms are of periods, 4 of a tick, and 28 of the section.
        holds("rt-groups", &section(29_900));
        let mut trace = section(29_900);
        trace.records.retain(|record| !matches!(record.event, TraceEvent::NoPreempt { .. }));
        breaks("rt-groups", &trace, "group 1 has run for 29.9ms since 0.000000000, more than 29ms");
    }
}
