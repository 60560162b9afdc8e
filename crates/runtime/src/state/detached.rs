//! Polls that have lost their CPU ([`DetachedPoll`]), and the tasks that wait for their ends
//! ([`HeldBack`]).

use crate::marks::Signals;
use crate::sync::{AtomicUsize, Mutex};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_model::Instant;

/// A task whose poll has lost its CPU.
#[derive(Debug)]
pub(crate) struct DetachedPoll<T> {
    pub(crate) task: Arc<T>,
    /// It keeps tasks of its group back.
    pub(crate) counts: bool,
    /// When its poll began, if that is known, and where it is told that it is too long.
    pub(crate) began: Option<Instant>,
    pub(crate) signals: Arc<Signals>,
}

impl<T> Clone for DetachedPoll<T> {
    fn clone(&self) -> Self {
        let Self { task, counts, began, signals } = self;
        Self { task: Arc::clone(task), counts: *counts, began: *began, signals: Arc::clone(signals) }
    }
}

impl<T> Default for HeldBack<T> {
    fn default() -> Self {
        Self { tasks: Mutex::new(Vec::new()), number: AtomicUsize::new(0) }
    }
}

/// The tasks that are held back. Its lock is taken before those of the CPUs' threads and of the
/// list of polls without a CPU.
#[derive(Debug)]
pub(crate) struct HeldBack<T> {
    pub(crate) tasks: Mutex<Vec<Arc<T>>>,
    /// At least the number of these tasks; it is raised before the polls are counted, so that a
    /// poll which ends after it was counted sees it.
    pub(crate) number: AtomicUsize,
}

impl<T> HeldBack<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.number.load(Ordering::SeqCst) == 0
    }

    /// Forgets all tasks, at the end of the runtime. Tasks own the runtime that they are in.
    pub(crate) fn clear(&self) {
        let _tasks = std::mem::take(&mut *self.tasks.lock());
    }
}
