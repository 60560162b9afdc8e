//! CPU hotplug: CPUs that go offline and come back. Part of [`Scheduler`].
//!
//! After [`offline`](Scheduler::offline) no task is sent to a CPU any more. Its waiting tasks are
//! then taken off one by one ([`evict`](Scheduler::evict)) and placed on other CPUs; the current
//! task is displaced when it leaves.
//!
//! A known fault (`fault.cfs_bandwidth_offline_loss`): the kernel unthrottled the limited groups of
//! the CPU long before the CPU was dead. Their tasks ran on and were throttled again. Tasks that
//! were throttled when the CPU died could not be picked and moved: they stayed on its run queue,
//! whatever quota arrived, until the CPU was back. This scheduler does not unthrottle them first:
//! tasks that are throttled when the CPU goes offline stay.
//!
//! Sources: Linux v6.12 `kernel/sched/core.c` (`sched_cpu_deactivate`, `balance_push`), `rt.c`
//! (`rq_offline_rt`, `rq_online_rt`); commit 0e59bdaea75f (3.17: `runtime_enabled` of a dying CPU).

use crate::balance::{dl_pull, proxy};
use crate::class::fair::throttle;
use crate::class::{dl, dl_server, fair, policy, rt};
use crate::entry::scheduler::Scheduler;
use crate::lifecycle;
use crate::rq::run_queue::Rq;
use crate::task::body::Parcel;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::life::Dequeue;
use crate::words::resched::Resched;
use crate::words::step::Step;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;

impl<L: RawMutex> Scheduler<L> {
    /// Takes a CPU offline: no task is sent here any more. Empty it with [`evict`](Self::evict).
    pub fn offline(&self, rq: &mut Rq, now: Clock, io: &mut Io) {
        rq.set_clock(now);
        let cx = &mut self.cx(rq.cpu(), now, io);
        rq.set_online(false);
        rq.note(Unpublished::ALL);
        lifecycle::charge_current(rq, cx);
        rt::go_offline(rq, cx);
        dl_server::update_all(rq, cx);
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
}
