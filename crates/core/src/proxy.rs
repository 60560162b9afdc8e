//! Proxy execution (`proxy_exec`): a task that waits for a lock in the kernel lends its turn to whoever holds the lock.
//!
//! *Donor*: whose turn it is; this is the CPU's current task to the classes, which order, charge and preempt it. *Executor*:
//! whose code runs on that turn; it is the donor itself unless that waits. A blocked donor stays queued, competes as if it
//! wanted to run, and when it is picked the CPU runs the task at the end of the chain: the holder of the lock that the holder
//! of its lock waits for, and so on. So a holder that is preempted, or whose group is throttled, goes on as soon as somebody
//! waits who may run; and nobody's priority is changed.
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
//! What runs is charged once, to the donor: its slice, its virtual time, its group's quota. Only the counter of CPU time is the
//! executor's. Who lends or executes is moved by nobody.
//!
//! The host numbers its locks, says who holds each ([`Scheduler::set_lock_owner`]), and that a task blocks on one
//! ([`Leave::BlockOn`](crate::Leave::BlockOn)). A waiter whose lock is held on another run queue is handed out as any blocked task;
//! the host may put it there with [`Scheduler::lend`]. When the lock is its it goes back: such a one is not placed where it lent.
//!
//! Work: a run queue where nobody lends pays one comparison per choice. A choice is O(lenders) for each one that is parked, and
//! once more.
//!
//! Sources: Linux v6.17 `kernel/sched/core.c`, `find_proxy_task`, `proxy_tag_curr`, `proxy_deactivate`; `fair.c`, `update_se`;
//! Stultz 2025, "Proxy execution" (the series with `proxy_migrate_task`); Watkins, Straub, Niehaus 2009, "Towards Multi-Processor Proxy
//! Execution". differs: kernels lend for mutexes only, here for any lock of which the host names one holder; a waiter goes to the
//! holder's CPU when it blocks, not when it is picked; deadline tasks lend on their own CPU only.

use crate::class::{self, Dequeue, Dequeued, Enqueue};
use crate::dl;
use crate::fair;
use crate::mode::TaskMode;
use crate::rq::{Cx, Phase, Prev, Rq};
use crate::scheduler::{Scheduler, TaskError};
use crate::slab::Slot;
use crate::step::{Clock, Io, Resched, Step};
use crate::task::Parcel;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Duration, PrevState, TaskId, TraceEvent};

/// The number of a lock: dense, chosen by the host ([`Scheduler::reserve_locks`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockId(pub u32);

/// What a queued task is to others' turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Engaged {
    /// Nothing.
    #[default]
    No,
    /// It waits for a lock and lends its turn.
    Lends {
        /// What it waits for.
        lock: LockId,
        /// The CPU that it ran on.
        from: CpuId,
    },
    /// It runs on the turn of the current task.
    Executes,
}

/// Who runs on the turn of the current task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Executor {
    pub(crate) slot: Slot,
    /// The donor's counter of CPU time when this was last settled.
    settled: Duration,
}

/// Who holds which lock.
#[derive(Debug, Default)]
pub(crate) struct LockOwners(Vec<AtomicU32>);

impl LockOwners {
    fn reserve(&mut self, locks: usize) {
        let have = self.0.len();
        self.0.extend((have..locks).map(|_| AtomicU32::new(0)));
    }

    fn set(&self, lock: LockId, owner: Option<TaskId>) {
        self.0[lock.0 as usize].store(owner.map_or(0, |task| task.0 + 1), Ordering::Release);
    }

    fn get(&self, lock: LockId) -> Option<TaskId> {
        self.0.get(lock.0 as usize)?.load(Ordering::Acquire).checked_sub(1).map(TaskId)
    }
}

impl Rq {
    /// Returns the task whose code runs here.
    #[inline]
    pub(crate) fn acting(&self) -> Option<Slot> {
        match self.executor {
            Some(executor) => Some(executor.slot),
            None => self.current,
        }
    }

    /// Returns the task on whose turn another runs here.
    #[must_use]
    pub fn donor(&self) -> Option<TaskId> {
        self.executor.and(self.current).map(|slot| self.tasks[slot].id)
    }

    /// Returns how many tasks here lend their turn.
    #[must_use]
    pub const fn nr_lending(&self) -> u32 {
        self.lending
    }
}

impl<L: RawMutex> Scheduler<L> {
    /// Makes room for lock numbers below `locks`.
    pub fn reserve_locks(&mut self, locks: usize) {
        self.shared.lock_owners.reserve(locks);
    }

    /// Says who holds a lock, alone; `None` if nobody does, or several. O(1).
    ///
    /// # Panics
    /// If the number is beyond what was reserved.
    pub fn set_lock_owner(&self, lock: LockId, owner: Option<TaskId>) {
        self.shared.lock_owners.set(lock, owner);
    }

    /// Returns who holds a lock.
    #[must_use]
    pub fn lock_owner(&self, lock: LockId) -> Option<TaskId> {
        self.shared.lock_owners.get(lock)
    }

    /// The acting task has given up a lock: if it runs on another's turn, that may be over.
    pub fn lock_dropped(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        if rq.executor.is_some() {
            let cx = &mut self.cx(rq.cpu, now, io);
            rq.resched(cx, Resched::Now);
        }
    }

    /// Puts a blocked task on the run queue of whoever holds the lock that it waits for, to lend its turn there. `[1]`
    ///
    /// # Errors
    /// The parcel, if nobody there could run on its turn: it stays blocked as it is.
    pub fn lend(
        &self,
        rq: &mut Rq,
        now: Clock,
        parcel: Parcel,
        lock: LockId,
        by: CpuId,
        io: &mut Io,
    ) -> Result<Step, Parcel> {
        rq.set_clock(now);
        let cx = &mut self.cx(by, now, io);
        let is_deadline = parcel.prio().class() == ClassId::Deadline;
        if !cx.config.settings.proxy_exec || is_deadline || !rq.is_online || end_of_chain(rq, cx, lock).is_none() {
            return Err(parcel);
        }
        class::charge_current(rq, cx);
        let mut body = parcel.0;
        body.engaged = Engaged::Lends { lock, from: body.last_cpu };
        rq.lending += 1;
        let slot = class::activate(rq, cx, body, Enqueue::Wakeup);
        class::check_preempt(rq, cx, slot);
        rq.publish(cx);
        Ok(Step::Done)
    }

    /// A lender is woken. [2]
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_lender(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Result<Step, TaskError> {
        if rq.executor.is_some() {
            rq.resched(cx, Resched::Now); // It may be one of the chain.
        }
        if rq.current == Some(slot) {
            // Whoever ran on its turn goes on by its own until the CPU schedules.
            let executor = rq.executor.is_some().then(|| end(rq, cx));
            class::switch_to(rq, cx, executor);
            if let Some(slot) = executor {
                rq.tasks[slot].counters.switches_in -= 1;
            }
        }
        let stays = matches!(rq.tasks[slot].engaged, Engaged::Lends { from, .. } if from == rq.cpu);
        if !stays || !rq.is_online || !rq.tasks[slot].may_run_on(rq.cpu) {
            let task = rq.tasks[slot].id;
            take_off(rq, cx, slot, Dequeue::Migrate);
            rq.publish(cx);
            return Err(TaskError::NotHere(task));
        }
        free(rq, cx, slot);
        if rq.tasks[slot].prio.class() == ClassId::Fair {
            fair::bandwidth::woken(rq, cx, slot);
        }
        let (task, prio, target, by, now) = (rq.tasks[slot].id, rq.tasks[slot].prio, rq.cpu, cx.by, cx.now);
        rq.tasks[slot].counters.wakeups += 1;
        cx.io.event(now, by, || TraceEvent::Waking { task, prio, target, new: false });
        cx.io.event(now, target, || TraceEvent::Wakeup { task, prio });
        class::check_preempt(rq, cx, slot);
        let step = self.push_woken(rq, cx, slot);
        rq.publish(cx);
        Ok(step)
    }

    /// Chooses and switches where tasks lend their turns. Counts the executor's switches instead of the donor's.
    #[cold]
    #[inline(never)]
    pub(crate) fn switch_lent(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, prev: Prev) {
        let next = pick(rq, cx);
        let is_counted = rq.current != next;
        class::switch_to(rq, cx, next);
        if let Some(slot) = next.filter(|_| is_counted) {
            rq.tasks[slot].counters.switches_in -= 1;
        }
        let Some(slot) = rq.acting() else { return };
        let goes_on = prev.task == Some(rq.tasks[slot].id) && prev.state == PrevState::Runnable;
        rq.tasks[slot].counters.switches_in += u64::from(!goes_on);
    }
}

/// The acting task blocks on a lock: returns whether it lends its turn here. [1]
#[cold]
#[inline(never)]
pub(crate) fn lends<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, lock: LockId) -> bool {
    // If it leads back to itself nobody can run.
    if !cx.config.settings.proxy_exec || !rq.is_online || end_of_chain(rq, cx, lock).is_none_or(|end| end == slot) {
        return false;
    }
    let from = rq.cpu;
    class::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::Lends { lock, from });
    rq.lending += 1;
    true
}

/// Returns the task to run next, a lender for whom another runs included; that one is made the executor.
fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    debug_assert!(rq.executor.is_none(), "the CPU has left it");
    // Bounded: each turn but the last takes a lender off the queue.
    loop {
        let donor = class::pick(rq, cx)?;
        let Engaged::Lends { lock, .. } = rq.tasks[donor].engaged else { return Some(donor) };
        let Some(slot) = end_of_chain(rq, cx, lock) else {
            take_off(rq, cx, donor, Dequeue::Sleep); // [3]
            continue;
        };
        class::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::Executes); // [4]
        rq.executor = Some(Executor { slot, settled: rq.tasks[donor].counters.exec });
        let (task, lender, prio) = (rq.tasks[slot].id, rq.tasks[donor].id, rq.tasks[donor].prio);
        cx.io.event(cx.now, rq.cpu, || TraceEvent::Proxy { task, donor: Some(lender), prio });
        return Some(donor);
    }
}

fn find<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, task: TaskId) -> Option<Slot> {
    cx.shared.home(task).filter(|(cpu, slot)| *cpu == rq.cpu && rq.tasks.get(*slot).is_some()).map(|(_, slot)| slot)
}

/// Follows who holds what, from a lock on; returns the task here that can run on the turn of whoever waits. `None`: nobody has
/// the lock alone, a holder is elsewhere, sleeps or is in user mode, or the chain is a circle.
fn end_of_chain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, lock: LockId) -> Option<Slot> {
    let mut lock = lock;
    // More holders that wait than lenders: a circle.
    for _ in 0..=rq.lending {
        let owners = &cx.shared.lock_owners;
        let owner = cx.io.observer.u64(|| owners.get(lock).map_or(0, |task| u64::from(task.0) + 1)).checked_sub(1)?;
        let slot = find(rq, cx, TaskId(owner as u32))?;
        let body = &rq.tasks[slot];
        match body.engaged {
            Engaged::Lends { lock: next, .. } => lock = next,
            Engaged::No | Engaged::Executes => {
                let can_run = body.mode == TaskMode::Kernel
                    && body.may_run_on(rq.cpu)
                    && !fair::is_delayed(rq, slot)
                    && !dl::is_throttled(body);
                return can_run.then_some(slot);
            }
        }
    }
    None
}

/// Moves what the executor ran from the donor's counter of CPU time to its own.
#[inline]
pub(crate) fn settle(rq: &mut Rq) {
    let (Some(executor), Some(donor)) = (rq.executor, rq.current) else { return };
    let ran = core::mem::replace(&mut rq.tasks[donor].counters.exec, executor.settled) - executor.settled;
    rq.tasks[executor.slot].counters.exec += ran;
}

/// The executor does not run on another's turn any more. Returns it. [5]
#[cold]
#[inline(never)]
pub(crate) fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Slot {
    settle(rq);
    let Executor { slot, .. } = rq.executor.take().expect("invariant: the caller has seen it");
    class::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::No);
    rq.tasks[slot].last_ran = cx.now.wall;
    let (task, prio) = (rq.tasks[slot].id, rq.tasks[slot].prio);
    cx.io.event(cx.now, rq.cpu, || TraceEvent::Proxy { task, donor: None, prio });
    slot
}

fn free<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    rq.lending -= 1;
    class::change_allowed(rq, cx, slot, |body| body.engaged = Engaged::No);
}

/// Takes a lender off the queue: its body goes to [`Io::parked`], unless it must stay for what it owes.
pub(crate) fn take_off<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) {
    let Engaged::Lends { from, .. } = rq.tasks[slot].engaged else { unreachable!("only a lender is taken off so") };
    free(rq, cx, slot);
    // A visitor does not stay, whatever it owes.
    let why = if from == rq.cpu { why } else { Dequeue::Migrate };
    match class::dequeue(rq, cx, slot, why) {
        Dequeued::Delayed => {}
        Dequeued::Gone => {
            if rq.current == Some(slot) {
                rq.current = None;
                rq.tasks[slot].last_ran = cx.now.wall;
            }
            let mut body = class::detach(rq, cx, slot);
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

impl Rq {
    /// Returns whether a task's code runs here, on its own turn or another's.
    pub(crate) fn runs(&self, slot: Slot) -> bool {
        self.current == Some(slot) || self.executor.is_some_and(|executor| executor.slot == slot)
    }

    /// Checks that loans are what they should be. For tests and debugging hosts.
    ///
    /// # Panics
    /// If something does not hold.
    pub fn check_loans(&self) {
        let lending = self.tasks.iter().filter(|(_, task)| matches!(task.engaged, Engaged::Lends { .. })).count();
        assert_eq!(self.lending as usize, lending, "lenders are counted");
        let executing = self.tasks.iter().find(|(_, task)| task.engaged == Engaged::Executes).map(|(slot, _)| slot);
        assert_eq!(executing, self.executor.map(|executor| executor.slot), "the executor is known");
        if let (Some(_), Some(donor)) = (self.executor, self.current) {
            assert!(matches!(self.tasks[donor].engaged, Engaged::Lends { .. }), "a donor lends");
        }
        assert!(self.executor.is_none() || self.phase == Phase::Running, "the CPU leaves the executor, not the donor");
    }
}
