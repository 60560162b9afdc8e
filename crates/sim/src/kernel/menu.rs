//! [`Menu`]: the idle governor of Linux 3.0. It guesses how long a CPU will be idle, and
//! can guess wrong.
//!
//! Too deep a state costs the next interrupt more than necessary, too shallow a state less. The
//! guess of a CPU has three parts:
//!
//! | part | rule |
//! |---|---|
//! | timers | the time until its next timer, times the share of such times that it was idle in the past; a running average per order of magnitude, apart for times with tasks that wait for a disk |
//! | pattern | the mean of the last eight idle times instead, if they deviate by less than 20 us |
//! | performance | a state is too deep whose exit takes more than a part of the guess: all of it, or an 11th with one task that waits for a disk and blocked on this CPU, and so on |
//!
//! Sources: Linux v3.0 `drivers/cpuidle/governors/menu.c`, `menu_select`, `menu_update`,
//! `detect_repeating_patterns`, `performance_multiplier`, `which_bucket`. differs: the load of the
//! CPU, which raises the multiplier, is that of an idle one, zero; a CPU without any timer expects
//! one within a second, as a kernel's own timers are; tasks that read files wait for a disk, and
//! those that make single requests (`io`) do not count.

use crate::costs::IdleState;
use zerolag_model::{CpuId, Duration, TaskId};

/// The time in which a CPU without another timer expects one.
pub(super) const OWN_TIMERS: Duration = Duration::from_secs(1);

/// Orders of magnitude of the time until the next timer, twice.
const BUCKETS: usize = 12;
/// One, as a share.
const UNITY: u64 = 1024;
/// The running average forgets an eighth at each idle time.
const DECAY: u64 = 8;
/// Microseconds from which on an idle time counts as if it had been guessed.
const LONG: u64 = 50_000;
/// Square microseconds: the variance below which intervals repeat.
const VARIANCE: u64 = 400;

/// What a CPU has seen.
#[derive(Clone, Debug)]
struct Guess {
    /// The average share of the time until the next timer that it was idle, by bucket, times
    /// [`UNITY`] and [`DECAY`].
    shares: [u64; BUCKETS],
    /// The last idle times with their exits, in microseconds.
    intervals: [u64; 8],
    next: usize,
    /// The tasks that have blocked on this CPU and wait for a disk.
    waiters: u32,
}

/// The guesses of all CPUs.
#[derive(Clone, Debug)]
pub(super) struct Menu {
    cpus: Vec<Guess>,
    /// By task, the CPU on which it has blocked to wait for a disk.
    waits_on: Vec<Option<CpuId>>,
}

impl Guess {
    fn bucket(&self, expected: u64) -> usize {
        let of_waiters = if self.waiters > 0 { BUCKETS / 2 } else { 0 };
        of_waiters
            + match expected {
                ..10 => 0,
                10..100 => 1,
                100..1_000 => 2,
                1_000..10_000 => 3,
                10_000..100_000 => 4,
                100_000.. => 5,
            }
    }

    /// Returns the guess in microseconds, where the next timer is so many ahead.
    fn predict(&self, expected: u64) -> u64 {
        let mean = self.intervals.iter().sum::<u64>() / self.intervals.len() as u64;
        let squares: u64 = self.intervals.iter().map(|interval| interval.abs_diff(mean).pow(2)).sum();
        if mean > 0 && mean <= expected && squares / (self.intervals.len() as u64) < VARIANCE {
            return mean;
        }
        let whole = UNITY * DECAY;
        (expected * self.shares[self.bucket(expected)] + whole / 2) / whole
    }

    /// Returns the number of the state that it enters: of several that are allowed, the deepest.
    fn select(&self, expected: Duration, states: &[IdleState]) -> usize {
        let predicted = self.predict(micros_up(expected));
        let multiplier = 1 + 10 * u64::from(self.waiters);
        let is_allowed = |state: &IdleState| {
            let (residency, exit) = (micros(state.residency), micros(state.exit));
            residency <= predicted && exit * multiplier <= predicted
        };
        states.iter().rposition(is_allowed).unwrap_or(0)
    }

    /// Learns from an idle time and its exit.
    fn reflect(&mut self, expected: Duration, idled: Duration, exit: Duration) {
        let (expected, idled) = (micros_up(expected), micros(idled));
        let share = &mut self.shares[self.bucket(expected)];
        let now = if expected > 0 && idled < LONG { UNITY * idled / expected } else { UNITY };
        *share = (*share * (DECAY - 1) / DECAY + now).max(1);
        self.intervals[self.next] = idled + micros(exit);
        self.next = (self.next + 1) % self.intervals.len();
    }
}

const fn micros(time: Duration) -> u64 {
    time.as_nanos() / 1_000
}

const fn micros_up(time: Duration) -> u64 {
    time.as_nanos().div_ceil(1_000)
}

impl Menu {
    pub(super) fn new(cpus: usize) -> Self {
        let new = Guess { shares: [UNITY * DECAY; BUCKETS], intervals: [0; 8], next: 0, waiters: 0 };
        Self { cpus: vec![new; cpus], waits_on: Vec::new() }
    }

    /// Returns the number of the state that a CPU enters whose next timer is so far ahead.
    pub(super) fn select(&self, cpu: CpuId, expected: Duration, states: &[IdleState]) -> usize {
        self.cpus[cpu.index()].select(expected, states)
    }

    /// A CPU has left a state. `expected` is as it was when it entered it.
    pub(super) fn reflect(&mut self, cpu: CpuId, expected: Duration, idled: Duration, exit: Duration) {
        self.cpus[cpu.index()].reflect(expected, idled, exit);
    }

    /// A task blocks on a CPU to wait for a disk.
    pub(super) fn waits(&mut self, cpu: CpuId, task: TaskId) {
        if self.waits_on.len() <= task.index() {
            self.waits_on.resize(task.index() + 1, None);
        }
        self.waits_on[task.index()] = Some(cpu);
        self.cpus[cpu.index()].waiters += 1;
    }

    /// A task no longer waits for a disk, if it has.
    pub(super) fn waits_no_more(&mut self, task: TaskId) {
        if let Some(cpu) = self.waits_on.get_mut(task.index()).and_then(Option::take) {
            self.cpus[cpu.index()].waiters -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Sandy Bridge.
    fn states() -> Vec<IdleState> {
        let state = |(residency, exit)| IdleState {
            residency: US(residency),
            exit: US(exit),
            polling: false,
            ipi_latency: None,
        };
        [(1, 1), (211, 80), (345, 104)].map(state).to_vec()
    }

    #[test]
    fn timers_alone_are_believed_at_first() {
        let menu = Menu::new(1);
        let state = |expected| menu.select(CpuId(0), US(expected), &states());
        assert_eq!([100, 300, 400, 1_000_000].map(state), [0, 1, 2, 2]);
    }

    #[test]
    fn early_interrupts_teach_shallower_states_at_that_distance_of_the_timer() {
        let mut menu = Menu::new(1);
        // Different times, so that no pattern repeats: a tenth of the timer's distance on average.
        for idled in [50, 150, 20, 180, 100].into_iter().cycle().take(40) {
            menu.reflect(CpuId(0), US(2_000), US(idled), US(80));
        }
        assert_eq!(menu.select(CpuId(0), US(2_000), &states()), 0, "a guess of about 100 us");
        assert_eq!(menu.select(CpuId(0), US(500), &states()), 2, "another order of magnitude");
    }

    #[test]
    fn eight_equal_intervals_are_a_pattern() {
        let mut menu = Menu::new(1);
        for _ in 0..8 {
            menu.reflect(CpuId(0), US(1_000_000), US(296), US(4));
        }
        assert_eq!(menu.select(CpuId(0), US(1_000_000), &states()), 1, "300 us are worth the second state");
        menu.reflect(CpuId(0), US(1_000_000), US(500), US(104));
        assert_eq!(menu.select(CpuId(0), US(1_000_000), &states()), 2, "no pattern: the timer's share");
    }

    #[test]
    fn a_task_that_waits_for_a_disk_makes_exits_expensive() {
        let mut menu = Menu::new(2);
        assert_eq!(menu.select(CpuId(0), US(1_000), &states()), 2);
        menu.waits(CpuId(0), TaskId(3));
        assert_eq!(menu.select(CpuId(0), US(1_000), &states()), 1, "11 times 104 us are too long, 11 times 80 are not");
        assert_eq!(menu.select(CpuId(1), US(1_000), &states()), 2, "another CPU");
        menu.waits_no_more(TaskId(3));
        menu.waits_no_more(TaskId(3));
        assert_eq!(menu.select(CpuId(0), US(1_000), &states()), 2);
    }
}
