//! Text from files that people read at a terminal.
//!
//! A task can have any name, and a file any content. A control sequence in it sets the title of the
//! terminal, hides what follows, or answers as if someone had typed; a mark of direction makes one
//! name look like another. So every text that reaches people goes through [`visible`], and every
//! JSON through [`json`].
//!
//! Key insight: a mark that is as long as the hidden character, in bytes, keeps every position in
//! the text. An excerpt of a file can then be drawn with carets below the right columns.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::Write;

/// Returns whether a character hides or reorders text: a control character, one of no width, a mark
/// of direction, a separator of lines that only some programs know, an invisible tag. Names with
/// one of these are shown with a mark, so that no name looks like another.
#[must_use]
pub const fn is_hidden(letter: char) -> bool {
    letter.is_ascii_control()
        || matches!(letter,
            '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Returns a text in which nothing is hidden: line breaks (`\n`, `\r\n`) and tabs are kept, every
/// other hidden character becomes a mark of the same number of bytes.
///
/// ```
/// use zerolag_model::text::visible;
/// assert_eq!(visible("a\tb\n"), "a\tb\n");
/// assert_eq!(visible("\u{1b}]0;title\u{7}"), "?]0;title?");
/// assert_eq!(visible("\u{9b}31m \u{202e}gnp.exe"), "¿31m \u{fffd}gnp.exe");
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    let is_shown = |letter: char| !is_hidden(letter) || letter == '\n' || letter == '\t';
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter.len_utf8() {
            _ if is_shown(letter) => out.push(letter),
            _ if letter == '\r' && letters.peek() == Some(&'\n') => out.push(letter),
            1 => out.push('?'),
            2 => out.push('\u{bf}'),
            3 => out.push(char::REPLACEMENT_CHARACTER),
            _ => out.extend([char::REPLACEMENT_CHARACTER, '?']),
        }
    }
    Cow::Owned(out)
}

/// Returns a name in which nothing is hidden, on one line: hidden characters are written as escapes
/// (`\u{1b}`, `\n`).
#[must_use]
pub fn name(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_hidden(letter) { out.extend(letter.escape_default()) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

/// Returns a JSON document of the same meaning in which nothing is hidden: JSON has hidden
/// characters only within strings, where `\u202e` is the same. Its own line breaks are kept.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let is_shown = |letter: char| !is_hidden(letter) || matches!(letter, '\n' | '\t' | '\r');
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_shown(letter) {
            out.push(letter);
        } else {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("invariant: writing to a String cannot fail");
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}]0;x\u{7}\u{9b}2J\r\u{7f}\u{0}\u{ad}\u{202e}b\u{2028}\u{e0041}\u{feff}é漢";

    #[test]
    fn a_mark_is_as_long_as_what_it_hides() {
        let shown = visible(HOSTILE);
        assert_eq!(shown, "a?]0;x?¿2J???¿\u{fffd}b\u{fffd}\u{fffd}?\u{fffd}é漢");
        assert_eq!(shown.len(), HOSTILE.len());
        assert!(matches!(visible("plain\n\ttext é"), Cow::Borrowed(_)));
        assert_eq!(visible("a\r\nb\rc"), "a\r\nb?c");
    }

    #[test]
    fn a_name_is_one_line_of_escapes() {
        assert_eq!(name("a\n\u{1b}]0;\u{202e}b"), "a\\n\\u{1b}]0;\\u{202e}b");
        assert!(!name(HOSTILE).chars().any(is_hidden));
    }

    #[test]
    fn a_document_keeps_its_meaning() {
        assert_eq!(json("{\n\"a\": \"\u{7f}\u{9b}\u{e0041}\"}"), "{\n\"a\": \"\\u007f\\u009b\\udb40\\udc41\"}");
    }
}
