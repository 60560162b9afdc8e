//! [`Observer`]: records or replays the reads of the shared state.
//!
//! On threads, a call depends on its arguments and on the state that other CPUs happen to have
//! published. The second input is different in every run, so a failure could not be reproduced from
//! the arguments alone. Therefore every read goes through an observer. If it records, a threaded
//! run can be replayed on one thread, call by call, and must then make the same decisions. A read
//! is recorded as its *result* (the CPU that a search found), not word by word.
//!
//! A host that charges the transfer of cache lines has an observer as well, which appends the
//! accesses to words that CPUs of the whole machine write. Counts say how often something was
//! accessed, not what. The price of a line depends on which line it is, on the CPU that had it
//! last, and on the CPUs that want it at the same time. Without an observer both cost one
//! comparison.

use crate::words::lines::LineAccess;
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
    /// Reads are done, and the accesses to words that many CPUs write are appended. The host takes
    /// them after each call.
    Lines(Vec<LineAccess>),
}

impl Observer {
    /// Returns whether nothing is recorded, replayed or appended.
    #[inline(always)]
    pub(crate) const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// Performs a read, or returns its recorded result.
    ///
    /// # Panics
    /// In a replay, if the run reads more than was recorded: it has diverged.
    #[inline]
    pub(crate) fn u64(&mut self, read: impl FnOnce() -> u64) -> u64 {
        if self.is_off() { read() } else { self.observed(read) }
    }

    /// Cold and out of line, so that the usual case is small enough to be inlined.
    #[cold]
    fn observed(&mut self, read: impl FnOnce() -> u64) -> u64 {
        match self {
            Self::Off | Self::Lines(_) => read(),
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
        if self.is_off() {
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
