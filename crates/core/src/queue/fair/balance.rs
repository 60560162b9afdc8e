//! [`BalanceState`]: what a CPU remembers of its balancing. The rules are those of
//! [`crate::balance::fair::periodic`].

use crate::words::config::Config;
use crate::words::level::LEVELS;
use crate::words::life::Bound;
use crate::words::step::Stay;
use alloc::vec::Vec;
use zerolag_model::{CpuId, Instant};

/// What a CPU remembers of its balancing.
#[derive(Debug, Default)]
pub(crate) struct BalanceState {
    pub(crate) levels: [LevelState; LEVELS.len()],
    /// No level is due before.
    pub(crate) next: Instant,
    /// No idle CPU is woken before.
    pub(crate) next_kick: Instant,
    /// Whether CPUs share cores, the machine has several caches or its CPUs differ: where a task is
    /// may matter to one that is alone.
    pub(crate) has_parts: bool,
    /// Whether interrupts or the classes above took much of this CPU when it last looked.
    pub(crate) is_pressed: bool,
    /// CPUs of which no task may come here, found so in the present round at one level.
    pub(crate) pinned: Vec<CpuId>,
    /// The running task that another CPU has asked for.
    pub(crate) push: Option<ActivePush>,
}

/// A task that is to be moved although it runs.
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

    /// Returns how often a level has failed.
    pub(crate) fn failed(&self, level: usize) -> u8 {
        self.levels[level].failed
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LevelState {
    pub(crate) last: Instant,
    /// Twice the level's least interval: it was found balanced.
    pub(crate) is_calm: bool,
    /// Rounds in which nothing could be moved (`nr_balance_failed`).
    pub(crate) failed: u8,
}
