//! [`GroupState`]: the part of a group that its tasks, children and handles share.

use super::detached::HeldBack;
use super::engine::Engine;
use super::spared::Spared;
use super::task::Task;
use crate::latency::Latency;
use crate::meter::Measured;
use crate::sync::{AtomicBool, AtomicU64, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_model::{CpuId, Duration, GroupId};

/// A debt that is paid in passing. The runtime's own work leaves one at most ticks, and a task that
/// starts would not begin at once because of some microseconds.
pub(crate) const SMALL_DEBT: Duration = Duration::from_micros(100);

/// The part of a group that its tasks, children and handles share; the group is removed with the
/// last of them.
pub(crate) struct GroupState {
    pub(crate) id: GroupId,
    pub(crate) name: String,
    pub(crate) parent: Option<Arc<GroupState>>,
    pub(crate) engine: Arc<Engine>,
    /// The CPU time of its tasks and those of its children. CPUs add to it at every switch, each
    /// to its own part: one number for all would be a cache line that they take from each other.
    pub(crate) used: Box<[UsedThere]>,
    /// The time for which they were polled without a processor, in nanoseconds.
    pub(crate) lost: AtomicU64,
    pub(crate) is_limited: AtomicBool,
    /// Counted only if the runtime was built to.
    pub(crate) latency: Option<Box<Latency>>,
    pub(crate) spared: Mutex<Spared>,
    pub(crate) held_back: HeldBack<Task>,
    /// How many functions of `spawn_blocking` can run at a time.
    pub(crate) blocking_max: usize,
    /// The CPU time that ended tasks owe, in nanoseconds; the next task of the group is charged.
    debt: AtomicU64,
}

impl GroupState {
    pub(crate) fn root(engine: &Arc<Engine>) -> Arc<Self> {
        let engine = Arc::clone(engine);
        Arc::new(Self::new(GroupId::ROOT, "/".to_owned(), None, engine))
    }

    pub(crate) fn new(id: GroupId, name: String, parent: Option<Arc<Self>>, engine: Arc<Engine>) -> Self {
        let [lost, debt] = [0; 2].map(AtomicU64::new);
        let used = (0..engine.cpus.len().min(PARTS)).map(|_| UsedThere::default()).collect();
        let is_limited = AtomicBool::new(false);
        let (latency, spared, held_back) =
            (engine.is_measuring.then(Box::default), Mutex::default(), HeldBack::default());
        let blocking_max = usize::MAX;
        Self { id, name, parent, engine, used, lost, is_limited, latency, spared, held_back, blocking_max, debt }
    }

    /// Returns the innermost group from here upwards that has a limit. O(depth).
    pub(crate) fn limited(self: &Arc<Self>) -> Option<&Arc<Self>> {
        self.line().find(|group| group.is_limited.load(Ordering::Relaxed))
    }

    /// Returns whether it is a group or below it. O(depth).
    pub(crate) fn is_within(self: &Arc<Self>, other: &Arc<Self>) -> bool {
        self.line().any(|group| Arc::ptr_eq(group, other))
    }

    /// Returns whether it is the group of this name directly below a parent.
    pub(crate) fn is_child(&self, name: &str, of: Option<&Arc<Self>>) -> bool {
        self.name == name && self.parent.as_ref().map(Arc::as_ptr) == of.map(Arc::as_ptr)
    }

    fn line(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |group| group.parent.as_ref())
    }

    /// Charges CPU time that no CPU of the scheduler has measured: it is used already, and the next
    /// task pays.
    pub(crate) fn charge(self: &Arc<Self>, cpu: CpuId, time: Duration) {
        self.add_usage(cpu, Measured { ran: time, lost: Duration::ZERO });
        self.owe(time);
    }

    /// Makes the next task of the limited group pay, whichever of the groups below it is in;
    /// without a limit the next task of this group.
    pub(crate) fn owe(self: &Arc<Self>, time: Duration) {
        if !time.is_zero() {
            let debtor = self.limited().unwrap_or(self);
            debtor.debt.fetch_add(time.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Returns whether a task that starts would have to pay more than a little.
    #[cfg(feature = "tower")]
    pub(crate) fn owes(&self) -> bool {
        self.debtors().map(|group| group.debt.load(Ordering::Relaxed)).sum::<u64>() >= SMALL_DEBT.as_nanos()
    }

    /// Takes what a task that starts has to pay. O(depth).
    pub(crate) fn take_debt(&self) -> Duration {
        // Most groups owe nothing; a swap would write.
        let owing = self.debtors().filter(|group| group.debt.load(Ordering::Relaxed) > 0);
        Duration::from_nanos(owing.map(|group| group.debt.swap(0, Ordering::Relaxed)).sum())
    }

    /// Returns the groups whose debts a task of this one pays. The debts of the root are those of
    /// its own tasks.
    fn debtors(&self) -> impl Iterator<Item = &Self> {
        let above = std::iter::successors(self.parent.as_deref(), |group| group.parent.as_deref());
        std::iter::once(self).chain(above.filter(|group| group.parent.is_some()))
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
pub(crate) struct UsedThere(pub(crate) AtomicU64);

impl GroupState {
    /// Returns its path from the root, which is `/`.
    pub(crate) fn path(&self) -> String {
        self.parent.as_ref().map_or_else(|| "/".to_owned(), |above| path_of(above, &self.name))
    }
}

pub(crate) fn path_of(parent: &GroupState, name: &str) -> String {
    match &parent.parent {
        None => format!("/{name}"),
        Some(above) => format!("{}/{name}", path_of(above, &parent.name)),
    }
}
