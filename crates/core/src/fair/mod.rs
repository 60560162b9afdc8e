//! The fair class: stand-in while the real one is written.
pub(crate) mod balance;
pub(crate) mod select;

use crate::class::{Dequeue, Dequeued, Enqueue};
use crate::config::Config;
use crate::rq::{Cx, Rq};
use crate::slab::Slot;
use crate::step::Resched;
use alloc::collections::BTreeSet;
use lock_api::RawMutex;
use zerolag_model::{Duration, TaskId};

#[derive(Debug, Default)]
pub(crate) struct FairEntity {
    vruntime: u64,
}

#[derive(Debug)]
pub(crate) struct FairRq {
    queue: BTreeSet<(u64, TaskId, Slot)>,
    min: u64,
    load: u64,
}

impl FairRq {
    pub(crate) fn new(_config: &Config) -> Self {
        Self { queue: BTreeSet::new(), min: 0, load: 0 }
    }
    pub(crate) const fn load(&self) -> u64 {
        self.load
    }
}

pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    let task = &mut rq.tasks[slot];
    if why != Enqueue::Changed {
        task.fair.vruntime = rq.fair.min;
    }
    rq.fair.load += 1024;
    if rq.current != Some(slot) {
        rq.fair.queue.insert((task.fair.vruntime, task.id, slot));
    }
}

pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot, _why: Dequeue) -> Dequeued {
    let task = &rq.tasks[slot];
    rq.fair.load -= 1024;
    rq.fair.queue.remove(&(task.fair.vruntime, task.id, slot));
    Dequeued::Gone
}

pub(crate) fn charge(rq: &mut Rq, _config: &Config, slot: Slot, delta: Duration) {
    rq.tasks[slot].fair.vruntime += delta.as_nanos();
}

pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>) -> Option<Slot> {
    let first = rq.fair.queue.first().copied();
    let current = rq.current.filter(|slot| !rq.tasks[*slot].prio.is_rt());
    match (first, current) {
        (Some((vruntime, _, slot)), Some(current)) => {
            Some(if rq.tasks[current].fair.vruntime <= vruntime { current } else { slot })
        }
        (Some((_, _, slot)), None) => Some(slot),
        (None, current) => current,
    }
}

pub(crate) fn put_prev<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    rq.fair.queue.insert((task.fair.vruntime, task.id, slot));
}

pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    rq.fair.min = rq.fair.min.max(task.fair.vruntime);
    rq.fair.queue.remove(&(task.fair.vruntime, task.id, slot));
}

pub(crate) fn check_preempt<L: RawMutex>(_rq: &mut Rq, _cx: &mut Cx<'_, L>, _current: Slot, _woken: Slot) -> Resched {
    Resched::No
}

pub(crate) fn yield_current<L: RawMutex>(_rq: &mut Rq, _cx: &mut Cx<'_, L>, _slot: Slot) {}

/// Returns whether the current task's turn is over.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, _slot: Slot) -> Resched {
    if rq.fair.queue.is_empty() { Resched::No } else { Resched::Now }
}

/// Wakes a task whose dequeue is delayed; `false` if it is not.
pub(crate) fn wake_delayed<L: RawMutex>(_rq: &mut Rq, _cx: &mut Cx<'_, L>, _slot: Slot) -> bool {
    false
}
