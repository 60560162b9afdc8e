//! [`Settings`]: every switch and tunable of the scheduler as plain data, and the kernel presets
//! that set them all.
//!
//! A scheduler that covers twenty years of kernels has many switches. If each were read, shown and
//! documented in its own place, the places would contradict each other. So a setting is one row of
//! [`Settings::TABLE`]: its key (the kernel's own name where there is one), its meaning and its
//! values. Scenario files, `--set` and the reports all use that table, so a new setting is one
//! field and one row. A preset ([`KernelVersion`]) is a function from a version to `Settings`, and
//! an upgrade is a what-if like any other change.
//!
//! The table contains only settings that the scheduler obeys. A switch is added together with its
//! mechanism.

use crate::cpumask::CpuMask;
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

mod isolation;
mod nearest;
mod table;

pub use nearest::nearest;

macro_rules! switch {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All values, in the order in which help texts list them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the value as written in settings files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the value of a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl Value for $name {
            fn show(&self) -> String {
                self.name().to_string()
            }
            fn read(text: &str) -> Result<Self, String> {
                Self::from_name(text).ok_or_else(|| {
                    let known: alloc::vec::Vec<_> = Self::ALL.iter().map(|value| value.name()).collect();
                    format!("unknown value `{text}`; known are {}", known.join(", "))
                })
            }
        }
    };
}

mod kernel;
mod limits;
mod load;
mod protection;
mod recent_used;
mod rt;
mod servers;
pub use kernel::KernelVersion;
pub use limits::{BandwidthControl, Throttle};
pub use load::LoadTracking;
pub use protection::SliceProtection;
pub use recent_used::RecentUsedCpu;
pub use rt::{OverloadScope, RtBalance, RtOverload};
pub use servers::{CpuServer, CpuServers, FairServer, ServerStart, ServerStop, ServerWakeup};

/// A type of settings.
trait Value: Sized {
    fn show(&self) -> String;
    fn read(text: &str) -> Result<Self, String>;
}

switch! {
    /// The algorithm of the fair class.
    FairAlgorithm {
        /// Virtual runtime, sleeper credit, wakeup granularity: Linux 2.6.23 to 6.5.
        Cfs = "cfs",
        /// Earliest eligible virtual deadline first: Linux 6.6 and later.
        Eevdf = "eevdf",
    }
}

switch! {
    /// When an exhausted budget or slice takes effect.
    Grain {
        /// At the next tick.
        Tick = "tick",
        /// At once, by a separate timer.
        Exact = "exact",
    }
}

switch! {
    /// Where kernel mode can be preempted. User mode always can.
    Preempt {
        /// Only where the kernel blocks or returns to user mode.
        None = "none",
        /// Also at explicit points (`might_resched`).
        Voluntary = "voluntary",
        /// Everywhere outside sections that disable it.
        Full = "full",
        /// As `full` for real-time and deadline tasks; fair tasks wait for the next tick or the
        /// return to user mode.
        Lazy = "lazy",
        /// Everywhere, including sections under a lock.
        Rt = "rt",
    }
}

switch! {
    /// How the fair class's granularities grow with the number of CPUs.
    TunableScaling {
        /// Not at all.
        None = "none",
        /// `1 + log2(CPUs)`, CPUs capped at 8: the kernel's default.
        Logarithmic = "logarithmic",
        /// Linear in the CPUs, capped at 8.
        Linear = "linear",
    }
}

impl Value for bool {
    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_string()
    }
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "on" | "true" | "1" => Ok(true),
            "off" | "false" | "0" => Ok(false),
            _ => Err(format!("`{text}` is neither on nor off")),
        }
    }
}

/// Reads a duration whose key already names the unit: a bare integer in that unit, or a number with
/// its own unit.
fn read_duration(text: &str, unit: Duration) -> Result<Duration, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        let count: u64 = text.parse().map_err(|_| format!("`{text}` does not fit 64 bits"))?;
        return count
            .checked_mul(unit.as_nanos())
            .map(Duration::from_nanos)
            .ok_or_else(|| format!("`{text}` is longer than 584 years"));
    }
    text.parse().map_err(|error: crate::time::ParseDurationError| error.to_string())
}

fn read_integer(text: &str, low: u64, high: u64) -> Result<u64, String> {
    let value: u64 = text.parse().map_err(|_| format!("`{text}` is not a whole number"))?;
    if (low..=high).contains(&value) { Ok(value) } else { Err(format!("{value} is outside {low}..={high}")) }
}

/// Every switch and tunable that the scheduler obeys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Key `fair`.
    pub fair: FairAlgorithm,
    /// Key `rt_balance`.
    pub rt_balance: RtBalance,
    /// Key `overload_scope`. The IPI modes of `rt_balance` always keep one mask per root domain, as
    /// do the kernels that have them: the IPI belongs to the root domain.
    pub overload_scope: OverloadScope,
    /// Key `rt_overload`.
    pub rt_overload: RtOverload,
    /// Key `rt_ipi_skip_self`: a CPU does not forward the root domain's IPI to itself (commit
    /// 94894c9c477e, 2026).
    pub rt_ipi_skip_self: bool,
    /// Key `rt_push_skip_stuck`: try the next pushable task when the first has nowhere to go.
    pub rt_push_skip_stuck: bool,
    /// Key `rt_select_on_wake`: a waking RT task selects a CPU before it is enqueued (2.6.25);
    /// otherwise it is enqueued where it ran and pushed from there, as in the 2007 text.
    pub rt_select_on_wake: bool,
    /// Key `preempt`.
    pub preempt: Preempt,
    /// Key `enforce.fair`.
    pub enforce_fair: Grain,
    /// Key `enforce.rt`.
    pub enforce_rt: Grain,
    /// Key `enforce.dl`.
    pub enforce_dl: Grain,
    /// Key `hz`: ticks per second.
    pub hz: u32,
    /// Key `nohz`: idle CPUs stop their tick.
    pub nohz: bool,
    /// Key `nohz_full`: CPUs that stop their tick while one task runs.
    pub nohz_full: CpuMask,
    /// Key `isolcpus`: CPUs without load balancing, for tasks whose affinity names them.
    pub isolcpus: CpuMask,
    /// Key `isolcpus_conflict`: a cpuset with isolated CPUs cannot be a partition (6.7, commit
    /// 4a74e418881f). Before, it could, and its isolated CPUs stayed without load balancing.
    pub isolcpus_conflict: bool,
    /// Key `sched_rr_timeslice_ms`.
    pub rr_timeslice: Duration,
    /// Key `tunable_scaling`.
    pub tunable_scaling: TunableScaling,
    /// Key `base_slice_ns` (EEVDF), before scaling by CPUs.
    pub base_slice: Duration,
    /// Key `sched_latency_ns` (CFS), before scaling.
    pub latency: Duration,
    /// Key `sched_min_granularity_ns` (CFS), before scaling.
    pub min_granularity: Duration,
    /// Key `sched_wakeup_granularity_ns` (CFS), before scaling.
    pub wakeup_granularity: Duration,
    /// Key `features.RUN_TO_PARITY` (EEVDF).
    pub run_to_parity: bool,
    /// Key `slice_protection`.
    pub slice_protection: SliceProtection,
    /// Key `group_min_slice` (EEVDF, 6.12): a group uses the shortest slice of its tasks.
    pub group_min_slice: bool,
    /// Key `features.PLACE_LAG` (EEVDF).
    pub place_lag: bool,
    /// Key `features.PLACE_REL_DEADLINE` (EEVDF, 6.12).
    pub place_rel_deadline: bool,
    /// Key `features.PREEMPT_SHORT` (EEVDF, 6.12).
    pub preempt_short: bool,
    /// Key `features.DELAY_DEQUEUE` (EEVDF, 6.12).
    pub delay_dequeue: bool,
    /// Key `features.SIS_UTIL`: the busier a cache is, the fewer of its CPUs are searched for an
    /// idle one (6.0, commit 70fb5ccf2ebb).
    pub sis_util: bool,
    /// Key `features.SIS_PROP`: limits the search for an idle CPU in proportion to the waking CPU's
    /// average idle time (4.13 to 5.19, commits 1ad3aaf3fcd2, 70fb5ccf2ebb).
    pub sis_prop: bool,
    /// Key `wake_wide`: a wakee is not pulled towards a waker with many wakees (3.12).
    pub wake_wide: bool,
    /// Key `recent_used_cpu`.
    pub recent_used_cpu: RecentUsedCpu,
    /// Key `smt_balance`: idle CPUs pull from cores whose threads share it, idle cores first, and
    /// busy CPUs do not balance groups that all have spare capacity (6.6, commits fee1759e4f04,
    /// b1bfeab9b002, 7ff1693236f5).
    pub smt_balance: bool,
    /// Key `newidle_min_idle`: a CPU whose average idle time is below `migration_cost_ns` does no
    /// new-idle balancing (2.6.32 to 5.15; removed by commit c5b0a7eefc70).
    pub newidle_min_idle: bool,
    /// Key `newidle_cost_bump`: a failed new-idle search raises the recorded search cost to 1.5
    /// times its maximum (6.17 and 6.18; commit 155213a2aed4, later reverted by d206fbad9328).
    pub newidle_cost_bump: bool,
    /// Key `features.WAKEUP_PREEMPTION`.
    pub wakeup_preemption: bool,
    /// Key `bandwidth`.
    pub bandwidth: BandwidthControl,
    /// Key `hierarchical_running`: throttled tasks do not count as running, and none is migrated to
    /// a CPU where its group is throttled (3.2). Without it, a CPU whose tasks are all throttled
    /// does no new-idle balancing.
    pub hierarchical_running: bool,
    /// Key `sched_cfs_bandwidth_slice_us`: the slice that a CPU takes out of a group's pool at a
    /// time.
    pub bandwidth_slice: Duration,
    /// Key `cfs_bandwidth_slice_steps`: a CPU's first two requests to the pool are a quarter and
    /// half of a slice, and none is more than a quarter of the remaining quota (Turner & Rao 2010,
    /// "some sort of limited step-function"; in no kernel).
    pub bandwidth_slice_steps: bool,
    /// Key `cfs_bandwidth_interleave`: the periods of each group begin at a random offset that its
    /// host draws (6.4, commit 41abdba93747); without it, the periods of all groups begin at the
    /// same time.
    pub bandwidth_interleave: bool,
    /// Key `cfs_bandwidth_zero_start`: a new limit gives a CPU a runtime of 0 instead of 1 ns, so
    /// the CPU can be throttled while a group above it is unthrottled (fixed in 6.18 by commit
    /// 956dfda6a708).
    pub bandwidth_zero_start: bool,
    /// Key `cfs_bandwidth_hotplug_bypass`: a CPU that goes offline or online unthrottles all other
    /// CPUs (fixed in 6.14 by commit af98d8a36a96).
    pub bandwidth_hotplug_bypass: bool,
    /// Key `cfs_bandwidth_offline_loss`: tasks that are throttled on a CPU that goes offline stay
    /// there (fixed in 3.17 by commit 0e59bdaea75f).
    pub bandwidth_offline_loss: bool,
    /// Key `yield_forfeits` (EEVDF, 6.18): an eligible task that yields forfeits the rest of its
    /// request.
    pub yield_forfeits: bool,
    /// Key `proxy_exec`: a task that waits for a lock in the kernel lends its turn to the holder
    /// (6.17, off unless built in).
    pub proxy_exec: bool,
    /// Key `cfs_bandwidth_expiry`: a CPU's unused quota expires at the end of the period (3.2 to
    /// 5.3).
    pub bandwidth_expiry: bool,
    /// Key `cfs_bandwidth_slack`: a CPU without tasks of the group to run returns its quota to the
    /// pool (3.2).
    pub bandwidth_slack: bool,
    /// Key `throttle`.
    pub throttle: Throttle,
    /// Key `load_tracking`.
    pub load_tracking: LoadTracking,
    /// Key `migration_cost_ns`: a task that ran more recently than this counts as cache hot.
    pub migration_cost: Duration,
    /// Key `nr_migrate`: the most tasks that one round of balancing examines.
    pub nr_migrate: u32,
    /// Key `rt_throttling`: real-time tasks of a CPU get at most `rt_runtime` in each `rt_period`.
    pub rt_throttling: bool,
    /// Key `sched_rt_runtime_us`.
    pub rt_runtime: Duration,
    /// Key `sched_rt_period_us`.
    pub rt_period: Duration,
    /// Key `features.RT_RUNTIME_SHARE`: a CPU whose real-time tasks need more borrows from the
    /// others of its root domain.
    pub rt_runtime_share: bool,
    /// Key `rt_period_timer_lost`: real-time tasks that already run when `sched_rt_runtime_us` is
    /// first set are throttled forever (fixed in 5.17 by commit 9b58e976b3b3).
    pub rt_period_timer_lost: bool,
    /// Key `fair_server`.
    pub fair_server: FairServer,
    /// Key `fair_server.start`.
    pub fair_server_start: ServerStart,
    /// Key `fair_server.runtime`.
    pub fair_server_runtime: Duration,
    /// Key `fair_server.period`.
    pub fair_server_period: Duration,
    /// Key `fair_server.scaled`: a server is charged for work, not for run time, so it runs longer
    /// on slower CPUs (6.12 to 6.15; fixed by commit fc975cfb3639). Frequencies are not modelled,
    /// capacities are.
    pub fair_server_scaled: bool,
    /// Key `fair_server.stop`.
    pub fair_server_stop: ServerStop,
    /// Key `fair_server.wakeup`.
    pub fair_server_wakeup: ServerWakeup,
    /// Key `fair_server.resched_lost`: if the server is found exhausted during a switch, the
    /// reschedule request is lost and the fair task keeps the CPU, no longer under the server
    /// (since 6.12, commit fd03c5b85855; not fixed in 7.1).
    pub fair_server_resched_lost: bool,
    /// Key `fair_server.cpus`: CPUs with a different server.
    pub fair_server_cpus: CpuServers,
    /// Key `watchdog_thresh` (seconds): how long a CPU may be in IPI and lock work without serving
    /// a timer; zero is forever. The scheduler ignores it: hosts and monitors use it.
    pub watchdog_thresh: Duration,
}

/// One row of [`Settings::TABLE`].
pub struct Setting {
    /// The key in traces, which never changes.
    pub key: &'static str,
    /// The key in files and on the command line: `fault.*` for a fault of kernels that presets
    /// reproduce, else equal to `key`. Files may use either.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub doc: &'static str,
    /// The format of its values.
    pub values: &'static str,
    show: fn(&Settings) -> String,
    read: fn(&mut Settings, &str) -> Result<(), String>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({})", self.name)
    }
}

/// Why a setting was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettingError {
    /// No setting has this key; `near` is the most similar one.
    UnknownKey {
        /// The unknown key.
        key: String,
        /// The likely intended key.
        near: Option<&'static str>,
    },
    /// The key does not take this value.
    BadValue {
        /// The key.
        key: &'static str,
        /// Why not, and what would be valid.
        reason: String,
    },
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, near: Some(near) } => write!(f, "unknown setting `{key}`; did you mean `{near}`?"),
            Self::UnknownKey { key, near: None } => {
                write!(f, "unknown setting `{key}`; `zerolag settings` lists all")
            }
            Self::BadValue { key, reason } => write!(f, "`{key}`: {reason}"),
        }
    }
}

impl core::error::Error for SettingError {}

impl Settings {
    /// A slice timer is never set for a shorter time (Linux v6.1 `kernel/sched/core.c`,
    /// `hrtick_start`).
    pub const SHORTEST_HRTICK: Duration = Duration::from_micros(10);

    /// Every setting: one row each.
    pub const TABLE: &'static [Setting] = table::ROWS;

    /// Sets one setting from its text.
    ///
    /// # Errors
    /// The key is unknown or the value is not one it takes; nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Some(setting) = Self::TABLE.iter().find(|setting| setting.name == key || setting.key == key) else {
            return Err(SettingError::UnknownKey { key: key.to_string(), near: Self::nearest(key) });
        };
        (setting.read)(self, value.trim()).map_err(|reason| SettingError::BadValue { key: setting.name, reason })
    }

    /// Returns the text of every setting, in the order of the table.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Setting, String)> + '_ {
        Self::TABLE.iter().map(|setting| (setting, (setting.show)(self)))
    }

    /// Returns the known key that is most similar to `key`, if any is within three edits.
    #[must_use]
    pub fn nearest(key: &str) -> Option<&'static str> {
        nearest(key, Self::TABLE.iter().map(|setting| setting.name))
    }

    /// Returns the name of the setting that was called `key` earlier.
    #[must_use]
    pub fn renamed(key: &str) -> Option<&'static str> {
        Self::TABLE.iter().find(|setting| setting.key == key && setting.name != key).map(|setting| setting.name)
    }
}

#[cfg(test)]
mod tests;
