//! Events as text: one line each, exact to the nanosecond, for people and for diffs.
//!
//! ```text
//! 0.004000000 cpu0 waking f-0 -> cpu0
//! 0.004000000 cpu0 switch a-0 -> f-0 (preempted)
//! 0.004000000 cpu0 migrate a-0 cpu0 -> cpu1 (push)
//! ```
//!
//! The word after the CPU is the event's *kind*; [`KINDS`] lists them. Tasks are called by their
//! names. The totals at the end of a run are not listed. Words and texts come from the table of
//! events (`crates/model/src/event/table.rs`); here is how each type of fields is said.

use crate::summary::{policy_text, prio_text};
use core::fmt::{self, Write};
use std::sync::Arc;
use zerolag_model::event::{Disables, IpiReason, Irq, RcuStep};
use zerolag_model::{
    CpuId, CpuMask, CpuMax, CpuStat, Duration, GroupId, Instant, Mark, MigrateReason, PrevState, Prio, Record,
    RequestStep, RtBandwidth, SchedAttr, ServerKind, ServerParams, ServerState, SignedDuration, TaskCounters, TaskId,
    TraceEvent, trace_events,
};
use zerolag_trace::{IdTable, Trace};

/// Makes of the table of events the words of the kinds, and the line of an event.
macro_rules! lines {
    ($(
        $(#[$doc:meta])*
        $event:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }
        $($number:literal ($($own:ident),* $(; $($part:ident),+)?) $({ $($rest:tt)+ })?
            $(=> $word:literal $text:tt)?),+;
    )+) => {
        /// The word of every kind of the container, in the order of the table.
        const WORDS: &[&str] = &[$($($($word,)?)+)+];

        /// Returns an event's kind and description; `None` for totals.
        fn line(record: &Record, names: &Names) -> Option<(&'static str, String)> {
            match &record.event {
                $($(TraceEvent::$event { $($own,)* $($($rest)+)? } => {
                    $(let $own = LoggedField($own, names);)*
                    $($(let $part = LoggedField($part, names);)+)?
                    // Not every line has every field.
                    let _ = ($(&$own,)* $($(&$part,)+)?);
                    said!($($word $text, record, names)?)
                })+)+
            }
        }
    };
}

/// The description of a kind: the text of the table, or a function for a line that is not a
/// sequence of fields.
macro_rules! said {
    () => {
        None
    };
    ($word:literal $text:literal, $record:ident, $names:ident) => {
        Some(($word, format!($text)))
    };
    ($word:literal $line:ident, $record:ident, $names:ident) => {
        Some(($word, $line(&$record.event, $record.at, $names)))
    };
}

trace_events!(lines);

/// All kinds of event, by the names that lists and filters use.
pub const KINDS: &[&str] = &distinct::<{ count_distinct(WORDS) }>(WORDS);

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// Returns whether a word is the first of its kind. Rows with the same word follow each other.
const fn is_first(words: &[&str], at: usize) -> bool {
    at == 0 || !is_same(words[at], words[at - 1])
}

const fn count_distinct(words: &[&str]) -> usize {
    let (mut count, mut at) = (0, 0);
    while at < words.len() {
        count += is_first(words, at) as usize;
        at += 1;
    }
    count
}

const fn distinct<const N: usize>(words: &[&'static str]) -> [&'static str; N] {
    let mut all = [""; N];
    let (mut count, mut at) = (0, 0);
    while at < words.len() {
        if is_first(words, at) {
            all[count] = words[at];
            count += 1;
        }
        at += 1;
    }
    all
}

/// Lists the events of a trace whose time and kind `wanted` accepts. O(records).
#[must_use]
pub fn events(trace: &Trace, wanted: impl Fn(Instant, &str) -> bool) -> String {
    let mut names = Names::of_trace(trace);
    let mut out = String::new();
    for record in &trace.records {
        names.learn(&record.event);
        let Some((kind, says)) = line(record, &names) else { continue };
        if wanted(record.at, kind) {
            writeln!(out, "{} cpu{} {kind} {says}", record.at, record.cpu)
                .expect("invariant: writing to a String cannot fail");
        }
    }
    out
}

/// The names of tasks that the trace has given so far.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: IdTable<TaskId, Option<String>>,
    /// The thread ids of a kernel's recording, in order of task.
    tids: Vec<u32>,
}

impl Names {
    /// Starts before the first record of a trace.
    pub(crate) fn of_trace(trace: &Trace) -> Self {
        let tids = trace.meta.recorded.threads.iter().map(|thread| thread.tid).collect();
        Self { names: IdTable::default(), tids }
    }

    /// Stores the name of a new task.
    pub(crate) fn learn(&mut self, event: &TraceEvent) {
        if let TraceEvent::TaskNew { task, name, .. } = event {
            let tid = self.tids.get(task.index());
            let name = tid.map_or_else(|| name.to_string(), |tid| format!("{name}:{tid}"));
            *self.names.entry(*task) = Some(name);
        }
    }

    /// Returns a task's name.
    pub(crate) fn of(&self, task: TaskId) -> String {
        self.names.get(task).cloned().flatten().unwrap_or_else(|| format!("task {task}"))
    }

    /// Returns the name of a CPU's current task; `idle` if there is none.
    pub(crate) fn of_current(&self, task: Option<TaskId>) -> String {
        task.map_or_else(|| "idle".to_owned(), |task| self.of(task))
    }
}

/// Returns why a CPU leaves a task, in the words of the lists.
pub(crate) const fn why_left(state: PrevState) -> &'static str {
    match state {
        PrevState::Runnable => " (preempted)",
        PrevState::Blocked => " (blocked)",
        PrevState::Dead => " (ended)",
        PrevState::Idle => "",
    }
}

/// A field in a line of text.
struct LoggedField<'a, T>(&'a T, &'a Names);

/// How a type of fields is said.
macro_rules! say {
    ($($type:ty: |$value:ident, $names:ident| $text:expr;)+) => {$(
        impl fmt::Display for LoggedField<'_, $type> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self($value, $names) = self;
                write!(f, "{}", $text)
            }
        }
    )+};
}

say! {
    u32: |number, _names| number;
    u64: |number, _names| number;
    TaskId: |task, names| names.of(**task);
    Option<TaskId>: |task, names| names.of_current(**task);
    CpuId: |cpu, _names| cpu;
    GroupId: |group, _names| group;
    Arc<str>: |text, _names| text;
    Arc<CpuMask>: |cpus, _names| cpus;
    Instant: |at, _names| at;
    Duration: |time, _names| time;
    SignedDuration: |time, _names| time;
    Prio: |prio, _names| prio_text(**prio);
    SchedAttr: |attr, _names| policy_text(**attr);
    PrevState: |state, _names| why_left(**state);
    MigrateReason: |reason, _names| reason.name();
    Disables: |what, _names| what.name();
    RcuStep: |step, _names| step.says();
    ServerKind: |kind, _names| kind.name();
    ServerState: |state, _names| state;
    IpiReason: |reason, _names| match reason {
        IpiReason::Resched => "resched",
        IpiReason::RtPush => "rt push",
        IpiReason::IdleBalance => "idle balance",
        IpiReason::ActiveBalance => "active balance",
    };
    Irq: |irq, _names| match irq {
        Irq::Tick => "tick",
        Irq::Timer => "timer",
        Irq::Ipi => "ipi",
        Irq::Device => "device",
        Irq::Softirq => "softirq",
        Irq::Hardware => "hardware",
        Irq::Nmi => "nmi",
        Irq::Stolen => "stolen",
    };
}

/// A wait for a lock: a part of the line only if there is a holder.
fn wait_lock(event: &TraceEvent, _at: Instant, names: &Names) -> String {
    let TraceEvent::WaitLock { task, lock, holder } = event else { unreachable!("invariant: the table names this") };
    let holder = holder.map_or_else(String::new, |holder| format!(", held by {}", names.of(holder)));
    format!("{} for lock {lock}{holder}", names.of(*task))
}

/// The arrival of a request: its time is said if it is not the record's.
fn arrival(event: &TraceEvent, at: Instant, _names: &Names) -> String {
    let TraceEvent::Request { queue, request, step: RequestStep::Arrive { due } } = event else {
        unreachable!("invariant: the table names this")
    };
    let due = if *due == at { String::new() } else { format!(", due at {due}") };
    format!("{request} of queue {queue} arrives{due}")
}

/// A limit, in the format of `cpu.max`.
fn limit(event: &TraceEvent, _at: Instant, _names: &Names) -> String {
    let TraceEvent::GroupMax { group, max } = event else { unreachable!("invariant: the table names this") };
    format!("group {group} cpu.max {max}")
}

/// A limit of real-time tasks, in the format of the kernel's two files.
fn rt_limit(event: &TraceEvent, _at: Instant, _names: &Names) -> String {
    let TraceEvent::RtGroup { group, bandwidth } = event else { unreachable!("invariant: the table names this") };
    let runtime = bandwidth.runtime.map_or_else(|| "max".to_owned(), |runtime| runtime.to_string());
    format!("group {group} cpu.rt_runtime_us {runtime} in {}", bandwidth.period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::two_hogs_and_a_fifo;

    #[test]
    fn lines_are_exact_and_filtered_by_kind() {
        assert_eq!(
            events(&two_hogs_and_a_fifo(), |_, kind| kind == "switch"),
            "\
0.000000000 cpu0 switch idle -> a
0.004000000 cpu0 switch a -> f (preempted)
0.006000000 cpu0 switch f -> a (blocked)
0.008000000 cpu0 switch a -> b (preempted)
"
        );
    }

    #[test]
    fn every_line_has_a_kind_of_the_list() {
        let all = events(&two_hogs_and_a_fifo(), |_, kind| {
            assert!(KINDS.contains(&kind), "{kind}");
            true
        });
        assert!(all.starts_with("0.000000000 cpu0 new a OTHER 0\n"), "{all}");
    }
}
