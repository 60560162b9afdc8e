//! Cpusets on the machine: which are partitions at the start, and which become ones or cease to be in mid-run.
//!
//! A change interrupts each CPU of the cpuset, and each joins its new root domain by itself, under its own run queue's
//! lock: the order in which they do so is that of their interrupts.

use crate::cpu::{Interrupt, Job};
use crate::lock::Lock;
use crate::machine::{Event, Machine};
use crate::path::Done;
use std::sync::Arc;
use zerolag_core::{CpusetId, Partition};
use zerolag_model::{CpuId, CpuMask, TraceEvent};
use zerolag_workload::program::Program;

/// Returns the program's cpusets as the core wants them.
pub(crate) fn partitions(program: &Program) -> Vec<(CpuMask, Partition)> {
    let changes = |index| program.partition_changes.iter().any(|change| change.cpuset == index);
    let sets = program.cpusets.iter().enumerate().map(|(index, set)| {
        let partition = match (set.partition, changes(index)) {
            (true, _) => Partition::Root,
            (false, true) => Partition::Prepared,
            (false, false) => Partition::Member,
        };
        ((*set.cpus).clone(), partition)
    });
    sets.collect()
}

impl Machine {
    /// Says which CPU is in which root domain, and sets the times of later changes.
    pub(crate) fn announce_domains(&mut self) {
        for cpu in self.topology.cpus() {
            let domain = u32::try_from(self.scheduler.root_domain(cpu)).expect("invariant: fewer than 65536");
            if domain != 0 && self.tracer.is_on() {
                self.emit(cpu, TraceEvent::RootDomain { domain });
            }
        }
        let program = Arc::clone(&self.program);
        self.plan(program.partition_changes.iter().map(|change| change.at), |change| Event::Partition { change });
    }

    /// A cpuset becomes a partition, or ceases to be one: interrupts its CPUs.
    pub(crate) fn partition_changes(&mut self, change: u32) {
        let set = self.program.partition_changes[change as usize].cpuset;
        for cpu in Arc::clone(&self.program.cpusets[set].cpus).iter() {
            self.interrupt(cpu, Interrupt::Partition(change));
        }
    }

    /// A CPU joins the root domain that a change gives it.
    pub(crate) fn join_domain(&mut self, cpu: CpuId, change: u32) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Partition(change));
        }
        let change = self.program.partition_changes[change as usize];
        let own = CpusetId(u16::try_from(change.cpuset + 1).expect("invariant: the core accepted the cpusets"));
        let partition = if change.is_root { own } else { CpusetId::default() };
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let step = self
            .scheduler
            .join_domain(&mut place.rq, clock, partition, &mut self.io)
            .expect("invariant: changes are checked when they are read");
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        self.push_step(cpu, step, Job::Pick, false);
        Done::Yes
    }
}
