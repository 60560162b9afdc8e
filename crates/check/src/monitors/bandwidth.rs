//! `bandwidth`: a limited group uses no more than its limit allows, what is throttled does not run, and the group's
//! counters equal what the trace shows.
//!
//! From the setting of a limit on, after n refreshes a group has used at most (n + 1) quotas, what was saved up (burst),
//! and the *slack* of each CPU where it ran: a slice that it had taken, and the time of a tick by which it used more than
//! it took (Turner & Rao 2010: "weight(tg->allowed_cpus) * cfs_bandwidth_slice"). With `bandwidth = hard_limits` CPUs take no
//! slices: the time of a tick is left. Without `enforce.fair = exact` quota is
//! looked at by ticks. The same holds for each period by itself.
//!
//! CPU time is taken from switches, so it includes what interrupts took: a fiftieth more is allowed.
//!
//! Counters: the time throttled is exact. `nr_periods` and `nr_throttled` count periods that one late timer ended together
//! each, so they are at least the number of refreshes.
//!
//! Complexity: O(depth x log groups) per switch.

use crate::checker::{Context, Monitor, Outcome};
use crate::report::{Findings, label};
use std::collections::BTreeMap;
use zerolag_model::{ClassId, CpuId, CpuMax, CpuStat, Duration, GroupId, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::Replay;
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::TaskState;

struct Bandwidth {
    groups: Groups,
    slice: Duration,
    tick: Duration,
    used: BTreeMap<GroupId, Account>,
    throttled_at: BTreeMap<(GroupId, CpuId), Instant>,
}

/// What one limited group has used.
#[derive(Default)]
struct Account {
    /// Since the limit was set.
    total: Duration,
    refreshes: u64,
    /// In the present period.
    period: Duration,
    /// Up to when its time on each CPU where it ran is counted.
    charged: BTreeMap<CpuId, Instant>,
    is_broken: bool,
    nr_refreshes: u64,
    nr_throttled: u64,
    throttled: Duration,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say what its groups may use".to_owned());
    }
    let us = |key, usual| {
        let said = context.meta.setting(key).and_then(|text| text.parse().ok());
        said.unwrap_or(usual)
    };
    let hz: u64 = context.meta.setting("hz").and_then(|text| text.parse().ok()).unwrap_or(250);
    Ok(Box::new(Bandwidth {
        groups: Groups::default(),
        slice: match context.meta.setting("bandwidth") {
            Some("hard_limits") => Duration::ZERO,
            _ => us("sched_cfs_bandwidth_slice_us", Duration::from_millis(5)),
        },
        tick: Duration::from_nanos(1_000_000_000 / hz.max(1)),
        used: BTreeMap::new(),
        throttled_at: BTreeMap::new(),
    }))
}

impl Monitor for Bandwidth {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::AttrChange { task, .. } | TraceEvent::PrioInherit { task, .. } => {
                self.charge(before, *task, record, found);
            }
            TraceEvent::Switch { prev, next, next_prio, .. } => {
                if let Some(prev) = prev {
                    self.charge(before, *prev, record, found);
                }
                if let Some(next) = next
                    && next_prio.class() == ClassId::Fair
                    && let Some(group) = self.groups.throttled_on(*next, record.cpu)
                {
                    found.push(record.at, Some(record.cpu), &[*next], || {
                        format!("{} runs while group {group} is throttled there", label(before, *next))
                    });
                }
            }
            TraceEvent::GroupMax { group, .. } => {
                self.charge_running(before, record, found);
                let account = self.used.entry(*group).or_default();
                (account.total, account.period, account.refreshes) = (Duration::ZERO, Duration::ZERO, 0);
            }
            TraceEvent::BandwidthRefresh { group, throttled, .. } => {
                self.charge_running(before, record, found);
                let account = self.used.entry(*group).or_default();
                account.refreshes += 1;
                account.nr_refreshes += 1;
                account.nr_throttled += u64::from(*throttled);
                account.period = Duration::ZERO;
            }
            TraceEvent::Throttle { group } => {
                self.throttled_at.insert((*group, record.cpu), record.at);
            }
            TraceEvent::Unthrottle { group } => {
                if let Some(since) = self.throttled_at.remove(&(*group, record.cpu)) {
                    self.used.entry(*group).or_default().throttled += record.at.since(since);
                }
            }
            TraceEvent::GroupTotals { group, stat } => self.judge_counters(*group, *stat, record, found),
            // Nothing else is about limits.
            _ => {}
        }
    }

    fn after(&mut self, _: &Replay, record: &Record) {
        self.groups.apply(record);
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.used.is_empty() { Outcome::NothingToJudge("no group is limited") } else { Outcome::Judged }
    }
}

impl Bandwidth {
    /// Charges a task's groups with the time since it was switched to, or since they were charged on that CPU last. A limit
    /// is for fair tasks: what real-time and deadline tasks of a group use counts nowhere.
    fn charge(&mut self, before: &Replay, task: TaskId, record: &Record, found: &mut Findings) {
        let Some(view) = before.task(task) else { return };
        let TaskState::Running { since, on } = view.state else { return };
        let is_fair = view.prio.class() == ClassId::Fair;
        let slack = self.slice + self.tick;
        let path: Vec<GroupId> = self.groups.path(task).collect();
        for group in path {
            let max = self.groups.limit(group);
            let Some(account) = self.used.get_mut(&group) else { continue };
            let from = account.charged.insert(on, record.at).map_or(since, |last| last.max(since));
            let ran = if is_fair { record.at.since(from) } else { Duration::ZERO };
            account.total += ran;
            account.period += ran;
            account.judge(group, max, slack, record, found);
        }
    }

    /// A period ends: whoever runs has used what it ran so far in that one.
    fn charge_running(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        let running: Vec<TaskId> = before.cpus().filter_map(|(_, view)| view.current.task()).collect();
        for task in running {
            self.charge(before, task, record, found);
        }
    }

    fn judge_counters(&self, group: GroupId, stat: CpuStat, record: &Record, found: &mut Findings) {
        let usual = Account::default();
        let seen = self.used.get(&group).unwrap_or(&usual);
        let mut wrong = |what: &str, said: String, seen: String| {
            found.push(record.at, None, &[], || {
                format!("group {group} counts {what} = {said}, but the trace shows {seen}")
            });
        };
        if stat.nr_throttled < seen.nr_throttled || seen.nr_throttled == 0 && stat.nr_throttled > 0 {
            wrong("nr_throttled", stat.nr_throttled.to_string(), seen.nr_throttled.to_string());
        }
        if stat.nr_periods < seen.nr_refreshes {
            wrong("nr_periods", stat.nr_periods.to_string(), seen.nr_refreshes.to_string());
        }
        if stat.throttled != seen.throttled {
            wrong("throttled_usec", stat.throttled.to_string(), seen.throttled.to_string());
        }
    }
}

impl Account {
    /// Holds what was used against the limit.
    fn judge(&mut self, group: GroupId, max: CpuMax, slack: Duration, record: &Record, found: &mut Findings) {
        let Some(quota) = max.quota.filter(|_| !self.is_broken) else { return };
        let slack = slack * self.charged.len() as u64 + max.burst;
        let most = |used: Duration, allowed: Duration| used.saturating_sub(used / 50) > allowed;
        let allowed = quota * (self.refreshes + 1) + slack;
        if most(self.total, allowed) || most(self.period, quota + slack) {
            self.is_broken = true;
            let (total, period, refreshes) = (self.total, self.period, self.refreshes);
            found.push(record.at, Some(record.cpu), &[], || {
                format!("group {group} has used {total} in {refreshes} periods and {period} since; cpu.max {max} and a slack of {slack} allow less")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds};
    use zerolag_model::{CpuMax, CpuStat, Duration, GroupId, PrevState, TaskId, TraceEvent};
    use zerolag_trace::script::Script;

    const GROUP: GroupId = GroupId(1);

    /// A task runs in a group that may use 10 ms of 100 ms.
    fn limited() -> (Script, TaskId) {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
        script.event(0, 0, TraceEvent::GroupMax { group: GROUP, max });
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        (script, a)
    }

    #[test]
    fn a_group_within_its_limit_holds() {
        let (mut script, a) = limited();
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        script.switch(12_000, 0, Some(a), PrevState::Runnable, None);
        script.event(
            100_000,
            0,
            TraceEvent::BandwidthRefresh { group: GROUP, runtime: Duration::ZERO, throttled: true },
        );
        script.event(100_000, 0, TraceEvent::Unthrottle { group: GROUP });
        script.run(100_000, 0, None, Some(a));
        let stat =
            CpuStat { nr_periods: 1, nr_throttled: 1, throttled: Duration::from_millis(88), ..CpuStat::default() };
        script.event(101_000, 0, TraceEvent::GroupTotals { group: GROUP, stat });
        holds("bandwidth", &script.end(101_000));
    }

    #[test]
    fn a_throttled_task_does_not_run() {
        let (mut script, a) = limited();
        script.event(5_000, 0, TraceEvent::Throttle { group: GROUP });
        script.switch(5_000, 0, Some(a), PrevState::Runnable, None).run(6_000, 0, None, Some(a));
        breaks("bandwidth", &script.end(7_000), "a (task 0) runs while group 1 is throttled there");
    }

    #[test]
    fn more_than_quota_and_slack_is_found() {
        let (mut script, a) = limited();
        script.switch(20_000, 0, Some(a), PrevState::Runnable, None);
        let says =
            "group 1 has used 20ms in 0 periods and 20ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &script.end(20_000), says);
    }
}
