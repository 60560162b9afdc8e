//! The part of a group's average that belongs to CPUs on which nothing of the group is queued.
//!
//! All these parts decay alike, so one sum and the time at which it was true say what all of them
//! are now. A CPU adds its part when the last entity leaves its queue there, and takes it away when
//! one comes back; in between it does nothing, not even if it is idle without ticks.
//!
//! Source: Linux v6.12 `kernel/sched/fair.c`, `update_tg_load_avg`, `__update_blocked_fair`.
//! differs: there a CPU's part decays when that CPU balances, or another does for it (every 32 ms
//! at least while one is busy); here at each reading.

use crate::entity::pelt;
use crate::words::snapshot::snapshot_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// A sum that decays: the low half of the word is the value, the high half the period in which it
/// was true ([`crate::queue::fair::averages::period_of`]).
#[derive(Debug, Default)]
pub(crate) struct Sleeping {
    word: AtomicU64,
}

snapshot_of!(Sleeping: { word });

impl Sleeping {
    /// Returns the sum in a period.
    pub(crate) fn at(&self, period: u32) -> u64 {
        decayed(self.word.load(Ordering::Relaxed), period).0
    }

    /// Adds a part that is true in a period.
    pub(crate) fn add(&self, part: u64, period: u32) {
        self.change(period, |sum| sum.saturating_add(part));
    }

    /// Takes away a part that was true in period `since`. The sum can have been rounded further
    /// down than the part.
    pub(crate) fn take(&self, part: u64, since: u32, period: u32) {
        self.change(period, |sum| sum.saturating_sub(decay(part, since, period)));
    }

    /// Forgets everything: the group is a new one.
    pub(crate) fn clear(&self) {
        self.word.store(0, Ordering::Relaxed);
    }

    fn change(&self, period: u32, mut change: impl FnMut(u64) -> u64) {
        let next = |word| {
            let (sum, period) = decayed(word, period);
            Some(change(sum).min(u64::from(u32::MAX)) | u64::from(period) << 32)
        };
        // It always changes; a loop of compare and swap, as for the notes of blocked load.
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }
}

/// Returns the sum of a word in a period, or in its own if that is later: the clocks of CPUs differ
/// by the time that each spends in interrupts.
fn decayed(word: u64, period: u32) -> (u64, u32) {
    let (sum, since) = (word & 0xffff_ffff, (word >> 32) as u32);
    if sum == 0 || !is_before(since, period) {
        return (sum, if sum == 0 { period } else { since });
    }
    (decay(sum, since, period), period)
}

fn decay(sum: u64, since: u32, period: u32) -> u64 {
    if is_before(since, period) { pelt::decay(sum, u64::from(period.wrapping_sub(since))) } else { sum }
}

/// Periods wrap after 52 days. Equal ones are not before each other: [`pelt::decay`] rounds down
/// over no period too.
fn is_before(since: u32, period: u32) -> bool {
    (1..=u32::MAX / 2).contains(&period.wrapping_sub(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of a sum as 32 periods leave it: rounded down.
    fn half(sum: u64) -> u64 {
        let half = pelt::decay(sum, 32);
        assert!(half <= sum / 2 && half + 2 >= sum / 2, "{half} of {sum}");
        half
    }

    #[test]
    fn parts_decay_together_and_are_taken_away_as_they_are_by_then() {
        let sum = Sleeping::default();
        sum.add(1024, 10);
        sum.add(2048, 10 + 32);
        assert_eq!(sum.at(10 + 32), half(1024) + 2048, "the first has decayed");
        assert_eq!(sum.at(10 + 64), half(half(1024) + 2048));
        sum.take(2048, 10 + 32, 10 + 64);
        assert_eq!(sum.at(10 + 64), half(half(1024) + 2048) - half(2048));
        sum.take(1024, 10, 10 + 128);
        assert_eq!(sum.at(10 + 128), 0, "what is rounded down further than the part is not below zero");
    }

    #[test]
    fn an_earlier_clock_reads_the_sum_as_it_is() {
        let sum = Sleeping::default();
        sum.add(1024, 40);
        assert_eq!(sum.at(39), 1024);
        sum.add(1024, 39);
        assert_eq!((sum.at(40), sum.at(72)), (2048, half(2048)), "the later time stays");
    }

    #[test]
    fn periods_wrap() {
        let sum = Sleeping::default();
        sum.add(1024, u32::MAX - 15);
        assert_eq!(sum.at(16), half(1024));
        sum.take(1024, u32::MAX - 15, 16);
        assert_eq!(sum.at(16), 0);
    }
}
