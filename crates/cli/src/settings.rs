//! `zerolag settings`: every setting, its value under a kernel, and its possible values.

use super::output::JsonArgs;
use super::{Done, code, options};
use zerolag::model::KernelVersion;
use zerolag::settings;

/// Arguments of `zerolag settings`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kernel whose values to show, or with --faults the kernel whose bugs to list
    ///
    /// The newest by default; with --faults the bugs of all.
    #[arg(long, value_name = "VERSION", value_parser = options::kernel)]
    kernel: Option<KernelVersion>,
    /// Lists the known scheduler bugs that presets reproduce: commits, versions, presets with each
    #[arg(long)]
    faults: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    let kernel = args.kernel.unwrap_or_default();
    let shown = || match (args.faults, args.kernel) {
        (true, None) => settings::faults_text(),
        (true, Some(kernel)) => settings::faults_text_of(kernel),
        (false, _) => settings::text(kernel),
    };
    args.json.publish(shown, || settings::json(kernel))?;
    Ok(code::OK)
}
