//! [`Comparison`]: one workload under several kernels or settings, with the differences per task.
//!
//! Comparing one run with another is not enough: a different seed also changes the figures. So
//! every variant runs with the same seeds, and random draws are common to all. A figure has
//! *changed* if the ranges over the seeds do not overlap and the means differ by more than 2 %
//! (shares: and by more than a tenth of a point), and if the same holds, in the same direction,
//! with as many fresh seeds: of hundreds of figures some differ by chance in the seeds that chose
//! them.
//!
//! Compared is everything that the workload has: its tasks, its services with their requests, its
//! groups with their limits, and the machine. The figures are those of
//! [`zerolag_report::figure`], as far as less or more of them is wanted, and all shares. Instances
//! of one task are combined as the table says: times and counts are added up, of latencies the
//! worst instance counts. A figure that a run does not know (too few samples) is not known for its
//! variant, and has not changed.

mod behind;
mod bisect;
mod suite;

pub use behind::SuiteBisection;
use bisect::BisectedFigure;
pub(crate) use bisect::most_changed;
pub use bisect::{Bisection, EXPLAINED, Effect, Switched, Tried, bisect};
pub(crate) use suite::DOCUMENT as SUITE;
pub use suite::Suite;

use crate::document::{self, Document};
use crate::error::Error;
use crate::goals;
use crate::origin::OriginData;
use crate::simulation::{Observe, Plan, Simulation};
use crate::variant::Label;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use zerolag_model::Settings;
use zerolag_model::settings::Fault;
use zerolag_report::Summary;
use zerolag_report::figure::{self, Amount, Better, Figure, Owner, P50, P99, Quantity, Stat, Subject, Unit};
use zerolag_report::frame::{Frame, Values};
use zerolag_report::table::{Align, Table};
use zerolag_workload::Program;
use zerolag_workload::origin::{CANNOT_TELL, Origin};
use zerolag_workload::program::{GroupDef, TaskDef, is_below};

/// A relative change below this is ignored.
const NOTHING: f64 = 0.02;
/// A share of a CPU below this, in millionths, is ignored.
const NO_SHARE: f64 = 1_000.0;

/// A plan and its name.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in tables, `6.12`, and its values.
    pub label: Label,
    /// Its plan; its seed is that of the first run.
    pub plan: Plan,
}

/// The result of `zerolag compare`.
pub(crate) const DOCUMENT: Document = Document::of::<Compared<'_>>(SCHEMA, "compare");
const SCHEMA: &str = "zerolag.compare.v2";

/// One workload under several variants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Compared<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The runs of each variant.
    runs: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The variants.
    variants: Vec<ComparedVariant<'a>>,
    /// The figures, in the order of the table.
    rows: Vec<ComparedRow<'a>>,
    /// The known bugs that not all variants have.
    faults: Vec<ComparedFault<'a>>,
    /// Of an imported workload: its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginData>,
    /// With `--bisect`: the settings behind the largest change; null if there is nothing to
    /// explain.
    #[serde(skip_serializing_if = "Option::is_none")]
    bisection: Option<Option<BisectedFigure<'a>>>,
}

/// The figures of a variant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ComparedVariant<'a> {
    /// Its name.
    name: &'a str,
    /// The values by which it differs, by key.
    values: BTreeMap<&'a str, &'a str>,
    /// Its figures by `OWNER.FIGURE`, which ends in the unit; null if a run has too few samples.
    figures: BTreeMap<String, Option<Range>>,
}

/// A known bug that not all variants have.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ComparedFault<'a> {
    /// Its name, as in `zerolag settings --faults`.
    name: &'a str,
    /// The variants that have it.
    variants: Vec<&'a str>,
}

/// A figure of all variants.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct ComparedRow<'a> {
    /// Its key in the figures of a variant.
    key: String,
    /// The task, the service, the path of a group, or `machine`.
    owner: &'a str,
    /// Its name in the table.
    figure: String,
    /// Its unit: `ns`, `count`, `percent` of a CPU, or `per_second`.
    unit: &'static str,
    /// Whether the last variant differs from the first by more than the seeds do, also with as many
    /// fresh seeds.
    changed: bool,
    /// Of an imported workload: whether that change is smaller than the base error, so that nothing
    /// is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_base_error: Option<bool>,
}

/// One figure over the seeds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ComparedRange")]
pub struct Range {
    /// The mean.
    pub mean: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// One figure of a task, service or group under every variant.
#[derive(Clone, Debug)]
pub struct ComparedFigure {
    /// The task, the service, the path of a group, or `machine`.
    pub owner: String,
    /// The figure.
    pub figure: Figure,
    /// In the order of the variants, in the smallest unit; `None` if a run does not know it.
    pub values: Vec<Option<Range>>,
    /// The same with fresh seeds; empty if no figure has changed in the first ones.
    pub fresh: Vec<Option<Range>>,
    /// Whether it was asked for: it is shown, changed or not.
    pub is_asked: bool,
}

impl ComparedFigure {
    /// Returns whether the last variant differs from the first by more than the seeds do, also with
    /// the fresh seeds if there are any.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let change = self.change_in(&self.values);
        change.is_some() && (self.fresh.is_empty() || self.change_in(&self.fresh) == change)
    }

    /// Returns whether the last of some values is larger than the first, if they differ by more
    /// than the seeds do.
    fn change_in(&self, values: &[Option<Range>]) -> Option<bool> {
        let (first, last) = ends(values)?;
        let is_apart = first.max < last.min || last.max < first.min;
        let by = (first.mean - last.mean).abs();
        let is_visible = self.figure.unit() != Unit::Share || by >= NO_SHARE;
        let has_changed = is_apart && is_visible && by > NOTHING * first.mean.abs().max(last.mean.abs());
        has_changed.then_some(last.mean > first.mean)
    }

    /// Returns the values of the first and of the last variant, if both are known.
    #[must_use]
    pub fn ends(&self) -> Option<(Range, Range)> {
        ends(&self.values)
    }

    /// Returns a mean of it as tables show it.
    #[must_use]
    pub fn text(&self, mean: Option<f64>) -> String {
        Amount { value: mean, unit: self.figure.unit() }.to_string()
    }
}

fn ends(values: &[Option<Range>]) -> Option<(Range, Range)> {
    let [first, .., last] = values else { return None };
    (*first).zip(*last)
}

/// One workload under several variants.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Their names and values.
    pub variants: Vec<Label>,
    /// Runs per variant.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// All figures.
    pub rows: Vec<ComparedFigure>,
    /// The known bugs that not all variants have, each with the variants that have it.
    pub faults: Vec<(String, Vec<usize>)>,
    /// The recording that the workload was imported from, if it was.
    pub origin: Option<Origin>,
}

impl Variant {
    /// Returns a variant of a simulation per value of a key, which is looked up as in
    /// [`Simulation::set`]: `kernel`, a setting, a limit.
    ///
    /// # Errors
    /// A value is wrong, or the workload.
    pub fn per_value<'v>(
        simulation: &Simulation,
        key: &str,
        values: impl IntoIterator<Item = &'v str>,
    ) -> Result<Vec<Self>, Error> {
        let simulation = simulation.clone().read()?;
        let variant = |value: &str| {
            let label = Label { name: value.to_owned(), values: vec![(key.to_owned(), value.to_owned())] };
            Ok(Self { label, plan: simulation.clone().set(key, value).plan()?.plan })
        };
        values.into_iter().map(variant).collect()
    }
}

/// A figure to be shown, changed or not, of an owner or of all that have it, as [`Figure::parse`]
/// reads it.
pub type Asked = (Option<String>, Figure);

/// As [`run`], and compares more figures: any percentile of a distribution is one.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    variants: &[Variant],
    runs: u64,
    more: &[Asked],
    progress: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Comparison, Error> {
    compared(variants, runs, more, progress)
}

/// Runs every variant with `runs` seeds; `progress` is called before each run with the number of
/// those that are done, and can end it.
///
/// ```
/// use zerolag::compare::{self, Variant};
/// use zerolag::{Simulation, Workload};
///
/// let text = "[machine]\ncpus = 1\n[task.a]\ninstances = 2\nsteps = [{ run = \"5ms\" }]\n";
/// let simulation = Simulation::new(Workload::toml(text)).duration("1s".parse()?);
/// let variants = Variant::per_value(&simulation, "kernel", ["5.15", "6.12"])?;
/// let compared = compare::run(&variants, 2, |_| std::ops::ControlFlow::Continue(()))?;
/// let row = compared.rows.iter().find(|row| row.owner == "a" && row.figure.key() == "preemptions").unwrap();
/// assert_eq!(row.values.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The program does not fit the machine; `progress` ended it.
pub fn run(variants: &[Variant], runs: u64, progress: impl FnMut(u64) -> ControlFlow<()>) -> Result<Comparison, Error> {
    compared(variants, runs, &[], progress)
}

fn compared(
    variants: &[Variant],
    runs: u64,
    more: &[Asked],
    mut progress: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Comparison, Error> {
    let seed = variants.first().map_or(0, |variant| variant.plan.config.seed);
    let mut rows = measured(variants, (seed, runs), more, &mut progress)?;
    if rows.iter().any(ComparedFigure::has_changed) {
        let fresh = measured(variants, (seed.wrapping_add(runs), runs), more, |done| {
            progress(variants.len() as u64 * runs + done)
        })?;
        rows.iter_mut().zip(fresh).for_each(|(row, fresh)| row.fresh = fresh.values);
    }
    rows.retain(|row| row.is_asked || row.values.iter().flatten().any(|range| range.max != 0.0));
    let faults = differing_faults(variants);
    let origin = variants.first().and_then(|variant| variant.plan.program.origin.clone());
    let labels = variants.iter().map(|variant| variant.label.clone()).collect();
    Ok(Comparison { variants: labels, runs, seed, rows, faults, origin })
}

/// Returns all figures of every variant over `runs` seeds from `first` on.
///
/// Variants can have other owners: one that puts a task elsewhere gives a group its only member. So
/// figures are joined by owner and name, and a figure is left out only if it repeats another in
/// every variant.
fn measured(
    variants: &[Variant],
    (first, runs): (u64, u64),
    more: &[Asked],
    mut progress: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<Vec<ComparedFigure>, Error> {
    let mut rows: Vec<(ComparedFigure, bool)> = Vec::new();
    let mut places: BTreeMap<(String, Figure), usize> = BTreeMap::new();
    let mut done = 0;
    // Beside a loaded scheduler its figures are measured of the kernel's class, too.
    let loads = variants.iter().any(|variant| variant.plan.measures_sharing());
    for (index, variant) in variants.iter().enumerate() {
        let plan = variant.plan.clone().measuring(more.iter().map(|(_, figure)| *figure));
        let plan = Plan { shares: plan.shares || loads, ..plan };
        for run in 0..runs {
            if progress(done).is_break() {
                return Err(Error::Interrupted);
            }
            done += 1;
            let plan = plan.clone().with_seed(first.wrapping_add(run));
            let report = plan.run(Observe::FIGURES)?;
            for measured in measure(&plan.program, &report.summary, more) {
                let place = *places.entry((measured.owner.clone(), measured.figure)).or_insert_with(|| {
                    rows.push((ComparedFigure::new(&measured, variants.len()), true));
                    rows.len() - 1
                });
                let (row, repeats) = &mut rows[place];
                row.add(index, measured.value, runs);
                *repeats &= measured.repeats;
            }
        }
    }
    let told = rows.into_iter().filter(|(_, repeats)| !repeats).map(|(row, _)| row.known());
    Ok(told.collect())
}

/// A figure of a run.
struct Measured {
    owner: String,
    figure: Figure,
    value: Option<u64>,
    /// It is that of another owner again, and none has asked for it.
    repeats: bool,
    is_asked: bool,
}

/// Returns the known bugs that some of the variants have and others have not.
fn differing_faults(variants: &[Variant]) -> Vec<(String, Vec<usize>)> {
    let having = |fault: &Fault| -> Vec<usize> {
        let plan = |index: usize| &variants[index].plan;
        let has = |index: &usize| {
            let settings = &plan(*index).config.settings;
            fault.is_in(plan(*index).kernel, settings) && fault.matters_under(settings)
        };
        (0..variants.len()).filter(has).collect()
    };
    let all = Settings::FAULTS.iter().map(|fault| (fault.name(), having(fault)));
    all.filter(|(_, having)| !having.is_empty() && having.len() < variants.len()).collect()
}

/// Returns the name of a unit in the JSON of comparisons, the end of its keys, and the factor to
/// it: means are real numbers, so shares are percent.
const fn in_json(unit: Unit) -> (&'static str, &'static str, f64) {
    match unit {
        Unit::Time => ("ns", "_ns", 1.0),
        Unit::Count => ("count", "", 1.0),
        Unit::Share => ("percent", "_percent", 1e-4),
        Unit::Rate => ("per_second", "", 1e-3),
    }
}

impl ComparedFigure {
    /// Returns its name with its unit, for JSON.
    fn json_key(&self) -> String {
        // The machine is in the keys of its figures.
        let key = self.figure.key();
        let owner = if self.figure.owner() == Owner::Machine { "" } else { &self.owner };
        let point = if owner.is_empty() { "" } else { "." };
        format!("{owner}{point}{key}{}", in_json(self.figure.unit()).1)
    }

    /// Returns a value for JSON.
    fn json_value(&self, at: usize) -> Option<Range> {
        let factor = in_json(self.figure.unit()).2;
        let Range { mean, min, max } = (*self.values.get(at)?)?;
        Some(Range { mean: mean * factor, min: min * factor, max: max * factor })
    }

    /// Returns a row without values.
    fn new(of: &Measured, variants: usize) -> Self {
        let values = vec![Some(Range { mean: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }); variants];
        Self { owner: of.owner.clone(), figure: of.figure, values, fresh: Vec::new(), is_asked: of.is_asked }
    }

    /// Returns the row; a variant that has no such owner knows no value.
    fn known(mut self) -> Self {
        for value in &mut self.values {
            *value = value.filter(|range| range.min <= range.max);
        }
        self
    }

    fn add(&mut self, variant: usize, value: Option<u64>, runs: u64) {
        self.values[variant] = self.values[variant].zip(value).map(|(range, value)| {
            let value = value as f64;
            Range { mean: range.mean + value / runs as f64, min: range.min.min(value), max: range.max.max(value) }
        });
    }
}

/// Returns whether a figure is compared: less or more of it is wanted, or it is a share. The others
/// follow from these, and a table with all would hide what matters. Of a distribution the middle
/// and the end are compared.
const fn is_compared(figure: Figure) -> bool {
    let row = figure.quantity.row();
    let is_wanted = !matches!(row.better, Better::Neither) || matches!(row.unit, Unit::Share);
    let is_of_all = matches!(row.owner, Owner::Machine);
    (is_wanted || is_of_all) && matches!(figure.stat, Stat::Value | P50 | P99 | Stat::Max)
}

/// Returns whether a figure of a group or of the machine is that of its only task again.
fn repeats(figure: Figure, members: usize) -> bool {
    members == 1 && matches!(figure.quantity, Quantity::GroupShare | Quantity::AllMigrations)
}

/// Returns the number of tasks that start in a group or below it.
fn members(program: &Program, group: &GroupDef) -> usize {
    let is_below = |index: usize| is_below(&program.groups[index].path, &group.path);
    let of_task = |task: &&TaskDef| task.phases.first().and_then(|phase| phase.group).or(task.group);
    program.tasks.iter().filter(|task| of_task(task).is_some_and(is_below)).count()
}

/// Returns all figures of a run, in an order that depends only on the program.
fn measure(program: &Program, summary: &Summary, more: &[Asked]) -> Vec<Measured> {
    let mut found = Vec::new();
    let mut push = |owner: &str, kind: Owner, members: usize, subjects: &[Subject<'_>]| {
        let usual: Vec<Figure> = Figure::of(kind).filter(|figure| is_compared(*figure)).collect();
        let is_of = |whose: &Option<String>| whose.as_deref().is_none_or(|name| name == owner);
        let asked = more.iter().filter(|(whose, figure)| figure.owner() == kind && is_of(whose));
        let asked: Vec<Figure> = asked.map(|(_, figure)| *figure).collect();
        let unusual = asked.iter().filter(|figure| !usual.contains(figure));
        for figure in usual.iter().chain(unusual).copied() {
            let is_asked = asked.contains(&figure);
            found.push(Measured {
                owner: owner.to_owned(),
                figure,
                value: figure::of_several(figure, subjects.iter().copied()),
                repeats: !is_asked && repeats(figure, members),
                is_asked,
            });
        }
    };
    for name in program.services() {
        let service = summary.service_subjects().filter(|(service, _)| *service.name == *name);
        push(name, Owner::Service, 0, &service.map(|(_, subject)| subject).collect::<Vec<_>>());
    }
    for task in &program.tasks {
        let threads = summary.task_subjects().filter(|(thread, _)| goals::is_thread_of(&thread.name, &task.name));
        push(&task.name, Owner::Task, 0, &threads.map(|(_, subject)| subject).collect::<Vec<_>>());
    }
    for group in &program.groups {
        let same = summary.group_subjects().filter(|(of, _)| *of.path == *group.path);
        let subjects: Vec<Subject<'_>> = same.map(|(_, subject)| subject).collect();
        push(&group.path, Owner::Group, members(program, group), &subjects);
    }
    push(MACHINE, Owner::Machine, program.tasks.len(), &[Subject::Machine(summary)]);
    found
}

/// The name of the machine as an owner of figures.
pub(crate) const MACHINE: &str = "machine";

impl Comparison {
    /// Returns all figures as JSON, changed or not: each variant has them by `OWNER.FIGURE`, `rows`
    /// lists owners and figures in the order of the table.
    #[must_use]
    pub fn to_json(&self) -> Value {
        document::value(&self.data(None))
    }

    /// Returns all figures as JSON, and the settings behind the largest change, if there are any.
    #[must_use]
    pub fn to_json_bisected(&self, bisection: Option<&Bisection>) -> Value {
        document::value(&self.data(Some(bisection.map(Bisection::data))))
    }

    fn data<'a>(&'a self, bisection: Option<Option<BisectedFigure<'a>>>) -> Compared<'a> {
        let figures = |variant: usize| self.rows.iter().map(move |row| (row.json_key(), row.json_value(variant)));
        let variants = self.variants.iter().enumerate().map(|(at, label)| ComparedVariant {
            name: &label.name,
            values: label.by_key(),
            figures: figures(at).collect(),
        });
        let rows = self.rows.iter().map(|row| ComparedRow {
            key: row.json_key(),
            owner: &row.owner,
            figure: row.figure.label(),
            unit: in_json(row.figure.unit()).0,
            changed: row.has_changed(),
            below_base_error: self.origin.as_ref().map(|_| row.has_changed() && self.cannot_tell(row)),
        });
        let fault = |(name, having): &'a (String, Vec<usize>)| ComparedFault {
            name,
            variants: having.iter().map(|index| self.variants[*index].name.as_str()).collect(),
        };
        Compared {
            schema: SCHEMA,
            runs: self.runs,
            seed: self.seed,
            variants: variants.collect(),
            rows: rows.collect(),
            faults: self.faults.iter().map(fault).collect(),
            origin: self.origin.as_ref().map(OriginData::from),
            bisection,
        }
    }
}

impl Comparison {
    /// Returns a row per figure and variant: `owner`, `figure`, `unit`, `variant`, `mean`, `min`,
    /// `max`, `changed`.
    #[must_use]
    pub fn frame(&self) -> Frame {
        frame(&[("", self)])
    }
}

/// Returns a row per workload, figure and variant; the column `workload` is left out if no workload
/// has a name.
fn frame(compared: &[(&str, &Comparison)]) -> Frame {
    type Cell<'c> = (&'c str, &'c ComparedFigure, &'c str, Option<Range>);
    let rows = compared.iter().flat_map(|(workload, of)| of.rows.iter().map(move |row| (*workload, *of, row)));
    let cells: Vec<Cell<'_>> = rows
        .flat_map(|(workload, of, row)| {
            let values = of.variants.iter().enumerate();
            values.map(move |(at, label)| (workload, row, &*label.name, row.json_value(at)))
        })
        .collect();
    let text = |of: &dyn Fn(&Cell<'_>) -> Arc<str>| Values::Text(cells.iter().map(of).collect());
    let number =
        |of: fn(&Range) -> f64| Values::F64(cells.iter().map(|(.., range)| range.as_ref().map_or(0.0, of)).collect());
    let known = || cells.iter().map(|(.., range)| range.is_some()).collect::<Vec<_>>();
    let frame = Frame::new("compare", cells.len());
    let frame = match compared.iter().any(|(workload, _)| !workload.is_empty()) {
        true => frame.with("workload", text(&|(workload, ..)| (*workload).into())),
        false => frame,
    };
    frame
        .with("owner", text(&|(_, row, ..)| row.owner.as_str().into()))
        .with("figure", text(&|(_, row, ..)| row.figure.key().into()))
        .with("unit", text(&|(_, row, ..)| in_json(row.figure.unit()).0.into()))
        .with("variant", text(&|(_, _, name, _)| (*name).into()))
        .with_some("mean", number(|range| range.mean), known())
        .with_some("min", number(|range| range.min), known())
        .with_some("max", number(|range| range.max), known())
        .with("changed", Values::Bool(cells.iter().map(|(_, row, ..)| row.has_changed()).collect()))
}

impl Comparison {
    /// Returns the known bugs that not all variants have, a line per set of variants; empty if
    /// there are none.
    #[must_use]
    pub fn faults_text(&self) -> String {
        let mut sets: Vec<(&[usize], Vec<&str>)> = Vec::new();
        for (name, having) in &self.faults {
            match sets.iter_mut().find(|(known, _)| known == having) {
                Some((_, names)) => names.push(name),
                None => sets.push((having.as_slice(), vec![name.as_str()])),
            }
        }
        let name = |index: &usize| self.variants[*index].name.as_str();
        let line = |(having, names): &(&[usize], Vec<&str>)| {
            let having: Vec<&str> = having.iter().map(name).collect();
            format!("known faults of {} only: {}\n", having.join(", "), names.join(", "))
        };
        sets.iter().map(line).collect()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variants.iter().map(|label| label.name.as_str()).collect();
        writeln!(f, "{}: {}\n", names.join(" against "), self.seeds_text())?;
        let changed = self.rows.iter().filter(|row| row.has_changed()).count();
        let mut columns = vec![("owner", Align::Left), ("figure", Align::Left)];
        columns.extend(names.iter().map(|name| (*name, Align::Right)));
        columns.push(("change", Align::Right));
        let mut table = Table::new(&columns);
        let mut previous = "";
        let shown: Vec<&ComparedFigure> = self.shown().collect();
        for row in &shown {
            let owner = if row.owner == previous { "" } else { row.owner.as_str() };
            previous = &row.owner;
            let mut cells = vec![owner.to_owned(), row.figure.label()];
            cells.extend(row.values.iter().map(|range| self.value(row, *range)));
            cells.push(self.change(row));
            table.push(cells);
        }
        if !shown.is_empty() {
            writeln!(f, "{table}")?;
        }
        let same = self.rows.len() - changed;
        writeln!(f, "{changed} figures differ by more than 2 % and by more than seeds do; {same} do not")?;
        if let Some(fresh) = self.fresh_text() {
            writeln!(f, "{fresh}")?;
        }
        match &self.origin {
            Some(origin) => writeln!(f, "{origin}"),
            None => Ok(()),
        }
    }
}

impl Comparison {
    /// Returns whether a figure of an imported workload differs by no more than the base error:
    /// then nothing is known.
    #[must_use]
    pub fn cannot_tell(&self, row: &ComparedFigure) -> bool {
        let (Some(origin), Some((first, last))) = (&self.origin, row.ends()) else { return false };
        origin.base_error.of(row.figure).hides(first.mean, last.mean)
    }

    /// Returns a value of a row: the mean, and of an imported workload whose seeds draw what the
    /// recording leaves open, the range to be expected.
    pub(crate) fn value(&self, row: &ComparedFigure, range: Option<Range>) -> String {
        let mean = row.text(range.map(|range| range.mean));
        let is_drawn = self.runs > 1 && self.origin.as_ref().is_some_and(|origin| !origin.unknown.is_nothing());
        match range.filter(|range| is_drawn && range.min < range.max) {
            Some(Range { min, max, .. }) => format!("{mean} ({} to {})", row.text(Some(min)), row.text(Some(max))),
            None => mean,
        }
    }

    /// Returns the rows that are shown: what has changed, and what was asked for.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &ComparedFigure> {
        self.rows.iter().filter(|row| row.has_changed() || row.is_asked)
    }

    /// Returns the change of a row, that there is none, or that it is not known.
    pub(crate) fn change(&self, row: &ComparedFigure) -> String {
        match row.has_changed() {
            true if self.cannot_tell(row) => CANNOT_TELL.to_owned(),
            false if row.ends().is_some() => NO_CHANGE.to_owned(),
            _ => change(row),
        }
    }

    /// Returns by which seeds the differences were confirmed; `None` if there was none.
    pub(crate) fn fresh_text(&self) -> Option<String> {
        self.rows.iter().any(|row| !row.fresh.is_empty()).then(|| {
            let first = self.seed.wrapping_add(self.runs);
            let last = first.wrapping_add(self.runs.saturating_sub(1));
            let seeds = if self.runs == 1 { format!("seed {first}") } else { format!("seeds {first}..{last}") };
            format!("what differs also does so, in the same direction, with {seeds}")
        })
    }

    /// Returns which runs a value is the mean of.
    pub(crate) fn seeds_text(&self) -> String {
        let last = self.seed.wrapping_add(self.runs.saturating_sub(1));
        let seeds = if self.runs == 1 { format!("seed {}", self.seed) } else { format!("seeds {}..{last}", self.seed) };
        format!("{} runs each, {seeds}", self.runs)
    }
}

/// The change of a figure that was asked for, if it has not changed.
const NO_CHANGE: &str = "none";

/// Returns the change from the first variant to the last: points of a percentage, else a factor or
/// percent.
fn change(row: &ComparedFigure) -> String {
    let Some((first, last)) = row.ends() else { return "-".to_owned() };
    let (before, after) = (first.mean, last.mean);
    match row.figure.unit() {
        Unit::Share => format!("{:+.1} points", (after - before) / 1e4),
        Unit::Time | Unit::Count | Unit::Rate if before == 0.0 => "new".to_owned(),
        Unit::Time | Unit::Count | Unit::Rate if after / before >= 3.0 => format!("x{:.1}", after / before),
        Unit::Time | Unit::Count | Unit::Rate => format!("{:+.0}%", (after / before - 1.0) * 100.0),
    }
}

#[cfg(test)]
mod tests;
