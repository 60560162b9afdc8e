//! [`Unpublished`]: dirty flags for the state that a CPU publishes.
//!
//! Comparing all published state at the end of every call would cost more than most calls do.
//! Recording the fields that can have changed costs one `or`.

/// The set of published fields that may be out of date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unpublished(u8);

impl Unpublished {
    /// The priorities: of the current task, and of the waiting real-time tasks.
    pub(crate) const PRIOS: Self = Self(1);
    /// The number of runnable tasks, and whether the CPU is idle.
    pub(crate) const COUNTS: Self = Self(2);
    /// The averages of the fair tasks.
    pub(crate) const AVERAGES: Self = Self(4);
    /// The deadlines of the deadline tasks and servers.
    pub(crate) const DEADLINES: Self = Self(8);
    /// The fields that change when a deadline task is enqueued or dequeued, or becomes able or
    /// unable to run. The priorities change if it is the first one, or was the last.
    pub(crate) const DL_QUEUED: Self = Self::COUNTS.and(Self::DEADLINES);
    pub(crate) const ALL: Self = Self::PRIOS.and(Self::AVERAGES).and(Self::DL_QUEUED);
    pub(crate) const NONE: Self = Self(0);

    /// Returns the union of both sets.
    pub(crate) const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Records that these fields may have changed.
    #[inline(always)]
    pub(crate) const fn add(&mut self, changed: Self) {
        *self = self.and(changed);
    }

    pub(crate) const fn has(self, thing: Self) -> bool {
        self.0 & thing.0 != 0
    }
}
