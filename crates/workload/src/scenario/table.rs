//! [`Table`]: reads keys of a TOML table in the order of the text, and knows which were never asked for.
//!
//! A key that nobody asked for is an error, with the nearest known key as a suggestion: a misspelt setting that is
//! silently ignored would make a run that answers another question than the one asked.

use crate::diagnostic::{Diagnostic, Report, Span};
use core::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};
use zerolag_model::settings::nearest;

/// A value with its place.
pub(super) type Item<'n, 'i> = &'n Spanned<DeValue<'i>>;

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'n, 'i> {
    pub(super) key: &'n str,
    pub(super) key_span: Span,
    pub(super) item: Item<'n, 'i>,
}

/// A table, its entries in the order of the text.
#[derive(Debug)]
pub(super) struct Table<'n, 'i> {
    pub(super) entries: Vec<Entry<'n, 'i>>,
    pub(super) span: Span,
}

impl<'n, 'i> Table<'n, 'i> {
    pub(super) fn new(table: &'n DeTable<'i>, span: Span) -> Self {
        let mut entries: Vec<Entry<'n, 'i>> = table
            .iter()
            .map(|(key, item)| Entry { key: key.get_ref(), key_span: Span::new(key.span()), item })
            .collect();
        entries.sort_by_key(|entry| entry.key_span);
        Self { entries, span }
    }

    /// Returns the table that a value is; reports if it is something else.
    pub(super) fn of(what: &str, item: Item<'n, 'i>, report: &mut Report) -> Option<Self> {
        match item.get_ref() {
            DeValue::Table(table) => Some(Self::new(table, span(item))),
            other => {
                report.error(span(item), format!("`{what}` is a table, not {}", kind(other)));
                None
            }
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<Entry<'n, 'i>> {
        self.entries.iter().copied().find(|entry| entry.key == key)
    }

    /// Reports every key that is not known.
    pub(super) fn refuse_unknown(&self, known: &[&str], what: &str, report: &mut Report) {
        for entry in self.entries.iter().filter(|entry| !known.contains(&entry.key)) {
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

/// Returns the error of a key that means nothing.
pub(super) fn unknown_key(key: &str, span: Span, known: &[&str], what: &str) -> Diagnostic {
    let diagnostic = Diagnostic::error(span, format!("unknown key `{key}` in {what}"));
    match nearest(key, known.iter().copied()) {
        Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
        None if known.is_empty() => diagnostic.help("there are no keys here"),
        None => diagnostic.help(format!("known are {}", known.join(", "))),
    }
}

/// Returns the place of a value.
pub(super) fn span<T>(item: &Spanned<T>) -> Span {
    Span::new(item.span())
}

/// Returns what kind of value this is, for messages.
pub(super) const fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns a string.
pub(super) fn string<'n>(what: &str, item: Item<'n, '_>, report: &mut Report) -> Option<&'n str> {
    match item.get_ref() {
        DeValue::String(text) => Some(text),
        other => {
            report.error(span(item), format!("`{what}` is a string, not {}", kind(other)));
            None
        }
    }
}

/// Returns the value of a whole number, if it fits.
pub(super) fn to_i128(number: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(number.as_str(), number.radix()).ok()
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
        DeValue::Integer(number) => match to_i128(number).filter(|value| range.contains(value)) {
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

/// A leaf of nested tables, its path joined by dots: `cpu.weight = 1`, `"cpu.weight" = 1` and a table `cpu` with a key
/// `weight` are one thing.
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
    for entry in &table.entries {
        let path = if prefix.is_empty() { entry.key.to_string() } else { format!("{prefix}.{}", entry.key) };
        match entry.item.get_ref() {
            DeValue::Table(inner) => flatten(&path, &Table::new(inner, span(entry.item)), found),
            _ => found.push(Leaf { path, span: entry.key_span, item: entry.item }),
        }
    }
}
