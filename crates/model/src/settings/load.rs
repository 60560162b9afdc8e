//! [`LoadTracking`]: the measure of load; [`CgroupMode`]: the weights of groups.

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// The measure of the load of a task and of a CPU, for placing and balancing.
    LoadTracking {
        /// The weights of the queued tasks at the moment (before 3.11; groups before 3.8).
        Weights = "weights",
        /// Decaying averages of load, running and waiting (PELT).
        Pelt = "pelt",
    }
}

switch! {
    /// Where the fair tasks of groups compete.
    FairHierarchy {
        /// A group competes as one entity on the queue of the group above (until 7.2).
        Nested = "nested",
        /// All tasks compete on one queue, each with its part of the weights of its groups (7.3).
        ///
        /// With `fair = eevdf`, `throttle = at_user_return` and `enforce.fair` other than `exact`;
        /// else nested.
        Flat = "flat",
    }
}

switch! {
    /// What a group weighs on a CPU, from `cpu.weight` and from its tasks there and elsewhere.
    CgroupMode {
        /// The group's weight, on every CPU.
        Up = "up",
        /// This CPU's part of the group's weight (until 7.2).
        Smp = "smp",
        /// This CPU's part of the group's weight times its runnable tasks, at most times the CPUs
        /// (7.3).
        Concur = "concur",
        /// This CPU's part of the group's weight times the CPUs, at most nice -20.
        Max = "max",
        /// This CPU's part of the group's weight times its runnable tasks.
        Tasks = "tasks",
    }
}

switch! {
    /// When a CPU's part of a group's weight is computed, with `load_tracking = weights`.
    CgroupShares {
        /// Whenever a load of the group changes on that CPU.
        Continuous = "continuous",
        /// At rounds of balancing, for all CPUs of the domain (2.6.25 to 2.6.37).
        AtBalance = "at_balance",
        /// The same, where a throttled queue counts as empty.
        AtBalanceUnthrottled = "at_balance_unthrottled",
    }
}

impl CgroupShares {
    /// Returns whether rounds of balancing compute the parts.
    #[must_use]
    pub const fn is_at_balance(self) -> bool {
        !matches!(self, Self::Continuous)
    }
}
