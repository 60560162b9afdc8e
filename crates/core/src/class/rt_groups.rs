//! Real-time tasks in groups (`rt_group_sched`, CONFIG_RT_GROUP_SCHED): nested queues, each with a
//! runtime per period of its own.
//!
//! ```text
//!            [1] a real-time task is queued in the group: the period begins
//!   Idle ------------------------------------------------------> Counting
//!   Idle <---- [4] a period ends, nothing is queued or owed ------- |   ^
//!                          [2] exec time exceeds the runtime        v   |  [3] a period ends: the
//!                                                              Exceeded        used time is
//!                                                                              reduced by the
//!                                                                              runtime
//! ```
//!
//! The rules are those of [`rt_throttle`](super::rt_throttle), once per group and CPU: a task is
//! charged to its group and to every one above, from the task upwards. What is different:
//!
//! * A group that has exceeded its runtime is taken off the list of the group above; its tasks stay
//!   in it. The rest of the CPU's real-time tasks run on.
//! * A task with an inherited priority lets a group run on although it has exceeded its runtime,
//!   with all of its tasks: it holds a lock for which another waits.
//! * A group without runtime has real-time tasks only by inheritance. It is not throttled: no
//!   period could repay the time.
//! * All tasks of the CPU, also those of groups that have exceeded theirs, are pushable. A CPU
//!   pulls one to which its own part of the group gives time.
//!
//! Without the setting the cost is one comparison per enqueue, charge and requeue.
//!
//! Sources: Linux v5.10 `kernel/sched/rt.c`, `update_curr_rt`,
//! `sched_rt_runtime_exceeded`, `do_sched_rt_period_timer`, `inc_rt_group`, `sched_rt_rq_enqueue`,
//! `sched_rt_rq_dequeue`, `__disable_runtime`; commit 9b58e976b3b3 (6.7: exceeding starts the
//! timer).
//! differs: a task that wakes in a group that has exceeded its runtime asks for no reschedule, and
//! a CPU whose most urgent pushable task is one ends its push there: the kernel asks itself to
//! reschedule in both cases, and picks the same task again.

use crate::queue::rt::prio_queue::QueueEnd;
use crate::queue::rt::tree::{Entrant, RtQueueIx, RtTree, RtUse};
use crate::rq::cx::Cx;
use crate::rq::run_queue::{Phase, Rq};
use crate::shared::rt_groups::RtVerdict;
use crate::words::ids::Slot;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::{CpuId, Duration, GroupId, Instant, TraceEvent};

fn tree(rq: &mut Rq) -> &mut RtTree {
    rq.rt.tree.as_mut().expect("invariant: groups are on")
}

/// Returns the queue of a group here; makes it and those above it if there are none.
fn queue_of<L: RawMutex>(rq: &mut Rq, cx: &Cx<'_, L>, group: GroupId) -> RtQueueIx {
    let groups = &cx.shared.groups;
    let above = |at: &GroupId| (*at != GroupId::ROOT).then(|| groups.parent(*at)).filter(|at| *at != GroupId::ROOT);
    let path: Vec<GroupId> = core::iter::successors(Some(group).filter(|at| *at != GroupId::ROOT), above).collect();
    let mut parent = RtQueueIx::ROOT;
    for group in path.into_iter().rev() {
        parent = tree(rq).find_or_make(group, groups.generation(group), parent);
    }
    parent
}

/// Returns the queue in which a queued task is.
fn home(rq: &Rq, slot: Slot) -> RtQueueIx {
    let tree = rq.rt.tree.as_ref().expect("invariant: groups are on");
    match rq.tasks[slot].group {
        GroupId::ROOT => RtQueueIx::ROOT,
        group => tree.find(group).expect("invariant: a queued task has a queue"),
    }
}

/// Enqueues a task in the queue of its group.
#[cold]
pub(crate) fn enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, end: QueueEnd) {
    let body = &rq.tasks[slot];
    let entrant = Entrant { slot, prio: body.prio, is_boosted: body.prio != body.attr.prio() };
    let group = body.group;
    let at = queue_of(rq, cx, group);
    tree(rq).enqueue(at, entrant, end);
    follow(rq, cx, at);
    let path: Vec<RtQueueIx> = tree(rq).path(at).collect();
    for at in path {
        begin(rq, cx, at);
    }
}

/// Dequeues a task.
#[cold]
pub(crate) fn dequeue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let (at, prio) = (home(rq, slot), rq.tasks[slot].prio);
    tree(rq).dequeue(at, prio, slot);
    follow(rq, cx, at);
}

/// Moves a queued task, and the groups that it is in, to an end of their lists.
#[cold]
pub(crate) fn requeue(rq: &mut Rq, slot: Slot, end: QueueEnd) {
    let (at, prio) = (home(rq, slot), rq.tasks[slot].prio);
    tree(rq).requeue(at, prio, slot, end);
}

/// Returns whether a task, and every group that it is in, is alone on its list.
pub(crate) fn is_alone(rq: &Rq, slot: Slot) -> bool {
    match &rq.rt.tree {
        // The same links, also on a local queue.
        None => rq.rt.run.is_alone(&rq.tasks, slot),
        Some(tree) => tree.is_alone(home(rq, slot), rq.tasks[slot].prio),
    }
}

/// Follows a change in a queue: counts of the CPU, and which groups are kept from running.
fn follow<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: RtQueueIx) {
    let before = rq.rt.nr_stopped;
    rq.rt.count_stopped();
    if before != rq.rt.nr_stopped {
        rq.note(Unpublished::ALL);
    }
    let path: Vec<RtQueueIx> = tree(rq).path(from).collect();
    for at in path {
        let queue = tree(rq).queue_mut(at);
        let (group, throttled) = (queue.group, queue.is_stopped());
        if core::mem::replace(&mut queue.used.is_shown, throttled) != throttled {
            cx.io.event(cx.now, rq.cpu(), || TraceEvent::RtGroupThrottle { group, throttled });
        }
    }
}

/// Returns the other CPUs of the root domain, if CPUs lend runtime.
fn lenders<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Vec<CpuId> {
    let share = cx.config.settings.rt_runtime_share;
    if share { others(rq, cx) } else { Vec::new() }
}

fn others<L: RawMutex>(rq: &Rq, cx: &Cx<'_, L>) -> Vec<CpuId> {
    cx.shared.domain(rq.cpu()).span.iter().filter(|cpu| *cpu != rq.cpu()).collect()
}

/// Begins to count in a queue that has got a task, if it does not yet (`start_rt_bandwidth`).
fn begin<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: RtQueueIx) {
    let queue = tree(rq).queue(at);
    let (group, now) = (queue.group, cx.now.wall);
    if queue.used.period_ends.is_some() {
        return;
    }
    let shared = cx.shared;
    let nanos = cx.io.observer.u64(|| match shared.rt_groups.is_limited() {
        true => shared.rt_groups.row(group).begin(now).map_or(u64::MAX, Instant::as_nanos),
        false => u64::MAX,
    });
    cx.io.costs.inner_locks += 1;
    if nanos != u64::MAX {
        tree(rq).queue_mut(at).used.period_ends = Some(Instant::from_nanos(nanos)); // [1]
        arm(rq, cx);
    }
}

/// Sets the timer to the next end of a period, the CPU's or a group's.
fn arm<L: RawMutex>(rq: &Rq, cx: &mut Cx<'_, L>) {
    if let Some(at) = rq.rt.next_period_end() {
        cx.io.op(Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::RtPeriod, at });
    }
}

/// Charges exec time of a real-time task to the groups that it is in, from the task upwards.
#[cold]
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) {
    let from = home(rq, slot);
    let path: Vec<RtQueueIx> = tree(rq).path(from).collect();
    if path.is_empty() {
        return;
    }
    let lenders = lenders(rq, cx);
    for at in path {
        charge_group(rq, cx, at, delta, &lenders);
    }
}

fn charge_group<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: RtQueueIx, delta: Duration, lenders: &[CpuId]) {
    let (shared, cpu) = (cx.shared, rq.cpu());
    let queue = tree(rq).queue_mut(at);
    let (group, used) = (queue.group, queue.used);
    let time = used.time + delta;
    let judge = || match shared.rt_groups.is_limited() {
        true => shared.rt_groups.row(group).charge(cpu, time, used.has_exceeded, lenders) as u64,
        false => RtVerdict::Unlimited as u64,
    };
    let verdict = RtVerdict::ALL[cx.io.observer.u64(judge) as usize];
    cx.io.costs.inner_locks += 1;
    queue.used.time = match verdict {
        RtVerdict::Unlimited => used.time,
        RtVerdict::Within | RtVerdict::Exceeded => time,
        RtVerdict::Forgotten => Duration::ZERO,
    };
    if verdict != RtVerdict::Exceeded {
        return;
    }
    if !used.has_exceeded {
        tree(rq).set_exceeded(at, true); // [2]
        follow(rq, cx, at);
        let is_timed = tree(rq).queue(at).used.period_ends.is_some();
        if !is_timed && !cx.config.settings.rt_period_timer_lost {
            begin(rq, cx, at);
        }
    }
    if tree(rq).queue(at).is_stopped() {
        rq.resched(cx, Resched::Now);
    }
}

/// Ends the periods that are due. The current task has been charged, and the CPU's own period has
/// been ended.
#[cold]
pub(crate) fn periods_over<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let now = cx.now.wall;
    for at in tree(rq).groups() {
        if tree(rq).queue(at).used.period_ends.is_some_and(|ends| ends <= now) {
            period_over(rq, cx, at);
        }
    }
    arm(rq, cx);
}

fn period_over<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: RtQueueIx) {
    let (shared, cpu, now) = (cx.shared, rq.cpu(), cx.now.wall);
    let lenders = lenders(rq, cx);
    let queue = tree(rq).queue(at);
    let (group, used, nr_running) = (queue.group, queue.used, queue.nr_running());
    let Some(ends) = used.period_ends else { return };
    if !tree(rq).queue(at).is_of(shared.groups.generation(group)) {
        tree(rq).queue_mut(at).used = RtUse::default(); // The group has been removed.
        return;
    }
    cx.io.costs.inner_locks += 1;
    if used.time.is_zero() && nr_running == 0 {
        tree(rq).queue_mut(at).used.period_ends = None; // [4]
        cx.io.observer.u64(|| {
            shared.rt_groups.row(group).end(cpu);
            0
        });
        return;
    }
    let mut passed = (None, 0, now);
    let observer = &mut cx.io.observer;
    let nanos = observer.u64(|| {
        let mut row = shared.rt_groups.row(group);
        passed = row.pass(cpu, (ends, now), (used.time, used.has_exceeded), &lenders);
        passed.0.map_or(u64::MAX, Duration::as_nanos)
    });
    let periods = observer.u64(|| passed.1);
    let next = Instant::from_nanos(observer.u64(|| passed.2.as_nanos()));
    let runtime = Duration::from_nanos(nanos);
    let left = if nanos == u64::MAX { Duration::ZERO } else { used.time.saturating_sub(runtime * periods) };
    let queue = tree(rq).queue_mut(at);
    queue.used.time = left;
    queue.used.period_ends = Some(next);
    if used.has_exceeded && left < runtime {
        go_on(rq, cx, at); // [3]
    }
}

/// Lets a group run again on this CPU.
fn go_on<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: RtQueueIx) {
    tree(rq).set_exceeded(at, false);
    follow(rq, cx, at);
    let waits = rq.rt.pick().is_some_and(|slot| rq.tasks[slot].prio.beats(rq.current_prio()));
    if waits && rq.phase() == Phase::Running {
        rq.resched(cx, Resched::Now);
    }
}

/// Lets every group run on here, because the CPU goes offline or leaves its root domain, and
/// settles loans with the other CPUs there: `__disable_runtime`.
#[cold]
pub(crate) fn go_offline<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (cpu, shared, others) = (rq.cpu(), cx.shared, others(rq, cx));
    for group in shared.groups.ids().filter(|group| *group != GroupId::ROOT) {
        shared.rt_groups.row(group).leave(cpu, &others);
    }
    for at in tree(rq).groups() {
        if tree(rq).queue(at).used.has_exceeded {
            go_on(rq, cx, at);
        }
    }
}

/// Begins anew when the CPU is back, or in another root domain: `__enable_runtime`.
#[cold]
pub(crate) fn come_online<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let (cpu, shared) = (rq.cpu(), cx.shared);
    for group in shared.groups.ids().filter(|group| *group != GroupId::ROOT) {
        shared.rt_groups.row(group).join(cpu);
    }
    for at in tree(rq).groups() {
        tree(rq).queue_mut(at).used.time = Duration::ZERO;
    }
}
