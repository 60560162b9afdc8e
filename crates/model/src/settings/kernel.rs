//! [`KernelVersion`]: a kernel whose scheduler is known, by its release.
//!
//! The rows of the settings name the releases at which kernels changed (`table.rs`), and the lists
//! of `backports.rs` the stable releases and distributions that took a change too. So any kernel
//! has settings, not only the presets, and a preset is no more than a name: a new one is a line of
//! [`KernelVersion::ALL`] and touches no row. Presets by which rows would step (as they did until
//! 0.2) give a kernel between two presets the faults of the earlier one, also those that were fixed
//! before it.
//!
//! | name | kernel |
//! |---|---|
//! | `6.12` | the series: its stable releases with all backports that are known, but see [`Taken`] |
//! | `6.12.85`, `6.12.0` | one release of kernel.org |
//! | `rhel-9.4` | the kernel of a distribution |
//! | `4.18`, `5.14` | the kernels of RHEL 8.8 and 9.3: those of kernel.org with these numbers are seldom used, and are named `4.18.20` and `5.14.21` |

use super::backports::{Backport, Lineage, Taken};
use super::release::{Change, Release};
use super::{LoadTracking, Settings, nearest, table};
use crate::time::Duration;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// A kernel whose scheduler is known: a series, a stable release, or a distribution's.
///
/// They are in the order of the releases that they are based on; then a series, its stable
/// releases, and distributions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KernelVersion {
    base: Release,
    line: BackportSet,
}

/// What was added to a release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum BackportSet {
    /// The backports of its series.
    Series,
    /// Those up to a stable release.
    Stable(u16),
    /// Those of a minor release of RHEL.
    Rhel { major: u16, minor: u16 },
}

macro_rules! presets {
    ($($preset:ident = $name:literal: $doc:literal;)+) => {
        impl KernelVersion {
            $(
                #[doc = concat!("`", $name, "`: ", $doc)]
                pub const $preset: Self = Self::series($name);
            )+

            /// The presets, the oldest first.
            pub const ALL: &'static [Self] = &[$(Self::$preset),+];

            /// The names of the presets, the oldest first.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
        }
    };
}

presets! {
    V2_6_23 = "2.6.23": "CFS arrives; RT tasks are moved by the periodic balancer only.";
    V2_6_25 = "2.6.25": "active RT push and pull.";
    V3_2 = "3.2": "CPU bandwidth control.";
    V4_1 = "4.1": "RT pull by IPI, a chain per CPU.";
    V4_4 = "4.4": "long-term; the stable kernels have the IPI of 4.15 and the deadline fixes of 4.13.";
    V4_9 = "4.9": "long-term, with the same settings as 4.4 but for softirqs.";
    V4_14 = "4.14": "long-term; the search for an idle CPU is in proportion to idle time.";
    V4_15 = "4.15": "RT pull by one IPI per root domain.";
    V4_18 = "4.18": "the kernel of RHEL 8 (not 4.18 of kernel.org), with the backports of 8.8: `rhel-8.8`.";
    V4_19 = "4.19": "long-term; a fair task remembers a recently used CPU.";
    V5_4 = "5.4": "no expiry of local quota.";
    V5_10 = "5.10": "long-term; the kernel of Debian 11.";
    V5_14 = "5.14": "the kernel of RHEL 9 (not 5.14 of kernel.org), with the backports of 9.3: `rhel-9.3`.";
    V5_15 = "5.15": "burst; widely used as the base for upgrades.";
    V6_1 = "6.1": "the last long-term kernel with CFS.";
    V6_6 = "6.6": "EEVDF.";
    V6_8 = "6.8": "a waiting RT task that can move makes a CPU overloaded; the kernel of Ubuntu 24.04.";
    V6_11 = "6.11": "the last kernel with RT throttling by default; the kernel of Ubuntu 24.10.";
    V6_12 = "6.12": "fair server, delayed dequeue, custom slices.";
    V6_18 = "6.18": "throttling at the return to user mode.";
    V6_19 = "6.19": "new-idle balancing in proportion to its successes.";
    V7_0 = "7.0": "the root domain's IPI skips its sender.";
    V7_1 = "7.1": "slices end by a timer.";
    V7_2 = "7.2": "`sched_rt_runtime_us` is the whole period.";
    V7_3 = "7.3": "one queue of the fair tasks of all groups; wakeups of tasks with short slices preempt.";
}

const _: () = {
    let mut at = 1;
    while at < KernelVersion::ALL.len() {
        let is_later = !KernelVersion::ALL[at].base.is_until(KernelVersion::ALL[at - 1].base);
        assert!(is_later, "presets are in the order of releases");
        at += 1;
    }
};

impl KernelVersion {
    /// The newest preset. Later kernels are not known.
    const NEWEST: Self = Self::ALL[Self::ALL.len() - 1];

    const fn series(name: &str) -> Self {
        Self { base: Release::new(name), line: BackportSet::Series }
    }

    /// Returns the settings of this kernel in its default configuration (HZ=250).
    ///
    /// Sources: `kernel/sched/fair.c` (granularities), `kernel/sched/features.h`,
    /// `kernel/Kconfig.preempt` of each version, and the commits that the fields of [`Settings`]
    /// name. [`remarks`](Self::remarks) tells what is approximate.
    #[must_use]
    pub fn settings(self) -> Settings {
        table::preset(&|change| self.has(change))
    }

    /// Returns the settings of a release of kernel.org, without any backport.
    pub(super) fn mainline(release: Release) -> Settings {
        table::preset(&|change| change.release <= release)
    }

    /// Returns whether this kernel has a change: its release has it, or it is a backport.
    #[must_use]
    pub fn has(self, change: &Change) -> bool {
        let takes = |commit| self.backports().iter().any(|one| one.commit == commit && self.includes(one.taken));
        change.release <= self.base || change.commit.is_some_and(takes)
    }

    /// Returns whether a backport of its lineage is in this kernel.
    const fn includes(self, taken: Taken) -> bool {
        match (self.line, taken) {
            (BackportSet::Series | BackportSet::Rhel { .. }, taken) => taken.is_in_series(),
            (BackportSet::Stable(patch), Taken::Since(first) | Taken::By(first) | Taken::NotInSeries(first)) => {
                patch >= first
            }
            (BackportSet::Stable(_), Taken::SeriesOnly) => false,
        }
    }

    /// Returns the list of backports that this kernel's are of.
    pub(super) fn lineage(self) -> Option<&'static Lineage> {
        match self.line {
            BackportSet::Series => Lineage::of_series(self.base),
            BackportSet::Stable(_) => Lineage::of_stable(self.base),
            BackportSet::Rhel { major, .. } => Lineage::of_rhel(major),
        }
    }

    /// Returns the kernels whose lists of backports are known, the oldest base first: series, and
    /// the distributions that have taken the number of one over.
    pub fn lineages() -> impl Iterator<Item = Self> {
        Lineage::all().map(|list| Self { base: list.base(), line: BackportSet::Series })
    }

    /// Returns the backports that kernels of its lineage have. [`Taken`] says which of them.
    #[must_use]
    pub fn backports(self) -> &'static [Backport] {
        self.lineage().map_or(&[], Lineage::backports)
    }

    /// Returns the first kernels that are known to have a commit as a backport, one of each
    /// lineage.
    #[must_use]
    pub fn first_with(commit: &str) -> Vec<Self> {
        let first = |list: &Lineage, taken: Taken| match (taken, list.rhel_read()) {
            (Taken::SeriesOnly, _) => None,
            (Taken::Since(first) | Taken::By(first) | Taken::NotInSeries(first), None) => {
                Some(BackportSet::Stable(first))
            }
            (Taken::Since(minor) | Taken::By(minor) | Taken::NotInSeries(minor), Some((major, _))) => {
                Some(BackportSet::Rhel { major, minor })
            }
        };
        let of_list = |list: &'static Lineage| {
            let backport = list.backports().iter().find(|backport| backport.commit == commit)?;
            Some(Self { base: list.base(), line: first(list, backport.taken)? })
        };
        Lineage::all().filter_map(of_list).collect()
    }

    /// Returns the release of kernel.org that it is based on.
    #[must_use]
    pub const fn release(self) -> Release {
        self.base
    }

    /// Returns the number of the stable release, if it is one.
    pub(super) const fn patch(self) -> Option<u16> {
        match self.line {
            BackportSet::Stable(patch) => Some(patch),
            BackportSet::Series | BackportSet::Rhel { .. } => None,
        }
    }

    /// Returns the minor release of RHEL, if it is of one.
    pub(super) const fn rhel_minor(self) -> Option<u16> {
        match self.line {
            BackportSet::Rhel { minor, .. } => Some(minor),
            BackportSet::Series | BackportSet::Stable(_) => None,
        }
    }

    /// Returns the name, as written in files and traces.
    #[must_use]
    pub fn name(self) -> String {
        self.to_string()
    }

    /// Returns whether it is one of [`ALL`](Self::ALL).
    #[must_use]
    pub fn is_preset(self) -> bool {
        Self::ALL.contains(&self)
    }

    /// Returns the last preset that is not later; the oldest for none.
    #[must_use]
    pub fn preset(self) -> Self {
        let until = |preset: &&Self| preset.base <= self.base;
        Self::ALL.iter().rev().find(until).copied().unwrap_or(Self::V2_6_23)
    }

    /// Returns the kernel of a name: `6.12`, `6.12.85`, `rhel-9.4`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        read(name).ok()
    }

    /// Returns the kernel that calls itself so (`uname -r`), or has this name. A distribution that
    /// does not tell the stable release (`6.8.0-45-generic`) has the backports of the series; a
    /// kernel later than all that are known is the newest.
    ///
    /// `None` if the text does not begin with two numbers or names a kernel before all presets.
    #[must_use]
    pub fn of_release(release: &str) -> Option<Self> {
        if let Some(kernel) = Self::from_name(release) {
            return Some(kernel);
        }
        let (numbers, rest) = leading_numbers(release);
        let [major, minor, patch] = [numbers[0]?, numbers[1]?, numbers[2].unwrap_or(0)];
        let base = Release::of_numbers([major, minor, patch]);
        let of_base = Self { base, line: BackportSet::Series };
        if base < Self::V2_6_23.base {
            return None;
        }
        if base > Self::NEWEST.base {
            return Some(Self::NEWEST);
        }
        let rhel = of_base.lineage().and_then(|list| list.rhel_of(rest));
        let line = match (rhel, patch) {
            (Some((major, minor)), _) => BackportSet::Rhel { major, minor },
            (None, 0) => BackportSet::Series,
            (None, patch) if base.has_stable_numbers() => BackportSet::Stable(patch),
            (None, _) => BackportSet::Series,
        };
        Some(Self { base, line })
    }
}

/// Returns the numbers at the start of a text, up to three, and what follows them.
fn leading_numbers(text: &str) -> ([Option<u16>; 3], &str) {
    let mut numbers = [None; 3];
    let mut rest = text;
    for number in &mut numbers {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        *number = rest[..end].parse().ok();
        rest = &rest[end..];
        match rest.strip_prefix('.') {
            Some(after) if number.is_some() => rest = after,
            Some(_) | None => break,
        }
    }
    (numbers, rest)
}

/// Why a text names no kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelError {
    /// The text.
    pub text: String,
    /// The reason.
    pub reason: KernelErrorReason,
    /// The likely intended kernel.
    pub near: Option<String>,
}

/// The reason why a text names no kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KernelErrorReason {
    /// It is neither a release nor a distribution's kernel.
    NotARelease,
    /// It is before the first kernel that is known.
    TooOld,
    /// It is after the last kernel that is known.
    TooNew,
    /// The numbers went on with another first number.
    NoSuchRelease {
        /// The last release of this first number.
        last: Release,
    },
    /// The lists of the distribution's backports do not have it.
    UnknownRhel,
}

impl fmt::Display for KernelErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotARelease => f.write_str("is no release (6.16, 6.12.85) or distribution's kernel (rhel-9.4)"),
            Self::TooOld => write!(f, "is before {}, the first that is known", KernelVersion::V2_6_23),
            Self::TooNew => write!(f, "is after {}, the last that is known", KernelVersion::NEWEST),
            Self::NoSuchRelease { last } => write!(f, "was never released: the last of its number was {last}"),
            Self::UnknownRhel => {
                f.write_str("has backports that are not known; known are")?;
                for (at, list) in Lineage::all_rhel().enumerate() {
                    let (major, minor) = list;
                    write!(f, "{} rhel-{major}.0 and later, read in {major}.{minor}", if at > 0 { "," } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel `{}` {}", self.text, self.reason)?;
        match &self.near {
            Some(near) => write!(f, "; did you mean `{near}`?"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for KernelError {}

impl FromStr for KernelVersion {
    type Err = KernelError;

    fn from_str(text: &str) -> Result<Self, KernelError> {
        let near = |reason| match reason {
            KernelErrorReason::NotARelease | KernelErrorReason::UnknownRhel => suggestion(text),
            // The reason itself names the release that is there.
            KernelErrorReason::TooOld | KernelErrorReason::TooNew | KernelErrorReason::NoSuchRelease { .. } => None,
        };
        read(text).map_err(|reason| KernelError { text: text.to_string(), reason, near: near(reason) })
    }
}

fn read(text: &str) -> Result<KernelVersion, KernelErrorReason> {
    match text.strip_prefix("rhel-") {
        Some(numbers) => read_rhel(numbers),
        None => read_release(text),
    }
}

fn read_release(text: &str) -> Result<KernelVersion, KernelErrorReason> {
    let (base, line) = match (Release::from_name(text), text.rsplit_once('.')) {
        (Some(base), _) => (base, BackportSet::Series),
        (None, Some((series, patch))) => {
            let base = Release::from_name(series).ok_or(KernelErrorReason::NotARelease)?;
            let is_number = patch.bytes().all(|byte| byte.is_ascii_digit()) && base.has_stable_numbers();
            let patch = patch.parse().ok().filter(|_| is_number).ok_or(KernelErrorReason::NotARelease)?;
            (base, BackportSet::Stable(patch))
        }
        (None, None) => return Err(KernelErrorReason::NotARelease),
    };
    let (first, last) = (KernelVersion::V2_6_23.base, KernelVersion::NEWEST.base);
    match base.last_of_major() {
        _ if base < first => Err(KernelErrorReason::TooOld),
        _ if base > last => Err(KernelErrorReason::TooNew),
        Some(last) if base > last => Err(KernelErrorReason::NoSuchRelease { last }),
        Some(_) | None => Ok(KernelVersion { base, line }),
    }
}

fn read_rhel(numbers: &str) -> Result<KernelVersion, KernelErrorReason> {
    let read = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    let (major, minor) = numbers.split_once('.').ok_or(KernelErrorReason::NotARelease)?;
    let (Some(major), Some(minor)) = (read(major), read(minor)) else { return Err(KernelErrorReason::NotARelease) };
    let base = Lineage::of_rhel(major).ok_or(KernelErrorReason::UnknownRhel)?.base();
    Ok(KernelVersion { base, line: BackportSet::Rhel { major, minor } })
}

/// Returns the name that a wrong text was likely meant to be: the kernel that calls itself so, or a
/// similar name.
fn suggestion(text: &str) -> Option<String> {
    let (_, rest) = leading_numbers(text);
    let begins_so = || KernelVersion::of_release(text).filter(|_| !rest.is_empty());
    let without_v = || text.strip_prefix('v').and_then(KernelVersion::from_name);
    let similar = || nearest(text, KernelVersion::NAMES.iter().copied().chain(["rhel-8.8", "rhel-9.3"]));
    without_v().or_else(begins_so).map(KernelVersion::name).or_else(|| similar().map(ToString::to_string))
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            BackportSet::Series => fmt::Display::fmt(&self.base, f),
            BackportSet::Stable(patch) => f.pad(&format!("{}.{patch}", self.base)),
            BackportSet::Rhel { major, minor } => f.pad(&format!("rhel-{major}.{minor}")),
        }
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

impl Default for KernelVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl Default for Settings {
    fn default() -> Self {
        KernelVersion::default().settings()
    }
}
