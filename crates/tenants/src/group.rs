//! [`Group`]: futures that share a weight and a limit, and the CPU time that they have used.

use crate::account::Account;
use crate::builder::Shared;
use crate::thread;
use crate::turn::{Rounds, Turn};
use crate::units::{to_model, to_std};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;
use zerolag_core::Weight;
use zerolag_model::{CpuMax, CpuStat};

/// The part of a group that its futures, children and handles share; the group is removed with the
/// last of them.
pub(crate) struct GroupState {
    pub(crate) name: String,
    pub(crate) parent: Option<Arc<GroupState>>,
    pub(crate) shared: Arc<Shared>,
    weight: AtomicU64,
    /// CPU time in nanoseconds, with the groups below. That of the root is only its own, and that
    /// of groups that are gone: one number for all would be a cache line that threads take from
    /// each other.
    used: AtomicU64,
    lost: AtomicU64,
    pub(crate) account: Account,
    pub(crate) turn: Turn,
    /// The rounds of its children.
    rounds: Rounds,
    /// Whether its tasks run on the second runtime.
    is_beside: bool,
    /// Its children by name: there is one group of a name, so that its limit is one.
    children: Mutex<BTreeMap<String, Weak<Self>>>,
    /// Until when they do because a poll was long, in nanoseconds of the runtime's time.
    beside_until: AtomicU64,
    /// The longest poll, of which each shorter one since has taken a part; 0 below [`HELD_FROM`].
    usual: AtomicU64,
}

/// Polls from this length on hold quota while they are in progress, in nanoseconds: a tick.
const HELD_FROM: u64 = 1_000_000;
/// The part of the longest poll that a shorter one takes off: requests have a long poll and several
/// short ones.
const FORGETS: u64 = 256;

impl GroupState {
    pub(crate) fn new(name: String, parent: Option<Arc<Self>>, shared: Arc<Shared>) -> Self {
        Self {
            name,
            parent,
            shared,
            weight: AtomicU64::new(100),
            used: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            account: Account::new(),
            turn: Turn::default(),
            rounds: Rounds::default(),
            is_beside: false,
            children: Mutex::default(),
            beside_until: AtomicU64::new(0),
            usual: AtomicU64::new(0),
        }
    }

    /// Returns the group and those above it, without the root, which has no weight and no limit.
    pub(crate) fn line(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |group| group.parent.as_ref()).filter(|group| group.parent.is_some())
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    pub(crate) const fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// Charges the group and those above it. O(depth).
    pub(crate) fn charge(self: &Arc<Self>, ran: Duration, lost: Duration) {
        let ran = ran.as_nanos() as u64;
        let mut is_root = true;
        for group in self.line() {
            is_root = false;
            group.used.fetch_add(ran, Ordering::Relaxed);
            group.account.charge(ran);
            if !lost.is_zero() {
                group.lost.fetch_add(lost.as_nanos() as u64, Ordering::Relaxed);
            }
        }
        if is_root {
            self.used.fetch_add(ran, Ordering::Relaxed);
            self.lost.fetch_add(lost.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Returns what a poll probably takes, in nanoseconds: a little less than the longest so far, 0
    /// if that is short.
    pub(crate) fn usual(&self) -> u64 {
        self.usual.load(Ordering::Relaxed)
    }

    /// A poll begins. Returns what is held for it at each level. O(depth) where polls are long.
    pub(crate) fn hold(self: &Arc<Self>) -> u64 {
        let usual = self.usual();
        if usual > 0 {
            self.line().for_each(|group| group.account.hold(usual));
        }
        usual
    }

    /// A poll has ended and was charged: what was held for it is free.
    pub(crate) fn let_go(self: &Arc<Self>, held: u64, ran: Duration) {
        let (ran, before) = (ran.as_nanos() as u64, self.usual());
        if before > 0 || ran >= HELD_FROM {
            let usual = ran.max(before - before / FORGETS);
            self.usual.store(if usual < HELD_FROM { 0 } else { usual }, Ordering::Relaxed);
        }
        if held > 0 {
            self.line().filter_map(|group| group.account.let_go(held)).for_each(Waker::wake);
        }
    }

    /// A poll was too long: for a while the group's tasks start beside those of others.
    pub(crate) fn note_long_poll(&self) {
        let until = self.shared.clock.now() + crate::builder::BESIDE_FOR;
        self.beside_until.store(until.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn is_beside(&self) -> bool {
        let until = self.beside_until.load(Ordering::Relaxed);
        self.is_beside || (until > 0 && self.shared.clock.now().as_nanos() < until)
    }

    fn children(&self) -> MutexGuard<'_, BTreeMap<String, Weak<Self>>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn path(&self) -> String {
        match &self.parent {
            None => "/".to_owned(),
            Some(above) if above.parent.is_none() => format!("/{}", self.name),
            Some(above) => format!("{}/{}", above.path(), self.name),
        }
    }
}

impl Drop for GroupState {
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            let mut children = parent.children();
            // A new group can have the name already.
            if children.get(&self.name).is_some_and(|child| child.strong_count() == 0) {
                children.remove(&self.name);
            }
        }
        // Only the root counts apart what the groups below it have used.
        if let Some(root) = self.parent.as_ref().filter(|parent| parent.parent.is_none()) {
            root.used.fetch_add(self.used(), Ordering::Relaxed);
            root.lost.fetch_add(self.lost.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
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
    is_beside: bool,
}

impl GroupBuilder {
    /// Sets its share among its siblings, 1 to 10000; the default is 100.
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

    /// Lets its tasks run on the second tokio runtime
    /// ([`Builder::second_runtime`](crate::Builder::second_runtime)) from the start, not only after
    /// a poll that was too long. Without a second runtime it has no effect.
    pub const fn beside(mut self) -> Self {
        self.is_beside = true;
        self
    }

    /// Creates the group.
    ///
    /// # Errors
    /// A weight or a limit is out of range, or there is a group of this name
    /// ([`Group::child`]): two would have two limits.
    pub fn create(self) -> Result<Group, GroupSetError> {
        let mut max = self.max;
        if let Some(cpus) = self.quota {
            let rate = rate_of(cpus)?;
            max = if self.has_period { max } else { max.with_period_for(rate) }.with_rate(rate);
        }
        max.check().map_err(|error| GroupSetError(error.to_string()))?;
        check_weight(self.weight)?;
        let parent = self.parent.state;
        let shared = Arc::clone(&parent.shared);
        let mut state = GroupState::new(self.name.clone(), Some(Arc::clone(&parent)), Arc::clone(&shared));
        state.weight = AtomicU64::new(self.weight);
        state.is_beside = self.is_beside;
        let group = Group { state: Arc::new(state) };
        {
            // The new group is dropped after the lock if there is one already: its drop takes it.
            let mut children = parent.children();
            match children.get(&self.name) {
                Some(child) if child.strong_count() > 0 => {
                    drop(children);
                    return Err(GroupSetError(format!("there is a group {} already", group.state.path())));
                }
                _ => children.insert(self.name, Arc::downgrade(&group.state)),
            };
        }
        shared.admit(&group.state);
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

fn check_weight(weight: u64) -> Result<(), GroupSetError> {
    let known = Weight::from_cpu_weight(weight);
    known.map(|_| ()).ok_or_else(|| GroupSetError(format!("weight {weight} is outside 1..=10000")))
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
    /// The CPU time that its futures, and those of the groups below it, have used, with the
    /// executor's own work for them. A poll is counted when it ends.
    pub cpu: Duration,
    /// The time for which a poll was in progress and its thread did not run: other programs, the
    /// machine's owner or a limit of the container took the processor, or the poll slept in a
    /// system call. It is not charged.
    pub lost: Duration,
    /// The `cpu.stat` of its own limit, with one CPU: the time throttled is wall time.
    pub stat: CpuStat,
}

impl Usage {
    /// Returns the time for which the group was throttled.
    #[must_use]
    pub fn throttled(&self) -> Duration {
        to_std(self.stat.throttled)
    }
}

/// Futures that share a weight and a limit. It is cheap to clone; the group is removed with its
/// last future, child and handle.
#[derive(Clone)]
pub struct Group {
    pub(crate) state: Arc<GroupState>,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({:?})", self.state.path())
    }
}

impl Group {
    /// Returns the group of the future or function that is running on this thread; `None` outside.
    ///
    /// ```
    /// # use zerolag_tenants::{Builder, Group};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rt = Builder::new().build()?;
    /// let acme = rt.group("acme").create()?;
    /// let name = acme.spawn(async { Group::current().map(|group| group.name().to_owned()) })?;
    /// assert_eq!(name.await?.as_deref(), Some("acme"));
    /// assert!(Group::current().is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Option<Self> {
        thread::current_group().map(|state| Self { state })
    }

    /// Returns the path of the group from the root, which is `/`. O(depth).
    #[must_use]
    pub fn path(&self) -> String {
        self.state.path()
    }

    /// Returns the name of the group.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Returns the group of this name below this one, if there is one. O(log children).
    #[must_use]
    pub fn child(&self, name: &str) -> Option<Self> {
        let child = self.state.children().get(name).and_then(Weak::upgrade);
        child.map(|state| Self { state })
    }

    /// Starts building a group below this one.
    pub fn group(&self, name: impl Into<String>) -> GroupBuilder {
        let (parent, name, max) = (self.clone(), name.into(), CpuMax::UNLIMITED);
        GroupBuilder { parent, name, weight: 100, max, quota: None, has_period: false, is_beside: false }
    }

    fn check_is_no_root(&self) -> Result<(), GroupSetError> {
        let is_root = self.state.parent.is_none();
        if is_root { Err(GroupSetError("the root group has no weight and no limit".to_owned())) } else { Ok(()) }
    }

    /// Sets its share among its siblings, 1 to 10000.
    ///
    /// # Errors
    /// The weight is out of range, or this is the root group, which has no weight.
    pub fn set_weight(&self, weight: u64) -> Result<(), GroupSetError> {
        self.check_is_no_root()?;
        check_weight(weight)?;
        self.state.weight.store(weight, Ordering::Relaxed);
        Ok(())
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

    /// Sets `cpu.max` and `cpu.max.burst`. Throttled futures run again, without debt.
    ///
    /// # Errors
    /// The limit is out of range ([`CpuMax::check`]), or this is the root group, which has no
    /// limit.
    pub fn set_max(&self, max: CpuMax) -> Result<(), GroupSetError> {
        self.check_is_no_root()?;
        max.check().map_err(|error| GroupSetError(error.to_string()))?;
        if let Some(waits) = self.state.account.set(self.state.shared.clock.now(), max) {
            waits.wake();
        }
        Ok(())
    }

    /// Returns the limit.
    #[must_use]
    pub fn max(&self) -> CpuMax {
        self.state.account.max()
    }

    /// Returns the usage so far; O(groups) for the root.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let state = &self.state;
        let (mut cpu, mut lost) = (state.used(), state.lost.load(Ordering::Relaxed));
        if state.parent.is_none() {
            for group in state.shared.live() {
                if group.parent.as_ref().is_some_and(|parent| parent.parent.is_none()) {
                    cpu += group.used();
                    lost += group.lost.load(Ordering::Relaxed);
                }
            }
        }
        Usage { cpu: Duration::from_nanos(cpu), lost: Duration::from_nanos(lost), stat: state.account.stat() }
    }
}
