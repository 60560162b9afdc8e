//! What tasks share: cpusets, groups and resources.
//!
//! Keys of cpusets and groups are the kernel's file names. TOML cannot hold both `cpuset.cpus = "0-3"` and
//! `cpuset.cpus.partition = "root"` as dotted keys, since the first is not a table: they are written with quotes, or
//! short as `cpus` and `partition`.
//!
//! Resources need no declaration: one that is only used is a plain mutex, condition, semaphore at 0, relative timer, or a
//! barrier for all instances of the tasks that name it. A name stands for one thing.

use super::Reader;
use super::table::{Entry, Item, Table, kind, leaves, signed_int, span, string, unknown_key};
use crate::assemble::Kind;
use crate::check;
use crate::diagnostic::{Diagnostic, Span};
use crate::program::{CpusetDef, ResourceKind, TimerMode};
use std::sync::Arc;
use toml::de::DeValue;
use zerolag_model::{CpuId, CpuMask, MAX_CPUS};

pub(super) const CPUSET_KEYS: [&str; 2] = ["cpuset.cpus", "cpuset.cpus.partition"];

impl Reader<'_> {
    /// Reads `[cpuset.NAME]`.
    pub(super) fn cpusets(&mut self, root: &Table<'_, '_>) {
        let Some(sets) = root.get("cpuset").and_then(|entry| Table::of("cpuset", entry.item, self.report)) else {
            return;
        };
        let mut partitions: Vec<(usize, Span)> = Vec::new();
        for set in &sets.entries {
            self.cpusets.insert(set.key.to_string(), None);
            let Some(table) = Table::of(set.key, set.item, self.report) else { continue };
            let (mut cpus, mut partition) = (None, false);
            for leaf in leaves(&table) {
                match &*leaf.path {
                    "cpuset.cpus" | "cpus" => cpus = self.cpus("cpuset.cpus", leaf.item),
                    "cpuset.cpus.partition" | "partition" => {
                        partition = match string(&leaf.path, leaf.item, self.report) {
                            Some("root") => true,
                            Some("member") | None => false,
                            Some(other) => {
                                let message = format!("`cpuset.cpus.partition` = \"{other}\" is unknown");
                                self.report.error_help(span(leaf.item), message, "known are root and member");
                                false
                            }
                        }
                    }
                    other => self.report.push(unknown_key(other, leaf.span, &CPUSET_KEYS, "a cpuset")),
                }
            }
            let Some(cpus) = cpus else {
                if !leaves(&table).iter().any(|leaf| matches!(&*leaf.path, "cpuset.cpus" | "cpus")) {
                    let help = "write \"cpuset.cpus\" = \"0-3\"";
                    self.report.error_help(set.key_span, format!("cpuset `{}` has no CPUs", set.key), help);
                }
                continue;
            };
            let place = self.assembly.program.cpusets.len();
            for (other, other_span) in &partitions {
                let other = &self.assembly.program.cpusets[*other];
                if partition && other.cpus.intersects(&cpus) {
                    let message =
                        format!("partitions `{}` and `{}` share CPUs {}", other.name, set.key, other.cpus.and(&cpus));
                    self.report.push(Diagnostic::error(set.key_span, message).label(*other_span, "the other one"));
                }
            }
            if partition {
                partitions.push((place, set.key_span));
            }
            self.cpusets.insert(set.key.to_string(), Some(place));
            self.assembly.program.cpusets.push(CpusetDef { name: set.key.into(), cpus, partition });
        }
    }

    /// Reads `[group."/path"]`.
    pub(super) fn groups(&mut self, root: &Table<'_, '_>) {
        let Some(groups) = root.get("group").and_then(|entry| Table::of("group", entry.item, self.report)) else {
            return;
        };
        for group in &groups.entries {
            let Some(table) = Table::of(group.key, group.item, self.report) else { continue };
            let id = match self.assembly.group(group.key) {
                Ok(id) => id,
                Err(message) => {
                    self.report.error_help(group.key_span, message, "write [group.\"/name\"]");
                    continue;
                }
            };
            self.group_keys(id, &table);
        }
    }

    /// Reads the declarations of resources, in the order of the text.
    pub(super) fn resources(&mut self, root: &Table<'_, '_>) {
        let mut sections: Vec<(Kind, Table<'_, '_>)> = Vec::new();
        for (key, kind) in [
            ("mutex", Kind::Mutex),
            ("condition", Kind::Condition),
            ("barrier", Kind::Barrier),
            ("semaphore", Kind::Semaphore),
            ("timer", Kind::Timer),
        ] {
            if let Some(section) = root.get(key).and_then(|entry| Table::of(key, entry.item, self.report)) {
                sections.push((kind, section));
            }
        }
        let mut declarations: Vec<(Kind, Entry<'_, '_>)> =
            sections.iter().flat_map(|(kind, section)| section.entries.iter().map(|entry| (*kind, *entry))).collect();
        declarations.sort_by_key(|(_, entry)| entry.key_span);
        for (kind, entry) in declarations {
            self.declare(kind, entry);
        }
    }

    fn declare(&mut self, kind: Kind, entry: Entry<'_, '_>) {
        let Some(table) = Table::of(entry.key, entry.item, self.report) else { return };
        let (known, resource): (&[&str], ResourceKind) = match kind {
            Kind::Mutex => {
                let inherit = match table.string("protocol", self.report) {
                    Some(("inherit", _)) => true,
                    None | Some(("none", _)) => false,
                    Some((other, span)) => {
                        let message = format!("`protocol` = \"{other}\" is unknown");
                        self.report.error_help(span, message, "known are none and inherit");
                        false
                    }
                };
                (&["protocol"], ResourceKind::Mutex { inherit })
            }
            Kind::Barrier => {
                let parties = table.int("parties", 1..=crate::INSTANCES_MAX, self.report);
                let parties = parties.map_or(0, |(parties, _)| u32::try_from(parties).unwrap_or(0));
                (&["parties"], ResourceKind::Barrier { parties })
            }
            Kind::Semaphore => {
                let initial = table.int("initial", 0..=u64::from(u32::MAX), self.report);
                let initial = initial.map_or(0, |(initial, _)| u32::try_from(initial).unwrap_or(0));
                (&["initial"], ResourceKind::Semaphore { initial })
            }
            Kind::Timer => (&["mode"], ResourceKind::Timer),
            Kind::Condition | Kind::SuspendPoint => (&[], ResourceKind::Condition),
        };
        table.refuse_unknown(known, kind.name(), self.report);
        let Some(id) = self.resource(entry.key, entry.key_span, resource) else { return };
        if table.get("parties").is_some() {
            self.counted_barriers.remove(&id);
        }
        if let Some((mode, span)) = table.string("mode", self.report)
            && let Some(mode) = self.timer_mode(mode, span)
        {
            self.timer_modes.insert(id, (mode, span));
        }
    }

    pub(super) fn timer_mode(&mut self, mode: &str, span: Span) -> Option<TimerMode> {
        match mode {
            "absolute" => Some(TimerMode::Absolute),
            "relative" => Some(TimerMode::Relative),
            "skip" => Some(TimerMode::Skip),
            other => {
                let message = format!("`mode` = \"{other}\" is unknown");
                self.report.error_help(span, message, "known are absolute, relative and skip");
                None
            }
        }
    }

    /// Reads a CPU list: `"0-3,8"` or `[0, 1]`. Every CPU must exist.
    pub(super) fn cpus(&mut self, what: &str, item: Item<'_, '_>) -> Option<Arc<CpuMask>> {
        let mask: CpuMask = match item.get_ref() {
            DeValue::String(text) => match text.parse() {
                Ok(mask) => mask,
                Err(error) => {
                    self.report.error(span(item), format!("`{what}` = \"{text}\": {error}"));
                    return None;
                }
            },
            DeValue::Array(items) => {
                let mut mask = CpuMask::new();
                for item in items.iter() {
                    let cpu = signed_int(what, item, 0..=MAX_CPUS as i128 - 1, self.report)?;
                    mask.insert(CpuId::from_index(usize::try_from(cpu).unwrap_or(0)));
                }
                mask
            }
            other => {
                let message = format!("`{what}` is a CPU list, not {}", kind(other));
                self.report.error_help(span(item), message, "write \"0-3,8\"");
                return None;
            }
        };
        if let Some(cpu) = mask.next_from(CpuId::from_index(self.nr_cpus)) {
            self.report.push(check::no_such_cpu(span(item), i64::from(cpu.0), self.nr_cpus));
            return None;
        }
        if mask.is_empty() {
            self.report.error(span(item), format!("`{what}` is empty: the task could run nowhere"));
            return None;
        }
        Some(Arc::new(mask))
    }
}
