//! Groups: their hierarchy, weights and limits, and what a policy is told of them.
//!
//! A kernel leaves all three to the loaded scheduler: it calls `ops.cgroup_*` and enforces nothing.
//! A policy hears of a group before it hears of those below it, and of the end of a group after
//! theirs.
//!
//! Sources: Linux v7.3 `kernel/sched/ext/ext.c` (`scx_cgroup_init`, `scx_cgroup_exit`,
//! `scx_tg_online`, `scx_group_set_weight`, `scx_group_set_bandwidth`). differs: the limit of a new
//! group is told after `cgroup_init`, not with it.

use crate::host::Host;
use crate::scx::Scx;
use crate::words::Callback;
use alloc::sync::Arc;
use alloc::vec::Vec;
use zerolag_model::{CpuMax, GroupId};

/// A group other than the root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupState {
    parent: GroupId,
    weight: u32,
    /// Its limit, once one has been set.
    limit: Option<CpuMax>,
}

/// Groups.
impl Scx {
    /// Returns the weight of a group: 100 unless it was set.
    #[must_use]
    pub fn cgroup_weight(&self, group: GroupId) -> u32 {
        self.count();
        self.groups.get(&group).map_or(100, |state| state.weight)
    }

    /// Returns the group that has a group; `None` of the root, and of one that does not exist
    /// (`bpf_cgroup_ancestor`).
    #[must_use]
    pub fn cgroup_parent(&self, group: GroupId) -> Option<GroupId> {
        self.count();
        self.groups.get(&group).map(|state| state.parent)
    }

    /// Returns the path of a group, `/` of the root; empty if the host has not said it.
    #[must_use]
    pub fn cgroup_path(&self, group: GroupId) -> &str {
        self.count();
        let unknown = if group == GroupId::ROOT { "/" } else { "" };
        self.paths.get(&group).map_or(unknown, |path| path)
    }

    /// Returns the groups, each before those below it. O(groups * depth).
    fn groups_downwards(&self) -> Vec<GroupId> {
        let parent = |group: &GroupId| self.groups.get(group).map(|state| state.parent);
        let depth = |group: &GroupId| core::iter::successors(Some(*group), parent).count();
        let mut groups: Vec<GroupId> = self.groups.keys().copied().collect();
        groups.sort_by_key(|group| (depth(group), *group));
        groups
    }
}

/// Groups are created, change and are removed.
impl Host {
    /// A group is created below one that exists, or the root.
    pub fn add_group(&mut self, group: GroupId, parent: GroupId, weight: u32) {
        // A parent that is unknown is the root, so that no group is above itself.
        let parent = if self.scx.groups.contains_key(&parent) { parent } else { GroupId::ROOT };
        if self.scx.groups.contains_key(&group) || group == GroupId::ROOT {
            return;
        }
        self.scx.groups.insert(group, GroupState { parent, weight, limit: None });
        self.call(Callback::CgroupInit, None, None, |policy, scx| policy.cgroup_init(scx, group));
        self.finish();
    }

    /// Says the path of a group that exists.
    pub fn name_group(&mut self, group: GroupId, path: Arc<str>) {
        if self.scx.groups.contains_key(&group) {
            self.scx.paths.insert(group, path);
        }
    }

    /// The weight of a group is set, perhaps to what it is. Of one that does not exist, as of the
    /// root, nothing is told.
    pub fn set_group_weight(&mut self, group: GroupId, weight: u32) {
        let Some(state) = self.scx.groups.get_mut(&group) else { return };
        if core::mem::replace(&mut state.weight, weight) != weight {
            self.call(Callback::CgroupSetWeight, None, None, |policy, scx| {
                policy.cgroup_set_weight(scx, group, weight);
            });
        }
        self.finish();
    }

    /// The limit of a group is set.
    pub fn set_bandwidth(&mut self, group: GroupId, limit: CpuMax) {
        let Some(state) = self.scx.groups.get_mut(&group) else { return };
        state.limit = Some(limit);
        self.call(Callback::CgroupSetBandwidth, None, None, |policy, scx| {
            policy.cgroup_set_bandwidth(scx, group, limit);
        });
        self.finish();
    }

    /// A group without tasks and groups is removed.
    pub fn remove_group(&mut self, group: GroupId) {
        if let Some(GroupState { parent, .. }) = self.scx.groups.get(&group).copied() {
            self.call(Callback::CgroupExit, None, None, |policy, scx| policy.cgroup_exit(scx, group));
            self.scx.groups.remove(&group);
            self.scx.paths.remove(&group);
            let below = self.scx.groups.values_mut().filter(|state| state.parent == group);
            below.for_each(|state| state.parent = parent);
        }
        self.finish();
    }

    /// Tells a policy that is being loaded of the groups that exist.
    pub(crate) fn tell_of_groups(&mut self) {
        for group in self.scx.groups_downwards() {
            self.call(Callback::CgroupInit, None, None, |policy, scx| policy.cgroup_init(scx, group));
            if let Some(limit) = self.scx.groups.get(&group).and_then(|state| state.limit) {
                self.call(Callback::CgroupSetBandwidth, None, None, |policy, scx| {
                    policy.cgroup_set_bandwidth(scx, group, limit);
                });
            }
        }
    }

    /// Tells a policy that is being unloaded that it has no groups any more.
    pub(crate) fn take_groups_away(&mut self) {
        for group in self.scx.groups_downwards().into_iter().rev() {
            self.call(Callback::CgroupExit, None, None, |policy, scx| policy.cgroup_exit(scx, group));
        }
    }
}
