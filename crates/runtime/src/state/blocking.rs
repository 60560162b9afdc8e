//! [`Blocking`]: functions that block or compute, in the queue and on threads beside the CPUs
//! ([`blocking`](crate::blocking)).

use crate::sync::{Condvar, Mutex};
use std::fmt;
use std::sync::Arc;
use zerolag_model::Duration;

/// A function in the queue.
pub(crate) struct QueuedCall<G> {
    pub(crate) group: Arc<G>,
    pub(crate) job: Arc<dyn BlockingJob>,
}

/// A function on its thread.
pub(crate) struct RunningCall<G> {
    pub(crate) group: Arc<G>,
    pub(crate) tid: rustix::thread::Pid,
    /// The CPU time of the thread up to which the group is charged.
    pub(crate) charged: Option<Duration>,
    pub(crate) began: Option<Duration>,
    pub(crate) is_slow: bool,
}

/// The functions and the threads for them.
pub(crate) struct BlockingState<G> {
    pub(crate) queue: Vec<QueuedCall<G>>,
    pub(crate) running: Vec<RunningCall<G>>,
    pub(crate) threads: usize,
    pub(crate) idle: usize,
    pub(crate) is_closed: bool,
}

impl<G> BlockingState<G> {
    /// Takes the next function out of the queue.
    pub(crate) fn take(&mut self) -> Option<QueuedCall<G>> {
        let running = |group: &Arc<G>| self.running.iter().filter(|other| Arc::ptr_eq(&other.group, group)).count();
        let place = (0..self.queue.len()).min_by_key(|place| (running(&self.queue[*place].group), *place))?;
        Some(self.queue.remove(place))
    }
}

/// See the [module](self).
pub(crate) struct Blocking<G> {
    pub(crate) state: Mutex<BlockingState<G>>,
    pub(crate) changed: Condvar,
    pub(crate) threads_max: usize,
}

impl<G> fmt::Debug for Blocking<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

impl<G> Blocking<G> {
    pub(crate) fn new(threads_max: usize) -> Self {
        let state = BlockingState { queue: Vec::new(), running: Vec::new(), threads: 0, idle: 0, is_closed: false };
        Self { state: Mutex::new(state), changed: Condvar::default(), threads_max: threads_max.max(1) }
    }

    /// Ends the idle threads, and the others after their functions. Returns the functions that have
    /// not been started; their tasks drop them.
    pub(crate) fn close(&self) {
        let _queue = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.queue)
        };
        self.changed.notify_all();
    }
}

/// A function, whatever the type of its result.
pub(crate) trait BlockingJob: Send + Sync {
    /// Runs it, unless its future was dropped.
    fn run(&self);

    /// Wakes the future.
    fn announce(&self);
}
