//! [`UtilClamp`]: bounds on the utilisation that the scheduler assumes of a task (`uclamp`).

/// The least and the most utilisation that the scheduler is to assume of a task, on the scale on
/// which the strongest CPU has 1024. They are hints: they change where a task is placed, not how
/// long it runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UtilClamp {
    min: u16,
    max: u16,
}

impl UtilClamp {
    /// The capacity of the strongest CPU.
    pub const FULL: u64 = 1024;
    /// No bounds.
    pub const NONE: Self = Self { min: 0, max: 1024 };

    /// Returns bounds, or `None` if one is above 1024.
    #[must_use]
    pub const fn new(min: u64, max: u64) -> Option<Self> {
        if min <= Self::FULL && max <= Self::FULL { Some(Self { min: min as u16, max: max as u16 }) } else { None }
    }

    /// Returns the lower bound.
    #[must_use]
    pub const fn min(self) -> u64 {
        self.min as u64
    }

    /// Returns the upper bound. It can be below the lower one, and then it holds.
    #[must_use]
    pub const fn max(self) -> u64 {
        self.max as u64
    }
}

impl Default for UtilClamp {
    fn default() -> Self {
        Self::NONE
    }
}
