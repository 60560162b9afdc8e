//! [`Measure`]: figures of a run between two instants, from its records.

use super::sequence::Sequence;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{CpuId, Duration, GroupId, Instant, Record, TaskId, TraceEvent};
use zerolag_sim::Sink;

/// Figures between two instants. Memory: O(tasks + groups x CPUs + wakeups + turns).
#[derive(Clone, Debug)]
pub struct Measure {
    from: Instant,
    to: Instant,
    tasks: BTreeMap<TaskId, Task>,
    groups: BTreeMap<GroupId, Group>,
    /// The current task of each CPU, and the start of its turn.
    running: Vec<Option<(TaskId, Instant)>>,
    migrations: u64,
    sequence: Sequence,
}

#[derive(Clone, Debug)]
struct Task {
    name: Arc<str>,
    group: GroupId,
    run: Duration,
    /// Turns on a CPU that ended in the window.
    turns: u64,
    /// The time of its wakeup, until it runs.
    woken: Option<Instant>,
    /// Times from waking to running, of the wakings in the window.
    delays: Vec<Duration>,
}

#[derive(Clone, Debug)]
struct Group {
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
            running: Vec::new(),
            migrations: 0,
            sequence: Sequence::default(),
        }
    }

    /// Ends the open turns.
    pub fn finish(&mut self, end: Instant) {
        for cpu in 0..self.running.len() {
            self.stop(cpu, end);
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

    fn stop(&mut self, cpu: usize, at: Instant) {
        let Some((id, since)) = self.running[cpu].take() else { return };
        let run = self.within(since, at);
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.run += run;
        task.turns += u64::from(self.from <= at && at <= self.to);
        if cpu == 0 && since >= self.from {
            self.sequence.push(name(task), at.since(since));
        }
        let mut above = Some(task.group);
        while let Some(group) = above.and_then(|group| self.groups.get_mut(&group)) {
            group.run += run;
            above = Some(group.parent);
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
    /// | `migrations` | of all tasks |
    /// | `used/PATH` | CPU time of a group and all below it, in percent of one CPU |
    /// | `nr_periods/PATH` | periods of its limit that ended |
    /// | `nr_throttled/PATH` | of these, those at whose end it was throttled on some CPU |
    /// | `throttled/PATH` | milliseconds throttled, added up over CPUs |
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let window = self.to.since(self.from).as_nanos() as f64;
        let mut figures = BTreeMap::new();
        for task in self.tasks.values() {
            let name = name(task);
            figures.insert(format!("share.{name}"), task.run.as_nanos() as f64 * 100.0 / window);
            figures.insert(format!("turns.{name}"), task.turns as f64);
            let mut delays = task.delays.clone();
            delays.sort_unstable();
            if let Some(median) = delays.get(delays.len() / 2) {
                figures.insert(format!("delay.{name}"), median.as_nanos() as f64 / 1e6);
            }
        }
        for group in self.groups.values() {
            let path = &group.path;
            figures.insert(format!("used{path}"), group.run.as_nanos() as f64 * 100.0 / window);
            figures.insert(format!("nr_periods{path}"), group.nr_periods as f64);
            figures.insert(format!("nr_throttled{path}"), group.nr_throttled as f64);
            figures.insert(format!("throttled{path}"), group.throttled.as_nanos() as f64 / 1e6);
        }
        figures.insert("migrations".to_owned(), self.migrations as f64);
        figures
    }
}

/// The first instance of a task has the task's name.
fn name(task: &Task) -> &str {
    task.name.strip_suffix("-0").unwrap_or(&task.name)
}

impl Sink for Measure {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, group, .. } => {
                let new = Task {
                    name: Arc::clone(name),
                    group: *group,
                    run: Duration::ZERO,
                    turns: 0,
                    woken: None,
                    delays: Vec::new(),
                };
                self.tasks.insert(*task, new);
            }
            TraceEvent::GroupNew { group, parent, path } => {
                let new = Group {
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
            TraceEvent::Switch { next, .. } => {
                let cpu = record.cpu.index();
                if self.running.len() <= cpu {
                    self.running.resize(cpu + 1, None);
                }
                self.stop(cpu, record.at);
                if let Some(task) = next.and_then(|next| self.tasks.get_mut(&next)) {
                    let woken = task.woken.take().filter(|woken| self.from <= *woken && record.at <= self.to);
                    task.delays.extend(woken.map(|woken| record.at.since(woken)));
                }
                self.running[cpu] = next.map(|next| (next, record.at));
            }
            TraceEvent::Migrate { .. } if self.from <= record.at && record.at <= self.to => self.migrations += 1,
            _ => {}
        }
    }
}
