//! What the fair class takes: the same operations with fair threads and with SCHED_FIFO ones.

use crate::calibrate::{
    LESS_URGENT, NICE, PANICKED, URGENT, add_samples, last_tick, measure_timer_wakes, measure_wakes, spawn, watch_gaps,
};
use crate::clock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zerolag_model::{Duration, SchedAttr};

/// Measurements with fair threads, and with SCHED_FIFO ones for comparison: samples in nanoseconds,
/// sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fair {
    /// The time that the interrupt of a timer takes from a computing fair thread, if it wakes
    /// another one that does not preempt.
    pub timer_wake: Vec<u64>,
    /// The time that a fair thread takes to wake another one, which does not preempt, by a futex.
    pub wake: Vec<u64>,
    /// The same with SCHED_FIFO threads.
    pub fifo_wake: Vec<u64>,
    /// The time that a tick takes from a computing fair thread.
    pub tick: Vec<u64>,
    /// From the last instruction of a fair thread that sleeps to the first of a computing fair one.
    pub block: Vec<u64>,
    /// The same with SCHED_FIFO threads.
    pub fifo_block: Vec<u64>,
    /// From the last instruction of a computing fair thread whose turn a tick ends to the first of
    /// the next one.
    pub turn_tick: Vec<u64>,
    /// The same where the turn ends between two ticks, by a timer of its own (`HRTICK`). Few where
    /// the kernel has none.
    pub turn_timer: Vec<u64>,
}

impl Fair {
    pub(super) fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.timer_wake, other.timer_wake),
            (&mut self.wake, other.wake),
            (&mut self.fifo_wake, other.fifo_wake),
            (&mut self.tick, other.tick),
            (&mut self.block, other.block),
            (&mut self.fifo_block, other.fifo_block),
            (&mut self.turn_tick, other.turn_tick),
            (&mut self.turn_timer, other.turn_timer),
        ];
        pairs.into_iter().for_each(add_samples);
    }

    /// Returns whether the kernel ends the turns of fair threads between ticks.
    #[must_use]
    pub fn has_turn_timer(&self) -> bool {
        self.turn_timer.len() > self.turn_tick.len()
    }
}

/// Measures on the CPU of the calling thread, which is SCHED_FIFO: its threads run while it waits.
pub(super) fn measure() -> Result<Fair, String> {
    let [turn_tick, turn_timer] = turns()?;
    let as_fair = |measure: fn(SchedAttr) -> Result<Vec<u64>, String>| {
        std::thread::scope(|scope| {
            let watch = spawn(scope, SchedAttr::NORMAL, move || measure(NICE))?;
            watch.join().map_err(|_| PANICKED.to_owned())?
        })
    };
    Ok(Fair {
        timer_wake: as_fair(measure_timer_wakes)?,
        wake: as_fair(measure_wakes)?,
        fifo_wake: measure_wakes(LESS_URGENT)?,
        tick: ticks()?,
        block: blocks(SchedAttr::NORMAL, SchedAttr::NORMAL)?,
        fifo_block: blocks(URGENT, LESS_URGENT)?,
        turn_tick,
        turn_timer,
    })
}

/// Computes alone, and watches for gaps with a tick in them. A thread that waited, even one of
/// SCHED_IDLE, would have the scheduler decide at each tick: 3 to 4 us more, which are not the
/// tick's.
fn ticks() -> Result<Vec<u64>, String> {
    let watches = || {
        let gaps = watch_gaps(WATCHED);
        gaps.into_iter().filter(|(.., ticked)| *ticked).map(|(_, length, _)| length).collect()
    };
    std::thread::scope(|scope| spawn(scope, SchedAttr::NORMAL, watches)?.join().map_err(|_| PANICKED.to_owned()))
}

/// Lets a thread sleep again and again beside a computing one.
fn blocks(sleeper: SchedAttr, computing: SchedAttr) -> Result<Vec<u64>, String> {
    let (left_at, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let computes = || {
        let mut samples = Vec::new();
        let (mut seen, mut slept) = (0, 0);
        while !over.load(Ordering::Relaxed) {
            let left = left_at.load(Ordering::Acquire);
            if left != seen {
                // The first sleeps are those of a new thread, whose lag is another.
                slept += 1;
                if slept > SLEEPS / 3 {
                    samples.push(clock::now().as_nanos().saturating_sub(left));
                }
                seen = left;
            }
        }
        samples
    };
    let sleeps = || {
        for _ in 0..SLEEPS {
            let now = clock::now();
            left_at.store(now.as_nanos(), Ordering::Release);
            clock::sleep_until(now + PAUSE);
        }
        over.store(true, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        let computes = spawn(scope, computing, computes)?;
        spawn(scope, sleeper, sleeps)?;
        computes.join().map_err(|_| PANICKED.to_owned())
    })
}

/// Lets two fair threads compute in turns. Returns the times of turns' ends, at ticks and between.
fn turns() -> Result<[Vec<u64>; 2], String> {
    // The thread that computes, when it last read the clock, and the tick before that.
    let (owner, last, tick) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let end = clock::now() + WATCHED;
    let computes = |me: u32| {
        let (mut at_ticks, mut between) = (Vec::new(), Vec::new());
        // A turn of the loop is between the last look of one thread and the first of the other.
        let mut own = u64::MAX;
        let mut now = clock::now();
        while now < end {
            let was = owner.load(Ordering::Relaxed);
            if was != me {
                // Read after the turn has begun: what was read before may be of the turn before.
                now = clock::now();
                let gap = now.as_nanos().saturating_sub(last.load(Ordering::Relaxed));
                let before = tick.swap(last_tick().as_nanos(), Ordering::Relaxed);
                owner.store(me, Ordering::Relaxed);
                match last_tick().as_nanos() == before {
                    _ if was == 0 => {}
                    false => at_ticks.push(gap),
                    true => between.push(gap),
                }
            }
            let ticked = last_tick().as_nanos();
            let before = std::mem::replace(&mut now, clock::now());
            if owner.load(Ordering::Relaxed) == me {
                own = own.min(now.since(before).as_nanos());
                tick.store(ticked, Ordering::Relaxed);
                last.store(now.as_nanos(), Ordering::Relaxed);
            }
        }
        [at_ticks, between]
            .map(|gaps: Vec<u64>| gaps.into_iter().map(|gap| gap.saturating_sub(own)).collect::<Vec<u64>>())
    };
    std::thread::scope(|scope| {
        let first = spawn(scope, SchedAttr::NORMAL, || computes(1))?;
        let second = spawn(scope, SchedAttr::NORMAL, || computes(2))?;
        let mut ends = first.join().map_err(|_| PANICKED.to_owned())?;
        let others = second.join().map_err(|_| PANICKED.to_owned())?;
        ends.iter_mut().zip(others).for_each(|(gaps, others)| gaps.extend(others));
        Ok(ends)
    })
}

/// For how long ticks and the ends of turns are watched.
const WATCHED: Duration = Duration::from_millis(100);
/// How often a thread sleeps, and for how long.
const SLEEPS: u32 = 60;
const PAUSE: Duration = Duration::from_micros(530);
