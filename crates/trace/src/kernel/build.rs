//! From events of a kernel to records: identifies the tasks, and adds what the text does not
//! contain.

use super::Head;
use super::event::{Context, Event, KernelEvent, TaskRef};
use super::tids::TidTable;
use crate::container::Trace;
use crate::meta::{Gap, Machine, Meta, Recorded, Source, Thread};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::attr::{DlParams, Nice, Prio, RtPriority, SchedAttr};
use zerolag_model::event::Irq;
use zerolag_model::{
    ClassId, CpuId, Duration, GroupId, Instant, MAX_CPUS, MigrateReason, PrevState, Record, TaskId, TraceEvent, text,
};

/// Builds the trace of events in order of time.
pub(super) fn build(head: Head, events: &[Event<'_>], gaps: Vec<Gap>) -> Trace {
    let is_irq = |event: &Event<'_>| matches!(event.event, KernelEvent::IrqEnter(_));
    let mut builder = Builder { has_irqs: events.iter().any(is_irq), ..Builder::default() };
    let unpaired = unpaired_irqs(events);
    for event in events {
        match event.event {
            KernelEvent::IrqEnter(irq) | KernelEvent::IrqExit(irq) if unpaired.contains(&irq) => {}
            _ => builder.take(event),
        }
    }
    for task in &builder.tasks {
        if let TraceEvent::TaskNew { name, .. } = &mut builder.records[task.record].event {
            *name = plain(task.name);
        }
    }
    let seen = builder.records.iter().map(|record| record.cpu.0 + 1).chain(builder.cpus).max().unwrap_or(1);
    let cpus = seen.max(head.cpus).min(u32::try_from(MAX_CPUS).unwrap_or(u32::MAX));
    let mut meta = Meta::new(Source::Text, Machine::Cpus(cpus));
    meta.kernel = head.kernel;
    meta.start = events.first().map_or(Instant::ZERO, |event| event.at);
    meta.end = events.last().map_or(Instant::ZERO, |event| event.at);
    meta.lost_events = gaps.iter().fold(head.lost, |sum, gap| sum.saturating_add(gap.events));
    meta.recorded = Recorded { threads: builder.threads(), gaps, dropped: head.dropped };
    Trace { meta, records: builder.records }
}

/// Returns a name without hidden characters: any program can choose its name, and reports reach
/// terminals. They are written as escapes.
fn plain(name: &str) -> Arc<str> {
    text::name(name).into()
}

/// Returns the kinds of interrupt of which only the start, or only the end, was recorded: they have
/// no duration.
fn unpaired_irqs(events: &[Event<'_>]) -> Vec<Irq> {
    let mut seen = [(false, false); Irq::ALL.len()];
    for event in events {
        match event.event {
            KernelEvent::IrqEnter(irq) => seen[irq as usize].0 = true,
            KernelEvent::IrqExit(irq) => seen[irq as usize].1 = true,
            _ => {}
        }
    }
    Irq::ALL.into_iter().filter(|irq| seen[*irq as usize].0 != seen[*irq as usize].1).collect()
}

#[derive(Default)]
struct Builder<'a> {
    records: Vec<Record>,
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
}

struct Task<'a> {
    /// The record that introduces it; it gets the final name at the end.
    record: usize,
    tid: u32,
    pid: Option<u32>,
    /// What the scheduler has charged.
    charged: Duration,
    name: &'a str,
    /// Its effective priority, once an event contains it.
    prio: Option<Prio>,
    /// Between `sched_waking` and the first migration or `sched_wakeup` after it.
    in_wakeup: bool,
}

/// The CPU and time of a record.
#[derive(Clone, Copy)]
struct Place {
    at: Instant,
    cpu: CpuId,
}

impl<'a> Builder<'a> {
    fn take(&mut self, event: &Event<'a>) {
        let place = Place { at: event.at, cpu: event.cpu };
        match event.event {
            KernelEvent::Switch { prev, prev_prio, prev_state, next, next_prio } => {
                let prev_id = self.task(place, prev, Some(prev_prio));
                let next_id = self.task(place, next, Some(next_prio));
                let next_prio = if next_id.is_none() { Prio::IDLE } else { next_prio };
                self.push(place, TraceEvent::Switch { prev: prev_id, prev_state, next: next_id, next_prio });
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
                    self.push(place, TraceEvent::IrqEnter { irq });
                }
                if let Some(task) = self.task(place, task, Some(prio)) {
                    self.saw_cpu(target);
                    self.tasks[task.index()].in_wakeup = true;
                    self.push(place, TraceEvent::Waking { task, prio, target, new: false });
                }
                if let Some(irq) = irq {
                    self.push(place, TraceEvent::IrqExit { irq });
                }
            }
            KernelEvent::Wakeup { task, prio, cpu } => self.wakeup(Place { cpu, ..place }, task, prio),
            KernelEvent::WakeupNew { task, prio, cpu } => {
                if let Some(id) = self.task(place, task, Some(prio)) {
                    self.push(place, TraceEvent::Waking { task: id, prio, target: cpu, new: true });
                }
                self.wakeup(Place { cpu, ..place }, task, prio);
            }
            KernelEvent::Migrate { task, prio, from, to } => {
                if let Some(task) = self.task(place, task, Some(prio)) {
                    self.saw_cpu(from);
                    self.saw_cpu(to);
                    let in_wakeup = core::mem::take(&mut self.tasks[task.index()].in_wakeup);
                    let reason = if in_wakeup { MigrateReason::Wakeup } else { MigrateReason::Unknown };
                    self.push(place, TraceEvent::Migrate { task, prio, from, to, reason });
                }
            }
            KernelEvent::Fork { parent, child } => {
                let parent = self.task(place, parent, None);
                // A child starts with the priority of its parent unless it resets on fork; its
                // first wakeup shows it.
                let prio = parent.and_then(|parent| self.tasks[parent.index()].prio);
                *self.living.entry(child.tid) = None;
                self.create(place, child, parent, prio);
            }
            KernelEvent::Exit { task } => {
                if let Some(task) = self.task(place, task, None) {
                    self.push(place, TraceEvent::TaskExit { task });
                }
            }
            KernelEvent::PiSetprio { task, from, to } => {
                if let Some(task) = self.task(place, task, None) {
                    self.tasks[task.index()].prio = Some(to);
                    self.push(place, TraceEvent::PrioInherit { task, from, to });
                }
            }
            KernelEvent::IpiSend { to, reason } => {
                self.saw_cpu(to);
                self.push(place, TraceEvent::IpiSend { to, reason });
            }
            KernelEvent::Charged { task, ran } => {
                self.is_charged = true;
                if let Some(task) = self.task(place, task, None) {
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
            KernelEvent::Lost { .. } => {}
            KernelEvent::IrqEnter(irq) => self.push(place, TraceEvent::IrqEnter { irq }),
            KernelEvent::IrqExit(irq) => self.push(place, TraceEvent::IrqExit { irq }),
        }
    }

    fn wakeup(&mut self, place: Place, task: TaskRef<'a>, prio: Prio) {
        if let Some(task) = self.task(place, task, Some(prio)) {
            self.tasks[task.index()].in_wakeup = false;
            self.push(place, TraceEvent::Wakeup { task, prio });
        }
    }

    /// Returns what is known of the threads, in order of task.
    fn threads(&self) -> Vec<Thread> {
        // The name of a process is that of its first thread.
        let mut leaders: BTreeMap<u32, &str> = self.names.clone();
        leaders.extend(self.tasks.iter().filter(|task| task.pid == Some(task.tid)).map(|task| (task.tid, task.name)));
        let process = |task: &Task<'_>| task.pid.and_then(|pid| leaders.get(&pid)).map(|name| plain(name));
        let charged = |task: &Task<'_>| self.is_charged.then_some(task.charged);
        let thread =
            |task: &Task<'_>| Thread { tid: task.tid, pid: task.pid, process: process(task), charged: charged(task) };
        self.tasks.iter().map(thread).collect()
    }

    /// Returns the task of a thread id, new or known; `None` for the idle tasks.
    fn task(&mut self, place: Place, task: TaskRef<'a>, prio: Option<Prio>) -> Option<TaskId> {
        if task.tid == 0 {
            return None;
        }
        let Some(id) = *self.living.entry(task.tid) else {
            return Some(self.create(place, task, None, prio));
        };
        let known = &mut self.tasks[id.index()];
        if task.comm != "<...>" {
            known.name = task.comm;
        }
        let Some(prio) = prio else { return Some(id) };
        match known.prio.replace(prio) {
            None => {
                if let TraceEvent::TaskNew { attr, .. } = &mut self.records[known.record].event {
                    *attr = attr_of(prio);
                }
            }
            Some(before) if before != prio => {
                self.push(place, TraceEvent::AttrChange { task: id, attr: attr_of(prio) });
            }
            Some(_) => {}
        }
        Some(id)
    }

    fn create(&mut self, place: Place, task: TaskRef<'a>, parent: Option<TaskId>, prio: Option<Prio>) -> TaskId {
        let id = TaskId::from_index(self.tasks.len());
        self.tasks.push(Task {
            record: self.records.len(),
            tid: task.tid,
            pid: self.processes.get(&task.tid).copied(),
            charged: Duration::ZERO,
            name: task.comm,
            prio,
            in_wakeup: false,
        });
        *self.living.entry(task.tid) = Some(id);
        // The name is filled in at the end; until then all tasks share the empty name.
        let name: Arc<str> = Arc::default();
        let attr = attr_of(prio.unwrap_or(Prio::from_nice(Nice::ZERO)));
        self.push(place, TraceEvent::TaskNew { task: id, name, parent, attr, group: GroupId::ROOT });
        id
    }

    fn push(&mut self, place: Place, event: TraceEvent) {
        self.records.push(Record { at: place.at, cpu: place.cpu, event });
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
        ClassId::Fair | ClassId::Idle => SchedAttr::nice(Nice::new(i64::from(prio.raw()) - 120).unwrap_or_default()),
    }
}
