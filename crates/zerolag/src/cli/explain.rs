//! `zerolag explain`: explains the longest waits as chains of causes that add up to them.

use super::failure::Failure;
use super::options::{self, RunArgs, WorkloadArgs};
use super::output::JsonArgs;
use super::plan::plan_of;
use super::{Done, code, output};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use zerolag::model::{Duration, Record};
use zerolag::report::explain::{Explained, Explainer, Explanation, Options, explain};
use zerolag::report::human::Human;
use zerolag::sim::{Sink, Tracing};
use zerolag::simulation::Plan;
use zerolag::trace::Trace;
use zerolag::trace::perfetto::PerfettoWriter;
use zerolag::variant::{self, Label};

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
    run: RunArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    if let Some(path) = &args.perfetto {
        output::check_target(path)?;
    }
    let options = || Options { worst: usize::from(args.worst), task: args.task.clone() };
    if let Some(trace) = as_trace(args)? {
        if args.what_if.is_some() {
            return Err(Failure::input("--what-if needs a workload: a trace cannot be run again"));
        }
        let found = explain(&trace, options());
        if let Some(path) = &args.perfetto {
            mark(path, &trace, &found)?;
        }
        return print(args, &found, None, None);
    }
    let plan = plan_of(&args.workload, &args.run)?;
    let seed = plan.config.seed;
    let found = match &args.perfetto {
        None => simulate(&plan, options())?,
        Some(path) => {
            let trace = record(&plan)?;
            let found = explain(&trace, options());
            mark(path, &trace, &found)?;
            found
        }
    };
    let other = match &args.what_if {
        None => None,
        Some((key, value)) => {
            let mut plan = plan;
            let set = plan.config.settings.set(key, value);
            set.map_err(|error| Failure::input(format!("--what-if {key}={value}: {error}")))?;
            Some((Label::of_values(vec![(key.clone(), value.clone())], ""), simulate(&plan, options())?))
        }
    };
    print(args, &found, other.as_ref(), Some(seed))
}

/// Reads the input as a trace, if it is one.
fn as_trace(args: &Args) -> Result<Option<Trace>, Failure> {
    let path = &args.workload.file;
    let is_workload = path.extension().is_none_or(|ending| ending == "toml" || ending == "json" || ending == "csv");
    if is_workload {
        return Ok(None);
    }
    zerolag::trace::open(path).map(Some).map_err(|error| Failure::trace(path, &error))
}

/// A sink that explains waits.
struct Listener(Explainer);

impl Sink for Listener {
    fn record(&mut self, record: &Record) {
        self.0.observe(record);
    }
}

/// Runs a plan and keeps its records.
fn record(plan: &Plan) -> Result<Trace, Failure> {
    let mut machine = plan.build(Tracing::On).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut records = Vec::new();
    let outcome = machine.run(&mut records);
    let mut meta = plan.meta();
    meta.end = outcome.end;
    Ok(Trace { meta, records })
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
        writer.finish()
    })
}

fn simulate(plan: &Plan, options: Options) -> Result<Explanation, Failure> {
    let mut machine = plan.build(Tracing::On).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut listener = Listener(Explainer::new(&plan.meta(), options));
    let outcome = machine.run_with(&mut listener, |_, _| ControlFlow::Continue(()));
    Ok(listener.0.finish(outcome.end))
}

/// Prints the explanation, and the difference that a change makes; `seed` is that of the run, if it
/// is not a recorded trace.
fn print(args: &Args, found: &Explanation, other: Option<&(Label, Explanation)>, seed: Option<u64>) -> Done {
    let text = || {
        let mut text = found.to_string();
        if let Some((change, other)) = other {
            difference(&mut text, &change.name, found, other);
        }
        text
    };
    let json = || {
        let first = Label::of_values(Vec::new(), AS_IT_IS);
        let all = [(&first, found)].into_iter().chain(other.map(|(label, other)| (label, other)));
        let variants: Vec<_> = all.map(|(label, found)| label.to_json([("explanation", found.to_json())])).collect();
        format!("{:#}\n", variant::document("zerolag.explain.v2", 1, seed, &variants))
    };
    args.json.publish(text, json)?;
    Ok(code::OK)
}

/// Appends the effect of a change on each kind of cause, the largest difference first.
fn difference(text: &mut String, change: &str, before: &Explanation, after: &Explanation) {
    let time = |of: &Explanation, kind: &str| of.totals.get(kind).copied().unwrap_or(Duration::ZERO);
    let kinds: BTreeSet<&String> = before.totals.keys().chain(after.totals.keys()).collect();
    let mut rows: Vec<(Duration, Duration, &String)> =
        kinds.into_iter().map(|kind| (time(before, kind), time(after, kind), kind)).collect();
    rows.sort_by_key(|(was, is, _)| core::cmp::Reverse(if was > is { *was - *is } else { *is - *was }));
    let longest = |of: &Explanation| of.waits.first().map_or(Duration::ZERO, Explained::length);
    let sum = |of: &Explanation| of.totals.values().copied().sum::<Duration>();
    let mut line = |was: Duration, is: Duration, what: &str| {
        writeln!(text, "{:>10} {:>10}  {what}", Human(was).to_string(), Human(is).to_string())
            .expect("invariant: a string takes everything");
    };
    line(longest(before), longest(after), &format!("longest wait: {AS_IT_IS}, with {change}"));
    line(sum(before), sum(after), "all waits, of which");
    for (was, is, kind) in rows.into_iter().filter(|(was, is, _)| was != is).take(SHOWN) {
        line(was, is, kind);
    }
}

/// The name of the workload without the change.
const AS_IT_IS: &str = "as it is";

/// How many kinds of causes the difference lists.
const SHOWN: usize = 20;
