//! [`Meter`]: the CPU time of a thread, divided into polls.
//!
//! A poll is charged the CPU time of its thread. Reading that clock is a system call, 0.3 us and
//! more, which is longer than a short poll; reading the wall clock is 50 ns. So
//!
//! * the wall clock is read at the begin and at the end of a poll, and its time is CPU time as long
//!   as the last reading of the thread's clock is younger than [`GRAIN`];
//! * after that the thread's clock is read and is right: a thread that was preempted, or whose
//!   processor was taken, is away for longer than [`GRAIN`], so the poll is not charged for it. An
//!   interrupt or a sleep that is shorter counts as CPU time at first. The next reading shows it,
//!   and as much of what follows is not charged.
//!
//! # Work between polls
//!
//! The executor's own work (switches, wakeups, the I/O driver, falling asleep) is CPU time too, and
//! a tenant that only yields causes nothing else. The time since the last poll ended on this thread
//! is charged to the poll that begins, as Linux charges a switch to the task that is switched to,
//! if it is at most `between`. If it is more, other tasks have run here, which are in no group.
//!
//! # Streaks
//!
//! After [`STREAK`] polls in a row that were short, as was the time before them, the begin is not
//! read: the time before a poll would be charged to it anyway. If the end shows a long time after
//! all, that is charged (it was the poll, or a single poll of a task without a group), and the next
//! streak has to be twice as long.

use std::time::{Duration, Instant};

/// The wall time after which the thread's clock is read again.
pub(crate) const GRAIN: Duration = Duration::from_micros(50);

/// Polls in a row, before which begins are not read.
const STREAK: u32 = 8;
const STREAK_MAX: u32 = 1024;

/// Both a poll of a streak and the time before it are at most this long.
const SHORT: Duration = Duration::from_micros(8);

/// The time of a poll.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Measured {
    /// CPU time, with the work before it.
    pub(crate) ran: Duration,
    /// Wall time in which the thread did not run.
    pub(crate) lost: Duration,
}

/// A time of the wall clock.
#[derive(Clone, Copy, Default, Debug)]
struct Lap {
    wall: Duration,
    cpu: Duration,
}

/// The clocks of the calling thread.
pub(crate) trait Clocks {
    fn wall(&self) -> Instant;
    fn cpu(&self) -> Duration;
}

/// The clocks of the system.
pub(crate) struct System;

impl Clocks for System {
    #[expect(clippy::disallowed_methods, reason = "polls take real time")]
    fn wall(&self) -> Instant {
        Instant::now()
    }

    fn cpu(&self) -> Duration {
        own_cpu_time()
    }
}

/// Returns the CPU time of the calling thread. Miri has no such clock: there it is the wall's.
pub(crate) fn own_cpu_time() -> Duration {
    #[cfg(miri)]
    {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let now = System.wall();
        return now.saturating_duration_since(*START.get_or_init(|| now));
    }
    #[cfg(not(miri))]
    {
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs() as u32)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Meter {
    /// The last readings; `None` before the first poll of the thread.
    read: Option<Readings>,
    /// CPU time since the thread's clock was read, as far as it was told.
    told: Duration,
    /// CPU time that was told and that the thread did not use.
    ahead: Duration,
    /// The work before the poll in progress, which it is charged for.
    before: Duration,
    was_short: bool,
    streak: u32,
    wanted: u32,
}

#[derive(Clone, Copy, Debug)]
struct Readings {
    wall: Instant,
    /// When the thread's clock was read, and what it showed.
    exact: Instant,
    cpu: Duration,
}

impl Meter {
    pub(crate) const fn new() -> Self {
        let zero = Duration::ZERO;
        Self { read: None, told: zero, ahead: zero, before: zero, was_short: false, streak: 0, wanted: STREAK }
    }

    /// Returns the time since the last call.
    fn lap(&mut self, clocks: &impl Clocks) -> Lap {
        let now = clocks.wall();
        let Some(read) = &mut self.read else {
            self.read = Some(Readings { wall: now, exact: now, cpu: clocks.cpu() });
            return Lap::default();
        };
        let wall = now.saturating_duration_since(read.wall);
        read.wall = now;
        let mut cpu = wall;
        if now.saturating_duration_since(read.exact) < GRAIN {
            self.told += cpu;
        } else {
            let used = clocks.cpu();
            let total = used.saturating_sub(read.cpu);
            cpu = total.saturating_sub(self.told);
            self.ahead += self.told.saturating_sub(total);
            (read.exact, read.cpu, self.told) = (now, used, Duration::ZERO);
        }
        if !self.ahead.is_zero() {
            let excused = self.ahead.min(cpu);
            self.ahead -= excused;
            cpu -= excused;
        }
        Lap { wall, cpu }
    }

    fn is_in_streak(&self) -> bool {
        self.streak >= self.wanted
    }

    /// A poll begins. It is charged for the work before it if that is at most `between`.
    pub(crate) fn begin(&mut self, clocks: &impl Clocks, between: Duration) {
        if self.is_in_streak() {
            return;
        }
        let gap = self.lap(clocks);
        self.before = if gap.cpu <= between { gap.cpu } else { Duration::ZERO };
        self.was_short = gap.wall <= SHORT.min(between);
    }

    /// The poll ends.
    pub(crate) fn end(&mut self, clocks: &impl Clocks) -> Measured {
        let lap = self.lap(clocks);
        if self.is_in_streak() {
            if lap.wall > SHORT * 2 {
                (self.streak, self.wanted) = (0, (self.wanted * 2).min(STREAK_MAX));
            }
            return Measured { ran: lap.cpu, lost: lap.wall.saturating_sub(lap.cpu) };
        }
        let is_short = self.was_short && lap.wall <= SHORT;
        self.streak = if is_short { self.streak + 1 } else { 0 };
        let ran = lap.cpu + std::mem::take(&mut self.before);
        Measured { ran, lost: lap.wall.saturating_sub(lap.cpu) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const BETWEEN: Duration = Duration::from_micros(20);

    /// Clocks that are set by hand, and how often each is read.
    struct Set {
        start: Instant,
        wall: Cell<Duration>,
        cpu: Cell<Duration>,
        reads: Cell<[u32; 2]>,
    }

    impl Set {
        #[expect(clippy::disallowed_methods, reason = "an instant cannot be made otherwise")]
        fn new() -> Self {
            let zero = Duration::ZERO;
            Self { start: Instant::now(), wall: Cell::new(zero), cpu: Cell::new(zero), reads: Cell::default() }
        }

        fn runs(&self, ns: u64) {
            self.cpu.set(self.cpu.get() + Duration::from_nanos(ns));
            self.waits(ns);
        }

        fn waits(&self, ns: u64) {
            self.wall.set(self.wall.get() + Duration::from_nanos(ns));
        }

        /// Runs a poll; returns what it is charged, and what it lost, in nanoseconds.
        fn poll(&self, meter: &mut Meter, body: impl FnOnce()) -> (u128, u128) {
            meter.begin(self, BETWEEN);
            body();
            let Measured { ran, lost } = meter.end(self);
            (ran.as_nanos(), lost.as_nanos())
        }
    }

    impl Clocks for Set {
        fn wall(&self) -> Instant {
            let [wall, cpu] = self.reads.get();
            self.reads.set([wall + 1, cpu]);
            self.start + self.wall.get()
        }

        fn cpu(&self) -> Duration {
            let [wall, cpu] = self.reads.get();
            self.reads.set([wall, cpu + 1]);
            self.cpu.get()
        }
    }

    #[test]
    fn a_preempted_poll_is_charged_what_it_ran() {
        let (set, mut meter) = (Set::new(), Meter::new());
        assert_eq!(set.poll(&mut meter, || set.runs(100_000)), (100_000, 0));
        let preempted = || {
            set.runs(30_000);
            set.waits(3_000_000);
            set.runs(10_000);
        };
        assert_eq!(set.poll(&mut meter, preempted), (40_000, 3_000_000));
    }

    #[test]
    fn a_short_absence_is_charged_and_excused_later() {
        let (set, mut meter) = (Set::new(), Meter::new());
        let interrupted = || {
            set.runs(5_000);
            set.waits(20_000);
        };
        assert_eq!(set.poll(&mut meter, interrupted), (25_000, 0));
        // 20 us are excused: 60 us have passed, of which 35 us were charged for before.
        assert_eq!(set.poll(&mut meter, || set.runs(60_000)), (40_000, 20_000));
        assert_eq!(set.poll(&mut meter, || set.runs(60_000)), (60_000, 0));
    }

    #[test]
    fn the_work_before_a_poll_is_charged_and_other_tasks_are_not() {
        let (set, mut meter) = (Set::new(), Meter::new());
        set.poll(&mut meter, || set.runs(20_000));
        set.runs(15_000);
        assert_eq!(set.poll(&mut meter, || set.runs(20_000)), (35_000, 0));
        set.runs(300_000);
        assert_eq!(set.poll(&mut meter, || set.runs(20_000)), (20_000, 0));
        // The thread sleeps, and needs 9 us to fall asleep and to wake up.
        set.waits(5_000_000);
        set.runs(9_000);
        assert_eq!(set.poll(&mut meter, || set.runs(20_000)), (29_000, 0));
    }

    #[test]
    fn short_polls_in_a_row_read_one_clock() {
        let (set, mut meter) = (Set::new(), Meter::new());
        let mut charged = 0;
        for _ in 0..STREAK + 1 {
            set.runs(100);
            charged += set.poll(&mut meter, || set.runs(100)).0;
        }
        set.reads.set([0, 0]);
        for _ in 0..1000 {
            set.runs(100);
            charged += set.poll(&mut meter, || set.runs(100)).0;
        }
        assert_eq!(set.reads.get(), [1000, 4], "200 us have four times 50 us");
        assert_eq!(charged, 200 * (1000 + 9) - 100, "all but the work before the first");
        // What comes after a streak is charged whole, and the next streak is longer.
        assert_eq!(set.poll(&mut meter, || set.runs(500_000)).0, 500_000);
        assert_eq!((meter.streak, meter.wanted), (0, STREAK * 2));
    }

    #[test]
    fn a_streak_needs_short_times_before_polls() {
        let (set, mut meter) = (Set::new(), Meter::new());
        for _ in 0..100 {
            set.runs(30_000);
            assert_eq!(set.poll(&mut meter, || set.runs(100)).0, 100, "30 us are other tasks");
        }
    }
}
