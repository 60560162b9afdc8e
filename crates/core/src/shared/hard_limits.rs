//! [`HardLimits`]: the competing design of 2009. The quota of a group is divided over the CPUs, and
//! each CPU throttles by itself.
//!
//! A CPU uses its own part first. When it needs more, it visits the other CPUs and takes 1/n of the
//! unused part of each, on n CPUs. It keeps that for later periods, so the parts slowly follow the
//! tasks. No part grows beyond a period, because one CPU cannot use more.
//!
//! ```text
//!   part of CPU 0  [######------]  used, not used
//!   part of CPU 1  [###---------]--.  1/3 of the unused part
//!   part of CPU 2  [############]<-+--- needs more
//! ```
//!
//! The part of a CPU without tasks of the group is lost to the group, unless another CPU borrows it
//! *before* it is throttled: a throttled CPU asks again only at the end of the period. So the
//! design gives less than the quota where tasks and parts are not on the same CPUs. This is one of
//! the reasons for the pool.
//!
//! The setting `hard_limits.borrow` lets a CPU borrow once in a period, or never. These are no
//! patches of that time: they separate what borrowing gave the group from the rest.
//!
//! Work: O(1) while the own part lasts. Borrowing and the end of a period are O(CPUs); there every
//! CPU has a lock of its own, which is counted. Memory: 24 bytes per CPU of every limited group.
//!
//! Sources: Rao 2009 and 2010, "CFS hard limits" v2 ("Added CFS runtime borrowing"), v5 ("Make RT
//! bandwidth and runtime handling code generic and use it in CFS also"); of that code Linux v2.6.33
//! `kernel/sched_rt.c`, `do_balance_runtime`, `do_sched_rt_period_timer`. differs: the quota is
//! that of all CPUs together, as in `cpu.max`, whereas the patches gave every CPU the value of the
//! file; a burst is ignored, because the patches had none.

use alloc::vec::Vec;
use zerolag_model::settings::Borrowing;
use zerolag_model::{CpuId, Duration, SignedDuration};

/// The quota of a group, by CPU.
#[derive(Clone, Debug)]
pub(crate) struct HardLimits {
    nr_cpus: usize,
    borrowing: Borrowing,
    /// One per CPU; empty without a limit.
    parts: Vec<CpuRuntime>,
}

/// The part of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CpuRuntime {
    /// The runtime per period (`rt_runtime`).
    runtime: Duration,
    /// The time used in this period, and the debt from earlier ones (`rt_time`).
    time: Duration,
    /// Whether it has borrowed in this period.
    has_borrowed: bool,
}

impl CpuRuntime {
    fn left(&self) -> Duration {
        self.runtime.saturating_sub(self.time)
    }
}

impl HardLimits {
    pub(crate) const fn new(nr_cpus: usize, borrowing: Borrowing) -> Self {
        Self { nr_cpus, borrowing, parts: Vec::new() }
    }

    /// Returns the state without a limit.
    pub(crate) const fn forget(&self) -> Self {
        Self::new(self.nr_cpus, self.borrowing)
    }

    /// Divides a quota evenly; the first CPUs get the remaining nanoseconds.
    pub(crate) fn divide(&mut self, quota: Duration) {
        let cpus = self.nr_cpus as u64;
        let (each, over) = (quota.as_nanos() / cpus, quota.as_nanos() % cpus);
        let part = |cpu| CpuRuntime {
            runtime: Duration::from_nanos(each + u64::from(cpu < over)),
            time: Duration::ZERO,
            has_borrowed: false,
        };
        self.parts.clear();
        self.parts.extend((0..cpus).map(part));
        debug_assert_eq!(self.left(), quota, "nothing is lost");
    }

    /// Returns the unused quota of this period.
    pub(crate) fn left(&self) -> Duration {
        self.parts.iter().map(CpuRuntime::left).sum()
    }

    /// Takes `want` for a CPU; returns the amount it gets and how many other CPUs were examined.
    /// `period` bounds the part of one CPU.
    pub(crate) fn take(&mut self, cpu: CpuId, want: Duration, period: Duration) -> (Duration, u32) {
        let needs_more = self.parts[cpu.index()].left() < want;
        let scanned = if needs_more && self.may_borrow(cpu) { self.borrow(cpu, period) } else { 0 };
        let own = &mut self.parts[cpu.index()];
        let amount = want.min(own.left());
        own.time += amount;
        (amount, scanned)
    }

    fn may_borrow(&self, cpu: CpuId) -> bool {
        match self.borrowing {
            Borrowing::Always => true,
            Borrowing::OncePerPeriod => !self.parts[cpu.index()].has_borrowed,
            Borrowing::Never => false,
        }
    }

    /// Takes 1/n of the unused part of every other CPU (`do_balance_runtime`); returns how many it
    /// examined.
    fn borrow(&mut self, cpu: CpuId, period: Duration) -> u32 {
        let weight = self.parts.len() as u64;
        let mut scanned = 0;
        self.parts[cpu.index()].has_borrowed = true;
        for other in 0..self.parts.len() {
            let room = period.saturating_sub(self.parts[cpu.index()].runtime);
            if room.is_zero() {
                break;
            }
            if other != cpu.index() {
                scanned += 1;
                let amount = Duration::from_nanos(self.parts[other].left().as_nanos() / weight).min(room);
                self.parts[other].runtime -= amount;
                self.parts[cpu.index()].runtime += amount;
            }
        }
        scanned
    }

    /// Begins a new period after `periods` have ended; returns how many CPUs it examined.
    pub(crate) fn refill(&mut self, periods: u64) -> u32 {
        for part in &mut self.parts {
            part.time = part.time.saturating_sub(part.runtime * periods);
            part.has_borrowed = false;
        }
        self.parts.len() as u32
    }

    /// Takes back unused quota of a CPU, or records its debt.
    pub(crate) fn settle(&mut self, cpu: CpuId, remaining: SignedDuration) {
        let time = &mut self.parts[cpu.index()].time;
        *time = if remaining.is_negative() {
            *time + (-remaining).max_zero()
        } else {
            time.saturating_sub(remaining.max_zero())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);
    const PERIOD: Duration = Duration::from_millis(100);

    fn divided(cpus: usize, quota: u64) -> HardLimits {
        divided_as(Borrowing::Always, cpus, quota)
    }

    fn divided_as(borrowing: Borrowing, cpus: usize, quota: u64) -> HardLimits {
        let mut parts = HardLimits::new(cpus, borrowing);
        parts.divide(MS * quota);
        parts
    }

    #[test]
    fn a_cpu_borrows_a_share_of_what_each_other_has_left() {
        let mut parts = divided(4, 80);
        assert_eq!(parts.take(CpuId(0), MS * 20, PERIOD), (MS * 20, 0));
        assert_eq!(parts.take(CpuId(1), MS * 12, PERIOD), (MS * 12, 0));
        // A quarter of 8, 20 and 20 ms.
        assert_eq!(parts.take(CpuId(0), MS * 20, PERIOD), (MS * 12, 3));
        assert_eq!(parts.take(CpuId(0), MS * 20, PERIOD), (MS * 9, 3), "again of what is left");
        assert_eq!(parts.left(), MS * (80 - 20 - 12 - 12 - 9));
    }

    #[test]
    fn no_part_grows_beyond_a_period() {
        let mut parts = divided(2, 180);
        assert_eq!(parts.take(CpuId(0), MS * 120, PERIOD).0, PERIOD);
        assert_eq!(parts.take(CpuId(0), MS, PERIOD), (Duration::ZERO, 0));
    }

    #[test]
    fn what_was_borrowed_is_kept_and_what_was_used_is_not() {
        let mut parts = divided(2, 40);
        assert_eq!(parts.take(CpuId(0), MS * 40, PERIOD).0, MS * 30);
        assert_eq!(parts.refill(1), 2);
        assert_eq!(parts.take(CpuId(0), MS * 30, PERIOD), (MS * 30, 0));
        parts.settle(CpuId(0), SignedDuration::from_nanos(-5_000_000));
        parts.refill(1);
        assert_eq!(parts.left(), MS * 35, "a debt is paid by the next period");
    }

    #[test]
    fn a_cpu_borrows_as_often_as_it_may() {
        let mut parts = divided_as(Borrowing::Never, 4, 80);
        assert_eq!(parts.take(CpuId(0), MS * 30, PERIOD), (MS * 20, 0), "its own part");
        let mut parts = divided_as(Borrowing::OncePerPeriod, 4, 80);
        assert_eq!(parts.take(CpuId(0), MS * 35, PERIOD), (MS * 35, 3));
        assert_eq!(parts.take(CpuId(0), MS, PERIOD), (Duration::ZERO, 0), "once");
        parts.refill(1);
        assert_eq!(parts.take(CpuId(0), MS * 40, PERIOD).1, 3, "in a period");
    }

    proptest! {
        /// The sum of the parts stays the quota, and no more than that is handed out per period.
        #[test]
        fn the_parts_are_the_quota(
            borrowing in prop::sample::select(Borrowing::ALL.to_vec()),
            cpus in 1_usize..20,
            quota in 1_u64..2_000,
            takes in proptest::collection::vec((0_usize..20, 1_u64..50_000_000, any::<bool>()), 1..60),
        ) {
            let mut parts = divided_as(borrowing, cpus, quota);
            let mut handed = Duration::ZERO;
            for (cpu, want, ends) in takes {
                let cpu = CpuId::from_index(cpu % cpus);
                handed += parts.take(cpu, Duration::from_nanos(want), PERIOD).0;
                let all: Duration = parts.parts.iter().map(|part| part.runtime).sum();
                prop_assert_eq!(all, MS * quota);
                prop_assert_eq!(handed + parts.left(), MS * quota);
                if ends {
                    parts.refill(1);
                    handed = Duration::ZERO;
                }
            }
        }
    }
}
