//! [`Budgets`]: the time that each CPU can spend on searches for idle CPUs (`SIS_PROP`). The rules
//! are those of [`crate::balance::fair::sis_prop`].

use crate::words::config::Config;
use crate::words::snapshot::{Snapshot, snapshot_of};
use alloc::boxed::Box;
use core::sync::atomic::AtomicU64;

/// The budgets of all CPUs; empty without `SIS_PROP`.
#[derive(Debug)]
pub(crate) struct Budgets(pub(crate) Box<[Budget]>);

#[derive(Debug)]
pub(crate) struct Budget {
    /// The remaining budget (`wake_avg_idle`), in ns, as of a tick (`wake_stamp`).
    pub(crate) left: AtomicU64,
    pub(crate) tick: AtomicU64,
    /// The average cost of a search (`avg_scan_cost`), in ns.
    pub(crate) cost: AtomicU64,
}

snapshot_of!(Budget: { left tick cost });

impl Snapshot for Budgets {
    fn snapshot(&self) -> Self {
        Self(self.0.snapshot())
    }
}

impl Budgets {
    pub(crate) fn new(config: &Config) -> Self {
        let cpus = if config.settings.sis_prop { config.topology.nr_cpus() } else { 0 };
        let left = (config.settings.migration_cost * 2).as_nanos();
        let budget = |_| Budget { left: AtomicU64::new(left), tick: AtomicU64::new(0), cost: AtomicU64::new(0) };
        Self((0..cpus).map(budget).collect())
    }
}
