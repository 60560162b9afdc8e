//! Deadline servers that are set in mid-run: somebody writes to `fair_server/cpuN/runtime` and `period`.
//!
//! Each CPU concerned sets its own, under its run queue's lock. A write that the core refuses changes nothing, as in the
//! kernel; the run ends with it, for the scenario asked for what cannot be.

use crate::cpu::{Interrupt, Job};
use crate::lock::Lock;
use crate::machine::{Event, Machine};
use crate::outcome::{End, SimError};
use crate::path::Done;
use std::sync::Arc;
use zerolag_model::{CpuId, ServerKind, ServerParams};

impl Machine {
    /// Sets the times of the changes.
    pub(crate) fn plan_server_changes(&mut self) {
        let program = Arc::clone(&self.program);
        self.plan(program.server_changes.iter().map(|change| change.at), |change| Event::Server { change });
    }

    /// Interrupts the CPUs whose server changes.
    pub(crate) fn servers_change(&mut self, change: u32) {
        let cpus = self.program.server_changes[change as usize].cpus.clone();
        for cpu in (0..self.cpus.len()).map(CpuId::from_index) {
            if cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)) {
                self.interrupt(cpu, Interrupt::Server(change));
            }
        }
    }

    /// A CPU sets its server.
    pub(crate) fn set_server(&mut self, cpu: CpuId, change: u32) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Server(change));
        }
        let change = &self.program.server_changes[change as usize];
        let place = &mut self.cpus[cpu.index()];
        let (clock, kind) = (place.clock(self.now), ServerKind::Fair);
        let (has, _, _) = place.rq.server(kind);
        let runtime = change.runtime.unwrap_or(has.runtime);
        let params = ServerParams { runtime, period: change.period.unwrap_or(has.period), ..has };
        if let Err(error) = self.scheduler.set_server(&mut place.rq, clock, kind, params, &mut self.io) {
            self.stop = Some(End::Failed(SimError::Server { cpu, error }));
        }
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        Done::Yes
    }
}
