//! The arguments of `zerolag validate`, and its failures, for recorded cases and for this host.

use crate::failure::Failure;
#[cfg(target_os = "linux")]
use crate::options;
use crate::options::QuietArgs;
use crate::output::{HtmlArgs, JsonArgs};
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use zerolag::model::Duration;
use zerolag_lab::validate::ValidateError;

/// Arguments of `zerolag validate`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("json", |json| json.conflicts_with("markdown")))]
pub(crate) struct Args {
    /// Case files, or directories of them
    #[arg(default_value = "conformance")]
    pub(crate) cases: Vec<PathBuf>,
    /// Print a summary as Markdown
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Run the cases' workloads on this host's kernel instead of comparing with the recordings
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) live: bool,
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
    pub(crate) costs: Option<std::ffi::OsString>,
    #[command(flatten)]
    pub(crate) json: JsonArgs,
    #[command(flatten)]
    pub(crate) html: HtmlArgs,
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
}

/// Returns the failure of a case.
pub(crate) fn failure(error: ValidateError) -> Failure {
    match error {
        ValidateError::Workload(diagnostics) => Failure::Workload(diagnostics),
        error => Failure::input(error.to_string()),
    }
}
