//! What all threads of a run have in common: the workload, what its tasks share, who is alive, how it starts and how it ends.

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

/// What all threads of a run see.
#[derive(Debug)]
pub(crate) struct World<'p> {
    pub(crate) program: &'p Program,
    pub(crate) shared: Vec<Shared>,
    pub(crate) groups: Option<Groups>,
    pub(crate) speeds: Speeds,
    /// Bytes of `/dev/zero` that a microsecond in the kernel reads.
    pub(crate) zero_rate: u64,
    /// Where tasks may run that do not say.
    pub(crate) cpus: CpuMask,
    /// Whether that is less than what the process may use, so that threads must be told.
    pub(crate) confined: bool,
    pub(crate) seed: u64,
    pub(crate) end: End,
    pub(crate) gate: Gate,
    pub(crate) next_task: AtomicU32,
    /// Threads that have not ended; the watchdog waits on it.
    pub(crate) alive: AtomicU32,
    /// Those of the workload. A thread takes itself out before it ends, so an id in here is of a thread of this run.
    pub(crate) live: Mutex<Vec<Live>>,
    /// Per definition: the number of the next thread that a change starts.
    pub(crate) numbers: Vec<AtomicU32>,
    /// What ended the run before its time.
    pub(crate) failure: Mutex<Option<Failure>>,
    pub(crate) done: Mutex<Vec<Done>>,
    /// What the sources of requests and the changes recorded.
    pub(crate) arrivals: Mutex<Vec<Record>>,
}

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The kernel refused something in the middle of the run.
    Refused(String),
    /// Tasks wait for each other in a circle; this one closed it.
    Deadlock(String),
    /// A task gave back what it does not hold.
    NotHeld(String),
}

/// What a thread leaves behind.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) figures: TaskFigures,
    pub(crate) pid: u32,
    pub(crate) records: Vec<Record>,
    pub(crate) left_out: u64,
    /// Whether its program was over before the run was.
    pub(crate) is_finished: bool,
}

/// Where threads wait until all are ready.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// 0: closed. 1: open. 2: nothing will be run.
    word: AtomicU32,
    ready: AtomicU32,
    refused: Mutex<Vec<String>>,
    start: Mutex<Instant>,
}

impl Gate {
    /// A thread is ready, or cannot be; returns when the workload starts.
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

    /// Returns when the workload started.
    pub(crate) fn start(&self) -> Instant {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many threads are ready; returns what was refused.
    pub(crate) fn wait_ready(&self, threads: u32) -> Vec<String> {
        while self.ready.load(Ordering::Acquire) < threads {
            clock::sleep_until(clock::now() + Duration::from_millis(1));
        }
        std::mem::take(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets all go: to start at this time, or to end.
    pub(crate) fn open(&self, start: Option<Instant>) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = start.unwrap_or_default();
        self.word.store(if start.is_some() { 1 } else { 2 }, Ordering::Release);
        let _ = rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }
}

/// Which instance of which definition.
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
    /// The kernel's id of it. A thread takes itself out of the list before it ends, so it is still that thread's.
    pub(crate) tid: i32,
    pub(crate) task: TaskId,
    pub(crate) def: usize,
    pub(crate) instance: u32,
    pub(crate) parker: Arc<Parker>,
    pub(crate) orders: Arc<Orders>,
}

/// What a thread is told from outside.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// To end when its turn does.
    pub(crate) retires: AtomicBool,
    /// Its attributes are not what its program last set.
    pub(crate) is_changed: AtomicBool,
}

impl World<'_> {
    /// A thread has ended, or was never made.
    pub(crate) fn one_less(&self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            let _ = rustix::thread::futex::wake(&self.alive, rustix::thread::futex::Flags::PRIVATE, 1);
        }
    }

    /// Lets threads that starve run once more, so that they see the end: who is left is made real-time.
    pub(crate) fn raise_all(&self) {
        for live in self.live.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            // Not permitted, or a deadline task that is running already: then it takes longer.
            drop(sys::set_attr_of(live.tid, SchedAttr::fifo(RtPriority::MIN)));
        }
    }

    /// Ends the run with a failure; the first counts.
    pub(crate) fn fail(&self, failure: Failure) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        self.end.stop();
    }
}
