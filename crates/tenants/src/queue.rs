//! [`Queue`]: polls of a group that wait at its gate, in the order of their arrival.
//!
//! Only the first does something while it waits: it has the timer, or looks again. Whatever leaves
//! the queue (a poll that goes on, a future that is dropped) wakes the first of those that are
//! left, so there is always one that is awake or has a timer, and never a crowd.
//!
//! A future can be kept without being polled: `select!` has another branch, a stream is full. It
//! would hold all others up. So the first is looked at from time to time ([`watch`](Queue::watch)):
//! if it was not polled since, it is woken, and if it still is not, it is passed over until it is.

use crate::sync::{AtomicUsize, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
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
    /// By ticket.
    polls: BTreeMap<u64, Waits>,
    next: u64,
}

#[derive(Default)]
struct Waits {
    /// `None` if it was not pending yet.
    waker: Option<Waker>,
    /// How often it was looked at as the first since it was polled.
    looks: u8,
}

impl Waits {
    const fn is_passed_over(&self) -> bool {
        self.looks >= 2
    }
}

impl Waiting {
    fn first(&mut self) -> Option<(u64, &mut Waits)> {
        self.polls.iter_mut().find(|(_, waits)| !waits.is_passed_over()).map(|(ticket, waits)| (*ticket, waits))
    }
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
        let wakers: Vec<Waker> = self.lock().polls.values().filter_map(|waits| waits.waker.clone()).collect();
        for waker in wakers {
            waker.wake();
        }
    }

    /// Joins it; returns the ticket.
    pub(crate) fn join(&self) -> u64 {
        let mut waiting = self.lock();
        let ticket = waiting.next;
        waiting.next += 1;
        waiting.polls.insert(ticket, Waits::default());
        self.len.store(waiting.polls.len(), Ordering::Relaxed);
        ticket
    }

    /// Waits on; returns whether it is the first.
    pub(crate) fn wait(&self, ticket: u64, waker: &Waker) -> bool {
        let mut waiting = self.lock();
        let place = waiting.polls.get_mut(&ticket).expect("invariant: a ticket is in the queue until it leaves");
        place.looks = 0;
        let replaced = match &place.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => place.waker.replace(waker.clone()),
        };
        let is_first = waiting.first().is_some_and(|(first, _)| first == ticket);
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

    /// Looks at the first: see the [module](self).
    pub(crate) fn watch(&self) {
        if self.is_empty() {
            return;
        }
        let mut waiting = self.lock();
        let Some((_, first)) = waiting.first() else { return };
        first.looks += 1;
        // Itself, or the next one if it is passed over from here on.
        let woken = waiting.first().and_then(|(_, waits)| waits.waker.clone());
        drop(waiting);
        if let Some(woken) = woken {
            woken.wake();
        }
    }

    /// Returns the waker of the first.
    pub(crate) fn first(&self) -> Option<Waker> {
        if self.is_empty() {
            return None;
        }
        self.lock().first().and_then(|(_, waits)| waits.waker.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::thread;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::{Poll, Wake};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whatever_leaves_wakes_the_first_of_the_others() {
        shuttle::check_random(
            || {
                let queue = Queue::default();
                let counts: [Arc<Count>; 3] = std::array::from_fn(|_| Arc::default());
                let tickets = [(); 3].map(|()| queue.join());
                let first: Vec<bool> =
                    (0..3).map(|n| queue.wait(tickets[n], &Waker::from(Arc::clone(&counts[n])))).collect();
                assert_eq!(first, [true, false, false]);
                let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
                queue.leave(tickets[0]);
                assert_eq!(woken(), [0, 1, 0]);
                queue.leave(tickets[1]);
                assert_eq!(woken(), [0, 1, 1]);
                queue.leave(tickets[2]);
                assert!(queue.is_empty());
                assert_eq!(woken(), [0, 1, 1]);
            },
            1,
        );
    }

    #[test]
    fn one_that_is_not_polled_is_passed_over_until_it_is() {
        shuttle::check_random(
            || {
                let queue = Queue::default();
                let counts: [Arc<Count>; 2] = std::array::from_fn(|_| Arc::default());
                let wakers = counts.each_ref().map(|count| Waker::from(Arc::clone(count)));
                let tickets = [(); 2].map(|()| queue.join());
                let wait = |n: usize| queue.wait(tickets[n], &wakers[n]);
                let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
                assert_eq!([wait(0), wait(1)], [true, false]);
                queue.watch();
                assert_eq!(woken(), [1, 0]);
                assert_eq!([wait(0), wait(1)], [true, false], "it is polled");
                queue.watch();
                queue.watch();
                assert_eq!(woken(), [2, 1]);
                assert!(wait(1));
                assert_eq!([wait(0), wait(1)], [true, false], "it is back in its place");
            },
            1,
        );
    }

    #[test]
    fn one_that_was_never_pending_is_passed_over_by_its_own_poll() {
        shuttle::check_random(
            || {
                let queue = Queue::default();
                let (first, second) = (queue.join(), queue.join());
                queue.leave(first);
                assert!(queue.wait(second, Waker::noop()), "it is being polled, and finds that it is the first");
            },
            1,
        );
    }

    /// Polls that join, wait, are dropped and go on, while another thread opens the gate and others
    /// look: all that are not dropped go on.
    #[test]
    fn no_order_of_steps_loses_a_wakeup() {
        shuttle::check_random(
            || {
                let (queue, open) = (Arc::new(Queue::default()), Arc::new(AtomicUsize::new(0)));
                let polls: Vec<_> = (0..3)
                    .map(|n| {
                        let (queue, open) = (Arc::clone(&queue), Arc::clone(&open));
                        thread::spawn(move || {
                            let ticket = queue.join();
                            let passes = poll_fn(|cx| {
                                let is_first = queue.wait(ticket, cx.waker());
                                let is_open = open.load(Ordering::SeqCst) > 0;
                                // The second is dropped at once, wherever it is.
                                if is_first && is_open || n == 1 { Poll::Ready(()) } else { Poll::Pending }
                            });
                            shuttle::future::block_on(passes);
                            queue.leave(ticket);
                        })
                    })
                    .collect();
                queue.watch();
                open.store(1, Ordering::SeqCst);
                if let Some(first) = queue.first() {
                    first.wake();
                }
                for poll in polls {
                    poll.join().expect("it goes on");
                }
                assert!(queue.is_empty());
            },
            3000,
        );
    }
}
