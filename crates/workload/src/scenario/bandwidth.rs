//! `[group."/path"]`: weight and limit of a group, in the notations of the programs that set them.
//!
//! The keys and their values are those of [`LimitPart::TABLE`](crate::limits::LimitPart::TABLE).
//! Here it is decided what several of them mean together: a file has no order, so two keys for one
//! value contradict each other.
//!
//! A limit in CPUs is kept as such next to its quota, so that it stays the same when the period
//! changes. `changes` sets keys again in the middle of the run.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c`, `cpu_max_write`, `tg_set_cfs_bandwidth`,
//! `cpu_weight_nice_write_s64`; `kernel/sched/fair.c`, `sched_group_set_shares`,
//! `sched_group_set_idle`.

use super::ScenarioReader;
use super::table::{Item, Leaf, Table, kind, leaves, span, unknown_key};
use super::times;
use super::tree::Value;
use crate::change::Change;
use crate::diagnostic::{Diagnostic, Report, Span};
use crate::limits::{Conversion, LimitPart, LimitValue, Quota, weight_of_request};
use crate::program::{GroupDef, GroupWeight, InCpus, RootDef};
use std::borrow::Cow;
use zerolag_model::{CpuMax, Duration, PressureTrigger, RtBandwidth, Stall, UtilClamp};

/// The key of triggers: the file that they are written to.
const PRESSURE: &str = "cpu.pressure";
/// The key of a trigger of a user without CAP_SYS_RESOURCE, and the same as the path of a leaf.
const UNPRIVILEGED: &str = "unprivileged";
const PRESSURE_WITHOUT: &str = "cpu.pressure.unprivileged";

/// The values of a group's table, each with its key.
#[derive(Default)]
struct GroupKeys<'k> {
    quota: Option<(Quota, &'k str, Span)>,
    period: Option<(Duration, &'k str, Span)>,
    burst: Option<(Duration, &'k str, Span)>,
    slice: Option<(Duration, &'k str, Span)>,
    is_idle: Option<(bool, &'k str, Span)>,
    clamp_min: Option<(u64, &'k str, Span)>,
    clamp_max: Option<(u64, &'k str, Span)>,
    rt_runtime: Option<(Option<Duration>, &'k str, Span)>,
    rt_period: Option<(Duration, &'k str, Span)>,
    weight: Option<(GroupWeight, &'k str, Span)>,
    request: Option<(u64, &'k str, Span)>,
    /// `limits.cpu`, which is the request if there is none.
    pod_limit: Option<u64>,
    conversion: Option<(Conversion, &'k str, Span)>,
}

impl ScenarioReader<'_> {
    /// Reads a group's table; `None` is the root group.
    pub(super) fn group_keys(&mut self, id: Option<usize>, table: &Table<'_, '_>) {
        let all = leaves(table);
        let mut said = GroupKeys::default();
        let (mut changes, mut life) = (None, [None; 2]);
        let mut triggers = Vec::new();
        for leaf in &all {
            match (id, &*leaf.path) {
                (Some(_), "from") => life[0] = Some(leaf),
                (Some(_), "until") => life[1] = Some(leaf),
                (_, "changes") => changes = Some(leaf),
                (_, PRESSURE) => triggers = self.triggers(leaf, id.is_none()),
                (_, PRESSURE_WITHOUT) => triggers = self.unprivileged(leaf.item, id.is_none()).into_iter().collect(),
                (None, _) => self.of_root(leaf, &mut said),
                (Some(_), _) => said.read(leaf, self.report),
            }
        }
        let Some(id) = id else {
            self.assembly.program.root = RootDef { rt: said.rt(GroupDef::NO_RT, self.report), triggers };
            if let Some(changes) = changes {
                let help = "write [[change]] with group = \"/\"";
                self.report.error_help(changes.span, "the root group has no `changes`", help);
            }
            return;
        };
        let group = &mut self.assembly.program.groups[id];
        group.max = said.max(CpuMax::UNLIMITED, self.report).unwrap_or(CpuMax::UNLIMITED);
        group.weight = said.weight().unwrap_or(group.weight);
        group.is_idle = said.is_idle.is_some_and(|(is_idle, ..)| is_idle);
        let bound = |said: Option<(u64, _, _)>, default| said.map_or(default, |(value, ..)| value);
        let [min, max] = [bound(said.clamp_min, 0), bound(said.clamp_max, UtilClamp::FULL)];
        group.clamp = UtilClamp::new(min, max).unwrap_or_default();
        group.cpus = said.in_cpus();
        group.rt = said.rt(GroupDef::NO_RT, self.report);
        group.triggers = triggers;
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

    /// Reads a key of the root group: of all limits and weights it has `cpu.rt.max` only.
    fn of_root<'k>(&mut self, leaf: &'k Leaf<'_, '_>, said: &mut GroupKeys<'k>) {
        match LimitPart::of(&leaf.path) {
            None | Some(LimitPart::RtMax) => said.read(leaf, self.report),
            Some(part) if part.is_of_weight() => self.report.error(leaf.span, "the root group has no weight"),
            Some(_) => self.report.error(leaf.span, "the root group has no limit"),
        }
    }

    /// Reads the triggers that are written to `cpu.pressure`: one, or an array of them.
    fn triggers(&mut self, leaf: &Leaf<'_, '_>, is_root: bool) -> Vec<PressureTrigger> {
        let items: Vec<Item<'_, '_>> = match leaf.item.get_ref() {
            Value::Array(items) => items.iter().collect(),
            _ => vec![leaf.item],
        };
        let read = |item| match Self::without(item) {
            Some(text) => self.unprivileged(text, is_root),
            None => self.trigger(item, is_root),
        };
        items.into_iter().filter_map(read).collect()
    }

    /// Returns the trigger of `{ unprivileged = "some 150000 2000000" }`.
    fn without<'n, 'i>(item: Item<'n, 'i>) -> Option<Item<'n, 'i>> {
        let Value::Table(table) = item.get_ref() else { return None };
        Table::new(table, span(item)).only().filter(|entry| entry.key == UNPRIVILEGED).map(|entry| entry.item)
    }

    /// Reads a trigger of a user without CAP_SYS_RESOURCE.
    fn unprivileged(&mut self, item: Item<'_, '_>, is_root: bool) -> Option<PressureTrigger> {
        let trigger = self.trigger(item, is_root)?;
        trigger.unprivileged().map_err(|wrong| self.report.error(span(item), wrong.to_string())).ok()
    }

    fn trigger(&mut self, item: Item<'_, '_>, is_root: bool) -> Option<PressureTrigger> {
        let Value::String(text) = item.get_ref() else {
            let message = format!("a trigger of `{PRESSURE}` is a string, not {}", kind(item.get_ref()));
            let help = "write \"some 150000 1000000\", or { unprivileged = \"some 150000 2000000\" }";
            self.report.error_help(span(item), message, help);
            return None;
        };
        match text.parse::<PressureTrigger>() {
            Ok(PressureTrigger { stall: Stall::Full, .. }) if is_root => {
                let message = "the machine has no `full`: a CPU with runnable tasks runs one";
                self.report.error_help(span(item), message, "write `some`, or the trigger of a group");
                None
            }
            Ok(trigger) => Some(trigger),
            Err(wrong) => {
                let help = "write \"some 150000 1000000\": 150 ms of each second";
                self.report.error_help(span(item), format!("`{text}`: {wrong}"), help);
                None
            }
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
        let says_rt = said.rt_runtime.is_some() || said.rt_period.is_some();
        if says_limit || says_rt || said.weight().is_some() || said.is_idle.is_some() {
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
        if says_rt {
            self.change_of_rt(Some(group), at, &said);
        }
        if !says_limit {
            return said.weight().is_some() || is_idle.is_some() || says_rt;
        }
        // A missing value stays as the previous change left it.
        let program = &self.assembly.program;
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

    /// Reads the changes of the root group at a time. Returns whether there was one.
    pub(super) fn change_of_root(&mut self, at: Duration, table: &Table<'_, '_>) -> bool {
        let all = leaves(table);
        let mut said = GroupKeys::default();
        for leaf in all.iter().filter(|leaf| !matches!(&*leaf.path, "at" | "group")) {
            self.of_root(leaf, &mut said);
        }
        let says_rt = said.rt_runtime.is_some();
        if says_rt {
            self.change_of_rt(None, at, &said);
        }
        says_rt
    }

    /// Adds a change of the time of a group's real-time tasks. A missing value stays as the
    /// previous change left it.
    fn change_of_rt(&mut self, group: Option<usize>, at: Duration, said: &GroupKeys<'_>) {
        let program = &self.assembly.program;
        let first = group.map_or(program.root.rt, |group| program.groups[group].rt).unwrap_or(GroupDef::NO_RT);
        let before =
            program.changes.iter().filter(|change| change.at <= at).fold(first, |before, change| match change.what {
                Change::RtGroup { group: other, bandwidth } if other == group => bandwidth,
                Change::Create { group: other } if Some(other) == group => first,
                _ => before,
            });
        if let Some(bandwidth) = said.rt(before, self.report) {
            self.assembly.program.change(at, Change::RtGroup { group, bandwidth });
        }
    }
}

impl<'k> GroupKeys<'k> {
    fn read(&mut self, leaf: &'k Leaf<'_, '_>, report: &mut Report) {
        let (key, at) = (&*leaf.path, leaf.span);
        let Some(part) = LimitPart::of(key) else {
            report.push(unknown(key, at));
            return;
        };
        let Some(text) = text_of(key, leaf.item, report) else { return };
        let value = match part.read(&text) {
            Ok(value) => value,
            Err(wrong) => {
                let diagnostic = Diagnostic::error(span(leaf.item), format!("`{key}`: {wrong}"));
                report.push(match wrong.help {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                });
                return;
            }
        };
        match value {
            LimitValue::Max { quota, period } => {
                if part == LimitPart::PodLimit {
                    self.pod_limit = quota.milli();
                }
                set(&mut self.quota, quota, key, at, report);
                if let Some(period) = period {
                    set(&mut self.period, period, key, at, report);
                }
            }
            LimitValue::Period(period) => set(&mut self.period, period, key, at, report),
            LimitValue::Burst(burst) => set(&mut self.burst, burst, key, at, report),
            LimitValue::Slice(slice) => set(&mut self.slice, slice, key, at, report),
            LimitValue::Weight(weight) => set(&mut self.weight, weight, key, at, report),
            LimitValue::Request(milli) => set(&mut self.request, milli, key, at, report),
            LimitValue::Conversion(conversion) => set(&mut self.conversion, conversion, key, at, report),
            LimitValue::Idle(is_idle) => set(&mut self.is_idle, is_idle, key, at, report),
            LimitValue::ClampMin(value) => set(&mut self.clamp_min, value, key, at, report),
            LimitValue::ClampMax(value) => set(&mut self.clamp_max, value, key, at, report),
            LimitValue::RtRuntime(runtime) => set(&mut self.rt_runtime, runtime, key, at, report),
            LimitValue::RtPeriod(period) => set(&mut self.rt_period, period, key, at, report),
            LimitValue::RtMax(RtBandwidth { runtime, period }) => {
                set(&mut self.rt_runtime, runtime, key, at, report);
                set(&mut self.rt_period, period, key, at, report);
            }
        }
    }

    /// Returns the limit; missing values stay as they were.
    fn max(&self, before: CpuMax, report: &mut Report) -> Option<CpuMax> {
        let period = self.period.map_or(before.period, |(period, ..)| period);
        let quota = self.quota.map_or(before.quota, |(quota, ..)| quota.per(period));
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

    /// Returns the time of real-time tasks, if it is said; a missing value stays as it was.
    fn rt(&self, before: RtBandwidth, report: &mut Report) -> Option<RtBandwidth> {
        let place = self.rt_runtime.map(|said| said.2).or(self.rt_period.map(|said| said.2))?;
        let runtime = self.rt_runtime.map_or(before.runtime, |(runtime, ..)| runtime);
        let period = self.rt_period.map_or(before.period, |(period, ..)| period);
        let bandwidth = RtBandwidth { runtime, period };
        if bandwidth.is_valid() {
            return Some(bandwidth);
        }
        let runtime = runtime.unwrap_or_default();
        let message = format!("cpu.rt_runtime_us {runtime} is above cpu.rt_period_us {period} (EINVAL)");
        report.error_help(place, message, "write a time up to the period, or -1 for no limit");
        None
    }

    /// Refuses the weight of an idle group: the kernel returns EINVAL.
    fn refuse_weight(&self, is_idle: bool, report: &mut Report) {
        if let Some((_, key, at)) = self.weight.filter(|_| is_idle) {
            let help = "leave it out, or write cpu.idle = 0";
            report.error_help(at, format!("`{key}` of a group that is idle (EINVAL)"), help);
        }
    }

    fn in_cpus(&self) -> InCpus {
        InCpus {
            limit_milli: self.quota.and_then(|(quota, ..)| quota.milli()),
            request_milli: self.request_milli().filter(|_| self.weight.is_none()),
            conversion: self.conversion(),
        }
    }

    fn request_milli(&self) -> Option<u64> {
        self.request.map(|(milli, ..)| milli).or(self.pod_limit)
    }

    fn conversion(&self) -> Conversion {
        self.conversion.map(|(conversion, ..)| conversion).unwrap_or_default()
    }

    fn weight(&self) -> Option<GroupWeight> {
        let requested = || self.request_milli().map(|milli| weight_of_request(milli, self.conversion()));
        self.weight.map(|(weight, ..)| weight).or_else(requested)
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

/// Returns a value as it is written; tables of limits read text.
fn text_of<'n>(key: &str, item: Item<'n, '_>, report: &mut Report) -> Option<Cow<'n, str>> {
    match item.get_ref() {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Integer(number) => {
            let text = number.value().map_or_else(|| number.as_str().into_owned(), |value| value.to_string());
            Some(Cow::Owned(text))
        }
        Value::Float(number) => Some(Cow::Owned(number.as_str().into_owned())),
        other => {
            report.error(span(item), format!("`{key}` is a number or a string, not {}", kind(other)));
            None
        }
    }
}

/// Returns the error of an unknown key of a group.
fn unknown(key: &str, at: Span) -> Diagnostic {
    match LimitPart::nearest(key) {
        Some(near) => unknown_key(key, at, &[], "a group").help(format!("did you mean `{near}`?")),
        None => {
            let known: Vec<&str> = LimitPart::keys().chain(["changes", "from", "until", PRESSURE]).collect();
            unknown_key(key, at, &known, "a group")
        }
    }
}
