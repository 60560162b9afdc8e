//! Suggestions for unknown words.

use alloc::vec::Vec;

/// Returns the candidate that is most similar to `word`, if it is within three edits and less than
/// half the word.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (edit_distance(word, candidate), candidate))
        .min()
        .filter(|(distance, _)| *distance <= 3 && distance * 2 < word.len().max(2))
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in bytes, O(a x b); words longer than 64 bytes count as far.
fn edit_distance(a: &str, b: &str) -> usize {
    if a.len() > 64 || b.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte_a) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, byte_b) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(byte_a != byte_b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
