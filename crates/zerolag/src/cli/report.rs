//! `zerolag report`: the figures of a trace.

use super::failure::Failure;
use super::output::{HtmlArgs, JsonArgs, TablesArgs};
use super::{Done, code, input};
use std::path::{Path, PathBuf};
use zerolag::page::{self, Pictured};
use zerolag::report::{Metrics, Summary, frame, json, text};
use zerolag::trace::{Meta, open, stream, stream_recording};

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
    let summary = summarise(args)?;
    args.tables.publish(|| frame::summary::all(&summary))?;
    let limits = text::Limits { tasks: args.tasks, ..text::Limits::default() };
    let figures = || json::render(&summary).expect("invariant: every figure has a JSON form") + "\n";
    args.json.publish(|| text::render(&summary, limits), figures)?;
    Ok(code::OK)
}

/// Returns whether a file is so long that it is read three times rather than kept.
fn is_long(path: &Path) -> bool {
    let is_perf = || input::head(path).is_ok_and(|head| head.starts_with(b"PERFILE2"));
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    length >= STREAMED && (length >= STREAMED_PERF || !is_perf())
}

/// The length of such a file: of text, and of `perf.data`, of which a million events, about 100 MB,
/// are still read in the shortest time.
const STREAMED: u64 = 64 << 20;
const STREAMED_PERF: u64 = 128 << 20;

/// Returns the figures, and writes the page if it is wanted. Only the page needs all records at
/// once.
fn summarise(args: &Args) -> Result<Summary, Failure> {
    let failed = |error| Failure::trace(&args.trace, &error);
    let metrics = |meta: &Meta| Metrics::new(meta).keep_waits(usize::from(args.waits));
    if !args.html.is_wanted()
        && let Some(mut records) = stream(&args.trace).map_err(failed)?
    {
        let mut metrics = metrics(records.meta());
        for record in &mut records {
            metrics.observe(&record.map_err(failed)?);
        }
        // The end and the number of lost events are at the end of the file.
        let meta = records.meta();
        let mut summary = metrics.finish(meta.end);
        summary.meta.lost_events = meta.lost_events;
        return Ok(summary);
    }
    if !args.html.is_wanted()
        && is_long(&args.trace)
        && let Some((metrics, meta)) =
            stream_recording(&args.trace, metrics, |metrics, record| metrics.observe(record)).map_err(failed)?
    {
        if let Some(dropped) = meta.recorded.dropped.as_ref().filter(|_| args.json.takes_stdout()) {
            input::say_dropped(&args.trace, dropped);
        }
        return Ok(metrics.finish(meta.end));
    }
    // The text of a report says itself what a cut file lacks.
    let trace =
        if args.json.takes_stdout() { input::trace(&args.trace)? } else { open(&args.trace).map_err(failed)? };
    args.html.publish(|| Ok(page::of_trace(&Pictured::of(&trace), None, &HtmlArgs::about(args.trace.display()))))?;
    let mut metrics = metrics(&trace.meta);
    for record in &trace.records {
        metrics.observe(record);
    }
    Ok(metrics.finish(trace.meta.end))
}
