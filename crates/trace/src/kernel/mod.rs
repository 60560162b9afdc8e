//! Traces that a kernel's recorders write: from the events of the kernel to a [`Trace`].
//!
//! Text, `perf.data`, Perfetto's and trace-cmd's files contain the same trace points in different
//! containers. A reader of a container ends in a list of [`KernelEvent`](event::KernelEvent)s, and
//! everything after that is here and the same for all:
//!
//! ```text
//! container ─► events of the kernel ─► clock, doubled: what is left out
//!                  ▲                 └► gaps: lost events, repaired switches ─► build: tasks, records
//!                  └── raw: a payload, decoded by the text that describes it (format, state)
//! ```
//!
//! The gaps of a recording, and how they are filled:
//!
//! * **Ids.** A thread id can be reused; every fork creates a new task. Tasks are numbered in order
//!   of appearance. Thread and process ids are kept in [`Recorded`](crate::Recorded).
//! * **Names.** A task has its last name: a shell forks, then the program sets its own name.
//! * **Attributes.** Only the effective priority is recorded: FIFO stands for both real-time
//!   policies, a deadline task has parameters of zero. A priority that changes without a
//!   `sched_pi_setprio` is treated as a `sched_setattr`.
//! * **Affinities** are not recorded; checks see that from [`Meta::source`](crate::Meta).
//! * **Target of a waking:** the kernel writes the CPU where the task last was. The migration that
//!   follows within the wakeup gets [`MigrateReason::Wakeup`](zerolag_model::MigrateReason).
//! * **Interrupts** of a kind of which only the start was recorded are dropped.
//! * **Messages:** what tasks send to sockets and receive from them, see [`messages`].
//! * **By what** a task was woken is told by a stack or by system calls, see [`means`].
//! * **Lost events** leave [`Gap`](crate::Gap)s, see [`gaps`].

mod build;
mod clock;
pub(crate) mod context;
mod doubled;
pub(crate) mod event;
#[cfg(feature = "recordings")]
pub(crate) mod format;
mod gaps;
pub(crate) mod head;
pub(crate) mod means;
mod messages;
pub(crate) mod pool;
#[cfg(feature = "recordings")]
pub(crate) mod raw;
pub(crate) mod skips;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod tids;
#[cfg(feature = "recordings")]
pub(crate) mod tracing_data;

use crate::container::Trace;
use crate::error::ReadError;
use event::Event;
#[cfg(feature = "recordings")]
pub(crate) use head::reserve;
pub(crate) use head::{Head, is_scheduling};

/// Returns the trace of events, which need not be sorted. Complexity: O(n log n) in events, linear
/// if they are sorted.
///
/// # Errors
/// There is no event, or too little memory.
pub(crate) fn trace(mut head: Head, mut events: Vec<Event<'_>>) -> Result<Trace, ReadError> {
    if !head.has_times() && !events.iter().any(is_scheduling) {
        return Err(ReadError::NoEvents { dropped: head.dropped });
    }
    // Stable: events of one instant stay in their recorded order.
    events.sort_by_key(|event| event.at);
    clock::repair(&mut events, &mut head.skips);
    let mut doubled = doubled::Doubled::default();
    events.retain(|event| !doubled.is_copy(event));
    head.skips.append(doubled.skips);
    let gaps = gaps::find(&mut events)?;
    build::build(head, &events, gaps)
}
