//! [`TidTable`]: one value per thread id.
//!
//! Every event looks up some threads by their id. An ordered map takes a hundred instructions for
//! that and a hash map of the standard library as many, since its hash withstands attackers. Ids of
//! threads are below 2^22 on Linux, and those of one recording are close to each other. So a page
//! of [`PAGE`] places, made for the first of its ids, says where in a vector the value is.
//!
//! Complexity: O(1) for ids of Linux, O(log n) beyond. Memory is O(entries), and 2 KiB for each
//! page that is used: 16 MiB in a hostile file.

use std::collections::BTreeMap;

/// The ids of a page.
const PAGE: usize = 512;
/// Linux v6.12 `include/linux/threads.h`, `PID_MAX_LIMIT`.
const TID_MAX: u32 = 1 << 22;
/// The place of an id without a value.
const NONE: u32 = u32::MAX;

/// One value per thread id.
pub(crate) struct TidTable<T> {
    /// Places in `values`.
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    beyond: BTreeMap<u32, u32>,
    values: Vec<T>,
}

impl<T> Default for TidTable<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), beyond: BTreeMap::new(), values: Vec::new() }
    }
}

impl<T: Default> TidTable<T> {
    /// Returns the value of an id; a new id gets the default.
    #[inline]
    pub(crate) fn entry(&mut self, tid: u32) -> &mut T {
        let place = match self.place(tid) {
            NONE => self.add(tid),
            place => place,
        };
        &mut self.values[place as usize]
    }

    #[inline]
    fn place(&self, tid: u32) -> u32 {
        match self.pages.get(tid as usize / PAGE) {
            Some(Some(page)) => page[tid as usize % PAGE],
            Some(None) => NONE,
            None => self.beyond.get(&tid).copied().unwrap_or(NONE),
        }
    }

    #[cold]
    fn add(&mut self, tid: u32) -> u32 {
        let place = u32::try_from(self.values.len()).expect("invariant: each value has an id of 32 bits");
        self.values.push(T::default());
        if tid < TID_MAX {
            let page = tid as usize / PAGE;
            if page >= self.pages.len() {
                self.pages.resize_with(page + 1, || None);
            }
            self.pages[page].get_or_insert_with(|| Box::new([NONE; PAGE]))[tid as usize % PAGE] = place;
        } else {
            self.beyond.insert(tid, place);
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_has_its_own_value() {
        let ids = [0, 1, 511, 512, 70_000, TID_MAX - 1, TID_MAX, TID_MAX + 512, u32::MAX];
        let mut table = TidTable::default();
        for round in 0..2_u32 {
            for (index, tid) in (0..).zip(ids) {
                let value: &mut u32 = table.entry(tid);
                assert_eq!(*value, round * (index + 1));
                *value += index + 1;
            }
        }
        assert_eq!(table.values.len(), ids.len());
    }
}
