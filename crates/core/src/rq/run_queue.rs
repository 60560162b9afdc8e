//! [`Rq`]: the state that one CPU's scheduler owns. The host keeps one value per CPU and protects
//! it with a lock.
//!
//! An `Rq` holds the bodies of its tasks, the queues of each class and the progress of a switch
//! ([`Phase`]). State that other CPUs can read is published at the end of every call
//! ([`Rq::publish`]), and nowhere else.
//!
//! ```text
//!            leave [1]                    pick -> Run, Idle [3]
//!  Running ------------> Switching(stage) ----------------------> Running
//!                         |         ^
//!                         +---------+ pick -> Balance [2]: each stage is passed once per switch
//! ```

use crate::entity::fair::QueueIx;
use crate::entity::weight::RT_LOAD;
use crate::queue::dl::rq::DlRq;
use crate::queue::ext::ExtRq;
use crate::queue::fair::averages::CpuAverages;
use crate::queue::fair::rq::FairRq;
use crate::queue::published::{PublishedCounts, PublishedDeadlines, PublishedPrios};
use crate::queue::rt::rq::RtRq;
use crate::rq::cx::Cx;
use crate::rq::ticks::Ticks;
use crate::shared::cpudl::DlLevel;
use crate::task::body::Task;
use crate::task::slab::TaskSlab;
use crate::words::atomic_mask::Threads;
use crate::words::clock::Clock;
use crate::words::config::Config;
use crate::words::ids::{CpusetId, Slot};
use crate::words::lines::LineAccess;
use crate::words::mode::TaskMode;
use crate::words::resched::Request;
use crate::words::step::Stay;
use crate::words::unpublished::Unpublished;
use alloc::boxed::Box;
use core::sync::atomic::{Ordering, fence};
use lock_api::RawMutex;
use zerolag_model::{
    ClassId, CpuId, Duration, Instant, PrevState, Prio, ServerKind, ServerParams, ServerState, Settings,
    SignedDuration, TaskId,
};

/// The run queue of one CPU.
///
/// Its fields, and those of its classes, are in the order of their use, so that a wakeup and a
/// switch touch few lines of the cache, and `Rq` begins with those of every call.
#[derive(Debug)]
#[repr(C)]
pub struct Rq {
    cpu: CpuId,
    /// The task that was picked: the donor, if another runs in its place.
    current: Option<Slot>,
    phase: Phase,
    pub(super) request: Request,
    is_online: bool,
    /// Fair tasks are neither moved here nor moved away (`isolcpus`).
    is_isolated: bool,
    /// The rule by which it stops its tick.
    ticks: Ticks,
    /// The published fields that may be out of date. Noted wherever tasks are enqueued, are
    /// dequeued or become current.
    unpublished: Unpublished,
    /// The number of queued tasks that lend their turn.
    lending: u32,
    /// The task clock: wall time less interrupts. Wall time is part of the call ([`Cx::now`]).
    clock_task: Instant,
    /// The task that runs in place of the current one, because it holds a lock that the current one
    /// waits for ([`crate::balance::proxy`]).
    executor: Option<Executor>,
    /// Task clock up to which the current idle time is accounted; `None` while a task runs.
    idle_since: Option<Instant>,
    nr_switches: u64,
    pub(crate) tasks: TaskSlab,
    published: Published,
    pub(crate) rt: RtRq,
    pub(crate) dl: DlRq,
    pub(crate) fair: FairRq,
    pub(crate) ext: ExtRq,
    /// The time of the last call, to detect a host with a clock that goes back.
    #[cfg(debug_assertions)]
    called: Instant,
}

/// The task that runs on the turn of the current task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Executor {
    pub(crate) slot: Slot,
    /// The donor's counter of exec time at the last settlement.
    pub(crate) settled: Duration,
}

/// The progress of a switch on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// `current` runs, or the CPU idles.
    Running,
    /// Between `leave` and the end of `pick`.
    Switching {
        /// The task that the CPU leaves.
        prev: Prev,
        /// The searches already made for this switch.
        stage: Stage,
    },
}

/// The task that a CPU is leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prev {
    pub(crate) task: Option<TaskId>,
    pub(crate) prio: Prio,
    pub(crate) state: PrevState,
    pub(crate) cpuset: CpusetId,
}

/// The searches on other CPUs that `pick` has already made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// None.
    Fresh,
    /// For deadline tasks to pull.
    DlPulled,
    /// For RT tasks too.
    Pulled,
    /// For fair tasks too.
    Searched,
    /// The machine's queue of the loaded scheduler too.
    Dispatched,
}

/// The last published state of the CPU, so that only changes are published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Published {
    /// [`PublishedPrios`], packed.
    prios: u64,
    averages: CpuAverages,
    /// [`PublishedCounts`], packed.
    counts: u64,
    /// [`PublishedDeadlines`], as words.
    deadlines: [u64; 2],
    is_online: bool,
    is_idle: bool,
}

impl Rq {
    /// Returns a copy with copies of its tasks: see
    /// [`Scheduler::snapshot`](crate::Scheduler::snapshot).
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let (rt, dl, fair) = (self.rt.clone(), self.dl.clone(), self.fair.clone());
        Self { tasks: self.tasks.clone(), rt, dl, fair, ext: self.ext.clone(), ..*self }
    }

    pub(crate) fn new(cpu: CpuId, config: &Config) -> Self {
        Self {
            cpu,
            clock_task: Instant::ZERO,
            #[cfg(debug_assertions)]
            called: Instant::ZERO,
            tasks: TaskSlab::with_capacity(config.queue_reserve),
            current: None,
            executor: None,
            lending: 0,
            phase: Phase::Running,
            request: Request::default(),
            dl: DlRq::new(cpu, config),
            rt: RtRq::new(&config.settings),
            fair: FairRq::new(cpu, config),
            ext: ExtRq::new(&config.settings),
            is_online: true,
            is_isolated: config.isolated.contains(cpu),
            ticks: Ticks::of(cpu, config),
            nr_switches: 0,
            idle_since: Some(Instant::ZERO),
            unpublished: Unpublished::ALL,
            published: Published {
                prios: PublishedPrios::IDLE.pack(),
                averages: CpuAverages::default(),
                counts: PublishedCounts::default().pack(),
                deadlines: PublishedDeadlines::NONE.words(),
                is_online: false,
                is_idle: false,
            },
        }
    }

    /// Returns the CPU of this run queue.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Returns whether this CPU has left a task and not switched away from it yet
    /// ([`Scheduler::leave`](crate::Scheduler::leave), then
    /// [`Next::Balance`](crate::Next::Balance)). A host must not let another CPU run it before.
    #[must_use]
    pub fn is_leaving(&self, task: TaskId) -> bool {
        matches!(&self.phase, Phase::Switching { prev, .. } if prev.task == Some(task))
    }

    /// Returns the task that runs here; `None` while the CPU idles or switches.
    #[must_use]
    pub fn current(&self) -> Option<TaskId> {
        self.acting().map(|slot| self.tasks[slot].id)
    }

    /// Returns the effective priority of the current task; a task that runs on its turn does not
    /// matter. A task that a deadline server runs has its own priority, not the server's: the
    /// kernel's rules of preemption and balancing read `rq->donor->prio`, and only `pick` knows the
    /// server.
    #[must_use]
    pub fn current_prio(&self) -> Prio {
        match self.current {
            Some(slot) => self.tasks[slot].prio,
            None => Prio::IDLE,
        }
    }

    /// Returns whether the current task is a deadline task, or a server runs it.
    #[inline]
    pub(crate) fn runs_by_deadline(&self) -> bool {
        self.current.is_some() && (self.dl.serving.is_some() || self.current_prio() == Prio::DEADLINE)
    }

    /// Returns the absolute deadline by which the current task runs, its own or its server's.
    #[must_use]
    pub(crate) fn current_deadline(&self) -> Option<Instant> {
        match (self.current, self.dl.serving_server()) {
            (Some(_), Some(server)) => server.queued().map(|(deadline, _)| deadline),
            (Some(slot), None) if self.tasks[slot].prio.class() == ClassId::Deadline => {
                Some(self.tasks[slot].dl.abs_deadline)
            }
            (Some(_) | None, _) => None,
        }
    }

    /// Returns the parameters, the state and the remaining runtime of a deadline server of this
    /// CPU.
    #[must_use]
    pub const fn server(&self, kind: ServerKind) -> (ServerParams, ServerState, SignedDuration) {
        let server = self.dl.server(kind);
        let (state, left) = server.shows();
        (server.params(), state, left)
    }

    /// Returns the number of queued tasks, including the current one, without deadline tasks that
    /// wait for their budget.
    #[must_use]
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.dl.nr_running() + self.rt.nr_allowed() + self.fair.nr_queued() + self.ext.nr_running
    }

    /// Returns whether a class above that of a loaded scheduler has a task. It asks the class first
    /// that most often has tasks: summing all three at every tick made the benchmark `hogs` 2 %
    /// slower.
    #[inline]
    pub(crate) fn has_running(&self) -> bool {
        self.fair.nr_queued() > 0 || self.rt.nr_allowed() > 0 || self.dl.nr_running() > 0
    }

    /// Returns the number of switches to another task so far.
    #[must_use]
    pub const fn nr_switches(&self) -> u64 {
        self.nr_switches
    }

    /// Returns whether the current task is a fair one: then it is worth asking for a preemption in
    /// one step ([`Scheduler::preempt`](crate::Scheduler::preempt)).
    #[must_use]
    #[inline(always)]
    pub fn is_current_fair(&self) -> bool {
        self.current_class() == ClassId::Fair
    }

    /// Returns whether [`RqTimer::Slice`](crate::RqTimer::Slice) is the kernel's timer of
    /// `enforce.fair = hrtick`: set when a switch is over, and one of wall time.
    #[must_use]
    pub const fn has_hrtick(&self) -> bool {
        self.fair.has_hrtick
    }

    /// Returns whether no task runs or is queued.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.current.is_none() && !self.has_running() && self.ext.nr_running == 0
    }

    /// Returns whether this CPU is online.
    #[must_use]
    pub const fn is_online(&self) -> bool {
        self.is_online
    }

    /// Returns the task clock of this CPU (`rq_clock_task`).
    #[inline(always)]
    pub(crate) const fn clock_task(&self) -> Instant {
        self.clock_task
    }

    /// Returns the current task. Another task can run in its place ([`acting`](Self::acting)).
    #[inline(always)]
    pub(crate) const fn current_slot(&self) -> Option<Slot> {
        self.current
    }

    /// Makes a task the current one; with `None` the CPU idles from now on.
    #[inline(always)]
    pub(crate) const fn set_current(&mut self, next: Option<Slot>) {
        self.current = next;
    }

    /// Clears the current task if it is `slot`, which has left its queue. A switch is in progress
    /// or about to begin.
    #[inline]
    pub(crate) fn quit_current(&mut self, slot: Slot) {
        if self.current == Some(slot) {
            self.current = None;
            self.note(Unpublished::PRIOS);
        }
    }

    /// Returns the task clock up to which idle time is accounted; `None` while a task runs.
    #[inline(always)]
    pub(crate) const fn idle_since(&self) -> Option<Instant> {
        self.idle_since
    }

    /// Accounts idle time up to `since`, or ends it.
    #[inline(always)]
    pub(crate) const fn set_idle_since(&mut self, since: Option<Instant>) {
        self.idle_since = since;
    }

    #[inline(always)]
    pub(crate) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Begins a switch: the CPU leaves its task. \[1\]
    pub(crate) fn begin_switch(&mut self, prev: Prev) {
        debug_assert!(self.phase == Phase::Running, "CPU {} leaves twice", self.cpu);
        self.phase = Phase::Switching { prev, stage: Stage::Fresh };
    }

    /// Ends a switch: the CPU has picked the next task. The reschedule request is cleared. \[3\]
    pub(crate) const fn end_switch(&mut self) {
        self.phase = Phase::Running;
        self.request = Request::NONE;
    }

    pub(crate) const fn count_switch(&mut self) {
        self.nr_switches += 1;
    }

    pub(crate) const fn executor(&self) -> Option<Executor> {
        self.executor
    }

    /// Sets the task that runs on the current task's turn.
    pub(crate) const fn set_executor(&mut self, executor: Option<Executor>) {
        self.executor = executor;
    }

    /// Counts a queued task that lends its turn.
    pub(crate) const fn add_lender(&mut self) {
        self.lending += 1;
    }

    /// Stops counting a queued task that no longer lends its turn.
    pub(crate) const fn remove_lender(&mut self) {
        self.lending -= 1;
    }

    /// Returns whether fair tasks are neither moved here nor moved away (`isolcpus`).
    pub(crate) const fn is_isolated(&self) -> bool {
        self.is_isolated
    }

    pub(crate) const fn set_online(&mut self, is_online: bool) {
        self.is_online = is_online;
    }

    pub(crate) const fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// Notes published fields that may be out of date.
    #[inline(always)]
    pub(crate) const fn note(&mut self, changed: Unpublished) {
        self.unpublished.add(changed);
    }

    /// Advances the task clock. Clocks never go back.
    pub(crate) fn set_clock(&mut self, now: Clock) {
        #[cfg(debug_assertions)]
        {
            assert!(now.wall >= self.called, "wall clock of CPU {} went back", self.cpu);
            self.called = now.wall;
        }
        debug_assert!(now.task >= self.clock_task, "task clock of CPU {} went back", self.cpu);
        self.clock_task = now.task;
    }

    /// Notes a search that has been made on other CPUs for the current switch.
    pub(crate) fn pass(&mut self, passed: Stage) {
        match &mut self.phase {
            Phase::Switching { stage, .. } => *stage = passed,
            Phase::Running => unreachable!("a stage is one of a switch"),
        }
    }

    /// Lets the switch search other CPUs as if it came from a task of this priority.
    pub(crate) fn search_as(&mut self, from: Prio) {
        match &mut self.phase {
            Phase::Switching { prev, .. } => prev.prio = from,
            Phase::Running => unreachable!("a search before a pick is one of a switch"),
        }
    }

    /// Lets the switch search other CPUs again, as if it came from a task of this priority.
    pub(crate) fn search_again(&mut self, from: Prio) {
        match &mut self.phase {
            Phase::Switching { prev, stage } => {
                prev.prio = from;
                *stage = if from == Prio::DEADLINE { Stage::Fresh } else { Stage::DlPulled };
            }
            Phase::Running => unreachable!("a stage is one of a switch"),
        }
    }

    pub(crate) fn stay(&self, slot: Slot) -> Stay {
        let task = &self.tasks[slot];
        Stay { task: task.id, slot: slot.raw(), stay: task.stay }
    }

    /// Returns the slot of a task if it is still in the same stay.
    pub(crate) fn find_stay(&self, stay: Stay) -> Option<Slot> {
        let slot = Slot::new(stay.slot);
        self.tasks.get(slot).filter(|task| task.id == stay.task && task.stay == stay.stay).map(|_| slot)
    }

    /// Publishes the changed state. An entry point that may have changed it does this last; `leave`
    /// lets `pick` do it.
    #[inline(always)]
    pub(crate) fn publish<L: RawMutex>(&mut self, cx: &mut Cx<'_, L>) {
        let changed = core::mem::replace(&mut self.unpublished, Unpublished::NONE)
            .and(core::mem::replace(&mut self.fair.changed, Unpublished::NONE));
        if changed != Unpublished::NONE {
            self.publish_changes(cx, changed);
        }
        debug_assert!(self.to_publish(cx) == self.published, "CPU {} changed without a note of it", self.cpu);
    }

    /// Returns the state to publish now.
    fn to_publish<L: RawMutex>(&self, cx: &Cx<'_, L>) -> Published {
        Published {
            prios: self.published_prios(cx).pack(),
            averages: self.published_averages(cx.config.settings.rt_balance.is_passive()),
            counts: self.published_counts(&cx.config.settings).pack(),
            deadlines: self.dl.published().words(),
            is_online: self.is_online,
            is_idle: self.is_idle_to_others(),
        }
    }

    /// Returns whether this priority is published as that of the current task, and whether the task
    /// is published as able or unable to migrate.
    pub(crate) const fn shows_current(&self, prio: Prio, movable: bool) -> bool {
        PublishedPrios::shows_current(self.published.prios, prio, movable)
    }

    /// Publishes the priority and the mobility of the current task, where nothing else of the
    /// published priorities has changed.
    #[inline(always)]
    pub(crate) fn publish_current_only<L: RawMutex>(&mut self, cx: &Cx<'_, L>, prio: Prio, movable: bool) {
        if !self.shows_current(prio, movable) {
            let word = PublishedPrios::with_current(self.published.prios, prio, movable);
            self.published.prios = word;
            cx.shared.publish_prios(self.cpu, word);
        }
    }

    fn published_prios<L: RawMutex>(&self, cx: &Cx<'_, L>) -> PublishedPrios {
        let current = self.current.map(|slot| &self.tasks[slot]);
        PublishedPrios {
            current: self.current_prio(),
            highest: self.top_prio(),
            pushable: self.rt.highest_pushable(),
            current_movable: current.is_none_or(|task| task.can_migrate(cx.shared.nr_cpus())),
            reaches_all: cx.shared.has_reach() && self.rt.waiting(&self.tasks).any(|slot| self.reaches_all(slot)),
        }
    }

    /// Returns whether a task may use any CPU.
    fn reaches_all(&self, slot: Slot) -> bool {
        self.tasks[slot].allowed.is_none()
    }

    /// Publishes the CPUs that some pushable task may use (`pull_claimed`). O(pushable tasks, times
    /// the words of a mask).
    fn publish_reach<L: RawMutex>(&self, cx: &Cx<'_, L>) {
        let waiting = || self.rt.waiting(&self.tasks);
        if self.rt.has_pushable() && !waiting().any(|slot| self.reaches_all(slot)) {
            let masks = || waiting().filter_map(|slot| self.tasks[slot].allowed.as_deref());
            cx.shared.publish_reach(self.cpu, |word| masks().fold(0, |union, mask| union | mask.word(word)));
        }
    }

    /// Returns whether others can send work here because the CPU is idle. A throttled task that
    /// still runs, because it is in the kernel, does not count as running, but keeps the CPU busy
    /// (`idle_cpu` looks at `rq->curr`).
    pub(crate) fn is_idle_to_others(&self) -> bool {
        self.is_idle() && self.is_online && !self.is_isolated
    }

    /// Returns the task counts that others see.
    pub(crate) fn published_counts(&self, settings: &Settings) -> PublishedCounts {
        let (runnable, phantoms) = (self.nr_runnable(), self.phantoms(settings));
        let moves_rt = settings.rt_balance.is_passive();
        let (running, fair) = (runnable + phantoms, self.fair.nr_running() + phantoms);
        PublishedCounts {
            running,
            fair,
            only_idle_policy: self.runs_only_idle(),
            has_waiting: running > 1 && (moves_rt || fair > 0) && self.is_online && !self.is_isolated,
            delayed: self.fair.nr_delayed(),
        }
    }

    /// Returns the number of throttled tasks that nevertheless count as running
    /// (`hierarchical_running = off`).
    pub(crate) const fn phantoms(&self, settings: &Settings) -> u32 {
        if settings.hierarchical_running { 0 } else { self.fair.nr_apart }
    }

    /// Publishes the changed fields. Each is computed and compared separately, because most calls
    /// change only one or two.
    fn publish_changes<L: RawMutex>(&mut self, cx: &mut Cx<'_, L>, changed: Unpublished) {
        let cpu = self.cpu;
        if changed.has(Unpublished::PRIOS) {
            if cx.shared.has_reach() {
                self.publish_reach(cx); // Before the priority that makes others look at it.
            }
            let prios = self.published_prios(cx);
            let word = prios.pack();
            if word != self.published.prios {
                let had = core::mem::replace(&mut self.published.prios, word);
                if !PublishedPrios::has_same_highest(word, had) && self.is_online {
                    if !cx.io.observer.is_off() {
                        log_level(cx, cpu, prios.highest);
                    }
                    cx.shared.domain(cpu).cpupri.set(cpu, prios.highest);
                }
                cx.shared.publish_prios(cpu, word);
            }
        }
        // Without load tracking the load is a sum of weights, which can include real-time tasks.
        if changed.has(Unpublished::AVERAGES) || !self.fair.tracks_load() {
            let averages = self.published_averages(cx.config.settings.rt_balance.is_passive());
            if averages != self.published.averages {
                self.published.averages = averages;
                cx.shared.publish_averages(cpu, averages);
            }
        }
        if changed.has(Unpublished::COUNTS) {
            self.publish_counts(cx);
        }
        if changed.has(Unpublished::DEADLINES) {
            self.publish_deadlines(cx);
        }
    }

    fn publish_counts<L: RawMutex>(&mut self, cx: &Cx<'_, L>) {
        let cpu = self.cpu;
        let counts = self.published_counts(&cx.config.settings);
        let word = counts.pack();
        if word != self.published.counts {
            let had = PublishedCounts::unpack(core::mem::replace(&mut self.published.counts, word));
            if counts.has_waiting != had.has_waiting {
                cx.shared.publish_waiting(cpu, counts.has_waiting);
            }
            cx.shared.publish_counts(cpu, word);
        }
        let is_idle = self.is_idle_to_others();
        if is_idle != self.published.is_idle {
            self.published.is_idle = is_idle;
            cx.shared.publish_idle(cpu, is_idle);
        }
    }

    fn publish_deadlines<L: RawMutex>(&mut self, cx: &mut Cx<'_, L>) {
        let (cpu, is_online, deadlines) = (self.cpu, self.is_online, self.dl.published());
        let has = &mut self.published;
        let came_or_went = is_online != has.is_online;
        if came_or_went {
            has.is_online = is_online;
            cx.shared.publish_online(cpu, is_online);
        }
        let words = deadlines.words();
        let had = core::mem::replace(&mut has.deadlines, words);
        if words != had {
            cx.shared.publish_deadlines(cpu, words);
        }
        if words[0] != had[0] || came_or_went {
            let level = self.level_at(deadlines.earliest);
            if !cx.io.observer.is_off() {
                return set_deadline_observed(cx, cpu, level);
            }
            cx.shared.domain(cpu).cpudl.set(cpu, level);
        }
    }

    /// Publishes before reading the published state of others: if two CPUs do so at once, one sees
    /// the other's state.
    pub(crate) fn publish_first<L: RawMutex>(&mut self, cx: &mut Cx<'_, L>) {
        self.publish(cx);
        if cx.config.threads == Threads::Many {
            fence(Ordering::SeqCst);
        }
    }

    /// Returns the state of this CPU for the deadline class.
    pub(crate) fn dl_level(&self) -> DlLevel {
        self.level_at(self.dl.earliest())
    }

    /// As [`dl_level`](Self::dl_level), for a known earliest deadline.
    const fn level_at(&self, earliest: Option<Instant>) -> DlLevel {
        match earliest {
            _ if !self.is_online => DlLevel::Gone,
            None => DlLevel::Free,
            Some(deadline) => DlLevel::Busy(deadline),
        }
    }

    /// Returns the most urgent priority queued above the fair class, including the current task's
    /// ([`Prio::IDLE`] if none). A real-time task preempts here if it beats this priority.
    pub(crate) fn top_prio(&self) -> Prio {
        if self.dl.is_empty() { self.rt.highest() } else { Prio::DEADLINE }
    }

    /// Returns whether a real-time task waits, or will wait, that could run elsewhere.
    pub(crate) fn is_rt_overloaded(&self, config: &Config) -> bool {
        self.rt.is_overloaded(config.settings.rt_overload, !self.dl.is_empty())
    }

    /// Returns the number of runnable tasks: queued tasks except those that only wait until their
    /// lag is repaid.
    pub(crate) fn nr_runnable(&self) -> u32 {
        self.dl.nr_running() + self.rt.nr_allowed() + self.fair.nr_running() + self.ext.nr_running
    }

    /// Returns whether all runnable tasks are SCHED_IDLE ones, and there is one (`sched_idle_rq`).
    pub(crate) fn runs_only_idle(&self) -> bool {
        let idle = self.fair.nr_idle_policy();
        idle > 0 && idle == self.nr_runnable()
    }

    /// Returns whether the balancer of the fair class could move a waiting task from here.
    pub(crate) fn has_waiting(&self, moves_rt: bool) -> bool {
        let fair = self.fair.nr_running();
        fair > 1 || (moves_rt || fair > 0) && self.nr_runnable() > 1
    }

    /// Returns the class of the current task: its own class, even if a server runs it.
    pub(crate) fn current_class(&self) -> ClassId {
        self.current_prio().class()
    }

    /// Returns whether leaving the current task, when it is preempted, and picking the next one is
    /// one step.
    #[inline(always)]
    pub(crate) fn is_preempted_plainly(&self) -> bool {
        self.current.is_some_and(|slot| {
            let task = &self.tasks[slot];
            task.prio.class() == ClassId::Fair && task.fair.node.is_none() && task.may_run_on(self.cpu)
        }) && !self.fair.has_limits
            && self.fair.balance.push.is_none()
            && self.executor.is_none()
            && self.lending == 0
            && self.rt.nr_running() == 0
            && self.dl.is_empty()
            && self.dl.serving.is_none()
            && !self.dl.has_lowered
            && self.is_online
            && self.phase == Phase::Running
    }

    /// Returns the running task: the executor, or else the current task.
    #[inline]
    pub(crate) fn acting(&self) -> Option<Slot> {
        match self.executor {
            Some(executor) => Some(executor.slot),
            None => self.current,
        }
    }

    /// Returns whether a task is current or runs here on another's turn.
    pub(crate) fn runs(&self, slot: Slot) -> bool {
        self.current == Some(slot) || self.executor.is_some_and(|executor| executor.slot == slot)
    }

    /// Returns whether the CPU has a task: it runs, or the CPU has not ended the switch away from
    /// it (`task_on_cpu`). No other CPU takes it then, also if it can run again: a deadline task
    /// that was throttled when the CPU left it, and whose policy changes during a search.
    pub(crate) fn is_on_cpu(&self, slot: Slot) -> bool {
        let is_left = |prev: Prev| prev.task == Some(self.tasks[slot].id);
        self.runs(slot) || matches!(self.phase, Phase::Switching { prev, .. } if is_left(prev))
    }

    /// Returns the mode of the running task; user mode while none runs.
    #[must_use]
    #[inline]
    pub fn current_mode(&self) -> TaskMode {
        self.acting().map_or(TaskMode::User, |slot| self.tasks[slot].mode)
    }

    /// Returns the number of tasks here that lend their turn.
    #[must_use]
    pub(crate) const fn nr_lending(&self) -> u32 {
        self.lending
    }

    /// Returns the load that this CPU publishes.
    pub(crate) fn published_averages(&self, counts_rt: bool) -> CpuAverages {
        if self.fair.tune.tracks_load {
            return self.fair.averages();
        }
        let rt = if counts_rt { RT_LOAD * u64::from(self.rt.nr_running()) } else { 0 };
        CpuAverages { load: self.fair.load() + rt, ..CpuAverages::default() }
    }
}

/// Appends that a CPU is about to have another priority in `cpupri`.
#[cold]
fn log_level<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId, prio: Prio) {
    let (from, to) = cx.shared.domain(cpu).cpupri.change(cpu, prio);
    if from != to {
        cx.io.log(LineAccess::Level { cpu, from, to });
    }
}

/// Changes the earliest deadline of a CPU in `cpudl`, and appends that.
#[cold]
#[inline(never)]
fn set_deadline_observed<L: RawMutex>(cx: &mut Cx<'_, L>, cpu: CpuId, level: DlLevel) {
    let (items, is_free_changed) = cx.shared.domain(cpu).cpudl.change(cpu, level);
    cx.io.log(LineAccess::Deadlines);
    for item in items {
        cx.io.log(LineAccess::DeadlineItem { item });
    }
    if is_free_changed {
        cx.io.log(LineAccess::DeadlineFree { cpu });
    }
    cx.shared.domain(cpu).cpudl.set(cpu, level);
}

/// Takes the body of a dequeued task out of the run queue.
#[inline]
pub(crate) fn detach<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Box<Task> {
    let mut body = rq.tasks.remove(slot);
    if body.fair.queue != QueueIx::ROOT {
        keep_part_of_root(rq, &mut body);
    }
    cx.shared.set_home(body.id, None);
    rq.unpublished.add(Unpublished::COUNTS);
    body
}

/// Keeps the part that a fair task of a group has of the root's load. That of a task of the root
/// group is its own load, which is kept when it is dequeued.
#[inline(never)]
fn keep_part_of_root(rq: &Rq, body: &mut Task) {
    if body.prio.class() == ClassId::Fair {
        body.fair.average.keep_part_of_root(rq.fair.part_of_root(&body.fair));
    }
}
