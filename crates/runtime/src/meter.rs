//! [`Meter`]: the task clock of a CPU, which advances with the CPU time of the thread that polls.
//!
//! The wall clock charges a task for time that others use: other programs, a limit of the
//! container, the kernel that preempts the thread. A limit of half a CPU beside two busy processes
//! then gave a quarter. The kernel counts the CPU time of every thread, and any thread of the
//! process can read that of another, but each reading is a system call, as dear as a whole switch
//! between tasks.
//!
//! So the meter reads the thread's clock only if at least [`GRAIN`] of wall time has passed since
//! the last reading, and counts wall time in between. A thread that was kept from its processor for
//! longer is seen at the end of the same poll, and the poll is not charged for it. What was counted
//! too much in a shorter time is not taken back from the task, but from the clock: it stands still
//! until the thread has caught up.
//!
//! ```text
//!            a task begins [1]                      another thread takes the CPU over [2]
//!    idle --------------------> CPU time of its thread ----------------------> CPU time of that
//!    (wall time)  <-------------------- no task is runnable [3] --------------------- thread
//! ```

use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;
use zerolag_model::{Duration, Instant};

/// The wall time after which a thread's clock is read again.
const GRAIN: Duration = Duration::from_micros(50);

/// The most CPU time that the host's work around a poll takes.
const OWN_WORK: Duration = Duration::from_micros(5);

/// The clock of a thread of this process: its CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadClock(i32);

impl ThreadClock {
    /// Returns the clock of a thread. Linux `include/linux/posix-timers_types.h`,
    /// `make_thread_cpuclock`: the complement of the thread's id, and three bits for the kind.
    pub(crate) const fn of(tid: rustix::thread::Pid) -> Self {
        const PER_THREAD_SCHED: i32 = 4 | 2;
        Self((!tid.as_raw_nonzero().get() << 3) | PER_THREAD_SCHED)
    }

    /// Returns the clock of this thread.
    pub(crate) fn own() -> Self {
        thread_local! {
            static OWN: ThreadClock = ThreadClock::of(rustix::thread::gettid());
        }
        OWN.with(|own| *own)
    }

    /// Reads it; `None` if the thread has ended. Threads of unit tests are none of the kernel's,
    /// and those of Miri have no such clock.
    pub(crate) fn read(self) -> Option<Duration> {
        if cfg!(any(test, miri)) {
            return None;
        }
        let used = nix::time::ClockId::from_raw(self.0).now().ok()?;
        Some(Duration::from_nanos(std::time::Duration::from(used).as_nanos() as u64))
    }
}

/// Returns the CPU time of this thread.
pub(crate) fn own_cpu_time() -> Duration {
    ThreadClock::own().read().unwrap_or(Duration::ZERO)
}

/// Time that has been measured since it was taken last.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Measured {
    /// CPU time, charged to the task.
    pub(crate) ran: Duration,
    /// Wall time in which the thread did not run.
    pub(crate) lost: Duration,
}

/// The host's own work in the turn of a task: between the switch to it and its poll, between two
/// polls, and from the last poll on. Of a poll of 0.1 ms it is 1 %, which tasks with a limit are
/// not charged. Only the thread of the CPU uses it.
#[derive(Debug, Default)]
pub(crate) struct HostWork {
    /// The work so far, in nanoseconds.
    beside: AtomicU64,
    /// When the last poll ended, in nanoseconds; 0 in a poll, and if polls are not timed.
    outside: AtomicU64,
}

impl HostWork {
    /// A poll begins; `switched` is when the task was switched to, if this is its first poll since.
    pub(crate) fn begin(&self, now: Instant, switched: Option<Instant>) {
        let since = match self.outside.swap(0, Ordering::Relaxed) {
            0 => switched.unwrap_or(now),
            outside => Instant::from_nanos(outside),
        };
        let beside = self.beside.load(Ordering::Relaxed) + now.since(since).as_nanos();
        self.beside.store(beside, Ordering::Relaxed);
    }

    /// A poll ends.
    pub(crate) fn end(&self, now: Instant) {
        self.outside.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the work in the turn that ends.
    pub(crate) fn beside(&self, now: Instant) -> Duration {
        let outside = self.outside.load(Ordering::Relaxed);
        let beside = Duration::from_nanos(self.beside.load(Ordering::Relaxed));
        if outside == 0 && beside.is_zero() {
            return Duration::ZERO;
        }
        self.forget();
        beside + if outside == 0 { Duration::ZERO } else { now.since(Instant::from_nanos(outside)) }
    }

    /// The turn goes on without the task that was polled: it is not known any more what is work.
    pub(crate) fn forget(&self) {
        self.outside.store(0, Ordering::Relaxed);
        self.beside.store(0, Ordering::Relaxed);
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Meter {
    /// The wall time and the task time of the last reading.
    wall: Instant,
    task: Instant,
    /// The latest time that was told; it does not go back.
    told: Instant,
    /// The thread that runs the CPU's task, and its CPU time at the last reading.
    thread: Option<(ThreadClock, Option<Duration>)>,
    measured: Measured,
}

impl Meter {
    pub(crate) const fn new() -> Self {
        let measured = Measured { ran: Duration::ZERO, lost: Duration::ZERO };
        Self { wall: Instant::ZERO, task: Instant::ZERO, told: Instant::ZERO, thread: None, measured }
    }

    /// Returns the task time. `read` reads the clock of a thread.
    fn advance(&mut self, wall: Instant, grain: Duration, read: impl FnOnce(ThreadClock) -> Option<Duration>) {
        let passed = wall.since(self.wall);
        let told = self.told;
        match &mut self.thread {
            None => (self.wall, self.task, self.told) = (wall, self.task + passed, self.told.max(self.task + passed)),
            Some((clock, used)) if passed >= grain => {
                let now = read(*clock);
                let ran = match (*used, now) {
                    (Some(used), Some(now)) => now.saturating_sub(used),
                    (_, None) | (None, _) => passed,
                };
                *used = now;
                self.measured.lost += passed.saturating_sub(ran);
                (self.wall, self.task) = (wall, self.task + ran);
                self.told = self.told.max(self.task);
            }
            Some(_) => self.told = self.told.max(self.task + passed),
        }
        if self.thread.is_some() {
            self.measured.ran += self.told.since(told);
        }
    }

    /// Returns the task time at a wall time, which does not go back.
    pub(crate) fn at(&mut self, wall: Instant) -> Instant {
        self.advance(wall, GRAIN, ThreadClock::read);
        self.told
    }

    /// The calling thread runs the CPU's task from here on, if another one or none did before.
    /// Returns the CPU time of that other thread up to which the task is charged. \[1\] \[2\]
    pub(crate) fn run_by_this_thread(&mut self, wall: Instant) -> Option<Duration> {
        let own = ThreadClock::own();
        if self.thread.is_some_and(|(clock, _)| clock == own) {
            return None;
        }
        self.advance(wall, Duration::ZERO, ThreadClock::read);
        let before = self.thread.replace((own, own.read())).and_then(|(_, used)| used);
        (self.wall, self.task) = (wall, self.told);
        before
    }

    /// No task runs from here on. \[3\]
    pub(crate) fn rest(&mut self, wall: Instant) {
        self.advance(wall, GRAIN, ThreadClock::read);
        (self.wall, self.task, self.thread) = (wall, self.told, None);
    }

    /// The last `length` until `wall` were the host's own work, around a poll or between two: the
    /// clock stands still for them.
    ///
    /// The CPU time of the thread contains the work as well. Of a longer time most was a wait for
    /// the processor, or for a lock.
    pub(crate) fn pass_over(&mut self, length: Duration, wall: Instant) {
        if let Some((_, used)) = &mut self.thread {
            self.wall = (self.wall + length).min(wall);
            if let Some(used) = used {
                *used += length.min(OWN_WORK);
            }
        }
    }

    /// Advances the task clock by CPU time that was used elsewhere.
    pub(crate) fn skip(&mut self, time: Duration) {
        (self.task, self.told) = (self.task + time, self.told + time);
    }

    /// Takes what has been measured since the last call.
    pub(crate) fn take(&mut self) -> Measured {
        std::mem::take(&mut self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn at(time: u64) -> Instant {
        Instant::ZERO + us(time)
    }

    fn running() -> Meter {
        let mut meter = Meter::new();
        assert_eq!(meter.at(at(1_000)), at(1_000), "idle: wall time");
        meter.thread = Some((ThreadClock(1), Some(us(500))));
        meter
    }

    fn told(meter: &mut Meter, wall: u64, used: u64) -> Instant {
        meter.advance(at(wall), GRAIN, |_| Some(us(used)));
        meter.told
    }

    #[test]
    fn others_time_is_not_charged() {
        let mut meter = running();
        assert_eq!(told(&mut meter, 5_000, 1_500), at(2_000));
        assert_eq!(meter.take(), Measured { ran: us(1_000), lost: us(3_000) });
        assert_eq!(told(&mut meter, 6_000, 2_500), at(3_000));
        assert_eq!(meter.take(), Measured { ran: us(1_000), lost: us(0) });
    }

    #[test]
    fn a_short_time_is_not_read_and_caught_up() {
        let mut meter = running();
        assert_eq!(told(&mut meter, 1_040, 0), at(1_040));
        // It did not run for 30 us of these: the clock stands still.
        assert_eq!(told(&mut meter, 1_050, 520), at(1_040));
        assert_eq!(told(&mut meter, 1_100, 570), at(1_070));
        assert_eq!(meter.take().ran, us(70));
    }

    #[test]
    fn the_hosts_own_work_is_not_charged() {
        let mut meter = running();
        assert_eq!(told(&mut meter, 1_030, 500), at(1_030));
        // A switch of 2 us, and 80 us of the next task; the clock of the thread counts both.
        meter.pass_over(us(2), at(1_032));
        assert_eq!(told(&mut meter, 1_032, 500), at(1_030));
        assert_eq!(told(&mut meter, 1_112, 612), at(1_110));
        assert_eq!(meter.take(), Measured { ran: us(110), lost: us(0) });
        // A switch in which the thread was preempted for 3 ms.
        meter.pass_over(us(3_000), at(4_112));
        assert_eq!(told(&mut meter, 4_212, 713), at(1_206));
        assert_eq!(meter.take(), Measured { ran: us(96), lost: us(4) });
    }

    #[test]
    fn debts_are_charged_and_counted_once() {
        let mut meter = running();
        meter.skip(us(700));
        assert_eq!(told(&mut meter, 1_100, 600), at(1_800));
        assert_eq!(meter.take().ran, us(100));
    }

    #[test]
    fn a_thread_that_has_ended_is_charged_by_the_wall() {
        let mut meter = running();
        meter.advance(at(1_100), GRAIN, |_| None);
        meter.advance(at(1_200), GRAIN, |_| None);
        assert_eq!((meter.told, meter.take().ran), (at(1_200), us(200)));
    }
}
