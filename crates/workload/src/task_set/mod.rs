//! Task sets: periodic tasks as analysers and other simulators write them.
//!
//! | module | reads |
//! |---|---|
//! | `csv` | a table: ours, rt-audit's |
//! | `simso` | XML of SimSo |
//! | `cheddar` | XML of Cheddar |
//! | `partsim` | YAML of PARTSim, and of rt-audit |
//! | `xml` | what the two of XML share |
//!
//! These files describe other machines than a kernel: schedulers that Linux does not have, costs
//! of caches, jobs that are aborted. A reader makes [`SetTask`]s of the parts that have a meaning
//! here, and names each of the others in a note with its place: left out without a word it would
//! be a result of another question. This module makes tasks of a program from them.
//!
//! | scheduler of the file | here |
//! |---|---|
//! | EDF | SCHED_DEADLINE; tasks of one processor of several are in a cpuset with a root domain of its own, as Linux wants it |
//! | rate monotonic, deadline monotonic | SCHED_FIFO: 99 for the shortest period or deadline, then 98, ... |
//! | fixed priorities | SCHED_FIFO or SCHED_RR with these, or in their order if one is outside 1..=99 |
//!
//! `--task-set` chooses another. Source of rate monotonic order: Liu & Layland 1973, sec. 4.

mod cheddar;
mod csv;
mod partsim;
mod simso;
mod xml;

pub(crate) use csv::{is_table, read as read_csv};

use crate::builtin::PeriodicPolicy;
use crate::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source, Span};
use crate::input::Format;
use crate::program::{Action, CpusetDef, Program, Resource, ResourceId, ResourceKind, TaskDef, TimerMode, TimerRef};
use crate::random::{Dist, MAX_TIME};
use crate::rtapp::deadline_error;
use crate::{INSTANCES_MAX, LoadOptions, Scenario, default_machine};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, DlParams, Duration, RtPolicy, RtPriority, SchedAttr, Topology};

/// The policy that the scheduler of a file becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetPolicy {
    /// SCHED_DEADLINE with the task's parameters.
    Deadline,
    /// SCHED_FIFO by period.
    RateMonotonic,
    /// SCHED_FIFO by relative deadline.
    DeadlineMonotonic,
    /// SCHED_FIFO or SCHED_RR by the priority of the file.
    Priority(RtPolicy),
    /// SCHED_OTHER.
    Fair,
}

/// When the jobs of a task are released.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Release {
    /// Every period.
    Periodic,
    /// At these times after the start of the run, in order; at least one.
    At(Vec<Duration>),
    /// By another task: the job begins with a wait for it.
    ByTask,
}

/// A task of a set.
#[derive(Clone, Debug)]
pub(crate) struct SetTask {
    /// Its name, and the place that messages name.
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) policy: SetPolicy,
    /// Budget, relative deadline, period.
    pub(crate) params: DlParams,
    /// The first release.
    pub(crate) offset: Duration,
    pub(crate) release: Release,
    /// The actions of a job.
    pub(crate) job: Vec<Action>,
    /// Its priority in the file: the larger, the more urgent.
    pub(crate) priority: i64,
    /// The CPUs of its processor, if that is not the whole machine.
    pub(crate) cpus: Option<CpuMask>,
    pub(crate) created_on: Option<CpuId>,
}

impl SetTask {
    /// Returns a task with a deadline at the end of its period, whose jobs run for its budget.
    pub(crate) fn new(name: impl Into<String>, span: Span, params: DlParams) -> Self {
        Self {
            name: name.into(),
            span,
            policy: SetPolicy::Deadline,
            params,
            offset: Duration::ZERO,
            release: Release::Periodic,
            job: vec![Action::Run(Dist::Constant(params.runtime))],
            priority: 0,
            cpus: None,
            created_on: None,
        }
    }
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskSet {
    pub(crate) tasks: Vec<SetTask>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) machine: Option<Topology>,
    pub(crate) duration: Option<Duration>,
}

impl TaskSet {
    /// Returns the resource of a name, a new one if there is none.
    pub(crate) fn resource(&mut self, name: &str, kind: ResourceKind) -> ResourceId {
        let found = self.resources.iter().position(|resource| *resource.name == *name);
        let index = found.unwrap_or_else(|| {
            self.resources.push(Resource { name: name.into(), kind });
            self.resources.len() - 1
        });
        ResourceId(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// Reads a task set as a workload file. See [`crate::load`].
///
/// # Errors
/// All mistakes in it.
pub(crate) fn load(format: Format, name: &str, text: &str, options: &LoadOptions) -> Result<Scenario, Diagnostics> {
    let mut report = Report::default();
    let set = match format {
        Format::Xml => xml::read(text, &mut report),
        Format::Yaml => partsim::read(text, &mut report),
        Format::TaskSet | Format::RtApp | Format::Scenario => csv::read(text, &mut report),
    };
    if set.tasks.is_empty() && !report.has_errors() {
        report.error(Span::default(), "the table has no tasks");
    }
    let machine = options.machine_override.clone().or_else(|| set.machine.clone());
    let duration = set.duration;
    let program = lower(set, options.task_set, machine.as_ref(), &mut report);
    let failed = report.has_errors();
    let said = report.finish(Source::new(name, text));
    if failed {
        return Err(said);
    }
    Ok(Scenario { program, machine, duration, ..Scenario::empty(said) })
}

/// Says what of a file has no meaning here.
pub(crate) fn note(report: &mut Report, span: Span, message: impl Into<String>) {
    report.push(Diagnostic::new(Severity::Note, message).at(span));
}

/// Returns a time of a number in a unit, rounded to nanoseconds; `None` if it is none of zero up to
/// [`MAX_TIME`].
pub(crate) fn time_of(number: f64, unit: Duration) -> Option<Duration> {
    let nanos = number * unit.as_nanos() as f64;
    (0.0..=MAX_TIME.as_nanos() as f64).contains(&nanos).then(|| Duration::from_nanos(libm::round(nanos) as u64))
}

/// Makes tasks of a program.
pub(crate) fn lower(set: TaskSet, policy: PeriodicPolicy, machine: Option<&Topology>, report: &mut Report) -> Program {
    let mut tasks = set.tasks;
    for task in &mut tasks {
        match policy {
            PeriodicPolicy::OfFile => {}
            PeriodicPolicy::Deadline => task.policy = SetPolicy::Deadline,
            PeriodicPolicy::RateMonotonicFifo => task.policy = SetPolicy::RateMonotonic,
        }
    }
    if tasks.len() as u64 > INSTANCES_MAX {
        let message = format!("there are {} tasks; at most {INSTANCES_MAX} are simulated", tasks.len());
        report.error(Span::default(), message);
    }
    name_twins(&tasks, report);
    let cpus = machine.map_or_else(|| default_machine().nr_cpus(), Topology::nr_cpus);
    let levels = Levels::of(&tasks);
    let mut program = Program { resources: set.resources, ..Program::default() };
    for task in tasks {
        if let Some(beyond) = task.cpus.as_ref().and_then(CpuMask::last).filter(|last| last.0 as usize >= cpus) {
            let message = format!("task {} runs on CPU {} of the file; the machine has {cpus}", task.name, beyond.0);
            report.error_help(task.span, message, "leave out --cpus, or give as many as the file");
            continue;
        }
        match levels.attr(&task) {
            Ok(attr) => {
                let def = definition(task, attr, cpus, &mut program);
                program.tasks.push(def);
            }
            Err(Refused::Parameters(reason)) => {
                let message = format!("task {}: {reason}", task.name);
                report.error_help(task.span, message, "SCHED_DEADLINE refuses that; `--task-set fifo` does not");
            }
            Err(Refused::Levels(message)) => {
                report.error(task.span, message);
                break;
            }
        }
    }
    program
}

/// Reports tasks of one name.
fn name_twins(tasks: &[SetTask], report: &mut Report) {
    let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
    for task in tasks {
        if let Some(first) = seen.insert(&task.name, task.span) {
            let message = format!("there are two tasks {}", task.name);
            report.push(Diagnostic::error(task.span, message).label(first, "the other one"));
        }
    }
}

/// Why a task gets no attributes.
enum Refused {
    /// The kernel refuses its parameters.
    Parameters(String),
    /// There are more levels than priorities.
    Levels(String),
}

/// The priorities of tasks with one policy on the same CPUs: those on others do not compete.
struct Levels(Vec<(SetPolicy, Option<CpuMask>, Vec<i128>)>);

impl Levels {
    /// Returns the key by which a policy orders tasks: the smaller, the more urgent.
    fn key(task: &SetTask) -> Option<i128> {
        match task.policy {
            SetPolicy::RateMonotonic => Some(i128::from(task.params.period.as_nanos())),
            SetPolicy::DeadlineMonotonic => Some(i128::from(task.params.deadline.as_nanos())),
            SetPolicy::Priority(_) => Some(-i128::from(task.priority)),
            SetPolicy::Deadline | SetPolicy::Fair => None,
        }
    }

    /// SCHED_FIFO and SCHED_RR share their priorities.
    fn is_of(task: &SetTask, policy: SetPolicy, cpus: Option<&CpuMask>) -> bool {
        let is_same = match (task.policy, policy) {
            (SetPolicy::Priority(_), SetPolicy::Priority(_)) => true,
            (one, other) => one == other,
        };
        is_same && task.cpus.as_ref() == cpus
    }

    fn of(tasks: &[SetTask]) -> Self {
        let mut levels: Vec<(SetPolicy, Option<CpuMask>, Vec<i128>)> = Vec::new();
        for task in tasks {
            let Some(key) = Self::key(task) else { continue };
            match levels.iter_mut().find(|(policy, cpus, _)| Self::is_of(task, *policy, cpus.as_ref())) {
                Some((.., keys)) => keys.push(key),
                None => levels.push((task.policy, task.cpus.clone(), vec![key])),
            }
        }
        for (.., keys) in &mut levels {
            keys.sort_unstable();
            keys.dedup();
        }
        Self(levels)
    }

    fn attr(&self, task: &SetTask) -> Result<SchedAttr, Refused> {
        let Some(key) = Self::key(task) else {
            return match task.policy {
                SetPolicy::Fair => Ok(SchedAttr::NORMAL),
                _ => deadline_error(task.params)
                    .map_or(Ok(SchedAttr::Deadline(task.params)), |reason| Err(Refused::Parameters(reason))),
            };
        };
        let (.., keys) = self
            .0
            .iter()
            .find(|(policy, cpus, _)| Self::is_of(task, *policy, cpus.as_ref()))
            .expect("invariant: made of these tasks");
        let rt = |priority: i64| RtPriority::new(priority).map(|priority| (priority, task.policy));
        // Priorities that Linux has are kept, so that the user finds them again.
        let are_ours = matches!(task.policy, SetPolicy::Priority(_)) && keys.iter().all(|key| (-99..=-1).contains(key));
        let rank = keys.partition_point(|other| *other < key);
        let found = match are_ours {
            true => rt(task.priority),
            false => i64::try_from(rank).ok().and_then(|rank| rt(99 - rank)),
        };
        match found {
            Some((priority, SetPolicy::Priority(RtPolicy::Rr))) => Ok(SchedAttr::rr(priority)),
            Some((priority, _)) => Ok(SchedAttr::fifo(priority)),
            None => {
                let what = match task.policy {
                    SetPolicy::DeadlineMonotonic => "deadlines",
                    SetPolicy::Priority(_) => "priorities",
                    _ => "periods",
                };
                Err(Refused::Levels(format!("{} distinct {what} are more than the 99 priorities", keys.len())))
            }
        }
    }
}

/// Returns the definition of a task; adds the cpuset that it needs.
fn definition(task: SetTask, attr: SchedAttr, cpus: usize, program: &mut Program) -> TaskDef {
    let timer = |period| Action::Timer { timer: TimerRef::Own(0), period, mode: TimerMode::Absolute };
    let mut actions = task.job;
    let (mut delay, mut turns) = (task.offset, None);
    match task.release {
        Release::Periodic => actions.push(timer(Dist::Constant(task.params.period))),
        Release::ByTask => {}
        Release::At(times) => {
            let job = std::mem::take(&mut actions);
            (delay, turns) = (times[0], Some(1));
            actions.extend(job.iter().cloned());
            for pair in times.windows(2) {
                actions.push(timer(Dist::Constant(pair[1].saturating_sub(pair[0]))));
                actions.extend(job.iter().cloned());
            }
        }
    }
    let own = task.cpus.filter(|own| own.count() < cpus);
    let mut def = TaskDef {
        delay,
        turns,
        created_on: task.created_on.filter(|cpu| (cpu.0 as usize) < cpus),
        ..TaskDef::looping(task.name, attr, actions)
    };
    match (own, attr) {
        (None, _) => {}
        // Linux refuses deadline tasks that may not use their whole root domain.
        (Some(own), SchedAttr::Deadline(_)) => {
            let own = Arc::new(own);
            let found = program.cpusets.iter().position(|set| set.cpus == own);
            def.cpuset = Some(found.unwrap_or_else(|| {
                let name = format!("/cpu{}", own.first().map_or(0, |cpu| cpu.0)).into();
                program.cpusets.push(CpusetDef { name, cpus: own, partition: true });
                program.cpusets.len() - 1
            }));
        }
        (Some(own), _) => def.affinity = Some(Arc::new(own)),
    }
    def
}
