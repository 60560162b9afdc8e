//! Text of ftrace and its tools.
//!
//! Three programs print the same trace points in four ways; [`read`] accepts them all, [`write()`]
//! writes the first:
//!
//! ```text
//! tracefs `trace`          rt-app-193   [000] dNs3.    23.940016: sched_waking: comm=rcu_preempt pid=18 prio=120 target_cpu=000
//! perf script --ns         rt-app   193 [000]    23.940016123: sched:sched_waking: comm=rcu_preempt pid=18 prio=120 target_cpu=000
//! trace-cmd report         rt-app-193   [000]    23.940016: sched_switch:  rt-app:193 [120] S ==> rcu_preempt:18 [120]
//! trace-cmd report -R      rt-app-193   [000]    23.940016: sched_switch:  prev_comm=rt-app prev_pid=193 prev_prio=120 prev_state=0x1 next_comm=...
//! ```
//!
//! The stages, one file each: a line into CPU, time, event and arguments; arguments into an event
//! of the kernel. Both have a short way for the usual spelling, which reads from a fixed end and
//! gives up at the first surprise, and the way that reads everything; bytes are looked for by words
//! (`bytes`). Events become a trace in `kernel`, as those of every other recorder. A command's
//! name can contain spaces, dashes, colons and equal signs, so names are cut at the *last* position
//! where the rest still fits.
//!
//! Sources: Linux v6.12 `kernel/trace/trace_output.c` (lines, flags),
//! `include/trace/events/sched.h` (fields), libtraceevent `plugin_sched_switch.c` (the second
//! spelling). Time of waking is `sched_waking`, as in Perfetto.

mod bytes;
mod event;
pub(crate) mod html;
mod line;
mod reader;
mod states;
mod stream;
mod write;

use crate::container::Trace;
use crate::error::ReadError;
use crate::kernel;
use crate::text::HEAD;
use line::Parsed;
use reader::{NO_TRACE_LINES, Reader, TRACER, overwritten, unknown};
use std::collections::BTreeSet;
use zerolag_model::{CpuId, Instant};

pub(crate) use stream::each;
pub use write::{TimeDigits, write, write_with};

/// Reads a text of tracefs, `perf script` or `trace-cmd report`.
///
/// Events other than scheduling, interrupts and IPIs are skipped. Lines that cannot be read are
/// left out and named in [`Recorded`](crate::Recorded). Lines need not be sorted. A last line
/// without a line break is left out too: the tools end every line, and a cut line can look whole
/// (`prio=12` of `prio=120`). Complexity: O(n log n) in lines, linear if they are sorted.
///
/// # Errors
/// More invalid lines than events (the first of them, and their number), no scheduler event, or no
/// line of a trace.
pub fn read(text: &str) -> Result<Trace, ReadError> {
    let mut reader = Reader::new(states::of_text(text.as_bytes()));
    let (whole, cut) = text.split_at(text.rfind('\n').map_or(0, |last| last + 1));
    let (mut number, mut rest) = (0, whole);
    while let Some(end) = bytes::find(rest.as_bytes(), b'\n') {
        number += 1;
        let line = &rest[..end];
        reader.take(number, line.strip_suffix('\r').unwrap_or(line), |event| event);
        if reader.is_no_trace() {
            return Err(unknown(text.as_bytes()));
        }
        rest = &rest[end + 1..];
    }
    reader.take_cut(number + 1, cut);
    let is_overwritten = reader.is_overwritten;
    let (head, events) = reader.finish(text.as_bytes())?;
    if !is_overwritten {
        return kernel::trace(head, events);
    }
    // Every CPU has its own buffer, and the trace begins with the first event of any.
    let cpus: BTreeSet<CpuId> = events.iter().map(|event| event.cpu).collect();
    let first = events.iter().map(|event| event.at).min().unwrap_or(Instant::ZERO);
    kernel::trace(head, overwritten(first, cpus).chain(events).collect())
}

/// As [`read`]; also returns each task's thread id, in order of task.
///
/// # Errors
/// As [`read`].
pub fn read_with_pids(text: &str) -> Result<(Trace, Vec<u32>), ReadError> {
    let trace = read(text)?;
    let tids = trace.meta.recorded.threads.iter().map(|thread| thread.tid).collect();
    Ok((trace, tids))
}

/// Returns whether the beginning of a text, of which no line is one of a trace, is enough to refuse
/// the text.
pub(crate) fn is_other_text(head: &str) -> bool {
    let foreign = head.lines().filter(|line| line::parse(line).is_err()).count();
    foreign >= NO_TRACE_LINES || (!head.contains('\n') && head.len() >= HEAD / 2)
}

/// Returns whether the beginning of a text has a line of a trace.
///
/// The remark `cpus=4` of trace-cmd is also a key of a workload (`[machine]`, `cpus=4`), so it
/// counts only in a text without a foreign line.
pub(crate) fn is_trace(text: &str) -> bool {
    let (mut has_remark, mut is_foreign) = (false, false);
    for line in text.lines().take(NO_TRACE_LINES) {
        match line::parse(line) {
            Ok(Parsed::Event(_) | Parsed::Overwritten(_)) => return true,
            _ if line.starts_with(TRACER) => return true,
            Ok(Parsed::Cpus(_)) if line.starts_with('#') => return true,
            Ok(Parsed::Cpus(_)) => has_remark = true,
            Ok(Parsed::Lost(..) | Parsed::Kernel(_) | Parsed::Stack(_) | Parsed::Frame(_) | Parsed::Nothing) => {}
            Err(_) => is_foreign = true,
        }
    }
    has_remark && !is_foreign
}

#[cfg(test)]
mod tests;
