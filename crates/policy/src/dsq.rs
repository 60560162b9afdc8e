//! [`Dsq`]: a dispatch queue.
//!
//! The kernel's is a list, to which a tree is added once a task is inserted by virtual time. Here
//! it is a list of numbered tasks, or an ordered map. The numbers of a list grow at its end and sink
//! at its head, so a task is found by its number; nearly always it is the first, as every local
//! queue is a list of few. So both orders are O(log n), but for a task in the middle of a list,
//! behind which the others move up.

use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Bound;
use zerolag_model::TaskId;

/// The place of a task in a queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Key {
    /// Its number in the list.
    List(i64),
    /// Its virtual time, and its number among equals.
    Tree(u64, i64),
}

/// Whether a queue is in order of arrival or of virtual time. It is one as long as it has a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Fifo,
    Vtime,
}

/// A queue. Both parts have tasks only when a policy has broken the rule, which has ended it.
#[derive(Clone, Debug)]
pub(crate) struct Dsq {
    list: VecDeque<(i64, TaskId)>,
    tree: BTreeMap<(u64, i64), TaskId>,
    /// The next number at the end, and at the head.
    seq: (i64, i64),
}

impl Dsq {
    pub(crate) const fn new() -> Self {
        Self { list: VecDeque::new(), tree: BTreeMap::new(), seq: (0, -1) }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.tree.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.tree.is_empty()
    }

    /// Returns the other order than `order`, if tasks are queued in that.
    pub(crate) fn conflict(&self, order: Order) -> Option<Order> {
        match order {
            Order::Fifo => (!self.tree.is_empty()).then_some(Order::Vtime),
            Order::Vtime => (!self.list.is_empty()).then_some(Order::Fifo),
        }
    }

    /// Adds a task at the end, or at the head.
    pub(crate) fn insert(&mut self, task: TaskId, is_first: bool) -> Key {
        let seq = if is_first { &mut self.seq.1 } else { &mut self.seq.0 };
        let number = *seq;
        if is_first {
            *seq -= 1;
            self.list.push_front((number, task));
        } else {
            *seq += 1;
            self.list.push_back((number, task));
        }
        Key::List(number)
    }

    /// Adds a task behind those whose virtual time is not greater.
    pub(crate) fn insert_vtime(&mut self, task: TaskId, vtime: u64) -> Key {
        let number = self.seq.0;
        self.seq.0 += 1;
        self.tree.insert((vtime, number), task);
        Key::Tree(vtime, number)
    }

    pub(crate) fn remove(&mut self, key: Key) {
        match key {
            Key::List(number) => {
                if self.list.front().is_some_and(|(first, _)| *first == number) {
                    self.list.pop_front();
                } else if let Ok(at) = self.list.binary_search_by_key(&number, |(other, _)| *other) {
                    self.list.remove(at);
                }
            }
            Key::Tree(vtime, number) => {
                self.tree.remove(&(vtime, number));
            }
        }
    }

    pub(crate) fn first(&self) -> Option<TaskId> {
        match self.list.front() {
            Some((_, task)) => Some(*task),
            None => self.tree.first_key_value().map(|(_, task)| *task),
        }
    }

    /// Returns the first task of which something holds; mostly that is the first one.
    pub(crate) fn find(&self, mut holds: impl FnMut(TaskId) -> bool) -> Option<TaskId> {
        let first = self.first()?;
        if holds(first) {
            return Some(first);
        }
        self.iter().skip(1).find(|task| holds(*task))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = TaskId> + '_ {
        self.list.iter().map(|(_, task)| *task).chain(self.tree.values().copied())
    }

    /// Returns the task behind a place.
    pub(crate) fn next(&self, after: Key) -> Option<TaskId> {
        let first = match after {
            Key::List(number) => {
                let at = self.list.partition_point(|(other, _)| *other <= number);
                if let Some((_, task)) = self.list.get(at) {
                    return Some(*task);
                }
                Bound::Unbounded
            }
            Key::Tree(vtime, number) => Bound::Excluded((vtime, number)),
        };
        self.tree.range((first, Bound::Unbounded)).next().map(|(_, task)| *task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn ids(dsq: &Dsq) -> Vec<u32> {
        dsq.iter().map(|task| task.0).collect()
    }

    #[test]
    fn a_list_is_first_in_first_out_with_a_head() {
        let mut dsq = Dsq::new();
        let keys: Vec<Key> = [1, 2, 3].map(|id| dsq.insert(TaskId(id), false)).into();
        dsq.insert(TaskId(0), true);
        assert_eq!(ids(&dsq), [0, 1, 2, 3]);
        dsq.remove(keys[1]);
        assert_eq!(ids(&dsq), [0, 1, 3]);
        assert_eq!(dsq.next(keys[0]), Some(TaskId(3)));
        assert_eq!(dsq.conflict(Order::Vtime), Some(Order::Fifo));
    }

    #[test]
    fn equal_virtual_times_are_in_order_of_arrival() {
        let mut dsq = Dsq::new();
        for (id, vtime) in [(1, 5), (2, 3), (3, 5), (4, 3)] {
            dsq.insert_vtime(TaskId(id), vtime);
        }
        assert_eq!(ids(&dsq), [2, 4, 1, 3]);
        assert_eq!(dsq.conflict(Order::Fifo), Some(Order::Vtime));
        assert_eq!(Dsq::new().conflict(Order::Vtime), None, "an empty queue can be either");
    }
}
