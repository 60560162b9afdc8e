//! `zerolag run`: a workload on a simulated machine, or on the host.

mod args;
#[cfg(target_os = "linux")]
mod on_linux;
mod simulated;

use super::Done;
pub(crate) use args::Args;
use args::On;

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    match args.on {
        On::Sim => simulated::run(args),
        #[cfg(target_os = "linux")]
        On::Linux => on_linux::run(args),
        #[cfg(not(target_os = "linux"))]
        On::Linux => Err(super::failure::Failure::input("--on linux: this host's kernel is not Linux")),
    }
}
