//! Comparisons as text for a terminal, as Markdown for the documentation, and as tables and plots
//! for pages.

use super::case::Recording;
use super::{Comparison, FALSE_ALARMS, Figure};
use std::collections::BTreeMap;
use std::fmt::Write;
use zerolag::page::Shown;
use zerolag_model::KernelVersion;
use zerolag_model::settings::Release;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::{Align, Table, Titled};

/// Returns a table of all figures.
#[must_use]
fn table(comparisons: &[Comparison]) -> Table {
    let columns = [
        ("case", Align::Left),
        ("kernel", Align::Right),
        ("figure", Align::Left),
        ("recorded", Align::Right),
        ("ours", Align::Right),
        ("error", Align::Right),
        ("band", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for (comparison, figure) in figures(comparisons) {
        table.push(
            [comparison.name(), comparison.recording.kernel.name(), figure.name.clone()]
                .into_iter()
                .chain(values(figure))
                .chain([if figure.is_inside() { String::new() } else { "outside".to_owned() }]),
        );
    }
    table
}

/// Returns why comparisons are outside their bands, as far as it is known.
fn reasons(comparisons: &[Comparison]) -> impl Iterator<Item = String> {
    comparisons.iter().filter(|comparison| !comparison.is_inside()).filter_map(|comparison| {
        let because = comparison.because.as_ref()?;
        Some(format!("{} on {}: {because}", comparison.name(), comparison.recording.kernel.name()))
    })
}

/// Returns a table of all figures, and the number of figures inside their bands.
#[must_use]
pub fn text(comparisons: &[Comparison]) -> String {
    let mut text = table(comparisons).to_string();
    reasons(comparisons).for_each(|reason| put(&mut text, format_args!("\n{reason}")));
    put(&mut text, format_args!("\n{}\n", total(comparisons)));
    text
}

/// Returns the page's figures: a table of all, the reasons of those outside, and plots.
#[must_use]
pub fn shown(answer: String, comparisons: &[Comparison]) -> Shown {
    let table = table(comparisons);
    let last = table.to_rows()[0].len() - 1;
    let mut tables = vec![Titled::new("Figures", total(comparisons), table.name(last, "verdict"))];
    let mut outside = Table::new(&[("reason", Align::Left)]);
    reasons(comparisons).for_each(|reason| outside.push([reason]));
    if !outside.is_empty() {
        tables.push(Titled::new("Outside their bands", "", outside));
    }
    let note = "Each point is a task or a group; the bands were declared before the first run.".to_owned();
    Shown { answer, plots: plots(comparisons), note, tables, ..Shown::default() }
}

/// How large errors the plot shows, in percent of their bands: the table has the others.
const ERRORS_TO: f64 = 200.0;

/// Returns plots: recorded and simulated shares, and how much of their bands the errors use.
#[must_use]
fn plots(comparisons: &[Comparison]) -> Vec<Plot> {
    let is_recorded = |kernel: &&KernelVersion| comparisons.iter().any(|one| one.recording.kernel == **kernel);
    let of = |kernel: KernelVersion| figures(comparisons).filter(move |(one, _)| one.recording.kernel == kernel);
    let percent = |label: &str| Axis::linear(label, Unit::Percent);
    let mut shares = Plot::new("Shares", percent("recorded share of a CPU"), percent("simulated share of a CPU"));
    let mut errors = Plot::new(
        "Errors",
        percent("error, in percent of its band; a figure above 100% is outside").from_to(0.0, ERRORS_TO),
        percent("share of the figures with at most this error").from_to(0.0, 100.0),
    );
    for kernel in KernelVersion::ALL.iter().filter(is_recorded) {
        let points = of(*kernel).filter(|(_, figure)| figure.is_share());
        let (points, spread): (Vec<_>, Vec<_>) =
            points.map(|(_, figure)| ((figure.recorded.mean, figure.ours), figure.range())).unzip();
        shares = shares.with_spread(&kernel.name(), Mark::Points, points, spread);
        let used = of(*kernel).filter(|(_, figure)| figure.allowed() > 0.0);
        let mut used: Vec<f64> = used.map(|(_, figure)| figure.error().abs() / figure.allowed() * 100.0).collect();
        used.sort_by(f64::total_cmp);
        let count = used.len().max(1) as f64;
        let steps = used.iter().enumerate().map(|(at, error)| (*error, (at + 1) as f64 / count * 100.0));
        let mut steps: Vec<(f64, f64)> = steps.take_while(|(error, _)| *error <= ERRORS_TO).collect();
        steps.extend(steps.last().map(|last| (ERRORS_TO, last.1)));
        errors = errors.with(&kernel.name(), Mark::Steps, steps);
    }
    let values = shares.series.iter().flat_map(|one| &one.points).flat_map(|(x, y)| [*x, *y]);
    let most = values.fold(0.0, f64::max);
    vec![shares.with("equal", Mark::Dashed, vec![(0.0, 0.0), (most, most)]), errors]
}

/// Returns a summary as Markdown, with a heading: sums, the largest errors, and known reasons.
///
/// The figures themselves are left out. There are thousands of them, and [`text`] and the JSON have
/// all: a page of them is too long to read, and each change of a cost rewrites it.
#[must_use]
pub fn markdown(comparisons: &[Comparison]) -> String {
    let mut text = String::from(HEAD);
    put(&mut text, format_args!("{}\n\n", total(comparisons)));
    by_set(&mut text, comparisons);
    beside_takes(&mut text, comparisons);
    by_kind(&mut text, comparisons);
    told_apart(&mut text, comparisons);
    moves(&mut text, comparisons);
    text.push_str("## The three recordings with the largest errors of a share\n\n");
    text.push_str("| case | kernel | figure | recorded | simulated | error | reason |\n");
    text.push_str("|---|---|---|--:|--:|--:|---|\n");
    for (comparison, figure) in worst_shares(comparisons).into_iter().take(3) {
        let because = comparison.because.as_deref().unwrap_or("not yet explained");
        let [recorded, ours, error, _] = values(figure);
        let (name, kernel) = (comparison.name(), comparison.recording.kernel.name());
        put(
            &mut text,
            format_args!("| {name} | {kernel} | {} | {recorded} | {ours} | {error} | {because} |\n", figure.name),
        );
    }
    outside(&mut text, comparisons);
    text
}

/// Writes the sums of each set of cases.
fn by_set(text: &mut String, comparisons: &[Comparison]) {
    let mut sets: BTreeMap<&str, Total> = BTreeMap::new();
    for (one, figure) in figures(comparisons) {
        sets.entry(one.set.as_str()).or_default().add(figure);
    }
    text.push_str(BY_SET);
    for (set, Total { figures, inside, shares, within, worst }) in sets {
        let worst = if shares == 0 { "-".to_owned() } else { number(worst) };
        put(text, format_args!("| {set} | {figures} | {inside} | {shares} | {within} | {worst} |\n"));
    }
    text.push('\n');
}

/// Writes the known reasons, each with the recordings that it explains, in the order in which they
/// first occur, and the number of recordings without one.
fn outside(text: &mut String, comparisons: &[Comparison]) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    let mut unexplained = 0;
    for comparison in comparisons.iter().filter(|comparison| !comparison.is_inside()) {
        let name = format!("{} on {}", comparison.name(), comparison.recording.kernel.name());
        let Some(because) = comparison.because.as_deref() else {
            unexplained += 1;
            continue;
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == because) {
            Some((_, names)) => names.push(name),
            None => reasons.push((because, vec![name])),
        }
    }
    if reasons.is_empty() && unexplained == 0 {
        return;
    }
    text.push_str("\n## Outside their bands\n\n");
    for (because, names) in reasons {
        put(text, format_args!("- {}: {because}\n", names.join("; ")));
    }
    if unexplained > 0 {
        put(text, format_args!("- {unexplained} more recordings, not yet explained.\n"));
    }
}

const HEAD: &str = "\
# Conformance

Recorded kernels compared with simulations of the same workload under that kernel's preset. `zerolag validate --markdown conformance` writes this
summary; a test compares it. `zerolag validate conformance` prints every figure, with `--json` as data and with `--html` as a page.
`conformance/README.md` describes the recordings.

| figure | |
|---|---|
| `share` | CPU time in percent of one CPU; its error in points |
| `used` | CPU time of a group in percent of one CPU |
| `sequence` | edit-distance similarity, in percent, of the recorded and simulated lists of time slices |
| `turn_distance`, `delay_distance` | how far the distribution of turns or delays is from the recorded one: the mean way between values of one rank (Wasserstein-1), in percent of the recorded mean |
| `moves` | migrations by kind |
| `throttled`, `delay` | in ms; `delay` is the median from wakeup to running, `delay_p99` the 99th percentile |

Two values in brackets are the minimum and maximum of runs with other phases of ticks and balancing, for cases in which microseconds decide which task
moves; the value before them is the mean. The recording is one such run. Bands were declared before the first run and are not widened.

";

const BY_SET: &str = "\
## By set

`conformance/SET` has the cases of each set. Errors of shares are in points.

| set | figures | inside their bands | shares | within 1 point | worst |
|---|--:|--:|--:|--:|--:|
";

/// How near is near, in points of a share: half of a point is the band of most cases.
const NEAR: f64 = 0.5;

/// Writes, per set of cases with several takes, number of CPUs and kernel, how near the takes of
/// shares are to each other, and ours to them.
///
/// Where takes differ, a mean of four is not the value that a fifth would have. So the distance
/// from the takes is counted too, of our mean and of each of our runs: by the second a simulation
/// gains nothing if its runs differ more than takes.
fn beside_takes(text: &mut String, comparisons: &[Comparison]) {
    let mut rows: BTreeMap<Row<'_>, ShareCounts> = BTreeMap::new();
    let mut sums: BTreeMap<usize, ShareCounts> = BTreeMap::new();
    for (one, figure) in figures(comparisons).filter(|(one, figure)| one.has_takes() && figure.is_share()) {
        let row = row_of(one);
        sums.entry(row.1).or_default().add(figure);
        rows.entry(row).or_default().add(figure);
    }
    if rows.is_empty() {
        return;
    }
    text.push_str(BESIDE);
    let mut row = |set: &str, cpus: usize, kernel: &str, counts: ShareCounts| {
        let ShareCounts { shares, takes, means, near, runs } = counts;
        let runs = runs / shares as f64;
        put(
            text,
            format_args!("| {set} | {cpus} | {kernel} | {shares} | {takes} | {means} | {near} | {runs:.1} % |\n"),
        );
    };
    for ((set, cpus, _, series), counts) in rows {
        row(set, cpus, &series, counts);
    }
    sums.into_iter().for_each(|(cpus, counts)| row("all", cpus, "all", counts));
    text.push('\n');
}

/// A set, a number of CPUs, and a kernel in order of releases.
type Row<'a> = (&'a str, usize, Release, String);

fn row_of(one: &Comparison) -> Row<'_> {
    let Recording { machine, kernel, .. } = &one.recording;
    (one.set.as_str(), machine.nr_cpus(), kernel.release(), series(&one.recording))
}

/// How near figures of one kind are.
#[derive(Clone, Default)]
struct Kinds {
    /// Shares within half a point, and all.
    shares: [usize; 2],
    /// Medians of delays within a quarter of the recorded one, and all.
    medians: [usize; 2],
    /// 99th percentiles within a quarter of the recorded one, and all.
    tails: [usize; 2],
    /// Distances of turns.
    turns: Vec<f64>,
    /// Distances of delays.
    delays: Vec<f64>,
    /// Distances of takes from the others of both kinds, where they are recorded.
    takes: Vec<f64>,
}

impl Kinds {
    fn add(&mut self, figure: &Figure) {
        let error = figure.error().abs();
        let is_quarter = error <= figure.recorded.mean / 4.0;
        let count = |counts: &mut [usize; 2], is_near: bool| {
            counts[0] += usize::from(is_near);
            counts[1] += 1;
        };
        match figure.name.split('.').next().unwrap_or_default() {
            "share" => count(&mut self.shares, error <= NEAR),
            "delay" => count(&mut self.medians, is_quarter),
            "delay_p99" => count(&mut self.tails, is_quarter),
            kind @ ("turn_distance" | "delay_distance") => {
                let distances = if kind == "turn_distance" { &mut self.turns } else { &mut self.delays };
                distances.push(figure.ours);
                if !figure.recorded.takes.is_empty() {
                    self.takes.push(figure.recorded.mean);
                }
            }
            _ => {}
        }
    }
}

/// Writes, per set, number of CPUs and kernel, how near figures of each kind are.
fn by_kind(text: &mut String, comparisons: &[Comparison]) {
    let mut rows: BTreeMap<Row<'_>, Kinds> = BTreeMap::new();
    for (one, figure) in figures(comparisons) {
        rows.entry(row_of(one)).or_default().add(figure);
    }
    rows.retain(|_, kinds| kinds.shares[1] > 0);
    if rows.is_empty() {
        return;
    }
    text.push_str(BY_KIND);
    let part = |[near, all]: [usize; 2]| match all {
        0 => "-".to_owned(),
        all => format!("{near} of {all} ({:.0} %)", near as f64 * 100.0 / all as f64),
    };
    for ((set, cpus, _, kernel), kinds) in rows {
        let Kinds { shares, medians, tails, turns, delays, takes } = kinds;
        let [shares, medians, tails] = [shares, medians, tails].map(part);
        let [turns, delays, takes] = [turns, delays, takes].map(middle);
        put(
            text,
            format_args!(
                "| {set} | {cpus} | {kernel} | {shares} | {medians} | {tails} | {turns} | {delays} | {takes} |\n"
            ),
        );
    }
    text.push('\n');
}

/// Returns the median as text, or a dash.
fn middle(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

const BY_KIND: &str = "\
## By kind

Shares within half a point; medians and 99th percentiles of delays (of a hundred or more) within a quarter of the recorded value; medians of the
distances of turns and delays, and, where each take is recorded, of the distances of a take from the other takes.

| set | CPUs | kernel | shares | medians | p99 | turns | delays | takes |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// Writes, per set, number of CPUs and kernel, in how many cases takes and runs can be told apart.
fn told_apart(text: &mut String, comparisons: &[Comparison]) {
    #[derive(Default)]
    struct Counts {
        cases: usize,
        alike: usize,
        /// Told apart, and each share is within half a point.
        small: usize,
        finds: Vec<f64>,
    }
    let mut rows: BTreeMap<Row<'_>, Counts> = BTreeMap::new();
    for one in comparisons {
        let Some(told) = one.told else { continue };
        let counts = rows.entry(row_of(one)).or_default();
        let is_near = one.figures.iter().filter(|figure| figure.is_share()).all(|figure| figure.error().abs() <= NEAR);
        counts.cases += 1;
        counts.alike += usize::from(!told.is_apart());
        counts.small += usize::from(told.is_apart() && is_near);
        counts.finds.push(told.finds);
    }
    if rows.is_empty() {
        return;
    }
    let alarms = FALSE_ALARMS * 100.0;
    put(text, format_args!("{TOLD_APART}{alarms:.0} {TOLD_APART_TABLE}"));
    for ((set, cpus, _, kernel), Counts { cases, alike, small, finds }) in rows {
        let finds = middle(finds);
        put(text, format_args!("| {set} | {cpus} | {kernel} | {cases} | {alike} | {small} | {finds} |\n"));
    }
    text.push('\n');
}

const TOLD_APART: &str = "\
## Told apart

Cases with four takes or more and enough runs: whether takes and runs can be told apart by the shares of all tasks together (energy distance, all ways to
name takes, false alarms of ";

const TOLD_APART_TABLE: &str = "\
%).

* *not*: cases in which they cannot;
* *by less*: cases in which they can, with each share within half a point;
* *finds*: the shift, in points, that would be found in nine of ten cases (3.25 standard deviations of four takes and eight runs): the median of the cases.

Of four older takes only the mean, the least and the most are recorded; the middle two count as equal.

| set | CPUs | kernel | cases | not | by less | finds |
|---|--:|--:|--:|--:|--:|--:|
";

/// Writes the recorded and the simulated number of moves by kind, of all cases of a set, number of
/// CPUs and kernel together.
fn moves(text: &mut String, comparisons: &[Comparison]) {
    let mut kinds: Vec<&str> = Vec::new();
    let mut rows: BTreeMap<Row<'_>, BTreeMap<&str, [f64; 2]>> = BTreeMap::new();
    for (one, figure) in figures(comparisons) {
        let Some(kind) = figure.name.strip_prefix("moves.") else { continue };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
        let sums = rows.entry(row_of(one)).or_default().entry(kind).or_default();
        sums[0] += figure.recorded.mean;
        sums[1] += figure.ours;
    }
    if rows.is_empty() {
        return;
    }
    text.push_str(MOVES);
    put(text, format_args!("| set | CPUs | kernel | {} |\n", kinds.join(" | ")));
    put(text, format_args!("|---|--:|--:|{}\n", "--:|".repeat(kinds.len())));
    for ((set, cpus, _, kernel), sums) in rows {
        put(text, format_args!("| {set} | {cpus} | {kernel} |"));
        for kind in &kinds {
            let [recorded, ours] = sums.get(kind).copied().unwrap_or_default();
            put(text, format_args!(" {recorded:.0}, {ours:.0} |"));
        }
        text.push('\n');
    }
    text.push('\n');
}

const MOVES: &str = "\
## Moves by kind

Recorded and simulated moves of tasks in the windows of all cases, by the mechanism that made them.

";

/// Returns the recorded kernel: that of the preset, unless the machine's name begins with another
/// one (`7.3-rt, 1 virtual CPU`).
fn series(recording: &Recording) -> String {
    let other = recording.on.split_once(", ").map(|(series, _)| series);
    let other = other.filter(|series| series.starts_with(|first: char| first.is_ascii_digit()));
    other.map_or_else(|| recording.kernel.name(), ToOwned::to_owned)
}

/// Counts of shares.
#[derive(Clone, Copy, Default)]
struct ShareCounts {
    shares: usize,
    /// All takes are near their mean.
    takes: usize,
    /// Our mean is near theirs.
    means: usize,
    /// Our mean is near the takes.
    near: usize,
    /// The percentages of our runs that are near the takes, added up.
    runs: f64,
}

impl ShareCounts {
    fn add(&mut self, figure: &Figure) {
        let recorded = &figure.recorded;
        let is_near = |ours: &f64| recorded.outside(*ours) <= NEAR;
        self.shares += 1;
        self.takes += usize::from(recorded.spread() <= NEAR);
        self.means += usize::from(figure.error().abs() <= NEAR);
        self.near += usize::from(is_near(&figure.ours));
        let runs = figure.runs.iter().filter(|ours| is_near(ours)).count();
        self.runs += 100.0 * runs as f64 / figure.runs.len() as f64;
    }
}

const BESIDE: &str = "\
## Beside the takes

Cases of which there are several takes: shares that are at most half a point

* *takes*: from the mean of all takes, in each take;
* *mean*: from the mean of all takes, in the mean of our runs;
* *near the takes*: below the least or above the most of the takes, in the mean of our runs;
* *runs*: the same, in percent of our runs.

| set | CPUs | kernel | shares | takes | mean | near the takes | runs |
|---|--:|--:|--:|--:|--:|--:|--:|
";

fn figures(comparisons: &[Comparison]) -> impl Iterator<Item = (&Comparison, &Figure)> {
    comparisons.iter().flat_map(|comparison| comparison.figures.iter().map(move |figure| (comparison, figure)))
}

/// Returns the share with the largest error of each recording, the largest first.
fn worst_shares(comparisons: &[Comparison]) -> Vec<(&Comparison, &Figure)> {
    let off = |figure: &Figure| figure.error().abs();
    let worst_of = |comparison| {
        let Comparison { figures, .. }: &Comparison = comparison;
        let shares = figures.iter().filter(|figure| figure.is_share());
        shares.max_by(|one, other| off(one).total_cmp(&off(other))).map(|figure| (comparison, figure))
    };
    let mut worst: Vec<_> = comparisons.iter().filter_map(worst_of).collect();
    worst.sort_by(|(_, one), (_, other)| off(other).total_cmp(&off(one)));
    worst
}

fn values(figure: &Figure) -> [String; 4] {
    let band = figure.allowed();
    [
        number(figure.recorded.mean),
        ours(figure),
        format!("{}{}", if figure.error() < 0.0 { '-' } else { '+' }, number(figure.error().abs())),
        number(band),
    ]
}

/// Returns our value; for several runs the mean and the range.
fn ours(figure: &Figure) -> String {
    let (least, most) = figure.range();
    if least < most {
        format!("{} ({} to {})", number(figure.ours), number(least), number(most))
    } else {
        number(figure.ours)
    }
}

/// Counts are printed as integers, all other values with two decimals.
fn number(value: f64) -> String {
    if value >= 100.0 || value == 0.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn total(comparisons: &[Comparison]) -> String {
    let mut total = Total::default();
    figures(comparisons).for_each(|(_, figure)| total.add(figure));
    let Total { figures, inside, shares, within, worst } = total;
    format!(
        "{inside} of {figures} figures are inside their bands; {within} of {shares} shares are within 1 point (worst: {worst:.2})."
    )
}

/// Counts of figures, and of the shares among them.
#[derive(Clone, Copy, Default)]
struct Total {
    figures: usize,
    inside: usize,
    shares: usize,
    /// Shares of which the error is at most a point.
    within: usize,
    /// The largest error of a share, in points.
    worst: f64,
}

impl Total {
    fn add(&mut self, figure: &Figure) {
        self.figures += 1;
        self.inside += usize::from(figure.is_inside());
        if figure.is_share() {
            let error = figure.error().abs();
            self.shares += 1;
            self.within += usize::from(error <= 1.0);
            self.worst = self.worst.max(error);
        }
    }
}

fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    text.write_fmt(args).expect("a string takes everything");
}
