//! [`Queue`]: polls of a group that wait at its gate, in the order of their arrival.
//!
//! Only the first does something while it waits: it has the timer, or looks again. Whatever leaves
//! the queue (a poll that goes on, a future that is dropped) wakes the first of those that are
//! left, so there is always one that is awake or has a timer, and never a crowd.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Queue {
    /// The number of waiting polls, for looks without the lock.
    len: AtomicUsize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// By ticket. A poll that was not pending yet has no waker.
    polls: BTreeMap<u64, Option<Waker>>,
    next: u64,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes all that wait. O(n).
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = self.lock().polls.values().flatten().cloned().collect();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Joins it; returns the ticket.
    pub(crate) fn join(&self) -> u64 {
        let mut waiting = self.lock();
        let ticket = waiting.next;
        waiting.next += 1;
        waiting.polls.insert(ticket, None);
        self.len.store(waiting.polls.len(), Ordering::Relaxed);
        ticket
    }

    /// Waits on; returns whether it is the first.
    pub(crate) fn wait(&self, ticket: u64, waker: &Waker) -> bool {
        let mut waiting = self.lock();
        let place = waiting.polls.get_mut(&ticket).expect("invariant: a ticket is in the queue until it leaves");
        let replaced = match place {
            Some(known) if known.will_wake(waker) => None,
            _ => place.replace(waker.clone()),
        };
        let is_first = waiting.polls.first_key_value().is_some_and(|(first, _)| *first == ticket);
        drop(waiting);
        drop(replaced);
        is_first
    }

    /// Leaves it, and wakes the first of those that are left.
    pub(crate) fn leave(&self, ticket: u64) {
        let mut waiting = self.lock();
        let own = waiting.polls.remove(&ticket);
        self.len.store(waiting.polls.len(), Ordering::Relaxed);
        drop(waiting);
        drop(own);
        if let Some(first) = self.first() {
            first.wake();
        }
    }

    /// Returns the waker of the first.
    pub(crate) fn first(&self) -> Option<Waker> {
        if self.is_empty() {
            return None;
        }
        self.lock().polls.first_key_value().and_then(|(_, waker)| waker.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whatever_leaves_wakes_the_first_of_the_others() {
        let queue = Queue::default();
        let counts: [Arc<Count>; 3] = std::array::from_fn(|_| Arc::default());
        let tickets = [(); 3].map(|()| queue.join());
        let first: Vec<bool> = (0..3).map(|n| queue.wait(tickets[n], &Waker::from(Arc::clone(&counts[n])))).collect();
        assert_eq!(first, [true, false, false]);
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
        queue.leave(tickets[0]);
        assert_eq!(woken(), [0, 1, 0]);
        queue.leave(tickets[1]);
        assert_eq!(woken(), [0, 1, 1]);
        queue.leave(tickets[2]);
        assert!(queue.is_empty());
        assert_eq!(woken(), [0, 1, 1]);
    }

    #[test]
    fn one_that_was_never_pending_is_passed_over_by_its_own_poll() {
        let queue = Queue::default();
        let (first, second) = (queue.join(), queue.join());
        queue.leave(first);
        assert!(queue.wait(second, Waker::noop()), "it is being polled, and finds that it is the first");
    }
}
