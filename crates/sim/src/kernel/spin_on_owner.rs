//! Tasks that spin while the holder of a lock runs on another CPU.
//!
//! The kernel knows no locks of programs. It is told which task's CPU to watch, and lets the
//! spinning task look again (its computation ends, and its program is asked) as soon as that task
//! has left its CPU, or this CPU is asked to schedule. All other reasons to look again are changes
//! of the lock: the program names the task then ([`Kernel::look_again`]).
//!
//! | what the spinning task sees | when |
//! |---|---|
//! | the holder has left its CPU (`on_cpu`) | at the end of that CPU's switch, and the way of a cache line |
//! | a request to schedule that an interrupt on its own CPU made | at the end of the interrupt, unless it is preempted there |
//! | one from another CPU | when that CPU's interrupt arrives: before it, in the kernel |
//!
//! A task is in the list of spinning tasks exactly as long as its computation is the endless one
//! that [`Kernel::spin_on`] starts, whether it is loaded or was stored by a switch that is under
//! way. So a machine on which nothing spins looks at the length of the list only.
//!
//! Work: O(spinning CPUs) for each switch and each request to schedule while any spins.
//!
//! Source: Linux v6.11 `kernel/locking/rtmutex.c`, `rtmutex_spin_on_owner`.

use crate::kernel::cpu::{Segment, Spinner};
use crate::kernel::state::Kernel;
use zerolag_core::Resched;
use zerolag_model::{CpuId, Duration, TaskId};

impl Kernel {
    /// Returns whether the current task of a CPU may spin while this task runs: it is on another
    /// CPU, which has not switched away from it yet, and nothing asks this CPU to schedule.
    pub(crate) fn may_spin_on(&self, cpu: CpuId, owner: TaskId) -> bool {
        self.is_on_cpu(owner) && self.cpus[cpu.index()].rq.need_resched() != Resched::Now
    }

    fn is_on_cpu(&self, task: TaskId) -> bool {
        let on = self.bodies[task.index()].last_ran_on.map(|on| &self.cpus[on.index()]);
        on.is_some_and(|on| on.current == Some(task) || on.rq.is_leaving(task))
    }

    /// The current task of a CPU spins, in kernel mode, while another task runs.
    pub(crate) fn spin_on(&mut self, cpu: CpuId, task: TaskId, owner: TaskId) {
        assert!(self.current(cpu) == Some(task), "it is the current task");
        assert!(self.take_spinner(|spinner| spinner.task == task).is_none(), "it looks, and spins no more");
        self.scheduler.enter_kernel(&mut self.cpus[cpu.index()].rq);
        self.begin_spinning(cpu);
        self.spinners.push(Spinner { task, on: cpu, owner });
    }

    fn take_spinner(&mut self, is_it: impl Fn(&Spinner) -> bool) -> Option<Spinner> {
        let place = self.spinners.iter().position(is_it)?;
        Some(self.spinners.remove(place))
    }

    /// Another CPU has changed the lock that a task spins for: the task looks at it when the cache
    /// line has arrived. If it has been preempted, it looks when it runs again.
    pub(crate) fn look_again(&mut self, from: CpuId, task: TaskId) {
        if let Some(spinner) = self.take_spinner(|spinner| spinner.task == task) {
            self.end_watch(spinner, self.transfer(from, spinner.on));
        }
    }

    /// A task that spins will see a change so much later.
    fn end_watch(&mut self, spinner: Spinner, later: Duration) {
        if self.current(spinner.on) == Some(spinner.task) {
            self.spin_on_for(spinner.on, later);
        } else {
            self.cut_off_stored(spinner.task);
        }
    }

    /// A CPU has switched. A task that spun here looks when it runs again; tasks that spin because
    /// the last one of this CPU ran look when the switch is over.
    #[cold]
    pub(super) fn after_switch(&mut self, cpu: CpuId) {
        let mut spinners = core::mem::take(&mut self.spinners);
        spinners.retain(|spinner| {
            let spins = self.current(spinner.on) == Some(spinner.task) && self.is_on_cpu(spinner.owner);
            if !spins {
                let rest = self.path_end(cpu).since(self.time.now);
                self.end_watch(*spinner, rest + self.transfer(cpu, spinner.on));
            }
            spins
        });
        self.spinners = spinners;
    }

    /// Returns whether any task spins.
    #[inline(always)]
    pub(crate) const fn has_spinners(&self) -> bool {
        !self.spinners.is_empty()
    }

    /// The current task of a CPU sees that the CPU is to schedule, if it spins: its computation
    /// ends. Returns the task then.
    #[cold]
    pub(crate) fn spinner_sees_request(&mut self, cpu: CpuId) -> Option<TaskId> {
        let place = &mut self.cpus[cpu.index()];
        let task = place.current.filter(|_| place.rq.need_resched() == Resched::Now)?;
        self.take_spinner(|spinner| spinner.task == task)?;
        let place = &mut self.cpus[cpu.index()];
        place.segment = Segment::None;
        place.begin_own_path();
        Some(task)
    }
}
