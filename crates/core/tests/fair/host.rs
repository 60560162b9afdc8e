//! A single-threaded host for tests of the fair class: CPUs with ticks, tasks that hog or run and
//! sleep in turn.

use parking_lot::RawMutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_core::call::{Answer, Call, LeftAs, Place, Refused, Rqs, Under};
use zerolag_core::{
    Clock, Config, GroupTimer, Home, Io, Leave, Next, Op, PairClock, Parcel, Placement, ProcessId, Resched, Rq,
    RqTimer, Scheduler, Step, TaskMode, TaskSpec, Tracing, Weight, Work,
};
use zerolag_model::settings::SchedExt;
use zerolag_model::{CpuId, CpuMask, CpuMax, Duration, GroupId, Instant, SchedAttr, Settings, TaskId, Topology};

/// The program of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Program {
    /// It runs forever.
    Hog,
    /// It runs for the first time, then sleeps until its next period; it does not sleep if it is
    /// late.
    Periodic(Duration, Duration),
    /// It runs, then sleeps, for these times.
    RunSleep(Duration, Duration),
}

/// The host's state of a task.
#[derive(Debug)]
pub(crate) struct HostTask {
    pub(crate) program: Program,
    left: Duration,
    wakes_at: Option<Instant>,
    period_end: Instant,
    pub(crate) exec: Duration,
}

/// A machine.
pub(crate) struct Host {
    pub(crate) sched: Scheduler<RawMutex>,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) io: Io,
    pub(crate) now: Instant,
    pub(crate) tasks: Vec<HostTask>,
    /// Where each task is.
    pub(crate) places: Vec<Place>,
    /// The body that a call is given, or hands out.
    pub(crate) hand: Option<Parcel>,
    /// Each switch: its time, CPU and next task.
    pub(crate) switches: Vec<(Instant, CpuId, Option<TaskId>)>,
    timers: Vec<Option<Instant>>,
    group_timers: BTreeMap<(GroupId, GroupTimer), Instant>,
    remote: Vec<(CpuId, Work)>,
    next_tick: Instant,
    pub(crate) migrations: u32,
    /// Two CPUs of different root domains that a step wanted to lock together.
    pub(crate) strayed: Option<(CpuId, CpuId)>,
    /// The number of processes whose threads most tasks are.
    pub(crate) processes: u32,
    /// Whether what has a short way is done the long way in a copy, too.
    pub(crate) compares_ways: bool,
}

impl Host {
    pub(crate) fn new(topology: Topology, settings: Settings) -> Self {
        Self::with_config(Config::new(topology, settings).with_queue_reserve(256))
    }

    pub(crate) fn with_config(config: Config) -> Self {
        let mut sched = Scheduler::new(config);
        sched.reserve_tasks(4096);
        let rqs: Vec<Rq> = sched.config().topology().cpus().map(|cpu| sched.new_rq(cpu)).collect();
        let timers = rqs.iter().map(|_| None).collect();
        let next_tick = Instant::ZERO + sched.config().settings().tick_period();
        Self {
            sched,
            rqs,
            io: Io::new(Tracing::Off),
            now: Instant::ZERO,
            tasks: Vec::new(),
            places: Vec::with_capacity(4096),
            hand: None,
            switches: Vec::with_capacity(1 << 16),
            timers,
            group_timers: BTreeMap::new(),
            remote: Vec::new(),
            next_tick,
            migrations: 0,
            strayed: None,
            compares_ways: false,
            processes: 0,
        }
    }

    /// Returns when the timer of a CPU's slice ends, if it runs.
    pub(crate) fn slice_timer(&self, cpu: CpuId) -> Option<Instant> {
        self.timers[cpu.index()]
    }

    /// Makes a call, processes its output, and returns its answer.
    pub(crate) fn call(&mut self, call: &Call) -> Result<Answer, Refused> {
        let now = Clock::at(self.now);
        let rqs = match call.under() {
            Under::None => Rqs::None(now),
            Under::One(cpu) => Rqs::One(&mut self.rqs[cpu.index()], now),
            Under::Two(own, other) => {
                let pair = self.rqs.get_disjoint_mut([own.index(), other.index()]);
                Rqs::Two(pair.expect("a pair is two CPUs"), PairClock::at(now))
            }
        };
        let answer = call.apply(&self.sched, rqs, &mut self.hand, &mut self.io);
        self.after();
        answer
    }

    /// Makes a call that returns a step and is never refused.
    pub(crate) fn step(&mut self, call: &Call) -> Step {
        match self.call(call) {
            Ok(Answer::Step(step)) => step,
            other => panic!("{call:?} returned {other:?}"),
        }
    }

    /// Processes the output of a call.
    fn after(&mut self) {
        while let Some(parcel) = self.io.parked.pop() {
            let task = parcel.id();
            let place = &mut self.places[task.index()];
            assert!(matches!(place, Place::Delayed), "task {task} was parked while {place:?}");
            *place = Place::Parked(parcel);
        }
        for op in self.io.ops.drain(..) {
            match op {
                Op::Kick { .. } | Op::ExtExit | Op::PolicyTimer { .. } => {}
                Op::Ipi { cpu, work } => self.remote.push((cpu, work)),
                Op::ArmTimer { cpu, timer: RqTimer::Slice, at } => self.timers[cpu.index()] = Some(at),
                Op::CancelTimer { cpu, timer: RqTimer::Slice } => self.timers[cpu.index()] = None,
                Op::ArmGroupTimer { group, timer, at } => {
                    self.group_timers.insert((group, timer), at);
                }
                // No task starves here: servers and RT throttling have nothing to do.
                Op::ArmTimer { .. } | Op::CancelTimer { .. } => {}
            }
        }
        self.migrations += std::mem::take(&mut self.io.costs.tasks_moved);
    }

    /// Creates a group.
    pub(crate) fn create_group(&mut self, parent: GroupId, weight: Weight) -> GroupId {
        match self.call(&Call::CreateGroup { parent, weight }) {
            Ok(Answer::Group(group)) => group,
            other => panic!("no group below group {parent}: {other:?}"),
        }
    }

    /// Creates a task without starting it.
    pub(crate) fn create(
        &mut self,
        attr: SchedAttr,
        group: GroupId,
        affinity: Option<&str>,
        program: Program,
    ) -> TaskId {
        let id = TaskId::from_index(self.tasks.len());
        let affinity = affinity.map(|list| Arc::new(list.parse::<CpuMask>().expect("a CPU list")));
        // Two of three tasks are threads of a process with others.
        let process = (self.processes > 0 && !id.0.is_multiple_of(3)).then(|| ProcessId(id.0 % self.processes));
        let spec = TaskSpec { id, attr, affinity, group, cpuset: Default::default(), born_on: CpuId(0), process };
        self.call(&Call::CreateTask { spec }).expect("a valid task");
        let parcel = self.hand.take().expect("a created task is in hand");
        let left = match program {
            Program::Hog => Duration::MAX,
            Program::Periodic(run, _) | Program::RunSleep(run, _) => run,
        };
        let period_end = self.now;
        self.tasks.push(HostTask { program, left, wakes_at: None, period_end, exec: Duration::ZERO });
        self.places.push(Place::Parked(parcel));
        id
    }

    /// Creates and starts a task.
    pub(crate) fn spawn(
        &mut self,
        attr: SchedAttr,
        group: GroupId,
        affinity: Option<&str>,
        program: Program,
    ) -> TaskId {
        let id = self.create(attr, group, affinity, program);
        let parcel = self.take(id);
        self.place(parcel, CpuId(0), Placement::Fork);
        self.settle();
        id
    }

    /// Takes the body of a sleeping task, which is on its way then.
    fn take(&mut self, id: TaskId) -> Parcel {
        match std::mem::replace(&mut self.places[id.index()], Place::OnItsWay) {
            Place::Parked(parcel) => parcel,
            other => panic!("task {id} is not parked but {other:?}"),
        }
    }

    fn place(&mut self, parcel: Parcel, by: CpuId, why: Placement) {
        let task = parcel.id();
        self.hand = Some(parcel);
        let cpu = match self.call(&Call::Select { task, by, why }) {
            Ok(Answer::Cpu(cpu)) => cpu,
            other => panic!("task {task} has no CPU: {other:?}"),
        };
        self.places[task.index()] = Place::Queued;
        let step = self.step(&Call::Wake { cpu, task, by, why });
        self.carry_out(step);
    }

    /// Wakes a task wherever its body is.
    pub(crate) fn wake(&mut self, task: TaskId, by: CpuId) {
        self.tasks[task.index()].wakes_at = None;
        match self.sched.home(task) {
            Home::Parcel => {
                let parcel = self.take(task);
                self.place(parcel, by, Placement::Wakeup);
            }
            Home::Rq(cpu) => {
                let step = self.step(&Call::WakeQueued { cpu, task, by });
                self.places[task.index()] = Place::Queued;
                self.carry_out(step);
            }
        }
        self.settle();
    }

    pub(crate) fn carry_out(&mut self, step: Step) {
        let mut step = step;
        loop {
            step = match step {
                Step::Done => return,
                Step::Pair { own, other, then } => {
                    if self.sched.root_domain(own) != self.sched.root_domain(other) {
                        self.strayed = Some((own, other));
                    }
                    self.step(&Call::Pair { own, other, then })
                }
                Step::Again { own, then } => self.step(&Call::Resume { own, then }),
            };
        }
    }

    /// Schedules on every CPU that was asked to, until none is.
    pub(crate) fn settle(&mut self) {
        loop {
            while !self.remote.is_empty() {
                let (cpu, work) = self.remote.remove(0);
                let step = self.step(&Call::Remote { cpu, work });
                self.carry_out(step);
            }
            let asked = self.rqs.iter().find(|rq| rq.need_resched() != Resched::No);
            let Some(cpu) = asked.map(Rq::cpu) else { return };
            self.schedule(cpu, Leave::Preempted);
        }
    }

    /// The CPU leaves its task and picks another.
    pub(crate) fn schedule(&mut self, cpu: CpuId, why: Leave) {
        let before = self.rqs[cpu.index()].current();
        let short = if self.compares_ways && why == Leave::Preempted { self.preempt_copy(cpu) } else { None };
        let Ok(Answer::Left(left)) = self.call(&Call::Leave { cpu, why }) else { panic!("CPU {cpu} has not left") };
        let place = Place::after(left, &mut self.hand);
        if let Some(task) = before {
            self.places[task.index()] = place;
        }
        if let Some(parcel) = self.hand.take().filter(|_| left == LeftAs::Displaced) {
            self.place(parcel, cpu, Placement::Displaced);
        }
        loop {
            match self.call(&Call::Pick { cpu }) {
                Ok(Answer::Next(Next::Balance(step))) => self.carry_out(step),
                Ok(Answer::Next(Next::Run(_) | Next::Idle)) => break,
                other => panic!("CPU {cpu} has not picked: {other:?}"),
            }
        }
        let step = self.step(&Call::Switched { cpu });
        if let Some((next, copy)) = short {
            assert_eq!((left, step), (LeftAs::Queued, Step::Done), "nothing is left to be done");
            assert_eq!(self.rqs[cpu.index()].current(), Some(next));
            assert_eq!(format!("{:?}", self.rqs[cpu.index()]), format!("{copy:?}"), "both ways are one");
        }
        self.carry_out(step);
        let after = self.rqs[cpu.index()].current();
        if before != after {
            self.switches.push((self.now, cpu, after));
        }
    }

    /// Leaves the task of a CPU and picks the next one in one step, in a copy; if it is one step.
    fn preempt_copy(&self, cpu: CpuId) -> Option<(TaskId, Rq)> {
        let (sched, mut rq, mut io) = self.copy_of(cpu);
        let next = sched.preempt(&mut rq, Clock::at(self.now), &mut io);
        next.map(|next| (next, rq))
    }

    fn copy_of(&self, cpu: CpuId) -> (Scheduler<RawMutex>, Rq, Io) {
        (self.sched.snapshot(), self.rqs[cpu.index()].snapshot(), self.io.snapshot())
    }

    /// Lets time pass until `until`.
    pub(crate) fn run(&mut self, until: Instant) {
        loop {
            let at = self.next_event().min(until).max(self.now);
            self.pass(at);
            if at == until {
                return;
            }
            self.work_ends();
            self.wakeups();
            self.slice_ends();
            self.group_timers_fire();
            if self.now == self.next_tick {
                self.next_tick = self.now + self.sched.config().settings().tick_period();
                for cpu in 0..self.rqs.len() {
                    if self.sched.needs_tick(&self.rqs[cpu]) {
                        let step = self.step(&Call::Tick { cpu: CpuId::from_index(cpu) });
                        self.carry_out(step);
                    }
                }
                self.settle();
            }
        }
    }

    fn next_event(&self) -> Instant {
        let work = self.rqs.iter().filter_map(|rq| {
            let left = self.tasks[rq.current()?.index()].left;
            Some(self.now.saturating_add(left))
        });
        let wakes = self.tasks.iter().filter_map(|task| task.wakes_at);
        let timers = self.timers.iter().copied().flatten();
        let groups = self.group_timers.values().copied();
        work.chain(wakes).chain(timers).chain(groups).fold(self.next_tick, Instant::min)
    }

    fn pass(&mut self, to: Instant) {
        let delta = to.since(self.now);
        for rq in &self.rqs {
            if let Some(id) = rq.current() {
                let task = &mut self.tasks[id.index()];
                task.exec += delta;
                if task.left != Duration::MAX {
                    task.left -= delta;
                }
            }
        }
        self.now = to;
    }

    fn work_ends(&mut self) {
        for cpu in 0..self.rqs.len() {
            let Some(id) = self.rqs[cpu].current() else { continue };
            let now = self.now;
            let task = &mut self.tasks[id.index()];
            if !task.left.is_zero() {
                continue;
            }
            match task.program {
                Program::Hog => unreachable!("a hog's work does not end"),
                Program::Periodic(run, period) => {
                    task.left = run;
                    task.period_end += period;
                    if task.period_end <= now {
                        continue;
                    }
                    task.wakes_at = Some(task.period_end);
                }
                Program::RunSleep(run, sleep) => {
                    task.left = run;
                    task.wakes_at = Some(now + sleep);
                }
            }
            self.schedule(CpuId::from_index(cpu), Leave::Block);
            self.settle();
        }
    }

    fn wakeups(&mut self) {
        for index in 0..self.tasks.len() {
            if self.tasks[index].wakes_at == Some(self.now) {
                self.wake(TaskId::from_index(index), CpuId(0));
            }
        }
    }

    fn slice_ends(&mut self) {
        for cpu in 0..self.rqs.len() {
            if self.timers[cpu].is_some_and(|at| at <= self.now) {
                self.timers[cpu] = None;
                let step = self.step(&Call::Timer { cpu: CpuId::from_index(cpu), timer: RqTimer::Slice });
                self.carry_out(step);
                self.settle();
            }
        }
    }

    /// Fires the timers of limited groups that are due.
    pub(crate) fn group_timers_fire(&mut self) {
        let due = |host: &Self| host.group_timers.iter().find(|(_, at)| **at <= host.now).map(|(key, _)| *key);
        while let Some((group, timer)) = due(self) {
            self.group_timers.remove(&(group, timer));
            let step = self.step(&Call::GroupTimer { group, timer, by: CpuId(0) });
            self.carry_out(step);
            self.settle();
        }
    }

    /// Limits a group.
    pub(crate) fn set_max(&mut self, group: GroupId, max: CpuMax) {
        let step = self.step(&Call::SetGroupMax { group, max, by: CpuId(0) });
        self.carry_out(step);
        self.settle();
    }

    /// Shifts all ticks by some time.
    pub(crate) fn shift_ticks(&mut self, by: Duration) {
        self.next_tick += by;
    }

    /// Lets only this much time pass, without ticks and timers.
    pub(crate) fn advance(&mut self, by: Duration) {
        let to = self.now + by;
        self.pass(to);
        let tick = self.sched.config().settings().tick_period();
        if self.next_tick <= self.now {
            self.next_tick += tick * (self.now.since(self.next_tick).as_nanos() / tick.as_nanos() + 1);
        }
    }

    /// The current task of a CPU, if there is one, enters the kernel or returns to user mode.
    pub(crate) fn set_mode(&mut self, cpu: CpuId, mode: TaskMode) {
        if self.rqs[cpu.index()].current().is_some() {
            self.call(&Call::SetMode { cpu, mode }).expect("a change of mode is never refused");
        }
    }

    /// The periodic tick of one CPU.
    pub(crate) fn tick(&mut self, cpu: CpuId) {
        let copy = self.compares_ways.then(|| {
            let (sched, mut rq, mut io) = self.copy_of(cpu);
            // A tick that finds nothing to charge takes the long way.
            sched.charge(&mut rq, Clock::at(self.now), &mut io);
            let step = sched.tick(&mut rq, Clock::at(self.now), &mut io);
            (step, rq)
        });
        let step = self.step(&Call::Tick { cpu });
        if let Some((long, copy)) = copy {
            assert_eq!(step, long);
            assert_eq!(format!("{:?}", self.rqs[cpu.index()]), format!("{copy:?}"), "both ways are one");
        }
        self.carry_out(step);
        self.settle();
    }

    /// Changes a task where it is: on its run queue or in its body. A task that was queued only for
    /// its lag can be parked by the attempt; its body is changed then.
    fn change(&mut self, task: TaskId, parked: &Call, queued: impl FnOnce(CpuId) -> Call) {
        if let Home::Rq(cpu) = self.sched.home(task) {
            match self.call(&queued(cpu)) {
                Ok(Answer::Step(step)) => {
                    let displaced = self.hand.take();
                    if displaced.is_some() {
                        self.places[task.index()] = Place::OnItsWay;
                    }
                    self.carry_out(step);
                    self.settle();
                    if let Some(parcel) = displaced {
                        self.displace(parcel);
                    }
                    return;
                }
                Ok(Answer::NotHere) => {}
                other => panic!("task {task} cannot be changed: {other:?}"),
            }
        }
        self.hand = Some(self.take(task));
        self.call(parked).expect("a valid change");
        self.places[task.index()] = Place::Parked(self.hand.take().expect("it stays in hand"));
    }

    pub(crate) fn set_attr(&mut self, task: TaskId, attr: SchedAttr) {
        let parked = Call::SetAttrParked { task, attr, by: CpuId(0) };
        self.change(task, &parked, |cpu| Call::SetAttr { cpu, task, attr });
    }

    pub(crate) fn set_affinity(&mut self, task: TaskId, affinity: Option<Arc<CpuMask>>) {
        let parked = Call::SetAffinityParked { task, affinity: affinity.clone(), by: CpuId(0) };
        self.change(task, &parked, |cpu| Call::SetAffinity { cpu, task, affinity });
    }

    pub(crate) fn set_group(&mut self, task: TaskId, group: GroupId) {
        self.change(task, &Call::SetGroupParked { task, group }, |cpu| Call::SetGroup { cpu, task, group });
    }

    /// Places a body that was handed out while runnable.
    fn displace(&mut self, parcel: Parcel) {
        self.place(parcel, CpuId(0), Placement::Displaced);
        self.settle();
    }

    /// Takes a task that is awake from a CPU that is offline, and places it; `false` if there is
    /// none.
    pub(crate) fn evict(&mut self, cpu: CpuId) -> bool {
        let evicted = self.step(&Call::Evict { cpu });
        assert_eq!(evicted, Step::Done);
        let Some(parcel) = self.hand.take() else { return false };
        self.places[parcel.id().index()] = Place::OnItsWay;
        self.displace(parcel);
        true
    }

    /// Checks every run queue, and that every task is in the place that the host knows.
    pub(crate) fn check(&self) {
        self.sched.check_bandwidth(&self.rqs.iter().collect::<Vec<_>>());
        if self.processes > 0 || self.sched.config().settings().sched_ext != SchedExt::Off {
            let rqs: Vec<&Rq> = self.rqs.iter().collect();
            self.sched.check_published(&rqs).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
        assert!(self.hand.is_none(), "no body is left in hand: {:?}", self.hand);
        let mut queued = vec![0; self.tasks.len()];
        for rq in &self.rqs {
            rq.inspect().check_fair();
            for (task, _) in rq.inspect().queued() {
                queued[task.index()] += 1;
                assert_eq!(self.sched.home(task), Home::Rq(rq.cpu()), "the home of task {task}");
                let is_delayed = matches!(self.places[task.index()], Place::Delayed);
                assert_eq!(is_delayed, rq.inspect().is_delayed(task), "task {task} is asleep here");
            }
        }
        for (index, (times, place)) in queued.iter().zip(&self.places).enumerate() {
            assert!(!matches!(place, Place::OnItsWay), "task {index} is in one place");
            assert_eq!(*times, i32::from(place.is_on_rq()), "task {index} is in one place: {place:?}");
        }
    }

    /// Returns the share of a CPU that a task has got.
    pub(crate) fn share(&self, task: TaskId) -> f64 {
        self.tasks[task.index()].exec.as_nanos() as f64 / self.now.as_nanos() as f64
    }

    /// Returns the task and length of each stretch of running.
    pub(crate) fn stretches(&self, cpu: CpuId) -> Vec<(TaskId, Duration)> {
        let on_cpu: Vec<_> = self.switches.iter().filter(|(_, on, _)| *on == cpu).collect();
        on_cpu.windows(2).filter_map(|pair| Some((pair[0].2?, pair[1].0.since(pair[0].0)))).collect()
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}
