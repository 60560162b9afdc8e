//! CPUs that are kept free: where tasks begin that may not use them, and who looks after those whose tick has stopped.
//!
//! Once a second the lowest CPU that is not of `nohz_full` charges each CPU of it that runs a task without a tick, under that CPU's run-queue
//! lock. It takes the time of a tick there, and none on the other CPU.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `sched_tick_remote`; `kernel/sched/isolation.c`. differs: the kernel's remote ticks begin when
//! each CPU comes online, here all come at whole seconds.

use crate::kernel::cpu::{Interrupt, Job};
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::{Event, Machine};
use crate::queue::{Phase, Source};
use zerolag_model::{CpuId, CpuMask, Duration};

/// The distance of remote ticks (`sched_tick_remote`: HZ jiffies).
const DISTANCE: Duration = Duration::from_secs(1);

/// Returns the next CPU after one, around, that is not isolated.
pub(crate) fn free_after(cpu: CpuId, isolated: &CpuMask, nr_cpus: usize) -> CpuId {
    let around = (1..=nr_cpus).map(|by| CpuId::from_index((cpu.index() + by) % nr_cpus));
    around.into_iter().find(|cpu| !isolated.contains(*cpu)).expect("invariant: a CPU is left that is not isolated")
}

impl Machine {
    /// Returns the CPU on which the n-th task is born: one after the other, without isolated ones.
    pub(crate) fn birthplace(&self, nth: usize) -> CpuId {
        let isolated = self.scheduler.config().isolated();
        if isolated.is_empty() {
            return CpuId::from_index(nth % self.cpus.len());
        }
        let free = self.cpus.len() - isolated.count();
        let free = self.topology.cpus().filter(|cpu| !isolated.contains(*cpu)).nth(nth % free);
        free.expect("invariant: a CPU is left that is not isolated")
    }

    /// Sees that CPUs of `nohz_full` are looked after.
    pub(crate) fn plan_remote_ticks(&mut self) {
        if !self.scheduler.config().full_dynticks().is_empty() {
            self.plan_remote_tick();
        }
    }

    fn plan_remote_tick(&mut self) {
        let by = self.housekeeper();
        let count = self.cpus[by.index()].next_count();
        let at = self.now.saturating_add(DISTANCE);
        self.queue.push(at, Phase::TaskTimer, Source::cpu(by), count, Event::RemoteTicks);
    }

    /// Returns the lowest online CPU that is not of `nohz_full`; if there is none, CPU 0.
    fn housekeeper(&self) -> CpuId {
        let full = self.scheduler.config().full_dynticks();
        let free = |cpu: &CpuId| !full.contains(*cpu) && self.cpus[cpu.index()].rq.is_online();
        self.topology.cpus().find(free).unwrap_or(CpuId(0))
    }

    /// A second is over: every CPU that runs a task without a tick is looked after.
    pub(crate) fn remote_ticks(&mut self) {
        self.plan_remote_tick();
        let by = self.housekeeper();
        let mut from = CpuId(0);
        while let Some(of) = self.scheduler.config().full_dynticks().next_from(from) {
            from = CpuId(of.0 + 1);
            let place = &self.cpus[of.index()];
            if !place.ticking && place.current.is_some() && of != by {
                self.interrupt(by, Interrupt::RemoteTick(of));
            }
        }
    }

    pub(crate) fn remote_tick(&mut self, cpu: CpuId, of: CpuId) -> Done {
        if self.lock(cpu, of) == Lock::Busy {
            return self.spin(cpu, Job::RemoteTick(of));
        }
        let place = &mut self.cpus[of.index()];
        let clock = place.clock(self.now);
        self.scheduler.remote_tick(&mut place.rq, clock, cpu, &mut self.io);
        self.unlock(cpu, of, self.costs.rq_lock_hold);
        Done::Yes
    }
}
