//! User mode and kernel mode of a task. Work that a CPU does for other tasks (interrupts,
//! switching) belongs to neither.
//!
//! ```text
//!            enter_kernel, or it blocks [1]
//!    User --------------------------------> Kernel
//!         <--------------------------------
//!            return_to_user [2]
//! ```
//!
//! The host reports the mode. A task always blocks in kernel mode, so a woken task is in kernel
//! mode until its host reports that it is back in user mode. The host reports this before the first
//! instruction there, also if the task then blocks again at once. Schedulers that throttle tasks
//! one by one do so at \[2\] (`throttle`). If a host never reports the mode, its tasks stay in
//! kernel mode after their first wait; no other setting depends on that.
//!
//! Sources: Linux v6.18 `kernel/entry/common.c`, `exit_to_user_mode_loop`.

use crate::class::fair::park;
use crate::entity::fair::Standing;
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::mode::TaskMode;
use crate::words::resched::Resched;
use lock_api::RawMutex;

impl<L: RawMutex> Scheduler<L> {
    /// Puts the current task into kernel mode. O(1).
    ///
    /// # Panics
    /// If no task runs on this CPU.
    #[inline]
    pub fn enter_kernel(&self, rq: &mut Rq) {
        let slot = rq.acting().expect("the host says that a task runs");
        debug_assert!(rq.phase() == Phase::Running, "a task that is being left does nothing");
        rq.tasks[slot].mode = TaskMode::Kernel; // [1]
    }

    /// Returns the current task to user mode. If it ran on its group's ticket, or its group is
    /// throttled, the CPU is asked to schedule: carry that out first. O(1), or O(depth) if a group
    /// is throttled here.
    ///
    /// # Panics
    /// If no task runs on this CPU.
    #[inline]
    pub fn return_to_user(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        let slot = rq.acting().expect("the host says that a task runs");
        debug_assert!(rq.phase() == Phase::Running, "a task that is being left does nothing");
        rq.tasks[slot].mode = TaskMode::User; // [2]
        if rq.tasks[slot].fair.standing != Standing::Ordinary {
            let cx = &mut self.cx(rq.cpu(), now, io);
            rq.resched(cx, Resched::Now);
        } else if park::is_due(rq, slot) {
            let cx = &mut self.cx(rq.cpu(), now, io);
            rq.resched_to_park(cx);
        }
    }
}
