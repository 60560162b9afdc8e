//! [`EventQueue`]: what will happen, in total order.
//!
//! An event's key is (time, phase, source, count of that source): no two keys are equal, no key depends on what other
//! sources do, so adding a task reorders no others. The queue is a binary heap of 32-byte entries; an event that became
//! void stays in it and is recognised by its generation when it comes up (cancelling costs nothing).
//!
//! Push and pop are O(log n).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use zerolag_model::Instant;

/// At the same instant, events come in this order: completion comes before budget expiry.
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
    /// A timer of a task fires.
    TaskTimer = 4,
    /// A timer of a run queue fires: budgets and slices.
    RqTimer = 5,
}

/// Who made an event: a CPU or a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source(u32);

impl Source {
    const TASK: u32 = 1 << 23;

    pub(crate) const fn cpu(cpu: zerolag_model::CpuId) -> Self {
        Self(cpu.0)
    }
    pub(crate) const fn task(task: zerolag_model::TaskId) -> Self {
        Self(Self::TASK | task.0 & (Self::TASK - 1))
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The earlier entry is the greater one: the heap keeps its greatest on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    /// The earliest event of all, if it was pushed as such: kernel paths end and IPIs arrive within microseconds, so most
    /// events are next when they are made and never see the heap.
    next: Option<Entry<E>>,
    heap: BinaryHeap<Entry<E>>,
}

impl<E: Copy> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self { next: None, heap: BinaryHeap::with_capacity(64) }
    }

    pub(crate) fn push(&mut self, at: Instant, phase: Phase, source: Source, count: u32, event: E) {
        let key = u128::from(at.as_nanos()) << 64
            | u128::from(phase as u8) << 56
            | u128::from(source.0) << 32
            | u128::from(count);
        let entry = Entry { key, event };
        let earliest = match &self.next {
            Some(next) => Some(next.key),
            None => self.heap.peek().map(|top| top.key),
        };
        if earliest.is_some_and(|earliest| earliest <= key) {
            self.heap.push(entry);
        } else if let Some(later) = self.next.replace(entry) {
            self.heap.push(later);
        }
    }

    /// Returns when the next event is.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let key = match &self.next {
            Some(next) => next.key,
            None => self.heap.peek()?.key,
        };
        Some(Instant::from_nanos((key >> 64) as u64))
    }

    pub(crate) fn pop(&mut self) -> Option<E> {
        match self.next.take() {
            Some(next) => Some(next.event),
            None => self.heap.pop().map(|entry| entry.event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{CpuId, TaskId};

    #[test]
    fn order_is_time_then_phase_then_source_then_count() {
        let mut queue = EventQueue::new();
        let at = Instant::from_nanos;
        queue.push(at(5), Phase::TaskTimer, Source::task(TaskId(1)), 0, "task 1");
        queue.push(at(5), Phase::TaskTimer, Source::task(TaskId(0)), 1, "task 0 again");
        queue.push(at(5), Phase::TaskTimer, Source::task(TaskId(0)), 0, "task 0");
        queue.push(at(5), Phase::Completion, Source::cpu(CpuId(9)), 0, "completion");
        queue.push(at(4), Phase::RqTimer, Source::cpu(CpuId(9)), 1, "earlier");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["earlier", "completion", "task 0", "task 0 again", "task 1"]);
        assert_eq!(queue.next_at(), None);
    }

    #[test]
    fn a_long_random_sequence_comes_out_sorted() {
        let mut queue = EventQueue::new();
        let mut state = 1_u64;
        for count in 0..10_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            queue.push(Instant::from_nanos(state >> 40), Phase::Ipi, Source::cpu(CpuId(0)), count, state >> 40);
        }
        let times: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(times.len(), 10_000);
        assert!(times.is_sorted());
    }
}
