//! A parser of JSON as json-c, and so rt-app, reads it, with positions and recovery from errors.
//!
//! Beyond RFC 8259 it accepts comments (`/* */`, `//`), trailing commas, single quotes, leading
//! zeros, `NaN` and `Infinity`, literals in any case and raw line breaks in strings; text after the
//! root value is ignored. It does not accept hexadecimal numbers, bare names or missing commas.
//! Duplicate keys are kept for [`super::duplicates`] to decide.
//!
//! Handwritten, because none of the available crates accepts exactly this dialect (leading zeros,
//! case, trailing text), keeps duplicates with their positions *and* reports more than the first
//! error. The parser keeps its own stack, so that no nesting, however deep, can exhaust the
//! thread's stack. Depth is limited to [`NESTING_MAX`] so that users of the tree may recurse.
//!
//! Cost: O(input). Source of the dialect: json-c, `json_tokener.c`, without `JSON_TOKENER_STRICT`.

use crate::diagnostic::{Diagnostic, Report, Span};
use crate::input::{NESTING_MAX, VALUES_MAX};
use std::borrow::Cow;

/// A value and its position.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) span: Span,
    pub(crate) value: Value<'a>,
}

/// A value.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool(bool),
    /// A whole number; `None` if it does not fit 64 bits.
    Int(Option<i64>),
    /// Any other number.
    Float,
    /// A string.
    String(Cow<'a, str>),
    /// An array.
    Array(Box<[Node<'a>]>),
    /// An object, members in order of the text.
    Object(Box<[Member<'a>]>),
    /// A missing value, which has been reported.
    Missing,
}

/// A member of an object.
#[derive(Debug)]
pub(crate) struct Member<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) key_span: Span,
    pub(crate) node: Node<'a>,
    /// Whether the key was renamed as a duplicate.
    pub(crate) renamed: bool,
}

impl Value<'_> {
    /// Returns the kind of the value, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "a whole number",
            Self::Float => "a number with a fraction or exponent",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
            Self::Missing => "nothing",
        }
    }
}

/// What an open array or object can continue with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expect {
    /// An item, or the end.
    ItemOrEnd,
    /// A comma, or the end.
    CommaOrEnd,
}

/// An open array or object: its contents so far are the last of the parser's items or members.
#[derive(Debug)]
struct OpenValue<'a> {
    start: usize,
    expect: Expect,
    body: OpenBody<'a>,
}

#[derive(Debug)]
enum OpenBody<'a> {
    Array { first: usize },
    Object { first: usize, key: Option<(Cow<'a, str>, Span)> },
}

impl OpenBody<'_> {
    const fn close(&self) -> u8 {
        match self {
            Self::Array { .. } => b']',
            Self::Object { .. } => b'}',
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Array { .. } => "array",
            Self::Object { .. } => "object",
        }
    }
}

/// Takes the elements from `first` on off a stack, in one allocation of their size.
fn split_off<T>(stack: &mut Vec<T>, first: usize) -> Box<[T]> {
    if first == 0 { core::mem::take(stack).into_boxed_slice() } else { stack.drain(first..).collect() }
}

/// The parser cannot continue; this has been reported.
struct CannotContinue;

/// The result of parsing.
pub(crate) struct Parsed<'a> {
    pub(crate) root: Node<'a>,
    /// Whether any object has a key twice.
    pub(crate) has_duplicates: bool,
}

/// Parses a text. Errors are reported; `None` if the text has no usable value.
pub(crate) fn parse<'a>(text: &'a str, report: &mut Report) -> Option<Parsed<'a>> {
    let at = if text.starts_with('\u{feff}') {
        let message = "the file starts with a byte order mark, at which rt-app stops";
        report.push(Diagnostic::warning(Span::new(0..3), message).help("save it without one"));
        3
    } else {
        0
    };
    Parser {
        text,
        at,
        stack: Vec::new(),
        items: Vec::new(),
        members: Vec::new(),
        values: 0,
        has_duplicates: false,
        report,
    }
    .document()
    .ok()
}

struct Parser<'a, 'r> {
    text: &'a str,
    at: usize,
    stack: Vec<OpenValue<'a>>,
    /// Items of the open arrays, those of the innermost last.
    items: Vec<Node<'a>>,
    /// Members of the open objects, those of the innermost last.
    members: Vec<Member<'a>>,
    values: usize,
    has_duplicates: bool,
    report: &'r mut Report,
}

impl<'a> Parser<'a, '_> {
    fn document(mut self) -> Result<Parsed<'a>, CannotContinue> {
        let mut done = self.value()?;
        loop {
            // A complete value is added to the innermost open array or object; without one it is
            // the root.
            if let Some(node) = done.take() {
                match self.stack.last_mut() {
                    None => {
                        self.after_root()?;
                        return Ok(Parsed { root: node, has_duplicates: self.has_duplicates });
                    }
                    Some(frame) => {
                        frame.expect = Expect::CommaOrEnd;
                        match &mut frame.body {
                            OpenBody::Array { .. } => self.items.push(node),
                            OpenBody::Object { key, .. } => {
                                let (key, key_span) =
                                    key.take().expect("invariant: a member's key is read before its value");
                                self.members.push(Member { key, key_span, node, renamed: false });
                            }
                        }
                    }
                }
            }
            done = self.step()?;
        }
    }

    /// Continues in the innermost open array or object; returns a value that is complete.
    fn step(&mut self) -> Result<Option<Node<'a>>, CannotContinue> {
        self.trivia()?;
        let next = self.peek();
        let Some(frame) = self.stack.last_mut() else { return Ok(None) };
        let (close, expect, is_object) =
            (frame.body.close(), frame.expect, matches!(frame.body, OpenBody::Object { .. }));
        match next {
            None => Err(self.ends_early()),
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(self.stack.pop().map(|frame| Node {
                    span: Span::new(frame.start..self.at),
                    value: match frame.body {
                        OpenBody::Array { first } => Value::Array(split_off(&mut self.items, first)),
                        OpenBody::Object { first, .. } => {
                            self.has_duplicates = self.has_duplicates || has_duplicates(&self.members[first..]);
                            Value::Object(split_off(&mut self.members, first))
                        }
                    },
                }))
            }
            Some(b'}' | b']') => {
                let (start, name) = (frame.start, frame.body.name());
                let close = char::from(close);
                let message = format!("this closes nothing: the {name} that is open ends with `{close}`");
                let here = Span::new(self.at..self.at + 1);
                self.report.push(Diagnostic::error(here, message).label(Span::new(start..start + 1), "opened here"));
                Err(CannotContinue)
            }
            Some(b',') => {
                if expect == Expect::ItemOrEnd {
                    self.report.error(Span::new(self.at..self.at + 1), "nothing stands before this comma");
                }
                frame.expect = Expect::ItemOrEnd;
                self.at += 1;
                Ok(None)
            }
            Some(_) => {
                if expect == Expect::CommaOrEnd {
                    let message = format!("a comma or `{}` is missing before this", char::from(close));
                    self.report.error(self.token_span(), message);
                }
                if is_object { self.member() } else { self.value() }
            }
        }
    }

    /// Reads a key and its value; returns the value if it is complete.
    fn member(&mut self) -> Result<Option<Node<'a>>, CannotContinue> {
        let start = self.at;
        let key = match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote)?,
            _ => {
                let word = self.word();
                if word.is_empty() {
                    self.report.error(self.token_span(), "a key is expected here");
                    return Err(CannotContinue);
                }
                let help = format!("write \"{word}\"");
                self.report.error_help(Span::new(start..self.at), format!("key {word} is not quoted"), help);
                Cow::Borrowed(word)
            }
        };
        let key_span = Span::new(start..self.at);
        self.trivia()?;
        let colon = match self.peek() {
            None => return Err(self.ends_early()),
            Some(b':') => {
                self.at += 1;
                self.trivia()?;
                true
            }
            Some(_) => false,
        };
        let here = Span::new(self.at..self.at);
        let missing = match self.peek() {
            None => return Err(self.ends_early()),
            Some(b',' | b'}' | b']') => {
                let message = if colon {
                    format!("key \"{key}\" has no value after its colon")
                } else {
                    format!("key \"{key}\" has no value: `:` is expected here")
                };
                let next = Span::new(self.at..self.at + 1);
                self.report.push(Diagnostic::error(next, message).help(missing_value_help(&key)));
                true
            }
            Some(_) => {
                if !colon {
                    self.report.error(self.token_span(), format!("`:` is missing after key \"{key}\""));
                }
                false
            }
        };
        if let Some(OpenValue { body: OpenBody::Object { key: slot, .. }, .. }) = self.stack.last_mut() {
            *slot = Some((key, key_span));
        }
        if missing { Ok(Some(Node { span: here, value: Value::Missing })) } else { self.value() }
    }

    /// Reads a value; an array or object is only opened, and no value is complete then.
    fn value(&mut self) -> Result<Option<Node<'a>>, CannotContinue> {
        self.trivia()?;
        let start = self.at;
        self.values += 1;
        if self.values > VALUES_MAX {
            self.report.error(Span::new(start..start), format!("the file has more than {VALUES_MAX} values"));
            return Err(CannotContinue);
        }
        let value = match self.peek() {
            None => return Err(self.ends_early()),
            Some(open @ (b'{' | b'[')) => {
                if self.stack.len() == NESTING_MAX {
                    let message = format!("brackets are nested deeper than {NESTING_MAX}");
                    self.report.error(Span::new(start..start + 1), message);
                    return Err(CannotContinue);
                }
                let body = match open {
                    b'{' => OpenBody::Object { first: self.members.len(), key: None },
                    _ => OpenBody::Array { first: self.items.len() },
                };
                self.stack.push(OpenValue { start, expect: Expect::ItemOrEnd, body });
                self.at += 1;
                return Ok(None);
            }
            Some(quote @ (b'"' | b'\'')) => Value::String(self.string(quote)?),
            Some(_) => {
                let word = self.word();
                let span = Span::new(start..self.at.max(start + 1));
                if word.is_empty() {
                    self.report.error(self.token_span(), "a value is expected here");
                    return Err(CannotContinue);
                }
                scalar(word).unwrap_or_else(|help| {
                    let diagnostic = Diagnostic::error(span, format!("`{}` is not a value", shortened(word)));
                    self.report.push(match help {
                        Some(help) => diagnostic.help(help),
                        None => diagnostic,
                    });
                    Value::Missing
                })
            }
        };
        Ok(Some(Node { span: Span::new(start..self.at), value }))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and comments.
    #[inline]
    fn trivia(&mut self) -> Result<(), CannotContinue> {
        match self.peek() {
            Some(byte) if byte > b' ' && byte != b'/' => Ok(()),
            Some(_) | None => self.some_trivia(),
        }
    }

    fn some_trivia(&mut self) -> Result<(), CannotContinue> {
        let bytes = self.text.as_bytes();
        loop {
            let mut at = self.at;
            while let Some(b' ' | b'\t' | b'\n' | b'\r' | b'\x0c') = bytes.get(at) {
                at += 1;
            }
            self.at = at;
            if bytes.get(at) != Some(&b'/') {
                return Ok(());
            }
            match bytes.get(at + 1) {
                Some(b'/') => {
                    self.at =
                        bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
                }
                Some(b'*') => match self.text[at + 2..].find("*/") {
                    Some(length) => self.at += length + 4,
                    None => {
                        self.report.error(Span::new(at..at + 2), "this comment is not closed");
                        return Err(CannotContinue);
                    }
                },
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// Reads a string, opening quote to closing quote.
    fn string(&mut self, quote: u8) -> Result<Cow<'a, str>, CannotContinue> {
        let (text, open) = (self.text, self.at);
        let bytes = text.as_bytes();
        let mut at = open + 1;
        let mut decoded: Option<String> = None;
        let mut copied = at;
        loop {
            match bytes.get(at) {
                None => {
                    self.report.error(Span::new(open..open + 1), "this string is not closed");
                    return Err(CannotContinue);
                }
                Some(byte) if *byte == quote => break,
                Some(b'\\') => {
                    let out = decoded.get_or_insert_default();
                    out.push_str(&text[copied..at]);
                    let (character, length) = escape(&text[at..]);
                    if character.is_none() {
                        let end = at + text[at..].chars().take(2).map(char::len_utf8).sum::<usize>();
                        self.report.error(Span::new(at..end), format!("`{}` is not an escape", &text[at..end]));
                    }
                    out.extend(character);
                    at += length;
                    copied = at;
                }
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        Ok(match decoded {
            None => Cow::Borrowed(&text[open + 1..at]),
            Some(mut out) => {
                out.push_str(&text[copied..at]);
                Cow::Owned(out)
            }
        })
    }

    /// Reads up to the next delimiter.
    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+');
        let plain = rest.bytes().position(|byte| !plain(&byte)).unwrap_or(rest.len());
        let delimiter = |c: char| c.is_whitespace() || ",:{}[]\"'/".contains(c);
        let length = rest[plain..].find(delimiter).map_or(rest.len(), |more| plain + more);
        self.at += length;
        &rest[..length]
    }

    /// Returns the span of the current character.
    fn token_span(&self) -> Span {
        let length = self.text[self.at..].chars().next().map_or(0, char::len_utf8);
        Span::new(self.at..self.at + length)
    }

    fn ends_early(&mut self) -> CannotContinue {
        let end = Span::new(self.text.len()..self.text.len());
        self.report.push(match self.stack.last() {
            None => {
                Diagnostic::error(end, "the file is empty").help("an rt-app file is an object with a `tasks` object")
            }
            Some(frame) => {
                let message = format!("the file ends inside an {}: is it cut off?", frame.body.name());
                Diagnostic::error(end, message).label(Span::new(frame.start..frame.start + 1), "opened here")
            }
        });
        CannotContinue
    }

    fn after_root(&mut self) -> Result<(), CannotContinue> {
        self.trivia()?;
        if self.peek().is_some() {
            let message = "text after the root value is ignored";
            self.report.warning(self.token_span(), message);
        }
        Ok(())
    }
}

/// Returns whether members share a key. O(members), or O(members log members) if there are many.
pub(super) fn has_duplicates(members: &[Member<'_>]) -> bool {
    /// Up to here comparing all pairs is cheaper than a tree.
    const SMALL: usize = 8;
    if members.len() > SMALL {
        let mut seen = std::collections::BTreeSet::new();
        return !members.iter().all(|member| seen.insert(&*member.key));
    }
    // Keys of different marks differ, so only keys with a repeated mark are compared.
    let mut marks = 0_u64;
    members.iter().enumerate().any(|(at, member)| {
        let mark = 1 << (mark(&member.key) % 64);
        let seen = marks & mark != 0;
        marks |= mark;
        seen && members[..at].iter().any(|other| other.key == member.key)
    })
}

/// Returns a number that is the same for equal keys and differs for most others.
fn mark(key: &str) -> usize {
    let bytes = key.as_bytes();
    let [first, .., last] = bytes else { return bytes.len() };
    bytes.len() + usize::from(*first) * 7 + usize::from(*last) * 3
}

/// Returns the advice for a key without a value.
fn missing_value_help(key: &str) -> String {
    if key.starts_with("suspend") {
        format!("write \"{key}\": \"\" (a task suspends itself, so the value is ignored; rt-app refuses the key alone)")
    } else {
        format!("write \"{key}\": and a value")
    }
}

/// Shortens a quotation in a message.
fn shortened(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(40) {
        None => word.into(),
        Some((at, _)) => format!("{}...", &word[..at]).into(),
    }
}

/// Reads a number or literal; an error can have advice.
fn scalar<'a>(word: &str) -> Result<Value<'a>, Option<&'static str>> {
    if let Some(number) = small_number(word) {
        return Ok(Value::Int(Some(number)));
    }
    for (literal, value) in [("null", Value::Null), ("true", Value::Bool(true)), ("false", Value::Bool(false))] {
        if word.eq_ignore_ascii_case(literal) {
            return Ok(value);
        }
    }
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    if word.eq_ignore_ascii_case("nan") || unsigned.eq_ignore_ascii_case("infinity") {
        return Ok(Value::Float);
    }
    if unsigned.starts_with("0x") || unsigned.starts_with("0X") {
        return Err(Some("hexadecimal numbers are not JSON; write it in decimal"));
    }
    if unsigned.is_empty() || !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(None);
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Value::Int(word.parse().ok()));
    }
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (unsigned, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    if digits(whole) && digits(fraction) && digits(exponent) && !exponent.is_empty() {
        return Ok(Value::Float);
    }
    Err(Some("numbers carry no unit here; times are in microseconds"))
}

/// Returns the value of short decimal numbers, which most are: their digits certainly fit.
fn small_number(word: &str) -> Option<i64> {
    if word.len() > 18 {
        return None;
    }
    word.bytes().try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

/// Reads one escape; returns the character, if it is one, and how many bytes it took.
fn escape(text: &str) -> (Option<char>, usize) {
    let simple = |c| (Some(c), 2);
    match text.as_bytes().get(1) {
        Some(b'"') => simple('"'),
        Some(b'\\') => simple('\\'),
        Some(b'/') => simple('/'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => unicode_escape(text),
        Some(_) | None => (None, 1),
    }
}

fn unicode_escape(text: &str) -> (Option<char>, usize) {
    let unit = |at: usize| -> Option<u32> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    };
    let Some(first) = unit(0) else { return (None, 2) };
    if let (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) = (first, unit(6)) {
        let pair = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(pair), 12);
    }
    // Half a surrogate pair has no meaning; json-c inserts the replacement character.
    (Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)), 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Source;

    fn show(node: &Node<'_>) -> String {
        match &node.value {
            Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
            Value::Object(members) => {
                let members = members.iter().map(|member| format!("{}:{}", member.key, show(&member.node)));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
            Value::String(text) => format!("{text:?}"),
            Value::Int(value) => value.map_or("big".into(), |value| value.to_string()),
            Value::Bool(value) => value.to_string(),
            Value::Null => "null".into(),
            Value::Float => "float".into(),
            Value::Missing => "?".into(),
        }
    }

    fn read(text: &str) -> (String, String) {
        let mut report = Report::default();
        let tree = parse(text, &mut report).map_or("nothing".into(), |parsed| show(&parsed.root));
        (tree, report.finish(Source::new("f", text)).to_string())
    }

    #[test]
    fn the_dialect_is_that_of_json_c() {
        for (text, tree) in [
            ("{}", "{}"),
            ("{'a': 010, /* c */ \"b\": TRUE, // d\n \"c\": [1, 2,],}", "{a:10,b:true,c:[1,2]}"),
            ("[null, -5, 1.5, 1e3, NaN, -Infinity, False]", "[null,-5,float,float,float,float,false]"),
            (r#"["\u00e9\ud83d\ude00\n\/", "\ud800x"]"#, "[\"é😀\\n/\",\"\u{fffd}x\"]"),
            ("[9223372036854775807, 9223372036854775808]", "[9223372036854775807,big]"),
            ("{\"a\":1,\"a\":2}", "{a:1,a:2}"),
            ("\"a\nb\"", "\"a\\nb\""),
        ] {
            assert_eq!(read(text), (tree.to_string(), String::new()), "{text}");
        }
        assert_eq!(read("{} x").1, "f:1:4: warning: text after the root value is ignored");
    }

    #[test]
    fn reading_goes_on_after_errors() {
        let (tree, errors) = read("{\"suspend\",\n b: 1 \"c\" 2,, \"d\":}");
        assert_eq!(tree, "{suspend:?,b:1,c:2,d:?}");
        let lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("f:")).collect();
        assert_eq!(
            lines,
            [
                "f:1:11: error: key \"suspend\" has no value: `:` is expected here",
                "f:2:2: error: key b is not quoted",
                "f:2:7: error: a comma or `}` is missing before this",
                "f:2:11: error: `:` is missing after key \"c\"",
                "f:2:13: error: nothing stands before this comma",
                "f:2:19: error: key \"d\" has no value after its colon",
            ]
        );
    }

    #[test]
    fn what_cannot_go_on_says_where_it_began() {
        for (text, error) in [
            ("", "f:1:1: error: the file is empty\n  help: an rt-app file is an object with a `tasks` object"),
            ("{\"a\": [1", "f:1:9: error: the file ends inside an array: is it cut off?\n  f:1:7: opened here"),
            ("{\"a", "f:1:2: error: this string is not closed"),
            ("{ /* ", "f:1:3: error: this comment is not closed"),
            ("{]", "f:1:2: error: this closes nothing: the object that is open ends with `}`\n  f:1:1: opened here"),
            (
                "[0x10]",
                "f:1:2: error: `0x10` is not a value\n  help: hexadecimal numbers are not JSON; write it in decimal",
            ),
            (
                "[5ms]",
                "f:1:2: error: `5ms` is not a value\n  help: numbers carry no unit here; times are in microseconds",
            ),
            ("[+]", "f:1:2: error: `+` is not a value"),
            ("[\"\\q\"]", "f:1:3: error: `\\q` is not an escape"),
            ("[\"\\ü\"]", "f:1:3: error: `\\ü` is not an escape"),
        ] {
            assert_eq!(read(text).1, error, "{text}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_where_it_is_too_deep() {
        let deepest = "[".repeat(NESTING_MAX) + &"]".repeat(NESTING_MAX);
        assert_eq!(read(&deepest).1, "");
        assert_eq!(read(&"[".repeat(100_000)).1, "f:1:129: error: brackets are nested deeper than 128");
    }
}
