//! [`Knob`]: a part of a program that can be set after its file was read: a group's limit, a
//! service's workers.
//!
//! ```text
//! cpu.max             of the only group that has a limit (or of the only group)
//! /web:cpu.max        of this group
//! limits.cpu          the same as a number of CPUs, and every other key of a group in a scenario
//! workers             of the only service
//! web:workers         of this service, or the instances of this task
//! ```
//!
//! Settings of the scheduler and parameters of the scenario are not knobs: they are applied before
//! or apart from the program.

use std::borrow::Cow;
use std::fmt;
use zerolag_model::settings::nearest;
use zerolag_model::{CpuMax, CpuMaxError, RtBandwidth, UtilClamp};
use zerolag_workload::Program;
use zerolag_workload::limits::{self, LimitPart, LimitValue, WrongLimit};
use zerolag_workload::program::{GroupDef, GroupWeight, InCpus, TaskDef};

/// The part that is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// A limit or weight of a group.
    Limit(LimitPart),
    /// The threads of a service or task.
    Workers,
}

impl Part {
    /// Returns the part of a key, without its owner.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        if key == WORKERS { Some(Self::Workers) } else { LimitPart::of(key).map(Self::Limit) }
    }

    /// Returns every key.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        LimitPart::keys().chain([WORKERS])
    }

    /// Returns whether larger values of it are a larger limit of CPU time.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        match self {
            Self::Limit(part) => part.is_quota(),
            Self::Workers => false,
        }
    }

    /// Returns whether a search for the smallest value makes sense: the values have an order of
    /// more and less.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        let Self::Limit(part) = self else { return true };
        match part {
            LimitPart::Max
            | LimitPart::Quota
            | LimitPart::Cpus
            | LimitPart::PodLimit
            | LimitPart::Percent
            | LimitPart::Burst
            | LimitPart::Weight
            | LimitPart::Shares
            | LimitPart::Request
            | LimitPart::ClampMin
            | LimitPart::ClampMax
            | LimitPart::RtRuntime
            | LimitPart::RtMax => true,
            LimitPart::Nice
            | LimitPart::Conversion
            | LimitPart::Idle
            | LimitPart::Period
            | LimitPart::Slice
            | LimitPart::RtPeriod => false,
        }
    }

    /// Returns the keys whose values have an order of more and less, for messages.
    #[must_use]
    pub fn ordered_keys() -> String {
        let limits = LimitPart::keys_of(|part| Self::Limit(part).is_ordered());
        limits.chain([WORKERS]).collect::<Vec<_>>().join(", ")
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

impl From<WrongLimit> for KnobError {
    fn from(wrong: WrongLimit) -> Self {
        Self { message: wrong.reason, help: wrong.help.map(Cow::into_owned).unwrap_or_default() }
    }
}

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
        let part = Part::of(name)?;
        let found = match part {
            Part::Workers => find_task(whose, program),
            Part::Limit(_) => find_group(name, whose, program),
        };
        Some(found.map(|index| Self { part, index }))
    }

    /// Returns the key that one that is not known was likely meant to be, with its owner.
    #[must_use]
    pub fn nearest(key: &str) -> Option<String> {
        let (whose, name) = key.rsplit_once(':').map_or((None, key), |(whose, name)| (Some(whose), name));
        let near = LimitPart::nearest(name).or_else(|| nearest(name, [WORKERS].into_iter()))?;
        Some(whose.map_or_else(|| near.to_owned(), |whose| format!("{whose}:{near}")))
    }

    /// Sets it.
    ///
    /// # Errors
    /// The value is invalid, or the kernel refuses it.
    pub fn set(self, program: &mut Program, value: &str) -> Result<(), KnobError> {
        match self.part {
            Part::Workers => {
                let count = value.parse::<u32>().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
                let Some(count) = count else {
                    return error(format!("`{value}` is not a number of threads"), format!("write 1..={WORKERS_MAX}"));
                };
                program.tasks[self.index].instances = count;
                Ok(())
            }
            Part::Limit(part) => set_limit(&mut program.groups[self.index], part, value),
        }
    }

    /// Returns the range of values of a search, from the smallest to the largest, and their step;
    /// in microseconds, thousandths of a CPU, or threads. `None` if the values have no order of
    /// more and less.
    #[must_use]
    pub fn range(self, program: &Program, nr_cpus: usize) -> Option<(u64, u64, u64)> {
        let Part::Limit(part) = self.part else { return Some((1, 1024.max(4 * nr_cpus as u64), 1)) };
        let max = program.groups[self.index].max;
        let period = max.period.as_micros_floor();
        // One hundredth of a CPU.
        let step = (period / 100).max(1);
        match part {
            LimitPart::Max | LimitPart::Quota => {
                let least = CpuMax::SHORTEST.as_micros_floor().max(max.burst.as_micros_floor()).max(step);
                Some((least.next_multiple_of(step), period * nr_cpus as u64, step))
            }
            LimitPart::Cpus | LimitPart::PodLimit | LimitPart::Percent => {
                let least = CpuMax::SHORTEST.max(max.burst).as_micros_floor();
                let milli = (least * 1000).div_ceil(period.max(1)).max(MILLI_STEP);
                Some((milli.next_multiple_of(MILLI_STEP), 1000 * nr_cpus as u64, MILLI_STEP))
            }
            LimitPart::Burst => Some((0, max.quota?.as_micros_floor(), step)),
            LimitPart::Weight => Some((1, 10_000, 1)),
            LimitPart::Shares => Some((2, 262_144, 1)),
            LimitPart::Request => Some((MILLI_STEP, 1000 * nr_cpus as u64, MILLI_STEP)),
            LimitPart::ClampMin | LimitPart::ClampMax => Some((0, 100, 1)),
            LimitPart::RtRuntime | LimitPart::RtMax => {
                let period = program.groups[self.index].rt.unwrap_or(GroupDef::NO_RT).period.as_micros_floor();
                let step = (period / 100).max(1);
                Some((step, period, step))
            }
            LimitPart::Nice
            | LimitPart::Conversion
            | LimitPart::Idle
            | LimitPart::Period
            | LimitPart::Slice
            | LimitPart::RtPeriod => None,
        }
    }

    /// Returns a value as it is written into the file of that name.
    #[must_use]
    pub fn written(self, program: &Program, value: u64) -> String {
        let Part::Limit(part) = self.part else { return value.to_string() };
        match part {
            LimitPart::Max => format!("{value} {}", program.groups[self.index].max.period.as_micros_floor()),
            LimitPart::RtMax => {
                let period = program.groups[self.index].rt.unwrap_or(GroupDef::NO_RT).period.as_micros_floor();
                format!("{value} {period}")
            }
            LimitPart::Cpus | LimitPart::PodLimit | LimitPart::Request => limits::milli_text(value),
            LimitPart::Percent => format!("{}%", value / 10),
            LimitPart::Burst
            | LimitPart::Period
            | LimitPart::Slice
            | LimitPart::Quota
            | LimitPart::Weight
            | LimitPart::Nice
            | LimitPart::Shares
            | LimitPart::Conversion
            | LimitPart::Idle
            | LimitPart::ClampMin
            | LimitPart::ClampMax
            | LimitPart::RtRuntime
            | LimitPart::RtPeriod => value.to_string(),
        }
    }
}

fn find_task(whose: Option<&str>, program: &Program) -> Result<usize, KnobError> {
    let named = |name: &str| program.tasks.iter().position(|task| *task.name == *name);
    let known =
        |tasks: &mut dyn Iterator<Item = &TaskDef>| tasks.map(|task| &*task.name).collect::<Vec<_>>().join(", ");
    match (whose, &program.services().collect::<Vec<_>>()[..]) {
        (Some(name), _) => match named(name) {
            Some(index) => Ok(index),
            None => error(
                format!("there is no service or task `{name}`"),
                format!("known are {}", known(&mut program.tasks.iter())),
            ),
        },
        (None, [only]) => named(only).map_or_else(|| error("the service has no threads", ""), Ok),
        (None, []) => error("the workload has no service", "name a task, as in worker:workers"),
        (None, several) => {
            let candidates = several.join(", ");
            error(format!("ambiguous service; candidates: {candidates}"), format!("write {}:workers", several[0]))
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

/// Sets the time of a group's real-time tasks.
fn rt_limit(group: &mut GroupDef, bandwidth: RtBandwidth) -> Result<(), KnobError> {
    if !bandwidth.is_valid() {
        return error(
            format!(
                "cpu.rt_runtime_us {} is above cpu.rt_period_us {} (EINVAL)",
                bandwidth.runtime.unwrap_or_default(),
                bandwidth.period
            ),
            "set a time up to the period, or -1 for no limit",
        );
    }
    group.rt = Some(bandwidth);
    Ok(())
}

/// Sets a limit or weight of a group, over what the group has.
fn set_limit(group: &mut GroupDef, part: LimitPart, text: &str) -> Result<(), KnobError> {
    let before = group.max;
    let milli_before = group.cpus.limit_milli;
    match part.read(text)? {
        LimitValue::Max { quota, period } => {
            let period = period.unwrap_or(before.period);
            limit(group, text, CpuMax { quota: quota.per(period), period, ..before }, quota.milli())
        }
        LimitValue::Period(period) => {
            let quota = milli_before.map(|milli| limits::cpus_to_quota(milli, period)).or(before.quota);
            limit(group, text, CpuMax { quota, period, ..before }, milli_before)
        }
        LimitValue::Burst(burst) => limit(group, text, CpuMax { burst, ..before }, milli_before),
        LimitValue::Slice(slice) => limit(group, text, CpuMax { slice: Some(slice), ..before }, milli_before),
        LimitValue::Weight(_) if group.is_idle => {
            error("the group is idle and has no weight (EINVAL)", "set cpu.idle=0 before")
        }
        LimitValue::Weight(weight) => {
            group.weight = weight;
            group.cpus.request_milli = None;
            Ok(())
        }
        LimitValue::Request(milli) => {
            group.weight = limits::weight_of_request(milli, group.cpus.conversion);
            group.cpus.request_milli = Some(milli);
            Ok(())
        }
        LimitValue::Conversion(conversion) => {
            if let Some(milli) = group.cpus.request_milli {
                group.weight = limits::weight_of_request(milli, conversion);
            }
            group.cpus.conversion = conversion;
            Ok(())
        }
        LimitValue::Idle(is_idle) => {
            // An idle group has no weight; it has the default one afterwards, as in the kernel.
            if is_idle != group.is_idle {
                group.weight = GroupWeight::Weight(100);
                group.cpus = InCpus { request_milli: None, ..group.cpus };
            }
            group.is_idle = is_idle;
            Ok(())
        }
        LimitValue::RtRuntime(runtime) => {
            let before = group.rt.unwrap_or(GroupDef::NO_RT);
            rt_limit(group, RtBandwidth { runtime, ..before })
        }
        LimitValue::RtPeriod(period) => {
            let before = group.rt.unwrap_or(GroupDef::NO_RT);
            rt_limit(group, RtBandwidth { period, ..before })
        }
        LimitValue::RtMax(bandwidth) => rt_limit(group, bandwidth),
        LimitValue::ClampMin(min) => clamp(group, text, min, group.clamp.max()),
        LimitValue::ClampMax(max) => clamp(group, text, group.clamp.min(), max),
    }
}

/// Sets `cpu.max` as the kernel accepts it. The kernel also refuses a quota below the burst: to
/// lower the quota below it, lower the burst first.
fn limit(group: &mut GroupDef, text: &str, max: CpuMax, milli: Option<u64>) -> Result<(), KnobError> {
    match max.check() {
        Ok(()) => {
            group.max = max;
            group.cpus.limit_milli = milli;
            Ok(())
        }
        Err(CpuMaxError::BurstAboveQuota { burst, quota }) => {
            error(format!("`{text}`: burst {burst} is above the quota {quota} (EINVAL)"), "lower the burst, too")
        }
        Err(wrong) => error(format!("`{text}`: {wrong} (EINVAL)"), "write microseconds, or a time with its unit"),
    }
}

fn clamp(group: &mut GroupDef, text: &str, min: u64, max: u64) -> Result<(), KnobError> {
    let Some(clamp) = UtilClamp::new(min, max) else {
        return error(format!("`{text}` is above the strongest CPU"), "write 0 to 100, or max");
    };
    group.clamp = clamp;
    Ok(())
}

/// The step of a search for a number of CPUs, in thousandths.
const MILLI_STEP: u64 = 10;

/// The key of the number of threads.
const WORKERS: &str = "workers";

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
