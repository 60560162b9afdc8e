//! Taking, giving back and granting the locks of run queues
//! ([`RqLock`](crate::kernel::rq_lock::RqLock) has the states).
//!
//! [`Kernel::locked`] is the usual way to call the core: it takes the lock, calls, gives it back
//! with the time that the call took, and carries out what the core wants done. A CPU that must spin
//! instead keeps its job, and does it again from the beginning when the lock is granted.

use crate::kernel::rq_lock::{Holder, Lock};
use crate::kernel::state::{InnerLock, Kernel};
use crate::kernel::words::{Event, Job, Spins};
use crate::queue::Phase;
use zerolag_core::{Clock, Io, Parcel, Rq, Scheduler};
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId, TraceEvent};

impl Kernel {
    /// Calls the core with a run queue, under its lock; `job` is put back if the CPU must spin for
    /// it.
    #[inline(always)]
    pub(crate) fn locked<R>(
        &mut self,
        cpu: CpuId,
        rq: CpuId,
        job: Job,
        call: impl FnOnce(&Scheduler<InnerLock>, &mut Rq, Clock, &mut Io) -> R,
    ) -> Result<R, Spins> {
        self.lock_for(cpu, rq, job)?;
        let result = self.under_lock(rq, call);
        self.unlock(cpu, rq, self.costs.rq_lock_hold);
        Ok(result)
    }

    /// Takes the lock of a run queue, or puts the job back.
    #[inline(always)]
    pub(crate) fn lock_for(&mut self, cpu: CpuId, rq: CpuId, job: Job) -> Result<(), Spins> {
        if self.lock(cpu, rq) == Lock::Busy { self.spin(cpu, job) } else { Ok(()) }
    }

    /// Calls the core with a run queue whose lock is taken.
    #[inline(always)]
    pub(crate) fn under_lock<R>(
        &mut self,
        rq: CpuId,
        call: impl FnOnce(&Scheduler<InnerLock>, &mut Rq, Clock, &mut Io) -> R,
    ) -> R {
        let place = &mut self.cpus[rq.index()];
        let clock = place.clock(self.time.now);
        call(&self.scheduler, &mut place.rq, clock, &mut self.calls.io)
    }

    /// Calls the core with the CPU's own run queue, whose lock is taken.
    #[inline(always)]
    pub(crate) fn under_own_lock<R>(
        &mut self,
        cpu: CpuId,
        call: impl FnOnce(&Scheduler<InnerLock>, &mut Rq, Clock, &mut Io) -> R,
    ) -> R {
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock_in_path(self.time.now);
        call(&self.scheduler, &mut place.rq, clock, &mut self.calls.io)
    }

    /// Calls the core without a run queue.
    pub(crate) fn call<R>(&mut self, cpu: CpuId, call: impl FnOnce(&Scheduler<InnerLock>, Clock, &mut Io) -> R) -> R {
        let result = call(&self.scheduler, self.cpus[cpu.index()].clock(self.time.now), &mut self.calls.io);
        self.after_call(cpu);
        result
    }

    /// Calls the core with a task that is on no run queue.
    pub(crate) fn call_parked<R>(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        call: impl FnOnce(&Scheduler<InnerLock>, Clock, &mut Parcel, &mut Io) -> R,
    ) -> R {
        let clock = self.cpus[cpu.index()].clock(self.time.now);
        let parcel = self.bodies[task.index()].parcel.as_mut().expect("invariant: it is on no run queue");
        let result = call(&self.scheduler, clock, parcel, &mut self.calls.io);
        self.after_call(cpu);
        result
    }

    /// Takes the lock of a run queue, or queues for it.
    #[inline(always)]
    pub(super) fn lock(&mut self, cpu: CpuId, rq: CpuId) -> Lock {
        let place = &self.cpus[cpu.index()];
        // Nearly always it is the CPU's own and free.
        if cpu == rq && place.lock.is_free(place.busy_until) { Lock::Taken } else { self.lock_slowly(cpu, rq) }
    }

    fn lock_slowly(&mut self, cpu: CpuId, rq: CpuId) -> Lock {
        let at = self.cpus[cpu.index()].busy_until;
        let lock = &mut self.cpus[rq.index()].lock;
        if lock.holder == Holder::Granted(cpu) || lock.is_free(at) {
            lock.holder = Holder::Nobody; // [5]
            if cpu != rq {
                let distance = self.topology.distance(cpu, lock.last);
                self.cpus[cpu.index()].spend(CpuLayer::Sched, self.costs.rq_lock_transfer.at(distance));
            }
            return Lock::Taken;
        }
        let is_first = lock.waiters.is_empty() && lock.holder == Holder::Nobody;
        let free_at = lock.free_at.max(self.time.now);
        lock.waiters.push_back(cpu);
        let spinner = &mut self.cpus[cpu.index()];
        spinner.spins_since = Some(at);
        spinner.stretch.begin(at);
        self.books.stats.lock_waits += 1;
        if self.books.tracer.is_on() {
            self.emit(cpu, TraceEvent::LockContended { rq });
        }
        if is_first {
            self.queue_event(free_at, Phase::LockFree, rq, Event::LockFree { rq });
        }
        Lock::Busy
    }

    /// Takes the locks of two run queues. A CPU that must spin for the second keeps the first.
    pub(super) fn lock_pair(&mut self, cpu: CpuId, own: CpuId, other: CpuId) -> Lock {
        let (low, high) = if own < other { (own, other) } else { (other, own) };
        if self.cpus[low.index()].lock.holder != Holder::Kept(cpu) {
            if self.lock(cpu, low) == Lock::Busy {
                return Lock::Busy;
            }
            self.cpus[low.index()].lock.holder = Holder::Kept(cpu); // [2]
        }
        self.lock(cpu, high)
    }

    /// Accounts the work that was done under a lock and gives the lock back.
    #[inline(always)]
    pub(crate) fn unlock(&mut self, cpu: CpuId, rq: CpuId, hold: Duration) {
        self.cpus[cpu.index()].spend(CpuLayer::Sched, hold);
        self.after_call(cpu);
        self.update_tick(rq);
        self.release(cpu, rq);
        self.spend_unlocked(cpu);
    }

    /// As [`unlock`](Self::unlock), for the CPU's own run queue.
    #[inline(always)]
    pub(crate) fn unlock_own(&mut self, cpu: CpuId, hold: Duration) {
        self.cpus[cpu.index()].spend(CpuLayer::Sched, hold);
        self.after_call(cpu);
        let place = &mut self.cpus[cpu.index()];
        let toggles = self.scheduler.needs_tick(&place.rq) != place.ticking;
        let until = place.busy_until;
        place.lock.free_at = place.lock.free_at.max(until);
        place.lock.last = cpu;
        let has_waiters = !place.lock.waiters.is_empty();
        if toggles {
            self.toggle_tick(cpu);
        }
        if has_waiters {
            self.queue_event(until, Phase::LockFree, cpu, Event::LockFree { rq: cpu });
        }
        self.spend_unlocked(cpu);
    }

    /// Accounts the part of a call that needs no lock of a run queue. The step that follows is
    /// carried out after it: a lock that was taken now for that later time would keep others from
    /// it meanwhile.
    #[inline(always)]
    fn spend_unlocked(&mut self, cpu: CpuId) {
        if !self.calls.unlocked.is_zero() {
            let time = core::mem::take(&mut self.calls.unlocked);
            self.cpus[cpu.index()].spend(CpuLayer::Sched, time);
            self.calls.searched = Some((cpu, self.cpus[cpu.index()].busy_until));
        }
    }

    /// Gives a lock back that was held for the usual time.
    pub(crate) fn unlock_usual(&mut self, cpu: CpuId, rq: CpuId) {
        self.unlock(cpu, rq, self.costs.rq_lock_hold);
    }

    pub(super) fn unlock_pair(&mut self, cpu: CpuId, own: CpuId, other: CpuId) {
        let hold = self.costs.rq_lock_hold;
        self.cpus[cpu.index()].spend(CpuLayer::Sched, hold);
        self.after_call(cpu);
        for rq in [own, other] {
            self.cpus[rq.index()].lock.holder = Holder::Nobody; // [3]
            self.update_tick(rq);
            self.release(cpu, rq);
        }
        self.spend_unlocked(cpu);
    }

    /// Gives a lock back that will be free when the CPU's present path ends.
    #[inline(always)]
    pub(super) fn release(&mut self, cpu: CpuId, rq: CpuId) {
        let until = self.cpus[cpu.index()].busy_until;
        let lock = &mut self.cpus[rq.index()].lock;
        lock.free_at = lock.free_at.max(until);
        lock.last = cpu;
        if !lock.waiters.is_empty() {
            self.queue_event(until, Phase::LockFree, rq, Event::LockFree { rq });
        }
    }

    /// Grants a free lock to the first CPU that spins for it, unless it is free only later. That
    /// CPU is to be driven, and then [`after_grant`](Self::after_grant) called.
    pub(crate) fn grant_lock(&mut self, rq: CpuId) -> Option<CpuId> {
        let lock = &mut self.cpus[rq.index()].lock;
        debug_assert!(lock.holder == Holder::Nobody, "no operation on the lock of CPU {rq} is left");
        let free_at = lock.free_at;
        if free_at > self.time.now {
            // The CPU that gives it back has stood still.
            self.queue_event(free_at, Phase::LockFree, rq, Event::LockFree { rq });
            return None;
        }
        let waiter = lock.waiters.pop_front().expect("invariant: a CPU spins for it");
        lock.holder = Holder::Granted(waiter); // [4]
        let waited = self.cpus[waiter.index()].end_spin(self.time.now);
        self.watch(waiter);
        if self.books.tracer.is_on() {
            self.emit(waiter, TraceEvent::LockAcquired { rq, waited });
        }
        Some(waiter)
    }

    /// Passes a granted lock on that the CPU has not taken: the task that it was wanted for may
    /// have moved elsewhere meanwhile.
    pub(crate) fn after_grant(&mut self, rq: CpuId, waiter: CpuId) {
        let lock = &mut self.cpus[rq.index()].lock;
        if lock.holder == Holder::Granted(waiter) {
            lock.holder = Holder::Nobody; // [5]
            if !lock.waiters.is_empty() {
                self.queue_event(self.time.now, Phase::LockFree, rq, Event::LockFree { rq });
            }
        }
    }
}
