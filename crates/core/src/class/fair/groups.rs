//! Groups: the tree of groups that all CPUs share ([`GroupTable`]), and its part on one CPU.
//!
//! A queue for every group on every CPU, as the kernel has it, costs memory for groups x CPUs. Here
//! a group is a row in the table: parent, weight, published load. On a CPU it has a [`Queue`] only
//! while one of its entities is queued there: the queue is created on the way up of the first
//! enqueue, and put to rest after the last dequeue. A bounded number of resting queues keep the lag
//! and the `min_vruntime` of their group's entity until it is queued again
//! ([`resting`](crate::queue::fair::resting)). The queue that has rested longest is freed first. So
//! memory grows with queued tasks x depth.
//!
//! The weight of a group's entity on a CPU is the group's weight times this CPU's part of the
//! group's load. It is computed in O(depth) when something on the way changes; nothing walks over
//! CPUs or groups.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `calc_group_shares`, `update_tg_load_avg` (the 1/64
//! rule; differs: since 6.7 at most once per ms). differs: in the kernel the group queues of all
//! CPUs exist from the start; here a queue that is freed leaves its part to decay, and one that is
//! made anew begins without.

use crate::class::fair::{bandwidth, delay};
use crate::entity::fair::{EntityRef, QueueIx, VruntimeFrame};
use crate::entity::weight::{FINE, LoadWeight, Weight, mul_div};
use crate::queue::fair::averages::period_of;
use crate::queue::fair::queue::{GroupPart, Queue};
use crate::queue::fair::rq::FairRq;
use crate::rq::cx::Cx;
use crate::rq::run_queue::Rq;
use crate::shared::groups::{GroupTable, IDLE_GROUP};
use crate::words::group::MAX_DEPTH;
use core::ops::Range;
use lock_api::RawMutex;
use zerolag_model::settings::{CgroupMode, CgroupShares};
use zerolag_model::{CpuId, GroupId, Instant, Nice};

/// Returns the queue of a group on this CPU; creates missing ones on the way.
///
/// O(1) for a task that returns to the queue it left, else O(depth).
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
    // Bounded by the depth, which is limited when groups are created.
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
        // An earlier group of this id, which was removed while it still repaid its lag.
        retire(rq, cx, ix);
    }
    let cpu = rq.cpu().0;
    let fair = &mut rq.fair;
    let listed = fair.by_group.get(group);
    fair.lives += 1;
    let mut queue = Queue::new(group, generation, Some(parent), VruntimeFrame { cpu, life: fair.lives });
    let weight = Weight::clamped(cx.shared.groups.weight(group) & !IDLE_GROUP, Weight::MAX_SHARES);
    queue.entity.load = LoadWeight::of_group(weight);
    queue.entity.slice = fair.tune.base_slice;
    match listed {
        Some(ix) => {
            // The resting queue belonged to an earlier group of this id.
            let old = &fair.queues[ix.index()];
            assert!(!old.entity.is_queued() && old.nr_queued == 0, "a removed group has no tasks");
            queue.rests = old.rests;
            fair.queues[ix.index()] = queue;
            ix
        }
        None => {
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
            fair.by_group.insert(group, ix);
            ix
        }
    }
}

/// Ends the delayed dequeues of a removed group and of removed groups in it. Nothing else of it can
/// still be queued.
///
/// O(queues here), and only for a group that gets the id of a recently removed one. Linux v6.12
/// `fair.c`, `unregister_fair_sched_group`, does this at removal; here no CPU's lock is held then.
fn retire<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, ix: QueueIx) {
    // Bounded by the depth: a queue with entities has a child that holds the deepest one.
    while rq.fair.queues[ix.index()].nr_queued > 0 {
        let inside = |queue: &Queue| queue.entity.is_queued() && queue.entity.queue == ix && queue.generation != 0;
        let listed = rq.fair.by_group.iter().filter(|(_, child)| inside(&rq.fair.queues[child.index()]));
        let (_, child) =
            listed.min_by_key(|(group, _)| *group).expect("invariant: a removed group holds only removed groups");
        retire(rq, cx, child);
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
        self.by_group.get(group)
    }

    /// Ends the rest of a queue, because its group's entity is queued again.
    pub(crate) fn wake_queue(&mut self, ix: QueueIx) {
        self.resting.end(&mut self.queues[ix.index()]);
    }
}

/// Puts the queue of a group that has left to rest. If too many rest, the one that has rested
/// longest is freed. A queue with throttled queues or parked tasks below it does not rest.
pub(crate) fn rest_queue<L: RawMutex>(rq: &mut Rq, table: &GroupTable<L>, ix: QueueIx) {
    assert!(rq.queue(ix).nr_queued == 0, "a resting queue is empty");
    if rq.queue(ix).bandwidth.is_needed() || rq.queue(ix).tally.parked > 0 {
        return;
    }
    if rq.fair.resting.is_full() {
        let FairRq { resting, queues, .. } = &mut rq.fair;
        let oldest = resting.end_oldest(queues).expect("invariant: more than no queue rests");
        unattach(rq, oldest);
        let cpu = rq.cpu();
        let fair = &mut rq.fair;
        let Queue { group, generation, bandwidth, .. } = &fair.queues[oldest.index()];
        let group = *group;
        if *generation == table.generation(group) {
            bandwidth::settle(table, group, cpu, bandwidth);
        }
        fair.by_group.remove(group);
        fair.queues[oldest.index()].generation = 0;
        fair.free.push(oldest);
    }
    let FairRq { resting, queues, .. } = &mut rq.fair;
    resting.begin(queues, ix);
}

/// Removes the part that a group's entity still counts in the averages above. Its queue is freed.
fn unattach(rq: &mut Rq, ix: QueueIx) {
    let Some(parent) = rq.queue(ix).parent else { return };
    rq.age_queue(parent);
    rq.age_entity(parent, EntityRef::Group(ix));
    rq.unattach(parent, EntityRef::Group(ix));
}

/// Publishes the part of a queue whose last task left while it was throttled: counts stop at a
/// throttled queue, so nothing has published that. What stays behind would count for the next
/// group of this id.
///
/// Linux v6.12 `fair.c`, `dequeue_entity` publishes it at once (`update_tg_load_avg`); v3.2
/// `tg_unthrottle_up` when the quota comes, as here.
pub(crate) fn publish_load<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, q: QueueIx) {
    rq.age_queue(q);
    let now = rq.averages_clock();
    publish_part(rq.queue_mut(q), cx, now);
}

/// Publishes the part of a group's queue and returns the weight that its entity should have on this
/// CPU, in 1024ths with one queue for all tasks. The averages of the queue are up to date.
///
/// A queue that has slept counts with the weight that is queued, as if it had always run; the
/// others with their averages. So the parts of a group add up to more than its weight when its
/// tasks wake, and to its weight after some tens of ms.
pub(crate) fn entity_weight<L: RawMutex>(queue: &mut Queue, cx: &mut Cx<'_, L>, now: Instant) -> LoadWeight {
    let (is_averaged, period) = publish_part(queue, cx, now);
    let current = queue.entity.load;
    let weight = cx.view().group_weight(queue.group);
    queue.entity.is_idle = weight & IDLE_GROUP != 0;
    if !is_averaged && let Some(weight) = weight_of_round(queue, cx) {
        return weight;
    }
    if queue.load.fine() == 0 {
        return current;
    }
    let shares = Weight::clamped(weight & !IDLE_GROUP, Weight::MAX_SHARES);
    let is_flat = cx.config.is_flat();
    let unit = if is_flat { FINE } else { 1 };
    let load_weight = |value| if is_flat { LoadWeight::exact(value) } else { LoadWeight::whole(value) };
    if cx.config.settings.cgroup_mode == CgroupMode::Up {
        return load_weight(u64::from(shares.value()) * unit);
    }
    let (times, most) = times_and_most(queue, cx, period);
    let all = u64::from(shares.value()) * unit * times;
    let most = most.map_or(all, |most| u64::from(most) * unit).min(u64::from(u32::MAX) * unit);
    let others = cx.view().group_load(queue.group, period).saturating_sub(queue.published.load.into());
    if others == 0 {
        return load_weight(all.min(most)); // All load of the group is here.
    }
    let queued = queue.load.whole();
    let load = if is_averaged { queued.max(queue.average.load) } else { queued };
    load_weight(mul_div(all, load, others + load).min(most))
}

/// Publishes the load of a queue for the rounds that divide its group's weight, and returns the
/// weight that the last of them has given it (`cgroup_shares`). `None` without the setting, or
/// before the first round.
fn weight_of_round<L: RawMutex>(queue: &Queue, cx: &mut Cx<'_, L>) -> Option<LoadWeight> {
    let shares = cx.shared.groups.shares(queue.group);
    if !shares.are_kept() {
        return None;
    }
    let cpu = CpuId(queue.frame.cpu);
    shares.set_load(cpu, counted_load(queue, cx.config.settings.cgroup_shares));
    let weight = cx.io.observer.u64(|| u64::from(shares.weight(cpu))) as u32;
    (weight > 0).then(|| LoadWeight::of_group(Weight::clamped(u64::from(weight), Weight::MAX_SHARES)))
}

/// Returns the load of a queue as rounds count it.
fn counted_load(queue: &Queue, when: CgroupShares) -> u64 {
    let is_out = when == CgroupShares::AtBalanceUnthrottled && queue.bandwidth.is_detached();
    if is_out { 0 } else { queue.load.whole() }
}

/// Publishes that a queue has just been throttled, or no longer is.
pub(crate) fn follow_throttling<L: RawMutex>(queue: &Queue, cx: &mut Cx<'_, L>) {
    let shares = cx.shared.groups.shares(queue.group);
    if shares.are_kept() {
        shares.set_load(CpuId(queue.frame.cpu), counted_load(queue, cx.config.settings.cgroup_shares));
    }
}

/// Divides the weights of all groups over the CPUs of a domain, before a round of balancing by one
/// of them looks at their loads. O(groups x CPUs of the domain) with the setting.
pub(crate) fn divide_shares<L: RawMutex>(cx: &mut Cx<'_, L>, by: CpuId, cpus: &Range<u32>) {
    if !cx.config.settings.cgroup_shares.is_at_balance() {
        return;
    }
    let nr_cpus = cx.view().nr_in_domain(by, cpus.clone());
    let machine = 0..cx.config.topology.nr_cpus() as u32;
    let is_whole = nr_cpus == cx.view().nr_in_domain(by, machine);
    let (table, span, online) = (&cx.shared.groups, &cx.shared.domain(by).span, &cx.shared.online);
    for group in table.ids().filter(|group| *group != GroupId::ROOT) {
        let shares = table.shares(group);
        if shares.are_kept() {
            let is_in = |cpu: CpuId| span.contains(cpu) && online.contains(cpu);
            shares.update(table.weight(group) & !IDLE_GROUP, cpus.clone(), is_in, is_whole);
            cx.io.costs.cpus_scanned += nr_cpus;
        }
    }
}

/// Publishes the part of a queue, whose averages are up to date. Returns whether it counts with
/// them, and their period.
#[inline(always)]
fn publish_part<L: RawMutex>(queue: &mut Queue, cx: &mut Cx<'_, L>, now: Instant) -> (bool, u32) {
    let is_averaged = cx.config.settings.tracks_load() && cx.config.topology.nr_cpus() > 1;
    // Period 0 means that something is queued.
    let period = period_of(now).max(1);
    if is_averaged {
        publish_average(queue, cx, period);
    } else {
        publish_queued(queue, cx);
    }
    (is_averaged, period)
}

/// Publishes the averages of a queue.
fn publish_average<L: RawMutex>(queue: &mut Queue, cx: &mut Cx<'_, L>, period: u32) {
    let table = &cx.shared.groups;
    let counts_tasks = matches!(cx.config.settings.cgroup_mode, CgroupMode::Concur | CgroupMode::Tasks);
    let runnable = if counts_tasks { queue.average.runnable } else { 0 };
    let here = GroupPart::new(queue.average.load, runnable);
    if queue.load.fine() == 0 {
        if queue.sleeps_since == 0 {
            publish(queue, table, GroupPart::default());
            table.add_sleeping(queue.group, here, period);
            (queue.published, queue.sleeps_since) = (here, period);
        }
        return;
    }
    if queue.sleeps_since != 0 {
        table.take_sleeping(queue.group, queue.published, queue.sleeps_since, period);
        (queue.published, queue.sleeps_since) = (GroupPart::default(), 0);
    }
    if here.is_far_from(queue.published) {
        publish(queue, table, here);
    }
}

/// Publishes the weights that are queued: before 3.8, and on one CPU, where no other reads them.
fn publish_queued<L: RawMutex>(queue: &mut Queue, cx: &mut Cx<'_, L>) {
    let here = GroupPart::new(queue.load.whole(), u64::from(queue.tally.runnable) << 10);
    if here.is_far_from(queue.published) {
        publish(queue, &cx.shared.groups, here);
    }
}

fn publish<L: RawMutex>(queue: &mut Queue, table: &GroupTable<L>, here: GroupPart) {
    let before = core::mem::replace(&mut queue.published, here);
    table.add_load(queue.group, i64::from(here.load) - i64::from(before.load));
    if here.runnable != before.runnable {
        table.add_runnable(queue.group, i64::from(here.runnable) - i64::from(before.runnable));
    }
}

/// How many times a group's weight its parts on all CPUs add up to, and the most that one of them
/// has if that is another number: Linux v7.3 `fair.c`, `calc_smp_shares`,
/// `calc_concur_shares`, `calc_max_shares`, `calc_tasks_shares`. differs: all CPUs of the machine
/// count, not those of the group's cpuset.
#[inline(always)]
fn times_and_most<L: RawMutex>(queue: &Queue, cx: &mut Cx<'_, L>, period: u32) -> (u64, Option<u32>) {
    let nr_cpus = cx.config.topology.nr_cpus() as u64;
    match cx.config.settings.cgroup_mode {
        CgroupMode::Smp | CgroupMode::Up => (1, None),
        CgroupMode::Concur => (nr_runnable(queue, cx, period).min(nr_cpus), None),
        CgroupMode::Max => (nr_cpus, Some(Nice::MIN.weight())),
        CgroupMode::Tasks => (nr_runnable(queue, cx, period), None),
    }
}

/// Returns the number of a group's runnable tasks on all CPUs, rounded down, but at least one. The
/// number is an average, and published where it has changed by 1 in 64, so it is mostly a little
/// too small: two tasks that always run count as one.
fn nr_runnable<L: RawMutex>(queue: &Queue, cx: &mut Cx<'_, L>, period: u32) -> u64 {
    (cx.view().group_runnable(queue.group, period) >> 10).max(1)
}
