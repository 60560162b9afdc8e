//! The real-time class: SCHED_FIFO and SCHED_RR on one CPU. Migration is in
//! [`rt_push`](crate::balance::rt_push), [`rt_pull`](crate::balance::rt_pull) and
//! [`rt_ipi`](crate::balance::rt_ipi).
//!
//! The most urgent task runs; among equals the one that was enqueued first. The current task stays
//! on its list, so a preempted task continues before its equals. `sched_yield` and an exhausted RR
//! slice requeue it behind them. A task is *pushable* while it waits here and can run elsewhere.
//!
//! Every operation is O(1).
//!
//! Sources: Linux v6.12 `kernel/sched/rt.c` (`enqueue_task_rt`, `task_tick_rt`,
//! `check_preempt_equal_prio`); POSIX.1-2017, scheduling policies.

use crate::class::{rt_groups, rt_lowest, rt_throttle};
use crate::entity::rt;
use crate::entity::rt::{PUSHABLE, PrioQueueLink};
use crate::queue::rt::prio_queue::QueueEnd;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::task::body::Task;
use crate::words::ids::{LocalIx, Slot};
use crate::words::lines::LineAccess;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::{Grain, OverloadScope, RtOverload};
use zerolag_model::{Duration, TraceEvent};

/// Enqueues a task behind its equals.
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    enqueue_at(rq, cx, slot, QueueEnd::Back);
}

/// Enqueues a task before its equals, because its priority was lowered.
pub(crate) fn enqueue_first<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    enqueue_at(rq, cx, slot, QueueEnd::Front);
}

fn enqueue_at<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, end: QueueEnd) {
    rq.note(Unpublished::PRIOS);
    rq.tasks.seat_or_new(slot);
    rq.rt.run.insert(&mut rq.tasks, slot, end);
    rq.rt.nr_running += 1;
    if rq.rt.tree.is_some() {
        rt_groups::enqueue(rq, cx, slot, end);
    }
    rt_throttle::queued(rq, cx);
    count_mobility(rq, cx, slot, end);
    if rq.tasks[slot].rt.slice_left.is_zero() {
        rq.tasks[slot].rt.slice_left = cx.config.settings.rr_timeslice;
    }
    update_overload(rq, cx, slot);
}

/// Counts a queued task as migratory if it can migrate.
#[inline(always)]
fn count_mobility<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, slot: Slot, end: QueueEnd) {
    if rq.tasks[slot].can_migrate(cx.shared.nr_cpus()) {
        rq.rt.nr_migratory += 1;
        if rq.current_slot() != Some(slot) {
            rq.rt.pushable.insert(&mut rq.tasks, slot, end);
        }
    }
}

/// Changes the allowed CPUs of a queued task, which keeps its place among its equals.
pub(crate) fn change_allowed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, change: impl FnOnce(&mut Task)) {
    if rq.tasks[slot].can_migrate(cx.shared.nr_cpus()) {
        rq.rt.nr_migratory -= 1;
        rq.rt.pushable.remove(&mut rq.tasks, slot);
    }
    change(&mut rq.tasks[slot]);
    count_mobility(rq, cx, slot, QueueEnd::Back);
    update_overload(rq, cx, slot);
}

/// Dequeues a task.
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    rq.note(Unpublished::PRIOS);
    let was_queued = rq.rt.run.remove(&mut rq.tasks, slot);
    assert!(was_queued, "a task that is dequeued was queued");
    rq.rt.pushable.remove(&mut rq.tasks, slot);
    rq.rt.nr_running -= 1;
    if rq.rt.tree.is_some() {
        rt_groups::dequeue(rq, cx, slot);
    }
    if rq.tasks[slot].can_migrate(cx.shared.nr_cpus()) {
        rq.rt.nr_migratory -= 1;
    }
    update_overload(rq, cx, slot);
}

/// Keeps the bit of this CPU in the overload mask: see
/// [`RtRq::is_overloaded`](crate::queue::rt::rq::RtRq::is_overloaded).
///
/// The mask is that of the task's scope. With `overload_scope = cpuset` this CPU can have tasks of
/// several cpusets, and a bit can stay behind in the mask of one of them, as the 2007 text says. A
/// pull that finds a wrong bit clears it.
#[inline(always)]
fn update_overload<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let overloaded = rq.is_rt_overloaded(cx.config) && rq.is_online();
    let is_settled = match cx.shared.overload_scope() {
        // All tasks here share one mask, so its bit has the value that this CPU wrote last.
        OverloadScope::Global | OverloadScope::RootDomain => overloaded == rq.rt.is_in_mask,
        OverloadScope::Cpuset => !overloaded && !rq.rt.is_in_mask,
    };
    if !is_settled {
        change_overload(rq, cx, slot, overloaded);
    }
}

/// Changes the bit of this CPU. The record is made by a function that ends with this one's work, so
/// that this one calls nothing and saves no registers.
fn change_overload<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, overloaded: bool) {
    let is_changed = overloaded != core::mem::replace(&mut rq.rt.is_in_mask, overloaded);
    if cx.io.is_watched() {
        return change_overload_watched(rq, cx, slot, overloaded, is_changed);
    }
    assign_overload(rq, cx, slot, overloaded);
}

#[cold]
#[inline(never)]
fn change_overload_watched<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot, overloaded: bool, is_changed: bool) {
    if is_changed {
        cx.io.event(cx.now, rq.cpu(), || TraceEvent::RtOverload { overloaded });
    }
    cx.io.log(LineAccess::Overload { cpu: rq.cpu() });
    assign_overload(rq, cx, slot, overloaded);
}

#[inline(always)]
fn assign_overload<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>, slot: Slot, overloaded: bool) {
    let mask = cx.shared.overload(rq.tasks[slot].cpuset, rq.cpu());
    if overloaded {
        mask.insert(rq.cpu());
    } else {
        mask.remove(rq.cpu());
    }
}

/// Updates the overload mask after the first deadline task arrived or the last one left. A single
/// real-time task waits behind a deadline task.
///
/// differs: kernels before 6.7 count only real-time tasks, and no CPU pulls the one that waits
/// behind a deadline task.
pub(crate) fn deadline_came_or_went<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if let Some(slot) = rq.rt.run.first() {
        update_overload(rq, cx, slot);
    }
}

/// Takes a CPU out of the masks and indexes that others use to push here and to pull from here:
/// `rq_offline_rt`.
pub(crate) fn go_offline<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    rt_throttle::go_offline(rq, cx);
    if rq.rt.tree.is_some() {
        rt_groups::go_offline(rq, cx);
    }
    cx.shared.domain(rq.cpu()).cpupri.remove(rq.cpu());
    for slot in rq.rt.run.iter(&rq.tasks) {
        cx.shared.overload(rq.tasks[slot].cpuset, rq.cpu()).remove(rq.cpu());
    }
    rq.rt.is_in_mask = false;
}

/// Puts a CPU back into them, with the tasks that are queued on it: `rq_online_rt`.
pub(crate) fn come_online<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    rt_throttle::come_online(rq, cx);
    if rq.rt.tree.is_some() {
        rt_groups::come_online(rq, cx);
    }
    cx.shared.domain(rq.cpu()).cpupri.set(rq.cpu(), rq.top_prio());
    if rq.is_rt_overloaded(cx.config) {
        for slot in rq.rt.run.iter(&rq.tasks) {
            cx.shared.overload(rq.tasks[slot].cpuset, rq.cpu()).insert(rq.cpu());
        }
        rq.rt.is_in_mask = true;
    }
}

/// Handles the timer of periods: the CPU's, then those of groups.
pub(crate) fn period_over<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    rt_throttle::period_over(rq, cx);
    if rq.rt.tree.is_some() {
        rt_groups::periods_over(rq, cx);
    }
}

/// Makes a queued task the current one: it is no longer pushable.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.rt.pushable.remove(&mut rq.tasks, slot) {
        pushable_changed(rq, cx, slot);
    }
    arm_slice(rq, cx, slot);
}

/// Handles the switch away from a task that stays queued: it becomes pushable.
pub(crate) fn put_prev<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.tasks[slot].can_migrate(cx.shared.nr_cpus())
        && matches!(rq.tasks.seat(slot).links[PUSHABLE], PrioQueueLink::Out)
    {
        rq.rt.pushable.insert(&mut rq.tasks, slot, QueueEnd::Back);
        pushable_changed(rq, cx, slot);
    }
}

/// Updates the overload mask after a queued task began or ceased to wait. Only one of the two rules
/// depends on that.
fn pushable_changed<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    match cx.config.settings.rt_overload {
        RtOverload::Queued => {}
        RtOverload::Pushable => update_overload(rq, cx, slot),
    }
}

/// Returns whether a task that was just queued preempts the current RT task.
pub(crate) fn check_preempt<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, current: Slot, woken: Slot) -> Resched {
    if rq.tasks[woken].prio.beats(rq.tasks[current].prio) {
        return Resched::Now;
    }
    let equal = !rq.tasks[current].prio.beats(rq.tasks[woken].prio);
    if equal && cx.config.settings.rt_select_on_wake && rq.need_resched() != Resched::Now {
        return check_preempt_equal_prio(rq, cx, current, woken);
    }
    Resched::No
}

/// Lets a pinned task run before an equal that can run elsewhere. Linux v6.12 `rt.c`,
/// `check_preempt_equal_prio`.
fn check_preempt_equal_prio<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, current: Slot, woken: Slot) -> Resched {
    let nr_cpus = cx.shared.nr_cpus();
    if !rq.tasks[current].can_migrate(nr_cpus) || rt_lowest::find_lowest(rq, cx, current).is_none() {
        return Resched::No;
    }
    if rq.tasks[woken].can_migrate(nr_cpus) && rt_lowest::find_lowest(rq, cx, woken).is_some() {
        return Resched::No;
    }
    requeue(rq, woken, QueueEnd::Front);
    Resched::Now
}

/// Requeues the current task behind its equals (`sched_yield`).
pub(crate) fn requeue_current(rq: &mut Rq, slot: Slot) {
    requeue(rq, slot, QueueEnd::Back);
}

/// Returns the local queue of a task that the server of a group runs.
#[inline(always)]
pub(crate) fn local_of(rq: &Rq, slot: Slot) -> Option<LocalIx> {
    if rq.rt.local.is_none() { None } else { rq.tasks.seat(slot).local }
}

fn requeue(rq: &mut Rq, slot: Slot, end: QueueEnd) {
    if let Some(at) = local_of(rq, slot) {
        let local = rq.rt.local.as_mut().expect("invariant: it was just found");
        return local.requeue(&mut rq.tasks, at, slot, end);
    }
    rq.rt.run.remove(&mut rq.tasks, slot);
    rq.rt.run.insert(&mut rq.tasks, slot, end);
    if rq.rt.tree.is_some() {
        rt_groups::requeue(rq, slot, end);
    }
}

/// Charges exec time to the RR slice, if slices end exactly.
pub(crate) fn charge(task: &mut Task, enforce: Grain, delta: Duration) {
    match enforce {
        Grain::Exact if rt::is_rr(task.attr) => task.rt.slice_left = task.rt.slice_left.saturating_sub(delta),
        Grain::Exact | Grain::Tick => {}
    }
}

/// Charges a tick to the RR slice, regardless of the exec time since the last tick, and ends an
/// exhausted slice. Charging exec time would make every slice a tick longer, because the switch
/// takes a part of the first tick. Linux v6.12 `rt.c`, `task_tick_rt`.
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    match cx.config.settings.enforce_rt {
        Grain::Tick if rt::is_rr(rq.tasks[slot].attr) => {
            let left = &mut rq.tasks[slot].rt.slice_left;
            *left = left.saturating_sub(cx.config.settings.tick_period());
        }
        Grain::Tick | Grain::Exact => {}
    }
    check_slice(rq, cx, slot)
}

/// Ends an exhausted RR slice.
pub(crate) fn check_slice<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    let task = &mut rq.tasks[slot];
    if !rt::is_rr(task.attr) || !task.rt.slice_left.is_zero() {
        return Resched::No;
    }
    task.rt.slice_left = cx.config.settings.rr_timeslice;
    if rt_groups::is_alone(rq, slot) {
        arm_slice(rq, cx, slot);
        return Resched::No;
    }
    requeue_current(rq, slot);
    Resched::Now
}

pub(crate) fn arm_slice<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let task = &rq.tasks[slot];
    match cx.config.settings.enforce_rt {
        Grain::Exact if rt::is_rr(task.attr) => {
            let at = cx.now.wall + task.rt.slice_left;
            cx.io.op(Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::Slice, at });
        }
        Grain::Exact | Grain::Tick => {}
    }
}
