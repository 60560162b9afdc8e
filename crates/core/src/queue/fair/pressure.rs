//! [`Pressure`]: the share of a CPU that interrupts and higher classes take.
//! [`crate::class::fair::capacity`] has the rules.

use crate::entity::pelt;
use crate::entity::pelt::{Average, Signals};
use crate::words::clock::Clock;
use zerolag_model::Instant;

/// The utilisation of a CPU by everything above the fair class.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    /// The average of deadline and real-time tasks.
    above: Average,
    /// Whether a deadline or real-time task runs.
    pub(crate) is_above: bool,
    /// The utilisation by interrupts.
    interrupts: u64,
    /// The time up to which interrupts are counted.
    counted: Clock,
}

impl Default for Pressure {
    fn default() -> Self {
        Self { above: Average::default(), is_above: false, interrupts: 0, counted: Clock::at(Instant::ZERO) }
    }
}

impl Pressure {
    /// Returns the capacity that remains for fair tasks on a CPU of this capacity. O(1).
    pub(crate) fn left(&mut self, now: Clock, averages: Instant, capacity: u64) -> u64 {
        self.age(averages);
        self.count_interrupts(now, capacity);
        let used = self.above.util;
        if self.interrupts >= capacity || used >= capacity {
            return 1;
        }
        ((capacity - used) * (capacity - self.interrupts) / capacity).max(1)
    }

    /// Returns the utilisation by deadline and real-time tasks, as of the last call of
    /// [`age`](Self::age).
    pub(crate) const fn above_util(&self) -> u64 {
        self.above.util
    }

    /// Accounts for the time since the last call, during which a task of a higher class ran or none
    /// did.
    pub(crate) fn age(&mut self, now: Instant) {
        let runs = self.is_above;
        self.above.age(now, || Signals { load: u64::from(runs), runnable: 0, runs }, 1);
    }

    /// Averages the time of interrupts. It is a part of the capacity of this CPU (`cap_scale`), as
    /// the use by tasks is: their clock is slower on a weak CPU.
    fn count_interrupts(&mut self, now: Clock, capacity: u64) {
        let passed = now.wall.since(self.counted.wall);
        let periods = pelt::periods(passed);
        if periods == 0 {
            return;
        }
        let taken = passed.saturating_sub(now.task.since(self.counted.task));
        let target = taken.mul_div_floor(capacity, passed.as_nanos()).as_nanos();
        self.interrupts = pelt::approach(self.interrupts, target, periods);
        self.counted = now;
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
        for capacity in [1024, 200] {
            let mut pressure = Pressure::default();
            for quarter in 1..=400 {
                let wall = Instant::ZERO + ms(4 * quarter);
                let task = Instant::ZERO + ms(3 * quarter);
                pressure.left(Clock { wall, task }, task, capacity);
            }
            assert!(pressure.interrupts.abs_diff(capacity / 4) < 4, "{} of {capacity}", pressure.interrupts);
            let clock = Clock { wall: Instant::ZERO + ms(1600), task: Instant::ZERO + ms(1200) };
            assert_eq!(pressure.left(clock, clock.task, capacity), capacity - pressure.interrupts);
        }
    }
}
