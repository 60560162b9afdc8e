//! `zerolag convert`: a trace in another format.

use super::failure::Failure;
use super::{Done, code, input, output};
use std::path::{Path, PathBuf};
use zerolag::trace::{Trace, ftrace, perfetto};

/// Arguments of `zerolag convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The trace to read, in any known format
    input: PathBuf,
    /// The file to write; its extension selects the format: .zlt is zerolag's own, .pftrace or
    /// .perfetto-trace that of the Perfetto viewer, .txt the text of tracefs
    output: PathBuf,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> Done {
    let format = TraceFormat::of(&args.output)?;
    output::check_target(&args.output)?;
    let trace = input::trace(&args.input)?;
    write(&args.output, format, &trace)?;
    Ok(code::OK)
}

/// Writes a trace.
pub(crate) fn write(path: &Path, format: TraceFormat, trace: &Trace) -> Result<(), Failure> {
    output::write_file(path, |out| match format {
        TraceFormat::Zlt => trace.write(out),
        TraceFormat::Perfetto => perfetto::write(out, trace),
        TraceFormat::Ftrace => ftrace::write(out, trace, ftrace::TimeDigits::Nanos),
    })
}

/// The formats that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum TraceFormat {
    /// zerolag's own: exact and complete
    Zlt,
    /// Protobuf for the Perfetto viewer (ui.perfetto.dev) and its trace processor
    Perfetto,
    /// The text that tracefs prints
    Ftrace,
}

impl TraceFormat {
    /// Chooses by the file's extension.
    pub(crate) fn of(path: &Path) -> Result<Self, Failure> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("zlt") => Ok(Self::Zlt),
            Some("pftrace" | "perfetto-trace") => Ok(Self::Perfetto),
            Some("txt" | "ftrace") => Ok(Self::Ftrace),
            Some("toml") => Err(Failure::input_help(
                format!("`{}` would be a workload; `convert` writes traces", path.display()),
                "a workload that does what a trace shows: `zerolag import TRACE -o FILE.toml`",
            )),
            _ => Err(Failure::input_help(
                format!("`{}` has no extension that selects a format", path.display()),
                "end the name in .zlt (zerolag's own), .pftrace (Perfetto) or .txt (text as tracefs prints it)",
            )),
        }
    }
}
