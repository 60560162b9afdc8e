//! How limits of groups are kept: [`BandwidthControl`], and what stops without quota: [`Throttle`].

use super::Value;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// What stops on a CPU on which a limited group has no quota left.
    Throttle {
        /// The group with all that is in it, wherever its tasks are (3.2 to 6.17).
        Immediate = "immediate",
        /// The group; tasks of it that have woken run until they leave the kernel (2012).
        BoostOnWakeup = "boost_on_wakeup",
        /// Likewise, and those that are preempted in kernel mode.
        BoostInKernel = "boost_in_kernel",
        /// Each task of it when it returns to user mode (6.18).
        AtUserReturn = "at_user_return",
    }
}

impl Throttle {
    /// Returns whether tasks that wake in a limited group are let run until they leave the kernel.
    #[must_use]
    pub const fn boosts_woken(self) -> bool {
        matches!(self, Self::BoostOnWakeup | Self::BoostInKernel)
    }
}

switch! {
    /// Where the quota of a limited group is.
    BandwidthControl {
        /// In one pool, from which CPUs take slices (Turner & Rao 2010; every kernel since 3.2).
        Pool = "pool",
        /// Divided over the CPUs, which borrow from each other under a lock (Rao 2009, "CFS hard limits").
        HardLimits = "hard_limits",
    }
}
