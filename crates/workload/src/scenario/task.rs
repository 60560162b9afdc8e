//! `[task.NAME]`: the scheduling, the CPUs and the phases of a task.
//!
//! Everything that a phase sets persists until another phase changes it: attributes (a phase
//! without `policy` changes the current ones), CPUs (`cpus = "all"` resets them) and group.

use super::scope::TaskScope;
use super::table::{Item, Table, TableEntry, int, kind, span};
use super::times;
use super::tree::Value;
use super::{ScenarioReader, step};
use crate::INSTANCES_MAX;
use crate::assemble::{PhaseOrigin, TaskOrigin};
use crate::change::Change;
use crate::diagnostic::{Diagnostic, Span};
use crate::program::{Action, AffinityChange, Phase, ResourceKind, TaskDef, TimerRef};
use crate::rtapp::{SLICE_MAX, SLICE_MIN, deadline_error};
use std::sync::Arc;
use zerolag_model::settings::nearest;
use zerolag_model::{
    DlFlags, DlParams, Duration, FairPolicy, Nice, Policy, RtPolicy, RtPriority, SchedAttr, UtilClamp,
};

pub(super) const SCHED_KEYS: [&str; 8] =
    ["policy", "priority", "nice", "slice", "runtime", "deadline", "period", "flags"];
pub(super) const TASK_KEYS: [&str; 21] = [
    "policy",
    "priority",
    "nice",
    "slice",
    "runtime",
    "deadline",
    "period",
    "flags",
    "cpus",
    "cpuset",
    "group",
    "process",
    "uclamp_min",
    "uclamp_max",
    "instances",
    "created_on",
    "delay",
    "until",
    "loop",
    "steps",
    "phase",
];
pub(super) const PHASE_KEYS: [&str; 13] = [
    "policy", "priority", "nice", "slice", "runtime", "deadline", "period", "flags", "cpus", "group", "name", "loop",
    "steps",
];

impl ScenarioReader<'_> {
    /// Reads `[task]`, in the order of the text.
    pub(super) fn tasks(&mut self, root: &Table<'_, '_>) {
        let Some(tasks) = root.get("task").and_then(|entry| Table::of("task", entry.item, self.report)) else {
            if root.get("task").is_none() && root.get("service").is_none() {
                let here = Span::default();
                self.report.error_help(
                    here,
                    "the scenario has no tasks",
                    "write [task.NAME] with steps = [{ run = \"1ms\" }]",
                );
            }
            return;
        };
        for entry in tasks.entries() {
            self.assembly.origins.tasks.push(TaskOrigin { name: entry.key_span, phases: Vec::new() });
            let Some(table) = Table::of(entry.key, entry.item, self.report) else { continue };
            let counted = self.threads("instances", &table);
            let (instances, at) = counted.unwrap_or((1, entry.key_span));
            self.count_instances(instances, at);
            if let Some(task) = self.task(&entry, &table, u32::try_from(instances).unwrap_or(1)) {
                self.ends_at(&table, &task);
                self.assembly.program.tasks.push(task);
            }
        }
    }

    /// Counts threads; reports once if there are too many.
    pub(super) fn count_instances(&mut self, instances: u64, at: Span) {
        let before = self.threads;
        self.threads = before.saturating_add(instances);
        let total = self.threads;
        if total > INSTANCES_MAX && before <= INSTANCES_MAX {
            let message = format!(
                "with these {instances} instances there are {total} tasks; at most {INSTANCES_MAX} are simulated"
            );
            self.report.error(at, message);
        }
    }

    /// Reads `until` of the next task: the time at which all its threads end.
    fn ends_at(&mut self, table: &Table<'_, '_>, def: &TaskDef) {
        let Some(until) = table.time("until", self.report) else { return };
        if until <= def.delay {
            self.report.error(table.span, format!("`until` is not after {}: it would end before it begins", def.delay));
            return;
        }
        let task = self.assembly.program.tasks.len();
        self.assembly.program.change(until, Change::End { task });
    }

    fn task(&mut self, entry: &TableEntry<'_, '_>, table: &Table<'_, '_>, instances: u32) -> Option<TaskDef> {
        table.refuse_unknown(&TASK_KEYS, "a task", self.report);
        self.task_body(entry, table, instances)
    }

    /// Reads the actions and the scheduling of a task, or of the threads of a service.
    pub(super) fn task_body(
        &mut self,
        entry: &TableEntry<'_, '_>,
        table: &Table<'_, '_>,
        instances: u32,
    ) -> Option<TaskDef> {
        let mut scope = TaskScope { name: entry.key, instances, own_timers: Vec::new() };
        let attr = self.attr(table, None).unwrap_or(SchedAttr::NORMAL);
        let cpuset = self.cpuset(table);
        let affinity = match self.affinity(table, cpuset) {
            AffinityChange::Set(cpus) => Some(cpus),
            AffinityChange::Keep | AffinityChange::Reset => None,
        };
        let group = self.group(table);
        let process = self.process(table);
        let delay = table.time("delay", self.report).unwrap_or_default();
        let created_on = table.int("created_on", 0..=u64::from(u32::MAX), self.report);
        let created_on = created_on.and_then(|(number, place)| self.existing_cpu(number, place));
        let turns = table.get("loop").and_then(|entry| self.turns(entry));
        let mut phases = match (table.get("steps"), table.get("phase")) {
            (Some(steps), None) => {
                let actions = self.steps(steps, &mut scope);
                self.origin(entry.key_span, actions.1);
                vec![plain_phase(entry.key, actions.0)]
            }
            (None, Some(phases)) => self.phases(phases, attr, cpuset, &mut scope),
            (Some(steps), Some(_)) => {
                self.report.error(steps.key_span, format!("`{}` has both steps and phases", entry.key));
                return None;
            }
            (None, None) => {
                let help = "write steps = [{ run = \"1ms\" }, { sleep = \"9ms\" }]";
                self.report.error_help(entry.key_span, format!("`{}` has no steps", entry.key), help);
                return None;
            }
        };
        step::settle_modes(phases.iter_mut().flat_map(|phase| &mut phase.actions), |timer| match timer {
            TimerRef::Own(place) => scope.own_timers.get(place as usize)?.1.map(|(mode, _)| mode),
            TimerRef::Shared(_) => None,
        });
        let clamp = self.clamp(table);
        let name = entry.key.into();
        Some(TaskDef {
            name,
            instances,
            delay,
            created_on,
            attr,
            affinity,
            group,
            cpuset,
            process,
            clamp,
            turns,
            phases,
        })
    }

    /// Reads the process of a task's threads; returns its number.
    fn process(&mut self, table: &Table<'_, '_>) -> Option<usize> {
        let (name, place) = table.string("process", self.report)?;
        if name.is_empty() {
            self.report.error(place, "`process` is empty: name the process that the threads share");
            return None;
        }
        let known = &mut self.assembly.program.processes;
        Some(known.iter().position(|known| **known == *name).unwrap_or_else(|| {
            known.push(name.into());
            known.len() - 1
        }))
    }

    /// Reads the utilisation clamps.
    fn clamp(&mut self, table: &Table<'_, '_>) -> UtilClamp {
        let mut bound = |key, default| {
            let entry = table.get(key)?;
            int(key, entry.item, 0..=UtilClamp::FULL, self.report).or(Some(default))
        };
        let (min, max) = (bound("uclamp_min", 0), bound("uclamp_max", UtilClamp::FULL));
        if let (Some(min), Some(max), Some(entry)) = (min, max, table.get("uclamp_min"))
            && min > max
        {
            let message = format!("`uclamp_min` {min} is above `uclamp_max` {max} (EINVAL)");
            let help = format!("lower `uclamp_min` to {max} or less, or raise `uclamp_max` to {min} or more");
            self.report.error_help(span(entry.item), message, help);
        }
        UtilClamp::new(min.unwrap_or(0), max.unwrap_or(UtilClamp::FULL)).unwrap_or_default()
    }

    fn origin(&mut self, name: Span, actions: Vec<Span>) {
        if let Some(task) = self.assembly.origins.tasks.last_mut() {
            task.phases.push(PhaseOrigin { name, actions });
        }
    }

    fn phases(
        &mut self,
        entry: TableEntry<'_, '_>,
        mut attr: SchedAttr,
        cpuset: Option<usize>,
        scope: &mut TaskScope<'_>,
    ) -> Vec<Phase> {
        let Value::Array(items) = entry.item.get_ref() else {
            let help = format!("write [[task.{}.phase]]", scope.name);
            self.report.error_help(entry.key_span, "`phase` is an array of tables", help);
            return Vec::new();
        };
        if items.is_empty() {
            self.report.error(entry.key_span, format!("task `{}` has no phases", scope.name));
        }
        let mut phases = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let Some(table) = Table::of("phase", item, self.report) else { continue };
            table.refuse_unknown(&PHASE_KEYS, "a phase", self.report);
            let name: Arc<str> = match table.string("name", self.report) {
                Some((name, _)) => name.into(),
                None => place.to_string().into(),
            };
            let loops = table.int("loop", 0..=u64::MAX, self.report).map_or(1, |(loops, _)| loops);
            let change = self.attr(&table, Some(attr));
            attr = change.unwrap_or(attr);
            let affinity = self.affinity(&table, cpuset);
            let group = self.group(&table);
            let (actions, spans) = match table.get("steps") {
                Some(steps) => self.steps(steps, scope),
                None => {
                    self.report.error(table.span, format!("phase `{name}` has no steps"));
                    continue;
                }
            };
            self.origin(table.span, spans);
            phases.push(Phase { name, loops, attr: change, affinity, group, actions });
        }
        phases
    }

    /// Reads the number of turns through the phases of a task.
    fn turns(&mut self, entry: TableEntry<'_, '_>) -> Option<u64> {
        match entry.item.get_ref() {
            Value::String(text) if text == "forever" => None,
            Value::Integer(_) => int("loop", entry.item, 0..=u64::MAX, self.report),
            other => {
                let message = format!("`loop` is a whole number or \"forever\", not {}", kind(other));
                self.report.error(span(entry.item), message);
                None
            }
        }
    }

    fn cpuset(&mut self, table: &Table<'_, '_>) -> Option<usize> {
        let (name, span) = table.string("cpuset", self.report)?;
        let found = self.cpusets.get(name).copied();
        if found.is_none() {
            let diagnostic = Diagnostic::error(span, format!("there is no cpuset `{name}`"));
            self.report.push(match nearest(name, self.cpusets.keys().map(String::as_str)) {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic.help(format!("write [cpuset.{name}] with \"cpuset.cpus\" = \"0-3\"")),
            });
        }
        found.flatten()
    }

    /// Reads `cpus`; CPUs outside the cpuset are ignored, as in the kernel.
    pub(super) fn affinity(&mut self, table: &Table<'_, '_>, cpuset: Option<usize>) -> AffinityChange {
        let Some(entry) = table.get("cpus") else { return AffinityChange::Keep };
        if matches!(entry.item.get_ref(), Value::String(text) if text == "all") {
            return AffinityChange::Reset;
        }
        let Some(cpus) = self.cpus("cpus", entry.item) else { return AffinityChange::Keep };
        if let Some(set) = cpuset.and_then(|place| self.assembly.program.cpusets.get(place))
            && !set.cpus.intersects(&cpus)
        {
            let message = format!("`cpus` = {cpus} lies outside cpuset `{}` ({})", set.name, set.cpus);
            self.report.error(span(entry.item), message);
        }
        AffinityChange::Set(cpus)
    }

    pub(super) fn group(&mut self, table: &Table<'_, '_>) -> Option<usize> {
        let (path, span) = table.string("group", self.report)?;
        self.assembly.group(path).unwrap_or_else(|message| {
            self.report.error(span, message);
            None
        })
    }

    /// Reads scheduling attributes; `None` if the table has none or they are invalid.
    pub(super) fn attr(&mut self, table: &Table<'_, '_>, current: Option<SchedAttr>) -> Option<SchedAttr> {
        SCHED_KEYS.iter().find_map(|key| table.get(key))?;
        let policy = match table.string("policy", self.report) {
            None => current.map_or(Policy::Other, SchedAttr::policy),
            Some((name, span)) => match Policy::from_name(&name.to_ascii_uppercase()) {
                Some(policy) => policy,
                None => {
                    let known = Policy::ALL.map(Policy::name).join(", ");
                    self.report.error_help(span, format!("unknown policy \"{name}\""), format!("known are {known}"));
                    return None;
                }
            },
        };
        let known: &[&str] = match policy {
            Policy::Other | Policy::Batch => &["policy", "nice", "slice"],
            Policy::Idle | Policy::Ext => &["policy", "nice"],
            Policy::Fifo | Policy::Rr => &["policy", "priority"],
            Policy::Deadline => &["policy", "runtime", "deadline", "period", "flags"],
        };
        for key in SCHED_KEYS.iter().filter(|key| !known.contains(*key)) {
            if let Some(entry) = table.get(key) {
                let message = format!("`{key}` does not apply to {policy}");
                self.report.error_help(entry.key_span, message, format!("it takes {}", known[1..].join(", ")));
            }
        }
        match policy {
            Policy::Other => self.fair(table, FairPolicy::Other, current),
            Policy::Batch => self.fair(table, FairPolicy::Batch, current),
            Policy::Idle => self.fair(table, FairPolicy::Idle, current),
            Policy::Ext => self.fair(table, FairPolicy::Ext, current),
            Policy::Fifo => self.rt(table, RtPolicy::Fifo, current),
            Policy::Rr => self.rt(table, RtPolicy::Rr, current),
            Policy::Deadline => self.deadline(table, current),
        }
    }

    fn fair(&mut self, table: &Table<'_, '_>, policy: FairPolicy, current: Option<SchedAttr>) -> Option<SchedAttr> {
        let (kept_nice, kept_slice) = match current {
            Some(SchedAttr::Fair { nice, slice, .. } | SchedAttr::Ext { nice, slice, .. }) => (nice, slice),
            Some(SchedAttr::Rt { .. } | SchedAttr::Deadline(_)) | None => (Nice::ZERO, None),
        };
        let nice = match table.get("nice") {
            None => kept_nice,
            Some(entry) => {
                let value = super::table::signed_int("nice", entry.item, -20..=19, self.report)?;
                i64::try_from(value).ok().and_then(Nice::new)?
            }
        };
        let slice = match table.get("slice") {
            None => kept_slice,
            Some(entry) => {
                let slice = times::time("slice", entry.item, self.report)?;
                if slice < SLICE_MIN || slice > SLICE_MAX {
                    let message = format!("`slice` = {slice} is outside {SLICE_MIN}..={SLICE_MAX}");
                    self.report.error(span(entry.item), message);
                }
                Some(slice)
            }
        };
        let has_slices = matches!(policy, FairPolicy::Other | FairPolicy::Batch);
        Some(SchedAttr::Fair { policy, nice, slice: slice.filter(|_| has_slices) })
    }

    fn rt(&mut self, table: &Table<'_, '_>, policy: RtPolicy, current: Option<SchedAttr>) -> Option<SchedAttr> {
        let kept = match current {
            Some(SchedAttr::Rt { priority, .. }) => Some(priority),
            Some(SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Deadline(_)) | None => None,
        };
        let priority = match table.get("priority") {
            Some(entry) => {
                let value = int("priority", entry.item, 1..=99, self.report)?;
                i64::try_from(value).ok().and_then(RtPriority::new)
            }
            None => kept,
        };
        if priority.is_none() {
            let span = table.get("policy").map_or(table.span, |entry| entry.key_span);
            self.report.error_help(
                span,
                "a real-time policy without `priority`",
                "write priority = 1..99, 99 is most urgent",
            );
        }
        Some(SchedAttr::Rt { policy, priority: priority? })
    }

    fn deadline(&mut self, table: &Table<'_, '_>, current: Option<SchedAttr>) -> Option<SchedAttr> {
        let kept = match current {
            Some(SchedAttr::Deadline(params)) => Some(params),
            Some(SchedAttr::Fair { .. } | SchedAttr::Ext { .. } | SchedAttr::Rt { .. }) | None => None,
        };
        let mut read = |key: &str, kept: Option<Duration>| match table.get(key) {
            Some(entry) => times::time(key, entry.item, self.report),
            None => kept,
        };
        let runtime = read("runtime", kept.map(|params| params.runtime));
        let period = read("period", kept.map(|params| params.period));
        let deadline = read("deadline", kept.map(|params| params.deadline)).or(period);
        let (Some(runtime), Some(period), Some(deadline)) = (runtime, period, deadline) else {
            let span = table.get("policy").map_or(table.span, |entry| entry.key_span);
            self.report.error(span, "SCHED_DEADLINE needs `runtime` and `period`");
            return None;
        };
        let flags = match table.get("flags") {
            Some(entry) => self.flags(entry.item)?,
            None => kept.map_or(DlFlags::NONE, |params| params.flags),
        };
        let params = DlParams::new(runtime, deadline, period).with_flags(flags);
        if let Some(message) = deadline_error(params) {
            let span = ["runtime", "deadline", "period"].iter().find_map(|key| table.get(key));
            self.report.error(span.map_or(table.span, |entry| entry.key_span), message);
        }
        Some(SchedAttr::Deadline(params))
    }

    /// Reads `flags`: a list of names.
    fn flags(&mut self, item: Item<'_, '_>) -> Option<DlFlags> {
        let Value::Array(items) = item.get_ref() else {
            self.report.error_help(span(item), "`flags` is a list", "write flags = [\"reclaim\"]");
            return None;
        };
        let mut flags = DlFlags::NONE;
        for item in items.iter() {
            let name = super::table::string("a flag", item, self.report)?;
            let span = span(item);
            match DlFlags::ALL.into_iter().find(|(_, known)| *known == name) {
                Some((flag, _)) => flags = flags.and(flag),
                None => {
                    let known = DlFlags::ALL.map(|(_, name)| name).join(", ");
                    self.report.error_help(span, format!("unknown flag \"{name}\""), format!("known are {known}"));
                }
            }
        }
        Some(flags)
    }

    /// Counts a task's instances among the parties of a barrier without `parties`.
    pub(super) fn count_parties(&mut self, id: crate::program::ResourceId, scope: &TaskScope<'_>) {
        if self.counted_barriers.contains(&id)
            && let ResourceKind::Barrier { parties } = &mut self.assembly.program.resources[id.index()].kind
        {
            *parties = parties.saturating_add(scope.instances);
        }
    }
}

/// Returns a phase that changes nothing and runs once.
pub(super) fn plain_phase(name: &str, actions: Vec<Action>) -> Phase {
    Phase { name: name.into(), loops: 1, attr: None, affinity: AffinityChange::Keep, group: None, actions }
}
