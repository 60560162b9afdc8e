//! A [`Program`] as rt-app JSON: [`export`].
//!
//! An export that silently dropped parts would run a different workload. So the export fails if
//! rt-app cannot express the program, and names everything that it cannot. A program that was read
//! from an rt-app file is written so that reading it again gives the same program, except for
//! unused resources.
//!
//! Every task is written with `phases`, and an event whose name is already used gets a number.
//! `runtime` is always `runtime1` and so on: an event named exactly `runtime` would also ask for a
//! slice.

use super::RUNTIME_CHUNK;
use super::object::INT;
use crate::assemble::GROUP_WEIGHT_DEFAULT;
use crate::program::{
    Action, AffinityChange, OnRefused, Phase, Program, ResourceId, ResourceKind, TaskDef, TimerMode, TimerRef,
};
use crate::random::Dist;
use core::fmt::Write;
use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::{CpuMask, DlFlags, Duration, Policy, SchedAttr};

/// Returns the program as the text of an rt-app file.
///
/// # Errors
/// Everything that rt-app's grammar cannot express, a sentence each.
///
/// ```
/// use zerolag_workload::{LoadOptions, load, rtapp};
/// let text = br#"{"tasks": {"a": {"run": 1000, "timer": {"ref": "unique", "period": 5000}}}}"#;
/// let program = load("a.json", text, &LoadOptions::default())?.program;
/// let written = rtapp::export(&program, None).map_err(|unsaid| unsaid.join("\n")).expect("rt-app can say this");
/// assert_eq!(load("b.json", written.as_bytes(), &LoadOptions::default())?.program, program);
/// # Ok::<(), zerolag_workload::Diagnostics>(())
/// ```
pub fn export(program: &Program, duration: Option<Duration>) -> Result<String, Vec<String>> {
    let mut writer = Writer { program, out: String::new(), unsaid: BTreeSet::new(), inherits: None };
    writer.whole(duration);
    if writer.unsaid.is_empty() { Ok(writer.out) } else { Err(writer.unsaid.into_iter().collect()) }
}

struct Writer<'p> {
    program: &'p Program,
    out: String,
    unsaid: BTreeSet<String>,
    /// Whether mutexes inherit priority: rt-app has one switch for all.
    inherits: Option<bool>,
}

/// The members of one object: chooses their keys and separates them by commas.
#[derive(Default)]
struct ObjectKeys(BTreeMap<String, u64>);

impl ObjectKeys {
    /// Returns the key for one more event of a kind.
    fn event(&mut self, kind: &str) -> String {
        let count = self.0.entry(kind.to_owned()).or_insert(u64::from(kind == "runtime"));
        let key = if *count == 0 { kind.to_owned() } else { format!("{kind}{count}") };
        *count += 1;
        key
    }
}

impl Writer<'_> {
    fn whole(&mut self, duration: Option<Duration>) {
        if !self.program.cpusets.is_empty() {
            self.cannot("cpusets: write the CPUs of each task as `cpus` instead");
        }
        if self.program.on_refused != OnRefused::default() {
            self.cannot("going on when the kernel refuses something");
        }
        if !self.program.changes.is_empty() {
            self.cannot("changes at given times");
        }
        for line in &self.program.interrupts {
            self.cannot(&format!("interrupt line {}", line.name));
        }
        for group in &self.program.groups {
            if group.weight != GROUP_WEIGHT_DEFAULT {
                self.cannot(&format!("the weight of group {}", group.path));
            }
            if group.max.quota.is_some() {
                self.cannot(&format!("the limit of group {}", group.path));
            }
        }
        let mut tasks = String::new();
        for (place, task) in self.program.tasks.iter().enumerate() {
            self.out.clear();
            self.task(task);
            let comma = if place == 0 { "" } else { "," };
            write!(tasks, "{comma}\n\t\t{} : {}", quoted(&task.name), self.out).expect("a String takes it");
        }
        let seconds = match duration {
            None => -1,
            Some(time)
                if time.as_nanos().is_multiple_of(1_000_000_000) && time <= Duration::from_secs(*INT.end() as u64) =>
            {
                i64::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(-1)
            }
            Some(time) => {
                self.cannot(&format!("a duration of {time}: it takes whole seconds"));
                -1
            }
        };
        let inherits = self.inherits.unwrap_or(false);
        self.out = format!(
            "{{\n\t\"global\" : {{ \"duration\" : {seconds}, \"pi_enabled\" : {inherits} }},\n\t\"tasks\" : {{{tasks}\n\t}}\n}}\n"
        );
    }

    fn cannot(&mut self, what: &str) {
        self.unsaid.insert(what.to_owned());
    }

    fn task(&mut self, task: &TaskDef) {
        let turns = match task.turns {
            None => -1,
            Some(turns) => self.int(turns, || format!("{turns} turns of task {}", task.name)),
        };
        if let Some(process) = task.process.filter(|_| !self.program.is_one_process()) {
            let name = &self.program.processes[process];
            self.cannot(&format!("task {} is of process {name}, and not all are", task.name));
        }
        if let Some(cpu) = task.created_on {
            self.cannot(&format!("task {} is created on CPU {cpu}", task.name));
        }
        let delay = self.micros(task.delay, &task.name);
        let instances = self.int(u64::from(task.instances), || format!("{} instances", task.instances));
        write!(self.out, "{{\n\t\t\t\"instance\" : {instances}, \"delay\" : {delay}, \"loop\" : {turns}")
            .expect("a String takes it");
        self.attr(task.attr, None, &task.name);
        if let Some(cpus) = &task.affinity {
            self.cpus(cpus);
        }
        self.group(task.group);
        self.out.push_str(",\n\t\t\t\"phases\" : {");
        let mut attr = task.attr;
        let mut affinity: AffinityChange = task.affinity.clone().map_or(AffinityChange::Reset, AffinityChange::Set);
        let moves = task.phases.iter().any(|phase| phase.affinity != AffinityChange::Keep);
        let mut names: BTreeSet<String> = BTreeSet::new();
        let mut comma = "";
        for phase in task.phases.iter().filter(|phase| phase.loops > 0) {
            let mut name = phase.name.to_string();
            while !names.insert(name.clone()) {
                name.push('_');
            }
            write!(self.out, "{comma}\n\t\t\t\t{} : ", quoted(&name)).expect("a String takes it");
            comma = ",";
            let current = attr;
            attr = phase.attr.unwrap_or(attr);
            if phase.affinity != AffinityChange::Keep {
                affinity = phase.affinity.clone();
            }
            let place = PhaseContext { current, affinity: &affinity, moves, restricted: task.affinity.is_some() };
            self.phase(task, phase, &place);
        }
        if comma.is_empty() {
            self.cannot(&format!("task {}, which does nothing", task.name));
        }
        self.out.push_str("\n\t\t\t}\n\t\t}");
    }

    fn phase(&mut self, task: &TaskDef, phase: &Phase, place: &PhaseContext<'_>) {
        let loops = match phase.loops {
            u64::MAX => -1,
            loops => self.int(loops, || format!("{loops} loops of phase {}", phase.name)),
        };
        write!(self.out, "{{ \"loop\" : {loops}").expect("a String takes it");
        if let Some(attr) = phase.attr {
            self.attr(attr, Some(place.current), &task.name);
        }
        if place.moves {
            match place.affinity {
                AffinityChange::Set(cpus) => self.cpus(cpus),
                // A phase without `cpus` resets the affinity to the task's, which must then be all
                // CPUs.
                AffinityChange::Keep | AffinityChange::Reset if place.restricted => {
                    self.cannot(&format!("task {} going back from its CPUs to all", task.name));
                }
                AffinityChange::Keep | AffinityChange::Reset => {}
            }
        }
        self.group(phase.group);
        let mut keys = ObjectKeys::default();
        for action in &phase.actions {
            self.action(task, action, &mut keys);
        }
        self.out.push_str(" }");
    }

    fn attr(&mut self, attr: SchedAttr, current: Option<SchedAttr>, task: &str) {
        if attr.policy() == Policy::Ext {
            self.cannot(&format!("the policy SCHED_EXT of task {task}, which rt-app does not know"));
        }
        let mut member = |key: &str, value: String| {
            write!(self.out, ", \"{key}\" : {value}").expect("a String takes it");
        };
        member("policy", format!("\"{}\"", attr.policy()));
        match attr {
            SchedAttr::Ext { nice, .. } => member("priority", nice.value().to_string()),
            SchedAttr::Fair { nice, slice, .. } => {
                member("priority", nice.value().to_string());
                let kept = match current {
                    Some(SchedAttr::Fair { slice, .. }) => slice,
                    Some(SchedAttr::Rt { .. } | SchedAttr::Deadline(_) | SchedAttr::Ext { .. }) | None => None,
                };
                match (kept, slice) {
                    (kept, slice) if kept == slice => {}
                    (_, Some(slice)) => {
                        let slice = self.micros(slice, task);
                        write!(self.out, ", \"dl-runtime\" : {slice}").expect("a String takes it");
                    }
                    (_, None) => self.cannot(&format!("task {task} going back to the usual slice")),
                }
            }
            SchedAttr::Rt { priority, .. } => member("priority", priority.value().to_string()),
            SchedAttr::Deadline(params) => {
                if params.flags != DlFlags::NONE {
                    self.cannot(&format!("the flags of task {task}"));
                }
                for (key, time) in
                    [("dl-runtime", params.runtime), ("dl-period", params.period), ("dl-deadline", params.deadline)]
                {
                    let time = self.micros(time, task);
                    write!(self.out, ", \"{key}\" : {time}").expect("a String takes it");
                }
            }
        }
    }

    fn cpus(&mut self, cpus: &CpuMask) {
        let list: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        write!(self.out, ", \"cpus\" : [{}]", list.join(", ")).expect("a String takes it");
    }

    fn group(&mut self, group: Option<usize>) {
        if let Some(group) = group.and_then(|group| self.program.groups.get(group)) {
            write!(self.out, ", \"taskgroup\" : {}", quoted(&group.path)).expect("a String takes it");
        }
    }

    fn action(&mut self, task: &TaskDef, action: &Action, keys: &mut ObjectKeys) {
        let (kind, value) = match action {
            Action::Run(time) => ("run", self.time(time, &task.name)),
            Action::Sleep(time) => ("sleep", self.time(time, &task.name)),
            Action::Spin { wall, chunk } => {
                if *chunk != RUNTIME_CHUNK {
                    self.cannot(&format!("task {} looking at the clock every {chunk}", task.name));
                }
                ("runtime", self.time(wall, &task.name))
            }
            Action::Timer { timer, period, mode } => {
                let name = match timer {
                    TimerRef::Own(place) => format!("unique{place}"),
                    TimerRef::Shared(id) => {
                        let name = self.name(*id);
                        if name.starts_with("unique") {
                            self.cannot(&format!("a shared timer named {name}"));
                        }
                        name
                    }
                };
                let period = self.time(period, &task.name);
                let mode = match mode {
                    TimerMode::Relative => "",
                    TimerMode::Absolute => ", \"mode\" : \"absolute\"",
                    TimerMode::Skip => {
                        self.cannot(&format!("a timer that leaves expiries out (task {})", task.name));
                        ", \"mode\" : \"absolute\""
                    }
                };
                ("timer", format!("{{ \"ref\" : {}, \"period\" : {period}{mode} }}", quoted(&name)))
            }
            Action::Lock(id) => ("lock", self.mutex(*id)),
            Action::Unlock(id) => ("unlock", self.mutex(*id)),
            Action::Wait { condition, mutex } => ("wait", self.pair(*condition, *mutex)),
            Action::Sync { condition, mutex } => ("sync", self.pair(*condition, *mutex)),
            Action::Signal(id) => ("signal", quoted(&self.name(*id))),
            Action::Broadcast(id) => ("broad", quoted(&self.name(*id))),
            Action::Barrier(id) => {
                self.check_barrier(*id);
                ("barrier", quoted(&self.name(*id)))
            }
            Action::SemPost(id) => ("sem_post", self.semaphore(*id)),
            Action::SemWait(id) => ("sem_wait", self.semaphore(*id)),
            Action::Suspend(id) => ("suspend", quoted(&self.name(*id))),
            Action::Resume(id) => ("resume", quoted(&self.name(*id))),
            Action::Yield => ("yield", "\"\"".to_owned()),
            Action::Fork(def) => ("fork", quoted(self.program.tasks.get(*def).map_or("", |forked| &forked.name))),
            Action::Kernel(_) => {
                self.cannot(&format!("kernel-mode work (task {})", task.name));
                return;
            }
            Action::Take(_) | Action::Complete(_) | Action::Call(_) | Action::Send(_) => {
                self.cannot(&format!("requests of a service ({})", task.name));
                return;
            }
            Action::PipeRead { .. } | Action::PipeWrite { .. } => {
                self.cannot(&format!("pipes (task {})", task.name));
                return;
            }
            Action::Stamp(_) => {
                self.cannot(&format!("time stamps (task {})", task.name));
                return;
            }
            Action::InKernel(_) => {
                self.cannot(&format!("system calls (task {})", task.name));
                return;
            }
        };
        let key = keys.event(kind);
        write!(self.out, ", \"{key}\" : {value}").expect("a String takes it");
    }

    fn name(&self, id: ResourceId) -> String {
        self.program.resources.get(id.index()).map_or_else(String::new, |resource| resource.name.to_string())
    }

    fn mutex(&mut self, id: ResourceId) -> String {
        if let Some(ResourceKind::Mutex { inherit }) = self.program.resources.get(id.index()).map(|found| &found.kind)
            && *self.inherits.get_or_insert(*inherit) != *inherit
        {
            self.cannot("priority inheritance for some mutexes and not for others");
        }
        quoted(&self.name(id))
    }

    fn pair(&mut self, condition: ResourceId, mutex: ResourceId) -> String {
        let condition = quoted(&self.name(condition));
        format!("{{ \"ref\" : {condition}, \"mutex\" : {} }}", self.mutex(mutex))
    }

    fn semaphore(&mut self, id: ResourceId) -> String {
        let name = self.name(id);
        let kind = self.program.resources.get(id.index()).map(|found| &found.kind);
        if let Some(ResourceKind::Semaphore { initial: 1.. }) = kind {
            self.cannot(&format!("semaphore {name} above zero at the start"));
        }
        quoted(&name)
    }

    /// rt-app counts the parties itself.
    fn check_barrier(&mut self, id: ResourceId) {
        let Some(ResourceKind::Barrier { parties }) = self.program.resources.get(id.index()).map(|found| &found.kind)
        else {
            return;
        };
        let counted: u64 = self
            .program
            .tasks
            .iter()
            .map(|task| {
                let actions = task.phases.iter().flat_map(|phase| &phase.actions);
                actions.filter(|action| **action == Action::Barrier(id)).count() as u64 * u64::from(task.instances)
            })
            .sum();
        if counted != u64::from(*parties) {
            let name = self.name(id);
            self.cannot(&format!("barrier {name} for {parties} parties: {counted} would be counted"));
        }
    }

    fn time(&mut self, time: &Dist, task: &str) -> String {
        match time {
            Dist::Constant(time) => self.micros(*time, task).to_string(),
            Dist::Drawn(_) => {
                self.cannot(&format!("random times (task {task})"));
                String::new()
            }
        }
    }

    fn micros(&mut self, time: Duration, task: &str) -> i64 {
        let nanos = time.as_nanos();
        let micros = i64::try_from(nanos / 1_000).unwrap_or(i64::MAX);
        if !nanos.is_multiple_of(1_000) || micros > *INT.end() {
            self.cannot(&format!("a time of {time} (task {task}): it takes whole microseconds up to {}", INT.end()));
            return 0;
        }
        micros
    }

    fn int(&mut self, value: u64, what: impl Fn() -> String) -> i64 {
        match i64::try_from(value).ok().filter(|value| INT.contains(value)) {
            Some(value) => value,
            None => {
                self.cannot(&format!("{}: it counts up to {}", what(), INT.end()));
                0
            }
        }
    }
}

/// The state of a task when it enters a phase.
struct PhaseContext<'a> {
    current: SchedAttr,
    affinity: &'a AffinityChange,
    /// Whether any phase names CPUs.
    moves: bool,
    /// Whether the task names CPUs.
    restricted: bool,
}

/// Returns a JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => write!(out, "\\u{:04x}", u32::from(control)).expect("a String takes it"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
