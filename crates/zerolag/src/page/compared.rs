//! The page of a comparison: the figures that differ, then plots of these over all seeds, then the
//! settings that differ.

use super::tables::conditions;
use super::{About, Pictured};
use crate::compare::{ComparedFigure, Comparison, Range, Variant, most_changed};
use crate::error::Error;
use crate::goals;
use crate::simulation::{Checks, Histograms, Observe, Plan};
use crate::sweep::run_until;
use std::ops::ControlFlow;
use zerolag_html::page::{Body, Page, Section};
use zerolag_html::plots::{Figure, distributions, over_seeds};
use zerolag_report::frame::Bucket;
use zerolag_report::plot::{Axis, Mark, Plot};

/// The most plots of distributions, and the most of single figures.
const PLOTS: usize = 4;

/// Runs each variant again with every seed, and returns the page of a comparison: the figures that
/// differ, their plots with the range over the seeds, and a timeline of each with the first seed.
///
/// # Errors
/// The program does not fit the machine.
pub fn of_comparison(compared: &Comparison, variants: &[Variant], about: &About) -> Result<String, Error> {
    let pictured: Vec<Pictured> =
        variants.iter().map(|variant| Pictured::of_plan(&variant.plan)).collect::<Result<_, _>>()?;
    let (changed, all) = (compared.rows.iter().filter(|row| row.has_changed()).count(), compared.rows.len());
    let text = format!(
        "Means of {} with the figures that differ by more than 2 % and by more than seeds do; {} do not.",
        compared.seeds_text(),
        all - changed
    );
    let mut sections = vec![Section::new("Figures", &text, Body::Table(differing(compared)))];
    let plots = plots(compared, variants, &pictured);
    if !plots.is_empty() {
        let text = format!("{}; the bands and whiskers are the range over the seeds.", compared.seeds_text());
        sections.push(Section::new("Plots", &text, Body::Figures(plots)));
    }
    let settings = differing_settings(variants);
    if settings.len() > 1 {
        let text = format!("{} settings differ.", settings.len() - 1);
        sections.push(Section::new("Settings that differ", &text, Body::Table(settings)));
    }
    sections.extend([Section::timeline(), Section::waits()]);
    if let Some(first) = variants.first() {
        sections.extend(conditions(about, &first.plan.meta(), Some(&first.plan)));
    }
    let runs = variants.iter().zip(&pictured).map(|(variant, one)| one.run(variant.label.name.clone())).collect();
    let answer = answer(compared);
    Ok(Page { title: about.title.clone(), answer, sections, runs, ..Page::default() }.to_html())
}

fn answer(compared: &Comparison) -> String {
    let changed = compared.rows.iter().filter(|row| row.has_changed()).count();
    let (first, last) = (compared.variants.first(), compared.variants.last());
    let names =
        first.zip(last).map_or_else(String::new, |(first, last)| format!(" between {} and {}", first.name, last.name));
    if changed == 0 {
        return format!("No figure differs{names} by more than seeds do.");
    }
    let most = most_changed(compared.rows.iter()).and_then(|row| Some((row, row.ends()?)));
    let shown = most.map_or_else(String::new, |(row, (first, last))| {
        let [first, last] = [first, last].map(|range| row.text(Some(range.mean)));
        format!(", most of all {} of {}: {first} and {last}", row.figure.label(), row.owner)
    });
    format!("{changed} of {} figures differ{names} by more than seeds do{shown}.", compared.rows.len())
}

/// Returns the figures that differ, a row each.
fn differing(compared: &Comparison) -> Vec<Vec<String>> {
    let names = compared.variants.iter().map(|label| label.name.clone());
    let head = ["owner", "figure"].map(str::to_owned).into_iter().chain(names).chain(["change".to_owned()]);
    let row = |row: &ComparedFigure| {
        let values = row.values.iter().map(|range| row.text(range.map(|range| range.mean)));
        [row.owner.clone(), row.figure.label()].into_iter().chain(values).chain([compared.change(row)]).collect()
    };
    [head.collect()].into_iter().chain(compared.shown().map(row)).collect()
}

/// Returns the settings that are not the same in all variants, with their meaning, a row each.
fn differing_settings(variants: &[Variant]) -> Vec<Vec<String>> {
    let names = variants.iter().map(|variant| variant.label.name.clone());
    let head = ["setting".to_owned()].into_iter().chain(names).chain(["meaning".to_owned()]).collect();
    let values = |variant: &Variant| variant.plan.config.settings.entries().map(|(_, value)| value).collect::<Vec<_>>();
    let all: Vec<Vec<String>> = variants.iter().map(values).collect();
    let rows = variants.first().into_iter().flat_map(|variant| variant.plan.config.settings.entries()).enumerate();
    let row = |(at, (setting, first)): (usize, (&'static zerolag_model::settings::Setting, String))| {
        let values: Vec<String> = all.iter().map(|values| values[at].clone()).collect();
        let differs = values.iter().any(|value| *value != first);
        differs.then(|| {
            [setting.name.to_owned()].into_iter().chain(values).chain([setting.doc.to_owned()]).collect::<Vec<_>>()
        })
    };
    [head].into_iter().chain(rows.filter_map(row)).collect()
}

/// Returns the plots of what differs: the distributions of latencies, and each other figure by
/// variant. If nothing differs, the distribution of the longest latencies.
fn plots(compared: &Comparison, variants: &[Variant], pictured: &[Pictured]) -> Vec<Figure> {
    let mut latencies: Vec<(&str, &str)> = Vec::new();
    let mut others: Vec<&ComparedFigure> = Vec::new();
    for row in compared.shown() {
        let named = (row.figure.quantity.row().key, &*row.owner);
        match named.0 {
            "request_latency" | "wakeup_latency" if latencies.contains(&named) => {}
            "request_latency" | "wakeup_latency" => latencies.push(named),
            _ => others.push(row),
        }
    }
    if latencies.is_empty() && others.is_empty() {
        let runs: Vec<_> =
            variants.iter().zip(pictured).map(|(variant, one)| (&*variant.label.name, &*one.buckets)).collect();
        return distributions(&runs, &[]);
    }
    latencies.truncate(PLOTS);
    let seeds = if latencies.is_empty() { Vec::new() } else { seeds(variants, compared.runs) };
    let named: Vec<(&str, &[Vec<Bucket>])> =
        variants.iter().zip(&seeds).map(|(variant, seeds)| (&*variant.label.name, &seeds[..])).collect();
    let drawn = latencies.into_iter().filter_map(|(figure, owner)| over_seeds(&named, figure, owner));
    drawn.chain(others.into_iter().take(PLOTS).map(|row| by_variant(compared, row))).collect()
}

/// Runs every variant with every seed and returns the distributions of each run that ends well.
fn seeds(variants: &[Variant], runs: u64) -> Vec<Vec<Vec<Bucket>>> {
    let observe = Observe { checks: Checks::Off, worst_waits: 0, histograms: Histograms::On, ..Observe::default() };
    let of = |variant: &Variant| {
        let plan = |run: u64| variant.plan.clone().with_seed(variant.plan.config.seed.wrapping_add(run));
        let plans: Vec<Plan> = (0..runs).map(plan).collect();
        let found = run_until(&plans, observe, |report| report.histograms.clone(), |_| ControlFlow::Continue(()));
        found.into_iter().flatten().flatten().collect()
    };
    variants.iter().map(of).collect()
}

/// Returns the plot of a figure by variant: its mean, and its range over the seeds.
fn by_variant(compared: &Comparison, row: &ComparedFigure) -> Figure {
    let names: Vec<&str> = compared.variants.iter().map(|label| &*label.name).collect();
    let (unit, scale) = goals::drawn(row.figure.unit());
    let known = || row.values.iter().enumerate().filter_map(|(place, range)| Some((place, (*range)?)));
    let points = known().map(|(place, range)| (place as f64, range.mean * scale)).collect();
    let spread = known().map(|(_, range)| (range.min * scale, range.max * scale)).collect();
    let says = |(place, range): (usize, Range)| {
        let [mean, min, max] = [range.mean, range.min, range.max].map(|value| row.text(Some(value)));
        format!("{} {mean} ({min} to {max})", names[place])
    };
    let says = known().map(says).collect::<Vec<_>>().join("; ");
    let title = format!("{} of {}", row.figure.label(), row.owner);
    let plot = Plot::new(&title, Axis::categories("variant", &names), Axis::linear(&row.figure.label(), unit))
        .with_spread("", Mark::Bars, points, spread);
    Figure { title, says: format!("{says}."), plot }
}
