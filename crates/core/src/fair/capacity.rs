//! What is left of a CPU for fair tasks: its capacity less what deadline and real-time tasks and interrupts lately took.
//!
//! The time of the classes above is averaged as the load is ([`Average`], util alone); it is added where a CPU begins or
//! ends to run such a task. The time of interrupts is what the CPU's clock has ahead of its task clock. A CPU works out
//! what is left when it balances, for its own sake, and publishes it: others may read an old figure, as they do of Linux.
//!
//! ```text
//!   left = (capacity - util of deadline and real-time tasks) * (capacity - util of interrupts) / capacity, at least 1
//! ```
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `scale_rt_capacity`, `update_cpu_capacity`; `kernel/sched/pelt.c`,
//! `update_rt_rq_load_avg`, `update_dl_rq_load_avg`, `update_irq_load_avg`. differs: the two classes above share one
//! average; interrupts are taken as spread evenly over the time since they were last looked at.

use super::pelt::{self, Average, Signals};
use super::{imbalance, misfit};
use crate::rq::{Cx, Rq};
use crate::step::Clock;
use alloc::format;
use alloc::string::String;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Instant};

/// What the rest of the system takes of a CPU.
#[derive(Debug)]
pub(crate) struct Pressure {
    /// Of deadline and real-time tasks.
    above: Average,
    /// Whether one runs.
    is_above: bool,
    /// Util of interrupts.
    interrupts: u64,
    /// Up to when they are counted.
    counted: Clock,
}

impl Default for Pressure {
    fn default() -> Self {
        Self { above: Average::default(), is_above: false, interrupts: 0, counted: Clock::at(Instant::ZERO) }
    }
}

impl Pressure {
    /// Returns what is left of a CPU of this capacity. O(1).
    fn left(&mut self, now: Clock, averages: Instant, capacity: u64) -> u64 {
        self.age(averages);
        self.count_interrupts(now);
        let used = self.above.util;
        if self.interrupts >= capacity || used >= capacity {
            return 1;
        }
        ((capacity - used) * (capacity - self.interrupts) / capacity).max(1)
    }

    /// Returns the util of deadline and real-time tasks, as of when it was last aged.
    pub(super) const fn above_util(&self) -> u64 {
        self.above.util
    }

    /// Adds the time since the last call, in which a task of the classes above ran or none did.
    fn age(&mut self, now: Instant) {
        let signals = Signals { load: u64::from(self.is_above), runnable: 0, runs: self.is_above };
        self.above.age(now, signals, 1);
    }

    fn count_interrupts(&mut self, now: Clock) {
        let passed = now.wall.since(self.counted.wall);
        let periods = pelt::periods(passed);
        if periods == 0 {
            return;
        }
        let taken = passed.saturating_sub(now.task.since(self.counted.task));
        let target = taken.mul_div_floor(1024, passed.as_nanos()).as_nanos();
        self.interrupts = pelt::approach(self.interrupts, target, periods);
        self.counted = now;
    }
}

/// The CPU runs another task, of this class, or none.
#[inline]
pub(crate) fn switched<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, class: ClassId) {
    if !rq.fair.tune.tracks_load {
        return;
    }
    if rq.fair.asymmetric.is_some() {
        misfit::switched(rq, cx);
    }
    let is_above = is_above(class);
    if is_above != rq.fair.pressure.is_above {
        let now = rq.averages_clock();
        rq.fair.pressure.age(now);
        rq.fair.pressure.is_above = is_above;
    }
}

const fn is_above(class: ClassId) -> bool {
    match class {
        ClassId::Stop | ClassId::Deadline | ClassId::Rt => true,
        ClassId::Fair | ClassId::Idle => false,
    }
}

impl Rq {
    /// Checks that the time of the classes above is counted if and only if one of them runs.
    pub(crate) fn check_pressure(&self) -> Result<(), String> {
        let (class, is_counted) = (self.current_class(), self.fair.pressure.is_above);
        if self.fair.tune.tracks_load && is_counted != is_above(class) {
            let verb = if is_counted { "counts" } else { "does not count" };
            return Err(format!("CPU {} {verb} time of the classes above, but runs {class:?}", self.cpu));
        }
        Ok(())
    }
}

/// Publishes what is left of this CPU. Returns whether much of it was taken. O(1).
pub(super) fn publish<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) -> bool {
    if !rq.fair.tune.tracks_load {
        return false;
    }
    let full = u64::from(cx.config.topology.capacity(rq.cpu));
    let averages = rq.averages_clock();
    let left = rq.fair.pressure.left(rq.clock, averages, full);
    cx.shared.publish_capacity(rq.cpu, left);
    imbalance::is_reduced(left, full)
}

/// Returns what is left of a CPU for fair tasks, as it published it; all of it if it never has.
pub(super) fn of_cpu<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId) -> u64 {
    match cx.view().capacity(cpu) {
        0 => u64::from(cx.config.topology.capacity(cpu)),
        left => left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn all_is_left_of_a_cpu_that_does_nothing_else() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.left(Clock::at(Instant::ZERO + ms(1000)), Instant::ZERO + ms(1000), 1024), 1024);
    }

    #[test]
    fn what_runs_above_for_half_of_the_time_leaves_half() {
        let mut pressure = Pressure::default();
        let mut now = Instant::ZERO;
        for _ in 0..200 {
            for is_above in [true, false] {
                now += ms(2);
                pressure.age(now);
                pressure.is_above = is_above;
            }
        }
        let left = pressure.left(Clock::at(now), now, 1024);
        assert!(left.abs_diff(512) < 32, "{left}");
        pressure.is_above = true;
        let left = pressure.left(Clock::at(now + ms(1000)), now + ms(1000), 1024);
        assert!(left <= 2, "a real-time task that never stops leaves nothing: {left}");
    }

    #[test]
    fn interrupts_take_their_part_of_what_is_left() {
        let mut pressure = Pressure::default();
        for quarter in 1..=400 {
            let wall = Instant::ZERO + ms(4 * quarter);
            let task = Instant::ZERO + ms(3 * quarter);
            pressure.left(Clock { wall, task }, task, 1024);
        }
        assert!(pressure.interrupts.abs_diff(256) < 4, "{}", pressure.interrupts);
        let clock = Clock { wall: Instant::ZERO + ms(1600), task: Instant::ZERO + ms(1200) };
        assert_eq!(pressure.left(clock, clock.task, 1024), 1024 - pressure.interrupts);
    }
}
