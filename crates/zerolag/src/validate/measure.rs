//! [`Measure`]: figures of a run between two instants, from its records.

use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{Duration, Instant, Record, TaskId, TraceEvent};
use zerolag_sim::Sink;

/// Figures between two instants. Memory: O(tasks + CPUs).
#[derive(Clone, Debug)]
pub struct Measure {
    from: Instant,
    to: Instant,
    tasks: BTreeMap<TaskId, Task>,
    /// Who runs where since when, by CPU.
    running: Vec<Option<(TaskId, Instant)>>,
    migrations: u64,
}

#[derive(Clone, Debug)]
struct Task {
    name: Arc<str>,
    run: Duration,
    /// Stretches on a CPU that ended in the window.
    turns: u64,
}

impl Measure {
    /// Begins to measure what will happen in a window.
    #[must_use]
    pub fn between(from: Instant, window: Duration) -> Self {
        let tasks = BTreeMap::new();
        Self { from, to: from + window, tasks, running: Vec::new(), migrations: 0 }
    }

    /// Ends what still runs.
    pub fn finish(&mut self, end: Instant) {
        for cpu in 0..self.running.len() {
            self.stop(cpu, end);
        }
    }

    fn stop(&mut self, cpu: usize, at: Instant) {
        let Some((id, since)) = self.running[cpu].take() else { return };
        let (start, end) = (since.max(self.from), at.min(self.to));
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if end > start {
            task.run += end.since(start);
        }
        task.turns += u64::from(self.from <= at && at <= self.to);
    }

    /// Returns the figures by name; the first instance of a task goes by the task's name.
    ///
    /// | name | unit |
    /// |---|---|
    /// | `share.TASK` | CPU time in percent of one CPU |
    /// | `turns.TASK` | stretches on a CPU |
    /// | `migrations` | of all tasks |
    #[must_use]
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let window = self.to.since(self.from).as_nanos() as f64;
        let mut figures = BTreeMap::new();
        for task in self.tasks.values() {
            let name = task.name.strip_suffix("-0").unwrap_or(&task.name);
            figures.insert(format!("share.{name}"), task.run.as_nanos() as f64 * 100.0 / window);
            figures.insert(format!("turns.{name}"), task.turns as f64);
        }
        figures.insert("migrations".to_owned(), self.migrations as f64);
        figures
    }
}

impl Sink for Measure {
    fn record(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                let task_of_name = Task { name: Arc::clone(name), run: Duration::ZERO, turns: 0 };
                self.tasks.insert(*task, task_of_name);
            }
            TraceEvent::Switch { next, .. } => {
                let cpu = record.cpu.index();
                if self.running.len() <= cpu {
                    self.running.resize(cpu + 1, None);
                }
                self.stop(cpu, record.at);
                self.running[cpu] = next.map(|next| (next, record.at));
            }
            TraceEvent::Migrate { .. } if self.from <= record.at && record.at <= self.to => self.migrations += 1,
            _ => {}
        }
    }
}
