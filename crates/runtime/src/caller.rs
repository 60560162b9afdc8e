//! [`Caller`]: a thread that makes calls to the scheduler in the name of a CPU.
//!
//! Every call of the core goes through [`Caller::call`], or through `under` if the lock is already
//! held. The steps of a call:
//!
//! 1. lock the run queues;
//! 2. read the clock under their locks;
//! 3. make the call, and carry out its operations;
//! 4. release the locks, then send kicks and interrupts.
//!
//! An interrupt between CPUs is work under the lock of its target's run queue, so the sender does
//! it: it never waits for a CPU that is in the middle of a poll.
//!
//! Lock order: run queues by CPU; the body of a task; timers, trace or recorder.

use crate::riders;
use crate::state::engine::{Engine, Queue};
use crate::state::group::SMALL_DEBT;
use crate::state::life::Woken;
use crate::state::task::Task;
use crate::sync::{QueueGuard, thread};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_core::call::{Answer, Call, LeftAs, Refused, Rqs, Under};
use zerolag_core::{
    Clock, Costs, Home, Io, Leave, Next, Op, PairClock, Parcel, Placement, Resched, Step, TaskMode, TaskSpec, Tracing,
    Work,
};
use zerolag_model::{CpuId, Duration, Instant, TaskId};

/// How many wakeups share a lock at most: a CPU waits some 10 us for them.
const WAKEUPS_PER_LOCK: usize = 32;

/// The buffers for the results of calls; a thread passes them from one caller to the next.
struct Buffers {
    io: Io,
    kicks: Vec<CpuId>,
    ipis: Vec<(CpuId, Work)>,
}

impl Buffers {
    fn new(tracing: Tracing) -> Self {
        Self { io: Io::new(tracing), kicks: Vec::new(), ipis: Vec::new() }
    }
}

crate::sync::thread_local! {
    static KEPT: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}

/// See the [module](self).
pub(crate) struct Caller<'e> {
    pub(crate) engine: &'e Arc<Engine>,
    pub(crate) cpu: CpuId,
    /// Boxed, because they are large and every caller takes and returns them.
    buffers: Option<Box<Buffers>>,
    /// The parcel that a call takes or leaves behind.
    pub(crate) hand: Option<Parcel>,
    /// Tasks that are not allowed to stay on their CPU; they are placed elsewhere once that CPU has
    /// switched away from them.
    displaced: Vec<Parcel>,
    /// The CPU time of the CPU's previous thread, if the last call of `leave` was the first one of
    /// a new thread.
    pub(crate) had: Option<Duration>,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        // The thread-local storage of an exiting thread is gone.
        let _ = KEPT.try_with(|kept| kept.set(self.buffers.take()));
    }
}

impl<'e> Caller<'e> {
    pub(crate) fn new(engine: &'e Arc<Engine>, cpu: CpuId) -> Self {
        let tracing = if engine.trace.is_some() { Tracing::On } else { Tracing::Off };
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let kept = kept.filter(|kept| kept.io.is_tracing() == engine.trace.is_some());
        let buffers = Some(kept.unwrap_or_else(|| Box::new(Buffers::new(tracing))));
        Self { engine, cpu, buffers, hand: None, displaced: Vec::new(), had: None }
    }

    fn buffers(&mut self) -> &mut Buffers {
        self.buffers.as_mut().expect("invariant: a caller returns its buffers only when it is dropped")
    }

    /// Makes a call that is never refused, and carries out all its consequences.
    pub(crate) fn make(&mut self, call: Call) {
        if let Ok(Answer::Step(step)) = self.call(call) {
            self.carry(step);
        }
    }

    /// Makes a call; the caller has to carry out the step that it returns.
    pub(crate) fn call(&mut self, call: Call) -> Result<Answer, Refused> {
        let engine = self.engine;
        let answer = match call.under() {
            Under::None => self.perform(Rqs::None(Clock::at(engine.now())), call),
            Under::One(cpu) => {
                let mut queue = engine.cpus[cpu.index()].queue.lock();
                self.under(&mut queue, call)
            }
            Under::Two(own, other) => {
                let lock = |cpu: CpuId| engine.cpus[cpu.index()].queue.lock();
                let (mut first, mut second) = (lock(own.min(other)), lock(own.max(other)));
                let (queue, peer) = if own < other { (&mut first, &mut second) } else { (&mut second, &mut first) };
                let wall = engine.now();
                let now = PairClock { wall, own: queue.clock(wall).task, other: peer.clock(wall).task };
                self.perform(Rqs::Two([&mut queue.rq, &mut peer.rq], now), call)
            }
        };
        self.notify();
        answer
    }

    /// Makes a call about a task on the run queue where it is. Returns `None` if it is on none, or
    /// has just moved to another.
    pub(crate) fn call_at_home(&mut self, task: &Task, call: impl FnOnce(CpuId, TaskId) -> Call) -> Option<Answer> {
        let engine = self.engine;
        let Home::Rq(cpu) = engine.scheduler.home(task.id) else { return None };
        let answer = {
            let mut queue = engine.cpus[cpu.index()].queue.lock();
            // A task that has ended has given its id to another one.
            if !task.body.lock().is_on_queue() {
                return None;
            }
            self.under(&mut queue, call(cpu, task.id))
        };
        self.notify();
        answer.ok()
    }

    /// Makes a call on a run queue that is already locked.
    fn under(&mut self, queue: &mut Queue, call: Call) -> Result<Answer, Refused> {
        self.under_at(queue, self.engine.now(), call)
    }

    /// The same at a time that was read under the lock.
    fn under_at(&mut self, queue: &mut Queue, wall: Instant, call: Call) -> Result<Answer, Refused> {
        let now = queue.clock(wall);
        self.perform(Rqs::One(&mut queue.rq, now), call)
    }

    /// Makes a call under locks that are already held, and carries out the operations that need
    /// them.
    fn perform(&mut self, rqs: Rqs<'_>, call: Call) -> Result<Answer, Refused> {
        let engine = self.engine;
        let Buffers { io, kicks, ipis } =
            &mut **self.buffers.as_mut().expect("invariant: a caller returns its buffers only when it is dropped");
        let answer = match &engine.recorder {
            None => call.apply(&engine.scheduler, rqs, &mut self.hand, io),
            Some(recorder) => recorder.apply(&engine.scheduler, rqs, call, &mut self.hand, io),
        };
        if let Some(trace) = engine.trace.as_ref().filter(|_| !io.trace.is_empty()) {
            trace.lock().append(&mut io.trace);
        }
        io.costs = Costs::default();
        for parcel in io.parked.drain(..) {
            let task = engine.task(parcel.id());
            task.body.lock().pay_lag(parcel);
        }
        for op in io.ops.drain(..) {
            match op {
                Op::Kick { cpu } => kicks.push(cpu),
                Op::Ipi { cpu, work } => ipis.push((cpu, work)),
                Op::ArmTimer { cpu, timer, at } => engine.timeline.arm(cpu, timer, at),
                // The runtime gives no task to a policy.
                Op::ExtExit | Op::PolicyTimer { .. } => {}
                Op::CancelTimer { cpu, timer } => engine.timeline.cancel(cpu, timer),
                Op::ArmGroupTimer { group, timer, at } => engine.timeline.arm_group(group, timer, at),
            }
        }
        answer
    }

    /// Sends the kicks of a call; the call's locks have been released.
    fn notify(&mut self) {
        let engine = self.engine;
        for cpu in self.buffers().kicks.drain(..) {
            engine.kick(cpu);
        }
    }

    /// Carries a step out to its end, and the work of every interrupt that is sent meanwhile.
    pub(crate) fn carry(&mut self, step: Step) {
        let mut step = step;
        loop {
            let call = match step {
                Step::Again { own, then } => Call::Resume { own, then },
                Step::Pair { own, other, then } => Call::Pair { own, other, then },
                Step::Done => match self.buffers().ipis.pop() {
                    Some((cpu, work)) => Call::Remote { cpu, work },
                    None => return,
                },
            };
            step = match self.call(call) {
                Ok(Answer::Step(step)) => step,
                Ok(_) | Err(_) => unreachable!("invariant: a continuation returns a step"),
            };
        }
    }

    /// Creates a task and leaves its body in `hand`. `ended` is a body to reuse.
    pub(crate) fn create(&mut self, spec: TaskSpec, ended: Option<Parcel>) -> Result<(), Refused> {
        self.hand = ended;
        self.call(Call::CreateTask { spec }).map(|_| ())
    }

    /// Places the task in `hand`.
    pub(crate) fn place(&mut self, task: TaskId, why: Placement) {
        let cpu = self.select(task, why);
        let queue = self.engine.cpus[cpu.index()].queue.lock();
        self.place_on(cpu, queue, task, why);
    }

    /// Returns the CPU for the task in `hand`. It can be asked under the lock of a run queue.
    fn select(&mut self, task: TaskId, why: Placement) -> CpuId {
        let by = self.cpu;
        let now = Clock::at(self.engine.now());
        match self.perform(Rqs::None(now), Call::Select { task, by, why }) {
            Ok(Answer::Cpu(cpu)) => cpu,
            Ok(_) | Err(_) => unreachable!("invariant: `Select` returns a CPU"),
        }
    }

    /// Places the task in `hand` on the CPU of this thread, if that runs nothing but the task that
    /// is about to leave it; otherwise where the scheduler wants it.
    fn place_on_this_cpu(&mut self, task: TaskId, why: Placement) {
        let queue = self.engine.cpus[self.cpu.index()].queue.lock();
        if queue.rq.nr_running() == 1 {
            self.place_on(self.cpu, queue, task, why);
        } else {
            drop(queue);
            self.place(task, why);
        }
    }

    pub(crate) fn place_on(&mut self, cpu: CpuId, mut queue: QueueGuard<'e, Queue>, task: TaskId, why: Placement) {
        let (engine, by) = (self.engine, self.cpu);
        let step = {
            engine.task(task).body.lock().place();
            let step = self.under(&mut queue, Call::Wake { cpu, task, by, why });
            drop(queue);
            step
        };
        self.notify();
        let Ok(Answer::Step(step)) = step else { unreachable!("invariant: `Wake` returns a step") };
        self.carry(step);
    }

    /// Wakes a task if it sleeps; otherwise leaves a note.
    pub(crate) fn wake(&mut self, task: &Arc<Task>) {
        self.wake_at(task, Self::place);
    }

    /// The same; the task runs next on the CPU of this thread, unless other tasks wait there.
    pub(crate) fn wake_on_this_cpu(&mut self, task: &Arc<Task>) {
        self.wake_at(task, Self::place_on_this_cpu);
    }

    /// Wakes tasks, which are sorted for it: those that sleep and are placed on the same CPU one
    /// after the other share its lock, [`WAKEUPS_PER_LOCK`] at most.
    ///
    /// With a lock for each, the thread of the clock woke 100,000 tasks in 0.3 s: each time, it had
    /// to wait for a lock that a CPU had just taken to run the task before.
    ///
    /// Of many tasks some are placed, and the others ride on their turns ([`relay`](crate::relay)).
    pub(crate) fn wake_all(&mut self, mut tasks: Vec<Arc<Task>>) {
        tasks.sort_by_key(|task| (task.cpu(), task.group.id));
        let riders = riders::riders_for(self.engine, tasks.len());
        let mut tasks = tasks.into_iter().peekable();
        let mut locked: Option<(CpuId, QueueGuard<'e, Queue>)> = None;
        let mut count = 0;
        while let Some(task) = tasks.next() {
            self.cpu = task.cpu();
            let taken = task.body.lock().take();
            let Some((parcel, why)) = taken else {
                self.unlock(locked.take(), Step::Done);
                self.wake(&task);
                continue;
            };
            if riders > 0 {
                let rides = std::iter::from_fn(|| tasks.next_if(|next| riders::rides_with(&task, next)));
                let riders: Vec<_> = rides.take(riders).collect();
                if !riders.is_empty() {
                    task.carry(riders);
                }
            }
            self.hand = Some(parcel);
            let cpu = self.select(task.id, why);
            if count == WAKEUPS_PER_LOCK || locked.as_ref().is_some_and(|(other, _)| *other != cpu) {
                self.unlock(locked.take(), Step::Done);
                count = 0;
            }
            let engine = self.engine;
            let (_, queue) = locked.get_or_insert_with(|| (cpu, engine.cpus[cpu.index()].queue.lock()));
            count += 1;
            task.body.lock().place();
            let by = self.cpu;
            let step = self.under(queue, Call::Wake { cpu, task: task.id, by, why });
            let Ok(Answer::Step(step)) = step else { unreachable!("invariant: `Wake` returns a step") };
            if step != Step::Done || !self.buffers().ipis.is_empty() {
                self.unlock(locked.take(), step);
            }
        }
        self.unlock(locked, Step::Done);
    }

    /// Releases the lock of a run queue, and carries out what the calls under it have left to do.
    fn unlock(&mut self, locked: Option<(CpuId, QueueGuard<'e, Queue>)>, step: Step) {
        drop(locked);
        self.notify();
        self.carry(step);
    }

    fn wake_at(&mut self, task: &Arc<Task>, place: impl Fn(&mut Self, TaskId, Placement)) {
        let (engine, id) = (self.engine, task.id);
        loop {
            let woken = task.body.lock().wake();
            match woken {
                Woken::Place(parcel, why) => {
                    self.hand = Some(parcel);
                    return place(self, id, why);
                }
                Woken::Noted => return,
                Woken::Kick => return engine.kick(task.cpu()),
                Woken::OnQueue => {}
            }
            // The task sleeps on a run queue: look the queue up, lock it, and check again.
            let Home::Rq(cpu) = engine.scheduler.home(id) else {
                // Another thread takes it off the queue now, and says so when it has.
                thread::yield_now();
                continue;
            };
            let mut queue = engine.cpus[cpu.index()].queue.lock();
            if !task.body.lock().is_delayed() {
                continue;
            }
            let by = self.cpu;
            let woken = self.under(&mut queue, Call::WakeQueued { cpu, task: id, by });
            if let Ok(Answer::Step(step)) = woken {
                task.body.lock().wake_on_queue();
                drop(queue);
                self.notify();
                return self.carry(step);
            }
            drop(queue);
            self.notify();
        }
    }

    /// Makes the CPU's task leave, and switches the CPU to the next task.
    ///
    /// The run queue stays locked from `leave` to the end of the switch, unless the CPU looks for
    /// work on other CPUs: no other thread sees a task that has left but is still current.
    pub(crate) fn switch(&mut self, task: Option<&Arc<Task>>, why: Leave) -> Switched {
        let Some((mut queue, left, mut wall)) = self.leave(task, why) else { return Switched::Stays };
        let body = self.hand.take();
        let next = loop {
            match self.pick(queue, wall) {
                None => break None,
                Some((locked, next, picked)) => {
                    if self.begin(locked, &next, picked) {
                        break Some(next);
                    }
                    let left = self.leave(Some(&next), Leave::Preempted);
                    (queue, _, wall) = left.expect("invariant: only a task that is to block can stay");
                    self.displaced.extend(self.hand.take());
                }
            }
        };
        let dead = task.and_then(|task| self.finish_leave(task, left, body).map(|body| (task, body)));
        while let Some(parcel) = self.displaced.pop() {
            let task = parcel.id();
            self.hand = Some(parcel);
            self.place(task, Placement::Displaced);
        }
        if let Some((task, body)) = dead {
            // It calls a waker of the users. No task is in the hands of this thread any more.
            self.engine.free_task(task, body);
        }
        Switched::To(next)
    }

    /// Hands on a task that left, once its CPU has switched away from it; other CPUs can run it
    /// only from here on. Returns the body of a task that has ended.
    fn finish_leave(&mut self, task: &Arc<Task>, left: LeftAs, parcel: Option<Parcel>) -> Option<Parcel> {
        match (left, parcel) {
            (LeftAs::Dead, parcel) => return parcel,
            (LeftAs::Displaced, parcel) => self.displaced.extend(parcel),
            (LeftAs::Parked | LeftAs::Delayed, parcel) => {
                let is_woken = task.body.lock().switch_away(parcel);
                if is_woken {
                    self.wake(task);
                }
            }
            (LeftAs::Queued, _) => {}
        }
        None
    }

    /// Makes the CPU's task leave; its body is in `hand` afterwards, if the scheduler handed it
    /// out. Returns `None` if the task was to block and has been woken meanwhile.
    ///
    /// A task that is spared leaves in kernel mode: the limit of its group takes effect only when
    /// it is spared no longer (`throttle`).
    fn leave(&mut self, task: Option<&Arc<Task>>, why: Leave) -> Option<(QueueGuard<'e, Queue>, LeftAs, Instant)> {
        let (engine, cpu) = (self.engine, self.cpu);
        let mut queue = engine.cpus[cpu.index()].queue.lock();
        let wall = engine.now();
        let Some(task) = task else {
            let left = self.under_at(&mut queue, wall, Call::Leave { cpu, why });
            debug_assert_eq!(left, Ok(Answer::Left(LeftAs::Queued)), "an idle CPU has no task that leaves");
            engine.answer_kick(cpu);
            return Some((queue, LeftAs::Queued, wall));
        };
        let had = queue.meter.run_by_this_thread(wall);
        self.had = self.had.or(had);
        if queue.rq.current_mode() == TaskMode::User && engine.spares(task, Duration::ZERO) {
            let _ = self.under_at(&mut queue, wall, Call::SetMode { cpu, mode: TaskMode::Kernel });
        }
        task.is_in_kernel.store(queue.rq.current_mode() == TaskMode::Kernel, Ordering::Relaxed);
        let mut body = task.body.lock();
        if why == Leave::Block && body.is_awake() {
            drop((body, queue));
            self.notify();
            return None;
        }
        // A kick from here on is a new request.
        engine.answer_kick(cpu);
        let now = queue.clock(wall);
        let left = self.perform(Rqs::One(&mut queue.rq, now), Call::Leave { cpu, why });
        let Ok(Answer::Left(left)) = left else { unreachable!("invariant: `Leave` returns where the task is") };
        body.leave(left, had);
        drop(body);
        task.group.add_usage(cpu, queue.meter.take());
        Some((queue, left, wall))
    }

    /// Picks the next task of the CPU, and returns when. `wall` was read under the lock.
    fn pick(
        &mut self,
        mut queue: QueueGuard<'e, Queue>,
        mut wall: Instant,
    ) -> Option<(QueueGuard<'e, Queue>, Arc<Task>, Instant)> {
        let (engine, cpu) = (self.engine, self.cpu);
        loop {
            let Ok(Answer::Next(next)) = self.under_at(&mut queue, wall, Call::Pick { cpu }) else {
                unreachable!("invariant: a CPU must pick after `Leave`")
            };
            let step = match next {
                Next::Balance(step) => step,
                Next::Idle => {
                    queue.meter.rest(wall);
                    Step::Done
                }
                Next::Run(id) => {
                    let task = engine.task(id);
                    task.last_cpu.store(cpu.0, Ordering::Relaxed);
                    return Some((queue, task, wall));
                }
            };
            drop(queue);
            self.notify();
            self.carry(step);
            if next == Next::Idle {
                return None;
            }
            queue = engine.cpus[cpu.index()].queue.lock();
            wall = engine.now();
        }
    }

    /// Starts a picked task: its debt is charged, and it returns to user mode unless it is spared.
    /// Returns whether it can run; it cannot if its group has used up its quota, or might have by
    /// paying.
    fn begin(&mut self, mut queue: QueueGuard<'e, Queue>, task: &Arc<Task>, wall: Instant) -> bool {
        let cpu = self.cpu;
        // The switch is charged to this task: the clock runs on from the task that has left.
        let _ = queue.meter.run_by_this_thread(wall);
        self.engine.cpus[cpu.index()].began.store(wall.as_nanos(), Ordering::Relaxed);
        let Ok(Answer::Step(step)) = self.under_at(&mut queue, wall, Call::Switched { cpu }) else {
            unreachable!("invariant: `Switched` follows `Pick`")
        };
        let host_work = queue.meter.take_host_work();
        if task.kind.is_fair() {
            queue.meter.charge(host_work);
        } else {
            // A reservation is for the task's own work.
            queue.meter.count(host_work);
        }
        let mut debt = Duration::ZERO;
        if !task.has_borrowed_class() {
            debt = task.take_debt();
            debt += if task.kind.is_fair() { task.group.take_debt() } else { Duration::ZERO };
            queue.meter.skip(debt);
        }
        let is_to_return = queue.rq.current_mode() == TaskMode::Kernel && !self.engine.spares(task, Duration::ZERO);
        let resched = is_to_return.then(|| {
            task.is_in_kernel.store(false, Ordering::Relaxed);
            self.under_at(&mut queue, wall, Call::SetMode { cpu, mode: TaskMode::User })
        });
        drop(queue);
        self.notify();
        self.carry(step);
        // A task that has paid is picked again if its group has quota left and it is still its
        // turn. A small debt is charged with the poll that follows.
        debt < SMALL_DEBT && !matches!(resched, Some(Ok(Answer::Resched(Resched::Now))))
    }
}

/// The result of a task's attempt to leave its CPU.
pub(crate) enum Switched {
    /// The task stays: it was woken before it could block.
    Stays,
    /// The task has left; the CPU runs this one now.
    To(Option<Arc<Task>>),
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::group::Group;
    use crate::reactor::Reactor;
    use crate::state::engine::EngineParts;
    use crate::state::group::GroupState;
    use crate::state::info::Hooks;
    use crate::state::time_source::TimeSource;
    use std::sync::atomic::AtomicU64;
    use zerolag_core::{Config, Scheduler};
    use zerolag_model::{KernelVersion, Topology};

    /// A runtime without threads: the test makes the calls of its CPU.
    pub(crate) fn engine() -> Arc<Engine> {
        let topology = Topology::flat(1).expect("one CPU");
        let mut scheduler = Scheduler::new(Config::new(topology, KernelVersion::V6_18.settings()));
        scheduler.reserve_tasks(4);
        let parts = EngineParts {
            time: TimeSource::Set(AtomicU64::new(0)),
            tasks: 4,
            recorder: None,
            is_traced: false,
            hand_off_after: None,
            detached_max: 0,
            spare_at_most: Duration::ZERO,
            blocking_max: 1,
            reactor: Reactor::default(),
            hooks: Hooks::default(),
            is_measuring: false,
        };
        Arc::new(Engine::new(scheduler, parts))
    }

    fn advance(engine: &Engine, by: Duration) {
        let TimeSource::Set(now) = &engine.time else { unreachable!("these tests set the clock") };
        now.fetch_add(by.as_nanos(), Ordering::Relaxed);
    }

    /// Both tasks owe lag when they sleep. The second is the last to do so, which ends both delays
    /// before the CPU has switched away from it. A wakeup that came then found it parked and placed
    /// it; the switch then took it for one that was still leaving, and the CPU waited for good.
    #[test]
    fn a_wakeup_before_the_switch_has_ended() {
        shuttle::check_random(wake_before_the_switch_has_ended, 1);
    }

    fn wake_before_the_switch_has_ended() {
        let engine = engine();
        let root = Group { state: GroupState::root(&engine) };
        let tasks = [(); 2].map(|()| root.spawn(async {}).expect("room").task.clone());
        let mut caller = Caller::new(&engine, CpuId(0));
        let Switched::To(Some(first)) = caller.switch(None, Leave::Preempted) else { unreachable!("two are queued") };
        advance(&engine, Duration::from_millis(2));
        let Switched::To(Some(last)) = caller.switch(Some(&first), Leave::Block) else { unreachable!("one is queued") };
        assert!(first.body.lock().is_delayed(), "{first:?}");
        advance(&engine, Duration::from_millis(5));

        let (queue, left, wall) = caller.leave(Some(&last), Leave::Block).expect("it is not woken");
        assert_eq!(left, LeftAs::Delayed);
        let body = caller.hand.take();
        assert!(caller.pick(queue, wall).is_none());
        assert!(tasks.iter().all(|task| task.body.lock().parcel().is_some()), "{tasks:?}");
        Caller::new(&engine, CpuId(0)).wake(&last);
        assert!(caller.finish_leave(&last, left, body).is_none());

        assert!(last.body.lock().is_on_queue(), "{last:?}");
        let Switched::To(Some(next)) = caller.switch(None, Leave::Preempted) else { unreachable!("it is awake") };
        assert!(Arc::ptr_eq(&next, &last));
        engine.end();
    }

    /// The runtime ends while a CPU schedules: the poll that follows is asked to yield. The clock,
    /// which would ask it again, has stopped.
    #[test]
    fn the_last_request_to_yield_stays() {
        shuttle::check_random(switch_at_the_end, 1);
    }

    fn switch_at_the_end() {
        let engine = engine();
        let root = Group { state: GroupState::root(&engine) };
        let task = root.spawn(async {}).expect("room").task.clone();
        engine.is_stopping.store(true, Ordering::SeqCst);
        engine.kick(CpuId(0));
        let Switched::To(Some(next)) = Caller::new(&engine, CpuId(0)).switch(None, Leave::Preempted) else {
            unreachable!("one is queued")
        };
        assert!(Arc::ptr_eq(&next, &task));
        assert!(engine.cpus[0].is_kicked.load(Ordering::SeqCst));
        engine.end();
    }
}
