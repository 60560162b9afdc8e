//! Many waiting entities: a tree in order, with the least vruntime of every subtree.
//!
//! It is balanced (AVL: height at most 1.45 log2 n), and each node carries the least vruntime below it, so that "the
//! earliest virtual deadline among those that are eligible" is one walk down: go left while something eligible is there,
//! else take the node if it is, else go right. A balanced tree keeps the order of equal keys.

use super::{Node, NodeIx, Timeline};
use crate::fair::vtime::Vtime;

/// The top of a tree, and how many are in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    top: Option<NodeIx>,
    len: u32,
}

impl Tree {
    pub(super) const fn len(self) -> u32 {
        self.len
    }
}

impl Timeline {
    pub(super) fn least_of_tree(&self, tree: Tree) -> Option<Vtime> {
        tree.top.map(|node| self.at(node).least)
    }

    pub(super) fn first_of_tree(&self, tree: Tree) -> Option<NodeIx> {
        tree.top.map(|node| self.leftmost(node))
    }

    pub(super) fn after_in_tree(&self, node: NodeIx) -> Option<NodeIx> {
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

    #[inline]
    pub(super) fn first_eligible_of_tree(&self, tree: Tree, limit: Vtime) -> Option<NodeIx> {
        let mut at = tree.top?;
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

    /// Puts a node behind those of equal key.
    pub(super) fn insert_in_tree(&mut self, tree: &mut Tree, new: NodeIx) {
        let Node { key, vruntime, .. } = *self.at(new);
        let mut parent = None;
        let mut at = tree.top;
        let mut goes_left = false;
        while let Some(here) = at {
            let node = self.at_mut(here);
            node.least = node.least.earlier_of(vruntime);
            goes_left = key.is_before(node.key);
            parent = at;
            at = if goes_left { node.left } else { node.right };
        }
        tree.len += 1;
        self.at_mut(new).parent = parent;
        match parent {
            None => tree.top = Some(new),
            Some(parent) => {
                let node = self.at_mut(parent);
                if goes_left {
                    node.left = Some(new);
                } else {
                    node.right = Some(new);
                }
                self.retrace_insert(tree, parent);
            }
        }
    }

    pub(super) fn remove_from_tree(&mut self, tree: &mut Tree, node: NodeIx) {
        tree.len -= 1;
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
                self.replace_child(tree, parent, node, Some(successor));
                (Some(start), Some(successor))
            }
            (child, None) | (None, child) => {
                self.replace_child(tree, parent, node, child);
                (parent, None)
            }
        };
        if let Some(start) = start {
            self.retrace_remove(tree, start, replaced);
        }
    }

    /// Restores heights and balance from `start` upwards after an insertion, until nothing changes any more. Least
    /// vruntimes were set on the way down.
    fn retrace_insert(&mut self, tree: &mut Tree, start: NodeIx) {
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
                self.rebalance(tree, ix, left_height, right_height);
                return;
            }
            self.at_mut(ix).height = now;
            at = parent;
        }
    }

    /// Restores heights, balance and least vruntimes from `start` upwards after a removal, until nothing changes any
    /// more; not before `reach`, which stands in a place that was not its own.
    fn retrace_remove(&mut self, tree: &mut Tree, start: NodeIx, reach: Option<NodeIx>) {
        let mut reach = reach;
        let mut at = Some(start);
        while let Some(ix) = at {
            let Node { left, right, parent, height, least, .. } = *self.at(ix);
            let (left_height, right_height) = (self.height(left), self.height(right));
            let mut top = ix;
            if left_height.abs_diff(right_height) > 1 {
                self.update(ix);
                top = self.rebalance(tree, ix, left_height, right_height);
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
    fn rebalance(&mut self, tree: &mut Tree, node: NodeIx, left_height: u8, right_height: u8) -> NodeIx {
        let Node { left, right, .. } = *self.at(node);
        if left_height > right_height {
            let child = left.expect("invariant: the higher side is not empty");
            if self.height(self.at(child).right) > self.height(self.at(child).left) {
                self.rotate_left(tree, child);
            }
            self.rotate_right(tree, node)
        } else {
            let child = right.expect("invariant: the higher side is not empty");
            if self.height(self.at(child).left) > self.height(self.at(child).right) {
                self.rotate_right(tree, child);
            }
            self.rotate_left(tree, node)
        }
    }

    fn rotate_left(&mut self, tree: &mut Tree, node: NodeIx) -> NodeIx {
        let up = self.at(node).right.expect("invariant: rotated towards its child");
        let (parent, inner) = (self.at(node).parent, self.at(up).left);
        self.at_mut(node).right = inner;
        self.set_parent(inner, Some(node));
        self.at_mut(up).left = Some(node);
        self.finish_rotation(tree, parent, node, up)
    }

    fn rotate_right(&mut self, tree: &mut Tree, node: NodeIx) -> NodeIx {
        let up = self.at(node).left.expect("invariant: rotated towards its child");
        let (parent, inner) = (self.at(node).parent, self.at(up).right);
        self.at_mut(node).left = inner;
        self.set_parent(inner, Some(node));
        self.at_mut(up).right = Some(node);
        self.finish_rotation(tree, parent, node, up)
    }

    fn finish_rotation(&mut self, tree: &mut Tree, parent: Option<NodeIx>, down: NodeIx, up: NodeIx) -> NodeIx {
        self.replace_child(tree, parent, down, Some(up));
        self.at_mut(down).parent = Some(up);
        self.update(down);
        self.update(up);
        up
    }

    fn replace_child(&mut self, tree: &mut Tree, parent: Option<NodeIx>, old: NodeIx, new: Option<NodeIx>) {
        self.set_parent(new, parent);
        match parent {
            None => tree.top = new,
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

    pub(super) fn check_in_tree(&self, ix: NodeIx) {
        let node = self.at(ix);
        let children = [node.left, node.right];
        let heights = children.map(|child| self.height(child));
        assert!(heights[0].abs_diff(heights[1]) <= 1, "balance of the timeline");
        assert_eq!(node.height, 1 + heights[0].max(heights[1]), "height in the timeline");
        let least = children.into_iter().flatten().map(|child| self.at(child).least);
        assert_eq!(node.least, least.fold(node.vruntime, Vtime::earlier_of), "least vruntime in the timeline");
        for child in children.into_iter().flatten() {
            assert_eq!(self.at(child).parent, Some(ix), "parent in the timeline");
        }
    }
}
