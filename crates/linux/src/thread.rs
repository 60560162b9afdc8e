//! A task's program on a real thread.
//!
//! The actions, their order and the random draws are the same as in the simulator. Events that only
//! the task knows (phases, timers, locks) are recorded in memory and merged after the run.

use crate::figures::TaskFigures;
use crate::host::{ThreadCounts, cpu_set, refused_attr};
use crate::park::{Waited, Waiter};
use crate::plan::{THREADS_MAX, may_be_realtime};
use crate::shared::{InService, LockError, Shared, next_expiry};
use crate::world::{Failure, Go, Live, Orders, Over, Seat, ThreadResults, World};
use crate::{clock, sys};
use rustix::thread::{sched_getcpu, sched_setaffinity};
use std::io::Read;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::Scope;
use zerolag_model::{
    CpuId, CpuMask, Duration, GroupId, Instant, Mark, Record, SchedAttr, SignedDuration, TaskId, TraceEvent,
};
use zerolag_workload::program::{Action, AffinityChange, Phase, ResourceId, TimerMode, TimerRef};
use zerolag_workload::{Dist, Stream};

pub(crate) struct WorkloadThread<'w, 's> {
    pub(crate) world: &'w World<'w>,
    scope: &'s Scope<'s, 'w>,
    pub(crate) seat: Seat,
    /// The start of the workload: the zero of all times.
    pub(crate) origin: Instant,
    pub(crate) me: Waiter,
    stream: Option<Stream>,
    /// The buffer for reads from pipes.
    buffer: Vec<u8>,
    timers: Vec<Option<Instant>>,
    held: Vec<ResourceId>,
    forks: u32,
    /// The request in progress.
    pub(crate) request: Option<InService>,
    /// No request will ever arrive for it any more.
    pub(crate) has_done: bool,
    orders: Arc<Orders>,
    attr: SchedAttr,
    figures: TaskFigures,
    records: Vec<Record>,
    left_out: u64,
}

/// Starts a thread. It waits at the gate, unless it is forked in the middle of the run.
pub(crate) fn spawn<'s, 'w: 's>(
    world: &'w World<'w>,
    scope: &'s Scope<'s, 'w>,
    seat: Seat,
    forked_at: Option<Instant>,
) -> std::io::Result<()> {
    let name = world.program.tasks[seat.def].name_of(seat.instance);
    // The kernel keeps 15 bytes of a name; a name may not hold a zero byte.
    let short: String = name.chars().filter(|c| *c != '\0').collect();
    let builder = std::thread::Builder::new().name(short).stack_size(STACK);
    world.alive.fetch_add(1, Ordering::AcqRel);
    // Callers that start later count as senders now, so that no worker ends too early.
    let called = world.program.queues_called(seat.def);
    called.iter().for_each(|queue| world.shared[queue.index()].add_sender());
    let spawned = builder.spawn_scoped(scope, move || {
        let Seat { task, def, instance, .. } = seat;
        let me = Waiter { urgency: urgency(world.program.tasks[def].attr), parker: world.end.parker() };
        let orders = Arc::<Orders>::default();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let (parker, told) = (Arc::clone(&me.parker), Arc::clone(&orders));
        let live = Live { tid, task, def, instance, parker, orders: told };
        world.live.lock().unwrap_or_else(PoisonError::into_inner).push(live);
        life(world, scope, seat, name, forked_at, me, orders);
        world.live.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| other.tid != tid);
        called.iter().for_each(|queue| world.shared[queue.index()].sender_goes());
        world.one_less();
    });
    spawned.map(drop).inspect_err(|_| world.one_less())
}

fn life<'s, 'w: 's>(
    world: &'w World<'w>,
    scope: &'s Scope<'s, 'w>,
    seat: Seat,
    name: String,
    forked_at: Option<Instant>,
    me: Waiter,
    orders: Arc<Orders>,
) {
    let def = &world.program.tasks[seat.def];
    let figures = TaskFigures {
        task: seat.task,
        name,
        attr: def.attr,
        run: Duration::ZERO,
        wait: Duration::ZERO,
        switches_in: 0,
        preemptions: 0,
        migrations: 0,
        work: Duration::ZERO,
        wakeups: 0,
        latencies: Vec::new(),
    };
    let mut thread = WorkloadThread {
        world,
        scope,
        seat,
        origin: Instant::ZERO,
        me,
        stream: None,
        buffer: Vec::new(),
        timers: Vec::new(),
        held: Vec::new(),
        forks: 0,
        request: None,
        has_done: false,
        orders,
        attr: def.attr,
        figures,
        records: Vec::new(),
        left_out: 0,
    };
    let setup = thread.set_up().map_err(|reason| format!("task {}: {reason}", thread.figures.name));
    let before = ThreadCounts::read();
    let origin = match (forked_at, setup) {
        (None, setup) => world.gate.wait(setup),
        (Some(_), Ok(())) => Some(world.gate.start()),
        (Some(_), Err(reason)) => {
            world.fail(Failure::Refused(reason));
            None
        }
    };
    let Some(origin) = origin else { return };
    thread.origin = origin;
    thread.introduce(forked_at);
    let begin = forked_at.unwrap_or(origin + def.delay);
    let mut is_finished = false;
    if let Waited::Woken(_) = thread.me.parker.sleep_until(begin, &world.end) {
        thread.noted_wakeup(Some(begin).filter(|_| forked_at.is_none()));
        is_finished = thread.program().is_ok() || thread.has_done;
    }
    is_finished |= thread.me.parker.is_ended();
    thread.give_up_request();
    for mutex in std::mem::take(&mut thread.held) {
        thread.world.shared[mutex.index()].unlock();
    }
    thread.finish(before, is_finished);
}

impl<'w: 's, 's> WorkloadThread<'w, 's> {
    /// Takes the affinity, group and attributes of the definition.
    fn set_up(&mut self) -> Result<(), String> {
        let world = self.world;
        let def = &world.program.tasks[self.seat.def];
        let mask = self.mask_of(def.affinity.as_deref());
        if let Some(mask) = mask {
            set_affinity(&mask)?;
        }
        self.join(def.group)?;
        self.set_attr(def.attr)
    }

    /// Returns the CPUs that a task may use, `None` for all CPUs of the process.
    fn mask_of(&self, affinity: Option<&CpuMask>) -> Option<CpuMask> {
        let def = &self.world.program.tasks[self.seat.def];
        let cpuset = def.cpuset.map(|at| &*self.world.program.cpusets[at].cpus);
        if affinity.is_none() && cpuset.is_none() && !self.world.confined {
            return None;
        }
        let all = self.world.cpus.clone();
        let mask = cpuset.map_or(all.clone(), |cpus| all.and(cpus));
        Some(affinity.map_or(mask.clone(), |cpus| mask.and(cpus)))
    }

    fn set_attr(&mut self, attr: SchedAttr) -> Result<(), String> {
        sys::set_attr(attr).map_err(|error| refused_attr(attr, &error))?;
        self.attr = attr;
        self.me.urgency = urgency(attr);
        Ok(())
    }

    fn join(&self, group: Option<usize>) -> Result<(), String> {
        let (program, Some(groups)) = (self.world.program, &self.world.groups) else { return Ok(()) };
        groups.join(group, may_be_realtime(program, self.seat.def)).map_err(|error| {
            let name = group.map_or("/", |group| &*program.groups[group].path);
            format!("cannot join group {name}: {error}")
        })
    }

    /// Writes the records that introduce a task.
    fn introduce(&mut self, forked_at: Option<Instant>) {
        let at = forked_at.unwrap_or(self.origin);
        let def = &self.world.program.tasks[self.seat.def];
        let group = def.group.map_or(GroupId::ROOT, |at| GroupId::from_index(at + 1));
        let Seat { task, parent, .. } = self.seat;
        let event =
            TraceEvent::TaskNew { task, name: self.figures.name.as_str().into(), parent, attr: def.attr, group };
        self.push(at, event);
        let mask = self.mask_of(def.affinity.as_deref()).unwrap_or_else(|| self.world.cpus.clone());
        self.push(at, TraceEvent::Affinity { task, cpus: Arc::new(mask) });
    }

    fn finish(mut self, before: ThreadCounts, is_finished: bool) {
        let task = self.seat.task;
        let now = clock::now();
        self.push(now, TraceEvent::TaskExit { task });
        self.figures.set_counts(ThreadCounts::read().since(before));
        self.figures.latencies.sort_unstable();
        let pid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let Self { figures, records, left_out, .. } = self;
        let done = ThreadResults { figures, pid, records, left_out, is_finished };
        self.world.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }

    fn program(&mut self) -> Go {
        let def = &self.world.program.tasks[self.seat.def];
        let mut turn = 0;
        while def.turns.is_none_or(|turns| turn < turns) && !self.orders.retires.load(Ordering::Acquire) {
            for (index, phase) in def.phases.iter().enumerate() {
                if phase.loops > 0 {
                    self.phase(index, phase, turn)?;
                }
            }
            // A program without any action that takes time would never check for the end.
            self.go_on()?;
            self.mark(Mark::TurnEnd { turn });
            turn += 1;
        }
        Ok(())
    }

    fn phase(&mut self, index: usize, phase: &Phase, turn: u64) -> Go {
        self.mark(Mark::Phase { phase: u32::try_from(index).unwrap_or(u32::MAX), turn });
        let changed = self.enter(phase);
        if let Err(reason) = changed {
            self.world.fail(Failure::Refused(format!("task {}: {reason}", self.figures.name)));
            return Err(Over);
        }
        for _ in 0..phase.loops {
            for action in &phase.actions {
                if self.world.end.stopped.load(Ordering::Relaxed) || self.me.parker.is_ended() {
                    return Err(Over);
                }
                self.act(action)?;
            }
        }
        Ok(())
    }

    fn enter(&mut self, phase: &Phase) -> Result<(), String> {
        let is_changed = phase.attr.is_some() && self.orders.is_changed.swap(false, Ordering::AcqRel);
        if let Some(attr) = phase.attr.filter(|attr| is_changed || *attr != self.attr) {
            self.set_attr(attr)?;
            self.record(TraceEvent::AttrChange { task: self.seat.task, attr });
        }
        let mask = match &phase.affinity {
            AffinityChange::Keep => None,
            AffinityChange::Reset => Some(self.mask_of(None).unwrap_or_else(|| self.world.cpus.clone())),
            AffinityChange::Set(cpus) => self.mask_of(Some(cpus)),
        };
        if let Some(mask) = mask {
            set_affinity(&mask)?;
            self.record(TraceEvent::Affinity { task: self.seat.task, cpus: Arc::new(mask) });
        }
        phase.group.map_or(Ok(()), |group| self.join(Some(group)))
    }

    #[expect(clippy::too_many_lines, reason = "one arm per action")]
    fn act(&mut self, action: &Action) -> Go {
        let world = self.world;
        match action {
            Action::Run(dist) => {
                let time = self.draw(dist);
                let parker = &self.me.parker;
                let left = world.speeds.compute(time, || world.end.is_over(clock::now()) || parker.is_ended());
                self.figures.work = self.figures.work.saturating_add(time.saturating_sub(left));
                if left.is_zero() { Ok(()) } else { Err(Over) }
            }
            Action::Kernel(dist) => self.compute_in_kernel(dist),
            Action::Spin { wall, chunk } => {
                let until = clock::now().saturating_add(self.draw(wall));
                while clock::now() < until {
                    self.go_on()?;
                    let _ = world.speeds.compute(*chunk, || false);
                    self.figures.work = self.figures.work.saturating_add(*chunk);
                }
                Ok(())
            }
            Action::Sleep(dist) => {
                let time = self.draw(dist);
                if time.is_zero() { Ok(()) } else { self.sleep_until(clock::now().saturating_add(time)) }
            }
            Action::Timer { timer, period, mode } => self.wait_timer(*timer, period, *mode),
            Action::Lock(mutex) => self.lock(*mutex),
            Action::Unlock(mutex) => self.unlock(*mutex),
            Action::Wait { condition, mutex } => self.wait_condition(*condition, *mutex),
            Action::Sync { condition, mutex } => {
                world.shared[condition.index()].wake(1);
                self.wait_condition(*condition, *mutex)
            }
            Action::Signal(condition) => {
                world.shared[condition.index()].wake(1);
                Ok(())
            }
            Action::Broadcast(resource) | Action::Resume(resource) => {
                world.shared[resource.index()].wake(usize::MAX);
                Ok(())
            }
            Action::Barrier(barrier) => {
                let waited = world.shared[barrier.index()].arrive(&self.me, &world.end);
                self.waited(waited)
            }
            Action::SemPost(semaphore) => {
                world.shared[semaphore.index()].post();
                Ok(())
            }
            Action::SemWait(semaphore) => {
                let waited = world.shared[semaphore.index()].take(&self.me, &world.end);
                self.waited(waited)
            }
            Action::PipeWrite { pipe, bytes } => {
                let waited = world.shared[pipe.index()].pipe().put(*bytes, &self.me.parker, &world.end);
                self.waited(waited)
            }
            Action::PipeRead { pipe, bytes } => {
                let pipe = world.shared[pipe.index()].pipe();
                let waited = pipe.take(*bytes, &mut self.buffer, &self.me.parker, &world.end);
                self.waited(waited)
            }
            Action::Suspend(point) => {
                world.shared[point.index()].enlist(&self.me);
                let waited = Shared::wait(&self.me, &world.end);
                self.waited(waited)
            }
            Action::Take(queue) => self.take_request(*queue),
            Action::Complete(_) => {
                self.complete_request();
                Ok(())
            }
            Action::Call(queue) => self.call(*queue),
            Action::Send(queue) => {
                self.send_request(*queue, None);
                self.go_on()
            }
            Action::Yield => {
                std::thread::yield_now();
                Ok(())
            }
            Action::Fork(def) => self.fork(*def),
            Action::InKernel(_) => unreachable!("the plan refuses it"),
            Action::Stamp(label) => {
                let exec = clock::thread_time();
                self.mark(Mark::Stamp { label: *label, exec });
                Ok(())
            }
        }
    }

    fn go_on(&self) -> Go {
        let is_over = self.world.end.is_over(clock::now()) || self.me.parker.is_ended();
        if is_over { Err(Over) } else { Ok(()) }
    }

    /// Spends time in the kernel: reads zeros, a few microseconds per call.
    fn compute_in_kernel(&mut self, dist: &Dist) -> Go {
        let time = self.draw(dist);
        let mut left = time.as_nanos() * self.world.zero_rate / 1000;
        let mut zeros = std::fs::File::open("/dev/zero").map_err(|_| Over)?;
        let mut buffer = vec![0; ZEROS];
        while left > 0 {
            self.go_on()?;
            let piece = usize::try_from(left).unwrap_or(ZEROS).min(ZEROS);
            zeros.read_exact(&mut buffer[..piece]).map_err(|_| Over)?;
            left -= piece as u64;
        }
        self.figures.work = self.figures.work.saturating_add(time);
        Ok(())
    }

    fn draw(&mut self, dist: &Dist) -> Duration {
        if let Dist::Constant(time) = dist {
            return *time;
        }
        dist.sample(self.stream())
    }

    /// Returns the stream for its draws: that of the request in progress, else its own.
    pub(crate) fn stream(&mut self) -> &mut Stream {
        if let Some(service) = &mut self.request {
            return &mut service.stream;
        }
        let Seat { def, instance, .. } = self.seat;
        let (seed, name) = (self.world.seed, &self.world.program.tasks[def].name);
        self.stream.get_or_insert_with(|| Stream::new(seed, name, instance, "program"))
    }

    fn sleep_until(&mut self, due: Instant) -> Go {
        match self.me.parker.sleep_until(due, &self.world.end) {
            Waited::Woken(_) => {
                self.noted_wakeup(Some(due));
                Ok(())
            }
            Waited::Over => Err(Over),
        }
    }

    pub(crate) fn waited(&mut self, waited: Waited) -> Go {
        match waited {
            Waited::Woken(None) => Ok(()),
            Waited::Woken(at) => {
                self.noted_wakeup(at);
                Ok(())
            }
            Waited::Over => Err(Over),
        }
    }

    /// Counts a wakeup that was due, or made, at a time.
    fn noted_wakeup(&mut self, due: Option<Instant>) {
        self.figures.wakeups += 1;
        if let Some(due) = due.filter(|_| self.figures.latencies.len() < RECORDS_MAX) {
            self.figures.latencies.push(clock::now().since(due).as_nanos());
        }
    }

    fn wait_timer(&mut self, timer: TimerRef, period: &Dist, mode: TimerMode) -> Go {
        let period = self.draw(period);
        let now = clock::now();
        // rt-app: the first expiry counts from the start of the task.
        let start = self.origin + self.world.program.tasks[self.seat.def].delay;
        let relative_now = (mode == TimerMode::Relative).then_some(now);
        let due = match timer {
            TimerRef::Own(index) => {
                let index = index as usize;
                if self.timers.len() <= index {
                    self.timers.resize(index + 1, None);
                }
                next_expiry(&mut self.timers[index], start, period, relative_now)
            }
            TimerRef::Shared(id) => {
                self.world.shared[id.index()].expire(|next| next_expiry(next, start, period, relative_now))
            }
        };
        if due > now {
            self.sleep_until(due)?;
        } else {
            self.go_on()?;
        }
        let due_in_run = Instant::ZERO + due.since(self.origin);
        let slack: SignedDuration = due.signed_since(now);
        self.mark(Mark::TimerDue { due: due_in_run, slack });
        Ok(())
    }

    fn lock(&mut self, id: ResourceId) -> Go {
        let mutex = &self.world.shared[id.index()];
        let task = self.seat.task;
        if !mutex.try_lock() {
            self.record(TraceEvent::WaitLock { task, lock: id.0, holder: None });
            match mutex.lock(&self.me.parker, &self.world.end) {
                Ok(()) => self.figures.wakeups += 1,
                Err(LockError::Over) => return Err(Over),
                Err(LockError::Deadlock) => {
                    let name = &self.world.program.resources[id.index()].name;
                    self.world.fail(Failure::Deadlock(format!("task {} waits for {name}", self.figures.name)));
                    return Err(Over);
                }
            }
        }
        self.held.push(id);
        self.record(TraceEvent::TakeLock { task, lock: id.0 });
        Ok(())
    }

    fn unlock(&mut self, id: ResourceId) -> Go {
        let Some(at) = self.held.iter().rposition(|held| *held == id) else {
            let name = &self.world.program.resources[id.index()].name;
            let says = format!("task {} releases {name}, which it does not hold", self.figures.name);
            self.world.fail(Failure::NotHeld(says));
            return Err(Over);
        };
        self.held.remove(at);
        self.record(TraceEvent::DropLock { task: self.seat.task, lock: id.0 });
        self.world.shared[id.index()].unlock();
        Ok(())
    }

    fn wait_condition(&mut self, condition: ResourceId, mutex: ResourceId) -> Go {
        self.world.shared[condition.index()].enlist(&self.me);
        self.unlock(mutex)?;
        let waited = Shared::wait(&self.me, &self.world.end);
        self.waited(waited)?;
        self.lock(mutex)
    }

    fn fork(&mut self, def: usize) -> Go {
        let instance = self.world.program.tasks[def].instances + self.forks;
        self.forks += 1;
        let task = TaskId(self.world.next_task.fetch_add(1, Ordering::Relaxed));
        if task.index() >= THREADS_MAX {
            self.world.fail(Failure::Refused(format!("more than {THREADS_MAX} tasks in one run")));
            return Err(Over);
        }
        let seat = Seat { task, def, instance, parent: Some(self.seat.task) };
        let forked = spawn(self.world, self.scope, seat, Some(clock::now()));
        forked.map_err(|error| {
            self.world.fail(Failure::Refused(format!("task {}: fork: {error}", self.figures.name)));
            Over
        })
    }

    fn mark(&mut self, mark: Mark) {
        self.record(TraceEvent::Mark { task: self.seat.task, mark });
    }

    pub(crate) fn record(&mut self, event: TraceEvent) {
        self.push(clock::now(), event);
    }

    fn push(&mut self, at: Instant, event: TraceEvent) {
        if self.records.len() >= RECORDS_MAX {
            self.left_out += 1;
            return;
        }
        let cpu = CpuId::from_index(sched_getcpu());
        self.records.push(Record { at: Instant::ZERO + at.since(self.origin), cpu, event });
    }
}

/// Returns the position of a thread in a queue of waiters: real-time threads by priority, all
/// others equal, as in the kernel's queues of futex waiters.
fn urgency(attr: SchedAttr) -> i16 {
    let prio = attr.prio();
    if prio.beats(zerolag_model::Prio::FIRST_FAIR) { prio.raw() } else { zerolag_model::Prio::FIRST_FAIR.raw() }
}

fn set_affinity(mask: &CpuMask) -> Result<(), String> {
    sched_setaffinity(None, &cpu_set(mask)).map_err(|error| format!("cannot be confined to CPUs {mask}: {error}"))
}

/// The most records, and latencies, that one task keeps; later ones are counted as lost.
const RECORDS_MAX: usize = 1 << 20;
/// The stack size of a task: programs do not recurse.
const STACK: usize = 256 * 1024;
/// The number of bytes per read in the kernel.
const ZEROS: usize = 64 * 1024;

/// Returns how many bytes of `/dev/zero` a microsecond reads.
pub(crate) fn measure_zero_rate() -> u64 {
    let mut buffer = vec![0; ZEROS];
    let Ok(mut zeros) = std::fs::File::open("/dev/zero") else { return 1 };
    let mut fastest = u64::MAX;
    for _ in 0..50 {
        let start = clock::now();
        if zeros.read_exact(&mut buffer).is_err() {
            return 1;
        }
        fastest = fastest.min(clock::now().since(start).as_nanos());
    }
    (ZEROS as u64 * 1000 / fastest.max(1)).max(1)
}
