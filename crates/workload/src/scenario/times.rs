//! Times and distributions in scenarios.
//!
//! A time is a string with a unit (`"10ms"`); a bare number is refused, because a reader cannot
//! know its unit. Where a step accepts a time it also accepts a table of one key, a distribution:
//!
//! ```toml
//! { uniform = { min = "1ms", max = "3ms" } }
//! { normal = { mean = "5ms", deviation = "1ms" } }        # min, max: the bounds of the truncation
//! { exponential = { mean = "5ms", max = "50ms" } }
//! { lognormal = { median = "5ms", sigma = 0.5 } }
//! { choice = [{ time = "1ms", weight = 9 }, { time = "20ms", weight = 1 }] }
//! { sequence = ["1ms", "20ms", "2ms"] }                   # one after the other
//! ```

use super::table::{Item, Table, TableEntry, int, kind, span};
use super::tree::Value;
use crate::diagnostic::{Diagnostic, Report};
use crate::random::{Bounds, Dist, DistError, MAX_TIME};
use zerolag_model::Duration;

/// The distributions.
pub(super) const KINDS: [&str; 6] = ["uniform", "normal", "exponential", "lognormal", "choice", "sequence"];

/// Reads a time.
pub(super) fn time(what: &str, item: Item<'_, '_>, report: &mut Report) -> Option<Duration> {
    let text = match item.get_ref() {
        Value::String(text) => text,
        Value::Integer(number) => {
            let diagnostic = Diagnostic::error(span(item), format!("`{what}` = {number} has no unit"));
            report.push(diagnostic.help(format!("write \"{number}ms\", or ns, us, s, m, h")));
            return None;
        }
        other => {
            report.error_help(span(item), format!("`{what}` is a time, not {}", kind(other)), "write it as \"10ms\"");
            return None;
        }
    };
    match text.parse::<Duration>() {
        Ok(time) if time <= MAX_TIME => Some(time),
        Ok(_) => {
            report.error(span(item), format!("`{what}` = \"{text}\" is outside 0s..=10 years"));
            None
        }
        Err(reason) => {
            report.error(span(item), format!("`{what}` = \"{text}\": {reason}"));
            None
        }
    }
}

impl Table<'_, '_> {
    /// Reads a time.
    pub(super) fn time(&self, key: &str, report: &mut Report) -> Option<Duration> {
        self.get(key).and_then(|entry| time(entry.key, entry.item, report))
    }
}

/// Reads a time or a distribution of times.
pub(super) fn dist(what: &str, item: Item<'_, '_>, report: &mut Report) -> Option<Dist> {
    let Value::Table(table) = item.get_ref() else { return time(what, item, report).map(Dist::Constant) };
    let table = Table::new(table, span(item));
    table.refuse_unknown(&KINDS, "a distribution", report);
    let Some(entry) = table.only() else {
        let help = format!("known are {}", KINDS.join(", "));
        report.error_help(table.span, format!("`{what}` takes one distribution"), help);
        return None;
    };
    if entry.key == "choice" {
        return choice(entry, report);
    }
    if entry.key == "sequence" {
        return sequence(entry, report);
    }
    let inner = Table::of(entry.key, entry.item, report)?;
    let known: &[&str] = match entry.key {
        "uniform" => &["min", "max"],
        "normal" => &["mean", "deviation", "min", "max"],
        "exponential" => &["mean", "min", "max"],
        "lognormal" => &["median", "sigma", "min", "max"],
        _ => return None,
    };
    inner.refuse_unknown(known, entry.key, report);
    let mut required = |key: &str| {
        if inner.get(key).is_none() {
            report.error(inner.span, format!("`{}` without `{key}`", entry.key));
        }
        inner.time(key, report)
    };
    let parameters = match entry.key {
        "uniform" => [required("min"), required("max")],
        "normal" => [required("mean"), required("deviation")],
        "exponential" => [required("mean"), Some(Duration::ZERO)],
        _ => [required("median"), Some(Duration::ZERO)],
    };
    let unbounded = Bounds::default();
    let bounds = Bounds {
        low: inner.time("min", report).unwrap_or(unbounded.low),
        high: inner.time("max", report).unwrap_or(unbounded.high),
    };
    let [Some(first), Some(second)] = parameters else { return None };
    let made = match entry.key {
        "uniform" => Dist::uniform(first, second),
        "normal" => Dist::normal(first, second, bounds),
        "exponential" => Dist::exponential(first, bounds),
        _ => Dist::lognormal(first, sigma(&inner, report)?, bounds),
    };
    settle(made, entry, report)
}

fn settle(made: Result<Dist, DistError>, entry: TableEntry<'_, '_>, report: &mut Report) -> Option<Dist> {
    match made {
        Ok(dist) => Some(dist),
        Err(error) => {
            report.error(span(entry.item), format!("`{}`: {error}", entry.key));
            None
        }
    }
}

/// Reads `sigma`, the only number without a unit.
fn sigma(table: &Table<'_, '_>, report: &mut Report) -> Option<f64> {
    let Some(entry) = table.get("sigma") else {
        report.error(table.span, "`lognormal` without `sigma`");
        return None;
    };
    let text = match entry.item.get_ref() {
        Value::Float(number) => number.as_str(),
        Value::Integer(number) => number.as_str(),
        other => {
            report.error(span(entry.item), format!("`sigma` is a number, not {}", kind(other)));
            return None;
        }
    };
    let number = text.parse().ok();
    if number.is_none() {
        report.error(span(entry.item), format!("`sigma`: {text} is not a decimal number"));
    }
    number
}

fn sequence(entry: TableEntry<'_, '_>, report: &mut Report) -> Option<Dist> {
    let Value::Array(items) = entry.item.get_ref() else {
        let help = "write sequence = [\"1ms\", \"20ms\"]";
        report.error_help(span(entry.item), "`sequence` is an array of times", help);
        return None;
    };
    let times: Option<Vec<Duration>> = items.iter().map(|item| time("sequence", item, report)).collect();
    settle(Dist::sequence(times?), entry, report)
}

fn choice(entry: TableEntry<'_, '_>, report: &mut Report) -> Option<Dist> {
    let Value::Array(items) = entry.item.get_ref() else {
        let help = "write choice = [{ time = \"1ms\", weight = 9 }, { time = \"20ms\", weight = 1 }]";
        report.error_help(span(entry.item), "`choice` is an array", help);
        return None;
    };
    let mut alternatives = Vec::with_capacity(items.len());
    for item in items.iter() {
        let Some(table) = Table::of("choice", item, report) else { continue };
        table.refuse_unknown(&["time", "weight"], "a choice", report);
        let weight = match table.get("weight") {
            None => Some(1),
            Some(weight) => int("weight", weight.item, 0..=u64::from(u32::MAX), report),
        };
        if table.get("time").is_none() {
            report.error(table.span, "a choice without `time`");
        }
        if let (Some(time), Some(weight)) = (table.time("time", report), weight) {
            alternatives.push((time, u32::try_from(weight).unwrap_or(u32::MAX)));
        }
    }
    if alternatives.len() < items.len() {
        return None;
    }
    settle(Dist::choice(&alternatives), entry, report)
}
