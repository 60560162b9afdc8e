//! Pulling inside a group with servers: a CPU takes a task of the group that waits on another CPU.
//!
//! | when | what |
//! |---|---|
//! | a CPU has left a task of a queue, whose next task is less urgent | a more urgent one is pulled |
//! | a server is picked, and its queue is empty | a task is pulled; if there is none, the server is stopped |
//!
//! A task waits on another CPU if the group has several there, or if its server there has exhausted
//! its runtime. So a task goes to where its group still has runtime.
//!
//! O(CPUs of the root domain).
//!
//! Sources: HCBS v6, patch 20 (`pull_rt_rq_task`), 21 (`balance_rt`), 23 (`rt_server_pick`).
//! differs: nothing is pulled to a queue whose server has exhausted its runtime, also not when one
//! of its tasks blocks; CPUs of other root domains are not looked at.

use crate::class::rt_served;
use crate::lifecycle;
use crate::queue::dl::rq::DlEntityRef;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Prev, Rq, Stage};
use crate::shared::rt_served::PublishedLocal;
use crate::words::ids::{LocalIx, Slot};
use crate::words::life::Engaged;
use crate::words::step::{PairCont, ServedPull, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, MigrateReason, Prio};

/// Pulls before a pick, and stops servers that would be picked and have no task. The tasks of the
/// CPU's own queue are then pulled as if the CPU came from the server.
#[inline(always)]
pub(crate) fn before_pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, stage: Stage, prev: &mut Prev) -> Step {
    if rq.rt.local.is_none() { Step::Done } else { search(rq, cx, stage, prev) }
}

#[cold]
#[inline(never)]
fn search<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, stage: Stage, prev: &mut Prev) -> Step {
    if let Some((at, prio)) = rt_served::queues_mut(rq).left.take()
        && prio.beats(rt_served::queues(rq).queue(at).highest())
    {
        let step = begin(rq, cx, at);
        if step != Step::Done {
            return step;
        }
    }
    // Bounded by twice the number of queues: each is searched for once, then its server is stopped.
    while let Some((_, DlEntityRef::Group(at))) = rq.dl.first()
        && rt_served::first_of(rq, at).is_none()
    {
        let queue = rt_served::queues_mut(rq).queue_mut(at);
        if core::mem::replace(&mut queue.has_searched, true) {
            let has_lowered = rq.dl.has_lowered;
            rt_served::stop(rq, cx, at);
            if stage == Stage::Fresh {
                // The switch itself looks for what can run now.
                rq.dl.has_lowered = has_lowered;
                rq.search_as(Prio::DEADLINE);
                prev.prio = Prio::DEADLINE;
            }
            continue;
        }
        let step = begin(rq, cx, at);
        if step != Step::Done {
            return step;
        }
    }
    Step::Done
}

/// Begins to pull to a queue.
fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx) -> Step {
    if !rq.is_online() || rt_served::is_throttled(rq, at) || !cx.config.settings.rt_balance.is_active() {
        return Step::Done;
    }
    next(rq, cx, at, CpuId(0))
}

/// Returns the step for the next CPU where a more urgent task of the group waits.
fn next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx, from: CpuId) -> Step {
    let (own, shared) = (rq.cpu(), cx.shared);
    let queue = rt_served::queues(rq).queue(at);
    let (group, highest) = (queue.group, queue.highest());
    for cpu in (from.index()..shared.nr_cpus()).map(CpuId::from_index).filter(|cpu| *cpu != own) {
        let there = PublishedLocal::unpack(cx.io.observer.u64(|| shared.served.local(group, cpu)));
        if !there.gives() || !there.pushable.beats(highest) || !cx.view().takes_part(own, cpu) {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        cx.io.costs.rt_balance += 1;
        return Step::Pair { own, other: cpu, then: PairCont::ServedPull(ServedPull { queue: at }) };
    }
    Step::Done
}

/// Takes the task of `other`, and continues with the next CPU.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, pull: ServedPull) -> Step {
    let at = pull.queue;
    if !own.is_online() || rt_served::is_throttled(own, at) {
        return Step::Done;
    }
    let shares_domain = cx.shared.domain_of(own.cpu()) == cx.shared.domain_of(other.cpu());
    if shares_domain && let Some(slot) = waiting_for(own, other, cx, at) {
        lifecycle::migrate(other, own, cx, slot, MigrateReason::Pull);
    }
    next(own, cx, at, CpuId(other.cpu().0 + 1))
}

/// Returns the most urgent task of the group that waits on `other`, is allowed here and beats those
/// in the queue here, unless it is about to run there. O(pushable tasks that are not allowed here).
fn waiting_for<L: RawMutex>(own: &Rq, other: &Rq, cx: &mut Cx<'_, L>, at: LocalIx) -> Option<Slot> {
    let from = rt_served::queue_in(other, own, at)?;
    if !rt_served::published(other, from).gives() {
        return None;
    }
    let queue = rt_served::queues(other).queue(from);
    let slot = queue.pushable.iter(&other.tasks).find(|slot| {
        cx.io.costs.tasks_scanned += 1;
        other.tasks[*slot].may_run_on(own.cpu()) && !other.is_on_cpu(*slot)
    })?;
    let (prio, is_free) = (other.tasks[slot].prio, other.tasks[slot].engaged == Engaged::No);
    let runs_there = other.current_slot().is_some_and(|current| other.tasks.seat(current).local == Some(from));
    let about_to_run = runs_there && prio.beats(other.current_prio());
    let beats = prio.beats(rt_served::queues(own).queue(at).highest());
    (is_free && beats && !about_to_run).then_some(slot)
}
