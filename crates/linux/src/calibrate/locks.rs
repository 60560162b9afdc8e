//! What it takes to wait for a mutex and to give it back to a waiter: of a plain one, and of one
//! whose holder inherits the priority of its waiters.

use crate::calibrate::{LESS_URGENT, PANICKED, URGENT, add_samples, spawn};
use crate::clock;
use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};
use rustix::thread::gettid;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use zerolag_model::Duration;

/// Measurements with two SCHED_FIFO threads of one CPU: samples in nanoseconds, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Locks {
    /// With a plain mutex.
    pub plain: Lock,
    /// With one that inherits.
    pub inherits: Lock,
}

/// The two calls for a contended mutex.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lock {
    /// From the last instruction of a thread that waits to the next one of the holder.
    pub wait: Vec<u64>,
    /// From the last instruction of the holder to the next one of a thread that has waited.
    pub wake: Vec<u64>,
}

impl Locks {
    pub(super) fn add(&mut self, other: Self) {
        for (lock, more) in [(&mut self.plain, other.plain), (&mut self.inherits, other.inherits)] {
            [(&mut lock.wait, more.wait), (&mut lock.wake, more.wake)].into_iter().for_each(add_samples);
        }
    }
}

/// Measures on the CPU of the calling thread, which is SCHED_FIFO.
pub(super) fn measure() -> Result<Locks, String> {
    let inherits = Inherits::default();
    // A kernel may be built without such mutexes.
    let is_there = futex::trylock_pi(&inherits.0, Flags::PRIVATE).is_ok();
    if is_there {
        inherits.unlock();
    }
    Ok(Locks {
        plain: contend(&Plain::default())?,
        inherits: if is_there { contend(&inherits)? } else { Lock::default() },
    })
}

/// A mutex as the C library has it: a word, and calls for what the word cannot do.
trait LibcMutex: Sync {
    fn lock(&self);
    fn unlock(&self);
}

/// 0: free, 1: held, 2: held and marked, so that giving it back is a call.
#[derive(Default)]
struct Plain(AtomicU32);

impl LibcMutex for Plain {
    fn lock(&self) {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.0.swap(2, Ordering::Acquire) != 0 {
                let _ = futex::wait(&self.0, Flags::PRIVATE, 2, None);
            }
        }
    }

    fn unlock(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            let _ = futex::wake(&self.0, Flags::PRIVATE, 1);
        }
    }
}

/// The holder's id; the kernel marks it.
#[derive(Default)]
struct Inherits(AtomicU32);

impl LibcMutex for Inherits {
    fn lock(&self) {
        let me = gettid().as_raw_nonzero().get().unsigned_abs();
        if self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while futex::lock_pi(&self.0, Flags::PRIVATE, None).is_err_and(is_again) {}
        }
    }

    fn unlock(&self) {
        let me = gettid().as_raw_nonzero().get().unsigned_abs();
        if self.0.compare_exchange(me, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            while futex::unlock_pi(&self.0, Flags::PRIVATE).is_err_and(is_again) {}
        }
    }
}

const fn is_again(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::AGAIN)
}

/// Lets a more urgent thread want the mutex that a computing one holds, again and again.
fn contend(mutex: &impl LibcMutex) -> Result<Lock, String> {
    // When a thread left its CPU: the one to wait, and the holder.
    let (waits_at, gives_at, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let holds = || {
        let mut samples = Vec::new();
        while !over.load(Ordering::Relaxed) {
            mutex.lock();
            // The other may have found it free before.
            waits_at.store(0, Ordering::Relaxed);
            let mut left = 0;
            while left == 0 && !over.load(Ordering::Relaxed) {
                left = waits_at.load(Ordering::Acquire);
            }
            let now = clock::now();
            if left != 0 {
                samples.push(now.as_nanos().saturating_sub(left));
                while clock::now() < now + HELD {}
            }
            gives_at.store(clock::now().as_nanos(), Ordering::Release);
            mutex.unlock();
        }
        samples
    };
    let wants = || {
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            // Meanwhile the other thread takes it.
            clock::sleep_until(clock::now() + PAUSE);
            let left = clock::now().as_nanos();
            waits_at.store(left, Ordering::Release);
            mutex.lock();
            let now = clock::now().as_nanos();
            let given = gives_at.load(Ordering::Acquire);
            if given >= left {
                samples.push(now.saturating_sub(given));
            }
            mutex.unlock();
        }
        over.store(true, Ordering::Relaxed);
        samples
    };
    std::thread::scope(|scope| {
        let wants = spawn(scope, URGENT, wants)?;
        let holds = spawn(scope, LESS_URGENT, holds);
        if holds.is_err() {
            over.store(true, Ordering::Relaxed);
        }
        let panicked = |_| PANICKED.to_owned();
        let (wake, wait) = (wants.join().map_err(panicked)?, holds?.join().map_err(panicked)?);
        Ok(Lock { wait, wake })
    })
}

const ROUNDS: u32 = 60;
/// How long the mutex is held after the other thread has begun to wait, and how long that one
/// sleeps then.
const HELD: Duration = Duration::from_micros(60);
const PAUSE: Duration = Duration::from_micros(310);
