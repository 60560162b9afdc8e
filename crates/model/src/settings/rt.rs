//! Balancing of real-time tasks: [`RtBalance`], and the marks of overloaded CPUs:
//! [`OverloadScope`], [`RtOverload`]. Their groups: [`RtGroupSched`].

use super::SettingValue;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

switch! {
    /// How waiting real-time tasks find a CPU.
    RtBalance {
        /// Before 2007: only the periodic and new-idle balancer of the fair class moves them.
        Passive = "passive",
        /// The push and pull of 2007, with the periodic balancer still moving RT tasks; the 2007
        /// text says why that was removed.
        ActiveAndPassive = "active_and_passive",
        /// 2007: push, and pull under the lock of each overloaded run queue.
        PullLocked = "pull_locked",
        /// 2015: a CPU that lowers its priority sends IPIs to overloaded CPUs, one after another,
        /// one chain per CPU.
        IpiPerCpu = "ipi_per_cpu",
        /// 2017: one IPI circulates per root domain.
        IpiRootDomain = "ipi_root_domain",
        /// Ours, in no kernel: a CPU that lowers its priority looks at what overloaded CPUs publish
        /// of their waiting tasks, and pulls only where one can run here; one CPU at a time pulls
        /// from an overloaded CPU.
        PullClaimed = "pull_claimed",
    }
}

impl RtBalance {
    /// Returns whether RT tasks are pushed and pulled actively.
    #[must_use]
    pub const fn is_active(self) -> bool {
        match self {
            Self::Passive => false,
            Self::ActiveAndPassive | Self::PullLocked | Self::IpiPerCpu | Self::IpiRootDomain | Self::PullClaimed => {
                true
            }
        }
    }

    /// Returns whether one mask of overloaded CPUs per root domain is kept, whatever
    /// `overload_scope` says.
    #[must_use]
    pub const fn is_per_root_domain(self) -> bool {
        match self {
            Self::Passive | Self::ActiveAndPassive | Self::PullLocked => false,
            Self::IpiPerCpu | Self::IpiRootDomain | Self::PullClaimed => true,
        }
    }

    /// Returns whether the balancer of the fair class also moves RT tasks.
    #[must_use]
    pub const fn is_passive(self) -> bool {
        match self {
            Self::Passive | Self::ActiveAndPassive => true,
            Self::PullLocked | Self::IpiPerCpu | Self::IpiRootDomain | Self::PullClaimed => false,
        }
    }
}

switch! {
    /// Where the overload mask is kept.
    OverloadScope {
        /// One mask for the machine.
        Global = "global",
        /// One mask per cpuset (2007). Overlapping cpusets make masks inconsistent; they repair
        /// themselves.
        Cpuset = "cpuset",
        /// One mask per root domain (exclusive cpuset).
        RootDomain = "root_domain",
    }
}

switch! {
    /// The condition under which a CPU is RT-overloaded, so that others pull from it
    /// (`rt_overload`), or pushes deadline tasks (`dl_overload`).
    RtOverload {
        /// More than one task of the class is queued, and one of them may move; that can be the
        /// running one.
        Queued = "queued",
        /// A waiting task of the class may move (6.7: `pushable_tasks` drives `rto_mask`,
        /// `pushable_dl_tasks` drives `dl_rq->overloaded`).
        Pushable = "pushable",
    }
}

/// What limits the real-time tasks of groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RtGroupSched {
    /// Nothing: they compete with all others.
    Off,
    /// A runtime per period and CPU, counted (`CONFIG_RT_GROUP_SCHED`, cgroup v1).
    V1,
    /// A deadline server per group and CPU (HCBS, patches of 2025 and 2026; `cpu.rt.max`).
    Hcbs,
}

impl RtGroupSched {
    /// All values, in the order in which help texts list them.
    pub const ALL: &'static [Self] = &[Self::Off, Self::V1, Self::Hcbs];

    /// Returns the value as written in settings files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::V1 => "on",
            Self::Hcbs => "hcbs",
        }
    }
}

impl fmt::Display for RtGroupSched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl SettingValue for RtGroupSched {
    const VALUES: &'static str = "off | on | hcbs";
    fn show(&self) -> String {
        self.name().to_string()
    }
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "off" | "false" | "0" => Ok(Self::Off),
            "on" | "true" | "1" | "v1" => Ok(Self::V1),
            "hcbs" => Ok(Self::Hcbs),
            _ => Err(format!("unknown value `{text}`; known are off, on (also: v1), hcbs")),
        }
    }
}
