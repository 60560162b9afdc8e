//! [`Group`]: tasks that share a weight and a limit; what it has used.

use crate::caller::Caller;
use crate::calls::{Answer, Call, Refused};
use crate::coop;
use crate::engine::Engine;
use crate::spawn::{SpawnError, TaskBuilder};
use crate::{JoinHandle, to_model, to_std};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use zerolag_core::{GroupError, Weight};
use zerolag_model::{CpuId, CpuMax, CpuStat, GroupId, TraceEvent};

/// A group as its tasks, its children and its handles share it; it goes with the last of them.
pub(crate) struct GroupState {
    pub(crate) id: GroupId,
    name: String,
    parent: Option<Arc<GroupState>>,
    engine: Arc<Engine>,
    /// Nanoseconds that its tasks and those of its children have been polled.
    used: AtomicU64,
}

impl GroupState {
    pub(crate) fn root(engine: &Arc<Engine>) -> Arc<Self> {
        let engine = Arc::clone(engine);
        Arc::new(Self { id: GroupId::ROOT, name: "/".to_owned(), parent: None, engine, used: AtomicU64::new(0) })
    }

    pub(crate) fn add_usage(&self, time: zerolag_model::Duration) {
        let mut group = self;
        loop {
            group.used.fetch_add(time.as_nanos(), Ordering::Relaxed);
            match &group.parent {
                Some(parent) => group = parent,
                None => return,
            }
        }
    }
}

impl Drop for GroupState {
    fn drop(&mut self) {
        if self.parent.is_some() {
            caller(&self.engine).make(Call::RemoveGroup { group: self.id });
            self.engine.emit(|| TraceEvent::GroupGone { group: self.id });
        }
    }
}

fn caller(engine: &Arc<Engine>) -> Caller<'_> {
    Caller::new(engine, coop::current_cpu().unwrap_or(CpuId(0)))
}

/// A group that is to be made.
#[derive(Debug)]
#[must_use = "a group is there once it is created"]
pub struct GroupBuilder {
    parent: Group,
    name: String,
    weight: u64,
    max: CpuMax,
    quota: Option<f64>,
}

impl GroupBuilder {
    /// `cpu.weight`: its share among its siblings, 1 to 10000; 100 unless it is set.
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// At most so many CPUs, on average over each period: 0.4 is 40 ms in 100 ms, 2.0 is two CPUs.
    pub fn quota(mut self, cpus: f64) -> Self {
        self.quota = Some(cpus);
        self
    }

    /// The period of the quota, 1 ms to 1 s; 100 ms unless it is set.
    pub fn period(mut self, period: Duration) -> Self {
        self.max.period = to_model(period);
        self
    }

    /// `cpu.max.burst`: unused quota that later periods may use on top; at most the quota of a
    /// period.
    pub fn burst(mut self, burst: Duration) -> Self {
        self.max.burst = to_model(burst);
        self
    }

    /// `cpu.max` and `cpu.max.burst` as the kernel has them, in the place of what was set before.
    pub fn max(mut self, max: CpuMax) -> Self {
        (self.max, self.quota) = (max, None);
        self
    }

    /// Makes the group.
    ///
    /// # Errors
    /// A weight or a limit out of range; deeper than 32 levels; no room
    /// ([`Builder::groups`](crate::Builder::groups)).
    pub fn create(self) -> Result<Group, GroupSetError> {
        let mut max = self.max;
        if let Some(cpus) = self.quota {
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
        let used = AtomicU64::new(0);
        engine.emit(|| TraceEvent::GroupNew {
            group: id,
            parent: parent.id,
            path: path_of(&parent, &self.name).into(),
        });
        let group = Group { state: Arc::new(GroupState { id, name: self.name, parent: Some(parent), engine, used }) };
        if max.quota.is_some() {
            group.set_max(max)?;
        }
        Ok(group)
    }
}

fn path_of(parent: &GroupState, name: &str) -> String {
    match &parent.parent {
        None => format!("/{name}"),
        Some(above) => format!("{}/{name}", path_of(above, &parent.name)),
    }
}

/// Why a group cannot be so; in words.
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
        Err(Refused::Task(_)) | Ok(_) => unreachable!("invariant: about a group, a group or an error is answered"),
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

/// What a group has used and how often its limit held it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Time for which its tasks, and those of the groups below it, have been polled.
    pub cpu: Duration,
    /// `cpu.stat` of its own limit.
    pub stat: CpuStat,
}

impl Usage {
    /// Time for which a CPU's part of it was throttled, added up over CPUs.
    #[must_use]
    pub fn throttled(&self) -> Duration {
        to_std(self.stat.throttled)
    }
}

/// Tasks that share a weight and a limit. Cheap to clone; the group goes when its last task, child
/// and handle have gone.
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

    /// Returns the name that it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Begins a group below this one.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        GroupBuilder { parent: self.clone(), name: name.into(), weight: 100, max: CpuMax::UNLIMITED, quota: None }
    }

    /// Begins a task in this group.
    pub fn task(&self) -> TaskBuilder {
        TaskBuilder::new(self.clone())
    }

    /// Starts a task of nice 0 in this group.
    ///
    /// # Errors
    /// As many tasks live as there is room for ([`Builder::tasks`](crate::Builder::tasks)).
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
    /// Out of range; the root group has no weight.
    pub fn set_weight(&self, weight: u64) -> Result<(), GroupSetError> {
        let weight = weight_of(weight)?;
        let answer = caller(&self.state.engine).call(Call::SetWeight { group: self.state.id, weight });
        if answer.is_ok() { Ok(()) } else { Err(refused(&answer)) }
    }

    /// Sets the limit to so many CPUs on average over each period of the present length; `None` is
    /// no limit.
    ///
    /// # Errors
    /// Out of range; the root group has no limit.
    pub fn set_quota(&self, cpus: Option<f64>) -> Result<(), GroupSetError> {
        let now = self.max();
        let quota = cpus.map(|cpus| quota_of(cpus, now.period)).transpose()?;
        self.set_max(CpuMax { quota, ..now })
    }

    /// Sets `cpu.max` and `cpu.max.burst`. What was throttled runs again.
    ///
    /// # Errors
    /// Out of range ([`CpuMax::check`]); the root group has no limit.
    pub fn set_max(&self, max: CpuMax) -> Result<(), GroupSetError> {
        let mut caller = caller(&self.state.engine);
        let answer = caller.call(Call::SetMax { group: self.state.id, max, by: caller.cpu });
        let Ok(Answer::Step(step)) = answer else { return Err(refused(&answer)) };
        caller.carry(step);
        Ok(())
    }

    /// Returns the limit.
    #[must_use]
    pub fn max(&self) -> CpuMax {
        self.state.engine.scheduler.group_max(self.state.id).unwrap_or(CpuMax::UNLIMITED)
    }

    /// Returns what it has used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let stat = self.state.engine.scheduler.group_stat(self.state.id).unwrap_or_default();
        Usage { cpu: Duration::from_nanos(self.state.used.load(Ordering::Relaxed)), stat }
    }
}
