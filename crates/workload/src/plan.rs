//! [`Program::plan`]: all changes of a run, in order of time.
//!
//! A [`Program`] has one list of changes, in order of time; changes of one time are applied in list
//! order. A change that creates a group implies more: the groups below it, and its tasks. Hosts
//! therefore do not read the list but [`Program::plan`], in which these are written out:
//!
//! ```text
//!   Create /pod ──► Create /pod/a  (groups below it that have no change of their own)
//!            └──► Start of the tasks of /pod, each after its delay
//!   Remove /pod: a host ends the tasks in /pod and below, and removes the groups when the last has exited
//! ```
//!
//! A group that some change creates does not exist before. Other groups exist from the start,
//! except below a group that a change creates.

use crate::change::{Change, TimedChange};
use crate::program::Program;
use zerolag_model::Duration;

impl Program {
    /// Adds a change after those of its time and before.
    pub fn change(&mut self, at: Duration, what: Change) {
        let place = self.changes.partition_point(|change| change.at <= at);
        self.changes.insert(place, TimedChange { at, what });
    }

    /// Returns whether a cpuset becomes a partition or stops being one.
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

    /// Returns whether a group does not exist when the run begins: a change creates it, or a group
    /// above it.
    #[must_use]
    pub fn comes_later(&self, group: usize) -> bool {
        self.comes_with(group).is_some()
    }

    /// Returns the group with which a group is created: itself, or the nearest above it that a
    /// change creates.
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

    /// Returns all changes in order of time, including those that creating a group implies: the
    /// groups below it, and its tasks, each after its delay.
    ///
    /// Cost: O(changes x (log changes + groups + tasks)) if groups are created, else O(changes).
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
        // Stable: at one time a group is created before its tasks start.
        plan.sort_by_key(|change| change.at);
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{GroupDef, GroupWeight, InCpus};
    use crate::program::TaskDef;
    use zerolag_model::{CpuMax, SchedAttr};

    fn group(path: &str, parent: Option<usize>) -> GroupDef {
        GroupDef {
            path: path.into(),
            parent,
            weight: GroupWeight::Weight(100),
            is_idle: false,
            max: CpuMax::UNLIMITED,
            clamp: zerolag_model::UtilClamp::NONE,
            cpus: InCpus::default(),
            rt: None,
            triggers: Vec::new(),
        }
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
