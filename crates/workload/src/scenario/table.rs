//! [`Table`]: reads keys of a TOML table in the order of the text, and reports unknown keys.
//!
//! An unknown key is an error, with the nearest known key as a suggestion. If a misspelt setting
//! were silently ignored, the run would answer another question than the one asked.

use super::tree::{Member, Members, Node, Value};
use crate::diagnostic::{Diagnostic, Report, Span};
use core::ops::RangeInclusive;
use zerolag_model::settings::nearest;

/// A value with its position.
pub(super) type Item<'n, 'i> = &'n Node<'i>;

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct TableEntry<'n, 'i> {
    pub(super) key: &'n str,
    pub(super) key_span: Span,
    pub(super) item: Item<'n, 'i>,
}

/// A table, its entries in the order of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'n, 'i> {
    members: &'n [Member<'i>],
    pub(super) span: Span,
}

impl<'n, 'i> TableEntry<'n, 'i> {
    fn of(member: &'n Member<'i>) -> Self {
        Self { key: &member.key, key_span: member.key_span, item: &member.item }
    }
}

impl<'n, 'i> Table<'n, 'i> {
    pub(super) fn new(table: &'n Members<'i>, span: Span) -> Self {
        Self { members: table.as_slice(), span }
    }

    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = TableEntry<'n, 'i>> + use<'n, 'i> {
        self.members.iter().map(TableEntry::of)
    }

    /// Returns the entry of a table with exactly one.
    pub(super) fn only(&self) -> Option<TableEntry<'n, 'i>> {
        if let [member] = self.members { Some(TableEntry::of(member)) } else { None }
    }

    /// Returns a value as a table; reports any other type.
    pub(super) fn of(what: &str, item: Item<'n, 'i>, report: &mut Report) -> Option<Self> {
        match item.get_ref() {
            Value::Table(table) => Some(Self::new(table, span(item))),
            other => {
                report.error(span(item), format!("`{what}` is a table, not {}", kind(other)));
                None
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<TableEntry<'n, 'i>> {
        self.members.iter().find(|member| member.key == key).map(TableEntry::of)
    }

    /// Reports every unknown key.
    pub(super) fn refuse_unknown(&self, known: &[&str], what: &str, report: &mut Report) {
        for entry in self.entries().filter(|entry| !known.contains(&entry.key)) {
            report.push(unknown_key(entry.key, entry.key_span, known, what));
        }
    }

    pub(super) fn string(&self, key: &str, report: &mut Report) -> Option<(&'n str, Span)> {
        let entry = self.get(key)?;
        string(entry.key, entry.item, report).map(|text| (text, span(entry.item)))
    }

    pub(super) fn int(&self, key: &str, range: RangeInclusive<u64>, report: &mut Report) -> Option<(u64, Span)> {
        let entry = self.get(key)?;
        int(entry.key, entry.item, range, report).map(|value| (value, span(entry.item)))
    }
}

/// Returns the error of an unknown key.
pub(super) fn unknown_key(key: &str, span: Span, known: &[&str], what: &str) -> Diagnostic {
    let diagnostic = Diagnostic::error(span, format!("unknown key `{key}` in {what}"));
    match nearest(key, known.iter().copied()) {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
        None if known.is_empty() => diagnostic.help("there are no keys here"),
        None => diagnostic.help(format!("known are {}", known.join(", "))),
    }
}

/// Returns the position of a value.
pub(super) const fn span(item: &Node<'_>) -> Span {
    item.span()
}

/// Returns the kind of the value, for messages.
pub(super) const fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "a whole number",
        Value::Float(_) => "a number with a fraction",
        Value::Boolean(_) => "true or false",
        Value::Datetime => "a date",
        Value::Array(_) => "an array",
        Value::Table(_) => "a table",
    }
}

/// Returns a string.
pub(super) fn string<'n>(what: &str, item: Item<'n, '_>, report: &mut Report) -> Option<&'n str> {
    match item.get_ref() {
        Value::String(text) => Some(text),
        other => {
            report.error(span(item), format!("`{what}` is a string, not {}", kind(other)));
            None
        }
    }
}

/// Returns a whole number within a range.
pub(super) fn int(what: &str, item: Item<'_, '_>, range: RangeInclusive<u64>, report: &mut Report) -> Option<u64> {
    let signed = i128::from(*range.start())..=i128::from(*range.end());
    signed_int(what, item, signed, report).and_then(|value| u64::try_from(value).ok())
}

/// Returns a whole number within a range.
pub(super) fn signed_int(
    what: &str,
    item: Item<'_, '_>,
    range: RangeInclusive<i128>,
    report: &mut Report,
) -> Option<i128> {
    match item.get_ref() {
        Value::Integer(number) => match number.value().filter(|value| range.contains(value)) {
            Some(value) => Some(value),
            None => {
                let message = format!("`{what}`: {number} is outside {}..={}", range.start(), range.end());
                report.error(span(item), message);
                None
            }
        },
        other => {
            report.error(span(item), format!("`{what}` is a whole number, not {}", kind(other)));
            None
        }
    }
}

/// A leaf of nested tables, its path joined by dots: `cpu.weight = 1`, `"cpu.weight" = 1` and a
/// table `cpu` with a key `weight` mean the same.
#[derive(Debug)]
pub(super) struct Leaf<'n, 'i> {
    pub(super) path: String,
    pub(super) span: Span,
    pub(super) item: Item<'n, 'i>,
}

/// Flattens a table. The depth is limited by the TOML parser.
pub(super) fn leaves<'n, 'i>(table: &Table<'n, 'i>) -> Vec<Leaf<'n, 'i>> {
    let mut found = Vec::new();
    flatten("", table, &mut found);
    found
}

fn flatten<'n, 'i>(prefix: &str, table: &Table<'n, 'i>, found: &mut Vec<Leaf<'n, 'i>>) {
    for entry in table.entries() {
        let path = if prefix.is_empty() { entry.key.to_string() } else { format!("{prefix}.{}", entry.key) };
        match entry.item.get_ref() {
            Value::Table(inner) => flatten(&path, &Table::new(inner, span(entry.item)), found),
            _ => found.push(Leaf { path, span: entry.key_span, item: entry.item }),
        }
    }
}
