//! `[[change]]`: changes at given times: a group's limit or weight; a task's attributes, CPUs or
//! group; groups and threads that are created and removed; CPUs; the limit of real-time tasks; the
//! scheduler of `sched_ext`.
//!
//! ```toml
//! [[change]]
//! at = "5s"
//! group = "/batch"
//! "cpu.weight" = 10
//!
//! [[change]]
//! at = "8s"
//! task = "batch"
//! nice = 10
//! cpus = "0-1"
//!
//! [[change]]
//! at = "9s"
//! cpu = 3
//! online = false
//! ```

use super::ScenarioReader;
use super::table::{Table, kind, signed_int, span};
use super::task::SCHED_KEYS;
use super::tree::Value;
use crate::change::Change;
use crate::check;
use crate::diagnostic::Span;
use crate::program::AffinityChange;
use zerolag_model::settings::SchedExt;
use zerolag_model::{CpuId, CpuMask, Duration, Settings};

/// Keys of a change of a task; a change of a group has those of the group, and [`LIFE_KEYS`].
pub(super) const KEYS: [&str; 14] = [
    "at", "task", "group", "policy", "priority", "nice", "slice", "runtime", "deadline", "period", "flags", "cpus",
    "start", "end",
];

/// Keys of a change of a CPU.
pub(super) const CPU_KEYS: [&str; 3] = ["at", "cpu", "online"];
/// Keys of changes of the real-time limit: one at a time, because they are two files.
pub(super) const RT_RUNTIME_KEYS: [&str; 2] = ["at", "sched_rt_runtime_us"];
pub(super) const RT_PERIOD_KEYS: [&str; 2] = ["at", "sched_rt_period_us"];
/// Keys of a change that loads or unloads a scheduler, with the names of the settings.
pub(super) const POLICY_KEYS: [&str; 3] = ["at", "sched_ext", "sched_ext.policy"];
/// Keys of a change that creates or removes a group.
pub(super) const LIFE_KEYS: [&str; 2] = ["create", "remove"];

/// Microseconds; the bound of the setting.
pub(super) const RT_RUNTIME_MAX: i64 = 1 << 22;

impl ScenarioReader<'_> {
    /// Reads `[[change]]`.
    pub(super) fn changes(&mut self, root: &Table<'_, '_>) {
        let Some(entry) = root.get("change") else { return };
        let Value::Array(items) = entry.item.get_ref() else {
            let help = "write [[change]] with at = \"2s\"";
            self.report.error_help(entry.key_span, "`change` is an array of tables", help);
            return;
        };
        for item in items.iter() {
            let Some(table) = Table::of("change", item, self.report) else { continue };
            let Some(at) = table.time("at", self.report) else {
                if table.get("at").is_none() {
                    self.report.error_help(span(item), "a change has no time", "write at = \"2s\"");
                }
                continue;
            };
            match (table.get("task"), table.get("group")) {
                (Some(_), _) => self.task_change(at, &table),
                (None, Some(_)) => self.group_change(at, &table),
                (None, None) if table.get("cpu").is_some() => self.cpu_change(at, &table),
                (None, None) if table.get("sched_rt_runtime_us").is_some() => self.rt_runtime_change(at, &table),
                (None, None) if table.get("sched_rt_period_us").is_some() => self.rt_period_change(at, &table),
                (None, None) if POLICY_KEYS[1..].iter().any(|key| table.get(key).is_some()) => {
                    self.policy_change(at, &table);
                }
                (None, None) => {
                    let help = "write task = \"NAME\", group = \"/PATH\", cpu = N, sched_ext = \"all\", sched_rt_runtime_us = N or sched_rt_period_us = N";
                    self.report.error_help(span(item), "a change that names nothing to change", help);
                }
            }
        }
        self.check_hotplug(entry.key_span);
    }

    /// Returns the CPU of this number; reports that the machine has no such CPU.
    pub(super) fn existing_cpu(&mut self, number: u64, place: Span) -> Option<CpuId> {
        let cpu = CpuId(u32::try_from(number).unwrap_or(u32::MAX));
        if cpu.index() >= self.nr_cpus {
            self.report.push(check::no_such_cpu(place, i64::from(cpu.0), self.nr_cpus));
            return None;
        }
        Some(cpu)
    }

    fn cpu_change(&mut self, at: Duration, table: &Table<'_, '_>) {
        table.refuse_unknown(&CPU_KEYS, "a change of a CPU", self.report);
        let Some((number, place)) = table.int("cpu", 0..=u64::from(u32::MAX), self.report) else { return };
        let Some(cpu) = self.existing_cpu(number, place) else { return };
        match table.get("online").map(|entry| (entry.item, entry.item.get_ref())) {
            Some((_, Value::Boolean(is_online))) => {
                let what = Change::Cpu { cpu, is_online: *is_online };
                self.assembly.program.change(at, what);
            }
            Some((item, other)) => {
                self.report.error(span(item), format!("`online` is true or false, not {}", kind(other)));
            }
            None => self.report.error_help(table.span, "a change that changes nothing", "write online = false"),
        }
    }

    /// Reads `sched_rt_runtime_us`, in the range of the setting; -1 is no limit.
    fn rt_runtime_change(&mut self, at: Duration, table: &Table<'_, '_>) {
        table.refuse_unknown(&RT_RUNTIME_KEYS, "a change of sched_rt_runtime_us", self.report);
        let Some(entry) = table.get("sched_rt_runtime_us") else { return };
        if let Some(micros) = signed_int(entry.key, entry.item, -1..=i128::from(RT_RUNTIME_MAX), self.report) {
            let runtime = u64::try_from(micros).ok().map(Duration::from_micros);
            self.assembly.program.change(at, Change::RtRuntime { runtime });
        }
    }

    /// Reads `sched_rt_period_us`, in the range of the setting.
    fn rt_period_change(&mut self, at: Duration, table: &Table<'_, '_>) {
        table.refuse_unknown(&RT_PERIOD_KEYS, "a change of sched_rt_period_us", self.report);
        let range = 1..=RT_RUNTIME_MAX.unsigned_abs();
        if let Some((micros, _)) = table.int("sched_rt_period_us", range, self.report) {
            self.assembly.program.change(at, Change::RtPeriod { period: Duration::from_micros(micros) });
        }
    }

    /// Reads a change that loads a scheduler (`sched_ext = "all"`, `"partial"`; a built-in one by
    /// `sched_ext.policy`), or unloads it (`sched_ext = "off"`).
    fn policy_change(&mut self, at: Duration, table: &Table<'_, '_>) {
        table.refuse_unknown(&POLICY_KEYS, "a change of the scheduler", self.report);
        let mut settings = Settings::default();
        let mut is_wrong = false;
        for key in &POLICY_KEYS[1..] {
            let Some(entry) = table.get(key) else { continue };
            let Some((text, place)) = table.string(key, self.report) else { return };
            if let Err(error) = settings.set(entry.key, text) {
                self.report.error(place, error.to_string());
                is_wrong = true;
            }
        }
        if is_wrong {
            return;
        }
        let tasks = table.get("sched_ext").map(|_| settings.sched_ext);
        let policy = table.get("sched_ext.policy").map(|_| settings.sched_ext_policy);
        let what = match (tasks, policy) {
            (Some(SchedExt::Off), None) => Change::Unload,
            (Some(SchedExt::Off), Some(_)) => {
                let help = "write sched_ext = \"all\" to load it, or leave sched_ext.policy out";
                self.report.error_help(table.span, "a change that unloads a scheduler loads none", help);
                return;
            }
            (tasks, policy) => Change::Load { policy, tasks },
        };
        self.assembly.program.change(at, what);
    }

    /// Checks that each CPU goes offline only while online, and that never all CPUs of a task do.
    fn check_hotplug(&mut self, place: Span) {
        let program = &self.assembly.program;
        let mut online = CpuMask::first_n(self.nr_cpus);
        let mut ever_offline = CpuMask::new();
        for change in &program.changes {
            let Change::Cpu { cpu, is_online } = change.what else { continue };
            if online.contains(cpu) == is_online {
                let state = if is_online { "online" } else { "offline" };
                self.report.error(place, format!("CPU {cpu} is {state} already at {}", change.at));
                return;
            }
            if is_online {
                online.insert(cpu);
            } else {
                online.remove(cpu);
                ever_offline.insert(cpu);
            }
        }
        if ever_offline.is_empty() {
            return;
        }
        let has_room = |cpus: &CpuMask| cpus.iter().any(|cpu| !ever_offline.contains(cpu));
        if !has_room(&CpuMask::first_n(self.nr_cpus)) {
            self.report.error(place, "every CPU goes offline at some time: one must stay");
            return;
        }
        let moved = program.changes.iter().filter_map(|change| match &change.what {
            Change::Affinity { task, cpus: Some(cpus) } => Some((*task, cpus)),
            _ => None,
        });
        let own = program.tasks.iter().enumerate().flat_map(|(index, task)| {
            let cpuset = task.cpuset.map(|set| &program.cpusets[set].cpus);
            let phases = task.phases.iter().filter_map(|phase| match &phase.affinity {
                AffinityChange::Set(cpus) => Some(cpus),
                AffinityChange::Keep | AffinityChange::Reset => None,
            });
            task.affinity.iter().chain(cpuset).chain(phases).map(move |cpus| (index, cpus))
        });
        if let Some((task, cpus)) = own.chain(moved).find(|(_, cpus)| !has_room(cpus)) {
            let name = &program.tasks[task].name;
            let message =
                format!("task \"{name}\" may use CPUs {cpus} only, and each of them goes offline at some time");
            self.report.error_help(place, message, "leave one of them online");
        }
    }

    fn task_change(&mut self, at: Duration, table: &Table<'_, '_>) {
        table.refuse_unknown(&KEYS, "a change of a task", self.report);
        let Some((name, place)) = table.string("task", self.report) else { return };
        let Some(task) = self.task_named("task", name, place) else { return };
        let Some(def) = self.assembly.program.tasks.get(task) else { return };
        let (attr, cpuset) = (def.attr, def.cpuset);
        let before = self.assembly.program.changes.len();
        let push = |reader: &mut Self, what| reader.assembly.program.change(at, what);
        if SCHED_KEYS.iter().any(|key| table.get(key).is_some())
            && let Some(attr) = self.attr(table, Some(attr))
        {
            push(self, Change::Attr { task, attr });
        }
        match self.affinity(table, cpuset) {
            AffinityChange::Keep => {}
            AffinityChange::Reset => push(self, Change::Affinity { task, cpus: None }),
            AffinityChange::Set(cpus) => push(self, Change::Affinity { task, cpus: Some(cpus) }),
        }
        if table.get("group").is_some() {
            let group = self.group(table);
            if let Some(group) = group {
                self.use_group(group, at, table.span);
            }
            push(self, Change::Group { task, group });
        }
        if let Some((count, place)) = table.int("start", 1..=u64::from(u32::MAX), self.report) {
            self.count_instances(count, place);
            push(self, Change::Start { task, count: u32::try_from(count).unwrap_or(1) });
        }
        if table.get("end").is_some_and(|entry| self.said_true("end", entry.item)) {
            push(self, Change::End { task });
        }
        if self.assembly.program.changes.len() == before && !self.report.has_errors() {
            self.report.error_help(
                table.span,
                "a change that changes nothing",
                "write nice = 10, cpus, group, start or end",
            );
        }
    }

    fn group_change(&mut self, at: Duration, table: &Table<'_, '_>) {
        let Some((path, place)) = table.string("group", self.report) else { return };
        match self.assembly.group(path) {
            Ok(Some(id)) => {
                let comes_or_goes = self.coming_and_going(id, at, table);
                if !self.change_of_group(id, at, table) && !comes_or_goes {
                    self.change_of_nothing(table);
                }
            }
            Ok(None) => {
                if !self.change_of_root(at, table) && !self.report.has_errors() {
                    self.report.error_help(place, "a change that changes nothing", "write \"cpu.rt.max\"");
                }
            }
            Err(message) => self.report.error(place, message),
        }
    }
}
