//! Trace container, readers and writers of zerolag.
//!
//! A [`Trace`] is a [`Meta`] (origin, machine, settings) and [`Record`](zerolag_model::Record)s in
//! order of time. It comes from a simulation, from the runtime, from a run on the host's kernel, or
//! from the text output of a kernel's tools. Checks and reports can tell the difference only by
//! [`Meta::source`].
//!
//! | module | format | read | write |
//! |---|---|---|---|
//! | [`zlt`] | own binary container, exact | yes | yes, streaming |
//! | `perfetto` | protobuf of Perfetto | yes | yes, streaming |
//! | [`ftrace`] | tracefs `trace`, `perf script`, `trace-cmd report` text | yes, all | tracefs `trace` |
//! | `perf_data` | `perf.data` of perf | yes | no |
//! | `trace_dat` | `trace.dat` of trace-cmd | yes | no |
//!
//! [`script`] builds traces by hand. [`Replay`] computes which task runs, waits and sleeps at every
//! moment; [`fn@open`] and [`Trace::from_bytes`] recognise the format and unpack xz, gzip and zstd
//! archives.
//!
//! Without the feature `recordings`, which is on by default, the readers of archives, `perf.data`,
//! `trace.dat` and Perfetto are left out, and with them every dependency: for programs that only
//! write traces.
#![warn(missing_docs)]

mod container;
mod error;
#[cfg(feature = "recordings")]
mod file_bytes;
mod formats;
pub mod ftrace;
pub mod groups;
mod kernel;
mod meta;
mod open;
mod packed;
#[cfg(feature = "recordings")]
mod perf_data;
#[cfg(feature = "recordings")]
pub mod perfetto;
pub mod replay;
pub mod script;
mod table;
mod task_clock;
mod text;
mod tool_output;
#[cfg(feature = "recordings")]
mod trace_dat;
pub mod zlt;

pub use container::Trace;
pub use error::{LineError, ReadError};
pub use meta::{Gap, Machine, Means, Message, Meta, Recorded, Skipped, Source, Thread, Wakings};
pub use open::{is_trace, open, stream, stream_recording};
pub use replay::Replay;
pub use table::{IdTable, TableId};
pub use task_clock::{Ended, Moment, TaskClock};
pub use tool_output::{ToolOutput, tool_output};
pub use zlt::{TraceReader, TraceWriter};
