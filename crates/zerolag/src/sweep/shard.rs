//! [`Shard`]: a part of a grid, run on its own; [`merge`] puts the parts together.
//!
//! A job array of a cluster (Slurm, a CI matrix) runs the same command line with another number in
//! each job, and no job knows of the others. So the runs of a grid are numbered in its order, and
//! part *i* of *n* has those whose number leaves the remainder *i - 1*: neighbours, which take
//! about equally long, are dealt to different parts. A part writes its figures run by run, because
//! ranges over seeds cannot be put together from ranges of parts.
//!
//! Parts of different sweeps must not be put together by accident. Each has the axes, the figures,
//! the number of runs and a fingerprint of its first plan, and [`merge`] compares them.

use super::histogram::Distribution;
use super::{Axis, Failed, Grid, GridRows, RunError, SweptFigure, combinations, measure, observe, run_until, seeded};
use crate::document::Document;
use crate::error::Error;
use crate::limit::Limit;
use crate::origin::OriginData;
use crate::simulation::{Histograms, Plan, Report};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use zerolag_workload::origin::Origin;

/// Which part of a grid: `2/8`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Its number, from 1.
    pub index: u64,
    /// The number of parts.
    pub of: u64,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            Some((_, 0)) => Err("there is at least one part".to_owned()),
            Some((_, of)) => Err(format!("the parts are 1/{of} to {of}/{of}")),
            None => Err("expected I/N, as in 2/8: the second of eight parts".to_owned()),
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// What all parts of a grid have in common.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SweepHead")]
pub(super) struct Head {
    /// The version of zerolag.
    version: String,
    /// Of the workload and its values, in the first cell.
    fingerprint: String,
    /// The keys that vary, and their values.
    axes: Vec<Axis>,
    /// The names of the figures.
    figures: Vec<String>,
    /// The runs of each combination.
    runs: u64,
    /// The seed of the first run.
    seed: u64,
    /// The limits of groups in each cell.
    limits: Vec<Vec<Limit>>,
    /// Whether distributions are kept.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    histograms: bool,
    /// Of an imported workload: its recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<OriginData>,
}

impl Head {
    /// Returns the head of a grid with a plan per combination of `axes`.
    pub(super) fn of(axes: Vec<Axis>, figures: &[SweptFigure], plans: &[Plan], runs: u64) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fingerprint: plans.first().map(fingerprint).unwrap_or_default(),
            axes,
            figures: figures.iter().map(|figure| figure.name.clone()).collect(),
            runs,
            seed: plans.first().map_or(0, |plan| plan.config.seed),
            limits: super::limits_of(plans),
            histograms: false,
            origin: plans.first().and_then(|plan| plan.program.origin.as_ref()).map(OriginData::from),
        }
    }

    /// Returns the head of a grid whose distributions are kept, or are not.
    pub(super) fn keeping(self, histograms: Histograms) -> Self {
        Self { histograms: histograms == Histograms::On, ..self }
    }

    /// Returns whether distributions are kept.
    pub(super) const fn histograms(&self) -> Histograms {
        if self.histograms { Histograms::On } else { Histograms::Off }
    }

    pub(super) const fn runs(&self) -> u64 {
        self.runs
    }

    /// Adds runs to each combination.
    pub(super) const fn add_runs(&mut self, more: u64) {
        self.runs += more;
    }

    pub(super) const fn figures(&self) -> usize {
        self.figures.len()
    }

    /// Returns the grid of these rows.
    pub(super) fn grid(&self, figures: Vec<SweptFigure>, rows: &GridRows<'_>) -> Grid {
        let mut grid = Grid::assemble(self.axes.clone(), figures, self.runs, self.seed, &self.limits, rows);
        grid.origin = self.origin.as_ref().map(Origin::from);
        grid
    }
}

/// A part of a grid, and its figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SweepPart")]
pub struct Shard {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: String,
    /// What all parts have in common.
    #[serde(rename = "sweep")]
    head: Head,
    /// Which part this is.
    part: Part,
    /// In the order of the grid, with a value per figure; null if a run had no samples.
    rows: Vec<Vec<Option<u64>>>,
    /// Why runs failed, by their place in `rows`.
    #[serde(default, skip_serializing_if = "Failed::is_empty")]
    failed: Failed,
    /// With `--histograms`: the distributions of each row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    histograms: Vec<Vec<Distribution>>,
}

/// The name and version of the form.
pub(crate) const DOCUMENT: Document = Document::of::<Shard>(SCHEMA, "sweep --shard");
const SCHEMA: &str = "zerolag.sweep.shard.v2";

impl Shard {
    /// Runs a part of the grid of these plans, of which there is one per combination of `axes`.
    ///
    /// # Errors
    /// `progress` ended it.
    ///
    /// # Panics
    /// If the number of plans is not the number of combinations.
    pub fn run(
        axes: Vec<Axis>,
        figures: &[SweptFigure],
        plans: &[Plan],
        runs: u64,
        part: Part,
        histograms: Histograms,
        progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Self, RunError> {
        assert_eq!(plans.len(), combinations(&axes).len(), "a plan per combination");
        let all = seeded(plans, figures, runs).zip(0_u64..);
        let mine: Vec<Plan> =
            all.filter(|(_, number)| number % part.of == part.index - 1).map(|(plan, _)| plan).collect();
        let outcomes = run_until(&mine, observe(histograms), |report: &Report| measure(figures, report), progress);
        let outcomes = outcomes.into_iter().collect::<Option<Vec<_>>>().ok_or(RunError::Interrupted)?;
        let mut failed = Failed::new();
        let row = |(place, outcome): (usize, Result<_, String>)| {
            outcome.unwrap_or_else(|why| {
                failed.insert(place, why);
                (vec![None; figures.len()], Vec::new())
            })
        };
        let (rows, kept): (Vec<_>, Vec<_>) = outcomes.into_iter().enumerate().map(row).unzip();
        let head = Head::of(axes, figures, plans, runs).keeping(histograms);
        let histograms = if histograms == Histograms::On { kept } else { Vec::new() };
        Ok(Self { schema: SCHEMA.to_owned(), head, part, rows, failed, histograms })
    }

    /// Returns how many runs it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns how many of its runs failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Returns whether it has no runs: there are more parts than runs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns it as JSON on one line, with a line break at the end.
    ///
    /// # Panics
    /// Never: it has a form in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("invariant: a part has a form in JSON") + "\n"
    }

    /// Reads a part. `name` is that of its file, for messages.
    ///
    /// # Errors
    /// The text is no part of a sweep.
    pub fn from_json(name: &str, text: &[u8]) -> Result<Self, Error> {
        let wrong = |reason: String| {
            Error::input_help(
                format!("{name}: {reason}"),
                "give the files that `zerolag sweep --shard I/N --json=FILE` wrote",
            )
        };
        let shard: Self =
            serde_json::from_slice(text).map_err(|error| wrong(format!("this is no part of a sweep: {error}")))?;
        if shard.schema != SCHEMA {
            return Err(wrong(format!("its schema is `{}`, not `{SCHEMA}`", shard.schema)));
        }
        let Part { index, of } = shard.part;
        if !(1..=of).contains(&index) {
            return Err(wrong(format!("there is no part {index}/{of}")));
        }
        let expected = shard.expected();
        let figures = shard.head.figures.len();
        let cells = shard.cells();
        if shard.head.limits.len() as u64 != cells {
            let limits = shard.head.limits.len();
            return Err(wrong(format!("it has the limits of {limits} cells; there are {cells}")));
        }
        if shard.rows.len() as u64 != expected || shard.rows.iter().any(|row| row.len() != figures) {
            let rows = shard.rows.len();
            return Err(wrong(format!("it has {rows} runs; part {} has {expected} of {figures} figures", shard.part)));
        }
        if shard.failed.last_key_value().is_some_and(|(place, _)| *place >= shard.rows.len()) {
            return Err(wrong("a run that failed is not one of its runs".to_owned()));
        }
        if !are_whole(&shard.head, &shard.histograms, shard.rows.len()) {
            return Err(wrong("its histograms do not fit its runs".to_owned()));
        }
        Ok(shard)
    }

    /// Returns the number of combinations of the axes' values.
    fn cells(&self) -> u64 {
        self.head.axes.iter().fold(1_u64, |cells, axis| cells.saturating_mul(axis.values.len() as u64))
    }

    /// Returns how many runs a part has.
    fn expected(&self) -> u64 {
        let all = self.cells().saturating_mul(self.head.runs);
        all.saturating_sub(self.part.index - 1).div_ceil(self.part.of)
    }
}

/// Puts the parts of a grid together, in any order. The grid is the one that a sweep on one machine
/// gives.
///
/// # Errors
/// Parts of different sweeps, a part that is missing or given twice; `names` are those of the
/// files, in the order of `shards`.
pub fn merge(names: &[String], shards: &[Shard]) -> Result<Grid, Error> {
    let Some(first) = shards.first() else { return Err(Error::input("no parts are given")) };
    let name = |at: usize| names.get(at).map_or("a part", String::as_str);
    let mut by_part: Vec<Option<(usize, &Shard)>> = vec![None; shards.len()];
    for (at, shard) in shards.iter().enumerate() {
        if shard.part.of != first.part.of || shard.head != first.head {
            let what = if shard.part.of == first.part.of {
                difference(&first.head, &shard.head)
            } else {
                "the number of parts differs"
            };
            return Err(Error::input(format!(
                "`{}` and `{}` are parts of different sweeps: {what}",
                name(0),
                name(at)
            )));
        }
        let place = usize::try_from(shard.part.index - 1).unwrap_or(usize::MAX);
        match by_part.get_mut(place) {
            Some(Some((other, _))) => {
                let (other, part) = (name(*other), shard.part);
                return Err(Error::input(format!("`{other}` and `{}` are both part {part}", name(at))));
            }
            Some(empty) => *empty = Some((at, shard)),
            // Fewer files than parts: one of the lower ones is missing.
            None => {}
        }
    }
    let parts: Vec<&Shard> = by_part.iter().flatten().map(|(_, shard)| *shard).collect();
    if parts.len() as u64 != first.part.of {
        let is_given = |index: &u64| shards.iter().any(|shard| shard.part.index == *index);
        let missing: Vec<String> =
            (1..=first.part.of).filter(|index| !is_given(index)).take(10).map(|index| index.to_string()).collect();
        let of = first.part.of;
        return Err(Error::input(format!("of {of} parts {} are given; missing: {}", shards.len(), missing.join(", "))));
    }
    let mut figures = Vec::new();
    for figure in &first.head.figures {
        let read = SweptFigure::parse(figure);
        figures
            .push(read.map_err(|help| Error::input_help(format!("{}: there is no figure `{figure}`", name(0)), help))?);
    }
    let all: usize = parts.iter().map(|shard| shard.rows.len()).sum();
    let mut from: Vec<_> = parts.iter().map(|shard| shard.rows.iter()).collect();
    let count = from.len();
    let rows: Vec<Vec<Option<u64>>> = (0..all).filter_map(|number| from[number % count].next().cloned()).collect();
    let mut from: Vec<_> = parts.iter().map(|shard| shard.histograms.iter()).collect();
    let histograms: Vec<Vec<Distribution>> =
        (0..all).filter_map(|number| from[number % count].next().cloned()).collect();
    let of_part = |(at, shard): (usize, &&Shard)| {
        let number = |(place, why): (&usize, &String)| (place * count + at, why.clone());
        shard.failed.iter().map(number).collect::<Vec<_>>()
    };
    let failed: Failed = parts.iter().enumerate().flat_map(of_part).collect();
    let rows = GridRows { figures: &rows, histograms: &histograms, failed: &failed };
    Ok(first.head.grid(figures, &rows))
}

/// Returns whether the distributions that were read are those of `rows` runs.
pub(super) fn are_whole(head: &Head, histograms: &[Vec<Distribution>], rows: usize) -> bool {
    let expected = if head.histograms { rows } else { 0 };
    histograms.len() == expected && histograms.iter().flatten().all(Distribution::is_whole)
}

/// Says in which respect two heads are not of one sweep.
pub(super) fn difference(one: &Head, other: &Head) -> &'static str {
    if one.version != other.version {
        "the version of zerolag differs"
    } else if one.axes != other.axes {
        "the varied values differ"
    } else if one.figures != other.figures {
        "the figures differ"
    } else if one.runs != other.runs {
        "the number of runs differs"
    } else if one.histograms != other.histograms {
        "one has histograms, the other has none"
    } else if one.seed != other.seed {
        "the seed differs"
    } else {
        "the workload, or a value that all runs have, differs"
    }
}

/// Returns a fingerprint of everything that a plan depends on: FNV-1a of its debug form.
fn fingerprint(plan: &Plan) -> String {
    struct Fnv(u64);
    impl fmt::Write for Fnv {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for byte in text.bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            Ok(())
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    fmt::Write::write_fmt(&mut hash, format_args!("{plan:?}")).expect("invariant: hashing takes everything");
    format!("{:016x}", hash.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Simulation;
    use crate::source::Workload;
    use crate::sweep::prepare;

    const TEXT: &str = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = { exponential = { mean = \"5ms\" } } }]\nloop = 9\n";

    fn axes() -> Vec<Axis> {
        let axis = |key: &str, values: &[&str]| Axis {
            key: key.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        };
        vec![axis("hz", &["100", "250", "1000"]), axis("kernel", &["5.15", "6.12"])]
    }

    fn plans(seed: u64) -> Vec<Plan> {
        let simulation = Simulation::new(Workload::toml(TEXT)).seed(seed);
        prepare(&simulation, &axes()).expect("it is valid").into_iter().map(|prepared| prepared.plan).collect()
    }

    fn figures() -> Vec<SweptFigure> {
        ["*.wait.max", "a.run", "request_latency.p99"]
            .iter()
            .map(|name| SweptFigure::parse(name).expect("a figure"))
            .collect()
    }

    fn shard(part: &str, seed: u64) -> Shard {
        let part = part.parse().expect("a part");
        let shard =
            Shard::run(axes(), &figures(), &plans(seed), 2, part, Histograms::Off, |_| ControlFlow::Continue(()));
        let shard = shard.expect("it runs");
        Shard::from_json("file", shard.to_json().as_bytes()).expect("what was written is read")
    }

    fn names(count: usize) -> Vec<String> {
        (1..=count).map(|at| format!("f{at}")).collect()
    }

    #[test]
    fn parts_in_any_order_are_the_grid_of_one_machine() {
        let whole = Grid::run(axes(), figures(), &plans(3), 2, |_| ControlFlow::Continue(())).expect("it runs");
        for of in [1, 2, 5, 12, 13] {
            let mut shards: Vec<Shard> = (1..=of).map(|index| shard(&format!("{index}/{of}"), 3)).collect();
            shards.reverse();
            let merged = merge(&names(shards.len()), &shards).expect("all parts");
            assert_eq!(merged, whole, "{of} parts");
        }
    }

    #[test]
    fn what_is_not_one_sweep_is_refused() {
        let refused = |shards: &[Shard]| merge(&names(shards.len()), shards).unwrap_err().to_string();
        let (one, two) = (shard("1/3", 3), shard("2/3", 3));
        assert_eq!(refused(&[one.clone(), two.clone()]), "of 3 parts 2 are given; missing: 3");
        assert_eq!(refused(&[shard("3/3", 3)]), "of 3 parts 1 are given; missing: 1, 2");
        assert_eq!(refused(&[one.clone(), two.clone(), one.clone()]), "`f1` and `f3` are both part 1/3");
        assert!(refused(&[one.clone(), shard("2/3", 4)]).ends_with("the seed differs"));
        assert!(refused(&[one.clone(), shard("2/2", 3)]).ends_with("the number of parts differs"));
        let mut other = two;
        other.head.fingerprint = "0".to_owned();
        assert!(refused(&[one, other]).ends_with("differs") && refused(&[]).contains("no parts"));
    }

    #[test]
    fn damaged_files_are_refused_by_name() {
        let text = shard("2/5", 3).to_json();
        for (from, to, says) in [
            ("{\"schema\"", "\"schema\"", "no part of a sweep"),
            ("shard.v2", "shard.v9", "not `zerolag.sweep.shard.v2`"),
            ("\"index\":2", "\"index\":7", "no part 7/5"),
            ("\"rows\":[", "\"rows\":[[1,2,null],", "it has 4 runs; part 2/5 has 3"),
        ] {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text, "{from}");
            let error = Shard::from_json("f.json", damaged.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("f.json: ") && error.contains(says), "{error}");
        }
        for (text, says) in [("0/3", "1/3 to 3/3"), ("4/3", "1/3 to 3/3"), ("1/0", "at least one"), ("x", "I/N")] {
            assert!(text.parse::<Part>().unwrap_err().contains(says), "{text}");
        }
    }
}
