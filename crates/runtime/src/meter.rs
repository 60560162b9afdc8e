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
//!
//! # The host's own work
//!
//! The thread of a CPU switches, wakes, and goes to sleep and wakes itself. All of it is CPU time
//! of the process, so it is charged: a limit that did not contain it let a tenant that only yields
//! use eight times its quota. As in the kernel, a switch is charged to the task that is switched
//! to: the clock runs on from the task that leaves to the next. The work of a CPU that idles is
//! charged to the task that ends the idleness. So every thread knows the CPU time up to which it
//! was charged (`PAID`), also beside the CPUs, and hands the rest to the group that its next work
//! is for.

use std::cell::Cell;
use zerolag_model::{Duration, Instant};

/// The wall time after which a thread's clock is read again.
const GRAIN: Duration = Duration::from_micros(50);

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

thread_local! {
    /// The CPU time of this thread up to which a group was charged.
    static PAID: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// The CPU time of this thread so far is charged to no group, or was charged already.
pub(crate) fn pay_thread() {
    PAID.set(ThreadClock::own().read());
}

/// Returns the CPU time that this thread has used and no group was charged for, which the caller
/// charges.
pub(crate) fn take_unpaid() -> Duration {
    take_unpaid_until(ThreadClock::own().read())
}

fn take_unpaid_until(used: Option<Duration>) -> Duration {
    let Some(used) = used else { return Duration::ZERO };
    let paid = PAID.get().unwrap_or(Duration::ZERO);
    PAID.set(Some(used.max(paid)));
    used.saturating_sub(paid)
}

/// Returns by how much this thread was charged too much: its clock has to catch up.
fn paid_ahead(used: Option<Duration>) -> Duration {
    PAID.get().zip(used).map_or(Duration::ZERO, |(paid, used)| paid.saturating_sub(used))
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
    /// CPU time of the thread between two tasks, which the next task is charged for.
    host_work: Duration,
}

impl Meter {
    pub(crate) const fn new() -> Self {
        let measured = Measured { ran: Duration::ZERO, lost: Duration::ZERO };
        let (wall, task, told) = (Instant::ZERO, Instant::ZERO, Instant::ZERO);
        Self { wall, task, told, thread: None, measured, host_work: Duration::ZERO }
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
        self.run_by(own, wall, own.read())
    }

    fn run_by(&mut self, clock: ThreadClock, wall: Instant, used: Option<Duration>) -> Option<Duration> {
        let before = self.thread.replace((clock, used)).and_then(|(_, used)| used);
        self.host_work += take_unpaid_until(used);
        (self.wall, self.task) = (wall, self.told);
        self.excuse(paid_ahead(used));
        before
    }

    /// No task runs from here on; called by the thread of the CPU. \[3\]
    pub(crate) fn rest(&mut self, wall: Instant) {
        self.rest_at(wall, ThreadClock::read);
    }

    fn rest_at(&mut self, wall: Instant, read: impl FnOnce(ThreadClock) -> Option<Duration>) {
        if self.thread.is_none() {
            return;
        }
        self.advance(wall, Duration::ZERO, read);
        // What was told too much is paid for the time to come.
        let ahead = self.told.since(self.task);
        PAID.set(self.thread.take().and_then(|(_, used)| used).map(|used| used + ahead));
        (self.wall, self.task) = (wall, self.told);
    }

    /// Returns the CPU time of the thread since the last task has left: between two tasks, and
    /// while the CPU idled.
    pub(crate) fn take_host_work(&mut self) -> Duration {
        std::mem::take(&mut self.host_work) + self.take().ran
    }

    /// Charges the current task for the host's work.
    pub(crate) fn charge(&mut self, work: Duration) {
        self.skip(work);
        self.count(work);
    }

    /// Counts CPU time without charging it.
    pub(crate) fn count(&mut self, work: Duration) {
        self.measured.ran += work;
    }

    /// The thread has used CPU time for others meanwhile: the clock stands still for it.
    pub(crate) fn excuse(&mut self, work: Duration) {
        self.task = Instant::from_nanos(self.task.as_nanos().saturating_sub(work.as_nanos()));
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
    fn the_hosts_own_work_is_charged_to_the_next_task() {
        let mut meter = running();
        assert_eq!(told(&mut meter, 1_100, 600), at(1_100));
        assert_eq!(meter.take().ran, us(100), "the task leaves");
        // 3 us to find no other task, 9 us to fall asleep and to wake up.
        meter.rest_at(at(1_103), |_| Some(us(603)));
        assert_eq!(meter.at(at(1_900)), at(1_900), "idle: wall time");
        let _ = meter.run_by(ThreadClock(1), at(1_900), Some(us(612)));
        let work = meter.take_host_work();
        assert_eq!(work, us(12));
        meter.charge(work);
        assert_eq!(told(&mut meter, 2_000, 712), at(2_012));
        assert_eq!(meter.take().ran, us(112), "all that the thread used since the first task left");
    }

    #[test]
    fn time_that_was_told_too_much_is_paid_while_the_cpu_idles() {
        let mut meter = running();
        assert_eq!(told(&mut meter, 1_040, 500), at(1_040));
        // It ran for 10 us of these.
        meter.rest_at(at(1_040), |_| Some(us(510)));
        assert_eq!(meter.take().ran, us(40));
        assert_eq!(meter.at(at(3_000)), at(3_000), "idle: wall time");
        let _ = meter.run_by(ThreadClock(1), at(3_000), Some(us(545)));
        assert_eq!(meter.take_host_work(), us(5), "35 us, of which 30 were charged before");
        meter.rest_at(at(3_000), |_| Some(us(545)));
        let _ = meter.run_by(ThreadClock(1), at(3_010), Some(us(549)));
        assert_eq!(meter.take_host_work(), us(4));
        assert_eq!(told(&mut meter, 3_040, 549), at(3_030));
        meter.rest_at(at(3_040), |_| Some(us(559)));
        assert_eq!(meter.at(at(4_000)), at(3_990), "idle: wall time");
        let _ = (meter.take(), meter.run_by(ThreadClock(1), at(4_000), Some(us(564))));
        assert_eq!(meter.take_host_work(), us(0), "5 us, of 20 that were charged before");
        assert_eq!(told(&mut meter, 4_100, 664), at(4_075));
    }

    #[test]
    fn work_for_others_is_excused() {
        let mut meter = running();
        assert_eq!(told(&mut meter, 1_100, 600), at(1_100));
        meter.excuse(us(60));
        assert_eq!(told(&mut meter, 1_150, 650), at(1_100));
        assert_eq!(told(&mut meter, 1_200, 700), at(1_140));
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
