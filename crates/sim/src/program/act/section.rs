//! Sections with softirqs disabled, and the threads that do softirqs.
//!
//! Such a section is not preempted; under `preempt = rt` it is, and can hold a lock of its CPU
//! instead, whose holder inherits from the tasks that wait for it
//! ([`interrupt`](zerolag_workload::interrupt)). It gives back the lock that it took, also on
//! another CPU. differs: the kernel keeps a task on its CPU in such a section (`migrate_disable`).

use crate::kernel::state::Kernel;
use crate::kernel::words::{Job, Left, Turn};
use crate::program::shared::Shared;
use crate::program::state::Programs;
use crate::program::task::TaskActivity;
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId};
use zerolag_workload::program::ResourceId;

impl Programs {
    pub(crate) fn bh_disable(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        if !self.is_rt {
            self.step_over(task);
            kernel.disable_preemption(cpu, task);
            kernel.disable_softirqs(cpu, task);
            return;
        }
        let Some(first) = self.program.kernel_work.bh_locks else {
            self.step_over(task);
            return;
        };
        // It waits for the lock of the CPU on which it first asked.
        let lock = *self.task_mut(task).cursor.bh_lock.get_or_insert(ResourceId(first.0 + cpu.0));
        if self.take_mutex(kernel, cpu, task, lock) {
            self.step_over(task);
        }
    }

    pub(crate) fn bh_enable(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.step_over(task);
        if !self.is_rt {
            kernel.enable_softirqs(task);
            kernel.enable_preemption(cpu, task);
        } else if let Some(lock) = self.task_mut(task).cursor.bh_lock.take() {
            self.drop_mutex(kernel, cpu, task, lock);
        }
    }

    /// Begins the next softirq of the CPU of a thread; there is none, it goes on.
    pub(crate) fn do_softirq(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        match kernel.thread_softirq(cpu, !self.is_rt) {
            Turn::Over => self.step_over(task),
            Turn::Pause => {
                self.step_over(task);
                self.signal(kernel, cpu, self.program.kernel_work.softirq_threads[cpu.index()]);
            }
            Turn::Work(Duration::ZERO) => {}
            Turn::Work(work) => kernel.compute(cpu, task, work, CpuLayer::Kernel),
        }
    }

    /// Wakes the next task of the CPU of a thread whose timer is due; there is none, it goes on.
    pub(crate) fn expire_timer(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        match kernel.take_late_timer(cpu) {
            None => self.step_over(task),
            Some(due) => {
                let job = self.timer_fires(due);
                kernel.push_jobs(cpu, job);
            }
        }
    }

    /// The timer of a task is due. Returns the job that lets the task begin or go on, if the
    /// interrupt does that itself.
    pub(crate) fn timer_due(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) -> Option<Job> {
        if self.program.kernel_work.timer_threads.is_empty()
            || self.task(task).state == TaskActivity::Unborn
            || kernel.has_hard_timers(task)
        {
            return self.timer_fires(task);
        }
        let on = kernel.online_or_first(cpu);
        kernel.defer_timer(on, task);
        self.signal(kernel, cpu, self.program.kernel_work.timer_threads[on.index()]);
        None
    }

    /// Does what the handler of a device leaves to be done: raises its softirq, wakes its thread.
    pub(crate) fn follow_interrupt(&mut self, kernel: &mut Kernel, cpu: CpuId, left: Left) {
        match left.softirq {
            Some(work) if !self.program.kernel_work.are_softirqs_threaded => kernel.raise(cpu, work),
            Some(work) => {
                let on = kernel.online_or_first(cpu);
                kernel.raise(on, work);
                self.signal(kernel, cpu, self.program.kernel_work.softirq_threads[on.index()]);
            }
            None => {}
        }
        if let Some(thread) = left.wakes {
            self.signal(kernel, cpu, thread);
        }
    }

    /// A CPU has gone offline: the threads of another one do what waited for its own
    /// (`takeover_tasklets`, `dev_cpu_dead`, `hrtimers_cpu_dying`).
    pub(crate) fn take_over_softirqs(&mut self, kernel: &mut Kernel, from: CpuId) {
        let to = kernel.online_or_first(from);
        let [softirqs, timers] = kernel.hand_over_softirqs(from, to);
        let work = &self.program.kernel_work;
        let threads = [
            work.softirq_threads.get(to.index()).filter(|_| softirqs),
            work.timer_threads.get(to.index()).filter(|_| timers),
        ]
        .map(Option::<&ResourceId>::copied);
        for thread in threads.into_iter().flatten() {
            self.signal(kernel, from, thread);
        }
    }

    /// Wakes a thread of the kernel, or has it look once more.
    pub(super) fn signal(&mut self, kernel: &mut Kernel, cpu: CpuId, id: ResourceId) {
        let Shared::Semaphore { count, waiters } = &mut self.shared[id.index()] else {
            unreachable!("threads of the kernel wait at semaphores")
        };
        if waiters.is_empty() {
            *count = 1;
        } else {
            self.wake_waiters(kernel, cpu, id, 1);
        }
    }
}
