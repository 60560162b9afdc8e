//! [`IdTable`]: one value per CPU or task, for readers of untrusted traces.
//!
//! Ids are dense, so a vector is the right table. But a damaged or hostile trace can name task 4
//! 000 000 000 in its first record, and a vector of that size must not be allocated. So ids far
//! beyond the dense part go to an ordered map until the dense part reaches them. Memory is
//! O(entries used); a lookup of a dense id is one bounds check.

use std::collections::BTreeMap;
use zerolag_model::{CpuId, TaskId};

/// An id that can index a table.
pub trait TableId: Copy {
    /// Returns the number.
    fn number(self) -> u32;
    /// Returns the id of a number.
    fn of_number(number: u32) -> Self;
}

impl TableId for CpuId {
    fn number(self) -> u32 {
        self.0
    }
    fn of_number(number: u32) -> Self {
        Self(number)
    }
}

impl TableId for TaskId {
    fn number(self) -> u32 {
        self.0
    }
    fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// One value per id.
#[derive(Clone, Debug)]
pub struct IdTable<I, T> {
    dense: Vec<T>,
    sparse: BTreeMap<u32, T>,
    id: core::marker::PhantomData<I>,
}

impl<I, T> Default for IdTable<I, T> {
    fn default() -> Self {
        Self { dense: Vec::new(), sparse: BTreeMap::new(), id: core::marker::PhantomData }
    }
}

impl<I: TableId, T: Default> IdTable<I, T> {
    /// Returns a table in which the ids `0..count` exist.
    #[must_use]
    pub fn with_first(count: usize) -> Self {
        let mut table = Self::default();
        table.dense.resize_with(count.min(SLACK), T::default);
        table
    }

    /// Returns the value of an id; a new id gets the default.
    #[inline]
    pub fn entry(&mut self, id: I) -> &mut T {
        let index = id.number() as usize;
        if index >= self.dense.len() {
            return self.entry_beyond(id.number());
        }
        &mut self.dense[index]
    }

    #[cold]
    fn entry_beyond(&mut self, number: u32) -> &mut T {
        let index = number as usize;
        if index > 2 * self.dense.len() + SLACK {
            return self.sparse.entry(number).or_default();
        }
        let reached = index + 1;
        self.dense.resize_with(reached, T::default);
        while let Some(first) = self.sparse.first_entry().filter(|first| (*first.key() as usize) < reached) {
            let (number, value) = first.remove_entry();
            self.dense[number as usize] = value;
        }
        &mut self.dense[index]
    }

    /// Returns the value of an id that was used, or of an id below one that was.
    #[inline]
    #[must_use]
    pub fn get(&self, id: I) -> Option<&T> {
        self.dense.get(id.number() as usize).or_else(|| self.sparse.get(&id.number()))
    }

    /// Returns all entries in order of id, including unused entries below used ones.
    pub fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let dense = self.dense.iter().enumerate().map(|(index, value)| (I::of_number(to_number(index)), value));
        dense.chain(self.sparse.iter().map(|(number, value)| (I::of_number(*number), value)))
    }

    /// Returns all entries mutably, in order of id.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (I, &mut T)> {
        let dense = self.dense.iter_mut().enumerate().map(|(index, value)| (I::of_number(to_number(index)), value));
        dense.chain(self.sparse.iter_mut().map(|(number, value)| (I::of_number(*number), value)))
    }

    /// Returns the number of entries that [`IdTable::iter`] returns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dense.len() + self.sparse.len()
    }

    /// Returns `true` if no id was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn to_number(index: usize) -> u32 {
    u32::try_from(index).expect("invariant: the dense part is indexed by 32-bit ids")
}

/// An id this far beyond twice the dense part is treated as a mistake.
const SLACK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wild_ids_cost_no_memory_and_are_found_again() {
        let mut table: IdTable<TaskId, u32> = IdTable::default();
        *table.entry(TaskId(u32::MAX)) = 1;
        *table.entry(TaskId(9000)) = 2;
        *table.entry(TaskId(3)) = 3;
        assert!(table.dense.len() < 10_000);
        assert_eq!(table.get(TaskId(u32::MAX)), Some(&1));
        *table.entry(TaskId(4000)) = 4;
        *table.entry(TaskId(9001)) = 5;
        assert_eq!(table.get(TaskId(9000)), Some(&2), "moved into the dense part");
        let used: Vec<u32> = table.iter().filter(|(_, value)| **value != 0).map(|(id, _)| id.0).collect();
        assert_eq!(used, [3, 4000, 9000, 9001, u32::MAX]);
    }
}
