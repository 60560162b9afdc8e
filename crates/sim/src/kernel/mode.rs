//! Kernel mode of tasks, and where it can be preempted.
//!
//! A task is in kernel mode from the beginning of a system call to its end, and whenever it waits.
//! The simulator must not know what preempts a task there: that depends on the preemption model. So
//! the core is told the mode ([`TaskMode`]), and asked at each place whether the CPU switches
//! ([`CpuMode`]):
//!
//! | place | asked as |
//! |---|---|
//! | computing in kernel mode, or between two steps of a system call | `Kernel` |
//! | before a step that can wait (`might_sleep`) | `KernelPoint` |
//! | `cond_resched` | `CondResched` |
//! | while it holds or spins for a spinning lock | `KernelLocked` |
//! | anywhere else, the way back to user mode included | `User` |

use crate::kernel::body::{Body, Visit};
use crate::kernel::cpu::{Cpu, Ends, Segment};
use crate::kernel::state::Kernel;
use crate::kernel::words::Job;
use zerolag_core::{CpuMode, Leave, LockId, Resched, TaskMode};
use zerolag_model::event::Disables;
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId, TraceEvent};

impl Kernel {
    /// Returns where the current task of a CPU is: the core says whether it is preempted there.
    #[inline(always)]
    pub(super) fn mode_on(place: &Cpu, bodies: &[Body]) -> CpuMode {
        match (place.current, place.segment) {
            (None, _) => CpuMode::Idle,
            (Some(task), _) if bodies[task.index()].spin_locks > 0 => CpuMode::KernelLocked,
            (Some(_), Segment::Work { layer: CpuLayer::Kernel, .. }) => CpuMode::Kernel,
            (Some(task), Segment::None) if bodies[task.index()].visit == Visit::Syscall => CpuMode::Kernel,
            (Some(_), _) => CpuMode::User,
        }
    }

    #[inline]
    pub(crate) fn is_in_syscall(&self, task: TaskId) -> bool {
        self.bodies[task.index()].visit == Visit::Syscall
    }

    /// Returns whether the current task is in kernel mode without being in a system call: it goes
    /// back to user mode before its next action.
    #[inline(always)]
    pub(crate) fn is_to_leave_kernel(&self, cpu: CpuId, task: TaskId) -> bool {
        !self.is_in_syscall(task) && self.cpus[cpu.index()].rq.current_mode() != TaskMode::User
    }

    /// Tells the core that the current task goes on in user mode. Returns whether it goes on at
    /// once.
    #[inline]
    pub(crate) fn back_to_user(&mut self, cpu: CpuId, task: TaskId) -> bool {
        debug_assert!(self.is_to_leave_kernel(cpu, task), "it is in kernel mode");
        if self.bodies[task.index()].visit == Visit::Step {
            self.bodies[task.index()].visit = Visit::None;
            // Now, not at the end of the path: it can be throttled here, and is no longer in the
            // kernel then.
            self.emit(cpu, TraceEvent::Syscall { task, enters: false });
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock_in_path(self.time.now);
        self.scheduler.return_to_user(&mut place.rq, clock, &mut self.calls.io);
        let goes_on = place.rq.need_resched() == Resched::No;
        if !goes_on {
            self.after_call(cpu);
        }
        goes_on
    }

    /// The current task begins a step of kernel mode when it gets its CPU. The record says that it
    /// enters the kernel, as an empty system call would: nothing else says why a task of a higher
    /// rank waits for it.
    pub(crate) fn enter_kernel_step(&mut self, cpu: CpuId, task: TaskId) {
        if self.bodies[task.index()].visit == Visit::None {
            self.bodies[task.index()].visit = Visit::Step;
            self.emit_at(self.path_end(cpu), cpu, TraceEvent::Syscall { task, enters: true });
        }
    }

    /// The current task begins a system call.
    pub(crate) fn enter_syscall(&mut self, cpu: CpuId, task: TaskId) {
        self.bodies[task.index()].visit = Visit::Syscall;
        self.scheduler.enter_kernel(&mut self.cpus[cpu.index()].rq);
        self.emit(cpu, TraceEvent::Syscall { task, enters: true });
    }

    /// The current task ends a system call.
    pub(crate) fn exit_syscall(&mut self, cpu: CpuId, task: TaskId) {
        self.bodies[task.index()].visit = Visit::None;
        self.emit(cpu, TraceEvent::Syscall { task, enters: false });
    }

    /// Returns whether the current task gives its CPU up at this place of kernel mode. If so, the
    /// switch is noted as a job.
    pub(crate) fn gives_way(&mut self, cpu: CpuId, at: CpuMode) -> bool {
        let place = &mut self.cpus[cpu.index()];
        let gives_way = self.scheduler.preempts(place.rq.need_resched(), at);
        if gives_way {
            place.jobs.push_back(Job::Switch(Leave::Preempted));
        }
        gives_way
    }

    /// Blocks the current task: it leaves its CPU as the next job. `lock` is the one that it waits
    /// for, if tasks lend their turns and a task that waits for this lock may.
    #[inline]
    pub(crate) fn block(&mut self, cpu: CpuId, task: TaskId, lock: Option<LockId>) {
        let mut why = Leave::Block;
        if self.rules.lends_turns {
            let body = &mut self.bodies[task.index()];
            body.blocked_on = lock.filter(|_| body.visit == Visit::Syscall);
            why = body.blocked_on.map_or(Leave::Block, Leave::BlockOn);
        }
        self.push_job(cpu, Job::Switch(why));
    }

    /// Starts a computation of the current task, in user or kernel mode.
    #[inline(always)]
    pub(crate) fn compute(&mut self, cpu: CpuId, task: TaskId, time: Duration, layer: CpuLayer) {
        let left = time + core::mem::take(&mut self.bodies[task.index()].refill);
        let place = &mut self.cpus[cpu.index()];
        if layer == CpuLayer::Kernel {
            self.scheduler.enter_kernel(&mut place.rq);
        }
        self.set_segment(cpu, Segment::Work { left, layer });
    }

    /// Charges the current task up to now; returns how long it has run.
    pub(crate) fn charge(&mut self, cpu: CpuId, task: TaskId) -> Duration {
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock_in_path(self.time.now);
        self.scheduler.charge(&mut place.rq, clock, &mut self.calls.io);
        let exec = self.scheduler.counters(&place.rq, task).map_or(Duration::ZERO, |counters| counters.exec);
        // The operations of the charge happen now, before its caller's record.
        self.after_call(cpu);
        exec
    }

    /// The current task takes a spinning lock, or begins to spin for one: nothing preempts it from
    /// now on.
    pub(crate) fn disable_preemption(&mut self, cpu: CpuId, task: TaskId) {
        let sections = &mut self.bodies[task.index()].spin_locks;
        *sections += 1;
        if *sections == 1 {
            self.emit(cpu, TraceEvent::NoPreempt { task, disables: Some(Disables::Preemption) });
        }
    }

    /// The current task has given a spinning lock back.
    pub(crate) fn enable_preemption(&mut self, cpu: CpuId, task: TaskId) {
        let sections = &mut self.bodies[task.index()].spin_locks;
        *sections -= 1;
        if *sections == 0 {
            self.emit(cpu, TraceEvent::NoPreempt { task, disables: None });
        }
    }

    /// Returns whether the current task of a CPU is in a section in which nothing preempts it.
    pub(crate) fn has_disabled_preemption(&self, cpu: CpuId, task: TaskId) -> bool {
        let body = &self.bodies[task.index()];
        body.spin_locks > 0 || body.bh_sections > 0 || matches!(self.cpus[cpu.index()].ends, Ends::IrqsOff(_))
    }

    /// Returns how many switches a CPU has made.
    pub(crate) fn switches(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu.index()].rq.nr_switches()
    }

    /// The current task computes with interrupts disabled: as a part of its kernel path, in which
    /// interrupts wait.
    pub(crate) fn irqs_off(&mut self, cpu: CpuId, task: TaskId, time: Duration) {
        let place = &mut self.cpus[cpu.index()];
        self.scheduler.enter_kernel(&mut place.rq);
        place.spend(CpuLayer::Kernel, time);
        place.ends = Ends::IrqsOff(task);
        self.emit(cpu, TraceEvent::NoPreempt { task, disables: Some(Disables::Interrupts) });
    }

    /// The section of a task with interrupts disabled ends, perhaps inside one without preemption.
    pub(super) fn irqs_on(&mut self, cpu: CpuId, task: TaskId) {
        let disables = (self.bodies[task.index()].spin_locks > 0).then_some(Disables::Preemption);
        self.emit(cpu, TraceEvent::NoPreempt { task, disables });
    }

    /// The current task spins for a lock: it computes without end, until
    /// [`end_spinning`](Self::end_spinning).
    pub(crate) fn begin_spinning(&mut self, cpu: CpuId) {
        self.set_segment(cpu, Segment::Work { left: FOREVER, layer: CpuLayer::Kernel });
    }

    /// The lock for which the current task of a CPU spins is free on another CPU: the task has it
    /// when its cache line has arrived.
    pub(crate) fn end_spinning(&mut self, from: CpuId, on: CpuId) {
        self.spin_on_for(on, self.transfer(from, on));
    }

    /// A computation of user mode without end.
    pub(super) const ENDLESS: Segment = Segment::Work { left: FOREVER, layer: CpuLayer::User };

    /// Lets the current task of a CPU spin for so much longer, in kernel mode.
    pub(super) fn spin_on_for(&mut self, on: CpuId, left: Duration) {
        self.spin_on_in(on, left, CpuLayer::Kernel);
    }

    /// The same in this mode.
    pub(super) fn spin_on_in(&mut self, on: CpuId, left: Duration, layer: CpuLayer) {
        let place = &mut self.cpus[on.index()];
        if !place.is_in_kernel(self.time.now) {
            place.advance_segment(self.time.now);
        }
        place.segment = Segment::Work { left, layer };
        place.completion_at = None;
        if place.jobs.is_empty() {
            self.arm_completion(on);
        }
    }
}

/// Longer than any run: spinning ends when the lock is given up.
const FOREVER: Duration = Duration::from_secs(1 << 30);
