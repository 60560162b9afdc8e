//! The averages of a queue and of its entities, and the form in which a CPU publishes them. The
//! rules are those of [`crate::class::fair::load`].

use crate::entity::fair::FairEntity;
use crate::entity::pelt;
use crate::entity::pelt::Signals;
use crate::queue::fair::member::Member;
use crate::queue::fair::queue::Queue;
use zerolag_model::Instant;

/// What a CPU publishes of its averages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CpuAverages {
    /// Load, util and runnable average of the root queue.
    pub(crate) load: u64,
    pub(crate) util: u64,
    pub(crate) runnable: u64,
    /// Since which period of 2^20 ns nothing is queued and it decays; 0 while something is.
    pub(crate) period: u32,
}

impl CpuAverages {
    /// Returns the two words that are published.
    pub(crate) fn pack(self) -> (u64, u64) {
        let narrow = |value: u64| value.min(u64::from(u32::MAX));
        (narrow(self.load) | u64::from(self.period) << 32, narrow(self.util) | narrow(self.runnable) << 32)
    }

    pub(crate) fn unpack(load: u64, rest: u64) -> Self {
        let low = |word: u64| word & 0xffff_ffff;
        Self { load: low(load), util: low(rest), runnable: rest >> 32, period: (load >> 32) as u32 }
    }

    /// Returns what is left of it now.
    pub(crate) fn decayed(self, now: Instant) -> Self {
        if self.period == 0 {
            return self;
        }
        let periods = u64::from(period_of(now).wrapping_sub(self.period));
        // Clocks of CPUs differ by the time they spend in interrupts.
        if periods > u64::from(u32::MAX / 2) {
            return self;
        }
        let [load, util, runnable] = [self.load, self.util, self.runnable].map(|value| pelt::decay(value, periods));
        Self { load, util, runnable, period: self.period }
    }
}

pub(crate) fn period_of(now: Instant) -> u32 {
    (now.as_nanos() >> 20) as u32
}

impl Queue {
    /// Brings its averages up to date; returns whether they are others now.
    #[inline(always)]
    pub(crate) fn age(&mut self, now: Instant) -> bool {
        let signals = Signals { load: self.load, runnable: self.tally.runnable, runs: self.current.is_some() };
        self.average.age(now, signals, 1)
    }

    /// As [`age`](Self::age), and those of two tasks on it: of the current one and of one that waits.
    #[inline(always)]
    pub(crate) fn age_with(&mut self, current: &mut FairEntity, waiting: &mut FairEntity, now: Instant) -> bool {
        let has_changed = self.age(now);
        current.age(now, current.runnable_task(), true);
        waiting.age(now, waiting.runnable_task(), false);
        has_changed
    }
}

impl FairEntity {
    /// Brings its averages up to date. `runnable` is how many tasks want to run by it, `runs` whether it is current.
    #[inline(always)]
    pub(crate) fn age(&mut self, now: Instant, runnable: u32, runs: bool) {
        let signals = Signals { load: u64::from(self.is_queued()), runnable, runs };
        self.average.age(now, signals, self.load.value());
    }
}

impl Member<'_> {
    /// Brings the entity's averages up to date.
    #[inline(always)]
    pub(crate) fn age_entity(&mut self, now: Instant) {
        let runs = self.is_current();
        self.entity.age(now, self.runnable, runs);
    }
}
