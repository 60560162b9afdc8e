//! Pushing: a CPU with waiting deadline tasks sends the earliest of them to a CPU where it can run
//! at once.
//!
//! A push begins when a task wakes or is replenished behind an earlier one, and when a switch
//! leaves tasks waiting. The waiting task with the earliest deadline is offered to the nearest CPU
//! without deadline tasks; if there is none, to the CPU with the latest earliest deadline, if the
//! task beats it. This is repeated until no task moves.
//!
//! The first task without a target ends the push: the tasks behind it have later deadlines and the
//! same CPUs to choose from, because every deadline task can use its whole root domain. The
//! real-time tasks that the same switch left waiting are pushed next.
//!
//! ```text
//!   begin -> earliest pushable --- before the current ------> resched here, end
//!              |        no target: end
//!              v
//!            Pair(own, target) --- resume: task gone, began to run or changed: begin again
//!              |                   target's deadline no longer later: find another, 3 times in all
//!              v
//!            move, resched target, begin again
//! ```
//!
//! Kernels before 6.7 push only from a CPU with two deadline tasks (`dl_overload`). differs: their
//! overload mask follows that count too. Here it has each CPU with a waiting task that may move.
//! Both name the same tasks to pull: none from a CPU where they cannot move, and none that is alone
//! and runs there at once (`runs_next` of a pull).
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`push_dl_task`, `find_later_rq`,
//! `find_lock_later_rq`); v5.15 `push_dl_task`, `update_dl_migration`.

use crate::balance::rt_push;
use crate::class::dl_later;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::ids::Slot;
use crate::words::resched::Resched;
use crate::words::step::{DlPush, PairCont, Step};
use lock_api::RawMutex;
use zerolag_model::settings::RtOverload;
use zerolag_model::{CpuId, Instant, MigrateReason, Prio};

/// How often a search is made when its target turns out unsuitable under the lock (`DL_MAX_TRIES`).
const MAX_TRIES: u8 = 3;

/// Begins pushing: returns the pair of run queues that the push needs, or ends it.
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    let Some((_, slot)) = rq.dl.pushable.first() else { return end(rq, cx) };
    if rq.dl.nr_running() < 2 && cx.config.settings.dl_overload == RtOverload::Queued {
        return end(rq, cx); // It waits behind a task of a lower class, and runs here at once.
    }
    // Other CPUs must see the waiting tasks before this CPU reads their state: see
    // `rt_push::begin`.
    rq.publish_first(cx);
    if is_about_to_run(rq, cx, slot) {
        if rq.phase() == Phase::Running {
            rq.resched(cx, Resched::Now);
        }
        return end(rq, cx);
    }
    match find_later(rq, cx, slot) {
        Some(target) => {
            let push = DlPush { task: rq.stay(slot), tries: 1 };
            Step::Pair { own: rq.cpu(), other: target, then: PairCont::DlPush(push) }
        }
        None => end(rq, cx),
    }
}

/// Ends the push of deadline tasks; the real-time tasks that wait behind them are pushed next.
fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    rt_push::left_behind(rq, cx)
}

/// Returns whether a waiting task is left here because it preempts the current deadline task, and
/// that one can be pushed instead. Behind a task of a lower class a waiting deadline task is
/// pushed, though it would run here at once: so `push_dl_task` does, and a replenished task moves
/// to a free CPU whenever there is one.
#[inline]
fn is_about_to_run<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot) -> bool {
    let Some(current) = rq.current_slot().map(|current| &rq.tasks[current]) else { return false };
    current.prio == Prio::DEADLINE
        && current.can_migrate(cx.shared.nr_cpus())
        && rq.tasks[slot].dl.abs_deadline < current.dl.abs_deadline
}

fn find_later<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Option<CpuId> {
    let task = &rq.tasks[slot];
    dl_later::find_later_for(cx, task.dl.abs_deadline, task.allowed.as_deref(), rq.cpu())
}

/// Returns whether a task with this deadline would be the first of its class on a CPU.
pub(crate) fn is_earliest(deadline: Instant, on: &Rq) -> bool {
    on.dl.earliest().is_none_or(|earliest| deadline < earliest)
}

/// Moves the chosen task if all conditions still hold, and continues.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, push: DlPush) -> Step {
    let Some(slot) = own.find_stay(push.task).filter(|slot| is_pushable(own, other, cx, *slot)) else {
        return begin(own, cx);
    };
    let is_target = other.is_online() && cx.shared.domain_of(own.cpu()) == cx.shared.domain_of(other.cpu());
    if !is_target || !is_earliest(own.tasks[slot].dl.abs_deadline, other) {
        return retry(own, cx, slot, push);
    }
    lifecycle::migrate(own, other, cx, slot, MigrateReason::Push);
    begin(own, cx)
}

fn is_pushable<L: RawMutex>(own: &Rq, other: &Rq, cx: &Cx<'_, L>, slot: Slot) -> bool {
    let task = &own.tasks[slot];
    own.dl.pushable.contains(&own.tasks, slot)
        && !own.is_on_cpu(slot)
        && !is_about_to_run(own, cx, slot)
        && task.may_run_on(other.cpu())
}

/// Searches for another target, a bounded number of times: the deadlines of this one are no longer
/// later.
fn retry<L: RawMutex>(own: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, push: DlPush) -> Step {
    if push.tries >= MAX_TRIES {
        cx.io.costs.pushes_given_up += 1;
        return end(own, cx);
    }
    match find_later(own, cx, slot) {
        Some(target) => {
            let again = DlPush { tries: push.tries + 1, ..push };
            Step::Pair { own: own.cpu(), other: target, then: PairCont::DlPush(again) }
        }
        None => end(own, cx),
    }
}
