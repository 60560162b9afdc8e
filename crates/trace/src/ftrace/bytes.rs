//! Searches in short texts.
//!
//! A line has 140 bytes and is cut in a dozen places. The searchers of `str` take longer to be set
//! up than most of the cuts are apart, and a loop over bytes takes four instructions for each.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Returns the place of the first byte of this value: eight bytes at a time.
pub(super) fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let wanted = LOW * u64::from(byte);
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let other = u64::from_le_bytes(*word) ^ wanted;
        // The lowest bit that is set belongs to the first byte that is zero now; those above it can
        // be wrong.
        let zero = other.wrapping_sub(LOW) & !other & HIGH;
        if zero != 0 {
            return Some(8 * index + zero.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|found| *found == byte).map(|at| 8 * words.len() + at)
}

/// Returns the decimal number at the beginning, and how many digits it has: at least one, and at
/// most 18.
#[inline]
pub(super) fn first_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut digits) = (0_u64, 0);
    while let Some(byte) = bytes.get(digits).filter(|byte| byte.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
        digits += 1;
    }
    (1..=18).contains(&digits).then_some((value, digits))
}

/// Returns the decimal number at the end, and how many digits it has: at most 18, and at least one.
#[inline]
pub(super) fn last_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut scale, mut digits) = (0_u64, 1_u64, 0);
    while let Some(byte) = bytes.len().checked_sub(digits + 1).map(|at| bytes[at]).filter(u8::is_ascii_digit) {
        value = value.wrapping_add(scale.wrapping_mul(u64::from(byte - b'0')));
        scale = scale.wrapping_mul(10);
        digits += 1;
    }
    (1..=18).contains(&digits).then_some((value, digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_byte_is_found(
            bytes in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0x80), Just(0x81), Just(0xff)], 0..40),
            byte in prop_oneof![Just(0_u8), Just(1), Just(0x80), Just(0xff)],
        ) {
            prop_assert_eq!(find(&bytes, byte), bytes.iter().position(|found| *found == byte));
        }

        #[test]
        fn numbers_are_read_from_both_ends(number in 0..1_000_000_000_000_000_000_u64, zeros in 0..3_usize) {
            let text = "0".repeat(zeros) + &number.to_string();
            let parsed = (text.len() <= 18).then_some((number, text.len()));
            prop_assert_eq!(first_number((text.clone() + "x1").as_bytes()), parsed);
            prop_assert_eq!(last_number(("1x".to_owned() + &text).as_bytes()), parsed);
        }
    }

    #[test]
    fn no_digit_is_no_number() {
        for text in ["", "x", "-", "1234567890123456789"] {
            assert_eq!((first_number(text.as_bytes()), last_number(text.as_bytes())), (None, None), "{text}");
        }
    }
}
