//! `steps`: the actions of a task, one table of one key per step (`{ run = "2ms" }`), or a word for
//! steps without a value (`"yield"`, `"suspend"`). A system call is a step with steps of its own,
//! all in kernel mode.
//!
//! Names are rt-app's, except that rt-app's `runtime` is called `spin` and conditions are named by
//! `condition`.

use super::ScenarioReader;
use super::scope::TaskScope;
use super::table::{Item, Table, TableEntry, int, kind, span, string};
use super::tree::Value;
use super::{shared, times};
use crate::assemble::ResourceClass;
use crate::diagnostic::{Diagnostic, Span};
use crate::program::{Access, Action, KernelAction, ReadAction, ResourceId, ResourceKind, TimerMode, TimerRef};
use crate::random::Dist;
use crate::rtapp::RUNTIME_CHUNK;
use zerolag_model::Duration;
use zerolag_model::settings::nearest;

pub(super) const STEPS: [&str; 40] = [
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
    "call",
    "send",
    "stamp",
    "syscall",
    "cond_resched",
    "down_read",
    "up_read",
    "down_write",
    "up_write",
    "spin_lock",
    "spin_unlock",
    "user_spin_lock",
    "user_spin_unlock",
    "preempt_off",
    "irqs_off",
    "bh_off",
    "rcu_read",
    "synchronize_rcu",
    "pipe_write",
    "pipe_read",
    "io",
    "read",
];

pub(super) const PIPE_STEP_KEYS: [&str; 2] = ["pipe", "bytes"];
/// The default size of a pipe read or write: a page.
const PIPE_BYTES: u32 = 4096;
pub(super) const READ_KEYS: [&str; 4] = ["file", "windows", "setup", "copy"];
/// Words that are steps by themselves.
pub(super) const WORDS: [&str; 4] = ["yield", "suspend", "cond_resched", "synchronize_rcu"];

/// The context of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepContext {
    User,
    /// In a system call: computations are kernel-mode work.
    Kernel,
}

/// Actions, and their positions.
#[derive(Default)]
struct SpannedActions {
    actions: Vec<Action>,
    spans: Vec<Span>,
}

impl SpannedActions {
    fn push(&mut self, action: Action, span: Span) {
        self.actions.push(action);
        self.spans.push(span);
    }
}

impl ScenarioReader<'_> {
    /// Reads `steps`; returns actions and their positions.
    pub(super) fn steps(&mut self, entry: TableEntry<'_, '_>, scope: &mut TaskScope<'_>) -> (Vec<Action>, Vec<Span>) {
        let Value::Array(items) = entry.item.get_ref() else {
            let message = format!("`steps` is an array, not {}", kind(entry.item.get_ref()));
            self.report.error_help(span(entry.item), message, "write steps = [{ run = \"1ms\" }, { sleep = \"9ms\" }]");
            return (Vec::new(), Vec::new());
        };
        if items.is_empty() {
            self.report.error(span(entry.item), "`steps` is empty");
        }
        let mut steps = SpannedActions::default();
        for item in items.iter() {
            self.step(item, StepContext::User, scope, &mut steps);
        }
        (steps.actions, steps.spans)
    }

    fn step(&mut self, item: Item<'_, '_>, mode: StepContext, scope: &mut TaskScope<'_>, steps: &mut SpannedActions) {
        let action = match item.get_ref() {
            Value::String(word) => match &**word {
                "yield" => Some(Action::Yield),
                "suspend" => self.suspend(scope),
                "cond_resched" => {
                    self.in_syscall("cond_resched", item, mode).then_some(KernelAction::CondResched.into())
                }
                "synchronize_rcu" => {
                    self.in_syscall("synchronize_rcu", item, mode).then_some(KernelAction::SynchronizeRcu.into())
                }
                other => {
                    let message = format!("step \"{other}\" is unknown or needs a value");
                    self.report.error_help(
                        span(item),
                        message,
                        "write \"yield\", \"suspend\", \"cond_resched\" or \"synchronize_rcu\" alone; other steps as { run = \"1ms\" }",
                    );
                    None
                }
            },
            Value::Table(table) => {
                let table = Table::new(table, span(item));
                let Some(entry) = table.only() else {
                    let help = "each step is a table of its own: { run = \"1ms\" }, { sleep = \"9ms\" }";
                    self.report.error_help(span(item), format!("a step with {} keys", table.entries().len()), help);
                    return;
                };
                if entry.key == "syscall" {
                    self.syscall(entry, mode, scope, steps);
                    return;
                }
                if matches!(entry.key, "preempt_off" | "bh_off" | "rcu_read") {
                    self.section(entry, mode, steps);
                    return;
                }
                self.action(entry, mode, scope)
            }
            other => {
                let message = format!("a step is a table, not {}", kind(other));
                self.report.error_help(span(item), message, "write { run = \"1ms\" }");
                None
            }
        };
        if let Some(action) = action {
            steps.push(action, span(item));
        }
    }

    /// `{ syscall = [{ run = "10us" }, { lock = "inode" }, ...] }`.
    fn syscall(
        &mut self,
        entry: TableEntry<'_, '_>,
        mode: StepContext,
        scope: &mut TaskScope<'_>,
        steps: &mut SpannedActions,
    ) {
        if mode == StepContext::Kernel {
            self.report.error(entry.key_span, "a system call within a system call");
            return;
        }
        let Value::Array(items) = entry.item.get_ref() else {
            let message = format!("`syscall` is an array of steps, not {}", kind(entry.item.get_ref()));
            self.report.error_help(span(entry.item), message, "write { syscall = [{ run = \"10us\" }] }");
            return;
        };
        steps.push(KernelAction::SyscallEnter.into(), entry.key_span);
        for item in items.iter() {
            self.step(item, StepContext::Kernel, scope, steps);
        }
        steps.push(KernelAction::SyscallExit.into(), entry.key_span);
    }

    /// `{ preempt_off = "50us" }`, `{ bh_off = "50us" }`, `{ rcu_read = "50us" }`: computes without
    /// being preempted, without softirqs, or as a reader of RCU.
    fn section(&mut self, entry: TableEntry<'_, '_>, mode: StepContext, steps: &mut SpannedActions) {
        let inside = self.in_syscall(entry.key, entry.item, mode);
        let Some(time) = times::dist(entry.key, entry.item, self.report).filter(|_| inside) else { return };
        let (begins, ends) = match entry.key {
            "preempt_off" => (KernelAction::PreemptDisable, KernelAction::PreemptEnable),
            "rcu_read" => (KernelAction::RcuLock, KernelAction::RcuUnlock),
            _ => (KernelAction::BhDisable, KernelAction::BhEnable),
        };
        for action in [begins.into(), Action::Kernel(time), ends.into()] {
            steps.push(action, entry.key_span);
        }
    }

    /// Reports steps that are only valid in a system call.
    fn in_syscall(&mut self, key: &str, item: Item<'_, '_>, mode: StepContext) -> bool {
        if mode == StepContext::User {
            let help = format!("write {{ syscall = [{{ run = \"10us\" }}, \"{key}\"] }}");
            self.report.error_help(span(item), format!("`{key}` outside a system call"), help);
        }
        mode == StepContext::Kernel
    }

    fn user_spin(&mut self, key: &str, item: Item<'_, '_>) -> Option<ResourceId> {
        self.named(key, item, ResourceKind::UserSpinLock { extends_slice: false })
    }

    #[expect(clippy::too_many_lines, reason = "one arm per step")]
    fn action(&mut self, entry: TableEntry<'_, '_>, mode: StepContext, scope: &mut TaskScope<'_>) -> Option<Action> {
        let TableEntry { key, item, .. } = entry;
        let time = |reader: &mut Self| times::dist(key, item, reader.report);
        let semaphore = ResourceKind::Semaphore { initial: 0 };
        let rw = |reader: &mut Self| {
            let inside = reader.in_syscall(key, item, mode);
            reader.named(key, item, ResourceKind::RwSemaphore).filter(|_| inside)
        };
        let spin = |reader: &mut Self| {
            let inside = reader.in_syscall(key, item, mode);
            reader.named(key, item, ResourceKind::SpinLock).filter(|_| inside)
        };
        match (key, mode) {
            ("run", StepContext::User) => time(self).map(Action::Run),
            ("run" | "kernel", _) => time(self).map(Action::Kernel),
            (
                "spin" | "fork" | "stamp" | "suspend" | "yield" | "user_spin_lock" | "user_spin_unlock",
                StepContext::Kernel,
            ) => {
                self.report.error(entry.key_span, format!("`{key}` is not a step of a system call"));
                None
            }
            ("cond_resched", _) => (self.is_true(key, item) && self.in_syscall(key, item, mode))
                .then_some(KernelAction::CondResched.into()),
            ("synchronize_rcu", _) => (self.is_true(key, item) && self.in_syscall(key, item, mode))
                .then_some(KernelAction::SynchronizeRcu.into()),
            ("down_read", _) => rw(self).map(|semaphore| KernelAction::Down { semaphore, access: Access::Read }.into()),
            ("up_read", _) => rw(self).map(|semaphore| KernelAction::Up { semaphore, access: Access::Read }.into()),
            ("down_write", _) => {
                rw(self).map(|semaphore| KernelAction::Down { semaphore, access: Access::Write }.into())
            }
            ("up_write", _) => rw(self).map(|semaphore| KernelAction::Up { semaphore, access: Access::Write }.into()),
            ("spin_lock", _) => spin(self).map(|lock| KernelAction::SpinLock(lock).into()),
            ("spin_unlock", _) => spin(self).map(|lock| KernelAction::SpinUnlock(lock).into()),
            ("user_spin_lock", _) => self.user_spin(key, item).map(|lock| KernelAction::UserSpinLock(lock).into()),
            ("user_spin_unlock", _) => self.user_spin(key, item).map(|lock| KernelAction::UserSpinUnlock(lock).into()),
            ("irqs_off", _) => {
                let inside = self.in_syscall(key, item, mode);
                time(self).filter(|_| inside).map(|time| KernelAction::IrqsOff(time).into())
            }
            ("pipe_write", _) => self.pipe(key, item).map(|(pipe, bytes)| Action::PipeWrite { pipe, bytes }),
            ("pipe_read", _) => self.pipe(key, item).map(|(pipe, bytes)| Action::PipeRead { pipe, bytes }),
            ("io", _) => self.io(item),
            ("read", _) => {
                let inside = self.in_syscall(key, item, mode);
                self.read(item).filter(|_| inside)
            }
            ("sleep", _) => time(self).map(Action::Sleep),
            ("spin", _) => self.spin(item),
            ("timer", _) => self.timer(item, scope),
            ("lock", _) => self.named(key, item, ResourceKind::Mutex { inherit: false }).map(Action::Lock),
            ("unlock", _) => self.named(key, item, ResourceKind::Mutex { inherit: false }).map(Action::Unlock),
            ("signal", _) => self.named(key, item, ResourceKind::Condition).map(Action::Signal),
            ("broadcast", _) => self.named(key, item, ResourceKind::Condition).map(Action::Broadcast),
            ("wait", _) => {
                self.condition_and_mutex(key, item).map(|(condition, mutex)| Action::Wait { condition, mutex })
            }
            ("sync", _) => {
                self.condition_and_mutex(key, item).map(|(condition, mutex)| Action::Sync { condition, mutex })
            }
            ("barrier", _) => {
                let id = self.named(key, item, ResourceKind::Barrier { parties: 0 })?;
                self.count_parties(id, scope);
                Some(Action::Barrier(id))
            }
            ("sem_post", _) => self.named(key, item, semaphore).map(Action::SemPost),
            ("sem_wait", _) => self.named(key, item, semaphore).map(Action::SemWait),
            ("suspend", _) => self.is_true(key, item).then(|| self.suspend(scope))?,
            ("yield", _) => self.is_true(key, item).then_some(Action::Yield),
            ("resume", _) => {
                let name = string(key, item, self.report)?;
                self.task_named(key, name, span(item))?;
                self.resource(name, span(item), ResourceKind::SuspendPoint).map(Action::Resume)
            }
            ("fork", _) => {
                let name = string(key, item, self.report)?;
                self.task_named(key, name, span(item)).map(Action::Fork)
            }
            ("call" | "send", StepContext::Kernel) => {
                self.report.error(entry.key_span, format!("`{key}` is not a step of a system call"));
                None
            }
            ("call", StepContext::User) => self.queue_of(key, item).map(Action::Call),
            ("send", StepContext::User) => self.queue_of(key, item).map(Action::Send),
            ("stamp", _) => {
                let label = int(key, item, 0..=u64::from(u32::MAX), self.report)?;
                Some(Action::Stamp(u32::try_from(label).unwrap_or(u32::MAX)))
            }
            (other, _) => {
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

    /// `{ read = { file = "big", windows = 8, setup = "20us", copy = "40us" } }`.
    fn read(&mut self, item: Item<'_, '_>) -> Option<Action> {
        let table = Table::of("read", item, self.report)?;
        table.refuse_unknown(&READ_KEYS, "read", self.report);
        let windows = table.int("windows", 1..=u64::from(u32::MAX), self.report);
        let windows = windows.map_or(1, |(windows, _)| u32::try_from(windows).unwrap_or(u32::MAX));
        let mut time = |name: &str, usual: Duration| match table.get(name) {
            Some(entry) => times::dist(name, entry.item, self.report),
            None => Some(Dist::Constant(usual)),
        };
        let (setup, copy) = (time("setup", Duration::from_micros(20)), time("copy", Duration::from_micros(40)));
        let Some(file) = table.get("file") else {
            let help = "write { read = { file = \"big\" } }, and [file.big]";
            self.report.error_help(table.span, "`read` without `file`", help);
            return None;
        };
        let name = string("file", file.item, self.report)?;
        let known = self.assembly.find_resource(name, ResourceClass::File);
        if known.is_none() {
            let help = format!("write [file.{name}] with disk and size");
            self.report.error_help(span(file.item), format!("there is no file `{name}`"), help);
        }
        Some(KernelAction::Read(ReadAction { file: known?, windows, setup: setup?, copy: copy? }).into())
    }

    /// `{ pipe_write = "p" }`, or `{ pipe_write = { pipe = "p", bytes = 4096 } }`.
    fn pipe(&mut self, key: &str, item: Item<'_, '_>) -> Option<(ResourceId, u32)> {
        if matches!(item.get_ref(), Value::String(_)) {
            return self.named(key, item, shared::PIPE).map(|pipe| (pipe, PIPE_BYTES));
        }
        let table = Table::of(key, item, self.report)?;
        table.refuse_unknown(&PIPE_STEP_KEYS, key, self.report);
        let bytes = table.int("bytes", 1..=1 << 30, self.report).map_or(PIPE_BYTES, |(bytes, _)| bytes as u32);
        let Some(pipe) = table.get("pipe") else {
            let help = format!("write {{ {key} = {{ pipe = \"p\", bytes = 4096 }} }}");
            self.report.error_help(table.span, format!("`{key}` without `pipe`"), help);
            return None;
        };
        self.named("pipe", pipe.item, shared::PIPE).map(|pipe| (pipe, bytes))
    }

    /// `{ io = { disk = "sda", bytes = 4096 } }`.
    fn io(&mut self, item: Item<'_, '_>) -> Option<Action> {
        let table = Table::of("io", item, self.report)?;
        table.refuse_unknown(&["disk", "bytes"], "io", self.report);
        let bytes = table.int("bytes", 0..=u64::MAX, self.report).map_or(4096, |(bytes, _)| bytes);
        let Some(disk) = table.get("disk") else {
            let help = "write { io = { disk = \"sda\", bytes = 4096 } }";
            self.report.error_help(table.span, "`io` without `disk`", help);
            return None;
        };
        let disk = self.named("disk", disk.item, ResourceKind::Disk(shared::DISK))?;
        Some(KernelAction::Io { disk, bytes }.into())
    }

    fn suspend(&mut self, scope: &TaskScope<'_>) -> Option<Action> {
        self.resource(scope.name, Span::default(), ResourceKind::SuspendPoint).map(Action::Suspend)
    }

    fn is_true(&mut self, key: &str, item: Item<'_, '_>) -> bool {
        let is_true = matches!(item.get_ref(), Value::Boolean(true));
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
        let chunked = matches!(item.get_ref(), Value::Table(table) if table.get("wall").is_some());
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
                if chunk.is_some_and(Duration::is_zero) {
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
        // A later step can set its mode: resolved when all steps are read.
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

/// Gives every step the mode of its timer; a timer without a mode is relative, as in rt-app.
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
