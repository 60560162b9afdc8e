//! [`FairBalance`]: how groups of CPUs are compared.

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// How balancing of fair tasks compares groups of CPUs, and when it leaves them alone.
    FairBalance {
        /// By kinds: overloaded, busy, with spare CPUs (since 5.5).
        Kinds = "kinds",
        /// By load; a group whose load per CPU is that of one of its tasks is left alone (2.6.24 to
        /// 2.6.33).
        LoadPerTask = "load_per_task",
        /// By load; only a group with at most one task per CPU, or with one in all if it shares a
        /// cache, is left alone (2.6.34 to 2.6.36).
        LoadAboveCapacity = "load_above_capacity",
    }
}

impl FairBalance {
    /// Returns whether groups are compared by load, as before 5.5.
    #[must_use]
    pub const fn is_by_load(self) -> bool {
        match self {
            Self::Kinds => false,
            Self::LoadPerTask | Self::LoadAboveCapacity => true,
        }
    }
}
