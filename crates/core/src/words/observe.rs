//! [`Observer`]: records or replays the reads of the shared state.
//!
//! On threads, a call depends on its arguments and on the state that other CPUs happen to have
//! published. The second input is different in every run, so a failure could not be reproduced from
//! the arguments alone. Therefore every read goes through an observer. If it records, a threaded
//! run can be replayed on one thread, call by call, and must then make the same decisions. A read
//! is recorded as its *result* (the CPU that a search found), not word by word.

use alloc::vec::Vec;
use zerolag_model::CpuId;

/// The treatment of reads of the shared state.
#[derive(Clone, Debug, Default)]
pub enum Observer {
    /// Reads are done and not recorded.
    #[default]
    Off,
    /// The results are appended.
    Record(Vec<u64>),
    /// Reads are not done: the recorded results are returned in order.
    Replay {
        /// The results of an earlier run.
        values: Vec<u64>,
        /// The number of results that have been returned.
        next: usize,
    },
}

impl Observer {
    /// Performs a read, or returns its recorded result.
    ///
    /// # Panics
    /// In a replay, if the run reads more than was recorded: it has diverged.
    #[inline]
    pub(crate) fn u64(&mut self, read: impl FnOnce() -> u64) -> u64 {
        if matches!(self, Self::Off) { read() } else { self.observed(read) }
    }

    /// Cold and out of line, so that the usual case is small enough to be inlined.
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
