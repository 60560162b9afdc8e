//! [`LoadedPolicy`]: a policy that a host has loaded ([`Scheduler::load_policy`]), and its queues.
//!
//! The policy and the state that it sees are one value under one inner lock: a callback borrows
//! both, and no callback calls another. All queues of the class are in there, also the local ones
//! of CPUs. The run queues have the bodies: a body follows its task to the CPU of its local queue
//! ([`crate::balance::policy`]).
//!
//! [`Scheduler::load_policy`]: crate::Scheduler::load_policy

use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use lock_api::{Mutex, MutexGuard, RawMutex};
use zerolag_model::{Duration, TaskId};
use zerolag_policy::Host;

/// A policy, if one has been loaded.
#[derive(Debug)]
pub(crate) struct LoadedPolicy<L: RawMutex> {
    loaded: Mutex<L, Option<Box<Loaded>>>,
    /// [`NONE`], [`LOADED`] or [`EJECTED`].
    state: AtomicU8,
}

/// No policy has been loaded.
const NONE: u8 = 0;
/// One is loaded.
const LOADED: u8 = 1;
/// It has been unloaded: its tasks become fair ones.
const EJECTED: u8 = 2;

/// A loaded policy.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) host: Host,
    /// The names of tasks, and the periods of their timers, by id.
    pub(crate) known: Vec<(Arc<str>, Option<Duration>)>,
}

snapshot_of!(LoadedPolicy<L>, L: { loaded state });

impl<L: RawMutex> LoadedPolicy<L> {
    pub(crate) const fn none() -> Self {
        Self { loaded: Mutex::new(None), state: AtomicU8::new(NONE) }
    }

    pub(crate) fn load(&self, host: Host) {
        *self.loaded.lock() = Some(Box::new(Loaded { host, known: Vec::new() }));
        self.state.store(LOADED, Ordering::Release);
    }

    /// Returns the policy under its lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, L, Option<Box<Loaded>>> {
        self.loaded.lock()
    }

    /// Returns whether a policy is, or was, loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// Notes that the policy has been unloaded; returns whether that is new.
    pub(crate) fn eject(&self) -> bool {
        self.state.swap(EJECTED, Ordering::AcqRel) != EJECTED
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.state.load(Ordering::Acquire) == EJECTED
    }
}

impl Loaded {
    /// Notes the name of a task, and the period of its timer.
    pub(crate) fn know(&mut self, task: TaskId, name: Arc<str>, period: Option<Duration>) {
        if self.known.len() <= task.index() {
            self.known.resize_with(task.index() + 1, || ("".into(), None));
        }
        self.known[task.index()] = (name, period);
    }

    pub(crate) fn known(&self, task: TaskId) -> (Arc<str>, Option<Duration>) {
        self.known.get(task.index()).cloned().unwrap_or_else(|| ("".into(), None))
    }
}
