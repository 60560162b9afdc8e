//! A sorted, linked list of few waiting entities.
//!
//! A removal touches only the neighbours. An insertion searches from the back, because an entity
//! that has just run belongs there: as a rule its next request ends last.
//! [`LIST_MAX`](super::LIST_MAX) bounds every walk.

use crate::entity::fair::NodeIx;
use crate::entity::vtime::Vtime;
use crate::queue::fair::timeline::Timeline;

/// The ends of a list, and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct List {
    first: Option<NodeIx>,
    last: Option<NodeIx>,
    len: u32,
}

impl List {
    pub(crate) const fn first(self) -> Option<NodeIx> {
        self.first
    }

    pub(crate) const fn len(self) -> u32 {
        self.len
    }
}

impl Timeline {
    #[inline]
    pub(crate) fn least_of_list(&self, list: List) -> Option<Vtime> {
        let first = self.at(list.first?);
        let (mut least, mut next) = (first.vruntime, first.right);
        while let Some(node) = next {
            let node = self.at(node);
            least = least.earlier_of(node.vruntime);
            next = node.right;
        }
        Some(least)
    }

    #[inline]
    pub(crate) fn first_eligible_of_list(&self, list: List, limit: Vtime) -> Option<NodeIx> {
        let mut next = list.first;
        while let Some(ix) = next {
            let node = self.at(ix);
            if !limit.is_before(node.vruntime) {
                return Some(ix);
            }
            next = node.right;
        }
        None
    }

    /// Inserts a node behind those of equal key.
    #[inline]
    pub(crate) fn insert_in_list(&mut self, list: &mut List, new: NodeIx) {
        let key = self.at(new).key;
        let (mut before, mut behind) = (list.last, None);
        while let Some(ix) = before {
            let node = self.at(ix);
            if !key.is_before(node.key) {
                break;
            }
            (before, behind) = (node.left, before);
        }
        let node = self.at_mut(new);
        (node.left, node.right) = (before, behind);
        self.join(list, before, Some(new));
        self.join(list, Some(new), behind);
        list.len += 1;
    }

    #[inline]
    pub(crate) fn remove_from_list(&mut self, list: &mut List, node: NodeIx) {
        let (before, behind) = (self.at(node).left, self.at(node).right);
        self.join(list, before, behind);
        list.len -= 1;
    }

    /// Makes two nodes neighbours. If one is absent, the other becomes an end of the list.
    #[inline]
    fn join(&mut self, list: &mut List, before: Option<NodeIx>, behind: Option<NodeIx>) {
        match before {
            Some(before) => self.at_mut(before).right = behind,
            None => list.first = behind,
        }
        match behind {
            Some(behind) => self.at_mut(behind).left = before,
            None => list.last = before,
        }
    }

    pub(crate) fn check_in_list(&self, list: List, ix: NodeIx) {
        match self.at(ix).right {
            Some(right) => assert_eq!(self.at(right).left, Some(ix), "neighbours in the timeline"),
            None => assert_eq!(list.last, Some(ix), "end of the timeline"),
        }
        if self.at(ix).left.is_none() {
            assert_eq!(list.first, Some(ix), "start of the timeline");
        }
    }
}
