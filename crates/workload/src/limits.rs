//! [`LimitPart`]: every spelling of a group's CPU limit and weight, in one table.
//!
//! The kernel has two interfaces for a limit, and systemd, Docker, Compose and Kubernetes have one
//! each. A limit is copied from where it is written: into a scenario, into `--set`, into a sweep,
//! from a manifest. If each of these knew its own spellings, a key would be legal in one place and
//! unknown in the next, and the same text would be read twice with two results.
//!
//! So a spelling is a word in a row of [`LimitPart::TABLE`], and nowhere else. A row says what the
//! key sets, how its value is written and what it means. [`LimitPart::read`] reads the value; the
//! readers differ only in what they do with several keys. A scenario file has no order: two keys
//! for one value contradict each other there. `--set` has one: the later counts. Suggestions,
//! help texts and the tables of the documentation are printed from the rows.
//!
//! Values are text. A number of a TOML file is read as it is written.
//!
//! One difference stays, because the programs have it: in a file, as in a new pod, `limits.cpu` is
//! also the request if there is none. Set over a file, as in a pod that is resized, it is the
//! limit alone.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `cpu_files`, `cpu_legacy_files`,
//! `capacity_from_percent`; systemd.resource-control(5); `docker run`; Compose specification,
//! `05-services.md`, `deploy.md`; Kubernetes API reference v1, `ResourceRequirements`.

mod notation;

pub use notation::{
    Conversion, cpu_max, cpus_to_quota, milli_cpus, milli_text, notations, percent, shares_of_milli, shares_to_weight,
};

use crate::group::GroupWeight;
use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use zerolag_model::settings::nearest;
use zerolag_model::{Duration, Nice, RtBandwidth, UtilClamp};

/// What a key of a group sets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LimitPart {
    /// The weight.
    Weight,
    /// The weight as that of a task of a nice level.
    Nice,
    /// The weight in the unit of cgroup v1.
    Shares,
    /// The weight as a number of CPUs.
    Request,
    /// How a request becomes a weight.
    Conversion,
    /// Whether it yields to all that is not idle.
    Idle,
    /// The least utilisation that its tasks are taken to have.
    ClampMin,
    /// The most.
    ClampMax,
    /// The quota and perhaps the period.
    Max,
    /// The quota alone.
    Quota,
    /// The period. A limit in CPUs stays the same number of CPUs; any other quota stays as it is,
    /// as in the kernel.
    Period,
    /// The burst.
    Burst,
    /// The slice that a CPU takes of the quota at a time.
    Slice,
    /// The limit as a number of CPUs.
    Cpus,
    /// The limit of a container of a pod as a number of CPUs.
    PodLimit,
    /// The limit as a percentage of one CPU.
    Percent,
    /// The time that real-time tasks have on each CPU per period.
    RtRuntime,
    /// That period.
    RtPeriod,
    /// That time and the period, or the budget of the group above.
    RtMax,
}

/// The program whose notation a key is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Notation {
    /// The kernel's unified hierarchy.
    CgroupV2,
    /// The kernel's hierarchy per controller.
    CgroupV1,
    /// Pods.
    Kubernetes,
    /// Units.
    Systemd,
    /// Docker and Podman.
    Docker,
    /// Compose files.
    Compose,
    /// Container runtimes (OCI).
    Runtimes,
    /// No program: a question of the bandwidth text of 2010.
    NoProgram,
}

impl Notation {
    /// All, in the order of documentation.
    pub const ALL: [Self; 8] = [
        Self::CgroupV2,
        Self::CgroupV1,
        Self::Kubernetes,
        Self::Systemd,
        Self::Docker,
        Self::Compose,
        Self::Runtimes,
        Self::NoProgram,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Kubernetes => "Kubernetes",
            Self::Systemd => "systemd",
            Self::Docker => "Docker",
            Self::Compose => "Compose",
            Self::Runtimes => "runtimes",
            Self::NoProgram => "no kernel",
        }
    }
}

/// A row of [`LimitPart::TABLE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitRow {
    /// What its keys set.
    pub sets: LimitPart,
    /// Its keys, each with the program whose it is.
    pub spellings: &'static [(&'static str, Notation)],
    /// How a value is written.
    pub values: &'static str,
    /// A valid value.
    pub example: &'static str,
    /// The value without the key, if there is one.
    pub default: &'static str,
    /// What it means, if the values do not say it.
    pub meaning: &'static str,
}

impl LimitPart {
    /// Every spelling: a row for each way to write a value.
    pub const TABLE: &'static [LimitRow] = &[
        LimitRow {
            sets: Self::Weight,
            spellings: &[("cpu.weight", Notation::CgroupV2), ("CPUWeight", Notation::Systemd)],
            values: "1..10000",
            example: "200",
            default: "100",
            meaning: "its share among its siblings",
        },
        LimitRow {
            sets: Self::Nice,
            spellings: &[("cpu.weight.nice", Notation::CgroupV2)],
            values: "-20..19",
            example: "-5",
            default: "0",
            meaning: "the weight of a task of that level",
        },
        LimitRow {
            sets: Self::Shares,
            spellings: &[
                ("cpu.shares", Notation::CgroupV1),
                ("--cpu-shares", Notation::Docker),
                ("cpu_shares", Notation::Compose),
            ],
            values: "a whole number",
            example: "512",
            default: "1024",
            meaning: "clamped to 2..262144, as the kernel does",
        },
        LimitRow {
            sets: Self::Request,
            spellings: &[("requests.cpu", Notation::Kubernetes)],
            values: "CPUs: `1.5`, `500m`",
            example: "500m",
            default: "",
            meaning: "becomes `cpu.weight`",
        },
        LimitRow {
            sets: Self::Conversion,
            spellings: &[("oci.weight_conversion", Notation::Runtimes)],
            values: "`linear`, `quadratic`",
            example: "linear",
            default: "`quadratic`",
            meaning: "how requests become weights: linear is runc before 1.3.2, crun before 1.23",
        },
        LimitRow {
            sets: Self::Idle,
            spellings: &[("cpu.idle", Notation::CgroupV2)],
            values: "0, 1",
            example: "1",
            default: "0",
            meaning: "1: yields to everything that is not idle, as SCHED_IDLE tasks do (5.15); its weight cannot be set then",
        },
        LimitRow {
            sets: Self::ClampMin,
            spellings: &[("cpu.uclamp.min", Notation::CgroupV2)],
            values: "percent with up to two decimals, `max`",
            example: "20.5",
            default: "0",
            meaning: "the least utilisation that its tasks are taken to have, of the strongest CPU; set at creation",
        },
        LimitRow {
            sets: Self::ClampMax,
            spellings: &[("cpu.uclamp.max", Notation::CgroupV2)],
            values: "percent with up to two decimals, `max`",
            example: "80",
            default: "`max`",
            meaning: "the most utilisation that its tasks are taken to have; set at creation",
        },
        LimitRow {
            sets: Self::Max,
            spellings: &[("cpu.max", Notation::CgroupV2)],
            values: "`QUOTA PERIOD` or `QUOTA`: microseconds or times; `max` for no limit",
            example: "50000 100000",
            default: "`max 100000`",
            meaning: "CPU time of the whole group per period",
        },
        LimitRow {
            sets: Self::Quota,
            spellings: &[
                ("cpu.cfs_quota_us", Notation::CgroupV1),
                ("--cpu-quota", Notation::Docker),
                ("cpu_quota", Notation::Compose),
            ],
            values: "microseconds or a time; -1 for no limit",
            example: "40000",
            default: "-1",
            meaning: "at least 1 ms",
        },
        LimitRow {
            sets: Self::Period,
            spellings: &[
                ("cpu.cfs_period_us", Notation::CgroupV1),
                ("CPUQuotaPeriodSec", Notation::Systemd),
                ("--cpu-period", Notation::Docker),
                ("cpu_period", Notation::Compose),
            ],
            values: "microseconds or a time",
            example: "20ms",
            default: "100000",
            meaning: "1 ms to 1 s",
        },
        LimitRow {
            sets: Self::Burst,
            spellings: &[("cpu.max.burst", Notation::CgroupV2), ("cpu.cfs_burst_us", Notation::CgroupV1)],
            values: "microseconds or a time",
            example: "20000",
            default: "0",
            meaning: "unused quota that later periods may use; at most the quota",
        },
        LimitRow {
            sets: Self::Slice,
            spellings: &[("cpu.cfs_bandwidth_slice_us", Notation::NoProgram)],
            values: "microseconds or a time",
            example: "1000",
            default: "that of `sched_cfs_bandwidth_slice_us`",
            meaning: "the slice of this group's quota that a CPU takes at a time, 1 us to 1 s; in no kernel",
        },
        LimitRow {
            sets: Self::Percent,
            spellings: &[("CPUQuota", Notation::Systemd)],
            values: "percent of one CPU: `150%`; `max`",
            example: "150%",
            default: "",
            meaning: "the limit; stays the same in every period",
        },
        LimitRow {
            sets: Self::Cpus,
            spellings: &[("--cpus", Notation::Docker), ("limits.cpus", Notation::Compose)],
            values: "CPUs: `1.5`, `500m`; `max`",
            example: "0.75",
            default: "",
            meaning: "the limit; stays the same in every period",
        },
        LimitRow {
            sets: Self::PodLimit,
            spellings: &[("limits.cpu", Notation::Kubernetes)],
            values: "CPUs: `1.5`, `500m`; `max`",
            example: "750m",
            default: "",
            meaning: "the limit; stays the same in every period. In a file without `requests.cpu` it is the request too",
        },
        LimitRow {
            sets: Self::RtRuntime,
            spellings: &[
                ("cpu.rt_runtime_us", Notation::CgroupV1),
                ("--cpu-rt-runtime", Notation::Docker),
                ("cpu_rt_runtime", Notation::Compose),
            ],
            values: "microseconds or a time; -1 for no limit",
            example: "50000",
            default: "0",
            meaning: "time of real-time tasks on each CPU per period, with `rt_group_sched = on`; 0: none can be in the group",
        },
        LimitRow {
            sets: Self::RtPeriod,
            spellings: &[
                ("cpu.rt_period_us", Notation::CgroupV1),
                ("--cpu-rt-period", Notation::Docker),
                ("cpu_rt_period", Notation::Compose),
            ],
            values: "microseconds or a time",
            example: "100ms",
            default: "1000000",
            meaning: "the period of that time",
        },
        LimitRow {
            sets: Self::RtMax,
            spellings: &[("cpu.rt.max", Notation::CgroupV2)],
            values: "`RUNTIME PERIOD` or `RUNTIME`: microseconds or times; `max` for the budget of the group above",
            example: "10000 100000",
            default: "`max`",
            meaning: "time that the deadline server of each CPU has for real-time tasks per period, with \
                      `rt_group_sched = hcbs`; 0: none can be in the group. In no kernel yet",
        },
    ];

    /// Returns what a key sets.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        let has = |row: &&LimitRow| row.spellings.iter().any(|(known, _)| *known == key);
        Self::TABLE.iter().find(has).map(|row| row.sets)
    }

    /// Returns every key, in the order of the table.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        Self::TABLE.iter().flat_map(|row| row.spellings).map(|(key, _)| *key)
    }

    /// Returns the keys of what some parts set, in the order of the table.
    pub fn keys_of(has: impl Fn(Self) -> bool) -> impl Iterator<Item = &'static str> {
        let rows = Self::TABLE.iter().filter(move |row| has(row.sets));
        rows.flat_map(|row| row.spellings).map(|(key, _)| *key)
    }

    /// Returns the key that is most similar, whatever its case.
    #[must_use]
    pub fn nearest(key: &str) -> Option<&'static str> {
        Self::keys().find(|known| known.eq_ignore_ascii_case(key)).or_else(|| nearest(key, Self::keys()))
    }

    /// Returns its row.
    ///
    /// # Panics
    /// Never: every part has a row.
    #[must_use]
    pub fn row(self) -> &'static LimitRow {
        Self::TABLE.iter().find(|row| row.sets == self).expect("invariant: every part has a row")
    }

    /// Returns whether it sets the weight, not the limit.
    #[must_use]
    pub const fn is_of_weight(self) -> bool {
        match self {
            Self::Weight | Self::Nice | Self::Shares | Self::Request | Self::Conversion | Self::Idle => true,
            Self::ClampMin
            | Self::ClampMax
            | Self::Max
            | Self::Quota
            | Self::Period
            | Self::Burst
            | Self::Slice
            | Self::Cpus
            | Self::PodLimit
            | Self::Percent
            | Self::RtRuntime
            | Self::RtPeriod
            | Self::RtMax => false,
        }
    }

    /// Returns whether it sets the quota.
    #[must_use]
    pub const fn is_quota(self) -> bool {
        matches!(self, Self::Max | Self::Quota | Self::Cpus | Self::PodLimit | Self::Percent)
    }

    /// Returns whether it sets something of `cpu.max` and its burst.
    #[must_use]
    pub const fn is_of_bandwidth(self) -> bool {
        self.is_quota() || matches!(self, Self::Period | Self::Burst | Self::Slice)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The reason, and a valid form.
    pub fn read(self, text: &str) -> Result<LimitValue, WrongLimit> {
        let text = text.trim();
        Ok(match self {
            Self::Weight => LimitValue::Weight(GroupWeight::Weight(natural(text, 1, 10_000)?)),
            Self::Nice => {
                let nice = number(text, -20, 19)?;
                let nice = Nice::new(nice).ok_or_else(|| outside(nice, -20, 19))?;
                LimitValue::Weight(GroupWeight::Nice(nice))
            }
            Self::Shares => {
                // The kernel clamps silently.
                LimitValue::Weight(GroupWeight::Shares(natural(text, 0, u32::MAX)?.clamp(2, 262_144)))
            }
            Self::Request => LimitValue::Request(cpus(text)?),
            Self::Conversion => LimitValue::Conversion(match text {
                "linear" => Conversion::Linear,
                "quadratic" => Conversion::Quadratic,
                _ => {
                    let help = "known are linear (runc before 1.3.2) and quadratic";
                    return Err(wrong(format!("`{text}` is unknown"), help));
                }
            }),
            Self::Idle => LimitValue::Idle(natural(text, 0, 1)? == 1),
            Self::ClampMin => LimitValue::ClampMin(capacity(text)?),
            Self::ClampMax => LimitValue::ClampMax(capacity(text)?),
            Self::Max => max(text)?,
            Self::Quota => LimitValue::Max { quota: quota(text)?, period: None },
            Self::Period => LimitValue::Period(micros(text)?),
            Self::Burst => LimitValue::Burst(micros(text)?),
            Self::Slice => LimitValue::Slice(micros(text)?),
            Self::Percent => {
                let help = "write 75%, or max";
                let milli = || {
                    percent(text)
                        .ok_or_else(|| wrong(format!("`{text}` is not a percentage of a CPU above zero"), help))
                };
                in_cpus(text, milli)?
            }
            Self::Cpus | Self::PodLimit => in_cpus(text, || cpus(text))?,
            Self::RtRuntime if text == "-1" => LimitValue::RtRuntime(None),
            Self::RtRuntime => LimitValue::RtRuntime(Some(micros(text)?)),
            Self::RtPeriod => LimitValue::RtPeriod(micros(text)?),
            Self::RtMax => rt_max(text)?,
        })
    }
}

/// A value of a group's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitValue {
    /// A quota, perhaps with its period.
    Max {
        /// The quota.
        quota: Quota,
        /// The period; the one before if it is missing.
        period: Option<Duration>,
    },
    /// A period.
    Period(Duration),
    /// A burst.
    Burst(Duration),
    /// A slice.
    Slice(Duration),
    /// A weight.
    Weight(GroupWeight),
    /// A request, in thousandths of a CPU.
    Request(u64),
    /// How a request becomes a weight.
    Conversion(Conversion),
    /// Whether it is idle.
    Idle(bool),
    /// A lower bound of utilisation, 0..=1024.
    ClampMin(u64),
    /// An upper bound.
    ClampMax(u64),
    /// The time of real-time tasks; `None` is no limit.
    RtRuntime(Option<Duration>),
    /// Its period.
    RtPeriod(Duration),
    /// Both; without a runtime the budget of the group above.
    RtMax(RtBandwidth),
}

/// A quota in its notation. A limit in CPUs is kept as such, so that it stays the same when the
/// period changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quota {
    /// No limit.
    Unlimited,
    /// A time.
    PerPeriod(Duration),
    /// Thousandths of a CPU.
    Milli(u64),
}

impl Quota {
    /// Returns the time per period.
    #[must_use]
    pub fn per(self, period: Duration) -> Option<Duration> {
        match self {
            Self::Unlimited => None,
            Self::PerPeriod(quota) => Some(quota),
            Self::Milli(milli) => Some(cpus_to_quota(milli, period)),
        }
    }

    /// Returns the thousandths of a CPU, if it was given so.
    #[must_use]
    pub const fn milli(self) -> Option<u64> {
        match self {
            Self::Milli(milli) => Some(milli),
            Self::Unlimited | Self::PerPeriod(_) => None,
        }
    }
}

/// Returns the weight that a container runtime gives a request of thousandths of a CPU.
#[must_use]
pub fn weight_of_request(milli: u64, conversion: Conversion) -> GroupWeight {
    GroupWeight::Weight(shares_to_weight(shares_of_milli(milli), conversion))
}

/// Why a value is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongLimit {
    /// The reason; it has the value.
    pub reason: String,
    /// A valid form, if the reason does not say it.
    pub help: Option<Cow<'static, str>>,
}

impl fmt::Display for WrongLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for WrongLimit {}

fn wrong(reason: String, help: impl Into<Cow<'static, str>>) -> WrongLimit {
    WrongLimit { reason, help: Some(help.into()) }
}

fn outside(value: impl fmt::Display, low: impl fmt::Display, high: impl fmt::Display) -> WrongLimit {
    WrongLimit { reason: format!("{value} is outside {low}..={high}"), help: None }
}

fn number(text: &str, low: i64, high: i64) -> Result<i64, WrongLimit> {
    let refuse = |_| wrong(format!("`{text}` is not a whole number"), format!("write {low}..={high}"));
    let value: i128 = text.parse().map_err(refuse)?;
    let inside = i64::try_from(value).ok().filter(|value| (low..=high).contains(value));
    inside.ok_or_else(|| outside(value, low, high))
}

fn natural(text: &str, low: u32, high: u32) -> Result<u32, WrongLimit> {
    let value = number(text, i64::from(low), i64::from(high))?;
    u32::try_from(value).map_err(|_| outside(value, low, high))
}

fn cpus(text: &str) -> Result<u64, WrongLimit> {
    let refuse = || wrong(format!("`{text}` is not a number of CPUs above zero"), "write 750m or 0.75");
    milli_cpus(text).ok_or_else(refuse)
}

fn in_cpus(text: &str, milli: impl FnOnce() -> Result<u64, WrongLimit>) -> Result<LimitValue, WrongLimit> {
    let quota = match text {
        "max" | "infinity" => Quota::Unlimited,
        _ => Quota::Milli(milli()?),
    };
    Ok(LimitValue::Max { quota, period: None })
}

fn max(text: &str) -> Result<LimitValue, WrongLimit> {
    let refuse = |reason: &str| wrong(format!("`{text}`: {reason}"), "write \"50000 100000\" or \"max 100000\"");
    let mut words = text.split_whitespace();
    let quota = quota(words.next().ok_or_else(|| refuse("it is empty"))?)?;
    let period = words.next().map(micros).transpose()?;
    if words.next().is_some() {
        return Err(refuse("there are more than two words"));
    }
    Ok(LimitValue::Max { quota, period })
}

/// The period of `cpu.rt.max` if only a runtime is written.
const RT_MAX_PERIOD: Duration = Duration::from_millis(100);

/// Reads the runtime and the period of a group's servers.
fn rt_max(text: &str) -> Result<LimitValue, WrongLimit> {
    let refuse = |reason: &str| wrong(format!("`{text}`: {reason}"), "write \"10000 100000\", or max");
    let mut words = text.split_whitespace();
    let first = words.next().ok_or_else(|| refuse("it is empty"))?;
    let runtime = if matches!(first, "max" | "-1") { None } else { Some(micros(first)?) };
    let period = words.next().map(micros).transpose()?.unwrap_or(RT_MAX_PERIOD);
    if words.next().is_some() {
        return Err(refuse("there are more than two words"));
    }
    if runtime.is_some_and(|runtime| runtime > period) || period.is_zero() {
        return Err(refuse("the runtime is above the period (EINVAL)"));
    }
    Ok(LimitValue::RtMax(RtBandwidth { runtime, period }))
}

fn quota(text: &str) -> Result<Quota, WrongLimit> {
    if matches!(text, "max" | "-1") { Ok(Quota::Unlimited) } else { micros(text).map(Quota::PerPeriod) }
}

/// Reads microseconds, or a time with a unit.
fn micros(text: &str) -> Result<Duration, WrongLimit> {
    let is_count = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let found = if is_count {
        text.parse().ok().filter(|count| *count <= MICROS_MAX).map(Duration::from_micros)
    } else {
        text.parse().ok()
    };
    let refuse = || wrong(format!("`{text}` is not a time"), "write microseconds, or a time with its unit");
    found.ok_or_else(refuse)
}

/// Reads a percentage of the strongest CPU with up to two decimals, or `max`.
fn capacity(text: &str) -> Result<u64, WrongLimit> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let hundredths = (part.len() <= 2).then(|| format!("{whole}{part:0<2}").parse::<u64>().ok()).flatten();
    match (text, hundredths.filter(|value| *value <= 10_000)) {
        ("max", _) => Ok(UtilClamp::FULL),
        // Rounded to the nearest, as `DIV_ROUND_CLOSEST_ULL` does.
        (_, Some(value)) => Ok((value * UtilClamp::FULL + 5_000) / 10_000),
        (_, None) => {
            let help = "write 0 to 100 with up to two decimals, or \"max\"";
            Err(wrong(format!("`{text}` is no percentage"), help))
        }
    }
}

/// Returns the rows as a table of the documentation.
///
/// # Panics
/// Never: writing to a string cannot fail.
#[must_use]
pub fn markdown() -> String {
    let mut text = "| key | value | meaning | default |\n|---|---|---|---|\n".to_owned();
    for row in LimitPart::TABLE {
        let keys: Vec<String> = row.spellings.iter().map(|(key, _)| format!("`{key}`")).collect();
        let line = format!("| {} | {} | {} | {} |\n", keys.join(", "), row.values, row.meaning, row.default);
        text += &line.replace("|  |", "| |");
    }
    text
}

/// Returns the keys of each program, a line each, for help texts.
///
/// # Panics
/// Never: writing to a string cannot fail.
#[must_use]
pub fn help() -> String {
    let mut text = String::new();
    for notation in Notation::ALL {
        let keys: Vec<&str> = keys_in(notation).collect();
        writeln!(text, "  {:10}  {}", notation.name(), keys.join(" ")).expect("invariant: a string takes everything");
    }
    text
}

/// Returns the keys of a program, in the order of the table.
pub fn keys_in(notation: Notation) -> impl Iterator<Item = &'static str> {
    let all = LimitPart::TABLE.iter().flat_map(|row| row.spellings);
    all.filter(move |(_, of)| *of == notation).map(|(key, _)| *key)
}

/// The largest number of microseconds that is read.
const MICROS_MAX: u64 = (u32::MAX as u64) << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_is_in_the_table_once_and_its_example_is_read() {
        let keys: BTreeSet<&str> = LimitPart::keys().collect();
        assert_eq!(keys.len(), LimitPart::keys().count());
        for row in LimitPart::TABLE {
            assert_eq!(row.sets.row(), row, "a part has one row");
            row.sets.read(row.example).unwrap_or_else(|error| panic!("{}: {error}", row.example));
            assert!(row.spellings.iter().all(|(key, _)| LimitPart::of(key) == Some(row.sets)));
        }
        let printed: Vec<&str> = Notation::ALL.into_iter().flat_map(keys_in).collect();
        assert_eq!(printed.into_iter().collect::<BTreeSet<_>>(), keys, "help has every key");
    }

    #[test]
    fn values_are_read_as_their_programs_read_them() {
        let us = Duration::from_micros;
        let max = |quota, period| Ok(LimitValue::Max { quota, period });
        let read = |key: &str, text: &str| LimitPart::of(key).expect(key).read(text).map_err(|wrong| wrong.reason);
        assert_eq!(read("cpu.max", "50000 100000"), max(Quota::PerPeriod(us(50_000)), Some(us(100_000))));
        assert_eq!(read("cpu.max", " 50ms"), max(Quota::PerPeriod(us(50_000)), None));
        assert_eq!(read("cpu.cfs_quota_us", "-1"), max(Quota::Unlimited, None));
        assert_eq!(read("CPUQuota", "infinity"), max(Quota::Unlimited, None));
        assert_eq!(read("limits.cpus", "0.5"), max(Quota::Milli(500), None));
        assert_eq!(read("cpu_shares", "1"), Ok(LimitValue::Weight(GroupWeight::Shares(2))));
        assert_eq!(read("cpu.uclamp.min", "20.5"), Ok(LimitValue::ClampMin(210)));
        assert_eq!(read("cpu.idle", "1"), Ok(LimitValue::Idle(true)));
        for (key, text, reason) in [
            ("cpu.max", "", "``: it is empty"),
            ("cpu.max", "1 2 3", "`1 2 3`: there are more than two words"),
            ("cpu.max", "5e4", "`5e4` is not a time"),
            ("cpu.weight", "0", "0 is outside 1..=10000"),
            ("cpu.weight.nice", "20", "20 is outside -20..=19"),
            ("cpu.idle", "2", "2 is outside 0..=1"),
            ("cpu.uclamp.max", "100.01", "`100.01` is no percentage"),
            ("CPUQuota", "20", "`20` is not a percentage of a CPU above zero"),
            ("--cpus", "0", "`0` is not a number of CPUs above zero"),
            ("oci.weight_conversion", "cubic", "`cubic` is unknown"),
        ] {
            assert_eq!(read(key, text), Err(reason.to_owned()), "{key}");
        }
    }

    #[test]
    fn a_similar_key_is_suggested_whatever_its_case() {
        assert_eq!(LimitPart::nearest("cpuquota"), Some("CPUQuota"));
        assert_eq!(LimitPart::nearest("cpu.wieght"), Some("cpu.weight"));
        assert_eq!(LimitPart::nearest("memory.max"), None);
    }

    #[test]
    fn the_documentation_has_the_tables() {
        let page = |path: &str| {
            let path = format!("{}/../../docs/{path}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let table = markdown();
        assert!(page("reference/scenario.md").contains(&table), "docs/reference/scenario.md must contain:\n{table}");
        let how_to = page("how-to/sweep.md");
        for notation in Notation::ALL {
            let keys: Vec<String> = keys_in(notation).map(|key| format!("`{key}`")).collect();
            let line = format!("| {} | {} |\n", notation.name(), keys.join(", "));
            assert!(how_to.contains(&line), "docs/how-to/sweep.md must contain:\n{line}");
        }
    }
}
