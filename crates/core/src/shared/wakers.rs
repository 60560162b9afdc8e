//! [`Wakers`]: the wakees of every task. The rules are those of [`crate::balance::fair::wakers`].

use crate::words::snapshot::{Snapshot, snapshot_of};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use zerolag_model::TaskId;

/// The wakees of every task.
#[derive(Debug, Default)]
pub(crate) struct Wakers(pub(crate) Vec<TaskWakees>);

#[derive(Debug, Default)]
pub(crate) struct TaskWakees {
    /// In the low half one more than the id of the task woken last, in the high half the number of
    /// flips.
    pub(crate) last: AtomicU64,
    /// When the flips were last halved.
    pub(crate) halved: AtomicU64,
}

snapshot_of!(TaskWakees: { last halved });

impl Snapshot for Wakers {
    fn snapshot(&self) -> Self {
        Self(self.0.snapshot())
    }
}

impl Wakers {
    pub(crate) fn reserve(&mut self, tasks: usize) {
        let have = self.0.len();
        self.0.extend((have..tasks).map(|_| TaskWakees::default()));
    }

    /// Clears the wakee of a new task, which can have the id of an earlier one.
    pub(crate) fn forget(&self, task: TaskId) {
        self.0[task.index()].last.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_task_has_woken_nothing() {
        let mut wakers = Wakers::default();
        wakers.reserve(2);
        for row in &wakers.0 {
            row.last.store(7 << 32 | 1, Ordering::Relaxed);
        }
        wakers.forget(TaskId(1));
        let last: Vec<u64> = wakers.0.iter().map(|row| row.last.load(Ordering::Relaxed)).collect();
        assert_eq!(last, [7 << 32 | 1, 0]);
    }
}
