//! What the real-time tasks of a CPU may run per period, and what CPUs of a root domain lend each other of it
//! (`RT_RUNTIME_SHARE`).
//!
//! Loans are undone when the limit is set anew: each CPU then has the new one. CPUs do that one after another, and those that have
//! done it and those that have not do not lend to each other: else what is lent in between would be lost, or be there twice.
//!
//! Sources: Linux v6.6 `kernel/sched/rt.c`, `do_balance_runtime`, `sched_rt_global_constraints`.

use super::Shared;
use core::sync::atomic::{AtomicU64, Ordering};
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration};

impl<L: RawMutex> Shared<L> {
    pub(crate) fn publish_rt_time(&self, cpu: CpuId, time: Duration) {
        self.cpus[cpu.index()].0.rt_time.store(time.as_nanos(), Ordering::Relaxed);
    }

    /// Returns what the real-time tasks of a CPU may run per period; if that is less than they need it borrows from the
    /// others of its root domain. O(CPUs of the domain) if so.
    pub(crate) fn rt_runtime(&self, cpu: CpuId, needed: Duration, period: Duration) -> Duration {
        let nanos = |word: &AtomicU64| Duration::from_nanos(word.load(Ordering::Relaxed));
        let state = &self.cpus[cpu.index()].0;
        let own = &state.rt_runtime;
        if needed <= nanos(own) {
            return nanos(own);
        }
        let domain = self.domain(cpu);
        let _lending = domain.rt_lending.lock();
        let limits = state.rt_limits.load(Ordering::Relaxed);
        let weight = domain.span.iter().count() as u64;
        for other in domain.span.iter().filter(|other| *other != cpu) {
            let lender = &self.cpus[other.index()].0;
            if lender.rt_limits.load(Ordering::Relaxed) != limits {
                continue;
            }
            let spare = nanos(&lender.rt_runtime).saturating_sub(nanos(&lender.rt_time));
            let part = Duration::from_nanos(spare.as_nanos() / weight).min(period.saturating_sub(nanos(own)));
            lender.rt_runtime.fetch_sub(part.as_nanos(), Ordering::Relaxed);
            own.fetch_add(part.as_nanos(), Ordering::Relaxed);
        }
        nanos(own)
    }

    /// Sets what the real-time tasks of a CPU may run per period; it owes and is owed nothing then. O(1).
    pub(crate) fn set_rt_runtime(&self, cpu: CpuId, runtime: Duration) {
        let state = &self.cpus[cpu.index()].0;
        let _lending = self.domain(cpu).rt_lending.lock();
        state.rt_runtime.store(runtime.as_nanos(), Ordering::Relaxed);
        state.rt_limits.fetch_add(1, Ordering::Relaxed);
    }
}
