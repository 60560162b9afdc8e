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
mod line;
mod stream;
mod write;

use crate::container::Trace;
use crate::error::{LineError, ReadError};
use crate::kernel::event::{Event, KernelEvent};
use crate::kernel::means::Stack;
use crate::kernel::tids::TidTable;
use crate::kernel::{self, Head};
use line::{Line, Parsed};
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::{CpuId, Instant};

pub(crate) use stream::each;
pub use write::{TimeDigits, write, write_with};

/// Reads a text of tracefs, `perf script` or `trace-cmd report`.
///
/// Events other than scheduling, interrupts and IPIs are skipped. Lines need not be sorted. A last
/// line without a line break is left out, and named in [`Recorded`](crate::Recorded): the tools end
/// every line, and a cut line can look whole (`prio=12` of `prio=120`). Complexity: O(n log n) in
/// lines, linear if they are sorted.
///
/// # Errors
/// Invalid lines (the first of them, and their number), no scheduler event, or no line of a trace.
pub fn read(text: &str) -> Result<Trace, ReadError> {
    let mut reader = Reader::default();
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
            Ok(Parsed::Lost(..) | Parsed::Stack(_) | Parsed::Frame(_) | Parsed::Nothing) => {}
            Err(_) => is_foreign = true,
        }
    }
    has_remark && !is_foreign
}

#[derive(Default)]
struct Reader<'a> {
    errors: Errors,
    events: Vec<Event<'a>>,
    /// The number of events before these, if it is read as a stream.
    given: usize,
    /// The time of the last of these.
    last_given: Instant,
    head: Head,
    /// Whether there is a line of a tracer.
    has_tracer: bool,
    /// Lines of a trace, also of events that are not used.
    valid: u64,
    /// Remarks on lost events that stand before the next event of their CPU.
    lost: BTreeMap<CpuId, u64>,
    /// The process of each thread that was seen.
    processes: TidTable<Option<u32>>,
    /// Whether the oldest events were overwritten.
    is_overwritten: bool,
    /// The last waking of each CPU: tracefs writes its stack as an event of its own.
    wakings: Vec<Option<usize>>,
    /// The waking whose stack may follow, and what of it was read.
    stack: Option<(usize, Stack)>,
}

impl<'a> Reader<'a> {
    /// Takes a line. `keep` makes an event last as long as the reader.
    fn take<'l>(&mut self, number: usize, text: &'l str, keep: impl FnOnce(KernelEvent<'l>) -> KernelEvent<'a>) {
        let parsed = line::parse(text);
        if let Ok(Parsed::Frame(function)) = parsed {
            if let Some((_, stack)) = &mut self.stack {
                stack.frame(function);
            }
            return;
        }
        self.end_stack();
        match parsed {
            Ok(Parsed::Event(line)) => {
                self.valid += 1;
                self.event(number, text, &line, keep);
            }
            Ok(Parsed::Stack(cpu)) => {
                let waking = self.wakings.get(cpu.index()).copied().flatten();
                self.stack = waking.map(|waking| (waking, Stack::default()));
            }
            // Above.
            Ok(Parsed::Frame(_)) => {}
            Ok(Parsed::Lost(None, events)) => self.head.lost = self.head.lost.saturating_add(events.max(1)),
            Ok(Parsed::Lost(Some(cpu), events)) => {
                let lost = self.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(events);
            }
            Ok(Parsed::Overwritten(events)) => {
                self.valid += 1;
                self.is_overwritten = true;
                self.head.lost = self.head.lost.saturating_add(events);
            }
            Ok(Parsed::Cpus(cpus)) => {
                self.valid += 1;
                self.head.cpus = self.head.cpus.max(cpus);
            }
            Ok(Parsed::Nothing) => self.has_tracer |= text.starts_with(TRACER),
            Err(reason) => self.errors.push(number, 0, reason),
        }
    }

    /// Gives a waking what its stack tells.
    fn end_stack(&mut self) {
        if let Some((waking, stack)) = self.stack.take()
            && let Some((means, context)) = stack.tells()
        {
            let event = &mut self.events[waking - self.given];
            (event.means, event.context) = (means, context);
        }
    }

    /// Takes the text behind the last line break: nothing, or a line of which the end is missing.
    fn take_cut(&mut self, number: usize, text: &str) {
        let is_event = match line::parse(text) {
            Ok(Parsed::Event(_)) => true,
            Ok(Parsed::Nothing) => {
                self.has_tracer |= text.starts_with(TRACER);
                return;
            }
            Ok(Parsed::Stack(_) | Parsed::Frame(_) | Parsed::Lost(..) | Parsed::Overwritten(_) | Parsed::Cpus(_))
            | Err(_) => false,
        };
        self.valid += u64::from(is_event);
        self.head.dropped = Some(format!("line {number}, the last, has no line break: it is cut off and was left out"));
    }

    fn event<'l>(
        &mut self,
        number: usize,
        text: &str,
        line: &Line<'l>,
        keep: impl FnOnce(KernelEvent<'l>) -> KernelEvent<'a>,
    ) {
        let (at, cpu) = (line.at, line.cpu);
        if let Some(events) = self.lost.remove(&cpu) {
            self.events.push(Event::new(at, cpu, KernelEvent::Lost { events }));
        }
        let ids = line.ids();
        if let Some((tid, Some(pid))) = ids
            && tid != 0
            && self.processes.entry(tid).replace(pid) != Some(pid)
        {
            self.events.push(Event::new(at, cpu, KernelEvent::Process { tid, pid }));
        }
        let current = ids.map(|(tid, _)| tid);
        match event::parse(line.event, line.args) {
            Ok(Some(event)) => {
                let event = keep(event);
                self.note_waking(cpu, &event);
                self.events.push(Event { current, context: line.context, ..Event::new(at, cpu, event) });
            }
            Ok(None) => self.head.saw_cpu(cpu),
            Err(reason) => self.errors.push(number, column_of(text, line.args), reason),
        }
    }

    /// Notes the place of an event that is next: a waking can have a stack.
    fn note_waking(&mut self, cpu: CpuId, event: &KernelEvent<'_>) {
        let waking = matches!(event, KernelEvent::Waking { .. }).then_some(self.given + self.events.len());
        if waking.is_none() && self.wakings.is_empty() {
            return;
        }
        if cpu.index() >= self.wakings.len() {
            self.wakings.resize(cpu.index() + 1, None);
        }
        self.wakings[cpu.index()] = waking;
        // perf writes it in the lines that follow.
        self.stack = waking.map(|waking| (waking, Stack::default()));
    }

    /// Takes out the events that no later line changes: those before the first waking whose stack
    /// may follow. A stack follows within few events.
    fn ready(&mut self) -> Vec<Event<'a>> {
        let open = self.wakings.iter().flatten().copied().chain(self.stack.map(|(waking, _)| waking)).min();
        let held = self.events.len().saturating_sub(HELD_MAX);
        let ready = open.map_or(self.events.len(), |open| (open - self.given).max(held));
        for waking in &mut self.wakings {
            *waking = waking.filter(|waking| *waking >= self.given + ready);
        }
        self.stack = self.stack.filter(|(waking, _)| *waking >= self.given + ready);
        self.given += ready;
        self.last_given = self.events[..ready].iter().map(|event| event.at).fold(self.last_given, Instant::max);
        self.events.drain(..ready).collect()
    }

    /// Returns whether so many lines were refused, and none accepted, that it is another kind of
    /// file: one error, not one per line.
    const fn is_no_trace(&self) -> bool {
        self.valid == 0 && self.errors.total >= NO_TRACE_LINES as u64
    }

    /// Ends the reading; returns the events that were not taken out. `text` is the beginning, for
    /// an error.
    fn finish(mut self, text: &[u8]) -> Result<(Head, Vec<Event<'a>>), ReadError> {
        self.end_stack();
        if self.valid == 0 && !self.has_tracer {
            return Err(unknown(text));
        }
        if self.errors.total > 0 {
            return Err(ReadError::Text { errors: self.errors.first, total: self.errors.total });
        }
        let last = self.events.iter().map(|event| event.at).fold(self.last_given, Instant::max);
        let lost = core::mem::take(&mut self.lost).into_iter();
        self.events.extend(lost.map(|(cpu, events)| Event::new(last, cpu, KernelEvent::Lost { events })));
        Ok((self.head, self.events))
    }
}

/// Returns the remarks of CPUs whose oldest events were overwritten.
fn overwritten<'a>(first: Instant, cpus: impl IntoIterator<Item = CpuId>) -> impl Iterator<Item = Event<'a>> {
    cpus.into_iter().map(move |cpu| Event::new(first, cpu, KernelEvent::Lost { events: 0 }))
}

fn unknown(text: &[u8]) -> ReadError {
    ReadError::Unknown { begins: crate::open::escaped(text) }
}

/// Returns the column, from 1, at which a part of a line begins.
fn column_of(line: &str, part: &str) -> usize {
    let before = (part.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.get(..before).map_or(0, |before| before.chars().count() + 1)
}

/// The first errors of a text and their number: a binary file would have one per line.
#[derive(Default)]
struct Errors {
    first: Vec<LineError>,
    total: u64,
}

impl Errors {
    fn push(&mut self, line: usize, column: usize, reason: String) {
        self.total += 1;
        if self.first.len() < MAX_ERRORS {
            self.first.push(LineError { line, column, reason });
        }
    }
}

const MAX_ERRORS: usize = 20;
/// So many events are kept at most until the stack of a waking among them is read.
const HELD_MAX: usize = 1 << 16;
const TRACER: &str = "# tracer: ";
/// After so many lines without one of a trace, the text is something else.
const NO_TRACE_LINES: usize = 200;

#[cfg(test)]
mod tests;
