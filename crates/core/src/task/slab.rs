//! [`TaskSlab`]: the bodies that a run queue owns, by slot.
//!
//! A slot is valid for one stay of one task. Queues link tasks by their slots. The place of a task
//! in the queues of real-time and deadline tasks belongs to its slot ([`Seat`]), not to its body: a
//! sleeping task is in no queue, and needs no memory for it. Every operation is O(1). The slab
//! grows when more tasks are queued than ever before, and never shrinks.

use crate::entity::dl;
use crate::entity::rt::PrioQueueLink;
use crate::task::body::Task;
use crate::words::ids::{LocalIx, Slot};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// The place of a slot's task in the queues of its class.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Its links in the lists of real-time tasks ([`crate::entity::rt`]).
    pub(crate) links: [PrioQueueLink; 2],
    /// Its positions in the heaps of deadline tasks ([`crate::entity::dl`]).
    pub(crate) places: [Option<u32>; dl::PLACES],
    /// The local queue on whose lists it is; `None` is the CPU's own queue.
    pub(crate) local: Option<LocalIx>,
}

impl Seat {
    const FREE: Self = Self { links: [PrioQueueLink::Out; 2], places: [None; dl::PLACES], local: None };

    const fn is_free(&self) -> bool {
        matches!((&self.links, &self.places), ([PrioQueueLink::Out, PrioQueueLink::Out], [None, None]))
            && self.local.is_none()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct TaskSlab {
    /// By slot; place 0 is empty.
    bodies: Vec<Option<Box<Task>>>,
    /// By slot. It ends behind the last slot that a real-time or deadline task has had.
    seats: Vec<Seat>,
    free: Vec<Slot>,
}

impl TaskSlab {
    pub(crate) fn with_capacity(tasks: usize) -> Self {
        let (mut bodies, seats) = (Vec::with_capacity(1 + tasks), Vec::with_capacity(1 + tasks));
        bodies.push(None);
        Self { bodies, seats, free: Vec::with_capacity(tasks) }
    }

    pub(crate) fn insert(&mut self, body: Box<Task>) -> Slot {
        if let Some(slot) = self.free.pop() {
            let place = &mut self.bodies[slot.index()];
            assert!(place.is_none(), "a free slot holds no task");
            *place = Some(body);
            return slot;
        }
        self.insert_new(body)
    }

    /// Makes a slot. Out of line, so that the usual way saves no registers.
    #[cold]
    #[inline(never)]
    fn insert_new(&mut self, body: Box<Task>) -> Slot {
        let slot = Slot::new(u32::try_from(self.bodies.len()).expect("invariant: fewer than 2^32 tasks"));
        self.bodies.push(Some(body));
        slot
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, slot: Slot) -> Box<Task> {
        let body = self.bodies[slot.index()].take().expect("invariant: a queued slot holds a task");
        debug_assert!(self.seat(slot).is_free(), "a task leaves its queues first");
        self.free.push(slot);
        body
    }

    #[inline]
    pub(crate) fn seat(&self, slot: Slot) -> &Seat {
        self.seats.get(slot.index()).unwrap_or(&Seat::FREE)
    }

    /// Returns the seat of a slot, which exists from now on.
    #[inline]
    pub(crate) fn seat_or_new(&mut self, slot: Slot) -> &mut Seat {
        if self.seats.len() <= slot.index() {
            self.make_seats(slot);
        }
        &mut self.seats[slot.index()]
    }

    /// Returns the number of seats: slots below it have one.
    #[inline]
    pub(crate) const fn nr_seats(&self) -> usize {
        self.seats.len()
    }

    /// Returns the seat of a slot whose task is, or was, in a queue.
    #[inline]
    pub(crate) fn seat_mut(&mut self, slot: Slot) -> &mut Seat {
        &mut self.seats[slot.index()]
    }

    /// Returns the seat of a slot, if its task, or one before, was in a queue.
    #[inline]
    pub(crate) fn seat_if_any(&mut self, slot: Slot) -> Option<&mut Seat> {
        self.seats.get_mut(slot.index())
    }

    #[cold]
    fn make_seats(&mut self, until: Slot) {
        self.seats.resize(until.index() + 1, Seat::FREE);
    }

    /// Returns mutable references to two tasks.
    ///
    /// # Panics
    /// If both slots are the same, or one holds no task.
    #[inline]
    pub(crate) fn two(&mut self, one: Slot, other: Slot) -> [&mut Task; 2] {
        let both = self.bodies.get_disjoint_mut([one.index(), other.index()]);
        both.expect("invariant: two slots")
            .map(|body| body.as_deref_mut().expect("invariant: a queued slot holds a task"))
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&Task> {
        self.bodies.get(slot.index())?.as_deref()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.bodies.iter_mut().filter_map(|body| body.as_deref_mut())
    }

    /// Returns all slots, with or without a task.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> + use<> {
        (1..self.bodies.len() as u32).map(Slot::new)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Task)> {
        self.slots().zip(&self.bodies[1..]).filter_map(|(slot, body)| Some((slot, body.as_deref()?)))
    }
}

impl Index<Slot> for TaskSlab {
    type Output = Task;
    #[inline(always)]
    fn index(&self, slot: Slot) -> &Task {
        self.bodies[slot.index()].as_deref().expect("invariant: a queued slot holds a task")
    }
}

impl IndexMut<Slot> for TaskSlab {
    #[inline(always)]
    fn index_mut(&mut self, slot: Slot) -> &mut Task {
        self.bodies[slot.index()].as_deref_mut().expect("invariant: a queued slot holds a task")
    }
}
