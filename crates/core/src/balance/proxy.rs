//! Proxy execution (`proxy_exec`): a task that waits for a lock in the kernel lends its turn to
//! whoever holds the lock.
//!
//! *Donor*: whose turn it is; this is the CPU's current task to the classes, which order, charge
//! and preempt it. *Executor*: whose code runs on that turn; it is the donor itself unless that
//! waits. A blocked donor stays queued, competes as if it wanted to run, and when it is picked the
//! CPU runs the task at the end of the chain: the holder of the lock that the holder of its lock
//! waits for, and so on. So a holder that is preempted, or whose group is throttled, goes on as
//! soon as somebody waits who may run; and nobody's priority is changed.
//!
//! ```text
//!            waits for a lock that is held on this run queue, or is put there for it (`lend`) [1]
//!   free -------------------------------------------------------------------------------------> lends
//!        <-------------------------------------------------------------------------------------
//!            is woken [2]; or picked, and nobody here could run on its turn: it is parked after all [3]
//!
//!            a lender is picked, it is the end of the chain and in kernel mode [4]
//!   free -------------------------------------------------------------------------------------> executes
//!        <-------------------------------------------------------------------------------------
//!            the CPU leaves it, or the lender is woken [5]
//! ```
//!
//! What runs is charged once, to the donor: its slice, its virtual time, its group's quota. Only
//! the counter of CPU time is the executor's. Who lends or executes is moved by nobody.
//!
//! The host numbers its locks, says who holds each ([`Scheduler::set_lock_owner`]), and that a task
//! blocks on one ([`Leave::BlockOn`](crate::Leave::BlockOn)). A waiter whose lock is held on
//! another run queue is handed out as any blocked task; the host may put it there with
//! [`Scheduler::lend`]. When the lock is its it goes back: such a one is not placed where it lent.
//!
//! Work: a run queue where nobody lends pays one comparison per choice. A choice is O(lenders) for
//! each one that is parked, and once more.
//!
//! Sources: Linux v6.17 `kernel/sched/core.c`, `find_proxy_task`, `proxy_tag_curr`,
//! `proxy_deactivate`; `fair.c`, `update_se`; Stultz 2025, "Proxy execution" (the series with
//! `proxy_migrate_task`); Watkins, Straub, Niehaus 2009, "Towards Multi-Processor Proxy Execution".
//! differs: kernels lend for mutexes only, here for any lock of which the host names one holder; a
//! waiter goes to the holder's CPU when it blocks, not when it is picked; deadline tasks lend on
//! their own CPU only.

use crate::class::fair;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue;
use crate::rq::run_queue::{Executor, Rq};
use crate::task::body::Parcel;
use crate::task::deadline;
use crate::words::ids::{LockId, Slot};
use crate::words::life::{Dequeue, Dequeued, Engaged};
use crate::words::mode::TaskMode;
use lock_api::RawMutex;
use zerolag_model::{TaskId, TraceEvent};

/// The acting task blocks on a lock: returns whether it lends its turn here. [1]
#[cold]
#[inline(never)]
pub(crate) fn lends<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, lock: LockId) -> bool {
    // If it leads back to itself nobody can run.
    if !cx.config.settings.proxy_exec || !rq.is_online() || end_of_chain(rq, cx, lock).is_none_or(|end| end == slot) {
        return false;
    }
    let from = rq.cpu();
    lifecycle::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::Lends { lock, from });
    rq.add_lender();
    true
}

/// Returns the task to run next, a lender for whom another runs included; that one is made the
/// executor.
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    debug_assert!(rq.executor().is_none(), "the CPU has left it");
    // Bounded: each turn but the last takes a lender off the queue.
    loop {
        let donor = lifecycle::pick(rq, cx)?;
        let Engaged::Lends { lock, .. } = rq.tasks[donor].engaged else { return Some(donor) };
        let Some(slot) = end_of_chain(rq, cx, lock) else {
            take_off(rq, cx, donor, Dequeue::Sleep); // [3]
            continue;
        };
        lifecycle::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::Executes); // [4]
        rq.set_executor(Some(Executor { slot, settled: rq.tasks[donor].counters.exec }));
        let (task, lender, prio) = (rq.tasks[slot].id, rq.tasks[donor].id, rq.tasks[donor].prio);
        cx.io.event(cx.now, rq.cpu(), || TraceEvent::Proxy { task, donor: Some(lender), prio });
        return Some(donor);
    }
}

fn find<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, task: TaskId) -> Option<Slot> {
    cx.shared.home(task).filter(|(cpu, slot)| *cpu == rq.cpu() && rq.tasks.get(*slot).is_some()).map(|(_, slot)| slot)
}

/// Follows who holds what, from a lock on; returns the task here that can run on the turn of
/// whoever waits. `None`: nobody has the lock alone, a holder is elsewhere, sleeps or is in user
/// mode, or the chain is a circle.
pub(crate) fn end_of_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, lock: LockId) -> Option<Slot> {
    let mut lock = lock;
    // More holders that wait than lenders: a circle.
    for _ in 0..=rq.nr_lending() {
        let owners = &cx.shared.lock_owners;
        let owner = cx.io.observer.u64(|| owners.get(lock).map_or(0, |task| u64::from(task.0) + 1)).checked_sub(1)?;
        let slot = find(rq, cx, TaskId(owner as u32))?;
        let body = &rq.tasks[slot];
        match body.engaged {
            Engaged::Lends { lock: next, .. } => lock = next,
            Engaged::No | Engaged::Executes => {
                let can_run = body.mode == TaskMode::Kernel
                    && body.may_run_on(rq.cpu())
                    && !fair::is_delayed(rq, slot)
                    && !deadline::is_throttled(body);
                return can_run.then_some(slot);
            }
        }
    }
    None
}

/// Moves what the executor ran from the donor's counter of CPU time to its own.
#[inline]
pub(crate) fn settle(rq: &mut Rq) {
    let (Some(executor), Some(donor)) = (rq.executor(), rq.current_slot()) else { return };
    let ran = core::mem::replace(&mut rq.tasks[donor].counters.exec, executor.settled) - executor.settled;
    rq.tasks[executor.slot].counters.exec += ran;
}

/// The executor does not run on another's turn any more. Returns it. [5]
#[cold]
#[inline(never)]
pub(crate) fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Slot {
    settle(rq);
    let Executor { slot, .. } = rq.take_executor().expect("invariant: the caller has seen it");
    lifecycle::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::No);
    rq.tasks[slot].last_ran = cx.now.wall;
    let (task, prio) = (rq.tasks[slot].id, rq.tasks[slot].prio);
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::Proxy { task, donor: None, prio });
    slot
}

pub(crate) fn free<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    rq.remove_lender();
    lifecycle::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::No);
}

/// Takes a lender off the queue: its body goes to [`Io::parked`], unless it must stay for what it
/// owes.
pub(crate) fn take_off<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) {
    let Engaged::Lends { from, .. } = rq.tasks[slot].engaged else { unreachable!("only a lender is taken off so") };
    free(rq, cx, slot);
    // A visitor does not stay, whatever it owes.
    let why = if from == rq.cpu() { why } else { Dequeue::Migrate };
    match lifecycle::dequeue(rq, cx, slot, why) {
        Dequeued::Delayed => {}
        Dequeued::Gone => {
            if rq.current_slot() == Some(slot) {
                rq.quit_current(slot);
                rq.tasks[slot].last_ran = cx.now.wall;
            }
            let mut body = run_queue::detach(rq, cx, slot);
            body.last_cpu = from;
            cx.io.parked.push(Parcel(body));
        }
    }
}

/// As [`take_off`], if the task lends; returns whether it does.
pub(crate) fn take_off_lender<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let lends = matches!(rq.tasks[slot].engaged, Engaged::Lends { .. });
    if lends {
        take_off(rq, cx, slot, Dequeue::Sleep);
    }
    lends
}
