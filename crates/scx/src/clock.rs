//! Clocks of the system: the kernel's events have the time of CLOCK_MONOTONIC.

use nix::time::{ClockId, clock_gettime};

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("invariant: Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Returns the time, in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// Returns the CPU time of the calling thread, in nanoseconds.
pub(crate) fn of_this_thread() -> u64 {
    nanos(ClockId::CLOCK_THREAD_CPUTIME_ID)
}
