//! `central`: one CPU decides for all (`scx_central` of the kernel's `tools/sched_ext`, which was
//! read for its facts).
//!
//! Every task that waits is in one queue, in order of arrival. Only the central CPU looks at it: it
//! inserts tasks into the local queues of the other CPUs and kicks them. A CPU that runs out of
//! tasks kicks the central one. So the queue is never contended, and the other CPUs need no tick.
//! The price is a detour over the central CPU at every switch.
//!
//! A turn lasts the slice of the machine. The kernel's example gives infinite slices and ends turns
//! by a timer of the central CPU; here the tick of each CPU does.

use crate::ops::{Ops, Policy};
use crate::scx::Scx;
use crate::words::{DeqFlags, DsqId, EnqFlags, KickFlags, OpsFlags, WakeFlags};
use alloc::collections::VecDeque;
use zerolag_model::{CpuId, TaskId};

/// One CPU decides for all.
#[derive(Clone, Debug, Default)]
pub struct Central {
    cpu: u32,
    queue: VecDeque<TaskId>,
}

impl Central {
    /// Returns the policy with the CPU that decides; by default it is CPU 0.
    #[must_use]
    pub fn on(cpu: CpuId) -> Self {
        Self { cpu: cpu.0, ..Self::default() }
    }

    const fn central(&self) -> CpuId {
        CpuId(self.cpu)
    }

    /// Inserts the first waiting task that is allowed on a CPU into its local queue.
    fn serve(&mut self, scx: &mut Scx, cpu: CpuId) -> bool {
        let Some(at) = self.queue.iter().position(|p| scx.allowed(*p, cpu)) else { return false };
        let p = self.queue[at];
        self.queue.remove(at);
        scx.dsq_insert(p, DsqId::local_on(cpu), scx.slice_dfl(), EnqFlags::NONE);
        true
    }
}

impl Policy for Central {
    fn ops(&self) -> Ops {
        // A task whose turn is over is queued also if no other one is there: the central CPU decides.
        Ops { flags: OpsFlags::ENQ_LAST, dispatch_max_batch: 4096, ..Ops::named("central") }
    }

    fn select_cpu(&mut self, scx: &mut Scx, p: TaskId, prev_cpu: CpuId, _flags: WakeFlags) -> CpuId {
        // Waking on the central CPU saves an interrupt: it decides there.
        if scx.allowed(p, self.central()) { self.central() } else { prev_cpu }
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, _flags: EnqFlags) {
        self.queue.push_back(p);
        scx.kick_cpu(self.central(), KickFlags::PREEMPT);
    }

    fn dequeue(&mut self, _scx: &mut Scx, p: TaskId, _flags: DeqFlags) {
        self.queue.retain(|waiting| *waiting != p);
    }

    fn dispatch(&mut self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        let central = self.central();
        if cpu != central {
            match prev.filter(|_| self.queue.is_empty()) {
                Some(prev) => scx.set_slice(prev, scx.slice_dfl()), // No other task waits.
                None if self.queue.is_empty() => {}
                None => scx.kick_cpu(central, KickFlags::PREEMPT),
            }
            return;
        }
        for other in (0..scx.nr_cpus()).map(CpuId::from_index).filter(|other| *other != central) {
            let is_free = scx.cpu_online(other)
                && scx.cpu_curr(other).is_none()
                && scx.dsq_nr_queued(DsqId::local_on(other)) == 0;
            if is_free && !self.queue.is_empty() && self.serve(scx, other) {
                scx.kick_cpu(other, KickFlags::NONE);
            }
        }
        if !self.serve(scx, central)
            && let Some(prev) = prev
        {
            scx.set_slice(prev, scx.slice_dfl());
        }
    }
}
