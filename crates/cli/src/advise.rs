//! `zerolag advise`: what to set for a stated goal.

use super::failure::{Failure, eprintln_lossy};
use super::import::{FormArgs, GroupArgs};
use super::options::{RuleArgs, RunArgs, WorkloadArgs, share};
use super::output::{HtmlArgs, JsonArgs};
use super::plan::{notes, simulation_of_workload};
use super::progress::{Progress, catch_interrupts, say_interrupted};
use super::{Done, code, input};
use std::path::{Path, PathBuf};
use zerolag::advise::budget::{BudgetAdvice, advise_budget};
use zerolag::advise::counters::{demand, demand_since_creation};
use zerolag::advise::samples::Samples;
use zerolag::advise::{Question, advise};
use zerolag::import::{self, Form};
use zerolag::limit;
use zerolag::model::CpuMax;
use zerolag::page::{self, Shown};
use zerolag::trace::Trace;
use zerolag::{Error, Workload};

/// Arguments of `zerolag advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  zerolag advise examples/web-service-limit.toml --goal 'p99 <= 40ms'
  zerolag advise perf.data --group nginx=/web --limit '/web=50000 100000' --goal 'nginx.request_latency.p99 <= 5ms'
  zerolag advise cpu.stat.log --now '200000 100000' --throttled 1%
  zerolag advise usage.csv periods.csv throttled.csv --now 2 --throttled 1%")]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// More files of counters, put together by their time
    #[arg(value_name = "FILE")]
    more: Vec<PathBuf>,
    /// A goal, as in scenarios; `p99 <= 40ms` is that of requests; may be repeated [default: the
    /// workload's]
    #[arg(long = "goal", value_name = "GOAL")]
    goals: Vec<String>,
    /// Seeds of a search; what it finds is judged by others [default: 41 with a risk of 5 %]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: Option<u64>,
    #[command(flatten)]
    rule: RuleArgs,
    /// The group whose limit is to be chosen, if there are several
    #[arg(long = "of", value_name = "/PATH")]
    of: Option<String>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    groups: GroupArgs,
    /// The present limit (counters only): `200000 100000`, `2`, `750m` or `75%`
    #[arg(long, value_name = "LIMIT", value_parser = limit::read)]
    now: Option<CpuMax>,
    /// The age of the group in seconds (one `cpu.stat` without a time) [default: its active
    /// periods]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    over: Option<f64>,
    /// The share of periods that may be throttled (counters only)
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = share)]
    throttled: f64,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    html: HtmlArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// Reads a time in seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('s').parse::<f64>();
    number.ok().filter(|number| (1e-3..1e11).contains(number)).ok_or_else(|| "expected seconds, as in 86400".to_owned())
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.html.check()?;
    let path = &args.workload.file;
    let head = if path == Path::new("-") { Vec::new() } else { input::head(path)? };
    if input::is_counters(path, &head) {
        return of_counters(args);
    }
    if let Some(more) = args.more.first() {
        return Err(Failure::input_help(
            format!("`{}`: there is one workload", more.display()),
            "several files are read only if they hold counters",
        ));
    }
    if args.now.is_some() {
        return Err(Failure::input_help(
            "--now is for counters; a workload has its limits in it",
            "leave it out, or give --set cpu.max=",
        ));
    }
    let workload = if zerolag::trace::is_trace(&head) {
        of_trace(args)?
    } else {
        if let Some(option) = args.form.given().or(args.groups.given()) {
            return Err(Failure::input_help(
                format!("{option} is for traces"),
                "a workload has its groups and its form in it; --set changes limits",
            ));
        }
        args.workload.workload()?
    };
    let prepared = simulation_of_workload(workload, &args.run)?.plan()?;
    if !args.run.sim.is_quiet() {
        notes(&prepared);
    }
    let question = Question {
        goals: args.goals.clone(),
        rule: args.rule.rule(args.seeds)?,
        group: args.of.clone(),
        base_error: None,
    };
    catch_interrupts();
    let mut progress =
        Progress::new(40 * question.rule.search() + 15 * question.rule.needs(), "runs or so", args.run.sim.is_quiet());
    let budget = advise_budget(&prepared.plan, &question, |done| progress.at(done as u64));
    if let Some(found) = budget.transpose() {
        progress.finish();
        return of_budget(args, found);
    }
    let advice = advise(&prepared.plan, &question, |done| progress.at(done as u64));
    progress.finish();
    let advice = match advice {
        Err(Error::Interrupted) => return Ok(say_interrupted()),
        advice => advice.map_err(|error| Failure::of(error, "--goal"))?,
    };
    args.html.publish(|| Ok(page::of_advice(&advice, &HtmlArgs::about(path.display()))))?;
    args.json.publish(|| advice.to_string(), || format!("{:#}\n", advice.to_json()))?;
    Ok(if advice.choice.is_some() { code::OK } else { code::GOAL_MISSED })
}

/// Shows what to set of a group with a real-time budget.
fn of_budget(args: &Args, found: Result<BudgetAdvice, Error>) -> Done {
    let found = match found {
        Err(Error::Interrupted) => return Ok(say_interrupted()),
        found => found.map_err(|error| Failure::of(error, "--goal"))?,
    };
    let about = || HtmlArgs::about(args.workload.file.display());
    let tables = || vec![found.search.titled()];
    let shown = || Shown { answer: found.ticket(), plots: found.search.plots(), tables: tables(), ..Shown::default() };
    args.html.publish(|| Ok(page::of_figures(shown(), &about())))?;
    args.json.publish(|| found.to_string(), || format!("{:#}\n", found.to_json()))?;
    Ok(if found.simulated().is_some() { code::OK } else { code::GOAL_MISSED })
}

fn of_counters(args: &Args) -> Done {
    let mut samples = Samples::default();
    for path in std::iter::once(&args.workload.file).chain(&args.more) {
        let bytes = std::fs::read(path).map_err(|error| Failure::reading(path.display(), &error))?;
        samples.read(&path.display().to_string(), &bytes)?;
    }
    if !args.goals.is_empty() {
        return Err(Failure::input_help(
            "--goal needs a workload or a trace: counters of a limit know no latencies",
            "give --throttled 1%: the share of periods that may be throttled",
        ));
    }
    let Some(now) = args.now else {
        return Err(Failure::input_help(
            "counters do not say the limit",
            "give the present one, as in --now '200000 100000' or --now 2",
        ));
    };
    let cpus = args.run.sim.machine.topology().map(|machine| u32::try_from(machine.nr_cpus()).unwrap_or(u32::MAX));
    let found = match demand_since_creation(&samples, args.over, now, cpus, args.throttled)? {
        Some(found) => found,
        None => demand(&samples.all(), now, cpus, args.throttled)?,
    };
    let about = || HtmlArgs::about(args.workload.file.display());
    let shown = || Shown { answer: found.ticket(), plots: found.plots(), tables: found.titled(), ..Shown::default() };
    args.html.publish(|| Ok(page::of_figures(shown(), &about())))?;
    args.json.publish(|| found.to_string(), || format!("{:#}\n", found.to_json()))?;
    Ok(code::OK)
}

/// Imports a trace.
fn of_trace(args: &Args) -> Result<Workload, Failure> {
    let path = &args.workload.file;
    let trace: Trace = input::trace(path)?;
    let usual = if zerolag::goals::are_of_requests(&args.goals) { Form::Fitted } else { Form::Exact };
    let options = args.form.options(args.groups.options(args.run.kernel.kernel)?, usual)?;
    let (scenario, base) = import::to_advise(&trace, &path.display().to_string(), &options)?;
    if !args.run.sim.is_quiet() {
        eprintln_lossy(base.to_string().trim_end());
    }
    Ok(Workload::text("import.toml", scenario.as_bytes()))
}
