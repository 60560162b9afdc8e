//! Groups: the tree of groups that all CPUs share ([`GroupTable`]), and the part of it that lives
//! on one CPU.
//!
//! A group is a row in the table: parent, weight, published load. On a CPU it has a [`Queue`] only
//! while something of it is queued there: made on the way up of the first enqueue, put to rest
//! after the last dequeue. A bounded number of queues at rest keep what their group's entity owes
//! or is owed (its lag, its `min_vruntime`) until it comes back; the one that has rested longest is
//! freed first. So memory goes with queued tasks x depth, not with groups x CPUs.
//!
//! The weight of a group's entity on a CPU is the group's weight times this CPU's part of the
//! group's load, computed when something on the way changes, O(depth); no walk over CPUs or groups.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `calc_group_shares`, `update_tg_load_avg` (the 1/64
//! rule). differs: load is the sum of queued weights until load is tracked; group queues of all
//! CPUs exist from the start there.

use crate::class::fair::{bandwidth, delay};
use crate::entity::fair::{EntityRef, Frame, QueueIx};
use crate::entity::weight::{LoadWeight, Weight};
use crate::queue::fair::queue::Queue;
use crate::queue::fair::rq::{FairRq, RESTING_MAX};
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::groups::{GroupTable, IDLE_GROUP};
use crate::words::group::MAX_DEPTH;
use lock_api::RawMutex;
use zerolag_model::GroupId;

/// Returns the queue of a group on this CPU; makes those on the way that do not exist.
///
/// O(1) for a task that comes back to the queue it left, else O(depth x (log live queues + their
/// number / 8)): a sorted list of ids is searched, and grows by moving small words.
pub(crate) fn queue_of<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, group: GroupId, hint: QueueIx) -> QueueIx {
    if group == GroupId::ROOT {
        return QueueIx::ROOT;
    }
    let table = &cx.shared.groups;
    if let Some(queue) = rq.fair.queues.get(hint.index())
        && queue.group == group
        && queue.generation == table.generation(group)
    {
        return hint;
    }
    let mut path = [GroupId::ROOT; MAX_DEPTH];
    let mut depth = 0;
    let mut at = group;
    // Bounded by the depth, which creation bounds.
    while at != GroupId::ROOT {
        path[depth] = at;
        depth += 1;
        at = table.parent(at);
    }
    let mut parent = QueueIx::ROOT;
    for group in path[..depth].iter().rev() {
        parent = find_or_make(rq, cx, *group, parent);
    }
    parent
}

fn find_or_make<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, group: GroupId, parent: QueueIx) -> QueueIx {
    let generation = cx.shared.groups.generation(group);
    if let Some(ix) = rq.fair.listed(group) {
        if rq.fair.queues[ix.index()].generation == generation {
            return ix;
        }
        // An earlier group of this id; it was removed while it still paid for its lag.
        retire(rq, cx, ix);
    }
    let cpu = rq.cpu().0;
    let fair = &mut rq.fair;
    let place = fair.by_group.binary_search_by_key(&group, |(id, _)| *id);
    fair.lives += 1;
    let mut queue = Queue::new(group, generation, Some(parent), Frame { cpu, life: fair.lives });
    let weight = Weight::clamped(cx.shared.groups.weight(group) & !IDLE_GROUP, Weight::MAX_SHARES);
    queue.entity.load = LoadWeight::of_group(weight);
    queue.entity.slice = fair.tune.base_slice;
    match place {
        Ok(index) => {
            // What rests here belonged to an earlier group of this id.
            let ix = fair.by_group[index].1;
            let old = &fair.queues[ix.index()];
            assert!(!old.entity.is_queued() && old.nr_queued == 0, "a removed group has no tasks");
            fair.queues[ix.index()] = queue;
            ix
        }
        Err(index) => {
            let ix = match fair.free.pop() {
                Some(ix) => {
                    fair.queues[ix.index()] = queue;
                    ix
                }
                None => {
                    let ix = QueueIx(u32::try_from(fair.queues.len()).expect("invariant: fewer than 2^32 queues"));
                    fair.queues.push(queue);
                    ix
                }
            };
            fair.by_group.insert(index, (group, ix));
            ix
        }
    }
}

/// Ends the delayed dequeues of a removed group and of removed groups in it: all that can still be
/// queued of it.
///
/// O(queues here): only for a group that gets the id of one that was removed a moment ago. Linux
/// v6.12 `fair.c`, `unregister_fair_sched_group`, does so at removal; here no CPU's lock is held
/// then.
fn retire<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, ix: QueueIx) {
    // Bounded by the depth: a queue with entities has a child that holds the deepest one.
    while rq.fair.queues[ix.index()].nr_queued > 0 {
        let inside = |queue: &Queue| queue.entity.is_queued() && queue.entity.queue == ix && queue.generation != 0;
        let mut listed = rq.fair.by_group.iter().map(|(_, child)| *child);
        let child = listed.find(|child| inside(&rq.fair.queues[child.index()]));
        retire(rq, cx, child.expect("invariant: a removed group holds only removed groups"));
    }
    if rq.fair.queues[ix.index()].entity.is_queued() {
        delay::finish(rq, cx, EntityRef::Group(ix));
    }
    unattach(rq, ix);
}

impl FairRq {
    /// Returns the queue of a group.
    pub(crate) fn live_queue<L: RawMutex>(&self, table: &GroupTable<L>, group: GroupId) -> Option<QueueIx> {
        self.listed(group).filter(|ix| self.queues[ix.index()].generation == table.generation(group))
    }

    /// Returns the queue of a group of this id, present or past.
    fn listed(&self, group: GroupId) -> Option<QueueIx> {
        self.by_group.binary_search_by_key(&group, |(id, _)| *id).ok().map(|index| self.by_group[index].1)
    }

    /// Returns whether a queue rests. O(resting).
    pub(crate) fn rests(&self, ix: QueueIx) -> bool {
        self.resting.contains(&ix)
    }

    /// A group's entity is queued again: its queue rests no more.
    pub(crate) fn wake_queue(&mut self, ix: QueueIx) {
        if let Some(place) = self.resting.iter().rposition(|resting| *resting == ix) {
            self.resting.remove(place);
        }
    }
}

/// A group's entity has left: its queue rests, and the one that rested longest is freed if they are
/// too many. One with throttled queues or parked tasks below stays.
pub(crate) fn rest_queue<L: RawMutex>(rq: &mut Rq, table: &GroupTable<L>, ix: QueueIx) {
    assert!(rq.queue(ix).nr_queued == 0, "a resting queue is empty");
    if rq.queue(ix).bandwidth.is_needed() || rq.queue(ix).tally.parked > 0 {
        return;
    }
    if rq.fair.resting.len() == RESTING_MAX {
        let oldest = rq.fair.resting.remove(0);
        unattach(rq, oldest);
        let cpu = rq.cpu();
        let fair = &mut rq.fair;
        let Queue { group, generation, bandwidth, .. } = &fair.queues[oldest.index()];
        let group = *group;
        if *generation == table.generation(group) {
            bandwidth::settle(table, group, cpu, bandwidth);
        }
        let place = fair.by_group.binary_search_by_key(&group, |(id, _)| *id);
        fair.by_group.remove(place.expect("invariant: a queue is listed until it is freed"));
        fair.queues[oldest.index()].generation = 0;
        fair.free.push(oldest);
    }
    rq.fair.resting.push(ix);
}

/// A group's queue goes: what its entity still counts above is taken out.
fn unattach(rq: &mut Rq, ix: QueueIx) {
    let Some(parent) = rq.queue(ix).parent else { return };
    rq.age_queue(parent);
    rq.age_entity(parent, EntityRef::Group(ix));
    rq.unattach(parent, EntityRef::Group(ix));
}

/// Publishes the load of a group's queue and returns the weight that its entity should have on this
/// CPU.
pub(crate) fn entity_weight<L: RawMutex>(queue: &mut Queue, cx: &mut Cx<'_, L>) -> Weight {
    let (group, load, published) = (queue.group, queue.load, queue.published_load);
    // Small changes are not worth the shared cache line; an empty queue always says so.
    if load.abs_diff(published) > published / 64 || load == 0 && published != 0 {
        cx.shared.groups.add_load(group, load.cast_signed() - published.cast_signed());
        queue.published_load = load;
    }
    let published = queue.published_load;
    let current = queue.entity.load.weight();
    let weight = cx.view().group_weight(group);
    queue.entity.is_idle = weight & IDLE_GROUP != 0;
    if load == 0 {
        return current;
    }
    let shares = Weight::clamped(weight & !IDLE_GROUP, Weight::MAX_SHARES);
    let others = cx.view().group_load(group).saturating_sub(published);
    if others == 0 {
        return shares; // All that the group has is here, as always with one CPU.
    }
    Weight::clamped(u64::from(shares.value()) * load / (others + load), shares)
}
