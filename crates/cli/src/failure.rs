//! [`Failure`]: why a subcommand failed, and how that is reported.

use super::code;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use zerolag::Error;
use zerolag::error::{ValueError, plain};
use zerolag::trace::ReadError;
use zerolag::workload::Diagnostics;
use zerolag_model::text::visible;

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
        Error::reading(name, error).into()
    }

    /// Returns the failure to read a trace.
    pub(crate) fn trace(path: &Path, error: &ReadError) -> Self {
        Error::trace(path, error).into()
    }

    /// Returns a library's error, with the option that its values were given by.
    pub(crate) fn of(error: Error, option: &str) -> Self {
        let Error::Values(wrong) = error else { return error.into() };
        // One help below each mistake, unless there is only one: then it has its own place.
        let help = match &wrong[..] {
            [only] => only.help.clone(),
            _ => None,
        };
        let line = |error: &ValueError| {
            // What stands behind the option itself has no key; its message names it.
            let key = if error.key.is_empty() { String::new() } else { format!(" {}={}", error.key, error.value) };
            match &error.help {
                Some(inner) if help.is_none() => format!("{option}{key}: {}\n  help: {inner}", error.message),
                _ => format!("{option}{key}: {}", error.message),
            }
        };
        let message = wrong.iter().map(line).collect::<Vec<_>>().join("\nerror: ");
        Self::Input { message, help }
    }

    /// Returns the failure to write a file: the disk is full, its reader has closed the pipe, and
    /// so on.
    pub(crate) fn writing(path: &Path, error: &io::Error) -> Self {
        Self::Failed(format!("cannot write `{}`: {}", path.display(), plain(error)))
    }

    /// Returns whether the input is wrong, not the run.
    pub(crate) const fn is_in_input(&self) -> bool {
        matches!(self, Self::Input { .. } | Self::Workload(_))
    }

    /// Returns its text, with its advice.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Input { message, help: Some(help) } => format!("{message}\n  help: {help}"),
            Self::Input { message, help: None } | Self::Failed(message) => message.clone(),
            Self::Workload(diagnostics) => diagnostics.to_string(),
            Self::PipeClosed => String::new(),
        }
    }

    /// Returns its first line.
    pub(crate) fn headline(&self) -> String {
        let text = match self {
            Self::Input { message, .. } | Self::Failed(message) => message.clone(),
            Self::Workload(diagnostics) => diagnostics.to_string(),
            Self::PipeClosed => String::new(),
        };
        text.lines().next().unwrap_or_default().to_owned()
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
                eprint_carets(*diagnostics);
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

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Workload(diagnostics) => Self::Workload(diagnostics),
            Error::Input { message, help } => Self::Input { message, help },
            Error::Failed(message) => Self::Failed(message),
            Error::Values(_) => Self::of(error, "--set"),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Writes a line to stderr, nothing in it as control; a failure cannot be reported anywhere.
pub(crate) fn eprintln_lossy(line: &str) {
    eprintln_as_it_is(&visible(line));
}

/// Writes a line to stderr that contains control sequences of our own only.
fn eprintln_as_it_is(line: &str) {
    use std::io::Write;
    drop(writeln!(io::stderr(), "{line}"));
}

/// Shows diagnostics on stderr.
pub(crate) fn eprint_carets(diagnostics: Diagnostics) {
    eprintln_as_it_is(&carets(diagnostics));
}

/// Draws diagnostics with the lines of the file and carets below them. Also where stderr is not a
/// terminal, because most mistakes are read in the log of a CI machine.
fn carets(diagnostics: Diagnostics) -> String {
    format!("{:?}", miette::Report::from(diagnostics)).trim_end().to_owned()
}
