//! System calls: kernel mode, its preemption points, the semaphores and disks that it waits for.
//!
//! A task is in kernel mode from a system call's beginning to its end, and whenever it waits. The core is told
//! ([`TaskMode`]); what preempts a task where is the core's answer ([`CpuMode`]):
//!
//! | where | asked as |
//! |---|---|
//! | computing in kernel mode, between two steps of a system call | `Kernel` |
//! | before a step that may wait (`might_sleep`) | `KernelPoint` |
//! | `cond_resched` | `CondResched` |
//! | anywhere else, the way back to user mode included | `User` |

use crate::kernel::cpu::Job;
use crate::machine::Machine;
use crate::program::interpret::INHERIT_DEPTH_MAX;
use crate::program::sync::Shared;
use crate::program::task::{State, WaitFor};
use std::collections::VecDeque;
use zerolag_core::{CpuMode, Leave, Resched, TaskMode};
use zerolag_model::{CpuId, Instant, TaskId, TraceEvent};
use zerolag_workload::program::{Access, Disk, ResourceId};

/// A read-write semaphore: handed over in order of arrival, readers that stand together at once.
///
/// Linux v6.12 `kernel/locking/rwsem.c`, `rwsem_mark_wake`. differs: nobody gets in before those that wait, and nobody
/// spins for it.
#[derive(Debug, Default)]
pub(crate) struct RwSemaphore {
    holders: Vec<(TaskId, Access)>,
    waiters: VecDeque<(TaskId, Access)>,
}

impl RwSemaphore {
    fn admits(&self, access: Access) -> bool {
        match access {
            Access::Write => self.holders.is_empty(),
            Access::Read => self.holders.iter().all(|(_, held)| *held == Access::Read),
        }
    }

    /// Returns a task that has it: the writer, or the reader that has had it longest.
    pub(crate) fn holder(&self) -> Option<TaskId> {
        self.holders.first().map(|(task, _)| *task)
    }

    /// Returns the task that has it if no other has.
    pub(crate) fn sole_holder(&self) -> Option<TaskId> {
        self.holder().filter(|_| self.holders.len() == 1)
    }

    /// Returns those that wait for it.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.waiters.iter().map(|(task, _)| *task)
    }

    /// Takes it, or queues the task; `true` if it was had.
    fn down(&mut self, task: TaskId, access: Access) -> bool {
        let has = self.waiters.is_empty() && self.admits(access);
        if has {
            self.holders.push((task, access));
        } else {
            self.waiters.push_back((task, access));
        }
        has
    }

    /// Gives it back; `false` if the task does not hold it so.
    fn up(&mut self, task: TaskId, access: Access) -> bool {
        let place = self.holders.iter().position(|held| *held == (task, access));
        place.is_some_and(|place| {
            self.holders.remove(place);
            true
        })
    }

    /// Gives it to the first that waits, if it can have it now.
    fn hand_over(&mut self) -> Option<TaskId> {
        let (task, access) = *self.waiters.front().filter(|(_, access)| self.admits(*access))?;
        self.waiters.pop_front();
        self.holders.push((task, access));
        Some(task)
    }
}

/// A disk at work: when each of its servers is free.
#[derive(Debug)]
pub(crate) struct DiskQueue {
    disk: Disk,
    free_at: Vec<Instant>,
}

impl DiskQueue {
    pub(crate) fn new(disk: Disk) -> Self {
        Self { disk, free_at: vec![Instant::ZERO; disk.depth as usize] }
    }

    /// Queues a request; returns when it is done. O(depth).
    pub(crate) fn submit(&mut self, now: Instant, bytes: u64) -> Instant {
        let first = self.free_at.iter_mut().min().expect("invariant: a disk has a server");
        *first = (*first).max(now).saturating_add(self.disk.service(bytes));
        *first
    }
}

impl Machine {
    /// Lets the core know that the current task goes on in user mode, if it came out of the kernel. Returns whether it
    /// goes on at once.
    #[inline]
    pub(crate) fn back_to_user(&mut self, cpu: CpuId, task: TaskId) -> bool {
        let place = &mut self.cpus[cpu.index()];
        if self.tasks[task.index()].cursor.in_syscall || place.rq.current_mode() == TaskMode::User {
            return true;
        }
        let clock = place.clock(self.now);
        self.scheduler.return_to_user(&mut place.rq, clock, &mut self.io);
        self.after_call(cpu);
        self.cpus[cpu.index()].rq.need_resched() == Resched::No
    }

    pub(crate) fn enter_syscall(&mut self, cpu: CpuId, task: TaskId) {
        self.tasks[task.index()].cursor.in_syscall = true;
        self.scheduler.enter_kernel(&mut self.cpus[cpu.index()].rq);
        self.emit(cpu, TraceEvent::Syscall { task, enters: true });
    }

    pub(crate) fn exit_syscall(&mut self, cpu: CpuId, task: TaskId) {
        self.tasks[task.index()].cursor.in_syscall = false;
        self.emit(cpu, TraceEvent::Syscall { task, enters: false });
    }

    /// Returns whether the current task gives its CPU up at this place of kernel mode; if so it has been asked to.
    pub(crate) fn gives_way(&mut self, cpu: CpuId, at: CpuMode) -> bool {
        let place = &mut self.cpus[cpu.index()];
        let gives_way = self.scheduler.preempts(place.rq.need_resched(), at);
        if gives_way {
            place.jobs.push_back(Job::Switch(Leave::Preempted));
        }
        gives_way
    }

    pub(crate) fn down(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, access: Access) {
        let Shared::RwSemaphore(semaphore) = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let holder = semaphore.holder();
        if semaphore.down(task, access) {
            let sole = semaphore.sole_holder();
            self.emit(cpu, TraceEvent::TakeLock { task, lock: id.0 });
            self.publish_owner(cpu, id.0, sole);
            return;
        }
        self.emit(cpu, TraceEvent::WaitLock { task, lock: id.0, holder });
        self.block(cpu, task, WaitFor::RwSemaphore(id));
        if !self.stop_if_circle(task) {
            self.inherit_semaphore(cpu, id, 0);
        }
    }

    pub(crate) fn up(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, access: Access) {
        let Shared::RwSemaphore(semaphore) = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        if !semaphore.up(task, access) {
            self.stop_not_held(task, id);
            return;
        }
        let sole = semaphore.sole_holder();
        self.emit(cpu, TraceEvent::DropLock { task, lock: id.0 });
        self.lock_dropped(cpu, id.0, sole);
        while let Shared::RwSemaphore(semaphore) = &mut self.shared[id.index()]
            && let Some(next) = semaphore.hand_over()
        {
            let sole = semaphore.sole_holder();
            self.tasks[next.index()].state = State::Active;
            self.wake_from(cpu, next);
            self.emit(cpu, TraceEvent::TakeLock { task: next, lock: id.0 });
            self.publish_owner(cpu, id.0, sole);
        }
        if self.semaphores_inherit {
            self.cpus[cpu.index()].jobs.push_back(Job::Inherit { holder: task, depth: 0 });
            self.inherit_semaphore(cpu, id, 0);
        }
    }

    /// The only holder of a semaphore inherits from those that wait for it (`preempt = rt`); of several readers none does.
    ///
    /// Linux v6.12 `kernel/locking/rwbase_rt.c`: a writer blocks on the rt-mutex that a writer holds; nobody is boosted who reads with
    /// others.
    pub(crate) fn inherit_semaphore(&mut self, cpu: CpuId, id: ResourceId, depth: u32) {
        if !self.semaphores_inherit || depth > INHERIT_DEPTH_MAX {
            return;
        }
        let Shared::RwSemaphore(semaphore) = &self.shared[id.index()] else { unreachable!("the program was checked") };
        if let Some(holder) = semaphore.sole_holder() {
            self.cpus[cpu.index()].jobs.push_front(Job::Inherit { holder, depth });
        }
    }

    /// Sends a request to a disk and waits until it is done: an interrupt says so on the CPU that sent it.
    pub(crate) fn wait_for_disk(&mut self, cpu: CpuId, task: TaskId, id: ResourceId, bytes: u64) {
        let now = self.now;
        let Shared::Disk(disk) = &mut self.shared[id.index()] else { unreachable!("the program was checked") };
        let done = disk.submit(now, bytes);
        if done > now {
            self.sleep_until(cpu, task, done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::Duration;

    #[test]
    fn readers_share_writers_do_not_and_nobody_overtakes() {
        let [a, b, c, d] = [0, 1, 2, 3].map(TaskId);
        let mut semaphore = RwSemaphore::default();
        assert!(semaphore.down(a, Access::Read));
        assert!(semaphore.down(b, Access::Read));
        assert!(!semaphore.down(c, Access::Write));
        assert!(!semaphore.down(d, Access::Read), "a writer waits before it");
        assert!(!semaphore.up(c, Access::Write), "it does not hold it");
        assert!(semaphore.up(a, Access::Read));
        assert_eq!(semaphore.hand_over(), None, "a reader still has it");
        assert!(semaphore.up(b, Access::Read));
        assert_eq!(semaphore.hand_over(), Some(c));
        assert_eq!(semaphore.hand_over(), None);
        assert!(semaphore.up(c, Access::Write));
        assert_eq!(semaphore.hand_over(), Some(d));
        assert_eq!(semaphore.holder(), Some(d));
    }

    #[test]
    fn a_disk_serves_as_many_at_once_as_it_is_deep() {
        let disk = Disk { depth: 2, latency: Duration::from_millis(1), bandwidth: 1_000_000 };
        assert_eq!(disk.service(1_000), Duration::from_millis(2));
        let mut queue = DiskQueue::new(disk);
        let done: Vec<u64> = (0..4).map(|_| queue.submit(Instant::ZERO, 1_000).as_nanos() / 1_000_000).collect();
        assert_eq!(done, [2, 2, 4, 4]);
    }
}
