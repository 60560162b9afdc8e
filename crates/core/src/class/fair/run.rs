//! Running: who is picked, who is current on each level, what running costs and when a turn is over.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `pick_task_fair`, `set_next_task_fair`, `put_prev_task_fair`,
//! `update_curr`, `task_tick_fair`, `hrtick_start_fair`.

use crate::class::fair::delay::finish;
use crate::class::fair::enqueue::reweigh;
use crate::class::fair::{bandwidth, boost, groups, load, throttle};
use crate::entity::fair::{EntityRef, FairEntity, QueueIx};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::{FairRq, Tunables};
use crate::queue::fair::{cfs, eevdf, slice};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::words::group::MAX_DEPTH;
use crate::words::ids::Slot;
use crate::words::op::{Op, RqTimer};
use crate::words::resched::Resched;
use crate::words::unpublished::Unpublished;
use lock_api::RawMutex;
use zerolag_model::settings::{FairAlgorithm, Grain};
use zerolag_model::{Duration, Instant, Settings};

/// Returns the task that should run. The current one competes. Delayed ones that come first have paid and leave.
///
/// Work: O(depth x log n) for each delayed one that leaves, and once more.
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
            FairAlgorithm::Eevdf => eevdf::pick(rq, queue),
            FairAlgorithm::Cfs => cfs::pick(rq, q),
        });
        if rq.entity(entity).is_delayed() {
            finish(rq, cx, entity);
            q = QueueIx::ROOT;
            continue;
        }
        match entity {
            EntityRef::Task(slot) => {
                if rq.current == Some(slot) {
                    rearm(rq, cx);
                }
                return Some(slot);
            }
            EntityRef::Group(owned) => q = owned,
        }
    }
}

/// Makes a task current, and every group that it is in; what was current instead waits again.
///
/// Entities that were current before and still are have not been picked anew: their slice and their protection go on.
pub(crate) fn set_next<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot) {
    let leaf = rq.tasks[slot].fair.queue;
    if throttle::is_barred(rq, slot) {
        // It runs, and was moved into a group that may not: it waits there, and the CPU goes on to another.
        put_down(rq, QueueIx::ROOT);
        rq.resched(cx, Resched::Now);
        return;
    }
    match rq.queue(leaf).current {
        // As nearly always. A queue that has a current entity is current itself, and so are those above.
        Some(EntityRef::Task(going)) if going != slot => take_turns(rq, leaf, going, slot),
        Some(_) | None => {
            make_groups_current(rq, leaf);
            make_current(rq, leaf, EntityRef::Task(slot));
        }
    }
    rq.fair.recency.touch(slot);
    rearm(rq, cx);
}

/// Returns whether a queue is the root's or that of the current group of its parent; all above are then, too.
pub(crate) fn is_current(rq: &Rq, q: QueueIx) -> bool {
    rq.queue(q).parent.is_none_or(|parent| rq.queue(parent).current == Some(EntityRef::Group(q)))
}

/// Makes the groups of a queue current from the top down, those that are not.
fn make_groups_current(rq: &mut Rq, leaf: QueueIx) {
    let mut path = [leaf; MAX_DEPTH];
    let mut depth = 0;
    let mut q = leaf;
    while !is_current(rq, q) {
        path[depth] = q;
        depth += 1;
        q = rq.queue(q).entity.queue;
    }
    for q in path[..depth].iter().rev().copied() {
        make_current(rq, rq.queue(q).entity.queue, EntityRef::Group(q));
    }
}

/// Makes an entity the current one of its queue, unless it is already; what was current with all below waits again.
pub(crate) fn make_current(rq: &mut Rq, q: QueueIx, entity: EntityRef) {
    if rq.queue(q).current == Some(entity) {
        return;
    }
    put_down(rq, q);
    let mut picked = rq.aged(q, entity);
    picked.unwait();
    begin_turn(picked.entity, entity, picked.queue, picked.tune);
}

/// One task goes on after another of its queue: as if that one were put down and it picked up, with what both need looked up once.
#[inline(always)]
fn take_turns(rq: &mut Rq, q: QueueIx, going: Slot, coming: Slot) {
    let now = rq.averages_clock();
    let FairRq { queues, timeline, tune, .. } = &mut rq.fair;
    let queue = &mut queues[q.index()];
    let [left, picked] = rq.tasks.two(going, coming).map(|task| &mut task.fair);
    if tune.tracks_load && queue.age_with(left, picked, now) && q == QueueIx::ROOT {
        rq.unpublished.add(Unpublished::AVERAGES);
    }
    queue.take_from_sums(picked.vruntime, picked.load.value());
    queue.add_to_sums(left.vruntime, left.load.value());
    debug_assert!(left.node.is_none(), "the current entity does not wait");
    let node = picked.node.take().expect("invariant: whoever is not current waits");
    let (key, waits) = (left.key(tune.algorithm), EntityRef::Task(going));
    if left.standing == picked.standing {
        timeline.replace(queue.waiting_as(left.standing), node, key, left.vruntime, waits);
        left.node = Some(node);
    } else {
        timeline.remove(queue.waiting_as(picked.standing), node);
        left.node = Some(timeline.insert(queue.waiting_as(left.standing), key, left.vruntime, waits));
    }
    begin_turn(picked, EntityRef::Task(coming), queue, tune);
}

/// An entity that has been taken off the timeline is current from now on.
#[inline(always)]
fn begin_turn(picked: &mut FairEntity, which: EntityRef, queue: &mut Queue, tune: &Tunables) {
    picked.ran = Duration::ZERO;
    slice::protect(picked, queue, tune);
    queue.current = Some(which);
    if tune.algorithm == FairAlgorithm::Cfs {
        queue.buddies.clear(which);
    }
}

/// No fair task runs any more: what was current waits, from the root down. O(depth x log n).
pub(crate) fn put_prev(rq: &mut Rq) {
    put_down(rq, QueueIx::ROOT);
}

pub(crate) fn put_down(rq: &mut Rq, from: QueueIx) {
    let mut at = Some(from);
    while let Some(q) = at {
        let Some(current) = rq.queue(q).current else { return };
        let left = rq.aged(q, current);
        left.queue.current = None;
        left.wait();
        at = match current {
            EntityRef::Task(_) => None,
            EntityRef::Group(owned) => Some(owned),
        };
    }
}

/// Charges the current task, and every group that it is in, with the time it ran. O(depth).
#[inline]
pub(crate) fn charge<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, slot: Slot, delta: Duration) {
    let (algorithm, base_slice) = (rq.fair.tune.algorithm, rq.fair.tune.base_slice);
    let task = &mut rq.tasks[slot].fair;
    if task.node.is_some() {
        return; // It was moved into a throttled group and is about to be left.
    }
    let (q, ran) = (task.queue, task.charge(algorithm, delta, base_slice));
    note_end(rq, q, EntityRef::Task(slot), ran);
    if q != QueueIx::ROOT {
        charge_groups(rq, cx, q, delta);
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
        note_end(rq, q, EntityRef::Group(owned), ran);
        owned = q;
    }
}

/// Notes that an entity's turn is over if it is, and there are others on its queue.
#[inline(always)]
fn note_end(rq: &mut Rq, q: QueueIx, entity: EntityRef, ran: Charged) {
    let is_over = match ran {
        // While it is protected nobody else need be looked at.
        Charged::GoesOn => false,
        Charged::IsUnprotected => rq.queue(q).nr_queued > 1 && eevdf::is_overdue(rq, q, entity),
        Charged::IsDone => rq.queue(q).nr_queued > 1,
    };
    if is_over {
        rq.fair.due = Resched::Now;
    }
}

/// What an entity that has run is to others of its queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charged {
    /// It works on its request, or the algorithm asks at ticks.
    GoesOn,
    /// Likewise, and it gives way to whoever is more deserving.
    IsUnprotected,
    /// Its request is served, and it has the next.
    IsDone,
}

impl FairEntity {
    /// It has run for `delta`.
    #[inline(always)]
    fn charge(&mut self, algorithm: FairAlgorithm, delta: Duration, base_slice: Duration) -> Charged {
        self.vruntime = self.vruntime.plus(self.load.to_virtual(delta));
        self.ran += delta;
        match algorithm {
            FairAlgorithm::Eevdf if eevdf::charge(self, base_slice) == Resched::Now => Charged::IsDone,
            FairAlgorithm::Eevdf if !self.is_protected() => Charged::IsUnprotected,
            FairAlgorithm::Eevdf | FairAlgorithm::Cfs => Charged::GoesOn,
        }
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
        FairAlgorithm::Cfs => charged.max(tick_cfs(rq, slot, leaf)),
    };
    if leaf != QueueIx::ROOT {
        follow_weights(rq, cx, leaf);
    }
    // Who is to leave needs no other reminder.
    if due == Resched::No && rq.need_resched != Resched::Now {
        rearm(rq, cx);
    }
    due
}

/// Returns whether the turn of the task or of a group that it is in is over.
fn tick_cfs(rq: &mut Rq, slot: Slot, leaf: QueueIx) -> Resched {
    let mut due = Resched::No;
    let mut entity = EntityRef::Task(slot);
    let mut at = Some(leaf);
    while let Some(q) = at {
        due = due.max(cfs::tick(rq, q, entity));
        entity = EntityRef::Group(q);
        at = rq.queue(q).parent;
    }
    due
}

/// Lets the weights of a queue's group, and of those above it, follow their loads.
fn follow_weights<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, from: QueueIx) {
    let mut q = from;
    while let Some(parent) = rq.queue(q).parent {
        let weight = groups::entity_weight(rq.queue_mut(q), cx);
        reweigh(rq, parent, EntityRef::Group(q), weight);
        q = parent;
    }
}

/// The current task gives the CPU to others if it may (`sched_yield`).
pub(crate) fn yield_current<L: RawMutex>(rq: &mut Rq, _cx: &mut Cx<'_, L>, slot: Slot) {
    if rq.nr_running <= 1 {
        return;
    }
    let entity = EntityRef::Task(slot);
    let q = rq.tasks[slot].fair.queue;
    match rq.fair.tune.algorithm {
        FairAlgorithm::Eevdf => eevdf::yield_current(rq, q, entity),
        FairAlgorithm::Cfs => cfs::yield_current(rq, q, entity),
    }
}

/// Arms the timer that ends the current fair task's slice (`enforce.fair = exact`; the kernel's `HRTICK`).
#[inline]
pub(crate) fn rearm<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    if rq.fair.tune.enforce == Grain::Tick {
        return;
    }
    let may_be_limited = matches!(rq.queue(QueueIx::ROOT).current, Some(EntityRef::Group(_)));
    if rq.fair.nr_running() > 1 || may_be_limited {
        arm_slice(rq, cx);
    }
}

fn arm_slice<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>) {
    let Some(at) = slice_end(rq, cx.now.wall) else { return };
    let arm = Op::ArmTimer { cpu: rq.cpu, timer: RqTimer::Slice, at };
    // A call that moves several tasks asks once.
    let earlier = cx
        .io
        .ops
        .iter_mut()
        .rev()
        .find(|op| matches!(op, Op::ArmTimer { cpu, timer: RqTimer::Slice, .. } if *cpu == rq.cpu));
    match earlier {
        Some(op) => *op = arm,
        None => cx.io.op(arm),
    }
}

/// Returns when the first of the current entities will have had its slice, or what it took of its group's quota.
pub(crate) fn slice_end(rq: &Rq, now: Instant) -> Option<Instant> {
    let mut left: Option<Duration> = None;
    let mut at = Some(QueueIx::ROOT);
    while let Some(q) = at {
        let queue = rq.queue(q);
        let current = queue.current?;
        let running = rq.entity(current);
        if queue.nr_queued > 1 {
            let here = match rq.fair.tune.algorithm {
                FairAlgorithm::Eevdf => running.load.to_real_ceil(running.virtual_deadline.since(running.vruntime)),
                // Its turn is over once it has run *longer* than its slice.
                FairAlgorithm::Cfs => {
                    let slice = cfs::slice(rq, q, current).min(rq.fair.tune.latency);
                    // If it is over and nobody is more deserving, it goes on: that is looked at again, not at once.
                    let left = slice.saturating_sub(running.ran);
                    if left.is_zero() { Settings::SHORTEST_HRTICK } else { left + Duration::from_nanos(1) }
                }
            };
            left = Some(left.map_or(here, |left| left.min(here)));
        }
        if let Some(quota) = queue.bandwidth.left() {
            left = Some(left.map_or(quota, |left| left.min(quota)));
        }
        at = match current {
            EntityRef::Task(_) => None,
            EntityRef::Group(owned) => Some(owned),
        };
    }
    left.map(|left| now + left.max(Duration::from_nanos(1)))
}
