//! [`Groups`]: the tree of task groups, who is in which, and where one is throttled, at every moment of a trace.
//!
//! Complexity: O(log groups) per record, O(depth x log) per question.

use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::{CpuId, CpuMax, GroupId, Record, TaskId, TraceEvent};

/// What a trace has said of groups so far.
#[derive(Debug, Default)]
pub struct Groups {
    parents: BTreeMap<GroupId, GroupId>,
    members: BTreeMap<TaskId, GroupId>,
    limits: BTreeMap<GroupId, CpuMax>,
    throttled: BTreeSet<(GroupId, CpuId)>,
}

impl Groups {
    /// Follows a record.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::GroupNew { group, parent, .. } => {
                self.parents.insert(*group, *parent);
                self.limits.remove(group);
            }
            TraceEvent::TaskNew { task, group, .. } | TraceEvent::GroupChange { task, group } => {
                self.members.insert(*task, *group);
            }
            TraceEvent::GroupMax { group, max } => {
                self.limits.insert(*group, *max);
            }
            TraceEvent::Throttle { group } => {
                self.throttled.insert((*group, record.cpu));
            }
            TraceEvent::Unthrottle { group } => {
                self.throttled.remove(&(*group, record.cpu));
            }
            // Nothing else is about groups.
            _ => {}
        }
    }

    /// Returns the group of a task and the groups above it, without the root.
    pub fn path(&self, task: TaskId) -> impl Iterator<Item = GroupId> + '_ {
        let group = self.members.get(&task).copied().unwrap_or(GroupId::ROOT);
        let up = |group: &GroupId| Some(self.parents.get(group).copied().unwrap_or(GroupId::ROOT));
        std::iter::successors(Some(group), up).take_while(|group| *group != GroupId::ROOT).take(DEPTH_MAX)
    }

    /// Returns whether a group that a task is in is throttled on a CPU; which.
    #[must_use]
    pub fn throttled_on(&self, task: TaskId, cpu: CpuId) -> Option<GroupId> {
        if self.throttled.is_empty() {
            return None;
        }
        self.path(task).find(|group| self.throttled.contains(&(*group, cpu)))
    }

    /// Returns the limit of a group; unlimited unless one was set.
    #[must_use]
    pub fn limit(&self, group: GroupId) -> CpuMax {
        self.limits.get(&group).copied().unwrap_or(CpuMax::UNLIMITED)
    }
}

/// A trace that says that groups are above each other in a circle is followed this far.
const DEPTH_MAX: usize = 64;
