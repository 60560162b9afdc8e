//! `--csv` and `--parquet`: results as tables for data frames, databases and spreadsheets.

use super::{check_target, write_file, write_text};
use crate::failure::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};
use zerolag::error::plain;
use zerolag::report::frame::{Frame, csv, parquet};

/// `--csv FILE` and `--parquet FILE`, the same for every subcommand whose result is one table.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// Write the result as CSV, a row per line of the table
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the same as a Parquet file
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
}

impl TableArgs {
    /// Refuses, before the run, files that cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        [&self.csv, &self.parquet].into_iter().flatten().try_for_each(|path| check_target(path))
    }

    /// Writes the table, if it is wanted.
    pub(crate) fn publish(&self, frame: impl FnOnce() -> Frame) -> Result<(), Failure> {
        if self.csv.is_none() && self.parquet.is_none() {
            return Ok(());
        }
        let frame = frame();
        if let Some(path) = &self.csv {
            write_text(path, &csv::of(&frame))?;
        }
        self.parquet.as_deref().map_or(Ok(()), |path| write_parquet(path, &frame))
    }
}

/// `--csv DIR` and `--parquet DIR`, the same for every subcommand whose result is several tables.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TablesArgs {
    /// Write the figures into a directory as CSV, a file per table: tasks.csv, cpus.csv, ...
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write the same as Parquet files: tasks.parquet, ...
    #[arg(long, value_name = "DIR")]
    parquet: Option<PathBuf>,
}

impl TablesArgs {
    /// Returns whether tables are wanted.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.csv.is_some() || self.parquet.is_some()
    }

    /// Refuses, before the run, directories that cannot be written.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for dir in [&self.csv, &self.parquet].into_iter().flatten() {
            if dir.exists() && !dir.is_dir() {
                let help = "the result is several tables: name a directory";
                return Err(Failure::input_help(format!("`{}` is no directory", dir.display()), help));
            }
            check_target(&if dir.exists() { dir.join("tasks") } else { dir.clone() })?;
        }
        Ok(())
    }

    /// Writes the tables that have columns, if they are wanted.
    pub(crate) fn publish(&self, frames: impl FnOnce() -> Vec<Frame>) -> Result<(), Failure> {
        if !self.are_wanted() {
            return Ok(());
        }
        let frames = frames();
        for frame in frames.iter().filter(|frame| !frame.columns().is_empty()) {
            if let Some(dir) = &self.csv {
                write_text(&inside(dir, frame, "csv")?, &csv::of(frame))?;
            }
            if let Some(dir) = &self.parquet {
                write_parquet(&inside(dir, frame, "parquet")?, frame)?;
            }
        }
        Ok(())
    }
}

/// Returns the file of a table in a directory, which is created if it does not exist.
fn inside(dir: &Path, frame: &Frame, ending: &str) -> Result<PathBuf, Failure> {
    if !dir.is_dir() {
        let failed = |error| Failure::Failed(format!("cannot create `{}`: {}", dir.display(), plain(&error)));
        // Another process may have created it since it was looked for.
        std::fs::create_dir(dir).or_else(|error| if dir.is_dir() { Ok(()) } else { Err(error) }).map_err(failed)?;
    }
    Ok(dir.join(format!("{}.{ending}", frame.name())))
}

/// Writes a table as a Parquet file.
pub(crate) fn write_parquet(path: &Path, frame: &Frame) -> Result<(), Failure> {
    write_file(path, |out| out.write_all(&parquet::of(frame)))
}
