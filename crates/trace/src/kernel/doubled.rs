//! [`Doubled`]: events that a recorder has written twice.
//!
//! perf can store the same sample twice, some events long: a task then seems to be moved from a
//! CPU that it has just left. The copy has every value of the first, also its nanosecond, on the
//! same CPU. A switch, a wakeup, a fork or an end cannot be repeated within an instant, unless the
//! CPU has switched otherwise in between (a simulation without costs does); other events can where
//! times are microseconds, and are doubled only if they have nanoseconds.

use super::event::{Event, KernelEvent};
use super::skips::Skips;

/// Finds the events that are copies, in order of time.
#[derive(Default)]
pub(crate) struct Doubled<'a> {
    /// By number of the CPU, its events of the latest instant, from its last switch on.
    last: Vec<Vec<Event<'a>>>,
    pub(crate) skips: Skips,
}

impl<'a> Doubled<'a> {
    /// Returns whether the next event is a copy of one before.
    pub(crate) fn is_copy(&mut self, event: &Event<'a>) -> bool {
        let cpu = event.cpu.index();
        if cpu >= self.last.len() {
            self.last.resize_with(cpu + 1, Vec::new);
        }
        let last = &mut self.last[cpu];
        if last.first().is_none_or(|first| first.at != event.at) {
            last.clear();
        }
        if last.contains(event) && can_tell(event) {
            let (at, cpu) = (event.at, event.cpu);
            self.skips.note("events that are recorded twice", || format!("at {at} on CPU {cpu}"));
            return true;
        }
        if matches!(event.event, KernelEvent::Switch { .. }) {
            last.clear();
        }
        last.push(*event);
        false
    }
}

/// Returns whether two equal events are one.
const fn can_tell(event: &Event<'_>) -> bool {
    match event.event {
        KernelEvent::Switch { .. }
        | KernelEvent::Waking { .. }
        | KernelEvent::Wakeup { .. }
        | KernelEvent::WakeupNew { .. }
        | KernelEvent::Migrate { .. }
        | KernelEvent::Fork { .. }
        | KernelEvent::Exit { .. }
        | KernelEvent::PiSetprio { .. } => true,
        KernelEvent::Attach { .. }
        | KernelEvent::Charged { .. }
        | KernelEvent::Call(_)
        | KernelEvent::Message { .. }
        | KernelEvent::Ports(_) => !event.at.as_nanos().is_multiple_of(1000),
        // Without costs a CPU can send two IPIs to another one within an instant; a handler that is
        // entered twice is left twice.
        KernelEvent::IpiSend { .. } | KernelEvent::IrqEnter(_) | KernelEvent::IrqExit(_) => false,
        // Remarks, which say the same twice.
        KernelEvent::Process { .. } | KernelEvent::Name { .. } | KernelEvent::Lost { .. } => false,
    }
}
