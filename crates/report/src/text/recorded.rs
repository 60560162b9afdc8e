//! The parts of the report that only a recording of a kernel has: ids of threads, gaps, charges.

use crate::human::{Human, Percent};
use crate::summary::{NAME_WIDTH, Summary, TaskSummary};
use crate::table::{Align, Table, shorten};
use core::fmt::{self, Write};
use zerolag_model::text::visible;
use zerolag_model::{Duration, TaskId};
use zerolag_trace::{Gap, Means, Wakings};

/// Writes what is missing from a recording, and how the figures compare with the kernel's own.
pub(super) fn write(out: &mut String, summary: &Summary) -> fmt::Result {
    let recorded = &summary.meta.recorded;
    if let Some(dropped) = &recorded.dropped {
        writeln!(out, "{dropped}")?;
    }
    for skipped in &recorded.skipped {
        writeln!(out, "{}", visible(&skipped.to_string()))?;
    }
    if let Some((run, charged)) = summary.charged() {
        let (less, more) = (charged.saturating_sub(run), run.saturating_sub(charged));
        let (difference, word) = if less.is_zero() { (more, "more") } else { (less, "less") };
        let percent = Percent { part: difference, whole: charged };
        writeln!(
            out,
            "run time by switches {}, charged by the kernel {}: {percent} {word}",
            Human(run),
            Human(charged)
        )?;
        write_differences(out, summary)?;
    }
    let missing = summary.missing();
    if recorded.gaps.is_empty() {
        return missing.map_or(Ok(()), |missing| writeln!(out, "{missing}"));
    }
    if let Some(missing) = missing {
        writeln!(out, "\n{missing} The longest:")?;
    }
    let mut longest: Vec<&Gap> = recorded.gaps.iter().collect();
    longest.sort_by_key(|gap| (core::cmp::Reverse(gap.until.since(gap.from)), gap.from, gap.cpu));
    longest.truncate(GAPS_SHOWN);
    longest.sort_by_key(|gap| (gap.from, gap.cpu));
    for gap in longest {
        write!(out, "  cpu {} from {} to {} ({})", gap.cpu, gap.from, gap.until, Human(gap.until.since(gap.from)))?;
        match gap.events {
            0 => writeln!(out)?,
            events => writeln!(out, ", {events} events")?,
        }
    }
    match recorded.gaps.len().saturating_sub(GAPS_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  ({more} more, each shorter)"),
    }
}

/// Lists which tasks woke which most often, if the recording tells by what.
pub(super) fn write_wakings(out: &mut String, summary: &Summary) -> fmt::Result {
    let wakings = &summary.meta.recorded.wakings;
    if wakings.iter().all(|waking| waking.means == Means::Unknown) {
        return Ok(());
    }
    let mut most: Vec<&Wakings> = wakings.iter().collect();
    most.sort_by_key(|waking| (core::cmp::Reverse(waking.count), waking.waker, waking.woken, waking.means));
    let mut table =
        Table::new(&[("woken", Align::Left), ("by", Align::Left), ("by what", Align::Left), ("wakeups", Align::Right)]);
    for Wakings { waker, woken, means, count } in most.iter().take(WAKINGS_SHOWN) {
        let waker = waker.map_or_else(|| "(no task)".to_owned(), |waker| label(summary, waker));
        table.push([label(summary, *woken), waker, means.to_string(), count.to_string()]);
    }
    write!(out, "\nwakeups, most frequent first\n{table}")?;
    match most.len().saturating_sub(WAKINGS_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "({more} more, each rarer)"),
    }
}

/// Lists tasks whose run time differs from what the kernel charged them.
fn write_differences(out: &mut String, summary: &Summary) -> fmt::Result {
    let apart = |task: &TaskSummary| task.charged().map(|charged| difference(task.run, charged));
    let is_apart = |task: &&TaskSummary| {
        let charged = task.charged().unwrap_or_default();
        apart(task).is_some_and(|apart| apart > APART_MIN && apart.as_nanos() > charged.as_nanos() / 100)
    };
    let mut tasks: Vec<&TaskSummary> = summary.tasks.iter().filter(is_apart).collect();
    tasks.sort_by_key(|task| (core::cmp::Reverse(apart(task)), task.task));
    for task in tasks.iter().take(APART_SHOWN) {
        let charged = task.charged().unwrap_or_default();
        writeln!(out, "  {}: {} by switches, charged {}", label(summary, task.task), Human(task.run), Human(charged))?;
    }
    match tasks.len().saturating_sub(APART_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  ({more} more tasks differ by more than 1 %)"),
    }
}

fn difference(a: Duration, b: Duration) -> Duration {
    a.saturating_sub(b).max(b.saturating_sub(a))
}

fn label(summary: &Summary, task: TaskId) -> String {
    summary.label(task)
}

/// The columns of ids: those that any task has.
pub(super) struct Ids {
    has_tid: bool,
    has_pid: bool,
}

impl Ids {
    pub(super) fn of(tasks: &[&TaskSummary]) -> Self {
        let threads = || tasks.iter().filter_map(|task| task.thread.as_ref());
        Self { has_tid: threads().next().is_some(), has_pid: threads().any(|thread| thread.pid.is_some()) }
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, Align)> {
        [(self.has_tid, "tid"), (self.has_pid, "pid")]
            .into_iter()
            .filter(|(has, _)| *has)
            .map(|(_, name)| (name, Align::Right))
    }

    pub(super) fn cells(&self, task: &TaskSummary) -> impl Iterator<Item = String> {
        let thread = task.thread.as_ref();
        let text = |id: Option<u32>| id.map_or_else(|| "-".to_owned(), |id| id.to_string());
        let tid = self.has_tid.then(|| text(thread.map(|thread| thread.tid)));
        let pid = self.has_pid.then(|| text(thread.and_then(|thread| thread.pid)));
        tid.into_iter().chain(pid)
    }
}

/// Returns a task's name in a table: ids have their own columns.
pub(super) fn name(summary: &Summary, task: &TaskSummary) -> String {
    match task.thread {
        Some(_) => shorten(&task.name, NAME_WIDTH),
        None => label(summary, task.task),
    }
}

/// Returns a time of which a part lies in gaps.
pub(super) fn unsure(time: Duration, unsure: Duration) -> String {
    let mark = if unsure.is_zero() { "" } else { "~" };
    format!("{mark}{}", Human(time))
}

const WAKINGS_SHOWN: usize = 20;
const GAPS_SHOWN: usize = 5;
const APART_SHOWN: usize = 5;
/// Differences up to this are the time between the charge and the switch.
const APART_MIN: Duration = Duration::from_micros(200);
