//! [`SliceProtection`]: how long a picked task keeps its CPU.

use super::Value;
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
    }
}
