//! The buffers of a column that differ from its vectors: bits for yes and no, and texts behind each
//! other with their offsets.

use std::sync::Arc;

/// Packs values into bits, the first into the lowest of the first byte.
pub(crate) fn bits(values: &[bool]) -> Vec<u8> {
    let byte =
        |eight: &[bool]| eight.iter().enumerate().fold(0_u8, |byte, (at, value)| byte | (u8::from(*value) << at));
    values.chunks(8).map(byte).collect()
}

/// Returns the offsets of texts, one more than texts, and the texts behind each other. `None` if
/// they are longer than 2 GiB together, the most that 32-bit offsets reach.
pub(crate) fn texts(values: &[Arc<str>]) -> Option<(Vec<i32>, Vec<u8>)> {
    let mut offsets = Vec::with_capacity(values.len() + 1);
    let mut bytes = Vec::with_capacity(values.iter().map(|text| text.len()).sum());
    offsets.push(0);
    for text in values {
        bytes.extend_from_slice(text.as_bytes());
        offsets.push(i32::try_from(bytes.len()).ok()?);
    }
    Some((offsets, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_begin_at_the_lowest() {
        assert_eq!(bits(&[]), [0_u8; 0]);
        assert_eq!(bits(&[true, false, true]), [0b101]);
        assert_eq!(bits(&[false, false, false, false, false, false, false, true, true]), [0x80, 1]);
    }

    #[test]
    fn texts_have_one_more_offset() {
        assert_eq!(texts(&[]), Some((vec![0], vec![])));
        assert_eq!(texts(&["ab".into(), "".into(), "ü".into()]), Some((vec![0, 2, 2, 4], "abü".into())));
    }
}
