//! [`LoadedPolicy`]: a policy that a host has loaded ([`Scheduler::load_policy`]), and its queues.
//!
//! The policy and the state that it sees are one value under one inner lock: a callback borrows
//! both, and no callback calls another. All queues of the class are in there, also the local ones
//! of CPUs. The run queues have the bodies: a body follows its task to the CPU of its local queue
//! ([`crate::balance::policy`]).
//!
//! A policy is loaded from the start, or later, and can be unloaded ([`Phase`]):
//!
//! ```text
//!             load [1]                all tasks have come [2]
//!  Unloaded ------------> Loading ---------------------------> Loaded
//!     ^  ^                   |                                   |  |
//!     |  |                   | fault [3]         fault [3]       |  | unload [4]
//!     |  +--- Ejected <------+-----------------------------------+  v
//!     |         all tasks have gone [5]                         Unloading
//!     +-------------------------------------------------------------+
//! ```
//!
//! [`Scheduler::load_policy`]: crate::Scheduler::load_policy

use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use lock_api::{Mutex, MutexGuard, RawMutex};
use zerolag_model::settings::SchedExt;
use zerolag_model::{Duration, SchedAttr, TaskId};
use zerolag_policy::{ExitInfo, Host, Needs};

/// How far a policy is loaded (`scx_enable_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// None is loaded.
    Unloaded,
    /// Its tasks come to it.
    Loading,
    /// It has its tasks.
    Loaded,
    /// Its tasks become fair ones: its user unloads it.
    Unloading,
    /// Its tasks become fair ones: it has failed.
    Ejected,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Unloaded, Self::Loading, Self::Loaded, Self::Unloading, Self::Ejected];
}

/// A policy, if one has been loaded.
#[derive(Debug)]
pub(crate) struct LoadedPolicy<L: RawMutex> {
    loaded: Mutex<L, Option<Box<Loaded>>>,
    /// Whether there is a host of policies, which has one or waits for one.
    has_host: AtomicBool,
    /// The [`Phase`].
    phase: AtomicU8,
    /// Which tasks the scheduler of the class has ([`SchedExt`]).
    tasks: AtomicU8,
    /// Whether the policy asks for the work of tasks.
    wants_work: AtomicBool,
}

/// A loaded policy.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) host: Host,
    /// What the host has told of tasks, by id.
    pub(crate) known: Vec<Known>,
    /// Why policies were unloaded, but for those that their user unloaded.
    pub(crate) exits: Vec<ExitInfo>,
}

snapshot_of!(LoadedPolicy<L>, L: { loaded has_host phase tasks wants_work });

const MODES: [SchedExt; 3] = [SchedExt::Off, SchedExt::Partial, SchedExt::All];

impl<L: RawMutex> LoadedPolicy<L> {
    /// Returns the state of a machine without a policy, on which the scheduler of the class has
    /// these tasks.
    pub(crate) fn none(tasks: SchedExt) -> Self {
        Self {
            loaded: Mutex::new(None),
            has_host: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Unloaded as u8),
            tasks: AtomicU8::new(tasks as u8),
            wants_work: AtomicBool::new(false),
        }
    }

    /// Sets the host of policies, before the first run queue is made.
    pub(crate) fn set_host(&self, host: Host) {
        self.set_phase(if host.exit_info().is_some() { Phase::Unloaded } else { Phase::Loaded });
        self.follow_needs(host.ops().needs);
        *self.loaded.lock() = Some(Box::new(Loaded { host, known: Vec::new(), exits: Vec::new() }));
        self.has_host.store(true, Ordering::Release);
    }

    /// Returns the policy under its lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, L, Option<Box<Loaded>>> {
        self.loaded.lock()
    }

    /// Returns whether tasks of the class are those of a policy.
    pub(crate) fn has_host(&self) -> bool {
        self.has_host.load(Ordering::Acquire)
    }

    /// Follows what the policy asks of the workload.
    pub(crate) fn follow_needs(&self, needs: Needs) {
        self.wants_work.store(needs.has(Needs::WORK), Ordering::Release);
    }

    /// Returns whether the policy asks for the work of tasks.
    #[inline]
    pub(crate) fn wants_work(&self) -> bool {
        self.wants_work.load(Ordering::Acquire)
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Ordering::Acquire))]
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Returns which tasks the scheduler of the class has.
    pub(crate) fn tasks(&self) -> SchedExt {
        MODES[usize::from(self.tasks.load(Ordering::Acquire))]
    }

    pub(crate) fn set_tasks(&self, tasks: SchedExt) {
        self.tasks.store(tasks as u8, Ordering::Release);
    }

    /// Returns the attributes with which a task runs that asks for `attr`.
    pub(crate) fn governs(&self, attr: SchedAttr) -> SchedAttr {
        // What a task has of an earlier scheduler is what it asked for.
        self.tasks().governs(SchedExt::Off.governs(attr))
    }

    /// \[3\] The policy has failed, or wants to be unloaded: returns whether that is new.
    pub(crate) fn eject(&self) -> bool {
        match self.phase() {
            Phase::Unloaded | Phase::Ejected => false,
            Phase::Loading | Phase::Loaded | Phase::Unloading => {
                self.set_phase(Phase::Ejected);
                self.set_tasks(SchedExt::Off);
                true
            }
        }
    }
}

/// What the host tells of a task.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) name: Arc<str>,
    /// The period of its timer.
    pub(crate) period: Option<Duration>,
    /// The CPU time until it waits.
    pub(crate) work: Option<Duration>,
}

impl Known {
    fn nothing() -> Self {
        Self { name: "".into(), period: None, work: None }
    }
}

impl Loaded {
    /// Notes the name of a task, and the period of its timer.
    pub(crate) fn know(&mut self, task: TaskId, name: Arc<str>, period: Option<Duration>) {
        *self.entry(task) = Known { name, period, work: None };
    }

    /// Notes the CPU time until a task waits.
    pub(crate) fn know_work(&mut self, task: TaskId, work: Option<Duration>) {
        self.entry(task).work = work;
        self.host.set_work(task, work);
    }

    fn entry(&mut self, task: TaskId) -> &mut Known {
        if self.known.len() <= task.index() {
            self.known.resize_with(task.index() + 1, Known::nothing);
        }
        &mut self.known[task.index()]
    }

    pub(crate) fn known(&self, task: TaskId) -> Known {
        self.known.get(task.index()).cloned().unwrap_or_else(Known::nothing)
    }
}
