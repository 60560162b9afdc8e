//! [`Causes`]: the groups that cause work of the runtime on threads where none of their tasks runs.
//!
//! The thread of the clock wakes sleeping tasks, refills quotas and ticks. A tenant that sleeps for
//! a moment again and again uses this thread more than a CPU, so its group is charged: each thread
//! reads its CPU time after the work, and divides it evenly among the wakeups and timers that it
//! was for. A CPU that fires timers in passing has its own clock stand still meanwhile.

use crate::state::group::GroupState;
use std::collections::BTreeMap;
use std::sync::Arc;
use zerolag_model::{CpuId, Duration, GroupId};

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Causes {
    groups: BTreeMap<GroupId, (Arc<GroupState>, u64)>,
    count: u64,
}

impl Causes {
    /// Adds the groups of wakeups, timers or ticks.
    pub(crate) fn extend<'a>(&mut self, groups: impl IntoIterator<Item = &'a Arc<GroupState>>) {
        for group in groups {
            self.count += 1;
            self.groups.entry(group.id).or_insert_with(|| (Arc::clone(group), 0)).1 += 1;
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Charges the groups for CPU time that was used for them.
    pub(crate) fn charge(&self, cpu: CpuId, work: Duration) {
        for (group, part) in self.groups.values() {
            let share = u128::from(work.as_nanos()) * u128::from(*part) / u128::from(self.count);
            group.charge(cpu, Duration::from_nanos(share as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::tests::engine;

    #[test]
    fn work_is_divided_by_the_number_of_causes() {
        shuttle::check_random(divide, 1);
    }

    fn divide() {
        let engine = engine();
        let root = GroupState::root(&engine);
        let group = |id| Arc::new(GroupState::new(GroupId(id), String::new(), None, Arc::clone(&engine)));
        let [one, other] = [1, 2].map(group);
        let mut causes = Causes::default();
        assert!(causes.is_empty());
        causes.extend([&one, &other, &one, &one]);
        causes.charge(CpuId(0), Duration::from_micros(400));
        let debts = [&one, &other, &root].map(|group| group.take_debt());
        assert_eq!(debts, [300, 100, 0].map(Duration::from_micros));
        engine.end();
    }
}
