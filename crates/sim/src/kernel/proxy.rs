//! Lent turns (`proxy_exec`): the core is told which task holds which lock, and a task that waits
//! is moved to the CPU of the holder.
//!
//! A waiter cannot look for the holder once: the holder may be blocked, on another CPU, or a waiter
//! itself. So it looks when it blocks, when its lock is taken by another task, and when the holder
//! is woken or itself moved to a CPU. A waiter that the core cannot use stays blocked as usual.
//!
//! Which locks count is the program's to say: it names one when it blocks a task
//! ([`Kernel::block`]). They are mutexes without priority inheritance, read-write semaphores and
//! the locks of pages, inside system calls only.
//!
//! Work: O(tasks) for each lock that is taken and each wakeup, with `proxy_exec` only.

use crate::kernel::body::Body;
use crate::kernel::state::Kernel;
use crate::kernel::words::{Done, Job};
use zerolag_core::{Home, LockId};
use zerolag_model::{CpuId, TaskId};

impl Kernel {
    /// A lock is taken: its waiters look for its holder.
    #[inline]
    pub(crate) fn publish_owner(&mut self, cpu: CpuId, lock: u32, owner: Option<TaskId>) {
        if !self.rules.lends_turns {
            return;
        }
        self.scheduler.set_lock_owner(LockId(lock), owner);
        if let Some(owner) = owner {
            self.lend_to(cpu, owner);
        }
    }

    /// The current task has given a lock up, which `owner` has now, if any task has.
    #[inline]
    pub(crate) fn lock_dropped(&mut self, cpu: CpuId, lock: u32, owner: Option<TaskId>) {
        if !self.rules.lends_turns {
            return;
        }
        self.scheduler.set_lock_owner(LockId(lock), owner);
        let place = &mut self.cpus[cpu.index()];
        let clock = place.clock(self.time.now);
        self.scheduler.lock_dropped(&mut place.rq, clock, &mut self.calls.io);
        self.after_call(cpu);
    }

    /// A task can run now, or lends itself: the waiters for its locks look for it.
    #[inline]
    pub(super) fn lend_to(&mut self, cpu: CpuId, owner: TaskId) {
        if self.rules.lends_turns {
            self.find_lenders(cpu, owner);
        }
    }

    fn find_lenders(&mut self, cpu: CpuId, owner: TaskId) {
        let waits = |body: &Body| {
            let lock = body.blocked_on.filter(|_| body.parcel.is_some());
            lock.is_some_and(|lock| self.scheduler.lock_owner(lock) == Some(owner))
        };
        let waiters = self.bodies.iter().enumerate().filter(|(_, body)| waits(body));
        let jobs: Vec<Job> = waiters.map(|(index, _)| Job::Lend { task: TaskId::from_index(index) }).collect();
        self.push_jobs(cpu, jobs);
    }

    /// Moves a blocked task to the holder of the lock that it waits for, if the holder is on a run
    /// queue.
    pub(crate) fn lend(&mut self, cpu: CpuId, task: TaskId) -> Done {
        let body = &self.bodies[task.index()];
        let lock = body.blocked_on.filter(|_| body.parcel.is_some());
        let owner = lock.and_then(|lock| self.scheduler.lock_owner(lock));
        let (Some(lock), Some(owner)) = (lock, owner) else { return Ok(()) };
        let Home::Rq(home) = self.scheduler.home(owner) else { return Ok(()) };
        self.lock_for(cpu, home, Job::Lend { task })?;
        let parcel = self.bodies[task.index()].parcel.take().expect("invariant: just seen");
        let lent = self.under_lock(home, |scheduler, rq, clock, io| scheduler.lend(rq, clock, parcel, lock, cpu, io));
        self.unlock(cpu, home, self.costs.rq_lock_hold);
        match lent {
            Ok(step) => {
                self.push_step(cpu, step);
                self.lend_to(cpu, task);
            }
            Err(parcel) => self.park(parcel),
        }
        Ok(())
    }
}
