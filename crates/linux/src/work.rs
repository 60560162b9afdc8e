//! Computations of known length: a loop whose speed is measured on each CPU.
//!
//! As in rt-app, a computation is an amount of *work*: interrupts and preemptions do not shorten
//! it. The loop is a chain of dependent shifts, so caches, and siblings that wait for memory,
//! hardly change its speed. Clock speed and SMT siblings do; a second measurement after the run
//! shows that ([`Speeds::drift`]).

use crate::clock;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::hint::black_box;
use zerolag_model::{CpuId, CpuMask, Duration};

/// Picoseconds that one turn of the loop takes, per CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Speeds(Vec<(CpuId, u64)>);

/// Turns between two reads of the clock: some 20 us.
const CHUNK: Duration = Duration::from_micros(20);
/// Turns of one measurement: some 100 us.
const SAMPLE: u64 = 60_000;
/// Measurements per CPU; the fastest counts, because disturbances only slow the loop.
const SAMPLES: u32 = 40;

/// Spins for a number of turns.
#[inline(never)]
pub(crate) fn spin(turns: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..turns {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

impl Speeds {
    /// Measures the CPUs, one after the other, on the calling thread; takes some 5 ms of each.
    ///
    /// # Errors
    /// The thread may not run on one of them.
    pub(crate) fn measure(cpus: &CpuMask) -> std::io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut speeds = Vec::new();
        for cpu in cpus.iter() {
            let mut only = CpuSet::new();
            only.set(cpu.index());
            sched_setaffinity(None, &only)?;
            let fastest = (0..SAMPLES).map(|_| sample()).min().unwrap_or(1);
            speeds.push((cpu, fastest.max(1)));
        }
        sched_setaffinity(None, &before)?;
        Ok(Self(speeds))
    }

    /// Returns picoseconds per turn on the CPU that the caller is on.
    fn here(&self) -> u64 {
        let cpu = sched_getcpu();
        let found = self.0.iter().find(|(known, _)| known.index() == cpu);
        found.or(self.0.first()).map_or(1000, |(_, ps)| *ps)
    }

    /// Computes for a time; `stop` is called every 20 us. Returns the remaining work when it
    /// stopped.
    pub(crate) fn compute(&self, time: Duration, mut stop: impl FnMut() -> bool) -> Duration {
        let mut left = time;
        while !left.is_zero() {
            if stop() {
                return left;
            }
            let piece = left.min(CHUNK);
            spin(piece.as_nanos() * 1000 / self.here());
            left = left.saturating_sub(piece);
        }
        Duration::ZERO
    }

    /// Returns the speeds: CPU, picoseconds per turn.
    pub(crate) fn table(&self) -> &[(CpuId, u64)] {
        &self.0
    }

    /// Returns by how many thousandths each CPU has become slower since an earlier measurement.
    pub(crate) fn drift(&self, earlier: &Self) -> Vec<(CpuId, i64)> {
        let pairs = self.0.iter().zip(&earlier.0);
        pairs
            .map(|((cpu, now), (_, before))| {
                let change = i64::try_from(*now).unwrap_or(i64::MAX) - i64::try_from(*before).unwrap_or(i64::MAX);
                (*cpu, change * 1000 / i64::try_from((*before).max(1)).unwrap_or(i64::MAX))
            })
            .collect()
    }
}

/// Returns picoseconds per turn of one measurement.
fn sample() -> u64 {
    let start = clock::now();
    spin(SAMPLE);
    clock::now().since(start).as_nanos() * 1000 / SAMPLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computations_last_about_as_long_as_they_say() {
        let speeds = Speeds::measure(&CpuMask::single(CpuId(0))).or_else(|_| Speeds::measure(&crate::host::allowed()));
        let speeds = speeds.expect("a thread may run where it may run");
        let before = clock::thread_time();
        assert_eq!(speeds.compute(Duration::from_millis(20), || false), Duration::ZERO);
        let took = clock::thread_time().saturating_sub(before);
        // A wide range: a busy sibling halves the speed, and a hypervisor adds any delay.
        assert!(took > Duration::from_millis(10) && took < Duration::from_millis(200), "{took}");
        assert_eq!(speeds.compute(Duration::from_millis(1), || true), Duration::from_millis(1));
        assert!(speeds.drift(&speeds).iter().all(|(_, drift)| *drift == 0));
    }
}
