//! Pushing inside a group with servers: a task that waits in its group's queue goes to a CPU where
//! the group can run it at once.
//!
//! A CPU is a target if the group's server there has not exhausted its runtime, and its queue there
//! has no task as urgent. Whatever else that CPU runs does not matter: the queue's server competes
//! with that. Among targets the one with the least urgent queue is chosen, then the nearest, as in
//! `cpupri`.
//!
//! | when | what |
//! |---|---|
//! | a task wakes behind a task that stays | it is pushed, if it waits in a queue whose server has runtime |
//! | a switch goes to a task of the group | those that wait behind it |
//! | a switch leaves a task whose server has exhausted its runtime | all of the queue |
//!
//! O(CPUs of the root domain) per task.
//!
//! Sources: HCBS v6, patch 20 (`push_rt_rq_task`, `find_lowest_rt_rq`, `find_lock_lowest_rt_rq`),
//! patch 21 (`task_woken_rt`, `put_prev_task_rt`). differs: the kernel remembers one queue per
//! switch, which stays remembered if its push finds nothing to do, and then no queue is pushed any
//! more; the first CPU by number is taken among equals, not the next one.

use crate::balance::{dl_push, rt_push};
use crate::class::rt_served;
use crate::lifecycle;
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::rt_served::PublishedLocal;
use crate::words::ids::{LocalIx, Slot};
use crate::words::life::Engaged;
use crate::words::resched::Resched;
use crate::words::step::{AfterServed, PairCont, ServedPush, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, MigrateReason, Prio};

/// How often a search is made when its target turns out unsuitable under the lock (`RT_MAX_TRIES`).
const MAX_TRIES: u8 = 3;

/// Pushes the tasks that a switch has left waiting: those of a group, then those of the CPU's own
/// queues.
#[inline(always)]
pub(crate) fn left_behind<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    if rq.rt.local.is_some()
        && let Some(at) = rt_served::queues_mut(rq).push_from.take()
    {
        return begin(rq, cx, at, AfterServed::LeftBehind);
    }
    left_beside(rq, cx)
}

#[inline(always)]
fn left_beside<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Step {
    let is_deadline = rq.current_prio() == Prio::DEADLINE;
    if is_deadline && rq.dl.has_pushable() { dl_push::begin(rq, cx) } else { rt_push::left_behind(rq, cx) }
}

/// Pushes after a task has woken in a queue, if it cannot run soon.
#[cold]
#[inline(never)]
pub(crate) fn woken<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, at: LocalIx) -> Step {
    let Some(current) = rq.current_slot().filter(|current| *current != slot) else { return Step::Done };
    let running = rq.current_prio();
    let stays = running.beats(Prio::FIRST_FAIR)
        && (!rq.tasks[current].can_migrate(cx.shared.nr_cpus()) || !rq.tasks[slot].prio.beats(running));
    let waits = rq.phase() == Phase::Running && rq.need_resched() != Resched::Now && stays;
    if waits && cx.config.settings.rt_balance.is_active() && rq.dl.group(at).queued().is_some() {
        begin(rq, cx, at, AfterServed::Nothing)
    } else {
        Step::Done
    }
}

/// Begins to push the most urgent waiting task of a queue.
#[cold]
#[inline(never)]
fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: LocalIx, after: AfterServed) -> Step {
    let queue = rt_served::queues(rq).queue(at);
    let must_wait = queue.nr_running > 1 || rt_served::is_throttled(rq, at);
    let Some(slot) = queue.pushable.first().filter(|slot| must_wait && !rq.is_on_cpu(*slot)) else {
        return end(rq, cx, after);
    };
    cx.io.costs.rt_balance += 1;
    go_on(rq, cx, slot, ServedPush { task: rq.stay(slot), queue: at, tries: 1, after })
}

fn go_on<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, push: ServedPush) -> Step {
    match find_lowest(rq, cx, slot, push.queue) {
        Some(target) => Step::Pair { own: rq.cpu(), other: target, then: PairCont::ServedPush(push) },
        None => end(rq, cx, push.after),
    }
}

fn end<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, after: AfterServed) -> Step {
    match after {
        AfterServed::Nothing => Step::Done,
        AfterServed::LeftBehind => left_beside(rq, cx),
    }
}

/// Finds the CPU where a task of a queue would be its group's most urgent one.
fn find_lowest<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot, at: LocalIx) -> Option<CpuId> {
    let (own, group, task) = (rq.cpu(), rt_served::queues(rq).queue(at).group, &rq.tasks[slot]);
    let shared = cx.shared;
    let mut best = None;
    for cpu in (0..shared.nr_cpus()).map(CpuId::from_index).filter(|cpu| *cpu != own && task.may_run_on(*cpu)) {
        if !cx.view().takes_part(own, cpu) {
            continue;
        }
        cx.io.costs.cpus_scanned += 1;
        let there = PublishedLocal::unpack(cx.io.observer.u64(|| shared.served.local(group, cpu)));
        if there.is_throttled || !task.prio.beats(there.highest) {
            continue;
        }
        // A larger number is less urgent.
        let urgency = core::cmp::Reverse(there.highest.raw());
        let key = (urgency, cx.config.topology.distance(own, cpu), cpu != cx.by, cpu);
        if best.is_none_or(|best| key < best) {
            best = Some(key);
        }
    }
    best.map(|(.., cpu)| cpu)
}

/// Moves the chosen task if all conditions still hold, and continues.
pub(crate) fn resume<L: RawMutex>(own: &mut Rq, other: &mut Rq, cx: &mut Cx<'_, L>, push: ServedPush) -> Step {
    let Some(slot) = own.find_stay(push.task).filter(|slot| is_pushable(own, other, *slot, push.queue)) else {
        return begin(own, cx, push.queue, push.after);
    };
    let is_in_reach = other.is_online() && cx.shared.domain_of(own.cpu()) == cx.shared.domain_of(other.cpu());
    let there = rt_served::queue_in(other, own, push.queue).map(|at| rt_served::published(other, at));
    let there = there.unwrap_or(PublishedLocal::EMPTY);
    if is_in_reach && !there.is_throttled && own.tasks[slot].prio.beats(there.highest) {
        lifecycle::migrate(own, other, cx, slot, MigrateReason::Push);
        return begin(own, cx, push.queue, push.after);
    }
    if push.tries >= MAX_TRIES {
        cx.io.costs.pushes_given_up += 1;
        return end(own, cx, push.after);
    }
    go_on(own, cx, slot, ServedPush { tries: push.tries + 1, ..push })
}

/// Returns whether the task still waits in the queue, and is allowed there.
fn is_pushable(own: &Rq, other: &Rq, slot: Slot, at: LocalIx) -> bool {
    let task = &own.tasks[slot];
    let queue = rt_served::queues(own).queue(at);
    let must_wait = queue.nr_running > 1 || rt_served::is_throttled(own, at);
    must_wait
        && own.tasks.seat(slot).local == Some(at)
        && !own.is_on_cpu(slot)
        && task.engaged == Engaged::No
        && task.may_run_on(other.cpu())
}
