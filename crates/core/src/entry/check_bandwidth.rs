//! The invariants of groups across run queues. For tests and debugging hosts.

use crate::entry::scheduler::Scheduler;
use crate::rq::run_queue::Rq;
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::{CpuId, GroupId};

impl<L: RawMutex> Scheduler<L> {
    /// Checks that every pool lists exactly the CPUs on which its group is throttled, and that the
    /// load of each group is the sum of what its queues have published. `rqs` are all run queues.
    ///
    /// # Panics
    /// If it does not; the message names the group.
    pub fn check_bandwidth(&self, rqs: &[&Rq]) {
        let table = &self.shared.groups;
        for group in table.ids().filter(|group| *group != GroupId::ROOT) {
            let mut listed: Vec<CpuId> = table.pool(group).throttled().collect();
            listed.sort_unstable();
            let throttled =
                |rq: &&&Rq| rq.fair.live_queue(table, group).is_some_and(|q| rq.queue(q).bandwidth.is_throttled());
            let found: Vec<CpuId> = rqs.iter().filter(throttled).map(|rq| rq.cpu()).collect();
            assert_eq!(listed, found, "CPUs on which group {group} is throttled");
            let awake = |rq: &&Rq| {
                let q = rq.fair.live_queue(table, group)?;
                Some(rq.queue(q).published).filter(|_| rq.queue(q).sleeps_since == 0)
            };
            let parts: Vec<_> = rqs.iter().filter_map(awake).collect();
            let sums = (
                parts.iter().map(|part| u64::from(part.load)).sum(),
                parts.iter().map(|part| u64::from(part.runnable)).sum(),
            );
            assert_eq!(table.awake(group), sums, "the load of group {group} where it is queued, and its tasks");
            assert!(
                listed.is_empty() || table.pool(group).is_active(),
                "group {group} is throttled, and its pool has no timer that would unthrottle it"
            );
        }
    }
}
