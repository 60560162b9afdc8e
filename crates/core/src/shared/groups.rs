//! [`GroupTable`]: the tree of groups, as all CPUs see it: parent, weight, limit, published load.
//!
//! Rows change under a lock and are read with atomics. The part of a group on one CPU is a
//! [`Queue`](crate::queue::fair::queue::Queue).

use crate::entity::weight::Weight;
use crate::queue::fair::queue::GroupPart;
use crate::shared::pool::{Pool, Refreshed};
use crate::shared::shares::{self, CpuShares};
use crate::shared::sleeping::Sleeping;
use crate::words::group::{GroupError, Idleness, MAX_DEPTH};
use crate::words::snapshot::snapshot_of;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use lock_api::{Mutex, MutexGuard, RawMutex};
use zerolag_model::{CpuMax, CpuStat, Duration, GroupId, Instant, Settings, UtilClamp};

/// The bit that marks an idle group in its weight.
pub(crate) const IDLE_GROUP: u64 = 1 << 32;

/// One group, as all CPUs see it.
#[derive(Debug)]
struct SharedGroup<L: RawMutex> {
    /// The parent's id; meaningless for the root and while free.
    parent: AtomicU32,
    /// Its weight; 0 of an idle group (`cpu.idle`).
    weight: AtomicU32,
    /// Counts the creations and removals of groups with this id; odd while one exists.
    generation: AtomicU32,
    /// Sum of the loads that its queues publish on the CPUs on which something of it is queued.
    load: AtomicU64,
    /// Sum of the averages of runnable tasks that these queues publish, times 1024.
    runnable: AtomicU32,
    /// The same of the CPUs on which nothing of it is queued now.
    sleeping_load: Sleeping,
    sleeping_runnable: Sleeping,
    /// Its utilisation clamps as set, and as bounded by those above: [`pack_clamp`].
    clamp_set: AtomicU32,
    clamp: AtomicU32,
    nr_tasks: AtomicU32,
    nr_children: AtomicU32,
    /// The number of its limit; 0 without one.
    limit: AtomicU32,
    /// Its own slice in ns; 0 without one.
    slice: AtomicU64,
    /// How often its pool has been filled at the end of a period.
    refreshes: AtomicU32,
    pool: Mutex<L, Pool>,
}

snapshot_of!(SharedGroup<L>, L: {
    parent weight generation load runnable sleeping_load sleeping_runnable clamp_set clamp nr_tasks
    nr_children limit slice refreshes pool
});
snapshot_of!(GroupTable<L>, L: { rows shares free });

impl<L: RawMutex> SharedGroup<L> {
    fn new(pool: Pool) -> Self {
        Self {
            parent: AtomicU32::default(),
            weight: AtomicU32::default(),
            generation: AtomicU32::default(),
            load: AtomicU64::default(),
            runnable: AtomicU32::default(),
            sleeping_load: Sleeping::default(),
            sleeping_runnable: Sleeping::default(),
            clamp_set: AtomicU32::new(pack_clamp(UtilClamp::NONE)),
            clamp: AtomicU32::new(pack_clamp(UtilClamp::NONE)),
            nr_tasks: AtomicU32::default(),
            nr_children: AtomicU32::default(),
            limit: AtomicU32::default(),
            slice: AtomicU64::default(),
            refreshes: AtomicU32::default(),
            pool: Mutex::new(pool),
        }
    }
}

fn pack_clamp(clamp: UtilClamp) -> u32 {
    (clamp.min() << 16 | clamp.max()) as u32
}

pub(crate) fn unpack_clamp(word: u32) -> UtilClamp {
    UtilClamp::new(u64::from(word >> 16), u64::from(word & 0xffff)).expect("invariant: packed from valid clamps")
}

/// Returns clamps as bounded by those of the group above: neither exceeds the parent's, and the
/// lower not the upper.
fn bounded<L: RawMutex>(set: UtilClamp, above: &SharedGroup<L>) -> UtilClamp {
    let above = unpack_clamp(above.clamp.load(Ordering::Relaxed));
    let max = set.max().min(above.max());
    UtilClamp::new(set.min().min(above.min()).min(max), max).expect("invariant: below valid clamps")
}

/// The tree of groups. Rows change under the lock; readers use atomics.
///
/// Staleness: a CPU can compute a share from a load that others have just changed. It computes the
/// share again at its next tick.
#[derive(Debug)]
pub(crate) struct GroupTable<L: RawMutex> {
    rows: Vec<SharedGroup<L>>,
    /// The groups' parts of each CPU (`cgroup_shares`). Without the setting one without parts
    /// stands for all.
    shares: Vec<CpuShares>,
    /// Unused ids, the longest unused first, so that an id reappears in a trace as late as
    /// possible.
    free: Mutex<L, VecDeque<u32>>,
}

impl<L: RawMutex> GroupTable<L> {
    /// Returns a table with the root group and room for `groups` more, on a machine of `cpus` CPUs.
    pub(crate) fn new(groups: usize, settings: &Settings, cpus: usize) -> Self {
        let row = |_| SharedGroup::new(Pool::as_set(settings, cpus));
        let rows: Vec<SharedGroup<L>> = (0..=groups).map(row).collect();
        rows[0].generation.store(1, Ordering::Relaxed);
        rows[0].weight.store(Weight::NICE_0.value(), Ordering::Relaxed);
        // The root group bounds nothing: the lower clamps of those below may be as high as any
        // (`init_uclamp`).
        let all = UtilClamp::new(UtilClamp::FULL, UtilClamp::FULL).expect("invariant: it is the highest");
        rows[0].clamp.store(pack_clamp(all), Ordering::Relaxed);
        let ids = 1..=u32::try_from(groups).expect("invariant: fewer than 2^32 groups");
        let (kept, parts) = if shares::are_kept(settings, cpus) { (rows.len(), cpus) } else { (1, 0) };
        let shares = (0..kept).map(|_| CpuShares::new(parts)).collect();
        Self { rows, shares, free: Mutex::new(ids.collect()) }
    }

    fn row(&self, group: GroupId) -> Result<&SharedGroup<L>, GroupError> {
        self.rows
            .get(group.index())
            .filter(|row| row.generation.load(Ordering::Acquire) % 2 == 1)
            .ok_or(GroupError::NoSuchGroup(group))
    }

    /// Returns the number of groups above a group. O(depth).
    pub(crate) fn depth(&self, group: GroupId) -> usize {
        let (mut depth, mut at) = (0, group);
        // Bounded by the depth, which is limited when groups are created.
        while at != GroupId::ROOT {
            depth += 1;
            at = self.parent(at);
        }
        depth
    }

    pub(crate) fn exists(&self, group: GroupId) -> bool {
        self.row(group).is_ok()
    }

    pub(crate) fn create(&self, parent: GroupId, weight: Weight) -> Result<GroupId, GroupError> {
        let mut free = self.free.lock();
        let above = self.row(parent)?;
        if self.depth(parent) >= MAX_DEPTH {
            return Err(GroupError::TooDeep(parent));
        }
        let group = GroupId(free.pop_front().ok_or(GroupError::NoneFree)?);
        let row = &self.rows[group.index()];
        row.parent.store(parent.0, Ordering::Relaxed);
        row.weight.store(weight.value(), Ordering::Relaxed);
        row.clamp_set.store(pack_clamp(UtilClamp::NONE), Ordering::Relaxed);
        row.clamp.store(pack_clamp(bounded(UtilClamp::NONE, above)), Ordering::Relaxed);
        row.sleeping_load.clear();
        row.sleeping_runnable.clear();
        self.shares(group).clear();
        row.generation.fetch_add(1, Ordering::Release);
        above.nr_children.fetch_add(1, Ordering::Relaxed);
        Ok(group)
    }

    /// Sets the clamps of a group; those below follow. O(groups x depth).
    ///
    /// Linux v6.12 `kernel/sched/core.c`, `cpu_util_update_eff`.
    pub(crate) fn set_clamp(&self, group: GroupId, clamp: UtilClamp) -> Result<(), GroupError> {
        let _order = self.free.lock();
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        self.row(group)?.clamp_set.store(pack_clamp(clamp), Ordering::Relaxed);
        let live = |row: &&SharedGroup<L>| row.generation.load(Ordering::Acquire) % 2 == 1;
        // A pass brings the rows below those that the last one changed up to date: none changes
        // anything after as many as there are levels.
        loop {
            let mut has_changed = false;
            for row in self.rows.iter().skip(1).filter(live) {
                let above = &self.rows[row.parent.load(Ordering::Relaxed) as usize];
                let clamp = pack_clamp(bounded(unpack_clamp(row.clamp_set.load(Ordering::Relaxed)), above));
                has_changed |= row.clamp.swap(clamp, Ordering::Relaxed) != clamp;
            }
            if !has_changed {
                return Ok(());
            }
        }
    }

    /// Returns the clamps of a group as bounded by those above, packed.
    pub(crate) fn clamp(&self, group: GroupId) -> u32 {
        self.rows[group.index()].clamp.load(Ordering::Relaxed)
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
        if row.weight.load(Ordering::Acquire) == 0 {
            return Err(GroupError::IsIdle(group));
        }
        row.weight.store(weight.value(), Ordering::Release);
        Ok(())
    }

    /// Linux v6.12 `kernel/sched/fair.c`, `sched_group_set_idle`: a group that was idle has the
    /// weight of a new one.
    pub(crate) fn change_idleness(&self, group: GroupId, idleness: Idleness) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::IsRoot);
        }
        let row = self.row(group)?;
        let was_idle = row.weight.load(Ordering::Acquire) == 0;
        match idleness {
            Idleness::Idle => row.weight.store(0, Ordering::Release),
            Idleness::Normal if was_idle => row.weight.store(Weight::NICE_0.value(), Ordering::Release),
            Idleness::Normal => {}
        }
        Ok(())
    }

    /// Returns a group's pool, locked. It is an inner lock: at most one run queue is locked when it
    /// is taken, and nothing is locked under it.
    pub(crate) fn pool(&self, group: GroupId) -> MutexGuard<'_, L, Pool> {
        self.rows[group.index()].pool.lock()
    }

    /// Returns a group's parts of each CPU.
    pub(crate) fn shares(&self, group: GroupId) -> &CpuShares {
        self.shares.get(group.index()).unwrap_or(&self.shares[0])
    }

    pub(crate) fn limit(&self, group: GroupId) -> u32 {
        self.rows[group.index()].limit.load(Ordering::Acquire)
    }

    /// Returns the group's own bandwidth slice, if it has one.
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

    /// Handles the end of a group's period.
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

    /// Removes a task from the count.
    pub(crate) fn quit(&self, group: GroupId) {
        let before = self.rows[group.index()].nr_tasks.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "group {group} loses a task that it does not have");
    }

    /// Returns the ids of all groups, for checks.
    pub(crate) fn ids(&self) -> impl Iterator<Item = GroupId> + '_ {
        let ids = 0..u32::try_from(self.rows.len()).expect("invariant: fewer than 2^32 groups");
        ids.map(GroupId).filter(|group| self.exists(*group))
    }

    pub(crate) fn generation(&self, group: GroupId) -> u32 {
        self.rows[group.index()].generation.load(Ordering::Acquire)
    }

    pub(crate) fn parent(&self, group: GroupId) -> GroupId {
        GroupId(self.rows[group.index()].parent.load(Ordering::Relaxed))
    }

    /// Returns a group's weight; that of an idle group is [`Weight::IDLE`] with bit 32 set.
    pub(crate) fn weight(&self, group: GroupId) -> u64 {
        match self.rows[group.index()].weight.load(Ordering::Acquire) {
            0 => IDLE_GROUP | u64::from(Weight::IDLE.value()),
            weight => u64::from(weight),
        }
    }

    pub(crate) fn load(&self, group: GroupId, period: u32) -> u64 {
        let row = &self.rows[group.index()];
        row.load.load(Ordering::Relaxed) + row.sleeping_load.at(period)
    }

    pub(crate) fn runnable(&self, group: GroupId, period: u32) -> u64 {
        let row = &self.rows[group.index()];
        u64::from(row.runnable.load(Ordering::Relaxed)) + row.sleeping_runnable.at(period)
    }

    /// Returns both sums of the CPUs on which something of a group is queued, for checks.
    pub(crate) fn awake(&self, group: GroupId) -> (u64, u64) {
        let row = &self.rows[group.index()];
        (row.load.load(Ordering::Relaxed), row.runnable.load(Ordering::Relaxed).into())
    }

    /// Counts the averages of a CPU on which nothing of a group is queued any more.
    pub(crate) fn add_sleeping(&self, group: GroupId, part: GroupPart, period: u32) {
        let row = &self.rows[group.index()];
        row.sleeping_load.add(part.load.into(), period);
        if part.runnable > 0 {
            row.sleeping_runnable.add(part.runnable.into(), period);
        }
    }

    /// Counts them no more: something of the group is queued there again.
    pub(crate) fn take_sleeping(&self, group: GroupId, part: GroupPart, since: u32, period: u32) {
        let row = &self.rows[group.index()];
        row.sleeping_load.take(part.load.into(), since, period);
        if part.runnable > 0 {
            row.sleeping_runnable.take(part.runnable.into(), since, period);
        }
    }

    pub(crate) fn add_runnable(&self, group: GroupId, delta: i64) {
        self.rows[group.index()].runnable.fetch_add(delta.cast_unsigned() as u32, Ordering::Relaxed);
    }

    pub(crate) fn add_load(&self, group: GroupId, delta: i64) {
        self.rows[group.index()].load.fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
    }
}
