//! The interrupts of a busy workstation: timers of other tasks, a disk and a network device, their
//! softirqs, a rare NMI.
//!
//! Frozen before any experiment was run with it; no value is fitted. Handlers take a few
//! microseconds, as osnoise reports for 6.x kernels, with a tail of tens of microseconds that
//! causes the latencies of interrupts.

use zerolag_model::event::Irq;
use zerolag_model::{CpuId, CpuMask, Duration};
use zerolag_sim::IrqSource;
use zerolag_workload::program::{InterruptDef, Threading};
use zerolag_workload::random::{Bounds, Dist};

/// The interrupts of a CPU besides its timers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noise {
    /// None.
    None,
    /// Devices, softirqs, an NMI every few seconds.
    Workstation,
    /// On an isolated CPU: only the hardware, every few minutes.
    Isolated,
}

/// Returns the interrupt lines of some CPUs whose handlers and softirqs a kernel with threads
/// moves to threads: those of devices, and the softirqs of RCU.
///
/// # Panics
/// Never: the distributions are constants.
#[must_use]
pub fn lines(noise: Noise, cpus: &CpuMask) -> Vec<InterruptDef> {
    let of = |source: IrqSource| {
        let (name, every) = (format!("{}/{}", source.name, source.cpu), source.every);
        match source.irq {
            Irq::Device => {
                let line = InterruptDef::on(name, source.cpu, every, source.takes);
                Some(InterruptDef { softirq: source.softirq, ..line })
            }
            // The tick raises it.
            Irq::Softirq => {
                let line = InterruptDef::on(name, source.cpu, every, Dist::Constant(Duration::ZERO));
                Some(InterruptDef { threading: Threading::Never, ..line.raising(source.takes) })
            }
            Irq::Tick | Irq::Timer | Irq::Ipi | Irq::Nmi | Irq::Hardware | Irq::Stolen => None,
        }
    };
    sources(noise, cpus).into_iter().filter_map(of).collect()
}

/// Returns the sources of interrupts of some CPUs that no kernel moves: NMIs and the hardware.
///
/// # Panics
/// Never: the distributions are constants.
#[must_use]
pub fn hard_sources(noise: Noise, cpus: &CpuMask) -> Vec<IrqSource> {
    let mut all = sources(noise, cpus);
    all.retain(|source| matches!(source.irq, Irq::Nmi | Irq::Hardware));
    all
}

/// Returns the sources of interrupts of some CPUs, all as plain time.
///
/// # Panics
/// Never: the distributions are constants.
#[must_use]
pub fn sources(noise: Noise, cpus: &CpuMask) -> Vec<IrqSource> {
    let us = Duration::from_micros;
    let between = |low, high| Bounds { low, high };
    let why = "invariant: constants";
    let source = |name: &str, cpu: CpuId, irq, mean: Duration, takes: Dist, softirq| IrqSource {
        name: name.into(),
        cpu,
        irq,
        every: Dist::exponential(mean, between(us(10), mean * 20)).expect(why),
        takes,
        softirq,
    };
    let short = || Dist::lognormal(us(2), 0.5, between(us(1), us(40))).expect(why);
    let soft = || Dist::lognormal(us(3), 0.9, between(us(1), us(80))).expect(why);
    let smi = || Dist::uniform(us(1), us(2)).expect(why);
    let of = |cpu: CpuId| match noise {
        Noise::None => Vec::new(),
        Noise::Workstation => vec![
            source("device", cpu, Irq::Device, us(5_000), short(), Some(soft())),
            source("rcu", cpu, Irq::Softirq, us(8_000), soft(), None),
            source("nmi", cpu, Irq::Nmi, us(6_800_000), short(), None),
            source("smi", cpu, Irq::Hardware, us(60_000_000), smi(), None),
        ],
        Noise::Isolated => vec![source("smi", cpu, Irq::Hardware, us(200_000_000), smi(), None)],
    };
    cpus.iter().flat_map(of).collect()
}
