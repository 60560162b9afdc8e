//! How a CPU is asked to schedule.
//!
//! Parking (`throttle = at_user_return`) is work of a task at its return to user mode, and a
//! request to schedule comes first there. So the two are told apart until the CPU leaves the task.

use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::op::Op;
use crate::words::resched::{Request, Resched};
use lock_api::RawMutex;
use zerolag_model::TraceEvent;

impl Rq {
    /// Returns whether this CPU has been asked to reschedule, and how urgently.
    pub const fn need_resched(&self) -> Resched {
        self.request.how
    }

    /// Asks this CPU to reschedule. The first urgent request sends a kick.
    pub(crate) fn resched<L: RawMutex>(&mut self, cx: &mut Cx<'_, L>, how: Resched) {
        let before = self.request;
        let is_only_to_park = before.is_only_to_park && how == Resched::No;
        self.request = Request { how: before.how.max(how), is_only_to_park };
        if self.request.how == Resched::Now && before.how != Resched::Now {
            let by = cx.by;
            cx.io.op(Op::Kick { cpu: self.cpu() });
            cx.io.event(cx.now, self.cpu(), || TraceEvent::NeedResched { by });
        }
    }

    /// Asks this CPU to park its task, which is about to return to user mode. Where it is to
    /// schedule anyway, it does that first.
    ///
    /// Source: Linux v6.18 `kernel/entry/common.c`, `exit_to_user_mode_loop` (`_TIF_NEED_RESCHED`,
    /// then `_TIF_NOTIFY_RESUME`, which `task_throttle_setup_work` sets).
    pub(crate) fn resched_to_park<L: RawMutex>(&mut self, cx: &mut Cx<'_, L>) {
        let is_only_to_park = self.request.is_only_to_park || self.request.how == Resched::No;
        self.resched(cx, Resched::Now);
        self.request.is_only_to_park = is_only_to_park;
    }

    pub(crate) const fn is_only_to_park(&self) -> bool {
        self.request.is_only_to_park
    }
}
