//! The sections of an rt-app file: global, resources, tasks, phases.
//!
//! Names become indices, sticky properties are copied into the phases that they reach, instances
//! are counted. Loops:
//!
//! | written | rt-app | here |
//! |---|---|---|
//! | task with `phases`, no `loop` or below 0 | forever | `turns: None` |
//! | task with `phases`, `loop` n >= 0 | n turns | `turns: Some(n)` |
//! | task without `phases`, no `loop` or below 1 | forever | `turns: None` |
//! | task without `phases`, `loop` n >= 1 | one phase of n loops | `turns: Some(1)`, `loops: n` |
//! | phase, `loop` n >= 1 | n times | `loops: n` |
//! | phase, `loop` below 1 | forever: the phases after it are never reached | `loops: u64::MAX` |
//!
//! (A `loop` of 0 at phase level does loop forever: rt-app compares for equality after counting.
//! Confirmed by running it.)
//!
//! Source: rt-app 55cb0c0 `src/rt-app_parse_config.c`, `parse_global`, `parse_task_data`,
//! `parse_task_phase_data`; `src/rt-app.c`, `thread_body`, `set_thread_affinity`.

use super::event::Event;
use super::json::{Node, Value};
use super::object::{self, INT, Object};
use super::sched::{self, Level, Props};
use super::state::{Lower, TaskScope};
use crate::assemble::{Assembly, PhaseOrigin, ResourceClass, TaskOrigin};
use crate::check;
use crate::diagnostic::{Diagnostic, Report, Severity, Span};
use crate::program::{Action, AffinityChange, Phase, Program, ResourceId, ResourceKind, TaskDef, TimerMode, TimerRef};
use crate::{INSTANCES_MAX, LoadOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag_model::{ClassId, CpuId, CpuMask, Duration, Policy, SchedAttr};

/// Keys of a task besides events and scheduling.
const TASK_KEYS: [&str; 4] = ["instance", "delay", "loop", "phases"];
/// Keys of tasks and phases about their CPUs and groups.
const PLACE_KEYS: [&str; 3] = ["cpus", "nodes_membind", "taskgroup"];
/// Keys of `global` without effect on a simulation.
const GLOBAL_IGNORED: [&str; 10] = [
    "calibration",
    "lock_pages",
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "io_device",
    "mem_buffer_size",
    "cumulative_slack",
];
/// Keys of tasks in the grammar that rt-app itself no longer reads.
const LEGACY_KEYS: [&str; 3] = ["exec", "lock_order", "resources"];

/// The result of lowering a file.
pub(super) struct Lowered {
    pub(super) program: Program,
    pub(super) duration: Option<Duration>,
}

/// Properties that persist from phase to phase.
struct Sticky {
    attr: SchedAttr,
    group: Option<usize>,
}

/// Lowers a file. Mistakes are reported; the result is then of no use.
pub(super) fn lower(root: &Node<'_>, options: &LoadOptions, report: &mut Report) -> Option<Lowered> {
    let machine = options.machine_override.clone().unwrap_or_else(crate::default_machine);
    let Value::Object(members) = &root.value else {
        let message = format!("the file is {}, not an object with \"tasks\"", root.value.kind());
        report.error(root.span, message);
        return None;
    };
    let root = Object { members, span: root.span };
    root.note_unknown(&[&["tasks", "global", "resources"]], |_| false, report);
    let mut lower = Lower {
        report,
        assembly: Assembly::default(),
        task_names: BTreeMap::new(),
        absolute_timers: BTreeSet::new(),
        declared: BTreeMap::new(),
        buffers: BTreeMap::new(),
        default_policy: Policy::Other,
        inherit: false,
        nr_cpus: machine.nr_cpus(),
    };
    let duration = root.get("global").and_then(|member| lower.global(&member.node));
    if let Some(member) = root.get("resources") {
        lower.resources(&member.node);
    }
    let Some(tasks) = root.get("tasks") else {
        let start = Span { start: root.span.start, end: root.span.start + 1 };
        lower.report.error_help(
            start,
            "the file has no \"tasks\"",
            "write \"tasks\": { \"name\": { \"run\": 1000, ... } }",
        );
        return None;
    };
    let tasks = Object::of(&tasks.node, "tasks", lower.report)?;
    lower.tasks(&tasks);
    lower.settle_timers();
    lower.settle_suspend_points();
    let Lower { assembly, report, .. } = lower;
    if !report.has_errors() {
        check::check(&assembly.program, &assembly.origins, report);
    }
    Some(Lowered { program: assembly.program, duration })
}

impl Lower<'_> {
    pub(super) const fn mutex_kind(&self) -> ResourceKind {
        ResourceKind::Mutex { inherit: self.inherit }
    }

    /// Reads `global`; returns the duration.
    fn global(&mut self, node: &Node<'_>) -> Option<Duration> {
        let object = Object::of(node, "global", self.report)?;
        if let Some((name, span)) = object.string("default_policy", self.report)
            && let Some(policy) = sched::policy(name, span, self.report)
        {
            self.default_policy = policy;
        }
        self.inherit = object.boolean("pi_enabled", self.report).unwrap_or(false);
        let ignored: Vec<_> = object.members.iter().filter(|member| GLOBAL_IGNORED.contains(&&*member.key)).collect();
        if !ignored.is_empty() {
            let keys: Vec<&str> = ignored.iter().map(|member| &*member.key).collect();
            let mut note = Diagnostic::new(Severity::Note, format!("no effect on a simulation: {}", keys.join(", ")));
            note = ignored.iter().fold(note, |note, member| note.at(member.key_span));
            self.report.push(note);
        }
        let known: [&[&str]; 2] = [&GLOBAL_IGNORED, &["duration", "default_policy", "pi_enabled"]];
        object.note_unknown(&known, |_| false, self.report);
        let (seconds, _) = object.int("duration", INT, self.report)?;
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Reads `resources`, which only declares: every resource is created where it is used.
    fn resources(&mut self, node: &Node<'_>) {
        let Value::Object(members) = &node.value else {
            self.report
                .warning(node.span, format!("\"resources\" is {}, not an object: it is ignored", node.value.kind()));
            return;
        };
        for member in members {
            let Some(object) = Object::of(&member.node, &member.key, self.report) else { continue };
            let kind = match object.string("type", self.report) {
                None => {
                    let message = format!(
                        "resource \"{}\" has no \"type\": it is read as a mutex; rt-app refuses it",
                        member.key
                    );
                    self.report.warning(member.key_span, message);
                    ResourceClass::Mutex
                }
                Some(("mutex", _)) => ResourceClass::Mutex,
                Some(("wait" | "signal" | "broadcast" | "sync", _)) => ResourceClass::Condition,
                Some(("timer", _)) => ResourceClass::Timer,
                // Types that rt-app knows and nothing can use.
                Some(("sleep" | "run", _)) => continue,
                Some((kind, span)) => {
                    let help = "known are mutex, wait, signal, broadcast, sync, timer, sleep and run";
                    self.report.error_help(span, format!("\"type\": \"{kind}\" is unknown"), help);
                    continue;
                }
            };
            self.declared.insert(member.key.to_string(), (kind, member.key_span));
        }
    }

    fn tasks(&mut self, tasks: &Object<'_, '_>) {
        if tasks.members.is_empty() {
            self.report.warning(tasks.span, "there are no tasks");
        }
        for (index, member) in tasks.members.iter().enumerate() {
            self.task_names.entry(member.key.to_string()).or_insert(index);
        }
        let mut total = 0_u64;
        for member in tasks.members {
            let origin = TaskOrigin { name: member.key_span, phases: Vec::new() };
            self.assembly.origins.tasks.push(origin);
            let Some(object) = Object::of(&member.node, &member.key, self.report) else { continue };
            let counted = object.int("instance", 0..=*INT.end(), self.report);
            let instances = counted.map_or(1, |(instances, _)| u32::try_from(instances).unwrap_or(0));
            let before = total;
            total += u64::from(instances);
            if total > INSTANCES_MAX && before <= INSTANCES_MAX {
                let span = counted.map_or(member.key_span, |(_, span)| span);
                let message = format!(
                    "with these {instances} instances there are {total} tasks; at most {INSTANCES_MAX} are simulated"
                );
                self.report.error(span, message);
            }
            if let Some(task) = self.task(&member.key, &object, instances) {
                self.assembly.program.tasks.push(task);
            }
        }
    }

    fn task(&mut self, name: &str, object: &Object<'_, '_>, instances: u32) -> Option<TaskDef> {
        if let Some(old) = LEGACY_KEYS.iter().find_map(|key| object.get(key)) {
            let message = format!(
                "task \"{name}\" is written in rt-app's old grammar (\"{}\"), which rt-app itself no longer reads",
                old.key
            );
            let help = "write \"run\": US for exec, \"timer\": {\"ref\": \"unique\", \"period\": US} for period, \
                        \"lock\"/\"unlock\" for lock_order, \"dl-runtime\"/\"dl-period\" for SCHED_DEADLINE";
            self.report.error_help(old.key_span, message, help);
            return None;
        }
        let mut scope = TaskScope { name, instances, own_timers: Vec::new() };
        let delay = object.micros("delay", self.report).map_or(Duration::ZERO, |(delay, _)| delay);
        let props = Props::read(object, Level::Task, self.report);
        let attr = props.initial(self.default_policy, self.report).unwrap_or(SchedAttr::NORMAL);
        self.note_slice_trap(name, object, attr);
        let affinity = self.cpus(object);
        let group = self.group(object);
        let mut sticky = Sticky { attr, group };
        self.refuse_group_of_rt(object, &sticky);
        let (turns, phases) = match object.get("phases") {
            None => {
                let (turns, loops) = match object.int("loop", INT, self.report) {
                    Some((loops @ 1.., _)) => (Some(1), loops.unsigned_abs()),
                    Some(_) | None => (None, 1),
                };
                let actions = self.actions(object, &mut scope);
                let phase = Phase {
                    name: name.into(),
                    loops,
                    attr: None,
                    affinity: AffinityChange::Keep,
                    group: None,
                    actions,
                };
                self.note_task_keys(object);
                (turns, vec![phase])
            }
            Some(member) => {
                let turns = match object.int("loop", INT, self.report) {
                    Some((turns @ 0.., _)) => Some(turns.unsigned_abs()),
                    Some(_) | None => None,
                };
                let phases = Object::of(&member.node, "phases", self.report)?;
                self.note_task_keys_beside_phases(object);
                (turns, self.phases(&phases, &affinity, &mut sticky, &mut scope))
            }
        };
        let mut task = TaskDef {
            name: name.into(),
            instances,
            delay,
            created_on: None,
            attr,
            affinity,
            group,
            cpuset: None,
            process: None,
            clamp: zerolag_model::UtilClamp::NONE,
            turns,
            phases,
        };
        settle_own_timers(&mut task, &scope.own_timers);
        Some(task)
    }

    fn phases(
        &mut self,
        phases: &Object<'_, '_>,
        task_cpus: &Option<Arc<CpuMask>>,
        sticky: &mut Sticky,
        scope: &mut TaskScope<'_>,
    ) -> Vec<Phase> {
        if phases.members.is_empty() {
            self.report.error(phases.span, format!("task \"{}\" has no phases", scope.name));
        }
        // Without a phase that names CPUs the affinity never changes.
        let moves = phases.members.iter().any(|member| {
            matches!(&member.node.value, Value::Object(members) if members.iter().any(|member| member.key == "cpus"))
        });
        let last = phases.members.len().saturating_sub(1);
        let mut lowered = Vec::with_capacity(phases.members.len());
        for (place, member) in phases.members.iter().enumerate() {
            let Some(object) = Object::of(&member.node, &member.key, self.report) else { continue };
            if let Some(task) = self.assembly.origins.tasks.last_mut() {
                task.phases.push(PhaseOrigin { name: member.key_span, actions: Vec::new() });
            }
            let loops = match object.int("loop", INT, self.report) {
                None => 1,
                Some((loops @ 1.., _)) => loops.unsigned_abs(),
                Some((_, span)) => {
                    if place < last {
                        self.report.warning(
                            span,
                            format!("phase \"{}\" never ends: those after it are not reached", member.key),
                        );
                    }
                    u64::MAX
                }
            };
            let attr = Props::read(&object, Level::Phase, self.report).change(sticky.attr, self.report);
            sticky.attr = attr.unwrap_or(sticky.attr);
            let group = self.group(&object);
            sticky.group = group.or(sticky.group);
            self.refuse_group_of_rt(&object, sticky);
            let affinity = match (self.cpus(&object), task_cpus) {
                (Some(cpus), _) => AffinityChange::Set(cpus),
                (None, _) if !moves => AffinityChange::Keep,
                (None, Some(cpus)) => AffinityChange::Set(cpus.clone()),
                (None, None) => AffinityChange::Reset,
            };
            let known: [&[&str]; 4] = [&sched::KEYS, &PLACE_KEYS, &["loop"], &Event::NAMES];
            object.note_unknown(&known, |key| Event::of(key).is_some(), self.report);
            let actions = self.actions_into_last_phase(&object, scope);
            lowered.push(Phase { name: (&*member.key).into(), loops, attr, affinity, group, actions });
        }
        lowered
    }

    /// Lowers the events of a task without phases.
    fn actions(&mut self, object: &Object<'_, '_>, scope: &mut TaskScope<'_>) -> Vec<Action> {
        if let Some(task) = self.assembly.origins.tasks.last_mut() {
            let name = task.name;
            task.phases.push(PhaseOrigin { name, actions: Vec::new() });
        }
        self.actions_into_last_phase(object, scope)
    }

    fn actions_into_last_phase(&mut self, object: &Object<'_, '_>, scope: &mut TaskScope<'_>) -> Vec<Action> {
        let events = object.members.iter().filter(|member| Event::of(&member.key).is_some()).count();
        let mut actions = Vec::with_capacity(events);
        let mut spans = Vec::with_capacity(events);
        for member in object.members {
            let Some(event) = Event::of(&member.key) else { continue };
            if let Some(action) = self.event(event, &member.key, &member.node, scope) {
                actions.push(action);
                spans.push(member.key_span);
            }
        }
        if events == 0 {
            let span = Span { start: object.span.start, end: object.span.start + 1 };
            self.report.error_help(span, "there are no events here", "an event is run, sleep, timer, lock, ...");
        }
        if let Some(phase) = self.assembly.origins.tasks.last_mut().and_then(|task| task.phases.last_mut()) {
            phase.actions = spans;
        }
        actions
    }

    fn cpus(&mut self, object: &Object<'_, '_>) -> Option<Arc<CpuMask>> {
        if let Some(member) = object.get("nodes_membind") {
            let message = "\"nodes_membind\" has no effect: memory placement is not simulated";
            self.report.push(Diagnostic::new(Severity::Note, message).at(member.key_span));
        }
        let member = object.get("cpus")?;
        let Value::Array(items) = &member.node.value else {
            if !matches!(member.node.value, Value::Missing) {
                let message = format!("\"cpus\" is an array of CPU numbers, not {}", member.node.value.kind());
                self.report.error_help(member.node.span, message, "write \"cpus\": [0, 1]");
            }
            return None;
        };
        let mut mask = CpuMask::new();
        for item in items {
            // json-c converts a string of digits to a number here, and only here.
            let number = match &item.value {
                Value::String(text) => text.parse().ok(),
                _ => object::int(item, "cpus", INT, self.report),
            };
            let Some(number) = number else {
                if let Value::String(text) = &item.value {
                    self.report.error(item.span, format!("\"cpus\": \"{text}\" is not a CPU number"));
                }
                continue;
            };
            match usize::try_from(number).ok().filter(|cpu| *cpu < self.nr_cpus) {
                Some(cpu) => {
                    mask.insert(CpuId::from_index(cpu));
                }
                None => self.report.push(check::no_such_cpu(item.span, number, self.nr_cpus)),
            }
        }
        if items.is_empty() {
            self.report.error(member.node.span, "\"cpus\" is empty: the task could run nowhere");
        }
        Some(Arc::new(mask))
    }

    fn group(&mut self, object: &Object<'_, '_>) -> Option<usize> {
        let (path, span) = object.string("taskgroup", self.report)?;
        if path.is_empty() {
            return None;
        }
        self.assembly.group(path).unwrap_or_else(|message| {
            self.report.error(span, message);
            None
        })
    }

    /// Refuses groups of real-time tasks: groups are for fair tasks, as in rt-app.
    fn refuse_group_of_rt(&mut self, object: &Object<'_, '_>, sticky: &Sticky) {
        if sticky.group.is_some() && sticky.attr.class() != ClassId::Fair {
            let span =
                ["taskgroup", "policy"].iter().find_map(|key| object.get(key)).map_or(object.span, |m| m.key_span);
            let policy = sticky.attr.policy();
            self.report.error(span, format!("a task in a task group cannot be {policy}; groups hold fair tasks"));
        }
    }

    /// Notes that `runtime` is an event and, without `dl-runtime`, also a request for a slice.
    fn note_slice_trap(&mut self, name: &str, object: &Object<'_, '_>, attr: SchedAttr) {
        if let (Some(member), None, SchedAttr::Fair { slice: Some(slice), .. }) =
            (object.get("runtime"), object.get("dl-runtime"), attr)
        {
            let message = format!("\"runtime\" also asks for a slice of {slice} for task \"{name}\", as in rt-app");
            let help = "name the event \"runtime1\" if that is not meant";
            self.report.push(Diagnostic::warning(member.key_span, message).help(help));
        }
    }

    fn note_task_keys(&mut self, object: &Object<'_, '_>) {
        let known: [&[&str]; 5] = [&sched::KEYS, &PLACE_KEYS, &TASK_KEYS, &["period", "deadline"], &Event::NAMES];
        object.note_unknown(&known, |key| Event::of(key).is_some(), self.report);
    }

    /// Warns of events next to `phases`, which are not executed; `runtime` still counts as a
    /// parameter.
    fn note_task_keys_beside_phases(&mut self, object: &Object<'_, '_>) {
        for member in object.members {
            if Event::of(&member.key).is_some() && member.key != "runtime" {
                let message = format!("event \"{}\" beside \"phases\" is ignored", member.key);
                self.report.push(Diagnostic::warning(member.key_span, message).help("put it into a phase"));
            }
        }
        self.note_task_keys(object);
    }

    /// Makes a shared timer absolute everywhere if it is absolute somewhere.
    fn settle_timers(&mut self) {
        let absolute = &self.absolute_timers;
        for action in all_actions(&mut self.assembly.program) {
            if let Action::Timer { timer: TimerRef::Shared(id), mode, .. } = action
                && absolute.contains(id)
            {
                *mode = TimerMode::Absolute;
            }
        }
    }

    /// Unites suspend points with their parts. A suspend point is a condition and a mutex of the
    /// task's name. Where the file also uses these directly, both must be the same objects: then
    /// suspend and resume are written out.
    fn settle_suspend_points(&mut self) {
        let points: Vec<(ResourceId, Arc<str>)> = (0..)
            .zip(&self.assembly.program.resources)
            .filter(|(_, resource)| resource.kind == ResourceKind::SuspendPoint)
            .map(|(index, resource)| (ResourceId(index), resource.name.clone()))
            .collect();
        let mut written_out: BTreeMap<ResourceId, (ResourceId, ResourceId)> = BTreeMap::new();
        for (id, name) in points {
            if [ResourceClass::Condition, ResourceClass::Mutex]
                .iter()
                .any(|kind| self.assembly.find_resource(&name, *kind).is_some())
            {
                let condition = self.assembly.resource(&name, ResourceKind::Condition);
                let mutex = self.assembly.resource(&name, self.mutex_kind());
                written_out.insert(id, (condition, mutex));
            }
        }
        if written_out.is_empty() {
            return;
        }
        let Assembly { program, origins, .. } = &mut self.assembly;
        for (task, origin) in program.tasks.iter_mut().zip(&mut origins.tasks) {
            for (phase, origin) in task.phases.iter_mut().zip(&mut origin.phases) {
                write_out(phase, origin, &written_out);
            }
        }
    }
}

/// Replaces suspend and resume by their parts.
fn write_out(phase: &mut Phase, origin: &mut PhaseOrigin, points: &BTreeMap<ResourceId, (ResourceId, ResourceId)>) {
    let old = core::mem::take(&mut phase.actions);
    let spans = core::mem::take(&mut origin.actions);
    for (action, span) in old.into_iter().zip(spans) {
        let steps = match &action {
            Action::Suspend(id) => points.get(id).map(|(condition, mutex)| {
                let (condition, mutex) = (*condition, *mutex);
                [Action::Lock(mutex), Action::Wait { condition, mutex }, Action::Unlock(mutex)]
            }),
            Action::Resume(id) => points.get(id).map(|(condition, mutex)| {
                [Action::Lock(*mutex), Action::Broadcast(*condition), Action::Unlock(*mutex)]
            }),
            _ => None,
        };
        match steps {
            Some(steps) => {
                phase.actions.extend(steps);
                origin.actions.extend([span; 3]);
            }
            None => {
                phase.actions.push(action);
                origin.actions.push(span);
            }
        }
    }
}

fn all_actions(program: &mut Program) -> impl Iterator<Item = &mut Action> {
    program.tasks.iter_mut().flat_map(|task| &mut task.phases).flat_map(|phase| &mut phase.actions)
}

/// Makes a task's own timer absolute everywhere in the task if it is absolute somewhere.
fn settle_own_timers(task: &mut TaskDef, timers: &[(String, TimerMode)]) {
    for action in task.phases.iter_mut().flat_map(|phase| &mut phase.actions) {
        if let Action::Timer { timer: TimerRef::Own(place), mode, .. } = action
            && let Some((_, settled)) = timers.get(*place as usize)
        {
            *mode = *settled;
        }
    }
}
