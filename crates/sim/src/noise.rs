//! [`IrqSource`]: what interrupts a CPU without being asked: devices, their softirqs, NMIs, the hardware itself.
//!
//! A source fires at random distances and takes a random time, both drawn from a stream of its own, so that adding one changes
//! no other draws. Whatever it is, it takes time from the CPU; nothing but the [`CpuLayer`] that it is accounted to and its
//! name in traces differ. An interrupt that comes while the CPU is in the kernel waits for the end of that path; so do,
//! unlike in reality, NMIs and the hardware's own.

use crate::cpu::Interrupt;
use crate::machine::{Event, Machine};
use crate::queue::{Phase, Source as From};
use std::sync::Arc;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuLayer, Duration, Record, TraceEvent};
use zerolag_workload::Stream;
use zerolag_workload::random::Dist;

/// Something that interrupts a CPU now and then.
#[derive(Clone, Debug, PartialEq)]
pub struct IrqSource {
    /// Its name: that of its random stream.
    pub name: Arc<str>,
    /// The CPU that it interrupts.
    pub cpu: CpuId,
    /// What it is in traces and totals.
    pub irq: Irq,
    /// From one interrupt to the next.
    pub every: Dist,
    /// How long each takes.
    pub takes: Dist,
    /// Deferred work that follows each.
    pub softirq: Option<Dist>,
}

/// A source of a machine.
#[derive(Debug)]
pub(crate) struct Source {
    def: IrqSource,
    stream: Stream,
}

impl Machine {
    /// Adds a source of interrupts; its first comes after one distance.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn add_source(&mut self, def: IrqSource) {
        assert!(def.cpu.index() < self.cpus.len(), "source `{}` interrupts a CPU of the machine", def.name);
        let stream = Stream::new(self.seed, &def.name, def.cpu.0, "interrupts");
        let index = self.sources.len();
        self.sources.push(Source { def, stream });
        self.arm_source(index);
    }

    fn arm_source(&mut self, index: usize) {
        let source = &mut self.sources[index];
        let cpu = source.def.cpu;
        // A source that fires at no distance would stop time.
        let distance = source.def.every.sample(&mut source.stream).max(Duration::from_nanos(1));
        let count = self.cpus[cpu.index()].next_count();
        self.queue.push(
            self.now.saturating_add(distance),
            Phase::TaskTimer,
            From::cpu(cpu),
            count,
            Event::Source { index: u32::try_from(index).expect("invariant: fewer than 2^32 sources") },
        );
    }

    pub(crate) fn source_fires(&mut self, index: u32) {
        self.arm_source(index as usize);
        let cpu = self.sources[index as usize].def.cpu;
        self.interrupt(cpu, Interrupt::Source(index));
    }

    /// Spends the time of a source's interrupt and of what it defers.
    pub(crate) fn serve_source(&mut self, cpu: CpuId, index: u32) {
        let source = &mut self.sources[index as usize];
        let takes = source.def.takes.sample(&mut source.stream);
        let deferred = source.def.softirq.as_ref().map(|dist| dist.sample(&mut source.stream));
        let irq = source.def.irq;
        self.serve(cpu, irq, takes);
        if let Some(time) = deferred {
            self.serve(cpu, Irq::Softirq, time);
        }
    }

    /// Spends the time of one handler.
    pub(crate) fn serve(&mut self, cpu: CpuId, irq: Irq, time: Duration) {
        let layer = match irq {
            Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Device | Irq::Nmi => CpuLayer::Irq,
            Irq::Softirq => CpuLayer::Softirq,
            Irq::Hardware => CpuLayer::Hardware,
        };
        let place = &mut self.cpus[cpu.index()];
        let begins = place.busy_until.max(self.now);
        place.spend(layer, time);
        if self.tracer.is_on() && !time.is_zero() {
            self.emit_at(begins, cpu, TraceEvent::IrqEnter { irq });
            let at = self.cpus[cpu.index()].busy_until;
            self.tracer.push_later(Record { at, cpu, event: TraceEvent::IrqExit { irq } });
        }
    }
}
