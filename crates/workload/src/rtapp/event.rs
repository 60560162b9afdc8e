//! Events of rt-app: keys by prefix, in rt-app's order of matching.
//!
//! Any key that *starts* with an event's name is that event: `run1`, `timer_audio`, but also
//! `running` and `memory_is_fun`. Where names overlap, rt-app's order of matching decides:
//! `runtime` before `run`, `memrun` before `mem`.
//!
//! `mem`, `iorun` and `memrun` depend on the memory of a machine, which is not simulated: they
//! become CPU time at the costs below, with a note.
//!
//! Source: rt-app 55cb0c0 `src/rt-app_parse_config.c`, `obj_is_event` and `parse_task_event_data`;
//! `src/rt-app.c`, `run_event`.

use super::json::{Node, Value};
use super::object::{self, INT, Object};
use super::state::{BufferLayout, ChaseOrder, Lower, TaskScope};
use crate::assemble::ResourceClass;
use crate::diagnostic::{Diagnostic, Severity, Span};
use crate::program::{Action, ResourceKind, TimerMode, TimerRef};
use crate::random::Dist;
use zerolag_model::Duration;

/// Bytes that `mem`, `iorun` and `memrun` (read, write) touch per microsecond: 10 GB/s.
pub const MEMORY_BYTES_PER_US: u64 = 10_000;
/// Time of one step of a `memrun` chase in random order: a cache miss.
pub const CHASE_RANDOM: Duration = Duration::from_nanos(100);
/// Time of one step of a `memrun` chase in sequential order: the prefetcher hides the miss.
pub const CHASE_SEQUENTIAL: Duration = Duration::from_nanos(5);
/// CPU time between two reads of the clock of `runtime`.
pub const RUNTIME_CHUNK: Duration = Duration::from_micros(32);

/// The event of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Run,
    Runtime,
    Sleep,
    Memrun,
    Mem,
    Iorun,
    Lock,
    Unlock,
    Signal,
    Broad,
    Wait,
    Sync,
    Barrier,
    Timer,
    Resume,
    Suspend,
    Yield,
    Fork,
    SemPost,
    SemWait,
}

/// Prefixes by first letter; within a letter in rt-app's order of matching.
const PREFIXES: [(&str, Event); 20] = [
    ("broad", Event::Broad),
    ("barrier", Event::Barrier),
    ("fork", Event::Fork),
    ("iorun", Event::Iorun),
    ("lock", Event::Lock),
    ("memrun", Event::Memrun),
    ("mem", Event::Mem),
    ("runtime", Event::Runtime),
    ("run", Event::Run),
    ("resume", Event::Resume),
    ("sleep", Event::Sleep),
    ("signal", Event::Signal),
    ("sync", Event::Sync),
    ("suspend", Event::Suspend),
    ("sem_post", Event::SemPost),
    ("sem_wait", Event::SemWait),
    ("timer", Event::Timer),
    ("unlock", Event::Unlock),
    ("wait", Event::Wait),
    ("yield", Event::Yield),
];

/// The first prefix of each letter; the next letter's first one ends the range.
const LETTERS: [u8; 27] = {
    let mut begins = [PREFIXES.len() as u8; 27];
    let mut letter = 26;
    while letter > 0 {
        letter -= 1;
        begins[letter] = begins[letter + 1];
        while begins[letter] > 0 && PREFIXES[begins[letter] as usize - 1].0.as_bytes()[0] == b'a' + letter as u8 {
            begins[letter] -= 1;
        }
    }
    assert!(begins[0] == 0, "the prefixes are in order of their first letters");
    begins
};

impl Event {
    /// Returns the event of a key.
    pub(super) fn of(key: &str) -> Option<Self> {
        let letter = usize::from(key.as_bytes().first()?.checked_sub(b'a').filter(|letter| *letter < 26)?);
        let known = &PREFIXES[usize::from(LETTERS[letter])..usize::from(LETTERS[letter + 1])];
        known.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, event)| *event)
    }

    /// All names, for suggestions.
    pub(super) const NAMES: [&str; PREFIXES.len()] = {
        let mut names = [""; PREFIXES.len()];
        let mut place = 0;
        while place < names.len() {
            names[place] = PREFIXES[place].0;
            place += 1;
        }
        names
    };
}

impl Lower<'_> {
    /// Lowers one event. Mistakes are reported.
    pub(super) fn event(
        &mut self,
        event: Event,
        key: &str,
        node: &Node<'_>,
        task: &mut TaskScope<'_>,
    ) -> Option<Action> {
        if matches!(node.value, Value::Missing) {
            return None;
        }
        match event {
            Event::Run => self.time(key, node).map(Action::Run),
            Event::Sleep => self.time(key, node).map(Action::Sleep),
            Event::Runtime => self.time(key, node).map(|wall| Action::Spin { wall, chunk: RUNTIME_CHUNK }),
            Event::Memrun => self.memrun(key, node),
            Event::Mem | Event::Iorun => {
                let bytes = object::int(node, key, 0..=*INT.end(), self.report)?;
                Some(self.memory(key, node.span, memory_time(bytes)))
            }
            Event::Lock => self.mutex(key, node).map(Action::Lock),
            Event::Unlock => self.mutex(key, node).map(Action::Unlock),
            Event::Signal => self.condition(key, node).map(Action::Signal),
            Event::Broad => self.condition(key, node).map(Action::Broadcast),
            event @ (Event::Wait | Event::Sync) => {
                let object = Object::of(node, key, self.report)?;
                let unknown = ("unknown", node.span);
                let (condition, condition_span) = object.string("ref", self.report).unwrap_or(unknown);
                let (mutex, mutex_span) = object.string("mutex", self.report).unwrap_or(unknown);
                object.note_unknown(&[&["ref", "mutex"]], |_| false, self.report);
                let condition = self.resource(condition, condition_span, ResourceKind::Condition);
                let mutex = self.resource(mutex, mutex_span, self.mutex_kind());
                Some(match event {
                    Event::Sync => Action::Sync { condition, mutex },
                    _ => Action::Wait { condition, mutex },
                })
            }
            Event::Barrier => {
                let name = object::string(node, key, self.report)?;
                Some(self.barrier(name, node.span, task))
            }
            Event::Timer => self.timer(key, node, task),
            Event::Resume => {
                let name = object::string(node, key, self.report)?;
                Some(Action::Resume(self.resource(name, node.span, ResourceKind::SuspendPoint)))
            }
            Event::Suspend => {
                if let Value::String(name) = &node.value
                    && !name.is_empty()
                    && **name != *task.name
                {
                    let message =
                        format!("\"{key}\": \"{name}\" is ignored: a task suspends itself as \"{}\"", task.name);
                    let help = format!("resume it by \"resume\": \"{}\"", task.name);
                    self.report.push(Diagnostic::warning(node.span, message).help(help));
                }
                Some(Action::Suspend(self.resource(task.name, node.span, ResourceKind::SuspendPoint)))
            }
            Event::Yield => Some(Action::Yield),
            Event::Fork => self.fork(key, node),
            Event::SemPost => self.semaphore(key, node).map(Action::SemPost),
            Event::SemWait => self.semaphore(key, node).map(Action::SemWait),
        }
    }

    fn time(&mut self, key: &str, node: &Node<'_>) -> Option<Dist> {
        object::micros(node, key, self.report).map(Dist::Constant)
    }

    fn mutex(&mut self, key: &str, node: &Node<'_>) -> Option<crate::program::ResourceId> {
        let name = object::string(node, key, self.report)?;
        Some(self.resource(name, node.span, self.mutex_kind()))
    }

    fn condition(&mut self, key: &str, node: &Node<'_>) -> Option<crate::program::ResourceId> {
        let name = object::string(node, key, self.report)?;
        Some(self.resource(name, node.span, ResourceKind::Condition))
    }

    fn semaphore(&mut self, key: &str, node: &Node<'_>) -> Option<crate::program::ResourceId> {
        let name = object::string(node, key, self.report)?;
        Some(self.resource(name, node.span, ResourceKind::Semaphore { initial: 0 }))
    }

    /// Counts the task's instances among the parties.
    fn barrier(&mut self, name: &str, span: Span, task: &TaskScope<'_>) -> Action {
        let id = self.resource(name, span, ResourceKind::Barrier { parties: 0 });
        if let ResourceKind::Barrier { parties } = &mut self.assembly.program.resources[id.index()].kind {
            *parties = parties.saturating_add(task.instances);
        }
        Action::Barrier(id)
    }

    fn timer(&mut self, key: &str, node: &Node<'_>, task: &mut TaskScope<'_>) -> Option<Action> {
        let object = Object::of(node, key, self.report)?;
        let (name, span) = object.string("ref", self.report).unwrap_or(("unknown", node.span));
        let period = object.micros("period", self.report).map_or(Duration::ZERO, |(period, _)| period);
        // Any mode that does not start with "absolute" is relative.
        let mode = match object.string("mode", self.report) {
            Some((mode, _)) if mode.starts_with("absolute") => TimerMode::Absolute,
            Some((mode, span)) if mode != "relative" => {
                let message = format!("\"mode\": \"{mode}\" is unknown and means relative");
                self.report.push(Diagnostic::warning(span, message).help("known are relative and absolute"));
                TimerMode::Relative
            }
            Some(_) | None => TimerMode::Relative,
        };
        object.note_unknown(&[&["ref", "period", "mode"]], |_| false, self.report);
        let timer = if name.starts_with("unique") {
            let place = task.own_timers.iter().position(|(own, _)| own == name).unwrap_or_else(|| {
                task.own_timers.push((name.to_string(), TimerMode::Relative));
                task.own_timers.len() - 1
            });
            if mode == TimerMode::Absolute {
                task.own_timers[place].1 = mode;
            }
            TimerRef::Own(u32::try_from(place).expect("invariant: inputs are below 4 GiB"))
        } else {
            let id = self.resource(name, span, ResourceKind::Timer);
            if mode == TimerMode::Absolute {
                self.absolute_timers.insert(id);
            }
            TimerRef::Shared(id)
        };
        Some(Action::Timer { timer, period: Dist::Constant(period), mode })
    }

    fn fork(&mut self, key: &str, node: &Node<'_>) -> Option<Action> {
        let name = object::string(node, key, self.report)?;
        let Some(task) = self.task_names.get(name).copied() else {
            let near = zerolag_model::settings::nearest(name, self.task_names.keys().map(String::as_str));
            let diagnostic = Diagnostic::error(node.span, format!("\"{key}\": there is no task \"{name}\""));
            let diagnostic = match near {
                Some(near) => diagnostic.help(format!("did you mean \"{near}\"?")),
                None => diagnostic,
            };
            self.report.push(diagnostic);
            return None;
        };
        Some(Action::Fork(task))
    }

    fn memrun(&mut self, key: &str, node: &Node<'_>) -> Option<Action> {
        let object = Object::of(node, key, self.report)?;
        let mut required = |key: &str| {
            if object.get(key).is_none() {
                self.report.error(node.span, format!("memrun without \"{key}\""));
            }
        };
        required("type");
        required("size");
        required("count");
        let (kind, kind_span) = object.string("type", self.report)?;
        let size = object.int("size", 1..=*INT.end(), self.report);
        let count = object.int("count", 0..=*INT.end(), self.report);
        let stride = object.int("stride", 1..=*INT.end(), self.report).map_or(64, |(stride, _)| stride);
        let order = match object.string("pattern", self.report) {
            Some(("sequential", _)) => ChaseOrder::Sequential,
            Some(_) | None => ChaseOrder::Random,
        };
        object.note_unknown(&[&["type", "size", "count", "stride", "pattern", "ref"]], |_| false, self.report);
        let ((size, size_span), (count, _)) = (size?, count?);
        let (cost, chase) = match kind {
            "chase" => {
                if size < 2 * stride {
                    self.report.error(size_span, format!("\"size\": {size} is below twice the stride {stride}"));
                    return None;
                }
                let step = match order {
                    ChaseOrder::Sequential => CHASE_SEQUENTIAL,
                    ChaseOrder::Random => CHASE_RANDOM,
                };
                (step * count.unsigned_abs(), Some((stride, order)))
            }
            "read" | "write" => (memory_time(count), None),
            _ => {
                let message = format!("\"type\": \"{kind}\" is unknown");
                self.report.error_help(kind_span, message, "known are read, write and chase");
                return None;
            }
        };
        if let Some((name, span)) = object.string("ref", self.report) {
            // A pair of (type, name) is one buffer, whose size, stride and order must agree.
            let layout = BufferLayout { size, chase };
            let key = (kind.to_string(), name.to_string());
            let (first, first_span) = *self.buffers.entry(key).or_insert((layout, span));
            if first != layout {
                let message = format!("buffer \"{name}\" is shared with another size, stride or pattern");
                self.report.push(Diagnostic::error(span, message).label(first_span, "first used here"));
            }
        }
        Some(self.memory(key, node.span, cost))
    }

    /// Replaces memory traffic by CPU time.
    fn memory(&mut self, key: &str, span: Span, cost: Duration) -> Action {
        let message = format!("\"{key}\" is simulated as {cost} of CPU time");
        self.report.push(Diagnostic::new(Severity::Note, message).at(span));
        Action::Run(Dist::Constant(cost))
    }

    /// Returns the resource of a name, and warns if the file declares that name as another kind.
    pub(super) fn resource(&mut self, name: &str, span: Span, kind: ResourceKind) -> crate::program::ResourceId {
        if let Some((declared, declared_span)) = self.declared.get(name)
            && *declared != ResourceClass::of(&kind)
            && ResourceClass::of(&kind) != ResourceClass::SuspendPoint
        {
            let (declared, used) = (declared.name(), ResourceClass::of(&kind).name());
            let message = format!("\"{name}\" is declared as a {declared} and used as a {used}: these are two things");
            self.report.push(Diagnostic::warning(span, message).label(*declared_span, "declared here"));
        }
        self.assembly.resource(name, kind)
    }
}

fn memory_time(bytes: i64) -> Duration {
    Duration::from_micros(bytes.unsigned_abs()).mul_div_ceil(1, MEMORY_BYTES_PER_US)
}
