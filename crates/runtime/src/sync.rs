//! Locks, atomics and threads of the runtime. In its unit tests they are those of `shuttle`, which
//! runs one thread at a time and chooses at every lock and atomic which thread continues.

#[cfg(not(test))]
pub(crate) use self::system::*;
#[cfg(test)]
pub(crate) use self::tested::*;

#[cfg(not(test))]
mod system {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
    pub(crate) use std::sync::MutexGuard as QueueGuard;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use std::thread::park;
    pub(crate) use std::{thread, thread_local};

    /// The lock of a run queue: one that a thread sleeps for when it is held for longer.
    ///
    /// The thread of the clock often wakes on the processor of a CPU's thread, and preempts it
    /// while it holds this lock in one of a hundred cases. `parking_lot` calls `sched_yield` then;
    /// the kernel takes this for the end of a slice, and beside other programs the clock waited
    /// for 10 ms, with a task in its hands that it was about to place. A thread that sleeps is
    /// woken by the end of the section, and runs at once since it has used little.
    #[derive(Debug)]
    pub(crate) struct QueueLock<T>(std::sync::Mutex<T>);

    impl<T> QueueLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> QueueGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    /// Returns whether a thread has ended.
    pub(crate) fn is_finished(thread: &thread::JoinHandle<()>) -> bool {
        thread.is_finished()
    }
}

#[cfg(test)]
mod tested {
    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::sync::PoisonError;
    use std::time::{Duration, Instant};

    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
    pub(crate) use shuttle::{thread, thread_local};

    /// Parks the thread. `shuttle` can wake it for no reason, again and again.
    pub(crate) fn park() {
        thread::park();
        thread::yield_now();
    }

    /// Threads are not asked here whether they have ended.
    pub(crate) const fn is_finished(_: &thread::JoinHandle<()>) -> bool {
        false
    }

    /// A lock with the interface of `parking_lot`.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    pub(crate) use {Mutex as QueueLock, MutexGuard as QueueGuard};

    /// `None` while the thread waits for a [`Condvar`].
    pub(crate) struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Mutex").finish_non_exhaustive()
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("it does not wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("it does not wait")
        }
    }

    #[derive(Default)]
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Time does not pass by itself in these tests: no wait ends by time.
    #[derive(Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    pub(crate) struct WaitTimeoutResult;

    impl WaitTimeoutResult {
        #[expect(clippy::unused_self, reason = "the interface of parking_lot")]
        pub(crate) const fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let inner = guard.0.take().expect("it does not wait");
            guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }

        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
            self.wait(guard);
            WaitTimeoutResult
        }

        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
            self.wait(guard);
            WaitTimeoutResult
        }
    }

    impl fmt::Debug for Condvar {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Condvar").finish_non_exhaustive()
        }
    }
}
