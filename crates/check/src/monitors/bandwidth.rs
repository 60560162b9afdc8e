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
//! as the quota before it. A CPU on which the group only waited has taken a slice too, and gives it
//! back when the last task is moved away (`return_cfs_rq_runtime`).
//!
//! * A group can run while it is throttled (`throttle`: tasks that are boosted, or in kernel mode).
//!   It must repay that time before it is unthrottled; until then the bound is higher by it. A CPU
//!   that is unthrottled because its last fair task blocks, is moved, changes its class or group,
//!   or ends its boost below a throttled group repays later.
//! * A CPU that was asked to reschedule can be in the kernel, where it is not preempted. Until it
//!   answers, the time is used, and repaid later: the bound is higher by it.
//! * A CPU of `nohz_full` whose tick is stopped does not notice that a limit appears, before its
//!   task leaves it or the remote tick comes: that time is repaid later too. With
//!   `fault.nohz_full_limited` it never notices. It then charges its task's whole turn, also the
//!   part before the limit (`tg_set_cfs_bandwidth` charges nothing first).
//! * The run time of an executor (`proxy_exec`) is charged to the donor's groups.
//! * A task that disables interrupts meets no tick: a CPU can overrun by the longest of these
//!   sections too.
//! * Handlers and softirqs are no time of a group, if their time is accounted ([`TaskTime`]). The
//!   rest of the path of an interrupt is in the time between two switches: 2 % more is allowed, and
//!   [`Context::path`] for each switch.
//! * At every refresh the throttled CPUs are served in order, before any CPU takes from the pool. A
//!   CPU that is still throttled after the new quota has covered the debts of all CPUs of the group
//!   (a slice and two ticks each, what they ran on without an answer, what they ran while they were
//!   throttled, and turns without a tick before the limit) has been forgotten.
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

#[cfg(test)]
mod tests;
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

struct BandwidthMonitor {
    groups: Groups,
    slice: Duration,
    tick: Duration,
    used: BTreeMap<GroupId, Account>,
    throttled_at: BTreeMap<(GroupId, CpuId), ThrottledGroup>,
    /// The time up to which the running task of each CPU has been charged.
    charged: IdTable<CpuId, Moment>,
    time: TaskTime,
    is_divided: bool,
    /// When a task last changed its class, group or turn.
    changed_at: Option<Instant>,
    /// The task of each CPU whose boost ended last there, and when.
    ended: IdTable<CpuId, Option<(Instant, TaskId)>>,
    unthrottled: LastUnthrottled,
    /// Whether handlers that borrow quota take time that is charged to no task.
    has_costly_grants: bool,
    has_bypass: bool,
    /// Whether what is throttled on a CPU that goes offline stays so until it is back
    /// (`fault.cfs_bandwidth_offline_loss`), and the CPUs that are offline.
    has_loss: bool,
    offline: IdTable<CpuId, bool>,
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
struct ThrottledGroup {
    since: Instant,
    /// From when on the time counts: the first task that is parked, where tasks are stopped one by
    /// one (Linux v6.18 `kernel/sched/fair.c`, `record_throttle_clock`).
    counts_from: Option<Instant>,
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
    /// The CPUs on which its tasks were queued.
    queued: CpuMask,
    /// Run time on each CPU where it is throttled, since the throttling.
    overrun: BTreeMap<CpuId, Duration>,
    /// The sum of all overruns, those that were repaid too.
    overran: Duration,
    /// Of CPUs whose queue is empty, the overrun that they have not repaid.
    left: BTreeMap<CpuId, Duration>,
    /// Run time on CPUs that had been asked to reschedule.
    unanswered: Duration,
    /// What CPUs without a tick ran before the limit was set, and charge under it.
    before_limit: Duration,
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
    Ok(Box::new(BandwidthMonitor {
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
        has_loss: context.settings().bandwidth_offline_loss,
        offline: IdTable::default(),
        is_divided,
        changed_at: None,
        ended: IdTable::default(),
        unthrottled: LastUnthrottled::default(),
        has_costly_grants: is_divided
            && context.settings().enforce_fair == TimerGrain::Exact
            && !context.path().is_zero(),
    }))
}

impl Monitor for BandwidthMonitor {
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
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
            TraceEvent::Boost { task, boosted: false } => *self.ended.entry(record.cpu) = Some((record.at, *task)),
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
                let before_limit = self.without_a_tick(before, *group, record.at);
                let account = self.used.entry(*group).or_default();
                account.before_limit = before_limit;
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
                if let Some(left) = account.left.remove(&record.cpu) {
                    *account.overrun.entry(record.cpu).or_default() += left;
                }
                let (refreshes, repaid) = (account.nr_refreshes, account.overran - account.owed());
                let counts_from = (!self.groups.stops_single_tasks()).then_some(record.at);
                let throttled = ThrottledGroup { since: record.at, counts_from, refreshes, repaid };
                self.throttled_at.insert((*group, record.cpu), throttled);
            }
            TraceEvent::TaskThrottle { task, throttled: true } => {
                for group in self.groups.path(*task) {
                    if let Some(throttled) = self.throttled_at.get_mut(&(group, record.cpu)) {
                        throttled.counts_from.get_or_insert(record.at);
                    }
                }
            }
            TraceEvent::Unthrottle { group } => {
                self.charge_running(before, record, found);
                let is_empty = self.ends_its_boosts(*group, record);
                let account = self.used.entry(*group).or_default();
                let overrun = account.overrun.remove(&record.cpu).unwrap_or_default();
                if is_empty {
                    account.left.insert(record.cpu, overrun);
                } else if self.changed_at == Some(record.at) {
                    // Its last fair task left: the CPU repays later.
                    account.unanswered += overrun;
                } else {
                    self.unthrottled.add(record.cpu, *group, record.at, overrun);
                }
                let throttled = self.throttled_at.remove(&(*group, record.cpu));
                if let Some(from) = throttled.and_then(|throttled| throttled.counts_from) {
                    self.used.entry(*group).or_default().throttled += record.at.since(from);
                }
            }
            TraceEvent::Hotplug { online } => {
                *self.offline.entry(record.cpu) = !online;
                if *online {
                    self.begin_to_wait(record.cpu);
                }
                if self.has_bypass {
                    self.charge_running(before, record, found);
                    for account in self.used.values_mut() {
                        account.begin_anew();
                        found.skip(BYPASS);
                    }
                }
            }
            TraceEvent::GroupTotals { group, stat } => self.judge_counters(*group, *stat, record, found),
            // No other event concerns limits.
            _ => {}
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.groups.apply(record);
        match &record.event {
            TraceEvent::Wakeup { task, .. }
            | TraceEvent::Migrate { task, .. }
            | TraceEvent::GroupChange { task, .. } => self.queue_up(after, *task),
            TraceEvent::GroupMax { .. } => after.tasks().for_each(|(task, _)| self.queue_up(after, task)),
            // No other event puts a task on a queue of a limited group.
            _ => {}
        }
        self.time.apply(record);
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.used.is_empty() { Outcome::NothingToJudge("no group is limited") } else { Outcome::Judged }
    }
}

impl BandwidthMonitor {
    /// Returns the slice that a CPU takes at a time; where the quota is divided, CPUs take no
    /// slices.
    fn slice_of(&self, max: CpuMax) -> Duration {
        max.slice.filter(|_| !self.is_divided).unwrap_or(self.slice)
    }

    /// Notes where a task is queued: that CPU can take a slice for each of its groups.
    fn queue_up(&mut self, after: &Replay, task: TaskId) {
        let Some(cpu) = after.task(task).and_then(|view| view.rq) else { return };
        for group in self.groups.path(task) {
            if let Some(account) = self.used.get_mut(&group) {
                account.queued.insert(cpu);
            }
        }
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
            let taken = self.slice_of(max);
            let slack = taken + self.tick + self.deaf;
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
            let waited = account.queued.iter().filter(|cpu| !account.cpus.contains(*cpu)).count() as u64;
            let kept = if self.is_divided { max.quota.unwrap_or_default() } else { taken * waited };
            account.judge(group, max, GroupSlack { all: slack, kept }, record, found);
        }
    }

    /// A period ends: charges every running task's groups with its time so far in that period.
    fn charge_running(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        let running: Vec<TaskId> = before.cpus().filter_map(|(_, view)| view.current.task()).collect();
        for task in running {
            self.charge(before, task, record, found);
        }
    }

    /// A CPU is back: what is throttled there waits for quota from now on.
    fn begin_to_wait(&mut self, cpu: CpuId) {
        for ((group, _), throttled) in self.throttled_at.iter_mut().filter(|((_, on), _)| *on == cpu) {
            throttled.refreshes = self.used.get(group).map_or(0, |account| account.nr_refreshes);
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
            + account.unanswered
            + account.before_limit;
        for ((_, cpu), throttled) in self.throttled_at.range_mut((group, CpuId(0))..=(group, CpuId(u32::MAX))) {
            if self.has_loss && self.offline.get(*cpu).is_some_and(|is_offline| *is_offline) {
                continue;
            }
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

    /// Returns whether a group is unthrottled on a CPU because the last boosted task below it has
    /// lost its boost: a group between is throttled, so the queue is empty.
    fn ends_its_boosts(&self, group: GroupId, record: &Record) -> bool {
        let ended = self.ended.get(record.cpu).copied().flatten().filter(|(at, _)| *at == record.at);
        ended.is_some_and(|(_, task)| {
            let above = || self.groups.path(task);
            above().any(|at| at == group)
                && above().take_while(|at| *at != group).any(|at| self.groups.is_throttled(at, record.cpu))
        })
    }

    /// Returns for how long CPUs of `nohz_full` have run tasks of a group in their present turns.
    fn without_a_tick(&self, before: &Replay, group: GroupId, now: Instant) -> Duration {
        let running = before.cpus().filter_map(|(cpu, view)| Some((cpu, view.current.task()?, view.since)));
        let of_group = running.filter(|(cpu, task, _)| {
            self.nohz_full.contains(*cpu) && self.groups.path(self.groups.payer(*task)).any(|at| at == group)
        });
        of_group.map(|(.., since)| now.since(since)).sum()
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
struct GroupSlack {
    /// On each CPU, in the long run.
    all: Duration,
    /// In one period: what its CPUs took before it and have not used.
    kept: Duration,
}

impl Account {
    /// Returns what the CPUs that are throttled now have run since, or were when their queues
    /// became empty.
    fn owed(&self) -> Duration {
        self.overrun.values().chain(self.left.values()).copied().sum()
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
        self.left.clear();
    }

    /// Checks the use against the limit.
    fn judge(&mut self, group: GroupId, max: CpuMax, slack: GroupSlack, record: &Record, found: &mut Findings) {
        let Some(quota) = max.quota.filter(|_| !self.is_broken) else { return };
        let overrun = self.owed() + self.unanswered;
        let GroupSlack { all: slack, kept } = slack;
        let slack = slack.saturating_mul(self.cpus.count() as u64).saturating_add(max.burst).saturating_add(overrun);
        let most = |used: Duration, allowed: Duration| used.saturating_sub(used / 50) > allowed;
        let allowed = quota.saturating_mul(self.refreshes + 1).saturating_add(slack);
        if most(self.total, allowed) || most(self.period, quota.saturating_add(kept).saturating_add(slack)) {
            self.is_broken = true;
            let (total, period, refreshes) = (self.total, self.period, self.refreshes);
            found.push(record.at, Some(record.cpu), &[], || {
                format!("group {group} has used {total} in {refreshes} periods and {period} since; cpu.max {max} and a slack of {slack} allow less")
            });
        }
    }
}
