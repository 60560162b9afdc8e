//! [`ExtRq`]: the tasks of a loaded scheduler on one CPU.

use crate::words::ids::Slot;
use alloc::collections::VecDeque;
use zerolag_model::settings::SchedExt;
use zerolag_model::{Duration, ServerKind, ServerParams, Settings};

/// A task with what is left of its slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExtTurn {
    pub(crate) slot: Slot,
    pub(crate) left: Duration,
}

/// The tasks of a loaded scheduler on one CPU: the current one, those on its local queue
/// (`rq->scx.local_dsq`), and those that wait on the machine's queue
/// ([`ExtQueue`](crate::shared::ext_queue::ExtQueue)) and belong here until a CPU takes them.
#[derive(Clone, Debug)]
pub(crate) struct ExtRq {
    /// All of them (`rq->scx.nr_running`).
    pub(crate) nr_running: u32,
    /// Whether a scheduler is loaded.
    pub(crate) is_loaded: bool,
    /// Whether that is a policy of the user ([`crate::class::policy`]), which has the queues.
    pub(crate) by_policy: bool,
    /// Whether the policy has filled the local queue for the current switch.
    pub(crate) has_dispatched: bool,
    /// What the policy was last told of this CPU while it ran a task: whether that was of a class
    /// above. `None` while it idles.
    pub(crate) told: Option<bool>,
    /// Whether it has the tasks with a fair policy too.
    pub(crate) has_all: bool,
    /// The parameters of servers that have no bandwidth while a policy is loaded, or while none is.
    pub(crate) detached: [Option<ServerParams>; ServerKind::ALL.len()],
    /// The slice of the current task.
    pub(crate) turn: Option<ExtTurn>,
    /// The local queue, first to run first. The current task is not on it.
    pub(crate) local: VecDeque<ExtTurn>,
}

impl ExtRq {
    pub(crate) const fn new(settings: &Settings) -> Self {
        Self {
            nr_running: 0,
            by_policy: false,
            has_dispatched: false,
            told: None,
            is_loaded: !matches!(settings.sched_ext, SchedExt::Off),
            has_all: matches!(settings.sched_ext, SchedExt::All),
            detached: [None; ServerKind::ALL.len()],
            turn: None,
            local: VecDeque::new(),
        }
    }

    /// Takes a task off the local queue, if it is there. O(tasks of the local queue).
    pub(crate) fn take_local(&mut self, slot: Slot) -> Option<ExtTurn> {
        let at = self.local.iter().position(|turn| turn.slot == slot)?;
        self.local.remove(at)
    }

    /// Returns what is left of the slice of the current task, if that is `slot`.
    pub(crate) fn left_of(&self, slot: Slot) -> Option<Duration> {
        self.turn.filter(|turn| turn.slot == slot).map(|turn| turn.left)
    }
}
