//! [`IrqSource`]: interrupts that no task and no CPU asked for: devices, their softirqs, NMIs, the
//! hardware itself.
//!
//! A source fires at random distances and takes a random time. Both are drawn from a stream of its
//! own, so adding a source changes no other draws. All sources do the same: they take time from
//! their CPU. They differ in the [`CpuLayer`](zerolag_model::CpuLayer) that the time is accounted
//! to, and in their names in traces. differs: an interrupt that comes while the CPU is in the
//! kernel waits for the end of that path; on real machines NMIs and the hardware do not.

use crate::kernel::state::Kernel;
use crate::kernel::words::Event;
use crate::queue::Phase;
use std::sync::Arc;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Duration};
use zerolag_workload::Stream;
use zerolag_workload::random::Dist;

/// A source of interrupts.
#[derive(Clone, Debug, PartialEq)]
pub struct IrqSource {
    /// Its name, which is also that of its random stream.
    pub name: Arc<str>,
    /// The CPU that it interrupts.
    pub cpu: CpuId,
    /// The kind of interrupt in traces and totals.
    pub irq: Irq,
    /// The time from one interrupt to the next.
    pub every: Dist,
    /// How long each takes.
    pub takes: Dist,
    /// How long the deferred work takes that follows each, if any does.
    pub softirq: Option<Dist>,
}

/// The sources of a machine.
#[derive(Debug, Default)]
pub(crate) struct Noise {
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    def: IrqSource,
    stream: Stream,
}

impl Noise {
    /// Adds a source; its first interrupt comes after one distance.
    pub(crate) fn add(&mut self, kernel: &mut Kernel, def: IrqSource, seed: u64) {
        assert!(def.cpu.index() < kernel.nr_cpus(), "source `{}` interrupts a CPU of the machine", def.name);
        let stream = Stream::new(seed, &def.name, def.cpu.0, "interrupts");
        let index = u32::try_from(self.sources.len()).expect("invariant: fewer than 2^32 sources");
        self.sources.push(Source { def, stream });
        self.arm(kernel, index);
    }

    fn arm(&mut self, kernel: &mut Kernel, index: u32) {
        let source = &mut self.sources[index as usize];
        // A source that fires at no distance would stop time.
        let distance = source.def.every.sample(&mut source.stream).max(Duration::from_nanos(1));
        let at = kernel.now().saturating_add(distance);
        kernel.queue_event(at, Phase::Device, source.def.cpu, Event::Source { index });
    }

    /// A source fires. Returns the CPU to be interrupted.
    pub(crate) fn fires(&mut self, kernel: &mut Kernel, index: u32) -> CpuId {
        self.arm(kernel, index);
        self.sources[index as usize].def.cpu
    }

    /// Spends the time of a source's interrupt and of the work that it defers.
    pub(crate) fn serve(&mut self, kernel: &mut Kernel, cpu: CpuId, index: u32) {
        let source = &mut self.sources[index as usize];
        let takes = source.def.takes.sample(&mut source.stream);
        let deferred = source.def.softirq.as_ref().map(|dist| dist.sample(&mut source.stream));
        kernel.serve(cpu, source.def.irq, takes);
        if let Some(time) = deferred {
            kernel.serve(cpu, Irq::Softirq, time);
        }
    }
}
