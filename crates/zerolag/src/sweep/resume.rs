//! [`Kept`]: the runs of a grid that are done, so that a sweep that was ended goes on.
//!
//! The runs are numbered as those of parts ([`shard`](super::shard)), and the file has the same
//! head: a file of another sweep is refused, not mixed in.

use super::histogram::Distribution;
use super::shard::{Head, are_whole, difference};
use super::until::Until;
use super::{Axis, Failed, Grid, GridRows, RunError, SweptFigure, measure, observe, run_until, seeded};
use crate::document::Document;
use crate::error::Error;
use crate::simulation::{Histograms, Plan, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// The figures of the runs of a grid that are done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SweepKept")]
pub struct Kept {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: String,
    /// What was swept.
    #[serde(rename = "sweep")]
    head: Head,
    /// A value per figure of each run, in the order of the grid; null if the run is not done.
    rows: Vec<Option<Vec<Option<u64>>>>,
    /// Why runs failed, by their place in `rows`.
    #[serde(default, skip_serializing_if = "Failed::is_empty")]
    failed: Failed,
    /// With `--histograms`: the distributions of each row; none if the run is not done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    histograms: Vec<Vec<Distribution>>,
}

pub(crate) const DOCUMENT: Document = Document::of::<Kept>(SCHEMA, "sweep --resume");
const SCHEMA: &str = "zerolag.sweep.kept.v1";

impl Kept {
    /// Starts with no run done, of a grid with a plan per combination of `axes`.
    #[must_use]
    pub fn new(axes: Vec<Axis>, figures: &[SweptFigure], plans: &[Plan], runs: u64) -> Self {
        let all = plans.len().saturating_mul(usize::try_from(runs).unwrap_or(usize::MAX));
        let head = Head::of(axes, figures, plans, runs);
        Self { schema: SCHEMA.to_owned(), head, rows: vec![None; all], failed: Failed::new(), histograms: Vec::new() }
    }

    /// Returns it so that the distributions of runs are kept too.
    #[must_use]
    pub fn with_histograms(mut self) -> Self {
        self.head = self.head.keeping(Histograms::On);
        self.histograms = vec![Vec::new(); self.rows.len()];
        self
    }

    /// Takes over the runs of a file. `name` is that of the file, for messages.
    ///
    /// # Errors
    /// The text is no such file, or one of another sweep.
    pub fn resume(&mut self, name: &str, text: &[u8]) -> Result<(), Error> {
        let kept: Self = serde_json::from_slice(text)
            .map_err(|error| Error::input(format!("{name}: these are no runs of a sweep: {error}")))?;
        if kept.schema != SCHEMA {
            return Err(Error::input(format!("{name}: its schema is `{}`, not `{SCHEMA}`", kept.schema)));
        }
        if kept.head != self.head {
            let what = difference(&kept.head, &self.head);
            return Err(Error::input_help(
                format!("{name}: its runs are of another sweep: {what}"),
                "name another file, or give the same sweep",
            ));
        }
        let figures = self.head.figures();
        if kept.rows.len() != self.rows.len() || kept.rows.iter().flatten().any(|row| row.len() != figures) {
            return Err(Error::input(format!(
                "{name}: it does not have {} runs of {figures} figures",
                self.rows.len()
            )));
        }
        if kept.failed.last_key_value().is_some_and(|(place, _)| *place >= kept.rows.len()) {
            return Err(Error::input(format!("{name}: a run that failed is not one of its runs")));
        }
        if !are_whole(&self.head, &kept.histograms, kept.rows.len()) {
            return Err(Error::input(format!("{name}: its histograms do not fit its runs")));
        }
        self.rows = kept.rows;
        self.failed = kept.failed;
        self.histograms = kept.histograms;
        Ok(())
    }

    /// Returns how many runs are done, and how many there are.
    #[must_use]
    pub fn done(&self) -> (usize, usize) {
        (self.rows.iter().flatten().count(), self.rows.len())
    }

    /// Runs what is not done. `progress` gets the number of all runs that are done.
    ///
    /// # Errors
    /// `progress` ended it: what was done is kept.
    pub fn run(
        &mut self,
        figures: &[SweptFigure],
        plans: &[Plan],
        mut progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        let runs = self.head.runs();
        let seeded: Vec<Plan> = seeded(plans, figures, runs).collect();
        let open: Vec<usize> = (0..self.rows.len()).filter(|at| self.rows[*at].is_none()).collect();
        let wanted: Vec<Plan> = open.iter().filter_map(|at| seeded.get(*at).cloned()).collect();
        let before = self.rows.len() - open.len();
        let observe = observe(self.head.histograms());
        let measure = |report: &Report| measure(figures, report);
        let found = run_until(&wanted, observe, measure, |done| progress(before + done));
        for (at, outcome) in open.into_iter().zip(found) {
            match outcome {
                Some(Ok((row, distributions))) => {
                    self.rows[at] = Some(row);
                    if let Some(kept) = self.histograms.get_mut(at) {
                        *kept = distributions;
                    }
                }
                Some(Err(why)) => {
                    self.rows[at] = Some(vec![None; figures.len()]);
                    self.failed.insert(at, why);
                }
                None => {}
            }
        }
        if self.rows.iter().all(Option::is_some) { Ok(()) } else { Err(RunError::Interrupted) }
    }

    /// As [`run`](Self::run), and adds runs to all combinations alike until the mean of the first
    /// figure is known well enough in each.
    ///
    /// # Errors
    /// `progress` ended it: what was done is kept.
    pub fn run_until(
        &mut self,
        figures: &[SweptFigure],
        plans: &[Plan],
        until: Until,
        mut progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<(), RunError> {
        loop {
            self.run(figures, plans, &mut progress)?;
            let first = |row: &Option<Vec<Option<u64>>>| row.as_ref().and_then(|row| *row.first()?);
            let of_cell = |rows: &[_]| until.more(&rows.iter().map(first).collect::<Vec<_>>());
            match self.rows.chunks(self.per_cell()).map(of_cell).max() {
                None | Some(0) => return Ok(()),
                Some(more) => self.add_runs(more),
            }
        }
    }

    /// Returns the number of runs of each combination.
    fn per_cell(&self) -> usize {
        usize::try_from(self.head.runs()).unwrap_or(usize::MAX).max(1)
    }

    /// Adds runs to each combination, behind those that it has.
    fn add_runs(&mut self, more: u64) {
        let had = self.per_cell();
        self.head.add_runs(more);
        let has = self.per_cell();
        let padded = |cell: &[Option<Vec<Option<u64>>>]| [cell.to_vec(), vec![None; has - had]].concat();
        self.rows = self.rows.chunks(had).flat_map(padded).collect();
        let padded = |cell: &[Vec<Distribution>]| [cell.to_vec(), vec![Vec::new(); has - had]].concat();
        self.histograms = self.histograms.chunks(had).flat_map(padded).collect();
        let failed = core::mem::take(&mut self.failed).into_iter();
        self.failed = failed.map(|(place, why)| (place / had * has + place % had, why)).collect();
    }

    /// Returns the grid of the cells whose runs are all done.
    #[must_use]
    pub fn grid(&self, figures: Vec<SweptFigure>) -> Grid {
        let zeros = vec![None; figures.len()];
        let rows: Vec<Vec<Option<u64>>> =
            self.rows.iter().map(|row| row.clone().unwrap_or_else(|| zeros.clone())).collect();
        let rows = GridRows { figures: &rows, histograms: &self.histograms, failed: &self.failed };
        let mut grid = self.head.grid(figures, &rows);
        let is_done: Vec<bool> =
            self.rows.chunks(self.per_cell()).map(|rows| rows.iter().all(Option::is_some)).collect();
        let mut at = 0;
        grid.cells.retain(|_| {
            at += 1;
            is_done.get(at - 1) == Some(&true)
        });
        grid
    }

    /// Returns it as JSON on one line, with a line break at the end.
    ///
    /// # Panics
    /// Never: it has a form in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: runs have a form in JSON") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use crate::source::Workload;
    use crate::sweep::prepare;

    const TEXT: &str = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = { exponential = { mean = \"5ms\" } } }]\nloop = 9\n";

    #[test]
    fn a_sweep_that_was_ended_goes_on_to_the_same_grid() {
        let axes =
            vec![Axis { key: "hz".to_owned(), values: vec!["100".to_owned(), "250".to_owned(), "1000".to_owned()] }];
        let plans = |seed| -> Vec<Plan> {
            let simulation = Simulation::new(Workload::toml(TEXT)).seed(seed);
            prepare(&simulation, &axes).expect("it is valid").into_iter().map(|prepared| prepared.plan).collect()
        };
        let figures = vec![SweptFigure::parse("*.wait.max").expect("a figure")];
        let go = |_| ControlFlow::Continue(());
        let whole = Grid::run(axes.clone(), figures.clone(), &plans(1), 2, go).expect("it runs");
        let mut kept = Kept::new(axes.clone(), &figures, &plans(1), 2);
        let ended = kept.run(&figures, &plans(1), |done| if done >= 2 { ControlFlow::Break(()) } else { go(0) });
        let (done, all) = kept.done();
        assert!(all == 6 && done >= 2, "{done}");
        assert_eq!(ended.is_err(), done < all);
        assert!(kept.grid(figures.clone()).cells.len() <= 3);
        let file = kept.to_json();
        let mut again = Kept::new(axes.clone(), &figures, &plans(1), 2);
        again.resume("kept", file.as_bytes()).expect("the same sweep");
        assert_eq!(again, kept);
        let mut least = usize::MAX;
        let counted = |done| {
            least = least.min(done);
            ControlFlow::Continue(())
        };
        again.run(&figures, &plans(1), counted).expect("it runs");
        assert!(least >= done || done == all, "runs that are done are not repeated: {least}");
        assert_eq!(again.grid(figures.clone()), whole);
        let mut other = Kept::new(axes.clone(), &figures, &plans(2), 2);
        let error = other.resume("kept", file.as_bytes()).expect_err("another seed").to_string();
        assert!(error.starts_with("kept: its runs are of another sweep: the seed differs"), "{error}");
        for damaged in ["", "{}", &file.replace("kept.v1", "kept.v9"), &file.replace("\"rows\":[", "\"rows\":[[1],")] {
            assert!(other.resume("kept", damaged.as_bytes()).is_err(), "{damaged}");
        }
    }

    #[test]
    fn runs_are_added_to_all_combinations_until_the_mean_is_known() {
        let axes = vec![Axis { key: "hz".to_owned(), values: vec!["100".to_owned(), "1000".to_owned()] }];
        let simulation = Simulation::new(Workload::toml(TEXT));
        let prepared = prepare(&simulation, &axes).expect("it is valid");
        let plans: Vec<Plan> = prepared.into_iter().map(|prepared| prepared.plan).collect();
        let figures = vec![SweptFigure::parse("*.run").expect("a figure")];
        let go = |_| ControlFlow::Continue(());
        let grid = |percent, most| {
            let mut kept = Kept::new(axes.clone(), &figures, &plans, 2).with_histograms();
            let until = Until::new(percent, most).expect("valid");
            kept.run_until(&figures, &plans, until, go).expect("it runs");
            let (done, all) = kept.done();
            assert_eq!((done, all), (kept.histograms.len(), 2 * usize::try_from(kept.head.runs()).expect("few")));
            let grid = kept.grid(figures.clone());
            let widths = grid.cells.iter().map(|cell| until.misses(&cell.runs.concat()));
            (grid.runs, widths.flatten().count(), grid.clone())
        };
        let (runs, missed, enough) = grid(10.0, 200);
        assert!(runs > 2 && missed == 0, "{runs}");
        let (most, missed, _) = grid(0.01, 5);
        assert!(most == 5 && missed > 0);
        let whole = Grid::run(axes.clone(), figures.clone(), &plans, runs, go).expect("it runs");
        let figures_of = |grid: &Grid| grid.cells.iter().map(|cell| cell.runs.clone()).collect::<Vec<_>>();
        assert_eq!(figures_of(&enough), figures_of(&whole), "the same seeds as in one go");
    }
}
