//! [`Engine`]: the scheduler on real threads, with its run queues, tasks, ids and threads, as data.

use super::blocking::Blocking;
use super::cpu_thread::CpuThread;
use super::detached::DetachedPoll;
use super::group::GroupState;
use super::info::Hooks;
use super::live_tasks::LiveTasks;
use super::task::Task;
use super::time_source::TimeSource;
use super::timeline::Timeline;
use crate::meter::Meter;
use crate::pool::Pool;
use crate::reactor::Reactor;
use crate::record::Recorder;
use crate::sync::thread::JoinHandle;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, QueueLock, RwLock};
use parking_lot::RawMutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use zerolag_core::{Clock, Parcel, Rq, Scheduler};
use zerolag_model::{CpuId, Duration, GroupId, Instant, Record, TaskId, TraceEvent};
use zerolag_trace::{Machine, Meta, Source, Trace};

/// A run queue and its task clock.
pub(crate) struct Queue {
    pub(crate) rq: Rq,
    pub(crate) meter: Meter,
}

impl Queue {
    /// Returns its clocks at a given wall time.
    pub(crate) fn clock(&mut self, wall: Instant) -> Clock {
        Clock { wall, task: self.meter.at(wall) }
    }
}

/// A CPU of the scheduler, whose thread runs its tasks. It shares no cache line with the
/// next one; processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Cpu {
    pub(crate) queue: QueueLock<Queue>,
    /// The CPU has been asked to schedule; checkpoints read this flag.
    pub(crate) is_kicked: Arc<AtomicBool>,
    /// The CPU runs a task.
    pub(crate) is_busy: AtomicBool,
    /// When the task was switched to that is polled next, in nanoseconds; 0 once it is polled.
    pub(crate) began: AtomicU64,
    /// A task whose wakeup the poll in progress has left to its end ([`wake`](crate::wake)).
    pub(crate) next: Mutex<Option<Arc<Task>>>,
    pub(crate) thread: Mutex<CpuThread<Task>>,
}

/// The ids that are free.
#[derive(Default)]
struct Ids {
    fresh: usize,
    /// Ids that were given before, each with the body of the task that had it; without a body if
    /// that task was never started.
    used: Vec<(TaskId, Option<Parcel>)>,
}

pub(crate) struct Engine {
    pub(crate) scheduler: Scheduler<RawMutex>,
    pub(crate) cpus: Box<[Cpu]>,
    pub(crate) tasks: TaskTable,
    ids: Mutex<Ids>,
    pub(crate) timeline: Timeline,
    pub(crate) time: TimeSource,
    pub(crate) is_stopping: AtomicBool,
    /// No further task is started; true as well once the runtime stops.
    pub(crate) is_closed: AtomicBool,
    /// Held (shared) while a task is being started, so that at the end of the runtime the task
    /// either exists or was refused.
    pub(crate) spawning: RwLock<()>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) trace: Option<Mutex<Vec<Record>>>,
    /// How long a poll can ignore a preemption request before it loses its CPU; `None` is forever.
    pub(crate) hand_off_after: Option<Duration>,
    /// The number of threads that lost their CPU, and its limit.
    pub(crate) detached: AtomicUsize,
    pub(crate) detached_max: usize,
    /// The CPU time for which a group is spared ([`spare`](crate::spare)).
    pub(crate) spare_at_most: Duration,
    /// The tasks whose polls have lost their CPU.
    pub(crate) detached_polls: Mutex<Vec<DetachedPoll<Task>>>,
    pub(crate) pool: Pool,
    pub(crate) blocking: Blocking<GroupState>,
    pub(crate) callbacks: Blocking<GroupState>,
    pub(crate) live_tasks: LiveTasks,
    pub(crate) reactor: Reactor,
    /// The process that started the threads.
    pid: u32,
    pub(crate) hooks: Hooks,
    /// Waits and polls are counted ([`latency`](crate::latency)).
    pub(crate) is_measuring: bool,
    /// The root group, which lives as long as the runtime.
    pub(crate) root: std::sync::OnceLock<Weak<GroupState>>,
    /// The groups that live, except the root.
    groups: Mutex<BTreeMap<GroupId, Weak<GroupState>>>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Panics of users' code that no handle reports.
    pub(crate) stray_panics: AtomicU64,
}

/// The live tasks by id. A few share a lock and fill a cache line with it: a lock for each would
/// take as much memory as its task does here. Ids that follow each other are in different lines,
/// so that CPUs that run tasks of one age do not contend for one.
pub(crate) struct TaskTable {
    rows: Box<[TaskRow]>,
    len: usize,
}

#[derive(Default)]
#[repr(align(64))]
struct TaskRow(Mutex<[Option<Arc<Task>>; TASKS_PER_ROW]>);

const TASKS_PER_ROW: usize = 7;

impl TaskTable {
    fn new(len: usize) -> Self {
        Self { rows: (0..len.div_ceil(TASKS_PER_ROW)).map(|_| TaskRow::default()).collect(), len }
    }

    /// Returns the lock of an id, and its place below it.
    fn place(&self, id: TaskId) -> (&TaskRow, usize) {
        (&self.rows[id.index() % self.rows.len()], id.index() / self.rows.len())
    }

    fn get(&self, id: TaskId) -> Option<Arc<Task>> {
        let (row, place) = self.place(id);
        row.0.lock()[place].clone()
    }

    fn insert(&self, task: Arc<Task>) {
        let (row, place) = self.place(task.id);
        row.0.lock()[place] = Some(task);
    }

    /// Removes a task. It is dropped without the lock.
    pub(crate) fn take(&self, id: TaskId) -> Option<Arc<Task>> {
        let (row, place) = self.place(id);
        row.0.lock()[place].take()
    }

    /// Returns all ids, of live tasks or not.
    pub(crate) fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.len).map(TaskId::from_index)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("cpus", &self.cpus.len()).finish_non_exhaustive()
    }
}

/// The parts of an engine other than the scheduler.
pub(crate) struct EngineParts {
    pub(crate) time: TimeSource,
    pub(crate) tasks: usize,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) is_traced: bool,
    pub(crate) hand_off_after: Option<Duration>,
    pub(crate) detached_max: usize,
    pub(crate) spare_at_most: Duration,
    pub(crate) blocking_max: usize,
    pub(crate) reactor: Reactor,
    pub(crate) hooks: Hooks,
    pub(crate) is_measuring: bool,
}

impl Engine {
    pub(crate) fn new(scheduler: Scheduler<RawMutex>, parts: EngineParts) -> Self {
        let cpu = |cpu| Cpu {
            queue: QueueLock::new(Queue { rq: scheduler.new_rq(cpu), meter: Meter::new() }),
            is_kicked: Arc::new(AtomicBool::new(false)),
            is_busy: AtomicBool::new(false),
            began: AtomicU64::new(0),
            next: Mutex::default(),
            thread: Mutex::new(CpuThread::default()),
        };
        let cpus: Box<[Cpu]> = scheduler.config().topology().cpus().map(cpu).collect();
        Self {
            timeline: Timeline::new(cpus.len()),
            callbacks: Blocking::new(cpus.len()),
            scheduler,
            cpus,
            tasks: TaskTable::new(parts.tasks),
            ids: Mutex::default(),
            time: parts.time,
            is_stopping: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            spawning: RwLock::new(()),
            recorder: parts.recorder,
            trace: parts.is_traced.then(Mutex::default),
            hand_off_after: parts.hand_off_after,
            detached: AtomicUsize::new(0),
            detached_max: parts.detached_max,
            spare_at_most: parts.spare_at_most,
            detached_polls: Mutex::default(),
            pool: Pool::default(),
            blocking: Blocking::new(parts.blocking_max),
            live_tasks: LiveTasks::default(),
            reactor: parts.reactor,
            pid: std::process::id(),
            hooks: parts.hooks,
            is_measuring: parts.is_measuring,
            root: std::sync::OnceLock::new(),
            groups: Mutex::default(),
            threads: Mutex::default(),
            stray_panics: AtomicU64::new(0),
        }
    }

    /// Returns the time since the runtime was built.
    pub(crate) fn now(&self) -> Instant {
        self.time.now()
    }

    pub(crate) fn tick_period(&self) -> Duration {
        self.scheduler.config().settings().tick_period()
    }

    /// Adds an event of the host itself to the trace, if one is kept.
    pub(crate) fn emit(&self, event: impl FnOnce() -> TraceEvent) {
        if let Some(trace) = &self.trace {
            trace.lock().push(Record { at: self.now(), cpu: CpuId(0), event: event() });
        }
    }

    /// Takes the trace since the last call.
    pub(crate) fn take_trace(&self) -> Trace {
        let config = self.scheduler.config();
        let mut records = self.trace.as_ref().map(|trace| std::mem::take(&mut *trace.lock())).unwrap_or_default();
        // The records of a call are added under its locks, so the records of one task are in order;
        // records of other CPUs can lie between them.
        records.sort_by_key(|record| record.at);
        let mut meta = Meta::new(Source::Runtime, Machine::Known(config.topology().clone()));
        meta.settings = config.settings().recorded().map(|(key, value)| (key.to_owned(), value)).collect();
        meta.start = records.first().map_or(Instant::ZERO, |first| first.at);
        meta.end = self.now();
        Trace { meta, records }
    }

    /// Returns how many tasks can live at a time.
    pub(crate) fn room(&self) -> usize {
        self.tasks.len
    }

    /// Returns an id for a new task, and a body to reuse if the id was used before. `None` if all
    /// ids are in use.
    pub(crate) fn take_id(&self) -> Option<(TaskId, Option<Parcel>)> {
        let mut ids = self.ids.lock();
        ids.used.pop().or_else(|| {
            let id = (ids.fresh < self.tasks.len).then(|| TaskId::from_index(ids.fresh))?;
            ids.fresh += 1;
            Some((id, None))
        })
    }

    /// Takes an id back.
    pub(crate) fn give_back(&self, id: TaskId, body: Option<Parcel>) {
        self.ids.lock().used.push((id, body));
    }

    pub(crate) fn task(&self, id: TaskId) -> Arc<Task> {
        self.tasks.get(id).expect("invariant: a picked task is in the table")
    }

    /// Adds a task that is about to be placed.
    pub(crate) fn admit(&self, task: Arc<Task>) {
        self.live_tasks.add();
        self.tasks.insert(task);
    }

    /// Adds a group that was created; returns false if another of its name lives below its parent.
    /// Threads that create one name at the same time are told apart here, under the lock.
    /// O(groups).
    #[must_use = "a group that is not admitted is dropped"]
    pub(crate) fn admit_group(&self, group: &Arc<GroupState>) -> bool {
        let mut groups = self.groups.lock();
        // The last reference to a group is dropped without the lock.
        let live: Vec<_> = groups.values().filter_map(Weak::upgrade).collect();
        let is_new = !live.iter().any(|other| other.is_child(&group.name, group.parent.as_ref()));
        if is_new {
            groups.insert(group.id, Arc::downgrade(group));
        }
        drop(groups);
        is_new
    }

    /// Forgets a group before its id can be reused.
    pub(crate) fn forget_group(&self, id: GroupId) {
        self.groups.lock().remove(&id);
    }

    /// Returns the live groups, except the root. The last reference to a group is dropped without
    /// the lock.
    pub(crate) fn live_groups(&self) -> Vec<Arc<GroupState>> {
        self.groups.lock().values().filter_map(Weak::upgrade).collect()
    }

    /// Returns a live group by its id; `None` for the root.
    pub(crate) fn live_group(&self, id: GroupId) -> Option<Arc<GroupState>> {
        self.groups.lock().get(&id).and_then(Weak::upgrade)
    }

    /// Returns whether a poll of a task is in progress on a CPU of the scheduler.
    pub(crate) fn polls(&self, task: &Task) -> bool {
        let thread = self.cpus[task.cpu().index()].thread.lock();
        thread.polling.as_ref().is_some_and(|polling| polling.task.id == task.id)
    }

    /// Returns the live tasks, by id. O([`Builder::tasks`](crate::Builder::tasks)).
    pub(crate) fn live_tasks(&self) -> Vec<Arc<Task>> {
        self.tasks.ids().filter_map(|id| self.tasks.get(id)).collect()
    }

    /// Enters the context of the tokio runtime, if there is one.
    pub(crate) fn enter_reactor(&self) -> impl Sized + '_ {
        self.reactor.enter()
    }

    /// Returns whether this process is a fork of the one that started the threads, which exist only
    /// there. Their locks can be held for good here. One system call.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.pid
    }

    /// Tells runtimes apart.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Notes that a CPU schedules; the next kick is a new request. The one at the end of the
    /// runtime stays: the clock has stopped, so a poll that starts now would not be asked again.
    pub(crate) fn answer_kick(&self, cpu: CpuId) {
        let is_kicked = &self.cpus[cpu.index()].is_kicked;
        if is_kicked.load(Ordering::SeqCst) {
            is_kicked.store(false, Ordering::SeqCst);
        }
        if self.is_stopping.load(Ordering::SeqCst) {
            is_kicked.store(true, Ordering::SeqCst);
        }
    }

    /// Asks a CPU to schedule.
    pub(crate) fn kick(&self, cpu: CpuId) {
        let cpu = &self.cpus[cpu.index()];
        cpu.is_kicked.store(true, Ordering::SeqCst);
        if !cpu.is_busy.load(Ordering::SeqCst) {
            cpu.thread.lock().unpark();
        }
    }
}
