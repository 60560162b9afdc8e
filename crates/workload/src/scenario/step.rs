//! `steps`: what a task does, one table of one key per step (`{ run = "2ms" }`), or a word for what needs no value
//! (`"yield"`, `"suspend"`).
//!
//! Names are rt-app's, except that what rt-app calls `runtime` is `spin` and conditions are named `condition`.

use super::Reader;
use super::table::{Entry, Item, Table, int, kind, span, string};
use super::task::TaskScope;
use super::times;
use crate::diagnostic::{Diagnostic, Span};
use crate::program::{Action, ResourceId, ResourceKind, TimerMode, TimerRef};
use crate::rtapp::RUNTIME_CHUNK;
use toml::de::DeValue;
use zerolag_model::settings::nearest;

pub(super) const STEPS: [&str; 19] = [
    "run",
    "kernel",
    "spin",
    "sleep",
    "timer",
    "lock",
    "unlock",
    "wait",
    "sync",
    "signal",
    "broadcast",
    "barrier",
    "sem_post",
    "sem_wait",
    "suspend",
    "resume",
    "yield",
    "fork",
    "stamp",
];

impl Reader<'_> {
    /// Reads `steps`; returns actions and where they stand.
    pub(super) fn steps(&mut self, entry: Entry<'_, '_>, scope: &mut TaskScope<'_>) -> (Vec<Action>, Vec<Span>) {
        let DeValue::Array(items) = entry.item.get_ref() else {
            let message = format!("`steps` is an array, not {}", kind(entry.item.get_ref()));
            self.report.error_help(span(entry.item), message, "write steps = [{ run = \"1ms\" }, { sleep = \"9ms\" }]");
            return (Vec::new(), Vec::new());
        };
        if items.is_empty() {
            self.report.error(span(entry.item), "`steps` is empty");
        }
        let steps = items.iter().filter_map(|item| self.step(item, scope).map(|action| (action, span(item))));
        steps.collect()
    }

    fn step(&mut self, item: Item<'_, '_>, scope: &mut TaskScope<'_>) -> Option<Action> {
        match item.get_ref() {
            DeValue::String(word) => match &**word {
                "yield" => Some(Action::Yield),
                "suspend" => self.suspend(scope),
                other => {
                    let message = format!("step \"{other}\" is unknown or needs a value");
                    self.report.error_help(
                        span(item),
                        message,
                        "alone stand \"yield\" and \"suspend\"; else { run = \"1ms\" }",
                    );
                    None
                }
            },
            DeValue::Table(table) => {
                let table = Table::new(table, span(item));
                let [entry] = table.entries[..] else {
                    let help = "each step is a table of its own: { run = \"1ms\" }, { sleep = \"9ms\" }";
                    self.report.error_help(span(item), format!("a step with {} keys", table.entries.len()), help);
                    return None;
                };
                self.action(entry, scope)
            }
            other => {
                let message = format!("a step is a table, not {}", kind(other));
                self.report.error_help(span(item), message, "write { run = \"1ms\" }");
                None
            }
        }
    }

    fn action(&mut self, entry: Entry<'_, '_>, scope: &mut TaskScope<'_>) -> Option<Action> {
        let Entry { key, item, .. } = entry;
        let time = |reader: &mut Self| times::dist(key, item, reader.report);
        let semaphore = ResourceKind::Semaphore { initial: 0 };
        match key {
            "run" => time(self).map(Action::Run),
            "kernel" => time(self).map(Action::Kernel),
            "sleep" => time(self).map(Action::Sleep),
            "spin" => self.spin(item),
            "timer" => self.timer(item, scope),
            "lock" => self.named(key, item, ResourceKind::Mutex { inherit: false }).map(Action::Lock),
            "unlock" => self.named(key, item, ResourceKind::Mutex { inherit: false }).map(Action::Unlock),
            "signal" => self.named(key, item, ResourceKind::Condition).map(Action::Signal),
            "broadcast" => self.named(key, item, ResourceKind::Condition).map(Action::Broadcast),
            "wait" => self.condition_and_mutex(key, item).map(|(condition, mutex)| Action::Wait { condition, mutex }),
            "sync" => self.condition_and_mutex(key, item).map(|(condition, mutex)| Action::Sync { condition, mutex }),
            "barrier" => {
                let id = self.named(key, item, ResourceKind::Barrier { parties: 0 })?;
                self.count_parties(id, scope);
                Some(Action::Barrier(id))
            }
            "sem_post" => self.named(key, item, semaphore).map(Action::SemPost),
            "sem_wait" => self.named(key, item, semaphore).map(Action::SemWait),
            "suspend" => self.is_true(key, item).then(|| self.suspend(scope))?,
            "yield" => self.is_true(key, item).then_some(Action::Yield),
            "resume" => {
                let name = string(key, item, self.report)?;
                self.task_named(key, name, span(item))?;
                self.resource(name, span(item), ResourceKind::SuspendPoint).map(Action::Resume)
            }
            "fork" => {
                let name = string(key, item, self.report)?;
                self.task_named(key, name, span(item)).map(Action::Fork)
            }
            "stamp" => {
                let label = int(key, item, 0..=u64::from(u32::MAX), self.report)?;
                Some(Action::Stamp(u32::try_from(label).unwrap_or(u32::MAX)))
            }
            other => {
                let diagnostic = Diagnostic::error(entry.key_span, format!("unknown step `{other}`"));
                let near = if other == "runtime" { Some("spin") } else { nearest(other, STEPS.into_iter()) };
                self.report.push(match near {
                    Some(near) => diagnostic.help(format!("did you mean `{near}`?")),
                    None => diagnostic.help(format!("known are {}", STEPS.join(", "))),
                });
                None
            }
        }
    }

    fn suspend(&mut self, scope: &TaskScope<'_>) -> Option<Action> {
        self.resource(scope.name, Span::default(), ResourceKind::SuspendPoint).map(Action::Suspend)
    }

    fn is_true(&mut self, key: &str, item: Item<'_, '_>) -> bool {
        let is_true = matches!(item.get_ref(), DeValue::Boolean(true));
        if !is_true {
            self.report.error(span(item), format!("write \"{key}\" alone, or {{ {key} = true }}"));
        }
        is_true
    }

    fn named(&mut self, key: &str, item: Item<'_, '_>, kind: ResourceKind) -> Option<ResourceId> {
        let name = string(key, item, self.report)?;
        self.resource(name, span(item), kind)
    }

    fn condition_and_mutex(&mut self, key: &str, item: Item<'_, '_>) -> Option<(ResourceId, ResourceId)> {
        let table = Table::of(key, item, self.report)?;
        table.refuse_unknown(&["condition", "mutex"], key, self.report);
        let mut part = |name: &str, kind| match table.get(name) {
            Some(entry) => self.named(name, entry.item, kind),
            None => {
                let help = format!("write {{ {key} = {{ condition = \"c\", mutex = \"m\" }} }}");
                self.report.error_help(table.span, format!("`{key}` without `{name}`"), help);
                None
            }
        };
        let condition = part("condition", ResourceKind::Condition);
        let mutex = part("mutex", ResourceKind::Mutex { inherit: false });
        Some((condition?, mutex?))
    }

    /// `{ spin = "5ms" }`, `{ spin = { wall = "5ms", chunk = "32us" } }`, or a distribution.
    fn spin(&mut self, item: Item<'_, '_>) -> Option<Action> {
        let chunked = matches!(item.get_ref(), DeValue::Table(table) if table.contains_key("wall"));
        if !chunked {
            return times::dist("spin", item, self.report).map(|wall| Action::Spin { wall, chunk: RUNTIME_CHUNK });
        }
        let table = Table::of("spin", item, self.report)?;
        table.refuse_unknown(&["wall", "chunk"], "spin", self.report);
        let wall = table.get("wall").and_then(|entry| times::dist("wall", entry.item, self.report));
        let chunk = match table.get("chunk") {
            None => Some(RUNTIME_CHUNK),
            Some(entry) => {
                let chunk = times::time("chunk", entry.item, self.report);
                if chunk.is_some_and(zerolag_model::Duration::is_zero) {
                    self.report.error(span(entry.item), "`chunk` must be above zero");
                }
                chunk
            }
        };
        Some(Action::Spin { wall: wall?, chunk: chunk? })
    }

    /// `{ timer = { period = "10ms", mode = "absolute", name = "own" } }` or `shared = "tick"`.
    fn timer(&mut self, item: Item<'_, '_>, scope: &mut TaskScope<'_>) -> Option<Action> {
        let table = Table::of("timer", item, self.report)?;
        table.refuse_unknown(&["period", "mode", "name", "shared"], "timer", self.report);
        let Some(period) = table.get("period") else {
            self.report.error_help(table.span, "`timer` without `period`", "write { timer = { period = \"10ms\" } }");
            return None;
        };
        let period = times::dist("period", period.item, self.report);
        let mode = match table.string("mode", self.report) {
            Some((mode, span)) => self.timer_mode(mode, span).map(|mode| (mode, span)),
            None => None,
        };
        let shared = table.string("shared", self.report);
        if let (Some((_, span)), Some(_)) = (shared, table.get("name")) {
            self.report.error(span, "a timer is shared or has a name of its own, not both");
        }
        let timer = match shared {
            Some((name, at)) => {
                let id = self.resource(name, at, ResourceKind::Timer)?;
                if let Some(mode) = mode {
                    let first = *self.timer_modes.entry(id).or_insert(mode);
                    self.refuse_two_modes(name, mode, first);
                }
                TimerRef::Shared(id)
            }
            None => {
                let name = table.string("name", self.report).map_or("", |(name, _)| name);
                let known = scope.own_timers.iter().position(|(own, _)| own == name);
                let place = known.unwrap_or_else(|| {
                    scope.own_timers.push((name.to_string(), None));
                    scope.own_timers.len() - 1
                });
                if let Some(mode) = mode {
                    let first = *scope.own_timers[place].1.get_or_insert(mode);
                    self.refuse_two_modes(name, mode, first);
                }
                TimerRef::Own(u32::try_from(place).unwrap_or(u32::MAX))
            }
        };
        // Its mode may be said by a later step: settled when all are read.
        Some(Action::Timer { timer, period: period?, mode: TimerMode::Relative })
    }

    fn refuse_two_modes(&mut self, name: &str, (mode, span): (TimerMode, Span), (first, at): (TimerMode, Span)) {
        if mode != first {
            let message = match name {
                "" => "the unnamed timer has two modes".to_string(),
                name => format!("timer `{name}` has two modes"),
            };
            self.report.push(Diagnostic::error(span, message).label(at, "the other one"));
        }
    }
}

/// Gives every step the mode of its timer; a timer that states none is relative, as in rt-app.
pub(super) fn settle_modes<'p>(
    actions: impl Iterator<Item = &'p mut Action>,
    mode_of: impl Fn(TimerRef) -> Option<TimerMode>,
) {
    for action in actions {
        if let Action::Timer { timer, mode, .. } = action {
            *mode = mode_of(*timer).unwrap_or(*mode);
        }
    }
}
