//! [`Knob`]: a part of a program that can be set after its file was read: a group's limit, a
//! service's workers.
//!
//! ```text
//! cpu.max             of the only group that has a limit (or of the only group)
//! /web:cpu.max        of this group
//! workers             of the only service
//! web:workers         of this service, or the instances of this task
//! ```
//!
//! Settings of the scheduler and parameters of the scenario are not knobs: they are applied before
//! or apart from the program.

use std::fmt;
use zerolag_model::{CpuMax, CpuMaxError, Duration};
use zerolag_workload::Program;
use zerolag_workload::program::{GroupWeight, TaskDef};

/// The part that is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// `cpu.max`: quota, and optionally the period.
    Max,
    /// `cpu.max.burst`, `cpu.cfs_burst_us`.
    Burst,
    /// `cpu.cfs_period_us`.
    Period,
    /// `cpu.cfs_quota_us`.
    Quota,
    /// `cpu.weight`.
    Weight,
    /// The threads of a service or task.
    Workers,
}

impl Part {
    /// Every spelling.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("cpu.max", Self::Max),
        ("cpu.max.burst", Self::Burst),
        ("cpu.cfs_burst_us", Self::Burst),
        ("cpu.cfs_period_us", Self::Period),
        ("cpu.cfs_quota_us", Self::Quota),
        ("cpu.weight", Self::Weight),
        ("workers", Self::Workers),
    ];
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
        let before = group.max;
        let max = match self.part {
            Part::Workers | Part::Weight => {
                let weight = value.parse::<u32>().ok().filter(|weight| (1..=10_000).contains(weight));
                let Some(weight) = weight else {
                    return error(format!("`{value}` is not a weight"), "write 1..=10000");
                };
                group.weight = GroupWeight::Weight(weight);
                return Ok(());
            }
            Part::Max => {
                let mut words = value.split_whitespace();
                let quota = quota(words.next().unwrap_or_default())?;
                let period = words.next().map(micros).transpose()?.unwrap_or(before.period);
                CpuMax { quota, period, ..before }
            }
            Part::Quota => CpuMax { quota: quota(value)?, ..before },
            Part::Period => CpuMax { period: micros(value)?, ..before },
            Part::Burst => CpuMax { burst: micros(value)?, ..before },
        };
        // The kernel also refuses a quota below the burst: to lower the quota below it, lower
        // the burst first.
        match max.check() {
            Ok(()) => {
                group.max = max;
                Ok(())
            }
            Err(CpuMaxError::BurstAboveQuota { burst, quota }) => {
                error(format!("`{value}`: burst {burst} is above the quota {quota} (EINVAL)"), "lower the burst, too")
            }
            Err(wrong) => error(format!("`{value}`: {wrong} (EINVAL)"), "write microseconds, or a time with its unit"),
        }
    }

    /// Returns the range of values of a search, from the smallest to the largest, and their step;
    /// in microseconds, or threads. `None` if the values have no order of more and less.
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
            Part::Burst => Some((0, max.quota?.as_micros_floor(), step)),
            Part::Weight => Some((1, 10_000, 1)),
            Part::Period | Part::Workers => None,
        }
    }

    /// Returns a value as it is written into the file of that name.
    #[must_use]
    pub fn written(self, program: &Program, value: u64) -> String {
        match self.part {
            Part::Max => format!("{value} {}", program.groups[self.index].max.period.as_micros_floor()),
            Part::Burst | Part::Period | Part::Quota | Part::Weight | Part::Workers => value.to_string(),
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

fn quota(text: &str) -> Result<Option<Duration>, KnobError> {
    if matches!(text, "max" | "-1") { Ok(None) } else { micros(text).map(Some) }
}

/// Reads microseconds, or a time with a unit.
fn micros(text: &str) -> Result<Duration, KnobError> {
    let found =
        text.parse().map_or_else(|_| text.parse().ok(), |count: u32| Some(Duration::from_micros(u64::from(count))));
    found.map_or_else(|| error(format!("`{text}` is not a time"), "write microseconds, or a time with its unit"), Ok)
}

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
