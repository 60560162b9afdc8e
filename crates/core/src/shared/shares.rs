//! [`CpuShares`]: each CPU's part of a group's weight, as kernels before 2.6.38 computed it.
//!
//! A group's entity on a CPU weighs that CPU's part of the group's weight, by the loads of the
//! group's queues. Later kernels compute it whenever such a load changes. These did so only where a
//! CPU balanced ([`update`](CpuShares::update)), for all CPUs of the domain at once. So between two
//! rounds the parts are those of loads that are gone.
//!
//! ```text
//! loads of a group's queues   1024    1024       0    2048 parts of 1024 after a round  256
//! 256     (256)   512     (no queue: a part for a task to come)
//! ```
//!
//! In the domain of all CPUs the parts add up to the weight of the group. In a smaller one they are
//! divided anew: their sum stays. A CPU without a queue gets the part of a task of nice 0, so that
//! a task that comes is not delayed until the next round; that part is in no sum.
//!
//! With `at_balance_unthrottled` a throttled queue counts as empty. In those kernels a queue keeps
//! its own load when its entity is taken out of the queue above, so only groups further up lost it.
//! The authors of the pool name weights of throttled queues that fluctuate (OLS 2010).
//!
//! Work: `update` is O(CPUs of the domain), for every group. Memory: 16 bytes per group and CPU,
//! with the setting.
//!
//! Sources: Linux v2.6.33 `kernel/sched.c`, `tg_shares_up`, `update_group_shares_cpu`. differs: a
//! CPU applies its new part when it looks at the group next, at its next tick at the latest, since
//! no other CPU has its lock here; rounds are not limited to one in some 100 us
//! (`sched_shares_ratelimit`), and wakeups begin none; a change of less than `sched_shares_thresh`
//! (4) counts, too.

use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zerolag_model::{CpuId, Settings};

/// The load that a CPU without a queue is given (`NICE_0_LOAD`).
const OF_A_TASK: u64 = 1024;
/// The smallest and the largest part (`MIN_SHARES`, `MAX_SHARES`).
const LEAST: u64 = 2;
const MOST: u64 = 1 << 18;

/// Returns whether the settings need them.
pub(crate) fn are_kept(settings: &Settings, cpus: usize) -> bool {
    settings.cgroup_shares.is_at_balance() && !settings.tracks_load() && cpus > 1
}

/// The parts of one group. Empty without the setting.
#[derive(Debug)]
pub(crate) struct CpuShares {
    parts: Box<[CpuShare]>,
}

/// The part of one CPU.
#[derive(Debug, Default)]
struct CpuShare {
    /// The load of the group's queue there; 0 without a queue.
    load: AtomicU64,
    /// The weight of its entity after the last round (`se->load.weight`); 0 before the first.
    weight: AtomicU32,
    /// The same, as other rounds count it (`cfs_rq->shares`): 0 where it was a part for a task to
    /// come.
    counted: AtomicU32,
}

snapshot_of!(CpuShare: { load weight counted });
snapshot_of!(CpuShares: { parts });

impl CpuShares {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { parts: (0..cpus).map(|_| CpuShare::default()).collect() }
    }

    pub(crate) fn clear(&self) {
        for part in &self.parts {
            part.load.store(0, Ordering::Relaxed);
            part.weight.store(0, Ordering::Relaxed);
            part.counted.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether there are any.
    pub(crate) const fn are_kept(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Publishes the load of the group's queue on a CPU.
    pub(crate) fn set_load(&self, cpu: CpuId, load: u64) {
        self.parts[cpu.index()].load.store(load, Ordering::Relaxed);
    }

    /// Returns the weight that the last round gave the group's entity on a CPU; 0 before the first.
    pub(crate) fn weight(&self, cpu: CpuId) -> u32 {
        self.parts[cpu.index()].weight.load(Ordering::Relaxed)
    }

    /// Divides the weight of the group in a round over the CPUs of a domain: those of a range that
    /// `is_in` it, for isolated and offline ones are in none. `is_whole`: no domain is larger.
    pub(crate) fn update(&self, weight: u64, cpus: Range<u32>, is_in: impl Fn(CpuId) -> bool, is_whole: bool) {
        let parts = || cpus.clone().map(CpuId).filter(|cpu| is_in(*cpu)).map(|cpu| &self.parts[cpu.index()]);
        let (mut loads, mut shares, mut nr_cpus) = (0, 0, 0);
        for part in parts() {
            loads += part.load.load(Ordering::Relaxed);
            shares += u64::from(part.counted.load(Ordering::Relaxed));
            nr_cpus += 1;
        }
        let is_new = shares == 0 && loads > 0;
        let shares = if is_whole || is_new || shares > weight { weight } else { shares };
        let all = if loads == 0 { OF_A_TASK * nr_cpus } else { loads };
        for part in parts() {
            let load = part.load.load(Ordering::Relaxed);
            let counts = load > 0;
            let of_cpu = (shares * if counts { load } else { OF_A_TASK } / all).clamp(LEAST, MOST) as u32;
            part.weight.store(of_cpu, Ordering::Relaxed);
            part.counted.store(if counts { of_cpu } else { 0 }, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All CPUs are in the domain.
    fn every(_: CpuId) -> bool {
        true
    }

    fn loaded(loads: [u64; 4]) -> CpuShares {
        let shares = CpuShares::new(4);
        for (cpu, load) in loads.into_iter().enumerate() {
            shares.set_load(CpuId::from_index(cpu), load);
        }
        shares
    }

    fn weights(shares: &CpuShares) -> [u32; 4] {
        [0, 1, 2, 3].map(|cpu| shares.weight(CpuId(cpu)))
    }

    #[test]
    fn the_weight_is_divided_by_load_and_an_empty_cpu_gets_a_part_for_a_task_to_come() {
        let shares = loaded([1024, 1024, 0, 2048]);
        assert_eq!(weights(&shares), [0; 4], "no round yet");
        shares.update(1024, 0..4, every, true);
        assert_eq!(weights(&shares), [256, 256, 256, 512]);
    }

    /// With `isolcpus = 3`: the same parts as on a machine without that CPU.
    #[test]
    fn an_isolated_cpu_has_no_part() {
        let shares = loaded([0; 4]);
        shares.update(1024, 0..4, |cpu| cpu != CpuId(3), true);
        assert_eq!(weights(&shares), [341, 341, 341, 0]);
    }

    #[test]
    fn a_round_of_a_smaller_domain_keeps_its_sum() {
        let shares = loaded([1024, 1024, 1024, 1024]);
        shares.update(1024, 0..4, every, true);
        shares.set_load(CpuId(0), 3072);
        shares.set_load(CpuId(3), 0);
        shares.update(1024, 0..2, every, false);
        assert_eq!(weights(&shares), [384, 128, 256, 256], "512 of the two CPUs; the others know nothing");
        shares.update(1024, 0..4, every, true);
        assert_eq!(weights(&shares), [614, 204, 204, 204]);
    }

    #[test]
    fn a_group_without_queues_has_a_part_everywhere() {
        let shares = loaded([0; 4]);
        shares.update(1024, 0..4, every, true);
        assert_eq!(weights(&shares), [256; 4]);
        shares.update(1024, 0..2, every, false);
        assert_eq!(weights(&shares), [2, 2, 256, 256], "none of them counts");
    }
}
