//! Pulling: a CPU that leaves a deadline task looks for one that waits on another CPU.
//!
//! It visits every CPU of its root domain's overload mask in order of number. Under both locks it
//! takes the waiting task with the earliest deadline, if that task would be the first here and is
//! not about to run on its own CPU. Outside a switch, the real-time class pulls next ([`rt_pull`]);
//! in a switch, `pick` takes care of that.
//!
//! While no deadline task waits, nothing happens and nothing is charged.
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`pull_dl_task`, `need_pull_dl_task`,
//! `switched_from_dl`). differs: the kernel does not pull when a CPU comes online; there a task
//! waits that could run.

use crate::balance::{dl_push, rt_pull};
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::deadline;
use crate::words::ids::{CpusetId, Slot};
use crate::words::lines::LineAccess;
use crate::words::step::{PairCont, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, MigrateReason, Prio};

/// Begins pulling behind the deadline task that the CPU is about to leave. Since 5.4 that is done
/// only if the task has left its queue: one that goes on with a later deadline, since its budget
/// was replenished, keeps the CPU from an earlier one that waits elsewhere
/// (`dl_pull_beside`). That one moves when its own CPU pushes it.
///
/// Source: Linux v7.3 `kernel/sched/deadline.c`, `balance_dl` (`on_dl_rq`).
pub(crate) fn after<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    let goes_on = rq.current_slot().is_some_and(|slot| deadline::is_contending(&rq.tasks[slot]));
    if goes_on && !cx.config.settings.dl_pull_beside { Step::Done } else { begin(rq, cx) }
}

/// Begins pulling: this CPU leaves a deadline task, has just lost one, or comes online.
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if !rq.is_online() {
        return Step::Done;
    }
    // Other CPUs must see that this CPU has become later before it reads their state: see
    // `rt_push::begin`.
    rq.publish_first(cx);
    if !cx.io.observer.is_off() {
        cx.io.log(LineAccess::OverloadLook);
    }
    next(rq, cx, CpuId(0))
}

/// Returns the step for the next overloaded CPU with a task that is earlier than the next one here.
fn next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: CpuId) -> Step {
    let mut from = from;
    // Bounded by the CPUs of the mask: `from` only grows.
    let overloaded = &cx.shared.domain(rq.cpu()).dl_overload;
    while let Some(cpu) = cx.io.observer.cpu(|| overloaded.next_and(None, from)) {
        from = CpuId(cpu.0 + 1);
        if cpu == rq.cpu() {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        let waits = cx.view().deadlines(cpu).pushable;
        if waits.is_some_and(|deadline| dl_push::is_earliest(deadline, rq)) {
            return Step::Pair { own: rq.cpu(), other: cpu, then: PairCont::DlPull };
        }
    }
    match rq.phase() {
        Phase::Switching { .. } => Step::Done,
        Phase::Running => rt_pull::begin(rq, cx, Prio::DEADLINE, CpusetId::default()),
    }
}

/// Returns whether a waiting task runs on its CPU as soon as that schedules. Such a task is not
/// taken away.
fn runs_next(rq: &Rq, slot: Slot) -> bool {
    rq.current_deadline().is_none_or(|current| rq.tasks[slot].dl.abs_deadline < current)
}

/// Takes the task of `other` that comes before this CPU's next task, and continues with the next
/// overloaded CPU.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if !own.is_online() {
        return Step::Done;
    }
    let best = other.dl.pushable.first_that(|slot| {
        cx.io.costs.tasks_scanned += 1;
        other.tasks[slot].may_run_on(own.cpu()) && !other.is_on_cpu(slot)
    });
    let mut from = CpuId(other.cpu().0 + 1);
    if let Some((deadline, slot)) = best
        && cx.shared.domain_of(own.cpu()) == cx.shared.domain_of(other.cpu())
        && dl_push::is_earliest(deadline, own)
        && !runs_next(other, slot)
    {
        lifecycle::migrate(other, own, cx, slot, MigrateReason::Pull);
        // The task's old deadline would still be the first here, so it got a later one on arrival.
        // The next task of the same CPU can now be the first.
        if dl_push::is_earliest(deadline, own) {
            from = other.cpu();
        }
    }
    next(own, cx, from)
}
