//! [`ExtQueue`]: the queue of the loaded scheduler, which all CPUs share, first in first out
//! (`SHARED_DSQ` of `scx_simple`, the kernel's global DSQ).
//!
//! The body of a task that waits here is in the run queue of the CPU where it woke or ran last. Its
//! entry is put here and taken away under the lock of that run queue, so an entry that is seen
//! under that lock is true. A CPU that looks for work reads the queue without it, and looks again
//! once it has both locks ([`crate::balance::ext`]).
//!
//! Appending is O(1), finding and removing O(tasks of the queue). The kernel's queue is a list too,
//! and a CPU walks over the tasks that are not allowed on it.
//!
//! differs: the kernel has one global DSQ per NUMA node; the queue of `scx_simple` is one, as here.

use crate::words::snapshot::snapshot_of;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use lock_api::{Mutex, RawMutex};
use zerolag_model::{CpuId, CpuMask, TaskId};

/// A task that waits.
#[derive(Clone, Debug)]
pub(crate) struct QueuedTask {
    pub(crate) task: TaskId,
    /// The CPU whose run queue has its body.
    pub(crate) home: CpuId,
    /// The CPUs on which it is allowed; `None` means every CPU.
    pub(crate) allowed: Option<Arc<CpuMask>>,
}

/// The waiting tasks in the order of their arrival, under an inner lock.
#[derive(Debug)]
pub(crate) struct ExtQueue<L: RawMutex> {
    entries: Mutex<L, VecDeque<QueuedTask>>,
}

snapshot_of!(ExtQueue<L>, L: { entries });

impl<L: RawMutex> ExtQueue<L> {
    pub(crate) const fn new() -> Self {
        Self { entries: Mutex::new(VecDeque::new()) }
    }

    /// Adds a task at the end. The run queue of its home is locked.
    pub(crate) fn append(&self, entry: QueuedTask) {
        self.entries.lock().push_back(entry);
    }

    /// Removes a task; returns whether it was here. The run queue of its home is locked.
    pub(crate) fn remove(&self, task: TaskId) -> bool {
        let mut entries = self.entries.lock();
        let at = entries.iter().position(|entry| entry.task == task);
        at.and_then(|at| entries.remove(at)).is_some()
    }

    /// Changes the CPUs on which a task is allowed. The run queue of its home is locked.
    pub(crate) fn set_allowed(&self, task: TaskId, allowed: Option<Arc<CpuMask>>) {
        if let Some(entry) = self.entries.lock().iter_mut().find(|entry| entry.task == task) {
            entry.allowed = allowed;
        }
    }

    /// Returns whether a task is here. Certain only under the lock of its home.
    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.entries.lock().iter().any(|entry| entry.task == task)
    }

    /// Returns the first task whose home is a CPU. The run queue of the CPU is locked.
    pub(crate) fn first_of(&self, home: CpuId) -> Option<TaskId> {
        self.entries.lock().iter().find(|entry| entry.home == home).map(|entry| entry.task)
    }

    /// Returns the first task that a CPU may run, and its home. A task is allowed at its home.
    pub(crate) fn first_for(&self, cpu: CpuId) -> Option<(TaskId, CpuId)> {
        let may_run = |entry: &&QueuedTask| {
            entry.home == cpu || entry.allowed.as_ref().is_none_or(|allowed| allowed.contains(cpu))
        };
        self.entries.lock().iter().find(may_run).map(|entry| (entry.task, entry.home))
    }
}
