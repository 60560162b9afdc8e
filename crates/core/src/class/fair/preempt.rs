//! Preemption: whether a fair task that was just queued runs before the current one.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `check_preempt_wakeup_fair`, `find_matching_se`;
//! v7.2 and v7.3, `wakeup_preempt_fair`.

use crate::class::fair::delay;
use crate::entity::fair::{Claim, EntityRef, QueueIx, Standing};
use crate::queue::fair::{cfs, eevdf, preempt};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::settings::FairAlgorithm;
use zerolag_model::{FairPolicy, SchedAttr};

/// Returns whether a fair task that was just enqueued preempts the current fair task.
pub(crate) fn check_preempt<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, current: Slot, woken: Slot) -> Resched {
    if current == woken {
        return Resched::No;
    }
    if rq.fair.tune.next_buddy {
        cfs::prefer(&mut rq.fair, &rq.tasks, EntityRef::Task(current), EntityRef::Task(woken));
    }
    // Also a switch that is due can be to another task than the woken one.
    if !rq.fair.tune.short_wakeup_first {
        if rq.need_resched() == Resched::Now {
            return Resched::No;
        }
        if rq.fair.due == Resched::Now {
            return Resched::Now;
        }
    }
    if !rq.fair.tune.wakeup_preemption {
        return rq.fair.due;
    }
    let preempts = compare(rq, cx, current, woken);
    preempts.max(rq.fair.due)
}

/// Compares a fair task that was just enqueued with the current one.
fn compare<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, current: Slot, woken: Slot) -> Resched {
    let (running, waking) = preempt::siblings(&rq.fair, &rq.tasks, current, woken);
    match (rq.entity(running).standing, rq.entity(waking).standing) {
        (Standing::Ordinary | Standing::Spared, Standing::Ordinary | Standing::Spared) => {}
        (Standing::Ordinary | Standing::Spared, Standing::Boosted) => return Resched::Now,
        (Standing::Boosted, _) => return Resched::No,
    }
    match (rq.entity(running).is_idle, rq.entity(waking).is_idle) {
        (true, false) => {
            rq.entity_mut(running).claim = Claim::None;
            return Resched::Now;
        }
        (false, true) => return fails(rq, running),
        (true, true) | (false, false) => {}
    }
    match rq.tasks[woken].attr {
        SchedAttr::Fair { policy: FairPolicy::Other | FairPolicy::Ext, .. } => {}
        SchedAttr::Fair { policy: FairPolicy::Batch | FairPolicy::Idle, .. } => return fails(rq, running),
        SchedAttr::Rt { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. } => return Resched::No,
    }
    let q = rq.entity(running).queue;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => {
            if rq.fair.tune.wakeup_past_delayed {
                end_delayed(rq, cx, q, running, waking);
            }
            eevdf::preempts(&mut rq.fair, &mut rq.tasks, q, running, waking)
        }
        FairAlgorithm::Cfs => cfs::preempts(&mut rq.fair, &mut rq.tasks, q, running, waking),
    }
}

/// A wakeup that does not preempt. Since 7.3 it shortens the protection of the current entity.
fn fails(rq: &mut Rq, running: EntityRef) -> Resched {
    if rq.fair.tune.wakeup_ends_protection {
        let q = rq.entity(running).queue;
        eevdf::shorten_protection(&mut rq.fair, &mut rq.tasks, q, running);
    }
    Resched::No
}

/// Ends the delayed dequeues of a queue that hide the woken entity: an entity that would be picked
/// has repaid its lag. Until 7.0 such an entity was compared with the woken one, which then did not
/// preempt.
fn end_delayed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx, current: EntityRef, woken: EntityRef) {
    // The current entity is never delayed here, so this ends.
    loop {
        let first = eevdf::pick_at_wakeup(&rq.fair, &rq.tasks, q, current, woken);
        if !rq.entity(first).is_delayed() {
            return;
        }
        delay::finish(rq, cx, first);
    }
}
