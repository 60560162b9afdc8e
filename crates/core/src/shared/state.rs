//! [`Shared`]: the state of other CPUs that a CPU can read without a lock.
//!
//! Placing and balancing tasks needs the state of many CPUs. Locking their run queues for every
//! decision does not scale, so every CPU publishes a small, named state: its priorities and load,
//! and per root domain `cpupri`, the overload masks and the token of the circulating IPI. Selection
//! and balancing read only this. A CPU that acts on it checks again under the lock of the run
//! queue concerned. Every read goes through a [`View`](crate::shared::view::View), which can record
//! or replay it.
//!
//! Written by the holder of the CPU's run-queue lock:
//!
//! | published | effect of a stale value |
//! |---|---|
//! | priorities, `cpupri` | a push or pull finds nothing and tries the next, or is sent twice |
//! | earliest and pushable deadline, `cpudl`, deadline overload mask | as priorities |
//! | root domain of a CPU | a push finds the target gone and looks again; a pull skips it |
//! | load averages, counts, CPUs with waiting tasks | a fair task is placed one place worse |
//! | current task | a woken task is drawn to its waker once more, or not |
//! | first idle CPU that was asked to balance | a round of idle CPUs ends early, or asks some again |
//! | load of a misfit | a stronger CPU finds no task, or one that fits, and takes none |
//! | idle mask | two wakers choose the same idle CPU; new-idle balancing spreads them |
//! | online mask | a task goes to a CPU that goes offline; emptying that CPU moves it on |
//! | CPUs that pushable tasks may use | a pull finds no task; or misses one that just arrives |
//! | RT overload masks | a pull misses a task that just becomes pushable; its own CPU pushes it |
//!
//! Written by others:
//!
//! | published | written by | effect of a stale value |
//! |---|---|---|
//! | bandwidth of a root domain | admission, under an inner lock | never stale |
//! | last wakee of a task | CPU of the wakeup | a wakee is drawn to its waker once more, or not |
//! | search budgets (`SIS_PROP`) | waking CPU; end of idling | a search scans more or fewer CPUs |
//! | uneven groups of CPUs | balancing in the domain | the domain above reacts one round late |
//! | notes of deadline tasks | waking or changing CPU | never stale: read before each use |
//! | notes of blocked load | waking CPU | a load is too high for a tick |
//! | group weights and loads | changing CPU; lock holder | a group's share here is a tick late |
//! | claims (`pull_claimed`) | pulling CPU | never stale: changed by compare-and-swap |
//! | holders of locks | host, at lock and unlock | a waiter is parked, then sent to the holder |
//! | tasks of a loaded scheduler | lock holder of their home | a CPU looks again |
//! | processes | see [`Processes`] | |
//! | home directory | CPU that moves the body | lock holder finds the slot empty and looks again |
//!
//! A CPU's notes are emptied by the holder of its run-queue lock.
//!
//! A push and a pull that pass each other must not both miss. So each side first publishes ("this
//! task waits here", "this CPU is less urgent now"), then executes a fence, then looks at the other
//! ([`Rq::publish_first`](crate::Rq)).
//!
//! Lock order: run queues in CPU order, then at most one inner lock (`rto`, `chain`, `cpudl`,
//! bandwidth).

use crate::entity::pelt::Removed;
use crate::queue::dl::server;
use crate::queue::dl::sums::Note;
use crate::queue::fair::averages::CpuAverages;
use crate::queue::published;
use crate::queue::published::{PublishedCounts, PublishedDeadlines, PublishedPrios};
use crate::shared::booked::Booked;
use crate::shared::budgets::Budgets;
use crate::shared::cpudl::CpuDl;
use crate::shared::cpupri::CpuPri;
use crate::shared::ext_queue::ExtQueue;
use crate::shared::groups::GroupTable;
use crate::shared::lock_owners::LockOwners;
use crate::shared::policy::LoadedPolicy;
use crate::shared::processes::Processes;
use crate::shared::recent_used::RecentUsed;
use crate::shared::rt_groups::RtGroupTable;
use crate::shared::rt_served::ServedGroups;
use crate::shared::wakers::Wakers;
use crate::words::atomic_mask::{AtomicCpuMask, Threads};
use crate::words::bandwidth::{Bandwidth, DlLimit, RtLimit};
use crate::words::config::Config;
use crate::words::ids::{CpusetId, DomainId, Slot};
use crate::words::snapshot::{Snapshot, snapshot_of};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use lock_api::{Mutex, RawMutex};
use zerolag_model::settings::{OverloadScope, RtBalance};
use zerolag_model::{CpuId, CpuMask, Instant, ServerKind, Settings, TaskId};

/// Keeps words that different CPUs write on different cache lines (two, for the adjacent-line
/// prefetcher).
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct CachePadded<T>(pub(crate) T);

/// The state that a CPU publishes.
#[derive(Debug)]
pub(crate) struct CpuState {
    /// [`PublishedPrios`], packed.
    pub(crate) prios: AtomicU64,
    /// [`CpuAverages`], packed: its two words.
    pub(crate) load: AtomicU64,
    pub(crate) util: AtomicU64,
    /// [`Removed`], packed: written by other CPUs.
    pub(crate) notes: AtomicU64,
    /// The remaining capacity for fair tasks; 0 until the CPU has computed it.
    pub(crate) capacity: AtomicU64,
    /// Of the first CPU of a cache: one more than the number of CPUs worth scanning for an idle
    /// one; 0 if not yet published. Stale by an interval of balancing, as in the kernel: a hint.
    pub(crate) idle_scan: AtomicU64,
    /// Of the first CPU of a group of CPUs: a bit for each level at which the group begins, set if
    /// tasks bound to CPUs keep that group uneven.
    pub(crate) uneven: AtomicU64,
    /// [`PublishedCounts`], packed.
    pub(crate) counts: AtomicU64,
    /// One more than the id of the current task, and above it the load of the task; 0 if none.
    /// Stale by a switch, but never for a wakeup that this CPU makes: there the waker is the
    /// current task. Its load is that of the switch.
    pub(crate) current: AtomicU64,
    /// [`PublishedDeadlines`]: each on its own, `FAR_FUTURE` if none.
    pub(crate) earliest: AtomicU64,
    pub(crate) pushable_deadline: AtomicU64,
    /// With `RT_RUNTIME_SHARE`: the exec time of real-time tasks here in this period, and their
    /// limit.
    pub(crate) rt_time: AtomicU64,
    pub(crate) rt_runtime: AtomicU64,
    /// CPUs of the same round lend to each other ([`RtLimit::round`]).
    pub(crate) rt_round: AtomicU32,
    has_dl_notes: AtomicBool,
    /// With `pull_claimed`: a [`Claim`].
    pub(crate) claim: AtomicU32,
}

snapshot_of!(CpuState: {
    prios load util notes capacity idle_scan uneven counts current earliest pushable_deadline rt_time rt_runtime
    rt_round has_dl_notes claim
});

impl<T: Snapshot> Snapshot for CachePadded<T> {
    fn snapshot(&self) -> Self {
        Self(self.0.snapshot())
    }
}

impl CpuState {
    /// Returns the state of a CPU that has run nothing yet. All bits zero would be the most urgent
    /// real-time priority.
    fn idle(settings: &Settings) -> Self {
        let prios = AtomicU64::new(PublishedPrios::IDLE.pack());
        let (earliest, pushable_deadline) = (AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX));
        let [load, util, capacity, notes, counts, rt_time, idle_scan, uneven] = [const { AtomicU64::new(0) }; 8];
        let rt_runtime = AtomicU64::new(settings.rt_runtime.as_nanos());
        let has_dl_notes = AtomicBool::new(false);
        Self {
            prios,
            load,
            util,
            notes,
            capacity,
            idle_scan,
            uneven,
            counts,
            current: AtomicU64::new(0),
            earliest,
            pushable_deadline,
            rt_time,
            rt_runtime,
            rt_round: AtomicU32::new(0),
            has_dl_notes,
            claim: AtomicU32::new(Claim::FREE),
        }
    }
}

/// Whether a CPU is pulling from this one (`pull_claimed`).
#[derive(Debug)]
pub(crate) enum Claim {}

impl Claim {
    pub(crate) const FREE: u32 = 0;
    /// A CPU is pulling.
    pub(crate) const TAKEN: u32 = 1;
    /// A CPU is pulling, and another wanted to.
    pub(crate) const WANTED: u32 = 2;
}

/// Adds to notes. Each field saturates at its width: load 32 bits, util and runnable 16.
fn pack_notes(notes: Removed, more: Removed) -> u64 {
    let load = (notes.load + more.load).min(u64::from(u32::MAX));
    let util = (notes.util + more.util).min(u64::from(u16::MAX));
    let runnable = (notes.runnable + more.runnable).min(u64::from(u16::MAX));
    load | util << 32 | runnable << 48
}

pub(crate) const fn unpack_notes(word: u64) -> Removed {
    Removed { load: word & 0xffff_ffff, util: word >> 32 & 0xffff, runnable: word >> 48 }
}

/// The IPI of a root domain (`rto_*`).
#[derive(Clone, Debug)]
pub(crate) struct RtoToken {
    /// The CPU that the IPI is at or on its way to (`rto_cpu`); `None` when none circulates.
    pub(crate) cpu: Option<CpuId>,
    /// The value of `loop_next` that the current round serves (`rto_loop`).
    pub(crate) round: u32,
}

/// An exclusive set of CPUs within which RT tasks migrate.
#[derive(Debug)]
pub(crate) struct RootDomain<L: RawMutex> {
    /// Its CPUs. Each enters and leaves by itself, under its run queue's lock (`domain.rs`).
    pub(crate) span: AtomicCpuMask,
    pub(crate) cpupri: CpuPri,
    pub(crate) cpudl: CpuDl<L>,
    /// CPUs with a waiting deadline task that could run elsewhere (`dlo_mask`).
    pub(crate) dl_overload: AtomicCpuMask,
    /// Bandwidth of its deadline tasks (`dl_bw.total_bw`).
    pub(crate) dl_booked: Mutex<L, Booked>,
    /// Held while CPUs lend real-time runtime.
    pub(crate) rt_lending: Mutex<L, ()>,
    /// `rto_loop_next`: incremented by every CPU that lowers its priority.
    pub(crate) loop_next: AtomicU32,
    /// `rto_loop_start`: taken by compare-and-swap by the CPU that starts the IPI.
    pub(crate) loop_start: AtomicU32,
    pub(crate) rto: Mutex<L, RtoToken>,
}

/// The chain of IPIs that one CPU keeps going (`ipi_per_cpu`; `rt_rq.push_flags` and `push_cpu`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PushChain {
    /// No IPI is on its way.
    Stopped,
    /// An IPI is at this CPU or on its way there.
    At(CpuId),
    /// An IPI is at this CPU or on its way there, and the priority was lowered again meanwhile: the
    /// chain starts over at its source.
    Restart(CpuId),
}

#[derive(Debug)]
pub(crate) struct Shared<L: RawMutex> {
    pub(crate) cpus: Box<[CachePadded<CpuState>]>,
    pub(crate) idle: AtomicCpuMask,
    pub(crate) online: AtomicCpuMask,
    /// CPUs with a waiting task that the balancer may move.
    pub(crate) waiting: AtomicCpuMask,
    pub(crate) domains: Vec<RootDomain<L>>,
    /// The root domain of each CPU; written under the lock of its run queue.
    domain_of: Box<[AtomicU32]>,
    /// One mask per root domain, one per cpuset, or one in all: see `overload_scope`.
    overload: Vec<AtomicCpuMask>,
    overload_scope: OverloadScope,
    pub(crate) chains: Box<[Mutex<L, PushChain>]>,
    /// With `rt_ipi_skip_pushing`, the CPUs that have yet to serve a request of a chain.
    pub(crate) asked: AtomicCpuMask,
    /// With `pull_claimed`, per CPU the CPUs that some pushable task there may use; else empty. A
    /// bit is in one word, so a CPU reads its own bit as of one instant.
    reach: Box<[Box<[AtomicU64]>]>,
    pub(crate) groups: GroupTable<L>,
    pub(crate) rt_groups: RtGroupTable<L>,
    pub(crate) served: ServedGroups,
    /// Per CPU the load of its current task if that does not fit; empty where CPUs are equal.
    pub(crate) misfits: Box<[AtomicU64]>,
    /// Per CPU the unread notes about deadline tasks that have blocked there.
    dl_notes: Box<[Mutex<L, Vec<Note>>]>,
    /// The limit that each CPU adopts by itself ([`set_rt_runtime`](Self::set_rt_runtime)).
    pub(crate) rt_limit: Mutex<L, RtLimit>,
    directory: Vec<AtomicU64>,
    pub(crate) wakers: Wakers,
    pub(crate) recent_used: RecentUsed,
    /// The due time of the last counted tick, in nanoseconds
    /// ([`Scheduler::count_tick`](crate::Scheduler::count_tick)).
    jiffies: AtomicU64,
    /// The CPU with which the last round of idle CPUs began, that are asked to balance; CPU 0 if
    /// the round ends with the last CPU.
    pub(crate) asked_first: AtomicU32,
    /// The budgets of searches for idle CPUs.
    pub(crate) budgets: Budgets,
    pub(crate) lock_owners: LockOwners,
    pub(crate) processes: Processes,
    /// The waiting tasks of a loaded scheduler.
    pub(crate) ext: ExtQueue<L>,
    pub(crate) policy: LoadedPolicy<L>,
}

/// The place of a task's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// In the host's hands: parked, or on its way to a run queue.
    Parcel,
    /// On this CPU's run queue; check again under its lock.
    Rq(CpuId),
}

snapshot_of!(RootDomain<L>, L: {
    span cpupri cpudl dl_overload dl_booked rt_lending loop_next loop_start rto
});
snapshot_of!(Shared<L>, L: {
    cpus idle online waiting domains domain_of overload chains asked reach groups rt_groups served misfits dl_notes rt_limit directory
    wakers recent_used jiffies asked_first budgets lock_owners processes ext policy
} { overload_scope });

impl<L: RawMutex> Shared<L> {
    pub(crate) fn new(config: &Config) -> Self {
        let (nr_cpus, threads) = (config.topology.nr_cpus(), config.threads);
        let (domains, groups) = (config.domains.clone(), config.group_reserve);
        let scope = if config.settings.rt_balance.is_per_root_domain() {
            OverloadScope::RootDomain
        } else {
            config.settings.overload_scope
        };
        let domain_of: Box<[AtomicU32]> = (0..nr_cpus).map(|_| AtomicU32::new(0)).collect();
        for (index, span) in domains.iter().enumerate() {
            let index = u32::try_from(index).expect("invariant: fewer domains than 65536");
            for cpu in span.iter() {
                domain_of[cpu.index()].store(index, Ordering::Relaxed);
            }
        }
        let rt_bandwidth = config.settings.rt_bandwidth();
        let masks = match scope {
            OverloadScope::Global => 1,
            OverloadScope::Cpuset => config.cpusets.len(),
            OverloadScope::RootDomain => domains.len(),
        };
        Self {
            cpus: (0..nr_cpus).map(|_| CachePadded(CpuState::idle(&config.settings))).collect(),
            idle: AtomicCpuMask::new(nr_cpus, threads),
            online: AtomicCpuMask::new(nr_cpus, threads),
            waiting: AtomicCpuMask::new(nr_cpus, threads),
            domains: domains
                .into_iter()
                .map(|span| RootDomain {
                    dl_booked: Mutex::new(Booked::new(servers_of(&span, config), DlLimit::of(rt_bandwidth))),
                    rt_lending: Mutex::new(()),
                    span: atomic_copy(&span, nr_cpus, threads),
                    cpupri: CpuPri::new(nr_cpus, threads),
                    cpudl: CpuDl::new(nr_cpus, threads),
                    dl_overload: AtomicCpuMask::new(nr_cpus, threads),
                    loop_next: AtomicU32::new(0),
                    loop_start: AtomicU32::new(0),
                    rto: Mutex::new(RtoToken { cpu: None, round: 0 }),
                })
                .collect(),
            domain_of,
            overload: (0..masks).map(|_| AtomicCpuMask::new(nr_cpus, threads)).collect(),
            overload_scope: scope,
            chains: (0..nr_cpus).map(|_| Mutex::new(PushChain::Stopped)).collect(),
            asked: AtomicCpuMask::new(if config.settings.rt_ipi_skip_pushing { nr_cpus } else { 0 }, threads),
            reach: (0..if config.settings.rt_balance == RtBalance::PullClaimed { nr_cpus } else { 0 })
                .map(|_| (0..nr_cpus.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
                .collect(),
            groups: GroupTable::new(groups, &config.settings, nr_cpus),
            rt_groups: RtGroupTable::new(groups, &config.settings, nr_cpus),
            served: ServedGroups::new(groups, &config.settings, nr_cpus),
            misfits: (0..config.topology.asymmetry().map_or(0, |_| nr_cpus)).map(|_| AtomicU64::new(0)).collect(),
            dl_notes: (0..nr_cpus).map(|_| Mutex::new(Vec::new())).collect(),
            directory: Vec::new(),
            wakers: Wakers::default(),
            recent_used: RecentUsed::default(),
            jiffies: AtomicU64::new(u64::MAX),
            asked_first: AtomicU32::new(0),
            budgets: Budgets::new(config),
            lock_owners: LockOwners::default(),
            processes: Processes::new(config),
            ext: ExtQueue::new(),
            policy: LoadedPolicy::none(config.settings.sched_ext),
            rt_limit: Mutex::new(RtLimit { bandwidth: rt_bandwidth, round: 0 }),
        }
    }

    /// Returns whether a policy of the user is loaded.
    pub(crate) fn has_policy(&self) -> bool {
        self.policy.has_host()
    }

    pub(crate) fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    pub(crate) fn count_tick(&self, due: Instant) {
        self.jiffies.store(due.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the due time of the last counted tick; in the far future if ticks are not counted.
    pub(crate) fn counted_tick(&self) -> Instant {
        Instant::from_nanos(self.jiffies.load(Ordering::Relaxed))
    }

    /// Returns the root domain of a CPU. The result is certain only under the lock of its run
    /// queue.
    pub(crate) fn domain(&self, cpu: CpuId) -> &RootDomain<L> {
        &self.domains[self.domain_of(cpu).index()]
    }

    pub(crate) fn domain_of(&self, cpu: CpuId) -> DomainId {
        DomainId(self.domain_of[cpu.index()].load(Ordering::Acquire) as u16)
    }

    /// Changes the root domain of a CPU. Called under the lock of its run queue.
    pub(crate) fn set_domain(&self, cpu: CpuId, to: DomainId) {
        self.domain(cpu).span.remove(cpu);
        self.domain_of[cpu.index()].store(u32::from(to.0), Ordering::Release);
        self.domain(cpu).span.insert(cpu);
    }

    /// Returns where overload masks are kept: `overload_scope`, or the scope that the IPI modes
    /// need.
    pub(crate) const fn overload_scope(&self) -> OverloadScope {
        self.overload_scope
    }

    /// Returns whether a CPU other than this one is overloaded in the scope of this cpuset and CPU.
    #[inline]
    pub(crate) fn has_overload_elsewhere(&self, cpuset: CpusetId, cpu: CpuId) -> bool {
        let mask = self.overload(cpuset, cpu);
        !mask.is_empty()
            && mask
                .next_and(None, CpuId(0))
                .is_some_and(|first| first != cpu || mask.next_and(None, CpuId(cpu.0 + 1)).is_some())
    }

    fn overload_index(&self, cpuset: CpusetId, cpu: CpuId) -> usize {
        match self.overload_scope {
            OverloadScope::Global => 0,
            OverloadScope::Cpuset => usize::from(cpuset.0),
            OverloadScope::RootDomain => self.domain_of(cpu).index(),
        }
    }

    /// Returns whether two CPUs share an overload mask for tasks of this cpuset.
    pub(crate) fn share_overload(&self, cpuset: CpusetId, one: CpuId, other: CpuId) -> bool {
        self.overload_index(cpuset, one) == self.overload_index(cpuset, other)
    }

    /// Returns the overload mask of a root domain, which its IPI follows.
    pub(crate) fn overload_of(&self, domain: DomainId) -> &AtomicCpuMask {
        debug_assert!(self.overload_scope == OverloadScope::RootDomain);
        &self.overload[domain.index()]
    }

    /// Returns the overload mask for tasks of this cpuset on this CPU.
    pub(crate) fn overload(&self, cpuset: CpusetId, cpu: CpuId) -> &AtomicCpuMask {
        &self.overload[self.overload_index(cpuset, cpu)]
    }

    /// Returns copies of all overload masks, for checks.
    pub(crate) fn overload_snapshots(&self) -> impl Iterator<Item = CpuMask> + '_ {
        self.overload.iter().map(AtomicCpuMask::snapshot)
    }

    /// Returns the published state of a CPU, for checks: priorities, load, counts, and whether it
    /// counts as idle.
    pub(crate) fn published(&self, cpu: CpuId) -> (PublishedPrios, CpuAverages, PublishedCounts, bool) {
        let state = &self.cpus[cpu.index()].0;
        (
            PublishedPrios::unpack(state.prios.load(Ordering::Acquire)),
            CpuAverages::unpack(state.load.load(Ordering::Relaxed), state.util.load(Ordering::Relaxed)),
            PublishedCounts::unpack(state.counts.load(Ordering::Relaxed)),
            self.idle.contains(cpu),
        )
    }

    /// Publishes [`PublishedPrios`], packed.
    pub(crate) fn publish_prios(&self, cpu: CpuId, prios: u64) {
        self.cpus[cpu.index()].0.prios.store(prios, Ordering::Release);
    }

    /// Returns whether CPUs publish where their pushable tasks may run.
    #[inline]
    pub(crate) fn has_reach(&self) -> bool {
        !self.reach.is_empty()
    }

    /// Publishes the CPUs that some pushable task of a CPU may use, word by word.
    pub(crate) fn publish_reach(&self, cpu: CpuId, union: impl Fn(usize) -> u64) {
        for (index, word) in self.reach[cpu.index()].iter().enumerate() {
            let bits = union(index);
            if word.load(Ordering::Relaxed) != bits {
                word.store(bits, Ordering::Release);
            }
        }
    }

    /// Returns whether some pushable task of `cpu` may use `on`, as of its last publication; says
    /// nothing while one may use any CPU.
    pub(crate) fn reaches(&self, cpu: CpuId, on: CpuId) -> bool {
        self.reach[cpu.index()][on.index() / 64].load(Ordering::Acquire) & 1 << (on.index() % 64) != 0
    }

    /// Claims the right to pull from a CPU; if another has it, notes that it is wanted.
    pub(crate) fn claim(&self, cpu: CpuId) -> bool {
        let next = |claim| match claim {
            Claim::FREE => Some(Claim::TAKEN),
            Claim::TAKEN => Some(Claim::WANTED),
            _ => None, // Already noted: the line is not written again.
        };
        let claim = &self.cpus[cpu.index()].0.claim;
        claim.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next) == Ok(Claim::FREE)
    }

    /// Gives the right up; returns whether another CPU wanted it meanwhile.
    pub(crate) fn release(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].0.claim.swap(Claim::FREE, Ordering::SeqCst) == Claim::WANTED
    }

    pub(crate) fn publish_averages(&self, cpu: CpuId, averages: CpuAverages) {
        let state = &self.cpus[cpu.index()].0;
        let (load, util) = averages.pack();
        state.load.store(load, Ordering::Relaxed);
        state.util.store(util, Ordering::Relaxed);
    }

    pub(crate) fn publish_idle_scan(&self, first: CpuId, cpus: u64) {
        self.cpus[first.index()].0.idle_scan.store(cpus + 1, Ordering::Relaxed);
    }

    pub(crate) fn publish_asked_first(&self, cpu: CpuId) {
        self.asked_first.store(cpu.0, Ordering::Relaxed);
    }

    /// Publishes whether a group of CPUs of a level, which begins with CPU `first`, is uneven
    /// because its tasks cannot migrate.
    pub(crate) fn publish_uneven(&self, first: CpuId, level: usize, is_uneven: bool) {
        let word = &self.cpus[first.index()].0.uneven;
        if is_uneven {
            word.fetch_or(1 << level, Ordering::Relaxed);
        } else {
            word.fetch_and(!(1 << level), Ordering::Relaxed);
        }
    }

    /// Publishes the load of the current task of a CPU if it does not fit there, otherwise 0. Only
    /// on machines with CPUs of different capacity. Stale by a switch: a hint, checked again under
    /// the lock of the run queue.
    pub(crate) fn publish_misfit(&self, cpu: CpuId, load: u64) {
        if let Some(word) = self.misfits.get(cpu.index()) {
            word.store(load, Ordering::Relaxed);
        }
    }

    pub(crate) fn publish_capacity(&self, cpu: CpuId, left: u64) {
        self.cpus[cpu.index()].0.capacity.store(left, Ordering::Relaxed);
    }

    /// Leaves a note that a task which slept on `cpu` wakes elsewhere: `cpu` removes the task's
    /// averages.
    pub(crate) fn leave_note(&self, cpu: CpuId, removed: Removed) {
        let notes = &self.cpus[cpu.index()].0.notes;
        let add = |word| Some(pack_notes(unpack_notes(word), removed));
        notes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).expect("invariant: it always adds");
    }

    /// Leaves a note about a deadline task that has blocked on a CPU. O(notes that the CPU has not
    /// read).
    pub(crate) fn leave_dl_note(&self, cpu: CpuId, note: Note) {
        let mut notes = self.dl_notes[cpu.index()].lock();
        match notes.iter_mut().find(|earlier| earlier.task == note.task) {
            Some(earlier) => earlier.come = note.come,
            None => notes.push(note),
        }
        self.cpus[cpu.index()].0.has_dl_notes.store(true, Ordering::Release);
    }

    pub(crate) fn has_dl_notes(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].0.has_dl_notes.load(Ordering::Relaxed)
    }

    /// Passes the notes that were left for a CPU to `each`, and removes them.
    pub(crate) fn take_dl_notes(&self, cpu: CpuId, each: impl FnMut(Note)) {
        let mut notes = self.dl_notes[cpu.index()].lock();
        self.cpus[cpu.index()].0.has_dl_notes.store(false, Ordering::Relaxed);
        notes.drain(..).for_each(each);
    }

    /// Returns the notes that a CPU has not read yet, for checks.
    pub(crate) fn unread_dl_notes(&self, cpu: CpuId) -> Vec<Note> {
        self.dl_notes[cpu.index()].lock().clone()
    }

    /// Publishes the current task of a CPU and the task's load.
    pub(crate) fn publish_current(&self, cpu: CpuId, task: Option<(TaskId, u64)>) {
        let word = task.map_or(0, |(task, load)| (u64::from(task.0) + 1) | load.min(u64::from(u32::MAX)) << 32);
        self.cpus[cpu.index()].0.current.store(word, Ordering::Relaxed);
    }

    /// Returns the task that a CPU has published as current, for checks.
    pub(crate) fn published_current(&self, cpu: CpuId) -> Option<TaskId> {
        let word = self.cpus[cpu.index()].0.current.load(Ordering::Relaxed);
        (word as u32).checked_sub(1).map(TaskId)
    }

    /// Publishes [`PublishedCounts`], packed.
    pub(crate) fn publish_counts(&self, cpu: CpuId, counts: u64) {
        self.cpus[cpu.index()].0.counts.store(counts, Ordering::Relaxed);
    }

    /// Publishes [`PublishedDeadlines`], as words.
    pub(crate) fn publish_deadlines(&self, cpu: CpuId, [earliest, pushable]: [u64; 2]) {
        let state = &self.cpus[cpu.index()].0;
        state.earliest.store(earliest, Ordering::Release);
        state.pushable_deadline.store(pushable, Ordering::Release);
    }

    /// Returns the deadlines that a CPU has published, for checks.
    pub(crate) fn published_deadlines(&self, cpu: CpuId) -> PublishedDeadlines {
        let state = &self.cpus[cpu.index()].0;
        PublishedDeadlines {
            earliest: published::unpack_deadline(state.earliest.load(Ordering::Acquire)),
            pushable: published::unpack_deadline(state.pushable_deadline.load(Ordering::Acquire)),
        }
    }

    pub(crate) fn publish_idle(&self, cpu: CpuId, is_idle: bool) {
        self.idle.assign(cpu, is_idle);
    }

    pub(crate) fn publish_waiting(&self, cpu: CpuId, has_waiting: bool) {
        self.waiting.assign(cpu, has_waiting);
    }

    pub(crate) fn publish_online(&self, cpu: CpuId, is_online: bool) {
        self.online.assign(cpu, is_online);
    }

    /// Makes room in the directory for task ids below `tasks`.
    pub(crate) fn reserve_tasks(&mut self, tasks: usize) {
        let have = self.directory.len();
        self.directory.extend((have..tasks).map(|_| AtomicU64::new(0)));
        self.wakers.reserve(tasks);
        self.recent_used.reserve(tasks);
        self.processes.reserve(tasks);
    }

    pub(crate) fn tasks_reserved(&self) -> usize {
        self.directory.len()
    }

    /// Records the place of a body. Called by the owner of the body; under the lock of the run
    /// queue if it goes to one.
    pub(crate) fn set_home(&self, task: TaskId, home: Option<(CpuId, Slot)>) {
        let word = home.map_or(0, |(cpu, slot)| (u64::from(cpu.0) + 1) << 32 | u64::from(slot.raw()));
        self.directory[task.index()].store(word, Ordering::Release);
    }

    pub(crate) fn home(&self, task: TaskId) -> Option<(CpuId, Slot)> {
        let word = self.directory.get(task.index())?.load(Ordering::Acquire);
        let cpu = (word >> 32).checked_sub(1)?;
        Some((CpuId(u32::try_from(cpu).expect("invariant: a CPU")), Slot::new((word & 0xffff_ffff) as u32)))
    }
}

fn atomic_copy(mask: &CpuMask, nr_cpus: usize, threads: Threads) -> AtomicCpuMask {
    let copy = AtomicCpuMask::new(nr_cpus, threads);
    mask.iter().for_each(|cpu| copy.insert(cpu));
    copy
}

/// Returns the bandwidth of the deadline servers of some CPUs.
fn servers_of(span: &CpuMask, config: &Config) -> Bandwidth {
    let of = |cpu| ServerKind::ALL.map(|kind| server::bandwidth(config.server(cpu, kind)).0).iter().sum::<u64>();
    Bandwidth(span.iter().map(of).sum())
}
