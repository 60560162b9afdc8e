//! `bandwidth`: a limited group uses no more than its limit allows, throttled tasks do not run, and
//! the group's counters equal the trace.
//!
//! Checking that each period uses at most one quota does not work: quota that a CPU has taken out
//! of the pool stays valid in the next period, and use is only noticed at ticks. The bound is
//! therefore cumulative. From the setting of a limit on, after n refreshes a group has used at most
//! the sum of
//!
//! * (n + 1) quotas,
//! * the burst that it has saved,
//! * the *slack* of each CPU on which it ran: one slice that the CPU had taken, and one tick by
//!   which it overran (Turner & Rao 2010: "weight(tg->allowed_cpus) * cfs_bandwidth_slice"). With
//!   `bandwidth = hard_limits` CPUs take no slices, so only the tick remains; with `enforce.fair =
//!   exact` there is no tick.
//!
//! The same bound holds for each period by itself; with `hard_limits` a CPU can have taken as much
//! as the quota before it.
//!
//! * A group can run while it is throttled (`throttle`: tasks that are boosted, or in kernel mode).
//!   It must repay that time before it is unthrottled; until then the bound is higher by it. A CPU
//!   that is unthrottled because its last fair task blocks, is moved, or changes its class or group
//!   repays later.
//! * A CPU that was asked to reschedule can be in the kernel, where it is not preempted. Until it
//!   answers, the time is used, and repaid later: the bound is higher by it.
//! * A CPU of `nohz_full` whose tick is stopped does not notice that a limit appears, before its
//!   task leaves it or the remote tick comes: that time is repaid later too. With
//!   `fault.nohz_full_limited` it never notices.
//! * The run time of an executor (`proxy_exec`) is charged to the donor's groups.
//! * A task that disables interrupts meets no tick: a CPU can overrun by the longest of these
//!   sections too.
//! * Handlers and softirqs are no time of a group, if their time is accounted ([`TaskTime`]). The
//!   rest of the path of an interrupt is in the time between two switches: 2 % more is allowed, and
//!   [`Context::path`] for each switch.
//! * At every refresh the throttled CPUs are served in order, before any CPU takes from the pool. A
//!   CPU that is still throttled after the new quota has covered the debts of all CPUs of the group
//!   (a slice and two ticks each, what they ran on without an answer, and what they ran while they
//!   were throttled) has been forgotten.
//!
//! Counters: the time throttled is exact. `nr_bursts` and `burst_usec` are exact as long as the
//! limit does not change: they follow from the decrease of the pool between two refreshes. One late
//! timer can end several periods, each of which counts in `nr_periods` and `nr_throttled`, so these
//! are at least the number of refreshes.
//!
//! Not judged: the use before a CPU goes offline or comes online, together with that after it, if
//! the kernel has `fault.cfs_bandwidth_hotplug_bypass`: all CPUs forget their debts then, and the
//! sum begins anew. The use under `hard_limits` with `enforce.fair = exact`, where grants cost
//! time: a CPU borrows small amounts in many timer interrupts, whose time is the group's in the
//! trace.
//!
//! Complexity: O(depth x log groups) per switch.

mod unthrottled;

use crate::monitor::{Context, Monitor, Outcome};
use crate::monitors::bandwidth::unthrottled::{Debt, LastUnthrottled, Switched};
use crate::report::{Findings, label};
use crate::task_time::{Moment, TaskTime};
use std::collections::BTreeMap;
use zerolag_model::settings::TimerGrain;
use zerolag_model::{ClassId, CpuId, CpuMask, CpuMax, CpuStat, Duration, GroupId, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::TaskState;
use zerolag_trace::{IdTable, Replay};

struct Bandwidth {
    groups: Groups,
    slice: Duration,
    tick: Duration,
    used: BTreeMap<GroupId, Account>,
    throttled_at: BTreeMap<(GroupId, CpuId), Throttled>,
    /// The time up to which the running task of each CPU has been charged.
    charged: IdTable<CpuId, Moment>,
    time: TaskTime,
    is_divided: bool,
    /// When a task last changed its class, group or turn.
    changed_at: Option<Instant>,
    unthrottled: LastUnthrottled,
    /// Whether handlers that borrow quota take time that is charged to no task.
    has_costly_grants: bool,
    has_bypass: bool,
    /// The longest section with interrupts disabled.
    deaf: Duration,
    /// The time of an interrupt between two switches.
    path: Duration,
    nohz_full: CpuMask,
    /// These CPUs have no tick although a task has a limit (`fault.nohz_full_limited`).
    never_ticks: bool,
}

/// A group that is throttled on a CPU.
#[derive(Clone, Copy)]
struct Throttled {
    since: Instant,
    /// The number of refreshes of the group before that.
    refreshes: u64,
    /// What its CPUs had repaid before that of the time that they ran while throttled.
    repaid: Duration,
}

/// The use of one limited group.
#[derive(Default)]
struct Account {
    /// When the limit was last set.
    set_at: Instant,
    /// Use since the limit was set.
    total: Duration,
    refreshes: u64,
    /// Use in the current period.
    period: Duration,
    /// The CPUs on which it ran.
    cpus: CpuMask,
    /// Run time on each CPU where it is throttled, since the throttling.
    overrun: BTreeMap<CpuId, Duration>,
    /// The sum of all overruns, those that were repaid too.
    overran: Duration,
    /// Run time on CPUs that had been asked to reschedule.
    unanswered: Duration,
    is_broken: bool,
    nr_refreshes: u64,
    nr_throttled: u64,
    throttled: Duration,
    /// How many times its limit was set.
    limits: u32,
    /// The pool after the last refresh.
    filled: Duration,
    nr_bursts: u64,
    burst: Duration,
}

const GRANTS: &str = "each grant takes time that is charged to no task (hard_limits, enforce.fair = exact)";
const BYPASS: &str = "a CPU went offline or came online (fault.cfs_bandwidth_hotplug_bypass)";

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say what its groups may use".to_owned());
    }
    let us = |key, usual| {
        let said = context.meta.setting(key).and_then(|text| text.parse().ok());
        said.unwrap_or(usual)
    };
    let is_divided = context.meta.setting("bandwidth") == Some("hard_limits");
    let hz: u64 = context.meta.setting("hz").and_then(|text| text.parse().ok()).unwrap_or(250);
    Ok(Box::new(Bandwidth {
        groups: Groups::new(context.meta.setting("throttle")),
        slice: match context.meta.setting("bandwidth") {
            Some("hard_limits") => Duration::ZERO,
            _ => us("sched_cfs_bandwidth_slice_us", Duration::from_millis(5)),
        },
        tick: Duration::from_nanos(1_000_000_000 / hz.max(1)),
        used: BTreeMap::new(),
        throttled_at: BTreeMap::new(),
        charged: IdTable::default(),
        time: TaskTime::new(context),
        nohz_full: context.settings().full_dynticks_cpus(context.meta.machine.nr_cpus()),
        never_ticks: context.settings().nohz_full_limited,
        deaf: Duration::ZERO,
        path: context.path(),
        has_bypass: context.settings().bandwidth_hotplug_bypass,
        is_divided,
        changed_at: None,
        unthrottled: LastUnthrottled::default(),
        has_costly_grants: is_divided
            && context.settings().enforce_fair == TimerGrain::Exact
            && !context.path().is_zero(),
    }))
}

impl Monitor for Bandwidth {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            // The time until now is its old group's, at its old class.
            TraceEvent::AttrChange { task, .. }
            | TraceEvent::GroupChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::Proxy { task, .. } => {
                self.charge(before, *task, record, found);
                self.changed_at = Some(record.at);
            }
            TraceEvent::Switch { prev, prev_state, next, next_prio } => {
                let switch = Switched { at: record.at, prev: *prev, prev_state: *prev_state, next: *next };
                for debt in self.unthrottled.switch(record.cpu, switch, self.path) {
                    self.used.entry(debt.group).or_default().follow(debt);
                }
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
            TraceEvent::Migrate { task, from, .. } => {
                for group in self.groups.path(*task) {
                    for debt in self.unthrottled.migrate(*from, record.at, *task, group) {
                        self.used.entry(group).or_default().follow(debt);
                    }
                }
            }
            TraceEvent::GroupMax { group, max } => {
                self.charge_running(before, record, found);
                let account = self.used.entry(*group).or_default();
                account.limits += 1;
                account.set_at = record.at;
                account.filled = max.quota.unwrap_or_default();
                account.begin_anew();
            }
            TraceEvent::BandwidthRefresh { group, throttled, runtime } => {
                self.charge_running(before, record, found);
                self.look_for_forgotten(*group, record, found);
                let account = self.used.entry(*group).or_default();
                account.refreshes += 1;
                account.nr_refreshes += 1;
                account.nr_throttled += u64::from(*throttled);
                let above = account.filled.saturating_sub(*runtime);
                account.nr_bursts += u64::from(!above.is_zero());
                account.burst += above;
                account.filled = *runtime;
                account.period = Duration::ZERO;
            }
            TraceEvent::Throttle { group } => {
                let owed = self.unthrottled.throttle(record.cpu, *group, record.at, self.path);
                if !owed.is_zero() {
                    let account = self.used.entry(*group).or_default();
                    *account.overrun.entry(record.cpu).or_default() += owed;
                }
                self.charge_running(before, record, found);
                let account = self.used.entry(*group).or_default();
                let (refreshes, repaid) = (account.nr_refreshes, account.overran - account.owed());
                self.throttled_at.insert((*group, record.cpu), Throttled { since: record.at, refreshes, repaid });
            }
            TraceEvent::Unthrottle { group } => {
                self.charge_running(before, record, found);
                let account = self.used.entry(*group).or_default();
                let overrun = account.overrun.remove(&record.cpu).unwrap_or_default();
                if self.changed_at == Some(record.at) {
                    // Its last fair task left: the CPU repays later.
                    account.unanswered += overrun;
                } else {
                    self.unthrottled.add(record.cpu, *group, record.at, overrun);
                }
                if let Some(throttled) = self.throttled_at.remove(&(*group, record.cpu)) {
                    self.used.entry(*group).or_default().throttled += record.at.since(throttled.since);
                }
            }
            TraceEvent::Hotplug { .. } if self.has_bypass => {
                self.charge_running(before, record, found);
                for account in self.used.values_mut() {
                    account.begin_anew();
                    found.skip(BYPASS);
                }
            }
            TraceEvent::GroupTotals { group, stat } => self.judge_counters(*group, *stat, record, found),
            // No other event concerns limits.
            _ => {}
        }
    }

    fn after(&mut self, _: &Replay, record: &Record) {
        self.groups.apply(record);
        self.time.apply(record);
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.used.is_empty() { Outcome::NothingToJudge("no group is limited") } else { Outcome::Judged }
    }
}

impl Bandwidth {
    /// Returns the slice that a CPU takes at a time; where the quota is divided, CPUs take no
    /// slices.
    fn slice_of(&self, max: CpuMax) -> Duration {
        max.slice.filter(|_| !self.is_divided).unwrap_or(self.slice)
    }

    /// Charges a task's groups with the time since the switch to it, or since their last charge on
    /// that CPU. A limit applies to fair tasks only: time of a group's real-time and deadline tasks
    /// is not charged.
    fn charge(&mut self, before: &Replay, task: TaskId, record: &Record, found: &mut Findings) {
        let Some(view) = before.task(task) else { return };
        let TaskState::Running { since, on } = view.state else { return };
        let is_fair = view.prio.class() == ClassId::Fair;
        let (now, switched) = (self.time.now(on, record.at), self.time.switched(on));
        let charged = core::mem::replace(self.charged.entry(on), now);
        let from = if charged.at > switched.at { charged } else { switched };
        let path_time = if matches!(record.event, TraceEvent::Switch { .. }) { self.path } else { Duration::ZERO };
        let late = before
            .cpu(on)
            .need_resched_since
            .map_or(Duration::ZERO, |asked| now.since(if asked > from.at { self.time.asked(on) } else { from }));
        self.deaf = self.deaf.max(self.time.deaf_on(on, record.at));
        let path: Vec<GroupId> = self.groups.path(self.groups.payer(task)).collect();
        for group in path {
            let max = self.groups.limit(group);
            let slack = self.slice_of(max) + self.tick + self.deaf;
            let Some(account) = self.used.get_mut(&group) else { continue };
            account.cpus.insert(on);
            let ran = if is_fair { now.since(from).saturating_sub(path_time) } else { Duration::ZERO };
            let has_no_tick = self.nohz_full.contains(on) && (self.never_ticks || since < account.set_at);
            account.unanswered += if has_no_tick { ran } else { late.min(ran) };
            account.total += ran;
            account.period += ran;
            if self.groups.is_throttled(group, on) {
                *account.overrun.entry(on).or_default() += ran;
                account.overran += ran;
            }
            if self.has_costly_grants {
                found.skip(GRANTS);
                continue;
            }
            let kept = if self.is_divided { max.quota.unwrap_or_default() } else { Duration::ZERO };
            account.judge(group, max, Slack { all: slack, kept }, record, found);
        }
    }

    /// A period ends: charges every running task's groups with its time so far in that period.
    fn charge_running(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        let running: Vec<TaskId> = before.cpus().filter_map(|(_, view)| view.current.task()).collect();
        for task in running {
            self.charge(before, task, record, found);
        }
    }

    /// A period ends: finds CPUs that are still throttled although enough quota has come since.
    /// O(CPUs where the group is throttled).
    fn look_for_forgotten(&mut self, group: GroupId, record: &Record, found: &mut Findings) {
        let (Some(quota), Some(account)) = (self.groups.limit(group).quota, self.used.get(&group)) else { return };
        if self.is_divided {
            return; // A part can be smaller than a debt, so the order of the list guarantees nothing.
        }
        let debts = (self.slice_of(self.groups.limit(group)) + self.tick * 2 + self.deaf) * account.cpus.count() as u64
            + account.unanswered;
        for ((_, cpu), throttled) in self.throttled_at.range_mut((group, CpuId(0))..=(group, CpuId(u32::MAX))) {
            let refreshes = account.nr_refreshes - throttled.refreshes;
            let debts = debts + (account.overran - throttled.repaid);
            if quota.as_nanos().saturating_mul(refreshes.saturating_sub(1)) > debts.as_nanos() {
                found.push(record.at, Some(*cpu), &[], || {
                    let lasted = record.at.since(throttled.since);
                    format!("group {group} is throttled on cpu {cpu} for {lasted}, while it got {quota} in each of {refreshes} periods")
                });
                throttled.refreshes = account.nr_refreshes;
            }
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
        if seen.limits == 1 && !self.is_divided {
            if stat.nr_bursts != seen.nr_bursts {
                wrong("nr_bursts", stat.nr_bursts.to_string(), seen.nr_bursts.to_string());
            }
            if stat.burst != seen.burst {
                wrong("burst_usec", stat.burst.to_string(), seen.burst.to_string());
            }
        }
    }
}

/// What a group can use beyond its quota.
#[derive(Clone, Copy)]
struct Slack {
    /// On each CPU, in the long run.
    all: Duration,
    /// In one period: what its CPUs took before it and have not used.
    kept: Duration,
}

impl Account {
    /// Returns what the CPUs that are throttled now have run since.
    fn owed(&self) -> Duration {
        self.overrun.values().copied().sum()
    }

    /// Notes that a CPU has not repaid its overrun, or that it had.
    fn follow(&mut self, debt: Debt) {
        self.unanswered = match debt.is_owed {
            true => self.unanswered + debt.overrun,
            false => self.unanswered.saturating_sub(debt.overrun),
        };
    }

    /// Forgets the use so far.
    fn begin_anew(&mut self) {
        (self.total, self.period, self.refreshes) = (Duration::ZERO, Duration::ZERO, 0);
        self.unanswered = Duration::ZERO;
    }

    /// Checks the use against the limit.
    fn judge(&mut self, group: GroupId, max: CpuMax, slack: Slack, record: &Record, found: &mut Findings) {
        let Some(quota) = max.quota.filter(|_| !self.is_broken) else { return };
        let overrun = self.owed() + self.unanswered;
        let Slack { all: slack, kept } = slack;
        let slack = slack * self.cpus.count() as u64 + max.burst + overrun;
        let most = |used: Duration, allowed: Duration| used.saturating_sub(used / 50) > allowed;
        let allowed = quota * (self.refreshes + 1) + slack;
        if most(self.total, allowed) || most(self.period, quota + kept + slack) {
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
    use zerolag_model::event::{Disables, Irq};
    use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, GroupId, Instant, PrevState, Record, TaskId, TraceEvent};
    use zerolag_trace::script::Script;

    pub(super) const GROUP: GroupId = GroupId(1);

    /// A task in a group that may use 10 ms of 100 ms runs.
    pub(super) fn limited() -> (Script, TaskId) {
        limited_on(1)
    }

    pub(super) fn limited_on(cpus: u32) -> (Script, TaskId) {
        let mut script = Script::new(cpus);
        let a = script.fair("a");
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
        script.event(0, 0, TraceEvent::GroupMax { group: GROUP, max });
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        (script, a)
    }

    /// A limit, or a task in mid-run, comes to a group: the time before that is not the group's.
    #[test]
    fn a_group_uses_what_its_tasks_run_in_it_under_its_limit() {
        let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
        let script = |events: [TraceEvent; 2]| {
            let mut script = Script::new(1);
            let a = script.fair("a");
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            let [first, second] = events;
            script.event(0, 0, first).wake(0, 0, a).run(0, 0, None, Some(a)).event(900_000, 0, second);
            (script, a)
        };
        let (limit, comes) =
            (TraceEvent::GroupMax { group: GROUP, max }, TraceEvent::GroupChange { task: TaskId(0), group: GROUP });
        for events in [[comes.clone(), limit.clone()], [limit, comes]] {
            let (script, a) = script(events);
            let until = |us| script.clone().switch(us, 0, Some(a), PrevState::Blocked, None).end(us);
            holds("bandwidth", &until(915_000));
            let says =
                "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
            breaks("bandwidth", &until(930_000), says);
        }
    }

    /// CPUs forget their debts when another one goes offline, with the fault of 6.12.
    #[test]
    fn a_hotplug_begins_the_sum_anew_where_the_kernel_has_the_fault() {
        let (mut script, a) = limited();
        script.event(18_000, 0, TraceEvent::Hotplug { online: false });
        script.switch(33_000, 0, Some(a), PrevState::Blocked, None);
        let mut faulty = script.clone();
        let key = "fault.cfs_bandwidth_hotplug_bypass".to_owned();
        faulty.meta.settings.push((key.clone(), "on".to_owned()));
        script.meta.settings.push((key, "off".to_owned()));
        holds("bandwidth", &faulty.end(33_000));
        let says =
            "group 1 has used 33ms in 0 periods and 33ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &script.end(33_000), says);
    }

    /// The group runs for 30 ms, of 10 ms and a slack of 9 ms.
    #[test]
    fn interrupts_are_not_the_groups_time_and_sections_with_interrupts_disabled_meet_no_tick() {
        let runs = |from: TraceEvent, to: TraceEvent, us: u64| {
            let (mut script, a) = limited();
            script.event(1_000, 0, from).event(1_000 + us, 0, to);
            script.switch(30_000, 0, Some(a), PrevState::Blocked, None).end(30_000)
        };
        let irq = |us| runs(TraceEvent::IrqEnter { irq: Irq::Device }, TraceEvent::IrqExit { irq: Irq::Device }, us);
        holds("bandwidth", &irq(12_000));
        // Without accounting it is charged to the task.
        // Its tick waits for the end of the handler.
        let charged = |us| {
            let mut script = irq(us);
            script.meta.settings.push(("irq_time_accounting".to_owned(), "off".to_owned()));
            script
        };
        holds("bandwidth", &charged(12_000));
        let says =
            "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 11ms allow less";
        breaks("bandwidth", &charged(2_000), says);
        let says =
            "group 1 has used 28ms in 0 periods and 28ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &irq(2_000), says);
        let section = |what, us| {
            let event = |disables| TraceEvent::NoPreempt { task: TaskId(0), disables };
            runs(event(Some(what)), event(None), us)
        };
        holds("bandwidth", &section(Disables::Interrupts, 12_000));
        let says =
            "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 11ms allow less";
        breaks("bandwidth", &section(Disables::Interrupts, 2_000), says);
        let says =
            "group 1 has used 30ms in 0 periods and 30ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &section(Disables::Preemption, 12_000), says);
    }

    #[test]
    fn a_group_within_its_limit_holds() {
        let (mut script, a) = limited();
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        script.switch(12_000, 0, Some(a), PrevState::Runnable, None);
        script.event(
            100_000,
            0,
            TraceEvent::BandwidthRefresh { group: GROUP, runtime: Duration::from_millis(10), throttled: true },
        );
        script.event(100_000, 0, TraceEvent::Unthrottle { group: GROUP });
        script.run(100_000, 0, None, Some(a));
        let stat =
            CpuStat { nr_periods: 1, nr_throttled: 1, throttled: Duration::from_millis(88), ..CpuStat::default() };
        script.event(101_000, 0, TraceEvent::GroupTotals { group: GROUP, stat });
        holds("bandwidth", &script.end(101_000));
    }

    /// Adds refreshes every 100 ms that leave the given amounts in the pool; the first has 10 ms.
    fn refreshed(script: &mut Script, left: &[u64]) {
        for (nth, left) in left.iter().enumerate() {
            let runtime = Duration::from_millis(*left);
            let refresh = TraceEvent::BandwidthRefresh { group: GROUP, runtime, throttled: false };
            script.event(100_000 * (nth as u64 + 1), 0, refresh);
        }
    }

    #[test]
    fn counters_that_the_trace_does_not_show_are_found() {
        let ms = Duration::from_millis;
        let right = CpuStat { nr_periods: 3, nr_bursts: 1, burst: ms(5), ..CpuStat::default() };
        let judged = |stat: CpuStat| {
            let (mut script, a) = limited();
            script.switch(1_000, 0, Some(a), PrevState::Blocked, None);
            refreshed(&mut script, &[12, 15, 10]);
            script.event(301_000, 0, TraceEvent::GroupTotals { group: GROUP, stat });
            script.end(301_000)
        };
        holds("bandwidth", &judged(right));
        for (stat, says) in [
            (CpuStat { nr_periods: 2, ..right }, "group 1 counts nr_periods = 2, but the trace shows 3"),
            (CpuStat { nr_throttled: 1, ..right }, "group 1 counts nr_throttled = 1, but the trace shows 0"),
            (CpuStat { throttled: ms(1), ..right }, "group 1 counts throttled_usec = 1ms, but the trace shows 0ns"),
            (CpuStat { nr_bursts: 2, ..right }, "group 1 counts nr_bursts = 2, but the trace shows 1"),
            (CpuStat { burst: ms(4), ..right }, "group 1 counts burst_usec = 4ms, but the trace shows 5ms"),
        ] {
            breaks("bandwidth", &judged(stat), says);
        }
    }

    #[test]
    fn a_cpu_that_is_never_served_is_found() {
        let (mut script, a) = limited();
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        script.switch(12_000, 0, Some(a), PrevState::Runnable, None);
        refreshed(&mut script, &[10; 5]);
        // At most 13 ms of debt, and 10 ms more: three periods are enough.
        let says = "group 1 is throttled on cpu 0 for 388ms, while it got 10ms in each of 3 periods";
        breaks("bandwidth", &script.end(501_000), says);
    }

    /// A throttled task goes on for 30 ms in the kernel: the group repays that with three periods
    /// more.
    #[test]
    fn a_group_repays_what_it_ran_while_it_was_throttled() {
        let (mut script, a) = limited();
        script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
        script.switch(42_000, 0, Some(a), PrevState::Runnable, None);
        let mut forgotten = script.clone();
        refreshed(&mut script, &[10; 6]);
        holds("bandwidth", &script.end(601_000));
        refreshed(&mut forgotten, &[10; 7]);
        let says = "group 1 is throttled on cpu 0 for 688ms, while it got 10ms in each of 6 periods";
        breaks("bandwidth", &forgotten.end(701_000), says);
    }

    /// The task leaves the class: its CPU is unthrottled, and the group still owes the 20 ms.
    #[test]
    fn an_empty_cpu_that_is_unthrottled_has_not_repaid() {
        let unthrottled_at = |us: u64| {
            let (mut script, a) = limited();
            script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
            let attr = zerolag_model::SchedAttr::fifo(zerolag_model::RtPriority::MIN);
            script.event(32_000, 0, TraceEvent::AttrChange { task: a, attr });
            script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
            script.event(33_000, 0, TraceEvent::AttrChange { task: a, attr: zerolag_model::SchedAttr::NORMAL });
            script.switch(34_000, 0, Some(a), PrevState::Blocked, None);
            script.end(35_000)
        };
        holds("bandwidth", &unthrottled_at(32_000));
        let says =
            "group 1 has used 32ms in 0 periods and 32ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &unthrottled_at(32_500), says);
    }

    /// The task blocks in the kernel: its CPU is unthrottled, and the group still owes the 20 ms.
    #[test]
    fn a_cpu_whose_last_task_blocks_has_not_repaid() {
        let unthrottled_at = |us: u64| {
            let (mut script, a) = limited();
            script.event(12_000, 0, TraceEvent::Throttle { group: GROUP });
            script.event(us, 0, TraceEvent::Unthrottle { group: GROUP });
            script.switch(32_000, 0, Some(a), PrevState::Blocked, None);
            script.wake(33_000, 0, a).run(33_000, 0, None, Some(a));
            script.switch(34_000, 0, Some(a), PrevState::Blocked, None);
            script.end(35_000)
        };
        holds("bandwidth", &unthrottled_at(32_000));
        let says =
            "group 1 has used 32ms in 0 periods and 32ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &unthrottled_at(31_900), says);
    }

    /// With hard limits a CPU can have borrowed a whole quota at the end of a period.
    #[test]
    fn a_divided_quota_can_be_kept_for_a_period() {
        let used = |us: u64, settings: &[(&str, &str)]| {
            let (mut script, a) = limited();
            refreshed(&mut script, &[10]);
            script.switch(100_000, 0, Some(a), PrevState::Blocked, None);
            script.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
            script.switch(100_000 + us, 0, Some(a), PrevState::Blocked, None);
            let mut trace = script.end(130_000);
            // What it ran before the refresh was not under the limit.
            trace.records.retain(|record| !matches!(record.event, TraceEvent::GroupMax { .. }));
            let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
            let limit = Record {
                at: Instant::from_nanos(99_999_000),
                cpu: CpuId(0),
                event: TraceEvent::GroupMax { group: GROUP, max },
            };
            let place = trace.records.partition_point(|record| record.at <= limit.at);
            trace.records.insert(place, limit);
            trace.meta.settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            trace
        };
        let divided = [("bandwidth", "hard_limits")];
        holds("bandwidth", &used(20_000, &divided));
        let says =
            "group 1 has used 20.001ms in 1 periods and 20ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &used(20_000, &[]), says);
        let says =
            "group 1 has used 26.001ms in 1 periods and 26ms since; cpu.max 10000 100000 and a slack of 4ms allow less";
        breaks("bandwidth", &used(26_000, &divided), says);
        // Grants that cost time hide the use.
        let exact = [("bandwidth", "hard_limits"), ("enforce.fair", "exact")];
        breaks("bandwidth", &used(26_000, &exact), says);
        let mut costly = used(26_000, &exact);
        "default".clone_into(&mut costly.meta.costs);
        holds("bandwidth", &costly);
    }

    #[test]
    fn more_than_the_quota_in_the_long_run_is_found() {
        let (mut script, a) = limited();
        script.switch(18_000, 0, Some(a), PrevState::Blocked, None);
        refreshed(&mut script, &[10]);
        script.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
        script.switch(118_000, 0, Some(a), PrevState::Blocked, None);
        let says =
            "group 1 has used 36ms in 1 periods and 18ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &script.end(118_000), says);
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

    /// 20 ms in 2000 turns: where operations cost time, a part of each turn is the scheduler's.
    #[test]
    fn the_path_of_the_scheduler_is_not_the_groups() {
        let (mut script, a) = limited();
        for turn in 0..2000 {
            let at = turn * 20;
            script.run(at + 10, 0, Some(a), None).wake(at + 20, 0, a).run(at + 20, 0, None, Some(a));
        }
        let mut costly = script.clone();
        "default".clone_into(&mut costly.meta.costs);
        holds("bandwidth", &costly.end(40_000));
        let says = "group 1 has used 19.39ms in 0 periods and 19.39ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &script.end(40_000), says);
    }

    /// A CPU without a tick goes on with its task when the group of the task gets a limit.
    #[test]
    fn a_cpu_without_a_tick_notices_a_new_limit_late() {
        let mut script = Script::new(2);
        let a = script.fair("a");
        let max = CpuMax { quota: Some(Duration::from_millis(10)), ..CpuMax::UNLIMITED };
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).event(10_000, 0, TraceEvent::GroupMax { group: GROUP, max });
        script.switch(90_000, 0, Some(a), PrevState::Blocked, None);
        let (mut until, mut again) = (script.end(90_000), script.clone());
        let says =
            "group 1 has used 80ms in 0 periods and 80ms since; cpu.max 10000 100000 and a slack of 9ms allow less";
        breaks("bandwidth", &until, says);
        let setting = ("nohz_full".to_owned(), "0".to_owned());
        until.meta.settings.push(setting.clone());
        holds("bandwidth", &until);
        // The next turn begins under the limit.
        again.meta.settings.push(setting);
        again.wake(91_000, 0, a).run(91_000, 0, None, Some(a)).switch(99_999, 0, Some(a), PrevState::Blocked, None);
        refreshed(&mut again, &[10]);
        again.wake(100_000, 0, a).run(100_000, 0, None, Some(a));
        again.switch(150_000, 0, Some(a), PrevState::Blocked, None);
        let says = "group 1 has used 138.999ms in 1 periods and 50ms since; cpu.max 10000 100000 and a slack of 89ms allow less";
        breaks("bandwidth", &again.end(150_000), says);
    }
}
