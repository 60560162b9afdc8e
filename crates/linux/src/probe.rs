//! Measures the time until a woken thread runs: woken by another thread, or by a timer.
//!
//! The threads do nothing else, so that the times are those of the kernel and the machine. They are
//! SCHED_FIFO where that is permitted. No measurement runs for longer than it was asked to, and all
//! its threads sleep or end soon.

use crate::host::cpu_set;
use crate::{clock, sys};
use rustix::thread::futex::{self, Flags};
use rustix::thread::sched_setaffinity;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use zerolag_model::{CpuId, CpuMask, Duration, FairPolicy, Instant, Nice, SchedAttr};

/// The other load of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// None: it idles.
    Idle,
    /// It runs a SCHED_IDLE thread that computes.
    Computes,
}

/// The class of the threads that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// SCHED_FIFO where that is permitted.
    Fifo,
    /// SCHED_OTHER.
    Fair,
}

impl Class {
    const fn attr(self) -> SchedAttr {
        match self {
            Self::Fifo => FIFO,
            Self::Fair => SchedAttr::NORMAL,
        }
    }
}

/// The result of a measurement.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// Times in nanoseconds, in order.
    pub samples: Vec<u64>,
    /// How many times another CPU woke the second thread.
    pub wakeups: u64,
    /// Interrupts that its CPU got from other CPUs meanwhile; `None` where the kernel does not
    /// count them.
    pub ipis: Option<u64>,
}

/// Lets two threads of this class wake each other in turn; returns nanoseconds per handover, of all
/// turns together. Interrupts are included, as they are in the figures of programs that do the
/// same.
///
/// # Errors
/// A thread cannot be created.
pub fn handover(first: CpuId, second: CpuId, class: Class, turns: u32) -> Result<Woken, String> {
    // While it is even, it is the first thread's turn.
    let turn = AtomicU32::new(0);
    let hand_over = |next: u32| {
        turn.store(next, Ordering::Release);
        let _ = futex::wake(&turn, Flags::PRIVATE, 1);
    };
    let wait_while = |now: u32| {
        while turn.load(Ordering::Acquire) == now {
            let _ = futex::wait(&turn, Flags::PRIVATE, now, None);
        }
    };
    let pong = || {
        for n in 0..turns {
            wait_while(2 * n);
            hand_over(2 * n + 2);
        }
    };
    let ping = || {
        std::thread::scope(|scope| {
            spawn(scope, second, class.attr(), pong)?;
            let start = clock::now();
            for n in 0..turns {
                hand_over(2 * n + 1);
                wait_while(2 * n + 1);
            }
            Ok(vec![clock::now().since(start).as_nanos() / u64::from(2 * turns)])
        })
    };
    let woken = woken(second, || on(first, class.attr(), ping))?;
    Ok(Woken { wakeups: u64::from(turns), ..woken })
}

/// Lets two SCHED_FIFO threads of one CPU yield it to each other in turn; returns nanoseconds per
/// turn, of all turns together.
///
/// # Errors
/// A thread cannot be created, or may not be SCHED_FIFO: fair threads would not take turns.
pub fn yielding(cpu: CpuId, turns: u32) -> Result<Woken, String> {
    let over = AtomicBool::new(false);
    let yields = || sys::set_attr(FIFO).map_err(|error| format!("SCHED_FIFO: {error}"));
    let other = || {
        while !over.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    };
    let first = || {
        yields()?;
        std::thread::scope(|scope| {
            spawn(scope, cpu, FIFO, other)?;
            let start = clock::now();
            (0..turns).for_each(|_| std::thread::yield_now());
            let took = clock::now().since(start).as_nanos();
            over.store(true, Ordering::Relaxed);
            Ok(vec![took / u64::from(2 * turns)])
        })
    };
    Ok(Woken { samples: alone_on(cpu, first)?, ..Woken::default() })
}

/// Lets two threads of one CPU wake each other in turn through pipes; returns nanoseconds per
/// handover, of all turns together.
///
/// # Errors
/// A thread or a pipe cannot be created, or fails.
pub fn pipes(cpu: CpuId, turns: u32) -> Result<Woken, String> {
    let failed = |error: std::io::Error| format!("a pipe: {error}");
    let (mut there, mut to_there) = std::io::pipe().map_err(failed)?;
    let (mut back, mut to_back) = std::io::pipe().map_err(failed)?;
    // Each side drops its ends when it fails, so that the other's calls fail too.
    let pong = move || -> std::io::Result<()> {
        let mut bytes = [0; 4];
        (0..turns).try_for_each(|_| there.read_exact(&mut bytes).and_then(|()| to_back.write_all(&bytes)))
    };
    let ping = move || {
        std::thread::scope(|scope| {
            let pong = spawn(scope, cpu, FIFO, pong)?;
            let start = clock::now();
            let mut bytes = [0; 4];
            let done: std::io::Result<()> =
                (0..turns).try_for_each(|_| to_there.write_all(&bytes).and_then(|()| back.read_exact(&mut bytes)));
            let took = clock::now().since(start).as_nanos();
            drop(to_there);
            done.map_err(failed)?;
            pong.join().map_err(|_| "the measuring thread panicked".to_owned())?.map_err(failed)?;
            Ok(vec![took / u64::from(2 * turns)])
        })
    };
    Ok(Woken { samples: alone_on(cpu, ping)?, ..Woken::default() })
}

/// Lets a thread sleep `count` times until a timer of this period expires; returns nanoseconds
/// from each expiry until the thread continues.
///
/// # Errors
/// A thread cannot be created.
pub fn timer(cpu: CpuId, beside: Beside, period: Duration, count: u32) -> Result<Woken, String> {
    let sleeper = || {
        let mut samples = Vec::new();
        each(period, count, |due| samples.push(clock::now().since(due).as_nanos()));
        Ok(samples)
    };
    let samples = with(cpu, beside, || alone_on(cpu, sleeper))?;
    Ok(Woken { samples, ..Woken::default() })
}

/// Lets a thread of one CPU wake one of another CPU `count` times, each time after the second has
/// slept for nearly a period.
///
/// # Errors
/// A thread cannot be created.
pub fn wakeup(from: CpuId, to: CpuId, beside: Beside, period: Duration, count: u32) -> Result<Woken, String> {
    let (word, woken_at) = (AtomicU32::new(ASLEEP), AtomicU64::new(0));
    let is_asleep = || word.load(Ordering::Acquire) == ASLEEP;
    let wake = |what| {
        word.store(what, Ordering::Release);
        let _ = futex::wake(&word, Flags::PRIVATE, 1);
    };
    let sleeper = || {
        let mut samples = Vec::new();
        loop {
            while is_asleep() {
                let _ = futex::wait(&word, Flags::PRIVATE, ASLEEP, None);
            }
            if word.load(Ordering::Acquire) == OVER {
                return samples;
            }
            samples.push(clock::now().as_nanos().saturating_sub(woken_at.load(Ordering::Acquire)));
            word.store(ASLEEP, Ordering::Release);
        }
    };
    let waker = || {
        std::thread::scope(|scope| {
            let sleeper = spawn(scope, to, FIFO, sleeper)?;
            each(period, count, |_| {
                // On a host that is busy with more urgent work the thread might not sleep yet.
                if is_asleep() {
                    woken_at.store(clock::now().as_nanos(), Ordering::Release);
                    wake(WOKEN);
                }
            });
            while !is_asleep() {
                clock::sleep_until(clock::now() + period);
            }
            wake(OVER);
            Ok(sleeper.join().unwrap_or_default())
        })
    };
    with(to, beside, || woken(to, || alone_on(from, waker)))
}

/// Measures wakeups of a thread of a CPU, and counts their interrupts.
fn woken(cpu: CpuId, measure: impl FnOnce() -> Result<Vec<u64>, String>) -> Result<Woken, String> {
    let before = ipis_to(cpu);
    let samples = measure()?;
    let ipis = before.and_then(|before| Some(ipis_to(cpu)?.saturating_sub(before)));
    Ok(Woken { wakeups: samples.len() as u64, samples, ipis })
}

/// Calls `then` with the due time after each of `count` expiries of a timer. Expiries that have
/// already passed are skipped.
fn each(period: Duration, count: u32, mut then: impl FnMut(Instant)) {
    let mut due = clock::now() + RUN_UP;
    for _ in 0..count {
        clock::sleep_until(due);
        then(due);
        let now = clock::now();
        while due <= now {
            due += period;
        }
    }
}

/// Calls a function on a SCHED_FIFO thread of a CPU.
fn alone_on<T: Send>(cpu: CpuId, run: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    on(cpu, FIFO, run)
}

/// Calls a function on a thread of a CPU.
fn on<T: Send>(cpu: CpuId, attr: SchedAttr, run: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        spawn(scope, cpu, attr, run)?.join().map_err(|_| "the measuring thread panicked".to_owned())?
    })
}

/// Calls a function while the CPU has this other load.
fn with<T>(cpu: CpuId, beside: Beside, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    if beside == Beside::Idle {
        return run();
    }
    let over = AtomicBool::new(false);
    let compute = || {
        while !over.load(Ordering::Relaxed) {
            crate::work::spin(SPINS);
        }
    };
    std::thread::scope(|scope| {
        spawn(scope, cpu, IDLE, compute)?;
        clock::sleep_until(clock::now() + COMPUTED_BEFORE);
        let result = run();
        over.store(true, Ordering::Relaxed);
        result
    })
}

/// Starts a thread on one CPU, with these attributes if they are permitted.
fn spawn<'s, 'e: 's, T: Send + 's>(
    scope: &'s Scope<'s, 'e>,
    cpu: CpuId,
    attr: SchedAttr,
    run: impl FnOnce() -> T + Send + 's,
) -> Result<ScopedJoinHandle<'s, T>, String> {
    let only = cpu_set(&CpuMask::single(cpu));
    let started = move || {
        // The caller has checked that the process may run there.
        let _ = sched_setaffinity(None, &only);
        let _ = sys::set_attr(attr);
        run()
    };
    std::thread::Builder::new().spawn_scoped(scope, started).map_err(|error| format!("a thread: {error}"))
}

/// Returns how many rescheduling and function-call interrupts a CPU got from others.
fn ipis_to(cpu: CpuId) -> Option<u64> {
    count_ipis(&std::fs::read_to_string("/proc/interrupts").ok()?, cpu)
}

/// As [`ipis_to`], from the text of `/proc/interrupts`: the rows have these names on x86 and Arm.
fn count_ipis(text: &str, cpu: CpuId) -> Option<u64> {
    let (head, rows) = text.split_once('\n')?;
    let column = head.split_whitespace().position(|name| name == format!("CPU{cpu}"))?;
    let is_ipi = |row: &&str| row.ends_with("Rescheduling interrupts") || row.ends_with("Function call interrupts");
    let counts = rows.lines().map(str::trim_end).filter(is_ipi);
    let counts: Vec<u64> = counts.filter_map(|row| row.split_whitespace().nth(column + 1)?.parse().ok()).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// As cyclictest's `-p80`.
const FIFO: SchedAttr = SchedAttr::fifo_at(80);
const IDLE: SchedAttr = SchedAttr::Fair { policy: FairPolicy::Idle, nice: Nice::ZERO, slice: None };
/// The values of the woken thread's word.
const ASLEEP: u32 = 0;
const WOKEN: u32 = 1;
const OVER: u32 = 2;
/// Time until the first expiry, in which other threads settle.
const RUN_UP: Duration = Duration::from_millis(1);
/// How long a CPU computes before a measurement. In the first 40 ms after idling, the median of a
/// timer was 13 to 36 us; after a second of computing it was 14 to 15 us.
const COMPUTED_BEFORE: Duration = Duration::from_millis(120);
/// Turns of a computation between two checks whether it is over: some 10 us.
const SPINS: u64 = 6_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_there() {
        let cpus = crate::host::allowed();
        let first = cpus.first().expect("a CPU");
        let second = cpus.last().expect("a CPU");
        let period = Duration::from_micros(200);
        for other in [first, second] {
            assert_eq!(handover(first, other, Class::Fair, 200).expect("it is measured").samples.len(), 1);
            assert_eq!(pipes(first, 200).expect("it is measured").samples.len(), 1);
            assert_eq!(handover(first, other, Class::Fifo, 200).expect("it is measured").samples.len(), 1);
            for beside in [Beside::Idle, Beside::Computes] {
                let woken = wakeup(first, other, beside, period, 20).expect("it is measured");
                assert!((1..=20).contains(&woken.samples.len()), "{woken:?}");
            }
        }
        assert_eq!(timer(first, Beside::Computes, period, 20).expect("it is measured").samples.len(), 20);
        assert_eq!(timer(first, Beside::Idle, period, 20).expect("it is measured").samples.len(), 20);
    }

    #[test]
    fn interrupts_from_other_cpus_are_counted() {
        let x86 = "            CPU0       CPU2       \n 24:   1  2  PCI-MSI  virtio\nLOC:  100  200   Local timer interrupts\n\
                   RES:  3  40   Rescheduling interrupts\nCAL:  5  60   Function call interrupts\n";
        assert_eq!(count_ipis(x86, CpuId(2)), Some(100));
        assert_eq!(count_ipis(x86, CpuId(1)), None);
        let arm = "           CPU0       CPU1\nIPI0:  7  8       Rescheduling interrupts\nIPI1:  1  2       Function call interrupts\n";
        assert_eq!(count_ipis(arm, CpuId(1)), Some(10));
        assert_eq!(count_ipis("           CPU0\nLOC:  1   Local timer interrupts\n", CpuId(0)), None);
    }
}
