//! Bytes of files as text: whole, the beginning, and a quotation for an error.

use std::borrow::Cow;

/// So much of a file is looked at to recognise it.
pub(crate) const HEAD: usize = 64 * 1024;

/// Returns bytes as text. `from_utf8_lossy` looks at each byte; `from_utf8` at words.
pub(crate) fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    core::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Returns the beginning of a file as text; `None` if it is binary.
pub(crate) fn text_head(bytes: &[u8]) -> Option<Cow<'_, str>> {
    let head = &bytes[..bytes.len().min(HEAD)];
    let controls = head.iter().filter(|byte| **byte < 0x20 && !b"\t\n\r\x0c\x1b".contains(byte)).count();
    (controls * 100 <= head.len()).then(|| String::from_utf8_lossy(head))
}

/// Returns the first bytes of a file for a sentence: nothing in them reaches a terminal as control.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(32)];
    head.escape_ascii().to_string()
}
