//! Entry points of RT throttling: the time that real-time tasks can run per period. The rules are
//! those of [`crate::class::rt_throttle`].

use crate::class::rt_throttle;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::queue::rt::throttle::RtThrottleState;
use crate::rq::run_queue::Rq;
use crate::task::io::Io;
use crate::words::clock::Clock;
use lock_api::RawMutex;
use zerolag_model::settings::RtGroupSched;

impl<L: RawMutex> Scheduler<L> {
    /// Makes a CPU follow the limit of real-time tasks that has been [set](Self::set_rt_bandwidth).
    /// Throttled tasks stay throttled until the current period ends, at the time planned before;
    /// the next period has the new length. Where real-time tasks are not
    /// throttled nothing is changed. O(1).
    ///
    /// With `rt_group_sched` a CPU has the runtime of the root group, which is the limit at the
    /// start; the limit of all only bounds it, or is none.
    ///
    /// Linux v6.6 `kernel/sched/rt.c`, `sched_rt_global_constraints`, `sched_rt_do_global`.
    pub fn follow_rt_limit(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        if !cx.config.settings.throttles_rt() {
            return;
        }
        let mut limit = rt_throttle::observed(cx);
        if cx.config.settings.rt_group_sched == RtGroupSched::V1 && limit.bandwidth.runtime.is_some() {
            limit.bandwidth = cx.config.settings.rt_bandwidth();
        }
        if limit.round == rq.rt.throttle.limit.round {
            return; // A second update would forget loans on this side only.
        }
        lifecycle::charge_current(rq, cx);
        if let (RtThrottleState::Idle, Some(_)) = (rq.rt.throttle.state, limit.bandwidth.runtime)
            && rq.rt.nr_running > 0
        {
            rq.rt.throttle.state = RtThrottleState::Counting;
        }
        rq.rt.throttle.limit = limit;
        if rq.is_online() {
            cx.shared.set_rt_runtime(rq.cpu(), limit);
        }
        rq.publish(cx);
    }
}
