//! [`LoadTracking`]: the measure of load.

use super::Value;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// The measure of the load of a task and of a CPU, for placing and balancing.
    LoadTracking {
        /// The weights of the queued tasks at the moment (before 3.8).
        Weights = "weights",
        /// Decaying averages of load, running and waiting (PELT).
        Pelt = "pelt",
    }
}
