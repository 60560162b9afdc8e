//! [`TimeSource`]: the clock of a runtime.

#[cfg(test)]
use std::sync::atomic::Ordering;
use zerolag_model::Instant;

/// Returns the current time. A runtime schedules by it; results of simulations never depend on it.
#[expect(clippy::disallowed_methods, reason = "the runtime schedules by the real clock")]
pub(crate) fn std_now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Returns the clock behind `std::time::Instant`, in nanoseconds. A difference of two `Instant`s
/// costs twice as much, and the clock is read twice in a switch between tasks.
fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The clock of a runtime. Tests of single calls set it, so that their result does not depend on
/// the machine.
#[derive(Debug)]
pub(crate) enum TimeSource {
    Real {
        began: std::time::Instant,
        /// The same time by the clock of the system, in nanoseconds.
        nanos: u64,
    },
    #[cfg(test)]
    Set(std::sync::atomic::AtomicU64),
}

impl TimeSource {
    pub(crate) fn real() -> Self {
        Self::Real { began: std_now(), nanos: monotonic() }
    }

    /// Returns the time since the runtime was built.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Real { nanos, .. } => Instant::from_nanos(monotonic() - nanos),
            #[cfg(test)]
            Self::Set(now) => Instant::from_nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// Returns the instant of the system at which the clock shows `at`.
    pub(crate) fn as_std(&self, at: Instant) -> std::time::Instant {
        match self {
            Self::Real { began, .. } => *began + std::time::Duration::from_nanos(at.as_nanos()),
            #[cfg(test)]
            Self::Set(_) => unreachable!("no thread waits for a clock that is set"),
        }
    }
}
