//! [`Group`]: tasks that share a weight and a limit, and the CPU time that they have used.

use crate::caller::Caller;
use crate::coop;
use crate::latency::Latencies;
use crate::state::engine::Engine;
use crate::state::group::{GroupState, path_of};
use crate::sync::AtomicU64;
use crate::units::{to_model, to_std};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use zerolag_core::call::{Answer, Call, Refused};
use zerolag_core::{GroupError, Weight};
use zerolag_model::{CpuId, CpuMax, CpuStat, TraceEvent};

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
    blocking_max: usize,
}

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

    /// Sets how many of its functions of [`spawn_blocking`](Group::spawn_blocking) run at a time,
    /// at least 1. The default is [`Builder::blocking_max`](crate::Builder::blocking_max), which
    /// all groups share.
    pub fn blocking_max(mut self, functions: usize) -> Self {
        self.blocking_max = functions;
        self
    }

    /// Creates the group.
    ///
    /// # Errors
    /// There is a group of this name ([`Group::child`]): two would have two limits. A weight or a
    /// limit is out of range, the group is deeper than 32 levels, or the runtime has
    /// no room for another group ([`Builder::groups`](crate::Builder::groups)).
    pub fn create(self) -> Result<Group, GroupSetError> {
        let mut max = self.max;
        if let Some(cpus) = self.quota {
            let rate = rate_of(cpus)?;
            max = if self.has_period { max } else { max.with_period_for(rate) }.with_rate(rate);
        }
        max.check().map_err(|error| GroupSetError(GroupError::Max(error).to_string()))?;
        let weight = weight_of(self.weight)?;
        let exists = |path| Err(GroupSetError(format!("there is a group {path} already")));
        // It is looked for before the core is asked, and again when the group is admitted.
        if let Some(group) = self.parent.child(&self.name) {
            return exists(group.path());
        }
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
        let mut state = GroupState::new(id, self.name, Some(parent), Arc::clone(&engine));
        state.blocking_max = self.blocking_max;
        let group = Group { state: Arc::new(state) };
        if !engine.admit_group(&group.state) {
            return exists(group.path());
        }
        if max.quota.is_some() {
            group.set_max(max)?;
        }
        Ok(group)
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

/// Returns the CPU time per second of so many CPUs.
fn rate_of(cpus: f64) -> Result<zerolag_model::Duration, GroupSetError> {
    if !(cpus.is_finite() && cpus > 0.0) {
        return Err(GroupSetError(format!("a quota of {cpus} CPUs is none")));
    }
    Ok(zerolag_model::Duration::from_nanos((cpus * 1e9) as u64))
}

/// The CPU time of a group, and how often its limit throttled it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The CPU time that its tasks, and those of the groups below it, have used, with the runtime's
    /// own work for them. Up to a tick old; of polls that have lost their CPU some 5 ms.
    pub cpu: Duration,
    /// The time for which a poll of these tasks was in progress on a CPU of the scheduler but did
    /// not run: other programs, the machine's owner or a limit of the container took the processor,
    /// or the poll slept in a system call. It is not charged.
    pub lost: Duration,
    /// The `cpu.stat` of its own limit.
    pub stat: CpuStat,
    /// The seconds in which its limit stopped a task, or was about to, that held a
    /// [`Mutex`](crate::Mutex) others waited for, because the group had used up
    /// [`Builder::spare_at_most`](crate::Builder::spare_at_most). Locks of other libraries are not
    /// seen.
    pub lock_stalls: u64,
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

    /// Returns the group of the calling task, function of [`spawn_blocking`](Self::spawn_blocking)
    /// or destructor; `None` elsewhere, and in tasks of other executors.
    ///
    /// ```
    /// # use zerolag_runtime::{Builder, Group};
    /// let rt = Builder::new().cpus(1).build()?;
    /// let acme = rt.group("acme").create()?;
    /// let name = acme.spawn(async { Group::current().map(|group| group.name().to_owned()) })?;
    /// assert_eq!(rt.block_on(name)?.as_deref(), Some("acme"));
    /// assert!(Group::current().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        coop::current_group().map(|state| Self { state })
    }

    /// Returns the path of the group from the root, which is `/`.
    #[must_use]
    pub fn path(&self) -> String {
        self.state.path()
    }

    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the group of this name below this one, if there is one. O(groups).
    #[must_use]
    pub fn child(&self, name: &str) -> Option<Self> {
        let is_it = |group: &Arc<GroupState>| group.is_child(name, Some(&self.state));
        self.state.engine.live_groups().into_iter().find(is_it).map(|state| Self { state })
    }

    /// Starts building a group below this one.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        let (parent, name) = (self.clone(), name.into());
        let (max, blocking_max) = (CpuMax::UNLIMITED, usize::MAX);
        GroupBuilder { parent, name, weight: 100, max, quota: None, has_period: false, blocking_max }
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
        let rate = cpus.map(rate_of).transpose()?;
        self.set_max(rate.map_or(CpuMax { quota: None, ..now }, |rate| now.with_rate(rate)))
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
        let lock_stalls = self.state.spared.lock().stalls();
        Usage { cpu, lost: time(&self.state.lost), stat, lock_stalls }
    }

    /// Returns the histograms so far; `None` without
    /// [`Builder::latencies`](crate::Builder::latencies).
    #[must_use]
    pub fn latencies(&self) -> Option<Latencies> {
        let latency = self.state.latency.as_deref()?;
        Some(latency.read())
    }
}

impl Engine {
    /// Returns the live groups by path; the first one is the root, `/`.
    pub(crate) fn groups(self: &Arc<Self>) -> Vec<(String, Group)> {
        let groups = self.live_groups().into_iter().map(|state| Group { state });
        let mut groups: Vec<_> = groups.map(|group| (group.state.path(), group)).collect();
        let root = self.root.get().and_then(Weak::upgrade);
        groups.extend(root.map(|state| ("/".to_owned(), Group { state })));
        groups.sort_by(|(one, _), (other, _)| one.cmp(other));
        groups
    }
}
