//! Entry points of proxy execution: locks and their owners, and tasks that lend their turn. The
//! rules are those of [`crate::balance::proxy`].

use crate::balance::proxy;
use crate::class::fair::boost;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::inspect::Inspect;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::error::NotHere;
use crate::words::ids::{LockId, Slot};
use crate::words::life::{Dequeue, Engaged, Enqueue};
use crate::words::resched::Resched;
use crate::words::step::Step;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, Prio, TaskId, TraceEvent};

impl<L: RawMutex> Scheduler<L> {
    /// Makes room for lock numbers below `locks`.
    pub fn reserve_locks(&mut self, locks: usize) {
        self.shared.lock_owners.reserve(locks);
    }

    /// Sets the single holder of a lock; `None` if there is none, or several. O(1).
    ///
    /// # Panics
    /// If the number is not reserved.
    pub fn set_lock_owner(&self, lock: LockId, owner: Option<TaskId>) {
        self.shared.lock_owners.set(lock, owner);
    }

    /// Returns the holder of a lock.
    #[must_use]
    pub fn lock_owner(&self, lock: LockId) -> Option<TaskId> {
        self.shared.lock_owners.get(lock)
    }

    /// Reports that the acting task has released a lock: if it runs on another task's turn, that
    /// turn can be over.
    pub fn lock_dropped(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        if rq.executor().is_some() {
            let cx = &mut self.cx(rq.cpu(), now, io);
            rq.resched(cx, Resched::Now);
        }
    }

    /// Puts a blocked task on the run queue of the holder of its lock, where it lends its turn.
    /// `[1]`
    ///
    /// # Errors
    /// Returns the parcel if no task there can run on its turn; the task stays blocked.
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
        let lends_here_only = matches!(parcel.prio().class(), ClassId::Deadline | ClassId::Ext);
        if !cx.config.settings.proxy_exec
            || lends_here_only
            || !rq.is_online()
            || proxy::end_of_chain(rq, cx, lock).is_none()
        {
            return Err(parcel);
        }
        lifecycle::charge_current(rq, cx);
        let mut body = parcel.0;
        body.engaged = Engaged::Lends { lock, from: body.last_cpu };
        rq.add_lender();
        let slot = lifecycle::activate(rq, cx, body, Enqueue::Wakeup);
        lifecycle::check_preempt(rq, cx, slot);
        rq.publish(cx);
        Ok(Step::Done)
    }

    /// Wakes a lender. \[2\]
    #[cold]
    #[inline(never)]
    pub(crate) fn wake_lender(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Result<Step, NotHere> {
        if rq.executor().is_some() {
            rq.resched(cx, Resched::Now); // The lender can be part of the executor's chain.
        }
        if rq.current_slot() == Some(slot) {
            // The executor continues on its own turn until the CPU schedules, and that turn can be
            // less urgent.
            rq.dl.has_lowered = true;
            let executor = rq.executor().is_some().then(|| proxy::end(rq, cx));
            lifecycle::switch_to(rq, cx, executor);
        }
        let stays = matches!(rq.tasks[slot].engaged, Engaged::Lends { from, .. } if from == rq.cpu());
        if !stays || !rq.is_online() || !rq.tasks[slot].may_run_on(rq.cpu()) {
            let task = rq.tasks[slot].id;
            proxy::take_off(rq, cx, slot, Dequeue::Migrate);
            rq.publish(cx);
            return Err(NotHere(task));
        }
        proxy::free(rq, cx, slot);
        if rq.tasks[slot].prio.class() == ClassId::Fair {
            boost::woken(rq, cx, slot);
        }
        let (task, prio, target, by, now) = (rq.tasks[slot].id, rq.tasks[slot].prio, rq.cpu(), cx.by, cx.now);
        rq.tasks[slot].counters.wakeups += 1;
        cx.io.event(now, by, || TraceEvent::Waking { task, prio, target, new: false });
        cx.io.event(now, target, || TraceEvent::Wakeup { task, prio });
        lifecycle::check_preempt(rq, cx, slot);
        let step = self.push_woken(rq, cx, slot);
        rq.publish(cx);
        Ok(step)
    }

    /// Picks and switches on a run queue with lenders.
    #[cold]
    #[inline(never)]
    pub(crate) fn switch_lent(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Result<(), Prio> {
        let next = proxy::pick(rq, cx)?;
        lifecycle::switch_to(rq, cx, next);
        Ok(())
    }
}

impl Inspect<'_> {
    /// Checks that loans are what they should be. For tests and debugging hosts.
    ///
    /// # Panics
    /// If something does not hold.
    pub fn check_loans(self) {
        let rq = self.rq;
        let lending = rq.tasks.iter().filter(|(_, task)| matches!(task.engaged, Engaged::Lends { .. })).count();
        assert_eq!(rq.nr_lending() as usize, lending, "lenders are counted");
        let executing = rq.tasks.iter().find(|(_, task)| task.engaged == Engaged::Executes).map(|(slot, _)| slot);
        assert_eq!(executing, rq.executor().map(|executor| executor.slot), "the executor is known");
        if let (Some(_), Some(donor)) = (rq.executor(), rq.current_slot()) {
            assert!(matches!(rq.tasks[donor].engaged, Engaged::Lends { .. }), "a donor lends");
        }
        assert!(rq.executor().is_none() || rq.phase() == Phase::Running, "the CPU leaves the executor, not the donor");
    }
}
