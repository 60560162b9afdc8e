//! Deadline servers and RT throttling that are set in mid-run: somebody writes to `fair_server/cpuN/runtime` and `period`, or to
//! `sched_rt_runtime_us` and `sched_rt_period_us`.
//!
//! Each CPU concerned sets its own, under its run queue's lock. A write that the core refuses changes nothing, as in the
//! kernel; the run ends with it, for the scenario asked for what cannot be.

use crate::kernel::cpu::{Interrupt, Job};
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::Machine;
use crate::outcome::{End, SimError};
use zerolag_model::{CpuId, Duration, RtBandwidth, ServerKind, ServerParams};

impl Machine {
    /// A CPU sets its server; what is not said stays.
    pub(crate) fn set_server(
        &mut self,
        cpu: CpuId,
        runtime: Option<Duration>,
        period: Option<Duration>,
        change: u32,
    ) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Change(change));
        }
        let place = &mut self.cpus[cpu.index()];
        let (clock, kind) = (place.clock(self.now), ServerKind::Fair);
        let (has, _, _) = place.rq.server(kind);
        let params =
            ServerParams { runtime: runtime.unwrap_or(has.runtime), period: period.unwrap_or(has.period), ..has };
        if let Err(error) = self.scheduler.set_server(&mut place.rq, clock, kind, params, &mut self.io) {
            self.stop = Some(End::Failed(SimError::Server { cpu, error }));
        }
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        Done::Yes
    }

    /// Somebody writes to `sched_rt_runtime_us` or `sched_rt_period_us`: the limit is one for the machine, and each CPU is to follow.
    pub(crate) fn set_rt_bandwidth(&mut self, bandwidth: RtBandwidth, change: u32) {
        if let Err(error) = self.scheduler.set_rt_bandwidth(self.now, bandwidth) {
            self.stop = Some(End::Failed(SimError::RtBandwidth { bandwidth, error }));
            return;
        }
        for cpu in (0..self.cpus.len()).map(CpuId::from_index) {
            self.interrupt(cpu, Interrupt::Change(change));
        }
    }

    /// A CPU follows what real-time tasks may run now.
    pub(crate) fn follow_rt_limit(&mut self, cpu: CpuId, change: u32) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Change(change));
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        self.scheduler.follow_rt_limit(&mut place.rq, clock, &mut self.io);
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        Done::Yes
    }
}
