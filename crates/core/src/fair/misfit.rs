//! Machines whose CPUs differ in capacity: how much a task needs, which CPU has that, and what moves a task that needs more.
//!
//! A task *fits* a CPU if its util is below 1024/1280 of what the CPU has left for fair tasks. One that runs where it does not fit,
//! and may use a stronger CPU, is a *misfit*: its CPU publishes the task's load, and balancing moves it to a CPU that has more, while it
//! runs if need be. A waking task looks for an idle CPU where it fits, in the whole domain that spans all capacities; if there
//! is none, for the strongest idle one.
//!
//! Util is *invariant*: averages pass on a clock that is slowed down while a weak CPU runs something, by its capacity. So util says what
//! a task would use of the strongest CPU. When the CPU idles, the clock catches up; it stays behind if the CPU was busy all along,
//! since nobody can say then what was missed.
//!
//! ```text
//!   averages' clock = task clock - lag
//!   runs something:  lag grows by (1024 - capacity) / 1024 of the time
//!   begins to idle:  lag = lost, unless util is full: lost = lag
//! ```
//!
//! How much a task needs is the most of its util and of an *estimate*: its util when it went to sleep, of late ([`Estimate`]).
//!
//! None of this is done on machines whose CPUs are equal, or without load tracking.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `fits_capacity`, `update_misfit_status`, `select_idle_capacity`, `asym_fits_cpu`,
//! `util_est_update`; `kernel/sched/pelt.h`, `update_rq_clock_pelt`, `update_idle_rq_clock_pelt`. differs: no uclamp, no energy model, so
//! nobody packs tasks while the machine is not overutilised; frequencies are not modelled.

use super::balance::FULL_CAPACITY;
use super::entity::EntityRef;
use super::pelt;
use super::queue::QueueIx;
use super::{FairRq, capacity, select, task_load};
use crate::config::Config;
use crate::rq::{Cx, Rq};
use crate::slab::Slot;
use crate::task::Task;
use lock_api::RawMutex;
use zerolag_model::{ClassId, CpuId, CpuMask, Distance, Duration, Instant};

/// What a CPU of an asymmetric machine keeps.
#[derive(Debug)]
pub(crate) struct Asymmetric {
    /// The least domain that spans all capacities.
    pub(super) level: Distance,
    /// Of this CPU.
    capacity: u64,
    /// Up to when `lag` is counted, on the task clock.
    at: Instant,
    lag: Duration,
    lost: Duration,
    runs: bool,
    /// The load of the task that runs here and does not fit; 0 without.
    misfit: u64,
}

impl Asymmetric {
    /// Returns what a CPU keeps; `None` on a machine whose CPUs are equal.
    pub(super) fn new(config: &Config, cpu: CpuId) -> Option<Self> {
        let level = config.topology.asymmetry()?;
        Some(Self {
            level,
            capacity: u64::from(config.topology.capacity(cpu)),
            at: Instant::ZERO,
            lag: Duration::ZERO,
            lost: Duration::ZERO,
            runs: false,
            misfit: 0,
        })
    }

    /// Returns how far the averages' clock is behind.
    fn lag(&self, now: Instant) -> Duration {
        if !self.runs {
            return self.lag;
        }
        self.lag + now.since(self.at).mul_div_floor(FULL_CAPACITY - self.capacity, FULL_CAPACITY)
    }

    #[cold]
    fn averages_clock(&self, now: Instant) -> Instant {
        Instant::ZERO + now.since(Instant::ZERO).saturating_sub(self.lag(now))
    }

    /// The CPU runs something from now on, or nothing. `is_full`: whether its util says that it has not idled.
    fn switched(&mut self, now: Instant, runs: bool, is_full: bool) {
        self.lag = self.lag(now);
        self.at = now;
        if self.runs && !runs {
            if is_full {
                self.lost = self.lag;
            } else {
                self.lag = self.lost;
            }
        }
        self.runs = runs;
    }
}

/// What a task has needed of late, kept while its util decays: `util_est`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Estimate(u32);

impl Estimate {
    /// Returns the estimate after a turn that ended with these averages of util and of wanting to run: up at once, down by a quarter of the difference, and not at
    /// all if it waited much. `util_est_update`.
    pub(crate) fn after(self, util: u64, runnable: u64) -> Self {
        const MARGIN: u64 = 10; // 1 % of 1024.
        let old = u64::from(self.0);
        if old <= util {
            return Self(util as u32);
        }
        let less = old - util;
        if less < MARGIN || util + MARGIN < runnable {
            return self;
        }
        Self(((old * 4 - less) / 4) as u32)
    }

    /// Returns what a task needs whose util is this.
    fn at_least(self, util: u64) -> u64 {
        util.max(u64::from(self.0))
    }
}

impl FairRq {
    /// Returns the capacity of this CPU.
    pub(super) fn full_capacity(&self) -> u64 {
        self.asymmetric.as_ref().map_or(FULL_CAPACITY, |uneven| uneven.capacity)
    }
}

impl Rq {
    /// Returns the clock of averages.
    #[inline]
    pub(super) fn averages_clock(&self) -> Instant {
        match &self.fair.asymmetric {
            None => self.clock.task,
            Some(uneven) => uneven.averages_clock(self.clock.task),
        }
    }
}

/// Returns whether a task of this util fits a CPU that has so much left: a fifth is kept in reserve. `fits_capacity`.
pub(super) const fn fits(util: u64, left: u64) -> bool {
    util * 1280 < left * 1024
}

/// Returns whether a capacity is noticeably more than another: by 5 %. `capacity_greater`.
pub(super) const fn is_more(one: u64, other: u64) -> bool {
    one * 1024 > other * 1078
}

/// Returns what a task that is not queued needs; `None` where it does not matter, because CPUs are equal.
pub(super) fn need<L: RawMutex>(cx: &Cx<'_, L>, task: &Task) -> Option<u64> {
    cx.config.topology.asymmetry()?;
    if !cx.config.settings.tracks_load() {
        return None;
    }
    let slept = cx.now.wall.since(task.last_ran);
    let average = &task.fair.average;
    let util = pelt::decay(average.util, pelt::periods(slept));
    Some(task.fair.estimate.after(average.util, average.runnable).at_least(util))
}

/// Returns whether a task that needs this fits a CPU; every task does where CPUs are equal.
pub(super) fn fits_cpu<L: RawMutex>(cx: &mut Cx<'_, L>, need: Option<u64>, cpu: CpuId) -> bool {
    need.is_none_or(|util| fits(util, capacity::of_cpu(cx, cpu)))
}

/// Returns what a queued task needs, as of when it was last looked at. `task_util_est`.
pub(super) fn util_of(task: &Task) -> u64 {
    task.fair.estimate.at_least(task.fair.average.util)
}

/// Returns whether a queued task fits the CPU whose queue it is on.
pub(super) fn fits_here<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let q = rq.tasks[slot].fair.queue;
    rq.age_queue(q);
    rq.age_entity(q, EntityRef::Task(slot));
    fits(util_of(&rq.tasks[slot]), capacity::of_cpu(cx, rq.cpu))
}

/// Finds an idle CPU for a waking task, upwards from the target and around in the domain that spans all capacities: the first where it
/// fits, else the strongest. O(idle CPUs of the domain). `select_idle_capacity`.
pub(super) fn select_idle<L: RawMutex>(cx: &mut Cx<'_, L>, task: &Task, target: CpuId, need: u64) -> CpuId {
    let level = cx.config.topology.asymmetry().unwrap_or(Distance::Llc);
    let span = cx.config.topology.span(target, level);
    let mut best: Option<(u64, CpuId)> = None;
    for part in [target.0..span.end, span.start..target.0] {
        for cpu in part.map(CpuId) {
            let may_use = task.may_run_on(cpu) && !cx.config.isolates(cpu) && cx.view().is_online(cpu);
            if !may_use || !select::is_idle_for(cx, task, cpu) {
                continue;
            }
            let left = capacity::of_cpu(cx, cpu);
            if fits(need, left) {
                return cpu;
            }
            if best.is_none_or(|(most, _)| left > most) {
                best = Some((left, cpu));
            }
        }
    }
    best.map_or(target, |(_, cpu)| cpu)
}

/// The CPU runs another task, or none.
#[cold]
pub(super) fn switched<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (now, runs) = (rq.clock.task, rq.current.is_some());
    let util = rq.queue(QueueIx::ROOT).average.util + rq.fair.pressure.above_util();
    if let Some(uneven) = &mut rq.fair.asymmetric {
        uneven.switched(now, runs, util >= FULL_CAPACITY - 1);
    }
    update(rq, cx);
}

/// Says whether what runs here fits. O(1); O(CPUs) for a task that does not.
pub(super) fn update<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let current = rq.current;
    let misfit = match current {
        Some(slot) if rq.current_class() == ClassId::Fair && !fits_here(rq, cx, slot) => {
            let may_go = has_stronger(cx, rq.cpu, rq.tasks[slot].allowed.as_deref());
            if may_go { task_load(rq, slot).max(1) } else { 0 }
        }
        Some(_) | None => 0,
    };
    let Some(uneven) = &mut rq.fair.asymmetric else { return };
    if uneven.misfit != misfit {
        uneven.misfit = misfit;
        cx.shared.publish_misfit(rq.cpu, misfit);
    }
}

/// Returns whether the machine has a stronger CPU that balancing may move a task to: none that is isolated (`asym_cpu_capacity_scan`).
fn has_stronger<L: RawMutex>(cx: &Cx<'_, L>, cpu: CpuId, allowed: Option<&CpuMask>) -> bool {
    let topology = &cx.config.topology;
    let own = topology.capacity(cpu);
    let may_go = |other| !cx.config.isolates(other) && allowed.is_none_or(|mask| mask.contains(other));
    topology.cpus().any(|other| topology.capacity(other) > own && may_go(other))
}

/// A task runs here that does not fit: returns the lowest idle CPU that has more to give, to be woken. O(idle CPUs).
pub(super) fn find_stronger<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) -> Option<CpuId> {
    if rq.fair.asymmetric.as_ref().is_none_or(|uneven| uneven.misfit == 0) {
        return None;
    }
    let own = capacity::of_cpu(cx, rq.cpu);
    let mut from = CpuId(0);
    while let Some(cpu) = cx.view().next_idle_in_domain(rq.cpu, from) {
        cx.io.costs.cpus_scanned += 1;
        if is_more(capacity::of_cpu(cx, cpu), own) {
            return Some(cpu);
        }
        from = CpuId(cpu.0 + 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uneven(capacity: u64) -> Asymmetric {
        let (at, lag) = (Instant::ZERO, Duration::ZERO);
        Asymmetric { level: Distance::Llc, capacity, at, lag, lost: lag, runs: false, misfit: 0 }
    }

    fn ms(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn the_clock_is_slow_while_a_weak_cpu_runs_and_catches_up_when_it_idles() {
        let mut half = uneven(512);
        half.switched(ms(0), true, false);
        assert_eq!(half.lag(ms(10)), Duration::from_millis(5));
        half.switched(ms(10), false, false);
        assert_eq!(half.lag(ms(12)), Duration::ZERO);
    }

    #[test]
    fn what_a_full_cpu_was_behind_is_lost() {
        let mut half = uneven(512);
        half.switched(ms(0), true, false);
        half.switched(ms(10), false, true);
        assert_eq!(half.lag(ms(20)), Duration::from_millis(5));
        half.switched(ms(20), true, false);
        half.switched(ms(30), false, false);
        assert_eq!(half.lag(ms(40)), Duration::from_millis(5), "what was lost stays lost");
    }

    #[test]
    fn a_strong_cpu_is_never_behind() {
        let mut full = uneven(1024);
        full.switched(ms(0), true, false);
        assert_eq!(full.lag(ms(1000)), Duration::ZERO);
    }

    #[test]
    fn an_estimate_goes_up_at_once_and_down_by_quarters() {
        let up = Estimate::default().after(400, 400);
        assert_eq!(up, Estimate(400));
        assert_eq!(up.after(200, 200), Estimate(350));
        assert_eq!(up.after(200, 300), Estimate(400), "it waited: that it ran less says nothing");
        assert_eq!(up.after(395, 395), Estimate(400), "1 % is nothing");
    }

    #[test]
    fn a_fifth_is_kept_in_reserve() {
        assert!(fits(818, 1024));
        assert!(!fits(820, 1024));
        assert!(is_more(1024, 972));
        assert!(!is_more(1024, 973));
    }
}
