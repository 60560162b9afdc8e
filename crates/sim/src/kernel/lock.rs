//! The run-queue locks: who has one, until when, and who spins for it.
//!
//! An operation takes its locks, decides and knows at once when it will have ended: it gives the lock back with that
//! time. Only the first lock of a pair is kept from one call to another, while its CPU spins for the second.
//!
//! ```text
//!         [1] an operation: free again when it ends
//!         +----+
//!         v    |      [2] first lock of a pair
//!       Nobody-+ ----------------------------------> Kept(cpu)
//!        ^ ^ |                                          |
//!        | | +-------- [3] both are given back <--------+
//!        | |
//!        | +---------- [5] it takes it, or wants it no more <---+
//!        +------------ [4] it is free and CPUs spin: the first -> Granted(cpu)
//! ```
//!
//! While nobody has a lock that CPUs spin for, one [`Event::LockFree`] is on its way.
//!
//! Locks are taken in order of CPU number; whoever comes first is served first.

use crate::kernel::cpu::Cpu;
use crate::machine::{Event, Machine};
use crate::queue::{Phase, Source};
use std::collections::VecDeque;
use zerolag_model::{CpuId, CpuLayer, Duration, Instant, TraceEvent};

/// Whether a lock was had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    Taken,
    /// It will be: the CPU spins until it is called again.
    Busy,
}

/// Who has a lock between two calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    /// Nobody, but the operation that had it last may not have ended.
    Nobody,
    /// This CPU, until it has the second one.
    Kept(CpuId),
    /// This CPU, which spun for it and is about to take it.
    Granted(CpuId),
}

/// The lock of a run queue.
#[derive(Debug)]
pub(crate) struct RqLock {
    holder: Holder,
    /// When the last operation under it ends.
    free_at: Instant,
    /// Who had it last: where its cache line is.
    last: CpuId,
    /// Who spins for it, first come first served.
    waiters: VecDeque<CpuId>,
}

impl RqLock {
    /// Returns the free lock of a CPU's run queue.
    pub(crate) const fn new(cpu: CpuId) -> Self {
        Self { holder: Holder::Nobody, free_at: Instant::ZERO, last: cpu, waiters: VecDeque::new() }
    }

    /// Returns whether a CPU that comes at a moment gets it at once.
    #[inline(always)]
    pub(crate) fn is_free(&self, at: Instant) -> bool {
        self.free_at <= at && self.holder == Holder::Nobody && self.waiters.is_empty()
    }
}

impl Machine {
    /// Takes a run-queue lock, or queues for it.
    #[inline(always)]
    pub(crate) fn lock(&mut self, cpu: CpuId, rq: CpuId) -> Lock {
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
        let free_at = lock.free_at.max(self.now);
        lock.waiters.push_back(cpu);
        let spinner = &mut self.cpus[cpu.index()];
        spinner.spins_since = Some(at);
        spinner.stretch.begin(at);
        self.stats.lock_waits += 1;
        if self.tracer.is_on() {
            self.emit(cpu, TraceEvent::LockContended { rq });
        }
        if is_first {
            self.queue_lock_free(rq, free_at);
        }
        Lock::Busy
    }

    /// Takes the locks of two run queues. A CPU that must spin for the second keeps the first.
    pub(crate) fn lock_pair(&mut self, cpu: CpuId, own: CpuId, other: CpuId) -> Lock {
        let (low, high) = if own < other { (own, other) } else { (other, own) };
        if self.cpus[low.index()].lock.holder != Holder::Kept(cpu) {
            if self.lock(cpu, low) == Lock::Busy {
                return Lock::Busy;
            }
            self.cpus[low.index()].lock.holder = Holder::Kept(cpu); // [2]
        }
        self.lock(cpu, high)
    }

    /// Accounts what was done under a lock and gives it back.
    #[inline(always)]
    pub(crate) fn unlock(&mut self, cpu: CpuId, rq: CpuId, hold: Duration) {
        self.cpus[cpu.index()].spend(CpuLayer::Sched, hold);
        self.after_call(cpu);
        self.update_tick(rq);
        self.release(cpu, rq);
    }

    pub(crate) fn unlock_pair(&mut self, cpu: CpuId, own: CpuId, other: CpuId) {
        let hold = self.costs.rq_lock_hold;
        self.cpus[cpu.index()].spend(CpuLayer::Sched, hold);
        self.after_call(cpu);
        for rq in [own, other] {
            self.cpus[rq.index()].lock.holder = Holder::Nobody; // [3]
            self.update_tick(rq);
            self.release(cpu, rq);
        }
    }

    /// Gives a lock back that is free when the CPU's present path ends.
    #[inline(always)]
    pub(crate) fn release(&mut self, cpu: CpuId, rq: CpuId) {
        let until = self.cpus[cpu.index()].busy_until;
        let lock = &mut self.cpus[rq.index()].lock;
        lock.free_at = lock.free_at.max(until);
        lock.last = cpu;
        if !lock.waiters.is_empty() {
            self.queue_lock_free(rq, until);
        }
    }

    fn queue_lock_free(&mut self, rq: CpuId, at: Instant) {
        let count = self.cpus[rq.index()].next_count();
        self.queue.push(at, Phase::LockFree, Source::cpu(rq), count, Event::LockFree { rq });
    }

    /// A run-queue lock is free: the first that waits has it.
    pub(crate) fn grant_lock(&mut self, rq: CpuId) {
        let lock = &mut self.cpus[rq.index()].lock;
        debug_assert!(lock.holder == Holder::Nobody && lock.free_at <= self.now, "the lock of CPU {rq} is free");
        let waiter = lock.waiters.pop_front().expect("invariant: somebody spins for it");
        lock.holder = Holder::Granted(waiter); // [4]
        let waited = self.cpus[waiter.index()].end_spin(self.now);
        self.watch(waiter);
        if self.tracer.is_on() {
            self.emit(waiter, TraceEvent::LockAcquired { rq, waited });
        }
        self.drive(waiter);
        // What it wanted may have moved elsewhere while it spun: it has not taken the lock, so the next may have it.
        let lock = &mut self.cpus[rq.index()].lock;
        if lock.holder == Holder::Granted(waiter) {
            lock.holder = Holder::Nobody; // [5]
            if !lock.waiters.is_empty() {
                self.queue_lock_free(rq, self.now);
            }
        }
    }
}

impl Cpu {
    /// Ends the wait for a lock, which is time of the scheduler; returns how long it was.
    fn end_spin(&mut self, now: Instant) -> Duration {
        let since = self.spins_since.take().expect("invariant: a waiter spins");
        let waited = now.since(since);
        self.spend(CpuLayer::Sched, waited);
        waited
    }
}
