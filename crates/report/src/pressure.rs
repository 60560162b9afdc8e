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
//! Triggers ([`PressureTrigger`]) have sums of their own ([`Watch`]), from the first stall on every
//! tenth of the shortest window; those of users without CAP_SYS_RESOURCE the sums of the averages.
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
use crate::watch::Watch;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{CpuId, Duration, GroupId, Instant, PressureTrigger, Record, Stall, TaskId, TraceEvent};
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
    start: Instant,
    tick: Duration,
    /// The triggers, by the path of their group.
    triggers: Vec<(Arc<str>, PressureTrigger)>,
    groups: Groups,
    tasks: IdTable<TaskId, Place>,
    /// The groups; the root is the machine.
    stalls: BTreeMap<GroupId, Stalls>,
    /// The next sample or look at triggers of any group.
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
    /// Its triggers, if it has some.
    watch: Option<Box<Watch>>,
}

/// A group on a CPU.
#[derive(Clone, Copy, Debug)]
struct OnCpu {
    runnable: u32,
    running: u32,
    since: Instant,
    times: Times,
    /// The times since triggers were looked at.
    polled: Times,
}

/// How long a group was in its states on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
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
        let none = Times { some: Duration::ZERO, full: Duration::ZERO, not_idle: Duration::ZERO };
        Self { runnable: 0, running: 0, since: now, times: none, polled: none }
    }

    const fn is_in(&self, stall: Stall) -> bool {
        match stall {
            Stall::Some => self.runnable > self.running,
            Stall::Full => self.runnable > 0 && self.running == 0,
        }
    }

    /// Counts the time until now.
    fn advance(&mut self, now: Instant) {
        let time = now.since(self.since);
        self.since = now;
        let (some, full) = (self.is_in(Stall::Some), self.is_in(Stall::Full));
        for times in [&mut self.times, &mut self.polled] {
            if self.runnable > 0 {
                times.not_idle = times.not_idle.saturating_add(time);
            }
            if some {
                times.some = times.some.saturating_add(time);
            }
            if full {
                times.full = times.full.saturating_add(time);
            }
        }
    }
}

/// Adds CPUs up, each by the ticks for which it was not idle: how long the group was in `some` and
/// in `full` (`collect_percpu_times`).
fn add_up(cpus: impl Iterator<Item = Times>, tick: Duration) -> [Duration; 2] {
    let (mut some, mut full, mut ticks) = (0_u128, 0_u128, 0_u128);
    for times in cpus {
        let weight = u128::from(times.not_idle.as_nanos() / tick.as_nanos().max(1));
        some += u128::from(times.some.as_nanos()) * weight;
        full += u128::from(times.full.as_nanos()) * weight;
        ticks += weight;
    }
    [some, full].map(|sum| Duration::from_nanos(u64::try_from(sum / ticks.max(1)).unwrap_or(u64::MAX)))
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
        PressureLine { total: self.total, avg10, avg60, avg300, fired: None }
    }
}

impl Stalls {
    fn new(nr_cpus: usize, now: Instant, period: Duration, watch: Option<Box<Watch>>) -> Self {
        let cpus = vec![OnCpu::new(now); nr_cpus];
        Self { cpus, next: now.saturating_add(period), some: Sampled::default(), full: Sampled::default(), watch }
    }

    /// Adds the CPUs up.
    fn collect(&mut self, now: Instant, tick: Duration) {
        let times = self.cpus.iter_mut().map(|cpu| {
            cpu.advance(now);
            core::mem::take(&mut cpu.times)
        });
        let [some, full] = add_up(times, tick);
        self.some.total = self.some.total.saturating_add(some);
        self.full.total = self.full.total.saturating_add(full);
    }

    /// Adds the CPUs up for the triggers, and looks at these.
    fn poll(&mut self, now: Instant, start: Instant, tick: Duration) {
        let Some(watch) = &mut self.watch else { return };
        let mut stalled = [false; 2];
        let times = self.cpus.iter_mut().map(|cpu| {
            cpu.advance(now);
            let times = core::mem::take(&mut cpu.polled);
            stalled[0] |= !times.some.is_zero();
            stalled[1] |= !times.full.is_zero();
            times
        });
        let grown = add_up(times, tick);
        watch.poll(now, grown, stalled, (start, tick));
    }

    /// Returns when there is something to do without an event.
    fn due(&self) -> Instant {
        self.next.min(self.watch.as_ref().map_or(Instant::FAR_FUTURE, |watch| watch.due()))
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
            start: meta.start,
            tick: Duration::from_nanos(1_000_000_000 / hz),
            triggers: Vec::new(),
            groups: Groups::new(meta.setting("throttle")),
            tasks: IdTable::default(),
            stalls: BTreeMap::new(),
            next: Instant::FAR_FUTURE,
        };
        if new.is_on {
            new.add(GroupId::ROOT, "/", meta.start);
        }
        new
    }

    /// Watches triggers, each on the group of a path; that of the machine is `/`. Called before the
    /// first record.
    pub(crate) fn watching(mut self, triggers: Vec<(Arc<str>, PressureTrigger)>) -> Self {
        self.triggers = triggers;
        if self.is_on {
            self.add(GroupId::ROOT, "/", self.start);
        }
        self
    }

    /// The distance of samples: 2 s and a tick (`PSI_FREQ`).
    fn period(&self) -> Duration {
        Duration::from_secs(2).saturating_add(self.tick)
    }

    fn add(&mut self, group: GroupId, path: &str, now: Instant) {
        let triggers = self.triggers.iter().filter(|(of, _)| **of == *path).map(|(_, trigger)| *trigger);
        let stalls = Stalls::new(self.nr_cpus, now, self.period(), Watch::new(now, triggers));
        self.next = self.next.min(stalls.next);
        self.stalls.insert(group, stalls);
    }

    /// Takes the samples that are due, and looks at triggers.
    #[cold]
    fn sample(&mut self, now: Instant) {
        let (tick, period) = (self.tick, self.period());
        for stalls in self.stalls.values_mut() {
            while stalls.due() <= now {
                let at = stalls.due();
                if stalls.next == at {
                    stalls.collect(at, tick);
                    let (some, full) = (&stalls.some, &stalls.full);
                    if let Some(watch) = &mut stalls.watch {
                        watch.average(at, [some.total, full.total], [some.sampled, full.sampled]);
                    }
                    stalls.some.sample(period);
                    stalls.full.sample(period);
                    stalls.next = at.saturating_add(period);
                } else {
                    stalls.poll(at, self.start, tick);
                }
            }
        }
        self.next = self.stalls.values().map(Stalls::due).min().unwrap_or(Instant::FAR_FUTURE);
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
            TraceEvent::GroupNew { group, path, .. } => {
                self.groups.apply(record);
                self.add(*group, path, record.at);
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
        if !self.triggers.is_empty() {
            self.arm(&old, now);
            self.arm(&new, now);
        }
    }

    /// Sees that the triggers of groups that stall are looked at (`psi_schedule_rtpoll_work`).
    fn arm(&mut self, place: &Place, now: Instant) {
        let Some(cpu) = place.on else { return };
        for group in &*place.groups {
            let Some(stalls) = self.stalls.get_mut(group) else { continue };
            let Some((watch, on_cpu)) = stalls.watch.as_mut().zip(stalls.cpus.get(cpu.index())) else { continue };
            if watch.stalls().any(|stall| on_cpu.is_in(stall)) {
                self.next = self.next.min(watch.arm(now, (self.start, self.tick)));
            }
        }
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
        let fired = |stall| stalls.watch.as_ref().and_then(|watch| watch.fired(stall, self.start));
        let some = PressureLine { fired: fired(Stall::Some), ..stalls.some.line() };
        Some(PressureSummary { some, full: PressureLine { fired: fired(Stall::Full), ..full } })
    }
}
