//! Traces of Perfetto: read, of Linux and Android ([`Trace::from_bytes`](crate::Trace)); and
//! written for its viewer and trace processor: [`PerfettoWriter`], [`write()`].
//!
//! The tracks of the viewer, and their sources:
//!
//! | track | from |
//! |---|---|
//! | CPU n | `sched_switch`, as compact arrays per CPU |
//! | thread states | the same, and `sched_waking`; a preempted thread is "Runnable (Preempted)" |
//! | CPU n interrupts | `irq_handler_entry`, `softirq_entry` and their ends |
//! | CPU n run queue lock | slices: this CPU spins for a run queue's lock |
//! | CPU n RT overload | a counter: 1 while RT tasks wait that could run elsewhere |
//! | CPU n throttled /group, CPU n RT throttled | slices: a limit is exhausted |
//! | CPU n fair server | slices: its state, `deferred`, `queued`, `throttled` |
//! | thread slices | phases of its program; waits for locks; missed timers and time stamps as instants |
//!
//! Threads of one task definition are threads of one process. Task `n` gets process id `n + 1000`,
//! as in our ftrace text, so that 0 stays the idle task. The kernel's release is always written:
//! without it the trace processor interprets state numbers as those of Linux 4.4 and calls a
//! preempted thread "Wake Kill".
//!
//! Packets are written while records arrive: memory is O(CPUs + tasks) and a buffer per CPU. A
//! switch takes some 12 bytes: time since the previous switch, state, thread, priority and the
//! index of its name.
//!
//! Source of the format: Perfetto `protos/perfetto/trace/trace_packet.proto`,
//! `ftrace/ftrace_event_bundle.proto`; `src/trace_processor/importers/ftrace/ftrace_tokenizer.cc`,
//! `TokenizeFtraceCompactSched`, for how it is read.

mod packets;
pub(crate) mod reader;
mod schema;
pub(crate) mod stream;
mod tracks;
mod writer;

pub use writer::{PerfettoWriter, write};
