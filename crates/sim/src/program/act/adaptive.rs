//! Waiting for a mutex that inherits: the first waiter spins while the holder runs on another CPU
//! (`rt_mutex_spin`).
//!
//! A waiter joins the list before it spins, so the holder inherits from it as from any other.
//!
//! ```text
//!                  first waiter, and the holder runs elsewhere [1]
//!   takes a mutex ------------------------------------------------> Spins -- handed over [4] -> Active
//!          |                                                         |  ^
//!          |                            the holder has left its CPU, |  | [1] again, after a
//!          | otherwise [2]              another waiter is first, or  |  |     preemption
//!          v                            the CPU is to schedule [3]   v  |
//!        Waits <-------------------------------------------------- looks
//! ```
//!
//! A waiter that becomes the first while it sleeps is not woken for that. One that spins needs no
//! wakeup when it is handed the mutex. A preempted one stays on its run queue, and can be moved to
//! another CPU; it looks when it runs again.
//!
//! differs: a waiter that has seen the holder leave blocks at once in the kernel; here it looks
//! once more, and spins on if the holder runs again by then. The holder does not take the lock of
//! the spinning task's run queue to hand the mutex over.
//!
//! Sources: Linux v6.11 `kernel/locking/rtmutex.c`, `rtmutex_spin_on_owner`,
//! `rt_mutex_slowlock_block`, `rtlock_slowlock_locked`; commit 992caf7f1724, 5.15.

use crate::kernel::state::Kernel;
use crate::program::shared::Shared;
use crate::program::state::Programs;
use crate::program::task::{TaskActivity, WaitFor};
use zerolag_core::Lent;
use zerolag_model::{CpuId, TaskId};
use zerolag_workload::program::ResourceId;

impl Programs {
    /// The current task joins the waiters for a mutex that inherits.
    pub(super) fn join_waiters(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let lends = kernel.lends(task).expect("invariant: a task that waits runs");
        let first = self.shared[id.index()].waiters().and_then(|waiters| waiters.first());
        self.place_waiter(kernel, cpu, (task, lends), id, first);
    }

    /// Puts a task in its place among the waiters for a mutex that inherits. `first` was the first
    /// before, and looks again if it no longer is.
    pub(super) fn place_waiter(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        (task, lends): (TaskId, Lent),
        id: ResourceId,
        first: Option<TaskId>,
    ) {
        let waiters = self.shared[id.index()].waiters().expect("invariant: a mutex has waiters");
        waiters.push_lender(task, lends);
        if let Some(first) = first.filter(|first| waiters.first() != Some(*first))
            && matches!(self.task(first).state, TaskActivity::Spins(_))
        {
            kernel.look_again(cpu, first); // [3]
        }
    }

    /// The current task, a waiter for a mutex, looks: it spins or blocks.
    pub(crate) fn spin_or_block(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let owner = match &self.shared[id.index()] {
            Shared::Mutex { owner, waiters, .. } if self.rt_mutex_spin && waiters.first() == Some(task) => *owner,
            _ => None,
        };
        match owner.filter(|owner| kernel.may_spin_on(cpu, *owner)) {
            Some(owner) => {
                self.task_mut(task).state = TaskActivity::Spins(id); // [1]
                kernel.spin_on(cpu, task, owner);
            }
            None => self.block(kernel, cpu, task, WaitFor::Mutex(id)), // [2]
        }
    }

    /// Another CPU asks this one to schedule: a task that spins here sees that before the interrupt
    /// arrives, and blocks, whatever the preemption model.
    #[inline(always)]
    pub(crate) fn after_request(&mut self, kernel: &mut Kernel, cpu: CpuId) {
        if kernel.has_spinners() {
            self.spinner_blocks(kernel, cpu);
        }
    }

    #[cold]
    fn spinner_blocks(&mut self, kernel: &mut Kernel, cpu: CpuId) {
        if let Some(task) = kernel.spinner_sees_request(cpu)
            && let TaskActivity::Spins(id) = self.task(task).state
        {
            self.block(kernel, cpu, task, WaitFor::Mutex(id)); // [3]
        }
    }

    /// A task that spins for a mutex is to end: it waits no longer.
    pub(crate) fn leave_spinning(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        kernel.look_again(cpu, task);
        if let Some(waiters) = self.shared[id.index()].waiters() {
            waiters.remove(task);
        }
        self.task_mut(task).state = TaskActivity::Active;
    }
}
