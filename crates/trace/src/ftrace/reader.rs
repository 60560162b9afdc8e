//! [`Reader`]: the lines of a text, one after the other, as events.
//!
//! A line that cannot be read is left out and counted: a message of `trace_printk` has a line
//! break, a disk was full within a line, the kernel's log is between the lines. An event that is
//! cut or malformed is one that was lost on its CPU. Only a text that has more of these than events
//! is refused, with the first of them and their number.

use super::event;
use super::line::{self, Line, Parsed};
use crate::error::{LineError, ReadError};
use crate::kernel::event::{Event, KernelEvent};
use crate::kernel::head::{Head, reserve};
use crate::kernel::means::Stack;
use crate::kernel::state::States;
use crate::kernel::tids::TidTable;
use crate::text::escaped;
use std::collections::BTreeMap;
use zerolag_model::{CpuId, Instant};

#[derive(Default)]
pub(super) struct Reader<'a> {
    /// The meaning of states that are numbers.
    states: States,
    errors: Errors,
    /// Whether the last event is one that is not used: its message can have further lines.
    is_in_message: bool,
    events: Vec<Event<'a>>,
    /// The error, if there is too little memory for more.
    full: Option<ReadError>,
    /// The number of events before these, if it is read as a stream.
    given: usize,
    /// The time of the last of these.
    last_given: Instant,
    head: Head,
    /// Whether there is a line of a tracer.
    has_tracer: bool,
    /// Lines of a trace, also of events that are not used.
    valid: u64,
    /// Lines of events that are malformed.
    malformed: u64,
    /// Remarks on lost events that stand before the next event of their CPU.
    lost: BTreeMap<CpuId, u64>,
    /// The process of each thread that was seen.
    processes: TidTable<Option<u32>>,
    /// Whether the oldest events were overwritten.
    pub(super) is_overwritten: bool,
    /// The last waking of each CPU: tracefs writes its stack as an event of its own.
    wakings: Vec<Option<usize>>,
    /// The waking whose stack may follow, and what of it was read.
    stack: Option<(usize, Stack)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(states: States) -> Self {
        Self { states, head: Head::of("text"), ..Self::default() }
    }

    /// Takes a line. `keep` makes an event last as long as the reader.
    pub(super) fn take<'l>(
        &mut self,
        number: usize,
        text: &'l str,
        keep: impl FnOnce(KernelEvent<'l>) -> KernelEvent<'a>,
    ) {
        // A line is at most an event, and two remarks.
        if self.full.is_none() {
            self.full = reserve(&mut self.events, 3).err();
        }
        if self.full.is_some() {
            return;
        }
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
            Ok(Parsed::Kernel(release)) => self.head.kernel = release.chars().take(64).collect(),
            Ok(Parsed::Nothing) => self.has_tracer |= text.starts_with(TRACER),
            Err(_) if self.is_in_message => {
                self.head.skips.note("lines that continue the message of an event", || format!("line {number}"));
            }
            Err(reason) => {
                self.head.skips.note("lines that are no event", || format!("line {number}, {reason}"));
                self.errors.push(number, 0, reason);
            }
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
    pub(super) fn take_cut(&mut self, number: usize, text: &str) {
        let is_event = match line::parse(text) {
            Ok(Parsed::Event(_)) => true,
            Ok(Parsed::Nothing) => {
                self.has_tracer |= text.starts_with(TRACER);
                return;
            }
            Ok(
                Parsed::Stack(_)
                | Parsed::Frame(_)
                | Parsed::Lost(..)
                | Parsed::Overwritten(_)
                | Parsed::Cpus(_)
                | Parsed::Kernel(_),
            )
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
        self.is_in_message = false;
        match event::parse(line.event, line.args, self.states) {
            Ok(Some(event)) => {
                let event = keep(event);
                self.note_waking(cpu, &event);
                self.events.push(Event { current, context: line.context, ..Event::new(at, cpu, event) });
            }
            Ok(None) => {
                self.is_in_message = true;
                self.head.saw_cpu(cpu);
            }
            Err(reason) => {
                let error = LineError { line: number, column: column_of(text, line.args), reason };
                self.head.skips.note("events that are cut or malformed", || error.to_string());
                self.malformed += 1;
                self.errors.push(number, error.column, error.reason);
                self.events.push(Event::new(at, cpu, KernelEvent::Lost { events: 1 }));
            }
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
    pub(super) fn ready(&mut self) -> Vec<Event<'a>> {
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
    pub(super) const fn is_no_trace(&self) -> bool {
        self.valid == 0 && self.errors.total >= NO_TRACE_LINES as u64
    }

    /// Ends the reading; returns the events that were not taken out. `text` is the beginning, for
    /// an error.
    pub(super) fn finish(mut self, text: &[u8]) -> Result<(Head, Vec<Event<'a>>), ReadError> {
        self.end_stack();
        if let Some(error) = self.full.take() {
            return Err(error);
        }
        if self.valid == 0 && !self.has_tracer {
            return Err(unknown(text));
        }
        if self.errors.total > self.valid.saturating_sub(self.malformed) {
            return Err(ReadError::Text { errors: self.errors.first, total: self.errors.total });
        }
        let last = self.events.iter().map(|event| event.at).fold(self.last_given, Instant::max);
        let lost = core::mem::take(&mut self.lost).into_iter();
        self.events.extend(lost.map(|(cpu, events)| Event::new(last, cpu, KernelEvent::Lost { events })));
        Ok((self.head, self.events))
    }
}

/// Returns the remarks of CPUs whose oldest events were overwritten.
pub(super) fn overwritten<'a>(
    first: Instant,
    cpus: impl IntoIterator<Item = CpuId>,
) -> impl Iterator<Item = Event<'a>> {
    cpus.into_iter().map(move |cpu| Event::new(first, cpu, KernelEvent::Lost { events: 0 }))
}

pub(super) fn unknown(text: &[u8]) -> ReadError {
    ReadError::Unknown { begins: escaped(text) }
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
pub(super) const TRACER: &str = "# tracer: ";
/// After so many lines without one of a trace, the text is something else.
pub(super) const NO_TRACE_LINES: usize = 200;
