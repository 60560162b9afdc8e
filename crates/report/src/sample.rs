//! Hand-made traces for tests.

use zerolag_model::attr::{Prio, RtPriority, SchedAttr};
use zerolag_model::{CpuId, GroupId, Instant, MigrateReason, PrevState, Record, TaskId, TraceEvent};
use zerolag_trace::{Machine, Meta, Source, Trace};

/// A trace in the making; times are in microseconds.
pub(crate) struct Script {
    trace: Trace,
    attrs: Vec<SchedAttr>,
}

impl Script {
    pub(crate) fn new(cpus: u32) -> Self {
        let mut meta = Meta::new(Source::Simulation, Machine::Cpus(cpus));
        meta.producer = "zerolag test".to_owned();
        Self { trace: Trace { meta, records: Vec::new() }, attrs: Vec::new() }
    }

    pub(crate) fn task(&mut self, name: &str, fifo: Option<i64>) -> TaskId {
        let task = TaskId::from_index(self.attrs.len());
        let attr = fifo.map_or(SchedAttr::NORMAL, |value| SchedAttr::fifo(RtPriority::new(value).unwrap()));
        self.attrs.push(attr);
        self.event(0, 0, TraceEvent::TaskNew { task, name: name.into(), parent: None, attr, group: GroupId::ROOT });
        task
    }

    pub(crate) fn event(&mut self, us: u64, cpu: u32, event: TraceEvent) -> &mut Self {
        self.trace.records.push(Record { at: Instant::from_nanos(us * 1000), cpu: CpuId(cpu), event });
        self
    }

    fn prio(&self, task: TaskId) -> Prio {
        self.attrs[task.index()].prio()
    }

    pub(crate) fn wake(&mut self, us: u64, cpu: u32, task: TaskId) -> &mut Self {
        let prio = self.prio(task);
        let new = !self
            .trace
            .records
            .iter()
            .any(|record| matches!(record.event, TraceEvent::Waking { task: t, .. } if t == task));
        self.event(us, cpu, TraceEvent::Waking { task, prio, target: CpuId(cpu), new });
        self.event(us, cpu, TraceEvent::Wakeup { task, prio })
    }

    fn switch(
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

    /// `prev` blocks, or the CPU was idle.
    pub(crate) fn run(&mut self, us: u64, cpu: u32, prev: Option<TaskId>, next: Option<TaskId>) -> &mut Self {
        let state = if prev.is_some() { PrevState::Blocked } else { PrevState::Idle };
        self.switch(us, cpu, prev, state, next)
    }

    pub(crate) fn preempt(&mut self, us: u64, cpu: u32, prev: TaskId, next: TaskId) -> &mut Self {
        self.switch(us, cpu, Some(prev), PrevState::Runnable, Some(next))
    }

    pub(crate) fn migrate(&mut self, us: u64, task: TaskId, from: u32, to: u32, reason: MigrateReason) -> &mut Self {
        let (prio, from, to) = (self.prio(task), CpuId(from), CpuId(to));
        self.event(us, to.0, TraceEvent::Migrate { task, prio, from, to, reason })
    }

    pub(crate) fn end(&mut self, us: u64) -> Trace {
        let mut trace = self.trace.clone();
        trace.meta.end = Instant::from_nanos(us * 1000);
        trace
    }
}

/// Ten milliseconds on two CPUs, the second idle: `a` 0-4, `f` (FIFO 5) 4-6, `a` 6-8, `b` 8-10. `b` waits from 0 on.
pub(crate) fn two_hogs_and_a_fifo() -> Trace {
    let mut script = Script::new(2);
    let a = script.task("a", None);
    let b = script.task("b", None);
    let f = script.task("f", Some(5));
    script.wake(0, 0, a).run(0, 0, None, Some(a)).wake(0, 0, b);
    script.wake(4000, 0, f).preempt(4000, 0, a, f).run(6000, 0, Some(f), Some(a)).preempt(8000, 0, a, b);
    script.end(10_000)
}
