//! `zerolag report`: the figures of a trace.

use super::failure::Failure;
use super::output::{HtmlArgs, JsonArgs, TablesArgs};
use super::{Done, code};
use std::path::PathBuf;
use zerolag::page::{self, Pictured};
use zerolag::report::{Metrics, frame, json, text};
use zerolag::trace::open;

/// Arguments of `zerolag report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, `trace.dat`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt); xz, gzip and zstd are unpacked
    trace: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    html: HtmlArgs,
    #[command(flatten)]
    tables: TablesArgs,
    /// Show at most N tasks, those with the longest run time
    #[arg(long, value_name = "N", default_value_t = text::Limits::default().tasks)]
    tasks: usize,
    /// Number of longest waits to list
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..))]
    waits: u16,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    args.html.check()?;
    args.tables.check()?;
    let trace = open(&args.trace).map_err(|error| Failure::trace(&args.trace, &error))?;
    args.html.publish(|| Ok(page::of_trace(&Pictured::of(&trace), None, &HtmlArgs::about(args.trace.display()))))?;
    let mut metrics = Metrics::new(&trace.meta).keep_waits(usize::from(args.waits));
    for record in &trace.records {
        metrics.observe(record);
    }
    let summary = metrics.finish(trace.meta.end);
    args.tables.publish(|| frame::summary::all(&summary))?;
    let limits = text::Limits { tasks: args.tasks, ..text::Limits::default() };
    let figures = || json::render(&summary).expect("invariant: every figure has a JSON form") + "\n";
    args.json.publish(|| text::render(&summary, limits), figures)?;
    Ok(code::OK)
}
