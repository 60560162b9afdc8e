//! `rm`: rate monotonic, global: the shorter its period, the more urgent is a task.
//!
//! Liu and Layland, *Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment*,
//! JACM 1973: on one CPU no other fixed priorities meet deadlines that these miss, where a deadline
//! is the end of the period.
//!
//! The period is that of the task's timer in the workload ([`Scx::period`]), which a kernel does not
//! know; a task without one runs in the background.

use super::urgency::{BACKGROUND, Urgency};
use crate::ops::{Ops, Policy};
use crate::scx::Scx;
use crate::words::{EnqFlags, Needs, WakeFlags};
use zerolag_model::{CpuId, TaskId};

/// Rate monotonic.
#[derive(Clone, Debug, Default)]
pub struct Rm {
    urgency: Urgency,
}

impl Policy for Rm {
    fn ops(&self) -> Ops {
        Ops { needs: Needs::PERIOD, ..Ops::named("rm") }
    }

    fn init(&mut self, scx: &mut Scx) {
        Urgency::init(scx);
    }

    /// Every task passes through the queue, so that the most urgent one gets a CPU that is idle.
    fn select_cpu(&mut self, _scx: &mut Scx, _p: TaskId, prev_cpu: CpuId, _flags: WakeFlags) -> CpuId {
        prev_cpu
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        self.urgency.of[p] = scx.period(p).map_or(BACKGROUND, |period| period.as_nanos());
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.urgency.enqueue(scx, p, flags);
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        self.urgency.dispatch(scx, cpu, prev);
    }
}
