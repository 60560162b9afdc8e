//! [`Diagnostics`]: all errors, warnings and notes about one input, with their positions.
//!
//! A *span* is a range of bytes of the input. A *label* relates a span to the message; the first
//! label of a diagnostic is its position. Readers collect diagnostics, continue after errors where
//! they can, and return all of them at once, sorted by position. A file with a million mistakes is
//! as wrong as one with a hundred: [`SHOWN_MAX`] of each severity are kept and the rest is counted.
//!
//! [`crate::render`] prints them as lines, or with carets through `miette`.

use core::fmt;
use core::ops::Range;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use zerolag_model::text::visible;

/// How many diagnostics of one severity are kept.
pub const SHOWN_MAX: usize = 100;

/// A range of bytes of the input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// Returns the span of a range; inputs are below 4 GiB, positions beyond are cut.
    #[must_use]
    pub fn new(range: Range<usize>) -> Self {
        let cut = |at| u32::try_from(at).unwrap_or(u32::MAX);
        Self { start: cut(range.start), end: cut(range.end) }
    }

    /// Returns the range of bytes.
    #[must_use]
    pub const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The severity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// The input is accepted, but perhaps not as its author meant.
    Warning,
    /// Information for the author.
    Note,
}

impl Severity {
    /// All of them, worst first.
    pub const ALL: [Self; 3] = [Self::Error, Self::Warning, Self::Note];

    /// Returns the word that starts a message.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A position, and how it relates to the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// A description of the position; not needed if the message is enough.
    pub text: Option<String>,
}

/// One message about an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The message: lowercase, no period, naming key and value.
    pub message: String,
    /// The positions: the first is that of the mistake. Empty if the message is about the whole
    /// input.
    pub labels: Vec<Label>,
    /// Advice: a valid alternative.
    pub help: Option<String>,
}

impl Diagnostic {
    /// Returns a diagnostic without a place.
    #[must_use]
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self { severity, message: message.into(), labels: Vec::new(), help: None }
    }

    /// Returns an error at a place.
    #[must_use]
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, message).at(span)
    }

    /// Returns a warning at a place.
    #[must_use]
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, message).at(span)
    }

    /// Returns it with a position added.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.labels.push(Label { span, text: None });
        self
    }

    /// Returns it with a position added and its description.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: Some(text.into()) });
        self
    }

    /// Returns it with advice.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns its position, if it has one.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        self.labels.first().map(|label| label.span)
    }
}

/// Collects the diagnostics of a reader.
#[derive(Debug, Default)]
pub(crate) struct Report {
    kept: Vec<Diagnostic>,
    counts: [usize; 3],
}

impl Report {
    /// How many of one severity are collected before they are only counted: more than are shown,
    /// because readers do not find problems in order of position.
    const COLLECTED_MAX: usize = 10 * SHOWN_MAX;

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        let count = &mut self.counts[diagnostic.severity as usize];
        *count += 1;
        if *count <= Self::COLLECTED_MAX {
            self.kept.push(diagnostic);
        }
    }

    /// Reports an error.
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::error(span, message));
    }

    /// Reports an error with advice.
    pub(crate) fn error_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.push(Diagnostic::error(span, message).help(help));
    }

    /// Reports a warning.
    pub(crate) fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::warning(span, message));
    }

    pub(crate) const fn has_errors(&self) -> bool {
        self.counts[Severity::Error as usize] > 0
    }

    /// Sorts by position and cuts to the shown number.
    pub(crate) fn finish(mut self, source: Source) -> Diagnostics {
        self.kept.sort_by_key(|diagnostic| (diagnostic.span(), diagnostic.severity));
        let mut shown = [0; 3];
        self.kept.retain(|diagnostic| {
            let shown = &mut shown[diagnostic.severity as usize];
            *shown += 1;
            *shown <= SHOWN_MAX
        });
        Diagnostics { source, items: self.kept, counts: self.counts }
    }
}

/// An input: its name, its text and the starts of its lines. An input of several files is the
/// concatenation of their texts.
#[derive(Clone)]
pub(crate) struct Source {
    /// Name and first byte of each file. At least one.
    parts: Arc<[(Arc<str>, u32)]>,
    text: Arc<str>,
    line_starts: OnceLock<Arc<[u32]>>,
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        Self::of_parts([(name, 0)], text)
    }

    /// Returns an input of several files; each ends with a line break before the next one.
    pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = (&'a str, usize)>, text: &str) -> Self {
        let parts = parts.into_iter().map(|(name, start)| (name.into(), Span::new(start..start).start)).collect();
        Self { parts, text: text.into(), line_starts: OnceLock::new() }
    }

    /// Returns it without hidden characters in names and text; every position stays.
    pub(crate) fn visible(&self) -> Self {
        let parts = self.parts.iter().map(|(name, start)| (Arc::from(&*visible(name)), *start)).collect();
        let text = match visible(&self.text) {
            Cow::Borrowed(_) => Arc::clone(&self.text),
            Cow::Owned(text) => text.into(),
        };
        Self { parts, text, line_starts: self.line_starts.clone() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.parts[0].0
    }

    /// Returns the name of the file that a byte belongs to, its first byte, and the byte behind it.
    pub(crate) fn part_of(&self, at: u32) -> (&str, Range<usize>) {
        let part = self.parts.partition_point(|(_, start)| *start <= at).saturating_sub(1);
        let (name, start) = &self.parts[part];
        let end = self.parts.get(part + 1).map_or(self.text.len(), |(_, start)| *start as usize - 1);
        (name, *start as usize..end)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn line_starts(&self) -> &[u32] {
        self.line_starts.get_or_init(|| {
            let after_newline = self.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            core::iter::once(0).chain(after_newline.map(|(at, _)| Span::new(at + 1..at + 1).start)).collect()
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.name(), self.text.len())
    }
}

/// Line and column, both from 1. A column is a character; a tab is one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Location {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// All messages about one input, in order of position.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    pub(crate) source: Source,
    items: Vec<Diagnostic>,
    counts: [usize; 3],
}

impl Diagnostics {
    /// Returns the name of the input.
    #[must_use]
    pub fn source_name(&self) -> &str {
        self.source.name()
    }

    /// Returns the text of the input; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> &str {
        self.source.text()
    }

    /// Returns those that are shown: at most [`SHOWN_MAX`] of a severity.
    pub fn iter(&self) -> core::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Returns how many are shown.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are no messages.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns how many there are of a severity, those not shown included.
    #[must_use]
    pub const fn count(&self, severity: Severity) -> usize {
        self.counts[severity as usize]
    }

    /// Returns them without hidden characters in messages and in the source; every position stays.
    pub(crate) fn visible(self) -> Self {
        let text = |text: String| visible(&text).into_owned();
        let label = |label: Label| Label { text: label.text.map(text), ..label };
        let shown = |diagnostic: Diagnostic| Diagnostic {
            message: text(diagnostic.message),
            labels: diagnostic.labels.into_iter().map(label).collect(),
            help: diagnostic.help.map(text),
            ..diagnostic
        };
        Self { source: self.source.visible(), items: self.items.into_iter().map(shown).collect(), ..self }
    }

    /// Returns the name of the file that contains a span.
    #[must_use]
    pub fn file_of(&self, span: Span) -> &str {
        self.source.part_of(span.start).0
    }

    /// Returns the line and column of a span's start in its file. O(log lines + length of the
    /// line).
    #[must_use]
    pub fn location(&self, span: Span) -> Location {
        let starts = self.source.line_starts();
        let first = Span::new(self.source.part_of(span.start).1).start;
        let before_file = starts.partition_point(|start| *start < first);
        let line = starts.partition_point(|start| *start <= span.start).max(1);
        let before = self.text().get(starts[line - 1] as usize..span.start as usize).unwrap_or_default();
        let columns = before.trim_start_matches('\u{feff}').chars().count();
        Location { line: line - before_file, column: columns + 1 }
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = core::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl core::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected(text: &str, spans: &[usize]) -> Diagnostics {
        let mut report = Report::default();
        for start in spans {
            report.error(Span::new(*start..*start + 1), format!("at {start}"));
        }
        report.finish(Source::new("a.json", text))
    }

    #[test]
    fn locations_count_characters_from_one() {
        let all = collected("\u{feff}ab\n\tü€x\n", &[]);
        let at = |start| all.location(Span::new(start..start)).to_string();
        assert_eq!(at(0), "1:1");
        assert_eq!(at(3), "1:1");
        assert_eq!(at(4), "1:2");
        assert_eq!(at(6), "2:1");
        assert_eq!(at(12), "2:4");
        assert_eq!(at(14), "3:1");
        assert_eq!(at(999), "3:1");
    }

    #[test]
    fn they_come_out_in_order_and_the_rest_is_counted() {
        let spans: Vec<usize> = (0..5000).rev().collect();
        let all = collected(&" ".repeat(5001), &spans);
        assert_eq!(all.len(), SHOWN_MAX);
        assert_eq!(all.count(Severity::Error), 5000);
        assert!(all.iter().is_sorted_by_key(|diagnostic| diagnostic.span()));
    }
}
