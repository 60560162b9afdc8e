//! `zerolag completions`: completion scripts for shells.
//!
//! A script asks the program at each key what can be typed ([`candidates`](crate::candidates)), by
//! the variable `COMPLETE`. Bash has a script of its own: it splits words at `=` and `:`, so that
//! the usual one completes no `--set KEY=VALUE`.

use super::{Cli, Done, candidates, code, output};
use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// The shells that are known.
const SHELLS: &[&dyn EnvCompleter] = &[&WholeWords, &Elvish, &Fish, &Powershell, &Zsh];

/// The variable that a script sets to the name of its shell when it asks.
const ASKS: &str = "COMPLETE";

/// Arguments of `zerolag completions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(SHELLS.iter().map(|shell| shell.name())))]
    shell: String,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let shell = Shells(SHELLS).completer(&args.shell).expect("invariant: a value of the option");
    let mut script = Vec::new();
    shell.write_registration(ASKS, "zerolag", "zerolag", "zerolag", &mut script).expect("invariant: memory takes it");
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(code::OK)
}

/// Returns what answers a shell.
pub(crate) fn engine() -> CompleteEnv<'static, fn() -> clap::Command> {
    CompleteEnv::with_factory((|| candidates::add(Cli::command())) as fn() -> clap::Command)
        .var(ASKS)
        .shells(Shells(SHELLS))
}

/// Bash with words that end at spaces only.
struct WholeWords;

impl EnvCompleter for WholeWords {
    fn name(&self) -> &'static str {
        Bash.name()
    }

    fn is(&self, name: &str) -> bool {
        Bash.is(name)
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        let script = include_str!("completions.bash");
        let text = [("ASKS", var), ("NAME", name), ("PROGRAM", completer), ("BIN", bin)];
        write!(buf, "{}", text.iter().fold(script.to_owned(), |script, (from, to)| script.replace(from, to)))
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        buf: &mut dyn Write,
    ) -> io::Result<()> {
        Bash.write_complete(command, args, current_dir, buf)
    }
}
