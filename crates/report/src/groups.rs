//! [`GroupSums`]: the CPU time of task groups, and how long their limits held them up: `cpu.stat`
//! and `cpu.stat.local`.
//!
//! The counters of the limits are in the trace ([`TraceEvent::GroupTotals`]). Three figures are
//! computed here: the CPU time of a group including all groups below it, its parts in user and in
//! kernel mode, and its *local* throttled time. The latter is the time, added up over CPUs, for
//! which a task of the group was on a run queue where the group or one above it was throttled.
//!
//! As in the kernel, the local clock of a CPU starts when the throttling meets a queued task, or
//! when the first task is enqueued, and it is read when the throttling ends. So a task that is
//! dequeued meanwhile does not stop it, and a throttling that lasts to the end of a run is not
//! counted. Where tasks are parked one by one (`throttle = at_user_return`), it starts with the
//! first that is parked.
//!
//! The time for which the real-time tasks of a group are throttled is that between two events of
//! the group and a CPU; one that lasts to the end of a run is not counted.
//!
//! The mode of a task is that between the records of system calls and interrupts, so the parts add
//! up to the CPU time. A kernel without `CONFIG_VIRT_CPU_ACCOUNTING_*` counts ticks instead, by the
//! mode that each interrupts, and divides the CPU time in their proportion; `nice_usec` stays a
//! number of ticks there. differs: the way into and out of a system call that only sleeps, and the
//! switch, count as the mode that they end.
//!
//! Complexity: O(depth x log) per record of a task in a group, nothing for tasks of the root;
//! throttling and unthrottling are O(groups below).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `tg_throttle_down`, `tg_unthrottle_up`,
//! `enqueue_entity`; `kernel/sched/core.c`, `cpu_local_stat_show`; v6.18 `kernel/sched/fair.c`,
//! `record_throttle_clock`; v6.18 `kernel/cgroup/rstat.c`, `__cgroup_account_cputime_field`,
//! `cgroup_base_stat_cputime_show`; `kernel/sched/cputime.c`, `account_user_time`,
//! `account_system_time`, `cputime_adjust`, `vtime_user_exit`. `nice_usec`: commit aefa398d93d5
//! (6.13).

use crate::summary::{GroupSummary, ModeTimes, PressureSummary};
use crate::waits::{Piece, Throttling};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, GroupId, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::IdTable;

/// Follows groups and sums their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupSums {
    groups: BTreeMap<GroupId, GroupTotals>,
    tasks: IdTable<TaskId, TaskGroup>,
    places: BTreeMap<(GroupId, CpuId), GroupOnCpu>,
    /// Where real-time tasks are throttled, and since when.
    rt_throttled: BTreeMap<(GroupId, CpuId), Instant>,
    /// Whether tasks are parked one by one.
    parks: bool,
}

/// The mode of a task, as its time is accounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    User,
    /// User mode of a task with a nice level above 0.
    Nice,
    System,
}

#[derive(Clone, Debug, Default)]
struct GroupTotals {
    path: Arc<str>,
    parent: Option<GroupId>,
    children: Vec<GroupId>,
    max: CpuMax,
    usage: Duration,
    modes: ModeTimes,
    stat: Option<CpuStat>,
    local: Duration,
    rt: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct TaskGroup {
    group: Option<GroupId>,
    /// The run queue that the task is on.
    on: Option<CpuId>,
}

/// A group on a CPU.
#[derive(Clone, Debug, Default)]
struct GroupOnCpu {
    /// The number of queued tasks of the group and all groups below it.
    queued: u32,
    /// How many of the group and its ancestors are throttled there.
    throttled: u32,
    /// Start of the local clock, while it runs.
    since: Option<Instant>,
    /// The group that was throttled first, and when, while it is.
    open: Option<(GroupId, Instant)>,
    /// The last intervals in which the group was throttled here.
    past: VecDeque<Throttling>,
}

impl GroupSums {
    /// Follows a trace with this setting `throttle`.
    pub(crate) fn new(throttle: Option<&str>) -> Self {
        Self { parks: throttle == Some("at_user_return"), ..Self::default() }
    }

    /// Returns whether there are no groups.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns a task's group; `None` for the root.
    pub(crate) fn of(&self, task: TaskId) -> Option<GroupId> {
        self.tasks.get(task)?.group
    }

    /// Returns the path of a group.
    pub(crate) fn path(&self, group: GroupId) -> Option<Arc<str>> {
        self.groups.get(&group).map(|sums| Arc::clone(&sums.path))
    }

    /// Adds CPU time in a mode to a group and all groups above it.
    pub(crate) fn charge(&mut self, group: GroupId, time: Duration, mode: Mode) {
        let mut at = Some(group);
        while let Some(sums) = at.and_then(|group| self.groups.get_mut(&group)) {
            sums.usage = sums.usage.saturating_add(time);
            let ModeTimes { user, system, nice } = &mut sums.modes;
            match mode {
                Mode::System => *system = system.saturating_add(time),
                Mode::User => *user = user.saturating_add(time),
                Mode::Nice => {
                    *user = user.saturating_add(time);
                    *nice = nice.saturating_add(time);
                }
            }
            at = sums.parent;
        }
    }

    /// Follows a record.
    pub(crate) fn observe(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::GroupNew { group, parent, path } => {
                // A damaged trace can contain circles.
                let old = self.groups.get(group).and_then(|sums| sums.parent);
                if let Some(old) = old.and_then(|old| self.groups.get_mut(&old)) {
                    old.children.retain(|child| child != group);
                }
                let is_below = self.groups.contains_key(parent) && !self.subtree(*group).contains(parent);
                let parent = is_below.then_some(*parent);
                if let Some(parent) = parent.and_then(|parent| self.groups.get_mut(&parent)) {
                    parent.children.push(*group);
                }
                let children = self.groups.remove(group).map(|sums| sums.children).unwrap_or_default();
                self.groups
                    .insert(*group, GroupTotals { path: Arc::clone(path), parent, children, ..GroupTotals::default() });
            }
            TraceEvent::GroupMax { group, max } => {
                if let Some(sums) = self.groups.get_mut(group) {
                    sums.max = *max;
                }
            }
            TraceEvent::GroupTotals { group, stat } => {
                if let Some(sums) = self.groups.get_mut(group) {
                    sums.stat = Some(*stat);
                }
            }
            _ if self.groups.is_empty() => {}
            TraceEvent::TaskNew { task, group, .. } | TraceEvent::GroupChange { task, group } => {
                let on = self.tasks.get(*task).and_then(|member| member.on);
                self.put(*task, None, record.at);
                self.tasks.entry(*task).group = (*group != GroupId::ROOT).then_some(*group);
                self.put(*task, on, record.at);
            }
            TraceEvent::Wakeup { task, .. } => self.put(*task, Some(record.cpu), record.at),
            TraceEvent::Migrate { task, to, .. } if self.tasks.get(*task).is_some_and(|member| member.on.is_some()) => {
                self.put(*task, Some(*to), record.at);
            }
            TraceEvent::Switch { prev, prev_state, .. } => {
                if let Some(prev) = prev.filter(|_| matches!(prev_state, PrevState::Blocked | PrevState::Dead)) {
                    self.put(prev, None, record.at);
                }
            }
            TraceEvent::RtGroupThrottle { group, throttled: true } => {
                self.rt_throttled.insert((*group, record.cpu), record.at);
            }
            TraceEvent::RtGroupThrottle { group, throttled: false } => {
                if let Some(since) = self.rt_throttled.remove(&(*group, record.cpu))
                    && let Some(sums) = self.groups.get_mut(group)
                {
                    sums.rt = sums.rt.saturating_add(record.at.since(since));
                }
            }
            TraceEvent::Throttle { group } => self.throttle(*group, record.cpu, record.at),
            TraceEvent::Unthrottle { group } => self.unthrottle(*group, record.cpu, record.at),
            TraceEvent::TaskThrottle { task, throttled: true } => self.park(*task, record.cpu, record.at),
            _ => {}
        }
    }

    /// Enqueues a task on a run queue, or dequeues it.
    fn put(&mut self, task: TaskId, on: Option<CpuId>, at: Instant) {
        let member = self.tasks.entry(task);
        let before = core::mem::replace(&mut member.on, on);
        let Some(first) = member.group.filter(|_| before != on) else { return };
        let mut next = Some(first);
        while let Some(group) = next {
            if let Some(place) = before.and_then(|cpu| self.places.get_mut(&(group, cpu))) {
                place.queued = place.queued.saturating_sub(1);
            }
            if let Some(cpu) = on {
                let place = self.places.entry((group, cpu)).or_default();
                place.queued += 1;
                if place.throttled > 0 && !self.parks {
                    place.since.get_or_insert(at);
                }
            }
            next = self.groups.get(&group).and_then(|sums| sums.parent);
        }
    }

    /// Returns the intervals of a piece of a wait in which the task's group was throttled.
    pub(crate) fn throttled(&self, task: TaskId, piece: Piece) -> Vec<Throttling> {
        let Some(place) = self.of(task).and_then(|group| self.places.get(&(group, piece.cpu))) else {
            return Vec::new();
        };
        let open = place.open.map(|(by, from)| Throttling { by, from, to: piece.to });
        let recent = place.past.iter().rev().take_while(|past| past.to > piece.from).copied();
        open.into_iter().chain(recent).filter(|interval| interval.from < piece.to).collect()
    }

    fn throttle(&mut self, group: GroupId, cpu: CpuId, at: Instant) {
        for below in self.subtree(group) {
            let place = self.places.entry((below, cpu)).or_default();
            place.throttled += 1;
            place.open.get_or_insert((group, at));
            if place.queued > 0 && !self.parks {
                place.since.get_or_insert(at);
            }
        }
    }

    fn park(&mut self, task: TaskId, cpu: CpuId, at: Instant) {
        let mut next = self.of(task);
        while let Some(group) = next {
            if let Some(place) = self.places.get_mut(&(group, cpu)).filter(|place| place.throttled > 0) {
                place.since.get_or_insert(at);
            }
            next = self.groups.get(&group).and_then(|sums| sums.parent);
        }
    }

    fn unthrottle(&mut self, group: GroupId, cpu: CpuId, at: Instant) {
        for group in self.subtree(group) {
            let place = self.places.entry((group, cpu)).or_default();
            place.throttled = place.throttled.saturating_sub(1);
            if place.throttled == 0
                && let Some((by, from)) = place.open.take()
            {
                if place.past.len() == PAST_KEPT {
                    place.past.pop_front();
                }
                place.past.push_back(Throttling { by, from, to: at });
            }
            if place.throttled == 0
                && let Some(since) = place.since.take()
                && let Some(sums) = self.groups.get_mut(&group)
            {
                sums.local = sums.local.saturating_add(at.since(since));
            }
        }
    }

    /// Returns a group and all groups below it.
    fn subtree(&self, group: GroupId) -> Vec<GroupId> {
        let mut found = vec![group];
        let mut at = 0;
        while let Some(group) = found.get(at) {
            found.extend(self.groups.get(group).into_iter().flat_map(|sums| &sums.children));
            at += 1;
        }
        found
    }

    /// Ends the trace; returns the figures in order of id. `ends` are the tasks, and when each
    /// ended; `pressure` is that of a group; `knows_modes` says whether the trace has all system
    /// calls and interrupts.
    pub(crate) fn finish(
        self,
        knows_modes: bool,
        start: Instant,
        ends: impl Iterator<Item = (TaskId, Option<Instant>)>,
        pressure: impl Fn(GroupId) -> Option<PressureSummary>,
    ) -> Vec<GroupSummary> {
        // The last end in each group; `None` if a task of it has not ended.
        let mut last: BTreeMap<GroupId, Option<Instant>> = BTreeMap::new();
        for (task, end) in ends {
            let parent = |group: &GroupId| self.groups.get(group).and_then(|sums| sums.parent);
            for group in std::iter::successors(self.of(task), parent) {
                let last = last.entry(group).or_insert(end);
                *last = last.zip(end).map(|(last, end)| last.max(end));
            }
        }
        let summary = |(group, sums): (GroupId, GroupTotals)| GroupSummary {
            group,
            path: sums.path,
            max: sums.max,
            usage: sums.usage,
            modes: knows_modes.then_some(sums.modes),
            stat: sums.stat.unwrap_or_default(),
            local_throttled: sums.local,
            rt_throttled: sums.rt,
            pressure: pressure(group),
            end: last.get(&group).copied().flatten().map(|end| end.since(start)),
        };
        self.groups.into_iter().map(summary).collect()
    }
}

/// The number of intervals that are kept of each group and CPU: a wait longer than these is rare.
const PAST_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use zerolag_trace::script::Script;

    const GROUP: GroupId = GroupId(1);
    const BELOW: GroupId = GroupId(2);

    #[test]
    fn a_group_uses_what_all_below_it_use_and_waits_with_them() {
        let mut script = Script::new(1);
        let new = |group, parent, path: &str| TraceEvent::GroupNew { group, parent, path: path.into() };
        script.event(0, 0, new(GROUP, GroupId::ROOT, "/web")).event(0, 0, new(BELOW, GROUP, "/web/api"));
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: BELOW });
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        // 4 ms in the group below, 2 ms in the group itself, after a move while it runs.
        script.event(4_000, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        script.event(6_000, 0, TraceEvent::Throttle { group: GROUP }).preempt(6_000, 0, a, b);
        script.event(10_000, 0, TraceEvent::Unthrottle { group: GROUP }).preempt(10_000, 0, b, a);
        let stat =
            CpuStat { nr_periods: 2, nr_throttled: 1, throttled: Duration::from_millis(4), ..CpuStat::default() };
        script.event(11_000, 0, TraceEvent::GroupTotals { group: GROUP, stat });
        let summary = Metrics::of(&script.end(11_000));
        let [web, api] = &summary.groups[..] else { panic!("two groups: {:?}", summary.groups) };
        assert_eq!((&*web.path, web.usage), ("/web", Duration::from_millis(7)));
        assert_eq!((&*api.path, api.usage), ("/web/api", Duration::from_millis(4)));
        assert_eq!((web.stat, web.local_throttled), (stat, Duration::from_millis(4)));
        assert_eq!(api.local_throttled, Duration::ZERO, "nothing of it was on the run queue");
    }

    #[test]
    fn time_divides_by_mode_and_nice_level() {
        use zerolag_model::{FairPolicy, Nice, SchedAttr};
        let mut script = Script::new(1);
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/web".into() });
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP }).wake(0, 0, a).run(0, 0, None, Some(a));
        // 3 ms in user mode, 2 in a system call until it is preempted there, 1 more of it later;
        // then 2 ms in user mode, and 4 with nice 5.
        script.event(3_000, 0, TraceEvent::Syscall { task: a, enters: true }).preempt(5_000, 0, a, b);
        script.preempt(7_000, 0, b, a).event(8_000, 0, TraceEvent::Syscall { task: a, enters: false });
        let nice = Nice::new(5).expect("a nice level");
        let attr = SchedAttr::Fair { policy: FairPolicy::Other, nice, slice: None };
        script.event(10_000, 0, TraceEvent::AttrChange { task: a, attr });
        let summary = Metrics::of(&script.end(14_000));
        let [user, system, nice] = [9, 3, 4].map(Duration::from_millis);
        assert_eq!(summary.groups[0].modes, Some(ModeTimes { user, system, nice }));
        assert_eq!(summary.groups[0].usage, user + system);
    }

    #[test]
    fn a_group_ends_with_the_last_task_of_all_below_it() {
        let mut script = Script::new(1);
        let new = |group, parent, path: &str| TraceEvent::GroupNew { group, parent, path: path.into() };
        script.event(0, 0, new(GROUP, GroupId::ROOT, "/web")).event(0, 0, new(BELOW, GROUP, "/web/api"));
        let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
        for (task, group) in [(a, GROUP), (b, BELOW), (c, BELOW)] {
            script.event(0, 0, TraceEvent::GroupChange { task, group }).wake(0, 0, task);
        }
        script.run(0, 0, None, Some(b)).exit(2_000, 0, b, Some(c)).exit(3_000, 0, c, Some(a));
        let ends = |summary: &crate::summary::Summary| [0, 1].map(|at| summary.groups[at].end);
        assert_eq!(ends(&Metrics::of(&script.clone().end(9_000))), [None, Some(Duration::from_millis(3))]);
        script.exit(5_000, 0, a, None);
        let summary = Metrics::of(&script.end(9_000));
        assert_eq!(ends(&summary), [5, 3].map(|ms| Some(Duration::from_millis(ms))));
        assert_eq!(summary.tasks[0].end, Some(Duration::from_millis(5)));
    }

    #[test]
    fn the_time_of_real_time_throttling_is_added_up_over_cpus() {
        let mut script = Script::new(2);
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/rt".into() });
        let throttled = |throttled| TraceEvent::RtGroupThrottle { group: GROUP, throttled };
        script.event(1_000, 0, throttled(true)).event(2_000, 1, throttled(true));
        script.event(4_000, 0, throttled(false)).event(7_000, 1, throttled(false));
        let summary = Metrics::of(&script.end(9_000));
        assert_eq!(summary.groups[0].rt_throttled, Duration::from_millis(8));
    }

    #[test]
    fn circles_of_groups_are_cut() {
        let mut script = Script::new(1);
        for (group, parent) in [(GROUP, GROUP), (BELOW, GROUP), (GROUP, BELOW), (BELOW, GROUP), (BELOW, BELOW)] {
            script.event(0, 0, TraceEvent::GroupNew { group, parent, path: "/g".into() });
        }
        let a = script.fair("a");
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: BELOW });
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        script.event(1_000, 0, TraceEvent::Throttle { group: GROUP });
        assert_eq!(Metrics::of(&script.end(9_000)).groups.len(), 2);
    }

    #[test]
    fn where_tasks_are_parked_the_local_clock_starts_with_the_first() {
        let mut script = Script::new(1);
        let new = |group, parent, path: &str| TraceEvent::GroupNew { group, parent, path: path.into() };
        script.event(0, 0, new(GROUP, GroupId::ROOT, "/web")).event(0, 0, new(BELOW, GROUP, "/web/api"));
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: BELOW });
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        // Another task preempts it; it is parked once it has been picked again.
        script.event(4_000, 0, TraceEvent::Throttle { group: GROUP }).preempt(4_000, 0, a, b).preempt(7_000, 0, b, a);
        script.event(7_000, 0, TraceEvent::TaskThrottle { task: a, throttled: true }).preempt(7_000, 0, a, b);
        script.event(9_000, 0, TraceEvent::Unthrottle { group: GROUP });
        let mut trace = script.end(9_000);
        trace.meta.settings.push(("throttle".to_owned(), "at_user_return".to_owned()));
        let summary = Metrics::of(&trace);
        let local = [0, 1].map(|at| summary.groups[at].local_throttled);
        assert_eq!(local, [Duration::from_millis(2); 2]);
    }

    #[test]
    fn the_local_clock_starts_with_the_first_task_that_comes() {
        let mut script = Script::new(1);
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/g".into() });
        let a = script.fair("a");
        script.event(0, 0, TraceEvent::GroupChange { task: a, group: GROUP });
        script.event(1_000, 0, TraceEvent::Throttle { group: GROUP });
        script.wake(3_000, 0, a);
        script.event(9_000, 0, TraceEvent::Unthrottle { group: GROUP });
        let summary = Metrics::of(&script.end(9_000));
        assert_eq!(summary.groups[0].local_throttled, Duration::from_millis(6));
    }
}
