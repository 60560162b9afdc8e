//! `SIS_PROP`: limits a waking task's search for an idle CPU by the cost of searches. Kernels used
//! it before the busyness of the cache set the limit ([`select`](super::select)).
//!
//! A search is worth as much time as the waking CPU would otherwise idle. So every CPU has a
//! *budget*: half of its average idle time, set when a wakeup ends an idle period; halved at every
//! tick that the CPU has been busy since; and reduced by the time of its searches. The number of
//! CPUs that a search examines is budget x CPUs of the cache / average cost of a search, and at
//! least three.
//!
//! A CPU that is always busy therefore examines three CPUs of a cache, however many of them idle.
//!
//! The budget belongs to the waking CPU, not to the CPU of the task: it is used and written by
//! wakeups on that CPU and by the wakeup that ends the CPU's idle period. The cost of a search is
//! the number of examined CPUs times the cost of one on this host. O(1).
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

/// Renews the budget of a CPU at the end of an idle period, from the average length of its idle
/// periods.
pub(crate) fn idled<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId, average: Duration) {
    if let Some(budget) = cx.shared.budgets.0.get(cpu.index()) {
        budget.left.store(average.as_nanos() / 2, Ordering::Relaxed);
        budget.tick.store(tick(cx), Ordering::Relaxed);
    }
}

/// Returns how many of `cpus` CPUs a search examines; `None` for all.
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

/// Charges the waking CPU for a search that has examined `looked` CPUs and was not cut short.
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

/// Returns the number of CPUs that a search examines, from the remaining budget and the average
/// cost. The kernel's count includes the CPU at which it gives up.
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
