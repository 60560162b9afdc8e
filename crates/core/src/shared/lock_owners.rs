//! [`LockOwners`]: the holder of every lock, as reported by the host (`proxy_exec`).

use crate::words::ids::LockId;
use crate::words::snapshot::Snapshot;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use zerolag_model::TaskId;

/// The holder of every lock.
#[derive(Debug, Default)]
pub(crate) struct LockOwners(pub(crate) Vec<AtomicU32>);

impl Snapshot for LockOwners {
    fn snapshot(&self) -> Self {
        Self(self.0.snapshot())
    }
}

impl LockOwners {
    pub(crate) fn reserve(&mut self, locks: usize) {
        let have = self.0.len();
        self.0.extend((have..locks).map(|_| AtomicU32::new(0)));
    }

    pub(crate) fn set(&self, lock: LockId, owner: Option<TaskId>) {
        self.0[lock.0 as usize].store(owner.map_or(0, |task| task.0 + 1), Ordering::Release);
    }

    pub(crate) fn get(&self, lock: LockId) -> Option<TaskId> {
        self.0.get(lock.0 as usize)?.load(Ordering::Acquire).checked_sub(1).map(TaskId)
    }
}
