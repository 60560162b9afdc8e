//! [`Scx`]: the kernel as a policy sees it, its helpers (`scx_bpf_*`), and the state behind them.
//!
//! All queues are here, also the local ones: the host moves the *body* of a task to the CPU on
//! whose local queue the task is, before that CPU runs it. So a decision takes effect at once, and
//! no lock of a run queue is needed to take it.
//!
//! A rule that is broken does what it does in a kernel: the policy is finished ([`ExitInfo`]), the
//! task goes to the global queue, and no later call of a helper has an effect.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c` (`scx_bpf_dsq_insert`, `scx_dispatch_enqueue`,
//! `mark_direct_dispatch`, `find_dsq_for_dispatch`, `finish_dispatch`, `scx_consume_dispatch_q`,
//! `scx_bpf_create_dsq`, `destroy_dsq`). differs: one global queue, where the kernel has one per
//! NUMA node.

use crate::dsq::{Dsq, Key, Order};
use crate::exit::{ExitInfo, ExitKind};
use crate::groups::GroupState;
use crate::steps::Steps;
use crate::words::{Callback, DsqId, EnqFlags};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use zerolag_model::{CpuId, CpuMask, Duration, GroupId, Instant, TaskId, Topology};

/// The most calls of helpers that one callback may make. A kernel bounds the instructions of a
/// program; here a loop that calls no helper is not noticed.
pub const MAX_WORK: u32 = 1 << 20;

/// Why a queue cannot be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DsqError {
    /// Its name has the bit of the kernel's own queues (`-EINVAL`).
    Builtin,
    /// It exists (`-EEXIST`).
    Exists,
}

impl core::fmt::Display for DsqError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Builtin => "the name is one of the kernel's own queues",
            Self::Exists => "the queue exists",
        })
    }
}

impl core::error::Error for DsqError {}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// On no queue: it sleeps, or it is current.
    Off,
    /// The policy keeps it (`SCX_OPSS_QUEUED`).
    Kept,
    /// On a queue; local queues by their CPU.
    On(DsqId, Key),
}

/// An insertion that takes effect later: at the end of the enqueue, or of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Insert {
    pub(crate) task: TaskId,
    pub(crate) dsq: DsqId,
    pub(crate) slice: Duration,
    pub(crate) vtime: Option<u64>,
    pub(crate) flags: EnqFlags,
}

/// The state of a task (`sched_ext_entity`).
#[derive(Clone, Debug)]
pub(crate) struct TaskState {
    pub(crate) comm: Arc<str>,
    pub(crate) weight: u32,
    pub(crate) group: GroupId,
    pub(crate) allowed: Option<Arc<CpuMask>>,
    pub(crate) cpu: CpuId,
    pub(crate) period: Option<Duration>,
    pub(crate) slice: Duration,
    pub(crate) vtime: u64,
    pub(crate) place: Place,
    pub(crate) direct: Option<Insert>,
    /// It is runnable and does not run (`scx.runnable_node`).
    pub(crate) waits: bool,
    /// Since when it has been runnable without running; `None` once it has run. A change of its
    /// attributes is no reason to count anew (`clr_task_runnable`).
    pub(crate) runnable_at: Option<Instant>,
    /// The number by which it became runnable, in the order of its CPU's list (`runnable_list`).
    pub(crate) turn: u64,
    /// The policy has it, also on a queue of its own (`SCX_TASK_IN_CUSTODY`).
    pub(crate) in_custody: bool,
    /// The host moves its body to the CPU of its local queue (`scx.sticky_cpu`).
    pub(crate) moves: bool,
    /// The CPU time that it will use until it waits, if the host says that.
    pub(crate) work: Option<Work>,
}

/// What a task has still to compute at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) left: Duration,
    pub(crate) at: Instant,
}

#[derive(Clone, Debug)]
pub(crate) struct CpuState {
    pub(crate) local: Dsq,
    /// The task of the policy that runs.
    pub(crate) current: Option<TaskId>,
    pub(crate) is_online: bool,
    pub(crate) idles: bool,
    /// A class above has it (`cpu_released`).
    pub(crate) is_released: bool,
}

/// What the host has to do after an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Let this CPU schedule if it idles.
    WakeIdle(CpuId),
    /// Let this CPU schedule if it idles or runs a task of the policy.
    Resched(CpuId),
}

/// What the direct insertion of a callback can be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direct {
    /// No direct insertion is possible.
    No,
    /// It must be about this task.
    Of(TaskId),
    /// It has been made.
    Made,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) callback: Callback,
    pub(crate) task: Option<TaskId>,
    pub(crate) cpu: Option<CpuId>,
    pub(crate) direct: Direct,
    pub(crate) work: Cell<u32>,
}

/// The kernel as a policy sees it.
#[derive(Clone, Debug)]
pub struct Scx {
    pub(crate) name: String,
    pub(crate) topology: Topology,
    pub(crate) slice_dfl: Duration,
    pub(crate) now: Instant,
    pub(crate) tasks: Vec<Option<Box<TaskState>>>,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) global: Dsq,
    pub(crate) user: BTreeMap<u64, Dsq>,
    /// The CPUs that idle and have not been chosen for a task since.
    pub(crate) idle: CpuMask,
    pub(crate) groups: BTreeMap<GroupId, GroupState>,
    /// The paths of groups, as far as the host says them.
    pub(crate) paths: BTreeMap<GroupId, Arc<str>>,
    pub(crate) batch: Vec<Insert>,
    pub(crate) max_batch: usize,
    /// The tasks that the current dispatch has inserted or moved (`dspc->nr_tasks`).
    pub(crate) dispatched: usize,
    /// The tasks that have left the policy's custody in this callback: it is told afterwards.
    pub(crate) left: Vec<TaskId>,
    pub(crate) call: Option<Call>,
    /// When the timers that run are due, by their ids.
    pub(crate) timers: BTreeMap<u32, Instant>,
    pub(crate) effects: Vec<Effect>,
    /// Where the policy has put its tasks, if that is kept.
    pub(crate) steps: Option<Box<Steps>>,
    /// The number of the next task that becomes runnable.
    pub(crate) next_turn: u64,
    /// The policy decides nothing: all tasks are on the global queue, and CPUs take from there.
    pub(crate) bypasses: bool,
    pub(crate) exit: Option<Box<ExitInfo>>,
}

/// Time, and the machine.
impl Scx {
    /// Returns the time (`scx_bpf_now`).
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of CPUs; they are numbered from 0.
    #[must_use]
    pub const fn nr_cpus(&self) -> usize {
        self.topology.nr_cpus()
    }

    /// Returns cores, caches, sockets and capacities.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the default slice of this machine.
    #[must_use]
    pub const fn slice_dfl(&self) -> Duration {
        self.slice_dfl
    }

    /// Starts a timer of the policy (`bpf_timer_start`): [`timer`](crate::Policy::timer) is called
    /// once, after `after`, or 1 us if that is longer. One that runs is started anew.
    pub fn timer_start(&mut self, id: u32, after: Duration) {
        self.count();
        self.timers.insert(id, self.now.saturating_add(after.max(Duration::from_micros(1))));
    }

    /// Stops a timer (`bpf_timer_cancel`); returns whether it ran.
    pub fn timer_cancel(&mut self, id: u32) -> bool {
        self.count();
        self.timers.remove(&id).is_some()
    }

    /// Returns whether a CPU is online.
    #[must_use]
    pub fn cpu_online(&self, cpu: CpuId) -> bool {
        self.count();
        self.cpus.get(cpu.index()).is_some_and(|state| state.is_online)
    }

    /// Returns the task of the policy that runs on a CPU (`scx_bpf_cpu_curr`, without tasks of
    /// other classes).
    #[must_use]
    pub fn cpu_curr(&self, cpu: CpuId) -> Option<TaskId> {
        self.count();
        self.cpus.get(cpu.index())?.current
    }
}

/// Tasks and groups. A task that the policy does not have gives the value of no task: an empty
/// name, weight 0.
impl Scx {
    /// Returns the name of a task.
    #[must_use]
    pub fn comm(&self, p: TaskId) -> &str {
        self.get(p).map_or("", |task| &*task.comm)
    }

    /// Returns the weight of a task: 100 for nice 0, between 1 and 10000.
    #[must_use]
    pub fn weight(&self, p: TaskId) -> u32 {
        self.get(p).map_or(0, |task| task.weight)
    }

    /// Returns the group of a task (`scx_bpf_task_cgroup`).
    #[must_use]
    pub fn task_cgroup(&self, p: TaskId) -> GroupId {
        self.get(p).map_or(GroupId::ROOT, |task| task.group)
    }

    /// Returns the CPU on which a task runs, waits, or ran last (`scx_bpf_task_cpu`).
    #[must_use]
    pub fn task_cpu(&self, p: TaskId) -> CpuId {
        self.get(p).map_or(CpuId(0), |task| task.cpu)
    }

    /// Returns whether a task runs (`scx_bpf_task_running`).
    #[must_use]
    pub fn task_running(&self, p: TaskId) -> bool {
        self.get(p).is_some_and(|task| self.cpus[task.cpu.index()].current == Some(p))
    }

    /// Returns whether a task is allowed on a CPU.
    #[must_use]
    pub fn allowed(&self, p: TaskId, cpu: CpuId) -> bool {
        cpu.index() < self.nr_cpus() && self.get(p).is_some_and(|task| task.may_run_on(cpu))
    }

    /// Returns the CPUs on which a task is allowed; `None` for every CPU (`p->cpus_ptr`).
    #[must_use]
    pub fn cpumask(&self, p: TaskId) -> Option<&CpuMask> {
        self.get(p).and_then(|task| task.allowed.as_deref())
    }

    /// Returns the period of a task's timer in the workload, if it has one. A kernel does not know
    /// it: a policy that asks is one for simulations, or reads it from a map that its user fills.
    #[must_use]
    pub fn period(&self, p: TaskId) -> Option<Duration> {
        self.get(p).and_then(|task| task.period)
    }

    /// Returns the CPU time that a task will use until it waits, or completes its request; `None` if
    /// no wait is in sight. Only a simulator knows it, and says it to a policy that
    /// [asks](crate::Needs::WORK): others, and all in a kernel, get `None`.
    #[must_use]
    pub fn work_left(&self, p: TaskId) -> Option<Duration> {
        let Work { left, at } = self.get(p)?.work?;
        let since = if self.task_running(p) { self.now.since(at) } else { Duration::ZERO };
        Some(left.saturating_sub(since))
    }

    /// Returns what is left of a task's slice (`p->scx.slice`).
    #[must_use]
    pub fn slice(&self, p: TaskId) -> Duration {
        self.get(p).map_or(Duration::ZERO, |task| task.slice)
    }

    /// Sets what is left of a task's slice: with zero it runs to the next tick at most.
    pub fn set_slice(&mut self, p: TaskId, slice: Duration) {
        self.count();
        if let Some(task) = self.get_mut(p) {
            task.slice = slice;
        }
    }

    /// Returns the virtual time by which a task was last inserted, or what
    /// [`set_dsq_vtime`](Self::set_dsq_vtime) set (`p->scx.dsq_vtime`).
    #[must_use]
    pub fn dsq_vtime(&self, p: TaskId) -> u64 {
        self.get(p).map_or(0, |task| task.vtime)
    }

    /// Sets the virtual time of a task. It takes effect at the next insertion.
    pub fn set_dsq_vtime(&mut self, p: TaskId, vtime: u64) {
        self.count();
        if let Some(task) = self.get_mut(p) {
            task.vtime = vtime;
        }
    }
}

/// Dispatch queues.
impl Scx {
    /// Creates a queue.
    ///
    /// # Errors
    /// It exists, or its name is one of the kernel's queues.
    pub fn create_dsq(&mut self, dsq: DsqId) -> Result<(), DsqError> {
        self.count();
        if dsq.is_builtin() {
            return Err(DsqError::Builtin);
        }
        if self.user.contains_key(&dsq.0) {
            return Err(DsqError::Exists);
        }
        self.user.insert(dsq.0, Dsq::new());
        Ok(())
    }

    /// Destroys an empty queue; one with tasks is an error of the policy.
    pub fn destroy_dsq(&mut self, dsq: DsqId) {
        self.count();
        let nr = self.dsq_nr_queued(dsq);
        if nr > 0 {
            self.fail(ExitKind::Error, format!("attempting to destroy in-use dsq 0x{:016x} (nr={nr})", dsq.0));
        } else {
            self.user.remove(&dsq.0);
        }
    }

    /// Inserts a task at the end of a queue, to run for `slice`; a slice of zero keeps the old one
    /// (`scx_bpf_dsq_insert`).
    ///
    /// In `select_cpu` and `enqueue` the task must be that of the call; in `dispatch` it is one
    /// that the policy keeps.
    pub fn dsq_insert(&mut self, p: TaskId, dsq: DsqId, slice: Duration, flags: EnqFlags) {
        self.insert(Insert { task: p, dsq, slice, vtime: None, flags });
    }

    /// Inserts a task by virtual time: the least is the first (`scx_bpf_dsq_insert_vtime`). The
    /// kernel's own queues have no such order.
    pub fn dsq_insert_vtime(&mut self, p: TaskId, dsq: DsqId, slice: Duration, vtime: u64, flags: EnqFlags) {
        self.insert(Insert { task: p, dsq, slice, vtime: Some(vtime), flags });
    }

    /// Moves the first task of a queue that is allowed on the CPU of `dispatch` to its local queue;
    /// returns whether there was one (`scx_bpf_dsq_move_to_local`).
    pub fn dsq_move_to_local(&mut self, dsq: DsqId) -> bool {
        self.count();
        if self.exit.is_some() {
            return false;
        }
        let Some(cpu) = self.dispatching("scx_bpf_dsq_move_to_local") else { return false };
        self.flush();
        match self.queue(dsq) {
            Some(_) => {
                let is_found = self.consume(cpu, dsq);
                self.dispatched += usize::from(is_found);
                is_found
            }
            None => {
                self.fail(ExitKind::Error, format!("invalid DSQ ID 0x{:016x}", dsq.0));
                false
            }
        }
    }

    /// Moves a task from the queue on which it is to another one; returns whether it was on one
    /// (`scx_bpf_dsq_move`). Its slice stays.
    pub fn dsq_move(&mut self, p: TaskId, to: DsqId, flags: EnqFlags) -> bool {
        self.move_to(p, to, None, flags)
    }

    /// As [`dsq_move`](Self::dsq_move), by virtual time (`scx_bpf_dsq_move_vtime`).
    pub fn dsq_move_vtime(&mut self, p: TaskId, to: DsqId, vtime: u64, flags: EnqFlags) -> bool {
        self.move_to(p, to, Some(vtime), flags)
    }

    /// Returns the number of tasks of a queue; 0 if it does not exist (`scx_bpf_dsq_nr_queued`,
    /// where that is `-ENOENT`).
    #[must_use]
    pub fn dsq_nr_queued(&self, dsq: DsqId) -> usize {
        self.count();
        self.queue(dsq).map_or(0, Dsq::len)
    }

    /// Returns the first task of a queue (`scx_bpf_dsq_peek`).
    #[must_use]
    pub fn dsq_peek(&self, dsq: DsqId) -> Option<TaskId> {
        self.count();
        self.queue(dsq)?.first()
    }

    /// Returns the tasks of a queue in order (`bpf_for_each(scx_dsq, ...)`). To move one, find it
    /// first; to move several, ask for the [`next`](Self::dsq_next) of each before it moves.
    pub fn dsq_iter(&self, dsq: DsqId) -> impl DoubleEndedIterator<Item = TaskId> + '_ {
        self.queue(dsq).into_iter().flat_map(Dsq::iter).inspect(|_| self.count())
    }

    /// Returns the task behind one on its queue.
    #[must_use]
    pub fn dsq_next(&self, p: TaskId) -> Option<TaskId> {
        match self.get(p)?.place {
            Place::On(dsq, key) => self.queue(dsq)?.next(key),
            Place::Off | Place::Kept => None,
        }
    }
}

/// For those who run policies: neither counts as a call of a helper.
impl Scx {
    /// Returns whether the callback has made so many calls of helpers that another one panics.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.work.get() >= 2 * MAX_WORK)
    }

    /// Returns the name of a task for a message.
    #[must_use]
    pub fn name_of(&self, p: TaskId) -> &str {
        self.tasks.get(p.index()).and_then(Option::as_ref).map_or("?", |task| &*task.comm)
    }
}

/// The end.
impl Scx {
    /// Gives up: the policy cannot go on (`scx_bpf_error`).
    pub fn error(&mut self, msg: &str) {
        self.fail(ExitKind::ErrorPolicy, msg.into());
    }

    /// Asks to be unloaded (`scx_bpf_exit`).
    pub fn exit(&mut self, msg: &str) {
        self.fail(ExitKind::UnregPolicy, msg.into());
    }
}

impl TaskState {
    pub(crate) fn may_run_on(&self, cpu: CpuId) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(cpu))
    }
}

impl Scx {
    /// Counts a call of a helper.
    pub(crate) fn count(&self) {
        let Some(call) = &self.call else { return };
        let work = call.work.get() + 1;
        call.work.set(work);
        // The error of the first call too many is reported once the callback returns. If it does
        // not, it is in a loop that waits for a helper to give another result.
        assert!(
            work <= 2 * MAX_WORK,
            "{}: {}() does not end after {work} calls of helpers",
            self.name,
            call.callback.name()
        );
    }

    pub(crate) fn get(&self, p: TaskId) -> Option<&TaskState> {
        self.count();
        self.tasks.get(p.index())?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, p: TaskId) -> Option<&mut TaskState> {
        self.tasks.get_mut(p.index())?.as_deref_mut()
    }

    /// Returns `comm[pid]`.
    pub(crate) fn title(&self, p: TaskId) -> String {
        format!("{}[{p}]", self.name_of(p))
    }

    /// Ends the policy; the first reason counts.
    pub(crate) fn fail(&mut self, kind: ExitKind, msg: String) {
        if self.exit.is_none() {
            let call = self.call.as_ref();
            self.bypasses = true;
            self.exit = Some(Box::new(ExitInfo {
                policy: self.name.clone(),
                kind,
                msg,
                at: self.now,
                callback: call.map(|call| call.callback),
                task: call.and_then(|call| call.task).map(|task| self.title(task)),
                cpu: call.and_then(|call| call.cpu),
            }));
        }
    }

    pub(crate) fn cpu_valid(&mut self, cpu: CpuId, where_: &str) -> bool {
        let is_valid = cpu.index() < self.cpus.len();
        if !is_valid {
            let space = if where_.is_empty() { "" } else { " " };
            self.fail(ExitKind::Error, format!("invalid CPU {cpu}{space}{where_}"));
        }
        is_valid
    }

    pub(crate) fn end_slice(&mut self, cpu: CpuId) {
        if let Some(current) = self.cpus[cpu.index()].current
            && let Some(task) = self.get_mut(current)
        {
            task.slice = Duration::ZERO;
        }
    }

    /// Returns the CPU that dispatches; elsewhere the call is an error.
    fn dispatching(&mut self, helper: &str) -> Option<CpuId> {
        match &self.call {
            Some(Call { callback: Callback::Dispatch, cpu, .. }) => *cpu,
            _ => {
                self.fail(ExitKind::Error, format!("{helper}() can only be called from ops.dispatch()"));
                None
            }
        }
    }

    fn queue(&self, dsq: DsqId) -> Option<&Dsq> {
        match (dsq, dsq.cpu()) {
            (DsqId::GLOBAL, None) => Some(&self.global),
            (DsqId::LOCAL, None) => {
                let call = self.call.as_ref()?;
                let cpu = call.task.filter(|_| call.callback != Callback::Dispatch).map(|task| self.task_cpu(task));
                Some(&self.cpus[cpu.or(call.cpu)?.index()].local)
            }
            (_, Some(cpu)) => self.cpus.get(cpu.index()).map(|cpu| &cpu.local),
            (DsqId(id), None) => self.user.get(&id),
        }
    }

    fn queue_mut(&mut self, dsq: DsqId) -> Option<&mut Dsq> {
        match (dsq, dsq.cpu()) {
            (DsqId::GLOBAL, None) => Some(&mut self.global),
            (_, Some(cpu)) => self.cpus.get_mut(cpu.index()).map(|cpu| &mut cpu.local),
            (DsqId(id), None) => self.user.get_mut(&id),
        }
    }

    /// An insertion by the policy.
    fn insert(&mut self, insert: Insert) {
        self.count();
        if self.exit.is_some() {
            return;
        }
        let Some(call) = &self.call else { return };
        let (direct, callback) = (call.direct, call.callback);
        if self.get(insert.task).is_none() {
            return self.fail(ExitKind::Error, format!("called on an unknown task {}", insert.task));
        }
        match (callback, direct) {
            (Callback::Dispatch, _) => {
                if self.batch.len() >= self.max_batch {
                    self.fail(ExitKind::Error, "dispatch buffer overflow".into());
                } else {
                    self.batch.push(insert);
                    self.dispatched += 1;
                }
            }
            (_, Direct::Of(task)) if task == insert.task => {
                self.call.iter_mut().for_each(|call| call.direct = Direct::Made);
                self.get_mut(task).expect("invariant: just found").direct = Some(insert);
            }
            (_, Direct::Of(task)) => {
                let (of, other) = (self.title(task), self.title(insert.task));
                self.fail(ExitKind::Error, format!("scheduling for {of} but trying to direct-dispatch {other}"));
            }
            (_, Direct::Made) => {
                let title = self.title(insert.task);
                self.fail(ExitKind::Error, format!("{title} already direct-dispatched"));
            }
            (callback, Direct::No) => {
                self.fail(
                    ExitKind::Error,
                    format!("scx_bpf_dsq_insert() can not be called from {}()", callback.name()),
                );
            }
        }
    }

    /// Carries out the insertions of a batch. A task that the policy does not keep any more is
    /// passed over: it was dequeued, or dispatched before.
    pub(crate) fn flush(&mut self) {
        // What is carried out inserts nothing: the batch keeps its memory.
        let mut batch = core::mem::take(&mut self.batch);
        for insert in batch.drain(..) {
            let is_kept = self.tasks[insert.task.index()].as_ref().is_some_and(|task| task.place == Place::Kept);
            let Some(cpu) = self.call.as_ref().and_then(|call| call.cpu).filter(|_| is_kept) else { continue };
            let dsq = if insert.dsq == DsqId::LOCAL { DsqId::local_on(cpu) } else { insert.dsq };
            self.put(Insert { dsq, ..insert });
        }
        self.batch = batch;
    }

    /// Puts a task that is on no queue on one, and says what follows for the CPU of a local queue.
    pub(crate) fn put(&mut self, insert: Insert) {
        if let Some(cpu) = self.place(insert).cpu() {
            self.arrived(insert.task, cpu, insert.flags);
        }
    }

    /// Puts a task that is on no queue on one, and returns which that was.
    pub(crate) fn place(&mut self, insert: Insert) -> DsqId {
        let Insert { task: p, slice, vtime, flags, .. } = insert;
        let dsq = self.checked(p, insert.dsq);
        let mut order = if vtime.is_some() { Order::Vtime } else { Order::Fifo };
        if dsq.is_builtin() && order == Order::Vtime {
            self.fail(ExitKind::Error, "cannot use vtime ordering for built-in DSQs".into());
            order = Order::Fifo;
        }
        let queue = self.queue_mut(dsq).expect("invariant: it was checked");
        let conflict = queue.conflict(order);
        let is_first = flags.0 & (EnqFlags::HEAD | EnqFlags::PREEMPT).0 != 0;
        let key = match (order, vtime) {
            (Order::Vtime, Some(vtime)) => queue.insert_vtime(p, vtime),
            _ => queue.insert(p, is_first),
        };
        if let Some(had) = conflict {
            let had = if had == Order::Fifo { "FIFO" } else { "PRIQ" };
            self.fail(ExitKind::Error, format!("DSQ ID 0x{:016x} already had {had}-enqueued tasks", dsq.0));
        }
        let task = self.get_mut(p).expect("invariant: a task that is queued exists");
        task.place = Place::On(dsq, key);
        let had = core::mem::replace(&mut task.in_custody, !dsq.is_builtin());
        // A slice of zero keeps the old one, which is not used up (`apply_slice_vtime`).
        task.slice = if slice.is_zero() { task.slice.max(Duration::from_nanos(1)) } else { slice };
        task.vtime = vtime.unwrap_or(task.vtime);
        if had && dsq.is_builtin() {
            self.left.push(p);
        }
        if self.steps.is_some() {
            self.note_step(p, Some(dsq), self.call.as_ref().map(|call| call.callback));
        }
        dsq
    }

    /// A task has come to a local queue (`rq_owned_post_enq`).
    fn arrived(&mut self, p: TaskId, cpu: CpuId, flags: EnqFlags) {
        let is_dispatching =
            matches!(&self.call, Some(Call { callback: Callback::Dispatch, cpu: Some(by), .. }) if *by == cpu);
        if is_dispatching {
            return; // It is about to pick.
        }
        let current = self.cpus[cpu.index()].current;
        if flags.has(EnqFlags::PREEMPT) && current.is_some_and(|current| current != p) {
            self.end_slice(cpu);
            self.effects.push(Effect::Resched(cpu));
        } else if current.is_none() {
            self.effects.push(Effect::WakeIdle(cpu));
        }
    }

    /// Returns the queue on which a task can be put: the global one in place of one that does not
    /// exist, or is the local one of a CPU where the task must not run.
    fn checked(&mut self, p: TaskId, dsq: DsqId) -> DsqId {
        let task = self.get(p).expect("invariant: a task that is queued exists");
        let (home, may) = (task.cpu, dsq.cpu().is_none_or(|cpu| task.may_run_on(cpu)));
        match dsq.cpu() {
            None if self.queue_mut(dsq).is_some() => return dsq,
            None => self.fail(ExitKind::Error, format!("non-existent DSQ 0x{:x}", dsq.0)),
            // A task that has been forced to a CPU stays there.
            Some(cpu) if cpu == home => return dsq,
            Some(cpu) if !self.cpu_valid(cpu, "in SCX_DSQ_LOCAL_ON dispatch verdict") => {}
            Some(cpu) if !may => {
                let title = self.title(p);
                self.fail(ExitKind::Error, format!("SCX_DSQ_LOCAL[_ON] target CPU {cpu} not allowed for {title}"));
            }
            Some(cpu) if self.cpus[cpu.index()].is_online => return dsq,
            Some(_) => {}
        }
        DsqId::GLOBAL
    }

    /// Takes a task off its queue.
    pub(crate) fn unlink(&mut self, p: TaskId) {
        let Some(task) = self.get_mut(p) else { return };
        if let Place::On(dsq, key) = core::mem::replace(&mut task.place, Place::Off)
            && let Some(queue) = self.queue_mut(dsq)
        {
            queue.remove(key);
        }
    }

    /// Moves the first task of a queue that may run on a CPU to its local queue
    /// (`scx_consume_dispatch_q`).
    pub(crate) fn consume(&mut self, cpu: CpuId, dsq: DsqId) -> bool {
        let is_online = self.cpus[cpu.index()].is_online;
        let may_run = |p: TaskId| {
            self.count();
            let task = self.tasks[p.index()].as_ref().expect("invariant: a task that is queued exists");
            task.cpu == cpu || is_online && task.may_run_on(cpu)
        };
        let Some(p) = self.queue(dsq).and_then(|queue| queue.find(may_run)) else { return false };
        self.unlink(p);
        // The CPU is about to pick: it need not be told.
        self.place(Insert {
            task: p,
            dsq: DsqId::local_on(cpu),
            slice: Duration::ZERO,
            vtime: None,
            flags: EnqFlags::NONE,
        });
        true
    }

    fn move_to(&mut self, p: TaskId, to: DsqId, vtime: Option<u64>, flags: EnqFlags) -> bool {
        self.count();
        if self.exit.is_some() {
            return false;
        }
        let on = self.get(p).map(|task| task.place);
        let Some(Place::On(from, _)) = on else { return false };
        // A task on a local queue is its CPU's (`move_task_between_dsqs`).
        if from.cpu().is_some() {
            return false;
        }
        self.flush();
        let cpu = self.call.as_ref().and_then(|call| call.cpu).unwrap_or_else(|| self.task_cpu(p));
        let to = if to == DsqId::LOCAL { DsqId::local_on(cpu) } else { to };
        self.unlink(p);
        self.put(Insert { task: p, dsq: to, slice: Duration::ZERO, vtime, flags });
        true
    }
}
