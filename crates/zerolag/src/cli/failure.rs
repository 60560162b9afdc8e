//! [`Failure`]: why a subcommand failed, and how that is reported.

use super::code;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use zerolag::trace::ReadError;
use zerolag::workload::Diagnostics;

/// Why a subcommand failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The input is invalid: exit code 2.
    Input {
        /// The mistake.
        message: String,
        /// A valid alternative.
        help: Option<String>,
    },
    /// A workload file is invalid: exit code 2.
    Workload(Box<Diagnostics>),
    /// A failure that is not in the input: exit code 1.
    Failed(String),
    /// The reader of stdout has closed the pipe.
    PipeClosed,
}

impl Failure {
    /// Returns an error of the input.
    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), help: None }
    }

    /// Returns an error of the input with advice.
    pub(crate) fn input_help(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Input { message: message.into(), help: Some(help.into()) }
    }

    /// Returns the failure to read a file named by the user.
    pub(crate) fn reading(name: impl fmt::Display, error: &io::Error) -> Self {
        let help = match error.kind() {
            io::ErrorKind::NotFound => Some("give the path of a file, or `-` for the standard input".to_owned()),
            io::ErrorKind::IsADirectory => Some("this is a directory; name a file in it".to_owned()),
            _ => None,
        };
        Self::Input { message: format!("cannot read `{name}`: {}", plain(error)), help }
    }

    /// Returns the failure to read a trace.
    pub(crate) fn trace(path: &Path, error: &ReadError) -> Self {
        match error {
            ReadError::Io(error) => Self::reading(path.display(), error),
            ReadError::Unknown { .. } | ReadError::Foreign { .. } if is_workload(path) => Self::input_help(
                format!("`{}` is no trace; it looks like a workload", path.display()),
                format!("simulate it: `zerolag run {}`", path.display()),
            ),
            error => Self::input(format!("{}: {error}", path.display())),
        }
    }

    /// Returns the failure to write a file: the disk is full, its reader has closed the pipe, and
    /// so on.
    pub(crate) fn writing(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("cannot write `{}`: {}", path.display(), plain(error)))
    }

    /// Reports it on stderr and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Input { message, help } => {
                eprintln_lossy(&format!("error: {message}"));
                if let Some(help) = help {
                    eprintln_lossy(&format!("  help: {help}"));
                }
                ExitCode::from(code::USAGE)
            }
            Self::Workload(diagnostics) => {
                eprintln_lossy(&carets(*diagnostics));
                ExitCode::from(code::USAGE)
            }
            Self::Failed(message) => {
                eprintln_lossy(&format!("error: {message}"));
                ExitCode::from(code::FAILURE)
            }
            Self::PipeClosed => ExitCode::from(code::OK),
        }
    }
}

/// Returns whether a file has the extension of workloads.
fn is_workload(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml" || extension == "json")
}

/// Writes a line to stderr; a failure cannot be reported anywhere.
pub(crate) fn eprintln_lossy(line: &str) {
    use std::io::Write;
    drop(writeln!(io::stderr(), "{line}"));
}

/// Draws diagnostics with the lines of the file and carets below them. Also where stderr is not a
/// terminal, because most mistakes are read in the log of a CI machine.
pub(crate) fn carets(diagnostics: Diagnostics) -> String {
    format!("{:?}", miette::Report::from(diagnostics)).trim_end().to_owned()
}

/// Returns an error of the operating system without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
