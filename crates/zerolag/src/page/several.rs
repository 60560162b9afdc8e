//! The page of several runs.

use super::tables::conditions;
use super::{About, Shown};
use crate::advise::Advice;
use crate::goals;
use crate::simulation::Plan;
use crate::sweep::{Grid, SweptFigure};
use std::fmt::Write;
use zerolag_html::page::{Body, Page, Section};
use zerolag_html::plots::Figure;
use zerolag_report::human::Human;
use zerolag_report::plot::{Axis, Mark, Plot, Unit};
use zerolag_report::table::Titled;
use zerolag_workload::goal::Goal;

/// Returns the page of a sweep: which cells meet the goals, a plot per figure with the range over
/// the seeds, and all figures. `plan` is that of the first cell.
#[must_use]
pub fn of_grid(grid: &Grid, plan: Option<&Plan>, about: &About) -> String {
    let goals = plan.map(|plan| &*plan.goals).unwrap_or_default();
    let mut sections = Vec::new();
    if let Some(table) = grid.goals_table(goals) {
        let text = "A cell meets the goals if every run does. The true share of all seeds that miss is below or above \
                    the one shown, with 95 % confidence. The cheapest cell has the least quota, then the least burst.";
        sections.push(Section::new("Goals", text, Body::Table(table.to_rows())));
    }
    // Of a figure that is the same everywhere a plot shows nothing.
    let is_same = |index: usize| {
        let mut values = grid.cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| run.get(index)));
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    let plot = |index: usize, figure: &SweptFigure| match figure.goal(goals) {
        Some(goal) => grid.plot_with_goal(index, &figure.name, goal),
        None => grid.plot(index, &figure.name),
    };
    let all = || grid.figures.iter().enumerate();
    let plots: Vec<Plot> =
        all().filter(|(index, _)| !is_same(*index)).filter_map(|(index, figure)| plot(index, figure)).collect();
    let same: Vec<&str> = all().filter(|(index, _)| is_same(*index)).map(|(_, figure)| &*figure.name).collect();
    let range = plots.first().and_then(range_of).unwrap_or_else(|| format!("{} cells were run.", grid.cells.len()));
    let mut text = match grid.runs {
        1 => format!("One run per point, seed {}.", grid.seed),
        runs => format!("Means of {runs} runs per point; the bands and whiskers are the range over the seeds."),
    };
    if !same.is_empty() {
        write!(text, " The same in all runs: {}.", same.join(", "))
            .expect("invariant: writing to a String cannot fail");
    }
    sections.extend(plots_section(plots, &text));
    let text = format!("A row per cell: {}.", grid.seeds_text());
    sections.push(Section::new("Figures", &text, Body::Table(grid.table().to_rows())));
    let (failed, runs) = grid.failed_of();
    if failed > 0 {
        let reasons = Body::Table(grid.failed_table().to_rows());
        sections.push(Section::new("Failed runs", "They have no figures.", reasons));
    }
    match plan {
        // What the cells have in common, and the first one's values of the axes.
        Some(plan) => sections.extend(conditions(about, &plan.meta(), Some(plan))),
        None => sections.push(command(about)),
    }
    let answer = format!("{}{range}", met(grid, goals));
    let answer = if failed == 0 { answer } else { format!("{failed} of {runs} runs failed. The others: {answer}") };
    Page { title: about.title.clone(), answer, goals: grid.judged(goals), sections, ..Page::default() }.to_html()
}

/// Returns in how many cells the goals are met, and which of them is the cheapest; empty without a
/// goal.
fn met(grid: &Grid, goals: &[Goal]) -> String {
    let judged = grid.goals(goals);
    let meeting = grid.meeting(&judged);
    let says = match &judged[..] {
        [] => return String::new(),
        [(_, goal)] => format!("{goal} is met"),
        several => format!("All {} goals are met", several.len()),
    };
    let cheapest = match grid.cheapest(&meeting)[..] {
        [at, ..] => {
            let values = grid.axes.iter().zip(&grid.cells[at].values);
            let values: Vec<String> = values.map(|(axis, value)| format!("{} {value}", axis.key)).collect();
            format!("; the cheapest of them is {}", values.join(", "))
        }
        [] => String::new(),
    };
    format!("{says} with {} in {} of {} cells{cheapest}. ", grid.seeds_of(), meeting.len(), grid.cells.len())
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

/// Returns the page of advice: what to set, every value that was tried with what its runs say, the
/// figures of each next to its goal, and what would narrow the answer.
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
    let note =
        "The worst run of each alternative, and the goal. An alternative without a value had nothing to measure.";
    let (first, rest) = advice.ticket_parts();
    let mut sections = vec![titled(&advice.titled())];
    sections.extend(plots_section(advice.goals.iter().enumerate().map(plot).collect(), note));
    sections.extend([titled(&advice.narrowing()), command(about)]);
    let (answer, notes) = (first, rest.into_iter().collect());
    let next = advice.settings();
    Page { title: about.title.clone(), answer, next, notes, sections, ..Page::default() }.to_html()
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
