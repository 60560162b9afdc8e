//! [`WaitQueue`]: who waits for something that a task gives up, most urgent first.
//!
//! Real-time tasks come before fair ones and among themselves by priority; equals, and all fair tasks, in order of
//! arrival. This is the order of futexes and of rt-mutexes.
//!
//! O(log n) in and out.
//!
//! Sources: Linux v6.12 `kernel/futex/core.c` (`__futex_queue`: normal priority capped at `MAX_RT_PRIO`),
//! `kernel/locking/rtmutex.c` (`rt_mutex_waiter_less`).

use alloc::collections::BTreeMap;
use zerolag_model::{Prio, TaskId};

/// Tasks that wait, most urgent first.
#[derive(Debug, Default)]
pub struct WaitQueue {
    /// Rank and arrival to task: arrivals are unique.
    order: BTreeMap<(i16, u64), TaskId>,
    arrivals: u64,
}

impl WaitQueue {
    /// Returns an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { order: BTreeMap::new(), arrivals: 0 }
    }

    /// Adds a task at its effective priority.
    pub fn push(&mut self, task: TaskId, prio: Prio) {
        let rank = prio.raw().min(Prio::FIRST_FAIR.raw());
        self.order.insert((rank, self.arrivals), task);
        self.arrivals += 1;
    }

    /// Takes the most urgent task.
    pub fn pop(&mut self) -> Option<TaskId> {
        self.order.pop_first().map(|(_, task)| task)
    }

    /// Takes a task out; `false` if it does not wait here. O(n).
    pub fn remove(&mut self, task: TaskId) -> bool {
        let key = self.order.iter().find(|(_, waiter)| **waiter == task).map(|(key, _)| *key);
        key.is_some_and(|key| self.order.remove(&key).is_some())
    }

    /// Returns the most urgent task without taking it.
    #[must_use]
    pub fn first(&self) -> Option<TaskId> {
        self.order.first_key_value().map(|(_, task)| *task)
    }

    /// Returns the waiters, most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.order.values().copied()
    }

    /// Returns how many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Returns what a holder inherits from those that wait for what it holds: the most urgent priority of them.
pub fn most_urgent(waiting: impl IntoIterator<Item = Prio>) -> Option<Prio> {
    waiting.into_iter().reduce(|best, prio| if prio.beats(best) { prio } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{Nice, RtPriority};

    #[test]
    fn the_most_urgent_waiter_is_what_counts() {
        let prio = |raw| Prio::from_raw(raw);
        assert_eq!(most_urgent([]), None);
        assert_eq!(most_urgent([prio(120), prio(49), prio(98)]), Some(prio(49)));
    }

    #[test]
    fn real_time_first_then_arrival() {
        let rt = |priority| Prio::from_rt(RtPriority::new(priority).expect("1..=99"));
        let nice = |value| Prio::from_nice(Nice::new(value).expect("-20..=19"));
        let mut queue = WaitQueue::new();
        for (task, prio) in [(0, nice(5)), (1, nice(-5)), (2, rt(10)), (3, rt(20)), (4, rt(10))] {
            queue.push(TaskId(task), prio);
        }
        assert!(queue.remove(TaskId(4)));
        queue.push(TaskId(4), rt(10));
        let order: alloc::vec::Vec<u32> = core::iter::from_fn(|| queue.pop()).map(|task| task.0).collect();
        assert_eq!(order, [3, 2, 4, 0, 1]);
    }
}
