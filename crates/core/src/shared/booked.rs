//! [`Booked`]: the bandwidth that deadline tasks and servers have reserved in a root domain.

use crate::words::bandwidth::{Bandwidth, DlLimit};
use alloc::vec::Vec;
use zerolag_model::{Instant, TaskId};

/// The reserved bandwidth of a root domain (`dl_bw.total_bw`).
#[derive(Clone, Debug)]
pub(crate) struct Booked {
    pub(crate) total: Bandwidth,
    pub(crate) limit: DlLimit,
    /// Bandwidth that is released at its task's 0-lag time.
    pub(crate) leaving: Vec<Leaving>,
}

#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) task: TaskId,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) at: Instant,
}

impl Booked {
    pub(crate) const fn new(total: Bandwidth, limit: DlLimit) -> Self {
        Self { total, limit, leaving: Vec::new() }
    }

    /// Returns the reserved bandwidth at a time.
    pub(crate) fn total(&mut self, now: Instant) -> Bandwidth {
        let total = &mut self.total;
        self.leaving.retain(|leaving| {
            if leaving.at <= now {
                total.0 -= leaving.bandwidth.0;
            }
            now < leaving.at
        });
        *total
    }

    /// Returns the reserved bandwidth of the tasks that have not left; for checks.
    pub(crate) fn of_members(&self) -> Bandwidth {
        Bandwidth(self.total.0 - self.leaving.iter().map(|leaving| leaving.bandwidth.0).sum::<u64>())
    }

    /// Releases the earlier bandwidth of a task that has left and returns, so that it does not
    /// count twice.
    pub(crate) fn forget(&mut self, task: TaskId) {
        let total = &mut self.total;
        self.leaving.retain(|leaving| {
            if leaving.task == task {
                total.0 -= leaving.bandwidth.0;
            }
            leaving.task != task
        });
    }
}
