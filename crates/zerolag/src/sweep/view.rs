//! A grid as a table, as JSON and as a plot.

use super::histogram::Distribution;
use super::{Axis, Cell, Grid, Range, SweptFigure};
use crate::document::{self, Document};
use crate::goals::{ONE_SEED, drawn};
use crate::limit::Limit;
use crate::origin::OriginData;
use crate::risk::{Above, Below, CONFIDENCE, Misses};
use crate::variant::Label;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use zerolag_model::{Duration, KernelVersion};
use zerolag_report::figure::Amount;
use zerolag_report::frame::{Frame, Values, csv};
use zerolag_report::plot::{self, Mark, Plot};
use zerolag_report::table::{Align, Table};
use zerolag_workload::goal::Goal;
use zerolag_workload::origin::CANNOT_TELL;

/// The result of `zerolag sweep` and `zerolag merge`.
pub(crate) const DOCUMENT: Document = Document::of::<SweptGrid<'_>>(SCHEMA, "sweep, merge");
const SCHEMA: &str = "zerolag.sweep.v1";

/// A workload under every combination of values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SweptGrid<'a> {
    /// The name and version of this form.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// The runs of each variant.
    runs: u64,
    /// The seed of the first run; each further run adds 1.
    seed: u64,
    /// The keys that vary, and their values; the first varies slowest.
    axes: &'a [Axis],
    /// The combinations, in the order of the axes.
    variants: Vec<SweptVariant<'a>>,
    /// Of an imported workload: its recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<OriginData>,
    /// Of an imported workload: the figures whose values all differ by less than the base error, so
    /// that nothing is known of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    below_base_error: Option<Vec<String>>,
}

/// One combination of values.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SweptVariant<'a> {
    /// Its name: `KEY=VALUE, KEY=VALUE`.
    name: String,
    /// Its values by key.
    values: BTreeMap<&'a str, &'a str>,
    /// Each figure over the runs, by a name that ends in its unit; null if a run had no samples.
    figures: BTreeMap<String, Option<Range>>,
    /// The limits and weights of groups.
    limits: &'a [Limit],
    /// With `--histograms`: the distributions of all runs together.
    #[serde(skip_serializing_if = "Option::is_none")]
    histograms: Option<Vec<Distribution>>,
    /// The figures of each run.
    runs: Vec<SweptRun<'a>>,
}

/// The figures of one run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SweptRun<'a> {
    /// Its seed.
    seed: u64,
    /// The figures, by a name that ends in its unit; null if the run had no samples, or failed.
    figures: BTreeMap<String, Option<u64>>,
    /// Of a run that failed: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// With `--histograms`: the distributions of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    histograms: Option<&'a [Distribution]>,
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} cells, {}\n", self.cells.len(), self.seeds_text())?;
        write!(f, "{}", self.table())?;
        if let Some(origin) = &self.origin {
            writeln!(f, "\n{origin}")?;
            let unknown: Vec<&str> = self.unknown().map(|figure| &*figure.name).collect();
            if !unknown.is_empty() {
                writeln!(f, "{CANNOT_TELL} what changes: {}", unknown.join(", "))?;
            }
        }
        let failed = self.failed_lines();
        if failed.is_empty() { Ok(()) } else { writeln!(f, "\n{}", failed.join("\n")) }
    }
}

/// The number of failed runs that are listed.
const FAILED_SHOWN: usize = 10;
/// The number of groups whose limits are shown.
const LIMITS_SHOWN: usize = 4;

impl Grid {
    /// Returns the figures of an imported workload whose values in all cells differ by no more than
    /// the base error.
    pub fn unknown(&self) -> impl Iterator<Item = &SweptFigure> {
        let is_unknown = |at: usize, figure: &SweptFigure| {
            let means = self.cells.iter().filter_map(|cell| Some((*cell.figures.get(at)?)?.mean));
            let (least, most) =
                means.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), mean| (least.min(mean), most.max(mean)));
            let base = self.origin.as_ref().map(|origin| origin.base_error.of(figure.figure()));
            base.is_some_and(|base| least < most && base.hides(least, most))
        };
        self.figures.iter().enumerate().filter(move |(at, figure)| is_unknown(*at, figure)).map(|(_, figure)| figure)
    }

    /// Returns which runs a cell stands for.
    pub(crate) fn seeds_text(&self) -> String {
        let last = self.seed.wrapping_add(self.runs.saturating_sub(1));
        match self.runs {
            1 => format!("one run each, seed {}", self.seed),
            runs => format!("means of {runs} runs, seeds {}..={last}", self.seed),
        }
    }

    /// Returns the number of runs that failed, and of all.
    pub(crate) fn failed_of(&self) -> (usize, usize) {
        (self.failed().count(), self.cells.iter().map(|cell| cell.runs.len()).sum())
    }

    /// Returns a row per run that failed: its values, its seed, why.
    pub(crate) fn failed_table(&self) -> Table {
        let axes = self.axes.iter().map(|axis| (&*axis.key, Align::Right));
        let head = axes.chain([("seed", Align::Right), ("reason", Align::Left)]);
        let mut table = Table::new(&head.collect::<Vec<_>>());
        for (values, seed, why) in self.failed() {
            table.push(values.iter().cloned().chain([seed.to_string(), one_line(why)]));
        }
        table
    }

    /// Returns what is said of runs that failed, in lines; none if none failed.
    fn failed_lines(&self) -> Vec<String> {
        let (all, runs) = self.failed_of();
        if all == 0 {
            return Vec::new();
        }
        let line = |(values, seed, why): (&[String], u64, &str)| {
            let values = self.axes.iter().zip(values).map(|(axis, value)| format!("{}={value}, ", axis.key));
            format!("  {}seed {seed}: {}", values.collect::<String>(), one_line(why))
        };
        let mut lines = vec![format!("{all} of {runs} runs failed and have no figures:")];
        lines.extend(self.failed().take(FAILED_SHOWN).map(line));
        if all > FAILED_SHOWN {
            lines.push(format!("  and {} more", all - FAILED_SHOWN));
        }
        lines
    }

    /// Returns a row per cell: its values, its limits, its figures.
    pub(crate) fn table(&self) -> Table {
        let axes = self.axes.iter().map(|axis| (&*axis.key, Align::Right));
        let limits = self.limit_columns();
        let limited = limits.iter().map(|(head, _)| (&**head, Align::Right));
        let figures = self.figures.iter().map(|figure| (&*figure.name, Align::Right));
        let mut table = Table::new(&axes.chain(limited).chain(figures).collect::<Vec<_>>());
        for (at, cell) in self.cells.iter().enumerate() {
            let limits = limits.iter().map(|(_, texts)| texts[at].clone());
            let figures = self.figures.iter().zip(&cell.figures);
            let figures =
                figures.map(|(figure, range)| range.map_or_else(|| "-".to_owned(), |range| text(figure, range)));
            table.push(cell.values.iter().cloned().chain(limits).chain(figures));
        }
        table
    }
}

/// Returns a reason of several lines as one.
fn one_line(why: &str) -> String {
    why.lines().map(str::trim).collect::<Vec<_>>().join("; ").replace(":;", ":")
}

fn text(figure: &SweptFigure, range: Range) -> String {
    Amount { value: Some(range.mean), unit: figure.figure().unit() }.to_string()
}

impl Grid {
    /// Returns a column per limited group: its head, and `cpu.max` of each cell. A column that an
    /// axis repeats word for word is left out.
    fn limit_columns(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<&str> = Vec::new();
        for limit in self.cells.iter().flat_map(|cell| &cell.limits) {
            if limit.quota_us.is_some() && !groups.contains(&&*limit.group) {
                groups.push(&limit.group);
            }
        }
        let is_only = groups.len() == 1;
        let column = |group: &str| {
            let text = |limits: &[Limit]| {
                let limit = limits.iter().find(|limit| limit.group == group);
                limit.map_or_else(|| "max".to_owned(), |limit| limit.cpu_max.clone())
            };
            let texts: Vec<String> = self.cells.iter().map(|cell| text(&cell.limits)).collect();
            (if is_only { "cpu.max".to_owned() } else { format!("{group}:cpu.max") }, texts)
        };
        let is_repeated = |texts: &[String]| {
            (0..self.axes.len()).any(|axis| self.cells.iter().zip(texts).all(|(cell, text)| cell.values[axis] == *text))
        };
        let columns = groups.into_iter().take(LIMITS_SHOWN).map(column);
        columns.filter(|(_, texts)| !is_repeated(texts)).collect()
    }

    /// Returns the grid as JSON, with a line break at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let variants = self.cells.iter().map(|cell| self.variant(cell));
        document::text(&SweptGrid {
            schema: SCHEMA,
            runs: self.runs,
            seed: self.seed,
            axes: &self.axes,
            variants: variants.collect(),
            origin: self.origin.as_ref().map(OriginData::from),
            below_base_error: self.origin.as_ref().map(|_| self.unknown().map(SweptFigure::key).collect()),
        })
    }

    fn variant<'a>(&'a self, cell: &'a Cell) -> SweptVariant<'a> {
        let values = || self.axes.iter().zip(&cell.values);
        let owned = values().map(|(axis, value)| (axis.key.clone(), value.clone())).collect();
        let run = |(run, values): (u64, &'a Vec<Option<u64>>)| SweptRun {
            seed: self.seed.wrapping_add(run),
            figures: self.figures.iter().zip(values).map(|(figure, value)| (figure.key(), *value)).collect(),
            error: usize::try_from(run).ok().and_then(|run| cell.failed.get(&run)).map(|why| &**why),
            histograms: usize::try_from(run).ok().and_then(|run| cell.histograms.get(run)).map(|all| &**all),
        };
        let has_histograms = !cell.histograms.is_empty();
        SweptVariant {
            name: Label::of_values(owned, "").name,
            values: values().map(|(axis, value)| (&*axis.key, &**value)).collect(),
            figures: self.figures.iter().zip(&cell.figures).map(|(figure, range)| (figure.key(), *range)).collect(),
            limits: &cell.limits,
            histograms: has_histograms.then(|| Distribution::sum(cell.histograms.iter().flatten())),
            runs: (0_u64..).zip(&cell.runs).map(run).collect(),
        }
    }

    /// Returns a row per run: the values of the axes, `cpu.max` of each limited group, the seed,
    /// the figures with their unit in the name, missing if a run had no samples, and `error`: why
    /// it failed. A name that is taken gets a number: `cpu.max_2` is the limit in effect beside the
    /// axis `cpu.max`.
    #[must_use]
    pub fn frame(&self) -> Frame {
        /// The cell's number, the cell, the number of the run.
        type Run<'c> = (usize, &'c Cell, usize);
        let runs: Vec<Run<'_>> = self
            .cells
            .iter()
            .enumerate()
            .flat_map(|(at, cell)| (0..cell.runs.len()).map(move |run| (at, cell, run)))
            .collect();
        let texts = |of: &dyn Fn(&Run<'_>) -> Arc<str>| Values::Text(runs.iter().map(of).collect());
        let mut frame = Frame::new("runs", runs.len());
        for (at, axis) in self.axes.iter().enumerate() {
            let name = unused(&frame, &axis.key);
            frame = frame.with(name, texts(&|(_, cell, _)| cell.values[at].as_str().into()));
        }
        for (head, limits) in self.limit_columns() {
            let name = unused(&frame, &head);
            frame = frame.with(name, texts(&|(at, ..)| limits[*at].as_str().into()));
        }
        let seeds = runs.iter().map(|(.., run)| self.seed.wrapping_add(*run as u64)).collect();
        let name = unused(&frame, "seed");
        frame = frame.with(name, Values::U64(seeds));
        for (at, figure) in self.figures.iter().enumerate() {
            let value = |(_, cell, run): &Run<'_>| cell.runs[*run][at].map_or((0, false), |value| (value, true));
            let (values, known) = runs.iter().map(value).unzip();
            let name = unused(&frame, &figure.key());
            frame = frame.with_some(name, Values::U64(values), known);
        }
        let errors = runs.iter().map(|(_, cell, run)| cell.failed.get(run).map(|why| one_line(why).into()));
        let errors =
            errors.map(|error: Option<Arc<str>>| error.map_or_else(|| (Arc::default(), false), |error| (error, true)));
        let (errors, known) = errors.unzip();
        let name = unused(&frame, "error");
        frame.with_some(name, Values::Text(errors), known)
    }

    /// Returns [`frame`](Self::frame) as CSV.
    #[must_use]
    pub fn to_csv(&self) -> String {
        csv::of(&self.frame())
    }

    /// Plots the first figure over the first axis, from zero, a line per combination of the other
    /// axes; as SVG.
    #[must_use]
    pub fn to_svg(&self, title: &str) -> String {
        self.plot(0, title).map(|plot| plot.to_svg()).unwrap_or_default()
    }

    /// Returns the plot of a figure over the first axis, from zero, a line per combination of the
    /// other axes, with the range over the seeds; `None` if there is no such figure or no axis.
    #[must_use]
    pub fn plot(&self, figure: usize, title: &str) -> Option<Plot> {
        let (axis, index) = (self.axes.first()?, figure);
        let figure = self.figures.get(index)?;
        let (x, places) = x_axis(&axis.key, &axis.values);
        let (unit, scale) = drawn(figure.figure().unit());
        let of = |cell: &Cell| *cell.figures.get(index)?;
        let highest = self.cells.iter().filter_map(of).map(|range| range.max as f64 * scale);
        let y = plot::Axis::linear(&figure.name, unit);
        let y = match highest.fold(0.0, f64::max) {
            highest if highest > 0.0 => y.from_to(0.0, highest * 1.05),
            _ => y,
        };
        // Between words there is nothing that a line could show, but it leads the eye.
        let mut drawn = Plot::new(title, x, y);
        for rest in super::combinations(&self.axes[1..]) {
            let names = self.axes[1..].iter().zip(&rest).map(|(axis, value)| format!("{} {value}", axis.key));
            let cells = self.cells.iter().filter(|cell| cell.values[1..] == rest[..]).zip(&places);
            let mut values: Vec<(f64, Range)> = cells.filter_map(|(cell, x)| Some((*x, of(cell)?))).collect();
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            let points = values.iter().map(|(x, range)| (*x, range.mean * scale)).collect();
            let spread = values.iter().map(|(_, range)| (range.min as f64 * scale, range.max as f64 * scale)).collect();
            drawn = drawn.with_spread(&names.collect::<Vec<_>>().join(", "), Mark::Line, points, spread);
        }
        Some(drawn)
    }

    /// Returns the plot of a figure with a goal for it as a dashed line.
    pub(crate) fn plot_with_goal(&self, figure: usize, title: &str, goal: &Goal) -> Option<Plot> {
        let mut plot = self.plot(figure, title)?;
        let value = goal.value as f64 * drawn(goal.figure.unit()).1;
        let places = || plot.series.iter().flat_map(|one| &one.points).map(|point| point.0);
        let (low, high) = (places().fold(f64::INFINITY, f64::min), places().fold(f64::NEG_INFINITY, f64::max));
        // A goal far above all values would press them to the axis.
        if let Some(range) = plot.y.range.filter(|range| value > range.high && value < range.high * 2.5) {
            plot.y.range = Some(plot::Range { high: value * 1.05, ..range });
        }
        Some(plot.with("goal", Mark::Dashed, vec![(low, value), (high, value)]))
    }

    /// Returns for each goal whose figure is swept: whether all cells meet it, and in how many it
    /// is met, with what so many seeds say of all.
    #[must_use]
    pub fn judged(&self, goals: &[Goal]) -> Vec<(bool, String)> {
        let all = self.cells.len();
        let no_miss = Below(Misses { missed: 0, runs: self.runs }.at_most(CONFIDENCE));
        let seeds = self.seeds_of();
        let judged = |of: (usize, &Goal)| {
            let met = self.meeting(&[of]).len();
            let says = format!(
                "{}: met with {seeds} in {met} of {all} cells. Without a miss fewer than {no_miss} of all seeds \
                 miss, with {:.0} % confidence",
                of.1,
                100.0 * CONFIDENCE
            );
            (met == all, says)
        };
        self.goals(goals).into_iter().map(judged).collect()
    }

    /// Returns the goals on figures that are swept, each with the number of its figure.
    pub(crate) fn goals<'g>(&self, goals: &'g [Goal]) -> Vec<(usize, &'g Goal)> {
        let figures = self.figures.iter().enumerate();
        figures.filter_map(|(index, figure)| Some((index, figure.goal(goals)?))).collect()
    }

    /// Returns the cells that meet these goals with every seed.
    pub(crate) fn meeting(&self, goals: &[(usize, &Goal)]) -> Vec<usize> {
        (0..self.cells.len()).filter(|at| misses(&self.cells[*at], goals).missed == 0).collect()
    }

    /// Returns those of some cells whose limits let their groups take least; none if the limits do
    /// not differ.
    pub(crate) fn cheapest(&self, cells: &[usize]) -> Vec<usize> {
        let limits = || self.cells.iter().flat_map(|cell| &cell.limits);
        let groups: BTreeSet<&str> =
            limits().filter(|limit| limit.quota_us.is_some()).map(|limit| &*limit.group).collect();
        let cost = |cell: &Cell| {
            // A group without a limit is not among those of its cell.
            let of = |group: &&str| cell.limits.iter().find(|limit| limit.group == **group);
            let taken = groups.iter().map(|group| of(group).map_or([u64::MAX, 0], Limit::taken));
            taken.fold([0_u64, 0], |[quota, burst], [more, burst_more]| {
                [quota.saturating_add(more), burst.saturating_add(burst_more)]
            })
        };
        let costs: Vec<[u64; 2]> = self.cells.iter().map(cost).collect();
        if costs.windows(2).all(|pair| pair[0] == pair[1]) {
            return Vec::new();
        }
        let least = cells.iter().map(|at| costs[*at]).min();
        cells.iter().copied().filter(|at| Some(costs[*at]) == least).collect()
    }

    /// Returns a row per cell with what the goals ask: whether it meets all with every seed, the
    /// mean and the worst run of each goal's figure, and how many runs miss. `None` without a goal
    /// on a swept figure.
    pub(crate) fn goals_table(&self, goals: &[Goal]) -> Option<Table> {
        let goals = self.goals(goals);
        let (meeting, limits) = (self.meeting(&goals), self.limit_columns());
        let cheapest = self.cheapest(&meeting);
        goals.first()?;
        let mut heads = vec![("goals".to_owned(), Align::Left)];
        heads.extend(self.axes.iter().map(|axis| (axis.key.clone(), Align::Right)));
        heads.extend(limits.iter().map(|(head, _)| (head.clone(), Align::Right)));
        for (index, _) in &goals {
            let name = &self.figures[*index].name;
            heads.extend([(format!("{name}, mean"), Align::Right), (format!("{name}, worst"), Align::Right)]);
        }
        heads.extend(["runs that miss", "true share"].map(|head| (head.to_owned(), Align::Right)));
        let mut table = Table::new(&heads.iter().map(|(head, align)| (&**head, *align)).collect::<Vec<_>>());
        for (at, cell) in self.cells.iter().enumerate() {
            let state = match (meeting.contains(&at), cheapest.contains(&at)) {
                (true, true) => "met, cheapest",
                (true, false) => "met",
                (false, _) => "missed",
            };
            let of_goal = |(index, goal): &(usize, &Goal)| {
                let unit = self.figures[*index].figure().unit();
                let amount = |value: f64| Amount { value: Some(value), unit }.to_string();
                cell.figures[*index].map_or_else(
                    || ["-", "-"].map(str::to_owned),
                    |range| [range.mean, if goal.wants_more() { range.min } else { range.max } as f64].map(amount),
                )
            };
            let misses = misses(cell, &goals);
            // All runs of a cell can miss, which says nothing of what the share is below.
            let share = match misses.missed {
                0 => format!("< {}", Below(misses.at_most(CONFIDENCE))),
                _ => format!("> {}", Above(misses.at_least(CONFIDENCE))),
            };
            let judged = [format!("{} of {}", misses.missed, misses.runs), share];
            let values = cell.values.iter().cloned().chain(limits.iter().map(|(_, texts)| texts[at].clone()));
            table
                .push([state.to_owned()].into_iter().chain(values).chain(goals.iter().flat_map(of_goal)).chain(judged));
        }
        Some(table)
    }

    /// Returns the seeds of a cell, in words.
    pub(crate) fn seeds_of(&self) -> String {
        match self.runs {
            1 => ONE_SEED.to_owned(),
            runs => format!("all {runs} seeds"),
        }
    }
}

/// Returns how many runs of a cell miss a goal, or have no figure for it.
fn misses(cell: &Cell, goals: &[(usize, &Goal)]) -> Misses {
    let holds = |run: &[Option<u64>], (figure, goal): &(usize, &Goal)| {
        run.get(*figure).copied().flatten().is_some_and(|value| goal.relation.holds(value, goal.value))
    };
    let mut misses = Misses::default();
    cell.runs.iter().for_each(|run| misses.count(goals.iter().all(|goal| holds(run, goal))));
    misses
}

/// Returns a name that no column has yet.
fn unused(frame: &Frame, name: &str) -> String {
    let numbered = (2_u64..).map(|number| format!("{name}_{number}"));
    let mut names = core::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| frame.column(name).is_none()).expect("invariant: a frame has finitely many columns")
}

/// Returns the axis and the position of each value: times and numbers at their value, words in
/// sequence.
fn x_axis(key: &str, values: &[String]) -> (plot::Axis, Vec<f64>) {
    if key == "kernel" {
        return versions(key, values);
    }
    // For `cpu.max` the first word.
    let first = |value: &String| value.split_whitespace().next().unwrap_or_default().to_owned();
    // Rates of one unit are treated as numbers.
    let unit = values.first().and_then(|value| value.find('/').map(|at| value[at..].to_owned())).unwrap_or_default();
    let bare = |value: &String| first(value).strip_suffix(&*unit).and_then(|number| number.parse::<f64>().ok());
    let numbers: Option<Vec<f64>> = values.iter().map(bare).collect();
    if let Some(numbers) = numbers {
        let label = format!("{key}{}", unit.replace('/', ", per "));
        let is_time = ["_us", "cpu.max", "cpu.max.burst"].iter().any(|end| key.ends_with(end));
        let (unit, scale) = if is_time { (plot::Unit::Nanos, 1e3) } else { (plot::Unit::Number, 1.0) };
        return (plot::Axis::linear(&label, unit), numbers.iter().map(|number| number * scale).collect());
    }
    let times: Option<Vec<f64>> =
        values.iter().map(|value| first(value).parse::<Duration>().ok().map(|time| time.as_nanos() as f64)).collect();
    if let Some(times) = times {
        return (plot::Axis::linear(key, plot::Unit::Nanos), times);
    }
    let names: Vec<&str> = values.iter().map(String::as_str).collect();
    (plot::Axis::categories(key, &names), (0..values.len()).map(|place| place as f64).collect())
}

/// Returns an axis of kernels, the oldest first. As decimals 5.15 would be older than 5.4.
fn versions(key: &str, values: &[String]) -> (plot::Axis, Vec<f64>) {
    let mut sorted: Vec<&str> = values.iter().map(String::as_str).collect();
    sorted.sort_by_key(|value| (KernelVersion::from_name(value), *value));
    let place = |value: &String| sorted.iter().position(|other| other == value).unwrap_or_default() as f64;
    (plot::Axis::categories(key, &sorted), values.iter().map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_cell_that_meets_the_goals_is_marked() {
        let limit = |quota_us: u64, burst_us: u64| {
            let text =
                format!("[group.\"/web\"]\ncpu.max = \"{quota_us} 100000\"\n[task.a]\nsteps = [{{ run = \"1ms\" }}]\n");
            let plan = crate::Simulation::new(crate::Workload::toml(&text)).plan().expect("it is valid").plan;
            let limits = Limit::all(&plan.program).into_iter();
            limits.map(|limit| Limit { burst_us, ..limit }).collect::<Vec<_>>()
        };
        let goal = |text: &str| Goal::parse(text).expect("a goal");
        let figures = vec![SweptFigure::parse("request_latency.p99").expect("a figure")];
        // By cell: its limits, and a value per run.
        let cells = [
            (limit(100_000, 0), [50, 30]),
            (limit(200_000, 0), [20, 30]),
            (Vec::new(), [10, 10]),
            (limit(100_000, 5_000), [40, 39]),
        ];
        let rows: Vec<Vec<Option<u64>>> =
            cells.iter().flat_map(|(_, runs)| runs.map(|ms| vec![Some(ms * 1_000_000)])).collect();
        let limits: Vec<Vec<Limit>> = cells.iter().map(|(limits, _)| limits.clone()).collect();
        let axes = vec![Axis { key: "limit".to_owned(), values: ["a", "b", "none", "c"].map(str::to_owned).to_vec() }];
        let rows = super::super::GridRows { figures: &rows, histograms: &[], failed: &BTreeMap::new() };
        let grid = Grid::assemble(axes, figures, 2, 0, &limits, &rows);
        let table = grid.goals_table(&[goal("request_latency.p99 <= 40ms")]).expect("a goal").to_rows();
        let marks: Vec<(&str, &str, &str)> = table[1..].iter().map(|row| (&*row[0], &*row[4], &*row[5])).collect();
        let expected = [
            ("missed", "50.0ms", "1 of 2"),
            ("met", "30.0ms", "0 of 2"),
            ("met", "10.0ms", "0 of 2"),
            ("met, cheapest", "40.0ms", "0 of 2"),
        ];
        assert_eq!(marks, expected, "{table:?}");
        assert!(grid.goals_table(&[goal("*.wakeup_latency.p99 <= 40ms")]).is_none());
        let same = Grid::assemble(
            grid.axes,
            grid.figures,
            2,
            0,
            &[limits[0].clone(), limits[0].clone(), limits[0].clone(), limits[0].clone()],
            &rows,
        );
        assert!(same.cheapest(&[1, 2]).is_empty(), "equal limits cost the same");
    }

    #[test]
    fn kernels_are_in_order_of_version() {
        let values = ["6.12", "5.4", "6.1", "5.15"].map(str::to_owned);
        assert_eq!(
            versions("kernel", &["6.12.85", "rhel-9.4", "6.12.9", "6.12"].map(str::to_owned)).1,
            [3.0, 0.0, 2.0, 1.0]
        );
        let (axis, places) = x_axis("kernel", &values);
        assert_eq!(axis.scale, plot::Scale::Categories(["5.4", "5.15", "6.1", "6.12"].map(str::to_owned).into()));
        assert_eq!(places, [3.0, 0.0, 2.0, 1.0]);
    }
}
