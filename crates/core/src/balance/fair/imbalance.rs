//! Imbalances: compares the groups of a domain, for [`periodic`](super::periodic).
//!
//! A group is of the first of these kinds that applies:
//!
//! * *Overloaded*: it has more tasks than CPUs, and they fill it. Blocked tasks that stay queued to
//!   repay their lag count here too (`rq->nr_running`). The table below says how much is taken from
//!   it.
//! * *Strayed*: one of its tasks prefers the taker's cache and is to be moved there
//!   ([`cache_aware`]).
//! * *Uneven*: its own domain could not be balanced, because tasks are bound to CPUs there
//!   (`sgc->imbalance`). One task is taken from it, whatever the averages are.
//! * *Shared*: it is a core with several busy threads, seen by an idle CPU (`smt_balance`, 6.6).
//!   One task is taken from it.
//! * *Misfit*: one of its tasks needs more than its CPU has. A stronger CPU takes that task, even
//!   while it runs.
//! * *Spare*: it has fewer tasks than CPUs, or they do not fill it. An idle CPU takes tasks from it
//!   if two of them share a CPU.
//! * *Busy*: it has as many tasks as CPUs, and they fill it. Nothing is taken from it.
//!
//! | the taker's group | takes from an overloaded group | counted in (`migration_type`) |
//! |---|---|---|
//! | has spare CPUs, under the same cache | half of the difference | tasks |
//! | has spare CPUs, under another cache | as much as it has room for | util |
//! | is busy or overloaded itself | up to the average of both | load |
//!
//! Groups of CPUs that share a core or a cache are filled evenly even if all of them have room
//! (`SD_PREFER_SIBLING`): since 6.6 by idle CPUs only. Between sockets a small difference is left
//! alone, for the sake of tasks that talk to each other.
//!
//! Capacity is the part of a CPU that deadline and real-time tasks and interrupts leave
//! ([`capacity`]). Tasks fill a group if its util exceeds 100/117 of its capacity, or if its
//! runnable average exceeds 117/100 of it, that is, if more than one task per CPU wants or lately
//! wanted to run most of the time. Between the threads of a core 110 replaces 117. Where load is
//! not tracked, only counts decide. If no task of a CPU is allowed here, its load and tasks are not
//! counted (`LBF_ALL_PINNED`).
//!
//! A fair task that is alone on a CPU of which the classes above take much counts as a misfit for
//! an idle CPU too. Where CPUs differ in capacity, a task that is alone on its CPU is taken only by
//! a stronger CPU, and groups are not filled evenly.
//!
//! **About to idle.** A taker's group with spare CPUs takes from the overloaded group with the most
//! load; the average of the domain does not matter. Only a group with a waiting task can be
//! overloaded, so the other groups need not be measured. But if no group is overloaded, a group
//! without waiting tasks can be the busiest, and then the waiting tasks stay where they are: in
//! that case all groups are compared.
//!
//! O(CPUs of the domain).
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `should_we_balance`, `update_sg_lb_stats`,
//! `group_classify`, `group_has_capacity`, `update_sd_pick_busiest`,
//! `sched_balance_find_src_group`, `calculate_imbalance`, `sched_balance_find_src_rq`,
//! `smt_balance`, `sibling_imbalance`, `adjust_numa_imbalance`; commits 43726bdedd29 (6.5),
//! 7ff1693236f5, fee1759e4f04, b1bfeab9b002 (6.6), e496132ebedd (5.18). differs: 6.12.117 also
//! counts tasks that repay lag as waiting, and moves them; since 6.14 they move to even out load
//! (`can_migrate_task`), here never. Presets before 5.5 have these rules too, not those of their
//! kernels ([`by_load`]); 5.15 tolerated larger differences between sockets. A CPU about to idle
//! passes over a group that only tasks of the classes above, or that repay lag, overload.

use crate::balance::fair::{by_load, cache_aware, capacity_search, idle_cpu, uneven};
use crate::class::fair::capacity;
use crate::queue::fair::asymmetric;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::level::{FULL_CAPACITY, LEVELS};
use crate::words::level::{IMBALANCE_PCT, SMT_IMBALANCE_PCT};
use crate::words::step::{BalanceKind, Imbalance};
use core::cmp::Ordering;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Distance};

/// The published sums of a group of CPUs.
#[derive(Clone, Copy, Default)]
struct GroupLoad {
    load: u64,
    util: u64,
    runnable: u64,
    capacity: u64,
    nr_running: u64,
    nr_fair: u64,
    nr_idle: u64,
    nr_cpus: u64,
    kind: GroupType,
    /// Its first CPU that takes part in balancing.
    first: Option<CpuId>,
    /// The CPU with the most load relative to its capacity, among those with a waiting task.
    busiest: Option<(u64, u32, CpuId)>,
    /// The CPU with the most util, among those with several fair tasks.
    most_used: Option<(u64, CpuId)>,
    /// The CPU with the most fair tasks, at least one.
    fullest: Option<(u32, CpuId)>,
    /// The number of its tasks that prefer the taker's cache, and the CPU with most of them.
    strays: u32,
    most_strays: Option<(u32, CpuId)>,
    /// The CPU with the heaviest task that needs more capacity than the CPU has.
    misfit: Option<(u64, CpuId)>,
    /// The smallest and the largest remaining capacity of its CPUs.
    least: u64,
    most: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum GroupType {
    #[default]
    Spare,
    Busy,
    Misfit,
    Shared,
    Uneven,
    Strayed,
    Overloaded,
}

impl GroupLoad {
    /// Classifies the group by its counts and, where load is tracked, by whether its tasks fill it
    /// (`group_classify`).
    fn classify(&self, domain: &BalancedDomain, is_strayed: bool, is_uneven: bool, is_shared: bool) -> GroupType {
        let is_full = self.capacity * 100 < self.util * domain.imbalance_pct;
        let is_crowded = self.capacity * domain.imbalance_pct < self.runnable * 100;
        match self.nr_running.cmp(&self.nr_cpus) {
            Ordering::Greater if !domain.tracks_load || is_full || is_crowded => GroupType::Overloaded,
            _ if is_strayed => GroupType::Strayed,
            _ if is_uneven => GroupType::Uneven,
            _ if is_shared => GroupType::Shared,
            _ if self.misfit.is_some() => GroupType::Misfit,
            Ordering::Less => GroupType::Spare,
            Ordering::Equal | Ordering::Greater if domain.tracks_load && !is_full && !is_crowded => GroupType::Spare,
            Ordering::Equal | Ordering::Greater => GroupType::Busy,
        }
    }

    /// Returns the load per CPU of full capacity.
    fn average(&self) -> u64 {
        per_cpu(self.load, self.capacity)
    }

    /// Returns whether this group has to be relieved before `other` (`update_sd_pick_busiest`).
    fn is_busier_than(&self, other: &Self, domain: &BalancedDomain) -> bool {
        if self.kind != other.kind {
            return self.kind > other.kind;
        }
        match self.kind {
            GroupType::Overloaded => self.average() > other.average(),
            // Of equals the first since 6.9; before, the last.
            GroupType::Misfit => self.misfit.map(|(load, _)| load) > other.misfit.map(|(load, _)| load),
            GroupType::Strayed => self.strays > other.strays,
            GroupType::Spare => self.has_fewer_idle(other),
            GroupType::Shared if self.nr_idle + other.nr_idle > 0 => self.has_fewer_idle(other),
            // Of equals the first is taken, except of busy groups that are not cores: since 6.6 the
            // last.
            GroupType::Busy => domain.only_idle_even_out && domain.groups != Distance::Smt,
            GroupType::Shared | GroupType::Uneven => false,
        }
    }

    /// Returns whether fewer of its CPUs are idle, or as many and it has more tasks.
    fn has_fewer_idle(&self, other: &Self) -> bool {
        if self.nr_idle != other.nr_idle { self.nr_idle < other.nr_idle } else { self.nr_running > other.nr_running }
    }
}

fn per_cpu(load: u64, capacity: u64) -> u64 {
    load * FULL_CAPACITY / capacity.max(1)
}

/// The domain that is balanced, as one of its CPUs sees it.
#[derive(Clone)]
struct BalancedDomain {
    level: usize,
    span: Range<u32>,
    /// The level of its groups, and the group of the CPU.
    groups: Distance,
    own: Range<u32>,
    kind: BalanceKind,
    tracks_load: bool,
    /// How much busier another group must be, in percent (`sd->imbalance_pct`).
    imbalance_pct: u64,
    /// Whether its CPUs share a cache (`SD_SHARE_LLC`).
    shares_cache: bool,
    /// Whether groups that share a core or a cache are filled evenly even if all have room
    /// (`SD_PREFER_SIBLING`).
    evens_out: bool,
    /// Whether only idle CPUs fill groups evenly (6.6), and whether the number of CPUs of the
    /// busier group decides (6.5), not that of the taker's group.
    only_idle_even_out: bool,
    /// If the taker's group has fewer tasks than this, a difference of two is left alone
    /// (`sd->imb_numa_nr`).
    tolerates: Option<u64>,
}

impl BalancedDomain {
    fn new<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, level: usize, kind: BalanceKind) -> Self {
        let (distance, groups) = LEVELS[level];
        let topology = &cx.config.topology;
        let tracks_load = rq.fair.tune.tracks_load;
        let is_uneven = rq.fair.asymmetric.as_ref().is_some_and(|uneven| uneven.level <= distance);
        let [_, llcs, cores, smt] = topology.shape().map(u64::from);
        let tolerates = if llcs > 1 { llcs } else { (cores * smt / 8).max(1) };
        Self {
            level,
            span: topology.span(rq.cpu(), distance),
            groups,
            own: topology.span(rq.cpu(), groups),
            kind,
            tracks_load,
            imbalance_pct: if distance == Distance::Smt { SMT_IMBALANCE_PCT } else { IMBALANCE_PCT },
            shares_cache: distance <= Distance::Llc,
            evens_out: tracks_load && (!is_uneven || cx.config.settings.asym_prefer_sibling),
            only_idle_even_out: cx.config.settings.smt_balance,
            tolerates: (distance == Distance::Remote).then_some(tolerates),
        }
    }

    /// Returns whether the groups are filled evenly: groups of a single CPU share nothing.
    const fn evens_out(&self, local: &GroupLoad, busiest: &GroupLoad) -> bool {
        let nr_cpus = if self.only_idle_even_out { busiest.nr_cpus } else { local.nr_cpus };
        self.evens_out && nr_cpus > 1
    }

    /// Returns how many more tasks the busier group has, if the difference has to be evened out
    /// (`sibling_imbalance`; all groups have the same number of cores).
    fn excess(&self, local: &GroupLoad, busiest: &GroupLoad) -> u64 {
        if self.only_idle_even_out && self.kind == BalanceKind::Periodic {
            return 0;
        }
        busiest.nr_running.saturating_sub(local.nr_running)
    }
}

/// Compares the groups of a domain. Returns the CPU to take from, and how much. O(CPUs of the
/// domain).
pub(crate) fn find_imbalance<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    level: usize,
    kind: BalanceKind,
) -> Option<(CpuId, Imbalance)> {
    let domain = &BalancedDomain::new(rq, cx, level, kind);
    cx.io.costs.fair_balance += 1;
    if !is_balancer(rq, cx, domain) {
        return None;
    }
    if cx.config.settings.fair_balance.is_by_load() {
        return by_load::find(rq, cx, level);
    }
    let (distance, _) = LEVELS[level];
    let taker = Taker {
        left: cx.capacity_of(rq.cpu()),
        may_run_alone: kind != BalanceKind::Periodic,
        is_uneven: rq.fair.asymmetric.as_ref().is_some_and(|uneven| uneven.level <= distance),
        may_take_misfit: !capacity_search::prefers_cores(cx) || idle_cpu::has_core_alone(cx, rq.cpu()),
        faults: CapacityFaults {
            strong_hides: cx.config.settings.asym_strong_hides,
            misfit_hides: cx.config.settings.asym_misfit_hides,
            thread_stays: cx.config.settings.asym_thread_stays,
        },
    };
    let local = measure(rq, cx, domain, domain.own.clone(), None);
    let found = match kind {
        BalanceKind::NewIdle if local.kind == GroupType::Spare => compare_lazily(rq, cx, domain, taker, &local),
        BalanceKind::NewIdle | BalanceKind::Periodic | BalanceKind::Idle => {
            compare(rq, cx, domain, taker, &local, GroupFilter::All)
        }
    };
    if cx.config.settings.sis_util && domain.tracks_load && kind != BalanceKind::NewIdle {
        idle_cpu::publish_scan(rq.cpu(), cx, &domain.span, found.util);
    }
    let average = per_cpu(found.load, found.capacity);
    let busiest = found.busiest?;
    if let (GroupType::Misfit, Some((load, cpu))) = (busiest.kind, busiest.misfit) {
        return Some((cpu, if taker.is_uneven { Imbalance::Misfit } else { Imbalance::Load(load) }));
    }
    let takes_rt = cx.config.settings.rt_balance.is_passive();
    let imbalance = imbalance(domain, &local, &busiest, average, takes_rt)?;
    let cpu = match imbalance {
        Imbalance::Tasks(_) if !takes_rt => busiest.fullest?.1,
        // Without a waiting task active balance asks for a running one.
        Imbalance::Tasks(_) => busiest.busiest.map(|(.., cpu)| cpu).or(busiest.fullest.map(|(_, cpu)| cpu))?,
        Imbalance::Util(_) => busiest.most_used?.1,
        Imbalance::Strayed => busiest.most_strays?.1,
        Imbalance::Load(_) | Imbalance::Misfit => busiest.busiest?.2,
    };
    Some((cpu, imbalance))
}

/// The groups of a domain that are compared with the taker's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupFilter {
    All,
    /// The groups with a CPU on which a movable task waits.
    Waiting,
}

/// The result of comparing groups.
struct ComparedGroups {
    busiest: Option<GroupLoad>,
    /// The sums over all compared groups, including the taker's.
    load: u64,
    capacity: u64,
    util: u64,
}

/// Finds the busiest group of a domain for a taker's group with spare CPUs, for which the sums of
/// the whole domain do not matter. O(CPUs of groups with waiting tasks) if one of these is
/// overloaded; otherwise O(CPUs).
fn compare_lazily<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    domain: &BalancedDomain,
    taker: Taker,
    local: &GroupLoad,
) -> ComparedGroups {
    let found = compare(rq, cx, domain, taker, local, GroupFilter::Waiting);
    if found.busiest.as_ref().is_some_and(|group| group.kind == GroupType::Overloaded) {
        return found;
    }
    compare(rq, cx, domain, taker, local, GroupFilter::All)
}

/// Finds the busiest group of a domain. O(CPUs of the groups).
fn compare<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    domain: &BalancedDomain,
    taker: Taker,
    local: &GroupLoad,
    which: GroupFilter,
) -> ComparedGroups {
    let mut found = ComparedGroups { busiest: None, load: local.load, capacity: local.capacity, util: local.util };
    // Upwards from the own group and around, so that among equal groups different takers relieve
    // different groups, not all of them the first.
    for part in [domain.own.end..domain.span.end, domain.span.start..domain.own.start] {
        let mut start = part.start;
        while start < part.end {
            if which == GroupFilter::Waiting {
                let Some(cpu) = cx.view().next_waiting(CpuId(start)).filter(|cpu| cpu.0 < part.end) else { break };
                start = cpu.0;
            }
            let part = cx.config.topology.span(CpuId(start), domain.groups);
            start = part.end;
            let group = measure(rq, cx, domain, part, Some(taker));
            if group.nr_cpus == 0 {
                continue; // all its CPUs are offline or in other domains
            }
            found.load += group.load;
            found.capacity += group.capacity;
            found.util += group.util;
            let so_far = found.busiest.as_ref().map_or(GroupType::Spare, |busiest| busiest.kind);
            if group.nr_fair > 0
                && taker.may_relieve(&group, local, so_far)
                && found.busiest.as_ref().is_none_or(|so_far| group.is_busier_than(so_far, domain))
            {
                found.busiest = Some(group);
            }
        }
    }
    found
}

/// Returns whether this CPU balances for its group: it is the first idle CPU, on an idle core if
/// there is one (6.6), or the first CPU if none is idle (`should_we_balance`).
fn is_balancer<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, domain: &BalancedDomain) -> bool {
    let group = &domain.own;
    if group.len() == 1 || domain.kind == BalanceKind::NewIdle {
        return true;
    }
    let mut idle_thread = None;
    let mut from = CpuId(group.start);
    while let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu(), from).filter(|cpu| cpu.0 < group.end) {
        if !cx.config.settings.smt_balance || idle_cpu::is_on_idle_core(cx, cpu) {
            return cpu == rq.cpu();
        }
        idle_thread = idle_thread.or(Some(cpu));
        from = CpuId(cx.config.topology.span(cpu, Distance::Smt).end);
    }
    match idle_thread {
        Some(cpu) => cpu == rq.cpu(),
        None => domain.kind == BalanceKind::Idle || uneven::first_of(rq, cx, group.clone()) == Some(rq.cpu()),
    }
}

/// The CPU that would take tasks.
#[derive(Clone, Copy)]
struct Taker {
    /// Its remaining capacity.
    left: u64,
    /// Whether it can take a task that is alone on its CPU: only an idle CPU can.
    may_run_alone: bool,
    /// Whether the CPUs of the domain differ in capacity.
    is_uneven: bool,
    /// Whether it may take a misfit: not beside a busy thread, with `asym_idle_core`.
    may_take_misfit: bool,
    faults: CapacityFaults,
}

/// Faults of the comparison where CPUs differ in capacity, until 7.3.
#[derive(Clone, Copy)]
struct CapacityFaults {
    strong_hides: bool,
    misfit_hides: bool,
    thread_stays: bool,
}

impl Taker {
    /// Returns whether this CPU can help a group at all (`update_sd_pick_busiest`): it relieves a
    /// group of a misfit only if it is stronger, and a group with a CPU for every task only if that
    /// group is not the stronger one. `so_far` is the kind of the busiest group before: with the
    /// fault a stronger group that is busier than that one is not passed over.
    fn may_relieve(&self, group: &GroupLoad, local: &GroupLoad, so_far: GroupType) -> bool {
        match group.kind {
            _ if !self.is_uneven => true,
            GroupType::Overloaded | GroupType::Strayed | GroupType::Uneven | GroupType::Shared => true,
            GroupType::Misfit => self.can_help(group) && self.may_take_misfit && local.kind == GroupType::Spare,
            GroupType::Spare | GroupType::Busy if self.faults.strong_hides && group.kind > so_far => true,
            GroupType::Spare | GroupType::Busy => !asymmetric::is_more(group.least, self.left),
        }
    }

    /// Returns whether a task that is alone on a CPU stays there: the CPU is at least as strong,
    /// and no busy thread of its core makes it weaker.
    fn leaves_alone<L: RawMutex>(&self, cx: &mut Cx<'_, L>, cpu: CpuId, capacity: u64) -> bool {
        self.is_uneven
            && !asymmetric::is_more(self.left, capacity)
            && (self.faults.thread_stays || idle_cpu::has_core_alone(cx, cpu))
    }

    /// Returns whether this CPU is stronger than all of a group.
    const fn can_help(&self, group: &GroupLoad) -> bool {
        asymmetric::is_more(self.left, group.most)
    }
}

/// Sums up the CPUs of a group; `taker` is `None` for the taker's own group.
fn measure<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    domain: &BalancedDomain,
    part: Range<u32>,
    taker: Option<Taker>,
) -> GroupLoad {
    let is_core = part.len() > 1 && part == cx.config.topology.span(CpuId(part.start), Distance::Smt);
    let mut group = GroupLoad { least: u64::MAX, ..GroupLoad::default() };
    let takes_rt = cx.config.settings.rt_balance.is_passive();
    let gathers = rq.fair.tune.gathers && !domain.shares_cache;
    for cpu in part.clone().map(CpuId) {
        if !cx.view().takes_part(rq.cpu(), cpu) {
            continue;
        }
        group.first = group.first.or(Some(cpu));
        let capacity = cx.capacity_of(cpu);
        group.nr_cpus += 1;
        group.capacity += capacity;
        (group.least, group.most) = (group.least.min(capacity), group.most.max(capacity));
        if rq.fair.balance.pinned.contains(&cpu) {
            continue;
        }
        cx.io.costs.cpus_searched += 1;
        let (averages, counts) = (cx.averages_of(cpu), cx.view().counts(cpu));
        let load = averages.load;
        let nr = if takes_rt { counts.running } else { counts.fair };
        group.load += load;
        // The util of tasks that sleep stays until it has decayed: with it a CPU can have more than
        // it can use (`cpu_util_cfs`).
        let full = u64::from(cx.config.topology.capacity(cpu));
        let util = averages.util.min(full);
        group.util += util;
        group.runnable += averages.runnable;
        // Real-time tasks occupy CPUs too, and so do tasks that only repay lag (`rq->nr_running`).
        let queued = counts.running + counts.delayed;
        group.nr_running += u64::from(queued);
        group.nr_fair += u64::from(nr);
        group.nr_idle += u64::from(queued == 0);
        let misfit = match taker {
            Some(taker) if taker.is_uneven => cx.view().misfit(cpu),
            // `sched_reduced_capacity`.
            Some(taker) if taker.may_run_alone && counts.fair == 1 && capacity::is_reduced(capacity, full) => load,
            Some(_) | None => 0,
        };
        if misfit > 0 && group.misfit.is_none_or(|(most, _)| misfit > most) {
            group.misfit = Some((misfit, cpu));
        }
        if nr == 1 && taker.is_some_and(|taker| taker.leaves_alone(cx, cpu, capacity)) {
            continue;
        }
        if nr > 0 && group.fullest.is_none_or(|(most, _)| nr > most) {
            group.fullest = Some((nr, cpu));
        }
        if counts.fair > 1 && group.most_used.is_none_or(|(most, _)| util > most) {
            group.most_used = Some((util, cpu));
        }
        if counts.running > 1 && nr > 0 {
            let pressed = per_cpu(load, capacity);
            if group.busiest.is_none_or(|(most, most_nr, _)| (pressed, nr) > (most, most_nr)) {
                group.busiest = Some((pressed, nr, cpu));
            }
        }
    }
    if let Some(taker) = taker
        && taker.is_uneven
        && !taker.faults.misfit_hides
        && !taker.can_help(&group)
    {
        group.misfit = None;
    }
    let is_uneven = group.first.is_some_and(|first| cx.view().is_uneven(first, domain.level));
    let smt_balance = cx.config.settings.smt_balance && domain.kind != BalanceKind::Periodic;
    let is_shared = smt_balance && domain.tracks_load && taker.is_some() && is_core && group.nr_fair > 1;
    let is_strayed = gathers && look_for_strays(rq, cx, domain, part, taker, &mut group);
    group.kind = group.classify(domain, is_strayed, is_uneven, is_shared);
    group
}

/// Counts the tasks of a group that prefer the taker's cache, and publishes how much of a cache is
/// used. Returns whether such a task is to be moved. Apart, for machines without processes.
#[cold]
#[inline(never)]
fn look_for_strays<L: RawMutex>(
    rq: &Rq,
    cx: &mut Cx<'_, L>,
    domain: &BalancedDomain,
    part: Range<u32>,
    taker: Option<Taker>,
    group: &mut GroupLoad,
) -> bool {
    let takes_rt = cx.config.settings.rt_balance.is_passive();
    for cpu in part.map(CpuId) {
        if !cx.view().takes_part(rq.cpu(), cpu) || rq.fair.balance.pinned.contains(&cpu) {
            continue;
        }
        let strays = cache_aware::strays(cx, cpu, rq.cpu());
        group.strays += strays;
        let (counts, capacity) = (cx.view().counts(cpu), cx.capacity_of(cpu));
        let nr = if takes_rt { counts.running } else { counts.fair };
        let stays = nr == 1 && taker.is_some_and(|taker| taker.leaves_alone(cx, cpu, capacity));
        if nr > 0 && strays > 0 && !stays && group.most_strays.is_none_or(|(most, _)| strays > most) {
            group.most_strays = Some((strays, cpu));
        }
    }
    let is_held = group.misfit.is_some() && taker.is_some_and(|taker| taker.is_uneven);
    // By what the caches used before: the kernel records this round's use afterwards.
    let is_strayed = group.strays > 0
        && taker.is_some()
        && !is_held
        && group.first.is_some_and(|first| cache_aware::is_strayed(rq, cx, domain.level, first));
    if domain.kind != BalanceKind::NewIdle && domain.own == cx.config.topology.span(rq.cpu(), Distance::Llc) {
        let cache = group.first.map(|first| cx.shared.processes.cache_of(first));
        cache.into_iter().for_each(|cache| cx.shared.processes.publish_used(cache, group.util, group.capacity));
    }
    is_strayed
}

/// Returns how much has to be moved between two groups, if anything
/// (`sched_balance_find_src_group`, `calculate_imbalance`).
fn imbalance(
    domain: &BalancedDomain,
    local: &GroupLoad,
    busiest: &GroupLoad,
    average: u64,
    takes_rt: bool,
) -> Option<Imbalance> {
    if busiest.kind == GroupType::Uneven {
        return Some(Imbalance::Tasks(1)); // Averages do not show the imbalance.
    }
    if local.kind > busiest.kind {
        return None;
    }
    let has_spare = local.kind == GroupType::Spare;
    let has_many = busiest.kind == GroupType::Strayed || domain.excess(local, busiest) > 1;
    let evens_out = domain.evens_out(local, busiest) && has_spare && has_many;
    if busiest.kind != GroupType::Overloaded && !evens_out {
        // A busy CPU leaves this to the idle ones. Two tasks on one CPU next to an idle CPU are an
        // imbalance; between groups of several CPUs only if the taker's group has at least two more
        // idle CPUs.
        let is_even = busiest.nr_cpus > 1 && local.nr_idle <= busiest.nr_idle + 1;
        if domain.kind == BalanceKind::Periodic || is_even || busiest.nr_fair == 1 {
            return None;
        }
    }
    match busiest.kind {
        GroupType::Shared => Some(Imbalance::Tasks(1)),
        GroupType::Strayed => Some(Imbalance::Strayed),
        GroupType::Overloaded if has_spare && domain.tracks_load && !domain.shares_cache => room(domain, local),
        GroupType::Overloaded if has_spare => some_tasks(tasks_to_even_out(domain, local, busiest)),
        GroupType::Overloaded => load_to_even_out(local, busiest, average, takes_rt).map(Imbalance::Load),
        GroupType::Spare | GroupType::Busy if has_spare => some_tasks(tasks_to_even_out(domain, local, busiest)),
        // Spare and busy groups have enough CPUs; misfits and uneven groups have been handled
        // before.
        GroupType::Spare | GroupType::Busy | GroupType::Misfit | GroupType::Uneven => None,
    }
}

fn some_tasks(nr: u64) -> Option<Imbalance> {
    (nr > 0).then(|| Imbalance::Tasks(u32::try_from(nr).unwrap_or(u32::MAX)))
}

/// Returns the util that the taker's group has room for. Under another cache counts say little: the
/// arriving tasks can be small or large.
fn room(domain: &BalancedDomain, local: &GroupLoad) -> Option<Imbalance> {
    match local.capacity.saturating_sub(local.util) {
        0 if domain.kind == BalanceKind::Periodic => None,
        0 => Some(Imbalance::Tasks(1)), // The util is that of tasks that have left: this CPU idles.
        room => Some(Imbalance::Util(room)),
    }
}

fn tasks_to_even_out(domain: &BalancedDomain, local: &GroupLoad, busiest: &GroupLoad) -> u64 {
    if !domain.tracks_load && busiest.kind == GroupType::Overloaded {
        // By counts alone, a group of several CPUs that is overloaded gives at least one task.
        return (domain.excess(local, busiest) / 2).max(u64::from(busiest.nr_cpus > 1));
    }
    let too_many = if busiest.nr_cpus == 1 || domain.evens_out(local, busiest) {
        domain.excess(local, busiest)
    } else {
        local.nr_idle.saturating_sub(busiest.nr_idle)
    };
    let is_tolerated = domain.tolerates.is_some_and(|few| local.nr_running < few && too_many <= NUMA_IMBALANCE_MIN);
    if is_tolerated { 0 } else { too_many / 2 }
}

fn load_to_even_out(local: &GroupLoad, busiest: &GroupLoad, average: u64, takes_rt: bool) -> Option<u64> {
    let (mine, theirs) = (local.average(), busiest.average());
    // Only an overloaded group ignores small differences. A busy group always takes its part of the
    // load.
    let is_close = local.kind == GroupType::Overloaded && theirs * 100 <= mine * IMBALANCE_PCT;
    let is_balanced = mine >= theirs || mine >= average || is_close;
    let over = (theirs - average.min(theirs)) * busiest.capacity;
    let under = (average - mine.min(average)) * local.capacity;
    let load = over.min(under) / FULL_CAPACITY;
    let load = if takes_rt { at_least_a_task(local, busiest, load) } else { load };
    (!is_balanced && load > 0).then_some(load)
}

/// Rounds an imbalance below the load of a task up to a whole task if moving the task lets more
/// load run, and down to nothing otherwise: two tasks on one CPU next to one task on every other
/// CPU stay. Linux v2.6.23 `find_busiest_group`.
fn at_least_a_task(local: &GroupLoad, busiest: &GroupLoad, load: u64) -> u64 {
    let per_task = |group: &GroupLoad| group.load / group.nr_running.max(1);
    let (theirs, mine) = (per_task(busiest), per_task(local));
    if load >= theirs {
        return load;
    }
    let times = if local.nr_running > 0 && theirs > mine { 1 } else { 2 };
    if busiest.average().saturating_sub(local.average()) >= theirs * times {
        return theirs;
    }
    let now = theirs.min(busiest.average()) + mine.min(local.average());
    let moved = theirs.min(busiest.average().saturating_sub(theirs)) + mine.min(local.average() + theirs);
    if moved > now { theirs } else { 0 }
}

/// The difference in tasks between sockets that is left alone while few tasks run.
const NUMA_IMBALANCE_MIN: u64 = 2;
