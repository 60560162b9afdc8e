//! [`Pool`]: texts that are kept once each, for as long as the pool lives.
//!
//! Events borrow the names of their tasks. If the text that they were read from is not kept, the
//! names are: one copy of each, so the memory grows with the number of names and not of events.

use super::tids::TidTable;
use core::cell::OnceCell;
use std::collections::BTreeSet;

/// Texts, each at its place until the pool ends.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    block: Block,
}

#[derive(Debug)]
struct Block {
    texts: [OnceCell<Box<str>>; SIZE],
    next: OnceCell<Box<Self>>,
}

impl Default for Block {
    fn default() -> Self {
        Self { texts: [const { OnceCell::new() }; SIZE], next: OnceCell::new() }
    }
}

const SIZE: usize = 128;

/// Puts texts into a pool.
pub(crate) struct Names<'p> {
    known: BTreeSet<&'p str>,
    /// The last name of each thread: nearly always the next one.
    last: TidTable<&'p str>,
    block: &'p Block,
    used: usize,
}

impl<'p> Names<'p> {
    pub(crate) fn new(pool: &'p Pool) -> Self {
        Self { known: BTreeSet::new(), last: TidTable::default(), block: &pool.block, used: 0 }
    }

    /// Returns the name of a thread as the pool keeps it.
    #[inline]
    pub(crate) fn keep_of(&mut self, tid: u32, name: &str) -> &'p str {
        let last = *self.last.entry(tid);
        if last == name {
            return last;
        }
        let kept = self.keep(name);
        *self.last.entry(tid) = kept;
        kept
    }

    /// Returns a text as the pool keeps it.
    fn keep(&mut self, text: &str) -> &'p str {
        if let Some(known) = self.known.get(text) {
            return known;
        }
        if self.used == SIZE {
            (self.block, self.used) = (self.block.next.get_or_init(Box::default), 0);
        }
        let kept: &'p str = self.block.texts[self.used].get_or_init(|| text.into());
        self.used += 1;
        self.known.insert(kept);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_kept_once() {
        let pool = Pool::default();
        let mut names = Names::new(&pool);
        let texts: Vec<String> = (0..1000).map(|number| format!("name {}", number % 300)).collect();
        let kept: Vec<&str> = texts.iter().map(|text| names.keep(text)).collect();
        let of_threads: Vec<&str> = (0..).zip(&texts).map(|(tid, text)| names.keep_of(tid % 7, text)).collect();
        assert_eq!((&kept, &of_threads), (&texts.iter().map(String::as_str).collect(), &kept));
        assert_eq!(names.known.len(), 300);
        assert!(core::ptr::eq(kept[0], kept[300]));
    }
}
