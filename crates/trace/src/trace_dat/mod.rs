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

mod layout;
mod ring;
mod stream;

use crate::container::Trace;
use crate::error::ReadError;
use crate::ftrace;
use crate::kernel::event::{Context, Event, KernelEvent};
use crate::kernel::tracing_data::MAGIC;
use crate::kernel::{self, Head};
use crate::place::Place;
use layout::{Buffer, Clock, Contents, File, Part};
use ring::{Item, Ring};
use std::borrow::Cow;
use zerolag_model::{CpuId, MAX_CPUS};

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
    let place = Place::Memory(bytes);
    let file = layout::read(place)?;
    let mut unpacked = 0;
    for content in &file.contents {
        match content {
            Contents::Text(text) => return ftrace::read(&String::from_utf8_lossy(text)),
            Contents::Buffer(buffer) => {
                let clock = file.clock(&buffer.clock)?;
                let pages = buffer.parts.iter().map(|part| file.pages(place, part, &mut unpacked));
                match events(&file, &clock, buffer, &pages.collect::<Result<Vec<_>, _>>()?) {
                    Err(ReadError::NoEvents { .. }) => {}
                    done => return done,
                }
            }
        }
    }
    Err(ReadError::NoEvents { dropped: None })
}

/// Reads the events of one instance.
fn events(file: &File<'_>, clock: &Clock, buffer: &Buffer, pages: &[Cow<'_, [u8]>]) -> Result<Trace, ReadError> {
    let mut head = Head { cpus: file.cpus, kernel: file.kernel.clone(), ..Head::default() };
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
            events.push(event);
        }
    }
    head.lost = file.lost.saturating_sub(placed);
    kernel::trace(head, events)
}

impl Part {
    /// Returns its CPU.
    fn cpu(&self) -> Result<CpuId, ReadError> {
        let cpu = CpuId(self.cpu);
        let is_possible = cpu.index() < MAX_CPUS;
        is_possible.then_some(cpu).ok_or_else(|| damaged(self.range.start, "pages are of a CPU beyond 4095"))
    }

    /// Returns the error of a mistake at a place of its pages. The place in a packed file is that
    /// of the packed pages.
    fn damaged(&self, at: usize, reason: &str) -> ReadError {
        let start = self.range.start;
        damaged(if self.is_packed { start } else { start.saturating_add(at) }, reason)
    }
}

/// Returns the next event of a CPU that is used; `None` at the end.
fn next<'a>(
    file: &File<'_>,
    clock: &Clock,
    cpu: CpuId,
    ring: &mut Ring<'a>,
) -> Result<Option<Event<'a>>, &'static str> {
    while let Some((at, item)) = ring.next()? {
        let at = clock.time(at);
        match item {
            Item::Lost(events) => return Ok(Some(Event::new(at, cpu, KernelEvent::Lost { events }))),
            Item::Event(payload) => {
                let Some((current, context, event)) = event(file, payload)? else { continue };
                return Ok(Some(Event { current, context, ..Event::new(at, cpu, event) }));
            }
        }
    }
    Ok(None)
}

/// Decodes a payload; `None` if its trace point is not used.
#[expect(clippy::type_complexity, reason = "the parts of an event")]
fn event<'a>(
    file: &File<'_>,
    payload: &'a [u8],
) -> Result<Option<(Option<u32>, Context, KernelEvent<'a>)>, &'static str> {
    let number = file.order.at(payload, 0, 2).ok_or("an event has no number of a trace point")?;
    let Some(decoder) = file.decoders.get(&number) else { return Ok(None) };
    let event = decoder.decode(payload).ok_or("an event has an impossible value")?;
    // Byte 2 of every payload: flags. Byte 4: the thread.
    let context = Context::of_flags(payload.get(2).copied().unwrap_or(0).into());
    Ok(Some((file.order.u32(payload, 4), context, event)))
}

fn damaged(offset: usize, reason: &str) -> ReadError {
    ReadError::Damaged { format: "trace.dat", offset: offset as u64, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
