//! Printing of [`Diagnostics`].
//!
//! `Display` writes one line per position, as compilers do, so that editors can jump there:
//!
//! ```text
//! audio.json:6:13: error: `"suspend"` has no value
//!   help: write `"suspend": ""`
//! ```
//!
//! [`Diagnostics::carets`] passes the same to `miette`, whose renderer (a feature of the binary)
//! prints the source with carets below it. It returns a type of its own, because `miette` prints a
//! report's `Display` *and* its parts.

use crate::diagnostic::{Diagnostic, Diagnostics, Severity, Source};
use core::fmt;
use miette::{LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.source_name();
        let mut separator = "";
        for diagnostic in self {
            f.write_str(separator)?;
            separator = "\n";
            match diagnostic.span() {
                Some(span) => write!(f, "{}:{}: ", self.file_of(span), self.location(span))?,
                None => write!(f, "{name}: ")?,
            }
            write!(f, "{}: {}", diagnostic.severity, diagnostic.message)?;
            for label in &diagnostic.labels {
                if let Some(text) = &label.text {
                    write!(f, "\n  {}:{}: {text}", self.file_of(label.span), self.location(label.span))?;
                }
            }
            if let Some(help) = &diagnostic.help {
                write!(f, "\n  help: {help}")?;
            }
        }
        if let Some(hidden) = self.hidden() {
            write!(f, "{separator}{name}: {hidden}")?;
        }
        Ok(())
    }
}

impl Diagnostics {
    /// Returns the number of hidden messages, as "and 17 more errors", if there are any.
    fn hidden(&self) -> Option<String> {
        let parts: Vec<String> = Severity::ALL
            .into_iter()
            .filter_map(|severity| {
                let shown = self.iter().filter(|diagnostic| diagnostic.severity == severity).count();
                let hidden = self.count(severity).saturating_sub(shown);
                (hidden > 0).then(|| format!("{hidden} more {}", plural(severity, hidden)))
            })
            .collect();
        (!parts.is_empty()).then(|| format!("and {}", parts.join(" and ")))
    }

    /// Returns them as a `miette` diagnostic: a headline, and each message with its position in the
    /// source. Hidden characters of the source, and texts that quote it, become marks of the same
    /// length: no control sequence of a file reaches a terminal, and carets stay where they belong.
    #[must_use]
    pub fn carets(self) -> Carets {
        let all = self.visible();
        let parts = all.iter().map(|diagnostic| RenderedDiagnostic(diagnostic.clone())).collect();
        Carets { all, parts }
    }
}

impl From<Diagnostics> for miette::Report {
    fn from(diagnostics: Diagnostics) -> Self {
        Self::new(diagnostics.carets())
    }
}

fn plural(severity: Severity, count: usize) -> String {
    if count == 1 { severity.to_string() } else { format!("{severity}s") }
}

/// [`Diagnostics`] for `miette`. Its `Display` is the headline: "audio.json: 2 errors, 1 warning".
#[derive(Debug)]
pub struct Carets {
    all: Diagnostics,
    parts: Vec<RenderedDiagnostic>,
}

impl fmt::Display for Carets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = Severity::ALL
            .into_iter()
            .map(|severity| (severity, self.all.count(severity)))
            .filter(|(_, count)| *count > 0)
            .map(|(severity, count)| format!("{count} {}", plural(severity, count)))
            .collect();
        write!(f, "{}: {}", self.all.source_name(), counts.join(", "))
    }
}

impl core::error::Error for Carets {}

impl miette::Diagnostic for Carets {
    fn severity(&self) -> Option<miette::Severity> {
        Severity::ALL.into_iter().find(|severity| self.all.count(*severity) > 0).map(miette_severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.all.hidden().map(|hidden| Box::new(hidden) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.all.source)
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.parts.iter().map(|part| part as &dyn miette::Diagnostic)))
    }
}

/// One diagnostic for `miette`; the source is in the parent.
#[derive(Debug)]
struct RenderedDiagnostic(Diagnostic);

impl fmt::Display for RenderedDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl core::error::Error for RenderedDiagnostic {}

impl miette::Diagnostic for RenderedDiagnostic {
    fn severity(&self) -> Option<miette::Severity> {
        Some(miette_severity(self.0.severity))
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        if self.0.labels.is_empty() {
            return None;
        }
        let labels = self.0.labels.iter().enumerate().map(|(place, label)| {
            let span = SourceSpan::from(label.span.range());
            match place {
                0 => LabeledSpan::new_primary_with_span(label.text.clone().or_else(|| Some("here".into())), span),
                _ => LabeledSpan::new_with_span(label.text.clone(), span),
            }
        });
        Some(Box::new(labels))
    }
}

const fn miette_severity(severity: Severity) -> miette::Severity {
    match severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
        Severity::Note => miette::Severity::Advice,
    }
}

/// The length of the context on a long line, in bytes: some files are one line of megabytes.
const REACH: usize = 256;

/// Finds a span's lines by binary search; `miette`'s own reader of strings scans the text from its
/// start every time.
impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let text = self.text();
        let (start, end) = (span.offset(), span.offset() + span.len());
        if end > text.len() || !text.is_char_boundary(start) || !text.is_char_boundary(end) {
            return Err(MietteError::OutOfBounds);
        }
        let starts = self.line_starts();
        let line_of = |at: usize| starts.partition_point(|start| *start as usize <= at).saturating_sub(1);
        let line_start = |line: usize| starts.get(line).map_or(text.len(), |start| *start as usize);
        let (first, last) = (line_of(start).saturating_sub(lines_before), line_of(end) + lines_after);
        let (name, file) = self.part_of(u32::try_from(start).unwrap_or(u32::MAX));
        let mut from = line_start(first).max(text.floor_char_boundary(start.saturating_sub(REACH))).max(file.start);
        // If the reach cuts into an earlier line, the context starts at the next full line.
        let line = line_of(from).max(first);
        if from > line_start(line) && line < line_of(start) {
            from = line_start(line + 1);
        }
        if lines_before == 0 {
            // The head of a snippet asks for the line and column of the position itself in this
            // way.
            from = start;
        }
        let upto =
            line_start(last + 1).min(text.ceil_char_boundary((end + REACH).min(text.len()))).min(file.end.max(end));
        let line = line_of(from);
        let line_in_file = line - line_of(file.start);
        let column = text[line_start(line)..from].chars().count();
        let data = &text.as_bytes()[from..upto];
        let window = SourceSpan::new(from.into(), upto - from);
        Ok(Box::new(MietteSpanContents::new_named(
            name.into(),
            data,
            window,
            line_in_file,
            column,
            line_of(upto) - line + 1,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::{Report, Span};

    fn sample() -> Diagnostics {
        let mut report = Report::default();
        report
            .push(Diagnostic::error(Span::new(4..5), "b is wrong").label(Span::new(0..1), "a is here").help("write c"));
        report.warning(Span::new(0..1), "a is odd");
        report.finish(Source::new("x.json", "a\n  b\n"))
    }

    #[test]
    fn lines_can_be_jumped_to() {
        let expected = "x.json:1:1: warning: a is odd\n\
                        x.json:2:3: error: b is wrong\n  x.json:1:1: a is here\n  help: write c";
        assert_eq!(sample().to_string(), expected);
    }

    #[test]
    fn what_is_not_shown_is_counted() {
        let mut report = Report::default();
        for at in 0..150 {
            report.error(Span::new(at..at), "wrong");
        }
        let text = report.finish(Source::new("x", &" ".repeat(200))).to_string();
        assert!(text.ends_with("x: and 50 more errors"), "{text}");
    }

    #[test]
    fn miette_gets_headline_parts_and_source() {
        let carets = sample().carets();
        assert_eq!(carets.to_string(), "x.json: 1 error, 1 warning");
        let rendered = {
            let mut out = String::new();
            miette::NarratableReportHandler::new().render_report(&mut out, &carets).expect("renders");
            out
        };
        let place = miette::Diagnostic::source_code(&carets)
            .expect("a source")
            .read_span(&SourceSpan::new(4.into(), 1), 0, 0)
            .expect("inside");
        assert_eq!((place.line(), place.column()), (1, 2));
        assert!(rendered.contains("b is wrong") && rendered.contains("snippet line 2:   b"), "{rendered}");
    }

    #[test]
    fn a_hostile_file_reaches_no_terminal_and_keeps_its_columns() {
        let text = "\u{1b}]0;x\u{7}\u{202e}b\r\n";
        let at = text.find('b').expect("it is there");
        let mut report = Report::default();
        report.push(Diagnostic::error(Span::new(at..at + 1), "\u{9b}31m is wrong").help("\u{1b}[2J"));
        let carets = report.finish(Source::new("\u{1b}x", text)).carets();
        let mut out = String::new();
        miette::NarratableReportHandler::new().render_report(&mut out, &carets).expect("renders");
        assert!(!out.chars().any(|c| c != '\n' && c != '\r' && zerolag_model::text::is_hidden(c)), "{out:?}");
        assert!(out.contains("snippet line 1: ?]0;x?\u{fffd}b") && out.contains("at line 1, column 8"), "{out}");
    }

    #[test]
    fn a_line_of_megabytes_is_shown_in_part() {
        let source = Source::new("x", &"y".repeat(1 << 20));
        let span = SourceSpan::new(500_000.into(), 3);
        let window = source.read_span(&span, 1, 1).expect("inside");
        assert_eq!(window.data().len(), 2 * REACH + 3);
        assert_eq!(window.column(), 500_000 - REACH);
        assert!(source.read_span(&SourceSpan::new((1 << 20).into(), 1), 1, 1).is_err());
    }
}
