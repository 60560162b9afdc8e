//! Running: which task is picked, which entity is current on each level, how exec time is charged,
//! and when a turn is over.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `pick_task_fair`, `set_next_task_fair`,
//! `put_prev_task_fair`, `update_curr`, `task_tick_fair`, `hrtick_start_fair`.

use crate::class::fair::delay::finish;
use crate::class::fair::{bandwidth, boost, flat, groups, load, preferred_cache, throttle};
use crate::entity::fair::{EntityRef, FairState, QueueIx};
use crate::entity::vtime::Vlag;
use crate::queue::fair::join::{self, reweigh};
use crate::queue::fair::{cfs, eevdf, turn};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::rq::ticks::Ticks;
use crate::words::ids::Slot;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use lock_api::RawMutex;
use zerolag_model::settings::{FairAlgorithm, TimerGrain};
use zerolag_model::{ClassId, Duration, Instant};

/// Returns the task that should run. The current one competes. Delayed entities that are picked
/// have repaid their lag and leave.
///
/// Work: O(depth x log n) for each delayed entity that leaves, and once more.
pub(crate) fn pick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) -> Option<Slot> {
    rq.fair.due = Resched::No;
    let mut q = QueueIx::ROOT;
    loop {
        let queue = rq.queue(q);
        if queue.nr_queued == 0 {
            assert!(q == QueueIx::ROOT, "a group that is empty is delayed or gone");
            return None;
        }
        let entity = boost::first(rq, queue).unwrap_or_else(|| match rq.fair.tune.algorithm {
            FairAlgorithm::Eevdf => eevdf::pick(&rq.fair, &rq.tasks, queue),
            FairAlgorithm::Cfs => cfs::pick(&rq.fair, &rq.tasks, q),
        });
        if rq.entity(entity).is_delayed() {
            finish(rq, cx, entity);
            q = QueueIx::ROOT;
            continue;
        }
        match entity {
            EntityRef::Task(slot) => {
                if rq.current_slot() == Some(slot) {
                    rearm(rq, cx);
                }
                return Some(slot);
            }
            EntityRef::Group(owned) => q = owned,
        }
    }
}

/// Makes a task current, and every group that it is in. The entities that were current before wait
/// again.
///
/// Entities that were current and still are have not been picked anew: they keep their slice and
/// their protection.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let leaf = rq.tasks[slot].fair.queue;
    let now = rq.averages_clock();
    if throttle::is_barred(rq, slot) {
        // It runs, and was moved into a throttled group: it waits there, and the CPU reschedules.
        turn::put_down(&mut rq.fair, &mut rq.tasks, QueueIx::ROOT, now);
        rq.resched(cx, Resched::Now);
        return;
    }
    if rq.fair.tune.is_flat {
        rq.fair.last_group_queue = rq.group_queue(slot);
        if rq.fair.last_group_queue != QueueIx::ROOT {
            flat::reweigh(rq, slot);
        }
    }
    match rq.queue(leaf).current {
        // The usual case. A queue that has a current entity is current itself, and so are those
        // above.
        Some(EntityRef::Task(going)) if going != slot => {
            turn::take_turns(&mut rq.fair, &mut rq.tasks, leaf, going, slot, now);
        }
        Some(_) | None => {
            turn::make_groups_current(&mut rq.fair, &mut rq.tasks, leaf, now);
            turn::make_current(&mut rq.fair, &mut rq.tasks, leaf, EntityRef::Task(slot), now);
        }
    }
    rq.fair.recency.touch(slot);
    if rq.ticks() == Ticks::Needed {
        bandwidth::follow_limits(rq, cx, slot);
    }
    match rq.fair.tune.enforce {
        TimerGrain::Tick => {}
        TimerGrain::Hrtick => start_hrtick(rq, cx, slot),
        TimerGrain::Exact => rearm(rq, cx),
    }
}

/// Makes the current entities wait, from the root down, because no fair task runs any more. O(depth
/// x log n).
pub(crate) fn put_prev<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if core::mem::take(&mut rq.fair.has_hrtick) {
        cx.io.op(Op::CancelTimer { cpu: rq.cpu(), timer: RqTimer::Slice });
    }
    if rq.queue(QueueIx::ROOT).current.is_some() {
        let now = rq.averages_clock();
        turn::put_down(&mut rq.fair, &mut rq.tasks, QueueIx::ROOT, now);
    }
}

/// Charges exec time to the current task and to every group that it is in. O(depth).
#[inline(always)]
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) {
    if rq.fair.tune.gathers {
        preferred_cache::charge(rq, cx, slot, delta);
    }
    let (algorithm, base_slice) = (rq.fair.tune.algorithm, rq.fair.tune.base_slice);
    let task = &mut rq.tasks[slot].fair;
    if task.node.is_some() {
        let leaf = rq.group_queue(slot);
        return charge_moved(rq, cx, leaf, delta);
    }
    let (q, ran) = (task.queue, task.charge(algorithm, delta, base_slice));
    turn::note_end(&mut rq.fair, &mut rq.tasks, q, EntityRef::Task(slot), ran);
    if q != QueueIx::ROOT {
        charge_groups(rq, cx, q, delta);
    } else if rq.fair.tune.is_flat {
        let home = rq.group_queue(slot);
        charge_quotas(rq, cx, home, delta);
    }
}

/// Charges the groups of a task that was moved into a throttled group while it ran. It leaves the
/// CPU when it can: in kernel mode that takes a while, and the group repays it (Linux v6.12
/// `__account_cfs_rq_runtime` counts before it looks whether the queue is throttled).
///
/// differs: the task waits in its queue already, where its virtual time is its place; the kernel
/// charges that as well.
#[cold]
fn charge_moved<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, leaf: QueueIx, delta: Duration) {
    charge_quotas(rq, cx, leaf, delta);
}

/// Charges the quotas of the group of a queue and of those above it.
#[inline(never)]
fn charge_quotas<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx, delta: Duration) {
    let mut at = from;
    while let Some(parent) = rq.queue(at).parent {
        bandwidth::account(rq, cx, at, delta);
        at = parent;
    }
}

/// Charges the group of a queue and those above it.
fn charge_groups<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx, delta: Duration) {
    let (algorithm, base_slice) = (rq.fair.tune.algorithm, rq.fair.tune.base_slice);
    let mut owned = from;
    while owned != QueueIx::ROOT {
        bandwidth::account(rq, cx, owned, delta);
        let group = &mut rq.queue_mut(owned).entity;
        let (q, ran) = (group.queue, group.charge(algorithm, delta, base_slice));
        turn::note_end(&mut rq.fair, &mut rq.tasks, q, EntityRef::Group(owned), ran);
        owned = q;
    }
}

/// Returns whether the current task's turn is over. O(depth) under EEVDF, O(depth^2) under CFS.
#[inline(always)]
pub(crate) fn tick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    load::follow(rq, cx);
    let leaf = rq.tasks[slot].fair.queue;
    let charged = core::mem::take(&mut rq.fair.due);
    let due = match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => charged,
        FairAlgorithm::Cfs => charged.max(turn::tick_cfs(&mut rq.fair, &mut rq.tasks, slot, leaf)),
    };
    if rq.clock_task() >= rq.fair.references_due {
        follow_references(rq, slot, leaf);
    }
    if leaf != QueueIx::ROOT {
        follow_weights(rq, cx, leaf);
    } else if rq.fair.tune.is_flat {
        follow_flat(rq, cx, slot);
    }
    // A task that is about to leave the CPU needs no timer.
    if due == Resched::No && rq.need_resched() != Resched::Now {
        rearm(rq, cx);
    }
    due
}

/// With one queue of all tasks: updates the weights of the groups of the current task, and its own.
#[inline(never)]
fn follow_flat<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let home = rq.group_queue(slot);
    if home != QueueIx::ROOT {
        flat::follow_weights(rq, cx, home);
        if rq.tasks[slot].fair.is_queued() {
            flat::reweigh(rq, slot);
        }
    }
}

/// Lets the references of virtual time follow the current task where it has left them far behind.
///
/// Whatever joins or leaves a queue moves its reference on. A task that runs alone for months does
/// neither, and points that are 2^63 ns apart have no order. The kernel moves `min_vruntime` on in
/// every `update_curr`; a step now and then is the same to all that join later.
#[cold]
pub(crate) fn follow_references(rq: &mut Rq, slot: Slot, leaf: QueueIx) {
    rq.fair.references_due = rq.clock_task().saturating_add(REFERENCE_LOOK);
    let (mut q, mut at) = (leaf, rq.tasks[slot].fair.vruntime);
    loop {
        if at.since(rq.queue(q).zero_vruntime) > REFERENCE_REACH {
            join::advance_zero(&mut rq.fair, &mut rq.tasks, q);
        }
        let Some(parent) = rq.queue(q).parent else { return };
        (at, q) = (rq.queue(q).entity.vruntime, parent);
    }
}

/// How far behind a reference may be found: far from 2^63 ns.
const REFERENCE_REACH: Vlag = Vlag::from_nanos(1 << 60);

/// The time between two looks at the references, thirteen days: in it the lightest entity, of
/// weight 2, leaves one behind by half of [`REFERENCE_REACH`].
const REFERENCE_LOOK: Duration = Duration::from_nanos(1 << 50);

/// Updates the weights of a queue's group, and of those above it, to their loads.
///
/// A detached group with a running task (the task finishes its time in the kernel, or was moved
/// there while it ran) is on no queue. Its weight is updated when it is reattached:
/// `update_cfs_group` skips throttled hierarchies.
pub(crate) fn follow_weights<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    if rq.fair.tune.is_flat {
        return flat::follow_weights(rq, cx, from);
    }
    let now = rq.averages_clock();
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        rq.age_queue(q);
        let weight = groups::entity_weight(rq.queue_mut(q), cx, now);
        if rq.queue(q).entity.state == FairState::Runnable {
            reweigh(&mut rq.fair, &mut rq.tasks, parent, EntityRef::Group(q), weight, now);
        }
        q = parent;
    }
}

/// Lets others run before the current task if that is allowed (`sched_yield`).
pub(crate) fn yield_current<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.nr_running() <= 1 {
        return;
    }
    let entity = EntityRef::Task(slot);
    let q = rq.tasks[slot].fair.queue;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::yield_current(&mut rq.fair, &mut rq.tasks, q, entity),
        FairAlgorithm::Cfs => cfs::yield_current(&mut rq.fair, q, entity),
    }
}

/// The timer of `enforce.fair = hrtick` fires: the turn is over, whatever the groups of the task
/// have left. The switch is not left to the tick under lazy preemption (commit 5d88e424ec1b).
pub(crate) fn hrtick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) -> Resched {
    tick(rq, cx, slot).max(Resched::Now)
}

/// Sets that timer to the end of the current task's request, if other fair tasks are queued, also
/// tasks that only repay their lag (`h_nr_queued`).
///
/// Source: Linux v7.1 `kernel/sched/fair.c`, `hrtick_start_fair`, called by `set_next_task_fair`
/// for another task than before; `hrtick_update`. differs: the kernel adds the share that
/// interrupts had of the last milliseconds, and leaves the timer set while tasks of other classes
/// run, for which it has no meaning.
fn start_hrtick<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.fair.nr_queued() <= 1 {
        return;
    }
    let left = turn::task_left(&rq.fair, &rq.tasks, slot);
    if !left.is_zero() {
        rq.fair.has_hrtick = true;
        arm_slice(rq, cx, cx.now.wall + left);
    } else if rq.current_slot() == Some(slot) {
        rq.resched(cx, Resched::Now);
    }
}

/// Sets the timer that ends the current fair task's turn, after a task has been enqueued beside it
/// (`hrtick_update`).
#[inline]
pub(crate) fn rearm_after_enqueue<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    match rq.fair.tune.enforce {
        TimerGrain::Tick => {}
        TimerGrain::Hrtick => {
            let current = rq.current_slot().filter(|_| rq.current_class() == ClassId::Fair);
            if let Some(slot) = current.filter(|_| !rq.fair.has_hrtick) {
                start_hrtick(rq, cx, slot);
            }
        }
        TimerGrain::Exact => rearm(rq, cx),
    }
}

/// Arms the timer that ends the slice of the current fair task (`enforce.fair = exact`).
#[inline]
pub(crate) fn rearm<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.tune.enforce != TimerGrain::Exact {
        return;
    }
    let may_be_limited = matches!(rq.queue(QueueIx::ROOT).current, Some(EntityRef::Group(_)));
    if (rq.fair.nr_running() > 1 || may_be_limited)
        && let Some(at) = turn::slice_end(&rq.fair, &rq.tasks, cx.now.wall)
    {
        arm_slice(rq, cx, at);
    }
}

fn arm_slice<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, at: Instant) {
    let arm = Op::ArmTimer { cpu: rq.cpu(), timer: RqTimer::Slice, at };
    // A call that moves several tasks arms the timer once.
    let earlier = cx
        .io
        .ops
        .iter_mut()
        .rev()
        .find(|op| matches!(op, Op::ArmTimer { cpu, timer: RqTimer::Slice, .. } if *cpu == rq.cpu()));
    match earlier {
        Some(op) => *op = arm,
        None => cx.io.op(arm),
    }
}
