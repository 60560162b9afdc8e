//! The page of one run.

use super::several::titled;
use super::tables::{conditions, figures};
use super::{About, Pictured, Shown};
use crate::explanation::{Answer, Change};
use crate::goals::{ONE_SEED, Verdict as Goal};
use crate::simulation::{Plan, RunResult, verdicts};
use std::cmp::Ordering;
use zerolag_check::Report;
use zerolag_html::page::{Body, First, Page, Section, Verdict};
use zerolag_html::plots::{Figure, Target, distributions, of_counts, over_time};
use zerolag_model::Duration;
use zerolag_report::explain::Explanation;
use zerolag_report::figure::Stat;
use zerolag_report::human::{Human, Percent};
use zerolag_report::requests;
use zerolag_report::{ServiceSummary, Summary};
use zerolag_trace::Meta;
use zerolag_workload::goal::Goal as Wanted;

/// Returns the page of a simulation.
#[must_use]
pub fn of_run(result: &RunResult, plan: &Plan, pictured: &Pictured, about: &About) -> String {
    run_page(result, plan, pictured, about).to_html()
}

/// Returns the page of a simulation that a reader watches and changes: its timeline comes first.
#[must_use]
pub fn of_watched_run(result: &RunResult, plan: &Plan, pictured: &Pictured, about: &About) -> String {
    Page { first: First::Timeline, ..run_page(result, plan, pictured, about) }.to_html()
}

/// Returns the parts of the page of a simulation.
pub(super) fn run_page<'p>(result: &RunResult, plan: &Plan, pictured: &'p Pictured, about: &About) -> Page<'p> {
    let of_run: Vec<(bool, String)> = result.goals().iter().map(|goal| (goal.is_met(), goal_text(goal))).collect();
    let (verdict, answer) = answer(result, pictured);
    let mut page = page_of(pictured, about, &plan.meta(), Some(plan));
    let mut notes = result.limit_lines();
    notes.push(result.ending_line());
    if let Some(exit) = &result.report().outcome.policy_exit {
        notes.push(format!("{exit}; {}", exit.place()).replace('\n', "; "));
    }
    notes.extend(result.refused().lines().map(str::to_owned));
    if let Some(checks) = &result.report().checks {
        notes.push(verdicts::line(checks).trim_end().to_owned());
        if !checks.is_clean() {
            let text = "The rules of scheduling, checked during the run.";
            behind_waits(&mut page, vec![Section::new("Checks", text, Body::Table(verdicts::table(checks).to_rows()))]);
        }
    }
    if result.goals().iter().any(|goal| !goal.is_met()) {
        page.why = pictured.waits.why_missed();
        page.next = about.next_step(result.goals());
    }
    (page.verdict, page.answer, page.goals, page.notes) = (verdict, answer, of_run, notes);
    page
}

/// Returns the goals on percentiles, for plots of distributions.
fn targets(goals: &[Wanted]) -> Vec<Target> {
    let target = |goal: &Wanted| {
        let figure = goal.figure.quantity.row().key;
        let longer = match goal.figure.stat {
            Stat::Quantile(millionths) => 100.0 - f64::from(millionths) / 1e4,
            Stat::Max => 0.0,
            _ => return None,
        };
        let says = goal.text.trim_start_matches(figure).trim_start_matches('.').to_owned();
        (!goal.wants_more()).then_some(Target { figure, says, at: goal.value as f64, longer })
    };
    goals.iter().filter_map(target).collect()
}

/// Returns the page of a trace, with the verdicts of the monitors if they judged it.
#[must_use]
pub fn of_trace(pictured: &Pictured, checks: Option<&Report>, about: &About) -> String {
    trace_page(pictured, checks, about).to_html()
}

/// Returns the parts of the page of a trace.
pub(super) fn trace_page<'p>(pictured: &'p Pictured, checks: Option<&Report>, about: &About) -> Page<'p> {
    let mut page = page_of(pictured, about, &pictured.summary.meta, None);
    page.answer = what_was(&pictured.summary, &pictured.waits);
    if let Some(checks) = checks {
        if checks.faults().is_none() {
            page.verdict = Verdict::Missed;
            page.answer = format!("The trace breaks rules of scheduling. {}", page.answer);
        }
        page.notes.push(verdicts::line(checks).trim_end().to_owned());
        page.notes.extend(checks.unseen.map(|unseen| unseen.to_string()));
        let text = "The rules of scheduling, checked against the trace, with the parts that a rule could not judge.";
        behind_waits(&mut page, vec![Section::new("Checks", text, Body::Table(verdicts::table(checks).to_rows()))]);
    }
    page
}

/// Adds sections behind the waits, before the tables of the run.
fn behind_waits(page: &mut Page<'_>, sections: Vec<Section>) {
    let at = page.sections.iter().position(|section| matches!(section.body, Body::Waits)).map_or(0, |at| at + 1);
    page.sections.splice(at..at, sections);
}

/// Returns the page of a tool's run: the tool's figures before those of the run.
#[must_use]
pub fn of_tool(shown: Shown, plan: &Plan, pictured: &Pictured, about: &About) -> String {
    let mut page = page_of(pictured, about, &plan.meta(), Some(plan));
    page.notes = vec![what_was(&pictured.summary, &pictured.waits)];
    page.answer = shown.answer;
    let mut figures = of_counts(&shown.title, &shown.distributions);
    figures.extend(shown.plots.into_iter().map(Figure::of));
    if !figures.is_empty() {
        page.sections.insert(0, Section::new("Figures", "", Body::Figures(figures)));
    }
    behind_waits(&mut page, shown.tables.iter().map(titled).collect());
    page.to_html()
}

/// Returns the page of explained waits: of a run or a trace and, if there was a change, of the run
/// with it.
#[must_use]
pub fn of_explanation(answer: &Answer, first: &Pictured, changed: Option<&Pictured>, about: &About) -> String {
    let mut page = page_of(first, about, &first.summary.meta, None);
    // The waits that were asked for, instead of those of all tasks.
    page.runs[0].waits = &answer.found;
    // The causes first, then what they did to the run.
    let waits = page.sections.iter().position(|section| matches!(section.body, Body::Waits)).unwrap_or_default();
    page.sections[..=waits].rotate_right(1);
    let what = what_was(&first.summary, &answer.found);
    page.answer = answer.found.summary.mostly("waits").map_or_else(|| what.clone(), |mostly| format!("{mostly}."));
    page.notes.insert(0, what);
    if let (Some((change, after)), Some(changed)) = (&answer.changed, changed) {
        let longest = |of: &Explanation| {
            of.waits.first().map_or_else(|| "none".to_owned(), |wait| Human(wait.length()).to_string())
        };
        let (is, was) = (longest(after), longest(&answer.found));
        let all = |of: &Explanation| Human(of.summary.total).to_string();
        // A change can shorten all waits but the longest one, so both are in the answer.
        page.answer = format!(
            "With {} all waits together take {} instead of {}; the longest takes {is} instead of {was}.",
            change.name,
            all(after),
            all(&answer.found)
        );
        page.notes.extend(latencies(&first.summary, &changed.summary));
        "as it is".clone_into(&mut page.runs[0].name);
        let mut run = changed.run(change.name.clone());
        run.waits = after;
        page.runs.push(run);
        let overlaid = distributions(&[("as it is", &first.buckets), (&change.name, &changed.buckets)], &[]);
        if let Some(latency) = page.sections.iter_mut().find(|section| section.title == LATENCY) {
            latency.body = Body::Figures(overlaid);
        }
        let text = "Waiting times without and with the change; the causes by their difference, the largest first.";
        page.sections.insert(0, Section::new("Difference", text, Body::Table(differences(answer, &change.name))));
    }
    page.to_html()
}

/// Returns what a change did to the requests of each service.
fn latencies(before: &Summary, after: &Summary) -> Vec<String> {
    let of = |service: &ServiceSummary| service.latency.as_ref().map(|times| times.p99);
    let line = |was: &ServiceSummary| {
        let is = after.services.iter().find(|service| service.name == was.name)?;
        Some(format!(
            "99 of 100 requests of {} take at most {} instead of {}.",
            was.name,
            Human(of(is)?),
            Human(of(was)?)
        ))
    };
    before.services.iter().filter_map(line).collect()
}

/// Returns the times that a change made longer or shorter.
fn differences(answer: &Answer, change: &str) -> Vec<Vec<String>> {
    let mut rows = vec![["time", "as it is", &format!("with {change}"), "change"].map(str::to_owned).to_vec()];
    rows.extend(answer.changes().into_iter().map(|Change { was, is, what }| {
        let by = if was > is { was - is } else { is - was };
        let change = match was.cmp(&is) {
            Ordering::Greater => format!("-{}", Human(by)),
            Ordering::Equal => "-".to_owned(),
            Ordering::Less => format!("+{}", Human(by)),
        };
        vec![what, Human(was).to_string(), Human(is).to_string(), change]
    }));
    rows
}

const LATENCY: &str = "Latency";

/// Returns the parts that the page of every run has.
fn page_of<'p>(pictured: &'p Pictured, about: &About, meta: &Meta, plan: Option<&Plan>) -> Page<'p> {
    let targets = targets(plan.map(|plan| &*plan.goals).unwrap_or_default());
    let latency = distributions(&[("", &pictured.buckets)], &targets);
    let mut sections = Vec::new();
    if !latency.is_empty() {
        sections.push(Section::new(LATENCY, "", Body::Figures(latency)));
    }
    let load = over_time(&pictured.timeline, &pictured.summary);
    sections.push(Section::new("Load over time", "", Body::Figures(load)));
    sections.extend([Section::timeline(), Section::waits()]);
    if !pictured.requests.is_empty() {
        let text = "By their messages: from the send of a request until its answer is sent, and until the client has received it.";
        sections.push(Section::new("Requests", text, Body::Table(requests::table(&pictured.requests).to_rows())));
    }
    sections.extend(figures(&pictured.summary));
    sections.extend(conditions(about, meta, plan));
    // What a recording lacks is said beside the answer, whichever command shows it.
    let missing = pictured.summary.missing().map(|missing| capital(&missing.replace('`', "")));
    let recorded = &pictured.summary.meta.recorded;
    let skipped = recorded.skipped.iter().map(|skipped| capital(&skipped.to_string()));
    let notes = missing.into_iter().chain(recorded.dropped.clone()).chain(skipped).collect();
    Page { title: about.title.clone(), notes, sections, runs: vec![pictured.run("run".to_owned())], ..Page::default() }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn goal_text(goal: &Goal) -> String {
    // The page shows the verdict before it.
    format!("{goal} ({ONE_SEED})")
}

/// Returns the answer in one sentence.
fn answer(result: &RunResult, pictured: &Pictured) -> (Verdict, String) {
    let report = result.report();
    let what = what_was(result.summary(), &pictured.waits);
    if !report.outcome.why.is_ok() {
        let why = report.outcome.why.to_string();
        return (Verdict::Missed, format!("The run failed: {}.", why.lines().next().unwrap_or_default()));
    }
    if report.checks.as_ref().is_some_and(|checks| !checks.is_clean() && checks.faults().is_none()) {
        return (Verdict::Missed, format!("The run breaks rules of scheduling. {what}"));
    }
    if let Some(exit) = report.outcome.policy_exit.as_ref().filter(|exit| exit.kind.is_error()) {
        let (policy, reason, at) = (&exit.policy, exit.kind.reason(), exit.at);
        let says = format!(
            "The scheduler {policy} was unloaded at {at} ({reason}: {}), and the run went on with fair tasks.",
            exit.msg
        );
        return (Verdict::Missed, says);
    }
    let goals = result.goals();
    let missed: Vec<&Goal> = goals.iter().filter(|goal| !goal.is_met()).collect();
    match (goals.len(), &missed[..]) {
        (0, _) => (Verdict::None, what),
        (1, []) => (
            Verdict::Met,
            format!("With this seed the goal {} is met: it is {}.", goals[0].goal, goals[0].figure_text()),
        ),
        (all, []) => (Verdict::Met, format!("With this seed all {all} goals are met. {what}")),
        (1, [goal]) => {
            (Verdict::Missed, format!("With this seed the goal {} is missed: it is {}.", goal.goal, goal.figure_text()))
        }
        (all, [goal, ..]) => {
            let count = missed.len();
            let (goal, figure) = (&goal.goal, goal.figure_text());
            (
                Verdict::Missed,
                format!(
                    "With this seed {count} of {all} goals {} missed: {goal}, but it is {figure}.",
                    if count == 1 { "is" } else { "are" }
                ),
            )
        }
    }
}

/// Returns what happened, in one sentence.
pub(super) fn what_was(summary: &Summary, waits: &Explanation) -> String {
    let (idle, whole) = summary.idle();
    // What a recording does not show is neither busy nor idle.
    let unseen = summary.cpus.iter().fold(Duration::ZERO, |sum, cpu| sum.saturating_add(cpu.unseen));
    let busy = Percent { part: whole.saturating_sub(idle).saturating_sub(unseen), whole };
    let unseen = match unseen {
        Duration::ZERO => String::new(),
        part => format!(" ({} was not recorded)", Percent { part, whole }),
    };
    let cpus = match summary.cpus.len() {
        1 => "The CPU was".to_owned(),
        n => format!("The {n} CPUs were"),
    };
    let tasks = match summary.tasks.len() {
        1 => "1 task".to_owned(),
        n => format!("{n} tasks"),
    };
    let longest = waits.waits.first().map_or_else(
        || "no task waited".to_owned(),
        |wait| {
            format!(
                "the longest of {} waits was {} ({})",
                waits.summary.count,
                Human(wait.length()),
                waits.name(wait.task)
            )
        },
    );
    format!("{cpus} busy for {busy} of {}{unseen} with {tasks}; {longest}.", Human(summary.elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Simulation, Workload};
    use zerolag_model::TaskId;
    use zerolag_policy::{DsqId, EnqFlags, Ops, Policy, Scx};

    /// Inserts into a queue that does not exist.
    #[derive(Clone)]
    struct Forgetful;

    impl Policy for Forgetful {
        fn ops(&self) -> Ops {
            Ops::named("forgetful")
        }

        fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
            let slice = scx.slice_dfl();
            scx.dsq_insert(p, DsqId(7), slice, flags);
        }
    }

    /// The goals that fair tasks meet are not those of the scheduler that was to be tried.
    #[test]
    fn a_scheduler_that_was_unloaded_is_the_answer() {
        let text = "kernel = '7.3'\nduration = '1s'\ngoals = ['a.wakeup_latency.max <= 1s']\n[machine]\ncpus = 1\n\
                    [task.a]\ninstances = 2\nsteps = [{ run = '1ms' }, { sleep = '1ms' }]\n";
        let prepared = Simulation::new(Workload::toml(text)).policy(|| Forgetful).plan().expect("a plan");
        let mut picture = super::super::Picture::new(&prepared.plan.meta(), &prepared.plan.goals);
        let result = prepared.run_into(&mut picture, |_| std::ops::ControlFlow::Continue(())).expect("it runs");
        let report = result.report();
        let pictured = picture.finish(report.outcome.end, report.summary.clone(), report.histograms.clone());
        let about = About { title: "a".to_owned(), command: "a".to_owned() };
        let page = run_page(&result, &prepared.plan, &pictured, &about);
        assert_eq!(page.verdict, Verdict::Missed);
        assert!(page.answer.starts_with("The scheduler forgetful was unloaded at 0.0"), "{}", page.answer);
        assert!(page.answer.ends_with("and the run went on with fair tasks."), "{}", page.answer);
        let told = page.notes.iter().any(|note| note.contains("non-existent DSQ") && note.contains("ops.enqueue()"));
        assert!(told, "{:?}", page.notes);
    }
}
