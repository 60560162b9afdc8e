//! [`Cx`]: the context of a call apart from its run queues. There is one per call, and it holds the
//! one current time of the call.

use crate::queue::fair::averages::CpuAverages;
use crate::shared::state::Shared;
use crate::shared::view::View;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::config::Config;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration, Instant};

/// The context of an entry point apart from its run queue.
pub(crate) struct Cx<'a, L: RawMutex> {
    pub(crate) shared: &'a Shared<L>,
    pub(crate) config: &'a Config,
    pub(crate) now: Clock,
    /// The CPU that makes the call.
    pub(crate) by: CpuId,
    pub(crate) io: &'a mut Io,
}

impl<L: RawMutex> Cx<'_, L> {
    pub(crate) fn view(&mut self) -> View<'_, L> {
        View { shared: self.shared, observer: &mut self.io.observer }
    }

    /// Returns the time at which the last counted tick was due (`jiffies`), where ticks have this
    /// period.
    pub(crate) fn jiffies(&self, tick: Duration) -> Instant {
        self.now.wall.round_down_to(tick).min(self.shared.counted_tick())
    }

    /// Returns the published averages of a CPU, decayed until now if nothing is queued there.
    pub(crate) fn averages_of(&mut self, cpu: CpuId) -> CpuAverages {
        let now = self.now.task;
        self.view().averages(cpu).decayed(now)
    }

    /// Returns the published remaining capacity of a CPU for fair tasks; its full capacity if it
    /// has published none.
    pub(crate) fn capacity_of(&mut self, cpu: CpuId) -> u64 {
        match self.view().capacity(cpu) {
            0 => u64::from(self.config.topology.capacity(cpu)),
            left => left,
        }
    }
}
