//! [`Case`]: a workload whose figures were recorded on real kernels, compared with the simulator's.
//!
//! A case file contains the workload, the machine, the recorded figures per kernel and the *band*:
//! the allowed error of a figure, declared before it was measured. Running a case simulates the
//! workload under the preset of each recorded kernel and measures the same figures between the same
//! instants. No band is widened to make a case pass; a figure outside its band stays outside, with
//! the reason next to it.
//!
//! ```text
//!  case.toml ─► Case ─┬─► workload ─► Plan (preset of the kernel) ─► Measure ─┐
//!                     └─► recorded figures, bands ────────────────────────────┴─► Comparison
//! ```
//!
//! Shares of takes and runs are compared as samples, too ([`Told`]); turns and delays as
//! distributions ([`Distribution`]). That is the recorded half. `live` (Linux only) runs the
//! workloads on the host's kernel instead.

mod case;
mod distance;
pub mod json;
#[cfg(target_os = "linux")]
pub mod live;
mod measure;
mod names;
mod samples;
mod sequence;
mod table;
mod threads;

pub use case::{Band, Begins, Case, CaseError, Recorded, Recording};
pub use distance::{Distribution, Of};
pub use measure::Measure;
pub use samples::{FALSE_ALARMS, Told};
pub use sequence::{Sequence, Turn};
pub use table::{markdown, shown, text};
pub use threads::Thread;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::iter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerolag::simulation::{Plan, PlanError};
use zerolag_model::{CpuId, Duration, Instant};
use zerolag_report::figure::Quantity;
use zerolag_sim::{SimError, Tracing};
use zerolag_workload::random::{Dist, Stream};
use zerolag_workload::{self as workload, Diagnostics, LoadOptions, Program};

/// One figure, recorded and simulated.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The figure and its owner: `share.hog0`.
    pub name: String,
    /// The kernel's value, and how far its takes differ.
    pub recorded: Recorded,
    /// Ours: the mean, if the case has several runs.
    pub ours: f64,
    /// All our values.
    pub runs: Vec<f64>,
    /// The allowed error.
    pub band: Band,
}

impl Figure {
    /// Returns ours minus the kernel's.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.ours - self.recorded.mean
    }

    /// Returns whether it is the share of a task.
    #[must_use]
    pub fn is_share(&self) -> bool {
        names::figure_of(&self.name) == Some(Quantity::Share.into())
    }

    /// Returns the smallest and the largest of our values.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        let least = self.runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least, most)
    }

    /// Returns the allowed error.
    #[must_use]
    pub fn allowed(&self) -> f64 {
        self.band.of(self.recorded.mean)
    }

    /// Returns whether ours is within the band. A distance from the takes can be smaller than that
    /// of a take from the others.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        let error = self.error();
        error.abs() <= self.allowed() || (error < 0.0 && names::is_distance(&self.name))
    }
}

/// A case under one kernel, compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The case's name: its file's, without extension.
    pub case: String,
    /// The directory of the case: `fitted`, `reported`.
    pub set: String,
    /// The recording: its kernel and machine.
    pub recording: Recording,
    /// All figures of the recording.
    pub figures: Vec<Figure>,
    /// Whether the takes and our runs can be told apart by their shares, if there are enough of
    /// both.
    pub told: Option<Told>,
    /// Why it is outside its band, if known.
    pub because: Option<String>,
}

impl Comparison {
    /// Returns the case's name, with the difference from other recordings of the same kernel.
    #[must_use]
    pub fn name(&self) -> String {
        named(&self.case, &self.recording)
    }

    /// Returns whether the recording has several takes that differ.
    #[must_use]
    pub fn has_takes(&self) -> bool {
        self.figures.iter().any(|figure| figure.recorded.least < figure.recorded.most)
    }

    /// Returns whether all figures are within their bands.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.figures.iter().all(Figure::is_inside)
    }
}

fn named(case: &str, recording: &Recording) -> String {
    recording.variant.as_ref().map_or_else(|| case.to_owned(), |variant| format!("{case}, {variant}"))
}

/// Why a case cannot be run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ValidateError {
    /// The case file is invalid.
    Case(CaseError),
    /// A file cannot be read.
    Io(PathBuf, std::io::Error),
    /// The workload is invalid.
    Workload(Box<Diagnostics>),
    /// The workload gives no plan.
    Plan(PathBuf, PlanError),
    /// The workload does not fit the machine.
    Sim(PathBuf, Box<SimError>),
    /// A recorded figure that is not measured here.
    NoSuchFigure(PathBuf, String, Vec<String>),
}

impl fmt::Display for ValidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Case(error) => fmt::Display::fmt(error, f),
            Self::Io(path, error) => write!(f, "cannot read `{}`: {error}", path.display()),
            Self::Workload(diagnostics) => fmt::Display::fmt(diagnostics, f),
            Self::Plan(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Sim(path, error) => write!(f, "{}: {error}", path.display()),
            Self::NoSuchFigure(path, name, known) => {
                write!(f, "{}: no such figure `{name}`; known are {}", path.display(), known.join(", "))
            }
        }
    }
}

impl std::error::Error for ValidateError {}

impl From<CaseError> for ValidateError {
    fn from(error: CaseError) -> Self {
        Self::Case(error)
    }
}

/// Returns the case files below a directory, sorted by path.
///
/// # Errors
/// A directory cannot be read.
pub fn find(dir: &Path) -> Result<Vec<PathBuf>, ValidateError> {
    let error = |error| ValidateError::Io(dir.to_owned(), error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(error)? {
        let path = entry.map_err(error)?.path();
        if path.is_dir() {
            // Workloads are scenario files and cost profiles are profiles, not cases.
            if path.file_name().is_none_or(|name| name != "workloads" && name != "costs") {
                found.extend(find(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Runs a case under every recorded kernel.
///
/// # Errors
/// The case or its workload is invalid.
pub fn run(case: &Case) -> Result<Vec<Comparison>, ValidateError> {
    let path = &case.workload;
    let bytes = std::fs::read(path).map_err(|error| ValidateError::Io(path.clone(), error))?;
    let mut comparisons = Vec::new();
    for recording in &case.recorded {
        let load = LoadOptions {
            machine_override: Some(recording.machine.clone()),
            parameters: recording.parameters.clone(),
            ..LoadOptions::default()
        };
        let scenario = workload::load(&path.display().to_string(), &bytes, &load)
            .map_err(|error| ValidateError::Workload(Box::new(error)))?;
        let mut plan = Plan::on_kernel(scenario, Some(recording.release))
            .map_err(|error| ValidateError::Plan(path.clone(), error))?
            .for_duration(recording.from.since(Instant::ZERO) + duration(recording));
        for (key, value) in &recording.settings {
            let set = plan.config.settings.set(key, value);
            set.map_err(|error| ValidateError::Plan(path.clone(), PlanError::Setting(error)))?;
        }
        if let Some(costs) = &recording.costs {
            plan = plan.with_costs(costs.clone());
        }
        let tick = plan.config.settings.tick_period();
        let mut runs = Vec::new();
        let mut samples = Vec::new();
        let beginnings = beginnings(case, recording, &plan.program)?;
        for (nth, (as_said, takes)) in beginnings.iter().enumerate() {
            let as_takes = case.begins.part(beginnings.iter().map(|(_, takes)| *takes), nth);
            for (delay, seed) in case.begins.delays().zip(0..) {
                let delay = delay + until_phase(&plan, seed);
                // Which CPU ticks first is another draw in each run.
                plan.config.seed = seed;
                plan.program = begun_later(as_said, delay);
                if !recording.threads.is_empty() {
                    let program = Arc::make_mut(&mut plan.program);
                    threads::add_to(program, &recording.threads, &plan.config.costs, tick, seed);
                }
                plan.config.duration = Some(recording.from.since(Instant::ZERO) + delay + duration(recording));
                let measured = measure(&plan, recording, recording.from + delay);
                let measured = measured.map_err(|error| ValidateError::Sim(path.clone(), Box::new(error)))?;
                let figures = ours(case, recording, &measured);
                if as_takes.contains(&seed) {
                    samples.push(figures.clone());
                }
                runs.extend(iter::repeat_n(figures, *takes));
            }
        }
        let mut compared = compare(case, recording, &runs)?;
        compared.told = told(recording, &compared, &samples);
        comparisons.push(compared);
    }
    Ok(comparisons)
}

/// Returns the programs that differ in the CPUs on which the tasks of the recorded takes were
/// created, and the number of takes of each.
fn beginnings(
    case: &Case,
    recording: &Recording,
    said: &Arc<Program>,
) -> Result<Vec<(Arc<Program>, usize)>, CaseError> {
    if recording.created_on.is_empty() {
        return Ok(vec![(Arc::clone(said), 1)]);
    }
    let begin = |(cpus, takes): &(Vec<CpuId>, usize)| {
        let mut program = Program::clone(said);
        if cpus.len() != program.tasks.len() {
            let (cpus, tasks) = (cpus.len(), program.tasks.len());
            return Err(case.error(format!("a take of `created_on` has {cpus} CPUs for {tasks} tasks")));
        }
        for (task, cpu) in program.tasks.iter_mut().zip(cpus) {
            task.created_on = Some(*cpu);
        }
        Ok((Arc::new(program), *takes))
    };
    recording.created_on.iter().map(begin).collect()
}

/// A recorded sequence is searched for in twice its time: its position in the cycle is unknown.
fn duration(recording: &Recording) -> Duration {
    recording.window * if recording.sequence.is_some() { 2 } else { 1 }
}

/// Returns by how much later a workload begins so that the periods of its limits have a drawn
/// phase.
///
/// A recording begins anywhere in them, at a tick. Since Linux 6.4 each group draws its own offset,
/// as the simulator does with the run's seed; before, periods of one length end together, at
/// multiples since boot (`start_cfs_bandwidth`, 6.1), so the workload's start is drawn.
fn until_phase(plan: &Plan, seed: u64) -> Duration {
    let settings = &plan.config.settings;
    let periods = plan.program.groups.iter().filter(|group| group.max.quota.is_some()).map(|group| group.max.period);
    let (Some(longest), false) = (periods.max(), settings.bandwidth_interleave) else { return Duration::ZERO };
    let tick = settings.tick_period();
    let ticks = (longest.as_nanos() / tick.as_nanos().max(1)).max(1);
    tick * Stream::new(seed, "workload", 0, "periods").below(ticks)
}

/// Returns a program all of whose tasks and changes begin later by a delay.
fn begun_later(program: &Arc<Program>, delay: Duration) -> Arc<Program> {
    let mut program = Arc::clone(program);
    if !delay.is_zero() {
        let begun = Arc::make_mut(&mut program);
        begun.tasks.iter_mut().for_each(|task| task.delay += delay);
        begun.changes.iter_mut().for_each(|change| change.at += delay);
    }
    program
}

fn measure(plan: &Plan, recording: &Recording, from: Instant) -> Result<Measure, SimError> {
    let turns = recording.turns_of;
    let mut machine = plan.build(Tracing::On)?;
    if let Some(first) = recording.first_permille {
        machine.tick_in_turns(turns, first);
    } else if !turns.is_zero() {
        machine.delay_ticks(Dist::uniform(Duration::ZERO, turns).expect("invariant: zero is less"));
    }
    let threads = recording.threads.iter().map(|thread| thread.name.as_str());
    let mut measure = Measure::between(from, recording.window).without(threads);
    let outcome = machine.run_with(&mut measure, |_, _| ControlFlow::Continue(()));
    measure.finish(outcome.end);
    Ok(measure)
}

/// Returns the figures of one of our runs.
fn ours(case: &Case, recording: &Recording, measured: &Measure) -> NamedFigures {
    let mut ours = measured.figures();
    if let Some(sequence) = &recording.sequence {
        let agreement = sequence.agreement(measured.sequence(), &case.alike, case.turn_within);
        ours.insert(case::SEQUENCE.to_owned(), agreement);
    }
    for (figure, distribution) in &recording.distributions {
        let name = figure.split_once('.').map_or("", |(_, task)| task);
        let set = case.alike.iter().find(|set| set.iter().any(|task| task == name));
        let tasks: Vec<&str> = set.map_or(vec![name], |set| set.iter().map(String::as_str).collect());
        let values = match distribution.of {
            Of::Sequence => measured.sequence().lengths(&case.alike).remove(name).unwrap_or_default(),
            of => measured.values(of, &tasks),
        };
        ours.insert(figure.clone(), distribution.distance(values));
    }
    case.alike.iter().for_each(|alike| rank(&mut ours, alike, |figure| *figure));
    ours
}

fn compare(case: &Case, recording: &Recording, runs: &[NamedFigures]) -> Result<Comparison, ValidateError> {
    let mut recorded = recording.figures.clone();
    case.alike.iter().for_each(|alike| rank(&mut recorded, alike, |figure| figure.mean));
    let mut figures = Vec::new();
    for (name, value) in recorded {
        // A median needs some delays, which one run has and another has not.
        let ours: Vec<f64> = runs.iter().filter_map(|run| run.get(&name).copied()).collect();
        if ours.is_empty() {
            let known = runs.iter().flat_map(BTreeMap::keys).cloned().collect::<BTreeSet<_>>();
            return Err(ValidateError::NoSuchFigure(case.path.clone(), name, known.into_iter().collect()));
        }
        let band = case.band(&name)?;
        let mean = ours.iter().sum::<f64>() / ours.len() as f64;
        figures.push(Figure { name, recorded: value, ours: mean, runs: ours, band });
    }
    let because = recording.because.clone();
    let set = case.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    Ok(Comparison { case: case.name.clone(), set, recording: recording.clone(), figures, told: None, because })
}

/// Compares the shares of takes with those of runs. Each of `samples` has another seed, and in as
/// many of them as in takes the tasks were created on the same CPUs: a run that counts for several
/// takes would be several draws that are no draws.
fn told(recording: &Recording, compared: &Comparison, samples: &[NamedFigures]) -> Option<Told> {
    let shares: Vec<&Figure> = compared.figures.iter().filter(|figure| figure.is_share()).collect();
    let said = shares.iter().map(|figure| figure.recorded.takes.len()).max()?;
    let created: usize = recording.created_on.iter().map(|(_, takes)| *takes).sum();
    let count = if said > 0 { said } else { created };
    let columns: Option<Vec<Vec<f64>>> = shares.iter().map(|figure| figure.recorded.values(count)).collect();
    let columns = columns?;
    let takes: Vec<Vec<f64>> = (0..count).map(|take| columns.iter().map(|values| values[take]).collect()).collect();
    let of = |run: &NamedFigures| shares.iter().map(|figure| run.get(&figure.name).copied()).collect();
    let runs: Option<Vec<Vec<f64>>> = samples.iter().map(of).collect();
    Told::of(&takes, &runs?)
}

/// Figures by name.
type NamedFigures = BTreeMap<String, f64>;

/// Tasks that differ only in name have no order: the one with the largest figure is compared with
/// the one with the largest.
fn rank<F: Clone>(figures: &mut BTreeMap<String, F>, alike: &[String], value: impl Fn(&F) -> f64) {
    let kinds: Vec<String> = figures
        .keys()
        .filter_map(|name| name.split_once('.'))
        .filter(|(_, task)| *task == alike[0])
        .map(|(kind, _)| kind.to_owned())
        .collect();
    for kind in kinds {
        let names: Vec<String> = alike.iter().map(|task| format!("{kind}.{task}")).collect();
        let mut values: Vec<F> = names.iter().filter_map(|name| figures.get(name).cloned()).collect();
        values.sort_by(|one, other| value(other).total_cmp(&value(one)));
        for (name, value) in names.into_iter().zip(values) {
            figures.insert(name, value);
        }
    }
}
