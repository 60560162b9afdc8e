//! [`Heap`]: tasks sorted by an instant, earliest first; equal instants in order of arrival.
//!
//! The heap has four children per node and is stored in one vector. Each task stores its index, so
//! that it can be removed from the middle. A task has two indices ([`PLACES`]): it is queued *or*
//! throttled, and it can be pushable at the same time. Insertion and removal are O(log n), and the
//! first entry is found in O(1). Nothing is allocated below the high-water mark.
//!
//! [`PLACES`]: crate::entity::dl::PLACES

use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;
use alloc::vec::Vec;
use zerolag_model::Instant;

const CHILDREN: usize = 4;

/// A task in a heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HeapEntry {
    at: Instant,
    /// Order among equals; unique on a run queue.
    seq: u64,
    slot: Slot,
}

impl HeapEntry {
    fn before(&self, other: &Self) -> bool {
        (self.at, self.seq) < (other.at, other.seq)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Heap<const PLACE: usize> {
    entries: Vec<HeapEntry>,
}

impl<const PLACE: usize> Heap<PLACE> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(crate) const fn len(&self) -> u32 {
        self.entries.len() as u32
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the first task and its instant.
    pub(crate) fn first(&self) -> Option<(Instant, Slot)> {
        self.entries.first().map(|entry| (entry.at, entry.slot))
    }

    /// Returns the first task, its instant and its sequence number among equals.
    pub(crate) fn first_of_all(&self) -> Option<(Instant, u64, Slot)> {
        self.entries.first().map(|entry| (entry.at, entry.seq, entry.slot))
    }

    /// Returns the first task that satisfies `fits`. O(n).
    pub(crate) fn first_that(&self, mut fits: impl FnMut(Slot) -> bool) -> Option<(Instant, Slot)> {
        let fitting = self.entries.iter().filter(|entry| fits(entry.slot));
        fitting.min_by_key(|entry| (entry.at, entry.seq)).map(|entry| (entry.at, entry.slot))
    }

    pub(crate) fn contains(&self, tasks: &TaskSlab, slot: Slot) -> bool {
        let place = tasks.seat(slot).places[PLACE];
        place.and_then(|place| self.entries.get(place as usize)).is_some_and(|entry| entry.slot == slot)
    }

    pub(crate) fn insert(&mut self, tasks: &mut TaskSlab, slot: Slot, at: Instant, seq: u64) {
        // What calls another function is done last, by one of its own, so that no registers are
        // saved: a new task mostly stays where it is added.
        if slot.index() >= tasks.nr_seats() || self.entries.len() == self.entries.capacity() {
            return self.insert_and_grow(tasks, slot, at, seq);
        }
        let place = &mut tasks.seat_mut(slot).places[PLACE];
        assert!(place.is_none(), "a task is in a heap once");
        let last = self.entries.len();
        self.entries.push(HeapEntry { at, seq, slot });
        *place = Some(place_number(last));
        if self.is_above_its_parent(last) {
            self.rise(tasks, last);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_and_grow(&mut self, tasks: &mut TaskSlab, slot: Slot, at: Instant, seq: u64) {
        tasks.seat_or_new(slot);
        self.entries.reserve(1);
        self.insert(tasks, slot, at, seq);
    }

    /// Returns whether an entry comes before its parent: it must rise.
    #[inline(always)]
    fn is_above_its_parent(&self, place: usize) -> bool {
        place > 0 && self.entries[place].before(&self.entries[(place - 1) / CHILDREN])
    }

    /// Removes a task; returns `false` if it was not in the heap.
    pub(crate) fn remove(&mut self, tasks: &mut TaskSlab, slot: Slot) -> bool {
        let Some(seat) = tasks.seat_if_any(slot) else { return false };
        let Some(place) = seat.places[PLACE].map(|place| place as usize) else { return false };
        if self.entries.get(place).is_none_or(|entry| entry.slot != slot) {
            return false;
        }
        seat.places[PLACE] = None;
        self.entries.swap_remove(place);
        if place < self.entries.len() { self.settle(tasks, place) } else { true }
    }

    /// Moves an entry that has taken another's place to its own. Returns `true`: a task was
    /// removed.
    #[inline(never)]
    fn settle(&mut self, tasks: &mut TaskSlab, place: usize) -> bool {
        let moved = self.rise(tasks, place);
        self.sink(tasks, moved);
        true
    }

    /// Moves an entry up to its place, and returns that place.
    fn rise(&mut self, tasks: &mut TaskSlab, mut place: usize) -> usize {
        let entry = self.entries[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.put(tasks, place, self.entries[parent]);
            place = parent;
        }
        self.put(tasks, place, entry);
        place
    }

    fn sink(&mut self, tasks: &mut TaskSlab, mut place: usize) {
        let entry = self.entries[place];
        loop {
            let children = place * CHILDREN + 1..(place * CHILDREN + 1 + CHILDREN).min(self.entries.len());
            let Some(first) = children.min_by_key(|child| (self.entries[*child].at, self.entries[*child].seq)) else {
                break;
            };
            if !self.entries[first].before(&entry) {
                break;
            }
            self.put(tasks, place, self.entries[first]);
            place = first;
        }
        self.put(tasks, place, entry);
    }

    fn put(&mut self, tasks: &mut TaskSlab, place: usize, entry: HeapEntry) {
        self.entries[place] = entry;
        tasks.seat_mut(entry.slot).places[PLACE] = Some(place_number(place));
    }
}

fn place_number(place: usize) -> u32 {
    u32::try_from(place).expect("invariant: fewer than 2^32 tasks")
}
