//! A trace of a run, written while it runs.

use super::convert::TraceFormat;
use super::failure::Failure;
use super::output;
use std::io;
use std::path::Path;
use std::sync::Arc;
use zerolag::model::state::StateHistory;
use zerolag::model::{Instant, Record};
use zerolag::sim::Sink;
use zerolag::trace::perfetto::PerfettoWriter;
use zerolag::trace::{Meta, Trace, TraceWriter, ftrace};
use zerolag::workload::Program;
use zerolag::{Error, Plan};
use zerolag_tools::rtapp_marks::{Category, Marks};

/// The place and format of a trace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    path: &'a Path,
    format: TraceFormat,
    /// The marks of rt-app in the text.
    marks: &'a [Category],
}

impl<'a> Target<'a> {
    /// Chooses the format by the file's extension if none is given, and refuses early if the file
    /// cannot be written.
    pub(crate) fn new(path: &'a Path, format: Option<TraceFormat>) -> Result<Self, Failure> {
        output::check_target(path)?;
        let format = match format {
            Some(format) => format,
            None => TraceFormat::of(path)?,
        };
        Ok(Self { path, format, marks: &[] })
    }

    /// Returns whether the format has counters for the scheduler's own numbers.
    pub(crate) fn shows_state(self) -> bool {
        self.format == TraceFormat::Perfetto
    }

    /// Requests marks of rt-app, which only the text of tracefs can contain.
    pub(crate) fn with_marks(self, marks: &'a [Category]) -> Result<Self, Failure> {
        if marks.is_empty() || self.format == TraceFormat::Ftrace {
            return Ok(Self { marks, ..self });
        }
        let help = "end the trace's name in .txt";
        Err(Failure::input_help("marks of rt-app are lines of the text that tracefs prints".to_owned(), help))
    }

    /// Writes a whole trace of a program.
    pub(crate) fn write(self, trace: &Trace, program: &Arc<Program>) -> Result<(), Failure> {
        match self.format {
            TraceFormat::Ftrace => write_text(self.path, trace, program, self.marks),
            TraceFormat::Zlt | TraceFormat::Perfetto => super::convert::write(self.path, self.format, trace),
        }
    }
}

/// Writes the text of tracefs, with rt-app's marks if requested.
fn write_text(path: &Path, trace: &Trace, program: &Arc<Program>, marks: &[Category]) -> Result<(), Failure> {
    let mut made = (!marks.is_empty()).then(|| Marks::new(Arc::clone(program), marks));
    let lines = |record: Option<&Record>| match (&mut made, record) {
        (None, _) => Vec::new(),
        (Some(made), Some(record)) => made.at(record),
        (Some(made), None) => made.finish(),
    };
    output::write_file(path, |out| ftrace::write_with(out, trace, ftrace::TimeDigits::Nanos, lines))
}

/// The destination of records.
pub(crate) enum Recorder<'w> {
    /// None.
    Off,
    /// A file, written during the run; and the first error.
    Zlt(TraceWriter<&'w mut output::Out>, Option<io::Error>),
    /// Packets of Perfetto, written during the run; and the first error.
    Perfetto(Box<PerfettoWriter<&'w mut output::Out>>, Option<io::Error>),
    /// Memory.
    Kept(Vec<Record>),
}

impl Sink for Recorder<'_> {
    fn record(&mut self, record: &Record) {
        match self {
            Self::Off => {}
            Self::Zlt(writer, failed @ None) => *failed = writer.push(record).err(),
            Self::Perfetto(writer, failed @ None) => *failed = writer.push(record).err(),
            Self::Zlt(_, Some(_)) | Self::Perfetto(_, Some(_)) => {}
            Self::Kept(records) => records.push(record.clone()),
        }
    }
}

impl Recorder<'_> {
    /// Takes the scheduler's own numbers, behind the last record.
    pub(crate) fn state(&mut self, history: &StateHistory) {
        if let Self::Perfetto(writer, failed @ None) = self {
            *failed = writer.state(history).err();
        }
    }
}

/// Runs `body` with a recorder and writes the trace. `body` returns its result and the end of the
/// run.
pub(crate) fn record<T>(
    plan: &Plan,
    target: Option<Target<'_>>,
    body: impl FnOnce(&mut Recorder<'_>) -> Result<(T, Instant), Error>,
) -> Result<T, Failure> {
    let meta = plan.meta();
    let Some(Target { path, format, marks }) = target else {
        return body(&mut Recorder::Off).map(|(value, _)| value).map_err(Failure::from);
    };
    match format {
        TraceFormat::Zlt | TraceFormat::Perfetto => {
            let mut refused = None;
            let written = output::write_file(path, |out| {
                let mut recorder = match format {
                    TraceFormat::Perfetto => Recorder::Perfetto(Box::new(PerfettoWriter::new(out, &meta)?), None),
                    TraceFormat::Zlt | TraceFormat::Ftrace => Recorder::Zlt(TraceWriter::new(out, &meta)?, None),
                };
                let (value, end) = body(&mut recorder).map_err(|error| {
                    refused = Some(error);
                    io::Error::other("nothing was run")
                })?;
                match recorder {
                    Recorder::Zlt(_, Some(error)) | Recorder::Perfetto(_, Some(error)) => Err(error),
                    Recorder::Perfetto(writer, None) => writer.finish(end).map(|()| value),
                    Recorder::Zlt(writer, None) => writer.finish(end, 0).map(|_| value),
                    Recorder::Off | Recorder::Kept(_) => unreachable!("it was made above"),
                }
            });
            refused.map_or(written, |error| Err(error.into()))
        }
        TraceFormat::Ftrace => {
            let mut recorder = Recorder::Kept(Vec::new());
            let (value, end) = body(&mut recorder).map_err(Failure::from)?;
            let Recorder::Kept(records) = recorder else { unreachable!("it was made above") };
            let trace = Trace { meta: Meta { end, ..meta }, records };
            write_text(path, &trace, &plan.program, marks).map(|()| value)
        }
    }
}
