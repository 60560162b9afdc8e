//! Spinning locks of the kernel. A waiter spends the time of its own CPU, and nothing preempts a
//! CPU whose task holds such a lock or waits for one.
//!
//! Served in order of arrival (Linux `kernel/locking/qspinlock.c`). The next owner goes on when the
//! lock's cache line has reached its CPU. Under `preempt = rt` these are sleeping locks whose
//! holders inherit (`kernel/locking/spinlock_rt.c`): here, mutexes.

use crate::kernel::state::Kernel;
use crate::program::shared::Shared;
use crate::program::state::Programs;
use zerolag_model::{CpuId, TaskId, TraceEvent};
use zerolag_workload::program::ResourceId;

impl Programs {
    pub(crate) fn spin_lock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        let Shared::SpinLock(lock) = &mut self.shared[id.index()] else {
            if self.take_mutex(kernel, cpu, task, id) {
                self.step_over(task);
            }
            return;
        };
        let holder = lock.owner;
        match holder {
            None => lock.owner = Some(task),
            Some(_) => lock.spinning.push_back((task, cpu)),
        }
        kernel.disable_preemption(cpu, task);
        self.step_over(task);
        if holder.is_none() {
            kernel.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
            return;
        }
        self.task_mut(task).cursor.spins_for = Some(id);
        kernel.begin_spinning(cpu);
        kernel.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder });
        self.stop_if_circle(kernel, task);
    }

    pub(crate) fn spin_unlock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::SpinLock(lock) = &mut self.shared[id.index()] else {
            self.drop_mutex(kernel, cpu, task, id);
            return;
        };
        if lock.owner != Some(task) {
            self.stop_not_held(kernel, task, id);
            return;
        }
        let next = lock.spinning.pop_front();
        lock.owner = next.map(|(next, _)| next);
        kernel.enable_preemption(cpu, task);
        kernel.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        let Some((next, on)) = next else { return };
        self.task_mut(next).cursor.spins_for = None;
        kernel.emit(cpu, TraceEvent::TakeLock { task: next, lock: id.0 });
        kernel.end_spinning(cpu, on);
    }
}
