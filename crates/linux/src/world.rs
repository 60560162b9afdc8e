//! The state that all threads of a run share: the workload, its shared objects, the live threads,
//! the start and the end.

use crate::cgroup::Groups;
use crate::figures::TaskFigures;
use crate::park::{End, Parker};
use crate::shared::Shared;
use crate::work::Speeds;
use crate::{clock, sys};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zerolag_model::{CpuMask, Duration, Instant, Record, RtPriority, SchedAttr, TaskId};
use zerolag_workload::Program;

/// The state that all threads of a run share.
#[derive(Debug)]
pub(crate) struct World<'p> {
    pub(crate) program: &'p Program,
    pub(crate) shared: Vec<Shared>,
    pub(crate) groups: Option<Groups>,
    pub(crate) speeds: Speeds,
    /// Bytes of `/dev/zero` that one microsecond in the kernel reads.
    pub(crate) zero_rate: u64,
    /// The CPUs of tasks without an affinity.
    pub(crate) cpus: CpuMask,
    /// Whether `cpus` is a part of the CPUs of the process, so that threads need an affinity.
    pub(crate) confined: bool,
    pub(crate) seed: u64,
    pub(crate) end: End,
    pub(crate) gate: Gate,
    pub(crate) next_task: AtomicU32,
    /// Threads that have not ended; the watchdog waits on it.
    pub(crate) alive: AtomicU32,
    /// The live threads of the workload. A thread removes itself before it ends, so every id in the
    /// list belongs to a thread of this run.
    pub(crate) live: Mutex<Vec<Live>>,
    /// Per definition: the number of the next thread that a change starts.
    pub(crate) numbers: Vec<AtomicU32>,
    /// The failure that ended the run early.
    pub(crate) failure: Mutex<Option<Failure>>,
    pub(crate) done: Mutex<Vec<ThreadResults>>,
    /// The records of the sources of requests and of the changes.
    pub(crate) arrivals: Mutex<Vec<Record>>,
}

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The kernel refused something in the middle of the run.
    Refused(String),
    /// Tasks wait for each other in a circle; this one closed it.
    Deadlock(String),
    /// A task released a lock that it does not hold.
    NotHeld(String),
}

/// The results of a thread.
#[derive(Debug)]
pub(crate) struct ThreadResults {
    pub(crate) figures: TaskFigures,
    pub(crate) pid: u32,
    pub(crate) records: Vec<Record>,
    pub(crate) left_out: u64,
    /// Whether its program ended before the run did.
    pub(crate) is_finished: bool,
}

/// The gate at which threads wait until all are ready.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// 0: closed. 1: open. 2: the run does not start.
    word: AtomicU32,
    ready: AtomicU32,
    refused: Mutex<Vec<String>>,
    start: Mutex<Instant>,
}

impl Gate {
    /// Reports that a thread is ready, or why it cannot be; returns the start of the workload.
    pub(crate) fn wait(&self, setup: Result<(), String>) -> Option<Instant> {
        if let Err(reason) = setup {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
        }
        self.ready.fetch_add(1, Ordering::AcqRel);
        let flags = rustix::thread::futex::Flags::PRIVATE;
        while self.word.load(Ordering::Acquire) == 0 {
            let _ = rustix::thread::futex::wait(&self.word, flags, 0, None);
        }
        (self.word.load(Ordering::Acquire) == 1).then(|| self.start())
    }

    /// Returns the start of the workload.
    pub(crate) fn start(&self) -> Instant {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this many threads are ready; returns the refusals.
    pub(crate) fn wait_ready(&self, threads: u32) -> Vec<String> {
        while self.ready.load(Ordering::Acquire) < threads {
            clock::sleep_until(clock::now() + Duration::from_millis(1));
        }
        std::mem::take(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Releases all threads: to start at this time, or to end.
    pub(crate) fn open(&self, start: Option<Instant>) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = start.unwrap_or_default();
        self.word.store(if start.is_some() { 1 } else { 2 }, Ordering::Release);
        let _ = rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

/// A definition and its instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) task: TaskId,
    pub(crate) def: usize,
    pub(crate) instance: u32,
    pub(crate) parent: Option<TaskId>,
}

/// The run is over for this thread.
pub(crate) struct Over;

pub(crate) type Go = Result<(), Over>;

/// A thread of the workload that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// Its thread id in the kernel. A thread removes itself from the list before it ends, so the id
    /// is still valid.
    pub(crate) tid: i32,
    pub(crate) task: TaskId,
    pub(crate) def: usize,
    pub(crate) instance: u32,
    pub(crate) parker: Arc<Parker>,
    pub(crate) orders: Arc<Orders>,
}

/// Orders to a thread from outside.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// To end with its current turn.
    pub(crate) retires: AtomicBool,
    /// Its attributes differ from those that its program last set.
    pub(crate) is_changed: AtomicBool,
}

impl World<'_> {
    /// Counts a thread that has ended, or was never created.
    pub(crate) fn one_less(&self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = rustix::thread::futex::wake(&self.alive, rustix::thread::futex::Flags::PRIVATE, 1);
        }
    }

    /// Makes the remaining threads real-time, so that starving ones run once more and see the end.
    pub(crate) fn raise_all(&self) {
        for live in self.live.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // It fails without permission, and for a deadline task that runs already: then the end
            // takes longer.
            drop(sys::set_attr_of(live.tid, SchedAttr::fifo(RtPriority::MIN)));
        }
    }

    /// Ends the run with a failure; the first counts.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.end.stop();
    }
}
