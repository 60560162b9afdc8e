//! A workload from a trace: what tasks computed, for what they slept, and which task woke which.
//!
//! The exact form repeats a recording's demands in their order. A task that was preempted,
//! throttled or waited for a CPU demanded the same work, so its demand is its CPU time between two
//! sleeps, however long that took. What ends a sleep is the question:
//!
//! ```text
//!  woken by            recorded                     imported
//!  a task              waking while that task ran   a semaphore: the waker posts, the sleeper waits
//!  a task, by a pipe   its stack                    a pipe: the waker writes, the sleeper reads
//!  a timer, a device   waking in an interrupt,      a sleep as long as the recorded one; or a timer,
//!                      or on an idle CPU            if the wakings are evenly spaced
//! ```
//!
//! So a delay of the waker delays the sleeper in a simulation too, also under other settings. A
//! semaphore keeps a waking that comes before the sleep, as the recorded one did.
//!
//! What a recording does not contain is stated at the head of the file: affinities (kernel threads
//! of one CPU are bound to it by their name), groups and their limits, the parameters of deadline
//! tasks, and, in perf's text, whether a waking came from an interrupt. Groups matter most: two
//! sessions of users share a CPU evenly, however many tasks each has (autogroup). So they are an
//! option.

mod answers;
mod charged;
mod error;
mod extract;
mod fitted;
mod groups;
mod loopback;
mod open;
mod recorded;
mod requests;
mod result;
mod tree;
mod wakings;
mod write;

use error::SimulatedTask;
pub use error::{BaseError, GroupError, Pair, RequestError, TaskError};
pub use recorded::recorded_requests;
pub(crate) use result::DOCUMENT;
pub use result::{text, to_json};
pub use tree::{GroupTree, Throttling};

use crate::error::Error;
use crate::manifest::Manifest;
use crate::simulation::{Observe, Plan, PlanError};
use extract::ImportedTask;
use fitted::ServedService;
use groups::ImportedGroups;
use open::OpenClients;
use requests::quantile;
use zerolag_model::{KernelVersion, TaskId};
use zerolag_report::{Metrics, Summary};
use zerolag_trace::Trace;
use zerolag_workload::program::is_below;
use zerolag_workload::{Diagnostics, LoadOptions};

/// Options of an import: facts that the trace lacks, and the form of the workload.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The groups of tasks: the name of a process or of a thread, and the path of its group. Its
    /// children are in the same group.
    pub groups: Vec<(String, String)>,
    /// The limits of groups: their path, and the content of `cpu.max`.
    pub limits: Vec<(String, String)>,
    /// The groups of the recorded machine, their limits, weights and members.
    pub tree: GroupTree,
    /// The limits of containers. A container's group is the one whose path ends in its name.
    pub manifest: Option<Manifest>,
    /// In the exact form, the group whose work is measured: it runs once, to its end. All other
    /// tasks repeat their recorded demands without end, so that work which takes longer than the
    /// recording still has the same competition.
    pub work: Option<String>,
    /// The kernel, instead of the one that the trace names.
    pub kernel: Option<KernelVersion>,
    /// Whether demands are repeated or drawn.
    pub form: Form,
    /// In the fitted form, the processes or threads whose arrivals a load multiplies. If empty: all
    /// but those of the kernel.
    pub services: Vec<String>,
}

/// How an imported workload repeats what was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// The recorded demands in their order.
    #[default]
    Exact,
    /// Services with arrival processes and distributions of demands, for other loads.
    Fitted,
}

/// An imported workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Import {
    /// The scenario, as TOML.
    pub scenario: String,
    /// The tasks of the trace that each task of the scenario stands for, in its order: one in the
    /// exact form, the workers of a service in the fitted one.
    pub tasks: Vec<Vec<TaskId>>,
    /// The names of services, in their order; none in the exact form.
    services: Vec<String>,
    /// How many threads each of them has: a closed client one per request that can be under way.
    threads: Vec<usize>,
    /// The services whose messages tell their requests.
    served: Vec<ServedService>,
    /// The kernel whose settings the scenario has.
    pub kernel: KernelVersion,
    /// Whether the trace or the user names that kernel; if not it is a guess.
    pub is_kernel_known: bool,
    /// Names of [`Options::groups`] that no process and no thread has.
    pub unknown: Vec<String>,
    /// The group of the work.
    work: Option<String>,
    /// What the recording leaves open, as keys of the scenario.
    unknown_of_seeds: String,
    /// The groups.
    groups: ImportedGroups,
    /// The containers of the manifest that no group belongs to, if some do.
    pub unused: Vec<String>,
}

/// Returns the workload of a trace. O(records); the fitted form also O(classes of threads squared).
#[must_use]
pub fn import(trace: &Trace, origin: &str, options: &Options) -> Import {
    // Without a demand that was seen there is none to be drawn.
    let is_wanted = match options.form {
        Form::Exact => ImportedTask::competes,
        Form::Fitted => ImportedTask::is_used,
    };
    let mut tasks = extract::extract(trace);
    let computes = tasks.iter().any(ImportedTask::is_used);
    tasks.retain(|task| computes && is_wanted(task));
    let named = options.kernel.or_else(|| KernelVersion::of_release(&trace.meta.kernel));
    let (kernel, is_kernel_known) = (named.unwrap_or_default(), named.is_some());
    let groups = ImportedGroups::new(trace, &tasks, options);
    let open = match options.form {
        Form::Exact => OpenClients::new(trace, &tasks, &groups, options.work.as_deref()),
        Form::Fitted => OpenClients::default(),
    };
    let (scenario, services, served) = match options.form {
        Form::Exact => {
            (write::scenario(trace, &tasks, (named, origin), &groups, options, &open), Vec::new(), Vec::new())
        }
        Form::Fitted => fitted::scenario(trace, &tasks, named, origin, &groups, options),
    };
    let unknown = write::unknown(trace, &tasks, options);
    let unused = groups.unused.clone();
    let exact = || tasks.iter().map(|task| vec![task.id]).collect();
    let threads = services.iter().map(|service| service.threads).collect();
    let (services, members): (Vec<String>, Vec<Vec<TaskId>>) =
        services.into_iter().map(|service| (service.name, service.tasks)).unzip();
    let tasks = if services.is_empty() { exact() } else { members };
    let work = options.work.clone();
    let unknown_of_seeds = open.keys();
    Import {
        scenario,
        tasks,
        services,
        threads,
        served,
        kernel,
        is_kernel_known,
        unknown,
        work,
        unknown_of_seeds,
        groups,
        unused,
    }
}

/// Why the base error is not known.
#[derive(Debug)]
pub enum ImportError {
    /// The scenario is not accepted.
    Scenario(Box<Diagnostics>),
    /// The scenario gives no plan.
    Plan(PlanError),
    /// The simulation could not be started.
    Simulation(String),
}

impl core::fmt::Display for ImportError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Scenario(error) => core::fmt::Display::fmt(error, f),
            Self::Plan(error) => core::fmt::Display::fmt(error, f),
            Self::Simulation(error) => f.write_str(error),
        }
    }
}

impl core::error::Error for ImportError {}

/// Simulates an imported workload under its own settings and compares the figures with the
/// recorded ones.
///
/// # Errors
/// The scenario is not accepted, which is a bug of the import, or too large.
pub fn base_error(trace: &Trace, import: &Import) -> Result<BaseError, ImportError> {
    let simulated = simulate(&import.scenario)?;
    let is_work = import.are_work();
    let work = import.work.as_deref().map(|work| (work, &*is_work));
    let base = BaseError::of_work(&Metrics::of(trace), &simulated, &import.simulated_tasks(), work);
    Ok(BaseError { groups: import.throttled(&simulated), requests: import.requests(&simulated), ..base })
}

impl Import {
    /// Returns of each task or service of the scenario its name, if it is a service, the recorded
    /// tasks and how many tasks it has.
    fn simulated_tasks(&self) -> Vec<SimulatedTask<'_>> {
        let tasks = self.tasks.iter().enumerate().map(|(at, ids)| {
            let threads = self.threads.get(at).copied().unwrap_or(ids.len());
            SimulatedTask { service: self.services.get(at).map(String::as_str), ids, threads }
        });
        tasks.collect()
    }

    /// Returns how much the groups were throttled whose counters were saved: those of the work, if
    /// there is one.
    fn throttled(&self, simulated: &Summary) -> Vec<GroupError> {
        let is_meant = |path: &str| self.work.as_ref().is_none_or(|work| is_below(path, work));
        let errors = self.groups.throttled.iter().filter(|(path, _)| is_meant(path)).filter_map(|(path, recorded)| {
            let stat = simulated.group_by_path(path)?.stat;
            let simulated = Throttling { periods: stat.nr_throttled, time: stat.throttled };
            Some(GroupError { path: path.clone(), recorded: *recorded, simulated })
        });
        errors.collect()
    }

    /// Returns how long requests took whose messages were recorded.
    fn requests(&self, simulated: &Summary) -> Vec<RequestError> {
        let errors = self.served.iter().filter_map(|ServedService { name, latencies: recorded }| {
            let service = simulated.services.iter().find(|service| *service.name == **name)?;
            let latency = service.latency.as_ref()?;
            Some(RequestError {
                service: name.clone(),
                count: (recorded.len(), usize::try_from(service.completed).unwrap_or(usize::MAX)),
                p50: (quantile(recorded, 50)?, latency.p50),
                p99: (quantile(recorded, 99)?, latency.p99),
            })
        });
        errors.collect()
    }

    /// Returns of each task of the scenario whether it is in the group of the work.
    fn are_work(&self) -> Vec<bool> {
        let path = |ids: &Vec<TaskId>| ids.first().and_then(|id| self.groups.of.get(id));
        let is_work = |path: &String| self.work.as_ref().is_some_and(|work| is_below(path, work));
        self.tasks.iter().map(|ids| path(ids).is_some_and(is_work)).collect()
    }

    /// Writes the base error into the scenario, so that every command with it knows which effects
    /// say nothing. `origin` is the name of the trace.
    pub fn note_base_error(&mut self, origin: &str, base: &BaseError) {
        // A table of its own: before the first one, behind all keys of none.
        let at = self.scenario.find("\n[").unwrap_or(self.scenario.len());
        self.scenario.insert_str(
            at,
            &write::origin(origin, &base.percents(), base.unlike_throttled().as_deref(), &self.unknown_of_seeds),
        );
    }

    /// Refuses groups of names that the trace does not have, and a manifest that limits none of
    /// the groups. `trace` is its name, for messages.
    ///
    /// # Errors
    /// The names that are not in the trace, or those of the containers.
    pub fn check_names(&self, trace: &str, options: &Options) -> Result<(), Error> {
        self.groups.check(options)?;
        if let Some(work) =
            options.work.as_ref().filter(|work| !self.groups.of.values().any(|path| is_below(path, work)))
        {
            return Err(Error::input_help(
                format!("{trace}: no task is in `{work}`"),
                "--group NAME=/PATH or --cgroup-tree DIR say which tasks are in which group",
            ));
        }
        let [first, ..] = &self.unknown[..] else { return Ok(()) };
        Err(Error::input_help(
            format!("{trace}: no process or thread is named {}", self.unknown.join(", ")),
            format!(
                "`zerolag report {trace}` lists the names; a thread can have another name than its program: {first}"
            ),
        ))
    }
}

/// Imports a trace for advice: returns its scenario and the base error. `name` is that of the
/// trace, for messages.
///
/// # Errors
/// A name that is not in the trace, a trace without computation, a scenario that does not run.
pub fn to_advise(trace: &Trace, name: &str, options: &Options) -> Result<(String, BaseError), Error> {
    let origin = std::path::Path::new(name).file_name().unwrap_or_default().to_string_lossy();
    let mut imported = import(trace, &origin, options);
    imported.check_names(name, options)?;
    if imported.tasks.is_empty() {
        return Err(Error::input(format!("{name}: no task computes in this trace")));
    }
    let base = base_error(trace, &imported).map_err(|error| Error::input(format!("{name}: {error}")))?;
    imported.note_base_error(&origin, &base);
    Ok((imported.scenario, base))
}

fn simulate(scenario: &str) -> Result<Summary, ImportError> {
    let scenario = zerolag_workload::load("import.toml", scenario.as_bytes(), &LoadOptions::default());
    let scenario = scenario.map_err(|error| ImportError::Scenario(Box::new(error)))?;
    let plan = Plan::new(scenario).map_err(ImportError::Plan)?;
    let report = plan.run(Observe::default()).map_err(|error| ImportError::Simulation(error.to_string()))?;
    Ok(report.summary)
}

#[cfg(test)]
mod tests;
