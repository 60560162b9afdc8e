//! `trace.dat`: the file of `trace-cmd record`, versions 6 and 7.
//!
//! ```text
//! version 6  trace points ─► symbols, names ─► options ─► place of each CPU's pages
//! version 7  place of the options ─► options ─► places of sections: trace points, pages
//! pages      time of the first event, size ─► events: delta of time, payload
//! ```
//!
//! * The pages are the kernel's ring buffer, one list per CPU; see [`ring`]. Events of a CPU are
//!   in order, the trace is sorted.
//! * A page says that events before it were lost, and how many; the statistics of the buffers,
//!   which are an option, tell of more.
//! * Version 7 can be packed by zlib or zstd, sections as a whole and pages in chunks.
//! * Of several instances the first one with events of the scheduler is read, the top one first.
//! * Processes of threads are not in the file.
//!
//! The reader is our own: the one crate for these files, `libtracecmd`, wraps the C library. Here
//! every offset is checked, sizes that a file announces are not allocated, and nothing of an event
//! is copied.
//!
//! Sources: the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5); Linux v6.12
//! `include/linux/ring_buffer.h`, `kernel/trace/ring_buffer.c` (`RB_MISSED_EVENTS`).

mod decode;
mod layout;
mod ring;
pub(crate) mod schedviz;
mod stream;

use crate::container::Trace;
use crate::error::ReadError;
use crate::file_bytes::FileBytes;
use crate::ftrace;
use crate::kernel::event::KernelEvent;
use crate::kernel::tracing_data::MAGIC;
use crate::kernel::{self, Head};
use decode::next;
use layout::{Buffer, Clock, Contents, FORMAT, File};
use ring::Ring;
use std::borrow::Cow;

pub(crate) use stream::each;

/// Returns whether a file is one.
pub(crate) fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a file.
///
/// # Errors
/// It is damaged or cut off, of another version, or its clock does not tell the time.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let place = FileBytes::Memory(bytes);
    contents(&layout::read(place)?, place, FORMAT)
}

/// Reads an archive of SchedViz.
///
/// # Errors
/// It is damaged, or has no buffers of ftrace.
pub(crate) fn read_schedviz(bytes: &[u8]) -> Result<Trace, ReadError> {
    let file = schedviz::layout(bytes)?;
    contents(&file, FileBytes::Memory(bytes), schedviz::FORMAT).map_err(|error| match error {
        ReadError::Damaged { offset, reason, .. } => ReadError::Damaged { format: schedviz::FORMAT, offset, reason },
        other => other,
    })
}

/// Reads the first instance that has events.
fn contents(file: &File<'_>, place: FileBytes<'_>, format: &'static str) -> Result<Trace, ReadError> {
    let mut unpacked = 0;
    for content in &file.contents {
        match content {
            Contents::Text(text) => return ftrace::read(&String::from_utf8_lossy(text)),
            Contents::Buffer(buffer) => {
                let clock = file.clock(&buffer.clock)?;
                let pages = buffer.parts.iter().map(|part| file.pages(place, part, &mut unpacked));
                match events(file, format, &clock, buffer, &pages.collect::<Result<Vec<_>, _>>()?) {
                    Err(ReadError::NoEvents { .. }) => {}
                    done => return done,
                }
            }
        }
    }
    Err(ReadError::NoEvents { dropped: None })
}

/// Reads the events of one instance.
fn events(
    file: &File<'_>,
    format: &'static str,
    clock: &Clock,
    buffer: &Buffer,
    pages: &[Cow<'_, [u8]>],
) -> Result<Trace, ReadError> {
    let mut head = Head { cpus: file.cpus, kernel: file.kernel.clone(), ..Head::of(format) };
    let mut events = Vec::new();
    let mut placed: u64 = 0;
    for (part, bytes) in buffer.parts.iter().zip(pages) {
        let cpu = part.cpu()?;
        head.saw_cpu(cpu);
        let mut ring = Ring::new(file.order, buffer.page, bytes);
        while let Some(event) = next(file, clock, cpu, &mut ring).map_err(|reason| part.damaged(ring.at(), reason))? {
            if let KernelEvent::Lost { events } = event.event {
                placed = placed.saturating_add(events);
            }
            kernel::reserve(&mut events, 1)?;
            events.push(event);
        }
    }
    head.lost = file.lost.saturating_sub(placed);
    kernel::trace(head, events)
}

#[cfg(test)]
mod tests;
