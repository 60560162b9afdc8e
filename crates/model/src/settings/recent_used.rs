//! [`RecentUsedCpu`]: which CPU a waking fair task remembers.

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// The CPU that a fair task remembers, to wake there if it idles: `recent_used_cpu` of Linux
    /// `kernel/sched/fair.c`, `select_idle_sibling`.
    RecentUsedCpu {
        /// None (before 4.16).
        Off = "off",
        /// The CPU where it last woke a task that could have been pulled there; after use, the CPU
        /// where it ran instead (4.16, commit 32e839dda3ba).
        Waker = "waker",
        /// The CPU where it ran before. The affinity check uses the CPU where it ran last instead
        /// (5.15, commit 89aafd67f28c).
        PrevUnchecked = "prev_unchecked",
        /// The CPU where it ran before (6.5, commit ae2ad293d6be).
        Prev = "prev",
    }
}
