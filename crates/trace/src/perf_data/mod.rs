//! `perf.data`: the file of `perf record` and `perf sched record`, also from a pipe, also packed by
//! `-z`.
//!
//! ```text
//! header ─► events (attr): how a sample is laid out ─┐
//!        ├► features: the trace points' formats, ... ├─► samples: CPU, time, thread, payload
//!        └► data: records ───────────────────────────┘   lost, comm, fork
//! ```
//!
//! * Samples of a CPU are in order, those of different CPUs are not; the trace is sorted.
//! * The trace point of a sample is the number at the start of its payload.
//! * `comm` and `fork` records tell names and processes; each sample has the process of its thread.
//! * A `lost` record stands where the CPU's buffer was full.
//! * A file that is cut off has lost its formats, which are at the end; without them nothing can be
//!   read. A pipe has them at the start.
//!
//! The reader is our own: `linux-perf-data` 0.13, the crate for it, allocates what a file announces
//! (a damaged one can ask for 16 EiB), divides by a size from the file, and returns nothing from a
//! file whose end is missing. Here every offset is checked and nothing of a sample is copied.
//!
//! Sources: Linux v6.12 `tools/perf/Documentation/perf.data-file-format.txt`,
//! `include/uapi/linux/perf_event.h`.

mod file;
mod layout;
mod stream;
mod window;

use crate::container::Trace;
use crate::error::ReadError;
use crate::file_bytes::FileBytes;
use crate::kernel;
use crate::kernel::event::Event;
use file::{Events, File, unpack};
use zerolag_model::Instant;

pub(crate) use stream::each;

/// Returns whether a file is one.
pub(crate) fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP")
}

/// Reads a file.
///
/// # Errors
/// It is damaged or cut off, or was recorded without CPU, time or payload of events.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let (file, data) = File::read(FileBytes::Memory(bytes))?;
    let unpacked = unpack(&file.packed, data.start)?;
    let (mut events, mut found) = (Events::of(&file), Vec::new());
    let end = events.records(bytes, data, &mut found)?;
    if end < bytes.len() && file.is_pipe {
        events.cut_off(end);
    }
    events.records(&unpacked, 0..unpacked.len(), &mut found)?;
    let first = events.first.unwrap_or(Instant::ZERO);
    // Names that perf collected before it started have no time.
    let late = found.into_iter().map(|event| Event { at: event.at.max(first), ..event });
    kernel::trace(events.head(), late.collect())
}

#[cfg(test)]
mod tests;
