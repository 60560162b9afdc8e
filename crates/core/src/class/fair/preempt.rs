//! Preemption: whether a fair task that was just queued runs before the current one.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `check_preempt_wakeup_fair`, `find_matching_se`.

use crate::entity::fair::{EntityRef, Standing};
use crate::queue::fair::{cfs, eevdf};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::settings::FairAlgorithm;

/// Returns whether a fair task that was just queued preempts the current fair task.
pub(crate) fn check_preempt<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, current: Slot, woken: Slot) -> Resched {
    if current == woken || rq.need_resched == Resched::Now {
        return Resched::No;
    }
    if rq.fair.due == Resched::Now {
        return Resched::Now;
    }
    if !rq.fair.tune.wakeup_preemption {
        return Resched::No;
    }
    let (running, waking) = siblings(rq, current, woken);
    match (rq.entity(running).standing, rq.entity(waking).standing) {
        (Standing::Ordinary, Standing::Ordinary) => {}
        (Standing::Ordinary, Standing::Boosted) => return Resched::Now,
        (Standing::Boosted, _) => return Resched::No,
    }
    match (rq.entity(running).is_idle, rq.entity(waking).is_idle) {
        (true, false) => {
            rq.entity_mut(running).protected = None;
            return Resched::Now;
        }
        (false, true) => return Resched::No,
        (true, true) | (false, false) => {}
    }
    let q = rq.entity(running).queue;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::preempts(rq, q, running, waking, woken),
        FairAlgorithm::Cfs => cfs::preempts(rq, q, running, waking, woken),
    }
}

/// Returns the ancestors of two tasks (or the tasks) that are on one queue. O(depth). Linux `find_matching_se`.
pub(crate) fn siblings(rq: &Rq, one: Slot, other: Slot) -> (EntityRef, EntityRef) {
    let depth = |slot: Slot| {
        let mut depth = 0;
        let mut q = rq.tasks[slot].fair.queue;
        while let Some(parent) = rq.queue(q).parent {
            depth += 1;
            q = parent;
        }
        depth
    };
    let up = |entity: EntityRef| EntityRef::Group(rq.entity(entity).queue);
    if rq.tasks[one].fair.queue == rq.tasks[other].fair.queue {
        return (EntityRef::Task(one), EntityRef::Task(other)); // As nearly always.
    }
    let (mut one_depth, mut other_depth) = (depth(one), depth(other));
    let (mut one, mut other) = (EntityRef::Task(one), EntityRef::Task(other));
    while one_depth > other_depth {
        one = up(one);
        one_depth -= 1;
    }
    while other_depth > one_depth {
        other = up(other);
        other_depth -= 1;
    }
    while rq.entity(one).queue != rq.entity(other).queue {
        one = up(one);
        other = up(other);
    }
    (one, other)
}
