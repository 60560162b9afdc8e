//! [`Pressure`]: pressure stall information of the CPU (`cpu.pressure`), of groups and the machine.
//!
//! A group stalls on a CPU while a task of it or of the groups below waits there:
//!
//! | state of a group on a CPU | when |
//! |---|---|
//! | `some` | more of its tasks are runnable there than run |
//! | `full` | some are runnable there, and none runs |
//! | not idle | some are runnable there |
//!
//! A throttled task is runnable: throttling is `some`, and `full` if no task of the group runs on
//! that CPU. The machine has no `full`: a CPU with runnable tasks runs one.
//!
//! The kernel follows the states per CPU and adds the CPUs up every 2 s and a tick, and when the
//! file is read. A CPU then counts by the ticks for which it was not idle, so one busy
//! CPU of many shows as much as all of them: `total` is in time of the wall. The averages decay by
//! fixed-point factors at each of these samples, from whole percents.
//!
//! ```text
//!  total += sum(stalled[cpu] * ticks[cpu]) / max(sum(ticks[cpu]), 1)
//!  avg    = avg * e + percent * (1 - e)        e = 1677, 1981, 2034 of 2048
//! ```
//!
//! Cost: O(depth) per change of a task's state, O(groups x CPUs) per 2 s; nothing if it is not
//! asked for.
//!
//! Sources: Linux v6.18 `kernel/sched/psi.c`, `test_state`, `psi_group_change`,
//! `collect_percpu_times`, `update_averages`, `calc_avgs`, `psi_show`;
//! `include/linux/sched/loadavg.h`, `calc_load`. `full` of the CPU is there since 5.13, for groups
//! only since 5.18. differs: samples are taken exactly every 2 s and a tick from the creation of
//! the group, and also while it idles, where the kernel's worker is up to a tick late, and catches
//! up on idle periods in one; a blocked task that waits for a lock by proxy execution is not
//! runnable.

use crate::summary::{PressureLine, PressureSummary};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{CpuId, Duration, GroupId, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{Replay, TaskState};
use zerolag_trace::{IdTable, Meta};

/// The decay of the averages over 10, 60 and 300 s per sample, in 1/2048.
const DECAY: [u64; 3] = [1677, 1981, 2034];
/// One, of the averages.
const FIXED_1: u64 = 2048;

/// Follows a run for the pressure of groups and of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Pressure {
    is_on: bool,
    nr_cpus: usize,
    tick: Duration,
    groups: Groups,
    tasks: IdTable<TaskId, Place>,
    /// The groups; the root is the machine.
    stalls: BTreeMap<GroupId, Stalls>,
    /// The next sample of any group.
    next: Instant,
}

/// Where a task counts.
#[derive(Clone, Debug, Default)]
struct Place {
    on: Option<CpuId>,
    runs: bool,
    groups: Arc<[GroupId]>,
}

/// A group.
#[derive(Clone, Debug)]
struct Stalls {
    cpus: Vec<OnCpu>,
    next: Instant,
    some: Sampled,
    full: Sampled,
}

/// A group on a CPU.
#[derive(Clone, Copy, Debug)]
struct OnCpu {
    runnable: u32,
    running: u32,
    since: Instant,
    some: Duration,
    full: Duration,
    not_idle: Duration,
}

/// A state that is sampled: its time, that of the last sample, and the averages.
#[derive(Clone, Copy, Debug, Default)]
struct Sampled {
    total: Duration,
    sampled: Duration,
    averages: [u64; 3],
}

impl OnCpu {
    const fn new(now: Instant) -> Self {
        let none = Duration::ZERO;
        Self { runnable: 0, running: 0, since: now, some: none, full: none, not_idle: none }
    }

    /// Counts the time until now.
    fn advance(&mut self, now: Instant) {
        let time = now.since(self.since);
        self.since = now;
        if self.runnable > 0 {
            self.not_idle = self.not_idle.saturating_add(time);
        }
        if self.runnable > self.running {
            self.some = self.some.saturating_add(time);
        }
        if self.runnable > 0 && self.running == 0 {
            self.full = self.full.saturating_add(time);
        }
    }
}

impl Sampled {
    /// Decays the averages with what was added since the last sample, at most the period.
    fn sample(&mut self, period: Duration) {
        let sample = self.total.saturating_sub(self.sampled).min(period);
        self.sampled = self.sampled.saturating_add(sample);
        let percent = sample.as_nanos() * 100 / period.as_nanos().max(1) * FIXED_1;
        for (average, decay) in self.averages.iter_mut().zip(DECAY) {
            let up = if percent >= *average { FIXED_1 - 1 } else { 0 };
            *average = (*average * decay + percent * (FIXED_1 - decay) + up) / FIXED_1;
        }
    }

    /// Returns it as the file has it, in millionths instead of percent.
    fn line(&self) -> PressureLine {
        // Hundredths of a percent are cut, as the kernel prints them.
        let [avg10, avg60, avg300] =
            self.averages.map(|average| average / FIXED_1 * 10_000 + average % FIXED_1 * 100 / FIXED_1 * 100);
        PressureLine { total: self.total, avg10, avg60, avg300 }
    }
}

impl Stalls {
    fn new(nr_cpus: usize, now: Instant, period: Duration) -> Self {
        let cpus = vec![OnCpu::new(now); nr_cpus];
        Self { cpus, next: now.saturating_add(period), some: Sampled::default(), full: Sampled::default() }
    }

    /// Adds the CPUs up (`collect_percpu_times`).
    fn collect(&mut self, now: Instant, tick: Duration) {
        let (mut some, mut full, mut ticks) = (0_u128, 0_u128, 0_u128);
        for cpu in &mut self.cpus {
            cpu.advance(now);
            let weight = u128::from(cpu.not_idle.as_nanos() / tick.as_nanos().max(1));
            some += u128::from(cpu.some.as_nanos()) * weight;
            full += u128::from(cpu.full.as_nanos()) * weight;
            ticks += weight;
            (cpu.some, cpu.full, cpu.not_idle) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        }
        let mean = |sum: u128| Duration::from_nanos(u64::try_from(sum / ticks.max(1)).unwrap_or(u64::MAX));
        self.some.total = self.some.total.saturating_add(mean(some));
        self.full.total = self.full.total.saturating_add(mean(full));
    }
}

impl Pressure {
    /// Starts before the first record; `is_wanted` says whether there is anything to do.
    pub(crate) fn new(meta: &Meta, is_wanted: bool) -> Self {
        let nr_cpus = meta.machine.nr_cpus();
        let hz = meta.setting("hz").and_then(|hz| hz.parse().ok()).unwrap_or(250_u64).max(1);
        let mut new = Self {
            is_on: is_wanted && meta.source.is_complete(),
            nr_cpus,
            tick: Duration::from_nanos(1_000_000_000 / hz),
            groups: Groups::new(meta.setting("throttle")),
            tasks: IdTable::default(),
            stalls: BTreeMap::new(),
            next: Instant::FAR_FUTURE,
        };
        if new.is_on {
            new.add(GroupId::ROOT, meta.start);
        }
        new
    }

    /// The distance of samples: 2 s and a tick (`PSI_FREQ`).
    fn period(&self) -> Duration {
        Duration::from_secs(2).saturating_add(self.tick)
    }

    fn add(&mut self, group: GroupId, now: Instant) {
        let stalls = Stalls::new(self.nr_cpus, now, self.period());
        self.next = self.next.min(stalls.next);
        self.stalls.insert(group, stalls);
    }

    /// Takes the samples that are due.
    #[cold]
    fn sample(&mut self, now: Instant) {
        let (tick, period) = (self.tick, self.period());
        for stalls in self.stalls.values_mut() {
            while stalls.next <= now {
                stalls.collect(stalls.next, tick);
                stalls.some.sample(period);
                stalls.full.sample(period);
                stalls.next = stalls.next.saturating_add(period);
            }
        }
        self.next = self.stalls.values().map(|stalls| stalls.next).min().unwrap_or(Instant::FAR_FUTURE);
    }

    /// Follows a record that the replay has followed.
    pub(crate) fn follow(&mut self, record: &Record, replay: &Replay) {
        if !self.is_on {
            return;
        }
        if self.next <= record.at {
            self.sample(record.at);
        }
        match &record.event {
            TraceEvent::GroupNew { group, .. } => {
                self.groups.apply(record);
                self.add(*group, record.at);
            }
            TraceEvent::GroupGone { .. } => self.groups.apply(record),
            TraceEvent::TaskNew { task, .. } | TraceEvent::GroupChange { task, .. } => {
                self.groups.apply(record);
                self.sync(*task, replay, record.at);
            }
            TraceEvent::Waking { task, .. }
            | TraceEvent::Wakeup { task, .. }
            | TraceEvent::Migrate { task, .. }
            | TraceEvent::TaskExit { task } => self.sync(*task, replay, record.at),
            TraceEvent::Switch { prev, next, .. } => {
                for task in [prev, next].into_iter().flatten() {
                    self.sync(*task, replay, record.at);
                }
            }
            // No other event makes a task run or wait.
            _ => {}
        }
    }

    /// Counts a task where it is now.
    fn sync(&mut self, task: TaskId, replay: &Replay, now: Instant) {
        let view = replay.task(task);
        let (on, runs) = match view.map(|view| (view.state, view.rq)) {
            Some((TaskState::Running { on, .. }, _)) => (Some(on), true),
            Some((TaskState::Queued { .. }, rq)) => (rq, false),
            _ => (None, false),
        };
        let on = on.filter(|cpu| cpu.index() < self.nr_cpus);
        let groups: Arc<[GroupId]> = match on {
            Some(_) => self.groups.path(task).chain([GroupId::ROOT]).collect(),
            None => Arc::default(),
        };
        let new = Place { on, runs, groups };
        let old = std::mem::replace(self.tasks.entry(task), new.clone());
        if (old.on, old.runs, &old.groups) == (new.on, new.runs, &new.groups) {
            return;
        }
        self.count(&old, now, u32::wrapping_sub);
        self.count(&new, now, u32::wrapping_add);
    }

    fn count(&mut self, place: &Place, now: Instant, change: fn(u32, u32) -> u32) {
        let Some(cpu) = place.on else { return };
        for group in &*place.groups {
            let Some(on_cpu) = self.stalls.get_mut(group).and_then(|stalls| stalls.cpus.get_mut(cpu.index())) else {
                continue;
            };
            on_cpu.advance(now);
            on_cpu.runnable = change(on_cpu.runnable, 1);
            on_cpu.running = change(on_cpu.running, u32::from(place.runs));
        }
    }

    /// Reads all files at the end.
    pub(crate) fn close(&mut self, end: Instant) {
        if !self.is_on {
            return;
        }
        self.sample(end);
        for stalls in self.stalls.values_mut() {
            stalls.collect(end, self.tick);
        }
    }

    /// Returns the pressure of a group, or of the machine; none if it was not followed.
    pub(crate) fn of(&self, group: GroupId) -> Option<PressureSummary> {
        let stalls = self.stalls.get(&group)?;
        let full = if group == GroupId::ROOT { PressureLine::default() } else { stalls.full.line() };
        Some(PressureSummary { some: stalls.some.line(), full })
    }
}
