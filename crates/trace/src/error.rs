//! [`ReadError`]: why a trace could not be read, with the position.

use core::fmt;
use std::io;

/// Why a trace could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The file could not be read.
    Io(io::Error),
    /// The binary container is damaged.
    Corrupt {
        /// The position, in bytes from the start of the file.
        offset: u64,
        /// The mistake.
        reason: &'static str,
    },
    /// The binary container ends before its end mark.
    Truncated {
        /// The length of the existing part, in bytes.
        offset: u64,
    },
    /// The binary container was written by a later version.
    Version {
        /// The version of the file.
        found: u16,
        /// The latest version that this program reads.
        known: u16,
    },
    /// Lines of a text trace are invalid.
    Text {
        /// The first invalid lines.
        errors: Vec<LineError>,
        /// The number of all invalid lines.
        total: u64,
    },
    /// The file has the format of a trace, but no scheduler event.
    NoEvents {
        /// The part of the file that could not be read, if it is cut off.
        dropped: Option<String>,
    },
    /// The file has the format of no trace.
    Unknown {
        /// The beginning of the file, escaped.
        begins: String,
    },
    /// A recording of a kernel's tool is damaged.
    Damaged {
        /// The name of the format.
        format: &'static str,
        /// The position, in bytes from the start of the file.
        offset: u64,
        /// The mistake.
        reason: String,
    },
    /// A format that this program does not read.
    Foreign {
        /// Its name.
        format: &'static str,
        /// How to convert it.
        hint: &'static str,
    },
}

/// The mistake in one line of a text trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    /// The line, from 1; 0 for the whole text.
    pub line: usize,
    /// The column, from 1, in characters; 0 for the whole line.
    pub column: usize,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.reason),
            (line, 0) => write!(f, "line {line}: {}", self.reason),
            (line, column) => write!(f, "line {line}:{column}: {}", self.reason),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => fmt::Display::fmt(error, f),
            Self::Corrupt { offset, reason } => write!(f, "trace is damaged at byte {offset}: {reason}"),
            Self::Truncated { offset } => {
                write!(f, "trace is cut off at byte {offset}: it has no end mark")
            }
            Self::Version { found, known } => {
                write!(f, "trace has format version {found}; this program reads up to {known}")
            }
            Self::Text { errors, total } => {
                for (index, error) in errors.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    write!(f, "{separator}{error}")?;
                }
                match total.saturating_sub(errors.len() as u64) {
                    0 => Ok(()),
                    more => write!(f, "\nand {more} more"),
                }
            }
            Self::NoEvents { dropped } => {
                f.write_str("no scheduler event found; record at least sched_switch and sched_waking")?;
                dropped.as_ref().map_or(Ok(()), |dropped| write!(f, " ({dropped})"))
            }
            Self::Unknown { begins } => {
                write!(f, "this is no trace; it begins with `{begins}`. Known are {}", crate::formats::known())
            }
            Self::Damaged { format, offset, reason } => {
                write!(f, "this {format} is damaged at byte {offset}: {reason}")
            }
            Self::Foreign { format, hint } => write!(f, "this is {format}; {hint}"),
        }
    }
}

impl core::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Corrupt { .. }
            | Self::Truncated { .. }
            | Self::Version { .. }
            | Self::Text { .. }
            | Self::NoEvents { .. }
            | Self::Unknown { .. }
            | Self::Damaged { .. }
            | Self::Foreign { .. } => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
