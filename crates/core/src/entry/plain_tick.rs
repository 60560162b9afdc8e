//! The plain tick: that of a fair task on the root's queue, by far the most frequent one.
//!
//! A tick passes through every class: the charge by the class of the current task, its servers, the
//! averages, the end of the turn. Each step is a function of its own that looks up what it works
//! on, since it is also called elsewhere, where the state between two steps can change. At a tick
//! nothing can, so one lookup of the task and one of its queue serve all steps. The same steps in
//! the same order as in [`Scheduler::tick`](crate::Scheduler::tick) for any other task: a tick that
//! is not plain changes nothing here, and takes the other way.

use crate::class::dl_server;
use crate::class::fair::{load, run};
use crate::entity::fair::{EntityRef, QueueIx};
use crate::lifecycle;
use crate::queue::fair::turn::{self, Charged};
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::ClassId;
use zerolag_model::settings::FairAlgorithm;

/// Does a plain tick; returns whether it was one. O(1).
#[inline(always)]
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> bool {
    if !rq.fair.tune.ticks_plainly || rq.phase() != Phase::Running || rq.need_resched() != Resched::No {
        return false;
    }
    let Some(slot) = rq.current_slot() else { return false };
    let now = rq.clock_task();
    let task = &mut rq.tasks[slot];
    let delta = now.since(task.exec_start);
    // A task that waits although it is current was moved into a throttled group.
    let waits_or_is_elsewhere = task.fair.node.is_some() || task.fair.queue != QueueIx::ROOT;
    if task.prio.class() != ClassId::Fair || waits_or_is_elsewhere || delta.is_zero() {
        return false;
    }
    task.exec_start = now;
    task.counters.exec += delta;
    let ran = task.fair.charge(FairAlgorithm::Eevdf, delta, rq.fair.tune.base_slice);
    if ran != Charged::GoesOn {
        turn::note_end(&mut rq.fair, &mut rq.tasks, QueueIx::ROOT, EntityRef::Task(slot), ran);
    }
    dl_server::charge(rq, cx, ClassId::Fair, delta);
    load::take_notes(rq, cx);
    if now >= rq.fair.references_due {
        run::follow_references(rq, slot, QueueIx::ROOT);
    }
    let due = core::mem::take(&mut rq.fair.due);
    if due != Resched::No {
        rq.resched(cx, lifecycle::soften(due, cx.config.settings.preempt));
    }
    true
}
