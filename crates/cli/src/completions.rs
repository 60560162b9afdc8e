//! `zerolag completions`: completion scripts for shells.

use super::{Cli, Done, code, output};
use clap::CommandFactory;
use clap_complete::Shell;

/// Arguments of `zerolag completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "zerolag", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(code::OK)
}
