//! YAML: `taskset:` of PARTSim (RTSim), and `tasks:` of rt-audit.
//!
//! PARTSim's tasks have a list of instructions; its schedulers are in another file, that of the
//! system, so tasks are SCHED_DEADLINE unless `--task-set` says otherwise: with the reservation
//! that they name, else with their execution time. Its times are ticks, one of which is taken as
//! 1 ms; those of rt-audit are microseconds.
//!
//! A resource that every task unlocks after it has locked it is a mutex; one that is locked at the
//! start, or by one task and unlocked by another, orders tasks, and is a semaphore.
//!
//! Facts: PARTSim 04e6bddc, `rtsim/main.cpp`, `read_taskset` and `read_resources` (keys and
//! defaults), `librtsim/reginstr.cpp` and `libmetasim/regvar.cpp` (names of instructions and of
//! distributions); rt-audit 374ee5c9, `simple_taskset.py`, `convert_to_rtapp`.

use super::{SetTask, TaskSet, note, time_of};
use crate::diagnostic::{Report, Span};
use crate::program::{Action, ResourceKind};
use crate::random::{Bounds, Dist, MAX_TIME};
use crate::yaml::{YamlNode, YamlValue, documents};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use zerolag_model::{CpuId, DlFlags, DlParams, Duration, Topology};

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// The keys of PARTSim's tasks that are read; others are named in a note.
const KEYS: [&str; 15] = [
    "name",
    "iat",
    "period",
    "deadline",
    "rdl",
    "ph",
    "startcpu",
    "server_type",
    "cbs_runtime",
    "cbs_period",
    "cbs_deadline",
    "code",
    "runtime",
    "wcet",
    // How many releases may wait: here none is lost.
    "qs",
];

/// Reads a file.
pub(super) fn read(text: &str, report: &mut Report) -> TaskSet {
    let places = Places::new(text);
    let documents = match documents(text) {
        Ok(documents) => documents,
        Err(error) => {
            report.error(places.at(error.line, error.column), error.reason);
            return TaskSet::default();
        }
    };
    let mut reader = YamlReader { places, report, unread: BTreeMap::new() };
    let root = documents.first();
    let list = |key: &str| root.and_then(|root| get(root, key));
    match (list("taskset"), list("tasks"), root) {
        (Some(tasks), _, Some(root)) => reader.partsim(root, &tasks),
        (None, Some(tasks), Some(root)) => reader.rt_audit(root, &tasks),
        _ => {
            let is_manifest = list("services").is_some() || (list("apiVersion").is_some() && list("kind").is_some());
            let (message, help) = match is_manifest {
                true => ("this is a manifest: it has limits, and no workload", "give it to a workload with -f"),
                false => ("this YAML is no task set", "known are `taskset:` of PARTSim and `tasks:` of rt-audit"),
            };
            reader.report.error_help(Span::default(), message, help);
            TaskSet::default()
        }
    }
}

/// Returns what a mapping has under a key, unless that is nothing.
fn get(node: &YamlNode, key: &str) -> Option<Rc<YamlNode>> {
    let YamlValue::Mapping(pairs) = &node.what else { return None };
    let found = pairs.iter().find(|(known, _)| known == key).map(|(_, value)| Rc::clone(value));
    found.filter(|found| !matches!(found.what, YamlValue::Null))
}

/// From lines and columns to places in the text.
struct Places<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        let after = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    fn at(&self, line: usize, column: usize) -> Span {
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or(self.text.len());
        let before: usize = self.text[start..].chars().take(column.saturating_sub(1)).map(char::len_utf8).sum();
        let rest = self.text[start + before..].lines().next().unwrap_or_default().trim_end();
        Span::new(start + before..start + before + rest.len())
    }
}

/// An instruction of a task.
enum Instruction {
    Run(Dist),
    Sleep(Dist),
    Lock(String),
    Unlock(String),
}

struct YamlReader<'a> {
    places: Places<'a>,
    report: &'a mut Report,
    /// What is not read, with its first place.
    unread: BTreeMap<String, Span>,
}

impl YamlReader<'_> {
    fn span(&self, node: &YamlNode) -> Span {
        self.places.at(node.line, node.column)
    }

    fn wrong(&mut self, node: &YamlNode, message: impl Into<String>, help: &str) {
        let span = self.span(node);
        self.report.error_help(span, message, help);
    }

    fn items(&mut self, list: &YamlNode, key: &str) -> Vec<Rc<YamlNode>> {
        match &list.what {
            YamlValue::Sequence(items) => items.clone(),
            _ => {
                self.wrong(list, format!("`{key}` is {}", list.kind()), "write a list: one `- name: ...` per task");
                Vec::new()
            }
        }
    }

    fn text(&mut self, node: &YamlNode, key: &str) -> Option<String> {
        let found = get(node, key)?;
        match &found.what {
            YamlValue::Scalar(text) => Some(text.clone()),
            _ => {
                self.wrong(&found, format!("`{key}` is {}", found.kind()), "write a value");
                None
            }
        }
    }

    fn number(&mut self, node: &YamlNode, key: &str) -> Option<f64> {
        let text = self.text(node, key)?;
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        if let (None, Some(found)) = (number, get(node, key)) {
            self.wrong(&found, format!("{key}: `{text}` is not a number"), "write a number without a unit");
        }
        number
    }

    /// Returns a time, or none; `None` if it is wrong, which is reported.
    fn time(&mut self, node: &YamlNode, key: &str, unit: Duration) -> Option<Option<Duration>> {
        let Some(found) = get(node, key) else { return Some(None) };
        let time = time_of(self.number(node, key)?, unit);
        if time.is_none() {
            self.wrong(&found, format!("{key} is not a time of 0 up to 10 years"), "write a number of at least zero");
        }
        time.map(Some)
    }

    /// Returns the name of a task, and its place.
    fn name(&mut self, node: &YamlNode) -> Option<(String, Span)> {
        match self.text(node, "name") {
            Some(name) => {
                let span = get(node, "name").map_or_else(|| self.span(node), |name| self.span(&name));
                Some((name, span))
            }
            None => {
                self.wrong(node, "a task has no name", "write `- name: T1`");
                None
            }
        }
    }

    fn rt_audit(&mut self, root: &YamlNode, tasks: &YamlNode) -> TaskSet {
        let mut set = TaskSet::default();
        let overhead = self.number(root, "system_overhead").unwrap_or(0.0);
        if !(0.0..1.0).contains(&overhead) {
            self.wrong(root, "system_overhead is not a share", "write a number of 0 up to 1: 0.02");
            return set;
        }
        for task in self.items(tasks, "tasks") {
            let Some((name, span)) = self.name(&task) else { continue };
            let mut time = |key: &str| self.time(&task, key, US);
            let (Some(runtime), Some(period), Some(deadline)) = (time("runtime"), time("period"), time("deadline"))
            else {
                continue;
            };
            let (Some(runtime), Some(period)) = (runtime, period.filter(|period| !period.is_zero())) else {
                self.wrong(&task, format!("task {name} has no runtime or no period"), "give both in microseconds");
                continue;
            };
            let budget = time_of(1.0 / (1.0 - overhead), runtime).unwrap_or(runtime);
            let params = DlParams::new(budget, deadline.unwrap_or(period), period);
            let job = vec![Action::Run(Dist::Constant(runtime))];
            set.tasks.push(SetTask { job, ..SetTask::new(name, span, params) });
        }
        set.duration = self.number(root, "duration").and_then(|seconds| time_of(seconds, Duration::from_secs(1)));
        if let Some(cpus) = self.number(root, "cpus") {
            let machine = (1.0..=1e6).contains(&cpus).then(|| Topology::flat(cpus as u32).ok()).flatten();
            if machine.is_none() {
                self.wrong(root, format!("a machine with {cpus} CPUs cannot be simulated"), "write cpus: 4");
            }
            set.machine = machine;
        }
        set
    }

    fn partsim(&mut self, root: &YamlNode, tasks: &YamlNode) -> TaskSet {
        let mut set = TaskSet::default();
        let mut codes = Vec::new();
        for task in self.items(tasks, "taskset") {
            if let Some((read, code)) = self.task(&task) {
                set.tasks.push(read);
                codes.push(code);
            }
        }
        let kinds = self.resources(root, &codes);
        for (index, code) in codes.into_iter().enumerate() {
            let mut job = Vec::new();
            for instruction in code {
                let (name, is_lock) = match instruction {
                    Instruction::Run(time) => {
                        job.push(Action::Run(time));
                        continue;
                    }
                    Instruction::Sleep(time) => {
                        job.push(Action::Sleep(time));
                        continue;
                    }
                    Instruction::Lock(name) => (name, true),
                    Instruction::Unlock(name) => (name, false),
                };
                let kind = kinds.get(&name).cloned().unwrap_or(ResourceKind::Mutex { inherit: false });
                let is_mutex = matches!(kind, ResourceKind::Mutex { .. });
                let id = set.resource(&name, kind);
                job.push(match (is_lock, is_mutex) {
                    (true, true) => Action::Lock(id),
                    (false, true) => Action::Unlock(id),
                    (true, false) => Action::SemWait(id),
                    (false, false) => Action::SemPost(id),
                });
            }
            set.tasks[index].job = job;
        }
        for (key, value) in std::mem::take(&mut self.unread) {
            note(self.report, value, format!("{key}: not read, and without effect here"));
        }
        if !set.tasks.is_empty() {
            let span = self.span(tasks);
            note(
                self.report,
                span,
                "PARTSim's files have no unit of time: 1 is taken as 1 ms; the scheduler is in its file of the system, so tasks get SCHED_DEADLINE",
            );
        }
        set
    }

    /// Returns the kind of each resource.
    fn resources(&mut self, root: &YamlNode, codes: &[Vec<Instruction>]) -> BTreeMap<String, ResourceKind> {
        let mut locked = BTreeSet::new();
        if let Some(list) = get(root, "resources") {
            for resource in self.items(&list, "resources") {
                if let Some((name, _)) = self.name(&resource)
                    && self.text(&resource, "initial_state").as_deref() == Some("locked")
                {
                    locked.insert(name);
                }
            }
        }
        let mut kinds: BTreeMap<String, ResourceKind> = BTreeMap::new();
        for code in codes {
            let mut held: BTreeSet<&str> = BTreeSet::new();
            let mut orders: BTreeSet<&str> = BTreeSet::new();
            for instruction in code {
                match instruction {
                    Instruction::Lock(name) if !held.insert(name) => drop(orders.insert(name)),
                    Instruction::Unlock(name) if !held.remove(&**name) => drop(orders.insert(name)),
                    Instruction::Lock(name) | Instruction::Unlock(name) => {
                        kinds.entry(name.clone()).or_insert(ResourceKind::Mutex { inherit: false });
                    }
                    Instruction::Run(_) | Instruction::Sleep(_) => {}
                }
            }
            for name in orders.into_iter().chain(held).map(str::to_owned) {
                let initial = u32::from(!locked.contains(&name));
                kinds.insert(name, ResourceKind::Semaphore { initial });
            }
        }
        for name in locked.into_iter().filter(|name| kinds.contains_key(name)).collect::<Vec<_>>() {
            kinds.insert(name, ResourceKind::Semaphore { initial: 0 });
        }
        kinds
    }

    fn task(&mut self, node: &YamlNode) -> Option<(SetTask, Vec<Instruction>)> {
        let (name, span) = self.name(node)?;
        if let YamlValue::Mapping(pairs) = &node.what {
            for (key, value) in pairs.iter().filter(|(key, _)| !KEYS.contains(&&**key)) {
                let place = self.span(value);
                self.unread.entry(format!("`{key}` of tasks")).or_insert(place);
            }
        }
        let mut first = |keys: &[&str]| {
            let given = keys.iter().find(|key| get(node, key).is_some());
            given.map_or(Some(None), |key| self.time(node, key, MS))
        };
        let (period, deadline, offset) = (first(&["iat", "period"])?, first(&["deadline", "rdl"])?, first(&["ph"])?);
        let (stated, budget) = (first(&["runtime", "wcet"])?, first(&["cbs_runtime"])?);
        let (cbs_deadline, cbs_period) = (first(&["cbs_deadline"])?, first(&["cbs_period"])?);
        let Some(period) = period.filter(|period| !period.is_zero()) else {
            self.wrong(node, format!("task {name} has no period"), "write `iat: 20`");
            return None;
        };
        let deadline = deadline.filter(|deadline| !deadline.is_zero()).unwrap_or(period);
        let code = self.code(node, &name, stated)?;
        let most = code.iter().filter_map(|instruction| match instruction {
            Instruction::Run(time) => Some(time.bounds().high),
            _ => None,
        });
        let most = most.fold(Duration::ZERO, Duration::saturating_add);
        let given = |time: Option<Duration>| time.filter(|time| !time.is_zero());
        let server = self.text(node, "server_type");
        let params = match (given(budget), given(stated)) {
            (Some(budget), _) => {
                let period = given(cbs_period).unwrap_or(period);
                let flags = if server.as_deref() == Some("grub") { DlFlags::RECLAIM } else { DlFlags::NONE };
                DlParams::new(budget, given(cbs_deadline).unwrap_or(period.min(deadline)), period).with_flags(flags)
            }
            (None, Some(stated)) => DlParams::new(stated, deadline, period),
            (None, None) => {
                if most >= MAX_TIME {
                    note(self.report, span, format!("task {name} can run forever: give it a cbs_runtime"));
                }
                DlParams::new(most, deadline, period)
            }
        };
        let created_on = match self.number(node, "startcpu") {
            Some(cpu) if (0.0..1e6).contains(&cpu) => Some(CpuId(cpu as u32)),
            _ => None,
        };
        Some((SetTask { offset: offset.unwrap_or_default(), created_on, ..SetTask::new(name, span, params) }, code))
    }

    /// Reads the instructions of a task; without any its jobs run for the time that it states.
    fn code(&mut self, node: &YamlNode, name: &str, stated: Option<Duration>) -> Option<Vec<Instruction>> {
        let Some(list) = get(node, "code") else {
            return match stated {
                Some(time) => Some(vec![Instruction::Run(Dist::Constant(time))]),
                None => {
                    self.wrong(node, format!("task {name} has no code"), "write `code: [fixed(5)]`");
                    None
                }
            };
        };
        let items = match &list.what {
            YamlValue::Scalar(_) => vec![Rc::clone(&list)],
            _ => self.items(&list, "code"),
        };
        let mut code = Vec::new();
        for item in &items {
            let YamlValue::Scalar(text) = &item.what else {
                self.wrong(item, format!("an instruction is {}", item.kind()), KNOWN);
                return None;
            };
            for text in text.split(';').map(str::trim).filter(|text| !text.is_empty()) {
                match self.instruction(item, text) {
                    Some(instruction) => code.push(instruction),
                    None => {
                        self.wrong(item, format!("`{text}` is not an instruction that is known"), KNOWN);
                        return None;
                    }
                }
            }
        }
        Some(code)
    }

    fn instruction(&mut self, item: &YamlNode, text: &str) -> Option<Instruction> {
        let (name, arguments) = call(text)?;
        let number = |text: &str| text.trim().parse().ok().and_then(|number| time_of(number, MS));
        Some(match name {
            "fixed" => {
                let (time, workload) =
                    arguments.split_once(',').map_or((arguments, None), |(time, of)| (time, Some(of)));
                if workload.is_some() {
                    let place = self.span(item);
                    self.unread.entry("kinds of work (`fixed(200, bzip2)`)".to_owned()).or_insert(place);
                }
                Instruction::Run(Dist::Constant(number(time)?))
            }
            "delay" => Instruction::Run(distribution(arguments)?),
            "suspend" => Instruction::Sleep(number(arguments).map(Dist::Constant).or_else(|| distribution(arguments))?),
            "wait" | "lock" => Instruction::Lock(arguments.trim().to_owned()),
            "signal" | "unlock" => Instruction::Unlock(arguments.trim().to_owned()),
            _ => return None,
        })
    }
}

const KNOWN: &str =
    "known are fixed(n), delay(unif(a,b) | normal(m,s) | exp(m) | delta(n)), suspend(n), lock(r), unlock(r)";

/// Returns the name and the arguments of a call.
fn call(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('(')?;
    Some((name.trim(), rest.trim_end().strip_suffix(')')?))
}

/// Reads a distribution of times in ticks.
fn distribution(text: &str) -> Option<Dist> {
    let (name, arguments) = call(text.trim())?;
    let times: Option<Vec<Duration>> =
        arguments.split(',').map(|text| text.trim().parse().ok().and_then(|number| time_of(number, MS))).collect();
    match (name, &times?[..]) {
        ("delta", [time]) => Some(Dist::Constant(*time)),
        ("unif" | "uniform", [low, high]) => Dist::uniform(*low, *high).ok(),
        ("normal" | "gauss", [mean, deviation]) => Dist::normal(*mean, *deviation, Bounds::default()).ok(),
        ("exp" | "exponential", [mean]) => Dist::exponential(*mean, Bounds::default()).ok(),
        _ => None,
    }
}
