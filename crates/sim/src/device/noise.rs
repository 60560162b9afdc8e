//! [`IrqSource`]: interrupts that no task and no CPU asked for: devices, their softirqs, NMIs, the
//! hardware itself. And the lines of the workload's devices, whose softirqs and threads are
//! scheduled.
//!
//! A source fires at random distances and takes a random time. Both are drawn from a stream of its
//! own, so adding a source changes no other draws. All sources do the same: they take time from
//! their CPU. They differ in the [`CpuLayer`](zerolag_model::CpuLayer) that the time is accounted
//! to, and in their names in traces. differs: an interrupt that comes while the CPU is in the
//! kernel waits for the end of that path; on real machines NMIs and the hardware do not.

use crate::kernel::state::Kernel;
use crate::kernel::words::{Event, Interrupt, Left};
use crate::queue::Phase;
use std::sync::Arc;
use zerolag_model::event::Irq;
use zerolag_model::{CpuId, Duration, Instant};
use zerolag_workload::Stream;
use zerolag_workload::program::Line;
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

/// The sources of a machine: those that only take time, and the lines of devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noise {
    sources: Vec<InterruptSource>,
}

#[derive(Clone, Debug)]
struct InterruptSource {
    what: Interrupter,
    stream: Stream,
}

#[derive(Clone, Debug)]
enum Interrupter {
    Source(IrqSource),
    Line(Line),
}

impl Interrupter {
    /// Returns the CPU that it interrupts now; `None` while that is offline and it is silent.
    fn cpu(&self, kernel: &Kernel) -> Option<CpuId> {
        match self {
            Self::Source(IrqSource { cpu, .. }) => Some(*cpu),
            Self::Line(line) => {
                let cpu = line.cpu_at(kernel.now().since(Instant::ZERO));
                (!line.is_managed || kernel.is_online(cpu)).then_some(cpu)
            }
        }
    }

    const fn every(&self) -> &Dist {
        match self {
            Self::Source(IrqSource { every, .. }) | Self::Line(Line { every, .. }) => every,
        }
    }
}

impl Noise {
    /// Adds a source; its first interrupt comes after one distance.
    pub(crate) fn add(&mut self, kernel: &mut Kernel, def: IrqSource, seed: u64) {
        assert!(def.cpu.index() < kernel.nr_cpus(), "source `{}` interrupts a CPU of the machine", def.name);
        let stream = Stream::new(seed, &def.name, def.cpu.0, "interrupts");
        self.push(kernel, Interrupter::Source(def), stream);
    }

    /// Adds the lines of all devices.
    pub(crate) fn add_lines(&mut self, kernel: &mut Kernel, lines: &[Line], seed: u64) {
        for line in lines {
            let stream = Stream::new(seed, &line.name, line.cpu.0, "interrupts");
            self.push(kernel, Interrupter::Line(line.clone()), stream);
        }
    }

    fn push(&mut self, kernel: &mut Kernel, what: Interrupter, stream: Stream) {
        let index = u32::try_from(self.sources.len()).expect("invariant: fewer than 2^32 sources");
        self.sources.push(InterruptSource { what, stream });
        self.arm(kernel, index);
    }

    fn arm(&mut self, kernel: &mut Kernel, index: u32) {
        let InterruptSource { what, stream } = &mut self.sources[index as usize];
        // A source that fires at no distance would stop time.
        let distance = what.every().sample(stream).max(Duration::from_nanos(1));
        let at = kernel.now().saturating_add(distance);
        let (Interrupter::Source(IrqSource { cpu, .. }) | Interrupter::Line(Line { cpu, .. })) = what;
        kernel.queue_event(at, Phase::Device, *cpu, Event::Source { index });
    }

    /// A source fires. Returns the CPU to be interrupted, if any: none if the line's last interrupt
    /// still waits there. An interrupt controller holds one interrupt per line, so those that come
    /// meanwhile are one.
    pub(crate) fn fires(&mut self, kernel: &mut Kernel, index: u32) -> Option<CpuId> {
        self.arm(kernel, index);
        let what = &self.sources[index as usize].what;
        let cpu = what.cpu(kernel)?;
        let is_held = matches!(what, Interrupter::Line(_)) && kernel.has_pending(cpu, Interrupt::Source(index));
        (!is_held).then_some(cpu)
    }

    /// Spends the time of a source's handler. Returns what it leaves to be done.
    pub(crate) fn serve(&mut self, kernel: &mut Kernel, cpu: CpuId, index: u32) -> Left {
        let InterruptSource { what, stream } = &mut self.sources[index as usize];
        match what {
            Interrupter::Source(def) => {
                let takes = def.takes.sample(stream);
                let deferred = def.softirq.as_ref().map(|dist| dist.sample(stream));
                let parts = [Some((def.irq, takes)), deferred.map(|time| (Irq::Softirq, time))];
                for (irq, time) in parts.into_iter().flatten().filter(|(_, time)| !time.is_zero()) {
                    kernel.serve(cpu, irq, time);
                }
                Left::default()
            }
            Interrupter::Line(line) => {
                let takes = line.handler.as_ref().map_or(kernel.handler_cost(), |handler| handler.sample(stream));
                let softirq = line.softirq.as_ref().map(|dist| dist.sample(stream));
                let wakes = line.wakes;
                kernel.serve(cpu, Irq::Device, takes);
                Left { softirq, wakes }
            }
        }
    }
}
