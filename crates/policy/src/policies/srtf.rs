//! `srtf`: shortest remaining time first, global.
//!
//! Schrage, *A Proof of the Optimality of the Shortest Remaining Processing Time Discipline*,
//! Operations Research 1968: on one CPU no other order has a smaller mean response time.
//!
//! It needs the truth: how much CPU time each task will use before it waits next
//! ([`Scx::work_left`]). A simulator knows that, and a kernel does not, so this is a policy to
//! compare with: how far is a scheduler that guesses from one that knows? A task that computes
//! without an end in sight runs in the background, in turns. One that goes on to its next request
//! without a wait is compared with others when the next task wakes.
//!
//! A long computation waits as long as shorter ones arrive. If that is 30 s the policy has forgotten
//! a task, and is unloaded.

use super::urgency::{BACKGROUND, Urgency};
use crate::ops::{Ops, Policy};
use crate::scx::Scx;
use crate::words::{EnqFlags, Needs, WakeFlags};
use zerolag_model::{CpuId, TaskId};

/// Shortest remaining time first.
#[derive(Clone, Debug, Default)]
pub struct Srtf {
    urgency: Urgency,
}

impl Srtf {
    fn measure(&mut self, scx: &Scx, p: TaskId) {
        self.urgency.of[p] = scx.work_left(p).map_or(BACKGROUND, |left| left.as_nanos());
    }
}

impl Policy for Srtf {
    fn ops(&self) -> Ops {
        Ops { needs: Needs::WORK, ..Ops::named("srtf") }
    }

    fn init(&mut self, scx: &mut Scx) {
        Urgency::init(scx);
    }

    /// Every task passes through the queue, so that the shortest one gets a CPU that is idle.
    fn select_cpu(&mut self, _scx: &mut Scx, _p: TaskId, prev_cpu: CpuId, _flags: WakeFlags) -> CpuId {
        prev_cpu
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        self.measure(scx, p);
        // Those that run have less left than when they began.
        for cpu in (0..scx.nr_cpus()).map(CpuId::from_index) {
            if let Some(current) = scx.cpu_curr(cpu) {
                self.measure(scx, current);
            }
        }
        self.urgency.enqueue(scx, p, flags);
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        if let Some(prev) = prev {
            self.measure(scx, prev);
        }
        self.urgency.dispatch(scx, cpu, prev);
    }
}
