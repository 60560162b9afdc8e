//! [`Tally`]: counts of the tasks in a queue and in all queues below it.

use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;

/// The number of tasks of a hierarchy, by state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    /// Runnable and allowed to run.
    pub(crate) runnable: u32,
    /// Blocked, and queued only until the negative lag is repaid.
    pub(crate) delayed: u32,
    /// Runnable tasks that have policy SCHED_IDLE or are in an idle group.
    pub(crate) idle_policy: u32,
    /// Runnable but not allowed to run: dequeued because the group is throttled.
    pub(crate) parked: u32,
}

impl Tally {
    /// One runnable task.
    pub(crate) const RUNNABLE: Self = Self { runnable: 1, delayed: 0, idle_policy: 0, parked: 0 };
    /// The mark of one runnable task that has policy SCHED_IDLE or is in an idle group; added to
    /// [`RUNNABLE`](Self::RUNNABLE).
    pub(crate) const IDLE_POLICY: Self = Self { runnable: 0, delayed: 0, idle_policy: 1, parked: 0 };
    /// One task that stays queued only to repay negative lag.
    pub(crate) const DELAYED: Self = Self { runnable: 0, delayed: 1, idle_policy: 0, parked: 0 };
    /// One parked task.
    pub(crate) const PARKED: Self = Self { runnable: 0, delayed: 0, idle_policy: 0, parked: 1 };

    /// Returns the tally of one runnable task.
    pub(crate) fn runnable(tasks: &TaskSlab, slot: Slot) -> Self {
        Self { idle_policy: u32::from(tasks[slot].fair.counts_as_idle), ..Self::RUNNABLE }
    }

    /// Returns the total number of tasks.
    pub(crate) const fn tasks(self) -> u32 {
        self.runnable + self.delayed + self.parked
    }

    /// Returns the sum of two tallies.
    pub(crate) const fn plus(self, more: Self) -> Self {
        Self {
            runnable: self.runnable + more.runnable,
            delayed: self.delayed + more.delayed,
            idle_policy: self.idle_policy + more.idle_policy,
            parked: self.parked + more.parked,
        }
    }

    /// Returns the difference of two tallies.
    pub(crate) const fn minus(self, less: Self) -> Self {
        Self {
            runnable: self.runnable - less.runnable,
            delayed: self.delayed - less.delayed,
            idle_policy: self.idle_policy - less.idle_policy,
            parked: self.parked - less.parked,
        }
    }
}
