//! `no-task-lost`: a runnable task is on exactly one run queue, and no CPU stays idle while it
//! waits.
//!
//! **Queues.** A migration takes a task from the queue that it is on. A CPU switches only to a task
//! of its own queue. A queued task is not enqueued again (checked only in simulations: a kernel
//! also wakes running tasks).
//!
//! **Idleness.** No CPU is idle for longer than [`Options::idle_bound`](crate::Options) while a
//! task waits that may run there, judged over the time that both have lasted. The exceptions:
//!
//! * In a recorded trace, a task whose affinity is not recorded is not judged.
//! * Real-time tasks have a much stricter rule, `rt-quiescence`. While a deadline server runs a
//!   fair task on their CPU, they wait for it: no kernel pushes a task because a server has
//!   preempted it. No CPU takes them while its own real-time tasks are throttled, or, with
//!   `rt_push_skip_stuck` = off, while a task at least as urgent waits with them and may not run
//!   there: pushes and pulls end at that task.
//! * A real-time task waits on a CPU that was asked to reschedule and is in the kernel, where it is
//!   not preempted (`preempt` = none, voluntary): it runs there next, so no CPU takes it
//!   (`rt-quiescence` judges how long).
//! * A fair task that waits, or waited, behind a real-time or deadline task waits until its CPU
//!   reports how little it leaves to fair tasks. A busy CPU does so once per balancing round of its
//!   widest domain ([`ROUND_PER_CPU`]), which is granted in addition to the bound. Being moved away
//!   ends the wait, and does not change what hid the task until then.
//! * A task of a loaded scheduler (`sched_ext`) is judged on its own CPU only: a preempted one
//!   stays there, whatever idles. Under `sched_ext.policy` other than `fifo` it is not judged: a
//!   policy may let CPUs idle, and its watchdog finds the tasks that it forgets.
//! * Deadline tasks are not judged: a trace does not say which of them wait for their next budget.
//! * A CPU takes only tasks of its own root domain, from the moment at which both are in it.
//! * An isolated CPU (`isolcpus`) neither takes tasks from other CPUs nor gives any away.
//! * The balancer can leave a task where it waits: [`left`] has the reasons, by name. Such a wait
//!   is not judged.
//! * Real-time tasks of a CPU on which a group has used its real-time runtime since they wait
//!   (`rt_group_sched`): a throttled task at the head of the pushable ones ends pushes and pulls.
//!   Nor are tasks judged that the servers of groups run: they move inside their group only.
//! * A task of a group that is throttled on the idle CPU could not run there (`throttled_lb_pair`).
//! * With `proxy_exec` a task that waits for a lock stays queued, where its holder is, and lends
//!   its turn. No CPU can take it, and the balancer counts it: it comes back to that CPU in vain,
//!   while tasks wait on other CPUs. The time in which a task waits for a lock is not judged.
//! * A `nohz_full` CPU that runs an RT task does not tick and so cannot report its reduced
//!   capacity. Other CPUs may therefore leave tasks waiting there, as Linux does.
//!
//! Not excepted: the bug of kernels before 3.17, `fault.cfs_bandwidth_offline_loss`, that of
//! kernels before 3.16, `fault.idle_busy_interval`, and that of kernels before 7.0,
//! `fault.group_move_unnoticed`. A violation on a CPU that is offline names the first, one of less
//! than a round of a busy CPU beside an idle one that ticks the second, and one of a task that was
//! moved to another group on an idle CPU the third. None fails a run.
//!
//! Complexity: O(log n) per record; O(waiting tasks) when a CPU ends an idle time longer than the
//! bound, or when a group is unthrottled; O(CPUs) when a task ends a wait longer than the bound.

mod left;
mod queues;
#[cfg(test)]
mod tests;

use crate::monitor::{Context, Monitor};
use crate::report::{Findings, label};
use queues::{Kind, WaitingQueues};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::settings::{Preempt, RtGroupSched, SchedExtPolicy};
use zerolag_model::{ClassId, CpuId, CpuMask, Distance, Duration, Instant, Prio, Record, TaskId, Topology, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{CpuView, Current, TaskState, TaskView};
use zerolag_trace::{IdTable, Replay};

/// A task that waits for a CPU.
#[derive(Clone, Copy)]
struct WaitingTask {
    /// Since when it may run on its present CPUs.
    since: Instant,
    /// Whether it was moved away from behind a task of a class above.
    was_behind: bool,
    /// The queue that it was moved from: what hid it there did so until then.
    came_from: Option<CpuId>,
    /// It was moved to another group while it waited.
    is_regrouped: bool,
}

/// The longest time between two balancing rounds of a busy CPU, per CPU of the domain: a
/// millisecond, twice that if the last round found nothing, times the busy factor of 16
/// (`get_sd_balance_interval`). Kernels before 5.10 had a factor of 32.
const ROUND_PER_CPU: Duration = Duration::from_millis(32);

const NEXT: &str = "a real-time task runs next on a CPU that is in the kernel, where it is not preempted";

const LENT: &str = "tasks lend their turns: they count where their holder waits, and no CPU can take them";

struct NoTaskLost {
    is_complete: bool,
    /// Whether migrations are recorded: without them the queue of a waiting task is not known.
    has_migrations: bool,
    bound: Duration,
    waiting: BTreeMap<TaskId, WaitingTask>,
    /// The same tasks by the queue that they are on.
    queues: WaitingQueues,
    /// A throttled task does not wait for a CPU.
    groups: Groups,
    /// When real-time tasks of a group were last throttled or unthrottled on each CPU.
    rt_groups_at: IdTable<CpuId, Option<Instant>>,
    isolated: CpuMask,
    nohz_full: CpuMask,
    /// The longest time between two balancing rounds of a busy CPU.
    round: Duration,
    /// Whether a push goes on with the next task if the first has nowhere to go.
    skips_stuck: bool,
    /// A policy has the tasks of `sched_ext`.
    has_policy: bool,
    loses_offline: bool,
    /// Whether an idle CPU is not told of a task that joins another group there.
    moves_unnoticed: bool,
    /// Whether an idle CPU, which ticks, keeps to the interval of a busy one.
    keeps_busy_interval: bool,
    /// Whether a CPU preempts no task in kernel mode.
    has_kernel_sections: bool,
    /// Whether only the periodic balancer moves real-time tasks.
    rt_is_passive: bool,
    /// Whether balancing compares the loads of groups of CPUs (`fair_balance`).
    is_by_load: bool,
    /// Whether tasks are kept under the cache that their process prefers (`llc_balancing`).
    gathers: bool,
    /// Whether a CPU that is alone in its core or cache takes no part in evening out numbers of
    /// tasks.
    lone_takes_none: bool,
    topology: Option<Topology>,
    /// When the last turn of a task above the fair class ended on each CPU.
    above_until: IdTable<CpuId, Instant>,
    /// Of each CPU, the last time in which a fair task was alone behind a class above.
    alone: BTreeMap<CpuId, (Instant, Instant)>,
    /// When a waiting real-time task that may not run everywhere last left the queue of each CPU,
    /// or changed there: the tasks behind it may have been stuck until then.
    stuck_until: IdTable<CpuId, Instant>,
    /// The tasks that lend their turns, and when the last of them stopped; without `proxy_exec`
    /// none does.
    lenders: Option<BTreeSet<TaskId>>,
    lent_until: Instant,
}

pub(super) fn begin(context: &Context<'_>) -> Result<Box<dyn Monitor>, String> {
    let cpus = |key| context.meta.setting(key).and_then(|cpus| cpus.parse().ok()).unwrap_or_default();
    Ok(Box::new(NoTaskLost {
        is_complete: context.meta.source.is_complete(),
        has_migrations: context.meta.source != zerolag_trace::Source::Text,
        bound: context.options.idle_bound,
        waiting: BTreeMap::new(),
        queues: WaitingQueues::default(),
        rt_groups_at: IdTable::default(),
        groups: Groups::new(context.meta.setting("throttle"))
            .with_servers(context.settings().rt_group_sched == RtGroupSched::Hcbs),
        isolated: cpus("isolcpus"),
        nohz_full: context.settings().full_dynticks_cpus(context.meta.machine.nr_cpus()),
        topology: context.topology().cloned(),
        above_until: IdTable::default(),
        alone: BTreeMap::new(),
        stuck_until: IdTable::default(),
        lenders: (context.meta.setting("proxy_exec") == Some("on")).then(BTreeSet::new),
        lent_until: Instant::ZERO,
        is_by_load: context.settings().fair_balance.is_by_load(),
        gathers: context.settings().llc_balancing && context.meta.setting("processes").is_some(),
        lone_takes_none: !context.settings().smt_balance,
        rt_is_passive: context.meta.setting("rt_balance") == Some("passive"),
        skips_stuck: context.meta.setting("rt_push_skip_stuck") == Some("on"),
        has_kernel_sections: matches!(context.settings().preempt, Preempt::None | Preempt::Voluntary),
        has_policy: context.settings().sched_ext_policy != SchedExtPolicy::Fifo
            || context.meta.setting("policy").is_some(),
        loses_offline: context.settings().bandwidth_offline_loss,
        moves_unnoticed: context.settings().group_move_unnoticed,
        keeps_busy_interval: context.settings().idle_busy_interval && !context.settings().nohz,
        round: ROUND_PER_CPU * context.meta.machine.nr_cpus() as u64,
    }))
}

impl Monitor for NoTaskLost {
    fn before(&mut self, before: &Replay, record: &Record, found: &mut Findings) {
        self.has_migrations |= matches!(record.event, TraceEvent::Migrate { .. });
        if let TraceEvent::Switch { next: Some(task), .. }
        | TraceEvent::Migrate { task, .. }
        | TraceEvent::AttrChange { task, .. }
        | TraceEvent::PrioInherit { task, .. }
        | TraceEvent::GroupChange { task, .. }
        | TraceEvent::Affinity { task, .. } = &record.event
        {
            self.head_leaves(before, *task, record.at);
        }
        match &record.event {
            TraceEvent::Wakeup { task, .. } if self.is_complete => {
                if let Some(TaskState::Queued { .. }) = before.task(*task).map(|task| task.state) {
                    found.push(record.at, Some(record.cpu), &[*task], || {
                        let at = queue_of(before, *task);
                        format!(
                            "{} is put on the queue of cpu {} while it is on {at}",
                            label(before, *task),
                            record.cpu
                        )
                    });
                }
            }
            TraceEvent::Migrate { task, from, .. } => {
                let known = before.task(*task).and_then(|task| task.rq);
                let is_left = !self.gives(before, *from);
                let stuck_until = self.stuck_until.get(*from).copied().unwrap_or(Instant::ZERO);
                if let (Some(view), Some(wait)) = (before.task(*task), self.waiting.get_mut(task)) {
                    wait.was_behind |= is_behind(before, view, *from);
                    wait.came_from = Some(*from);
                    // Until now no CPU could take it.
                    if view.prio.is_rt() {
                        wait.since = wait.since.max(stuck_until);
                    }
                    if is_left || view.prio.is_rt() && before.cpu(*from).is_rt_throttled {
                        wait.since = record.at;
                    }
                }
                if known.is_some_and(|known| known != *from) {
                    found.push(record.at, Some(*from), &[*task], || {
                        format!(
                            "{} is moved from cpu {from} while it is on {}",
                            label(before, *task),
                            queue_of(before, *task)
                        )
                    });
                }
            }
            TraceEvent::AttrChange { task, .. } | TraceEvent::PrioInherit { task, .. } => {
                if let Some(TaskState::Running { on, .. }) = before.task(*task).map(|task| task.state) {
                    self.turn_ends(before, on, record.at);
                }
            }
            TraceEvent::Switch { prev, next, .. } => {
                self.turn_ends(before, record.cpu, record.at);
                if let Some(next) = next {
                    judge_queue(before, record, *next, found);
                    self.judge_wait(before, record, *next, found);
                }
                if prev.is_none() {
                    self.judge_idleness(before, record.cpu, record.at, found);
                }
            }
            // No other event moves a task between queues.
            _ => {}
        }
    }

    fn after(&mut self, after: &Replay, record: &Record) {
        self.groups.apply(record);
        if let Some(lenders) = &mut self.lenders {
            let ends = match record.event {
                TraceEvent::WaitLock { task, .. } => {
                    lenders.insert(task);
                    false
                }
                TraceEvent::TakeLock { task, .. } | TraceEvent::TaskExit { task, .. } => lenders.remove(&task),
                // No other event begins or ends a wait for a lock.
                _ => false,
            };
            if ends {
                self.lent_until = record.at;
            }
        }
        match &record.event {
            // Tasks that were throttled until now wait from now on.
            TraceEvent::Unthrottle { group } => {
                let groups = &self.groups;
                let freed =
                    self.waiting.iter_mut().filter(|(task, _)| groups.path(**task).any(|above| above == *group));
                freed.for_each(|(_, wait)| wait.since = record.at);
            }
            TraceEvent::TaskThrottle { task, throttled: false } => {
                if let Some(wait) = self.waiting.get_mut(task) {
                    wait.since = record.at;
                }
            }
            TraceEvent::Migrate { task, from, .. } if self.groups.throttled_on(*task, *from).is_some() => {
                if let Some(wait) = self.waiting.get_mut(task) {
                    wait.since = record.at;
                }
            }
            // A throttled task of another class does not wait; as a fair task it does.
            TraceEvent::Affinity { task, .. }
            | TraceEvent::GroupChange { task, .. }
            | TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. } => {
                if let Some(wait) = self.waiting.get_mut(task) {
                    wait.since = record.at;
                    wait.is_regrouped |= matches!(record.event, TraceEvent::GroupChange { .. });
                }
            }
            TraceEvent::Wakeup { task, .. } => self.follow(after, *task),
            TraceEvent::Switch { prev, next, .. } => {
                for task in [prev, next].into_iter().flatten() {
                    self.follow(after, *task);
                }
            }
            // Tasks here, and those that could come here, wait for other CPUs than before. A CPU
            // that goes online changes the groups of CPUs that the balancer compares, and tasks
            // that were lost there can run again.
            TraceEvent::RootDomain { .. } | TraceEvent::Hotplug { online: true } => {
                self.waiting.values_mut().for_each(|wait| wait.since = record.at);
            }
            // So do the real-time tasks that waited for the end of throttling, or of a server.
            TraceEvent::RtThrottle { throttled: false } | TraceEvent::Server { .. } => {
                for (task, _) in self.queues.on(after, record.cpu, Kind::Rt) {
                    if let Some(wait) = self.waiting.get_mut(&task) {
                        wait.since = record.at;
                    }
                }
            }
            TraceEvent::RtGroupThrottle { .. } => *self.rt_groups_at.entry(record.cpu) = Some(record.at),
            // No other event begins or ends a wait on a queue.
            _ => {}
        }
        self.requeue(after, record);
    }

    fn finish(&mut self, last: &Replay, end: Instant, found: &mut Findings) -> crate::Outcome {
        for (cpu, view) in last.cpus() {
            if idle_since(view).is_some() {
                self.judge_idleness(last, cpu, end, found);
            }
        }
        if !self.has_migrations && found.total() > 0 {
            return crate::Outcome::NothingToJudge("no migration was recorded");
        }
        crate::Outcome::Judged
    }
}

impl NoTaskLost {
    /// Whether a group has used its real-time runtime on a CPU since some time, or has now.
    fn has_stopped_since(&self, cpu: CpuId, since: Instant) -> bool {
        let last = self.rt_groups_at.get(cpu).copied().flatten();
        last.is_some_and(|at| at >= since) || self.groups.has_rt_throttled(cpu)
    }

    fn follow(&mut self, after: &Replay, task: TaskId) {
        match after.task(task).map(|task| task.state) {
            Some(TaskState::Queued { since, .. }) => {
                self.waiting.entry(task).or_insert(WaitingTask {
                    since,
                    was_behind: false,
                    came_from: None,
                    is_regrouped: false,
                });
            }
            None
            | Some(
                TaskState::Unknown
                | TaskState::Blocked
                | TaskState::Waking { .. }
                | TaskState::Running { .. }
                | TaskState::Dead,
            ) => {
                self.waiting.remove(&task);
            }
        }
    }

    /// Keeps the waiting tasks by queue: after each event that can change the state, the queue or
    /// the priority of a task.
    fn requeue(&mut self, after: &Replay, record: &Record) {
        let tasks = match &record.event {
            TraceEvent::Switch { prev, next, .. } => [*prev, *next],
            TraceEvent::TaskNew { task, .. }
            | TraceEvent::Waking { task, .. }
            | TraceEvent::Wakeup { task, .. }
            | TraceEvent::Migrate { task, .. }
            | TraceEvent::AttrChange { task, .. }
            | TraceEvent::PrioInherit { task, .. }
            | TraceEvent::Proxy { task, .. } => [Some(*task), None],
            // No other event does.
            _ => return,
        };
        for task in tasks.into_iter().flatten() {
            self.queues.update(after, task, self.waiting.contains_key(&task));
        }
    }

    /// A CPU stops being idle, or the trace ends: finds the tasks that waited meanwhile.
    fn judge_idleness(&self, before: &Replay, cpu: CpuId, at: Instant, found: &mut Findings) {
        let view = before.cpu(cpu);
        let Some(since) = idle_since(view).filter(|since| at.since(*since) >= self.bound) else { return };
        for (task, wait) in &self.waiting {
            self.judge_pair(before, (cpu, since), (*task, *wait), at, found);
        }
    }

    /// A task stops waiting: finds the other CPUs that were idle meanwhile.
    fn judge_wait(&self, before: &Replay, record: &Record, task: TaskId, found: &mut Findings) {
        let Some(wait) = self.waiting.get(&task).filter(|wait| record.at.since(wait.since) >= self.bound) else {
            return;
        };
        let idle = before.cpus().filter_map(|(cpu, view)| Some((cpu, idle_since(view)?)));
        for (cpu, idle) in idle.filter(|(cpu, _)| *cpu != record.cpu) {
            self.judge_pair(before, (cpu, idle), (task, *wait), record.at, found);
        }
    }

    /// Returns whether a real-time task waits behind one that may not run on an idle CPU, and
    /// pushes end there.
    fn is_behind_stuck(&self, before: &Replay, view: &TaskView, cpu: CpuId) -> bool {
        let is_stuck = |other: &TaskView| !view.prio.beats(other.prio) && !other.may_run_on(cpu);
        let mut there = view.rq.into_iter().flat_map(|rq| self.queues.on(before, rq, Kind::Rt));
        !self.skips_stuck && there.any(|(_, other)| is_stuck(other))
    }

    /// Notes that a task above the fair class leaves a CPU, or this class.
    fn turn_ends(&mut self, before: &Replay, cpu: CpuId, at: Instant) {
        if before.running_prio(cpu).is_some_and(is_above) {
            *self.above_until.entry(cpu) = at;
            if let Some(from) = self.is_alone_from(before, cpu) {
                self.alone.insert(cpu, (from, at));
            }
        }
    }

    /// Notes that a waiting task which may have stopped pushes leaves its queue, or changes there.
    fn head_leaves(&mut self, before: &Replay, task: TaskId, at: Instant) {
        if let Some(view) = before.task(task).filter(|view| view.prio.is_rt() && view.affinity.is_some())
            && let (Some(rq), TaskState::Queued { .. }, false) = (view.rq, view.state, self.skips_stuck)
        {
            *self.stuck_until.entry(rq) = at;
        }
    }

    /// Returns since when a CPU could see or take a task that waits, or waited, elsewhere, if that
    /// is known to have been impossible before.
    fn hidden_until(
        &self,
        before: &Replay,
        view: &TaskView,
        wait: WaitingTask,
        (cpu, at): (CpuId, Instant),
    ) -> Option<Instant> {
        let rq = view.rq?;
        if view.prio.is_rt() {
            return self.stuck_until.get(rq).copied();
        }
        if view.prio.class() != ClassId::Fair {
            return None;
        }
        let takes_late = |from: CpuId| {
            self.is_by_load
                || self.topology.as_ref().is_some_and(|topology| topology.capacity(cpu) < topology.capacity(from))
        };
        let hides = |rq: CpuId| {
            let is_far = self.topology.as_ref().is_some_and(|topology| topology.distance(rq, cpu) > Distance::Llc);
            let cannot_see = is_far || self.nohz_full.contains(rq) || takes_late(rq);
            self.above_until.get(rq).copied().filter(|_| cannot_see)
        };
        // A weaker CPU takes a task although the class above goes on, once that leaves little; so
        // does any CPU that compares loads.
        let goes_on = |from: &CpuId| takes_late(*from) && before.running_prio(*from).is_some_and(is_above);
        let is_far =
            |from: &CpuId| self.topology.as_ref().is_some_and(|topology| topology.distance(*from, cpu) > Distance::Llc);
        // So does one under another cache, once its process does not prefer the one any more.
        let taken = wait.came_from.filter(|from| goes_on(from) || self.gathers && is_far(from)).map(|_| at);
        [Some(rq), wait.came_from].into_iter().flatten().filter_map(hides).max().max(taken)
    }

    /// Returns whether other CPUs know of the tasks that wait on this one, and take them.
    fn gives(&self, before: &Replay, rq: CpuId) -> bool {
        let is_stale = self.nohz_full.contains(rq) && runs_rt(before, rq);
        !self.isolated.contains(rq) && !is_stale
    }

    fn judge_pair(
        &self,
        before: &Replay,
        (cpu, idle_since): (CpuId, Instant),
        (task, wait): (TaskId, WaitingTask),
        at: Instant,
        found: &mut Findings,
    ) {
        let Some(view) = before.task(task) else { return };
        // First what costs nothing: tasks that are bound to a busy CPU wait there by the hundred.
        if !view.may_run_on(cpu) || !(self.is_complete || view.affinity.is_some()) {
            return;
        }
        let hidden_until = self.hidden_until(before, view, wait, (cpu, at)).unwrap_or(Instant::ZERO);
        let hidden_until = hidden_until.max(self.misled_until(view, (cpu, idle_since.max(wait.since))));
        let both = at.since(idle_since.max(wait.since).max(hidden_until));
        let is_loaded = view.prio.class() == ClassId::Ext;
        if is_loaded && (self.has_policy || view.rq.is_some_and(|rq| rq != cpu)) {
            return;
        }
        let is_rt_throttled = view.prio.is_rt()
            && view.rq.is_some_and(|rq| before.cpu(rq).is_rt_throttled || self.has_stopped_since(rq, wait.since));
        let is_throttled = view.rq.is_some_and(|rq| self.groups.throttled_on(task, rq).is_some());
        let may_be_throttled = view.prio == Prio::DEADLINE || is_rt_throttled || is_throttled;
        let shares_domain = |rq: CpuId| before.cpu(rq).root_domain == before.cpu(cpu).root_domain;
        let is_balanced =
            !self.isolated.contains(cpu) && view.rq.is_none_or(|rq| self.gives(before, rq) && shares_domain(rq));
        let was_above = |rq| self.above_until.get(rq).is_some_and(|until| *until > idle_since.max(wait.since));
        let is_behind = wait.was_behind
            || wait.came_from.is_some_and(was_above)
            || view.rq.is_some_and(|rq| is_behind(before, view, rq) || was_above(rq));
        let is_served_past = view.prio.is_rt() && view.rq.is_some_and(|rq| serves(before, rq));
        // A group's task stays where it waits unless its server asks for it.
        let is_served_past = is_served_past || view.prio.is_rt() && self.groups.server_of(task).is_some();
        let is_stuck = view.prio.is_rt()
            && (before.cpu(cpu).is_rt_throttled
                || self.groups.rt_throttled_on(task, cpu).is_some()
                || self.is_behind_stuck(before, view, cpu));
        let bound = self.bound + if is_behind { self.round } else { Duration::ZERO };
        if is_served_past || is_stuck || both < bound {
            return;
        }
        // An idle CPU throttles no group, so this was so since it became idle.
        let is_throttled_there = self.groups.path(task).any(|group| self.groups.is_throttled(group, cpu));
        let is_barred = view.prio.class() == ClassId::Fair && is_throttled_there;
        if may_be_throttled || !is_balanced || is_barred {
            return;
        }
        let lends = self.lenders.as_ref().is_some_and(|lenders| !lenders.is_empty());
        let both = both.min(if lends { Duration::ZERO } else { at.since(self.lent_until) });
        let lent = (both < bound).then_some(LENT);
        let is_next =
            self.has_kernel_sections && view.prio.is_rt() && view.rq.is_some_and(|rq| is_next_on(before, view, rq));
        let reason = lent.or(is_next.then_some(NEXT));
        if let Some(reason) = reason.or_else(|| self.left_by_balancer(before, (task, view), cpu)) {
            found.skip(reason);
            return;
        }
        let is_offline = view.rq.is_some_and(|rq| before.cpu(rq).online_since().is_none());
        let loses = (self.loses_offline && is_offline).then_some("fault.cfs_bandwidth_offline_loss");
        let is_in_interval = self.keeps_busy_interval && both < bound + self.round;
        let is_unnoticed = self.moves_unnoticed
            && wait.is_regrouped
            && view.rq.is_some_and(|rq| before.cpu(rq).current == Current::Idle);
        let fault = loses.or(is_in_interval.then_some("fault.idle_busy_interval"));
        let fault = fault.or(is_unnoticed.then_some("fault.group_move_unnoticed"));
        found.push_by(fault, at, Some(cpu), &[task], || {
            let at = queue_of(before, task);
            format!("cpu {cpu} is idle for {both} while {} waits on {at} and may run here", label(before, task))
        });
    }
}

/// Returns since when an online CPU has been idle.
fn idle_since(view: CpuView) -> Option<Instant> {
    let online = view.online_since()?;
    (view.current == Current::Idle).then_some(view.since.max(online))
}

fn runs_rt(replay: &Replay, cpu: CpuId) -> bool {
    match replay.cpu(cpu).current {
        Current::Task(task) => replay.task(task).is_some_and(|task| task.prio.is_rt()),
        Current::Idle | Current::Unknown => false,
    }
}

const fn is_above(prio: Prio) -> bool {
    matches!(prio.class(), ClassId::Rt | ClassId::Deadline)
}

/// Returns whether a task is fair and the CPU runs a task of a class above.
fn is_behind(replay: &Replay, task: &TaskView, cpu: CpuId) -> bool {
    task.prio.class() == ClassId::Fair && replay.running_prio(cpu).is_some_and(is_above)
}

/// Returns whether a CPU was asked to reschedule and runs a less urgent task than one that waits
/// there.
fn is_next_on(replay: &Replay, task: &TaskView, cpu: CpuId) -> bool {
    replay.cpu(cpu).need_resched_since.is_some()
        && replay.running_prio(cpu).is_some_and(|running| task.prio.beats(running))
}

/// Returns whether a CPU runs a task of the class of a deadline server while that is queued.
fn serves(replay: &Replay, cpu: CpuId) -> bool {
    let is_served = |prio: Prio| matches!(prio.class(), ClassId::Fair | ClassId::Ext);
    replay.cpu(cpu).has_fair_floor() && replay.running_prio(cpu).is_some_and(is_served)
}

fn judge_queue(before: &Replay, record: &Record, next: TaskId, found: &mut Findings) {
    let Some(view) = before.task(next) else { return };
    let TaskState::Queued { .. } = view.state else { return };
    if view.rq.is_some_and(|rq| rq != record.cpu) {
        found.push(record.at, Some(record.cpu), &[next], || {
            format!("{} runs on cpu {} while it is on {}", label(before, next), record.cpu, queue_of(before, next))
        });
    }
}

fn queue_of(replay: &Replay, task: TaskId) -> String {
    match replay.task(task).and_then(|task| task.rq) {
        Some(cpu) => format!("the queue of cpu {cpu}"),
        None => "no queue".to_owned(),
    }
}
