//! A host without checks, for measurements: it makes the calls, delivers at once, and does not
//! allocate.

use std::collections::VecDeque;
use std::sync::Arc;
use zerolag_core::{
    Clock, Config, CpusetId, Home, Io, Leave, Left, Next, Op, PairClock, Parcel, Placement, Resched, Rq, Scheduler,
    Step, TaskSpec, Tracing, Work,
};
use zerolag_model::{CpuId, CpuMask, Duration, GroupId, Instant, SchedAttr, Settings, TaskId, Topology};

/// Pending work of a CPU.
enum Pending {
    Kick(CpuId),
    Ipi(CpuId, Work),
}

pub(crate) struct Machine {
    pub(crate) scheduler: Scheduler<parking_lot::RawMutex>,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) io: Io,
    parcels: Vec<Option<Parcel>>,
    pending: VecDeque<Pending>,
    now: Instant,
    /// The number of calls of the core.
    pub(crate) calls: u64,
}

pub(crate) fn fifo(priority: i64) -> SchedAttr {
    SchedAttr::fifo_at(priority)
}

pub(crate) fn only(cpus: &[u32]) -> Option<Arc<CpuMask>> {
    Some(Arc::new(cpus.iter().copied().map(CpuId).collect()))
}

impl Machine {
    pub(crate) fn new(nr_cpus: u32, tasks: usize, settings: Settings) -> Self {
        let topology = Topology::flat(nr_cpus).expect("a machine");
        let mut scheduler = Scheduler::new(Config::new(topology, settings).with_queue_reserve(tasks.min(64)));
        scheduler.reserve_tasks(tasks);
        Self {
            rqs: (0..nr_cpus).map(|cpu| scheduler.new_rq(CpuId(cpu))).collect(),
            scheduler,
            io: Io::new(Tracing::Off),
            parcels: (0..tasks).map(|_| None).collect(),
            pending: VecDeque::with_capacity(64),
            now: Instant::ZERO,
            calls: 0,
        }
    }

    /// Every call has its own time, a microsecond after the last.
    fn tick_clock(&mut self) -> Clock {
        self.calls += 1;
        self.now += Duration::from_micros(1);
        Clock::at(self.now)
    }

    /// Creates a task and puts it on a CPU, without asking for the core's selection.
    pub(crate) fn spawn(&mut self, task: u32, attr: SchedAttr, affinity: Option<Arc<CpuMask>>, cpu: u32) {
        let spec = TaskSpec {
            id: TaskId(task),
            attr,
            affinity,
            group: GroupId::ROOT,
            cpuset: CpusetId::default(),
            born_on: CpuId(cpu),
            process: None,
        };
        let parcel = self.scheduler.create_task(Clock::at(Instant::ZERO), spec).expect("a reserved task");
        self.put(parcel, cpu, Placement::Fork);
        self.settle();
    }

    /// Puts a sleeping task on a CPU.
    pub(crate) fn wake_on(&mut self, task: u32, cpu: u32) {
        let parcel = self.parcels[task as usize].take().expect("it sleeps");
        self.put(parcel, cpu, Placement::Wakeup);
    }

    /// Wakes a sleeping task on the CPU that the core selects, or where it is still queued.
    pub(crate) fn wake(&mut self, task: u32, by: u32) {
        if let (None, Home::Rq(home)) = (&self.parcels[task as usize], self.scheduler.home(TaskId(task))) {
            let now = self.tick_clock();
            let rq = &mut self.rqs[home.index()];
            let step = self.scheduler.wake_queued(rq, now, TaskId(task), CpuId(by), &mut self.io);
            return self.carry(step.expect("it is still queued"));
        }
        let cpu = self.select(task, by);
        self.wake_on(task, cpu.0);
    }

    /// Returns the CPU on which a sleeping task would be woken.
    pub(crate) fn select(&mut self, task: u32, by: u32) -> CpuId {
        let now = self.tick_clock();
        let parcel = self.parcels[task as usize].as_ref().expect("it sleeps");
        self.scheduler.select_cpu(now, parcel, CpuId(by), Placement::Wakeup, &mut self.io)
    }

    fn put(&mut self, parcel: Parcel, cpu: u32, why: Placement) {
        let now = self.tick_clock();
        let rq = &mut self.rqs[cpu as usize];
        let step = self.scheduler.wake(rq, now, parcel, CpuId(cpu), why, &mut self.io);
        self.carry(step);
    }

    fn carry(&mut self, step: Step) {
        let mut step = step;
        loop {
            self.take_ops();
            if step == Step::Done {
                return;
            }
            let now = self.tick_clock();
            step = match step {
                Step::Done => return,
                Step::Pair { own, other, then } => {
                    let [own, other] =
                        self.rqs.get_disjoint_mut([own.index(), other.index()]).expect("a pair is two CPUs");
                    let now = PairClock::at(now);
                    self.scheduler.resume_pair(own, other, now, then, &mut self.io)
                }
                Step::Again { own, then } => self.scheduler.resume(&mut self.rqs[own.index()], now, then, &mut self.io),
            };
        }
    }

    fn take_ops(&mut self) {
        for op in self.io.ops.drain(..) {
            match op {
                Op::Kick { cpu } => self.pending.push_back(Pending::Kick(cpu)),
                Op::Ipi { cpu, work } => self.pending.push_back(Pending::Ipi(cpu, work)),
                Op::ArmTimer { .. } | Op::CancelTimer { .. } | Op::ArmGroupTimer { .. } => {}
                Op::ExtExit | Op::PolicyTimer { .. } => {}
            }
        }
        while let Some(parcel) = self.io.parked.pop() {
            let task = parcel.id();
            self.parcels[task.index()] = Some(parcel);
        }
    }

    /// Leaves the current task and switches to the next.
    pub(crate) fn schedule(&mut self, cpu: u32, why: Leave) {
        let now = self.tick_clock();
        match self.scheduler.leave(&mut self.rqs[cpu as usize], now, why, &mut self.io) {
            Left::Queued | Left::Delayed | Left::Dead(_) => {}
            Left::Parked(parcel) => {
                let task = parcel.id();
                self.parcels[task.index()] = Some(parcel);
            }
            Left::Displaced(parcel) => {
                let to = self.scheduler.select_cpu(now, &parcel, CpuId(cpu), Placement::Displaced, &mut self.io);
                self.put(parcel, to.0, Placement::Displaced);
            }
        }
        loop {
            let now = self.tick_clock();
            match self.scheduler.pick(&mut self.rqs[cpu as usize], now, &mut self.io) {
                Next::Balance(step) => self.carry(step),
                Next::Idle if !self.scheduler.leaves_tasks_behind_idle() => return self.take_ops(),
                Next::Idle | Next::Run(_) => {
                    let step = self.scheduler.switched(&mut self.rqs[cpu as usize], now, &mut self.io);
                    return self.carry(step);
                }
            }
        }
    }

    /// Delivers an IPI at once, before all that is pending.
    pub(crate) fn ask(&mut self, cpu: u32, work: Work) {
        let now = self.tick_clock();
        let step = self.scheduler.remote(&mut self.rqs[cpu as usize], now, work, &mut self.io);
        self.carry(step);
    }

    /// Returns the number of pending IPIs.
    pub(crate) fn ipis(&self) -> usize {
        self.pending.iter().filter(|pending| matches!(pending, Pending::Ipi(..))).count()
    }

    pub(crate) fn tick(&mut self, cpu: u32) {
        let now = self.tick_clock();
        let step = self.scheduler.tick(&mut self.rqs[cpu as usize], now, &mut self.io);
        self.carry(step);
    }

    /// Delivers kicks and IPIs until none is left.
    pub(crate) fn settle(&mut self) {
        while let Some(pending) = self.pending.pop_front() {
            match pending {
                Pending::Kick(cpu) => {
                    if self.rqs[cpu.index()].need_resched() != Resched::No {
                        self.schedule(cpu.0, Leave::Preempted);
                    }
                }
                Pending::Ipi(cpu, work) => self.ask(cpu.0, work),
            }
        }
    }
}

/// A machine whose CPU 0 is overloaded: it runs task 0 at 90, and task 1 at 40 waits, which may
/// also use CPU 1, where task 2 runs at 80. All other CPUs run a task at 60, except the last, which
/// idles. Task 3 sleeps; it has priority 50.
pub(crate) fn crowded(nr_cpus: u32, settings: Settings) -> Machine {
    assert!(nr_cpus >= 4, "there must be a CPU for each part");
    let mut machine = Machine::new(nr_cpus, nr_cpus as usize + 4, settings);
    machine.spawn(0, fifo(90), only(&[0]), 0);
    machine.spawn(2, fifo(80), only(&[1]), 1);
    machine.spawn(1, fifo(40), only(&[0, 1]), 0);
    machine.spawn(3, fifo(50), None, nr_cpus - 1);
    machine.schedule(nr_cpus - 1, Leave::Block);
    for cpu in 2..nr_cpus - 1 {
        machine.spawn(2 + cpu, fifo(60), only(&[cpu]), cpu);
    }
    machine.settle();
    machine
}

/// One turn: task 3 is woken on CPU 0, is pushed to the last CPU, runs there and blocks, and that
/// CPU, which becomes less urgent, searches for tasks to pull.
pub(crate) fn turn(machine: &mut Machine) {
    let last = machine.rqs.len() as u32 - 1;
    machine.wake_on(3, 0);
    machine.settle();
    assert_eq!(machine.rqs[last as usize].current(), Some(TaskId(3)), "it was pushed");
    machine.schedule(last, Leave::Block);
    machine.settle();
}
