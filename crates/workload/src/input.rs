//! From bytes to text: checks before any grammar, and the choice of the grammar.
//!
//! One pass over the bytes refuses input that is too large, not UTF-8 or not text at all; a byte
//! order mark is skipped. The format is chosen by the name's extension, else by the contents:
//! rt-app files are a JSON object, task sets are XML, a list `taskset:` or a table whose first line
//! names its columns; anything else is TOML.

use crate::diagnostic::{Diagnostic, Diagnostics, Report, Severity, Source, Span};
use crate::task_set;

/// The largest input, in bytes.
pub const INPUT_MAX: usize = 100_000_000;

/// The deepest nesting of brackets.
pub const NESTING_MAX: usize = 128;

/// The most values in an rt-app file: their tree takes some 50 bytes each.
pub const VALUES_MAX: usize = 10_000_000;

/// The grammars.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// JSON as rt-app reads it.
    RtApp,
    /// Scenario TOML.
    Scenario,
    /// A table of periodic tasks.
    TaskSet,
    /// A task set in XML.
    Xml,
    /// A task set in YAML.
    Yaml,
}

/// Returns the text of the input.
///
/// # Errors
/// Too large, not UTF-8, or containing a byte that no text contains.
pub(crate) fn text_of<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, Diagnostics> {
    let refuse = |diagnostic: Diagnostic, text: &str| {
        let mut report = Report::default();
        report.push(diagnostic);
        Err(report.finish(Source::new(name, text)))
    };
    if bytes.len() > INPUT_MAX {
        let message = format!("the file has {} bytes; at most {INPUT_MAX} are read", bytes.len());
        return refuse(Diagnostic::new(Severity::Error, message), "");
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let message = "the file is UTF-16 text";
        return refuse(Diagnostic::new(Severity::Error, message).help("save it as UTF-8"), "");
    }
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            let lossy = String::from_utf8_lossy(bytes);
            let message = format!("byte {:#04x} at offset {at} is not UTF-8 text", bytes[at]);
            // A replacement character takes three bytes.
            return refuse(Diagnostic::error(Span::new(at..at + 3), message).help("save the file as UTF-8"), &lossy);
        }
    };
    let control = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c');
    // Whole blocks at once, without positions, so that the compiler vectorises the loop.
    let is_binary = bytes.chunks(256).any(|block| block.iter().fold(false, |found, byte| found | control(*byte)));
    if is_binary && let Some(at) = bytes.iter().position(|byte| control(*byte)) {
        let message = format!("byte {:#04x} at offset {at}: this is not a text file", bytes[at]);
        return refuse(Diagnostic::error(Span::new(at..at + 1), message), text);
    }
    Ok(text)
}

/// Chooses the grammar.
pub(crate) fn format_of(name: &str, text: &str) -> Format {
    let extension =
        name.rsplit(['/', '\\']).next().and_then(|file| file.rsplit_once('.')).map(|(_, extension)| extension);
    match extension {
        Some("json" | "jsonc") => Format::RtApp,
        Some("toml") => Format::Scenario,
        Some("csv") => Format::TaskSet,
        Some("xml") => Format::Xml,
        Some("yml" | "yaml") => Format::Yaml,
        Some(_) | None => match text.trim_start_matches('\u{feff}').trim_start().as_bytes().first() {
            Some(b'{' | b'/') => Format::RtApp,
            Some(b'<') => Format::Xml,
            Some(_) | None if text.lines().any(|line| line.trim_end() == "taskset:") => Format::Yaml,
            Some(_) | None if task_set::is_table(text) => Format::TaskSet,
            Some(_) | None => Format::Scenario,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        text_of("w", bytes).expect_err("refused").to_string()
    }

    #[test]
    fn what_is_not_text_is_refused_where_it_is_not() {
        assert_eq!(
            refused(b"{\n  \xc3\x28"),
            "w:2:3: error: byte 0xc3 at offset 4 is not UTF-8 text\n  help: save the file as UTF-8"
        );
        assert_eq!(refused(b"{\0}"), "w:1:2: error: byte 0x00 at offset 1: this is not a text file");
        assert_eq!(refused(b"\xff\xfe{\0"), "w: error: the file is UTF-16 text\n  help: save it as UTF-8");
        assert!(text_of("w", "\u{feff}{}".as_bytes()).is_ok());
        let large = vec![b' '; INPUT_MAX + 1];
        assert_eq!(refused(&large), "w: error: the file has 100000001 bytes; at most 100000000 are read");
    }

    #[test]
    fn the_format_is_in_the_name_or_the_first_character() {
        for (name, text, format) in [
            ("a.json", "x = 1", Format::RtApp),
            ("a.toml", "{", Format::Scenario),
            ("a.csv", "{", Format::TaskSet),
            ("dir.json/a", "x = 1", Format::Scenario),
            ("-", "\u{feff} \n{", Format::RtApp),
            ("-", "/* */ {", Format::RtApp),
            ("-", "[task.a]", Format::Scenario),
            ("-", "", Format::Scenario),
            ("a.xml", "x = 1", Format::Xml),
            ("a.yaml", "", Format::Yaml),
            ("-", "\u{feff}\n<?xml version='1.0'?>", Format::Xml),
            ("set.txt", "# of a tool\ntaskset:\n- name: a\n", Format::Yaml),
            ("-", "\u{feff}# ms\nname, wcet_ms, period_ms\n", Format::TaskSet),
            ("-", "name = \"runtime, period\"", Format::Scenario),
        ] {
            assert_eq!(format_of(name, text), format, "{name} {text}");
        }
    }
}
