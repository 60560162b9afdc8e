//! The calls for a contended mutex, and what they cost their tasks.
//!
//! A mutex is a word in the memory of the program. A free one is taken, and one for which no task
//! waits is given back, without a call. Only the kernel can let a task wait and wake it, so the
//! word has a *mark* that says that tasks may wait: giving back a marked mutex is a call. The
//! word cannot say that the last waiter has come, so a task that has waited takes the mutex marked,
//! and its unlock is a call although none may wait.
//!
//! ```text
//!             held by another task [1]            still held [2]
//!   Apart ----------------------------> Entered -----------------> Waits
//!     ^                                  |   ^                      |  |
//!     |             free meanwhile [3]   |   |   taken by a third   |  |
//!     +----------------------------------+   +---- task again [1] --+  |
//!     +----------------------------------------------------------------+
//!                 free, or handed over [4]: the mutex is marked
//! ```
//!
//! | mutex | marked by |
//! |---|---|
//! | plain | the program, before the call \[1\], and again when the call takes it \[3\] |
//! | inheriting | the kernel, when it lets the task wait \[2\]; not by a call that takes it \[3\] |
//!
//! After waiting for a condition a task takes a plain mutex marked in any case. The time of a call
//! comes before its effect, as that of all calls ([`calls`](crate::program::calls)). A mutex that a
//! step takes inside of a system call is one of the kernel, and so are the mutexes into which
//! `preempt = rt` turns spinning locks: no call.
//!
//! differs: a plain mutex that is given back with several waiters wakes one of them each time; the
//! word of a mutex that a third task took meanwhile has no mark, so that task wakes none.
//!
//! Sources: glibc 2.36 `nptl/lowlevellock.c`, `__lll_lock_wait`, `sysdeps/nptl/lowlevellock.h`,
//! `lll_unlock`, `nptl/pthread_mutex_cond_lock.c`, and `nptl/pthread_mutex_unlock.c`,
//! `__pthread_mutex_unlock_full`; Linux v6.11 `kernel/futex/pi.c`, `futex_lock_pi_atomic`,
//! `wake_futex_pi`, `futex_unlock_pi`.

use crate::kernel::state::Kernel;
use crate::program::shared::Shared;
use crate::program::state::Programs;
use crate::program::task::{LockCall, TaskActivity};
use zerolag_model::{CpuId, CpuLayer, Duration, TaskId};
use zerolag_workload::program::ResourceId;

impl Programs {
    /// A step takes a mutex, or waits for it, with the calls that this needs; returns whether it
    /// was taken.
    pub(crate) fn lock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) -> bool {
        let body = &self.tasks[task.index()];
        let (call, mut cost) = (body.cursor.lock_call, self.call_costs.busy);
        if cost.is_zero() || kernel.is_in_syscall(task) || matches!(body.state, TaskActivity::Spins(_)) {
            return self.take_mutex(kernel, cpu, task, id);
        }
        let Shared::Mutex { inherit, owner, is_marked, .. } = &mut self.shared[id.index()] else {
            unreachable!("the program was checked")
        };
        let inherit = *inherit;
        let is_held = owner.is_some_and(|owner| owner != task || body.cursor.handed != Some(id));
        if is_held && call != LockCall::Entered {
            *is_marked |= !inherit;
            if inherit {
                cost += self.call_costs.boosts;
            }
            self.enter_lock_call(kernel, cpu, task, cost); // [1]
            return false;
        }
        let is_after_condition = body.cursor.relock.is_some();
        let is_taken = self.take_mutex(kernel, cpu, task, id);
        self.task_mut(task).cursor.lock_call = if is_taken { LockCall::Apart } else { LockCall::Waits }; // [2]
        let is_marking = match call {
            LockCall::Apart => is_after_condition && !inherit,
            LockCall::Entered => !inherit, // [3]
            LockCall::Waits => true,       // [4]
        };
        if is_taken
            && is_marking
            && let Shared::Mutex { is_marked, .. } = &mut self.shared[id.index()]
        {
            *is_marked = true;
        }
        is_taken
    }

    /// A step is to give a mutex back. Returns whether that is a call whose time is to be spent
    /// first.
    pub(crate) fn enters_unlock(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, id: ResourceId) -> bool {
        if self.call_costs.busy.is_zero() || kernel.is_in_syscall(task) {
            return false;
        }
        let cursor = &mut self.tasks[task.index()].cursor;
        if cursor.lock_call == LockCall::Entered {
            cursor.lock_call = LockCall::Apart;
            // The call was charged up to the wakeup, which spends the rest.
            if matches!(&self.shared[id.index()], Shared::Mutex { waiters, .. } if !waiters.is_empty()) {
                kernel.set_left_of_call(cpu, self.call_costs.busy - self.call_costs.wakes);
            }
            return false;
        }
        let cost = match &self.shared[id.index()] {
            Shared::Mutex { inherit, owner, waiters, .. } if *owner == Some(task) && !waiters.is_empty() => {
                let unboosts = if *inherit { self.call_costs.unboosts } else { Duration::ZERO };
                self.call_costs.wakes + unboosts
            }
            Shared::Mutex { owner, is_marked: true, .. } if *owner == Some(task) => self.call_costs.idle,
            _ => return false,
        };
        if cost.is_zero() {
            return false;
        }
        self.enter_lock_call(kernel, cpu, task, cost);
        true
    }

    fn enter_lock_call(&mut self, kernel: &mut Kernel, cpu: CpuId, task: TaskId, cost: Duration) {
        self.task_mut(task).cursor.lock_call = LockCall::Entered;
        kernel.compute(cpu, task, cost, CpuLayer::Kernel);
    }
}
