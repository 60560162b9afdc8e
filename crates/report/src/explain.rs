//! Explains waits: each wait as chains of causes, whose times add up to it exactly.
//!
//! A tool that samples, or that names only the task which ran meanwhile, cannot explain a wait: the
//! task that ran can be innocent, and the holder of a lock can itself be throttled. So at every
//! instant of a wait there is exactly one [`Chain`] of [`Cause`]s: the cause that keeps the task;
//! if that is a lock, the cause that keeps its holder; and so on. The times of equal chains are
//! summed, and since a wait has one chain at each instant, the sums add up to the wait.
//!
//! A task *waits* from the moment at which it wants to run (it is woken, loses its CPU, or blocks
//! on a lock) until it runs.
//!
//! Explanations use records only. A recorded kernel does not say which lock a task waits for, so
//! its waits are those for a CPU, which are explained in the same way.
//!
//! Complexity: O(waiting tasks x length of their chains) per record.

mod cause;
mod data;
mod requests;
mod summary;

use crate::decision::queue_text;
use crate::gaps::Gaps;
use crate::human::Human;
pub use cause::{Cause, Kind, Sparing, Why};
use cause::{Dated, Names};
use core::fmt;
pub use data::ExplainedWaits;
pub use requests::RequestTime;
use requests::{Doing, Requests};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
pub use summary::{CauseShare, Episodes, Missed, Summary, TaskShare, percent};
use summary::{Counting, Parts};
use zerolag_model::event::Disables;
use zerolag_model::state::PolicyStep;
use zerolag_model::{
    ClassId, CpuId, Duration, GroupId, Instant, MigrateReason, PrevState, Record, ServerKind, ServerState, TaskId,
    TraceEvent,
};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{CpuView, Current, Replay, TaskState, TaskView};
use zerolag_trace::{Meta, Trace};

/// A list of causes: the first is about the waiting task, each further one about the holder named
/// before.
pub type Chain = Vec<Cause>;

/// The most steps kept of one wait.
const STEPS_MAX: usize = 10_000;
/// The longest chain that is followed.
const CHAIN_MAX: usize = 32;

/// A wait and its causes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// The task.
    pub task: TaskId,
    /// Start of the wait.
    pub from: Instant,
    /// The time at which it ran, or the trace ended.
    pub to: Instant,
    /// The chains and their total times, the longest first. The times add up to the wait.
    pub causes: Vec<(Chain, Duration)>,
    /// The chains in order of time, with their starts. Of a very long wait only the first are kept.
    pub steps: Vec<(Instant, Chain)>,
    /// How much of the wait lies in gaps: events of the CPU on which it ended are missing then, so
    /// its causes are those that the events around the gap suggest. Zero in a complete trace.
    pub in_gaps: Duration,
    /// Where a loaded policy had put the task meanwhile, in order of time: a simulation knows it,
    /// and no trace does.
    pub placed: Vec<PolicyStep>,
}

impl Explained {
    /// Returns where a loaded policy had the task, and for how long: each step until the next one.
    #[must_use]
    pub fn places(&self) -> Vec<(Duration, String)> {
        let ends = self.placed.iter().skip(1).map(|next| next.at).chain([self.to]);
        let place = |(step, end): (&PolicyStep, Instant)| {
            let queue = match step.ahead {
                0 => queue_text(step.to),
                1 => format!("{} behind another task", queue_text(step.to)),
                more => format!("{} behind {more} others", queue_text(step.to)),
            };
            (end.since(step.at.max(self.from)), format!("{queue} ({})", step.by.unwrap_or("the kernel")))
        };
        let mut places: Vec<_> = self.placed.iter().zip(ends).map(place).collect();
        // Queues that it passed through; the last one is that from which it ran.
        let last = places.len().saturating_sub(1);
        let mut nth = 0..;
        places.retain(|(time, _)| nth.next() == Some(last) || !time.is_zero());
        places
    }

    /// Returns the length of the wait.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Returns what the trace does not show of the wait, as a sentence; `None` if nothing.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let in_gaps = Human(self.in_gaps);
        (!self.in_gaps.is_zero()).then(|| {
            format!("Events of its CPU are missing for {in_gaps} of it: the causes are what the events around suggest.")
        })
    }
}

/// The result: explained waits and totals.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The longest waits, the longest first.
    pub waits: Vec<Explained>,
    /// All waits of the selected tasks by cause, and by task.
    pub summary: Summary,
    /// The requests of each service by what their workers did, in the order of the services.
    pub requests: Vec<RequestTime>,
    names: Names,
}

/// Which waits to explain.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How many of the longest waits are kept.
    pub worst: usize,
    /// Only tasks whose name starts with this; `None` is all.
    pub task: Option<String>,
    /// The goals on waits and requests: what misses one is summed apart.
    pub bounds: Vec<Bound>,
}

/// The longest time that a goal allows.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The goal, as written.
    pub goal: String,
    /// What it is about.
    pub of: Bounded,
    /// The name of the task or service; `None` is all.
    pub owner: Option<String>,
    /// The longest time.
    pub most: Duration,
}

/// What a goal bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounded {
    /// Each wait of a task.
    Waits,
    /// Each wait of a task that begins with its wakeup.
    Wakeups,
    /// The latency of each request of a service.
    Requests,
}

impl Bound {
    /// Returns whether it is about such a wait of a task; instances have the name with a number.
    fn is_of_task(&self, kind: &str, wait: Bounded) -> bool {
        let is_named = |owner: &str| kind.strip_prefix(owner).is_some_and(|rest| rest.is_empty() || rest == "-*");
        let is_of = self.of == Bounded::Waits || self.of == Bounded::Wakeups && wait == Bounded::Wakeups;
        is_of && self.owner.as_deref().is_none_or(is_named)
    }

    /// Returns whether it is about requests of a service.
    fn is_of_service(&self, name: &str) -> bool {
        self.of == Bounded::Requests && self.owner.as_deref().is_none_or(|owner| owner == name)
    }
}

/// A wait that is under way.
#[derive(Debug)]
struct OpenWait {
    /// Whether a wakeup began it, or losing the CPU or a lock.
    kind: Bounded,
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
    gaps: Gaps,
    /// Whether the trace is complete, i.e. not a recorded kernel's.
    is_complete: bool,
    groups: Groups,
    throttled_since: BTreeMap<(GroupId, CpuId), Instant>,
    budget_until: BTreeMap<TaskId, Instant>,
    holders: BTreeMap<u32, Vec<TaskId>>,
    wanted: BTreeMap<TaskId, u32>,
    /// The preemption model, if it spares kernel mode.
    spares: Option<Sparing>,
    /// The tasks in kernel mode, and since when.
    in_kernel: BTreeMap<TaskId, Instant>,
    /// The CPUs whose task has disabled preemption, what it disabled, and since when.
    disabled: BTreeMap<CpuId, (Disables, Instant)>,
    /// Tasks that were migrated since they last ran.
    moved: BTreeSet<TaskId>,
    open: BTreeMap<TaskId, OpenWait>,
    /// What took the largest part of the last wait of each task.
    last: BTreeMap<TaskId, Kind>,
    options: Options,
    counting: Counting,
    requests: Requests,
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
    /// Starts before the first record.
    #[must_use]
    pub fn new(meta: &Meta, options: Options) -> Self {
        let of_waits = options.bounds.iter().filter(|bound| bound.of != Bounded::Requests);
        let goals: Vec<&str> = of_waits.map(|bound| &*bound.goal).collect();
        let counting = if goals.is_empty() { Counting::default() } else { Counting::with_goal(goals.join(", ")) };
        let names = Names::new(meta);
        Self {
            replay: Replay::new(meta),
            gaps: Gaps::new(meta),
            is_complete: meta.source.is_complete(),
            groups: Groups::new(meta.setting("throttle")).with_servers(meta.setting("rt_group_sched") == Some("hcbs")),
            throttled_since: BTreeMap::new(),
            budget_until: BTreeMap::new(),
            holders: BTreeMap::new(),
            wanted: BTreeMap::new(),
            spares: meta.setting("preempt").and_then(Sparing::of),
            in_kernel: BTreeMap::new(),
            disabled: BTreeMap::new(),
            moved: BTreeSet::new(),
            open: BTreeMap::new(),
            last: BTreeMap::new(),
            options,
            counting,
            requests: Requests::default(),
            found: Explanation { waits: Vec::new(), summary: Summary::default(), requests: Vec::new(), names },
        }
    }

    /// Follows a record.
    pub fn observe(&mut self, record: &Record) {
        self.learn(record);
        self.replay.apply(record);
        self.groups.apply(record);
        match &record.event {
            TraceEvent::Waking { task, .. } | TraceEvent::Wakeup { task, .. } => {
                self.begin(*task, record.at, Bounded::Wakeups);
            }
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
                        self.begin(*prev, record.at, Bounded::Waits);
                    } else if *prev_state == PrevState::Blocked {
                        self.does(*prev, record.at, |_| Doing::Sleeps);
                    }
                    if !waits && self.replay.task(*prev).is_some_and(|view| view.state == TaskState::Blocked) {
                        // It ran all the time, which the beginning of a recording does not show: a
                        // wakeup had only cancelled its sleep.
                        self.open.remove(prev);
                    }
                }
            }
            TraceEvent::TaskExit { task } => {
                self.wanted.remove(task);
                self.end(*task, record.at);
            }
            // No other event begins or ends a wait.
            _ => {}
        }
        self.follow(record.at);
    }

    /// Stores the parts of a record that replay and groups do not keep.
    fn learn(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                self.found.names.tasks.insert(*task, Arc::clone(name));
            }
            TraceEvent::QueueNew { queue, name } => {
                // Of several goals the longest time counts: that of the percentile at the end.
                let bounds = self.options.bounds.iter().filter(|bound| bound.is_of_service(name));
                let goal = bounds.max_by_key(|bound| bound.most).map(|bound| (bound.goal.clone(), bound.most));
                self.requests.name(*queue, name, goal);
            }
            TraceEvent::Request { queue, request, step } => self.requests.step(*queue, *request, *step, record.at),
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
            TraceEvent::Syscall { task, enters: true } => {
                self.in_kernel.insert(*task, record.at);
            }
            TraceEvent::Syscall { task, enters: false } | TraceEvent::TaskExit { task } => {
                self.in_kernel.remove(task);
            }
            TraceEvent::NoPreempt { disables: Some(disables), .. } => {
                let since = self.disabled.get(&record.cpu).map_or(record.at, |(_, since)| *since);
                self.disabled.insert(record.cpu, (*disables, since));
            }
            TraceEvent::NoPreempt { disables: None, .. } | TraceEvent::Switch { .. } => {
                self.disabled.remove(&record.cpu);
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
            // No other event is a cause.
            _ => {}
        }
    }

    fn is_asked_for(&self, task: TaskId) -> bool {
        let Some(prefix) = &self.options.task else { return true };
        self.found.names.tasks.get(&task).is_some_and(|name| name.starts_with(&**prefix))
    }

    fn begin(&mut self, task: TaskId, at: Instant, kind: Bounded) {
        if self.open.contains_key(&task) || !self.is_asked_for(task) {
            return;
        }
        if matches!(self.replay.task(task).map(|view| view.state), Some(TaskState::Running { .. })) {
            return; // The wakeup only cancelled a sleep.
        }
        let chain = self.chain(task);
        self.does(task, at, |names| Doing::Waits(kind_of(&chain), names.text(&chain, Dated::Alike).into()));
        let steps = vec![(at, chain.clone())];
        self.open.insert(task, OpenWait { kind, from: at, chain, chain_since: at, parts: BTreeMap::new(), steps });
    }

    fn end(&mut self, task: TaskId, at: Instant) {
        self.moved.remove(&task);
        self.does(task, at, |_| Doing::Computes);
        let Some(mut open) = self.open.remove(&task) else {
            self.last.remove(&task);
            return;
        };
        open.close_part(at);
        let length = at.since(open.from);
        self.last.insert(task, open.kind_of_most());
        self.count(task, &open, length);
        let in_gaps = self.cpu_of(task).map_or(Duration::ZERO, |cpu| self.gaps.within(cpu, open.from, at));
        let kept = &mut self.found.waits;
        let place = kept.partition_point(|other| other.length() >= length);
        if length.is_zero() || place >= self.options.worst {
            return;
        }
        let mut causes: Vec<(Chain, Duration)> = open.parts.into_iter().collect();
        causes.sort_by(|(a, ours), (b, theirs)| theirs.cmp(ours).then_with(|| a.cmp(b)));
        kept.insert(
            place,
            Explained { task, from: open.from, to: at, causes, steps: open.steps, in_gaps, placed: Vec::new() },
        );
        kept.truncate(self.options.worst);
    }

    /// Returns the CPU that a task runs on or is queued on.
    fn cpu_of(&self, task: TaskId) -> Option<CpuId> {
        let view = self.replay.task(task)?;
        if let TaskState::Running { on, .. } = view.state { Some(on) } else { view.rq }
    }

    /// Updates the open waits after a change.
    fn follow(&mut self, at: Instant) {
        let mut open = core::mem::take(&mut self.open);
        for (task, wait) in &mut open {
            let chain = self.chain(*task);
            if chain != wait.chain {
                wait.close_part(at);
                self.does(*task, at, |names| Doing::Waits(kind_of(&chain), names.text(&chain, Dated::Alike).into()));
                // A chain that lasted for no time is no step.
                wait.steps.pop_if(|(since, _)| *since == at);
                if wait.steps.len() < STEPS_MAX {
                    wait.steps.push((at, chain.clone()));
                }
                wait.chain = chain;
            }
        }
        self.open = open;
    }

    /// Returns the chain of causes that keeps a task at this moment.
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
                    return Cause::RtThrottled { cpu, group: None };
                }
                if let Some(group) = self.groups.rt_throttled_on(task, cpu).filter(|_| view.prio.is_rt()) {
                    return Cause::RtThrottled { cpu, group: Some(group) };
                }
                let bound = view.affinity.as_ref().is_some_and(|cpus| cpus.first() == cpus.last());
                match place.current {
                    Current::Task(running) => {
                        let why = self.why(view, place, running);
                        Cause::Behind { cpu, task: running, bound, why }
                    }
                    Current::Idle if !self.is_complete => Cause::KeptOff { cpu },
                    Current::Idle if place.irq_depth > 0 => Cause::Interrupt { cpu },
                    Current::Idle if self.moved.contains(&task) => Cause::Moved { cpu },
                    Current::Idle => Cause::Switch { cpu },
                    Current::Unknown => Cause::Unknown,
                }
            }
        }
    }

    /// Returns why a CPU runs a task and not this one, which is queued there.
    ///
    /// A request to switch that came while the task was in kernel mode, or had disabled preemption,
    /// is not obeyed there, whatever the two tasks' ranks are. An earlier request can have been
    /// obeyed by picking the same task again, so that it is no reason.
    fn why(&self, waiting: &TaskView, cpu: CpuView, running: TaskId) -> Why {
        let Some(other) = self.replay.task(running) else { return Why::Unknown };
        let TaskState::Running { on, .. } = other.state else { return Why::Unknown };
        let asked_since = |start: Instant| cpu.need_resched_since.is_some_and(|asked| asked >= start);
        let is_lower = is_lower(other, waiting);
        if let Some((disables, start)) = self.disabled.get(&on)
            && (is_lower || asked_since(*start))
        {
            return Why::Disabled { disables: *disables };
        }
        let spares = self.spares.filter(|model| match model {
            Sparing::None | Sparing::Voluntary => true,
            Sparing::Lazy => waiting.prio.class() == ClassId::Fair,
        });
        if let (Some(model), Some(start)) = (spares, self.in_kernel.get(&running))
            && (is_lower || asked_since(*start))
        {
            return Why::InKernel { model };
        }
        if is_lower {
            let server = server_of(other.prio.class());
            return match server.map(|server| (server, cpu.server(server))) {
                Some((server, Some(ServerState::Queued { .. }))) => Why::Served { server },
                _ if cpu.irq_depth > 0 => Why::Interrupted,
                _ if cpu.need_resched_since.is_some() => Why::Switching,
                _ => Why::Unknown,
            };
        }
        if !is_lower_class(waiting, other) {
            return Why::Rank;
        }
        match server_of(waiting.prio.class()).map(|server| (server, cpu.server(server))) {
            Some((server, Some(ServerState::Deferred { until }))) => Why::Defers { server, until },
            Some((server, Some(ServerState::Throttled { until }))) => Why::Exhausted { server, until },
            _ => Why::Rank,
        }
    }

    /// Counts a wait in the summary.
    fn count(&mut self, task: TaskId, open: &OpenWait, length: Duration) {
        let mut parts = Parts::new();
        for (chain, time) in &open.parts {
            let cpu = chain.iter().find_map(|cause| cause.cpu());
            parts.entry(self.found.names.text(chain, Dated::Alike)).or_default().add(kind_of(chain), cpu, *time);
        }
        let tasks = self.found.names.kind_of(task);
        let misses = self.options.bounds.iter().any(|bound| bound.is_of_task(&tasks, open.kind) && length > bound.most);
        self.counting.count(tasks, open.from, length, &parts, misses);
    }

    /// Returns the kind of cause that took the largest part of the wait of a task that has just
    /// been switched to; `None` if it did not wait.
    #[must_use]
    pub fn last_wait(&self, task: TaskId) -> Option<Kind> {
        self.last.get(&task).copied()
    }

    /// Stores what a task does from now on, if the trace has requests that it could serve.
    fn does(&mut self, task: TaskId, at: Instant, doing: impl FnOnce(&Names) -> Doing) {
        if self.requests.is_used() {
            self.requests.enter(task, at, doing(&self.found.names));
        }
    }

    /// Ends the trace, and with it the open waits.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Explanation {
        let waiting: Vec<TaskId> = self.open.keys().copied().collect();
        for task in waiting {
            self.end(task, end);
        }
        self.found.summary = self.counting.finish();
        self.found.requests = self.requests.finish(end);
        self.found
    }
}

/// Returns the kind of a chain: that of its first link, which is about the waiting task.
fn kind_of(chain: &[Cause]) -> Kind {
    chain.first().map_or(Kind::Other, |cause| cause.kind())
}

/// Returns the deadline server of a class.
fn server_of(class: ClassId) -> Option<ServerKind> {
    ServerKind::ALL.into_iter().find(|kind| kind.class() == class)
}

/// Returns whether a task is of a lower class than another one.
fn is_lower_class(task: &TaskView, than: &TaskView) -> bool {
    task.prio.class() != than.prio.class() && than.prio.beats(task.prio)
}

/// Returns whether a task ranks lower than another one: by class, or by real-time priority. Nice
/// values are no ranks.
fn is_lower(task: &TaskView, than: &TaskView) -> bool {
    is_lower_class(task, than) || (task.prio.is_rt() && than.prio.is_rt() && than.prio.beats(task.prio))
}

/// A task that has just been switched to no longer waits, so this cause is void.
const fn not_running(cause: Cause) -> Cause {
    match cause {
        Cause::Runs { cpu, irq: true } => Cause::Interrupt { cpu },
        Cause::Runs { cpu, irq: false } => Cause::Switch { cpu },
        other => other,
    }
}

impl OpenWait {
    /// Returns the kind with the largest time; of equal ones the first.
    fn kind_of_most(&self) -> Kind {
        let time = |kind: Kind| -> Duration {
            self.parts.iter().filter(|(chain, _)| kind_of(chain) == kind).map(|(_, time)| *time).sum()
        };
        Kind::ALL.into_iter().rev().max_by_key(|kind| time(*kind)).unwrap_or_default()
    }

    fn close_part(&mut self, at: Instant) {
        let time = at.since(self.chain_since);
        self.chain_since = at;
        if !time.is_zero() {
            *self.parts.entry(self.chain.clone()).or_default() += time;
        }
    }
}

/// The number of kinds of causes that are shown of one wait.
const ALIKE_SHOWN: usize = 12;

/// Causes of one wait that differ only in time, CPU, lock and instance of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alike {
    /// The clause: that of the only one, or what they have in common.
    pub says: String,
    /// Their total time.
    pub time: Duration,
    /// The number of different chains.
    pub count: usize,
    /// The time of the longest.
    pub longest: Duration,
}

impl Explanation {
    /// Returns the causes of a wait by kind, the longest total first. Their times add up to the
    /// wait.
    ///
    /// A wait behind two hundred instances of a task is one cause for its reader.
    #[must_use]
    pub fn alike(&self, wait: &Explained) -> Vec<Alike> {
        let mut kinds: BTreeMap<String, Vec<&(Chain, Duration)>> = BTreeMap::new();
        for cause in &wait.causes {
            kinds.entry(self.names.text(&cause.0, Dated::Alike)).or_default().push(cause);
        }
        let mut found = Vec::new();
        for (says, all) in kinds {
            let time = all.iter().map(|(_, time)| *time).sum();
            let longest = all.iter().map(|(_, time)| *time).max().unwrap_or_default();
            let says = if let [(chain, _)] = &all[..] { self.clause(chain) } else { says };
            found.push(Alike { says, time, count: all.len(), longest });
        }
        found.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.says.cmp(&b.says)));
        found
    }

    /// Returns why goals on requests or waits are missed, a sentence per goal: the largest parts of
    /// the time of those that are beyond it.
    #[must_use]
    pub fn why_missed(&self) -> Vec<String> {
        let requests = self.requests.iter().map(|of| (&of.summary, "requests"));
        let all = requests.chain([(&self.summary, "waits")]);
        all.filter_map(|(summary, what)| summary.why_missed(what)).collect()
    }

    /// Returns the name of a task.
    #[must_use]
    pub fn name(&self, task: TaskId) -> String {
        self.names.task(task)
    }

    /// Returns a chain as a clause: "waits for lock 0, held by a-0, which is throttled in /a on
    /// cpu0 since ...".
    #[must_use]
    pub fn clause(&self, chain: &[Cause]) -> String {
        self.names.text(chain, Dated::Yes)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for RequestTime { service, summary } in &self.requests {
            writeln!(f, "{service}: {}\n\n{}", summary.sentence("requests"), summary.causes_table(summary::SHOWN))?;
        }
        write!(f, "{}", self.summary)?;
        if !self.waits.is_empty() {
            match self.waits.len() {
                1 => writeln!(f, "\nthe longest:")?,
                several => writeln!(f, "\nthe {several} longest:")?,
            }
        }
        for wait in &self.waits {
            writeln!(f, "\n{} waited {} ({} to {})", self.name(wait.task), Human(wait.length()), wait.from, wait.to)?;
            let alike = self.alike(wait);
            for Alike { says, time, count, longest } in alike.iter().take(ALIKE_SHOWN) {
                write!(f, "{:>10}  {says}", Human(*time).to_string())?;
                match count {
                    1 => writeln!(f)?,
                    count => writeln!(f, " ({count} times, the longest {})", Human(*longest))?,
                }
            }
            if let Some(rest) = alike.get(ALIKE_SHOWN..).filter(|rest| !rest.is_empty()) {
                let time: Duration = rest.iter().map(|alike| alike.time).sum();
                writeln!(f, "{:>10}  {} other causes", Human(time).to_string(), rest.len())?;
            }
            if let Some(missing) = wait.missing() {
                writeln!(f, "{:>10}  {missing}", "")?;
            }
            let places = wait.places();
            if !places.is_empty() {
                writeln!(f, "the policy had it on")?;
            }
            for (time, place) in places.iter().take(ALIKE_SHOWN) {
                writeln!(f, "{:>10}  {place}", Human(*time).to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
