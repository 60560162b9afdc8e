//! The life cycle that all classes share: enqueue, dequeue, migrate, charge, pick and switch.
//!
//! A class only orders its own tasks. The steps around that are the same for every class and are
//! written once, here: the body of a task enters and leaves a run queue, the exec time is charged,
//! the deadline servers are told. Dispatch is a `match` over the closed set of classes
//! ([`crate::class`]). The classes are asked in the order of [`ClassId::rank`].
//!
//! Rules that involve several classes are here too: the task that a deadline server runs, and the
//! effect of a throttled group on the servers.
//!
//! A new class is one module with these functions and one arm in each `match` here.

use crate::class::fair::{boost, capacity, park, throttle};
use crate::class::{dl, dl_server, ext, fair, rt, rt_groups, rt_served, rt_throttle};
use crate::entity::fair::{EntityRef, FairState, QueueIx, Standing};
use crate::queue::dl::rq::DlEntityRef;
use crate::queue::dl::server::ServedBy;
use crate::queue::rt::prio_queue::QueueEnd;
use crate::rq::cx::Cx;
use crate::rq::run_queue;
use crate::rq::run_queue::{Phase, Prev, Rq};
use crate::task::body::Task;
use crate::task::deadline;
use crate::words::group::MAX_DEPTH;
use crate::words::ids::Slot;
use crate::words::life::{Dequeue, Dequeued, Engaged, Enqueue};
use crate::words::mode::TaskMode;
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use alloc::boxed::Box;
use lock_api::RawMutex;
use zerolag_model::settings::{Preempt, Throttle, ThrottleAt};
use zerolag_model::{ClassId, CpuMask, Duration, MigrateReason, Prio, ServerKind, TaskId, TraceEvent};

/// Returns whether all CPUs that a task may use are offline.
#[cold]
pub(crate) fn has_only_offline<L: RawMutex>(cx: &mut Cx<'_, L>, allowed: Option<&CpuMask>) -> bool {
    let own = allowed.and_then(CpuMask::first);
    own.is_some_and(|own| cx.view().online_or_other(own, allowed).is_none())
}

/// Returns whether a task may stay on the run queue: the CPU is online, and the task is allowed
/// there or all CPUs that it is allowed on are offline (`select_fallback_rq` has put it here).
#[inline(always)]
pub(crate) fn may_stay<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) -> bool {
    let task = &rq.tasks[slot];
    rq.is_online() && (task.may_run_on(rq.cpu()) || has_only_offline(cx, task.allowed.as_deref()))
}

/// Gives a body to a run queue and enqueues the task.
#[inline]
pub(crate) fn activate<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, mut body: Box<Task>, why: Enqueue) -> Slot {
    let is_lender = body.engaged != Engaged::No;
    debug_assert!(
        is_lender || body.may_run_on(rq.cpu()) || has_only_offline(cx, body.allowed.as_deref()),
        "task {} may not run on CPU {}",
        body.id,
        rq.cpu()
    );
    body.stay = body.stay.wrapping_add(1);
    body.last_cpu = rq.cpu();
    let id = body.id;
    let slot = rq.tasks.insert(body);
    cx.shared.set_home(id, Some((rq.cpu(), slot)));
    enqueue(rq, cx, slot, why);
    slot
}

/// Dequeues a task and takes its body out of the run queue. The task must not be current.
#[inline]
pub(crate) fn deactivate<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Box<Task> {
    debug_assert!(!rq.runs(slot), "a running task must go through `leave`");
    let gone = dequeue(rq, cx, slot, why);
    assert!(gone == Dequeued::Gone, "only a sleeping task is delayed");
    run_queue::detach(rq, cx, slot)
}

#[inline]
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    rq.note(Unpublished::COUNTS);
    match rq.tasks[slot].prio.class() {
        ClassId::Rt => rt_served::enqueue(rq, cx, slot, QueueEnd::Back),
        ClassId::Fair => fair::enqueue(rq, cx, slot, why),
        ClassId::Deadline => dl::enqueue(rq, cx, slot, why),
        ClassId::Ext => enqueue_ext(rq, cx, slot, why),
        ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
    }
    dl_server::update(rq, cx);
}

#[inline]
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Dequeued {
    rq.note(Unpublished::COUNTS);
    let dequeued = match rq.tasks[slot].prio.class() {
        ClassId::Rt => {
            rt_served::dequeue(rq, cx, slot);
            Dequeued::Gone
        }
        ClassId::Fair => fair::dequeue(rq, cx, slot, why),
        ClassId::Deadline => {
            dl::dequeue(rq, cx, slot, why);
            Dequeued::Gone
        }
        ClassId::Ext => dequeue_ext(rq, cx, slot, why),
        ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
    };
    dl_server::update(rq, cx);
    dequeued
}

/// Cold and out of line, as every step of this class: most machines do not have it.
#[cold]
#[inline(never)]
fn enqueue_ext<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Enqueue) {
    ext::enqueue(rq, cx, slot, why);
    dl_server::update_ext(rq, cx);
}

#[cold]
#[inline(never)]
fn dequeue_ext<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, why: Dequeue) -> Dequeued {
    ext::dequeue(rq, cx, slot, why);
    dl_server::update_ext(rq, cx);
    Dequeued::Gone
}

/// Changes the allowed CPUs of a queued task. A real-time task keeps its place among its equals.
pub(crate) fn change_allowed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, change: impl FnOnce(&mut Task)) {
    rq.note(Unpublished::PRIOS);
    match rq.tasks[slot].prio.class() {
        ClassId::Rt => rt_served::change_allowed(rq, cx, slot, change),
        // No queue of this class depends on the allowed CPUs.
        ClassId::Fair => change(&mut rq.tasks[slot]),
        ClassId::Deadline => dl::change_allowed(rq, cx, slot, change),
        ClassId::Ext => ext::change_allowed(rq, cx, slot, change),
        ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
    }
}

/// Moves a waiting task from one run queue to another.
pub(crate) fn migrate<L: RawMutex>(from: &mut Rq, to: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, reason: MigrateReason) {
    migrate_as(from, to, cx, slot, (reason, Enqueue::Migrated));
}

/// As [`migrate`], where the class has to know why the task arrives.
pub(crate) fn migrate_as<L: RawMutex>(
    from: &mut Rq,
    to: &mut Rq,
    cx: &mut Cx<'_, L>,
    slot: Slot,
    (reason, why): (MigrateReason, Enqueue),
) {
    if from.current_class() == ClassId::Fair {
        charge_current(from, cx);
    }
    if to.current_class() == ClassId::Fair {
        charge_current(to, cx);
    }
    let mut body = deactivate(from, cx, slot, Dequeue::Migrate);
    body.counters.migrations += 1;
    cx.io.costs.tasks_moved += 1;
    let (task, prio, source, target) = (body.id, body.prio, from.cpu(), to.cpu());
    cx.io.event(cx.now, cx.by, || TraceEvent::Migrate { task, prio, from: source, to: target, reason });
    let slot = activate(to, cx, body, why);
    check_preempt(to, cx, slot);
}

/// Requests a reschedule if a task that was just enqueued should run before the current one.
pub(crate) fn check_preempt<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.phase() != Phase::Running {
        return; // `pick` is about to compare all tasks.
    }
    let class = rq.tasks[slot].prio.class();
    if deadline::is_throttled(&rq.tasks[slot]) || class == ClassId::Rt && rq.rt.is_throttled() {
        return; // It is runnable, but throttled.
    }
    if class == ClassId::Rt && rq.rt.is_stopped(&rq.tasks, slot) {
        return; // Its group is throttled.
    }
    if class == ClassId::Fair && throttle::is_barred(rq, slot) {
        return; // Its group is throttled.
    }
    if class == ClassId::Rt
        && rq.rt.local.is_some()
        && let Some(resched) = rt_served::check_preempt(rq, slot)
    {
        return rq.resched(cx, resched);
    }
    // A task that a server runs is preempted by the rules of its own class; `pick` compares the
    // server with the other classes.
    let current_class = rq.current_class();
    let resched = match rq.current_slot() {
        None => Resched::Now,
        Some(_) if class.rank() < current_class.rank() => Resched::Now,
        Some(_) if class.rank() > current_class.rank() => Resched::No,
        Some(current) => match class {
            ClassId::Rt => rt::check_preempt(rq, cx, current, slot),
            ClassId::Fair => fair::check_preempt(rq, cx, current, slot),
            ClassId::Deadline => dl::check_preempt(rq, slot),
            // Tasks of a loaded scheduler do not preempt each other.
            ClassId::Stop | ClassId::Ext | ClassId::Idle => Resched::No,
        },
    };
    let lazy = class == ClassId::Fair && current_class == ClassId::Fair;
    rq.resched(cx, if lazy { soften(resched, cx.config.settings.preempt) } else { resched });
}

/// Makes a reschedule request for a fair task lazy if the preemption model says so.
pub(crate) fn soften(resched: Resched, preempt: Preempt) -> Resched {
    match (resched, preempt) {
        (Resched::Now, Preempt::Lazy) => Resched::Lazy,
        (other, _) => other,
    }
}

/// Charges the current task up to now, and its budget too.
#[inline(always)]
pub(crate) fn charge_current<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    charge_beside(rq, cx);
    dl::settle(rq, cx);
}

/// As [`charge_current`], for events at which the kernel does not charge a deadline task: another
/// task wakes or is replenished, or a counter is read. A reclaiming task is charged for the time
/// until then at its next charge, at the rate that holds then.
#[inline(always)]
pub(crate) fn charge_beside<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if let Some((slot, delta)) = to_charge(rq) {
        charge(rq, cx, slot, delta);
    } else if rq.current_slot().is_none() {
        charge_idle(rq, cx);
    }
}

/// Returns the current task and the time that it is to be charged, if that is not zero.
#[inline(always)]
fn to_charge(rq: &Rq) -> Option<(Slot, Duration)> {
    let slot = rq.current_slot()?;
    let delta = rq.clock_task().since(rq.tasks[slot].exec_start);
    if delta.is_zero() { None } else { Some((slot, delta)) }
}

/// Charges the current task when a task of priority `woken` wakes. A task that a server runs is
/// charged only if the woken task is of the server's class, so an exhausted server can be noticed
/// later (`enqueue_task_fair` charges, `enqueue_task_rt` does not).
#[inline(always)]
pub(crate) fn charge_at_wakeup<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, woken: Prio) {
    if rq.dl.serving.is_none_or(|by| by.kind().is_some_and(|kind| kind.class() == woken.class())) {
        charge_beside(rq, cx);
    }
}

/// As [`charge_current`], for ticks. Most charges are theirs, so theirs are inlined.
#[inline(always)]
pub(crate) fn charge_at_tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if let Some((slot, delta)) = to_charge(rq) {
        charge_inline(rq, cx, slot, delta);
    } else if rq.current_slot().is_none() {
        charge_idle(rq, cx);
    }
    dl::settle(rq, cx);
}

fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) {
    charge_inline(rq, cx, slot, delta);
}

#[inline(always)]
fn charge_inline<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) {
    let now = rq.clock_task();
    let task = &mut rq.tasks[slot];
    task.exec_start = now;
    task.counters.exec += delta;
    match task.prio.class() {
        ClassId::Rt => {
            rt::charge(task, cx.config.settings.enforce_rt, delta);
            if rt_served::charge(rq, cx, slot, delta) {
                return;
            }
            if rq.rt.tree.is_some() {
                rt_groups::charge(rq, cx, slot, delta);
            }
            rt_throttle::charge(rq, cx, delta);
            dl_server::charge(rq, cx, ClassId::Rt, delta);
        }
        ClassId::Fair => {
            fair::charge(rq, cx, slot, delta);
            dl_server::charge(rq, cx, ClassId::Fair, delta);
        }
        ClassId::Deadline => {
            dl::charge(rq, slot, delta);
            rt_throttle::charge_deadline(rq, cx, delta);
        }
        ClassId::Ext => charge_ext(rq, cx, delta),
        ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
    }
}

#[cold]
#[inline(never)]
fn charge_ext<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, delta: Duration) {
    ext::charge(rq, cx, delta);
    dl_server::charge(rq, cx, ClassId::Ext, delta);
}

/// Tells the servers how long the CPU has idled.
fn charge_idle<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let Some(since) = rq.idle_since() else { return };
    let delta = rq.clock_task().since(since);
    if !delta.is_zero() {
        rq.set_idle_since(Some(rq.clock_task()));
        dl_server::idled(rq, cx, delta);
    }
}

/// Returns the task that should run now. It can be the current one.
#[inline(always)]
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    pick_by_deadline(rq, cx).or_else(|| rq.rt.pick()).or_else(|| fair::pick(rq, cx)).or_else(|| ext::pick(rq, cx))
}

/// Makes `next` the current task of the CPU.
#[inline(always)]
pub(crate) fn switch_to<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, next: Option<Slot>) {
    // The blocked task is no longer current; switching to idle still counts as a switch.
    let begins_to_idle = next.is_none() && rq.idle_since().is_none();
    rq.set_idle_since(match next {
        None => rq.idle_since().or(Some(rq.clock_task())),
        Some(_) => None,
    });
    if rq.current_slot() == next && !begins_to_idle {
        // It was moved into a throttled group while it ran, and the group has quota again before
        // the CPU left the task.
        if let Some(slot) = next.filter(|slot| rq.tasks[*slot].fair.node.is_some()) {
            fair::set_next(rq, cx, slot);
        }
        return;
    }
    if begins_to_idle {
        rq.note(Unpublished::COUNTS); // The last task can have been throttled: it left no queue.
    }
    let mut was_rt = false;
    if let Some(slot) = rq.current_slot() {
        let prev = &mut rq.tasks[slot];
        prev.last_ran = cx.now.wall;
        match prev.prio.class() {
            ClassId::Rt => {
                was_rt = true;
                rt_served::put_prev(rq, cx, slot);
            }
            // See below: the groups that `prev` and `next` share stay current.
            ClassId::Fair => {}
            ClassId::Deadline => dl::put_prev(rq, cx, slot),
            ClassId::Ext => ext::put_prev(rq, cx, slot, next.is_none()),
            ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
        }
    }
    rq.set_current(next);
    let Some(slot) = next else {
        rq.note(Unpublished::PRIOS);
        fair::put_prev(rq, cx);
        cx.shared.publish_current(rq.cpu(), None);
        capacity::switched(rq, cx, ClassId::Idle);
        return;
    };
    let now = rq.clock_task();
    let task = &mut rq.tasks[slot];
    task.exec_start = now;
    let (id, class) = (task.id, task.prio.class());
    let (prio, movable) = (task.prio, task.can_migrate(cx.shared.nr_cpus()));
    if class != ClassId::Fair {
        fair::put_prev(rq, cx);
    }
    // A switch changes which real-time tasks wait, and the current task, whose published priority
    // and mobility are often the same as before.
    if was_rt || class == ClassId::Rt || !rq.shows_current(prio, movable) {
        rq.note(Unpublished::PRIOS);
    }
    set_next(rq, cx, slot, class);
    cx.shared.publish_current(rq.cpu(), Some((id, rq.fair.part_of_root(&rq.tasks[slot].fair))));
}

/// Cold and out of line, so that building a trace record does not bloat the hot caller.
#[cold]
pub(crate) fn record_switch<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, prev: Prev, next: Option<TaskId>) {
    cx.io.event(cx.now, rq.cpu(), || TraceEvent::Switch {
        prev: prev.task,
        prev_state: prev.state,
        next,
        next_prio: rq.current_slot().map_or(Prio::IDLE, |slot| rq.tasks[slot].prio),
    });
}

/// Makes the current task run as a task of `class` from now on.
#[inline(always)]
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, class: ClassId) {
    capacity::switched(rq, cx, class);
    match class {
        ClassId::Rt => rt_served::set_next(rq, cx, slot),
        ClassId::Fair => fair::set_next(rq, cx, slot),
        ClassId::Deadline => dl::set_next(rq, cx, slot),
        ClassId::Ext => ext::set_next(rq, cx, slot),
        ClassId::Stop | ClassId::Idle => unreachable!("no task of this class is admitted"),
    }
}

/// Returns the task that the class of a server would run. Out of line: a server is seldom first.
#[inline(never)]
fn pick_client<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, class: ClassId) -> Option<Slot> {
    match class {
        ClassId::Fair => fair::pick(rq, cx),
        ClassId::Rt => rq.rt.pick(),
        ClassId::Ext => ext::pick(rq, cx),
        ClassId::Stop | ClassId::Deadline | ClassId::Idle => None,
    }
}

/// Returns the task that the first server of the deadline queue runs. Stops the server if its class
/// has no task.
fn pick_served<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, kind: ServerKind) -> Option<Slot> {
    let client = pick_client(rq, cx, kind.class());
    if client.is_none() {
        dl_server::stop(rq, cx, kind);
    }
    client
}

/// Returns the next task by deadline: a deadline task, or the task that a server runs. Stops
/// servers of classes without a task.
#[inline(always)]
fn pick_by_deadline<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    match rq.dl.has_no_server() {
        true => rq.dl.first_task(),
        false => pick_queued(rq, cx),
    }
}

fn pick_queued<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    let is_overlooked = |kind: &ServerKind| rq.dl.server(*kind).queued().is_none();
    let overlooked = rq.dl.serving.and_then(ServedBy::kind).filter(is_overlooked);
    let (next, by) = match overlooked {
        Some(kind) => (pick_client(rq, cx, kind.class()), None),
        None => pick_first(rq, cx),
    };
    if rq.dl.serving != by {
        rq.note(Unpublished::PRIOS);
        rq.dl.serving = by;
    }
    match by {
        None => {}
        Some(ServedBy::Class(kind)) => dl_server::set_next(rq, cx, kind),
        Some(ServedBy::Group(at)) => rt_served::arm_budget(rq, cx, at),
    }
    next
}

/// Returns the task of the first deadline entity, and the server that runs it.
fn pick_first<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> (Option<Slot>, Option<ServedBy>) {
    // Bounded by the number of servers: every iteration but the last stops one.
    loop {
        match rq.dl.first() {
            None => return (None, None),
            Some((_, DlEntityRef::Task(slot))) => return (Some(slot), None),
            Some((_, DlEntityRef::Server(kind))) => {
                if let Some(slot) = pick_served(rq, cx, kind) {
                    return (Some(slot), Some(ServedBy::Class(kind)));
                }
            }
            Some((_, DlEntityRef::Group(at))) => match rt_served::first_of(rq, at) {
                Some(slot) => return (Some(slot), Some(ServedBy::Group(at))),
                None => rt_served::stop(rq, cx, at),
            },
        }
    }
}

/// Throttles the groups of the current task that are out of quota, from the task upwards. Called
/// when the CPU leaves the task. The effect on the task itself depends on its mode: it can gain or
/// lose its boost, or be parked.
#[inline(always)]
pub(crate) fn throttle_exhausted<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.has_limits {
        throttle_groups(rq, cx);
    }
}

/// Throttles the groups of the current task that the charge of a tick has left without quota
/// (`throttle_at = charge`). Their tasks count nowhere from now on. The current one runs until its
/// CPU can switch, which can take a while in kernel mode; it waits in its queue meanwhile.
///
/// Source: Turner & Rao 2010, "Throttled entities are dequeued immediately (as opposed to delaying
/// this operation to the put path)". differs: charges beside ticks leave it to the switch; other
/// values of `throttle` than `immediate` do so always.
#[cold]
pub(crate) fn throttle_charged<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let at_charge = cx.config.settings.throttle_at == ThrottleAt::Charge && rq.fair.has_limits;
    if at_charge && rq.fair.tune.throttle == Throttle::Immediate && rq.current_class() == ClassId::Fair {
        throttle_groups(rq, cx);
    }
}

fn throttle_groups<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let goes_on = |rq: &Rq| rq.current_slot().filter(|slot| rq.tasks[*slot].fair.state == FairState::Runnable);
    if let Some(slot) = goes_on(rq)
        && rq.tasks[slot].fair.standing != Standing::Ordinary
        && rq.tasks[slot].mode == TaskMode::User
    {
        boost::end(rq, cx, slot);
        dl_server::update(rq, cx);
    } else if let Some(slot) = goes_on(rq) {
        boost::preempted(rq, cx, slot);
    }
    let mut path = [QueueIx::ROOT; MAX_DEPTH];
    let mut depth = 0;
    let mut at = rq.queue(QueueIx::ROOT).current;
    while let Some(EntityRef::Group(q)) = at {
        path[depth] = q;
        depth += 1;
        at = rq.queue(q).current;
    }
    // With one queue of all tasks: the groups of the task that ran, from the bottom up.
    let mut home = rq.fair.last_group_queue;
    while let Some(parent) = rq.queue(home).parent {
        path[depth] = home;
        depth += 1;
        home = parent;
    }
    let is_flat = rq.fair.tune.is_flat;
    for at in 0..depth {
        let q = path[if is_flat { at } else { depth - 1 - at }];
        let queue = rq.queue(q);
        // A group runs nothing if its last task has left, or if it is queued only to repay its lag.
        let may_run = queue.entity.is_queued() && queue.tally.tasks() > 0;
        if may_run && queue.bandwidth.is_out_of_quota() && !queue.bandwidth.is_throttled() {
            boost::preempted_before_limit(rq, cx, q);
            throttle::throttle(rq, cx, q);
            dl_server::update(rq, cx);
        } else if may_run && queue.bandwidth.is_throttled() {
            throttle::detach_unspared(rq, cx, q);
            dl_server::update(rq, cx);
        }
    }
    if let Some(leaf) = path[..depth].last()
        && rq.fair.nr_throttled > 1
        && rq.fair.tune.throttle == Throttle::BoostGroups
    {
        // A throttled group above one that has just been detached may have no other task.
        throttle::release_if_empty(rq, cx, *leaf);
    }
    // A task that another preempts stays queued: it is parked once it has been picked again.
    let Some(slot) = goes_on(rq).filter(|_| rq.is_only_to_park()) else { return };
    if park::is_due(rq, slot) {
        park::park(rq, cx, slot);
        dl_server::update(rq, cx);
    }
}
