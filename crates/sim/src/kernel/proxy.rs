//! Tasks that lend their turn to whoever holds the lock that they wait for (`proxy_exec`): who holds what is said to the core, and a
//! task that waits is put to the holder, wherever that is.
//!
//! Which locks: mutexes without priority inheritance, read-write semaphores that one task has, and the locks of pages; all of them
//! inside system calls only. A waiter looks for the holder when it blocks, when its lock is taken by another, and when the holder
//! is woken or itself put to somebody; what the core cannot use stays blocked as usual.
//!
//! Work: O(tasks) for each lock that is taken and each wakeup, with `proxy_exec` only.

use crate::kernel::cpu::Job;
use crate::kernel::lock::Lock;
use crate::kernel::path::Done;
use crate::machine::Machine;
use crate::program::sync::Shared;
use crate::program::task::{SimTask, State, WaitFor};
use zerolag_core::{Home, Leave, LockId, Parcel};
use zerolag_model::{CpuId, TaskId};
use zerolag_workload::program::{Resource, ResourceKind};

/// Returns how many numbers the locks of these resources need.
pub(crate) fn count_locks(resources: &[Resource]) -> usize {
    let windows = resources.iter().map(|resource| match resource.kind {
        ResourceKind::File(file) => file.windows as usize,
        ResourceKind::Mutex { .. }
        | ResourceKind::Condition
        | ResourceKind::Barrier { .. }
        | ResourceKind::Semaphore { .. }
        | ResourceKind::Timer
        | ResourceKind::Queue { .. }
        | ResourceKind::SuspendPoint
        | ResourceKind::RwSemaphore
        | ResourceKind::SpinLock
        | ResourceKind::Pipe { .. }
        | ResourceKind::Disk(_) => 0,
    });
    resources.len() + windows.sum::<usize>()
}

impl Machine {
    /// A lock is taken: those that wait for it look for its holder.
    pub(crate) fn publish_owner(&mut self, cpu: CpuId, lock: u32, owner: Option<TaskId>) {
        if !self.proxies {
            return;
        }
        self.scheduler.set_lock_owner(LockId(lock), owner);
        if let Some(owner) = owner {
            self.lend_to(cpu, owner);
        }
    }

    /// The current task has given a lock up, which nobody or `owner` has now.
    pub(crate) fn lock_dropped(&mut self, cpu: CpuId, lock: u32, owner: Option<TaskId>) {
        if !self.proxies {
            return;
        }
        self.scheduler.set_lock_owner(LockId(lock), owner);
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.now);
        self.scheduler.lock_dropped(&mut place.rq, clock, &mut self.io);
        self.after_call(cpu);
    }

    /// Returns how a task blocks that is about to.
    pub(crate) fn how_to_block(&self, task: TaskId) -> Leave {
        let lock = if self.proxies { self.awaited(task) } else { None };
        lock.map_or(Leave::Block, Leave::BlockOn)
    }

    /// Returns the lock for whose holder a task may lend its turn.
    fn awaited(&self, task: TaskId) -> Option<LockId> {
        let body = &self.tasks[task.index()];
        if !body.cursor.in_syscall {
            return None;
        }
        match body.state {
            State::Waits(WaitFor::Mutex(id)) => {
                matches!(self.shared[id.index()], Shared::Mutex { inherit: false, .. }).then_some(LockId(id.0))
            }
            State::Waits(WaitFor::RwSemaphore(id)) => Some(LockId(id.0)),
            State::Waits(WaitFor::Page(file)) => self.awaited_page(task, file).map(LockId),
            State::Waits(
                WaitFor::Time
                | WaitFor::Condition { .. }
                | WaitFor::Barrier(_)
                | WaitFor::Semaphore(_)
                | WaitFor::Pipe(_)
                | WaitFor::Resume(_)
                | WaitFor::Request(_)
                | WaitFor::Reply(_),
            )
            | State::Active
            | State::Unborn
            | State::Dead => None,
        }
    }

    /// Parks a blocked task; if it waits for a lock it looks for the holder.
    pub(crate) fn park_waiter(&mut self, cpu: CpuId, parcel: Parcel) {
        let task = parcel.id();
        self.park(parcel);
        if self.proxies && self.awaited(task).is_some() {
            self.cpus[cpu.index()].jobs.push_back(Job::Lend { task });
        }
    }

    /// A task can run now, or lends itself: those that wait for what it holds look for it.
    pub(crate) fn lend_to(&mut self, cpu: CpuId, owner: TaskId) {
        if !self.proxies {
            return;
        }
        let wants = |body: &&SimTask| {
            let lock = if body.parcel.is_some() { self.awaited(body.id) } else { None };
            lock.is_some_and(|lock| self.scheduler.lock_owner(lock) == Some(owner))
        };
        let jobs: Vec<Job> = self.tasks.iter().filter(wants).map(|body| Job::Lend { task: body.id }).collect();
        self.cpus[cpu.index()].jobs.extend(jobs);
    }

    /// Puts a blocked task to the holder of the lock that it waits for, if the holder is on a run queue.
    pub(crate) fn lend(&mut self, cpu: CpuId, task: TaskId) -> Done {
        let lock = self.awaited(task).filter(|_| self.tasks[task.index()].parcel.is_some());
        let owner = lock.and_then(|lock| self.scheduler.lock_owner(lock));
        let (Some(lock), Some(owner)) = (lock, owner) else { return Done::Yes };
        let Home::Rq(home) = self.scheduler.home(owner) else { return Done::Yes };
        if self.lock(cpu, home) == Lock::Busy {
            return self.spin(cpu, Job::Lend { task });
        }
        let parcel = self.tasks[task.index()].parcel.take().expect("invariant: just seen");
        let place = &mut self.cpus[home.index()];
        let clock = place.clock(self.now);
        let lent = self.scheduler.lend(&mut place.rq, clock, parcel, lock, cpu, &mut self.io);
        self.unlock(cpu, home, self.costs.rq_lock_hold);
        match lent {
            Ok(step) => {
                self.push_step(cpu, step);
                self.lend_to(cpu, task);
            }
            Err(parcel) => self.park(parcel),
        }
        Done::Yes
    }
}
