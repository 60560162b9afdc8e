//! CPU hotplug: CPUs that go offline and come back. Part of [`Scheduler`].
//!
//! After [`offline`](Scheduler::offline) no task is sent to a CPU any more. Its waiting tasks are
//! then taken off one by one ([`evict`](Scheduler::evict)) and placed on other CPUs; the current
//! task is displaced when it leaves. Limited groups are unthrottled first, their debts on this CPU
//! are forgotten, and no quota is taken or charged here until the CPU is back.
//!
//! A known fault (`fault.cfs_bandwidth_offline_loss`): the kernel unthrottled the limited groups of
//! the CPU long before the CPU was dead. Their tasks ran on and were throttled again. Tasks that
//! were throttled when the CPU died could not be picked and moved: they stayed on its run queue,
//! whatever quota arrived, until the CPU was back. This scheduler does not unthrottle them first:
//! tasks that are throttled when the CPU goes offline stay.
//!
//! Another (`fault.cfs_bandwidth_hotplug_bypass`): when a CPU goes offline or comes back, the
//! scheduling domains are rebuilt, and every CPU leaves its root domain and joins it again. Until
//! 6.13 this unthrottled the groups on all these CPUs, as on the one that goes offline. differs:
//! the kernel also does this for the root domains of partitions that change.
//!
//! Work of unthrottling: O(queues of groups here + throttled queues x depth x log n), once per
//! event.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c` (`sched_cpu_deactivate`, `balance_push`), `fair.c`
//! (`unthrottle_offline_cfs_rqs`, `update_runtime_enabled`), `rt.c` (`rq_offline_rt`,
//! `rq_online_rt`); commits 0e59bdaea75f (3.17: `runtime_enabled` of a dying CPU),
//! af98d8a36a96 (6.14: other CPUs).

use crate::balance::{dl_pull, proxy};
use crate::class::fair::bandwidth::with_pool;
use crate::class::fair::park::{More, has_parked, take_back};
use crate::class::fair::throttle;
use crate::class::{dl, dl_server, fair, policy, rt, rt_served};
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::queue::fair::rq::FairRq;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::pool::TakenQuota;
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::life::Dequeue;
use crate::words::resched::Resched;
use crate::words::step::Step;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::SignedDuration;

impl<L: RawMutex> Scheduler<L> {
    /// Takes a CPU offline: no task is sent here any more. Empty it with [`evict`](Self::evict).
    pub fn offline(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        rq.set_online(false);
        rq.note(Unpublished::ALL);
        lifecycle::charge_current(rq, cx);
        if !self.config.settings.bandwidth_offline_loss {
            unthrottle_all(rq, cx);
        }
        rt::go_offline(rq, cx);
        dl_server::update_all(rq, cx);
        rt_served::online_changed(rq, cx);
        dl::online_changed(rq, cx);
        policy::set_online(rq, cx);
        rq.resched(cx, Resched::Now);
        rq.publish(cx);
    }

    /// Takes one waiting task off an offline CPU, to be placed elsewhere. `None` when only the
    /// current task remains, which is displaced when it leaves.
    pub fn evict(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Option<Parcel> {
        assert!(!rq.is_online(), "only an offline CPU is emptied");
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        lifecycle::charge_current(rq, cx);
        rq.publish(cx);
        let slot = loop {
            let is_lost = |slot| self.config.settings.bandwidth_offline_loss && throttle::is_barred(rq, slot);
            let Some(slot) = rq.tasks.iter().map(|(slot, _)| slot).find(|slot| !rq.runs(*slot) && !is_lost(*slot))
            else {
                rq.publish(cx); // Delayed tasks that were parked counted here.
                return None;
            };
            // A delayed task or a lender is parked, and does not return here.
            if !fair::finish_delayed(rq, cx, slot) && !proxy::take_off_lender(rq, cx, slot) {
                break slot;
            }
        };
        let body = lifecycle::deactivate(rq, cx, slot, Dequeue::Migrate);
        rq.publish(cx);
        Some(Parcel(body))
    }

    /// Brings a CPU back; it pulls deadline and real-time tasks that wait on other CPUs.
    pub fn online(&self, rq: &mut Rq, now: Clock, io: &mut Io) -> Step {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        rq.set_online(true);
        rq.note(Unpublished::ALL);
        rt::come_online(rq, cx);
        dl_server::update_all(rq, cx);
        rt_served::online_changed(rq, cx);
        dl::online_changed(rq, cx);
        policy::set_online(rq, cx);
        if rq.has_running() && rq.current_slot().is_none() {
            rq.resched(cx, Resched::Now); // Tasks that were lost here can run again.
        }
        // Tasks that wait on other CPUs could not come here until now.
        let step = dl_pull::begin(rq, cx);
        rq.publish(cx);
        step
    }

    /// Handles the hotplug of another CPU: unthrottles the groups here. Does nothing unless the
    /// setting `fault.cfs_bandwidth_hotplug_bypass` is on.
    pub fn domains_rebuilt(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        if !self.config.settings.bandwidth_hotplug_bypass {
            return;
        }
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        lifecycle::charge_current(rq, cx);
        unthrottle_all(rq, cx);
        dl_server::update(rq, cx);
        rq.publish(cx);
    }
}

/// Leaves every limited group with 1 ns here, without a debt, and unthrottles it: what the kernel
/// does on a CPU that goes offline, so that its tasks can be picked and moved.
fn unthrottle_all<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let FairRq { by_group, queues, .. } = &mut rq.fair;
    for (_, q) in by_group.iter() {
        let local = &mut queues[q.index()].bandwidth;
        if local.is_limited() {
            local.remaining = SignedDuration::from_nanos(1);
        }
    }
    // Unthrottling one queue can put others to rest, so the search starts again each time;
    // bounded by the number of throttled queues.
    let now = cx.now.wall;
    let throttled = |rq: &Rq| {
        let queues = rq.fair.by_group.iter();
        let stopped = queues.filter_map(|(group, q)| Some((group, q, rq.queue(q).bandwidth.throttled_for(now)?)));
        stopped.min_by_key(|(group, ..)| *group)
    };
    while let Some((group, q, lasted)) = throttled(rq) {
        let cpu = rq.cpu();
        with_pool(cx, group, |pool, _| {
            pool.release(cpu, lasted);
            TakenQuota::nothing(None)
        });
        throttle::unthrottle(rq, cx, q);
        while has_parked(rq, q) && take_back(rq, cx, q) == More::Yes {}
    }
}
