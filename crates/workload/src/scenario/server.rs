//! `[fair_server]`: changes of deadline servers in the middle of the run, by the kernel's names.
//! Their initial parameters are settings (`fair_server.runtime`, `fair_server.period`,
//! `fair_server.cpus`).
//!
//! Sources: Linux v6.12 `kernel/sched/debug.c`, `sched_fair_server_write`:
//! `/sys/kernel/debug/sched/fair_server/cpuN/`.

use super::ScenarioReader;
use super::table::{Table, span};
use super::tree::Value;
use crate::change::Change;
use zerolag_model::Activation;

/// Keys of the table.
pub(super) const KEYS: [&str; 1] = ["changes"];
/// Keys of a change.
pub(super) const CHANGE_KEYS: [&str; 5] = ["at", "cpus", "runtime", "period", "defer"];

impl ScenarioReader<'_> {
    /// Reads `[fair_server]`.
    pub(super) fn server_changes(&mut self, root: &Table<'_, '_>) {
        let Some(table) = root.get("fair_server").and_then(|entry| Table::of("fair_server", entry.item, self.report))
        else {
            return;
        };
        table.refuse_unknown(&KEYS, "fair_server", self.report);
        let Some(changes) = table.get("changes") else { return };
        let Value::Array(items) = changes.item.get_ref() else {
            let help = "write changes = [{ at = \"2s\", cpus = \"0\", runtime = \"20ms\" }]";
            self.report.error_help(span(changes.item), "`changes` is an array of tables", help);
            return;
        };
        for item in items.iter() {
            let Some(table) = Table::of("changes", item, self.report) else { continue };
            table.refuse_unknown(&CHANGE_KEYS, "a change of a deadline server", self.report);
            let [at, runtime, period] = ["at", "runtime", "period"].map(|key| table.time(key, self.report));
            if table.get("at").is_none() {
                self.report.error_help(span(item), "a change has no time", "write at = \"2s\"");
            }
            if ["runtime", "period", "defer"].into_iter().all(|key| table.get(key).is_none()) {
                let help = "write runtime = \"20ms\", period, defer = false, or several of them";
                self.report.error_help(span(item), "a change changes nothing", help);
            }
            let activation = match table.get("defer").map(|entry| entry.item) {
                None => None,
                Some(item) => match item.get_ref() {
                    Value::Boolean(true) => Some(Activation::Deferred),
                    Value::Boolean(false) => Some(Activation::Immediate),
                    _ => {
                        self.report.error_help(span(item), "`defer` is neither true nor false", "write defer = false");
                        None
                    }
                },
            };
            let cpus = table.get("cpus").and_then(|entry| self.cpus("cpus", entry.item));
            if let Some(at) = at {
                self.assembly.program.change(at, Change::Server { cpus, runtime, period, activation });
            }
        }
    }
}
