//! Measures the cost of the host's operations from user space, on one CPU.
//!
//! Only costs that a single thread can see are measured here. Costs that need two threads or a
//! sleep are measured with small workloads, which also run in the simulator (`zerolag::calibrate`).

mod events;
mod fair;
mod locks;
mod threads;

use crate::host::cpu_set;
use crate::{clock, sys};
pub use events::{Delays, Events};
pub use fair::Fair;
pub use locks::{Lock, Locks};
use rustix::thread::futex::{self, Flags};
use rustix::thread::{sched_setaffinity, set_current_timer_slack};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
pub use threads::{Kind, online_cpus};
use zerolag_model::{CpuId, CpuMask, Duration, Instant, Nice, RtPriority, SchedAttr};

/// The measurements: samples in nanoseconds, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Direct {
    /// A system call that does nothing (a futex wakeup without a waiter).
    pub syscall: Vec<u64>,
    /// Waking a thread of the same CPU that does not preempt, including the system call.
    pub wake_local: Vec<u64>,
    /// A `write` and a `read` of four bytes on a pipe without waiters.
    pub pipe_io: Vec<u64>,
    /// The time that the interrupt of a timer takes from a computing thread, if it wakes no thread.
    pub timer: Vec<u64>,
    /// The same, if it wakes a less urgent thread. Empty without SCHED_FIFO.
    pub timer_wake: Vec<u64>,
    /// The time that a tick takes from a computing thread.
    pub tick: Vec<u64>,
    /// What contended mutexes take. Empty without SCHED_FIFO.
    pub locks: Locks,
    /// What only fair threads see. Empty without SCHED_FIFO.
    pub fair: Fair,
    /// What lies between the kernel's own events. Empty without a trace, or without SCHED_FIFO.
    pub delays: Delays,
    /// The period of the tick; `None` if no tick was seen (a full-dynticks CPU, or too much noise).
    pub tick_period: Option<Duration>,
    /// Whether a timer that wakes no thread wakes one of the kernel, which expires it (PREEMPT_RT).
    /// Then `timer` contains that wakeup.
    pub has_timer_threads: bool,
    /// Whether the thread could be SCHED_FIFO; if not, the figures include other programs.
    pub is_realtime: bool,
}

impl Direct {
    /// Adds the samples of another measurement of the same CPU.
    pub fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.syscall, other.syscall),
            (&mut self.wake_local, other.wake_local),
            (&mut self.pipe_io, other.pipe_io),
            (&mut self.timer, other.timer),
            (&mut self.timer_wake, other.timer_wake),
            (&mut self.tick, other.tick),
        ];
        pairs.into_iter().for_each(add_samples);
        self.locks.add(other.locks);
        self.fair.add(other.fair);
        self.delays.add(other.delays);
        self.tick_period = other.tick_period.or(self.tick_period);
        self.is_realtime = other.is_realtime;
        self.has_timer_threads = other.has_timer_threads;
    }
}

/// Measures on a CPU; takes some 700 ms. With `events`, also what lies between these.
///
/// # Errors
/// The thread may not run there, a pipe or thread cannot be created, or the trace cannot be read.
/// The text names the reason.
pub fn measure(cpu: CpuId, events: Option<&Events>) -> Result<Direct, String> {
    std::thread::scope(|scope| scope.spawn(|| measure_here(cpu, events)).join().map_err(|_| PANICKED.to_owned())?)
}

fn measure_here(cpu: CpuId, events: Option<&Events>) -> Result<Direct, String> {
    let only = cpu_set(&CpuMask::single(cpu));
    sched_setaffinity(None, &only).map_err(|error| format!("cannot run on cpu {cpu}: {error}"))?;
    let is_realtime = sys::set_attr(URGENT).is_ok();
    let (tick, tick_period) = measure_ticks();
    let mut sorted = Direct::default();
    sorted.add(Direct {
        syscall: measure_syscall(),
        wake_local: measure_wakes(NICE)?,
        pipe_io: measure_pipe().map_err(|error| format!("a pipe: {error}"))?,
        timer: measure_timer().map_err(|error| format!("a timer: {error}"))?,
        timer_wake: if is_realtime { measure_timer_wakes(LESS_URGENT)? } else { Vec::new() },
        tick,
        locks: if is_realtime { locks::measure()? } else { Locks::default() },
        fair: if is_realtime { fair::measure()? } else { Fair::default() },
        delays: match events.filter(|_| is_realtime) {
            Some(events) => events::measure(events)?,
            None => Delays::default(),
        },
        tick_period,
        has_timer_threads: rustix::system::uname().version().to_string_lossy().contains("PREEMPT_RT"),
        is_realtime,
    });
    Ok(sorted)
}

/// Adds samples to others; they are sorted afterwards.
fn add_samples((samples, more): (&mut Vec<u64>, Vec<u64>)) {
    samples.extend(more);
    samples.sort_unstable();
}

/// Starts a thread with these attributes on the CPU of the calling one.
fn spawn<'s, 'e: 's, T: Send + 's>(
    scope: &'s Scope<'s, 'e>,
    attr: SchedAttr,
    run: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, String> {
    let started = move || {
        drop(sys::set_attr(attr));
        run()
    };
    std::thread::Builder::new().spawn_scoped(scope, started).map_err(|error| format!("a thread: {error}"))
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
    let unused = AtomicU32::new(0);
    in_batches(|| {
        let _ = futex::wake(&unused, Flags::PRIVATE, 1);
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

/// Repeatedly wakes a nice thread of the same CPU, with time to fall asleep in between.
fn measure_wakes(sleeper: SchedAttr) -> Result<Vec<u64>, String> {
    let word = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let sleeper = || {
            // The thread inherits the CPU and the class, and must be less urgent than its waker.
            drop(sys::set_attr(sleeper));
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

/// Computes while a timer expires that wakes no thread.
fn measure_timer() -> std::io::Result<Vec<u64>> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty())?;
    let first = clock::now() + PERIOD;
    let mut samples = Vec::new();
    for round in 0..EXPIRIES {
        let due = first + PERIOD * u64::from(round);
        clock::sleep_until(due - WATCHED_BEFORE);
        let once = Itimerspec { it_interval: Timespec::default(), it_value: clock::timespec(due) };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
        samples.extend(longest_gap(due));
    }
    Ok(samples)
}

/// Computes while the timer of a thread with these attributes expires, which does not preempt. That
/// thread runs when this one sleeps, between two expiries.
fn measure_timer_wakes(attr: SchedAttr) -> Result<Vec<u64>, String> {
    let first = clock::now() + PERIOD;
    let due = |round: u32| first + PERIOD * u64::from(round);
    std::thread::scope(|scope| {
        let sleeper = || {
            // The thread inherits the CPU.
            drop(sys::set_attr(attr));
            let _ = set_current_timer_slack(NonZeroU64::new(1));
            (0..EXPIRIES).map(due).filter(|due| *due > clock::now()).for_each(clock::sleep_until);
        };
        let thread = std::thread::Builder::new().spawn_scoped(scope, sleeper);
        thread.map_err(|error| format!("a thread: {error}"))?;
        let watch = |round| {
            clock::sleep_until(due(round) - WATCHED_BEFORE);
            longest_gap(due(round))
        };
        Ok((0..EXPIRIES).filter_map(watch).collect())
    })
}

/// Reads the clock in a loop while a timer expires; returns the longest time between two reads,
/// which is that of the interrupt. `None` if it is late already: the thread's own wakeup would be
/// measured.
fn longest_gap(due: Instant) -> Option<u64> {
    let mut last = clock::now();
    let mut longest = (last < due).then_some(0)?;
    while last < due + WATCHED_AFTER {
        let now = clock::now();
        longest = longest.max(now.since(last).as_nanos());
        last = now;
    }
    Some(longest)
}

/// Computes for this time and reads the clock in a loop. Returns the gaps between two reads that
/// are longer than the loop's own: beginning, length, and whether a tick came meanwhile. That is
/// seen by the coarse clock, which advances with the tick of the CPU that keeps the time. Gaps in
/// which other threads had the CPU are left out: they are turns, and no interrupts.
fn watch_gaps(watched: Duration) -> Vec<(Instant, u64, bool)> {
    let mut gaps = Vec::new();
    let (mut tick, mut preempted) = (last_tick(), preemptions());
    let mut last = clock::now();
    let read = |_| {
        let before = std::mem::replace(&mut last, clock::now());
        last.since(before).as_nanos()
    };
    let shortest = GAP_MIN.max(2 * (0..READS).map(read).min().unwrap_or(0));
    let end = last + watched;
    while last < end {
        let now = clock::now();
        let length = now.since(last).as_nanos();
        last = now;
        if length > shortest {
            let (ticked, before) = (last_tick(), preempted);
            preempted = preemptions();
            if preempted == before {
                gaps.push((now, length, ticked != tick));
            }
            tick = ticked;
            // This has taken time, and is no gap.
            last = clock::now();
        }
    }
    gaps
}

/// Returns how often the calling thread was preempted; `None` if the kernel does not say.
fn preemptions() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// Returns the time of the last tick.
fn last_tick() -> Instant {
    clock::read(ClockId::MonotonicCoarse)
}

/// Computes and reads the clock in a loop. Gaps between two reads that lie on the grid of the tick
/// are ticks.
fn measure_ticks() -> (Vec<u64>, Option<Duration>) {
    let gaps = watch_gaps(WATCHED);
    let period = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    let period = Duration::from_nanos(period.tv_sec.unsigned_abs() * 1_000_000_000 + period.tv_nsec.unsigned_abs());
    let places: Vec<(Instant, u64)> = gaps.iter().map(|(ended, length, _)| (*ended, *length)).collect();
    let mut ticks = find_ticks(&places, WATCHED, period);
    if ticks.is_empty() {
        ticks = gaps.into_iter().filter(|(.., ticked)| *ticked).map(|(_, length, _)| length).collect();
        if (ticks.len() as u64) * 10 < WATCHED.as_nanos() / period.as_nanos().max(1) * 8 {
            ticks.clear();
        }
    }
    let is_there = !ticks.is_empty();
    (ticks, is_there.then_some(period))
}

/// Returns the gaps that lie on the grid of ticks. For several minimum lengths, it takes the longer
/// gaps and the densest position of a grid. Of the results with about the expected number of ticks,
/// the one counts in which the largest part of the gaps lies on the grid. Empty if there is no such
/// grid (a full-dynticks CPU, or too much noise).
fn find_ticks(gaps: &[(Instant, u64)], watched: Duration, period: Duration) -> Vec<u64> {
    let expected = watched.as_nanos() / period.as_nanos().max(1);
    let mut best: (u64, Vec<u64>) = (CONCENTRATION_MIN, Vec::new());
    for shortest in [GAP_MIN, 1_000, 2_000, 4_000, 8_000] {
        let long: Vec<(Instant, u64)> = gaps.iter().copied().filter(|(_, gap)| *gap >= shortest).collect();
        let on_grid = densest(&long, period.as_nanos());
        let count = on_grid.len() as u64;
        let percent = count * 100 / (long.len() as u64).max(1);
        if count * 10 >= expected * 8 && count * 10 <= expected * 15 && percent > best.0 {
            best = (percent, on_grid);
        }
    }
    best.1
}

/// Returns the gaps of the densest twentieth of a period.
fn densest(gaps: &[(Instant, u64)], period: u64) -> Vec<u64> {
    const PARTS: u64 = 20;
    let part = |at: Instant| at.as_nanos() % period * PARTS / period;
    // Two neighbouring parts, because the grid can lie on their border.
    let within = |first: u64| {
        gaps.iter().filter(move |(at, _)| part(*at) == first || part(*at) == (first + 1) % PARTS).map(|(_, gap)| *gap)
    };
    let best = (0..PARTS).max_by_key(|first| within(*first).count()).unwrap_or(0);
    within(best).collect()
}

const PANICKED: &str = "the measuring thread panicked";
const BATCH: u64 = 20;
const BATCHES: u32 = 500;
const WAKES: u32 = 400;
/// Of the measuring thread: a more urgent one than its sleepers.
const URGENT: SchedAttr = SchedAttr::fifo_at(2);
const LESS_URGENT: SchedAttr = SchedAttr::fifo(RtPriority::MIN);
/// Of a fair thread that does not preempt another one, but is compared with it: SCHED_IDLE is not.
const NICE: SchedAttr = SchedAttr::nice(Nice::MAX);
/// The period of the timer whose interrupt is measured. Ticks do not follow it.
const PERIOD: Duration = Duration::from_micros(530);
/// Its expiries.
const EXPIRIES: u32 = 100;
/// When the clock is watched: before an expiry, so that the thread runs then, and after it, where
/// the interrupt of a virtual machine may be late.
const WATCHED_BEFORE: Duration = Duration::from_micros(80);
const WATCHED_AFTER: Duration = Duration::from_micros(120);
/// For how long ticks are watched.
const WATCHED: Duration = Duration::from_millis(200);
/// Without a grid, ten percent of the gaps lie in two of twenty parts by chance.
const CONCENTRATION_MIN: u64 = 15;
/// Reads of the clock that tell how long one takes.
const READS: u32 = 50;
/// Shorter gaps are caused by the loop itself, as are those of less than two of its reads.
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
        let (watched, period) = (Duration::from_millis(200), Duration::from_millis(4));
        let ticks = find_ticks(&gaps, watched, period);
        assert_eq!(ticks.iter().filter(|gap| **gap >= 2000).count(), 50);
        let noise: Vec<(Instant, u64)> = (0..1600).map(|n| (at(n * 125 + n % 7), 1500)).collect();
        assert!(find_ticks(&noise, watched, period).is_empty());
    }

    #[test]
    fn a_turn_of_another_thread_is_no_gap() {
        // Not the CPU of the other tests, if there are two.
        let cpu = crate::host::allowed().last().expect("a CPU");
        let over = std::sync::atomic::AtomicBool::new(false);
        let gaps = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                sched_setaffinity(None, &cpu_set(&CpuMask::single(cpu))).expect("it may run there");
                // It inherits the CPU, and takes every second turn.
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                let gaps = watch_gaps(WATCHED);
                over.store(true, Ordering::Relaxed);
                gaps
            });
            watch.join().expect("it watches")
        });
        // Turns are milliseconds long; an interrupt is not, unless a hypervisor takes the CPU.
        let long = gaps.iter().filter(|(_, length, _)| *length > 800_000).count();
        assert!(long * 4 <= gaps.len(), "{long} of {}", gaps.len());
    }

    #[test]
    fn what_is_measured_is_plausible() {
        let cpu = crate::host::allowed().first().expect("a CPU");
        let direct = measure(cpu, None).expect("a thread may run there");
        let median = |samples: &[u64]| crate::figures::quantile(samples, 500).expect("samples").as_nanos();
        assert!((10..1_000_000).contains(&median(&direct.syscall)), "{}", median(&direct.syscall));
        assert!(median(&direct.wake_local) >= median(&direct.syscall) / 2);
        assert!(median(&direct.pipe_io) > 50);
        assert!(median(&direct.timer) > 100, "{}", median(&direct.timer));
        let Locks { plain, inherits } = &direct.locks;
        for samples in [&plain.wait, &plain.wake, &inherits.wait, &inherits.wake] {
            assert!(samples.is_empty() || median(samples) > 100, "{samples:?}");
        }
        assert_eq!(plain.wait.is_empty(), !direct.is_realtime);
        assert!(direct.timer_wake.is_empty() || median(&direct.timer_wake) > 100);
        let Fair { timer_wake, block, .. } = &direct.fair;
        // Where others use the CPU all the time each sample can be disturbed, and is left out.
        for samples in [timer_wake, block].into_iter().filter(|of| direct.is_realtime && !of.is_empty()) {
            assert!(median(samples) > 100, "{}", median(samples));
        }
    }
}
