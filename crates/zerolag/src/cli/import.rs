//! `zerolag import`: a workload from a trace.

use super::failure::{Failure, eprintln_lossy};
use super::options::KernelArgs;
use super::{Done, code, output};
use std::path::PathBuf;
use zerolag::import::{ImportError, Options, base_error, import};
use zerolag::trace::open;
use zerolag::workload::scenario::SCENARIO_MAX;

/// Arguments of `zerolag import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A trace: `perf.data`, `trace.dat`, Perfetto's, the text of `perf script`, tracefs or
    /// `trace-cmd report`, or zerolag's own (.zlt); xz, gzip and zstd are unpacked
    trace: PathBuf,
    /// The file to write [default: the standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The group of a process or thread of this name, and of what it forks, on the recorded
    /// machine: `redis-server=/db`; may be repeated
    #[arg(long = "group", value_name = "NAME=/PATH", value_parser = group)]
    groups: Vec<(String, String)>,
    /// The limit of a group on the recorded machine: `/db=50000 100000`; may be repeated
    #[arg(long = "limit", value_name = "/PATH=CPU.MAX", value_parser = limit)]
    limits: Vec<(String, String)>,
    #[command(flatten)]
    kernel: KernelArgs,
}

pub(super) fn group(text: &str) -> Result<(String, String), String> {
    let (name, path) = text.rsplit_once('=').ok_or("a name, `=`, and the path of its group: `web=/site`")?;
    if !path.starts_with('/') {
        return Err(format!("the path of a group begins with `/`: `{name}=/{path}`"));
    }
    Ok((name.to_owned(), path.to_owned()))
}

pub(super) fn limit(text: &str) -> Result<(String, String), String> {
    let (path, max) = text.split_once('=').ok_or("a group, `=`, and what cpu.max holds: `/web=50000 100000`")?;
    if !path.starts_with('/') {
        return Err(format!("the path of a group begins with `/`: `/{path}={max}`"));
    }
    Ok((path.to_owned(), max.to_owned()))
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if let Some(path) = &args.output {
        output::check_target(path)?;
    }
    let trace = open(&args.trace).map_err(|error| Failure::trace(&args.trace, &error))?;
    let origin = args.trace.file_name().unwrap_or_default().to_string_lossy();
    let options = Options { groups: args.groups.clone(), limits: args.limits.clone(), kernel: args.kernel.kernel };
    let imported = import(&trace, &origin, &options);
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
    imported.check_names(&args.trace.display().to_string())?;
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
