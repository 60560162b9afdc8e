//! Whether a CPU needs its tick. The rules are those of [`crate::rq::ticks`].

use crate::class::fair::boost;
use crate::entity::fair::QueueIx;
use crate::entity::rt;
use crate::rq::run_queue::Rq;
use crate::rq::ticks::Ticks;
use zerolag_model::{ClassId, Settings};

/// Returns whether a CPU needs its tick now.
#[inline(always)]
pub(crate) fn are_needed(rq: &Rq, settings: &Settings) -> bool {
    match rq.ticks() {
        // A throttled task that finishes its time in the kernel keeps the tick: the kernel stops it
        // in the idle loop only.
        Ticks::Busy => !rq.is_idle(),
        Ticks::Always => true,
        Ticks::Needed => decides(rq, settings),
    }
}

/// Returns whether the tick can change anything here (`sched_can_stop_tick`).
#[cold]
fn decides(rq: &Rq, settings: &Settings) -> bool {
    if !rq.dl.is_empty() {
        return true;
    }
    if rq.rt.nr_allowed() > 0 {
        // Only several RR tasks need it: a single one and FIFO tasks continue whatever waits below.
        let in_turn = rq.rt.in_order(&rq.tasks).filter(|slot| rt::is_rr(rq.tasks[*slot].attr)).count();
        return in_turn > 1;
    }
    if rq.ext.nr_running > 0 {
        return true; // Its slice ends at a tick (`scx_can_stop_tick`).
    }
    let is_limited = |slot| rq.tasks[slot].prio.class() == ClassId::Fair && boost::is_limited(rq, slot);
    let share_it = if settings.nohz_full_grouped { rq.queue(QueueIx::ROOT).nr_queued > 1 } else { rq.nr_running() > 1 };
    share_it || (!settings.nohz_full_limited && rq.current_slot().is_some_and(is_limited))
}
