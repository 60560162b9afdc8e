//! [`SharedLines`]: the cache lines of scheduler state that CPUs of the whole machine write, each
//! with its owner and its readers.
//!
//! A count of accesses times one price says nothing about a machine of many CPUs: there, an access
//! to a line that another CPU has just written takes its transfer, and the accesses of all CPUs to
//! one line queue. So, with the costs `line_read` and `line_write`, each line has an owner (the CPU
//! that wrote it last), the CPUs that have a copy, and a time from which it is free:
//!
//! | access | of a CPU that has | takes | the line |
//! |---|---|---|---|
//! | read | a copy | nothing | |
//! | read | none | the wait, and `line_read` from the owner | is in use until then; the CPU has a copy |
//! | write | the only copy | nothing | |
//! | write | none, or others have copies | the wait, and `line_write` from the owner, or from the farthest copy | is in use until then; the CPU is the owner |
//!
//! The words, as they lie in memory (Linux v4.1 `kernel/sched/sched.h`, `struct root_domain`, and
//! `cpupri.h`, on 64 bits without debugging, `CONFIG_CPUMASK_OFFSTACK`):
//!
//! * `rto_count` and `dlo_count` on the first line of the domain, and the masks of overloaded CPUs
//!   apart;
//! * `cpudl`: its lock at byte 88, on the line of the first counts of `cpupri`; its heap is an
//!   array of items of 16 bytes, in which item *n* has the deadline and the CPU at place *n* of the
//!   heap, and the place of CPU *n*; the mask of CPUs without deadline tasks apart.
//! * `cpupri`: 102 pairs of a count and the address of a mask, 16 bytes each, from byte 120 on.
//!   Four levels share a line. Masks are small allocations one after another, so several share a
//!   line, too; from 512 CPUs on a mask has lines of its own, and a CPU writes one of them.
//! * the lock of a group's quota, and with hard limits a lock per CPU.
//!
//! A CPU that changes its level writes four lines: the count and the mask of the new level, and of
//! the old one (`cpupri_set`). A search reads the counts of all levels below the task's, and the
//! masks of those that have CPUs (`cpupri_find`), one after the other. A CPU whose earliest
//! deadline changes takes the lock of `cpudl` and writes, while it holds it, the items that get
//! another content, and its bit in the mask if it gets its first deadline task or loses its last
//! (`cpudl_set`). A search reads that mask, and the first item if the mask has no CPU that the task
//! may use, without the lock (`cpudl_find`). A pass over the parts of a divided quota takes each
//! CPU's lock in turn, and the group's lock is held until its end (`do_balance_runtime`).
//!
//! Not here: the lock of a root domain's deadline bandwidth, which only admission takes; the words
//! of a root domain's IPI, which since 4.15 share a line with the first counts
//! ([`CacheLines`](crate::kernel::cache_lines::CacheLines) has them by themselves); false sharing
//! with other fields.

use crate::costs::{ByDistance, Costs};
use zerolag_core::LineAccess;
use zerolag_model::{CpuId, Distance, Duration, GroupId, Instant, Topology};

/// Bytes of a cache line.
const LINE: usize = 64;
/// The CPUs whose bits are on one line.
const CPUS_PER_LINE: usize = LINE * 8;
/// The place of `cpupri` in its root domain.
const CPUPRI_AT: usize = 120;
/// The length of one of its pairs.
const PAIR: usize = 16;
/// The place of `cpudl` in its root domain.
const CPUDL_AT: usize = 88;
/// The length of an item of its heap: a deadline, a CPU, and the place of another CPU.
const ITEM: usize = 16;
/// The levels of `cpupri`: ours are one lower, since the kernel has one for idle CPUs.
const LEVELS: usize = 102;

/// A cache line.
#[derive(Clone, Debug)]
struct Line {
    /// The CPU that wrote it last.
    owner: CpuId,
    /// The CPUs with a copy, as bits. The owner has one.
    copies: Vec<u64>,
    free_at: Instant,
}

/// What an access takes, without the wait.
#[derive(Clone, Copy)]
struct Prices<'a> {
    read: &'a ByDistance,
    write: &'a ByDistance,
    topology: &'a Topology,
}

impl Line {
    fn new(cpus: usize) -> Self {
        Self { owner: CpuId(0), copies: vec![0; cpus.div_ceil(64)], free_at: Instant::ZERO }
    }

    fn has_copy(&self, cpu: CpuId) -> bool {
        self.copies[cpu.index() / 64] & 1 << (cpu.index() % 64) != 0
    }

    /// Returns when a read that begins at `at` has its value.
    fn read(&mut self, cpu: CpuId, at: Instant, prices: Prices<'_>) -> Instant {
        if self.has_copy(cpu) {
            return at;
        }
        self.copies[cpu.index() / 64] |= 1 << (cpu.index() % 64);
        self.occupy(at, prices.read.at(prices.topology.distance(cpu, self.owner)))
    }

    /// Returns when a locked write that begins at `at` is done.
    fn write(&mut self, cpu: CpuId, at: Instant, prices: Prices<'_>) -> Instant {
        let farthest = self.farthest(cpu, prices.topology);
        self.copies.fill(0);
        self.copies[cpu.index() / 64] |= 1 << (cpu.index() % 64);
        self.owner = cpu;
        if farthest == Distance::Same { at } else { self.occupy(at, prices.write.at(farthest)) }
    }

    /// Returns the distance of the farthest other copy; that of the owner if there is no copy yet.
    fn farthest(&self, cpu: CpuId, topology: &Topology) -> Distance {
        let mut farthest = topology.distance(cpu, self.owner);
        for (word, bits) in self.copies.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 && farthest != Distance::Remote {
                let other = CpuId::from_index(word * 64 + bits.trailing_zeros() as usize);
                farthest = farthest.max(topology.distance(cpu, other));
                bits &= bits - 1;
            }
        }
        farthest
    }

    fn occupy(&mut self, at: Instant, takes: Duration) -> Instant {
        self.free_at = self.free_at.max(at) + takes;
        self.free_at
    }
}

/// The lines of one root domain.
#[derive(Clone, Debug)]
struct DomainLines {
    /// `rto_count` and `dlo_count`.
    overload_counts: Line,
    /// The mask of overloaded CPUs.
    overload_mask: Vec<Line>,
    counts: Vec<Line>,
    masks: Vec<Line>,
    mask_bytes: usize,
    /// The number of CPUs at each level.
    at_level: Vec<u32>,
    deadlines: DeadlineLines,
}

/// The lines of `cpudl` besides that of its lock, and the mask beside it.
#[derive(Clone, Debug)]
struct DeadlineLines {
    locked_until: Instant,
    items: Vec<Line>,
    /// The CPUs without deadline tasks.
    free: Vec<Line>,
    /// The CPUs with waiting deadline tasks.
    overloaded: Vec<Line>,
}

impl DeadlineLines {
    fn new(cpus: usize) -> Self {
        let lines = |bytes: usize| vec![Line::new(cpus); bytes.div_ceil(LINE)];
        let [free, overloaded] = [lines(mask_bytes(cpus)), lines(mask_bytes(cpus))];
        Self { locked_until: Instant::ZERO, items: lines(cpus * ITEM), free, overloaded }
    }

    /// Keeps the lock until then.
    const fn hold(&mut self, until: Instant) -> Instant {
        self.locked_until = until;
        until
    }

    /// Reads the set of free CPUs and, if none may be used, the first item of the heap, without the
    /// lock.
    fn search(&mut self, cpu: CpuId, looks_at_first: bool, at: Instant, prices: Prices<'_>) -> Instant {
        let first = looks_at_first.then_some(&mut self.items[0]);
        self.free.iter_mut().chain(first).fold(at, |now, line| line.read(cpu, now, prices))
    }
}

/// The locks of a group's quota.
#[derive(Clone, Debug)]
struct GroupLines {
    lock: Line,
    parts: Vec<Line>,
}

/// Returns how many of the inner locks that a call has counted are lines here.
pub(super) fn locks(accesses: &[LineAccess]) -> u32 {
    let locks = |access: &LineAccess| match access {
        LineAccess::Pool { .. } => 1,
        LineAccess::Parts { cpus, .. } => *cpus,
        LineAccess::Level { .. }
        | LineAccess::Search { .. }
        | LineAccess::Overload { .. }
        | LineAccess::OverloadLook
        | LineAccess::DeadlineOverload { .. }
        | LineAccess::Deadlines
        | LineAccess::DeadlineItem { .. }
        | LineAccess::DeadlineFree { .. }
        | LineAccess::DeadlineSearch { .. } => 0,
    };
    accesses.iter().map(locks).sum()
}

/// All lines; those that are never accessed are not made.
#[derive(Clone, Debug)]
pub(super) struct SharedLines {
    cpus: usize,
    domains: Vec<Option<Box<DomainLines>>>,
    groups: Vec<Option<Box<GroupLines>>>,
}

impl SharedLines {
    /// Returns the lines of a machine, if its costs have them.
    pub(super) fn new(cpus: usize, costs: &Costs) -> Option<Box<Self>> {
        let lines = || Self { cpus, domains: Vec::new(), groups: Vec::new() };
        costs.has_lines().then(|| Box::new(lines()))
    }

    /// Makes accesses of a CPU in a root domain, one after the other from `at` on; returns how long
    /// they take.
    pub(super) fn access(
        &mut self,
        cpu: CpuId,
        domain: usize,
        accesses: &[LineAccess],
        at: Instant,
        costs: &Costs,
        topology: &Topology,
    ) -> Duration {
        let prices = Prices { read: &costs.line_read, write: &costs.line_write, topology };
        let mut now = at;
        for &access in accesses {
            now = match access {
                LineAccess::Search { .. } => self.domain(domain).access(cpu, access, now, prices) + costs.cpupri_search,
                LineAccess::Pool { group } => self.group(group).lock.write(cpu, now, prices),
                LineAccess::Parts { group, cpus } => self.group(group).pass(cpu, cpus, now, prices),
                LineAccess::Level { .. }
                | LineAccess::Overload { .. }
                | LineAccess::OverloadLook
                | LineAccess::DeadlineOverload { .. }
                | LineAccess::Deadlines
                | LineAccess::DeadlineItem { .. }
                | LineAccess::DeadlineFree { .. }
                | LineAccess::DeadlineSearch { .. } => self.domain(domain).access(cpu, access, now, prices),
            };
        }
        now.since(at)
    }

    fn domain(&mut self, domain: usize) -> &mut DomainLines {
        let cpus = self.cpus;
        if domain >= self.domains.len() {
            self.domains.resize(domain + 1, None);
        }
        self.domains[domain].get_or_insert_with(|| Box::new(DomainLines::new(cpus)))
    }

    fn group(&mut self, group: GroupId) -> &mut GroupLines {
        let cpus = self.cpus;
        if group.index() >= self.groups.len() {
            self.groups.resize(group.index() + 1, None);
        }
        let lines = || GroupLines { lock: Line::new(cpus), parts: vec![Line::new(cpus); cpus] };
        self.groups[group.index()].get_or_insert_with(|| Box::new(lines()))
    }
}

impl GroupLines {
    /// Takes the locks of so many other CPUs' parts, the first by number, while the group's lock is
    /// held.
    fn pass(&mut self, cpu: CpuId, cpus: u32, at: Instant, prices: Prices<'_>) -> Instant {
        let others = (0..self.parts.len()).filter(|other| *other != cpu.index()).take(cpus as usize);
        let mut now = at;
        for other in others {
            now = self.parts[other].write(cpu, now, prices);
        }
        self.lock.free_at = self.lock.free_at.max(now);
        now
    }
}

impl DomainLines {
    fn new(cpus: usize) -> Self {
        let lines = |bytes: usize| vec![Line::new(cpus); bytes.div_ceil(LINE)];
        Self {
            overload_counts: Line::new(cpus),
            overload_mask: lines(mask_bytes(cpus)),
            counts: lines(CPUPRI_AT + LEVELS * PAIR),
            masks: lines(LEVELS * mask_bytes(cpus)),
            mask_bytes: mask_bytes(cpus),
            at_level: vec![0; LEVELS],
            deadlines: DeadlineLines::new(cpus),
        }
    }

    fn access(&mut self, cpu: CpuId, access: LineAccess, at: Instant, prices: Prices<'_>) -> Instant {
        match access {
            LineAccess::Level { cpu: of, from, to } => {
                let joined = self.change(cpu, of, to, 1, at, prices);
                self.change(cpu, of, from, -1, joined, prices)
            }
            LineAccess::Search { below } => self.search(cpu, usize::from(below), at, prices),
            LineAccess::Overload { cpu: of } => {
                let counted = self.overload_counts.write(cpu, at, prices);
                self.overload_mask[of.index() / CPUS_PER_LINE].write(cpu, counted, prices)
            }
            LineAccess::OverloadLook => self.overload_counts.read(cpu, at, prices),
            LineAccess::DeadlineOverload { cpu: of } => {
                let counted = self.overload_counts.write(cpu, at, prices);
                self.deadlines.overloaded[of.index() / CPUS_PER_LINE].write(cpu, counted, prices)
            }
            LineAccess::Deadlines => {
                let got = self.counts[CPUDL_AT / LINE].write(cpu, at, prices);
                self.deadlines.hold(got.max(self.deadlines.locked_until))
            }
            LineAccess::DeadlineItem { item } => {
                let line = &mut self.deadlines.items[item as usize * ITEM / LINE];
                let written = line.write(cpu, at, prices);
                self.deadlines.hold(written)
            }
            LineAccess::DeadlineFree { cpu: of } => {
                let written = self.deadlines.free[of.index() / CPUS_PER_LINE].write(cpu, at, prices);
                self.deadlines.hold(written)
            }
            LineAccess::DeadlineSearch { looks_at_first } => self.deadlines.search(cpu, looks_at_first, at, prices),
            LineAccess::Pool { .. } | LineAccess::Parts { .. } => at,
        }
    }

    /// Writes the count and the mask of a level that a CPU joins or leaves.
    fn change(
        &mut self,
        cpu: CpuId,
        of: CpuId,
        level: Option<u8>,
        by: i32,
        at: Instant,
        prices: Prices<'_>,
    ) -> Instant {
        let Some(level) = level else { return at };
        let index = usize::from(level) + 1;
        // The machine began with all CPUs at the lowest level, which was not noted.
        self.at_level[index] = self.at_level[index].saturating_add_signed(by);
        let counted = self.counts[count_line(index)].write(cpu, at, prices);
        self.masks[mask_line(index, of, self.mask_bytes)].write(cpu, counted, prices)
    }

    /// Reads the counts of all levels below one, and the masks of those that have CPUs.
    fn search(&mut self, cpu: CpuId, below: usize, at: Instant, prices: Prices<'_>) -> Instant {
        let mut now = at;
        for index in 0..=below {
            now = self.counts[count_line(index)].read(cpu, now, prices);
            if index == 1 || self.at_level[index] > 0 {
                let last = CpuId(self.mask_bytes as u32 * 8 - 1);
                let [first, last] = [CpuId(0), last].map(|cpu| mask_line(index, cpu, self.mask_bytes));
                for line in &mut self.masks[first..=last] {
                    now = line.read(cpu, now, prices);
                }
            }
        }
        now
    }
}

/// Returns the line of a level's count.
const fn count_line(index: usize) -> usize {
    (CPUPRI_AT + index * PAIR) / LINE
}

/// Returns the line with a CPU's bit in a level's mask, of masks of so many bytes.
const fn mask_line(index: usize, cpu: CpuId, bytes: usize) -> usize {
    (index * bytes + cpu.index() / 8) / LINE
}

/// Returns the bytes of the allocation of a mask (`kmalloc`): a power of two, at least 16.
fn mask_bytes(cpus: usize) -> usize {
    cpus.div_ceil(8).next_power_of_two().max(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Instant = Instant::from_nanos;

    fn costs() -> Costs {
        let text =
            "line_read = { llc = \"10ns\", remote = \"100ns\" }\nline_write = { llc = \"20ns\", remote = \"200ns\" }";
        Costs::from_toml("lines", text).expect("valid")
    }

    fn two_sockets() -> Topology {
        Topology::new(2, 1, 4, 1).expect("eight CPUs")
    }

    /// Makes one access at a time; returns how long it takes in nanoseconds.
    fn takes(lines: &mut SharedLines, cpu: u32, at: u64, access: LineAccess) -> u64 {
        take(lines, cpu, at, &[access])
    }

    /// Makes accesses one after the other; returns how long they take in nanoseconds.
    fn take(lines: &mut SharedLines, cpu: u32, at: u64, accesses: &[LineAccess]) -> u64 {
        lines.access(CpuId(cpu), 0, accesses, NS(at), &costs(), &two_sockets()).as_nanos()
    }

    fn lines() -> SharedLines {
        *SharedLines::new(8, &costs()).expect("there are some")
    }

    #[test]
    fn without_costs_there_are_no_lines() {
        assert!(SharedLines::new(8, &Costs::server()).is_none());
    }

    #[test]
    fn a_search_pays_once_for_what_no_other_cpu_has_written_since() {
        let mut lines = lines();
        let level = |cpu, from, to| LineAccess::Level { cpu: CpuId(cpu), from: Some(from), to: Some(to) };
        let first = takes(&mut lines, 0, 0, LineAccess::Search { below: 40 });
        assert_eq!(first, 0, "CPU 0 has made all of them");
        // Four lines are written, each far from its owner.
        assert_eq!(takes(&mut lines, 4, 1_000, level(4, 0, 80)), 800);
        assert_eq!(takes(&mut lines, 4, 2_000, level(4, 80, 0)), 0, "it is the owner");
        // The counts of the lowest levels and their masks are not up to date: two lines.
        assert_eq!(takes(&mut lines, 0, 3_000, LineAccess::Search { below: 40 }), 200);
        assert_eq!(takes(&mut lines, 0, 4_000, LineAccess::Search { below: 40 }), 0);
        // CPU 0 has copies of two of the four now.
        assert_eq!(takes(&mut lines, 4, 5_000, level(4, 0, 80)), 400);
    }

    #[test]
    fn accesses_to_one_line_queue() {
        let mut lines = lines();
        let group = GroupId(1);
        assert_eq!(takes(&mut lines, 1, 100, LineAccess::Pool { group }), 20);
        assert_eq!(takes(&mut lines, 5, 100, LineAccess::Pool { group }), 220, "behind the first");
        assert_eq!(takes(&mut lines, 6, 100, LineAccess::Pool { group }), 240);
        assert_eq!(takes(&mut lines, 6, 900, LineAccess::Pool { group: GroupId(2) }), 200, "another lock");
    }

    #[test]
    fn a_pass_holds_the_lock_of_the_group() {
        let mut lines = lines();
        let group = GroupId(1);
        let pass = [LineAccess::Pool { group }, LineAccess::Parts { group, cpus: 7 }];
        assert_eq!(take(&mut lines, 0, 0, &pass), 0, "all are at CPU 0 at first");
        // The group's lock, and those of CPUs 0 to 6 but for the own one.
        assert_eq!(take(&mut lines, 7, 0, &pass), 8 * 200);
        assert_eq!(takes(&mut lines, 6, 100, LineAccess::Pool { group }), 1_500 + 20);
        assert_eq!(locks(&pass), 8, "they are not counted twice");
    }

    #[test]
    fn a_deadline_is_changed_under_the_lock() {
        let mut lines = lines();
        let change =
            [LineAccess::Deadlines, LineAccess::DeadlineItem { item: 0 }, LineAccess::DeadlineItem { item: 5 }];
        assert_eq!(take(&mut lines, 4, 0, &change), 3 * 200, "the lock and two lines, all far from CPU 0");
        // CPU 5 is near CPU 4. The lock is free at 600, and item 1 lies on the line of item 0.
        let near =
            [LineAccess::Deadlines, LineAccess::DeadlineItem { item: 1 }, LineAccess::DeadlineFree { cpu: CpuId(5) }];
        assert_eq!(take(&mut lines, 5, 100, &near), 500 + 20 + 200);
        assert_eq!(takes(&mut lines, 5, 900, LineAccess::DeadlineSearch { looks_at_first: true }), 0, "it wrote both");
        assert_eq!(takes(&mut lines, 0, 900, LineAccess::DeadlineSearch { looks_at_first: false }), 100);
        assert_eq!(takes(&mut lines, 0, 1_100, LineAccess::DeadlineSearch { looks_at_first: true }), 100);
    }

    #[test]
    fn words_that_share_a_line_cost_each_other() {
        let mut lines = lines();
        takes(&mut lines, 4, 0, LineAccess::Deadlines);
        // The lock of `cpudl` is on the line of the count of level -1.
        assert_eq!(takes(&mut lines, 0, 1_000, LineAccess::Search { below: 0 }), 100);
        takes(&mut lines, 4, 2_000, LineAccess::DeadlineOverload { cpu: CpuId(4) });
        assert_eq!(takes(&mut lines, 0, 3_000, LineAccess::OverloadLook), 100);
    }

    #[test]
    fn levels_share_lines_as_they_lie_in_memory() {
        assert_eq!([0, 1, 4, 5, 8, 9].map(count_line), [1, 2, 2, 3, 3, 4]);
        let masks = |cpus| mask_bytes(cpus);
        assert_eq!([8, 120, 128, 129, 512, 4096].map(masks), [16, 16, 16, 32, 64, 512]);
        assert_eq!([0, 3, 4].map(|index| mask_line(index, CpuId(100), 16)), [0, 0, 1]);
        assert_eq!(mask_line(1, CpuId(600), 512), 9);
    }
}
