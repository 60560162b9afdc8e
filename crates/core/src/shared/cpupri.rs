//! `cpupri`: which CPUs run at which priority, per root domain; answers "the CPU of lowest priority
//! that this task may use and can preempt" without looking at every CPU.
//!
//! One set of CPUs per *level*: 0 for CPUs that run fair tasks or nothing, 1..=99 for the real-time
//! priority of the most urgent task queued there, 100 for deadline and stop. A search goes up from
//! level 0 to below the task's own and stops at the first level that shares a CPU with the task's
//! affinity. A bit per occupied level makes it O(occupied levels + words); changing a CPU's level
//! is O(1).
//!
//! Staleness: a CPU is put on its new level before it leaves its old one, so it may be seen on
//! both, never on none. The answer is a hint; whoever acts on it checks again under the lock of the
//! run queue.
//!
//! Sources: Linux v6.12 `kernel/sched/cpupri.c` (`cpupri_find_fitness`, `cpupri_set`). differs: no
//! count beside a level's mask, the summary word serves; a bitmap of occupied levels instead of a
//! walk over 100 counters.

use crate::words::atomic_mask::{AtomicCpuMask, Threads, clear_bits, set_bits};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use zerolag_model::{ClassId, CpuId, CpuMask, Distance, Prio, Topology};

/// Levels: not real time, 99 real-time priorities, above real time.
const LEVELS: usize = 101;

/// A CPU that is not part of the domain (offline).
const NO_LEVEL: u8 = u8::MAX;

#[derive(Debug)]
pub(crate) struct CpuPri {
    threads: Threads,
    levels: Box<[AtomicCpuMask]>,
    /// Bit per level that may hold a CPU; advisory, as the summary of a mask.
    occupied: [AtomicU64; 2],
    level_of: Box<[AtomicU8]>,
}

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

    /// Says that the most urgent task of a CPU is now of this priority. Called under that run
    /// queue's lock.
    pub(crate) fn set(&self, cpu: CpuId, prio: Prio) {
        self.set_level(cpu, Self::level(prio));
    }

    /// Takes a CPU out: nothing is pushed there any more.
    pub(crate) fn remove(&self, cpu: CpuId) {
        self.set_level(cpu, NO_LEVEL);
    }

    /// Returns whether a CPU is held at this priority's level and at no other; with `None`, at none
    /// at all.
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

    /// Finds the CPU of lowest level, below that of `prio`, that the task may use, nearest to
    /// `near` among equals.
    ///
    /// Order among CPUs of one level (`find_lowest_rq`): `near` itself, then its SMT siblings, its
    /// cache, its socket, the rest; in each the lowest number. `scanned` counts levels looked at.
    pub(crate) fn find(
        &self,
        prio: Prio,
        allowed: Option<&CpuMask>,
        near: CpuId,
        topology: &Topology,
        scanned: &mut u32,
    ) -> Option<CpuId> {
        let below = Self::level(prio);
        for word in 0..self.occupied.len() {
            let mut bits = self.occupied[word].load(Ordering::Acquire);
            while bits != 0 {
                let level = word * 64 + bits.trailing_zeros() as usize;
                if level >= usize::from(below) {
                    return None;
                }
                *scanned += 1;
                if let Some(cpu) = self.nearest(level, allowed, near, topology) {
                    return Some(cpu);
                }
                bits &= bits - 1;
            }
        }
        None
    }

    fn nearest(&self, level: usize, allowed: Option<&CpuMask>, near: CpuId, topology: &Topology) -> Option<CpuId> {
        let mask = &self.levels[level];
        let any = mask.next_and(allowed, CpuId(0))?;
        for distance in Distance::ALL {
            let span = topology.span(near, distance);
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
        let find = |prio, allowed: Option<&str>, near| {
            let allowed = allowed.map(|list| list.parse().expect("a list"));
            pri.find(prio, allowed.as_ref(), CpuId(near), &machine, &mut 0)
        };
        assert_eq!(find(rt(50), None, 0), None, "equal priority is not preempted");
        assert_eq!(find(rt(51), None, 6), Some(CpuId(6)));
        pri.set(CpuId(3), rt(10));
        pri.set(CpuId(7), rt(10));
        assert_eq!(find(rt(51), None, 6), Some(CpuId(7)), "same socket");
        assert_eq!(find(rt(51), None, 0), Some(CpuId(3)));
        assert_eq!(find(rt(51), Some("0-2"), 0), Some(CpuId(0)), "the affinity forces a higher level");
        pri.set(CpuId(5), Prio::IDLE);
        assert_eq!(find(rt(1), None, 0), Some(CpuId(5)));
        pri.remove(CpuId(5));
        assert_eq!(find(rt(1), None, 0), None);
    }
}
