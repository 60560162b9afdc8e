//! The host: a thread per CPU, one for devices, and the work that they pass to each other.

use crate::log::{Answer, CPUS, Call, Entry, TASKS, clock, create, name_of};
use parking_lot::{Mutex, MutexGuard, RawMutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::Thread;
use zerolag_core::{
    Clock, Home, Io, Leave, Left, Lent, Next, Observer, Op, PairClock, Parcel, Placement, Resched, Rq, RqTimer,
    Scheduler, Step, TaskError, Tracing, Work,
};
use zerolag_model::{CpuId, CpuMask, Nice, RtPriority, SchedAttr, TaskId};

/// The place of a task. Its own lock, taken inside run-queue locks, never around them.
#[derive(Debug)]
pub(crate) enum Body {
    Parked(Parcel),
    /// In a thread's hands.
    OnItsWay,
    Queued,
    /// Asleep, but still on a run queue.
    Delayed,
    Dead,
}

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
    pub(crate) bodies: Vec<Mutex<Body>>,
    pub(crate) tickets: AtomicU64,
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
}

impl<'a> Caller<'a> {
    pub(crate) fn new(host: &'a Host, cpu: CpuId, seed: u64) -> Self {
        let mut io = Io::new(Tracing::Off);
        io.observer = Observer::Record(Vec::new());
        Self { host, cpu, io, log: Vec::new(), random: seed, runs: None }
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

    /// Logs a call and executes its operations in `io`. The locks of the call are still held.
    fn log(&mut self, ticket: u64, call: Call, answer: Answer) {
        let Observer::Record(reads) = &mut self.io.observer else { unreachable!("it records") };
        let reads = core::mem::take(reads);
        let ops: Vec<Op> = self.io.ops.drain(..).collect();
        let parked: Vec<TaskId> = self.io.parked.iter().map(Parcel::id).collect();
        for parcel in self.io.parked.drain(..) {
            let mut body = self.host.bodies[parcel.id().index()].lock();
            assert!(matches!(*body, Body::Delayed), "{parcel:?} was parked while {body:?}");
            *body = Body::Parked(parcel);
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
        self.log.push(Entry { ticket, call, reads, answer, ops, parked });
    }

    /// Calls with one run queue locked.
    fn with(
        &mut self,
        cpu: CpuId,
        call: Call,
        enter: impl FnOnce(&Scheduler<RawMutex>, &mut Rq, Clock, &mut Io) -> Step,
    ) -> Step {
        let host = self.host;
        let mut rq = host.rqs[cpu.index()].lock();
        let (ticket, now) = self.ticket();
        let step = enter(&host.scheduler, &mut rq, now, &mut self.io);
        self.log(ticket, call, Answer::Step(step));
        step
    }

    /// Executes a step to its end.
    fn carry(&mut self, step: Step) {
        let host = self.host;
        let mut step = step;
        loop {
            step = match step {
                Step::Done => return,
                Step::Again { own, then } => {
                    self.with(own, Call::Resume { cpu: own, then }, |scheduler, rq, now, io| {
                        scheduler.resume(rq, now, then, io)
                    })
                }
                Step::Pair { own, other, then } => {
                    let (mut rq, mut peer) = lock_pair(host, own, other);
                    let (ticket, now) = self.ticket();
                    let now = PairClock { own: now, other: now };
                    let step = host.scheduler.resume_pair(&mut rq, &mut peer, now, then, &mut self.io);
                    self.log(ticket, Call::Pair { own, other, then }, Answer::Step(step));
                    step
                }
            };
        }
    }

    pub(crate) fn create(&mut self, task: TaskId, attr: SchedAttr) {
        let (ticket, _) = self.ticket();
        let parcel = create(&self.host.scheduler, task, attr);
        self.log(ticket, Call::Create { task, attr }, Answer::Nothing);
        self.place(parcel, Placement::Fork);
    }

    fn place(&mut self, parcel: Parcel, why: Placement) {
        let (host, by, task) = (self.host, self.cpu, parcel.id());
        let (ticket, now) = self.ticket();
        let cpu = host.scheduler.select_cpu(now, &parcel, by, why, &mut self.io);
        self.log(ticket, Call::Select { task, by, why }, Answer::Cpu(cpu));
        let step = {
            let mut rq = host.rqs[cpu.index()].lock();
            let (ticket, now) = self.ticket();
            *host.bodies[task.index()].lock() = Body::Queued;
            let step = host.scheduler.wake(&mut rq, now, parcel, by, why, &mut self.io);
            self.log(ticket, Call::Wake { cpu, task, by, why }, Answer::Step(step));
            step
        };
        self.carry(step);
    }

    /// Wakes a task if it sleeps.
    fn wake(&mut self, task: TaskId) {
        let (host, by) = (self.host, self.cpu);
        let mut body = host.bodies[task.index()].lock();
        match core::mem::replace(&mut *body, Body::OnItsWay) {
            Body::Parked(parcel) => {
                drop(body);
                self.place(parcel, Placement::Wakeup);
            }
            Body::Delayed => {
                *body = Body::Delayed;
                drop(body);
                let Home::Rq(cpu) = host.scheduler.home(task) else { return };
                let mut rq = host.rqs[cpu.index()].lock();
                if !matches!(*host.bodies[task.index()].lock(), Body::Delayed) {
                    return;
                }
                let (ticket, now) = self.ticket();
                let woken = host.scheduler.wake_queued(&mut rq, now, task, by, &mut self.io);
                if woken.is_ok() {
                    *host.bodies[task.index()].lock() = Body::Queued;
                }
                let answer = Answer::Changed(woken.clone().map(|step| (None, step)));
                self.log(ticket, Call::WakeQueued { cpu, task, by }, answer);
                drop(rq);
                if let Ok(step) = woken {
                    self.carry(step);
                }
            }
            other => *body = other,
        }
    }

    /// Changes a task wherever it is, if it exists.
    fn set_attr(&mut self, task: TaskId, attr: SchedAttr) {
        let (host, by) = (self.host, self.cpu);
        let mut body = host.bodies[task.index()].lock();
        if let Body::Parked(parcel) = &mut *body {
            let (ticket, now) = self.ticket();
            host.scheduler.set_attr_parked(now, parcel, attr, by, &mut self.io).expect("a class that is built");
            self.log(ticket, Call::SetAttrParked { task, attr, by }, Answer::Nothing);
            return;
        }
        drop(body);
        self.change(
            task,
            |cpu| Call::SetAttr { cpu, task, attr },
            |scheduler, rq, now, io| scheduler.set_attr(rq, now, task, attr, io).map(|step| (None, step)),
        );
    }

    fn set_affinity(&mut self, task: TaskId, affinity: Option<Arc<CpuMask>>) {
        let (host, by) = (self.host, self.cpu);
        let mut body = host.bodies[task.index()].lock();
        if let Body::Parked(parcel) = &mut *body {
            let (ticket, now) = self.ticket();
            host.scheduler
                .set_affinity_parked(now, parcel, affinity.clone(), by, &mut self.io)
                .expect("a mask within the machine");
            self.log(ticket, Call::SetAffinityParked { task, affinity, by }, Answer::Nothing);
            return;
        }
        drop(body);
        let for_log = affinity.clone();
        self.change(
            task,
            |cpu| Call::SetAffinity { cpu, task, affinity: for_log },
            |scheduler, rq, now, io| scheduler.set_affinity(rq, now, task, affinity, io),
        );
    }

    fn inherit(&mut self, task: TaskId, from: Option<Lent>) {
        self.change(
            task,
            |cpu| Call::Inherit { cpu, task, from },
            |scheduler, rq, now, io| scheduler.inherit(rq, now, task, from, io).map(|step| (None, step)),
        );
    }

    /// Looks a queued task up, locks its home, and looks it up again there.
    fn change(
        &mut self,
        task: TaskId,
        call: impl FnOnce(CpuId) -> Call,
        enter: impl FnOnce(&Scheduler<RawMutex>, &mut Rq, Clock, &mut Io) -> Result<(Option<Parcel>, Step), TaskError>,
    ) {
        let host = self.host;
        let Home::Rq(cpu) = host.scheduler.home(task) else { return };
        let mut rq = host.rqs[cpu.index()].lock();
        let (ticket, now) = self.ticket();
        let changed = enter(&host.scheduler, &mut rq, now, &mut self.io);
        let ids = match &changed {
            Ok((parcel, step)) => Ok((parcel.as_ref().map(Parcel::id), *step)),
            Err(error) => Err(error.clone()),
        };
        if matches!(ids, Ok((Some(_), _))) {
            *host.bodies[task.index()].lock() = Body::OnItsWay;
        }
        self.log(ticket, call(cpu), Answer::Changed(ids));
        drop(rq);
        if let Ok((parcel, step)) = changed {
            self.carry(step);
            if let Some(parcel) = parcel {
                self.place(parcel, Placement::Displaced);
            }
        }
    }

    /// The CPU leaves its task and picks another.
    fn schedule(&mut self, why: Leave) {
        let (host, cpu) = (self.host, self.cpu);
        host.inboxes[cpu.index()].kicked.store(false, Ordering::Release);
        let displaced = {
            let mut rq = host.rqs[cpu.index()].lock();
            let (ticket, now) = self.ticket();
            let current = rq.current();
            let left = host.scheduler.leave(&mut rq, now, why, &mut self.io);
            let answer = Answer::Left(name_of(&left), current);
            let (is, displaced) = match left {
                Left::Queued => (Body::Queued, None),
                Left::Parked(parcel) => (Body::Parked(parcel), None),
                Left::Delayed => (Body::Delayed, None),
                Left::Displaced(parcel) => (Body::OnItsWay, Some(parcel)),
                Left::Dead(_) => (Body::Dead, None),
            };
            if let Some(task) = current {
                *host.bodies[task.index()].lock() = is;
            }
            self.log(ticket, Call::Leave { cpu, why }, answer);
            displaced
        };
        if let Some(parcel) = displaced {
            self.place(parcel, Placement::Displaced);
        }
        loop {
            let (next, step) = {
                let mut rq = host.rqs[cpu.index()].lock();
                let (ticket, now) = self.ticket();
                let next = host.scheduler.pick(&mut rq, now, &mut self.io);
                self.log(ticket, Call::Pick { cpu }, Answer::Next(next));
                let step = match next {
                    Next::Balance(step) => step,
                    Next::Idle => Step::Done,
                    Next::Run(_) => {
                        let (ticket, now) = self.ticket();
                        let step = host.scheduler.switched(&mut rq, now, &mut self.io);
                        self.log(ticket, Call::Switched { cpu }, Answer::Step(step));
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
            let step = self
                .with(cpu, Call::Remote { cpu, work }, |scheduler, rq, now, io| scheduler.remote(rq, now, work, io));
            self.carry(step);
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
                let step = self.with(cpu, Call::Timer { cpu }, |scheduler, rq, now, io| {
                    scheduler.timer(rq, now, RqTimer::Slice, io)
                });
                self.carry(step);
            }
            _ => {
                let step = self.with(cpu, Call::Tick { cpu }, |scheduler, rq, now, io| scheduler.tick(rq, now, io));
                self.carry(step);
            }
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
        for (task, prio) in rq.queued() {
            places[task.index()] += 1;
            let body = host.bodies[task.index()].lock();
            if host.scheduler.home(task) != Home::Rq(rq.cpu()) || !matches!(*body, Body::Queued | Body::Delayed) {
                return Err(format!("task {task} is on CPU {}, and {body:?}", rq.cpu()));
            }
            if !prio.is_rt() || rq.current() == Some(task) {
                continue;
            }
            let better = views.iter().find(|to| rq.may_run_on(task, to.cpu()) && prio.beats(to.current_prio()));
            if let Some(to) = better {
                return Err(format!("task {task} waits on CPU {} and could preempt on CPU {}", rq.cpu(), to.cpu()));
            }
        }
    }
    for (index, body) in host.bodies.iter().enumerate() {
        let expected = match &*body.lock() {
            Body::Queued | Body::Delayed => 1,
            Body::Parked(_) | Body::Dead => 0,
            Body::OnItsWay => return Err(format!("task {index} was dropped on its way")),
        };
        if places[index] != expected {
            return Err(format!("task {index} is in {} run queues", places[index]));
        }
    }
    Ok(())
}
