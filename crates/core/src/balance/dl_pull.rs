//! Pulling: a CPU that leaves a deadline task looks for one that waits elsewhere.
//!
//! It visits every CPU of its root domain's overload mask in order of number and, under both locks,
//! takes the waiting task of earliest deadline if it would be the first here and is not about to
//! run where it is. Outside a switch the real-time class looks next ([`rt::pull`]); in a switch
//! `pick` sees to that.
//!
//! Nothing happens, and nothing is charged, while no deadline task waits.
//!
//! Sources: Linux v6.12 `kernel/sched/deadline.c` (`pull_dl_task`, `need_pull_dl_task`,
//! `switched_from_dl`). differs: the kernel pulls neither when a CPU comes online nor when a task
//! goes on with a later deadline (yield, debt of a period); a task would wait that could run.

use crate::balance::{dl_push, rt_pull};
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::words::ids::CpusetId;
use crate::words::step::{PairCont, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, MigrateReason, Prio};

/// Begins pulling: this CPU leaves a deadline task, has just lost one, or came online.
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if !rq.is_online() {
        return Step::Done;
    }
    // Others must see that this CPU has become later before it looks at them: see `push::begin`.
    rq.publish_first(cx);
    next(rq, cx, CpuId(0))
}

/// Answers with the next overloaded CPU that has something earlier than what would run here.
fn next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: CpuId) -> Step {
    let mut from = from;
    // Bounded by the CPUs of the mask: `from` only grows.
    while let Some(cpu) = cx.view().next_dl_overloaded(rq.cpu(), from) {
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

/// Takes from `other` what comes before this CPU's next task, and goes on to the next overloaded
/// CPU.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if !own.is_online() {
        return Step::Done;
    }
    let best = other.dl.pushable.first_that(|slot| {
        cx.io.costs.tasks_scanned += 1;
        other.tasks[slot].may_run_on(own.cpu())
    });
    let mut from = CpuId(other.cpu().0 + 1);
    if let Some((deadline, slot)) = best
        && cx.shared.domain_of(own.cpu()) == cx.shared.domain_of(other.cpu())
        && dl_push::is_earliest(deadline, own)
        && !dl_push::is_about_to_run(other, slot)
    {
        lifecycle::migrate(other, own, cx, slot, MigrateReason::Pull);
        if dl_push::is_earliest(deadline, own) {
            from = other.cpu(); // Its deadline was over and it got a later one here: who is next there may be the first now.
        }
    }
    next(own, cx, from)
}
