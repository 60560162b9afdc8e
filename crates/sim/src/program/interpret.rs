//! The actions of a program, in order.
//!
//! [`Programs::interpret`] does one action of the current task of a CPU, in its context: it starts
//! a computation, or notes jobs (wake a task, block), or only moves on. An action that takes no
//! time is done at once, and the next is asked for at the same instant. So a task that never spends
//! time would stop the machine's clock: after [`ACTIONS_MAX`] such actions the run ends.

use crate::kernel::cpu::Segment;
use crate::kernel::state::Kernel;
use crate::kernel::words::Job;
use crate::outcome::End;
use crate::program::state::Programs;
use crate::program::task::{TaskActivity, WaitFor};
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::{CpuMode, Leave};
use zerolag_model::{CpuId, CpuLayer, Duration, Mark, TaskId, TraceEvent};
use zerolag_workload::program::{Action, AffinityChange, KernelAction, Phase, Program};

/// The most actions of a task at one instant.
const ACTIONS_MAX: u32 = 200_000;
/// The most places in its program that a task is looked ahead.
const PEEK_MAX: usize = 4;

impl Programs {
    /// Does the next action of the current task of a CPU. The CPU is in the kernel and has no jobs.
    pub(crate) fn interpret(&mut self, kernel: &mut Kernel, cpu: CpuId) {
        let task = kernel.current(cpu).expect("invariant: a task runs");
        let program = Rc::clone(&self.program);
        if !self.makes_progress(kernel, task) {
            return;
        }
        let body = &self.tasks[task.index()];
        if body.is_ended && !kernel.is_in_syscall(task) || body.retires && body.cursor.is_between_turns() {
            self.leave_for_good(kernel, cpu, task);
            return;
        }
        if kernel.is_to_leave_kernel(cpu, task) && !self.leave_kernel(kernel, cpu, task) {
            return;
        }
        self.report_timer(kernel, cpu, task);
        if let Some(mutex) = self.tasks[task.index()].cursor.relock {
            if self.lock(kernel, cpu, task, mutex) {
                self.tasks[task.index()].cursor.relock = None;
            }
            return;
        }
        let Some(phase) = self.find_phase(&program, task) else {
            kernel.push_job(cpu, Job::Switch(Leave::Exit));
            return;
        };
        if !self.tasks[task.index()].cursor.entered {
            self.enter_phase(kernel, cpu, task, phase);
            return;
        }
        match phase.actions.get(self.tasks[task.index()].cursor.action as usize) {
            Some(action) if self.call_costs.rest.is_zero() => self.act(kernel, cpu, task, action),
            Some(action) => self.act_in_parts(kernel, cpu, task, action),
            None => self.end_loop(kernel, cpu, &program, task, phase),
        }
    }

    /// Does an action of which a part is left for the wakeup that it may cause (`call_rest`). If it
    /// has woken no task it spends that part itself.
    fn act_in_parts(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, action: &Action) {
        kernel.set_left_of_call(cpu, self.call_costs.left_after(action, kernel.is_in_syscall(task)));
        self.act(kernel, cpu, task, action);
        let left = kernel.take_left_of_call(cpu);
        if !left.is_zero() {
            kernel.compute(cpu, task, left, CpuLayer::Kernel);
        }
    }

    /// The current task goes back to user mode, unless it spins for a mutex: then it looks. Returns
    /// whether it goes on at once.
    fn leave_kernel(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) -> bool {
        if let TaskActivity::Spins(mutex) = self.task(task).state {
            self.spin_or_block(kernel, cpu, task, mutex);
            return false;
        }
        kernel.back_to_user(cpu, task)
    }

    /// Counts actions at one instant; stops the run when a task goes on and on.
    fn makes_progress(&mut self, kernel: &mut Kernel, task: TaskId) -> bool {
        let (body, now) = (&mut self.tasks[task.index()], kernel.now());
        if body.acted_at != now {
            (body.acted_at, body.actions) = (now, 0);
        }
        body.actions += 1;
        if body.actions > ACTIONS_MAX {
            kernel.end_run(End::NoProgress(Arc::clone(kernel.name(task))));
            kernel.discard_jobs();
            return false;
        }
        true
    }

    /// Returns the phase that a task is in, skipping those without loops; `None` when its program
    /// is over.
    fn find_phase<'p>(&mut self, program: &'p Program, task: TaskId) -> Option<&'p Phase> {
        let body = &mut self.tasks[task.index()];
        let def = &program.tasks[body.model()];
        // Bounded: every turn through all phases without a loop ends the search.
        for _ in 0..=def.phases.len() {
            if def.turns.is_some_and(|turns| body.cursor.turn >= turns) {
                return None;
            }
            let phase = &def.phases[body.cursor.phase as usize];
            if phase.loops > 0 {
                return Some(phase);
            }
            body.cursor.next_phase(def.phases.len());
        }
        None
    }

    /// Enters a phase: its attributes, affinity and group are set by jobs.
    fn enter_phase(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, phase: &Phase) {
        let body = &mut self.tasks[task.index()];
        body.cursor.entered = true;
        let (index, turn) = (body.cursor.phase, body.cursor.turn);
        let first_ever = turn == 0 && index == 0 && body.cursor.loops_done == 0;
        let mark = Mark::Phase { phase: index, turn };
        self.mark(kernel, cpu, task, mark);
        let def = self.tasks[task.index()].def();
        if let Some(attr) = phase.attr.filter(|attr| !first_ever || *attr != self.program.tasks[def].attr) {
            kernel.push_job(cpu, Job::SetAttr(attr));
        }
        match &phase.affinity {
            AffinityChange::Keep => {}
            AffinityChange::Reset => {
                kernel.set_new_affinity(task, None);
                kernel.push_job(cpu, Job::SetAffinity);
            }
            AffinityChange::Set(mask) => {
                kernel.set_new_affinity(task, Some(Arc::clone(mask)));
                kernel.push_job(cpu, Job::SetAffinity);
            }
        }
        if let Some(group) = phase.group {
            kernel.push_job(cpu, Job::SetGroup(group));
        }
    }

    /// Ends a loop of the phase: the next is another loop, the next phase, or the next turn.
    fn end_loop(&mut self, kernel: &mut Kernel, cpu: CpuId, program: &Program, task: TaskId, phase: &Phase) {
        let body = &mut self.tasks[task.index()];
        body.cursor.action = 0;
        body.cursor.loops_done += 1;
        if body.cursor.loops_done < phase.loops {
            return;
        }
        let turn = body.cursor.turn;
        body.cursor.next_phase(program.tasks[body.model()].phases.len());
        if body.cursor.turn != turn {
            self.mark(kernel, cpu, task, Mark::TurnEnd { turn });
        }
    }

    /// Starts the next action of a task that is being switched to, if that is plain work: the
    /// program need not be asked again when the switch is over.
    ///
    /// Other tasks see nothing of this; marks carry the time at which the task gets the CPU.
    #[inline(always)]
    pub(crate) fn peek_work(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        let body = &self.tasks[task.index()];
        if body.cursor.relock.is_some() || body.is_ended || body.retires {
            return;
        }
        if kernel.is_to_leave_kernel(cpu, task)
            && (matches!(body.state, TaskActivity::Spins(_)) || !kernel.back_to_user(cpu, task))
        {
            return;
        }
        let program = Rc::clone(&self.program);
        // Bounded: the end of a loop, of a phase, the entry of the next and its first action.
        for _ in 0..PEEK_MAX {
            let Some(phase) = self.find_phase(&program, task) else { return };
            let cursor = &mut self.tasks[task.index()].cursor;
            if !cursor.entered {
                if !phase.changes_nothing() {
                    return;
                }
                self.enter_phase(kernel, cpu, task, phase);
                continue;
            }
            let (dist, layer) = match phase.actions.get(cursor.action as usize) {
                Some(Action::Run(dist)) => (dist, CpuLayer::User),
                Some(Action::Kernel(dist)) => (dist, CpuLayer::Kernel),
                Some(_) => return,
                None => {
                    self.end_loop(kernel, cpu, &program, task, phase);
                    continue;
                }
            };
            self.report_timer(kernel, cpu, task);
            self.compute(kernel, cpu, task, dist, layer);
            return;
        }
    }

    /// Marks the expiry of the timer that a task waited for.
    fn report_timer(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        if let Some((due, slack)) = self.tasks[task.index()].timer_due.take() {
            self.mark(kernel, cpu, task, Mark::TimerDue { due, slack });
        }
    }

    /// Records a mark at the time at which the task gets its CPU.
    fn mark(&self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, mark: Mark) {
        if kernel.is_traced() {
            kernel.emit_at(kernel.path_end(cpu), cpu, TraceEvent::Mark { task, mark });
        }
    }

    /// Ends a task before its program does.
    fn leave_for_good(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.give_up_request(kernel, cpu, task);
        match self.task(task).holds.last().copied() {
            // One after the other: each wakes its next waiter.
            Some(lock) if self.leaves_user_lock(kernel, cpu, task, lock) => {}
            Some(mutex) => self.drop_mutex(kernel, cpu, task, mutex),
            None => {
                self.leave_user_spinning(task);
                self.pass_on_wakeup(kernel, cpu, task);
                kernel.push_job(cpu, Job::Switch(Leave::Exit));
            }
        }
    }

    /// A task ends that may have been woken for a pipe or to take a mutex, and has not: the next
    /// one is woken instead (`pipe_read` and `pipe_write` do so when a signal ends the wait). One
    /// waiter is woken at a time, so nothing else would wake it.
    fn pass_on_wakeup(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        let program = Rc::clone(&self.program);
        let Some(phase) = self.find_phase(&program, task) else { return };
        let cursor = &self.task(task).cursor;
        let next = match (cursor.relock, phase.actions.get(cursor.action as usize)) {
            (Some(mutex), _) => [self.next_for_free_mutex(mutex), None],
            (None, Some(Action::Lock(mutex))) => [self.next_for_free_mutex(*mutex), None],
            (None, Some(Action::PipeRead { pipe, .. } | Action::PipeWrite { pipe, .. })) => {
                let pipe = self.pipe(*pipe);
                [pipe.next_reader(), pipe.next_writer()]
            }
            (None, _) => return,
        };
        self.wake_each(kernel, cpu, next);
    }

    #[expect(clippy::too_many_lines, reason = "one arm per action")]
    fn act(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, action: &Action) {
        // A task that has spun for a lock has passed this place, and looks.
        if kernel.is_in_syscall(task)
            && action.nature().may_sleep
            && !matches!(self.tasks[task.index()].state, TaskActivity::Spins(_))
            && kernel.gives_way(cpu, CpuMode::KernelPoint)
        {
            return;
        }
        match action {
            Action::Run(dist) => self.compute(kernel, cpu, task, dist, CpuLayer::User),
            Action::Kernel(dist) => self.compute(kernel, cpu, task, dist, CpuLayer::Kernel),
            Action::Spin { wall, chunk } => {
                let until = kernel.now() + self.draw(task, wall);
                let body = &mut self.tasks[task.index()];
                body.cursor.action += 1;
                kernel.set_segment(cpu, Segment::Spin { until, chunk: *chunk, done: Duration::ZERO });
            }
            Action::Sleep(dist) => self.sleep(kernel, cpu, task, dist),
            Action::Timer { timer, period, mode } => self.wait_timer(kernel, cpu, task, *timer, period, *mode),
            Action::Lock(mutex) => {
                if self.lock(kernel, cpu, task, *mutex) {
                    self.step_over(task);
                }
            }
            Action::Unlock(mutex) => {
                if self.enters_unlock(kernel, cpu, task, *mutex) {
                    return;
                }
                self.step_over(task);
                self.drop_mutex(kernel, cpu, task, *mutex);
            }
            Action::Wait { condition, mutex } => {
                if self.enters_unlock(kernel, cpu, task, *mutex) {
                    return;
                }
                self.step_over(task);
                self.wait_condition(kernel, cpu, task, *condition, *mutex);
            }
            Action::Sync { condition, mutex } => {
                if !self.tasks[task.index()].cursor.signalled {
                    self.tasks[task.index()].cursor.signalled = true;
                    self.wake_waiters(kernel, cpu, *condition, 1);
                    return;
                }
                if self.enters_unlock(kernel, cpu, task, *mutex) {
                    return;
                }
                self.tasks[task.index()].cursor.signalled = false;
                self.step_over(task);
                self.wait_condition(kernel, cpu, task, *condition, *mutex);
            }
            Action::Signal(condition) => {
                self.step_over(task);
                self.wake_waiters(kernel, cpu, *condition, 1);
            }
            Action::Broadcast(resource) | Action::Resume(resource) => {
                self.step_over(task);
                self.wake_waiters(kernel, cpu, *resource, usize::MAX);
            }
            Action::Barrier(barrier) => self.arrive(kernel, cpu, task, *barrier),
            Action::SemPost(semaphore) => self.post(kernel, cpu, task, *semaphore),
            Action::SemWait(semaphore) => self.wait_semaphore(kernel, cpu, task, *semaphore),
            Action::Suspend(point) => {
                self.step_over(task);
                self.block_on(kernel, cpu, task, *point, WaitFor::Resume(*point));
            }
            Action::Take(queue) => self.take_request(kernel, cpu, task, *queue),
            Action::Complete(_) => self.complete_request(kernel, cpu, task),
            Action::Call(queue) => self.call(kernel, cpu, task, *queue),
            Action::Send(queue) => {
                self.step_over(task);
                // A full queue has recorded that it dropped the request.
                let _ = self.send_request(kernel, cpu, task, *queue, None);
            }
            Action::Yield => {
                self.step_over(task);
                kernel.push_job(cpu, Job::Switch(Leave::Yield));
            }
            Action::Fork(def) => {
                self.step_over(task);
                kernel.push_job(cpu, Job::Fork(*def));
            }
            Action::PipeWrite { pipe, bytes } => self.pipe_write(kernel, cpu, task, *pipe, *bytes),
            Action::PipeRead { pipe, bytes } => self.pipe_read(kernel, cpu, task, *pipe, *bytes),
            Action::InKernel(action) => self.act_in_kernel(kernel, cpu, task, action),
            Action::Stamp(label) => {
                self.step_over(task);
                let exec = kernel.charge(cpu, task);
                kernel.emit(cpu, TraceEvent::Mark { task, mark: Mark::Stamp { label: *label, exec } });
            }
        }
    }

    /// Does something that only the kernel does.
    fn act_in_kernel(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, action: &KernelAction) {
        match action {
            KernelAction::SyscallEnter => {
                self.step_over(task);
                kernel.enter_syscall(cpu, task);
            }
            KernelAction::SyscallExit => {
                self.step_over(task);
                kernel.exit_syscall(cpu, task);
            }
            KernelAction::CondResched => {
                self.step_over(task);
                kernel.gives_way(cpu, CpuMode::CondResched);
            }
            KernelAction::Down { semaphore, access } => {
                self.step_over(task);
                self.down(kernel, cpu, task, *semaphore, *access);
            }
            KernelAction::Up { semaphore, access } => {
                self.step_over(task);
                self.up(kernel, cpu, task, *semaphore, *access);
            }
            KernelAction::SpinLock(lock) => self.spin_lock(kernel, cpu, task, *lock),
            KernelAction::SpinUnlock(lock) => self.spin_unlock(kernel, cpu, task, *lock),
            KernelAction::UserSpinLock(lock) => self.user_spin_lock(kernel, cpu, task, *lock),
            KernelAction::UserSpinUnlock(lock) => self.user_spin_unlock(kernel, cpu, task, *lock),
            KernelAction::PreemptDisable => {
                self.step_over(task);
                kernel.disable_preemption(cpu, task);
            }
            KernelAction::PreemptEnable => {
                self.step_over(task);
                kernel.enable_preemption(cpu, task);
            }
            KernelAction::IrqsOff(dist) => {
                self.step_over(task);
                let time = self.draw(task, dist);
                kernel.irqs_off(cpu, task, time);
            }
            KernelAction::BhDisable => self.bh_disable(kernel, cpu, task),
            KernelAction::BhEnable => self.bh_enable(kernel, cpu, task),
            KernelAction::Softirqs => self.do_softirq(kernel, cpu, task),
            KernelAction::SoftTimers => self.expire_timer(kernel, cpu, task),
            KernelAction::RcuLock => self.rcu_read_lock(kernel, cpu, task),
            KernelAction::RcuUnlock => self.rcu_read_unlock(kernel, cpu, task),
            KernelAction::SynchronizeRcu => self.synchronize_rcu(kernel, cpu, task),
            KernelAction::RcuPeriods => self.rcu_periods(kernel, cpu, task),
            KernelAction::RcuBoost => self.rcu_boost(kernel, cpu, task),
            KernelAction::Read(read) => self.read(kernel, cpu, task, read),
            KernelAction::Io { disk, bytes } => {
                self.step_over(task);
                self.wait_for_disk(kernel, cpu, task, *disk, *bytes);
            }
        }
    }
}
