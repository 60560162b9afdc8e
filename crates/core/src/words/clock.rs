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

/// The clocks of the two run queues of a pair at one moment: one wall time, and the task time of
/// each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PairClock {
    /// Wall time, the same for both.
    pub wall: Instant,
    /// Task time of the run queue that the work belongs to.
    pub own: Instant,
    /// Task time of the other.
    pub other: Instant,
}

impl PairClock {
    /// Returns clocks that agree on both CPUs if those of `now` agree.
    #[must_use]
    pub const fn at(now: Clock) -> Self {
        Self { wall: now.wall, own: now.task, other: now.task }
    }

    pub(crate) const fn own(self) -> Clock {
        Clock { wall: self.wall, task: self.own }
    }

    pub(crate) const fn other(self) -> Clock {
        Clock { wall: self.wall, task: self.other }
    }
}
