//! [`Ticks`]: when a CPU needs its periodic tick.
//!
//! | CPU | its tick runs |
//! |---|---|
//! | `nohz = off` | always |
//! | otherwise | while a task runs or waits |
//! | in `nohz_full` | while it decides about a waiting task, or a deadline or limited task runs |
//!
//! If the tick of a CPU in `nohz_full` has stopped while a task runs, another CPU updates its
//! clocks and averages once a second ([`Scheduler::remote_tick`](crate::Scheduler::remote_tick)),
//! so that they do not stand still.
//!
//! O(1); O(real-time tasks of the CPU) for CPUs in `nohz_full`.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c` (`sched_can_stop_tick`, `sched_tick_remote`),
//! `kernel/time/tick-sched.c`. differs: the kernel also ticks for POSIX CPU timers and perf events,
//! which do not exist here.

use crate::words::config::Config;
use zerolag_model::CpuId;

/// The rule by which a CPU stops its tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ticks {
    /// It never stops.
    Always,
    /// It stops while the CPU idles.
    Busy,
    /// It stops while the tick decides nothing (`nohz_full`).
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
