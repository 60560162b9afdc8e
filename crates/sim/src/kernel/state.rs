//! [`Kernel`]: the state of the simulated kernel, and access to it for the parts above.
//!
//! Devices, programs and the administration all act on the kernel, and each could reach into a CPU
//! to do so. Then no rule of a CPU (which time is charged where, when a completion is void) could
//! be read in one place. So the fields are private to this folder: the parts above queue jobs, set
//! a computation, or have the core called under a lock, by methods. The compiler sees to it that no
//! program touches a CPU.
//!
//! The kernel is one value, because a kernel path touches all of it. Each part has a concern and a
//! module, and keeps to itself what only it may change.

use crate::costs::Costs;
use crate::kernel::body::{Body, Extensions};
use crate::kernel::books::Books;
use crate::kernel::cache_lines::CacheLines;
use crate::kernel::calls::Calls;
use crate::kernel::cpu::{Cpu, Segment, Spinner};
use crate::kernel::menu::Menu;
use crate::kernel::rules::Rules;
use crate::kernel::shared_lines::SharedLines;
use crate::kernel::softirq_threads::SoftirqThreads;
use crate::kernel::spread::{Drawn, Draws};
use crate::kernel::ticking::Ticks;
use crate::kernel::time::Time;
use crate::kernel::timing::Timers;
use crate::kernel::words::{Begins, Done, Event, Job, Spins};
use crate::outcome::{End, Refused, SimError, Stats};
use crate::queue::Phase;
use crate::states::StateLog;
use std::sync::Arc;
use zerolag_core::{Clock, Config, GroupError, LockId, Parcel, RtBandwidthError, Scheduler, Step, TaskError, Tracing};
use zerolag_model::settings::IdleGovernor;
use zerolag_model::state::StateHistory;
use zerolag_model::{
    CpuId, CpuLayer, CpuMask, Duration, GroupId, Instant, Record, RtBandwidth, Settings, TaskId, Topology, TraceEvent,
};
use zerolag_workload::program::OnRefused;

/// The lock inside the core's shared state: never contended here, one thread runs the machine.
pub(crate) type InnerLock = spin::Mutex<()>;

/// The simulated kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(super) topology: Topology,
    pub(super) costs: Costs,
    pub(super) rules: Rules,
    pub(super) scheduler: Scheduler<InnerLock>,
    pub(super) cpus: Vec<Cpu>,
    /// The bodies of all tasks, by id.
    pub(super) bodies: Vec<Body>,
    pub(super) time: Time,
    pub(super) ticks: Ticks,
    pub(super) timers: Timers,
    pub(super) calls: Calls,
    pub(super) draws: Draws,
    /// Counts do not always cost the same: operations are drawn, or lines have owners.
    pub(super) costs_vary: bool,
    pub(super) cache_lines: CacheLines,
    /// Cache lines with owners, if the costs have any.
    pub(super) shared_lines: Option<Box<SharedLines>>,
    /// The guesses of idle times, if idle states are guessed.
    pub(super) menu: Option<Box<Menu>>,
    pub(super) softirq_threads: SoftirqThreads,
    /// The tasks that spin for the holder of a lock.
    pub(super) spinners: Vec<Spinner>,
    pub(super) extensions: Extensions,
    pub(super) books: Books,
}

impl Clone for Kernel {
    fn clone(&self) -> Self {
        Self {
            topology: self.topology.clone(),
            costs: self.costs.clone(),
            rules: self.rules,
            scheduler: self.scheduler.snapshot(),
            cpus: self.cpus.clone(),
            bodies: self.bodies.clone(),
            time: self.time.clone(),
            ticks: self.ticks.clone(),
            timers: self.timers.clone(),
            calls: self.calls.clone(),
            draws: self.draws.clone(),
            costs_vary: self.costs_vary,
            cache_lines: self.cache_lines.clone(),
            shared_lines: self.shared_lines.clone(),
            menu: self.menu.clone(),
            softirq_threads: self.softirq_threads.clone(),
            spinners: self.spinners.clone(),
            extensions: self.extensions,
            books: self.books.clone(),
        }
    }
}

impl Kernel {
    /// Keeps the scheduler's numbers at its decisions from now on.
    pub(crate) fn keep_states(&mut self) {
        self.books.states = Some(Box::new(StateLog::new(self.cpus.len())));
        self.scheduler.keep_policy_steps([]);
    }

    /// Returns the numbers that were kept; none are kept any more.
    pub(crate) fn take_states(&mut self) -> Option<StateHistory> {
        self.books.states.take().map(|states| states.finish())
    }

    /// Draws from streams of this seed how long operations take, if the costs say so.
    pub(crate) fn draw_spreads(&mut self, seed: u64) {
        self.draws.start_spreads(&self.costs, seed);
        self.costs_vary |= self.draws.has_spreads();
    }

    /// Spends what operations of a CPU take on top of their entry of the costs.
    #[cold]
    #[inline(never)]
    pub(super) fn spend_more(&mut self, cpu: CpuId, what: Drawn, times: u32) {
        for _ in 0..times {
            let more = self.more(what);
            self.cpus[cpu.index()].spend(CpuLayer::Sched, more);
        }
    }

    /// Returns what an operation takes on top of its entry of the costs.
    pub(super) fn more(&mut self, what: Drawn) -> Duration {
        self.draws.more(&self.costs, what)
    }

    /// Builds the kernel of a machine that will have so many tasks at first and so many locks.
    pub(crate) fn new(
        core: Config,
        costs: Costs,
        settings: &Settings,
        tasks: usize,
        locks: usize,
        (tracing, begins): (Tracing, Begins),
    ) -> Self {
        let topology = core.topology().clone();
        let mut scheduler = Scheduler::new(core);
        match begins {
            Begins::With(Some(policy)) => scheduler.load_policy(policy),
            Begins::With(None) => {}
            Begins::Without => scheduler.expect_policies(),
        }
        scheduler.reserve_tasks(tasks);
        if settings.proxy_exec {
            scheduler.reserve_locks(locks);
        }
        let speed = |cpu| u64::from(topology.capacity(cpu));
        let mut cpus: Vec<Cpu> = topology.cpus().map(|cpu| Cpu::new(scheduler.new_rq(cpu), speed(cpu))).collect();
        if !settings.irq_time_accounting {
            cpus.iter_mut().for_each(Cpu::own_interrupts);
        }
        let guesses = settings.idle_governor == IdleGovernor::Menu && !costs.idle_states.is_empty();
        Self {
            rules: Rules::new(settings, &costs),
            scheduler,
            bodies: Vec::with_capacity(tasks),
            time: Time::new(cpus.len()),
            ticks: Ticks::new(settings.tick_period()),
            timers: Timers::default(),
            calls: Calls::new(tracing, cpus.len(), &costs),
            draws: Draws::default(),
            costs_vary: costs.has_lines(),
            cache_lines: CacheLines::default(),
            shared_lines: SharedLines::new(cpus.len(), &costs),
            menu: guesses.then(|| Box::new(Menu::new(cpus.len()))),
            softirq_threads: SoftirqThreads::default(),
            spinners: Vec::new(),
            extensions: Extensions::default(),
            books: Books::new(tracing),
            topology,
            costs,
            cpus,
        }
    }

    /// Another CPU is to be driven at this instant, or the main loop is to look at the time: the
    /// path of a driven CPU does not go on without an event.
    #[inline(always)]
    pub(crate) const fn share_time(&mut self) {
        self.time.share();
    }

    #[inline(always)]
    pub(crate) const fn now(&self) -> Instant {
        self.time.now
    }

    pub(crate) const fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    pub(crate) const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the core. What it is asked under the lock of a run queue goes through
    /// [`locked`](Self::locked).
    pub(crate) const fn scheduler(&self) -> &Scheduler<InnerLock> {
        &self.scheduler
    }

    pub(crate) const fn costs(&self) -> &Costs {
        &self.costs
    }

    pub(crate) const fn stats(&self) -> &Stats {
        &self.books.stats
    }

    /// Ends the run.
    pub(crate) fn end_run(&mut self, why: End) {
        self.time.stop = Some(why);
    }

    /// Ends the run, unless it already has a reason to.
    pub(crate) fn interrupt_run(&mut self) {
        self.time.stop.get_or_insert(End::Interrupted);
    }

    /// Sets what follows from now on when something is refused ([`Self::refuse`]).
    pub(crate) fn when_refused(&mut self, then: OnRefused) {
        self.books.refused = (then == OnRefused::Continue).then(Box::default);
    }

    /// Ends the run because something is refused, or notes it.
    pub(crate) fn refuse(&mut self, error: SimError) {
        match &mut self.books.refused {
            Some(refused) if error.is_answer() => refused.note(self.time.now, error),
            _ => self.time.stop = Some(End::Failed(error)),
        }
    }

    /// Notes what is refused before the run begins.
    ///
    /// # Errors
    /// The run is not to go on when something is refused, or this is no answer of the kernel.
    pub(crate) fn refuse_at_start(&mut self, error: SimError) -> Result<(), SimError> {
        match &mut self.books.refused {
            Some(refused) if error.is_answer() => refused.note(self.time.now, error),
            _ => return Err(error),
        }
        Ok(())
    }

    /// The core refuses something for a task.
    pub(crate) fn fail(&mut self, task: TaskId, error: TaskError) {
        let name = Arc::clone(self.name(task));
        self.refuse(self.task_error(name, error));
    }

    /// Returns the core's error about a task, with names.
    pub(crate) fn task_error(&self, name: Arc<str>, error: TaskError) -> SimError {
        SimError::Task { name, group: self.books.path_of(error.group()), error }
    }

    /// Returns the core's error about a group, with names.
    pub(crate) fn group_error(&self, path: Arc<str>, error: GroupError) -> SimError {
        SimError::Group { path, above: self.books.path_of(error.above()), error }
    }

    /// Returns the core's error about the bandwidth of real-time tasks, with names.
    pub(crate) fn rt_bandwidth_error(&self, bandwidth: RtBandwidth, error: RtBandwidthError) -> SimError {
        SimError::RtBandwidth { bandwidth, group: self.books.path_of(error.group()), error }
    }

    /// A group of the core has this path from now on.
    pub(crate) fn name_group(&mut self, group: GroupId, path: Arc<str>) {
        self.scheduler.describe_group(group, &path);
        self.books.name_group(group, path);
    }

    /// Returns whether the run goes on when something is refused.
    pub(crate) const fn goes_on_when_refused(&self) -> bool {
        self.books.refused.is_some()
    }

    /// Takes what was refused out.
    pub(crate) fn take_refused(&mut self) -> Refused {
        self.books.refused.take().map(|refused| *refused).unwrap_or_default()
    }

    #[inline(always)]
    pub(crate) const fn is_stopped(&self) -> bool {
        self.time.stop.is_some()
    }

    /// Takes the reason for the end of the run out.
    pub(crate) const fn take_end(&mut self) -> Option<End> {
        self.time.stop.take()
    }

    #[inline(always)]
    pub(crate) fn current(&self, cpu: CpuId) -> Option<TaskId> {
        self.cpus[cpu.index()].current
    }

    pub(crate) fn name(&self, task: TaskId) -> &Arc<str> {
        &self.bodies[task.index()].name
    }

    /// Returns whether the scheduler's body of a task is on no run queue.
    pub(crate) fn is_parked(&self, task: TaskId) -> bool {
        self.bodies[task.index()].parcel.is_some()
    }

    pub(crate) fn is_online(&self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].rq.is_online()
    }

    /// Returns the CPU, or the lowest that is online while it is not.
    pub(crate) fn online_or_first(&self, cpu: CpuId) -> CpuId {
        let online = || (0..self.nr_cpus()).map(CpuId::from_index).find(|cpu| self.is_online(*cpu));
        if self.is_online(cpu) { cpu } else { online().expect("invariant: a CPU is online") }
    }

    /// Returns whether the current task of a CPU may fork.
    pub(crate) fn check_fork(&self, cpu: CpuId, parent: TaskId) -> Result<(), TaskError> {
        self.scheduler.check_fork(&self.cpus[cpu.index()].rq, parent)
    }

    /// Adds a task that is on no run queue.
    pub(crate) fn add_task(&mut self, name: Arc<str>, parcel: Parcel, period: Option<Duration>) {
        assert!(parcel.id().index() == self.bodies.len(), "tasks are numbered in order");
        self.scheduler.describe_task(parcel.id(), &name, period);
        self.bodies.push(Body::new(name, parcel));
    }

    /// Lets the scheduler hold so many tasks.
    pub(crate) fn reserve_tasks(&mut self, tasks: usize) {
        self.scheduler.reserve_tasks(tasks);
    }

    /// Returns the clocks of a CPU's run queue.
    #[inline]
    pub(crate) fn clock(&mut self, cpu: CpuId) -> Clock {
        self.cpus[cpu.index()].clock(self.time.now)
    }

    /// The same of a CPU that is driven along its path.
    #[inline(always)]
    pub(crate) fn clock_in_path(&mut self, cpu: CpuId) -> Clock {
        self.cpus[cpu.index()].clock_in_path(self.time.now)
    }

    /// Notes a job as the last of a CPU.
    #[inline]
    pub(crate) fn push_job(&mut self, cpu: CpuId, job: Job) {
        self.cpus[cpu.index()].jobs.push_back(job);
    }

    pub(crate) fn push_jobs(&mut self, cpu: CpuId, jobs: impl IntoIterator<Item = Job>) {
        self.cpus[cpu.index()].jobs.extend(jobs);
    }

    /// Notes a job as the next of a CPU.
    pub(crate) fn push_next_job(&mut self, cpu: CpuId, job: Job) {
        self.cpus[cpu.index()].jobs.push_front(job);
    }

    /// Discards all jobs: the run ends in the middle of a path.
    pub(crate) fn discard_jobs(&mut self) {
        self.cpus.iter_mut().for_each(|cpu| cpu.jobs.clear());
    }

    /// Notes the rest of a step as the next job.
    #[inline]
    pub(crate) fn push_step(&mut self, cpu: CpuId, step: Step) {
        if step != Step::Done {
            self.push_next_job(cpu, Job::Carry { step, then_pick: false });
        }
    }

    /// Puts a job back for which the CPU must spin.
    pub(crate) fn spin(&mut self, cpu: CpuId, job: Job) -> Done {
        self.push_next_job(cpu, job);
        Err(Spins)
    }

    /// Queues an event of a CPU.
    #[inline(always)]
    pub(crate) fn queue_event(&mut self, at: Instant, phase: Phase, cpu: CpuId, event: Event) {
        debug_assert!(at >= self.time.now, "{event:?} is due at {at}, before now");
        let count = self.cpus[cpu.index()].next_count();
        self.time.queue.push(at, phase, cpu, count, event);
    }

    /// Parks the scheduler's body of a task.
    pub(crate) fn park(&mut self, parcel: Parcel) {
        let task = parcel.id();
        let place = &mut self.bodies[task.index()].parcel;
        assert!(place.is_none(), "task {task} has one body");
        *place = Some(parcel);
    }

    /// Sets the affinity to which the current task is about to confine itself.
    pub(crate) fn set_new_affinity(&mut self, task: TaskId, cpus: Option<Arc<CpuMask>>) {
        self.bodies[task.index()].new_affinity = cpus;
    }

    /// Returns whether blocked tasks can lend their turns, so that the kernel must know the lock
    /// that each waits for.
    #[inline(always)]
    pub(crate) const fn lends_turns(&self) -> bool {
        self.rules.lends_turns
    }

    /// Notes the lock for whose holder a blocked task may lend its turn.
    #[inline]
    pub(crate) fn set_blocked_on(&mut self, task: TaskId, lock: Option<LockId>) {
        if self.rules.lends_turns {
            self.bodies[task.index()].blocked_on = lock;
        }
    }

    /// Starts a computation of the current task.
    #[inline]
    pub(crate) fn set_segment(&mut self, cpu: CpuId, segment: Segment) {
        let place = &mut self.cpus[cpu.index()];
        place.segment = segment;
        place.segment_since = place.busy_until;
    }

    /// Cuts off the computation that a task has not finished, whether it runs here or not.
    pub(crate) fn cut_off(&mut self, cpu: CpuId, task: TaskId) {
        let place = &mut self.cpus[cpu.index()];
        if place.current == Some(task) {
            place.segment = Segment::None;
        } else {
            self.bodies[task.index()].segment = Segment::None;
        }
    }

    /// Cuts off the computation that a task has not finished and that no CPU has loaded.
    pub(crate) fn cut_off_stored(&mut self, task: TaskId) {
        self.bodies[task.index()].segment = Segment::None;
    }

    /// Returns when the present path of a CPU ends, as far as it is known.
    pub(crate) fn path_end(&self, cpu: CpuId) -> Instant {
        self.cpus[cpu.index()].busy_until.max(self.time.now)
    }

    #[inline(always)]
    pub(crate) const fn is_traced(&self) -> bool {
        self.books.tracer.is_on()
    }

    #[inline]
    pub(crate) fn emit(&mut self, cpu: CpuId, event: TraceEvent) {
        self.emit_at(self.time.now, cpu, event);
    }

    /// As [`emit`](Self::emit), for a time that may lie ahead.
    #[inline]
    pub(crate) fn emit_at(&mut self, at: Instant, cpu: CpuId, event: TraceEvent) {
        if self.books.tracer.is_on() {
            self.books.record(self.time.now, Record { at, cpu, event });
        }
    }

    /// Hands the records up to now on.
    #[inline]
    pub(crate) fn drain_trace(&mut self, sink: &mut impl crate::trace::Sink) {
        self.books.tracer.drain(self.time.now, sink);
    }

    /// Hands all records up to the end of the run on.
    pub(crate) fn flush_trace(&mut self, end: Instant, sink: &mut impl crate::trace::Sink) {
        self.books.tracer.flush(end, sink);
    }

    /// Takes the next event out if it comes up by `limit`, and goes to its time. The CPU that is
    /// then driven last may go on without an event up to `until`.
    #[inline(always)]
    pub(crate) fn next_event(&mut self, limit: Instant, until: Instant) -> Option<Event> {
        let event = self.time.next_event(limit, until)?;
        self.books.stats.events += 1;
        Some(event)
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.time.queue.is_empty()
    }

    /// Returns how long a read of a cache line takes that another CPU has written.
    pub(crate) fn transfer(&self, from: CpuId, to: CpuId) -> Duration {
        self.costs.rq_lock_transfer.at(self.topology.distance(from, to))
    }
}
