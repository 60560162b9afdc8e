//! [`Recorder`]: the slices, waits and marks of a run, as a page draws them.
//!
//! A page that replayed records would need the rules of [`Replay`] a second time, in another
//! language. So the rules are applied here: a *slice* is a time in which a CPU runs one task, with
//! the wait before it and the waker; a *span* is a time in which something holds (a group is
//! throttled, a lock is held); a *point* is an instant.
//!
//! A file has a budget. What does not fit is left out in this order, and the page says so:
//! interrupts and IPIs; then short slices outside of the worst waits, which are merged with their
//! neighbours into one of the task that ran longest.
//!
//! Complexity: O(log tasks) per record.

use crate::escape::plain;
use crate::pack::Pack;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zerolag_model::event::{IpiReason, Mark, RequestStep};
use zerolag_model::{
    ClassId, CpuId, Duration, GroupId, Instant, MigrateReason, PrevState, Record, ServerState, TaskId, TraceEvent,
};
use zerolag_report::explain::Kind;
use zerolag_trace::groups::Groups;
use zerolag_trace::replay::{Current, Replay, TaskState, WaitCause};
use zerolag_trace::{Gap, Meta};

/// A time in which a CPU runs one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// Start, in nanoseconds.
    pub from: u64,
    /// End, in nanoseconds.
    pub to: u64,
    /// The task, as an index of [`Timeline::tasks`].
    pub task: u32,
    /// Its group, as an index of [`Timeline::groups`]; `None` is the root.
    pub group: Option<u32>,
    /// Its class.
    pub class: ClassId,
    /// Why it ended, and why the wait before it began: see [`how`].
    how: u8,
    /// The wait before it, in nanoseconds.
    pub(crate) wait: u64,
    /// 1 + 2 x the CPU of its waker, + 1 if that was an interrupt; 0 if it was not woken.
    by: u32,
}

/// The bits of [`Slice::how`].
mod how {
    pub(super) const BLOCKED: u8 = 1;
    pub(super) const ENDED: u8 = 2;
    pub(super) const OPEN: u8 = 3;
    pub(super) const WOKEN: u8 = 4;
    pub(super) const NEW: u8 = 8;
    pub(super) const PREEMPTED: u8 = 12;
    /// Several slices that were merged.
    pub(super) const MERGED: u8 = 16;
    /// A limit took the largest part of the wait before it.
    pub(super) const THROTTLED: u8 = 32;
    /// A lock took the largest part of the wait before it.
    pub(super) const LOCKED: u8 = 64;
}

/// The kinds of spans, by their numbers in a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum SpanKind {
    /// A group is throttled on a CPU.
    Throttled,
    /// The real-time tasks of a CPU are throttled.
    RtThrottled,
    /// The fair server of a CPU is queued (0) or deferred (1).
    Server,
    /// A CPU spins for a run-queue lock.
    Spin,
    /// A CPU serves an interrupt.
    Interrupt,
    /// A CPU is offline.
    Offline,
    /// A task runs although its group is throttled (0), or with a lent priority (1).
    Boosted,
    /// A task holds a lock.
    Holds,
    /// A task waits for a lock.
    WaitsForLock,
    /// A deadline task has no budget.
    NoBudget,
    /// A task was dequeued because its group is throttled.
    TaskThrottled,
    /// Events of a CPU are missing from the recording; `what` is their number, 0 if it is unknown.
    Unseen,
}

/// A time in which something holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// What holds.
    pub kind: SpanKind,
    /// Start, in nanoseconds.
    pub from: u64,
    /// End, in nanoseconds.
    pub to: u64,
    /// The CPU, if it concerns one.
    pub cpu: Option<u32>,
    /// The task, if it concerns one; an index of [`Timeline::tasks`].
    pub task: Option<u32>,
    /// The group, lock, CPU or kind; see [`SpanKind`].
    pub what: Option<u32>,
}

/// The kinds of points, by their numbers in a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum PointKind {
    Ipi,
    Migrate,
    Replenish,
    Overrun,
    Late,
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) kind: PointKind,
    pub(crate) at: u64,
    cpu: u32,
    task: Option<u32>,
    to: Option<u32>,
    what: u32,
}

/// A task of a timeline.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its name.
    pub name: Arc<str>,
}

/// The picture of a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Start of the trace, in nanoseconds.
    pub start: u64,
    /// End of the trace, in nanoseconds.
    pub end: u64,
    /// The tasks, in the order in which they were seen.
    pub tasks: Vec<Task>,
    /// The groups, in the order in which they were created.
    pub groups: Vec<Arc<str>>,
    /// Their ids, in the same order.
    pub group_ids: Vec<GroupId>,
    /// The parent of each group; `None` is the root.
    pub parents: Vec<Option<u32>>,
    /// The slices of each CPU, in order of time.
    pub cpus: Vec<Vec<Slice>>,
    /// Spans, in order of start.
    pub spans: Vec<Span>,
    pub(crate) points: Vec<Point>,
    /// Tasks that wait at the end, with the start of their waits.
    pub(crate) waiting: Vec<(u32, u64)>,
    /// The number of records.
    pub records: u64,
}

/// Follows records.
#[derive(Debug)]
pub struct Recorder {
    replay: Replay,
    members: Groups,
    index: BTreeMap<TaskId, u32>,
    group_index: BTreeMap<GroupId, u32>,
    wakers: BTreeMap<TaskId, u32>,
    open: Vec<Option<Slice>>,
    open_spans: BTreeMap<(SpanKind, u32, u32), usize>,
    /// The gaps of the recording.
    unseen: Vec<Span>,
    /// The thread ids of the recording, in order of task.
    tids: Vec<u32>,
    found: Timeline,
}

impl Recorder {
    /// Starts before the first record.
    #[must_use]
    pub fn new(meta: &Meta) -> Self {
        let cpus = meta.machine.nr_cpus();
        Self {
            replay: Replay::new(meta),
            members: Groups::new(meta.setting("throttle")),
            index: BTreeMap::new(),
            group_index: BTreeMap::new(),
            wakers: BTreeMap::new(),
            open: vec![None; cpus],
            open_spans: BTreeMap::new(),
            unseen: meta.recorded.gaps.iter().map(unseen).collect(),
            tids: meta.recorded.threads.iter().map(|thread| thread.tid).collect(),
            found: Timeline {
                start: meta.start.as_nanos(),
                end: meta.start.as_nanos(),
                tasks: Vec::new(),
                groups: Vec::new(),
                group_ids: Vec::new(),
                parents: Vec::new(),
                cpus: vec![Vec::new(); cpus],
                spans: Vec::new(),
                points: Vec::new(),
                waiting: Vec::new(),
                records: 0,
            },
        }
    }

    /// Returns the name of a row. Threads of a recording often share one, so their ids are in it.
    fn label(&self, task: TaskId, name: &Arc<str>) -> Arc<str> {
        match self.tids.get(task.index()) {
            Some(tid) => format!("{name} {tid}").into(),
            None => Arc::clone(name),
        }
    }

    /// Returns the index of a task.
    fn task(&mut self, task: TaskId) -> u32 {
        let next = number(self.found.tasks.len());
        let index = *self.index.entry(task).or_insert(next);
        if index == next {
            self.found.tasks.push(Task { id: task, name: format!("task {task}").into() });
        }
        index
    }

    fn begin(&mut self, kind: SpanKind, subject: (Option<u32>, Option<u32>), what: Option<u32>, at: Instant) {
        let key = (kind, subject.0.or(subject.1).unwrap_or_default(), what_key(kind, what));
        self.end(kind, subject, what, at);
        self.open_spans.insert(key, self.found.spans.len());
        let (cpu, task) = subject;
        self.found.spans.push(Span { kind, from: at.as_nanos(), to: u64::MAX, cpu, task, what });
    }

    fn end(&mut self, kind: SpanKind, subject: (Option<u32>, Option<u32>), what: Option<u32>, at: Instant) {
        let key = (kind, subject.0.or(subject.1).unwrap_or_default(), what_key(kind, what));
        if let Some(open) = self.open_spans.remove(&key) {
            self.found.spans[open].to = at.as_nanos();
        }
    }

    fn set(&mut self, on: bool, kind: SpanKind, subject: (Option<u32>, Option<u32>), what: Option<u32>, at: Instant) {
        if on { self.begin(kind, subject, what, at) } else { self.end(kind, subject, what, at) }
    }

    fn point(&mut self, kind: PointKind, record: &Record, task: Option<u32>, to: Option<u32>, what: u32) {
        self.found.points.push(Point { kind, at: record.at.as_nanos(), cpu: record.cpu.0, task, to, what });
    }

    /// Follows a record.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    pub fn observe(&mut self, record: &Record) {
        let (at, cpu) = (record.at, record.cpu);
        let here = (Some(cpu.0), None);
        self.found.records += 1;
        self.found.end = self.found.end.max(at.as_nanos());
        match &record.event {
            TraceEvent::TaskNew { task, name, .. } => {
                let name = self.label(*task, name);
                let task = self.task(*task);
                self.found.tasks[task as usize].name = name;
            }
            TraceEvent::GroupNew { group, parent, path } => {
                let parent = self.group_index.get(parent).copied();
                self.group_index.insert(*group, number(self.found.groups.len()));
                self.found.groups.push(Arc::clone(path));
                self.found.group_ids.push(*group);
                self.found.parents.push(parent);
            }
            TraceEvent::Waking { task, .. } => {
                let irq =
                    u32::from(self.replay.cpu(cpu).irq_depth > 0 || self.replay.cpu(cpu).current == Current::Idle);
                self.wakers.insert(*task, 1 + 2 * cpu.0 + irq);
            }
            TraceEvent::Switch { prev_state, next, next_prio, .. } => {
                self.close(cpu, at, *prev_state);
                if let Some(next) = next {
                    self.switch_in(*next, next_prio.class(), cpu, at);
                }
            }
            TraceEvent::Migrate { task, from, to, reason, .. } => {
                let task = self.task(*task);
                let reason = MigrateReason::ALL.iter().position(|known| known == reason).unwrap_or_default();
                let moved = Record { cpu: *from, ..record.clone() };
                self.point(PointKind::Migrate, &moved, Some(task), Some(to.0), number(reason));
            }
            TraceEvent::IpiSend { to, reason } => {
                let reason = IpiReason::ALL.iter().position(|known| known == reason).unwrap_or_default();
                self.point(PointKind::Ipi, record, None, Some(to.0), number(reason));
            }
            TraceEvent::IrqEnter { irq } => self.begin(SpanKind::Interrupt, here, Some(*irq as u32), at),
            TraceEvent::IrqExit { irq } => self.end(SpanKind::Interrupt, here, Some(*irq as u32), at),
            TraceEvent::LockContended { rq } => self.begin(SpanKind::Spin, here, Some(rq.0), at),
            TraceEvent::LockAcquired { rq, .. } => self.end(SpanKind::Spin, here, Some(rq.0), at),
            TraceEvent::Throttle { group } => self.begin(SpanKind::Throttled, here, self.group(*group), at),
            TraceEvent::Unthrottle { group } => self.end(SpanKind::Throttled, here, self.group(*group), at),
            TraceEvent::RtThrottle { throttled } => self.set(*throttled, SpanKind::RtThrottled, here, None, at),
            TraceEvent::RtGroupThrottle { group, throttled } => {
                self.set(*throttled, SpanKind::RtThrottled, here, self.group(*group), at);
            }
            TraceEvent::Hotplug { online } => self.set(!*online, SpanKind::Offline, here, None, at),
            TraceEvent::Server { state, .. } => match state {
                ServerState::Queued { .. } => self.begin(SpanKind::Server, here, Some(0), at),
                ServerState::Deferred { .. } => self.begin(SpanKind::Server, here, Some(1), at),
                ServerState::Stopped | ServerState::Throttled { .. } => self.end(SpanKind::Server, here, None, at),
            },
            TraceEvent::Boost { task, boosted } => {
                let task = self.task(*task);
                self.set(*boosted, SpanKind::Boosted, (None, Some(task)), Some(0), at);
            }
            TraceEvent::PrioInherit { task, to, .. } => {
                let own = self.replay.task(*task).map(|view| view.attr.prio());
                let task = self.task(*task);
                self.set(own.is_some_and(|own| to.beats(own)), SpanKind::Boosted, (None, Some(task)), Some(1), at);
            }
            TraceEvent::Proxy { task, donor, .. } => {
                let task = self.task(*task);
                self.set(donor.is_some(), SpanKind::Boosted, (None, Some(task)), Some(1), at);
            }
            TraceEvent::WaitLock { task, lock, .. } => {
                let task = self.task(*task);
                self.begin(SpanKind::WaitsForLock, (None, Some(task)), Some(*lock), at);
            }
            TraceEvent::TakeLock { task, lock } => {
                let task = self.task(*task);
                self.end(SpanKind::WaitsForLock, (None, Some(task)), Some(*lock), at);
                self.begin(SpanKind::Holds, (None, Some(task)), Some(*lock), at);
            }
            TraceEvent::DropLock { task, lock } => {
                let task = self.task(*task);
                self.end(SpanKind::Holds, (None, Some(task)), Some(*lock), at);
            }
            TraceEvent::DlThrottle { task, .. } => {
                let task = self.task(*task);
                self.begin(SpanKind::NoBudget, (None, Some(task)), None, at);
            }
            TraceEvent::DlReplenish { task, .. } => {
                let task = self.task(*task);
                self.end(SpanKind::NoBudget, (None, Some(task)), None, at);
                self.point(PointKind::Replenish, record, Some(task), None, 0);
            }
            TraceEvent::DlOverrun { task } => {
                let task = self.task(*task);
                self.point(PointKind::Overrun, record, Some(task), None, 0);
            }
            TraceEvent::TaskThrottle { task, throttled } => {
                let task = self.task(*task);
                self.set(*throttled, SpanKind::TaskThrottled, (None, Some(task)), None, at);
            }
            TraceEvent::Mark { task, mark: Mark::TimerDue { slack, .. } } if slack.is_negative() => {
                let task = self.task(*task);
                self.point(PointKind::Late, record, Some(task), None, 0);
            }
            TraceEvent::Request { queue, step: RequestStep::Drop, .. } => {
                self.point(PointKind::Drop, record, None, None, *queue);
            }
            // The page shows no other event.
            _ => {}
        }
        self.replay.apply(record);
        self.members.apply(record);
    }

    /// Says what took the largest part of the wait of the task that a CPU has just switched to.
    pub fn explain_wait(&mut self, cpu: CpuId, kind: Kind) {
        if let Some(Some(slice)) = self.open.get_mut(cpu.0 as usize) {
            slice.how |= match kind {
                Kind::Throttled => how::THROTTLED,
                Kind::Locked => how::LOCKED,
                Kind::Queued | Kind::Other => 0,
            };
        }
    }

    fn group(&self, group: GroupId) -> Option<u32> {
        self.group_index.get(&group).copied()
    }

    fn slot(&mut self, cpu: CpuId) -> usize {
        let slot = cpu.0 as usize;
        if slot >= self.open.len() {
            self.open.resize(slot + 1, None);
            self.found.cpus.resize(slot + 1, Vec::new());
        }
        slot
    }

    fn close(&mut self, cpu: CpuId, at: Instant, state: PrevState) {
        let slot = self.slot(cpu);
        let Some(mut slice) = self.open[slot].take() else { return };
        slice.to = at.as_nanos().max(slice.from);
        slice.how |= match state {
            PrevState::Runnable | PrevState::Idle => 0,
            PrevState::Blocked => how::BLOCKED,
            PrevState::Dead => how::ENDED,
        };
        self.found.cpus[slot].push(slice);
    }

    fn switch_in(&mut self, task: TaskId, class: ClassId, cpu: CpuId, at: Instant) {
        let view = self.replay.task(task);
        let since = view.and_then(|view| view.waits_since());
        let cause = match view.map(|view| view.state) {
            Some(TaskState::Queued { cause, .. }) => Some(cause),
            Some(TaskState::Waking { .. }) => Some(WaitCause::Woken),
            _ => None,
        };
        let (mut how, mut by) = (0, 0);
        match cause {
            Some(WaitCause::Woken) => how = how::WOKEN,
            Some(WaitCause::New) => how = how::NEW,
            Some(WaitCause::Preempted) => how = how::PREEMPTED,
            None => {}
        }
        let waker = self.wakers.remove(&task);
        if matches!(cause, Some(WaitCause::Woken | WaitCause::New)) {
            by = waker.unwrap_or_default();
        }
        let group = self.members.path(task).next().and_then(|group| self.group(group));
        let (task, slot, from) = (self.task(task), self.slot(cpu), at.as_nanos());
        let wait = since.map_or(0, |since| at.since(since).as_nanos());
        self.open[slot] = Some(Slice { from, to: from, task, group, class, how, wait, by });
    }

    /// Ends at `end`, or at the last record if that is later.
    #[must_use]
    pub fn finish(mut self, end: Instant) -> Timeline {
        self.found.end = self.found.end.max(end.as_nanos());
        let end = self.found.end;
        for (slot, open) in self.open.iter_mut().enumerate() {
            if let Some(slice) = open.take() {
                self.found.cpus[slot].push(Slice { to: end, how: slice.how | how::OPEN, ..slice });
            }
        }
        self.found.spans.iter_mut().filter(|span| span.to == u64::MAX).for_each(|span| span.to = end);
        if !self.unseen.is_empty() {
            self.found.spans.append(&mut self.unseen);
            self.found.spans.sort_by_key(|span| span.from);
        }
        let waiting: Vec<_> =
            self.replay.tasks().filter_map(|(task, view)| Some((task, view.waits_since()?))).collect();
        for (task, since) in waiting {
            let task = self.task(task);
            self.found.waiting.push((task, since.as_nanos()));
        }
        self.found
    }
}

fn unseen(gap: &Gap) -> Span {
    let what = Some(u32::try_from(gap.events).unwrap_or(u32::MAX - 1));
    let (from, to) = (gap.from.as_nanos(), gap.until.as_nanos());
    Span { kind: SpanKind::Unseen, from, to, cpu: Some(gap.cpu.0), task: None, what }
}

/// Returns the part of a span's key that tells apart spans of one kind and subject: a CPU has one
/// server, a task one budget, and a task can hold several locks.
const fn what_key(kind: SpanKind, what: Option<u32>) -> u32 {
    match (kind, what) {
        (SpanKind::Server, _) | (_, None) => 0,
        (_, Some(what)) => what + 1,
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// How much of a timeline a page contains.
#[derive(Clone, Debug)]
pub struct Detail {
    /// Whether interrupts and IPIs are in it.
    pub interrupts: bool,
    /// Slices shorter than this, in nanoseconds, are merged; 0: none.
    pub merged_below: u64,
    /// Times in which nothing is merged: those of the worst waits.
    pub kept: Vec<(Instant, Instant)>,
}

impl Detail {
    /// Everything.
    pub const ALL: Self = Self { interrupts: true, merged_below: 0, kept: Vec::new() };

    /// Returns the next smaller detail.
    #[must_use]
    pub fn less(&self) -> Self {
        let merged_below = if self.interrupts { 0 } else { (self.merged_below * 4).max(1_000) };
        Self { interrupts: false, merged_below, kept: self.kept.clone() }
    }

    /// Returns what is missing, as a sentence; `None` if nothing is.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let merged = match self.merged_below {
            0 => String::new(),
            ns => format!(
                " Outside of the worst waits, slices shorter than {} are merged with their neighbours.",
                Duration::from_nanos(ns)
            ),
        };
        (!self.interrupts).then(|| format!("To keep the file small it has no interrupts and no IPIs.{merged}"))
    }

    /// Returns what is missing, as a sentence of a page that can ask for more.
    pub(crate) fn at_this_zoom(&self) -> Option<String> {
        let merged = match self.merged_below {
            0 => String::new(),
            ns => format!(", and slices shorter than {} are merged with their neighbours", Duration::from_nanos(ns)),
        };
        (!self.interrupts).then(|| format!("At this zoom interrupts and IPIs are left out{merged}."))
    }
}

impl Timeline {
    /// Adds the columns of the timeline to a page, and returns the rest for its head.
    #[must_use]
    pub fn pack(&self, name: &str, prefix: &str, detail: &Detail, pack: &mut Pack) -> Value {
        let merged: Vec<Vec<Slice>> = match detail.merged_below {
            0 => Vec::new(),
            below => self.cpus.iter().map(|slices| merge(slices, below, &detail.kept)).collect(),
        };
        let cpus = if detail.merged_below == 0 { &self.cpus } else { &merged };
        let all = || cpus.iter().flatten();
        let column = |name: &str| format!("{prefix}{name}");
        let gaps = cpus.iter().flat_map(|slices| {
            let mut last = self.start;
            slices.iter().map(move |slice| slice.from.saturating_sub(std::mem::replace(&mut last, slice.to)))
        });
        pack.column(&column("gap"), gaps);
        pack.column(&column("len"), all().map(|slice| slice.to - slice.from));
        pack.column(&column("task"), all().map(|slice| slice.task.into()));
        pack.column(&column("how"), all().map(|slice| slice.how.into()));
        pack.column(&column("wait"), all().map(|slice| slice.wait));
        pack.column(&column("by"), all().map(|slice| slice.by.into()));
        let some = |value: Option<u32>| value.map_or(0, |value| u64::from(value) + 1);
        let spans = || self.spans.iter().filter(|span| detail.interrupts || span.kind != SpanKind::Interrupt);
        pack.column(&column("s.kind"), spans().map(|span| span.kind as u64));
        pack.times(&column("s.from"), spans().map(|span| span.from));
        pack.column(&column("s.len"), spans().map(|span| span.to - span.from));
        pack.column(&column("s.cpu"), spans().map(|span| some(span.cpu)));
        pack.column(&column("s.task"), spans().map(|span| some(span.task)));
        pack.column(&column("s.what"), spans().map(|span| some(span.what)));
        let points = || self.points.iter().filter(|point| detail.interrupts || point.kind != PointKind::Ipi);
        pack.column(&column("p.kind"), points().map(|point| point.kind as u64));
        pack.times(&column("p.at"), points().map(|point| point.at));
        pack.column(&column("p.cpu"), points().map(|point| point.cpu.into()));
        pack.column(&column("p.task"), points().map(|point| some(point.task)));
        pack.column(&column("p.to"), points().map(|point| some(point.to)));
        pack.column(&column("p.what"), points().map(|point| point.what.into()));
        pack.column(&column("w.task"), self.waiting.iter().map(|(task, _)| u64::from(*task)));
        pack.column(&column("w.from"), self.waiting.iter().map(|(_, from)| *from));
        json!({
            "name": plain(name),
            "prefix": prefix,
            "start": self.start,
            "end": self.end,
            "records": self.records,
            "slices": cpus.iter().map(Vec::len).collect::<Vec<_>>(),
            "tasks": self.tasks.iter().map(|task| plain(&task.name)).collect::<Vec<_>>(),
            "groups": self.groups.iter().map(|path| plain(path)).collect::<Vec<_>>(),
            "note": detail.note(),
        })
    }

    /// Returns the tasks that ever ran or waited, which have a row.
    pub(crate) fn rows(&self) -> Vec<u32> {
        let ran = self.cpus.iter().flatten().map(|slice| slice.task);
        let rows: BTreeSet<u32> = ran.chain(self.waiting.iter().map(|(task, _)| *task)).collect();
        rows.into_iter().collect()
    }

    /// Returns the index of a task.
    #[must_use]
    pub fn index_of(&self, task: TaskId) -> Option<usize> {
        self.tasks.iter().position(|known| known.id == task)
    }
}

/// Merges runs of slices that are shorter than `below` and that no kept time touches.
pub(crate) fn merge(slices: &[Slice], below: u64, kept: &[(Instant, Instant)]) -> Vec<Slice> {
    let is_kept =
        |slice: &Slice| kept.iter().any(|(from, to)| slice.from <= to.as_nanos() && slice.to >= from.as_nanos());
    let mut out: Vec<Slice> = Vec::new();
    // The run time of each task in the run of slices that ends `out`.
    let mut times: Vec<(u32, u64)> = Vec::new();
    for slice in slices {
        let is_short = slice.to - slice.from < below && !is_kept(slice);
        let joins = !times.is_empty()
            && is_short
            && out
                .last()
                .is_some_and(|last| slice.from - last.to < below && slice.to - last.from < below.saturating_mul(8));
        if !joins {
            times.clear();
            out.push(*slice);
            if is_short {
                times.push((slice.task, slice.to - slice.from));
            }
            continue;
        }
        match times.iter_mut().find(|(task, _)| *task == slice.task) {
            Some((_, time)) => *time += slice.to - slice.from,
            None => times.push((slice.task, slice.to - slice.from)),
        }
        if let (Some(last), Some((task, _))) = (out.last_mut(), times.iter().max_by_key(|(_, time)| *time)) {
            *last = Slice { to: slice.to, task: *task, how: how::MERGED, wait: 0, by: 0, ..*last };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::event::Irq;
    use zerolag_trace::Trace;
    use zerolag_trace::script::Script;

    fn of(trace: &Trace) -> Timeline {
        let mut recorder = Recorder::new(&trace.meta);
        trace.records.iter().for_each(|record| recorder.observe(record));
        recorder.finish(trace.meta.end)
    }

    fn two_tasks() -> Trace {
        let mut script = Script::new(2);
        let (a, b) = (script.fair("a"), script.fair("b"));
        script.wake(0, 0, a).run(2, 0, None, Some(a)).wake(5, 0, b);
        script.event(6, 0, TraceEvent::IrqEnter { irq: Irq::Tick }).event(7, 0, TraceEvent::IrqExit { irq: Irq::Tick });
        script.run(10, 0, Some(a), Some(b)).event(12, 1, TraceEvent::RtThrottle { throttled: true }).wake(15, 0, a);
        script.end(20)
    }

    #[test]
    fn slices_have_their_waits_and_wakers() {
        let found = of(&two_tasks());
        let us = |ns: u64| ns / 1_000;
        let slices: Vec<_> = found.cpus[0].iter().map(|s| (us(s.from), us(s.to), s.task, us(s.wait), s.by)).collect();
        assert_eq!(
            slices[..2],
            [(2, 10, 0, 2, 2), (10, 20, 1, 5, 1)],
            "the first was woken by an idle CPU, the second by a"
        );
        assert_eq!(found.spans.len(), 2);
        assert_eq!((us(found.spans[0].from), us(found.spans[0].to)), (6, 7));
        assert_eq!((found.spans[1].kind, us(found.spans[1].to)), (SpanKind::RtThrottled, 20), "open at the end");
        assert_eq!(found.waiting, [(0, 15_000)], "a was woken again");
    }

    #[test]
    fn gaps_are_spans_of_their_cpu_in_order_of_time() {
        let mut trace = two_tasks();
        let us = |us: u64| Instant::from_nanos(us * 1_000);
        trace.meta.recorded.gaps.push(Gap { cpu: CpuId(1), from: us(3), until: us(9), events: 7 });
        let found = of(&trace);
        let order: Vec<_> = found.spans.iter().map(|span| span.kind).collect();
        assert_eq!(order, [SpanKind::Unseen, SpanKind::Interrupt, SpanKind::RtThrottled]);
        let span = found.spans[0];
        assert_eq!((span.cpu, span.from, span.to, span.what), (Some(1), 3_000, 9_000, Some(7)));
    }

    #[test]
    fn short_slices_are_merged_outside_of_kept_times_only() {
        let slice = |from: u64, to: u64, task: u32| Slice {
            from,
            to,
            task,
            group: None,
            class: ClassId::Fair,
            how: 0,
            wait: 7,
            by: 0,
        };
        let all =
            [slice(0, 5, 1), slice(5, 8, 2), slice(8, 12, 1), slice(12, 90, 3), slice(90, 95, 1), slice(95, 99, 2)];
        let merged = merge(&all, 50, &[]);
        assert_eq!(
            merged.iter().map(|s| (s.from, s.to, s.task)).collect::<Vec<_>>(),
            [(0, 12, 1), (12, 90, 3), (90, 99, 1)]
        );
        assert_eq!((merged[0].how, merged[1].how), (how::MERGED, 0));
        let kept = (Instant::from_nanos(91), Instant::from_nanos(96));
        assert_eq!(merge(&all, 50, &[kept]).len(), 4);
        assert_eq!(merge(&all, 1, &[]), all);
    }

    #[test]
    fn less_detail_says_what_is_missing() {
        let mut detail = Detail::ALL;
        assert_eq!(detail.note(), None);
        detail = detail.less();
        assert_eq!((detail.interrupts, detail.merged_below), (false, 0));
        detail = detail.less().less();
        assert_eq!(detail.merged_below, 4_000);
        assert!(detail.note().is_some_and(|note| note.contains("shorter than 4us")));
    }
}
