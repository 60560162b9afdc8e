//! [`Resched`]: whether a CPU must schedule, and how urgently.

/// Whether and how urgently a CPU must schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use]
pub enum Resched {
    /// Not at all.
    #[default]
    No,
    /// At the next tick or return to user mode (`preempt = lazy`).
    Lazy,
    /// As soon as the preemption model allows.
    Now,
}

impl Resched {
    const fn urgency(self) -> u8 {
        match self {
            Self::No => 0,
            Self::Lazy => 1,
            Self::Now => 2,
        }
    }

    /// Returns the more urgent of two values.
    pub const fn max(self, other: Self) -> Self {
        if self.urgency() >= other.urgency() { self } else { other }
    }
}

/// What asks a CPU to schedule.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Request {
    pub(crate) how: Resched,
    /// Nothing but the parking of the current task asks for it.
    pub(crate) is_only_to_park: bool,
}

impl Request {
    pub(crate) const NONE: Self = Self { how: Resched::No, is_only_to_park: false };
}
