//! `zerolag validate --live`: the cases on this host's kernel and in the simulator.

use super::args::{Args, failure};
use crate::failure::eprintln_lossy;
use crate::options;
use crate::output::HtmlArgs;
use crate::progress::{Progress, catch_interrupts, interrupted};
use crate::{Done, code};
use std::ops::ControlFlow;
use zerolag::page::{self, Shown};
use zerolag::report::plot::{Axis, Mark, Plot, Unit};
use zerolag::report::table::{Align, Table, Titled};
use zerolag_lab::validate::Case;
use zerolag_lab::validate::json::live_json;
use zerolag_lab::validate::live::{LiveComparison, LiveFigure, LiveOptions, run_live};

/// Runs the cases.
pub(crate) fn run(args: &Args, cases: &[Case]) -> Done {
    let costs = args.costs.as_deref().map(options::costs).transpose()?;
    let live = LiveOptions { runs: u32::from(args.runs), duration: args.duration, costs };
    catch_interrupts();
    let mut progress = Progress::new(cases.len() as u64, "cases", args.quiet.quiet);
    let mut comparisons = Vec::new();
    for (done, case) in cases.iter().enumerate() {
        if progress.at(done as u64) == ControlFlow::Break(()) {
            break;
        }
        comparisons.extend(run_live(case, &live, &interrupted).map_err(failure)?);
    }
    progress.finish();
    let inside = comparisons.iter().filter(|comparison| comparison.is_inside()).count();
    let answer = format!("{inside} of {} cases on this host are inside their bands.", comparisons.len());
    let about = || HtmlArgs::about("validate --live");
    let table = table(&comparisons);
    args.html.publish(|| {
        let figures = Titled::new("Figures", total(&comparisons), table.clone());
        let shown = Shown { answer, plots: vec![plot(&comparisons)], tables: vec![figures], ..Shown::default() };
        Ok(page::of_figures(shown, &about()))
    })?;
    args.json.publish(|| format!("{table}\n{}\n", total(&comparisons)), || live_json(&comparisons, &live))?;
    if interrupted() {
        return Ok(code::INTERRUPTED);
    }
    for disturbed in
        comparisons.iter().filter(|comparison| comparison.skipped.is_none() && comparison.figures.is_empty())
    {
        let (percent, tenth) = (disturbed.others / 10, disturbed.others % 10);
        let case = &disturbed.case;
        eprintln_lossy(&format!(
            "note: {case}: other programs used {percent}.{tenth}% of the CPUs; nothing was compared"
        ));
    }
    for skipped in comparisons.iter().filter(|comparison| comparison.skipped.is_some()) {
        let why = skipped.skipped.as_deref().unwrap_or_default();
        eprintln_lossy(&format!("note: {} was skipped: {why}", skipped.case));
    }
    Ok(if comparisons.iter().all(LiveComparison::is_inside) { code::OK } else { code::GOAL_MISSED })
}

fn table(comparisons: &[LiveComparison]) -> Table {
    let mut table = Table::new(&[
        ("case", Align::Left),
        ("figure", Align::Left),
        ("host", Align::Right),
        ("from", Align::Right),
        ("to", Align::Right),
        ("ours", Align::Right),
        ("error", Align::Right),
        ("band", Align::Right),
        ("others", Align::Right),
        ("", Align::Left),
    ]);
    for (comparison, figure) in figures(comparisons) {
        let (low, high) = figure.spread();
        table.push([
            comparison.case.clone(),
            figure.name.clone(),
            number(figure.mean()),
            number(low),
            number(high),
            number(figure.ours),
            format!("{}{}", if figure.error() < 0.0 { '-' } else { '+' }, number(figure.error().abs())),
            number(figure.band.of(figure.mean())),
            format!("{}.{}%", comparison.others / 10, comparison.others % 10),
            if figure.is_inside() { String::new() } else { "outside".to_owned() },
        ]);
    }
    table
}

/// Plots the host's shares over the simulated ones, with the range over its runs.
fn plot(comparisons: &[LiveComparison]) -> Plot {
    let shares = figures(comparisons).filter(|(_, figure)| figure.name.starts_with("share."));
    let (points, spread): (Vec<_>, Vec<_>) =
        shares.map(|(_, figure)| ((figure.ours, figure.mean()), figure.spread())).unzip();
    let most = points.iter().flat_map(|(x, y): &(f64, f64)| [*x, *y]).fold(0.0, f64::max);
    let percent = |label: &str| Axis::linear(label, Unit::Percent);
    Plot::new("Shares", percent("simulated share of a CPU"), percent("share of a CPU on this host"))
        .with_spread("this host", Mark::Points, points, spread)
        .with("equal", Mark::Dashed, vec![(0.0, 0.0), (most, most)])
}

fn total(comparisons: &[LiveComparison]) -> String {
    let inside = figures(comparisons).filter(|(_, figure)| figure.is_inside()).count();
    let all = figures(comparisons).count();
    let ran = comparisons.iter().filter(|comparison| comparison.skipped.is_none()).count();
    format!("{inside} of {all} figures of {ran} cases are inside their bands, or the host's own spread.")
}

fn figures(comparisons: &[LiveComparison]) -> impl Iterator<Item = (&LiveComparison, &LiveFigure)> {
    comparisons.iter().flat_map(|comparison| comparison.figures.iter().map(move |figure| (comparison, figure)))
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
