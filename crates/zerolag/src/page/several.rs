//! The page of several runs.

use super::tables::conditions;
use super::{About, Pictured};
use crate::advise::Advice;
use crate::compare::{Comparison, Variant};
use crate::error::Error;
use crate::sweep::Grid;
use zerolag_html::page::{Body, Page, Section};
use zerolag_html::plots::{Figure, distributions};
use zerolag_report::human::Human;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_workload::goal::{Goal, Measure};

/// Runs each variant once more, with its first seed, and returns the page of a comparison:
/// distributions overlaid, and a timeline of each.
///
/// # Errors
/// The program does not fit the machine.
pub fn of_comparison(compared: &Comparison, variants: &[Variant], about: &About) -> Result<String, Error> {
    let pictured: Vec<Pictured> =
        variants.iter().map(|variant| Pictured::of_plan(&variant.plan)).collect::<Result<_, _>>()?;
    let runs: Vec<_> =
        variants.iter().zip(&pictured).map(|(variant, one)| (&*variant.label.name, &*one.buckets)).collect();
    let changed: Vec<_> = compared.rows.iter().filter(|row| row.has_changed()).collect();
    let (first, last) = (compared.variants.first(), compared.variants.last());
    let names =
        first.zip(last).map_or_else(String::new, |(first, last)| format!(" between {} and {}", first.name, last.name));
    let answer = match &changed[..] {
        [] => format!("No figure differs{names} by more than seeds do."),
        [row, ..] => {
            let values = row.values.first().zip(row.values.last());
            let shown = values.map_or_else(String::new, |(first, last)| {
                let text = |value: f64| crate::compare::value(row.unit, value);
                format!(", for example {} of {}: {} and {}", row.figure, row.owner, text(first.mean), text(last.mean))
            });
            format!("{} of {} figures differ{names} by more than seeds do{shown}.", changed.len(), compared.rows.len())
        }
    };
    let latency = distributions(&runs);
    let seeds = format!("Runs with seed {}.", compared.seed);
    let mut sections = Vec::new();
    if !latency.is_empty() {
        sections.push(Section::new("Latency", &seeds, Body::Figures(latency)));
    }
    let mut details = vec![Section::new(
        "Figures",
        "Means of all runs; `!` marks differences that exceed those between seeds.",
        Body::Text(compared.to_string()),
    )];
    if let Some(first) = variants.first() {
        details.extend(conditions(about, &first.plan.meta(), Some(&first.plan)));
    }
    let runs = variants.iter().zip(&pictured).map(|(variant, one)| one.run(variant.label.name.clone())).collect();
    Ok(Page { title: about.title.clone(), answer, sections, runs, details, ..Page::default() }.to_html())
}

/// Returns the page of a sweep: a plot per figure, with the range over the seeds.
#[must_use]
pub fn of_grid(grid: &Grid, about: &About) -> String {
    let plots = grid.figures.iter().enumerate().filter_map(|(index, figure)| grid.plot(index, &figure.name));
    let plots: Vec<Plot> = plots.collect();
    let answer = plots.first().and_then(range_of).unwrap_or_else(|| format!("{} cells were run.", grid.cells.len()));
    let text = match grid.runs {
        1 => format!("One run per point, seed {}.", grid.seed),
        runs => format!("Means of {runs} runs per point; the bands and whiskers are the range over the seeds."),
    };
    of_plots(answer, plots, &text, &grid.to_string(), about)
}

/// Returns the page of advice: the figure of each alternative next to its goal.
#[must_use]
pub fn of_advice(advice: &Advice, about: &About) -> String {
    // The table has the values: longer names would leave no room for each other.
    let names: Vec<&str> = advice.alternatives.iter().map(|alternative| alternative.change.name()).collect();
    let plot = |(at, goal): (usize, &Goal)| {
        let (unit, scale) = match goal.metric.measure() {
            Measure::Time => (Unit::Nanos, 1.0),
            Measure::Count => (Unit::Number, 1.0),
            Measure::Share => (Unit::Percent, 1e-4),
        };
        let figures = advice.alternatives.iter().enumerate().filter_map(|(place, alternative)| {
            let figure = alternative.searched.worst.get(at)?.figure?;
            Some((place as f64, figure as f64 * scale))
        });
        let goal_line = (0..names.len()).map(|place| (place as f64, goal.value as f64 * scale)).collect();
        Plot::new(&goal.text, Axis::categories("alternative", &names), Axis::linear("worst run", unit))
            .with("worst run", Mark::Points, figures.collect())
            .with("goal", Mark::Dashed, goal_line)
    };
    let plots = advice.goals.iter().enumerate().map(plot).collect();
    let note =
        "The worst run of each alternative, and the goal. An alternative without a value had nothing to measure.";
    of_plots(advice.ticket(), plots, note, &advice.to_string(), about)
}

/// Returns the page of a tool that prints text and has plots.
#[must_use]
pub fn of_text(answer: &str, plots: Vec<Plot>, text: &str, about: &About) -> String {
    of_plots(answer.to_owned(), plots, "", text, about)
}

fn of_plots(answer: String, plots: Vec<Plot>, note: &str, text: &str, about: &About) -> String {
    let mut sections = Vec::new();
    if !plots.is_empty() {
        sections.push(Section::new("Plots", note, Body::Figures(plots.into_iter().map(Figure::of).collect())));
    }
    let facts = vec![
        ("command".to_owned(), about.command.clone()),
        ("version".to_owned(), format!("zerolag {}", env!("CARGO_PKG_VERSION"))),
    ];
    let details = vec![
        Section::new("Figures", "", Body::Text(text.to_owned())),
        Section::new("Conditions", "", Body::Facts(facts)),
    ];
    Page { title: about.title.clone(), answer, sections, details, ..Page::default() }.to_html()
}

/// Returns the lowest and the highest mean of a plot in one sentence.
fn range_of(plot: &Plot) -> Option<String> {
    let points =
        || plot.series.iter().flat_map(|series| series.points.iter().map(move |point| (point.1, &series.name)));
    let low = points().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let high = points().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = |value: f64| match plot.y.unit {
        // The conversion saturates.
        Unit::Nanos => Human(zerolag_model::Duration::from_nanos(value as u64)).to_string(),
        Unit::Percent => format!("{value:.1}%"),
        Unit::Number => format!("{}", (value * 100.0).round() / 100.0),
    };
    let of = |name: &str| if name.is_empty() { String::new() } else { format!(" ({name})") };
    if text(low.0) == text(high.0) {
        return Some(format!("{} is {} everywhere.", plot.y.label, text(low.0)));
    }
    Some(format!("{} is between {}{} and {}{}.", plot.y.label, text(low.0), of(low.1), text(high.0), of(high.1)))
}
