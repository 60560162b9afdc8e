//! `[pause.NAME]`: times in which a CPU runs nothing of the workload.
//!
//! ```toml
//! [pause.gc]                # all CPUs at once, as when a collector stops the world
//! every = "100ms"
//! length = { uniform = { min = "1ms", max = "4ms" } }
//!
//! [pause.steal]             # each CPU at its own times, as when a hypervisor runs another guest
//! cpus = "0-3"
//! together = false
//! every = { exponential = { mean = "20ms" } }
//! length = "500us"
//! ```
//!
//! It is sugar: one SCHED_FIFO task of priority 99 per CPU, pinned to it and named `NAME/CPU`, that
//! runs for `length` and then waits for its timer. Together means that the CPUs share one timer and
//! one barrier. Reports show the time as theirs. A CPU that goes offline has no pauses: the task
//! would have no CPU.

use super::ScenarioReader;
use super::table::{Table, TableEntry, kind, span};
use super::times;
use super::tree::Value;
use crate::assemble::{PhaseOrigin, TaskOrigin};
use crate::change::Change;
use crate::program::{Action, ResourceKind, TaskDef, TimerMode, TimerRef};
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, Duration, SchedAttr};

/// Keys of a pause.
pub(super) const KEYS: [&str; 5] = ["every", "length", "cpus", "together", "delay"];

impl ScenarioReader<'_> {
    /// Reads `[pause]`.
    pub(super) fn pauses(&mut self, root: &Table<'_, '_>) {
        let Some(pauses) = root.get("pause").and_then(|entry| Table::of("pause", entry.item, self.report)) else {
            return;
        };
        for entry in pauses.entries() {
            if let Some(table) = Table::of(entry.key, entry.item, self.report) {
                self.pause(entry, &table);
            }
        }
    }

    fn pause(&mut self, entry: TableEntry<'_, '_>, table: &Table<'_, '_>) {
        table.refuse_unknown(&KEYS, "a pause", self.report);
        let mut required = |key: &str| {
            let Some(found) = table.get(key) else {
                self.report.error(entry.key_span, format!("pause `{}` without `{key}`", entry.key));
                return None;
            };
            let time = times::dist(key, found.item, self.report)?;
            if time.is_zero() {
                self.report.error(span(found.item), format!("`{key}` is zero"));
            }
            Some(time)
        };
        let (every, length) = (required("every"), required("length"));
        let delay = table.time("delay", self.report).unwrap_or_default();
        let cpus = match table.get("cpus") {
            Some(found) => self.cpus("cpus", found.item),
            None => Some(Arc::new((0..self.nr_cpus).map(CpuId::from_index).collect::<CpuMask>())),
        };
        let together = match table.get("together").map(|found| (found.item, found.item.get_ref())) {
            None => true,
            Some((_, Value::Boolean(together))) => *together,
            Some((item, other)) => {
                self.report.error(span(item), format!("`together` is true or false, not {}", kind(other)));
                return;
            }
        };
        let (Some(every), Some(length), Some(cpus)) = (every, length, cpus) else { return };
        let leaves = self.assembly.program.changes.iter().find_map(|change| match change.what {
            Change::Cpu { cpu, is_online: false } if cpus.contains(cpu) => Some((cpu, change.at)),
            _ => None,
        });
        if let Some((cpu, at)) = leaves {
            let message = format!("pause `{}` is on CPU {cpu}, which goes offline at {at}", entry.key);
            self.report.error_help(entry.key_span, message, "write the CPUs that stay online: cpus = \"0\"");
            return;
        }
        let all = u32::try_from(cpus.iter().count()).unwrap_or(u32::MAX);
        let meet = together.then(|| self.assembly.resource(entry.key, ResourceKind::Barrier { parties: all }));
        for (place, cpu) in cpus.iter().enumerate() {
            // The first CPU waits for the timer, the others wait for the first.
            let wait = (place == 0 || meet.is_none()).then(|| Action::Timer {
                timer: TimerRef::Own(0),
                period: every.clone(),
                mode: TimerMode::Absolute,
            });
            let meet = meet.map(Action::Barrier);
            let actions: Vec<Action> = wait.into_iter().chain(meet).chain([Action::Run(length.clone())]).collect();
            self.pausing_task(entry, cpu, delay, actions);
        }
    }

    fn pausing_task(&mut self, entry: TableEntry<'_, '_>, cpu: CpuId, delay: Duration, actions: Vec<Action>) {
        let name: Arc<str> = format!("{}/{cpu}", entry.key).into();
        let spans = vec![entry.key_span; actions.len()];
        let phase = PhaseOrigin { name: entry.key_span, actions: spans };
        self.assembly.origins.tasks.push(TaskOrigin { name: entry.key_span, phases: vec![phase] });
        let attr = SchedAttr::fifo_at(99);
        self.assembly.program.tasks.push(TaskDef { delay, ..TaskDef::looping(name, attr, actions).on(cpu) });
    }
}
