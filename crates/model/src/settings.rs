//! [`Settings`]: every switch and tunable of the scheduler as plain data, and the kernel presets
//! that set them all.
//!
//! A scheduler that covers twenty years of kernels has many switches. If each were read, shown and
//! documented in its own place, the places would contradict each other. So a setting is one row of
//! [`Settings::TABLE`]: its key (the kernel's own name where there is one), its meaning and its
//! values. Scenario files, `--set` and the reports all use that table. The row also holds the field
//! of `Settings` and the releases that changed its value, so a new setting is one row of
//! `settings/table.rs`. A kernel ([`KernelVersion`]) is a function from its release to `Settings`,
//! and an upgrade is a what-if like any other change.
//!
//! The table contains only settings that the scheduler obeys. A switch is added together with its
//! mechanism.

use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;

mod backports;
mod faults;
mod isolation;
mod nearest;
mod release;
mod remarks;
mod spellings;
mod table;

pub use backports::{Backport, Taken};
pub use faults::Fault;
pub use nearest::nearest;
pub use release::{Change, Release};
pub use spellings::Spelling;

/// Joins names for help texts.
macro_rules! list {
    ($first:literal $($name:literal)*) => { concat!($first $(, " | ", $name)*) };
}

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

        impl SettingValue for $name {
            const VALUES: &'static str = list!($($text)+);
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

mod ext;
mod fair_balance;
mod idle;
mod kernel;
mod limits;
mod load;
mod protection;
mod recent_used;
mod rt;
mod servers;
pub use ext::{SchedExt, SchedExtPolicy};
pub use fair_balance::FairBalance;
pub use idle::IdleGovernor;
pub use kernel::{KernelError, KernelErrorReason, KernelVersion};
pub use limits::{BandwidthControl, Borrowing, Throttle, ThrottleAt};
pub use load::{CgroupMode, CgroupShares, FairHierarchy, LoadTracking};
pub use protection::{LagLimit, SliceProtection};
pub use recent_used::RecentUsedCpu;
pub use rt::{OverloadScope, RtBalance, RtGroupSched, RtOverload};
pub use servers::{CpuServer, CpuServers, FairServer, ServerBooking, ServerStart, ServerStop, ServerWakeup};
pub use table::Settings;

/// A type of settings.
trait SettingValue: Sized {
    /// How its values are listed in help texts.
    const VALUES: &'static str;
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
    /// When an exhausted slice of a fair task, or budget of a deadline task, takes effect.
    TimerGrain {
        /// At the next tick.
        Tick = "tick",
        /// At the next tick, and by the kernel's `HRTICK` and `HRTICK_DL` (on since 7.1): one timer
        /// for the task that runs. For a fair task it is set when another task is picked or a
        /// second one comes, to the end of the task's own request, whatever the requests of its
        /// groups are. It always asks for a switch, and is not set again if the same task is
        /// picked. For a deadline task it is set to the end of its budget. Quotas and deadline
        /// servers have none.
        Hrtick = "hrtick",
        /// At once: a timer for the earliest end of a request, of a quota, of a budget, of the
        /// task, of its groups, of the server that runs it.
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
    /// The effect of utilisation clamps on placing fair tasks.
    Uclamp {
        /// None.
        Off = "off",
        /// The clamped utilisation must fit the CPU (5.3).
        Util = "util",
        /// The utilisation must fit, unless the upper bound does; a CPU below the lower bound is
        /// second best (6.2).
        Hint = "hint",
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

impl SettingValue for bool {
    const VALUES: &'static str = "on | off";
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
    /// The key behind which traces have it, if that is not its place in the table.
    after: Option<&'static str>,
    /// The changes of kernels that change its value, the earliest first.
    pub changes: &'static [Change],
    show: fn(&Settings) -> String,
    read: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Setting {
    /// Returns its value as text.
    #[must_use]
    pub fn value(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }
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
    /// The kernel has such a file, the model has not.
    NotModelled {
        /// The key.
        key: &'static str,
        /// What to do instead.
        instead: &'static str,
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
            Self::NotModelled { key, instead } => {
                write!(f, "`{key}` of the kernel is not modelled: {instead}")
            }
        }
    }
}

impl core::error::Error for SettingError {}

impl Settings {
    /// A slice timer is never set for a shorter time (Linux v6.1 `kernel/sched/core.c`,
    /// `hrtick_start`).
    pub const SHORTEST_HRTICK: Duration = Duration::from_micros(10);

    /// Every setting: one row each, faults of kernels last.
    pub const TABLE: &'static [Setting] = table::ROWS;

    /// Returns the text of every setting, in the order of the table.
    pub fn entries(&self) -> impl Iterator<Item = (&'static Setting, String)> + '_ {
        Self::TABLE.iter().map(|setting| (setting, (setting.show)(self)))
    }

    /// Returns the key and text of every setting as traces have them, in an order that never
    /// changes.
    pub fn recorded(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let at_its_place = Self::TABLE.iter().filter(|setting| setting.after.is_none());
        let in_order = at_its_place.flat_map(|setting| {
            let behind = move |other: &&Setting| other.after == Some(setting.key);
            core::iter::once(setting).chain(Self::TABLE.iter().filter(behind))
        });
        in_order.map(|setting| (setting.key, (setting.show)(self)))
    }

    /// Returns the value of a setting in kernels of kernel.org: at first, and since each change.
    #[must_use]
    pub fn history(setting: &Setting) -> alloc::vec::Vec<(Option<Change>, String)> {
        let since = |change: &Change| (Some(*change), (setting.show)(&KernelVersion::mainline(change.release)));
        let first = (None, (setting.show)(&table::preset(&|_| false)));
        core::iter::once(first).chain(setting.changes.iter().map(since)).collect()
    }

    /// Returns the settings that a commit changes.
    pub fn changed_by(commit: &str) -> impl Iterator<Item = &'static Setting> + '_ {
        let is_it = move |change: &Change| change.commit == Some(commit);
        Self::TABLE.iter().filter(move |setting| setting.changes.iter().any(is_it))
    }

    /// Returns the change of a commit that a setting names.
    #[must_use]
    pub fn change(commit: &str) -> Option<Change> {
        let mut changes = Self::TABLE.iter().flat_map(|setting| setting.changes);
        changes.find(|change| change.commit == Some(commit)).copied()
    }

    /// Returns the known key that is most similar to `key`, if any is within three edits.
    #[must_use]
    pub fn nearest(key: &str) -> Option<&'static str> {
        let spellings = Self::SPELLINGS.iter().map(|spelling| spelling.key);
        nearest(key, Self::TABLE.iter().map(|setting| setting.name).chain(spellings))
    }

    /// Returns the name of the setting that was called `key` earlier.
    #[must_use]
    pub fn renamed(key: &str) -> Option<&'static str> {
        Self::TABLE.iter().find(|setting| setting.key == key && setting.name != key).map(|setting| setting.name)
    }
}

#[cfg(test)]
mod tests;
