//! [`Observer`]: what a call read of the shared state.
//!
//! On threads, the only inputs of an entry point besides its arguments are what other CPUs happened
//! to have published. Every read goes through an observer; when it records, a threaded run can be
//! replayed on one thread, call by call, and must then decide the same. Reads are recorded as their
//! *result* (the CPU that a search found), not word by word.

use alloc::vec::Vec;
use zerolag_model::CpuId;

/// What becomes of the reads of the shared state.
#[derive(Debug, Default)]
pub enum Observer {
    /// Nothing.
    #[default]
    Off,
    /// They are appended.
    Record(Vec<u64>),
    /// They are not done: the recorded results are handed out in order.
    Replay {
        /// Results of an earlier run.
        values: Vec<u64>,
        /// How many have been handed out.
        next: usize,
    },
}

impl Observer {
    /// Performs a read, or hands out what it gave when it was recorded.
    ///
    /// # Panics
    /// In replay, if the run reads more than was recorded: it has diverged.
    #[inline]
    pub(crate) fn u64(&mut self, read: impl FnOnce() -> u64) -> u64 {
        if matches!(self, Self::Off) { read() } else { self.observed(read) }
    }

    /// Apart from the usual case, so that that one is small enough to be inlined.
    #[cold]
    fn observed(&mut self, read: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Off => read(),
            Self::Record(values) => {
                let value = read();
                values.push(value);
                value
            }
            Self::Replay { values, next } => {
                let value = *values.get(*next).expect("replay diverged: more reads than were recorded");
                *next += 1;
                value
            }
        }
    }

    #[inline]
    pub(crate) fn cpu(&mut self, read: impl FnOnce() -> Option<CpuId>) -> Option<CpuId> {
        if matches!(self, Self::Off) {
            return read();
        }
        let value = self.observed(|| read().map_or(0, |cpu| u64::from(cpu.0) + 1));
        value.checked_sub(1).map(|cpu| CpuId(u32::try_from(cpu).expect("invariant: a recorded CPU")))
    }

    #[inline]
    pub(crate) fn flag(&mut self, read: impl FnOnce() -> bool) -> bool {
        self.u64(|| u64::from(read())) != 0
    }
}
