//! The runtime of a CPU's real-time tasks per period, and loans of it between the CPUs of a root
//! domain (`RT_RUNTIME_SHARE`).
//!
//! Loans never change the total: the CPUs of a root domain together have the sum of their own
//! limits ([`Scheduler::check_rt_runtime`]).
//!
//! | event | effect on loans |
//! |---|---|
//! | a CPU goes offline, or leaves the domain | it settles them |
//! | it comes online, or joins another domain | it starts with its limit |
//! | a new limit is set | they are forgotten: every CPU has the new limit |
//!
//! A CPU that settles gives back its borrowed runtime, all to the first CPU that can lend, and
//! takes back the runtime that it has lent, from any CPUs that have some.
//!
//! CPUs adopt a new limit one after another. CPUs that have adopted it and CPUs that have not do
//! not lend to each other; otherwise the runtime lent in between would be lost, or counted twice.
//!
//! Sources: Linux v6.6 `kernel/sched/rt.c`, `do_balance_runtime`, `__disable_runtime`,
//! `__enable_runtime`, `sched_rt_global_constraints`.
//!
//! [`Scheduler::check_rt_runtime`]: crate::Scheduler::check_rt_runtime

use crate::shared::state::{RootDomain, Shared};
use crate::words::bandwidth::RtLimit;
use core::sync::atomic::{AtomicU64, Ordering};
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration};

/// The round of CPUs that are offline: they neither lend nor borrow.
pub(crate) const APART: u32 = u32::MAX;

impl<L: RawMutex> Shared<L> {
    pub(crate) fn publish_rt_time(&self, cpu: CpuId, time: Duration) {
        self.cpus[cpu.index()].0.rt_time.store(time.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the runtime of a CPU's real-time tasks per period. If they need more, the CPU first
    /// borrows from the others of its root domain, in O(CPUs of the domain).
    pub(crate) fn rt_runtime(&self, cpu: CpuId, needed: Duration, period: Duration) -> Duration {
        let nanos = |word: &AtomicU64| Duration::from_nanos(word.load(Ordering::Relaxed));
        let own = &self.cpus[cpu.index()].0.rt_runtime;
        if needed <= nanos(own) {
            return nanos(own);
        }
        let domain = self.domain(cpu);
        let _lending = domain.rt_lending.lock();
        let weight = domain.span.iter().filter(|cpu| self.rt_round(*cpu) != APART).count() as u64;
        for other in self.partners(domain, cpu) {
            let lender = &self.cpus[other.index()].0;
            let spare = nanos(&lender.rt_runtime).saturating_sub(nanos(&lender.rt_time));
            let part = Duration::from_nanos(spare.as_nanos() / weight).min(period.saturating_sub(nanos(own)));
            lender.rt_runtime.fetch_sub(part.as_nanos(), Ordering::Relaxed);
            own.fetch_add(part.as_nanos(), Ordering::Relaxed);
        }
        nanos(own)
    }

    /// Returns the CPUs that lend to a CPU and borrow from it.
    fn partners<'a>(&'a self, domain: &'a RootDomain<L>, cpu: CpuId) -> impl Iterator<Item = CpuId> + 'a {
        let round = self.rt_round(cpu);
        domain.span.iter().filter(move |other| *other != cpu && round != APART && self.rt_round(*other) == round)
    }

    fn rt_round(&self, cpu: CpuId) -> u32 {
        self.cpus[cpu.index()].0.rt_round.load(Ordering::Relaxed)
    }

    /// Sets the runtime of a CPU's real-time tasks per period, and forgets its loans. O(1).
    pub(crate) fn set_rt_runtime(&self, cpu: CpuId, limit: RtLimit) {
        let state = &self.cpus[cpu.index()].0;
        let _lending = self.domain(cpu).rt_lending.lock();
        let runtime = limit.bandwidth.runtime.unwrap_or(limit.bandwidth.period);
        state.rt_runtime.store(runtime.as_nanos(), Ordering::Relaxed);
        state.rt_round.store(limit.round, Ordering::Relaxed);
    }

    /// Settles a CPU's loans and takes it out of lending. O(CPUs of the domain).
    ///
    /// While a new limit is being adopted, the CPU may not get everything back: borrowers that have
    /// adopted the new limit no longer have the loan.
    pub(crate) fn settle_rt_runtime(&self, cpu: CpuId, limit: Duration) {
        let state = &self.cpus[cpu.index()].0;
        let domain = self.domain(cpu);
        let _lending = domain.rt_lending.lock();
        let (has, limit) = (state.rt_runtime.load(Ordering::Relaxed), limit.as_nanos());
        let mut wanted = limit.saturating_sub(has);
        let mut surplus = has.saturating_sub(limit);
        for other in self.partners(domain, cpu) {
            let runtime = &self.cpus[other.index()].0.rt_runtime;
            let part = runtime.load(Ordering::Relaxed).min(wanted);
            runtime.fetch_sub(part, Ordering::Relaxed);
            wanted -= part;
            runtime.fetch_add(core::mem::take(&mut surplus), Ordering::Relaxed);
            if wanted == 0 {
                break;
            }
        }
        state.rt_runtime.store(limit, Ordering::Relaxed);
        state.rt_round.store(APART, Ordering::Relaxed);
    }

    /// Returns the total runtime of a root domain's online CPUs, and their number; `None` unless
    /// all of them have adopted the newest limit. For checks.
    pub(crate) fn rt_runtime_of(&self, domain: &RootDomain<L>) -> Option<(Duration, u64)> {
        let round = self.rt_limit.lock().round;
        let _lending = domain.rt_lending.lock();
        let mut sum = (Duration::ZERO, 0);
        for cpu in domain.span.iter().filter(|cpu| self.rt_round(*cpu) != APART) {
            if self.rt_round(cpu) != round {
                return None;
            }
            sum.0 += Duration::from_nanos(self.cpus[cpu.index()].0.rt_runtime.load(Ordering::Relaxed));
            sum.1 += 1;
        }
        Some(sum)
    }
}
