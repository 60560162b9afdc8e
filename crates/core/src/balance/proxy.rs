//! Proxy execution (`proxy_exec`): a task that waits for a lock in the kernel lends its turn to the
//! holder of the lock.
//!
//! The problem is priority inversion: the holder is preempted, or its group is throttled, while
//! more urgent tasks wait for its lock. Proxy execution solves it without changing any priority, by
//! splitting the current task in two:
//!
//! * The *donor* is the task that was picked. It is the CPU's current task for the classes, which
//!   order, charge and preempt it.
//! * The *executor* is the task that runs on the donor's turn. It is the donor itself unless the
//!   donor waits for a lock.
//!
//! A blocked donor stays queued and competes as if it wanted to run. When it is picked, the CPU
//! runs the task at the end of the chain: the holder of its lock, or the holder of the lock that
//! this holder waits for, and so on. So a lock holder continues as soon as any waiter can run.
//!
//! ```text
//!            waits for a lock that is held on this run queue, or is put there for it (`lend`) [1]
//!   free ------------------------------------------------------------------------------> lends
//!        <------------------------------------------------------------------------------
//!            woken [2]; or picked while no task here can run on its turn: parked after all [3]
//!
//!            a lender is picked, it is the end of the chain and in kernel mode [4]
//!   free ------------------------------------------------------------------------------> executes
//!        <------------------------------------------------------------------------------
//!            the CPU leaves it, or the lender is woken [5]
//! ```
//!
//! Execution time is charged once, to the donor: to its slice, its virtual time and its group's
//! quota. Only the counter of CPU time is the executor's. Donors and executors are never migrated.
//!
//! The host numbers its locks, reports the holder of each ([`Scheduler::set_lock_owner`]), and
//! reports when a task blocks on one ([`Leave::BlockOn`]). A waiter for a lock that is held on
//! another run queue is handed out like any blocked task; the host can put it there with
//! [`Scheduler::lend`]. Once the waiter gets the lock, it returns to its original CPU: it is not
//! placed by where it lent.
//!
//! Work: a run queue without lenders pays one comparison per pick. A pick follows a chain in
//! O(lenders), once per lender that it parks and once more.
//!
//! Sources: Linux v6.17 `kernel/sched/core.c`, `find_proxy_task`, `proxy_tag_curr`,
//! `proxy_deactivate`; `fair.c`, `update_se`; Stultz 2025, "Proxy execution" (the series with
//! `proxy_migrate_task`); Watkins, Straub, Niehaus 2009, "Towards Multi-Processor Proxy Execution".
//! differs: kernels lend for mutexes only, this scheduler for any lock with one holder that the
//! host reports; a waiter moves to the holder's CPU when it blocks, not when it is picked; deadline
//! tasks lend on their own CPU only.
//!
//! [`Scheduler::set_lock_owner`]: crate::Scheduler::set_lock_owner
//! [`Scheduler::lend`]: crate::Scheduler::lend
//! [`Leave::BlockOn`]: crate::Leave::BlockOn

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
use zerolag_model::{ClassId, Duration, Prio, TaskId, TraceEvent};

/// Returns whether the acting task, which blocks on a lock, lends its turn here. \[1\]
#[cold]
#[inline(never)]
pub(crate) fn lends<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, lock: LockId) -> bool {
    // If the chain leads back to the task itself, no task can run.
    let is_ext = rq.tasks[slot].prio.class() == ClassId::Ext;
    if !cx.config.settings.proxy_exec
        || is_ext
        || !rq.is_online()
        || end_of_chain(rq, cx, lock).is_none_or(|end| end == slot)
    {
        return false;
    }
    let from = rq.cpu();
    lifecycle::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::Lends { lock, from });
    rq.add_lender();
    true
}

/// Picks the next task, which can be a lender: then the end of its chain becomes the executor.
///
/// # Errors
/// No task can run on the lender's turn, and the lender is taken off: its priority. The CPU is less
/// urgent without it, so the caller searches other CPUs again (`__schedule`, `pick_again`: classes
/// balance before each pick). \[3\]
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Result<Option<Slot>, Prio> {
    debug_assert!(rq.executor().is_none(), "the CPU has left it");
    let Some(donor) = lifecycle::pick(rq, cx) else { return Ok(None) };
    let Engaged::Lends { lock, .. } = rq.tasks[donor].engaged else { return Ok(Some(donor)) };
    let prio = rq.tasks[donor].prio;
    let Some(slot) = end_of_chain(rq, cx, lock) else {
        take_off(rq, cx, donor, Dequeue::Sleep);
        return Err(prio);
    };
    lifecycle::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::Executes); // [4]
    rq.set_executor(Some(Executor { slot, settled: rq.tasks[donor].counters.exec }));
    let (task, lender) = (rq.tasks[slot].id, rq.tasks[donor].id);
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::Proxy { task, donor: Some(lender), prio });
    Ok(Some(donor))
}

fn find<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, task: TaskId) -> Option<Slot> {
    cx.shared.home(task).filter(|(cpu, slot)| *cpu == rq.cpu() && rq.tasks.get(*slot).is_some()).map(|(_, slot)| slot)
}

/// Follows the chain of holders from a lock on. Returns the task here that can run on the waiter's
/// turn. `None` if no task holds the lock alone, if a holder is on another run queue, sleeps or is
/// in user mode, or if the chain is a circle.
pub(crate) fn end_of_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, lock: LockId) -> Option<Slot> {
    let mut lock = lock;
    // A chain with more waiting holders than there are lenders is a circle.
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
                    && body.prio.class() != ClassId::Ext
                    && !fair::is_delayed(rq, slot)
                    && !deadline::is_throttled(body);
                return can_run.then_some(slot);
            }
        }
    }
    None
}

/// Returns the CPU time that a task has used: while one runs on the other's turn, what the donor
/// was charged since is the executor's.
#[inline]
pub(crate) fn exec_of(rq: &Rq, slot: Slot) -> Duration {
    let exec = rq.tasks[slot].counters.exec;
    let (Some(executor), Some(donor)) = (rq.executor(), rq.current_slot()) else { return exec };
    match slot {
        _ if slot == donor => executor.settled,
        _ if slot == executor.slot => exec + (rq.tasks[donor].counters.exec - executor.settled),
        _ => exec,
    }
}

/// Ends the execution on another task's turn. Returns the executor. \[5\]
#[cold]
#[inline(never)]
pub(crate) fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Slot {
    let Executor { slot, settled } = rq.executor().expect("invariant: the caller has seen it");
    rq.tasks[slot].counters.exec = exec_of(rq, slot);
    if let Some(donor) = rq.current_slot() {
        rq.tasks[donor].counters.exec = settled;
    }
    rq.set_executor(None);
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

/// Removes a lender from the queue: its body goes to [`Io::parked`](crate::Io::parked), unless
/// it has to stay until its lag is repaid.
pub(crate) fn take_off<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) {
    let Engaged::Lends { from, .. } = rq.tasks[slot].engaged else { unreachable!("only a lender is taken off so") };
    free(rq, cx, slot);
    // A visitor does not stay, even with lag to repay. A deadline task has no lag: it blocks, and
    // its wakeup decides whether its job continues.
    let is_deadline = rq.tasks[slot].prio.class() == ClassId::Deadline;
    let why = match why {
        _ if is_deadline => Dequeue::Sleep,
        why if from == rq.cpu() => why,
        _ => Dequeue::Migrate,
    };
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

/// Calls [`take_off`] if the task lends; returns whether it does.
pub(crate) fn take_off_lender<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let lends = matches!(rq.tasks[slot].engaged, Engaged::Lends { .. });
    if lends {
        take_off(rq, cx, slot, Dequeue::Sleep);
    }
    lends
}
