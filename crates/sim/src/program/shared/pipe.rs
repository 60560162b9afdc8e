//! [`Pipe`]: bytes that writers put in and readers take out.
//!
//! A writer waits while the pipe is full, until all of its bytes are in. A reader waits while it is
//! empty, and takes what is there. Waking all waiters would let most of them find nothing, so one
//! is woken at a time: by the write into an empty pipe, or the read from a full one. A task that
//! has waited wakes the next one if something is left for it. A second write wakes no second
//! reader: the first is on its way, and may take both.
//!
//! Sources: Linux v6.12 `fs/pipe.c`, `pipe_write` (`was_empty`, `wake_next_writer`), `pipe_read`
//! (`was_full`, `wake_next_reader`); since 1b6b26ae7053 and 0ddad21d3e99 (5.5). differs: kernels
//! before 5.5 wake all waiters; bytes are counted, not pages that are partly filled.

use std::collections::VecDeque;
use zerolag_model::TaskId;

/// A pipe: how full it is, and which tasks wait.
#[derive(Clone, Debug)]
pub(crate) struct Pipe {
    capacity: u32,
    filled: u32,
    pub(crate) readers: VecDeque<TaskId>,
    pub(crate) writers: VecDeque<TaskId>,
}

impl Pipe {
    pub(crate) const fn new(capacity: u32) -> Self {
        Self { capacity, filled: 0, readers: VecDeque::new(), writers: VecDeque::new() }
    }

    /// Puts up to so many bytes in; returns how many, and the task that this wakes.
    pub(crate) fn put(&mut self, bytes: u32) -> (u32, Option<TaskId>) {
        let was_empty = self.filled == 0;
        let moved = bytes.min(self.capacity - self.filled);
        self.filled += moved;
        (moved, if was_empty && moved > 0 { self.readers.pop_front() } else { None })
    }

    /// Takes up to so many bytes out; returns how many, and the task that this wakes.
    pub(crate) fn take(&mut self, bytes: u32) -> (u32, Option<TaskId>) {
        let was_full = self.filled == self.capacity;
        let moved = bytes.min(self.filled);
        self.filled -= moved;
        (moved, if was_full && moved > 0 { self.writers.pop_front() } else { None })
    }

    /// A task no longer waits.
    pub(crate) fn forget(&mut self, task: TaskId) {
        self.readers.retain(|waiter| *waiter != task);
        self.writers.retain(|waiter| *waiter != task);
    }

    /// Returns the next writer, if there is room for it: woken by a writer that has waited and is
    /// done.
    pub(crate) fn next_writer(&mut self) -> Option<TaskId> {
        if self.filled < self.capacity { self.writers.pop_front() } else { None }
    }

    /// Returns the next reader, if there are bytes for it: woken by a reader that has waited and is
    /// done.
    pub(crate) fn next_reader(&mut self) -> Option<TaskId> {
        if self.filled > 0 { self.readers.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_and_one_is_woken_at_a_time() {
        let mut pipe = Pipe::new(4096);
        pipe.readers.extend([TaskId(1), TaskId(2)]);
        assert_eq!(pipe.put(5000), (4096, Some(TaskId(1))));
        assert_eq!(pipe.put(904), (0, None), "it is full");
        pipe.writers.push_back(TaskId(3));
        assert_eq!(pipe.take(96), (96, Some(TaskId(3))));
        assert_eq!(pipe.next_reader(), Some(TaskId(2)), "there is something for it, too");
        assert_eq!(pipe.take(8192), (4000, None));
        pipe.readers.extend([TaskId(4), TaskId(5)]);
        assert_eq!(pipe.put(64), (64, Some(TaskId(4))));
        assert_eq!(pipe.put(64), (64, None), "the woken reader takes it, or wakes the next");
        assert_eq!(pipe.take(64), (64, None));
        assert_eq!(pipe.next_reader(), Some(TaskId(5)));
        assert_eq!(pipe.put(4096), (4032, None));
        pipe.writers.extend([TaskId(6), TaskId(7)]);
        assert_eq!(pipe.take(1), (1, Some(TaskId(6))), "it was full");
        assert_eq!(pipe.take(1), (1, None), "it was not");
        assert_eq!(pipe.take(8192), (4094, None));
        assert_eq!(pipe.take(1), (0, None), "it is empty");
        assert_eq!(pipe.next_reader(), None);
    }
}
