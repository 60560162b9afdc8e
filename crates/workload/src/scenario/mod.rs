//! Scenario TOML: everything that rt-app can express, and distributions, cpusets, machine, kernel
//! and settings, under the kernel's own names.
//!
//! | module | decides |
//! |---|---|
//! | `compose` | included files, parameters |
//! | `tree` | TOML as a tree with places |
//! | `table` | types of values; which keys are unknown |
//! | `times` | times and distributions |
//! | `machine` | `[machine]`, `kernel`, `[settings]` |
//! | `bandwidth` | weights and limits of groups |
//! | `server` | `[fair_server]`: changes of deadline servers |
//! | `shared` | `[cpuset]`, `[group]`, `[mutex]`, `[condition]`, `[barrier]`, `[semaphore]`, `[timer]` |
//! | `task` | `[task]`, its phases, its attributes |
//! | `step` | the actions of a task |
//! | `service` | `[service]`: requests, a queue, workers |
//! | `change` | `[[change]]`: changes during the run |
//! | `lives` | groups that are created and removed |
//! | `pool` | the number of threads of a task, and pools that follow a quota |
//! | `interrupt` | `[interrupt]`: interrupt lines of devices |
//! | `pause` | `[pause]`: times in which no other task runs |
//! | `schema` | the tables as JSON Schema |
//!
//! Tasks are numbered in the order of the text. An unknown key is an error.
//! `docs/reference/scenario.md` has the complete grammar.

mod bandwidth;
mod change;
mod compose;
mod interrupt;
mod lives;
mod machine;
mod origin;
mod pause;
mod pool;
pub mod schema;
mod scope;
mod server;
mod service;
mod shared;
mod step;
mod table;
mod task;
mod times;
mod tree;

use crate::assemble::{Assembly, ResourceClass};
use crate::check;
use crate::diagnostic::{Diagnostic, Diagnostics, Report, Source, Span};
use crate::goal::Goal;
use crate::program::{OnRefused, ResourceId, ResourceKind, TimerMode, TimerRef};
use crate::{LoadOptions, Scenario};
use compose::Texts;
use std::collections::{BTreeMap, BTreeSet};
use table::Table;
use tree::Value;
use zerolag_model::Duration;
use zerolag_model::figure::Owner;
use zerolag_model::settings::nearest;

/// The largest scenario, in bytes. Scenarios are written by hand, and collecting all mistakes of
/// one takes much memory per byte.
pub const SCENARIO_MAX: usize = 16_000_000;

const KEYS: [&str; 30] = [
    "include",
    "parameters",
    "kernel",
    "duration",
    "seed",
    "costs",
    "goals",
    "on_refused",
    "origin",
    "machine",
    "settings",
    "fair_server",
    "cpuset",
    "group",
    "mutex",
    "condition",
    "barrier",
    "semaphore",
    "timer",
    "rw_semaphore",
    "spin_lock",
    "user_spin_lock",
    "pipe",
    "disk",
    "file",
    "pause",
    "interrupt",
    "task",
    "service",
    "change",
];

/// The state of reading a file.
struct ScenarioReader<'r> {
    report: &'r mut Report,
    assembly: Assembly,
    nr_cpus: usize,
    task_names: BTreeMap<String, usize>,
    service_names: Vec<String>,
    /// Operations on groups at given times.
    deeds: Vec<lives::Deed>,
    /// Services without arrivals: some task must call them.
    unfed: Vec<(String, Span)>,
    /// Pools of threads that follow their quota.
    pools: Vec<pool::Pool>,
    /// Threads at the start so far.
    threads: u64,
    /// Index of each cpuset; `None` for a refused one, so that its users are not reported as well.
    cpusets: BTreeMap<String, Option<usize>>,
    /// The kind of each name, and the position of its first use.
    kinds: BTreeMap<String, (ResourceClass, Span)>,
    /// Barriers whose parties are counted, not stated.
    counted_barriers: BTreeSet<ResourceId>,
    /// The mode of each shared timer, and its position.
    timer_modes: BTreeMap<ResourceId, (TimerMode, Span)>,
}

/// Reads a scenario file. See [`crate::load`].
///
/// # Errors
/// All mistakes in it.
pub fn load(name: &str, text: &str, options: &LoadOptions) -> Result<Scenario, Diagnostics> {
    let mut report = Report::default();
    if text.len() > SCENARIO_MAX {
        let message = format!("the file has {} bytes; scenarios have at most {SCENARIO_MAX}", text.len());
        report.push(Diagnostic::new(crate::Severity::Error, message).help("larger workloads are read as rt-app JSON"));
        return Err(report.finish(Source::new(name, "")));
    }
    let texts = Texts::gather(name, text, options, &mut report);
    let mut root = texts.merged(&mut report);
    if report.has_errors() {
        return Err(report.finish(texts.source()));
    }
    let parameters = compose::fill_in(&mut root, &mut report);
    let scenario = read(&Table::new(&root, Span::default()), name, options, &mut report);
    if report.has_errors() {
        return Err(report.finish(texts.source()));
    }
    Ok(Scenario { parameters, warnings: report.finish(texts.source()), ..scenario })
}

/// Converts the TOML parser's messages to our style.
fn lowercase(message: &str) -> String {
    let mut characters = message.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}

fn read(root: &Table<'_, '_>, name: &str, options: &LoadOptions, report: &mut Report) -> Scenario {
    root.refuse_unknown(&KEYS, "the scenario", report);
    let kernel = root.get("kernel").and_then(|entry| machine::kernel(entry, report));
    let stated = root.get("machine").and_then(|entry| machine::machine(entry, report));
    let machine = options.machine_override.clone().or(stated);
    let nr_cpus = machine.clone().unwrap_or_else(crate::default_machine).nr_cpus();
    let settings = root
        .get("settings")
        .map(|entry| machine::settings(entry, kernel.unwrap_or_default(), nr_cpus, report))
        .unwrap_or_default();
    let duration = root.time("duration", report);
    if let (Some(Duration::ZERO), Some(entry)) = (duration, root.get("duration")) {
        report.error(table::span(entry.item), "`duration` must be above zero");
    }
    let seed = root.int("seed", 0..=u64::MAX, report).map(|(seed, _)| seed);
    let costs = root.string("costs", report).map(|(costs, _)| costs.to_string());
    let (on_refused, origin) = (on_refused(root, report), origin::origin(root, report));
    let mut reader = ScenarioReader {
        report,
        assembly: Assembly::default(),
        nr_cpus,
        task_names: BTreeMap::new(),
        service_names: Vec::new(),
        deeds: Vec::new(),
        unfed: Vec::new(),
        pools: Vec::new(),
        threads: 0,
        cpusets: BTreeMap::new(),
        kinds: BTreeMap::new(),
        counted_barriers: BTreeSet::new(),
        timer_modes: BTreeMap::new(),
    };
    reader.server_changes(root);
    reader.cpusets(root);
    reader.groups(root);
    reader.resources(root);
    reader.number_tasks(root);
    reader.tasks(root);
    reader.services(root, options, name);
    reader.check_fed();
    reader.changes(root);
    reader.check_lives();
    reader.resize_pools();
    reader.pauses(root);
    reader.interrupts(root);
    let goals = reader.goals(root);
    let ScenarioReader { mut assembly, report, timer_modes, .. } = reader;
    let phases = assembly.program.tasks.iter_mut().flat_map(|task| &mut task.phases);
    step::settle_modes(phases.flat_map(|phase| &mut phase.actions), |timer| match timer {
        TimerRef::Shared(id) => timer_modes.get(&id).map(|(mode, _)| *mode),
        TimerRef::Own(_) => None,
    });
    if !report.has_errors() {
        check::check(&assembly.program, &assembly.origins, report);
    }
    if let Some(origin) = &origin {
        origin::check(origin, root, &assembly.program, report);
    }
    (assembly.program.origin, assembly.program.on_refused) = (origin, on_refused);
    Scenario {
        program: assembly.program,
        machine,
        kernel,
        settings,
        duration,
        seed,
        costs,
        goals,
        ..Scenario::empty(Report::default().finish(Source::new("", "")))
    }
}

/// Reads `on_refused`.
fn on_refused(root: &Table<'_, '_>, report: &mut Report) -> OnRefused {
    let Some((name, span)) = root.string("on_refused", report) else { return OnRefused::default() };
    OnRefused::from_name(name).unwrap_or_else(|| {
        let known = OnRefused::NAMES.join(" or ");
        report.error_help(span, format!("unknown `on_refused` `{name}`"), format!("write {known}"));
        OnRefused::default()
    })
}

impl ScenarioReader<'_> {
    /// Reads `goals`.
    fn goals(&mut self, root: &Table<'_, '_>) -> Vec<Goal> {
        let Some(entry) = root.get("goals") else { return Vec::new() };
        let Value::Array(items) = entry.item.get_ref() else {
            let help = "write goals = [\"audio.lateness.max <= 200us\"]";
            self.report.error_help(table::span(entry.item), "`goals` is an array of strings", help);
            return Vec::new();
        };
        let mut goals = Vec::with_capacity(items.len());
        for item in items.iter() {
            let Some(text) = table::string("goals", item, self.report) else { continue };
            match Goal::parse(text) {
                Ok(goal) => {
                    self.goal_named(&goal, table::span(item));
                    goals.push(goal);
                }
                Err((message, help)) => {
                    let diagnostic = Diagnostic::error(table::span(item), message);
                    self.report.push(match help {
                        Some(help) => diagnostic.help(help),
                        None => diagnostic,
                    });
                }
            }
        }
        goals
    }

    /// Reports a goal whose owner does not exist.
    fn goal_named(&mut self, goal: &Goal, span: Span) {
        let program = &self.assembly.program;
        let (what, names): (&str, Vec<String>) = match goal.figure.owner() {
            Owner::Task => {
                if let Some(task) = &goal.task {
                    self.task_named("goals", task, span);
                }
                return;
            }
            // There is one, and it has no name.
            Owner::Machine | Owner::Cpu => return,
            Owner::Service => ("service", self.service_names.clone()),
            Owner::Group => ("group", program.groups.iter().map(|group| group.path.to_string()).collect()),
        };
        let name = goal.task.as_deref();
        if name.is_some_and(|name| names.iter().any(|known| known == name)) || name.is_none() && !names.is_empty() {
            return;
        }
        let message = match name {
            Some(name) => format!("`goals`: there is no {what} `{name}`"),
            None => format!("`goals`: there is no {what}, and `{}` is a figure of one", goal.figure),
        };
        let diagnostic = Diagnostic::error(span, message);
        self.report.push(match name.and_then(|name| nearest(name, names.iter().map(String::as_str))) {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic,
        });
    }

    /// Returns the resource of a name; reports if the name has another kind.
    fn resource(&mut self, name: &str, span: Span, kind: ResourceKind) -> Option<ResourceId> {
        let wanted = ResourceClass::of(&kind);
        if wanted == ResourceClass::SuspendPoint {
            return Some(self.assembly.resource(name, kind));
        }
        let (known, first) = *self.kinds.entry(name.to_string()).or_insert((wanted, span));
        if known != wanted {
            let message = format!("`{name}` is used as a {} but is a {}", wanted.name(), known.name());
            self.report.push(Diagnostic::error(span, message).label(first, format!("a {} here", known.name())));
            return None;
        }
        let known = self.assembly.find_resource(name, wanted);
        Some(known.unwrap_or_else(|| {
            let id = self.assembly.resource(name, kind);
            if wanted == ResourceClass::Barrier {
                self.counted_barriers.insert(id);
            }
            id
        }))
    }

    /// Returns the task of a name; reports if there is none.
    fn task_named(&mut self, what: &str, name: &str, span: Span) -> Option<usize> {
        let found = self.task_names.get(name).copied();
        if found.is_none() {
            let diagnostic = Diagnostic::error(span, format!("`{what}`: there is no task `{name}`"));
            self.report.push(match nearest(name, self.task_names.keys().map(String::as_str)) {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic,
            });
        }
        found
    }
}
