//! The locks and counters of the queues. In unit tests they are those of `shuttle`, which runs one
//! thread at a time and chooses at every lock and counter which thread continues.

#[cfg(test)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicUsize};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicUsize};
