//! [`Error`]: why a call of the library failed.
//!
//! The command line, the Python package and other front ends print these in their own words; the
//! content is the same: the place, the reason, and a valid alternative where there is one.

use std::fmt;
use std::io;
use std::path::Path;
use zerolag_sim::SimError;
use zerolag_trace::ReadError;
use zerolag_workload::Diagnostics;

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The text of a workload has mistakes: all of them, each with its place.
    Workload(Box<Diagnostics>),
    /// Values that cannot be set: all of them.
    Values(Vec<ValueError>),
    /// Another mistake of the input.
    Input {
        /// The mistake.
        message: String,
        /// A valid alternative.
        help: Option<String>,
    },
    /// A failure that is not in the input: a run that ended badly, a full disk.
    Failed(String),
    /// The caller ended the work, and there is no partial result.
    Interrupted,
}

/// A key whose value cannot be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError {
    /// The key, as the caller wrote it; empty if the value is an argument of its own.
    pub key: String,
    /// The value, as the caller wrote it.
    pub value: String,
    /// The mistake.
    pub message: String,
    /// A valid alternative.
    pub help: Option<String>,
}

impl ValueError {
    /// Returns an error without advice.
    pub fn new(key: impl Into<String>, value: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { key: key.into(), value: value.into(), message: message.to_string(), help: None }
    }

    /// Returns it with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl Error {
    /// Returns a mistake of the input without advice.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input { message: message.into(), help: None }
    }

    /// Returns a mistake of the input with advice.
    pub fn input_help(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Input { message: message.into(), help: Some(help.into()) }
    }

    /// Returns the failure to read a file named by the user.
    pub fn reading(name: impl fmt::Display, error: &io::Error) -> Self {
        let help = match error.kind() {
            io::ErrorKind::NotFound => Some("give the path of a file".to_owned()),
            io::ErrorKind::IsADirectory => Some("this is a directory; name a file in it".to_owned()),
            _ => None,
        };
        Self::Input { message: format!("cannot read `{name}`: {}", plain(error)), help }
    }

    /// Returns the mistake of a trace in place of a workload.
    #[must_use]
    pub fn is_trace(name: &str) -> Self {
        Self::input_help(
            format!("`{name}` is a trace, not a workload"),
            format!("its figures: `zerolag report {name}`; a workload of it: `zerolag import {name} -o FILE.toml`"),
        )
    }

    /// Returns the failure to read a trace.
    #[must_use]
    pub fn trace(path: &Path, error: &ReadError) -> Self {
        const WORKLOADS: [&str; 6] = ["toml", "json", "csv", "xml", "yml", "yaml"];
        let is_workload = path.extension().is_some_and(|ending| WORKLOADS.iter().any(|known| ending == *known));
        match error {
            ReadError::Io(error) => Self::reading(path.display(), error),
            ReadError::Unknown { .. } | ReadError::Foreign { .. } if is_workload => Self::input_help(
                format!("`{}` is no trace; it looks like a workload", path.display()),
                format!("simulate it: `zerolag run {}`", path.display()),
            ),
            error => Self::input(format!("{}: {error}", path.display())),
        }
    }
}

/// Returns an error of the operating system without its number.
#[must_use]
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.key.is_empty() {
            write!(f, "{}={}: ", self.key, self.value)?;
        }
        f.write_str(&self.message)?;
        self.help.as_ref().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(diagnostics) => fmt::Display::fmt(diagnostics, f),
            Self::Values(wrong) => {
                let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Input { message, help } => {
                f.write_str(message)?;
                help.as_ref().map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
            }
            Self::Failed(message) => f.write_str(message),
            Self::Interrupted => f.write_str("interrupted: there are no partial results"),
        }
    }
}

impl std::error::Error for Error {}
impl std::error::Error for ValueError {}

impl From<Diagnostics> for Error {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::Workload(Box::new(diagnostics))
    }
}

/// The program does not fit the machine: a mistake of the input.
impl From<SimError> for Error {
    fn from(error: SimError) -> Self {
        Self::input(error.to_string())
    }
}
