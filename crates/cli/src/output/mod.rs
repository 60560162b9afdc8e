//! Destinations of results: the standard output, and files (see [`file`]).
//!
//! A closed pipe as the standard output ends the program without a message and with success:
//! `zerolag ... | head` is not a failure. Every other failed write is one, exit code 1. A target
//! that can never be written (a directory, a file in a directory that does not exist) is refused
//! before the run begins, exit code 2.

mod draw;
mod file;
mod tables;

use super::failure::Failure;
pub(crate) use draw::{DrawArgs, Loaded, latencies, of_timerlat};
pub(crate) use file::Out;
use file::OutputTarget;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
pub(crate) use tables::{TableArgs, TablesArgs, write_parquet};
use zerolag::error::plain;
use zerolag::page::About;
use zerolag_model::text::{self, visible};

/// Prints to stdout; nothing of a name or a file in it reaches a terminal as control.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_with(text, "")
}

/// Prints to stdout a text, and behind it plots, whose colours are kept and whose names are plain.
fn print_with(text: &str, plots: &str) -> Result<(), Failure> {
    print_as_it_is(&(visible(text) + plots))
}

/// Prints to stdout what contains control sequences of our own only.
pub(crate) fn print_as_it_is(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| stdout_failure(&error))
}

/// Returns the failure of a write to stdout.
fn stdout_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::PipeClosed,
        _ => Failure::Failed(format!("cannot write to the standard output: {}", plain(error))),
    }
}

/// Writes a file by its name: a regular file appears complete or not at all, others are streamed
/// to.
pub(crate) fn write_file<T>(path: &Path, body: impl FnOnce(&mut Out) -> io::Result<T>) -> Result<T, Failure> {
    let place = OutputTarget::of(path).map_err(|error| Failure::writing(path, &error))?;
    file::write(&place, body).map_err(|error| match place {
        OutputTarget::Stdout => stdout_failure(&error),
        _ => Failure::writing(path, &error),
    })
}

/// Writes a text to a file by its name, as [`write_file`] does.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), Failure> {
    write_file(path, |out| out.write_all(text.as_bytes()))
}

/// Refuses, before the run, a target that cannot be written.
pub(crate) fn check_target(path: &Path) -> Result<(), Failure> {
    let refuse = |why: String| Failure::input(format!("cannot write `{}`: {why}", path.display()));
    let place = OutputTarget::of(path).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => refuse("it is a directory; name a file".to_owned()),
        _ => refuse(plain(&error)),
    })?;
    let OutputTarget::Regular(path) = place else { return Ok(()) };
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            Err(refuse(format!("there is no directory `{}`", dir.display())))
        }
        _ => Ok(()),
    }
}

/// `--json[=FILE]`, the same for every subcommand that prints figures.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JsonArgs {
    /// Print the result as JSON instead of text, or write it to a file in addition to the text
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl JsonArgs {
    /// Refuses, before the run, a file that cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.file().map_or(Ok(()), check_target)
    }

    /// Writes the JSON to its destination, and prints the text unless JSON takes its place.
    pub(crate) fn publish(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> String) -> Result<(), Failure> {
        self.publish_drawn(|| (text(), String::new()), json)
    }

    /// As [`publish`](Self::publish), of a text with plots behind it.
    pub(crate) fn publish_drawn(
        &self,
        text: impl FnOnce() -> (String, String),
        json: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let draw = || {
            let (text, plots) = text();
            print_with(&text, &plots)
        };
        match (&self.json, self.file()) {
            (None, _) => draw(),
            (Some(_), None) => print_as_it_is(&text::json(&json())),
            (Some(_), Some(path)) => {
                write_text(path, &text::json(&json()))?;
                draw()
            }
        }
    }

    /// Returns whether JSON is wanted.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.json.is_some()
    }

    /// Returns whether the JSON takes the place of the text.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.json.is_some() && self.file().is_none()
    }

    fn file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// `--html FILE`, the same for every subcommand that has one.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HtmlArgs {
    /// Write the result as one HTML file: plots, a zoomable timeline, explained waits
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl HtmlArgs {
    /// Returns whether the page is wanted.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.html.is_some()
    }

    /// Refuses, before the run, a file that cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.html.as_deref().map_or(Ok(()), check_target)
    }

    /// Writes the page, if it is wanted.
    pub(crate) fn publish(&self, page: impl FnOnce() -> Result<String, Failure>) -> Result<(), Failure> {
        self.html.as_deref().map_or(Ok(()), |path| write_text(path, &page()?))
    }

    /// Returns the heading of a page, and the command line that made it.
    pub(crate) fn about(title: impl std::fmt::Display) -> About {
        let quoted = |word: std::ffi::OsString| {
            let word = word.to_string_lossy().into_owned();
            let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
            let is_bare = !word.is_empty() && word.chars().all(is_plain);
            if is_bare { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
        };
        let arguments: Vec<String> = std::env::args_os().skip(1).map(quoted).collect();
        About { title: title.to_string(), command: format!("zerolag {}", arguments.join(" ")) }
    }
}
