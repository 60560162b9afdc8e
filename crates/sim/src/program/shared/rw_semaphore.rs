//! [`RwSemaphore`]: handed over in order of arrival; readers that stand together get it at once.
//!
//! Linux v6.12 `kernel/locking/rwsem.c`, `rwsem_mark_wake`. differs: no task takes it before those
//! that wait, and none spins for it.

use std::collections::VecDeque;
use zerolag_model::TaskId;
use zerolag_workload::program::Access;

/// A read-write semaphore.
#[derive(Clone, Debug, Default)]
pub(crate) struct RwSemaphore {
    holders: Vec<(TaskId, Access)>,
    waiters: VecDeque<(TaskId, Access)>,
}

impl RwSemaphore {
    fn admits(&self, access: Access) -> bool {
        match access {
            Access::Write => self.holders.is_empty(),
            Access::Read => self.holders.iter().all(|(_, held)| *held == Access::Read),
        }
    }

    /// Returns a task that holds it: the writer, or the reader that has held it longest.
    pub(crate) fn holder(&self) -> Option<TaskId> {
        self.holders.first().map(|(task, _)| *task)
    }

    /// Returns the task that holds it if no other does.
    pub(crate) fn sole_holder(&self) -> Option<TaskId> {
        self.holder().filter(|_| self.holders.len() == 1)
    }

    /// Returns the tasks that wait for it.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiters.iter().map(|(task, _)| *task)
    }

    /// Takes it, or queues the task; returns whether it was taken.
    pub(crate) fn down(&mut self, task: TaskId, access: Access) -> bool {
        let has = self.waiters.is_empty() && self.admits(access);
        if has {
            self.holders.push((task, access));
        } else {
            self.waiters.push_back((task, access));
        }
        has
    }

    /// Gives it back; returns whether the task held it in that way.
    pub(crate) fn up(&mut self, task: TaskId, access: Access) -> bool {
        let place = self.holders.iter().position(|held| *held == (task, access));
        place.is_some_and(|place| {
            self.holders.remove(place);
            true
        })
    }

    /// Gives it to the first waiter, if that can have it now.
    pub(crate) fn hand_over(&mut self) -> Option<TaskId> {
        let (task, access) = *self.waiters.front().filter(|(_, access)| self.admits(*access))?;
        self.waiters.pop_front();
        self.holders.push((task, access));
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_writers_do_not_and_no_task_overtakes() {
        let [a, b, c, d] = [0, 1, 2, 3].map(TaskId);
        let mut semaphore = RwSemaphore::default();
        assert!(semaphore.down(a, Access::Read));
        assert!(semaphore.down(b, Access::Read));
        assert!(!semaphore.down(c, Access::Write));
        assert!(!semaphore.down(d, Access::Read), "a writer waits before it");
        assert!(!semaphore.up(c, Access::Write), "it does not hold it");
        assert!(semaphore.up(a, Access::Read));
        assert_eq!(semaphore.hand_over(), None, "a reader still has it");
        assert!(semaphore.up(b, Access::Read));
        assert_eq!(semaphore.hand_over(), Some(c));
        assert_eq!(semaphore.hand_over(), None);
        assert!(semaphore.up(c, Access::Write));
        assert_eq!(semaphore.hand_over(), Some(d));
        assert_eq!(semaphore.holder(), Some(d));
    }
}
