//! How limits of groups are kept: [`BandwidthControl`], and which tasks stop without quota:
//! [`Throttle`].

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// Which tasks stop on a CPU on which a limited group has no quota left.
    Throttle {
        /// The whole group at once, in user mode or in the kernel (3.2 to 6.17).
        Immediate = "immediate",
        /// The group; its tasks that have woken run until they leave the kernel (2012).
        BoostOnWakeup = "boost_on_wakeup",
        /// As `boost_on_wakeup`; tasks that are preempted in kernel mode also run until they leave
        /// it.
        BoostInKernel = "boost_in_kernel",
        /// The group, except while a task of it that has woken is in the kernel: all its tasks on
        /// that CPU run until then (2012, in the words of its text).
        BoostGroups = "boost_groups",
        /// Each task of it when it returns to user mode (6.18).
        AtUserReturn = "at_user_return",
    }
}

impl Throttle {
    /// Returns whether tasks that wake in a limited group may run until they leave the kernel.
    #[must_use]
    pub const fn boosts_woken(self) -> bool {
        matches!(self, Self::BoostOnWakeup | Self::BoostInKernel | Self::BoostGroups)
    }
}

switch! {
    /// Where the quota of a limited group is kept.
    BandwidthControl {
        /// In one pool, from which CPUs take slices (Turner & Rao 2010; every kernel since 3.2).
        Pool = "pool",
        /// Divided over the CPUs, which borrow from each other under a lock (Rao 2009, "CFS hard
        /// limits").
        HardLimits = "hard_limits",
    }
}

switch! {
    /// How often a CPU may ask the others for quota, with `bandwidth = hard_limits`.
    Borrowing {
        /// Whenever it needs more (`do_balance_runtime`).
        Always = "always",
        /// Once in a period.
        OncePerPeriod = "once_per_period",
        /// Not at all: a CPU keeps its part.
        Never = "never",
    }
}

switch! {
    /// When a group's queue leaves the hierarchy of its CPU after its quota has run out.
    ThrottleAt {
        /// When its current task is switched from (3.2 to 6.17).
        Switch = "switch",
        /// When the run time that uses it up is charged (Turner & Rao 2010: "dequeued
        /// immediately").
        Charge = "charge",
    }
}
