//! Limits of groups (`cpu.max`) for policies that enforce them: what [`Flatcg`](super::Flatcg) and
//! [`Linux`](super::Linux) share.
//!
//! A kernel hands limits to the loaded scheduler and enforces none. Here each limited group has a
//! pool of CPU time, which is filled once a period:
//!
//! ```text
//!            a turn begins: takes its time [1]
//!   pool  -------------------------------------►  turn
//!    ▲  ◄------------------------------------------ │
//!    │       it ends: gives back what is left, or   │
//!    │       owes what it ran too long [2]          ▼
//!   timer of the period: adds the quota [3]
//! ```
//!
//! \[1\] A turn takes its time out of the pools of its group and of all above, before it runs, so
//! that several CPUs cannot spend the same time. It takes 5 ms at most, as a CPU does in the fair
//! class, and no more than the emptiest pool has. A group is *throttled* while one of these pools
//! is empty. \[2\] A turn ends at a tick, so it can be longer: the pool is then below zero, and the
//! group waits until it has paid. \[3\] A pool has a quota, and what is unused up to the burst. The
//! timer runs until the pool is full.
//!
//! Sources: Linux v7.3 `kernel/sched/fair.c` (`__assign_cfs_rq_runtime`,
//! `__refill_cfs_bandwidth_runtime`, `start_cfs_bandwidth`). differs: the unused time of a turn is
//! given back at once and whole, where a CPU keeps 1 ms; the timer is not stopped before the pool is
//! full, so no burst is lost while a group sleeps.

use crate::scx::Scx;
use crate::storage::PerGroup;
use alloc::vec::Vec;
use zerolag_model::{CpuMax, Duration, GroupId, Instant, SignedDuration};

/// The most that a turn takes out of a pool (`sched_cfs_bandwidth_slice_us`).
const PART: Duration = Duration::from_millis(5);

/// The pools of all groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Budgets {
    pools: PerGroup<Option<Pool>>,
    /// The groups that a policy has taken out of its order, since they must not run.
    held: Vec<GroupId>,
}

/// The pool of a group that has a limit.
#[derive(Clone, Copy, Debug)]
struct Pool {
    quota: Duration,
    period: Duration,
    burst: Duration,
    left: SignedDuration,
    /// When a period began: the others follow from it.
    began: Instant,
    is_armed: bool,
}

impl Pool {
    /// Starts the timer of the period, unless it runs.
    fn arm(&mut self, scx: &mut Scx, group: GroupId) {
        if !core::mem::replace(&mut self.is_armed, true) {
            let into = scx.now().since(self.began).as_nanos() % self.period.as_nanos().max(1);
            scx.timer_start(group.0, Duration::from_nanos(self.period.as_nanos() - into));
        }
    }
}

impl Budgets {
    /// Sets the limit of a group: its pool has a whole quota.
    pub(super) fn set(&mut self, scx: &mut Scx, group: GroupId, limit: CpuMax) {
        scx.timer_cancel(group.0);
        self.pools[group] = limit.quota.map(|quota| Pool {
            quota,
            period: limit.period,
            burst: limit.burst,
            left: quota.to_signed(),
            began: scx.now(),
            is_armed: false,
        });
    }

    /// A group is removed.
    pub(super) fn forget(&mut self, scx: &mut Scx, group: GroupId) {
        scx.timer_cancel(group.0);
        self.pools[group] = None;
        self.held.retain(|other| *other != group);
    }

    /// Notes that a group is out of the order of its policy, because it must not run.
    pub(super) fn hold(&mut self, group: GroupId) {
        self.held.push(group);
    }

    /// Takes out the groups that were held and may run again, in the order in which they were held.
    pub(super) fn release(&mut self, must_wait: impl Fn(&Self, GroupId) -> bool) -> Vec<GroupId> {
        let held = core::mem::take(&mut self.held);
        let (still, again) = held.into_iter().partition(|group| must_wait(self, *group));
        self.held = still;
        again
    }

    /// Returns how long a task of a group may run in one turn; zero while the group is throttled.
    pub(super) fn turn(&self, scx: &Scx, group: GroupId) -> Duration {
        let above = core::iter::successors(Some(group), |at| scx.cgroup_parent(*at));
        let pools = above.filter_map(|at| self.pools[at].as_ref());
        let left = pools.map(|pool| pool.left.max_zero().min(PART)).min();
        scx.slice_dfl().min(left.unwrap_or(Duration::MAX))
    }

    /// Returns whether a task of the group must not run.
    pub(super) fn is_throttled(&self, scx: &Scx, group: GroupId) -> bool {
        self.turn(scx, group).is_zero()
    }

    /// Returns whether the own pool of a group is empty.
    pub(super) fn is_empty(&self, group: GroupId) -> bool {
        self.pools[group].as_ref().is_some_and(|pool| pool.left.max_zero().is_zero())
    }

    /// \[1\] Takes the time of a turn out of the pools.
    pub(super) fn take(&mut self, scx: &mut Scx, group: GroupId, time: Duration) {
        self.change(scx, group, |pool| pool.left = pool.left - time.to_signed());
    }

    /// \[2\] A turn ends that has taken some time and used some.
    pub(super) fn settle(&mut self, scx: &mut Scx, group: GroupId, taken: Duration, used: Duration) {
        self.change(scx, group, |pool| pool.left = pool.left + taken.to_signed() - used.to_signed());
    }

    fn change(&mut self, scx: &mut Scx, group: GroupId, change: impl Fn(&mut Pool)) {
        let mut at = Some(group);
        while let Some(group) = at {
            if self.pools[group].is_some()
                && let Some(pool) = &mut self.pools[group]
            {
                change(pool);
                pool.arm(scx, group);
            }
            at = scx.cgroup_parent(group);
        }
    }

    /// \[3\] The timer of a group's period: fills its pool.
    pub(super) fn refill(&mut self, scx: &mut Scx, group: GroupId) {
        if let Some(pool) = &mut self.pools[group] {
            let full = pool.quota.saturating_add(pool.burst).to_signed();
            pool.left = (pool.left + pool.quota.to_signed()).min(full);
            pool.is_armed = false;
            if pool.left < full {
                pool.arm(scx, group);
            }
        }
    }
}
