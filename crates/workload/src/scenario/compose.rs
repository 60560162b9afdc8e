//! One scenario out of several texts: included files, and parameters.
//!
//! ```toml
//! include = ["machine.toml"]          # read first: this file overrides it, key by key
//!
//! [parameters]                        # names for values, which `--set NAME=VALUE` replaces
//! workers = 8
//! quota = "20ms"
//!
//! [task.worker]
//! instances = "${workers}"            # alone in its string: the value keeps its type
//! steps = [{ run = "${quota}" }]
//! ```
//!
//! All texts are concatenated, so that a position in any of them is one [`Span`]. A file may be
//! included twice (its second reading adds nothing), but not from within itself.

use super::table::{kind, span};
use super::tree::{self, Members, Node, Value};
use crate::LoadOptions;
use crate::diagnostic::{Diagnostic, Report, Source, Span};
use crate::input;
use core::fmt::Write;
use std::collections::BTreeSet;
use std::path::Path;
use zerolag_model::settings::nearest;

/// The most files of one scenario.
const FILES_MAX: usize = 64;

/// The texts of a scenario.
pub(super) struct Texts {
    /// Name, start, and the file that included it.
    parts: Vec<(String, usize, Option<usize>)>,
    /// All texts, separated by line breaks.
    whole: String,
}

/// The values of `--set` are a text of their own under this name.
const SET: &str = "--set";

impl Texts {
    /// Reads a scenario and its included files. Mistakes are reported.
    pub(super) fn gather(name: &str, text: &str, options: &LoadOptions, report: &mut Report) -> Self {
        let mut texts = Self { parts: Vec::new(), whole: String::with_capacity(text.len()) };
        texts.add(name, text, None);
        if !options.parameters.is_empty() {
            texts.add(SET, &overrides(&options.parameters), None);
        }
        let mut next = 0;
        while next < texts.parts.len() {
            texts.include_from(next, options, report);
            next += 1;
        }
        texts
    }

    /// Returns the texts as one input.
    pub(super) fn source(&self) -> Source {
        let parts = self.parts.iter().map(|(name, start, _)| (&**name, *start));
        Source::of_parts(parts, &self.whole)
    }

    fn add(&mut self, name: &str, text: &str, by: Option<usize>) {
        // Also after an empty text: `text` expects the line break between any two.
        if !self.parts.is_empty() {
            self.whole.push('\n');
        }
        let start = self.whole.len();
        self.whole.push_str(text);
        self.parts.push((name.to_owned(), start, by));
    }

    /// Returns a text, and its start.
    fn text(&self, file: usize) -> (&str, usize) {
        let start = self.parts[file].1;
        let end = self.parts.get(file + 1).map_or(self.whole.len(), |(_, next, _)| next - 1);
        (&self.whole[start..end], start)
    }

    fn include_from(&mut self, file: usize, options: &LoadOptions, report: &mut Report) {
        let (text, start) = self.text(file);
        // Most files include nothing, which this test sees quickly; an escape could spell the key.
        if !text.contains("include") && !text.contains('\\') {
            return;
        }
        // Parsed twice, here for `include` alone: the tree borrows the text, which moves when more
        // is read.
        let text = text.to_owned();
        let Ok(root) = tree::parse(&text, start) else { return };
        let Some(item) = root.get("include") else { return };
        let Value::Array(items) = item.get_ref() else {
            let message = format!("`include` is an array of file names, not {}", kind(item.get_ref()));
            report.error_help(span(item), message, "write include = [\"machine.toml\"]");
            return;
        };
        for item in items {
            match item.get_ref() {
                Value::String(path) => self.include(file, path, span(item), options, report),
                other => report.error(span(item), format!("`include` takes file names, not {}", kind(other))),
            }
        }
    }

    fn include(&mut self, by: usize, path: &str, at: Span, options: &LoadOptions, report: &mut Report) {
        let Some(reader) = &options.includes else {
            report.error(at, format!("`include`: \"{path}\" cannot be read from here"));
            return;
        };
        let beside = Path::new(&self.parts[by].0).parent().unwrap_or(Path::new(""));
        let full = beside.join(path).display().to_string();
        let mut above = Some(by);
        while let Some(file) = above {
            if self.parts[file].0 == full {
                report.error(at, format!("`include`: \"{path}\" includes itself"));
                return;
            }
            above = self.parts[file].2;
        }
        if self.parts.len() == FILES_MAX {
            report.error(at, format!("`include`: a scenario has at most {FILES_MAX} files"));
            return;
        }
        match reader.read(&full) {
            Err(reason) => report.error(at, format!("`include`: cannot read \"{full}\": {reason}")),
            Ok(bytes) if bytes.len() + self.whole.len() > super::SCENARIO_MAX => {
                report
                    .error(at, format!("`include`: with \"{full}\" there are more than {} bytes", super::SCENARIO_MAX));
            }
            Ok(bytes) => match input::text_of(&full, &bytes) {
                Ok(text) => self.add(&full, text, Some(by)),
                Err(diagnostics) => {
                    let reason = diagnostics.iter().next().map_or_else(String::new, |first| first.message.clone());
                    report.error(at, format!("`include`: \"{full}\": {reason}"));
                }
            },
        }
    }

    /// Returns the one table that the texts form. Mistakes in any of them are reported.
    pub(super) fn merged(&self, report: &mut Report) -> Members<'_> {
        let mut tables = (0..self.parts.len()).map(|file| {
            let (text, start) = self.text(file);
            tree::parse(text, start).unwrap_or_else(|tree::Wrong| {
                say_what_is_wrong(text, start, report);
                Members::default()
            })
        });
        let mut whole = tables.next().unwrap_or_default();
        let mut rest: Vec<Members<'_>> = tables.collect();
        if self.parts.get(1).is_some_and(|(name, ..)| name == SET) {
            // The command line overrides all files.
            let set = rest.remove(0);
            override_parameters(&mut whole, &mut rest, set);
        }
        for included in rest {
            whole.merge(included);
        }
        whole.remove("include");
        whole
    }
}

/// Reports all mistakes of a text, in the words of the crate `toml`.
fn say_what_is_wrong(text: &str, start: usize, report: &mut Report) {
    let (_, errors) = toml::de::DeTable::parse_recoverable(text);
    let mut is_too_deep = false;
    for error in &errors {
        let at = error.span().unwrap_or(0..0);
        let span = Span::new(start + at.start..start + at.end);
        if !error.message().starts_with("cannot recurse") {
            report.error(span, super::lowercase(error.message()));
        } else if !core::mem::replace(&mut is_too_deep, true) {
            // The parser repeats this error at every enclosing bracket.
            report.error(span, format!("brackets are nested deeper than {DEPTH_MAX}"));
        }
    }
    if errors.is_empty() {
        report.error(Span::new(start..start), "this is not TOML");
    }
}

/// The deepest nesting: the TOML parser's own limit.
const DEPTH_MAX: usize = 80;

/// Replaces declared parameters by the command line's values, wherever they are declared.
fn override_parameters<'i>(first: &mut Members<'i>, rest: &mut [Members<'i>], set: Members<'i>) {
    for member in set {
        for table in core::iter::once(&mut *first).chain(rest.iter_mut()) {
            if let Some(Value::Table(declared)) = table.get_mut("parameters").map(Node::get_mut)
                && let Some(item) = declared.get_mut(&member.key)
            {
                *item = member.item.clone();
            }
        }
    }
}

/// Returns the command line's values as TOML: numbers and truth values keep their type, all else is
/// a string.
fn overrides(pairs: &[(String, String)]) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        let is_plain = matches!(value.as_str(), "true" | "false")
            || value.parse::<i64>().is_ok_and(|number| number.to_string() == *value)
            || value.parse::<f64>().is_ok_and(f64::is_finite) && value.contains('.') && !value.ends_with('.');
        let quoted = |text: &str| format!("\"{}\"", text.escape_default());
        let value = if is_plain { value.clone() } else { quoted(value) };
        writeln!(text, "{} = {value}", quoted(name)).expect("a String takes it");
    }
    text
}

/// Replaces `${name}` in every string by the parameter of that name, and returns the declared
/// names.
pub(super) fn fill_in(root: &mut Members<'_>, report: &mut Report) -> Vec<String> {
    let Some(declared) = root.remove("parameters") else {
        return Vec::new();
    };
    let at = span(&declared.item);
    let Value::Table(parameters) = declared.item.into_inner() else {
        report.error_help(at, "`parameters` is a table", "write [parameters] and name = value below it");
        return Vec::new();
    };
    for tree::Member { key, item, .. } in parameters.as_slice() {
        if matches!(item.get_ref(), Value::Table(_) | Value::Array(_)) {
            let message = format!("parameter `{key}` is one value, not {}", kind(item.get_ref()));
            report.error(span(item), message);
        }
    }
    let mut filler = Filler { parameters: &parameters, used: BTreeSet::new(), report };
    for member in root.iter_mut() {
        filler.item(&mut member.item);
    }
    let used = filler.used;
    // Setting one would change nothing, without a word.
    for tree::Member { key, item, .. } in parameters.as_slice().iter().filter(|member| !used.contains(&*member.key)) {
        let help = format!("write \"${{{key}}}\" where its value belongs, or remove it");
        report.error_help(span(item), format!("parameter `{key}` is used nowhere"), &help);
    }
    let mut names: Vec<String> = parameters.as_slice().iter().map(|member| member.key.to_string()).collect();
    names.sort();
    names
}

struct Filler<'f, 'i> {
    parameters: &'f Members<'i>,
    used: BTreeSet<String>,
    report: &'f mut Report,
}

impl<'i> Filler<'_, 'i> {
    /// The depth is limited by the TOML parser.
    fn item(&mut self, item: &mut Node<'i>) {
        let at = span(item);
        match item.get_mut() {
            Value::Table(table) => table.iter_mut().for_each(|member| self.item(&mut member.item)),
            Value::Array(items) => items.iter_mut().for_each(|item| self.item(item)),
            Value::String(text) if text.contains("${") => {
                let replaced = self.text(text, at);
                if let Some(value) = replaced {
                    *item.get_mut() = value;
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str, at: Span) -> Option<Value<'i>> {
        // A parameter alone in its string keeps its type.
        if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
            && !name.contains('}')
        {
            return self.parameter(name, at).cloned();
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            out.push_str(&rest[..start]);
            let Some(length) = rest[start..].find('}') else {
                self.report.error_help(at, "`${` is not closed", "write ${name}");
                return None;
            };
            match self.parameter(&rest[start + 2..start + length], at)? {
                Value::String(value) => out.push_str(value),
                Value::Integer(value) => write!(out, "{value}").expect("a String takes it"),
                Value::Float(value) => write!(out, "{value}").expect("a String takes it"),
                Value::Boolean(value) => write!(out, "{value}").expect("a String takes it"),
                Value::Datetime | Value::Array(_) | Value::Table(_) => return None,
            }
            rest = &rest[start + length + 1..];
        }
        out.push_str(rest);
        Some(Value::String(out.into()))
    }

    fn parameter(&mut self, name: &str, at: Span) -> Option<&Value<'i>> {
        let found = self.parameters.get(name);
        if found.is_some() {
            self.used.insert(name.to_owned());
        } else {
            let diagnostic = Diagnostic::error(at, format!("there is no parameter `{name}`"));
            let known = self.parameters.as_slice().iter().map(|member| &*member.key);
            self.report.push(match nearest(name, known) {
                Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                None => diagnostic.help(format!("write it below [parameters]: {name} = 1")),
            });
        }
        found.map(Node::get_ref)
    }
}
