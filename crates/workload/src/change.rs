//! [`TimedChange`]: what somebody does at a time, whatever the tasks do: limits and weights that are set, groups and threads that
//! come and go, partitions, deadline servers, the limit of real-time tasks.
//!
//! A [`Program`] has one list of them, in order of time; of those at one time the first in the list comes first. Hosts do not read
//! it but [`Program::plan`], in which a group brings what is in it:
//!
//! ```text
//!   Create /pod ──► Create /pod/a  (groups below it that are not made by themselves)
//!            └──► Start of the tasks of /pod, each after its delay
//!   Remove /pod: a host ends the tasks in /pod and below, and takes the groups away when the last has gone
//! ```
//!
//! A group that some change makes is not there before; one that nothing makes is there from the start, unless it is below one
//! that is made.

use crate::program::{GroupWeight, Program};
use std::sync::Arc;
use zerolag_model::{CpuId, CpuMask, CpuMax, Duration, SchedAttr};

/// Something that is changed in the middle of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedChange {
    /// When, from the start.
    pub at: Duration,
    /// What.
    pub what: Change,
}

/// What is changed; tasks by index into [`Program::tasks`]: all their threads that there are; groups by index into
/// [`Program::groups`].
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A group comes to be (`mkdir`), with the weight and limit of its definition.
    Create {
        /// Which.
        group: usize,
    },
    /// The tasks in a group and below it end, as if killed (`cgroup.kill`), and it goes when the last has gone (`rmdir`).
    Remove {
        /// Which.
        group: usize,
    },
    /// What a group may use (`cpu.max`).
    Max {
        /// Whose.
        group: usize,
        /// From then on.
        max: CpuMax,
    },
    /// What a group gets in competition.
    Weight {
        /// Whose.
        group: usize,
        /// From then on.
        weight: GroupWeight,
    },
    /// Whether a group is idle; one that ceases to be has the weight of a new one.
    Idle {
        /// Whose.
        group: usize,
        /// From then on.
        is_idle: bool,
    },
    /// What a task asks for.
    Attr {
        /// Whose.
        task: usize,
        /// From then on, until its program changes it.
        attr: SchedAttr,
    },
    /// Where a task may run.
    Affinity {
        /// Whose.
        task: usize,
        /// From then on; `None` is every CPU of its cpuset.
        cpus: Option<Arc<CpuMask>>,
    },
    /// The group of a task.
    Group {
        /// Whose.
        task: usize,
        /// From then on; `None` is the root.
        group: Option<usize>,
    },
    /// More threads.
    Start {
        /// Of which task.
        task: usize,
        /// How many.
        count: u32,
    },
    /// All its threads end, as if killed.
    End {
        /// Of which task.
        task: usize,
    },
    /// A pool has this many threads from now on: more are started, or those started last end when they have done what they do: at
    /// the end of their turn.
    Resize {
        /// Of which task.
        task: usize,
        /// How many.
        threads: u32,
    },
    /// A cpuset becomes a partition, or ceases to be one.
    Partition {
        /// Which: index into [`Program::cpusets`].
        cpuset: usize,
        /// What it is from then on: a root domain of its own, or not.
        is_root: bool,
    },
    /// Whether a CPU is online.
    Cpu {
        /// Which.
        cpu: CpuId,
        /// From then on.
        is_online: bool,
    },
    /// The deadline servers of the fair class of some CPUs promise something else (`fair_server/cpuN/runtime`, `period`).
    Server {
        /// Whose; `None` is every CPU.
        cpus: Option<Arc<CpuMask>>,
        /// The runtime from then on; `None` leaves it.
        runtime: Option<Duration>,
        /// The period, likewise.
        period: Option<Duration>,
    },
    /// What real-time tasks of each CPU may run per period (`sched_rt_runtime_us`).
    RtRuntime {
        /// From then on; `None` is no limit (-1).
        runtime: Option<Duration>,
    },
}

impl Change {
    /// Returns whether threads may begin or end by it: a run in which nobody can go on is not over while such a change is to
    /// come.
    #[must_use]
    pub const fn moves_threads(&self) -> bool {
        match self {
            Self::Remove { .. } | Self::Start { .. } | Self::End { .. } | Self::Resize { .. } => true,
            Self::Create { .. }
            | Self::Max { .. }
            | Self::Weight { .. }
            | Self::Idle { .. }
            | Self::Cpu { .. }
            | Self::Attr { .. }
            | Self::Affinity { .. }
            | Self::Group { .. }
            | Self::Partition { .. }
            | Self::Server { .. }
            | Self::RtRuntime { .. } => false,
        }
    }
}

impl Program {
    /// Adds a change behind those of its time and before.
    pub fn change(&mut self, at: Duration, what: Change) {
        let place = self.changes.partition_point(|change| change.at <= at);
        self.changes.insert(place, TimedChange { at, what });
    }

    /// Returns whether a cpuset becomes a partition or ceases to be one.
    #[must_use]
    pub fn changes_partition(&self, index: usize) -> bool {
        self.changes.iter().any(|change| matches!(change.what, Change::Partition { cpuset, .. } if cpuset == index))
    }

    /// Returns whether a group has a limit at some time.
    #[must_use]
    pub fn is_limited(&self, index: usize) -> bool {
        let sets = |change: &TimedChange| matches!(change.what, Change::Max { group, .. } if group == index);
        self.groups[index].max.quota.is_some() || self.changes.iter().any(sets)
    }

    /// Returns whether a group is not there when the run begins: a change makes it, or one that it is below.
    #[must_use]
    pub fn comes_later(&self, group: usize) -> bool {
        self.comes_with(group).is_some()
    }

    /// Returns the group by whose making a group comes to be: itself, or the nearest above it that a change makes.
    #[must_use]
    pub fn comes_with(&self, group: usize) -> Option<usize> {
        let is_made = |index: usize| {
            self.changes.iter().any(|change| matches!(change.what, Change::Create { group } if group == index))
        };
        std::iter::successors(Some(group), |group| self.groups[*group].parent).find(|group| is_made(*group))
    }

    /// Returns whether a group is another or below it.
    #[must_use]
    pub fn is_within(&self, group: usize, above: usize) -> bool {
        std::iter::successors(Some(group), |group| self.groups[*group].parent).any(|group| group == above)
    }

    /// Returns all changes in order of time, with what making a group brings: the groups below it, and its tasks, each after its
    /// delay.
    ///
    /// Cost: O(changes x (log changes + groups + tasks)) if groups are made, else O(changes).
    #[must_use]
    pub fn plan(&self) -> Vec<TimedChange> {
        let mut plan = Vec::with_capacity(self.changes.len());
        for change in &self.changes {
            let Change::Create { group: made } = change.what else {
                plan.push(change.clone());
                continue;
            };
            let at = change.at;
            let comes: Vec<usize> =
                (0..self.groups.len()).filter(|group| self.comes_with(*group) == Some(made)).collect();
            plan.extend(comes.iter().map(|group| TimedChange { at, what: Change::Create { group: *group } }));
            for (task, def) in self.tasks.iter().enumerate() {
                if def.instances > 0 && def.group.is_some_and(|group| comes.contains(&group)) {
                    let what = Change::Start { task, count: def.instances };
                    plan.push(TimedChange { at: at.saturating_add(def.delay), what });
                }
            }
        }
        // Stable: at one time a group is made before its tasks begin.
        plan.sort_by_key(|change| change.at);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{GroupDef, TaskDef};

    fn group(path: &str, parent: Option<usize>) -> GroupDef {
        GroupDef { path: path.into(), parent, weight: GroupWeight::Weight(100), is_idle: false, max: CpuMax::UNLIMITED }
    }

    #[test]
    fn a_group_that_is_made_brings_what_is_in_it() {
        let s = Duration::from_secs;
        let mut program = Program {
            groups: vec![group("/a", None), group("/pod", None), group("/pod/x", Some(1)), group("/pod/y", Some(1))],
            ..Program::default()
        };
        for (name, group, delay) in [("a", 0, 0), ("pod", 1, 0), ("x", 2, 2), ("y", 3, 0)] {
            let def = TaskDef::looping(name, SchedAttr::NORMAL, Vec::new());
            program.tasks.push(TaskDef { group: Some(group), delay: s(delay), ..def });
        }
        program.change(s(6), Change::Remove { group: 1 });
        program.change(s(5), Change::Create { group: 1 });
        program.change(s(6), Change::Create { group: 3 });
        assert_eq!([0, 1, 2, 3].map(|group| program.comes_later(group)), [false, true, true, true]);
        let plan: Vec<_> = program.plan().into_iter().map(|change| (change.at, change.what)).collect();
        let expected = [
            (s(5), Change::Create { group: 1 }),
            (s(5), Change::Create { group: 2 }),
            (s(5), Change::Start { task: 1, count: 1 }),
            (s(6), Change::Remove { group: 1 }),
            (s(6), Change::Create { group: 3 }),
            (s(6), Change::Start { task: 3, count: 1 }),
            (s(7), Change::Start { task: 2, count: 1 }),
        ];
        assert_eq!(plan, expected);
        assert!(program.is_within(2, 1) && !program.is_within(1, 2));
    }
}
