//! [`Ticks`]: when a CPU needs its periodic tick.
//!
//! | CPU | ticks |
//! |---|---|
//! | `nohz = off` | always |
//! | otherwise | while something runs or waits |
//! | of `nohz_full` | while something waits that the tick decides about, or a deadline or limited task runs |
//!
//! A CPU of `nohz_full` whose tick has stopped while a task runs is looked after once a second by another one
//! ([`Scheduler::remote_tick`](crate::Scheduler::remote_tick)), so that its clocks and averages do not stand still.
//!
//! O(1); O(real-time tasks of the CPU) for CPUs of `nohz_full`.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c` (`sched_can_stop_tick`, `sched_tick_remote`), `kernel/time/tick-sched.c`. differs: the kernel
//! also ticks for POSIX CPU timers and perf events, which are not there.

use crate::config::Config;
use crate::fair::bandwidth;
use crate::rq::Rq;
use crate::rt;
use zerolag_model::{ClassId, CpuId};

/// What a CPU does with its tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ticks {
    /// It is never stopped.
    Always,
    /// It is stopped while the CPU idles.
    Busy,
    /// It is stopped while nobody needs it (`nohz_full`).
    Needed,
}

impl Ticks {
    pub(crate) fn of(cpu: CpuId, config: &Config) -> Self {
        match config.settings.nohz {
            _ if config.full_dynticks.contains(cpu) => Self::Needed,
            true => Self::Busy,
            false => Self::Always,
        }
    }

    /// Returns whether a CPU needs its tick now.
    #[inline(always)]
    pub(crate) fn are_needed(rq: &Rq) -> bool {
        match rq.ticks {
            Self::Busy => rq.nr_running > 0,
            Self::Always => true,
            Self::Needed => decides(rq),
        }
    }
}

/// Returns whether the tick may change anything here: `sched_can_stop_tick`.
#[cold]
fn decides(rq: &Rq) -> bool {
    if !rq.dl.is_empty() {
        return true;
    }
    if rq.rt.nr_running() > 0 && !rq.rt.throttle.is_throttled() {
        // Of several that take turns; one, or FIFO tasks, run on whatever waits below.
        let in_turn = rq.rt.in_order(&rq.tasks).filter(|slot| rt::is_rr(rq.tasks[*slot].attr)).count();
        return in_turn > 1;
    }
    let is_limited = |slot| rq.tasks[slot].prio.class() == ClassId::Fair && bandwidth::boost::is_limited(rq, slot);
    rq.nr_running > 1 || rq.current.is_some_and(is_limited)
}
