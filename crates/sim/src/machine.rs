//! [`Machine`]: the simulated machine: CPUs, tasks, time; its main loop.
//!
//! One event at a time, in total order. Ticks of all CPUs come together (`skew_tick` off), after every other event of
//! their instant, in order of CPU, unless they come late ([`Machine::delay_ticks`]); CPUs that need no tick cost nothing.
//!
//! The machine decides nothing: who runs, where and when is asked of the core; what is done in which order is asked of
//! the program.

use crate::admin::groups::{GroupTimers, Life};
use crate::costs::Costs;
use crate::device::noise::LateTicks;
use crate::kernel::cpu::{Cpu, Interrupt, Job, WakeKind};
use crate::kernel::proxy::count_locks;
use crate::outcome::{End, Outcome, SimError, Stats, Wait};
use crate::program::requests::Arriving;
use crate::program::sync::Shared;
use crate::program::task::{SimTask, State, WaitFor};
use crate::queue::{EventQueue, Phase, Source};
use crate::trace::{Sink, Tracer};
use core::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::{Config, CpusetId, GroupTimer, Io, Partition, RqTimer, Scheduler, TaskSpec, Threads, Tracing};
use zerolag_model::settings::Preempt;
use zerolag_model::{
    CpuId, CpuMask, Duration, GroupId, Instant, Record, SchedAttr, Settings, TaskId, Topology, TraceEvent,
};
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::{Program, ResourceId};

/// The lock inside the core's shared state: never contended here, one thread runs the machine.
pub(crate) type InnerLock = spin::Mutex<()>;

/// What a machine is built from, besides the program.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// CPUs, caches, sockets.
    pub topology: Topology,
    /// The scheduler's switches and tunables.
    pub settings: Settings,
    /// What operations take.
    pub costs: Costs,
    /// Seed of all random streams.
    pub seed: u64,
    /// When the run ends at the latest; `None` is when all tasks have ended.
    pub duration: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Completion {
        cpu: CpuId,
        generation: u32,
    },
    PathEnd {
        cpu: CpuId,
    },
    LockFree {
        rq: CpuId,
    },
    Interrupt {
        cpu: CpuId,
        what: Interrupt,
    },
    RqTimer {
        cpu: CpuId,
        timer: RqTimer,
        generation: u32,
    },
    TaskTimer {
        task: TaskId,
    },
    PagesRead {
        cpu: CpuId,
        file: ResourceId,
        window: u32,
    },
    GroupTimer {
        cpu: CpuId,
        group: GroupId,
        timer: GroupTimer,
        generation: u32,
    },
    Change {
        index: u32,
    },
    Source {
        index: u32,
    },
    LateTick {
        cpu: CpuId,
    },
    /// A second is over, for CPUs of `nohz_full`.
    RemoteTicks,
    Arrival {
        source: u32,
    },
}

/// A simulated machine with its workload.
#[derive(Debug)]
pub struct Machine {
    /// Behind a second counter that is not atomic: actions hold the program while they change the machine.
    #[expect(clippy::redundant_allocation, reason = "the outer counter is not atomic")]
    pub(crate) program: Rc<Arc<Program>>,
    pub(crate) topology: Topology,
    pub(crate) costs: Costs,
    pub(crate) seed: u64,
    pub(crate) scheduler: Scheduler<InnerLock>,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tasks: Vec<SimTask>,
    pub(crate) shared: Vec<Shared>,
    /// Whether tasks lend their turns (`proxy_exec`).
    pub(crate) proxies: bool,
    /// Whether who has a read-write semaphore alone inherits (`preempt = rt`).
    pub(crate) semaphores_inherit: bool,
    pub(crate) queue: EventQueue<Event>,
    pub(crate) now: Instant,
    pub(crate) io: Io,
    pub(crate) tracer: Tracer,
    pub(crate) stats: Stats,
    pub(crate) alive: usize,
    pub(crate) stop: Option<End>,
    /// What is with each group of the program.
    pub(crate) groups: Vec<Life>,
    pub(crate) group_timers: GroupTimers,
    /// When the line of each root domain's IPI state is free.
    pub(crate) rto_free_at: Vec<Instant>,
    pub(crate) sources: Vec<crate::device::noise::Source>,
    pub(crate) arriving: Vec<Arriving>,
    /// What is changed at given times, in order.
    pub(crate) changes: Rc<[TimedChange]>,
    /// How many of the changes that have not been made yet move threads.
    pub(crate) changes_to_come: usize,
    ticking: CpuMask,
    next_tick: Instant,
    tick_period: Duration,
    pub(crate) late_ticks: Option<LateTicks>,
    end: Instant,
}

impl Machine {
    /// Builds a machine and places its tasks.
    ///
    /// # Errors
    /// The program does not fit the machine: cpusets, affinities, policies.
    pub fn new(program: Arc<Program>, config: &MachineConfig, tracing: Tracing) -> Result<Self, SimError> {
        let cpusets: Vec<(CpuMask, Partition)> = crate::admin::cpuset::partitions(&program);
        let changes: Rc<[TimedChange]> = program.plan().into();
        let core = Config::new(config.topology.clone(), config.settings.clone())
            .with_cpusets(&cpusets)?
            .with_group_reserve(groups_ever(&program, &changes))
            .with_scan_cost(config.costs.scan_per_cpu)
            .with_threads(Threads::One);
        let mut scheduler = Scheduler::new(core);
        let instances: usize = program.tasks.iter().map(|def| def.instances as usize).sum();
        scheduler.reserve_tasks(instances);
        let proxies = config.settings.proxy_exec;
        if proxies {
            scheduler.reserve_locks(count_locks(&program.resources));
        }
        let cpus = config
            .topology
            .cpus()
            .map(|cpu| {
                let speed = u64::from(config.topology.capacity(cpu));
                Cpu::new(scheduler.new_rq(cpu), speed)
            })
            .collect();
        let mut machine = Self {
            shared: Shared::all(&program.resources, config.settings.preempt),
            proxies,
            semaphores_inherit: config.settings.preempt == Preempt::Rt,
            topology: config.topology.clone(),
            costs: config.costs.clone(),
            seed: config.seed,
            scheduler,
            cpus,
            tasks: Vec::with_capacity(instances),
            queue: EventQueue::new(config.topology.nr_cpus()),
            now: Instant::ZERO,
            io: Io::new(tracing),
            tracer: Tracer::new(tracing),
            stats: Stats::default(),
            alive: 0,
            stop: None,
            groups: vec![Life::Absent; program.groups.len()],
            group_timers: GroupTimers::default(),
            rto_free_at: Vec::new(),
            sources: Vec::new(),
            arriving: Vec::new(),
            changes_to_come: changes.iter().filter(|change| change.what.moves_threads()).count(),
            changes,
            ticking: CpuMask::new(),
            next_tick: Instant::ZERO,
            tick_period: config.settings.tick_period(),
            late_ticks: None,
            end: config.duration.map_or(Instant::FAR_FUTURE, |duration| Instant::ZERO.saturating_add(duration)),
            program: Rc::new(program),
        };
        machine.boot()?;
        Ok(machine)
    }

    /// Creates every instance and sets its start.
    fn boot(&mut self) -> Result<(), SimError> {
        let program = Rc::clone(&self.program);
        self.announce_groups()?;
        self.announce_domains();
        self.plan_changes();
        for (def, task) in program.tasks.iter().enumerate() {
            if task.group.is_some_and(|group| program.comes_later(group)) {
                continue; // Its group brings it.
            }
            for instance in 0..task.instances {
                let born_on = self.birthplace(self.tasks.len());
                let id = self.create_task(def, instance, None, born_on)?;
                let start = Instant::ZERO.saturating_add(task.delay);
                self.tasks[id.index()].timer_cpu = born_on;
                self.arm_task_timer(id, start);
            }
        }
        self.announce_sources();
        self.plan_remote_ticks();
        for cpu in 0..self.cpus.len() {
            self.update_tick(CpuId::from_index(cpu));
        }
        Ok(())
    }

    /// Creates one task; it starts when its timer fires or it is woken.
    pub(crate) fn create_task(
        &mut self,
        def: usize,
        instance: u32,
        parent: Option<TaskId>,
        born_on: CpuId,
    ) -> Result<TaskId, SimError> {
        let id = TaskId::from_index(self.tasks.len());
        let task = &self.program.tasks[def];
        let name: Arc<str> = task.name_of(instance).into();
        let cpuset = task.cpuset.map_or(0, |index| index + 1);
        let group = self.group_of(task.group).map_err(|path| SimError::NoGroup { name: Arc::clone(&name), path })?;
        self.scheduler.reserve_tasks(id.index() + 1);
        let spec = TaskSpec {
            id,
            attr: task.attr,
            affinity: task.affinity.clone(),
            group,
            cpuset: CpusetId(u16::try_from(cpuset).expect("invariant: the core accepted the cpusets")),
            born_on,
        };
        let parcel = self
            .scheduler
            .create_task(self.cpus[born_on.index()].clock(self.now), spec)
            .map_err(|error| SimError::Task { name: Arc::clone(&name), error })?;
        let attr: SchedAttr = task.attr;
        let allowed = parcel.allowed();
        let mut body = SimTask::new(id, def, Arc::clone(&name), None);
        body.parcel = Some(parcel);
        body.instance = instance;
        body.group = task.group;
        self.tasks.push(body);
        self.alive += 1;
        if self.tracer.is_on() {
            self.emit(born_on, TraceEvent::TaskNew { task: id, name, parent, attr, group });
            if let Some(cpus) = allowed {
                self.emit(born_on, TraceEvent::Affinity { task: id, cpus });
            }
        }
        Ok(id)
    }

    /// Runs until the end, handing every record to `sink`.
    pub fn run(&mut self, sink: &mut impl Sink) -> Outcome {
        self.run_with(sink, |_, _| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run), telling `progress` now and then where in simulated time the run is; it may end the run
    /// there ([`End::Interrupted`]).
    pub fn run_with(
        &mut self,
        sink: &mut impl Sink,
        mut progress: impl FnMut(Instant, &Stats) -> ControlFlow<()>,
    ) -> Outcome {
        let mut countdown = PROGRESS_EVERY;
        while self.stop.is_none() && self.step() {
            self.tracer.drain(self.now, sink);
            countdown -= 1;
            if countdown == 0 {
                countdown = PROGRESS_EVERY;
                if progress(self.now, &self.stats).is_break() {
                    self.stop.get_or_insert(End::Interrupted);
                }
            }
        }
        self.finish(sink)
    }

    /// Handles the next event or tick; `false` when nothing is left before the end.
    fn step(&mut self) -> bool {
        let ticks = !self.ticking.is_empty();
        let limit = if ticks { self.next_tick.min(self.end) } else { self.end };
        if let Some((at, event)) = self.queue.pop_until(limit) {
            debug_assert!(at >= self.now, "time goes forward");
            self.now = at;
            self.stats.events += 1;
            self.dispatch(event);
        } else if ticks && self.next_tick <= self.end {
            self.now = self.next_tick;
            self.tick_all();
        } else {
            if !ticks && (self.queue.is_empty() || self.all_wait_for_each_other()) {
                self.stop = Some(self.nothing_left());
            }
            return false;
        }
        if self.alive == 0 && self.changes_to_come == 0 {
            self.stop = Some(End::Finished);
        }
        true
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Completion { cpu, generation } => self.completion(cpu, generation),
            Event::PathEnd { cpu } => {
                self.cpus[cpu.index()].path_end_queued = false;
                if !self.cpus[cpu.index()].is_in_kernel(self.now) {
                    self.cpus[cpu.index()].enter_kernel(self.now);
                    self.drive(cpu);
                }
            }
            Event::LockFree { rq } => self.grant_lock(rq),
            Event::Interrupt { cpu, what } => self.interrupt(cpu, what),
            Event::RqTimer { cpu, timer, generation } => {
                if *self.cpus[cpu.index()].timer_generation(timer) == generation {
                    self.interrupt(cpu, Interrupt::RqTimer(timer));
                }
            }
            Event::GroupTimer { cpu, group, timer, generation } => {
                if self.group_timers.is_current(group, timer, generation) {
                    self.interrupt(cpu, Interrupt::GroupTimer(group, timer));
                }
            }
            Event::Change { index } => self.change_comes(index),
            Event::Source { index } => self.source_fires(index),
            Event::LateTick { cpu } => self.late_tick(cpu),
            Event::RemoteTicks => self.remote_ticks(),
            Event::Arrival { source } => self.request_arrives(source),
            Event::PagesRead { cpu, file, window } => self.interrupt(cpu, Interrupt::PagesRead { file, window }),
            Event::TaskTimer { task } => {
                let cpu = self.tasks[task.index()].timer_cpu;
                self.interrupt(cpu, Interrupt::TaskTimer(task));
            }
        }
    }

    fn tick_all(&mut self) {
        self.next_tick = self.now + self.tick_period;
        let mut from = CpuId(0);
        while let Some(cpu) = self.ticking.next_from(from) {
            from = CpuId(cpu.0 + 1);
            self.stats.ticks += 1;
            if self.late_ticks.is_some() {
                self.delay_tick(cpu);
            } else {
                self.tick(cpu);
            }
        }
    }

    /// A CPU should tick now, and will when its delay is over.
    #[cold]
    fn delay_tick(&mut self, cpu: CpuId) {
        let Some(late) = &mut self.late_ticks else { return };
        let at = self.now + late.next(cpu, self.tick_period);
        let count = self.cpus[cpu.index()].next_count();
        self.queue.push(at, Phase::LateTick, Source::cpu(cpu), count, Event::LateTick { cpu });
        self.arm_completion(cpu); // It may end before, and was left to this tick.
    }

    /// A tick comes late. The first CPU that ticks counts for all: who comes before it sees the count of the tick before.
    fn late_tick(&mut self, cpu: CpuId) {
        if self.ticking.next_from(CpuId(0)) == Some(cpu) {
            self.scheduler.count_tick(self.now);
        }
        if self.ticking.contains(cpu) {
            self.tick(cpu);
        }
    }

    /// Returns when CPUs that tick do so next.
    pub(crate) const fn next_tick(&self) -> Instant {
        self.next_tick
    }

    /// Starts or stops the tick of a CPU as the core needs it.
    #[inline(always)]
    pub(crate) fn update_tick(&mut self, cpu: CpuId) {
        let place = &self.cpus[cpu.index()];
        let needed = self.scheduler.needs_tick(&place.rq);
        if needed != place.ticking {
            self.toggle_tick(cpu);
        }
    }

    fn toggle_tick(&mut self, cpu: CpuId) {
        let place = &mut self.cpus[cpu.index()];
        place.ticking = !place.ticking;
        if place.ticking {
            if self.ticking.is_empty() {
                if self.late_ticks.is_some() {
                    self.scheduler.count_tick(self.now);
                }
                self.next_tick = (self.now + Duration::from_nanos(1)).round_up_to(self.tick_period);
            }
            self.ticking.insert(cpu);
        } else {
            self.ticking.remove(cpu);
            self.arm_completion(cpu); // The tick would have asked for it.
        }
    }

    /// A task's timer fires at `at` on the CPU where it was armed.
    pub(crate) fn arm_task_timer(&mut self, task: TaskId, at: Instant) {
        let count = self.tasks[task.index()].next_count();
        self.queue.push(at, Phase::TaskTimer, Source::task(task), count, Event::TaskTimer { task });
    }

    /// The job that a task's timer makes.
    pub(crate) fn timer_job(&mut self, task: TaskId) -> Option<Job> {
        let body = &mut self.tasks[task.index()];
        let why = match body.state {
            State::Unborn => WakeKind::Fork,
            State::Waits(WaitFor::Time) => WakeKind::Wakeup,
            State::Active | State::Waits(_) | State::Dead => return None,
        };
        body.state = State::Active;
        Some(Job::Wake { task, why, target: None })
    }

    #[inline]
    pub(crate) fn emit(&mut self, cpu: CpuId, event: TraceEvent) {
        self.emit_at(self.now, cpu, event);
    }

    /// As [`emit`](Self::emit), for a time that may lie ahead.
    #[inline]
    pub(crate) fn emit_at(&mut self, at: Instant, cpu: CpuId, event: TraceEvent) {
        if self.tracer.is_on() {
            self.record(at, cpu, event);
        }
    }

    /// Apart and marked as seldom called, so that no function has the making of its records in the midst of its code.
    #[cold]
    fn record(&mut self, at: Instant, cpu: CpuId, event: TraceEvent) {
        let record = Record { at, cpu, event };
        if at > self.now { self.tracer.push_later(record) } else { self.tracer.push(record) }
    }

    /// Nothing will ever happen again: everybody has ended, or waits for somebody, or for requests that are over.
    fn nothing_left(&self) -> End {
        let waits = self.waits();
        if waits.is_empty() { End::Finished } else { End::Stuck(waits) }
    }

    /// Returns whether whatever is still to come (a server's next period, a quota's refresh) can wake nobody.
    fn all_wait_for_each_other(&self) -> bool {
        self.changes_to_come == 0 && self.waits().len() + self.idle_workers() == self.alive
    }

    /// Returns who waits for what.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        self.tasks.iter().filter_map(|task| self.wait_of(task)).collect()
    }

    pub(crate) fn wait_of(&self, task: &SimTask) -> Option<Wait> {
        let (what, resource) = match task.state {
            State::Active => ("spin_lock", task.cursor.spins_for?),
            State::Unborn | State::Dead => return None,
            State::Waits(wait) => waits_for(wait)?,
        };
        let holder = self.shared[resource.index()].owner();
        Some(Wait {
            task: Arc::clone(&task.name),
            what,
            resource: Arc::clone(&self.program.resources[resource.index()].name),
            holder: holder.map(|holder| Arc::clone(&self.tasks[holder.index()].name)),
        })
    }

    /// Takes the stop back if a duration is to be waited for and nobody waits for something that is held.
    fn take_left_waiting(&mut self) -> Vec<Wait> {
        let is_harmless = |waits: &[Wait]| waits.iter().all(|wait| wait.holder.is_none());
        match self.stop.take() {
            Some(End::Stuck(waits)) if self.end != Instant::FAR_FUTURE && is_harmless(&waits) => waits,
            stop => {
                self.stop = stop;
                Vec::new()
            }
        }
    }

    /// Closes the books.
    fn finish(&mut self, sink: &mut impl Sink) -> Outcome {
        let left_waiting = self.take_left_waiting();
        let end = match self.stop {
            None => self.end,
            Some(End::Lockup { since, stretch, .. }) => since + stretch,
            Some(_) => self.now,
        };
        self.now = end;
        self.tracer.flush(end, sink);
        for index in 0..self.cpus.len() {
            let cpu = &mut self.cpus[index];
            cpu.close_account(end);
            if cpu.current.is_some() && cpu.busy_until <= end {
                let clock = cpu.clock(end);
                self.scheduler.charge(&mut cpu.rq, clock, &mut self.io);
            }
            let times = cpu.times;
            self.emit(CpuId::from_index(index), TraceEvent::CpuTotals { times });
        }
        for index in 0..self.tasks.len() {
            let counters = self.counters_of(index);
            self.tasks[index].counters = counters;
            let task = TaskId::from_index(index);
            self.emit(CpuId(0), TraceEvent::TaskTotals { task, counters });
        }
        self.emit_group_totals();
        self.tracer.flush(end, sink);
        self.stats.switches = self.cpus.iter().map(|cpu| cpu.rq.nr_switches()).sum();
        let why = self.stop.take().unwrap_or(End::Duration);
        Outcome { end, why, stats: self.stats, left_waiting }
    }

    fn counters_of(&self, index: usize) -> zerolag_model::TaskCounters {
        let task = &self.tasks[index];
        if let Some(parcel) = &task.parcel {
            return parcel.counters();
        }
        match self.scheduler.home(task.id) {
            zerolag_core::Home::Rq(cpu) => {
                self.scheduler.counters(&self.cpus[cpu.index()].rq, task.id).unwrap_or(task.counters)
            }
            zerolag_core::Home::Parcel => task.counters,
        }
    }

    /// Checks what must hold of the scheduler's shared state when nothing is under way.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn check_quiescent(&self) -> Result<(), String> {
        let under_way = self.cpus.iter().any(|cpu| cpu.is_in_kernel(self.now) || !cpu.pending.is_empty());
        if under_way {
            return Ok(());
        }
        let rqs: Vec<_> = self.cpus.iter().map(|cpu| &cpu.rq).collect();
        self.scheduler.check_quiescent(&rqs)
    }
}

/// Returns how many groups there are in all of a run.
fn groups_ever(program: &Program, changes: &[TimedChange]) -> usize {
    program.groups.len() + changes.iter().filter(|change| matches!(change.what, Change::Create { .. })).count()
}

/// Events between two calls of a progress reporter.
const PROGRESS_EVERY: u32 = 1 << 16;

/// Returns what a wait for somebody is called, and for which resource it is.
const fn waits_for(wait: WaitFor) -> Option<(&'static str, ResourceId)> {
    match wait {
        WaitFor::Time | WaitFor::Request(_) | WaitFor::Page(_) => None,
        WaitFor::Mutex(id) => Some(("mutex", id)),
        WaitFor::Condition { condition, .. } => Some(("condition", condition)),
        WaitFor::Barrier(id) => Some(("barrier", id)),
        WaitFor::Semaphore(id) => Some(("semaphore", id)),
        WaitFor::RwSemaphore(id) => Some(("rw_semaphore", id)),
        WaitFor::Pipe(id) => Some(("pipe", id)),
        WaitFor::Resume(id) => Some(("resume of", id)),
        WaitFor::Reply(id) => Some(("reply of", id)),
    }
}
