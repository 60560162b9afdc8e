//! Why tasks waited: each wait as a chain of causes, with times that add up to it exactly.
//!
//! A task *waits* from the moment at which it wants to get on and does not: it is woken, loses its CPU, or blocks on a lock; until
//! it runs. At every instant of it a [`Chain`] of [`Cause`]s says why: what the task itself is kept by; if that is a lock,
//! what its holder is kept by; and so on. The instants of one chain are summed, and since a wait has one chain at each
//! instant, the sums are the wait.
//!
//! Judged from records alone. A recorded kernel does not say which lock a task waits for (its trace has no such event), so
//! its waits are those for a CPU, which are explained in the same way.
//!
//! Complexity: O(tasks that wait x length of their chains) per record.

use crate::human::Human;
use core::fmt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag_model::{
    ClassId, CpuId, Duration, GroupId, Instant, MigrateReason, PrevState, Record, ServerState, TaskId, TraceEvent,
};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{Current, Replay, TaskState};
use zerolag_trace::{Meta, Trace};

/// What keeps a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// It is queued where another task runs.
    Behind {
        /// Where.
        cpu: CpuId,
        /// Who runs.
        task: TaskId,
        /// Whether it may run nowhere else.
        bound: bool,
    },
    /// It is fair and queued behind a real-time task, and the fair server of the CPU waits until it must come.
    ServerDefers {
        /// Where.
        cpu: CpuId,
        /// Who runs.
        task: TaskId,
        /// The latest time at which the server comes.
        until: Instant,
    },
    /// It is queued where nobody runs: the CPU switches.
    Switch {
        /// Where.
        cpu: CpuId,
    },
    /// It is queued where nobody runs, or has just been switched to, and the CPU serves an interrupt.
    Interrupt {
        /// Where.
        cpu: CpuId,
    },
    /// It is queued on a CPU that idles, in a trace that does not say what keeps it: a limit of its group, or that the CPU comes late.
    KeptOff {
        /// Where.
        cpu: CpuId,
    },
    /// It has been moved to a CPU where nobody runs, which switches.
    Moved {
        /// Where to.
        cpu: CpuId,
    },
    /// Its group, or one above, has no quota left on its CPU.
    Throttled {
        /// Whose limit.
        group: GroupId,
        /// Where.
        cpu: CpuId,
        /// Since when.
        since: Instant,
    },
    /// Real-time tasks have used up their share of the period on its CPU.
    RtThrottled {
        /// Where.
        cpu: CpuId,
    },
    /// It has used up its deadline budget.
    Budget {
        /// When it gets the next.
        until: Instant,
    },
    /// It is blocked on a lock.
    Lock {
        /// Which.
        lock: u32,
        /// Who has it; what keeps that task follows. Nobody: a device, or one that has just been given it.
        holder: Option<TaskId>,
    },
    /// It runs: the end of a chain of holders.
    Runs {
        /// Where.
        cpu: CpuId,
        /// Whether interrupts have the CPU.
        irq: bool,
    },
    /// It sleeps by itself: for a time, or for a device.
    Sleeps,
    /// It was woken and is on its way to a run queue.
    Waking,
    /// The tasks wait for each other in a circle.
    Circle,
    /// The trace does not say.
    Unknown,
}

/// Causes, from the task that waits outwards.
pub type Chain = Vec<Cause>;

/// The most steps of a wait that are kept.
const STEPS_MAX: usize = 10_000;
/// The longest chain that is followed.
const CHAIN_MAX: usize = 32;

/// A wait and its causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// Who waited.
    pub task: TaskId,
    /// From when.
    pub from: Instant,
    /// Until it ran, or the trace ended.
    pub to: Instant,
    /// Why, and for how long in all: the longest first. The times add up to the wait.
    pub causes: Vec<(Chain, Duration)>,
    /// The same in order of time: what began when. Of a wait with very many only the first are kept.
    pub steps: Vec<(Instant, Chain)>,
}

impl Explained {
    /// Returns how long it was.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The longest waits, the longest first.
    pub waits: Vec<Explained>,
    /// Over all waits of the tasks that were asked for: what each kind of chain took, by its text.
    pub totals: BTreeMap<String, Duration>,
    /// How many waits there were.
    pub count: u64,
    names: Names,
}

/// What to explain.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many of the longest waits are kept.
    pub worst: usize,
    /// Tasks whose name begins so; `None` is all.
    pub task: Option<String>,
}

/// Names of tasks and groups.
#[derive(Clone, Debug, Default)]
struct Names {
    tasks: BTreeMap<TaskId, Arc<str>>,
    groups: BTreeMap<GroupId, Arc<str>>,
}

/// A wait that is under way.
#[derive(Debug)]
struct Open {
    from: Instant,
    chain: Chain,
    chain_since: Instant,
    parts: BTreeMap<Chain, Duration>,
    steps: Vec<(Instant, Chain)>,
}

/// Follows records and explains waits.
#[derive(Debug)]
pub struct Explainer {
    replay: Replay,
    /// Whether the trace says all that happened.
    is_complete: bool,
    groups: Groups,
    throttled_since: BTreeMap<(GroupId, CpuId), Instant>,
    budget_until: BTreeMap<TaskId, Instant>,
    holders: BTreeMap<u32, Vec<TaskId>>,
    wanted: BTreeMap<TaskId, u32>,
    /// Tasks that were moved since they last ran.
    moved: BTreeSet<TaskId>,
    open: BTreeMap<TaskId, Open>,
    options: Options,
    found: Explanation,
}

/// Explains the waits of a trace.
#[must_use]
pub fn explain(trace: &Trace, options: Options) -> Explanation {
    let mut explainer = Explainer::new(&trace.meta, options);
    for record in &trace.records {
        explainer.observe(record);
    }
    explainer.finish(trace.meta.end)
}

impl Explainer {
    /// Begins before the first record.
    #[must_use]
    pub fn new(meta: &Meta, options: Options) -> Self {
        Self {
            replay: Replay::new(meta),
            is_complete: meta.source.is_complete(),
            groups: Groups::new(meta.setting("throttle")),
            throttled_since: BTreeMap::new(),
            budget_until: BTreeMap::new(),
            holders: BTreeMap::new(),
            wanted: BTreeMap::new(),
            moved: BTreeSet::new(),
            open: BTreeMap::new(),
            options,
            found: Explanation { waits: Vec::new(), totals: BTreeMap::new(), count: 0, names: Names::default() },
        }
    }

    /// Follows a record.
    pub fn observe(&mut self, record: &Record) {
        self.learn(record);
        self.replay.apply(record);
        self.groups.apply(record);
        match &record.event {
            TraceEvent::Waking { task, .. } | TraceEvent::Wakeup { task, .. } => self.begin(*task, record.at),
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if let Some(next) = next {
                    self.end(*next, record.at);
                }
                if let Some(prev) = prev {
                    let waits = match prev_state {
                        PrevState::Runnable => true,
                        PrevState::Blocked => self.wanted.contains_key(prev),
                        PrevState::Dead | PrevState::Idle => false,
                    };
                    if waits {
                        self.begin(*prev, record.at);
                    }
                }
            }
            TraceEvent::TaskExit { task } => self.end(*task, record.at),
            // Nothing else begins or ends a wait.
            _ => {}
        }
        self.follow(record.at);
    }

    /// Takes from a record what replay and groups do not keep.
    fn learn(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                self.found.names.tasks.insert(*task, Arc::clone(name));
            }
            TraceEvent::GroupNew { group, path, .. } => {
                self.found.names.groups.insert(*group, Arc::clone(path));
            }
            TraceEvent::Throttle { group } => {
                self.throttled_since.insert((*group, record.cpu), record.at);
            }
            TraceEvent::Unthrottle { group } => {
                self.throttled_since.remove(&(*group, record.cpu));
            }
            TraceEvent::DlThrottle { task, until, .. } => {
                self.budget_until.insert(*task, *until);
            }
            TraceEvent::DlReplenish { task, .. } => {
                self.budget_until.remove(task);
            }
            TraceEvent::Migrate { task, reason, .. } if *reason != MigrateReason::Wakeup => {
                self.moved.insert(*task);
            }
            TraceEvent::WaitLock { task, lock, .. } => {
                self.wanted.insert(*task, *lock);
            }
            TraceEvent::TakeLock { task, lock } => {
                if self.wanted.get(task) == Some(lock) {
                    self.wanted.remove(task);
                }
                self.holders.entry(*lock).or_default().push(*task);
            }
            TraceEvent::DropLock { task, lock } => {
                if let Some(holders) = self.holders.get_mut(lock) {
                    holders.retain(|holder| holder != task);
                    if holders.is_empty() {
                        self.holders.remove(lock);
                    }
                }
            }
            // Nothing else is a cause.
            _ => {}
        }
    }

    fn is_asked_for(&self, task: TaskId) -> bool {
        let Some(prefix) = &self.options.task else { return true };
        self.found.names.tasks.get(&task).is_some_and(|name| name.starts_with(&**prefix))
    }

    fn begin(&mut self, task: TaskId, at: Instant) {
        if self.open.contains_key(&task) || !self.is_asked_for(task) {
            return;
        }
        if matches!(self.replay.task(task).map(|view| view.state), Some(TaskState::Running { .. })) {
            return; // A wakeup that only cancelled a sleep.
        }
        let chain = self.chain(task);
        let steps = vec![(at, chain.clone())];
        self.open.insert(task, Open { from: at, chain, chain_since: at, parts: BTreeMap::new(), steps });
    }

    fn end(&mut self, task: TaskId, at: Instant) {
        // Whoever runs wants no lock: a mutex that was lost to another is asked for anew.
        self.wanted.remove(&task);
        self.moved.remove(&task);
        let Some(mut open) = self.open.remove(&task) else { return };
        open.close_part(at);
        self.found.count += 1;
        for (chain, time) in &open.parts {
            let text = self.found.names.kind(chain);
            *self.found.totals.entry(text).or_default() += *time;
        }
        let length = at.since(open.from);
        let kept = &mut self.found.waits;
        let place = kept.partition_point(|other| other.length() >= length);
        if length.is_zero() || place >= self.options.worst {
            return;
        }
        let mut causes: Vec<(Chain, Duration)> = open.parts.into_iter().collect();
        causes.sort_by(|(a, ours), (b, theirs)| theirs.cmp(ours).then_with(|| a.cmp(b)));
        kept.insert(place, Explained { task, from: open.from, to: at, causes, steps: open.steps });
        kept.truncate(self.options.worst);
    }

    /// Lets the waits that are under way follow what has changed.
    fn follow(&mut self, at: Instant) {
        let mut open = core::mem::take(&mut self.open);
        for (task, wait) in &mut open {
            let chain = self.chain(*task);
            if chain != wait.chain {
                wait.close_part(at);
                // What lasted for no time is no step.
                wait.steps.pop_if(|(since, _)| *since == at);
                if wait.steps.len() < STEPS_MAX {
                    wait.steps.push((at, chain.clone()));
                }
                wait.chain = chain;
            }
        }
        self.open = open;
    }

    /// Returns what keeps a task at this moment.
    fn chain(&self, task: TaskId) -> Chain {
        let mut chain = Chain::new();
        let mut seen = vec![task];
        let mut at = task;
        while chain.len() < CHAIN_MAX {
            let cause = self.cause(at);
            let is_holder = at != task;
            chain.push(if is_holder { cause } else { not_running(cause) });
            let Cause::Lock { holder: Some(holder), .. } = cause else { break };
            if seen.contains(&holder) {
                chain.push(Cause::Circle);
                break;
            }
            seen.push(holder);
            at = holder;
        }
        chain
    }

    fn cause(&self, task: TaskId) -> Cause {
        let Some(view) = self.replay.task(task) else { return Cause::Unknown };
        match view.state {
            TaskState::Unknown => Cause::Unknown,
            TaskState::Running { on, .. } => Cause::Runs { cpu: on, irq: self.replay.cpu(on).irq_depth > 0 },
            TaskState::Waking { .. } => Cause::Waking,
            TaskState::Blocked => match self.wanted.get(&task) {
                Some(lock) => {
                    let holder = self.holders.get(lock).and_then(|holders| holders.first().copied());
                    Cause::Lock { lock: *lock, holder }
                }
                None if self.open.contains_key(&task) => Cause::Waking,
                None => Cause::Sleeps,
            },
            TaskState::Dead => Cause::Unknown,
            TaskState::Queued { .. } => {
                let Some(cpu) = view.rq else { return Cause::Unknown };
                if let Some(until) = self.budget_until.get(&task) {
                    return Cause::Budget { until: *until };
                }
                if let Some(group) = self.groups.throttled_on(task, cpu) {
                    let since = self.throttled_since.get(&(group, cpu)).copied().unwrap_or(Instant::ZERO);
                    return Cause::Throttled { group, cpu, since };
                }
                let place = self.replay.cpu(cpu);
                if view.prio.is_rt() && place.is_rt_throttled {
                    return Cause::RtThrottled { cpu };
                }
                let server = place.fair_server.filter(|_| view.prio.class() == ClassId::Fair);
                let bound = view.affinity.as_ref().is_some_and(|cpus| cpus.first() == cpus.last());
                match place.current {
                    Current::Task(running) => match server {
                        Some(ServerState::Deferred { until }) if self.is_rt(running) => {
                            Cause::ServerDefers { cpu, task: running, until }
                        }
                        _ => Cause::Behind { cpu, task: running, bound },
                    },
                    Current::Idle if !self.is_complete => Cause::KeptOff { cpu },
                    Current::Idle if place.irq_depth > 0 => Cause::Interrupt { cpu },
                    Current::Idle if self.moved.contains(&task) => Cause::Moved { cpu },
                    Current::Idle => Cause::Switch { cpu },
                    Current::Unknown => Cause::Unknown,
                }
            }
        }
    }

    fn is_rt(&self, task: TaskId) -> bool {
        self.replay.task(task).is_some_and(|view| view.prio.class() == ClassId::Rt)
    }

    /// Ends the trace: waits that are under way end there.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Explanation {
        let waiting: Vec<TaskId> = self.open.keys().copied().collect();
        for task in waiting {
            self.end(task, end);
        }
        self.found
    }
}

/// A task that has just been switched to no longer waits: that is no cause.
const fn not_running(cause: Cause) -> Cause {
    match cause {
        Cause::Runs { cpu, irq: true } => Cause::Interrupt { cpu },
        Cause::Runs { cpu, irq: false } => Cause::Switch { cpu },
        other => other,
    }
}

impl Open {
    fn close_part(&mut self, at: Instant) {
        let time = at.since(self.chain_since);
        self.chain_since = at;
        if !time.is_zero() {
            *self.parts.entry(self.chain.clone()).or_default() += time;
        }
    }
}

impl Names {
    fn task(&self, task: TaskId) -> String {
        self.tasks.get(&task).map_or_else(|| format!("task {task}"), ToString::to_string)
    }

    fn group(&self, group: GroupId) -> String {
        self.groups.get(&group).map_or_else(|| format!("group {group}"), ToString::to_string)
    }

    /// Returns a chain as a clause; with its times if `since` is wanted.
    fn text(&self, chain: &[Cause], dated: Dated) -> String {
        let mut out = String::new();
        for (index, cause) in chain.iter().enumerate() {
            let after_holder = index > 0;
            if after_holder {
                out.push_str(", which ");
            }
            let text = match *cause {
                Cause::Behind { cpu, task, bound } => {
                    let bound = if bound { ", bound to it" } else { "" };
                    format!("is queued behind {} on cpu{cpu}{bound}", self.task(task))
                }
                Cause::ServerDefers { cpu, task, until } => {
                    let until = if dated == Dated::Yes { format!(" until {until}") } else { String::new() };
                    format!("is queued behind {} on cpu{cpu}, where the fair server defers{until}", self.task(task))
                }
                Cause::Switch { cpu } => format!("is being switched to on cpu{cpu}"),
                Cause::Interrupt { cpu } => format!("is kept by an interrupt on cpu{cpu}"),
                Cause::KeptOff { cpu } => {
                    format!("is queued on cpu{cpu}, which idles: kept off by a limit, or not served yet")
                }
                Cause::Moved { cpu } => format!("has been moved to cpu{cpu}, which is switching to it"),
                Cause::Throttled { group, cpu, since } => match dated {
                    Dated::Yes => format!("is throttled in {} on cpu{cpu} since {since}", self.group(group)),
                    Dated::No => format!("is throttled in {} on cpu{cpu}", self.group(group)),
                },
                Cause::RtThrottled { cpu } => format!("is kept by RT throttling on cpu{cpu}"),
                Cause::Budget { until } => match dated {
                    Dated::Yes => format!("has no deadline budget until {until}"),
                    Dated::No => "has no deadline budget".to_owned(),
                },
                Cause::Lock { lock, holder } => {
                    let which = if dated == Dated::Yes { format!("lock {lock},") } else { "a lock".to_owned() };
                    let holder = holder.map_or_else(|| "no task".to_owned(), |holder| self.task(holder));
                    format!("waits for {which} held by {holder}")
                }
                Cause::Runs { cpu, irq: false } => format!("runs on cpu{cpu}"),
                Cause::Runs { cpu, irq: true } => format!("is interrupted on cpu{cpu}"),
                Cause::Sleeps => "sleeps".to_owned(),
                Cause::Waking => "is being woken".to_owned(),
                Cause::Circle => "waits for it: a circle".to_owned(),
                Cause::Unknown => "does what the trace does not say".to_owned(),
            };
            out.push_str(&text);
        }
        out
    }

    fn kind(&self, chain: &[Cause]) -> String {
        self.text(chain, Dated::No)
    }
}

/// Whether a clause says since when, and which lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dated {
    Yes,
    No,
}

impl Explanation {
    /// Returns the name of a task.
    #[must_use]
    pub fn name(&self, task: TaskId) -> String {
        self.names.task(task)
    }

    /// Returns a chain as a clause: "waits for lock 0, held by a-0, which is throttled in /a on cpu0 since ...".
    #[must_use]
    pub fn clause(&self, chain: &[Cause]) -> String {
        self.names.text(chain, Dated::Yes)
    }

    /// Returns everything as JSON, schema `zerolag.explain.v1`: times in nanoseconds.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let waits: Vec<serde_json::Value> = self
            .waits
            .iter()
            .map(|wait| {
                let causes: Vec<serde_json::Value> = wait
                    .causes
                    .iter()
                    .map(|(chain, time)| {
                        let links: Vec<String> = chain.iter().map(|cause| format!("{cause:?}")).collect();
                        serde_json::json!({ "ns": time.as_nanos(), "says": self.clause(chain), "chain": links })
                    })
                    .collect();
                serde_json::json!({
                    "task": self.name(wait.task),
                    "from_ns": wait.from.as_nanos(),
                    "to_ns": wait.to.as_nanos(),
                    "ns": wait.length().as_nanos(),
                    "causes": causes,
                })
            })
            .collect();
        let totals: serde_json::Map<String, serde_json::Value> =
            self.totals.iter().map(|(says, time)| (says.clone(), time.as_nanos().into())).collect();
        serde_json::json!({ "schema": "zerolag.explain.v1", "waits": waits, "count": self.count, "totals_ns": totals })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} waits, the longest {}", self.count, self.waits.len())?;
        for wait in &self.waits {
            writeln!(
                f,
                "\n{} waited {} from {} to {}: it",
                self.name(wait.task),
                Human(wait.length()),
                wait.from,
                wait.to
            )?;
            for (chain, time) in &wait.causes {
                writeln!(f, "{:>10}  {}", Human(*time).to_string(), self.clause(chain))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::two_hogs_and_a_fifo;
    use zerolag_model::ServerKind;
    use zerolag_model::event::Irq;
    use zerolag_trace::script::Script;

    fn all(trace: &Trace) -> Explanation {
        explain(trace, Options { worst: usize::MAX, task: None })
    }

    #[test]
    fn causes_add_up_to_each_wait() {
        let found = all(&two_hogs_and_a_fifo());
        assert!(!found.waits.is_empty());
        for wait in &found.waits {
            let sum: Duration = wait.causes.iter().map(|(_, time)| *time).sum();
            assert_eq!(sum, wait.length(), "{wait:?}");
        }
    }

    /// `a` waits on CPU 0 behind a real-time task while the fair server defers, then while the CPU serves an interrupt; `b` is moved to
    /// CPU 1 and waits for it to switch.
    #[test]
    fn deferral_interrupts_and_moves_are_named() {
        let mut script = Script::new(2);
        let (a, b, rt) = (script.fair("a"), script.fair("b"), script.fifo("rt", 5));
        let until = Instant::from_nanos(40_000);
        let defers = TraceEvent::Server { kind: ServerKind::Fair, state: ServerState::Deferred { until } };
        script.wake(0, 0, rt).run(0, 0, None, Some(rt)).event(0, 0, defers);
        script.wake(1, 0, a).wake(1, 0, b);
        script.migrate(5, b, 0, 1, MigrateReason::Periodic).run(7, 1, None, Some(b));
        script.event(10, 0, TraceEvent::IrqEnter { irq: Irq::Timer });
        script.run(10, 0, Some(rt), None).event(13, 0, TraceEvent::IrqExit { irq: Irq::Timer }).run(
            14,
            0,
            None,
            Some(a),
        );
        let mut trace = script.end(20);
        trace.meta.source = zerolag_trace::Source::Simulation;
        let found = all(&trace);
        let of = |task: TaskId| found.waits.iter().find(|wait| wait.task == task).expect("it waited");
        let us = |wait: &Explained, wanted: fn(&Cause) -> bool| {
            let causes = wait.causes.iter().filter(|(chain, _)| wanted(&chain[0]));
            causes.map(|(_, time)| time.as_nanos() / 1_000).sum::<u64>()
        };
        assert_eq!(us(of(a), |cause| matches!(cause, Cause::ServerDefers { .. })), 9);
        assert_eq!(us(of(a), |cause| matches!(cause, Cause::Interrupt { .. })), 3);
        assert_eq!(us(of(a), |cause| matches!(cause, Cause::Switch { .. })), 1);
        assert_eq!(us(of(b), |cause| matches!(cause, Cause::Moved { .. })), 2);
        let starts: Vec<u64> = of(a).steps.iter().map(|(at, _)| at.as_nanos() / 1_000).collect();
        assert_eq!(starts, [1, 10, 13]);
        let text = found.to_string();
        assert!(text.contains("is queued behind rt on cpu0, where the fair server defers until 0.000040000"), "{text}");
    }

    #[test]
    fn who_is_in_the_way_is_named() {
        let found = all(&two_hogs_and_a_fifo());
        let text = found.to_string();
        assert!(text.contains("is queued behind a on cpu0"), "{text}");
        assert!(found.waits.iter().any(|wait| found.name(wait.task) == "b"), "{text}");
    }
}
