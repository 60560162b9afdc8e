//! Wakeups: made at once, at the end of the poll that makes them, or together with others.

use crate::caller::Caller;
use crate::coop;
use crate::state::engine::Engine;
use crate::state::task::Task;
use futures_util::task::ArcWake;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerolag_model::CpuId;

/// Not `std::task::Wake`: a poll borrows its waker from the task, and counts no reference.
impl ArcWake for Task {
    fn wake_by_ref(task: &Arc<Self>) {
        task.engine().wake(task);
    }
}

impl Engine {
    /// Wakes a task; any thread can call it.
    ///
    /// A poll often wakes one task and then waits for it: the other side of a channel, a task that
    /// it has started. Another CPU that idles has to be woken for it, which takes some 10 us, while
    /// this one idles an instant later. So the first wakeup in a poll is left to its end; if the
    /// poll's task sleeps then, the woken one is next on the same CPU. A poll that goes on keeps it
    /// waiting until the next tick at most. All other wakeups in a poll are made at once, and those
    /// of tasks that are more than fair, and of tasks that are bound to CPUs.
    pub(crate) fn wake(self: &Arc<Self>, task: &Arc<Task>) {
        if self.is_stopping.load(Ordering::Acquire) {
            return;
        }
        if coop::polls(task) {
            task.body.lock().notify();
            return;
        }
        if self.is_measuring
            && let Some(ready_at) = task.ready_at()
        {
            // The first of several wakeups counts.
            let now = self.now().as_nanos();
            let _ = ready_at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
        let is_left = match coop::polling_cpu(self) {
            Some(cpu) => self.postpone(cpu, task),
            // A task with a priority does not wait for others.
            None => task.kind.is_fair() && coop::gather(task),
        };
        if !is_left {
            Caller::new(self, coop::current_cpu().unwrap_or_else(|| task.cpu())).wake(task);
        }
    }

    /// Leaves the wakeup of a task to the end of the poll that this thread is in. Until then the
    /// task sleeps, and others can wake it. Returns whether it does.
    fn postpone(&self, cpu: CpuId, task: &Arc<Task>) -> bool {
        if !task.kind.is_fair() || task.is_bound() || task.has_borrowed_class() {
            return false;
        }
        let can_wait = {
            let body = task.body.lock();
            body.sleeps() || body.is_owner()
        };
        if !can_wait {
            return false;
        }
        let mut next = self.cpus[cpu.index()].next.lock();
        let is_first = next.is_none();
        if is_first {
            *next = Some(Arc::clone(task));
            coop::note_postponed();
        }
        is_first
    }

    /// Returns whether the poll that this thread is in can leave a wakeup to its end.
    pub(crate) fn can_postpone(self: &Arc<Self>) -> bool {
        coop::polling_cpu(self).is_some_and(|cpu| self.cpus[cpu.index()].next.lock().is_none())
    }

    /// Makes a wakeup that was left to the end of a poll, which goes on. Called at ticks.
    pub(crate) fn wake_postponed(self: &Arc<Self>, cpu: CpuId) {
        let next = self.cpus[cpu.index()].next.lock().take();
        if let Some(task) = next {
            self.wake(&task);
        }
    }
}
