//! Checks of groups with deadline servers (`rt_group_sched = hcbs`): counts, places, published
//! state. Part of [`Scheduler`].

use crate::class::rt_served;
use crate::entry::scheduler::Scheduler;
use crate::queue::dl::server::{ServedBy, ServerPhase};
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::rt_served::PublishedLocal;
use alloc::format;
use alloc::string::String;
use lock_api::RawMutex;

impl<L: RawMutex> Scheduler<L> {
    /// Checks the local queues of a CPU, and their servers.
    pub(crate) fn check_served(&self, rq: &Rq) -> Result<(), String> {
        let (cpu, queues) = (rq.cpu(), rt_served::queues(rq));
        for at in queues.all() {
            let (queue, server) = (queues.queue(at), rq.dl.group(at));
            let group = queue.group;
            let fail = |wrong: &str| Err(format!("CPU {cpu}, group {group}: {wrong}"));
            if queue.run.iter(&rq.tasks).count() != queue.nr_running as usize {
                return fail("its queue counts tasks that it does not have");
            }
            if queue.run.iter(&rq.tasks).any(|slot| rq.tasks.seat(slot).local != Some(at)) {
                return fail("a task is in another queue than it knows");
            }
            for slot in queue.run.iter(&rq.tasks) {
                let waits = rq.current_slot() != Some(slot) && rq.tasks[slot].can_migrate(self.shared.nr_cpus());
                if queue.pushable.iter(&rq.tasks).any(|other| other == slot) != waits {
                    return fail("a task is pushable and cannot move, or the other way round");
                }
            }
            let can_run = server.params.is_on() && rq.is_online();
            if queue.nr_running > 0 && can_run && !server.state.is_started() {
                return fail("it has tasks, and its server is stopped");
            }
            if matches!(server.state, ServerPhase::Throttled { .. }) && server.timer.is_none() {
                return fail("its server waits, and nothing wakes it");
            }
            let has_timer = |timer| rq.dl.groups_timer.is_some_and(|set| set <= timer);
            if server.timer.is_some_and(|timer| !has_timer(timer)) {
                return fail("its server waits longer than it should");
            }
            let is_current = rq.dl.serving == Some(ServedBy::Group(at));
            if is_current && rq.phase() == Phase::Running && server.queued().is_none() {
                return fail("a server runs a task and is not queued");
            }
            if self.shared.groups.generation(group) == queue.generation {
                let published = PublishedLocal::unpack(self.shared.served.local(group, cpu));
                let truth = rt_served::published(rq, at);
                if published != truth {
                    return Err(format!("CPU {cpu} has published {published:?} of group {group}, not {truth:?}"));
                }
            }
        }
        if rq.rt.nr_served != rt_served::count_served(rq) {
            return Err(format!("CPU {cpu} counts {} served tasks", rq.rt.nr_served));
        }
        Ok(())
    }
}
