//! [`PrioQueue`]: tasks by real-time priority, first in, first out among equals.
//!
//! There is one list per priority, linked through the tasks' slots
//! ([`Seat`](crate::task::slab::Seat)), and one bit per list that says whether it is non-empty
//! (Linux `struct rt_prio_array`). Each slot has two links, so that it can be on the run list and
//! on the list of pushable tasks at the same time; `LINK` selects one. Every operation is O(1).
//! Iteration is in order of urgency.

use crate::entity::rt::PrioQueueLink;
use crate::task::slab::TaskSlab;
use crate::words::ids::Slot;
use alloc::boxed::Box;
use zerolag_model::Prio;

const PRIOS: usize = 100;

#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    first: Option<Slot>,
    last: Option<Slot>,
}

#[derive(Clone, Debug)]
pub(crate) struct PrioQueue<const LINK: usize> {
    lists: Box<[Ends; PRIOS]>,
    /// Bit `p % 64` of word `p / 64` is set if and only if list `p` is not empty.
    occupied: [u64; 2],
}

/// The end of its list at which a task is inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueEnd {
    Front,
    Back,
}

impl<const LINK: usize> PrioQueue<LINK> {
    pub(crate) fn new() -> Self {
        Self { lists: Box::new([Ends::default(); PRIOS]), occupied: [0; 2] }
    }

    /// Inserts a task, whose slot has a seat, into the list of its effective priority.
    pub(crate) fn insert(&mut self, tasks: &mut TaskSlab, slot: Slot, end: QueueEnd) {
        let prio = index(tasks[slot].prio);
        let seat = tasks.seat_mut(slot);
        assert!(matches!(seat.links[LINK], PrioQueueLink::Out), "a task is on a list once");
        let ends = &mut self.lists[prio];
        let link = match end {
            QueueEnd::Back => PrioQueueLink::In { before: ends.last, after: None },
            QueueEnd::Front => PrioQueueLink::In { before: None, after: ends.first },
        };
        let PrioQueueLink::In { before, after } = link else { unreachable!("just made") };
        match before {
            Some(neighbour) => set_after::<LINK>(tasks, neighbour, Some(slot)),
            None => ends.first = Some(slot),
        }
        match after {
            Some(neighbour) => set_before::<LINK>(tasks, neighbour, Some(slot)),
            None => ends.last = Some(slot),
        }
        tasks.seat_mut(slot).links[LINK] = link;
        self.occupied[prio / 64] |= 1 << (prio % 64);
    }

    /// Removes a task from the list of its effective priority; returns `false` if it was on none.
    pub(crate) fn remove(&mut self, tasks: &mut TaskSlab, slot: Slot) -> bool {
        let Some(seat) = tasks.seat_if_any(slot) else { return false };
        let PrioQueueLink::In { before, after } = core::mem::take(&mut seat.links[LINK]) else { return false };
        let prio = index(tasks[slot].prio);
        let ends = &mut self.lists[prio];
        match before {
            Some(neighbour) => set_after::<LINK>(tasks, neighbour, after),
            None => ends.first = after,
        }
        match after {
            Some(neighbour) => set_before::<LINK>(tasks, neighbour, before),
            None => ends.last = before,
        }
        if ends.first.is_none() {
            self.occupied[prio / 64] &= !(1 << (prio % 64));
        }
        true
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.occupied[0] == 0 && self.occupied[1] == 0
    }

    /// Returns the most urgent priority that has a task.
    #[inline]
    pub(crate) fn highest(&self) -> Option<Prio> {
        self.first_list().map(prio_of)
    }

    /// Returns the index of the most urgent list that has a task.
    #[inline]
    fn first_list(&self) -> Option<u32> {
        match self.occupied {
            [0, 0] => None,
            [0, high] => Some(64 + high.trailing_zeros()),
            [low, _] => Some(low.trailing_zeros()),
        }
    }

    /// Returns the first task of the most urgent priority.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.lists[self.first_list()? as usize].first
    }

    /// Returns whether the task is alone on its list.
    pub(crate) fn is_alone(&self, tasks: &TaskSlab, slot: Slot) -> bool {
        matches!(tasks.seat(slot).links[LINK], PrioQueueLink::In { before: None, after: None })
    }

    /// Returns the task behind a queued one: the next of its priority, or the first of the next
    /// priority that has a task.
    #[inline(always)]
    pub(crate) fn after(&self, tasks: &TaskSlab, slot: Slot) -> Option<Slot> {
        let PrioQueueLink::In { after, .. } = tasks.seat(slot).links[LINK] else { return None };
        after.or_else(|| {
            let occupied = u128::from(self.occupied[1]) << 64 | u128::from(self.occupied[0]);
            let below = occupied & (u128::MAX << index(tasks[slot].prio) << 1);
            (below != 0).then(|| self.lists[below.trailing_zeros() as usize].first)?
        })
    }

    /// Returns all tasks, most urgent first.
    pub(crate) fn iter<'a>(&'a self, tasks: &'a TaskSlab) -> impl Iterator<Item = Slot> + 'a {
        core::iter::successors(self.first(), |slot| self.after(tasks, *slot))
    }
}

fn index(prio: Prio) -> usize {
    assert!(prio.is_rt(), "only real-time tasks are queued by priority");
    prio.raw().unsigned_abs() as usize
}

#[inline]
fn prio_of(index: u32) -> Prio {
    Prio::from_raw(i16::try_from(index).expect("invariant: below 100"))
}

fn set_after<const LINK: usize>(tasks: &mut TaskSlab, slot: Slot, to: Option<Slot>) {
    match &mut tasks.seat_mut(slot).links[LINK] {
        PrioQueueLink::In { after, .. } => *after = to,
        PrioQueueLink::Out => unreachable!("a neighbour is on the list"),
    }
}

fn set_before<const LINK: usize>(tasks: &mut TaskSlab, slot: Slot, to: Option<Slot>) {
    match &mut tasks.seat_mut(slot).links[LINK] {
        PrioQueueLink::In { before, .. } => *before = to,
        PrioQueueLink::Out => unreachable!("a neighbour is on the list"),
    }
}
