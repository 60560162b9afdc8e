//! [`Clock`]: the two clocks of a CPU at one instant. A call gets its time as an argument; the core
//! reads no clock.

use zerolag_model::Instant;

/// The clocks of one run queue at one moment. Monotone per run queue only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Wall time: deadlines and periods.
    pub wall: Instant,
    /// Task time: what tasks are charged. It stands still while interrupts, or whoever preempted
    /// the host, run.
    pub task: Instant,
}

impl Clock {
    /// Returns clocks that agree: a host whose tasks lose no time.
    #[must_use]
    pub const fn at(now: Instant) -> Self {
        Self { wall: now, task: now }
    }
}

/// The clocks of the two run queues of a pair at one moment: task time passes differently on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairClock {
    /// Of the run queue that the work belongs to.
    pub own: Clock,
    /// Of the other.
    pub other: Clock,
}
