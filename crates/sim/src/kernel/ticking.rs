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
pub(super) struct LateTicks {
    by: Dist,
    /// A stream for each CPU.
    streams: Vec<Stream>,
}

impl LateTicks {
    pub(super) fn new(by: Dist, seed: u64, cpus: usize) -> Self {
        let streams = (0..cpus as u32).map(|cpu| Stream::new(seed, "ticks", cpu, "delay")).collect();
        Self { by, streams }
    }

    /// Returns how late the present tick of a CPU comes: less than a period.
    pub(super) fn next(&mut self, cpu: CpuId, period: Duration) -> Duration {
        self.by.sample(&mut self.streams[cpu.index()]).min(period.saturating_sub(Duration::from_nanos(1)))
    }
}
