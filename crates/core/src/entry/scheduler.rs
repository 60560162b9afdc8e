//! [`Scheduler`]: the entry points. Every event that a host can have is a method here.
//!
//! | event | method | locks that the host holds |
//! |---|---|---|
//! | a task is created | [`create_task`], [`recreate_task`] | none |
//! | a task wakes: choose its CPU | [`select_cpu`] | none |
//! | ... and place it there | [`wake`] | the target |
//! | a blocked task that is still queued wakes | [`wake_queued`] | its home |
//! | the current task changes mode | [`enter_kernel`], [`return_to_user`] | its own |
//! | the current task gives up its CPU | [`leave`], [`pick`], [`switched`] | its own |
//! | tick, timer, interrupt from a CPU | [`tick`], [`timer`], [`remote`] | its own |
//! | a step continues | [`resume`], [`resume_pair`] | one, two |
//! | attributes, affinity, inherited priority | `set_*`, `inherit*` | its home, or the parcel |
//! | a CPU changes its root domain | [`join_domain`] | its own |
//! | a CPU goes offline, comes online | [`offline`], [`evict`], [`online`] | its own |
//!
//! All methods but `reserve_*` take `&self`: shared state is atomic or behind an inner lock, and
//! everything else is in the run queue.
//!
//! [`create_task`]: Scheduler::create_task
//! [`recreate_task`]: Scheduler::recreate_task
//! [`select_cpu`]: Scheduler::select_cpu
//! [`wake`]: Scheduler::wake
//! [`wake_queued`]: Scheduler::wake_queued
//! [`enter_kernel`]: Scheduler::enter_kernel
//! [`return_to_user`]: Scheduler::return_to_user
//! [`leave`]: Scheduler::leave
//! [`pick`]: Scheduler::pick
//! [`switched`]: Scheduler::switched
//! [`tick`]: Scheduler::tick
//! [`timer`]: Scheduler::timer
//! [`remote`]: Scheduler::remote
//! [`resume`]: Scheduler::resume
//! [`resume_pair`]: Scheduler::resume_pair
//! [`join_domain`]: Scheduler::join_domain
//! [`offline`]: Scheduler::offline
//! [`evict`]: Scheduler::evict
//! [`online`]: Scheduler::online

use crate::balance::fair::{distribute, newidle, periodic, select};
use crate::balance::{
    dl_pull, dl_push, dl_select, ext as ext_balance, proxy, rt_claim, rt_pull, rt_push, rt_select, served_pull,
    served_push,
};
use crate::class::fair::{boost, park, preferred_cache};
use crate::class::{dl, dl_server, ext, fair, policy, rt, rt_served};
use crate::entry::{loaded, plain_preempt, plain_tick, ticks};
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue;
use crate::rq::run_queue::{Phase, Prev, Rq, Stage};
use crate::shared::state::{Home, Shared};
use crate::task::body::{Parcel, Task};
use crate::task::deadline;
use crate::task::io::{Io, Left, Tracing};
use crate::words::clock::{Clock, PairClock};
use crate::words::config::Config;
use crate::words::error;
use crate::words::error::{NotHere, TaskError};
use crate::words::ids::{CpusetId, Slot};
use crate::words::life::{CpuMode, Dequeue, Dequeued, Engaged, Enqueue, Leave, Placement};
use crate::words::mode::TaskMode;
use crate::words::op::{RqTimer, Work};
use crate::words::resched::Resched;
use crate::words::snapshot::Snapshot;
use crate::words::step::{AfterPush, Cont, Next, PairCont, Step};
use crate::words::wait::Lent;
use alloc::boxed::Box;
use alloc::sync::Arc;
use lock_api::RawMutex;
use zerolag_model::settings::Preempt;
use zerolag_model::{
    ClassId, CpuId, CpuMask, Instant, MigrateReason, PrevState, Prio, SchedAttr, TaskCounters, TaskId, TraceEvent,
};

/// The scheduler of one machine: the state that its CPUs share. The run queues belong to the host.
#[derive(Debug)]
pub struct Scheduler<L: RawMutex> {
    pub(crate) config: Config,
    pub(crate) shared: Shared<L>,
}

impl<L: RawMutex> Scheduler<L> {
    /// Builds the scheduler of a machine.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let shared = Shared::new(&config);
        let mut scheduler = Self { config, shared };
        scheduler.load_named_policy();
        scheduler
    }

    /// Returns a copy of the state that the CPUs share. It is a whole only with the copies of [all
    /// run queues](Rq::snapshot) and of [all parcels](Parcel::snapshot), all taken while no call is
    /// under way; then two hosts that make the same calls get the same results. Parts of different
    /// copies must not be mixed: a task would be in two places.
    ///
    /// O(CPUs x levels of priority, groups, tasks).
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self { config: self.config.clone(), shared: self.shared.snapshot() }
    }

    /// Returns the configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Creates the run queue of a CPU, idle and online.
    #[must_use]
    pub fn new_rq(&self, cpu: CpuId) -> Rq {
        let mut rq = Rq::new(cpu, &self.config);
        rq.ext.by_policy = self.shared.has_policy();
        self.shared.domain(cpu).cpupri.set(cpu, Prio::IDLE);
        let mut io = Io::new(Tracing::Off);
        let mut cx = self.cx(cpu, Clock::at(Instant::ZERO), &mut io);
        rq.publish(&mut cx);
        rq
    }

    /// Makes room for task ids below `tasks`.
    pub fn reserve_tasks(&mut self, tasks: usize) {
        self.shared.reserve_tasks(tasks);
    }

    /// Returns where a task's body was at the time of the call; only the lock of that run queue
    /// makes it certain.
    #[must_use]
    pub fn home(&self, task: TaskId) -> Home {
        self.shared.home(task).map_or(Home::Parcel, |(cpu, _)| Home::Rq(cpu))
    }

    /// Returns the number of a CPU's root domain.
    #[must_use]
    pub fn root_domain(&self, cpu: CpuId) -> usize {
        self.shared.domain_of(cpu).index()
    }

    /// Returns the RT overload masks, one per scope, for checks.
    pub fn overload_masks(&self) -> impl Iterator<Item = CpuMask> + '_ {
        self.shared.overload_snapshots()
    }

    /// Returns whether a CPU in this mode yields to such a request now.
    ///
    /// Linux v6.12 `kernel/Kconfig.preempt`; lazy: `kernel/sched/core.c`, `resched_curr_lazy`.
    #[must_use]
    pub const fn preempts(&self, request: Resched, mode: CpuMode) -> bool {
        let model = self.config.settings.preempt;
        match (request, mode) {
            (Resched::No, _) => false,
            (_, CpuMode::Idle | CpuMode::User) => true,
            (Resched::Lazy, _) => false,
            (Resched::Now, CpuMode::Kernel) => matches!(model, Preempt::Full | Preempt::Lazy | Preempt::Rt),
            (Resched::Now, CpuMode::KernelPoint) => !matches!(model, Preempt::None),
            (Resched::Now, CpuMode::CondResched) => true,
            // Under `rt` too: the spinning locks that sleep there do not put a task in this mode.
            (Resched::Now, CpuMode::KernelLocked) => false,
        }
    }

    pub(crate) fn cx<'a>(&'a self, by: CpuId, now: Clock, io: &'a mut Io) -> Cx<'a, L> {
        Cx { shared: &self.shared, config: &self.config, now, by, io }
    }

    pub(crate) fn check_attr(&self, task: TaskId, attr: SchedAttr) -> Result<(), TaskError> {
        match attr {
            SchedAttr::Rt { .. } | SchedAttr::Fair { .. } | SchedAttr::Ext { .. } => Ok(()),
            SchedAttr::Deadline(params) => {
                error::check_params(params).map_err(|wrong| TaskError::DeadlineParams(task, wrong))
            }
        }
    }

    /// Returns the CPUs that affinity and cpuset leave; `None` for every CPU. A task that requests
    /// nothing stays away from isolated CPUs.
    pub(crate) fn allowed(
        &self,
        task: TaskId,
        affinity: Option<&Arc<CpuMask>>,
        cpuset: CpusetId,
    ) -> Result<Option<Arc<CpuMask>>, TaskError> {
        let cpus = self.config.cpusets.get(usize::from(cpuset.0)).ok_or(TaskError::NoSuchCpuset(cpuset))?;
        let both = match affinity {
            None if cpuset == CpusetId::default() => return Ok(self.config.housekeeping.clone()),
            None => cpus.clone(),
            Some(affinity) => affinity.and(cpus),
        };
        if both.is_empty() {
            return Err(TaskError::NoCpu(task));
        }
        Ok((both.count() < self.shared.nr_cpus()).then(|| Arc::new(both)))
    }

    /// Chooses the CPU for a task that is about to be placed. `by` is the CPU that wakes it.
    ///
    /// Reads published state only; the result is a hint, which `wake` does not check. A task whose
    /// CPUs are all offline is placed on the lowest CPU that is online, and stays there until it
    /// leaves it while one of its own is online again.
    ///
    /// Source: Linux v6.12 `kernel/sched/core.c`, `select_fallback_rq`. differs: the kernel gives
    /// up the affinity of such a task.
    pub fn select_cpu(&self, now: Clock, parcel: &Parcel, by: CpuId, why: Placement, io: &mut Io) -> CpuId {
        let cx = &mut self.cx(by, now, io);
        let task = &*parcel.0;
        let allowed = task.allowed.as_deref();
        let pinned = allowed.filter(|mask| mask.first() == mask.last()).and_then(CpuMask::first);
        if let Some(cpu) = pinned {
            return cx.view().online_or_other(cpu, None).unwrap_or(cpu);
        }
        let cpu = match task.prio.class() {
            ClassId::Rt => rt_select::select(cx, task, why),
            ClassId::Fair => select::select(cx, task, why),
            ClassId::Deadline => return dl_select::select(cx, task, why),
            ClassId::Ext => ext_balance::select(cx, task, why),
            ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
        };
        let own = cx.view().online_or_other(cpu, allowed);
        own.or_else(|| cx.view().online_or_other(cpu, None)).unwrap_or(cpu)
    }

    /// Puts a task on the run queue that was chosen for it.
    pub fn wake(&self, rq: &mut Rq, now: Clock, parcel: Parcel, by: CpuId, why: Placement, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(by, now, io);
        let mut body = parcel.0;
        lifecycle::charge_at_wakeup(rq, cx, body.prio);
        self.follow(&mut body, rq.cpu());
        let (task, prio, from, to) = (body.id, body.prio, body.last_cpu, rq.cpu());
        let new = core::mem::take(&mut body.is_new);
        let bound = body.bound.take();
        if why != Placement::Displaced {
            body.counters.wakeups += 1;
            cx.io.event(now, by, || TraceEvent::Waking { task, prio, target: to, new });
        }
        if from != to && !new {
            body.counters.migrations += 1;
            let reason = match why {
                Placement::Wakeup | Placement::SyncWakeup | Placement::Fork => MigrateReason::Wakeup,
                Placement::Displaced if bound.is_some_and(|bound| bound.to == to) => MigrateReason::Active,
                Placement::Displaced => MigrateReason::Affinity,
            };
            cx.io.event(now, by, || TraceEvent::Migrate { task, prio, from, to, reason });
        }
        if let Some(bound) = bound {
            periodic::arrived(rq, bound);
        }
        if prio.is_ext() {
            return loaded::wake(rq, cx, body, why);
        }
        let enqueue = match why {
            Placement::Wakeup | Placement::SyncWakeup => Enqueue::Wakeup,
            Placement::Fork => Enqueue::New,
            Placement::Displaced => Enqueue::Migrated,
        };
        let slot = lifecycle::activate(rq, cx, body, enqueue);
        newidle::woken(rq, cx);
        if why != Placement::Displaced {
            cx.io.event(now, to, || TraceEvent::Wakeup { task, prio });
        }
        lifecycle::check_preempt(rq, cx, slot);
        let step = self.push_woken(rq, cx, slot);
        rq.publish(cx);
        step
    }

    /// Pushes after a wakeup if the woken deadline or RT task cannot run here: Linux v6.12 `rt.c`,
    /// `task_woken_rt`; `deadline.c`, `task_woken_dl`.
    pub(crate) fn push_woken(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Step {
        if rq.tasks[slot].prio.class() == ClassId::Deadline {
            let waits = deadline::is_contending(&rq.tasks[slot])
                && rq.need_resched() != Resched::Now
                && rq.phase() == Phase::Running
                && rq.current_slot() != Some(slot);
            return if waits && rq.dl.has_pushable() { dl_push::begin(rq, cx) } else { Step::Done };
        }
        if let Some(at) = rt::local_of(rq, slot) {
            return served_push::woken(rq, cx, slot, at);
        }
        let waits = rq.tasks[slot].prio.is_rt()
            && rq.need_resched() != Resched::Now
            && rq.phase() == Phase::Running
            && !rq.tasks[slot].prio.beats(rq.prio_to_beat());
        if waits && self.config.settings.rt_balance.is_active() && rq.rt.has_pushable() {
            rt_push::begin(rq, cx, AfterPush::Nothing)
        } else {
            Step::Done
        }
    }

    /// Wakes a task that is blocked but still queued here ([`Left::Delayed`]).
    ///
    /// # Errors
    /// It is not here any more: its body has been parked (maybe by this very call, because it may
    /// not run here any more: see [`Io::parked`]), or it has been moved. Look up its home again.
    pub fn wake_queued(&self, rq: &mut Rq, now: Clock, task: TaskId, by: CpuId, io: &mut Io) -> Result<Step, NotHere> {
        rq.set_clock(now);
        let slot = self.slot_of(rq, task)?;
        let cx = &mut self.cx(by, now, io);
        if matches!(rq.tasks[slot].engaged, Engaged::Lends { .. }) {
            lifecycle::charge_beside(rq, cx);
            rq.publish(cx);
            return self.wake_lender(rq, cx, slot);
        }
        let may_stay = rq.is_online() && rq.tasks[slot].may_run_on(rq.cpu());
        if !may_stay {
            lifecycle::charge_beside(rq, cx);
            let was_delayed = fair::finish_delayed(rq, cx, slot);
            rq.publish(cx);
            if was_delayed {
                return Err(NotHere(task));
            }
        }
        // Until 7.0 it is placed by the average of the last charge (`requeue_delayed_entity`). Only
        // the comparison with the current task charges that one (`check_preempt_wakeup_fair`).
        if self.config.settings.delayed_debt_shrinks {
            lifecycle::charge_beside(rq, cx);
        }
        if !fair::wake_delayed(rq, cx, slot) {
            return Err(NotHere(task));
        }
        lifecycle::charge_beside(rq, cx);
        dl_server::update(rq, cx);
        let (prio, target) = (rq.tasks[slot].prio, rq.cpu());
        rq.tasks[slot].counters.wakeups += 1;
        cx.io.event(now, by, || TraceEvent::Waking { task, prio, target, new: false });
        cx.io.event(now, target, || TraceEvent::Wakeup { task, prio });
        lifecycle::check_preempt(rq, cx, slot);
        rq.publish(cx);
        Ok(Step::Done)
    }

    pub(crate) fn slot_of(&self, rq: &Rq, task: TaskId) -> Result<Slot, NotHere> {
        match self.shared.home(task) {
            Some((cpu, slot)) if cpu == rq.cpu() && rq.tasks.get(slot).is_some_and(|body| body.id == task) => Ok(slot),
            _ => Err(NotHere(task)),
        }
    }

    /// Returns the slot of a task that is about to be changed. One that is blocked but still queued
    /// is parked first: its body goes to [`Io::parked`], and it is not here any more.
    pub(crate) fn slot_to_change(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, task: TaskId) -> Result<Slot, NotHere> {
        let slot = self.slot_of(rq, task)?;
        lifecycle::charge_current(rq, cx);
        rq.publish(cx);
        if fair::finish_delayed(rq, cx, slot) {
            rq.publish(cx);
            return Err(NotHere(task));
        }
        Ok(slot)
    }

    /// Makes the current task give up the CPU. [`pick`](Self::pick) has to follow; wakeups can come
    /// in between.
    ///
    /// # Panics
    /// If the CPU is already between `leave` and `pick`, or if an idle CPU is told that its task
    /// blocks.
    #[expect(clippy::too_many_lines, reason = "the steps share a dozen values, and their order is the rule")]
    pub fn leave(&self, rq: &mut Rq, now: Clock, why: Leave, io: &mut Io) -> Left {
        assert!(rq.phase() == Phase::Running, "CPU {} leaves twice", rq.cpu());
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let asked = dl::asked(rq);
        let (acted, by_deadline) = (rq.current_prio(), rq.runs_by_deadline());
        lifecycle::charge_current(rq, cx);
        let prio = if core::mem::take(&mut rq.dl.has_lowered) { Prio::DEADLINE } else { acted };
        let acting = if rq.executor().is_some() { Some(proxy::end(rq, cx)) } else { rq.current_slot() };
        let (Some(slot), Some(turn)) = (acting, rq.current_slot()) else {
            assert!(why == Leave::Preempted, "an idle CPU is only preempted");
            if rq.has_running() {
                dl_server::idles_no_more(rq);
            }
            rq.begin_switch(Prev { task: None, prio, state: PrevState::Idle, cpuset: CpusetId::default() });
            return Left::Queued;
        };
        let task = &rq.tasks[slot];
        let (id, cpuset) = (task.id, task.cpuset);
        let stays = matches!(why, Leave::Preempted | Leave::Yield);
        let displaced = stays && !lifecycle::may_stay(rq, cx, slot) || periodic::is_asked_for(rq, cx, slot, why);
        if stays && slot != turn && rq.tasks[slot].prio.class() == ClassId::Fair {
            boost::preempted(rq, cx, slot); // The search looks at the tasks of the lender's path only.
        }
        let prev = Prev {
            task: Some(id),
            prio,
            state: match why {
                Leave::Preempted | Leave::Yield => PrevState::Runnable,
                Leave::Block | Leave::BlockOn(_) => PrevState::Blocked,
                Leave::Exit => PrevState::Dead,
            },
            cpuset,
        };
        let left = match why {
            Leave::Preempted | Leave::Yield if displaced => {
                Left::Displaced(Parcel(self.take_current(rq, cx, slot, Dequeue::Migrate)))
            }
            Leave::Preempted => {
                if by_deadline {
                    dl::put_back(rq, cx, turn, asked);
                } else {
                    let class = rq.tasks[turn].prio.class();
                    dl_server::put_back(rq, cx, class);
                }
                Left::Queued
            }
            Leave::Yield => {
                match rq.tasks[turn].prio.class() {
                    ClassId::Rt => rt::requeue_current(rq, turn),
                    ClassId::Fair => fair::yield_current(rq, cx, turn),
                    ClassId::Deadline => dl::throttle_current(rq, cx, turn),
                    ClassId::Ext => ext::yield_current(rq, cx),
                    ClassId::Stop | ClassId::Idle => unreachable!("no task of this class"),
                }
                Left::Queued
            }
            Leave::BlockOn(lock) if proxy::lends(rq, cx, slot, lock) => {
                rq.tasks[slot].mode = TaskMode::Kernel;
                Left::Delayed
            }
            Leave::Block | Leave::BlockOn(_) => {
                rq.tasks[slot].mode = TaskMode::Kernel;
                match lifecycle::dequeue(rq, cx, slot, Dequeue::Sleep) {
                    Dequeued::Gone => {
                        rq.quit_current(slot);
                        Left::Parked(Parcel(self.detach_left(rq, cx, slot)))
                    }
                    Dequeued::Delayed => Left::Delayed,
                }
            }
            Leave::Exit => {
                let body = self.take_current(rq, cx, slot, Dequeue::Exit);
                self.quit_group(&body);
                self.shared.processes.quit(body.id);
                self.give_back_all(&body, now.wall);
                Left::Dead(Parcel(body))
            }
        };
        // Published by `pick`, which follows at once.
        rq.begin_switch(prev);
        left
    }

    pub(crate) fn take_current(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Box<Task> {
        let gone = lifecycle::dequeue(rq, cx, slot, why);
        assert!(gone == Dequeued::Gone, "only a sleeping task is delayed");
        rq.quit_current(slot);
        self.detach_left(rq, cx, slot)
    }

    #[inline]
    fn detach_left(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Box<Task> {
        let mut body = run_queue::detach(rq, cx, slot);
        body.last_ran = cx.now.wall;
        body
    }

    /// Picks the next task. Returns [`Next::Balance`] at most four times per switch, and four
    /// times more for each task that lends its turn in vain: carry the step out and call again.
    ///
    /// # Panics
    /// If `leave` was not called before.
    pub fn pick(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Next {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let Phase::Switching { prev, stage } = rq.phase() else { panic!("CPU {} picks without having left", rq.cpu()) };
        let step = self.search(rq, cx, prev, stage);
        if step != Step::Done {
            rq.publish(cx);
            return Next::Balance(step);
        }
        if rq.nr_lending() > 0 {
            return self.pick_among_lenders(rq, cx, prev);
        }
        let next = lifecycle::pick(rq, cx);
        lifecycle::switch_to(rq, cx, next);
        Self::end_switch(rq, cx, prev)
    }

    /// The same after a search, on a run queue with lenders. Bounded: each iteration but the last
    /// removes one from the queue. Apart, so that all others pick without a loop.
    #[cold]
    #[inline(never)]
    fn pick_among_lenders(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, mut prev: Prev) -> Next {
        while let Err(parked) = Self::switch_lent(rq, cx) {
            rq.search_again(parked);
            let Phase::Switching { prev: left, stage } = rq.phase() else { unreachable!("the switch goes on") };
            prev = left;
            let step = self.search(rq, cx, prev, stage);
            if step != Step::Done {
                rq.publish(cx);
                return Next::Balance(step);
            }
        }
        Self::end_switch(rq, cx, prev)
    }

    /// Ends a switch for which the next task has been made the current one.
    #[inline(always)]
    fn end_switch(rq: &mut Rq, cx: &mut Cx<'_, L>, prev: Prev) -> Next {
        if rq.ext.by_policy {
            policy::switched(rq, cx);
        }
        let acting = rq.acting();
        let next = acting.map(|slot| (slot, &rq.tasks[slot]));
        let next_task = next.map(|(_, task)| task.id);
        let may_stay = acting.is_none_or(|slot| lifecycle::may_stay(rq, cx, slot));
        let is_due_to_park = next.is_some_and(|(slot, _)| park::is_due(rq, slot));
        rq.end_switch();
        if next_task != prev.task || prev.state != PrevState::Runnable && prev.task.is_some() {
            rq.count_switch();
            if let Some(slot) = acting {
                rq.tasks[slot].counters.switches_in += 1;
            }
            if cx.io.is_tracing() {
                lifecycle::record_switch(rq, cx, prev, next_task);
            }
        }
        // Requests for the next switch, so after this one in a trace.
        if rq.dl.has_lowered {
            rq.resched(cx, Resched::Now); // A server left during the switch: search again.
        }
        if !may_stay {
            rq.resched(cx, Resched::Now); // It is displaced: not allowed here since `leave`.
        }
        if is_due_to_park {
            rq.resched_to_park(cx); // It passes through the return to user mode.
        }
        rq.publish(cx);
        next_task.map_or(Next::Idle, Next::Run)
    }

    /// Leaves the current task, which is preempted, and picks the next one, in one step, if nothing
    /// can stand between the two: a fair task runs, and neither real-time nor deadline tasks,
    /// servers, limits, lenders or forced migrations have a part. Then no other CPU is searched,
    /// and nothing is to be done after the switch. Returns the task that runs from now on; `None`
    /// if it has at most been charged, and must be left ([`leave`](Self::leave)).
    ///
    /// In a log of calls ([`call`](crate::call)) it is a leave and a pick.
    pub fn preempt(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Option<TaskId> {
        if !rq.is_preempted_plainly() {
            return None;
        }
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let going = rq.current_slot()?;
        plain_preempt::preempt(rq, cx, going)
    }

    /// Searches other CPUs for better tasks, each kind of search once per switch.
    #[inline(always)]
    fn search(&self, rq: &mut Rq, cx: &mut Cx<'_, L>, mut prev: Prev, stage: Stage) -> Step {
        let step = served_pull::before_pick(rq, cx, stage, &mut prev);
        if step != Step::Done {
            return step;
        }
        if stage == Stage::Fresh {
            lifecycle::throttle_exhausted(rq, cx);
        }
        if stage == Stage::Fresh && prev.prio.class() == ClassId::Deadline {
            rq.pass(Stage::DlPulled);
            let step = dl_pull::after(rq, cx);
            if step != Step::Done {
                return step;
            }
        }
        if matches!(stage, Stage::Fresh | Stage::DlPulled) {
            rq.pass(Stage::Pulled);
            let step = rt_pull::begin(rq, cx, prev.prio, prev.cpuset);
            if step != Step::Done {
                return step;
            }
        }
        if rq.rt.nr_running() == 0 {
            fair::finish_if_only_delayed(rq, cx);
        }
        if rq.ext.is_loaded {
            return loaded::search(rq, cx, stage);
        }
        if stage != Stage::Searched && !rq.has_running() && rq.is_online() {
            rq.pass(Stage::Searched);
            return newidle::begin(rq, cx);
        }
        Step::Done
    }

    /// Completes a switch to a task: pushes the tasks that the switch has left waiting.
    pub fn switched(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let step = served_push::left_behind(rq, cx);
        if step != Step::Done {
            rq.publish(cx);
        }
        step
    }

    /// Handles the periodic tick of a CPU.
    pub fn tick(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        if !plain_tick::tick(rq, cx) {
            self.tick_current(rq, cx);
        }
        let step = periodic::tick(rq, cx);
        rq.publish(cx);
        step
    }

    /// Advances the global tick count (`jiffies`). Call it on the tick of the timekeeping CPU
    /// (`tick_do_timer_cpu`) if CPUs tick at different times. A CPU that ticks before the
    /// timekeeping CPU still sees the previous count, and so do its balancing intervals. Until this
    /// is first called, every CPU uses its own clock. O(1).
    pub fn count_tick(&self, now: Instant) {
        self.shared.count_tick(now.round_down_to(self.config.settings.tick_period()));
    }

    /// Runs the tick of a CPU from another CPU, once a second, while the tick is stopped although a
    /// task runs (`nohz_full`, `sched_tick_remote`).
    pub fn remote_tick(&self, rq: &mut Rq, now: Clock, by: CpuId, io: &mut Io) {
        rq.set_clock(now);
        let cx = &mut self.cx(by, now, io);
        self.tick_current(rq, cx);
        rq.publish(cx);
    }

    #[inline(always)]
    fn tick_current(&self, rq: &mut Rq, cx: &mut Cx<'_, L>) {
        lifecycle::charge_at_tick(rq, cx);
        if let Some(slot) = rq.current_slot().filter(|_| rq.phase() == Phase::Running) {
            let resched = match rq.current_class() {
                ClassId::Rt => rt::tick(rq, cx, slot),
                ClassId::Fair if rq.fair.tune.ticks_further => {
                    let resched = fair::tick(rq, cx, slot);
                    if rq.fair.tune.gathers {
                        preferred_cache::tick(rq, cx, slot);
                    }
                    lifecycle::throttle_charged(rq, cx);
                    lifecycle::soften(resched, self.config.settings.preempt)
                }
                ClassId::Fair => lifecycle::soften(fair::tick(rq, cx, slot), self.config.settings.preempt),
                ClassId::Deadline => {
                    dl::tell_overrun(rq, cx, slot);
                    dl::tick(rq, cx, slot)
                }
                ClassId::Ext => ext::tick(rq, cx),
                ClassId::Stop | ClassId::Idle => Resched::No,
            };
            let lazy_is_due = rq.need_resched() == Resched::Lazy;
            rq.resched(cx, if lazy_is_due { Resched::Now } else { resched });
        }
    }

    /// Handles an expired timer of the run queue.
    pub fn timer(&self, rq: &mut Rq, now: Clock, timer: RqTimer, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let step = match timer {
            RqTimer::Slice => {
                self.slice_ended(rq, cx);
                Step::Done
            }
            RqTimer::Replenish => self.replenish(rq, cx),
            RqTimer::Server(kind) => {
                lifecycle::charge_current(rq, cx);
                dl_server::timer(rq, cx, kind);
                Step::Done
            }
            RqTimer::RtPeriod => {
                lifecycle::charge_beside(rq, cx);
                rt::period_over(rq, cx);
                Step::Done
            }
            RqTimer::GroupServers => {
                lifecycle::charge_current(rq, cx);
                rt_served::timer(rq, cx);
                Step::Done
            }
        };
        rq.publish(cx);
        step
    }

    /// Replenishes a throttled task, which can then run again, here or on another CPU: Linux v6.12
    /// `deadline.c`, `dl_task_timer`.
    fn replenish(&self, rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
        lifecycle::charge_beside(rq, cx);
        let Some(slot) = dl::replenish_due(rq, cx) else { return Step::Done };
        lifecycle::check_preempt(rq, cx, slot);
        if rq.dl.has_pushable() { dl_push::begin(rq, cx) } else { Step::Done }
    }

    fn slice_ended(&self, rq: &mut Rq, cx: &mut Cx<'_, L>) {
        lifecycle::charge_current(rq, cx);
        let is_hrtick = core::mem::take(&mut rq.fair.has_hrtick);
        let Some(slot) = rq.current_slot().filter(|_| rq.phase() == Phase::Running) else { return };
        let resched = match rq.current_class() {
            ClassId::Rt => rt::check_slice(rq, cx, slot),
            // v6.12 `fair.c`, `entity_tick`: a queued tick reschedules.
            ClassId::Fair if dl_server::has_hrtick(rq, cx) => Resched::Now,
            ClassId::Fair if is_hrtick => fair::hrtick(rq, cx, slot),
            ClassId::Fair => lifecycle::soften(fair::tick(rq, cx, slot), self.config.settings.preempt),
            ClassId::Deadline => dl::hrtick(rq, cx, slot),
            ClassId::Stop | ClassId::Ext | ClassId::Idle => Resched::No,
        };
        rq.resched(cx, resched);
    }

    /// Does work that another CPU requested by interrupt.
    pub fn remote(&self, rq: &mut Rq, now: Clock, work: Work, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let step = match work {
            Work::RtPush(domain) => rt_push::begin(rq, cx, AfterPush::PassOn(domain)),
            Work::RtPushFor(source) => rt_push::begin(rq, cx, AfterPush::PassOnChain(source)),
            Work::RtPullFrom(cpu) => rt_claim::answer(rq, cx, cpu),
            Work::IdleBalance => periodic::idle(rq, cx),
            Work::ExtKick { even_if_busy } => {
                policy::kicked(rq, cx, even_if_busy);
                Step::Done
            }
        };
        rq.publish(cx);
        step
    }

    /// Continues a step with one run queue.
    pub fn resume(&self, rq: &mut Rq, now: Clock, cont: Cont, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        let step = match cont {
            Cont::RtPush(after) => rt_push::begin(rq, cx, after),
            Cont::Bandwidth(work) => distribute::resume(rq, cx, work),
        };
        rq.publish(cx);
        step
    }

    /// Continues a step with two run queues: the one that the work belongs to, and the other.
    ///
    /// # Panics
    /// If both are the same CPU's.
    pub fn resume_pair(&self, own: &mut Rq, other: &mut Rq, now: PairClock, cont: PairCont, io: &mut Io) -> Step {
        assert!(own.cpu() != other.cpu(), "a pair is two run queues");
        own.set_clock(now.own());
        other.set_clock(now.other());
        let cx = &mut self.cx(own.cpu(), now.own(), io);
        let step = match cont {
            PairCont::RtPush(push) => rt_push::resume(own, other, cx, push),
            PairCont::RtPull { scope } => rt_pull::resume(own, other, cx, scope),
            PairCont::RtPullClaimed(pull) => rt_claim::resume(own, other, cx, pull),
            PairCont::DlPush(push) => dl_push::resume(own, other, cx, push),
            PairCont::DlPull => dl_pull::resume(own, other, cx),
            PairCont::ServedPush(push) => served_push::resume(own, other, cx, push),
            PairCont::ServedPull(pull) => served_pull::resume(own, other, cx, pull),
            PairCont::Balance(work) => periodic::resume(own, other, cx, work),
            PairCont::ExtTake(task) => ext_balance::resume(own, other, cx, task),
        };
        own.publish(cx);
        other.publish(cx);
        step
    }

    /// Charges the current task up to now, so that its counters can be read.
    pub fn charge(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        lifecycle::charge_beside(rq, cx);
        rq.publish(cx);
    }

    /// Returns the counters of a task that is queued here.
    ///
    /// # Errors
    /// It is not on this run queue.
    pub fn counters(&self, rq: &Rq, task: TaskId) -> Result<TaskCounters, NotHere> {
        let slot = self.slot_of(rq, task)?;
        let mut counters = rq.tasks[slot].counters;
        counters.exec = proxy::exec_of(rq, slot);
        Ok(counters)
    }

    /// Returns the loan of a task queued here to the holder of a lock that it waits for.
    ///
    /// # Errors
    /// It is not on this run queue.
    pub fn lends(&self, rq: &Rq, task: TaskId) -> Result<Lent, NotHere> {
        Ok(rq.tasks[self.slot_of(rq, task)?].lends())
    }

    /// Returns whether a CPU needs its tick: it is not idle, or idle ticks are not stopped. A
    /// `nohz_full` CPU needs it only while the tick decides something.
    #[must_use]
    #[inline(always)]
    pub fn needs_tick(&self, rq: &Rq) -> bool {
        ticks::are_needed(rq, &self.config.settings)
    }
}
