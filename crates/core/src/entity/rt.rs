//! [`RtEntity`]: what a task carries for the real-time class: its places in the lists and its time
//! slice.

use crate::words::ids::Slot;
use zerolag_model::{Duration, RtPolicy, SchedAttr};

/// Which of a task's links a queue uses.
pub(crate) const RUN: usize = 0;

/// The link of the queue of pushable tasks.
pub(crate) const PUSHABLE: usize = 1;

/// A task's place in a [`PrioQueue`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Link {
    #[default]
    Out,
    In {
        before: Option<Slot>,
        after: Option<Slot>,
    },
}

/// What a task carries for this class.
#[derive(Debug, Default)]
pub(crate) struct RtEntity {
    pub(crate) links: [Link; 2],
    /// RR time slice left.
    pub(crate) slice_left: Duration,
}

pub(crate) const fn is_rr(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Rt { policy: RtPolicy::Rr, .. })
}
