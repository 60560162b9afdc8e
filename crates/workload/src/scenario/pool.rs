//! The number of threads of a task: a number, `"cpus"`, `"quota"`, or a pool that follows its quota
//! during the run.
//!
//! ```toml
//! workers = { follow = "quota", every = "1s", min = 2 }   # as programs in Go from 1.25 on
//! ```
//!
//! A runtime that follows its quota reads its limit periodically and uses it, rounded up to whole
//! CPUs, as the number of its threads. All limits of a scenario and their changes are known, so the
//! sizes are known too: they become changes of the program.
//!
//! Sources: golang/go issue 73193 and `src/runtime/cgroup_linux.go`, `src/runtime/proc.go` of Go
//! 1.25 (the limit rounded up, at least 2, read at most once a second). Differs: the limits of
//! groups above count too.

use super::ScenarioReader;
use super::table::{Item, Table, span};
use super::tree::Value;
use crate::change::Change;
use crate::diagnostic::Span;
use crate::program::GroupDef;
use zerolag_model::{CpuMax, Duration};

/// Keys of a pool that follows.
pub(super) const KEYS: [&str; 3] = ["follow", "every", "min"];
/// How often a pool reads its limit by default.
const EVERY: Duration = Duration::from_secs(1);

/// A pool that follows its quota.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    task: usize,
    /// The path of its group.
    path: String,
    /// The number of threads without a limit: CPUs.
    cpus: u64,
    every: Duration,
    min: u64,
    size: u64,
}

impl ScenarioReader<'_> {
    /// Reads the number of threads of the next task: a number; `"cpus"` for the number of CPUs of
    /// the machine or the cpuset; `"quota"` for the group's limit in CPUs, rounded up; or a table:
    /// as `"quota"`, and updated during the run.
    pub(super) fn threads(&mut self, key: &str, table: &Table<'_, '_>) -> Option<(u64, Span)> {
        let entry = table.get(key)?;
        let at = span(entry.item);
        let follows = match entry.item.get_ref() {
            Value::String(text) if text == "cpus" => return Some((self.cpus_of(table), at)),
            Value::String(text) if text == "quota" => None,
            Value::String(text) => {
                let message = format!("`{key}` = \"{text}\" is not a number of threads");
                self.report.error_help(at, message, "write a number, \"cpus\" or \"quota\"");
                return None;
            }
            Value::Table(_) => Some(self.follows(key, entry.item)?),
            _ => return table.int(key, 0..=u64::from(u32::MAX), self.report),
        };
        let cpus = self.cpus_of(table);
        let path = match table.get("group").map(|entry| entry.item.get_ref()) {
            Some(Value::String(path)) => path.trim_end_matches('/').to_owned(),
            _ => String::new(),
        };
        let limit =
            quota_in_cpus(&self.assembly.program.groups, &path, |index| self.assembly.program.groups[index].max);
        let min = follows.map_or(0, |(_, min)| min.min(cpus));
        let size = limit.map_or(cpus, |limit| limit.min(cpus)).max(min);
        if let Some((every, _)) = follows {
            let task = self.assembly.program.tasks.len();
            self.pools.push(Pool { task, path, cpus, every, min, size });
        }
        Some((size, at))
    }

    /// Reads a table of a pool that follows: how often it reads its limit, and its least size.
    fn follows(&mut self, key: &str, item: Item<'_, '_>) -> Option<(Duration, u64)> {
        let table = Table::of(key, item, self.report)?;
        table.refuse_unknown(&KEYS, "a pool of threads", self.report);
        let help = "write { follow = \"quota\", every = \"1s\", min = 2 }";
        match table.string("follow", self.report) {
            Some(("quota", _)) => {}
            Some((other, at)) => {
                self.report.error_help(
                    at,
                    format!("`follow` = \"{other}\" is unknown: a pool follows its quota"),
                    help,
                );
                return None;
            }
            None if table.get("follow").is_some() => return None,
            None => {
                self.report.error_help(table.span, format!("`{key}` does not say what it follows"), help);
                return None;
            }
        }
        let every = table.time("every", self.report).unwrap_or(EVERY);
        if every.is_zero() {
            self.report.error(table.span, "`every` is zero: it would read its limit without end");
            return None;
        }
        let min = table.int("min", 1..=u64::from(u32::MAX), self.report).map_or(1, |(min, _)| min);
        Some((every, min))
    }

    /// Returns the number of CPUs of the machine or of a table's cpuset.
    fn cpus_of(&self, table: &Table<'_, '_>) -> u64 {
        let named = |name: &str| self.cpusets.get(name).copied().flatten();
        let cpuset = table.get("cpuset").and_then(|entry| match entry.item.get_ref() {
            Value::String(name) => named(name),
            _ => None,
        });
        cpuset.map_or(self.nr_cpus, |set| self.assembly.program.cpusets[set].cpus.iter().count()) as u64
    }

    /// Converts the sizes of the pools that follow to changes. All limits are known.
    pub(super) fn resize_pools(&mut self) {
        for pool in std::mem::take(&mut self.pools) {
            let program = &self.assembly.program;
            let mut max: Vec<CpuMax> = program.groups.iter().map(|group| group.max).collect();
            let mut size = pool.size;
            let mut resizes: Vec<(Duration, u64)> = Vec::new();
            for change in &program.changes {
                match change.what {
                    Change::Max { group, max: now } => max[group] = now,
                    Change::Create { group } => max[group] = program.groups[group].max,
                    _ => continue,
                }
                let limit = quota_in_cpus(&program.groups, &pool.path, |index| max[index]);
                let now = limit.map_or(pool.cpus, |limit| limit.min(pool.cpus)).max(pool.min);
                let looks = change.at.as_nanos().div_ceil(pool.every.as_nanos()).max(1);
                let at = Duration::from_nanos(pool.every.as_nanos().saturating_mul(looks));
                // Of several changes between two readings the last counts.
                if let Some((_, before)) = resizes.pop_if(|(look, _)| *look == at) {
                    size = resizes.last().map_or(pool.size, |(_, size)| *size);
                    debug_assert!(before != size, "only what differs is kept");
                }
                if now != size {
                    resizes.push((at, now));
                }
                size = now;
            }
            for (at, size) in resizes {
                let threads = u32::try_from(size).unwrap_or(u32::MAX);
                self.assembly.program.change(at, Change::Resize { task: pool.task, threads });
            }
        }
    }
}

/// Returns the limits of a group and of those above it in CPUs, rounded up.
fn quota_in_cpus(groups: &[GroupDef], path: &str, max: impl Fn(usize) -> CpuMax) -> Option<u64> {
    // A group that is named here for the first time has no limit, but those above it can have one.
    let is_within = |group: &GroupDef| {
        path.strip_prefix(&*group.path).is_some_and(|rest| matches!(rest.bytes().next(), None | Some(b'/')))
    };
    let limits = groups.iter().enumerate().filter(|(_, group)| is_within(group)).filter_map(|(index, _)| {
        let max = max(index);
        Some(max.quota?.as_nanos().div_ceil(max.period.as_nanos().max(1)))
    });
    limits.min()
}
