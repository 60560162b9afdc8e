//! [`Script`]: handwritten traces, as input for tests of checks and reports.
//!
//! Times are in microseconds, every method appends and returns the script:
//!
//! ```
//! use zerolag_trace::script::Script;
//! let mut script = Script::new(2);
//! let (a, f) = (script.fair("a"), script.fifo("f", 5));
//! script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(4000, 0, f).preempt(4000, 0, a, f);
//! let trace = script.end(10_000);
//! assert_eq!(trace.records.len(), 8);
//! ```

use crate::container::Trace;
use crate::meta::{Machine, Meta, Source};
use zerolag_model::attr::{Prio, RtPriority, SchedAttr};
use zerolag_model::{CpuId, GroupId, Instant, MigrateReason, PrevState, Record, TaskId, TraceEvent};

/// A trace under construction.
#[derive(Clone, Debug)]
pub struct Script {
    /// The description in the trace; its end is set by [`Script::end`].
    pub meta: Meta,
    records: Vec<Record>,
    tasks: Vec<Scripted>,
}

#[derive(Clone, Copy, Debug)]
struct Scripted {
    attr: SchedAttr,
    has_waked: bool,
}

impl Script {
    /// Starts a simulation of a machine with this many CPUs.
    #[must_use]
    pub fn new(cpus: u32) -> Self {
        let mut meta = Meta::new(Source::Simulation, Machine::Cpus(cpus));
        "zerolag script".clone_into(&mut meta.producer);
        Self { meta, records: Vec::new(), tasks: Vec::new() }
    }

    /// Creates a SCHED_OTHER task at time zero.
    pub fn fair(&mut self, name: &str) -> TaskId {
        self.task(name, SchedAttr::NORMAL)
    }

    /// Creates a SCHED_FIFO task at time zero.
    ///
    /// # Panics
    /// If the priority is outside 1..=99.
    pub fn fifo(&mut self, name: &str, priority: i64) -> TaskId {
        let priority = RtPriority::new(priority).expect("a priority is in 1..=99");
        self.task(name, SchedAttr::fifo(priority))
    }

    /// Creates a task at time zero.
    pub fn task(&mut self, name: &str, attr: SchedAttr) -> TaskId {
        let task = TaskId::from_index(self.tasks.len());
        self.tasks.push(Scripted { attr, has_waked: false });
        self.event(0, 0, TraceEvent::TaskNew { task, name: name.into(), parent: None, attr, group: GroupId::ROOT });
        task
    }

    /// Appends any event.
    pub fn event(&mut self, us: u64, cpu: u32, event: TraceEvent) -> &mut Self {
        self.records.push(Record { at: Instant::from_nanos(us * 1000), cpu: CpuId(cpu), event });
        self
    }

    /// A task wakes on a CPU's queue.
    pub fn wake(&mut self, us: u64, cpu: u32, task: TaskId) -> &mut Self {
        let prio = self.prio(task);
        let new = !core::mem::replace(&mut self.tasks[task.index()].has_waked, true);
        self.event(us, cpu, TraceEvent::Waking { task, prio, target: CpuId(cpu), new });
        self.event(us, cpu, TraceEvent::Wakeup { task, prio })
    }

    /// `prev` blocks, or the CPU was idle; `next` runs.
    pub fn run(&mut self, us: u64, cpu: u32, prev: Option<TaskId>, next: Option<TaskId>) -> &mut Self {
        let state = if prev.is_some() { PrevState::Blocked } else { PrevState::Idle };
        self.switch(us, cpu, prev, state, next)
    }

    /// `next` preempts `prev`.
    pub fn preempt(&mut self, us: u64, cpu: u32, prev: TaskId, next: TaskId) -> &mut Self {
        self.switch(us, cpu, Some(prev), PrevState::Runnable, Some(next))
    }

    /// `prev` ends; `next` runs.
    pub fn exit(&mut self, us: u64, cpu: u32, prev: TaskId, next: Option<TaskId>) -> &mut Self {
        self.event(us, cpu, TraceEvent::TaskExit { task: prev });
        self.switch(us, cpu, Some(prev), PrevState::Dead, next)
    }

    /// Appends a switch.
    pub fn switch(
        &mut self,
        us: u64,
        cpu: u32,
        prev: Option<TaskId>,
        prev_state: PrevState,
        next: Option<TaskId>,
    ) -> &mut Self {
        let next_prio = next.map_or(Prio::IDLE, |next| self.prio(next));
        self.event(us, cpu, TraceEvent::Switch { prev, prev_state, next, next_prio })
    }

    /// A task is migrated to another run queue.
    pub fn migrate(&mut self, us: u64, task: TaskId, from: u32, to: u32, reason: MigrateReason) -> &mut Self {
        let (prio, from, to) = (self.prio(task), CpuId(from), CpuId(to));
        self.event(us, to.0, TraceEvent::Migrate { task, prio, from, to, reason })
    }

    /// Restricts a task to CPUs, given in the kernel's list format.
    ///
    /// # Panics
    /// If `cpus` is not a CPU list.
    pub fn affinity(&mut self, us: u64, task: TaskId, cpus: &str) -> &mut Self {
        let cpus = cpus.parse().expect("a CPU list");
        self.event(us, 0, TraceEvent::Affinity { task, cpus: std::sync::Arc::new(cpus) })
    }

    /// Ends the trace.
    #[must_use]
    pub fn end(&self, us: u64) -> Trace {
        let mut meta = self.meta.clone();
        meta.end = Instant::from_nanos(us * 1000);
        Trace { meta, records: self.records.clone() }
    }

    fn prio(&self, task: TaskId) -> Prio {
        self.tasks[task.index()].attr.prio()
    }
}
