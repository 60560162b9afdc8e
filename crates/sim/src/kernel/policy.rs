//! A policy of `sched_ext` in the simulated kernel: how it is loaded and unloaded, its watchdog,
//! and its end.
//!
//! The watchdog looks every half of the policy's time limit for a runnable task that has not run
//! (`scx_watchdog_workfn`). A policy that is loaded or unloaded, by its user or for a fault, is a
//! chain of jobs of one CPU: each CPU follows, each task changes its class in order of creation
//! (`scx_tasks`), the core is told that all have, and each CPU follows again (`scx_root_enable`,
//! `scx_root_disable`). Until the last task has changed the core runs them first in, first out.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Event, Job, PolicyJob};
use crate::outcome::SimError;
use crate::queue::Phase;
use zerolag_core::Home;
use zerolag_model::settings::SchedExt;
use zerolag_model::{CpuId, Instant, TaskId};
use zerolag_policy::Policy;

impl Kernel {
    /// Lets the watchdog look for a task that the policy has forgotten, and come back.
    #[cold]
    pub(crate) fn watch_policy(&mut self, cpu: CpuId) {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        let next = self.scheduler.watch_policy(clock, cpu, &mut self.calls.io);
        self.books.watches_policy = next.is_some();
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

    /// Loads a policy for these tasks. If another one is loaded it is refused.
    #[cold]
    pub(crate) fn load_policy(&mut self, cpu: CpuId, policy: Box<dyn Policy>, tasks: SchedExt) {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        if !self.scheduler.begin_policy(policy, tasks, clock, cpu, &mut self.calls.io) {
            return self.refuse(SimError::PolicyLoaded);
        }
        self.after_call(cpu);
        self.follow_policy_everywhere(cpu);
        self.govern_all(cpu);
    }

    /// Unloads the policy. Without one nothing happens.
    #[cold]
    pub(crate) fn unload_policy(&mut self, cpu: CpuId) {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        if self.scheduler.begin_unloading(clock, cpu, &mut self.calls.io) {
            self.after_call(cpu);
            self.govern_all(cpu);
        }
    }

    /// A policy is loaded, or has been unloaded.
    #[cold]
    pub(super) fn govern_all(&mut self, cpu: CpuId) {
        for task in (0..self.bodies.len()).map(TaskId::from_index) {
            self.push_job(cpu, Job::Policy(PolicyJob::Govern(task)));
        }
        self.push_job(cpu, Job::Policy(PolicyJob::Changed));
        self.follow_policy_everywhere(cpu);
    }

    fn follow_policy_everywhere(&mut self, cpu: CpuId) {
        for on in (0..self.nr_cpus()).map(CpuId::from_index) {
            self.push_job(cpu, Job::Policy(PolicyJob::Follow(on)));
        }
    }

    /// Does a part of loading or unloading a policy.
    #[cold]
    pub(crate) fn policy_job(&mut self, cpu: CpuId, job: PolicyJob) -> Done {
        match job {
            PolicyJob::Govern(task) => self.govern(cpu, task),
            PolicyJob::Follow(on) => self.follow_policy(cpu, on),
            PolicyJob::Changed => {
                self.policy_changed(cpu);
                Ok(())
            }
        }
    }

    /// Every task is of the class that it has from now on.
    fn policy_changed(&mut self, cpu: CpuId) {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        let is_loaded = self.scheduler.end_policy_change(clock, cpu, &mut self.calls.io);
        self.after_call(cpu);
        if is_loaded && !self.books.watches_policy {
            self.watch_policy(cpu);
        }
    }

    /// Lets a CPU follow the policy that is loaded, or no more. A server without bandwidth ends the
    /// policy.
    fn follow_policy(&mut self, cpu: CpuId, on: CpuId) -> Done {
        let followed = self.locked(cpu, on, Job::Policy(PolicyJob::Follow(on)), |scheduler, rq, clock, io| {
            scheduler.follow_policy(rq, clock, io)
        })?;
        if let Err(error) = followed {
            let clock = self.cpus[cpu.index()].clock(self.time.now);
            let why = format!("scx_root_enable() failed: ext_server of CPU {on}: {error}");
            self.scheduler.fail_policy(&why, clock, cpu, &mut self.calls.io);
            self.after_call(cpu);
        }
        Ok(())
    }

    /// Gives a task the class that it has under the policy that is loaded, or without one.
    fn govern(&mut self, cpu: CpuId, task: TaskId) -> Done {
        if self.bodies[task.index()].parcel.is_some() {
            let changed = self
                .call_parked(cpu, task, |scheduler, clock, parcel, io| scheduler.govern_parked(clock, parcel, cpu, io));
            changed.expect("invariant: a fair task is admitted");
            return Ok(());
        }
        let Home::Rq(home) = self.scheduler.home(task) else { return Ok(()) };
        let changed = self.locked(cpu, home, Job::Policy(PolicyJob::Govern(task)), |scheduler, rq, clock, io| {
            scheduler.govern(rq, clock, task, io)
        })?;
        match changed {
            Ok(step) => self.push_step(cpu, step),
            // It sleeps and was still queued: it has been taken off, and its body is in hand now.
            Err(_) if self.is_parked(task) => self.push_next_job(cpu, Job::Policy(PolicyJob::Govern(task))),
            Err(error) => self.fail(task, error),
        }
        Ok(())
    }
}
