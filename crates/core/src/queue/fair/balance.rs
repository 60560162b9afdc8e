//! [`BalanceState`]: the state of a CPU's load balancing. [`crate::balance::fair::periodic`] has
//! the rules.

use crate::words::config::Config;
use crate::words::level::LEVELS;
use crate::words::life::Bound;
use crate::words::step::Stay;
use alloc::vec::Vec;
use zerolag_model::{CpuId, Instant};

/// The state of a CPU's load balancing.
///
/// A tick reads its beginning only.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(crate) struct BalanceState {
    /// No level is due before this instant.
    pub(crate) next: Instant,
    /// No idle CPU is woken for balancing before this instant.
    pub(crate) next_kick: Instant,
    /// The running task that another CPU has requested.
    pub(crate) push: Option<ActivePush>,
    /// Whether that is by the intervals of a busy CPU, which an idle one does not keep to.
    pub(crate) next_is_busy: bool,
    /// Whether CPUs share cores, the machine has several caches, or CPUs differ in capacity. Then
    /// the placement of a task that is alone on its CPU can matter.
    pub(crate) has_parts: bool,
    /// Whether interrupts or higher classes used much of this CPU at the last check.
    pub(crate) is_pressed: bool,
    /// The level with which the next round begins: the one above the level that had a partner in
    /// the last round.
    pub(crate) begins_at: u8,
    pub(crate) levels: [LevelState; LEVELS.len()],
    /// CPUs from which no task is allowed to move here, as found in the present round at one level.
    pub(crate) pinned: Vec<CpuId>,
}

/// A running task that is to be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivePush {
    pub(crate) task: Stay,
    pub(crate) bound: Bound,
}

impl BalanceState {
    pub(crate) fn new(config: &Config) -> Self {
        let [sockets, llcs, _, smt] = config.topology.shape();
        let has_parts = smt > 1 || sockets * llcs > 1 || config.topology.asymmetry().is_some();
        Self { has_parts, ..Self::default() }
    }

    /// Returns the number of failed rounds of a level.
    pub(crate) fn failed(&self, level: usize) -> u8 {
        self.levels[level].failed
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelState {
    pub(crate) last: Instant,
    /// Whether the level was found balanced; its least interval is then doubled.
    pub(crate) is_calm: bool,
    /// The number of rounds in which no task could be moved (`nr_balance_failed`).
    pub(crate) failed: u8,
}
