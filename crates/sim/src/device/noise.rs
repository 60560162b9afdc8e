//! [`IrqSource`]: what interrupts a CPU without being asked: devices, their softirqs, NMIs, the hardware itself. And what keeps interrupts
//! from it: [`Machine::delay_ticks`].
//!
//! A source fires at random distances and takes a random time, both drawn from a stream of its own, so that adding one changes
//! no other draws. Whatever it is, it takes time from the CPU; nothing but the [`CpuLayer`] that it is accounted to and its
//! name in traces differ. An interrupt that comes while the CPU is in the kernel waits for the end of that path; so do,
//! unlike in reality, NMIs and the hardware's own.

use crate::kernel::cpu::Interrupt;
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

/// How late ticks come.
#[derive(Debug)]
pub(crate) struct LateTicks {
    by: Dist,
    /// A stream for each CPU.
    streams: Vec<Stream>,
}

impl LateTicks {
    /// Returns how late the present tick of a CPU comes, less than a period.
    pub(crate) fn next(&mut self, cpu: CpuId, period: Duration) -> Duration {
        self.by.sample(&mut self.streams[cpu.index()]).min(period.saturating_sub(Duration::from_nanos(1)))
    }
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

    /// Lets the tick of each CPU come late, by a random time of its own each time: as on virtual CPUs, which are not always on a real one. Who of
    /// several CPUs is first then differs from tick to tick, and who comes before the CPU that counts ticks sees a count that is one short
    /// ([`Scheduler::count_tick`](zerolag_core::Scheduler::count_tick)). Until this is called they tick at the same instant, in order of CPU.
    ///
    /// The delay is taken from nobody: the current task runs on. One of a period or more is cut to the period less a nanosecond.
    pub fn delay_ticks(&mut self, by: Dist) {
        let cpus = 0..self.cpus.len() as u32;
        let streams = cpus.map(|cpu| Stream::new(self.seed, "ticks", cpu, "delay")).collect();
        self.late_ticks = Some(LateTicks { by, streams });
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
