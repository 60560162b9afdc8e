//! `group-starved`: no group that may run waits many times longer than its weight implies while its
//! CPU runs other fair tasks.
//!
//! On a CPU, a group with a waiting fair task that is not throttled is due its *share*. At each
//! level this is its weight, spread over CPUs by the weights of its tasks and groups (those that
//! sleep have load too, which decays slowly), divided by the weight of everything that is runnable
//! at that level on the CPU. While other tasks have the CPU, the group falls behind by share x
//! time. A scheduler that picks by share lets no group fall behind by more than a turn or two; ten
//! of the longest slices and ticks count as starvation. Time of real-time and deadline tasks is not
//! counted, nor that of a task which was asked to give its CPU up and can be in kernel mode, where
//! `preempt` = none and voluntary let it go on. Shares are computed once a group has waited for ten
//! turns, and from then on at the end of each turn: a heavy task that has left since is no reason
//! to have waited.
//!
//! The rule is meant to find a group that was unthrottled and not enqueued again, or whose queue is
//! lost. An idle CPU next to a waiting task is found by `no-task-lost`.
//!
//! Complexity: O(groups that wait on the CPU) per switch; O(tasks) when one has waited for ten
//! turns.

use crate::monitor::{Context, Monitor, Outcome};
use crate::report::Findings;
use std::collections::BTreeMap;
use zerolag_model::settings::Preempt;
use zerolag_model::{ClassId, CpuId, Duration, GroupId, Instant, Record, SchedAttr, TaskId, TraceEvent};
use zerolag_trace::Replay;
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{TaskState, TaskView};

/// How many turns a group may be behind.
const TURNS: u64 = 10;

/// The bits by which the weight of a task in a group is finer than its own.
const FINER: u32 = 10;

struct GroupStarved {
    groups: Groups,
    /// The longest slice of tasks without a slice of their own, plus a tick.
    turn: Duration,
    /// The queue of each waiting fair task, and per CPU since when each task is queued there.
    waiting: BTreeMap<TaskId, CpuId>,
    queued: BTreeMap<(CpuId, TaskId), Instant>,
    /// For how long other tasks have had the CPU while a group waited there.
    behind: BTreeMap<(CpuId, GroupId), Behind>,
    /// When the task of a CPU last changed its class or its group: its time before that is not fair
    /// time, or was the other group's.
    changed: BTreeMap<CpuId, Instant>,
    has_groups: bool,
    /// Whether a task in kernel mode is not preempted.
    waits_for_kernel: bool,
}

/// What a group has missed on a CPU.
#[derive(Clone, Copy, Default)]
struct Behind {
    /// For how long other tasks have had the CPU.
    time: Duration,
    /// The part of that time that was due to the group.
    due: Duration,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    if !context.meta.source.is_complete() {
        return Err("a recorded trace does not say what its groups weigh".to_owned());
    }
    let time = |key: &str| {
        let said = context.meta.setting(key).unwrap_or_default();
        said.parse::<Duration>().unwrap_or_default()
    };
    let hz: u64 = context.meta.setting("hz").and_then(|text| text.parse().ok()).unwrap_or(250);
    // Scaled by 1 + log2 of at most 8 CPUs, or by 8 at the most.
    let slice = match context.meta.setting("fair") {
        Some("cfs") => time("sched_latency_ns") * 8,
        _ => time("base_slice_ns") * 8,
    };
    Ok(Box::new(GroupStarved {
        groups: Groups::new(context.meta.setting("throttle")),
        turn: slice + Duration::from_nanos(1_000_000_000 / hz.max(1)),
        waiting: BTreeMap::new(),
        queued: BTreeMap::new(),
        behind: BTreeMap::new(),
        changed: BTreeMap::new(),
        has_groups: false,
        waits_for_kernel: matches!(context.settings().preempt, Preempt::None | Preempt::Voluntary),
    }))
}

impl Monitor for GroupStarved {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        match &record.event {
            TraceEvent::GroupNew { .. } => self.has_groups = true,
            TraceEvent::Switch { .. } if self.has_groups => {
                self.charge(before, record, found);
                self.changed.remove(&record.cpu);
            }
            TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::GroupChange { task, .. } => {
                if let Some(TaskState::Running { on, .. }) = before.task(*task).map(|view| view.state) {
                    self.changed.insert(on, record.at);
                }
            }
            // Tasks that were throttled wait from now on.
            TraceEvent::Unthrottle { .. } => {
                let here = self.behind.range((record.cpu, GroupId(0))..=(record.cpu, GroupId(u32::MAX)));
                let here: Vec<(CpuId, GroupId)> = here.map(|(key, _)| *key).collect();
                for key in here {
                    self.behind.remove(&key);
                }
                let here = self.queued.range_mut((record.cpu, TaskId(0))..=(record.cpu, TaskId(u32::MAX)));
                here.for_each(|(_, since)| *since = record.at);
            }
            // No other event ends a turn.
            _ => {}
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.groups.apply(record);
        if !self.has_groups {
            return;
        }
        match &record.event {
            TraceEvent::Wakeup { task, .. } | TraceEvent::Migrate { task, .. } => {
                self.follow(after, *task, record.at);
            }
            // It waited with another weight or for another group.
            TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::GroupChange { task, .. } => {
                self.follow(after, *task, record.at);
                if let Some(cpu) = self.waiting.get(task) {
                    self.queued.insert((*cpu, *task), record.at);
                }
            }
            TraceEvent::Switch { prev, next, .. } => {
                for task in [prev, next].into_iter().flatten() {
                    self.follow(after, *task, record.at);
                }
            }
            // No other event begins or ends a wait.
            _ => {}
        }
    }

    fn finish(&mut self, _: &Replay, _: Instant, _: &mut Findings) -> Outcome {
        if self.has_groups { Outcome::Judged } else { Outcome::NothingToJudge("there are no groups") }
    }
}

impl GroupStarved {
    fn follow(&mut self, after: &Replay, task: TaskId, now: Instant) {
        let queued = after.task(task).filter(|view| is_fair(view)).and_then(|view| match view.state {
            TaskState::Queued { .. } => view.rq,
            TaskState::Unknown
            | TaskState::Blocked
            | TaskState::Waking { .. }
            | TaskState::Running { .. }
            | TaskState::Dead => None,
        });
        let before = match queued {
            Some(cpu) => self.waiting.insert(task, cpu),
            None => self.waiting.remove(&task),
        };
        let since = before.and_then(|cpu| self.queued.remove(&(cpu, task))).filter(|_| before == queued);
        if let Some(cpu) = queued {
            self.queued.insert((cpu, task), since.unwrap_or(now));
        }
    }

    /// A turn ends: every waiting group falls behind by it, the group that ran does not.
    fn charge(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        let view = before.cpu(record.cpu);
        let Some(ran) = view.current.task().filter(|task| before.task(*task).is_some_and(is_fair)) else { return };
        let cpu = record.cpu;
        let changed = self.changed.get(&cpu).copied().unwrap_or(Instant::ZERO);
        let mut wait: BTreeMap<GroupId, Instant> = BTreeMap::new();
        for ((_, task), came) in self.queued.range((cpu, TaskId(0))..=(cpu, TaskId(u32::MAX))) {
            if self.groups.throttled_on(*task, cpu).is_none() {
                for group in self.groups.path(*task) {
                    let since = wait.entry(group).or_insert(*came);
                    *since = (*since).min(*came);
                }
            }
        }
        let served: Vec<GroupId> = self.groups.path(ran).collect();
        let here = self.behind.range((cpu, GroupId(0))..=(cpu, GroupId(u32::MAX))).map(|(key, _)| *key);
        let over: Vec<(CpuId, GroupId)> =
            here.filter(|(_, group)| served.contains(group) || !wait.contains_key(group)).collect();
        for key in over {
            self.behind.remove(&key);
        }
        for (group, since) in wait.into_iter().filter(|(group, _)| !served.contains(group)) {
            let behind = self.behind.entry((cpu, group)).or_default();
            // A task that came in the middle of a long turn has not waited for all of it.
            let from = since.max(view.since).max(changed);
            let turn = view.need_resched_since.filter(|_| self.waits_for_kernel).unwrap_or(record.at).since(from);
            behind.time += turn;
            if behind.time < self.turn * TURNS {
                continue;
            }
            let had = *behind;
            let longest = before.tasks().filter_map(|(_, task)| own_slice(task.attr)).fold(self.turn, Duration::max);
            let (part, whole) = self.share(before, group, cpu, from);
            let due = had.due + turn.mul_div_floor(part, whole);
            let is_starved = due >= longest * TURNS;
            let now = if is_starved { Behind::default() } else { Behind { due, ..had } };
            self.behind.insert((cpu, group), now);
            if is_starved {
                found.push(record.at, Some(cpu), &[], || {
                    format!(
                        "group {group} waits while others run on cpu {cpu} for {}; it was due {due} at least",
                        had.time
                    )
                });
            }
        }
    }

    /// Returns the least share of a CPU that is due to a group there, as a fraction: that of its
    /// tasks which have been there since `from`.
    fn share(&self, before: &Replay, group: GroupId, cpu: CpuId, from: Instant) -> (u64, u64) {
        // A task that sleeps is on no CPU, but its load goes on to count for a while.
        let alive: Vec<(TaskId, Option<CpuId>, u64)> = before
            .tasks()
            .filter(|(_, view)| is_fair(view))
            .filter_map(|(task, view)| match view.state {
                TaskState::Queued { .. } | TaskState::Running { .. } => Some((task, view.rq, weight_of(view.attr))),
                TaskState::Blocked | TaskState::Waking { .. } => Some((task, None, weight_of(view.attr))),
                TaskState::Unknown | TaskState::Dead => None,
            })
            .collect();
        let stayed = |task: TaskId| self.queued.get(&(cpu, task)).is_some_and(|since| *since <= from);
        let (mut part, mut whole) = (1_u64 << 20, 1_u64 << 20);
        let mut at = group;
        while at != GroupId::ROOT {
            let parent = self.groups.parent(at);
            let within = self.within(at, &alive);
            let (mut here, mut all, mut siblings) = (0, 0, 0);
            let mut seen: Vec<GroupId> = Vec::new();
            for (task, there, weight) in &alive {
                if let Some(weight) = within.get(task) {
                    all += weight;
                    here += if *there == Some(cpu) && stayed(*task) { *weight } else { 0 };
                } else if *there == Some(cpu) {
                    let path: Vec<GroupId> = self.groups.path(*task).collect();
                    if parent != GroupId::ROOT && !path.contains(&parent) {
                        continue;
                    }
                    match path.iter().take_while(|above| **above != parent).last() {
                        None => siblings += weight,
                        Some(sibling) if seen.contains(sibling) => {}
                        Some(sibling) => {
                            seen.push(*sibling);
                            siblings += u64::from(self.groups.weight(*sibling));
                        }
                    }
                }
            }
            let own = mul_div(u64::from(self.groups.weight(at)), here, all).max(2);
            part = part * own / (own + siblings);
            whole = whole.max(1);
            at = parent;
        }
        (part.max(1), whole)
    }

    /// Returns what each living task of a group weighs in it: a group below has its own weight, and
    /// spreads it over its tasks by theirs.
    fn within(&self, group: GroupId, alive: &[(TaskId, Option<CpuId>, u64)]) -> BTreeMap<TaskId, u64> {
        let paths = alive.iter().map(|(task, _, weight)| (*task, self.groups.path(*task).collect::<Vec<_>>(), *weight));
        // The place of `group` in a path is the number of levels between it and the task.
        let mut tasks: Vec<(TaskId, Vec<GroupId>, u64)> = paths
            .filter_map(|(task, mut path, weight)| {
                let levels = path.iter().position(|above| *above == group)?;
                path.truncate(levels);
                Some((task, path, weight << FINER))
            })
            .collect();
        let deepest = tasks.iter().map(|(_, path, _)| path.len()).max().unwrap_or(0);
        for level in 0..deepest {
            // Groups of one depth at a time, the deepest first.
            let depth = deepest - level;
            let mut sums: BTreeMap<GroupId, u64> = BTreeMap::new();
            let at = |path: &[GroupId]| path.len().checked_sub(depth).map(|place| path[place]);
            for (_, path, weight) in &tasks {
                if let Some(below) = at(path) {
                    *sums.entry(below).or_default() += weight;
                }
            }
            for (_, path, weight) in &mut tasks {
                if let Some(below) = at(path) {
                    let whole = u64::from(self.groups.weight(below)) << FINER;
                    *weight = mul_div(whole, *weight, sums[&below]);
                }
            }
        }
        tasks.into_iter().map(|(task, _, weight)| (task, weight)).collect()
    }
}

fn is_fair(view: &TaskView) -> bool {
    view.prio.class() == ClassId::Fair
}

/// A trace from elsewhere can name any weights, so products are wide.
fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c.max(1))).unwrap_or(u64::MAX)
}

fn own_slice(attr: SchedAttr) -> Option<Duration> {
    match attr {
        SchedAttr::Fair { slice, .. } => slice,
        SchedAttr::Rt { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. } => None,
    }
}

pub(super) fn weight_of(attr: SchedAttr) -> u64 {
    attr.weight().map_or(1024, u64::from)
}

#[cfg(test)]
mod tests {
    use crate::monitors::tests::{breaks, holds, not_applicable};
    use zerolag_model::{GroupId, TaskId, TraceEvent};
    use zerolag_trace::script::Script;

    const GROUP: GroupId = GroupId(1);

    /// `a` runs next to `b`, whose group has this weight; `a` gets 100 ms at a time.
    fn beside(weight: u32) -> (Script, TaskId, TaskId) {
        let mut script = Script::new(1);
        let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight });
        script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).wake(0, 0, c);
        for turn in 0..10 {
            let (from, to) = if turn % 2 == 0 { (a, c) } else { (c, a) };
            script.preempt(100_000 * (turn + 1), 0, from, to);
        }
        (script, a, b)
    }

    #[test]
    fn a_task_that_comes_at_the_end_of_a_long_turn_has_not_waited_for_it() {
        let mut script = Script::new(1);
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight: 1024 });
        script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(900_000, 0, b).preempt(904_000, 0, a, b);
        holds("group-starved", &script.end(905_000));
    }

    /// `a` was a real-time task for 0.9 s: nothing fair ran, so no group fell behind.
    #[test]
    fn time_of_another_class_is_no_turn() {
        let mut script = Script::new(1);
        let (a, b) = (script.fifo("a", 5), script.fair("b"));
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight: 1024 });
        script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
        let attr = zerolag_model::SchedAttr::NORMAL;
        let fair_from = |us| {
            let mut script = script.clone();
            script.event(us, 0, TraceEvent::AttrChange { task: a, attr });
            script.preempt(904_000, 0, a, b).end(905_000)
        };
        holds("group-starved", &fair_from(900_000));
        let says = "group 1 waits while others run on cpu 0 for 804ms; it was due 402ms at least";
        breaks("group-starved", &fair_from(100_000), says);
    }

    /// A task that waits is moved into a heavy group.
    #[test]
    fn a_group_has_not_waited_before_its_task_came() {
        let moved_at = |us| {
            let mut script = Script::new(1);
            let (a, b) = (script.fair("a"), script.fair("b"));
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight: 10_240 });
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
            script.event(us, 0, TraceEvent::GroupChange { task: b, group: GROUP });
            script.preempt(904_000, 0, a, b).end(905_000)
        };
        holds("group-starved", &moved_at(900_000));
        let says = "group 1 waits while others run on cpu 0 for 804ms; it was due 730908.393us at least";
        breaks("group-starved", &moved_at(100_000), says);
    }

    /// `a` ran in the group of `b` until it was moved out of it: until then the group ran.
    #[test]
    fn a_group_has_not_waited_while_its_own_task_ran() {
        let moved_at = |us| {
            let mut script = Script::new(1);
            let (a, b) = (script.fair("a"), script.fair("b"));
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight: 1024 });
            for task in [a, b] {
                script.event(0, 0, TraceEvent::GroupChange { task, group: GROUP });
            }
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
            script.event(us, 0, TraceEvent::GroupChange { task: a, group: GroupId::ROOT });
            script.preempt(904_000, 0, a, b).end(905_000)
        };
        holds("group-starved", &moved_at(900_000));
        let says = "group 1 waits while others run on cpu 0 for 804ms; it was due 402ms at least";
        breaks("group-starved", &moved_at(100_000), says);
    }

    #[test]
    fn a_group_that_is_never_picked_is_found() {
        let (script, ..) = beside(1024);
        let says = "group 1 waits while others run on cpu 0 for 200ms; it was due 66666.602us at least";
        breaks("group-starved", &script.end(1_001_000), says);
    }

    /// A task that was asked to leave its CPU after 30 ms goes on for 900 ms in the kernel.
    #[test]
    fn a_task_in_the_kernel_is_not_preempted() {
        let mut script = Script::new(1);
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight: 1024 });
        script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
        script.event(30_000, 0, TraceEvent::NeedResched { by: zerolag_model::CpuId(0) });
        let mut judged = script.preempt(930_000, 0, a, b).end(931_000);
        judged.meta.settings.push(("preempt".to_owned(), "none".to_owned()));
        holds("group-starved", &judged);
        let full = judged.meta.settings.iter_mut().find(|(key, _)| key == "preempt").expect("set before");
        "full".clone_into(&mut full.1);
        let says = "group 1 waits while others run on cpu 0 for 930ms; it was due 465ms at least";
        breaks("group-starved", &judged, says);
    }

    /// A heavy task of the group comes at the end of a long turn: the light one had a small share.
    #[test]
    fn a_share_is_that_of_the_tasks_that_were_there() {
        let comes_at = |us: u64| {
            let mut script = Script::new(1);
            let (a, b) = (script.fair("a"), script.fair("b"));
            let idle = zerolag_model::SchedAttr::Fair {
                policy: zerolag_model::FairPolicy::Idle,
                nice: zerolag_model::Nice::ZERO,
                slice: None,
            };
            let light = script.task("light", idle);
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            for task in [b, light] {
                script.event(0, 0, TraceEvent::GroupChange { task, group: GROUP });
            }
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, light).wake(us, 0, b);
            script.preempt(904_000, 0, a, b).end(905_000)
        };
        holds("group-starved", &comes_at(903_000));
        let says = "group 1 waits while others run on cpu 0 for 904ms; it was due 452ms at least";
        breaks("group-starved", &comes_at(0), says);
    }

    /// The group's part on CPU 0 is in a group below it, as heavy as this; a task beside that is on
    /// CPU 1.
    #[test]
    fn a_light_group_below_takes_little_of_its_groups_weight() {
        let below = |weight: u32| {
            let mut script = Script::new(2);
            let (a, b, other) = (script.fair("a"), script.fair("b"), script.fair("other"));
            let inner = GroupId(2);
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            script.event(0, 0, TraceEvent::GroupNew { group: inner, parent: GROUP, path: "/a/b".into() });
            script.event(0, 0, TraceEvent::GroupWeight { group: inner, weight });
            script.event(0, 0, TraceEvent::GroupChange { task: b, group: inner });
            script.event(0, 0, TraceEvent::GroupChange { task: other, group: GROUP });
            script.wake(0, 1, other).run(0, 1, None, Some(other));
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).preempt(904_000, 0, a, b).end(905_000)
        };
        holds("group-starved", &below(3));
        let says = "group 1 waits while others run on cpu 0 for 904ms; it was due 301333.045us at least";
        breaks("group-starved", &below(1024), says);
    }

    #[test]
    fn a_light_group_waits_longer() {
        let (script, ..) = beside(16);
        holds("group-starved", &script.end(1_001_000));
    }

    #[test]
    fn what_is_throttled_does_not_starve() {
        let mut script = Script::new(1);
        let (a, b, c) = (script.fair("a"), script.fair("b"), script.fair("c"));
        script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
        script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
        script.event(0, 0, TraceEvent::Throttle { group: GROUP });
        script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).wake(0, 0, c);
        for turn in 0..10 {
            let (from, to) = if turn % 2 == 0 { (a, c) } else { (c, a) };
            script.preempt(100_000 * (turn + 1), 0, from, to);
        }
        holds("group-starved", &script.end(1_001_000));
    }

    #[test]
    fn without_groups_there_is_nothing_to_judge() {
        let mut script = Script::new(1);
        let a = script.fair("a");
        script.wake(0, 0, a).run(0, 0, None, Some(a));
        not_applicable("group-starved", &script.end(1_000), "there are no groups");
    }

    #[test]
    fn what_was_throttled_waits_from_then_on() {
        let unthrottled_at = |us: u64| {
            let mut script = Script::new(1);
            let (a, b) = (script.fair("a"), script.fair("b"));
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            script.event(0, 0, TraceEvent::GroupWeight { group: GROUP, weight: 1024 });
            script.event(0, 0, TraceEvent::GroupChange { task: b, group: GROUP });
            script.event(0, 0, TraceEvent::Throttle { group: GROUP });
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
            script.event(us, 0, TraceEvent::Unthrottle { group: GROUP }).preempt(904_000, 0, a, b);
            script.end(905_000)
        };
        holds("group-starved", &unthrottled_at(900_000));
        let says = "group 1 waits while others run on cpu 0 for 804ms; it was due 402ms at least";
        breaks("group-starved", &unthrottled_at(100_000), says);
    }

    /// The load of a heavy task that sleeps takes most of the group's weight.
    #[test]
    fn a_group_whose_heavy_task_sleeps_can_wait_longer() {
        let beside = |nice: i64| {
            let mut script = Script::new(2);
            let (a, b) = (script.fair("a"), script.fair("b"));
            let nice = zerolag_model::Nice::new(nice).expect("in range");
            let policy = zerolag_model::FairPolicy::Other;
            let other = script.task("other", zerolag_model::SchedAttr::Fair { policy, nice, slice: None });
            script.event(0, 0, TraceEvent::GroupNew { group: GROUP, parent: GroupId::ROOT, path: "/a".into() });
            for task in [b, other] {
                script.event(0, 0, TraceEvent::GroupChange { task, group: GROUP });
            }
            script.wake(0, 1, other).run(0, 1, None, Some(other)).run(10, 1, Some(other), None);
            script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b).preempt(904_000, 0, a, b).end(905_000)
        };
        holds("group-starved", &beside(-20));
        let says = "group 1 waits while others run on cpu 0 for 904ms; it was due 301333.045us at least";
        breaks("group-starved", &beside(0), says);
    }
}
