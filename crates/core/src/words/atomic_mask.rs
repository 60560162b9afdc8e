//! [`AtomicCpuMask`]: a set of CPUs that several CPUs change and read without a lock.
//!
//! It has two levels, as [`CpuMask`] has. The summary bit of a word is set after the word itself.
//! When a word becomes empty, its summary bit is cleared first, and then the word is checked again.
//! So a search can be stale in two ways, and both are harmless:
//!
//! * It can look at an empty word.
//! * It can miss a CPU that is being added at this very moment. The adder acts on its own behalf
//!   afterwards; see the users of each mask.
//!
//! A locked read-modify-write costs some 20 cycles. A host with one thread ([`Threads::One`])
//! avoids it: there, a load and a store are equivalent.

use crate::words::snapshot::snapshot_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use zerolag_model::cpumask::next_set;
use zerolag_model::{CpuId, CpuMask};

/// The number of threads that drive one scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Threads {
    /// One thread: shared state needs no locked instructions. If more threads drive it, published
    /// masks lose updates.
    One,
    /// Any number of threads.
    #[default]
    Many,
}

/// Sets bits of a word; returns the previous value.
pub(crate) fn set_bits(word: &AtomicU64, bits: u64, threads: Threads) -> u64 {
    match threads {
        Threads::One => {
            let before = word.load(Ordering::Relaxed);
            word.store(before | bits, Ordering::Relaxed);
            before
        }
        Threads::Many => word.fetch_or(bits, Ordering::AcqRel),
    }
}

/// Clears bits of a word; returns the previous value.
pub(crate) fn clear_bits(word: &AtomicU64, bits: u64, threads: Threads) -> u64 {
    match threads {
        Threads::One => {
            let before = word.load(Ordering::Relaxed);
            word.store(before & !bits, Ordering::Relaxed);
            before
        }
        Threads::Many => word.fetch_and(!bits, Ordering::AcqRel),
    }
}

#[derive(Debug)]
pub(crate) struct AtomicCpuMask {
    threads: Threads,
    summary: AtomicU64,
    words: alloc::boxed::Box<[AtomicU64]>,
}

snapshot_of!(AtomicCpuMask: { summary words } { threads });

impl AtomicCpuMask {
    pub(crate) fn new(nr_cpus: usize, threads: Threads) -> Self {
        let words = (0..nr_cpus.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { threads, summary: AtomicU64::new(0), words }
    }

    pub(crate) fn insert(&self, cpu: CpuId) {
        self.claim(cpu);
    }

    /// Adds a CPU; returns whether it was not in the mask.
    pub(crate) fn claim(&self, cpu: CpuId) -> bool {
        let (word, bit) = (cpu.index() / 64, 1_u64 << (cpu.index() % 64));
        let had = set_bits(&self.words[word], bit, self.threads);
        if self.summary.load(Ordering::Acquire) & (1 << word) == 0 {
            set_bits(&self.summary, 1 << word, self.threads);
        }
        had & bit == 0
    }

    pub(crate) fn remove(&self, cpu: CpuId) {
        let (word, bit) = (cpu.index() / 64, 1_u64 << (cpu.index() % 64));
        let left = clear_bits(&self.words[word], bit, self.threads) & !bit;
        if left == 0 {
            clear_bits(&self.summary, 1 << word, self.threads);
            if self.words[word].load(Ordering::Acquire) != 0 {
                set_bits(&self.summary, 1 << word, self.threads);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.summary.load(Ordering::Acquire) == 0
    }

    /// Adds or removes a CPU.
    pub(crate) fn assign(&self, cpu: CpuId, is_in: bool) {
        if is_in {
            self.insert(cpu);
        } else {
            self.remove(cpu);
        }
    }

    /// Returns the number of CPUs in a range that are also in `allowed` (`None` means all). O(words
    /// of the range).
    pub(crate) fn count_and(&self, allowed: Option<&CpuMask>, range: Range<u32>) -> u32 {
        self.count(range, |word| allowed.map_or(u64::MAX, |mask| mask.word(word)))
    }

    /// Returns the number of CPUs in a range that are in this mask and in another one. O(words of
    /// the range).
    pub(crate) fn count_in_both(&self, other: &Self, range: Range<u32>) -> u32 {
        self.count(range, |word| other.words[word].load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn count(&self, range: Range<u32>, other: impl Fn(usize) -> u64) -> u32 {
        let mut count = 0;
        let mut at = range.start;
        while at < range.end {
            let (word, low) = (at as usize / 64, at % 64);
            let end = range.end.min((at / 64 + 1) * 64);
            let width = end - at;
            let bits = self.words[word].load(Ordering::Relaxed) & other(word);
            count += (bits >> low & (u64::MAX >> (64 - width))).count_ones();
            at = end;
        }
        count
    }

    pub(crate) fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.index() / 64].load(Ordering::Acquire) & (1 << (cpu.index() % 64)) != 0
    }

    /// Returns the lowest CPU at or above `from` that is also in `allowed` (`None` means all).
    pub(crate) fn next_and(&self, allowed: Option<&CpuMask>, from: CpuId) -> Option<CpuId> {
        let summary = self.summary.load(Ordering::Acquire);
        match allowed {
            None => next_set(from, summary, |word| self.words[word].load(Ordering::Relaxed)),
            Some(mask) => next_set(from, summary & mask.summary(), |word| {
                self.words[word].load(Ordering::Relaxed) & mask.word(word)
            }),
        }
    }

    /// Returns the lowest CPU at or above `from`, if any, where the mask is a single word; `None`
    /// where it is not.
    #[inline(always)]
    pub(crate) fn next_in_one_word(&self, from: CpuId) -> Option<Option<CpuId>> {
        let [word] = &*self.words else { return None };
        let bits = word.load(Ordering::Acquire) & u64::MAX.checked_shl(from.0).unwrap_or(0);
        Some(if bits == 0 { None } else { Some(CpuId(bits.trailing_zeros())) })
    }

    /// Returns the lowest CPU at or above `from` that is in both sets.
    pub(crate) fn next_in_both(&self, other: &Self, from: CpuId) -> Option<CpuId> {
        let summary = self.summary.load(Ordering::Acquire) & other.summary.load(Ordering::Acquire);
        next_set(from, summary, |word| {
            self.words[word].load(Ordering::Relaxed) & other.words[word].load(Ordering::Relaxed)
        })
    }

    /// Returns the CPUs in order; each is looked up when the iterator reaches it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        core::iter::successors(self.next_and(None, CpuId(0)), |cpu| self.next_and(None, CpuId(cpu.0 + 1)))
    }

    /// Returns a copy; words are read at different moments.
    pub(crate) fn snapshot(&self) -> CpuMask {
        self.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_what_was_put_in() {
        for threads in [Threads::One, Threads::Many] {
            keeps_what_was_put_in(threads);
        }
    }

    fn keeps_what_was_put_in(threads: Threads) {
        let mask = AtomicCpuMask::new(4096, threads);
        for cpu in [0, 63, 64, 4095] {
            mask.insert(CpuId(cpu));
        }
        mask.remove(CpuId(63));
        assert!(mask.contains(CpuId(64)) && !mask.contains(CpuId(63)));
        assert_eq!(mask.next_and(None, CpuId(1)), Some(CpuId(64)));
        let allowed = "65-4095".parse().expect("a list");
        assert_eq!(mask.next_and(Some(&allowed), CpuId(0)), Some(CpuId(4095)));
        assert_eq!(alloc::format!("{}", mask.snapshot()), "0,64,4095");
        assert_eq!(mask.count_and(None, 0..4096), 3);
        assert_eq!(mask.count_and(None, 1..65), 1);
        assert_eq!(mask.count_and(Some(&allowed), 0..4096), 1);
        let other = AtomicCpuMask::new(4096, threads);
        other.insert(CpuId(1));
        other.insert(CpuId(4095));
        assert_eq!(mask.next_in_both(&other, CpuId(0)), Some(CpuId(4095)));
        assert!(mask.iter().eq([CpuId(0), CpuId(64), CpuId(4095)]));
    }
}
