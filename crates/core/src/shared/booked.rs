//! [`Booked`]: the bandwidth that a root domain has promised to deadline tasks and servers.

use crate::words::bandwidth::{Bandwidth, DlLimit};
use alloc::vec::Vec;
use zerolag_model::{Instant, TaskId};

/// What a root domain has promised (`dl_bw.total_bw`).
#[derive(Debug)]
pub(crate) struct Booked {
    pub(crate) total: Bandwidth,
    pub(crate) limit: DlLimit,
    /// Bandwidth that is given back at its task's 0-lag time.
    pub(crate) leaving: Vec<Leaving>,
}

#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) task: TaskId,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) at: Instant,
}

impl Booked {
    pub(crate) const fn new(total: Bandwidth, limit: DlLimit) -> Self {
        Self { total, limit, leaving: Vec::new() }
    }

    /// Returns what is promised at a time.
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

    /// Returns what is promised to those that are there; for checks.
    pub(crate) fn of_members(&self) -> Bandwidth {
        Bandwidth(self.total.0 - self.leaving.iter().map(|leaving| leaving.bandwidth.0).sum::<u64>())
    }

    /// A task that has left is back: what it had does not count twice.
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

/// The root domain has not that much left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BookedUp;
