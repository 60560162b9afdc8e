//! `zerolag explain`: explains the longest waits as chains of causes that add up to them.

use super::failure::Failure;
use super::options::{self, RunArgs, WorkloadArgs};
use super::output::{HtmlArgs, JsonArgs, TableArgs};
use super::plan::{prepare, simulation_of};
use super::progress::busy;
use super::{Done, code, input, output};
use std::path::{Path, PathBuf};
use zerolag::explanation::{Answer, bounds, record};
use zerolag::page::{self, About, Pictured};
use zerolag::report::explain::{Explained, Explanation, Options};
use zerolag::trace::Trace;
use zerolag::trace::perfetto::PerfettoWriter;

/// Arguments of `zerolag explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    /// Only tasks whose name starts with NAME [default: all]
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Number of longest waits to explain
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    worst: u16,
    /// Run again with one setting changed, and show the difference per cause (workloads only)
    #[arg(long, value_name = "KEY=VALUE", value_parser = options::setting)]
    what_if: Option<(String, String)>,
    /// Write a trace for the Perfetto viewer, with the reasons of these waits next to each task's
    /// track
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    html: HtmlArgs,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.html.check()?;
    args.table.check()?;
    if let Some(path) = &args.perfetto {
        output::check_target(path)?;
    }
    let options = Options { worst: usize::from(args.worst), task: args.task.clone(), ..Options::default() };
    let is_quiet = args.run.sim.is_quiet();
    let answer = match busy("reading the trace", is_quiet, || as_trace(args))? {
        Some(trace) => {
            if args.what_if.is_some() {
                return Err(Failure::input("--what-if needs a workload: a trace cannot be run again"));
            }
            let answer = busy("explaining", is_quiet, || Answer::of_trace(&trace, options));
            args.html.publish(|| Ok(page::of_explanation(&answer, &Pictured::of(&trace), None, &about(args))))?;
            if let Some(path) = &args.perfetto {
                mark(path, &trace, &answer.found)?;
            }
            answer
        }
        None => busy("running and explaining", is_quiet, || of_workload(args, &options))?,
    };
    args.table.publish(|| answer.frame())?;
    args.json.publish(|| answer.to_string(), || format!("{:#}\n", answer.to_json()))?;
    Ok(code::OK)
}

fn of_workload(args: &Args, options: &Options) -> Result<Answer, Failure> {
    let simulation = simulation_of(&args.workload, &args.run)?;
    let prepared = prepare(&simulation, args.run.sim.is_quiet())?;
    let answer = match &args.perfetto {
        None => Answer::of(&prepared, options.clone())?,
        Some(path) => {
            let trace = record(&prepared.plan)?;
            let bounds = bounds(&prepared.plan.goals);
            let answer = Answer::of_trace(&trace, Options { bounds, ..options.clone() });
            mark(path, &trace, &answer.found)?;
            Answer { seed: Some(prepared.plan.config.seed), ..answer }
        }
    };
    let change = args.what_if.as_ref().map(|(key, value)| {
        let changed = simulation.set(key, value).plan().map_err(|error| Failure::of(error, "--what-if"))?;
        Ok::<_, Failure>((key, value, changed))
    });
    let change = change.transpose()?;
    let answer = match &change {
        Some((key, value, changed)) => answer.what_if(key, value, changed, options.clone())?,
        None => answer,
    };
    args.html.publish(|| {
        let first = Pictured::of_plan(&prepared.plan)?;
        let changed = change.as_ref().map(|(_, _, changed)| Pictured::of_plan(&changed.plan)).transpose()?;
        Ok(page::of_explanation(&answer, &first, changed.as_ref(), &about(args)))
    })?;
    Ok(answer)
}

fn about(args: &Args) -> About {
    HtmlArgs::about(args.workload.file.display())
}

/// Reads the input as a trace, if it is one.
fn as_trace(args: &Args) -> Result<Option<Trace>, Failure> {
    let path = &args.workload.file;
    if input::is_workload(path) {
        return Ok(None);
    }
    input::trace(path).map(Some)
}

/// Writes a trace for the viewer with the reasons of waits.
fn mark(path: &Path, trace: &Trace, found: &Explanation) -> Result<(), Failure> {
    output::write_file(path, |out| {
        let mut writer = PerfettoWriter::new(out, &trace.meta)?;
        trace.records.iter().try_for_each(|record| writer.push(record))?;
        let mut waits: Vec<&Explained> = found.waits.iter().collect();
        waits.sort_by_key(|wait| (wait.task, wait.from));
        for wait in waits {
            let steps: Vec<_> = wait.steps.iter().map(|(at, chain)| (*at, found.clause(chain))).collect();
            writer.reasons(wait.task, &steps, wait.to)?;
        }
        writer.finish(trace.meta.end)
    })
}
