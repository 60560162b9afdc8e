//! `zerolag report`: the figures of a trace.

use super::failure::Failure;
use super::options::{QuietArgs, ShowArgs};
use super::output::{HtmlArgs, JsonArgs, TablesArgs};
use super::progress::busy;
use super::{Done, code, input};
use std::path::PathBuf;
use zerolag::import::recorded_requests;
use zerolag::page::{self, Pictured};
use zerolag::report::requests::{self, RecordedRequests};
use zerolag::report::tool::ToolLatencies;
use zerolag::report::{Metrics, Summary, frame, text};
use zerolag::results as document;
use zerolag::simulation::figures::{RunFigures, ShownFigure};
use zerolag::simulation::shown;
use zerolag::trace::{Meta, is_trace, open, tool_output};

/// Arguments of `zerolag report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, `trace.dat`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt); xz, gzip and zstd are unpacked
    trace: PathBuf,
    #[command(flatten)]
    show: ShowArgs,
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
    #[command(flatten)]
    quiet: QuietArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.show.check()?;
    args.json.check()?;
    args.html.check()?;
    args.tables.check()?;
    if let Some(latencies) = of_tool(args)? {
        args.json.publish(|| latencies.to_string(), String::new)?;
        return Ok(code::OK);
    }
    let (summary, recorded_requests) = busy("reading the trace", args.quiet.quiet, || summarise(args))?;
    args.tables.publish(|| frame::summary::all(&summary))?;
    let limits = text::Limits { tasks: args.tasks, ..text::Limits::default() };
    let shown = shown(&args.show.show, &summary).map_err(|error| Failure::of(error, "--show"))?;
    let tables = || text::render(&summary, limits) + &requests::text(&recorded_requests) + &ShownFigure::text(&shown);
    let figures = || {
        let (shown, recorded_requests) = (shown.clone(), recorded_requests.clone());
        document::text(&RunFigures { shown, recorded_requests, ..RunFigures::of(&summary) })
    };
    args.json.publish(tables, figures)?;
    Ok(code::OK)
}

/// Returns the latencies of a tool's output, if the file is one that has some.
fn of_tool(args: &Args) -> Result<Option<ToolLatencies>, Failure> {
    let Ok(head) = input::head(&args.trace) else { return Ok(None) };
    let known = tool_output(&String::from_utf8_lossy(&head)).filter(|tool| tool.has_figures);
    let Some(tool) = known.filter(|_| !is_trace(&head)) else { return Ok(None) };
    let name = args.trace.display();
    let wants_more =
        args.json.is_wanted() || args.html.is_wanted() || args.tables.are_wanted() || !args.show.show.is_empty();
    if wants_more {
        let message = format!("`{name}` is {}: its latencies are shown as a table only", tool.what);
        return Err(Failure::input_help(message, tool.advice));
    }
    let bytes = std::fs::read(&args.trace).map_err(|error| Failure::reading(name, &error))?;
    Ok(Some(ToolLatencies::read(&String::from_utf8_lossy(&bytes), tool)))
}

/// Returns the figures and the requests, and writes the page if it is wanted. Only the page and
/// requests need all records at once.
fn summarise(args: &Args) -> Result<(Summary, Vec<RecordedRequests>), Failure> {
    let start = |meta: &Meta| Metrics::new(meta).keep_waits(usize::from(args.waits));
    let whole = || open(&args.trace).map_err(|error| Failure::trace(&args.trace, &error));
    let (metrics, meta, requests) = if args.html.is_wanted() || input::is_kept(&args.trace) {
        let trace = whole()?;
        let requests = recorded_requests(&trace);
        args.html
            .publish(|| Ok(page::of_trace(&Pictured::of(&trace), None, &HtmlArgs::about(args.trace.display()))))?;
        let mut metrics = start(&trace.meta);
        for record in &trace.records {
            metrics.observe(record);
        }
        (metrics, trace.meta, requests)
    } else {
        let (metrics, meta) = input::each_record(&args.trace, start, Metrics::observe)?;
        let has_messages = !meta.recorded.messages.is_empty();
        (metrics, meta, if has_messages { recorded_requests(&whole()?) } else { Vec::new() })
    };
    // The text of a report says itself what a cut file lacks.
    if args.json.takes_stdout() && !args.quiet.quiet {
        input::say_dropped(&args.trace, &meta);
    }
    let mut summary = metrics.finish(meta.end);
    summary.meta.lost_events = meta.lost_events;
    Ok((summary, requests))
}
