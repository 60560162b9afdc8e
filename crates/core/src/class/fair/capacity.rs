//! The remaining capacity of a CPU for fair tasks: its capacity less the recent use by deadline
//! tasks, real-time tasks and interrupts.
//!
//! The time of the classes above is averaged like load ([`Average`](crate::entity::pelt::Average),
//! util alone). It is added when a CPU begins or ends to run such a task. The time of interrupts is
//! the advance of the CPU's clock over its task clock. A CPU computes its remaining capacity when
//! it balances, for its own use, and publishes it. Other CPUs can read an old figure, as on Linux.
//!
//! ```text
//!   left = (capacity - util of deadline and real-time tasks)
//!          * (capacity - util of interrupts) / capacity, at least 1
//! ```
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `scale_rt_capacity`, `update_cpu_capacity`;
//! `kernel/sched/pelt.c`, `update_rt_rq_load_avg`, `update_dl_rq_load_avg`, `update_irq_load_avg`.
//! differs: the two classes above share one average; interrupt time is taken as spread evenly over
//! the time since the last computation.

use crate::class::fair::misfit;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::clock::Clock;
use crate::words::level::IMBALANCE_PCT;
use lock_api::RawMutex;
use zerolag_model::ClassId;

/// Returns whether the classes above take much of a CPU. `check_cpu_capacity`.
pub(crate) const fn is_reduced(left: u64, full: u64) -> bool {
    left * IMBALANCE_PCT < full * 100
}

/// Updates the averages when the CPU switches to a task of `class`, or to idle.
#[inline(always)]
pub(crate) fn switched<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, class: ClassId) {
    if !rq.fair.tune.tracks_load {
        return;
    }
    if rq.fair.asymmetric.is_some() {
        misfit::switched(rq, cx);
    }
    let is_above = is_above(class);
    if is_above != rq.fair.pressure.is_above {
        let now = rq.averages_clock();
        rq.fair.pressure.age(now);
        rq.fair.pressure.is_above = is_above;
    }
}

pub(crate) const fn is_above(class: ClassId) -> bool {
    match class {
        ClassId::Stop | ClassId::Deadline | ClassId::Rt => true,
        ClassId::Fair | ClassId::Ext | ClassId::Idle => false,
    }
}

/// Publishes the remaining capacity of this CPU. Returns whether much of it was taken. O(1).
pub(crate) fn publish<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) -> bool {
    if !rq.fair.tune.tracks_load {
        return false;
    }
    let full = u64::from(cx.config.topology.capacity(rq.cpu()));
    let averages = rq.averages_clock();
    let left = rq.fair.pressure.left(Clock { wall: cx.now.wall, task: rq.clock_task() }, averages, full);
    cx.shared.publish_capacity(rq.cpu(), left);
    is_reduced(left, full)
}
