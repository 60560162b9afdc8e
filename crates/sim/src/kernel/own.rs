//! Jobs of a CPU on its own run queue: its events, and changes that its current task makes of
//! itself.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job};
use zerolag_core::{GroupTimer, RqTimer, Work};
use zerolag_model::{CpuId, CpuLayer, Duration, GroupId, SchedAttr};

impl Kernel {
    /// Does the tick. Its cost covers its lock and bookkeeping.
    pub(crate) fn tick_job(&mut self, cpu: CpuId) -> Done {
        self.lock_for(cpu, cpu, Job::Tick)?;
        let step = self.under_own_lock(cpu, |scheduler, rq, clock, io| scheduler.tick(rq, clock, io));
        self.unlock_own(cpu, Duration::ZERO);
        self.raise_softirq(cpu, step);
        Ok(())
    }

    /// A timer of the run queue fires.
    pub(crate) fn rq_timer(&mut self, cpu: CpuId, timer: RqTimer) -> Done {
        let has_cost = !self.costs.hrtick.is_zero();
        let is_hrtick = has_cost && timer == RqTimer::Slice && self.cpus[cpu.index()].rq.has_hrtick();
        self.lock_for(cpu, cpu, Job::Timer(timer))?;
        let step = self.under_own_lock(cpu, |scheduler, rq, clock, io| scheduler.timer(rq, clock, timer, io));
        self.unlock_own(cpu, self.costs.rq_lock_hold);
        if is_hrtick {
            self.cpus[cpu.index()].spend(CpuLayer::Irq, self.costs.hrtick);
        }
        self.carry(cpu, step, false)
    }

    /// Does the work that another CPU has queued here.
    pub(crate) fn remote_work(&mut self, cpu: CpuId, work: Work) -> Done {
        self.lock_for(cpu, cpu, Job::Remote(work))?;
        let step = self.under_own_lock(cpu, |scheduler, rq, clock, io| scheduler.remote(rq, clock, work, io));
        self.unlock_own(cpu, self.costs.rq_lock_hold);
        self.carry(cpu, step, false)
    }

    /// A timer of a group fires.
    pub(crate) fn group_timer(&mut self, cpu: CpuId, group: GroupId, timer: GroupTimer) -> Done {
        let step = self.call(cpu, |scheduler, clock, io| scheduler.group_timer(group, timer, clock, cpu, io));
        self.push_step(cpu, step);
        Ok(())
    }

    /// Does the remote tick of a CPU that runs a task without a tick. It takes the time of a tick
    /// here, and none there.
    pub(crate) fn remote_tick(&mut self, cpu: CpuId, of: CpuId) -> Done {
        self.locked(cpu, of, Job::RemoteTick(of), |scheduler, rq, clock, io| scheduler.remote_tick(rq, clock, cpu, io))
    }

    /// The current task changes its attributes.
    pub(crate) fn set_attr(&mut self, cpu: CpuId, attr: SchedAttr) -> Done {
        let task = self.current(cpu).expect("invariant: a task changes itself");
        let result = self.locked(cpu, cpu, Job::SetAttr(attr), |scheduler, rq, clock, io| {
            scheduler.set_attr(rq, clock, task, attr, io)
        })?;
        match result {
            Ok(step) => self.push_step(cpu, step),
            Err(error) => self.fail(task, error),
        }
        Ok(())
    }

    /// The current task confines itself to its `new_affinity`.
    pub(crate) fn set_affinity(&mut self, cpu: CpuId) -> Done {
        let task = self.current(cpu).expect("invariant: a task changes itself");
        self.lock_for(cpu, cpu, Job::SetAffinity)?;
        let mask = self.bodies[task.index()].new_affinity.take();
        let result =
            self.under_own_lock(cpu, |scheduler, rq, clock, io| scheduler.set_affinity(rq, clock, task, mask, io));
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        match result {
            Ok((displaced, step)) => {
                assert!(displaced.is_none(), "a running task is displaced when it leaves");
                self.push_step(cpu, step);
            }
            Err(error) => self.fail(task, error),
        }
        Ok(())
    }
}
