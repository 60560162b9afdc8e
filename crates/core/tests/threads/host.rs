//! The host: a thread per CPU, one for devices, and the work that they pass to each other.

use crate::log::{CPUS, Entry, TASKS, clock, spec};
use parking_lot::{Mutex, MutexGuard, RawMutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::Thread;
use zerolag_core::call::{Answer, Call, Made, Place, Rqs, Under};
use zerolag_core::{
    Clock, Home, Io, Leave, Lent, Next, Observer, Op, PairClock, Parcel, Placement, Resched, Rq, RqTimer, Scheduler,
    Step, Tracing, Work,
};
use zerolag_model::{CpuId, CpuMask, Nice, RtPriority, SchedAttr, TaskId};

/// The work that other threads leave for a CPU.
#[derive(Default)]
pub(crate) struct Inbox {
    kicked: AtomicBool,
    ipis: Mutex<VecDeque<Work>>,
    timer: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Inbox {
    fn notify(&self) {
        if let Some(thread) = &*self.thread.lock() {
            thread.unpark();
        }
    }
}

pub(crate) struct Host {
    pub(crate) scheduler: Scheduler<RawMutex>,
    pub(crate) rqs: Vec<Mutex<Rq>>,
    pub(crate) inboxes: Vec<Inbox>,
    /// Where each task is. Taken inside run-queue locks, never around them.
    pub(crate) places: Vec<Mutex<Place>>,
    pub(crate) tickets: AtomicU64,
    /// The number of pushes in this round whose targets other CPUs took three times in a row. A
    /// waiting task can then be left although a CPU could run it, as in the kernel.
    pub(crate) pushes_given_up: AtomicU64,
    /// The remaining operations of this round.
    pub(crate) budget: AtomicI64,
}

/// The state of one thread: its buffers, its part of the log, its random numbers.
pub(crate) struct Caller<'a> {
    pub(crate) host: &'a Host,
    /// The CPU in whose name it calls.
    pub(crate) cpu: CpuId,
    pub(crate) io: Io,
    pub(crate) log: Vec<Entry>,
    pub(crate) random: u64,
    /// The CPU's task; unused by threads that are not CPUs.
    pub(crate) runs: Option<TaskId>,
    /// The body that a call is given, or hands out.
    hand: Option<Parcel>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(host: &'a Host, cpu: CpuId, seed: u64) -> Self {
        let mut io = Io::new(Tracing::Off);
        io.observer = Observer::Record(Vec::new());
        Self { host, cpu, io, log: Vec::new(), random: seed, runs: None, hand: None }
    }

    /// splitmix64.
    fn random(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % below
    }

    fn ticket(&self) -> (u64, Clock) {
        let ticket = self.host.tickets.fetch_add(1, Ordering::Relaxed);
        (ticket, clock(ticket))
    }

    /// Makes a call, with its locks.
    fn call(&mut self, call: Call) -> Answer {
        let host = self.host;
        match call.under() {
            Under::None => {
                let (ticket, now) = self.ticket();
                self.under(ticket, Rqs::None(now), call)
            }
            Under::One(cpu) => {
                let mut rq = host.rqs[cpu.index()].lock();
                let (ticket, now) = self.ticket();
                self.under(ticket, Rqs::One(&mut rq, now), call)
            }
            Under::Two(own, other) => {
                let (mut rq, mut peer) = lock_pair(host, own, other);
                let (ticket, now) = self.ticket();
                self.under(ticket, Rqs::Two([&mut rq, &mut peer], PairClock::at(now)), call)
            }
        }
    }

    /// Makes a call whose locks are held, logs it and executes its operations.
    fn under(&mut self, ticket: u64, rqs: Rqs<'_>, call: Call) -> Answer {
        let made = Made::apply(&self.host.scheduler, rqs, call, &mut self.hand, &mut self.io);
        let answer = made.answer.clone().unwrap_or_else(|error| panic!("{:?}: {error}", made.call));
        if std::mem::take(&mut self.io.costs).pushes_given_up > 0 {
            self.host.pushes_given_up.fetch_add(1, Ordering::Relaxed);
        }
        let ops: Vec<Op> = self.io.ops.drain(..).collect();
        for parcel in self.io.parked.drain(..) {
            let mut place = self.host.places[parcel.id().index()].lock();
            assert!(matches!(*place, Place::Delayed), "{parcel:?} was parked while {place:?}");
            *place = Place::Parked(parcel);
        }
        for op in &ops {
            match *op {
                Op::Kick { cpu } => {
                    let inbox = &self.host.inboxes[cpu.index()];
                    inbox.kicked.store(true, Ordering::Release);
                    inbox.notify();
                }
                Op::Ipi { cpu, work } => {
                    let inbox = &self.host.inboxes[cpu.index()];
                    inbox.ipis.lock().push_back(work);
                    inbox.notify();
                }
                Op::ExtExit | Op::PolicyTimer { .. } => unreachable!("no policy is loaded"),
                Op::ArmTimer { cpu, timer: RqTimer::Slice, .. } => {
                    self.host.inboxes[cpu.index()].timer.store(true, Ordering::Release);
                }
                Op::ArmGroupTimer { .. } => unreachable!("no group is limited here"),
                Op::CancelTimer { cpu, timer: RqTimer::Slice } => {
                    self.host.inboxes[cpu.index()].timer.store(false, Ordering::Release);
                }
                // These threads have no clock: a deferred server never starts.
                Op::ArmTimer { .. } | Op::CancelTimer { .. } => {}
            }
        }
        self.log.push(Entry { ticket, made, ops });
        // Operations are bounded, so only calls that repeat each other without end get there. With
        // `pull_claimed` a CPU once asked itself again and again (`pull_claimed.rs`): that took all
        // memory, and said nothing.
        if self.log.len() > CALLS_MAX {
            let last: Vec<_> = self.log.iter().rev().take(12).map(|entry| &entry.made.call).collect();
            // The round is over for the others, or the test would wait for sleeping ones.
            self.host.budget.store(0, Ordering::Relaxed);
            self.host.inboxes.iter().for_each(Inbox::notify);
            panic!("CPU {} makes calls without end; the last, the latest first: {last:#?}", self.cpu);
        }
        answer
    }

    /// Makes a call that returns a step, and executes it to its end.
    fn make(&mut self, call: Call) {
        match self.call(call) {
            Answer::Step(step) => self.carry(step),
            Answer::NotHere => {}
            other => unreachable!("{other:?} is no step"),
        }
    }

    /// Executes a step to its end.
    fn carry(&mut self, step: Step) {
        let mut step = step;
        loop {
            let call = match step {
                Step::Done => return,
                Step::Again { own, then } => Call::Resume { own, then },
                Step::Pair { own, other, then } => Call::Pair { own, other, then },
            };
            let Answer::Step(next) = self.call(call) else { unreachable!("a continuation returns a step") };
            step = next;
        }
    }

    pub(crate) fn create(&mut self, task: TaskId, attr: SchedAttr) {
        let created = self.call(Call::CreateTask { spec: spec(task, attr) });
        assert_eq!(created, Answer::DONE);
        self.place(task, Placement::Fork);
    }

    /// Places the task in hand.
    fn place(&mut self, task: TaskId, why: Placement) {
        let (host, by) = (self.host, self.cpu);
        let Answer::Cpu(cpu) = self.call(Call::Select { task, by, why }) else { unreachable!("a CPU is chosen") };
        let answer = {
            let mut rq = host.rqs[cpu.index()].lock();
            let (ticket, now) = self.ticket();
            *host.places[task.index()].lock() = Place::Queued;
            self.under(ticket, Rqs::One(&mut rq, now), Call::Wake { cpu, task, by, why })
        };
        let Answer::Step(step) = answer else { unreachable!("a wakeup returns a step") };
        self.carry(step);
    }

    /// Wakes a task if it sleeps.
    fn wake(&mut self, task: TaskId) {
        let (host, by) = (self.host, self.cpu);
        let mut place = host.places[task.index()].lock();
        match core::mem::replace(&mut *place, Place::OnItsWay) {
            Place::Parked(parcel) => {
                drop(place);
                self.hand = Some(parcel);
                self.place(task, Placement::Wakeup);
            }
            Place::Delayed => {
                *place = Place::Delayed;
                drop(place);
                let Home::Rq(cpu) = host.scheduler.home(task) else { return };
                let mut rq = host.rqs[cpu.index()].lock();
                if !matches!(*host.places[task.index()].lock(), Place::Delayed) {
                    return;
                }
                let (ticket, now) = self.ticket();
                let woken = self.under(ticket, Rqs::One(&mut rq, now), Call::WakeQueued { cpu, task, by });
                let Answer::Step(step) = woken else { return };
                *host.places[task.index()].lock() = Place::Queued;
                drop(rq);
                self.carry(step);
            }
            other => *place = other,
        }
    }

    /// Changes a task wherever it is, if it exists: parked, or on the run queue of a CPU.
    fn change(&mut self, task: TaskId, parked: Option<Call>, queued: impl FnOnce(CpuId) -> Call) {
        let host = self.host;
        let mut place = host.places[task.index()].lock();
        if let (Some(call), Place::Parked(_)) = (parked, &*place) {
            let Place::Parked(parcel) = core::mem::replace(&mut *place, Place::OnItsWay) else {
                unreachable!("it is parked")
            };
            self.hand = Some(parcel);
            let changed = self.call(call);
            assert_eq!(changed, Answer::DONE);
            *place = Place::Parked(self.hand.take().expect("it stays in hand"));
            return;
        }
        drop(place);
        let Home::Rq(cpu) = host.scheduler.home(task) else { return };
        let mut rq = host.rqs[cpu.index()].lock();
        let (ticket, now) = self.ticket();
        let changed = self.under(ticket, Rqs::One(&mut rq, now), queued(cpu));
        if self.hand.is_some() {
            *host.places[task.index()].lock() = Place::OnItsWay;
        }
        drop(rq);
        let displaced = self.hand.take();
        if let Answer::Step(step) = changed {
            self.carry(step);
        }
        if displaced.is_some() {
            self.hand = displaced;
            self.place(task, Placement::Displaced);
        }
    }

    fn set_attr(&mut self, task: TaskId, attr: SchedAttr) {
        let parked = Call::SetAttrParked { task, attr, by: self.cpu };
        self.change(task, Some(parked), |cpu| Call::SetAttr { cpu, task, attr });
    }

    fn set_affinity(&mut self, task: TaskId, affinity: Option<Arc<CpuMask>>) {
        let parked = Call::SetAffinityParked { task, affinity: affinity.clone(), by: self.cpu };
        self.change(task, Some(parked), |cpu| Call::SetAffinity { cpu, task, affinity });
    }

    fn inherit(&mut self, task: TaskId, from: Option<Lent>) {
        self.change(task, None, |cpu| Call::Inherit { cpu, task, from });
    }

    /// The CPU leaves its task and picks another.
    fn schedule(&mut self, why: Leave) {
        let (host, cpu) = (self.host, self.cpu);
        host.inboxes[cpu.index()].kicked.store(false, Ordering::Release);
        {
            let mut rq = host.rqs[cpu.index()].lock();
            let (ticket, now) = self.ticket();
            let current = rq.current();
            let answer = self.under(ticket, Rqs::One(&mut rq, now), Call::Leave { cpu, why });
            let Answer::Left(left) = answer else { unreachable!("a task that leaves is somewhere") };
            let place = Place::after(left, &mut self.hand);
            if let Some(task) = current {
                *host.places[task.index()].lock() = place;
            }
        }
        if let Some(displaced) = self.hand.as_ref().map(Parcel::id) {
            self.place(displaced, Placement::Displaced);
        }
        loop {
            let (next, step) = {
                let mut rq = host.rqs[cpu.index()].lock();
                let (ticket, now) = self.ticket();
                let answer = self.under(ticket, Rqs::One(&mut rq, now), Call::Pick { cpu });
                let Answer::Next(next) = answer else { unreachable!("a pick chooses") };
                let step = match next {
                    Next::Balance(step) => step,
                    Next::Idle => Step::Done,
                    Next::Run(_) => {
                        let (ticket, now) = self.ticket();
                        let answer = self.under(ticket, Rqs::One(&mut rq, now), Call::Switched { cpu });
                        let Answer::Step(step) = answer else { unreachable!("a switch returns a step") };
                        step
                    }
                };
                (next, step)
            };
            self.carry(step);
            match next {
                Next::Balance(_) => {}
                Next::Idle => break self.runs = None,
                Next::Run(task) => break self.runs = Some(task),
            }
        }
    }

    /// Processes the inbox of this CPU; returns whether it contained work.
    fn take_inbox(&mut self) -> bool {
        let (host, cpu) = (self.host, self.cpu);
        let inbox = &host.inboxes[cpu.index()];
        let mut any = false;
        loop {
            let Some(work) = inbox.ipis.lock().pop_front() else { break };
            any = true;
            self.make(Call::Remote { cpu, work });
        }
        if inbox.kicked.swap(false, Ordering::AcqRel) {
            let asked = host.rqs[cpu.index()].lock().need_resched() != Resched::No;
            any |= asked;
            if asked {
                self.schedule(Leave::Preempted);
            }
        }
        any
    }

    /// A CPU: takes its inbox, runs its task a little, until the round is over.
    pub(crate) fn run_cpu(&mut self) {
        let host = self.host;
        *host.inboxes[self.cpu.index()].thread.lock() = Some(std::thread::current());
        while host.budget.fetch_sub(1, Ordering::Relaxed) > 0 {
            if self.take_inbox() {
                continue;
            }
            match self.runs {
                Some(task) => self.run_task(task),
                None => std::thread::park(),
            }
        }
        for inbox in &host.inboxes {
            inbox.notify(); // The round is also over for sleeping threads.
        }
    }

    /// A short burst, then a random action of a task.
    fn run_task(&mut self, task: TaskId) {
        let cpu = self.cpu;
        for _ in 0..self.random(200) {
            core::hint::spin_loop();
        }
        let other = TaskId(u32::try_from(self.random(u64::from(TASKS))).expect("small"));
        let attr = self.any_attr();
        match self.random(64) {
            0..=23 => self.schedule(Leave::Block),
            24..=43 => self.wake(other),
            44..=47 => self.schedule(Leave::Yield),
            48..=50 => self.set_attr(other, attr),
            51..=52 => self.set_attr(task, attr),
            53..=54 => {
                let affinity = self.any_affinity();
                self.set_affinity(other, affinity);
            }
            55 => {
                let affinity = self.any_affinity();
                self.set_affinity(task, affinity);
            }
            56..=57 => {
                let from = (self.random(2) == 0).then(|| Lent::Prio(attr.prio()));
                self.inherit(other, from);
            }
            58 if self.host.inboxes[cpu.index()].timer.swap(false, Ordering::AcqRel) => {
                self.make(Call::Timer { cpu, timer: RqTimer::Slice });
            }
            _ => self.make(Call::Tick { cpu }),
        }
    }

    /// An outside agent that wakes tasks, so that the CPUs do not all sleep.
    pub(crate) fn run_device(&mut self) {
        while self.host.budget.fetch_sub(1, Ordering::Relaxed) > 0 {
            let task = TaskId(u32::try_from(self.random(u64::from(TASKS))).expect("small"));
            self.wake(task);
            std::thread::yield_now();
        }
        for inbox in &self.host.inboxes {
            inbox.notify();
        }
    }

    pub(crate) fn any_attr(&mut self) -> SchedAttr {
        let priority = RtPriority::new(10 + i64::try_from(self.random(6)).expect("small")).expect("1..=99");
        match self.random(8) {
            0 => SchedAttr::nice(Nice::ZERO),
            1 => SchedAttr::rr(priority),
            _ => SchedAttr::fifo(priority),
        }
    }

    /// Every CPU, or one or two of them.
    fn any_affinity(&mut self) -> Option<Arc<CpuMask>> {
        let any = |caller: &mut Self| CpuId(u32::try_from(caller.random(u64::from(CPUS))).expect("small"));
        (self.random(3) == 0).then(|| Arc::new([any(self), any(self)].into_iter().collect()))
    }
}

/// Locks two run queues in order of their CPUs.
fn lock_pair(host: &Host, own: CpuId, other: CpuId) -> (MutexGuard<'_, Rq>, MutexGuard<'_, Rq>) {
    let lock = |cpu: CpuId| host.rqs[cpu.index()].lock();
    if own < other {
        let first = lock(own);
        (first, lock(other))
    } else {
        let first = lock(other);
        (lock(own), first)
    }
}

/// The most calls of one thread.
const CALLS_MAX: usize = 2_000_000;

/// Delivers the threads' pending work on this thread.
pub(crate) fn come_to_rest(host: &Host, callers: &mut [Caller<'_>]) {
    for (rq, inbox) in host.rqs.iter().zip(&host.inboxes) {
        let asked = rq.lock().need_resched() == Resched::Now;
        assert!(!asked || inbox.kicked.load(Ordering::Acquire), "CPU {} lost a kick", rq.lock().cpu());
    }
    for _ in 0..10_000 {
        let mut any = false;
        for caller in &mut *callers {
            any |= caller.take_inbox();
        }
        if !any {
            return;
        }
    }
    panic!("kicks and IPIs never end");
}

/// Checks the rules of quiescence.
pub(crate) fn check(host: &Host, callers: &[Caller<'_>]) -> Result<(), String> {
    let rqs: Vec<MutexGuard<'_, Rq>> = host.rqs.iter().map(Mutex::lock).collect();
    let views: Vec<&Rq> = rqs.iter().map(|rq| &**rq).collect();
    host.scheduler.check_quiescent(&views)?;
    let mut places = vec![0; TASKS as usize];
    for (rq, caller) in views.iter().zip(callers) {
        if rq.current() != caller.runs {
            return Err(format!("CPU {} runs {:?} and was told {:?}", rq.cpu(), rq.current(), caller.runs));
        }
        for (task, prio) in rq.inspect().queued() {
            places[task.index()] += 1;
            let place = host.places[task.index()].lock();
            if host.scheduler.home(task) != Home::Rq(rq.cpu()) || !place.is_on_rq() {
                return Err(format!("task {task} is on CPU {}, and {place:?}", rq.cpu()));
            }
            if !prio.is_rt() || rq.current() == Some(task) {
                continue;
            }
            let better =
                views.iter().find(|to| rq.inspect().may_run_on(task, to.cpu()) && prio.beats(to.inspect().runs_at()));
            let is_missed = host.pushes_given_up.load(Ordering::Relaxed) == 0;
            if let Some(to) = better.filter(|_| is_missed) {
                return Err(format!("task {task} waits on CPU {} and could preempt on CPU {}", rq.cpu(), to.cpu()));
            }
        }
    }
    for (index, place) in host.places.iter().enumerate() {
        let expected = match &*place.lock() {
            Place::Queued | Place::Delayed => 1,
            Place::Parked(_) | Place::Dead => 0,
            Place::OnItsWay => return Err(format!("task {index} was dropped on its way")),
        };
        if places[index] != expected {
            return Err(format!("task {index} is in {} run queues", places[index]));
        }
    }
    Ok(())
}
