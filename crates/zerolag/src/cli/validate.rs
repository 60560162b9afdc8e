//! `zerolag validate`: compares simulation results with recorded kernels.

use super::failure::Failure;
#[cfg(target_os = "linux")]
use super::options;
use super::options::QuietArgs;
#[cfg(target_os = "linux")]
use super::output::JsonArgs;
use super::progress::{Progress, catch_interrupts};
use super::{Done, code, output};
use std::ops::ControlFlow;
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use zerolag::model::Duration;
use zerolag::validate::{self, Case, ValidateError};

/// Arguments of `zerolag validate`.
#[derive(Debug, clap::Args)]
#[cfg_attr(target_os = "linux", command(mut_arg("json", |json| json.requires("live").conflicts_with("markdown"))))]
pub(crate) struct Args {
    /// Case files, or directories of them
    #[arg(default_value = "conformance")]
    cases: Vec<PathBuf>,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
    /// Run the cases' workloads on this host's kernel instead of comparing with the recordings
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with = "markdown")]
    live: bool,
    /// Runs on the host per case
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "N", default_value_t = 3, requires = "live", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) runs: u8,
    /// Duration of each run
    #[cfg(target_os = "linux")]
    #[arg(short, long, value_name = "TIME", default_value = "5s", value_parser = options::duration, requires = "live")]
    pub(crate) duration: Duration,
    /// This host's cost profile (`zerolag calibrate`): also compares latencies
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", requires = "live")]
    pub(crate) costs: Option<String>,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let mut paths = Vec::new();
    for path in &args.cases {
        if path.is_dir() {
            paths.extend(validate::find(path).map_err(failure)?);
        } else {
            paths.push(path.clone());
        }
    }
    let cases = paths.iter().map(|path| Case::read(path)).collect::<Vec<_>>();
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.as_ref().err()).map(ToString::to_string).collect();
    if !wrong.is_empty() {
        return Err(Failure::input(wrong.join("\n")));
    }
    #[cfg(target_os = "linux")]
    if args.live {
        args.json.check()?;
        return super::validate_live::run(args, &cases.into_iter().flatten().collect::<Vec<_>>());
    }
    catch_interrupts();
    let mut progress = Progress::new(paths.len() as u64, "cases", args.quiet.quiet);
    let mut comparisons = Vec::new();
    for (done, case) in cases.into_iter().flatten().enumerate() {
        if progress.at(done as u64) == ControlFlow::Break(()) {
            return Ok(code::INTERRUPTED);
        }
        comparisons.extend(validate::run(&case).map_err(failure)?);
    }
    progress.finish();
    let table = if args.markdown { validate::markdown(&comparisons) } else { validate::text(&comparisons) };
    output::print(&table)?;
    Ok(if comparisons.iter().all(validate::Comparison::is_inside) { code::OK } else { code::GOAL_MISSED })
}

pub(crate) fn failure(error: ValidateError) -> Failure {
    match error {
        ValidateError::Workload(diagnostics) => Failure::Workload(diagnostics),
        error => Failure::input(error.to_string()),
    }
}
