//! `[origin]` of a scenario: the recording that it was imported from.

use super::table::{Table, span, string};
use super::tree::Value;
use crate::diagnostic::Report;
use crate::origin::{BaseErrors, Origin, Unknown, percent};
use crate::program::{Program, ResourceKind};
use std::sync::Arc;

pub(super) const KEYS: [&str; 6] = ["trace", "base_error", "unlike", "answers", "demand", "work"];
pub(super) const ERROR_KEYS: [&str; 5] = ["run", "wait", "latency", "nr_throttled", "throttled"];

/// Reads `[origin]`.
pub(super) fn origin(root: &Table<'_, '_>, report: &mut Report) -> Option<Origin> {
    let entry = root.get("origin")?;
    let table = Table::of("origin", entry.item, report)?;
    table.refuse_unknown(&KEYS, "[origin]", report);
    let trace = table.string("trace", report).map(|(text, _)| text).unwrap_or_default();
    let Some(errors) = table.get("base_error") else {
        let help = "`zerolag import` writes base_error = { run = \"1%\", wait = \"20%\", latency = \"10%\" }";
        report.error_help(entry.key_span, "`origin` has no `base_error`", help);
        return None;
    };
    let errors = Table::of("base_error", errors.item, report)?;
    errors.refuse_unknown(&ERROR_KEYS, "`base_error`", report);
    let mut of = |key| {
        let (text, _) = errors.string(key, report)?;
        let read = percent(text);
        if let (None, Some(entry)) = (read, errors.get(key)) {
            report.error(
                span(entry.item),
                format!("`{key}` = \"{text}\" is no percentage from 0 on, and not \"unknown\""),
            );
        }
        read
    };
    let [run_percent, wait_percent, latency_percent] = ["run", "wait", "latency"].map(|key| of(key).flatten());
    let nr_throttled = errors.int("nr_throttled", 0..=u64::MAX, report).map(|(periods, _)| periods);
    let throttled = errors.time("throttled", report);
    let base_error = BaseErrors { run_percent, wait_percent, latency_percent, nr_throttled, throttled };
    let unknown = Unknown {
        answers: answers(&table, report),
        demand: demand(&table, report),
        work: table.string("work", report).map_or("/", |(text, _)| text).into(),
    };
    let unknown = if unknown.is_nothing() { Unknown::default() } else { unknown };
    let unlike = table.string("unlike", report).map(|(text, _)| text.into());
    Some(Origin { trace: trace.into(), base_error, unlike, unknown })
}

/// Reads the names of semaphores.
fn answers(table: &Table<'_, '_>, report: &mut Report) -> Vec<Arc<str>> {
    let Some(entry) = table.get("answers") else { return Vec::new() };
    let Value::Array(items) = entry.item.get_ref() else {
        report.error(span(entry.item), "`answers` is a list of the names of semaphores");
        return Vec::new();
    };
    items.iter().filter_map(|item| string("answers", item, report)).map(Into::into).collect()
}

/// Reads by which share demands can differ.
fn demand(table: &Table<'_, '_>, report: &mut Report) -> f64 {
    let Some((text, span)) = table.string("demand", report) else { return 0.0 };
    let read = percent(text).flatten().filter(|percent| *percent <= DEMAND_MAX);
    if read.is_none() {
        report.error(span, format!("`demand` = \"{text}\" is no percentage from 0 to {DEMAND_MAX}"));
    }
    read.unwrap_or_default() / 100.0
}

/// Half of each demand, or half more: what differs more is other work.
const DEMAND_MAX: f64 = 50.0;

/// Refuses answers at semaphores that the workload does not have.
pub(super) fn check(origin: &Origin, root: &Table<'_, '_>, program: &Program, report: &mut Report) {
    let is_there = |name: &str| {
        program.resources.iter().any(|of| matches!(of.kind, ResourceKind::Semaphore { .. }) && *of.name == *name)
    };
    for name in origin.unknown.answers.iter().filter(|name| !is_there(name)) {
        let place = root.get("origin").map(|entry| entry.key_span).unwrap_or_default();
        report
            .error(place, format!("`answers` of `origin` names `{name}`; no task posts or waits for such a semaphore"));
    }
}
