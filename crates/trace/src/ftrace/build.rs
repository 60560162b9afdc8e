//! From events of a kernel to records: identifies the tasks, and adds what the text does not
//! contain.

use super::event::{KernelEvent, TaskRef};
use crate::container::Trace;
use crate::meta::{Machine, Meta, Source};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::attr::{DlParams, Nice, Prio, RtPriority, SchedAttr};
use zerolag_model::event::Irq;
use zerolag_model::{
    ClassId, CpuId, Duration, GroupId, Instant, MAX_CPUS, MigrateReason, PrevState, Record, TaskId, TraceEvent,
};

/// The contents of the text besides events.
#[derive(Default)]
pub(super) struct Head {
    pub(super) lost: u64,
    pub(super) cpus: u32,
}

impl Head {
    /// Notes that a CPU exists.
    pub(super) fn saw_cpu(&mut self, cpu: CpuId) {
        self.cpus = self.cpus.max(cpu.0 + 1);
    }
}

/// An event with its time and CPU.
pub(super) struct Event<'a> {
    pub(super) at: Instant,
    pub(super) cpu: CpuId,
    pub(super) event: KernelEvent<'a>,
}

/// Builds the trace of events in order of time, and the process ids of its tasks.
pub(super) fn build(head: &Head, events: &[Event<'_>]) -> (Trace, Vec<u32>) {
    let mut builder = Builder::default();
    let unpaired = unpaired_irqs(events);
    for event in events {
        match event.event {
            KernelEvent::IrqEnter(irq) | KernelEvent::IrqExit(irq) if unpaired.contains(&irq) => {}
            _ => builder.take(event),
        }
    }
    for task in &builder.tasks {
        if let TraceEvent::TaskNew { name, .. } = &mut builder.records[task.record].event {
            *name = task.name.into();
        }
    }
    let seen = builder.records.iter().map(|record| record.cpu.0 + 1).chain(builder.cpus).max().unwrap_or(1);
    let cpus = seen.max(head.cpus).min(u32::try_from(MAX_CPUS).unwrap_or(u32::MAX));
    let mut meta = Meta::new(Source::Text, Machine::Cpus(cpus));
    meta.start = builder.records.first().map_or(Instant::ZERO, |record| record.at);
    meta.end = builder.records.last().map_or(Instant::ZERO, |record| record.at);
    meta.lost_events = head.lost;
    let pids = builder.tasks.iter().map(|task| task.pid).collect();
    (Trace { meta, records: builder.records }, pids)
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
    /// The living tasks by process id.
    living: BTreeMap<u32, TaskId>,
    /// One more than the highest CPU in the events.
    cpus: Option<u32>,
}

struct Task<'a> {
    /// The record that introduces it; it gets the final name at the end.
    record: usize,
    pid: u32,
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
                    self.living.remove(&prev.pid);
                }
            }
            KernelEvent::Waking { task, prio, target } => {
                if let Some(task) = self.task(place, task, Some(prio)) {
                    self.saw_cpu(target);
                    self.tasks[task.index()].in_wakeup = true;
                    self.push(place, TraceEvent::Waking { task, prio, target, new: false });
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
                self.living.remove(&child.pid);
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

    /// Returns the task of a process id, new or known; `None` for the idle tasks.
    fn task(&mut self, place: Place, task: TaskRef<'a>, prio: Option<Prio>) -> Option<TaskId> {
        if task.pid == 0 {
            return None;
        }
        let Some(id) = self.living.get(&task.pid).copied() else {
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
        self.tasks.push(Task { record: self.records.len(), pid: task.pid, name: task.comm, prio, in_wakeup: false });
        self.living.insert(task.pid, id);
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
