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

use crate::container::Trace;
use crate::error::ReadError;
use crate::ftrace;
use crate::kernel::event::{Context, Event, KernelEvent};
use crate::kernel::tracing_data::MAGIC;
use crate::kernel::{self, Head};
use layout::{Buffer, Contents, File};
use ring::Item;
use zerolag_model::{CpuId, MAX_CPUS};

/// Returns whether a file is one.
pub(crate) fn is(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a file.
///
/// # Errors
/// It is damaged or cut off, of another version, or its clock does not tell the time.
pub(crate) fn read(bytes: &[u8]) -> Result<Trace, ReadError> {
    let mut file = layout::read(bytes)?;
    let contents = core::mem::take(&mut file.contents);
    let mut last = None;
    for content in &contents {
        match content {
            Contents::Text(text) => return ftrace::read(&String::from_utf8_lossy(text)),
            Contents::Buffer(buffer) => match events(&file, buffer) {
                Err(ReadError::NoEvents { dropped }) => last = Some(dropped),
                done => return done,
            },
        }
    }
    Err(ReadError::NoEvents { dropped: last.flatten() })
}

/// Reads the events of one instance.
fn events(file: &File, buffer: &Buffer<'_>) -> Result<Trace, ReadError> {
    let clock = file.clock(&buffer.clock)?;
    let mut head = Head { cpus: file.cpus, kernel: file.kernel.clone(), ..Head::default() };
    let mut events = Vec::new();
    let mut placed: u64 = 0;
    for part in &buffer.parts {
        let cpu = CpuId(part.cpu);
        if cpu.index() >= MAX_CPUS {
            return Err(damaged(part.at, "pages are of a CPU beyond 4095"));
        }
        head.saw_cpu(cpu);
        let mut ring = ring::Ring::new(file.order, buffer.page, &part.bytes);
        loop {
            // The place in a packed file is that of the packed pages.
            let wrong = |ring: &ring::Ring<'_>, reason| {
                damaged(if part.is_packed { part.at } else { part.at.saturating_add(ring.at()) }, reason)
            };
            match ring.next().map_err(|reason| wrong(&ring, reason))? {
                None => break,
                Some((at, Item::Lost(events_lost))) => {
                    placed = placed.saturating_add(events_lost);
                    events.push(Event::new(clock.time(at), cpu, KernelEvent::Lost { events: events_lost }));
                }
                Some((at, Item::Event(payload))) => {
                    let event = event(file, payload).map_err(|reason| wrong(&ring, reason))?;
                    let Some((current, context, event)) = event else { continue };
                    events.push(Event { current, context, ..Event::new(clock.time(at), cpu, event) });
                }
            }
        }
    }
    head.lost = file.lost.saturating_sub(placed);
    kernel::trace(head, events)
}

/// Decodes a payload; `None` if its trace point is not used.
#[expect(clippy::type_complexity, reason = "the parts of an event")]
fn event<'a>(file: &File, payload: &'a [u8]) -> Result<Option<(Option<u32>, Context, KernelEvent<'a>)>, &'static str> {
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
