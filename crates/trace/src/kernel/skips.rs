//! [`Skips`]: the parts of a recording that are left out, by kind.
//!
//! A recording of an hour has a message of two lines, a damaged time, an event that is written
//! twice. None of them is worth the rest of the file, and none may vanish unsaid: each kind is
//! counted, with the place of the first.

use crate::meta::Skipped;

/// The parts that were left out so far.
#[derive(Debug, Default)]
pub(crate) struct Skips(Vec<(&'static str, Skipped)>);

impl Skips {
    /// Counts a part of a kind, which is in the plural; `first` says where it is.
    pub(crate) fn note(&mut self, what: &'static str, first: impl FnOnce() -> String) {
        match self.0.iter_mut().find(|(known, _)| *known == what) {
            Some((_, skipped)) => skipped.count = skipped.count.saturating_add(1),
            None => self.0.push((what, Skipped { what: what.to_owned(), count: 1, first: first() })),
        }
    }

    /// Counts so many parts of a kind, as [`note`](Self::note).
    pub(crate) fn note_many(&mut self, what: &'static str, count: u64, first: impl FnOnce() -> String) {
        if count > 0 {
            self.note(what, first);
            let skipped = self.0.iter_mut().find(|(known, _)| *known == what);
            if let Some((_, skipped)) = skipped {
                skipped.count = skipped.count.saturating_add(count - 1);
            }
        }
    }

    /// Adds parts that were found elsewhere.
    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Returns the kinds in the order in which they were met.
    pub(crate) fn done(self) -> Vec<Skipped> {
        self.0.into_iter().map(|(_, skipped)| skipped).collect()
    }
}
