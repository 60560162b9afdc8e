//! A CPU that is about to go idle looks for a task elsewhere, domain by domain from near to far, if that is worth it.
//!
//! It is not if the CPU's idle times are as short as the search is long: a task that wakes here meanwhile would wait for it. So every
//! CPU keeps how long it idles on average, and for each domain how long the dearest search of late took, which is forgotten by 1 % a
//! second. The search ends at the first domain that together with those before it may take longer than the CPU will idle.
//!
//! What a search takes is the number of CPUs looked at times what one look takes on this host ([`Config::with_scan_cost`]): the core
//! has no clock of its own.
//!
//! One task is taken, whatever is too much elsewhere: what follows is for the balancing at ticks.
//!
//! Groups are compared as at ticks ([`imbalance`](super::imbalance)), those without waiting tasks only where it matters which is the busiest. A domain in which
//! nobody waits is left out.
//!
//! A cache of more than 32 CPUs that share no cores is the exception: each CPU is a group of its own there. A task is taken from the CPU with the most load of
//! those on which one waits. The kernel's answer is another where tasks fill none of these but one alone fills some other CPU of the cache: it takes nothing. To
//! compare all CPUs of `mixed256` (docs/lab/speed.md) makes the whole simulation take five times as many instructions, since three searches of four find
//! nobody overloaded; ended at the first CPU that decides it, 8 % more.
//!
//! Complexity: O(1) if nobody waits anywhere; else for each domain O(CPUs of its groups in which somebody waits) if one of those is overloaded, O(its CPUs) if none is;
//! again for each CPU of which no task may come. Where groups are compared a search is charged for all CPUs of the domain, which the kernel looks at.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_balance_newidle`, `update_newidle_cost`; `kernel/sched/core.c`, `ttwu_do_activate`, `update_avg`;
//! commits c5b0a7eefc70 (5.16), 155213a2aed4 (6.17). differs: caches of more than 32 CPUs that share no cores; the time that locks take and tasks that are moved is not counted; whether
//! anybody waits is known and not remembered until the next round of the machine's domain (`rd->overloaded`). 33cf66d88306, by which domains whose searches are
//! seldom of use are left out at random, came after 6.18.

use super::balance::{self, LEVELS};
use super::imbalance::find_imbalance;
use super::load;
use super::sis_prop;
use crate::config::Config;
use crate::rq::{Cx, Rq};
use crate::step::{Balance, BalanceKind, Imbalance, PairCont, Step};
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration, Instant, Settings};

/// What a CPU remembers of its idle times and of what it looked for then.
#[derive(Debug)]
pub(crate) struct NewIdle {
    /// Since when it looks and idles (`rq->idle_stamp`).
    since: Option<Instant>,
    /// How long it idles (`rq->avg_idle`).
    average: Duration,
    /// What the present search has taken so far.
    spent: Duration,
    costs: [SearchCost; LEVELS.len()],
}

/// What looking through a domain takes at most (`sd->max_newidle_lb_cost`).
#[derive(Clone, Copy, Debug, Default)]
struct SearchCost {
    most: Duration,
    /// When that was forgotten by 1 % last, or was new.
    decayed: Instant,
}

impl NewIdle {
    pub(super) fn new(config: &Config) -> Self {
        let average = config.settings.migration_cost * 2;
        Self { since: None, average, spent: Duration::ZERO, costs: Default::default() }
    }

    /// A task wakes here, the first since the CPU went idle: its idle time joins the average, each with an eighth.
    fn idled(&mut self, for_long: Duration, settings: &Settings) {
        // One long time is to be forgotten soon: twice what a search takes is enough to know.
        let search = self.costs.iter().fold(Duration::ZERO, |sum, cost| sum + cost.most);
        let most = settings.migration_cost.max(search) * 2;
        self.average = follow(self.average, for_long).min(most);
    }

    /// Returns whether looking through this domain too may take longer than the CPU will idle.
    fn is_too_dear(&self, level: usize) -> bool {
        self.average < self.spent + self.costs[level].most
    }

    /// A domain was looked through.
    fn took(&mut self, level: usize, now: Instant, time: Duration) {
        self.spent += time;
        self.costs[level].add(now, time);
    }

    /// Looking through a domain was of no use: with `newidle_cost_bump` that makes it dearer, by half.
    pub(super) fn was_in_vain(&mut self, level: usize, now: Instant, settings: &Settings) {
        if settings.newidle_cost_bump {
            let dearer = self.costs[level].most * 3 / 2;
            self.costs[level].add(now, dearer.min(settings.migration_cost));
        }
    }
}

impl SearchCost {
    fn add(&mut self, now: Instant, time: Duration) {
        if time > self.most {
            *self = Self { most: time, decayed: now };
        } else if now > self.decayed + Duration::from_secs(1) {
            *self = Self { most: self.most * 253 / 256, decayed: now };
        }
    }
}

/// Returns an average that a sample has joined with an eighth. `update_avg`.
pub(super) fn follow(average: Duration, sample: Duration) -> Duration {
    if sample >= average { average + (sample - average) / 8 } else { average - (average - sample) / 8 }
}

/// A task wakes on this CPU. O(1).
#[inline]
pub(crate) fn woken<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>) {
    if let Some(since) = rq.fair.newidle.since.take() {
        rq.fair.newidle.idled(cx.now.wall.since(since), &cx.config.settings);
        sis_prop::idled(cx, rq.cpu, rq.fair.newidle.average);
    }
}

/// A CPU is about to go idle: asks for the pair of run queues to take a task from another.
pub(crate) fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.phantoms(&cx.config.settings) > 0 || rq.is_isolated {
        return Step::Done;
    }
    rq.fair.newidle.since = Some(cx.now.wall);
    rq.fair.newidle.spent = Duration::ZERO;
    rq.fair.balance.pinned.clear();
    let settings = &cx.config.settings;
    if settings.newidle_min_idle && rq.fair.newidle.average < settings.migration_cost {
        return Step::Done;
    }
    search(rq, cx, 0)
}

/// Looks in the domains from a level upwards.
pub(super) fn search<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: usize) -> Step {
    let does_one_wait = cx.view().next_waiting(CpuId(0)).is_some();
    if !does_one_wait && rq.fair.asymmetric.is_none() {
        return Step::Done;
    }
    for (level, (distance, groups)) in LEVELS.into_iter().enumerate().skip(from) {
        let [span, inner] = [distance, groups].map(|distance| cx.config.topology.span(rq.cpu, distance));
        let waits = does_one_wait && waits_in(cx, &span, &inner);
        let has_misfits = rq.fair.asymmetric.as_ref().is_some_and(|uneven| uneven.level <= distance);
        if span == inner || !waits && !has_misfits {
            continue;
        }
        if rq.fair.newidle.is_too_dear(level) {
            break;
        }
        let before = cx.io.costs.cpus_scanned;
        let are_single = cx.config.topology.span(rq.cpu, groups).len() == 1;
        let found = if are_single && !has_misfits && span.len() > LARGEST {
            cx.io.costs.fair_balance += 1;
            busiest_waiting(rq, cx, span, inner).map(|cpu| (cpu, Imbalance::Tasks(1)))
        } else {
            rq.publish(cx); // It compares what is published, of itself too.
            let found = find_imbalance(rq, cx, level, BalanceKind::NewIdle);
            // Not all CPUs had to be looked at, but the kernel looks at all.
            cx.io.costs.cpus_scanned = before + cpus_of_domain(rq, cx, span);
            found.filter(|(_, imbalance)| waits || *imbalance == Imbalance::Misfit)
        };
        let scanned = u64::from(cx.io.costs.cpus_scanned - before);
        rq.fair.newidle.took(level, cx.now.wall, cx.config.scan_cost * scanned);
        if let Some((other, imbalance)) = found {
            let (kind, failed) = (BalanceKind::NewIdle, rq.fair.balance.failed(level));
            let work = Balance { kind, level: level as u8, failed, asker: rq.cpu, imbalance };
            return Step::Pair { own: rq.cpu, other, then: PairCont::Balance(work) };
        }
        rq.fair.newidle.was_in_vain(level, cx.now.wall, &cx.config.settings);
        balance::found_even(rq, cx, level);
    }
    Step::Done
}

/// Returns whether a task waits on a CPU of `span` that is not in `inner`. O(words of the mask).
fn waits_in<L: RawMutex>(cx: &mut Cx<'_, L>, span: &Range<u32>, inner: &Range<u32>) -> bool {
    let mut next = |from| cx.view().next_waiting(CpuId(from)).filter(|cpu| cpu.0 < span.end);
    match next(span.start) {
        Some(cpu) if inner.contains(&cpu.0) => next(inner.end).is_some(),
        first => first.is_some(),
    }
}

/// Returns the number of CPUs of a range that are in the root domain of this one. O(words of the range).
fn cpus_of_domain<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, range: Range<u32>) -> u32 {
    let span = &cx.shared.domain(rq.cpu).span;
    cx.io.observer.u64(|| u64::from(span.count_and(None, range))) as u32
}

/// Finds the CPU with the most load among those of `span`, without `inner`, that have a waiting task.
fn busiest_waiting<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, span: Range<u32>, inner: Range<u32>) -> Option<CpuId> {
    let mut best: Option<(u64, CpuId)> = None;
    let mut from = CpuId(span.start);
    while let Some(cpu) = cx.view().next_waiting(from).filter(|cpu| cpu.0 < span.end) {
        from = CpuId(cpu.0 + 1);
        if inner.contains(&cpu.0) || !cx.view().is_in_domain_of(rq.cpu, cpu) || rq.fair.balance.pinned.contains(&cpu) {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        let load = load::of_cpu(cx, cpu).load;
        if best.is_none_or(|(most, _)| load > most) {
            best = Some((load, cpu));
        }
    }
    best.map(|(_, cpu)| cpu)
}

/// A task was taken: the CPU does not go idle.
pub(super) fn found(rq: &mut Rq) {
    rq.fair.newidle.since = None;
}

/// In a cache of more CPUs that share no cores groups are not compared.
const LARGEST: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Topology;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn new(settings: &Settings) -> NewIdle {
        NewIdle::new(&Config::new(Topology::flat(2).expect("2 CPUs"), settings.clone()))
    }

    #[test]
    fn idle_times_are_averaged_up_to_twice_the_migration_cost() {
        let settings = Settings::default();
        let mut cpu = new(&settings);
        assert_eq!(cpu.average, us(1_000));
        cpu.idled(us(200), &settings);
        assert_eq!(cpu.average, us(900));
        cpu.idled(us(100_000), &settings);
        assert_eq!(cpu.average, us(1_000));
        for _ in 0..200 {
            cpu.idled(us(20), &settings);
        }
        assert!(cpu.average <= us(21), "{}", cpu.average);
    }

    #[test]
    fn a_domain_is_too_dear_together_with_those_before_it() {
        let settings = Settings::default();
        let mut cpu = new(&settings);
        let now = Instant::ZERO + us(5);
        cpu.took(0, now, us(600));
        cpu.took(1, now, us(600));
        cpu.spent = Duration::ZERO;
        assert!(!cpu.is_too_dear(0) && !cpu.is_too_dear(1));
        cpu.spent = us(600);
        assert!(cpu.is_too_dear(1));
    }

    #[test]
    fn what_a_search_took_is_forgotten_by_a_percent_a_second() {
        let mut cost = SearchCost::default();
        cost.add(Instant::ZERO + us(1), us(256));
        cost.add(Instant::ZERO + us(900_000), us(1));
        assert_eq!(cost.most, us(256));
        cost.add(Instant::ZERO + us(1_100_000), us(1));
        assert_eq!(cost.most, us(253));
        cost.add(Instant::ZERO + us(1_200_000), us(300));
        assert_eq!(cost.most, us(300));
    }

    #[test]
    fn a_search_in_vain_gets_dearer_up_to_the_migration_cost() {
        let settings = Settings { newidle_cost_bump: true, ..Settings::default() };
        let mut cpu = new(&settings);
        let now = Instant::ZERO + us(5);
        cpu.took(0, now, us(300));
        cpu.was_in_vain(0, now, &settings);
        assert_eq!(cpu.costs[0].most, us(450));
        cpu.was_in_vain(0, now, &settings);
        assert_eq!(cpu.costs[0].most, us(500));
    }
}
