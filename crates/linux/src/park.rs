//! Sleeping threads of a run: where they sleep, in which order they are woken, and how they learn
//! that the run is over.
//!
//! The kernel's wait queues do not show which thread waits first, and a workload needs that order:
//! most urgent first, then first come. So each thread sleeps on a word of its own ([`Parker`]), and
//! the list of waiters is in user space ([`WaitList`]). Every wait ends at the run's end ([`End`])
//! at the latest.

use crate::clock;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerolag_model::Instant;

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// Normally; with the time of the wakeup, if another thread woke it.
    Woken(Option<Instant>),
    /// The run is over, or the thread is to end.
    Over,
}

/// The place where one thread sleeps.
#[derive(Debug, Default)]
pub(crate) struct Parker {
    /// 0 while the thread is to sleep.
    word: AtomicU32,
    /// The time of the wakeup.
    woken_at: AtomicU64,
    /// Its thread is to end: every wait is over.
    ended: AtomicBool,
}

/// The end of the run, visible to all threads.
#[derive(Debug, Default)]
pub(crate) struct End {
    /// No new work is started.
    pub(crate) stopped: AtomicBool,
    /// The end in nanoseconds; 0 while it is not set.
    at: AtomicU64,
    parkers: Mutex<Vec<Arc<Parker>>>,
}

pub(crate) const EVERYBODY: u32 = i32::MAX.unsigned_abs();

/// These locks are held for a few instructions, so a panic inside leaves no inconsistent state.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while the word has this value, until `until` at the latest; can return early.
pub(crate) fn wait_while(word: &AtomicU32, value: u32, until: Instant) -> Result<(), Errno> {
    let all = NonZeroU32::MAX;
    futex::wait_bitset(word, Flags::PRIVATE, value, Some(&clock::timespec(until)), all)
}

impl End {
    /// Sets the end of the run.
    pub(crate) fn set(&self, at: Instant) {
        self.at.store(at.as_nanos(), Ordering::Release);
    }

    /// Returns the end of the run.
    pub(crate) fn at(&self) -> Instant {
        match self.at.load(Ordering::Acquire) {
            0 => Instant::from_nanos(i64::MAX.unsigned_abs()),
            ns => Instant::from_nanos(ns),
        }
    }

    /// Returns whether the run is over at `now`.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.stopped.load(Ordering::Relaxed) || now >= self.at()
    }

    /// Returns a new parker.
    pub(crate) fn parker(&self) -> Arc<Parker> {
        let parker = Arc::<Parker>::default();
        lock(&self.parkers).push(Arc::clone(&parker));
        parker
    }

    /// Ends the run now.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        for parker in lock(&self.parkers).iter() {
            // Not a wakeup: sleeping threads see that the run is over.
            let _ = futex::wake(&parker.word, Flags::PRIVATE, EVERYBODY);
        }
    }
}

impl Parker {
    /// Sleeps until a time.
    pub(crate) fn sleep_until(&self, due: Instant, end: &End) -> Waited {
        let until = due.min(end.at());
        loop {
            let now = clock::now();
            if end.is_over(now) || self.is_ended() {
                return Waited::Over;
            }
            if now >= due {
                return Waited::Woken(None);
            }
            // The word is 0 whenever its thread is not in a list.
            let _ = wait_while(&self.word, 0, until);
        }
    }

    /// Sleeps until woken.
    pub(crate) fn park(&self, end: &End) -> Waited {
        while self.word.load(Ordering::Acquire) == 0 {
            if end.is_over(clock::now()) || self.is_ended() {
                return Waited::Over;
            }
            let _ = wait_while(&self.word, 0, end.at());
        }
        self.word.store(0, Ordering::Relaxed);
        Waited::Woken(Some(Instant::from_nanos(self.woken_at.load(Ordering::Relaxed))))
    }

    /// Orders its thread to end; [`disturb`](Self::disturb) makes the thread notice.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Returns whether its thread is to end.
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Makes its thread check its state, without a wakeup.
    pub(crate) fn disturb(&self) {
        let _ = futex::wake(&self.word, Flags::PRIVATE, EVERYBODY);
    }

    fn unpark(&self) {
        self.woken_at.store(clock::now().as_nanos(), Ordering::Relaxed);
        self.word.store(1, Ordering::Release);
        let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
    }
}

/// A waiting thread: its urgency (lower is more urgent; all fair threads are equal), and its
/// parker.
#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) urgency: i16,
    pub(crate) parker: Arc<Parker>,
}

impl Waiter {
    /// Wakes it: its wait was successful.
    pub(crate) fn wake(&self) {
        self.parker.unpark();
    }
}

/// The waiters, most urgent first, then first come.
#[derive(Debug, Default)]
pub(crate) struct WaitList(Vec<Waiter>);

impl WaitList {
    /// Adds a waiter behind all that are as urgent.
    pub(crate) fn push(&mut self, waiter: &Waiter) {
        let at = self.0.partition_point(|other| other.urgency <= waiter.urgency);
        self.0.insert(at, waiter.clone());
    }

    /// Removes and returns the first.
    pub(crate) fn pop(&mut self) -> Option<Waiter> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Removes and returns up to `most` waiters, from the first on.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Waiter> {
        self.0.drain(..most.min(self.0.len())).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes a thread; returns whether it was in the list.
    pub(crate) fn forget(&mut self, parker: &Arc<Parker>) -> bool {
        let before = self.0.len();
        self.0.retain(|waiter| !Arc::ptr_eq(&waiter.parker, parker));
        self.0.len() < before
    }
}
