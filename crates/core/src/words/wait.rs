//! [`WaitQueue`]: the tasks that wait for something that a task will release, most urgent first.
//!
//! Real-time tasks come before fair ones and are ordered by priority. Tasks of equal priority, and
//! all fair tasks, are in order of arrival. This is the order of futexes and of rt-mutexes. In
//! rt-mutexes, deadline tasks come first, ordered by deadline.
//!
//! [`Lent`] is the value that a holder inherits: a priority, or the parameters of a deadline task.
//!
//! Insertion and removal of the first are O(log n).
//!
//! Sources: Linux v6.12 `kernel/futex/core.c` (`__futex_queue`: normal priority capped at
//! `MAX_RT_PRIO`), `kernel/locking/rtmutex.c` (`rt_mutex_waiter_less`).

use alloc::collections::BTreeMap;
use zerolag_model::{DlParams, Instant, Prio, TaskId};

/// The value that a waiting task lends to the holder of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lent {
    /// A real-time or fair priority.
    Prio(Prio),
    /// The parameters of a deadline task: its own, or those that it has been lent.
    Deadline {
        /// Runtime, relative deadline and period.
        params: DlParams,
        /// The absolute deadline of its present job.
        deadline: Instant,
    },
}

impl Lent {
    /// Returns the priority of the lender.
    #[must_use]
    pub const fn prio(self) -> Prio {
        match self {
            Self::Prio(prio) => prio,
            Self::Deadline { .. } => Prio::DEADLINE,
        }
    }

    /// Returns whether the sleeps of such a task may end later than asked: those of fair tasks may
    /// (Linux v6.11 `kernel/time/hrtimer.c`, `hrtimer_nanosleep`).
    #[must_use]
    pub fn has_timer_slack(self) -> bool {
        !self.prio().beats(Prio::FIRST_FAIR)
    }

    /// Returns whether this value is more urgent: by priority, and between deadline tasks by
    /// deadline (`rt_waiter_node_less`).
    #[must_use]
    pub fn beats(self, other: Self) -> bool {
        match (self, other) {
            (Self::Deadline { deadline, .. }, Self::Deadline { deadline: than, .. }) => deadline < than,
            (_, _) => self.prio().beats(other.prio()),
        }
    }
}

/// Waiting tasks, most urgent first.
#[derive(Clone, Debug, Default)]
pub struct WaitQueue {
    /// The tasks by rank, deadline and arrival; arrivals are unique.
    order: BTreeMap<(i16, Instant, u64), TaskId>,
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
        self.insert(task, prio, Instant::ZERO);
    }

    /// Adds a task to the queue of a lock with priority inheritance, ordered by the value that it
    /// lends.
    pub fn push_lender(&mut self, task: TaskId, lends: Lent) {
        match lends {
            Lent::Prio(prio) => self.insert(task, prio, Instant::ZERO),
            Lent::Deadline { deadline, .. } => self.insert(task, Prio::DEADLINE, deadline),
        }
    }

    fn insert(&mut self, task: TaskId, prio: Prio, deadline: Instant) {
        let rank = prio.raw().min(Prio::FIRST_FAIR.raw());
        self.order.insert((rank, deadline, self.arrivals), task);
        self.arrivals += 1;
    }

    /// Removes and returns the most urgent task.
    pub fn pop(&mut self) -> Option<TaskId> {
        self.order.pop_first().map(|(_, task)| task)
    }

    /// Removes a task; returns `false` if it does not wait here. O(n).
    pub fn remove(&mut self, task: TaskId) -> bool {
        let key = self.order.iter().find(|(_, waiter)| **waiter == task).map(|(key, _)| *key);
        key.is_some_and(|key| self.order.remove(&key).is_some())
    }

    /// Returns the most urgent task without removing it.
    #[must_use]
    pub fn first(&self) -> Option<TaskId> {
        self.order.first_key_value().map(|(_, task)| *task)
    }

    /// Returns the waiters, most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.order.values().copied()
    }

    /// Returns the number of waiting tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether no task waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Returns the value that a holder inherits: the most urgent one of the values that its waiters
/// lend.
pub fn most_urgent(waiting: impl IntoIterator<Item = Lent>) -> Option<Lent> {
    waiting.into_iter().reduce(|best, lent| if lent.beats(best) { lent } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{Duration, Nice, RtPriority};

    fn deadline(ms: u64) -> Lent {
        let params = DlParams::new(Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(2));
        Lent::Deadline { params, deadline: Instant::from_nanos(ms * 1_000_000) }
    }

    #[test]
    fn the_most_urgent_waiter_is_what_counts() {
        let prio = |raw| Lent::Prio(Prio::from_raw(raw));
        assert_eq!(most_urgent([]), None);
        assert_eq!(most_urgent([prio(120), prio(49), prio(98)]), Some(prio(49)));
        assert_eq!(most_urgent([prio(0), deadline(9), deadline(7), deadline(8)]), Some(deadline(7)));
    }

    #[test]
    fn deadline_tasks_come_first_and_among_themselves_by_deadline() {
        let mut queue = WaitQueue::new();
        let rt = Lent::Prio(Prio::from_rt(RtPriority::MAX));
        for (task, lends) in [(0, rt), (1, deadline(9)), (2, deadline(5)), (3, deadline(9))] {
            queue.push_lender(TaskId(task), lends);
        }
        let order: alloc::vec::Vec<u32> = core::iter::from_fn(|| queue.pop()).map(|task| task.0).collect();
        assert_eq!(order, [2, 1, 3, 0]);
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
