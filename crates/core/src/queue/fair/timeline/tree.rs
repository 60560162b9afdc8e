//! A balanced tree of blocks for many waiting entities. Each block holds some entities in order.
//!
//! The blocks are in order and balanced (AVL: the height is at most 1.45 log2 of their number).
//! Each block stores the least vruntime of its own entities and of its subtree. So the search for
//! "the earliest virtual deadline among the eligible" is one walk down:
//!
//! 1. If the left subtree has an eligible entity, go left.
//! 2. Else, if the block has one, take its first.
//! 3. Else go right.
//!
//! Equal keys keep their order.
//!
//! Why blocks: most entities join at one end, behind all others, and leave from the other end. A
//! tree of single entities rotates at nearly every such insertion. With blocks, only one insertion
//! in a blockful creates a block, and only one removal in a blockful frees one.
//!
//! A full block gives its upper half to a new block. A block is freed when it is empty. A leaf is
//! also freed when its entities fit into its parent and half of the parent stays free. So there are
//! never more blocks than entities; as a rule there are a twelfth as many.
//!
//! Sources: Lehman & Carey 1986, "A study of index structures for main memory database management
//! systems" (the T-tree).

use crate::entity::fair::NodeIx;
use crate::entity::vtime::Vtime;
use crate::queue::fair::timeline::{Node, Timeline};
use core::num::NonZeroU32;

/// The maximum number of entities of a block.
const BLOCK_MAX: usize = 16;

/// The number of a block: its place in the arena plus one, so that an absent block costs no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockIx(NonZeroU32);

impl BlockIx {
    const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// An entity of a block: its node, and a copy of the compared values.
#[derive(Clone, Copy, Debug)]
struct BlockEntry {
    key: Vtime,
    vruntime: Vtime,
    node: NodeIx,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// The entities; only the first `len` are valid.
    entries: [BlockEntry; BLOCK_MAX],
    len: u8,
    /// The height of the subtree.
    height: u8,
    /// The least vruntime of its entities.
    own: Vtime,
    /// The least vruntime in the subtree.
    least: Vtime,
    parent: Option<BlockIx>,
    left: Option<BlockIx>,
    right: Option<BlockIx>,
}

/// The root of a tree, and the number of its entities.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tree {
    top: Option<BlockIx>,
    len: u32,
}

impl Tree {
    pub(crate) const fn len(self) -> u32 {
        self.len
    }
}

impl Block {
    /// A block without entities, parent and children.
    const EMPTY: Self = Self {
        entries: [BlockEntry { key: Vtime::ZERO, vruntime: Vtime::ZERO, node: NodeIx(NonZeroU32::MIN) }; BLOCK_MAX],
        len: 0,
        height: 1,
        own: Vtime::ZERO,
        least: Vtime::ZERO,
        parent: None,
        left: None,
        right: None,
    };

    fn entries(&self) -> &[BlockEntry] {
        &self.entries[..usize::from(self.len)]
    }

    const fn is_full(&self) -> bool {
        self.len as usize == BLOCK_MAX
    }

    const fn is_leaf(&self) -> bool {
        self.left.is_none() && self.right.is_none()
    }

    /// Returns the place of an entity with this key: behind those of equal key.
    fn place_of(&self, key: Vtime) -> usize {
        self.entries().iter().rposition(|entry| !key.is_before(entry.key)).map_or(0, |before| before + 1)
    }

    fn insert(&mut self, place: usize, entry: BlockEntry) {
        let len = usize::from(self.len);
        self.own = if len == 0 { entry.vruntime } else { self.own.earlier_of(entry.vruntime) };
        self.entries.copy_within(place..len, place + 1);
        self.entries[place] = entry;
        self.len += 1;
    }

    fn place_of_node(&self, node: NodeIx) -> usize {
        self.entries().iter().position(|entry| entry.node == node).expect("invariant: a node knows its block")
    }

    /// Removes an entity. Returns whether the least vruntime has changed; it is kept when the block
    /// becomes empty.
    fn remove(&mut self, node: NodeIx) -> bool {
        let place = self.place_of_node(node);
        let vruntime = self.entries[place].vruntime;
        self.entries.copy_within(place + 1..usize::from(self.len), place);
        self.len -= 1;
        let had = self.own;
        if vruntime == had {
            self.find_least();
        }
        self.own != had
    }

    fn find_least(&mut self) {
        let least = self.entries().iter().map(|entry| entry.vruntime).reduce(Vtime::earlier_of);
        self.own = least.unwrap_or(self.own);
    }
}

impl Timeline {
    pub(crate) fn least_of_tree(&self, tree: Tree) -> Option<Vtime> {
        tree.top.map(|top| self.block(top).least)
    }

    pub(crate) fn first_of_tree(&self, tree: Tree) -> Option<NodeIx> {
        tree.top.map(|top| self.block(self.leftmost(top)).entries[0].node)
    }

    pub(crate) fn after_in_tree(&self, node: NodeIx) -> Option<NodeIx> {
        let at = self.block_of(node);
        let block = self.block(at);
        let next = block.entries().get(block.place_of_node(node) + 1);
        next.copied().or_else(|| self.block_after(at).map(|after| self.block(after).entries[0])).map(|entry| entry.node)
    }

    fn block_after(&self, at: BlockIx) -> Option<BlockIx> {
        if let Some(right) = self.block(at).right {
            return Some(self.leftmost(right));
        }
        let mut below = at;
        // Bounded by the height: each iteration goes up.
        while let Some(parent) = self.block(below).parent {
            if self.block(parent).left == Some(below) {
                return Some(parent);
            }
            below = parent;
        }
        None
    }

    #[inline]
    pub(crate) fn first_eligible_of_tree(&self, tree: Tree, limit: Vtime) -> Option<NodeIx> {
        let mut block = self.block(tree.top?);
        if limit.is_before(block.least) {
            return None;
        }
        // Bounded by the height: each iteration goes down, into a subtree that has an eligible
        // entity.
        loop {
            if let Some(left) = block.left
                && !limit.is_before(self.block(left).least)
            {
                block = self.block(left);
            } else if !limit.is_before(block.own) {
                return block.entries().iter().find(|entry| !limit.is_before(entry.vruntime)).map(|entry| entry.node);
            } else {
                block = self.block(block.right?);
            }
        }
    }

    /// Inserts a node behind those of equal key.
    pub(crate) fn insert_in_tree(&mut self, tree: &mut Tree, new: NodeIx) {
        let Node { key, vruntime, .. } = *self.at(new);
        let entry = BlockEntry { key, vruntime, node: new };
        tree.len += 1;
        let Some(top) = tree.top else {
            tree.top = Some(self.make_block(&[entry]));
            return;
        };
        let mut at = top;
        // Bounded by the height: each iteration but the last goes down.
        let at = loop {
            let block = self.block_mut(at);
            block.least = block.least.earlier_of(vruntime);
            let towards = if key.is_before(block.entries[0].key) {
                block.left
            } else if key.is_before(block.entries[usize::from(block.len) - 1].key) {
                None
            } else {
                block.right
            };
            match towards {
                Some(child) => at = child,
                None => break at,
            }
        };
        let block = self.block_mut(at);
        let place = block.place_of(key);
        if !block.is_full() {
            block.insert(place, entry);
            self.at_mut(new).block = Some(at);
        } else if place == 0 {
            let before = self.make_block(&[entry]);
            self.block_mut(at).left = Some(before);
            self.hang(tree, before, at, at);
        } else if place == BLOCK_MAX {
            let behind = self.make_block(&[entry]);
            self.put_behind(tree, at, behind);
        } else {
            self.split(tree, at, place, entry);
        }
    }

    /// Moves the upper half of a full block to a new block, and inserts an entity into one of the
    /// two.
    fn split(&mut self, tree: &mut Tree, at: BlockIx, place: usize, entry: BlockEntry) {
        const HALF: usize = BLOCK_MAX / 2;
        let entries = self.block(at).entries;
        let upper = self.make_block(&entries[HALF..]);
        let lower = self.block_mut(at);
        lower.len = HALF as u8;
        lower.find_least();
        let (home, place) = if place <= HALF { (at, place) } else { (upper, place - HALF) };
        self.block_mut(home).insert(place, entry);
        self.at_mut(entry.node).block = Some(home);
        self.update(upper);
        self.put_behind(tree, at, upper);
    }

    /// Inserts a new block behind another.
    fn put_behind(&mut self, tree: &mut Tree, at: BlockIx, new: BlockIx) {
        let parent = match self.block(at).right {
            None => {
                self.block_mut(at).right = Some(new);
                at
            }
            Some(right) => {
                let next = self.leftmost(right);
                self.block_mut(next).left = Some(new);
                next
            }
        };
        self.hang(tree, new, parent, at);
    }

    /// Hangs a new block below `parent`, and updates the subtrees from `parent` upwards, at least
    /// as far as `reach`.
    fn hang(&mut self, tree: &mut Tree, new: BlockIx, parent: BlockIx, reach: BlockIx) {
        self.block_mut(new).parent = Some(parent);
        self.retrace(tree, parent, Some(reach));
    }

    pub(crate) fn remove_from_tree(&mut self, tree: &mut Tree, node: NodeIx) {
        tree.len -= 1;
        let at = self.block_of(node);
        let block = self.block_mut(at);
        let has_changed = block.remove(node);
        if block.len == 0 {
            self.give_back_empty(tree, at);
        } else if block.is_leaf() && self.fits_above(at) {
            self.merge_into_parent(tree, at);
        } else if has_changed {
            self.retrace(tree, at, None);
        }
    }

    /// Returns whether the entities of a leaf and of its parent fill at most half a block.
    fn fits_above(&self, leaf: BlockIx) -> bool {
        let block = self.block(leaf);
        block.parent.is_some_and(|parent| usize::from(block.len + self.block(parent).len) <= BLOCK_MAX / 2)
    }

    /// Moves the entities of a leaf to its parent, to which it is adjacent in order.
    fn merge_into_parent(&mut self, tree: &mut Tree, leaf: BlockIx) {
        let Block { entries, len, parent, .. } = *self.block(leaf);
        let parent = parent.expect("invariant: a leaf that is merged has a parent");
        let is_left = self.block(parent).left == Some(leaf);
        let above = self.block_mut(parent);
        for (place, entry) in entries[..usize::from(len)].iter().enumerate() {
            let place = if is_left { place } else { usize::from(above.len) };
            above.insert(place, *entry);
        }
        for entry in &entries[..usize::from(len)] {
            self.at_mut(entry.node).block = Some(parent);
        }
        self.replace_child(tree, Some(parent), leaf, None);
        self.free_blocks.push(leaf);
        self.retrace(tree, parent, None);
    }

    /// Removes an empty block from the tree. If it has two children, the entities of the next block
    /// in order move into it, and that block is removed instead.
    fn give_back_empty(&mut self, tree: &mut Tree, empty: BlockIx) {
        let Block { left, right, .. } = *self.block(empty);
        let gone = match (left, right) {
            (Some(_), Some(right)) => {
                let next = self.leftmost(right);
                let Block { entries, len, own, .. } = *self.block(next);
                let block = self.block_mut(empty);
                (block.entries, block.len, block.own) = (entries, len, own);
                for entry in &entries[..usize::from(len)] {
                    self.at_mut(entry.node).block = Some(empty);
                }
                next
            }
            (_, None) | (None, _) => empty,
        };
        let Block { parent, left, right, .. } = *self.block(gone);
        self.replace_child(tree, parent, gone, left.or(right));
        self.free_blocks.push(gone);
        if let Some(parent) = parent {
            self.retrace(tree, parent, (gone != empty).then_some(empty));
        }
    }

    /// Frees all blocks of a tree with at most `N` entities, and returns the entities in order.
    pub(crate) fn take_apart<const N: usize>(&mut self, tree: Tree) -> [Option<NodeIx>; N] {
        let mut order = [None; N];
        let mut places = order.iter_mut();
        let mut next = tree.top.map(|top| self.leftmost(top));
        while let Some(at) = next {
            next = self.block_after(at);
            self.free_blocks.push(at);
            for (entry, place) in self.block(at).entries().iter().zip(places.by_ref()) {
                *place = Some(entry.node);
            }
        }
        order
    }

    /// Restores heights, balance and least vruntimes from `start` upwards, until nothing changes.
    /// It does not stop before `reach`, a block with changed entities.
    fn retrace(&mut self, tree: &mut Tree, start: BlockIx, reach: Option<BlockIx>) {
        let mut reach = reach;
        let mut at = Some(start);
        while let Some(ix) = at {
            let Block { left, right, parent, height, least, .. } = *self.block(ix);
            let (left_height, right_height) = (self.height(left), self.height(right));
            self.update(ix);
            let mut top = ix;
            if left_height.abs_diff(right_height) > 1 {
                top = self.rebalance(tree, ix, left_height, right_height);
            }
            let block = self.block(top);
            if reach == Some(ix) {
                reach = None;
            } else if height == block.height && least == block.least && reach.is_none() {
                return;
            }
            at = parent;
        }
    }

    /// Recomputes the height and the least vruntime of a block's subtree.
    #[inline]
    fn update(&mut self, ix: BlockIx) {
        let Block { left, right, own, .. } = *self.block(ix);
        let mut least = own;
        let mut height = 0;
        for child in [left, right].into_iter().flatten() {
            let child = self.block(child);
            least = least.earlier_of(child.least);
            height = height.max(child.height);
        }
        let block = self.block_mut(ix);
        block.least = least;
        block.height = height + 1;
    }

    /// Rotates a block with subtrees that differ in height by two. Returns the root of the subtree.
    fn rebalance(&mut self, tree: &mut Tree, at: BlockIx, left_height: u8, right_height: u8) -> BlockIx {
        let Block { left, right, .. } = *self.block(at);
        if left_height > right_height {
            let child = left.expect("invariant: the higher side is not empty");
            if self.height(self.block(child).right) > self.height(self.block(child).left) {
                self.rotate_left(tree, child);
            }
            self.rotate_right(tree, at)
        } else {
            let child = right.expect("invariant: the higher side is not empty");
            if self.height(self.block(child).left) > self.height(self.block(child).right) {
                self.rotate_right(tree, child);
            }
            self.rotate_left(tree, at)
        }
    }

    fn rotate_left(&mut self, tree: &mut Tree, at: BlockIx) -> BlockIx {
        let up = self.block(at).right.expect("invariant: rotated towards its child");
        let (parent, inner) = (self.block(at).parent, self.block(up).left);
        self.block_mut(at).right = inner;
        self.set_parent(inner, Some(at));
        self.block_mut(up).left = Some(at);
        self.finish_rotation(tree, parent, at, up)
    }

    fn rotate_right(&mut self, tree: &mut Tree, at: BlockIx) -> BlockIx {
        let up = self.block(at).left.expect("invariant: rotated towards its child");
        let (parent, inner) = (self.block(at).parent, self.block(up).right);
        self.block_mut(at).left = inner;
        self.set_parent(inner, Some(at));
        self.block_mut(up).right = Some(at);
        self.finish_rotation(tree, parent, at, up)
    }

    fn finish_rotation(&mut self, tree: &mut Tree, parent: Option<BlockIx>, down: BlockIx, up: BlockIx) -> BlockIx {
        self.replace_child(tree, parent, down, Some(up));
        self.block_mut(down).parent = Some(up);
        self.update(down);
        self.update(up);
        up
    }

    fn replace_child(&mut self, tree: &mut Tree, parent: Option<BlockIx>, old: BlockIx, new: Option<BlockIx>) {
        self.set_parent(new, parent);
        match parent {
            None => tree.top = new,
            Some(parent) => {
                let block = self.block_mut(parent);
                if block.left == Some(old) {
                    block.left = new;
                } else {
                    block.right = new;
                }
            }
        }
    }

    fn set_parent(&mut self, block: Option<BlockIx>, parent: Option<BlockIx>) {
        if let Some(block) = block {
            self.block_mut(block).parent = parent;
        }
    }

    fn height(&self, block: Option<BlockIx>) -> u8 {
        block.map_or(0, |block| self.block(block).height)
    }

    fn leftmost(&self, from: BlockIx) -> BlockIx {
        let mut at = from;
        while let Some(left) = self.block(at).left {
            at = left;
        }
        at
    }

    /// Creates a block without children from entities in order, and points their nodes to it.
    fn make_block(&mut self, entries: &[BlockEntry]) -> BlockIx {
        let mut block = Block { len: entries.len() as u8, ..Block::EMPTY };
        block.entries[..entries.len()].copy_from_slice(entries);
        block.own = entries[0].vruntime;
        block.find_least();
        block.least = block.own;
        let place = match self.free_blocks.pop() {
            Some(place) => {
                *self.block_mut(place) = block;
                place
            }
            None => {
                self.blocks.push(block);
                // All blocks can become free at once, and freeing them must not allocate.
                self.free_blocks.reserve(self.blocks.len());
                let number = u32::try_from(self.blocks.len()).expect("invariant: fewer than 2^32 blocks");
                BlockIx(NonZeroU32::new(number).expect("invariant: there is one"))
            }
        };
        for entry in entries {
            self.at_mut(entry.node).block = Some(place);
        }
        place
    }

    fn block_of(&self, node: NodeIx) -> BlockIx {
        self.at(node).block.expect("invariant: what is in a tree is in a block")
    }

    #[inline]
    fn block(&self, block: BlockIx) -> &Block {
        &self.blocks[block.index()]
    }

    #[inline]
    fn block_mut(&mut self, block: BlockIx) -> &mut Block {
        &mut self.blocks[block.index()]
    }

    pub(crate) fn check_in_tree(&self, ix: NodeIx) {
        let at = self.block_of(ix);
        let (node, block) = (self.at(ix), self.block(at));
        let place = block.place_of_node(ix);
        let entry = block.entries[place];
        assert_eq!((entry.key, entry.vruntime), (node.key, node.vruntime), "an entity in its block");
        if place > 0 {
            return;
        }
        let children = [block.left, block.right];
        let heights = children.map(|child| self.height(child));
        assert!(heights[0].abs_diff(heights[1]) <= 1, "balance of the timeline");
        assert_eq!(block.height, 1 + heights[0].max(heights[1]), "height in the timeline");
        let own = block.entries().iter().map(|entry| entry.vruntime).reduce(Vtime::earlier_of);
        assert_eq!(Some(block.own), own, "least vruntime of a block");
        let least = children.into_iter().flatten().map(|child| self.block(child).least);
        assert_eq!(block.least, least.fold(block.own, Vtime::earlier_of), "least vruntime in the timeline");
        for child in children.into_iter().flatten() {
            assert_eq!(self.block(child).parent, Some(at), "parent in the timeline");
        }
    }
}
