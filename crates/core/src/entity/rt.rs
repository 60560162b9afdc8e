//! [`RtEntity`]: the state of a task in the real-time class, its time slice, and
//! [`PrioQueueLink`]: the neighbours of its slot in the lists.

use crate::words::ids::Slot;
use zerolag_model::{Duration, RtPolicy, SchedAttr};

/// The link of the queue of runnable tasks.
pub(crate) const RUN: usize = 0;

/// The link of the queue of pushable tasks.
pub(crate) const PUSHABLE: usize = 1;

/// A task's links in a [`PrioQueue`](crate::queue::rt::prio_queue::PrioQueue).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum PrioQueueLink {
    #[default]
    Out,
    In {
        before: Option<Slot>,
        after: Option<Slot>,
    },
}

/// The real-time state of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct RtEntity {
    /// The remaining RR time slice.
    pub(crate) slice_left: Duration,
}

pub(crate) const fn is_rr(attr: SchedAttr) -> bool {
    matches!(attr, SchedAttr::Rt { policy: RtPolicy::Rr, .. })
}
