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
use zerolag_core::call::{Answer, Call, LeftAs, Place, Refused, Rqs, Under};
use zerolag_core::{
    Clock, Config, CpusetId, Home, Io, Leave, Lent, MAX_OPS, Next, Op, PairClock, Parcel, Partition, Placement,
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
    /// Whether its real-time tasks were throttled at any time since its last pick.
    pub(crate) was_throttled: bool,
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
    /// Where each task is; `None` before it is created.
    pub(crate) places: Vec<Option<Place>>,
    pub(crate) now: Instant,
    /// Events that changed something.
    pub(crate) events: u64,
    /// For each task, the CPU on which it has waited behind a task with a restricted affinity.
    shadowed: Vec<Option<CpuId>>,
    /// Real-time tasks that have waited since a running deadline task became a fair one.
    unpulled: Vec<bool>,
    /// Affinity and cpuset of each task.
    where_allowed: Vec<(Option<Arc<CpuMask>>, CpusetId)>,
    /// The partition that each CPU is in.
    partitions: Vec<CpusetId>,
    io: Io,
    /// The body that a call is given, or hands out.
    hand: Option<Parcel>,
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
                    was_throttled: false,
                    runs: None,
                })
                .collect(),
            jobs: (0..setup.nr_cpus as usize + setup.outside).map(|_| VecDeque::new()).collect(),
            places: (0..setup.nr_tasks).map(|_| None).collect(),
            shadowed: vec![None; setup.nr_tasks as usize],
            unpulled: vec![false; setup.nr_tasks as usize],
            where_allowed: vec![(None, CpusetId::default()); setup.nr_tasks as usize],
            now: Instant::ZERO,
            events: 0,
            partitions,
            io: Io::new(Tracing::Off),
            hand: None,
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
            Event::Tick { cpu } => self.own(*cpu, &Call::Tick { cpu: *cpu }),
            Event::Timer { cpu } => self.fire(*cpu),
            Event::SetAttr { by, task, attr } => self.demote(*task, |world| world.set_attr(*by, *task, *attr)),
            Event::SetAffinity { by, task, affinity } => self.set_affinity(*by, *task, affinity.clone()),
            Event::Inherit { by, task, from } => self.demote(*task, |world| world.inherit(*by, *task, *from)),
            Event::Offline { cpu } => self.offline(*cpu),
            Event::Evict { cpu } => self.evict(*cpu),
            Event::Online { cpu } => self.online(*cpu),
            Event::SetServer { cpu, kind, runtime, period } => self.set_server(*cpu, *kind, *runtime, *period),
            Event::SetRtBandwidth { bandwidth } => self.call(&Call::SetRtBandwidth { bandwidth: *bandwidth }).is_ok(),
            Event::FollowRtLimit { cpu } => self.own(*cpu, &Call::FollowRtLimit { cpu: *cpu }),
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

    /// Makes a call, processes its output, and returns its answer.
    fn call(&mut self, call: &Call) -> Result<Answer, Refused> {
        let now = self.clock();
        let rqs = match call.under() {
            Under::None => Rqs::None(now),
            Under::One(cpu) => Rqs::One(&mut self.rqs[cpu.index()], now),
            Under::Two(own, other) => {
                let pair = self.rqs.get_disjoint_mut([own.index(), other.index()]);
                Rqs::Two(pair.expect("a pair is two CPUs"), PairClock::at(now))
            }
        };
        let answer = call.apply(&self.scheduler, rqs, &mut self.hand, &mut self.io);
        self.after();
        answer
    }

    /// Makes a call that returns a step and is never refused.
    fn step(&mut self, call: &Call) -> Step {
        match self.call(call) {
            Ok(Answer::Step(step)) => step,
            other => panic!("{call:?} returned {other:?}"),
        }
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
                Op::ArmGroupTimer { .. } | Op::ExtExit | Op::PolicyTimer { .. } => {
                    unreachable!("no group is limited, and no policy fails")
                }
            }
        }
        while let Some(parcel) = self.io.parked.pop() {
            let task = parcel.id();
            let place = &mut self.places[task.index()];
            assert!(matches!(place, Some(Place::Delayed)), "task {task} was parked while {place:?}");
            *place = Some(Place::Parked(parcel));
        }
        let costs = core::mem::take(&mut self.io.costs);
        // A stale bit in one of several cpusets' masks is found and cleared at the next search.
        let settings = &self.setup.settings;
        let exact = self.setup.cpusets.is_empty()
            || settings.overload_scope != OverloadScope::Cpuset
            || settings.rt_balance.is_per_root_domain();
        if costs.rt_balance > 0 && exact {
            // By the rule of 6.7 a CPU is overloaded from the moment a task wakes there until it
            // runs.
            let waits = |rq: &Rq| match settings.rt_overload {
                RtOverload::Queued => 2,
                RtOverload::Pushable => 1 + usize::from(rq.inspect().runs_at().beats(Prio::FIRST_FAIR)),
            };
            let urgent = |rq: &Rq| rq.inspect().queued().filter(|(_, prio)| prio.beats(Prio::FIRST_FAIR)).count();
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
        match job {
            Job::Pick => self.pick(self.cpu_of(agent)),
            Job::Carry { step, then: after } => {
                let step = self.step(&match step {
                    Step::Done => unreachable!("is no job"),
                    Step::Pair { own, other, then } => Call::Pair { own, other, then },
                    Step::Again { own, then } => Call::Resume { own, then },
                });
                self.push_step(agent, step, after);
            }
            Job::Place { parcel, why, target } => self.place(agent, parcel, why, target),
        }
        true
    }

    fn place(&mut self, agent: Agent, parcel: Parcel, why: Placement, target: Option<CpuId>) {
        let (by, task) = (self.cpu_of(agent), parcel.id());
        let fresh = target.is_none();
        self.hand = Some(parcel);
        let cpu = target.unwrap_or_else(|| match self.call(&Call::Select { task, by, why }) {
            Ok(Answer::Cpu(cpu)) => cpu,
            other => panic!("task {task} has no CPU: {other:?}"),
        });
        let parcel = self.hand.take().expect("it stays in hand");
        assert!(parcel.allowed().is_none_or(|mask| mask.contains(cpu)), "{parcel:?} may not go to CPU {cpu}");
        if fresh && self.setup.hints == Hints::Stale {
            self.jobs[agent.0].push_front(Job::Place { parcel, why, target: Some(cpu) });
            return;
        }
        self.places[task.index()] = Some(Place::Queued);
        self.hand = Some(parcel);
        let step = self.step(&Call::Wake { cpu, task, by, why });
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
        let unborn = matches!(self.places.get(id.index()), Some(None));
        if !unborn || !self.is_free(by) || !self.has_room(affinity.as_deref(), cpuset) {
            return false;
        }
        let born_on = self.cpu_of(by);
        self.where_allowed[id.index()] = (affinity.clone(), cpuset);
        let spec = TaskSpec { id, attr, affinity, group: GroupId::ROOT, cpuset, born_on, process: None };
        match self.call(&Call::CreateTask { spec }) {
            Ok(_) => {}
            Err(error) if is_refusal(&error) => return false,
            Err(error) => panic!("task {id} cannot be created: {error}"),
        }
        let parcel = self.hand.take().expect("a created task is in hand");
        self.places[id.index()] = Some(Place::OnItsWay);
        self.jobs[by.0].push_back(Job::Place { parcel, why: Placement::Fork, target: None });
        true
    }

    fn wake(&mut self, by: Agent, task: TaskId) -> bool {
        let Some(place) = self.places.get_mut(task.index()).filter(|_| self.jobs[by.0].is_empty()) else {
            return false;
        };
        match place.replace(Place::OnItsWay) {
            Some(Place::Parked(parcel)) => {
                self.jobs[by.0].push_back(Job::Place { parcel, why: Placement::Wakeup, target: None });
                true
            }
            Some(Place::Delayed) => {
                *place = Some(Place::Delayed);
                let Home::Rq(cpu) = self.scheduler.home(task) else { panic!("task {task} has no home") };
                let caller = self.cpu_of(by);
                match self.call(&Call::WakeQueued { cpu, task, by: caller }) {
                    Ok(Answer::Step(step)) => {
                        self.places[task.index()] = Some(Place::Queued);
                        self.push_step(by, step, Then::Nothing);
                        true
                    }
                    // It may not run there any more and has been parked.
                    Ok(Answer::NotHere) => self.wake(by, task),
                    other => panic!("task {task} cannot be woken: {other:?}"),
                }
            }
            other => {
                *place = other;
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
        let Ok(Answer::Left(left)) = self.call(&Call::Leave { cpu, why }) else { panic!("CPU {cpu} has not left") };
        let place = Place::after(left, &mut self.hand);
        let displaced = self.hand.take().filter(|_| left == LeftAs::Displaced);
        if let Some(task) = current {
            self.places[task.index()] = Some(place);
        }
        let place = |parcel| Job::Place { parcel, why: Placement::Displaced, target: None };
        self.jobs[agent.0].extend(displaced.map(place));
        self.jobs[agent.0].push_back(Job::Pick);
        true
    }

    fn pick(&mut self, cpu: CpuId) {
        let agent = Self::agent_of(cpu);
        let Ok(Answer::Next(next)) = self.call(&Call::Pick { cpu }) else { panic!("CPU {cpu} has not picked") };
        let task = match next {
            Next::Balance(step) => return self.push_step(agent, step, Then::Pick),
            Next::Idle => None,
            Next::Run(task) => Some(task),
        };
        self.cpus[cpu.index()].runs = task;
        self.cpus[cpu.index()].was_throttled = false;
        if task.is_some() {
            let step = self.step(&Call::Switched { cpu });
            self.push_step(agent, step, Then::Nothing);
        }
    }

    /// An event of a CPU itself, which needs the CPU to be in no other event.
    fn own(&mut self, cpu: CpuId, call: &Call) -> bool {
        let agent = Self::agent_of(cpu);
        if !self.is_free(agent) {
            return false;
        }
        let step = self.step(call);
        self.push_step(agent, step, Then::Nothing);
        true
    }

    fn deliver(&mut self, cpu: CpuId, nth: usize) -> bool {
        if !self.is_free(Self::agent_of(cpu)) || nth >= self.cpus[cpu.index()].ipis.len() {
            return false;
        }
        let work = self.cpus[cpu.index()].ipis.remove(nth);
        self.own(cpu, &Call::Remote { cpu, work })
    }

    fn fire(&mut self, cpu: CpuId) -> bool {
        let (now, place) = (self.now, &mut self.cpus[cpu.index()]);
        let due = |timer: &RqTimer| place.timer(*timer).is_some_and(|at| at <= now);
        let Some(timer) = RqTimer::ALL.into_iter().rev().find(due) else { return false };
        if !self.is_free(Self::agent_of(cpu)) {
            return false;
        }
        *self.cpus[cpu.index()].timer(timer) = None;
        self.own(cpu, &Call::Timer { cpu, timer })
    }

    /// Changes a task wherever it is, if its body is not on its way and exists; returns whether it
    /// was changed: not if that is refused, or if it was parked meanwhile.
    fn change(&mut self, by: Agent, task: TaskId, parked: &Call, queued: impl FnOnce(CpuId) -> Call) -> Option<bool> {
        if !self.is_free(by) || task.index() >= self.places.len() {
            return None;
        }
        match (self.places[task.index()].take(), self.scheduler.home(task)) {
            (other @ (None | Some(Place::OnItsWay | Place::Dead)), _) => {
                self.places[task.index()] = other;
                None
            }
            (Some(Place::Parked(parcel)), _) => {
                self.hand = Some(parcel);
                let changed = self.call(parked);
                if let Err(error) = &changed {
                    assert!(is_refusal(error), "task {task} cannot be changed: {error}");
                }
                self.places[task.index()] = self.hand.take().map(Place::Parked);
                Some(changed.is_ok())
            }
            (Some(place @ (Place::Queued | Place::Delayed)), Home::Rq(home)) => {
                let asleep = matches!(place, Place::Delayed);
                self.places[task.index()] = Some(place);
                match self.call(&queued(home)) {
                    Ok(Answer::Step(step)) => {
                        if let Some(parcel) = self.hand.take() {
                            self.places[task.index()] = Some(Place::OnItsWay);
                            let why = Placement::Displaced;
                            self.jobs[by.0].push_back(Job::Place { parcel, why, target: None });
                        }
                        self.push_step(by, step, Then::Nothing);
                        Some(true)
                    }
                    Ok(Answer::NotHere) if asleep => {
                        // It slept and has been parked without the change.
                        assert!(matches!(self.places[task.index()], Some(Place::Parked(_))), "task {task} is lost");
                        Some(false)
                    }
                    Err(error) if is_refusal(&error) => Some(false),
                    other => panic!("task {task} cannot be changed: {other:?}"),
                }
            }
            (Some(Place::Queued | Place::Delayed), Home::Parcel) => panic!("task {task} is queued, but has no home"),
        }
    }

    fn set_attr(&mut self, by: Agent, task: TaskId, attr: SchedAttr) -> bool {
        let parked = Call::SetAttrParked { task, attr, by: self.cpu_of(by) };
        self.change(by, task, &parked, |cpu| Call::SetAttr { cpu, task, attr }).is_some()
    }

    fn inherit(&mut self, by: Agent, task: TaskId, from: Option<Lent>) -> bool {
        let parked = Call::InheritParked { task, from, by: self.cpu_of(by) };
        self.change(by, task, &parked, |cpu| Call::Inherit { cpu, task, from }).is_some()
    }

    fn set_affinity(&mut self, by: Agent, task: TaskId, affinity: Option<Arc<CpuMask>>) -> bool {
        let Some((_, cpuset)) = self.where_allowed.get(task.index()).cloned() else { return false };
        if !self.has_room(affinity.as_deref(), cpuset) {
            return false;
        }
        let parked = Call::SetAffinityParked { task, affinity: affinity.clone(), by: self.cpu_of(by) };
        let queued = |cpu| Call::SetAffinity { cpu, task, affinity: affinity.clone() };
        let changed = self.change(by, task, &parked, queued);
        if changed == Some(true) {
            self.where_allowed[task.index()].0 = affinity;
        }
        changed.is_some()
    }

    fn offline(&mut self, cpu: CpuId) -> bool {
        if !self.is_free(Self::agent_of(cpu)) || !self.cpus[cpu.index()].is_online {
            return false;
        }
        self.cpus[cpu.index()].is_online = false;
        let alive = |place: &Option<Place>| !matches!(place, None | Some(Place::Dead));
        let mut tasks = self.places.iter().zip(&self.where_allowed).filter(|(place, _)| alive(place));
        if !tasks.all(|(_, (affinity, cpuset))| self.has_room(affinity.as_deref(), *cpuset))
            || self.cpus.iter().all(|cpu| !cpu.is_online)
        {
            self.cpus[cpu.index()].is_online = true;
            return false;
        }
        self.step(&Call::Offline { cpu }) == Step::Done
    }

    fn evict(&mut self, cpu: CpuId) -> bool {
        if !self.is_free(Self::agent_of(cpu)) || self.cpus[cpu.index()].is_online {
            return false;
        }
        let before = self.rqs[cpu.index()].nr_running();
        let evicted = self.step(&Call::Evict { cpu });
        assert_eq!(evicted, Step::Done);
        // Sleeping tasks are parked, whether or not a task that is awake is found.
        let Some(parcel) = self.hand.take() else { return self.rqs[cpu.index()].nr_running() < before };
        self.places[parcel.id().index()] = Some(Place::OnItsWay);
        self.jobs[cpu.index()].push_back(Job::Place { parcel, why: Placement::Displaced, target: None });
        true
    }

    fn online(&mut self, cpu: CpuId) -> bool {
        if self.cpus[cpu.index()].is_online {
            return false;
        }
        self.own(cpu, &Call::Online { cpu }) && {
            self.cpus[cpu.index()].is_online = true;
            true
        }
    }
}

impl World {
    fn set_server(&mut self, cpu: CpuId, kind: ServerKind, runtime: Duration, period: Duration) -> bool {
        let (has, _, _) = self.rqs[cpu.index()].server(kind);
        let params = ServerParams { runtime, period, ..has };
        if !self.is_free(Self::agent_of(cpu)) {
            return false;
        }
        let before = self.rqs[cpu.index()].server(kind);
        let changed = self.call(&Call::SetServer { cpu, kind, params });
        let after = self.rqs[cpu.index()].server(kind);
        match changed {
            Ok(_) => assert_eq!(after.0, params),
            Err(_) => assert_eq!(after, before, "a refused change changes nothing"),
        }
        true
    }

    fn join(&mut self, cpu: CpuId, partition: CpusetId) -> bool {
        let can_be = match partition.0.checked_sub(1).map(|index| self.setup.cpusets.get(usize::from(index))) {
            None => true,
            Some(set) => set.is_some_and(|(mask, kind)| mask.contains(cpu) && *kind != Partition::Member),
        };
        if !can_be || self.partitions[cpu.index()] == partition {
            return false;
        }
        self.own(cpu, &Call::JoinDomain { cpu, partition }) && {
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
        let parked = self.places.iter().filter_map(|place| match place {
            Some(Place::Parked(parcel)) => Some(parcel),
            None | Some(Place::OnItsWay | Place::Queued | Place::Delayed | Place::Dead) => None,
        });
        let on_their_way = self.jobs.iter().flatten().filter_map(|job| match job {
            Job::Place { parcel, .. } => Some(parcel),
            Job::Pick | Job::Carry { .. } => None,
        });
        parked.chain(on_their_way)
    }
}

/// Whether a deadline task was not admitted.
fn is_refusal(error: &Refused) -> bool {
    let Refused::Task(error) = error else { return false };
    matches!(
        error,
        TaskError::DeadlineParams(..)
            | TaskError::NotWholeDomain(..)
            | TaskError::DeadlineAffinity(..)
            | TaskError::NoBandwidth(..)
    )
}
