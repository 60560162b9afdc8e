//! `zerolag import`: a workload from a trace.

use super::failure::{Failure, eprintln_lossy};
use super::{Done, code, output};
use std::path::PathBuf;
use zerolag::import::{ImportError, Options, base_error, import};
use zerolag::trace::open;
use zerolag::workload::scenario::SCENARIO_MAX;

/// Arguments of `zerolag import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt); xz, gzip and zstd are unpacked
    trace: PathBuf,
    /// The file to write [default: the standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Put the threads of a process, or of a name, into a group with this limit, as the recorded
    /// machine did: `redis-server=50000 100000`
    #[arg(long = "limit", value_name = "NAME=CPU.MAX", value_parser = limit)]
    limits: Vec<(String, String)>,
}

fn limit(text: &str) -> Result<(String, String), String> {
    let (name, max) = text.split_once('=').ok_or("a name, `=`, and what cpu.max holds: `web=50000 100000`")?;
    Ok((name.to_owned(), max.to_owned()))
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if let Some(path) = &args.output {
        output::check_target(path)?;
    }
    let trace = open(&args.trace).map_err(|error| Failure::trace(&args.trace, &error))?;
    let origin = args.trace.file_name().unwrap_or_default().to_string_lossy();
    let imported = import(&trace, &origin, &Options { limits: args.limits.clone() });
    if imported.scenario.len() > SCENARIO_MAX {
        let size = imported.scenario.len() >> 20;
        return Err(Failure::input_help(
            format!(
                "{}: the workload has {size} MB; a scenario has at most {}",
                args.trace.display(),
                SCENARIO_MAX >> 20
            ),
            "record for a shorter time",
        ));
    }
    if imported.tasks.is_empty() {
        return Err(Failure::input(format!("{}: no task computes in this trace", args.trace.display())));
    }
    let base = base_error(&trace, &imported).map_err(|error| match error {
        ImportError::Scenario(error) => Failure::Workload(error),
        error => Failure::input(format!("{}: {error}", args.trace.display())),
    })?;
    match &args.output {
        Some(path) => {
            output::write_text(path, &imported.scenario)?;
            output::print(&base.to_string())?;
        }
        None => {
            output::print(&imported.scenario)?;
            eprintln_lossy(base.to_string().trim_end());
        }
    }
    Ok(code::OK)
}
