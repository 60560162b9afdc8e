//! `[service.NAME]`: requests that arrive whether or not the service keeps up, a queue, and a pool
//! of threads that handle them.
//!
//! ```toml
//! [service.web]
//! arrivals = { poisson = "200/s" }
//! workers = 8
//! group = "/web"
//! steps = [{ run = { exponential = { mean = "4ms" } } }, { sleep = "2ms" }]
//! ```
//!
//! It becomes a queue, a source of arrivals, and a task of `workers` threads whose program takes a
//! request, executes the steps and completes it, forever. A service has the keys of a task that
//! set how its threads are scheduled. Random draws belong to the request, not to the thread that
//! handles it.

use super::ScenarioReader;
use super::table::{Item, Table, TableEntry, int, kind, span, string};
use super::task::plain_phase;
use super::times;
use super::tree::Value;
use crate::arrivals::{ArrivalSource, Arrivals};
use crate::assemble::{ResourceClass, TaskOrigin};
use crate::diagnostic::{Diagnostic, Report, Span};
use crate::input;
use crate::program::{Action, ResourceId, ResourceKind};
use crate::random::{Bounds, Dist, MAX_TIME};
use crate::{INSTANCES_MAX, LoadOptions};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zerolag_model::Duration;
use zerolag_model::settings::nearest;

/// Keys of a service: its own, and those of its threads.
pub(super) const KEYS: [&str; 22] = [
    "arrivals", "load", "workers", "queue", "requests", "until", "irq_cpus", "policy", "priority", "nice", "slice",
    "runtime", "deadline", "period", "flags", "cpus", "cpuset", "group", "process", "delay", "steps", "phase",
];

/// The kinds of arrivals.
pub(super) const ARRIVALS: [&str; 6] = ["fixed", "poisson", "every", "bursts", "times", "file"];

/// Keys of bursts.
pub(super) const BURST_KEYS: [&str; 3] = ["size", "every", "apart"];

/// The most times in a file of arrivals.
const TIMES_MAX: usize = 10_000_000;

impl ScenarioReader<'_> {
    /// Gives the tasks and services of the scenario their numbers, so that either may name the
    /// other.
    pub(super) fn number_tasks(&mut self, root: &Table<'_, '_>) {
        let mut names: BTreeMap<String, (usize, Span)> = BTreeMap::new();
        for key in ["task", "service"] {
            let Some(Value::Table(table)) = root.get(key).map(|entry| entry.item.get_ref()) else { continue };
            for entry in Table::new(table, Span::default()).entries() {
                let number = names.len();
                if let Some((_, first)) = names.get(entry.key) {
                    let message =
                        format!("`{}` is a task and a service: the service's threads bear its name", entry.key);
                    self.report.push(Diagnostic::error(entry.key_span, message).label(*first, "the task"));
                }
                if key == "service" {
                    self.service_names.push(entry.key.to_owned());
                }
                names.insert(entry.key.to_owned(), (number, entry.key_span));
            }
        }
        self.task_names = names.into_iter().map(|(name, (index, _))| (name, index)).collect();
    }

    /// Reads `[service]`, in the order of the text.
    pub(super) fn services(&mut self, root: &Table<'_, '_>, options: &LoadOptions, file: &str) {
        let Some(services) = root.get("service").and_then(|entry| Table::of("service", entry.item, self.report)) else {
            return;
        };
        for entry in services.entries() {
            self.assembly.origins.tasks.push(TaskOrigin { name: entry.key_span, phases: Vec::new() });
            let Some(table) = Table::of(entry.key, entry.item, self.report) else { continue };
            self.service(&entry, &table, options, file);
        }
    }

    fn service(&mut self, entry: &TableEntry<'_, '_>, table: &Table<'_, '_>, options: &LoadOptions, file: &str) {
        table.refuse_unknown(&KEYS, "a service", self.report);
        let workers = self.workers(entry, table);
        let arrivals = match table.get("arrivals") {
            Some(found) => self.arrivals(found.item, options, file),
            None => {
                self.unfed.push((entry.key.to_owned(), entry.key_span));
                None
            }
        };
        let capacity = table.int("queue", 1..=u64::from(u32::MAX), self.report);
        let capacity = capacity.and_then(|(capacity, _)| u32::try_from(capacity).ok());
        let queue = self.assembly.resource(entry.key, ResourceKind::Queue { capacity });
        // A step can have named it already.
        self.assembly.program.resources[queue.index()].kind = ResourceKind::Queue { capacity };
        let load_milli = table.get("load").map_or(Some(1000), |found| load(found.item, self.report)).unwrap_or(1000);
        let delay = table.time("delay", self.report).unwrap_or_default();
        let until = table.time("until", self.report);
        if until.is_some_and(|until| until <= delay)
            && let Some(found) = table.get("until")
        {
            self.report.error(span(found.item), format!("`until` is not after {delay}: no request ever arrives"));
        }
        let requests = table.int("requests", 1..=u64::from(u32::MAX), self.report).map(|(requests, _)| requests);
        let cpus = table.get("irq_cpus").and_then(|found| self.cpus("irq_cpus", found.item));
        let Some(task) = self.task_body(entry, table, workers) else { return };
        self.assembly.program.tasks.push(task);
        self.wrap_in_request(queue);
        let Some(arrivals) = arrivals else { return };
        let name: Arc<str> = entry.key.into();
        self.assembly.program.sources.push(ArrivalSource {
            name,
            queue,
            arrivals,
            load_milli,
            delay,
            until,
            requests,
            cpus,
        });
    }

    /// Returns the queue of the service that a step sends requests to.
    pub(super) fn queue_of(&mut self, key: &str, item: Item<'_, '_>) -> Option<ResourceId> {
        let name = string(key, item, self.report)?;
        if self.service_names.iter().any(|known| known == name) {
            return Some(self.assembly.resource(name, ResourceKind::Queue { capacity: None }));
        }
        let diagnostic = Diagnostic::error(span(item), format!("`{key}`: there is no service `{name}`"));
        self.report.push(match nearest(name, self.service_names.iter().map(String::as_str)) {
            Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
            None => diagnostic.help("write [service.NAME] with workers and steps"),
        });
        None
    }

    /// Reports services that never get a request.
    pub(super) fn check_fed(&mut self) {
        let program = &self.assembly.program;
        let called: Vec<ResourceId> = (0..program.tasks.len()).flat_map(|task| program.queues_called(task)).collect();
        for (name, span) in std::mem::take(&mut self.unfed) {
            let queue = self.assembly.find_resource(&name, ResourceClass::Queue);
            if queue.is_none_or(|queue| !called.contains(&queue)) {
                let message = format!("service `{name}` without `arrivals`, and no task calls it");
                let help =
                    format!("write arrivals = {{ poisson = \"200/s\" }}, or a step {{ call = \"{name}\" }} elsewhere");
                self.report.error_help(span, message, help);
            }
        }
    }

    /// Makes the last task's program take a request at its start and complete it at its end.
    fn wrap_in_request(&mut self, queue: ResourceId) {
        let (Some(task), Some(origin)) =
            (self.assembly.program.tasks.last_mut(), self.assembly.origins.tasks.last_mut())
        else {
            return;
        };
        // The delay belongs to the arrivals: the threads wait from the start.
        task.delay = Duration::ZERO;
        let name = origin.name;
        let whole = match &mut task.phases[..] {
            [only] if only.loops == 1 && only.changes_nothing() => Some(only),
            _ => None,
        };
        if let Some(only) = whole {
            only.actions.insert(0, Action::Take(queue));
            only.actions.push(Action::Complete(queue));
            if let Some(phase) = origin.phases.first_mut() {
                phase.actions.insert(0, name);
                phase.actions.push(name);
            }
            return;
        }
        task.phases.insert(0, plain_phase("take", vec![Action::Take(queue)]));
        task.phases.push(plain_phase("done", vec![Action::Complete(queue)]));
        let around = || crate::assemble::PhaseOrigin { name, actions: vec![name] };
        origin.phases.insert(0, around());
        origin.phases.push(around());
    }

    /// Reads the number of workers: a number, `"cpus"`, or `"quota"`.
    fn workers(&mut self, entry: &TableEntry<'_, '_>, table: &Table<'_, '_>) -> u32 {
        let Some((count, at)) = self.threads("workers", table) else {
            if table.get("workers").is_none() {
                let help = "write workers = 8, or \"cpus\", or \"quota\"";
                self.report.error_help(entry.key_span, format!("service `{}` without `workers`", entry.key), help);
            }
            return 1;
        };
        if count == 0 {
            self.report.error(at, "`workers` = 0: no request would ever be handled");
        }
        self.count_instances(count, at);
        u32::try_from(count.min(INSTANCES_MAX)).unwrap_or(1)
    }

    /// Reads `arrivals`: a table of one key.
    fn arrivals(&mut self, item: Item<'_, '_>, options: &LoadOptions, file: &str) -> Option<Arrivals> {
        let table = Table::of("arrivals", item, self.report)?;
        let Some(entry) = table.only() else {
            let help = format!("one of {}, as in {{ poisson = \"200/s\" }}", ARRIVALS.join(", "));
            self.report.error_help(table.span, format!("`arrivals` with {} keys", table.entries().len()), help);
            return None;
        };
        match entry.key {
            "fixed" => rate("fixed", entry.item, self.report).map(|mean| Arrivals::Every(Dist::Constant(mean))),
            "poisson" => {
                let mean = rate("poisson", entry.item, self.report)?;
                let dist =
                    Dist::exponential(mean, Bounds::default()).expect("invariant: the mean is within the bounds");
                Some(Arrivals::Every(dist))
            }
            "every" => self.distance("every", entry.item).map(Arrivals::Every),
            "bursts" => self.bursts(entry.item),
            "times" => {
                let Value::Array(items) = entry.item.get_ref() else {
                    let help = "write times = [\"1ms\", \"2.5ms\"]";
                    self.report.error_help(span(entry.item), "`times` is an array of times", help);
                    return None;
                };
                let mut times = Vec::with_capacity(items.len());
                for item in items.iter() {
                    let time = times::time("times", item, self.report)?;
                    if times.last().is_some_and(|last| time < *last) {
                        self.report.error(span(item), format!("`times`: {time} is before the previous time"));
                        return None;
                    }
                    times.push(time);
                }
                Some(Arrivals::Times(times.into()))
            }
            "file" => self.arrivals_file(entry.item, options, file),
            other => {
                let diagnostic = Diagnostic::error(entry.key_span, format!("unknown arrivals `{other}`"));
                self.report.push(match nearest(other, ARRIVALS.into_iter()) {
                    Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                    None => diagnostic.help(format!("known are {}", ARRIVALS.join(", "))),
                });
                None
            }
        }
    }

    /// Reads a distance that must not always be zero: time would never pass.
    fn distance(&mut self, key: &str, item: Item<'_, '_>) -> Option<Dist> {
        let dist = times::dist(key, item, self.report)?;
        if dist.is_zero() {
            self.report.error(span(item), format!("`{key}` is zero: all requests would arrive at once"));
            return None;
        }
        Some(dist)
    }

    fn bursts(&mut self, item: Item<'_, '_>) -> Option<Arrivals> {
        let table = Table::of("bursts", item, self.report)?;
        table.refuse_unknown(&BURST_KEYS, "bursts", self.report);
        let mut missing = |key: &str| {
            if table.get(key).is_none() {
                let help = "write bursts = { size = 20, every = \"100ms\" }";
                self.report.error_help(table.span, format!("`bursts` without `{key}`"), help);
            }
        };
        missing("size");
        missing("every");
        let size = table.get("size").and_then(|entry| int("size", entry.item, 1..=1_000_000, self.report));
        let every = table.get("every").and_then(|entry| self.distance("every", entry.item));
        let apart = match table.get("apart") {
            Some(entry) => times::dist("apart", entry.item, self.report)?,
            None => Dist::Constant(Duration::ZERO),
        };
        Some(Arrivals::Bursts { size: u32::try_from(size?).unwrap_or(1), every: every?, apart })
    }

    /// Reads a file of times, one per line, in seconds; the first request arrives at once, the
    /// others at the file's distances from it.
    fn arrivals_file(&mut self, item: Item<'_, '_>, options: &LoadOptions, file: &str) -> Option<Arrivals> {
        let path = string("file", item, self.report)?;
        let Some(reader) = &options.includes else {
            self.report.error(span(item), format!("`file`: \"{path}\" cannot be read from here"));
            return None;
        };
        let full = Path::new(file).parent().unwrap_or(Path::new("")).join(path).display().to_string();
        let read = reader.read(&full).map_err(|reason| format!("cannot read \"{full}\": {reason}")).and_then(|bytes| {
            let text = input::text_of(&full, &bytes).map_err(|_| format!("\"{full}\" is not UTF-8 text"))?;
            times_of(text).map_err(|(line, reason)| format!("{full}:{line}: {reason}"))
        });
        match read {
            Ok(times) => Some(Arrivals::Times(times.into())),
            Err(reason) => {
                let help = "a file has one time per line, in seconds, in order: 0.0125";
                self.report.error_help(span(item), format!("`file`: {reason}"), help);
                None
            }
        }
    }
}

/// Reads a file of times; `#` starts a comment. A mistake is returned with its line.
fn times_of(text: &str) -> Result<Vec<Duration>, (usize, String)> {
    let mut times: Vec<Duration> = Vec::new();
    let mut first = None;
    for (index, line) in text.lines().enumerate() {
        let wrong = |reason: String| (index + 1, reason);
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let at = format!("{line}s")
            .parse::<Duration>()
            .map_err(|_| wrong(format!("`{line}` is not a number of seconds")))?;
        let first = *first.get_or_insert(at);
        if at < first.saturating_add(times.last().copied().unwrap_or_default()) {
            return Err(wrong(format!("{line} is before the previous time")));
        }
        if times.len() == TIMES_MAX {
            return Err(wrong(format!("there are more than {TIMES_MAX} times")));
        }
        times.push(at.saturating_sub(first));
    }
    if times.is_empty() { Err((1, "it contains no time".to_owned())) } else { Ok(times) }
}

/// Reads `load = 1.5`, in thousandths.
fn load(item: Item<'_, '_>, report: &mut Report) -> Option<u32> {
    let help = "write load = 1.5 for half as many requests again";
    let text = match item.get_ref() {
        Value::Float(number) => number.as_str(),
        Value::Integer(number) => number.as_str(),
        // `--set load=1.5` of a parameter gives a text.
        Value::String(text) => text.clone(),
        other => {
            report.error_help(span(item), format!("`load` is a number, not {}", kind(other)), help);
            return None;
        }
    };
    match text.parse::<f64>() {
        Ok(number) if (0.001..=1000.0).contains(&number) => Some((number * 1000.0).round() as u32),
        _ => {
            let text: String = text.chars().take(20).collect();
            report.error_help(span(item), format!("`load` = {text} is not a number from 0.001 to 1000"), help);
            None
        }
    }
}

/// Reads a rate as the mean distance of its events: `"200/s"`, `"0.5/ms"`, `"90/m"`.
fn rate(what: &str, item: Item<'_, '_>, report: &mut Report) -> Option<Duration> {
    let help = "write \"200/s\", or per ms, m, h";
    let text = match item.get_ref() {
        Value::String(text) => text,
        Value::Integer(number) => {
            report.error_help(span(item), format!("`{what}` = {number} has no unit"), help);
            return None;
        }
        other => {
            report.error_help(span(item), format!("`{what}` is a rate, not {}", kind(other)), help);
            return None;
        }
    };
    let units = [("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
    let parts = text.split_once('/').map(|(number, unit)| (number.trim().parse::<f64>(), unit.trim()));
    let mean = match parts {
        Some((Ok(number), unit)) if number > 0.0 => {
            units.iter().find(|(name, _)| *name == unit).map(|(_, ns)| ns / number)
        }
        _ => None,
    };
    let Some(mean) = mean else {
        report.error_help(span(item), format!("`{what}` = \"{text}\" is not a rate"), help);
        return None;
    };
    if !(1.0..=MAX_TIME.as_nanos() as f64).contains(&mean) {
        report.error(span(item), format!("`{what}` = \"{text}\" is outside 1 in 10 years to 1000000/ms"));
        return None;
    }
    Some(Duration::from_nanos((mean + 0.5) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_times_count_from_their_first() {
        let times = times_of("# access log\n1700000000.5\n\n1700000000.5 # twice\n1700000001.25\n").expect("times");
        let ms: Vec<u64> = times.iter().map(|time| time.as_nanos() / 1_000_000).collect();
        assert_eq!(ms, [0, 0, 750]);
        assert_eq!(times_of("1\nx\n"), Err((2, "`x` is not a number of seconds".to_owned())));
        assert_eq!(times_of("2\n1\n"), Err((2, "1 is before the previous time".to_owned())));
        assert!(times_of("\n").is_err());
    }
}
