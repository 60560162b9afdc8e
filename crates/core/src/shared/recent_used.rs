//! [`RecentUsed`]: the CPU that each task remembers. The rules are those of
//! [`crate::balance::fair::recent_used`].

use crate::words::snapshot::Snapshot;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use zerolag_model::{CpuId, TaskId};

/// The remembered CPU of every task.
#[derive(Debug, Default)]
pub(crate) struct RecentUsed(pub(crate) Vec<AtomicU32>);

impl Snapshot for RecentUsed {
    fn snapshot(&self) -> Self {
        Self(self.0.snapshot())
    }
}

impl RecentUsed {
    pub(crate) fn reserve(&mut self, tasks: usize) {
        let have = self.0.len();
        self.0.extend((have..tasks).map(|_| AtomicU32::new(0)));
    }

    pub(crate) fn set(&self, task: TaskId, cpu: CpuId) {
        self.0[task.index()].store(cpu.0, Ordering::Relaxed);
    }
}
