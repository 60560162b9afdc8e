//! [`Machine`]: the simulated machine and its main loop.
//!
//! The machine decides nothing. Which task runs, where and when is asked of the core; what a task
//! does next is asked of its program. It owns four parts, and each knows only those below it:
//!
//! ```text
//!   Machine    main loop: events, ticks; drives each CPU along its kernel path
//!   Admin      changes, groups, cpusets, hotplug
//!   Programs   where each task is in its program; what tasks share
//!   devices    interrupts, arrivals of requests, disks
//!   Kernel     CPUs, run-queue locks, IPIs, timers; hosts the core
//! ```
//!
//! A part that needs one above it queues an event, an interrupt or a job
//! ([`words`](crate::kernel::words)), which the main loop hands to the part concerned. So the
//! circle - an interrupt wakes a task, which takes a lock, whose holder is preempted - closes here.
//!
//! One event at a time is handled, in total order; ticks come after all events of their instant. A
//! handler returns the CPU that is to be driven last at the instant: only that one may go on to the
//! end of its path at once (`kernel/time`). CPUs that it drives itself may not.

use crate::admin::changes::{Admin, Follows};
use crate::admin::{cpuset, groups, hotplug, isolation, policies};
use crate::costs::Costs;
use crate::device::arrivals::Arrivals;
use crate::device::noise::{IrqSource, Noise};
use crate::device::standstill::MachineStandstills;
use crate::guard::Guarded;
use crate::kernel::path::Ahead;
use crate::kernel::state::Kernel;
use crate::kernel::ticks::Ticked;
use crate::kernel::words::{Done, Event, Interrupt, Job};
use crate::outcome::{End, Outcome, SimError, Stats, Wait};
use crate::patience::Patience;
use crate::program::calls::with_calls;
use crate::program::shared::count_locks;
use crate::program::shared::request::{Sender, WaitingRequest};
use crate::program::state::Programs;
use crate::trace::Sink;
use core::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::{Config, Leave, ServerError, Threads, Tracing};
use zerolag_model::{CpuId, Duration, Instant, ServerKind, Settings, TaskId, Topology};
use zerolag_policy::Policy;
use zerolag_workload::change::{Change, TimedChange};
use zerolag_workload::program::Program;
use zerolag_workload::random::Dist;

/// The description of a machine, without the program.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// CPUs, caches, sockets.
    pub topology: Topology,
    /// The scheduler's switches and tunables.
    pub settings: Settings,
    /// The costs of operations.
    pub costs: Costs,
    /// The seed of all random streams.
    pub seed: u64,
    /// When the run ends at the latest; with `None` it ends when all tasks have ended.
    pub duration: Option<Duration>,
}

/// A simulated machine with its workload.
///
/// A clone is a copy of all state at that instant ([`run_until`](Self::run_until)): it goes on as
/// the original does, byte by byte, and neither sees the other.
///
/// ```
/// # use std::sync::Arc;
/// # use zerolag_sim::{Machine, MachineConfig, Tracing};
/// # use zerolag_model::{Duration, Instant};
/// # fn split(program: Arc<zerolag_workload::program::Program>, config: &MachineConfig) {
/// let mut machine = Machine::new(program, config, Tracing::On).expect("it fits");
/// let mut records = Vec::new();
/// machine.run_until(Instant::ZERO + Duration::from_millis(20), &mut records);
/// let mut copy = machine.clone();
/// let mut again = records.clone();
/// machine.run(&mut records);
/// copy.run(&mut again);
/// assert!(records == again);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) kernel: Kernel,
    noise: Noise,
    arrivals: Arrivals,
    standstills: MachineStandstills,
    programs: Programs,
    admin: Admin,
    seed: u64,
    end: Instant,
    patience: Patience,
}

impl Machine {
    /// Builds a machine and places its tasks.
    ///
    /// # Errors
    /// The program does not fit the machine, or settings of the fair servers are out of range.
    pub fn new(program: Arc<Program>, config: &MachineConfig, tracing: Tracing) -> Result<Self, SimError> {
        Self::build(program, config, tracing, None)
    }

    /// Builds a machine that runs the tasks of `sched_ext` by a policy of the caller. A panic in it
    /// is a fault of the policy, where panics unwind: the run goes on without it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// # Panics
    /// If the settings have `sched_ext = off`.
    pub fn with_policy(
        program: Arc<Program>,
        config: &MachineConfig,
        tracing: Tracing,
        policy: Box<dyn Policy>,
    ) -> Result<Self, SimError> {
        Self::build(program, config, tracing, Some(Box::new(Guarded(policy))))
    }

    fn build(
        program: Arc<Program>,
        config: &MachineConfig,
        tracing: Tracing,
        policy: Option<Box<dyn Policy>>,
    ) -> Result<Self, SimError> {
        let MachineConfig { topology, settings, costs, seed, duration } = config;
        let program = with_calls(program, costs);
        let is_more = program.needs_kernel_work(settings);
        let program = if is_more { Arc::new(program.with_kernel_work(settings, topology.nr_cpus())) } else { program };
        let is_wrong = |cpu: &CpuId| {
            let servers = ServerKind::ALL.map(|kind| settings.server_params(*cpu, kind));
            servers.iter().any(|server| server.is_on() && !server.is_valid())
        };
        if let Some(cpu) = topology.cpus().find(is_wrong) {
            return Err(SimError::Server { cpu, error: ServerError::Params });
        }
        let changes: Rc<[TimedChange]> = program.plan().into();
        let (policies, begins, in_force) = policies::begin(&changes, settings, policy, *seed);
        let instances: usize = program.tasks.iter().map(|def| def.instances as usize).sum();
        let core = Config::new(topology.clone(), in_force)
            .with_cpusets(&cpuset::partitions(&program))?
            .with_group_reserve(groups_ever(&program, &changes))
            .with_process_reserve(program.processes.len())
            // Twice as many as a CPU has on average: a queue grows when it once has more.
            .with_queue_reserve((2 * instances).div_ceil(topology.nr_cpus()).clamp(4, 64))
            .with_scan_cost(costs.scan_per_cpu)
            .with_seed(*seed)
            .with_threads(Threads::One);
        let locks = count_locks(&program.resources);
        let mut machine = Self {
            kernel: Kernel::new(core, costs.clone(), settings, instances, locks, (tracing, begins)),
            noise: Noise::default(),
            arrivals: Arrivals::default(),
            standstills: MachineStandstills::default(),
            admin: Admin::new(Arc::clone(&program), changes, policies, *seed),
            programs: Programs::new(program, settings, costs, *seed),
            seed: *seed,
            end: duration.map_or(Instant::FAR_FUTURE, |duration| Instant::ZERO.saturating_add(duration)),
            patience: Patience::for_tasks(instances),
        };
        machine.kernel.when_refused(machine.programs.program.on_refused);
        machine.boot()?;
        Ok(machine)
    }

    /// Creates every instance and sets its start.
    fn boot(&mut self) -> Result<(), SimError> {
        let Self { kernel, programs, admin, .. } = self;
        let program = Arc::clone(&programs.program);
        kernel.draw_lateness(self.seed);
        kernel.draw_spreads(self.seed);
        admin.groups.announce(kernel)?;
        cpuset::announce_domains(kernel);
        admin.plan(kernel);
        for (def, task) in program.tasks.iter().enumerate() {
            if task.group.is_some_and(|group| program.comes_later(group)) {
                continue; // They are created with their group.
            }
            for instance in 0..task.instances {
                let in_turn = || isolation::birthplace(kernel, programs.tasks.len());
                let born_on = task.created_on.unwrap_or_else(in_turn);
                let id = admin.groups.create_task(kernel, programs, def, instance, None, born_on)?;
                kernel.arm_task_timer(id, born_on, Instant::ZERO.saturating_add(task.delay));
            }
        }
        programs.announce_queues(kernel);
        self.arrivals.announce(kernel, &program, self.seed);
        let work = &program.kernel_work;
        kernel.use_softirq_threads(work.are_softirqs_threaded, &work.softirq_threads);
        self.noise.add_lines(kernel, &program.kernel_work.lines, self.seed);
        self.standstills.plan(kernel, self.seed);
        isolation::plan_remote_ticks(kernel);
        kernel.watch_policy(CpuId(0));
        for cpu in (0..kernel.nr_cpus()).map(CpuId::from_index) {
            kernel.update_tick(cpu);
        }
        Ok(())
    }

    /// Adds a source of interrupts; its first comes after one distance.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn add_source(&mut self, def: IrqSource) {
        self.noise.add(&mut self.kernel, def, self.seed);
    }

    /// Delays the ticks of each CPU by random times, drawn anew for each tick: virtual CPUs do not
    /// always run on a real one.
    ///
    /// Which of several CPUs ticks first then differs from tick to tick, and a CPU that ticks
    /// before the one that counts ticks sees a count that is one short
    /// ([`Scheduler::count_tick`](zerolag_core::Scheduler::count_tick)). Until this is called all
    /// CPUs tick at the same instant, in order of CPU.
    ///
    /// The delay takes time from no task: the current one runs on. A delay of a period or more is
    /// cut to the period less a nanosecond.
    pub fn delay_ticks(&mut self, by: Dist) {
        self.kernel.delay_ticks(by, self.seed);
    }

    /// Delays the ticks of CPUs that run in turns on a single real one, as virtual CPUs do in an
    /// emulator: `first_permille` of all ticks begin with CPU 0 and the others with another CPU,
    /// and each CPU that follows, in a ring, ticks by `turn` later.
    ///
    /// It replaces [`delay_ticks`](Self::delay_ticks). Here the first CPU that ticks counts, so
    /// none sees a count that is one short.
    pub fn tick_in_turns(&mut self, turn: Duration, first_permille: u32) {
        self.kernel.tick_in_turns(turn, first_permille, self.seed);
    }

    /// Runs until the end, handing every record to `sink`.
    pub fn run(&mut self, sink: &mut impl Sink) -> Outcome {
        self.run_with(sink, |_, _| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run), and tells `progress` now and then the simulated time that the run has
    /// reached; `progress` can end the run there ([`End::Interrupted`]).
    pub fn run_with(
        &mut self,
        sink: &mut impl Sink,
        progress: impl FnMut(Instant, &Stats) -> ControlFlow<()>,
    ) -> Outcome {
        self.advance(Instant::FAR_FUTURE, sink, progress);
        self.finish(sink)
    }

    /// Runs up to and with the events of an instant, and stops before the next ones.
    ///
    /// A run that is stopped any number of times, and goes on in the machine or in a clone of it,
    /// gives the records and the outcome of a run that is not. The last records before the pause
    /// can come with the next call. A run that has ended before stays there; [`run`](Self::run)
    /// then closes its books.
    pub fn run_until(&mut self, at: Instant, sink: &mut impl Sink) {
        self.advance(at, sink, |_, _| ControlFlow::Continue(()));
    }

    /// Goes on with the changes of another program, which differs from that of the machine only in
    /// the values of changes at later times: as if it had run that one from the start.
    ///
    /// ```
    /// # use zerolag_model::{Duration, Instant};
    /// # use zerolag_sim::{Machine, Outcome, Sink};
    /// # use zerolag_workload::program::Program;
    /// /// Runs two programs that differ from 10 s on.
    /// fn both(mut machine: Machine, other: &Program, [one, two]: [&mut impl Sink; 2]) -> [Outcome; 2] {
    ///     machine.run_until(Instant::ZERO + Duration::from_millis(9_999), one);
    ///     let mut branch = machine.clone();
    ///     branch.follow_changes_of(other);
    ///     [machine.run(one), branch.run(two)]
    /// }
    /// ```
    ///
    /// # Panics
    /// If the changes are not at the same times, or not of the same kinds.
    pub fn follow_changes_of(&mut self, program: &Program) {
        self.admin.follow(program.plan().into());
    }

    /// Handles events up to a pause, or to the end.
    #[inline]
    fn advance(
        &mut self,
        pause: Instant,
        sink: &mut impl Sink,
        mut progress: impl FnMut(Instant, &Stats) -> ControlFlow<()>,
    ) {
        let mut countdown = self.patience.steps;
        let mut seen = None;
        while !self.kernel.is_stopped() && self.step(pause) {
            self.kernel.drain_trace(sink);
            countdown -= 1;
            if countdown == 0 {
                countdown = self.patience.steps;
                let now = self.kernel.now();
                if !self.patience.lasts(&mut seen, now) {
                    self.kernel.end_run(End::NoTime { cpu: None, at: now });
                } else if progress(now, self.kernel.stats()).is_break() {
                    self.kernel.interrupt_run();
                }
            }
        }
    }

    /// Handles the next event or the ticks up to a pause; `false` when nothing is left before it,
    /// or before the end.
    #[inline(always)]
    fn step(&mut self, pause: Instant) -> bool {
        let tick = self.kernel.next_tick();
        let until = self.end.min(pause);
        let limit = tick.map_or(until, |tick| tick.min(until));
        if let Some(event) = self.kernel.next_event(limit, until) {
            if let Some(cpu) = self.dispatch(event) {
                self.drive_last(cpu);
            }
        } else if tick.is_some_and(|tick| tick <= until) {
            self.tick_all();
        } else if pause < self.end {
            return false;
        } else {
            if tick.is_none() && (!self.kernel.has_events() || self.all_wait_for_each_other()) {
                let waits = self.programs.waits(&self.kernel);
                self.kernel.end_run(if waits.is_empty() { End::Finished } else { End::Stuck(waits) });
            }
            return false;
        }
        if self.programs.alive() == 0 && !self.admin.has_changes() {
            self.kernel.end_run(End::Finished);
        }
        true
    }

    /// Handles an event. Returns the CPU that is still to be driven, if one is. That is the last
    /// thing to be done, so its path may go on without an event.
    #[inline(always)]
    fn dispatch(&mut self, event: Event) -> Option<CpuId> {
        match event {
            Event::Completion { cpu, generation } => self.kernel.completes(cpu, generation).then_some(cpu),
            Event::PathEnd { cpu } => self.kernel.path_ends(cpu).then_some(cpu),
            Event::LockFree { rq } => {
                if let Some(waiter) = self.kernel.grant_lock(rq) {
                    self.drive(waiter);
                    self.kernel.after_grant(rq, waiter);
                }
                None
            }
            Event::SearchEnds { cpu } => {
                self.kernel.clock(cpu);
                Some(cpu)
            }
            Event::Interrupt { cpu, what } => self.interrupt(cpu, what),
            Event::RqTimer { cpu, timer, generation } => {
                let is_due = self.kernel.is_due(cpu, timer, generation);
                if is_due { self.interrupt(cpu, Interrupt::RqTimer(timer)) } else { None }
            }
            Event::GroupTimer { cpu, group, timer, generation } => {
                let is_due = self.kernel.is_current_group_timer(group, timer, generation);
                if is_due { self.interrupt(cpu, Interrupt::GroupTimer(group, timer)) } else { None }
            }
            Event::TaskTimer { cpu, task } => self.interrupt(cpu, Interrupt::TaskTimer(task)),
            Event::SlackTimer { cpu } if !self.kernel.is_slack_timer_left(cpu) => None,
            Event::SlackTimer { cpu } => self.interrupt(cpu, Interrupt::SlackTimer),
            Event::ExtensionOver { cpu, nth } if !self.kernel.is_extended(cpu, nth) => None,
            Event::ExtensionOver { cpu, .. } => self.interrupt(cpu, Interrupt::ExtensionOver),
            Event::LateTick { cpu } => {
                let ticked = self.kernel.late_tick(cpu);
                self.after_tick(cpu, ticked)
            }
            Event::PagesRead { cpu, file, window } => self.interrupt(cpu, Interrupt::PagesRead { file, window }),
            Event::Change { index } => {
                self.change_due(index);
                None
            }
            Event::Source { index } => {
                let cpu = self.noise.fires(&mut self.kernel, index)?;
                self.interrupt(cpu, Interrupt::Source(index))
            }
            Event::StandsStill { cpu } => {
                self.stand_still(cpu);
                None
            }
            Event::PolicyWatch { cpu } | Event::PolicyTimer { cpu } => {
                let may_end = self.end == Instant::FAR_FUTURE && !self.kernel.is_under_way();
                // Nothing can wake a task any more: the run is over.
                if may_end && self.all_wait_for_each_other() {
                    None
                } else {
                    let watches = matches!(event, Event::PolicyWatch { .. });
                    self.interrupt(cpu, if watches { Interrupt::PolicyWatch } else { Interrupt::PolicyTimer })
                }
            }
            Event::RemoteTicks => {
                self.remote_ticks();
                None
            }
            Event::Arrival { source } => {
                let request = self.programs.next_number(self.arrivals.queue_of(source));
                let cpu = self.arrivals.arrives(&mut self.kernel, source, request);
                self.interrupt(cpu, Interrupt::Arrival(source))
            }
        }
    }

    fn tick_all(&mut self) {
        self.kernel.begin_ticks();
        let mut from = CpuId(0);
        while let Some(cpu) = self.kernel.next_ticking(from) {
            from = CpuId(cpu.0 + 1);
            let ticked = self.kernel.tick_due(cpu);
            if let Some(cpu) = self.after_tick(cpu, ticked) {
                self.drive(cpu);
            }
        }
    }

    /// Returns the CPU if it is to be driven.
    #[inline]
    #[must_use]
    fn after_tick(&mut self, cpu: CpuId, ticked: Ticked) -> Option<CpuId> {
        match ticked {
            Ticked::Done => None,
            Ticked::Drive => Some(cpu),
            Ticked::Interrupt => self.interrupt(cpu, Interrupt::Tick),
        }
    }

    fn change_due(&mut self, index: u32) {
        for cpu in self.admin.due(&mut self.kernel, &self.programs.program, index) {
            self.interrupt_one(cpu, Interrupt::Change(index));
        }
    }

    /// A second is over: the tasks that run without a tick are charged.
    fn remote_ticks(&mut self) {
        let by = isolation::arm_remote_ticks(&mut self.kernel);
        let mut from = CpuId(0);
        while let Some(of) = isolation::next_without_tick(&self.kernel, from, by) {
            from = CpuId(of.0 + 1);
            self.interrupt_one(by, Interrupt::RemoteTick(of));
        }
    }

    /// An interrupt reaches a CPU. Returns the CPU if it is to be driven.
    #[must_use]
    fn interrupt(&mut self, cpu: CpuId, what: Interrupt) -> Option<CpuId> {
        if !self.kernel.takes_interrupt(cpu, what) {
            return None;
        }
        let job = self.handle(cpu, what);
        job.is_none_or(|job| self.execute_of_interrupt(cpu, job).is_ok()).then_some(cpu)
    }

    /// One of several interrupts of an instant reaches a CPU.
    fn interrupt_one(&mut self, cpu: CpuId, what: Interrupt) {
        if let Some(cpu) = self.interrupt(cpu, what) {
            self.drive(cpu);
        }
    }

    /// A timer has fired on a CPU: those whose sleep may end by now fire with it.
    #[inline(never)]
    fn fire_slack_timers(&mut self, cpu: CpuId) {
        while let Some(task) = self.kernel.next_slack_timer(cpu) {
            let job = self.programs.timer_due(&mut self.kernel, cpu, task);
            self.kernel.push_jobs(cpu, job);
        }
    }

    /// Spends an interrupt's own time and returns the job that it brings.
    #[inline(always)]
    fn handle(&mut self, cpu: CpuId, what: Interrupt) -> Option<Job> {
        let kernel = &mut self.kernel;
        kernel.begin_handler(cpu, what);
        if what.is_timer() && kernel.has_slack_timers(cpu) {
            self.fire_slack_timers(cpu);
        }
        let kernel = &mut self.kernel;
        match what {
            Interrupt::Tick => Some(Job::Tick),
            Interrupt::Softirq => Some(Job::Carry { step: kernel.take_softirq(cpu), then_pick: false }),
            Interrupt::RemoteTick(of) => Some(Job::RemoteTick(of)),
            Interrupt::PolicyWatch => {
                kernel.watch_policy(cpu);
                None
            }
            Interrupt::PolicyTimer => {
                kernel.fire_policy_timers(cpu);
                None
            }
            Interrupt::TaskTimer(task) => self.programs.timer_due(kernel, cpu, task),
            Interrupt::SlackTimer | Interrupt::ExtensionOver => None, // See above, and `begin_handler`.
            Interrupt::RqTimer(timer) => Some(Job::Timer(timer)),
            Interrupt::GroupTimer(group, timer) => Some(Job::GroupTimer(group, timer)),
            Interrupt::Rebuild => Some(Job::Rebuild),
            Interrupt::Change(change) => Some(Job::Change(change)),
            Interrupt::Ended(task) => {
                kernel.cut_off(cpu, task);
                None
            }
            Interrupt::Arrival(source) => {
                let incoming = self.arrivals.accept(source);
                let by = Sender::Source { index: source as usize, nth: incoming.nth };
                self.programs.accept(kernel, cpu, incoming.queue, WaitingRequest { request: incoming.request, by })
            }
            Interrupt::PagesRead { file, window } => self.programs.pages_read(kernel, cpu, file, window),
            Interrupt::Resched => {
                self.programs.after_request(kernel, cpu);
                None
            }
            Interrupt::StandsStill(why) => {
                kernel.stand_as_owed(cpu, why);
                None
            }
            Interrupt::Source(index) => {
                let left = self.noise.serve(kernel, cpu, index);
                if let Some(left) = kernel.after_handler(cpu, left) {
                    self.programs.follow_interrupt(kernel, cpu, left);
                }
                None
            }
            Interrupt::Works => kernel.begin_works(cpu),
            Interrupt::Noticed => kernel.take_works(cpu),
        }
    }

    /// Drives a CPU while something else is still to be done at this instant.
    #[inline(always)]
    fn drive(&mut self, cpu: CpuId) {
        self.kernel.share_time();
        self.drive_last(cpu);
    }

    /// Does everything that a CPU has to do at this instant, and up to the end of its path if that
    /// comes before anything else. The CPU is in the kernel.
    fn drive_last(&mut self, cpu: CpuId) {
        // Each turn consumes a job, an interrupt, a preemption or a program action; actions without
        // end are stopped by `interpret`, and everything else that has no end by the turns' number.
        let mut turns = self.patience.turns;
        let mut since = self.kernel.now();
        loop {
            turns -= 1;
            if turns == 0 {
                if since == self.kernel.now() {
                    return self.give_up(cpu);
                }
                // The path has gone on for long: the main loop looks at the time.
                (turns, since) = (self.patience.turns, self.kernel.now());
                self.kernel.share_time();
            }
            match self.kernel.ahead(cpu) {
                Ahead::Nothing => return,
                Ahead::Again => {}
                Ahead::Job(Job::Switch(why)) => {
                    if self.switch(cpu, Some(why)).is_err() {
                        return;
                    }
                }
                Ahead::Job(job) => {
                    if self.execute(cpu, job).is_err() {
                        return;
                    }
                }
                Ahead::Interrupt(what) => {
                    let job = self.handle(cpu, what);
                    if job.is_some_and(|job| self.execute_of_interrupt(cpu, job).is_err()) {
                        return;
                    }
                }
                Ahead::Left(left) => self.programs.follow_interrupt(&mut self.kernel, cpu, left),
                Ahead::Switch => {
                    if self.switch(cpu, Some(Leave::Preempted)).is_err() {
                        return;
                    }
                }
                Ahead::Program => self.programs.interpret(&mut self.kernel, cpu),
            }
        }
    }

    /// Ends a run in which one CPU does not come to rest.
    #[cold]
    fn give_up(&mut self, cpu: CpuId) {
        let at = self.kernel.now();
        self.kernel.end_run(End::NoTime { cpu: Some(cpu), at });
        self.kernel.discard_jobs();
    }

    /// As [`execute`](Self::execute). Most jobs of interrupts wake a task.
    #[inline(always)]
    fn execute_of_interrupt(&mut self, cpu: CpuId, job: Job) -> Done {
        match job {
            Job::Wake { task, why, target } => self.programs.wake_foreseen(&mut self.kernel, cpu, task, why, target),
            job => self.execute(cpu, job),
        }
    }

    /// Does one job if its locks can be had. If not, it is again the CPU's next job.
    fn execute(&mut self, cpu: CpuId, job: Job) -> Done {
        let Self { kernel, programs, admin, .. } = self;
        match job {
            Job::Switch(why) => self.switch(cpu, Some(why)),
            Job::Pick => self.switch(cpu, None),
            Job::Carry { step, then_pick } => kernel.carry(cpu, step, then_pick),
            Job::Wake { task, why, target } => programs.wake_foreseen(kernel, cpu, task, why, target),
            Job::Lend { task } => kernel.lend(cpu, task),
            Job::SetAttr(attr) => kernel.set_attr(cpu, attr),
            Job::SetAffinity => kernel.set_affinity(cpu),
            Job::Weigh { group, on } => groups::follow_weight(kernel, cpu, group, on),
            Job::FollowBudgets { on } => groups::follow_budgets(kernel, cpu, on),
            Job::GroupTimer(group, timer) => kernel.group_timer(cpu, group, timer),
            Job::RemoteTick(of) => kernel.remote_tick(cpu, of),
            Job::Tick => kernel.tick_job(cpu),
            Job::Timer(timer) => kernel.rq_timer(cpu, timer),
            Job::Remote(work) => kernel.remote_work(cpu, work),
            Job::Inherit { holder, depth } => programs.inherit(kernel, cpu, holder, depth),
            Job::SetGroup(group) => admin.groups.move_current(kernel, cpu, group),
            Job::Fork(def) => {
                admin.groups.fork(kernel, programs, cpu, def);
                Ok(())
            }
            Job::Policy(job) => kernel.policy_job(cpu, job),
            Job::Rebuild => hotplug::rebuild_domains(kernel, cpu),
            Job::ChangeTask { task, change } => admin.change_task(kernel, programs, cpu, task, change),
            Job::Change(change) => {
                if admin.make(kernel, programs, cpu, change)? == Follows::Rebuild {
                    self.rebuild_others(cpu);
                }
                Ok(())
            }
        }
    }

    /// A CPU stands still, or all do. A machine that nothing can wake any more is no longer asked.
    #[cold]
    fn stand_still(&mut self, cpu: Option<CpuId>) {
        if self.end == Instant::FAR_FUTURE && !self.kernel.is_under_way() && self.all_wait_for_each_other() {
            return;
        }
        let (why, time) = self.standstills.begin(&mut self.kernel, cpu);
        for cpu in cpu.map_or_else(|| self.kernel.topology().cpus().collect(), |cpu| vec![cpu]) {
            if self.kernel.is_online(cpu) && self.kernel.stand_still(cpu, why, time) {
                self.drive(cpu);
            }
        }
    }

    fn rebuild_others(&mut self, cpu: CpuId) {
        for other in (0..self.kernel.nr_cpus()).map(CpuId::from_index).filter(|other| *other != cpu) {
            self.interrupt_one(other, Interrupt::Rebuild);
        }
    }

    /// Chooses the next task of a CPU, which leaves its current one before, unless it has done so
    /// already: under one hold of the lock of its run queue.
    #[inline(always)]
    fn switch(&mut self, cpu: CpuId, leaves: Option<Leave>) -> Done {
        let is_preempted = leaves == Some(Leave::Preempted);
        if !(is_preempted && self.kernel.is_ready_to_preempt(cpu)) {
            self.kernel.lock_to_switch(cpu, leaves)?;
            if !(is_preempted && self.kernel.may_preempt_at_once(cpu)) {
                return self.leave_and_pick(cpu, leaves);
            }
        }
        if self.preempt(cpu) { Ok(()) } else { self.leave_and_pick(cpu, leaves) }
    }

    #[inline(never)]
    fn leave_and_pick(&mut self, cpu: CpuId, leaves: Option<Leave>) -> Done {
        let clock = self.kernel.clock_in_path(cpu);
        if let Some(dead) = leaves.and_then(|why| self.kernel.leave(cpu, clock, why)) {
            self.programs.bury(dead);
            self.admin.groups.remove_emptied(&mut self.kernel, cpu);
        }
        let step = match self.kernel.pick_locked(cpu, clock) {
            Ok(step) => step,
            Err(first) => return self.kernel.carry(cpu, first, true),
        };
        if let Some(task) = self.kernel.load(cpu) {
            self.programs.peek_work(&mut self.kernel, cpu, task);
        }
        self.kernel.share_core(cpu);
        self.kernel.carry(cpu, step, false)
    }

    /// Switches from the current task to the next one, or to itself, if that is one step. Returns
    /// whether it was.
    #[inline(never)]
    fn preempt(&mut self, cpu: CpuId) -> bool {
        let is_done = self.kernel.preempt(cpu);
        if is_done {
            if let Some(task) = self.kernel.load(cpu) {
                self.peek_work(cpu, task);
            }
            self.kernel.share_core(cpu);
        }
        is_done
    }

    /// Out of line: a preempted task mostly has a computation to go on with.
    #[inline(never)]
    fn peek_work(&mut self, cpu: CpuId, task: TaskId) {
        self.programs.peek_work(&mut self.kernel, cpu, task);
    }

    /// Returns whether no event that is still to come (a server's next period, a quota's refresh)
    /// can wake a task.
    fn all_wait_for_each_other(&self) -> bool {
        let idle = || self.programs.idle_workers(|queue| self.arrivals.are_over(queue));
        !self.admin.has_changes() && self.programs.waits(&self.kernel).len() + idle() == self.programs.alive()
    }

    /// Closes the books.
    fn finish(&mut self, sink: &mut impl Sink) -> Outcome {
        let why = self.kernel.take_end();
        let (why, left_waiting) = self.pardon(why);
        let kernel = &mut self.kernel;
        let end = match why {
            None => self.end,
            Some(End::Lockup { since, stretch, .. }) => since + stretch,
            Some(_) => kernel.now(),
        };
        kernel.go_to_end(end);
        kernel.flush_trace(end, sink);
        kernel.close_accounts(end);
        self.admin.groups.emit_totals(kernel);
        kernel.flush_trace(end, sink);
        let (refused, policy_exit) = (kernel.take_refused(), kernel.scheduler().ext_exit().map(Box::new));
        let (why, stats) = (why.unwrap_or(End::Duration), kernel.final_stats());
        Outcome { end, why, stats, left_waiting, policy_exit, refused }
    }

    /// A run of a given duration does not fail because tasks wait at its end, if none waits for a
    /// lock that another one holds. Returns these waits apart from the reason of the end.
    fn pardon(&self, why: Option<End>) -> (Option<End>, Vec<Wait>) {
        let is_harmless = |waits: &[Wait]| waits.iter().all(|wait| wait.holder.is_none());
        match why {
            Some(End::Stuck(waits)) if self.end != Instant::FAR_FUTURE && is_harmless(&waits) => (None, waits),
            why => (why, Vec::new()),
        }
    }

    /// Checks what must hold of the scheduler's shared state when nothing is under way.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn check_quiescent(&self) -> Result<(), String> {
        if self.kernel.is_under_way() { Ok(()) } else { self.kernel.check_quiescent() }
    }
}

/// Returns how many groups a run makes in all.
fn groups_ever(program: &Program, changes: &[TimedChange]) -> usize {
    program.groups.len() + changes.iter().filter(|change| matches!(change.what, Change::Create { .. })).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::End;
    use zerolag_model::{KernelVersion, SchedAttr};
    use zerolag_workload::program::{Action, TaskDef};

    /// A machine whose tasks all begin at the same instant, on one CPU and at no cost.
    fn crowd(tasks: u32, patience: impl Fn(Patience) -> Patience) -> End {
        let turn = vec![Action::Run(Dist::Constant(Duration::from_micros(1)))];
        let task = TaskDef { instances: tasks, turns: Some(1), ..TaskDef::looping("crowd", SchedAttr::NORMAL, turn) };
        let config = MachineConfig {
            topology: Topology::flat(1).expect("one CPU"),
            settings: KernelVersion::default().settings(),
            costs: Costs::zero(),
            seed: 1,
            duration: None,
        };
        let program = Arc::new(Program { tasks: vec![task], ..Program::default() });
        let mut machine = Machine::new(program, &config, Tracing::Off).expect("it fits");
        machine.patience = patience(machine.patience);
        machine.run(&mut Vec::new()).why
    }

    #[test]
    fn a_run_that_stays_at_an_instant_is_ended() {
        let at = Instant::ZERO;
        let looks = crowd(200, |usual| Patience { steps: 8, looks: 4, ..usual });
        assert_eq!(looks, End::NoTime { cpu: None, at });
        let turns = crowd(200, |usual| Patience { turns: 1, ..usual });
        assert_eq!(turns, End::NoTime { cpu: Some(CpuId(0)), at });
        assert!(looks.to_string().starts_with("the CPUs do not come to rest at "), "{looks}");
        assert!(turns.to_string().starts_with("cpu 0 does not come to rest at "), "{turns}");
    }

    #[test]
    fn many_tasks_that_are_due_at_one_instant_are_legal() {
        assert_eq!(crowd(50_000, |usual| usual), End::Finished);
    }
}
