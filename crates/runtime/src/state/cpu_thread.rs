//! [`CpuThread`]: the thread that runs a CPU's tasks, and the poll that it is in.

use crate::marks::Signals;
use crate::meter::ThreadClock;
use crate::patience::{Request, Sample};
use crate::sync::thread::Thread;
use std::sync::Arc;
use zerolag_model::{Duration, Instant};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CpuThread<T> {
    /// Incremented whenever the CPU is handed over to another thread.
    pub(crate) epoch: u64,
    pub(crate) handle: Option<Thread>,
    /// The thread's id in the kernel.
    pub(crate) tid: Option<rustix::thread::Pid>,
    pub(crate) polling: Option<Polling<T>>,
    /// What the thread is told.
    pub(crate) signals: Arc<Signals>,
}

/// A poll in progress.
#[derive(Debug)]
pub(crate) struct Polling<T> {
    pub(crate) task: Arc<T>,
    /// The task on whose turn it is polled, if that is another one ([`relay`](crate::relay)).
    pub(crate) owner: Option<Arc<T>>,
    /// When it began; in a relay `None` until a tick has seen it.
    pub(crate) began: Option<Instant>,
    /// It was seen at a tick.
    pub(crate) is_seen: bool,
    /// The CPU time of its thread at the last tick.
    pub(crate) seen: Option<Duration>,
    /// Set when the poll is first seen to ignore a request to yield.
    pub(crate) asked: Option<Request>,
    /// A tick has found it longer than allowed.
    pub(crate) is_long: bool,
}

impl<T> Default for CpuThread<T> {
    fn default() -> Self {
        Self { epoch: 0, handle: None, tid: None, polling: None, signals: Arc::default() }
    }
}

impl<T> CpuThread<T> {
    /// Returns whether the poll has slept since the last tick, in a system call. The scheduler does
    /// not see it, since no time is charged.
    pub(crate) fn sleeps(&mut self, tick: Duration) -> bool {
        let (Some(polling), Some(tid)) = (&mut self.polling, self.tid) else { return false };
        let used = ThreadClock::of(tid).read();
        let before = std::mem::replace(&mut polling.seen, used);
        let (Some(used), Some(before)) = (used, before) else { return false };
        used.saturating_sub(before) < tick / 10 && Sample::of(tid).is_some_and(|sample| sample.sleeps)
    }

    /// Returns whether a request to yield has been ignored for `after`; `None` is forever.
    pub(crate) fn is_overdue(&self, after: Option<Duration>, tick: Duration, now: Instant) -> bool {
        let (Some(after), Some(tid)) = (after, self.tid) else { return false };
        let asked = self.polling.as_ref().and_then(|polling| polling.asked);
        asked.is_some_and(|asked| asked.is_ignored(now, after, tick, || Sample::of(tid)))
    }

    /// Returns the task that is polled here.
    pub(crate) fn polled(&self) -> Option<&T> {
        self.polling.as_ref().map(|polling| &*polling.task)
    }

    pub(crate) fn unpark(&self) {
        if let Some(handle) = &self.handle {
            handle.unpark();
        }
    }
}
