//! [`Metrics`]: follows a run record by record and ends in a [`Summary`].
//!
//! Only counters are stored, so a simulation can be measured without keeping a trace. Complexity:
//! O(1) per record. Memory: a few hundred bytes per task and, once it was woken, a histogram of 1
//! to 8 KiB; a bounded history per CPU.
//!
//! [`Replay`] decides which task runs and which waits; this module only adds up times. The run time
//! of a task is the time from the switch to it until the switch from it. It includes interrupts, as
//! in `/proc` without `IRQ_TIME_ACCOUNTING`.

use crate::frame::buckets::{self, Bucket};
use crate::gaps::Gaps;
use crate::groups::{GroupSums, Mode};
use crate::pressure::Pressure;
use crate::quantiles::Quantiles;
use crate::services::ServiceSums;
use crate::sharing::Sharing;
use crate::summary::{CpuSummary, IrqSummary, Latency, Migrations, Summary, TaskSummary, Wait, WaitEnd};
use crate::waits::{History, Piece, RunStretch, WorstWaits};
use hdrhistogram::Histogram;
use std::sync::Arc;
use zerolag_model::attr::{DlFlags, Prio, SchedAttr};
use zerolag_model::event::Irq;
use zerolag_model::{
    CpuId, Duration, GroupId, Instant, LayerTimes, Mark, MigrateReason, PressureTrigger, PrevState, Record,
    TaskCounters, TaskId, TraceEvent,
};
use zerolag_trace::replay::{Current, Replay, TaskState, WaitCause};
use zerolag_trace::{IdTable, Meta, Moment, TaskClock, Thread, Trace};

/// Follows a run and sums its figures.
#[derive(Clone, Debug)]
pub struct Metrics {
    meta: Meta,
    replay: Replay,
    tasks: IdTable<TaskId, TaskSums>,
    cpus: IdTable<CpuId, CpuSums>,
    groups: GroupSums,
    services: ServiceSums,
    sharing: Sharing,
    pressure: Pressure,
    history: History,
    worst: WorstWaits,
    migrations: Migrations,
    records: u64,
    last: Instant,
    gaps: Gaps,
    /// The time that groups are charged for.
    clock: TaskClock,
}

#[derive(Clone, Debug, Default)]
struct TaskSums {
    is_seen: bool,
    run: Duration,
    counters: Option<TaskCounters>,
    activations: u64,
    switches_in: u64,
    preemptions: u64,
    migrations: Migrations,
    wait: Duration,
    wait_max: Duration,
    sleep: Duration,
    /// Start of its sleep, while it sleeps.
    asleep: Option<Instant>,
    latency: Option<Box<Histogram<u32>>>,
    latency_max: Duration,
    timers: u64,
    missed: u64,
    lateness_max: Duration,
    end: Option<Instant>,
    turns: Option<u64>,
    overruns: u64,
    /// Its run time with each of its attributes. At `ATTRS_MAX` a new one replaces the last entry.
    attrs: Vec<(SchedAttr, Duration)>,
    /// Whether it is in a system call or a step of kernel mode.
    in_kernel: bool,
    /// The moment up to which its group has been charged for the current run.
    charged: Moment,
    /// The parts of the current wait on run queues that the task has left since.
    pieces: Vec<Piece>,
    /// Run time in gaps of its CPUs, and time that it waited in gaps of its run queues.
    run_unsure: Duration,
    wait_unsure: Duration,
}

#[derive(Clone, Debug, Default)]
struct CpuSums {
    busy: Duration,
    idle: Duration,
    unseen: Duration,
    switches: u64,
    layers: Option<LayerTimes>,
    lock_wait: Duration,
    lock_wait_max: Duration,
    ipis_sent: u64,
    ipis_received: u64,
    irqs: [IrqSummary; Irq::ALL.len()],
    /// The interrupt handlers that the CPU is in, the innermost last.
    handlers: Vec<(Irq, Instant)>,
}

impl Metrics {
    /// Starts before the first record.
    #[must_use]
    pub fn new(meta: &Meta) -> Self {
        Self {
            meta: meta.clone(),
            replay: Replay::new(meta),
            tasks: IdTable::default(),
            cpus: IdTable::with_first(meta.machine.nr_cpus()),
            groups: GroupSums::new(meta.setting("throttle")),
            services: ServiceSums::default(),
            sharing: Sharing::new(meta, false),
            pressure: Pressure::new(meta, false),
            history: History::new(meta),
            worst: WorstWaits::new(WORST_WAITS),
            migrations: Migrations::default(),
            records: 0,
            last: meta.start,
            gaps: Gaps::new(meta),
            clock: TaskClock::new(&meta.settings()),
        }
    }

    /// Measures the [figures of sharing](zerolag_model::figure::Quantity::is_of_sharing), too,
    /// which take more than all others together.
    #[must_use]
    pub fn with_sharing(mut self) -> Self {
        self.sharing = Sharing::new(&self.meta, true);
        self
    }

    /// Measures the [figures of pressure](zerolag_model::figure::Quantity::is_of_pressure), too.
    #[must_use]
    pub fn with_pressure(mut self) -> Self {
        self.pressure = Pressure::new(&self.meta, true);
        self
    }

    /// Measures these figures, and watches triggers on the pressure of groups, which are named by
    /// path; the machine is `/`.
    #[must_use]
    pub fn with_triggers(mut self, triggers: Vec<(Arc<str>, PressureTrigger)>) -> Self {
        self.pressure = Pressure::new(&self.meta, true).watching(triggers);
        self
    }

    /// Keeps this many of the worst waits instead of 10.
    #[must_use]
    pub fn keep_waits(mut self, count: usize) -> Self {
        self.worst = WorstWaits::new(count);
        self
    }

    /// Measures a whole trace, with all figures but those of sharing.
    #[must_use]
    pub fn of(trace: &Trace) -> Summary {
        Self::new(&trace.meta).of_whole(trace)
    }

    /// Follows a whole trace, from its first record.
    #[must_use]
    pub fn of_whole(mut self, trace: &Trace) -> Summary {
        for record in &trace.records {
            self.observe(record);
        }
        self.finish(trace.meta.end)
    }

    /// Follows a record.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    pub fn observe(&mut self, record: &Record) {
        self.records += 1;
        self.last = self.last.max(record.at);
        match &record.event {
            TraceEvent::TaskNew { task, .. } => self.tasks.entry(*task).is_seen = true,
            TraceEvent::Wakeup { task, .. } => {
                let task = self.tasks.entry(*task);
                task.is_seen = true;
                task.activations += 1;
            }
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                // A CPU without an earlier record ran the task that it leaves now all the time.
                let ran = match self.replay.cpu(record.cpu).current {
                    Current::Unknown => prev.map_or(Current::Idle, Current::Task),
                    known => known,
                };
                self.close_stretch(record.cpu, ran, record.at);
                self.cpus.entry(record.cpu).switches += 1;
                if let Some(prev) = prev {
                    match prev_state {
                        PrevState::Runnable => self.tasks.entry(*prev).preemptions += 1,
                        PrevState::Dead => self.tasks.entry(*prev).end = Some(record.at),
                        PrevState::Blocked | PrevState::Idle => {}
                    }
                }
                if let Some(next) = next {
                    self.switch_in(*next, record.cpu, record.at);
                }
            }
            TraceEvent::Migrate { task, from, reason, .. } => self.migrate(*task, *from, *reason, record.at),
            TraceEvent::LockAcquired { waited, .. } => {
                let cpu = self.cpus.entry(record.cpu);
                cpu.lock_wait = cpu.lock_wait.saturating_add(*waited);
                cpu.lock_wait_max = cpu.lock_wait_max.max(*waited);
            }
            TraceEvent::IpiSend { to, .. } => {
                self.cpus.entry(record.cpu).ipis_sent += 1;
                self.cpus.entry(*to).ipis_received += 1;
            }
            TraceEvent::IrqEnter { irq } => {
                self.end_mode(record.cpu, record.at);
                let handlers = &mut self.cpus.entry(record.cpu).handlers;
                if handlers.len() < HANDLERS_MAX {
                    handlers.push((*irq, record.at));
                }
            }
            TraceEvent::IrqExit { irq } => {
                self.end_mode(record.cpu, record.at);
                self.irq_exit(*irq, record.cpu, record.at);
            }
            TraceEvent::Syscall { task, enters } => {
                self.end_mode(record.cpu, record.at);
                self.tasks.entry(*task).in_kernel = *enters;
            }
            TraceEvent::Mark { task, mark: Mark::TimerDue { slack, .. } } => {
                let task = self.tasks.entry(*task);
                task.timers += 1;
                if slack.is_negative() {
                    task.missed += 1;
                    let lateness = Duration::from_nanos(slack.as_nanos().unsigned_abs());
                    task.lateness_max = task.lateness_max.max(lateness);
                }
            }
            TraceEvent::Mark { task, mark: Mark::Phase { .. } } => {
                self.tasks.entry(*task).turns.get_or_insert(0);
            }
            TraceEvent::Mark { task, mark: Mark::TurnEnd { .. } } => {
                *self.tasks.entry(*task).turns.get_or_insert(0) += 1;
            }
            TraceEvent::TaskExit { task } => self.tasks.entry(*task).end = Some(record.at),
            TraceEvent::DlOverrun { task } => self.tasks.entry(*task).overruns += 1,
            // The group that it leaves is charged for its run time there, and its group for that
            // with its former nice level.
            TraceEvent::GroupChange { task, .. } | TraceEvent::AttrChange { task, .. } => {
                if let Some(TaskState::Running { on, since }) = self.replay.task(*task).map(|task| task.state) {
                    self.charge_group(*task, on, since, record.at);
                }
            }
            TraceEvent::QueueNew { queue, name } => self.services.name(*queue, name),
            TraceEvent::Request { queue, request, step } => {
                self.services.observe(*queue, *request, *step, record.at, |task| self.groups.of(task));
            }
            TraceEvent::CpuTotals { times } => self.cpus.entry(record.cpu).layers = Some(*times),
            TraceEvent::TaskTotals { task, counters } => self.tasks.entry(*task).counters = Some(*counters),
            // The replay below follows every change of the running task; other events have no
            // figure.
            _ => {}
        }
        self.replay.apply(record);
        self.sharing.follow(record, &self.replay);
        self.pressure.follow(record, &self.replay);
        self.groups.observe(record);
        let _ended = self.clock.apply(record);
        match &record.event {
            TraceEvent::Waking { task, .. } | TraceEvent::Wakeup { task, .. } => self.end_sleep(*task, record.at),
            TraceEvent::Switch { prev, prev_state, next, .. } => {
                if let Some(prev) = prev.filter(|_| *prev_state == PrevState::Blocked) {
                    self.begin_sleep(prev, record.at);
                }
                // A recorder that loses a wakeup still shows that the task runs.
                if let Some(next) = next {
                    self.end_sleep(*next, record.at);
                }
            }
            _ => {}
        }
    }

    /// Notes that a task has left its CPU to sleep, unless a wakeup came first.
    fn begin_sleep(&mut self, id: TaskId, at: Instant) {
        if self.replay.task(id).is_some_and(|task| task.state == TaskState::Blocked) {
            self.tasks.entry(id).asleep = Some(at);
        }
    }

    fn end_sleep(&mut self, id: TaskId, at: Instant) {
        let task = self.tasks.entry(id);
        if let Some(since) = task.asleep.take() {
            task.sleep = task.sleep.saturating_add(at.since(since));
        }
    }

    /// Ends at `end`, or at the last record if that is later, and returns the figures. Tasks that
    /// still run or wait are counted until then.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Summary {
        let end = self.close(end);
        self.into_summary(end)
    }

    /// As [`finish`](Self::finish), and returns the distributions behind the quantiles.
    #[must_use]
    pub fn finish_with_buckets(mut self, end: Instant) -> (Summary, Vec<Bucket>) {
        let end = self.close(end);
        let of = |(id, sums): (TaskId, &TaskSums)| {
            let name = self.replay.task(id).map_or_else(Arc::default, |view| Arc::clone(&view.name));
            let histogram = sums.latency.as_ref().filter(|_| sums.is_seen);
            histogram.map(|histogram| buckets::of("wakeup_latency", &name, Some(id), histogram)).unwrap_or_default()
        };
        let mut buckets: Vec<Bucket> = self.tasks.iter().flat_map(of).collect();
        buckets.extend(self.services.buckets());
        (self.into_summary(end), buckets)
    }

    /// Counts what is under way until the end, and returns the end.
    fn close(&mut self, end: Instant) -> Instant {
        let end = end.max(self.last);
        let cpus: Vec<CpuId> = self.replay.cpus().map(|(cpu, _)| cpu).collect();
        for cpu in cpus {
            self.close_stretch(cpu, self.replay.cpu(cpu).current, end);
        }
        let waiting: Vec<TaskId> =
            self.replay.tasks().filter(|(_, task)| task.waits_since().is_some()).map(|(task, _)| task).collect();
        for task in waiting {
            self.end_wait(task, end, Ending::TraceEnded);
        }
        for (_, task) in self.tasks.iter_mut() {
            if let Some(since) = task.asleep.take() {
                task.sleep = task.sleep.saturating_add(end.since(since));
            }
        }
        self.services.close(end);
        self.sharing.close(end);
        self.pressure.close(end);
        end
    }

    /// Returns the figures of a closed run.
    fn into_summary(self, end: Instant) -> Summary {
        let Self { mut meta, replay, tasks, mut cpus, groups, services, sharing, pressure, .. } = self;
        let (worst, migrations, records) = (self.worst, self.migrations, self.records);
        meta.end = end;
        let ends = tasks.iter().filter(|(_, sums)| sums.is_seen).map(|(task, sums)| (task, sums.end));
        let switches = cpus.iter().map(|(_, cpu)| cpu.switches).sum();
        Summary {
            elapsed: end.since(meta.start),
            tasks: tasks
                .iter()
                .filter(|(_, sums)| sums.is_seen)
                .map(|(task, sums)| TaskSummary {
                    lag_max: sharing.lag(task),
                    end: sums.end.map(|at| at.since(meta.start)),
                    ..sums.summary(task, &replay, meta.recorded.thread(task).cloned())
                })
                .collect(),
            cpus: cpus.iter_mut().map(|(cpu, sums)| sums.summary(cpu)).collect(),
            services: services.finish(|group| groups.path(group)),
            groups: groups.finish(meta.source.is_complete(), meta.start, ends, |group| pressure.of(group)),
            pressure: pressure.of(GroupId::ROOT),
            idle_with_work: sharing.unused(),
            migrations,
            switches,
            records,
            worst_waits: worst.into_vec(),
            meta,
        }
    }

    /// Accounts the time since the CPU's last switch to what it ran.
    fn close_stretch(&mut self, cpu: CpuId, current: Current, at: Instant) {
        let view_since = self.replay.cpu(cpu).since;
        let time = at.since(view_since);
        let sums = self.cpus.entry(cpu);
        let ran = current.task();
        let unsure = self.gaps.within(cpu, view_since, at);
        match current {
            Current::Task(_) => sums.busy = sums.busy.saturating_add(time),
            Current::Idle => {
                // Idle within a gap is what the trace does not show.
                sums.idle = sums.idle.saturating_add(time.saturating_sub(unsure));
                sums.unseen = sums.unseen.saturating_add(unsure);
            }
            // No switch tells what the CPU did.
            Current::Unknown => sums.unseen = sums.unseen.saturating_add(time),
        }
        // The priority at the end: a recorded trace shows a change only when the task is switched
        // out.
        let mut prio = Prio::IDLE;
        if let Some(id) = ran {
            let task = self.tasks.entry(id);
            task.is_seen = true;
            task.run = task.run.saturating_add(time);
            task.run_unsure = task.run_unsure.saturating_add(unsure);
            if let Some(view) = self.replay.task(id) {
                prio = view.prio;
                task.run_with(view.attr, time);
            }
        }
        if let Some(id) = ran {
            self.charge_group(id, cpu, view_since, at);
        }
        if current != Current::Unknown {
            self.history.push(cpu, RunStretch { task: ran, prio, from: view_since, to: at });
        }
    }

    /// Charges the group of a task that runs on a CPU with its time there that was not charged yet.
    fn charge_group(&mut self, task: TaskId, cpu: CpuId, since: Instant, at: Instant) {
        let now = self.clock.now(cpu, at);
        let from = core::mem::replace(&mut self.tasks.entry(task).charged, now);
        // It runs since before the trace.
        let from = if from.at < since { Moment::first(since) } else { from };
        if let Some(group) = self.groups.of(task) {
            let mode = self.mode(task, cpu);
            self.groups.charge(group, now.since(from), mode);
        }
    }

    /// Returns the mode in which a task runs on a CPU.
    fn mode(&self, task: TaskId, cpu: CpuId) -> Mode {
        let in_handler = self.cpus.get(cpu).is_some_and(|sums| !sums.handlers.is_empty());
        if in_handler || self.tasks.get(task).is_some_and(|sums| sums.in_kernel) {
            return Mode::System;
        }
        match self.replay.task(task).map(|view| view.attr) {
            Some(SchedAttr::Fair { nice, .. }) if nice.value() > 0 => Mode::Nice,
            _ => Mode::User,
        }
    }

    /// The mode of the task that runs on a CPU changes: the time before counts as the mode so far.
    fn end_mode(&mut self, cpu: CpuId, at: Instant) {
        if !self.groups.is_empty()
            && let (Current::Task(task), since) = (self.replay.cpu(cpu).current, self.replay.cpu(cpu).since)
        {
            self.charge_group(task, cpu, since, at);
        }
    }

    fn switch_in(&mut self, next: TaskId, cpu: CpuId, at: Instant) {
        let now = self.clock.now(cpu, at);
        let task = self.tasks.entry(next);
        task.charged = now;
        task.is_seen = true;
        task.switches_in += 1;
        let Some(view) = self.replay.task(next) else { return };
        if view.waits_since().is_none() {
            return;
        }
        if let TaskState::Waking { .. } = view.state {
            // The recorder does not write `sched_wakeup`: the waking counts as the wakeup.
            task.activations += 1;
        }
        if let TaskState::Queued { since, cause: WaitCause::Woken | WaitCause::New, .. } | TaskState::Waking { since } =
            view.state
        {
            let latency = at.since(since);
            task.latency_max = task.latency_max.max(latency);
            let histogram = task.latency.get_or_insert_with(new_histogram);
            histogram
                .record(latency.as_nanos().min(LATENCY_MAX))
                .expect("invariant: the histogram grows to every 63-bit value");
        }
        self.end_wait(next, at, Ending::Ran { on: cpu });
    }

    /// Accounts the current wait of a task. The replay must still show it waiting.
    fn end_wait(&mut self, id: TaskId, at: Instant, ending: Ending) {
        let Some(view) = self.replay.task(id) else { return };
        let Some(from) = view.waits_since() else { return };
        let length = at.since(from);
        let unsure = match view.rq {
            // No switch of that CPU is recorded: the task can have run at any time.
            Some(cpu) if ending == Ending::TraceEnded && self.replay.cpu(cpu).current == Current::Unknown => length,
            Some(cpu) => self.gaps.within(cpu, from, at),
            None => Duration::ZERO,
        };
        let task = self.tasks.entry(id);
        task.wait_unsure = task.wait_unsure.saturating_add(unsure);
        task.is_seen = true;
        task.wait = task.wait.saturating_add(length);
        task.wait_max = task.wait_max.max(length);
        if self.worst.wants(length) {
            let (here_since, cause) = match view.state {
                TaskState::Queued { here_since, cause, .. } => (here_since, cause),
                TaskState::Unknown
                | TaskState::Blocked
                | TaskState::Waking { .. }
                | TaskState::Running { .. }
                | TaskState::Dead => (from, WaitCause::Woken),
            };
            let (cpu, end) = match ending {
                Ending::Ran { on } => (on, WaitEnd::Ran),
                Ending::TraceEnded => (view.rq.unwrap_or(CpuId(0)), WaitEnd::TraceEnded),
            };
            // Before its wakeup a task is on no queue, but the waker has chosen one: the task that
            // runs there delays it.
            let from_here = if task.pieces.is_empty() { from } else { here_since };
            task.pieces.push(Piece { cpu, from: from_here, to: at });
            let replay = &self.replay;
            let groups = &self.groups;
            let running = |other| {
                let view = replay.cpu(other);
                let prio = replay.running_prio(other).unwrap_or(Prio::IDLE);
                let open = RunStretch { task: view.current.task(), prio, from: view.since, to: at };
                (ending.leaves_open(other) && view.current != Current::Unknown).then_some(open)
            };
            let blocked_by = self.history.blockers(&task.pieces, running, |piece| groups.throttled(id, piece));
            self.worst.push(Wait { task: id, prio: view.prio, from, to: at, cpu, cause, end, unsure, blocked_by });
        }
        self.tasks.entry(id).pieces.clear();
    }

    fn migrate(&mut self, id: TaskId, from: CpuId, reason: MigrateReason, at: Instant) {
        self.migrations.count(reason);
        let task = self.tasks.entry(id);
        task.is_seen = true;
        task.migrations.count(reason);
        let state = self.replay.task(id).map(|task| task.state);
        if let Some(TaskState::Queued { since, here_since, .. }) = state
            && task.pieces.len() < PIECES_MAX
        {
            let from_here = if task.pieces.is_empty() { since } else { here_since };
            task.pieces.push(Piece { cpu: from, from: from_here, to: at });
        }
    }

    fn irq_exit(&mut self, irq: Irq, cpu: CpuId, at: Instant) {
        let sums = self.cpus.entry(cpu);
        let Some(open) = sums.handlers.iter().rposition(|(kind, _)| *kind == irq) else { return };
        let (_, since) = sums.handlers.remove(open);
        let time = at.since(since);
        let irq = &mut sums.irqs[irq as usize];
        irq.count += 1;
        irq.time = irq.time.saturating_add(time);
        irq.max = irq.max.max(time);
    }
}

/// What ends a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Ran { on: CpuId },
    TraceEnded,
}

impl Ending {
    /// Returns whether a CPU's current stretch is not in the history yet. The CPU that switches to
    /// the task has closed its stretch, and at the end every CPU has.
    fn leaves_open(self, cpu: CpuId) -> bool {
        match self {
            Self::Ran { on } => on != cpu,
            Self::TraceEnded => false,
        }
    }
}

impl TaskSums {
    /// Accounts run time to the attributes that the task had.
    fn run_with(&mut self, attr: SchedAttr, time: Duration) {
        let known = self.attrs.iter().position(|(known, _)| *known == attr);
        match known {
            Some(at) => self.attrs[at].1 = self.attrs[at].1.saturating_add(time),
            None if self.attrs.len() < ATTRS_MAX => self.attrs.push((attr, time)),
            None => self.attrs[ATTRS_MAX - 1] = (attr, time),
        }
    }

    fn summary(&self, task: TaskId, replay: &Replay, thread: Option<Thread>) -> TaskSummary {
        let unknown = zerolag_trace::replay::TaskView::default();
        let view = replay.task(task).unwrap_or(&unknown);
        TaskSummary {
            task,
            name: if view.name.is_empty() { format!("task {task}").into() } else { view.name.clone() },
            attr: self.attrs.iter().max_by_key(|(_, time)| *time).map_or(view.attr, |(attr, _)| *attr),
            thread,
            run: self.run,
            run_unsure: self.run_unsure,
            wait_unsure: self.wait_unsure,
            exec: self.counters.map(|counters| counters.exec),
            activations: self.activations,
            switches_in: self.switches_in,
            preemptions: self.preemptions,
            migrations: self.migrations,
            wait: self.wait,
            wait_max: self.wait_max,
            lag_max: None,
            sleep: self.sleep,
            latency: self.latency.as_ref().map(|histogram| {
                let quantile = |q| Duration::from_nanos(histogram.value_at_quantile(q)).min(self.latency_max);
                let quantiles = Quantiles::of(histogram);
                Latency {
                    count: histogram.len(),
                    p50: quantile(0.5),
                    p99: quantile(0.99),
                    max: self.latency_max,
                    quantiles,
                }
            }),
            timers: self.timers,
            missed: self.missed,
            lateness_max: self.lateness_max,
            end: None,
            turns: self.turns,
            dl_overruns: match view.attr {
                SchedAttr::Deadline(params) if params.flags.has(DlFlags::DL_OVERRUN) => Some(self.overruns),
                SchedAttr::Deadline(_) | SchedAttr::Rt { .. } | SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => None,
            },
        }
    }
}

impl CpuSums {
    fn summary(&self, cpu: CpuId) -> CpuSummary {
        CpuSummary {
            cpu,
            busy: self.busy,
            idle: self.idle,
            unseen: self.unseen,
            switches: self.switches,
            layers: self.layers,
            lock_wait: self.lock_wait,
            lock_wait_max: self.lock_wait_max,
            ipis_sent: self.ipis_sent,
            ipis_received: self.ipis_received,
            irqs: self.irqs,
        }
    }
}

/// Two significant digits: a quantile is within 1 % and a histogram starts at 1 KiB.
fn new_histogram() -> Box<Histogram<u32>> {
    Box::new(Histogram::new(2).expect("invariant: two significant digits are allowed"))
}

const WORST_WAITS: usize = 10;
const ATTRS_MAX: usize = 4;
/// The number of parts of one wait, on different run queues, that are kept; a task that is migrated
/// more often is explained in part.
const PIECES_MAX: usize = 16;
/// Interrupts nest two or three deep. This bounds the stack for a trace that never leaves its
/// handlers.
const HANDLERS_MAX: usize = 16;
const LATENCY_MAX: u64 = i64::MAX.unsigned_abs();

#[cfg(test)]
mod tests;
