//! New quota: at the end of a period, for returned slack, after a new limit; and its distribution
//! to the throttled CPUs, one run queue at a time.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_cfs_period_timer`, `sched_cfs_slack_timer`,
//! `distribute_cfs_runtime`; `kernel/sched/core.c`, `tg_set_cfs_bandwidth`. differs: the timer's
//! own CPU is not served last, and run queues of other CPUs are locked instead of sending these
//! CPUs an interrupt (as before 6.3).

use crate::balance::fair::distribute;
use crate::class::fair::bandwidth::{arm, count_scanned};
use crate::entry::scheduler::Scheduler;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::group::GroupError;
use crate::words::lines::LineAccess;
use crate::words::op::GroupTimer;
use crate::words::step::{Distribute, Step};
use alloc::vec::Vec;
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, GroupId, TraceEvent};

impl<L: RawMutex> Scheduler<L> {
    /// Sets the limit of a group (`cpu.max`, `cpu.max.burst`). Its pool is filled at once, and the
    /// group runs again on the CPUs where it is throttled. Any other CPU follows the new limit when
    /// it runs the group next. `by` is the calling CPU.
    ///
    /// # Errors
    /// The group does not exist or is the root; the limit is out of range ([`CpuMax::check`]).
    pub fn set_group_max(
        &self,
        group: GroupId,
        mut max: CpuMax,
        now: Clock,
        by: CpuId,
        io: &mut Io,
    ) -> Result<Step, GroupError> {
        max.check().map_err(GroupError::Max)?;
        // A write of `cpu.max` reads the burst in microseconds and stores it in nanoseconds. Here a
        // burst that stays the same is one that was not written after it.
        if self.config.settings.burst_cut && self.shared.groups.max(group)?.burst == max.burst {
            max.burst = max.burst / 1000;
        }
        let cx = &mut self.cx(by, now, io);
        cx.io.costs.inner_locks += 1;
        let set = self.shared.groups.set_max(group, now.wall, max)?;
        self.tell_policy(|host| host.set_bandwidth(group, max));
        cx.io.event(now, by, || TraceEvent::GroupMax { group, max });
        count_scanned(cx, group, set.scanned);
        arm(cx, group, GroupTimer::Period, set.arm);
        Ok(distribute::begin(group, Distribute::NewLimit, set.first))
    }

    /// Sets the time at which the periods of a group start, as an offset from the host's time zero;
    /// the default is 0. Call it before the group's first limit.
    ///
    /// Hosts with `cfs_bandwidth_interleave` draw the offset, below [`CpuMax::DEFAULT_PERIOD`]: the
    /// core has no random numbers.
    ///
    /// # Errors
    /// The group does not exist or is the root.
    pub fn set_group_phase(&self, group: GroupId, phase: Duration) -> Result<(), GroupError> {
        self.shared.groups.set_phase(group, phase)
    }

    /// Returns the limit of a group.
    ///
    /// # Errors
    /// The group does not exist.
    pub fn group_max(&self, group: GroupId) -> Result<CpuMax, GroupError> {
        self.shared.groups.max(group)
    }

    /// Returns the counters of a group's limit since the group was created (`cpu.stat`).
    ///
    /// # Errors
    /// The group does not exist.
    pub fn group_stat(&self, group: GroupId) -> Result<CpuStat, GroupError> {
        self.shared.groups.stat(group)
    }

    /// Returns the quota in the pools of the groups that have a limit, in order of id, for those
    /// that show it. O(groups), or O(groups · CPUs) where pools are divided.
    #[must_use]
    pub fn quota_left(&self) -> Vec<(GroupId, Duration)> {
        let groups = &self.shared.groups;
        let limited = groups.ids().filter(|group| groups.limit(*group) != 0);
        limited.map(|group| (group, groups.pool(group).left())).collect()
    }

    /// Handles an expired timer of a group, on any CPU. An outdated expiry has no effect.
    pub fn group_timer(&self, group: GroupId, timer: GroupTimer, now: Clock, by: CpuId, io: &mut Io) -> Step {
        let cx = &mut self.cx(by, now, io);
        cx.io.costs.inner_locks += 1;
        cx.io.log(LineAccess::Pool { group });
        match timer {
            GroupTimer::Period => {
                let Some(refreshed) = self.shared.groups.refresh(group, now.wall) else { return Step::Done };
                let (runtime, throttled) = (refreshed.runtime, refreshed.first.is_some());
                cx.io.event(now, by, || TraceEvent::BandwidthRefresh { group, runtime, throttled });
                count_scanned(cx, group, refreshed.scanned);
                arm(cx, group, GroupTimer::Period, refreshed.arm);
                distribute::begin(group, Distribute::Quota, refreshed.first)
            }
            GroupTimer::Slack => {
                let slice = self.config.settings.bandwidth_slice;
                let first = self.shared.groups.pool(group).serve_slack(now.wall, slice);
                distribute::begin(group, Distribute::Quota, first)
            }
        }
    }
}
