//! [`LiveTasks`]: the number of live tasks, and a place to wait for the last of them.

use super::time_source::std_now;
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct LiveTasks {
    live: AtomicUsize,
    is_awaited: AtomicBool,
    lock: Mutex<()>,
    is_empty: Condvar,
}

impl Default for LiveTasks {
    fn default() -> Self {
        let (live, is_awaited) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { live, is_awaited, lock: Mutex::default(), is_empty: Condvar::default() }
    }
}

impl LiveTasks {
    pub(crate) fn add(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// The order is that of a sleeper and its waker: here the count is changed before `is_awaited`
    /// is read; in `wait` it is the other way round.
    pub(crate) fn remove(&self) {
        let was = self.live.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(was > 0, "a task must end once");
        if was == 1 && self.is_awaited.load(Ordering::SeqCst) {
            let _lock = self.lock.lock();
            self.is_empty.notify_all();
        }
    }

    /// Waits until no task lives, for at most `limit`. Returns whether none does.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = std_now().checked_add(limit);
        self.is_awaited.store(true, Ordering::SeqCst);
        let mut lock = self.lock.lock();
        let mut is_over = false;
        while self.live.load(Ordering::SeqCst) > 0 && !is_over {
            match until {
                Some(until) => is_over = self.is_empty.wait_until(&mut lock, until).timed_out(),
                None => self.is_empty.wait(&mut lock),
            }
        }
        self.live.load(Ordering::SeqCst) == 0
    }
}
