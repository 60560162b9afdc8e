//! The page of several runs.

use super::tables::conditions;
use super::{About, Shown};
use crate::advise::Advice;
use crate::goals;
use crate::simulation::Plan;
use crate::sweep::Grid;
use zerolag_html::page::{Body, Page, Section};
use zerolag_html::plots::Figure;
use zerolag_report::human::Human;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::Titled;
use zerolag_workload::goal::Goal;

/// Returns the page of a sweep: a plot per figure, with the range over the seeds,
/// and the goals for them. `plan` is that of the first cell.
#[must_use]
pub fn of_grid(grid: &Grid, plan: Option<&Plan>, about: &About) -> String {
    let goals = plan.map(|plan| &*plan.goals).unwrap_or_default();
    let plots = grid.figures.iter().enumerate().filter_map(|(index, figure)| match figure.goal(goals) {
        Some(goal) => grid.plot_with_goal(index, &figure.name, goal),
        None => grid.plot(index, &figure.name),
    });
    let plots: Vec<Plot> = plots.collect();
    let range = plots.first().and_then(range_of).unwrap_or_else(|| format!("{} cells were run.", grid.cells.len()));
    let all = grid.cells.len();
    let judged = grid.figures.iter().enumerate().filter_map(|(index, figure)| {
        let goal = figure.goal(goals)?;
        Some((grid.meeting(index, goal), goal))
    });
    let judged: Vec<(usize, &Goal)> = judged.collect();
    let answer = match &judged[..] {
        [] => range,
        [(met, goal), ..] => format!("{goal} is met with {} in {met} of {all} cells. {range}", grid.seeds_of()),
    };
    let text = match grid.runs {
        1 => format!("One run per point, seed {}.", grid.seed),
        runs => format!("Means of {runs} runs per point; the bands and whiskers are the range over the seeds."),
    };
    let (failed, runs) = grid.failed_of();
    let answer = if failed == 0 { answer } else { format!("{failed} of {runs} runs failed. The others: {answer}") };
    let figures = Section::new(
        "Figures",
        &format!("A row per cell: {}.", grid.seeds_text()),
        Body::Table(grid.table().to_rows()),
    );
    let reasons = || Section::new("Failed runs", "They have no figures.", Body::Table(grid.failed_table().to_rows()));
    let mut sections: Vec<Section> = plots_section(plots, &text).into_iter().chain([figures]).collect();
    sections.extend((failed > 0).then(reasons));
    match plan {
        // What the cells have in common, and the first one's values of the axes.
        Some(plan) => sections.extend(conditions(about, &plan.meta(), Some(plan))),
        None => sections.push(command(about)),
    }
    Page { title: about.title.clone(), answer, goals: grid.judged(goals), sections, ..Page::default() }.to_html()
}

/// Returns the page of figures without a timeline: an answer, plots and tables.
#[must_use]
pub fn of_figures(shown: Shown, about: &About) -> String {
    of_plots(shown.answer, shown.plots, &shown.note, shown.tables.iter().map(titled).collect(), about)
}

/// Returns a table as a section.
pub(super) fn titled(table: &Titled) -> Section {
    Section::new(&table.title, &table.text, Body::Table(table.table.to_rows()))
}

/// Returns the page of advice: the figure of each alternative next to its goal.
#[must_use]
pub fn of_advice(advice: &Advice, about: &About) -> String {
    // The table has the values: longer names would leave no room for each other.
    let names: Vec<&str> = advice.alternatives.iter().map(|alternative| alternative.change.name()).collect();
    let plot = |(at, goal): (usize, &Goal)| {
        let (unit, scale) = goals::drawn(goal.figure.unit());
        let figures = advice.alternatives.iter().enumerate().filter_map(|(place, alternative)| {
            let figure = alternative.judged.worst().get(at)?.figure?;
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
    of_plots(advice.ticket(), plots, note, vec![titled(&advice.titled())], about)
}

fn of_plots(answer: String, plots: Vec<Plot>, note: &str, tables: Vec<Section>, about: &About) -> String {
    let sections = plots_section(plots, note).into_iter().chain(tables).chain([command(about)]).collect();
    Page { title: about.title.clone(), answer, sections, ..Page::default() }.to_html()
}

fn plots_section(plots: Vec<Plot>, note: &str) -> Option<Section> {
    let figures: Vec<Figure> = plots.into_iter().map(Figure::of).collect();
    (!figures.is_empty()).then(|| Section::new("Plots", note, Body::Figures(figures)))
}

/// Returns where a page without a run comes from.
fn command(about: &About) -> Section {
    let facts = vec![
        ("command".to_owned(), about.command.clone()),
        ("version".to_owned(), format!("zerolag {}", env!("CARGO_PKG_VERSION"))),
    ];
    Section::new("Conditions", "", Body::Facts(facts)).folded()
}

/// Returns the lowest and the highest mean of a plot in one sentence.
fn range_of(plot: &Plot) -> Option<String> {
    // A goal is no mean.
    let means = || plot.series.iter().filter(|series| series.mark == Mark::Line);
    let points = || means().flat_map(|series| series.points.iter().map(move |point| (point.1, &series.name)));
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
