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

use crate::words::atomic_mask::{Threads, clear_bits, set_bits};
use crate::words::snapshot::snapshot_of;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use zerolag_model::cpumask::next_set;
use zerolag_model::{ClassId, CpuId, CpuMask, Distance, Prio, Topology};

/// Levels: not real time, 99 real-time priorities, above real time.
const LEVELS: usize = 101;

/// The level of a CPU that is not part of the domain (offline).
const NO_LEVEL: u8 = u8::MAX;

/// The sets of all levels are in one place, without a summary where a set is one word: CPUs change
/// their levels at every second event of real-time tasks.
#[derive(Debug)]
pub(crate) struct CpuPri {
    threads: Threads,
    /// The words of one set.
    width: usize,
    /// The words of all sets, by level.
    words: Box<[AtomicU64]>,
    /// A bit per word of the set that can hold a CPU, by level: as the summary of
    /// [`AtomicCpuMask`](crate::words::atomic_mask::AtomicCpuMask), and as stale. Not used where a
    /// set is one word.
    summaries: Box<[AtomicU64]>,
    /// A bit per level that can hold a CPU; advisory, like a summary.
    occupied: [AtomicU64; 2],
    level_of: Box<[AtomicU8]>,
}

snapshot_of!(CpuPri: { words summaries occupied level_of } { threads width });

impl CpuPri {
    pub(crate) fn new(nr_cpus: usize, threads: Threads) -> Self {
        let width = nr_cpus.div_ceil(64);
        Self {
            threads,
            width,
            words: (0..LEVELS * width).map(|_| AtomicU64::new(0)).collect(),
            summaries: (0..LEVELS).map(|_| AtomicU64::new(0)).collect(),
            occupied: [AtomicU64::new(0), AtomicU64::new(0)],
            level_of: (0..nr_cpus).map(|_| AtomicU8::new(NO_LEVEL)).collect(),
        }
    }

    /// Returns the level of a priority.
    const fn level(prio: Prio) -> u8 {
        match prio.class() {
            ClassId::Fair | ClassId::Ext | ClassId::Idle => 0,
            ClassId::Rt => 99 - prio.raw() as u8,
            ClassId::Deadline | ClassId::Stop => 100,
        }
    }

    /// Sets the priority of the most urgent task of a CPU. Called under the lock of its run queue.
    pub(crate) fn set(&self, cpu: CpuId, prio: Prio) {
        self.set_level(cpu, Self::level(prio));
    }

    /// Returns the levels that a CPU would leave and join if it had this priority, for a log.
    pub(crate) fn change(&self, cpu: CpuId, prio: Prio) -> (Option<u8>, Option<u8>) {
        let old = self.level_of[cpu.index()].load(Ordering::Relaxed);
        (Some(old).filter(|old| *old != NO_LEVEL), Some(Self::level(prio)))
    }

    /// Returns the first level that a search for a task of this priority does not look at, after it
    /// has found this CPU.
    pub(crate) fn searched_below(&self, prio: Prio, found: Option<CpuId>) -> u8 {
        let level = found.map(|cpu| self.level_of[cpu.index()].load(Ordering::Relaxed));
        level.map_or(Self::level(prio), |level| level.saturating_add(1).min(Self::level(prio)))
    }

    /// Removes a CPU: no task is pushed there any more.
    pub(crate) fn remove(&self, cpu: CpuId) {
        self.set_level(cpu, NO_LEVEL);
    }

    /// Returns whether a CPU is registered at the level of this priority and at no other; with
    /// `None`, at no level.
    pub(crate) fn is_exact(&self, cpu: CpuId, prio: Option<Prio>) -> bool {
        let wanted = prio.map(|prio| usize::from(Self::level(prio)));
        let (word, bit) = (cpu.index() / 64, 1_u64 << (cpu.index() % 64));
        (0..LEVELS).all(|level| (self.word(level, word) & bit != 0) == (wanted == Some(level)))
    }

    fn set_level(&self, cpu: CpuId, new: u8) {
        let level_of = &self.level_of[cpu.index()];
        let old = level_of.load(Ordering::Relaxed);
        if old == new {
            return;
        }
        level_of.store(new, Ordering::Relaxed);
        let (word, bit) = (cpu.index() / 64, 1_u64 << (cpu.index() % 64));
        if new != NO_LEVEL {
            self.join(usize::from(new), word, bit);
        }
        if old != NO_LEVEL {
            self.leave(usize::from(old), word, bit);
        }
    }

    #[inline(always)]
    fn join(&self, level: usize, word: usize, bit: u64) {
        set_bits(&self.words[level * self.width + word], bit, self.threads);
        if self.width > 1 {
            let summary = &self.summaries[level];
            if summary.load(Ordering::Acquire) & 1 << word == 0 {
                set_bits(summary, 1 << word, self.threads);
            }
        }
        let occupied = &self.occupied[level / 64];
        if occupied.load(Ordering::Acquire) & 1 << (level % 64) == 0 {
            set_bits(occupied, 1 << (level % 64), self.threads);
        }
    }

    #[inline(always)]
    fn leave(&self, level: usize, word: usize, bit: u64) {
        let cpus = &self.words[level * self.width + word];
        if clear_bits(cpus, bit, self.threads) & !bit != 0 {
            return;
        }
        // A set of one word is its own summary.
        let mut summary = cpus;
        if self.width > 1 {
            summary = &self.summaries[level];
            clear_bits(summary, 1 << word, self.threads);
            if cpus.load(Ordering::Acquire) != 0 {
                set_bits(summary, 1 << word, self.threads);
            }
            if summary.load(Ordering::Acquire) != 0 {
                return;
            }
        }
        let occupied = &self.occupied[level / 64];
        clear_bits(occupied, 1 << (level % 64), self.threads);
        if summary.load(Ordering::Acquire) != 0 {
            set_bits(occupied, 1 << (level % 64), self.threads);
        }
    }

    #[inline(always)]
    fn word(&self, level: usize, word: usize) -> u64 {
        self.words[level * self.width + word].load(Ordering::Relaxed)
    }

    /// Returns the lowest CPU of a level at or above `from` that is also in `allowed` (`None` means
    /// all).
    #[inline]
    fn next_of(&self, level: usize, allowed: Option<&CpuMask>, from: CpuId) -> Option<CpuId> {
        if self.width == 1 {
            let in_both = self.word(level, 0) & allowed.map_or(u64::MAX, |mask| mask.word(0));
            let bits = in_both & u64::MAX.checked_shl(from.0).unwrap_or(0);
            return if bits == 0 { None } else { Some(CpuId(bits.trailing_zeros())) };
        }
        let summary = self.summaries[level].load(Ordering::Acquire);
        match allowed {
            None => next_set(from, summary, |word| self.word(level, word)),
            Some(mask) => next_set(from, summary & mask.summary(), |word| self.word(level, word) & mask.word(word)),
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
        let any = self.next_of(level, allowed, CpuId(0))?;
        let by = Some(by).filter(|by| self.next_of(level, allowed, *by) == Some(*by));
        for distance in Distance::ALL {
            let span = topology.span(near, distance);
            if let Some(by) = by.filter(|by| span.contains(&by.0)) {
                return Some(by);
            }
            let found = if span.start == 0 { Some(any) } else { self.next_of(level, allowed, CpuId(span.start)) };
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

    /// Machines whose sets are one word, and several.
    #[test]
    fn it_agrees_with_a_list() {
        for nr in [5, 64, 200_u32] {
            let machine = Topology::flat(nr).expect("so many CPUs");
            let pri = CpuPri::new(nr as usize, Threads::Many);
            let mut list = alloc::vec![None; nr as usize];
            let mut state = 1_u64;
            let mut random = |below: u32| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u32 % below
            };
            for _ in 0..4000 {
                let cpu = random(nr);
                list[cpu as usize] = match random(6) {
                    0 => None,
                    1 => Some(Prio::IDLE),
                    of => Some(rt(i64::from(10 * of))),
                };
                match list[cpu as usize] {
                    Some(prio) => pri.set(CpuId(cpu), prio),
                    None => pri.remove(CpuId(cpu)),
                }
                assert!(pri.is_exact(CpuId(cpu), list[cpu as usize]));
                let (prio, near, by) = (rt(1 + i64::from(random(60))), random(nr), random(nr));
                let allowed: Option<CpuMask> =
                    (random(2) == 0).then(|| (0..nr).filter(|_| random(4) == 0).map(CpuId).collect());
                let lowest = (0..nr)
                    .filter(|cpu| allowed.as_ref().is_none_or(|mask| mask.contains(CpuId(*cpu))))
                    .filter_map(|cpu| Some((CpuPri::level(list[cpu as usize]?), cpu)))
                    .filter(|(level, _)| *level < CpuPri::level(prio))
                    .min_by_key(|(level, cpu)| (*level, *cpu != near, *cpu != by, *cpu));
                let found = pri.find(prio, allowed.as_ref(), [CpuId(near), CpuId(by)], &machine);
                assert_eq!(found, lowest.map(|(_, cpu)| CpuId(cpu)));
            }
        }
    }
}
