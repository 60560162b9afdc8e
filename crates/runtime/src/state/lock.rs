//! [`LockQueue`]: the holder and the waiters of a lock ([`mutex`](crate::mutex)).

use crate::sync::Mutex as RawMutex;
use std::sync::Arc;
use std::task::Waker;
use zerolag_core::{Lent, WaitQueue};
use zerolag_model::{Nice, Prio, TaskId};

/// The holder and the waiters of a lock.
///
/// Every decision is one critical section of `state`: a lock that is free has no waiters, so no
/// task can take it between the arrival of a waiter and the grant. Loans are brought up to date
/// after the section ([`boost`](crate::boost)).
#[derive(Debug)]
pub(crate) struct LockQueue<T> {
    pub(crate) state: RawMutex<LockState<T>>,
}

#[derive(Debug)]
pub(crate) struct LockState<T> {
    pub(crate) is_held: bool,
    /// The task that holds the lock; `None` if the holder is a thread outside the runtime.
    pub(crate) holder: Option<Arc<T>>,
    /// The tickets of the waiters, most urgent first.
    pub(crate) queue: WaitQueue,
    pub(crate) waiters: Vec<LockWaiter<T>>,
    /// The tickets in the queue whose loans would change a fair task of nice 0.
    pub(crate) raising: usize,
    pub(crate) tickets: u32,
}

#[derive(Debug)]
pub(crate) struct LockWaiter<T> {
    pub(crate) ticket: TaskId,
    pub(crate) task: Option<Arc<T>>,
    pub(crate) lends: Lent,
    /// `None` once it was called.
    pub(crate) waker: Option<Waker>,
    /// The lock has been handed to this waiter, which has not taken it yet.
    pub(crate) is_granted: bool,
}

impl<T> Default for LockQueue<T> {
    fn default() -> Self {
        let (queue, waiters) = (WaitQueue::default(), Vec::new());
        Self {
            state: RawMutex::new(LockState { is_held: false, holder: None, queue, waiters, raising: 0, tickets: 0 }),
        }
    }
}

/// The loan of a fair task of nice 0.
pub(crate) const PLAIN: Lent = Lent::Prio(Prio::from_nice(Nice::ZERO));

/// Returns whether a loan changes a fair task of nice 0.
pub(crate) fn raises_plain(lends: Lent) -> bool {
    lends.beats(PLAIN)
}

impl<T> LockState<T> {
    pub(crate) fn push(&mut self, waiter: LockWaiter<T>) {
        self.queue.push_lender(waiter.ticket, waiter.lends);
        self.raising += usize::from(raises_plain(waiter.lends));
        self.waiters.push(waiter);
    }

    pub(crate) fn index_of(&self, ticket: TaskId) -> Option<usize> {
        self.waiters.iter().position(|waiter| waiter.ticket == ticket)
    }
}

impl<T> LockQueue<T> {
    /// Returns the loan of the most urgent waiter.
    pub(crate) fn most_urgent(&self) -> Option<Lent> {
        let state = self.state.lock();
        let first = state.queue.first()?;
        state.index_of(first).map(|place| state.waiters[place].lends)
    }

    /// Returns the task that holds the lock.
    pub(crate) fn holder(&self) -> Option<Arc<T>> {
        self.state.lock().holder.clone()
    }

    /// Returns whether any task or thread waits for the lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().queue.first().is_some()
    }

    /// Returns the tasks that wait for the lock; `None` is a thread outside the runtime.
    pub(crate) fn waiters(&self) -> Vec<Option<Arc<T>>> {
        let state = self.state.lock();
        state.waiters.iter().filter(|waiter| !waiter.is_granted).map(|waiter| waiter.task.clone()).collect()
    }
}
