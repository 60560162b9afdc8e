//! `zerolag check`: runs the monitors over a trace.

use super::failure::Failure;
use super::output::JsonArgs;
use super::{Done, code};
use std::path::PathBuf;
use zerolag::check::{Options, check};
use zerolag::simulation::verdicts;
use zerolag::trace::open;

/// Arguments of `zerolag check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, `trace.dat`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt)
    trace: PathBuf,
    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    let trace = open(&args.trace).map_err(|error| Failure::trace(&args.trace, &error))?;
    let report = check(&trace, &Options::default());
    args.json.publish(|| verdicts::text(&report), || verdicts::json(&report))?;
    Ok(if report.faults().is_some() { code::OK } else { code::FAILURE })
}
