//! [`Clock`]: the two clocks of a CPU at one instant. A call receives the time as an argument; the
//! core reads no clock.

use zerolag_model::Instant;

/// The clocks of one run queue at one instant. They are monotone per run queue only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock {
    /// Wall time, used for deadlines and periods.
    pub wall: Instant,
    /// Task time, which is charged to tasks. It stands still during interrupts, and while the host
    /// itself is preempted.
    pub task: Instant,
}

impl Clock {
    /// Returns two equal clocks, for a host that does not take time from its tasks.
    #[must_use]
    pub const fn at(now: Instant) -> Self {
        Self { wall: now, task: now }
    }
}

/// The clocks of two run queues at one instant: task time passes differently on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairClock {
    /// The clocks of the run queue that the work belongs to.
    pub own: Clock,
    /// The clocks of the other run queue.
    pub other: Clock,
}
