//! [`Group`]: tasks that share a weight and a limit, and the CPU time that they have used.

use crate::caller::Caller;
use crate::coop;
use crate::engine::Engine;
use crate::latency::Latency;
use crate::meter::Measured;
use crate::spare::Spared;
use crate::spawn::{SpawnError, TaskBuilder};
use crate::sync::{AtomicBool, AtomicU64, Mutex};
use crate::{JoinHandle, to_model, to_std};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerolag_core::call::{Answer, Call, Refused};
use zerolag_core::{GroupError, Weight};
use zerolag_model::{CpuId, CpuMax, CpuStat, GroupId, TraceEvent};

/// The part of a group that its tasks, children and handles share; the group is removed with the
/// last of them.
pub(crate) struct GroupState {
    pub(crate) id: GroupId,
    name: String,
    pub(crate) parent: Option<Arc<GroupState>>,
    pub(crate) engine: Arc<Engine>,
    /// The CPU time of its tasks and those of its children. CPUs add to it at every switch, each
    /// to its own part: one number for all would be a cache line that they take from each other.
    used: Box<[UsedThere]>,
    /// The time for which they were polled without a processor, in nanoseconds.
    lost: AtomicU64,
    is_limited: AtomicBool,
    /// Counted only if the runtime was built to.
    pub(crate) latency: Option<Box<Latency>>,
    pub(crate) spared: Mutex<Spared>,
    /// The CPU time that ended tasks owe, in nanoseconds; the next task of the group is charged.
    debt: AtomicU64,
}

impl GroupState {
    pub(crate) fn root(engine: &Arc<Engine>) -> Arc<Self> {
        let engine = Arc::clone(engine);
        Arc::new(Self::new(GroupId::ROOT, "/".to_owned(), None, engine))
    }

    fn new(id: GroupId, name: String, parent: Option<Arc<Self>>, engine: Arc<Engine>) -> Self {
        let [lost, debt] = [0; 2].map(AtomicU64::new);
        let used = (0..engine.cpus.len().min(PARTS)).map(|_| UsedThere::default()).collect();
        let is_limited = AtomicBool::new(false);
        let latency = engine.is_measuring.then(Box::default);
        Self { id, name, parent, engine, used, lost, is_limited, latency, spared: Mutex::default(), debt }
    }

    /// Returns the innermost group from here upwards that has a limit. O(depth).
    pub(crate) fn limited(self: &Arc<Self>) -> Option<&Arc<Self>> {
        self.line().find(|group| group.is_limited.load(Ordering::Relaxed))
    }

    /// Returns whether it is a group or below it. O(depth).
    pub(crate) fn is_within(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        self.line().any(|group| Arc::ptr_eq(group, other))
    }

    fn line(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |group| group.parent.as_ref())
    }

    pub(crate) fn owe(&self, time: zerolag_model::Duration) {
        self.debt.fetch_add(time.as_nanos(), Ordering::Relaxed);
    }

    /// Returns whether ended tasks of the group owe CPU time.
    pub(crate) fn owes(&self) -> bool {
        self.debt.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn take_debt(&self) -> zerolag_model::Duration {
        // Most groups owe nothing; a swap would write.
        zerolag_model::Duration::from_nanos(if self.owes() { self.debt.swap(0, Ordering::Relaxed) } else { 0 })
    }

    /// Adds the time that a task has run on a CPU, to the group and those above it.
    pub(crate) fn add_usage(&self, cpu: CpuId, time: Measured) {
        let mut group = self;
        loop {
            let used = &group.used[cpu.index() % group.used.len()];
            used.0.fetch_add(time.ran.as_nanos(), Ordering::Relaxed);
            if !time.lost.is_zero() {
                group.lost.fetch_add(time.lost.as_nanos(), Ordering::Relaxed);
            }
            match &group.parent {
                Some(parent) => group = parent,
                None => return,
            }
        }
    }
}

/// The most parts of a group's CPU time.
const PARTS: usize = 16;

/// The CPU time that a group has used on some CPUs, in nanoseconds.
#[derive(Default)]
#[repr(align(64))]
struct UsedThere(AtomicU64);

impl Drop for GroupState {
    fn drop(&mut self) {
        if self.parent.is_some() {
            self.engine.forget_group(self.id);
            caller(&self.engine).make(Call::RemoveGroup { group: self.id });
            self.engine.emit(|| TraceEvent::GroupGone { group: self.id });
        }
    }
}

fn caller(engine: &Arc<Engine>) -> Caller<'_> {
    Caller::new(engine, coop::current_cpu().unwrap_or(CpuId(0)))
}

/// A group that has not been created yet.
#[derive(Debug)]
#[must_use = "a group is there once it is created"]
pub struct GroupBuilder {
    parent: Group,
    name: String,
    weight: u64,
    max: CpuMax,
    quota: Option<f64>,
    has_period: bool,
}

/// The period of a quota for which none was set, in milliseconds.
const DEFAULT_PERIOD_MS: f64 = 100.0;

/// The longest period, in milliseconds.
const MAX_PERIOD_MS: f64 = 1_000.0;

impl GroupBuilder {
    /// Sets `cpu.weight`: its share among its siblings, 1 to 10000; the default is 100.
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// Limits it to `cpus` CPUs on average over every period: 0.4 is 40 ms in 100 ms, 2.0 is two
    /// CPUs. The quota of a period is at least 1 ms: unless a period is set, it is longer than 100
    /// ms for less than 0.01 CPUs.
    pub fn quota(mut self, cpus: f64) -> Self {
        self.quota = Some(cpus);
        self
    }

    /// Sets the period of the quota, 1 ms to 1 s; the default is 100 ms.
    pub fn period(mut self, period: Duration) -> Self {
        (self.max.period, self.has_period) = (to_model(period), true);
        self
    }

    /// Sets `cpu.max.burst`: unused quota that later periods can use in addition to their own; at
    /// most the quota of one period.
    pub fn burst(mut self, burst: Duration) -> Self {
        self.max.burst = to_model(burst);
        self
    }

    /// Sets `cpu.max` and `cpu.max.burst` as in the kernel; they replace the limit that was set
    /// before.
    pub fn max(mut self, max: CpuMax) -> Self {
        (self.max, self.quota, self.has_period) = (max, None, true);
        self
    }

    /// Creates the group.
    ///
    /// # Errors
    /// A weight or a limit is out of range, the group is deeper than 32 levels, or the runtime has
    /// no room for another group ([`Builder::groups`](crate::Builder::groups)).
    pub fn create(self) -> Result<Group, GroupSetError> {
        let mut max = self.max;
        if let Some(cpus) = self.quota {
            if !self.has_period && cpus * DEFAULT_PERIOD_MS < 1.0 && cpus >= 1.0 / MAX_PERIOD_MS {
                max.period = to_model(Duration::from_secs_f64((1.0 / cpus).ceil() / 1e3));
            }
            max.quota = Some(quota_of(cpus, max.period)?);
        }
        max.check().map_err(|error| GroupSetError(GroupError::Max(error).to_string()))?;
        let weight = weight_of(self.weight)?;
        let parent = self.parent.state;
        let engine = Arc::clone(&parent.engine);
        let mut caller = caller(&engine);
        let made = caller.call(Call::CreateGroup { parent: parent.id, weight });
        let Ok(Answer::Group(id)) = made else { return Err(refused(&made)) };
        drop(caller);
        engine.emit(|| TraceEvent::GroupNew {
            group: id,
            parent: parent.id,
            path: path_of(&parent, &self.name).into(),
        });
        let group = Group { state: Arc::new(GroupState::new(id, self.name, Some(parent), Arc::clone(&engine))) };
        engine.admit_group(&group.state);
        if max.quota.is_some() {
            group.set_max(max)?;
        }
        Ok(group)
    }
}

impl GroupState {
    /// Returns its path from the root, which is `/`.
    pub(crate) fn path(&self) -> String {
        self.parent.as_ref().map_or_else(|| "/".to_owned(), |above| path_of(above, &self.name))
    }
}

fn path_of(parent: &GroupState, name: &str) -> String {
    match &parent.parent {
        None => format!("/{name}"),
        Some(above) => format!("{}/{name}", path_of(above, &parent.name)),
    }
}

/// The reason why a group cannot have these properties, as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSetError(String);

impl fmt::Display for GroupSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GroupSetError {}

fn refused(answer: &Result<Answer, Refused>) -> GroupSetError {
    match answer {
        Err(Refused::Group(error)) => GroupSetError(error.to_string()),
        Err(_) | Ok(_) => unreachable!("invariant: a call about a group returns a group or its error"),
    }
}

fn weight_of(weight: u64) -> Result<Weight, GroupSetError> {
    Weight::from_cpu_weight(weight).ok_or_else(|| GroupSetError(format!("weight {weight} is outside 1..=10000")))
}

fn quota_of(cpus: f64, period: zerolag_model::Duration) -> Result<zerolag_model::Duration, GroupSetError> {
    if !(cpus.is_finite() && cpus > 0.0) {
        return Err(GroupSetError(format!("a quota of {cpus} CPUs is none")));
    }
    Ok(zerolag_model::Duration::from_nanos((cpus * period.as_nanos() as f64) as u64))
}

/// The CPU time of a group, and how often its limit throttled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The CPU time that its tasks, and those of the groups below it, have used. Up to a tick old.
    pub cpu: Duration,
    /// The time for which a poll of these tasks was in progress on a CPU of the scheduler but did
    /// not run: other programs, the machine's owner or a limit of the container took the processor,
    /// or the poll slept in a system call. It is not charged.
    pub lost: Duration,
    /// The `cpu.stat` of its own limit.
    pub stat: CpuStat,
}

impl Usage {
    /// Returns the time for which the group was throttled on a CPU, summed over CPUs.
    #[must_use]
    pub fn throttled(&self) -> Duration {
        to_std(self.stat.throttled)
    }
}

/// Tasks that share a weight and a limit. It is cheap to clone; the group is removed with its last
/// task, child and handle.
#[derive(Clone)]
pub struct Group {
    pub(crate) state: Arc<GroupState>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({}, {:?})", self.state.id, self.state.name)
    }
}

impl Group {
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.state.engine
    }

    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Runs a function that blocks or computes on a thread of its own, at the expense of this
    /// group. See [`TaskBuilder::spawn_blocking`].
    ///
    /// # Errors
    /// The largest number of tasks already live ([`Builder::tasks`](crate::Builder::tasks)).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, run: F) -> Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.task().spawn_blocking(run)
    }

    /// Starts building a group below this one.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        let (parent, name) = (self.clone(), name.into());
        GroupBuilder { parent, name, weight: 100, max: CpuMax::UNLIMITED, quota: None, has_period: false }
    }

    /// Starts building a task in this group.
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder::new(self.clone())
    }

    /// Starts a task of nice 0 in this group.
    ///
    /// # Errors
    /// The largest number of tasks already live ([`Builder::tasks`](crate::Builder::tasks)).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.task().spawn(future)
    }

    /// Sets `cpu.weight`, 1 to 10000.
    ///
    /// # Errors
    /// The weight is out of range, or this is the root group, which has no weight.
    pub fn set_weight(&self, weight: u64) -> Result<(), GroupSetError> {
        let weight = weight_of(weight)?;
        let answer = caller(&self.state.engine).call(Call::SetGroupWeight { group: self.state.id, weight });
        if answer.is_ok() { Ok(()) } else { Err(refused(&answer)) }
    }

    /// Limits the group to `cpus` CPUs on average over every period of the current length; `None`
    /// removes the limit.
    ///
    /// # Errors
    /// The quota is out of range, or this is the root group, which has no limit.
    pub fn set_quota(&self, cpus: Option<f64>) -> Result<(), GroupSetError> {
        let now = self.max();
        let quota = cpus.map(|cpus| quota_of(cpus, now.period)).transpose()?;
        self.set_max(CpuMax { quota, ..now })
    }

    /// Sets `cpu.max` and `cpu.max.burst`. Throttled tasks run again.
    ///
    /// # Errors
    /// The limit is out of range ([`CpuMax::check`]), or this is the root group, which has no
    /// limit.
    pub fn set_max(&self, max: CpuMax) -> Result<(), GroupSetError> {
        let mut caller = caller(&self.state.engine);
        let answer = caller.call(Call::SetGroupMax { group: self.state.id, max, by: caller.cpu });
        let Ok(Answer::Step(step)) = answer else { return Err(refused(&answer)) };
        self.state.is_limited.store(max.quota.is_some(), Ordering::Relaxed);
        caller.carry(step);
        Ok(())
    }

    /// Returns the limit.
    #[must_use]
    pub fn max(&self) -> CpuMax {
        self.state.engine.scheduler.group_max(self.state.id).unwrap_or(CpuMax::UNLIMITED)
    }

    /// Returns the usage so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let stat = self.state.engine.scheduler.group_stat(self.state.id).unwrap_or_default();
        let time = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        let cpu = self.state.used.iter().map(|used| time(&used.0)).sum();
        Usage { cpu, lost: time(&self.state.lost), stat }
    }
}
