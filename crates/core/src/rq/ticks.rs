//! [`Ticks`]: when a CPU needs its periodic tick.
//!
//! | CPU | ticks |
//! |---|---|
//! | `nohz = off` | always |
//! | otherwise | while something runs or waits |
//! | of `nohz_full` | while something waits that the tick decides about, or a deadline or limited task runs |
//!
//! A CPU of `nohz_full` whose tick has stopped while a task runs is looked after once a second by
//! another one ([`Scheduler::remote_tick`](crate::Scheduler::remote_tick)), so that its clocks and
//! averages do not stand still.
//!
//! O(1); O(real-time tasks of the CPU) for CPUs of `nohz_full`.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c` (`sched_can_stop_tick`, `sched_tick_remote`),
//! `kernel/time/tick-sched.c`. differs: the kernel also ticks for POSIX CPU timers and perf events,
//! which are not there.

use crate::words::config::Config;
use zerolag_model::CpuId;

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
}
