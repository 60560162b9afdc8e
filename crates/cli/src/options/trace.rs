//! The trace of a run.

use crate::convert::TraceFormat;
use crate::failure::Failure;
use crate::tracing::Target;
use std::path::PathBuf;

/// The heading of options of traces.
pub(crate) const TRACE: &str = "Trace";

/// A trace of the whole run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Write a trace
    #[arg(long, help_heading = TRACE, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The trace's format [default: by extension, .zlt, .pftrace or .txt]
    #[arg(long, help_heading = TRACE, value_name = "FORMAT", requires = "trace")]
    trace_format: Option<TraceFormat>,
}

impl TraceArgs {
    /// Returns the place and format of the trace, and refuses early if it cannot be written.
    pub(crate) fn target(&self) -> Result<Option<Target<'_>>, Failure> {
        self.trace.as_deref().map(|path| Target::new(path, self.trace_format)).transpose()
    }
}
