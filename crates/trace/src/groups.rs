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
    weights: BTreeMap<GroupId, u32>,
    throttled: BTreeSet<(GroupId, CpuId)>,
    /// Tasks that run although their group may not.
    boosted: BTreeSet<TaskId>,
    /// Tasks that run on the turn of another, which pays for it.
    donors: BTreeMap<TaskId, TaskId>,
    /// Tasks that were taken off one by one.
    parked: BTreeSet<TaskId>,
    stops: Stops,
}

/// What stops where a group is throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stops {
    /// The group, but for what is boosted.
    #[default]
    Group,
    /// What is taken off task by task.
    Tasks,
}

impl Groups {
    /// Begins a trace whose metadata say what `throttle` was set to.
    #[must_use]
    pub fn new(throttle: Option<&str>) -> Self {
        let stops = if throttle == Some("at_user_return") { Stops::Tasks } else { Stops::Group };
        Self { stops, ..Self::default() }
    }

    /// Follows a record.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::GroupNew { group, parent, .. } => {
                self.parents.insert(*group, *parent);
                self.limits.remove(group);
                self.weights.remove(group);
            }
            TraceEvent::GroupGone { group } => {
                self.parents.remove(group);
                self.limits.remove(group);
                self.throttled.retain(|(throttled, _)| throttled != group);
            }
            TraceEvent::TaskNew { task, group, .. } | TraceEvent::GroupChange { task, group } => {
                self.members.insert(*task, *group);
            }
            TraceEvent::GroupWeight { group, weight } => {
                self.weights.insert(*group, *weight);
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
            TraceEvent::Boost { task, boosted: true } => {
                self.boosted.insert(*task);
            }
            TraceEvent::Boost { task, boosted: false } => {
                self.boosted.remove(task);
            }
            TraceEvent::Proxy { task, donor: Some(donor), .. } => {
                self.donors.insert(*task, *donor);
            }
            TraceEvent::Proxy { task, donor: None, .. } => {
                self.donors.remove(task);
            }
            TraceEvent::TaskThrottle { task, throttled: true } => {
                self.parked.insert(*task);
            }
            TraceEvent::TaskThrottle { task, throttled: false } => {
                self.parked.remove(task);
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

    /// Returns whose turn a task runs on when it runs: its own, or that of a task that waits for it.
    #[must_use]
    pub fn payer(&self, task: TaskId) -> TaskId {
        self.donors.get(&task).copied().unwrap_or(task)
    }

    /// Returns whether a group is throttled on a CPU.
    #[must_use]
    pub fn is_throttled(&self, group: GroupId, cpu: CpuId) -> bool {
        self.throttled.contains(&(group, cpu))
    }

    /// Returns whether a task may not run on a CPU because a group that it is in is throttled there; which.
    #[must_use]
    pub fn throttled_on(&self, task: TaskId, cpu: CpuId) -> Option<GroupId> {
        if self.throttled.is_empty() {
            return None;
        }
        let task = self.payer(task);
        let may_run = match self.stops {
            Stops::Group => self.boosted.contains(&task),
            Stops::Tasks => !self.parked.contains(&task),
        };
        if may_run {
            return None;
        }
        self.path(task).find(|group| self.throttled.contains(&(*group, cpu)))
    }

    /// Returns the group above a group; the root for the top ones.
    #[must_use]
    pub fn parent(&self, group: GroupId) -> GroupId {
        self.parents.get(&group).copied().unwrap_or(GroupId::ROOT)
    }

    /// Returns what a group weighs beside its siblings; 1024 unless it was set.
    #[must_use]
    pub fn weight(&self, group: GroupId) -> u32 {
        self.weights.get(&group).copied().unwrap_or(1024)
    }

    /// Returns the limit of a group; unlimited unless one was set.
    #[must_use]
    pub fn limit(&self, group: GroupId) -> CpuMax {
        self.limits.get(&group).copied().unwrap_or(CpuMax::UNLIMITED)
    }
}

/// A trace that says that groups are above each other in a circle is followed this far.
const DEPTH_MAX: usize = 64;
