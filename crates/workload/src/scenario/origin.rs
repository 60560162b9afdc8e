//! `[origin]` of a scenario: the recording that it was imported from.

use super::table::{Table, span};
use crate::diagnostic::Report;
use crate::origin::{BaseErrors, Origin, percent};

pub(super) const KEYS: [&str; 2] = ["trace", "base_error"];
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
    let [run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent] =
        ERROR_KEYS.map(|key| of(key).flatten());
    let base_error = BaseErrors { run_percent, wait_percent, latency_percent, nr_throttled_percent, throttled_percent };
    Some(Origin { trace: trace.into(), base_error })
}
