//! Pipes: bytes that writers put in and readers take out. A writer waits while it is full, until all that it writes is in; a reader
//! while it is empty, and takes what there is.
//!
//! One that waits is woken at a time, and wakes the next if there is something left for it.
//!
//! Sources: Linux v6.12 `fs/pipe.c`, `pipe_write`, `pipe_read` (`wake_next_reader`, `wake_next_writer`). differs: bytes are counted, not
//! pages that are partly filled.

use crate::machine::Machine;
use crate::program::sync::Shared;
use crate::program::task::{State, WaitFor};
use std::collections::VecDeque;
use zerolag_model::{CpuId, TaskId};
use zerolag_workload::program::ResourceId;

/// What is in it, and who waits.
#[derive(Debug)]
pub(crate) struct Pipe {
    capacity: u32,
    filled: u32,
    readers: VecDeque<TaskId>,
    writers: VecDeque<TaskId>,
}

impl Pipe {
    pub(crate) const fn new(capacity: u32) -> Self {
        Self { capacity, filled: 0, readers: VecDeque::new(), writers: VecDeque::new() }
    }

    /// Puts up to so many bytes in; returns how many, and whom that wakes.
    fn put(&mut self, bytes: u32) -> (u32, Option<TaskId>) {
        let moved = bytes.min(self.capacity - self.filled);
        self.filled += moved;
        (moved, if moved > 0 { self.readers.pop_front() } else { None })
    }

    /// Takes up to so many bytes out; returns how many, and whom that wakes.
    fn take(&mut self, bytes: u32) -> (u32, Option<TaskId>) {
        let moved = bytes.min(self.filled);
        self.filled -= moved;
        (moved, if moved > 0 { self.writers.pop_front() } else { None })
    }

    /// Returns the next of those who wait for the same as one that is done, if there is something for it.
    fn next_writer(&mut self) -> Option<TaskId> {
        if self.filled < self.capacity { self.writers.pop_front() } else { None }
    }

    fn next_reader(&mut self) -> Option<TaskId> {
        if self.filled > 0 { self.readers.pop_front() } else { None }
    }
}

impl Machine {
    fn pipe(&mut self, id: ResourceId) -> &mut Pipe {
        match &mut self.shared[id.index()] {
            Shared::Pipe(pipe) => pipe,
            _ => unreachable!("the program was checked"),
        }
    }

    pub(crate) fn pipe_write(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u32) {
        let done = self.tasks[task.index()].cursor.piped;
        let pipe = self.pipe(id);
        let (moved, reader) = pipe.put(bytes - done);
        let is_done = done + moved == bytes;
        let writer = if is_done { pipe.next_writer() } else { None };
        if !is_done {
            pipe.writers.push_back(task);
        }
        self.wake_each(cpu, [reader, writer]);
        self.tasks[task.index()].cursor.piped = if is_done { 0 } else { done + moved };
        if is_done { self.step_over(task) } else { self.block(cpu, task, WaitFor::Pipe(id)) }
    }

    pub(crate) fn pipe_read(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u32) {
        let pipe = self.pipe(id);
        let (moved, writer) = pipe.take(bytes);
        if moved == 0 {
            pipe.readers.push_back(task);
            self.block(cpu, task, WaitFor::Pipe(id));
            return;
        }
        let reader = pipe.next_reader();
        self.wake_each(cpu, [writer, reader]);
        self.step_over(task);
    }

    fn wake_each(&mut self, cpu: CpuId, tasks: [Option<TaskId>; 2]) {
        for task in tasks.into_iter().flatten() {
            self.tasks[task.index()].state = State::Active;
            self.wake_from(cpu, task);
        }
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
        assert_eq!(pipe.take(1), (0, None), "it is empty");
        assert_eq!(pipe.next_reader(), None);
    }
}
