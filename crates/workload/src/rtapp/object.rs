//! [`Object`]: reads members of a JSON object with rt-app's checks of types, and reports mistakes.

use super::json::{Member, Node, Value};
use crate::diagnostic::{Report, Span};
use core::ops::RangeInclusive;
use zerolag_model::Duration;
use zerolag_model::settings::nearest;

/// The values that rt-app's own variables can hold: it reads numbers into a C `int`.
pub(super) const INT: RangeInclusive<i64> = -(1 << 31)..=(1 << 31) - 1;

/// An object and its position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object<'n, 'a> {
    pub(super) members: &'n [Member<'a>],
    pub(super) span: Span,
}

impl<'n, 'a> Object<'n, 'a> {
    /// Returns the node as an object; reports any other type.
    pub(super) fn of(node: &'n Node<'a>, what: &str, report: &mut Report) -> Option<Self> {
        match &node.value {
            Value::Object(members) => Some(Self { members, span: node.span }),
            other => {
                wrong_kind(node, what, "an object", other, report);
                None
            }
        }
    }

    /// Returns the member of a key.
    pub(super) fn get(&self, key: &str) -> Option<&'n Member<'a>> {
        // A cheap test first: most keys differ in length or in the first letter.
        let first = key.as_bytes().first();
        self.members
            .iter()
            .find(|member| member.key.len() == key.len() && member.key.as_bytes().first() == first && member.key == key)
    }

    /// Returns a whole number within a range; reports any other value.
    pub(super) fn int(&self, key: &str, range: RangeInclusive<i64>, report: &mut Report) -> Option<(i64, Span)> {
        let member = self.get(key)?;
        int(&member.node, &member.key, range, report).map(|value| (value, member.node.span))
    }

    /// Returns a time in microseconds.
    pub(super) fn micros(&self, key: &str, report: &mut Report) -> Option<(Duration, Span)> {
        let member = self.get(key)?;
        micros(&member.node, &member.key, report).map(|time| (time, member.node.span))
    }

    /// Returns a string. `null` is treated as absent, as in rt-app.
    pub(super) fn string(&self, key: &str, report: &mut Report) -> Option<(&'n str, Span)> {
        let member = self.get(key)?;
        if matches!(member.node.value, Value::Null) {
            return None;
        }
        string(&member.node, &member.key, report).map(|text| (text, member.node.span))
    }

    /// Returns a boolean.
    pub(super) fn boolean(&self, key: &str, report: &mut Report) -> Option<bool> {
        let member = self.get(key)?;
        match &member.node.value {
            Value::Bool(value) => Some(*value),
            other => {
                wrong_kind(&member.node, key, "true or false", other, report);
                None
            }
        }
    }

    /// Warns of unknown keys. rt-app ignores them too.
    pub(super) fn note_unknown(&self, known: &[&[&'static str]], is_known: impl Fn(&str) -> bool, report: &mut Report) {
        let all = || known.iter().copied().flatten().copied();
        for member in self.members {
            let key = &*member.key;
            if member.renamed || is_known(key) || all().any(|known| known == key) {
                continue;
            }
            let message = format!("unknown key \"{key}\" is ignored");
            let diagnostic = crate::Diagnostic::warning(member.key_span, message);
            report.push(match nearest(key, all()) {
                Some(near) => diagnostic.help(format!("did you mean \"{near}\"?")),
                None => diagnostic,
            });
        }
    }
}

/// Returns a whole number within a range.
pub(super) fn int(node: &Node<'_>, key: &str, range: RangeInclusive<i64>, report: &mut Report) -> Option<i64> {
    match &node.value {
        Value::Int(Some(value)) if range.contains(value) => Some(*value),
        Value::Int(value) => {
            let value = value.map_or("this number".into(), |value| format!("{value}"));
            let message = format!("\"{key}\": {value} is outside {}..={}", range.start(), range.end());
            report.error(node.span, message);
            None
        }
        other => {
            wrong_kind(node, key, "a whole number", other, report);
            None
        }
    }
}

/// Returns a time in microseconds.
pub(super) fn micros(node: &Node<'_>, key: &str, report: &mut Report) -> Option<Duration> {
    match &node.value {
        Value::Int(value) if !value.is_some_and(|value| (0..=*INT.end()).contains(&value)) => {
            let value = value.map_or("this number".into(), |value| format!("{value}"));
            let message = format!("\"{key}\": {value} us is outside 0..={} us", INT.end());
            report.error(node.span, message);
            None
        }
        _ => int(node, key, 0..=*INT.end(), report).map(|value| Duration::from_micros(value.unsigned_abs())),
    }
}

/// Returns a string.
pub(super) fn string<'n>(node: &'n Node<'_>, key: &str, report: &mut Report) -> Option<&'n str> {
    match &node.value {
        Value::String(text) => Some(text),
        other => {
            wrong_kind(node, key, "a string", other, report);
            None
        }
    }
}

fn wrong_kind(node: &Node<'_>, key: &str, wanted: &str, found: &Value<'_>, report: &mut Report) {
    if !matches!(found, Value::Missing) {
        report.error(node.span, format!("\"{key}\" is {wanted}, not {}", found.kind()));
    }
}
