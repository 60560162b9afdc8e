//! Holding tasks back whose group has a processor already, for a poll that has lost its CPU.
//!
//! A poll that has lost its CPU goes on, on a thread that competes with the threads of the CPUs for
//! the processors of the machine. A tenant with eight long polls then had eight threads on two
//! processors: each of its polls started on a CPU, lost it when another tenant's task came, and
//! continued beside it, and the CPU started the next one. A thread of a CPU had to wait for several
//! of them, and a poll that gets no processor is not seen to ignore a request
//! ([`patience`](crate::patience)), so its CPU was handed over late as well.
//!
//! So a group that has polls without a CPU starts a further one only while fewer of its polls are
//! in progress than there are CPUs. A task that is picked and cannot start *is held back*: it
//! sleeps until a poll of its group ends. Rules:
//!
//! * A poll counts until it has used [`COUNTS_FOR`] without a CPU, or is seen to sleep in a system
//!   call: a poll that never ends stops its group for that time, and no longer.
//! * Real-time tasks, those that have inherited a loan, and holders of locks are never held back:
//!   others wait for them. Nor are tasks of the root group, whose tasks are not one tenant's.
//!
//! Two CPUs that decide at the same time can start one poll too many: the bound is one on load, on
//! which no promise depends.

use crate::state::detached::HeldBack;
use crate::state::engine::{Cpu, Engine};
use crate::state::group::GroupState;
use crate::state::task::Task;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_model::Duration;

/// The CPU time for which a poll without a CPU counts.
pub(crate) const COUNTS_FOR: Duration = Duration::from_millis(100);

impl Engine {
    /// Returns whether a picked task has to wait for the end of another poll of its group. If it
    /// does, the caller makes it block. O(CPUs) if a poll of the group has lost its CPU.
    pub(crate) fn holds_back(&self, task: &Arc<Task>) -> bool {
        if self.detached.load(Ordering::Acquire) == 0
            || task.group.parent.is_none()
            || !task.kind.is_fair()
            || task.is_in_kernel()
            || task.is_inheriting.load(Ordering::Acquire)
            || task.holds_locks()
        {
            return false;
        }
        let HeldBack { tasks, number } = &self.held_back;
        let mut tasks = tasks.lock();
        number.fetch_add(1, Ordering::SeqCst);
        let is_held = self.is_crowded(&task.group);
        let is_new = is_held && !tasks.iter().any(|held| Arc::ptr_eq(held, task));
        if is_new {
            tasks.push(Arc::clone(task));
        } else {
            number.fetch_sub(1, Ordering::SeqCst);
        }
        if is_held {
            // What it was woken for is found by the poll that follows.
            task.body.lock().forget_wakeup();
        }
        is_held
    }

    /// Returns whether a group has polls without a CPU, and as many in progress as there are CPUs.
    fn is_crowded(&self, group: &Arc<GroupState>) -> bool {
        let is_its = |task: &Task| Arc::ptr_eq(&task.group, group);
        let detached_polls = self.detached_polls.lock().iter().filter(|one| one.counts && is_its(&one.task)).count();
        if detached_polls == 0 {
            return false;
        }
        let is_polled = |cpu: &&Cpu| cpu.thread.lock().polled().is_some_and(is_its);
        detached_polls + self.cpus.iter().filter(is_polled).count() >= self.cpus.len()
    }

    /// Wakes the tasks of a group that were held back: one of its polls has ended, or counts no
    /// longer.
    pub(crate) fn wake_held_back(self: &Arc<Self>, group: &Arc<GroupState>) {
        if self.held_back.is_empty() {
            return;
        }
        let freed: Vec<_> = {
            let mut tasks = self.held_back.tasks.lock();
            let freed: Vec<_> = tasks.extract_if(.., |task| Arc::ptr_eq(&task.group, group)).collect();
            self.held_back.number.fetch_sub(freed.len(), Ordering::SeqCst);
            freed
        };
        for task in freed {
            self.wake(&task);
        }
    }
}
