//! [`SliceProtection`]: how long a picked task keeps its CPU; [`LagLimit`]: what it keeps when it
//! leaves.

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// How long `RUN_TO_PARITY` protects a picked fair task while it is eligible.
    SliceProtection {
        /// Until its own request is served (6.6 to 6.16).
        Request = "request",
        /// For the shortest slice of the tasks on its queue (6.17).
        MinSlice = "min_slice",
        /// Until its own request is served; if a task with a shorter slice waits, until its lag is
        /// zero (7.3).
        ZeroLag = "zero_lag",
    }
}

switch! {
    /// The most lag, of either sign, that a fair task or group keeps when it leaves its queue.
    LagLimit {
        /// Twice its own slice, and at least a tick (6.6 to 6.19).
        OwnSlice = "own_slice",
        /// The longest slice on the queue and a tick (7.0).
        LongestSlice = "longest_slice",
    }
}
