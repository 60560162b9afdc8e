//! Read-write semaphores of the kernel ([`RwSemaphore`]).

use crate::kernel::state::Kernel;
use crate::kernel::words::Job;
use crate::program::shared::Shared;
use crate::program::shared::rw_semaphore::RwSemaphore;
use crate::program::state::Programs;
use crate::program::task::WaitFor;
use zerolag_model::{CpuId, TaskId, TraceEvent};
use zerolag_workload::program::{Access, ResourceId};

impl Programs {
    fn semaphore(&mut self, id: ResourceId) -> &mut RwSemaphore {
        match &mut self.shared[id.index()] {
            Shared::RwSemaphore(semaphore) => semaphore,
            _ => unreachable!("the program was checked"),
        }
    }

    pub(crate) fn down(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, access: Access) {
        let semaphore = self.semaphore(id);
        let holder = semaphore.holder();
        if semaphore.down(task, access) {
            let sole = semaphore.sole_holder();
            kernel.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
            kernel.publish_owner(cpu, id.0, sole);
            return;
        }
        kernel.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder });
        self.block(kernel, cpu, task, WaitFor::RwSemaphore(id));
        if !self.stop_if_circle(kernel, task) {
            self.inherit_semaphore(kernel, cpu, id, 0);
        }
    }

    pub(crate) fn up(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, access: Access) {
        let semaphore = self.semaphore(id);
        if !semaphore.up(task, access) {
            self.stop_not_held(kernel, task, id);
            return;
        }
        let sole = semaphore.sole_holder();
        kernel.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        kernel.lock_dropped(cpu, id.0, sole);
        while let Some(next) = self.semaphore(id).hand_over() {
            let sole = self.semaphore(id).sole_holder();
            self.wake(kernel, cpu, next);
            kernel.emit(cpu, TraceEvent::TakeLock { task: next, lock: id.0 });
            kernel.publish_owner(cpu, id.0, sole);
        }
        if self.semaphores_inherit {
            kernel.push_job(cpu, Job::Inherit { holder: task, depth: 0 });
            self.inherit_semaphore(kernel, cpu, id, 0);
        }
    }
}
