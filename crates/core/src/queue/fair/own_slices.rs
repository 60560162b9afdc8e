//! [`OwnSlices`]: the slices of a queue's entities that differ from the base slice.
//! [`super::slice`] has the rules.

use alloc::vec::Vec;
use zerolag_model::Duration;

/// The slices of a queue's entities that differ from the base slice, shortest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnSlices {
    pub(crate) counts: Vec<(Duration, u32)>,
    /// The number of entities with such a slice.
    pub(crate) entities: u32,
}

impl OwnSlices {
    pub(crate) fn add(&mut self, slice: Duration) {
        self.entities += 1;
        match self.counts.binary_search_by_key(&slice, |(length, _)| *length) {
            Ok(place) => self.counts[place].1 += 1,
            Err(place) => self.counts.insert(place, (slice, 1)),
        }
    }

    pub(crate) fn remove(&mut self, slice: Duration) {
        let place = self.counts.binary_search_by_key(&slice, |(length, _)| *length);
        let place = place.expect("invariant: a queued slice is listed");
        self.entities -= 1;
        self.counts[place].1 -= 1;
        if self.counts[place].1 == 0 {
            self.counts.remove(place);
        }
    }

    pub(crate) fn longest(&self) -> Option<Duration> {
        self.counts.last().map(|(length, _)| *length)
    }

    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.counts.first().map(|(length, _)| *length)
    }
}
