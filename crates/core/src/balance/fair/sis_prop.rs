//! How far a waking task's search for an idle CPU goes, by what searches cost: `SIS_PROP`, before
//! the busyness of the cache said it ([`select`](super::select)).
//!
//! A search is worth as much time as the waking CPU would idle otherwise. So each CPU has a
//! *budget*: half of its average idle time when a task wakes that ends an idle time, halved again
//! at every tick that it has been busy since, less what its searches took. Of n CPUs in the cache
//! so many are looked at as share the budget with each taking what a whole search takes on average;
//! at least three.
//!
//! A CPU that is busy all the time therefore looks at three CPUs of a cache, however many idle.
//!
//! The budget is the waking CPU's, not that of the task's: whoever wakes there uses and writes it,
//! and who ends the CPU's idle time. What a search takes is the CPUs looked at times what one look
//! takes on this host. O(1).
//!
//! Sources: Linux v5.15 `kernel/sched/fair.c`, `select_idle_cpu`; `kernel/sched/core.c`,
//! `ttwu_do_activate`; commits 1ad3aaf3fcd2 (4.13), 94aafc3ee31d (5.14), 70fb5ccf2ebb (6.0, off
//! since). differs: until 5.13 the budget was a 512th of the average idle time, which no tick
//! halved.

use crate::entity::pelt::follow;
use crate::rq::cx::Cx;
use core::sync::atomic::{AtomicU64, Ordering};
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration};

/// The idle time of a CPU has ended, that is so long on average.
pub(crate) fn idled<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId, average: Duration) {
    if let Some(budget) = cx.shared.budgets.0.get(cpu.index()) {
        budget.left.store(average.as_nanos() / 2, Ordering::Relaxed);
        budget.tick.store(tick(cx), Ordering::Relaxed);
    }
}

/// Returns at how many of so many CPUs a search looks; `None` for all.
pub(crate) fn limit<L: RawMutex>(cx: &mut Cx<'_, L>, cpus: u64) -> Option<u64> {
    let budget = cx.shared.budgets.0.get(cx.by.index())?;
    let now = tick(cx);
    let mut read = |word: &AtomicU64| cx.io.observer.u64(|| word.load(Ordering::Relaxed));
    let (left, since, cost) = (read(&budget.left), read(&budget.tick), read(&budget.cost));
    let left = halved(left, now.saturating_sub(since));
    budget.left.store(left, Ordering::Relaxed);
    budget.tick.store(since.max(now), Ordering::Relaxed);
    Some(share(cpus, left, cost))
}

/// A search of the waking CPU has looked at so many CPUs, and was not cut short.
pub(crate) fn spend<L: RawMutex>(cx: &mut Cx<'_, L>, looked: u64) {
    let Some(budget) = cx.shared.budgets.0.get(cx.by.index()) else { return };
    let mut read = |word: &AtomicU64| cx.io.observer.u64(|| word.load(Ordering::Relaxed));
    let (left, cost) = (read(&budget.left), Duration::from_nanos(read(&budget.cost)));
    let took = cx.config.scan_cost * looked;
    budget.left.store(left.saturating_sub(took.as_nanos()), Ordering::Relaxed);
    budget.cost.store(follow(cost, took).as_nanos(), Ordering::Relaxed);
}

fn tick<L: RawMutex>(cx: &Cx<'_, L>) -> u64 {
    cx.now.wall.as_nanos() / cx.config.settings.tick_period().as_nanos()
}

fn halved(left: u64, ticks: u64) -> u64 {
    u32::try_from(ticks).ok().and_then(|ticks| left.checked_shr(ticks)).unwrap_or(0)
}

/// Returns how many CPUs of so many share what is left when a search costs so much. The kernel's
/// count includes the one at which it gives up.
const fn share(cpus: u64, left: u64, cost: u64) -> u64 {
    let (all, each) = (cpus.saturating_mul(left), cost + 1);
    let counted = if all > LEAST * each { all / each } else { LEAST };
    counted - 1
}

const LEAST: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_cpu_has_nothing_left_after_some_ticks() {
        assert_eq!(halved(1_000_000, 1), 500_000);
        assert_eq!(halved(1_000_000, 20), 0);
        assert_eq!(halved(u64::MAX, 64), 0);
        assert_eq!(halved(u64::MAX, u64::MAX), 0);
    }

    #[test]
    fn the_dearer_searches_are_the_fewer_cpus_are_looked_at_down_to_three() {
        assert_eq!(share(64, 0, 0), 3);
        assert_eq!(share(64, 10_000, 20_000), 30);
        assert_eq!(share(64, 10_000, 200_000), 3);
        assert!(share(64, 500_000, 0) > 64, "nothing is known of their cost: all");
    }
}
