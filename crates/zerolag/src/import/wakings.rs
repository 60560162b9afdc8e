//! By what tasks wake each other, in an imported workload.
//!
//! A futex hands a wakeup on and keeps nothing, which a semaphore repeats. A pipe holds bytes, and
//! its writer waits once it is full: a reader that gets slower slows its writer down. A recording
//! tells neither the bytes nor the writes that woke no task, so each waking stands for a page: the
//! writer can be sixteen wakings ahead, as far as a pipe of the usual size holds pages. A socket
//! holds hundreds of messages, and stays a semaphore.
//!
//! Pipes cannot block the repetition of what was recorded. In the recorded order every waking comes
//! before the end of the sleep that it ends, and every task has read what woke it before it is
//! woken again; so the first step that could not be done would wait for an earlier one.

use super::extract::{ImportedTask, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use zerolag_model::TaskId;
use zerolag_trace::{Means, Trace, Wakings};

/// Returns whether the recording tells by what any task was woken.
pub(super) fn are_known(trace: &Trace) -> bool {
    trace.meta.recorded.wakings.iter().any(|waking| waking.means != Means::Unknown)
}

/// Returns the pairs of tasks of which the first wakes the second mostly by a pipe.
pub(super) fn pipes(trace: &Trace) -> BTreeSet<(TaskId, TaskId)> {
    let mut counts: BTreeMap<(TaskId, TaskId), (u64, u64)> = BTreeMap::new();
    for Wakings { waker, woken, means, count } in &trace.meta.recorded.wakings {
        if let Some(waker) = waker {
            let (by_pipe, all) = counts.entry((*waker, *woken)).or_default();
            *all += count;
            *by_pipe += if *means == Means::Pipe { *count } else { 0 };
        }
    }
    counts.into_iter().filter(|(_, (by_pipe, all))| by_pipe * 2 > *all).map(|(pair, _)| pair).collect()
}

/// Returns the name of the pipe by which tasks wake one of this name. If others wake it by another
/// thing (`is_mixed`), whose name is the task's, the pipe has its own.
pub(super) fn pipe_name(task: &str, is_mixed: bool) -> String {
    if is_mixed { format!("{task} pipe") } else { task.to_owned() }
}

/// Returns the tasks that wait for others by a pipe and by something else.
pub(super) fn mixed(tasks: &[ImportedTask], pipes: &BTreeSet<(TaskId, TaskId)>) -> BTreeSet<TaskId> {
    let mut kinds: BTreeMap<TaskId, (bool, bool)> = BTreeMap::new();
    let mut note = |waker: TaskId, woken: TaskId| {
        let (by_pipe, by_other) = kinds.entry(woken).or_default();
        *(if pipes.contains(&(waker, woken)) { by_pipe } else { by_other }) = true;
    };
    for task in tasks {
        for step in &task.steps {
            match step {
                Step::Wait(waker, _) => note(*waker, task.id),
                Step::Wake(woken) => note(task.id, *woken),
                _ => {}
            }
        }
    }
    kinds.into_iter().filter(|(_, kinds)| *kinds == (true, true)).map(|(task, _)| task).collect()
}

/// Writes which tasks wake a task and by what, as a remark, if the recording tells: the most
/// frequent first.
pub(super) fn remark(
    out: &mut String,
    trace: &Trace,
    task: TaskId,
    names: &BTreeMap<TaskId, String>,
) -> core::fmt::Result {
    let mut wakings: Vec<&Wakings> = trace.meta.recorded.wakings.iter().filter(|waking| waking.woken == task).collect();
    if !are_known(trace) || wakings.is_empty() {
        return Ok(());
    }
    wakings.sort_by_key(|waking| (core::cmp::Reverse(waking.count), waking.waker, waking.means));
    write!(out, "# Woken")?;
    for (at, Wakings { waker, means, count, .. }) in wakings.iter().take(SHOWN).enumerate() {
        let name = waker.and_then(|waker| names.get(&waker)).map(|name| zerolag_model::text::name(name));
        let separator = if at == 0 { "" } else { "," };
        match (waker, name) {
            (None, _) => write!(out, "{separator} by no task ({means}, {count})")?,
            (Some(_), None) => write!(out, "{separator} by a task that is left out ({means}, {count})")?,
            (Some(_), Some(name)) => write!(out, "{separator} by {name} ({means}, {count})")?,
        }
    }
    match wakings.len().saturating_sub(SHOWN) {
        0 => writeln!(out, "."),
        more => writeln!(out, ", and in {more} rarer ways."),
    }
}

/// Returns how often tasks were woken by a task and by none, by what, as a sentence.
pub(super) fn sentence(wakings: &[Wakings]) -> String {
    let counts = |is_by_task: bool| {
        let mut counts: BTreeMap<Means, u64> = BTreeMap::new();
        for waking in wakings.iter().filter(|waking| waking.waker.is_some() == is_by_task) {
            *counts.entry(waking.means).or_default() += waking.count;
        }
        let mut counts: Vec<(Means, u64)> = counts.into_iter().collect();
        counts.sort_by_key(|(means, count)| (core::cmp::Reverse(*count), *means));
        let parts: Vec<String> = counts.iter().map(|(means, count)| format!("{means} {count}")).collect();
        if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
    };
    format!("wakeups by a task: {}; by none: {}", counts(true), counts(false))
}

const SHOWN: usize = 4;
