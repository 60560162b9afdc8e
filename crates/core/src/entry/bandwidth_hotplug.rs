//! A known fault: hotplug of one CPU unthrottles groups on the other CPUs
//! (`fault.cfs_bandwidth_hotplug_bypass`).
//!
//! When a CPU goes offline or comes back, the scheduling domains are rebuilt, and every CPU leaves
//! its root domain and joins it again. Until 6.13 this unthrottled all groups that were throttled
//! on these CPUs, which is correct only for a CPU that really goes offline, and left every limited
//! group with 1 ns.
//!
//! Work: O(queues of groups here + throttled queues x depth x log n), once per hotplug event.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `unthrottle_offline_cfs_rqs`; fixed by commit
//! af98d8a36a96 (6.14). differs: the kernel also does this for the root domains of partitions that
//! change.

use crate::class::dl_server;
use crate::class::fair::bandwidth::with_pool;
use crate::class::fair::park::{More, has_parked, take_back};
use crate::class::fair::throttle::unthrottle;
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::queue::fair::rq::FairRq;
use crate::rq::run_queue::Rq;
use crate::shared::pool::TakenQuota;
use crate::task::io::Io;
use crate::words::clock::Clock;
use lock_api::RawMutex;
use zerolag_model::SignedDuration;

impl<L: RawMutex> Scheduler<L> {
    /// Handles the hotplug of another CPU: unthrottles the groups here. Does nothing unless the
    /// setting `fault.cfs_bandwidth_hotplug_bypass` is on.
    pub fn domains_rebuilt(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        if !self.config.settings.bandwidth_hotplug_bypass {
            return;
        }
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        lifecycle::charge_current(rq, cx);
        let FairRq { by_group, queues, .. } = &mut rq.fair;
        for (_, q) in by_group.iter() {
            let local = &mut queues[q.index()].bandwidth;
            if local.is_limited() {
                local.remaining = SignedDuration::from_nanos(1);
            }
        }
        // Unthrottling one queue can put others to rest, so the search starts again each time;
        // bounded by the number of throttled queues.
        let throttled = |rq: &Rq| {
            let queues = rq.fair.by_group.iter();
            let stopped = queues.filter_map(|(group, q)| Some((group, q, rq.queue(q).bandwidth.throttled_since()?)));
            stopped.min_by_key(|(group, ..)| *group)
        };
        while let Some((group, q, since)) = throttled(rq) {
            let (cpu, lasted) = (rq.cpu(), cx.now.wall.since(since));
            with_pool(cx, group, |pool, _| {
                pool.release(cpu, lasted);
                TakenQuota::nothing(None)
            });
            unthrottle(rq, cx, q);
            while has_parked(rq, q) && take_back(rq, cx, q) == More::Yes {}
        }
        dl_server::update(rq, cx);
        rq.publish(cx);
    }
}
