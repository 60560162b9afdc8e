//! The columns of a page: numbers as bytes, deflated, as text.
//!
//! A million events as JSON are 60 MB and seconds of parsing. As columns of differences they are a
//! few bytes each, of which deflate removes half; a browser unpacks them by itself
//! (`DecompressionStream`) and reads them into arrays of numbers.
//!
//! ```text
//! length of the head (u32, little endian) | head (JSON) | column | column | ...
//! ```
//!
//! Each column is a sequence of whole numbers of variable length: seven bits a byte, the lowest
//! first, the top bit set in all bytes but the last (LEB128). The head names the columns and their
//! places, in bytes behind the head.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use std::io::Write;

/// Columns under construction.
#[derive(Clone, Debug, Default)]
pub struct Pack {
    bytes: Vec<u8>,
    columns: Vec<(String, usize, usize)>,
}

impl Pack {
    /// Adds a column.
    pub fn column(&mut self, name: &str, values: impl IntoIterator<Item = u64>) {
        let from = self.bytes.len();
        let mut count = 0;
        for mut value in values {
            count += 1;
            while value >= 0x80 {
                self.bytes.push(value.to_le_bytes()[0] | 0x80);
                value >>= 7;
            }
            self.bytes.push(value.to_le_bytes()[0]);
        }
        self.columns.push((name.to_owned(), count, from));
    }

    /// Adds a column of times in their order, as differences; an earlier one counts as the last.
    pub fn times(&mut self, name: &str, times: impl IntoIterator<Item = u64>) {
        let mut last = 0;
        let deltas = times.into_iter().map(|time| {
            let delta = time.saturating_sub(last);
            last = last.max(time);
            delta
        });
        // Collected, because the closure borrows `last`.
        let deltas: Vec<u64> = deltas.collect();
        self.column(name, deltas);
    }

    /// Returns the size of the columns before they are deflated, in bytes.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the deflated columns, with `head` and the names of the columns before them.
    #[must_use]
    pub fn finish(&self, head: &Value) -> Vec<u8> {
        let columns: Vec<Value> = self.columns.iter().map(|(name, count, from)| json!([name, count, from])).collect();
        let head = json!({ "columns": columns, "page": head }).to_string();
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
        let written =
            [&length[..], head.as_bytes(), &self.bytes].into_iter().try_for_each(|part| encoder.write_all(part));
        written.and_then(|()| encoder.finish()).unwrap_or_default()
    }
}

/// Returns bytes as base64 (RFC 4648, with padding).
///
/// ```
/// assert_eq!(zerolag_html::pack::base64(b"foob"), "Zm9vYg==");
/// ```
#[must_use]
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4_usize {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::DeflateDecoder;
    use std::io::Read;

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (text, encoded) in cases {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn columns_are_read_as_they_were_written() {
        let values = [0, 1, 127, 128, 300, 1 << 52, u64::MAX];
        let mut pack = Pack::default();
        pack.column("a", values);
        pack.times("t", [5, 5, 9, 7, 10]);
        let mut bytes = Vec::new();
        DeflateDecoder::new(&pack.finish(&json!({ "x": 1 }))[..]).read_to_end(&mut bytes).unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let head: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        assert_eq!((&head["page"]["x"], &head["columns"][1][0]), (&json!(1), &json!("t")));
        let read = |column: usize| {
            let place = &head["columns"][column];
            let mut at = 4 + length + place[2].as_u64().unwrap() as usize;
            let mut found = Vec::new();
            for _ in 0..place[1].as_u64().unwrap() {
                let (mut value, mut shift) = (0_u64, 0);
                loop {
                    value |= u64::from(bytes[at] & 0x7f) << shift;
                    (at, shift) = (at + 1, shift + 7);
                    if bytes[at - 1] < 0x80 {
                        break;
                    }
                }
                found.push(value);
            }
            found
        };
        assert_eq!(read(0), values);
        assert_eq!(read(1), [5, 0, 4, 0, 1]);
    }
}
