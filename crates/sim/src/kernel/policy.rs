//! A policy of `sched_ext` in the simulated kernel: its watchdog, and its end.
//!
//! The watchdog looks every half of the policy's time limit for a runnable task that has not run
//! (`scx_watchdog_workfn`). When the policy has been unloaded, by the watchdog or for a fault, a
//! job per task gives it the fair policy that it has without one (`scx_root_disable`); until then
//! the core runs them first in, first out.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Event, Job};
use crate::queue::Phase;
use zerolag_core::Home;
use zerolag_model::{CpuId, Instant, TaskId};

impl Kernel {
    /// Lets the watchdog look for a task that the policy has forgotten, and come back.
    #[cold]
    pub(crate) fn watch_policy(&mut self, cpu: CpuId) {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        let next = self.scheduler.watch_policy(clock, cpu, &mut self.calls.io);
        if let Some(at) = next {
            self.queue_event(at, Phase::Device, cpu, Event::PolicyWatch { cpu });
        }
        self.after_call(cpu);
    }

    /// A timer of the policy is due at this time: this CPU takes its interrupt.
    #[cold]
    pub(super) fn arm_policy_timer(&mut self, cpu: CpuId, at: Instant) {
        self.queue_event(at, Phase::Device, cpu, Event::PolicyTimer { cpu });
    }

    /// Calls the timers of the policy that are due.
    #[cold]
    pub(crate) fn fire_policy_timers(&mut self, cpu: CpuId) {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        self.scheduler.fire_policy_timers(clock, cpu, &mut self.calls.io);
        self.after_call(cpu);
    }

    /// The policy has been unloaded.
    #[cold]
    pub(super) fn disown_all(&mut self, cpu: CpuId) {
        for task in (0..self.bodies.len()).map(TaskId::from_index) {
            self.push_job(cpu, Job::Disown { task });
        }
    }

    /// Gives a task its fair policy.
    #[cold]
    pub(crate) fn disown(&mut self, cpu: CpuId, task: TaskId) -> Done {
        if let Some(parcel) = &self.bodies[task.index()].parcel {
            if parcel.prio().is_ext() {
                let changed = self.call_parked(cpu, task, |scheduler, clock, parcel, io| {
                    scheduler.disown_parked(clock, parcel, cpu, io)
                });
                changed.expect("invariant: a fair task is admitted");
            }
            return Ok(());
        }
        let Home::Rq(home) = self.scheduler.home(task) else { return Ok(()) };
        let is_policys = self.cpus[home.index()].rq.inspect().queued().any(|(id, prio)| id == task && prio.is_ext());
        if !is_policys {
            return Ok(());
        }
        let changed = self.locked(cpu, home, Job::Disown { task }, |scheduler, rq, clock, io| {
            scheduler.disown(rq, clock, task, io)
        })?;
        match changed {
            Ok(step) => self.push_step(cpu, step),
            Err(error) => self.fail(task, error),
        }
        Ok(())
    }
}
