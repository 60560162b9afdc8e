//! [`Measure`]: figures of a run between two instants, from its records.

use super::distance::Of;
use super::names::named;
use super::sequence::Sequence;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag_model::event::MigrateReason;
use zerolag_model::{CpuId, Duration, GroupId, Instant, PrevState, Record, TaskId, TraceEvent};
use zerolag_report::figure::{Figure, P50, P99, Quantity};
use zerolag_sim::Sink;

/// Figures between two instants. Memory: O(tasks + groups x CPUs + wakeups + turns).
#[derive(Clone, Debug)]
pub struct Measure {
    from: Instant,
    to: Instant,
    tasks: BTreeMap<TaskId, MeasuredTask>,
    groups: BTreeMap<GroupId, MeasuredGroup>,
    /// The tasks that are not measured.
    others: BTreeSet<String>,
    /// The turn of each CPU's current task.
    running: Vec<Option<OpenTurn>>,
    /// The turn of the task that a task which is not measured has preempted, of each CPU. If it
    /// goes on afterwards, its turn does.
    interrupted: Vec<Option<OpenTurn>>,
    migrations: u64,
    /// Migrations by kind, in the order of [`MOVES`].
    moves: [u64; MOVES.len()],
    sequence: Sequence,
}

#[derive(Clone, Copy, Debug)]
struct OpenTurn {
    task: TaskId,
    began: Instant,
    /// What has been measured of it before the last interruption.
    so_far: Duration,
    since: Instant,
}

#[derive(Clone, Debug)]
struct MeasuredTask {
    name: Arc<str>,
    group: GroupId,
    run: Duration,
    /// Turns on a CPU that ended in the window.
    turns: u64,
    /// The time of its wakeup, until it runs.
    woken: Option<Instant>,
    /// Times from waking to running, of the wakings in the window.
    delays: Vec<Duration>,
    /// The lengths of turns that began and ended in the window.
    lengths: Vec<Duration>,
}

/// What moved a task, as the trace of a kernel tells it: `Periodic` is told apart by the CPU that
/// did it.
const MOVES: [(&str, MigrateReason); 7] = [
    ("wakeup", MigrateReason::Wakeup),
    ("newidle", MigrateReason::NewIdle),
    ("tick", MigrateReason::Periodic),
    (NOHZ, MigrateReason::Periodic),
    ("active", MigrateReason::Active),
    ("push", MigrateReason::Push),
    ("pull", MigrateReason::Pull),
];
/// A balancer that works for another CPU, an idle one.
const NOHZ: &str = "nohz";

#[derive(Clone, Debug)]
struct MeasuredGroup {
    path: Arc<str>,
    parent: GroupId,
    run: Duration,
    nr_periods: u64,
    nr_throttled: u64,
    throttled: Duration,
    /// The CPUs where it is throttled, and since when.
    since: BTreeMap<CpuId, Instant>,
}

impl Measure {
    /// Starts a measurement of a window.
    #[must_use]
    pub fn between(from: Instant, window: Duration) -> Self {
        Self {
            from,
            to: from + window,
            tasks: BTreeMap::new(),
            groups: BTreeMap::new(),
            others: BTreeSet::new(),
            running: Vec::new(),
            interrupted: Vec::new(),
            migrations: 0,
            moves: [0; MOVES.len()],
            sequence: Sequence::default(),
        }
    }

    /// Leaves tasks out: they have no figures, and a turn that they interrupt is one turn.
    #[must_use]
    pub fn without<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.others.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Ends the open turns.
    pub fn finish(&mut self, end: Instant) {
        for cpu in 0..self.running.len() {
            let turns = [self.stop(cpu, end), self.interrupted[cpu].take()];
            turns.into_iter().flatten().for_each(|turn| self.end(cpu, turn, end));
        }
        for group in self.groups.keys().copied().collect::<Vec<_>>() {
            for cpu in self.groups[&group].since.keys().copied().collect::<Vec<_>>() {
                self.unthrottle(group, cpu, end);
            }
        }
    }

    /// Returns the sequence of turns on CPU 0, from the window's start to the end of the run, each
    /// turn that began in it. On a machine with several CPUs it has little meaning.
    #[must_use]
    pub const fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    fn within(&self, since: Instant, until: Instant) -> Duration {
        until.min(self.to).since(since.max(self.from))
    }

    /// Charges the current task of a CPU, and returns its turn.
    fn stop(&mut self, cpu: usize, at: Instant) -> Option<OpenTurn> {
        let mut turn = self.running[cpu].take()?;
        let run = self.within(turn.since, at);
        let task = self.tasks.get_mut(&turn.task)?;
        task.run += run;
        turn.so_far += at.since(turn.since);
        let mut above = Some(task.group);
        while let Some(group) = above.and_then(|group| self.groups.get_mut(&group)) {
            group.run += run;
            above = Some(group.parent);
        }
        Some(turn)
    }

    fn end(&mut self, cpu: usize, turn: OpenTurn, at: Instant) {
        let Some(task) = self.tasks.get_mut(&turn.task) else { return };
        task.turns += u64::from(self.from <= at && at <= self.to);
        if self.from <= turn.began && at <= self.to {
            task.lengths.push(turn.so_far);
        }
        if cpu == 0 && turn.began >= self.from {
            self.sequence.push(name(task), turn.so_far);
        }
    }

    /// The CPU goes on with another task, or idles.
    fn switch(&mut self, cpu: usize, at: Instant, prev: PrevState, next: Option<TaskId>) {
        if self.running.len() <= cpu {
            self.running.resize(cpu + 1, None);
            self.interrupted.resize(cpu + 1, None);
        }
        let mut turn = self.stop(cpu, at);
        let is_other = next.is_some_and(|next| !self.tasks.contains_key(&next));
        if is_other {
            if prev == PrevState::Runnable
                && let Some(turn) = turn.take()
            {
                self.interrupted[cpu] = Some(turn);
            }
        } else {
            let waiting = self.interrupted[cpu].take();
            let goes_on = waiting.filter(|waiting| Some(waiting.task) == next);
            if goes_on.is_none()
                && let Some(waiting) = waiting
            {
                self.end(cpu, waiting, at);
            }
            self.running[cpu] = next.map(|task| {
                let (began, so_far) = goes_on.map_or((at, Duration::ZERO), |turn| (turn.began, turn.so_far));
                OpenTurn { task, began, so_far, since: at }
            });
        }
        if let Some(turn) = turn {
            self.end(cpu, turn, at);
        }
    }

    fn unthrottle(&mut self, id: GroupId, cpu: CpuId, at: Instant) {
        let Some(since) = self.groups.get_mut(&id).and_then(|group| group.since.remove(&cpu)) else { return };
        let throttled = self.within(since, at);
        if let Some(group) = self.groups.get_mut(&id) {
            group.throttled += throttled;
        }
    }

    /// Returns the figures by name. The first instance of a task has the task's name, a group its
    /// path.
    ///
    /// | name | unit |
    /// |---|---|
    /// | `share.TASK` | CPU time in percent of one CPU |
    /// | `turns.TASK` | turns on a CPU |
    /// | `delay.TASK` | the median of its times from waking to running, in milliseconds |
    /// | `delay_p99.TASK` | their 99th percentile; recordings have it of a hundred or more |
    /// | `migrations` | of all tasks |
    /// | `moves.KIND` | those by kind: `wakeup`, `newidle`, `tick`, `nohz`, `active`, `push`, `pull` |
    /// | `used/PATH` | CPU time of a group and all below it, in percent of one CPU |
    /// | `nr_periods/PATH` | periods of its limit that ended |
    /// | `nr_throttled/PATH` | of these, those at whose end it was throttled on some CPU |
    /// | `throttled/PATH` | milliseconds throttled, added up over CPUs |
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let window = self.to.since(self.from).as_nanos().max(1);
        let share = |run: Duration| {
            let millionths = u128::from(run.as_nanos()) * 1_000_000 / u128::from(window);
            u64::try_from(millionths).unwrap_or(u64::MAX)
        };
        let mut found = vec![named(Quantity::AllMigrations.into(), "", self.migrations)];
        for task in self.tasks.values() {
            found.push(named(Quantity::Share.into(), name(task), share(task.run)));
            found.push(named(Quantity::SwitchesIn.into(), name(task), task.turns));
            let mut delays = task.delays.clone();
            delays.sort_unstable();
            let median = delays.get(delays.len() / 2).copied().map(Duration::as_nanos);
            let delay = Figure::new(Quantity::WakeupLatency, P50);
            found.extend(median.map(|median| named(delay, name(task), median)));
            let high = delays.get(delays.len() * 99 / 100).copied().map(Duration::as_nanos);
            found.extend(high.map(|high| named(Figure::new(Quantity::WakeupLatency, P99), name(task), high)));
        }
        for group in self.groups.values() {
            let of = |quantity: Quantity, value| named(quantity.into(), &group.path, value);
            found.extend([
                of(Quantity::GroupShare, share(group.run)),
                of(Quantity::NrPeriods, group.nr_periods),
                of(Quantity::NrThrottled, group.nr_throttled),
                of(Quantity::Throttled, group.throttled.as_nanos()),
            ]);
        }
        let moves = MOVES.iter().zip(self.moves).map(|((kind, _), count)| (format!("moves.{kind}"), count as f64));
        found.into_iter().chain(moves).collect()
    }

    /// Returns the values of tasks, with these names, of which a distribution is.
    pub(super) fn values(&self, of: Of, tasks: &[&str]) -> Vec<Duration> {
        let of_task = |task: &MeasuredTask| match of {
            Of::Delays => task.delays.clone(),
            Of::Turns | Of::Sequence => task.lengths.clone(),
        };
        self.tasks.values().filter(|task| tasks.contains(&name(task))).flat_map(of_task).collect()
    }
}

/// The first instance of a task has the task's name.
fn name(task: &MeasuredTask) -> &str {
    task.name.strip_suffix("-0").unwrap_or(&task.name)
}

impl Sink for Measure {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, group, .. } => {
                let new = MeasuredTask {
                    name: Arc::clone(name),
                    group: *group,
                    run: Duration::ZERO,
                    turns: 0,
                    woken: None,
                    delays: Vec::new(),
                    lengths: Vec::new(),
                };
                if !self.others.contains(name.strip_suffix("-0").unwrap_or(name)) {
                    self.tasks.insert(*task, new);
                }
            }
            TraceEvent::GroupNew { group, parent, path } => {
                let new = MeasuredGroup {
                    path: Arc::clone(path),
                    parent: *parent,
                    run: Duration::ZERO,
                    nr_periods: 0,
                    nr_throttled: 0,
                    throttled: Duration::ZERO,
                    since: BTreeMap::new(),
                };
                self.groups.insert(*group, new);
            }
            TraceEvent::GroupChange { task, group } => {
                if let Some(task) = self.tasks.get_mut(task) {
                    task.group = *group;
                }
            }
            TraceEvent::BandwidthRefresh { group, throttled, .. } if self.from < record.at && record.at <= self.to => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.nr_periods += 1;
                    group.nr_throttled += u64::from(*throttled);
                }
            }
            TraceEvent::Waking { task, .. } => {
                if let Some(task) = self.tasks.get_mut(task) {
                    task.woken = Some(record.at);
                }
            }
            TraceEvent::Throttle { group } => {
                if let Some(group) = self.groups.get_mut(group) {
                    group.since.insert(record.cpu, record.at);
                }
            }
            TraceEvent::Unthrottle { group } => self.unthrottle(*group, record.cpu, record.at),
            TraceEvent::Switch { prev_state, next, .. } => {
                self.switch(record.cpu.index(), record.at, *prev_state, *next);
                if let Some(task) = next.and_then(|next| self.tasks.get_mut(&next)) {
                    let woken = task.woken.take().filter(|woken| self.from <= *woken && record.at <= self.to);
                    task.delays.extend(woken.map(|woken| record.at.since(woken)));
                }
            }
            TraceEvent::Migrate { task, to, reason, .. }
                if self.from <= record.at && record.at <= self.to && self.tasks.contains_key(task) =>
            {
                let is_nohz = *reason == MigrateReason::Periodic && record.cpu != *to;
                let kind = MOVES.iter().position(|(kind, of)| of == reason && (*kind == NOHZ) == is_nohz);
                self.migrations += 1;
                kind.into_iter().for_each(|kind| self.moves[kind] += 1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{Prio, SchedAttr};

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const KERNEL: TaskId = TaskId(2);

    /// Measures 100 ms of a CPU that runs `turns`: the time of each switch in ms, the state of the
    /// task before, and the task that follows.
    fn measured(turns: &[(u64, PrevState, Option<TaskId>)]) -> Measure {
        let mut measure = Measure::between(Instant::ZERO, Duration::from_millis(100)).without(["kworker/0"]);
        let mut record = |ms: u64, event| {
            measure.record(&Record { at: Instant::ZERO + Duration::from_millis(ms), cpu: CpuId(0), event });
        };
        for (task, name) in [(A, "a-0"), (B, "b-0"), (KERNEL, "kworker/0-0")] {
            let (attr, group) = (SchedAttr::NORMAL, GroupId::ROOT);
            record(0, TraceEvent::TaskNew { task, name: name.into(), parent: None, attr, group });
        }
        let mut prev = None;
        for &(ms, prev_state, next) in turns {
            record(ms, TraceEvent::Switch { prev, prev_state, next, next_prio: Prio::IDLE });
            prev = next;
        }
        measure.finish(Instant::ZERO + Duration::from_millis(100));
        measure
    }

    #[test]
    fn a_turn_that_a_task_left_out_interrupts_is_one_turn() {
        use PrevState::{Blocked, Idle, Runnable};
        let goes_on = measured(&[
            (0, Idle, Some(A)),
            (10, Runnable, Some(KERNEL)),
            (12, Blocked, Some(A)),
            (20, Runnable, Some(KERNEL)),
            (21, Blocked, Some(A)),
            (40, Runnable, Some(B)),
        ]);
        let figures = goes_on.figures();
        assert_eq!((figures["share.a"], figures["turns.a"]), (37.0, 1.0));
        assert_eq!((figures["share.b"], figures["turns.b"]), (60.0, 1.0));
        assert!(figures.keys().all(|name| !name.contains("kworker")), "{figures:?}");
        assert_eq!(goes_on.sequence().len(), 2, "{:?}", goes_on.sequence());
    }

    #[test]
    fn a_turn_ends_if_the_task_blocks_or_another_follows_the_one_left_out() {
        use PrevState::{Blocked, Idle, Runnable};
        // It blocks, and wakes while the kernel's thread runs.
        let blocks = measured(&[(0, Idle, Some(A)), (10, Blocked, Some(KERNEL)), (12, Blocked, Some(A))]);
        assert_eq!(blocks.figures()["turns.a"], 2.0);
        let other = measured(&[
            (0, Idle, Some(A)),
            (10, Runnable, Some(KERNEL)),
            (12, Blocked, Some(B)),
            (20, Runnable, Some(A)),
        ]);
        let figures = other.figures();
        assert_eq!((figures["share.a"], figures["turns.a"], figures["turns.b"]), (90.0, 2.0, 1.0));
        // A turn that is interrupted at the end ends there.
        let end = measured(&[(0, Idle, Some(A)), (10, Runnable, Some(KERNEL))]).figures();
        assert_eq!((end["share.a"], end["turns.a"]), (10.0, 1.0));
    }
}
