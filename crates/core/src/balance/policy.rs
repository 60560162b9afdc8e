//! Where a task of a policy wakes, and how bodies follow tasks to the local queues of other CPUs.
//! The class is [`crate::class::policy`].
//!
//! A policy puts tasks on local queues without a lock of a run queue. Before a CPU runs the first
//! task of its queue it takes the body from the run queue where it is: a step with both locks, at
//! which the queue is looked at again, because the task can have been dequeued meanwhile.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c`, `select_task_rq_scx`, `dispatch_one`,
//! `move_remote_task_to_local_dsq`. differs: the kernel moves the body when the task is inserted,
//! and gives its lock back for that; here it moves when the CPU is about to pick.

use crate::class::policy;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::body::Task;
use crate::words::ids::Slot;
use crate::words::life::{Engaged, Enqueue, Placement};
use crate::words::op::{Op, Work};
use crate::words::step::{PairCont, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, MigrateReason, TaskId};
use zerolag_policy::WakeFlags;

/// Chooses the CPU for a task that wakes.
#[cold]
#[inline(never)]
pub(crate) fn select<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, why: Placement) -> CpuId {
    let flags = match why {
        Placement::Wakeup => WakeFlags::TTWU,
        Placement::SyncWakeup => WakeFlags::TTWU | WakeFlags::SYNC,
        Placement::Fork => WakeFlags::FORK,
        Placement::Displaced => WakeFlags::NONE,
    };
    let by = cx.by;
    policy::with(cx, |loaded| {
        policy::announce(loaded, task);
        loaded.host.select_cpu(task.id, task.last_cpu, by, flags)
    })
}

/// Asks an idle CPU to take a task that has just woken and waits on the machine's queue: its policy
/// does not look at that queue, and the CPU that was idle may not have been when it was looked for.
#[cold]
#[inline(never)]
pub(crate) fn woken<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let (id, cpu) = (rq.tasks[slot].id, rq.cpu());
    let idle = policy::idle_for_global(cx, id);
    if let Some(idle) = idle.filter(|idle| *idle != cpu) {
        cx.io.op(Op::Ipi { cpu: idle, work: Work::ExtKick { even_if_busy: false } });
    }
}

/// Fills the local queue of a CPU that is about to pick a task of the class, and fetches the body
/// of the first one.
#[cold]
#[inline(never)]
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    policy::dispatch(rq, cx);
    fetch(rq, cx)
}

fn fetch<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Step {
    match policy::missing(rq, cx) {
        Some((task, home)) => Step::Pair { own: rq.cpu(), other: home, then: PairCont::ExtTake(task) },
        None => Step::Done,
    }
}

/// Takes the body of a task that is on the local queue of `own` and belongs to `other`.
#[cold]
#[inline(never)]
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, task: TaskId) -> Step {
    let is_about_to_pick = matches!(own.phase(), Phase::Switching { .. });
    let cpu = own.cpu();
    let is_first = policy::quietly(cx, |host| host.local(cpu).any(|first| first == task));
    let home = cx.shared.home(task).filter(|(home, _)| *home == other.cpu());
    let body = home.map(|(_, slot)| slot).filter(|slot| other.tasks.get(*slot).is_some_and(|body| body.id == task));
    if let Some(slot) = body.filter(|slot| is_first && is_movable(other, *slot, own)) {
        policy::quietly(cx, |host| host.move_body(task));
        lifecycle::migrate_as(other, own, cx, slot, (MigrateReason::NewIdle, Enqueue::Dispatched));
        return Step::Done;
    }
    // It was dequeued meanwhile, or another CPU has it: look again, if that is not the same.
    match fetch(own, cx) {
        Step::Pair { then: PairCont::ExtTake(again), .. } if again == task => Step::Done,
        step if is_about_to_pick => step,
        _ => Step::Done,
    }
}

fn is_movable(other: &Rq, slot: Slot, own: &Rq) -> bool {
    let task = &other.tasks[slot];
    own.is_online() && task.may_run_on(own.cpu()) && task.engaged == Engaged::No && !other.is_on_cpu(slot)
}
