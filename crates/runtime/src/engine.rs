//! [`Engine`]: the scheduler on real threads, with its run queues, tasks, ids and threads.

use crate::blocking::Blocking;
use crate::caller::Caller;
use crate::clock::{TimeSource, Timeline, std_now};
use crate::coop;
use crate::group::{Group, GroupState};
use crate::hold_back::{Adrift, HeldBack};
use crate::meter::{Meter, Rounds};
use crate::pool::Pool;
use crate::reactor::Reactor;
use crate::record::Recorder;
use crate::report::Hooks;
use crate::shutdown::Census;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, QueueLock, RwLock, is_finished};
use crate::task::Task;
use crate::worker::Seat;
use parking_lot::RawMutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use zerolag_core::call::{Answer, Call, Place};
use zerolag_core::{Clock, Lent, Parcel, Rq, Scheduler};
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

/// A CPU of the scheduler: the thread on its seat runs its tasks. It shares no cache line with the
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
    pub(crate) rounds: Rounds,
    /// A task whose wakeup the poll in progress has left to its end ([`Engine::wake`]).
    pub(crate) next: Mutex<Option<Arc<Task>>>,
    pub(crate) seat: Mutex<Seat>,
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
    tasks: TaskTable,
    ids: Mutex<Ids>,
    pub(crate) timeline: Timeline,
    pub(crate) time: TimeSource,
    pub(crate) is_stopping: AtomicBool,
    /// No further task is started; true as well once the runtime stops.
    pub(crate) is_closed: AtomicBool,
    /// Held (shared) while a task is being started, so that at the end of the runtime the task
    /// either exists or was refused.
    pub(crate) door: RwLock<()>,
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
    pub(crate) adrift: Mutex<Vec<Adrift>>,
    pub(crate) held_back: HeldBack,
    pub(crate) pool: Pool,
    pub(crate) blocking: Blocking,
    pub(crate) census: Census,
    reactor: Reactor,
    /// The process that started the threads.
    pid: u32,
    pub(crate) hooks: Hooks,
    /// Waits and polls are counted ([`latency`](crate::latency)).
    pub(crate) is_measuring: bool,
    /// The root group, which lives as long as the runtime.
    pub(crate) root: std::sync::OnceLock<Weak<GroupState>>,
    /// The groups that live, except the root.
    groups: Mutex<BTreeMap<GroupId, Weak<GroupState>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Panics of users' code that no handle reports.
    pub(crate) stray_panics: AtomicU64,
}

/// The live tasks by id. A few share a lock and fill a cache line with it: a lock for each would
/// take as much memory as its task does here. Ids that follow each other are in different lines,
/// so that CPUs that run tasks of one age do not contend for one.
struct TaskTable {
    rows: Box<[Row]>,
    len: usize,
}

#[derive(Default)]
#[repr(align(64))]
struct Row(Mutex<[Option<Arc<Task>>; ROW]>);

const ROW: usize = 7;

impl TaskTable {
    fn new(len: usize) -> Self {
        Self { rows: (0..len.div_ceil(ROW)).map(|_| Row::default()).collect(), len }
    }

    /// Returns the lock of an id, and its place below it.
    fn place(&self, id: TaskId) -> (&Row, usize) {
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
    fn take(&self, id: TaskId) -> Option<Arc<Task>> {
        let (row, place) = self.place(id);
        row.0.lock()[place].take()
    }

    /// Returns all ids, of live tasks or not.
    fn ids(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.len).map(TaskId::from_index)
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("cpus", &self.cpus.len()).finish_non_exhaustive()
    }
}

/// The parts of an engine other than the scheduler.
pub(crate) struct Parts {
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
    pub(crate) fn new(scheduler: Scheduler<RawMutex>, parts: Parts) -> Self {
        let cpu = |cpu| Cpu {
            queue: QueueLock::new(Queue { rq: scheduler.new_rq(cpu), meter: Meter::new() }),
            is_kicked: Arc::new(AtomicBool::new(false)),
            is_busy: AtomicBool::new(false),
            began: AtomicU64::new(0),
            rounds: Rounds::default(),
            next: Mutex::default(),
            seat: Mutex::new(Seat::default()),
        };
        let cpus: Box<[Cpu]> = scheduler.config().topology().cpus().map(cpu).collect();
        Self {
            timeline: Timeline::new(cpus.len()),
            scheduler,
            cpus,
            tasks: TaskTable::new(parts.tasks),
            ids: Mutex::default(),
            time: parts.time,
            is_stopping: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            door: RwLock::new(()),
            recorder: parts.recorder,
            trace: parts.is_traced.then(Mutex::default),
            hand_off_after: parts.hand_off_after,
            detached: AtomicUsize::new(0),
            detached_max: parts.detached_max,
            spare_at_most: parts.spare_at_most,
            adrift: Mutex::default(),
            held_back: HeldBack::default(),
            pool: Pool::default(),
            blocking: Blocking::new(parts.blocking_max),
            census: Census::default(),
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

    /// Wakes a task; any thread can call it.
    ///
    /// A poll often wakes one task and then waits for it: the other side of a channel, a task that
    /// it has started. Another CPU that idles has to be woken for it, which takes some 10 us, while
    /// this one idles an instant later. So the first wakeup in a poll is left to its end; if the
    /// poll's task sleeps then, the woken one is next on the same CPU. A poll that goes on keeps it
    /// waiting until the next tick at most. All other wakeups in a poll are made at once, and those
    /// of tasks that are more than fair, and of tasks that are bound to CPUs.
    pub(crate) fn wake(self: &Arc<Self>, task: &Arc<Task>) {
        if self.is_stopping.load(Ordering::Acquire) {
            return;
        }
        if coop::polls(task) {
            task.body.lock().is_notified = true;
            return;
        }
        if self.is_measuring
            && let Some(ready_at) = task.ready_at()
        {
            // The first of several wakeups counts.
            let now = self.now().as_nanos();
            let _ = ready_at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
        let is_left = match coop::polling_cpu(self) {
            Some(cpu) => self.postpone(cpu, task),
            // A task with a priority does not wait for others.
            None => task.kind.is_fair() && coop::gather(task),
        };
        if !is_left {
            Caller::new(self, coop::current_cpu().unwrap_or_else(|| task.cpu())).wake(task);
        }
    }

    /// Leaves the wakeup of a task to the end of the poll that this thread is in. Until then the
    /// task sleeps, and others can wake it. Returns whether it does.
    fn postpone(&self, cpu: CpuId, task: &Arc<Task>) -> bool {
        if !task.kind.is_fair() || task.is_bound || task.has_borrowed_class() {
            return false;
        }
        let can_wait = {
            let body = task.body.lock();
            body.sleeps() || body.is_relaying
        };
        if !can_wait {
            return false;
        }
        let mut next = self.cpus[cpu.index()].next.lock();
        let is_first = next.is_none();
        if is_first {
            *next = Some(Arc::clone(task));
            coop::note_postponed();
        }
        is_first
    }

    /// Returns whether the poll that this thread is in can leave a wakeup to its end.
    pub(crate) fn can_postpone(self: &Arc<Self>) -> bool {
        coop::polling_cpu(self).is_some_and(|cpu| self.cpus[cpu.index()].next.lock().is_none())
    }

    /// Makes a wakeup that was left to the end of a poll, which goes on. Called at ticks.
    pub(crate) fn wake_postponed(self: &Arc<Self>, cpu: CpuId) {
        let next = self.cpus[cpu.index()].next.lock().take();
        if let Some(task) = next {
            self.wake(&task);
        }
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
        self.tasks.get(id).expect("invariant: a task that is picked lives")
    }

    /// Adds a task that is about to be placed.
    pub(crate) fn admit(&self, task: Arc<Task>) {
        self.census.add();
        self.tasks.insert(task);
    }

    /// Adds a group that was created.
    pub(crate) fn admit_group(&self, group: &Arc<GroupState>) {
        self.groups.lock().insert(group.id, Arc::downgrade(group));
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

    /// Returns the live groups by path; the first one is the root, `/`.
    pub(crate) fn groups(self: &Arc<Self>) -> Vec<(String, Group)> {
        let groups = self.live_groups().into_iter().map(|state| Group { state });
        let mut groups: Vec<_> = groups.map(|group| (group.state.path(), group)).collect();
        let root = self.root.get().and_then(Weak::upgrade);
        groups.extend(root.map(|state| ("/".to_owned(), Group { state })));
        groups.sort_by(|(one, _), (other, _)| one.cmp(other));
        groups
    }

    /// Returns the live tasks, by id. O([`Builder::tasks`](crate::Builder::tasks)).
    pub(crate) fn live_tasks(&self) -> Vec<Arc<Task>> {
        self.tasks.ids().filter_map(|id| self.tasks.get(id)).collect()
    }

    /// Sets the most urgent loan of the waiters for a task's locks, which the task inherits; `None`
    /// without waiters. One thread at a time calls it for a task
    /// ([`settle`](crate::boost::settle)).
    pub(crate) fn inherit(self: &Arc<Self>, task: &Task, from: Option<Lent>) {
        {
            let mut inherited = task.ties().inherited.lock();
            if std::mem::replace(&mut *inherited, from) == from {
                return;
            }
            task.is_inheriting.store(from.is_some(), Ordering::Release);
        }
        let mut caller = Caller::new(self, coop::current_cpu().unwrap_or_else(|| task.cpu()));
        let by = caller.cpu;
        loop {
            {
                let mut body = task.body.lock();
                match std::mem::replace(&mut body.at, Place::OnItsWay) {
                    Place::Parked(parcel) => {
                        caller.hand = Some(parcel);
                        let done = caller.call(Call::InheritParked { task: task.id, from, by });
                        debug_assert!(done.is_ok(), "nothing is refused");
                        body.at = Place::Parked(caller.hand.take().expect("invariant: it stays in hand"));
                        if body.is_leaving {
                            self.kick(task.cpu()); // It can be a runner (relay).
                        }
                        return;
                    }
                    Place::Dead => {
                        body.at = Place::Dead;
                        return;
                    }
                    other => body.at = other,
                }
            }
            if let Some(Answer::Step(step)) = caller.call_at_home(task, |cpu, task| Call::Inherit { cpu, task, from }) {
                caller.carry(step);
                if task.body.lock().is_relaying {
                    self.kick(task.cpu());
                }
                return;
            }
            // The task is on its way from one thread to another.
            thread::yield_now();
        }
    }

    /// Returns the loan of a task to the holder of a lock that it waits for; `None` if it has
    /// ended.
    pub(crate) fn lends(self: &Arc<Self>, task: &Task) -> Option<Lent> {
        let mut caller = Caller::new(self, coop::current_cpu().unwrap_or_else(|| task.cpu()));
        loop {
            match &task.body.lock().at {
                Place::Parked(parcel) => return Some(parcel.lends()),
                Place::Dead => return None,
                Place::OnItsWay | Place::Queued | Place::Delayed => {}
            }
            if let Some(Answer::Lent(lent)) = caller.call_at_home(task, |cpu, task| Call::Lends { cpu, task }) {
                return Some(lent);
            }
            thread::yield_now();
        }
    }

    /// Aborts the remaining tasks once all threads have ended. Dropping their futures can drop
    /// handles of other tasks.
    fn clear(&self) {
        self.held_back.clear();
        for id in self.tasks.ids() {
            if let Some(task) = self.tasks.take(id) {
                task.cancel();
                task.announce();
                self.census.remove();
            }
        }
    }

    /// Frees a task that has ended and that no CPU refers to any more: its id can be reused, and
    /// the waiters for its end are woken.
    pub(crate) fn bury(&self, task: &Task, body: Parcel) {
        let _gone = self.tasks.take(task.id);
        self.give_back(task.id, Some(body));
        task.announce();
        self.census.remove();
    }

    /// Calls code of the users outside of a poll: if it panics, its caller goes on.
    pub(crate) fn contain(&self, call: impl FnOnce()) {
        if let Err(with) = catch_unwind(AssertUnwindSafe(call)) {
            self.note_panic(with);
        }
    }

    /// Counts a panic that no handle reports.
    pub(crate) fn note_panic(&self, with: Box<dyn Any + Send>) {
        // A subscriber is code of the users as well.
        if let Err(logged) = catch_unwind(AssertUnwindSafe(|| crate::span::log_stray_panic(&*with))) {
            std::mem::forget(logged);
            self.stray_panics.fetch_add(1, Ordering::Release);
        }
        // After it is logged: a reader of the count finds the event in the log.
        self.stray_panics.fetch_add(1, Ordering::Release);
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(with))) {
            // Dropping what a panic carries panics as well: it is leaked.
            std::mem::forget(again);
        }
    }

    /// Enters the context of the tokio runtime, if there is one.
    pub(crate) fn enter_reactor(&self) -> impl Sized + '_ {
        self.reactor.enter()
    }

    /// Starts a thread of the runtime.
    pub(crate) fn start(&self, name: String, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let (owner, reactor, hooks) = (self.address(), self.reactor.clone(), self.hooks.clone());
        let run = move || {
            coop::join_runtime(owner);
            let _entered = reactor.enter();
            let _stopped = hooks.around_thread();
            run();
        };
        let thread = thread::Builder::new().name(name).spawn(run)?;
        let mut threads = self.threads.lock();
        threads.retain(|thread| !is_finished(thread));
        threads.push(thread);
        Ok(())
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

    /// Returns whether this thread belongs to the runtime.
    pub(crate) fn owns_this_thread(&self) -> bool {
        coop::owner() == Some(self.address())
    }

    /// Ends all threads and aborts the remaining tasks. A task, or a waker that a thread of the
    /// runtime calls, can drop the last handle of the runtime; that thread cannot wait for its own
    /// end, so another thread does.
    pub(crate) fn end(self: &Arc<Self>) {
        self.stop();
        if self.owns_this_thread() {
            self.leave_to_another_thread();
        } else {
            self.wait_and_clear();
        }
    }

    /// Refuses further tasks.
    pub(crate) fn close_door(&self) {
        let _closed = self.door.write();
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Asks all threads to end.
    pub(crate) fn stop(&self) {
        self.close_door();
        self.is_stopping.store(true, Ordering::SeqCst);
        self.timeline.stop();
        self.pool.close();
        self.blocking.close();
    }

    /// Waits for the ends of the threads on a thread of its own.
    pub(crate) fn leave_to_another_thread(self: &Arc<Self>) {
        let engine = Arc::clone(self);
        // If no thread can be started, the tasks are never dropped; their threads end all the same.
        let _ = thread::Builder::new().name("zerolag-end".to_owned()).spawn(move || engine.wait_and_clear());
    }

    /// Wakes the threads of the CPUs, and asks their polls to yield.
    fn call_all(&self) {
        for cpu in &self.cpus {
            cpu.is_kicked.store(true, Ordering::SeqCst); // so that checkpoints yield
            cpu.seat.lock().unpark();
        }
    }

    /// Returns whether all threads have ended, after at most `limit`. There is no real time in unit
    /// tests: it returns `true` there, and the threads are waited for.
    pub(crate) fn threads_end_within(&self, limit: std::time::Duration) -> bool {
        let began = std_now();
        loop {
            self.call_all();
            if cfg!(test) || self.threads.lock().iter().all(is_finished) {
                return true;
            }
            if began.elapsed() >= limit {
                return false;
            }
            thread::sleep(std::time::Duration::from_micros(200));
        }
    }

    pub(crate) fn wait_and_clear(&self) {
        loop {
            self.call_all();
            let Some(thread) = self.threads.lock().pop() else { break };
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "a thread of the runtime does not panic");
        }
        self.clear();
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
            cpu.seat.lock().unpark();
        }
    }
}
