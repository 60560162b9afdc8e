//! [`Knob`]: a part of a program that can be set after its file was read: a group's limit, a
//! service's workers.
//!
//! ```text
//! cpu.max             of the only group that has a limit (or of the only group)
//! /web:cpu.max        of this group
//! limits.cpu          the same as a number of CPUs: CPUQuota and --cpus, too
//! workers             of the only service
//! web:workers         of this service, or the instances of this task
//! ```
//!
//! Settings of the scheduler and parameters of the scenario are not knobs: they are applied before
//! or apart from the program.

use std::fmt;
use zerolag_model::{CpuMax, CpuMaxError, Duration};
use zerolag_workload::Program;
use zerolag_workload::limits;
use zerolag_workload::program::{GroupDef, GroupWeight, TaskDef};

/// The part that is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `cpu.max`: quota, and optionally the period.
    Max,
    /// `cpu.max.burst`, `cpu.cfs_burst_us`.
    Burst,
    /// `cpu.cfs_period_us`. A limit that was given in CPUs stays the same number of CPUs; any other
    /// quota stays as it is, as in the kernel.
    Period,
    /// `cpu.cfs_quota_us`.
    Quota,
    /// The limit as a number of CPUs: `limits.cpu` (Kubernetes), `--cpus` (Docker).
    Cpus,
    /// The limit as a percentage of one CPU: `CPUQuota` (systemd).
    Percent,
    /// The weight as a number of CPUs: `requests.cpu`.
    Request,
    /// `cpu.weight`.
    Weight,
    /// `cpu.shares`.
    Shares,
    /// The threads of a service or task.
    Workers,
}

impl Part {
    /// Every spelling.
    pub const NAMES: [(&'static str, Self); 18] = [
        ("cpu.max", Self::Max),
        ("cpu.max.burst", Self::Burst),
        ("cpu.cfs_burst_us", Self::Burst),
        ("cpu.cfs_period_us", Self::Period),
        ("cpu.cfs_quota_us", Self::Quota),
        ("cpu.weight", Self::Weight),
        ("cpu.shares", Self::Shares),
        ("workers", Self::Workers),
        ("limits.cpu", Self::Cpus),
        ("requests.cpu", Self::Request),
        ("CPUQuota", Self::Percent),
        ("CPUQuotaPeriodSec", Self::Period),
        ("CPUWeight", Self::Weight),
        ("--cpus", Self::Cpus),
        ("--cpu-quota", Self::Quota),
        ("--cpu-period", Self::Period),
        ("--cpu-shares", Self::Shares),
        ("limits.cpus", Self::Cpus),
    ];

    /// Returns whether larger values of it are a larger limit of CPU time.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Max | Self::Quota | Self::Cpus | Self::Percent)
    }
}

/// A part of a program, found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knob {
    /// The part.
    pub part: Part,
    /// Its owner: index of the group, or of the task.
    pub index: usize,
}

/// Why a knob cannot be found or set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnobError {
    /// The mistake.
    pub message: String,
    /// A valid alternative.
    pub help: String,
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for KnobError {}

fn error<T>(message: impl Into<String>, help: impl Into<String>) -> Result<T, KnobError> {
    Err(KnobError { message: message.into(), help: help.into() })
}

impl Knob {
    /// Returns the knob of this name; `None` if it is not a knob (but perhaps a setting or
    /// parameter).
    ///
    /// # Errors
    /// The owner is ambiguous, or does not exist.
    pub fn find(key: &str, program: &Program) -> Option<Result<Self, KnobError>> {
        let (whose, name) = key.rsplit_once(':').map_or((None, key), |(whose, name)| (Some(whose), name));
        let (_, part) = Part::NAMES.iter().find(|(known, _)| *known == name)?;
        let found = if *part == Part::Workers { find_task(whose, program) } else { find_group(name, whose, program) };
        Some(found.map(|index| Self { part: *part, index }))
    }

    /// Sets it.
    ///
    /// # Errors
    /// The value is invalid, or the kernel refuses it.
    pub fn set(self, program: &mut Program, value: &str) -> Result<(), KnobError> {
        if self.part == Part::Workers {
            let count = value.parse::<u32>().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
            let Some(count) = count else {
                return error(format!("`{value}` is not a number of threads"), format!("write 1..={WORKERS_MAX}"));
            };
            program.tasks[self.index].instances = count;
            return Ok(());
        }
        let group = &mut program.groups[self.index];
        let (before, mut cpus) = (group.max, group.cpus.limit_milli);
        let mut in_cpus = |milli: Option<u64>| {
            cpus = milli;
            CpuMax { quota: milli.map(|milli| limits::cpus_to_quota(milli, before.period)), ..before }
        };
        let max = match self.part {
            Part::Workers | Part::Weight | Part::Shares | Part::Request => return set_weight(self.part, group, value),
            Part::Cpus => in_cpus(limit(value, limits::milli_cpus, "CPUs", "750m or 0.75")?),
            Part::Percent => in_cpus(limit(value, limits::percent, "CPU time", "75%")?),
            Part::Max => {
                let mut words = value.split_whitespace();
                let quota = quota(words.next().unwrap_or_default())?;
                let period = words.next().map(micros).transpose()?.unwrap_or(before.period);
                cpus = None;
                CpuMax { quota, period, ..before }
            }
            Part::Quota => {
                cpus = None;
                CpuMax { quota: quota(value)?, ..before }
            }
            Part::Period => {
                let period = micros(value)?;
                let quota = cpus.map(|milli| limits::cpus_to_quota(milli, period)).or(before.quota);
                CpuMax { quota, period, ..before }
            }
            Part::Burst => CpuMax { burst: micros(value)?, ..before },
        };
        // The kernel also refuses a quota below the burst: to lower the quota below it, lower
        // the burst first.
        match max.check() {
            Ok(()) => {
                group.max = max;
                group.cpus.limit_milli = cpus;
                Ok(())
            }
            Err(CpuMaxError::BurstAboveQuota { burst, quota }) => {
                error(format!("`{value}`: burst {burst} is above the quota {quota} (EINVAL)"), "lower the burst, too")
            }
            Err(wrong) => error(format!("`{value}`: {wrong} (EINVAL)"), "write microseconds, or a time with its unit"),
        }
    }

    /// Returns the range of values of a search, from the smallest to the largest, and their step;
    /// in microseconds, thousandths of a CPU, or threads. `None` if the values have no order of
    /// more and less.
    #[must_use]
    pub fn range(self, program: &Program, nr_cpus: usize) -> Option<(u64, u64, u64)> {
        if self.part == Part::Workers {
            return Some((1, 1024.max(4 * nr_cpus as u64), 1));
        }
        let max = program.groups[self.index].max;
        let period = max.period.as_micros_floor();
        // One hundredth of a CPU.
        let step = (period / 100).max(1);
        match self.part {
            Part::Max | Part::Quota => {
                let least = CpuMax::SHORTEST.as_micros_floor().max(max.burst.as_micros_floor()).max(step);
                Some((least.next_multiple_of(step), period * nr_cpus as u64, step))
            }
            Part::Cpus | Part::Percent => {
                let least = CpuMax::SHORTEST.max(max.burst).as_micros_floor();
                let milli = (least * 1000).div_ceil(period.max(1)).max(MILLI_STEP);
                Some((milli.next_multiple_of(MILLI_STEP), 1000 * nr_cpus as u64, MILLI_STEP))
            }
            Part::Burst => Some((0, max.quota?.as_micros_floor(), step)),
            Part::Weight => Some((1, 10_000, 1)),
            Part::Shares => Some((2, 262_144, 1)),
            Part::Request => Some((MILLI_STEP, 1000 * nr_cpus as u64, MILLI_STEP)),
            Part::Period | Part::Workers => None,
        }
    }

    /// Returns a value as it is written into the file of that name.
    #[must_use]
    pub fn written(self, program: &Program, value: u64) -> String {
        match self.part {
            Part::Max => format!("{value} {}", program.groups[self.index].max.period.as_micros_floor()),
            Part::Cpus | Part::Request => limits::milli_text(value),
            Part::Percent => format!("{}%", value / 10),
            Part::Burst | Part::Period | Part::Quota | Part::Weight | Part::Shares | Part::Workers => value.to_string(),
        }
    }
}

fn find_task(whose: Option<&str>, program: &Program) -> Result<usize, KnobError> {
    let named = |name: &str| program.tasks.iter().position(|task| *task.name == *name);
    let known =
        |tasks: &mut dyn Iterator<Item = &TaskDef>| tasks.map(|task| &*task.name).collect::<Vec<_>>().join(", ");
    match (whose, &program.sources[..]) {
        (Some(name), _) => match named(name) {
            Some(index) => Ok(index),
            None => error(
                format!("there is no service or task `{name}`"),
                format!("known are {}", known(&mut program.tasks.iter())),
            ),
        },
        (None, [only]) => named(&only.name).map_or_else(|| error("the service has no threads", ""), Ok),
        (None, []) => error("the workload has no service", "name a task, as in worker:workers"),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|source| &*source.name).collect();
            error(format!("ambiguous service; candidates: {}", names.join(", ")), format!("write {}:workers", names[0]))
        }
    }
}

fn find_group(name: &str, whose: Option<&str>, program: &Program) -> Result<usize, KnobError> {
    let paths = || program.groups.iter().map(|group| &*group.path).collect::<Vec<_>>().join(", ");
    if let Some(path) = whose {
        return match program.groups.iter().position(|group| *group.path == *path) {
            Some(index) => Ok(index),
            None => error(format!("there is no group `{path}`"), format!("known are {}", paths())),
        };
    }
    let limited: Vec<usize> = (0..program.groups.len()).filter(|at| program.groups[*at].max.quota.is_some()).collect();
    match (&limited[..], program.groups.len()) {
        ([only], _) => Ok(*only),
        (_, 0) => error(
            format!("the workload has no group that `{name}` could be of"),
            "write [group.\"/name\"] into the scenario",
        ),
        ([], 1) => Ok(0),
        _ => error(
            format!("ambiguous group; candidates: {}", paths()),
            format!("write {}:{name}", program.groups[0].path),
        ),
    }
}

/// Sets the weight of a group.
fn set_weight(part: Part, group: &mut GroupDef, value: &str) -> Result<(), KnobError> {
    let number = |range: core::ops::RangeInclusive<u32>| {
        let found = value.parse::<u32>().ok().filter(|number| range.contains(number));
        found.map_or_else(
            || error(format!("`{value}` is not a weight"), format!("write {}..={}", range.start(), range.end())),
            Ok,
        )
    };
    let (weight, request_milli) = match part {
        Part::Request => match limits::milli_cpus(value) {
            Some(milli) => {
                let shares = limits::shares_of_milli(milli);
                let weight = limits::shares_to_weight(shares, limits::Conversion::Quadratic);
                (GroupWeight::Weight(weight), Some(milli))
            }
            None => return error(format!("`{value}` is not a number of CPUs above zero"), "write 750m or 0.75"),
        },
        Part::Shares => (GroupWeight::Shares(number(2..=262_144)?), None),
        _ => (GroupWeight::Weight(number(1..=10_000)?), None),
    };
    group.weight = weight;
    group.cpus.request_milli = request_milli;
    Ok(())
}

/// Reads a limit as thousandths of a CPU; `None` is no limit.
fn limit(text: &str, read: fn(&str) -> Option<u64>, what: &str, form: &str) -> Result<Option<u64>, KnobError> {
    match text {
        "max" | "infinity" => Ok(None),
        _ => read(text).map_or_else(
            || error(format!("`{text}` is not an amount of {what} above zero"), format!("write {form}, or max")),
            |milli| Ok(Some(milli)),
        ),
    }
}

fn quota(text: &str) -> Result<Option<Duration>, KnobError> {
    if matches!(text, "max" | "-1") { Ok(None) } else { micros(text).map(Some) }
}

/// Reads microseconds, or a time with a unit.
fn micros(text: &str) -> Result<Duration, KnobError> {
    let found =
        text.parse().map_or_else(|_| text.parse().ok(), |count: u32| Some(Duration::from_micros(u64::from(count))));
    found.map_or_else(|| error(format!("`{text}` is not a time"), "write microseconds, or a time with its unit"), Ok)
}

/// The step of a search for a number of CPUs, in thousandths.
const MILLI_STEP: u64 = 10;

/// The most threads.
const WORKERS_MAX: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_workload::{LoadOptions, load};

    fn program(groups: &str) -> Program {
        let text = format!(
            "{groups}\n[service.web]\nworkers = 2\narrivals = {{ fixed = \"1/s\" }}\nsteps = [{{ run = \"1ms\" }}]\n\
             [task.batch]\nsteps = [{{ run = \"1ms\" }}]\n"
        );
        load("s.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}")).program
    }

    fn set(program: &mut Program, key: &str, value: &str) -> Result<(), String> {
        let knob = Knob::find(key, program).expect("a knob").map_err(|error| error.message)?;
        knob.set(program, value).map_err(|error| error.message)
    }

    #[test]
    fn the_only_limited_group_is_meant() {
        let mut program = program("[group.\"/a\"]\n[group.\"/web\"]\n\"cpu.max\" = \"50000 100000\"");
        set(&mut program, "cpu.max", "20000").expect("set");
        assert_eq!(program.groups[1].max.to_string(), "20000 100000");
        set(&mut program, "cpu.max", "max 50000").expect("set");
        set(&mut program, "/web:cpu.cfs_quota_us", "30ms").expect("set");
        set(&mut program, "/web:cpu.max.burst", "1000").expect("set");
        assert_eq!(program.groups[1].max.to_string(), "30000 50000 (burst 1000)");
        set(&mut program, "workers", "7").expect("set");
        set(&mut program, "batch:workers", "3").expect("set");
        assert_eq!(program.tasks.iter().map(|task| task.instances).collect::<Vec<_>>(), [3, 7]);
        assert!(Knob::find("hz", &program).is_none());
    }

    #[test]
    fn a_limit_in_cpus_stays_the_same_number_of_cpus_in_every_period() {
        let mut program = program("[group.\"/web\"]\n\"cpu.max\" = \"50000 100000\"");
        let max = |program: &Program| program.groups[0].max.to_string();
        for (key, value, effective) in [
            ("limits.cpu", "750m", "75000 100000"),
            ("cpu.cfs_period_us", "10000", "7500 10000"),
            ("CPUQuota", "150%", "15000 10000"),
            ("CPUQuotaPeriodSec", "20ms", "30000 20000"),
            ("--cpus", "0.5", "10000 20000"),
            ("--cpu-period", "100000", "50000 100000"),
            // From here on the quota is a time, which no period changes.
            ("cpu.max", "40000", "40000 100000"),
            ("cpu.cfs_period_us", "10000", "40000 10000"),
            ("limits.cpu", "max", "max 10000"),
        ] {
            set(&mut program, key, value).expect("set");
            assert_eq!(max(&program), effective, "{key}={value}");
        }
        set(&mut program, "requests.cpu", "500m").expect("set");
        assert_eq!(
            (program.groups[0].weight, program.groups[0].cpus.request_milli),
            (GroupWeight::Weight(59), Some(500))
        );
        set(&mut program, "cpu.shares", "512").expect("set");
        assert_eq!((program.groups[0].weight, program.groups[0].cpus.request_milli), (GroupWeight::Shares(512), None));
        for (key, value) in [("limits.cpu", "0"), ("limits.cpu", "-1"), ("CPUQuota", "20"), ("requests.cpu", "x")] {
            assert!(set(&mut program, key, value).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn a_search_in_cpus_goes_from_the_least_quota_to_the_machine() {
        let mut program = program("[group.\"/web\"]\n\"cpu.max\" = \"50000 100000\"");
        let knob = |program: &Program, key| Knob::find(key, program).expect("a knob").expect("one group");
        let cpus = knob(&program, "limits.cpu");
        assert_eq!(cpus.range(&program, 4), Some((10, 4000, 10)));
        assert_eq!((cpus.written(&program, 750), cpus.written(&program, 2000)), ("750m".to_owned(), "2".to_owned()));
        set(&mut program, "cpu.cfs_period_us", "10000").expect("set");
        assert_eq!(cpus.range(&program, 4), Some((100, 4000, 10)), "a quota is at least 1 ms");
        assert_eq!(knob(&program, "CPUQuota").written(&program, 750), "75%");
    }

    #[test]
    fn what_cannot_be_set_is_said() {
        let mut two = program("[group.\"/a\"]\n[group.\"/b\"]");
        assert_eq!(set(&mut two, "cpu.max", "1000"), Err("ambiguous group; candidates: /a, /b".to_owned()));
        assert_eq!(set(&mut two, "/c:cpu.max", "1000"), Err("there is no group `/c`".to_owned()));
        assert_eq!(set(&mut two, "/a:cpu.max", "10"), Err("`10`: quota 10us is below 1ms (EINVAL)".to_owned()));
        assert_eq!(set(&mut two, "/a:cpu.max", "much"), Err("`much` is not a time".to_owned()));
        assert_eq!(set(&mut two, "workers", "0"), Err("`0` is not a number of threads".to_owned()));
        assert_eq!(set(&mut two, "db:workers", "1"), Err("there is no service or task `db`".to_owned()));
        assert!(set(&mut program(""), "cpu.max", "1000").is_err());
    }
}
