//! `--csv`: results as tables for data frames, databases and spreadsheets.

use super::{check_target, write_text};
use crate::cli::failure::Failure;
use std::path::{Path, PathBuf};
use zerolag::error::plain;
use zerolag::report::frame::{Frame, csv};

/// `--csv FILE`, the same for every subcommand whose result is one table.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// Write the result as CSV, a row per line of the table
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl TableArgs {
    /// Refuses, before the run, a file that cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.csv.as_deref().map_or(Ok(()), check_target)
    }

    /// Writes the table, if it is wanted.
    pub(crate) fn publish(&self, frame: impl FnOnce() -> Frame) -> Result<(), Failure> {
        self.csv.as_deref().map_or(Ok(()), |path| write_text(path, &csv::of(&frame())))
    }
}

/// `--csv DIR`, the same for every subcommand whose result is several tables.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TablesArgs {
    /// Write the figures into a directory as CSV, a file per table: tasks.csv, cpus.csv, ...
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
}

impl TablesArgs {
    /// Returns whether tables are wanted.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.csv.is_some()
    }

    /// Refuses, before the run, a directory that cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let Some(dir) = &self.csv else { return Ok(()) };
        if dir.exists() && !dir.is_dir() {
            let help = "the result is several tables: name a directory";
            return Err(Failure::input_help(format!("`{}` is no directory", dir.display()), help));
        }
        check_target(&if dir.exists() { dir.join("tasks.csv") } else { dir.clone() })
    }

    /// Writes the tables that have columns, if they are wanted.
    pub(crate) fn publish(&self, frames: impl FnOnce() -> Vec<Frame>) -> Result<(), Failure> {
        let Some(dir) = &self.csv else { return Ok(()) };
        for frame in frames().iter().filter(|frame| !frame.columns().is_empty()) {
            write_text(&inside(dir, frame)?, &csv::of(frame))?;
        }
        Ok(())
    }
}

/// Returns the file of a table in a directory, which is created if it does not exist.
fn inside(dir: &Path, frame: &Frame) -> Result<PathBuf, Failure> {
    if !dir.is_dir() {
        let failed = |error| Failure::Failed(format!("cannot create `{}`: {}", dir.display(), plain(&error)));
        std::fs::create_dir(dir).map_err(failed)?;
    }
    Ok(dir.join(format!("{}.csv", frame.name())))
}
