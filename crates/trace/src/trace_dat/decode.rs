//! The next event of a CPU: an item of its ring, decoded by the trace points of the file.

use super::layout::{Clock, File};
use super::ring::{Item, Ring};
use crate::kernel::context::Context;
use crate::kernel::event::{Event, KernelEvent};
use zerolag_model::CpuId;

/// Returns the next event of a CPU that is used; `None` at the end.
pub(super) fn next<'a>(
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
