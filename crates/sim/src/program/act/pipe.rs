//! Reads and writes of pipes ([`Pipe`](crate::program::shared::pipe::Pipe)).

use crate::kernel::state::Kernel;
use crate::kernel::words::{Job, WakeKind};
use crate::program::state::Programs;
use crate::program::task::WaitFor;
use zerolag_model::{CpuId, TaskId};
use zerolag_workload::program::ResourceId;

impl Programs {
    pub(crate) fn pipe_write(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u32) {
        let done = self.task(task).cursor.piped;
        let pipe = self.pipe(id);
        let (moved, reader) = pipe.put(bytes - done);
        let is_done = done + moved == bytes;
        let writer = if is_done { pipe.next_writer() } else { None };
        if !is_done {
            pipe.writers.push_back(task);
        }
        self.wake_partners(kernel, cpu, [reader, writer]);
        self.task_mut(task).cursor.piped = if is_done { 0 } else { done + moved };
        if is_done { self.step_over(task) } else { self.block(kernel, cpu, task, WaitFor::Pipe(id)) }
    }

    pub(crate) fn pipe_read(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u32) {
        let pipe = self.pipe(id);
        let (moved, writer) = pipe.take(bytes);
        if moved == 0 {
            pipe.readers.push_back(task);
            self.block(kernel, cpu, task, WaitFor::Pipe(id));
            return;
        }
        let reader = pipe.next_reader();
        self.wake_partners(kernel, cpu, [writer, reader]);
        self.step_over(task);
    }

    /// A task that waits at a pipe is ended: nothing wakes it there any more.
    pub(crate) fn forget_at_pipe(&mut self, id: ResourceId, task: TaskId) {
        self.pipe(id).forget(task);
    }

    pub(crate) fn wake_each(&mut self, kernel: &mut Kernel, cpu: CpuId, tasks: [Option<TaskId>; 2]) {
        for task in tasks.into_iter().flatten() {
            self.wake(kernel, cpu, task);
        }
    }

    /// Wakes tasks that wait at a pipe. Its user is expected to wait next for what they do.
    fn wake_partners(&mut self, kernel: &mut Kernel, cpu: CpuId, tasks: [Option<TaskId>; 2]) {
        for task in tasks.into_iter().flatten() {
            self.end_wait(kernel, task);
            kernel.push_job(cpu, Job::wake(task, WakeKind::SyncWakeup));
        }
    }
}
