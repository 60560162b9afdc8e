//! `cpupri`: an index of CPUs by priority, per root domain. It finds the CPU of lowest priority
//! that a task is allowed on and can preempt, without looking at every CPU.
//!
//! There is one set of CPUs per *level*: 0 for CPUs that run fair tasks or idle, 1..=99 for the
//! real-time priority of the most urgent task queued there, 100 for deadline and stop. A search
//! goes up from level 0 to below the task's own level. It stops at the first level that shares a
//! CPU with the task's affinity. A bit per occupied level makes it O(occupied levels + words).
//! Changing a CPU's level is O(1).
//!
//! Staleness: a CPU joins its new level before it leaves its old one, so a reader can see it on
//! both, but never on none. The result is a hint. A caller that acts on it checks again under the
//! lock of the run queue.
//!
//! Sources: Linux v6.12 `kernel/sched/cpupri.c` (`cpupri_find_fitness`, `cpupri_set`). differs: a
//! level has no count besides its mask, because the summary word serves; a bitmap of occupied
//! levels replaces the walk over 100 counters.

use crate::words::atomic_mask::{AtomicCpuMask, Threads, clear_bits, set_bits};
use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use zerolag_model::{ClassId, CpuId, CpuMask, Distance, Prio, Topology};

/// Levels: not real time, 99 real-time priorities, above real time.
const LEVELS: usize = 101;

/// The level of a CPU that is not part of the domain (offline).
const NO_LEVEL: u8 = u8::MAX;

#[derive(Debug)]
pub(crate) struct CpuPri {
    threads: Threads,
    levels: Box<[AtomicCpuMask]>,
    /// A bit per level that can hold a CPU; advisory, like the summary of a mask.
    occupied: [AtomicU64; 2],
    level_of: Box<[AtomicU8]>,
}

snapshot_of!(CpuPri: { levels occupied level_of } { threads });

impl CpuPri {
    pub(crate) fn new(nr_cpus: usize, threads: Threads) -> Self {
        Self {
            threads,
            levels: (0..LEVELS).map(|_| AtomicCpuMask::new(nr_cpus, threads)).collect(),
            occupied: [AtomicU64::new(0), AtomicU64::new(0)],
            level_of: (0..nr_cpus).map(|_| AtomicU8::new(NO_LEVEL)).collect(),
        }
    }

    /// Returns the level of a priority.
    const fn level(prio: Prio) -> u8 {
        match prio.class() {
            ClassId::Fair | ClassId::Idle => 0,
            ClassId::Rt => 99 - prio.raw() as u8,
            ClassId::Deadline | ClassId::Stop => 100,
        }
    }

    /// Sets the priority of the most urgent task of a CPU. Called under the lock of its run queue.
    pub(crate) fn set(&self, cpu: CpuId, prio: Prio) {
        self.set_level(cpu, Self::level(prio));
    }

    /// Removes a CPU: no task is pushed there any more.
    pub(crate) fn remove(&self, cpu: CpuId) {
        self.set_level(cpu, NO_LEVEL);
    }

    /// Returns whether a CPU is registered at the level of this priority and at no other; with
    /// `None`, at no level.
    pub(crate) fn is_exact(&self, cpu: CpuId, prio: Option<Prio>) -> bool {
        let wanted = prio.map(|prio| usize::from(Self::level(prio)));
        (0..LEVELS).all(|level| self.levels[level].contains(cpu) == (wanted == Some(level)))
    }

    fn set_level(&self, cpu: CpuId, new: u8) {
        let old = self.level_of[cpu.index()].load(Ordering::Relaxed);
        if old == new {
            return;
        }
        self.level_of[cpu.index()].store(new, Ordering::Relaxed);
        if new != NO_LEVEL {
            let level = usize::from(new);
            self.levels[level].insert(cpu);
            let (word, bit) = (level / 64, 1_u64 << (level % 64));
            if self.occupied[word].load(Ordering::Acquire) & bit == 0 {
                set_bits(&self.occupied[word], bit, self.threads);
            }
        }
        if old != NO_LEVEL {
            let level = usize::from(old);
            self.levels[level].remove(cpu);
            if self.levels[level].is_empty() {
                let (word, bit) = (level / 64, 1_u64 << (level % 64));
                clear_bits(&self.occupied[word], bit, self.threads);
                if !self.levels[level].is_empty() {
                    set_bits(&self.occupied[word], bit, self.threads);
                }
            }
        }
    }

    /// Finds the CPU of lowest level, below that of `prio`, that the task is allowed on; among
    /// equals the nearest to `near`.
    ///
    /// Order among CPUs of one level (`find_lowest_rq`): `near` itself, then its SMT siblings, its
    /// cache, its socket, the rest; in each the calling CPU `by`, because it needs no IPI, then the
    /// lowest number.
    #[inline(always)]
    pub(crate) fn find(
        &self,
        prio: Prio,
        allowed: Option<&CpuMask>,
        [near, by]: [CpuId; 2],
        topology: &Topology,
    ) -> Option<CpuId> {
        let below = Self::level(prio);
        // Often no CPU is below: that is seen without a call.
        if self.lowest() >= u32::from(below) { None } else { self.find_below(below, allowed, [near, by], topology) }
    }

    /// Returns the lowest level that can hold a CPU.
    #[inline(always)]
    fn lowest(&self) -> u32 {
        let [low, high] = [0, 1].map(|word| self.occupied[word].load(Ordering::Acquire));
        if low != 0 { low.trailing_zeros() } else { u64::BITS + high.trailing_zeros() }
    }

    #[inline(never)]
    fn find_below(
        &self,
        below: u8,
        allowed: Option<&CpuMask>,
        [near, by]: [CpuId; 2],
        topology: &Topology,
    ) -> Option<CpuId> {
        for word in 0..self.occupied.len() {
            let mut bits = self.occupied[word].load(Ordering::Acquire);
            while bits != 0 {
                let level = word * 64 + bits.trailing_zeros() as usize;
                if level >= usize::from(below) {
                    return None;
                }
                if let Some(cpu) = self.nearest(level, allowed, [near, by], topology) {
                    return Some(cpu);
                }
                bits &= bits - 1;
            }
        }
        None
    }

    fn nearest(
        &self,
        level: usize,
        allowed: Option<&CpuMask>,
        [near, by]: [CpuId; 2],
        topology: &Topology,
    ) -> Option<CpuId> {
        let mask = &self.levels[level];
        let any = mask.next_and(allowed, CpuId(0))?;
        let by = Some(by).filter(|by| mask.next_and(allowed, *by) == Some(*by));
        for distance in Distance::ALL {
            let span = topology.span(near, distance);
            if let Some(by) = by.filter(|by| span.contains(&by.0)) {
                return Some(by);
            }
            let found = if span.start == 0 { Some(any) } else { mask.next_and(allowed, CpuId(span.start)) };
            if let Some(cpu) = found.filter(|cpu| cpu.0 < span.end) {
                return Some(cpu);
            }
        }
        Some(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::RtPriority;

    fn rt(priority: i64) -> Prio {
        Prio::from_rt(RtPriority::new(priority).expect("1..=99"))
    }

    #[test]
    fn the_lowest_level_wins_and_the_nearest_cpu_within_it() {
        let machine = Topology::new(2, 1, 4, 1).expect("8 CPUs");
        let pri = CpuPri::new(8, Threads::Many);
        for cpu in machine.cpus() {
            pri.set(cpu, rt(50));
        }
        let find_by = |prio, allowed: Option<&str>, near, by| {
            let allowed = allowed.map(|list| list.parse().expect("a list"));
            pri.find(prio, allowed.as_ref(), [CpuId(near), CpuId(by)], &machine)
        };
        let find = |prio, allowed, near| find_by(prio, allowed, near, near);
        assert_eq!(find(rt(50), None, 0), None, "equal priority is not preempted");
        assert_eq!(find(rt(51), None, 6), Some(CpuId(6)));
        pri.set(CpuId(3), rt(10));
        pri.set(CpuId(7), rt(10));
        assert_eq!(find(rt(51), None, 6), Some(CpuId(7)), "same socket");
        assert_eq!(find(rt(51), None, 0), Some(CpuId(3)));
        assert_eq!(find(rt(51), Some("0-2"), 0), Some(CpuId(0)), "the affinity forces a higher level");
        pri.set(CpuId(2), rt(10));
        assert_eq!(find_by(rt(51), None, 0, 3), Some(CpuId(3)), "the caller's CPU needs no IPI");
        assert_eq!(find_by(rt(51), None, 0, 7), Some(CpuId(2)), "it is further away");
        assert_eq!(find_by(rt(51), None, 2, 3), Some(CpuId(2)), "where the task ran comes first");
        assert_eq!(find_by(rt(51), Some("0-2"), 0, 3), Some(CpuId(2)), "the task is not allowed there");
        pri.set(CpuId(5), Prio::IDLE);
        assert_eq!(find(rt(1), None, 0), Some(CpuId(5)));
        pri.remove(CpuId(5));
        assert_eq!(find(rt(1), None, 0), None);
    }
}
