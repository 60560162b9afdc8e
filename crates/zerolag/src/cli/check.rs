//! `zerolag check`: runs the monitors over a trace.

use super::output::JsonArgs;
use super::{Done, code, input};
use std::path::PathBuf;
use zerolag::check::{Options, check};
use zerolag::simulation::verdicts;

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
    let trace = input::trace(&args.trace)?;
    let report = check(&trace, &Options::default());
    args.json.publish(|| verdicts::text(&report), || verdicts::json(&report))?;
    Ok(if report.faults().is_some() { code::OK } else { code::FAILURE })
}
