//! One workload with many values: [`Grid`], every combination, whole or in parts ([`shard`]);
//! [`search`], the smallest value that meets a goal, by the one [`judge`].
//!
//! Two runs with different seeds differ by chance, which hides small effects. So every cell runs
//! with the same seeds, and the random draws of a task or a request belong to it by name. Two cells
//! then differ only in their values and the consequences (common random numbers).
//!
//! Runs share nothing, so they use all CPUs of the host, and the results are put in the order of
//! the grid: they do not depend on the number of CPUs.
//!
//! Runs of one seed that differ only in changes at later times share their beginning
//! (`prefix`).
//!
//! A run that fails (a deadlock of the workload with these values) ends no sweep: its row has no
//! figures, and the reason. Values that cannot be set are refused before anything runs.

pub mod histogram;
pub mod judge;
mod prefix;
pub mod resume;
pub mod search;
pub mod shard;
pub mod until;
pub(crate) mod view;

pub use crate::knob::{self, Knob};

use crate::error::{Error, ValueError};
use crate::goals;
use crate::limit::Limit;
use crate::simulation::{Begun, Histograms, Observe, Plan, Prepared, Report, Simulation};
use histogram::Distribution;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use zerolag_report::Summary;
use zerolag_report::figure::Figure;
use zerolag_workload::Program;
use zerolag_workload::goal::Goal;
use zerolag_workload::origin::Origin;

/// A varied part, and its values in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Its name, as written.
    pub key: String,
    /// Its values, as written.
    pub values: Vec<String>,
}

/// A figure of the grid, with the name of its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweptFigure {
    /// Its name: `request_latency.p99`.
    pub name: String,
    whose: Option<String>,
    figure: Figure,
}

impl SweptFigure {
    /// Reads a figure in the notation of goals.
    ///
    /// # Errors
    /// A valid form.
    pub fn parse(name: &str) -> Result<Self, String> {
        let (whose, figure) = Figure::parse(name)?;
        Ok(Self { name: name.to_owned(), whose, figure })
    }

    /// Returns the figure without the name of its owner.
    #[must_use]
    pub const fn figure(&self) -> Figure {
        self.figure
    }

    /// Returns its value in a run, in the smallest unit; `None` if it is not known.
    #[must_use]
    pub fn of(&self, summary: &Summary) -> Option<u64> {
        goals::figure_of(self.figure, self.whose.as_deref(), summary)
    }

    /// Returns the goal that is about it, if one is.
    pub(crate) fn goal<'g>(&self, goals: &'g [Goal]) -> Option<&'g Goal> {
        goals.iter().find(|goal| goal.figure == self.figure && goal.task == self.whose)
    }

    /// Returns its name with its unit, as in JSON.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}{}", self.name, self.figure.unit().suffix())
    }

    /// Returns the default figures of a workload: of its services, of its limits, else of its
    /// tasks.
    #[must_use]
    pub fn usual(program: &Program) -> Vec<Self> {
        let mut names: Vec<&str> = Vec::new();
        if program.services().next().is_some() {
            names.extend(["request_latency.p99", "request_latency.p50", "request_latency.max", "requests.unfinished"]);
        }
        if program.groups.iter().any(|group| group.max.quota.is_some()) {
            names.extend(["nr_throttled", "throttled"]);
        }
        if names.is_empty() {
            names.extend(["*.wakeup_latency.p99", "*.wait.max", "*.run"]);
        }
        names.into_iter().filter_map(|name| Self::parse(name).ok()).collect()
    }
}

/// A figure over the seeds of a cell, in the unit of the figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Range {
    /// The mean.
    pub mean: f64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
}

impl Range {
    fn of(values: &[Option<u64>]) -> Option<Self> {
        let known: Vec<u64> = values.iter().copied().collect::<Option<_>>()?;
        let (min, max) = (*known.iter().min()?, *known.iter().max()?);
        let mean = known.iter().map(|value| *value as f64).sum::<f64>() / known.len() as f64;
        Some(Self { mean, min, max })
    }
}

/// A point of the grid.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Cell {
    /// A value per axis.
    pub values: Vec<String>,
    /// A range per figure; `None` if a run had no samples.
    pub figures: Vec<Option<Range>>,
    /// The limits of groups with these values.
    pub limits: Vec<Limit>,
    /// The figures of each run, in the order of seeds.
    pub runs: Vec<Vec<Option<u64>>>,
    /// Why a run failed, by its place in `runs`. It has no figures.
    pub failed: Failed,
    /// The distributions of each run, if they were asked for.
    pub histograms: Vec<Vec<Distribution>>,
}

/// Runs that failed: by their number, why.
pub type Failed = BTreeMap<usize, String>;

/// What the runs of a grid gave, in its order.
struct GridRows<'r> {
    figures: &'r [Vec<Option<u64>>],
    /// None, if they were not asked for.
    histograms: &'r [Vec<Distribution>],
    failed: &'r Failed,
}

/// A workload under every combination of values.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Grid {
    /// The axes; the first varies slowest.
    pub axes: Vec<Axis>,
    /// The figures.
    pub figures: Vec<SweptFigure>,
    /// Runs per cell; each run adds 1 to the seed.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// Every combination, in order.
    pub cells: Vec<Cell>,
    /// The recording that the workload was imported from, if it was and is known here.
    pub origin: Option<Origin>,
}

/// Returns every combination of the axes' values, the first axis slowest.
#[must_use]
pub fn combinations(axes: &[Axis]) -> Vec<Vec<String>> {
    axes.iter().fold(vec![Vec::new()], |found, axis| {
        let longer = |values: &Vec<String>, value: &String| values.iter().chain([value]).cloned().collect();
        found.iter().flat_map(|values| axis.values.iter().map(move |value| longer(values, value))).collect()
    })
}

impl Grid {
    /// Runs every plan, one per combination of `axes`, `runs` times; `progress` is called with the
    /// number of completed runs and can end it.
    ///
    /// # Errors
    /// `progress` ended it.
    ///
    /// # Panics
    /// If the number of plans is not the number of combinations.
    pub fn run(
        axes: Vec<Axis>,
        figures: Vec<SweptFigure>,
        plans: &[Plan],
        runs: u64,
        progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self, RunError> {
        assert_eq!(plans.len(), combinations(&axes).len(), "a plan per combination");
        let seed = plans.first().map_or(0, |plan| plan.config.seed);
        let seeded: Vec<Plan> = seeded(plans, &figures, runs).collect();
        let measure =
            |summary: &Summary| -> Vec<Option<u64>> { figures.iter().map(|figure| figure.of(summary)).collect() };
        let measured = run_all(&seeded, measure, progress)?;
        let mut failed = Failed::new();
        let mut rows = Vec::with_capacity(measured.len());
        for (number, outcome) in measured.into_iter().enumerate() {
            rows.push(outcome.unwrap_or_else(|why| {
                failed.insert(number, why);
                vec![None; figures.len()]
            }));
        }
        let rows = GridRows { figures: &rows, histograms: &[], failed: &failed };
        let mut grid = Self::assemble(axes, figures, runs, seed, &limits_of(plans), &rows);
        grid.origin = plans.first().and_then(|plan| plan.program.origin.clone());
        Ok(grid)
    }

    /// Returns the runs that failed: the values of each, its seed, and why.
    pub fn failed(&self) -> impl Iterator<Item = (&[String], u64, &str)> {
        self.cells.iter().flat_map(|cell| {
            let seed = |run: usize| self.seed.wrapping_add(run as u64);
            cell.failed.iter().map(move |(run, why)| (&*cell.values, seed(*run), &**why))
        })
    }

    /// Returns the grid of the figures of every run, in its order.
    fn assemble(
        axes: Vec<Axis>,
        figures: Vec<SweptFigure>,
        runs: u64,
        seed: u64,
        limits: &[Vec<Limit>],
        rows: &GridRows<'_>,
    ) -> Self {
        let size = usize::try_from(runs).unwrap_or(usize::MAX).max(1);
        let per_cell = rows.figures.chunks(size).enumerate();
        let mut distributions = rows.histograms.chunks(size);
        let mut cells = Vec::new();
        for ((values, (at, of_runs)), limits) in combinations(&axes).into_iter().zip(per_cell).zip(limits) {
            let of_figure = |at: usize| of_runs.iter().map(|row| row[at]).collect::<Vec<_>>();
            let ranges = (0..figures.len()).map(|at| Range::of(&of_figure(at))).collect();
            let histograms = distributions.next().unwrap_or_default().to_vec();
            let first = at * size;
            let failed = rows.failed.range(first..first + of_runs.len());
            let failed = failed.map(|(number, why)| (number - first, why.clone())).collect();
            let (limits, runs) = (limits.clone(), of_runs.to_vec());
            cells.push(Cell { values, figures: ranges, limits, runs, failed, histograms });
        }
        Self { axes, figures, runs, seed, cells, origin: None }
    }
}

/// Returns the limits of groups in each plan.
fn limits_of(plans: &[Plan]) -> Vec<Vec<Limit>> {
    plans.iter().map(|plan| Limit::all(&plan.program)).collect()
}

/// Returns a simulation per combination of the axes' values, in order. A key is looked up as in
/// [`Simulation::set`]; a workload's file is read once.
///
/// # Errors
/// Values are wrong: all of them; or the workload, as the first combination reads it.
pub fn prepare(simulation: &Simulation, axes: &[Axis]) -> Result<Vec<Prepared>, Error> {
    let simulation = simulation.clone().read()?;
    let with = |values: Vec<String>| {
        let set = |simulation: Simulation, (axis, value): (&Axis, String)| simulation.set(&axis.key, value);
        axes.iter().zip(values).fold(simulation.clone(), set).plan()
    };
    let mut wrong: Vec<ValueError> = Vec::new();
    let mut found = Vec::new();
    for values in combinations(axes) {
        match with(values) {
            Ok(prepared) => found.push(prepared),
            // A value that several combinations have is one mistake.
            Err(Error::Values(these)) => {
                let new: Vec<_> = these.into_iter().filter(|error| !wrong.contains(error)).collect();
                wrong.extend(new);
            }
            Err(other) => return Err(other),
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(Error::Values(wrong)) }
}

impl Grid {
    /// Runs a simulation for every combination of the axes' values, `runs` times each.
    ///
    /// ```
    /// use zerolag::sweep::{Axis, Grid, SweptFigure};
    /// use zerolag::{Simulation, Workload};
    ///
    /// let text = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"5ms\" }]\nloop = 9\n";
    /// let simulation = Simulation::new(Workload::toml(text));
    /// let axis = Axis { key: "hz".into(), values: vec!["100".into(), "1000".into()] };
    /// let figures = vec![SweptFigure::parse("*.wait.max")?];
    /// let grid = Grid::of(&simulation, vec![axis], Some(figures), 1, |_| std::ops::ControlFlow::Continue(()))?;
    /// let longest = |cell: usize| grid.cells[cell].figures[0].map(|range| range.max);
    /// assert!(longest(0) > longest(1), "with fewer ticks tasks run longer, so others wait longer");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A wrong value or workload; `progress` ended it.
    pub fn of(
        simulation: &Simulation,
        axes: Vec<Axis>,
        figures: Option<Vec<SweptFigure>>,
        runs: u64,
        progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let plans: Vec<Plan> = prepare(simulation, &axes)?.into_iter().map(|prepared| prepared.plan).collect();
        let usual = || plans.first().map(|plan| SweptFigure::usual(&plan.program)).unwrap_or_default();
        let figures = figures.unwrap_or_else(usual);
        Ok(Self::run(axes, figures, &plans, runs, progress)?)
    }
}

impl From<RunError> for Error {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Interrupted => Self::Interrupted,
            RunError::Failed { values, why } => Self::Failed(format!("the run of {values}: {why}")),
        }
    }
}

/// Why there is no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// A run did not end well.
    Failed {
        /// Its values.
        values: String,
        /// The reason.
        why: String,
    },
    /// The caller ended it.
    Interrupted,
}

/// Runs all plans on all CPUs of the host. Returns for each, in order, the result of `measure`, or
/// why it failed.
///
/// # Errors
/// `progress` ended it.
pub fn run_all<T: Send>(
    plans: &[Plan],
    measure: impl Fn(&Summary) -> T + Sync,
    progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Result<T, String>>, RunError> {
    if cfg!(target_family = "wasm") {
        return run_in_order(plans, measure, progress);
    }
    let found = run_until(plans, Observe::FIGURES, |report| measure(&report.summary), progress);
    found.into_iter().collect::<Option<_>>().ok_or(RunError::Interrupted)
}

/// The figures of a run, and its distributions if they are asked for.
type MeasuredRun = (Vec<Option<u64>>, Vec<Distribution>);

/// Returns what a sweep measures of a run.
fn measure(figures: &[SweptFigure], report: &Report) -> MeasuredRun {
    let of = figures.iter().map(|figure| figure.of(&report.summary)).collect();
    (of, Distribution::of_run(&report.histograms))
}

/// Returns the runs of a sweep, those of a plan with its seeds one behind the other; each measures
/// these figures.
fn seeded(plans: &[Plan], figures: &[SweptFigure], runs: u64) -> impl Iterator<Item = Plan> {
    let measuring = plans.iter().map(|plan| plan.clone().measuring(figures.iter().map(SweptFigure::figure)));
    measuring.flat_map(move |plan| (0..runs).map(move |run| plan.clone().with_seed(plan.config.seed.wrapping_add(run))))
}

/// Returns what a sweep observes of a run.
const fn observe(histograms: Histograms) -> Observe {
    Observe { histograms, ..Observe::FIGURES }
}

/// As [`run_all`], but returns what was done when `progress` ended it: `None` for the others.
pub fn run_until<T: Send>(
    plans: &[Plan],
    observe: Observe,
    measure: impl Fn(&Report) -> T + Sync,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Vec<Option<Result<T, String>>> {
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(plans.len());
    let families = prefix::families(plans, threads);
    let mut found: Vec<Option<Result<T, String>>> = plans.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (tell, hear) = mpsc::channel();
        for _ in 0..threads {
            let (tell, next, is_over, measure, families) = (tell.clone(), &next, &is_over, &measure, &families);
            scope.spawn(move || {
                loop {
                    let family = families.get(next.fetch_add(1, Ordering::Relaxed));
                    let Some(family) = family.filter(|_| !is_over.load(Ordering::Relaxed)) else { return };
                    family.run(plans, observe, is_over, measure, |index, outcome| {
                        let sent = tell.send((index, outcome));
                        debug_assert!(sent.is_ok(), "the listener lives as long as its scope");
                    });
                }
            });
        }
        drop(tell);
        let mut done = 0;
        loop {
            match hear.recv_timeout(LOOK_EVERY) {
                // A run that was ended has no figures.
                Ok(_) if is_over.load(Ordering::Relaxed) => {}
                Ok((index, outcome)) => {
                    found[index] = Some(outcome);
                    done += 1;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            if progress(done).is_break() {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    });
    found
}

/// As [`run_all`], on the caller's thread: for hosts without threads, and for processes of which
/// each has one CPU.
///
/// # Errors
/// `progress` ended it.
pub fn run_in_order<T>(
    plans: &[Plan],
    measure: impl Fn(&Summary) -> T,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Result<T, String>>, RunError> {
    let mut found = Vec::with_capacity(plans.len());
    for plan in plans {
        if progress(found.len()).is_break() {
            return Err(RunError::Interrupted);
        }
        let measure = |report: &Report| measure(&report.summary);
        found.push(run_one(plan, Observe::FIGURES, &AtomicBool::new(false), measure));
    }
    Ok(found)
}

/// How long the caller waits for results before it checks whether to continue.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(100);

fn run_one<T>(
    plan: &Plan,
    observe: Observe,
    is_over: &AtomicBool,
    measure: impl Fn(&Report) -> T,
) -> Result<T, String> {
    let begun = plan.begin(observe).map_err(|error| error.to_string())?;
    finish(begun, observe, is_over, measure)
}

/// Runs a plan to its end, or until the sweep is over.
fn finish<T>(
    begun: Begun,
    observe: Observe,
    is_over: &AtomicBool,
    measure: impl Fn(&Report) -> T,
) -> Result<T, String> {
    let ask = || if is_over.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let report = begun.finish(observe, None, &mut zerolag_sim::NoTrace, |_, _| ask());
    if report.outcome.why.is_ok() { Ok(measure(&report)) } else { Err(report.outcome.why.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_finds_what_all_do() {
        let text = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = { exponential = { mean = \"5ms\" } } }]\nloop = 9\n";
        let plan = Simulation::new(crate::source::Workload::toml(text)).plan().expect("it is valid").plan;
        let plans: Vec<Plan> = (0..5).map(|seed| plan.clone().with_seed(seed)).collect();
        let go = |_| ControlFlow::Continue(());
        let all = run_all(&plans, |summary| summary.clone(), go);
        assert_eq!(run_in_order(&plans, |summary| summary.clone(), go), all);
        assert!(all.is_ok_and(|all| all.len() == 5 && all[0] != all[1]));
        assert_eq!(
            run_in_order(&plans, |_| (), |done| if done == 2 { ControlFlow::Break(()) } else { go(0) }),
            Err(RunError::Interrupted)
        );
    }

    #[test]
    fn the_first_axis_varies_slowest() {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        let all = combinations(&[axis("a", &["1", "2"]), axis("b", &["x", "y", "z"])]);
        let all: Vec<String> = all.iter().map(|values| values.join("")).collect();
        assert_eq!(all, ["1x", "1y", "1z", "2x", "2y", "2z"]);
        assert_eq!(combinations(&[]), [Vec::<String>::new()]);
    }
}
