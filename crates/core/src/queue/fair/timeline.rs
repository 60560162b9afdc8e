//! [`Timeline`]: waiting entities, sorted by a key. It finds the first entity in order, and the
//! first one that is eligible.
//!
//! The key is the virtual deadline under EEVDF and the vruntime under CFS. Among equal keys, the
//! entity inserted first comes first.
//!
//! Most queues never hold more than a handful of entities. For those, a walk over neighbours is
//! cheaper than a tree; for many entities a walk is too slow. So a queue has one of two shapes:
//!
//! * a sorted [`list`] of at most [`LIST_MAX`] entities, or
//! * a balanced [`tree`] of blocks with more than [`LIST_AGAIN`] entities, which stores the least
//!   vruntime of every subtree.
//!
//! A list becomes a tree when it grows beyond [`LIST_MAX`], and a tree becomes a list when it
//! shrinks to [`LIST_AGAIN`]. The insertions or removals between the two bounds pay for a
//! conversion. A node keeps its index during a conversion, and callers cannot see the shape. One
//! arena of nodes per CPU serves all its queues.
//!
//! Insertion, removal and searches are O(log n); conversions are amortised. Nothing is allocated
//! until more entities wait than ever before.
//!
//! Sources: Stoica & Abdel-Wahab 1995, sec. 5 (the augmented tree); Linux v6.12
//! `kernel/sched/fair.c`, `__enqueue_entity`, `pick_eevdf`. differs: blocks in an AVL tree instead
//! of a red-black tree of entities, indices instead of pointers, and a list for few entities.

pub(crate) mod list;
pub(crate) mod tree;

use crate::entity::fair::{EntityRef, NodeIx, QueueIx};
use crate::entity::vtime::Vtime;
use crate::queue::fair::timeline::list::List;
use crate::queue::fair::timeline::tree::{Block, BlockIx, Tree};
use alloc::vec::Vec;
use core::num::NonZeroU32;

/// The maximum number of entities of a list.
const LIST_MAX: u32 = 16;

/// The number of entities at which a shrinking tree becomes a list.
const LIST_AGAIN: u32 = 8;

/// The waiting entities of one queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Root {
    /// At most [`LIST_MAX`].
    Few(List),
    /// More than [`LIST_AGAIN`].
    Many(Tree),
}

impl Default for Root {
    fn default() -> Self {
        Self::Few(List::default())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    key: Vtime,
    vruntime: Vtime,
    entity: EntityRef,
    /// The block of the node, in a tree.
    block: Option<BlockIx>,
    /// The neighbour before the node, in a list.
    left: Option<NodeIx>,
    /// The neighbour behind the node, in a list.
    right: Option<NodeIx>,
}

impl Node {
    const fn new(key: Vtime, vruntime: Vtime, entity: EntityRef) -> Self {
        Self { key, vruntime, entity, block: None, left: None, right: None }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    nodes: Vec<Node>,
    free: Vec<NodeIx>,
    blocks: Vec<Block>,
    free_blocks: Vec<BlockIx>,
}

impl Timeline {
    pub(crate) fn with_capacity(entities: usize) -> Self {
        let mut nodes = Vec::with_capacity(entities + 1);
        let nobody = Node::new(Vtime::ZERO, Vtime::ZERO, EntityRef::Group(QueueIx::ROOT));
        nodes.push(nobody);
        // Blocks are half full on average.
        let blocks = if entities > LIST_MAX as usize { entities.div_ceil(8) } else { 0 };
        Self {
            nodes,
            free: Vec::with_capacity(entities),
            blocks: Vec::with_capacity(blocks),
            free_blocks: Vec::with_capacity(blocks),
        }
    }

    /// Returns the entity of a node.
    pub(crate) fn entity(&self, node: NodeIx) -> EntityRef {
        self.at(node).entity
    }

    /// Returns the vruntime with which an entity was queued.
    pub(crate) fn vruntime(&self, node: NodeIx) -> Vtime {
        self.at(node).vruntime
    }

    /// Returns the key with which an entity was queued.
    pub(crate) fn key(&self, node: NodeIx) -> Vtime {
        self.at(node).key
    }

    /// Returns the least vruntime of a queue. O(1): the length of a list is bounded.
    #[inline]
    pub(crate) fn least(&self, root: Root) -> Option<Vtime> {
        match root {
            Root::Few(list) => self.least_of_list(list),
            Root::Many(tree) => self.least_of_tree(tree),
        }
    }

    /// Returns the entity with the least key. O(log n).
    #[inline]
    pub(crate) fn first(&self, root: Root) -> Option<NodeIx> {
        match root {
            Root::Few(list) => list.first(),
            Root::Many(tree) => self.first_of_tree(tree),
        }
    }

    /// Returns the next entity in order of key. O(log n).
    pub(crate) fn after(&self, root: Root, node: NodeIx) -> Option<NodeIx> {
        match root {
            Root::Few(_) => self.at(node).right,
            Root::Many(_) => self.after_in_tree(node),
        }
    }

    /// Returns the entity with the least key among those with a vruntime not after `limit`. O(log
    /// n).
    #[inline]
    pub(crate) fn first_eligible(&self, root: Root, limit: Vtime) -> Option<NodeIx> {
        match root {
            Root::Few(list) => self.first_eligible_of_list(list, limit),
            Root::Many(tree) => self.first_eligible_of_tree(tree, limit),
        }
    }

    /// Inserts an entity behind those of equal key.
    pub(crate) fn insert(&mut self, root: &mut Root, key: Vtime, vruntime: Vtime, entity: EntityRef) -> NodeIx {
        let new = self.allocate(Node::new(key, vruntime, entity));
        match root {
            Root::Few(list) => {
                self.insert_in_list(list, new);
                if list.len() > LIST_MAX {
                    *root = Root::Many(self.tree_of(*list));
                }
            }
            Root::Many(tree) => self.insert_in_tree(tree, new),
        }
        new
    }

    /// Replaces the entity of a node: the same as [`remove`](Self::remove) and
    /// [`insert`](Self::insert), but the queue keeps its shape.
    #[inline(always)]
    pub(crate) fn replace(&mut self, root: &mut Root, node: NodeIx, key: Vtime, vruntime: Vtime, entity: EntityRef) {
        match root {
            Root::Few(list) => {
                self.remove_from_list(list, node);
                *self.at_mut(node) = Node::new(key, vruntime, entity);
                self.insert_in_list(list, node);
            }
            Root::Many(tree) => self.replace_in_tree(tree, node, Node::new(key, vruntime, entity)),
        }
    }

    /// Out of line, so that the case of a tree does not bloat the hot path of a list.
    #[inline(never)]
    fn replace_in_tree(&mut self, tree: &mut Tree, node: NodeIx, new: Node) {
        self.remove_from_tree(tree, node);
        *self.at_mut(node) = new;
        self.insert_in_tree(tree, node);
    }

    /// Removes an entity.
    pub(crate) fn remove(&mut self, root: &mut Root, node: NodeIx) {
        match root {
            Root::Few(list) => self.remove_from_list(list, node),
            Root::Many(tree) => {
                self.remove_from_tree(tree, node);
                if tree.len() <= LIST_AGAIN {
                    *root = Root::Few(self.list_of(*tree));
                }
            }
        }
        self.free.push(node);
    }

    /// Converts a list that has grown too long into a tree. Entities are inserted in order, so
    /// equal keys keep their order.
    #[cold]
    fn tree_of(&mut self, list: List) -> Tree {
        let mut tree = Tree::default();
        let mut next = list.first();
        while let Some(node) = next {
            next = self.at(node).right;
            self.renew(node);
            self.insert_in_tree(&mut tree, node);
        }
        tree
    }

    /// Converts a tree that has become small into a list.
    #[cold]
    fn list_of(&mut self, tree: Tree) -> List {
        let order: [_; LIST_AGAIN as usize] = self.take_apart(tree);
        let mut list = List::default();
        for node in order.into_iter().flatten() {
            self.renew(node);
            self.insert_in_list(&mut list, node);
        }
        list
    }

    /// Clears the links of a node.
    fn renew(&mut self, node: NodeIx) {
        let Node { key, vruntime, entity, .. } = *self.at(node);
        *self.at_mut(node) = Node::new(key, vruntime, entity);
    }

    #[inline]
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

    /// Checks the order and the shape of a queue, and returns its entities in order. For checks:
    /// O(n log n).
    ///
    /// # Panics
    /// If the order or the shape is wrong.
    pub(crate) fn check(&self, root: Root) -> Vec<EntityRef> {
        let mut entities = Vec::new();
        let mut last: Option<Vtime> = None;
        let mut next = self.first(root);
        while let Some(ix) = next {
            let node = self.at(ix);
            assert!(last.is_none_or(|last| !node.key.is_before(last)), "order of the timeline");
            last = Some(node.key);
            entities.push(node.entity);
            match root {
                Root::Few(list) => self.check_in_list(list, ix),
                Root::Many(_) => self.check_in_tree(ix),
            }
            next = self.after(root, ix);
        }
        let (len, range) = match root {
            Root::Few(list) => (list.len(), 0..=LIST_MAX),
            Root::Many(tree) => (tree.len(), LIST_AGAIN + 1..=u32::MAX),
        };
        assert_eq!(entities.len(), len as usize, "length of the timeline");
        assert!(range.contains(&len), "shape of the timeline");
        entities
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entity::vtime::Vlag;
    use crate::words::ids::Slot;

    fn at(ns: i64) -> Vtime {
        Vtime::ZERO.plus(Vlag::from_nanos(ns))
    }

    /// A generator of numbers below a bound, the same on every run.
    struct TestNumbers(u64);

    impl TestNumbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }

    /// Compares insertions and removals with a sorted list of plain numbers. The timeline grows and
    /// shrinks, so that it passes through both shapes and their bounds many times.
    #[test]
    fn it_agrees_with_a_sorted_list() {
        let mut timeline = Timeline::with_capacity(4);
        let mut root = Root::default();
        let mut model: Vec<(i64, u32, i64, NodeIx)> = Vec::new();
        let mut draws = TestNumbers(1);
        let (mut target, mut changes) = (0, 0);
        for step in 0..8000_u32 {
            if step % 40 == 0 {
                target = draws.below(if step % 400 == 0 { 200 } else { 24 }) as usize;
            }
            let was_list = matches!(root, Root::Few(_));
            let grows = model.is_empty() || draws.below(4) < if model.len() < target { 3 } else { 1 };
            let turns = !model.is_empty() && draws.below(4) == 0;
            if turns {
                let (key, vruntime) = (draws.below(50) as i64, draws.below(1000) as i64);
                let (.., node) = model.remove(draws.below(model.len() as u64) as usize);
                timeline.replace(&mut root, node, at(key), at(vruntime), EntityRef::Task(Slot::new(step + 1)));
                model.push((key, step, vruntime, node));
                model.sort_by_key(|(key, seq, ..)| (*key, *seq));
            } else if grows {
                let (key, vruntime) = (draws.below(50) as i64, draws.below(1000) as i64);
                let node = timeline.insert(&mut root, at(key), at(vruntime), EntityRef::Task(Slot::new(step + 1)));
                model.push((key, step, vruntime, node));
                model.sort_by_key(|(key, seq, ..)| (*key, *seq));
            } else {
                let (.., node) = model.remove(draws.below(model.len() as u64) as usize);
                timeline.remove(&mut root, node);
            }
            changes += u32::from(was_list != matches!(root, Root::Few(_)));
            let order: Vec<EntityRef> = model.iter().map(|(_, seq, ..)| EntityRef::Task(Slot::new(*seq + 1))).collect();
            assert_eq!(timeline.check(root), order);
            assert_eq!(
                timeline.least(root),
                model.iter().map(|(_, _, vruntime, _)| at(*vruntime)).reduce(Vtime::earlier_of)
            );
            let limit = draws.below(1000) as i64;
            let slow = model.iter().find(|(_, _, vruntime, _)| *vruntime <= limit).map(|(.., node)| *node);
            assert_eq!(timeline.first_eligible(root, at(limit)), slow);
        }
        assert!(changes > 20, "it passed through both shapes: {changes} changes");
    }

    /// Compares a large tree that fills, turns over and empties in several orders with a sorted
    /// list of plain numbers.
    #[test]
    fn many_come_and_go_in_any_order() {
        let mut draws = TestNumbers(3);
        // How far the next key can be behind the last one, and how many of the first entities can
        // leave.
        for (spread, front) in [(1, 1), (1, 400), (400, 1), (400, 400), (30, 30)] {
            let mut timeline = Timeline::with_capacity(4);
            let mut root = Root::default();
            let mut model: Vec<(i64, u32, i64, NodeIx)> = Vec::new();
            for step in 0..2800_u32 {
                // The model fills, turns over, and empties.
                let (comes, goes) =
                    if step < 400 { (1, 0) } else { (u32::from(step < 1600), u32::from(step % 4 != 3)) };
                if comes == 1 {
                    let key = i64::from(step) - draws.below(spread) as i64;
                    let vruntime = draws.below(1000) as i64;
                    let node = timeline.insert(&mut root, at(key), at(vruntime), EntityRef::Task(Slot::new(step + 1)));
                    let place = model.partition_point(|(other, ..)| *other <= key);
                    model.insert(place, (key, step, vruntime, node));
                }
                if goes == 1 && !model.is_empty() {
                    let (.., node) = model.remove(draws.below(front.min(model.len() as u64)) as usize);
                    timeline.remove(&mut root, node);
                }
                let order: Vec<EntityRef> =
                    model.iter().map(|(_, seq, ..)| EntityRef::Task(Slot::new(*seq + 1))).collect();
                assert_eq!(timeline.check(root), order);
                let least = model.iter().map(|(_, _, vruntime, _)| *vruntime).min();
                assert_eq!(timeline.least(root), least.map(at));
                let limit = draws.below(60) as i64;
                let slow = model.iter().find(|(_, _, vruntime, _)| *vruntime <= limit).map(|(.., node)| *node);
                assert_eq!(timeline.first_eligible(root, at(limit)), slow);
                let blocks = timeline.blocks.len() - timeline.free_blocks.len();
                let most = if (spread, front) == (1, 1) { model.len() / 16 + 2 } else { model.len() / 2 + 1 };
                assert!(blocks <= most, "{blocks} blocks for {} entities, {spread} {front}", model.len());
            }
            assert!(matches!(root, Root::Few(_)) && timeline.blocks.len() == timeline.free_blocks.len());
        }
    }

    /// A list and a tree of the same entities return the same results.
    #[test]
    fn both_shapes_answer_the_same() {
        let mut draws = TestNumbers(7);
        for entities in 1..=u64::from(LIST_MAX) {
            let mut timeline = Timeline::with_capacity(4);
            let (mut list, mut tree) = (List::default(), Tree::default());
            for slot in 0..entities as u32 {
                let node = Node::new(
                    at(draws.below(9) as i64),
                    at(draws.below(9) as i64),
                    EntityRef::Task(Slot::new(slot + 1)),
                );
                let (one, other) = (timeline.allocate(node), timeline.allocate(node));
                timeline.insert_in_list(&mut list, one);
                timeline.insert_in_tree(&mut tree, other);
            }
            let entity = |node: Option<NodeIx>| node.map(|node| timeline.entity(node));
            let (few, many) = (Root::Few(list), Root::Many(tree));
            assert_eq!(timeline.least(few), timeline.least(many));
            for limit in -1..10 {
                let eligible = |root| entity(timeline.first_eligible(root, at(limit)));
                assert_eq!(eligible(few), eligible(many));
            }
            let (mut one, mut other) = (timeline.first(few), timeline.first(many));
            while let (Some(in_list), Some(in_tree)) = (one, other) {
                assert_eq!(entity(one), entity(other));
                (one, other) = (timeline.after(few, in_list), timeline.after(many, in_tree));
            }
            assert_eq!((one, other), (None, None));
        }
    }
}
