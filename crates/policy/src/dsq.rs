//! [`Dsq`]: a dispatch queue.
//!
//! The kernel's is a list, to which a tree is added once a task is inserted by virtual time. Here
//! one ordered map serves both: its key is the virtual time, which is 0 for all tasks of a list,
//! and then a sequence number, which grows at the end and sinks at the head. So every operation is
//! O(log n), also the removal of a task in the middle.

use alloc::collections::BTreeMap;
use core::ops::Bound;
use zerolag_model::TaskId;

/// The place of a task in a queue: its virtual time, and its order among equals.
pub(crate) type Key = (u64, i64);

/// Whether a queue is in order of arrival or of virtual time. It is one as long as it has a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Fifo,
    Vtime,
}

#[derive(Clone, Debug)]
pub(crate) struct Dsq {
    tasks: BTreeMap<Key, TaskId>,
    order: Order,
    /// The next number at the end, and at the head.
    seq: (i64, i64),
}

impl Dsq {
    pub(crate) const fn new() -> Self {
        Self { tasks: BTreeMap::new(), order: Order::Fifo, seq: (0, -1) }
    }

    pub(crate) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the other order than `order`, if tasks are queued in that.
    pub(crate) fn conflict(&self, order: Order) -> Option<Order> {
        (!self.tasks.is_empty() && self.order != order).then_some(self.order)
    }

    /// Adds a task at the end, or at the head.
    pub(crate) fn insert(&mut self, task: TaskId, is_first: bool) -> Key {
        // A queue of the other order has reported an error before: its tasks come first.
        let vtime = if is_first { 0 } else { self.tasks.last_key_value().map_or(0, |((vtime, _), _)| *vtime) };
        if self.tasks.is_empty() {
            self.order = Order::Fifo;
        }
        let seq = if is_first { &mut self.seq.1 } else { &mut self.seq.0 };
        let key = (vtime, *seq);
        *seq += if is_first { -1 } else { 1 };
        self.tasks.insert(key, task);
        key
    }

    /// Adds a task behind those whose virtual time is not greater.
    pub(crate) fn insert_vtime(&mut self, task: TaskId, vtime: u64) -> Key {
        self.order = Order::Vtime;
        let key = (vtime, self.seq.0);
        self.seq.0 += 1;
        self.tasks.insert(key, task);
        key
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.tasks.remove(&key);
    }

    pub(crate) fn first(&self) -> Option<TaskId> {
        self.tasks.values().next().copied()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = TaskId> + '_ {
        self.tasks.values().copied()
    }

    /// Returns the task behind a place.
    pub(crate) fn next(&self, after: Key) -> Option<TaskId> {
        self.tasks.range((Bound::Excluded(after), Bound::Unbounded)).next().map(|(_, task)| *task)
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
