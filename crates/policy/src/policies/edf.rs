//! `edf`: earliest deadline first, global.
//!
//! Liu and Layland, *Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment*,
//! JACM 1973: on one CPU it meets all deadlines that can be met. On several it does not (Dhall's
//! effect).
//!
//! A job begins when its task wakes, and its deadline is one period later. The period is that of the
//! task's timer in the workload ([`Scx::period`]), which a kernel does not know; a task without one
//! runs in the background. A job that is late does not sleep before the next, which has its deadline
//! then. Unlike SCHED_DEADLINE no budget is kept: a job that runs too long takes the time of others.

use super::urgency::{BACKGROUND, Urgency};
use crate::ops::{Ops, Policy};
use crate::scx::Scx;
use crate::words::{EnqFlags, Needs, WakeFlags};
use zerolag_model::{CpuId, TaskId};

/// Earliest deadline first.
#[derive(Clone, Debug, Default)]
pub struct Edf {
    urgency: Urgency,
}

impl Edf {
    fn begin_job(&mut self, scx: &Scx, p: TaskId) {
        let deadline = scx.period(p).map(|period| scx.now().saturating_add(period).as_nanos());
        self.urgency.of[p] = deadline.unwrap_or(BACKGROUND);
    }
}

impl Policy for Edf {
    fn ops(&self) -> Ops {
        Ops { needs: Needs::PERIOD, ..Ops::named("edf") }
    }

    fn init(&mut self, scx: &mut Scx) {
        Urgency::init(scx);
    }

    /// Every task passes through the queue, so that the most urgent one gets a CPU that is idle.
    fn select_cpu(&mut self, _scx: &mut Scx, _p: TaskId, prev_cpu: CpuId, _flags: WakeFlags) -> CpuId {
        prev_cpu
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        self.begin_job(scx, p);
    }

    fn runnable(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        if flags.has(EnqFlags::WAKEUP) {
            self.begin_job(scx, p);
        }
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.urgency.enqueue(scx, p, flags);
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        self.urgency.dispatch(scx, cpu, prev);
    }
}
