//! [`Task`]: the program's part of a task: where it is in its program, and what it waits for.

use crate::program::shared::request::InService;
use zerolag_model::{Instant, SignedDuration};
use zerolag_workload::program::ResourceId;
use zerolag_workload::random::Stream;

/// What a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TaskActivity {
    /// Runnable or running.
    Active,
    /// Waiting.
    Waits(WaitFor),
    /// Among the waiters for this mutex, and runnable or running: it spins while the holder runs.
    Spins(ResourceId),
    /// Not started yet.
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
    /// The completion of the request that it sent to this queue.
    Reply(ResourceId),
    /// The end of a grace period of RCU.
    GracePeriod,
}

impl WaitFor {
    /// Returns the resource whose list of waiters a task leaves when it is ended; `None` for waits
    /// in no list, for those within a system call, which are not cut off, and for pipes, which have
    /// two lists.
    pub(crate) const fn list(self) -> Option<ResourceId> {
        match self {
            Self::Time | Self::RwSemaphore(_) | Self::Pipe(_) | Self::Page(_) | Self::Reply(_) | Self::GracePeriod => {
                None
            }
            Self::Condition { condition: id, .. }
            | Self::Mutex(id)
            | Self::Barrier(id)
            | Self::Semaphore(id)
            | Self::Resume(id)
            | Self::Request(id) => Some(id),
        }
    }

    /// Returns the name of a wait for another task, and the resource; `None` for waits that end by
    /// themselves or that the end of a run does not report.
    pub(crate) const fn reported(self) -> Option<(&'static str, ResourceId)> {
        match self {
            Self::Time | Self::Request(_) | Self::Page(_) | Self::GracePeriod => None,
            Self::Mutex(id) => Some(("mutex", id)),
            Self::Condition { condition, .. } => Some(("condition", condition)),
            Self::Barrier(id) => Some(("barrier", id)),
            Self::Semaphore(id) => Some(("semaphore", id)),
            Self::RwSemaphore(id) => Some(("rw_semaphore", id)),
            Self::Pipe(id) => Some(("pipe", id)),
            Self::Resume(id) => Some(("resume of", id)),
            Self::Reply(id) => Some(("reply of", id)),
        }
    }
}

/// Where a task is in a read.
///
/// ```text
///            window absent, or the next one [1]               set up [2]
///   Look ------------------------------------> SetsUp ----------------------> Look
///     |  \----------- window locked [3] ---------> Waits ---- has the lock --> Look
///     \-------------- window read [4] -----------> Copies --- next window ---> Look, or done
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// At its present window.
    Look,
    /// Computes the setup of a window's read.
    SetsUp { window: u32 },
    /// Waits for the lock of a window.
    Waits { window: u32 },
    /// Copies the window to user space.
    Copies,
}

/// Where a task is in the call that takes or gives back a contended mutex: see
/// [`futex`](crate::program::act::futex).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LockCall {
    /// In no such call.
    #[default]
    Apart,
    /// It has spent the time of the call, which takes effect next.
    Entered,
    /// It waits for the mutex, or has been woken to take it.
    Waits,
}

/// Where a task is in its program.
///
/// First what every action reads, then what locks, pipes and files need: see [`Task`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Cursor {
    pub(crate) turn: u64,
    pub(crate) loops_done: u64,
    pub(crate) phase: u32,
    pub(crate) action: u32,
    /// A mutex that must be taken before the next action (after a condition, or after losing a race
    /// for it).
    pub(crate) relock: Option<ResourceId>,
    /// The phase's properties have been applied.
    pub(crate) entered: bool,
    /// `Sync` has signalled and now waits.
    pub(crate) signalled: bool,
    /// Where it is in a call for a contended mutex.
    pub(crate) lock_call: LockCall,
    /// A mutex that was handed over to it while it waited.
    pub(crate) handed: Option<ResourceId>,
    /// The spinning lock that it spins for.
    pub(crate) spins_for: Option<ResourceId>,
    /// The lock of the section with softirqs disabled that it is in.
    pub(crate) bh_lock: Option<ResourceId>,
    /// Bytes of the present write that are in the pipe.
    pub(crate) piped: u32,
    /// It has waited at a pipe in the present read or write.
    pub(crate) waited_at_pipe: bool,
    /// Where it is in a read.
    pub(crate) reading: Option<Reading>,
    /// Windows that the present read has read.
    pub(crate) windows_read: u32,
    /// The end of the sleep whose call it is in.
    pub(crate) sleeps_until: Option<Instant>,
}

impl Cursor {
    /// Goes to the next phase, of so many.
    pub(crate) const fn next_phase(&mut self, phases: usize) {
        self.entered = false;
        self.loops_done = 0;
        self.action = 0;
        self.phase += 1;
        if self.phase as usize == phases {
            self.phase = 0;
            self.turn += 1;
        }
    }

    /// Returns whether a turn of the program is over, or none has begun.
    pub(crate) const fn is_between_turns(&self) -> bool {
        self.phase == 0 && !self.entered && self.loops_done == 0 && self.relock.is_none()
    }
}

/// The program's part of a task.
///
/// A task that wakes is in no cache, so its fields are in the order of their use: a job of a
/// periodic task reads the first two lines of the cache, and no others.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Task {
    /// Its definition in the program.
    def: u32,
    /// The definition whose phases it follows ([`crate::program::model`]).
    model: u32,
    pub(crate) state: TaskActivity,
    /// It is to end before its program does.
    pub(crate) is_ended: bool,
    /// It is to end when its turn does: its pool has become smaller.
    pub(crate) retires: bool,
    /// How often it has acted at the instant `acted_at`: a program that never spends time is
    /// stopped.
    pub(crate) actions: u32,
    pub(crate) acted_at: Instant,
    /// The expiry that it waits for and the slack that it had, to be marked when it goes on.
    pub(crate) timer_due: Option<(Instant, SignedDuration)>,
    /// The next expiries of its own timers.
    pub(crate) timers: Vec<Option<Instant>>,
    pub(crate) cursor: Cursor,
    pub(crate) stream: Option<Box<Stream>>,
    /// The request that it works on.
    pub(crate) request: Option<Box<InService>>,
    pub(crate) instance: u32,
    pub(crate) forks: u32,
    /// Mutexes that it holds.
    pub(crate) holds: Vec<ResourceId>,
    /// The next window of each file that it reads.
    positions: Vec<(ResourceId, u32)>,
}

impl Task {
    pub(crate) fn new(def: usize, model: u32, instance: u32) -> Self {
        Self {
            def: u32::try_from(def).expect("invariant: inputs are below 4 GiB"),
            model,
            instance,
            state: TaskActivity::Unborn,
            cursor: Cursor::default(),
            stream: None,
            request: None,
            timers: Vec::new(),
            timer_due: None,
            acted_at: Instant::ZERO,
            actions: 0,
            is_ended: false,
            retires: false,
            holds: Vec::new(),
            positions: Vec::new(),
            forks: 0,
        }
    }

    /// Returns the index of its definition in the program.
    pub(crate) const fn def(&self) -> usize {
        self.def as usize
    }

    /// Returns the index of the definition whose phases it follows.
    pub(crate) const fn model(&self) -> usize {
        self.model as usize
    }

    /// Returns the window of a file that it reads next.
    pub(crate) fn position(&self, file: ResourceId) -> u32 {
        self.positions.iter().find(|(id, _)| *id == file).map_or(0, |(_, window)| *window)
    }

    /// Advances by a window of a file.
    pub(crate) fn advance(&mut self, file: ResourceId) {
        match self.positions.iter_mut().find(|(id, _)| *id == file) {
            Some((_, window)) => *window += 1,
            None => self.positions.push((file, 1)),
        }
    }
}
