//! [`shutdown`](crate::Runtime::shutdown): the end of a runtime that waits for its tasks, but not
//! forever.
//!
//! ```text
//!              all tasks have ended            all threads have ended [2]
//!    Draining --------------------------> Ending ------------------------> Ended
//!        |                                 ^   |
//!        | the time has passed:            |   | GRACE has passed: polls go on, and
//!        | the tasks are aborted [1]       |   | another thread waits for them [3]
//!        +--> Aborting --------------------+   +------------------------> Left
//!                       they have ended, or GRACE has passed
//! ```

use crate::engine::Engine;
use crate::report::{TaskInfo, TaskState};
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex};
use crate::task::Task;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a shutdown waits for destructors and for polls that were asked to yield, after it has
/// aborted the remaining tasks.
const GRACE: Duration = Duration::from_millis(100);

/// The number of live tasks, and a place to wait for the last of them.
#[derive(Debug)]
pub(crate) struct Census {
    live: AtomicUsize,
    is_awaited: AtomicBool,
    lock: Mutex<()>,
    is_empty: Condvar,
}

impl Default for Census {
    fn default() -> Self {
        let (live, is_awaited) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { live, is_awaited, lock: Mutex::default(), is_empty: Condvar::default() }
    }
}

impl Census {
    pub(crate) fn add(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
    }

    /// The order is that of a sleeper and its waker: here the count is changed before `is_awaited`
    /// is read; in `wait` it is the other way round.
    pub(crate) fn remove(&self) {
        let was = self.live.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(was > 0, "a task ends once");
        if was == 1 && self.is_awaited.load(Ordering::SeqCst) {
            let _lock = self.lock.lock();
            self.is_empty.notify_all();
        }
    }

    /// Waits until no task lives, for at most `limit`. Returns whether none does.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = crate::clock::std_now().checked_add(limit);
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

/// The result of [`Runtime::shutdown`](crate::Runtime::shutdown).
#[derive(Clone, Debug)]
#[must_use = "it says which tasks did not end"]
pub struct Shutdown {
    /// The tasks that had not ended when the time had passed, by id. They were aborted.
    pub unfinished: Vec<TaskInfo>,
    /// Whether all threads have ended. Otherwise polls, or functions of `spawn_blocking`, are still
    /// in progress; their threads end with them.
    pub is_complete: bool,
}

impl fmt::Display for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let polled = self.unfinished.iter().filter(|task| task.state == TaskState::Polled).count();
        match (self.unfinished.len(), polled) {
            (0, _) => f.write_str("all tasks have ended")?,
            (all, polled) => write!(f, "{all} tasks did not end, {polled} of them in a poll:")?,
        }
        self.unfinished.iter().try_for_each(|task| write!(f, "\n  {task}"))
    }
}

impl Engine {
    pub(crate) fn shut_down(self: &Arc<Self>, limit: Duration) -> Shutdown {
        let mut unfinished = Vec::new();
        if !self.census.wait(limit) {
            self.close_door();
            let tasks = self.live_tasks();
            unfinished = tasks.iter().map(|task| task.info()).collect();
            tasks.iter().for_each(Task::abort); // [1]
            drop(tasks);
            self.census.wait(GRACE);
        }
        self.stop();
        let is_complete = self.threads_end_within(GRACE);
        if is_complete {
            self.wait_and_clear(); // [2]
        } else {
            self.leave_to_another_thread(); // [3]
        }
        Shutdown { unfinished, is_complete }
    }
}
