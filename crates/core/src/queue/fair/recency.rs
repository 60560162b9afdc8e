//! [`Recency`]: the fair tasks of one CPU, ordered by how recently they ran or arrived. The
//! balancer takes the stalest task first.
//!
//! The links are stored apart from the bodies, indexed by slot. Moving a task to the front then
//! touches a few small links and not its neighbours' bodies. Every operation is O(1). Linux:
//! `rq->cfs_tasks`.

use crate::words::ids::Slot;
use alloc::vec::Vec;

#[derive(Clone, Copy, Debug, Default)]
struct RecencyLink {
    newer: Option<Slot>,
    older: Option<Slot>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Recency {
    links: Vec<RecencyLink>,
    newest: Option<Slot>,
    oldest: Option<Slot>,
}

impl Recency {
    pub(crate) fn with_capacity(tasks: usize) -> Self {
        Self { links: Vec::with_capacity(tasks), newest: None, oldest: None }
    }

    /// Adds a task as the newest.
    pub(crate) fn push(&mut self, slot: Slot) {
        let index = slot.index();
        if index >= self.links.len() {
            self.links.resize(index + 1, RecencyLink::default());
        }
        self.links[index] = RecencyLink { newer: None, older: self.newest };
        match self.newest {
            Some(newest) => self.links[newest.index()].newer = Some(slot),
            None => self.oldest = Some(slot),
        }
        self.newest = Some(slot);
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let RecencyLink { newer, older } = self.links[slot.index()];
        match newer {
            Some(newer) => self.links[newer.index()].older = older,
            None => self.newest = older,
        }
        match older {
            Some(older) => self.links[older.index()].newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Makes a task the newest.
    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot) {
        let Some(newest) = self.newest.filter(|newest| *newest != slot) else { return };
        let RecencyLink { newer, older } = self.links[slot.index()];
        let next = newer.expect("invariant: an entity that is not the newest has a newer one");
        self.links[next.index()].older = older;
        match older {
            Some(older) => self.links[older.index()].newer = newer,
            None => self.oldest = newer,
        }
        self.links[newest.index()].newer = Some(slot);
        self.links[slot.index()] = RecencyLink { newer: None, older: Some(newest) };
        self.newest = Some(slot);
    }

    pub(crate) const fn oldest(&self) -> Option<Slot> {
        self.oldest
    }

    pub(crate) fn newer(&self, slot: Slot) -> Option<Slot> {
        self.links[slot.index()].newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(list: &Recency) -> Vec<u32> {
        let mut at = list.oldest();
        let mut order = Vec::new();
        while let Some(slot) = at {
            order.push(slot.raw());
            at = list.newer(slot);
        }
        order
    }

    #[test]
    fn the_stalest_comes_first() {
        let mut list = Recency::with_capacity(2);
        for slot in [3, 1, 2] {
            list.push(Slot::new(slot));
        }
        list.touch(Slot::new(3));
        assert_eq!(order(&list), [1, 2, 3]);
        list.remove(Slot::new(2));
        assert_eq!(order(&list), [1, 3]);
        list.remove(Slot::new(1));
        list.remove(Slot::new(3));
        assert_eq!(order(&list), [0_u32; 0]);
    }
}
