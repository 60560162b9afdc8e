//! [`MachineStandstills`]: when CPUs stand still, and for how long.
//!
//! Each CPU has a stream of its own for the time that its hypervisor takes (`stolen`), and the
//! machine has one for that of its firmware (`smi`), so that neither changes the draws of the
//! other. A gap and the length after it do not depend on each other. A CPU stands still whether it
//! computes or idles: a wakeup of an idle virtual CPU waits for its hypervisor too.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, Stands};
use crate::queue::Phase;
use crate::sketch::{Standstills, WHOLE};
use zerolag_model::{CpuId, Duration};
use zerolag_workload::Stream;

/// The standstills of a machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct MachineStandstills {
    /// Of each CPU; empty without any.
    stolen: Vec<Stream>,
    smi: Option<Stream>,
}

impl MachineStandstills {
    /// Arms the first standstill of each kind, after one gap.
    pub(crate) fn plan(&mut self, kernel: &mut Kernel, seed: u64) {
        if !kernel.costs().stolen.is_zero() {
            let cpus = u32::try_from(kernel.nr_cpus()).expect("invariant: fewer than 2^32 CPUs");
            self.stolen = (0..cpus).map(|cpu| Stream::new(seed, "stolen", cpu, "standstills")).collect();
            (0..cpus).for_each(|cpu| self.arm(kernel, Some(CpuId(cpu)), Duration::ZERO));
        }
        if !kernel.costs().smi.is_zero() {
            self.smi = Some(Stream::new(seed, "smi", 0, "standstills"));
            self.arm(kernel, None, Duration::ZERO);
        }
    }

    /// A standstill begins, of one CPU or of all: returns why, and its length. The next is armed.
    pub(crate) fn begin(&mut self, kernel: &mut Kernel, cpu: Option<CpuId>) -> (Stands, Duration) {
        let (of, stream) = self.of(kernel, cpu);
        let length = of.length.at(stream.below(WHOLE));
        self.arm(kernel, cpu, length);
        (if cpu.is_some() { Stands::Stolen } else { Stands::Smi }, length)
    }

    /// Arms the next standstill, one gap after the end of this one.
    fn arm(&mut self, kernel: &mut Kernel, cpu: Option<CpuId>, length: Duration) {
        let (of, stream) = self.of(kernel, cpu);
        // Time must go on between two of no length.
        let gap = of.gap.at(stream.below(WHOLE)).max(Duration::from_nanos(1));
        let at = kernel.now().saturating_add(length).saturating_add(gap);
        kernel.queue_event(at, Phase::Device, cpu.unwrap_or(CpuId(0)), Event::StandsStill { cpu });
    }

    fn of<'k>(&mut self, kernel: &'k Kernel, cpu: Option<CpuId>) -> (&'k Standstills, &mut Stream) {
        let costs = kernel.costs();
        match cpu {
            Some(cpu) => (&costs.stolen, &mut self.stolen[cpu.index()]),
            None => (&costs.smi, self.smi.as_mut().expect("invariant: it is armed")),
        }
    }
}
