//! `zerolag init`: a scenario to start with.

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
        let message = format!("`{}` already exists; not overwritten", args.file.display());
        return Err(Failure::input_help(message, "name another file"));
    }
    output::write_text(&args.file, SCENARIO)?;
    output::print(&format!("wrote {0}; try: zerolag run {0}\n", args.file.display()))?;
    Ok(code::OK)
}

/// The text of a new scenario.
const SCENARIO: &str = include_str!("init.toml");

#[cfg(test)]
mod tests {
    use super::SCENARIO;
    use zerolag::model::KernelVersion;

    #[test]
    fn it_names_the_kernels_that_there_are() {
        let newest = KernelVersion::default().name();
        let oldest = KernelVersion::ALL[0].name();
        assert!(SCENARIO.contains(&format!("# {oldest} to {newest} (without this line {newest})")), "{SCENARIO}");
    }
}
