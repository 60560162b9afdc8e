//! [`KernelVersion`]: presets of the settings for the kernels of twenty years. The value of each
//! setting in them is in its row (`table.rs`).

use super::{LoadTracking, Settings, Value, table};
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// A kernel version whose scheduler is known as a preset.
    #[non_exhaustive]
    KernelVersion {
        /// CFS arrives; RT tasks are moved by the periodic balancer only.
        V2_6_23 = "2.6.23",
        /// Active RT push and pull.
        V2_6_25 = "2.6.25",
        /// CPU bandwidth control.
        V3_2 = "3.2",
        /// RT pull by IPI, a chain per CPU.
        V4_1 = "4.1",
        /// Long-term; the stable kernels have the IPI of 4.15 and the deadline fixes of 4.13.
        V4_4 = "4.4",
        /// Long-term, with the same settings as 4.4.
        V4_9 = "4.9",
        /// Long-term; the search for an idle CPU is in proportion to idle time.
        V4_14 = "4.14",
        /// RT pull by one IPI per root domain.
        V4_15 = "4.15",
        /// The kernel of RHEL 8 (not 4.18 of kernel.org), with the backports of 8.8.
        V4_18 = "4.18",
        /// Long-term; a fair task remembers a recently used CPU.
        V4_19 = "4.19",
        /// No expiry of local quota.
        V5_4 = "5.4",
        /// Long-term; the kernel of Debian 11.
        V5_10 = "5.10",
        /// The kernel of RHEL 9 (not 5.14 of kernel.org), with the backports of 9.3.
        V5_14 = "5.14",
        /// Burst; widely used as the base for upgrades.
        V5_15 = "5.15",
        /// The last long-term kernel with CFS.
        V6_1 = "6.1",
        /// EEVDF.
        V6_6 = "6.6",
        /// A waiting RT task that can move makes a CPU overloaded; the kernel of Ubuntu 24.04.
        V6_8 = "6.8",
        /// The last kernel with RT throttling by default; the kernel of Ubuntu 24.10.
        V6_11 = "6.11",
        /// Fair server, delayed dequeue, custom slices.
        V6_12 = "6.12",
        /// Throttling at the return to user mode.
        V6_18 = "6.18",
        /// A failed new-idle search no longer raises its cost.
        V6_19 = "6.19",
        /// The root domain's IPI skips its sender.
        V7_0 = "7.0",
        /// Slices end by a timer.
        V7_1 = "7.1",
        /// `sched_rt_runtime_us` is the whole period.
        V7_2 = "7.2",
        /// One queue of the fair tasks of all groups; wakeups of tasks with short slices preempt.
        V7_3 = "7.3",
    }
}

impl KernelVersion {
    /// Returns the settings of this kernel in its default configuration (HZ=250).
    ///
    /// Sources: `kernel/sched/fair.c` (granularities), `kernel/sched/features.h`,
    /// `kernel/Kconfig.preempt` of each version. The year of each RT mechanism is that of its
    /// commit (`b6366f048e0c` in 4.1, `4bdced5c9a29` in 4.15, `612f769edd06` in 6.7).
    ///
    /// A preset is a series with its backports, not its first release. 4.18 and 5.14 are the
    /// kernels of RHEL 8.8 and 9.3: kernels of these numbers are seldom others. Approximate are:
    ///
    /// * Before 5.5, except 4.18: the balancing of fair tasks compares groups as since 5.5.
    /// * 6.1, 6.12, 6.18: new-idle balancing in proportion to its successes is off (6.19; in stable
    ///   kernels since early 2026).
    /// * 4.18 and 5.14: backports of later minor releases of RHEL were not read.
    /// * Before 7.0: real-time tasks are pulled as before 2026, although stable kernels have
    ///   changed that since (`94894c9c477e`, `dd29c017aed6`).
    ///
    /// * RT throttling is the default from 2.6.25 to 6.11, and shares its runtime by default until
    ///   5.9 (`2586af1ac187`).
    /// * Kernels since 6.12 have the fair server instead (`5f6bd380c7bd`), until 6.15 with a
    ///   runtime that is scaled by the capacity of the CPU (`fc975cfb3639`). Its stop and wakeup
    ///   are those of the stable kernels of 2026 (6.12.103 and later);
    ///   [`ServerStop`](super::ServerStop) and [`ServerWakeup`](super::ServerWakeup) document
    ///   earlier behaviour.
    /// * Since 6.18 limits throttle task by task (`throttle_cfs_rq_work`).
    /// * The fix of 5.17 and of the stable kernels of January 2022 (`9b58e976b3b3`, 4.14.263) is
    ///   included in 4.14 and later, except in 4.15, which ended before.
    #[must_use]
    pub fn settings(self) -> Settings {
        table::preset(self)
    }

    /// Returns the preset for a kernel's release (`6.17.1-x`): the last that is not later.
    ///
    /// `None` if the text does not begin with two numbers or names a kernel before all presets.
    #[must_use]
    pub fn of_release(release: &str) -> Option<Self> {
        let number = |text: &str| -> Option<(u32, u32)> {
            let mut parts = text.split(|c: char| !c.is_ascii_digit());
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        };
        let release = number(release)?;
        let known = Self::ALL.iter().filter_map(|kernel| Some((number(kernel.name())?, *kernel)));
        known.filter(|(known, _)| *known <= release).max_by_key(|(known, _)| *known).map(|(_, kernel)| kernel)
    }
}

impl Settings {
    /// Returns whether loads are averaged over time (`load_tracking = pelt`).
    #[must_use]
    pub fn tracks_load(&self) -> bool {
        self.load_tracking == LoadTracking::Pelt
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub const fn tick_period(&self) -> Duration {
        Duration::from_nanos(1_000_000_000 / self.hz as u64)
    }
}

#[expect(clippy::derivable_impls, reason = "the macro that makes the switches knows no default variant")]
impl Default for KernelVersion {
    fn default() -> Self {
        Self::V7_3
    }
}

impl Default for Settings {
    fn default() -> Self {
        KernelVersion::default().settings()
    }
}
