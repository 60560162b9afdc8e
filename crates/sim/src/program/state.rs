//! [`Programs`]: all tasks as their programs see them, and the resources that they share.

use crate::costs::Costs;
use crate::device::disk::DiskQueue;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Job, WakeKind};
use crate::outcome::{End, Wait};
use crate::program::calls::CallCosts;
use crate::program::model::models;
use crate::program::shared::Shared;
use crate::program::shared::file::CachedFile;
use crate::program::shared::pipe::Pipe;
use crate::program::shared::rcu::Rcu;
use crate::program::task::{Reading, Task, TaskActivity, WaitFor};
use std::rc::Rc;
use std::sync::Arc;
use zerolag_core::LockId;
use zerolag_model::settings::Preempt;
use zerolag_model::{CpuId, Settings, TaskId, TraceEvent};
use zerolag_workload::program::{Program, ResourceId, ResourceKind};

/// The tasks of a machine and what they share.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Behind a second counter that is not atomic: actions hold the program while they change the
    /// machine.
    #[expect(clippy::redundant_allocation, reason = "the outer counter is not atomic")]
    pub(crate) program: Rc<Arc<Program>>,
    pub(super) seed: u64,
    /// The model of each definition.
    models: Rc<[u32]>,
    /// All tasks, by id.
    pub(crate) tasks: Vec<Task>,
    pub(crate) shared: Vec<Shared>,
    /// Whether the only holder of a read-write semaphore inherits (`preempt = rt`).
    pub(super) semaphores_inherit: bool,
    /// `preempt = rt`: sections with softirqs disabled are preempted.
    pub(super) is_rt: bool,
    /// Whether a task spins for an inheriting mutex while its holder runs (`rt_mutex_spin`).
    pub(super) rt_mutex_spin: bool,
    /// RCU, if a task waits for its grace periods.
    pub(super) rcu: Option<Box<Rcu>>,
    /// What calls cost that are charged at run time.
    pub(super) call_costs: CallCosts,
    /// The number of tasks that have not ended.
    alive: usize,
}

impl Programs {
    pub(crate) fn new(program: Arc<Program>, settings: &Settings, costs: &Costs, seed: u64) -> Self {
        let preempt = settings.preempt;
        Self {
            tasks: Vec::with_capacity(program.tasks.iter().map(|def| def.instances as usize).sum()),
            shared: Shared::all(&program.resources, preempt, seed),
            rcu: Rcu::of(&program.kernel_work, settings).map(Box::new),
            models: models(&program).into(),
            program: Rc::new(program),
            seed,
            semaphores_inherit: preempt == Preempt::Rt,
            is_rt: preempt == Preempt::Rt,
            rt_mutex_spin: settings.rt_mutex_spin,
            call_costs: CallCosts::of(costs),
            alive: 0,
        }
    }

    /// Announces the queues that no source sends to: only tasks do.
    pub(crate) fn announce_queues(&self, kernel: &mut Kernel) {
        let is_internal = |index: usize| self.program.sources.iter().all(|source| source.queue.index() != index);
        for (index, resource) in self.program.resources.iter().enumerate() {
            if matches!(resource.kind, ResourceKind::Queue { .. }) && is_internal(index) && kernel.is_traced() {
                let queue = u32::try_from(index).expect("invariant: inputs are below 4 GiB");
                kernel.emit(CpuId(0), TraceEvent::QueueNew { queue, name: Arc::clone(&resource.name) });
            }
        }
    }

    #[inline]
    pub(crate) fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    #[inline]
    pub(crate) fn task_mut(&mut self, task: TaskId) -> &mut Task {
        &mut self.tasks[task.index()]
    }

    #[inline(always)]
    pub(crate) const fn alive(&self) -> usize {
        self.alive
    }

    /// Adds a task that has not started. The kernel has added its body.
    pub(crate) fn add(&mut self, def: usize, instance: u32) {
        self.tasks.push(Task::new(def, self.models[def], instance));
        self.alive += usize::from(!self.is_kernel_thread(def));
    }

    /// Returns whether tasks of a definition are threads of the kernel, which never end.
    fn is_kernel_thread(&self, def: usize) -> bool {
        self.program.kernel_work.first_task.is_some_and(|first| def >= first)
    }

    /// A task has ended.
    pub(crate) fn bury(&mut self, task: TaskId) {
        self.task_mut(task).state = TaskActivity::Dead;
        self.alive -= 1;
    }

    /// The timer of a task fires. Returns the job that lets it begin or go on.
    pub(crate) fn timer_fires(&mut self, task: TaskId) -> Option<Job> {
        let task_state = &mut self.tasks[task.index()].state;
        let why = match *task_state {
            TaskActivity::Unborn => WakeKind::Fork,
            TaskActivity::Waits(WaitFor::Time) => WakeKind::Wakeup,
            TaskActivity::Active | TaskActivity::Waits(_) | TaskActivity::Spins(_) | TaskActivity::Dead => return None,
        };
        *task_state = TaskActivity::Active;
        Some(Job::wake(task, why))
    }

    /// Goes to the next action of a task.
    #[inline]
    pub(super) fn step_over(&mut self, task: TaskId) {
        self.task_mut(task).cursor.action += 1;
    }

    /// Blocks the current task of a CPU.
    pub(super) fn block(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, wait: WaitFor) {
        self.task_mut(task).state = TaskActivity::Waits(wait);
        let lock = if kernel.lends_turns() { self.lendable(task, wait) } else { None };
        kernel.block(cpu, task, lock);
    }

    /// Returns the lock for whose holder a task that waits may lend its turn.
    fn lendable(&self, task: TaskId, wait: WaitFor) -> Option<LockId> {
        match wait {
            WaitFor::Mutex(id) => {
                matches!(self.shared[id.index()], Shared::Mutex { inherit: false, .. }).then_some(LockId(id.0))
            }
            WaitFor::RwSemaphore(id) => Some(LockId(id.0)),
            WaitFor::Page(file) => match (&self.shared[file.index()], self.task(task).cursor.reading) {
                (Shared::File(file), Some(Reading::Waits { window })) => Some(LockId(file.lock_id(window))),
                _ => None,
            },
            WaitFor::Time
            | WaitFor::Condition { .. }
            | WaitFor::Barrier(_)
            | WaitFor::Semaphore(_)
            | WaitFor::Pipe(_)
            | WaitFor::Resume(_)
            | WaitFor::Request(_)
            | WaitFor::Reply(_)
            | WaitFor::GracePeriod => None,
        }
    }

    /// Queues the current task of a CPU at a resource and blocks it.
    pub(super) fn block_on(
        &mut self,
        kernel: &mut Kernel,
        cpu: CpuId,
        task: TaskId,
        resource: ResourceId,
        wait: WaitFor,
    ) {
        let prio = kernel.lends(task).expect("invariant: a task that blocks runs").prio();
        let waiters = self.shared[resource.index()].waiters().expect("invariant: the program was checked");
        waiters.push(task, prio);
        self.block(kernel, cpu, task, wait);
    }

    /// Ends the wait of a task; its caller has it woken.
    pub(crate) fn end_wait(&mut self, kernel: &mut Kernel, task: TaskId) {
        self.task_mut(task).state = TaskActivity::Active;
        kernel.set_blocked_on(task, None);
    }

    /// Ends the wait of a task and has this CPU wake it.
    pub(crate) fn wake(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId) {
        self.end_wait(kernel, task);
        kernel.push_job(cpu, Job::wakeup(task));
    }

    /// Wakes up to `most` waiters of a resource.
    pub(super) fn wake_waiters(&mut self, kernel: &mut Kernel, cpu: CpuId, id: ResourceId, most: usize) {
        let waiters = self.shared[id.index()].waiters().expect("invariant: the program was checked");
        for _ in 0..most.min(waiters.len()) {
            let Some(task) = waiters.pop() else { break };
            self.tasks[task.index()].state = TaskActivity::Active;
            kernel.push_job(cpu, Job::wakeup(task));
        }
    }

    /// Ends the run: a task gives back a lock that it does not hold.
    pub(super) fn stop_not_held(&self, kernel: &mut Kernel, task: TaskId, id: ResourceId) {
        let task = Arc::clone(kernel.name(task));
        kernel.end_run(End::NotHeld { task, resource: Arc::clone(&self.program.resources[id.index()].name) });
    }

    pub(super) fn pipe(&mut self, id: ResourceId) -> &mut Pipe {
        match &mut self.shared[id.index()] {
            Shared::Pipe(pipe) => pipe,
            _ => unreachable!("the program was checked"),
        }
    }

    pub(super) fn file(&mut self, id: ResourceId) -> &mut CachedFile {
        match &mut self.shared[id.index()] {
            Shared::File(file) => file,
            _ => unreachable!("the program was checked"),
        }
    }

    pub(super) fn disk(&mut self, id: ResourceId) -> &mut DiskQueue {
        match &mut self.shared[id.index()] {
            Shared::Disk(disk) => disk,
            _ => unreachable!("the program was checked"),
        }
    }

    /// Returns all waits for other tasks.
    pub(crate) fn waits(&self, kernel: &Kernel) -> Vec<Wait> {
        let of_workload = |index: &usize| !self.is_kernel_thread(self.tasks[*index].def());
        let tasks = (0..self.tasks.len()).filter(of_workload);
        tasks.filter_map(|index| self.wait_of(kernel, TaskId::from_index(index))).collect()
    }

    fn wait_of(&self, kernel: &Kernel, task: TaskId) -> Option<Wait> {
        let Task { state, cursor, .. } = self.task(task);
        let (what, resource) = match *state {
            TaskActivity::Active => {
                let lock = cursor.spins_for?;
                let is_user = matches!(self.shared[lock.index()], Shared::UserSpinLock(_));
                (if is_user { "user_spin_lock" } else { "spin_lock" }, lock)
            }
            TaskActivity::Unborn | TaskActivity::Dead => return None,
            TaskActivity::Waits(wait) => wait.reported()?,
            TaskActivity::Spins(mutex) => ("mutex", mutex),
        };
        let holder = self.shared[resource.index()].owner();
        Some(Wait {
            task: Arc::clone(kernel.name(task)),
            what,
            resource: Arc::clone(&self.program.resources[resource.index()].name),
            holder: holder.map(|holder| Arc::clone(kernel.name(holder))),
        })
    }

    /// Returns how many tasks wait for requests of queues that none will arrive in.
    pub(crate) fn idle_workers(&self, is_over: impl Fn(ResourceId) -> bool) -> usize {
        let waits = |state| matches!(state, TaskActivity::Waits(WaitFor::Request(id)) if is_over(id));
        self.tasks.iter().filter(|task| waits(task.state)).count()
    }

    /// Ends the run if a task waits for itself; returns whether it does.
    pub(super) fn stop_if_circle(&self, kernel: &mut Kernel, task: TaskId) -> bool {
        let circle = self.find_circle(kernel, task);
        let found = circle.is_some();
        if let Some(chain) = circle {
            kernel.end_run(End::Deadlock(chain));
        }
        found
    }

    /// Follows the holders of the locks that tasks wait for; returns the waits if they lead back.
    fn find_circle(&self, kernel: &Kernel, task: TaskId) -> Option<Vec<Wait>> {
        let mut chain = Vec::new();
        let mut at = task;
        // Bounded by the number of tasks.
        for _ in 0..self.tasks.len() {
            let lock = match self.task(at).state {
                TaskActivity::Waits(WaitFor::Mutex(lock) | WaitFor::RwSemaphore(lock)) | TaskActivity::Spins(lock) => {
                    lock
                }
                TaskActivity::Active => self.task(at).cursor.spins_for?,
                TaskActivity::Waits(_) | TaskActivity::Unborn | TaskActivity::Dead => return None,
            };
            chain.extend(self.wait_of(kernel, at));
            at = self.shared[lock.index()].owner()?;
            if at == task {
                return Some(chain);
            }
        }
        None
    }
}
