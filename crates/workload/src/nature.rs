//! Properties of each action, for code that need not know the action itself: whether the task can
//! sleep in it, its effect on a lock, where it waits or wakes, and whether time passes.
//!
//! A `match` over all actions in each such place would be forgotten when an action is added. So
//! there is one row per action, which a new action needs as well.

use crate::program::{Action, KernelAction, ResourceId};
use crate::random::Dist;

/// The effect of an action on a lock: a mutex, a semaphore of the kernel or a spinning lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Takes it, and can sleep until it is free.
    Takes,
    /// Takes it, and spins until it is free: its holder may not sleep.
    Spins,
    /// Releases it.
    Gives,
    /// Requires that it is held.
    Needs,
}

/// Whether time passes in an action.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Passing<'a> {
    /// It can take no time.
    Instant,
    /// The drawn time.
    Drawn(&'a Dist),
    /// The time until an event elsewhere.
    Waits,
    /// A time that depends on this resource.
    Of(ResourceId),
}

/// The properties of an action.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Nature<'a> {
    /// The task can sleep in it (the kernel's `might_sleep`).
    pub may_sleep: bool,
    /// Its effect on which lock.
    pub lock: Option<(Hold, ResourceId)>,
    /// The resource at which it waits: another task must wake it there.
    pub waits_at: Option<ResourceId>,
    /// The resource at which it wakes tasks.
    pub wakes_at: Option<ResourceId>,
    /// Whether time passes.
    pub time: Passing<'a>,
}

impl<'a> Nature<'a> {
    const INSTANT: Self = Self { may_sleep: false, lock: None, waits_at: None, wakes_at: None, time: Passing::Instant };

    const fn drawn(time: &'a Dist) -> Self {
        Self { time: Passing::Drawn(time), ..Self::INSTANT }
    }

    const fn hold(hold: Hold, lock: ResourceId) -> Self {
        Self { lock: Some((hold, lock)), may_sleep: matches!(hold, Hold::Takes), ..Self::INSTANT }
    }

    const fn waits(at: ResourceId) -> Self {
        Self { may_sleep: true, waits_at: Some(at), time: Passing::Waits, ..Self::INSTANT }
    }

    const fn wakes(at: ResourceId) -> Self {
        Self { wakes_at: Some(at), ..Self::INSTANT }
    }

    const fn sleeping(self) -> Self {
        Self { may_sleep: true, ..self }
    }
}

impl Action {
    /// Returns the properties of the action.
    #[must_use]
    pub const fn nature(&self) -> Nature<'_> {
        match self {
            Self::Run(time) | Self::Kernel(time) | Self::Spin { wall: time, .. } => Nature::drawn(time),
            Self::Sleep(time) | Self::Timer { period: time, .. } => Nature::drawn(time).sleeping(),
            Self::Lock(lock) => Nature::hold(Hold::Takes, *lock),
            Self::Unlock(lock) => Nature::hold(Hold::Gives, *lock),
            Self::Wait { condition, mutex } => {
                Nature { lock: Some((Hold::Needs, *mutex)), ..Nature::waits(*condition) }
            }
            // It wakes before it waits: two tasks that sync wake each other.
            Self::Sync { condition, mutex } => {
                Nature { lock: Some((Hold::Needs, *mutex)), wakes_at: Some(*condition), ..Nature::waits(*condition) }
            }
            Self::SemWait(at) | Self::Suspend(at) | Self::PipeRead { pipe: at, .. } => Nature::waits(*at),
            // When the pipe is full it waits for a reader. The check of waits does not demand one,
            // because a pipe can have room for all writes.
            Self::PipeWrite { pipe, .. } => Nature { time: Passing::Waits, ..Nature::wakes(*pipe) }.sleeping(),
            Self::Signal(at) | Self::Broadcast(at) | Self::SemPost(at) | Self::Resume(at) => Nature::wakes(*at),
            Self::Barrier(barrier) => Nature { time: Passing::Of(*barrier), ..Nature::INSTANT }.sleeping(),
            Self::Take(_) | Self::Call(_) => Nature { time: Passing::Waits, ..Nature::INSTANT }.sleeping(),
            Self::Complete(_) | Self::Send(_) | Self::Yield | Self::Fork(_) | Self::Stamp(_) => Nature::INSTANT,
            Self::InKernel(action) => action.nature(),
        }
    }
}

impl KernelAction {
    /// Returns the properties of the action.
    #[must_use]
    pub const fn nature(&self) -> Nature<'_> {
        match self {
            Self::IrqsOff(time) => Nature::drawn(time),
            Self::Down { semaphore, .. } => Nature::hold(Hold::Takes, *semaphore),
            Self::SpinLock(lock) => Nature::hold(Hold::Spins, *lock),
            // Its waiters never sleep.
            Self::UserSpinLock(lock) => Nature { lock: Some((Hold::Takes, *lock)), ..Nature::INSTANT },
            Self::SpinUnlock(lock) | Self::UserSpinUnlock(lock) | Self::Up { semaphore: lock, .. } => {
                Nature::hold(Hold::Gives, *lock)
            }
            Self::Io { disk, .. } => Nature { time: Passing::Of(*disk), ..Nature::INSTANT }.sleeping(),
            Self::Read(read) => Nature::drawn(&read.copy).sleeping(),
            Self::SynchronizeRcu => Nature { time: Passing::Waits, ..Nature::INSTANT }.sleeping(),
            Self::SyscallEnter
            | Self::SyscallExit
            | Self::CondResched
            | Self::PreemptDisable
            | Self::PreemptEnable
            | Self::BhDisable
            | Self::BhEnable
            | Self::Softirqs
            | Self::SoftTimers
            | Self::RcuLock
            | Self::RcuUnlock
            | Self::RcuPeriods
            | Self::RcuBoost => Nature::INSTANT,
        }
    }
}
