//! [`SimTask`]: a task as the machine sees it: its body while it waits, and where it is in its program.

use crate::kernel::cpu::Segment;
use crate::program::cache::Reading;
use crate::program::requests::InService;
use std::sync::Arc;
use zerolag_core::Parcel;
use zerolag_model::{Duration, Instant, TaskCounters, TaskId};
use zerolag_workload::program::ResourceId;
use zerolag_workload::random::Stream;

/// What a task is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Runnable or running.
    Active,
    /// Waiting.
    Waits(WaitFor),
    /// Not started yet, or being started.
    Unborn,
    /// Ended.
    Dead,
}

/// What a task waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitFor {
    /// A time.
    Time,
    /// A mutex.
    Mutex(ResourceId),
    /// A condition; the mutex is taken again afterwards.
    Condition {
        condition: ResourceId,
        mutex: ResourceId,
    },
    Barrier(ResourceId),
    Semaphore(ResourceId),
    RwSemaphore(ResourceId),
    Pipe(ResourceId),
    /// A window of a file.
    Page(ResourceId),
    Resume(ResourceId),
    Request(ResourceId),
    /// That the request which it sent to this queue is done.
    Reply(ResourceId),
}

/// Where a task is in its program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) turn: u64,
    pub(crate) phase: usize,
    pub(crate) loops_done: u64,
    pub(crate) action: usize,
    /// The phase's properties have been applied.
    pub(crate) entered: bool,
    /// A mutex must be taken before the next action (after a condition, or after losing a race for it).
    pub(crate) relock: Option<ResourceId>,
    /// A mutex that was handed over while it waited for it.
    pub(crate) handed: Option<ResourceId>,
    /// `Sync` has signalled and now waits.
    pub(crate) signalled: bool,
    /// Between the beginning and the end of a system call.
    pub(crate) in_syscall: bool,
    /// Spinning locks that it has or spins for: nothing preempts its CPU.
    pub(crate) spin_locks: u32,
    /// The spinning lock that it spins for.
    pub(crate) spins_for: Option<ResourceId>,
    /// Bytes of the present write to a pipe that are in it.
    pub(crate) piped: u32,
    /// Where it is in a read.
    pub(crate) reading: Option<Reading>,
    /// Windows that the present read has read.
    pub(crate) windows_read: u32,
}

#[derive(Debug)]
pub(crate) struct SimTask {
    pub(crate) id: TaskId,
    pub(crate) def: usize,
    pub(crate) name: Arc<str>,
    pub(crate) instance: u32,
    pub(crate) state: State,
    pub(crate) parcel: Option<Parcel>,
    pub(crate) cursor: Cursor,
    /// What was left of its computation when it last left a CPU.
    pub(crate) segment: Segment,
    /// Cache refill that it owes before it gets on.
    pub(crate) refill: Duration,
    pub(crate) stream: Option<Box<Stream>>,
    /// The request that it works on.
    pub(crate) request: Option<Box<InService>>,
    /// Next expiries of its own timers.
    pub(crate) timers: Vec<Option<Instant>>,
    /// Expiry that it waits for, to report on going on.
    pub(crate) timer_due: Option<(Instant, zerolag_model::SignedDuration)>,
    /// Where the phase that it enters lets it run.
    pub(crate) new_affinity: Option<Arc<zerolag_model::CpuMask>>,
    /// The CPU that it last ran on: where its cache is warm.
    pub(crate) last_ran_on: Option<zerolag_model::CpuId>,
    /// The CPU where its timer was armed.
    pub(crate) timer_cpu: zerolag_model::CpuId,
    /// Actions since time last passed for it: a program that never spends time is stopped.
    pub(crate) idle_actions: u32,
    /// It is to end before its program does.
    pub(crate) is_ended: bool,
    /// It is to end when its turn does: its pool has become smaller.
    pub(crate) retires: bool,
    /// Its group: index into the program's; `None` is the root.
    pub(crate) group: Option<usize>,
    /// Mutexes that it holds.
    pub(crate) holds: Vec<ResourceId>,
    /// Where it is in each file that it reads: the next window.
    pub(crate) positions: Vec<(ResourceId, u32)>,
    pub(crate) events: u32,
    pub(crate) forks: u32,
    pub(crate) counters: TaskCounters,
}

impl SimTask {
    pub(crate) fn new(id: TaskId, def: usize, name: Arc<str>, stream: Option<Box<Stream>>) -> Self {
        Self {
            id,
            def,
            name,
            instance: 0,
            state: State::Unborn,
            parcel: None,
            cursor: Cursor::default(),
            segment: Segment::None,
            refill: Duration::ZERO,
            stream,
            request: None,
            timers: Vec::new(),
            timer_due: None,
            new_affinity: None,
            last_ran_on: None,
            timer_cpu: zerolag_model::CpuId(0),
            idle_actions: 0,
            is_ended: false,
            retires: false,
            group: None,
            holds: Vec::new(),
            positions: Vec::new(),
            events: 0,
            forks: 0,
            counters: TaskCounters::default(),
        }
    }

    /// Returns where it is in a file.
    pub(crate) fn position(&self, file: ResourceId) -> u32 {
        self.positions.iter().find(|(id, _)| *id == file).map_or(0, |(_, window)| *window)
    }

    /// Goes on by a window.
    pub(crate) fn advance(&mut self, file: ResourceId) {
        match self.positions.iter_mut().find(|(id, _)| *id == file) {
            Some((_, window)) => *window += 1,
            None => self.positions.push((file, 1)),
        }
    }

    /// Returns whether a turn of its program is over, or none has begun.
    pub(crate) const fn is_between_turns(&self) -> bool {
        let cursor = &self.cursor;
        cursor.phase == 0 && !cursor.entered && cursor.loops_done == 0 && cursor.relock.is_none()
    }

    pub(crate) fn next_count(&mut self) -> u32 {
        self.events = self.events.wrapping_add(1);
        self.events
    }
}
