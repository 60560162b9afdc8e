//! Cpusets: which are partitions at the start, and which become or cease to be partitions during
//! the run.
//!
//! A change interrupts each CPU of the cpuset. Each joins its new root domain by itself, under the
//! lock of its own run queue, in the order of the interrupts.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job};
use zerolag_core::{CpusetId, Partition};
use zerolag_model::{CpuId, CpuMask, TraceEvent};
use zerolag_workload::program::Program;

/// Returns the program's cpusets as the core takes them.
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

/// Returns whether a cpuset is or can become a partition: isolated CPUs can prevent it.
pub(crate) fn can_be_partition(kernel: &Kernel, cpuset: usize) -> bool {
    kernel.scheduler().config().domain_of(id_of(cpuset)).is_some()
}

/// Records which CPU is in which root domain.
pub(crate) fn announce_domains(kernel: &mut Kernel) {
    for cpu in (0..kernel.nr_cpus()).map(CpuId::from_index) {
        let domain = u32::try_from(kernel.scheduler().root_domain(cpu)).expect("invariant: fewer than 65536");
        if domain != 0 && kernel.is_traced() {
            kernel.emit(cpu, TraceEvent::RootDomain { domain });
        }
    }
}

/// Lets a CPU join the root domain that a change gives it.
pub(crate) fn join_domain(kernel: &mut Kernel, cpu: CpuId, partition: CpusetId, change: u32) -> Done {
    let step = kernel.locked(cpu, cpu, Job::Change(change), |scheduler, rq, clock, io| {
        scheduler.join_domain(rq, clock, partition, io)
    })?;
    kernel.push_step(cpu, step.expect("invariant: changes are checked when they are read"));
    Ok(())
}
