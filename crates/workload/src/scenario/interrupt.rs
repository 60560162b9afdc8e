//! `[interrupt.NAME]`: an interrupt line of a device.
//!
//! ```toml
//! [interrupt.eth0]
//! every = { exponential = { mean = "400us" } }
//! handler = "3us"
//! softirq = { lognormal = { median = "15us", sigma = 0.8 } }
//! cpus = "0-1"
//! on_each = true       # a queue per CPU
//! priority = 60        # of its thread, where the preemption model has one
//! ```

use super::ScenarioReader;
use super::table::{Table, TableEntry, kind, span};
use super::times;
use super::tree::Value;
use crate::interrupt::{IRQ_THREAD, InterruptDef, Threading};

/// Keys of an interrupt: its own, and those of its thread.
pub(super) const KEYS: [&str; 9] =
    ["every", "handler", "softirq", "cpus", "on_each", "no_thread", "policy", "priority", "nice"];

impl ScenarioReader<'_> {
    /// Reads `[interrupt]`.
    pub(super) fn interrupts(&mut self, root: &Table<'_, '_>) {
        let Some(lines) = root.get("interrupt").and_then(|entry| Table::of("interrupt", entry.item, self.report))
        else {
            return;
        };
        for entry in lines.entries() {
            let Some(table) = Table::of(entry.key, entry.item, self.report) else { continue };
            if let Some(line) = self.interrupt(entry, &table) {
                self.assembly.program.interrupts.push(line);
            }
        }
    }

    fn interrupt(&mut self, entry: TableEntry<'_, '_>, table: &Table<'_, '_>) -> Option<InterruptDef> {
        table.refuse_unknown(&KEYS, "an interrupt", self.report);
        let mut required = |key: &str| {
            let Some(found) = table.get(key) else {
                let help = "write every = \"1ms\" and handler = \"3us\"";
                self.report.error_help(entry.key_span, format!("interrupt `{}` without `{key}`", entry.key), help);
                return None;
            };
            let time = times::dist(key, found.item, self.report)?;
            if key == "every" && time.is_zero() {
                self.report.error(span(found.item), "`every` is zero: no time would pass between two interrupts");
            }
            Some(time)
        };
        let (every, handler) = (required("every"), required("handler"));
        let softirq = table.get("softirq").and_then(|found| times::dist("softirq", found.item, self.report));
        let cpus = table.get("cpus").and_then(|found| self.cpus("cpus", found.item));
        let on_each = self.switch(table, "on_each");
        let threading = if self.switch(table, "no_thread") { Threading::Never } else { Threading::Forced };
        let attr = self.attr(table, Some(IRQ_THREAD)).unwrap_or(IRQ_THREAD);
        Some(InterruptDef {
            name: entry.key.into(),
            cpus,
            on_each,
            every: every?,
            handler: handler?,
            softirq,
            attr,
            threading,
        })
    }

    fn switch(&mut self, table: &Table<'_, '_>, key: &str) -> bool {
        match table.get(key).map(|found| (found.item, found.item.get_ref())) {
            None => false,
            Some((_, Value::Boolean(on))) => *on,
            Some((item, other)) => {
                self.report.error(span(item), format!("`{key}` is true or false, not {}", kind(other)));
                false
            }
        }
    }
}
