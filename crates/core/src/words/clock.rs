//! [`Clock`]: the two clocks of a CPU at one instant. A call receives the time as an argument; the
//! core reads no clock.

use zerolag_model::{Duration, Instant};

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

/// The ticks of a CPU that decide nothing, if nothing but ticks happens there, no CPU becomes idle,
/// and no other CPU is told anything about it: those before `wall` at which the task clock is at
/// most `task`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreseen {
    /// A tick at this time can balance.
    pub wall: Instant,
    /// A tick whose task clock is beyond this can end a slice or a server's runtime.
    pub task: Instant,
}

/// Ticks of a CPU, one after the other, that were [foreseen](Foreseen).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TickRow {
    /// The task clock of the first.
    pub first: Instant,
    /// How far the task clock goes on from one to the next.
    pub task_period: Duration,
    /// How many they are.
    pub count: u32,
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
