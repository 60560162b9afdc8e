//! `zerolag init`: a scenario to begin with.

use super::failure::Failure;
use super::{Done, code, output};
use std::path::{Path, PathBuf};

/// Arguments of `zerolag init`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The file to write; `-` is the standard output
    #[arg(default_value = "scenario.toml")]
    file: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    if args.file == Path::new("-") {
        output::print(SCENARIO)?;
        return Ok(code::OK);
    }
    output::check_target(&args.file)?;
    if args.file.exists() {
        let message = format!("`{}` is there already and is left as it is", args.file.display());
        return Err(Failure::input_help(message, "name another file"));
    }
    output::write_text(&args.file, SCENARIO)?;
    output::print(&format!("{0} is written; run it with: zerolag run {0}\n", args.file.display()))?;
    Ok(code::OK)
}

/// What a new scenario says.
const SCENARIO: &str = include_str!("init.toml");
