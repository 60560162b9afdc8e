//! User mode and kernel mode: where a task's own code is. What a CPU does for others (interrupts,
//! switching) is neither.
//!
//! ```text
//!            enter_kernel, or it blocks [1]
//!    User --------------------------------> Kernel
//!         <--------------------------------
//!            return_to_user [2]
//! ```
//!
//! The host tells. A task blocks in kernel mode whatever it was doing, so one that wakes is in
//! kernel mode until its host says that it is back in user mode: before its first instruction
//! there, also if it then blocks again at once. Whoever throttles tasks one by one does so at [2]
//! (`throttle`). A host that never tells has tasks that stay in kernel mode after their first wait,
//! which matters to no other setting.
//!
//! Sources: Linux v6.18 `kernel/entry/common.c`, `exit_to_user_mode_loop`.

use crate::class::fair::bandwidth;
use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::{Phase, Rq};
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::mode::TaskMode;
use crate::words::resched::Resched;
use lock_api::RawMutex;

impl<L: RawMutex> Scheduler<L> {
    /// The current task enters kernel mode by itself. O(1).
    ///
    /// # Panics
    /// If nothing runs on this CPU.
    #[inline]
    pub fn enter_kernel(&self, rq: &mut Rq) {
        let slot = rq.acting().expect("the host says that a task runs");
        debug_assert!(rq.phase() == Phase::Running, "a task that is being left does nothing");
        rq.tasks[slot].mode = TaskMode::Kernel; // [1]
    }

    /// The current task is about to go on in user mode. If it ran on its group's ticket or its
    /// group may not run, the CPU is asked to schedule: carry that out first. O(1), O(depth) if a
    /// group is throttled here.
    ///
    /// # Panics
    /// If nothing runs on this CPU.
    #[inline]
    pub fn return_to_user(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        let slot = rq.acting().expect("the host says that a task runs");
        debug_assert!(rq.phase() == Phase::Running, "a task that is being left does nothing");
        rq.tasks[slot].mode = TaskMode::User; // [2]
        if bandwidth::gives_way_in_user_mode(rq, slot) {
            let cx = &mut self.cx(rq.cpu(), now, io);
            rq.resched(cx, Resched::Now);
        }
    }
}
