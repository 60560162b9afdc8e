//! [`Host`]: a loaded policy, for those who run it: a simulator, or a kernel's user-space half.
//!
//! The host of a policy says what happens to tasks and CPUs, one method per event. Each method
//! applies the rules of the class around the callback and leaves [`Effect`]s: CPUs that have to
//! schedule. The host then asks which task is first on a CPU's local queue.
//!
//! ```text
//!  select_cpu ── inserts ──────────────┐            set_next            put_prev, slice left
//!      │ does not                      ▼           ┌────────► current ────────────┐
//!      ▼              inserts     local queue ─────┘                              ▼
//!   enqueue ────────────────────►  of a CPU  ◄──────────────────────────── (head of it)
//!      │ does not        move_to_local ▲                          put_prev, slice used up:
//!      ▼                  │            │ dispatch inserts           enqueue again
//!   kept ─── dispatch ────┼────────────┘
//!      └──── inserts ► queue of the policy, or the global one
//! ```
//!
//! After a fault the policy is bypassed, as in a kernel: it is not called any more, its tasks go to
//! the global queue, and CPUs take from there until the host has moved every task to another class.
//! While a policy is loaded or unloaded it is bypassed too, but told what happens
//! (`loading`).
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c` (`enqueue_task_scx`, `scx_do_enqueue_task`,
//! `dequeue_task_scx`, `dispatch_one`, `set_next_task_scx`, `put_prev_task_scx`, `task_tick_scx`,
//! `yield_task_scx`, `check_rq_for_timeouts`). differs: `ops.dequeue` of a task that
//! leaves the policy's custody by an insertion is called at the end of the callback that inserted
//! it, not within; while the policy is bypassed all CPUs share the global queue (6.12; since 6.19
//! each CPU has a bypass queue).

use crate::exit::{ExitInfo, ExitKind};
use crate::ops::{Ops, Policy};
use crate::scx::{Call, CpuState, Direct, Effect, Insert, MAX_WORK, Place, Scx, TaskState, Work};
use crate::words::{Callback, DeqFlags, DsqId, EnqFlags, OpsFlags, SLICE_INF, WakeFlags};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use zerolag_model::{CpuId, CpuMask, Duration, GroupId, Instant, TaskId, Topology};

/// How often one dispatch asks the policy again (`SCX_DSP_MAX_LOOPS`).
const MAX_LOOPS: usize = 32;

/// A task as the policy is told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskInfo {
    /// Its name.
    pub comm: Arc<str>,
    /// Its weight: 100 for nice 0.
    pub weight: u32,
    /// Its group.
    pub group: GroupId,
    /// The CPUs on which it is allowed; `None` for every CPU.
    pub allowed: Option<Arc<CpuMask>>,
    /// The CPU on which it is, or ran last.
    pub cpu: CpuId,
    /// The period of its timer in the workload, if it has one.
    pub period: Option<Duration>,
}

/// Why a task is enqueued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It wakes.
    Wakeup,
    /// It is new.
    New,
    /// It was dequeued to change it, or to move it to another CPU by other rules than the policy's.
    Again {
        /// It moves: it has been runnable before.
        moves: bool,
    },
}

/// Why a task is dequeued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// It waits for something.
    Sleep,
    /// It exits.
    Exit,
    /// An attribute changes: it will be enqueued again.
    Change,
    /// It moves to another CPU by other rules than the policy's: it will be enqueued there.
    Move,
}

/// A loaded policy with the state of the kernel around it.
#[derive(Clone, Debug)]
pub struct Host {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) scx: Scx,
    pub(crate) ops: Ops,
    /// The policy has failed in this event: what it kept is still to be taken away.
    pub(crate) has_just_failed: bool,
    /// The number of callbacks so far.
    calls: u64,
    /// The time at which [`fire_timers`](Self::fire_timers) will be called.
    pub(crate) armed: Option<Instant>,
    /// The policy is being unloaded: a task that leaves it has left for good.
    pub(crate) unloads: bool,
}

impl Host {
    /// Loads a policy on a machine whose CPUs all idle, and calls its `init`.
    #[must_use]
    pub fn load(policy: Box<dyn Policy>, topology: &Topology, slice_dfl: Duration) -> Self {
        let mut ops = policy.ops();
        ops.timeout = ops.timeout.min(Ops::TIMEOUT_MAX);
        let cpu = |_| CpuState {
            local: crate::dsq::Dsq::new(),
            current: None,
            is_online: true,
            idles: true,
            is_released: false,
        };
        let scx = Scx {
            name: ops.name.clone(),
            topology: topology.clone(),
            slice_dfl,
            now: Instant::ZERO,
            tasks: Vec::new(),
            cpus: topology.cpus().map(cpu).collect(),
            global: crate::dsq::Dsq::new(),
            user: BTreeMap::new(),
            idle: CpuMask::first_n(topology.nr_cpus()),
            groups: BTreeMap::new(),
            paths: BTreeMap::new(),
            batch: Vec::new(),
            max_batch: ops.dispatch_max_batch,
            dispatched: 0,
            left: Vec::new(),
            call: None,
            timers: BTreeMap::new(),
            effects: Vec::new(),
            steps: None,
            next_turn: 0,
            bypasses: false,
            exit: None,
        };
        let mut host = Self { policy, scx, ops, has_just_failed: false, calls: 0, armed: None, unloads: false };
        host.call(Callback::Init, None, None, |policy, scx| policy.init(scx));
        host.finish();
        host
    }

    /// Returns the state that the policy sees.
    #[must_use]
    pub const fn scx(&self) -> &Scx {
        &self.scx
    }

    /// Returns what the policy said of itself.
    #[must_use]
    pub const fn ops(&self) -> &Ops {
        &self.ops
    }

    /// Returns the number of callbacks so far.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns why the policy was unloaded, if it was: it is bypassed since.
    #[must_use]
    pub fn exit_info(&self) -> Option<&ExitInfo> {
        self.scx.exit.as_deref()
    }

    /// Sets the time of the next events. It does not go back.
    pub fn set_now(&mut self, now: Instant) {
        self.scx.now = self.scx.now.max(now);
    }

    /// Takes the effects of the events so far out, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        core::mem::take(&mut self.scx.effects)
    }

    /// Returns them in place, to be taken out without new memory.
    pub const fn effects_mut(&mut self) -> &mut Vec<Effect> {
        &mut self.scx.effects
    }

    /// Returns whether the policy has a task.
    #[must_use]
    pub fn has(&self, p: TaskId) -> bool {
        self.scx.tasks.get(p.index()).is_some_and(Option::is_some)
    }

    /// Returns the tasks on the local queue of a CPU, the next one first.
    pub fn local(&self, cpu: CpuId) -> impl Iterator<Item = TaskId> + '_ {
        self.scx.cpus[cpu.index()].local.iter()
    }

    /// Returns the first of them.
    #[must_use]
    pub fn first_local(&self, cpu: CpuId) -> Option<TaskId> {
        self.scx.cpus[cpu.index()].local.first()
    }

    /// Returns the first of them whose body is on that CPU.
    #[must_use]
    pub fn first_local_here(&self, cpu: CpuId) -> Option<TaskId> {
        self.scx.cpus[cpu.index()].local.find(|p| self.home(p) == Some(cpu))
    }

    /// Returns whether a runnable task is on a queue, or kept by the policy, and not current.
    #[must_use]
    pub fn waits(&self, p: TaskId) -> bool {
        self.task(p).is_some_and(|task| task.place != Place::Off)
    }

    /// Returns whether a task waits on the machine's queue.
    #[must_use]
    pub fn is_on_global(&self, p: TaskId) -> bool {
        self.task(p).is_some_and(|task| matches!(task.place, Place::On(DsqId::GLOBAL, _)))
    }

    /// Returns the CPU on which a task is for the policy.
    #[must_use]
    pub fn home(&self, p: TaskId) -> Option<CpuId> {
        self.task(p).map(|task| task.cpu)
    }

    pub(crate) fn task(&self, p: TaskId) -> Option<&TaskState> {
        self.scx.tasks.get(p.index())?.as_deref()
    }

    fn task_mut(&mut self, p: TaskId) -> &mut TaskState {
        self.scx.tasks[p.index()].as_deref_mut().expect("invariant: an event is about a task of the policy")
    }
}

/// Tasks begin and end, and change.
impl Host {
    /// Gives the policy a task.
    pub fn add_task(&mut self, p: TaskId, info: TaskInfo, fork: bool) {
        if self.scx.tasks.len() <= p.index() {
            self.scx.tasks.resize_with(p.index() + 1, || None);
        }
        let TaskInfo { comm, weight, group, allowed, cpu, period } = info;
        self.scx.tasks[p.index()] = Some(Box::new(TaskState {
            comm,
            weight,
            group,
            allowed,
            cpu,
            period,
            slice: self.scx.slice_dfl,
            vtime: 0,
            place: Place::Off,
            direct: None,
            waits: false,
            runnable_at: None,
            turn: 0,
            in_custody: false,
            moves: false,
            work: None,
        }));
        self.call(Callback::InitTask, Some(cpu), Some(p), |policy, scx| policy.init_task(scx, p, fork));
        self.call(Callback::Enable, Some(cpu), Some(p), |policy, scx| policy.enable(scx, p));
        // `scx_enable_task` sets the weight.
        self.call(Callback::SetWeight, Some(cpu), Some(p), |policy, scx| policy.set_weight(scx, p, weight));
        self.finish();
    }

    /// Takes a task away, which is on no queue: it exits, or changes to another class.
    pub fn remove_task(&mut self, p: TaskId, exits: bool) {
        let cpu = self.home(p);
        self.call(Callback::Disable, cpu, Some(p), |policy, scx| policy.disable(scx, p));
        if exits || self.unloads {
            self.call(Callback::ExitTask, cpu, Some(p), |policy, scx| policy.exit_task(scx, p));
        }
        self.finish();
        self.scx.unlink(p);
        // The current task of a CPU can change its class.
        if let Some(state) = cpu.and_then(|cpu| self.scx.cpus.get_mut(cpu.index())) {
            state.current = state.current.filter(|current| *current != p);
        }
        self.scx.tasks[p.index()] = None;
    }

    /// Tells what a task is now; the policy hears of what is different.
    pub fn update_task(&mut self, p: TaskId, weight: u32, group: GroupId, allowed: Option<&Arc<CpuMask>>) {
        let task = self.task_mut(p);
        let cpu = Some(task.cpu);
        if core::mem::replace(&mut task.weight, weight) != weight {
            self.call(Callback::SetWeight, cpu, Some(p), |policy, scx| policy.set_weight(scx, p, weight));
        }
        let task = self.task_mut(p);
        if task.allowed.as_ref() != allowed {
            task.allowed = allowed.cloned();
            let mask = allowed.map(|mask| &**mask);
            self.call(Callback::SetCpumask, cpu, Some(p), |policy, scx| policy.set_cpumask(scx, p, mask));
        }
        let from = core::mem::replace(&mut self.task_mut(p).group, group);
        if from != group {
            self.call(Callback::CgroupMove, cpu, Some(p), |policy, scx| policy.cgroup_move(scx, p, from, group));
        }
        self.finish();
    }

    /// Changes the CPUs of a queued task, which keeps its place unless that is the local queue of a
    /// CPU where it must not run.
    pub fn is_on_forbidden_local(&self, p: TaskId) -> bool {
        self.task(p).is_some_and(|task| match task.place {
            Place::On(dsq, _) => dsq.cpu().is_some_and(|cpu| cpu != task.cpu && !task.may_run_on(cpu)),
            Place::Off | Place::Kept => false,
        })
    }
}

/// Tasks wake, run and wait.
impl Host {
    /// The name of a task changes. No operation tells a policy: it sees the name when it asks.
    pub fn rename_task(&mut self, p: TaskId, comm: Arc<str>) {
        if let Some(task) = self.scx.get_mut(p) {
            task.comm = comm;
        }
    }

    /// Chooses the CPU for a task. `by` is the CPU that wakes it (`select_task_rq_scx`).
    pub fn select_cpu(&mut self, p: TaskId, prev_cpu: CpuId, by: CpuId, flags: WakeFlags) -> CpuId {
        self.task_mut(p).direct = None;
        let direct = Direct::Of(p);
        let chosen = self.call_direct(Callback::SelectCpu, Some(by), Some(p), direct, |policy, scx| {
            policy.select_cpu(scx, p, prev_cpu, flags)
        });
        let cpu = match chosen {
            Some(cpu) if self.scx.cpu_valid(cpu, "from ops.select_cpu()") => cpu,
            Some(_) => {
                self.has_just_failed = true;
                prev_cpu
            }
            None => self.scx.select_cpu_dfl(p, prev_cpu, flags).0,
        };
        if self.scx.bypasses {
            self.task_mut(p).direct = None;
        }
        self.finish();
        cpu
    }

    /// Enqueues a task on the run queue of a CPU. One that is current there stays so.
    pub fn enqueue(&mut self, p: TaskId, cpu: CpuId, why: Arrival, is_current: bool) {
        let task = self.task_mut(p);
        task.cpu = cpu;
        if core::mem::take(&mut task.moves) {
            return; // Only its body has moved.
        }
        let flags = if why == Arrival::Wakeup { EnqFlags::WAKEUP | EnqFlags::CPU_SELECTED } else { EnqFlags::NONE };
        self.begin_waiting(p);
        self.scx.next_turn += 1;
        self.task_mut(p).turn = self.scx.next_turn;
        if why != (Arrival::Again { moves: true }) {
            self.call(Callback::Runnable, Some(cpu), Some(p), |policy, scx| policy.runnable(scx, p, flags));
        }
        if !is_current {
            self.do_enqueue(p, cpu, flags);
        }
        self.finish();
    }

    fn begin_waiting(&mut self, p: TaskId) {
        let now = self.scx.now;
        let task = self.task_mut(p);
        task.waits = true;
        task.runnable_at.get_or_insert(now);
    }

    fn do_enqueue(&mut self, p: TaskId, cpu: CpuId, flags: EnqFlags) {
        let slice_dfl = self.scx.slice_dfl;
        let insert = |dsq| Insert { task: p, dsq, slice: slice_dfl, vtime: None, flags };
        let direct = self.task_mut(p).direct.take();
        if !self.scx.cpus[cpu.index()].is_online {
            return self.scx.put(insert(DsqId::local_on(cpu)));
        }
        if self.scx.bypasses {
            return self.scx.put(insert(DsqId::GLOBAL));
        }
        let callback = if direct.is_some() { Callback::SelectCpu } else { Callback::Enqueue };
        let direct = direct.or_else(|| {
            let of = Direct::Of(p);
            self.call_direct(Callback::Enqueue, Some(cpu), Some(p), of, |policy, scx| policy.enqueue(scx, p, flags));
            self.task_mut(p).direct.take()
        });
        match direct {
            Some(direct) => {
                let dsq = if direct.dsq == DsqId::LOCAL { DsqId::local_on(cpu) } else { direct.dsq };
                let had = self.scx.exit.is_some();
                // An error of the insertion is one of the callback that asked for it.
                self.scx.call = Some(Self::call_of(callback, Some(cpu), Some(p), Direct::No));
                self.scx.put(Insert { dsq, flags: direct.flags | flags, ..direct });
                self.scx.call = None;
                self.has_just_failed |= !had && self.scx.exit.is_some();
            }
            None => {
                let task = self.task_mut(p);
                (task.place, task.in_custody) = (Place::Kept, true);
                if self.scx.steps.is_some() {
                    self.scx.note_step(p, None, Some(Callback::Enqueue));
                }
            }
        }
    }

    /// Dequeues a task. The slice of a current one has been charged.
    pub fn dequeue(&mut self, p: TaskId, why: Departure, is_current: bool) {
        let task = self.task_mut(p);
        if task.moves {
            return;
        }
        let (cpu, had) = (Some(task.cpu), core::mem::take(&mut task.in_custody));
        task.waits = false;
        let flags = if why == Departure::Sleep { DeqFlags::SLEEP } else { DeqFlags::SCHED_CHANGE };
        self.scx.unlink(p);
        if had {
            self.call(Callback::Dequeue, cpu, Some(p), |policy, scx| policy.dequeue(scx, p, flags));
        }
        if is_current {
            self.call(Callback::Stopping, cpu, Some(p), |policy, scx| policy.stopping(scx, p, false));
            if why != Departure::Change
                && let Some(cpu) = cpu
            {
                self.scx.cpus[cpu.index()].current = None;
            }
        }
        if why != Departure::Move {
            self.call(Callback::Quiescent, cpu, Some(p), |policy, scx| policy.quiescent(scx, p, flags));
        }
        self.task_mut(p).direct = None;
        self.finish();
    }

    /// The host is about to move the body of a task to the CPU of its local queue: the dequeue and
    /// the enqueue that follow are no events for the policy.
    pub fn move_body(&mut self, p: TaskId) {
        self.task_mut(p).moves = true;
    }

    /// A CPU has no other work: fills its local queue. `prev` is the current task, if it can run on
    /// (`dispatch_one`).
    pub fn dispatch(&mut self, cpu: CpuId, prev: Option<TaskId>) {
        let goes_on = |host: &Self| {
            let has_slice = prev.is_some_and(|prev| host.task(prev).is_some_and(|task| !task.slice.is_zero()));
            has_slice && !host.scx.bypasses || !host.scx.cpus[cpu.index()].local.is_empty()
        };
        if goes_on(self) || self.scx.consume(cpu, DsqId::GLOBAL) {
            return;
        }
        for round in 1.. {
            if self.scx.bypasses || !self.scx.cpus[cpu.index()].is_online {
                break;
            }
            self.scx.dispatched = 0;
            self.call(Callback::Dispatch, Some(cpu), prev, |policy, scx| {
                policy.dispatch(scx, cpu, prev);
                scx.flush();
            });
            self.finish();
            if goes_on(self) || self.scx.consume(cpu, DsqId::GLOBAL) || self.scx.dispatched == 0 {
                break;
            }
            if round == MAX_LOOPS {
                self.scx.effects.push(Effect::Resched(cpu));
                break;
            }
        }
    }

    /// Returns whether the current task of a CPU is to be kept rather than the first of the local
    /// queue: it has a slice left, or no other task is there and the policy does not want to be
    /// told of the last one. It gets a new slice then.
    pub fn keeps(&mut self, cpu: CpuId, current: TaskId) -> bool {
        let bypasses = self.scx.bypasses;
        let is_alone = self.scx.cpus[cpu.index()].local.is_empty();
        let enqueues_last = self.ops.flags.has(OpsFlags::ENQ_LAST) && !bypasses;
        let slice_dfl = self.scx.slice_dfl;
        let task = self.task_mut(current);
        if !task.slice.is_zero() && !bypasses {
            return true;
        }
        if is_alone && !enqueues_last {
            task.slice = slice_dfl;
            return true;
        }
        false
    }

    /// A task that was queued becomes the current one of a CPU (`set_next_task_scx`).
    pub fn set_next(&mut self, p: TaskId, cpu: CpuId) {
        self.scx.unlink(p);
        let (slice_dfl, now) = (self.scx.slice_dfl, self.scx.now);
        let task = self.task_mut(p);
        (task.waits, task.runnable_at) = (false, None);
        if let Some(work) = &mut task.work {
            work.at = now;
        }
        if task.slice.is_zero() {
            task.slice = slice_dfl;
        }
        self.scx.cpus[cpu.index()].current = Some(p);
        self.call(Callback::Running, Some(cpu), Some(p), |policy, scx| policy.running(scx, p));
        self.finish();
    }

    /// A CPU switches away from a task that stays runnable; `idles` if no task follows
    /// (`put_prev_task_scx`).
    pub fn put_prev(&mut self, p: TaskId, cpu: CpuId, idles: bool) {
        self.scx.cpus[cpu.index()].current = None;
        self.call(Callback::Stopping, Some(cpu), Some(p), |policy, scx| policy.stopping(scx, p, true));
        self.begin_waiting(p);
        if !self.task_mut(p).slice.is_zero() && !self.scx.bypasses {
            let dsq = DsqId::local_on(cpu);
            let flags = EnqFlags::HEAD;
            self.scx.place(Insert { task: p, dsq, slice: Duration::ZERO, vtime: None, flags });
        } else {
            self.do_enqueue(p, cpu, if idles { EnqFlags::LAST } else { EnqFlags::NONE });
        }
        self.finish();
    }

    /// Charges time to the slice of a current task.
    pub fn charge(&mut self, p: TaskId, delta: Duration) {
        let now = self.scx.now;
        let task = self.task_mut(p);
        if task.slice != SLICE_INF {
            task.slice = task.slice.saturating_sub(delta);
        }
        if let Some(work) = &mut task.work {
            *work = Work { left: work.left.saturating_sub(delta), at: now };
        }
    }

    /// Sets the CPU time that a task will use until it waits, or that no wait is in sight: of a host
    /// that knows it, for a policy that [asks](crate::Needs::WORK).
    pub fn set_work(&mut self, p: TaskId, left: Option<Duration>) {
        let at = self.scx.now;
        if let Some(task) = self.scx.get_mut(p) {
            task.work = left.map(|left| Work { left, at });
        }
    }

    /// Sets what is left of a task's slice: of a host whose kernel counts it.
    pub fn set_slice(&mut self, p: TaskId, slice: Duration) {
        self.task_mut(p).slice = slice;
    }

    /// A tick while a task runs: returns whether its CPU has to schedule.
    pub fn tick(&mut self, p: TaskId) -> bool {
        let cpu = self.home(p);
        if self.scx.bypasses {
            self.task_mut(p).slice = Duration::ZERO;
        }
        self.call(Callback::Tick, cpu, Some(p), |policy, scx| policy.tick(scx, p));
        self.finish();
        self.task_mut(p).slice.is_zero()
    }

    /// The current task gives up its CPU.
    pub fn yield_current(&mut self, p: TaskId) {
        let cpu = self.home(p);
        if self.call(Callback::Yield, cpu, Some(p), |policy, scx| policy.yield_(scx, p, None)).is_none() {
            self.task_mut(p).slice = Duration::ZERO;
        }
        self.finish();
    }
}

/// CPUs, and time.
impl Host {
    /// A CPU has picked the idle task, or leaves it.
    pub fn update_idle(&mut self, cpu: CpuId, idle: bool) {
        let state = &mut self.scx.cpus[cpu.index()];
        let is_new = core::mem::replace(&mut state.idles, idle) != idle;
        if idle && state.is_online {
            self.scx.idle.insert(cpu);
        } else {
            self.scx.idle.remove(cpu);
        }
        if is_new {
            self.call(Callback::UpdateIdle, Some(cpu), None, |policy, scx| {
                policy.update_idle(scx, cpu, idle);
            });
            self.finish();
        }
    }

    /// A CPU has switched to a class above, or back from one.
    pub fn set_released(&mut self, cpu: CpuId, is_released: bool) {
        if core::mem::replace(&mut self.scx.cpus[cpu.index()].is_released, is_released) == is_released {
            return;
        }
        if is_released {
            self.call(Callback::CpuRelease, Some(cpu), None, |policy, scx| policy.cpu_release(scx, cpu));
        } else {
            self.call(Callback::CpuAcquire, Some(cpu), None, |policy, scx| policy.cpu_acquire(scx, cpu));
        }
        self.finish();
    }

    /// A CPU comes online or goes offline. Tasks on the local queue of one that goes are the
    /// global queue's, but for those whose body is there.
    pub fn set_online(&mut self, cpu: CpuId, is_online: bool) {
        let state = &mut self.scx.cpus[cpu.index()];
        if core::mem::replace(&mut state.is_online, is_online) == is_online {
            return;
        }
        if is_online {
            self.call(Callback::CpuOnline, Some(cpu), None, |policy, scx| policy.cpu_online(scx, cpu));
        } else {
            self.scx.idle.remove(cpu);
            self.call(Callback::CpuOffline, Some(cpu), None, |policy, scx| policy.cpu_offline(scx, cpu));
            let elsewhere = |p: &TaskId| self.home(*p) != Some(cpu);
            let stranded: Vec<TaskId> = self.local(cpu).filter(elsewhere).collect();
            for task in stranded {
                self.scx.unlink(task);
                let (slice, flags) = (Duration::ZERO, EnqFlags::NONE);
                self.scx.put(Insert { task, dsq: DsqId::GLOBAL, slice, vtime: None, flags });
            }
            self.wake_idle();
        }
        self.finish();
    }

    /// Looks for a runnable task that has not run for longer than the policy's time limit; returns
    /// when to look again (`scx_watchdog_workfn`: every half of the limit). `None` once the policy
    /// is unloaded.
    pub fn watchdog(&mut self) -> Option<Instant> {
        if self.scx.exit.is_some() {
            return None;
        }
        let (now, limit) = (self.scx.now, self.ops.timeout);
        let waited = |task: &TaskState| task.runnable_at.filter(|_| task.waits).map(|since| now.since(since));
        let mut tasks = (0..).zip(&self.scx.tasks).filter_map(|(id, task)| Some((id, waited(task.as_deref()?)?)));
        if let Some((id, waited)) = tasks.find(|(_, waited)| *waited > limit) {
            let title = self.scx.title(TaskId(id));
            let millis = waited.as_nanos() / 1_000_000;
            let msg = format!("{title} failed to run for {}.{:03}s", millis / 1000, millis % 1000);
            self.scx.fail(ExitKind::Stall, msg);
            if let Some(exit) = &mut self.scx.exit {
                exit.task = Some(title);
            }
            self.has_just_failed = true;
            self.finish();
            return None;
        }
        Some(now.saturating_add(Duration::from_nanos(limit.as_nanos() / 2).max(Duration::from_millis(1))))
    }

    /// Returns when to call [`fire_timers`](Self::fire_timers), if that is earlier than what was
    /// returned before.
    #[inline]
    pub fn take_timer(&mut self) -> Option<Instant> {
        if self.scx.timers.is_empty() || self.scx.exit.is_some() {
            return None;
        }
        let first = self.scx.timers.values().copied().min();
        let first = first.filter(|first| self.armed.is_none_or(|armed| *first < armed))?;
        self.armed = Some(first);
        Some(first)
    }

    /// Calls the timers that are due.
    pub fn fire_timers(&mut self) {
        self.armed = None;
        let now = self.scx.now;
        let due: Vec<u32> = self.scx.timers.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        for id in due {
            // One before it may have stopped it, or started it anew.
            if self.scx.timers.get(&id).is_some_and(|at| *at <= now) {
                self.scx.timers.remove(&id);
                self.call(Callback::Timer, None, None, |policy, scx| policy.timer(scx, id));
            }
        }
        self.finish();
    }
}

impl Host {
    const fn call_of(callback: Callback, cpu: Option<CpuId>, task: Option<TaskId>, direct: Direct) -> Call {
        Call { callback, task, cpu, direct, work: Cell::new(0) }
    }

    /// Calls the policy with what allows no direct insertion.
    pub(crate) fn call<R>(
        &mut self,
        callback: Callback,
        cpu: Option<CpuId>,
        task: Option<TaskId>,
        f: impl FnOnce(&mut dyn Policy, &mut Scx) -> R,
    ) -> Option<R> {
        self.call_direct(callback, cpu, task, Direct::No, f)
    }

    /// Calls the policy, unless it has been unloaded, or is bypassed and would have to decide.
    fn call_direct<R>(
        &mut self,
        callback: Callback,
        cpu: Option<CpuId>,
        task: Option<TaskId>,
        direct: Direct,
        f: impl FnOnce(&mut dyn Policy, &mut Scx) -> R,
    ) -> Option<R> {
        // One that has been unloaded is bypassed too.
        if self.scx.bypasses && (callback.is_decision() || self.scx.exit.is_some()) {
            return None;
        }
        self.calls += 1;
        self.scx.call = Some(Self::call_of(callback, cpu, task, direct));
        let result = f(&mut *self.policy, &mut self.scx);
        let work = self.scx.call.as_ref().map_or(0, |call| call.work.get());
        if work > MAX_WORK {
            self.scx.fail(ExitKind::Error, format!("{work} calls of helpers in one callback (at most {MAX_WORK})"));
        }
        self.scx.call = None;
        self.has_just_failed |= self.scx.exit.is_some();
        Some(result)
    }

    /// Ends an event: tells the policy of the tasks that have left it, and takes away what a policy
    /// that has failed still kept.
    #[inline]
    pub(crate) fn finish(&mut self) {
        if !self.scx.left.is_empty() || self.has_just_failed {
            self.finish_more();
        }
    }

    fn finish_more(&mut self) {
        for p in core::mem::take(&mut self.scx.left) {
            let cpu = self.home(p);
            self.call(Callback::Dequeue, cpu, Some(p), |policy, scx| policy.dequeue(scx, p, DeqFlags::NONE));
        }
        if core::mem::take(&mut self.has_just_failed) {
            self.bypass();
        }
    }
}
