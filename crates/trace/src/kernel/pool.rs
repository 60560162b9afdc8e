//! [`Pool`]: texts that are kept once each, for as long as the pool lives.
//!
//! Events borrow the names of their tasks. If the text that they were read from is not kept, the
//! names are: one copy of each, so the memory grows with the number of names and not of events.

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
#[derive(Debug)]
pub(crate) struct Names<'p> {
    known: BTreeSet<&'p str>,
    block: &'p Block,
    used: usize,
}

impl<'p> Names<'p> {
    pub(crate) fn new(pool: &'p Pool) -> Self {
        Self { known: BTreeSet::new(), block: &pool.block, used: 0 }
    }

    /// Returns a text as the pool keeps it.
    pub(crate) fn keep(&mut self, text: &str) -> &'p str {
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
        assert_eq!(kept, texts);
        assert_eq!(names.known.len(), 300);
        assert!(core::ptr::eq(kept[0], kept[300]));
    }
}
