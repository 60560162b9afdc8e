//! [`LineLog`]: which words of the shared state a call has accessed, for hosts that charge the
//! transfer of their cache lines.
//!
//! Counts say how often something was accessed, not what. The price of a line depends on which line
//! it is, on the CPU that had it last, and on the CPUs that want it at the same time. So the calls
//! note the few accesses to words that CPUs of the whole machine write. Without such a host nothing
//! is noted. O(1) per access.

use crate::words::lines::LineAccess;
use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most accesses of one call; later ones are not noted. The longest calls are pushes that skip
/// 32 tasks.
const ROOM: usize = 256;

/// The accesses since the host has last taken them. Empty without such a host.
#[derive(Debug)]
pub(crate) struct LineLog {
    used: AtomicU32,
    words: Box<[AtomicU64]>,
}

snapshot_of!(LineLog: { used words });

impl LineLog {
    pub(crate) fn new(is_on: bool) -> Self {
        let room = if is_on { ROOM } else { 0 };
        Self { used: AtomicU32::new(0), words: (0..room).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Returns whether accesses are noted.
    #[inline(always)]
    pub(crate) const fn is_on(&self) -> bool {
        !self.words.is_empty()
    }

    /// Notes an access.
    #[cold]
    pub(crate) fn note(&self, access: LineAccess) {
        if let Some(word) = self.words.get(self.used.load(Ordering::Relaxed) as usize) {
            word.store(access.pack(), Ordering::Relaxed);
            self.used.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes all accesses, in order.
    pub(crate) fn take(&self, mut each: impl FnMut(LineAccess)) {
        let used = self.used.swap(0, Ordering::Relaxed) as usize;
        for word in &self.words[..used] {
            each(LineAccess::unpack(word.load(Ordering::Relaxed)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_taken_once_and_in_order() {
        let log = LineLog::new(true);
        let all: alloc::vec::Vec<LineAccess> =
            (0..300).map(|below| LineAccess::Search { below: below as u8 }).collect();
        all.iter().for_each(|access| log.note(*access));
        let mut taken = alloc::vec::Vec::new();
        log.take(|access| taken.push(access));
        assert_eq!(taken, all[..ROOM]);
        log.take(|access| panic!("{access:?} was taken before"));
        let off = LineLog::new(false);
        assert!(!off.is_on());
        off.note(all[0]);
        off.take(|access| panic!("{access:?}"));
    }
}
