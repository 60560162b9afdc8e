//! [`RtGroupTable`]: the real-time runtime of groups (`cpu.rt_runtime_us`, `cpu.rt_period_us`), and
//! of each group the runtime of every CPU.
//!
//! A group has its runtime on *each* CPU. With `features.RT_RUNTIME_SHARE` a CPU that needs more
//! takes 1/n of the unused runtime of the same group on each other CPU of its root domain, up to
//! the whole period. Loans stay until they are taken back the same way, or the runtime is set.
//!
//! The periods of a group begin at the same instants on all CPUs where it counts: the kernel has
//! one timer per group. Here each CPU has its own, on one grid, which begins anew when no CPU has
//! counted.
//!
//! A row is an inner lock.
//!
//! Sources: Linux v5.10 `kernel/sched/rt.c`, `do_balance_runtime`,
//! `do_sched_rt_period_timer`, `start_rt_bandwidth`, `tg_set_rt_bandwidth`, `__disable_runtime`,
//! `__enable_runtime`.

use crate::words::snapshot::snapshot_of;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::{Mutex, MutexGuard, RawMutex};
use zerolag_model::settings::RtGroupSched;
use zerolag_model::{CpuId, Duration, GroupId, Instant, RtBandwidth, Settings};

/// What a charge means for a group on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RtVerdict {
    /// There is no limit, and nothing is counted.
    Unlimited,
    /// It may run on.
    Within,
    /// It has exceeded its runtime.
    Exceeded,
    /// A group without runtime, whose task runs with an inherited priority: the time is forgotten.
    Forgotten,
}

impl RtVerdict {
    pub(crate) const ALL: [Self; 4] = [Self::Unlimited, Self::Within, Self::Exceeded, Self::Forgotten];
}

/// A group on one CPU.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Its runtime per period, with loans; `None` while it has no limit or the CPU is offline.
    runtime: Option<Duration>,
    /// The time that it has used, as the CPU has told last.
    time: Duration,
}

/// One group.
#[derive(Clone, Debug)]
pub(crate) struct RtGroup {
    pub(crate) bandwidth: RtBandwidth,
    /// Its tasks with a real-time policy.
    pub(crate) nr_rt: u32,
    parts: Vec<Part>,
    /// The end of a period, of those that have been planned.
    grid: Instant,
    /// The CPUs that count.
    counting: u32,
}

impl RtGroup {
    fn new(bandwidth: RtBandwidth, cpus: usize) -> Self {
        let part = Part { runtime: bandwidth.runtime, time: Duration::ZERO };
        Self { bandwidth, nr_rt: 0, parts: vec![part; cpus], grid: Instant::ZERO, counting: 0 }
    }

    /// Sets the runtime of every CPU; loans are forgotten.
    pub(crate) fn set(&mut self, bandwidth: RtBandwidth) {
        self.bandwidth = bandwidth;
        for part in &mut self.parts {
            part.runtime = bandwidth.runtime;
        }
    }

    /// Charges a CPU, which has used `time` in all. `lenders` are the other CPUs that it can borrow
    /// from.
    pub(crate) fn charge(&mut self, cpu: CpuId, time: Duration, has_exceeded: bool, lenders: &[CpuId]) -> RtVerdict {
        let part = &mut self.parts[cpu.index()];
        let Some(runtime) = part.runtime else { return RtVerdict::Unlimited };
        part.time = time;
        if has_exceeded {
            return RtVerdict::Exceeded;
        }
        if runtime >= self.bandwidth.period || time <= self.borrow(cpu, time, lenders).unwrap_or(Duration::MAX) {
            return RtVerdict::Within;
        }
        if self.bandwidth.runtime == Some(Duration::ZERO) {
            self.parts[cpu.index()].time = Duration::ZERO;
            return RtVerdict::Forgotten;
        }
        RtVerdict::Exceeded
    }

    /// Returns the runtime of a CPU after it has borrowed, if it needs more than it has.
    fn borrow(&mut self, cpu: CpuId, time: Duration, lenders: &[CpuId]) -> Option<Duration> {
        let mut own = self.parts[cpu.index()].runtime?;
        if time <= own {
            return Some(own);
        }
        let weight = lenders.iter().filter(|cpu| self.parts[cpu.index()].runtime.is_some()).count() as u64 + 1;
        for other in lenders {
            let lender = &mut self.parts[other.index()];
            let Some(runtime) = &mut lender.runtime else { continue };
            let room = self.bandwidth.period.saturating_sub(own);
            let loan = (runtime.saturating_sub(lender.time) / weight).min(room);
            *runtime = runtime.saturating_sub(loan);
            own += loan;
        }
        self.parts[cpu.index()].runtime = Some(own);
        Some(own)
    }

    /// Begins to count on a CPU; returns the end of the present period. `None` without a limit.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<Instant> {
        self.bandwidth.runtime?;
        let period = self.bandwidth.period;
        if self.counting == 0 {
            self.grid = now.saturating_add(period);
        } else if self.grid <= now {
            let periods = now.since(self.grid).as_nanos() / period.as_nanos() + 1;
            self.grid = self.grid.saturating_add(period * periods);
        }
        self.counting += 1;
        Some(self.grid)
    }

    /// Ends counting on a CPU.
    pub(crate) fn end(&mut self, cpu: CpuId) {
        self.counting -= 1;
        self.parts[cpu.index()].time = Duration::ZERO;
    }

    /// Ends a period that was to end at `ends` on a CPU that has used `time`. Returns its runtime
    /// (`None`: no limit), the number of periods that have ended, and the end of the next.
    pub(crate) fn pass(
        &mut self,
        cpu: CpuId,
        (ends, now): (Instant, Instant),
        (time, has_exceeded): (Duration, bool),
        lenders: &[CpuId],
    ) -> (Option<Duration>, u64, Instant) {
        let runtime = if has_exceeded { self.borrow(cpu, time, lenders) } else { self.parts[cpu.index()].runtime };
        let period = self.bandwidth.period;
        let periods = now.since(ends).as_nanos() / period.as_nanos() + 1;
        let next = ends.saturating_add(period * periods);
        self.grid = self.grid.max(next);
        self.parts[cpu.index()].time = runtime.map_or(Duration::ZERO, |runtime| time.saturating_sub(runtime * periods));
        (runtime, periods, next)
    }

    /// Settles the loans of a CPU that goes offline or leaves its root domain, and takes it out of
    /// lending.
    pub(crate) fn leave(&mut self, cpu: CpuId, others: &[CpuId]) {
        let (Some(limit), Some(has)) = (self.bandwidth.runtime, self.parts[cpu.index()].runtime.take()) else { return };
        let (mut wanted, mut surplus) = (limit.saturating_sub(has), has.saturating_sub(limit));
        for other in others {
            let Some(runtime) = &mut self.parts[other.index()].runtime else { continue };
            let part = (*runtime).min(wanted);
            *runtime = runtime.saturating_sub(part) + core::mem::take(&mut surplus);
            wanted = wanted.saturating_sub(part);
        }
    }

    /// Begins anew on a CPU that is back, or in another root domain.
    pub(crate) fn join(&mut self, cpu: CpuId) {
        self.parts[cpu.index()] = Part { runtime: self.bandwidth.runtime, time: Duration::ZERO };
    }

    /// Returns the sum of the runtimes of some CPUs, and how many of them lend. For checks.
    pub(crate) fn total(&self, cpus: impl Iterator<Item = CpuId>) -> (Duration, u64) {
        let runtimes = cpus.filter_map(|cpu| self.parts[cpu.index()].runtime);
        runtimes.fold((Duration::ZERO, 0), |(sum, nr), runtime| (sum + runtime, nr + 1))
    }
}

/// Returns the runtime of a new group: none, or with servers that of the group above.
const fn of_new(mode: RtGroupSched) -> Option<Duration> {
    match mode {
        RtGroupSched::Off | RtGroupSched::V1 => Some(Duration::ZERO),
        RtGroupSched::Hcbs => None,
    }
}

/// The real-time runtimes of all groups; no rows without `rt_group_sched`.
#[derive(Debug)]
pub(crate) struct RtGroupTable<L: RawMutex> {
    rows: Vec<Mutex<L, RtGroup>>,
    /// Held while a runtime is compared with those of other groups, and then set. Rows are locked
    /// under it (`rt_constraints_mutex`).
    pub(crate) constraints: Mutex<L, ()>,
    /// The runtime of a new group.
    at_first: Option<Duration>,
    /// Whether real-time tasks are limited at all (`sched_rt_runtime_us` is not -1). Stale by a
    /// charge.
    is_limited: AtomicBool,
}

snapshot_of!(RtGroupTable<L>, L: { rows constraints is_limited } { at_first });

impl<L: RawMutex> RtGroupTable<L> {
    /// Returns a table for the root group and `groups` more.
    pub(crate) fn new(groups: usize, settings: &Settings, cpus: usize) -> Self {
        let rows = if settings.rt_group_sched == RtGroupSched::Off { 0 } else { groups + 1 };
        let root = settings.rt_bandwidth();
        let at_first = of_new(settings.rt_group_sched);
        let none = RtBandwidth { runtime: at_first, ..root };
        let row = |index| Mutex::new(RtGroup::new(if index == 0 { root } else { none }, cpus));
        Self {
            rows: (0..rows).map(row).collect(),
            constraints: Mutex::new(()),
            at_first,
            is_limited: AtomicBool::new(root.runtime.is_some()),
        }
    }

    /// Returns whether groups have real-time runtimes.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Sets whether real-time tasks are limited at all.
    pub(crate) fn set_limited(&self, is_limited: bool) {
        self.is_limited.store(is_limited, Ordering::Relaxed);
    }

    /// Returns whether real-time tasks are limited at all: if not, nothing is counted
    /// (`rt_bandwidth_enabled`).
    pub(crate) fn is_limited(&self) -> bool {
        self.is_limited.load(Ordering::Relaxed)
    }

    /// Returns a group, locked.
    ///
    /// # Panics
    /// Without `rt_group_sched`.
    pub(crate) fn row(&self, group: GroupId) -> MutexGuard<'_, L, RtGroup> {
        self.rows[group.index()].lock()
    }

    /// Gives a new group the runtime of new groups.
    pub(crate) fn reset(&self, group: GroupId) {
        if self.is_on() {
            let mut row = self.row(group);
            let period = self.rows[0].lock().bandwidth.period;
            *row = RtGroup::new(RtBandwidth { runtime: self.at_first, period }, row.parts.len());
        }
    }

    /// Counts a task with a real-time policy that joins or leaves a group.
    pub(crate) fn count(&self, group: GroupId, was_rt: bool, is_rt: bool) {
        if self.is_on() && was_rt != is_rt {
            let nr_rt = &mut self.row(group).nr_rt;
            *nr_rt = if is_rt { *nr_rt + 1 } else { *nr_rt - 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn group(runtime: u64, period: u64, cpus: usize) -> RtGroup {
        RtGroup::new(RtBandwidth { runtime: Some(ms(runtime)), period: ms(period) }, cpus)
    }

    #[test]
    fn a_cpu_borrows_a_part_of_what_the_others_do_not_use_up_to_the_period() {
        let mut row = group(50, 100, 2);
        assert_eq!(row.charge(CpuId(0), ms(51), false, &[CpuId(1)]), RtVerdict::Within);
        assert_eq!((row.parts[0].runtime, row.parts[1].runtime), (Some(ms(75)), Some(ms(25))));
        assert_eq!(row.total([0, 1].map(CpuId).into_iter()), (ms(100), 2), "nothing is lost");
        assert_eq!(row.charge(CpuId(0), ms(101), false, &[CpuId(1)]), RtVerdict::Exceeded);
        row.leave(CpuId(0), &[CpuId(1)]);
        assert_eq!((row.parts[0].runtime, row.parts[1].runtime), (None, Some(ms(50))));
        row.join(CpuId(0));
        assert_eq!(row.parts[0].runtime, Some(ms(50)));
    }

    #[test]
    fn a_group_without_runtime_forgets_and_one_without_limit_does_not_count() {
        let mut row = group(0, 100, 1);
        assert_eq!(row.charge(CpuId(0), ms(1), false, &[]), RtVerdict::Forgotten);
        row.set(RtBandwidth { runtime: None, period: ms(100) });
        assert_eq!(row.charge(CpuId(0), ms(1), false, &[]), RtVerdict::Unlimited);
        assert_eq!(row.begin(Instant::ZERO), None);
    }

    #[test]
    fn cpus_that_count_share_the_ends_of_periods() {
        let mut row = group(50, 100, 2);
        let at = |count| Instant::ZERO + ms(count);
        assert_eq!(row.begin(at(30)), Some(at(130)));
        assert_eq!(row.begin(at(90)), Some(at(130)), "the same end");
        assert_eq!(row.pass(CpuId(0), (at(130), at(130)), (ms(60), true), &[]).2, at(230));
        assert_eq!(row.parts[0].time, ms(10), "an overrun is debt");
        row.end(CpuId(0));
        row.end(CpuId(1));
        assert_eq!(row.begin(at(500)), Some(at(600)), "no CPU has counted");
    }
}
