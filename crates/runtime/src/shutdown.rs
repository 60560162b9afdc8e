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

use crate::state::engine::Engine;
use crate::state::info::{TaskInfo, TaskState};
use crate::state::task::Task;
use crate::state::time_source::std_now;
use crate::sync::{is_finished, thread};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a shutdown waits for destructors and for polls that were asked to yield, after it has
/// aborted the remaining tasks.
const GRACE: Duration = Duration::from_millis(100);

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
        if !self.live_tasks.wait(limit) {
            self.refuse_tasks();
            let tasks = self.live_tasks();
            unfinished = tasks.iter().map(|task| task.info()).collect();
            tasks.iter().for_each(Task::abort); // [1]
            drop(tasks);
            self.live_tasks.wait(GRACE);
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

    /// Ends all threads and aborts the remaining tasks. A task, or a waker that a thread of the
    /// runtime calls, can drop the last handle of the runtime; that thread cannot wait for its own
    /// end, so another thread does.
    pub(crate) fn end(self: &Arc<Self>) {
        self.stop();
        if self.owns_this_thread() {
            self.leave_to_another_thread();
        } else {
            self.wait_and_clear();
        }
    }

    /// Refuses further tasks.
    pub(crate) fn refuse_tasks(&self) {
        let _closed = self.spawning.write();
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Asks all threads to end.
    pub(crate) fn stop(&self) {
        self.refuse_tasks();
        self.is_stopping.store(true, Ordering::SeqCst);
        self.timeline.stop();
        self.pool.close();
        self.blocking.close();
        self.callbacks.close();
    }

    /// Waits for the ends of the threads on a thread of its own.
    pub(crate) fn leave_to_another_thread(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        // If no thread can be started, the tasks are never dropped; their threads end all the same.
        let _ = thread::Builder::new().name("zerolag-end".to_owned()).spawn(move || engine.wait_and_clear());
    }

    /// Wakes the threads of the CPUs, and asks their polls to yield.
    fn call_all(&self) {
        for cpu in &self.cpus {
            cpu.is_kicked.store(true, Ordering::SeqCst); // so that checkpoints yield
            cpu.thread.lock().unpark();
        }
    }

    /// Returns whether all threads have ended, after at most `limit`. There is no real time in unit
    /// tests: it returns `true` there, and the threads are waited for.
    pub(crate) fn threads_end_within(&self, limit: Duration) -> bool {
        let began = std_now();
        loop {
            self.call_all();
            if cfg!(test) || self.threads.lock().iter().all(is_finished) {
                return true;
            }
            if began.elapsed() >= limit {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn wait_and_clear(&self) {
        loop {
            self.call_all();
            let Some(thread) = self.threads.lock().pop() else { break };
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "a thread of the runtime must not panic");
        }
        self.clear();
    }

    /// Aborts the remaining tasks once all threads have ended. Dropping their futures can drop
    /// handles of other tasks.
    fn clear(&self) {
        for id in self.tasks.ids() {
            if let Some(task) = self.tasks.take(id) {
                task.cancel();
                task.announce();
                self.live_tasks.remove();
            }
        }
    }
}
