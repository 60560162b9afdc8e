//! `cpudl`: an index of the earliest deadline of every CPU, per root domain. It finds a CPU where a
//! task with a given deadline would run at once.
//!
//! CPUs without deadline tasks are a set. The others are a heap with the latest deadline on top,
//! under one lock. A search takes the nearest free CPU, otherwise it looks only at the top.
//! Changing a CPU is O(log CPUs), a search O(words + levels of distance).
//!
//! Staleness: the result is a hint. A caller that acts on it checks again under the lock of the run
//! queue.
//!
//! Sources: Linux v6.12 `kernel/sched/cpudeadline.c` (`cpudl_find`, `cpudl_set`, `cpudl_clear`),
//! `deadline.c` (`find_later_rq` for the order among free CPUs).

use crate::words::atomic_mask::{AtomicCpuMask, Threads};
use crate::words::snapshot::snapshot_of;
use alloc::vec::Vec;
use lock_api::{Mutex, RawMutex};
use zerolag_model::{CpuId, CpuMask, Distance, Instant, Topology};

/// The state of a CPU for the deadline class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DlLevel {
    /// Offline: no task is pushed there.
    Gone,
    /// It has no deadline task.
    Free,
    /// Its earliest deadline.
    Busy(Instant),
}

#[derive(Debug)]
pub(crate) struct CpuDl<L: RawMutex> {
    free: AtomicCpuMask,
    busy: Mutex<L, LatestFirst>,
}

snapshot_of!(CpuDl<L>, L: { free busy });

impl<L: RawMutex> CpuDl<L> {
    pub(crate) fn new(nr_cpus: usize, threads: Threads) -> Self {
        let busy = LatestFirst { heap: Vec::with_capacity(nr_cpus), place: alloc::vec![None; nr_cpus] };
        Self { free: AtomicCpuMask::new(nr_cpus, threads), busy: Mutex::new(busy) }
    }

    /// Sets the state of a CPU. Called under the lock of its run queue.
    pub(crate) fn set(&self, cpu: CpuId, level: DlLevel) {
        let mut busy = self.busy.lock();
        busy.assign(cpu, level);
        let is_free = level == DlLevel::Free;
        if is_free != self.free.contains(cpu) {
            self.free.assign(cpu, is_free);
        }
    }

    /// Returns the items that [`set`](Self::set) would write, as places in the heap and as CPUs
    /// that get another place, and whether it would change the set of free CPUs; for a log.
    /// O(CPUs).
    pub(crate) fn change(&self, cpu: CpuId, level: DlLevel) -> (Vec<u32>, bool) {
        let had = self.busy.lock().clone();
        let mut has = had.clone();
        has.assign(cpu, level);
        let index = |index| u32::try_from(index).expect("invariant: fewer than 2^32 CPUs");
        let is_written =
            |item: &usize| had.heap.get(*item) != has.heap.get(*item) || had.place[*item] != has.place[*item];
        let items = (0..has.place.len()).filter(is_written).map(index).collect();
        (items, (level == DlLevel::Free) != self.free.contains(cpu))
    }

    /// Returns whether a CPU is registered with this state and no other, for checks.
    pub(crate) fn is_exact(&self, cpu: CpuId, level: DlLevel) -> bool {
        let busy = self.busy.lock();
        let held = match (busy.deadline(cpu), self.free.contains(cpu)) {
            (None, false) => DlLevel::Gone,
            (None, true) => DlLevel::Free,
            (Some(deadline), false) => DlLevel::Busy(deadline),
            (Some(_), true) => return false,
        };
        held == level
    }

    /// Returns whether a search finds a CPU without deadline tasks.
    pub(crate) fn has_free(&self, allowed: Option<&CpuMask>) -> bool {
        self.free.next_and(allowed, CpuId(0)).is_some()
    }

    /// Finds the free CPU nearest to `near` that the task is allowed on; at equal distance the
    /// calling CPU `by`, then the lowest number. If none is free, it returns the CPU with the
    /// latest deadline, if that is later than the task's.
    pub(crate) fn find(
        &self,
        deadline: Instant,
        allowed: Option<&CpuMask>,
        [near, by]: [CpuId; 2],
        topology: &Topology,
    ) -> Option<CpuId> {
        if let Some(any) = self.free.next_and(allowed, CpuId(0)) {
            let by = Some(by).filter(|by| self.free.next_and(allowed, *by) == Some(*by));
            for distance in Distance::ALL {
                let span = topology.span(near, distance);
                if let Some(by) = by.filter(|by| span.contains(&by.0)) {
                    return Some(by);
                }
                let found = self.free.next_and(allowed, CpuId(span.start)).filter(|cpu| cpu.0 < span.end);
                if found.is_some() {
                    return found;
                }
            }
            return Some(any);
        }
        let (latest, cpu) = self.busy.lock().first()?;
        let may_use = allowed.is_none_or(|mask| mask.contains(cpu));
        (may_use && deadline < latest).then_some(cpu)
    }
}

/// CPUs by deadline, latest first; among equals the lowest number first.
#[derive(Clone, Debug)]
struct LatestFirst {
    heap: Vec<(Instant, CpuId)>,
    place: Vec<Option<u32>>,
}

impl LatestFirst {
    fn assign(&mut self, cpu: CpuId, level: DlLevel) {
        match level {
            DlLevel::Busy(deadline) => self.set(cpu, deadline),
            DlLevel::Free | DlLevel::Gone => self.remove(cpu),
        }
    }

    fn first(&self) -> Option<(Instant, CpuId)> {
        self.heap.first().copied()
    }

    fn deadline(&self, cpu: CpuId) -> Option<Instant> {
        self.place[cpu.index()].map(|place| self.heap[place as usize].0)
    }

    /// Adds a CPU, or changes its deadline. It moves from its place in the heap, usually not at
    /// all.
    fn set(&mut self, cpu: CpuId, deadline: Instant) {
        match self.place[cpu.index()] {
            Some(place) => {
                let place = place as usize;
                let had = core::mem::replace(&mut self.heap[place].0, deadline);
                if deadline > had { self.rise(place) } else { self.sink(place) }
            }
            None => self.add(cpu, deadline),
        }
    }

    #[inline(never)]
    fn add(&mut self, cpu: CpuId, deadline: Instant) {
        self.heap.push((deadline, cpu));
        self.rise(self.heap.len() - 1);
    }

    fn remove(&mut self, cpu: CpuId) {
        let Some(place) = self.place[cpu.index()].take() else { return };
        let place = place as usize;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let cpu = self.heap[place].1;
            self.rise(place);
            // It has risen, or it sinks.
            if self.heap[place].1 == cpu {
                self.sink(place);
            }
        }
    }

    fn before(a: (Instant, CpuId), b: (Instant, CpuId)) -> bool {
        a.0 > b.0 || a.0 == b.0 && a.1 < b.1
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 && Self::before(entry, self.heap[(at - 1) / 2]) {
            self.put(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                break;
            }
            let right_first = right < self.heap.len() && Self::before(self.heap[right], self.heap[left]);
            let child = if right_first { right } else { left };
            if !Self::before(self.heap[child], entry) {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (Instant, CpuId)) {
        self.heap[at] = entry;
        self.place[entry.1.index()] = Some(u32::try_from(at).expect("invariant: fewer than 2^32 CPUs"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    type Lock = parking_lot::RawMutex;

    #[test]
    fn the_nearest_free_cpu_wins_then_the_latest_deadline() {
        let machine = Topology::new(2, 1, 4, 1).expect("8 CPUs");
        let cpudl = CpuDl::<Lock>::new(8, Threads::Many);
        let at = Instant::from_nanos;
        for cpu in machine.cpus() {
            cpudl.set(cpu, DlLevel::Busy(at(100 + u64::from(cpu.0 * 37 % 8))));
        }
        let find_by = |deadline, allowed: Option<&str>, near, by| {
            let allowed = allowed.map(|list| list.parse().expect("a list"));
            cpudl.find(at(deadline), allowed.as_ref(), [CpuId(near), CpuId(by)], &machine)
        };
        let find = |deadline, allowed, near| find_by(deadline, allowed, near, near);
        assert_eq!(find(106, None, 0), Some(CpuId(3)), "37 * 3 % 8 is 7");
        assert_eq!(find(107, None, 0), None, "an equal deadline does not preempt");
        assert_eq!(find(1, Some("0-2"), 0), None, "only the top is looked at");
        cpudl.set(CpuId(1), DlLevel::Free);
        cpudl.set(CpuId(6), DlLevel::Free);
        assert_eq!((find(900, None, 0), find(900, None, 5)), (Some(CpuId(1)), Some(CpuId(6))));
        cpudl.set(CpuId(2), DlLevel::Free);
        assert_eq!(find_by(900, None, 0, 2), Some(CpuId(2)), "the caller's CPU needs no IPI");
        assert_eq!(find_by(900, None, 5, 2), Some(CpuId(6)), "it is further away");
        for cpu in [1, 2, 6, 3] {
            cpudl.set(CpuId(cpu), DlLevel::Gone);
        }
        assert_eq!(find(1, None, 0), Some(CpuId(4)), "37 * 4 % 8 is 4: the latest that is left");
    }

    #[test]
    fn the_items_of_a_change_are_those_that_differ() {
        let cpudl = CpuDl::<Lock>::new(8, Threads::One);
        let busy = |deadline| DlLevel::Busy(Instant::from_nanos(deadline));
        for (cpu, deadline) in [(0, 50), (1, 40), (2, 30)] {
            cpudl.set(CpuId(cpu), busy(deadline));
        }
        cpudl.set(CpuId(7), DlLevel::Free);
        assert_eq!(cpudl.change(CpuId(2), busy(20)), (vec![2], false), "it stays in its place");
        assert_eq!(cpudl.change(CpuId(2), busy(60)), (vec![0, 2], false), "it changes places with CPU 0");
        assert_eq!(cpudl.change(CpuId(7), busy(10)), (vec![3, 7], true), "place 3, and the place of CPU 7");
        assert_eq!(cpudl.change(CpuId(5), DlLevel::Gone), (vec![], false), "only the lock is taken");
        assert_eq!(cpudl.change(CpuId(0), DlLevel::Free), (vec![0, 1, 2], true), "the last rises to the top");
        assert!(cpudl.is_exact(CpuId(0), busy(50)), "nothing was changed");
    }

    #[test]
    fn the_heap_agrees_with_a_list() {
        let mut heap = LatestFirst { heap: Vec::new(), place: alloc::vec![None; 16] };
        let mut list = [None; 16];
        let mut random = 12_345_u64;
        for _ in 0..4000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let cpu = CpuId((random >> 60) as u32);
            let deadline = (random >> 40) % 5;
            list[cpu.index()] = (deadline > 0).then_some(Instant::from_nanos(deadline));
            match list[cpu.index()] {
                Some(deadline) => heap.set(cpu, deadline),
                None => heap.remove(cpu),
            }
            let latest = (0..16_u32).rev().filter_map(|cpu| Some((list[cpu as usize]?, CpuId(cpu))));
            assert_eq!(heap.first(), latest.max_by_key(|(deadline, _)| *deadline));
        }
    }
}
