//! [`Wakers`]: what each task has woken. The rules are those of [`crate::balance::fair::wakers`].

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use zerolag_model::TaskId;

/// What each task has woken.
#[derive(Debug, Default)]
pub(crate) struct Wakers(pub(crate) Vec<Row>);

#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The task woken last and one, and how often it was another.
    pub(crate) last: AtomicU64,
    /// When flips were halved last.
    pub(crate) halved: AtomicU64,
}

impl Wakers {
    pub(crate) fn reserve(&mut self, tasks: usize) {
        let have = self.0.len();
        self.0.extend((have..tasks).map(|_| Row::default()));
    }

    /// A new task has woken nobody, whoever had its id before.
    pub(crate) fn forget(&self, task: TaskId) {
        self.0[task.index()].last.store(0, Ordering::Relaxed);
    }
}
