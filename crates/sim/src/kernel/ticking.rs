//! [`Ticks`]: which CPUs tick, and when.
//!
//! An event for each tick of each CPU would be most events of an idle or steady machine. Ticks of
//! all CPUs come at the same instants (`skew_tick` off), so the main loop compares one time,
//! [`Ticks::next`], with the next event, and a CPU that needs no tick costs nothing. At an instant,
//! ticks come after all events, in order of CPU, unless they are delayed
//! ([`Machine::delay_ticks`](crate::Machine::delay_ticks)).

use zerolag_model::{CpuId, CpuMask, Duration, Instant};
use zerolag_workload::Stream;
use zerolag_workload::random::Dist;

/// The ticks of all CPUs.
#[derive(Clone, Debug)]
pub(super) struct Ticks {
    /// The CPUs that tick.
    pub(super) cpus: CpuMask,
    pub(super) next: Instant,
    pub(super) period: Duration,
    pub(super) late: Option<LateTicks>,
}

impl Ticks {
    pub(super) const fn new(period: Duration) -> Self {
        Self { cpus: CpuMask::new(), next: Instant::ZERO, period, late: None }
    }
}

/// How late ticks come.
#[derive(Clone, Debug)]
pub(super) enum LateTicks {
    /// Each by a random time, with a stream for each CPU.
    Each { by: Dist, streams: Vec<Stream> },
    /// In turns of one length, beginning with CPU 0 or with another.
    Turns { turn: Duration, first_permille: u32, stream: Stream, cpus: u64, of: Option<Instant>, begins: u64 },
}

impl LateTicks {
    pub(super) fn new(by: Dist, seed: u64, cpus: usize) -> Self {
        let streams = (0..cpus as u32).map(|cpu| Stream::new(seed, "ticks", cpu, "delay")).collect();
        Self::Each { by, streams }
    }

    pub(super) fn in_turns(turn: Duration, first_permille: u32, seed: u64, cpus: usize) -> Self {
        let stream = Stream::new(seed, "ticks", 0, "turns");
        Self::Turns { turn, first_permille, stream, cpus: cpus as u64, of: None, begins: 0 }
    }

    /// Returns how late a CPU's tick that is due now comes: less than a period.
    pub(super) fn next(&mut self, cpu: CpuId, now: Instant, period: Duration) -> Duration {
        let late = match self {
            Self::Each { by, streams } => by.sample(&mut streams[cpu.index()]),
            Self::Turns { turn, first_permille, stream, cpus, of, begins } => {
                if of.replace(now) != Some(now) {
                    let is_first = *cpus == 1 || stream.below(1000) < u64::from(*first_permille);
                    *begins = if is_first { 0 } else { 1 + stream.below(*cpus - 1) };
                }
                *turn * ((u64::from(cpu.0) + *cpus - *begins) % *cpus)
            }
        };
        late.min(period.saturating_sub(Duration::from_nanos(1)))
    }
}
