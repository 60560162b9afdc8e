//! New quota: the end of a period, returned slack, a new limit; and how throttled CPUs get their
//! part, one run queue at a time.
//!
//! Sources: Linux v6.12 `kernel/sched/fair.c`, `sched_cfs_period_timer`, `sched_cfs_slack_timer`,
//! `distribute_cfs_runtime`; `kernel/sched/core.c`, `tg_set_cfs_bandwidth`. differs: the timer's
//! own CPU is not served last, and run queues of other CPUs are locked rather than sent an
//! interrupt (as before 6.3).

use crate::balance::fair::distribute;
use crate::class::fair::bandwidth::{arm, count_scanned};
use crate::entry::scheduler::Scheduler;
use crate::task::io::Io;
use crate::words::clock::Clock;
use crate::words::group::GroupError;
use crate::words::op::GroupTimer;
use crate::words::step::{Distribute, Step};
use lock_api::RawMutex;
use zerolag_model::{CpuId, CpuMax, CpuStat, Duration, GroupId, TraceEvent};

impl<L: RawMutex> Scheduler<L> {
    /// Sets what a group may use (`cpu.max`, `cpu.max.burst`). Its pool is filled at once, and
    /// where it is throttled it may run again; elsewhere a CPU follows when it runs the group next.
    /// `by` is the CPU that does it.
    ///
    /// # Errors
    /// The group does not exist or is the root; the limit is out of range ([`CpuMax::check`]).
    pub fn set_group_max(
        &self,
        group: GroupId,
        max: CpuMax,
        now: Clock,
        by: CpuId,
        io: &mut Io,
    ) -> Result<Step, GroupError> {
        max.check().map_err(GroupError::Max)?;
        let cx = &mut self.cx(by, now, io);
        cx.io.costs.inner_locks += 1;
        let set = self.shared.groups.set_max(group, now.wall, max)?;
        cx.io.event(now, by, || TraceEvent::GroupMax { group, max });
        count_scanned(cx, set.scanned);
        arm(cx, group, GroupTimer::Period, set.arm);
        Ok(distribute::begin(group, Distribute::NewLimit, set.first))
    }

    /// Sets where the periods of a group begin, from the host's time zero on; they do at zero
    /// otherwise. Before its first limit.
    ///
    /// Hosts with `cfs_bandwidth_interleave` draw it, below [`CpuMax::DEFAULT_PERIOD`]: the core
    /// has no random numbers.
    ///
    /// # Errors
    /// The group does not exist or is the root.
    pub fn set_group_phase(&self, group: GroupId, phase: Duration) -> Result<(), GroupError> {
        self.shared.groups.set_phase(group, phase)
    }

    /// Returns what a group may use.
    ///
    /// # Errors
    /// The group does not exist.
    pub fn group_max(&self, group: GroupId) -> Result<CpuMax, GroupError> {
        self.shared.groups.max(group)
    }

    /// Returns what a group's limit has counted since it was made (`cpu.stat`).
    ///
    /// # Errors
    /// The group does not exist.
    pub fn group_stat(&self, group: GroupId) -> Result<CpuStat, GroupError> {
        self.shared.groups.stat(group)
    }

    /// A timer of a group fired, on any CPU. Nothing is done if it is one of the past.
    pub fn group_timer(&self, group: GroupId, timer: GroupTimer, now: Clock, by: CpuId, io: &mut Io) -> Step {
        let cx = &mut self.cx(by, now, io);
        cx.io.costs.inner_locks += 1;
        match timer {
            GroupTimer::Period => {
                let Some(refreshed) = self.shared.groups.refresh(group, now.wall) else { return Step::Done };
                let (runtime, throttled) = (refreshed.runtime, refreshed.first.is_some());
                cx.io.event(now, by, || TraceEvent::BandwidthRefresh { group, runtime, throttled });
                count_scanned(cx, refreshed.scanned);
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
