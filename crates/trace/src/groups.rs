//! [`Groups`]: the tree of task groups, their members, and where they are throttled, at every
//! moment of a trace.
//!
//! Complexity: O(log groups) per record, O(depth x log) per query.

use std::collections::{BTreeMap, BTreeSet};
use zerolag_model::{CpuId, CpuMax, Duration, GroupId, Record, RtBandwidth, TaskId, TraceEvent};

/// The groups of a trace, up to the current record.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    parents: BTreeMap<GroupId, GroupId>,
    members: BTreeMap<TaskId, GroupId>,
    limits: BTreeMap<GroupId, CpuMax>,
    weights: BTreeMap<GroupId, u32>,
    throttled: BTreeSet<(GroupId, CpuId)>,
    /// Where the real-time tasks of a group are throttled.
    rt_throttled: BTreeSet<(GroupId, CpuId)>,
    /// Groups with a real-time runtime.
    rt_budgets: BTreeMap<GroupId, RtBandwidth>,
    /// Whether deadline servers run their tasks (`rt_group_sched = hcbs`).
    has_servers: bool,
    /// Tasks that run although their group is throttled, and the CPU of each.
    boosted: BTreeMap<TaskId, CpuId>,
    /// Executors, with the donor that is charged for them.
    donors: BTreeMap<TaskId, TaskId>,
    /// Tasks that were dequeued one by one.
    parked: BTreeSet<TaskId>,
    stops: Stops,
}

/// What stops where a group is throttled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stops {
    /// The whole group, except boosted tasks.
    #[default]
    Group,
    /// The whole group, unless a task of it is boosted on that CPU.
    UnlessBoosted,
    /// Single tasks, as they are dequeued.
    Tasks,
}

impl Groups {
    /// Starts a trace; `throttle` is the value of that setting in the metadata.
    #[must_use]
    pub fn new(throttle: Option<&str>) -> Self {
        let stops = match throttle {
            Some("at_user_return") => Stops::Tasks,
            Some("boost_groups") => Stops::UnlessBoosted,
            _ => Stops::Group,
        };
        Self { stops, ..Self::default() }
    }

    /// Says that deadline servers run the real-time tasks of groups (`rt_group_sched = hcbs`).
    #[must_use]
    pub fn with_servers(self, has_servers: bool) -> Self {
        Self { has_servers, ..self }
    }

    /// Follows a record.
    pub fn apply(&mut self, record: &Record) {
        match &record.event {
            TraceEvent::GroupNew { group, parent, .. } => {
                self.parents.insert(*group, *parent);
                self.limits.remove(group);
                self.weights.remove(group);
                self.rt_budgets.remove(group);
            }
            TraceEvent::GroupGone { group } => {
                self.parents.remove(group);
                self.limits.remove(group);
                self.rt_budgets.remove(group);
                self.throttled.retain(|(throttled, _)| throttled != group);
                self.rt_throttled.retain(|(throttled, _)| throttled != group);
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
            TraceEvent::RtGroup { group, bandwidth } if bandwidth.runtime.is_some() => {
                self.rt_budgets.insert(*group, *bandwidth);
            }
            TraceEvent::RtGroup { group, .. } => {
                self.rt_budgets.remove(group);
            }
            TraceEvent::RtGroupThrottle { group, throttled: true } => {
                self.rt_throttled.insert((*group, record.cpu));
            }
            TraceEvent::RtGroupThrottle { group, throttled: false } => {
                self.rt_throttled.remove(&(*group, record.cpu));
            }
            TraceEvent::Boost { task, boosted: true } => {
                self.boosted.insert(*task, record.cpu);
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
            // No other event concerns groups.
            _ => {}
        }
    }

    /// Returns the group of a task and the groups above it, without the root.
    pub fn path(&self, task: TaskId) -> impl Iterator<Item = GroupId> + '_ {
        let group = self.members.get(&task).copied().unwrap_or(GroupId::ROOT);
        let up = |group: &GroupId| Some(self.parents.get(group).copied().unwrap_or(GroupId::ROOT));
        std::iter::successors(Some(group), up).take_while(|group| *group != GroupId::ROOT).take(DEPTH_MAX)
    }

    /// Returns the task that is charged when a task runs: itself, or a donor that waits for it.
    #[must_use]
    pub fn payer(&self, task: TaskId) -> TaskId {
        self.donors.get(&task).copied().unwrap_or(task)
    }

    /// Returns whether a group is throttled on a CPU.
    #[must_use]
    pub fn is_throttled(&self, group: GroupId, cpu: CpuId) -> bool {
        self.throttled.contains(&(group, cpu))
    }

    /// Returns whether throttling stops tasks one by one, as they are dequeued.
    #[must_use]
    pub fn stops_single_tasks(&self) -> bool {
        self.stops == Stops::Tasks
    }

    /// Returns the group whose throttling stops a task on a CPU, if there is one.
    #[must_use]
    pub fn throttled_on(&self, task: TaskId, cpu: CpuId) -> Option<GroupId> {
        if self.throttled.is_empty() {
            return None;
        }
        let task = self.payer(task);
        let may_run = match self.stops {
            Stops::Group | Stops::UnlessBoosted => self.boosted.contains_key(&task),
            Stops::Tasks => !self.parked.contains(&task),
        };
        if may_run {
            return None;
        }
        self.path(task).find(|group| self.throttled.contains(&(*group, cpu)) && !self.is_suspended(*group, cpu))
    }

    /// Returns the group that keeps a task from running as a real-time task on a CPU, if there is
    /// one.
    #[must_use]
    pub fn rt_throttled_on(&self, task: TaskId, cpu: CpuId) -> Option<GroupId> {
        if self.rt_throttled.is_empty() {
            return None;
        }
        if self.has_servers {
            return self.server_of(task).filter(|group| self.rt_throttled.contains(&(*group, cpu)));
        }
        self.path(task).find(|group| self.rt_throttled.contains(&(*group, cpu)))
    }

    /// Returns the group whose deadline servers run a task when it is a real-time task: the nearest
    /// one with a budget.
    #[must_use]
    pub fn server_of(&self, task: TaskId) -> Option<GroupId> {
        if !self.has_servers {
            return None;
        }
        self.path(task).find(|group| self.rt_budgets.contains_key(group))
    }

    /// Returns the runtime and the period of a group's servers: its budget less those of the groups
    /// that take theirs from it (`cpu.rt.internal`). O(groups x depth).
    #[must_use]
    pub fn server_runtime(&self, group: GroupId) -> Option<(Duration, Duration)> {
        let budget = self.rt_budgets.get(&group)?;
        let ratio = |budget: &RtBandwidth| {
            let runtime = budget.runtime.unwrap_or_default().as_nanos();
            u64::try_from((u128::from(runtime) << 20) / u128::from(budget.period.as_nanos().max(1))).unwrap_or(u64::MAX)
        };
        let has_budget = |at: &GroupId| self.rt_budgets.contains_key(at);
        let up = |at: &GroupId| Some(self.parent(*at)).filter(|at| *at != GroupId::ROOT);
        let source = |at: GroupId| std::iter::successors(up(&at), up).take(DEPTH_MAX).find(has_budget);
        let below = self.rt_budgets.iter().filter(|(at, _)| source(**at) == Some(group));
        let sum: u64 = below.map(|(_, budget)| ratio(budget)).sum();
        let runtime = match sum {
            0 => budget.runtime.unwrap_or_default(),
            _ => budget.period.mul_div_floor(ratio(budget).saturating_sub(sum), 1 << 20),
        };
        Some((runtime, budget.period))
    }

    /// Returns whether the real-time tasks of some group are throttled on a CPU.
    #[must_use]
    pub fn has_rt_throttled(&self, cpu: CpuId) -> bool {
        self.rt_throttled.iter().any(|(_, there)| *there == cpu)
    }

    /// Returns whether the throttling of a group is suspended on a CPU for a boosted task of it.
    /// O(boosted tasks x depth).
    fn is_suspended(&self, group: GroupId, cpu: CpuId) -> bool {
        let mut here = self.boosted.iter().filter(|(_, at)| **at == cpu);
        self.stops == Stops::UnlessBoosted && here.any(|(task, _)| self.path(*task).any(|above| above == group))
    }

    /// Returns the parent of a group; the root for top-level groups.
    #[must_use]
    pub fn parent(&self, group: GroupId) -> GroupId {
        self.parents.get(&group).copied().unwrap_or(GroupId::ROOT)
    }

    /// Returns a group's weight relative to its siblings; 1024 unless it was set.
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

/// The depth to which a trace is followed whose groups form a circle.
const DEPTH_MAX: usize = 64;
