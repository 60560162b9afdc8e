//! Reads and writes of pipes ([`Pipe`](crate::program::shared::pipe::Pipe)).

use crate::kernel::state::Kernel;
use crate::kernel::words::{Job, WakeKind};
use crate::program::state::Programs;
use crate::program::task::WaitFor;
use zerolag_model::{CpuId, CpuLayer, TaskId};
use zerolag_workload::program::ResourceId;

impl Programs {
    pub(crate) fn pipe_write(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u32) {
        let cursor = &mut self.task_mut(task).cursor;
        let (done, has_waited) = (cursor.piped, core::mem::take(&mut cursor.waited_at_pipe));
        let pipe = self.pipe(id);
        let (moved, reader) = pipe.put(bytes - done);
        if done + moved < bytes {
            pipe.writers.push_back(task);
            self.wake_partners(kernel, cpu, [reader, None]);
            self.task_mut(task).cursor.piped = done + moved;
            self.wait_at_pipe(kernel, cpu, task, id);
            return;
        }
        let writer = if has_waited { pipe.next_writer() } else { None };
        self.task_mut(task).cursor.piped = 0;
        self.end_at_pipe(kernel, cpu, task, has_waited, [reader, writer]);
    }

    pub(crate) fn pipe_read(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u32) {
        let has_waited = core::mem::take(&mut self.task_mut(task).cursor.waited_at_pipe);
        let pipe = self.pipe(id);
        let (moved, writer) = pipe.take(bytes);
        if moved == 0 {
            pipe.readers.push_back(task);
            self.wait_at_pipe(kernel, cpu, task, id);
            return;
        }
        let reader = if has_waited { pipe.next_reader() } else { None };
        self.end_at_pipe(kernel, cpu, task, has_waited, [writer, reader]);
    }

    fn wait_at_pipe(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.task_mut(task).cursor.waited_at_pipe = true;
        self.block(kernel, cpu, task, WaitFor::Pipe(id));
    }

    /// Ends a read or a write. One that neither waited nor wakes costs time of its own: no switch
    /// and no wakeup contains it.
    fn end_at_pipe(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        has_waited: bool,
        woken: [Option<TaskId>; 2],
    ) {
        self.step_over(task);
        self.wake_partners(kernel, cpu, woken);
        let alone = self.call_costs.pipe_alone;
        if !has_waited && woken == [None; 2] && !alone.is_zero() {
            // What is left of the call would replace this computation, and is part of it.
            let left = kernel.take_left_of_call(cpu);
            kernel.compute(cpu, task, alone + left, CpuLayer::Kernel);
        }
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
