//! Comparisons as text for a terminal and as Markdown for the documentation.

use super::{Comparison, Figure};
use std::fmt::Write;
use zerolag_report::table::{Align, Table};

/// Returns a table of all figures, and the number of figures inside their bands.
#[must_use]
pub fn text(comparisons: &[Comparison]) -> String {
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
            [comparison.name(), comparison.recording.kernel.name().to_owned(), figure.name.clone()]
                .into_iter()
                .chain(values(figure))
                .chain([if figure.is_inside() { String::new() } else { "outside".to_owned() }]),
        );
    }
    let mut text = table.to_string();
    for comparison in comparisons.iter().filter(|comparison| !comparison.is_inside()) {
        if let Some(because) = &comparison.because {
            put(
                &mut text,
                format_args!("\n{} on {}: {because}", comparison.name(), comparison.recording.kernel.name()),
            );
        }
    }
    put(&mut text, format_args!("\n{}\n", total(comparisons)));
    text
}

/// Returns the same as Markdown, with a heading.
#[must_use]
pub fn markdown(comparisons: &[Comparison]) -> String {
    let mut text = String::from(HEAD);
    put(&mut text, format_args!("{}\n\n", total(comparisons)));
    text.push_str("| case | kernel, machine | figure | recorded | simulated | error | band | |\n");
    text.push_str("|---|---|---|--:|--:|--:|--:|---|\n");
    let mut previous = None;
    for (comparison, figure) in figures(comparisons) {
        let recording = &comparison.recording;
        let here = (comparison.name(), recording.kernel, recording.on.as_str());
        let (case, on) = if previous.as_ref() == Some(&here) {
            ("", String::new())
        } else {
            (&*here.0, format!("{}, {}", recording.kernel.name(), here.2))
        };
        let [recorded, ours, error, band] = values(figure);
        let verdict = if figure.is_inside() { "" } else { "**outside**" };
        let row =
            format_args!("| {case} | {on} | {} | {recorded} | {ours} | {error} | {band} | {verdict} |\n", figure.name);
        put(&mut text, row);
        previous = Some(here);
    }
    text.push_str("\n## The three recordings with the largest errors of a share\n\n");
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
    text.push_str("\n## Outside their bands\n\n");
    for comparison in comparisons.iter().filter(|comparison| !comparison.is_inside()) {
        let because = comparison.because.as_deref().unwrap_or("not yet explained.");
        put(&mut text, format_args!("- {}, {}: {because}\n", comparison.name(), comparison.recording.kernel.name()));
    }
    text
}

const HEAD: &str = "\
# Conformance

Recorded kernels compared with simulations of the same workload under that kernel's preset. `zerolag validate --markdown conformance` writes this
page; a test compares it. `conformance/README.md` describes the recordings.

| figure | |
|---|---|
| `share` | CPU time in percent of one CPU; its error in points |
| `used` | CPU time of a group in percent of one CPU |
| `sequence` | edit-distance similarity, in percent, of the recorded and simulated lists of time slices |
| `throttled`, `delay` | in ms; `delay` is the median from wakeup to running |

Two values in brackets are the minimum and maximum of runs with other phases of ticks and balancing, for cases in which microseconds decide which task
moves; the value before them is the mean. The recording is one such run. Bands were declared before the first run and are not widened.

";

fn figures(comparisons: &[Comparison]) -> impl Iterator<Item = (&Comparison, &Figure)> {
    comparisons.iter().flat_map(|comparison| comparison.figures.iter().map(move |figure| (comparison, figure)))
}

/// Returns the share with the largest error of each recording, the largest first.
fn worst_shares(comparisons: &[Comparison]) -> Vec<(&Comparison, &Figure)> {
    let off = |figure: &Figure| figure.error().abs();
    let worst_of = |comparison| {
        let Comparison { figures, .. }: &Comparison = comparison;
        let shares = figures.iter().filter(|figure| figure.name.starts_with("share."));
        shares.max_by(|one, other| off(one).total_cmp(&off(other))).map(|figure| (comparison, figure))
    };
    let mut worst: Vec<_> = comparisons.iter().filter_map(worst_of).collect();
    worst.sort_by(|(_, one), (_, other)| off(other).total_cmp(&off(one)));
    worst
}

fn values(figure: &Figure) -> [String; 4] {
    let band = figure.band.of(figure.recorded);
    [
        number(figure.recorded),
        ours(figure),
        format!("{}{}", if figure.error() < 0.0 { '-' } else { '+' }, number(figure.error().abs())),
        number(band),
    ]
}

/// Returns our value; for several runs the mean and the range.
fn ours(figure: &Figure) -> String {
    let (least, most) = figure.range;
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
    let all = figures(comparisons).count();
    let inside = figures(comparisons).filter(|(_, figure)| figure.is_inside()).count();
    let mut shares: Vec<f64> = figures(comparisons)
        .filter(|(_, figure)| figure.name.starts_with("share."))
        .map(|(_, figure)| figure.error().abs())
        .collect();
    shares.sort_by(f64::total_cmp);
    let within = shares.iter().filter(|error| **error <= 1.0).count();
    let worst = shares.last().copied().unwrap_or(0.0);
    format!(
        "{inside} of {all} figures are inside their bands; {within} of {} shares are within 1 point (worst: {worst:.2}).",
        shares.len()
    )
}

fn put(text: &mut String, args: std::fmt::Arguments<'_>) {
    text.write_fmt(args).expect("a string takes everything");
}
