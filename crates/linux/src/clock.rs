//! Time of the host: `CLOCK_MONOTONIC` as an [`Instant`], and the CPU time of a thread.

use rustix::time::{ClockId, Timespec, clock_gettime};
use zerolag_model::{Duration, Instant};

/// Returns the time of the clock that `perf record -k CLOCK_MONOTONIC` uses.
pub(crate) fn now() -> Instant {
    read(ClockId::Monotonic)
}

/// Returns the time of a clock of the system.
pub(crate) fn read(clock: ClockId) -> Instant {
    Instant::from_nanos(nanos(clock_gettime(clock)))
}

/// Returns the CPU time of the calling thread.
pub(crate) fn thread_time() -> Duration {
    Duration::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
}

fn nanos(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns an instant in the kernel's format.
pub(crate) fn timespec(at: Instant) -> Timespec {
    let ns = at.as_nanos();
    let seconds = i64::try_from(ns / 1_000_000_000).expect("invariant: nanoseconds of 64 bits");
    let rest = i64::try_from(ns % 1_000_000_000).expect("invariant: below a billion");
    Timespec { tv_sec: seconds, tv_nsec: rest }
}

/// Sleeps until an instant, also across signals.
pub(crate) fn sleep_until(at: Instant) {
    while let Err(rustix::io::Errno::INTR) = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &timespec(at))
    {
    }
}
