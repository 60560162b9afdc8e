//! The behaviour of idle CPUs: [`IdleGovernor`].

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// How an idle CPU chooses among its idle states.
    IdleGovernor {
        /// As if it knew how long it will be idle: the deepest state that is worth entering.
        Exact = "exact",
        /// As `menu` of Linux 3.0, which guesses from timers and past intervals.
        Menu = "menu",
    }
}
