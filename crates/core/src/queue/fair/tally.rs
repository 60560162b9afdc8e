//! [`Tally`]: counts of the tasks in a queue and in all queues below it.

use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;

/// Tasks of a hierarchy, counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tally {
    /// Want to run.
    pub(crate) runnable: u32,
    /// Are blocked and stay only until their lag is paid.
    pub(crate) delayed: u32,
    /// Of those that want to run: of policy SCHED_IDLE, or in an idle group.
    pub(crate) idle_policy: u32,
    /// Want to run and may not: they are off their queue because their group is throttled.
    pub(crate) parked: u32,
}

impl Tally {
    /// One task that wants to run.
    pub(crate) const RUNNABLE: Self = Self { runnable: 1, delayed: 0, idle_policy: 0, parked: 0 };
    /// That one such task is of policy SCHED_IDLE, or in an idle group.
    pub(crate) const IDLE_POLICY: Self = Self { runnable: 0, delayed: 0, idle_policy: 1, parked: 0 };
    /// One task that stays only for its lag.
    pub(crate) const DELAYED: Self = Self { runnable: 0, delayed: 1, idle_policy: 0, parked: 0 };
    /// One task that may not run.
    pub(crate) const PARKED: Self = Self { runnable: 0, delayed: 0, idle_policy: 0, parked: 1 };

    /// Returns the tally of one task that wants to run.
    pub(crate) fn runnable(tasks: &TaskSlab, slot: Slot) -> Self {
        Self { idle_policy: u32::from(tasks[slot].fair.counts_as_idle), ..Self::RUNNABLE }
    }

    /// Returns how many tasks there are.
    pub(crate) const fn tasks(self) -> u32 {
        self.runnable + self.delayed + self.parked
    }

    /// Returns the sum of two.
    pub(crate) const fn plus(self, more: Self) -> Self {
        Self {
            runnable: self.runnable + more.runnable,
            delayed: self.delayed + more.delayed,
            idle_policy: self.idle_policy + more.idle_policy,
            parked: self.parked + more.parked,
        }
    }

    /// Returns what is left without some of them.
    pub(crate) const fn minus(self, less: Self) -> Self {
        Self {
            runnable: self.runnable - less.runnable,
            delayed: self.delayed - less.delayed,
            idle_policy: self.idle_policy - less.idle_policy,
            parked: self.parked - less.parked,
        }
    }
}
