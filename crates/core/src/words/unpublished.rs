//! [`Unpublished`]: dirty flags for the state that a CPU publishes.
//!
//! Comparing all published state at the end of every call costs more than most calls; noting what
//! can have changed costs one `or`.

/// Things that a CPU publishes, as a set: those that may be others than it has published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unpublished(u8);

impl Unpublished {
    /// Its priorities: the current task's, that of the real-time tasks that wait.
    pub(crate) const PRIOS: Self = Self(1);
    /// How many tasks want to run here, and whether it is idle.
    pub(crate) const COUNTS: Self = Self(2);
    /// The averages of its fair tasks.
    pub(crate) const AVERAGES: Self = Self(4);
    /// The deadlines of its deadline tasks and servers.
    pub(crate) const DEADLINES: Self = Self(8);
    /// What any task changes that comes, goes, or may run or not.
    pub(crate) const QUEUED: Self = Self::PRIOS.and(Self::COUNTS);
    /// What a deadline task or server changes that comes, goes, or can run or not.
    pub(crate) const DL_QUEUED: Self = Self::QUEUED.and(Self::DEADLINES);
    pub(crate) const ALL: Self = Self::QUEUED.and(Self::AVERAGES).and(Self::DEADLINES);
    pub(crate) const NONE: Self = Self(0);

    /// Returns the things of both.
    pub(crate) const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Notes that something may have changed.
    #[inline(always)]
    pub(crate) const fn add(&mut self, changed: Self) {
        *self = self.and(changed);
    }

    pub(crate) const fn has(self, thing: Self) -> bool {
        self.0 & thing.0 != 0
    }
}
