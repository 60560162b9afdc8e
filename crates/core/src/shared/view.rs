//! [`View`]: the shared state as one call sees it. Every read is observed.

use crate::entity::pelt::Removed;
use crate::queue::fair::averages::CpuAverages;
use crate::queue::published;
use crate::queue::published::{PublishedCounts, PublishedDeadlines, PublishedPrios};
use crate::shared::groups;
use crate::shared::state;
use crate::shared::state::Shared;
use crate::words::ids::{CpusetId, DomainId};
use crate::words::observe::Observer;
use core::ops::Range;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMask, Duration, GroupId, TaskId, UtilClamp};

/// The shared state as one call sees it: every read is observed.
pub(crate) struct View<'a, L: RawMutex> {
    pub(crate) shared: &'a Shared<L>,
    pub(crate) observer: &'a mut Observer,
}

impl<L: RawMutex> View<'_, L> {
    pub(crate) fn prios(&mut self, cpu: CpuId) -> PublishedPrios {
        let state = &self.shared.cpus[cpu.index()].0;
        PublishedPrios::unpack(self.observer.u64(|| state.prios.load(Ordering::Acquire)))
    }

    pub(crate) fn deadlines(&mut self, cpu: CpuId) -> PublishedDeadlines {
        let state = &self.shared.cpus[cpu.index()].0;
        PublishedDeadlines {
            earliest: published::unpack_deadline(self.observer.u64(|| state.earliest.load(Ordering::Acquire))),
            pushable: published::unpack_deadline(self.observer.u64(|| state.pushable_deadline.load(Ordering::Acquire))),
        }
    }

    /// Returns whether `other` is in the root domain of `cpu`. The result is certain only while the
    /// run queue of `cpu` is locked.
    pub(crate) fn is_in_domain_of(&mut self, cpu: CpuId, other: CpuId) -> bool {
        self.observer.flag(|| self.shared.domain(cpu).span.contains(other))
    }

    /// Returns whether `other` is online and in the root domain of `cpu`.
    #[inline]
    pub(crate) fn takes_part(&mut self, cpu: CpuId, other: CpuId) -> bool {
        self.is_in_domain_of(cpu, other) && self.is_online(other)
    }

    /// Returns how many CPUs of a range are online and in the root domain of `cpu`: the weight of
    /// its scheduling domain there (`sd->span_weight`, `sd_llc_size`), which has neither offline
    /// nor isolated CPUs. O(words of the range).
    pub(crate) fn nr_in_domain(&mut self, cpu: CpuId, range: Range<u32>) -> u32 {
        let Shared { online, .. } = self.shared;
        self.observer.u64(|| u64::from(self.shared.domain(cpu).span.count_in_both(online, range))) as u32
    }

    /// Returns the lowest idle CPU at or above `from` in this CPU's root domain.
    pub(crate) fn next_idle_in_domain(&mut self, cpu: CpuId, from: CpuId) -> Option<CpuId> {
        self.observer.cpu(|| self.shared.idle.next_in_both(&self.shared.domain(cpu).span, from))
    }

    /// Returns the CPU of a task that was last on CPU `last` and has its bandwidth booked in a root
    /// domain: `last`, or, if that CPU is no longer in the domain, the domain's lowest allowed CPU.
    /// A domain without such CPUs does not bind the task.
    pub(crate) fn stay_in_domain(&mut self, domain: Option<DomainId>, last: CpuId, allowed: Option<&CpuMask>) -> CpuId {
        let stay = || {
            let span = &self.shared.domains[domain.unwrap_or_else(|| self.shared.domain_of(last)).index()].span;
            let may_stay = span.contains(last) && allowed.is_none_or(|mask| mask.contains(last));
            if may_stay { Some(last) } else { span.next_and(allowed, CpuId(0)) }
        };
        // All CPUs have left its domain: only its own affinity binds it.
        let elsewhere = || allowed.filter(|mask| !mask.contains(last)).and_then(CpuMask::first);
        self.observer.cpu(stay).or_else(elsewhere).unwrap_or(last)
    }

    /// Returns the CPU itself if it is online, otherwise the lowest online CPU of its root domain
    /// that the task is allowed on, if any. O(CPUs of the domain) in the second case.
    pub(crate) fn online_in_domain(&mut self, cpu: CpuId, allowed: Option<&CpuMask>) -> Option<CpuId> {
        self.observer.cpu(|| {
            let online = &self.shared.online;
            let may_use = |cpu: &CpuId| online.contains(*cpu) && allowed.is_none_or(|mask| mask.contains(*cpu));
            if online.contains(cpu) { Some(cpu) } else { self.shared.domain(cpu).span.iter().find(may_use) }
        })
    }

    /// Returns the averages of a CPU as of their publication
    /// ([`Cx::averages_of`](crate::rq::cx::Cx::averages_of) decays them).
    pub(crate) fn averages(&mut self, cpu: CpuId) -> CpuAverages {
        let state = &self.shared.cpus[cpu.index()].0;
        let load = self.observer.u64(|| state.load.load(Ordering::Relaxed));
        CpuAverages::unpack(load, self.observer.u64(|| state.util.load(Ordering::Relaxed)))
    }

    /// Returns the published remaining capacity of a CPU for fair tasks; 0 if it has published
    /// none.
    pub(crate) fn capacity(&mut self, cpu: CpuId) -> u64 {
        let state = &self.shared.cpus[cpu.index()].0;
        self.observer.u64(|| state.capacity.load(Ordering::Relaxed))
    }

    /// Returns the load of the current task of a CPU if it does not fit there, otherwise 0.
    pub(crate) fn misfit(&mut self, cpu: CpuId) -> u64 {
        self.observer.u64(|| self.shared.misfits.get(cpu.index()).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// Returns the CPU with which the last round of idle CPUs began, that are asked to balance.
    pub(crate) fn asked_first(&mut self) -> CpuId {
        CpuId(self.observer.u64(|| u64::from(self.shared.asked_first.load(Ordering::Relaxed))) as u32)
    }

    /// Returns the published number of CPUs of a cache that are worth scanning for an idle one, if
    /// any. `first` is the first CPU of the cache.
    pub(crate) fn idle_scan(&mut self, first: CpuId) -> Option<u64> {
        let state = &self.shared.cpus[first.index()].0;
        self.observer.u64(|| state.idle_scan.load(Ordering::Relaxed)).checked_sub(1)
    }

    /// Returns whether a group of CPUs of a level, which begins with CPU `first`, is uneven because
    /// its tasks cannot migrate.
    pub(crate) fn is_uneven(&mut self, first: CpuId, level: usize) -> bool {
        let state = &self.shared.cpus[first.index()].0;
        self.observer.flag(|| state.uneven.load(Ordering::Relaxed) & 1 << level != 0)
    }

    /// Takes the notes that others left for this CPU; seldom has it any.
    #[inline]
    pub(crate) fn take_notes(&mut self, cpu: CpuId) -> Option<Removed> {
        let notes = &self.shared.cpus[cpu.index()].0.notes;
        let take = || match notes.load(Ordering::Relaxed) {
            0 => 0,
            _ => notes.swap(0, Ordering::Relaxed),
        };
        match self.observer.u64(take) {
            0 => None,
            word => Some(state::unpack_notes(word)),
        }
    }

    pub(crate) fn counts(&mut self, cpu: CpuId) -> PublishedCounts {
        let state = &self.shared.cpus[cpu.index()].0;
        PublishedCounts::unpack(self.observer.u64(|| state.counts.load(Ordering::Relaxed)))
    }

    /// Returns the current task of a CPU.
    pub(crate) fn current(&mut self, cpu: CpuId) -> Option<TaskId> {
        let state = &self.shared.cpus[cpu.index()].0;
        let word = self.observer.u64(|| state.current.load(Ordering::Relaxed));
        (word as u32).checked_sub(1).map(TaskId)
    }

    /// Returns the load of the current task of a CPU when it was switched to; 0 if none.
    pub(crate) fn current_load(&mut self, cpu: CpuId) -> u64 {
        let state = &self.shared.cpus[cpu.index()].0;
        self.observer.u64(|| state.current.load(Ordering::Relaxed)) >> 32
    }

    pub(crate) fn is_idle(&mut self, cpu: CpuId) -> bool {
        self.observer.flag(|| self.shared.idle.contains(cpu))
    }

    pub(crate) fn is_online(&mut self, cpu: CpuId) -> bool {
        self.observer.flag(|| self.shared.online.contains(cpu))
    }

    /// Returns the number of idle CPUs in a range that the task is allowed on. O(words of the
    /// range).
    pub(crate) fn nr_idle(&mut self, allowed: Option<&CpuMask>, range: Range<u32>) -> u32 {
        self.observer.u64(|| u64::from(self.shared.idle.count_and(allowed, range))) as u32
    }

    /// Returns the lowest CPU at or above `from` with a waiting task that the balancer may move.
    pub(crate) fn next_waiting(&mut self, from: CpuId) -> Option<CpuId> {
        self.observer.cpu(|| self.shared.waiting.next_and(None, from))
    }

    /// Returns whether any CPU is idle. O(1).
    pub(crate) fn has_idle(&mut self) -> bool {
        self.observer.flag(|| !self.shared.idle.is_empty())
    }

    /// Returns the lowest idle CPU at or above `from` that the task is allowed on.
    pub(crate) fn next_idle(&mut self, allowed: Option<&CpuMask>, from: CpuId) -> Option<CpuId> {
        self.observer.cpu(|| self.shared.idle.next_and(allowed, from))
    }

    /// Returns the CPU itself if it is online, otherwise the lowest online CPU that the task is
    /// allowed on, if any.
    pub(crate) fn online_or_other(&mut self, cpu: CpuId, allowed: Option<&CpuMask>) -> Option<CpuId> {
        self.observer.cpu(|| {
            let online = &self.shared.online;
            if online.contains(cpu) { Some(cpu) } else { online.next_and(allowed, CpuId(0)) }
        })
    }

    /// Returns the first task of the loaded scheduler's queue that a CPU may run, and its home.
    pub(crate) fn first_ext(&mut self, cpu: CpuId) -> Option<(TaskId, CpuId)> {
        let read = || {
            self.shared.ext.first_for(cpu).map_or(0, |(task, home)| (u64::from(home.0) << 32) | (u64::from(task.0) + 1))
        };
        let word = self.observer.u64(read);
        (word as u32).checked_sub(1).map(|task| (TaskId(task), CpuId((word >> 32) as u32)))
    }

    /// Returns a group's weight.
    pub(crate) fn group_weight(&mut self, group: GroupId) -> u64 {
        self.observer.u64(|| self.shared.groups.weight(group))
    }

    /// Returns the utilisation clamps of a group.
    pub(crate) fn group_clamp(&mut self, group: GroupId) -> UtilClamp {
        groups::unpack_clamp(self.observer.u64(|| u64::from(self.shared.groups.clamp(group))) as u32)
    }

    /// Returns the number of a group's limit; 0 without one.
    pub(crate) fn group_limit(&mut self, group: GroupId) -> u32 {
        self.observer.u64(|| u64::from(self.shared.groups.limit(group))) as u32
    }

    /// Returns a group's own bandwidth slice, if it has one.
    pub(crate) fn group_slice(&mut self, group: GroupId) -> Option<Duration> {
        let nanos = self.observer.u64(|| self.shared.groups.slice(group).map_or(0, Duration::as_nanos));
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    }

    /// Returns the number of times that a group's pool was filled at the end of a period.
    pub(crate) fn group_refreshes(&mut self, group: GroupId) -> u32 {
        self.observer.u64(|| u64::from(self.shared.groups.refreshes(group))) as u32
    }

    /// Returns 1024 times the average number of a group's runnable tasks, on all CPUs.
    pub(crate) fn group_runnable(&mut self, group: GroupId, period: u32) -> u64 {
        self.observer.u64(|| self.shared.groups.runnable(group, period))
    }

    /// Returns the sum of a group's load on all CPUs.
    pub(crate) fn group_load(&mut self, group: GroupId, period: u32) -> u64 {
        self.observer.u64(|| self.shared.groups.load(group, period))
    }

    /// Returns the lowest overloaded CPU at or above `from` in the scope of this cpuset and CPU.
    pub(crate) fn next_overloaded(&mut self, cpuset: CpusetId, cpu: CpuId, from: CpuId) -> Option<CpuId> {
        self.observer.cpu(|| self.shared.overload(cpuset, cpu).next_and(None, from))
    }
}
