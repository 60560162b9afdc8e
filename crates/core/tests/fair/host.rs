//! A single-threaded host for tests of the fair class: CPUs with ticks, tasks that hog or run and
//! sleep in turn.

use parking_lot::RawMutex;
use zerolag_core::{
    Clock, Config, GroupTimer, Io, Leave, Left, Next, Op, PairClock, Parcel, Placement, Resched, Rq, RqTimer,
    Scheduler, Step, TaskSpec, Tracing, Work,
};
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
    pub(crate) exited: bool,
}

/// A machine.
pub(crate) struct Host {
    pub(crate) sched: Scheduler<RawMutex>,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) io: Io,
    pub(crate) now: Instant,
    pub(crate) tasks: Vec<HostTask>,
    pub(crate) parked: Vec<Option<Parcel>>,
    /// Each switch: its time, CPU and next task.
    pub(crate) switches: Vec<(Instant, CpuId, Option<TaskId>)>,
    timers: Vec<Option<Instant>>,
    group_timers: std::collections::BTreeMap<(GroupId, GroupTimer), Instant>,
    pub(crate) remote: Vec<(CpuId, Work)>,
    next_tick: Instant,
    pub(crate) migrations: u32,
    /// Two CPUs of different root domains that a step wanted to lock together.
    pub(crate) strayed: Option<(CpuId, CpuId)>,
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
            parked: Vec::with_capacity(4096),
            switches: Vec::with_capacity(1 << 16),
            timers,
            group_timers: std::collections::BTreeMap::new(),
            remote: Vec::new(),
            next_tick,
            migrations: 0,
            strayed: None,
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::at(self.now)
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
        let affinity = affinity.map(|list| std::sync::Arc::new(list.parse::<CpuMask>().expect("a CPU list")));
        let spec = TaskSpec { id, attr, affinity, group, cpuset: Default::default(), born_on: CpuId(0) };
        let parcel = self.sched.create_task(Clock::at(Instant::ZERO), spec).expect("a valid task");
        let left = match program {
            Program::Hog => Duration::MAX,
            Program::Periodic(run, _) | Program::RunSleep(run, _) => run,
        };
        self.tasks.push(HostTask {
            program,
            left,
            wakes_at: None,
            period_end: self.now,
            exec: Duration::ZERO,
            exited: false,
        });
        self.parked.push(Some(parcel));
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
        self.place(id, CpuId(0), Placement::Fork);
        self.settle();
        id
    }

    fn place(&mut self, id: TaskId, by: CpuId, why: Placement) {
        let parcel = self.parked[id.index()].take().expect("parked");
        let clock = self.clock();
        let cpu = self.sched.select_cpu(clock, &parcel, by, why, &mut self.io);
        let step = self.sched.wake(&mut self.rqs[cpu.index()], clock, parcel, by, why, &mut self.io);
        self.carry_out(step);
    }

    /// Wakes a task wherever its body is.
    pub(crate) fn wake(&mut self, id: TaskId, by: CpuId) {
        self.tasks[id.index()].wakes_at = None;
        match self.sched.home(id) {
            zerolag_core::Home::Parcel => self.place(id, by, Placement::Wakeup),
            zerolag_core::Home::Rq(cpu) => {
                let clock = self.clock();
                let rq = &mut self.rqs[cpu.index()];
                let step = self.sched.wake_queued(rq, clock, id, by, &mut self.io).expect("it is delayed here");
                self.carry_out(step);
            }
        }
        self.settle();
    }

    fn park(&mut self, parcel: Parcel) {
        let id = parcel.id();
        self.parked[id.index()] = Some(parcel);
    }

    pub(crate) fn drain(&mut self) {
        while let Some(parcel) = self.io.parked.pop() {
            self.park(parcel);
        }
        for op in self.io.ops.drain(..) {
            match op {
                Op::Kick { .. } => {}
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

    pub(crate) fn carry_out(&mut self, step: Step) {
        let mut step = step;
        let clock = self.clock();
        loop {
            self.drain();
            step = match step {
                Step::Done => return,
                Step::Pair { own, other, then } => {
                    if self.sched.root_domain(own) != self.sched.root_domain(other) {
                        self.strayed = Some((own, other));
                    }
                    let [own, other] = self.rqs.get_disjoint_mut([own.index(), other.index()]).expect("two run queues");
                    self.sched.resume_pair(own, other, PairClock::at(clock), then, &mut self.io)
                }
                Step::Again { own, then } => self.sched.resume(&mut self.rqs[own.index()], clock, then, &mut self.io),
            };
        }
    }

    /// Schedules on every CPU that was asked to, until none is.
    pub(crate) fn settle(&mut self) {
        loop {
            while !self.remote.is_empty() {
                let (cpu, work) = self.remote.remove(0);
                let clock = self.clock();
                let step = self.sched.remote(&mut self.rqs[cpu.index()], clock, work, &mut self.io);
                self.carry_out(step);
            }
            let asked = self.rqs.iter().position(|rq| rq.need_resched() != Resched::No);
            let Some(cpu) = asked else { return };
            self.schedule(cpu, Leave::Preempted);
        }
    }

    /// The CPU leaves its task and picks another.
    pub(crate) fn schedule(&mut self, cpu: usize, why: Leave) {
        let clock = self.clock();
        let before = self.rqs[cpu].current();
        let left = self.sched.leave(&mut self.rqs[cpu], clock, why, &mut self.io);
        self.drain();
        let mut displaced = None;
        match left {
            Left::Queued | Left::Delayed => {}
            Left::Parked(parcel) => {
                self.park(parcel);
            }
            Left::Displaced(parcel) => {
                displaced = Some(parcel.id());
                self.park(parcel);
            }
            Left::Dead(parcel) => self.tasks[parcel.id().index()].exited = true,
        }
        if let Some(id) = displaced {
            self.place(id, CpuId::from_index(cpu), Placement::Displaced);
        }
        loop {
            let next = self.sched.pick(&mut self.rqs[cpu], clock, &mut self.io);
            self.drain();
            match next {
                Next::Balance(step) => self.carry_out(step),
                Next::Run(_) | Next::Idle => break,
            }
        }
        let step = self.sched.switched(&mut self.rqs[cpu], clock, &mut self.io);
        self.carry_out(step);
        let after = self.rqs[cpu].current();
        if before != after {
            self.switches.push((self.now, CpuId::from_index(cpu), after));
        }
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
                        let clock = self.clock();
                        let step = self.sched.tick(&mut self.rqs[cpu], clock, &mut self.io);
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
            self.schedule(cpu, Leave::Block);
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
                let clock = self.clock();
                let step = self.sched.timer(&mut self.rqs[cpu], clock, RqTimer::Slice, &mut self.io);
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
            let clock = self.clock();
            let step = self.sched.group_timer(group, timer, clock, CpuId(0), &mut self.io);
            self.carry_out(step);
            self.settle();
        }
    }

    /// Limits a group.
    pub(crate) fn set_max(&mut self, group: GroupId, max: CpuMax) {
        let clock = self.clock();
        let step = self.sched.set_group_max(group, max, clock, CpuId(0), &mut self.io).expect("a limit");
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
        while self.next_tick <= self.now {
            self.next_tick += tick;
        }
    }

    /// The current task of a CPU returns to user mode.
    pub(crate) fn return_to_user(&mut self, cpu: usize) {
        if self.rqs[cpu].current().is_some() {
            let clock = self.clock();
            self.sched.return_to_user(&mut self.rqs[cpu], clock, &mut self.io);
            self.settle();
        }
    }

    /// The periodic tick of one CPU.
    pub(crate) fn tick(&mut self, cpu: usize) {
        let clock = self.clock();
        let step = self.sched.tick(&mut self.rqs[cpu], clock, &mut self.io);
        self.carry_out(step);
        self.settle();
    }

    /// Applies a change to a task where it is: `queued` to its run queue, `parked` to its body.
    /// Retries once if the task was queued only for its lag and has been parked by the attempt.
    pub(crate) fn change(
        &mut self,
        id: TaskId,
        mut queued: impl FnMut(&Scheduler<RawMutex>, &mut Rq, Clock, &mut Io) -> Option<Step>,
        parked: impl FnOnce(&Scheduler<RawMutex>, &mut Parcel, Clock, &mut Io),
    ) {
        let clock = self.clock();
        if let zerolag_core::Home::Rq(cpu) = self.sched.home(id) {
            let step = queued(&self.sched, &mut self.rqs[cpu.index()], clock, &mut self.io);
            self.drain();
            if let Some(step) = step {
                self.carry_out(step);
                self.settle();
                return;
            }
        }
        let parcel = self.parked[id.index()].as_mut().expect("parked, if not queued");
        parked(&self.sched, parcel, clock, &mut self.io);
    }

    /// Places a body that was handed out while runnable.
    pub(crate) fn displace(&mut self, parcel: Parcel) {
        let id = parcel.id();
        self.park(parcel);
        self.place(id, CpuId(0), Placement::Displaced);
    }

    /// Checks every run queue, and that every task is in one place.
    pub(crate) fn check(&self) {
        self.sched.check_bandwidth(&self.rqs.iter().collect::<Vec<_>>());
        let mut seen = vec![0; self.tasks.len()];
        for rq in &self.rqs {
            rq.inspect().check_fair();
            for (task, _) in rq.inspect().queued() {
                seen[task.index()] += 1;
                assert_eq!(self.sched.home(task), zerolag_core::Home::Rq(rq.cpu()), "the home of task {task}");
            }
        }
        for (seen, parcel) in seen.iter_mut().zip(&self.parked) {
            *seen += i32::from(parcel.is_some());
        }
        for (index, (times, task)) in seen.iter().zip(&self.tasks).enumerate() {
            assert_eq!(*times, i32::from(!task.exited), "task {index} is in one place");
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
