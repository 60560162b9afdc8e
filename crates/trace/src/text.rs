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
    (controls(head) * 100 <= head.len()).then(|| String::from_utf8_lossy(head))
}

/// Returns the number of control bytes that text does not have. Every file is looked at: sums of
/// bytes, without branches, are made 16 at a time.
fn controls(bytes: &[u8]) -> usize {
    let is_control = |b: u8| (b < 0x20) & (b != b'\t') & (b != b'\n') & (b != b'\r') & (b != 0x0c) & (b != 0x1b);
    let of = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(is_control(*byte))).sum::<u8>();
    bytes.chunks(255).map(|chunk| usize::from(of(chunk))).sum()
}

/// Returns the first bytes of a file for a sentence: nothing in them reaches a terminal as control.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(32)];
    head.escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_those_that_text_does_not_have() {
        let all: Vec<u8> = (0..=255).collect();
        let expected = all.iter().filter(|byte| **byte < 0x20 && !b"\t\n\r\x0c\x1b".contains(byte)).count();
        assert_eq!((controls(&all), controls(b"\t\n\r\x0c\x1b a")), (expected, 0));
        assert_eq!(controls(&[0; 1000]), 1000);
    }
}
