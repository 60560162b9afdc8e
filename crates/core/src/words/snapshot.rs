//! [`Snapshot`]: a copy of state whose parts are atomics or behind locks.
//!
//! A host that copies all of a machine's state can go on from there twice: a sweep whose runs share
//! their beginning, a search for the first difference, a test that a run which is split does what
//! the whole does. `Clone` is not enough. Atomics and locks do not have it, and it would be a
//! promise that the types must not make: a [`Parcel`](crate::Parcel) is not `Clone`, because a task
//! is in one place. So a snapshot is a method of the whole types
//! ([`Scheduler::snapshot`](crate::Scheduler::snapshot), [`Rq::snapshot`](crate::Rq::snapshot),
//! [`Parcel::snapshot`](crate::Parcel::snapshot)), which say when it may be taken.
//!
//! Complexity: O(size of the state).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use lock_api::{Mutex, RawMutex};

/// A value that can be copied while nothing changes it.
pub(crate) trait Snapshot {
    /// Returns a copy that shares nothing with the value.
    fn snapshot(&self) -> Self;
}

macro_rules! of_atomics {
    ($($atomic:ident)*) => { $(
        impl Snapshot for $atomic {
            fn snapshot(&self) -> Self {
                Self::new(self.load(Ordering::Acquire))
            }
        }
    )* };
}

of_atomics! { AtomicBool AtomicU8 AtomicU32 AtomicU64 }

impl<T: Snapshot> Snapshot for Box<[T]> {
    fn snapshot(&self) -> Self {
        self.iter().map(T::snapshot).collect()
    }
}

impl<T: Snapshot> Snapshot for Vec<T> {
    fn snapshot(&self) -> Self {
        self.iter().map(T::snapshot).collect()
    }
}

impl<T: Snapshot, const N: usize> Snapshot for [T; N] {
    fn snapshot(&self) -> Self {
        self.each_ref().map(T::snapshot)
    }
}

impl<L: RawMutex, T: Clone> Snapshot for Mutex<L, T> {
    fn snapshot(&self) -> Self {
        Self::new(self.lock().clone())
    }
}

/// Implements [`Snapshot`] for a struct: the first fields by their own snapshots, the others by
/// `Clone`. A field that is in neither list does not compile.
macro_rules! snapshot_of {
    ($name:ty $(, $lock:ident)? : { $($deep:ident)* } $({ $($plain:ident)* })?) => {
        impl $(<$lock: lock_api::RawMutex>)? $crate::words::snapshot::Snapshot for $name {
            fn snapshot(&self) -> Self {
                Self { $($deep: $crate::words::snapshot::Snapshot::snapshot(&self.$deep),)* $($($plain: self.$plain.clone(),)*)? }
            }
        }
    };
}
pub(crate) use snapshot_of;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_nothing() {
        let one: Box<[AtomicU32]> = (0..3).map(AtomicU32::new).collect();
        let other = one.snapshot();
        one[1].store(7, Ordering::Relaxed);
        assert_eq!(other.iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
