//! Waiting for a time, a condition, a barrier, a counting semaphore, a disk.

use crate::kernel::state::Kernel;
use crate::program::shared::Shared;
use crate::program::state::Programs;
use crate::program::task::WaitFor;
use zerolag_model::{CpuId, CpuLayer, Instant, TaskId};
use zerolag_workload::program::{ResourceId, TimerMode, TimerRef};
use zerolag_workload::random::Dist;

impl Programs {
    /// Sleeps, as by `clock_nanosleep`.
    pub(crate) fn nap_until(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, due: Instant) {
        kernel.arm_sleep_timer(task, cpu, due);
        self.block(kernel, cpu, task, WaitFor::Time);
    }

    /// Sleeps for a time, which counts from the beginning of the call: the kernel reads the clock
    /// before it sets the timer and queues the task (Linux v6.12 `kernel/time/hrtimer.c`,
    /// `do_nanosleep`, `__hrtimer_start_range_ns`).
    pub(crate) fn sleep(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, dist: &Dist) {
        let due = match self.task_mut(task).cursor.sleeps_until.take() {
            Some(due) => due,
            None => {
                let time = self.draw(task, dist);
                let due = kernel.now().saturating_add(time);
                let cost = self.call_costs.sleeps(kernel.is_in_syscall(task));
                if !cost.is_zero() {
                    self.task_mut(task).cursor.sleeps_until = Some(due);
                    kernel.compute(cpu, task, cost, CpuLayer::Kernel);
                    return;
                }
                due
            }
        };
        self.step_over(task);
        if due > kernel.now() {
            self.nap_until(kernel, cpu, task, due);
        }
    }

    /// Waits for an interrupt at this time.
    pub(super) fn sleep_until(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, due: Instant) {
        kernel.arm_task_timer(task, cpu, due);
        self.block(kernel, cpu, task, WaitFor::Time);
    }

    pub(crate) fn wait_timer(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        timer: TimerRef,
        period: &Dist,
        mode: TimerMode,
    ) {
        let period = self.draw(task, period);
        self.step_over(task);
        let (now, def) = (kernel.now(), self.task(task).def());
        let next = match timer {
            TimerRef::Own(index) => {
                let timers = &mut self.tasks[task.index()].timers;
                let index = index as usize;
                if timers.len() <= index {
                    timers.resize(index + 1, None);
                }
                &mut timers[index]
            }
            TimerRef::Shared(id) => match &mut self.shared[id.index()] {
                Shared::Timer { next } => next,
                _ => unreachable!("the program was checked"),
            },
        };
        // rt-app: the first expiry counts from the start of the task.
        let start = || Instant::ZERO + self.program.tasks[def].delay;
        let mut due = next.unwrap_or_else(start).saturating_add(period);
        if mode == TimerMode::Skip && due <= now && !period.is_zero() {
            due = due + period * (now.since(due).as_nanos() / period.as_nanos() + 1);
        }
        *next = Some(if due < now && mode == TimerMode::Relative { now } else { due });
        let slack = due.signed_since(now);
        self.task_mut(task).timer_due = Some((due, slack));
        if due > now {
            self.nap_until(kernel, cpu, task, due);
        }
    }

    /// Gives a mutex up and waits for a condition; the mutex is taken again afterwards.
    pub(crate) fn wait_condition(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        condition: ResourceId,
        mutex: ResourceId,
    ) {
        self.task_mut(task).cursor.relock = Some(mutex);
        self.drop_mutex(kernel, cpu, task, mutex);
        if !kernel.is_stopped() {
            self.block_on(kernel, cpu, task, condition, WaitFor::Condition { condition, mutex });
        }
    }

    /// Arrives at a barrier: waits, or wakes all that wait.
    pub(crate) fn arrive(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::Barrier { parties, waiters } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if waiters.len() + 1 >= *parties as usize {
            self.wake_waiters(kernel, cpu, id, usize::MAX);
        } else {
            self.block_on(kernel, cpu, task, id, WaitFor::Barrier(id));
        }
    }

    pub(crate) fn post(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::Semaphore { count, waiters } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if waiters.is_empty() {
            *count += 1;
        } else {
            self.wake_waiters(kernel, cpu, id, 1);
        }
    }

    pub(crate) fn wait_semaphore(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) {
        self.step_over(task);
        let Shared::Semaphore { count, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        match count.checked_sub(1) {
            Some(left) => *count = left,
            None => self.block_on(kernel, cpu, task, id, WaitFor::Semaphore(id)),
        }
    }

    /// Sends a request to a disk and waits until it is done: an interrupt wakes the task, on the
    /// CPU that sent it.
    pub(crate) fn wait_for_disk(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u64) {
        let (done, irq) = self.request(kernel, cpu, id, bytes);
        if done > kernel.now() {
            kernel.arm_task_timer(task, irq, done);
            self.block(kernel, cpu, task, WaitFor::Time);
        }
    }

    /// Sends a request to a disk. Returns when it is done, and the CPU of the interrupt.
    pub(super) fn request(&mut self, kernel: &Kernel, cpu: CpuId, id: ResourceId, bytes: u64) -> (Instant, CpuId) {
        let disk = self.disk(id);
        let done = disk.submit(kernel.now(), bytes);
        // An interrupt of a CPU that is offline goes to the sender of the request.
        (done, Some(disk.irq_cpu(done, cpu)).filter(|irq| kernel.is_online(*irq)).unwrap_or(cpu))
    }
}
