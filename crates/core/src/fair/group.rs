//! Groups: the tree of groups that all CPUs share ([`GroupTable`]), and the part of it that lives on one CPU.
//!
//! A group is a row in the table: parent, weight, published load. On a CPU it has a [`Queue`] only while something of it
//! is queued there: made on the way up of the first enqueue, put to rest after the last dequeue. A bounded number of
//! queues at rest keep what their group's entity owes or is owed (its lag, its `min_vruntime`) until it comes back; the
//! one that has rested longest is freed first. So memory goes with queued tasks x depth, not with groups x CPUs.
//!
//! The weight of a group's entity on a CPU is the group's weight times this CPU's part of the group's load, computed
//! when something on the way changes, O(depth); no walk over CPUs or groups.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `calc_group_shares`, `update_tg_load_avg` (the 1/64 rule).
//! differs: load is the sum of queued weights until load is tracked; group queues of all CPUs exist from the start there.

use super::FairRq;
use super::bandwidth;
use super::bandwidth::pool::{Pool, Refreshed};
use super::entity::EntityRef;
use super::queue::{Frame, Queue, QueueIx};
use super::weight::{LoadWeight, Weight};
use crate::rq::{Cx, Rq};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use lock_api::{Mutex, MutexGuard, RawMutex};
use zerolag_model::settings::BandwidthControl;
use zerolag_model::{CpuMax, CpuMaxError, CpuStat, Duration, GroupId, Instant, TaskId};

/// The deepest level of a group; the root is 0.
pub(crate) const MAX_DEPTH: usize = 32;
/// Queues at rest that a CPU keeps.
pub(crate) const RESTING_MAX: usize = 64;

/// Why a group cannot be made or changed so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GroupError {
    /// There is no such group.
    NoSuchGroup(GroupId),
    /// All reserved groups are in use.
    NoneFree,
    /// The group would be deeper than 32 levels.
    TooDeep(GroupId),
    /// The root group is not changed or removed.
    IsRoot,
    /// The group is idle: its weight is not changed (EINVAL).
    IsIdle(GroupId),
    /// Tasks are still in the group.
    HasTasks(GroupId),
    /// Groups are still in the group.
    HasChildren(GroupId),
    /// The task is not on the run queue that was given: look up its home again.
    NotHere(TaskId),
    /// The limit is out of range (EINVAL).
    Max(CpuMaxError),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchGroup(group) => write!(f, "there is no group {group}"),
            Self::NoneFree => f.write_str("every reserved group is in use"),
            Self::TooDeep(parent) => write!(f, "a group below group {parent} would be deeper than {MAX_DEPTH} levels"),
            Self::IsRoot => f.write_str("the root group has no weight and no limit and cannot be removed"),
            Self::IsIdle(group) => write!(f, "group {group} is idle, and its weight is that of idle groups (EINVAL)"),
            Self::HasTasks(group) => write!(f, "group {group} still has tasks"),
            Self::HasChildren(group) => write!(f, "group {group} still has groups"),
            Self::NotHere(task) => write!(f, "task {task} is not on this run queue"),
            Self::Max(wrong) => write!(f, "{wrong} (EINVAL)"),
        }
    }
}

impl core::error::Error for GroupError {}

/// What a group is to others that compete with it (`cpu.idle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idleness {
    /// It competes by its weight.
    Normal,
    /// It gives way to all that is not idle, as SCHED_IDLE tasks do; its weight is theirs.
    Idle,
}

/// The mark of an idle group beside its weight.
const IDLE_GROUP: u64 = 1 << 32;

/// One group, as all CPUs see it.
#[derive(Debug)]
struct Row<L: RawMutex> {
    /// The parent's id; meaningless for the root and while free.
    parent: AtomicU32,
    depth: AtomicU32,
    weight: AtomicU32,
    /// Whether it is an idle group (`cpu.idle`): 0 or 1.
    idle: AtomicU32,
    /// Counts the groups that had this id; odd while one has it.
    generation: AtomicU32,
    /// Sum of what its queues on all CPUs publish.
    load: AtomicU64,
    nr_tasks: AtomicU32,
    nr_children: AtomicU32,
    /// The number of its limit; 0 is none.
    limit: AtomicU32,
    /// Its own slice in ns; 0 is none.
    slice: AtomicU64,
    /// How often its pool has been filled at the end of a period.
    refreshes: AtomicU32,
    pool: Mutex<L, Pool>,
}

impl<L: RawMutex> Row<L> {
    fn new(pool: Pool) -> Self {
        Self {
            parent: AtomicU32::default(),
            depth: AtomicU32::default(),
            weight: AtomicU32::default(),
            idle: AtomicU32::default(),
            generation: AtomicU32::default(),
            load: AtomicU64::default(),
            nr_tasks: AtomicU32::default(),
            nr_children: AtomicU32::default(),
            limit: AtomicU32::default(),
            slice: AtomicU64::default(),
            refreshes: AtomicU32::default(),
            pool: Mutex::new(pool),
        }
    }
}

/// The tree of groups. Rows change under the lock; readers use atomics.
///
/// Staleness: a CPU may compute a share from a load that others have just changed; it does so again at its next tick.
#[derive(Debug)]
pub(crate) struct GroupTable<L: RawMutex> {
    rows: Vec<Row<L>>,
    /// Ids of no group; who has been free longest is next, so that a trace meets an id again as late as can be.
    free: Mutex<L, VecDeque<u32>>,
}

impl<L: RawMutex> GroupTable<L> {
    /// Returns a table with the root group and room for `groups` more, on a machine of `cpus` CPUs.
    pub(crate) fn new(groups: usize, control: BandwidthControl, cpus: usize) -> Self {
        let rows: Vec<Row<L>> = (0..=groups).map(|_| Row::new(Pool::new(control, cpus))).collect();
        rows[0].generation.store(1, Ordering::Relaxed);
        rows[0].weight.store(Weight::NICE_0.value(), Ordering::Relaxed);
        let ids = 1..=u32::try_from(groups).expect("invariant: fewer than 2^32 groups");
        Self { rows, free: Mutex::new(ids.collect()) }
    }

    fn row(&self, group: GroupId) -> Result<&Row<L>, GroupError> {
        self.rows
            .get(group.index())
            .filter(|row| row.generation.load(Ordering::Acquire) % 2 == 1)
            .ok_or(GroupError::NoSuchGroup(group))
    }

    pub(crate) fn exists(&self, group: GroupId) -> bool {
        self.row(group).is_ok()
    }

    pub(crate) fn create(&self, parent: GroupId, weight: Weight) -> Result<GroupId, GroupError> {
        let mut free = self.free.lock();
        let above = self.row(parent)?;
        let depth = above.depth.load(Ordering::Relaxed) + 1;
        if depth as usize > MAX_DEPTH {
            return Err(GroupError::TooDeep(parent));
        }
        let group = GroupId(free.pop_front().ok_or(GroupError::NoneFree)?);
        let row = &self.rows[group.index()];
        row.parent.store(parent.0, Ordering::Relaxed);
        row.depth.store(depth, Ordering::Relaxed);
        row.weight.store(weight.value(), Ordering::Relaxed);
        row.idle.store(0, Ordering::Relaxed);
        row.generation.fetch_add(1, Ordering::Release);
        above.nr_children.fetch_add(1, Ordering::Relaxed);
        Ok(group)
    }

    pub(crate) fn remove(&self, group: GroupId) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        let mut free = self.free.lock();
        let row = self.row(group)?;
        if row.nr_children.load(Ordering::Relaxed) > 0 {
            return Err(GroupError::HasChildren(group));
        }
        if row.nr_tasks.load(Ordering::Relaxed) > 0 {
            return Err(GroupError::HasTasks(group));
        }
        row.generation.fetch_add(1, Ordering::Release);
        row.limit.store(0, Ordering::Release);
        row.slice.store(0, Ordering::Release);
        row.pool.lock().clear();
        self.rows[row.parent.load(Ordering::Relaxed) as usize].nr_children.fetch_sub(1, Ordering::Relaxed);
        free.push_back(group.0);
        Ok(())
    }

    /// Linux v6.12 `kernel/sched/fair.c`, `sched_group_set_shares`.
    pub(crate) fn change_weight(&self, group: GroupId, weight: Weight) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        let row = self.row(group)?;
        if row.idle.load(Ordering::Acquire) == 1 {
            return Err(GroupError::IsIdle(group));
        }
        row.weight.store(weight.value(), Ordering::Release);
        Ok(())
    }

    /// Linux v6.12 `kernel/sched/fair.c`, `sched_group_set_idle`: a group that was idle has the weight of a new one.
    pub(crate) fn change_idleness(&self, group: GroupId, idleness: Idleness) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        let row = self.row(group)?;
        let is_idle = u32::from(idleness == Idleness::Idle);
        if row.idle.swap(is_idle, Ordering::AcqRel) != is_idle {
            row.weight.store(Weight::NICE_0.value(), Ordering::Release);
        }
        Ok(())
    }

    /// Returns a group's pool, locked: an inner lock, taken with at most one run queue held and nothing under it.
    pub(crate) fn pool(&self, group: GroupId) -> MutexGuard<'_, L, Pool> {
        self.rows[group.index()].pool.lock()
    }

    pub(crate) fn limit(&self, group: GroupId) -> u32 {
        self.rows[group.index()].limit.load(Ordering::Acquire)
    }

    /// Returns what a CPU takes of its quota at a time, if that is its own.
    pub(crate) fn slice(&self, group: GroupId) -> Option<Duration> {
        let nanos = self.rows[group.index()].slice.load(Ordering::Acquire);
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    }

    pub(crate) fn refreshes(&self, group: GroupId) -> u32 {
        self.rows[group.index()].refreshes.load(Ordering::Acquire)
    }

    pub(crate) fn set_phase(&self, group: GroupId, phase: Duration) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        self.row(group)?.pool.lock().set_phase(phase);
        Ok(())
    }

    pub(crate) fn set_max(&self, group: GroupId, now: Instant, max: CpuMax) -> Result<Refreshed, GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        let row = self.row(group)?;
        let mut pool = row.pool.lock();
        let set = pool.set(now, max);
        row.slice.store(max.slice.map_or(0, Duration::as_nanos), Ordering::Release);
        row.limit.store(pool.limit(), Ordering::Release);
        row.refreshes.fetch_add(1, Ordering::Release);
        Ok(set)
    }

    pub(crate) fn max(&self, group: GroupId) -> Result<CpuMax, GroupError> {
        Ok(self.row(group)?.pool.lock().max())
    }

    pub(crate) fn stat(&self, group: GroupId) -> Result<CpuStat, GroupError> {
        Ok(self.row(group)?.pool.lock().stat())
    }

    /// The period of a group has ended.
    pub(crate) fn refresh(&self, group: GroupId, now: Instant) -> Option<Refreshed> {
        let row = &self.rows[group.index()];
        let refreshed = row.pool.lock().refresh(now)?;
        row.refreshes.fetch_add(1, Ordering::Release);
        Some(refreshed)
    }

    /// Counts a task in a group.
    pub(crate) fn join(&self, group: GroupId) -> Result<(), GroupError> {
        self.row(group)?.nr_tasks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a task out of the count.
    pub(crate) fn quit(&self, group: GroupId) {
        let before = self.rows[group.index()].nr_tasks.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "group {group} loses a task that it does not have");
    }

    /// Returns the ids of all groups, for checks.
    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> + '_ {
        let ids = 0..u32::try_from(self.rows.len()).expect("invariant: fewer than 2^32 groups");
        ids.map(GroupId).filter(|group| self.exists(*group))
    }

    fn generation(&self, group: GroupId) -> u32 {
        self.rows[group.index()].generation.load(Ordering::Acquire)
    }

    pub(crate) fn parent(&self, group: GroupId) -> GroupId {
        GroupId(self.rows[group.index()].parent.load(Ordering::Relaxed))
    }

    /// Returns a group's weight; that of an idle group is [`Weight::IDLE`] with bit 32 set.
    pub(crate) fn weight(&self, group: GroupId) -> u64 {
        let row = &self.rows[group.index()];
        if row.idle.load(Ordering::Acquire) == 1 {
            return IDLE_GROUP | u64::from(Weight::IDLE.value());
        }
        u64::from(row.weight.load(Ordering::Acquire))
    }

    pub(crate) fn load(&self, group: GroupId) -> u64 {
        self.rows[group.index()].load.load(Ordering::Relaxed)
    }

    fn add_load(&self, group: GroupId, delta: i64) {
        self.rows[group.index()].load.fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
    }
}

/// Returns the queue of a group on this CPU; makes those on the way that do not exist.
///
/// O(1) for a task that comes back to the queue it left, else O(depth x (log live queues + their number / 8)): a sorted
/// list of ids is searched, and grows by moving small words.
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
    let cpu = rq.cpu.0;
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

/// Ends the delayed dequeues of a removed group and of removed groups in it: all that can still be queued of it.
///
/// O(queues here): only for a group that gets the id of one that was removed a moment ago. Linux v6.12 `fair.c`,
/// `unregister_fair_sched_group`, does so at removal; here no CPU's lock is held then.
fn retire<L: RawMutex>(rq: &mut Rq, cx: &mut Cx<'_, L>, ix: QueueIx) {
    // Bounded by the depth: a queue with entities has a child that holds the deepest one.
    while rq.fair.queues[ix.index()].nr_queued > 0 {
        let inside = |queue: &Queue| queue.entity.is_queued() && queue.entity.queue == ix && queue.generation != 0;
        let mut listed = rq.fair.by_group.iter().map(|(_, child)| *child);
        let child = listed.find(|child| inside(&rq.fair.queues[child.index()]));
        retire(rq, cx, child.expect("invariant: a removed group holds only removed groups"));
    }
    if rq.fair.queues[ix.index()].entity.is_queued() {
        super::delay::finish(rq, cx, EntityRef::Group(ix));
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

/// A group's entity has left: its queue rests, and the one that rested longest is freed if they are too many. One with
/// throttled queues or parked tasks below stays.
pub(super) fn rest_queue<L: RawMutex>(rq: &mut Rq, table: &GroupTable<L>, ix: QueueIx) {
    assert!(rq.queue(ix).nr_queued == 0, "a resting queue is empty");
    if rq.queue(ix).bandwidth.is_needed() || rq.queue(ix).tally.parked > 0 {
        return;
    }
    if rq.fair.resting.len() == RESTING_MAX {
        let oldest = rq.fair.resting.remove(0);
        unattach(rq, oldest);
        let cpu = rq.cpu;
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

/// Publishes the load of a group's queue and returns the weight that its entity should have on this CPU.
pub(super) fn entity_weight<L: RawMutex>(queue: &mut Queue, cx: &mut Cx<'_, L>) -> Weight {
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
