//! Sparing: a task that holds a lock runs on although its group has no quota left.
//!
//! Without it, a task of another group that waits for the lock waits for the quota of a group that
//! it is not in. But a lock is no ticket around a limit:
//!
//! * A holder is spared only while a task from outside its limited group, or a thread outside the
//!   runtime, waits for the lock, or for a lock whose holder waits for this one, and so on.
//! * All tasks of a limited group together are spared for at most `spare_at_most` of CPU time in
//!   [a window](crate::state::spared).
//! * The time is charged: time in kernel mode at once, by the scheduler; time with a borrowed
//!   priority as a debt, when a task of the group runs next.
//!
//! A running holder is spared in kernel mode: it keeps its place among the fair tasks. A holder
//! that is queued when the waiter comes can be stopped already; no call of the core continues it in
//! kernel mode, so it borrows the lowest real-time priority (*lifted*).

use crate::state::engine::Engine;
use crate::state::group::GroupState;
use crate::state::task::Task;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_core::Home;
use zerolag_model::Duration;

/// The longest chain of waiting tasks from a holder to a task outside.
const CHAIN_MAX: u32 = 8;

impl Engine {
    /// Returns whether a task may run although its group has no quota left. `running` is the time
    /// of its current poll.
    pub(crate) fn spares(&self, task: &Task, running: Duration) -> bool {
        let Some(limited) = task.group.limited().filter(|_| task.kind.is_fair()) else { return false };
        is_wanted(task, limited, CHAIN_MAX) && limited.spared.lock().has_left(self.now(), self.spare_at_most, running)
    }

    /// Decides whether a holder borrows a priority; called by the thread that brings its loan up to
    /// date.
    pub(crate) fn lift(&self, task: &Task) {
        let is_lifted = self.spares(task, Duration::ZERO)
            && (task.is_lifted.load(Ordering::Relaxed) || !self.is_running(task) && !task.is_in_kernel());
        task.is_lifted.store(is_lifted, Ordering::Relaxed);
    }

    fn is_running(&self, task: &Task) -> bool {
        let Home::Rq(cpu) = self.scheduler.home(task.id) else { return true };
        self.cpus[cpu.index()].queue.lock().rq.current() == Some(task.id)
    }

    /// Accounts for a poll whose task was spared, or ran with a borrowed priority.
    pub(crate) fn charge(&self, task: &Task, was: PollCharge, took: Duration) {
        let Some(limited) = task.group.limited() else { return };
        if was.is_spared {
            limited.spared.lock().add(took);
        }
        if was.is_borrowed {
            task.owe(took);
        }
    }
}

/// How a poll of a task with a limit is paid for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollCharge {
    is_spared: bool,
    is_limited: bool,
    /// Its class is not its own, so the scheduler charges its group nothing.
    is_borrowed: bool,
}

impl PollCharge {
    pub(crate) fn of(task: &Task) -> Self {
        let is_lifted = task.is_lifted.load(Ordering::Relaxed);
        let is_limited = task.group.limited().is_some();
        Self { is_spared: is_lifted || task.is_in_kernel(), is_limited, is_borrowed: task.has_borrowed_class() }
    }

    /// Returns whether the time of the poll has to be known.
    pub(crate) const fn is_timed(self) -> bool {
        self.is_limited && (self.is_spared || self.is_borrowed)
    }
}

/// Returns whether a task from outside of a group waits for a task: for a lock that it holds, or
/// through a chain of locks.
fn is_wanted(task: &Task, group: &Arc<GroupState>, depth: u32) -> bool {
    let held = task.locks().held.lock().clone();
    held.iter().any(|line| {
        line.waiters().into_iter().any(|waiter| match waiter {
            None => true,
            Some(waiter) if !waiter.group.is_within(group) => true,
            Some(waiter) => depth > 0 && is_wanted(&waiter, group, depth - 1),
        })
    })
}
