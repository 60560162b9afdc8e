//! [`CpuMask`]: a set of CPUs, up to [`MAX_CPUS`].
//!
//! A flat bit set of 4096 bits would make every search read 64 words, mostly empty ones. So there
//! are two levels: a summary word says which of the 64 words below it are not empty, and a search
//! reads only those. Every operation is O(non-empty words), at most 64; a lookup is O(1). A mask is
//! written and read in the format of the kernel's CPU lists: `0-3,8`.
//!
//! Invariant: bit `w` of the summary is set if and only if word `w` is not zero, and `words` covers
//! the highest CPU.

use crate::ids::CpuId;
use alloc::vec::Vec;
use core::fmt;

/// The largest number of CPUs: 64 words of 64 bits under one summary word.
pub const MAX_CPUS: usize = 4096;

const WORD: usize = 64;
const _: () = assert!(MAX_CPUS == WORD * WORD);

/// A set of CPUs.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuMask {
    summary: u64,
    words: Vec<u64>,
}

impl CpuMask {
    /// Returns the empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self { summary: 0, words: Vec::new() }
    }

    /// Returns the set of CPUs `0..nr_cpus`.
    ///
    /// # Panics
    /// If `nr_cpus` is above [`MAX_CPUS`].
    #[must_use]
    pub fn first_n(nr_cpus: usize) -> Self {
        assert!(nr_cpus <= MAX_CPUS, "{nr_cpus} CPUs are more than {MAX_CPUS}");
        let mut mask = Self::new();
        for cpu in 0..nr_cpus {
            mask.insert(CpuId::from_index(cpu));
        }
        mask
    }

    /// Returns the set of one CPU.
    #[must_use]
    pub fn single(cpu: CpuId) -> Self {
        let mut mask = Self::new();
        mask.insert(cpu);
        mask
    }

    /// Adds a CPU; returns whether it was new.
    ///
    /// # Panics
    /// If the CPU is at or above [`MAX_CPUS`].
    pub fn insert(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        assert!(word < WORD, "CPU {cpu} is beyond {MAX_CPUS}");
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        self.summary |= 1 << word;
        new
    }

    /// Removes a CPU; returns whether it was there.
    pub fn remove(&mut self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        let Some(bits) = self.words.get_mut(word) else { return false };
        let had = *bits & bit != 0;
        *bits &= !bit;
        if *bits == 0 {
            self.summary &= !(1 << word);
            while self.words.last() == Some(&0) {
                self.words.pop();
            }
        }
        had
    }

    /// Returns whether the CPU is in the set. O(1).
    #[must_use]
    pub fn contains(&self, cpu: CpuId) -> bool {
        let (word, bit) = Self::place(cpu);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns the number of CPUs in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Returns `true` for the empty set. O(1).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.summary == 0
    }

    /// Returns the lowest CPU.
    #[must_use]
    pub fn first(&self) -> Option<CpuId> {
        self.next_from(CpuId(0))
    }

    /// Returns the highest CPU.
    #[must_use]
    pub fn last(&self) -> Option<CpuId> {
        let word = self.words.len().checked_sub(1)?;
        Some(CpuId::from_index(word * WORD + (WORD - 1 - self.words[word].leading_zeros() as usize)))
    }

    /// Returns the lowest CPU that is at or above `from`.
    #[must_use]
    pub fn next_from(&self, from: CpuId) -> Option<CpuId> {
        next_set(from, self.summary, |word| self.words[word])
    }

    /// Returns the lowest CPU at or above `from` that is in both sets.
    #[must_use]
    pub fn next_and_from(&self, other: &Self, from: CpuId) -> Option<CpuId> {
        next_set(from, self.summary & other.summary, |word| self.words[word] & other.words[word])
    }

    /// Returns the lowest CPU that is in both sets.
    #[must_use]
    pub fn first_and(&self, other: &Self) -> Option<CpuId> {
        self.next_and_from(other, CpuId(0))
    }

    /// Returns whether the sets share a CPU.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        self.first_and(other).is_some()
    }

    /// Returns whether every CPU of this set is in `other`.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.iter().all(|cpu| other.contains(cpu))
    }

    /// Returns the CPUs that are in both sets.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.iter().filter(|cpu| other.contains(*cpu)).collect()
    }

    /// Returns the CPUs in order.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        let mut from = Some(CpuId(0));
        core::iter::from_fn(move || {
            let cpu = self.next_from(from?)?;
            from = Some(CpuId(cpu.0 + 1));
            Some(cpu)
        })
    }

    /// Returns the summary word: bit `w` is set if a CPU of `64 w .. 64 w + 63` is in the set.
    #[must_use]
    pub const fn summary(&self) -> u64 {
        self.summary
    }

    /// Returns the bits of CPUs `64 index .. 64 index + 63`; zero beyond the highest CPU.
    #[must_use]
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    const fn place(cpu: CpuId) -> (usize, u64) {
        (cpu.index() / WORD, 1 << (cpu.index() % WORD))
    }
}

/// Finds the lowest CPU at or above `from` in a two-level bit set; `word` is called only where
/// `summary` has a bit.
///
/// A summary bit over an empty word is allowed (concurrent sets clear theirs late): the search
/// continues. O(words).
pub fn next_set(from: CpuId, summary: u64, word: impl Fn(usize) -> u64) -> Option<CpuId> {
    let first = from.index() / WORD;
    if first >= WORD {
        return None;
    }
    let mut pending = summary & (u64::MAX << first);
    while pending != 0 {
        let index = pending.trailing_zeros() as usize;
        let mut bits = word(index);
        if index == first {
            bits &= u64::MAX << (from.index() % WORD);
        }
        if bits != 0 {
            return Some(CpuId::from_index(index * WORD + bits.trailing_zeros() as usize));
        }
        pending &= pending - 1;
    }
    None
}

impl FromIterator<CpuId> for CpuMask {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut mask = Self::new();
        for cpu in cpus {
            mask.insert(cpu);
        }
        mask
    }
}

impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut next = self.first();
        while let Some(start) = next {
            let mut end = start;
            while self.contains(CpuId(end.0 + 1)) {
                end = CpuId(end.0 + 1);
            }
            if end == start {
                write!(f, "{separator}{start}")?;
            } else {
                write!(f, "{separator}{start}-{end}")?;
            }
            separator = ",";
            next = self.next_from(CpuId(end.0 + 1));
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Why a text is not a CPU list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseCpuListError {
    /// Not a number, a range or a list of them.
    NotAList,
    /// A range whose end is below its start.
    Backwards,
    /// A CPU at or above [`MAX_CPUS`].
    TooHigh,
}

impl fmt::Display for ParseCpuListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAList => "a CPU list is numbers and ranges, as in 0-3,8",
            Self::Backwards => "a CPU range goes from low to high",
            Self::TooHigh => "the highest CPU is 4095",
        })
    }
}

impl core::error::Error for ParseCpuListError {}

impl core::str::FromStr for CpuMask {
    type Err = ParseCpuListError;

    /// Parses the kernel's list format: `0-3,8`; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, ParseCpuListError> {
        let number = |digits: &str| -> Result<u32, ParseCpuListError> {
            let value: u32 = digits.trim().parse().map_err(|_| ParseCpuListError::NotAList)?;
            if value as usize >= MAX_CPUS { Err(ParseCpuListError::TooHigh) } else { Ok(value) }
        };
        let mut mask = Self::new();
        if text.trim().is_empty() {
            return Ok(mask);
        }
        for part in text.split(',') {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(part)?, number(part)?),
            };
            if high < low {
                return Err(ParseCpuListError::Backwards);
            }
            for cpu in low..=high {
                mask.insert(CpuId(cpu));
            }
        }
        Ok(mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn mask(text: &str) -> CpuMask {
        text.parse().expect(text)
    }

    #[test]
    fn lists_read_and_print_as_the_kernel_does() {
        for text in ["", "0", "0-3,8", "63-64", "5,7,9-11,4095"] {
            assert_eq!(mask(text).to_string(), text);
        }
        assert_eq!(mask("3,1,2").to_string(), "1-3");
        assert_eq!("3-1".parse::<CpuMask>(), Err(ParseCpuListError::Backwards));
        assert_eq!("4096".parse::<CpuMask>(), Err(ParseCpuListError::TooHigh));
        assert_eq!("a".parse::<CpuMask>(), Err(ParseCpuListError::NotAList));
        assert_eq!("1,,2".parse::<CpuMask>(), Err(ParseCpuListError::NotAList));
    }

    #[test]
    fn searches_skip_empty_words() {
        let set = mask("3,200,4000");
        assert_eq!(set.next_from(CpuId(4)), Some(CpuId(200)));
        assert_eq!(set.next_from(CpuId(201)), Some(CpuId(4000)));
        assert_eq!(set.next_from(CpuId(4001)), None);
        assert_eq!(set.first_and(&mask("4,200-4095")), Some(CpuId(200)));
        assert_eq!(set.last(), Some(CpuId(4000)));
        assert_eq!(set.count(), 3);
        assert!(!set.intersects(&mask("0-2")));
    }

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let mut shrunk = mask("1,4000");
        assert!(shrunk.remove(CpuId(4000)));
        assert_eq!(shrunk, mask("1"));
        assert!(!shrunk.remove(CpuId(4000)));
    }
}
