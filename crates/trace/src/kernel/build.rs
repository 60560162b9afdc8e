//! From events of a kernel to records: identifies the tasks, and adds what the text does not
//! contain.

use super::context::Context;
use super::event::{Event, KernelEvent, TaskRef};
use super::head::{Head, reserve};
use super::means::{self, Call};
use super::messages::Messages;
use super::tids::TidTable;
use crate::container::Trace;
use crate::error::ReadError;
use crate::meta::{Gap, Machine, Means, Meta, Recorded, Source, Thread, Wakings};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::attr::{DlParams, Nice, Prio, RtPriority, SchedAttr};
use zerolag_model::event::Irq;
use zerolag_model::{
    ClassId, CpuId, Duration, GroupId, Instant, MAX_CPUS, MigrateReason, PrevState, Record, TaskId, TraceEvent, text,
};

/// Builds the trace of events in order of time.
///
/// # Errors
/// There is too little memory.
pub(super) fn build(head: Head, events: &[Event<'_>], gaps: Vec<Gap>) -> Result<Trace, ReadError> {
    let mut irqs = Irqs::default();
    events.iter().for_each(|event| irqs.see(event));
    let mut builder = Builder::new(irqs, Out::Keep(Vec::new()));
    for event in events {
        if let Out::Keep(records) = &mut builder.out {
            reserve(records, RECORDS_MAX)?;
        }
        builder.take(event);
    }
    Ok(builder.trace(head, gaps))
}

/// More records than an event becomes.
const RECORDS_MAX: usize = 8;

/// The interrupts that a recording has.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Irqs {
    /// Of each kind, whether a start and an end were seen.
    seen: [(bool, bool); Irq::ALL.len()],
}

impl Irqs {
    /// Sees an event.
    pub(super) const fn see(&mut self, event: &Event<'_>) {
        match event.event {
            KernelEvent::IrqEnter(irq) => self.seen[irq as usize].0 = true,
            KernelEvent::IrqExit(irq) => self.seen[irq as usize].1 = true,
            _ => {}
        }
    }

    /// Returns whether only the start of a kind, or only its end, was recorded: it has no duration.
    const fn is_unpaired(&self, irq: Irq) -> bool {
        self.seen[irq as usize].0 != self.seen[irq as usize].1
    }

    /// Returns whether any was seen.
    pub(super) fn has_any(&self) -> bool {
        self.seen.iter().any(|(start, end)| *start || *end)
    }

    fn has_starts(&self) -> bool {
        self.seen.iter().any(|(start, _)| *start)
    }
}

/// Where records go.
pub(super) enum Out<'o> {
    /// All into memory, to be corrected at the end.
    Keep(Vec<Record>),
    /// Nowhere: what tasks are called at the end is to be found out.
    Drop,
    /// To a reader, one by one, with what was found out before.
    Give(&'o [Known], &'o mut dyn FnMut(&Record)),
}

/// What only later events tell of a task: its last name, and its first known attributes.
pub(super) type Known = (Arc<str>, SchedAttr);

/// Returns a name without hidden characters: any program can choose its name, and reports reach
/// terminals. They are written as escapes.
fn plain(name: &str) -> Arc<str> {
    text::name(name).into()
}

pub(super) struct Builder<'a, 'o> {
    out: Out<'o>,
    irqs: Irqs,
    /// The time of the first event and of the last.
    start: Option<Instant>,
    end: Instant,
    tasks: Vec<Task<'a>>,
    /// The living tasks by thread id.
    living: TidTable<Option<TaskId>>,
    /// One more than the highest CPU in the events.
    cpus: Option<u32>,
    /// The process of each living thread, and the name of its first thread.
    processes: BTreeMap<u32, u32>,
    names: BTreeMap<u32, &'a str>,
    /// Whether the recorder writes charges.
    is_charged: bool,
    /// Whether the recorder writes interrupts. If not, one of no length stands around each waking
    /// by an interrupt: it is not the task that runs there which wakes.
    has_irqs: bool,
    cpu_states: Vec<Cpu>,
    wakings: BTreeMap<(Option<TaskId>, TaskId, Means), u64>,
    messages: Messages,
}

/// What a CPU does.
#[derive(Default)]
struct Cpu {
    /// The task that it runs; the inner `None` is the idle task, the outer one is not known.
    runs: Option<Option<TaskId>>,
    /// The interrupts that it is in.
    inside: Vec<Irq>,
}

struct Task<'a> {
    /// The record that introduces it; it gets the final name and attributes at the end.
    record: usize,
    /// Its first known attributes.
    attr: SchedAttr,
    tid: u32,
    pid: Option<u32>,
    /// The group that it, or the task that forked it, was moved to.
    group: Option<&'a str>,
    /// Those of cgroup v1, each path once.
    groups_v1: Vec<&'a str>,
    /// What the scheduler has charged.
    charged: Duration,
    name: &'a str,
    /// Its effective priority, once an event contains it.
    prio: Option<Prio>,
    /// The system call that it is in, if the recorder writes them.
    call: Option<Call>,
    /// Between `sched_waking` and the first migration or `sched_wakeup` after it.
    in_wakeup: bool,
}

/// The CPU and time of a record.
#[derive(Clone, Copy)]
struct Stamp {
    at: Instant,
    cpu: CpuId,
}

impl<'a, 'o> Builder<'a, 'o> {
    pub(super) fn new(irqs: Irqs, out: Out<'o>) -> Self {
        Self {
            out,
            irqs,
            start: None,
            end: Instant::ZERO,
            tasks: Vec::new(),
            living: TidTable::default(),
            cpus: None,
            processes: BTreeMap::new(),
            names: BTreeMap::new(),
            is_charged: false,
            has_irqs: irqs.has_starts(),
            cpu_states: Vec::new(),
            wakings: BTreeMap::new(),
            messages: Messages::default(),
        }
    }

    /// Returns what is known of the tasks, in their order.
    pub(super) fn known(&self) -> Vec<Known> {
        self.tasks.iter().map(|task| (plain(task.name), task.attr)).collect()
    }

    /// Returns the description of the run.
    pub(super) fn meta(&self, mut head: Head, gaps: Vec<Gap>) -> Meta {
        head.skips.append(self.messages.skips());
        let cpus = self.cpus.unwrap_or(1).max(head.cpus).min(u32::try_from(MAX_CPUS).unwrap_or(u32::MAX));
        let mut meta = Meta::new(Source::Text, Machine::Cpus(cpus));
        meta.kernel = head.kernel;
        let start = self.start.or(head.start).unwrap_or(Instant::ZERO);
        meta.start = head.start.map_or(start, |told| told.min(start));
        meta.end = head.end.map_or(self.end, |told| told.max(self.end));
        meta.lost_events = gaps.iter().fold(head.lost, |sum, gap| sum.saturating_add(gap.events));
        meta.recorded = Recorded {
            format: head.format.to_owned(),
            threads: self.threads(),
            gaps,
            dropped: head.dropped,
            skipped: head.skips.done(),
            wakings: self.wakings(),
            messages: self.messages.all(),
            peers: self.messages.peers(),
        };
        meta
    }

    /// Returns the trace of all events, if the records were kept.
    fn trace(mut self, head: Head, gaps: Vec<Gap>) -> Trace {
        let mut records = match core::mem::replace(&mut self.out, Out::Drop) {
            Out::Keep(records) => records,
            Out::Drop | Out::Give(..) => Vec::new(),
        };
        for task in &self.tasks {
            if let Some(Record { event: TraceEvent::TaskNew { name, attr, .. }, .. }) = records.get_mut(task.record) {
                (*name, *attr) = (plain(task.name), task.attr);
            }
        }
        Trace { meta: self.meta(head, gaps), records }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per event of a kernel")]
    pub(super) fn take(&mut self, event: &Event<'a>) {
        let stamp = Stamp { at: event.at, cpu: event.cpu };
        self.start.get_or_insert(event.at);
        self.end = event.at;
        match event.event {
            KernelEvent::IrqEnter(irq) | KernelEvent::IrqExit(irq) if self.irqs.is_unpaired(irq) => {}
            KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                let prev_id = self.task(stamp, prev, Some(prev_prio));
                let next_id = self.task(stamp, next, Some(next_prio));
                let next_prio = if next_id.is_none() { Prio::IDLE } else { next_prio };
                self.push(stamp, TraceEvent::Switch { prev: prev_id, prev_state, next: next_id, next_prio });
                self.cpu(event.cpu).runs = Some(next_id);
                if let Some(next) = next_id {
                    // A recorder need not write `sched_wakeup`.
                    self.tasks[next.index()].in_wakeup = false;
                }
                if prev_state == PrevState::Dead {
                    *self.living.entry(prev.tid) = None;
                }
            }
            KernelEvent::Waking { task, prio, target } => {
                let irq = match event.context {
                    Context::Interrupt => Some(Irq::Device),
                    Context::Softirq => Some(Irq::Softirq),
                    Context::Task | Context::Unknown => None,
                };
                let irq = irq.filter(|_| !self.has_irqs);
                if let Some(irq) = irq {
                    self.push(stamp, TraceEvent::IrqEnter { irq });
                }
                if let Some(task) = self.task(stamp, task, Some(prio)) {
                    self.saw_cpu(target);
                    self.woken(event, task);
                    self.tasks[task.index()].in_wakeup = true;
                    self.push(stamp, TraceEvent::Waking { task, prio, target, new: false });
                }
                if let Some(irq) = irq {
                    self.push(stamp, TraceEvent::IrqExit { irq });
                }
            }
            KernelEvent::Wakeup { task, prio, cpu } => self.wakeup(Stamp { cpu, ..stamp }, task, prio),
            KernelEvent::WakeupNew { task, prio, cpu } => {
                if let Some(id) = self.task(stamp, task, Some(prio)) {
                    self.push(stamp, TraceEvent::Waking { task: id, prio, target: cpu, new: true });
                }
                self.wakeup(Stamp { cpu, ..stamp }, task, prio);
            }
            KernelEvent::Migrate { task, prio, from, to } => {
                if let Some(task) = self.task(stamp, task, Some(prio)) {
                    self.saw_cpu(from);
                    self.saw_cpu(to);
                    let in_wakeup = core::mem::take(&mut self.tasks[task.index()].in_wakeup);
                    let reason = if in_wakeup { MigrateReason::Wakeup } else { MigrateReason::Unknown };
                    self.push(stamp, TraceEvent::Migrate { task, prio, from, to, reason });
                }
            }
            KernelEvent::Fork { parent, child } => {
                let parent = self.task(stamp, parent, None);
                // A child starts with the priority of its parent unless it resets on fork; its
                // first wakeup shows it.
                let prio = parent.and_then(|parent| self.tasks[parent.index()].prio);
                *self.living.entry(child.tid) = None;
                self.create(stamp, child, parent, prio);
            }
            KernelEvent::Exit { task } => {
                if let Some(task) = self.task(stamp, task, None) {
                    self.push(stamp, TraceEvent::TaskExit { task });
                }
            }
            KernelEvent::PiSetprio { task, from, to } => {
                if let Some(task) = self.task(stamp, task, None) {
                    self.tasks[task.index()].prio = Some(to);
                    self.push(stamp, TraceEvent::PrioInherit { task, from, to });
                }
            }
            KernelEvent::IpiSend { to, reason } => {
                self.saw_cpu(to);
                self.push(stamp, TraceEvent::IpiSend { to, reason });
            }
            KernelEvent::Charged { task, ran } => {
                self.is_charged = true;
                if let Some(task) = self.task(stamp, task, None) {
                    let charged = &mut self.tasks[task.index()].charged;
                    *charged = charged.saturating_add(ran);
                }
            }
            KernelEvent::Process { tid, pid } => {
                self.processes.insert(tid, pid);
                if let Some(task) = self.living.entry(tid) {
                    self.tasks[task.index()].pid = Some(pid);
                }
            }
            KernelEvent::Name { task } => {
                self.names.insert(task.tid, task.comm);
                if let Some(id) = self.living.entry(task.tid) {
                    self.tasks[id.index()].name = task.comm;
                }
            }
            KernelEvent::Attach { task, path, is_v2 } => {
                if let Some(task) = self.task(stamp, task, None) {
                    let task = &mut self.tasks[task.index()];
                    if is_v2 {
                        task.group = Some(path);
                    } else {
                        task.groups_v1.retain(|known| *known != path);
                        task.groups_v1.push(path);
                    }
                }
            }
            KernelEvent::Call(call) => {
                if let Some(task) = self.current(event) {
                    self.tasks[task.index()].call = call;
                }
            }
            // The description of the run is made before the records are given.
            KernelEvent::Message { .. } | KernelEvent::Ports(_) if matches!(self.out, Out::Give(..)) => {}
            KernelEvent::Message { socket, bytes, is_sent } => {
                if let Some(task) = self.current(event).filter(|_| bytes > 0) {
                    self.messages.take(event.at, task, (socket, bytes, is_sent));
                }
            }
            KernelEvent::Ports(ports) => {
                if let Some(task) = self.current(event) {
                    self.messages.ports(task, ports);
                }
            }
            KernelEvent::Lost { .. } => {}
            KernelEvent::IrqEnter(irq) => {
                self.cpu(event.cpu).inside.push(irq);
                self.push(stamp, TraceEvent::IrqEnter { irq });
            }
            KernelEvent::IrqExit(irq) => {
                self.cpu(event.cpu).inside.pop();
                self.push(stamp, TraceEvent::IrqExit { irq });
            }
        }
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let index = cpu.0 as usize;
        if index >= self.cpu_states.len() {
            // Readers refuse CPUs from `MAX_CPUS` on.
            self.cpu_states.resize_with(index + 1, Cpu::default);
        }
        &mut self.cpu_states[index]
    }

    /// Counts a waking: by which task, if it is one, and by what.
    fn woken(&mut self, event: &Event<'_>, task: TaskId) {
        let (runs, inside) = (self.cpu(event.cpu).runs, self.cpu(event.cpu).inside.last().copied());
        let running = runs.unwrap_or_else(|| self.current(event)).filter(|running| *running != task);
        let call = running.and_then(|running| self.tasks[running.index()].call);
        let waker = match (event.context, inside) {
            // The stack has seen what the flags do not tell.
            (Context::Task, _) if event.means != Means::Unknown => running,
            (Context::Task | Context::Unknown, None) => running,
            // What is sent over loopback arrives in a softirq within the call.
            (Context::Softirq, _) | (_, Some(Irq::Softirq)) if call == Some(Call::Send) => running,
            _ => None,
        };
        let of_calls = || means::of_calls(waker.map(|_| call), self.tasks[task.index()].call);
        let means = if event.means == Means::Unknown { of_calls() } else { event.means };
        *self.wakings.entry((waker, task, means)).or_default() += 1;
        if let Some(waker) = waker {
            self.messages.wakes(waker, task);
        }
    }

    /// Returns the task that an event says its CPU runs.
    fn current(&mut self, event: &Event<'_>) -> Option<TaskId> {
        event.current.filter(|tid| *tid != 0).and_then(|tid| *self.living.entry(tid))
    }

    fn wakings(&self) -> Vec<Wakings> {
        let wakings = |(&(waker, woken, means), &count)| Wakings { waker, woken, means, count };
        self.wakings.iter().map(wakings).collect()
    }

    fn wakeup(&mut self, stamp: Stamp, task: TaskRef<'a>, prio: Prio) {
        if let Some(task) = self.task(stamp, task, Some(prio)) {
            self.tasks[task.index()].in_wakeup = false;
            self.push(stamp, TraceEvent::Wakeup { task, prio });
        }
    }

    /// Returns what is known of the threads, in order of task.
    fn threads(&self) -> Vec<Thread> {
        // The name of a process is that of its first thread.
        let mut leaders: BTreeMap<u32, &str> = self.names.clone();
        leaders.extend(self.tasks.iter().filter(|task| task.pid == Some(task.tid)).map(|task| (task.tid, task.name)));
        let process = |task: &Task<'_>| task.pid.and_then(|pid| leaders.get(&pid)).map(|name| plain(name));
        let charged = |task: &Task<'_>| self.is_charged.then_some(task.charged);
        let thread = |task: &Task<'_>| Thread {
            tid: task.tid,
            pid: task.pid,
            process: process(task),
            group: task.group.map(plain),
            groups_v1: task.groups_v1.iter().map(|path| plain(path)).collect(),
            charged: charged(task),
        };
        self.tasks.iter().map(thread).collect()
    }

    /// Returns the task of a thread id, new or known; `None` for the idle tasks.
    fn task(&mut self, stamp: Stamp, task: TaskRef<'a>, prio: Option<Prio>) -> Option<TaskId> {
        if task.tid == 0 {
            return None;
        }
        let Some(id) = *self.living.entry(task.tid) else {
            return Some(self.create(stamp, task, None, prio));
        };
        let known = &mut self.tasks[id.index()];
        if task.comm != "<...>" {
            known.name = task.comm;
        }
        let Some(prio) = prio else { return Some(id) };
        match known.prio.replace(prio) {
            None => {
                known.attr = attr_of(prio);
            }
            Some(before) if before != prio => {
                self.push(stamp, TraceEvent::AttrChange { task: id, attr: attr_of(prio) });
            }
            Some(_) => {}
        }
        Some(id)
    }

    fn create(&mut self, stamp: Stamp, task: TaskRef<'a>, parent: Option<TaskId>, prio: Option<Prio>) -> TaskId {
        let id = TaskId::from_index(self.tasks.len());
        let attr = attr_of(prio.unwrap_or(Prio::from_nice(Nice::ZERO)));
        let record = match &self.out {
            Out::Keep(records) => records.len(),
            Out::Drop | Out::Give(..) => 0,
        };
        self.tasks.push(Task {
            record,
            attr,
            tid: task.tid,
            pid: self.processes.get(&task.tid).copied(),
            group: parent.and_then(|parent| self.tasks[parent.index()].group),
            groups_v1: parent.map_or_else(Vec::new, |parent| self.tasks[parent.index()].groups_v1.clone()),
            charged: Duration::ZERO,
            name: task.comm,
            prio,
            call: None,
            in_wakeup: false,
        });
        *self.living.entry(task.tid) = Some(id);
        // Both are filled in at the end unless they are known; until then all tasks share the empty
        // name.
        let (name, attr) = match &self.out {
            Out::Give(known, _) => known.get(id.index()).cloned().unwrap_or((Arc::default(), attr)),
            Out::Keep(_) | Out::Drop => (Arc::default(), attr),
        };
        self.push(stamp, TraceEvent::TaskNew { task: id, name, parent, attr, group: GroupId::ROOT });
        id
    }

    fn push(&mut self, stamp: Stamp, event: TraceEvent) {
        self.saw_cpu(stamp.cpu);
        let record = Record { at: stamp.at, cpu: stamp.cpu, event };
        match &mut self.out {
            Out::Keep(records) => records.push(record),
            Out::Drop => {}
            Out::Give(_, give) => give(&record),
        }
    }

    fn saw_cpu(&mut self, cpu: CpuId) {
        self.cpus = self.cpus.max(Some(cpu.0 + 1));
    }
}

/// Returns the attributes that explain a priority; see the head of [`super`].
fn attr_of(prio: Prio) -> SchedAttr {
    match prio.class() {
        ClassId::Deadline => SchedAttr::Deadline(DlParams::new(Duration::ZERO, Duration::ZERO, Duration::ZERO)),
        ClassId::Rt | ClassId::Stop => {
            SchedAttr::fifo(RtPriority::new(99 - i64::from(prio.raw())).unwrap_or(RtPriority::MAX))
        }
        // The number of a recorded task does not say that a loaded scheduler has it.
        ClassId::Fair | ClassId::Ext | ClassId::Idle => {
            SchedAttr::nice(Nice::new(i64::from(prio.kernel()) - 120).unwrap_or_default())
        }
    }
}
