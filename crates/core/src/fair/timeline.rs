//! [`Timeline`]: waiting entities in order of a key, with the least vruntime of every subtree.
//!
//! One arena of nodes per CPU serves the trees of all its queues. A tree is balanced (AVL: height at most 1.45 log2 n)
//! and each node carries the least vruntime below it, so that "the earliest virtual deadline among those that are
//! eligible" is one walk down: go left while something eligible is there, else take the node if it is, else go right.
//!
//! Key: the virtual deadline under EEVDF, the vruntime under CFS; equal keys in order of insertion: a new one
//! goes behind them and a balanced tree keeps its order. Insertion, removal and searches are O(log n); nothing is allocated while fewer entities wait than
//! ever did.
//!
//! Sources: Stoica & Abdel-Wahab 1995, sec. 5 (the augmented tree); Linux v6.12 `kernel/sched/fair.c`,
//! `__enqueue_entity`, `pick_eevdf`. differs: AVL instead of red-black, indices instead of pointers.

use super::entity::EntityRef;
use super::queue::QueueIx;
use super::vtime::Vtime;
use alloc::vec::Vec;
use core::num::NonZeroU32;

/// A node of the arena. Place 0 is never used, so that an absent node costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeIx(NonZeroU32);

/// The tree of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Root(Option<NodeIx>);

#[derive(Clone, Copy, Debug)]
struct Node {
    key: Vtime,
    vruntime: Vtime,
    /// The least vruntime in the subtree.
    least: Vtime,
    entity: EntityRef,
    parent: Option<NodeIx>,
    left: Option<NodeIx>,
    right: Option<NodeIx>,
    height: u8,
}

#[derive(Debug)]
pub(crate) struct Timeline {
    nodes: Vec<Node>,
    free: Vec<NodeIx>,
}

impl Timeline {
    pub(crate) fn with_capacity(entities: usize) -> Self {
        let mut nodes = Vec::with_capacity(entities + 1);
        let nobody = Node::new(Vtime::ZERO, Vtime::ZERO, EntityRef::Group(QueueIx::ROOT), None);
        nodes.push(Node { height: 0, ..nobody });
        Self { nodes, free: Vec::with_capacity(entities) }
    }

    /// Returns the entity of a node.
    pub(crate) fn entity(&self, node: NodeIx) -> EntityRef {
        self.at(node).entity
    }

    /// Returns the vruntime that an entity was queued with.
    pub(crate) fn vruntime(&self, node: NodeIx) -> Vtime {
        self.at(node).vruntime
    }

    /// Returns the key that an entity was queued with.
    pub(crate) fn key(&self, node: NodeIx) -> Vtime {
        self.at(node).key
    }

    /// Returns the least vruntime of a queue. O(1).
    pub(crate) fn least(&self, root: Root) -> Option<Vtime> {
        root.0.map(|node| self.at(node).least)
    }

    /// Returns the entity with the least key. O(log n).
    pub(crate) fn first(&self, root: Root) -> Option<NodeIx> {
        root.0.map(|node| self.leftmost(node))
    }

    /// Returns the entity that follows in order of key. O(log n).
    pub(crate) fn after(&self, node: NodeIx) -> Option<NodeIx> {
        if let Some(right) = self.at(node).right {
            return Some(self.leftmost(right));
        }
        let mut below = node;
        // Bounded by the height: each turn goes up.
        while let Some(parent) = self.at(below).parent {
            if self.at(parent).left == Some(below) {
                return Some(parent);
            }
            below = parent;
        }
        None
    }

    /// Returns the entity with the least key among those whose vruntime is not after `limit`. O(log n).
    #[inline]
    pub(crate) fn first_eligible(&self, root: Root, limit: Vtime) -> Option<NodeIx> {
        let mut at = root.0?;
        if limit.is_before(self.at(at).least) {
            return None;
        }
        // Bounded by the height: each turn goes down, into a subtree that has an eligible entity.
        loop {
            let node = self.at(at);
            if let Some(left) = node.left
                && !limit.is_before(self.at(left).least)
            {
                at = left;
            } else if !limit.is_before(node.vruntime) {
                return Some(at);
            } else {
                at = node.right?;
            }
        }
    }

    /// Queues an entity behind those of equal key.
    pub(crate) fn insert(&mut self, root: &mut Root, key: Vtime, vruntime: Vtime, entity: EntityRef) -> NodeIx {
        let mut parent = None;
        let mut at = root.0;
        let mut goes_left = false;
        while let Some(here) = at {
            let node = self.at_mut(here);
            node.least = node.least.earlier_of(vruntime);
            goes_left = key.is_before(node.key);
            parent = at;
            at = if goes_left { node.left } else { node.right };
        }
        let new = self.allocate(Node::new(key, vruntime, entity, parent));
        match parent {
            None => root.0 = Some(new),
            Some(parent) => {
                let node = self.at_mut(parent);
                if goes_left {
                    node.left = Some(new);
                } else {
                    node.right = Some(new);
                }
                self.retrace_insert(root, parent);
            }
        }
        new
    }

    /// Takes an entity out.
    pub(crate) fn remove(&mut self, root: &mut Root, node: NodeIx) {
        let Node { parent, left, right, .. } = *self.at(node);
        let (start, replaced) = match (left, right) {
            (Some(left), Some(right)) => {
                let successor = self.leftmost(right);
                let start = if successor == right {
                    successor
                } else {
                    let Node { parent: above, right: below, .. } = *self.at(successor);
                    let above = above.expect("invariant: below the right child");
                    self.at_mut(above).left = below;
                    self.set_parent(below, Some(above));
                    self.at_mut(successor).right = Some(right);
                    self.set_parent(Some(right), Some(successor));
                    above
                };
                self.at_mut(successor).left = Some(left);
                self.set_parent(Some(left), Some(successor));
                self.replace_child(root, parent, node, Some(successor));
                (Some(start), Some(successor))
            }
            (child, None) | (None, child) => {
                self.replace_child(root, parent, node, child);
                (parent, None)
            }
        };
        if let Some(start) = start {
            self.retrace_remove(root, start, replaced);
        }
        self.free.push(node);
    }

    /// Restores heights and balance from `start` upwards after an insertion, until nothing changes any more. Least
    /// vruntimes were set on the way down.
    fn retrace_insert(&mut self, root: &mut Root, start: NodeIx) {
        let mut at = Some(start);
        while let Some(ix) = at {
            let Node { left, right, parent, height, .. } = *self.at(ix);
            let (left_height, right_height) = (self.height(left), self.height(right));
            let now = 1 + left_height.max(right_height);
            if now == height {
                return;
            }
            if left_height.abs_diff(right_height) > 1 {
                // One rotation gives the subtree the height that it had before.
                self.rebalance(root, ix, left_height, right_height);
                return;
            }
            self.at_mut(ix).height = now;
            at = parent;
        }
    }

    /// Restores heights, balance and least vruntimes from `start` upwards after a removal, until nothing changes any
    /// more; not before `reach`, which stands in a place that was not its own.
    fn retrace_remove(&mut self, root: &mut Root, start: NodeIx, reach: Option<NodeIx>) {
        let mut reach = reach;
        let mut at = Some(start);
        while let Some(ix) = at {
            let Node { left, right, parent, height, least, .. } = *self.at(ix);
            let (left_height, right_height) = (self.height(left), self.height(right));
            let mut top = ix;
            if left_height.abs_diff(right_height) > 1 {
                self.update(ix);
                top = self.rebalance(root, ix, left_height, right_height);
            } else {
                self.update(ix);
            }
            let node = self.at(top);
            if reach == Some(ix) {
                reach = None;
            } else if height == node.height && least == node.least && reach.is_none() {
                return;
            }
            at = parent;
        }
    }

    /// Recomputes what a node says of its subtree.
    #[inline]
    fn update(&mut self, ix: NodeIx) {
        let Node { left, right, vruntime, .. } = *self.at(ix);
        let mut least = vruntime;
        let mut height = 0;
        if let Some(left) = left {
            let child = self.at(left);
            least = least.earlier_of(child.least);
            height = child.height;
        }
        if let Some(right) = right {
            let child = self.at(right);
            least = least.earlier_of(child.least);
            height = height.max(child.height);
        }
        let node = self.at_mut(ix);
        node.least = least;
        node.height = height + 1;
    }

    /// Rotates a node whose subtrees differ by two; returns the root of the subtree.
    fn rebalance(&mut self, root: &mut Root, node: NodeIx, left_height: u8, right_height: u8) -> NodeIx {
        let Node { left, right, .. } = *self.at(node);
        if left_height > right_height {
            let child = left.expect("invariant: the higher side is not empty");
            if self.height(self.at(child).right) > self.height(self.at(child).left) {
                self.rotate_left(root, child);
            }
            self.rotate_right(root, node)
        } else {
            let child = right.expect("invariant: the higher side is not empty");
            if self.height(self.at(child).left) > self.height(self.at(child).right) {
                self.rotate_right(root, child);
            }
            self.rotate_left(root, node)
        }
    }

    fn rotate_left(&mut self, root: &mut Root, node: NodeIx) -> NodeIx {
        let up = self.at(node).right.expect("invariant: rotated towards its child");
        let (parent, inner) = (self.at(node).parent, self.at(up).left);
        self.at_mut(node).right = inner;
        self.set_parent(inner, Some(node));
        self.at_mut(up).left = Some(node);
        self.finish_rotation(root, parent, node, up)
    }

    fn rotate_right(&mut self, root: &mut Root, node: NodeIx) -> NodeIx {
        let up = self.at(node).left.expect("invariant: rotated towards its child");
        let (parent, inner) = (self.at(node).parent, self.at(up).right);
        self.at_mut(node).left = inner;
        self.set_parent(inner, Some(node));
        self.at_mut(up).right = Some(node);
        self.finish_rotation(root, parent, node, up)
    }

    fn finish_rotation(&mut self, root: &mut Root, parent: Option<NodeIx>, down: NodeIx, up: NodeIx) -> NodeIx {
        self.replace_child(root, parent, down, Some(up));
        self.at_mut(down).parent = Some(up);
        self.update(down);
        self.update(up);
        up
    }

    fn replace_child(&mut self, root: &mut Root, parent: Option<NodeIx>, old: NodeIx, new: Option<NodeIx>) {
        self.set_parent(new, parent);
        match parent {
            None => root.0 = new,
            Some(parent) => {
                let node = self.at_mut(parent);
                if node.left == Some(old) {
                    node.left = new;
                } else {
                    node.right = new;
                }
            }
        }
    }

    fn set_parent(&mut self, node: Option<NodeIx>, parent: Option<NodeIx>) {
        if let Some(node) = node {
            self.at_mut(node).parent = parent;
        }
    }

    fn height(&self, node: Option<NodeIx>) -> u8 {
        // Place 0 stands for no node and has no height: no branch.
        self.nodes[node.map_or(0, |node| node.0.get() as usize)].height
    }

    fn leftmost(&self, from: NodeIx) -> NodeIx {
        let mut at = from;
        while let Some(left) = self.at(at).left {
            at = left;
        }
        at
    }

    fn allocate(&mut self, node: Node) -> NodeIx {
        if let Some(place) = self.free.pop() {
            *self.at_mut(place) = node;
            return place;
        }
        let place = u32::try_from(self.nodes.len()).expect("invariant: fewer than 2^32 entities");
        self.nodes.push(node);
        NodeIx(NonZeroU32::new(place).expect("invariant: place 0 is taken"))
    }

    #[inline]
    fn at(&self, node: NodeIx) -> &Node {
        &self.nodes[node.0.get() as usize]
    }

    #[inline]
    fn at_mut(&mut self, node: NodeIx) -> &mut Node {
        &mut self.nodes[node.0.get() as usize]
    }

    /// Checks order, balance and augmentation of a tree and returns its entities in order. For checks: O(n log n).
    ///
    /// # Panics
    /// If they do not hold.
    pub(crate) fn check(&self, root: Root) -> Vec<EntityRef> {
        let mut entities = Vec::new();
        let mut last: Option<Vtime> = None;
        let mut next = self.first(root);
        while let Some(ix) = next {
            let node = self.at(ix);
            assert!(last.is_none_or(|last| !node.key.is_before(last)), "order of the timeline");
            let children = [node.left, node.right];
            let heights = children.map(|child| self.height(child));
            assert!(heights[0].abs_diff(heights[1]) <= 1, "balance of the timeline");
            assert_eq!(node.height, 1 + heights[0].max(heights[1]), "height in the timeline");
            let least = children.into_iter().flatten().map(|child| self.at(child).least);
            assert_eq!(node.least, least.fold(node.vruntime, Vtime::earlier_of), "least vruntime in the timeline");
            for child in children.into_iter().flatten() {
                assert_eq!(self.at(child).parent, Some(ix), "parent in the timeline");
            }
            last = Some(node.key);
            entities.push(node.entity);
            next = self.after(ix);
        }
        entities
    }
}

impl Node {
    fn new(key: Vtime, vruntime: Vtime, entity: EntityRef, parent: Option<NodeIx>) -> Self {
        Self { key, vruntime, least: vruntime, entity, parent, left: None, right: None, height: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vtime::Vlag;
    use super::*;
    use crate::slab::Slot;

    fn at(ns: i64) -> Vtime {
        Vtime::ZERO.plus(Vlag::from_nanos(ns))
    }

    /// A few thousand insertions and removals against a sorted list.
    #[test]
    fn it_agrees_with_a_sorted_list() {
        let mut timeline = Timeline::with_capacity(4);
        let mut root = Root::default();
        let mut list: Vec<(i64, u32, i64, NodeIx)> = Vec::new();
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for step in 0..4000_u32 {
            let grow = list.len() < 8 || draw(2) == 0 && list.len() < 200;
            if grow {
                let (key, vruntime) = (draw(50) as i64, draw(1000) as i64);
                let node = timeline.insert(&mut root, at(key), at(vruntime), EntityRef::Task(Slot(step)));
                list.push((key, step, vruntime, node));
                list.sort_by_key(|(key, seq, ..)| (*key, *seq));
            } else {
                let (.., node) = list.remove(draw(list.len() as u64) as usize);
                timeline.remove(&mut root, node);
            }
            let order: Vec<EntityRef> = list.iter().map(|(_, seq, ..)| EntityRef::Task(Slot(*seq))).collect();
            assert_eq!(timeline.check(root), order);
            let limit = draw(1000) as i64;
            let slow = list.iter().find(|(_, _, vruntime, _)| *vruntime <= limit).map(|(.., node)| *node);
            assert_eq!(timeline.first_eligible(root, at(limit)), slow);
        }
    }
}
