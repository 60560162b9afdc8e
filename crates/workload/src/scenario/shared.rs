//! Objects that tasks share: cpusets, groups and resources.
//!
//! Keys of cpusets and groups are the kernel's file names. TOML cannot contain both
//! `cpuset.cpus = "0-3"` and `cpuset.cpus.partition = "root"` as dotted keys, because the first is
//! not a table: they are written with quotes, or short as `cpus` and `partition`.
//!
//! Declaring a resource is optional and only sets its properties. A resource that is only used is a
//! plain mutex, condition, semaphore at 0, relative timer, slow disk, or a barrier for all
//! instances of the tasks that name it. A name can denote only one kind of resource.

use super::ScenarioReader;
use super::table::{Item, Table, TableEntry, kind, leaves, signed_int, span, string, unknown_key};
use super::times;
use super::tree::Value;
use crate::assemble::ResourceClass;
use crate::change::Change;
use crate::check;
use crate::diagnostic::{Diagnostic, Report, Span};
use crate::program::{CpusetDef, Disk, File, ResourceKind, TimerMode};
use crate::random::Dist;
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, Duration, MAX_CPUS};

/// The default disk: one request at a time, 5 ms and 100 MB/s, as a hard disk.
pub(super) const DISK: Disk = Disk {
    depth: 1,
    latency: Dist::Constant(Duration::from_millis(5)),
    bandwidth: 100_000_000,
    irq_cpus: None,
    irq_moves: Duration::ZERO,
};
/// The default pipe: 16 pages.
pub(super) const PIPE: ResourceKind = ResourceKind::Pipe { capacity: 65_536 };
pub(super) const FILE_KEYS: [&str; 3] = ["disk", "size", "readahead"];
pub(super) const DISK_KEYS: [&str; 5] = ["depth", "latency", "bandwidth", "irq_cpus", "irq_moves"];
/// The deepest queue of a disk: that of NVMe.
pub(super) const DEPTH_MAX: u32 = 65_536;
pub(super) const CPUSET_KEYS: [&str; 3] = ["cpuset.cpus", "cpuset.cpus.partition", "changes"];
/// Keys of one of its `changes`, except `partition`.
pub(super) const CPUSET_CHANGE_KEYS: [&str; 2] = ["at", "cpuset.cpus.partition"];

/// Returns the capacity of a pipe that is to hold this many bytes: a power of two of pages (Linux
/// v6.12 `fs/pipe.c`, `round_pipe_size`).
fn pipe_capacity(bytes: u64) -> u32 {
    bytes.max(4096).next_power_of_two() as u32
}

/// A cpuset that becomes a partition at a time, or stops being one.
#[derive(Clone, Copy)]
struct PartitionChange {
    at: Duration,
    cpuset: usize,
    is_root: bool,
}

/// Reads `partition = "root"` or `"member"`.
fn is_root(key: &str, item: Item<'_, '_>, report: &mut Report) -> bool {
    match string(key, item, report) {
        Some("root") => true,
        Some("member") | None => false,
        Some(other) => {
            let message = format!("`cpuset.cpus.partition` = \"{other}\" is unknown");
            report.error_help(span(item), message, "known are root and member");
            false
        }
    }
}

impl ScenarioReader<'_> {
    /// Reads `[cpuset.NAME]`.
    pub(super) fn cpusets(&mut self, root: &Table<'_, '_>) {
        let Some(sets) = root.get("cpuset").and_then(|entry| Table::of("cpuset", entry.item, self.report)) else {
            return;
        };
        let mut starts: Vec<(usize, Span)> = Vec::new();
        let mut changes: Vec<(PartitionChange, Span)> = Vec::new();
        for set in sets.entries() {
            self.cpusets.insert(set.key.to_string(), None);
            let Some(table) = Table::of(set.key, set.item, self.report) else { continue };
            let (mut cpus, mut partition, mut later) = (None, false, None);
            for leaf in leaves(&table) {
                match &*leaf.path {
                    "cpuset.cpus" | "cpus" => cpus = self.cpus("cpuset.cpus", leaf.item),
                    "cpuset.cpus.partition" | "partition" => {
                        partition = is_root(&leaf.path, leaf.item, self.report);
                    }
                    "changes" => later = Some(leaf.item),
                    mems @ ("cpuset.mems" | "mems") => {
                        let help = "memory has no nodes here, leave it out";
                        self.report.error_help(leaf.span, format!("`{mems}` is not modelled"), help);
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
            if partition {
                starts.push((place, set.key_span));
            }
            if let Some(later) = later {
                self.partition_changes(place, later, &mut changes);
            }
            self.cpusets.insert(set.key.to_string(), Some(place));
            self.assembly.program.cpusets.push(CpusetDef { name: set.key.into(), cpus, partition });
        }
        // At one moment partitions end before others begin.
        changes.sort_by_key(|(change, _)| (change.at, change.is_root));
        self.refuse_overlaps(&starts, &changes);
        for (PartitionChange { at, cpuset, is_root }, _) in changes {
            self.assembly.program.change(at, Change::Partition { cpuset, is_root });
        }
    }

    /// Reads `changes = [{ at = "2s", partition = "root" }]`.
    fn partition_changes(&mut self, cpuset: usize, item: Item<'_, '_>, into: &mut Vec<(PartitionChange, Span)>) {
        let Value::Array(items) = item.get_ref() else {
            let help = "write changes = [{ at = \"2s\", partition = \"root\" }]";
            self.report.error_help(span(item), "`changes` is an array of tables", help);
            return;
        };
        for item in items.iter() {
            let Some(table) = Table::of("changes", item, self.report) else { continue };
            let at = table.time("at", self.report);
            if table.get("at").is_none() {
                self.report.error_help(span(item), "a change has no time", "write at = \"2s\"");
            }
            let mut partition = None;
            for leaf in leaves(&table).into_iter().filter(|leaf| leaf.path != "at") {
                match &*leaf.path {
                    "cpuset.cpus.partition" | "partition" => {
                        partition = Some(is_root(&leaf.path, leaf.item, self.report));
                    }
                    other => {
                        self.report.push(unknown_key(other, leaf.span, &CPUSET_CHANGE_KEYS, "a change of a cpuset"));
                    }
                }
            }
            match (at, partition) {
                (Some(at), Some(is_root)) => into.push((PartitionChange { at, cpuset, is_root }, span(item))),
                (_, None) => {
                    let help = "write partition = \"root\" or \"member\"";
                    self.report.error_help(span(item), "a change changes nothing", help);
                }
                (None, Some(_)) => {}
            }
        }
    }

    /// Refuses partitions that share CPUs at any time.
    fn refuse_overlaps(&mut self, starts: &[(usize, Span)], changes: &[(PartitionChange, Span)]) {
        let begins = starts.iter().map(|(cpuset, span)| (*cpuset, true, *span));
        let later = changes.iter().map(|(change, span)| (change.cpuset, change.is_root, *span));
        let mut now: Vec<(usize, Span)> = Vec::new();
        for (place, is_root, span) in begins.chain(later) {
            now.retain(|(other, _)| *other != place);
            if !is_root {
                continue;
            }
            let sets = &self.assembly.program.cpusets;
            for (other, other_span) in &now {
                let (one, other) = (&sets[*other], &sets[place]);
                if one.cpus.intersects(&other.cpus) {
                    let shared = one.cpus.and(&other.cpus);
                    let message = format!("partitions `{}` and `{}` share CPUs {shared}", one.name, other.name);
                    self.report.push(Diagnostic::error(span, message).label(*other_span, "the other one"));
                }
            }
            now.push((place, span));
        }
    }

    /// Reads `[group."/path"]`.
    pub(super) fn groups(&mut self, root: &Table<'_, '_>) {
        let Some(groups) = root.get("group").and_then(|entry| Table::of("group", entry.item, self.report)) else {
            return;
        };
        for group in groups.entries() {
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
        let mut sections: Vec<(ResourceClass, Table<'_, '_>)> = Vec::new();
        for (key, kind) in [
            ("mutex", ResourceClass::Mutex),
            ("condition", ResourceClass::Condition),
            ("barrier", ResourceClass::Barrier),
            ("semaphore", ResourceClass::Semaphore),
            ("timer", ResourceClass::Timer),
            ("rw_semaphore", ResourceClass::RwSemaphore),
            ("spin_lock", ResourceClass::SpinLock),
            ("user_spin_lock", ResourceClass::UserSpinLock),
            ("pipe", ResourceClass::Pipe),
            ("disk", ResourceClass::Disk),
            ("file", ResourceClass::File),
        ] {
            if let Some(section) = root.get(key).and_then(|entry| Table::of(key, entry.item, self.report)) {
                sections.push((kind, section));
            }
        }
        let mut declarations: Vec<(ResourceClass, TableEntry<'_, '_>)> =
            sections.iter().flat_map(|(kind, section)| section.entries().map(|entry| (*kind, entry))).collect();
        declarations.sort_by_key(|(_, entry)| entry.key_span);
        for (kind, entry) in declarations {
            self.declare(kind, entry);
        }
    }

    /// Returns whether a key has this word, and not `none`.
    fn says(&mut self, table: &Table<'_, '_>, key: &'static str, word: &str) -> bool {
        match table.string(key, self.report) {
            Some((said, _)) if said == word => true,
            None | Some(("none", _)) => false,
            Some((other, span)) => {
                let message = format!("`{key}` = \"{other}\" is unknown");
                self.report.error_help(span, message, format!("known are none and {word}"));
                false
            }
        }
    }

    fn declare(&mut self, kind: ResourceClass, entry: TableEntry<'_, '_>) {
        let Some(table) = Table::of(entry.key, entry.item, self.report) else { return };
        let (known, resource): (&[&str], ResourceKind) = match kind {
            ResourceClass::Mutex => {
                let inherit = self.says(&table, "protocol", "inherit");
                (&["protocol"], ResourceKind::Mutex { inherit })
            }
            ResourceClass::Barrier => {
                let parties = table.int("parties", 1..=crate::INSTANCES_MAX, self.report);
                let parties = parties.map_or(0, |(parties, _)| u32::try_from(parties).unwrap_or(0));
                (&["parties"], ResourceKind::Barrier { parties })
            }
            ResourceClass::Semaphore => {
                let initial = table.int("initial", 0..=u64::from(u32::MAX), self.report);
                let initial = initial.map_or(0, |(initial, _)| u32::try_from(initial).unwrap_or(0));
                (&["initial"], ResourceKind::Semaphore { initial })
            }
            ResourceClass::Timer => (&["mode"], ResourceKind::Timer),
            ResourceClass::RwSemaphore => (&[], ResourceKind::RwSemaphore),
            ResourceClass::SpinLock => (&[], ResourceKind::SpinLock),
            ResourceClass::UserSpinLock => {
                let extends_slice = self.says(&table, "slice_extension", "ask");
                (&["slice_extension"], ResourceKind::UserSpinLock { extends_slice })
            }
            ResourceClass::Pipe => {
                let capacity = table.int("capacity", 1..=1 << 30, self.report).map_or(65_536, |(bytes, _)| bytes);
                (&["capacity"], ResourceKind::Pipe { capacity: pipe_capacity(capacity) })
            }
            ResourceClass::Disk => {
                let depth = table.int("depth", 1..=u64::from(DEPTH_MAX), self.report);
                let latency = table.get("latency").and_then(|entry| times::dist("latency", entry.item, self.report));
                let bandwidth = table.int("bandwidth", 0..=u64::MAX, self.report);
                let irq_cpus = table.get("irq_cpus").and_then(|entry| self.cpus("irq_cpus", entry.item));
                let moves = table.get("irq_moves");
                if let Some(moves) = moves.filter(|_| table.get("irq_cpus").is_none()) {
                    let help = "write the CPUs between which it moves: irq_cpus = \"0-7\"";
                    self.report.error_help(span(moves.item), "`irq_moves` needs `irq_cpus`", help);
                }
                let irq_moves = moves.and_then(|entry| times::time("irq_moves", entry.item, self.report));
                let disk = Disk {
                    depth: depth.map_or(DISK.depth, |(depth, _)| u32::try_from(depth).unwrap_or(DEPTH_MAX)),
                    latency: latency.unwrap_or(DISK.latency),
                    bandwidth: bandwidth.map_or(DISK.bandwidth, |(bandwidth, _)| bandwidth),
                    irq_cpus,
                    irq_moves: irq_moves.unwrap_or(Duration::ZERO),
                };
                (&DISK_KEYS, ResourceKind::Disk(disk))
            }
            ResourceClass::File => {
                table.refuse_unknown(&FILE_KEYS, kind.name(), self.report);
                self.file(entry, &table);
                return;
            }
            ResourceClass::Condition | ResourceClass::SuspendPoint | ResourceClass::Queue => {
                (&[], ResourceKind::Condition)
            }
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

    /// Reads a file. Its disk must be known, because its requests go there.
    fn file(&mut self, entry: TableEntry<'_, '_>, table: &Table<'_, '_>) {
        let window = table.int("readahead", 4096..=1 << 30, self.report).map_or(131_072, |(bytes, _)| bytes);
        let size = table.int("size", 1..=u64::from(u32::MAX) * 4096, self.report);
        let disk = table.get("disk").and_then(|disk| {
            let name = string("disk", disk.item, self.report)?;
            self.resource(name, span(disk.item), ResourceKind::Disk(DISK))
        });
        let (Some((size, _)), Some(disk)) = (size, disk) else {
            if table.get("size").is_none() || table.get("disk").is_none() {
                let help = format!("write [file.{}] disk = \"sda\", size = 1_000_000_000", entry.key);
                self.report.error_help(entry.key_span, format!("file `{}` needs disk and size", entry.key), help);
            }
            return;
        };
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let file = File { disk, windows: count(size.div_ceil(window)), window: count(window) };
        self.resource(entry.key, entry.key_span, ResourceKind::File(file));
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
            Value::String(text) => match text.parse() {
                Ok(mask) => mask,
                Err(error) => {
                    self.report.error(span(item), format!("`{what}` = \"{text}\": {error}"));
                    return None;
                }
            },
            Value::Array(items) => {
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
