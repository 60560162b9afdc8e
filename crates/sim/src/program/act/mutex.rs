//! Mutexes, and the priorities that holders of locks inherit.
//!
//! A holder inherits from its most urgent waiter, and the holder for which *that* task waits
//! inherits in turn. Each link of such a chain needs the run-queue lock of another CPU, for which
//! this CPU may have to spin. So a chain is not walked in a loop: each link is a job of its own,
//! [`Job::Inherit`], which notes the next.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job};
use crate::program::shared::Shared;
use crate::program::state::Programs;
use crate::program::task::{TaskActivity, WaitFor};
use zerolag_core::{Lent, most_urgent};
use zerolag_model::{CpuId, TaskId, TraceEvent};
use zerolag_workload::program::ResourceId;

/// The longest chain of lock holders that inherits (Linux `max_lock_depth`).
const INHERIT_DEPTH_MAX: u32 = 1_024;

impl Programs {
    /// Takes a mutex, or waits for it; returns whether it was taken.
    pub(crate) fn take_mutex(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) -> bool {
        let Shared::Mutex { inherit, owner, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let inherit = *inherit;
        match *owner {
            None => {
                *owner = Some(task);
                self.task_mut(task).holds.push(id);
                kernel.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
                kernel.publish_owner(cpu, id.0, Some(task));
                true
            }
            // Handed over while it waited.
            Some(holder) if holder == task && self.tasks[task.index()].cursor.handed == Some(id) => {
                self.task_mut(task).cursor.handed = None;
                true
            }
            // A waiter in a system call looks.
            Some(_) if matches!(self.tasks[task.index()].state, TaskActivity::Spins(_)) => {
                self.spin_or_block(kernel, cpu, task, id);
                false
            }
            holder => {
                kernel.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder });
                if inherit {
                    self.join_waiters(kernel, cpu, task, id);
                    self.spin_or_block(kernel, cpu, task, id);
                } else {
                    self.block_on(kernel, cpu, task, id, WaitFor::Mutex(id));
                }
                if !self.stop_if_circle(kernel, task)
                    && let (true, Some(holder)) = (inherit, holder)
                {
                    kernel.push_next_job(cpu, Job::Inherit { holder, depth: 0 });
                }
                false
            }
        }
    }

    /// Takes the next waiter of a mutex without a holder off its list, to be woken.
    pub(crate) fn next_for_free_mutex(&mut self, id: ResourceId) -> Option<TaskId> {
        match &mut self.shared[id.index()] {
            Shared::Mutex { owner: None, waiters, .. } => waiters.pop(),
            _ => None,
        }
    }

    /// Gives a mutex back, and lets its next waiter have it or try for it.
    pub(crate) fn drop_mutex(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::Mutex { inherit, owner, waiters, is_marked } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if *owner != Some(task) {
            self.stop_not_held(kernel, task, id);
            return;
        }
        *is_marked = false;
        let next = waiters.pop();
        let inherit = *inherit;
        let handed_to = next.filter(|_| inherit);
        *owner = handed_to;
        self.task_mut(task).holds.retain(|held| *held != id);
        kernel.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        kernel.lock_dropped(cpu, id.0, handed_to);
        if let Some(next) = next {
            if inherit {
                let next_task = self.task_mut(next);
                next_task.holds.push(id);
                next_task.cursor.handed = Some(id);
                kernel.push_job(cpu, Job::Inherit { holder: next, depth: 0 });
            }
            if matches!(self.task(next).state, TaskActivity::Spins(_)) {
                self.end_wait(kernel, next); // [4] of `adaptive`
                kernel.look_again(cpu, next);
            } else {
                self.wake(kernel, cpu, next);
            }
        }
        if inherit {
            kernel.push_job(cpu, Job::Inherit { holder: task, depth: 0 });
        }
        if let Some(next) = handed_to {
            kernel.emit(cpu, TraceEvent::TakeLock { task: next, lock: id.0 });
        }
    }

    /// Lets the only holder of a read-write semaphore inherit from the tasks that wait for it
    /// (`preempt = rt`); of several readers none does.
    ///
    /// Linux v6.12 `kernel/locking/rwbase_rt.c`: a writer blocks on the rt-mutex that a writer
    /// holds; a reader that shares the semaphore is not boosted.
    pub(crate) fn inherit_semaphore(&self, kernel: &mut Kernel, cpu: CpuId, id: ResourceId, depth: u32) {
        if !self.semaphores_inherit || depth > INHERIT_DEPTH_MAX {
            return;
        }
        let Shared::RwSemaphore(semaphore) = &self.shared[id.index()] else { unreachable!("the program was checked") };
        if let Some(holder) = semaphore.sole_holder() {
            kernel.push_next_job(cpu, Job::Inherit { holder, depth });
        }
    }

    /// Recomputes the priority that a lock holder inherits, and notes the next link of the chain.
    pub(crate) fn inherit(&mut self, kernel: &mut Kernel, cpu: CpuId, holder: TaskId, depth: u32) -> Done {
        let lent = self.lent_to(kernel, holder);
        if kernel.inherit(cpu, holder, lent, Job::Inherit { holder, depth })? {
            self.inherit_further(kernel, cpu, holder, depth);
        }
        Ok(())
    }

    /// Returns the most urgent of the priorities lent by the waiters for the locks that a task
    /// holds and inherits for.
    fn lent_to(&self, kernel: &Kernel, holder: TaskId) -> Option<Lent> {
        let held = self.task(holder).holds.iter();
        let mutexes = held.filter_map(|mutex| match &self.shared[mutex.index()] {
            Shared::Mutex { inherit: true, waiters, .. } => kernel.lends(waiters.first()?),
            _ => None,
        });
        let semaphores = if self.semaphores_inherit { &self.shared[..] } else { &[] };
        let semaphores = semaphores.iter().filter_map(|shared| match shared {
            Shared::RwSemaphore(semaphore) if semaphore.sole_holder() == Some(holder) => {
                most_urgent(semaphore.waiting().filter_map(|task| kernel.lends(task)))
            }
            _ => None,
        });
        most_urgent(mutexes.chain(semaphores))
    }

    /// The attributes of a task have changed. If it waits for a lock, its place among the waiters
    /// and the holder follow: Linux v6.12 `kernel/locking/rtmutex_api.c`, `rt_mutex_adjust_pi`.
    pub(crate) fn adjust_waiter(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.inherit_further(kernel, cpu, task, 0);
    }

    /// The priority of a holder that waits itself has changed: its place among the waiters and the
    /// next holder follow.
    fn inherit_further(&mut self, kernel: &mut Kernel, cpu: CpuId, holder: TaskId, depth: u32) {
        let mutex = match self.task(holder).state {
            TaskActivity::Waits(WaitFor::Mutex(mutex)) | TaskActivity::Spins(mutex) => mutex,
            TaskActivity::Waits(WaitFor::RwSemaphore(id)) => {
                self.inherit_semaphore(kernel, cpu, id, depth + 1);
                return;
            }
            TaskActivity::Waits(_) | TaskActivity::Active | TaskActivity::Unborn | TaskActivity::Dead => return,
        };
        let Some(lends) = kernel.lends(holder) else { return };
        let Shared::Mutex { inherit: true, owner, waiters, .. } = &mut self.shared[mutex.index()] else { return };
        let (owner, first) = (*owner, waiters.first());
        if !waiters.remove(holder) {
            return;
        }
        self.place_waiter(kernel, cpu, (holder, lends), mutex, first);
        if let Some(next) = owner.filter(|_| depth < INHERIT_DEPTH_MAX) {
            kernel.push_next_job(cpu, Job::Inherit { holder: next, depth: depth + 1 });
        }
    }
}
