//! `zerolag settings`: every setting, its value under a kernel, and its possible values.

use super::output::JsonArgs;
use super::{Done, code, options};
use zerolag::model::KernelVersion;
use zerolag::settings;

/// Arguments of `zerolag settings`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kernel whose values to show
    #[arg(long, value_name = "VERSION", value_parser = options::kernel, default_value = KernelVersion::default().name())]
    kernel: KernelVersion,
    /// Lists the known scheduler bugs that presets reproduce: commits, versions, presets with each
    #[arg(long)]
    faults: bool,
    #[command(flatten)]
    json: JsonArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    args.json.check()?;
    let shown = |kernel| if args.faults { settings::faults_text() } else { settings::text(kernel) };
    args.json.publish(|| shown(args.kernel), || settings::json(args.kernel))?;
    Ok(code::OK)
}
