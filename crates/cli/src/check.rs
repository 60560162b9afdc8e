//! `zerolag check`: runs the monitors over a trace.

use super::output::JsonArgs;
use super::progress::busy;
use super::{Done, code, input};
use std::path::PathBuf;
use zerolag::check::{Checker, Options};
use zerolag::simulation::verdicts;
use zerolag::trace::Meta;

/// Arguments of `zerolag check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, `trace.dat`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt); xz, gzip and zstd are unpacked
    trace: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    let start = |meta: &Meta| Checker::new(meta, &Options::default());
    let read = || input::each_record(&args.trace, start, Checker::observe);
    let (mut checker, meta) = busy("checking the trace", false, read)?;
    input::say_dropped(&args.trace, &meta);
    checker.lost(meta.lost_events);
    let report = checker.finish(meta.end);
    args.json.publish(|| verdicts::text(&report), || verdicts::json(&report))?;
    Ok(if report.faults().is_some() { code::OK } else { code::FAILURE })
}
