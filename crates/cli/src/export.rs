//! `zerolag export`: a workload as an rt-app file.

use super::failure::{Failure, eprint_carets};
use super::options::{MachineArgs, WorkloadArgs};
use super::{Done, code, output};
use std::path::PathBuf;
use zerolag::workload::rtapp;

/// Arguments of `zerolag export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// The file to write [default: the standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if let Some(path) = &args.output {
        output::check_target(path)?;
    }
    let scenario = args.workload.scenario(&args.machine)?;
    if !scenario.warnings.is_empty() {
        eprint_carets(scenario.warnings.clone());
    }
    let text = rtapp::export(&scenario.program, scenario.duration).map_err(|unsaid| {
        let list: String = unsaid.iter().map(|what| format!("\n  {what}")).collect();
        let name = args.workload.file.display();
        Failure::input(format!("{name}: rt-app's grammar cannot express:{list}"))
    })?;
    match &args.output {
        Some(path) => output::write_text(path, &text)?,
        None => output::print_as_it_is(&zerolag_model::text::json(&text))?,
    }
    Ok(code::OK)
}
