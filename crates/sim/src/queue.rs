//! [`EventQueue`]: future events, in total order.
//!
//! An event's key is (time, phase, source, count of that source). No two keys are equal, and no key
//! depends on other sources, so adding a task reorders no other events. Timers have one source: at
//! an instant they come in the order in which they were armed. An event that became void stays in
//! the queue and is recognised by its generation when it comes up: cancelling costs nothing.
//!
//! Most events are microseconds away, but many tasks have timers that are milliseconds away. In one
//! heap each near event would pay for all far ones. So events within the present span are in a
//! binary heap, and the others wait in lists by time, which are sorted when their span begins. A
//! span is so long that a busy machine has about a dozen events in it: 1 ms for 4 CPUs, 16 us
//! for 256.
//!
//! ```text
//!   push --> next <-- the earliest of all, if it came last
//!        |-> near <-- heap: up to the end of the present span
//!        +-> far  <-- lists by time: later spans ----> near, when near has run empty
//! ```
//!
//! Push is O(log of the number of near events); pop is the same, and at most 9 moves of each event
//! between lists.
//!
//! Sources: Ahuja, Mehlhorn, Orlin & Tarjan 1990, "Faster algorithms for the shortest path problem"
//! (radix heap). Timers of one instant: Linux v6.12 `lib/timerqueue.c`, `timerqueue_add` (behind
//! those of the same time); here also across CPUs, where the kernel has no order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use zerolag_model::{CpuId, Instant};

/// The order of events at the same instant: a completion comes before a budget expiry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// A task's computation ends.
    Completion = 0,
    /// A CPU leaves the kernel path it was in.
    PathEnd = 1,
    /// A run-queue lock becomes free.
    LockFree = 2,
    /// An inter-processor interrupt arrives.
    Ipi = 3,
    /// A device, a source of requests, or the outside acts.
    Device = 4,
    /// A timer fires: of a task, a group, a run queue.
    Timer = 5,
    /// A delayed tick.
    LateTick = 6,
}

/// An event and its key, in two words: one of 128 bits would align the entry to 16 bytes.
#[derive(Clone, Copy, Debug)]
struct QueuedEvent<E> {
    at: Instant,
    /// Phase and order.
    rank: u64,
    event: E,
}

impl<E> PartialEq for QueuedEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for QueuedEvent<E> {}

impl<E> PartialOrd for QueuedEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for QueuedEvent<E> {
    /// The earlier entry is the greater one: the heap keeps its greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// All future events.
#[derive(Clone, Debug)]
pub(crate) struct EventQueue<E> {
    /// The earliest event of all, if it was so when it was pushed. Kernel paths end and IPIs arrive
    /// within microseconds, so most events are next when they are made, and are never filed.
    next: Option<QueuedEvent<E>>,
    /// Events up to the end of the present span, [`Far::now`].
    near: BinaryHeap<QueuedEvent<E>>,
    /// Events of later spans.
    far: Far<E>,
    /// The number of timers that were ever armed.
    armed: u64,
}

impl<E: Copy> EventQueue<E> {
    /// Returns the empty queue of a machine of so many CPUs.
    pub(crate) fn new(cpus: usize) -> Self {
        let span_bits = 22_u32.saturating_sub(cpus.max(1).ilog2()).max(MIN_SPAN_BITS);
        Self { next: None, near: BinaryHeap::with_capacity(64), far: Far::new(span_bits), armed: 0 }
    }

    /// Adds the event of a CPU that has made so many events.
    pub(crate) fn push(&mut self, at: Instant, phase: Phase, source: CpuId, count: u32, event: E) {
        debug_assert!(phase != Phase::Timer, "timers are armed");
        self.insert(at, phase, u64::from(source.0) << 32 | u64::from(count), event);
    }

    /// Adds a timer, behind those of the same instant.
    pub(crate) fn arm(&mut self, at: Instant, event: E) {
        self.armed += 1;
        self.insert(at, Phase::Timer, self.armed, event);
    }

    /// Adds an event. The order among those of its instant and phase takes 56 bits.
    #[inline]
    fn insert(&mut self, at: Instant, phase: Phase, order: u64, event: E) {
        let entry = QueuedEvent { at, rank: u64::from(phase as u8) << 56 | order, event };
        // Each call is the last thing that is done, so that no registers are saved.
        match self.next {
            Some(next) if entry.key() < next.key() => {
                self.next = Some(entry);
                self.file(next);
            }
            Some(_) => self.file(entry),
            None if self.near.is_empty() && !self.far.is_empty() => self.insert_first(entry),
            None => match self.near.peek() {
                Some(first) if first.key() < entry.key() => self.file(entry),
                Some(_) | None => self.next = Some(entry),
            },
        }
    }

    /// Adds an event where none of the near ones is left.
    #[inline(never)]
    fn insert_first(&mut self, entry: QueuedEvent<E>) {
        match self.first_filed() {
            Some(first) if first.key() < entry.key() => self.file(entry),
            Some(_) | None => self.next = Some(entry),
        }
    }

    /// Returns the earliest of the events that are filed.
    #[inline]
    fn first_filed(&mut self) -> Option<&QueuedEvent<E>> {
        if self.near.is_empty() && !self.far.is_empty() {
            self.far.advance(&mut self.near);
        }
        self.near.peek()
    }

    /// Returns whether no event comes up to and with an instant.
    #[inline(always)]
    pub(crate) fn is_quiet_until(&mut self, at: Instant) -> bool {
        match self.next {
            Some(next) => next.at > at,
            None => self.first_filed().is_none_or(|first| first.at > at),
        }
    }

    /// Returns all events, in no order. O(the most that there ever were).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Instant, &E)> {
        let far = self.far.nodes.iter().filter_map(|node| node.entry.as_ref());
        self.next.iter().chain(&self.near).chain(far).map(|entry| (entry.at, &entry.event))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_none() && self.near.is_empty() && self.far.is_empty()
    }

    /// Takes the next event out if it comes no later than `limit`; returns its time, too.
    #[inline]
    pub(crate) fn pop_until(&mut self, limit: Instant) -> Option<(Instant, E)> {
        match self.next {
            Some(next) if next.at <= limit => {
                self.next = None;
                Some((next.at, next.event))
            }
            Some(_) => None,
            None => self.pop_filed(limit),
        }
    }

    fn pop_filed(&mut self, limit: Instant) -> Option<(Instant, E)> {
        let at = self.first_filed()?.at;
        if at > limit {
            return None;
        }
        self.near.pop().map(|entry| (at, entry.event))
    }

    /// Files an event that is not the earliest. What calls another function is done last, by one of
    /// its own, so that no registers are saved.
    fn file(&mut self, entry: QueuedEvent<E>) {
        if self.far.span(&entry) > self.far.now {
            self.far.push(entry);
        } else if self.near.len() == self.near.capacity() {
            self.file_and_grow(entry);
        } else {
            self.near.push(entry);
        }
    }

    #[cold]
    #[inline(never)]
    fn file_and_grow(&mut self, entry: QueuedEvent<E>) {
        self.near.push(entry);
    }
}

/// Events of later spans: a radix heap.
///
/// Time is cut into spans of 2^`span_bits` ns; the number of a span is read as digits of base 64.
/// An event lies on the level of the highest digit in which its span differs from the present one,
/// in the slot of its own digit there. So all events of a level come before those of the levels
/// above, and the first event of all is in the lowest slot in use of the lowest level in use.
///
/// An event moves down a level at most [`LEVELS`] times; each move takes a few instructions.
#[derive(Clone, Debug)]
struct Far<E> {
    /// The present span.
    now: u64,
    span_bits: u32,
    /// Heads of the lists of all slots, by level and digit; a list is not sorted.
    heads: [[u32; SLOTS]; LEVELS],
    /// A bit per slot that has events.
    slots_in_use: [u64; LEVELS],
    /// A bit per level that has events.
    levels_in_use: u32,
    /// Place 0 ends every list.
    nodes: Vec<FarNode<E>>,
    /// Head of the list of free places.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct FarNode<E> {
    entry: Option<QueuedEvent<E>>,
    next: u32,
}

impl<E: Copy> Far<E> {
    fn new(span_bits: u32) -> Self {
        Self {
            now: 0,
            span_bits,
            heads: [[0; SLOTS]; LEVELS],
            slots_in_use: [0; LEVELS],
            levels_in_use: 0,
            nodes: vec![FarNode { entry: None, next: 0 }],
            free: 0,
        }
    }

    const fn is_empty(&self) -> bool {
        self.levels_in_use == 0
    }

    /// Returns level and digit of a span after the present one.
    fn place(&self, span: u64) -> (usize, usize) {
        debug_assert!(span > self.now, "what comes later");
        let level = ((span ^ self.now).ilog2() / DIGIT_BITS) as usize;
        let digit = span >> (level as u32 * DIGIT_BITS) & (SLOTS as u64 - 1);
        (level, digit as usize)
    }

    #[inline(never)]
    fn push(&mut self, entry: QueuedEvent<E>) {
        let node = match self.free {
            0 => {
                self.nodes.push(FarNode { entry: None, next: 0 });
                u32::try_from(self.nodes.len() - 1).expect("invariant: fewer than 2^32 events")
            }
            free => {
                self.free = self.nodes[free as usize].next;
                free
            }
        };
        self.nodes[node as usize].entry = Some(entry);
        self.link(node, self.span(&entry));
    }

    /// Puts a node on the list of its slot.
    fn link(&mut self, node: u32, span: u64) {
        let (level, digit) = self.place(span);
        self.nodes[node as usize].next = core::mem::replace(&mut self.heads[level][digit], node);
        self.slots_in_use[level] |= 1 << digit;
        self.levels_in_use |= 1 << level;
    }

    /// Makes the span of the first event the present one and moves its events to `near`. There must
    /// be an event. Out of line, because it is called much less often than once per event.
    #[inline(never)]
    fn advance(&mut self, near: &mut BinaryHeap<QueuedEvent<E>>) {
        let level = self.levels_in_use.trailing_zeros() as usize;
        let digit = self.slots_in_use[level].trailing_zeros() as usize;
        let first = core::mem::take(&mut self.heads[level][digit]);
        self.slots_in_use[level] &= self.slots_in_use[level] - 1;
        if self.slots_in_use[level] == 0 {
            self.levels_in_use &= self.levels_in_use - 1;
        }
        // All events of this slot agree in the digit of this level and in those above: they go
        // down.
        // On the lowest level they agree in all digits.
        let known = if level == 0 { 1 } else { usize::MAX };
        let first_span = self.list(first).take(known).map(|entry| self.span(entry)).min();
        self.now = first_span.expect("invariant: a slot in use has events");
        let mut at = first;
        while at != 0 {
            let node = &mut self.nodes[at as usize];
            let next = node.next;
            let entry = node.entry.as_ref().expect("invariant: a listed node has an event");
            let span = entry.at.as_nanos() >> self.span_bits;
            if span == self.now {
                near.push(*entry);
                *node = FarNode { entry: None, next: core::mem::replace(&mut self.free, at) };
            } else {
                self.link(at, span);
            }
            at = next;
        }
    }

    /// Returns the number of the span in which an event lies.
    const fn span(&self, entry: &QueuedEvent<E>) -> u64 {
        entry.at.as_nanos() >> self.span_bits
    }

    fn list(&self, first: u32) -> impl Iterator<Item = &QueuedEvent<E>> {
        let mut at = first;
        core::iter::from_fn(move || {
            let node = &self.nodes[at as usize];
            at = node.next;
            node.entry.as_ref()
        })
    }
}

impl<E> QueuedEvent<E> {
    #[inline(always)]
    const fn key(&self) -> u128 {
        (self.at.as_nanos() as u128) << 64 | self.rank as u128
    }
}

/// A span is at least 1 us, as kernel paths and IPIs are.
const MIN_SPAN_BITS: u32 = 10;
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = (u64::BITS - MIN_SPAN_BITS).div_ceil(DIGIT_BITS) as usize;

#[cfg(test)]
mod tests {
    use super::*;

    fn rest<E: Copy>(queue: &mut EventQueue<E>) -> Vec<E> {
        std::iter::from_fn(|| queue.pop_until(Instant::FAR_FUTURE)).map(|(_, event)| event).collect()
    }

    #[test]
    fn order_is_time_then_phase_then_source_then_count() {
        let mut queue = EventQueue::new(64);
        let at = Instant::from_nanos;
        queue.arm(at(5), "armed first");
        queue.arm(at(6), "later");
        queue.arm(at(5), "armed next");
        queue.push(at(5), Phase::Device, CpuId(1), 0, "cpu 1");
        queue.push(at(5), Phase::Device, CpuId(0), 1, "cpu 0 again");
        queue.push(at(5), Phase::Device, CpuId(0), 0, "cpu 0");
        queue.push(at(5), Phase::Completion, CpuId(9), 0, "completion");
        queue.arm(at(4), "earlier");
        assert!(queue.is_quiet_until(at(3)) && !queue.is_quiet_until(at(4)));
        assert_eq!(queue.pop_until(at(3)), None, "later than that");
        assert_eq!(queue.pop_until(at(4)), Some((at(4), "earlier")));
        assert_eq!(
            rest(&mut queue),
            ["completion", "cpu 0", "cpu 0 again", "cpu 1", "armed first", "armed next", "later"]
        );
        assert!(queue.is_empty());
    }

    #[test]
    fn a_long_random_sequence_comes_out_sorted() {
        let mut queue = EventQueue::new(64);
        let mut state = 1_u64;
        for count in 0..10_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            queue.push(Instant::from_nanos(state >> 40), Phase::Ipi, CpuId(0), count, state >> 40);
        }
        let times = rest(&mut queue);
        assert_eq!(times.len(), 10_000);
        assert!(times.is_sorted());
    }

    /// Mixes pushes and pops, at distances from nanoseconds to centuries, and compares with a
    /// sorted set.
    #[test]
    fn it_agrees_with_a_sorted_set() {
        let mut queue = EventQueue::new(64);
        let mut set = std::collections::BTreeSet::new();
        let (mut state, mut now) = (1_u64, 0_u64);
        for count in 0..100_000_u32 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if state >> 63 == 0 || set.len() < 3 {
                let distance = state >> 1 >> (state >> 50 & 63).max(3);
                let at = now.saturating_add(distance);
                queue.push(Instant::from_nanos(at), Phase::Ipi, CpuId(0), count, (at, count));
                set.insert((at, count));
            } else {
                let first = set.pop_first();
                assert_eq!(queue.pop_until(Instant::FAR_FUTURE).map(|(_, event)| event), first);
                now = first.map_or(now, |(at, _)| at);
            }
        }
        assert_eq!(rest(&mut queue), set.into_iter().collect::<Vec<_>>());
    }
}
