//! `vtime`: sharing by weight, on one queue in order of virtual time (`scx_simple` of the kernel's
//! `tools/sched_ext`, which was read for its facts).
//!
//! Virtual time passes at `100 / weight` of the time that a task runs, so that all tasks that are
//! always runnable have about the same. A task that wakes is at most one slice behind the queue:
//! sleeping saves up no more (`saved` slices). Weights of groups do not count, nor do limits.
//!
//! A turn lasts the slice of the machine at most. A task that wakes waits for the end of a turn:
//! there is no preemption.
//!
//! differs: `scx_simple` does not compare the task whose turn ends with the queue, so that two
//! tasks on a CPU take turns, whatever they weigh; and it charges the part of a turn before a
//! preemption by a class above twice.

use crate::ops::{Ops, Param, Policy};
use crate::scx::Scx;
use crate::storage::PerTask;
use crate::words::{DsqId, EnqFlags};
use zerolag_model::{CpuId, Duration, TaskId};

const SHARED: DsqId = DsqId(0);

/// Sharing by weight.
#[derive(Clone, Debug)]
pub struct Vtime {
    /// How many slices of virtual time a task that sleeps saves up at most.
    saved: u64,
    /// The virtual time of the task that began to run last.
    vtime_now: u64,
    /// The slice of a task when it began to run.
    began: PerTask<Duration>,
}

const PARAMS: &[Param] =
    &[Param::count("saved", 1, 0..=1000, "How many slices of virtual time a task that sleeps saves up at most")];

impl Default for Vtime {
    fn default() -> Self {
        Self { saved: PARAMS[0].default, vtime_now: 0, began: PerTask::default() }
    }
}

impl Vtime {
    /// Returns the virtual time of a task after what it has run.
    fn vtime_after(&self, scx: &Scx, p: TaskId) -> u64 {
        let used = self.began[p].saturating_sub(scx.slice(p));
        let used = used.mul_div_floor(100, u64::from(scx.weight(p).max(1)));
        scx.dsq_vtime(p).saturating_add(used.as_nanos())
    }
}

impl Policy for Vtime {
    fn ops(&self) -> Ops {
        Ops::named("vtime")
    }

    fn params(&self) -> &[Param] {
        PARAMS
    }

    fn set_param(&mut self, _index: usize, value: u64) {
        self.saved = value;
    }

    fn init(&mut self, scx: &mut Scx) {
        if let Err(error) = scx.create_dsq(SHARED) {
            scx.error(&alloc::format!("{error}"));
        }
    }

    fn enable(&mut self, scx: &mut Scx, p: TaskId) {
        scx.set_dsq_vtime(p, self.vtime_now);
    }

    fn enqueue(&mut self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        let slice = scx.slice_dfl();
        let saved = slice.as_nanos().saturating_mul(self.saved);
        let vtime = scx.dsq_vtime(p).max(self.vtime_now.saturating_sub(saved));
        scx.dsq_insert_vtime(p, SHARED, slice, vtime, flags);
    }

    fn dispatch(&mut self, scx: &mut Scx, _cpu: CpuId, prev: Option<TaskId>) {
        // The task whose turn ends is not on the queue yet: it goes on if it has had the least.
        if let Some(prev) = prev
            && let Some(first) = scx.dsq_peek(SHARED)
        {
            let vtime = self.vtime_after(scx, prev);
            if vtime < scx.dsq_vtime(first) {
                scx.set_dsq_vtime(prev, vtime);
                scx.set_slice(prev, scx.slice_dfl());
                self.began[prev] = scx.slice_dfl();
                return;
            }
        }
        scx.dsq_move_to_local(SHARED);
    }

    fn running(&mut self, scx: &mut Scx, p: TaskId) {
        self.vtime_now = self.vtime_now.max(scx.dsq_vtime(p));
        self.began[p] = scx.slice(p);
    }

    fn stopping(&mut self, scx: &mut Scx, p: TaskId, _runnable: bool) {
        scx.set_dsq_vtime(p, self.vtime_after(scx, p));
    }
}
