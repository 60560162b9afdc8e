//! Cpusets on the machine: which are partitions at the start, and which become ones or cease to be in mid-run.
//!
//! A change interrupts each CPU of the cpuset, and each joins its new root domain by itself, under its own run queue's
//! lock: the order in which they do so is that of their interrupts.

use crate::kernel::cpu::Job;
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::Machine;
use zerolag_core::{CpusetId, Partition};
use zerolag_model::{CpuId, CpuMask, TraceEvent};
use zerolag_workload::program::Program;

/// Returns the program's cpusets as the core wants them.
pub(crate) fn partitions(program: &Program) -> Vec<(CpuMask, Partition)> {
    let sets = program.cpusets.iter().enumerate().map(|(index, set)| {
        let partition = match (set.partition, program.changes_partition(index)) {
            (true, _) => Partition::Root,
            (false, true) => Partition::Prepared,
            (false, false) => Partition::Member,
        };
        ((*set.cpus).clone(), partition)
    });
    sets.collect()
}

/// Returns the core's id of a cpuset of the program.
pub(crate) fn id_of(cpuset: usize) -> CpusetId {
    CpusetId(u16::try_from(cpuset + 1).expect("invariant: the core accepted the cpusets"))
}

impl Machine {
    /// Returns whether a cpuset is or may become a partition: isolated CPUs may forbid it.
    pub(crate) fn can_be_partition(&self, cpuset: usize) -> bool {
        self.scheduler.config().domain_of(id_of(cpuset)).is_some()
    }

    /// Says which CPU is in which root domain.
    pub(crate) fn announce_domains(&mut self) {
        for cpu in self.topology.cpus() {
            let domain = u32::try_from(self.scheduler.root_domain(cpu)).expect("invariant: fewer than 65536");
            if domain != 0 && self.tracer.is_on() {
                self.emit(cpu, TraceEvent::RootDomain { domain });
            }
        }
    }

    /// A CPU joins the root domain that a change gives it.
    pub(crate) fn join_domain(&mut self, cpu: CpuId, partition: CpusetId, change: u32) -> Done {
        if self.lock(cpu, cpu) == Lock::Busy {
            return self.spin(cpu, Job::Change(change));
        }
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        let step = self
            .scheduler
            .join_domain(&mut place.rq, clock, partition, &mut self.io)
            .expect("invariant: changes are checked when they are read");
        self.unlock(cpu, cpu, self.costs.rq_lock_hold);
        self.push_step(cpu, step);
        Done::Yes
    }
}
