//! [`Settings`]: every switch and tunable of the scheduler as plain data, and the kernel presets that set them all.
//!
//! A setting is one row of [`Settings::TABLE`]: its key (the kernel's own name where the kernel has one), what it means,
//! the values it takes. Scenario files, `--set` and the reports all go through that table, so a new setting is one field
//! and one row. A preset ([`KernelVersion`]) is a function of version to `Settings`; an upgrade is a what-if like any
//! other change.
//!
//! Only what the scheduler obeys is here. A switch comes with the mechanism that it switches.

use crate::cpumask::CpuMask;
use crate::server::ServerParams;
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

mod isolation;
mod kernel;
mod nearest;
mod servers;

pub use nearest::nearest;
pub use servers::{CpuServer, CpuServers};

macro_rules! switch {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// All values, in the order in which help texts list them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the value as settings files write it.
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

mod limits;
mod load;
mod protection;
mod rt;
pub use limits::{BandwidthControl, Throttle};
pub use load::LoadTracking;
pub use protection::SliceProtection;
pub use rt::{OverloadScope, RtBalance, RtOverload};

/// A type that a setting can have.
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
    /// When a budget or slice that is used up takes effect.
    Grain {
        /// At the next tick.
        Tick = "tick",
        /// When it happens, by a timer of its own.
        Exact = "exact",
    }
}

switch! {
    /// Where kernel mode can be preempted. User mode always can.
    Preempt {
        /// Only where the kernel gives up the CPU by itself or returns to user mode.
        None = "none",
        /// Also at explicit points (`might_resched`).
        Voluntary = "voluntary",
        /// Everywhere outside sections that disable it.
        Full = "full",
        /// As full for real-time and deadline tasks; fair tasks wait for the next tick or the return to user mode.
        Lazy = "lazy",
        /// Everywhere, lock-protected sections included.
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

switch! {
    /// What the deadline server of each CPU does for its fair tasks.
    FairServer {
        /// There is none.
        Off = "off",
        /// It comes before real-time tasks as soon as it is started.
        Immediate = "immediate",
        /// It does so at zero laxity, if the fair tasks have not had their share by then.
        Deferred = "deferred",
    }
}

switch! {
    /// When the fair server is started.
    ServerStart {
        /// When real-time and fair tasks are queued (2023).
        RtAndFair = "rt_and_fair",
        /// When fair tasks are queued (6.12).
        Fair = "fair",
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

/// Reads a duration whose key already names the unit: a bare integer in that unit, or a number with its own unit.
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
    /// Key `overload_scope`. The IPI modes of `rt_balance` keep one mask per root domain whatever it says: so do the
    /// kernels that have them, and the IPI is the root domain's.
    pub overload_scope: OverloadScope,
    /// Key `rt_overload`.
    pub rt_overload: RtOverload,
    /// Key `rt_ipi_skip_self`: the root domain's IPI is not sent to the CPU that sends it on (commit 94894c9c477e, 2026).
    pub rt_ipi_skip_self: bool,
    /// Key `rt_push_skip_stuck`: try the next pushable task when the first has nowhere to go.
    pub rt_push_skip_stuck: bool,
    /// Key `rt_select_on_wake`: a waking RT task looks for a CPU before it is queued (2.6.25); otherwise it is queued
    /// where it ran and pushed from there, as the 2007 text has it.
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
    /// Key `isolcpus`: CPUs without load balancing, which tasks use only if their affinity says so.
    pub isolcpus: CpuMask,
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
    /// Key `group_min_slice` (EEVDF, 6.12): a group asks for the shortest slice in it.
    pub group_min_slice: bool,
    /// Key `features.PLACE_LAG` (EEVDF).
    pub place_lag: bool,
    /// Key `features.PLACE_REL_DEADLINE` (EEVDF, 6.12).
    pub place_rel_deadline: bool,
    /// Key `features.PREEMPT_SHORT` (EEVDF, 6.12).
    pub preempt_short: bool,
    /// Key `features.DELAY_DEQUEUE` (EEVDF, 6.12).
    pub delay_dequeue: bool,
    /// Key `features.SIS_UTIL`: the busier a cache is, the fewer of its CPUs are looked at for an idle one (6.0, commit 70fb5ccf2ebb).
    pub sis_util: bool,
    /// Key `wake_wide`: a task that is one of many that its waker wakes is not drawn to it (3.12).
    pub wake_wide: bool,
    /// Key `features.WAKEUP_PREEMPTION`.
    pub wakeup_preemption: bool,
    /// Key `bandwidth`.
    pub bandwidth: BandwidthControl,
    /// Key `hierarchical_running`: throttled tasks do not count as running, and none is moved to a CPU where its group is
    /// throttled (3.2). Without, a CPU whose tasks are all throttled does not look for others when it goes idle.
    pub hierarchical_running: bool,
    /// Key `sched_cfs_bandwidth_slice_us`: what a CPU takes out of a group's pool at a time.
    pub bandwidth_slice: Duration,
    /// Key `cfs_bandwidth_slice_steps`: a CPU's first requests to the pool are a quarter and half of a slice, and none is more
    /// than a quarter of what is left there (Turner & Rao 2010, "some sort of limited step-function"; in no kernel).
    pub bandwidth_slice_steps: bool,
    /// Key `cfs_bandwidth_interleave`: periods of each group begin at an offset of its own that its host draws (6.4, commit
    /// 41abdba93747); without, those of all groups at the same time.
    pub bandwidth_interleave: bool,
    /// Key `cfs_bandwidth_zero_start`: a CPU has nothing of a new limit, rather than 1 ns, and may be throttled while a group above
    /// it is freed (mended in 6.18 by commit 956dfda6a708).
    pub bandwidth_zero_start: bool,
    /// Key `cfs_bandwidth_hotplug_bypass`: a CPU that goes offline or comes back frees what is throttled on all others (mended in
    /// 6.14 by commit af98d8a36a96).
    pub bandwidth_hotplug_bypass: bool,
    /// Key `cfs_bandwidth_offline_loss`: what is throttled on a CPU that goes offline stays there (mended in 3.17 by commit 0e59bdaea75f).
    pub bandwidth_offline_loss: bool,
    /// Key `yield_forfeits` (EEVDF, 6.18): who yields and is eligible gives up what is left of its request.
    pub yield_forfeits: bool,
    /// Key `proxy_exec`: a task that waits for a lock in the kernel lends its turn to the holder (6.17, off unless built in).
    pub proxy_exec: bool,
    /// Key `cfs_bandwidth_expiry`: what a CPU has left at the end of a period is lost (3.2 to 5.3).
    pub bandwidth_expiry: bool,
    /// Key `cfs_bandwidth_slack`: a CPU that has nothing left to run gives what it has back to the pool (3.2).
    pub bandwidth_slack: bool,
    /// Key `throttle`.
    pub throttle: Throttle,
    /// Key `load_tracking`.
    pub load_tracking: LoadTracking,
    /// Key `migration_cost_ns`: a task that ran more recently than this counts as cache hot.
    pub migration_cost: Duration,
    /// Key `nr_migrate`: the most tasks that one round of balancing looks at.
    pub nr_migrate: u32,
    /// Key `rt_throttling`: real-time tasks of a CPU get at most `rt_runtime` in each `rt_period`.
    pub rt_throttling: bool,
    /// Key `sched_rt_runtime_us`.
    pub rt_runtime: Duration,
    /// Key `sched_rt_period_us`.
    pub rt_period: Duration,
    /// Key `features.RT_RUNTIME_SHARE`: a CPU whose real-time tasks need more borrows from the others of its root domain.
    pub rt_runtime_share: bool,
    /// Key `fair_server`.
    pub fair_server: FairServer,
    /// Key `fair_server.start`.
    pub fair_server_start: ServerStart,
    /// Key `fair_server.runtime`.
    pub fair_server_runtime: Duration,
    /// Key `fair_server.period`.
    pub fair_server_period: Duration,
    /// Key `fair_server.scaled`: a server is charged for what its class has done, not for how long it ran, so it runs longer
    /// on slower CPUs (6.12 to 6.15; mended by commit fc975cfb3639). Frequencies are not modelled, capacities are.
    pub fair_server_scaled: bool,
    /// Key `fair_server.stuck`: a deferred server that was stopped while it ran and is started after its deadline runs at once with a new
    /// period (6.12 to 6.18; mended by commit 115135422562, in stable kernels too, so no preset has it).
    pub fair_server_stuck: bool,
    /// Key `fair_server.cpus`: CPUs whose server differs.
    pub fair_server_cpus: CpuServers,
    /// Key `watchdog_thresh` (seconds): how long a CPU may be in IPI and lock work without being free for a timer; zero is
    /// for ever. The scheduler does not look at it: hosts and monitors do.
    pub watchdog_thresh: Duration,
}

/// One row of [`Settings::TABLE`].
pub struct Setting {
    /// The key in files and on the command line.
    pub key: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// What values look like.
    pub values: &'static str,
    show: fn(&Settings) -> String,
    read: fn(&mut Settings, &str) -> Result<(), String>,
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({})", self.key)
    }
}

/// Why a setting was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SettingError {
    /// No setting has this key; `near` is the most similar one.
    UnknownKey {
        /// What was written.
        key: String,
        /// What may have been meant.
        near: Option<&'static str>,
    },
    /// The key does not take this value.
    BadValue {
        /// The key.
        key: &'static str,
        /// Why not, and what would be right.
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

macro_rules! value {
    ($key:literal, $field:ident, $values:literal, $doc:literal) => {
        Setting {
            key: $key,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.show(),
            read: |settings, text| {
                settings.$field = Value::read(text)?;
                Ok(())
            },
        }
    };
}

macro_rules! duration {
    ($key:literal, $field:ident, $unit:expr, $low:expr, $high:expr, $values:literal, $doc:literal) => {
        Setting {
            key: $key,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.to_string(),
            read: |settings, text| {
                let value = read_duration(text, $unit)?;
                if value < $low || value > $high {
                    return Err(format!("{value} is outside {}..={}", $low, $high));
                }
                settings.$field = value;
                Ok(())
            },
        }
    };
}

macro_rules! integer {
    ($key:literal, $field:ident, $low:literal, $high:literal, $values:literal, $doc:literal) => {
        Setting {
            key: $key,
            doc: $doc,
            values: $values,
            show: |settings| settings.$field.to_string(),
            read: |settings, text| {
                let value = read_integer(text, $low, $high)?;
                settings.$field = u32::try_from(value).map_err(|_| format!("{value} does not fit 32 bits"))?;
                Ok(())
            },
        }
    };
}

const NS: Duration = Duration::from_nanos(1);
const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);
/// The kernel's bounds of every granularity (`kernel/sched/debug.c`): 100 us to 1 s.
const GRANULARITY_MIN: Duration = Duration::from_micros(100);
const GRANULARITY_MAX: Duration = Duration::from_secs(1);

impl Settings {
    /// A timer that looks again at a turn that is over comes no sooner (Linux v6.1 `kernel/sched/core.c`, `hrtick_start`).
    pub const SHORTEST_HRTICK: Duration = Duration::from_micros(10);

    /// Every setting: one row each.
    pub const TABLE: &'static [Setting] = &[
        value!("fair", fair, "cfs | eevdf", "algorithm of the fair class"),
        value!(
            "rt_balance",
            rt_balance,
            "passive | active_and_passive | pull_locked | ipi_per_cpu | ipi_root_domain",
            "how waiting real-time tasks find a CPU"
        ),
        value!(
            "overload_scope",
            overload_scope,
            "global | cpuset | root_domain",
            "where the mask of RT-overloaded CPUs is kept (the IPI modes of rt_balance: per root domain)"
        ),
        value!("rt_overload", rt_overload, "queued | pushable", "what makes a CPU RT-overloaded"),
        value!(
            "rt_ipi_skip_self",
            rt_ipi_skip_self,
            "on | off",
            "the root domain's IPI is not sent to the CPU that sends it on"
        ),
        value!(
            "rt_push_skip_stuck",
            rt_push_skip_stuck,
            "on | off",
            "push the next task when the first pushable one has nowhere to go"
        ),
        value!(
            "rt_select_on_wake",
            rt_select_on_wake,
            "on | off",
            "a waking RT task looks for a CPU before it is queued"
        ),
        value!("preempt", preempt, "none | voluntary | full | lazy | rt", "where kernel mode can be preempted"),
        value!("enforce.fair", enforce_fair, "tick | exact", "when a used-up fair slice takes effect"),
        value!("enforce.rt", enforce_rt, "tick | exact", "when a used-up RR slice takes effect"),
        value!("enforce.dl", enforce_dl, "tick | exact", "when a used-up deadline budget takes effect"),
        integer!("hz", hz, 1, 10000, "1..10000", "ticks per second"),
        value!("nohz", nohz, "on | off", "idle CPUs stop their tick"),
        value!("nohz_full", nohz_full, "a list of CPUs", "CPUs that stop their tick while one task runs"),
        value!(
            "isolcpus",
            isolcpus,
            "a list of CPUs",
            "CPUs without load balancing, for tasks that are confined to them"
        ),
        duration!(
            "sched_rr_timeslice_ms",
            rr_timeslice,
            MS,
            MS,
            Duration::from_secs(1_000),
            "milliseconds",
            "time slice of SCHED_RR"
        ),
        value!(
            "tunable_scaling",
            tunable_scaling,
            "none | logarithmic | linear",
            "how fair granularities grow with the CPUs"
        ),
        duration!(
            "base_slice_ns",
            base_slice,
            NS,
            GRANULARITY_MIN,
            GRANULARITY_MAX,
            "nanoseconds",
            "EEVDF: slice before scaling by CPUs"
        ),
        duration!(
            "sched_latency_ns",
            latency,
            NS,
            GRANULARITY_MIN,
            GRANULARITY_MAX,
            "nanoseconds",
            "CFS: period in which every task runs once, before scaling"
        ),
        duration!(
            "sched_min_granularity_ns",
            min_granularity,
            NS,
            GRANULARITY_MIN,
            GRANULARITY_MAX,
            "nanoseconds",
            "CFS: shortest slice, before scaling"
        ),
        duration!(
            "sched_wakeup_granularity_ns",
            wakeup_granularity,
            NS,
            Duration::ZERO,
            GRANULARITY_MAX,
            "nanoseconds",
            "CFS: how far behind a woken task must be to preempt, before scaling"
        ),
        value!(
            "features.RUN_TO_PARITY",
            run_to_parity,
            "on | off",
            "EEVDF: current runs until its lag is zero or its slice ends"
        ),
        value!(
            "slice_protection",
            slice_protection,
            "request | min_slice",
            "EEVDF: up to where RUN_TO_PARITY protects a picked task"
        ),
        value!("group_min_slice", group_min_slice, "on | off", "EEVDF: a group asks for the shortest slice in it"),
        value!(
            "yield_forfeits",
            yield_forfeits,
            "on | off",
            "EEVDF: who yields gives up what is left of its request (6.18)"
        ),
        value!("features.PLACE_LAG", place_lag, "on | off", "EEVDF: tasks keep their lag over sleep"),
        value!(
            "features.PLACE_REL_DEADLINE",
            place_rel_deadline,
            "on | off",
            "EEVDF: a task that moves while runnable goes on with its request"
        ),
        value!(
            "features.PREEMPT_SHORT",
            preempt_short,
            "on | off",
            "EEVDF: a woken task with a shorter slice ends the protection of the current one"
        ),
        value!(
            "features.DELAY_DEQUEUE",
            delay_dequeue,
            "on | off",
            "EEVDF: a blocked task stays queued until its lag is paid"
        ),
        value!(
            "features.SIS_UTIL",
            sis_util,
            "on | off",
            "the busier a cache is, the fewer of its CPUs a waking task looks at for an idle one"
        ),
        value!(
            "wake_wide",
            wake_wide,
            "on | off",
            "a task that is one of many that its waker wakes is not drawn to it (3.12)"
        ),
        value!(
            "features.WAKEUP_PREEMPTION",
            wakeup_preemption,
            "on | off",
            "a woken fair task may preempt the current one"
        ),
        value!(
            "throttle",
            throttle,
            "immediate | boost_on_wakeup | boost_in_kernel | at_user_return",
            "what stops where a limited group has no quota left"
        ),
        value!(
            "load_tracking",
            load_tracking,
            "weights | pelt",
            "what counts as load when fair tasks are placed and balanced"
        ),
        value!("bandwidth", bandwidth, "pool | hard_limits", "where the quota of a limited group is"),
        value!(
            "hierarchical_running",
            hierarchical_running,
            "on | off",
            "throttled tasks do not count as running, and none is moved to where its group is throttled"
        ),
        duration!(
            "sched_cfs_bandwidth_slice_us",
            bandwidth_slice,
            Duration::from_micros(1),
            Duration::from_micros(1),
            Duration::from_secs(1_000),
            "microseconds",
            "what a CPU takes out of a limited group's pool at a time"
        ),
        value!(
            "cfs_bandwidth_slice_steps",
            bandwidth_slice_steps,
            "on | off",
            "a CPU's first requests are a quarter and half of a slice, none more than a quarter of what is left in the pool"
        ),
        value!("proxy_exec", proxy_exec, "on | off", "who waits for a lock in the kernel lends its turn to the holder"),
        value!(
            "cfs_bandwidth_interleave",
            bandwidth_interleave,
            "on | off",
            "each limited group's periods begin at a random offset"
        ),
        value!(
            "cfs_bandwidth_zero_start",
            bandwidth_zero_start,
            "on | off",
            "a CPU has nothing of a new limit, rather than 1 ns (until 6.17)"
        ),
        value!(
            "cfs_bandwidth_hotplug_bypass",
            bandwidth_hotplug_bypass,
            "on | off",
            "a CPU that goes offline or comes back frees what is throttled on all others (until 6.13)"
        ),
        value!(
            "cfs_bandwidth_offline_loss",
            bandwidth_offline_loss,
            "on | off",
            "what is throttled on a CPU that goes offline stays there (until 3.16)"
        ),
        value!(
            "cfs_bandwidth_expiry",
            bandwidth_expiry,
            "on | off",
            "what a CPU has left of a limited group's quota is lost at the end of the period"
        ),
        value!(
            "cfs_bandwidth_slack",
            bandwidth_slack,
            "on | off",
            "a CPU that has nothing of a limited group left to run gives its quota back, all but 1 ms"
        ),
        duration!(
            "migration_cost_ns",
            migration_cost,
            NS,
            Duration::ZERO,
            GRANULARITY_MAX,
            "nanoseconds",
            "a task that ran more recently than this is cache hot"
        ),
        integer!("nr_migrate", nr_migrate, 1, 1024, "1..1024", "most tasks that one round of balancing looks at"),
        value!("rt_throttling", rt_throttling, "on | off", "real-time tasks get at most a share of each period"),
        duration!(
            "sched_rt_runtime_us",
            rt_runtime,
            US,
            Duration::ZERO,
            Duration::from_micros(1 << 22),
            "microseconds",
            "what real-time tasks of a CPU may run in each period, with rt_throttling"
        ),
        duration!(
            "sched_rt_period_us",
            rt_period,
            US,
            US,
            Duration::from_micros(1 << 22),
            "microseconds",
            "period of rt_throttling"
        ),
        value!(
            "features.RT_RUNTIME_SHARE",
            rt_runtime_share,
            "on | off",
            "a CPU borrows real-time runtime from the others of its root domain"
        ),
        value!("fair_server", fair_server, "off | immediate | deferred", "deadline server of each CPU's fair tasks"),
        value!(
            "fair_server.start",
            fair_server_start,
            "rt_and_fair | fair",
            "what must be queued for the fair server to start"
        ),
        duration!(
            "fair_server.runtime",
            fair_server_runtime,
            NS,
            Duration::ZERO,
            ServerParams::PERIOD_MAX,
            "nanoseconds",
            "what the fair server gives in each period"
        ),
        duration!(
            "fair_server.period",
            fair_server_period,
            NS,
            ServerParams::PERIOD_MIN,
            ServerParams::PERIOD_MAX,
            "nanoseconds",
            "period of the fair server"
        ),
        value!(
            "fair_server.scaled",
            fair_server_scaled,
            "on | off",
            "the fair server's runtime is scaled by the capacity of its CPU (6.12 to 6.15)"
        ),
        value!(
            "fair_server.stuck",
            fair_server_stuck,
            "on | off",
            "fault: one that stopped while it ran is not deferred"
        ),
        value!(
            "fair_server.cpus",
            fair_server_cpus,
            "CPUS=off|immediate|deferred[:RUNTIME/PERIOD]; ...",
            "CPUs whose fair server differs"
        ),
        duration!(
            "watchdog_thresh",
            watchdog_thresh,
            MS * 1_000,
            Duration::ZERO,
            Duration::from_secs(60),
            "seconds; 0 is never",
            "how long a CPU may be in IPI and lock work without being free for a timer"
        ),
    ];

    /// Sets one setting from its text.
    ///
    /// # Errors
    /// The key is unknown or the value is not one it takes; nothing is changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let Some(setting) = Self::TABLE.iter().find(|setting| setting.key == key) else {
            return Err(SettingError::UnknownKey { key: key.to_string(), near: Self::nearest(key) });
        };
        (setting.read)(self, value.trim()).map_err(|reason| SettingError::BadValue { key: setting.key, reason })
    }

    /// Returns the text of every setting, in the order of the table.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Setting, String)> + '_ {
        Self::TABLE.iter().map(|setting| (setting, (setting.show)(self)))
    }

    /// Returns the known key that is most similar to `key`, if any is within three edits.
    #[must_use]
    pub fn nearest(key: &str) -> Option<&'static str> {
        nearest(key, Self::TABLE.iter().map(|setting| setting.key))
    }
}

switch! {
    /// A kernel version whose scheduler is known as a preset.
    KernelVersion {
        /// CFS arrives; RT tasks are moved by the periodic balancer only.
        V2_6_23 = "2.6.23",
        /// Active RT push and pull.
        V2_6_25 = "2.6.25",
        /// CPU bandwidth control.
        V3_2 = "3.2",
        /// RT pull by IPI, a chain per CPU.
        V4_1 = "4.1",
        /// RT pull by one IPI per root domain.
        V4_15 = "4.15",
        /// No expiry of local quota.
        V5_4 = "5.4",
        /// Burst; the last long-term kernel many moved from.
        V5_15 = "5.15",
        /// The last long-term kernel with CFS.
        V6_1 = "6.1",
        /// EEVDF.
        V6_6 = "6.6",
        /// Fair server, delayed dequeue, custom slices.
        V6_12 = "6.12",
        /// Throttling at the return to user mode.
        V6_18 = "6.18",
    }
}

#[cfg(test)]
mod tests;
