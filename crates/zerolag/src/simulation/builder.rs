//! [`Simulation`]: a workload and the values that a caller chooses.
//!
//! A value can belong to several things, so there is one order in which a key is looked up, for
//! every front end and every kind of run: a parameter that the scenario declares; `kernel`, `cpus`,
//! `seed`, `policy`, `policy.PARAM`, `force`; a part of the program ([`Knob`]: `cpu.max`,
//! `/web:cpu.max`, `workers`); a setting of the scheduler. What a caller sets goes over what the
//! file says, and the file's settings over the kernel's.
//!
//! Every wrong value is reported, not only the first.

use super::estimate::Estimate;
use super::plan::{DEFAULT_DURATION, Histograms, Observe, POLICY, Plan};
use super::policy::{PolicyLoader, set_policy, set_policy_params};
use super::result::RunResult;
use crate::background::Background;
use crate::error::{Error, ValueError};
use crate::goals;
use crate::knob::{Knob, Part};
use crate::limit::Limit;
use crate::manifest::{Manifest, Unused};
use crate::source::{Workload, WorkloadSource};
use crate::values;
use std::ffi::OsString;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerolag_model::settings::{SettingError, nearest};
use zerolag_model::{Duration, Instant, KernelVersion, Record, Settings, Topology};
use zerolag_policy::{Policy, PolicyFactory};
use zerolag_report::frame::Follower;
use zerolag_report::frame::rows::Kept;
use zerolag_sim::{Costs, NoTrace, Sink};
use zerolag_workload::limits::{LimitPart, milli_text};
use zerolag_workload::{Diagnostics, Program, Scenario};

/// A simulation to be run: a workload, a kernel, a machine, and values.
///
/// ```
/// use zerolag::{Simulation, Workload};
///
/// let workload = Workload::toml(
///     r#"
///     [machine]
///     cpus = 4
///     [group."/web"]
///     cpu.max = "100000 100000"
///     [service.web]
///     workers = 4
///     group = "/web"
///     arrivals = { poisson = "150/s" }
///     steps = [{ run = { exponential = { mean = "5ms" } } }]
///     "#,
/// );
/// let result = Simulation::new(workload)
///     .kernel("6.12")
///     .set("cpu.max", "200000 100000")
///     .set("hz", 250)
///     .seed(1)
///     .duration("5s".parse()?)
///     .run()?;
///
/// assert!(result.is_ok());
/// let web = &result.summary().services[0];
/// assert!(web.completed > 600);
/// assert_eq!(result.summary().groups[0].max.to_string(), "200000 100000");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Mistakes are returned together, each with a valid alternative where there is one:
///
/// ```
/// use zerolag::{Error, Simulation, Workload};
///
/// let hog = Workload::toml("[task.hog]\nsteps = [{ run = \"1ms\" }]\n");
/// let error = Simulation::new(hog).kernel("6.x").set("hzz", 100).set("hz", 0).run().unwrap_err();
/// let Error::Values(wrong) = &error else { panic!("{error}") };
/// assert_eq!(wrong.len(), 3);
/// assert!(error.to_string().contains("did you mean `hz`?"));
/// ```
#[derive(Clone, Debug)]
pub struct Simulation {
    workload: Workload,
    kernel: Option<String>,
    machine: Option<Topology>,
    values: Vec<(String, String)>,
    manifest: Option<Manifest>,
    costs: Option<Profile>,
    seed: Option<u64>,
    duration: Option<Duration>,
    background: Background,
    observe: Observe,
    kept: Kept,
    cancel: Cancel,
    is_forced: bool,
    policy: Option<PolicyFactory>,
    loader: Option<PolicyLoader>,
}

#[derive(Clone, Debug)]
enum Profile {
    Named(OsString),
    Given(Box<Costs>),
}

/// Ends runs from another thread.
///
/// ```
/// use zerolag::{Simulation, Workload};
/// use zerolag::simulation::Cancel;
///
/// let cancel = Cancel::default();
/// let workload = Workload::toml("[task.hog]\nsteps = [{ run = \"1ms\" }]\n");
/// let simulation = Simulation::new(workload).duration("10h".parse()?).cancel_with(&cancel);
/// let running = std::thread::spawn(move || simulation.run());
/// cancel.cancel();
/// assert!(running.join().unwrap()?.is_interrupted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Ends the runs that have this value. They return what they have measured so far.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether they were ended.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The progress of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The simulated time that the run has reached.
    pub at: Instant,
    /// Its end, if it is known.
    pub end: Option<Instant>,
    /// Events of the machine so far.
    pub events: u64,
}

/// Something that a caller should know and that is no mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Note {
    /// A setting was given by an earlier name.
    Renamed {
        /// The earlier name.
        key: String,
        /// Its name now.
        name: &'static str,
    },
    /// A cpuset is to be a partition and cannot be one.
    InvalidPartition {
        /// The cpuset.
        cpuset: String,
    },
    /// A container of the manifest has no group in the workload.
    Unused(Unused),
    /// The period was changed and the quota was not: the limit in CPUs is another one.
    QuotaKept {
        /// The group.
        group: String,
        /// The limit before, in thousandths of a CPU.
        before_milli: u64,
        /// The limit now.
        now_milli: u64,
    },
    /// The kernel is no preset, and something about it is approximate.
    Kernel(KernelVersion),
    /// The tasks loop forever and no duration is given: [`DEFAULT_DURATION`] is simulated.
    DefaultDuration,
}

impl Note {
    /// Returns the note about a kernel, if it is no preset and something about it is approximate.
    #[must_use]
    pub fn of_kernel(kernel: KernelVersion) -> Option<Self> {
        (!kernel.is_preset() && !kernel.remarks().is_empty()).then_some(Self::Kernel(kernel))
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renamed { key, name } => write!(f, "`{key}` is now called `{name}`"),
            Self::InvalidPartition { cpuset } => write!(
                f,
                "cpuset `{cpuset}`: root invalid (partition config conflicts with housekeeping setup): it has isolated CPUs"
            ),
            Self::Unused(unused) => fmt::Display::fmt(unused, f),
            Self::Kernel(kernel) => write!(f, "kernel {kernel}: {}", kernel.remarks().join("; ")),
            Self::QuotaKept { group, before_milli, now_milli } => {
                let (before, now) = (milli_text(*before_milli), milli_text(*now_milli));
                write!(
                    f,
                    "the period of {group} was set and its quota stays: its limit is {now} CPUs and was {before}; \
                     limits.cpu={before} (or CPUQuota, --cpus) stays the same in every period"
                )
            }
            Self::DefaultDuration => {
                write!(f, "tasks loop forever and no duration is given: running {DEFAULT_DURATION}")
            }
        }
    }
}

/// A simulation whose workload was read and whose values were checked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Prepared {
    /// Everything that the run depends on.
    pub plan: Plan,
    /// Warnings and notes about the workload's text; none for a program built in code.
    pub warnings: Option<Diagnostics>,
    /// Other things that the caller should know.
    pub notes: Vec<Note>,
    workload: Workload,
    observe: Observe,
    kept: Kept,
    cancel: Cancel,
}

impl Simulation {
    /// Returns a simulation with the values of the workload, for the rest with defaults: kernel
    /// 7.3, 4 CPUs, costs `default`, seed 0, until all tasks end or for [`DEFAULT_DURATION`].
    pub fn new(workload: impl Into<Workload>) -> Self {
        Self {
            workload: workload.into(),
            kernel: None,
            machine: None,
            values: Vec::new(),
            manifest: None,
            costs: None,
            seed: None,
            duration: None,
            background: Background::Profile,
            observe: Observe { histograms: Histograms::On, ..Observe::default() },
            kept: Kept::default(),
            cancel: Cancel::default(),
            is_forced: false,
            policy: None,
            loader: None,
        }
    }

    /// Simulates this kernel: `6.12`.
    #[must_use]
    pub fn kernel(mut self, version: impl Into<String>) -> Self {
        self.kernel = Some(version.into());
        self
    }

    /// Simulates this machine.
    #[must_use]
    pub fn machine(mut self, machine: Topology) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Sets a parameter of the scenario, a part of the program or a setting of the scheduler: see
    /// the documentation of the module for the order. A key that was set before gets this value.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "callers write literals and numbers")]
    pub fn set(mut self, key: impl Into<String>, value: impl ToString) -> Self {
        let (key, value) = (key.into(), value.to_string());
        self.values.retain(|(known, _)| *known != key);
        self.values.push((key, value));
        self
    }

    /// Sets the limits and weights of groups to those of a manifest's containers; values that are
    /// [set](Self::set) go over them.
    #[must_use]
    pub fn manifest(mut self, manifest: Manifest) -> Self {
        self.manifest = Some(manifest);
        self
    }

    /// Uses a cost profile by its name (`zero`, `default`, `xeon-e7-4s`, ...) or from its TOML
    /// file.
    #[must_use]
    pub fn costs(mut self, name: impl Into<OsString>) -> Self {
        self.costs = Some(Profile::Named(name.into()));
        self
    }

    /// Uses this cost profile.
    #[must_use]
    pub fn cost_profile(mut self, costs: Costs) -> Self {
        self.costs = Some(Profile::Given(Box::new(costs)));
        self
    }

    /// Uses this seed for all random streams.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Simulates this time.
    #[must_use]
    pub const fn duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Chooses whether the monitors run, and how many of the worst waits are kept.
    #[must_use]
    pub const fn observe(mut self, observe: Observe) -> Self {
        self.observe = observe;
        self
    }

    /// Keeps a row per event of these kinds; without this a run keeps sums only.
    #[must_use]
    pub const fn keep(mut self, kept: Kept) -> Self {
        self.kept = kept;
        self
    }

    /// Sets which of the kernel's own threads run besides the workload; by default those of the
    /// cost profile ([`background`](crate::background)).
    #[must_use]
    pub const fn background(mut self, background: Background) -> Self {
        self.background = background;
        self
    }

    /// Adds the kernel's own threads of a loaded machine: [`Background::Kernel`].
    #[must_use]
    pub const fn with_kernel_threads(self) -> Self {
        self.background(Background::Kernel)
    }

    /// Lets another thread end the run.
    #[must_use]
    pub fn cancel_with(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Runs it however long that takes: a run whose [`Estimate`] is too much is refused otherwise.
    #[must_use]
    pub const fn forced(mut self) -> Self {
        self.is_forced = true;
        self
    }

    /// Runs the fair tasks by a scheduler of the caller, as one that is loaded with `sched_ext`;
    /// with the setting `sched_ext = partial`, those of SCHED_EXT only. Each run makes a policy.
    ///
    /// ```
    /// use zerolag::policy::policies::Vtime;
    /// use zerolag::{Simulation, Workload};
    ///
    /// let hogs = "duration = '1s'\n[machine]\ncpus = 1\n[task.hog]\nsteps = [{ run = '1s' }]\n";
    /// let result = Simulation::new(Workload::toml(hogs)).policy(Vtime::default).run()?;
    /// assert!(result.is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn policy<T: Policy + 'static>(mut self, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        self.policy = Some(PolicyFactory::new(make));
        self
    }

    /// Lets values of `policy` name policies besides the built-in ones.
    #[must_use]
    pub const fn policies_by(mut self, loader: PolicyLoader) -> Self {
        self.loader = Some(loader);
        self
    }

    /// Returns the workload.
    #[must_use]
    pub const fn workload(&self) -> &Workload {
        &self.workload
    }

    /// Returns the simulation with its workload's file read, so that variants of it read the file
    /// once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(self) -> Result<Self, Error> {
        Ok(Self { workload: self.workload.read()?, ..self })
    }

    /// Reads the workload and checks every value.
    ///
    /// # Errors
    /// Mistakes of the workload's text, or of values: all of one kind.
    #[expect(clippy::too_many_lines, reason = "the steps, in their order, share the plan, its notes and the mistakes")]
    pub fn plan(&self) -> Result<Prepared, Error> {
        let mut wrong = Vec::new();
        let mut seed = self.seed;
        let mut kernel = self.kernel.as_deref().and_then(|text| kept(values::kernel(text), "kernel", text, &mut wrong));
        let (mut plan, parameters, warnings) = match &self.workload.source {
            WorkloadSource::Program { program, machine } => {
                let machine = self.machine_for(false).unwrap_or_else(|| machine.clone());
                (Plan::of_program(Program::clone(program), machine, KernelVersion::default()), Vec::new(), None)
            }
            WorkloadSource::File(_) | WorkloadSource::Text { .. } | WorkloadSource::Scenario(_) => {
                let mut scenario = self.scenario()?;
                let parameters = core::mem::take(&mut scenario.parameters);
                let warnings = scenario.warnings.clone();
                let costs = scenario.costs.take().filter(|_| self.costs.is_none());
                // The plan's own kernel is replaced below, when all values are known.
                let name = self.workload.name();
                kernel = self.kernel_of(&parameters).or(kernel).or(scenario.kernel);
                let plan = Plan::on_kernel(scenario, kernel);
                let mut plan = plan.map_err(|error| Error::input(format!("{name}: {error}")))?;
                if let Some(profile) = costs {
                    plan = plan.with_costs(values::costs(&profile)?);
                }
                (plan, parameters, Some(warnings))
            }
        };
        if let (WorkloadSource::Program { .. }, Some(kernel)) = (&self.workload.source, self.kernel_of(&[]).or(kernel))
        {
            (plan.kernel, plan.config.settings) = (kernel, kernel.settings());
        }
        match &self.costs {
            Some(Profile::Named(name)) => plan = plan.with_costs(values::costs(name)?),
            Some(Profile::Given(costs)) => plan = plan.with_costs((**costs).clone()),
            None => {}
        }
        let mut notes = Vec::new();
        notes.extend(Note::of_kernel(plan.kernel));
        let mut program: Option<Program> = None;
        if let Some(manifest) = &self.manifest {
            let unused = manifest.apply(program.get_or_insert_with(|| (*plan.program).clone()))?;
            notes.extend(unused.into_iter().map(Note::Unused));
        }
        let limits_before = Limit::all(program.as_ref().unwrap_or(&plan.program));
        let mut periods: Vec<usize> = Vec::new();
        let mut quotas: Vec<usize> = Vec::new();
        for (key, value) in self.values.iter().filter(|(key, _)| !parameters.contains(key)) {
            let mut refuse = |message: &dyn fmt::Display| wrong.push(ValueError::new(key, value, message));
            match key.as_str() {
                // These were applied above; here only mistakes are left.
                "kernel" => drop(values::kernel(value).map_err(|reason| refuse(&reason))),
                "cpus" => drop(values::cpus(value).map_err(|reason| refuse(&reason))),
                "force" if ["on", "off"].contains(&value.as_str()) => {}
                "force" => refuse(&"expected on or off"),
                option if OPTIONS.contains(&option) => refuse(&"no setting: it is an option of its own"),
                "seed" => match value.parse() {
                    Ok(number) => seed = Some(number),
                    Err(_) => refuse(&"expected a whole number"),
                },
                "policy" => match set_policy(self.loader, value, &mut plan) {
                    Ok(()) => {}
                    Err((why, None)) => refuse(&why),
                    Err((why, help)) => wrong.push(ValueError { help, ..ValueError::new(key, value, why) }),
                },
                // They are those of the policy, which is known below.
                param if param.starts_with(POLICY) => {}
                _ => match Knob::find(key, &plan.program) {
                    Some(knob) => {
                        let program = program.get_or_insert_with(|| (*plan.program).clone());
                        match &knob {
                            Ok(Knob { part: Part::Limit(LimitPart::Period), index }) => periods.push(*index),
                            Ok(Knob { part, index }) if part.is_limit() => quotas.push(*index),
                            Ok(_) | Err(_) => {}
                        }
                        if let Err(error) = knob.and_then(|knob| knob.set(program, value)) {
                            let help = Some(error.help.clone()).filter(|help| !help.is_empty());
                            wrong.push(ValueError { help, ..ValueError::new(key, value, &error) });
                        }
                    }
                    None => match plan.config.settings.set(key, value) {
                        Err(error) => match near(&error, key, &parameters) {
                            Some(near) => refuse(&format_args!("unknown key; did you mean `{near}`?")),
                            None => refuse(&error),
                        },
                        Ok(()) => {
                            let nr_cpus = plan.config.topology.nr_cpus();
                            if let Some(cpu) = plan.config.settings.missing_cpu(key, nr_cpus) {
                                let last = nr_cpus - 1;
                                refuse(&format_args!("CPU {} does not exist: the machine has CPUs 0..={last}", cpu.0));
                            }
                            notes.extend(Settings::renamed(key).map(|name| Note::Renamed { key: key.clone(), name }));
                        }
                    },
                },
            }
        }
        let params = self.values.iter().filter(|(key, _)| !parameters.contains(key));
        set_policy_params(self.policy.as_ref(), params, &mut plan, &mut wrong);
        if !wrong.is_empty() {
            return Err(Error::Values(wrong));
        }
        if let Some(program) = program {
            let paths =
                periods.iter().filter(|index| !quotas.contains(index)).map(|index| &program.groups[*index].path);
            notes.extend(paths.filter_map(|path| quota_kept(path, &limits_before, &Limit::all(&program))));
            plan.program = Arc::new(program);
        }
        if let Some(seed) = seed {
            plan = plan.with_seed(seed);
        }
        if let Some(duration) = self.duration {
            plan = plan.for_duration(duration);
        }
        if let Some(policy) = &self.policy {
            plan = plan.with_policy(policy.clone());
        }
        let partitions = plan.invalid_partitions();
        notes.extend(partitions.into_iter().map(|cpuset| Note::InvalidPartition { cpuset: cpuset.to_owned() }));
        plan = plan.with_background(self.background);
        if plan.config.duration.is_none() && plan.is_endless() {
            notes.push(Note::DefaultDuration);
            plan = plan.for_duration(DEFAULT_DURATION);
        }
        let estimate = Estimate::of(&plan);
        let is_forced = self.is_forced || self.values.iter().any(|(key, value)| key == "force" && value == "on");
        if estimate.is_too_much() && !is_forced {
            return Err(self.too_much(&estimate));
        }
        let (observe, kept, cancel) = (self.observe, self.kept, self.cancel.clone());
        let workload = self.workload.clone();
        Ok(Prepared { plan, warnings, notes, workload, observe, kept, cancel })
    }

    /// Returns the error of a run that takes too long, with the place of what takes most.
    fn too_much(&self, estimate: &Estimate) -> Error {
        let help = "correct it, choose a shorter duration, or run it anyway: --force, or the value force=on";
        let Some(largest) = &estimate.largest else { return Error::input_help(estimate.to_string(), help) };
        let name = self.workload.name();
        let line = self.workload.line_of(largest.kind, &largest.name);
        let place = line.map_or_else(|| name.clone(), |line| format!("{name}:{line}"));
        Error::input_help(format!("{place}: {} `{}`: {}: {estimate}", largest.kind, largest.name, largest.says), help)
    }

    /// Reads the workload and runs it.
    ///
    /// A run that ends badly (a deadlock, a broken rule) is a result and no error: see
    /// [`RunResult::is_ok`].
    ///
    /// # Errors
    /// Mistakes of the workload or of values; the program does not fit the machine.
    pub fn run(&self) -> Result<RunResult, Error> {
        self.plan()?.run()
    }

    /// Reads the workload and runs it; `progress` is called now and then (every 65,536 events) and
    /// can end the run, which then returns what it has measured so far.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_with(&self, progress: impl FnMut(Progress) -> ControlFlow<()>) -> Result<RunResult, Error> {
        self.plan()?.run_into(&mut NoTrace, progress)
    }

    /// Returns the value of `cpus` as a machine, unless the scenario declares a parameter of that
    /// name; else the machine that the caller gave. A wrong value is reported later.
    fn machine_for(&self, is_parameter: bool) -> Option<Topology> {
        let set = self.values.iter().find(|(key, _)| key == "cpus" && !is_parameter);
        set.and_then(|(_, value)| values::cpus(value).ok()).or_else(|| self.machine.clone())
    }

    /// Returns the kernel that `kernel` is set to, unless it is a parameter.
    fn kernel_of(&self, parameters: &[String]) -> Option<KernelVersion> {
        let set = self.values.iter().find(|(key, _)| key == "kernel" && !parameters.contains(key));
        set.and_then(|(_, value)| values::kernel(value).ok())
    }

    /// Reads the workload. Whether `cpus` is a parameter is known only afterwards, and whether the
    /// workload fits the machine only with it: then it is read twice.
    fn scenario(&self) -> Result<Scenario, Error> {
        let read = self.workload.scenario(self.machine_for(false), &self.values);
        if !self.values.iter().any(|(key, _)| key == "cpus") {
            return read;
        }
        let is_parameter = |scenario: &Scenario| scenario.parameters.iter().any(|name| name == "cpus");
        if matches!(&read, Ok(scenario) if !is_parameter(scenario)) {
            return read;
        }
        match self.workload.scenario(self.machine_for(true), &self.values) {
            Ok(scenario) if is_parameter(&scenario) => Ok(scenario),
            Ok(_) | Err(_) => read,
        }
    }
}

/// Words that are no keys, since each has an option, a method or an argument of its own.
const OPTIONS: [&str; 3] = ["duration", "machine", "costs"];

/// Returns what an unknown key was likely meant to be: a parameter of the workload, a word of the
/// run, or a part of the program. A setting that is similar is named by its error.
fn near(error: &SettingError, key: &str, parameters: &[String]) -> Option<String> {
    let SettingError::UnknownKey { near, .. } = error else { return None };
    let words = ["kernel", "cpus", "seed", "policy", "force"].into_iter().chain(OPTIONS);
    let words = parameters.iter().map(String::as_str).chain(words);
    match (nearest(key, words), near) {
        (Some(word), _) => Some(word.to_owned()),
        (None, None) => Knob::nearest(key),
        (None, Some(_)) => None,
    }
}

/// Returns a note if the limit of a group is another number of CPUs than before.
fn quota_kept(group: &str, before: &[Limit], now: &[Limit]) -> Option<Note> {
    let milli = |all: &[Limit]| all.iter().find(|limit| limit.group == group)?.limits_cpu_milli;
    let (before_milli, now_milli) = (milli(before)?, milli(now)?);
    (before_milli != now_milli).then(|| Note::QuotaKept { group: group.to_owned(), before_milli, now_milli })
}

/// Returns a value that was read, or notes the mistake.
fn kept<T>(read: Result<T, String>, key: &str, value: &str, wrong: &mut Vec<ValueError>) -> Option<T> {
    read.map_err(|reason| wrong.push(ValueError::new(key, value, reason))).ok()
}

/// Passes records on to a follower, if there is one, and to another sink.
struct Both<'s, S>(Option<Follower>, &'s mut S);

impl<S: Sink> Sink for Both<'_, S> {
    fn record(&mut self, record: &Record) {
        if let Some(follower) = &mut self.0 {
            follower.observe(record);
        }
        self.1.record(record);
    }
}

impl Prepared {
    /// Runs it.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn run(&self) -> Result<RunResult, Error> {
        self.run_into(&mut NoTrace, |_| ControlFlow::Continue(()))
    }

    /// Runs it; every record is also passed to `also`, and `progress` is called now and then and
    /// can end the run.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn run_into(
        &self,
        also: &mut impl Sink,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<RunResult, Error> {
        let meta = self.plan.meta();
        let end = self.plan.config.duration.map(|duration| meta.start.saturating_add(duration));
        let mut sink = Both(self.kept.any().then(|| Follower::new(&meta, self.kept)), also);
        let report = self.plan.run_into(self.observe, &mut sink, |at, stats| {
            if self.cancel.is_cancelled() {
                return ControlFlow::Break(());
            }
            progress(Progress { at, end, events: stats.events })
        });
        let report = report.map_err(|error| Error::input(self.workload.placed(&error)))?;
        let rows = sink.0.map(|follower| follower.finish(report.outcome.end)).unwrap_or_default();
        let goals = goals::judge(&self.plan.goals, &report.summary);
        let limits = Limit::all(&self.plan.program);
        let refusals = report.outcome.refusals().map(|error| self.workload.placed(error)).collect();
        let result = RunResult::new(report, goals, limits, rows, self.kept).placed(refusals);
        Ok(result.imported_from(self.plan.program.origin.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOG: &str = "[machine]\ncpus = 2\n[group.\"/a\"]\ncpu.max = \"50000 100000\"\n[task.hog]\ngroup = \"/a\"\ninstances = 2\nsteps = [{ run = \"1ms\" }]\n";

    fn simulation(text: &str) -> Simulation {
        Simulation::new(Workload::toml(text)).duration(Duration::from_millis(50))
    }

    #[test]
    fn a_key_is_a_parameter_first() {
        let text = "[parameters]\nseed = 3\nhz = \"1ms\"\ncpus = 2\n[task.a]\ninstances = \"${seed}\"\nsteps = [{ run = \"${hz}\" }, { sleep = \"1ms\" }]\n[task.b]\ninstances = \"${cpus}\"\nsteps = [{ run = \"1ms\" }]\n";
        let plan = simulation(text).set("hz", "2ms").set("seed", 9).set("cpus", 64).plan().expect("parameters").plan;
        assert_eq!((plan.config.seed, plan.config.topology.nr_cpus()), (0, zerolag_workload::DEFAULT_CPUS as usize));
        let settings = KernelVersion::default().settings();
        assert_eq!(plan.config.settings, settings, "no setting was set");
    }

    #[test]
    fn a_key_is_part_of_the_program_before_it_is_a_setting() {
        let set = simulation(HOG).set("cpu.max", "70000 100000").set("kernel", "5.15").set("cpus", 3).set("seed", 7);
        let plan = set.set("hz", 100).plan().expect("all exist").plan;
        assert_eq!(plan.program.groups[0].max.to_string(), "70000 100000");
        assert_eq!((plan.kernel, plan.config.topology.nr_cpus(), plan.config.seed), (KernelVersion::V5_15, 3, 7));
        assert!(plan.config.settings.recorded().any(|(key, value)| key == "hz" && value == "100"));
    }

    #[test]
    fn a_period_that_makes_another_limit_is_noted() {
        let notes = |simulation: Simulation| simulation.plan().expect("it is valid").notes;
        let period = simulation(HOG).set("cpu.cfs_period_us", 10_000);
        let kept = Note::QuotaKept { group: "/a".to_owned(), before_milli: 500, now_milli: 5000 };
        assert!(kept.to_string().contains("is 5 CPUs and was 500m; limits.cpu=500m"), "{kept}");
        assert_eq!(notes(period.clone()), [kept]);
        assert_eq!(notes(period.clone().set("limits.cpu", "500m")), []);
        assert_eq!(notes(period.set("cpu.max", "5000")), []);
        let in_cpus = HOG.replace("cpu.max = \"50000 100000\"", "limits.cpu = 0.5");
        assert_eq!(notes(simulation(&in_cpus).set("cpu.cfs_period_us", 10_000)), []);
    }

    #[test]
    fn the_last_value_of_a_key_is_used_and_every_wrong_one_is_said() {
        assert!(simulation(HOG).set("hz", 0).set("hz", 100).plan().is_ok());
        let wrong = simulation(HOG).kernel("1.0").set("cpus", 0).set("cpu.max", "x").set("hzz", 1).plan();
        let Err(Error::Values(wrong)) = wrong else { panic!("four values are wrong") };
        let keys: Vec<&str> = wrong.iter().map(|error| &*error.key).collect();
        assert_eq!(keys, ["kernel", "cpus", "cpu.max", "hzz"]);
        assert!(wrong[2].help.is_some());
    }

    #[test]
    fn a_simulation_is_a_value_that_threads_can_share() {
        fn is_shared<T: Send + Sync + Clone>() {}
        is_shared::<Simulation>();
        is_shared::<Prepared>();
        is_shared::<RunResult>();
    }

    #[test]
    fn the_same_simulation_gives_the_same_bytes_beside_others() {
        let run = |seed| simulation(HOG).seed(seed).run().expect("it fits").to_json();
        let alone = run(1);
        let together: Vec<String> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..4).map(|seed| scope.spawn(move || run(seed))).collect();
            runs.into_iter().map(|run| run.join().expect("no panic")).collect()
        });
        assert_eq!(together[1], alone);
    }

    #[test]
    fn progress_and_cancel_end_a_run_with_what_it_has() {
        let long = simulation(HOG).duration(Duration::from_secs(3600)).set("cpu.max", "max 100000").set("hz", 1000);
        let mut calls = 0;
        let result = long.run_with(|progress| {
            calls += 1;
            assert_eq!(progress.end, Some(Instant::ZERO.saturating_add(Duration::from_secs(3600))));
            ControlFlow::Break(())
        });
        let result = result.expect("partial");
        assert!(calls == 1 && result.is_interrupted() && !result.is_ok());
        assert!(result.summary().elapsed < Duration::from_secs(3600) && result.summary().switches > 0);
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(long.cancel_with(&cancel).run().expect("partial").is_interrupted());
    }

    #[test]
    fn isolated_cpus_have_none_of_their_own() {
        let task = Workload::toml("machine = { cpus = 3 }\n[task.a]\nloop = 1\nsteps = [{ run = \"1ms\" }]\n");
        let simulation = Simulation::new(task).set("isolcpus", "1").background(Background::Idle);
        let plan = simulation.plan().expect("a plan").plan;
        let names: Vec<&str> = plan.program.tasks.iter().map(|task| &*task.name).skip(3).collect();
        assert_eq!(names, ["kworker/0", "kworker/u0", "kworker/2", "kworker/u2"]);
    }

    #[test]
    fn a_program_built_in_code_takes_the_same_values() {
        let scenario = Workload::toml(HOG).scenario(None, &[]).expect("it is valid");
        let (program, machine) = (scenario.program.clone(), scenario.machine_or_default());
        let built = Simulation::new(Workload::of_program(program, machine)).duration(Duration::from_millis(50));
        let read = simulation(HOG);
        let set = |simulation: Simulation| simulation.kernel("6.1").set("cpu.max", "20000 100000").seed(5);
        let (built, read) = (set(built).run().expect("built"), set(read).run().expect("read"));
        assert_eq!(built.to_json(), read.to_json());
    }
}
