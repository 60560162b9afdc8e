//! A host for tests: one thread, and the test chooses every event.
//!
//! A [`World`] has CPUs, tasks and *agents*: one per CPU, and one or more from outside (a device,
//! another machine) that wake and change tasks. Work that an entry point leaves (a pick after a
//! leave, a step, a task to be placed) is the agent's next job, and each job is an event of its
//! own: between any two of them all other events can happen. Kicks and IPIs wait at their CPU until
//! the test delivers them, in any order.
//!
//! ```text
//!   Event -> World::apply -> core -> Step, Next, Left -> jobs of the agent
//!                                 -> Op              -> kicked, ipis, timer of a CPU
//! ```
//!
//! The rules are in [`judge`].
//!
//! After every event [`World::check`] checks the whole state; [`World::drain`] delivers until no
//! work is under way, and [`World::check_top`] then checks that no single legal move would let a
//! waiting real-time task preempt.

mod judge;

use std::collections::VecDeque;
use std::sync::Arc;
use zerolag_core::{
    Clock, Config, CpusetId, Home, Io, Leave, Left, Lent, MAX_OPS, Next, Op, PairClock, Parcel, Partition, Placement,
    Resched, Rq, RqTimer, Scheduler, Step, TaskError, TaskSpec, Tracing, Work,
};
use zerolag_model::settings::{OverloadScope, RtOverload};
use zerolag_model::{
    CpuId, CpuMask, Duration, GroupId, Instant, Prio, RtBandwidth, SchedAttr, ServerKind, ServerParams, ServerState,
    Settings, TaskId, Topology,
};

pub(crate) type Lock = parking_lot::RawMutex;

/// The configuration of a world.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) nr_cpus: u32,
    pub(crate) cpusets: Vec<(CpuMask, Partition)>,
    pub(crate) nr_tasks: u32,
    /// Agents besides the CPUs.
    pub(crate) outside: usize,
    /// Whether selecting a CPU and placing a task there are two events.
    pub(crate) hints: Hints,
}

/// The age of a result of `select_cpu` when it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hints {
    /// It is used at once.
    Fresh,
    /// Other events can happen before.
    Stale,
}

/// The caller: below the number of CPUs the CPU itself, above an outside agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Agent(pub(crate) usize);

/// A possible event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// An agent does its next job.
    Go(Agent),
    /// A task is created and about to be placed.
    Create { by: Agent, task: TaskId, attr: SchedAttr, affinity: Option<Arc<CpuMask>>, cpuset: CpusetId },
    /// A sleeping task is about to be placed.
    Wake { by: Agent, task: TaskId },
    /// A CPU leaves its task.
    Leave { cpu: CpuId, why: Leave },
    /// A CPU handles the n-th of its waiting IPIs.
    Deliver { cpu: CpuId, nth: usize },
    /// A CPU's tick.
    Tick { cpu: CpuId },
    /// A CPU's first timer that is due.
    Timer { cpu: CpuId },
    /// A task's attributes change.
    SetAttr { by: Agent, task: TaskId, attr: SchedAttr },
    /// A task's affinity changes.
    SetAffinity { by: Agent, task: TaskId, affinity: Option<Arc<CpuMask>> },
    /// A task inherits a priority, or gives it back.
    Inherit { by: Agent, task: TaskId, from: Option<Lent> },
    /// A CPU goes offline.
    Offline { cpu: CpuId },
    /// A task is evicted from an offline CPU.
    Evict { cpu: CpuId },
    /// A CPU goes online again.
    Online { cpu: CpuId },
    /// A CPU's deadline server is set.
    SetServer { cpu: CpuId, kind: ServerKind, runtime: Duration, period: Duration },
    /// The limit of real-time tasks is set or removed; the CPUs have yet to follow.
    SetRtBandwidth { bandwidth: RtBandwidth },
    /// A CPU follows the new limit.
    FollowRtLimit { cpu: CpuId },
    /// A CPU changes its root domain.
    Join { cpu: CpuId, partition: CpusetId },
}

/// An agent's unfinished work.
#[derive(Debug)]
pub(crate) enum Job {
    /// Pick the next task of this CPU.
    Pick,
    /// Carry a step out, then pick if it came from a pick.
    Carry { step: Step, then: Then },
    /// Place a task; its CPU can have been chosen already.
    Place { parcel: Parcel, why: Placement, target: Option<CpuId> },
}

/// What follows a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Then {
    Nothing,
    Pick,
}

/// The place of a task, in the host's view.
#[derive(Debug)]
pub(crate) enum Body {
    Unborn,
    /// Asleep, with its body.
    Parked(Parcel),
    /// In some agent's job.
    OnItsWay,
    /// Awake, on a run queue.
    Queued,
    /// Asleep, but still on a run queue.
    Delayed,
    Dead,
}

#[derive(Debug)]
pub(crate) struct Cpu {
    /// Whether it was kicked since it last left its task.
    pub(crate) kicked: bool,
    pub(crate) ipis: Vec<Work>,
    /// By [`RqTimer::index`].
    pub(crate) timers: [Option<Instant>; RqTimer::ALL.len()],
    pub(crate) is_online: bool,
    /// Its task, according to the last pick.
    pub(crate) runs: Option<TaskId>,
}

impl Cpu {
    pub(crate) fn timer(&mut self, timer: RqTimer) -> &mut Option<Instant> {
        &mut self.timers[timer.index()]
    }
}

pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) scheduler: Scheduler<Lock>,
    pub(crate) rqs: Vec<Rq>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) jobs: Vec<VecDeque<Job>>,
    pub(crate) bodies: Vec<Body>,
    pub(crate) now: Instant,
    /// Events that changed something.
    pub(crate) events: u64,
    /// For each task, the CPU on which it has waited behind a task with a restricted affinity.
    shadowed: Vec<Option<CpuId>>,
    /// Affinity and cpuset of each task.
    where_allowed: Vec<(Option<Arc<CpuMask>>, CpusetId)>,
    /// The partition that each CPU is in.
    partitions: Vec<CpusetId>,
    io: Io,
}

impl World {
    pub(crate) fn new(setup: Setup) -> Self {
        let topology = Topology::flat(setup.nr_cpus).expect("at least one CPU");
        let config = Config::new(topology, setup.settings.clone())
            .with_cpusets(&setup.cpusets)
            .expect("cpusets within the machine");
        let mut scheduler = Scheduler::<Lock>::new(config);
        scheduler.reserve_tasks(setup.nr_tasks as usize);
        let cpus = (0..setup.nr_cpus).map(CpuId);
        let mut partitions = vec![CpusetId::default(); setup.nr_cpus as usize];
        for (index, (mask, partition)) in (1..).zip(&setup.cpusets) {
            for cpu in mask.iter().filter(|_| *partition == Partition::Root) {
                partitions[cpu.index()] = CpusetId(index);
            }
        }
        Self {
            rqs: cpus.clone().map(|cpu| scheduler.new_rq(cpu)).collect(),
            cpus: cpus
                .map(|_| Cpu {
                    kicked: false,
                    ipis: Vec::new(),
                    timers: [None; RqTimer::ALL.len()],
                    is_online: true,
                    runs: None,
                })
                .collect(),
            jobs: (0..setup.nr_cpus as usize + setup.outside).map(|_| VecDeque::new()).collect(),
            bodies: (0..setup.nr_tasks).map(|_| Body::Unborn).collect(),
            shadowed: vec![None; setup.nr_tasks as usize],
            where_allowed: vec![(None, CpusetId::default()); setup.nr_tasks as usize],
            now: Instant::ZERO,
            events: 0,
            partitions,
            io: Io::new(Tracing::Off),
            scheduler,
            setup,
        }
    }

    /// Lets time pass on all CPUs.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Applies an event; `false` if it is not possible now, and then nothing has changed.
    pub(crate) fn apply(&mut self, event: &Event) -> bool {
        let done = match event {
            Event::Go(agent) => self.go(*agent),
            Event::Create { by, task, attr, affinity, cpuset } => {
                self.create(*by, *task, *attr, affinity.clone(), *cpuset)
            }
            Event::Wake { by, task } => self.wake(*by, *task),
            Event::Leave { cpu, why } => self.leave(*cpu, *why),
            Event::Deliver { cpu, nth } => self.deliver(*cpu, *nth),
            Event::Tick { cpu } => self.own(*cpu, |scheduler, rq, now, io| scheduler.tick(rq, now, io)),
            Event::Timer { cpu } => self.fire(*cpu),
            Event::SetAttr { by, task, attr } => self.set_attr(*by, *task, *attr),
            Event::SetAffinity { by, task, affinity } => self.set_affinity(*by, *task, affinity.clone()),
            Event::Inherit { by, task, from } => self.inherit(*by, *task, *from),
            Event::Offline { cpu } => self.offline(*cpu),
            Event::Evict { cpu } => self.evict(*cpu),
            Event::Online { cpu } => self.online(*cpu),
            Event::SetServer { cpu, kind, runtime, period } => self.set_server(*cpu, *kind, *runtime, *period),
            Event::SetRtBandwidth { bandwidth } => self.scheduler.set_rt_bandwidth(self.now, *bandwidth).is_ok(),
            Event::FollowRtLimit { cpu } => self.own(*cpu, |scheduler, rq, now, io| {
                scheduler.follow_rt_limit(rq, now, io);
                Step::Done
            }),
            Event::Join { cpu, partition } => self.join(*cpu, *partition),
        };
        if done {
            self.events += 1;
        }
        done
    }

    fn is_free(&self, agent: Agent) -> bool {
        self.jobs.get(agent.0).is_some_and(VecDeque::is_empty)
    }

    fn agent_of(cpu: CpuId) -> Agent {
        Agent(cpu.index())
    }

    /// The CPU in whose name an agent calls; outside agents interrupt CPU 0.
    fn cpu_of(&self, agent: Agent) -> CpuId {
        CpuId(u32::try_from(agent.0).ok().filter(|cpu| *cpu < self.setup.nr_cpus).unwrap_or(0))
    }

    fn clock(&self) -> Clock {
        Clock::at(self.now)
    }

    /// Processes the output of a call.
    fn after(&mut self) {
        assert!(self.io.ops.len() <= MAX_OPS, "one call makes at most {MAX_OPS} operations: {:?}", self.io.ops);
        for op in self.io.ops.drain(..) {
            match op {
                Op::Kick { cpu } => self.cpus[cpu.index()].kicked = true,
                Op::Ipi { cpu, work } => self.cpus[cpu.index()].ipis.push(work),
                Op::ArmTimer { cpu, timer, at } => *self.cpus[cpu.index()].timer(timer) = Some(at),
                Op::CancelTimer { cpu, timer } => *self.cpus[cpu.index()].timer(timer) = None,
                Op::ArmGroupTimer { .. } => unreachable!("no group is limited here"),
            }
        }
        while let Some(parcel) = self.io.parked.pop() {
            let task = parcel.id();
            let place = &mut self.bodies[task.index()];
            assert!(matches!(place, Body::Delayed), "task {task} was parked while {place:?}");
            *place = Body::Parked(parcel);
        }
        let costs = core::mem::take(&mut self.io.costs);
        // A stale bit in one of several cpusets' masks is found and cleared at the next search.
        let settings = &self.setup.settings;
        let exact = self.setup.cpusets.is_empty()
            || settings.overload_scope != OverloadScope::Cpuset
            || settings.rt_balance.is_by_ipi();
        if costs.rt_balance > 0 && exact {
            // By the rule of 6.7 a CPU is overloaded from the moment a task wakes there until it
            // runs.
            let waits = |rq: &Rq| match settings.rt_overload {
                RtOverload::Queued => 2,
                RtOverload::Pushable => 1 + usize::from(rq.current_prio().beats(Prio::FIRST_FAIR)),
            };
            let urgent = |rq: &Rq| rq.queued().filter(|(_, prio)| prio.beats(Prio::FIRST_FAIR)).count();
            let is_queued = |rq: &Rq, kind| matches!(rq.server(kind).1, ServerState::Queued { .. });
            let is_served = |rq: &Rq| ServerKind::ALL.into_iter().any(|kind| is_queued(rq, kind));
            let crowded = self.rqs.iter().any(|rq| urgent(rq) + usize::from(is_served(rq)) >= waits(rq));
            assert!(crowded || costs.tasks_moved > 0, "RT balancing was charged without RT overload");
        }
    }

    fn push_step(&mut self, agent: Agent, step: Step, then: Then) {
        if step != Step::Done {
            self.jobs[agent.0].push_front(Job::Carry { step, then });
        } else if then == Then::Pick {
            self.jobs[agent.0].push_front(Job::Pick);
        }
    }

    fn go(&mut self, agent: Agent) -> bool {
        let Some(job) = self.jobs.get_mut(agent.0).and_then(VecDeque::pop_front) else { return false };
        let now = self.clock();
        match job {
            Job::Pick => self.pick(self.cpu_of(agent)),
            Job::Carry { step, then } => {
                let step = match step {
                    Step::Done => unreachable!("is no job"),
                    Step::Pair { own, other, then } => {
                        let [own, other] =
                            self.rqs.get_disjoint_mut([own.index(), other.index()]).expect("a pair is two CPUs");
                        let now = PairClock { own: now, other: now };
                        self.scheduler.resume_pair(own, other, now, then, &mut self.io)
                    }
                    Step::Again { own, then } => {
                        self.scheduler.resume(&mut self.rqs[own.index()], now, then, &mut self.io)
                    }
                };
                self.after();
                self.push_step(agent, step, then);
            }
            Job::Place { parcel, why, target } => self.place(agent, parcel, why, target),
        }
        true
    }

    fn place(&mut self, agent: Agent, parcel: Parcel, why: Placement, target: Option<CpuId>) {
        let (by, now) = (self.cpu_of(agent), self.clock());
        let fresh = target.is_none();
        let target = target.unwrap_or_else(|| self.scheduler.select_cpu(now, &parcel, by, why, &mut self.io));
        assert!(parcel.allowed().is_none_or(|mask| mask.contains(target)), "{parcel:?} may not go to CPU {target}");
        self.after();
        if fresh && self.setup.hints == Hints::Stale {
            self.jobs[agent.0].push_front(Job::Place { parcel, why, target: Some(target) });
            return;
        }
        self.bodies[parcel.id().index()] = Body::Queued;
        let step = self.scheduler.wake(&mut self.rqs[target.index()], now, parcel, by, why, &mut self.io);
        self.after();
        self.push_step(agent, step, Then::Nothing);
    }

    /// Whether some online CPU accepts the task.
    fn has_room(&self, affinity: Option<&CpuMask>, cpuset: CpusetId) -> bool {
        let cpuset = cpuset.0.checked_sub(1).map(|index| &self.setup.cpusets[usize::from(index)].0);
        self.cpus.iter().enumerate().any(|(index, cpu)| {
            let id = CpuId::from_index(index);
            cpu.is_online
                && affinity.is_none_or(|mask| mask.contains(id))
                && cpuset.is_none_or(|mask| mask.contains(id))
        })
    }

    fn create(
        &mut self,
        by: Agent,
        id: TaskId,
        attr: SchedAttr,
        affinity: Option<Arc<CpuMask>>,
        cpuset: CpusetId,
    ) -> bool {
        let unborn = matches!(self.bodies.get(id.index()), Some(Body::Unborn));
        if !unborn || !self.is_free(by) || !self.has_room(affinity.as_deref(), cpuset) {
            return false;
        }
        let born_on = self.cpu_of(by);
        self.where_allowed[id.index()] = (affinity.clone(), cpuset);
        let spec = TaskSpec { id, attr, affinity, group: GroupId::ROOT, cpuset, born_on };
        let parcel = match self.scheduler.create_task(Clock::at(self.now), spec) {
            Ok(parcel) => parcel,
            Err(error) if is_refusal(&error) => return false,
            Err(error) => panic!("task {id} cannot be created: {error}"),
        };
        self.bodies[id.index()] = Body::OnItsWay;
        self.jobs[by.0].push_back(Job::Place { parcel, why: Placement::Fork, target: None });
        true
    }

    fn wake(&mut self, by: Agent, task: TaskId) -> bool {
        if !self.is_free(by) || task.index() >= self.bodies.len() {
            return false;
        }
        match core::mem::replace(&mut self.bodies[task.index()], Body::OnItsWay) {
            Body::Parked(parcel) => {
                self.jobs[by.0].push_back(Job::Place { parcel, why: Placement::Wakeup, target: None });
                true
            }
            Body::Delayed => {
                let Home::Rq(home) = self.scheduler.home(task) else { panic!("task {task} has no home") };
                let (now, cpu) = (self.clock(), self.cpu_of(by));
                let woken = self.scheduler.wake_queued(&mut self.rqs[home.index()], now, task, cpu, &mut self.io);
                self.bodies[task.index()] = if woken.is_ok() { Body::Queued } else { Body::Delayed };
                self.after();
                match woken {
                    Ok(step) => self.push_step(by, step, Then::Nothing),
                    // It may not run there any more and has been parked.
                    Err(TaskError::NotHere(_)) => return self.wake(by, task),
                    Err(error) => panic!("task {task} cannot be woken: {error}"),
                }
                true
            }
            other => {
                self.bodies[task.index()] = other;
                false
            }
        }
    }

    fn leave(&mut self, cpu: CpuId, why: Leave) -> bool {
        let agent = Self::agent_of(cpu);
        let rq = &self.rqs[cpu.index()];
        let current = rq.current();
        let asked = rq.need_resched() != Resched::No;
        if !self.is_free(agent) || current.is_none() && why != Leave::Preempted || why == Leave::Preempted && !asked {
            return false;
        }
        self.cpus[cpu.index()].kicked = false;
        self.cpus[cpu.index()].runs = None;
        let now = self.clock();
        let left = self.scheduler.leave(&mut self.rqs[cpu.index()], now, why, &mut self.io);
        let (is, parcel) = match left {
            Left::Queued => (Body::Queued, None),
            Left::Parked(parcel) => (Body::Parked(parcel), None),
            Left::Delayed => (Body::Delayed, None),
            Left::Displaced(parcel) => (Body::OnItsWay, Some(parcel)),
            Left::Dead(_) => (Body::Dead, None),
        };
        if let Some(task) = current {
            self.bodies[task.index()] = is;
        }
        self.after();
        self.jobs[agent.0].extend(parcel.map(|parcel| Job::Place { parcel, why: Placement::Displaced, target: None }));
        self.jobs[agent.0].push_back(Job::Pick);
        true
    }

    fn pick(&mut self, cpu: CpuId) {
        let (agent, now) = (Self::agent_of(cpu), self.clock());
        let rq = &mut self.rqs[cpu.index()];
        let next = self.scheduler.pick(rq, now, &mut self.io);
        self.after();
        let task = match next {
            Next::Balance(step) => return self.push_step(agent, step, Then::Pick),
            Next::Idle => None,
            Next::Run(task) => Some(task),
        };
        self.cpus[cpu.index()].runs = task;
        if task.is_some() {
            let step = self.scheduler.switched(&mut self.rqs[cpu.index()], now, &mut self.io);
            self.after();
            self.push_step(agent, step, Then::Nothing);
        }
    }

    /// An event of a CPU itself, which needs the CPU to be in no other event.
    fn own(&mut self, cpu: CpuId, call: impl FnOnce(&Scheduler<Lock>, &mut Rq, Clock, &mut Io) -> Step) -> bool {
        let agent = Self::agent_of(cpu);
        if !self.is_free(agent) {
            return false;
        }
        let now = self.clock();
        let step = call(&self.scheduler, &mut self.rqs[cpu.index()], now, &mut self.io);
        self.after();
        self.push_step(agent, step, Then::Nothing);
        true
    }

    fn deliver(&mut self, cpu: CpuId, nth: usize) -> bool {
        if !self.is_free(Self::agent_of(cpu)) || nth >= self.cpus[cpu.index()].ipis.len() {
            return false;
        }
        let work = self.cpus[cpu.index()].ipis.remove(nth);
        self.own(cpu, |scheduler, rq, now, io| scheduler.remote(rq, now, work, io))
    }

    fn fire(&mut self, cpu: CpuId) -> bool {
        let (now, place) = (self.now, &mut self.cpus[cpu.index()]);
        let due = |timer: &RqTimer| place.timer(*timer).is_some_and(|at| at <= now);
        let Some(timer) = RqTimer::ALL.into_iter().rev().find(due) else { return false };
        if !self.is_free(Self::agent_of(cpu)) {
            return false;
        }
        *self.cpus[cpu.index()].timer(timer) = None;
        self.own(cpu, |scheduler, rq, now, io| scheduler.timer(rq, now, timer, io))
    }

    /// Changes a task wherever it is; `false` if its body is on its way or does not exist.
    fn change(
        &mut self,
        by: Agent,
        task: TaskId,
        parked: impl FnOnce(&Scheduler<Lock>, &mut Parcel, CpuId, Clock, &mut Io),
        queued: impl FnOnce(&Scheduler<Lock>, &mut Rq, Clock, &mut Io) -> Result<(Option<Parcel>, Step), TaskError>,
    ) -> bool {
        if !self.is_free(by) || task.index() >= self.bodies.len() {
            return false;
        }
        let (now, cpu) = (self.clock(), self.cpu_of(by));
        match (&mut self.bodies[task.index()], self.scheduler.home(task)) {
            (Body::Unborn | Body::OnItsWay | Body::Dead, _) => return false,
            (Body::Parked(parcel), _) => {
                parked(&self.scheduler, parcel, cpu, now, &mut self.io);
                self.after();
            }
            (body @ (Body::Queued | Body::Delayed), Home::Rq(home)) => {
                let asleep = matches!(body, Body::Delayed);
                match queued(&self.scheduler, &mut self.rqs[home.index()], now, &mut self.io) {
                    Ok((displaced, step)) => {
                        if let Some(parcel) = displaced {
                            *body = Body::OnItsWay;
                            let why = Placement::Displaced;
                            self.jobs[by.0].push_back(Job::Place { parcel, why, target: None });
                        }
                        self.after();
                        self.push_step(by, step, Then::Nothing);
                    }
                    Err(TaskError::NotHere(_)) if asleep => {
                        // It slept and has been parked without the change.
                        self.after();
                        assert!(matches!(self.bodies[task.index()], Body::Parked(_)), "task {task} is lost");
                    }
                    Err(error) if is_refusal(&error) => self.after(),
                    Err(error) => panic!("task {task} cannot be changed: {error}"),
                }
            }
            (Body::Queued | Body::Delayed, Home::Parcel) => panic!("task {task} is queued, but has no home"),
        }
        true
    }

    fn set_attr(&mut self, by: Agent, task: TaskId, attr: SchedAttr) -> bool {
        self.change(
            by,
            task,
            |scheduler, parcel, cpu, now, io| {
                if let Err(error) = scheduler.set_attr_parked(now, parcel, attr, cpu, io) {
                    assert!(is_refusal(&error), "task {task} cannot be changed: {error}");
                }
            },
            |scheduler, rq, now, io| scheduler.set_attr(rq, now, task, attr, io).map(|step| (None, step)),
        )
    }

    fn inherit(&mut self, by: Agent, task: TaskId, from: Option<Lent>) -> bool {
        self.change(
            by,
            task,
            |scheduler, parcel, cpu, now, io| scheduler.inherit_parked(now, parcel, from, cpu, io),
            |scheduler, rq, now, io| scheduler.inherit(rq, now, task, from, io).map(|step| (None, step)),
        )
    }

    fn set_affinity(&mut self, by: Agent, task: TaskId, affinity: Option<Arc<CpuMask>>) -> bool {
        let Some((_, cpuset)) = self.where_allowed.get(task.index()).cloned() else { return false };
        if !self.has_room(affinity.as_deref(), cpuset) {
            return false;
        }
        let (for_parked, for_queued) = (affinity.clone(), affinity.clone());
        let asleep = matches!(self.bodies.get(task.index()), Some(Body::Delayed));
        let done = self.change(
            by,
            task,
            |scheduler, parcel, cpu, now, io| {
                if let Err(error) = scheduler.set_affinity_parked(now, parcel, for_parked, cpu, io) {
                    assert!(is_refusal(&error), "task {task} cannot be confined: {error}");
                }
            },
            |scheduler, rq, now, io| scheduler.set_affinity(rq, now, task, for_queued, io),
        );
        if done && !asleep {
            self.where_allowed[task.index()].0 = affinity;
        }
        done
    }

    fn offline(&mut self, cpu: CpuId) -> bool {
        if !self.is_free(Self::agent_of(cpu)) || !self.cpus[cpu.index()].is_online {
            return false;
        }
        self.cpus[cpu.index()].is_online = false;
        let alive = |body: &Body| !matches!(body, Body::Unborn | Body::Dead);
        let mut tasks = self.bodies.iter().zip(&self.where_allowed).filter(|(body, _)| alive(body));
        if !tasks.all(|(_, (affinity, cpuset))| self.has_room(affinity.as_deref(), *cpuset))
            || self.cpus.iter().all(|cpu| !cpu.is_online)
        {
            self.cpus[cpu.index()].is_online = true;
            return false;
        }
        self.scheduler.offline(&mut self.rqs[cpu.index()], Clock::at(self.now), &mut self.io);
        self.after();
        true
    }

    fn evict(&mut self, cpu: CpuId) -> bool {
        if !self.is_free(Self::agent_of(cpu)) || self.cpus[cpu.index()].is_online {
            return false;
        }
        let now = self.clock();
        let before = self.rqs[cpu.index()].nr_running();
        let parcel = self.scheduler.evict(&mut self.rqs[cpu.index()], now, &mut self.io);
        self.after();
        // Sleeping tasks are parked, whether or not a task that is awake is found.
        let Some(parcel) = parcel else { return self.rqs[cpu.index()].nr_running() < before };
        self.bodies[parcel.id().index()] = Body::OnItsWay;
        self.jobs[cpu.index()].push_back(Job::Place { parcel, why: Placement::Displaced, target: None });
        true
    }

    fn online(&mut self, cpu: CpuId) -> bool {
        if self.cpus[cpu.index()].is_online {
            return false;
        }
        self.own(cpu, |scheduler, rq, now, io| scheduler.online(rq, now, io)) && {
            self.cpus[cpu.index()].is_online = true;
            true
        }
    }
}

impl World {
    fn set_server(&mut self, cpu: CpuId, kind: ServerKind, runtime: Duration, period: Duration) -> bool {
        let (has, _, _) = self.rqs[cpu.index()].server(kind);
        let params = ServerParams { runtime, period, ..has };
        self.own(cpu, |scheduler, rq, now, io| {
            let before = rq.server(kind);
            match scheduler.set_server(rq, now, kind, params, io) {
                Ok(()) => assert_eq!(rq.server(kind).0, params),
                Err(_) => assert_eq!(rq.server(kind), before, "a refused change changes nothing"),
            }
            Step::Done
        })
    }

    fn join(&mut self, cpu: CpuId, partition: CpusetId) -> bool {
        let can_be = match partition.0.checked_sub(1).map(|index| self.setup.cpusets.get(usize::from(index))) {
            None => true,
            Some(set) => set.is_some_and(|(mask, kind)| mask.contains(cpu) && *kind != Partition::Member),
        };
        if !can_be || self.partitions[cpu.index()] == partition {
            return false;
        }
        self.own(cpu, |scheduler, rq, now, io| scheduler.join_domain(rq, now, partition, io).expect("a partition")) && {
            self.partitions[cpu.index()] = partition;
            true
        }
    }

    /// The CPUs of the root domain that a CPU is in.
    fn domain_of(&self, cpu: CpuId) -> impl Iterator<Item = CpuId> + '_ {
        let own = self.partitions[cpu.index()];
        (0..self.setup.nr_cpus).map(CpuId).filter(move |other| self.partitions[other.index()] == own)
    }

    /// The bodies that are not on a run queue.
    fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        let parked = self.bodies.iter().filter_map(|body| match body {
            Body::Parked(parcel) => Some(parcel),
            Body::Unborn | Body::OnItsWay | Body::Queued | Body::Delayed | Body::Dead => None,
        });
        let on_their_way = self.jobs.iter().flatten().filter_map(|job| match job {
            Job::Place { parcel, .. } => Some(parcel),
            Job::Pick | Job::Carry { .. } => None,
        });
        parked.chain(on_their_way)
    }
}

/// Whether a deadline task was not admitted.
fn is_refusal(error: &TaskError) -> bool {
    matches!(
        error,
        TaskError::DeadlineParams(..)
            | TaskError::NotWholeDomain(_)
            | TaskError::DeadlineAffinity(_)
            | TaskError::NoBandwidth(_)
    )
}
