//! What the host's operations cost, measured from user space on one CPU.
//!
//! Only what a program can see alone is measured here; what takes two threads or a sleep is measured by running small
//! workloads, the same in the simulator (`zerolag::calibrate`).

use crate::host::cpu_set;
use crate::{clock, sys};
use rustix::thread::futex::{self, Flags};
use rustix::thread::sched_setaffinity;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use zerolag_model::{CpuId, CpuMask, Duration, Instant, Nice, RtPriority, SchedAttr};

/// What was measured: samples in nanoseconds, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Direct {
    /// A system call that does nothing (a futex wakeup of nobody).
    pub syscall: Vec<u64>,
    /// Waking a thread of the same CPU that does not preempt, system call included.
    pub wake_local: Vec<u64>,
    /// A `write` and a `read` of four bytes in a pipe that nobody waits at.
    pub pipe_io: Vec<u64>,
    /// What a tick takes from a thread that computes.
    pub tick: Vec<u64>,
    /// The distance of ticks; `None` if none was seen (a full-dynticks CPU, or too much noise).
    pub tick_period: Option<Duration>,
    /// Whether the thread could be SCHED_FIFO; if not, other programs are in the figures.
    pub is_realtime: bool,
}

/// Measures on a CPU; takes some half a second.
///
/// # Errors
/// The thread may not run there, or a pipe or thread cannot be made; in words.
pub fn measure(cpu: CpuId) -> Result<Direct, String> {
    let measured = std::thread::spawn(move || measure_here(cpu)).join();
    measured.map_err(|_| "the measuring thread panicked".to_owned())?
}

fn measure_here(cpu: CpuId) -> Result<Direct, String> {
    let only = cpu_set(&CpuMask::single(cpu));
    sched_setaffinity(None, &only).map_err(|error| format!("cannot run on cpu {cpu}: {error}"))?;
    let is_realtime = sys::set_attr(SchedAttr::fifo(RtPriority::MIN)).is_ok();
    let (tick, tick_period) = measure_ticks();
    let mut direct = Direct {
        syscall: measure_syscall(),
        wake_local: measure_wakes()?,
        pipe_io: measure_pipe().map_err(|error| format!("a pipe: {error}"))?,
        tick,
        tick_period,
        is_realtime,
    };
    for samples in [&mut direct.syscall, &mut direct.wake_local, &mut direct.pipe_io, &mut direct.tick] {
        samples.sort_unstable();
    }
    Ok(direct)
}

/// Times an operation in batches; nanoseconds per operation.
fn in_batches(mut operation: impl FnMut()) -> Vec<u64> {
    let batch = |_| {
        let start = clock::now();
        (0..BATCH).for_each(|_| operation());
        clock::now().since(start).as_nanos() / BATCH
    };
    (0..BATCHES).map(batch).collect()
}

fn measure_syscall() -> Vec<u64> {
    let nobody = AtomicU32::new(0);
    in_batches(|| {
        let _ = futex::wake(&nobody, Flags::PRIVATE, 1);
    })
}

fn measure_pipe() -> std::io::Result<Vec<u64>> {
    let (mut reader, mut writer) = std::io::pipe()?;
    let mut failed = None;
    let samples = in_batches(|| {
        let mut bytes = [0; 4];
        if let Err(error) = writer.write_all(&bytes).and_then(|()| reader.read_exact(&mut bytes)) {
            failed = Some(error);
        }
    });
    failed.map_or(Ok(samples), Err)
}

/// Wakes a nice thread of the same CPU again and again, giving it time to fall asleep in between.
fn measure_wakes() -> Result<Vec<u64>, String> {
    let word = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let sleeper = || {
            // Inherited: the CPU and the class; it is to be less urgent than who wakes it.
            drop(sys::set_attr(SchedAttr::nice(Nice::new(19).unwrap_or_default())));
            let mut seen = 0;
            while seen != u32::MAX {
                let _ = futex::wait(&word, Flags::PRIVATE, seen, None);
                seen = word.load(Ordering::Acquire);
            }
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, sleeper);
        thread.map_err(|error| format!("a thread: {error}"))?;
        let mut samples = Vec::new();
        for round in 1..=WAKES {
            clock::sleep_until(clock::now() + Duration::from_micros(200));
            word.store(round, Ordering::Release);
            let start = clock::now();
            let woken = futex::wake(&word, Flags::PRIVATE, 1);
            let took = clock::now().since(start).as_nanos();
            if woken == Ok(1) {
                samples.push(took);
            }
        }
        word.store(u32::MAX, Ordering::Release);
        let _ = futex::wake(&word, Flags::PRIVATE, 1);
        Ok(samples)
    })
}

/// Computes and looks at the clock; what is missing between two looks, on a grid of some usual tick rate, are ticks.
fn measure_ticks() -> (Vec<u64>, Option<Duration>) {
    let start = clock::now();
    let end = start + WATCHED;
    let mut gaps: Vec<(Instant, u64)> = Vec::new();
    let mut last = start;
    while last < end {
        let now = clock::now();
        let gap = now.since(last).as_nanos();
        if gap > GAP_MIN {
            gaps.push((last, gap));
        }
        last = now;
    }
    find_ticks(&gaps, WATCHED)
}

/// Returns the gaps that lie on the grid of a usual tick rate, and its period: of the rates and shortest gaps for which most
/// of the expected ticks are there, the one that leaves the least aside.
fn find_ticks(gaps: &[(Instant, u64)], watched: Duration) -> (Vec<u64>, Option<Duration>) {
    let mut best: Option<(u64, Vec<u64>, u64)> = None;
    for shortest in [GAP_MIN, 1_000, 2_000, 4_000, 8_000] {
        let long: Vec<(Instant, u64)> = gaps.iter().copied().filter(|(_, gap)| *gap >= shortest).collect();
        for hz in [1000, 300, 250, 100] {
            let period = 1_000_000_000 / hz;
            let on_grid = densest(&long, period);
            let (count, expected) = (on_grid.len() as u64, watched.as_nanos() / period);
            let percent = count * 100 / (long.len() as u64).max(1);
            let is_grid = count * 10 >= expected * 8 && count * 10 <= expected * 15 && percent >= CONCENTRATION_MIN;
            if is_grid && best.as_ref().is_none_or(|(best, ..)| percent > *best) {
                best = Some((percent, on_grid, period));
            }
        }
    }
    best.map_or((Vec::new(), None), |(_, on_grid, period)| (on_grid, Some(Duration::from_nanos(period))))
}

/// Returns the gaps of the densest twentieth of a period.
fn densest(gaps: &[(Instant, u64)], period: u64) -> Vec<u64> {
    const PARTS: u64 = 20;
    let part = |at: Instant| at.as_nanos() % period * PARTS / period;
    // Two neighbouring parts: a grid may lie on their border.
    let within = |first: u64| {
        gaps.iter().filter(move |(at, _)| part(*at) == first || part(*at) == (first + 1) % PARTS).map(|(_, gap)| *gap)
    };
    let best = (0..PARTS).max_by_key(|first| within(*first).count()).unwrap_or(0);
    within(best).collect()
}

const BATCH: u64 = 20;
const BATCHES: u32 = 500;
const WAKES: u32 = 400;
/// How long ticks are watched.
const WATCHED: Duration = Duration::from_millis(200);
/// Gaps without a grid lie in two parts of twenty by chance in ten percent.
const CONCENTRATION_MIN: u64 = 30;
/// Shorter gaps are the loop itself.
const GAP_MIN: u64 = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_by_their_grid() {
        let at = |us: u64| Instant::from_nanos(us * 1000);
        let mut gaps: Vec<(Instant, u64)> = (0..50).map(|n| (at(n * 4000 + 37), 2000 + n)).collect();
        gaps.extend((0..20).map(|n| (at(n * 7919), 900)));
        gaps.sort_unstable();
        let (ticks, period) = find_ticks(&gaps, Duration::from_millis(200));
        assert_eq!(period, Some(Duration::from_millis(4)));
        assert_eq!(ticks.iter().filter(|gap| **gap >= 2000).count(), 50);
        let noise: Vec<(Instant, u64)> = (0..1600).map(|n| (at(n * 125 + n % 7), 1500)).collect();
        assert_eq!(find_ticks(&noise, Duration::from_millis(200)), (Vec::new(), None));
    }

    #[test]
    fn what_is_measured_is_plausible() {
        let cpu = crate::host::allowed().first().expect("a CPU");
        let direct = measure(cpu).expect("a thread may run there");
        let median = |samples: &[u64]| crate::figures::quantile(samples, 500).expect("samples").as_nanos();
        assert!((10..1_000_000).contains(&median(&direct.syscall)), "{}", median(&direct.syscall));
        assert!(median(&direct.wake_local) >= median(&direct.syscall) / 2);
        assert!(median(&direct.pipe_io) > 50);
    }
}
