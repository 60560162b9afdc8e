//! Spinning locks of user space. A waiter computes in user mode until it sees the lock free.
//!
//! The kernel knows nothing of such a lock: it preempts the holder as any other task, and a waiter
//! that runs burns the time of its CPU until the holder has run again. So the lock has no order of
//! waiters either. Each waiter that runs sees the lock free when the cache line has reached its
//! CPU, and the first one to look takes it; a waiter that has been preempted looks when it runs
//! again. That is a loop of test-and-set, as `s_lock` of PostgreSQL without its sleeps.
//!
//! A lock with `slice_extension = "ask"` makes its holder ask for a time slice extension
//! ([`extension`](crate::kernel::extension)).
//!
//! Work: O(waiters) for each release.

use crate::kernel::state::Kernel;
use crate::program::shared::{Shared, UserSpinLock};
use crate::program::state::Programs;
use zerolag_model::{CpuId, TaskId, TraceEvent};
use zerolag_workload::program::ResourceId;

impl Programs {
    fn user_lock(&mut self, id: ResourceId) -> &mut UserSpinLock {
        let Shared::UserSpinLock(lock) = &mut self.shared[id.index()] else { unreachable!("the program was checked") };
        lock
    }

    /// The current task looks at the lock: it takes it, or spins.
    pub(crate) fn user_spin_lock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let lock = self.user_lock(id);
        let Some(holder) = lock.owner else {
            lock.owner = Some(task);
            lock.spinning.retain(|spinning| *spinning != task);
            let extends_slice = lock.extends_slice;
            let body = self.task_mut(task);
            body.cursor.spins_for = None;
            body.holds.push(id);
            self.step_over(task);
            kernel.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
            if extends_slice {
                kernel.ask_extension(task);
            }
            return;
        };
        if self.task(task).cursor.spins_for.is_none() {
            self.user_lock(id).spinning.push(task);
            self.task_mut(task).cursor.spins_for = Some(id);
            kernel.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder: Some(holder) });
            if self.stop_if_circle(kernel, task) {
                return;
            }
        }
        kernel.spin_in_user_mode(cpu);
    }

    /// The current task releases the lock.
    pub(crate) fn user_spin_unlock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        if self.user_lock(id).owner == Some(task) {
            self.free_user_lock(kernel, cpu, task, id);
        } else {
            self.stop_not_held(kernel, task, id);
        }
    }

    fn free_user_lock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let lock = self.user_lock(id);
        lock.owner = None;
        for waiter in &lock.spinning {
            kernel.sees_user_lock_free(cpu, *waiter);
        }
        self.task_mut(task).holds.retain(|held| *held != id);
        kernel.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        kernel.end_extension(cpu, task);
    }

    /// A task ends that holds this lock: it releases it first. Returns whether the lock is one of
    /// user space.
    pub(crate) fn leaves_user_lock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) -> bool {
        let is_one = matches!(self.shared[id.index()], Shared::UserSpinLock(_));
        if is_one {
            self.free_user_lock(kernel, cpu, task, id);
        }
        is_one
    }

    /// A task that ends spins no more.
    pub(crate) fn leave_user_spinning(&mut self, task: TaskId) {
        if let Some(id) = self.task(task).cursor.spins_for
            && let Shared::UserSpinLock(lock) = &mut self.shared[id.index()]
        {
            lock.spinning.retain(|spinning| *spinning != task);
            self.task_mut(task).cursor.spins_for = None;
        }
    }
}
