//! [`Plan`]: everything that a simulation depends on; [`Watch`]: observes a run.
//!
//! A plan is a value: the same plan gives the same records, bit for bit. The machine, kernel,
//! settings, costs, seed and duration of a workload file are its start; a caller's values override
//! them.
//!
//! Figures and checks are computed during the simulation, record by record; a trace is kept only on
//! request.

use crate::background::Background;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_check::Checker;
use zerolag_model::figure::Figure;
use zerolag_model::settings::{SchedExt, SchedExtPolicy, SettingError};
use zerolag_model::state::StateHistory;
use zerolag_model::{CpuMask, Duration, Instant, KernelVersion, PressureTrigger, Record, Topology};
use zerolag_policy::{Policy, PolicyFactory, policies};
use zerolag_report::frame::Bucket;
use zerolag_report::{Metrics, Summary};
use zerolag_sim::{Costs, Machine, MachineConfig, NoTrace, Outcome, SimError, Sink, Stats, Tracing};
use zerolag_trace::{Meta, Source};
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::goal::Goal;
use zerolag_workload::{Program, Scenario};

/// The duration of an endless workload without a duration.
pub const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// What the keys of a policy's parameters begin with.
pub(super) const POLICY: &str = "policy.";

/// A program on a machine, with settings, costs, a seed and a duration.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tasks and their programs.
    pub program: Arc<Program>,
    /// The kernel whose settings were the base.
    pub kernel: KernelVersion,
    /// Machine, settings, costs, seed and duration.
    pub config: MachineConfig,
    /// The goals of the run.
    pub goals: Vec<Goal>,
    /// A policy of the caller for the tasks of `sched_ext`, in place of that of the settings.
    pub policy: Option<PolicyFactory>,
    /// Parameters of the policy that are set, by index.
    pub policy_params: Vec<(usize, u64)>,
    /// Texts of the policy that are set, by index.
    pub policy_texts: Vec<(usize, Arc<str>)>,
    /// Whether figures of sharing are measured also where no scheduler is loaded
    /// ([`measuring`](Self::measuring)).
    pub shares: bool,
    /// Whether figures of pressure (`cpu.pressure`) are measured
    pub pressure: bool,
}

/// Why a scenario gives no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// A setting that the reader of the file accepted was refused.
    Setting(SettingError),
    /// The file names a cost profile that is not built in.
    Costs(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(error) => fmt::Display::fmt(error, f),
            Self::Costs(name) => write!(f, "unknown cost profile `{name}`; known are zero, default"),
        }
    }
}

impl std::error::Error for PlanError {}

impl From<SettingError> for PlanError {
    fn from(error: SettingError) -> Self {
        Self::Setting(error)
    }
}

impl Plan {
    /// Returns the plan of a scenario, with defaults for missing values.
    ///
    /// # Errors
    /// The scenario names a cost profile that is not built in.
    pub fn new(scenario: Scenario) -> Result<Self, PlanError> {
        Self::on_kernel(scenario, None)
    }

    /// Returns the plan of a scenario on another kernel than its own. Its own settings still apply.
    ///
    /// # Errors
    /// The scenario names a cost profile that is not built in.
    pub fn on_kernel(scenario: Scenario, kernel: Option<KernelVersion>) -> Result<Self, PlanError> {
        let kernel = kernel.or(scenario.kernel).unwrap_or_default();
        let mut settings = kernel.settings();
        for (key, value) in &scenario.settings {
            settings.set(key, value)?;
        }
        let name = scenario.costs.as_deref().unwrap_or("default");
        let costs = Costs::named(name).ok_or_else(|| PlanError::Costs(name.to_owned()))?;
        let topology = scenario.machine_or_default();
        let (seed, duration) = (scenario.seed.unwrap_or_default(), scenario.duration);
        let config = MachineConfig { topology, settings, costs, seed, duration };
        let figures: Vec<Figure> = scenario.goals.iter().map(|goal| goal.figure).collect();
        let plan = Self {
            program: Arc::new(scenario.program),
            kernel,
            config,
            goals: scenario.goals,
            policy: None,
            policy_params: Vec::new(),
            policy_texts: Vec::new(),
            shares: false,
            pressure: false,
        };
        Ok(plan.measuring(figures))
    }

    /// Returns the plan of a program built in code: on a flat machine, costs `default`, seed 0,
    /// until all tasks end.
    #[must_use]
    pub fn of_program(program: Program, machine: Topology, kernel: KernelVersion) -> Self {
        let config = MachineConfig {
            topology: machine,
            settings: kernel.settings(),
            costs: Costs::server(),
            seed: 0,
            duration: None,
        };
        Self {
            program: Arc::new(program),
            kernel,
            config,
            goals: Vec::new(),
            policy: None,
            policy_params: Vec::new(),
            policy_texts: Vec::new(),
            shares: false,
            pressure: false,
        }
    }

    /// Returns the plan with another duration.
    #[must_use]
    pub const fn for_duration(mut self, duration: Duration) -> Self {
        self.config.duration = Some(duration);
        self
    }

    /// Returns the plan with the kernel's own threads besides its program. Isolated CPUs have none
    /// of their own: Linux keeps deferrable work off them (v6.12 `mm/vmstat.c`, `vmstat_shepherd`).
    #[must_use]
    pub fn with_background(mut self, background: Background) -> Self {
        let threads = &self.config.costs.threads;
        if background == Background::None || background == Background::Profile && threads.is_empty() {
            return self;
        }
        let nr_cpus = self.config.topology.nr_cpus();
        let isolated = self.config.settings.isolated_cpus(nr_cpus);
        let free = CpuMask::first_n(nr_cpus).iter().filter(|cpu| !isolated.contains(*cpu)).collect();
        let mut program = (*self.program).clone();
        background.add_to(&mut program, &free, threads);
        self.program = Arc::new(program);
        self
    }

    /// Returns the plan whose runs measure these figures: those of sharing and of pressure are
    /// measured only where one is asked for, those of sharing also where a scheduler is loaded,
    /// since they take more than all others.
    #[must_use]
    pub fn measuring(mut self, figures: impl IntoIterator<Item = Figure>) -> Self {
        for figure in figures {
            self.shares |= figure.quantity.is_of_sharing();
            self.pressure |= figure.quantity.is_of_pressure();
        }
        self
    }

    /// Returns whether runs measure the figures of sharing.
    #[must_use]
    pub fn measures_sharing(&self) -> bool {
        self.shares || self.has_policy()
    }

    /// Returns whether a scheduler of `sched_ext` is loaded, from the start or later.
    pub(crate) fn has_policy(&self) -> bool {
        self.policy.is_some() || self.config.settings.sched_ext != SchedExt::Off || self.changes_policy()
    }

    /// Returns whether a scheduler of `sched_ext` is loaded or unloaded in mid-run.
    fn changes_policy(&self) -> bool {
        self.program.changes.iter().any(|change| change.what.is_of_policy())
    }

    /// Returns the plan with another seed.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// Returns the plan with another cost profile.
    #[must_use]
    pub fn with_costs(mut self, costs: Costs) -> Self {
        self.config.costs = costs;
        self
    }

    /// Returns the plan with a policy of the caller: it has all fair tasks, or those of SCHED_EXT
    /// under `sched_ext = partial`.
    #[must_use]
    pub fn with_policy(mut self, policy: PolicyFactory) -> Self {
        self.config.settings.load_scheduler(SchedExtPolicy::Fifo);
        self.policy = Some(policy);
        self
    }

    /// Returns whether some task never ends by itself.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        self.program.is_endless()
    }

    /// Returns the names of cpusets that are to be partitions, at the start or later, but cannot be
    /// because they contain isolated CPUs.
    #[must_use]
    pub fn invalid_partitions(&self) -> Vec<&str> {
        let nr_cpus = self.config.topology.nr_cpus();
        let cpusets = self.program.cpusets.iter().enumerate();
        let wanted = cpusets.filter(|(index, set)| set.partition || self.program.changes_partition(*index));
        let invalid = wanted.filter(|(_, set)| self.config.settings.forbids_partition(&set.cpus, nr_cpus));
        invalid.map(|(_, set)| &*set.name).collect()
    }

    /// Returns the description of the run for a trace of this plan.
    #[must_use]
    pub fn meta(&self) -> Meta {
        let mut meta = Meta::new(Source::Simulation, zerolag_trace::Machine::Known(self.config.topology.clone()));
        meta.seed = Some(self.config.seed);
        meta.kernel = self.kernel.name();
        meta.costs.clone_from(&self.config.costs.name);
        meta.settings = self.config.settings.recorded().map(|(key, value)| (key.to_owned(), value)).collect();
        // Not a setting, but what one depends on: monitors look at it.
        let loaded = self.loaded();
        if let Some(policy) = loaded.as_ref().filter(|_| self.policy.is_some() || self.changes_policy()) {
            meta.settings.push(("policy".to_owned(), policy.ops().name));
        }
        for (index, value) in &self.policy_params {
            let param = loaded.as_ref().and_then(|policy| policy.params().get(*index));
            meta.settings.extend(param.map(|param| (format!("{POLICY}{}", param.name), param.show(*value))));
        }
        for (index, text) in &self.policy_texts {
            let param = loaded.as_ref().and_then(|policy| policy.texts().get(*index));
            let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
            meta.settings.extend(param.map(|param| (format!("{POLICY}{}", param.name), line)));
        }
        if !self.program.processes.is_empty() {
            meta.settings.push(("processes".to_owned(), self.program.processes.len().to_string()));
        }
        let locks = (0..).zip(&self.program.resources).filter(|(_, resource)| resource.kind.is_lock());
        meta.settings.extend(locks.map(|(lock, resource)| Meta::lock_name(lock, &resource.name)));
        let late = self.config.costs.late_switch();
        if late != zerolag_check::assumed_late_switch(&meta.costs) {
            meta.settings.push((zerolag_check::LATE_SWITCH.to_owned(), late.as_nanos().to_string()));
        }
        let path = self.config.costs.longest_path(self.config.topology.nr_cpus());
        if path > zerolag_check::SETTLE {
            meta.settings.push((zerolag_check::LONGEST_PATH.to_owned(), path.as_nanos().to_string()));
        }
        meta
    }

    /// Builds the machine.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn build(&self, tracing: Tracing) -> Result<Machine, SimError> {
        let program = self.program.drawn(self.config.seed).map_or_else(|| Arc::clone(&self.program), Arc::new);
        let has_calls = !self.config.costs.policy_call.is_zero();
        match self.loaded() {
            // The built-in class is quicker than the policy that does the same, and makes no calls.
            Some(policy) if self.policy.is_some() || self.sets_policy() || has_calls => {
                Machine::with_policy(program, &self.config, tracing, policy)
            }
            Some(_) | None => Machine::new(program, &self.config, tracing),
        }
    }

    /// Returns the policy of the run, with its parameters, if it has one: a change can load it
    /// later.
    #[must_use]
    pub fn loaded(&self) -> Option<Box<dyn Policy>> {
        let MachineConfig { settings, seed, .. } = &self.config;
        let has_policy = settings.sched_ext != SchedExt::Off || self.changes_policy();
        let named = || has_policy.then(|| policies::named(settings.sched_ext_policy, *seed));
        let mut policy = self.policy.as_ref().map(PolicyFactory::make).or_else(named)?;
        self.policy_params.iter().for_each(|(index, value)| policy.set_param(*index, *value));
        for (index, text) in &self.policy_texts {
            policy.set_text(*index, text).expect("invariant: it was read when it was set");
        }
        Some(policy)
    }

    /// Returns whether the policy has values of its user.
    fn sets_policy(&self) -> bool {
        !(self.policy_params.is_empty() && self.policy_texts.is_empty())
    }

    /// Runs the plan and measures it.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn run(&self, observe: Observe) -> Result<Report, SimError> {
        self.run_into(observe, &mut NoTrace, |_, _| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run); every record is also passed to `also`, and `progress` is called
    /// periodically with the progress and can end the run.
    ///
    /// # Errors
    /// The program does not fit the machine.
    pub fn run_into(
        &self,
        observe: Observe,
        also: &mut impl Sink,
        progress: impl FnMut(Instant, &Stats) -> ControlFlow<()>,
    ) -> Result<Report, SimError> {
        let checker = match observe.checks {
            Checks::On => {
                // Those of a check of the trace: what else the costs say is in it.
                Some(Checker::new(&self.meta(), &zerolag_check::Options::default()))
            }
            Checks::Off => None,
        };
        Ok(self.begin(observe)?.finish(observe, checker, also, progress))
    }

    /// Returns the triggers on the pressure of groups and of the machine, with the paths of these.
    fn pressure_triggers(&self) -> Vec<(Arc<str>, PressureTrigger)> {
        let groups = self.program.groups.iter().map(|group| (Arc::clone(&group.path), &group.triggers));
        let all = groups.chain([("/".into(), &self.program.root.triggers)]);
        all.flat_map(|(path, triggers)| triggers.iter().map(move |trigger| (Arc::clone(&path), *trigger))).collect()
    }

    /// Builds the machine, and what measures it.
    pub(crate) fn begin(&self, observe: Observe) -> Result<Begun, SimError> {
        let machine = self.build(Tracing::On)?;
        let metrics = Metrics::new(&self.meta()).keep_waits(observe.worst_waits);
        let metrics = if self.measures_sharing() { metrics.with_sharing() } else { metrics };
        let metrics = match self.pressure_triggers() {
            triggers if !triggers.is_empty() => metrics.with_triggers(triggers),
            _ if self.pressure => metrics.with_pressure(),
            _ => metrics,
        };
        Ok(Begun { machine, metrics })
    }

    /// Returns from when on a run of this plan can differ from one of the other, if until then both
    /// are the same: the plans differ only in the values of changes. O(size of the programs).
    pub(crate) fn parts_from(&self, other: &Self) -> Option<Instant> {
        let (one, two) = (&*self.program, &*other.program);
        if one.changes.is_empty() || one.changes.len() != two.changes.len() {
            return None;
        }
        let MachineConfig { topology, settings, costs, seed, duration } = &self.config;
        let is_same_machine = (*seed, *duration) == (other.config.seed, other.config.duration)
            && (topology, costs) == (&other.config.topology, &other.config.costs)
            && *settings == other.config.settings;
        let mut changes = one.changes.iter().zip(&two.changes);
        let is_same_machine = is_same_machine && self.policy.is_none() && other.policy.is_none();
        let is_same_machine = is_same_machine && self.policy_params == other.policy_params;
        let is_same_machine = is_same_machine && self.policy_texts == other.policy_texts;
        if !is_same_machine || self.kernel != other.kernel || !changes.clone().all(|(one, two)| is_variant(one, two)) {
            return None;
        }
        let at = changes.find(|(one, two)| one != two).map(|(one, _)| Instant::ZERO.saturating_add(one.at));
        let Program {
            tasks,
            resources,
            sources,
            groups,
            root,
            changes: _,
            cpusets,
            processes,
            interrupts,
            kernel_work,
            origin,
            on_refused,
        } = one;
        let is_same = (tasks, resources, sources, groups) == (&two.tasks, &two.resources, &two.sources, &two.groups)
            && (root, cpusets, processes) == (&two.root, &two.cpusets, &two.processes)
            && (interrupts, kernel_work, origin) == (&two.interrupts, &two.kernel_work, &two.origin)
            && *on_refused == two.on_refused;
        is_same.then(|| at.unwrap_or(Instant::FAR_FUTURE))
    }
}

/// Returns whether two changes are the same but for the value that is set.
fn is_variant(one: &TimedChange, two: &TimedChange) -> bool {
    one.at == two.at
        && match (&one.what, &two.what) {
            (Change::Max { group, .. }, Change::Max { group: other, .. })
            | (Change::Weight { group, .. }, Change::Weight { group: other, .. }) => group == other,
            (Change::RtGroup { group, .. }, Change::RtGroup { group: other, .. }) => group == other,
            (Change::Attr { task, .. }, Change::Attr { task: other, .. })
            | (Change::Affinity { task, .. }, Change::Affinity { task: other, .. })
            | (Change::Resize { task, .. }, Change::Resize { task: other, .. }) => task == other,
            (what, other) => what == other,
        }
}

/// A run that has begun, and its figures so far.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    machine: Machine,
    metrics: Metrics,
}

impl Begun {
    /// Runs up to and with an instant.
    pub(crate) fn run_until(&mut self, at: Instant) {
        let mut watch = Watch { metrics: &mut self.metrics, checker: None, also: &mut NoTrace };
        self.machine.run_until(at, &mut watch);
    }

    /// Returns the run as one of another plan, from which it has not yet differed
    /// ([`Plan::parts_from`]).
    pub(crate) fn branch(&self, plan: &Plan) -> Self {
        let mut branch = self.clone();
        branch.machine.follow_changes_of(&plan.program);
        branch
    }

    /// Runs to the end.
    pub(crate) fn finish(
        mut self,
        observe: Observe,
        checker: Option<Checker>,
        also: &mut impl Sink,
        progress: impl FnMut(Instant, &Stats) -> ControlFlow<()>,
    ) -> Report {
        if observe.state == StateTracks::On {
            self.machine.keep_state();
        }
        let mut watch = Watch { metrics: &mut self.metrics, checker, also };
        let outcome = self.machine.run_with(&mut watch, progress);
        let checks = watch.checker.map(|checker| checker.finish(outcome.end));
        let (summary, histograms) = match observe.histograms {
            Histograms::On => self.metrics.finish_with_buckets(outcome.end),
            Histograms::Off => (self.metrics.finish(outcome.end), Vec::new()),
        };
        Report { outcome, summary, histograms, checks, state: self.machine.take_state() }
    }
}

/// Whether the monitors run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    /// They run.
    On,
    /// They do not run.
    Off,
}

/// Whether the scheduler's own numbers are kept at its decisions: lag, virtual deadlines, quota,
/// budgets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateTracks {
    /// They are, within a bound of memory.
    On,
    /// They are not.
    Off,
}

/// Whether the distributions behind the quantiles are returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Histograms {
    /// They are.
    On,
    /// They are not.
    Off,
}

/// The observers of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observe {
    /// Whether the monitors run.
    pub checks: Checks,
    /// The number of worst waits kept.
    pub worst_waits: usize,
    /// Whether distributions are returned.
    pub histograms: Histograms,
    /// Whether the scheduler's own numbers are kept at its decisions.
    pub state: StateTracks,
}

impl Observe {
    /// Figures only, for runs of which there are many.
    pub const FIGURES: Self =
        Self { checks: Checks::Off, worst_waits: 0, histograms: Histograms::Off, state: StateTracks::Off };
}

impl Default for Observe {
    fn default() -> Self {
        Self { checks: Checks::On, worst_waits: 10, histograms: Histograms::Off, state: StateTracks::Off }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Its figures.
    pub summary: Summary,
    /// The distributions behind its quantiles, if they were asked for.
    pub histograms: Vec<Bucket>,
    /// The monitors' verdicts.
    pub checks: Option<zerolag_check::Report>,
    /// The scheduler's own numbers at its decisions, if they were asked for.
    pub state: Option<StateHistory>,
}

/// A [`Sink`] that measures, checks and passes records on.
#[derive(Debug)]
pub struct Watch<'s, S> {
    metrics: &'s mut Metrics,
    checker: Option<Checker>,
    also: &'s mut S,
}

impl<S: Sink> Sink for Watch<'_, S> {
    fn record(&mut self, record: &Record) {
        self.metrics.observe(record);
        if let Some(checker) = &mut self.checker {
            checker.observe(record);
        }
        self.also.record(record);
    }
}
