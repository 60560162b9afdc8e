//! One queue in order of a number, with preemption: what [`Edf`](super::Edf), [`Rm`](super::Rm)
//! and [`Srtf`](super::Srtf) share.
//!
//! At any time the `n` tasks with the least numbers run on `n` CPUs, as far as their CPUs allow
//! (global scheduling; Dhall and Liu, *On a Real-Time Scheduling Problem*, Operations Research
//! 1978). A task that becomes runnable takes an idle CPU, or that of the current task with the
//! greatest number, if that is greater than its own. Tasks of one number run in turns, in order of
//! arrival.

use crate::scx::Scx;
use crate::storage::PerTask;
use crate::words::{DsqId, EnqFlags, KickFlags, SLICE_INF};
use zerolag_model::{CpuId, Duration, TaskId};

const READY: DsqId = DsqId(0);

/// The number of a task that has none: it runs when no other one does.
pub(super) const BACKGROUND: u64 = u64::MAX;

/// The queue, and the number of each task.
#[derive(Clone, Debug, Default)]
pub(super) struct Urgency {
    /// The less, the more urgent.
    pub(super) of: PerTask<u64>,
}

impl Urgency {
    pub(super) fn init(scx: &mut Scx) {
        if let Err(error) = scx.create_dsq(READY) {
            scx.error(&alloc::format!("{error}"));
        }
    }

    /// An urgent task runs until it waits or is preempted; the others take turns.
    fn slice(&self, scx: &Scx, p: TaskId) -> Duration {
        if self.of[p] == BACKGROUND { scx.slice_dfl() } else { SLICE_INF }
    }

    pub(super) fn enqueue(&self, scx: &mut Scx, p: TaskId, flags: EnqFlags) {
        scx.dsq_insert_vtime(p, READY, self.slice(scx, p), self.of[p], flags);
        if let Some(cpu) = scx.pick_idle_cpu(p, false) {
            return scx.kick_cpu(cpu, KickFlags::IDLE);
        }
        let cpus = (0..scx.nr_cpus()).map(CpuId::from_index).filter(|cpu| scx.allowed(p, *cpu));
        let current = cpus.filter_map(|cpu| Some((self.of[scx.cpu_curr(cpu)?], cpu)));
        // Of several the last one: the search for an idle CPU begins at the first.
        if let Some((number, cpu)) = current.max()
            && number > self.of[p]
        {
            scx.kick_cpu(cpu, KickFlags::PREEMPT);
        }
    }

    pub(super) fn dispatch(&self, scx: &mut Scx, cpu: CpuId, prev: Option<TaskId>) {
        // The task that was preempted, or whose turn is over, is not on the queue yet.
        let first = scx.dsq_iter(READY).find(|p| scx.allowed(*p, cpu));
        if let Some(prev) = prev
            && first.is_none_or(|first| self.of[prev] < self.of[first])
        {
            return scx.set_slice(prev, self.slice(scx, prev));
        }
        scx.dsq_move_to_local(READY);
    }
}
