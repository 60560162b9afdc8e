//! `zerolag run`: a workload on a simulated machine.

use super::args::{Args, write_log};
use crate::failure::{Failure, eprintln_lossy};
use crate::output::{HtmlArgs, Loaded, latencies};
use crate::plan::{prepare, simulation_of};
use crate::progress::{Progress, busy, catch_interrupts};
use crate::tracing::{self, Target};
use crate::{Done, code};
use std::path::Path;
use std::sync::Arc;
use zerolag::RunResult;
use zerolag::explanation::why_missed;
use zerolag::goals::{ONE_SEED, Verdict};
use zerolag::page::{self, Picture};
use zerolag::report::figure::Figure;
use zerolag::report::human::Human;
use zerolag::report::load::Load;
use zerolag::report::plot::terminal::{self, Look};
use zerolag::sim::{End, Wait};
use zerolag::simulation::{Checks, Histograms, Observe, Plan, Prepared, Report, StateTracks};
use zerolag_tools::rtapp_log::Log;
use zerolag_tools::rtapp_marks;

/// Runs the workload.
pub(crate) fn run(args: &Args) -> Done {
    let trace = args.outputs()?;
    let is_quiet = args.run.sim.is_quiet();
    let checks = if args.no_check { Checks::Off } else { Checks::On };
    let look = args.draw.look().filter(|_| !is_quiet && !args.json.takes_stdout());
    let histograms = if args.html.is_wanted() || args.tables.are_wanted() || look.is_some() {
        Histograms::On
    } else {
        Histograms::Off
    };
    let state = if args.state { StateTracks::On } else { StateTracks::Off };
    let observe = Observe { checks, histograms, state, ..Observe::default() };
    let simulation = simulation_of(&args.workload, &args.run)?.observe(observe);
    let mut prepared = prepare(&simulation, is_quiet)?;
    let plan = &mut prepared.plan;
    let mut log = args.rtapp_log.as_ref().map(|_| Log::new(Arc::clone(&plan.program)));
    if log.is_some() || !args.rtapp_marks.is_empty() {
        plan.program = Arc::new(rtapp_marks::instrument(&plan.program, &args.rtapp_marks));
    }
    let shown = args.show.show.iter().filter_map(|name| Figure::parse(name).ok());
    prepared.plan = prepared.plan.measuring(shown.map(|(_, figure)| figure));
    catch_interrupts();
    let mut picture = args.html.is_wanted().then(|| Picture::new(&prepared.plan.meta(), &prepared.plan.goals));
    let mut loaded = look.map(|_| Loaded(Load::new(&prepared.plan.meta())));
    let result = simulate(&prepared, trace, is_quiet, ((log.as_mut(), picture.as_mut()), loaded.as_mut()))?;
    let result = result.showing(&args.show.show).map_err(|error| Failure::of(error, "--show"))?;
    if let (Some(dir), Some(log)) = (&args.rtapp_log, &log) {
        write_log(dir, log)?;
    }
    if let Some(picture) = picture {
        let report = result.report();
        let pictured = picture.finish(report.outcome.end, report.summary.clone(), report.histograms.clone());
        let pictured = pictured.with_state(report.state.clone());
        let about = HtmlArgs::about(args.workload.file.display());
        busy("writing the page", is_quiet, || {
            args.html.publish(|| Ok(page::of_run(&result, &prepared.plan, &pictured, &about)))
        })?;
    }
    let table = |name: &&str| result.table(name).filter(|frame| frame.rows() > 0 || *name == "tasks");
    args.tables.publish(|| RunResult::TABLES.iter().filter_map(table).collect())?;
    let plots = look.zip(loaded).map(|(look, loaded)| plots(result.report(), loaded, look)).unwrap_or_default();
    let text = || if is_quiet { (result.headline(), String::new()) } else { (result.to_string(), plots) };
    args.json.publish_drawn(text, || result.to_json())?;
    for verdict in result.goals() {
        eprintln_lossy(&format!("goal {}", verdict.line(ONE_SEED)));
    }
    if !is_quiet && result.goals().iter().any(|verdict| !verdict.is_met()) {
        say_why(&prepared.plan, &result, &args.workload.file)?;
    }
    Ok(match verdict(&result) {
        code::OK if !result.goals().iter().all(Verdict::is_met) => code::GOAL_MISSED,
        code => code,
    })
}

/// Says why goals are missed: runs the workload again, with its records, if that is short.
fn say_why(plan: &Plan, result: &RunResult, workload: &Path) -> Result<(), Failure> {
    if result.report().summary.switches > AGAIN_MAX {
        eprintln_lossy("why: `zerolag explain` says it, in a run as long as this one");
        return Ok(());
    }
    for why in busy("looking for the reason", false, || why_missed(plan, result.goals()))? {
        eprintln_lossy(&format!("why: {why}"));
    }
    if let Some(next) = HtmlArgs::about(workload.display()).next_step(result.goals()) {
        eprintln_lossy(&format!("what to set: {next}"));
    }
    Ok(())
}

/// The most switches of a run that is repeated to say why: about a second of work.
const AGAIN_MAX: u64 = 1_000_000;

/// Draws the latencies and the load of the CPUs, each after an empty line.
fn plots(report: &Report, loaded: Loaded, look: Look) -> String {
    let (title, lines) = latencies(&report.histograms);
    let drawn = [terminal::latency(title, &lines, look), terminal::load(&loaded.0.finish(report.outcome.end), look)];
    drawn.iter().filter(|plot| !plot.is_empty()).map(|plot| format!("\n{plot}")).collect()
}

/// Reports failures on stderr, and returns the exit code.
fn verdict(result: &RunResult) -> u8 {
    let report = result.report();
    match &report.outcome.why {
        End::Interrupted => {
            eprintln_lossy(&format!("interrupted after {} of simulated time", Human(report.summary.elapsed)));
            return code::INTERRUPTED;
        }
        why if !why.is_ok() => {
            eprintln_lossy(&format!("error: {}", result.why()));
            return code::FAILURE;
        }
        _ => {}
    }
    if !report.outcome.left_waiting.is_empty() {
        eprintln_lossy(&left_waiting(&report.outcome.left_waiting));
    }
    let mut ended = code::OK;
    if let Some(exit) = report.outcome.policy_exit.as_ref().filter(|exit| exit.kind.is_error()) {
        let (policy, reason) = (&exit.policy, exit.kind.reason());
        eprintln_lossy(&format!(
            "error: the scheduler `{policy}` was unloaded ({reason}); the run went on with fair tasks"
        ));
        ended = code::FAILURE;
    }
    let Some(checks) = report.checks.as_ref().filter(|checks| !checks.is_clean()) else { return ended };
    // The user chose a kernel with its faults: that they show is a result, not a failure.
    if let Some(faults) = checks.faults() {
        let faults = faults.join(", ");
        eprintln_lossy(&format!("note: rules of scheduling are broken by faults that this kernel has: {faults}"));
        return ended;
    }
    eprintln_lossy("error: the run breaks rules of scheduling (see `checks`)");
    code::FAILURE
}

/// Lists the tasks that still wait for an event that never came: the run idled to its end.
fn left_waiting(waits: &[Wait]) -> String {
    const LISTED: usize = 10;
    let mut text = "warning: no event will wake these tasks; the run idled to its end".to_owned();
    for wait in waits.iter().take(LISTED) {
        text.push_str(&format!("\n  {wait}"));
    }
    if let Some(more) = waits.len().checked_sub(LISTED).filter(|more| *more > 0) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

/// Runs the simulation, with or without a trace.
fn simulate(
    prepared: &Prepared,
    trace: Option<Target<'_>>,
    is_quiet: bool,
    others: ((Option<&mut Log>, Option<&mut Picture>), Option<&mut Loaded>),
) -> Result<RunResult, Failure> {
    let total = prepared.plan.config.duration.unwrap_or_default().as_nanos() / 1_000_000;
    let mut progress = Progress::new(total, "ms", is_quiet);
    let result = tracing::record(&prepared.plan, trace, |recorder| {
        let mut sink = (recorder, others);
        let result = prepared.run_into(&mut sink, |at| progress.at(at.at.as_nanos() / 1_000_000))?;
        if let Some(history) = &result.report().state {
            sink.0.state(history);
        }
        let end = result.report().outcome.end;
        Ok((result, end))
    });
    progress.finish();
    result
}
