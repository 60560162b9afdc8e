//! `zerolag scx`: becomes `zerolag-scx`, which loads policies into the running kernel.
//!
//! That is a program of its own (`crates/scx`): it needs clang and libbpf to be built, and contains
//! a part under the GPL.

use super::Done;
use super::failure::Failure;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// The program.
const PROGRAM: &str = "zerolag-scx";

/// Arguments of `zerolag scx`.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Arguments of `zerolag-scx`, as in run --policy vtime
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// Runs the subcommand: it returns only if the program cannot be started.
pub(crate) fn run(args: &Args) -> Done {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(&args.arguments).exec();
    if error.kind() == ErrorKind::NotFound {
        let help = "cargo build --release --manifest-path crates/scx/Cargo.toml --target-dir target/scx (docs/how-to/load-a-policy.md)";
        return Err(Failure::input_help(format!("there is no {PROGRAM} beside this program or in PATH"), help));
    }
    Err(Failure::Failed(format!("{}: {error}", program.display())))
}
