//! `[group."/path"]`: weight and limit of a group, in the notations of the programs that set them.
//!
//! | program | keys |
//! |---|---|
//! | cgroup v2 | `cpu.max`, `cpu.max.burst`, `cpu.weight`, `cpu.weight.nice`, `cpu.idle`, `cpu.uclamp.min`, `cpu.uclamp.max` |
//! | cgroup v1 | `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpu.cfs_burst_us`, `cpu.shares` |
//! | systemd | `CPUQuota`, `CPUQuotaPeriodSec`, `CPUWeight` |
//! | Docker, Podman | `--cpus`, `--cpu-quota`, `--cpu-period`, `--cpu-shares` |
//! | Kubernetes | `limits.cpu`, `requests.cpu`, with `oci.weight_conversion` |
//!
//! `cpu.cfs_bandwidth_slice_us` is in no kernel: an open question of 2010, a bandwidth slice for
//! one group.
//!
//! Files of the kernel accept its numbers (microseconds) or a time with a unit. A limit in CPUs is
//! kept as such next to its quota, so that it stays the same when the period changes. `changes`
//! sets keys again in the middle of the run.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `cpu_max_write`, `tg_set_cfs_bandwidth`,
//! `cpu_weight_nice_write_s64`; `kernel/sched/fair.c`, `sched_group_set_shares`,
//! `sched_group_set_idle`; systemd.resource-control(5); `docker run`; Kubernetes
//! `pkg/kubelet/cm/helpers_linux.go`; KEP-2254 and opencontainers/cgroups 0.0.3 (the two
//! conversions of shares to weight).

use super::ScenarioReader;
use super::table::{Item, Leaf, Table, int, kind, leaves, signed_int, span, string, unknown_key};
use super::times;
use super::tree::Value;
use crate::change::Change;
use crate::diagnostic::{Diagnostic, Report, Span};
use crate::limits::{Conversion, cpu_max, cpus_to_quota, milli_cpus, percent, shares_of_milli, shares_to_weight};
use crate::program::{GroupWeight, InCpus};
use zerolag_model::{CpuMax, Duration, Nice, UtilClamp};

const KEYS: [&str; 22] = [
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.weight.nice",
    "cpu.idle",
    "cpu.uclamp.min",
    "cpu.uclamp.max",
    "cpu.cfs_bandwidth_slice_us",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.cfs_burst_us",
    "cpu.shares",
    "CPUQuota",
    "CPUQuotaPeriodSec",
    "CPUWeight",
    "--cpus",
    "--cpu-quota",
    "--cpu-period",
    "--cpu-shares",
    "limits.cpu",
    "requests.cpu",
    "oci.weight_conversion",
];

/// Reads a utilisation clamp as cgroups write it, in percent with up to two decimals, or `max`:
/// Linux v6.12 `kernel/sched/core.c`, `capacity_from_percent`.
fn percent_of_capacity(key: &str, item: Item<'_, '_>, report: &mut Report) -> Option<u64> {
    let text = match item.get_ref() {
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        _ => string(key, item, report)?.to_owned(),
    };
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let hundredths = (part.len() <= 2).then(|| format!("{whole}{part:0<2}").parse::<u64>().ok()).flatten();
    match (&*text, hundredths.filter(|value| *value <= 10_000)) {
        ("max", _) => Some(UtilClamp::FULL),
        // Rounded to the nearest, as `DIV_ROUND_CLOSEST_ULL` does.
        (_, Some(value)) => Some((value * UtilClamp::FULL + 5_000) / 10_000),
        (_, None) => {
            let message = format!("`{key}` = {text} is no percentage");
            report.error_help(span(item), message, "write 0 to 100 with up to two decimals, or \"max\"");
            None
        }
    }
}

/// A quota in its notation.
#[derive(Clone, Copy)]
enum QuotaNotation {
    Unlimited,
    PerPeriod(Duration),
    /// Thousandths of a CPU.
    Milli(u64),
}

/// The values of a group's table, each with its key.
#[derive(Default)]
struct GroupKeys<'k> {
    quota: Option<(QuotaNotation, &'k str, Span)>,
    period: Option<(Duration, &'k str, Span)>,
    burst: Option<(Duration, &'k str, Span)>,
    slice: Option<(Duration, &'k str, Span)>,
    is_idle: Option<(bool, &'k str, Span)>,
    clamp_min: Option<(u64, &'k str, Span)>,
    clamp_max: Option<(u64, &'k str, Span)>,
    weight: Option<(GroupWeight, &'k str, Span)>,
    /// `requests.cpu`, else `limits.cpu`, in thousandths.
    request: Option<u64>,
    conversion: Option<Conversion>,
}

impl ScenarioReader<'_> {
    /// Reads a group's table; `None` is the root group.
    pub(super) fn group_keys(&mut self, id: Option<usize>, table: &Table<'_, '_>) {
        let all = leaves(table);
        let mut said = GroupKeys::default();
        let (mut changes, mut life) = (None, [None; 2]);
        for leaf in &all {
            match (id, &*leaf.path) {
                (Some(_), "from") => life[0] = Some(leaf),
                (Some(_), "until") => life[1] = Some(leaf),
                (_, "changes") => changes = Some(leaf),
                (None, "cpu.weight" | "cpu.weight.nice" | "cpu.idle" | "cpu.shares" | "CPUWeight") => {
                    self.report.error(leaf.span, "the root group has no weight");
                }
                (None, key) if KEYS.contains(&key) => self.report.error(leaf.span, "the root group has no limit"),
                _ => said.read(leaf, self.report),
            }
        }
        let Some(id) = id else { return };
        let group = &mut self.assembly.program.groups[id];
        group.max = said.max(CpuMax::UNLIMITED, self.report).unwrap_or(CpuMax::UNLIMITED);
        group.weight = said.weight().unwrap_or(group.weight);
        group.is_idle = said.is_idle.is_some_and(|(is_idle, ..)| is_idle);
        let bound = |said: Option<(u64, _, _)>, default| said.map_or(default, |(value, ..)| value);
        let [min, max] = [bound(said.clamp_min, 0), bound(said.clamp_max, UtilClamp::FULL)];
        group.clamp = UtilClamp::new(min, max).unwrap_or_default();
        group.cpus = said.in_cpus();
        said.refuse_weight(group.is_idle, self.report);
        let [from, until] = life.map(|leaf| Some((times::time(&leaf?.path, leaf?.item, self.report)?, leaf?.span)));
        if let Some((at, span)) = from {
            self.create_group(id, at, span);
        }
        if let Some((at, span)) = until {
            self.remove_group(id, at, span);
        }
        if let Some(changes) = changes {
            self.group_changes(id, changes);
        }
    }

    /// Reads `changes = [{ at = "2s", "cpu.max" = "100000 100000" }]`.
    fn group_changes(&mut self, id: usize, changes: &Leaf<'_, '_>) {
        let Value::Array(items) = changes.item.get_ref() else {
            let help = "write changes = [{ at = \"2s\", \"cpu.max\" = \"50000 100000\" }]";
            self.report.error_help(span(changes.item), "`changes` is an array of tables", help);
            return;
        };
        let mut last = Duration::ZERO;
        for item in items.iter() {
            let Some(table) = Table::of("changes", item, self.report) else { continue };
            let Some(at) = table.time("at", self.report) else {
                if table.get("at").is_none() {
                    self.report.error_help(span(item), "a change has no time", "write at = \"2s\"");
                }
                continue;
            };
            if at < last {
                let message = format!("a change at {at} stands after one at {last}");
                self.report.error_help(span(item), message, "write changes in the order of time");
            }
            last = at;
            if !self.change_of_group(id, at, &table) {
                self.change_of_nothing(&table);
            }
        }
    }

    /// Reports a change of a group without a value.
    pub(super) fn change_of_nothing(&mut self, table: &Table<'_, '_>) {
        if !self.report.has_errors() {
            let help = "write \"cpu.max\", \"cpu.weight\", create or remove";
            self.report.error_help(table.span, "a change that changes nothing", help);
        }
    }

    /// Reads the changes of a group at a time: a weight, a limit, or both. Returns whether there
    /// was one.
    pub(super) fn change_of_group(&mut self, group: usize, at: Duration, table: &Table<'_, '_>) -> bool {
        let all = leaves(table);
        let mut said = GroupKeys::default();
        for leaf in all.iter().filter(|leaf| !matches!(&*leaf.path, "at" | "group" | "create" | "remove")) {
            said.read(leaf, self.report);
        }
        let says_limit = said.quota.is_some() || said.period.is_some() || said.burst.is_some() || said.slice.is_some();
        if says_limit || said.weight().is_some() || said.is_idle.is_some() {
            self.use_group(group, at, table.span);
        }
        let program = &mut self.assembly.program;
        let so_far = program.changes.iter().filter(|change| change.at <= at).filter_map(|change| match change.what {
            Change::Idle { group: other, is_idle } if other == group => Some((change.at, is_idle)),
            _ => None,
        });
        let was_idle = so_far.max_by_key(|(at, _)| *at).map_or(program.groups[group].is_idle, |(_, is_idle)| is_idle);
        let is_idle = said.is_idle.map(|(is_idle, ..)| is_idle);
        said.refuse_weight(is_idle.unwrap_or(was_idle), self.report);
        if let Some(is_idle) = is_idle {
            program.change(at, Change::Idle { group, is_idle });
        }
        if let Some(weight) = said.weight() {
            program.change(at, Change::Weight { group, weight });
        }
        if !says_limit {
            return said.weight().is_some() || is_idle.is_some();
        }
        // A missing value stays as the previous change left it.
        let first = program.groups[group].max;
        let before = program.changes.iter().filter(|change| change.at <= at).fold(first, |before, change| {
            match change.what {
                Change::Max { group: other, max } if other == group => max,
                // A group that is created again starts as defined.
                Change::Create { group: other } if other == group => first,
                _ => before,
            }
        });
        if let Some(max) = said.max(before, self.report) {
            self.assembly.program.change(at, Change::Max { group, max });
        }
        true
    }
}

impl<'k> GroupKeys<'k> {
    #[expect(clippy::too_many_lines, reason = "one arm per key")]
    fn read(&mut self, leaf: &'k Leaf<'_, '_>, report: &mut Report) {
        let (key, item, at) = (&*leaf.path, leaf.item, leaf.span);
        match key {
            "cpu.max" => {
                let Some(text) = string(key, item, report) else { return };
                match cpu_max(text) {
                    Ok((quota, period)) => {
                        self.quota(quota.map_or(QuotaNotation::Unlimited, QuotaNotation::PerPeriod), key, at, report);
                        if let Some(period) = period {
                            set(&mut self.period, period, key, at, report);
                        }
                    }
                    Err(wrong) => {
                        let message = format!("`cpu.max` = \"{text}\": {wrong}");
                        report.error_help(span(item), message, "write \"50000 100000\" or \"max 100000\"");
                    }
                }
            }
            "cpu.cfs_quota_us" | "--cpu-quota" => match micros(key, item, -1, report) {
                Some(None) => self.quota(QuotaNotation::Unlimited, key, at, report),
                Some(Some(quota)) => self.quota(QuotaNotation::PerPeriod(quota), key, at, report),
                None => {}
            },
            "cpu.cfs_period_us" | "--cpu-period" => {
                if let Some(Some(period)) = micros(key, item, 0, report) {
                    set(&mut self.period, period, key, at, report);
                }
            }
            "CPUQuotaPeriodSec" => {
                if let Some(period) = times::time(key, item, report) {
                    set(&mut self.period, period, key, at, report);
                }
            }
            "cpu.max.burst" | "cpu.cfs_burst_us" => {
                if let Some(Some(burst)) = micros(key, item, 0, report) {
                    set(&mut self.burst, burst, key, at, report);
                }
            }
            "cpu.cfs_bandwidth_slice_us" => {
                if let Some(Some(slice)) = micros(key, item, 0, report) {
                    set(&mut self.slice, slice, key, at, report);
                }
            }
            "CPUQuota" => {
                let Some(text) = string(key, item, report) else { return };
                match percent(text) {
                    Some(milli) => self.quota(QuotaNotation::Milli(milli), key, at, report),
                    None => report.error_help(
                        span(item),
                        format!("`CPUQuota` = \"{text}\" is not a percentage of a CPU above zero"),
                        "write \"150%\"",
                    ),
                }
            }
            "--cpus" | "limits.cpu" | "requests.cpu" => {
                let Some(milli) = cpus(key, item, report) else { return };
                match key {
                    "requests.cpu" => self.request = Some(milli),
                    "limits.cpu" => {
                        self.request = self.request.or(Some(milli));
                        self.quota(QuotaNotation::Milli(milli), key, at, report);
                    }
                    _ => self.quota(QuotaNotation::Milli(milli), key, at, report),
                }
            }
            "cpu.weight" | "CPUWeight" => {
                if let Some(weight) = int(key, item, 1..=10_000, report) {
                    let weight = GroupWeight::Weight(u32::try_from(weight).unwrap_or(1));
                    set(&mut self.weight, weight, key, at, report);
                }
            }
            "cpu.weight.nice" => {
                let nice =
                    signed_int(key, item, -20..=19, report).and_then(|nice| Nice::new(i64::try_from(nice).ok()?));
                if let Some(nice) = nice {
                    set(&mut self.weight, GroupWeight::Nice(nice), key, at, report);
                }
            }
            "cpu.idle" => {
                if let Some(value) = int(key, item, 0..=1, report) {
                    set(&mut self.is_idle, value == 1, key, at, report);
                }
            }
            "cpu.uclamp.min" | "cpu.uclamp.max" => {
                let said = if key == "cpu.uclamp.min" { &mut self.clamp_min } else { &mut self.clamp_max };
                if let Some(value) = percent_of_capacity(key, item, report) {
                    set(said, value, key, at, report);
                }
            }
            "cpu.shares" | "--cpu-shares" => {
                // The kernel clamps silently.
                if let Some(shares) = int(key, item, 0..=u64::from(u32::MAX), report) {
                    let shares = u32::try_from(shares.clamp(2, 262_144)).unwrap_or(2);
                    set(&mut self.weight, GroupWeight::Shares(shares), key, at, report);
                }
            }
            "oci.weight_conversion" => match string(key, item, report) {
                Some("linear") => self.conversion = Some(Conversion::Linear),
                Some("quadratic") => self.conversion = Some(Conversion::Quadratic),
                Some(other) => {
                    let message = format!("`{key}` = \"{other}\" is unknown");
                    report.error_help(span(item), message, "known are linear (runc before 1.3.2) and quadratic");
                }
                None => {}
            },
            other => report.push(unknown_key(other, at, &KEYS, "a group")),
        }
    }

    fn quota(&mut self, quota: QuotaNotation, key: &'k str, at: Span, report: &mut Report) {
        set(&mut self.quota, quota, key, at, report);
    }

    /// Returns the limit; missing values stay as they were.
    fn max(&self, before: CpuMax, report: &mut Report) -> Option<CpuMax> {
        let period = self.period.map_or(before.period, |(period, ..)| period);
        let quota = match self.quota {
            None => before.quota,
            Some((QuotaNotation::Unlimited, ..)) => None,
            Some((QuotaNotation::PerPeriod(quota), ..)) => Some(quota),
            Some((QuotaNotation::Milli(milli), ..)) => Some(cpus_to_quota(milli, period)),
        };
        let burst = self.burst.map_or(before.burst, |(burst, ..)| burst);
        let slice = self.slice.map_or(before.slice, |(slice, ..)| Some(slice));
        let max = CpuMax { quota, period, burst, slice };
        match max.check() {
            Ok(()) => Some(max),
            Err(wrong) => {
                let places = [
                    self.quota.map(|said| said.2),
                    self.period.map(|said| said.2),
                    self.burst.map(|said| said.2),
                    self.slice.map(|said| said.2),
                ];
                let place = match wrong {
                    zerolag_model::CpuMaxError::Period(_) => places[1],
                    zerolag_model::CpuMaxError::BurstAboveQuota { .. } => places[2],
                    zerolag_model::CpuMaxError::Slice(_) => places[3],
                    _ => places[0],
                };
                let place = place.or_else(|| places.into_iter().flatten().next()).unwrap_or_default();
                report.error(place, format!("{wrong} (EINVAL)"));
                None
            }
        }
    }

    /// Refuses the weight of an idle group: the kernel returns EINVAL.
    fn refuse_weight(&self, is_idle: bool, report: &mut Report) {
        if let Some((_, key, at)) = self.weight.filter(|_| is_idle) {
            let help = "leave it out, or write cpu.idle = 0";
            report.error_help(at, format!("`{key}` of a group that is idle (EINVAL)"), help);
        }
    }

    fn in_cpus(&self) -> InCpus {
        let limit_milli = match self.quota {
            Some((QuotaNotation::Milli(milli), ..)) => Some(milli),
            Some((QuotaNotation::Unlimited | QuotaNotation::PerPeriod(_), ..)) | None => None,
        };
        InCpus { limit_milli, request_milli: self.request.filter(|_| self.weight.is_none()) }
    }

    fn weight(&self) -> Option<GroupWeight> {
        let requested = self.request.map(|milli| {
            let shares = shares_of_milli(milli);
            GroupWeight::Weight(shares_to_weight(shares, self.conversion.unwrap_or(Conversion::Quadratic)))
        });
        self.weight.map(|(weight, ..)| weight).or(requested)
    }
}

/// Stores a value; two keys with the same meaning are an error.
fn set<'k, T>(place: &mut Option<(T, &'k str, Span)>, value: T, key: &'k str, at: Span, report: &mut Report) {
    if let Some((_, other, there)) = place {
        let diagnostic = Diagnostic::error(at, format!("`{key}` sets the same value as `{other}`"));
        report.push(diagnostic.label(*there, "here").help("keep one of them"));
        return;
    }
    *place = Some((value, key, at));
}

/// Reads microseconds, or a time with a unit. `Some(None)` is -1: no limit; allowed if `low` is.
fn micros(key: &str, item: Item<'_, '_>, low: i128, report: &mut Report) -> Option<Option<Duration>> {
    if let Value::String(_) = item.get_ref() {
        return times::time(key, item, report).map(Some);
    }
    let value = signed_int(key, item, low..=i128::from(u32::MAX) << 20, report)?;
    Some(u64::try_from(value).ok().map(Duration::from_micros))
}

/// Reads a number of CPUs in thousandths: `1.5`, `2`, `"500m"`, `"0.5"`.
fn cpus(key: &str, item: Item<'_, '_>, report: &mut Report) -> Option<u64> {
    let text = match item.get_ref() {
        Value::String(text) => text.to_string(),
        Value::Integer(number) => number.as_str().to_string(),
        Value::Float(number) => number.as_str().to_string(),
        other => {
            report.error(span(item), format!("`{key}` is a number of CPUs, not {}", kind(other)));
            return None;
        }
    };
    let milli = milli_cpus(&text);
    if milli.is_none() {
        let message = format!("`{key}` = \"{text}\" is not a number of CPUs above zero");
        report.error_help(span(item), message, "write \"500m\" or 0.5");
    }
    milli
}
