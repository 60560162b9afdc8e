//! The live half: a case's workload on this host and in the simulator, figure by figure.
//!
//! Each case runs several times on the host's kernel and once in the simulator, under the preset
//! nearest to the host's kernel, for the same time on as many CPUs. These figures are compared:
//!
//! | figure | unit | |
//! |---|---|---|
//! | `share.TASK` | CPU time in percent of one CPU | of fair tasks only if other programs hardly ran |
//! | `part.TASK` | percent of the CPU time of all fair tasks of the workload | if they are busy on one CPU: other programs then take from all equally; or if other programs hardly ran |
//! | `turns.TASK` | how many times it was switched to | only if other programs hardly ran |
//! | `latency.TASK` | median microseconds from a timer's expiry until the task continued | if the case declares a band; needs `--costs` |
//! | `used/PATH` | CPU time of a group in percent of one CPU | |
//! | `nr_throttled/PATH` | periods at whose end it was throttled | only if other programs hardly ran |
//! | `throttled/PATH` | milliseconds of that, added up over CPUs | only if other programs hardly ran |
//! | `p50.SERVICE`, `p99.SERVICE` | milliseconds from a request's intended arrival to its end | only if other programs hardly ran |
//!
//! Deadline tasks may not be confined to a part of their root domain, so a case with deadline tasks
//! runs on all CPUs, on the host and in the simulator: their bandwidth does not depend on that.
//!
//! A case whose recordings vary parameters of its workload runs with each set that was recorded on
//! the nearest kernel.
//!
//! Three effects of a host would hide the scheduler's:
//!
//! * Computations take longer than stated, because of interrupts, cold caches or a hypervisor. The
//!   factor is measured (CPU time over calibrated work), and the simulator's computations are
//!   stretched by it: scheduling is compared, not the calibration.
//! * The run's own watchdog interrupts the workload. The simulator runs a task in its place, with
//!   its policy, its period and its measured run time.
//! * The host varies between runs. A figure is outside only if the *nearest* run is further away
//!   than the band allows.
//!
//! The band is the case's (`part` uses that of `share`). A case that the host refuses, or that
//! changes a setting of the machine, is skipped with the reason.

use super::{Band, Case, Recording, ValidateError, named, names, rank};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag::simulation::{Observe, Plan, PlanError};
use zerolag_linux::{Host, Options, TaskFigures, Watchdog};
use zerolag_model::{CpuMask, Duration, KernelVersion, Mark, Record, SchedAttr, TaskId, Topology, TraceEvent};
use zerolag_report::Summary;
use zerolag_report::figure::{Figure, P50, P99, Quantity, Subject};
use zerolag_sim::Costs;
use zerolag_workload::program::{Action, TaskDef};
use zerolag_workload::{Dist, LoadOptions, Program, Scenario, load};

/// Options of the live half.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// Runs on the host per case; at least one.
    pub runs: u32,
    /// Duration of each run.
    pub duration: Duration,
    /// The host's cost profile (`zerolag calibrate`); without it no latency is compared.
    pub costs: Option<Costs>,
}

/// A figure of the host, run by run, and ours.
#[derive(Clone, PartialEq, Debug)]
pub struct LiveFigure {
    /// `kind.task`.
    pub name: String,
    /// The host's values, a run each.
    pub host: Vec<f64>,
    /// The simulator's value.
    pub ours: f64,
    /// The allowed error.
    pub band: Band,
}

impl LiveFigure {
    /// Returns the mean over the runs.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.host.iter().sum::<f64>() / self.host.len().max(1) as f64
    }

    /// Returns the smallest and the largest value of the runs.
    #[must_use]
    pub fn spread(&self) -> (f64, f64) {
        self.host
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)))
    }

    /// Returns ours minus the mean.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.ours - self.mean()
    }

    /// Returns whether ours is within the band of the nearest run.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        let (low, high) = self.spread();
        (low - self.ours).max(self.ours - high).max(0.0) <= self.band.of(self.mean())
    }
}

/// A case, compared on this host.
#[derive(Clone, Debug)]
pub struct LiveComparison {
    /// The case's name.
    pub case: String,
    /// The simulated kernel.
    pub kernel: KernelVersion,
    /// CPUs of the workload.
    pub cpus: u32,
    /// The largest share of the CPUs that other programs used, in thousandths.
    pub others: u64,
    /// The figures; empty if the case was skipped.
    pub figures: Vec<LiveFigure>,
    /// Why it was skipped.
    pub skipped: Option<String>,
}

impl LiveComparison {
    /// Returns whether every figure is inside its band.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.figures.iter().all(LiveFigure::is_inside)
    }
}

/// Other programs that use more of the CPUs (in thousandths) make counts of switches incomparable.
const OTHERS_MAX: u64 = 20;

/// Runs a case here and in the simulator, once per set of parameters. `interrupted` ends it early,
/// with the results so far.
///
/// # Errors
/// The case or its workload is wrong, or the simulator cannot run it.
pub fn run_live(
    case: &Case,
    options: &LiveOptions,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<LiveComparison>, ValidateError> {
    let host = Host::look();
    let kernel = KernelVersion::of_release(&host.release).unwrap_or_default();
    let variants = variants(case, kernel.preset());
    let one = |recording: Option<&Recording>| run_variant(case, recording, &host, options, interrupted);
    if variants.is_empty() {
        Ok(vec![one(None)?])
    } else {
        variants.into_iter().map(|one_of| one(Some(one_of))).collect()
    }
}

/// Returns the recordings whose machine and parameters are used: those of the kernel, the first of
/// equal ones; or any one.
fn variants(case: &Case, kernel: KernelVersion) -> Vec<&Recording> {
    let mut variants: Vec<&Recording> = Vec::new();
    for recording in case.recorded.iter().filter(|recording| recording.kernel == kernel) {
        let is_new = |known: &&Recording| known.variant.is_none() || known.parameters != recording.parameters;
        if variants.iter().all(is_new) && (recording.variant.is_some() || variants.is_empty()) {
            variants.push(recording);
        }
    }
    if variants.is_empty() { case.recorded.last().into_iter().collect() } else { variants }
}

fn run_variant(
    case: &Case,
    recording: Option<&Recording>,
    host: &Host,
    options: &LiveOptions,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<LiveComparison, ValidateError> {
    let kernel = KernelVersion::of_release(&host.release).unwrap_or_default();
    let recorded = recording.map_or(1, |recording| recording.machine.nr_cpus());
    let mut scenario = scenario(case, recording, recorded)?;
    let mut wanted = recorded;
    if wanted < host.cpus.count() && has_deadline_tasks(&scenario.program) {
        wanted = host.cpus.count();
        scenario = self::scenario(case, recording, wanted)?;
    }
    let cpus = u32::try_from(wanted).unwrap_or(u32::MAX);
    let name = recording.map_or_else(|| case.name.clone(), |recording| named(&case.name, recording));
    let mut comparison = LiveComparison { case: name, kernel, cpus, others: 0, figures: Vec::new(), skipped: None };
    if let Some((key, value)) = scenario.settings.first() {
        comparison.skipped =
            Some(format!("wants a machine with {key} = {value}, a global setting; none is changed here"));
        return Ok(comparison);
    }
    let mask = CpuMask::first_n(wanted);
    if !mask.is_subset_of(&host.cpus) {
        comparison.skipped = Some(format!("needs CPUs {mask}; the process may use {}", host.cpus));
        return Ok(comparison);
    }
    let mut runs: Vec<BTreeMap<String, f64>> = Vec::new();
    let mut stretch = SlowdownFactors::default();
    let mut watchdogs: Vec<Watchdog> = Vec::new();
    let on_host = Options { duration: Some(options.duration), cpus: Some(mask), ..Options::default() };
    let program = Arc::new(scenario.program.clone());
    let plan = match zerolag_linux::Plan::new(Arc::clone(&program), on_host) {
        Ok(plan) => plan,
        Err(refusals) => {
            comparison.skipped = refusals.first().map(ToString::to_string);
            return Ok(comparison);
        }
    };
    for _ in 0..options.runs {
        let figures = match zerolag_linux::run(&plan, interrupted) {
            Ok(figures) if figures.end.is_ok() => figures,
            Ok(figures) => {
                comparison.skipped = Some(figures.end.to_string());
                return Ok(comparison);
            }
            Err(error) => {
                comparison.skipped = Some(error.to_string());
                return Ok(comparison);
            }
        };
        figures.tasks.iter().for_each(|task| stretch.add(&program, task));
        watchdogs.extend(figures.watchdog);
        let report = zerolag_host::measure(figures);
        runs.push(figures_of(&program, &report.summary, &report.figures.trace.records, options.duration));
        comparison.others = comparison.others.max(report.others_permille());
    }
    stretch.apply(&mut scenario.program);
    scenario.program.tasks.extend(watchdog(&watchdogs));
    let mut ours = simulate(case, recording, &program, scenario, kernel, options)?;
    for alike in &case.alike {
        rank(&mut ours, alike, |figure| *figure);
        runs.iter_mut().for_each(|run| rank(run, alike, |figure| *figure));
    }
    for (name, ours) in ours {
        let Some(band) = band(case, &program, &name, options, comparison.others <= OTHERS_MAX) else { continue };
        let host: Vec<f64> = runs.iter().filter_map(|run| run.get(&name).copied()).collect();
        if host.len() == runs.len() && !host.is_empty() {
            comparison.figures.push(LiveFigure { name, host, ours, band });
        }
    }
    Ok(comparison)
}

/// Returns the task that stands for the watchdog threads, if there were any.
fn watchdog(runs: &[Watchdog]) -> Option<TaskDef> {
    let first = runs.first()?;
    let looks: u64 = runs.iter().map(|run| run.looks).sum();
    let look = runs.iter().map(|run| run.run).sum::<Duration>() / looks.max(1);
    let actions = vec![Action::Sleep(Dist::Constant(first.period)), Action::Run(Dist::Constant(look))];
    Some(TaskDef::looping("zerolag-watch", first.attr, actions))
}

/// Returns the allowed error of a figure; `None` if it is not compared because the case declares no
/// band, or because other programs would decide it.
fn band(case: &Case, program: &Program, name: &str, options: &LiveOptions, is_quiet: bool) -> Option<Band> {
    let (kind, owner) = name.split_once(['.', '/']).unwrap_or((name, ""));
    let (figure, is_compared) = match kind {
        "share" => (name, is_quiet || !is_fair(program, owner)),
        "part" => (&*format!("share.{owner}"), is_quiet || are_busy_on_one_cpu(program)),
        "turns" | "nr_throttled" | "throttled" | "p50" | "p99" => (name, is_quiet),
        "latency" => (name, options.costs.is_some()),
        "used" => (name, true),
        _ => return None,
    };
    if is_compared { case.band(figure).ok() } else { None }
}

/// Whether the program has deadline tasks, which the kernel refuses to confine to fewer CPUs than
/// their root domain.
fn has_deadline_tasks(program: &Program) -> bool {
    program.tasks.iter().any(|def| matches!(def.attr, SchedAttr::Deadline(_)))
}

fn scenario(case: &Case, recording: Option<&Recording>, cpus: usize) -> Result<Scenario, ValidateError> {
    let path = &case.workload;
    let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
    let bytes = std::fs::read(path).map_err(|error| ValidateError::Io(path.clone(), error))?;
    let machine = Topology::flat(cpus).map_err(|error| {
        ValidateError::Io(path.clone(), std::io::Error::new(std::io::ErrorKind::InvalidInput, error.to_string()))
    })?;
    let parameters = recording.filter(|recording| recording.variant.is_some());
    let parameters = parameters.map(|recording| recording.parameters.clone()).unwrap_or_default();
    let options = LoadOptions { machine_override: Some(machine), parameters, ..LoadOptions::default() };
    load(&path.display().to_string(), &bytes, &options).map_err(|error| ValidateError::Workload(Box::new(error)))
}

fn simulate(
    case: &Case,
    recording: Option<&Recording>,
    program: &Program,
    scenario: Scenario,
    kernel: KernelVersion,
    options: &LiveOptions,
) -> Result<BTreeMap<String, f64>, ValidateError> {
    let path = &case.workload;
    let plan = Plan::on_kernel(scenario, Some(kernel)).map_err(|error| ValidateError::Plan(path.clone(), error))?;
    let mut plan = plan.for_duration(options.duration);
    if let Some(recording) = recording.filter(|recording| recording.kernel == kernel.preset()) {
        for (key, value) in &recording.settings {
            let set = plan.config.settings.set(key, value);
            set.map_err(|error| ValidateError::Plan(path.clone(), PlanError::Setting(error)))?;
        }
    }
    if let Some(costs) = &options.costs {
        plan = plan.with_costs(costs.clone());
    }
    let mut records: Vec<Record> = Vec::new();
    let observe = Observe::FIGURES;
    let report = plan
        .run_into(observe, &mut records, |_, _| ControlFlow::Continue(()))
        .map_err(|error| ValidateError::Sim(path.clone(), Box::new(error)))?;
    Ok(figures_of(program, &report.summary, &records, options.duration))
}

/// The factor by which computations took longer than stated, per definition.
#[derive(Debug, Default)]
struct SlowdownFactors(BTreeMap<usize, (Duration, Duration)>);

impl SlowdownFactors {
    /// Adds a task's CPU time and work.
    fn add(&mut self, program: &Program, task: &TaskFigures) {
        let Some(def) = definition(program, &task.name) else { return };
        let (run, work) = self.0.entry(def).or_default();
        *run += task.run;
        *work += task.work;
    }

    /// Stretches the computations of constant length.
    fn apply(&self, program: &mut Program) {
        for (def, (run, work)) in &self.0 {
            // Tasks with almost no work give no reliable factor.
            if *work < STRETCH_WORK_MIN || run < work {
                continue;
            }
            let actions = program.tasks[*def].phases.iter_mut().flat_map(|phase| &mut phase.actions);
            for action in actions {
                if let Action::Run(Dist::Constant(time)) = action {
                    *time = time.mul_div_floor(run.as_nanos(), work.as_nanos());
                }
            }
        }
    }
}

/// Less work than this gives no reliable factor.
const STRETCH_WORK_MIN: Duration = Duration::from_millis(10);

/// Returns the definition of a task, whose name is that of the definition, or that and the
/// instance.
fn definition(program: &Program, task: &str) -> Option<usize> {
    let names = |def: &str| task.strip_prefix(def).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    let defs = program.tasks.iter().enumerate().filter(|(_, def)| names(&def.name));
    defs.max_by_key(|(_, def)| def.name.len()).map(|(at, _)| at)
}

/// Returns whether the fair tasks never wait and are all confined to the same single CPU.
fn are_busy_on_one_cpu(program: &Program) -> bool {
    let mut fair = program.tasks.iter().filter(|def| matches!(def.attr, SchedAttr::Fair { .. }));
    let first = fair.clone().next().and_then(|def| def.affinity.clone());
    first.as_ref().is_some_and(|cpus| cpus.count() == 1)
        && fair.all(|def| {
            let actions = || def.phases.iter().flat_map(|phase| &phase.actions);
            def.affinity == first && actions().all(|action| matches!(action, Action::Run(_) | Action::Spin { .. }))
        })
}

/// Returns whether a task (the first instance has the definition's name) has a fair policy.
fn is_fair(program: &Program, task: &str) -> bool {
    definition(program, task).is_some_and(|def| matches!(program.tasks[def].attr, SchedAttr::Fair { .. }))
}

/// Returns the figures of a run. Tasks that are not the program's are ignored: the other side does
/// not have them.
fn figures_of(program: &Program, summary: &Summary, records: &[Record], duration: Duration) -> BTreeMap<String, f64> {
    let fair = || summary.tasks.iter().filter(|task| is_fair(program, &task.name));
    let total: Duration = fair().map(|task| task.run).sum();
    let part = |run: Duration| run.as_nanos() as f64 * 100.0 / total.as_nanos().max(1) as f64;
    let mut figures = BTreeMap::new();
    let mut add = |subject: Subject<'_>, owner: &str, wanted: &[Figure]| {
        for figure in wanted {
            figures.extend(subject.value(*figure).map(|value| names::named(*figure, owner, value)));
        }
    };
    for task in &summary.tasks {
        let name = task.name.strip_suffix("-0").unwrap_or(&task.name);
        add(Subject::Task(task, duration), name, &[Quantity::Share.into(), Quantity::SwitchesIn.into()]);
    }
    for group in &summary.groups {
        let wanted = [Quantity::GroupShare, Quantity::NrThrottled, Quantity::Throttled].map(Figure::from);
        add(Subject::Group(group, duration), &group.path, &wanted);
    }
    for service in &summary.services {
        let wanted = [P50, P99].map(|stat| Figure::new(Quantity::RequestLatency, stat));
        add(Subject::Service(service, duration), &service.name, &wanted);
    }
    // What only cases have.
    for task in &summary.tasks {
        let name = task.name.strip_suffix("-0").unwrap_or(&task.name);
        if fair().count() > 1 && is_fair(program, name) {
            figures.insert(format!("part.{name}"), part(task.run));
        }
        if let Some(median) = median_latency(task.task, records) {
            figures.insert(format!("latency.{name}"), median as f64 / 1000.0);
        }
    }
    figures
}

/// Returns the median time from a timer's expiry until its task continued, over the expiries that
/// it waited for.
fn median_latency(id: TaskId, records: &[Record]) -> Option<u64> {
    let waited = records.iter().filter_map(|record| match record.event {
        TraceEvent::Mark { task, mark: Mark::TimerDue { due, slack } } if task == id && !slack.is_negative() => {
            Some(record.at.since(due).as_nanos())
        }
        _ => None,
    });
    let mut waited: Vec<u64> = waited.collect();
    waited.sort_unstable();
    zerolag_linux::figures::quantile(&waited, 500).map(Duration::as_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computations_are_stretched_as_the_host_stretched_them() {
        let toml = "[task.a]\ncpus = \"0\"\nsteps = [{ run = \"2ms\" }, { sleep = \"1ms\" }]\n[task.a-b]\ncpus = \"0\"\nsteps = [{ run = \"1ms\" }]\n";
        let mut program = load("x.toml", toml.as_bytes(), &LoadOptions::default()).expect("valid").program;
        assert_eq!(definition(&program, "a-b"), Some(1));
        assert_eq!(definition(&program, "a-1"), Some(0));
        assert!(!are_busy_on_one_cpu(&program));
        let ms = Duration::from_millis;
        SlowdownFactors([(0, (ms(33), ms(30))), (1, (ms(9), ms(8)))].into()).apply(&mut program);
        assert_eq!(program.tasks[0].phases[0].actions[0], Action::Run(Dist::Constant(Duration::from_micros(2200))));
        assert_eq!(program.tasks[1].phases[0].actions[0], Action::Run(Dist::Constant(ms(1))), "too little work");
    }

    #[test]
    fn a_task_stands_for_the_watchdog() {
        let us = Duration::from_micros;
        assert_eq!(watchdog(&[]), None);
        let attr = SchedAttr::fifo_at(11);
        let run = |looks, run| Watchdog { attr, period: us(97_000), looks, run };
        let task = watchdog(&[run(30, us(900)), run(10, us(500))]).expect("it looked");
        assert_eq!(task.attr, attr);
        let [Action::Sleep(Dist::Constant(period)), Action::Run(Dist::Constant(look))] = &*task.phases[0].actions
        else {
            panic!("{task:?}")
        };
        assert_eq!((*period, *look), (us(97_000), us(35)));
    }

    #[test]
    fn the_hosts_own_spread_is_no_error_of_ours() {
        let band = Band { absolute: 1.0, percent: 0.0 };
        let figure = |host: &[f64], ours| LiveFigure { name: "part.a".to_owned(), host: host.to_vec(), ours, band };
        assert!(figure(&[50.0, 54.0], 52.0).is_inside());
        assert!(figure(&[50.0, 54.0], 54.9).is_inside());
        assert!(!figure(&[50.0, 54.0], 55.1).is_inside());
        assert!(!figure(&[50.0], 48.9).is_inside());
        assert_eq!(figure(&[50.0, 54.0], 55.0).error(), 3.0);
        assert_eq!(figure(&[50.0, 54.0], 55.0).spread(), (50.0, 54.0));
    }
}
