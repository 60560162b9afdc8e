//! `zerolag report`: the figures of a trace.

use super::failure::Failure;
use super::{Done, code, output};
use std::io::Write;
use std::path::{Path, PathBuf};
use zerolag::report::{Metrics, json, text};
use zerolag::trace::open;

/// Arguments of `zerolag report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: zerolag's own (.zlt), or the text of tracefs, `perf script --ns`, `trace-cmd report`; xz, gzip and zstd are
    /// unpacked
    trace: PathBuf,
    /// Print the figures as JSON, to stdout or to a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Show at most so many tasks, those that ran longest
    #[arg(long, value_name = "N", default_value_t = text::Limits::default().tasks)]
    tasks: usize,
    /// Explain so many of the longest waits
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..))]
    waits: u16,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let json_file = args.json.as_deref().filter(|path| *path != Path::new("-"));
    if let Some(path) = json_file {
        output::check_target(path)?;
    }
    let trace = open(&args.trace).map_err(|error| Failure::trace(&args.trace, &error))?;
    let mut metrics = Metrics::new(&trace.meta).keep_waits(usize::from(args.waits));
    for record in &trace.records {
        metrics.observe(record);
    }
    let summary = metrics.finish(trace.meta.end);
    if args.json.is_some() {
        let figures = json::render(&summary).expect("invariant: every figure has a JSON form") + "\n";
        match json_file {
            Some(path) => output::write_file(path, |out| out.write_all(figures.as_bytes()))?,
            None => output::print(&figures)?,
        }
    }
    if args.json.is_none() || json_file.is_some() {
        let limits = text::Limits { tasks: args.tasks, ..text::Limits::default() };
        output::print(&text::render(&summary, limits))?;
    }
    Ok(code::OK)
}
