//! [`ByGroup`]: the queues of a CPU by their groups.
//!
//! A task that wakes where it ran last knows its queue. One that comes from another CPU does not,
//! and neither does a search for throttled groups. A sorted list of some hundred groups is four
//! lines of the cache at each search, and half of all its lines when a group comes or goes.
//!
//! So it is a table with open addressing, at most half full: a place is a word with both numbers,
//! and a group is in the first place from its own one on that was free. A removal moves the groups
//! behind it up, so that there are no gaps on the way to any. Each operation touches a line or two:
//! expected O(1), O(groups here) at worst. The table has no order; what depends on one compares
//! group ids.
//!
//! Source: Knuth, The Art of Computer Programming 3, sec. 6.4, algorithms L and R.

use crate::entity::fair::QueueIx;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use zerolag_model::GroupId;

/// A queue, which is not the root's, in the upper half, and its group in the lower one.
#[derive(Clone, Copy, Debug)]
struct QueueOfGroup(NonZeroU64);

#[derive(Clone, Debug)]
pub(crate) struct ByGroup {
    /// None, or a power of two.
    places: Vec<Option<NonZeroU64>>,
    len: usize,
}

impl QueueOfGroup {
    fn new(group: GroupId, queue: QueueIx) -> Self {
        let word = u64::from(queue.0) << 32 | u64::from(group.0);
        assert!(queue != QueueIx::ROOT, "the root's queue is not listed");
        Self(NonZeroU64::new(word).expect("invariant: the queue is not 0"))
    }

    const fn group(self) -> GroupId {
        GroupId(self.0.get() as u32)
    }

    const fn queue(self) -> QueueIx {
        QueueIx((self.0.get() >> 32) as u32)
    }
}

impl ByGroup {
    /// Returns a table with room for some groups.
    pub(crate) fn with_capacity(groups: usize) -> Self {
        let places = if groups == 0 { 0 } else { (2 * groups).next_power_of_two() };
        Self { places: alloc::vec![None; places], len: 0 }
    }

    pub(crate) fn get(&self, group: GroupId) -> Option<QueueIx> {
        self.find(group).map(|(_, queue)| queue)
    }

    /// Lists the queue of a group that is not listed.
    pub(crate) fn insert(&mut self, group: GroupId, queue: QueueIx) {
        debug_assert!(self.get(group).is_none(), "a group is listed once");
        if 2 * (self.len + 1) > self.places.len() {
            self.grow();
        }
        self.len += 1;
        self.put(QueueOfGroup::new(group, queue));
    }

    /// Removes a group that is listed.
    pub(crate) fn remove(&mut self, group: GroupId) {
        let (mut gap, _) = self.find(group).expect("invariant: a queue is listed until it is freed");
        self.len -= 1;
        let mut at = gap;
        // Ends at a free place; half of all are free.
        loop {
            self.places[gap] = None;
            let moved = loop {
                at = self.after(at);
                let Some(pair) = self.at(at) else { return };
                let way = |from: usize| at.wrapping_sub(from) & (self.places.len() - 1);
                if way(self.own_place(pair.group())) >= way(gap) {
                    break pair;
                }
            };
            self.places[gap] = Some(moved.0);
            gap = at;
        }
    }

    /// Returns all groups and their queues, without an order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GroupId, QueueIx)> + '_ {
        self.places.iter().filter_map(|place| place.map(QueueOfGroup)).map(|pair| (pair.group(), pair.queue()))
    }

    fn find(&self, group: GroupId) -> Option<(usize, QueueIx)> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.own_place(group);
        // Bounded, as above.
        while let Some(pair) = self.at(at) {
            if pair.group() == group {
                return Some((at, pair.queue()));
            }
            at = self.after(at);
        }
        None
    }

    fn put(&mut self, pair: QueueOfGroup) {
        let mut at = self.own_place(pair.group());
        while self.places[at].is_some() {
            at = self.after(at);
        }
        self.places[at] = Some(pair.0);
    }

    #[cold]
    fn grow(&mut self) {
        let more = alloc::vec![None; (2 * self.places.len()).max(8)];
        let before = core::mem::replace(&mut self.places, more);
        for pair in before.into_iter().flatten() {
            self.put(QueueOfGroup(pair));
        }
    }

    fn at(&self, place: usize) -> Option<QueueOfGroup> {
        self.places[place].map(QueueOfGroup)
    }

    const fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// The place at which the search for a group begins. Ids of groups are dense, so that a product
    /// with a fraction of the golden ratio spreads them evenly (Knuth, sec. 6.4).
    fn own_place(&self, group: GroupId) -> usize {
        let spread = group.0.wrapping_mul(0x9E37_79B1);
        ((u64::from(spread) * self.places.len() as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;

    /// Groups come and go in an order without a pattern; a map finds the same.
    #[test]
    fn it_finds_what_a_map_finds() {
        let (mut table, mut map, mut draw) = (ByGroup::with_capacity(0), BTreeMap::new(), 1_u32);
        for turn in 1..20_000_u32 {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let group = GroupId(draw >> 12 & 0xff);
            assert_eq!(table.get(group), map.get(&group.0).copied());
            if map.remove(&group.0).is_some() {
                table.remove(group);
            } else {
                map.insert(group.0, QueueIx(turn));
                table.insert(group, QueueIx(turn));
            }
            if turn % 100 == 0 {
                let listed: BTreeMap<u32, QueueIx> = table.iter().map(|(group, queue)| (group.0, queue)).collect();
                assert_eq!(listed, map);
            }
        }
        assert!(table.len > 64 && table.len * 2 <= table.places.len(), "{} of {}", table.len, table.places.len());
    }
}
